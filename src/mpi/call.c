/*
 * Decides about a collective by its arguments: Gyre executes it, the library does, or it is
 * wrong.
 *
 * The library gets calls by what MPI requires to be the same on all ranks (a reduction that
 * Gyre lacks, an empty call). A fact that only one rank can see must not send that rank to the
 * library while its peers wait here: wrong arguments end as an error on this rank, and its
 * peers are informed in their call.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

/* MPICH refuses a result at the input's address unless MPI_IN_PLACE is given; Open MPI accepts
 * it, except for a reduction to a root. Gyre behaves like the library that the program was
 * built for. */
static bool refuses_aliases(gy_pull_kind kind)
{
#ifdef OPEN_MPI
    return kind == GY_PULL_REDUCE;
#else
    (void)kind;
    return true;
#endif
}

/* Absolute addresses begin at 0, so data of a derived type may be at MPI_BOTTOM. */
static bool is_buffer(const gy_mpi_span *span)
{
    return span->bytes == 0 || !span->is_plain || span->data != NULL;
}

static bool is_aliased(const gy_pull *pull, const gy_mpi_call *call)
{
    return call->send == call->recv && call->send != NULL && refuses_aliases(pull->kind);
}

/* Make the span of a number of elements, or return the error. */
static int span_into(const void *data, int64_t count, MPI_Datatype type, gy_mpi_span *span)
{
    int code = gy_mpi_span_of(data, count, type, span);
    return code == MPI_SUCCESS && (data == MPI_IN_PLACE || !is_buffer(span)) && span->bytes > 0
               ? MPI_ERR_BUFFER
               : code;
}

/* A reduction's type and operation are the same on all ranks, so all of them leave unsupported
 * ones to the library; null handles are always wrong. */
static int find_fold(const gy_mpi_call *call, gy_pull *pull)
{
    if (call->recv_type == MPI_DATATYPE_NULL) {
        return MPI_ERR_TYPE;
    }
    if (call->op == MPI_OP_NULL) {
        return MPI_ERR_OP;
    }
    return gy_mpi_fold_of(call->recv_type, call->op, &pull->fold) ? MPI_SUCCESS : GY_MPI_LEFT;
}

/* allreduce, reduce: all ranks contribute `recv_count` elements. */
static int prepare_reduction(const gy_mpi_context *door, const gy_mpi_call *call, gy_pull *pull)
{
    bool gets = pull->kind == GY_PULL_ALLREDUCE || door->rank == call->root;
    bool is_in_place = call->send == MPI_IN_PLACE;
    const void *from = is_in_place ? call->recv : call->send;
    GY_MPI_TRY(call->recv_count < 0 ? MPI_ERR_COUNT : find_fold(call, pull));
    if (call->recv_count == 0) {
        return GY_MPI_LEFT;
    }
    if (is_in_place && !gets) {
        return MPI_ERR_BUFFER;
    }
    GY_MPI_TRY(span_into(from, call->recv_count, call->recv_type, &pull->give));
    pull->take = pull->give;
    if (gets) {
        GY_MPI_TRY(span_into(call->recv, call->recv_count, call->recv_type, &pull->take));
        GY_MPI_TRY(is_aliased(pull, call) ? MPI_ERR_BUFFER : MPI_SUCCESS);
    }
    pull->take.data = call->recv;
    pull->is_in_place = is_in_place;
    return MPI_SUCCESS;
}

/* without counts: recv_count for each rank. */
static int prepare_reduce_scatter(const gy_mpi_context *door, const gy_mpi_call *call,
                                  gy_pull *pull)
{
    bool is_in_place = call->send == MPI_IN_PLACE, has_counts = gy_mpi_has(&call->counts);
    bool is_even = true;
    int64_t all = 0, before = 0, first = has_counts ? gy_mpi_at(&call->counts, 0) : 0;
    int64_t own = has_counts ? gy_mpi_at(&call->counts, door->rank) : call->recv_count;
    GY_MPI_TRY(find_fold(call, pull));
    for (int rank = 0; rank < door->size; rank++) {
        int64_t count = has_counts ? gy_mpi_at(&call->counts, rank) : call->recv_count;
        before += rank < door->rank ? count : 0;
        all += count;
        is_even = is_even && (!has_counts || count == first);
        GY_MPI_TRY(count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS);
    }
    if (all == 0) {
        return GY_MPI_LEFT;
    }
    const void *from = is_in_place ? call->recv : call->send;
    GY_MPI_TRY(span_into(from, all, call->recv_type, &pull->give));
    GY_MPI_TRY(span_into(call->recv, own, call->recv_type, &pull->take));
    GY_MPI_TRY(is_aliased(pull, call) ? MPI_ERR_BUFFER : MPI_SUCCESS);
    pull->offset = (size_t)before * pull->give.element;
    pull->is_even = is_even;
    pull->is_in_place = is_in_place;
    return MPI_SUCCESS;
}

