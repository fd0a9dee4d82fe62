/**
 * Ranks that an MPI's launcher started (mpirun, mpiexec, srun). They find each other through
 * that MPI, which libgyre does not link: a library of room mpi uses it, and is loaded at run
 * time.
 */
#ifndef GY_TRANSPORT_FOREIGN_H
#define GY_TRANSPORT_FOREIGN_H

#include "transport/library.h"

enum { GY_FOREIGN_VERSION = 4 };

/** The rank's place: whose shared memory it joins (/proc/`process`/fd/`segment`), and what
 * carries messages to ranks that do not share it. */
typedef struct gy_foreign_place {
    int rank, size;
    int process, segment;       /* -1: no shared memory */
    int first_rank, host_ranks; /* of the ranks that share the segment, or could */
    int host_cores;
    const int32_t *hosts; /* (size) number of each rank's host; owned by the library */
    bool has_carrier;     /* some ranks do not share the segment */
    gy_carrier carrier;
    bool has_library; /* the library's collectives may be called; its `lose` is not set */
    gy_library library;
} gy_foreign_place;

/**
 * The functions of such a library, under the symbol gy_foreign. It has its own copy of Gyre's
 * rooms, so a failure is passed as text. All ranks call join, then met, then leave.
 */
typedef struct gy_foreign_run {
    int version;
    /* Start MPI and find the other ranks; `is_apart`: ranks of one host share no memory
     * either. False: `why` has the reason. */
    bool (*join)(bool is_apart, gy_foreign_place *place, char *why, size_t why_bytes);
    /* Report whether this rank has joined, and return whether all have. Nobody needs the
     * segment's path afterwards. */
    bool (*met)(bool has_joined);
    /* End MPI; if `is_lost`, some of its collectives will never complete, and the end is not
     * in order. */
    void (*leave)(bool is_lost);
} gy_foreign_run;

#endif
