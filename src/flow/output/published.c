/* Determines from an output and a job's folder whether the output is published, whether it is
 * this job's, and whether its last manager finished. */
#include "flow/output/job.h"

#include "base/text.h"
#include "persist/journal/journal.h"
#include "store/remote/remote.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *gy_flow_run_final_name(const gy_dag *dag, const gy_dag_final *final,
                                   char out[GY_DAG_NAME_BYTES])
{
    (void)snprintf(out, GY_DAG_NAME_BYTES, "%s-%05u", dag->output_names[final->name],
                   final->number);
    return out;
}

void gy_running_begin_manifest(const gy_flow_job *job, gy_text *text)
{
    gy_text_add(text, "{\"format\": \"gyre output 1\", \"job\": \"%s\", \"name\": ", job->id);
}

bool gy_flow_run_is_published(const gy_flow_job *job)
{
    char path[GY_JOB_PATH];
    gy_text beginning = {0};
    gy_bytes there = {NULL, 0};
    gy_running_begin_manifest(job, &beginning);
    const bool is_own = gy_flow_run_path(path, job->output, "MANIFEST.json") >= 0 &&
                        gy_share_read(job->env, path, GY_JOB_MANIFEST_BYTES, &there) >= 0 &&
                        strncmp(there.data, gy_text_get(&beginning), beginning.size_bytes) == 0;
    gy_free(there.data);
    gy_text_free(&beginning);
    return is_own;
}

bool gy_flow_run_has_saved(const gy_flow_job *job)
{
    char path[GY_JOB_PATH], name[GY_DAG_NAME_BYTES];
    return job->dag->final_count > 0 &&
           gy_flow_run_path(path, job->output,
                            gy_flow_run_final_name(job->dag, &job->dag->finals[0], name)) >=
               0 &&
           access(path, F_OK) == 0;
}

gy_status gy_flow_run_say_done(gy_flow_job *job)
{
    char path[GY_JOB_PATH], line[GY_JOB_ID_BYTES + 1];
    if (job->output[0] != '\0') {
        return GY_OK;
    }
    GY_TRY(gy_flow_run_path(path, job->folder, "ended"));
    (void)snprintf(line, sizeof(line), "%s\n", job->id);
    gy_status status = gy_share_create(job->env, path, line, strlen(line));
    return status == GY_EXISTS ? GY_OK : status;
}

/* Does the file exist and begin with these words? */
static bool begins(const gy_flow_job *job, const char *folder, const char *name,
                   const char *expected)
{
    char path[GY_JOB_PATH];
    gy_bytes bytes;
    if (gy_flow_run_path(path, folder, name) < 0 ||
        gy_store_file_read(job->env, path, GY_JOB_MANIFEST_BYTES, &bytes) < 0) {
        return false; /* then it is treated like any other folder that is not empty */
    }
    const bool is_same = bytes.size_bytes >= strlen(expected) &&
                         memcmp(bytes.data, expected, strlen(expected)) == 0;
    gy_free(bytes.data);
    return is_same;
}

bool gy_flow_run_is_done(gy_flow_job *job)
{
    char expected[GY_JOB_ID_BYTES + 64];
    const bool has_output = job->output[0] != '\0' || job->options.output != NULL;
    if ((job->is_resumed && !gy_journal_is_ending(job->env, job->folder)) ||
        (has_output && job->output[0] == '\0' && gy_flow_run_name_output(job) < 0)) {
        return false;
    }
    (void)snprintf(expected, sizeof(expected),
                   has_output ? "{\"format\": \"gyre output 1\", \"job\": \"%s\"," : "%s\n",
                   job->id);
    job->is_done = job->target[0] != '\0'
                       ? gy_object_output_begins(gy_env_real(), job->target,
                                                 GY_JOB_STORE_SECONDS, expected)
                   : has_output ? begins(job, job->output, "MANIFEST.json", expected)
                                : begins(job, job->folder, "ended", expected);
    /* files that the last manager left are ours to remove */
    job->is_ours = job->is_ours || job->is_done;
    return job->is_done;
}

bool gy_flow_run_is_shared(const gy_flow_job *job)
{
    return job->site->host_max > 0 && job->options.memo != NULL;
}
