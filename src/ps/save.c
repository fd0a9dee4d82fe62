/*
 * Taking a snapshot: where are the tables, a clock for each, copies at that clock, files, and
 * last the manifest. Nobody is stopped meanwhile: a part that is past the clock when it hears
 * of it says so, and a later one is tried.
 */
#include "ps/client_priv.h"
#include "ps/snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>

static const double pause_s = 0.002, cut_s = 1, lead_s = 10, drop_s = 10;

/* A table whose clock is so far behind is taken for one that is not being trained. */
static const uint64_t still_clocks = 8;
/* Where nobody has moved for so long, nobody trains: who died was given up before. */
static const int64_t still_ns = 6000000000;

/* A table, as all parts tell of it together. */
typedef struct saved_table {
    char name[64];
    bool is_exact, is_still;
    uint32_t parts;               /* that have it */
    uint64_t most, least, before; /* clocks of the parts; `most` of the look before */
    uint64_t target;
} saved_table;

typedef struct save_part {
    struct saving *of;
    uint32_t part;
    bool is_over, is_past;
    gy_status status;
    uint64_t hash, size_bytes;
} save_part;

typedef struct saving {
    gy_ps *ps;
    const char *name; /* NULL: by its number */
    gy_ps_saved saved;
    uint64_t id, ahead;
    int64_t moved_ns; /* when a table was last seen to have moved */
    gy_deadline deadline;
    saved_table *tables;
    size_t table_count, table_capacity;
    save_part *parts; /* (part_count) */
    int pending;
    gy_error error;
    Gy__Ps__Save save; /* the stage, but for the part */
} saving;

/* ---- Asking all parts ---- */

static saved_table *find_table(saving *at, const char *name)
{
    for (size_t i = 0; i < at->table_count; i++) {
        if (strcmp(at->tables[i].name, name) == 0) {
            return &at->tables[i];
        }
    }
    if (GY_GROW("ps.saving", at->tables, at->table_capacity, at->table_count + 1) < 0) {
        return NULL;
    }
    saved_table *made = &at->tables[at->table_count++];
    *made = (saved_table){.least = UINT64_MAX};
    snprintf(made->name, sizeof(made->name), "%s", name);
    return made;
}

static gy_status take_cuts(saving *at, const Gy__Ps__Saved *saved)
{
    for (size_t i = 0; i < saved->n_cuts; i++) {
        const Gy__Ps__Cut *cut = saved->cuts[i];
        saved_table *table = find_table(at, cut->table);
        if (table == NULL) {
            return GY_NOMEM;
        }
        table->is_exact = cut->is_exact;
        table->most = GY_MAX(table->most, cut->clock);
        table->least = GY_MIN(table->least, cut->clock);
        table->parts++;
    }
    return GY_OK;
}

static void on_saved(void *arg, gy_status status, const ProtobufCMessage *message)
{
    save_part *part = arg;
    saving *at = part->of;
    at->pending--;
    if (status == GY_OK) {
        const Gy__Ps__Saved *saved = (const Gy__Ps__Saved *)message;
        part->is_over = saved->state != PS_SAVE_WAITS;
        part->is_past = saved->state == PS_SAVE_PAST;
        part->hash = saved->hash;
        part->size_bytes = saved->size_bytes;
        at->saved.number = GY_MAX(at->saved.number, saved->number);
        status = take_cuts(at, saved);
    }
    part->status = status;
    if (status < 0) {
        part->is_over = true;
        gy_error_take(&at->error, status);
    }
}

/* One round: those that have not said that the stage is over. */
static gy_status ask_once(saving *at)
{
    gy_ps *ps = at->ps;
    gy_status status = GY_OK;
    for (uint32_t i = 0; i < ps->part_count && status == GY_OK; i++) {
        if (at->parts[i].is_over) {
            continue;
        }
        at->save.part = i;
        status = gy_ps_call(ps, i,
                            &(gy_rpc_request){.type = PS_SAVE,
                                              .message = &at->save.base,
                                              .deadline = at->deadline,
                                              .done = on_saved,
                                              .arg = &at->parts[i]},
                            NULL, at->deadline);
        at->pending += status == GY_OK;
    }
    gy_error why;
    gy_error_take(&why, status);
    (void)gy_ps_drive(ps, &at->pending, GY_NEVER); /* the calls have a deadline */
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}

