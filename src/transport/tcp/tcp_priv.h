/**
 * Inside room transport: the ranks that TCP leads to. Reading order: meeting, tcp.
 */
#ifndef GY_TRANSPORT_TCP_PRIV_H
#define GY_TRANSPORT_TCP_PRIV_H

#include "transport/failure_priv.h"
#include "transport/tcp.h"
#include "transport/tcp/link_priv.h"

typedef struct tcp_peer {
    gy_greeting *greeting; /* a call of ours under way */
    gy_tcp_link *link;     /* NULL: not connected yet */
    gy_transfer *early;    /* sends from before */
    gy_inbox early_inbox;  /* receives from before, and all of this rank itself */
    bool is_far;           /* reached by this transport */
    bool has_joined, has_left, is_gone;
    bool is_closed;       /* nothing more comes or goes */
    bool is_listed;       /* in `busy` */
    bool is_waiting_room; /* epoll looks for room to write */
    bool is_holding;      /* all that is to be sent may wait */
    bool is_heard;        /* something came since the last look at the clock */
    int64_t heard_ns;     /* when that was */
    int64_t asked_ns;     /* it was asked then and has not answered; 0: not asked */
    bool is_deaf;         /* epoll does not look for what comes: it would not be taken */
    gy_error why;         /* it is gone, */
    int gone_at;          /* as the how many-th; 0: it is not */
} tcp_peer;

typedef struct tcp_transport {
    gy_transport base;
    gy_tls *tls;
    gy_tcp_acceptor *door;
    int epoll;
    int bell; /* of this rank's host; epoll looks at it. Who heeds none has no event of one */
    gy_hello hello;
    uint64_t rounds;
    bool is_holding;     /* a message may wait */
    uint64_t hold_until; /* round */
    gy_transport_failure failure;
    int gone_count;
    int missing; /* peers that have not joined */
    int busy_count;
    int *busy; /* peers with something under way */
    tcp_peer peers[];
} tcp_transport;

typedef struct tcp_ear {
    tcp_transport *tcp;
    int rank;
} tcp_ear;

/* tcp.c */
/** Look for `events` on a socket of rank `who`. */
void gy_tcp_watch(tcp_transport *tcp, int socket, int who, bool is_new, uint32_t events);
/** The rank is gone: `status` and the recorded text say why. */
void gy_tcp_lose(tcp_transport *tcp, int rank, gy_status status);
/** Read or write what can be; true when something moved. */
bool gy_tcp_pull(tcp_transport *tcp, int rank);
bool gy_tcp_push(tcp_transport *tcp, int rank);

/* meeting.c */
/** While ranks are missing: callers, and calls under way; true when something moved. */
bool gy_tcp_meet_on(tcp_transport *tcp);
/** Start to call a rank. */
void gy_tcp_call(tcp_transport *tcp, int rank, const gy_address *address);
/** As gy_judge, of a caller. */
gy_status gy_tcp_judge(void *arg, const gy_hello *theirs);

#endif
