/* Executors: each has a process and its stream. Data from the process wait here until its
 * manager has room, data to it until it reads. */
#include "cluster/host/host_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

host_executor *gy_host_executor(const host_job *job, uint64_t lease, uint32_t generation)
{
    for (host_executor *executor = job->executors; executor != NULL;
         executor = executor->next) {
        if (executor->lease == lease && executor->generation == generation &&
            !executor->is_dead) {
            return executor;
        }
    }
    return NULL;
}

host_executor *gy_host_executor_new(gy_host *host, host_job *job, uint64_t lease,
                                    uint32_t generation, uint32_t epoch)
{
    host_executor *found = gy_host_executor(job, lease, generation);
    if (found != NULL) {
        return found;
    }
    host_executor *made = gy_alloc_zero("host.executor", 1, sizeof(*made));
    if (made == NULL) {
        gy_host_fail(host, GY_NOMEM);
        return NULL;
    }
    made->job = job;
    made->lease = lease;
    made->generation = generation;
    made->epoch = epoch;
    made->watch.file = -1;
    made->next = job->executors;
    job->executors = made;
    return made;
}

void gy_host_executor_free(gy_host *host, host_executor *executor)
{
    gy_host_unwatch(host, &executor->watch);
    if (executor->has_process && !executor->is_dead && executor->job->supervisor != NULL) {
        gy_supervisor_clear(executor->job->supervisor, executor->slot);
        executor->job->slots[executor->slot] = 0;
    }
    executor->is_dead = host->has_dead = true;
}

/* ---- From the process ---- */

/* Poll for input while there is room, and for output while there is data. */
static void wait_for(gy_host *host, host_executor *executor)
{
    bool is_behind = executor->down_at < executor->down_bytes && executor->down_due > 0;
    gy_host_watch_change(host, &executor->watch,
                         (executor->up_bytes < HOST_STREAM ? EPOLLIN : 0) |
                             (is_behind ? (uint32_t)EPOLLOUT : 0));
}

/* Read as much as there is room for. GY_AGAIN no more data now; GY_PEER the end; GY_OK: no
 * room. */
static gy_status read_up(host_executor *executor)
{
    if (executor->up == NULL && (executor->up = gy_alloc("host.up", HOST_STREAM)) == NULL) {
        return GY_NOMEM;
    }
    while (executor->up_bytes < HOST_STREAM) {
        ssize_t got = recv(executor->watch.file, executor->up + executor->up_bytes,
                           HOST_STREAM - executor->up_bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return GY_AGAIN;
        }
        if (got <= 0) {
            return GY_PEER;
        }
        executor->up_bytes += (size_t)got;
    }
    return GY_OK;
}

/* Tell the machine of new bytes, and send as much as it allows. */
static void report_ready(gy_host *host, host_executor *executor)
{
    uint64_t more = executor->up_bytes - executor->up_told;
    if (more > 0) {
        executor->up_told = executor->up_bytes;
        gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_EXECUTOR_READY,
                                              .job = executor->job->key,
                                              .lease = executor->lease,
                                              .generation = executor->generation,
                                              .bytes = more});
    }
}

static void pump_up(gy_host *host, host_executor *executor)
{
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Relay message = GY__CLUSTER__RELAY__INIT;
    key.high = executor->job->key.high;
    key.low = executor->job->key.low;
    message.job = &key;
    message.epoch = executor->epoch;
    message.lease = executor->lease;
    message.generation = executor->generation;
    size_t at = 0;
    while (executor->up_due > 0) {
        size_t size = (size_t)GY_MIN(executor->up_due, (uint64_t)GY_NET_RELAY_BYTES);
        GY_ASSERT(at + size <= executor->up_bytes);
        message.data = (ProtobufCBinaryData){.len = size, .data = executor->up + at};
        if (gy_host_call_now(host, executor->job, executor->epoch, GY_NET_RELAY,
                             &message.base) == GY_AGAIN) {
            break;
        }
        at += size;
        executor->up_due -= size;
    }
    if (at > 0) {
        memmove(executor->up, executor->up + at, executor->up_bytes - at);
        executor->up_bytes -= at;
        executor->up_told -= at;
    }
}

/* ---- To the process ---- */

gy_status gy_host_executor_take(host_executor *executor, const void *data, size_t size_bytes)
{
    if (size_bytes == 0) {
        return GY_OK;
    }
    if (executor->down_at > 0) {
        memmove(executor->down, executor->down + executor->down_at,
                executor->down_bytes - executor->down_at);
        executor->down_bytes -= executor->down_at;
        executor->down_at = 0;
    }
    GY_TRY(GY_GROW("host.down", executor->down, executor->down_room,
                   executor->down_bytes + size_bytes));
    memcpy(executor->down + executor->down_bytes, data, size_bytes);
    executor->down_bytes += size_bytes;
    return GY_OK;
}

