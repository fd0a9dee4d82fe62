/** Inside the measurements: a wire to compare with. */
#ifndef GY_PS_BENCH_BENCH_PRIV_H
#define GY_PS_BENCH_BENCH_PRIV_H

#include "transport/net.h"

typedef struct ps_bench_wire {
    int socket;       /* -1: closed */
    gy_tcp_wire *tls; /* has the socket; NULL: plain */
} ps_bench_wire;

/** Listen at a free port of the loopback; `port` in network order. */
GY_MUST_CHECK gy_status gy_ps_bench_listen(int *listener, uint16_t *port);
GY_MUST_CHECK gy_status gy_ps_bench_accept(int listener, gy_tls *tls, ps_bench_wire *wire);
GY_MUST_CHECK gy_status gy_ps_bench_connect(uint16_t port, gy_tls *tls, ps_bench_wire *wire);
void gy_ps_bench_close(ps_bench_wire *wire);
/** All of it, blocking. False: the other end is gone. */
bool gy_ps_bench_read(const ps_bench_wire *wire, void *data, size_t size_bytes);
bool gy_ps_bench_write(const ps_bench_wire *wire, const void *data, size_t size_bytes);

/* ---- ring.c ---- */

/** A ring that two processes of one fork share: one copies into it, the other adds from it. */
typedef struct ps_bench_ring ps_bench_ring;
GY_MUST_CHECK gy_status gy_ps_bench_ring_make(ps_bench_ring **ring);
/** The other process: add what comes, floats, to a vector of `size_bytes`, until the end. */
GY_MUST_CHECK gy_status gy_ps_bench_ring_add(ps_bench_ring *ring, size_t size_bytes);
/** Copy in, and wait until it was added. False: the end. */
bool gy_ps_bench_ring_put(ps_bench_ring *ring, const void *data, size_t size_bytes);
/** The end, for both; frees it here. NULL is fine. */
void gy_ps_bench_ring_end(ps_bench_ring *ring);

#endif
