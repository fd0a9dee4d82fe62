/* Folders of a job: its own, and the output folder, which stays hidden before publication.
 * Real files only. */
#include "base/text.h"
#include "flow/output/job.h"

#include "persist/history/history.h"
#include "persist/journal/journal.h"
#include "store/remote/remote.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

gy_status gy_flow_run_path(char out[GY_JOB_PATH], const char *folder, const char *name)
{
    if (snprintf(out, GY_JOB_PATH, "%s/%s", folder, name) >= GY_JOB_PATH) {
        return gy_fail(GY_ARG, "the path %.100s.../%s is too long", folder, name);
    }
    return GY_OK;
}

gy_status gy_flow_run_make_own_folder(const char *path)
{
    char any[GY_JOB_PATH];
    GY_TRY(gy_flow_run_path(any, path, "any"));
    const int made = gy_disk_make_folders(any);
    return made == 0 ? GY_OK
                     : gy_fail(GY_IO, "cannot make the folder %s: %s", path, strerror(-made));
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about, (void)kind, (void)at;
    return remove(path) != 0 && errno != ENOENT;
}

/* Remove the folder and everything in it; log what cannot be removed. What cannot be looked at
 * was never made. */
static void remove_folder(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0) {
        return;
    }
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT &&
        errno != ENOTDIR) {
        gy_warn("cannot remove all of %s: %s", path, strerror(errno));
    }
}

/* ---- the job's own folder ---- */

void gy_flow_run_new_id(gy_env *env, int64_t wall_ns, char id[GY_JOB_ID_BYTES])
{
    const time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm when;
    (void)gmtime_r(&seconds, &when);
    char date[20];
    (void)strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &when);
    (void)snprintf(id, GY_JOB_ID_BYTES, "%s-%06llx", date,
                   (unsigned long long)(env->ops->random(env, GY_CHANCE_WORK) & 0xffffff));
}

static gy_status read_id(gy_flow_job *job, const char *path)
{
    gy_bytes bytes;
    GY_TRY(gy_store_file_read(job->env, path, sizeof(job->id) - 1, &bytes));
    memcpy(job->id, bytes.data, bytes.size_bytes);
    job->id[bytes.size_bytes] = '\0';
    gy_free(bytes.data);
    return job->id[0] != '\0' && strchr(job->id, '/') == NULL
               ? GY_OK
               : gy_fail(GY_FORMAT, "%s holds no job id", path);
}

static gy_status write_settings(gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    gy_text settings = {0};
    gy_flow_run_settings(&settings);
    gy_status status = settings.status;
    if (status == GY_OK && settings.size_bytes > 0) {
        status = gy_flow_run_path(path, job->folder, GY_JOB_SETTINGS_FILE);
        status = status < 0
                     ? status
                     : gy_store_file_write(job->env, path, settings.data, settings.size_bytes);
    }
    gy_text_free(&settings);
    return status;
}

/* The id is written when the folder is created, and read when the job resumes. Several
 * managers with epochs may create it; the first one's id counts. */
static gy_status know_id(gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    GY_TRY(gy_flow_run_path(path, job->folder, "id"));
    if (job->is_resumed) {
        return read_id(job, path);
    }
    gy_status status = job->epoch == 0
                           ? gy_store_file_write(job->env, path, job->id, strlen(job->id))
                           : gy_share_create(job->env, path, job->id, strlen(job->id));
    status = status == GY_EXISTS ? read_id(job, path) : status;
    return status < 0 ? status : write_settings(job);
}

/* An output for an object store is staged in the job's own folder first. */
static gy_status name_staging(gy_flow_job *job)
{
    const char *uri = job->options.output;
    const size_t size = strlen(uri);
    GY_ASSERT(job->folder[0] != '\0');
    if (snprintf(job->target, sizeof(job->target), "%s%s", uri,
                 uri[size - 1] == '/' ? "" : "/") >= (int)sizeof(job->target)) {
        return gy_fail(GY_ARG, "the output %.100s... is too long", uri);
    }
    return gy_flow_run_path(job->output, job->folder, "output");
}

