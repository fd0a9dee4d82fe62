/* Processes on this machine: a fork server forks them, and each has a socket to the driver. */
#include "driver/loop.h"
#include "worker/log.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the fork server ---- */

static gy_status watch_socket(const gy_driver *driver, int socket, uint64_t name)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = name}};
    if (epoll_ctl(driver->epoll, EPOLL_CTL_ADD, socket, &event) != 0) {
        return gy_fail(GY_LIMIT, "cannot watch a socket: %s", strerror(errno));
    }
    return GY_OK;
}

/* Start a new fork server. GY_LIMIT too many have died; GY_NOMEM */
static gy_status start_fork_server(gy_driver *driver)
{
    GY_TRY(gy_supervisor_start(&driver->supervisor));
    return watch_socket(driver, driver->supervisor.socket, GY_EPOLL_FORK_SERVER);
}

static gy_status local_open(gy_driver *driver)
{
    const gy_driver_options *options = driver->options;
    driver->supervisor = (gy_supervisor){.env = driver->env,
                                         .start = {.argv = options->argv},
                                         .role = {.processes = driver->process_count,
                                                  .threads = driver->threads,
                                                  .memory_bytes = options->memory_bytes},
                                         .sandbox = options->sandbox,
                                         .folder = options->folder};
    GY_TRY(gy_supervisor_open(&driver->supervisor));
    return start_fork_server(driver);
}

static void local_close(gy_driver *driver, bool is_hard)
{
    const uint32_t count = driver->processes != NULL ? driver->process_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        gy_process *process = &driver->processes[i];
        if (process->socket >= 0) {
            close(process->socket);
            process->socket = -1;
        }
    }
    gy_supervisor_close(&driver->supervisor, is_hard);
    for (uint32_t i = 0; i < count; i++) {
        if (driver->processes[i].state != GY_PROCESS_NONE) {
            gy_worker_log_end(driver->env, driver->options->folder, i,
                              driver->processes[i].generation, NULL);
        }
    }
}

/* ---- processes ---- */

static uint64_t name_of(const gy_process *process)
{
    return ((uint64_t)process->generation << 32) | process->slot << 2 | GY_EPOLL_PROCESS;
}

static gy_status local_spawn(gy_driver *driver, gy_process *process)
{
    GY_ASSERT(process->socket < 0 && process->state == GY_PROCESS_STARTING);
    GY_TRY(gy_supervisor_spawn(&driver->supervisor, process->slot, process->generation,
                               &process->socket));
    const gy_status status = watch_socket(driver, process->socket, name_of(process));
    if (status < 0) {
        gy_supervisor_kill(&driver->supervisor, process->slot, process->generation);
    }
    return status;
}

static void local_kill(gy_driver *driver, const gy_process *process, const char *reason)
{
    (void)reason;
    gy_supervisor_kill(&driver->supervisor, process->slot, process->generation);
}

static void local_forget(gy_driver *driver, const gy_process *process)
{
    gy_supervisor_clear(&driver->supervisor, process->slot);
}

static void watch(const gy_driver *driver, gy_process *process, bool is_blocked)
{
    if (process->is_blocked != is_blocked) {
        struct epoll_event event = {.events = EPOLLIN | (is_blocked ? EPOLLOUT : 0),
                                    .data = {.u64 = name_of(process)}};
        GY_ASSERT(epoll_ctl(driver->epoll, EPOLL_CTL_MOD, process->socket, &event) == 0);
        process->is_blocked = is_blocked;
    }
}

