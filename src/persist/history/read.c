/* The reading half of the history, and the operations on a job from outside its process. */
#include "persist/history/history_priv.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "persist/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* A job and all that its pointers refer to. */
typedef struct read_job {
    gy_job job;
    gy_arena arena;
} read_job;

#define JOB_COLUMNS                                                                            \
    "id, name, folder, output, directory, arguments, pid, started, ended, state, reason,"      \
    " notes_dropped"

/* A column's bytes, copied and NUL-terminated; NULL: out of memory. */
static const char *copy_column(gy_arena *arena, sqlite3_stmt *row, int column)
{
    const void *data = sqlite3_column_blob(row, column);
    size_t size = (size_t)sqlite3_column_bytes(row, column);
    char *text = gy_arena_alloc(arena, size + 1);
    if (text != NULL && size > 0) {
        memcpy(text, data, size);
    }
    return text;
}

static gy_status take_arguments(read_job *to, sqlite3_stmt *row)
{
    const char *bytes = copy_column(&to->arena, row, 5);
    size_t size = (size_t)sqlite3_column_bytes(row, 5), count = 0;
    if (bytes == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == '\0';
    }
    const char **list = gy_arena_alloc(&to->arena, (count + 1) * sizeof(*list));
    if (list == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0, at = 0; i < count; i++) {
        list[i] = bytes + at;
        at += strlen(bytes + at) + 1;
    }
    to->job.arguments = list;
    return GY_OK;
}

/* Open FOLDER/lock; -1: it cannot be opened. */
static int open_lock(const char *folder, int flags)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof(path), "%s/lock", folder) >= (int)sizeof(path)) {
        return -1;
    }
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW);
}

bool gy_history_is_held(const char *folder)
{
    int file = open_lock(folder, O_RDONLY);
    if (file < 0) {
        return false;
    }
    bool is_held = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(file);
    return is_held;
}

static gy_status take_job(read_job *to, sqlite3_stmt *row)
{
    gy_job *job = &to->job;
    const char **texts[] = {&job->id, &job->report.name, &job->report.folder, &job->output,
                            &job->directory};
    for (int i = 0; i < 5; i++) {
        if ((*texts[i] = copy_column(&to->arena, row, i)) == NULL) {
            return GY_NOMEM;
        }
    }
    GY_TRY(take_arguments(to, row));
    job->pid = sqlite3_column_int64(row, 6);
    job->started_ns = sqlite3_column_int64(row, 7);
    job->ended_ns = sqlite3_column_int64(row, 8);
    job->state = (gy_job_state)sqlite3_column_int(row, 9);
    if ((job->reason = copy_column(&to->arena, row, 10)) == NULL) {
        return GY_NOMEM;
    }
    job->report.notes_dropped = sqlite3_column_int64(row, 11);
    job->report.bad_record_text = "";
    if (job->state == GY_JOB_RUNNING && !gy_history_is_held(job->report.folder)) {
        job->state = GY_JOB_INTERRUPTED;
    }
    return GY_OK;
}

/* A table whose rows belong to jobs, and how a row becomes an item of an array. */
typedef struct table {
    const char *name;
    size_t item_bytes;
    gy_status (*take)(read_job *to, sqlite3_stmt *row, void *item);
} table;

static gy_status take_rows(gy_history *history, read_job *to, const table *from, size_t *count,
                           const void **items)
{
    char text[256];
    snprintf(text, sizeof(text), "SELECT count(*) OVER (), * FROM %s WHERE job = ?",
             from->name);
    sqlite3_stmt *statement = gy_history_prepare(history, text);
    if (statement == NULL) {
        return GY_IO;
    }
    sqlite3_bind_text(statement, 1, to->job.id, -1, SQLITE_STATIC);
    gy_status status = GY_OK;
    char *list = NULL;
    size_t taken = 0, total = 0;
    int code;
    while (status == GY_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (list == NULL) {
            total = (size_t)sqlite3_column_int64(statement, 0);
            list = gy_arena_alloc(&to->arena, total * from->item_bytes);
        }
        GY_ASSERT(taken < total);
        status = list != NULL ? from->take(to, statement, list + taken++ * from->item_bytes)
                              : GY_NOMEM;
    }
    if (status == GY_OK && code != SQLITE_DONE) {
        status = gy_history_fail(history, "read");
    }
    sqlite3_finalize(statement);
    *items = list;
    *count = taken;
    return status;
}

static gy_status take_stage(read_job *to, sqlite3_stmt *row, void *item)
{
    gy_job_stage *stage = item;
    *stage = (gy_job_stage){.name = copy_column(&to->arena, row, 3),
                            .tasks = sqlite3_column_int64(row, 4),
                            .committed = sqlite3_column_int64(row, 5),
                            .attempts = sqlite3_column_int64(row, 6),
                            .failures = sqlite3_column_int64(row, 7),
                            .backups = sqlite3_column_int64(row, 8),
                            .backups_won = sqlite3_column_int64(row, 9),
                            .memoised = sqlite3_column_int64(row, 10),
                            .run_s = sqlite3_column_double(row, 11)};
    return stage->name != NULL ? GY_OK : GY_NOMEM;
}

