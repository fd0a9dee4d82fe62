#include "transport/net.h"

#include "transport/tcp/tls_priv.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    RECORD_BYTES = 16384,
    RECORD_MORE_BYTES = 256, /* upper bound for a record's header, tag and padding */
    WAITING_BYTES = 4 * (RECORD_BYTES + RECORD_MORE_BYTES),
    SPARE_BYTES = RECORD_BYTES + RECORD_MORE_BYTES,
    HANDSHAKE_BYTES = 8 * 1024, /* the smaller buffer before authentication */
    PIECES_MAX = 64,
    SHORT_BYTES = 512,
};

struct gy_tcp_wire {
    int socket;
    bool is_caller, is_connected, is_open, is_broken, is_spare;
    gy_tls *tls;
    SSL *ssl;
    gy_tcp_wire_count counts;
    /* Under TLS: records that the socket did not take yet, and the data of the next record. */
    size_t waiting_room, waiting_bytes, sent_bytes;
    /* of a spare wire: NULL while nothing waits; record is always NULL */
    uint8_t *waiting, *record;
};

/* Inside a host nothing is lost or congested, and pacing (BBR's, where it is the system's
 * default) costs a fifth of a long message's throughput. Reno, which every system has and
 * permits, costs least. Connections between hosts keep the system's choice. */
static void relieve_loopback(int socket)
{
    static const char plain[] = "reno";
    gy_address mine = {.size_bytes = sizeof(mine.at)};
    if (getsockname(socket, &mine.at.any, &mine.size_bytes) == 0 &&
        gy_address_is_loopback(&mine) &&
        setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof(plain) - 1) != 0) {
        gy_debug("no %s on the loopback: %s", plain, strerror(errno));
    }
}

/* Send small messages at once; detect a vanished host within about ten seconds. */
static void set_options(int socket)
{
    GY_ASSERT(socket >= 0);
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},  {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 5}, {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_KEEPCNT, 5},  {IPPROTO_TCP, TCP_USER_TIMEOUT, 10000},
    };
    for (size_t i = 0; i < GY_COUNT(options); i++) {
        if (setsockopt(socket, options[i].level, options[i].name, &options[i].value,
                       sizeof(options[i].value)) != 0) {
            gy_debug("option %d of a connection: %s", options[i].name, strerror(errno));
        }
    }
    relieve_loopback(socket);
}

gy_status gy_tcp_wire_new(int socket, gy_tls *tls, bool is_caller, gy_tcp_wire **wire)
{
    GY_ASSERT(socket >= 0);
    gy_tcp_wire *made = gy_alloc_zero("transport.wire", 1, sizeof(*made));
    gy_status status = made != NULL ? GY_OK : GY_NOMEM;
    if (status == GY_OK && tls != NULL) {
        made->waiting = gy_alloc("transport.wire", HANDSHAKE_BYTES);
        made->waiting_room = HANDSHAKE_BYTES;
        status =
            made->waiting == NULL ? GY_NOMEM : gy_tls_open(tls, made, is_caller, &made->ssl);
    }
    if (status < 0) {
        close(socket);
        if (made != NULL) {
            gy_free(made->waiting);
            gy_free(made);
        }
        return status;
    }
    set_options(socket);
    made->socket = socket;
    made->tls = tls;
    made->is_caller = is_caller;
    made->is_connected = !is_caller;
    *wire = made;
    return GY_OK;
}

void gy_tcp_wire_spare(gy_tcp_wire *wire)
{
    GY_ASSERT(!wire->is_open);
    wire->is_spare = true;
}

const char *gy_tcp_wire_key_name(const gy_tcp_wire *wire)
{
    return wire->ssl != NULL ? gy_tls_key_name(wire->ssl) : "";
}

gy_status gy_tcp_wire_call(const gy_address *address, gy_tls *tls, gy_tcp_wire **wire)
{
    GY_ASSERT(address->size_bytes > 0);
    GY_ASSERT(address->size_bytes <= sizeof(address->at));
    char text[GY_ADDRESS_TEXT_BYTES];
    int made = socket(address->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) {
        return gy_fail(GY_IO, "cannot make a socket: %s", strerror(errno));
    }
    if (connect(made, &address->at.any, address->size_bytes) != 0 && errno != EINPROGRESS) {
        gy_status status = gy_fail(GY_PEER, "cannot connect to %s: %s",
                                   gy_address_text(address, text), strerror(errno));
        close(made);
        return status;
    }
    return gy_tcp_wire_new(made, tls, true, wire);
}

