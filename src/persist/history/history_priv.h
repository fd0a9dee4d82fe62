/**
 * What the writing and the reading half of the history share: the opened file.
 */
#ifndef GY_PERSIST_HISTORY_HISTORY_PRIV_H
#define GY_PERSIST_HISTORY_HISTORY_PRIV_H

#include "persist/history/history.h"

#include <sqlite3.h>

struct gy_history {
    sqlite3 *base;
    char id[GY_JOB_ID_BYTES]; /* of the job that was begun */
    struct gy_pending *first; /* notes that wait for the next save, oldest first */
    struct gy_pending **last;
    int64_t note_count, dropped;
    /* what earlier managers of the job told */
    gy_job_stage *stages; /* (stage_count) without names */
    size_t stage_count;
    int64_t bad_records;
};

/** Record what SQLite said: GY_NOMEM, or GY_IO. */
gy_status gy_history_fail(const gy_history *history, const char *verb);

/** A statement of the history's; finalize it. NULL: failed. */
GY_MUST_CHECK sqlite3_stmt *gy_history_prepare(gy_history *history, const char *text);

/** Run a statement that gives no rows, and finalize it; NULL fails as gy_history_prepare did.
 */
GY_MUST_CHECK gy_status gy_history_run(gy_history *history, sqlite3_stmt *statement);

/** Run a text of statements. */
GY_MUST_CHECK gy_status gy_history_execute(gy_history *history, const char *text);

/**
 * Remove what a job whose manager is gone left in its output folder: its hidden folders, the
 * final names that no manifest of its own speaks of, and the folder if nothing else is in it.
 * GY_IO
 */
GY_MUST_CHECK gy_status gy_history_clear_output(const char *output, const char *id);

/**
 * Likewise of one whose output is below a URI that ends with a slash: objects with the names of
 * files that wait in its folder, unless a manifest is there. As gy_place_remove
 */
GY_MUST_CHECK gy_status gy_history_clear_store(const char *uri, const char *folder);

#endif
