/** Limits on the memory and number of a job's processes. */
#ifndef GY_WORKER_LIMITS_H
#define GY_WORKER_LIMITS_H

#include "worker/start.h"

typedef struct gy_limits {
    char memory[512], pids[512]; /* folders of this job's control groups; "": none */
    size_t memory_bytes;
    /* (processes) number of processes killed for their memory, as last read. */
    uint64_t *killed;
    uint32_t processes;
    int *entries; /* (processes) descriptors to write to in order to join a slot's memory group;
                     -1: none */
    int most;     /* descriptor of the limit on the number of processes; -1: no such group */
} gy_limits;

/**
 * In the fork server, before it enters its sandbox: join the job's process group. `name` names
 * the groups, so that gy_limits_sweep finds them. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_limits_open(gy_limits *limits, const gy_role *role, pid_t name);
/** In a new vertex process: apply the limits to it and all it starts. errno, 0 done. */
int gy_limits_enter(const gy_limits *limits, uint32_t slot);
/** Was a process in that slot killed for its memory since the last call? */
bool gy_limits_is_over(gy_limits *limits, uint32_t slot);
/** Forbid all processes of the job to start others, or allow it again. */
void gy_limits_forbid(const gy_limits *limits, bool is_forbidden);
/**
 * Close the descriptors and free the memory; in the fork server at its end, in a vertex process
 * after gy_limits_enter. The groups stay for gy_limits_sweep.
 */
void gy_limits_close(gy_limits *limits);
/**
 * Kill all processes left in the control groups of that name, of which the caller is no member,
 * and remove the groups. Called by the reaper, and by the driver after the reaper's end.
 */
void gy_limits_sweep(pid_t name, uint32_t processes);
/**
 * Remove the groups of jobs whose fork server, reaper and driver were all killed: those that
 * are empty and whose process no longer exists. Inspects a bounded number; a group that cannot
 * be removed stays.
 * @cost 0.03 ms if there are none
 */
void gy_limits_collect(void);

#endif
