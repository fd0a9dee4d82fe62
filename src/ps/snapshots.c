/*
 * A server's side of snapshots: whoever takes one asks the head of each part where its tables
 * are, names the clock at which each is to be copied, and then has the copies written. A copy
 * is made between two calls; a thread of its own writes it, so that pushes go on and leases are
 * kept.
 */
#include "ps/server_priv.h"
#include "ps/snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>

static const int64_t forget_ns = 30000000000; /* who took it is gone */
/* Who took it may wait for other parts, which are written for longer. */
static const int64_t forget_written_ns = 3600000000000;

/* A table of a part, and where it is to be copied. */
typedef struct saving_cut {
    char table[64];
    uint64_t clock;
    bool is_exact, is_copied;
} saving_cut;

/* A part's place in a snapshot. */
typedef struct ps_saving {
    struct ps_saving *next;
    gy_ps_snapshot_part of;
    int64_t asked_ns;
    saving_cut *cuts;
    size_t cut_count, copied;
    bool is_past;
    bool is_dropped; /* while it was being written: its file is removed then */
    gy_text image;
    /* the thread that writes it */
    gy_env *env;
    const char *folder; /* of ps_snapshots */
    char name[GY_PS_SNAPSHOT_NAME_BYTES];
    gy_thread thread;
    _Atomic bool is_written;
    uint64_t hash, size_bytes;
    gy_error error;
} ps_saving;

typedef struct ps_snapshots {
    char *folder;
    gy_ps_snapshot_list list;
    ps_saving *savings; /* of each part those that are written, and one that is copied */
} ps_snapshots;

/* ---- Open and close ---- */

gy_status gy_ps_snapshots_open(gy_ps_server *server, const char *folder)
{
    ps_snapshots *made = gy_alloc_zero("ps.snapshots", 1, sizeof(*made));
    GY_ASSERT(server->snapshots == NULL);
    if (made == NULL) {
        return GY_NOMEM;
    }
    server->snapshots = made;
    made->folder = gy_copy_text("ps.snapshots", folder);
    return made->folder != NULL ? gy_ps_snapshots_find(server->env, folder, &made->list)
                                : GY_NOMEM;
}

/* Waits for its thread. */
static void saving_free(ps_saving *saving)
{
    if (saving->thread.is_started) {
        gy_thread_join(&saving->thread);
    }
    gy_text_free(&saving->image);
    gy_free(saving->cuts);
    gy_free(saving);
}

void gy_ps_snapshots_close(gy_ps_server *server)
{
    ps_snapshots *at = server->snapshots;
    if (at == NULL) {
        return;
    }
    while (at->savings != NULL) {
        ps_saving *gone = at->savings;
        at->savings = gone->next;
        saving_free(gone);
    }
    gy_ps_snapshots_free(&at->list);
    gy_free(at->folder);
    gy_free(at);
    server->snapshots = NULL;
}

static bool is_writing(ps_saving *saving)
{
    return saving->thread.is_started &&
           !atomic_load_explicit(&saving->is_written, memory_order_acquire); /* write_copy's */
}

static void remove_file(const ps_saving *saving)
{
    if (gy_ps_snapshot_remove(saving->env, saving->folder, saving->name, saving->of.part) < 0) {
        gy_warn("a part of a snapshot that failed is left: %s", gy_error_text());
    }
}

/* Forget one, or what was copied of a part (id 0): but for what is being written, which is
 * forgotten later. */
static void forget(gy_ps_server *server, uint32_t part, uint64_t id)
{
    ps_saving **at = &server->snapshots->savings;
    while (*at != NULL) {
        ps_saving *one = *at;
        bool is_it = id != 0 ? one->of.id == id : !one->thread.is_started;
        if (is_writing(one) || one->of.part != part || !is_it) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        saving_free(one);
    }
}

/* A copy that is written is of no use in memory. */
static void free_written(ps_saving *saving)
{
    if (saving->thread.is_started && !is_writing(saving) && saving->image.data != NULL) {
        gy_text_free(&saving->image);
        saving->image = (gy_text){.data = NULL};
    }
}

