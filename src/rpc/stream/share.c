/*
 * A connection whose bytes go through shared memory. Once it is open, and both ends have proved
 * their keys, the caller asks: process, descriptor and token of memory that it has made. The
 * other end opens and judges it, and answers yes or no; then the link begins, over the memory
 * or as ever. From a yes on the socket carries no more than bells, bytes that wake who sleeps,
 * and tells by its end that the other process is gone.
 */
#include "rpc/stream/stream_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    KIND_SHARE = 0x5348, /* tag of its frames; no tag of a link or transfer */
    SHARED_MAX = 256,    /* connections with shared memory at a node */
    AT_PROCESS = 0,
    AT_FILE = 4,
    AT_TOKEN = 8,
    AT_ANSWER = 0,
};
_Static_assert(AT_TOKEN + GY_RINGS_TOKEN_BYTES <= GY_RPC_SHARE_BYTES, "a question's bytes");

/* ---- Questions and answers ---- */

static gy_status say(stream_connection *connection, const uint8_t body[GY_RPC_SHARE_BYTES])
{
    uint8_t bytes[GY_FRAME_BYTES + GY_RPC_SHARE_BYTES];
    const gy_transport_frame frame = {
        .type = GY_FRAME_MESSAGE, .size_bytes = GY_RPC_SHARE_BYTES, .tag = KIND_SHARE};
    const struct iovec piece = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    size_t put = 0;
    gy_transport_frame_write(&frame, bytes);
    memcpy(bytes + GY_FRAME_BYTES, body, GY_RPC_SHARE_BYTES);
    GY_TRY(gy_tcp_wire_write(connection->wire, &piece, 1, &put));
    GY_TRY(gy_tcp_wire_flush(connection->wire));
    /* a new connection has room for some bytes */
    return put == sizeof(bytes) ? GY_OK : gy_fail(GY_PEER, "the connection takes no bytes");
}

/* Read up to `until` bytes of a frame: its header, then its body. */
static gy_status read_on(stream_connection *connection)
{
    while (connection->share_bytes < GY_FRAME_BYTES + GY_RPC_SHARE_BYTES) {
        bool is_head = connection->share_bytes < GY_FRAME_BYTES;
        uint8_t *to = is_head ? connection->head + connection->share_bytes
                              : connection->share + (connection->share_bytes - GY_FRAME_BYTES);
        size_t end = is_head ? GY_FRAME_BYTES : GY_FRAME_BYTES + GY_RPC_SHARE_BYTES;
        const struct iovec piece = {.iov_base = to, .iov_len = end - connection->share_bytes};
        size_t got = 0;
        gy_status status = gy_tcp_wire_read(connection->wire, &piece, 1, &got);
        if (status != GY_OK) {
            return status;
        }
        connection->share_bytes += got;
    }
    return GY_OK;
}

static bool is_share(const uint8_t head[GY_FRAME_BYTES])
{
    gy_transport_frame frame;
    return gy_transport_frame_read(head, 0, GY_RPC_SHARE_BYTES, &frame) == GY_OK &&
           frame.type == GY_FRAME_MESSAGE && frame.tag == KIND_SHARE &&
           frame.size_bytes == GY_RPC_SHARE_BYTES;
}

static void add(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    connection->next_shared = stream->shared;
    stream->shared = connection;
    stream->shared_count++;
}

static bool is_local(const stream_connection *connection)
{
    gy_address address;
    return gy_address_own(gy_tcp_wire_socket(connection->wire), &address) == GY_OK &&
           gy_address_is_loopback(&address);
}

bool gy_rpc_share_ask(stream_connection *connection)
{
    const gy_stream *stream = connection->stream;
    gy_env *env = stream->env;
    stream_rings *rings = NULL;
    uint8_t body[GY_RPC_SHARE_BYTES] = {0}, token[GY_RINGS_TOKEN_BYTES];
    if (stream->shared_count >= SHARED_MAX || !is_local(connection)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(token); i += sizeof(uint64_t)) {
        uint64_t part = env->ops->random(env, GY_CHANCE_NETWORK);
        memcpy(token + i, &part, sizeof(part));
    }
    if (gy_rpc_rings_make(token, &rings) < 0) {
        gy_debug("%s: no shared memory: %s", connection->from, gy_error_text());
        return false;
    }
    uint32_t process = (uint32_t)getpid(), file = (uint32_t)gy_rpc_rings_file(rings);
    memcpy(body + AT_PROCESS, &process, sizeof(process));
    memcpy(body + AT_FILE, &file, sizeof(file));
    memcpy(body + AT_TOKEN, token, sizeof(token));
    if (say(connection, body) < 0) {
        gy_rpc_rings_free(rings);
        return false; /* a broken connection shows at the next step */
    }
    connection->asked_rings = rings;
    connection->is_sharing = true;
    return true;
}

