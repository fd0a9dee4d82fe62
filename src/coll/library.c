/*
 * Collectives of the library that started the ranks (MPI's), as one more algorithm. It has no
 * plan, so it is neither checked nor priced nor drawn. Data go through the communicator's own
 * memory, leg by leg, so that a call can be abandoned after a failure although the library
 * cannot cancel one. Only nonblocking collectives are called, and then tested for completion.
 */
#include "coll/coll_priv.h"

#include <stdio.h>
#include <string.h>

#define LIBRARY_ROW(op, guarantee)                                                             \
    {                                                                                          \
        .name = GY_LIBRARY_NAME, .operation = GY_OPERATION_##op, .need = GY_NEED_LIBRARY,      \
        .order = GY_ORDER_##guarantee                                                          \
    }

static const gy_algorithm rows[] = {
    LIBRARY_ROW(ALLREDUCE, ANY),      LIBRARY_ROW(REDUCE, ANY),
    LIBRARY_ROW(REDUCE_SCATTER, ANY), LIBRARY_ROW(ALLGATHER, FOLD),
    LIBRARY_ROW(BROADCAST, FOLD),     LIBRARY_ROW(ALLTOALL, FOLD),
    LIBRARY_ROW(BARRIER, FOLD),
};

const gy_algorithm *gy_library_row(gy_operation operation)
{
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        if (rows[i].operation == operation) {
            return &rows[i];
        }
    }
    return NULL;
}

const gy_algorithm *gy_row_find(gy_operation operation, const char *name)
{
    GY_ASSERT(name != NULL);
    return strcmp(name, GY_LIBRARY_NAME) == 0 ? gy_library_row(operation)
                                              : gy_algorithm_find(operation, name);
}

gy_status gy_row_parse(gy_operation operation, const char *text, const gy_algorithm **row,
                       char parameter[GY_PLAN_PARAMETER])
{
    GY_ASSERT(text != NULL && row != NULL);
    const gy_algorithm *own =
        strcmp(text, GY_LIBRARY_NAME) == 0 ? gy_library_row(operation) : NULL;
    if (own == NULL) {
        return gy_algorithm_parse(operation, text, row, parameter);
    }
    *row = own;
    parameter[0] = '\0';
    return GY_OK;
}

/* ---- Which calls the library can run ---- */

bool gy_library_is_here(const gy_comm *comm)
{
    GY_ASSERT(comm->root != NULL && comm->transport != NULL);
    return comm->transport->library != NULL && comm->root == comm && comm->ranks == NULL &&
           comm->size == gy_transport_size(comm->transport);
}

bool gy_library_fits(const gy_comm *comm, const gy_coll_call *call)
{
    GY_ASSERT(call != NULL);
    return gy_library_is_here(comm) && gy_library_row(call->operation) != NULL &&
           !call->is_vector && (call->user == NULL || !gy_call_reduces(call)) &&
           comm->transport->library->knows(call->operation, call->dtype, call->reduction);
}

gy_status gy_library_check(const gy_comm *comm, const gy_coll_call *call)
{
    GY_ASSERT((unsigned)call->operation < GY_OPERATION_COUNT);
    const char *name = comm->site.forced->names[call->operation];
    if (name == NULL || strcmp(name, GY_LIBRARY_NAME) != 0 || gy_library_fits(comm, call)) {
        return GY_OK;
    }
    const char *operation = gy_operation_name(call->operation);
    if (comm->transport->library == NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s by " GY_LIBRARY_NAME ": these ranks were not started by an MPI's "
                       "launcher, or its MPI does not allow it",
                       operation);
    }
    if (!gy_library_is_here(comm)) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s by " GY_LIBRARY_NAME ": MPI has no communicator for a group of the "
                       "ranks, only for all of them",
                       operation);
    }
    if (call->is_vector) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s by " GY_LIBRARY_NAME ": not with counts of its own for each rank",
                       operation);
    }
    if (gy_average_is_sum(call)) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s of %s by avg by " GY_LIBRARY_NAME ": MPI's sums of integers wrap",
                       operation, gy_dtype_name(call->dtype));
    }
    if (call->user != NULL) {
        return gy_fail(GY_UNSUPPORTED,
                       "%s by " GY_LIBRARY_NAME ": MPI does not know the operation \"%s\"",
                       operation, call->user->name);
    }
    return gy_fail(GY_UNSUPPORTED,
                   "%s of %s by %s by " GY_LIBRARY_NAME ": only numbers of 32 and 64 bits are "
                   "combined alike everywhere, and of floating types no min or max, since MPI "
                   "does not say what becomes of a NaN",
                   operation, gy_dtype_name(call->dtype), gy_reduction_name(call->reduction));
}