/* Forget those that nobody asks for any more. */
void gy_ps_snapshots_tick(gy_ps_server *server)
{
    if (server->snapshots == NULL || server->snapshots->savings == NULL) {
        return;
    }
    const int64_t now_ns = gy_now_ns(server->env);
    for (ps_saving **at = &server->snapshots->savings; *at != NULL;) {
        ps_saving *one = *at;
        const int64_t kept_ns = one->thread.is_started ? forget_written_ns : forget_ns;
        if (is_writing(one) || (now_ns - one->asked_ns <= kept_ns && !one->is_dropped)) {
            free_written(one);
            at = &one->next;
            continue;
        }
        *at = one->next;
        if (one->is_dropped) {
            remove_file(one);
        }
        saving_free(one);
    }
}

/* ---- Begin again ---- */

gy_status gy_ps_server_begin_from(gy_ps_server *server, const Gy__Ps__Snapshot *of,
                                  uint32_t part)
{
    gy_bytes file = {.data = NULL};
    GY_TRY(gy_ps_snapshot_read(server->env, server->snapshots->folder, of, part, &file));
    gy_status status = gy_ps_server_load(server, part, (uint32_t)of->n_files,
                                         file.data + GY_PS_SNAPSHOT_HEAD_BYTES,
                                         file.size_bytes - GY_PS_SNAPSHOT_HEAD_BYTES);
    gy_free(file.data);
    for (uint32_t i = 0; i < server->table_count && status == GY_OK; i++) {
        uint64_t clock = 0;
        const ps_served *table = server->tables[i];
        if (table->part_index == part) {
            status = gy_ps_manifest_clock(of, table->name, &clock);
        }
        if (status == GY_OK && table->part_index == part) {
            gy_ps_part_rewind(table->part, clock);
        }
    }
    if (status == GY_OK) {
        gy_info("part %u begins from snapshot %s, of clock %llu", part, of->name,
                (unsigned long long)of->clock);
    }
    return status;
}

gy_status gy_ps_snapshots_load(gy_ps_server *server, uint32_t part, uint64_t id)
{
    const gy_ps_map *map = gy_ps_chain_map(server->chain);
    const ps_snapshots *at = server->snapshots;
    for (uint32_t i = 0; at != NULL && i < at->list.count; i++) {
        const Gy__Ps__Snapshot *of = at->list.at[i].manifest;
        if (of->id != id) {
            continue;
        }
        return of->cluster == map->cluster && of->n_files == map->chain_count
                   ? gy_ps_server_begin_from(server, of, part)
                   : gy_fail(GY_MISMATCH,
                             "snapshot %s is of cluster %llx and %zu parts: this one is %llx "
                             "and has %u",
                             of->name, (unsigned long long)of->cluster, of->n_files,
                             (unsigned long long)map->cluster, map->chain_count);
    }
    return gy_fail(GY_NOTFOUND,
                   "part %u is to begin from snapshot %llx, which is not in the folder", part,
                   (unsigned long long)id);
}

size_t gy_ps_snapshots_list(const gy_ps_server *server, Gy__Ps__Offer offers[GY_PS_OFFERS_MAX])
{
    static_assert((int)GY_PS_OFFERS_MAX >= (int)GY_PS_SNAPSHOTS_KEPT, "all can be told");
    const ps_snapshots *at = server->snapshots;
    size_t count = 0;
    for (uint32_t i = 0; at != NULL && i < at->list.count; i++) {
        const gy_ps_snapshot_found *found = &at->list.at[i];
        if (found->part_count == 0 || found->manifest->n_files > GY_PS_MAP_PARTS_MAX) {
            continue;
        }
        Gy__Ps__Offer *to = &offers[count++];
        gy__ps__offer__init(to);
        to->id = found->manifest->id;
        to->cluster = found->manifest->cluster;
        to->number = found->manifest->number;
        to->clock = found->manifest->clock;
        to->name = found->manifest->name;
        to->parts = (uint32_t)found->manifest->n_files;
        to->has = found->parts[0];
    }
    return count;
}

