/*
 * How managers of a simulated cluster begin, wait, speak and end, whatever they are.
 */
#ifndef GY_TESTS_CLUSTER_MANAGERS_H
#define GY_TESTS_CLUSTER_MANAGERS_H

#include "cluster_checks.h"
#include "cluster_hosts.h"

/* Again and again, from its beginning on. */
static inline void model_ticks(void *arg);
/* It is dead: what stands for it goes. */
static inline void model_gone(world *at, const model *who);

static inline model *later_model(later *what, gy_env_fire fire)
{
    world *at = what->at;
    model *who = &at->models[what->index];
    if (at->is_over || !who->is_there || who->serial != what->life) {
        gy_free(what);
        return NULL;
    }
    int64_t until_ns =
        GY_MAX(who->stopped_until_ns, world_host(at, who->node)->stopped_until_ns);
    if (until_ns > world_now(at)) {
        world_at(at, until_ns - world_now(at), fire, what);
        return NULL;
    }
    return who;
}

static inline void manager_down(void *arg)
{
    later *what = arg;
    if (later_host(what, manager_down) != NULL) {
        gy_daemon_event event = {.kind = GY_DAEMON_MANAGER_DOWN,
                                 .job = what->at->jobs[what->job].key,
                                 .epoch = what->epoch};
        host_tell(what->at, what->index, &event);
        gy_free(what);
    }
}

/* is_told: its daemon is there and sees it go. */
static inline void model_ends(world *at, model *who, bool is_told)
{
    if (!who->is_there) {
        return;
    }
    who->is_there = false;
    model_gone(at, who);
    if (is_told) {
        later *what = host_later(at, who->node);
        what->job = who->job;
        what->epoch = who->epoch;
        world_at(at, ms, manager_down, what);
    }
}

static inline void model_starts(world *at, int node, uint32_t job, uint32_t epoch)
{
    model *who = NULL;
    for (int i = 0; i < MODELS && who == NULL; i++) {
        who = !at->models[i].is_there ? &at->models[i] : NULL;
    }
    if (who == NULL || epoch >= EPOCHS) {
        world_wrong(at, "too many managers", epoch);
        return;
    }
    if (at->jobs[job].used[epoch]) {
        world_wrong(at, "an epoch has two managers", epoch);
    }
    /* Of two name servers one may have stored an epoch before the other stored the end, and
     * hear of it later. */
    const uint32_t late = at->servers[1].life > 0 || at->servers[1].machine != NULL;
    if (at->jobs[job].is_ended && epoch > at->jobs[job].ended_epoch + late) {
        world_wrong(at, "a job that has ended gets a manager", job);
    }
    world_say(at, "manager", (uint64_t)node, "starts", (uint64_t)job << 32 | epoch);
    at->jobs[job].used[epoch] = true;
    at->managers++;
    *who = (model){.is_there = true,
                   .job = job,
                   .epoch = epoch,
                   .node = node,
                   .serial = ++at->serial,
                   .gang = 1,
                   .since_ns = world_now(at)};
    world_at(at, 2 * ms + (int64_t)world_below(at, (uint64_t)(8 * ms)), model_ticks,
             later_new(at, (int)(who - at->models), who->serial));
}

static inline void to_names(world *at, const model *who, letter *what)
{
    what->job = who->job;
    what->epoch = who->epoch;
    what->node = who->node;
    post(at, who->node, world_host(at, who->node)->names, what, false);
}

static inline void to_daemon(world *at, const model *who, int node, letter *what, bool is_kept)
{
    what->kind = LETTER_TO_DAEMON;
    what->job = who->job;
    what->epoch = who->epoch;
    what->node = who->node;
    post(at, who->node, node, what, is_kept);
}

#endif
