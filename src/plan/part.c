/*
 * A plan inside a plan: the steps of a group's plan, with its ranks, blocks, slots and marks
 * translated to those of the outer plan. An inner block may be several outer blocks (all parts
 * of a host's ranks): a step then becomes one step for each contiguous range of them, or for
 * each block where slots are involved, since a slot has one block.
 */
#include "plan/plan_priv.h"

#include "base/base.h"

typedef struct part_sink {
    gy_plan_sink sink; /* of the inner plan */
    const gy_plan_group *part;
    gy_plan_sink *outer;
    int inner_rank;
    uint32_t base;  /* steps of the outer plan before the part */
    uint32_t *last; /* (steps) 1 + outer index of the last step for an inner step */
    size_t count, capacity;
} part_sink;

static bool is_slots(int buffer)
{
    return buffer == GY_BUFFER_STAGE || buffer == GY_BUFFER_SCRATCH;
}

static int width_of(const gy_plan_group *part)
{
    return GY_MAX(part->width, 1);
}

static int outer_rank(const gy_plan_group *part, int rank)
{
    return rank == GY_EVERY ? GY_EVERY : part->ranks[rank];
}

/* The operand for the outer blocks `run`, or for the n-th single block of inner block
 * `inner`. */
static gy_blocks rename_blocks(const part_sink *to, const gy_blocks *at, gy_block_run run,
                               int nth, int inner)
{
    const gy_plan_group *part = to->part;
    gy_blocks out = *at;
    out.first = run.first;
    out.run = run.run;
    out.rank = outer_rank(part, at->rank);
    if (at->buffer == GY_BUFFER_IN || at->buffer == GY_BUFFER_OUT) {
        const gy_blocks *base = at->buffer == GY_BUFFER_IN ? &part->in : &part->out;
        out.buffer = base->buffer;
        out.slot = base->slot;
    } else if (at->buffer == GY_BUFFER_WORK) {
        out.slot = at->slot + part->work_plane;
    } else if (is_slots(at->buffer)) {
        int base = at->buffer == GY_BUFFER_STAGE ? part->stage_slot : part->scratch_slot;
        int slot = at->first == GY_WHOLE ? at->slot : at->slot + inner - at->first;
        out.slot = base + slot * width_of(part) + nth;
    }
    return out;
}

/* A write to every rank of the group: a write to one rank, then copies. */
static gy_status emit_everywhere(part_sink *to, gy_step *step)
{
    const gy_plan_group *part = to->part;
    if (step->to.rank != GY_EVERY) {
        return gy_plan_emit(to->outer, step);
    }
    int own = part->ranks[to->inner_rank];
    step->to.rank = own;
    GY_TRY(gy_plan_emit(to->outer, step));
    for (int i = 0; i < part->request.ranks; i++) {
        if (part->ranks[i] != own) {
            gy_blocks far = step->to;
            far.rank = part->ranks[i];
            GY_TRY(gy_plan_emit_copy(to->outer, step->to, far));
        }
    }
    return GY_OK;
}

static void note_slots(const gy_plan_group *part, const gy_blocks *at)
{
    if (part->scratch_end != NULL && at->buffer == GY_BUFFER_SCRATCH) {
        *part->scratch_end = GY_MAX(*part->scratch_end, at->slot + at->run);
    }
}

static gy_status emit_run(part_sink *to, const gy_step *inner, gy_step *outer, gy_block_run run,
                          const int place[2])
{
    outer->a = rename_blocks(to, &inner->a, run, place[0], place[1]);
    outer->b = rename_blocks(to, &inner->b, run, place[0], place[1]);
    outer->to = rename_blocks(to, &inner->to, run, place[0], place[1]);
    note_slots(to->part, &outer->a);
    note_slots(to->part, &outer->b);
    note_slots(to->part, &outer->to);
    gy_status status = emit_everywhere(to, outer);
    /* the sends that the first one waited for have ended */
    outer->after[0] = outer->after[1] = 0;
    return status;
}

static bool is_message(const gy_step *step)
{
    return step->kind == GY_STEP_SEND || step->kind == GY_STEP_RECV ||
           step->kind == GY_STEP_RECV_REDUCE;
}

/* How many outer ranges an inner block consists of. */
static int run_count(const gy_plan_group *part, int block)
{
    return part->begins == NULL ? 1 : part->begins[block + 1] - part->begins[block];
}

static gy_block_run run_at(const gy_plan_group *part, int block, int i)
{
    int inner_chunks = GY_MAX(part->inner_chunks, 1), chunks = GY_MAX(part->outer_chunks, 1);
    if (part->runs == NULL) {
        return (gy_block_run){block, 1};
    }
    if (inner_chunks > 1) {
        return (gy_block_run){
            part->runs[block / inner_chunks].first * chunks + block % inner_chunks, 1};
    }
    const gy_block_run *run =
        &part->runs[part->begins == NULL ? block : part->begins[block] + i];
    return (gy_block_run){run->first * chunks, run->run * chunks};
}

static gy_status emit_singles(part_sink *to, const gy_step *inner, gy_step *outer, int block)
{
    int nth = 0;
    for (int i = 0; i < run_count(to->part, block); i++) {
        gy_block_run run = run_at(to->part, block, i);
        for (int k = 0; k < run.run; k++, nth++) {
            GY_TRY(emit_run(to, inner, outer, (gy_block_run){run.first + k, 1},
                            (const int[]){nth, block}));
        }
    }
    return GY_OK;
}