gy_status gy_ps_snapshots_resume(gy_ps_server *server)
{
    const ps_snapshots *at = server->snapshots;
    GY_ASSERT(server->chain == NULL && server->table_count == 0);
    uint32_t index = 0;
    while (index < at->list.count && at->list.at[index].part_count == 0) {
        index++; /* what is wrong was logged */
    }
    if (index == at->list.count) {
        return gy_fail(GY_NOTFOUND, "folder %s has no whole snapshot", at->folder);
    }
    const gy_ps_snapshot_found *newest = &at->list.at[index];
    const Gy__Ps__Snapshot *of = newest->manifest;
    if (of->cluster != 0) {
        return gy_fail(GY_MISMATCH,
                       "snapshot %s of folder %s is of cluster %llx: this server has no lead",
                       of->name, at->folder, (unsigned long long)of->cluster);
    }
    if (newest->part_count != 1) {
        return gy_fail(GY_MISMATCH,
                       "folder %s has %u whole parts of snapshot %s: expected one, since a "
                       "server without a lead has one part",
                       at->folder, newest->part_count, of->name);
    }
    uint32_t part = 0;
    while (!gy_ps_snapshot_has(newest, part)) {
        part++;
    }
    GY_TRY(gy_ps_server_begin_from(server, of, part));
    server->begun_from = of->id;
    return GY_OK;
}

/* ---- Copies ---- */

static bool is_exact(const ps_served *table)
{
    gy_ps_rule rule = gy_ps_part_table(table->part)->sync.rule;
    return rule == GY_PS_BSP || rule == GY_PS_BACKUP;
}

static bool is_of_part(const gy_ps_server *server, const ps_served *table, uint32_t part)
{
    return server->chain == NULL || table->part_index == part;
}

/* Copy the table, if it is where it is to be. */
static void cut(ps_saving *saving, saving_cut *at, const ps_served *table)
{
    uint64_t now = gy_ps_part_now(table->part);
    if (at->is_copied || saving->is_past || (at->is_exact && now < at->clock)) {
        return;
    }
    saving->is_past = at->is_exact != is_exact(table) || (at->is_exact && now > at->clock);
    if (saving->is_past) {
        return;
    }
    gy_status status = gy_ps_server_save_table(table, &saving->image);
    if (status < 0) {
        gy_error_take(&saving->error, status);
        saving->is_past = true;
        return;
    }
    at->clock = now;
    at->is_copied = true;
    saving->copied++;
}

void gy_ps_server_cut(gy_ps_server *server, const ps_served *table)
{
    ps_saving *saving = server->snapshots != NULL ? server->snapshots->savings : NULL;
    for (; saving != NULL; saving = saving->next) {
        for (size_t i = 0; i < saving->cut_count; i++) {
            if (saving->of.part == table->part_index && saving->copied < saving->cut_count &&
                strcmp(saving->cuts[i].table, table->name) == 0) {
                cut(saving, &saving->cuts[i], table);
            }
        }
    }
}

static ps_saving *find(const gy_ps_server *server, const Gy__Ps__Save *save)
{
    for (ps_saving *at = server->snapshots->savings; at != NULL; at = at->next) {
        if (at->of.id == save->id && at->of.part == save->part) {
            at->asked_ns = gy_now_ns(server->env);
            return at;
        }
    }
    return NULL;
}

