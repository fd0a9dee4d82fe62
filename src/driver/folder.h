/**
 * The folder of a job: its lock and its journal.
 */
#ifndef GY_DRIVER_FOLDER_H
#define GY_DRIVER_FOLDER_H

#include "base/env.h"
#include "persist/journal/journal.h"
#include "sched/manager.h"

typedef struct gy_folder {
    gy_env *env;
    const char *path;
    int lock;            /* -1: not open */
    bool has_lock;       /* else a process of another epoch holds it */
    gy_journal *journal; /* NULL: not open */
} gy_folder;

/**
 * Create the folder if it does not exist, and take its lock; with an epoch only if it is free.
 * GY_STATE another manager holds it; GY_IO
 */
GY_MUST_CHECK gy_status gy_folder_open(gy_folder *folder, gy_env *env, const char *path,
                                       bool has_epoch);
/**
 * Take the lock once its previous holder has ended, so that lists of jobs show this manager.
 */
void gy_folder_try_lock(gy_folder *folder);
/**
 * Open and replay the journal; epoch, journal and owner as in gy_driver_options. As
 * gy_journal_open; GY_UNSUPPORTED
 */
GY_MUST_CHECK gy_status gy_folder_replay(gy_folder *folder, uint64_t epoch, const char *journal,
                                         const char *owner, gy_manager *manager);
void gy_folder_close(gy_folder *folder);

#endif
