/* Prepares a job's program: asks the name server for it, fetches its files by content, links
 * them into the job's folder. */
#include "cluster/host/host_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t ask_for_ns = 10000000000;  /* a name server may be just starting */
static const int64_t blob_for_ns = 30000000000; /* restarted with each file */
static const int64_t again_ns = 200000000;
static const char library_variable[] = "LD_LIBRARY_PATH=";

static void *take(void *arg, size_t size_bytes)
{
    (void)arg;
    return gy_alloc("host.spec", size_bytes);
}

static void give(void *arg, void *pointer)
{
    (void)arg;
    gy_free(pointer);
}

static ProtobufCAllocator allocator = {.alloc = take, .free = give};

void gy_host_program_free(host_program *program)
{
    if (program->spec != NULL) {
        gy__cluster__job_spec__free_unpacked(program->spec, &allocator);
    }
    gy_free(program->path);
    gy_free(program->environment);
    gy_free(program->libraries);
    gy_free(program->folder);
    *program = (host_program){.again_ns = INT64_MAX};
}

/* It is ready, or cannot be had. */
static void end_of(gy_host *host, host_job *job, gy_status status)
{
    gy_error why;
    gy_error_take(&why, status);
    if (status < 0) {
        gy_host_program_free(&job->program);
        (void)gy_error_raise(&why);
    } else {
        job->program.state = PROGRAM_READY;
    }
    gy_host_fork_server_go(host, job, status);
    if (status < 0) {
        (void)gy_error_raise(&why);
    }
    gy_host_manager_go(host, job, status);
}

/* ---- Its files ---- */

static gy_status read_spec(gy_host *host, host_program *program)
{
    char path[HOST_PATH];
    struct stat about;
    gy_host_blob_path(host, program->blob, path);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 || fstat(file, &about) != 0 || about.st_size > GY_NET_SPEC_BYTES) {
        if (file >= 0) {
            close(file);
        }
        return gy_fail(GY_FORMAT, "cannot read the description of the job");
    }
    size_t size = (size_t)about.st_size;
    uint8_t *bytes = gy_alloc("host.spec", size);
    ssize_t got = bytes != NULL ? read(file, bytes, size) : 0;
    close(file);
    if (bytes != NULL && got == (ssize_t)size) {
        program->spec = gy__cluster__job_spec__unpack(&allocator, size, bytes);
    }
    gy_free(bytes);
    return program->spec != NULL
               ? gy_net_check_spec(program->spec)
               : gy_fail(GY_FORMAT, "the description of the job is malformed");
}

/* The environment of the job's processes; the loader searches shipped libraries first. */
static gy_status make_environment(host_program *program)
{
    const Gy__Cluster__JobSpec *spec = program->spec;
    const size_t sign = sizeof(library_variable) - 1;
    const char *before = "";
    size_t count = 0;
    program->environment =
        gy_alloc("host.spec", (spec->n_environment + 2) * sizeof(*program->environment));
    if (program->environment == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < spec->n_environment; i++) {
        bool is_libraries = strncmp(spec->environment[i], library_variable, sign) == 0;
        if (is_libraries && spec->n_libraries > 0) {
            before = spec->environment[i] + sign;
        } else {
            program->environment[count++] = spec->environment[i];
        }
    }
    if (spec->n_libraries > 0) {
        gy_text text = {.data = NULL};
        gy_text_add(&text, "%s%s%s%s", library_variable, program->folder,
                    before[0] != '\0' ? ":" : "", before);
        if (text.status < 0) {
            gy_text_free(&text);
            return GY_NOMEM;
        }
        program->libraries = text.data;
        program->environment[count++] = program->libraries;
    }
    program->environment[count] = NULL;
    program->variable_count = count;
    return GY_OK;
}

static gy_status finish(host_program *program)
{
    const Gy__Cluster__JobSpec *spec = program->spec;
    struct stat about;
    char path[HOST_PATH];
    bool is_shipped = false;
    for (size_t i = 0; i < spec->n_files; i++) {
        is_shipped = is_shipped || strcmp(spec->files[i]->name, spec->arguments[0]) == 0;
    }
    if (is_shipped && !gy_host_path(path, program->folder, spec->arguments[0], NULL)) {
        return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
    }
    program->path = gy_copy_text("host.spec", is_shipped ? path : spec->arguments[0]);
    if (program->path == NULL) {
        return GY_NOMEM;
    }
    bool is_here = stat(spec->directory, &about) == 0 && S_ISDIR(about.st_mode) &&
                   access(spec->directory, X_OK) == 0;
    program->directory = is_here ? spec->directory : program->folder;
    return make_environment(program);
}