static void local_send(gy_driver *driver, gy_process *process)
{
    gy_text *out = &process->out;
    while (process->sent < out->size_bytes) {
        ssize_t done = send(process->socket, out->data + process->sent,
                            out->size_bytes - process->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done > 0) {
            process->sent += (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {
            watch(driver, process, true);
            return;
        } else if (done < 0 && errno != EINTR) {
            break; /* the process has ended, and its end will be reported */
        }
    }
    watch(driver, process, false);
    out->size_bytes = 0;
    process->sent = 0;
}

/* ---- messages ---- */

/* Read once and handle the messages. GY_AGAIN no data; GY_PEER the end */
static gy_status read_once(gy_driver *driver, gy_process *process)
{
    if (process->in == NULL) {
        process->in = gy_alloc("driver.handle", GY_READ_BYTES);
        if (process->in == NULL) {
            return GY_NOMEM;
        }
        process->in_room = GY_READ_BYTES;
    }
    ssize_t got = recv(process->socket, process->in + process->in_bytes,
                       process->in_room - process->in_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return GY_AGAIN;
    }
    if (got <= 0) {
        return GY_PEER;
    }
    process->in_bytes += (size_t)got;
    return gy_process_understand(driver, process);
}

static void handle_process(gy_driver *driver, gy_process *process)
{
    if (process->state == GY_PROCESS_MUTE || process->closed_ns != 0) {
        /* Ignore it from now on; the fork server reports its end. */
        (void)epoll_ctl(driver->epoll, EPOLL_CTL_DEL, process->socket, NULL);
        return;
    }
    gy_status status = read_once(driver, process);
    if (status == GY_PEER) {
        process->closed_ns = gy_now_ns(driver->env);
        (void)epoll_ctl(driver->epoll, EPOLL_CTL_DEL, process->socket, NULL);
    } else {
        gy_process_received(driver, process, status);
    }
}

static void end_process(gy_driver *driver, gy_process *process, const gy_fork_server_news *news)
{
    gy_text why = {0}, log_end = {0};
    const bool is_silent = process->state == GY_PROCESS_MUTE || process->closed_ns != 0;
    gy_status status = is_silent ? GY_PEER : GY_OK;
    while (status == GY_OK) { /* its last messages */
        status = read_once(driver, process);
    }
    gy_supervisor_explain(&driver->supervisor, news, process->is_killed, &why);
    gy_worker_log_end(driver->env, driver->options->folder, process->slot, process->generation,
                      &log_end);
    gy_process_end(driver, process,
                   &(gy_gone){.news = news,
                              .lines = gy_supervisor_boards(&driver->supervisor, process->slot),
                              .line_count = driver->threads,
                              .why = gy_text_get(&why),
                              .log_end = gy_text_get(&log_end)});
    gy_text_free(&why);
    gy_text_free(&log_end);
}

/* The fork server has died, and its processes with it. */
static void replace_fork_server(gy_driver *driver)
{
    int status = gy_supervisor_lost(&driver->supervisor);
    gy_info("the fork server of the job has ended (status %d)", status);
    gy_status started = start_fork_server(driver);
    if (started < 0) {
        gy_driver_fail(driver, started);
    }
    /* Only these: ending one may start another. */
    for (uint32_t i = 0; i < driver->process_count; i++) {
        driver->processes[i].has_lost_fork_server =
            driver->processes[i].state != GY_PROCESS_NONE;
    }
    for (uint32_t i = 0; i < driver->process_count; i++) {
        gy_process *one = &driver->processes[i];
        if (one->has_lost_fork_server && one->state != GY_PROCESS_NONE) {
            gy_fork_server_news news = {
                .slot = i, .generation = one->generation, .status = SIGKILL};
            end_process(driver, one, &news);
        }
    }
}

static void handle_fork_server(gy_driver *driver)
{
    while (!driver->has_ended) {
        gy_fork_server_news news;
        gy_status status = gy_supervisor_handle(&driver->supervisor, &news);
        if (status == GY_AGAIN) {
            return;
        }
        if (status < 0) {
            replace_fork_server(driver);
            return;
        }
        gy_process *process = &driver->processes[news.slot];
        if (process->state != GY_PROCESS_NONE && process->generation == news.generation) {
            end_process(driver, process, &news);
        }
    }
}

static void local_ready(gy_driver *driver, uint64_t name, uint32_t events)
{
    if ((name & 3) == GY_EPOLL_FORK_SERVER) {
        handle_fork_server(driver);
        return;
    }
    GY_ASSERT((name & 3) == GY_EPOLL_PROCESS && (uint32_t)name >> 2 < driver->process_count);
    gy_process *process = &driver->processes[(uint32_t)name >> 2];
    if (process->socket < 0 || process->generation != name >> 32) {
        return; /* it has just ended */
    }
    if ((events & EPOLLOUT) != 0) {
        gy_process_touch(driver, process);
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        handle_process(driver, process);
    }
}

const gy_executor_ops gy_executor_local = {
    .name = "local",
    .open = local_open,
    .close = local_close,
    .ready = local_ready,
    .spawn = local_spawn,
    .kill = local_kill,
    .forget = local_forget,
    .send = local_send,
};
