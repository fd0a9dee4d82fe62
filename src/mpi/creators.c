/* Start and end of the process's MPI, and the end of communicators. */
#include "mpi/mpi_priv.h"

#include <pthread.h>

static int begin(int code)
{
    if (code == MPI_SUCCESS) {
        gy_mpi_contexts_open();
    }
    return code;
}

GY_MPI_API int MPI_Init(int *argc, char ***argv)
{
    gy_mpi_pmpi_check_front();
    gy_mpi_roster_enter();
    return begin(gy_pmpi.Init(argc, argv));
}
GY_MPI_BOTH(Init)

GY_MPI_API int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    gy_mpi_pmpi_check_front();
    gy_mpi_roster_enter();
    return begin(gy_pmpi.Init_thread(argc, argv, required, provided));
}
GY_MPI_BOTH(Init_thread)

GY_MPI_API int MPI_Finalize(void)
{
    gy_mpi_contexts_close();
    return gy_pmpi.Finalize();
}
GY_MPI_BOTH(Finalize)

#ifdef OPEN_MPI
/*
 * Open MPI 4.1 crashes when a communicator is freed before a nonblocking collective on it has
 * ended, which MPI permits. Calls that went to the library because their communicator had no
 * context yet must not trigger that: a persistent request that is never started keeps the
 * library's internal communicator, until many more communicators were freed.
 */
static void keep_for_a_while(MPI_Comm comm)
{
    enum { KEPT = 64 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static MPI_Request kept[KEPT];
    static size_t next;
    MPI_Request request = MPI_REQUEST_NULL, old = MPI_REQUEST_NULL;
    if (!gy_mpi_context_has_left(comm) ||
        PMPI_Recv_init(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, comm, &request) != MPI_SUCCESS) {
        return;
    }
    (void)pthread_mutex_lock(&lock);
    size_t at = next++;
    old = at >= KEPT ? kept[at % KEPT] : MPI_REQUEST_NULL;
    kept[at % KEPT] = request;
    (void)pthread_mutex_unlock(&lock);
    if (old != MPI_REQUEST_NULL) {
        (void)gy_pmpi.Request_free(&old);
    }
}
#else
static void keep_for_a_while(MPI_Comm comm)
{
    (void)comm;
}
#endif

GY_MPI_API int MPI_Comm_free(MPI_Comm *comm)
{
    if (comm != NULL) {
        keep_for_a_while(*comm);
    }
    int code = gy_pmpi.Comm_free(comm);
    gy_mpi_contexts_sweep();
    return code;
}
GY_MPI_BOTH(Comm_free)

GY_MPI_API int MPI_Comm_disconnect(MPI_Comm *comm)
{
    int code = gy_pmpi.Comm_disconnect(comm);
    gy_mpi_contexts_sweep();
    return code;
}
GY_MPI_BOTH(Comm_disconnect)
