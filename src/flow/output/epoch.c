/*
 * Like its journal (persist/journal/journal.h), a job's output may have only one writing
 * manager. Each epoch has a hidden folder with a name of its own there. A newer manager
 * renames the folder, so that writes of an older one fail. Real files only.
 */
#include "flow/output/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 8 };

void gy_flow_run_hidden_name(const gy_flow_job *job, char out[GY_HIDDEN_NAME_BYTES])
{
    if (job->epoch == 0) {
        (void)snprintf(out, GY_HIDDEN_NAME_BYTES, ".gyre-%s", job->id);
    } else {
        (void)snprintf(out, GY_HIDDEN_NAME_BYTES, ".gyre-%s-%llu", job->id,
                       (unsigned long long)job->epoch);
    }
}

bool gy_flow_run_is_hidden(const gy_flow_job *job, const char *name, uint64_t *epoch)
{
    const size_t size = strlen(job->id);
    if (strncmp(name, ".gyre-", 6) != 0 || strncmp(name + 6, job->id, size) != 0) {
        return false;
    }
    const char *rest = name + 6 + size;
    char *end = NULL;
    *epoch = 0;
    if (rest[0] == '-' && rest[1] >= '1' && rest[1] <= '9') {
        *epoch = strtoull(rest + 1, &end, 10);
        rest = end;
    }
    return rest[0] == '\0';
}

typedef struct seeking {
    const gy_flow_job *job;
    char name[GY_HIDDEN_NAME_BYTES]; /* name of the existing hidden folder; "": none */
    uint64_t epoch;
} seeking;

static gy_status seek_hidden(void *arg, const char *name)
{
    seeking *of = arg;
    uint64_t epoch = 0;
    if (gy_flow_run_is_hidden(of->job, name, &epoch) && epoch >= of->epoch) {
        (void)snprintf(of->name, sizeof(of->name), "%.*s", GY_HIDDEN_NAME_BYTES - 1, name);
        of->epoch = epoch;
    }
    return GY_OK;
}

/* Try to rename the hidden folder; GY_AGAIN: another manager renamed it meanwhile. */
static gy_status take_hidden(gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    seeking of = {.job = job};
    GY_TRY(gy_disk_each(job->env, job->output, seek_hidden, &of));
    if (of.epoch > job->epoch) {
        return gy_fail(GY_STATE, "epoch %llu has ended: epoch %llu has the output %s",
                       (unsigned long long)job->epoch, (unsigned long long)of.epoch,
                       job->output);
    }
    if (of.name[0] == '\0' && gy_flow_run_restore_hidden(job)) {
        return GY_OK;
    }
    GY_TRY(gy_flow_run_path(path, job->output, of.name));
    const int failed =
        of.name[0] == '\0' ? mkdir(job->hidden, 0700) : rename(path, job->hidden);
    if (failed == 0 || of.epoch == job->epoch) {
        return GY_OK;
    }
    return errno == ENOENT || errno == EEXIST
               ? GY_AGAIN
               : gy_fail(GY_IO, "cannot make %s: %s", job->hidden, strerror(errno));
}

gy_status gy_flow_run_began(void *arg)
{
    gy_flow_job *job = arg;
    gy_status status = job->epoch > 0 && job->hidden[0] != '\0' ? GY_AGAIN : GY_OK;
    for (int i = 0; i < TRIES && status == GY_AGAIN; i++) {
        status = take_hidden(job);
    }
    if (status == GY_AGAIN) {
        status = gy_fail(GY_STATE, "another manager is making %s", job->hidden);
    }
    if (status == GY_OK && job->hidden[0] != '\0') {
        status = gy_flow_run_check_output(job);
        if (status < 0 && job->is_restored) {
            gy_flow_run_keep_hidden(job);
        } else if (status < 0 && job->epoch > 0) {
            (void)rmdir(job->hidden); /* the output belongs to another job */
        } else if (status == GY_OK && !job->is_resumed) {
            gy_flow_run_forget_kept(job);
        }
    }
    job->is_ours = job->is_ours || status == GY_OK;
    return status;
}

void gy_flow_run_over(void *arg)
{
    gy_flow_job *job = arg;
    job->is_ours = false;
    job->is_over = true;
}
