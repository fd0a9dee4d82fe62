/* The fork server of a job: started when the job's program is complete, and its end takes all
 * processes with it. */
#include "cluster/host/host_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { LOSSES_MAX = 16 };                        /* fork servers that may die in one job */
static const int64_t end_within_ns = 6000000000; /* then it is killed */
static const int64_t leave_ns = 500000000; /* from the end of a stream to its process's exit */

static void report_down(gy_host *host, const host_job *job, const char *reason)
{
    gy_host_later(host, &(gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN,
                                           .job = job->key,
                                           .epoch = job->fork_server_epoch,
                                           .reason = reason});
}

/* The fork server has ended, and all that it started. Afterwards no executor has a process. */
static void forget_fork_server(gy_host *host, host_job *job)
{
    gy_host_unwatch_only(host, &job->fork_server);
    if (job->supervisor->socket >= 0 && !WIFEXITED(gy_supervisor_lost(job->supervisor))) {
        gy_host_expect_orphans(host);
    }
    for (host_executor *executor = job->executors; executor != NULL;
         executor = executor->next) {
        if (executor->has_process && !executor->has_news && !executor->is_dead) {
            gy_host_executor_drain(host, executor);
            executor->has_news = true;
            executor->news = (gy_fork_server_news){
                .slot = executor->slot, .generation = executor->generation, .status = SIGKILL};
        }
    }
}

/* Free executors of older epochs, which the machine has forgotten. */
static void free_executors(gy_host *host, host_job *job)
{
    for (host_executor *executor = job->executors; executor != NULL;
         executor = executor->next) {
        if (executor->has_process || executor->epoch < job->peer_epoch) {
            gy_host_executor_free(host, executor);
        }
    }
}

/* Its socket has ended, or it did not end in time. */
static void fork_server_gone(gy_host *host, host_job *job)
{
    char reason[GY_CONTROL_REASON_BYTES];
    job->losses += !job->is_fork_server_ending;
    snprintf(reason, sizeof(reason), "%s",
             job->is_fork_server_ending ? "the job's processes were stopped"
                                        : "the fork server of the job has ended");
    forget_fork_server(host, job);
    job->is_fork_server_ending = false;
    gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_FORK_SERVER_DOWN,
                                          .job = job->key,
                                          .epoch = job->fork_server_epoch,
                                          .reason = reason});
    /* The machine may have ordered the next one, which waits for this one's end. */
    gy_supervisor *old = job->supervisor;
    job->supervisor = NULL;
    free_executors(host, job);
    gy_supervisor_close(old, true);
    gy_free(old);
    if (job->is_fork_server_wanted) {
        gy_host_program_need(host, job);
    }
}

static void on_fork_server(gy_host *host, void *owner, uint32_t events)
{
    host_job *job = owner;
    (void)events;
    for (;;) {
        gy_fork_server_news news;
        gy_status status = gy_supervisor_handle(job->supervisor, &news);
        if (status == GY_AGAIN) {
            return;
        }
        if (status < 0) {
            fork_server_gone(host, job);
            return;
        }
        for (host_executor *executor = job->executors; executor != NULL;
             executor = executor->next) {
            if (executor->has_process && !executor->has_news && !executor->is_dead &&
                executor->slot == news.slot && executor->generation == news.generation) {
                gy_host_executor_news(host, executor, &news);
                break;
            }
        }
    }
}

/* Build the sandbox: that of all jobs, plus this job's own files except its record and its
 * manager's. */
static gy_status wall(gy_host *host, host_job *job)
{
    static const struct {
        const char *name;
        bool is_writable;
    } own[] = {{"scratch", true}, /* the first is for temporary files */
               {"data", true},     {"run", true},     {"trace", true},
               {"fetched", false}, {"program", false}};
    gy_sandbox_fini(&job->sandbox);
    job->sandbox.parts = host->sandbox.parts;
    for (size_t i = 0; i < GY_COUNT(own); i++) {
        char path[HOST_PATH];
        if (!gy_host_path(path, job->path, own[i].name, NULL) ||
            (mkdir(path, 0700) != 0 && errno != EEXIST)) {
            return gy_fail(GY_IO, "cannot make %s/%s: %s", job->path, own[i].name,
                           strerror(errno));
        }
        GY_TRY(gy_sandbox_add(&job->sandbox, path, own[i].is_writable));
    }
    if (host->sandbox.paths.size_bytes > 0) {
        gy_text_add_bytes(&job->sandbox.paths, host->sandbox.paths.data,
                          host->sandbox.paths.size_bytes);
    }
    return job->sandbox.paths.status;
}