static bool is_over(const saving *at)
{
    for (uint32_t i = 0; i < at->ps->part_count; i++) {
        if (!at->parts[i].is_over) {
            return false;
        }
    }
    return true;
}

static bool is_past(const saving *at)
{
    for (uint32_t i = 0; i < at->ps->part_count; i++) {
        if (at->parts[i].is_past) {
            return true;
        }
    }
    return false;
}

static void rest(saving *at)
{
    const int nothing = 1;
    (void)gy_ps_drive(at->ps, &nothing, gy_deadline_after(pause_s));
}

/* Go through a stage until all parts have said that it is over, or one that it cannot be, or
 * the deadline: GY_AGAIN. */
static gy_status ask_all(saving *at, ps_save_stage stage, gy_deadline until)
{
    at->save.stage = stage;
    at->error = (gy_error){.status = GY_OK};
    for (uint32_t i = 0; i < at->ps->part_count; i++) {
        at->parts[i] = (save_part){.of = at, .part = i};
    }
    for (;;) {
        GY_TRY(ask_once(at));
        if (is_over(at) || is_past(at)) {
            return at->error.status < 0 ? gy_error_raise(&at->error)
                   : is_past(at)        ? GY_AGAIN
                                        : GY_OK;
        }
        if (gy_now_ns(gy_env_real()) >= until.at_ns) {
            return GY_AGAIN;
        }
        rest(at);
    }
}

/* ---- The clock ---- */

static gy_status look(saving *at)
{
    for (size_t i = 0; i < at->table_count; i++) {
        saved_table *table = &at->tables[i];
        table->before = table->most;
        table->most = 0;
        table->least = UINT64_MAX;
        table->parts = 0;
    }
    GY_TRY(ask_all(at, PS_SAVE_LOOK, at->deadline));
    for (size_t i = 0; i < at->table_count;) {
        if (at->tables[i].most != at->tables[i].before) {
            at->moved_ns = gy_now_ns(gy_env_real());
        }
        if (at->tables[i].parts == 0) {
            at->tables[i] = at->tables[--at->table_count];
        } else {
            i++;
        }
    }
    return at->table_count > 0 ? GY_OK : gy_fail(GY_STATE, "the servers have no tables");
}

/* Is it being opened by a worker? */
static bool is_growing(const saving *at)
{
    for (size_t i = 0; i < at->table_count; i++) {
        if (at->tables[i].parts < at->ps->part_count) {
            return true;
        }
    }
    return false;
}

/* Tables of a training are named alike up to '/'. */
static bool are_together(const saved_table *a, const saved_table *b)
{
    size_t size = strcspn(a->name, "/");
    return size == strcspn(b->name, "/") && memcmp(a->name, b->name, size) == 0;
}

/* Is a table, which was still for a while, so now? One that is one clock behind the others may
 * be between two calls of a worker that stands, or died there. */
static bool is_still(const saving *at, const saved_table *table, uint64_t clock)
{
    const uint64_t behind = clock - GY_MIN(table->most, clock);
    bool is_sure = behind != 1 || gy_now_ns(gy_env_real()) - at->moved_ns > still_ns;
    return behind > still_clocks ||
           (table->is_still && table->most == table->before && is_sure);
}

/* The tables of a training have one clock; those that are not moved by anybody are saved where
 * they are. */
static void choose(saving *at)
{
    for (size_t i = 0; i < at->table_count; i++) {
        saved_table *table = &at->tables[i];
        uint64_t clock = 0;
        bool has_moved = false;
        for (size_t k = 0; k < at->table_count; k++) {
            const saved_table *other = &at->tables[k];
            if (other->is_exact && are_together(table, other)) {
                clock = GY_MAX(clock, other->most);
                has_moved = has_moved || other->most != other->before;
            }
        }
        table->target =
            is_still(at, table, clock) ? table->most : clock + (has_moved ? at->ahead : 0);
    }
}

/* Nobody came to the clock in time: which tables have not moved since the look? */
static void find_still(saving *at)
{
    for (size_t i = 0; i < at->table_count; i++) {
        saved_table *table = &at->tables[i];
        table->is_still = table->most == table->before;
    }
}

