/* One connection: resolve, connect, open, read, write. */
#include "rpc/stream/bulk_priv.h"

#include <stdio.h>
#include <string.h>

/* A name being resolved, on a thread of libuv. */
struct stream_lookup {
    uv_getaddrinfo_t request;
    stream_connection *connection; /* NULL: the connection was closed meanwhile */
};

static void list_in(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    connection->next = stream->connections;
    if (stream->connections != NULL) {
        stream->connections->previous = connection;
    }
    stream->connections = connection;
}

static void list_out(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    *(connection->previous != NULL ? &connection->previous->next : &stream->connections) =
        connection->next;
    if (connection->next != NULL) {
        connection->next->previous = connection->previous;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    stream_connection *connection = poll->data;
    (void)status; /* a failure shows at the next read */
    (void)events;
    connection->stream->happened++;
    connection->has_bells = true;
    gy_rpc_connection_go_on(connection);
}

static gy_status set_wire(stream_connection *connection, gy_tcp_wire *wire)
{
    gy_tcp_wire_spare(wire);
    int error =
        uv_poll_init(&connection->stream->loop, &connection->poll, gy_tcp_wire_socket(wire));
    if (error != 0) {
        gy_tcp_wire_close(wire);
        return gy_fail(GY_LIMIT, "cannot watch a connection: %s", uv_strerror(error));
    }
    connection->poll.data = connection;
    connection->has_poll = true;
    connection->wire = wire;
    return GY_OK;
}

static gy_status make(gy_stream *stream, bool is_caller, stream_connection **connection)
{
    stream_connection *made = gy_alloc_zero("rpc.connection", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->stream = stream;
    made->is_caller = is_caller;
    list_in(made);
    *connection = made;
    return GY_OK;
}

gy_status gy_rpc_connection_new(gy_stream *stream, gy_tcp_wire *wire, bool is_caller,
                                stream_connection **connection)
{
    stream_connection *made = NULL;
    if (make(stream, is_caller, &made) < 0) {
        gy_tcp_wire_close(wire);
        return GY_NOMEM;
    }
    gy_status status = set_wire(made, wire);
    if (status < 0) {
        list_out(made);
        gy_free(made);
        return status;
    }
    *connection = made;
    return GY_OK;
}

/* ---- Outgoing connections ---- */

static gy_status fail_plain(const char *address)
{
    return gy_fail(GY_ARG, "%s is not on the loopback: it needs a key", address);
}

static gy_status call(stream_connection *connection, const gy_address *address)
{
    gy_stream *stream = connection->stream;
    gy_tcp_wire *wire = NULL;
    if (stream->tls == NULL && !gy_address_is_loopback(address)) {
        return fail_plain(connection->from);
    }
    GY_TRY(gy_tcp_wire_call(address, stream->tls, &wire));
    GY_TRY(set_wire(connection, wire));
    gy_rpc_connection_watch(connection);
    return GY_OK;
}

static void on_lookup(uv_getaddrinfo_t *request, int error, struct addrinfo *found)
{
    stream_lookup *lookup = request->data;
    stream_connection *connection = lookup->connection;
    gy_address address = {.size_bytes = 0};
    gy_free(lookup);
    if (connection != NULL) {
        gy_status status = GY_OK;
        connection->stream->happened++;
        connection->lookup = NULL;
        if (error != 0 || found == NULL || found->ai_addrlen > sizeof(address.at)) {
            status = gy_fail(GY_NOTFOUND, "the host of %s is not known: %s", connection->from,
                             error != 0 ? uv_strerror(error) : "no address");
        } else {
            address.size_bytes = found->ai_addrlen;
            memcpy(&address.at, found->ai_addr, found->ai_addrlen);
            status = call(connection, &address);
        }
        if (status < 0) {
            gy_rpc_connection_fail(connection, status);
        }
    }
    uv_freeaddrinfo(found);
}

static gy_status look_up(stream_connection *connection, const char *host, const char *port)
{
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    stream_lookup *lookup = gy_alloc_zero("rpc.lookup", 1, sizeof(*lookup));
    if (lookup == NULL) {
        return GY_NOMEM;
    }
    lookup->request.data = lookup;
    lookup->connection = connection;
    int error = uv_getaddrinfo(&connection->stream->loop, &lookup->request, on_lookup, host,
                               port, &wanted);
    if (error != 0) {
        gy_free(lookup);
        return gy_fail(GY_IO, "cannot look up %s: %s", host, uv_strerror(error));
    }
    connection->lookup = lookup;
    return GY_OK;
}

static bool is_number(const char *host)
{
    struct sockaddr_in6 at;
    return uv_inet_pton(AF_INET, host, &at) == 0 || uv_inet_pton(AF_INET6, host, &at) == 0;
}

gy_status gy_rpc_check_address(const char *address, uint16_t port_min)
{
    char host[256], port[8];
    return gy_address_split(address, port_min, host, port);
}

gy_status gy_rpc_check_plaintext(const char *address)
{
    char host[256], port[8];
    gy_address found;
    GY_TRY(gy_address_split(address, 1, host, port));
    if (!is_number(host)) {
        return GY_OK;
    }
    GY_TRY(gy_address_find(address, &found));
    return gy_address_is_loopback(&found) ? GY_OK : fail_plain(address);
}

static gy_status call_text(stream_connection *connection, const char *text)
{
    char host[256], port[8];
    gy_address address;
    GY_TRY(gy_address_split(text, 1, host, port));
    snprintf(connection->from, sizeof(connection->from), "%.63s", text);
    if (!is_number(host)) {
        return look_up(connection, host, port);
    }
    GY_TRY(gy_address_find(text, &address));
    return call(connection, &address);
}

gy_status gy_rpc_connection_dial(void *carrier, gy_rpc_link *link, const char *address)
{
    gy_stream *stream = carrier;
    stream_connection *made = NULL;
    gy_stream_look_at_ring(stream);
    GY_TRY(make(stream, true, &made));
    gy_status status = call_text(made, address);
    if (status < 0) {
        gy_rpc_connection_close(made);
        return status;
    }
    made->link = link;
    gy_rpc_link_set_tag(link, made);
    return GY_OK;
}

gy_status gy_rpc_connection_fetch(gy_stream *stream, stream_bulk *bulk, const char *address)
{
    stream_connection *made = NULL;
    gy_stream_look_at_ring(stream);
    GY_TRY(make(stream, true, &made));
    gy_status status = call_text(made, address);
    if (status < 0) {
        gy_rpc_connection_close(made);
        return status;
    }
    made->bulk = bulk;
    bulk->connection = made;
    return GY_OK;
}

void gy_rpc_connection_heat(stream_connection *connection)
{
    stream_connection **last = &connection->stream->hot;
    if (connection->is_hot) {
        return;
    }
    while (*last != NULL) {
        last = &(*last)->next_hot;
    }
    *last = connection;
    connection->next_hot = NULL;
    connection->is_hot = true;
}

/* ---- The wire, or shared memory ---- */

static gy_status read_bytes(stream_connection *connection, const struct iovec *pieces,
                            int count, size_t *got)
{
    if (connection->rings != NULL) {
        return gy_rpc_share_read(connection, pieces, count, got);
    }
    return gy_tcp_wire_read(connection->wire, pieces, count, got);
}

static gy_status write_bytes(stream_connection *connection, const struct iovec *pieces,
                             int count, size_t *put)
{
    if (connection->rings != NULL) {
        return gy_rpc_share_write(connection, pieces, count, put);
    }
    return gy_tcp_wire_write(connection->wire, pieces, count, put);
}

static gy_status flush_bytes(stream_connection *connection)
{
    return connection->rings != NULL ? GY_OK : gy_tcp_wire_flush(connection->wire);
}

/* ---- Close ---- */

static void on_closed(uv_handle_t *handle)
{
    gy_free(handle->data);
}

void gy_rpc_connection_close(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    if (connection->is_closed) {
        return;
    }
    connection->is_closed = true;
    connection->link = NULL;
    gy_rpc_stranger_remove(connection);
    for (stream_connection **at = &stream->pushed; *at != NULL; at = &(*at)->next_pushed) {
        if (*at == connection) {
            *at = connection->next_pushed;
            break;
        }
    }
    for (stream_connection **at = &stream->hot; *at != NULL; at = &(*at)->next_hot) {
        if (*at == connection) {
            *at = connection->next_hot;
            break;
        }
    }
    list_out(connection);
    if (connection->lookup != NULL) {
        connection->lookup->connection = NULL;
        /* otherwise it ends by itself */
        (void)uv_cancel((uv_req_t *)&connection->lookup->request);
    }
    if (!connection->has_poll) {
        gy_free(connection);
        return;
    }
    (void)uv_poll_stop(&connection->poll); /* always returns 0 */
    gy_rpc_share_end(connection);
    gy_tcp_wire_close(connection->wire);
    connection->wire = NULL;
    uv_close((uv_handle_t *)&connection->poll, on_closed);
}

void gy_rpc_connection_fail(stream_connection *connection, gy_status status)
{
    gy_stream *stream = connection->stream;
    gy_rpc_link *link = connection->link;
    stream_bulk *bulk = connection->bulk;
    gy_error why;
    gy_error_take(&why, status);
    bool is_wrong = bulk != NULL && status == GY_FORMAT;
    if (!connection->is_caller && (connection->is_stranger || is_wrong)) {
        gy_rpc_complain(stream->rpc, connection->from, "was sent away", why.text);
    }
    if (bulk != NULL && strstr(why.text, connection->from) == NULL) {
        gy_error_take(&why, gy_fail(status, "%s: %s", connection->from, why.text));
    }
    gy_rpc_connection_close(connection);
    (void)gy_error_raise(&why);
    if (link != NULL) {
        gy_rpc_link_lost(stream->rpc, link, status);
    } else if (bulk != NULL) {
        gy_rpc_bulk_lost(bulk, status);
    }
}

void gy_rpc_connection_close_link(void *carrier, gy_rpc_link *link)
{
    stream_connection *connection = gy_rpc_link_tag(link);
    const void *data = NULL;
    size_t put = 0, size = gy_rpc_link_output(link, &data);
    (void)carrier;
    /* send what is queued if there is room, as the connection closes */
    if (connection->is_open && size > 0) {
        struct iovec piece = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
        if (write_bytes(connection, &piece, 1, &put) == GY_OK) {
            (void)flush_bytes(connection);
        }
    }
    gy_rpc_connection_close(connection);
}

/* ---- Bytes ---- */

void gy_rpc_connection_push(void *carrier, gy_rpc_link *link)
{
    gy_stream *stream = carrier;
    stream_connection *connection = gy_rpc_link_tag(link);
    if (!connection->is_pushed) {
        connection->is_pushed = true;
        connection->next_pushed = stream->pushed;
        stream->pushed = connection;
    }
}

void gy_rpc_connection_watch(stream_connection *connection)
{
    const void *data = NULL;
    bool has_output = connection->link != NULL && connection->is_open &&
                      gy_rpc_link_output(connection->link, &data) > 0;
    int events = UV_READABLE;
    if (connection->bulk != NULL && connection->is_open) {
        has_output = gy_rpc_bulk_wants_room(connection);
        events = gy_rpc_bulk_wants_input(connection) ? UV_READABLE : 0;
    }
    bool wants_room = has_output || gy_tcp_wire_wants_room(connection->wire);
    if (wants_room && connection->rings == NULL) { /* room in a ring is told by the bell */
        events |= UV_WRITABLE;
    }
    if (events == 0) {
        (void)uv_poll_stop(&connection->poll);
        connection->events = 0;
    } else if (events != connection->events) {
        connection->events = events;
        (void)uv_poll_start(&connection->poll, events,
                            on_poll); /* the socket was polled before, so this cannot fail */
    }
}

/* Many bytes beside a message: under TLS the wire gets buffers for several records at a time,
 * in place of one that is allocated for each. */
static gy_status widen(stream_connection *connection, size_t size_bytes)
{
    if (connection->stream->tls == NULL || connection->rings != NULL || connection->is_wide ||
        size_bytes < WIDE_BYTES) {
        return GY_OK;
    }
    connection->is_wide = true;
    return gy_tcp_wire_widen(connection->wire);
}

static gy_status write_out(stream_connection *connection)
{
    struct iovec pieces[GY_RPC_PIECES];
    size_t put = 0;
    int count = 0;
    gy_status status = GY_OK;
    while (status == GY_OK && !connection->is_closed &&
           (count = gy_rpc_link_outputs(connection->link, pieces)) > 0) {
        GY_TRY(widen(connection, count > 1 ? pieces[1].iov_len : pieces[0].iov_len));
        bool is_tls = connection->stream->tls != NULL && connection->rings == NULL;
        if (is_tls && !connection->is_wide) {
            count = 1; /* pieces are records of their own */
        }
        status = write_bytes(connection, pieces, count, &put);
        if (put > 0) {
            gy_rpc_link_sent(connection->stream->rpc, connection->link, put);
        }
    }
    if (status >= 0 && !connection->is_closed) {
        status = flush_bytes(connection);
    }
    return status;
}

/* Read until there is no more: data that TLS has buffered do not make the socket readable. */
static gy_status read_in(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    for (int round = 0; round < STREAM_ROUNDS; round++) {
        struct iovec pieces[2] = {{.iov_len = 0},
                                  {.iov_base = stream->buffer, .iov_len = STREAM_BUFFER_BYTES}};
        size_t got = 0;
        size_t room = gy_rpc_link_room(connection->link, &pieces[0].iov_base);
        size_t asked = room + STREAM_BUFFER_BYTES;
        pieces[0].iov_len = room;
        GY_TRY(widen(connection, room));
        gy_status status =
            read_bytes(connection, room > 0 ? pieces : &pieces[1], room > 0 ? 2 : 1, &got);
        if (status != GY_OK) {
            return status;
        }
        room = GY_MIN(room, got);
        if (room > 0) {
            gy_rpc_link_filled(stream->rpc, connection->link, room);
        }
        if (!connection->is_closed && got > room) {
            gy_rpc_link_input(stream->rpc, connection->link, stream->buffer, got - room);
        }
        if (connection->is_closed) {
            return GY_OK;
        }
        if (connection->is_stranger && gy_rpc_link_is_ready(connection->link)) {
            gy_rpc_stranger_remove(connection);
        }
        if (stream->tls == NULL && connection->rings == NULL && got < asked) {
            return GY_OK; /* the socket had no more: spare the call that says so */
        }
    }
    gy_rpc_connection_heat(connection); /* let other connections read first */
    return GY_OK;
}

/* The connection is open: determine what the other end authenticated. */
static gy_status go_up(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    gy_keyring_who who = {.role = GY_RPC_ROLES};
    uint8_t key[GY_KEYRING_KEY_BYTES];
    connection->is_open = true;
    connection->role = GY_RPC_ROLES;
    if (connection->bulk != NULL) {
        return gy_rpc_bulk_greet(connection);
    }
    if (connection->is_caller) {
        if (stream->shares_memory && gy_rpc_share_ask(connection)) {
            return GY_OK; /* the link is up once that is answered */
        }
        gy_rpc_link_up(stream->rpc, connection->link, GY_RPC_ROLES, "");
        return GY_OK;
    }
    bool is_known =
        stream->ring == NULL ||
        gy_keyring_find(stream->ring, gy_tcp_wire_key_name(connection->wire), &who, key);
    explicit_bzero(key, sizeof(key));
    connection->role = who.role;
    memcpy(connection->subject, who.subject, sizeof(connection->subject));
    return is_known ? GY_OK : gy_fail(GY_STATE, "its key was retired");
}

/* The header of the first frame identifies a link or a bulk transfer. GY_AGAIN: not arrived
 * yet. */
static gy_status identify(stream_connection *connection)
{
    gy_stream *stream = connection->stream;
    while (connection->head_bytes < GY_FRAME_BYTES) {
        struct iovec piece = {.iov_base = connection->head + connection->head_bytes,
                              .iov_len = GY_FRAME_BYTES - connection->head_bytes};
        size_t got = 0;
        gy_status status = read_bytes(connection, &piece, 1, &got);
        if (status != GY_OK) {
            return status;
        }
        connection->head_bytes += got;
    }
    gy_transport_frame frame;
    if (!connection->was_asked && gy_rpc_share_is_asked(connection)) {
        GY_TRY(gy_rpc_share_answer(connection));
        return connection->share_bytes == 0 ? identify(connection) : GY_AGAIN;
    }
    if (gy_transport_frame_read(connection->head, 0, BULK_WORD_BYTES, &frame) == GY_OK &&
        frame.type == GY_FRAME_MESSAGE && frame.tag == KIND_FETCH) {
        return gy_rpc_bulk_accept(connection);
    }
    GY_TRY(gy_rpc_link_in(stream->rpc, connection->from, &connection->link));
    gy_rpc_link_set_tag(connection->link, connection);
    gy_rpc_link_up(stream->rpc, connection->link, connection->role, connection->subject);
    gy_rpc_link_input(stream->rpc, connection->link, connection->head, GY_FRAME_BYTES);
    return GY_OK;
}

static void go_on(stream_connection *connection, gy_status status)
{
    if (connection->is_closed) {
        return;
    }
    if (status < 0) {
        gy_rpc_connection_fail(connection, status);
    } else {
        gy_rpc_connection_watch(connection);
    }
}

void gy_rpc_connection_write(stream_connection *connection)
{
    if (connection->is_open && connection->link != NULL && !connection->is_sharing) {
        go_on(connection, write_out(connection));
    }
}

void gy_rpc_connection_go_on(stream_connection *connection)
{
    gy_status status = GY_OK;
    if (connection->is_closed || connection->is_hot) {
        return; /* a connection with buffered data is called again anyway */
    }
    if (!connection->is_open) {
        gy_stream_choose_key(connection->stream, connection->from);
        status = gy_tcp_wire_open(connection->wire);
        if (status == GY_STATE && connection->is_caller) {
            gy_stream_was_refused(connection->stream, connection->from);
        }
        if (status == GY_OK) {
            status = go_up(connection);
        }
    }
    if (connection->is_open && status == GY_OK && connection->is_sharing) {
        status = gy_rpc_share_hear(connection);
    }
    bool is_known = connection->link != NULL || connection->bulk != NULL;
    if (connection->is_open && status == GY_OK && !connection->is_closed && !is_known) {
        status = identify(connection);
    }
    if (connection->is_open && status == GY_OK && connection->bulk != NULL) {
        status = gy_rpc_bulk_step(connection);
        if (status == GY_AGAIN) {
            gy_rpc_connection_heat(connection);
        }
    }
    bool has_link = connection->link != NULL && !connection->is_sharing;
    if (connection->is_open && status >= 0 && has_link) {
        status = read_in(connection);
    }
    if (connection->is_open && status >= 0 && has_link && connection->link != NULL) {
        status = write_out(connection);
    }
    go_on(connection, status);
}
