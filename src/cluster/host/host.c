/* The daemon's loop (wait, step, carry out effects), its beginning and its end. */
#include "base/text.h"
#include "cluster/host/host_priv.h"
#include "worker/limits.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/signals.h"

enum { EVENTS = 64 };
static const int64_t tick_every_ns = 1000000000;
static const int64_t brief_ns = 20000000; /* while a timer is due soon */
/* Of several name servers one listens: soon after it begins, all daemons must be connected. */
static const int64_t names_again_ns = 500000000;
static const int64_t last_after_ns = 8000000000; /* for all processes to end */

/* ---- Events ---- */

void gy_host_fail(gy_host *host, gy_status status)
{
    if (host->status == GY_OK) {
        host->status = status;
        gy_error_take(&host->why, status);
    }
}

void gy_host_later(gy_host *host, const gy_daemon_event *event)
{
    gy_status status =
        GY_GROW("host.events", host->events, host->event_room, host->event_count + 1);
    if (status < 0) {
        gy_host_fail(host, status);
        return;
    }
    host_event *made = &host->events[host->event_count++];
    made->event = *event;
    snprintf(made->reason, sizeof(made->reason), "%s",
             event->reason != NULL ? event->reason : "");
}

static void step_once(gy_host *host, gy_daemon_event *event)
{
    event->now_ns = gy_now_ns(host->env);
    gy_status status = gy_daemon_step(host->machine, event, &host->effects);
    if (status < 0) {
        gy_host_fail(host, status);
    }
    for (size_t i = 0; i < host->effects.count && host->status == GY_OK; i++) {
        gy_host_do(host, &host->effects.items[i]);
    }
}

static void step_queued(gy_host *host)
{
    while (host->event_head < host->event_count && host->status == GY_OK) {
        host_event next = host->events[host->event_head++];
        next.event.reason = next.reason;
        step_once(host, &next.event);
    }
    host->event_head = host->event_count = 0;
}

void gy_host_step(gy_host *host, gy_daemon_event *event)
{
    GY_ASSERT(!host->is_stepping);
    host->is_stepping = true;
    step_queued(host);
    if (event != NULL) {
        step_once(host, event);
        step_queued(host);
    }
    host->is_stepping = false;
}

/* ---- Descriptors to poll ---- */

gy_status gy_host_watch(gy_host *host, host_watch *watch, int file, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.ptr = watch}};
    if (epoll_ctl(host->epoll, EPOLL_CTL_ADD, file, &event) != 0) {
        return gy_fail(GY_LIMIT, "cannot watch a socket: %s", strerror(errno));
    }
    watch->file = file;
    watch->events = events;
    return GY_OK;
}

void gy_host_watch_change(gy_host *host, host_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.ptr = watch}};
    if (watch->file >= 0 && watch->events != events) {
        GY_ASSERT(epoll_ctl(host->epoll, EPOLL_CTL_MOD, watch->file, &event) == 0);
        watch->events = events;
    }
}

void gy_host_unwatch_only(gy_host *host, host_watch *watch)
{
    if (watch->file >= 0) {
        (void)epoll_ctl(host->epoll, EPOLL_CTL_DEL, watch->file, NULL);
        watch->file = -1;
    }
}

void gy_host_unwatch(gy_host *host, host_watch *watch)
{
    int file = watch->file;
    gy_host_unwatch_only(host, watch);
    if (file >= 0) {
        close(file);
    }
}

/* ---- The loop ---- */

static bool has_children(const gy_host *host)
{
    for (const host_job *job = host->jobs; job != NULL; job = job->next) {
        if (job->supervisor != NULL || job->ahead.supervisor != NULL ||
            job->manager.shim != 0) {
            return true;
        }
    }
    return host->orphans_ns != 0;
}

static void begin_end(gy_host *host)
{
    host->is_ending = true;
    host->last_ns = gy_now_ns(host->env) + last_after_ns;
    gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_STOP});
}