static gy_status set_cuts(saving *at, Gy__Ps__Cut **made)
{
    Gy__Ps__Cut *cuts = gy_alloc_zero("ps.saving", at->table_count, sizeof(*cuts));
    Gy__Ps__Cut **list = gy_alloc_zero("ps.saving", at->table_count, sizeof(*list));
    if (cuts == NULL || list == NULL) {
        gy_free(cuts);
        gy_free((void *)list);
        return GY_NOMEM;
    }
    for (size_t i = 0; i < at->table_count; i++) {
        saved_table *table = &at->tables[i];
        list[i] = &cuts[i];
        gy__ps__cut__init(&cuts[i]);
        cuts[i].table = table->name;
        cuts[i].clock = table->target;
        cuts[i].is_exact = table->is_exact;
    }
    at->save.cuts = list;
    at->save.n_cuts = at->table_count;
    *made = cuts;
    return GY_OK;
}

static void unset_cuts(saving *at, Gy__Ps__Cut *cuts)
{
    gy_free((void *)at->save.cuts);
    gy_free(cuts);
    at->save.cuts = NULL;
    at->save.n_cuts = 0;
}

/* Copies at one clock; GY_AGAIN: there are none. */
static gy_status try_cut(saving *at)
{
    gy_env *env = gy_env_real();
    Gy__Ps__Cut *cuts = NULL;
    choose(at);
    GY_TRY(set_cuts(at, &cuts));
    for (size_t i = 0; i < at->table_count; i++) {
        at->tables[i].least = UINT64_MAX;
    }
    at->id = at->save.id = env->ops->random(env, GY_CHANCE_NETWORK) | 1;
    gy_deadline until = gy_deadline_after(cut_s);
    until.at_ns = GY_MIN(until.at_ns, at->deadline.at_ns);
    gy_status status = ask_all(at, PS_SAVE_CUT, until);
    bool was_past = is_past(at);
    unset_cuts(at, cuts);
    if (status == GY_AGAIN && was_past) {
        at->ahead = GY_MAX(at->ahead * 2, (uint64_t)1);
        for (size_t i = 0; i < at->table_count; i++) {
            at->tables[i].is_still = false;
        }
    } else if (status == GY_AGAIN) {
        at->ahead = 0;
        GY_TRY(look(at));
        find_still(at);
    }
    return status;
}

static gy_status copy_all(saving *at)
{
    for (;;) {
        GY_TRY(look(at));
        gy_status status = is_growing(at) ? GY_AGAIN : try_cut(at);
        if (status != GY_AGAIN) {
            return status;
        }
        if (gy_now_ns(gy_env_real()) >= at->deadline.at_ns) {
            return gy_fail(GY_TIMEOUT,
                           "the parts of %zu tables did not come to one clock in "
                           "time: no snapshot was taken",
                           at->table_count);
        }
        rest(at);
    }
}

/* ---- Files ---- */

static gy_status fill_manifest(saving *at, gy_text *packed)
{
    const uint32_t parts = at->ps->part_count;
    const size_t tables = at->table_count;
    Gy__Ps__SnapshotFile *files = gy_alloc_zero("ps.saving", parts, sizeof(*files));
    Gy__Ps__SnapshotFile **file_list = gy_alloc_zero("ps.saving", parts, sizeof(*file_list));
    Gy__Ps__Cut *cuts = gy_alloc_zero("ps.saving", tables, sizeof(*cuts));
    Gy__Ps__Cut **cut_list = gy_alloc_zero("ps.saving", tables, sizeof(*cut_list));
    Gy__Ps__Snapshot snapshot;
    gy__ps__snapshot__init(&snapshot);
    gy_status status = files != NULL && file_list != NULL && cuts != NULL && cut_list != NULL
                           ? GY_OK
                           : GY_NOMEM;
    for (uint32_t i = 0; i < parts && status == GY_OK; i++) {
        file_list[i] = &files[i];
        gy__ps__snapshot_file__init(&files[i]);
        files[i].part = i;
        files[i].hash = at->parts[i].hash;
        files[i].size_bytes = at->parts[i].size_bytes;
        at->saved.size_bytes += files[i].size_bytes;
    }
    for (size_t i = 0; i < tables && status == GY_OK; i++) {
        const saved_table *table = &at->tables[i];
        cut_list[i] = &cuts[i];
        gy__ps__cut__init(&cuts[i]);
        cuts[i].table = at->tables[i].name;
        cuts[i].clock = table->least;
        cuts[i].is_exact = table->is_exact;
        at->saved.clock = GY_MAX(at->saved.clock, table->least);
    }
    snapshot.id = at->id;
    snapshot.cluster = at->save.cluster;
    snapshot.number = at->saved.number;
    snapshot.clock = at->saved.clock;
    snapshot.name = at->saved.name;
    snapshot.n_files = parts;
    snapshot.files = file_list;
    snapshot.n_tables = tables;
    snapshot.tables = cut_list;
    if (status == GY_OK) {
        status = gy_ps_manifest_pack(&snapshot, packed);
    }
    gy_free(files);
    gy_free((void *)file_list);
    gy_free(cuts);
    gy_free((void *)cut_list);
    return status;
}

