/** The logs of a job's processes, in files FOLDER/log/SLOT-GENERATION. */
#ifndef GY_WORKER_LOG_H
#define GY_WORKER_LOG_H

#include "base/env.h"
#include "base/text.h"

/** Create the log of a process. -1: failed, with a warning in the log. */
int gy_worker_log_open(gy_env *env, const char *folder, uint32_t slot, uint32_t generation);
/**
 * The last line of a log such as "log/0-1" in the folder, for display; an empty log is removed.
 */
void gy_worker_log_tail(gy_env *env, const char *folder, const char *name, gy_text *out);
/** Append the end of a process's log to the reason of its failure, if the log is not empty. */
void gy_worker_log_end(gy_env *env, const char *folder, uint32_t slot, uint32_t generation,
                       gy_text *out);

#endif