static int prepare_broadcast(const gy_mpi_context *door, const gy_mpi_call *call, gy_pull *pull)
{
    GY_MPI_TRY(span_into(call->recv, call->recv_count, call->recv_type, &pull->take));
    if (pull->take.bytes == 0) {
        return GY_MPI_LEFT;
    }
    pull->give = pull->take;
    if (door->rank != call->root) {
        pull->give.count = 0;
        pull->give.bytes = 0;
    }
    return MPI_SUCCESS;
}

/* The input of an in-place allgather: the own part of the result. */
static int span_own_part(const gy_mpi_context *door, const gy_mpi_call *call, gy_pull *pull)
{
    bool has_counts = gy_mpi_has(&call->counts);
    int64_t count = has_counts ? gy_mpi_at(&call->counts, door->rank) : call->recv_count;
    int64_t first = has_counts ? gy_mpi_at(&call->displacements, door->rank)
                               : door->rank * call->recv_count;
    return gy_mpi_span_of((const uint8_t *)call->recv + first * pull->take.extent, count,
                          call->recv_type, &pull->give);
}

/* MPICH checks whether the input is where the own part of the result will be. */
static bool is_own_part(const gy_mpi_call *call, const gy_pull *pull, const gy_mpi_span *part)
{
    return call->send == part->data && part->data != NULL && part->bytes > 0 &&
           call->send_type == call->recv_type && refuses_aliases(pull->kind);
}

static int prepare_allgather(const gy_mpi_context *door, const gy_mpi_call *call, gy_pull *pull)
{
    int64_t all = 0;
    bool has_counts = gy_mpi_has(&call->counts);
    for (int rank = 0; rank < door->size; rank++) {
        int64_t count = has_counts ? gy_mpi_at(&call->counts, rank) : call->recv_count;
        GY_MPI_TRY(count < 0 ? MPI_ERR_COUNT : MPI_SUCCESS);
        all += count;
    }
    if (has_counts && !gy_mpi_has(&call->displacements)) {
        return MPI_ERR_ARG;
    }
    pull->counts = call->counts;
    pull->displacements = call->displacements;
    pull->is_in_place = call->send == MPI_IN_PLACE;
    GY_MPI_TRY(span_into(call->recv, has_counts ? all > 0 : call->recv_count, call->recv_type,
                         &pull->take));
    GY_MPI_TRY(span_own_part(door, call, pull));
    gy_mpi_span own = pull->give;
    if (!pull->is_in_place) {
        GY_MPI_TRY(span_into(call->send, call->send_count, call->send_type, &pull->give));
        GY_MPI_TRY(pull->give.bytes != own.bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        GY_MPI_TRY(is_own_part(call, pull, &own) ? MPI_ERR_BUFFER : MPI_SUCCESS);
    }
    return all == 0 || pull->take.bytes == 0 ? GY_MPI_LEFT : MPI_SUCCESS;
}

static int prepare_alltoall(const gy_mpi_context *door, const gy_mpi_call *call, gy_pull *pull)
{
    bool is_in_place = call->send == MPI_IN_PLACE;
    const void *from = is_in_place ? call->recv : call->send;
    int64_t count = is_in_place ? call->recv_count : call->send_count;
    MPI_Datatype type = is_in_place ? call->recv_type : call->send_type;
    GY_MPI_TRY(span_into(from, count * door->size, type, &pull->give));
    GY_MPI_TRY(span_into(call->recv, call->recv_count, call->recv_type, &pull->take));
    if (pull->give.bytes != pull->take.bytes * (size_t)door->size) {
        return MPI_ERR_TRUNCATE;
    }
    if (pull->take.bytes == 0) {
        return GY_MPI_LEFT;
    }
    return pull->take.is_plain && is_aliased(pull, call) ? MPI_ERR_BUFFER : MPI_SUCCESS;
}

int gy_mpi_prepare(gy_mpi_context *door, gy_pull_kind kind, const gy_mpi_call *call,
                   gy_pull *pull)
{
    bool has_root = kind == GY_PULL_REDUCE || kind == GY_PULL_BROADCAST;
    *pull = (gy_pull){.kind = kind, .root = call->root, .request = MPI_REQUEST_NULL};
    if (door == NULL) {
        return GY_MPI_LEFT;
    }
    pull->door = door;
    if (has_root && (call->root < 0 || call->root >= door->size)) {
        return MPI_ERR_ROOT;
    }
    switch (kind) {
    case GY_PULL_ALLREDUCE:
    case GY_PULL_REDUCE:
        return prepare_reduction(door, call, pull);
    case GY_PULL_REDUCE_SCATTER:
        return call->lacks_counts ? MPI_ERR_ARG : prepare_reduce_scatter(door, call, pull);
    case GY_PULL_ALLGATHER:
        return call->lacks_counts ? MPI_ERR_ARG : prepare_allgather(door, call, pull);
    case GY_PULL_BROADCAST:
        return prepare_broadcast(door, call, pull);
    case GY_PULL_ALLTOALL:
        return prepare_alltoall(door, call, pull);
    case GY_PULL_BARRIER:
    default:
        return MPI_SUCCESS;
    }
}
