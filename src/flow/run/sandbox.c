/* Decides what a job's processes may access inside a sandbox. Real files only. */
#include "flow/run/run_priv.h"

#include "store/remote/remote.h"

#include <stdio.h>
#include <string.h>

/* with longer lists of inputs, their folders are permitted instead */
enum { INPUTS_BYTES = 64 << 10 };

static gy_status permit(gy_flow_job *job, const char *folder, const char *name)
{
    char path[GY_JOB_PATH];
    GY_TRY(gy_flow_run_path(path, folder, name));
    return gy_sandbox_add(&job->sandbox, path, true);
}

/* Permit a file, or its folder unless the previous file had the same one. */
static gy_status permit_input(gy_flow_job *job, const char *path, bool is_by_folder, char *last)
{
    char wanted[GY_JOB_PATH];
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof(wanted)) {
        return gy_fail(GY_ARG, "the path %.100s... is too long", path);
    }
    if (!is_by_folder) {
        (void)snprintf(wanted, sizeof(wanted), "%s", path);
    } else if (slash == NULL || slash == path) {
        (void)snprintf(wanted, sizeof(wanted), "%s", slash == NULL ? "." : "/");
    } else {
        (void)snprintf(wanted, sizeof(wanted), "%.*s", (int)(slash - path), path);
    }
    if (strcmp(wanted, last) == 0) {
        return GY_OK;
    }
    (void)snprintf(last, GY_JOB_PATH, "%s", wanted);
    return gy_sandbox_add(&job->sandbox, wanted, false);
}

static gy_status permit_file(void *arg, const char *path)
{
    gy_flow_job *job = arg;
    return gy_sandbox_add(&job->sandbox, path, false);
}

/* Readers of objects need the network, the name resolver, credentials and certificates. */
static gy_status permit_object(gy_flow_job *job, const char *uri)
{
    if ((job->sandbox.parts & GY_SANDBOX_NETWORK) != 0) {
        return gy_fail(GY_ARG,
                       "cannot read %s: the sandbox part `network` forbids connections: omit "
                       "it (rights,processes,files,calls)",
                       uri);
    }
    return gy_place_files(uri, permit_file, job);
}

/* Consecutive inputs of one file need one permission. */
static gy_status permit_inputs(gy_flow_job *job, bool is_by_folder)
{
    char last[GY_JOB_PATH] = "";
    bool has_objects[2] = {false, false}; /* [0] S3; [1] other stores */
    for (size_t p = 0; p < job->dag->proto_count; p++) {
        const gy_proto *proto = &job->dag->protos[p];
        for (size_t i = 0; proto->files != NULL && proto->files[i] != NULL; i++) {
            gy_file_range range;
            GY_TRY(gy_file_range_read(proto->files[i], &range));
            const char *path = range.path;
            if (!range.is_object) {
                GY_TRY(permit_input(job, path, is_by_folder, last));
            } else if (!has_objects[strncmp(path, "s3://", 5) != 0]) {
                /* the same permission for all objects of a kind */
                has_objects[strncmp(path, "s3://", 5) != 0] = true;
                GY_TRY(permit_object(job, path));
            }
        }
        if (proto->command != NULL && strchr(proto->command[0], '/') != NULL) {
            GY_TRY(permit_input(job, proto->command[0], false, last));
        }
    }
    return GY_OK;
}

static gy_status permit_own(gy_flow_job *job)
{
    /* The first one serves as the programs' temporary folder. */
    static const char *const own[] = {"scratch", "data", "run", "trace"};
    for (size_t i = 0; i < GY_COUNT(own); i++) {
        GY_TRY(permit(job, job->folder, own[i]));
    }
    return job->hidden[0] != '\0' ? gy_sandbox_add(&job->sandbox, job->hidden, true) : GY_OK;
}

gy_status gy_flow_run_prepare_sandbox(gy_flow_job *job)
{
    gy_text missing = {.data = NULL};
    if (job->options.sandbox == NULL) {
        return GY_OK;
    }
    GY_TRY(permit_own(job));
    gy_status status = gy_sandbox_parse(job->options.sandbox, &job->sandbox);
    if (status == GY_OK && job->sandbox.parts != 0) {
        status = gy_sandbox_settle(&job->sandbox, &missing);
    }
    if (status == GY_OK && missing.size_bytes > 0) {
        gy_warn("the sandbox lacks %s", gy_text_get(&missing));
        gy_flow_run_note_text(job, "the sandbox lacks %s", gy_text_get(&missing));
    }
    gy_text_free(&missing);
    GY_TRY(status);
    const size_t before = job->sandbox.paths.size_bytes;
    GY_TRY(permit_inputs(job, false));
    if (job->sandbox.paths.size_bytes - before > INPUTS_BYTES) {
        job->sandbox.paths.size_bytes = before;
        return permit_inputs(job, true);
    }
    return GY_OK;
}

const char *gy_flow_describe_sandbox(char *out, size_t size_bytes)
{
    gy_sandbox_features features;
    gy_text text = {.data = NULL};
    gy_sandbox_probe(&features);
    gy_sandbox_describe(&features, &text);
    return gy_text_move(&text, out, size_bytes);
}