static gy_status connect_on(gy_tcp_wire *wire)
{
    GY_ASSERT(wire->is_caller);
    GY_ASSERT(!wire->is_connected);
    struct pollfd look = {.fd = wire->socket, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);
    if (poll(&look, 1, 0) == 0) {
        return GY_AGAIN;
    }
    if (getsockopt(wire->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        return gy_fail(GY_PEER, "no answer: %s", strerror(error != 0 ? error : errno));
    }
    wire->is_connected = true;
    return GY_OK;
}

int gy_tls_receive(void *arg, void *to, int size_bytes)
{
    GY_ASSERT(to != NULL);
    GY_ASSERT(size_bytes >= 0);
    gy_tcp_wire *wire = arg;
    size_t most = (size_t)size_bytes;
    if (!wire->is_open) {
        uint64_t left = GY_STRANGER_BYTES -
                        GY_MIN(wire->counts.received_bytes, (uint64_t)GY_STRANGER_BYTES);
        most = GY_MIN(most, (size_t)left);
        if (most == 0) {
            return -2;
        }
    }
    ssize_t got = recv(wire->socket, to, most, 0);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? -1 : -2;
    }
    wire->counts.received_bytes += (uint64_t)got;
    return (int)got;
}

int gy_tls_send(void *arg, const void *from, int size_bytes)
{
    GY_ASSERT(from != NULL);
    GY_ASSERT(size_bytes >= 0);
    gy_tcp_wire *wire = arg;
    if ((size_t)size_bytes > wire->waiting_room - wire->waiting_bytes) {
        return -1;
    }
    memcpy(wire->waiting + wire->waiting_bytes, from, (size_t)size_bytes);
    wire->waiting_bytes += (size_t)size_bytes;
    return size_bytes;
}

static gy_status broken(gy_tcp_wire *wire)
{
    int error = errno;
    wire->is_broken = true;
    const bool is_own = error == EBADF || error == ENOTSOCK;
    return gy_fail(GY_PEER, "the connection broke: %s%s",
                   is_own ? "this rank closed or replaced its descriptor: " : "",
                   strerror(error));
}

gy_status gy_tcp_wire_flush(gy_tcp_wire *wire)
{
    GY_ASSERT(wire->sent_bytes <= wire->waiting_bytes);
    GY_ASSERT(wire->waiting_bytes <= wire->waiting_room);
    while (wire->sent_bytes < wire->waiting_bytes) {
        ssize_t put = send(wire->socket, wire->waiting + wire->sent_bytes,
                           wire->waiting_bytes - wire->sent_bytes, MSG_NOSIGNAL);
        if (put < 0 && (errno == EAGAIN || errno == EINTR)) {
            return GY_AGAIN;
        }
        if (put < 0) {
            return broken(wire);
        }
        wire->sent_bytes += (size_t)put;
        wire->counts.sent_bytes += (uint64_t)put;
    }
    wire->sent_bytes = wire->waiting_bytes = 0;
    if (wire->is_spare && wire->is_open) {
        gy_free(wire->waiting);
        wire->waiting = NULL;
        wire->waiting_room = 0;
    }
    return GY_OK;
}

/* Allocate a spare wire's buffer when there is a record to send. */
static gy_status get_room(gy_tcp_wire *wire)
{
    GY_ASSERT(wire->waiting != NULL || wire->waiting_room == 0);
    if (wire->is_spare && wire->waiting_room < SPARE_BYTES) {
        uint8_t *waiting = gy_resize("transport.wire", wire->waiting, SPARE_BYTES);
        if (waiting == NULL) {
            return GY_NOMEM;
        }
        wire->waiting = waiting;
        wire->waiting_room = SPARE_BYTES;
    }
    return GY_OK;
}

/* The other end is authenticated: allocate full buffers. */
static gy_status get_buffers(gy_tcp_wire *wire)
{
    GY_ASSERT(wire->ssl != NULL);
    gy_tls_read_ahead(wire->ssl, !wire->is_spare);
    if (wire->is_spare) {
        return get_room(wire);
    }
    uint8_t *waiting = gy_resize("transport.wire", wire->waiting, WAITING_BYTES);
    wire->record = gy_alloc("transport.wire", RECORD_BYTES);
    if (waiting != NULL) {
        wire->waiting = waiting;
        wire->waiting_room = WAITING_BYTES;
    }
    return waiting != NULL && wire->record != NULL ? GY_OK : GY_NOMEM;
}