/* The output's absolute path. */
gy_status gy_flow_run_name_output(gy_flow_job *job)
{
    char here[GY_JOB_PATH];
    if (gy_uri_is_remote(job->options.output)) {
        return name_staging(job);
    }
    if (job->options.output[0] == '/') {
        GY_TRY(gy_flow_run_path(job->output, job->options.output, "."));
        job->output[strlen(job->output) - 2] = '\0';
        return GY_OK;
    }
    if (getcwd(here, sizeof(here)) == NULL) {
        return gy_fail(GY_IO, "the current folder has no path: %s", strerror(errno));
    }
    return gy_flow_run_path(job->output, here, job->options.output);
}

gy_status gy_flow_run_name_folder(gy_flow_job *job)
{
    char name[GY_HIDDEN_NAME_BYTES], here[GY_JOB_PATH];
    if (job->options.folder == NULL) {
        (void)snprintf(name, sizeof(name), GY_JOB_SHARED_NAME "%s", job->id);
        GY_TRY(gy_flow_run_name_output(job));
        job->is_folder_own = true;
        return gy_flow_run_path(job->folder, job->output, name);
    }
    if (job->options.folder[0] == '/') {
        return snprintf(job->folder, GY_JOB_PATH, "%s", job->options.folder) < GY_JOB_PATH
                   ? GY_OK
                   : gy_fail(GY_ARG, "the path of the job's folder is too long");
    }
    if (getcwd(here, sizeof(here)) == NULL) {
        return gy_fail(GY_IO, "the current folder has no path: %s", strerror(errno));
    }
    return gy_flow_run_path(job->folder, here, job->options.folder);
}

gy_status gy_flow_run_find_folder(gy_flow_job *job)
{
    if (job->options.is_resume) {
        return gy_fail(GY_ARG, "a job to resume needs its folder");
    }
    char all[GY_JOB_PATH];
    const gy_status known = gy_history_folder(all, sizeof(all));
    if (known < 0) {
        return gy_fail_within(known, "no folder for the job, but none is given");
    }
    return gy_flow_run_path(job->folder, all, job->id);
}

/* Does the folder have no journal, so that the job is a new one? */
static gy_status look_for_journal(gy_flow_job *job)
{
    const char *where = job->journal != NULL ? job->journal : job->folder;
    const bool has_journal = gy_journal_is_there(job->env, where);
    if (has_journal && job->options.is_resume && job->epoch == 0) {
        GY_TRY(gy_journal_next(job->env, where, &job->epoch));
    }
    if (job->epoch > 0) { /* however far earlier epochs came */
        job->is_resumed = has_journal;
        return GY_OK; /* the folder is ours once the journal is open */
    }
    if (has_journal && !job->options.is_resume) {
        return gy_fail(GY_EXISTS, "%s holds a job: resume it or choose another folder",
                       job->folder);
    }
    if (!has_journal && job->options.is_resume) {
        return gy_fail(GY_NOTFOUND, "%s holds no job to resume", job->folder);
    }
    if (!job->options.is_resume && gy_history_is_held(job->folder)) {
        return gy_fail(GY_STATE, "another manager runs the job in %s", job->folder);
    }
    job->is_resumed = job->options.is_resume;
    /* otherwise the folder is ours once the driver holds its lock */
    job->is_ours = !job->is_resumed;
    return GY_OK;
}

gy_status gy_flow_run_make_folder(gy_flow_job *job)
{
    const gy_flow_site *site = job->site;
    site->choose_id(job);
    GY_TRY(site->place_journal != NULL ? site->place_journal(job) : GY_OK);
    GY_TRY(job->options.folder != NULL ? gy_flow_run_name_folder(job) : site->find_folder(job));
    GY_TRY(look_for_journal(job));
    if (site->is_done != NULL && site->is_done(job)) {
        return GY_OK;
    }
    GY_TRY(site->check_left != NULL ? site->check_left(job) : GY_OK);
    /* the folder is inside the output folder, which may be another job's */
    if (job->is_folder_own) {
        GY_TRY(gy_flow_run_check_output(job));
    }
    const char *const names[] = {"data", "scratch", "run", "trace"};
    job->is_new = access(job->folder, F_OK) != 0;
    GY_TRY(gy_flow_run_path(job->data, job->folder, "data"));
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        char path[GY_JOB_PATH];
        GY_TRY(gy_flow_run_path(path, job->folder, names[i]));
        GY_TRY(gy_flow_run_make_own_folder(path));
    }
    return know_id(job);
}

