/*
 * The blocking collectives. Gyre's communicator executes the operations that it has; others
 * (parts of different sizes, all-to-all, logical values) and reductions to one rank run as
 * pulls.
 *
 * How a call runs depends only on what is the same on all ranks. Anything else, such as
 * overlapping buffers on this rank, is solved with a copy; where even that fails, this rank
 * skips the collective's number.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <string.h>

enum { SMALL_BYTES = 8192 }; /* what Gyre's communicator does with a single synchronisation */

static int run_coll(gy_mpi_context *door, gy_pull_kind kind, const gy_coll_call *call)
{
    uint64_t number = gy_comm_next(door->coll);
    gy_status status = gy_coll_run(door->coll, call);
    gy_mpi_count(true);
    if (status != GY_OK && gy_comm_next(door->coll) == number) {
        gy_mpi_context_skip(door, GY_WHY_WRONG, kind); /* refused before it began */
    }
    return status == GY_OK ? MPI_SUCCESS : gy_mpi_context_fail(door, status);
}

static int run_pull(gy_pull *pull)
{
    gy_mpi_count(true);
    return gy_pull_run(pull);
}

static void *take_memory(const gy_mpi_context *door, size_t bytes)
{
    return gy_pool_take(gy_comm_pool(door->coll), bytes);
}

static void give_memory(const gy_mpi_context *door, void *memory)
{
    if (memory != NULL) {
        gy_pool_give(gy_comm_pool(door->coll), memory);
    }
}

static size_t items_of(const gy_pull *pull, size_t bytes)
{
    return bytes / pull->fold.item_bytes;
}

static bool are_apart(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return first + a_bytes <= second || second + b_bytes <= first;
}

/* allreduce, reduce: in place, or with separate buffers; otherwise the input is copied. */
static int reduce(gy_pull *pull, gy_operation operation)
{
    gy_mpi_context *door = pull->door;
    size_t bytes = pull->give.bytes;
    bool gets = operation == GY_OPERATION_ALLREDUCE || door->rank == pull->root;
    const void *in = pull->give.data;
    void *copy = NULL;
    if (gets && in != pull->take.data && !are_apart(in, bytes, pull->take.data, bytes)) {
        copy = take_memory(door, bytes);
        if (copy == NULL) {
            return gy_mpi_context_refuse(door, pull->kind, MPI_ERR_NO_MEM);
        }
        memcpy(copy, in, bytes);
    }
    int code = run_coll(door, pull->kind,
                        &(gy_coll_call){.operation = operation,
                                        .dtype = pull->fold.dtype,
                                        .reduction = pull->fold.reduction,
                                        .root = pull->root,
                                        .count = items_of(pull, bytes),
                                        .in = copy != NULL ? copy : in,
                                        .out = pull->take.data});
    give_memory(door, copy);
    return code;
}

/* Equal parts. A result inside the input, where other ranks' parts are still to be read, is
 * first received elsewhere. */
static int scatter_evenly(gy_pull *pull)
{
    gy_mpi_context *door = pull->door;
    bool is_beside =
        !are_apart(pull->give.data, pull->give.bytes, pull->take.data, pull->take.bytes);
    void *out = is_beside ? take_memory(door, pull->take.bytes) : pull->take.data;
    if (out == NULL) {
        return gy_mpi_context_refuse(door, pull->kind, MPI_ERR_NO_MEM);
    }
    int code = run_coll(door, pull->kind,
                        &(gy_coll_call){.operation = GY_OPERATION_REDUCE_SCATTER,
                                        .dtype = pull->fold.dtype,
                                        .reduction = pull->fold.reduction,
                                        .count = items_of(pull, pull->take.bytes),
                                        .in = pull->give.data,
                                        .out = out});
    if (is_beside) {
        if (code == MPI_SUCCESS) {
            memcpy(pull->take.data, out, pull->take.bytes);
        }
        give_memory(door, out);
    }
    return code;
}

/* Types with gaps are packed into contiguous memory. */
static int broadcast(gy_pull *pull)
{
    gy_mpi_context *door = pull->door;
    const gy_mpi_span *span = &pull->take;
    bool is_root = door->rank == pull->root;
    void *data = span->is_plain ? span->data : take_memory(door, span->bytes);
    int code = data == NULL                 ? MPI_ERR_NO_MEM
               : is_root && !span->is_plain ? gy_mpi_pack(span, data)
                                            : MPI_SUCCESS;
    code = code != MPI_SUCCESS ? gy_mpi_context_refuse(door, pull->kind, code)
                               : run_coll(door, pull->kind,
                                          &(gy_coll_call){.operation = GY_OPERATION_BROADCAST,
                                                          .dtype = GY_U8,
                                                          .root = pull->root,
                                                          .count = span->bytes,
                                                          .in = data,
                                                          .out = data});
    if (!span->is_plain) {
        if (code == MPI_SUCCESS && !is_root) {
            code = gy_mpi_unpack(span, 0, span->count, data);
        }
        give_memory(door, data);
    }
    return code;
}

