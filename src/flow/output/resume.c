/* Reads and writes the environment for a resume: which job the program was started again for,
 * and the settings to pass on. */
#include "flow/output/job.h"

#include "persist/journal/journal.h"
#include "store/remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void look_for_resume(gy_flow_job *job)
{
    const char *folder = gy_setting_get(GY_JOB_RESUME_VARIABLE);
    if (folder == NULL) {
        return;
    }
    char own[GY_JOB_PATH] = "";
    if (job->options.folder != NULL && realpath(job->options.folder, own) == NULL) {
        return; /* another job, which has not begun */
    }
    if (own[0] == '\0' || strcmp(own, folder) == 0) {
        job->options.folder = folder;
        job->options.is_resume = true;
    }
}

gy_status gy_flow_run_look_for_resume(gy_flow_job *job)
{
    look_for_resume(job);
    const char *text = gy_setting_get(GY_JOB_EPOCH_VARIABLE);
    if (text != NULL || job->options.is_resume) { /* a local resume takes the next epoch */
        job->journal = gy_setting_get(GY_JOB_JOURNAL_VARIABLE);
    }
    if (text == NULL) {
        return GY_OK;
    }
    char *end = NULL;
    errno = 0;
    job->epoch = strtoull(text, &end, 10);
    return text[0] >= '1' && text[0] <= '9' && *end == '\0' && errno == 0
               ? GY_OK
               : gy_fail(GY_ARG, GY_JOB_EPOCH_VARIABLE " is '%.40s', expected a number from 1",
                         text);
}

gy_status gy_flow_run_place_journal(gy_flow_job *job)
{
    const char *where = gy_setting_get(GY_JOB_JOURNAL_VARIABLE);
    if (where == NULL) {
        return GY_OK;
    }
    const bool is_uri = gy_uri_is_remote(where) || gy_uri_is_file(where);
    GY_TRY(gy_uri_check_new(where));
    if (!is_uri && where[0] != '/') {
        return gy_fail(GY_ARG,
                       GY_JOB_JOURNAL_VARIABLE " is '%.80s', expected a URI or a path "
                                               "from the root",
                       where);
    }
    const char *slash = where[strlen(where) - 1] == '/' ? "" : "/";
    char *own = gy_arena_alloc(&job->arena, GY_JOB_PATH);
    if (own == NULL) {
        return GY_NOMEM;
    }
    if (snprintf(own, GY_JOB_PATH, "%s%s%s%s", where, slash, job->id, is_uri ? "/" : "") >=
        GY_JOB_PATH) {
        return gy_fail(GY_ARG, GY_JOB_JOURNAL_VARIABLE " is too long");
    }
    job->journal = own;
    GY_TRY(is_uri ? GY_OK : gy_flow_run_make_own_folder(own));
    /* check it before anything else is created */
    const gy_status status = gy_journal_suits(job->env, own);
    if (status < 0 && !is_uri) {
        (void)rmdir(own);
    }
    return status;
}

void gy_flow_run_settings(gy_text *out)
{
    static const char *const names[] = {"GYRE_JOB_JOURNAL", "GYRE_JOB_PROCESSES",
                                        "GYRE_JOB_THREADS", "GYRE_JOB_MEMORY",
                                        "GYRE_JOB_TIMEOUT", "GYRE_JOB_HEARTBEAT_TIMEOUT",
                                        "GYRE_JOB_MEMO",    "GYRE_JOB_MEMO_BYTES",
                                        "GYRE_JOB_TRACE",   "GYRE_JOB_SANDBOX"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        const char *value = gy_setting_get(names[i]);
        if (value != NULL && strchr(value, '\n') == NULL) {
            gy_text_add(out, "%s=%s\n", names[i], value);
        }
    }
}
