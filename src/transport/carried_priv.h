/**
 * Inside room transport: the transport over a carrier's packets.
 */
#ifndef GY_TRANSPORT_CARRIED_PRIV_H
#define GY_TRANSPORT_CARRIED_PRIV_H

#include "transport/carrier.h"
#include "transport/transport.h"

typedef struct gy_carried_options {
    int rank, size;
    size_t packet_bytes;        /* default 64 KiB */
    int near_first, near_count; /* ranks that another transport reaches; 0: none */
    int host_ranks, host_cores; /* decide whether a wait may spin */
} gy_carried_options;

/** Open the transport. All ranks are connected already. The carrier is copied. GY_ARG;
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_carried_open(const gy_carried_options *options,
                                        const gy_carrier *carrier, gy_env *env,
                                        gy_transport **transport);

#endif
