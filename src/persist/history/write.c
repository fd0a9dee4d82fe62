/* The writing half. One file holds all jobs of a user, with a write-ahead log, so that readers
 * never wait for a manager. Nothing is synced, since only people read it. */
#include "persist/history/history_priv.h"

#include "base/alloc.h"
#include "base/disk.h"
#include "base/fail.h"
#include "base/setting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, BUSY_MS = 5000, VERSION = 1 };

typedef struct gy_pending {
    struct gy_pending *next;
    int64_t wall_ns;
    char text[];
} gy_pending;

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS jobs(id TEXT PRIMARY KEY, name TEXT, folder TEXT, output TEXT,"
    " directory TEXT, arguments BLOB, pid INTEGER, started INTEGER, ended INTEGER, state "
    "INTEGER,"
    " reason TEXT, notes_dropped INTEGER);"
    "CREATE TABLE IF NOT EXISTS stages(job TEXT, position INTEGER, name TEXT, tasks INTEGER,"
    " committed INTEGER, runs INTEGER, failures INTEGER, copies INTEGER, copies_won INTEGER,"
    " memoised INTEGER, seconds REAL, PRIMARY KEY(job, position)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS counters(job TEXT, name TEXT, value INTEGER,"
    " PRIMARY KEY(job, name)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS notes(job TEXT, wall INTEGER, text TEXT);"
    "CREATE INDEX IF NOT EXISTS notes_of ON notes(job);"
    "CREATE TABLE IF NOT EXISTS bad_records(job TEXT, position INTEGER, source TEXT,"
    " offset INTEGER, what TEXT, backtrace TEXT, PRIMARY KEY(job, position)) WITHOUT ROWID;"
    "PRAGMA user_version = 1;"
    "COMMIT;";

gy_status gy_history_fail(const gy_history *history, const char *verb)
{
    int code = sqlite3_errcode(history->base);
    return gy_fail(code == SQLITE_NOMEM ? GY_NOMEM : GY_IO, "cannot %s the history of jobs: %s",
                   verb, sqlite3_errmsg(history->base));
}

gy_status gy_history_execute(gy_history *history, const char *text)
{
    return sqlite3_exec(history->base, text, NULL, NULL, NULL) == SQLITE_OK
               ? GY_OK
               : gy_history_fail(history, "write");
}

sqlite3_stmt *gy_history_prepare(gy_history *history, const char *text)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(history->base, text, -1, &statement, NULL) != SQLITE_OK) {
        (void)gy_history_fail(history, "use");
        return NULL;
    }
    return statement;
}

gy_status gy_history_run(gy_history *history, sqlite3_stmt *statement)
{
    if (statement == NULL) {
        return GY_IO;
    }
    gy_status status =
        sqlite3_step(statement) == SQLITE_DONE ? GY_OK : gy_history_fail(history, "write");
    sqlite3_finalize(statement);
    return status;
}

/* Refuse the tables of a newer version of Gyre. */
static gy_status check_version(gy_history *history)
{
    sqlite3_stmt *statement = gy_history_prepare(history, "PRAGMA user_version");
    if (statement == NULL) {
        return GY_IO;
    }
    int version = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int(statement, 0) : -1;
    sqlite3_finalize(statement);
    if (version < 0) {
        return gy_history_fail(history, "read");
    }
    if (version > VERSION) {
        return gy_fail(GY_FORMAT, "the history of jobs is of version %d, this Gyre knows %d",
                       version, VERSION);
    }
    return version == VERSION ? GY_OK : gy_history_execute(history, schema);
}

