/**
 * Ranks that an MPI's launcher started (mpirun, mpiexec, srun): they meet through that MPI,
 * which libgyre does not link. A library of room mpi stands on it and is opened at run time.
 */
#ifndef GY_TRANSPORT_FOREIGN_H
#define GY_TRANSPORT_FOREIGN_H

#include "transport/library.h"

enum { GY_FOREIGN_VERSION = 4 };

/** Where a rank stands, whose shared memory it joins (/proc/`process`/fd/`segment`), and what
 * carries messages to the ranks that do not share it. */
typedef struct gy_foreign_place {
    int rank, size;
    int process, segment;       /* -1: nothing is shared */
    int first_rank, host_ranks; /* of those that share it or could */
    int host_cores;
    const int32_t *hosts; /* (size) the host of each rank; the library's */
    bool has_carrier;     /* some ranks share nothing with this one */
    gy_carrier carrier;
    bool has_library; /* its collectives may be called; `lose` is not the library's */
    gy_library library;
} gy_foreign_place;

/**
 * What such a library offers under the name gy_foreign. It has its own copy of Gyre's rooms,
 * so a failure is a text. All ranks call join, then met, then leave.
 */
typedef struct gy_foreign_run {
    int version;
    /* Start MPI and find the others; `is_apart`: ranks of a host share nothing either. False:
     * `why` says it. */
    bool (*join)(bool is_apart, gy_foreign_place *place, char *why, size_t why_bytes);
    /* Tell whether this rank has joined; have all? Nobody needs the segment after. */
    bool (*met)(bool has_joined);
    /* End MPI; not in order if `is_lost`: some of its collectives will never be done. */
    void (*leave)(bool is_lost);
} gy_foreign_run;

#endif
