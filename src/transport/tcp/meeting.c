/* How ranks connect: the higher rank calls the lower one. */
#include "transport/tcp/tcp_priv.h"

#include <string.h>
#include <sys/epoll.h>

static void join(tcp_transport *tcp, int rank, gy_tcp_wire *wire)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < tcp->base.size);
    GY_ASSERT(tcp->peers[rank].link == NULL);
    GY_ASSERT(!tcp->peers[rank].has_joined);
    GY_ASSERT(tcp->missing > 0);
    tcp_peer *peer = &tcp->peers[rank];
    gy_tcp_link *link = NULL;
    if (gy_tcp_link_new(wire, &link) < 0) {
        gy_tcp_lose(tcp, rank, GY_NOMEM);
        return;
    }
    link->sends = peer->early;
    link->reader.inbox = peer->early_inbox;
    peer->early = NULL;
    peer->early_inbox = (gy_inbox){.posted = NULL};
    peer->link = link;
    peer->has_joined = true;
    tcp->missing--;
    gy_tcp_watch(tcp, gy_tcp_wire_socket(wire), rank, peer->greeting == NULL, EPOLLIN);
    (void)gy_tcp_push(tcp, rank);
    /* data that TLS has buffered do not make the socket readable */
    (void)gy_tcp_pull(tcp, rank);
}

/* The caller must be a rank of this launch that has not connected yet; higher ranks call lower
 * ones. */
gy_status gy_tcp_judge(void *arg, const gy_hello *theirs)
{
    const tcp_transport *tcp = arg;
    if (memcmp(theirs->run, tcp->hello.run, sizeof(theirs->run)) != 0) {
        return gy_fail(GY_STATE, "the other end belongs to another launch");
    }
    if (theirs->count != (uint32_t)tcp->base.size || theirs->index >= theirs->count ||
        theirs->index == (uint32_t)tcp->base.rank) {
        return gy_fail(GY_STATE, "rank %u of %u called rank %d of %d", theirs->index,
                       theirs->count, tcp->base.rank, tcp->base.size);
    }
    const tcp_peer *peer = &tcp->peers[theirs->index];
    if (!peer->is_far || peer->has_joined) {
        return gy_fail(GY_EXISTS, "rank %u has joined already", theirs->index);
    }
    return GY_OK;
}

/* The rank that answers must be the one that was called. */
static gy_status judge_answer(void *arg, const gy_hello *theirs)
{
    GY_ASSERT(((const tcp_ear *)arg)->rank < ((const tcp_ear *)arg)->tcp->base.rank);
    const tcp_ear *at = arg;
    GY_TRY(gy_tcp_judge(at->tcp, theirs));
    return theirs->index == (uint32_t)at->rank
               ? GY_OK
               : gy_fail(GY_STATE, "rank %u answers instead of rank %d", theirs->index,
                         at->rank);
}

static bool greet(tcp_transport *tcp, int rank)
{
    GY_ASSERT(tcp->peers[rank].greeting != NULL);
    tcp_peer *peer = &tcp->peers[rank];
    gy_tcp_wire *wire = NULL;
    gy_hello theirs;
    gy_status status = gy_greeting_step(peer->greeting, judge_answer,
                                        &(tcp_ear){.tcp = tcp, .rank = rank}, &wire, &theirs);
    if (status == GY_AGAIN) {
        return false;
    }
    if (status < 0) {
        gy_tcp_lose(tcp, rank, status);
    } else {
        join(tcp, rank, wire);
    }
    gy_greeting_free(peer->greeting);
    peer->greeting = NULL;
    return true;
}

static bool open_door(tcp_transport *tcp)
{
    GY_ASSERT(tcp->door != NULL);
    gy_tcp_wire *wire = NULL;
    gy_hello theirs;
    bool has_moved = false;
    if (tcp->missing == 0) {
        return false;
    }
    while (gy_tcp_acceptor_step(tcp->door, &wire, &theirs) == GY_OK) {
        GY_ASSERT(theirs.index < (uint32_t)tcp->base.size); /* the judge checked it */
        join(tcp, (int)theirs.index, wire);
        has_moved = true;
    }
    return has_moved;
}

/* All ranks have connected: close the port. */
static void close_door(tcp_transport *tcp)
{
    GY_ASSERT(tcp->missing == 0);
    gy_tcp_acceptor_free(tcp->door);
    tcp->door = NULL;
}

/* While ranks are missing: accept callers, and continue outgoing calls. */
bool gy_tcp_meet_on(tcp_transport *tcp)
{
    GY_ASSERT(tcp->missing >= 0);
    bool has_moved = tcp->door != NULL && open_door(tcp);
    for (int rank = 0; rank < tcp->base.rank; rank++) {
        has_moved = (tcp->peers[rank].greeting != NULL && greet(tcp, rank)) || has_moved;
    }
    if (tcp->missing == 0 && tcp->door != NULL) {
        close_door(tcp);
    }
    return has_moved;
}

void gy_tcp_call(tcp_transport *tcp, int rank, const gy_address *address)
{
    GY_ASSERT(rank >= 0);
    GY_ASSERT(rank < tcp->base.rank);
    GY_ASSERT(tcp->peers[rank].is_far);
    GY_ASSERT(tcp->peers[rank].greeting == NULL);
    tcp_peer *peer = &tcp->peers[rank];
    gy_tcp_wire *wire = NULL;
    gy_status status = gy_tcp_wire_call(address, tcp->tls, &wire);
    if (status >= 0) {
        gy_tcp_watch(tcp, gy_tcp_wire_socket(wire), rank, true, EPOLLIN);
        status = gy_greeting_new(wire, true, &tcp->hello, &peer->greeting);
    }
    if (status < 0) {
        gy_tcp_lose(tcp, rank, status);
    }
}
