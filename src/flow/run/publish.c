/*
 * Publishes an output atomically: its files get their names and are synced, then link(2)
 * creates the manifest, which only one of two jobs can do. Real files only, because of links.
 */
#include "base/escape.h"
#include "flow/run/run_priv.h"

#include "base/text.h"
#include "store/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gy_status sync_path(gy_env *env, const char *path)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const int file = disk->open(env, path, O_RDONLY, 0);
    if (file < 0) {
        return gy_fail(file == -ENOENT ? GY_NOTFOUND : GY_IO, "cannot open %s: %s", path,
                       strerror(-file));
    }
    const int synced = disk->sync(env, file);
    (void)disk->close(env, file);
    return synced == 0 ? GY_OK : gy_fail(GY_IO, "cannot sync %s: %s", path, strerror(-synced));
}

/* A final output as its task committed it. */
typedef struct gy_final_file {
    char path[GY_JOB_PATH]; /* in the hidden folder */
    gy_attempt id;
    uint64_t size_bytes;
    gy_key content;
} gy_final_file;

static gy_status find_final(const gy_flow_job *job, const gy_manager *manager,
                            const gy_dag_final *final, gy_final_file *file)
{
    const uint32_t task = job->lowering.task[final->vertex];
    const uint32_t member = gy_flow_lower_member(&job->lowering, final->vertex);
    gy_sched_task_state state;
    gy_manager_task(manager, task, &state);
    gy_report report;
    GY_TRY(gy_flow_run_report(job, task, state.report, state.report_bytes, member, &report));
    char name[GY_NAME_BYTES];
    file->id = state.committed;
    file->size_bytes = gy_report_output(&report, final->output).size_bytes;
    file->content = report.content;
    return gy_flow_run_path(file->path, job->hidden,
                            gy_flow_name_final(state.committed, member, final->output, name));
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat left, right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_ino == right.st_ino &&
           left.st_dev == right.st_dev;
}

/* Replace a file that an earlier manager named, in one rename, so that the name always has a
 * file. The path goes through the hidden folder, which does not exist for a manager whose
 * epoch is over. */
static int replace(const gy_flow_job *job, const gy_final_file *file, const char *to)
{
    char next[GY_JOB_PATH];
    if (is_same_file(file->path, to)) {
        return 0;
    }
    if (gy_flow_run_path(next, job->hidden, "next") < 0) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (unlink(next) != 0 && errno != ENOENT) {
        return -1;
    }
    return link(file->path, next) == 0 ? rename(next, to) : -1;
}

/* Sync the file, and link it under its final name. */
static gy_status save_final(const gy_flow_job *job, const gy_final_file *file, const char *to)
{
    struct stat about;
    if (stat(file->path, &about) != 0 || (uint64_t)about.st_size != file->size_bytes) {
        return gy_fail(GY_NOTFOUND, "%s is missing or has another size than %llu bytes",
                       file->path, (unsigned long long)file->size_bytes);
    }
    GY_TRY(sync_path(job->env, file->path));
    if (link(file->path, to) != 0 && (errno != EEXIST || replace(job, file, to) != 0)) {
        return gy_fail(GY_IO, "cannot give %s its name: %s", to, strerror(errno));
    }
    return chmod(to, 0644) == 0
               ? GY_OK
               : gy_fail(GY_IO, "cannot make %s readable: %s", to, strerror(errno));
}

gy_status gy_flow_run_save(void *arg, const gy_manager *manager, gy_attempt *lost)
{
    gy_flow_job *job = arg;
    GY_TRY(gy_flow_run_follow(job, manager));
    GY_TRY(gy_flow_run_check_refinements(job));
    gy_flow_run_recount(job);
    for (size_t i = 0; i < job->dag->final_count; i++) {
        const gy_dag_final *final = &job->dag->finals[i];
        gy_final_file file;
        char to[GY_JOB_PATH], name[GY_DAG_NAME_BYTES];
        GY_TRY(find_final(job, manager, final, &file));
        GY_TRY(
            gy_flow_run_path(to, job->output, gy_flow_run_final_name(job->dag, final, name)));
        gy_status status = save_final(job, &file, to);
        if (status == GY_NOTFOUND) {
            *lost = file.id;
        }
        GY_TRY(status);
    }
    return job->output[0] != '\0' ? sync_path(job->env, job->output) : GY_OK;
}