/* Take the next step. GY_AGAIN: it waits for a blob. */
static gy_status next(gy_host *host, host_job *job)
{
    host_program *program = &job->program;
    gy_status status = gy_host_blob(host, program->blob);
    if (status != GY_OK) {
        return status;
    }
    if (program->state == PROGRAM_SPEC) {
        GY_TRY(read_spec(host, program));
        program->state = PROGRAM_FILES;
    } else {
        const Gy__Cluster__SpecFile *file = program->spec->files[program->file++];
        char path[HOST_PATH];
        if (!gy_host_path(path, program->folder, file->name, NULL)) {
            return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
        }
        GY_TRY(gy_host_blob_link(host, program->blob, file->is_executable, path));
    }
    if (program->file == program->spec->n_files) {
        GY_TRY(finish(program));
        program->state = PROGRAM_READY;
        return GY_OK;
    }
    program->blob = gy_net_key(program->spec->files[program->file]->content);
    program->until_ns = gy_now_ns(host->env) + blob_for_ns;
    return GY_OK;
}

static void go_on(gy_host *host, host_job *job)
{
    gy_status status = GY_OK;
    while (status == GY_OK && job->program.state != PROGRAM_READY) {
        status = next(host, job);
    }
    if (status != GY_AGAIN) {
        end_of(host, job, status);
    }
}

/* ---- Interface ---- */

static gy_status begin(gy_host *host, host_job *job)
{
    char path[HOST_PATH];
    GY_TRY(gy_host_job_folder(host, job));
    if (!gy_host_path(path, job->path, "program", NULL)) {
        return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
    }
    gy_host_move_to_trash(host, path); /* of a failed try */
    if (mkdir(path, 0700) != 0) {
        return gy_fail(GY_IO, "cannot make %s", path);
    }
    job->program.folder = gy_copy_text("host.spec", path);
    return job->program.folder != NULL ? GY_OK : GY_NOMEM;
}

void gy_host_program_need(gy_host *host, host_job *job)
{
    if (job->program.state == PROGRAM_READY) {
        end_of(host, job, GY_OK);
    } else if (job->program.state == PROGRAM_NONE) {
        gy_status status = begin(host, job);
        if (status < 0) {
            end_of(host, job, status);
            return;
        }
        job->program.state = PROGRAM_ASKING;
        gy_host_ask(
            host, GY_NET_ASK_SPEC,
            &(host_ask){.job = job->key, .until_ns = gy_now_ns(host->env) + ask_for_ns});
    }
}

void gy_host_program_spec(gy_host *host, gy_key key, const Gy__Cluster__Spec *spec)
{
    host_job *job = gy_host_job(host, key);
    if (job == NULL || job->program.state != PROGRAM_ASKING) {
        return;
    }
    gy_key blob = spec != NULL ? gy_net_key(spec->spec) : (gy_key){0};
    if (spec == NULL) {
        gy_error why;
        gy_error_take(&why, GY_PEER);
        end_of(host, job,
               gy_fail(GY_PEER, "cannot get the description of the job from a name server: %s",
                       why.text));
    } else if (spec->platform != 0 && spec->platform != gy_net_platform()) {
        end_of(host, job,
               gy_fail(GY_UNSUPPORTED, "it was built for another kind of machine or library"));
    } else if (blob.high == 0 && blob.low == 0) {
        end_of(host, job, gy_fail(GY_FORMAT, "the description of the job is empty"));
    } else {
        job->program.blob = blob;
        job->program.state = PROGRAM_SPEC;
        job->program.until_ns = gy_now_ns(host->env) + blob_for_ns;
        if (spec->packed.len > 0) {
            gy_host_blob_take(host, blob, spec->packed.data, spec->packed.len);
        }
        go_on(host, job);
    }
}

void gy_host_program_blob(gy_host *host, gy_key blob, gy_status status)
{
    gy_error why;
    int64_t now_ns = gy_now_ns(host->env);
    gy_error_take(&why, status);
    bool may_help =
        status == GY_PEER || status == GY_TIMEOUT || status == GY_STATE || status == GY_FORMAT;
    for (host_job *job = host->jobs; job != NULL; job = job->next) {
        host_program *program = &job->program;
        bool is_waiting = program->state == PROGRAM_SPEC || program->state == PROGRAM_FILES;
        if (!is_waiting || !gy_key_is_same(program->blob, blob)) {
            continue;
        }
        if (status == GY_OK) {
            go_on(host, job);
        } else if (may_help && now_ns < program->until_ns) {
            program->again_ns = now_ns + again_ns;
        } else {
            end_of(host, job, gy_error_raise(&why));
        }
    }
}

void gy_host_program_check(gy_host *host, host_job *job, int64_t now_ns)
{
    if (now_ns >= job->program.again_ns) {
        job->program.again_ns = INT64_MAX;
        go_on(host, job);
    }
}
