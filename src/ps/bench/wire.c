/* The blocking wire that figures are compared with: a socket, or TLS over one. */
#include "ps/bench/bench_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool set_blocking(int socket)
{
    int flags = fcntl(socket, F_GETFL);
    return flags >= 0 && fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

static gy_status failed(const char *what)
{
    return gy_fail(GY_IO, "a wire to compare with: %s: %s", what, strerror(errno));
}

/* TLS as rpc has it, on a socket that blocks once the handshake is done. */
static gy_status open_tls(ps_bench_wire *wire, gy_tls *tls, bool is_caller)
{
    int flags = fcntl(wire->socket, F_GETFL);
    if (flags < 0 || fcntl(wire->socket, F_SETFL, flags | O_NONBLOCK) != 0) {
        return failed("no flags");
    }
    GY_TRY(gy_tcp_wire_new(wire->socket, tls, is_caller, &wire->tls));
    for (;;) {
        gy_status status = gy_tcp_wire_open(wire->tls);
        if (status != GY_AGAIN) {
            GY_TRY(status);
            break;
        }
        bool wants_room = gy_tcp_wire_wants_room(wire->tls);
        struct pollfd file = {.fd = wire->socket, .events = wants_room ? POLLOUT : POLLIN};
        (void)poll(&file, 1, 1000);
    }
    return set_blocking(wire->socket) ? GY_OK : failed("no flags");
}

gy_status gy_ps_bench_listen(int *listener, uint16_t *port)
{
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(own);
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&own, size) != 0 ||
        listen(*listener, 1) != 0 ||
        getsockname(*listener, (struct sockaddr *)&own, &size) != 0) {
        return failed("it cannot listen");
    }
    *port = own.sin_port;
    return GY_OK;
}

static gy_status take(int socket, gy_tls *tls, bool is_caller, ps_bench_wire *wire)
{
    const int yes = 1;
    *wire = (ps_bench_wire){.socket = socket};
    if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0) {
        return failed("no option");
    }
    return tls != NULL ? open_tls(wire, tls, is_caller) : GY_OK;
}

gy_status gy_ps_bench_accept(int listener, gy_tls *tls, ps_bench_wire *wire)
{
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    return peer >= 0 ? take(peer, tls, false, wire) : failed("nobody came");
}

gy_status gy_ps_bench_connect(uint16_t port, gy_tls *tls, ps_bench_wire *wire)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = port,
                                   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || connect(made, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        return failed("it cannot connect");
    }
    return take(made, tls, true, wire);
}

void gy_ps_bench_close(ps_bench_wire *wire)
{
    if (wire->tls != NULL) {
        gy_tcp_wire_close(wire->tls);
    } else if (wire->socket >= 0) {
        close(wire->socket);
    }
    *wire = (ps_bench_wire){.socket = -1};
}

bool gy_ps_bench_read(const ps_bench_wire *wire, void *data, size_t size_bytes)
{
    uint8_t *at = data;
    while (size_bytes > 0) {
        size_t got = 0;
        if (wire->tls != NULL) {
            const struct iovec piece = {.iov_base = at, .iov_len = size_bytes};
            if (gy_tcp_wire_read(wire->tls, &piece, 1, &got) < 0) {
                return false;
            }
        } else {
            ssize_t size = recv(wire->socket, at, size_bytes, 0);
            got = size > 0 ? (size_t)size : 0;
            if (got == 0) {
                return false;
            }
        }
        at += got;
        size_bytes -= got;
    }
    return true;
}

bool gy_ps_bench_write(const ps_bench_wire *wire, const void *data, size_t size_bytes)
{
    const uint8_t *at = data;
    while (size_bytes > 0) {
        size_t put = 0;
        if (wire->tls != NULL) {
            const struct iovec piece = {.iov_base = (void *)(uintptr_t)at,
                                        .iov_len = size_bytes};
            if (gy_tcp_wire_write(wire->tls, &piece, 1, &put) < 0 ||
                gy_tcp_wire_flush(wire->tls) < 0) {
                return false;
            }
        } else {
            ssize_t size = send(wire->socket, at, size_bytes, MSG_NOSIGNAL);
            put = size > 0 ? (size_t)size : 0;
            if (put == 0) {
                return false;
            }
        }
        at += put;
        size_bytes -= put;
    }
    return true;
}