/* ---- the manifest ---- */

/* Counters may differ between managers of one job. */
static const char same_end[] = "\n \"counters\": {";

static gy_status write_manifest(const gy_flow_job *job, const gy_manager *manager,
                                gy_text *text)
{
    gy_running_begin_manifest(job, text);
    gy_text_add_json(text, job->dag->name);
    gy_text_add(text, ",\n \"files\": [");
    for (size_t i = 0; i < job->dag->final_count; i++) {
        gy_final_file file;
        char name[GY_DAG_NAME_BYTES];
        GY_TRY(find_final(job, manager, &job->dag->finals[i], &file));
        gy_text_add(text, "%s\n  {\"name\": \"%s\", \"bytes\": %llu}", i > 0 ? "," : "",
                    gy_flow_run_final_name(job->dag, &job->dag->finals[i], name),
                    (unsigned long long)file.size_bytes);
    }
    gy_text_add(text, "],%s", same_end);
    for (size_t i = 0; i < job->counter_count; i++) {
        gy_text_add(text, "%s\n  ", i > 0 ? "," : "");
        gy_text_add_json(text, job->counters[i].name);
        gy_text_add(text, ": %lld", (long long)job->counters[i].value);
    }
    gy_text_add(text, "}}\n");
    return text->status;
}

