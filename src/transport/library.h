/**
 * Collectives of another library (the MPI whose launcher started the ranks) over all ranks: an
 * alternative to Gyre's own plans. libgyre links no such library.
 */
#ifndef GY_TRANSPORT_LIBRARY_H
#define GY_TRANSPORT_LIBRARY_H

#include "transport/carrier.h"

#include <gyre/coll.h>

enum { GY_LIBRARY_LANES = 8 };

/** A call; members that an operation does not use are ignored. */
typedef struct gy_library_call {
    gy_operation operation;
    gy_dtype dtype;
    gy_reduction reduction;
    int root;
    /* [0, GY_LIBRARY_LANES): calls of a lane must start in the same order on all ranks */
    int lane;
    /* elements, as in the function of gyre/coll.h; all parts together have less than 2^31
     * bytes */
    size_t count;
    const void *in; /* unused for broadcast */
    void *out;      /* different from in; also used for broadcast */
} gy_library_call;

/** One thread at a time calls these functions, and they never block. */
typedef struct gy_library {
    const char *name; /* "mpi" */
    /* Does the library have the operation, with the same results as Gyre? The answer is the
     * same on all ranks. */
    bool (*knows)(gy_operation operation, gy_dtype dtype, gy_reduction reduction);
    /* Start a call; its memory must stay in place until it is done. False: the library
     * failed. */
    bool (*start)(const gy_library_call *call, gy_carried *request);
    /* GY_OK done; GY_AGAIN under way; GY_IO the library failed, and the call is over. */
    gy_status (*test)(gy_carried *request);
    /* Cancel a call under way: takes `memory` (from gy_alloc; NULL: none), which is freed once
     * the library no longer uses it. */
    void (*lose)(const gy_carried *request, void *memory);
} gy_library;

#endif