/* Emit steps for the ranges, merging adjacent ones. */
static gy_status emit_runs(part_sink *to, const gy_step *inner, gy_step *outer,
                           const gy_blocks *at)
{
    gy_block_run open = {0, 0};
    const int place[2] = {0, at->first};
    if (to->part->runs == NULL) {
        return emit_run(to, inner, outer, (gy_block_run){at->first, at->run}, place);
    }
    for (int block = at->first; block < at->first + at->run; block++) {
        for (int i = 0; i < run_count(to->part, block); i++) {
            gy_block_run run = run_at(to->part, block, i);
            if (open.run > 0 && open.first + open.run != run.first) {
                GY_TRY(emit_run(to, inner, outer, open, place));
                open.run = 0;
            }
            open.first = open.run == 0 ? run.first : open.first;
            open.run += run.run;
        }
    }
    return open.run == 0 ? GY_OK : emit_run(to, inner, outer, open, place);
}

/* Emit the step for all outer blocks: by ranges, or one by one where slots are involved. */
static gy_status emit_blocks(part_sink *to, const gy_step *inner, gy_step *outer)
{
    const gy_blocks *at = inner->kind == GY_STEP_SEND ? &inner->a : &inner->to;
    bool is_single = (to->part->algorithm->limits & GY_LIMIT_SINGLE) != 0;
    if (!is_message(inner)) {
        is_single = is_slots(inner->a.buffer) || is_slots(inner->to.buffer) ||
                    (inner->kind == GY_STEP_REDUCE && is_slots(inner->b.buffer));
    }
    if (!is_single) {
        return emit_runs(to, inner, outer, at);
    }
    for (int block = at->first; block < at->first + at->run; block++) {
        GY_TRY(emit_singles(to, inner, outer, block));
    }
    return GY_OK;
}

static gy_status emit_data(part_sink *to, const gy_step *inner, gy_step *outer)
{
    const gy_blocks *at = inner->kind == GY_STEP_SEND ? &inner->a : &inner->to;
    if (at->first == GY_WHOLE) {
        return emit_run(to, inner, outer,
                        (gy_block_run){GY_WHOLE, at->run * width_of(to->part)},
                        (const int[]){0, 0});
    }
    return at->run > 0 ? emit_blocks(to, inner, outer)
                       : emit_run(to, inner, outer, (gy_block_run){0, 0}, (const int[]){0, 0});
}

static gy_status emit_wait(part_sink *to, const gy_step *inner, gy_step *outer)
{
    const gy_plan_group *part = to->part;
    for (int i = 0; i < part->request.ranks; i++) {
        if (i == inner->peer || (inner->peer == GY_EVERY && i != to->inner_rank)) {
            outer->peer = part->ranks[i];
            GY_TRY(gy_plan_emit(to->outer, outer));
        }
    }
    return GY_OK;
}

/* Translate the sends that an inner step waits for. */
static gy_status rename_after(part_sink *to, const gy_step *inner, gy_step *outer)
{
    if (to->part->is_single_step) {
        for (int i = 0; i < 2; i++) {
            outer->after[i] = inner->after[i] == 0 ? 0 : inner->after[i] + to->base;
        }
        to->outer->count = to->base + to->sink.count; /* the skipped steps count too */
        return GY_OK;
    }
    GY_TRY(GY_GROW("plan.part", to->last, to->capacity, to->count + 1));
    for (int i = 0; i < 2; i++) {
        uint32_t after = inner->after[i];
        GY_ASSERT(after <= to->count);
        outer->after[i] = after == 0 ? 0 : to->last[after - 1];
    }
    return GY_OK;
}

static gy_status take_inner(gy_plan_sink *sink, const gy_step *inner)
{
    part_sink *to = (part_sink *)sink; /* its first member */
    const gy_plan_group *part = to->part;
    gy_step outer = *inner;
    GY_TRY(rename_after(to, inner, &outer));
    gy_status status = GY_OK;
    switch (inner->kind) {
    case GY_STEP_POST:
        outer.mark += part->mark;
        status = gy_plan_emit(to->outer, &outer);
        break;
    case GY_STEP_WAIT:
        outer.mark += part->mark;
        status = emit_wait(to, inner, &outer);
        break;
    case GY_STEP_SEND:
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        outer.peer = part->ranks[inner->peer];
        status = emit_data(to, inner, &outer);
        break;
    case GY_STEP_COPY:
    case GY_STEP_REDUCE:
    case GY_STEP_CLAIM:
    case GY_STEP_CLAIMED:
    case GY_STEP_COUNT:
    default:
        status = emit_data(to, inner, &outer);
    }
    if (part->is_single_step) {
        GY_ASSERT(status != GY_OK || to->outer->count == to->base + to->sink.count + 1);
    } else {
        to->last[to->count++] = to->outer->count;
    }
    return status;
}

gy_status gy_plan_part(const gy_plan_group *part, int rank, gy_plan_sink *sink)
{
    int inner = GY_MAX(part->at - 1, 0);
    while (inner < part->request.ranks && part->ranks[inner] != rank) {
        inner++;
    }
    if (inner == part->request.ranks) {
        return GY_OK;
    }
    part_sink to = {.sink = {.take = take_inner},
                    .part = part,
                    .outer = sink,
                    .inner_rank = inner,
                    .base = sink->count};
    if (part->is_single_step && sink->first > sink->count) {
        to.sink.first = sink->first - sink->count;
    }
    gy_status status = gy_plan_rank(part->algorithm, &part->request, inner, &to.sink);
    if (part->is_single_step && status == GY_OK) {
        sink->count = to.base + to.sink.count;
    }
    gy_free(to.last);
    return status;
}
