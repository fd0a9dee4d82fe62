/*
 * The entries of the collectives in all forms: blocking and nonblocking, and both with counts
 * wider than int where the MPI library has them. Nonblocking ones are pulls with a generalized
 * request, so that the library's Wait, Test and Request_free handle them among other requests.
 */
#include "mpi/mpi_priv.h"

int gy_mpi_post(const gy_pull *pull, int code, MPI_Request *request)
{
    code = code == MPI_SUCCESS && request == NULL ? MPI_ERR_ARG : code;
    if (code != MPI_SUCCESS) {
        return gy_mpi_context_refuse(pull->door, pull->kind, code);
    }
    gy_mpi_count(true);
    return gy_pull_post(pull, request);
}

#define GLUE_(a, b, c) a##b##c
#define GLUE(a, b, c)  GLUE_(a, b, c)
#define SECOND(name)   GY_MPI_BOTH(name)

#define IS_WIDE   0
#define IS_POSTED 0
#include "mpi/entries.inc"

#define IS_WIDE   0
#define IS_POSTED 1
#include "mpi/entries.inc"

#if MPI_VERSION >= 4
#define IS_WIDE   1
#define IS_POSTED 0
#include "mpi/entries.inc"

#define IS_WIDE   1
#define IS_POSTED 1
#include "mpi/entries.inc"
#endif