static gy_status open_base(gy_history *history)
{
    char path[PATH_BYTES];
    GY_TRY(gy_setting_user_path("XDG_STATE_HOME", ".local/state", "/history.db", path,
                                sizeof(path)));
    int error = gy_disk_make_folders(path);
    if (error != 0) {
        return gy_fail(error == -ENOMEM ? GY_NOMEM : GY_IO, "cannot make the folder of %s: %s",
                       path, strerror(-error));
    }
    mode_t mask = umask(077);
    int code =
        sqlite3_open_v2(path, &history->base,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    umask(mask);
    if (code != SQLITE_OK || sqlite3_busy_timeout(history->base, BUSY_MS) != SQLITE_OK) {
        return history->base == NULL ? gy_fail(GY_NOMEM, "no memory for the history of jobs")
                                     : gy_history_fail(history, "open");
    }
    (void)sqlite3_db_config(history->base, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    static const char settings[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF";
    if (sqlite3_exec(history->base, settings, NULL, NULL, NULL) != SQLITE_OK) {
        return gy_history_fail(history, "open"); /* this is the first access to the file */
    }
    return check_version(history);
}

gy_status gy_history_open(gy_history **history)
{
    gy_history *new_history = gy_alloc_zero("persist.history", 1, sizeof(*new_history));
    if (new_history == NULL) {
        return GY_NOMEM;
    }
    new_history->last = &new_history->first;
    gy_status status = open_base(new_history);
    if (status != GY_OK) {
        gy_history_close(new_history);
        return status;
    }
    *history = new_history;
    return GY_OK;
}

static void drop_pending(gy_history *history)
{
    while (history->first != NULL) {
        gy_pending *next = history->first->next;
        gy_free(history->first);
        history->first = next;
    }
    history->last = &history->first;
}

void gy_history_close(gy_history *history)
{
    if (history != NULL) {
        drop_pending(history);
        gy_free(history->stages);
        sqlite3_close(history->base);
        gy_free(history);
    }
}

gy_status gy_history_folder(char *path, size_t size_bytes)
{
    return gy_setting_user_path("XDG_STATE_HOME", ".local/state", "/jobs", path, size_bytes);
}

/* Bind all arguments, each NUL-terminated. */
static void bind_arguments(sqlite3_stmt *statement, int index, const char *const *arguments)
{
    gy_text text = {0};
    for (int i = 0; arguments != NULL && arguments[i] != NULL; i++) {
        gy_text_add_bytes(&text, arguments[i], strlen(arguments[i]) + 1);
    }
    sqlite3_bind_blob64(statement, index, gy_text_get(&text), text.size_bytes,
                        SQLITE_TRANSIENT);
    gy_text_free(&text);
}

static void bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    sqlite3_bind_text(statement, index, text != NULL ? text : "", -1, SQLITE_STATIC);
}

/* Count a table's rows for the job. */
static int64_t count_rows(gy_history *history, const char *question)
{
    sqlite3_stmt *statement = gy_history_prepare(history, question);
    if (statement == NULL) {
        return 0;
    }
    bind_text(statement, 1, history->id);
    int64_t count =
        sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return count;
}

/* Read the per-stage results of earlier managers; this manager counts only its own runs. */
static gy_status recall_stages(gy_history *history)
{
    sqlite3_stmt *statement = gy_history_prepare(
        history, "SELECT runs, failures, copies, copies_won, seconds FROM stages WHERE job = ?"
                 " ORDER BY position");
    if (statement == NULL) {
        return GY_IO;
    }
    bind_text(statement, 1, history->id);
    size_t capacity = 0;
    gy_status status = GY_OK;
    int code;
    history->stage_count = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && status == GY_OK) {
        status =
            GY_GROW("persist.history", history->stages, capacity, history->stage_count + 1);
        if (status == GY_OK) {
            history->stages[history->stage_count++] =
                (gy_job_stage){.attempts = sqlite3_column_int64(statement, 0),
                               .failures = sqlite3_column_int64(statement, 1),
                               .backups = sqlite3_column_int64(statement, 2),
                               .backups_won = sqlite3_column_int64(statement, 3),
                               .run_s = sqlite3_column_double(statement, 4)};
        }
    }
    if (status == GY_OK && code != SQLITE_DONE) {
        status = gy_history_fail(history, "read");
    }
    sqlite3_finalize(statement);
    return status;
}

gy_status gy_history_begin(gy_history *history, const gy_job *job)
{
    GY_ASSERT(strlen(job->id) < GY_JOB_ID_BYTES);
    snprintf(history->id, sizeof(history->id), "%s", job->id);
    sqlite3_stmt *statement = gy_history_prepare(
        history, "INSERT INTO jobs VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0, '', 0)"
                 " ON CONFLICT(id) DO UPDATE SET pid = ?7, ended = 0, state = 0, reason = ''");
    if (statement == NULL) {
        return GY_IO;
    }
    bind_text(statement, 1, job->id);
    bind_text(statement, 2, job->report.name);
    bind_text(statement, 3, job->report.folder);
    bind_text(statement, 4, job->output);
    bind_text(statement, 5, job->directory);
    bind_arguments(statement, 6, job->arguments);
    sqlite3_bind_int64(statement, 7, job->pid);
    sqlite3_bind_int64(statement, 8, job->started_ns);
    GY_TRY(gy_history_run(history, statement));
    history->note_count = count_rows(history, "SELECT count(*) FROM notes WHERE job = ?");
    history->bad_records =
        count_rows(history, "SELECT count(*) FROM bad_records WHERE job = ?");
    history->dropped = 0;
    gy_free(history->stages);
    history->stages = NULL;
    return recall_stages(history);
}

gy_status gy_history_note(gy_history *history, int64_t wall_ns, const char *text)
{
    if (history->note_count >= GY_JOB_NOTES_MAX) {
        history->dropped++;
        return GY_OK;
    }
    size_t size = strlen(text) + 1;
    gy_pending *note = gy_alloc("persist.note", sizeof(*note) + size);
    if (note == NULL) {
        return GY_NOMEM;
    }
    note->next = NULL;
    note->wall_ns = wall_ns;
    memcpy(note->text, text, size);
    *history->last = note;
    history->last = &note->next;
    history->note_count++;
    return GY_OK;
}

static gy_status save_notes(gy_history *history)
{
    for (const gy_pending *note = history->first; note != NULL; note = note->next) {
        sqlite3_stmt *statement =
            gy_history_prepare(history, "INSERT INTO notes VALUES(?, ?, ?)");
        if (statement == NULL) {
            return GY_IO;
        }
        bind_text(statement, 1, history->id);
        sqlite3_bind_int64(statement, 2, note->wall_ns);
        bind_text(statement, 3, note->text);
        GY_TRY(gy_history_run(history, statement));
    }
    return GY_OK;
}

static gy_status save_stages(gy_history *history, const gy_job *job)
{
    for (size_t i = 0; i < job->report.stage_count; i++) {
        const gy_job_stage *stage = &job->report.stages[i];
        const gy_job_stage before =
            i < history->stage_count ? history->stages[i] : (gy_job_stage){0};
        sqlite3_stmt *statement = gy_history_prepare(
            history, "INSERT OR REPLACE INTO stages VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        if (statement == NULL) {
            return GY_IO;
        }
        const int64_t numbers[] = {stage->tasks,
                                   stage->committed,
                                   stage->attempts + before.attempts,
                                   stage->failures + before.failures,
                                   stage->backups + before.backups,
                                   stage->backups_won + before.backups_won,
                                   stage->memoised};
        bind_text(statement, 1, history->id);
        sqlite3_bind_int64(statement, 2, (int64_t)i);
        bind_text(statement, 3, stage->name);
        for (int n = 0; n < 7; n++) {
            sqlite3_bind_int64(statement, 4 + n, numbers[n]);
        }
        sqlite3_bind_double(statement, 11, stage->run_s + before.run_s);
        GY_TRY(gy_history_run(history, statement));
    }
    return GY_OK;
}

static gy_status save_counters(gy_history *history, const gy_job *job)
{
    for (size_t i = 0; i < job->report.counter_count; i++) {
        sqlite3_stmt *statement =
            gy_history_prepare(history, "INSERT OR REPLACE INTO counters VALUES(?, ?, ?)");
        if (statement == NULL) {
            return GY_IO;
        }
        bind_text(statement, 1, history->id);
        bind_text(statement, 2, job->report.counters[i].name);
        sqlite3_bind_int64(statement, 3, job->report.counters[i].value);
        GY_TRY(gy_history_run(history, statement));
    }
    return GY_OK;
}

static gy_status save_bad_records(gy_history *history, const gy_job *job)
{
    for (size_t i = 0; i < job->report.bad_record_count; i++) {
        const gy_job_bad_record *bad = &job->report.bad_records[i];
        sqlite3_stmt *statement = gy_history_prepare(
            history, "INSERT OR REPLACE INTO bad_records SELECT ?1, ?2, ?3, ?4, ?5, ?6"
                     " WHERE NOT EXISTS(SELECT 1 FROM bad_records WHERE job = ?1"
                     " AND position < ?7 AND source = ?3 AND offset = ?4)");
        if (statement == NULL) {
            return GY_IO;
        }
        bind_text(statement, 1, history->id);
        sqlite3_bind_int64(statement, 2, history->bad_records + (int64_t)i);
        bind_text(statement, 3, bad->source);
        sqlite3_bind_int64(statement, 4, (int64_t)bad->offset);
        bind_text(statement, 5, bad->what);
        bind_text(statement, 6, bad->backtrace);
        sqlite3_bind_int64(statement, 7, history->bad_records);
        GY_TRY(gy_history_run(history, statement));
    }
    return GY_OK;
}

static gy_status save_job(gy_history *history, const gy_job *job)
{
    sqlite3_stmt *statement =
        gy_history_prepare(history, "UPDATE jobs SET ended = ?2, state = ?3, reason = ?4,"
                                    " notes_dropped = notes_dropped + ?5 WHERE id = ?1");
    if (statement == NULL) {
        return GY_IO;
    }
    bind_text(statement, 1, history->id);
    sqlite3_bind_int64(statement, 2, job->ended_ns);
    sqlite3_bind_int(statement, 3, (int)job->state);
    bind_text(statement, 4, job->reason);
    sqlite3_bind_int64(statement, 5, history->dropped);
    GY_TRY(gy_history_run(history, statement));
    GY_TRY(save_notes(history));
    GY_TRY(save_stages(history, job));
    GY_TRY(save_counters(history, job));
    return save_bad_records(history, job);
}

gy_status gy_history_save(gy_history *history, const gy_job *job)
{
    GY_ASSERT(strcmp(history->id, job->id) == 0);
    GY_TRY(gy_history_execute(history, "BEGIN IMMEDIATE"));
    gy_status status = save_job(history, job);
    if (status != GY_OK) {
        (void)sqlite3_exec(history->base, "ROLLBACK", NULL, NULL, NULL);
        return status;
    }
    GY_TRY(gy_history_execute(history, "COMMIT"));
    drop_pending(history);
    history->dropped = 0;
    return GY_OK;
}
