/**
 * Ends all processes that this one has started or adopted; the parents of room cluster's
 * processes use it too.
 */
#ifndef GY_WORKER_REAP_H
#define GY_WORKER_REAP_H

#include "base/base.h"

#include <sys/types.h>

enum { GY_REAP_SECONDS = 10 };

/**
 * Kill every child, adopted ones included, until none is left or the deadline has passed (then
 * false). With SIGCHLD blocked it notices each end at once.
 */
bool gy_worker_reap_all(gy_env *env, gy_deadline deadline);

/**
 * Kill every child but those `spared` (count), with the groups that they lead. This process
 * adopts their children, which the next call finds. takes_ends: also reap the children that
 * have ended.
 * @return the number of children, ended ones included
 * @threads the process's first thread; allocates nothing, takes no lock
 * @cost a file read, 64 KiB of stack
 */
size_t gy_worker_reap_kill(const pid_t *spared, size_t count, bool takes_ends);

#endif
