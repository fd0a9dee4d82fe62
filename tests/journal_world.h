/**
 * Managers of several epochs with one journal on a simulated disk that they share. Each is a
 * fiber that stops before every call of the disk that another one could notice.
 */
#ifndef GY_TESTS_JOURNAL_WORLD_H
#define GY_TESTS_JOURNAL_WORLD_H

#include "base/base.h"
#include "base/disk.h"
#include "persist/journal/journal.h"
#include "persist/journal/journal_priv.h"
#include "sched/manager.h"
#include "sched/state/records.h"
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fibers_kit.h"

enum { MANAGERS = 4, ROUNDS_MAX = 3, BELIEF_BYTES = 64 << 10, OBJECTS = 128 };

typedef struct world world;

/* One manager, and its host's view of the disk. */
typedef struct believer {
    gy_env env; /* first */
    world *in;
    fiber fiber;
    gy_random random; /* what it writes */
    uint64_t epoch, names;
    int rounds;    /* of appending and syncing */
    bool ends_job; /* after them, and removes the journal: */
    bool is_removing;
    bool is_started; /* its fiber has its call */
    bool is_dead;    /* no call of it does anything any more */
    bool lies_next;  /* the answer to its next link is lost */
    gy_status opened, ended;
    int acknowledged; /* rounds */
    uint8_t belief[BELIEF_BYTES];
    size_t taken_bytes, belief_bytes;
    /* What its host has not sent: nobody else sees that before a sync. */
    int own_file;
    size_t unsent_bytes;
    uint8_t unsent[BELIEF_BYTES];
} believer;

typedef struct object {
    char name[48];
    uint8_t *data; /* NULL: none */
    size_t size_bytes;
} object;

struct world {
    gy_sim *sim;
    bool is_store; /* objects instead of a disk */
    object objects[OBJECTS];
    believer managers[MANAGERS + 1]; /* the last one comes when all is over */
    int manager_count;
    bool is_cached; /* hosts keep what was not synced */
    bool is_quiet;  /* no fault has come */
    bool is_ended;  /* the job: somebody knows that */
    bool is_traced;
    gy_random chance;
    uint8_t truth[BELIEF_BYTES]; /* the longest that was acknowledged to any */
    size_t truth_bytes;
    uint64_t acknowledged, superseded, switches;
    char wrong[256];
};

static void world_wrong(world *at, const char *what, uint64_t epoch)
{
    if (at->wrong[0] == '\0') {
        snprintf(at->wrong, sizeof(at->wrong), "%s (epoch %llu)", what,
                 (unsigned long long)epoch);
    }
}

/* ---- the disk as a manager's host sees it ---- */

static believer *of(gy_env *env)
{
    return (believer *)env;
}

static gy_env *storage(const believer *at)
{
    return gy_sim_env(at->in->sim, 0);
}

/* Before a call that others may notice. False: the manager is dead. */
static bool stops(believer *at, const char *call, const char *path)
{
    if (!at->is_dead) {
        fiber_stop();
    }
    if (at->in->is_traced && !at->is_dead) {
        printf("  epoch %llu %s %s\n", (unsigned long long)at->epoch, call, path);
    }
    return !at->is_dead;
}

static bool is_hidden(const char *path)
{
    return strstr(path, ".tmp") != NULL;
}

static int host_open(gy_env *env, const char *path, int flags, unsigned mode)
{
    believer *at = of(env);
    bool is_folder = (flags & O_DIRECTORY) != 0, is_look = (flags & O_PATH) != 0;
    if (at->is_dead ||
        (!is_hidden(path) && !is_folder && !is_look && !stops(at, "opens", path))) {
        return -EIO;
    }
    int file = gy_env_disk(storage(at))->open(storage(at), path, flags, mode);
    if (file >= 0 && (flags & O_APPEND) != 0) {
        at->own_file = file;
    }
    return file;
}

static int host_close(gy_env *env, int file)
{
    believer *at = of(env);
    return at->is_dead ? 0 : gy_env_disk(storage(at))->close(storage(at), file);
}

