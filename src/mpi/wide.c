/* The same entries with counts wider than int, where the MPI library has them: a rank may call
 * either name. */
#include "mpi/mpi_priv.h"

#if MPI_VERSION >= 4

GY_MPI_API int MPI_Allreduce_c(const void *sendbuf, void *recvbuf, MPI_Count count,
                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {
        .send = sendbuf, .recv = recvbuf, .recv_count = count, .recv_type = datatype, .op = op};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_ALLREDUCE, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLREDUCE);
        return gy_pmpi.Allreduce_c(sendbuf, recvbuf, count, datatype, op, comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Allreduce_c)

GY_MPI_API int MPI_Reduce_c(const void *sendbuf, void *recvbuf, MPI_Count count,
                            MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .recv_count = count,
                        .recv_type = datatype,
                        .op = op,
                        .root = root};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_REDUCE, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_REDUCE);
        return gy_pmpi.Reduce_c(sendbuf, recvbuf, count, datatype, op, root, comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Reduce_c)

GY_MPI_API int MPI_Reduce_scatter_block_c(const void *sendbuf, void *recvbuf,
                                          MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op,
                                          MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .recv_count = recvcount,
                        .recv_type = datatype,
                        .op = op};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_REDUCE_SCATTER);
        return gy_pmpi.Reduce_scatter_block_c(sendbuf, recvbuf, recvcount, datatype, op, comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Reduce_scatter_block_c)

GY_MPI_API int MPI_Reduce_scatter_c(const void *sendbuf, void *recvbuf,
                                    const MPI_Count recvcounts[], MPI_Datatype datatype,
                                    MPI_Op op, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .counts = {.wide = recvcounts},
                        .lacks_counts = recvcounts == NULL,
                        .recv_type = datatype,
                        .op = op};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_REDUCE_SCATTER);
        return gy_pmpi.Reduce_scatter_c(sendbuf, recvbuf, recvcounts, datatype, op, comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Reduce_scatter_c)

GY_MPI_API int MPI_Bcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                           MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {
        .recv = buffer, .recv_count = count, .recv_type = datatype, .root = root};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_BROADCAST, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_BROADCAST);
        return gy_pmpi.Bcast_c(buffer, count, datatype, root, comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Bcast_c)

GY_MPI_API int MPI_Allgather_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                               void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                               MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .recv_count = recvcount,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLGATHER);
        return gy_pmpi.Allgather_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                   comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Allgather_c)

GY_MPI_API int MPI_Allgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                void *recvbuf, const MPI_Count recvcounts[],
                                const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .counts = {.wide = recvcounts},
                        .displacements = {.places = displs},
                        .lacks_counts = recvcounts == NULL,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLGATHER);
        return gy_pmpi.Allgatherv_c(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                    recvtype, comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Allgatherv_c)

GY_MPI_API int MPI_Alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                              void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                              MPI_Comm comm)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .recv_count = recvcount,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_mpi_context *door = GY_DOOR_OF(comm, true);
    int code = gy_mpi_prepare(door, GY_PULL_ALLTOALL, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLTOALL);
        return gy_pmpi.Alltoall_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                  comm);
    }
    return gy_mpi_run(&pull, code);
}
GY_MPI_BOTH(Alltoall_c)

GY_MPI_API int MPI_Iallreduce_c(const void *sendbuf, void *recvbuf, MPI_Count count,
                                MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {
        .send = sendbuf, .recv = recvbuf, .recv_count = count, .recv_type = datatype, .op = op};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_ALLREDUCE, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLREDUCE);
        return gy_pmpi.Iallreduce_c(sendbuf, recvbuf, count, datatype, op, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Iallreduce_c)

GY_MPI_API int MPI_Ireduce_c(const void *sendbuf, void *recvbuf, MPI_Count count,
                             MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm,
                             MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .recv_count = count,
                        .recv_type = datatype,
                        .op = op,
                        .root = root};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_REDUCE, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_REDUCE);
        return gy_pmpi.Ireduce_c(sendbuf, recvbuf, count, datatype, op, root, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ireduce_c)

GY_MPI_API int MPI_Ireduce_scatter_block_c(const void *sendbuf, void *recvbuf,
                                           MPI_Count recvcount, MPI_Datatype datatype,
                                           MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .recv_count = recvcount,
                        .recv_type = datatype,
                        .op = op};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_REDUCE_SCATTER);
        return gy_pmpi.Ireduce_scatter_block_c(sendbuf, recvbuf, recvcount, datatype, op, comm,
                                               request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ireduce_scatter_block_c)

GY_MPI_API int MPI_Ireduce_scatter_c(const void *sendbuf, void *recvbuf,
                                     const MPI_Count recvcounts[], MPI_Datatype datatype,
                                     MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .counts = {.wide = recvcounts},
                        .lacks_counts = recvcounts == NULL,
                        .recv_type = datatype,
                        .op = op};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_REDUCE_SCATTER);
        return gy_pmpi.Ireduce_scatter_c(sendbuf, recvbuf, recvcounts, datatype, op, comm,
                                         request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ireduce_scatter_c)

GY_MPI_API int MPI_Ibcast_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                            MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {
        .recv = buffer, .recv_count = count, .recv_type = datatype, .root = root};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_BROADCAST, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_BROADCAST);
        return gy_pmpi.Ibcast_c(buffer, count, datatype, root, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ibcast_c)

GY_MPI_API int MPI_Iallgather_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .recv_count = recvcount,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLGATHER);
        return gy_pmpi.Iallgather_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                    comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Iallgather_c)

GY_MPI_API int MPI_Iallgatherv_c(const void *sendbuf, MPI_Count sendcount,
                                 MPI_Datatype sendtype, void *recvbuf,
                                 const MPI_Count recvcounts[], const MPI_Aint displs[],
                                 MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .counts = {.wide = recvcounts},
                        .displacements = {.places = displs},
                        .lacks_counts = recvcounts == NULL,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLGATHER);
        return gy_pmpi.Iallgatherv_c(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                     recvtype, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Iallgatherv_c)

GY_MPI_API int MPI_Ialltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                               void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                               MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .recv_count = recvcount,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_ALLTOALL, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLTOALL);
        return gy_pmpi.Ialltoall_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                   comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ialltoall_c)

#endif