static void check_clock(gy_host *host)
{
    int64_t now_ns = gy_now_ns(host->env);
    if (now_ns >= host->wake_ns) {
        host->wake_ns = INT64_MAX;
        gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_TIMER});
    }
    gy_host_check_asks(host, now_ns);
    gy_host_step(host, NULL);
    host->is_verifying = gy_host_blobs_verify(host);
    for (host_job *job = host->jobs; job != NULL; job = job->next) {
        gy_host_program_check(host, job, now_ns);
        gy_host_fork_server_check(host, job, now_ns);
        gy_host_manager_check(host, job, now_ns);
    }
    gy_host_step(host, NULL);
    gy_host_end_orphans(host, now_ns);
    if (now_ns >= host->tick_ns) {
        host->tick_ns = now_ns + tick_every_ns;
        gy_host_check_disk(host);
        gy_host_check_ring(host);
        gy_host_check_names(host, now_ns);
    }
}

/* Is there a timer that this loop must check itself? */
static bool is_busy(const gy_host *host)
{
    bool is_it = host->asks != NULL || host->is_ending || host->orphans_ns != 0;
    for (const host_job *job = host->jobs; job != NULL && !is_it; job = job->next) {
        is_it = job->is_fork_server_ending || job->ahead.last_ns != INT64_MAX ||
                job->manager.is_killed || job->closed_ns != INT64_MAX ||
                job->program.again_ns != INT64_MAX;
    }
    return is_it;
}

static int wait_ms(const gy_host *host, bool has_trash)
{
    int64_t now_ns = gy_now_ns(host->env);
    int64_t until_ns = GY_MIN(host->wake_ns, host->tick_ns);
    until_ns = GY_MIN(until_ns, gy_rpc_next(host->rpc).at_ns);
    for (const host_job *job = host->jobs; job != NULL; job = job->next) {
        until_ns = GY_MIN(until_ns, gy_host_manager_next_ns(job));
    }
    if (is_busy(host)) {
        until_ns = GY_MIN(until_ns, now_ns + brief_ns);
    }
    if (has_trash || host->is_verifying || until_ns <= now_ns) {
        return 0;
    }
    return (int)((until_ns - now_ns + 999999) / 1000000);
}

static void round_once(gy_host *host, bool *has_trash)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(host->epoll, events, EVENTS, wait_ms(host, *has_trash));
    for (int i = 0; i < count && host->status == GY_OK; i++) {
        host_watch *watch = events[i].data.ptr;
        if (watch != NULL && watch->file >= 0) {
            watch->ready(host, watch->owner, events[i].events);
        }
    }
    if (!host->is_ending && gy_signals_count(host->signals) > 0) {
        begin_end(host);
    }
    /* Handle waiting messages before judging silence. */
    while (host->status == GY_OK && gy_rpc_turn(host->rpc, (gy_deadline){0}) == GY_OK) {
    }
    check_clock(host);
    gy_host_send_fetched(host);
    gy_host_reap(host);
    *has_trash = gy_host_sweep(host);
}

static void run(gy_host *host)
{
    bool has_trash = true;
    gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_BEGIN});
    while (host->status == GY_OK) {
        round_once(host, &has_trash);
        if (host->is_ending && !has_children(host) &&
            (host->asks == NULL ||
             gy_now_ns(host->env) > host->last_ns - last_after_ns + tick_every_ns)) {
            return;
        }
        if (host->is_ending && gy_now_ns(host->env) > host->last_ns) {
            gy_warn("processes of jobs do not end after SIGKILL");
            return;
        }
    }
}

/* ---- Beginning and end ---- */

/* Orders, calls, ends of connections. */
static void hear(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    gy_host *host = arg;
    uint32_t which = 0;
    if (gy_host_is_name(host, peer, &which)) {
        if (event == GY_RPC_UP && !gy_host_name_is_one(host, which)) {
            gy_host_name_is_up(host, which, false);
        } else if (event == GY_RPC_UP) {
            gy_host_name_is_up(host, which, true);
            gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_NAMES_UP});
        } else if (event == GY_RPC_DOWN) {
            gy_host_name_is_up(host, which, false);
            gy_info("no connection to the name server: %s", gy_error_text());
        }
    } else if (event == GY_RPC_DRAINED || event == GY_RPC_UP) {
        gy_host_flush(host, peer);
    } else if (event == GY_RPC_GONE) {
        for (host_job *job = host->jobs; job != NULL; job = job->next) {
            if (job->peer == peer) {
                job->peer = 0;
                gy_host_outbox_free(job);
            }
        }
    }
}

