/** Inside room transport: messages over UCX between ranks that Gyre's launcher started. */
#ifndef GY_TRANSPORT_UCX_PRIV_H
#define GY_TRANSPORT_UCX_PRIV_H

#include "transport/transport.h"
#include "transport/ucx.h"

typedef struct gy_ucx_options {
    bool is_loopback;           /* no traffic may leave this host */
    int near_first, near_count; /* ranks that another transport reaches; 0: none */
} gy_ucx_options;

/**
 * Open messages over UCX. `guide` (shared memory or TCP), which is taken also on failure,
 * connects the ranks first so that they exchange addresses, and afterwards detects which ranks
 * have joined, left, died or failed. Waits for all ranks, at most a minute.
 * @return GY_OK; GY_UNSUPPORTED the library is missing, or UCX finds no transport; GY_PEER;
 *     GY_TIMEOUT names a missing rank; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_ucx_open(const gy_ucx_options *options, gy_transport *guide,
                                    gy_transport **transport);

/** Combine two transports: `data` carries messages, `guide` does everything else. Takes both,
 * also on failure. */
GY_MUST_CHECK gy_status gy_transport_guided_open(gy_transport *guide, gy_transport *data,
                                                 gy_transport **transport);

#endif
