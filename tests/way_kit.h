/**
 * A way through to a port of loopback, on a thread of its own, that can keep back what goes
 * through it: whatever is spoken there, TLS too.
 */
#ifndef GY_WAY_KIT_H
#define GY_WAY_KIT_H

#include "base/base.h"

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gy_test.h"

enum { KIT_WAY_LINKS = 8, KIT_WAY_BYTES = 64 << 10 };

typedef enum kit_way_mode {
    KIT_WAY_OPEN,
    KIT_WAY_MUTE, /* what the server says is dropped */
    /* What the client says is kept until the way is open, if it has gone too; but not that it
     * goes (in TLS some bytes), by which a server would drop what it was asked. */
    KIT_WAY_HOLD,
    KIT_WAY_SLOW, /* what the server says is KIT_WAY_SLOW_NS behind what the client said */
} kit_way_mode;

static const int64_t KIT_WAY_SLOW_NS = 350000000;

typedef struct kit_way_link {
    int client, server; /* -1: none; the client's: it has gone */
    char held[KIT_WAY_BYTES];
    size_t held_bytes;
    int64_t held_ns; /* since when */
    int64_t said_ns; /* the client said something last */
} kit_way_link;

typedef struct kit_way {
    gy_thread thread;
    int listener, port, to;
    kit_way_mode mode;   /* atomic */
    bool is_over;        /* atomic */
    uint64_t late_bytes; /* atomic: what the server said on links whose client has gone */
    kit_way_link links[KIT_WAY_LINKS];
} kit_way;

static inline int kit_way_socket(int port, bool is_listener, int *chosen)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof(at);
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (is_listener) {
        GY_ASSERT(bind(made, (struct sockaddr *)&at, size) == 0 && listen(made, 8) == 0);
        GY_ASSERT(getsockname(made, (struct sockaddr *)&at, &size) == 0);
        *chosen = ntohs(at.sin_port);
    } else {
        GY_ASSERT(connect(made, (struct sockaddr *)&at, size) == 0);
    }
    return made;
}

static inline void kit_way_drop(int *file)
{
    if (*file >= 0) {
        close(*file);
        *file = -1;
    }
}

static inline void kit_way_accept(kit_way *way)
{
    for (int i = 0; i < KIT_WAY_LINKS; i++) {
        kit_way_link *link = &way->links[i];
        if (link->client < 0 && link->server < 0) {
            link->client = accept4(way->listener, NULL, NULL, SOCK_CLOEXEC);
            link->server = kit_way_socket(way->to, false, NULL);
            link->held_bytes = 0;
            return;
        }
    }
    gy_panic("more than %d links through a way", KIT_WAY_LINKS);
}

/* It keeps the server's words yet. */
static inline bool kit_way_is_late(kit_way *way, const kit_way_link *link)
{
    return __atomic_load_n(&way->mode, __ATOMIC_ACQUIRE) == KIT_WAY_SLOW &&
           gy_now_ns(gy_env_real()) - link->said_ns < KIT_WAY_SLOW_NS;
}

static inline void kit_way_pass(kit_way *way, kit_way_link *link)
{
    const kit_way_mode mode = __atomic_load_n(&way->mode, __ATOMIC_ACQUIRE);
    char bytes[16384];
    ssize_t got =
        link->client >= 0 ? recv(link->client, bytes, sizeof(bytes), MSG_DONTWAIT) : -1;
    const int64_t now = gy_now_ns(gy_env_real());
    link->held_ns = link->held_bytes > 0 ? link->held_ns : now;
    link->said_ns = got > 0 ? now : link->said_ns;
    if (got > 0 && now - link->held_ns < 200000000) {
        GY_ASSERT(link->held_bytes + (size_t)got <= sizeof(link->held));
        memcpy(link->held + link->held_bytes, bytes, (size_t)got);
        link->held_bytes += (size_t)got;
    }
    if (mode != KIT_WAY_HOLD && link->held_bytes > 0) {
        (void)!send(link->server, link->held, link->held_bytes, MSG_NOSIGNAL);
        link->held_bytes = 0;
    }
    if (got == 0) {
        kit_way_drop(&link->client);
        if (mode == KIT_WAY_OPEN) {
            kit_way_drop(&link->server);
        }
    }
    if (kit_way_is_late(way, link)) {
        return;
    }
    got = link->server >= 0 ? recv(link->server, bytes, sizeof(bytes), MSG_DONTWAIT) : -1;
    if (got > 0 && link->client < 0) {
        __atomic_add_fetch(&way->late_bytes, (uint64_t)got, __ATOMIC_ACQ_REL);
    } else if (got > 0 && mode != KIT_WAY_MUTE) {
        (void)!send(link->client, bytes, (size_t)got, MSG_NOSIGNAL);
    } else if (got == 0) {
        kit_way_drop(&link->server);
        kit_way_drop(&link->client);
    }
}

static inline void *kit_way_run(void *arg)
{
    kit_way *way = arg;
    while (!__atomic_load_n(&way->is_over, __ATOMIC_ACQUIRE)) {
        struct pollfd waits[1 + 2 * KIT_WAY_LINKS] = {{.fd = way->listener, .events = POLLIN}};
        for (int i = 0; i < KIT_WAY_LINKS; i++) {
            waits[1 + 2 * i] = (struct pollfd){.fd = way->links[i].client, .events = POLLIN};
            const bool is_late = kit_way_is_late(way, &way->links[i]);
            waits[2 + 2 * i] =
                (struct pollfd){.fd = is_late ? -1 : way->links[i].server, .events = POLLIN};
        }
        (void)poll(waits, GY_COUNT(waits), 5);
        if ((waits[0].revents & POLLIN) != 0) {
            kit_way_accept(way);
        }
        for (int i = 0; i < KIT_WAY_LINKS; i++) {
            kit_way_pass(way, &way->links[i]);
        }
    }
    return NULL;
}

static inline void kit_way_start(kit_way *way, int to)
{
    memset(way, 0, sizeof(*way));
    way->to = to;
    way->listener = kit_way_socket(0, true, &way->port);
    for (int i = 0; i < KIT_WAY_LINKS; i++) {
        way->links[i].client = way->links[i].server = -1;
    }
    assert_ok(gy_thread_start(&way->thread, "way", kit_way_run, way));
}

static inline void kit_way_set(kit_way *way, kit_way_mode mode)
{
    __atomic_store_n(&way->mode, mode, __ATOMIC_RELEASE);
}

static inline void kit_way_stop(kit_way *way)
{
    __atomic_store_n(&way->is_over, true, __ATOMIC_RELEASE);
    gy_thread_join(&way->thread);
    close(way->listener);
    for (int i = 0; i < KIT_WAY_LINKS; i++) {
        kit_way_drop(&way->links[i].client);
        kit_way_drop(&way->links[i].server);
    }
}

#endif