static int64_t host_size(gy_env *env, int file)
{
    believer *at = of(env);
    return at->is_dead ? -EIO : gy_env_disk(storage(at))->size(storage(at), file);
}

static int64_t host_read(gy_env *env, int file, void *data, size_t size_bytes)
{
    believer *at = of(env);
    return stops(at, "reads", "")
               ? gy_env_disk(storage(at))->read(storage(at), file, data, size_bytes)
               : -EIO;
}

/* Send the first of what waits; 0 or a negated errno. */
static int64_t send_unsent(believer *at, size_t size_bytes)
{
    size_t sent = 0;
    int64_t done = 1;
    while (sent < size_bytes && done > 0) {
        done = gy_env_disk(storage(at))
                   ->write(storage(at), at->own_file, at->unsent + sent, size_bytes - sent);
        sent += done > 0 ? (size_t)done : 0;
    }
    memmove(at->unsent, at->unsent + sent, at->unsent_bytes - sent);
    at->unsent_bytes -= sent;
    return done < 0 ? done : 0;
}

static int64_t host_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    believer *at = of(env);
    if (at->is_dead || (file == at->own_file && !stops(at, "writes", ""))) {
        return -EIO;
    }
    if (!at->in->is_cached || file != at->own_file) {
        return gy_env_disk(storage(at))->write(storage(at), file, data, size_bytes);
    }
    if (at->unsent_bytes + size_bytes > BELIEF_BYTES) {
        return -ENOSPC;
    }
    memcpy(at->unsent + at->unsent_bytes, data, size_bytes);
    at->unsent_bytes += size_bytes;
    /* Its host sends some of it whenever it likes. */
    int64_t error = gy_random_below(&at->in->chance, 3) == 0
                        ? send_unsent(at, gy_random_below(&at->in->chance, at->unsent_bytes))
                        : 0;
    return error < 0 ? error : (int64_t)size_bytes;
}

static int host_sync(gy_env *env, int file)
{
    believer *at = of(env);
    if (!stops(at, "syncs", file == at->own_file ? "its own" : "")) {
        return -EIO;
    }
    int64_t error = file == at->own_file ? send_unsent(at, at->unsent_bytes) : 0;
    return error < 0 ? (int)error : gy_env_disk(storage(at))->sync(storage(at), file);
}

static int host_unlink(gy_env *env, const char *path)
{
    believer *at = of(env);
    return at->is_dead || (!is_hidden(path) && !stops(at, "removes", path))
               ? -EIO
               : gy_env_disk(storage(at))->unlink(storage(at), path);
}

static int host_link(gy_env *env, const char *from, const char *to)
{
    believer *at = of(env);
    if (!stops(at, "creates", to)) {
        return -EIO;
    }
    int error = gy_env_disk(storage(at))->link(storage(at), from, to);
    if (at->lies_next) {
        at->lies_next = false;
        return error == 0 ? -EEXIST : -EIO;
    }
    return error;
}

static int64_t host_links(gy_env *env, const char *path)
{
    believer *at = of(env);
    return at->is_dead ? -EIO : gy_env_disk(storage(at))->links(storage(at), path);
}

static int host_list(gy_env *env, const char *folder, gy_disk_visit visit, void *arg)
{
    believer *at = of(env);
    return stops(at, "lists", folder)
               ? gy_env_disk(storage(at))->list(storage(at), folder, visit, arg)
               : -EIO;
}

static int64_t host_now(gy_env *env)
{
    (void)env;
    return 1;
}

/* Names of hidden files: no two alike. */
static uint64_t host_random(gy_env *env, gy_chance concern)
{
    (void)concern;
    believer *at = of(env);
    return at->epoch << 32 | at->names++;
}

static const gy_disk_ops host_disk = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .size = host_size,
    .read = host_read,
    .write = host_write,
    .sync = host_sync,
    .unlink = host_unlink,
    .link = host_link,
    .links = host_links,
    .list = host_list,
};

static const gy_env_ops host_ops = {
    .name = "host", .now_ns = host_now, .random = host_random, .disk = &host_disk};

