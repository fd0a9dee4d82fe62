/* Gyre's own ranks under an MPI's launcher: they find each other through MPI, then share
 * memory or send messages. */
#include "mpi/mpi_priv.h"

#include "base/base.h"
#include "transport/foreign.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int segment = -1; /* descriptor of a host's first rank, until all have joined */
static bool is_ours;     /* this code called MPI_Init */
static bool is_lost;     /* MPI_Finalize would hang, so let the launcher end the others */
static int32_t *hosts;   /* (size) */
static MPI_Comm lanes = MPI_COMM_NULL;

/* ---- Packets ---- */

static bool is_past(MPI_Request request, gy_carried *packet)
{
    static_assert(sizeof(request) <= sizeof(*packet), "a request fits");
    memcpy(packet, &request, sizeof(request));
    return true;
}

static bool send_packet(void *context, int to, int lane, const void *data, size_t size_bytes,
                        gy_carried *packet)
{
    MPI_Request request = MPI_REQUEST_NULL;
    (void)context;
    return PMPI_Isend(data, (int)size_bytes, MPI_BYTE, to, lane, lanes, &request) ==
               MPI_SUCCESS &&
           is_past(request, packet);
}

static bool receive_packet(void *context, int from, int lane, void *data, size_t size_bytes,
                           gy_carried *packet)
{
    MPI_Request request = MPI_REQUEST_NULL;
    (void)context;
    return PMPI_Irecv(data, (int)size_bytes, MPI_BYTE, from, lane, lanes, &request) ==
               MPI_SUCCESS &&
           is_past(request, packet);
}

static bool look_for_packet(void *context, int *from, int lane, size_t *size_bytes)
{
    int is_here = 0, size = 0;
    MPI_Status status;
    (void)context;
    if (PMPI_Iprobe(*from == GY_CARRIER_ANY ? MPI_ANY_SOURCE : *from, lane, lanes, &is_here,
                    &status) != MPI_SUCCESS ||
        !is_here || PMPI_Get_count(&status, MPI_BYTE, &size) != MPI_SUCCESS) {
        return false;
    }
    *from = status.MPI_SOURCE;
    *size_bytes = (size_t)size;
    return true;
}

static bool is_packet_done(void *context, gy_carried *packet)
{
    MPI_Request request;
    int is_done = 0;
    (void)context;
    memcpy(&request, packet, sizeof(request));
    return gy_pmpi.Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done;
}

static void lose_packets(void *context)
{
    (void)context;
    is_lost = true;
}

/* ---- Meeting ---- */

