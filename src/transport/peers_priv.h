/**
 * Inside room transport: who takes part in a segment, who is gone, who sleeps.
 */
#ifndef GY_TRANSPORT_PEERS_PRIV_H
#define GY_TRANSPORT_PEERS_PRIV_H

#include "transport/segment_priv.h"

/** GY_EXISTS when the rank's place is taken. */
GY_MUST_CHECK gy_status gy_transport_peers_join(gy_transport_segment *segment, int rank);
/** `has_given_up`: no rank may take it for one that had joined. */
void gy_transport_peers_leave(gy_transport_segment *segment, int rank, bool has_given_up);
gy_rank_stage gy_transport_peers_stage(gy_transport_segment *segment, int rank);

/** GY_PEER naming the rank when its process is gone, or (`is_needed`) when it has left. */
GY_MUST_CHECK gy_status gy_transport_peers_check(gy_transport_segment *segment, int rank,
                                                 bool is_needed);

/** Is its process stopped by a signal or a debugger, as /proc says? */
bool gy_transport_peers_is_stopped(gy_transport_segment *segment, int rank);

/** From now on `transport` records there; its own pages are touched. */
void gy_transport_peers_record(gy_transport *transport, gy_transport_segment *segment);

/** The epoch's first failure given to gy_transport_peers_abort, GY_OK when none. */
GY_MUST_CHECK gy_status gy_transport_peers_aborted(gy_transport_segment *segment,
                                                   uint32_t epoch);
void gy_transport_peers_abort(gy_transport_segment *segment, uint32_t epoch, int rank,
                              const gy_error *error);

/** Wake a rank if it says that it sleeps. */
void gy_transport_peers_ring(gy_transport_segment *segment, int rank);
/**
 * For a rank that sleeps on descriptors: a pipe that can be read once it was rung after
 * gy_transport_peers_announce. The caller owns it and reads what comes. GY_IO
 */
GY_MUST_CHECK gy_status gy_transport_peers_hang_bell(gy_transport_segment *segment, int rank,
                                                     int *pipe);
/** Say that the owner of `state` sleeps on its pipe from now on: was it rung since it last said
 * so? Then it must look again first. */
bool gy_transport_peers_announce(gy_rank_state *state);
/** Sleep until the bell differs from `bell` or nap_ns passed (0: not at all), then announce the
 * next nap: its bell. */
uint32_t gy_transport_peers_nap(gy_rank_state *state, uint32_t bell, int64_t nap_ns);

#endif
