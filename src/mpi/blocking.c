/*
 * The blocking collectives. Those that Gyre's communicator has run on it; what it lacks (parts
 * of different sizes, all-to-all, truth values) and reductions to one rank run as pulls.
 */
#include "mpi/door_priv.h"

#include "base/base.h"

#include <string.h>

enum { SMALL_BYTES = 8192 }; /* what Gyre's communicator does in one meeting */

static int run_coll(const gy_door *door, const gy_coll_call *call)
{
    gy_status status = gy_coll_run(door->coll, call);
    gy_mpi_count(true);
    return status == GY_OK ? MPI_SUCCESS : gy_door_fail(door, status);
}

static int run_pull(gy_pull *pull)
{
    gy_mpi_count(true);
    return gy_pull_run(pull);
}

static void *take_memory(const gy_door *door, size_t bytes)
{
    return gy_pool_take(gy_comm_pool(door->coll), bytes);
}

static void give_memory(const gy_door *door, void *memory)
{
    if (memory != NULL) {
        gy_pool_give(gy_comm_pool(door->coll), memory);
    }
}

static size_t items_of(const gy_pull *pull, size_t bytes)
{
    return bytes / pull->fold.item_bytes;
}

static int allreduce_by_pull(gy_door *door, const gy_mpi_call *call)
{
    gy_pull pull;
    bool is_possible = gy_mpi_prepare(door, GY_PULL_ALLREDUCE, call, &pull);
    GY_ASSERT(is_possible);
    return run_pull(&pull);
}

/* The most called: straight to the communicator, a small message costs as much as some looks.
 */
GY_MPI_API int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count,
                             MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    gy_mpi_fold fold;
    gy_door *door = gy_door_of(comm, true);
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    bool is_taken = door != NULL && count > 0 && in != NULL && recvbuf != NULL &&
                    sendbuf != recvbuf && gy_mpi_fold_of(datatype, op, &fold);
    if (!is_taken) {
        gy_mpi_count(false);
        return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    }
    if (!fold.is_plain) {
        return allreduce_by_pull(door, &(gy_mpi_call){.send = sendbuf,
                                                      .recv = recvbuf,
                                                      .recv_count = count,
                                                      .recv_type = datatype,
                                                      .op = op});
    }
    return run_coll(door, &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                          .dtype = fold.dtype,
                                          .reduction = fold.reduction,
                                          .count = (size_t)count * fold.items,
                                          .in = in,
                                          .out = recvbuf});
}

GY_MPI_API int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                          MPI_Op op, int root, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .recv_count = count,
                        .recv_type = datatype,
                        .op = op,
                        .root = root};
    gy_door *door = gy_door_of(comm, true);
    if (!gy_mpi_prepare(door, GY_PULL_REDUCE, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
    }
    if (!pull.fold.is_plain || pull.give.bytes > SMALL_BYTES) {
        return run_pull(&pull);
    }
    return run_coll(door, &(gy_coll_call){.operation = GY_OPERATION_REDUCE,
                                          .dtype = pull.fold.dtype,
                                          .reduction = pull.fold.reduction,
                                          .root = root,
                                          .count = items_of(&pull, pull.give.bytes),
                                          .in = pull.give.data,
                                          .out = recvbuf});
}

/* Equal parts. The result of an in-place call lies where other ranks' parts are still read. */
static int scatter_evenly(const gy_door *door, const gy_pull *pull)
{
    void *out = pull->is_in_place ? take_memory(door, pull->take.bytes) : pull->take.data;
    if (out == NULL) {
        return gy_door_fail(door, GY_NOMEM);
    }
    int code = run_coll(door, &(gy_coll_call){.operation = GY_OPERATION_REDUCE_SCATTER,
                                              .dtype = pull->fold.dtype,
                                              .reduction = pull->fold.reduction,
                                              .count = items_of(pull, pull->take.bytes),
                                              .in = pull->give.data,
                                              .out = out});
    if (pull->is_in_place) {
        if (code == MPI_SUCCESS) {
            memcpy(pull->take.data, out, pull->take.bytes);
        }
        give_memory(door, out);
    }
    return code;
}

GY_MPI_API int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .recv_count = recvcount,
                        .recv_type = datatype,
                        .op = op};
    gy_door *door = gy_door_of(comm, true);
    if (!gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm);
    }
    return pull.fold.is_plain ? scatter_evenly(door, &pull) : run_pull(&pull);
}

