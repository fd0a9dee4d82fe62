/**
 * A Gyre communicator of the ranks of an MPI communicator. Compiled with the program's own
 * mpi.h, so that it serves every MPI library; <gyre/gyre.h> does not include it.
 *
 *     gy_comm *comm = NULL;
 *     if (gy_comm_from_mpi(MPI_COMM_WORLD, &comm) < 0) {
 *         fprintf(stderr, "%s\n", gy_error_text());
 *         MPI_Abort(MPI_COMM_WORLD, 1);
 *     }
 */
#ifndef GYRE_MPI_H
#define GYRE_MPI_H

#include <gyre/coll.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/** For gy_comm_from_mpi: the allgather of an MPI_Comm. */
static inline gy_status gy_mpi_bootstrap_allgather(void *arg, const void *mine, void *all,
                                                   size_t size_bytes)
{
    MPI_Comm *mpi = (MPI_Comm *)arg;
    int bytes = (int)size_bytes;
    return MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, *mpi) == MPI_SUCCESS
               ? GY_OK
               : GY_PEER;
}

/**
 * A communicator of the ranks of `mpi`, in their order; all of them call it, between MPI_Init
 * and MPI_Finalize. Later nothing of MPI is used: `mpi` may be freed. gy_comm_free frees the
 * communicator. The returns of gy_comm_from_bootstrap; GY_ARG no communicator, or one between
 * two groups.
 */
GY_MUST_CHECK static inline gy_status gy_comm_from_mpi(MPI_Comm mpi, gy_comm **comm)
{
    gy_bootstrap bootstrap = {0, 0, gy_mpi_bootstrap_allgather, &mpi};
    int is_between = 0;
    if (mpi == MPI_COMM_NULL || MPI_Comm_test_inter(mpi, &is_between) != MPI_SUCCESS ||
        is_between || MPI_Comm_rank(mpi, &bootstrap.rank) != MPI_SUCCESS ||
        MPI_Comm_size(mpi, &bootstrap.size) != MPI_SUCCESS) {
        bootstrap.size = 0; /* which is refused in words */
    }
    return gy_comm_from_bootstrap(&bootstrap, comm);
}

#ifdef __cplusplus
}
#endif
#endif