static gy_status create_file(gy_env *env, const char *path, const gy_text *text)
{
    const gy_disk_ops *disk = gy_env_disk(env);
    const int file = disk->open(env, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int64_t done = file;
    size_t at = 0;
    while (done >= 0 && at < text->size_bytes) {
        done = disk->write(env, file, text->data + at, text->size_bytes - at);
        done = done == 0 ? -ENOSPC : done;
        at += done > 0 ? (size_t)done : 0;
    }
    if (done >= 0) {
        done = disk->sync(env, file);
    }
    if (file >= 0) {
        (void)disk->close(env, file);
    }
    return done >= 0 ? GY_OK
                     : gy_fail(GY_IO, "cannot write %s: %s", path, strerror((int)-done));
}

/* An existing manifest is accepted if it is this job's: an earlier manager made it, or one
 * that does not know yet that its epoch is over. It names the same files. */
static gy_status accept(const gy_flow_job *job, const char *path, const gy_text *own)
{
    gy_bytes there;
    GY_TRY(gy_share_read(job->env, path, GY_JOB_MANIFEST_BYTES, &there));
    const char *left = strstr(there.data, same_end),
               *right = strstr(gy_text_get(own), same_end);
    GY_ASSERT(right != NULL);
    const size_t size = (size_t)(right - gy_text_get(own));
    const bool is_same = left != NULL && (size_t)(left - there.data) == size &&
                         memcmp(there.data, gy_text_get(own), size) == 0;
    gy_free(there.data);
    return is_same ? GY_OK
                   : gy_fail(GY_EXISTS, "cannot publish %s: another one is there", path);
}

/* Check that saved files still exist. An earlier manager may have saved them, failed, and
 * removed their names; a user of a published output may have moved them. */
static gy_status check_saved(const gy_flow_job *job, const gy_manager *manager)
{
    const bool is_published = gy_flow_run_is_published(job);
    for (size_t i = 0; i < job->dag->final_count && !is_published; i++) {
        const gy_dag_final *final = &job->dag->finals[i];
        gy_final_file file;
        struct stat about;
        char to[GY_JOB_PATH], name[GY_DAG_NAME_BYTES];
        GY_TRY(find_final(job, manager, final, &file));
        GY_TRY(
            gy_flow_run_path(to, job->output, gy_flow_run_final_name(job->dag, final, name)));
        if (stat(to, &about) != 0 || (uint64_t)about.st_size != file.size_bytes) {
            return gy_fail(GY_NOTFOUND, "%s is missing or has another size than %llu bytes", to,
                           (unsigned long long)file.size_bytes);
        }
    }
    return GY_OK;
}

static gy_status link_manifest(const gy_flow_job *job, const gy_text *text, const char *from,
                               const char *to)
{
    GY_TRY(create_file(job->env, from, text));
    if (link(from, to) == 0 || (errno == EEXIST && is_same_file(from, to))) {
        return GY_OK;
    }
    return errno == EEXIST ? accept(job, to, text)
                           : gy_fail(GY_IO, "cannot publish %s: %s", to, strerror(errno));
}

/* ---- to an object store ---- */

static gy_status begin_upload(gy_flow_job *job, const gy_manager *manager, const gy_text *text)
{
    const char *end = strstr(gy_text_get(text), same_end);
    GY_ASSERT(end != NULL);
    const gy_object_output_options options = {
        .uri = job->target,
        .folder = job->output,
        .fence = job->hidden,
        .manifest = gy_text_get(text),
        .manifest_bytes = text->size_bytes,
        .same_bytes = (size_t)(end - gy_text_get(text)) + sizeof(same_end) - 1,
        .is_again = job->is_resumed,
    };
    GY_TRY(gy_object_output_new(job->env, &options, &job->upload));
    for (size_t i = 0; i < job->dag->final_count; i++) {
        gy_final_file file;
        char name[GY_DAG_NAME_BYTES];
        GY_TRY(find_final(job, manager, &job->dag->finals[i], &file));
        GY_TRY(gy_object_output_add(
            job->upload, gy_flow_run_final_name(job->dag, &job->dag->finals[i], name),
            file.size_bytes));
    }
    return gy_object_output_start(job->upload);
}

/* Once the upload has begun, the driver calls this until it ends. */
static gy_status publish_there(gy_flow_job *job, const gy_manager *manager)
{
    if (job->upload == NULL) {
        gy_text text = {0};
        gy_status status = gy_flow_run_follow(job, manager);
        if (status >= 0) {
            gy_flow_run_recount(job);
            status = write_manifest(job, manager, &text);
        }
        status = status < 0 ? status : begin_upload(job, manager, &text);
        gy_text_free(&text);
        GY_TRY(status);
    }
    const gy_status status = gy_object_output_look(job->upload);
    job->is_published = status == GY_OK;
    return status;
}

void gy_flow_run_end_upload(gy_flow_job *job)
{
    if (job->upload == NULL) {
        return;
    }
    gy_object_output_stop(job->upload);
    job->is_published = gy_object_output_look(job->upload) == GY_OK;
    const size_t done = gy_object_output_done(job->upload);
    if (!job->is_published && !job->is_over) {
        gy_warn("%zu of %zu files of the output are known to be in %s, without a manifest: "
                "`gyre job resume "
                "%s` sends the rest",
                done, job->dag->final_count, job->target, job->id);
    }
}

gy_status gy_flow_run_publish(void *arg, const gy_manager *manager)
{
    gy_flow_job *job = arg;
    if (job->output[0] == '\0') {
        return GY_OK;
    }
    if (job->target[0] != '\0') {
        return publish_there(job, manager);
    }
    GY_TRY(gy_flow_run_follow(job, manager));
    gy_flow_run_recount(job); /* a resumed job may have had nothing to save */
    char name[48], from[GY_JOB_PATH], to[GY_JOB_PATH];
    /* Each epoch has its own name, so a file that an older manager holds open is not the
     * published one. */
    (void)snprintf(name, sizeof(name), "MANIFEST-%llu.json", (unsigned long long)job->epoch);
    GY_TRY(gy_flow_run_path(from, job->hidden, name));
    GY_TRY(gy_flow_run_path(to, job->output, "MANIFEST.json"));
    if (!is_same_file(from, to)) { /* otherwise an earlier manager came this far */
        gy_text text = {0};
        gy_status status = check_saved(job, manager);
        status = status < 0 ? status : write_manifest(job, manager, &text);
        status = status < 0 ? status : link_manifest(job, &text, from, to);
        gy_text_free(&text);
        GY_TRY(status);
    }
    job->is_published = true;
    return sync_path(job->env, job->output);
}
