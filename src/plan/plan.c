#include "plan/plan.h"

#include "base/base.h"
#include "plan/plan_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const gy_algorithm gy_algorithms[] = {
#define GY_PLANNER(title, op, planner, cutting, needs, guarantee, limit, takes)                \
    {.name = (title),                                                                          \
     .operation = GY_OPERATION_##op,                                                           \
     .plan = (planner),                                                                        \
     .cut = GY_CUT_##cutting,                                                                  \
     .need = GY_NEED_##needs,                                                                  \
     .order = GY_ORDER_##guarantee,                                                            \
     .limits = (limit),                                                                        \
     .parameter = GY_PARAMETER_##takes},
#include "plan/planners.def"
#undef GY_PLANNER
};
const size_t gy_algorithm_count = GY_COUNT(gy_algorithms);

const char *gy_operation_name(gy_operation operation)
{
    static const char *const names[] = {
        [GY_OPERATION_ALLREDUCE] = "allreduce",
        [GY_OPERATION_REDUCE_SCATTER] = "reduce-scatter",
        [GY_OPERATION_ALLGATHER] = "allgather",
        [GY_OPERATION_BROADCAST] = "broadcast",
        [GY_OPERATION_REDUCE] = "reduce",
        [GY_OPERATION_BARRIER] = "barrier",
        [GY_OPERATION_GATHER] = "gather",
        [GY_OPERATION_SCATTER] = "scatter",
        [GY_OPERATION_ALLTOALL] = "all-to-all",
        [GY_OPERATION_SCAN] = "scan",
        [GY_OPERATION_EXCLUSIVE_SCAN] = "exclusive scan",
    };
    _Static_assert(GY_COUNT(names) == GY_OPERATION_COUNT, "a name for each operation");
    return (unsigned)operation < GY_COUNT(names) ? names[operation] : "unknown operation";
}

const gy_algorithm *gy_algorithm_find(gy_operation operation, const char *name)
{
    size_t length = strcspn(name, ":");
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        const gy_algorithm *row = &gy_algorithms[i];
        if (row->operation == operation && strncmp(row->name, name, length) == 0 &&
            row->name[length] == '\0') {
            return row;
        }
    }
    return NULL;
}

static gy_status no_such_algorithm(gy_operation operation, const char *text)
{
    gy_text names = {.data = NULL};
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        static const char *const takes[] = {
            [GY_PARAMETER_NONE] = "",
            [GY_PARAMETER_NUMBER] = "[:NUMBER]",
            [GY_PARAMETER_PAIR] = "[:INSIDE+ACROSS]",
        };
        if (gy_algorithms[i].operation == operation) {
            gy_text_add(&names, "%s%s%s", gy_text_get(&names)[0] == '\0' ? "" : ", ",
                        gy_algorithms[i].name, takes[gy_algorithms[i].parameter]);
        }
    }
    gy_status status = gy_fail(GY_ARG, "no algorithm of %s is called \"%s\"; there are %s",
                               gy_operation_name(operation), text, gy_text_get(&names));
    gy_text_free(&names);
    return status;
}

gy_status gy_algorithm_parse(gy_operation operation, const char *text,
                             const gy_algorithm **algorithm, char parameter[GY_PLAN_PARAMETER])
{
    const gy_algorithm *row = gy_algorithm_find(operation, text);
    if (row == NULL) {
        return no_such_algorithm(operation, text);
    }
    const char *colon = strchr(text, ':');
    const char *given = colon == NULL ? "" : colon + 1;
    gy_plan_request request = {.operation = operation, .ranks = 1};
    if (strlen(given) >= sizeof(request.parameter) || (colon != NULL && *given == '\0')) {
        return gy_fail(GY_ARG, "%s: a parameter of 1 to %zu characters is expected", text,
                       sizeof(request.parameter) - 1);
    }
    memcpy(request.parameter, given, strlen(given) + 1);
    GY_TRY(gy_plan_request_check_parameter(row, &request));
    *algorithm = row;
    memcpy(parameter, request.parameter, sizeof(request.parameter));
    return GY_OK;
}

static void note_slots(gy_steps *steps, const gy_blocks *blocks)
{
    int32_t end = blocks->slot + blocks->run;
    if (blocks->buffer == GY_BUFFER_STAGE) {
        steps->stage_slots = GY_MAX(steps->stage_slots, end);
    } else if (blocks->buffer == GY_BUFFER_SCRATCH) {
        steps->scratch_slots = GY_MAX(steps->scratch_slots, end);
    } else if (blocks->buffer == GY_BUFFER_WORK) {
        steps->work_planes = GY_MAX(steps->work_planes, blocks->slot + 1);
    }
}

