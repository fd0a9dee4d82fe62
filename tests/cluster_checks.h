/*
 * What must hold in a simulated cluster when nothing happens: leases of silent managers end,
 * shares are fair, nothing is left behind.
 */
#ifndef GY_TESTS_CLUSTER_CHECKS_H
#define GY_TESTS_CLUSTER_CHECKS_H

#include "cluster_servers.h"

static const int64_t calm_ns = 1500000000;

static inline uint32_t slots_at(const host *own, gy_key job)
{
    uint32_t count = 0;
    for (size_t k = 0; own->is_up && k < own->lease_count; k++) {
        count += gy_key_is_same(own->leases[k].job, job) && !own->leases[k].is_ending;
    }
    return count;
}

static inline uint32_t slots_of(const world *at, uint32_t number)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < at->host_count; i++) {
        count += slots_at(&at->hosts[i], at->jobs[number].key);
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
/* May slots there be lent to the job? Not to one whose tasks fail there alone. */
static inline bool may_run_at(world *at, uint32_t number, int node);
static inline void say_view(const world *at);

/* Of one that waits, and of one that has slots: would one more move from there? */
static inline void check_pair(world *at, uint32_t poor, uint32_t rich)
{
    const user_job *one = &at->jobs[rich], *other = &at->jobs[poor];
    bool has_some = false;
    for (uint32_t i = 0; i < at->host_count && !has_some; i++) {
        has_some =
            slots_at(&at->hosts[i], one->key) > 0 && may_run_at(at, poor, SERVERS + (int)i);
    }
    if (has_some && one->is_greedy && !one->is_ended &&
        slots_of(at, rich) * other->weight > (slots_of(at, poor) + 1) * one->weight) {
        world_wrong(at, "shares are not fair", rich << 16 | poor);
    }
}

/* Nobody that waits would, with one more, have less than another has of what both may have; no
 * slot is free that somebody who waits may have. */
static inline void check_shares(world *at)
{
    for (uint32_t poor = 0; poor < at->job_count; poor++) {
        uint32_t idle = 0;
        if (!is_hungry(at, poor)) {
            continue;
        }
        for (uint32_t rich = 0; rich < at->job_count; rich++) {
            check_pair(at, poor, rich);
        }
        for (uint32_t i = 0; i < at->host_count; i++) {
            const host *own = &at->hosts[i];
            uint32_t held = 0;
            for (uint32_t job = 0; job < at->job_count; job++) {
                held += slots_at(own, at->jobs[job].key);
            }
            if (own->is_up && held < own->slots && may_run_at(at, poor, SERVERS + (int)i)) {
                idle += own->slots - held;
            }
        }
        if (idle > 0) {
            world_wrong(at, "slots are free while a job waits", (uint64_t)poor << 16 | idle);
        }
    }
}

/* What the name server thinks, for whoever looks for a fault. */
static inline void say_names(const world *at)
{
    const gy_names *machine = at->servers[0].machine;
    gy_names_job seen;
    for (uint32_t i = 0; at->is_traced && machine != NULL && gy_names_job_at(machine, i, &seen);
         i++) {
        const uint32_t number = world_job(at, seen.key);
        printf("  job %u: wants %u, has %u of name server, %u at hosts; %s\n", number,
               seen.slots_wanted, seen.slots_held, number < JOBS ? slots_of(at, number) : 0,
               seen.reason);
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
            if (own->jobs[k].has_files || own->jobs[k].fork_server != 0) {
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
    for (uint32_t i = 0; machine != NULL && gy_names_job_at(machine, i, &seen); i++) {
        uint32_t number = world_job(at, seen.key);
        if (number < JOBS && seen.is_ended && !at->jobs[number].is_ended) {
            on_ended(at, &(gy_names_effect){
                             .key = seen.key, .status = seen.status, .reason = seen.reason});
        }
    }
}

#endif
