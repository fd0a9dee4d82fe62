/*
 * What a failed or killed job on a cluster leaves: its journal, and its committed final
 * outputs. The name of the folder in the output tells another job that begins there that it
 * may remove it. That job and a resume both rename the folder first, and only one rename
 * succeeds. Real files only.
 */
#include "flow/channel/vertex.h"
#include "flow/output/job.h"

#include "persist/journal/journal.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char hidden_name[] = "hidden";

bool gy_flow_run_is_left(const gy_flow_job *job)
{
    bool is_left = false;
    for (size_t i = 0;
         job->manager != NULL && !job->is_published && i < gy_manager_stage_count(job->manager);
         i++) {
        gy_stage_state state;
        gy_manager_stage(job->manager, (uint32_t)i, &state);
        is_left = is_left || state.committed > 0;
    }
    return is_left;
}

bool gy_flow_run_is_kept_name(const char *name)
{
    return strncmp(name, GY_JOB_KEPT_NAME, sizeof(GY_JOB_KEPT_NAME) - 1) == 0;
}

static gy_status kept_path(const gy_flow_job *job, char out[GY_JOB_PATH])
{
    char name[GY_HIDDEN_NAME_BYTES];
    (void)snprintf(name, sizeof(name), GY_JOB_KEPT_NAME "%s", job->id);
    return gy_flow_run_path(out, job->output, name);
}

static void remove_kept(const char *path)
{
    if (access(path, F_OK) == 0 && gy_flow_folder_remove(path) < 0) {
        gy_warn("cannot remove the retained files of a failed job: %s", gy_error_text());
    }
}

/* ---- the end of a job ---- */

void gy_flow_run_keep_hidden(const gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    const bool has_path = gy_flow_run_path(path, job->folder, hidden_name) >= 0;
    if (has_path) {
        remove_kept(path);
    }
    if (!has_path || (rename(job->hidden, path) != 0 && errno != ENOENT)) {
        /* on another file system a rename fails, and the outputs are made again */
        remove_kept(job->hidden);
    }
}

void gy_flow_run_keep_folder(const gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    if (job->is_folder_own && (kept_path(job, path) < 0 || rename(job->folder, path) != 0)) {
        gy_warn("cannot rename %s: no other job can have that output", job->folder);
    }
}

/* ---- resuming ---- */

static gy_status fail_gone(const gy_flow_job *job, const char *what, const char *how)
{
    if (job->journal != NULL && job->journal[0] == '/') {
        (void)rmdir(job->journal); /* if it was created just now */
    }
    return gy_fail(GY_NOTFOUND, "nothing is left to resume: %s %s", what, how);
}

gy_status gy_flow_run_take_back(const gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    if (!job->ticket->is_resumed) {
        return GY_OK;
    }
    GY_TRY(kept_path(job, path));
    if (rename(path, job->folder) != 0 && errno != ENOENT && errno != EEXIST &&
        errno != ENOTEMPTY) {
        return gy_fail(GY_IO, "cannot rename %s: %s", path, strerror(errno));
    }
    /* Otherwise a later job of the program may have begun. */
    return job->ticket->round == 1 && access(job->folder, F_OK) != 0 &&
                   !gy_flow_run_is_published(job)
               ? fail_gone(job, job->folder, "is gone")
               : GY_OK;
}

gy_status gy_flow_run_check_left(const gy_flow_job *job)
{
    return !job->ticket->is_resumed || job->ticket->round != 1 || job->is_resumed
               ? GY_OK
               : fail_gone(job, job->journal != NULL ? job->journal : job->folder,
                           "holds no journal of this job");
}

bool gy_flow_run_restore_hidden(gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    job->is_restored =
        gy_flow_run_path(path, job->folder, hidden_name) >= 0 && rename(path, job->hidden) == 0;
    return job->is_restored;
}

static gy_status forget_one_kept(void *arg, const char *name)
{
    const gy_flow_job *job = arg;
    char path[GY_JOB_PATH], mine[GY_JOB_PATH];
    if (gy_flow_run_is_kept_name(name) && gy_flow_run_path(path, job->output, name) >= 0 &&
        gy_flow_run_path(mine, job->hidden, "kept") >= 0 && rename(path, mine) == 0) {
        remove_kept(mine);
    }
    return GY_OK;
}

