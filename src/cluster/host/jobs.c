/* The jobs of this daemon: their folders and records, and their removal. */
#include "cluster/host/host_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const parts[] = {"program", "data", "fetched", "log", "manager"};
enum { SWEEP_FILES = 64, RECORD_BYTES = 128 };

static void key_name(gy_key key, char out[HOST_NAME])
{
    snprintf(out, HOST_NAME, "%016llx%016llx", (unsigned long long)key.high,
             (unsigned long long)key.low);
}

host_job *gy_host_job(const gy_host *host, gy_key key)
{
    uint32_t row = gy_index_find(&host->by_job, key);
    return row != GY_NONE ? host->job_rows[row] : NULL;
}

host_job *gy_host_job_new(gy_host *host, gy_key key)
{
    host_job *found = gy_host_job(host, key);
    if (found != NULL) {
        return found;
    }
    size_t row = 0;
    while (row < host->job_count && host->job_rows[row] != NULL) {
        row++;
    }
    host_job *made = gy_alloc_zero("host.job", 1, sizeof(*made));
    gy_status status = GY_GROW("host.jobs", host->job_rows, host->job_room, row + 1);
    if (made == NULL || status < 0 || gy_index_put(&host->by_job, key, (uint32_t)row) < 0) {
        gy_free(made);
        gy_host_fail(host, GY_NOMEM);
        return NULL;
    }
    made->key = key;
    key_name(key, made->name);
    (void)gy_host_path(made->path, host->folder, "jobs", made->name);
    made->last_outgoing = &made->outbox;
    made->fork_server.file = made->ahead.watch.file = -1;
    made->manager.watch.file = made->manager.request.file = made->manager.log = -1;
    made->ahead.last_ns = INT64_MAX;
    made->manager.last_ns = made->manager.look_ns = made->manager.end_ns =
        made->program.again_ns = made->closed_ns = INT64_MAX;
    made->next = host->jobs;
    host->jobs = made;
    host->job_rows[row] = made;
    host->job_count = GY_MAX(host->job_count, row + 1);
    return made;
}

gy_status gy_host_job_folder(gy_host *host, host_job *job)
{
    char path[HOST_PATH];
    for (size_t i = 0; i < GY_COUNT(parts) && !job->has_folder; i++) {
        char inside[64];
        snprintf(inside, sizeof(inside), "%s/x", parts[i]);
        if (!gy_host_path(path, job->path, inside, NULL)) {
            return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
        }
        int error = gy_disk_make_folders(path);
        if (error == -ENOSPC || error == -EDQUOT) {
            gy_host_disk_full(host);
        }
        if (error != 0) {
            return gy_fail(error == -ENOSPC ? GY_LIMIT : GY_IO, "cannot make %s: %s", path,
                           strerror(-error));
        }
    }
    job->has_folder = true;
    return GY_OK;
}

/* ---- Records ---- */

gy_status gy_host_record(gy_host *host, gy_key key, uint32_t epoch, uint32_t started)
{
    char path[HOST_PATH], text[RECORD_BYTES];
    host_job *job = gy_host_job_new(host, key);
    if (job == NULL) {
        return GY_NOMEM;
    }
    if (!gy_host_path(path, job->path, "record", NULL)) {
        return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
    }
    int error = gy_disk_make_folders(path);
    if (error != 0) {
        return gy_fail(GY_IO, "cannot make %s: %s", job->path, strerror(-error));
    }
    snprintf(text, sizeof(text), "epoch %u\nstarted %u\n", epoch, started);
    return gy_host_write_file(host, path, text);
}

typedef struct looking {
    gy_host *host;
    const host_job *job;
    bool is_thrown, is_there;
} looking;

static gy_status look_at_file(void *arg, const char *name)
{
    static const char *const of_manager[] = {"manager", "log", "program"};
    looking *of = arg;
    const host_job *job = of->job;
    const bool is_managed = job->manager.epoch != 0 || job->manager.wanted != 0;
    char path[HOST_PATH];
    if (strcmp(name, "record") == 0 || !gy_host_path(path, job->path, name, NULL)) {
        return GY_OK;
    }
    bool is_kept = !of->is_thrown;
    for (size_t i = 0; i < GY_COUNT(of_manager); i++) {
        is_kept = is_kept || (is_managed && strcmp(name, of_manager[i]) == 0);
    }
    of->is_there = true;
    if (!is_kept) {
        gy_host_move_to_trash(of->host, path);
    }
    return GY_OK;
}