static gy_status open_node(gy_host *host)
{
    const gy_host_options *options = host->options;
    char name[64];
    size_t count = 0;
    GY_TRY(gy_host_methods(host, &count));
    snprintf(name, sizeof(name), "daemon %.50s", host->host_name);
    host->bulk =
        (gy_bulk_server){.roles = GY_RPC_MAY(GY_RPC_DAEMON), .find = gy_host_find, .arg = host};
    GY_TRY(gy_rpc_new(host->env,
                      &(gy_rpc_options){.name = name,
                                        .role = GY_RPC_DAEMON,
                                        .methods = host->methods,
                                        .method_count = count,
                                        .arg = host,
                                        .hear = hear,
                                        .retry_ns_max = names_again_ns,
                                        .key_file = options->key_file,
                                        .is_plaintext = options->is_plaintext,
                                        .stranger_max = 256,
                                        .bulk = &host->bulk},
                      &host->rpc));
    char address[GY_RPC_ADDRESS_BYTES];
    GY_TRY(gy_rpc_listen(host->rpc, options->listen, address));
    /* A daemon that listens on all addresses is reached by its host's name. */
    const char *port = strrchr(address, ':');
    bool is_anywhere =
        strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
    return gy_print_whole(host->address, sizeof(host->address), "%s%s",
                          is_anywhere ? host->host_name : "", is_anywhere ? port : address)
               ? GY_OK
               : gy_fail(GY_ARG, "the name %s is too long for an address", host->host_name);
}

static uint32_t core_count(void)
{
    cpu_set_t own;
    int count = sched_getaffinity(0, sizeof(own), &own) == 0 ? CPU_COUNT(&own) : 1;
    return (uint32_t)GY_MIN(GY_MAX(count, 1), GY_CONTROL_SLOTS_MAX);
}

static gy_status open_machine(gy_host *host)
{
    return gy_daemon_new(&(gy_daemon_options){.id = host->id,
                                              .incarnation = host->incarnation,
                                              .life = host->life,
                                              .platform = gy_net_platform(),
                                              .slots = host->slots,
                                              .address = host->address,
                                              .host = host->host_name,
                                              .labels = host->options->labels != NULL
                                                            ? host->options->labels
                                                            : "",
                                              .keep_ns = host->options->keep_ns,
                                              .fetch_ns = host->options->fetch_ns,
                                              .window_bytes = GY_NET_RELAY_BYTES},
                         &host->machine);
}

static void on_node(gy_host *host, void *owner, uint32_t events)
{
    (void)host, (void)owner, (void)events; /* each round turns the node anyway */
}

/* Determine the sandbox of jobs' processes; log what this machine lacks. */
static gy_status look_at_sandbox(gy_host *host)
{
    const char *wanted = host->options->sandbox;
    gy_text missing = {.data = NULL};
    gy_status status = gy_sandbox_parse(
        wanted != NULL ? wanted : "available,rights,processes,calls", &host->sandbox);
    status = status < 0 ? status : gy_sandbox_settle(&host->sandbox, &missing);
    if (status == GY_OK && missing.size_bytes > 0) {
        gy_warn("the sandbox of jobs' processes lacks %s", gy_text_get(&missing));
    }
    gy_text_free(&missing);
    return status;
}

/* The sandbox's mount namespace has another /dev/shm than the one this folder may lie in. */
static gy_status check_folder(const gy_host *host)
{
    static const char hidden[] = "/dev/shm/";
    const bool is_hidden = (host->sandbox.parts & GY_SANDBOX_PROCESSES) != 0 &&
                           strncmp(host->folder, hidden, strlen(hidden)) == 0;
    return is_hidden ? gy_fail(GY_ARG,
                               "processes of jobs have a /dev/shm of their own and would not "
                               "find %s: expected a folder elsewhere, or --sandbox without "
                               "'processes'",
                               host->folder)
                     : GY_OK;
}

