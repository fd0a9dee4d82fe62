/** Ranks that communicate over TCP: one connection for each pair; the higher rank connects. */
#ifndef GY_TRANSPORT_TCP_H
#define GY_TRANSPORT_TCP_H

#include "transport/net.h"
#include "transport/transport.h"

typedef struct gy_tcp_options {
    int rank, size;
    const gy_address *addresses; /* (size) each rank's listening address; copied */
    /* (size) no connections to ranks on this rank's host; NULL: connect to all */
    const int32_t *hosts;
    int listener;                /* this rank's socket, taken also on failure */
    const gy_transport_key *key; /* key of this launch; NULL: plain */
    uint8_t run[GY_RUN_ID_BYTES];
    int host_ranks; /* ranks on this host, which decide whether a wait may spin; 0: 1 */
    int host_cores; /* the same on all ranks of the host; 0: those of the cpuset */
} gy_tcp_options;

/** Open without waiting: connections are under way (gy_transport_meet). GY_ARG; GY_NOMEM;
 * GY_IO */
GY_MUST_CHECK gy_status gy_tcp_open(const gy_tcp_options *options, gy_env *env,
                                    gy_transport **transport);

/**
 * Traffic of the connections of `transport` (from gy_tcp_open): bytes through the sockets, and
 * how many of the sent ones were frame headers and frames that are no messages.
 */
typedef struct gy_tcp_count {
    uint64_t sent_bytes, received_bytes, sent_frames;
} gy_tcp_count;
gy_tcp_count gy_tcp_counts(const gy_transport *transport);

/**
 * Combine two transports: `near` (shared memory) reaches the ranks of this host, `far` (TCP,
 * MPI) all others. Takes both, also on failure. `hosts` (size) is copied.
 */
GY_MUST_CHECK gy_status gy_transport_hosts_open(gy_transport *near, gy_transport *far,
                                                const int32_t *hosts, gy_transport **transport);

#endif
