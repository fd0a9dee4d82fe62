/** What the parts of bench_wires share. */
#ifndef GY_BENCH_WIRES_H
#define GY_BENCH_WIRES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Everybody's `size_bytes`, in the order of ranks. */
typedef void (*wires_exchange)(const void *mine, size_t size_bytes, void *all);

/** gloo's ways; `busy` is halving and doubling on sockets that its caller polls. */
enum { GLOO_RING, GLOO_CHUNKED, GLOO_HALVING, GLOO_BUSY, GLOO_WAYS };
/** 0: could not connect. */
int wires_gloo_open(int rank, int size, wires_exchange exchange);
/** Is `way` fit for that many floats? Connects its buffers to `data` (in place). */
int wires_gloo_prepare(int way, float *data, size_t count);
/** 0: it failed, and none of the ways is of use any more. */
int wires_gloo_run(int way);
void wires_gloo_close(void);

/** Bare sockets around the ring. */
void wires_floor_open(int rank, int size, wires_exchange exchange);
/** Seconds of one exchange of a few bytes: send to the next rank, poll for the previous one's.
 */
double wires_floor_hop(void);
/** Bytes a second that this rank sends while it receives as many. */
double wires_floor_rate(void);
void wires_floor_close(void);

#ifdef __cplusplus
}
#endif
#endif