gy_status gy_rpc_share_hear(stream_connection *connection)
{
    gy_status status = read_on(connection);
    if (status != GY_OK) {
        return status;
    }
    if (!is_share(connection->head)) {
        return gy_fail(GY_FORMAT, "no answer about shared memory");
    }
    connection->is_sharing = false;
    connection->share_bytes = 0;
    gy_rpc_rings_close_file(connection->asked_rings);
    if (connection->share[AT_ANSWER] == 1) {
        connection->rings = connection->asked_rings;
        add(connection);
    } else {
        gy_debug("%s does not share memory", connection->from);
        gy_rpc_rings_free(connection->asked_rings);
    }
    connection->asked_rings = NULL;
    gy_rpc_link_up(connection->stream->rpc, connection->link, GY_RPC_ROLES, "");
    return GY_OK;
}

bool gy_rpc_share_is_asked(const stream_connection *connection)
{
    return connection->stream->shares_memory && is_share(connection->head);
}

gy_status gy_rpc_share_answer(stream_connection *connection)
{
    const gy_stream *stream = connection->stream;
    stream_rings *rings = NULL;
    uint8_t body[GY_RPC_SHARE_BYTES] = {0};
    uint32_t process = 0, file = 0;
    connection->share_bytes = GY_MAX(connection->share_bytes, (size_t)GY_FRAME_BYTES);
    gy_status status = read_on(connection);
    if (status != GY_OK) {
        return status;
    }
    memcpy(&process, connection->share + AT_PROCESS, sizeof(process));
    memcpy(&file, connection->share + AT_FILE, sizeof(file));
    if (stream->shared_count < SHARED_MAX && is_local(connection) &&
        gy_rpc_rings_open(process, file, connection->share + AT_TOKEN, &rings) < 0) {
        gy_debug("%s: no shared memory: %s", connection->from, gy_error_text());
    }
    body[AT_ANSWER] = rings != NULL;
    status = say(connection, body);
    if (status < 0) {
        gy_rpc_rings_free(rings);
        return status;
    }
    connection->share_bytes = connection->head_bytes = 0;
    connection->was_asked = true;
    if (rings != NULL) {
        connection->rings = rings;
        add(connection);
    }
    return GY_OK;
}

/* ---- Bytes ---- */

static void ring(const stream_connection *connection)
{
    const char bell = 1;
    if (gy_rpc_rings_must_ring(connection->rings)) {
        /* a socket that is full of bells wakes as well; one that broke shows at the next look
         */
        (void)!send(gy_tcp_wire_socket(connection->wire), &bell, 1,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

/* Take the bells that were rung. */
static void silence(stream_connection *connection)
{
    char bells[64];
    ssize_t got = 0;
    do {
        got = recv(gy_tcp_wire_socket(connection->wire), bells, sizeof(bells), MSG_DONTWAIT);
    } while (got == (ssize_t)sizeof(bells));
    bool is_over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    connection->is_silent = connection->is_silent || is_over;
}

gy_status gy_rpc_share_read(stream_connection *connection, const struct iovec *pieces,
                            int count, size_t *got)
{
    if (connection->has_bells) {
        connection->has_bells = false;
        silence(connection); /* before the look: what was put before the end is read */
    }
    gy_status status = gy_rpc_rings_read(connection->rings, pieces, count, got);
    if (status == GY_OK && gy_rpc_rings_is_roomy(connection->rings)) {
        ring(connection);
    }
    if (status == GY_AGAIN && connection->is_silent) {
        return gy_fail(GY_PEER, "the other end closed the connection");
    }
    return status;
}

gy_status gy_rpc_share_write(stream_connection *connection, const struct iovec *pieces,
                             int count, size_t *put)
{
    gy_status status = gy_rpc_rings_write(connection->rings, pieces, count, put);
    if (status == GY_OK) {
        ring(connection);
    }
    return status;
}

/* ---- Sleeping ---- */

static bool has_output(const stream_connection *connection)
{
    const void *data = NULL;
    return connection->link != NULL && gy_rpc_link_output(connection->link, &data) > 0;
}

void gy_rpc_shares_look(gy_stream *stream)
{
    for (stream_connection *at = stream->shared; at != NULL; at = at->next_shared) {
        gy_rpc_rings_disarm(at->rings);
        if (!at->is_hot && gy_rpc_rings_has_work(at->rings, has_output(at))) {
            gy_rpc_connection_heat(at);
            stream->happened++;
        }
    }
}

bool gy_rpc_shares_arm(gy_stream *stream)
{
    bool may_sleep = true;
    for (stream_connection *at = stream->shared; at != NULL; at = at->next_shared) {
        may_sleep = gy_rpc_rings_arm(at->rings, has_output(at)) && may_sleep;
    }
    return may_sleep;
}

void gy_rpc_share_end(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    gy_rpc_rings_free(connection->asked_rings);
    connection->asked_rings = NULL;
    if (connection->rings == NULL) {
        return;
    }
    for (stream_connection **at = &stream->shared; *at != NULL; at = &(*at)->next_shared) {
        if (*at == connection) {
            *at = connection->next_shared;
            break;
        }
    }
    stream->shared_count--;
    gy_rpc_rings_free(connection->rings);
    connection->rings = NULL;
}
