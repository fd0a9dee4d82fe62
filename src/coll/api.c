/* The public collectives. Each function makes a call, which is a value, out of plain arguments
 * and runs it. Reduce, gatherv and scatterv take seven arguments, as MPI's do, since each of
 * the seven is needed. */
#include "coll/coll_priv.h"

static const gy_parts no_parts = {.counts = NULL};

gy_coll_call gy_allreduce_call(const void *in, void *out, size_t count, gy_dtype dtype,
                               gy_reduction reduction)
{
    return (gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                          .dtype = dtype,
                          .reduction = reduction,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_allreduce(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype,
                       gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_allreduce_call(in, out, count, dtype, reduction);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_reduce_call(const void *in, void *out, size_t count, gy_dtype dtype,
                            gy_reduction reduction, int root)
{
    return (gy_coll_call){.operation = GY_OPERATION_REDUCE,
                          .dtype = dtype,
                          .reduction = reduction,
                          .root = root,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_reduce(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype,
                    gy_reduction reduction, int root)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_reduce_call(in, out, count, dtype, reduction, root);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_broadcast_call(void *data, size_t count, gy_dtype dtype, int root)
{
    return (gy_coll_call){.operation = GY_OPERATION_BROADCAST,
                          .dtype = dtype,
                          .root = root,
                          .count = count,
                          .in = data,
                          .out = data};
}

gy_status gy_broadcast(gy_comm *comm, void *data, size_t count, gy_dtype dtype, int root)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_broadcast_call(data, count, dtype, root);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_allgather_call(const void *in, void *out, size_t count, gy_dtype dtype)
{
    return (gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                          .dtype = dtype,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_allgather(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_allgather_call(in, out, count, dtype);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_gather_call(const void *in, void *out, size_t count, gy_dtype dtype, int root)
{
    return (gy_coll_call){.operation = GY_OPERATION_GATHER,
                          .dtype = dtype,
                          .root = root,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_gather(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype,
                    int root)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_gather_call(in, out, count, dtype, root);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_scatter_call(const void *in, void *out, size_t count, gy_dtype dtype, int root)
{
    return (gy_coll_call){.operation = GY_OPERATION_SCATTER,
                          .dtype = dtype,
                          .root = root,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_scatter(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype,
                     int root)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_scatter_call(in, out, count, dtype, root);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_reduce_scatter_call(const void *in, void *out, size_t count, gy_dtype dtype,
                                    gy_reduction reduction)
{
    return (gy_coll_call){.operation = GY_OPERATION_REDUCE_SCATTER,
                          .dtype = dtype,
                          .reduction = reduction,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_reduce_scatter(gy_comm *comm, const void *in, void *out, size_t count,
                            gy_dtype dtype, gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_reduce_scatter_call(in, out, count, dtype, reduction);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_alltoall_call(const void *in, void *out, size_t count, gy_dtype dtype)
{
    return (gy_coll_call){.operation = GY_OPERATION_ALLTOALL,
                          .dtype = dtype,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_alltoall(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_alltoall_call(in, out, count, dtype);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_scan_call(const void *in, void *out, size_t count, gy_dtype dtype,
                          gy_reduction reduction)
{
    return (gy_coll_call){.operation = GY_OPERATION_SCAN,
                          .dtype = dtype,
                          .reduction = reduction,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_scan(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype,
                  gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_scan_call(in, out, count, dtype, reduction);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_exclusive_scan_call(const void *in, void *out, size_t count, gy_dtype dtype,
                                    gy_reduction reduction)
{
    return (gy_coll_call){.operation = GY_OPERATION_EXCLUSIVE_SCAN,
                          .dtype = dtype,
                          .reduction = reduction,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_exclusive_scan(gy_comm *comm, const void *in, void *out, size_t count,
                            gy_dtype dtype, gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_exclusive_scan_call(in, out, count, dtype, reduction);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_allgatherv_call(const void *in, void *out, const gy_parts *parts,
                                gy_dtype dtype)
{
    return (gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                          .dtype = dtype,
                          .is_vector = true,
                          .out_parts = *parts,
                          .in = in,
                          .out = out};
}

gy_status gy_allgatherv(gy_comm *comm, const void *in, void *out, const gy_parts *parts,
                        gy_dtype dtype)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_allgatherv_call(in, out, parts, dtype);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_gatherv_call(const void *in, size_t count, void *out, const gy_parts *parts,
                             gy_dtype dtype, int root)
{
    return (gy_coll_call){.operation = GY_OPERATION_GATHER,
                          .dtype = dtype,
                          .root = root,
                          .is_vector = true,
                          .out_parts = parts != NULL ? *parts : no_parts,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_gatherv(gy_comm *comm, const void *in, size_t count, void *out,
                     const gy_parts *parts, gy_dtype dtype, int root)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_gatherv_call(in, count, out, parts, dtype, root);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_scatterv_call(const void *in, const gy_parts *parts, void *out, size_t count,
                              gy_dtype dtype, int root)
{
    return (gy_coll_call){.operation = GY_OPERATION_SCATTER,
                          .dtype = dtype,
                          .root = root,
                          .is_vector = true,
                          .in_parts = parts != NULL ? *parts : no_parts,
                          .count = count,
                          .in = in,
                          .out = out};
}

gy_status gy_scatterv(gy_comm *comm, const void *in, const gy_parts *parts, void *out,
                      size_t count, gy_dtype dtype, int root)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_scatterv_call(in, parts, out, count, dtype, root);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_reduce_scatterv_call(const void *in, void *out, const gy_parts *parts,
                                     gy_dtype dtype, gy_reduction reduction)
{
    return (gy_coll_call){.operation = GY_OPERATION_REDUCE_SCATTER,
                          .dtype = dtype,
                          .reduction = reduction,
                          .is_vector = true,
                          .in_parts = *parts,
                          .in = in,
                          .out = out};
}

gy_status gy_reduce_scatterv(gy_comm *comm, const void *in, void *out, const gy_parts *parts,
                             gy_dtype dtype, gy_reduction reduction)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_reduce_scatterv_call(in, out, parts, dtype, reduction);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_alltoallv_call(const void *in, const gy_parts *in_parts, void *out,
                               const gy_parts *out_parts, gy_dtype dtype)
{
    return (gy_coll_call){.operation = GY_OPERATION_ALLTOALL,
                          .dtype = dtype,
                          .is_vector = true,
                          .in_parts = *in_parts,
                          .out_parts = *out_parts,
                          .in = in,
                          .out = out};
}

gy_status gy_alltoallv(gy_comm *comm, const void *in, const gy_parts *in_parts, void *out,
                       const gy_parts *out_parts, gy_dtype dtype)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_alltoallv_call(in, in_parts, out, out_parts, dtype);
    return gy_coll_run(comm, &call);
}

gy_coll_call gy_barrier_call(void)
{
    return (gy_coll_call){.operation = GY_OPERATION_BARRIER, .dtype = GY_U8};
}

gy_status gy_barrier(gy_comm *comm)
{
    GY_COMM_EXPECT(comm);
    const gy_coll_call call = gy_barrier_call();
    return gy_coll_run(comm, &call);
}