/* ---- the output folder ---- */

static const char hidden_prefix[] = ".gyre-";

typedef struct finding {
    const gy_flow_job *job;
    char other[256]; /* "": none */
} finding;

/* GY_AGAIN: the entry is another job's. */
static gy_status look_at_name(void *arg, const char *name)
{
    finding *of = arg;
    const gy_flow_job *job = of->job;
    uint64_t epoch = 0;
    if ((gy_flow_run_is_hidden(job, name, &epoch) && epoch <= job->epoch) ||
        gy_flow_run_is_kept_name(name) ||
        (job->is_folder_own && strcmp(name, strrchr(job->folder, '/') + 1) == 0)) {
        return GY_OK;
    }
    const bool is_left = strncmp(name, hidden_prefix, sizeof(hidden_prefix) - 1) == 0;
    if (is_left || of->other[0] == '\0') {
        (void)snprintf(of->other, sizeof(of->other), "%.255s", name);
    }
    return is_left ? GY_AGAIN : GY_OK; /* the job's id says more than the entry's name */
}

/* Get the job's id from a hidden folder's name: ".gyre-DATE-TIME-NUMBER" for one machine,
 * ".gyre-NUMBER-EPOCH" or ".gyre-job-NUMBER" for a cluster, whose numbers have 32 digits. */
static bool read_hidden_name(const char *name, char id[GY_JOB_ID_BYTES])
{
    const bool is_folder =
        strncmp(name, GY_JOB_SHARED_NAME, sizeof(GY_JOB_SHARED_NAME) - 1) == 0;
    const char *at =
        name + (is_folder ? sizeof(GY_JOB_SHARED_NAME) : sizeof(hidden_prefix)) - 1;
    const bool is_local = strspn(at, "0123456789") == 8 && at[8] == '-';
    size_t size = strcspn(at, "-");
    for (int part = 1; is_local && part < 3 && at[size] == '-'; part++) {
        size += 1 + strcspn(at + size + 1, "-");
    }
    (void)snprintf(id, GY_JOB_ID_BYTES, "%.*s", (int)GY_MIN(size, (size_t)GY_JOB_ID_BYTES - 1),
                   at);
    return is_local;
}

/* Tell the user the choice: resume that job, or remove what it left. */
static gy_status fail_not_empty(const gy_flow_job *job, const char *other)
{
    char id[GY_JOB_ID_BYTES];
    if (strncmp(other, hidden_prefix, sizeof(hidden_prefix) - 1) != 0) {
        return gy_fail(GY_EXISTS, "the output folder %s is not empty: it has %s", job->output,
                       other);
    }
    gy_job *row = NULL;
    const bool is_local = read_hidden_name(other, id);
    const bool is_known = is_local && gy_job_read(id, &row) == GY_OK;
    const bool is_running = is_known && row->state == GY_JOB_RUNNING;
    gy_job_free(row);
    if (is_running) {
        return gy_fail(GY_EXISTS,
                       "the output folder %s is not empty: job %s is running and writes its "
                       "output there (gyre job kill %s ends it)",
                       job->output, id, id);
    }
    if (is_known || !is_local) {
        const char *names = is_local ? "" : " --nameservers ADDRESS";
        return gy_fail(
            GY_EXISTS,
            "the output folder %s is not empty: it holds files that job %s %s; `gyre job "
            "resume%s %s` resumes the job, `gyre job gc%s %s` removes them",
            job->output, id,
            is_local ? "left when it was interrupted" : "of a cluster makes or left", names, id,
            names, id);
    }
    return gy_fail(GY_EXISTS,
                   "the output folder %s is not empty: it has %s of job %s, which this user's "
                   "history does not know: remove it when that job does not run",
                   job->output, other, id);
}

