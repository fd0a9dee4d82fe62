/*
 * Collectives as tasks: the number is taken when pushed, the exchange starts when the input is
 * ready, and its end comes from whoever drives the communicator.
 *
 * What moves are the parts alone, of unequal sizes where a dimension does not divide. Parts of
 * a dimension that others stand before are strided: they are packed one behind the other in a
 * workspace before they leave, or unpacked from there when they came.
 *
 * Messages between stages go the same way, but have tags instead of numbers: which of several
 * is ready first does not matter.
 */
#include "ops/collective.h"

#include "tensor/tensor.h"

#include <string.h>

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

static int64_t part_size(int64_t n, int rank, int ranks)
{
    return gy_part_begin(n, rank + 1, ranks) - gy_part_begin(n, rank, ranks);
}

/* The dimension that ranks have parts of before and after, -1: none. */
static int dim_of(gy_placement placement)
{
    return placement.kind == GY_SHARD ? placement.dim : -1;
}

/* Are the parts along `dim` one behind the other in row-major memory? */
static bool is_outermost(const int64_t *sizes, int dim)
{
    for (int i = 0; i < dim; i++) {
        if (sizes[i] != 1) {
            return false;
        }
    }
    return true;
}

/* What is packed before and unpacked behind the exchange; -1: nothing. */
typedef struct packing {
    int send_dim, receive_dim;
} packing;

static packing packing_of(const gy_op *op, const gy_attributes *attributes,
                          const int64_t *sizes)
{
    packing p = {-1, -1};
    const int from = dim_of(attributes->move.from), to = dim_of(attributes->move.to);
    if (op == &gy_ops_row_allgather && !is_outermost(sizes, from)) {
        p.receive_dim = from;
    } else if (op == &gy_ops_row_reduce_scatter && !is_outermost(sizes, to)) {
        p.send_dim = to;
    } else if (op == &gy_ops_row_alltoall) {
        p.send_dim = is_outermost(sizes, to) ? -1 : to;
        p.receive_dim = is_outermost(sizes, from) ? -1 : from;
    }
    return p;
}

/* Bytes of the largest part along `dim` of what is whole elsewhere; of all of it with -1. */
static size_t part_bytes_max(const gy_type *type, int dim, int ranks)
{
    int64_t count = 1;
    for (int i = 0; i < type->rank; i++) {
        count *= i == dim ? (type->sizes[i] + ranks - 1) / ranks : type->sizes[i];
    }
    return ((size_t)count * gy_dtype_bytes(type->dtype) + 63) / 64 * 64;
}

/* Of the memory where parts are packed to be sent; that of received ones lies behind it. */
static size_t packed_bytes(const gy_op *op, const gy_attributes *attributes,
                           const gy_type *type, int ranks)
{
    const packing p = packing_of(op, attributes, type->sizes);
    return p.send_dim < 0 ? 0 : part_bytes_max(type, dim_of(attributes->move.from), ranks);
}

size_t gy_collective_workspace_bytes(const gy_op *op, const gy_attributes *attributes,
                                     const gy_type *type, int ranks)
{
    const packing p = packing_of(op, attributes, type->sizes);
    const size_t received =
        p.receive_dim < 0 ? 0 : part_bytes_max(type, dim_of(attributes->move.to), ranks);
    return packed_bytes(op, attributes, type, ranks) + received;
}

/* Parts of `view` along `dim`, one a rank, in elements. */
static void set_parts(const gy_view *view, int dim, int ranks, int64_t *counts)
{
    const int64_t whole = view->sizes[dim];
    const int64_t slice = whole == 0 ? 0 : gy_view_count(view) / whole;
    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] = slice * part_size(whole, rank, ranks);
    }
}

static bool is_even(const int64_t *counts, int ranks)
{
    for (int rank = 1; rank < ranks; rank++) {
        if (counts[rank] != counts[0]) {
            return false;
        }
    }
    return true;
}

gy_status gy_collective_init(gy_collective *collective, gy_arena *arena)
{
    const int ranks = gy_comm_size(collective->comm);
    const gy_attributes *attributes = collective->attributes;
    const int from = dim_of(attributes->move.from), to = dim_of(attributes->move.to);
    gy_type type = {.dtype = collective->input.dtype, .rank = collective->input.rank};
    memcpy(type.sizes, collective->sizes, (size_t)type.rank * sizeof(*type.sizes));
    collective->send_counts = gy_arena_alloc(arena, (size_t)ranks * sizeof(int64_t));
    collective->receive_counts = gy_arena_alloc(arena, (size_t)ranks * sizeof(int64_t));
    if (collective->send_counts == NULL || collective->receive_counts == NULL) {
        return GY_NOMEM;
    }
    if (to >= 0) {
        set_parts(&collective->input, to, ranks, collective->send_counts);
    }
    if (from >= 0) {
        set_parts(&collective->output, from, ranks, collective->receive_counts);
    }
    collective->received_offset = packed_bytes(collective->op, attributes, &type, ranks);
    return GY_OK;
}

