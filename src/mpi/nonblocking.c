/* The nonblocking collectives: pulls with a generalized request of the library's, so that its
 * Wait, Test and Request_free know them among any others. */
#include "mpi/door_priv.h"

static int post(const gy_pull *pull, MPI_Request *request)
{
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
    gy_door *door = gy_door_of(comm, false);
    if (!gy_mpi_prepare(door, GY_PULL_ALLREDUCE, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
    }
    return post(&pull, request);
}

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
    gy_door *door = gy_door_of(comm, false);
    if (!gy_mpi_prepare(door, GY_PULL_REDUCE, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request);
    }
    return post(&pull, request);
}

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
    gy_door *door = gy_door_of(comm, false);
    if (!gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Ireduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm,
                                          request);
    }
    return post(&pull, request);
}

GY_MPI_API int MPI_Ireduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                   MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .counts = recvcounts,
                        .recv_type = datatype,
                        .op = op};
    gy_door *door = gy_door_of(comm, false);
    if (recvcounts == NULL || !gy_mpi_prepare(door, GY_PULL_REDUCE_SCATTER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Ireduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm, request);
    }
    return post(&pull, request);
}

GY_MPI_API int MPI_Ibcast(void *buffer, int count, MPI_Datatype datatype, int root,
                          MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {
        .recv = buffer, .recv_count = count, .recv_type = datatype, .root = root};
    gy_door *door = gy_door_of(comm, false);
    if (!gy_mpi_prepare(door, GY_PULL_BROADCAST, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Ibcast(buffer, count, datatype, root, comm, request);
    }
    return post(&pull, request);
}

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
    gy_door *door = gy_door_of(comm, false);
    if (!gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                               request);
    }
    return post(&pull, request);
}

GY_MPI_API int MPI_Iallgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                               void *recvbuf, const int recvcounts[], const int displs[],
                               MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.send = sendbuf,
                        .recv = recvbuf,
                        .send_count = sendcount,
                        .counts = recvcounts,
                        .displacements = displs,
                        .send_type = sendtype,
                        .recv_type = recvtype};
    gy_door *door = gy_door_of(comm, false);
    if (recvcounts == NULL || !gy_mpi_prepare(door, GY_PULL_ALLGATHER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Iallgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                recvtype, comm, request);
    }
    return post(&pull, request);
}

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
    gy_door *door = gy_door_of(comm, false);
    if (!gy_mpi_prepare(door, GY_PULL_ALLTOALL, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                              request);
    }
    return post(&pull, request);
}

GY_MPI_API int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    gy_pull pull;
    gy_mpi_call call = {.root = 0};
    gy_door *door = gy_door_of(comm, false);
    if (!gy_mpi_prepare(door, GY_PULL_BARRIER, &call, &pull)) {
        gy_mpi_count(false);
        return PMPI_Ibarrier(comm, request);
    }
    return post(&pull, request);
}
