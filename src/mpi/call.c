/* What the arguments of a collective mean: taken over, and how, or left to the library. */
#include "mpi/door_priv.h"

#include "base/base.h"

/* The library refuses some of these; where it does not, it knows what is meant. */
static bool is_buffer(const void *data, size_t bytes)
{
    return bytes == 0 || data != NULL;
}

static bool are_apart(const void *a, const void *b)
{
    return a != b && a != NULL && b != NULL;
}

/* allreduce, reduce: all give `recv_count` elements. */
static bool prepare_reduction(const gy_door *door, const gy_mpi_call *call, gy_pull *pull)
{
    bool gets = pull->kind == GY_PULL_ALLREDUCE || door->rank == call->root;
    bool is_in_place = call->send == MPI_IN_PLACE;
    const void *from = is_in_place ? call->recv : call->send;
    if (!gy_mpi_fold_of(call->recv_type, call->op, &pull->fold) ||
        !gy_mpi_span_of(from, call->recv_count, call->recv_type, &pull->give) ||
        pull->give.bytes == 0 || (is_in_place && !gets) || from == NULL ||
        (gets && !is_in_place && !are_apart(call->send, call->recv))) {
        return false;
    }
    pull->take = pull->give;
    pull->take.data = call->recv;
    pull->is_in_place = is_in_place;
    return true;
}

/* counts NULL: recv_count for each rank. */
static bool prepare_reduce_scatter(const gy_door *door, const gy_mpi_call *call, gy_pull *pull)
{
    bool is_in_place = call->send == MPI_IN_PLACE;
    int64_t all = 0, before = 0;
    int own = call->counts != NULL ? call->counts[door->rank] : call->recv_count;
    for (int rank = 0; rank < door->size; rank++) {
        int count = call->counts != NULL ? call->counts[rank] : call->recv_count;
        before += rank < door->rank ? count : 0;
        all += count;
        if (count < 0) {
            return false;
        }
    }
    const void *from = is_in_place ? call->recv : call->send;
    if (all == 0 || all > INT32_MAX ||
        !gy_mpi_fold_of(call->recv_type, call->op, &pull->fold) ||
        !gy_mpi_span_of(from, (int)all, call->recv_type, &pull->give) ||
        !gy_mpi_span_of(call->recv, own, call->recv_type, &pull->take) ||
        pull->give.bytes == 0 || from == NULL || !is_buffer(call->recv, pull->take.bytes) ||
        call->send == call->recv) {
        return false;
    }
    pull->offset = (size_t)before * (pull->give.bytes / (size_t)all);
    pull->is_in_place = is_in_place;
    return true;
}

static bool prepare_broadcast(const gy_door *door, const gy_mpi_call *call, gy_pull *pull)
{
    if (!gy_mpi_span_of(call->recv, call->recv_count, call->recv_type, &pull->take) ||
        pull->take.bytes == 0 || (pull->take.is_plain && call->recv == NULL)) {
        return false;
    }
    pull->give = pull->take;
    if (door->rank != call->root) {
        pull->give.count = 0;
        pull->give.bytes = 0;
    }
    return true;
}

/* What an in-place allgather gives: the own part of the result. */
static bool span_own_part(const gy_door *door, const gy_mpi_call *call, gy_pull *pull)
{
    int count = call->counts != NULL ? call->counts[door->rank] : call->recv_count;
    MPI_Aint first = call->counts != NULL ? call->displacements[door->rank]
                                          : (MPI_Aint)door->rank * call->recv_count;
    return gy_mpi_span_of((const uint8_t *)call->recv + first * pull->take.extent, count,
                          call->recv_type, &pull->give);
}

static bool prepare_allgather(const gy_door *door, const gy_mpi_call *call, gy_pull *pull)
{
    int64_t all = 0;
    int own = call->recv_count;
    if (call->counts != NULL) {
        for (int rank = 0; rank < door->size; rank++) {
            if (call->counts[rank] < 0) {
                return false;
            }
            all += call->counts[rank];
        }
        own = call->counts[door->rank];
    } else {
        all = (int64_t)door->size * call->recv_count;
    }
    size_t element = 0;
    if (all <= 0 || (call->counts != NULL && call->displacements == NULL) ||
        !gy_mpi_type_bytes(call->recv_type, &element) || element == 0 ||
        !gy_mpi_span_of(call->recv, call->counts != NULL ? 1 : call->recv_count,
                        call->recv_type, &pull->take) ||
        (pull->take.is_plain && call->recv == NULL)) {
        return false;
    }
    pull->counts = call->counts;
    pull->displacements = call->displacements;
    pull->is_in_place = call->send == MPI_IN_PLACE;
    if (pull->is_in_place) {
        return span_own_part(door, call, pull);
    }
    return gy_mpi_span_of(call->send, call->send_count, call->send_type, &pull->give) &&
           pull->give.bytes == element * (size_t)own &&
           (!pull->give.is_plain || is_buffer(call->send, pull->give.bytes)) &&
           call->send != call->recv;
}

static bool prepare_alltoall(const gy_door *door, const gy_mpi_call *call, gy_pull *pull)
{
    bool is_in_place = call->send == MPI_IN_PLACE;
    const void *from = is_in_place ? call->recv : call->send;
    int count = is_in_place ? call->recv_count : call->send_count;
    MPI_Datatype type = is_in_place ? call->recv_type : call->send_type;
    if (count < 0 || count > INT32_MAX / door->size ||
        !gy_mpi_span_of(from, count * door->size, type, &pull->give) ||
        !gy_mpi_span_of(call->recv, call->recv_count, call->recv_type, &pull->take)) {
        return false;
    }
    return pull->take.bytes > 0 && pull->give.bytes == pull->take.bytes * (size_t)door->size &&
           (!pull->give.is_plain || from != NULL) &&
           (!pull->take.is_plain || call->recv != NULL) && call->send != call->recv;
}

bool gy_mpi_prepare(gy_door *door, gy_pull_kind kind, const gy_mpi_call *call, gy_pull *pull)
{
    bool has_root = kind == GY_PULL_REDUCE || kind == GY_PULL_BROADCAST;
    *pull = (gy_pull){.kind = kind, .root = call->root, .request = MPI_REQUEST_NULL};
    if (door == NULL || (has_root && (call->root < 0 || call->root >= door->size))) {
        return false;
    }
    pull->door = door;
    switch (kind) {
    case GY_PULL_ALLREDUCE:
    case GY_PULL_REDUCE:
        return prepare_reduction(door, call, pull);
    case GY_PULL_REDUCE_SCATTER:
        return prepare_reduce_scatter(door, call, pull);
    case GY_PULL_ALLGATHER:
        return prepare_allgather(door, call, pull);
    case GY_PULL_BROADCAST:
        return prepare_broadcast(door, call, pull);
    case GY_PULL_ALLTOALL:
        return prepare_alltoall(door, call, pull);
    case GY_PULL_BARRIER:
    default:
        return true;
    }
}
