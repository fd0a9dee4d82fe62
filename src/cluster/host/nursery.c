/* A job's nursery: it comes when the job's program is here, and takes all with it. */
#include "cluster/host/host_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { LOSSES_MAX = 16 };                        /* of nurseries, in one job */
static const int64_t end_within_ns = 6000000000; /* then it is killed */
static const int64_t leave_ns = 500000000;       /* from the end of a stream to its process's */

static void say_down(gy_host *host, const host_job *job, const char *reason)
{
    gy_host_later(host, &(gy_daemon_event){.kind = GY_DAEMON_NURSERY_DOWN,
                                           .job = job->key,
                                           .epoch = job->nursery_epoch,
                                           .reason = reason});
}

/* It is gone, and with it all that it started. Returns with no seat that has a process. */
static void forget_nursery(gy_host *host, host_job *job)
{
    gy_host_unwatch_only(host, &job->nursery);
    if (job->warden->socket >= 0 && !WIFEXITED(gy_warden_lost(job->warden))) {
        gy_host_expect_orphans(host);
    }
    for (host_seat *seat = job->seats; seat != NULL; seat = seat->next) {
        if (seat->has_process && !seat->has_news && !seat->is_dead) {
            gy_host_seat_drain(host, seat);
            seat->has_news = true;
            seat->news = (gy_nursery_news){
                .slot = seat->slot, .generation = seat->generation, .status = SIGKILL};
        }
    }
}

/* Seats of older epochs, of which the machine does not speak any more. */
static void free_seats(gy_host *host, host_job *job)
{
    for (host_seat *seat = job->seats; seat != NULL; seat = seat->next) {
        if (seat->has_process || seat->epoch < job->peer_epoch) {
            gy_host_seat_free(host, seat);
        }
    }
}

/* Its socket has ended, or it does not end. */
static void nursery_gone(gy_host *host, host_job *job)
{
    char reason[GY_CONTROL_REASON_BYTES];
    job->losses += !job->is_nursery_ending;
    snprintf(reason, sizeof(reason), "%s",
             job->is_nursery_ending ? "the job's processes were ended"
                                    : "the parent of the job's processes is gone");
    forget_nursery(host, job);
    job->is_nursery_ending = false;
    gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_NURSERY_DOWN,
                                          .job = job->key,
                                          .epoch = job->nursery_epoch,
                                          .reason = reason});
    /* The machine may have asked for the next one, which waits for this. */
    gy_warden *old = job->warden;
    job->warden = NULL;
    free_seats(host, job);
    gy_warden_close(old, true);
    gy_free(old);
    if (job->is_nursery_wanted) {
        gy_host_program_need(host, job);
    }
}

static void on_nursery(gy_host *host, void *owner, uint32_t events)
{
    host_job *job = owner;
    (void)events;
    for (;;) {
        gy_nursery_news news;
        gy_status status = gy_warden_hear(job->warden, &news);
        if (status == GY_AGAIN) {
            return;
        }
        if (status < 0) {
            nursery_gone(host, job);
            return;
        }
        for (host_seat *seat = job->seats; seat != NULL; seat = seat->next) {
            if (seat->has_process && !seat->has_news && !seat->is_dead &&
                seat->slot == news.slot && seat->generation == news.generation) {
                gy_host_seat_news(host, seat, &news);
                break;
            }
        }
    }
}

/* The walls of all jobs, and behind them this one's own files: not its record, nor what its
 * manager has. */
