/*
 * Two nodes of room rpc on real sockets, in one process, with a ring of their own; and a way
 * through between them that can be cut, stopped and spoilt.
 */
#ifndef GY_TESTS_RPC_PAIR_H
#define GY_TESTS_RPC_PAIR_H

#include "rpc/keyring.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gy_test.h"
#include "rpc_kit.h"

typedef struct kit_pair {
    char folder[32], ring[64], address[GY_RPC_ADDRESS_BYTES]; /* of the server */
    kit_end server, client; /* either may have no node just now */
    gy_rpc_peer peer;
    gy_env *env;
    bool is_plain, shares_memory;
} kit_pair;

static inline void kit_pair_open(kit_pair *pair, gy_env *env, bool is_plain)
{
    *pair = (kit_pair){.folder = "/tmp/gyre-rpc-XXXXXX", .env = env, .is_plain = is_plain};
    assert_non_null(mkdtemp(pair->folder));
    snprintf(pair->ring, sizeof(pair->ring), "%s/ring", pair->folder);
    assert_ok(gy_keyring_make(pair->ring));
}

static inline void kit_pair_close(kit_pair *pair)
{
    gy_rpc_free(pair->client.rpc);
    gy_rpc_free(pair->server.rpc);
    unlink(pair->ring);
    assert_int_equal(rmdir(pair->folder), 0);
}

static inline void kit_pair_turn(kit_pair *pair)
{
    gy_rpc *both[] = {pair->server.rpc, pair->client.rpc}, *last = NULL;
    bool has_moved = false;
    for (int i = 0; i < 2; i++) {
        if (both[i] != NULL) {
            last = both[i];
            has_moved = gy_rpc_turn(last, (gy_deadline){0}) == GY_OK || has_moved;
        }
    }
    if (!has_moved && last != NULL) {
        (void)gy_rpc_turn(last, gy_env_deadline(pair->env, 0.001));
    }
}

/* Both turn until `fact` holds. */
#define KIT_TURN_UNTIL(pair, fact)                                                             \
    do {                                                                                       \
        gy_deadline last_ = gy_deadline_after(60);                                             \
        while (!(fact)) {                                                                      \
            if (gy_now_ns(gy_env_real()) > last_.at_ns) {                                      \
                fail_msg("never: %s", #fact);                                                  \
            }                                                                                  \
            kit_pair_turn(pair);                                                               \
        }                                                                                      \
    } while (0)

/* ---- The way through ---- */

typedef struct kit_middle {
    int listener, sides[2]; /* to the client, to the server; -1: none */
    bool is_stopped;
    uint64_t passed; /* to the client, over this connection */
    uint64_t spoilt; /* this byte of them is changed on its way; UINT64_MAX: none */
    char address[GY_RPC_ADDRESS_BYTES];
    struct sockaddr_in server;
} kit_middle;

static inline void kit_middle_open(kit_middle *at, const char *server)
{
    *at = (kit_middle){
        .sides = {-1, -1}, .spoilt = UINT64_MAX, .server = {.sin_family = AF_INET}};
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(own);
    at->server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at->server.sin_port = htons((uint16_t)strtoul(strrchr(server, ':') + 1, NULL, 10));
    at->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(at->listener, (struct sockaddr *)&own, size), 0);
    assert_int_equal(listen(at->listener, 8), 0);
    assert_int_equal(getsockname(at->listener, (struct sockaddr *)&own, &size), 0);
    snprintf(at->address, sizeof(at->address), "127.0.0.1:%d", ntohs(own.sin_port));
}

static inline void kit_middle_cut(kit_middle *at)
{
    for (int i = 0; i < 2; i++) {
        if (at->sides[i] >= 0) {
            close(at->sides[i]);
            at->sides[i] = -1;
        }
    }
}

static inline void kit_middle_close(kit_middle *at)
{
    kit_middle_cut(at);
    close(at->listener);
}

static inline void kit_middle_pass(kit_middle *at)
{
    char bytes[16384];
    int came = accept4(at->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (came >= 0) {
        kit_middle_cut(at);
        at->passed = 0;
        at->sides[0] = came;
        at->sides[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(
            connect(at->sides[1], (struct sockaddr *)&at->server, sizeof(at->server)), 0);
    }
    for (int i = 0; i < 2 && !at->is_stopped; i++) {
        if (at->sides[i] < 0) {
            continue;
        }
        ssize_t got = recv(at->sides[i], bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got > 0) {
            if (i == 1) {
                if (at->spoilt - at->passed < (uint64_t)got) {
                    bytes[at->spoilt - at->passed] ^= 1;
                }
                at->passed += (uint64_t)got;
            }
            (void)!send(at->sides[1 - i], bytes, (size_t)got, MSG_NOSIGNAL);
        } else if (got == 0) {
            kit_middle_cut(at);
        }
    }
}

#define KIT_PASS_UNTIL(pair, way, fact) KIT_TURN_UNTIL(pair, (kit_middle_pass(way), (fact)))

#endif