/* The tables that are to be copied are those that the part has. */
static gy_status begin(gy_ps_server *server, const Gy__Ps__Save *save, ps_saving **saving)
{
    ps_snapshots *at = server->snapshots;
    forget(server, save->part, 0);
    ps_saving *made = gy_alloc_zero("ps.saving", 1, sizeof(*made));
    saving_cut *cuts = gy_alloc_zero("ps.saving", save->n_cuts + 1, sizeof(*cuts));
    if (made == NULL || cuts == NULL) {
        gy_free(made);
        gy_free(cuts);
        return GY_NOMEM;
    }
    *made = (ps_saving){.next = at->savings,
                        .of = {.id = save->id, .cluster = save->cluster, .part = save->part},
                        .asked_ns = gy_now_ns(server->env),
                        .cuts = cuts,
                        .cut_count = save->n_cuts,
                        .env = server->env,
                        .folder = at->folder};
    snprintf(made->name, sizeof(made->name), "%s", save->name);
    at->savings = *saving = made;
    const uint64_t count = save->n_cuts;
    gy_text_add_bytes(&made->image, &count, sizeof(count));
    uint32_t own = 0;
    for (uint32_t i = 0; i < server->table_count; i++) {
        own += is_of_part(server, server->tables[i], save->part);
    }
    made->is_past = own != save->n_cuts;
    for (size_t i = 0; i < save->n_cuts; i++) {
        const Gy__Ps__Cut *of = save->cuts[i];
        const ps_served *table = gy_ps_server_find(server, of->table, save->part);
        cuts[i] = (saving_cut){.clock = of->clock, .is_exact = of->is_exact};
        snprintf(cuts[i].table, sizeof(cuts[i].table), "%s", of->table);
        made->is_past = made->is_past || table == NULL || table->part_index != save->part;
        if (!made->is_past) {
            cut(made, &cuts[i], table);
        }
    }
    return GY_OK;
}

/* ---- Writing ---- */

static void *write_copy(void *arg)
{
    ps_saving *saving = arg;
    gy_status status = gy_ps_snapshot_write(saving->env, saving->folder, saving->name,
                                            &saving->of, &saving->image, &saving->hash);
    if (status < 0) {
        gy_error_take(&saving->error, status);
    }
    atomic_store_explicit(&saving->is_written, true, memory_order_release); /* is_writing's */
    return NULL;
}

/* Two clients may have chosen one name at once; one of them may be gone. */
static gy_status need_name(gy_ps_server *server, const ps_saving *saving)
{
    const ps_snapshots *at = server->snapshots;
    const int64_t since_ns = gy_now_ns(server->env) - forget_ns;
    for (ps_saving *other = at->savings, *next = NULL; other != NULL; other = next) {
        next = other->next;
        if (other == saving || other->of.part != saving->of.part || !other->thread.is_started ||
            strcmp(other->name, saving->name) != 0) {
            continue;
        }
        if (is_writing(other) || other->asked_ns >= since_ns) {
            return gy_fail(GY_EXISTS, "another snapshot %s is being taken", saving->name);
        }
        forget(server, other->of.part, other->of.id);
    }
    return gy_ps_snapshot_check_free(server->env, at->folder, saving->name, saving->of.id);
}

static gy_status serve_write(gy_ps_server *server, const Gy__Ps__Save *save,
                             Gy__Ps__Saved *saved)
{
    ps_saving *saving = find(server, save);
    if (saving == NULL || saving->copied < saving->cut_count || saving->is_past) {
        return gy_fail(GY_NOTFOUND, "part %u: no copy for snapshot %s is here", save->part,
                       save->name);
    }
    if (!saving->thread.is_started) {
        GY_TRY(need_name(server, saving));
        saving->size_bytes = saving->image.size_bytes;
        GY_TRY(gy_thread_start(&saving->thread, "gyre-snapshot", write_copy, saving));
    }
    if (is_writing(saving)) {
        return GY_OK;
    }
    if (saving->error.status < 0) {
        return gy_error_raise(&saving->error);
    }
    saved->state = PS_SAVE_DONE;
    saved->hash = saving->hash;
    saved->size_bytes = saving->size_bytes;
    return GY_OK;
}

/* The manifest is of this snapshot, and this server has written the part that it tells of: a
 * head that is new has not. */