void gy_flow_run_forget_kept(gy_flow_job *job)
{
    if (job->hidden[0] != '\0' &&
        gy_disk_each(job->env, job->output, forget_one_kept, job) < 0) {
        gy_warn("cannot remove the retained files of failed jobs: %s", gy_error_text());
    }
}

/* ---- removing everything ---- */

static gy_status remove_all(const char *path)
{
    return access(path, F_OK) == 0 ? gy_flow_folder_remove(path) : GY_OK;
}

/* Remove one entry in the output if it is this job's. */
static gy_status forget_name(void *arg, const char *name)
{
    gy_flow_job *job = arg;
    char path[GY_JOB_PATH], kept[GY_JOB_PATH];
    uint64_t epoch = 0;
    GY_TRY(kept_path(job, kept));
    GY_TRY(gy_flow_run_path(path, job->output, name));
    const bool is_hidden = gy_flow_run_is_hidden(job, name, &epoch);
    if (is_hidden) { /* a manager died before it could rename its hidden folder */
        memcpy(job->hidden, path, sizeof(path));
        gy_flow_run_remove_names(job);
        job->hidden[0] = '\0';
    }
    const bool is_own = is_hidden || strcmp(path, kept) == 0 ||
                        (job->is_folder_own && strcmp(path, job->folder) == 0);
    return is_own ? remove_all(path) : GY_OK;
}

static gy_status forget_output(gy_flow_job *job)
{
    if (access(job->output, F_OK) != 0 && errno == ENOENT) {
        return GY_OK;
    }
    GY_TRY(gy_disk_each(job->env, job->output, forget_name, job));
    (void)rmdir(job->output); /* succeeds only if the folder is empty */
    return GY_OK;
}

/* A folder that the program gave may belong to another job by now. */
static gy_status forget_folder(const gy_flow_job *job)
{
    static const char *const names[] = {"data", "scratch", "run", "trace", hidden_name};
    char path[GY_JOB_PATH];
    gy_bytes id;
    GY_TRY(gy_flow_run_path(path, job->folder, "id"));
    if (access(path, F_OK) != 0) {
        return GY_OK;
    }
    GY_TRY(gy_store_file_read(job->env, path, sizeof(job->id) - 1, &id));
    const bool is_own =
        id.size_bytes == strlen(job->id) && memcmp(id.data, job->id, id.size_bytes) == 0;
    gy_free(id.data);
    for (size_t i = 0; is_own && i < GY_COUNT(names); i++) {
        GY_TRY(gy_flow_run_path(path, job->folder, names[i]));
        GY_TRY(remove_all(path));
    }
    return is_own ? gy_journal_remove(job->env, job->folder) : GY_OK;
}

static gy_status forget_all(gy_flow_job *job)
{
    if (job->output[0] != '\0' || job->options.output != NULL) {
        GY_TRY(gy_flow_run_name_output(job));
        GY_TRY(forget_output(job));
    }
    if (!job->is_folder_own) {
        GY_TRY(forget_folder(job));
    }
    if (job->journal != NULL) {
        GY_TRY(gy_journal_remove(job->env, job->journal));
        GY_TRY(job->journal[0] == '/' ? remove_all(job->journal) : GY_OK);
    }
    return GY_OK;
}

gy_status gy_flow_run_forget(gy_flow_job *job)
{
    GY_TRY(gy_ticket_set_forgotten(job->ticket, false));
    job->site->choose_id(job);
    GY_TRY(gy_flow_run_place_journal(job));
    GY_TRY(gy_flow_run_name_folder(job));
    if (!gy_flow_run_is_done(job)) {
        GY_TRY(forget_all(job));
    }
    GY_TRY(gy_ticket_set_forgotten(job->ticket, true));
    return job->is_done
               ? GY_OK
               : gy_fail(GY_CANCELLED, "the retained files of job %s are removed", job->id);
}