gy_status gy_tcp_wire_widen(gy_tcp_wire *wire)
{
    GY_ASSERT(wire->is_open);
    wire->is_spare = false;
    return wire->ssl != NULL ? get_buffers(wire) : GY_OK;
}

static gy_status shake_hands(gy_tcp_wire *wire)
{
    GY_ASSERT(wire->is_connected);
    GY_ASSERT(!wire->is_open);
    ERR_clear_error();
    int done = SSL_do_handshake(wire->ssl);
    int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(wire->ssl, done);
    if (done == 1 || error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        GY_TRY(gy_tcp_wire_flush(wire));
        if (done == 1 && !gy_tls_is_proved(wire->ssl)) {
            return gy_fail(GY_STATE, "the other end did not prove the cluster key");
        }
        return done == 1 ? get_buffers(wire) : GY_AGAIN;
    }
    if (wire->counts.received_bytes >= GY_STRANGER_BYTES) {
        return gy_fail(GY_STATE, "the other end sent %d bytes without proving the cluster key",
                       GY_STRANGER_BYTES);
    }
    gy_status status = gy_tls_explain(wire->tls, wire->ssl, wire->is_caller);
    gy_error error_kept;
    gy_error_take(&error_kept, status);
    (void)gy_tcp_wire_flush(wire); /* sends the alert that informs the other end */
    return gy_error_raise(&error_kept);
}

gy_status gy_tcp_wire_open(gy_tcp_wire *wire)
{
    GY_ASSERT(wire != NULL);
    gy_status status = wire->is_connected ? GY_OK : connect_on(wire);
    if (status == GY_OK && wire->ssl != NULL && !wire->is_open) {
        status = shake_hands(wire);
    }
    wire->is_open = status == GY_OK;
    return status;
}

static gy_status ended(gy_tcp_wire *wire)
{
    GY_ASSERT(wire != NULL);
    wire->is_broken = true;
    return gy_fail(GY_PEER, "the other end closed the connection");
}

static gy_status read_record(gy_tcp_wire *wire, const struct iovec *pieces, int count,
                             size_t *got)
{
    GY_ASSERT(wire->ssl != NULL);
    for (int i = 0; i < count; i++) {
        size_t at = 0;
        while (at < pieces[i].iov_len) {
            size_t size = 0;
            ERR_clear_error();
            int good = SSL_read_ex(wire->ssl, (uint8_t *)pieces[i].iov_base + at,
                                   pieces[i].iov_len - at, &size);
            if (good != 1) {
                int error = SSL_get_error(wire->ssl, good);
                if (*got > 0) {
                    return GY_OK;
                }
                if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
                    return GY_AGAIN;
                }
                return ended(wire);
            }
            at += size;
            *got += size;
        }
    }
    return *got > 0 ? GY_OK : GY_AGAIN;
}

gy_status gy_tcp_wire_read(gy_tcp_wire *wire, const struct iovec *pieces, int count,
                           size_t *got)
{
    GY_ASSERT(count > 0);
    GY_ASSERT(count <= PIECES_MAX);
    *got = 0;
    if (wire->ssl != NULL) {
        return read_record(wire, pieces, count, got);
    }
    ssize_t size = count == 1
                       ? recv(wire->socket, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT)
                       : readv(wire->socket, pieces, count);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR ? GY_AGAIN : broken(wire);
    }
    if (size == 0) {
        return ended(wire);
    }
    wire->counts.received_bytes += (uint64_t)size;
    *got = (size_t)size;
    return GY_OK;
}

/* The next record of the chunks, starting `at` bytes into them: where it lies if it lies in one
 * of them, else gathered. */
static const uint8_t *gather(gy_tcp_wire *wire, const struct iovec *pieces, int count,
                             size_t at, size_t *size_bytes)
{
    GY_ASSERT(wire->record != NULL);
    size_t filled = 0;
    for (int i = 0; i < count && filled < RECORD_BYTES; i++) {
        if (at >= pieces[i].iov_len) {
            at -= pieces[i].iov_len;
            continue;
        }
        const uint8_t *from = (const uint8_t *)pieces[i].iov_base + at;
        size_t size = GY_MIN(pieces[i].iov_len - at, RECORD_BYTES - filled);
        if (size == RECORD_BYTES) {
            *size_bytes = size;
            return from;
        }
        memcpy(wire->record + filled, from, size);
        filled += size;
        at = 0;
    }
    GY_ASSERT(filled <= RECORD_BYTES);
    *size_bytes = filled;
    return wire->record;
}

