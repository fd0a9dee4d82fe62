/*
 * MPI's nonblocking collectives as an alternative for Gyre's tuner. Each lane has a
 * communicator of its own, since MPI requires the same order of calls on all ranks of a
 * communicator.
 */
#include "mpi/mpi_priv.h"

#include "base/base.h"

#include <assert.h>
#include <string.h>

static MPI_Comm comms[GY_LIBRARY_LANES];
static bool is_open;

bool gy_mpi_collect_open(bool is_allowed)
{
    for (int lane = 0; lane < GY_LIBRARY_LANES && is_allowed; lane++) {
        is_allowed = PMPI_Comm_dup(MPI_COMM_WORLD, &comms[lane]) == MPI_SUCCESS &&
                     PMPI_Comm_set_errhandler(comms[lane], MPI_ERRORS_RETURN) == MPI_SUCCESS;
    }
    is_open = is_allowed;
    return is_open;
}

void gy_mpi_collect_close(void)
{
    for (int lane = 0; lane < GY_LIBRARY_LANES && is_open; lane++) {
        (void)gy_pmpi.Comm_free(&comms[lane]);
    }
    is_open = false;
}

/* MPI_DATATYPE_NULL: narrow types, whose sums Open MPI saturates and which MPICH compares with
 * the wrong sign, and 16-bit floats, which MPI lacks. */
static MPI_Datatype type_of(gy_dtype dtype)
{
    switch (dtype) {
    case GY_F64:
        return MPI_DOUBLE;
    case GY_F32:
        return MPI_FLOAT;
    case GY_I64:
        return MPI_INT64_T;
    case GY_I32:
        return MPI_INT32_T;
    case GY_U64:
        return MPI_UINT64_T;
    case GY_U32:
        return MPI_UINT32_T;
    case GY_DTYPE_NONE:
    case GY_F16:
    case GY_BF16:
    case GY_I16:
    case GY_I8:
    case GY_U16:
    case GY_U8:
    case GY_DTYPE_COUNT:
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* Gyre computes an average as a sum that it divides. */
static MPI_Op op_of(gy_reduction reduction)
{
    switch (reduction) {
    case GY_SUM:
    case GY_AVG:
        return MPI_SUM;
    case GY_PROD:
        return MPI_PROD;
    case GY_MIN:
        return MPI_MIN;
    case GY_MAX:
        return MPI_MAX;
    case GY_BIT_AND:
        return MPI_BAND;
    case GY_BIT_OR:
        return MPI_BOR;
    case GY_BIT_XOR:
        return MPI_BXOR;
    case GY_REDUCTION_COUNT:
    default:
        return MPI_OP_NULL;
    }
}

static bool reduces(gy_operation operation)
{
    return operation == GY_OPERATION_ALLREDUCE || operation == GY_OPERATION_REDUCE ||
           operation == GY_OPERATION_REDUCE_SCATTER;
}

static bool moves(gy_operation operation)
{
    return operation == GY_OPERATION_BROADCAST || operation == GY_OPERATION_ALLGATHER ||
           operation == GY_OPERATION_ALLTOALL || operation == GY_OPERATION_BARRIER;
}

/* MPI does not define the minimum of a number and a NaN, and its libraries return either. */
static bool is_settled(gy_dtype dtype, gy_reduction reduction)
{
    bool is_extreme = reduction == GY_MIN || reduction == GY_MAX;
    return !is_extreme || (dtype != GY_F64 && dtype != GY_F32);
}

static bool knows(gy_operation operation, gy_dtype dtype, gy_reduction reduction)
{
    return moves(operation) ||
           (reduces(operation) && type_of(dtype) != MPI_DATATYPE_NULL &&
            op_of(reduction) != MPI_OP_NULL && is_settled(dtype, reduction));
}

static int start_reduction(const gy_library_call *call, MPI_Request *request)
{
    MPI_Comm comm = comms[call->lane];
    MPI_Datatype type = type_of(call->dtype);
    MPI_Op op = op_of(call->reduction);
    int count = (int)call->count;
    return call->operation == GY_OPERATION_ALLREDUCE
               ? gy_pmpi.Iallreduce(call->in, call->out, count, type, op, comm, request)
           : call->operation == GY_OPERATION_REDUCE
               ? gy_pmpi.Ireduce(call->in, call->out, count, type, op, call->root, comm,
                                 request)
               : gy_pmpi.Ireduce_scatter_block(call->in, call->out, count, type, op, comm,
                                               request);
}

static int start_move(const gy_library_call *call, MPI_Request *request)
{
    MPI_Comm comm = comms[call->lane];
    int bytes = (int)(call->count * gy_dtype_bytes(call->dtype));
    return call->operation == GY_OPERATION_BROADCAST
               ? gy_pmpi.Ibcast(call->out, bytes, MPI_BYTE, call->root, comm, request)
           : call->operation == GY_OPERATION_ALLGATHER
               ? gy_pmpi.Iallgather(call->in, bytes, MPI_BYTE, call->out, bytes, MPI_BYTE, comm,
                                    request)
           : call->operation == GY_OPERATION_ALLTOALL
               ? gy_pmpi.Ialltoall(call->in, bytes, MPI_BYTE, call->out, bytes, MPI_BYTE, comm,
                                   request)
               : gy_pmpi.Ibarrier(comm, request);
}

static bool start(const gy_library_call *call, gy_carried *packet)
{
    MPI_Request request = MPI_REQUEST_NULL;
    static_assert(sizeof(request) <= sizeof(*packet), "a request fits");
    GY_ASSERT(is_open && call->lane >= 0 && call->lane < GY_LIBRARY_LANES);
    GY_ASSERT(knows(call->operation, call->dtype, call->reduction));
    int code = (reduces(call->operation) ? start_reduction : start_move)(call, &request);
    memcpy(packet, &request, sizeof(request));
    return code == MPI_SUCCESS;
}

static gy_status test(gy_carried *packet)
{
    MPI_Request request;
    int is_done = 0;
    memcpy(&request, packet, sizeof(request));
    if (gy_pmpi.Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return GY_IO;
    }
    memcpy(packet, &request, sizeof(request));
    return is_done ? GY_OK : GY_AGAIN;
}

const gy_library gy_mpi_library = {.name = "mpi", .knows = knows, .start = start, .test = test};
