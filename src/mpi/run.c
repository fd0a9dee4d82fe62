/* Gyre's own ranks under an MPI's launcher: they meet through MPI, then share memory. */
#include "mpi/door_priv.h"

#include "base/base.h"
#include "transport/foreign.h"

#include <stdio.h>
#include <unistd.h>

static int segment = -1; /* of rank 0 until all have joined it */
static bool is_ours;     /* MPI was started here */

/* Does the whole world share a /proc? Launchers count hosts by names, which need not differ. */
static bool is_one_host(void)
{
    uint64_t mine = gy_mpi_host_identity(), first = mine;
    (void)PMPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    int is_same = first == mine, are_all = 0;
    (void)PMPI_Allreduce(&is_same, &are_all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return are_all != 0;
}

static bool join_world(gy_foreign_place *place, char *why, size_t why_bytes)
{
    int is_running = 0;
    (void)PMPI_Initialized(&is_running);
    if (!is_running && PMPI_Init(NULL, NULL) != MPI_SUCCESS) {
        snprintf(why, why_bytes, "MPI_Init failed");
        return false;
    }
    is_ours = !is_running;
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
    (void)PMPI_Comm_size(MPI_COMM_WORLD, &place->size);
    int cores = gy_mpi_cores_of(MPI_COMM_WORLD);
    if (!is_one_host()) {
        snprintf(why, why_bytes,
                 "the %d ranks are on several hosts: under this launcher they must share one; "
                 "gyre run starts ranks on several",
                 place->size);
        return false;
    }
    int where[2] = {(int)getpid(), -1};
    gy_segment_options options = {.ranks = place->size, .host_cores = cores};
    if (place->rank == 0 && gy_segment_make(&options, &segment) == GY_OK) {
        where[1] = segment;
    }
    (void)PMPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
    place->process = where[0];
    place->segment = where[1];
    if (where[1] < 0) {
        snprintf(why, why_bytes, "rank 0 cannot make shared memory: %s", gy_error_text());
    }
    return where[1] >= 0;
}

static bool have_all_joined(bool has_joined)
{
    int mine = has_joined, all = 0;
    (void)PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (segment >= 0) {
        close(segment);
        segment = -1;
    }
    return all != 0;
}

static void leave_world(void)
{
    int is_over = 0;
    (void)PMPI_Finalized(&is_over);
    if (is_ours && !is_over) {
        (void)PMPI_Finalize();
    }
}

GY_MPI_API extern const gy_foreign_run gy_foreign;
const gy_foreign_run gy_foreign = {.version = GY_FOREIGN_VERSION,
                                   .join = join_world,
                                   .met = have_all_joined,
                                   .leave = leave_world};
