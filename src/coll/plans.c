/* The cache of plans, since a training loop calls the same collectives over and over. */
#include "coll/coll_priv.h"

#include <string.h>

static bool is_same(const gy_plan_request *a, const gy_plan_request *b)
{
    GY_ASSERT(a->ranks > 0 && b->ranks > 0);
    return a->operation == b->operation && a->ranks == b->ranks && a->root == b->root &&
           a->chunks == b->chunks && a->in_place == b->in_place && a->order == b->order &&
           a->claims == b->claims && strcmp(a->parameter, b->parameter) == 0;
}

static void forget(gy_cached_plan *plan)
{
    GY_ASSERT(plan->users == 0);
    gy_steps_free(&plan->steps);
    gy_free(plan->notes);
    *plan = (gy_cached_plan){.algorithm = NULL};
}

static bool crosses_parts(const gy_blocks *at, int chunks)
{
    GY_ASSERT(chunks > 0);
    bool is_users = at->buffer == GY_BUFFER_IN || at->buffer == GY_BUFFER_OUT;
    return is_users && at->run > 1 && at->first / chunks != (at->first + at->run - 1) / chunks;
}

/* Counts the sends of a plan and the room that its messages need beside the buffers. */
static void measure(gy_cached_plan *plan)
{
    int chunks = gy_cut_chunks(plan->algorithm->cut, &plan->request);
    GY_ASSERT(plan->notes != NULL && plan->send_count == 0);
    GY_ASSERT(chunks > 0);
    for (size_t i = 0; i < plan->steps.count; i++) {
        const gy_step *step = &plan->steps.items[i];
        GY_ASSERT((unsigned)step->kind < GY_STEP_COUNT);
        bool is_sent = step->kind == GY_STEP_SEND;
        bool is_narrowed = gy_sums_travel(plan->algorithm) && step->to.buffer == GY_BUFFER_OUT;
        bool is_beside =
            step->kind == GY_STEP_RECV_REDUCE ||
            (step->kind == GY_STEP_RECV && (is_narrowed || crosses_parts(&step->to, chunks)));
        plan->notes[i].sends_before = plan->send_count;
        plan->claims = step->kind == GY_STEP_CLAIMED ? step->mark : plan->claims;
        plan->send_count += is_sent;
        plan->widen_run += is_sent && step->a.buffer == GY_BUFFER_IN ? step->a.run : 0;
        plan->pack_run += is_sent && crosses_parts(&step->a, chunks) ? step->a.run : 0;
        plan->wire_run = is_beside ? GY_MAX(plan->wire_run, step->to.run) : plan->wire_run;
    }
}

/* Marks the operands that are running sums: what an earlier step combined in scratch and, where
 * the messages carry sums, all that is received. */
static gy_status find_sums(gy_cached_plan *plan)
{
    size_t slots = (size_t)plan->steps.scratch_slots;
    bool travel = gy_sums_travel(plan->algorithm);
    bool *is_sum = gy_alloc_zero("coll.plan", slots + 1, sizeof(*is_sum));
    if (is_sum == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < plan->steps.count; i++) {
        const gy_step *step = &plan->steps.items[i];
        gy_step_note *note = &plan->notes[i];
        bool is_combined = step->kind == GY_STEP_REDUCE || step->kind == GY_STEP_RECV_REDUCE;
        bool is_kept = step->to.buffer == GY_BUFFER_SCRATCH;
        if (is_combined || travel) {
            note->a_is_sum = step->a.buffer == GY_BUFFER_SCRATCH
                                 ? is_sum[step->a.slot]
                                 : travel && step->a.buffer == GY_BUFFER_WIRE;
            note->b_is_sum = step->b.buffer == GY_BUFFER_SCRATCH && is_sum[step->b.slot];
        }
        bool becomes =
            is_combined || (travel && (step->kind == GY_STEP_RECV || note->a_is_sum));
        GY_ASSERT(!is_kept || (step->to.slot >= 0 &&
                               (size_t)step->to.slot + (size_t)step->to.run <= slots));
        for (int32_t k = 0; is_kept && k < step->to.run; k++) {
            is_sum[step->to.slot + k] = becomes;
        }
    }
    gy_free(is_sum);
    return GY_OK;
}

/* Tests whether `next` takes the sum that `step` left in scratch as its left operand. */
static bool goes_on(const gy_step *step, const gy_step *next)
{
    GY_ASSERT(next == step + 1);
    const gy_blocks *sum = &step->to, *left = &next->a;
    return next->kind == GY_STEP_REDUCE && next->after[0] == 0 && next->after[1] == 0 &&
           sum->buffer == GY_BUFFER_SCRATCH && left->buffer == GY_BUFFER_SCRATCH &&
           next->b.buffer != GY_BUFFER_SCRATCH && sum->slot == left->slot &&
           sum->first == left->first && sum->run == left->run && next->to.run == sum->run &&
           (next->to.buffer != GY_BUFFER_SCRATCH || next->to.slot == sum->slot);
}