uint64_t gy_host_memory(const gy_host *host, uint64_t asked_bytes)
{
    const uint64_t most = host->options->memory_bytes;
    return most == 0 ? asked_bytes : asked_bytes == 0 ? most : GY_MIN(most, asked_bytes);
}

static bool is_role(const gy_role *a, const gy_role *b)
{
    return a->processes == b->processes && a->threads == b->threads &&
           a->memory_bytes == b->memory_bytes;
}

/* Start the parent of vertex processes; a failure to start it is reported at once. */
static gy_status open_supervisor(gy_host *host, host_job *job, const gy_role *role,
                                 gy_supervisor **supervisor)
{
    gy_supervisor *made = gy_alloc_zero("host.supervisor", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    job->argv[0] = job->program.path;
    job->argv[1] = NULL;
    *made = (gy_supervisor){.env = host->env,
                            .start = {.argv = job->argv,
                                      .environment = job->program.environment,
                                      .directory = job->program.directory},
                            .role = *role,
                            .sandbox = &job->sandbox,
                            .folder = job->path};
    gy_status status = gy_host_job_folder(host, job);
    status = status < 0 ? status : wall(host, job);
    status = status < 0 ? status : gy_supervisor_open(made);
    status = status < 0 ? status : gy_supervisor_start(made);
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_supervisor_close(made, true);
        gy_free(made);
        return gy_error_raise(&why);
    }
    *supervisor = made;
    return GY_OK;
}

/* ---- Started before it is ordered (prewarm) ---- */

static void prewarmed_gone(gy_host *host, host_job *job)
{
    gy_supervisor *old = job->ahead.supervisor;
    gy_host_unwatch_only(host, &job->ahead.watch);
    job->ahead.supervisor = NULL;
    job->ahead.last_ns = INT64_MAX;
    if (!WIFEXITED(gy_supervisor_lost(old))) {
        gy_host_expect_orphans(host);
    }
    gy_supervisor_close(old, true);
    gy_free(old);
}

static void on_ahead(gy_host *host, void *owner, uint32_t events)
{
    host_job *job = owner;
    gy_fork_server_news news;
    (void)events;
    if (gy_supervisor_handle(job->ahead.supervisor, &news) < 0) {
        prewarmed_gone(host, job);
    }
}

/* Are there fewer prewarmed ones than can be useful? */
static bool has_room(const gy_host *host)
{
    uint32_t count = 0;
    for (const host_job *job = host->jobs; job != NULL; job = job->next) {
        count += job->supervisor != NULL || job->ahead.supervisor != NULL;
    }
    return count < host->slots;
}

void gy_host_fork_server_foresee(gy_host *host, host_job *job, const gy_ticket_request *request)
{
    const gy_role role = {.processes = host->slots,
                          .threads = GY_MAX(request->threads, 1u),
                          .memory_bytes = gy_host_memory(host, request->memory_bytes)};
    if (job->supervisor != NULL || job->ahead.supervisor != NULL ||
        job->is_fork_server_wanted || job->program.state != PROGRAM_READY ||
        request->threads > HOST_THREADS_MAX || host->is_ending || !has_room(host)) {
        return;
    }
    if (open_supervisor(host, job, &role, &job->ahead.supervisor) < 0) {
        gy_debug("cannot prewarm a process: %s", gy_error_text());
        return;
    }
    job->ahead.watch.ready = on_ahead;
    job->ahead.watch.owner = job;
    job->ahead.last_ns = INT64_MAX;
    if (gy_host_watch(host, &job->ahead.watch, job->ahead.supervisor->socket, EPOLLIN) < 0) {
        prewarmed_gone(host, job);
    }
}

void gy_host_fork_server_dismiss(gy_host *host, host_job *job)
{
    if (job->ahead.supervisor != NULL && job->ahead.last_ns == INT64_MAX) {
        job->ahead.last_ns = gy_now_ns(host->env) + end_within_ns;
        gy_supervisor_end(job->ahead.supervisor, true);
    }
}

