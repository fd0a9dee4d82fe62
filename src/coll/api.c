/* The public blocking calls, and the communicator of the whole run. */
#include "coll/coll_priv.h"

gy_status gy_allreduce(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype,
                       gy_reduction reduction)
{
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_ALLREDUCE,
                                             .dtype = dtype,
                                             .reduction = reduction,
                                             .count = count,
                                             .in = in,
                                             .out = out});
}

gy_status gy_broadcast(gy_comm *comm, void *data, size_t count, gy_dtype dtype, int root)
{
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_BROADCAST,
                                             .dtype = dtype,
                                             .root = root,
                                             .count = count,
                                             .in = data,
                                             .out = data});
}

gy_status gy_allgather(gy_comm *comm, const void *in, void *out, size_t count, gy_dtype dtype)
{
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                                             .dtype = dtype,
                                             .count = count,
                                             .in = in,
                                             .out = out});
}

gy_status gy_reduce_scatter(gy_comm *comm, const void *in, void *out, size_t count,
                            gy_dtype dtype, gy_reduction reduction)
{
    return gy_coll_run(comm, &(gy_coll_call){.operation = GY_OPERATION_REDUCE_SCATTER,
                                             .dtype = dtype,
                                             .reduction = reduction,
                                             .count = count,
                                             .in = in,
                                             .out = out});
}

gy_status gy_barrier(gy_comm *comm)
{
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
    gy_coll_call call = call_of(GY_OPERATION_REDUCE, data);
    call.reduction = reduction;
    call.root = root;
    return gy_coll_run(comm, &call);
}

gy_status gy_gather_to(gy_comm *comm, const gy_buffers *data, int root)
{
    gy_coll_call call = call_of(GY_OPERATION_GATHER, data);
    call.root = root;
    return gy_coll_run(comm, &call);
}

gy_status gy_scatter_from(gy_comm *comm, const gy_buffers *data, int root)
{
    gy_coll_call call = call_of(GY_OPERATION_SCATTER, data);
    call.root = root;
    return gy_coll_run(comm, &call);
}

gy_status gy_alltoall(gy_comm *comm, const gy_buffers *data)
{
    gy_coll_call call = call_of(GY_OPERATION_ALLTOALL, data);
    return gy_coll_run(comm, &call);
}

gy_status gy_scan(gy_comm *comm, const gy_buffers *data, gy_reduction reduction)
{
    gy_coll_call call = call_of(GY_OPERATION_SCAN, data);
    call.reduction = reduction;
    return gy_coll_run(comm, &call);
}

gy_status gy_exclusive_scan(gy_comm *comm, const gy_buffers *data, gy_reduction reduction)
{
    gy_coll_call call = call_of(GY_OPERATION_EXCLUSIVE_SCAN, data);
    call.reduction = reduction;
    return gy_coll_run(comm, &call);
}

static gy_coll_call varied(gy_operation operation, const gy_buffers *data)
{
    gy_coll_call call = call_of(operation, data);
    call.is_varied = true;
    return call;
}

gy_status gy_allgatherv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts)
{
    gy_coll_call call = varied(GY_OPERATION_ALLGATHER, data);
    call.out_parts = *parts;
    return gy_coll_run(comm, &call);
}

gy_status gy_gatherv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts, int root)
{
    gy_coll_call call = varied(GY_OPERATION_GATHER, data);
    call.root = root;
    if (comm->rank == root) {
        call.out_parts = *parts;
    }
    return gy_coll_run(comm, &call);
}

gy_status gy_scatterv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts, int root)
{
    gy_coll_call call = varied(GY_OPERATION_SCATTER, data);
    call.root = root;
    if (comm->rank == root) {
        call.in_parts = *parts;
    }
    return gy_coll_run(comm, &call);
}

gy_status gy_reduce_scatterv(gy_comm *comm, const gy_buffers *data, const gy_parts *parts,
                             gy_reduction reduction)
{
    gy_coll_call call = varied(GY_OPERATION_REDUCE_SCATTER, data);
    call.reduction = reduction;
    call.in_parts = *parts;
    return gy_coll_run(comm, &call);
}

gy_status gy_alltoallv(gy_comm *comm, const gy_buffers *data, const gy_parts *in_parts,
                       const gy_parts *out_parts)
{
    gy_coll_call call = varied(GY_OPERATION_ALLTOALL, data);
    call.in_parts = *in_parts;
    call.out_parts = *out_parts;
    return gy_coll_run(comm, &call);
}

static pthread_mutex_t world_lock = PTHREAD_MUTEX_INITIALIZER;
static gy_comm *world;
static bool is_world_tried;
static gy_error world_error;

static gy_status renew(void *launcher, gy_deadline deadline, gy_transport **transport)
{
    (void)launcher;
    *transport = NULL;
    return gy_generation_meet(gy_env_real(), deadline, transport);
}

static gy_status finish(void *launcher, gy_deadline deadline)
{
    (void)launcher;
    return gy_generation_finish(gy_env_real(), deadline);
}

/* Whoever dies before all are there is started anew, and another transport brings it. */
static gy_status open_renewable(gy_transport *transport)
{
    const gy_comm_options options = {.renew = renew, .finish = finish};
    int64_t timeout_ns = 0;
    gy_status status = gy_comm_read_timeout(0, &timeout_ns);
    if (status < 0) {
        gy_transport_close(transport);
        return status;
    }
    gy_deadline deadline = {gy_now_ns(transport->env) + timeout_ns};
    GY_TRY(gy_generation_meet(transport->env, deadline, &transport));
    return gy_comm_new(transport, &options, &world);
}

static gy_status open_world(void)
{
    gy_transport *transport = NULL;
    GY_TRY(gy_transport_open_from_environment(gy_env_real(), &transport));
    gy_comm *made = NULL;
    if (gy_run_is_renewable()) {
        return open_renewable(transport);
    }
    GY_TRY(gy_comm_new(transport, NULL, &made));
    gy_deadline deadline = {gy_now_ns(transport->env) + made->timeout_ns};
    gy_status status = gy_transport_meet(transport, deadline);
    if (status < 0) {
        gy_comm_free(made);
        return status;
    }
    world = made;
    return GY_OK;
}

void gy_comm_world_succeed(const gy_comm *old, gy_comm *whole)
{
    pthread_mutex_lock(&world_lock);
    if (world == old) {
        world = whole;
    }
    pthread_mutex_unlock(&world_lock);
}

gy_comm *gy_comm_world(void)
{
    pthread_mutex_lock(&world_lock);
    if (!is_world_tried) {
        is_world_tried = true;
        gy_status status = open_world();
        if (status < 0) {
            gy_error_take(&world_error, status);
        }
    } else if (world == NULL) {
        (void)gy_error_raise(&world_error);
    }
    gy_comm *comm = world;
    pthread_mutex_unlock(&world_lock);
    return comm;
}

void gy_comm_world_close(void)
{
    pthread_mutex_lock(&world_lock);
    gy_comm_free(world);
    world = NULL;
    is_world_tried = true;
    (void)gy_fail(GY_STATE, "the run was left");
    gy_error_take(&world_error, GY_STATE);
    pthread_mutex_unlock(&world_lock);
}
