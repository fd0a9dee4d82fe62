/*
 * Collectives as tasks: the number is taken when pushed, the exchange starts when the input is
 * ready, and its end comes from whoever drives the communicator.
 *
 * The exchanges move equal counts. Parts of unequal size, and parts of a dimension that is not
 * the first, go through a workspace: an allgather of the largest part from every rank, unpacked
 * at the end; a reduce-scatter as an allreduce of which each keeps its part.
 */
#include "ops/collective.h"

#include "tensor/tensor.h"

static bool drive(void *comm)
{
    return gy_comm_progress(comm);
}

gy_status gy_collective_attach(gy_engine *engine, gy_comm *comm)
{
    return gy_engine_add_progress(engine, drive, comm);
}

void gy_collective_detach(gy_engine *engine, gy_comm *comm)
{
    gy_engine_remove_progress(engine, drive, comm);
}

/* The dimension that is cut, -1: none. */
static int cut_dim(const gy_attributes *attributes)
{
    if (attributes->move.from.kind == GY_SHARD) {
        return attributes->move.from.dim;
    }
    return attributes->move.to.kind == GY_SHARD ? attributes->move.to.dim : -1;
}

static bool is_direct(const gy_attributes *attributes, const int64_t *sizes, int ranks)
{
    int dim = cut_dim(attributes);
    return dim < 0 || (dim == 0 && sizes[0] % ranks == 0);
}

/* The largest part of n. */
static int64_t part_max(int64_t n, int ranks)
{
    return (n + ranks - 1) / ranks;
}

size_t gy_collective_workspace_bytes(const gy_op *op, const gy_attributes *attributes,
                                     const gy_type *type, int ranks)
{
    if (is_direct(attributes, type->sizes, ranks)) {
        return 0;
    }
    int64_t count = 1;
    for (int i = 0; i < type->rank; i++) {
        bool is_padded = op == &gy_ops_row_allgather && i == cut_dim(attributes);
        count *= is_padded ? part_max(type->sizes[i], ranks) * ranks : type->sizes[i];
    }
    return (size_t)count * gy_dtype_bytes(type->dtype);
}

/* Part `rank` of `whole` along dim. */
static gy_view part_view(const gy_view *whole, int dim, int rank, int ranks)
{
    int64_t begin = gy_part_begin(whole->sizes[dim], rank, ranks);
    int64_t end = gy_part_begin(whole->sizes[dim], rank + 1, ranks);
    return gy_view_cut(whole, dim, begin, end - begin, 1);
}

/* Where rank's padded part stands in the workspace of an allgather, row-major in itself. */
static gy_view padded_part(const gy_collective *collective, int rank, int64_t slot)
{
    int dim = cut_dim(collective->attributes);
    gy_view part = part_view(&collective->output, dim, rank, gy_comm_size(collective->comm));
    size_t item = gy_dtype_bytes(part.dtype);
    return gy_view_of((char *)collective->workspace + (size_t)(slot * rank) * item, part.dtype,
                      part.sizes, part.rank);
}

static int64_t slot_count(const gy_collective *collective)
{
    int dim = cut_dim(collective->attributes);
    int64_t count = part_max(collective->sizes[dim], gy_comm_size(collective->comm));
    for (int i = 0; i < collective->input.rank; i++) {
        count *= i == dim ? 1 : collective->input.sizes[i];
    }
    return count;
}