/* ---- One that is ordered ---- */

/* Take the prewarmed one if it matches the order; else end it and return NULL. */
static gy_supervisor *take_prewarmed(gy_host *host, host_job *job, const gy_role *role)
{
    gy_supervisor *supervisor = job->ahead.supervisor;
    if (supervisor == NULL || job->ahead.last_ns != INT64_MAX ||
        !is_role(&supervisor->role, role)) {
        gy_host_fork_server_dismiss(host, job);
        return NULL;
    }
    gy_host_unwatch_only(host, &job->ahead.watch);
    job->ahead.supervisor = NULL;
    return supervisor;
}

static gy_status start(gy_host *host, host_job *job)
{
    const gy_role role = {.processes = host->slots,
                          .threads = GY_MAX(job->threads, 1u),
                          .memory_bytes = job->memory_bytes};
    if (job->losses >= LOSSES_MAX) {
        return gy_fail(GY_LIMIT, "the fork server of the job was killed %d times", LOSSES_MAX);
    }
    if (job->slots == NULL) {
        job->slots = gy_alloc_zero("host.slots", host->slots, 1);
    }
    if (job->slots == NULL) {
        return GY_NOMEM;
    }
    memset(job->slots, 0, host->slots);
    gy_supervisor *supervisor = take_prewarmed(host, job, &role);
    if (supervisor == NULL) {
        GY_TRY(open_supervisor(host, job, &role, &supervisor));
    }
    job->fork_server.ready = on_fork_server;
    job->fork_server.owner = job;
    gy_status status = gy_host_watch(host, &job->fork_server, supervisor->socket, EPOLLIN);
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_supervisor_close(supervisor, true);
        gy_free(supervisor);
        return gy_error_raise(&why);
    }
    job->supervisor = supervisor;
    return GY_OK;
}

void gy_host_fork_server_go(gy_host *host, host_job *job, gy_status status)
{
    if (!job->is_fork_server_wanted || job->supervisor != NULL) {
        return;
    }
    job->is_fork_server_wanted = false;
    status = status < 0 ? status : start(host, job);
    gy_daemon_event event = {
        .kind = GY_DAEMON_FORK_SERVER_UP, .job = job->key, .epoch = job->fork_server_epoch};
    if (status < 0) {
        event.kind = GY_DAEMON_FORK_SERVER_DOWN;
        event.reason = gy_error_text();
        gy_warn("cannot start processes of job %s: %s", job->name, gy_error_text());
    }
    gy_host_later(host, &event);
}

void gy_host_fork_server_start(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job_new(host, effect->job);
    if (job == NULL) {
        return;
    }
    job->fork_server_epoch = effect->epoch;
    job->is_fork_server_wanted = true;
    if (job->supervisor == NULL) {
        gy_host_program_need(host, job);
    }
}

void gy_host_fork_server_end(gy_host *host, gy_key key)
{
    host_job *job = gy_host_job(host, key);
    if (job == NULL) {
        return;
    }
    if (job->supervisor != NULL && !job->is_fork_server_wanted) {
        job->is_fork_server_ending = true;
        job->fork_server_last_ns = gy_now_ns(host->env) + end_within_ns;
        gy_supervisor_end(job->supervisor, true);
    } else if (job->is_fork_server_wanted) {
        job->is_fork_server_wanted = false;
        report_down(host, job, "closed before it started");
    }
}

void gy_host_fork_server_check(gy_host *host, host_job *job, int64_t now_ns)
{
    if (job->closed_ns != INT64_MAX && now_ns - job->closed_ns > leave_ns) {
        job->closed_ns = INT64_MAX;
        for (host_executor *executor = job->executors; executor != NULL;
             executor = executor->next) {
            if (executor->is_closed && !executor->is_dead) {
                gy_host_executor_kill(executor);
            }
        }
    }
    if (job->ahead.supervisor != NULL && now_ns >= job->ahead.last_ns) {
        prewarmed_gone(host, job); /* it does not end by itself */
    }
    if (job->supervisor != NULL && job->is_fork_server_ending &&
        now_ns >= job->fork_server_last_ns) {
        gy_warn("the fork server of job %s does not end", job->name);
        fork_server_gone(host, job);
    }
}