static gy_status judge_manifest(const gy_ps_server *server, const Gy__Ps__Save *save,
                                const Gy__Ps__Snapshot *manifest)
{
    if (manifest->id != save->id || save->part >= manifest->n_files ||
        strcmp(manifest->name, save->name) != 0) {
        return gy_fail(GY_FORMAT, "a manifest of another snapshot");
    }
    ps_saving *saving = find(server, save);
    bool is_written = saving != NULL && saving->thread.is_started && !is_writing(saving) &&
                      saving->error.status == GY_OK &&
                      saving->hash == manifest->files[save->part]->hash;
    return is_written ? GY_OK
                      : gy_fail(GY_NOTFOUND, "part %u: no file of snapshot %s is here",
                                save->part, save->name);
}

static bool is_finished(const ps_snapshots *at, const Gy__Ps__Save *save)
{
    for (uint32_t i = 0; i < at->list.count; i++) {
        if (at->list.at[i].manifest->id == save->id &&
            gy_ps_snapshot_has(&at->list.at[i], save->part)) {
            return true;
        }
    }
    return false;
}

static gy_status serve_finish(gy_ps_server *server, const Gy__Ps__Save *save,
                              Gy__Ps__Saved *saved)
{
    ps_snapshots *at = server->snapshots;
    Gy__Ps__Snapshot *manifest = NULL;
    if (is_finished(at, save)) { /* it was said before */
        saved->state = PS_SAVE_DONE;
        return GY_OK;
    }
    GY_TRY(gy_ps_manifest_unpack(save->manifest.data, save->manifest.len, &manifest));
    gy_status status = judge_manifest(server, save, manifest);
    if (status == GY_OK) {
        status = gy_ps_snapshot_finish(server->env, at->folder, manifest);
    }
    if (status < 0) {
        gy_ps_manifest_free(manifest);
        return status;
    }
    gy_ps_snapshots_add(&at->list, manifest, save->part);
    forget(server, save->part, save->id);
    saved->state = PS_SAVE_DONE;
    return GY_OK;
}

/* Others' snapshots of the part stay. */
static void drop_copy(gy_ps_server *server, const Gy__Ps__Save *save)
{
    ps_saving *saving = find(server, save);
    if (saving == NULL || is_writing(saving)) {
        if (saving != NULL) {
            saving->is_dropped = true;
        }
        return;
    }
    if (saving->thread.is_started) {
        remove_file(saving);
    }
    forget(server, save->part, save->id);
}

/* ---- Calls ---- */

/* Where the tables of a part are, or were when they were copied. */
static gy_status list_tables(const gy_ps_server *server, uint32_t part, ps_saving *saving,
                             Gy__Ps__Cut **cuts, size_t *count)
{
    size_t most = GY_MAX((size_t)server->table_count, saving != NULL ? saving->cut_count : 0);
    *cuts = gy_alloc_zero("ps.saving", most + 1, sizeof(**cuts));
    if (*cuts == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; saving != NULL && i < saving->cut_count; i++) {
        Gy__Ps__Cut *to = &(*cuts)[(*count)++];
        gy__ps__cut__init(to);
        to->table = saving->cuts[i].table;
        to->clock = saving->cuts[i].clock;
        to->is_exact = saving->cuts[i].is_exact;
    }
    for (uint32_t i = 0; saving == NULL && i < server->table_count; i++) {
        ps_served *table = server->tables[i];
        if (is_of_part(server, table, part)) {
            Gy__Ps__Cut *to = &(*cuts)[(*count)++];
            gy__ps__cut__init(to);
            to->table = table->name;
            to->clock = gy_ps_part_now(table->part);
            to->is_exact = is_exact(table);
        }
    }
    return GY_OK;
}

/* Who saves lists the servers as those did that opened the tables, all of them. */
static gy_status check_parts(const gy_ps_server *server, const Gy__Ps__Save *save)
{
    for (uint32_t i = 0; i < server->table_count; i++) {
        const ps_served *table = server->tables[i];
        if (is_of_part(server, table, save->part) &&
            (table->part_index != save->part || table->parts != save->parts)) {
            return gy_fail(GY_MISMATCH,
                           "table %s: this server has part %u of %u, and was asked for part %u "
                           "of %u: the lists of servers differ",
                           table->name, table->part_index, table->parts, save->part,
                           save->parts);
        }
    }
    return GY_OK;
}

