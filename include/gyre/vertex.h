/**
 * A vertex of a dataflow job while it runs: what its function reads and writes.
 */
#ifndef GYRE_VERTEX_H
#define GYRE_VERTEX_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A vertex while it runs; lives as long as the call of its function. */
typedef struct gy_vertex gy_vertex;

/** What a vertex does. GY_OK: its outputs stand; a failure: it runs again, a few times. */
typedef gy_status (*gy_vertex_work)(gy_vertex *vertex);

/** Any function: what `gy_function.user` is cast to and back from. */
typedef void (*gy_any_work)(void);

#ifdef __cplusplus
}
#endif
#endif
