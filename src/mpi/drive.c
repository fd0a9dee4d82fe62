/*
 * Whoever waits for Gyre drives the MPI library too: a message of this rank may be under way,
 * and the peer that is waited for may wait for the rest of it first.
 */
#include "mpi/door_priv.h"

#include "base/base.h"

#include <sched.h>
#include <unistd.h>

enum {
    CALLS_A_DRIVE = 8, /* looking into the library costs some 100 ns */
    NAP_NS = 50000
};

static MPI_Comm probed = MPI_COMM_NULL; /* nothing is ever sent on it */
static bool is_crowded;
static gy_transport_ops driven; /* those of the transports below, with ours in front */
static const gy_transport_ops *below;

void gy_mpi_drive(void)
{
    int is_there = 0;
    (void)PMPI_Iprobe(MPI_ANY_SOURCE, 0, probed, &is_there, MPI_STATUS_IGNORE);
    GY_ASSERT(!is_there);
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

/* Nobody rings when a message of the library's arrives: naps are short. */
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
        PMPI_Allreduce(MPI_IN_PLACE, &cores, (int)sizeof(cores), MPI_BYTE, MPI_BOR, host) !=
            MPI_SUCCESS) {
        return 1;
    }
    return CPU_COUNT(&cores);
}

/* More ranks on this host than cores? */
static bool find_crowded(void)
{
    MPI_Comm host = MPI_COMM_NULL;
    int ranks = 1;
    if (PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) !=
        MPI_SUCCESS) {
        return true;
    }
    (void)PMPI_Comm_size(host, &ranks);
    int cores = gy_mpi_cores_of(host);
    (void)PMPI_Comm_free(&host);
    return ranks > cores;
}

void gy_mpi_drive_open(void)
{
    (void)PMPI_Comm_dup(MPI_COMM_WORLD, &probed);
    (void)PMPI_Comm_set_errhandler(probed, MPI_ERRORS_RETURN);
    is_crowded = find_crowded();
}

void gy_mpi_drive_close(void)
{
    if (probed != MPI_COMM_NULL) {
        (void)PMPI_Comm_free(&probed);
    }
}