/* ---- Running ---- */

static bool gives_parts(const gy_coll_call *call)
{
    return call->operation == GY_OPERATION_REDUCE_SCATTER ||
           call->operation == GY_OPERATION_ALLTOALL;
}

static bool gets_parts(const gy_coll_call *call)
{
    return call->operation == GY_OPERATION_ALLGATHER ||
           call->operation == GY_OPERATION_ALLTOALL;
}

static bool is_broadcast(const gy_coll_call *call)
{
    return call->operation == GY_OPERATION_BROADCAST;
}

void gy_library_cut(const gy_comm *comm, const gy_coll_call *call, gy_pieces *pieces)
{
    size_t parts = gy_call_has_parts(call) ? (size_t)comm->size : 1;
    size_t most = (size_t)GY_LEG_BYTES / parts / gy_call_element_bytes(call);
    most = GY_MAX(most, (size_t)1);
    size_t legs = GY_MAX((call->count + most - 1) / most, (size_t)1);
    GY_ASSERT(most * legs >= call->count);
    *pieces = (gy_pieces){.chunks = 1, .leg = (int64_t)most, .legs = (int64_t)legs};
}

/* A leg of one vector, or of all parts of a vector; the fields count bytes. */
typedef struct leg_view {
    size_t first, length; /* of the leg within a part */
    size_t part;          /* bytes of a part */
    size_t parts;
} leg_view;

static leg_view view_of(const gy_coll *coll, bool has_parts)
{
    const gy_runner *runner = &coll->runner;
    size_t element = gy_run_element_bytes(coll), count = coll->call.count;
    size_t first = (size_t)(runner->leg * runner->choice.pieces.leg);
    GY_ASSERT(first <= count);
    GY_ASSERT(runner->leg < runner->choice.pieces.legs);
    return (leg_view){.first = first * element,
                      .length =
                          GY_MIN((size_t)runner->choice.pieces.leg, count - first) * element,
                      .part = count * element,
                      .parts = has_parts ? (size_t)coll->comm->size : 1};
}

static uint8_t *out_of(const gy_coll *coll)
{
    GY_ASSERT(coll->runner.scratch != NULL);
    return coll->runner.scratch + coll->runner.work_at;
}

static void copy_in(const gy_coll *coll)
{
    const gy_coll_call *call = &coll->call;
    leg_view at = view_of(coll, gives_parts(call));
    const uint8_t *from = is_broadcast(call) ? call->out : call->in;
    uint8_t *to = is_broadcast(call) ? out_of(coll) : coll->runner.scratch;
    GY_ASSERT(at.first + at.length <= at.part);
    GY_ASSERT(!coll->runner.is_in_library);
    for (size_t i = 0; i < at.parts && at.length > 0 && gy_call_gives(coll->comm, call); i++) {
        memcpy(to + i * at.length, from + i * at.part + at.first, at.length);
    }
}

static void copy_out(const gy_coll *coll)
{
    const gy_coll_call *call = &coll->call;
    leg_view at = view_of(coll, gets_parts(call));
    uint8_t *to = call->out;
    const uint8_t *from = out_of(coll);
    bool is_givers = is_broadcast(call) && coll->comm->rank == call->root;
    bool gets = gy_call_gets(coll->comm, call) && !is_givers && at.length > 0;
    GY_ASSERT(at.first + at.length <= at.part);
    GY_ASSERT(!coll->runner.is_in_library);
    if (gets && gy_call_reduces(call)) {
        gy_coll_fold_finish(&coll->runner.fold, out_of(coll),
                            at.length / gy_run_element_bytes(coll));
    }
    for (size_t i = 0; i < at.parts && gets; i++) {
        memcpy(to + i * at.part + at.first, from + i * at.length, at.length);
    }
}