/* ---- a store as a manager sees it ---- */

static object *find_object(world *at, const char *name)
{
    for (int i = 0; i < OBJECTS; i++) {
        if (at->objects[i].data != NULL && strcmp(at->objects[i].name, name) == 0) {
            return &at->objects[i];
        }
    }
    return NULL;
}

static gy_status store_create(void *arg, const char *name, const void *data, size_t size_bytes)
{
    believer *at = arg;
    object *free_one = at->in->objects;
    if (!stops(at, "creates", name)) {
        return gy_fail(GY_IO, "dead");
    }
    if (find_object(at->in, name) != NULL) {
        return gy_fail(GY_EXISTS, "%s is there", name);
    }
    while (free_one->data != NULL) {
        free_one++;
    }
    GY_ASSERT(free_one < at->in->objects + OBJECTS);
    snprintf(free_one->name, sizeof(free_one->name), "%s", name);
    free_one->data = gy_alloc("test", size_bytes + 1);
    free_one->size_bytes = size_bytes;
    memcpy(free_one->data, data, size_bytes);
    if (at->lies_next) { /* it does not know whether it was done */
        at->lies_next = false;
        return gy_fail(GY_IO, "no answer");
    }
    return GY_OK;
}

static gy_status store_read(void *arg, const char *name, void *data, size_t room,
                            size_t *size_bytes)
{
    believer *at = arg;
    if (!stops(at, "reads", name)) {
        return gy_fail(GY_IO, "dead");
    }
    const object *found = find_object(at->in, name);
    if (found == NULL) {
        return gy_fail(GY_NOTFOUND, "no %s", name);
    }
    *size_bytes = found->size_bytes;
    if (found->size_bytes > room) {
        return gy_fail(GY_LIMIT, "no room");
    }
    memcpy(data, found->data, found->size_bytes);
    return GY_OK;
}

static gy_status store_list(void *arg, gy_status (*visit)(void *to, const char *name), void *to)
{
    believer *at = arg;
    if (!stops(at, "lists", "")) {
        return gy_fail(GY_IO, "dead");
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (at->in->objects[i].data != NULL) {
            GY_TRY(visit(to, at->in->objects[i].name));
        }
    }
    return GY_OK;
}

static void drop_object(object *found)
{
    if (found != NULL) {
        gy_free(found->data);
        found->data = NULL;
    }
}

static gy_status store_remove(void *arg, const char *name)
{
    believer *at = arg;
    if (!stops(at, "removes", name)) {
        return gy_fail(GY_IO, "dead");
    }
    drop_object(find_object(at->in, name));
    return GY_OK;
}

static gy_journal_store store_of(believer *at)
{
    return (gy_journal_store){.create = store_create,
                              .read = store_read,
                              .list = store_list,
                              .remove = store_remove,
                              .arg = at};
}

/* ---- what a manager does ---- */

static gy_status take(void *arg, const void *records, size_t size_bytes, size_t *used)
{
    believer *at = arg;
    if (size_bytes > sizeof(at->belief)) {
        return gy_fail(GY_LIMIT, "the story is too long");
    }
    memcpy(at->belief, records, size_bytes);
    at->taken_bytes = at->belief_bytes = size_bytes;
    *used = gy_manager_measure(records, size_bytes);
    return GY_OK;
}

static size_t make_record(believer *at, record_kind kind, uint8_t *out)
{
    record_head head = {.size_bytes = (uint32_t)gy_random_below(&at->random, 700) + 8,
                        .kind = kind};
    uint8_t *body = out + sizeof(head);
    for (uint32_t i = 0; i < head.size_bytes; i++) {
        body[i] = (uint8_t)(at->epoch * 16 + (uint64_t)at->acknowledged);
    }
    head.checksum = gy_hash(body, head.size_bytes, (uint64_t)head.kind << 32 | head.size_bytes);
    memcpy(out, &head, sizeof(head));
    return sizeof(head) + head.size_bytes;
}

/* Who was told that what it believes stands: all who were told so before it believe that too.
 */
