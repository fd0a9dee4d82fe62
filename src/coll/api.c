/* The public blocking calls. */
#include "coll/coll_priv.h"

gy_status gy_allreduce(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype,
                       gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                             .dtype = dtype,
                                             .reduction = reduction,
                                             .count = count,
                                             .in = in,
                                             .out = out});
}

gy_status gy_broadcast(gy_comm *comm, void *data, size_t count, gy_dtype dtype, int root)
{
    GY_COMM_EXPECT(comm);
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_BROADCAST,
                                             .dtype = dtype,
                                             .root = root,
                                             .count = count,
                                             .in = data,
                                             .out = data});
}

gy_status gy_allgather(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype)
{
    GY_COMM_EXPECT(comm);
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                                             .dtype = dtype,
                                             .count = count,
                                             .in = in,
                                             .out = out});
}

gy_status gy_reduce_scatter(gy_comm *comm, const void *in, void *out, size_t count,
                            gy_dtype dtype, gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_REDUCE_SCATTER,
                                             .dtype = dtype,
                                             .reduction = reduction,
                                             .count = count,
                                             .in = in,
                                             .out = out});
}

gy_status gy_barrier(gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    return gy_coll_run(comm,
                       &(gy_coll_call){.operation = GY_OPERATION_BARRIER, .dtype = GY_U8});
}

static gy_coll_call call_of(gy_operation operation, const gy_buffers *data)
{
    return (gy_coll_call){.operation = operation,
                          .dtype = data->dtype,
                          .count = data->count,
                          .in = data->in,
                          .out = data->out};
}

gy_status gy_reduce(gy_comm *comm, const gy_buffers *data, gy_reduction reduction, int root)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = call_of(GY_OPERATION_REDUCE, data);
    call.reduction = reduction;
    call.root = root;
    return gy_coll_run(comm, &call);
}

gy_status gy_gather(gy_comm *comm, const gy_buffers *data, int root)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = call_of(GY_OPERATION_GATHER, data);
    call.root = root;
    return gy_coll_run(comm, &call);
}

gy_status gy_scatter(gy_comm *comm, const gy_buffers *data, int root)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = call_of(GY_OPERATION_SCATTER, data);
    call.root = root;
    return gy_coll_run(comm, &call);
}

gy_status gy_alltoall(gy_comm *comm, const gy_buffers *data)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = call_of(GY_OPERATION_ALLTOALL, data);
    return gy_coll_run(comm, &call);
}

gy_status gy_scan(gy_comm *comm, const gy_buffers *data, gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = call_of(GY_OPERATION_SCAN, data);
    call.reduction = reduction;
    return gy_coll_run(comm, &call);
}

gy_status gy_exclusive_scan(gy_comm *comm, const gy_buffers *data, gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = call_of(GY_OPERATION_EXCLUSIVE_SCAN, data);
    call.reduction = reduction;
    return gy_coll_run(comm, &call);
}

static gy_coll_call vector_call(gy_operation operation, const gy_buffers *data)
{
    gy_coll_call call = call_of(operation, data);
    call.is_vector = true;
    return call;
}

gy_status gy_allgatherv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = vector_call(GY_OPERATION_ALLGATHER, data);
    call.out_parts = *parts;
    return gy_coll_run(comm, &call);
}

gy_status gy_gatherv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts, int root)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = vector_call(GY_OPERATION_GATHER, data);
    call.root = root;
    if (comm->rank == root) {
        call.out_parts = *parts;
    }
    return gy_coll_run(comm, &call);
}

gy_status gy_scatterv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts, int root)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = vector_call(GY_OPERATION_SCATTER, data);
    call.root = root;
    if (comm->rank == root) {
        call.in_parts = *parts;
    }
    return gy_coll_run(comm, &call);
}

gy_status gy_reduce_scatterv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts,
                             gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = vector_call(GY_OPERATION_REDUCE_SCATTER, data);
    call.reduction = reduction;
    call.in_parts = *parts;
    return gy_coll_run(comm, &call);
}

gy_status gy_alltoallv(gy_comm *comm, const gy_buffers *data, const gy_parts *in_parts,
                       const gy_parts *out_parts)
{
    GY_COMM_EXPECT(comm);
    gy_coll_call call = vector_call(GY_OPERATION_ALLTOALL, data);
    call.in_parts = *in_parts;
    call.out_parts = *out_parts;
    return gy_coll_run(comm, &call);
}