/* The parts of `whole` along `dim`, each row-major in itself, one behind the other in `packed`:
 * copied there, or from there. */
static gy_status repack(const gy_view *whole, int dim, int ranks, void *packed, bool unpacks)
{
    char *at = packed;
    for (int rank = 0; rank < ranks; rank++) {
        const int64_t begin = gy_part_begin(whole->sizes[dim], rank, ranks);
        gy_view part =
            gy_view_cut(whole, dim, begin, part_size(whole->sizes[dim], rank, ranks), 1);
        gy_view flat = gy_view_of(at, part.dtype, part.sizes, part.rank);
        GY_TRY(unpacks ? gy_view_copy(&part, &flat) : gy_view_copy(&flat, &part));
        at += (size_t)gy_view_count(&part) * gy_dtype_bytes(part.dtype);
    }
    return GY_OK;
}

static gy_coll_call exchange_of(const gy_collective *collective, const void *in, void *out)
{
    const int ranks = gy_comm_size(collective->comm);
    const gy_dtype dtype = collective->input.dtype;
    const gy_reduction reduction = (gy_reduction)collective->attributes->move.from.reduction;
    const gy_parts sent = {.counts = collective->send_counts};
    const gy_parts received = {.counts = collective->receive_counts};
    if (collective->op == &gy_ops_row_allgather) {
        return is_even(received.counts, ranks)
                   ? gy_allgather_call(in, out, (size_t)received.counts[0], dtype)
                   : gy_allgatherv_call(in, out, &received, dtype);
    }
    if (collective->op == &gy_ops_row_reduce_scatter) {
        return is_even(sent.counts, ranks)
                   ? gy_reduce_scatter_call(in, out, (size_t)sent.counts[0], dtype, reduction)
                   : gy_reduce_scatterv_call(in, out, &sent, dtype, reduction);
    }
    if (collective->op == &gy_ops_row_alltoall) {
        return gy_alltoallv_call(in, &sent, out, &received, dtype);
    }
    GY_ASSERT(collective->op == &gy_ops_row_allreduce);
    return gy_allreduce_call(in, out, (size_t)gy_view_count(&collective->input), dtype,
                             reduction);
}

/* What is exchanged; packs what does not go directly. */
static gy_status prepare(const gy_collective *collective, gy_coll_call *call)
{
    const packing p = packing_of(collective->op, collective->attributes, collective->sizes);
    const void *in = collective->input.data;
    void *out = collective->output.data;
    if (p.send_dim >= 0) {
        GY_TRY(repack(&collective->input, p.send_dim, gy_comm_size(collective->comm),
                      collective->workspace, false));
        in = collective->workspace;
    }
    if (p.receive_dim >= 0) {
        out = (char *)collective->workspace + collective->received_offset;
    }
    *call = exchange_of(collective, in, out);
    call->priority = collective->priority;
    return GY_OK;
}

/* Bring what came into the output. */
static gy_status unpack(const gy_collective *collective)
{
    const packing p = packing_of(collective->op, collective->attributes, collective->sizes);
    return p.receive_dim < 0
               ? GY_OK
               : repack(&collective->output, p.receive_dim, gy_comm_size(collective->comm),
                        (char *)collective->workspace + collective->received_offset, true);
}

static void end(void *arg, gy_status status)
{
    gy_collective *collective = arg;
    gy_done *done = collective->done;
    if (status >= 0 && !gy_collective_is_message(collective->op)) {
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

/* Whose input has failed tells the peers, as a collective does. */
static void start_message(gy_collective *collective, gy_status status)
{
    const bool sends = collective->op == &gy_ops_row_send;
    const gy_view *view = sends ? &collective->input : &collective->output;
    const gy_message message = {.data = view->data,
                                .count = (size_t)gy_view_count(view),
                                .dtype = view->dtype,
                                .peer = collective->attributes->message.peer,
                                .tag = collective->attributes->message.tag};
    if (status >= 0 && sends) {
        collective->sent_bytes = message.count * gy_dtype_bytes(message.dtype);
    }
    if (status >= 0) {
        status = sends ? gy_coll_send(collective->comm, &message, end, collective)
                       : gy_coll_receive(collective->comm, &message, end, collective);
    }
    if (status < 0) {
        gy_error cause;
        gy_error_take(&cause, status);
        gy_comm_refuse(collective->comm, &cause);
        end(collective, gy_error_raise(&cause));
    }
}

static void start(void *arg, gy_done *done)
{
    gy_collective *collective = arg;
    collective->done = done;
    collective->sent_bytes = 0;
    if (collective->watch != NULL) {
        collective->watch(collective->watch_arg, 1);
    }
    if (gy_collective_is_message(collective->op)) {
        start_message(collective, gy_done_cause(done));
        return;
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
        gy_coll_count(collective->coll, &collective->sent_bytes);
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
    gy_status status = gy_collective_is_message(collective->op)
                           ? GY_OK
                           : gy_coll_reserve(collective->comm, &collective->coll);
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