static gy_status wall(gy_host *host, host_job *job)
{
    static const struct {
        const char *name;
        bool is_writable;
    } own[] = {{"scratch", true}, /* the first is for what is needed for a while */
               {"data", true},     {"run", true},     {"trace", true},
               {"fetched", false}, {"program", false}};
    gy_sandbox_fini(&job->walls);
    job->walls.parts = host->sandbox.parts;
    for (size_t i = 0; i < GY_COUNT(own); i++) {
        char path[HOST_PATH];
        if (!gy_host_path(path, job->path, own[i].name, NULL) ||
            (mkdir(path, 0700) != 0 && errno != EEXIST)) {
            return gy_fail(GY_IO, "cannot make %s/%s: %s", job->path, own[i].name,
                           strerror(errno));
        }
        GY_TRY(gy_sandbox_add(&job->walls, path, own[i].is_writable));
    }
    if (host->sandbox.paths.size_bytes > 0) {
        gy_text_add_bytes(&job->walls.paths, host->sandbox.paths.data,
                          host->sandbox.paths.size_bytes);
    }
    return job->walls.paths.status;
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

/* A process that will be the parent of others, on its way; why it cannot be started is said at
 * once. */
static gy_status open_warden(gy_host *host, host_job *job, const gy_role *role,
                             gy_warden **warden)
{
    gy_warden *made = gy_alloc_zero("host.warden", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    job->argv[0] = job->program.path;
    job->argv[1] = NULL;
    *made = (gy_warden){.env = host->env,
                        .start = {.argv = job->argv,
                                  .environment = job->program.environment,
                                  .directory = job->program.directory},
                        .role = *role,
                        .sandbox = &job->walls,
                        .folder = job->path};
    gy_status status = gy_host_job_folder(host, job);
    status = status < 0 ? status : wall(host, job);
    status = status < 0 ? status : gy_warden_open(made);
    status = status < 0 ? status : gy_warden_start(made);
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_warden_close(made, true);
        gy_free(made);
        return gy_error_raise(&why);
    }
    *warden = made;
    return GY_OK;
}

/* ---- One that nobody has ordered yet ---- */

static void ahead_gone(gy_host *host, host_job *job)
{
    gy_warden *old = job->ahead.warden;
    gy_host_unwatch_only(host, &job->ahead.watch);
    job->ahead.warden = NULL;
    job->ahead.last_ns = INT64_MAX;
    if (!WIFEXITED(gy_warden_lost(old))) {
        gy_host_expect_orphans(host);
    }
    gy_warden_close(old, true);
    gy_free(old);
}

static void on_ahead(gy_host *host, void *owner, uint32_t events)
{
    host_job *job = owner;
    gy_nursery_news news;
    (void)events;
    if (gy_warden_hear(job->ahead.warden, &news) < 0) {
        ahead_gone(host, job);
    }
}

/* As many as may be of use at a time. */
static bool has_room(const gy_host *host)
{
    uint32_t count = 0;
    for (const host_job *job = host->jobs; job != NULL; job = job->next) {
        count += job->warden != NULL || job->ahead.warden != NULL;
    }
    return count < host->slots;
}

void gy_host_nursery_foresee(gy_host *host, host_job *job, const gy_ticket_wish *wish)
{
    const gy_role role = {.processes = host->slots,
                          .threads = GY_MAX(wish->threads, 1u),
                          .memory_bytes = gy_host_memory(host, wish->memory_bytes)};
    if (job->warden != NULL || job->ahead.warden != NULL || job->is_nursery_wanted ||
        job->program.state != PROGRAM_READY || wish->threads > HOST_THREADS_MAX ||
        host->is_ending || !has_room(host)) {
        return;
    }
    if (open_warden(host, job, &role, &job->ahead.warden) < 0) {
        gy_debug("nothing is started ahead: %s", gy_error_text());
        return;
    }
    job->ahead.watch.ready = on_ahead;
    job->ahead.watch.owner = job;
    job->ahead.last_ns = INT64_MAX;
    if (gy_host_watch(host, &job->ahead.watch, job->ahead.warden->socket, EPOLLIN) < 0) {
        ahead_gone(host, job);
    }
}

void gy_host_nursery_dismiss(gy_host *host, host_job *job)
{
    if (job->ahead.warden != NULL && job->ahead.last_ns == INT64_MAX) {
        job->ahead.last_ns = gy_now_ns(host->env) + end_within_ns;
        gy_warden_end(job->ahead.warden, true);
    }
}

/* ---- One that is ordered ---- */

/* The one that was foreseen, if it is as ordered; else it ends, and NULL. */
static gy_warden *take_ahead(gy_host *host, host_job *job, const gy_role *role)
{
    gy_warden *warden = job->ahead.warden;
    if (warden == NULL || job->ahead.last_ns != INT64_MAX || !is_role(&warden->role, role)) {
        gy_host_nursery_dismiss(host, job);
        return NULL;
    }
    gy_host_unwatch_only(host, &job->ahead.watch);
    job->ahead.warden = NULL;
    return warden;
}

static gy_status start(gy_host *host, host_job *job)
{
    const gy_role role = {.processes = host->slots,
                          .threads = GY_MAX(job->threads, 1u),
                          .memory_bytes = job->memory_bytes};
    if (job->losses >= LOSSES_MAX) {
        return gy_fail(GY_LIMIT, "the parent of the job's processes was killed %d times",
                       LOSSES_MAX);
    }
    if (job->slots == NULL) {
        job->slots = gy_alloc_zero("host.slots", host->slots, 1);
    }
    if (job->slots == NULL) {
        return GY_NOMEM;
    }
    memset(job->slots, 0, host->slots);
    gy_warden *warden = take_ahead(host, job, &role);
    if (warden == NULL) {
        GY_TRY(open_warden(host, job, &role, &warden));
    }
    job->nursery.ready = on_nursery;
    job->nursery.owner = job;
    gy_status status = gy_host_watch(host, &job->nursery, warden->socket, EPOLLIN);
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        gy_warden_close(warden, true);
        gy_free(warden);
        return gy_error_raise(&why);
    }
    job->warden = warden;
    return GY_OK;
}

