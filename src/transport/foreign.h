/**
 * Ranks that an MPI's launcher started (mpirun, mpiexec, srun): they meet through that MPI,
 * which libgyre does not link. A library of room mpi stands on it and is opened at run time.
 */
#ifndef GY_TRANSPORT_FOREIGN_H
#define GY_TRANSPORT_FOREIGN_H

#include <gyre/base.h>

enum { GY_FOREIGN_VERSION = 1 };

/** Where a rank stands and whose shared memory it joins, as /proc/`process`/fd/`segment`. */
typedef struct gy_foreign_place {
    int rank, size;
    int process, segment;
} gy_foreign_place;

/**
 * What such a library offers under the name gy_foreign. It has its own copy of Gyre's rooms,
 * so a failure is a text. All ranks call join, then met, then leave.
 */
typedef struct gy_foreign_run {
    int version;
    /* Start MPI and find the others. False: `why` says it. */
    bool (*join)(gy_foreign_place *place, char *why, size_t why_bytes);
    /* Tell whether this rank has joined the memory; have all? Nobody needs the place after. */
    bool (*met)(bool has_joined);
    /* End MPI. */
    void (*leave)(void);
} gy_foreign_run;

#endif
