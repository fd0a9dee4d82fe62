/* The nonblocking collectives: pulls with a generalized request of the library's, so that its
 * Wait, Test and Request_free know them among any others. */
#include "mpi/mpi_priv.h"

int gy_mpi_post(const gy_pull *pull, int code, MPI_Request *request)
{
    code = code == MPI_SUCCESS && request == NULL ? MPI_ERR_ARG : code;
    if (code != MPI_SUCCESS) {
        return gy_mpi_context_refuse(pull->door, pull->kind, code);
    }
    gy_mpi_count(true);
    return gy_pull_post(pull, request);
}

GY_MPI_API int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count,
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
        return gy_pmpi.Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Iallreduce)

GY_MPI_API int MPI_Ireduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                           MPI_Op op, int root, MPI_Comm comm, MPI_Request *request)
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
        return gy_pmpi.Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ireduce)

GY_MPI_API int MPI_Ireduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount,
                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                         MPI_Request *request)
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
        return gy_pmpi.Ireduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm,
                                             request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ireduce_scatter_block)

GY_MPI_API int MPI_Ireduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                   MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .counts = {.narrow = recvcounts},
                        .lacks_counts = recvcounts == NULL,
                        .recv_type = datatype,
                        .op = op};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_REDUCE_SCATTER);
        return gy_pmpi.Ireduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm,
                                       request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ireduce_scatter)

GY_MPI_API int MPI_Ibcast(void *buffer, int count, MPI_Datatype datatype, int root,
                          MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {
        .recv = buffer, .recv_count = count, .recv_type = datatype, .root = root};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_BROADCAST, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_BROADCAST);
        return gy_pmpi.Ibcast(buffer, count, datatype, root, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ibcast)

GY_MPI_API int MPI_Iallgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                              void *recvbuf, int recvcount, MPI_Datatype recvtype,
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
        return gy_pmpi.Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                  comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Iallgather)

GY_MPI_API int MPI_Iallgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                               void *recvbuf, const int recvcounts[], const int displs[],
                               MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .counts = {.narrow = recvcounts},
                        .displacements = {.narrow = displs},
                        .lacks_counts = recvcounts == NULL,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_ALLGATHER);
        return gy_pmpi.Iallgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                   recvtype, comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Iallgatherv)

GY_MPI_API int MPI_Ialltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                             void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                             MPI_Request *request)
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
        return gy_pmpi.Ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                 comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ialltoall)

GY_MPI_API int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.root = 0};
    gy_mpi_context *door = GY_DOOR_OF(comm, false);
    int code = gy_mpi_prepare(door, GY_PULL_BARRIER, &call, &pull);
    if (code == GY_MPI_LEFT) {
        gy_mpi_context_leave(door, GY_PULL_BARRIER);
        return gy_pmpi.Ibarrier(comm, request);
    }
    return gy_mpi_post(&pull, code, request);
}
GY_MPI_BOTH(Ibarrier)
