/**
 * Ranks on several pretended hosts, all in this process: each host has a segment of its own,
 * between hosts there is TCP over loopback, as between real ones.
 */
#ifndef SPREAD_KIT_H
#define SPREAD_KIT_H

#include "base/text.h"
#include "transport/tcp.h"

#include <stdio.h>
#include <unistd.h>

enum { SPREAD_RANKS = 24, SPREAD_HOSTS = 8 };

typedef struct spread {
    int hosts, counts[SPREAD_HOSTS]; /* ranks of each host */
    size_t pool_bytes, ring_bytes;   /* 0: the usual */
} spread;

static inline int spread_size(const spread *over)
{
    int size = 0;
    for (int host = 0; host < over->hosts; host++) {
        size += over->counts[host];
    }
    return size;
}

/* "2+1+4" */
static inline const char *spread_text(const spread *over, char out[64])
{
    size_t at = gy_print(out, 64, "%d", over->counts[0]);
    for (int host = 1; host < over->hosts; host++) {
        at += gy_print(out + at, 64 - at, "+%d", over->counts[host]);
    }
    return out;
}

static inline gy_status spread_listen(int size, gy_address *addresses, int *listeners)
{
    for (int rank = 0; rank < size; rank++) {
        gy_address *at = &addresses[rank];
        *at = (gy_address){.size_bytes = sizeof(at->at.v4)};
        at->at.v4.sin_family = AF_INET;
        at->at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        gy_status status = gy_address_listen(at, &listeners[rank]);
        while (status < 0 && rank > 0) {
            close(listeners[--rank]);
        }
        GY_TRY(status);
    }
    return GY_OK;
}

/*
 * Open all; `transports` gets spread_size of them, close each. Whatever fails, a test ends:
 * what was opened before is then left to the process's end.
 */
static inline gy_status spread_open(const spread *over, gy_transport **transports)
{
    gy_address addresses[SPREAD_RANKS];
    int listeners[SPREAD_RANKS];
    int32_t hosts[SPREAD_RANKS];
    int size = spread_size(over), first = 0;
    GY_ASSERT(size <= SPREAD_RANKS && over->hosts <= SPREAD_HOSTS);
    GY_TRY(spread_listen(size, addresses, listeners));
    for (int host = 0; host < over->hosts; host++) {
        const gy_transport_segment_options segment = {.ranks = over->counts[host],
                                                      .first_rank = first,
                                                      .run_size = size,
                                                      .pool_bytes = over->pool_bytes,
                                                      .ring_bytes = over->ring_bytes,
                                                      .host_cores = 1};
        for (int i = 0; i < over->counts[host]; i++) {
            hosts[first + i] = host;
        }
        GY_TRY(gy_transport_shm_open_all(&segment, gy_env_real(), &transports[first]));
        first += over->counts[host];
    }
    for (int rank = 0; rank < size; rank++) {
        gy_transport *near = transports[rank], *far = NULL;
        const gy_tcp_options options = {.rank = rank,
                                        .size = size,
                                        .addresses = addresses,
                                        .hosts = hosts,
                                        .listener = listeners[rank],
                                        .run = {4, 2},
                                        .host_ranks = over->counts[hosts[rank]],
                                        .host_cores = 1};
        GY_TRY(gy_tcp_open(&options, gy_env_real(), &far));
        GY_TRY(gy_transport_hosts_open(near, far, hosts, &transports[rank]));
    }
    return GY_OK;
}

#endif
