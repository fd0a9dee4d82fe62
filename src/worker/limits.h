/**
 * Memory and number of the processes of a job.
 */
#ifndef GY_WORKER_LIMITS_H
#define GY_WORKER_LIMITS_H

#include "worker/start.h"

typedef struct gy_limits {
    char memory[512], pids[512]; /* folders of control groups of this job; "": there is none */
    size_t memory_bytes;
    uint64_t *killed; /* (processes) by the system for memory, at last look */
    uint32_t processes;
    int *entries; /* (processes) written to so as to enter a slot's group of memory; -1: none */
    int most;     /* written to so as to change how many processes may be; -1: no such group */
} gy_limits;

/** In the fork server, before it is walled in: join the job's group of processes. The groups
 * are named by `name`, as gy_limits_sweep finds them. GY_NOMEM */
GY_MUST_CHECK gy_status gy_limits_open(gy_limits *limits, const gy_role *role, pid_t name);
/** In a new vertex process: what holds for it and all it starts. errno, 0 done. */
int gy_limits_enter(const gy_limits *limits, uint32_t slot);
/** Was something in that slot killed for its memory since the last call? */
bool gy_limits_is_over(gy_limits *limits, uint32_t slot);
/** No process of the job can start another one from now on, or they can again. */
void gy_limits_forbid(const gy_limits *limits, bool is_forbidden);
/** In the fork server at its end, and in a vertex process once it has entered: what is open,
 * and the memory. The groups stay for gy_limits_sweep. */
void gy_limits_close(gy_limits *limits);
/** Kill every process that is left in the control groups of that name, of which the caller is
 * no member, and remove the groups. The reaper calls it, and the driver after the reaper's end.
 */
void gy_limits_sweep(pid_t name, uint32_t processes);
/** Remove the groups of jobs that were killed with all who would have removed them: named by a
 * process that is not there, and empty. At most some; what cannot be removed stays.
 * @cost 0.03 ms where there are none */
void gy_limits_collect(void);

#endif
