/*
 * A manager over hosts in a test: host n is daemon n + 1, incarnation n, at "hn:(7000 + n)".
 */
#ifndef GY_SCHED_HOSTS_HOSTS_TEST_H
#define GY_SCHED_HOSTS_HOSTS_TEST_H

#include "sched/manager/machine_test.h"

static inline void hosts_up(machine *at, uint32_t host)
{
    char address[32];
    snprintf(address, sizeof(address), "h%u:%u", host, 7000 + host);
    machine_tell(at, (gy_sched_event){.kind = GY_EVENT_HOST_UP,
                                      .host = host,
                                      .host_id = {host + 1, host},
                                      .address = address});
}

static inline void hosts_lose(machine *at, uint32_t host)
{
    machine_tell(
        at, (gy_sched_event){.kind = GY_EVENT_HOST_LOST, .host = host, .reason = "unplugged"});
}

/* Report each process that was requested as up. */
static inline void hosts_start(machine *at)
{
    for (uint32_t process = 0; process < at->manager->options.process_max; process++) {
        if (at->manager->slots[process].state == SLOT_STARTING) {
            machine_up(at, process);
        }
    }
}

/* Open a slot of a host; its process starts if there is work. */
static inline void hosts_open(machine *at, uint32_t process, uint32_t host)
{
    machine_tell(
        at, (gy_sched_event){.kind = GY_EVENT_SLOT_OPEN, .process = process, .host = host});
    hosts_start(at);
}

/* A job that has begun: hosts 0 and 1 are up without slots, at most 4 hosts, no prefetch of
 * tasks. */
static inline void hosts_new(machine *at, const machine_job *job, gy_manager_options options)
{
    options.host_max = 4;
    options.depth_max = options.depth_max == 0 ? 1 : options.depth_max;
    machine_start(at, job, options);
    hosts_up(at, 0);
    hosts_up(at, 1);
}

/* Such a job, with slot 0 at host 0 and slot 1 at host 1. */
static inline void hosts_pair(machine *at, const machine_job *job, gy_manager_options options)
{
    hosts_new(at, job, options);
    hosts_open(at, 0, 0);
    hosts_open(at, 1, 1);
}

/* The host of a task's newest run. */
static inline uint32_t hosts_where(const machine *at, uint32_t task)
{
    return at->manager->slots[machine_event(at, task, 0).process].host;
}

/* The task is done with an output of that many bytes on the host where it ran. */
static inline void hosts_done_bytes(machine *at, uint32_t task, uint64_t content,
                                    uint64_t bytes)
{
    gy_sched_event event = machine_done_event(at, task, content);
    event.is_held = true;
    event.held_bytes = bytes;
    machine_tell(at, event);
    hosts_start(at);
}

static inline void hosts_done(machine *at, uint32_t task, uint64_t content)
{
    hosts_done_bytes(at, task, content, 1000);
}

#endif