static gy_status write_records(gy_tcp_wire *wire, const struct iovec *pieces, int count,
                               size_t *put)
{
    GY_ASSERT(wire->ssl != NULL);
    GY_ASSERT(*put == 0);
    GY_ASSERT(!wire->is_spare || count == 1);
    for (;;) {
        gy_status status = gy_tcp_wire_flush(wire);
        GY_TRY(status);
        GY_TRY(get_room(wire));
        bool has_sealed = false;
        while (wire->waiting_room - wire->waiting_bytes >= RECORD_BYTES + RECORD_MORE_BYTES) {
            size_t size = wire->is_spare ? GY_MIN(pieces[0].iov_len - *put, RECORD_BYTES) : 0;
            const uint8_t *record = wire->is_spare ? (const uint8_t *)pieces[0].iov_base + *put
                                                   : gather(wire, pieces, count, *put, &size);
            size_t done = 0;
            if (size == 0) {
                break;
            }
            ERR_clear_error();
            if (SSL_write_ex(wire->ssl, record, size, &done) != 1 || done != size) {
                return ended(wire);
            }
            *put += size;
            has_sealed = true;
        }
        if (!has_sealed) {
            return *put > 0 ? GY_OK : GY_AGAIN;
        }
    }
}

/* Copy short chunks together: send takes less time than sendmsg. */
static ssize_t send_pieces(int socket, const struct iovec *pieces, int count)
{
    GY_ASSERT(count > 0);
    GY_ASSERT(count <= PIECES_MAX);
    uint8_t together[SHORT_BYTES];
    size_t size = 0;
    for (int i = 0; i < count && size <= SHORT_BYTES; i++) {
        if (pieces[i].iov_len > 0 && pieces[i].iov_len <= SHORT_BYTES - size) {
            memcpy(together + size, pieces[i].iov_base, pieces[i].iov_len);
        }
        size += pieces[i].iov_len;
    }
    if (size <= SHORT_BYTES) {
        return send(socket, together, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    /* The message's fields are not const, though sending only reads them. */
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = (size_t)count};
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void gy_tcp_wire_write_plain(const gy_tcp_wire *wire, const struct iovec *pieces, int count)
{
    GY_ASSERT(count > 0);
    if (wire->counts.sent_bytes == 0) {
        (void)!send_pieces(wire->socket, pieces, count); /* on failure nobody is there */
    }
}

gy_status gy_tcp_wire_write(gy_tcp_wire *wire, const struct iovec *pieces, int count,
                            size_t *put)
{
    *put = 0;
    GY_ASSERT(count <= PIECES_MAX);
    if (wire->ssl != NULL) {
        return write_records(wire, pieces, count, put);
    }
    ssize_t size = send_pieces(wire->socket, pieces, count);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR ? GY_AGAIN : broken(wire);
    }
    wire->counts.sent_bytes += (uint64_t)size;
    *put = (size_t)size;
    return GY_OK;
}

int gy_tcp_wire_socket(const gy_tcp_wire *wire)
{
    GY_ASSERT(wire != NULL);
    return wire->socket;
}

bool gy_tcp_wire_wants_room(const gy_tcp_wire *wire)
{
    GY_ASSERT(wire->sent_bytes <= wire->waiting_bytes);
    return !wire->is_connected || wire->sent_bytes < wire->waiting_bytes;
}

gy_tcp_wire_count gy_tcp_wire_counts(const gy_tcp_wire *wire)
{
    return wire->counts;
}

void gy_tcp_wire_close(gy_tcp_wire *wire)
{
    if (wire == NULL) {
        return;
    }
    gy_tls_close(wire->ssl);
    if (!wire->is_broken) {
        /* Drain unread bytes, since otherwise the close would reset the connection and lose
         * what was written last. */
        char unread[4096];
        (void)shutdown(wire->socket, SHUT_WR);
        for (size_t i = 0; i < GY_STRANGER_BYTES / sizeof(unread); i++) {
            if (recv(wire->socket, unread, sizeof(unread), MSG_DONTWAIT) <= 0) {
                break;
            }
        }
    }
    close(wire->socket);
    gy_free(wire->waiting);
    gy_free(wire->record);
    gy_free(wire);
}