static void acknowledge(believer *at)
{
    world *in = at->in;
    size_t both = GY_MIN(in->truth_bytes, at->belief_bytes);
    in->acknowledged++;
    at->acknowledged++;
    if (in->is_ended) {
        world_wrong(in, "acknowledged something after the end of the job", at->epoch);
    }
    if (at->belief_bytes < in->truth_bytes) {
        world_wrong(in, "acknowledged less than was acknowledged before", at->epoch);
    } else if (memcmp(in->truth, at->belief, both) != 0) {
        world_wrong(in, "acknowledged something else than was before", at->epoch);
    }
    memcpy(in->truth, at->belief, at->belief_bytes);
    in->truth_bytes = at->belief_bytes;
}

static gy_status write_round(believer *at, gy_journal *journal)
{
    uint64_t records = gy_random_below(&at->random, 3) + 1;
    for (uint64_t i = 0; i < records; i++) {
        uint8_t *record = at->belief + at->belief_bytes;
        size_t size = make_record(at, RECORD_LEARNT, record);
        GY_TRY(gy_journal_append(journal, record, size));
        at->belief_bytes += size;
        if (gy_random_below(&at->random, 3) == 0) {
            GY_TRY(gy_journal_flush(journal));
        }
    }
    GY_TRY(gy_journal_sync(journal));
    acknowledge(at);
    return GY_OK;
}

/* The records that were taken have the job's end. */
static bool has_end(const believer *at)
{
    for (size_t next = 0; next < at->belief_bytes;) {
        record_head head;
        memcpy(&head, at->belief + next, sizeof(head));
        if (head.kind == RECORD_END) {
            return true;
        }
        next += sizeof(head) + head.size_bytes;
    }
    return false;
}

static gy_status end_job(believer *at, gy_journal *journal)
{
    if (!has_end(at)) {
        uint8_t *record = at->belief + at->belief_bytes;
        size_t size = make_record(at, RECORD_END, record);
        GY_TRY(gy_journal_append(journal, record, size));
        at->belief_bytes += size;
        GY_TRY(gy_journal_sync(journal));
        acknowledge(at);
    }
    at->in->is_ended = true; /* also by one who was not told that it stands */
    const gy_journal_store store = store_of(at);
    at->is_removing = true;
    return at->in->is_store ? gy_journal_objects_remove(&store, "/job")
                            : gy_journal_remove(&at->env, "/job");
}

static void live(void *arg)
{
    believer *at = arg;
    gy_journal *journal = NULL;
    const gy_journal_store store = store_of(at);
    const gy_journal_options options = {.folder = "/job",
                                        .epoch = at->epoch,
                                        .owner = "me",
                                        .take = take,
                                        .measure = gy_manager_measure,
                                        .arg = at,
                                        .store = at->in->is_store ? &store : NULL};
    at->opened = at->ended = gy_journal_open(&at->env, &options, &journal);
    for (int i = 0; i < at->rounds && at->ended == GY_OK && !has_end(at); i++) {
        at->ended = write_round(at, journal);
    }
    if (at->ended == GY_OK && (at->ends_job || has_end(at))) {
        at->ended = end_job(at, journal);
    }
    at->in->superseded += at->ended == GY_STATE;
    gy_journal_close(journal);
}

/* ---- the world ---- */

static void believer_init(world *at, int index, uint64_t epoch, int rounds)
{
    believer *one = &at->managers[index];
    const fiber kept = one->fiber;
    memset(one, 0, offsetof(believer, belief));
    one->fiber = kept;
    one->taken_bytes = one->belief_bytes = one->unsent_bytes = 0;
    one->env.ops = &host_ops;
    one->in = at;
    one->epoch = epoch;
    one->rounds = rounds;
    one->own_file = -1;
    one->opened = one->ended = GY_AGAIN;
    one->random = (gy_random){.key = epoch * 977 + at->chance.key};
}