static gy_status take_counter(read_job *to, sqlite3_stmt *row, void *item)
{
    gy_job_counter *counter = item;
    *counter = (gy_job_counter){.name = copy_column(&to->arena, row, 2),
                                .value = sqlite3_column_int64(row, 3)};
    return counter->name != NULL ? GY_OK : GY_NOMEM;
}

static gy_status take_note(read_job *to, sqlite3_stmt *row, void *item)
{
    gy_job_note *note = item;
    *note = (gy_job_note){.wall_ns = sqlite3_column_int64(row, 2),
                          .text = copy_column(&to->arena, row, 3)};
    return note->text != NULL ? GY_OK : GY_NOMEM;
}

static gy_status take_bad_record(read_job *to, sqlite3_stmt *row, void *item)
{
    gy_job_bad_record *bad = item;
    *bad = (gy_job_bad_record){.source = copy_column(&to->arena, row, 3),
                               .offset = (uint64_t)sqlite3_column_int64(row, 4),
                               .what = copy_column(&to->arena, row, 5),
                               .backtrace = copy_column(&to->arena, row, 6)};
    return bad->source != NULL && bad->what != NULL && bad->backtrace != NULL ? GY_OK
                                                                              : GY_NOMEM;
}

static gy_status take_everything(gy_history *history, read_job *to)
{
    static const table stages = {"stages", sizeof(gy_job_stage), take_stage};
    static const table counters = {"counters", sizeof(gy_job_counter), take_counter};
    static const table notes = {"notes", sizeof(gy_job_note), take_note};
    static const table bad = {"bad_records", sizeof(gy_job_bad_record), take_bad_record};
    gy_job *job = &to->job;
    const void *items;
    GY_TRY(take_rows(history, to, &stages, &job->report.stage_count, &items));
    job->report.stages = items;
    GY_TRY(take_rows(history, to, &counters, &job->report.counter_count, &items));
    job->report.counters = items;
    GY_TRY(take_rows(history, to, &notes, &job->report.note_count, &items));
    job->report.notes = items;
    GY_TRY(take_rows(history, to, &bad, &job->report.bad_record_count, &items));
    job->report.bad_records = items;
    return GY_OK;
}

/* The only job whose id is `id` or begins with it. */
static gy_status find_job(gy_history *history, const char *id, read_job *to)
{
    sqlite3_stmt *statement = gy_history_prepare(
        history, "SELECT " JOB_COLUMNS " FROM jobs WHERE substr(id, 1, length(?1)) = ?1"
                 " ORDER BY length(id) LIMIT 2");
    if (statement == NULL) {
        return GY_IO;
    }
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    gy_status status = GY_OK;
    if (code == SQLITE_ROW && id[0] != '\0') {
        status = take_job(to, statement);
        if (status == GY_OK && strcmp(to->job.id, id) != 0 &&
            sqlite3_step(statement) == SQLITE_ROW) {
            status = gy_fail(GY_ARG, "the ids of several jobs begin with '%s'", id);
        }
    } else {
        status = code == SQLITE_DONE || id[0] == '\0'
                     ? gy_fail(GY_NOTFOUND, "there is no job '%s'", id)
                     : gy_history_fail(history, "read");
    }
    sqlite3_finalize(statement);
    return status;
}

void gy_job_free(gy_job *job)
{
    if (job != NULL) {
        read_job *whole = (read_job *)job;
        gy_arena_free(&whole->arena);
        gy_free(whole);
    }
}

gy_status gy_job_read(const char *id, gy_job **job)
{
    read_job *to = gy_alloc_zero("persist.job", 1, sizeof(*to));
    if (to == NULL) {
        return GY_NOMEM;
    }
    gy_history *history = NULL;
    gy_status status = gy_history_open(&history);
    if (status == GY_OK) {
        status = find_job(history, id, to);
    }
    if (status == GY_OK) {
        status = take_everything(history, to);
    }
    gy_history_close(history);
    if (status != GY_OK) {
        gy_job_free(&to->job);
        return status;
    }
    *job = &to->job;
    return GY_OK;
}

static gy_status list_jobs(gy_history *history, int limit, gy_job_visit visit, void *arg)
{
    sqlite3_stmt *statement = gy_history_prepare(
        history, "SELECT " JOB_COLUMNS " FROM jobs ORDER BY started DESC, id DESC LIMIT ?");
    if (statement == NULL) {
        return GY_IO;
    }
    sqlite3_bind_int(statement, 1, limit > 0 ? limit : -1);
    gy_status status = GY_OK;
    int code = SQLITE_DONE;
    while (status == GY_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        read_job one = {0};
        status = take_job(&one, statement);
        if (status == GY_OK) {
            status = visit(arg, &one.job);
        }
        gy_arena_free(&one.arena);
    }
    if (status == GY_OK && code != SQLITE_DONE) {
        status = gy_history_fail(history, "read");
    }
    sqlite3_finalize(statement);
    return status;
}