/* Is it true on all ranks? */
static bool is_everywhere(bool mine)
{
    int fact = mine, all = 0;
    (void)gy_pmpi.Allreduce(&fact, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

/*
 * Numbers the hosts in the order of ranks. Launchers count hosts by names, which need not
 * differ: one is what sees the same /proc. False, alike on all ranks: no memory, or ranks of
 * different protocols; `why` says it.
 */
static bool find_hosts(gy_foreign_place *place, char *why, size_t why_bytes)
{
    size_t size = (size_t)place->size;
    uint64_t mine[2] = {GY_RANK_PROTOCOL, gy_mpi_host_identity()};
    uint64_t(*all)[2] = gy_alloc_zero("mpi.run", size, sizeof(*all));
    hosts = gy_alloc_zero("mpi.run", size, sizeof(*hosts));
    int32_t count = 0;
    if (!is_everywhere(all != NULL && hosts != NULL) || all == NULL || hosts == NULL) {
        gy_free(all);
        snprintf(why, why_bytes, "there is no memory for the table of %d ranks", place->size);
        return false;
    }
    (void)gy_pmpi.Allgather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, MPI_COMM_WORLD);
    bool is_one = true;
    for (size_t rank = 0; rank < size; rank++) {
        if (all[rank][0] != all[0][0]) {
            is_one = false;
            snprintf(why, why_bytes,
                     "ranks 0 and %zu have rank protocols %llu and %llu: expected one version "
                     "of Gyre for all ranks",
                     rank, (unsigned long long)all[0][0], (unsigned long long)all[rank][0]);
        }
        size_t first = 0;
        while (all[first][1] != all[rank][1]) {
            first++;
        }
        hosts[rank] = first < rank ? hosts[first] : count++;
        if (all[rank][1] == mine[1]) {
            place->first_rank = place->host_ranks == 0 ? (int)rank : place->first_rank;
            place->host_ranks++;
        }
    }
    place->hosts = hosts;
    if (!is_one) { /* nobody leaves what was not joined */
        gy_free(hosts);
        place->hosts = hosts = NULL;
    }
    gy_free(all);
    return is_one;
}

/* Are the ranks of each host consecutive, so that they can share its memory? */
static bool are_hosts_whole(const gy_foreign_place *place)
{
    bool are = true;
    for (int rank = 1; rank < place->size; rank++) {
        are = are && hosts[rank] >= hosts[rank - 1];
    }
    return are;
}

static bool share_memory(gy_foreign_place *place, MPI_Comm host)
{
    int where[2] = {(int)getpid(), -1};
    gy_transport_segment_options options = {.ranks = place->host_ranks,
                                            .first_rank = place->first_rank,
                                            .run_size = place->size,
                                            .host_cores = place->host_cores};
    if (place->rank == place->first_rank &&
        gy_transport_segment_make(&options, &segment) == GY_OK) {
        where[1] = segment;
    }
    (void)gy_pmpi.Bcast(where, 2, MPI_INT, 0, host);
    place->process = where[0];
    place->segment = where[1];
    return is_everywhere(where[1] >= 0);
}

static bool open_lanes(gy_foreign_place *place, int level)
{
    if (!is_everywhere(level >= MPI_THREAD_SERIALIZED) ||
        PMPI_Comm_dup(MPI_COMM_WORLD, &lanes) != MPI_SUCCESS) {
        return false;
    }
    (void)PMPI_Comm_set_errhandler(lanes, MPI_ERRORS_RETURN);
    place->has_carrier = true;
    place->carrier = (gy_carrier){.name = "mpi",
                                  .send = send_packet,
                                  .recv = receive_packet,
                                  .look = look_for_packet,
                                  .is_done = is_packet_done,
                                  .lose = lose_packets};
    return true;
}

static bool join_world(bool is_apart, gy_foreign_place *place, char *why, size_t why_bytes)
{
    int is_running = 0, level = MPI_THREAD_SINGLE;
    (void)PMPI_Initialized(&is_running);
    if (!is_running &&
        gy_pmpi.Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) {
        snprintf(why, why_bytes, "MPI_Init_thread failed");
        return false;
    }
    is_ours = !is_running;
    (void)PMPI_Query_thread(&level);
    *place = (gy_foreign_place){.segment = -1};
    (void)PMPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
    (void)PMPI_Comm_size(MPI_COMM_WORLD, &place->size);
    if (!find_hosts(place, why, why_bytes)) {
        return false;
    }
    MPI_Comm host = MPI_COMM_NULL;
    (void)PMPI_Comm_split(MPI_COMM_WORLD, hosts[place->rank], place->rank, &host);
    place->host_cores = gy_mpi_cores_of(host);
    bool is_shared = is_everywhere(!is_apart) && are_hosts_whole(place);
    bool is_ready = !is_shared || share_memory(place, host);
    if (!is_ready) {
        snprintf(why, why_bytes, "the first rank of a host cannot make shared memory: %s",
                 gy_error_text());
    }
    (void)gy_pmpi.Comm_free(&host);
    if (is_ready && (!is_shared || hosts[place->size - 1] > 0) && !open_lanes(place, level)) {
        snprintf(why, why_bytes, "this MPI cannot be called from several threads in turn");
        is_ready = false;
    }
    place->has_library =
        is_ready && gy_mpi_collect_open(is_everywhere(level >= MPI_THREAD_SERIALIZED));
    place->library = gy_mpi_library;
    return is_ready;
}

static bool have_all_joined(bool has_joined)
{
    bool have_all = is_everywhere(has_joined);
    if (segment >= 0) {
        close(segment);
        segment = -1;
    }
    return have_all;
}

static void leave_world(bool has_lost)
{
    int is_over = 0;
    is_lost = is_lost || has_lost;
    (void)PMPI_Finalized(&is_over);
    if (!is_over && !is_lost) {
        gy_mpi_collect_close();
    }
    if (lanes != MPI_COMM_NULL && !is_over && !is_lost) {
        /* MPICH over UCX sometimes hangs at its end if ranks enter it in different states. */
        (void)gy_pmpi.Barrier(lanes);
        (void)gy_pmpi.Comm_free(&lanes);
    }
    gy_free(hosts);
    hosts = NULL;
    if (is_ours && !is_over && !is_lost) {
        (void)gy_pmpi.Finalize();
    }
}

GY_MPI_API extern const gy_foreign_run gy_foreign;
const gy_foreign_run gy_foreign = {.version = GY_FOREIGN_VERSION,
                                   .join = join_world,
                                   .met = have_all_joined,
                                   .leave = leave_world};
