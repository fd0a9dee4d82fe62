/* Connections without authentication so far: their number, time and memory are limited. */
#include "rpc/stream/stream_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t again_ns = 100000000; /* pause after a failed accept */

static void watch_listener(gy_stream *stream);

void gy_rpc_stranger_add(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    connection->is_stranger = true;
    connection->deadline = gy_env_deadline(stream->env, GY_STRANGER_SECONDS);
    connection->previous_stranger = stream->strangers_last;
    *(stream->strangers_last != NULL ? &stream->strangers_last->next_stranger
                                     : &stream->strangers_first) = connection;
    stream->strangers_last = connection;
    stream->stranger_count++;
}

void gy_rpc_stranger_remove(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    if (!connection->is_stranger) {
        return;
    }
    stream_connection *before = connection->previous_stranger;
    stream_connection *after = connection->next_stranger;
    *(before != NULL ? &before->next_stranger : &stream->strangers_first) = after;
    *(after != NULL ? &after->previous_stranger : &stream->strangers_last) = before;
    connection->is_stranger = false;
    stream->stranger_count--;
    watch_listener(stream);
}

int64_t gy_rpc_strangers_due_ns(const gy_stream *stream)
{
    if (stream->strangers_first == NULL) {
        return INT64_MAX;
    }
    int64_t last_ns = stream->strangers_first->deadline.at_ns;
    return stream->stranger_count < stream->stranger_max
               ? last_ns
               : last_ns - (int64_t)((GY_STRANGER_SECONDS - GY_STRANGER_YIELDS) * 1e9);
}

void gy_rpc_strangers_look(gy_stream *stream)
{
    while (gy_now_ns(stream->env) >= gy_rpc_strangers_due_ns(stream)) {
        const bool is_full = stream->stranger_count == stream->stranger_max;
        gy_rpc_connection_fail(stream->strangers_first,
                               gy_fail(GY_STATE, "it did not prove itself within %g s%s",
                                       is_full ? GY_STRANGER_YIELDS : GY_STRANGER_SECONDS,
                                       is_full ? ", and others may be waiting" : ""));
    }
}

/* Accept a caller. False: there is none. */
static bool let_in(gy_stream *stream)
{
    gy_address from = {.size_bytes = sizeof(from.at)};
    stream_connection *made = NULL;
    gy_tcp_wire *wire = NULL;
    int socket =
        accept4(stream->listener, &from.at.any, &from.size_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            gy_rpc_complain(stream->rpc, "a caller", "was not let in", strerror(errno));
            /* it would fail again at once */
            stream->listen_ns = gy_now_ns(stream->env) + again_ns;
        }
        return false;
    }
    if (gy_tcp_wire_new(socket, stream->tls, false, &wire) < 0 ||
        gy_rpc_connection_new(stream, wire, false, &made) < 0) {
        gy_rpc_complain(stream->rpc, "a caller", "was not let in", gy_error_text());
        return true;
    }
    (void)gy_address_text(&from, made->from);
    gy_rpc_stranger_add(made);
    gy_rpc_connection_go_on(made);
    return true;
}

static void on_caller(uv_poll_t *poll, int status, int events)
{
    gy_stream *stream = poll->data;
    (void)status;
    (void)events;
    stream->happened++;
    gy_stream_look_at_ring(stream);
    while (stream->stranger_count < stream->stranger_max && let_in(stream)) {
    }
    watch_listener(stream);
}

/* With all places taken, or no descriptor left, the next caller waits in the kernel's queue. */
static void watch_listener(gy_stream *stream)
{
    bool has_room =
        stream->stranger_count < stream->stranger_max && stream->listen_ns == INT64_MAX;
    if (stream->listener < 0 || has_room == stream->is_listening) {
        return;
    }
    stream->is_listening = has_room;
    if (has_room) {
        (void)uv_poll_start(&stream->listening, UV_READABLE, on_caller);
    } else {
        (void)uv_poll_stop(&stream->listening);
    }
}

void gy_rpc_listener_look(gy_stream *stream)
{
    if (gy_now_ns(stream->env) >= stream->listen_ns) {
        stream->listen_ns = INT64_MAX;
        watch_listener(stream);
    }
}

gy_status gy_stream_listen(void *carrier, const char *at, char text[GY_RPC_ADDRESS_BYTES])
{
    gy_stream *stream = carrier;
    gy_address address;
    char host[256], port[8], with_port[272];
    GY_ASSERT(stream->listener < 0);
    GY_TRY(gy_address_split(at, 0, host, port));
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(with_port, sizeof(with_port), is_v6 ? "[%s]:1" : "%s:1", host);
    GY_TRY(gy_address_find(with_port, &address));
    gy_address_set_port(&address, (uint16_t)strtoul(port, NULL, 10));
    if (stream->tls == NULL && !gy_address_is_loopback(&address)) {
        return gy_fail(
            GY_ARG,
            "%s is not on the loopback: without a key only loopback addresses are served", at);
    }
    GY_TRY(gy_address_listen(&address, &stream->listener));
    int error = uv_poll_init(&stream->loop, &stream->listening, stream->listener);
    if (error != 0) {
        close(stream->listener);
        stream->listener = -1;
        return gy_fail(GY_LIMIT, "cannot watch %s: %s", at, uv_strerror(error));
    }
    stream->listening.data = stream;
    watch_listener(stream);
    (void)gy_address_text(&address, text);
    return GY_OK;
}

void gy_stream_unlisten(gy_stream *stream)
{
    if (stream->listener >= 0) {
        (void)uv_poll_stop(&stream->listening);
        uv_close((uv_handle_t *)&stream->listening, NULL);
        close(stream->listener);
        stream->listener = -1;
    }
}
