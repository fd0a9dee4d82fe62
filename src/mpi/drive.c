/*
 * A rank that waits for Gyre drives the MPI library too: a message of this rank may be under
 * way, and the awaited peer may first need the rest of it.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <sched.h>
#include <unistd.h>

enum {
    CALLS_A_DRIVE = 8, /* a call into the library costs some 100 ns */
    NAP_NS = 50000
};

/* A communicator on which there is never a message of ours: a duplicate of the world if all
 * its ranks can make one, else the world itself. Probing MPI_COMM_SELF would make no progress
 * in MPICH. */
static MPI_Comm probed = MPI_COMM_NULL;
static int tag;
static bool is_crowded;
static gy_transport_ops driven; /* the functions of the transports below, with our own nap */
static const gy_transport_ops *below;

void gy_mpi_drive(void)
{
    int is_there = 0;
    (void)PMPI_Iprobe(MPI_ANY_SOURCE, tag, probed, &is_there, MPI_STATUS_IGNORE);
}

bool gy_mpi_is_crowded(void)
{
    return is_crowded;
}

static gy_status driven_progress(gy_transport *transport)
{
    static _Thread_local unsigned calls;
    if (++calls % CALLS_A_DRIVE == 0) {
        gy_mpi_drive();
    }
    return below->progress(transport);
}

/* Nothing wakes the rank when a message of the library arrives, so naps are short. */
static void driven_nap(gy_transport *transport, int64_t nap_ns)
{
    gy_mpi_drive();
    below->nap(transport, GY_MIN(nap_ns, (int64_t)NAP_NS));
}

void gy_mpi_drive_with(gy_transport *transport)
{
    if (below == NULL) {
        below = transport->ops;
        driven = *below;
        driven.progress = driven_progress;
        driven.nap = driven_nap;
    }
    GY_ASSERT(transport->ops == below);
    transport->ops = &driven;
}

int gy_mpi_cores_of(MPI_Comm host)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0 ||
        gy_pmpi.Allreduce(MPI_IN_PLACE, &cores, (int)sizeof(cores), MPI_BYTE, MPI_BOR, host) !=
            MPI_SUCCESS) {
        return 1;
    }
    return CPU_COUNT(&cores);
}

void gy_mpi_drive_open(bool is_whole)
{
    int *tag_max = NULL, is_set = 0;
    if (is_whole && PMPI_Comm_dup(MPI_COMM_WORLD, &probed) == MPI_SUCCESS) {
        (void)PMPI_Comm_set_errhandler(probed, MPI_ERRORS_RETURN);
    } else {
        (void)PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&tag_max, &is_set);
        tag = is_set ? *tag_max : 0;
        probed = MPI_COMM_WORLD;
    }
    is_crowded = gy_mpi_roster_is_crowded();
}

void gy_mpi_drive_close(void)
{
    if (probed != MPI_COMM_NULL && probed != MPI_COMM_WORLD) {
        (void)gy_pmpi.Comm_free(&probed);
    }
}