static gy_status serve_cut(gy_ps_server *server, const Gy__Ps__Save *save, Gy__Ps__Saved *saved,
                           ps_saving **copied)
{
    ps_saving *saving = find(server, save);
    if (saving == NULL) {
        GY_TRY(begin(server, save, &saving));
    }
    if (saving->error.status < 0) {
        return gy_error_raise(&saving->error);
    }
    bool is_over = saving->copied == saving->cut_count;
    saved->state = saving->is_past ? PS_SAVE_PAST : is_over ? PS_SAVE_DONE : PS_SAVE_WAITS;
    *copied = saved->state == PS_SAVE_DONE ? saving : NULL;
    return GY_OK;
}

static gy_status serve_stage(gy_ps_server *server, const Gy__Ps__Save *save,
                             Gy__Ps__Saved *saved, ps_saving **copied)
{
    const ps_snapshots *at = server->snapshots;
    switch (save->stage) {
    case PS_SAVE_LOOK:
        saved->state = PS_SAVE_DONE;
        saved->number = at->list.number;
        GY_TRY(check_parts(server, save));
        return gy_ps_snapshot_check_free(server->env, at->folder, save->name, save->id);
    case PS_SAVE_CUT:
        return serve_cut(server, save, saved, copied);
    case PS_SAVE_WRITE:
        return serve_write(server, save, saved);
    case PS_SAVE_FINISH:
        return serve_finish(server, save, saved);
    case PS_SAVE_DROP:
        saved->state = PS_SAVE_DONE;
        drop_copy(server, save);
        return GY_OK;
    default:
        return gy_fail(GY_FORMAT, "stage %u of a snapshot: another version of Gyre?",
                       save->stage);
    }
}

gy_status gy_ps_server_save(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request)
{
    static const gy_rpc_lent nothing = {.data = NULL};
    gy_ps_server *server = arg;
    const Gy__Ps__Save *save = (const Gy__Ps__Save *)request;
    Gy__Ps__Cut *cuts = NULL;
    Gy__Ps__Cut **list = NULL;
    ps_saving *copied = NULL;
    Gy__Ps__Saved saved;
    gy__ps__saved__init(&saved);
    if (server->snapshots == NULL) {
        return gy_fail(GY_STATE, "server %s has no folder for snapshots", server->address);
    }
    if (save->id == 0 || save->part >= GY_PS_SNAPSHOT_PARTS_MAX ||
        save->n_cuts > GY_PS_SNAPSHOT_TABLES_MAX) {
        return gy_fail(GY_ARG, "snapshot %llx of part %u and %zu tables",
                       (unsigned long long)save->id, save->part, save->n_cuts);
    }
    GY_TRY(gy_ps_snapshot_check_name(save->name));
    gy_status status = serve_stage(server, save, &saved, &copied);
    if (status == GY_OK && (copied != NULL || save->stage == PS_SAVE_LOOK)) {
        status = list_tables(server, save->part, copied, &cuts, &saved.n_cuts);
    }
    if (status == GY_OK && saved.n_cuts > 0) {
        list = gy_alloc("ps.saving", saved.n_cuts * sizeof(*list));
        status = list != NULL ? GY_OK : GY_NOMEM;
    }
    for (size_t i = 0; status == GY_OK && i < saved.n_cuts; i++) {
        list[i] = &cuts[i];
    }
    saved.cuts = list;
    if (status == GY_OK) { /* as a read: no head that was replaced answers it */
        status = server->chain != NULL ? gy_ps_chain_answer(server->chain, save->part, asked,
                                                            &saved.base, &nothing)
                                       : gy_rpc_answer(server->rpc, asked, &saved.base);
    }
    gy_free((void *)list);
    gy_free(cuts);
    return status;
}