/* The input of an allgather without gaps; `*copy` becomes a copy of it where the result would
 * overwrite it, except that the own part may be in its place already. NULL: out of memory, or
 * *code. */
static void *lay_out(const gy_pull *pull, void **copy, int *code)
{
    const gy_mpi_context *door = pull->door;
    const gy_mpi_span *give = &pull->give, *take = &pull->take;
    const uint8_t *own = (const uint8_t *)take->data + (size_t)door->rank * take->bytes;
    bool is_clear =
        !take->is_plain || give->data == own ||
        are_apart(give->data, give->bytes, take->data, take->bytes * (size_t)door->size);
    if (give->is_plain && is_clear) {
        return give->data;
    }
    *copy = take_memory(door, give->bytes);
    if (*copy != NULL) {
        *code = gy_mpi_pack(give, *copy);
    }
    return *copy;
}

static int gather_evenly(gy_pull *pull)
{
    gy_mpi_context *door = pull->door;
    const gy_mpi_span *take = &pull->take;
    size_t ranks = (size_t)door->size;
    int code = MPI_SUCCESS;
    void *copy = NULL, *in = lay_out(pull, &copy, &code);
    void *out = take->is_plain ? take->data : take_memory(door, take->bytes * ranks);
    code = in == NULL || out == NULL ? MPI_ERR_NO_MEM : code;
    code = code != MPI_SUCCESS ? gy_mpi_context_refuse(door, pull->kind, code)
                               : run_coll(door, pull->kind,
                                          &(gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                                                          .dtype = GY_U8,
                                                          .count = pull->give.bytes,
                                                          .in = in,
                                                          .out = out});
    for (int rank = 0; rank < door->size && code == MPI_SUCCESS && !take->is_plain; rank++) {
        code = gy_mpi_unpack(take, (MPI_Aint)(rank * take->count), take->count,
                             (const uint8_t *)out + (size_t)rank * take->bytes);
    }
    give_memory(door, copy);
    give_memory(door, take->is_plain ? NULL : out);
    return code;
}

int gy_mpi_run(gy_pull *pull, int code)
{
    if (code != MPI_SUCCESS) {
        return gy_mpi_context_refuse(pull->door, pull->kind, code);
    }
    switch (pull->kind) {
    case GY_PULL_ALLREDUCE:
        return pull->fold.is_plain ? reduce(pull, GY_OPERATION_ALLREDUCE) : run_pull(pull);
    case GY_PULL_REDUCE:
        return pull->fold.is_plain && pull->give.bytes <= SMALL_BYTES
                   ? reduce(pull, GY_OPERATION_REDUCE)
                   : run_pull(pull);
    case GY_PULL_REDUCE_SCATTER:
        return pull->fold.is_plain && pull->is_even ? scatter_evenly(pull) : run_pull(pull);
    case GY_PULL_BROADCAST:
        return broadcast(pull);
    case GY_PULL_ALLGATHER:
        return gy_mpi_has(&pull->counts) ? run_pull(pull) : gather_evenly(pull);
    case GY_PULL_BARRIER:
        return run_coll(pull->door, pull->kind,
                        &(gy_coll_call){.operation = GY_OPERATION_BARRIER, .dtype = GY_U8});
    case GY_PULL_ALLTOALL:
    default:
        return run_pull(pull);
    }
}

/* ---- The entry that is not in entries.c ---- */

/* The most frequent call goes directly to the communicator, because for a small message even
 * some checks matter. */
GY_MPI_API int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count,
                             MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    gy_mpi_fold fold;
    gy_pull pull;
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    bool is_simple = door != NULL && count > 0 && in != NULL && recvbuf != NULL &&
                     recvbuf != MPI_IN_PLACE && sendbuf != recvbuf &&
                     gy_mpi_fold_of(datatype, op, &fold) && fold.is_plain;
    size_t bytes = is_simple ? (size_t)count * fold.items * fold.item_bytes : 0;
    if (is_simple && (in == recvbuf || are_apart(in, bytes, recvbuf, bytes))) {
        return run_coll(door, GY_PULL_ALLREDUCE,
                        &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                        .dtype = fold.dtype,
                                        .reduction = fold.reduction,
                                        .count = (size_t)count * fold.items,
                                        .in = in,
                                        .out = recvbuf});
    }
    gy_mpi_call call = {
        .send = sendbuf, .recv = recvbuf, .recv_count = count, .recv_type = datatype, .op = op};
    int code = gy_mpi_prepare(door, GY_PULL_ALLREDUCE, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLREDUCE);
        return gy_pmpi.Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Allreduce)
