/**
 * Collectives of another library (the MPI whose launcher started the ranks), over all ranks of
 * the run: one more choice beside Gyre's own plans. libgyre links no such library.
 */
#ifndef GY_TRANSPORT_LIBRARY_H
#define GY_TRANSPORT_LIBRARY_H

#include "transport/carrier.h"

#include <gyre/coll.h>

enum { GY_LIBRARY_LANES = 8 };

/** A call; what an operation does not have is not looked at. */
typedef struct gy_library_call {
    gy_operation operation;
    gy_dtype dtype;
    gy_reduction reduction;
    int root;
    int lane;       /* [0, GY_LIBRARY_LANES): calls of a lane start in one order on all ranks */
    size_t count;   /* elements, as in the function of gyre/coll.h of that name; of all parts
                       together less than 2^31 bytes */
    const void *in; /* broadcast: not used */
    void *out;      /* apart from in; broadcast: given too */
} gy_library_call;

/** Calls come from one thread at a time and never block. */
typedef struct gy_library {
    const char *name; /* "mpi" */
    /* Does it have the operation, and give Gyre's answers? Alike on all ranks. */
    bool (*knows)(gy_operation operation, gy_dtype dtype, gy_reduction reduction);
    /* Begin; the memory stays put until it is done. False: the library failed. */
    bool (*start)(const gy_library_call *call, gy_carried *request);
    /* GY_OK done; GY_AGAIN; GY_IO the library failed, and nothing is under way. */
    gy_status (*test)(gy_carried *request);
    /* One that is under way is given up: `memory` (from gy_alloc, NULL: none) is taken, and
     * freed once the library does not use it any more. */
    void (*lose)(const gy_carried *request, void *memory);
} gy_library;

#endif
