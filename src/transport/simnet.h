/**
 * A transport over room sim: rank r is node r. The caller steps all ranks' machines and the
 * simulator in one thread; a wait in one rank runs the simulator.
 */
#ifndef GY_TRANSPORT_SIMNET_H
#define GY_TRANSPORT_SIMNET_H

#include "sim/sim.h"
#include "transport/transport.h"

/** Open a rank. Borrows the sim, whose nodes are the ranks. GY_ARG; GY_EXISTS the node listens
 * already; GY_NOMEM */
GY_MUST_CHECK gy_status gy_transport_simnet_open(gy_sim *sim, int rank,
                                                 gy_transport **transport);

#endif
