/**
 * What the processes of a job print: files FOLDER/log/SLOT-GENERATION.
 */
#ifndef GY_WORKER_LOG_H
#define GY_WORKER_LOG_H

#include "base/env.h"
#include "base/text.h"

/** A new file for what a process prints. -1: there is none, a warning is logged. */
int gy_worker_log_open(gy_env *env, const char *folder, uint32_t slot, uint32_t generation);
/** The last line of a file of the folder, "log/0-1", for people; an empty file is removed. */
void gy_worker_log_tail(gy_env *env, const char *folder, const char *name, gy_text *out);
/** Append how a process's log ends, if it said anything, as the end of a reason. */
void gy_worker_log_end(gy_env *env, const char *folder, uint32_t slot, uint32_t generation,
                       gy_text *out);

#endif