gy_status gy_flow_run_check_output(const gy_flow_job *job)
{
    finding of = {.job = job};
    if (!job->is_resumed || job->is_restored) { /* entries beside our hidden folder */
        GY_TRY(gy_disk_each(job->env, job->output, look_at_name, &of));
    }
    return of.other[0] == '\0' ? GY_OK : fail_not_empty(job, of.other);
}

gy_status gy_flow_run_make_output_folder(gy_flow_job *job)
{
    char parent[GY_JOB_PATH];
    GY_TRY(gy_flow_run_path(parent, job->output, "..")); /* only checks the length */
    const int made = gy_disk_make_folders(job->output);
    if (made != 0) {
        return gy_fail(GY_IO, "cannot make the folders above %s: %s", job->output,
                       strerror(-made));
    }
    const bool is_new = mkdir(job->output, 0777) == 0;
    job->is_output_made = job->is_output_made || is_new;
    if (!is_new && errno != EEXIST) {
        return gy_fail(GY_IO, "cannot make the output folder %s: %s", job->output,
                       strerror(errno));
    }
    struct stat about;
    if (stat(job->output, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return gy_fail(GY_EXISTS, "%s exists and is no folder", job->output);
    }
    return GY_OK;
}

typedef struct gy_leaver {
    const char *target;
    char id[GY_JOB_ID_BYTES]; /* "": none */
} gy_leaver;

/* Find the last failed job with this output. */
static gy_status look_at_job(void *arg, const gy_job *row)
{
    gy_leaver *of = arg;
    if (row->state == GY_JOB_DONE || row->state == GY_JOB_RUNNING ||
        strcmp(row->output, of->target) != 0) {
        return GY_OK;
    }
    (void)gy_print(of->id, sizeof(of->id), "%s", row->id);
    return GY_AGAIN;
}

/* A manager on a cluster cannot print while it waits for a store. */
static gy_status check_target(const gy_flow_job *job)
{
    if (job->target[0] == '\0' || job->is_resumed) {
        return GY_OK;
    }
    const gy_status status =
        gy_object_output_check(gy_env_real(), job->target, job->site->store_seconds);
    gy_leaver of = {.target = job->target};
    gy_error error;
    if (status != GY_EXISTS || !job->site->has_history) {
        return status;
    }
    gy_error_take(&error, status);
    return gy_job_list(0, look_at_job, &of) == GY_AGAIN
               ? gy_fail(GY_EXISTS,
                         "%s; job %s did not finish there: `gyre job resume %s` resumes it, "
                         "`gyre job gc %s` removes its files",
                         error.text, of.id, of.id, of.id)
               : gy_error_raise(&error);
}

gy_status gy_flow_run_make_output(gy_flow_job *job)
{
    if (job->options.output == NULL) {
        return GY_OK;
    }
    GY_TRY(gy_flow_run_name_output(job));
    char name[GY_HIDDEN_NAME_BYTES];
    gy_flow_run_hidden_name(job, name);
    gy_status status = check_target(job);
    status = status < 0 ? status : gy_flow_run_make_output_folder(job);
    if (status < 0) {
        job->output[0] = '\0'; /* the output is not ours to clean */
        return status;
    }
    GY_TRY(gy_flow_run_path(job->hidden, job->output, name));
    GY_TRY(gy_flow_run_check_output(job));
    if (job->epoch > 0) {
        return GY_OK; /* gy_flow_run_began does the rest */
    }
    if (mkdir(job->hidden, 0700) != 0 && errno != EEXIST) {
        return gy_fail(GY_IO, "cannot make a folder in %s: %s", job->output, strerror(errno));
    }
    return gy_flow_run_check_output(job);
}

/* ---- the end of a job ---- */

void gy_flow_run_remove_names(const gy_flow_job *job)
{
    char path[GY_JOB_PATH], name[GY_DAG_NAME_BYTES];
    struct stat about;
    if (stat(job->hidden, &about) != 0 || gy_flow_run_is_published(job)) {
        /* the output was another job's from the beginning, or an earlier manager published
         * it */
        return;
    }
    for (size_t i = 0; i < job->dag->final_count; i++) {
        if (gy_flow_run_path(path, job->output,
                             gy_flow_run_final_name(job->dag, &job->dag->finals[i], name)) >=
            0) {
            (void)unlink(path);
        }
    }
}

/* An existing journal means that the job can be resumed. */
static void remove_journal(gy_flow_job *job, gy_status status)
{
    if (status >= 0 && job->site->say_done != NULL && job->site->say_done(job) < 0) {
        gy_warn("the next manager would run an ended job again: %s", gy_error_text());
    }
    const bool is_apart = job->site->place_journal != NULL && job->journal != NULL;
    if ((status >= 0 || is_apart) && job->folder[0] != '\0' &&
        gy_journal_remove(job->env, job->journal != NULL ? job->journal : job->folder) < 0) {
        gy_warn("cannot remove the journal of an ended job: %s", gy_error_text());
    }
    if (is_apart && job->journal[0] == '/') {
        remove_folder(job->journal); /* the journal's own folder */
    }
}

/* Staged files stay until they are uploaded: a resumed job uploads the rest. */
static void clean_staging(const gy_flow_job *job, gy_status status, bool is_left)
{
    const bool is_gone = status >= 0 || job->is_published;
    if (is_gone || (!is_left && !gy_flow_run_has_saved(job))) {
        remove_folder(job->output);
    }
}

static void clean_output(gy_flow_job *job, gy_status status, bool is_left)
{
    if (job->target[0] != '\0') {
        clean_staging(job, status, is_left);
        return;
    }
    const bool has_hidden = job->hidden[0] != '\0', is_void = status < 0 && !job->is_published;
    if (is_void && has_hidden) {
        gy_flow_run_remove_names(job);
    }
    if (has_hidden && is_left) {
        gy_flow_run_keep_hidden(job);
    } else if (has_hidden) {
        remove_folder(job->hidden);
    }
    if (is_void && job->is_output_made && !job->is_folder_own) {
        (void)rmdir(job->output);
    }
}

/* The first of the folders may contain committed outputs. */
static void clean_folder(const gy_flow_job *job, bool is_left)
{
    const char *const names[] = {"data", "scratch", "run", "trace"};
    for (size_t i = is_left && gy_flow_run_is_shared(job); i < GY_COUNT(names); i++) {
        char path[GY_JOB_PATH];
        if (gy_flow_run_path(path, job->folder, names[i]) >= 0) {
            remove_folder(path);
        }
    }
}

/* A refused job has no row in the history that would lead to its folder. */
static void remove_unbegun(const gy_flow_job *job)
{
    const char *const names[] = {"id", GY_JOB_SETTINGS_FILE, GY_JOB_INPUTS_FILE};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        char path[GY_JOB_PATH];
        if (gy_flow_run_path(path, job->folder, names[i]) >= 0) {
            (void)unlink(path);
        }
    }
    (void)rmdir(job->folder);
}

void gy_flow_run_clean(gy_flow_job *job, gy_status status)
{
    const bool is_left = status < 0 && job->site->is_left != NULL && job->site->is_left(job);
    if (!job->is_ours) {
        return;
    }
    if (job->output[0] != '\0') {
        clean_output(job, status, is_left);
    }
    if (job->epoch == 0 && !job->has_lock && job->folder[0] != '\0' &&
        gy_history_is_held(job->folder)) {
        return; /* another job began there at the same time and was first */
    }
    if (job->folder[0] != '\0') {
        clean_folder(job, is_left);
    }
    if (is_left) {
        gy_flow_run_keep_folder(job);
        return;
    }
    remove_journal(job, status); /* the journal goes last */
    if (status < 0 && job->is_new && !job->has_begun && job->site->has_history) {
        remove_unbegun(job);
    }
    /* also after a failure, since the name server knows the job's end */
    if (job->is_folder_own) {
        remove_folder(job->folder);
        if (status < 0 && job->is_output_made && !job->is_published) {
            (void)rmdir(job->output);
        }
    }
}