static gy_status write_all(saving *at)
{
    gy_text manifest = {.data = NULL};
    gy_status status = ask_all(at, PS_SAVE_WRITE, GY_NEVER);
    status = status == GY_OK ? fill_manifest(at, &manifest) : status;
    if (status == GY_OK) {
        at->save.manifest =
            (ProtobufCBinaryData){.len = manifest.size_bytes, .data = (uint8_t *)manifest.data};
        status = ask_all(at, PS_SAVE_FINISH, at->deadline);
        at->save.manifest = (ProtobufCBinaryData){.len = 0};
    }
    gy_text_free(&manifest);
    gy_error why;
    gy_error_take(&why, status);
    if (status < 0) { /* what was written is of no use; the deadline may be over */
        at->deadline = gy_deadline_after(drop_s);
        (void)ask_all(at, PS_SAVE_DROP, at->deadline);
        return gy_error_raise(&why);
    }
    at->saved.parts = at->ps->part_count;
    at->saved.tables = (uint32_t)at->table_count;
    return GY_OK;
}

/* Workers learn from the lead's map which snapshot is the newest. While the lead is away the
 * snapshot is whole all the same. */
static void await_lead(saving *at)
{
    const gy_deadline until = gy_deadline_after(lead_s);
    while (at->ps->route != NULL &&
           gy_ps_route_map(at->ps->route)->saved_number < at->saved.number &&
           gy_now_ns(gy_env_real()) < until.at_ns) {
        rest(at);
    }
}

/* ---- What users call ---- */

static gy_status take(saving *at)
{
    const gy_ps *ps = at->ps;
    gy_env *env = gy_env_real();
    at->deadline = gy_deadline_after(ps->timeout_s);
    at->moved_ns = gy_now_ns(env);
    gy__ps__save__init(&at->save);
    at->save.parts = ps->part_count;
    at->save.cluster = ps->route != NULL ? gy_ps_route_map(ps->route)->cluster : 0;
    at->save.id = env->ops->random(env, GY_CHANCE_NETWORK) | 1;
    at->save.name = at->saved.name;
    if (at->name != NULL) {
        snprintf(at->saved.name, sizeof(at->saved.name), "%s", at->name);
    } else { /* none that anybody has given, until it has a number */
        snprintf(at->saved.name, sizeof(at->saved.name), "new-%016llx",
                 (unsigned long long)at->save.id);
    }
    GY_TRY(look(at));
    const uint64_t number = ++at->saved.number;
    if (at->name == NULL) {
        snprintf(at->saved.name, sizeof(at->saved.name), "snapshot-%llu",
                 (unsigned long long)number);
    }
    GY_TRY(copy_all(at));
    at->saved.number = number;
    GY_TRY(write_all(at));
    await_lead(at);
    return GY_OK;
}

gy_status gy_ps_save(const gy_ps_options *options, const char *name, gy_ps_saved *saved)
{
    saving at = {.name = name};
    if (name != NULL) {
        GY_TRY(gy_ps_snapshot_check_name(name));
    }
    GY_TRY(gy_ps_connect(options, GY_RPC_OPERATOR, &at.ps));
    at.parts = gy_alloc_zero("ps.saving", at.ps->part_count, sizeof(*at.parts));
    gy_ps_enter(at.ps);
    gy_status status = at.parts != NULL ? take(&at) : GY_NOMEM;
    gy_error why;
    gy_error_take(&why, status);
    gy_ps_leave(at.ps);
    gy_ps_disconnect(at.ps);
    gy_free(at.parts);
    gy_free(at.tables);
    if (status < 0) {
        return gy_error_raise(&why);
    }
    if (saved != NULL) {
        *saved = at.saved;
    }
    return GY_OK;
}
