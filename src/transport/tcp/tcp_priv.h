/** Inside room transport: the ranks that TCP reaches. Reading order: meeting, tcp. */
#ifndef GY_TRANSPORT_TCP_PRIV_H
#define GY_TRANSPORT_TCP_PRIV_H

#include "transport/failure_priv.h"
#include "transport/tcp.h"
#include "transport/tcp/link_priv.h"

typedef struct tcp_peer {
    gy_greeting *greeting; /* an outgoing call under way */
    gy_tcp_link *link;     /* NULL: not connected yet */
    gy_transfer *early;    /* sends posted before the connection */
    /* receives posted before the connection, and all of this rank to itself */
    gy_inbox early_inbox;
    bool is_far; /* this transport reaches the rank */
    bool has_joined, has_left, is_gone;
    bool is_closed;       /* the connection is closed in both directions */
    bool is_listed;       /* in `busy` */
    bool is_waiting_room; /* epoll watches for room to write */
    bool is_holding;      /* everything that is to be sent may wait */
    bool is_heard;        /* data arrived since the clock was last read */
    int64_t heard_ns;     /* time of the last arrival */
    int64_t asked_ns;     /* time of a liveness query without an answer; 0: none */
    bool is_deaf;         /* epoll does not watch for data, since they could not be processed */
    gy_error why;         /* why it ended, */
    int gone_at;          /* and the position in the order of ends; 0: it has not ended */
} tcp_peer;

typedef struct tcp_transport {
    gy_transport base;
    gy_tls *tls;
    gy_tcp_acceptor *door;
    int epoll;
    /* wake-up pipe of this rank's host, which epoll watches; a transport without one gets no
     * event */
    int bell;
    gy_hello hello;
    uint64_t rounds;
    bool is_holding;     /* some message may wait */
    uint64_t hold_until; /* round in which held messages are sent */
    gy_transport_failure failure;
    int gone_count;
    int missing; /* number of peers that have not joined */
    int busy_count;
    int *busy; /* peers with transfers under way */
    tcp_peer peers[];
} tcp_transport;

typedef struct tcp_ear {
    tcp_transport *tcp;
    int rank;
} tcp_ear;

/* tcp.c */
/** Watch for `events` on a socket of rank `who`. */
void gy_tcp_watch(tcp_transport *tcp, int socket, int who, bool is_new, uint32_t events);
/** The rank has ended: `status` and the recorded text say why. */
void gy_tcp_lose(tcp_transport *tcp, int rank, gy_status status);
/** Read or write what is possible; true on progress. */
bool gy_tcp_pull(tcp_transport *tcp, int rank);
bool gy_tcp_push(tcp_transport *tcp, int rank);

/* meeting.c */
/** While ranks are missing: accept callers, and continue outgoing calls; true on progress. */
bool gy_tcp_meet_on(tcp_transport *tcp);
/** Start to connect to a rank. */
void gy_tcp_call(tcp_transport *tcp, int rank, const gy_address *address);
/** A gy_judge for callers. */
gy_status gy_tcp_judge(void *arg, const gy_hello *theirs);

#endif
