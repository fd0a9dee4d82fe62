/**
 * The end of all that a process has started or adopted; also for the parents of room cluster's
 * processes.
 */
#ifndef GY_LAUNCH_REAP_H
#define GY_LAUNCH_REAP_H

#include "base/base.h"

enum { GY_REAP_SECONDS = 10 };

/** Kill every child, adopted ones too, until none is left or the deadline passed (then false).
 * SIGCHLD should be blocked: an end is then noticed at once. */
bool gy_reap_all(gy_env *env, gy_deadline deadline);

#endif