/* Does a job's folder contain files other than its record? is_thrown: move them to the trash,
 * except those that a running manager needs. */
static gy_status look_at_files(gy_host *host, const host_job *job, bool is_thrown,
                               bool *is_there)
{
    looking of = {.host = host, .job = job, .is_thrown = is_thrown};
    gy_status status = gy_disk_each(host->env, job->path, look_at_file, &of);
    *is_there = of.is_there;
    return status == GY_NOTFOUND ? GY_OK : status;
}

/* Load one job's record into the machine; a folder without one is removed. */
static gy_status load_job(void *arg, const char *name)
{
    gy_host *host = arg;
    char path[HOST_PATH], text[RECORD_BYTES], rest = '\0';
    unsigned long long high = 0, low = 0;
    uint32_t epoch = 0, started = 0;
    bool is_there = false;
    if (name[0] == '.') {
        return GY_OK;
    }
    if (strlen(name) != HOST_NAME - 1 || strspn(name, "0123456789abcdef") != HOST_NAME - 1 ||
        sscanf(name, "%16llx%16llx%c", &high, &low, &rest) != 2 || (high == 0 && low == 0)) {
        gy_warn("%s/jobs/%s belongs to no job", host->folder, name);
        return GY_OK;
    }
    host_job *job = gy_host_job_new(host, (gy_key){high, low});
    if (job == NULL) {
        return GY_NOMEM;
    }
    if (!gy_host_path(path, job->path, "record", NULL)) {
        return gy_fail(GY_ARG, "the path of a daemon's folder is too long");
    }
    gy_status status = gy_host_read_file(host, path, text, sizeof(text));
    if (status == GY_OK && sscanf(text, "epoch %u\nstarted %u\n", &epoch, &started) != 2) {
        return gy_fail(GY_FORMAT, "%s is no record of a job", path);
    }
    if (status < 0 && status != GY_NOTFOUND) {
        return status;
    }
    /* files being linked or fetched are not trusted; data are */
    static const char *const untrusted[] = {"program", "manager", "fetched"};
    for (size_t i = 0; i < GY_COUNT(untrusted); i++) {
        if (gy_host_path(path, job->path, untrusted[i], NULL)) {
            gy_host_move_to_trash(host, path);
        }
    }
    GY_TRY(look_at_files(host, job, false, &is_there));
    return gy_daemon_load(host->machine, job->key, epoch, started, is_there);
}

gy_status gy_host_load(gy_host *host)
{
    char path[HOST_PATH];
    (void)gy_host_path(path, host->folder, "jobs", NULL);
    return gy_disk_each(host->env, path, load_job, host);
}

/* ---- Removal ---- */

void gy_host_move_to_trash(gy_host *host, const char *path)
{
    char name[32], to[HOST_PATH];
    snprintf(name, sizeof(name), "%llu-%llu", (unsigned long long)host->life,
             (unsigned long long)++host->trash_count);
    (void)gy_host_path(to, host->folder, "trash", name);
    int error = gy_env_disk(host->env)->rename(host->env, path, to);
    if (error != 0 && error != -ENOENT) {
        gy_warn("cannot remove %s: %s", path, strerror(-error));
    }
}

void gy_host_discard(gy_host *host, gy_key key, bool is_all)
{
    host_job *job = gy_host_job(host, key);
    if (job == NULL) {
        return;
    }
    gy_host_fork_server_dismiss(host, job); /* its sandbox contains the files being removed */
    bool is_there = false;
    if (is_all) {
        gy_host_move_to_trash(host, job->path);
    } else if (look_at_files(host, job, true, &is_there) < 0) {
        gy_warn("cannot remove the files of job %s: %s", job->name, gy_error_text());
    }
    job->has_folder = false;
    gy_host_unwant_all(job);
    if (is_all || (job->manager.epoch == 0 && job->manager.wanted == 0)) {
        gy_host_program_free(&job->program);
    }
    if (is_all) {
        uint32_t row = gy_index_find(&host->by_job, key);
        gy_index_remove(&host->by_job, key);
        host->job_rows[row] = NULL;
        job->is_dead = host->has_dead = true;
    }
}

