/**
 * Room mpi: the MPI library below. Gyre defines the names MPI_X *and* PMPI_X: the libraries'
 * Fortran entries call either, and ranks of one program may be written in several languages.
 * Gyre finds the library's own functions by its handle, never by name.
 */
#ifndef GY_MPI_PMPI_PRIV_H
#define GY_MPI_PMPI_PRIV_H

#include <mpi.h>
#include <stdbool.h>

/* All entries that Gyre replaces. */
#define GY_PMPI_LIST(X)                                                                        \
    X(Init)                                                                                    \
    X(Init_thread)                                                                             \
    X(Finalize)                                                                                \
    X(Comm_free)                                                                               \
    X(Comm_disconnect)                                                                         \
    X(Wait)                                                                                    \
    X(Waitall)                                                                                 \
    X(Waitany)                                                                                 \
    X(Waitsome)                                                                                \
    X(Test)                                                                                    \
    X(Testall)                                                                                 \
    X(Testany)                                                                                 \
    X(Testsome)                                                                                \
    X(Request_get_status)                                                                      \
    X(Request_free)                                                                            \
    X(Allreduce)                                                                               \
    X(Reduce)                                                                                  \
    X(Reduce_scatter)                                                                          \
    X(Reduce_scatter_block)                                                                    \
    X(Allgather)                                                                               \
    X(Allgatherv)                                                                              \
    X(Bcast)                                                                                   \
    X(Alltoall)                                                                                \
    X(Barrier)                                                                                 \
    X(Iallreduce)                                                                              \
    X(Ireduce)                                                                                 \
    X(Ireduce_scatter)                                                                         \
    X(Ireduce_scatter_block) X(Iallgather) X(Iallgatherv) X(Ibcast) X(Ialltoall) X(Ibarrier)

/* Those with counts wider than int. */
#if MPI_VERSION >= 4
#define GY_PMPI_WIDE_LIST(X)                                                                   \
    X(Allreduce_c)                                                                             \
    X(Reduce_c)                                                                                \
    X(Reduce_scatter_c)                                                                        \
    X(Reduce_scatter_block_c)                                                                  \
    X(Allgather_c)                                                                             \
    X(Allgatherv_c)                                                                            \
    X(Bcast_c)                                                                                 \
    X(Alltoall_c)                                                                              \
    X(Iallreduce_c)                                                                            \
    X(Ireduce_c)                                                                               \
    X(Ireduce_scatter_c)                                                                       \
    X(Ireduce_scatter_block_c) X(Iallgather_c) X(Iallgatherv_c) X(Ibcast_c) X(Ialltoall_c)
#else
#define GY_PMPI_WIDE_LIST(X)
#endif

/** The library's own functions. */
typedef struct gy_pmpi_table {
#define GY_X(name) __typeof__(MPI_##name) *name;
    GY_PMPI_LIST(GY_X) GY_PMPI_WIDE_LIST(GY_X)
#undef GY_X
} gy_pmpi_table;

extern gy_pmpi_table gy_pmpi; /* complete before any entry is called */

/** Is `address` inside the library? Calls that the library makes itself, with locks held, go to
 * the library. */
bool gy_mpi_pmpi_is_inside(const void *address);
#define GY_IS_INSIDE() gy_mpi_pmpi_is_inside(__builtin_return_address(0))

/** Is another MPI loaded, which this library cannot serve? Then print that and exit. */
void gy_mpi_pmpi_check_front(void);

#define GY_MPI_API __attribute__((visibility("default")))
/* Define the second name of an entry. */
#define GY_MPI_BOTH(name)                                                                      \
    GY_MPI_API __typeof__(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)));

#endif