static void world_begin(world *at, uint64_t seed, int managers)
{
    const gy_sim_options options = {.seed = seed, .nodes = 1};
    gy_sim_free(at->sim);
    at->sim = NULL;
    assert_int_equal(gy_sim_new(&options, &at->sim), GY_OK);
    at->manager_count = managers;
    at->chance = (gy_random){.key = seed};
    for (int i = 0; i < OBJECTS; i++) {
        drop_object(&at->objects[i]);
    }
    at->is_cached = at->is_store = false;
    at->is_quiet = true;
    at->is_ended = false;
    at->truth_bytes = 0;
    at->wrong[0] = '\0';
    for (int i = 0; i < managers; i++) {
        believer_init(at, i, (uint64_t)i + 1, 2);
    }
}

static void world_step(world *at, int index)
{
    believer *one = &at->managers[index];
    if (!one->is_started) {
        one->is_started = true;
        fiber_begin(&one->fiber, live, one);
    }
    at->switches++;
    fiber_step(&one->fiber);
}

static bool is_done(const believer *one)
{
    return one->is_started && !one->fiber.is_busy;
}

/* From now on nothing of it happens. */
static void world_kill(world *at, int index)
{
    believer *one = &at->managers[index];
    one->is_dead = true;
    while (!is_done(one)) {
        world_step(at, index);
    }
}

/* The machine of the disk stops, with all that use it. */
static void world_crash(world *at)
{
    for (int i = 0; i < at->manager_count; i++) {
        if (at->managers[i].is_started && !is_done(&at->managers[i])) {
            world_kill(at, i);
        }
    }
    gy_sim_crash(at->sim, 0);
    gy_sim_restart(at->sim, 0);
}

/* What each took is the beginning of what every later one takes. */
static void check_chain(world *at)
{
    const believer *before = NULL;
    for (int i = 0; i <= at->manager_count; i++) {
        const believer *one = &at->managers[i];
        if (one->opened != GY_OK) {
            continue;
        }
        if (before != NULL && (before->taken_bytes > one->taken_bytes ||
                               memcmp(before->belief, one->belief, before->taken_bytes) != 0)) {
            world_wrong(at, "took something else than the one before it", one->epoch);
        }
        before = one;
    }
}

static void check_ends(world *at)
{
    for (int i = 0; i < at->manager_count; i++) {
        const believer *one = &at->managers[i];
        bool is_last = i == at->manager_count - 1;
        if (!one->is_started || one->is_dead) {
            continue;
        }
        if (one->ended != GY_OK && one->ended != GY_STATE && one->ended != GY_IO) {
            world_wrong(at, gy_status_text(one->ended), one->epoch);
        }
        if (one->ended == GY_IO && at->is_quiet && !at->is_ended) {
            world_wrong(at, "failed on a disk that does not", one->epoch);
        }
        if (is_last && at->is_quiet && !at->is_ended && one->acknowledged != one->rounds) {
            world_wrong(at, "the highest epoch was stopped", one->epoch);
        }
    }
}

/* A last manager, of the next epoch, finds all that was acknowledged to anybody. */
static void world_end(world *at)
{
    check_ends(at);
    believer *last = &at->managers[at->manager_count];
    gy_sim_set_faults(at->sim, 0, &(gy_sim_faults){.capacity_bytes = 0});
    believer_init(at, at->manager_count, 0, 1); /* as who resumes without a cluster */
    size_t truth_bytes = at->truth_bytes;
    while (!is_done(last)) {
        world_step(at, at->manager_count);
    }
    if (at->is_ended && last->ended == GY_STATE) {
        check_chain(at); /* it knows that nothing is left to be done */
        return;
    }
    if (last->ended != GY_OK) {
        world_wrong(at, "the last manager cannot go on", last->epoch);
    } else if (last->taken_bytes < truth_bytes ||
               memcmp(last->belief, at->truth, truth_bytes) != 0) {
        world_wrong(at, "the last manager found less than was acknowledged", last->epoch);
    }
    check_chain(at);
}

static void world_free(world *at)
{
    for (int i = 0; i <= MANAGERS; i++) {
        if (at->managers[i].fiber.stack != NULL) {
            fiber_free(&at->managers[i].fiber);
        }
    }
    gy_sim_free(at->sim);
    test_free(at);
}

#endif