/* Tests whether a later step overwrites what a chain leaves in a scratch slot before any step
 * reads it. */
static bool is_left(const gy_cached_plan *plan, size_t from, int32_t slot)
{
    GY_ASSERT(from <= plan->steps.count && slot >= 0);
    for (size_t i = from; i < plan->steps.count; i++) {
        const gy_step *step = &plan->steps.items[i];
        const gy_blocks *blocks[] = {&step->a, &step->b, &step->to};
        for (size_t k = 0; k < GY_COUNT(blocks); k++) {
            const gy_blocks *at = blocks[k];
            if (at->buffer == GY_BUFFER_SCRATCH && at->slot <= slot &&
                slot < at->slot + at->run) {
                return at == &step->to;
            }
        }
    }
    return true;
}

/* Finds chains: folds over shared memory whose running sum no other step reads. They put x0 op
 * x1 into scratch, then that op x2 into scratch, and so on; the last sum goes elsewhere. */
static void find_chains(gy_cached_plan *plan)
{
    const gy_step *steps = plan->steps.items;
    if (plan->algorithm->need == GY_NEED_MESSAGES || gy_sums_travel(plan->algorithm)) {
        return;
    }
    for (size_t i = 0; i < plan->steps.count; i++) {
        size_t length = 1;
        if (steps[i].kind != GY_STEP_REDUCE || steps[i].a.buffer == GY_BUFFER_SCRATCH) {
            continue;
        }
        while (i + length < plan->steps.count &&
               goes_on(&steps[i + length - 1], &steps[i + length])) {
            length++;
        }
        GY_ASSERT(i + length <= plan->steps.count);
        const gy_step *last = &steps[i + length - 1];
        bool is_whole =
            length > 1 && length < GY_FOLD_TERMS && steps[i].b.buffer != GY_BUFFER_SCRATCH &&
            last->to.buffer != GY_BUFFER_SCRATCH && is_left(plan, i + length, steps[i].to.slot);
        plan->notes[i].chain = is_whole ? (uint16_t)length : 0;
        i += length - 1;
    }
}

static gy_status make(const gy_comm *comm, gy_cached_plan *plan)
{
    GY_ASSERT(gy_comm_has_rank(comm, comm->rank));
    GY_ASSERT(plan->request.ranks == comm->size);
    GY_ASSERT(plan->users == 0);
    gy_steps_init(&plan->steps);
    GY_TRY(gy_plan_rank(plan->algorithm, &plan->request, comm->rank, &plan->steps.sink));
    plan->notes = gy_alloc_zero("coll.plan", plan->steps.count + 1, sizeof(*plan->notes));
    if (plan->notes == NULL) {
        return GY_NOMEM;
    }
    measure(plan);
    find_chains(plan);
    return find_sums(plan);
}

gy_status gy_cached_plan_take(gy_comm *comm, const gy_algorithm *algorithm,
                              const gy_plan_request *request, gy_cached_plan **plan)
{
    GY_ASSERT(!gy_row_is_library(algorithm));
    GY_ASSERT(algorithm->operation == request->operation);
    GY_ASSERT(request->chunks >= 1);
    gy_cached_plan *oldest = NULL;
    for (size_t i = 0; i < GY_CACHED_PLANS; i++) {
        gy_cached_plan *cached = &comm->cached[i];
        GY_ASSERT(cached->users >= 0);
        if (cached->algorithm == algorithm && is_same(&cached->request, request)) {
            cached->users++;
            cached->last_used = ++comm->uses;
            *plan = cached;
            return GY_OK;
        }
        if (cached->users == 0 && (oldest == NULL || cached->last_used < oldest->last_used)) {
            oldest = cached;
        }
    }
    GY_ASSERT(oldest != NULL); /* at most GY_CHANNELS plans are in use at once */
    forget(oldest);
    oldest->algorithm = algorithm;
    oldest->request = *request;
    gy_status status = make(comm, oldest);
    if (status != GY_OK) {
        forget(oldest);
        return status;
    }
    GY_ASSERT(oldest->send_count <= oldest->steps.count);
    oldest->users = 1;
    oldest->last_used = ++comm->uses;
    *plan = oldest;
    return GY_OK;
}

void gy_plans_free(gy_comm *comm)
{
    for (size_t i = 0; i < GY_CACHED_PLANS; i++) {
        forget(&comm->cached[i]);
    }
}
