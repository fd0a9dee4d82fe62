/**
 * How a launcher and its ranks connect: over a private socket that each rank inherits, without
 * a name or port that others could reach. The launcher sends a greeting; the rank may report
 * how it failed.
 */
#ifndef GY_TRANSPORT_RENDEZVOUS_H
#define GY_TRANSPORT_RENDEZVOUS_H

#include "transport/net.h"
#include "transport/transport.h"

/** Environment variables of a launched rank. */
#define GY_RUN_RANK   "GYRE_RANK"
#define GY_RUN_SIZE   "GYRE_SIZE"
#define GY_RUN_SOCKET "GYRE_RUN_FD"

typedef struct gy_run_place {
    int rank, size;
    bool has_net;      /* a gy_run_net follows */
    bool is_renewable; /* dead ranks are restarted, so further greetings may follow */
    bool is_over;      /* no place: all ranks have reported that they have finished */
} gy_run_place;

typedef struct gy_run_endpoint {
    gy_address address; /* the rank's listening address */
    int32_t host;
} gy_run_endpoint;

/** What a rank needs to reach ranks on other hosts. */
typedef struct gy_run_net {
    int32_t size, first_rank, host_ranks, host_cores;
    bool is_shared; /* the ranks of a host share its segment */
    bool has_key;
    gy_transport_key key; /* key of this launch's ranks */
    uint8_t run[GY_RUN_ID_BYTES];
    gy_run_endpoint endpoints[]; /* (size) */
} gy_run_net;

/** Make one, zeroed except for `size`; free with gy_free. NULL: out of memory. */
GY_MUST_CHECK gy_run_net *gy_run_net_new(int size);

/** Make a pair of connected sockets (close-on-exec): [0] the launcher's, [1] the rank's.
 * GY_IO */
GY_MUST_CHECK gy_status gy_transport_rendezvous_pair(int sockets[2]);
/** Send a rank's place and the segment over its socket, before the rank runs. Borrows both.
 * GY_IO */
GY_MUST_CHECK gy_status gy_transport_rendezvous_greet(int socket, const gy_run_place *place,
                                                      int segment);
/** Send what place->has_net announces; borrows the listening socket. */
GY_MUST_CHECK gy_status gy_transport_rendezvous_greet_net(int socket, const gy_run_net *net,
                                                          int listener);
/** The rank's side; the caller owns *net and *listener. */
GY_MUST_CHECK gy_status gy_transport_rendezvous_take_net(int socket, int size, gy_run_net **net,
                                                         int *listener);
/** The rank's side; the caller owns *segment. GY_STATE read before; GY_FORMAT; GY_IO */
GY_MUST_CHECK gy_status gy_transport_rendezvous_take(int socket, gy_run_place *place,
                                                     int *segment);
/** Read a failure that the rank reported: GY_OK it is in `error`; GY_AGAIN none yet; GY_PEER
 * closed. Never blocks. */
GY_MUST_CHECK gy_status gy_transport_rendezvous_read(int socket, gy_error *error);

/** Everything that a launcher sends a rank so that it can join. */
typedef struct gy_run_ticket {
    gy_run_place place;
    int segment, listener; /* owned; -1: none */
    gy_run_net *net;       /* owned; NULL: shared memory only */
} gy_run_ticket;

/** Receive the next ticket from the rank's socket; returns as gy_transport_rendezvous_take. The
 * caller drops it after success. */
GY_MUST_CHECK gy_status gy_run_ticket_take(int socket, gy_run_ticket *ticket);
/** Join the other ranks, over UCX if no rank is ever restarted. Takes the listener, also on
 * failure. */
GY_MUST_CHECK gy_status gy_run_ticket_join(gy_run_ticket *ticket, bool is_ucx, gy_env *env,
                                           gy_transport **transport);
void gy_run_ticket_drop(gy_run_ticket *ticket);

/** For a rank that fails before it has joined: send its report to the launcher named in the
 * environment, if any. */
void gy_transport_run_find_launcher(void);

/**
 * Report to the launcher why this rank is about to fail; does nothing without a launcher. The
 * first report counts. @return whether a launcher got it @threads any
 */
bool gy_transport_run_report(const gy_error *error);

enum { GY_RANK_ABORTS = -2, GY_RANK_DONE = -3 }; /* special ranks in a report */

/** Sleep until the launcher sends something, at most wait_ms. */
void gy_transport_run_await(int wait_ms);

#endif
