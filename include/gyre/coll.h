/**
 * Communicators and collectives. Every collective exists blocking here; the graph pushes them
 * to the engine. All ranks of a communicator call the same sequence.
 */
#ifndef GYRE_COLL_H
#define GYRE_COLL_H

#include <gyre/base.h>
#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gy_comm gy_comm;

/** How contributions are combined. Integers wrap; bit operations take integers alone. */
typedef enum gy_reduction {
    GY_SUM,
    GY_PROD,
    GY_MIN,
    GY_MAX_OF,
    GY_AVG, /* the sum, divided once at the end (integers: towards 0) */
    GY_BIT_AND,
    GY_BIT_OR,
    GY_BIT_XOR,
    GY_REDUCTION_COUNT
} gy_reduction;

/**
 * A user's own reduction: to[i] = a[i] op b[i] for `count` elements. `to` may be `a` or `b`.
 * It must be associative, must give the same on all ranks, and may run on any thread that
 * drives the communicator.
 */
typedef void (*gy_reduction_fn)(void *to, const void *a, const void *b, size_t count,
                                void *arg);

/** Borrowed until the collective has ended; ranks compare the name, size and flag. */
typedef struct gy_user_reduction {
    const char *name; /* in messages */
    gy_reduction_fn combine;
    void *arg;
    size_t element_bytes; /* 0: as the call's dtype */
    bool is_commutative;  /* false: contributions keep the order of the ranks */
} gy_user_reduction;

/**
 * The communicator of all ranks of this run: those that `gyre run` started, else this process
 * alone. Made at the first call; NULL and a failure when the rendezvous failed. @threads any
 */
GY_API gy_comm *gy_comm_world(void);
/** Leaves the run in an orderly way; called at exit by gyre's own programs. */
GY_API void gy_comm_world_close(void);
GY_API int gy_comm_rank(const gy_comm *comm);
GY_API int gy_comm_size(const gy_comm *comm);
/** Memory that peers on this host read directly (registered): reductions over it need no copy.
 */
GY_API gy_pool *gy_comm_pool(gy_comm *comm);

/**
 * Combine `count` elements of every rank; all ranks get the same bits. in == out is in place.
 * @return GY_OK; GY_PEER a rank is gone (named); GY_MISMATCH the ranks called different things
 * (both are printed); GY_TIMEOUT. The contents of `out` are undefined after a failure, the
 * communicator unusable.
 */
GY_API GY_MUST_CHECK gy_status gy_allreduce(gy_comm *comm, const void *in, void *out,
                                            size_t count, gy_dtype dtype,
                                            gy_reduction reduction);
/** `count` elements from root's `data` to all others' `data`. */
GY_API GY_MUST_CHECK gy_status gy_broadcast(gy_comm *comm, void *data, size_t count,
                                            gy_dtype dtype, int root);
/** Each gives `count` elements, out holds size * count in rank order. */
GY_API GY_MUST_CHECK gy_status gy_allgather(gy_comm *comm, const void *in, void *out,
                                            size_t count, gy_dtype dtype);
/** in holds size * count elements, out gets this rank's `count` of the combination. */
GY_API GY_MUST_CHECK gy_status gy_reduce_scatter(gy_comm *comm, const void *in, void *out,
                                                 size_t count, gy_dtype dtype,
                                                 gy_reduction reduction);
GY_API GY_MUST_CHECK gy_status gy_barrier(gy_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
