/*
 * What must hold in a simulated cluster when nothing happens: leases of silent managers end,
 * shares are fair, nothing is left behind.
 */
#ifndef GY_TESTS_CLUSTER_CHECKS_H
#define GY_TESTS_CLUSTER_CHECKS_H

#include "cluster_servers.h"

static const int64_t calm_ns = 1500000000;

static inline uint32_t slots_of(const world *at, uint32_t number)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < at->host_count; i++) {
        const host *own = &at->hosts[i];
        for (size_t k = 0; own->is_up && k < own->lease_count; k++) {
            count += gy_key_is_same(own->leases[k].job, at->jobs[number].key) &&
                     !own->leases[k].is_ending;
        }
    }
    return count;
}

/* A lease whose manager was not heard for longer than it lasts. */
static inline void check_leases(world *at)
{
    for (uint32_t i = 0; i < at->host_count; i++) {
        const host *own = &at->hosts[i];
        for (size_t k = 0; own->is_up && k < own->lease_count; k++) {
            uint32_t number = world_job(at, own->leases[k].job);
            int64_t since_ns = GY_MAX(own->jobs[number].heard_ns, own->since_ns[k]);
            since_ns = GY_MAX(since_ns, own->stopped_until_ns);
            if (world_now(at) - since_ns > 1400 * ms && !own->leases[k].is_ending) {
                world_wrong(at, "a silent manager's lease does not end", own->leases[k].lease);
            }
        }
    }
}

/* Does it want more than it has? */
static inline bool is_hungry(const world *at, uint32_t number);
/* Does a job that has not ended want gangs? */
static inline bool has_gangs(const world *at);
static inline void say_view(const world *at);

/* Nobody that waits would, with one more, have less than another has. */
static inline void check_shares(world *at)
{
    uint32_t slots = 0, held = 0;
    bool any_hungry = false;
    for (uint32_t i = 0; i < at->host_count; i++) {
        slots += at->hosts[i].is_up ? at->hosts[i].slots : 0;
    }
    for (uint32_t poor = 0; poor < at->job_count; poor++) {
        held += slots_of(at, poor);
        any_hungry = any_hungry || is_hungry(at, poor);
        for (uint32_t rich = 0; rich < at->job_count && is_hungry(at, poor); rich++) {
            if (at->jobs[rich].is_greedy && !at->jobs[rich].is_ended &&
                slots_of(at, rich) * at->jobs[poor].weight >
                    (slots_of(at, poor) + 1) * at->jobs[rich].weight) {
                world_wrong(at, "shares are not fair", rich << 16 | poor);
            }
        }
    }
    if (any_hungry && held < slots) {
        world_wrong(at, "slots are free while a job waits", slots - held);
    }
}

/* What an older manager ran is gone. */
static inline void check_processes(world *at)
{
    for (uint32_t i = 0; i < at->host_count; i++) {
        const host *own = &at->hosts[i];
        for (int k = 0; k < PROCESSES && own->is_up; k++) {
            const process *one = &own->processes[k];
            if (one->is_there && one->epoch < own->jobs[one->job].obeyed) {
                world_wrong(at, "an older manager's process is left", one->epoch);
            }
        }
    }
}

/* Every job that has not ended has a manager that is neither new nor stopped. */
static inline bool is_calm(const world *at)
{
    for (uint32_t i = 0; i < at->job_count; i++) {
        bool has_manager = at->jobs[i].is_ended;
        for (int k = 0; k < MODELS; k++) {
            const model *who = &at->models[k];
            has_manager = has_manager || (who->is_there && who->job == i &&
                                          world_now(at) - who->since_ns > calm_ns);
        }
        if (!has_manager || !at->jobs[i].is_accepted) {
            return false;
        }
    }
    return world_now(at) - at->heal_ns > 2 * calm_ns;
}

static inline bool is_clean(const world *at)
{
    for (uint32_t i = 0; i < at->job_count; i++) {
        if (!at->jobs[i].is_ended) {
            return false;
        }
    }
    for (uint32_t i = 0; i < at->host_count; i++) {
        const host *own = &at->hosts[i];
        for (uint32_t k = 0; k < at->job_count && own->is_up; k++) {
            if (own->jobs[k].has_files || own->jobs[k].nursery != 0) {
                return false;
            }
        }
        if (own->is_up && own->lease_count > 0) {
            return false;
        }
    }
    return true;
}

/* Whoever waits asks the list as well: the name server that stored an end may have died of it.
 */
static inline void look_at_list(world *at)
{
    gy_names_job seen;
    const gy_names *machine = at->servers[0].machine;
    for (uint32_t i = 0; machine != NULL && gy_names_look_job(machine, i, &seen); i++) {
        uint32_t number = world_job(at, seen.key);
        if (number < JOBS && seen.is_ended && !at->jobs[number].is_ended) {
            on_ended(at, &(gy_names_effect){
                             .key = seen.key, .status = seen.status, .reason = seen.reason});
        }
    }
}

#endif