void gy_host_nursery_go(gy_host *host, host_job *job, gy_status status)
{
    if (!job->is_nursery_wanted || job->warden != NULL) {
        return;
    }
    job->is_nursery_wanted = false;
    status = status < 0 ? status : start(host, job);
    gy_daemon_event event = {
        .kind = GY_DAEMON_NURSERY_UP, .job = job->key, .epoch = job->nursery_epoch};
    if (status < 0) {
        event.kind = GY_DAEMON_NURSERY_DOWN;
        event.reason = gy_error_text();
        gy_warn("no processes of job %s: %s", job->name, gy_error_text());
    }
    gy_host_later(host, &event);
}

void gy_host_nursery_start(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job_new(host, effect->job);
    if (job == NULL) {
        return;
    }
    job->nursery_epoch = effect->epoch;
    job->is_nursery_wanted = true;
    if (job->warden == NULL) {
        gy_host_program_need(host, job);
    }
}

void gy_host_nursery_end(gy_host *host, gy_key key)
{
    host_job *job = gy_host_job(host, key);
    if (job == NULL) {
        return;
    }
    if (job->warden != NULL && !job->is_nursery_wanted) {
        job->is_nursery_ending = true;
        job->nursery_last_ns = gy_now_ns(host->env) + end_within_ns;
        gy_warden_end(job->warden, true);
    } else if (job->is_nursery_wanted) {
        job->is_nursery_wanted = false;
        say_down(host, job, "ended before it was there");
    }
}

void gy_host_nursery_look(gy_host *host, host_job *job, int64_t now_ns)
{
    if (job->closed_ns != INT64_MAX && now_ns - job->closed_ns > leave_ns) {
        job->closed_ns = INT64_MAX;
        for (host_seat *seat = job->seats; seat != NULL; seat = seat->next) {
            if (seat->is_closed && !seat->is_dead) {
                gy_host_seat_kill(seat);
            }
        }
    }
    if (job->ahead.warden != NULL && now_ns >= job->ahead.last_ns) {
        ahead_gone(host, job); /* it does not end by itself */
    }
    if (job->warden != NULL && job->is_nursery_ending && now_ns >= job->nursery_last_ns) {
        gy_warn("the parent of the processes of job %s does not end", job->name);
        nursery_gone(host, job);
    }
}
