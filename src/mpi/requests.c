/*
 * Waiting for requests. Those of pulls are generalized requests, which the library cannot
 * complete by itself: while this process has one, a Wait is a loop of Test that also makes
 * progress on pulls (Test also drives the library). Otherwise it is the library's Wait.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <sched.h>

enum { ROUNDS_A_CHECK = 4096, PATIENT_ROUNDS = 1024 };

/* Between two rounds of a waiting loop. */
static void pass_time(unsigned *round)
{
    if (gy_mpi_is_crowded() || *round > PATIENT_ROUNDS) {
        sched_yield();
    } else {
        gy_spin();
    }
    if (++*round % ROUNDS_A_CHECK == 0) {
        gy_mpi_pulls_check();
    } else {
        gy_mpi_pulls_progress();
    }
}

static void help(const void *caller)
{
    if (gy_mpi_pulls_are_flying() && !gy_mpi_pmpi_is_inside(caller)) {
        gy_mpi_pulls_progress();
    }
}

GY_MPI_API int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    if (!gy_mpi_pulls_are_flying() || GY_IS_INSIDE()) {
        return gy_pmpi.Wait(request, status);
    }
    gy_mpi_pulls_progress();
    for (unsigned round = 0;; pass_time(&round)) {
        int is_done = 0, code = gy_pmpi.Test(request, &is_done, status);
        if (code != MPI_SUCCESS || is_done) {
            return code;
        }
    }
}
GY_MPI_BOTH(Wait)

GY_MPI_API int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    if (!gy_mpi_pulls_are_flying() || GY_IS_INSIDE()) {
        return gy_pmpi.Waitall(count, requests, statuses);
    }
    gy_mpi_pulls_progress();
    for (unsigned round = 0;; pass_time(&round)) {
        int are_done = 0, code = gy_pmpi.Testall(count, requests, &are_done, statuses);
        if (code != MPI_SUCCESS || are_done) {
            return code;
        }
    }
}
GY_MPI_BOTH(Waitall)

GY_MPI_API int MPI_Waitany(int count, MPI_Request requests[], int *ind, MPI_Status *status)
{
    if (!gy_mpi_pulls_are_flying() || GY_IS_INSIDE()) {
        return gy_pmpi.Waitany(count, requests, ind, status);
    }
    gy_mpi_pulls_progress();
    for (unsigned round = 0;; pass_time(&round)) {
        int is_done = 0, code = gy_pmpi.Testany(count, requests, ind, &is_done, status);
        if (code != MPI_SUCCESS || is_done) {
            return code;
        }
    }
}
GY_MPI_BOTH(Waitany)

GY_MPI_API int MPI_Waitsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                            MPI_Status statuses[])
{
    if (!gy_mpi_pulls_are_flying() || GY_IS_INSIDE()) {
        return gy_pmpi.Waitsome(incount, requests, outcount, indices, statuses);
    }
    gy_mpi_pulls_progress();
    for (unsigned round = 0;; pass_time(&round)) {
        int code = gy_pmpi.Testsome(incount, requests, outcount, indices, statuses);
        if (code != MPI_SUCCESS || *outcount != 0) { /* MPI_UNDEFINED: no request is active */
            return code;
        }
    }
}
GY_MPI_BOTH(Waitsome)

GY_MPI_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    help(__builtin_return_address(0));
    return gy_pmpi.Test(request, flag, status);
}
GY_MPI_BOTH(Test)

GY_MPI_API int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    help(__builtin_return_address(0));
    return gy_pmpi.Testall(count, requests, flag, statuses);
}
GY_MPI_BOTH(Testall)

GY_MPI_API int MPI_Testany(int count, MPI_Request requests[], int *ind, int *flag,
                           MPI_Status *status)
{
    help(__builtin_return_address(0));
    return gy_pmpi.Testany(count, requests, ind, flag, status);
}
GY_MPI_BOTH(Testany)

GY_MPI_API int MPI_Testsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                            MPI_Status statuses[])
{
    help(__builtin_return_address(0));
    return gy_pmpi.Testsome(incount, requests, outcount, indices, statuses);
}
GY_MPI_BOTH(Testsome)

GY_MPI_API int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    help(__builtin_return_address(0));
    return gy_pmpi.Request_get_status(request, flag, status);
}
GY_MPI_BOTH(Request_get_status)

GY_MPI_API int MPI_Request_free(MPI_Request *request)
{
    help(__builtin_return_address(
        0)); /* a request that has not ended ends in a later call of this file */
    return gy_pmpi.Request_free(request);
}
GY_MPI_BOTH(Request_free)
