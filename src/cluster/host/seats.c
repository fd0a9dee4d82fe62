/* Seats: a process each, and its stream. What comes of it waits here until its manager has
 * room, what goes to it until it reads. */
#include "cluster/host/host_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

host_seat *gy_host_seat(const host_job *job, uint64_t lease, uint32_t generation)
{
    for (host_seat *seat = job->seats; seat != NULL; seat = seat->next) {
        if (seat->lease == lease && seat->generation == generation && !seat->is_dead) {
            return seat;
        }
    }
    return NULL;
}

host_seat *gy_host_seat_new(gy_host *host, host_job *job, uint64_t lease, uint32_t generation,
                            uint32_t epoch)
{
    host_seat *found = gy_host_seat(job, lease, generation);
    if (found != NULL) {
        return found;
    }
    host_seat *made = gy_alloc_zero("host.seat", 1, sizeof(*made));
    if (made == NULL) {
        gy_host_fail(host, GY_NOMEM);
        return NULL;
    }
    made->job = job;
    made->lease = lease;
    made->generation = generation;
    made->epoch = epoch;
    made->watch.file = -1;
    made->next = job->seats;
    job->seats = made;
    return made;
}

void gy_host_seat_free(gy_host *host, host_seat *seat)
{
    gy_host_unwatch(host, &seat->watch);
    if (seat->has_process && !seat->is_dead && seat->job->warden != NULL) {
        gy_warden_clear(seat->job->warden, seat->slot);
        seat->job->slots[seat->slot] = 0;
    }
    seat->is_dead = host->has_dead = true;
}

/* ---- From the process ---- */

/* What is waited for: input while there is room, output while there is something to say. */
static void wait_for(gy_host *host, host_seat *seat)
{
    bool is_behind = seat->down_at < seat->down_bytes && seat->down_due > 0;
    gy_host_watch_change(host, &seat->watch,
                         (seat->up_bytes < HOST_STREAM ? EPOLLIN : 0) |
                             (is_behind ? (uint32_t)EPOLLOUT : 0));
}

/* Read what there is room for. GY_AGAIN nothing more now; GY_PEER the end; GY_OK: no room. */
static gy_status read_up(host_seat *seat)
{
    if (seat->up == NULL && (seat->up = gy_alloc("host.up", HOST_STREAM)) == NULL) {
        return GY_NOMEM;
    }
    while (seat->up_bytes < HOST_STREAM) {
        ssize_t got = recv(seat->watch.file, seat->up + seat->up_bytes,
                           HOST_STREAM - seat->up_bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return GY_AGAIN;
        }
        if (got <= 0) {
            return GY_PEER;
        }
        seat->up_bytes += (size_t)got;
    }
    return GY_OK;
}

/* Tell the machine of bytes that it does not know of, and send what it lets go. */
static void tell_ready(gy_host *host, host_seat *seat)
{
    uint64_t more = seat->up_bytes - seat->up_told;
    if (more > 0) {
        seat->up_told = seat->up_bytes;
        gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_SEAT_READY,
                                              .job = seat->job->key,
                                              .lease = seat->lease,
                                              .generation = seat->generation,
                                              .bytes = more});
    }
}

static void pump_up(gy_host *host, host_seat *seat)
{
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Relay message = GY__CLUSTER__RELAY__INIT;
    key.high = seat->job->key.high;
    key.low = seat->job->key.low;
    message.job = &key;
    message.epoch = seat->epoch;
    message.lease = seat->lease;
    message.generation = seat->generation;
    size_t at = 0;
    while (seat->up_due > 0) {
        size_t size = (size_t)GY_MIN(seat->up_due, (uint64_t)GY_NET_RELAY_BYTES);
        GY_ASSERT(at + size <= seat->up_bytes);
        message.data = (ProtobufCBinaryData){.len = size, .data = seat->up + at};
        if (gy_host_call_now(host, seat->job, seat->epoch, GY_NET_RELAY, &message.base) ==
            GY_AGAIN) {
            break;
        }
        at += size;
        seat->up_due -= size;
    }
    if (at > 0) {
        memmove(seat->up, seat->up + at, seat->up_bytes - at);
        seat->up_bytes -= at;
        seat->up_told -= at;
    }
}

/* ---- To the process ---- */

gy_status gy_host_seat_take(host_seat *seat, const void *data, size_t size_bytes)
{
    if (size_bytes == 0) {
        return GY_OK;
    }
    if (seat->down_at > 0) {
        memmove(seat->down, seat->down + seat->down_at, seat->down_bytes - seat->down_at);
        seat->down_bytes -= seat->down_at;
        seat->down_at = 0;
    }
    GY_TRY(GY_GROW("host.down", seat->down, seat->down_room, seat->down_bytes + size_bytes));
    memcpy(seat->down + seat->down_bytes, data, size_bytes);
    seat->down_bytes += size_bytes;
    return GY_OK;
}