gy_status gy_job_list(int limit, gy_job_visit visit, void *arg)
{
    gy_history *history = NULL;
    GY_TRY(gy_history_open(&history));
    gy_status status = list_jobs(history, limit, visit, arg);
    gy_history_close(history);
    return status;
}

/* Signal the lock's holder, whose process id is in the lock file. */
static gy_status kill_holder(const gy_job *job)
{
    char text[32] = {0};
    int file = open_lock(job->report.folder, O_RDONLY);
    ssize_t size = file >= 0 ? pread(file, text, sizeof(text) - 1, 0) : -1;
    if (file >= 0) {
        close(file);
    }
    long process = size > 0 ? strtol(text, NULL, 10) : 0;
    if (process <= 1) {
        return gy_fail(GY_IO, "cannot read the manager's process from %s/lock",
                       job->report.folder);
    }
    return kill((pid_t)process, SIGTERM) == 0
               ? GY_OK
               : gy_fail(GY_IO, "cannot end process %ld: %s", process, strerror(errno));
}

gy_status gy_job_kill(const char *id)
{
    gy_job *job = NULL;
    GY_TRY(gy_job_read(id, &job));
    GY_ASSERT(job != NULL);
    gy_status status = job->state == GY_JOB_RUNNING
                           ? kill_holder(job)
                           : gy_fail(GY_STATE, "job %s is not running", job->id);
    gy_job_free(job);
    return status;
}

/* Does a journal exist? An ended job removes it last, so its manager was interrupted. */
static bool is_left(const gy_job *job)
{
    return gy_journal_is_there(gy_env_real(), job->report.folder);
}

/* Set the environment variables that the program started with. A program started without any
 * has no such file. */
static gy_status set_again(const gy_job *job)
{
    char path[PATH_BYTES], line[PATH_BYTES];
    if (snprintf(path, sizeof(path), "%s/" GY_JOB_SETTINGS_FILE, job->report.folder) >=
        (int)sizeof(path)) {
        return gy_fail(GY_ARG, "the path %.100s... is too long", job->report.folder);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return errno == ENOENT ? GY_OK
                               : gy_fail(GY_IO, "cannot read %s: %s", path, strerror(errno));
    }
    gy_status status = GY_OK;
    while (status == GY_OK && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *value = strchr(line, '=');
        if (value == NULL || strncmp(line, "GYRE_JOB_", strlen("GYRE_JOB_")) != 0) {
            status = gy_fail(GY_FORMAT, "%s: '%.60s' is no setting of a job", path, line);
        } else {
            *value++ = '\0';
            status = setenv(line, value, 1) == 0 ? GY_OK : GY_NOMEM;
        }
    }
    (void)fclose(file);
    return status;
}

static gy_status start_again(read_job *whole)
{
    const gy_job *job = &whole->job;
    const bool is_over =
        job->state == GY_JOB_DONE && (gy_history_is_held(job->report.folder) || !is_left(job));
    if (job->state == GY_JOB_RUNNING || is_over) {
        return gy_fail(GY_STATE, "job %s %s", job->id,
                       job->state == GY_JOB_DONE ? "finished successfully" : "runs");
    }
    size_t count = 0;
    while (job->arguments[count] != NULL) {
        count++;
    }
    if (count == 0) {
        return gy_fail(GY_STATE, "job %s has no command line", job->id);
    }
    char **arguments = gy_arena_alloc(&whole->arena, (count + 1) * sizeof(*arguments));
    for (size_t i = 0; arguments != NULL && i < count; i++) {
        size_t size = strlen(job->arguments[i]) + 1;
        if ((arguments[i] = gy_arena_alloc(&whole->arena, size)) == NULL) {
            return GY_NOMEM;
        }
        memcpy(arguments[i], job->arguments[i], size);
    }
    if (arguments == NULL || setenv(GY_JOB_RESUME_VARIABLE, job->report.folder, 1) != 0) {
        return gy_fail(GY_NOMEM, "no memory for a command line");
    }
    GY_TRY(set_again(job));
    if (chdir(job->directory) != 0) {
        return gy_fail(GY_IO, "cannot enter %s: %s", job->directory, strerror(errno));
    }
    execvp(arguments[0], arguments);
    return gy_fail(GY_IO, "cannot start %s: %s", arguments[0], strerror(errno));
}

gy_status gy_job_resume(const char *id)
{
    gy_job *job = NULL;
    GY_TRY(gy_job_read(id, &job));
    GY_ASSERT(job != NULL);
    gy_status status = start_again((read_job *)job);
    gy_job_free(job);
    return status;
}