/* Remove a folder's content, at most *left files; true: it is empty. */
static bool sweep_folder(int file, int depth, int *left)
{
    DIR *folder = depth < GY_DISK_DEPTH_MAX ? fdopendir(file) : NULL;
    if (folder == NULL) {
        close(file);
        return false;
    }
    bool is_empty = true;
    errno = 0;
    for (struct dirent *entry; *left > 0 && (entry = readdir(folder)) != NULL; errno = 0) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            continue;
        }
        --*left;
        if (unlinkat(dirfd(folder), name, 0) == 0) {
            continue;
        }
        int inside =
            openat(dirfd(folder), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inside >= 0) {
            (void)sweep_folder(inside, depth + 1, left);
        }
        if (unlinkat(dirfd(folder), name, AT_REMOVEDIR) != 0) {
            is_empty = false;
        }
    }
    is_empty = is_empty && *left > 0 && errno == 0;
    closedir(folder);
    return is_empty;
}

bool gy_host_sweep(gy_host *host)
{
    char path[HOST_PATH];
    int left = SWEEP_FILES;
    if (host->trash_count == host->swept_count) {
        return false;
    }
    uint64_t count = host->trash_count;
    (void)gy_host_path(path, host->folder, "trash", NULL);
    int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0 || sweep_folder(file, 0, &left)) {
        host->swept_count = count;
        return false;
    }
    if (left > 0) { /* a file cannot be removed: retry only when there is more trash */
        gy_warn("cannot remove all files in %s", path);
        host->swept_count = count;
        return false;
    }
    return true;
}

static void free_job(gy_host *host, host_job *job)
{
    if (job->supervisor != NULL) {
        gy_host_unwatch_only(host, &job->fork_server);
        gy_supervisor_close(job->supervisor, true);
        gy_free(job->supervisor);
    }
    if (job->ahead.supervisor != NULL) {
        gy_host_unwatch_only(host, &job->ahead.watch);
        gy_supervisor_close(job->ahead.supervisor, true);
        gy_free(job->ahead.supervisor);
    }
    gy_sandbox_fini(&job->sandbox);
    gy_host_unwatch(host, &job->manager.watch);
    gy_host_unwatch(host, &job->manager.request);
    gy_host_manager_free(job);
    gy_host_outbox_free(job);
    gy_host_unwant_all(job);
    gy_host_program_free(&job->program);
    gy_free(job->wants);
    gy_index_free(&job->by_want);
    gy_free(job->slots);
    gy_free(job);
}

static void reap_executors(host_job *job)
{
    for (host_executor **at = &job->executors; *at != NULL;) {
        host_executor *executor = *at;
        if (executor->is_dead) {
            *at = executor->next;
            gy_free(executor->up);
            gy_free(executor->down);
            gy_free(executor);
        } else {
            at = &executor->next;
        }
    }
}

void gy_host_reap(gy_host *host)
{
    if (!host->has_dead) {
        return;
    }
    host->has_dead = false;
    for (host_job **at = &host->jobs; *at != NULL;) {
        host_job *job = *at;
        reap_executors(job);
        if (job->is_dead) {
            *at = job->next;
            free_job(host, job);
        } else {
            at = &job->next;
        }
    }
}

void gy_host_jobs_free(gy_host *host)
{
    for (host_job *job = host->jobs; job != NULL; job = job->next) {
        job->is_dead = true;
        for (host_executor *executor = job->executors; executor != NULL;
             executor = executor->next) {
            gy_host_unwatch(host, &executor->watch);
            executor->is_dead = true;
        }
    }
    host->has_dead = true;
    gy_host_reap(host);
    gy_free(host->job_rows);
    gy_index_free(&host->by_job);
}