static gy_status store(gy_plan_sink *sink, const gy_step *step)
{
    gy_steps *steps = (gy_steps *)sink; /* the sink is its first member */
    GY_TRY(GY_GROW("plan.steps", steps->items, steps->capacity, steps->count + 1));
    if (steps->most > 0 && steps->count == steps->most) {
        return GY_CANCELLED;
    }
    steps->items[steps->count++] = *step;
    note_slots(steps, &step->a);
    note_slots(steps, &step->b);
    note_slots(steps, &step->to);
    if (step->kind == GY_STEP_POST || step->kind == GY_STEP_WAIT) {
        steps->last_mark = GY_MAX(steps->last_mark, step->mark);
    } else if (step->kind == GY_STEP_RECV_REDUCE) {
        steps->wire_run = GY_MAX(steps->wire_run, step->to.run);
    }
    return GY_OK;
}

void gy_steps_init(gy_steps *steps)
{
    *steps = (gy_steps){.sink = {.take = store}};
}

void gy_steps_free(gy_steps *steps)
{
    gy_free(steps->items);
    gy_steps_init(steps);
}

size_t gy_steps_opening(const gy_steps *steps, int rank)
{
    for (size_t i = 0; i < steps->count; i++) {
        const gy_step *step = &steps->items[i];
        bool lays_out = step->kind == GY_STEP_COPY && step->a.buffer == GY_BUFFER_IN &&
                        step->a.rank == rank && step->to.buffer == GY_BUFFER_STAGE &&
                        step->to.rank == rank;
        if (!lays_out) {
            return step->kind == GY_STEP_POST && step->mark == 1 ? i + 1 : 0;
        }
    }
    return 0;
}

gy_status gy_plan_emit(gy_plan_sink *sink, const gy_step *step)
{
    gy_status status = sink->count < sink->first ? GY_OK : sink->take(sink, step);
    sink->count += status == GY_OK;
    return status;
}

gy_status gy_plan_emit_send(gy_plan_sink *sink, int peer, gy_blocks a, int tag)
{
    return gy_plan_emit(
        sink, &(gy_step){.kind = GY_STEP_SEND, .peer = peer, .a = a, .chunk = (uint16_t)tag});
}

gy_status gy_plan_emit_recv(gy_plan_sink *sink, int peer, gy_blocks to, int tag, uint32_t after)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV,
                                         .peer = peer,
                                         .to = to,
                                         .chunk = (uint16_t)tag,
                                         .after = {after}});
}

gy_status gy_plan_emit_copy(gy_plan_sink *sink, gy_blocks a, gy_blocks to)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_COPY, .a = a, .to = to});
}

gy_status gy_plan_emit_reduce(gy_plan_sink *sink, gy_blocks a, gy_blocks b, gy_blocks to)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_REDUCE, .a = a, .b = b, .to = to});
}

gy_status gy_plan_emit_post(gy_plan_sink *sink, uint32_t mark)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_POST, .mark = mark});
}

gy_status gy_plan_emit_wait(gy_plan_sink *sink, int peer, uint32_t mark)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_WAIT, .peer = peer, .mark = mark});
}

static gy_status check_limits(const gy_algorithm *algorithm, const gy_plan_request *request)
{
    const char *name = algorithm->name, *operation = gy_operation_name(algorithm->operation);
    if (request->order > algorithm->order) {
        return gy_fail(GY_ARG, "%s of %s does not combine in the requested order", name,
                       operation);
    }
    if ((algorithm->limits & GY_LIMIT_APART) != 0 && request->in_place) {
        return gy_fail(GY_ARG, "%s of %s cannot be done in place", name, operation);
    }
    GY_TRY(gy_plan_request_check_parameter(algorithm, request));
    int64_t ranks = request->ranks, chunks = gy_request_chunks(request);
    chunks *=
        algorithm->cut == GY_CUT_SEGMENTS ? gy_plan_request_number(request, GY_SEGMENTS) : 1;
    if (chunks > UINT16_MAX) {
        return gy_fail(GY_LIMIT, "%s of %s: %lld chunks, at most %d", name, operation,
                       (long long)chunks, UINT16_MAX);
    }
    int64_t most = ranks * chunks * (algorithm->cut == GY_CUT_PAIRS ? ranks : 1);
    if (most > INT32_MAX) {
        return gy_fail(GY_LIMIT, "%s of %s: %lld blocks, at most %d", name, operation,
                       (long long)most, INT32_MAX);
    }
    return GY_OK;
}

