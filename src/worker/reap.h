/**
 * The end of all that a process has started or adopted; also for the parents of room cluster's
 * processes.
 */
#ifndef GY_WORKER_REAP_H
#define GY_WORKER_REAP_H

#include "base/base.h"

#include <sys/types.h>

enum { GY_REAP_SECONDS = 10 };

/** Kill every child, adopted ones too, until none is left or the deadline passed (then false).
 * SIGCHLD should be blocked: an end is then noticed at once. */
bool gy_worker_reap_all(gy_env *env, gy_deadline deadline);

/** Kill every child but those `spared` (count), with the groups that they lead; what they leave
 * is adopted, and found by the next call. takes_ends: those that have ended are reaped.
 * @return how many there were, ended ones too
 * @threads of the process's first thread; takes no memory and no lock
 * @cost a file read, 64 KiB of stack */
size_t gy_worker_reap_kill(const pid_t *spared, size_t count, bool takes_ends);

#endif