static void pump_down(gy_host *host, host_executor *executor)
{
    uint64_t took = 0;
    while (executor->down_due > 0 && executor->down_at < executor->down_bytes) {
        size_t size =
            (size_t)GY_MIN(executor->down_due, executor->down_bytes - executor->down_at);
        ssize_t done = send(executor->watch.file, executor->down + executor->down_at, size,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            break; /* its socket is full; or it has ended, which is reported separately */
        }
        executor->down_at += (size_t)done;
        executor->down_due -= (uint64_t)done;
        took += (uint64_t)done;
    }
    if (executor->down_at == executor->down_bytes) {
        executor->down_at = executor->down_bytes = 0;
    }
    if (took > 0) {
        const gy_daemon_event event = {.kind = GY_DAEMON_EXECUTOR_TOOK,
                                       .job = executor->job->key,
                                       .lease = executor->lease,
                                       .generation = executor->generation,
                                       .bytes = took};
        if (host->is_stepping) {
            gy_host_later(host, &event);
        } else {
            gy_host_step(host, &(gy_daemon_event){.kind = event.kind,
                                                  .job = event.job,
                                                  .lease = event.lease,
                                                  .generation = event.generation,
                                                  .bytes = took});
        }
    }
}

void gy_host_executor_pump(gy_host *host, host_executor *executor)
{
    pump_up(host, executor);
    if (executor->watch.file >= 0) {
        pump_down(host, executor);
        wait_for(host, executor);
    }
}

/* ---- Start and end ---- */

static void on_stream(gy_host *host, void *owner, uint32_t events)
{
    host_executor *executor = owner;
    if ((events & EPOLLOUT) != 0) {
        pump_down(host, executor);
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        gy_status status = read_up(executor);
        report_ready(host, executor);
        if (status == GY_PEER) { /* the fork server will report its end, or it is killed */
            gy_host_unwatch(host, &executor->watch);
            executor->is_closed = true;
            executor->job->closed_ns = GY_MIN(executor->job->closed_ns, gy_now_ns(host->env));
            return;
        }
        if (status == GY_NOMEM) {
            gy_host_fail(host, status);
            return;
        }
    }
    if (executor->watch.file >= 0) {
        wait_for(host, executor);
    }
}

void gy_host_executor_drain(gy_host *host, host_executor *executor)
{
    while (executor->watch.file >= 0) {
        size_t before = executor->up_bytes;
        gy_status status = read_up(executor);
        if (!host->is_stepping) {
            report_ready(host, executor);
        }
        /* Without credit the rest is useless, since its process has ended. */
        if (status != GY_OK || executor->up_bytes >= GY_MAX(before, (size_t)HOST_STREAM)) {
            gy_host_unwatch(host, &executor->watch);
        }
    }
}

void gy_host_executor_start(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job(host, effect->job);
    host_executor *executor =
        job != NULL
            ? gy_host_executor_new(host, job, effect->lease, effect->generation, effect->epoch)
            : NULL;
    gy_daemon_event down = {.kind = GY_DAEMON_EXECUTOR_DOWN,
                            .job = effect->job,
                            .lease = effect->lease,
                            .generation = effect->generation,
                            .reason = "there is no fork server"};
    if (executor == NULL || job->supervisor == NULL) {
        gy_host_later(host, &down);
        return;
    }
    uint32_t slot = 0;
    int socket = -1;
    while (slot < host->slots && job->slots[slot] != 0) {
        slot++;
    }
    gy_status status = slot < host->slots ? gy_supervisor_spawn(job->supervisor, slot,
                                                                executor->generation, &socket)
                                          : gy_fail(GY_LIMIT, "all slots are in use");
    if (status == GY_OK) {
        job->slots[slot] = 1;
        executor->slot = slot;
        executor->has_process = true;
        executor->watch.ready = on_stream;
        executor->watch.owner = executor;
        if (gy_host_watch(host, &executor->watch, socket, EPOLLIN) < 0) {
            gy_warn("killing a process of job %s: %s", job->name, gy_error_text());
            close(socket);
            gy_host_executor_kill(executor); /* the fork server reports when its slot is free */
        }
    }
    if (status < 0) {
        down.reason = gy_error_text();
        gy_host_later(host, &down);
    }
}

void gy_host_executor_kill(host_executor *executor)
{
    if (executor->has_process && !executor->has_news && executor->job->supervisor != NULL &&
        executor->job->supervisor->socket >= 0) {
        executor->is_killed = true;
        gy_supervisor_kill(executor->job->supervisor, executor->slot, executor->generation);
    }
}

void gy_host_executor_news(gy_host *host, host_executor *executor,
                           const gy_fork_server_news *news)
{
    gy_text reason = {.data = NULL};
    gy_host_executor_drain(host, executor); /* read its last data */
    executor->has_news = true;
    executor->news = *news;
    gy_supervisor_explain(executor->job->supervisor, news, executor->is_killed, &reason);
    gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_EXECUTOR_DOWN,
                                          .job = executor->job->key,
                                          .lease = executor->lease,
                                          .generation = executor->generation,
                                          .reason = gy_text_get(&reason)});
    gy_text_free(&reason);
    if (!executor->is_dead) { /* its start was never reported */
        gy_host_executor_free(host, executor);
    }
}