gy_status gy_plan_request_check(const gy_algorithm *algorithm, const gy_plan_request *request)
{
    if (request->operation != algorithm->operation) {
        return gy_fail(GY_ARG, "%s of %s requested a plan of %s", algorithm->name,
                       gy_operation_name(algorithm->operation),
                       gy_operation_name(request->operation));
    }
    if (request->ranks < 1 || request->ranks > GY_PLAN_RANKS) {
        return gy_fail(GY_ARG, "%d ranks, expected 1 to %d", request->ranks, GY_PLAN_RANKS);
    }
    if (request->root < 0 || request->root >= request->ranks) {
        return gy_fail(GY_ARG, "root %d, expected 0 to %d", request->root, request->ranks - 1);
    }
    if (request->chunks < 0 || request->chunks > UINT16_MAX) {
        return gy_fail(GY_ARG, "%d chunks, expected 0 to %d", request->chunks, UINT16_MAX);
    }
    if (request->claims < GY_CLAIMS_FREE ||
        (request->claims != GY_CLAIMS_USUAL && (algorithm->limits & GY_HAS_CLAIMS) == 0)) {
        return gy_fail(GY_ARG, "%s of %s has no claims %d", algorithm->name,
                       gy_operation_name(algorithm->operation), request->claims);
    }
    const gy_topology *topology = request->topology;
    for (int rank = 0; topology != NULL && rank < request->ranks; rank++) {
        if (topology->host_of[rank] < 0 || topology->host_of[rank] >= topology->hosts) {
            return gy_fail(GY_ARG, "rank %d is on host %d, expected 0 to %d", rank,
                           topology->host_of[rank], topology->hosts - 1);
        }
    }
    return check_limits(algorithm, request);
}

gy_status gy_plan_rank(const gy_algorithm *algorithm, const gy_plan_request *request, int rank,
                       gy_plan_sink *sink)
{
    if (request->shared == NULL) {
        GY_TRY(gy_plan_request_check(algorithm, request));
    }
    if (rank < 0 || rank >= request->ranks) {
        return gy_fail(GY_ARG, "rank %d, expected 0 to %d", rank, request->ranks - 1);
    }
    return algorithm->plan(request, rank, sink);
}

gy_status gy_plan_window(const gy_algorithm *algorithm, const gy_plan_request *request,
                         int rank, uint32_t first, size_t count, gy_steps *steps)
{
    GY_ASSERT(count > 0);
    steps->sink = (gy_plan_sink){.take = store, .first = first};
    steps->count = 0;
    steps->most = count;
    gy_status status = gy_plan_rank(algorithm, request, rank, &steps->sink);
    steps->has_end = status == GY_OK;
    return status == GY_CANCELLED && steps->count == count ? GY_OK : status;
}

static gy_status plan_all(gy_plan *plan)
{
    const gy_plan_request *request = &plan->request;
    GY_TRY(gy_plan_share(plan->algorithm, request, &plan->shared));
    plan->request.shared = plan->shared;
    plan->ranks = gy_alloc_zero("plan.ranks", (size_t)request->ranks, sizeof(*plan->ranks));
    if (plan->ranks == NULL) {
        return GY_NOMEM;
    }
    for (int rank = 0; rank < request->ranks; rank++) {
        gy_steps *steps = &plan->ranks[rank];
        gy_steps_init(steps);
        if (plan->window == 0) {
            GY_TRY(gy_plan_rank(plan->algorithm, request, rank, &steps->sink));
            steps->has_end = true;
        }
    }
    return GY_OK;
}

gy_status gy_plan_new_lazy(const gy_algorithm *algorithm, const gy_plan_request *request,
                           size_t window, gy_plan **plan)
{
    gy_plan *made = gy_alloc_zero("plan", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_plan){.algorithm = algorithm, .request = *request, .window = window};
    gy_status status = plan_all(made);
    if (status != GY_OK) {
        gy_plan_free(made);
        return status;
    }
    *plan = made;
    return GY_OK;
}

gy_status gy_plan_new(const gy_algorithm *algorithm, const gy_plan_request *request,
                      gy_plan **plan)
{
    return gy_plan_new_lazy(algorithm, request, 0, plan);
}

void gy_plan_free(gy_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (int rank = 0; plan->ranks != NULL && rank < plan->request.ranks; rank++) {
        gy_free(plan->ranks[rank].items);
    }
    gy_free(plan->ranks);
    gy_plan_shared_free(plan->shared);
    gy_free(plan);
}