static void pump_down(gy_host *host, host_seat *seat)
{
    uint64_t took = 0;
    while (seat->down_due > 0 && seat->down_at < seat->down_bytes) {
        size_t size = (size_t)GY_MIN(seat->down_due, seat->down_bytes - seat->down_at);
        ssize_t done = send(seat->watch.file, seat->down + seat->down_at, size,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            break; /* it is full; or gone, which its end will tell */
        }
        seat->down_at += (size_t)done;
        seat->down_due -= (uint64_t)done;
        took += (uint64_t)done;
    }
    if (seat->down_at == seat->down_bytes) {
        seat->down_at = seat->down_bytes = 0;
    }
    if (took > 0) {
        const gy_daemon_event event = {.kind = GY_DAEMON_SEAT_TOOK,
                                       .job = seat->job->key,
                                       .lease = seat->lease,
                                       .generation = seat->generation,
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

void gy_host_seat_pump(gy_host *host, host_seat *seat)
{
    pump_up(host, seat);
    if (seat->watch.file >= 0) {
        pump_down(host, seat);
        wait_for(host, seat);
    }
}

/* ---- Its life ---- */

static void on_stream(gy_host *host, void *owner, uint32_t events)
{
    host_seat *seat = owner;
    if ((events & EPOLLOUT) != 0) {
        pump_down(host, seat);
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        gy_status status = read_up(seat);
        tell_ready(host, seat);
        if (status == GY_PEER) { /* its end comes from the nursery, soon, or it is killed */
            gy_host_unwatch(host, &seat->watch);
            seat->is_closed = true;
            seat->job->closed_ns = GY_MIN(seat->job->closed_ns, gy_now_ns(host->env));
            return;
        }
        if (status == GY_NOMEM) {
            gy_host_fail(host, status);
            return;
        }
    }
    if (seat->watch.file >= 0) {
        wait_for(host, seat);
    }
}

void gy_host_seat_drain(gy_host *host, host_seat *seat)
{
    while (seat->watch.file >= 0) {
        size_t before = seat->up_bytes;
        gy_status status = read_up(seat);
        if (!host->is_stepping) {
            tell_ready(host, seat);
        }
        /* Without credit the rest is of no use: its process is gone. */
        if (status != GY_OK || seat->up_bytes >= GY_MAX(before, (size_t)HOST_STREAM)) {
            gy_host_unwatch(host, &seat->watch);
        }
    }
}

void gy_host_seat_start(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job(host, effect->job);
    host_seat *seat = job != NULL ? gy_host_seat_new(host, job, effect->lease,
                                                     effect->generation, effect->epoch)
                                  : NULL;
    gy_daemon_event down = {.kind = GY_DAEMON_SEAT_DOWN,
                            .job = effect->job,
                            .lease = effect->lease,
                            .generation = effect->generation,
                            .reason = "there is no nursery"};
    if (seat == NULL || job->warden == NULL) {
        gy_host_later(host, &down);
        return;
    }
    uint32_t slot = 0;
    int socket = -1;
    while (slot < host->slots && job->slots[slot] != 0) {
        slot++;
    }
    gy_status status = slot < host->slots
                           ? gy_warden_spawn(job->warden, slot, seat->generation, &socket)
                           : gy_fail(GY_LIMIT, "all slots have a process");
    if (status == GY_OK) {
        job->slots[slot] = 1;
        seat->slot = slot;
        seat->has_process = true;
        seat->watch.ready = on_stream;
        seat->watch.owner = seat;
        if (gy_host_watch(host, &seat->watch, socket, EPOLLIN) < 0) {
            gy_warn("a process of job %s is killed: %s", job->name, gy_error_text());
            close(socket);
            gy_host_seat_kill(seat); /* the nursery tells when its slot is free */
        }
    }
    if (status < 0) {
        down.reason = gy_error_text();
        gy_host_later(host, &down);
    }
}

void gy_host_seat_kill(host_seat *seat)
{
    if (seat->has_process && !seat->has_news && seat->job->warden != NULL &&
        seat->job->warden->socket >= 0) {
        seat->is_killed = true;
        gy_warden_kill(seat->job->warden, seat->slot, seat->generation);
    }
}

void gy_host_seat_news(gy_host *host, host_seat *seat, const gy_nursery_news *news)
{
    gy_text reason = {.data = NULL};
    gy_host_seat_drain(host, seat); /* what it said before */
    seat->has_news = true;
    seat->news = *news;
    gy_warden_explain(seat->job->warden, news, seat->is_killed, &reason);
    gy_host_step(host, &(gy_daemon_event){.kind = GY_DAEMON_SEAT_DOWN,
                                          .job = seat->job->key,
                                          .lease = seat->lease,
                                          .generation = seat->generation,
                                          .reason = gy_text_get(&reason)});
    gy_text_free(&reason);
    if (!seat->is_dead) { /* nobody was told of it */
        gy_host_seat_free(host, seat);
    }
}
