/**
 * How a launcher and its ranks find each other: over a private socket that each rank inherits,
 * no name and no port that anyone else could reach. The launcher greets, the rank may report
 * how it failed.
 */
#ifndef GY_TRANSPORT_RENDEZVOUS_H
#define GY_TRANSPORT_RENDEZVOUS_H

#include "transport/net.h"
#include "transport/transport.h"

/** Variables that a launched rank finds in its environment. */
#define GY_RUN_RANK   "GYRE_RANK"
#define GY_RUN_SIZE   "GYRE_SIZE"
#define GY_RUN_SOCKET "GYRE_RUN_FD"

typedef struct gy_run_place {
    int rank, size;
    bool has_net;      /* a gy_run_net follows */
    bool is_renewable; /* dead ranks are started anew: other greetings may follow */
    bool is_over;      /* no place: all ranks have said that they have done all */
} gy_run_place;

typedef struct gy_run_seat {
    gy_address address; /* where the rank listens */
    int32_t host;
} gy_run_seat;

/** What a rank must know to reach those of other hosts. */
typedef struct gy_run_net {
    int32_t size, first_rank, host_ranks, host_cores;
    bool is_shared; /* the ranks of a host reach each other through its segment */
    bool has_key;
    gy_transport_key key; /* of this run's ranks */
    uint8_t run[GY_RUN_ID_BYTES];
    gy_run_seat seats[]; /* (size) */
} gy_run_net;

/** Zeroed but for `size`; free with gy_free. NULL no memory. */
GY_MUST_CHECK gy_run_net *gy_run_net_new(int size);

/** A pair of connected sockets (close-on-exec): [0] the launcher's, [1] the rank's. GY_IO */
GY_MUST_CHECK gy_status gy_transport_rendezvous_pair(int sockets[2]);
/** Put a rank's place and the segment into its socket, before it runs. Borrows both. GY_IO */
GY_MUST_CHECK gy_status gy_transport_rendezvous_greet(int socket, const gy_run_place *place,
                                                      int segment);
/** The same for what goes with place->has_net; borrows the listening socket. */
GY_MUST_CHECK gy_status gy_transport_rendezvous_greet_net(int socket, const gy_run_net *net,
                                                          int listener);
/** The rank's side: caller owns *net and *listener. */
GY_MUST_CHECK gy_status gy_transport_rendezvous_take_net(int socket, int size, gy_run_net **net,
                                                         int *listener);
/** The rank's side: caller owns *segment. GY_STATE was read already; GY_FORMAT; GY_IO */
GY_MUST_CHECK gy_status gy_transport_rendezvous_take(int socket, gy_run_place *place,
                                                     int *segment);
/** A failure the rank reported: GY_OK it is in `error`; GY_AGAIN none there; GY_PEER closed.
 * Never blocks. */
GY_MUST_CHECK gy_status gy_transport_rendezvous_read(int socket, gy_error *error);

/** All that a launcher gives a rank to join by. */
typedef struct gy_run_ticket {
    gy_run_place place;
    int segment, listener; /* owned; -1: none */
    gy_run_net *net;       /* owned; NULL: shared memory alone */
} gy_run_ticket;

/** Take the next one from the rank's socket; the returns of gy_transport_rendezvous_take.
 * Caller drops it after success. */
GY_MUST_CHECK gy_status gy_run_ticket_take(int socket, gy_run_ticket *ticket);
/** Join the other ranks, by UCX where no rank is started anew; the listener goes to the
 * transport, also on failure. */
GY_MUST_CHECK gy_status gy_run_ticket_join(gy_run_ticket *ticket, bool is_ucx, gy_env *env,
                                           gy_transport **transport);
void gy_run_ticket_drop(gy_run_ticket *ticket);

/** For a rank that fails before it has joined: what it reports goes to the launcher that its
 * environment names, if any. */
void gy_transport_run_find_launcher(void);

/**
 * Tell the launcher why this rank is about to end with a failure; without a launcher nothing
 * happens. The first report counts. @return whether a launcher was told @threads any
 */
bool gy_transport_run_report(const gy_error *error);

enum { GY_RANK_ABORTS = -2, GY_RANK_DONE = -3 }; /* as the rank of a report */

/** Sleep until the launcher has said something, at most so long. */
void gy_transport_run_await(int wait_ms);

#endif
