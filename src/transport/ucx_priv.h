/**
 * Inside room transport: messages over UCX between ranks that a launcher of Gyre's started.
 */
#ifndef GY_TRANSPORT_UCX_PRIV_H
#define GY_TRANSPORT_UCX_PRIV_H

#include "transport/transport.h"
#include "transport/ucx.h"

typedef struct gy_ucx_options {
    bool is_loopback;           /* nothing may leave this host */
    int near_first, near_count; /* ranks reached in another way; 0 of them: none */
} gy_ucx_options;

/**
 * Messages go over UCX; `guide` (shared memory or TCP), which is taken also on failure, leads
 * to the other ranks first, so that they tell where they are reached, and keeps watch
 * afterwards: who has joined, left, died or failed. Waits for all ranks, a minute at most.
 * @return GY_OK; GY_UNSUPPORTED no such library, or UCX finds no way; GY_PEER; GY_TIMEOUT names
 * a rank that is missing; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_ucx_open(const gy_ucx_options *options, gy_transport *guide,
                                    gy_transport **transport);

/** One transport over two: `data` carries messages, `guide` all else. Takes both, also on
 * failure. */
GY_MUST_CHECK gy_status gy_transport_guided_open(gy_transport *guide, gy_transport *data,
                                                 gy_transport **transport);

#endif