GY_MPI_API int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                  MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .counts = recvcounts,
                        .recv_type = datatype,
                        .op = op};
    gy_door *door = gy_door_of(comm, true);
    if (recvcounts == NULL || !gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm);
    }
    bool is_even = pull.fold.is_plain;
    for (int rank = 1; rank < door->size && is_even; rank++) {
        is_even = recvcounts[rank] == recvcounts[0];
    }
    return is_even ? scatter_evenly(door, &pull) : run_pull(&pull);
}

/* Types with gaps go through memory without. */
static int broadcast(const gy_door *door, const gy_pull *pull)
{
    const gy_mpi_span *span = &pull->take;
    bool is_root = door->rank == pull->root;
    void *data = span->is_plain ? span->data : take_memory(door, span->bytes);
    if (data == NULL) {
        return gy_door_fail(door, GY_NOMEM);
    }
    int code = is_root && !span->is_plain ? gy_mpi_pack(span, data) : MPI_SUCCESS;
    if (code == MPI_SUCCESS) {
        code = run_coll(door, &(gy_coll_call){.operation = GY_OPERATION_BROADCAST,
                                              .dtype = GY_U8,
                                              .root = pull->root,
                                              .count = span->bytes,
                                              .in = data,
                                              .out = data});
    }
    if (!span->is_plain) {
        if (code == MPI_SUCCESS && !is_root) {
            code = gy_mpi_unpack(span, 0, span->count, data);
        }
        give_memory(door, data);
    }
    return code;
}

GY_MPI_API int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root,
                         MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {
        .recv = buffer, .recv_count = count, .recv_type = datatype, .root = root};
    gy_door *door = gy_door_of(comm, true);
    if (!gy_mpi_prepare(door, GY_PULL_BROADCAST, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Bcast(buffer, count, datatype, root, comm);
    }
    return broadcast(door, &pull);
}

static int gather_evenly(const gy_door *door, const gy_pull *pull)
{
    const gy_mpi_span *give = &pull->give, *take = &pull->take;
    size_t ranks = (size_t)door->size;
    void *in = give->is_plain ? give->data : take_memory(door, give->bytes);
    void *out = take->is_plain ? take->data : take_memory(door, take->bytes * ranks);
    int code = in == NULL || out == NULL ? gy_door_fail(door, GY_NOMEM) : MPI_SUCCESS;
    if (code == MPI_SUCCESS && !give->is_plain) {
        code = gy_mpi_pack(give, in);
    }
    if (code == MPI_SUCCESS) {
        code = run_coll(door, &(gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                                              .dtype = GY_U8,
                                              .count = give->bytes,
                                              .in = in,
                                              .out = out});
    }
    for (int rank = 0; rank < door->size && code == MPI_SUCCESS && !take->is_plain; rank++) {
        code = gy_mpi_unpack(take, (MPI_Aint)rank * take->count, take->count,
                             (const uint8_t *)out + (size_t)rank * take->bytes);
    }
    give_memory(door, give->is_plain ? NULL : in);
    give_memory(door, take->is_plain ? NULL : out);
    return code;
}

GY_MPI_API int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                             void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .recv_count = recvcount,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_door *door = gy_door_of(comm, true);
    if (!gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    }
    return gather_evenly(door, &pull);
}

GY_MPI_API int MPI_Allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                              void *recvbuf, const int recvcounts[], const int displs[],
                              MPI_Datatype recvtype, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .counts = recvcounts,
                        .displacements = displs,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_door *door = gy_door_of(comm, true);
    if (recvcounts == NULL || !gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                               recvtype, comm);
    }
    return run_pull(&pull);
}

GY_MPI_API int MPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                            void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .recv_count = recvcount,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_door *door = gy_door_of(comm, true);
    if (!gy_mpi_prepare(door, GY_PULL_ALLTOALL, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    }
    return run_pull(&pull);
}

GY_MPI_API int MPI_Barrier(MPI_Comm comm)
{
    gy_door *door = gy_door_of(comm, true);
    if (door == NULL) {
        gy_mpi_count(false);
        return PMPI_Barrier(comm);
    }
    return run_coll(door, &(gy_coll_call){.operation = GY_OPERATION_BARRIER, .dtype = GY_U8});
}