static gy_status open_host(gy_host *host, host_watch watches[2])
{
    const gy_host_options *options = host->options;
    GY_TRY(look_at_sandbox(host));
    host->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (host->epoll < 0) {
        return gy_fail(GY_LIMIT, "cannot wait for events: %s", strerror(errno));
    }
    GY_TRY(gy_signals_open(&host->signals));
    GY_TRY(gy_host_watch(host, &watches[0], host->signals, EPOLLIN));
    GY_TRY(gy_host_identity(host));
    GY_TRY(check_folder(host));
    gy_limits_collect();
    GY_TRY(open_node(host));
    /* The descriptor belongs to the node and is never closed here. */
    GY_TRY(gy_host_watch(host, &watches[1], gy_rpc_fd(host->rpc), EPOLLIN));
    GY_TRY(open_machine(host));
    GY_TRY(gy_host_blobs_load(host));
    GY_TRY(gy_host_load(host));
    GY_TRY(gy_host_dial_names(host));
    if (options->ready != NULL) {
        options->ready(options->arg, host->address);
    }
    return GY_OK;
}

static gy_status close_host(gy_host *host)
{
    gy_host_jobs_free(host); /* no process is left, so no data are missed */
    gy_rpc_free(host->rpc);
    host->rpc = NULL;
    gy_host_fetches_free(host);
    gy_host_blobs_free(host);
    gy_host_asks_free(host);
    gy_daemon_free(host->machine);
    gy_free(host->effects.items);
    gy_free(host->events);
    gy_free(host->methods);
    gy_sandbox_fini(&host->sandbox);
    if (host->signals >= 0) {
        gy_signals_close(host->signals);
    }
    if (host->epoll >= 0) {
        close(host->epoll);
    }
    if (host->lock >= 0) {
        close(host->lock);
    }
    return host->status < 0 ? gy_error_raise(&host->why) : GY_OK;
}

/* Refuse texts that a name server would refuse, since it would never list this daemon. */
static gy_status check_texts(const gy_host_options *options)
{
    const char *const texts[] = {options->host, options->labels};
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        for (const char *at = texts[i]; at != NULL && *at != '\0'; at++) {
            if ((unsigned char)*at < ' ' || *at == 127) {
                return gy_fail(GY_ARG, "a host or label with the byte %d", *at);
            }
        }
    }
    const char *host = options->host, *labels = options->labels;
    if (host != NULL && (host[0] == '\0' || strpbrk(host, "/,: ") != NULL)) {
        return gy_fail(GY_ARG, "--hostname is '%.80s', expected the name of a host", host);
    }
    if (labels != NULL && labels[0] != '\0' &&
        (labels[0] == ',' || labels[strlen(labels) - 1] == ',' ||
         strstr(labels, ",,") != NULL)) {
        return gy_fail(GY_ARG, "--host-labels is '%.80s', expected labels separated by commas",
                       labels);
    }
    return GY_OK;
}

gy_status gy_host_run(gy_env *env, const gy_host_options *options)
{
    GY_ASSERT(options->names != NULL && options->listen != NULL && options->folder != NULL &&
              options->hooks != NULL);
    if (options->slots > GY_CONTROL_SLOTS_MAX) {
        return gy_fail(GY_ARG, "%u slots: expected 1 to %d", options->slots,
                       GY_CONTROL_SLOTS_MAX);
    }
    GY_TRY(check_texts(options));
    gy_host *host = gy_alloc_zero("host", 1, sizeof(*host));
    if (host == NULL) {
        return GY_NOMEM;
    }
    host_watch watches[2] = {{.ready = on_node, .file = -1}, {.ready = on_node, .file = -1}};
    host->env = env;
    host->options = options;
    host->slots = options->slots > 0 ? options->slots : core_count();
    host->lock = host->epoll = host->signals = -1;
    host->wake_ns = INT64_MAX;
    host->trash_count = 1; /* an earlier life may have left files */
    gy_status status = gy_host_adopt();
    status = status < 0 ? status : open_host(host, watches);
    if (status < 0) {
        gy_host_fail(host, status);
    } else {
        run(host);
    }
    status = close_host(host);
    gy_free(host);
    return status;
}