/* What is exchanged; packs what does not go directly. */
static gy_status prepare(const gy_collective *collective, gy_coll_call *call)
{
    const int ranks = gy_comm_size(collective->comm);
    const gy_attributes *attributes = collective->attributes;
    *call = (gy_coll_call){.dtype = collective->input.dtype,
                           .reduction = (gy_reduction)attributes->move.from.reduction,
                           .in = collective->input.data,
                           .out = collective->output.data,
                           .priority = collective->priority,
                           .count = (size_t)gy_view_count(&collective->input)};
    bool direct = is_direct(attributes, collective->sizes, ranks);
    if (collective->op == &gy_ops_row_allgather) {
        call->operation = GY_OPERATION_ALLGATHER;
        if (!direct) {
            int64_t slot = slot_count(collective);
            gy_view mine = padded_part(collective, gy_comm_rank(collective->comm), slot);
            GY_TRY(gy_view_copy(&mine, &collective->input));
            call->count = (size_t)slot;
            call->in = mine.data;
            call->out = collective->workspace;
        }
        return GY_OK;
    }
    call->operation = GY_OPERATION_ALLREDUCE;
    if (collective->op == &gy_ops_row_reduce_scatter) {
        if (direct) {
            call->operation = GY_OPERATION_REDUCE_SCATTER;
            call->count = (size_t)gy_view_count(&collective->output);
        } else {
            call->out = collective->workspace;
        }
    }
    return GY_OK;
}

/* Bring what came into the output. */
static gy_status unpack(const gy_collective *collective)
{
    const int ranks = gy_comm_size(collective->comm);
    const gy_attributes *attributes = collective->attributes;
    if (is_direct(attributes, collective->sizes, ranks)) {
        return GY_OK;
    }
    int dim = cut_dim(attributes);
    if (collective->op == &gy_ops_row_reduce_scatter) {
        const gy_view *input = &collective->input;
        gy_view whole =
            gy_view_of(collective->workspace, input->dtype, input->sizes, input->rank);
        gy_view mine = part_view(&whole, dim, gy_comm_rank(collective->comm), ranks);
        gy_view output = collective->output;
        return gy_view_copy(&output, &mine);
    }
    int64_t slot = slot_count(collective);
    for (int rank = 0; rank < ranks; rank++) {
        gy_view from = padded_part(collective, rank, slot);
        gy_view to = part_view(&collective->output, dim, rank, ranks);
        GY_TRY(gy_view_copy(&to, &from));
    }
    return GY_OK;
}

static void end(void *arg, gy_status status)
{
    gy_collective *collective = arg;
    gy_done *done = collective->done;
    if (status >= 0) {
        status = unpack(collective);
    }
    if (collective->watch != NULL) {
        collective->watch(collective->watch_arg, -1);
    }
    if (status < 0) {
        gy_done_fail(done, status);
    } else {
        gy_done_ok(done);
    }
}

static void start(void *arg, gy_done *done)
{
    gy_collective *collective = arg;
    collective->done = done;
    if (collective->watch != NULL) {
        collective->watch(collective->watch_arg, 1);
    }
    gy_coll_call call;
    gy_status status = gy_done_cause(done);
    if (status >= 0) {
        status = prepare(collective, &call);
    }
    if (status < 0) {
        gy_error cause;
        gy_error_take(&cause, status);
        gy_coll_poison(collective->coll, &cause, end, collective);
    } else {
        gy_coll_start(collective->coll, &call, end, collective);
    }
}

static void forget(void *arg, gy_status status)
{
    (void)arg;
    (void)status;
}

gy_status gy_collective_push(gy_engine *engine, gy_collective *collective, gy_task *task)
{
    collective->coll = NULL;
    gy_status status = gy_coll_reserve(collective->comm, &collective->coll);
    if (status >= 0) {
        task->run = start;
        task->arg = collective;
        task->lane = GY_LANE_NETWORK;
        task->runs_poisoned = true;
        collective->priority = task->priority;
        status = gy_engine_push(engine, task);
    }
    if (status < 0) {
        gy_error cause;
        gy_error_take(&cause, status);
        if (collective->coll != NULL) { /* what has a number must end */
            gy_coll_poison(collective->coll, &cause, forget, NULL);
        } else {
            gy_comm_refuse(collective->comm, &cause);
        }
        return gy_error_raise(&cause);
    }
    return GY_OK;
}
