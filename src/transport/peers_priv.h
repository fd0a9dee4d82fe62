/** Inside room transport: which ranks use a segment, which have ended, and which sleep. */
#ifndef GY_TRANSPORT_PEERS_PRIV_H
#define GY_TRANSPORT_PEERS_PRIV_H

#include "transport/segment_priv.h"

/** Join as a rank. GY_EXISTS when the rank has joined already. */
GY_MUST_CHECK gy_status gy_transport_peers_join(gy_transport_segment *segment, int rank);
/** Leave. `has_given_up`: other ranks must not count it as one that had joined. */
void gy_transport_peers_leave(gy_transport_segment *segment, int rank, bool has_given_up);
gy_rank_stage gy_transport_peers_stage(gy_transport_segment *segment, int rank);

/** Check a peer. GY_PEER names the rank when its process has ended, or (`is_needed`) when it
 * has left. */
GY_MUST_CHECK gy_status gy_transport_peers_check(gy_transport_segment *segment, int rank,
                                                 bool is_needed);

/** Is its process stopped by a signal or a debugger, according to /proc? */
bool gy_transport_peers_is_stopped(gy_transport_segment *segment, int rank);

/** Let `transport` record there from now on, and touch the pages. */
void gy_transport_peers_record(gy_transport *transport, gy_transport_segment *segment);

/** The first failure of the epoch that a rank passed to gy_transport_peers_abort; GY_OK:
 * none. */
GY_MUST_CHECK gy_status gy_transport_peers_aborted(gy_transport_segment *segment,
                                                   uint32_t epoch);
void gy_transport_peers_abort(gy_transport_segment *segment, uint32_t epoch, int rank,
                              const gy_error *error);

/** Wake a rank if it has announced that it sleeps. */
void gy_transport_peers_ring(gy_transport_segment *segment, int rank);
/**
 * For a rank that sleeps on descriptors: make a pipe that becomes readable when a peer wakes
 * the rank after gy_transport_peers_announce. The caller owns it and drains it. GY_IO
 */
GY_MUST_CHECK gy_status gy_transport_peers_hang_bell(gy_transport_segment *segment, int rank,
                                                     int *pipe);
/** Announce that the owner of `state` sleeps on its pipe from now on. Returns whether it was
 * woken since the last announcement; then it must check its condition first. */
bool gy_transport_peers_announce(gy_rank_state *state);
/** Sleep until the wake-up counter differs from `bell` or nap_ns have passed (0: not at all),
 * then announce the next nap; returns its counter. */
uint32_t gy_transport_peers_nap(gy_rank_state *state, uint32_t bell, int64_t nap_ns);

#endif
