/** The opened history, which the writing and the reading half share. */
#ifndef GY_PERSIST_HISTORY_HISTORY_PRIV_H
#define GY_PERSIST_HISTORY_HISTORY_PRIV_H

#include "persist/history/history.h"

#include <sqlite3.h>

struct gy_history {
    sqlite3 *base;
    char id[GY_JOB_ID_BYTES]; /* of the job that gy_history_begin recorded */
    struct gy_pending *first; /* notes that wait for the next save, oldest first */
    struct gy_pending **last;
    int64_t note_count, dropped;
    /* results of earlier managers of the job */
    gy_job_stage *stages; /* (stage_count) without names */
    size_t stage_count;
    int64_t bad_records;
};

/** Record SQLite's error: GY_NOMEM or GY_IO. */
gy_status gy_history_fail(const gy_history *history, const char *verb);

/** Prepare a statement; the caller finalizes it. NULL: failed. */
GY_MUST_CHECK sqlite3_stmt *gy_history_prepare(gy_history *history, const char *text);

/** Run a statement without rows, and finalize it; NULL fails as gy_history_prepare did. */
GY_MUST_CHECK gy_status gy_history_run(gy_history *history, sqlite3_stmt *statement);

/** Execute several statements given as text. */
GY_MUST_CHECK gy_status gy_history_execute(gy_history *history, const char *text);

/**
 * Remove the output of a job whose manager has ended: its hidden folders, final names without a
 * manifest of this job, and the folder itself if nothing else is in it. GY_IO
 */
GY_MUST_CHECK gy_status gy_history_clear_output(const char *output, const char *id);

/**
 * The same for an output below a URI that ends with a slash: remove the objects named like the
 * files in the job's folder, unless a manifest exists. As gy_place_remove
 */
GY_MUST_CHECK gy_status gy_history_clear_store(const char *uri, const char *folder);

#endif