gy_status gy_library_start(gy_coll *coll, const gy_coll_method *choice)
{
    GY_ASSERT(gy_row_is_library(choice->algorithm));
    GY_ASSERT(choice->pieces.leg >= 1 && choice->pieces.legs >= 1);
    GY_ASSERT(coll->comm->transport->library != NULL);
    gy_runner *runner = &coll->runner;
    const gy_coll_call *call = &coll->call;
    runner->choice = *choice;
    runner->fold = gy_call_fold(coll->comm, call);
    runner->plan = NULL;
    runner->leg = 0;
    runner->is_in_library = false;
    size_t most = GY_MIN((size_t)choice->pieces.leg, call->count) * gy_run_element_bytes(coll);
    size_t size = (size_t)coll->comm->size;
    size_t in = gy_round_up(most * (gives_parts(call) ? size : 1), GY_CACHE_LINE);
    size_t out = gy_round_up(most * (gets_parts(call) ? size : 1), GY_CACHE_LINE);
    runner->work_at = in + GY_CACHE_LINE; /* MPI forbids an input and an output that overlap */
    GY_ASSERT(runner->work_at >=
              in + GY_CACHE_LINE); /* MPI forbids an input and an output that overlap */
    return gy_run_reserve(runner, runner->work_at + out + GY_CACHE_LINE);
}

static gy_status start_leg(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    const gy_library *library = coll->comm->transport->library;
    const gy_coll_call *call = &coll->call;
    size_t element = gy_run_element_bytes(coll);
    const gy_library_call wanted = {.operation = call->operation,
                                    .dtype = call->dtype,
                                    .reduction = call->reduction,
                                    .root = call->root,
                                    .lane = (int)(coll->number % GY_CHANNELS),
                                    .count = view_of(coll, false).length / element,
                                    .in = runner->scratch,
                                    .out = out_of(coll)};
    _Static_assert((int)GY_CHANNELS == (int)GY_LIBRARY_LANES, "a lane for each channel");
    GY_ASSERT(!runner->is_in_library);
    GY_ASSERT(library != NULL && runner->leg < runner->choice.pieces.legs);
    copy_in(coll);
    if (!library->start(&wanted, &runner->request)) {
        return gy_fail(GY_IO, "%s cannot begin it", library->name);
    }
    runner->is_in_library = true;
    return GY_OK;
}

gy_status gy_library_step(gy_coll *coll, bool *has_moved)
{
    gy_runner *runner = &coll->runner;
    const gy_library *library = coll->comm->transport->library;
    GY_ASSERT(library != NULL);
    GY_ASSERT(runner->leg >= 0 && runner->leg <= runner->choice.pieces.legs);
    coll->peer = -1; /* the library does not report which rank it waits for */
    for (; runner->leg < runner->choice.pieces.legs; runner->leg++) {
        if (!runner->is_in_library) {
            GY_TRY(start_leg(coll));
            *has_moved = true;
        }
        gy_status status = library->test(&runner->request);
        if (status == GY_AGAIN) {
            return GY_AGAIN;
        }
        runner->is_in_library = false;
        if (status < 0) {
            return gy_fail(status, "%s failed in it", library->name);
        }
        copy_out(coll);
        *has_moved = true;
    }
    return GY_OK;
}

void gy_library_end(gy_coll *coll)
{
    gy_runner *runner = &coll->runner;
    if (runner->is_in_library) {
        GY_ASSERT(runner->scratch != NULL);
        coll->comm->transport->library->lose(&runner->request, runner->scratch);
        runner->is_in_library = false;
        runner->scratch = NULL;
        runner->scratch_bytes = 0;
    }
}
