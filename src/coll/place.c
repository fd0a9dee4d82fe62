/* Computes where the blocks of a running plan lie, and loops over them to copy, combine and
 * pack. */
#include "coll/coll_priv.h"

#include <string.h>

/* Tests whether a step moves whole slots, without looking at their elements. */
static bool is_whole_slots(const gy_blocks *at)
{
    return at->first == GY_WHOLE;
}

static size_t slot_bytes(const gy_runner *runner, const gy_blocks *at)
{
    return at->buffer == GY_BUFFER_STAGE ? runner->stage_slot_bytes
                                         : runner->scratch_slot_bytes;
}

size_t gy_run_bytes_of(const gy_coll *coll, const gy_blocks *at)
{
    const gy_runner *runner = &coll->runner;
    GY_CHECK_DEEP(at->run >= 0);
    GY_CHECK_DEEP(at->first >= GY_WHOLE);
    if (is_whole_slots(at)) {
        return (size_t)at->run * slot_bytes(runner, at);
    }
    return (size_t)gy_layout_length(&runner->layout, at->first, at->run) *
           gy_run_element_bytes(coll);
}

size_t gy_run_message_bytes(const gy_coll *coll, const gy_blocks *at)
{
    const gy_coll_fold *fold = &coll->runner.fold;
    size_t bytes = gy_run_bytes_of(coll, at);
    GY_CHECK_DEEP(!gy_run_widens(&coll->runner) || bytes % fold->element_bytes == 0);
    return gy_run_widens(&coll->runner)
               ? bytes / fold->element_bytes * gy_coll_fold_sum_bytes(fold)
               : bytes;
}

static uint8_t *user_block(const gy_coll *coll, const gy_blocks *at, int rank)
{
    const gy_comm *comm = coll->comm;
    const gy_runner *runner = &coll->runner;
    bool is_in = at->buffer == GY_BUFFER_IN;
    GY_CHECK_DEEP(is_in || at->buffer == GY_BUFFER_OUT);
    GY_CHECK_DEEP(rank == comm->rank || comm->shared != NULL);
    /* The plan never writes to IN (the plan checker proves it), so the cast loses no safety. */
    uint8_t *base = is_in ? (uint8_t *)(uintptr_t)runner->in : coll->call.out;
    if (rank != comm->rank) {
        const gy_remote_address *remote = &coll->remote[rank];
        base = gy_shared_pool(comm->shared, gy_comm_place(comm, rank)) +
               (is_in ? remote->in : remote->out);
    }
    int64_t start =
        gy_layout_start(&runner->layout, &runner->plan->request, at->buffer, at->first);
    if (rank != comm->rank && is_in && coll->call.is_vector &&
        coll->call.operation == GY_OPERATION_ALLTOALL) { /* the peer's row of parts begins at
                                                            another displacement */
        const int64_t *remote_displacements = coll->numbers + 3 * (size_t)comm->size;
        start += remote_displacements[rank] - runner->layout.in_displacements[comm->rank];
    }
    size_t offset = (size_t)(runner->first + start) * gy_run_element_bytes(coll);
    return base == NULL ? NULL : base + offset;
}

uint8_t *gy_run_place(const gy_coll *coll, const gy_blocks *at, int rank)
{
    const gy_runner *runner = &coll->runner;
    int buffer = at->buffer;
    GY_CHECK_DEEP(gy_comm_has_rank(coll->comm, rank));
    GY_CHECK_DEEP((buffer != GY_BUFFER_SCRATCH && buffer != GY_BUFFER_WORK) ||
                  rank == coll->comm->rank);
    switch (buffer) {
    case GY_BUFFER_STAGE:
        GY_CHECK_DEEP(((size_t)at->slot + 1) * runner->stage_slot_bytes <=
                      coll->comm->region_bytes);
        return gy_region_of(coll, rank) + (size_t)at->slot * runner->stage_slot_bytes;
    case GY_BUFFER_SCRATCH:
        GY_CHECK_DEEP(at->slot >= 0 && at->slot < runner->plan->steps.scratch_slots);
        return runner->scratch + (size_t)at->slot * runner->scratch_slot_bytes;
    case GY_BUFFER_WORK:
        GY_CHECK_DEEP(at->slot >= 0 && at->slot < runner->plan->steps.work_planes);
        return runner->scratch + runner->work_at + (size_t)at->slot * runner->work_bytes +
               (size_t)gy_layout_length(&runner->layout, 0, at->first) *
                   gy_run_element_bytes(coll);
    case GY_BUFFER_WIRE:
        return runner->scratch + runner->wire_at;
    default:
        return user_block(coll, at, rank);
    }
}

bool gy_run_is_dense(const gy_coll *coll, const gy_blocks *at)
{
    const gy_layout *layout = &coll->runner.layout;
    bool is_users = at->buffer == GY_BUFFER_IN || at->buffer == GY_BUFFER_OUT;
    GY_CHECK_DEEP(layout->chunks > 0);
    GY_CHECK_DEEP(at->run >= 0);
    if (!is_users || at->run <= 1 ||
        at->first / layout->chunks == (at->first + at->run - 1) / layout->chunks) {
        return true;
    }
    return gy_layout_is_dense(layout, &coll->runner.plan->request, at->buffer, at->first,
                              at->run);
}

/* One piece of a step; `before` counts the bytes of the message that earlier pieces have taken.
 */
typedef struct piece {
    const gy_step *step;
    size_t bytes, before;
} piece;

static const uint8_t *operand(const gy_coll *coll, const piece *now, const gy_blocks *at)
{
    const uint8_t *place = gy_run_place(coll, at, at->rank);
    GY_CHECK_DEEP(now->before == 0 || now->step->to.run == 1);
    return at->buffer == GY_BUFFER_WIRE ? place + now->before : place;
}

/* Combines one piece. Where one rank folds all contributions, scratch holds running sums and
 * any other target gets a finished one. Other message plans combine elements as they are. */
static void combine_piece(const gy_coll *coll, const piece *now, const gy_targets *targets)
{
    const gy_runner *runner = &coll->runner;
    const gy_step *step = now->step;
    const gy_step_note *note = &runner->plan->notes[runner->next];
    gy_term a = {.data = operand(coll, now, &step->a), .is_sum = note->a_is_sum};
    gy_term b = {.data = operand(coll, now, &step->b), .is_sum = note->b_is_sum};
    size_t count = now->bytes / gy_run_element_bytes(coll);
    GY_CHECK_DEEP(runner->next < runner->plan->steps.count);
    GY_CHECK_DEEP(now->bytes % gy_run_element_bytes(coll) == 0);
    if (gy_run_folds(runner)) {
        gy_coll_fold_into(targets, step->to.buffer == GY_BUFFER_SCRATCH, &runner->fold, a, b,
                          count);
    } else {
        gy_coll_combine_into(targets, &runner->fold, a.data, b.data, count);
    }
}

/* Copies a sum that is wider than an element: unchanged to scratch, finished to any other
 * target. */
static void copy_sum(const gy_coll *coll, const piece *now, const gy_targets *targets)
{
    const gy_coll_fold *fold = &coll->runner.fold;
    const void *sum = operand(coll, now, &now->step->a);
    size_t count = now->bytes / fold->element_bytes;
    GY_CHECK_DEEP(gy_coll_fold_is_wide(fold));
    GY_CHECK_DEEP(now->bytes % fold->element_bytes == 0);
    if (now->step->to.buffer == GY_BUFFER_SCRATCH) {
        gy_copy_into(targets, sum, count * gy_coll_fold_sum_bytes(fold));
    } else {
        gy_finish_into(targets, fold, sum, count);
    }
}

enum { TARGETS_AT_ONCE = 64 };

static gy_targets targets_of(const gy_coll *coll, const gy_step *step, uint8_t **to)
{
    const gy_runner *runner = &coll->runner;
    GY_CHECK_DEEP(step->to.rank == GY_EVERY || gy_comm_has_rank(coll->comm, step->to.rank));
    return (gy_targets){.to = to,
                        .is_streamed =
                            runner->choice.is_streamed && step->to.buffer == GY_BUFFER_OUT};
}

/* Writes one piece to all targets of the step. */
static void write_piece(const gy_coll *coll, const piece *now)
{
    const gy_comm *comm = coll->comm;
    const gy_runner *runner = &coll->runner;
    const gy_step *step = now->step;
    uint8_t *to[TARGETS_AT_ONCE];
    gy_targets targets = targets_of(coll, step, to);
    int first = step->to.rank == GY_EVERY ? 0 : step->to.rank;
    int end = step->to.rank == GY_EVERY ? comm->size : first + 1;
    bool is_combined = step->kind == GY_STEP_REDUCE || step->kind == GY_STEP_RECV_REDUCE;
    bool is_wide = gy_run_widens(runner) && (step->a.buffer == GY_BUFFER_WIRE ||
                                             runner->plan->notes[runner->next].a_is_sum);
    const void *source = is_combined || now->bytes == 0 ? NULL : operand(coll, now, &step->a);
    GY_ASSERT(runner->next < runner->plan->steps.count);
    GY_ASSERT(first >= 0 && end <= comm->size);
    for (int rank = first; rank < end && now->bytes > 0; rank += targets.count) {
        targets.count = GY_MIN(end - rank, TARGETS_AT_ONCE);
        GY_CHECK_DEEP(targets.count >= 1 && targets.count <= TARGETS_AT_ONCE);
        for (int i = 0; i < targets.count; i++) {
            to[i] = gy_run_place(coll, &step->to, rank + i);
        }
        if (source != NULL && is_wide) {
            copy_sum(coll, now, &targets);
            continue;
        }
        if (source != NULL) {
            gy_copy_into(&targets, source, now->bytes);
            continue;
        }
        combine_piece(coll, now, &targets);
        source = to[0]; /* targets beyond the first TARGETS_AT_ONCE get copies of the first */
        is_wide = false;
    }
}

static bool is_in_pieces(const gy_coll *coll, const gy_step *step)
{
    return !gy_run_is_dense(coll, &step->to) || !gy_run_is_dense(coll, &step->a) ||
           (step->kind == GY_STEP_REDUCE && !gy_run_is_dense(coll, &step->b)) ||
           (step->kind == GY_STEP_RECV_REDUCE && !gy_run_is_dense(coll, &step->b));
}

void gy_run_write(const gy_coll *coll, const gy_step *step)
{
    GY_ASSERT(step->to.run >= 1);
    if (!is_in_pieces(coll, step)) {
        write_piece(coll, &(piece){.step = step, .bytes = gy_run_bytes_of(coll, &step->to)});
        return;
    }
    gy_step one = *step;
    one.a.run = one.b.run = one.to.run = 1;
    size_t before = 0;
    for (int32_t i = 0; i < step->to.run; i++) {
        piece now = {.step = &one, .bytes = gy_run_bytes_of(coll, &one.to), .before = before};
        write_piece(coll, &now);
        before += now.bytes;
        one.a.first++;
        one.b.first++;
        one.to.first++;
    }
}

/* Combines all contributions of a chain at once; false: this chain goes step by step. */
static bool fold_chain(const gy_coll *coll, const gy_step *first, uint32_t length)
{
    GY_ASSERT(length > 1 && length < GY_FOLD_TERMS);
    const gy_comm *comm = coll->comm;
    const gy_coll_fold *fold = &coll->runner.fold;
    const gy_step *last = first + length - 1;
    const void *terms[GY_FOLD_TERMS];
    uint8_t *to[TARGETS_AT_ONCE];
    gy_targets targets = targets_of(coll, last, to);
    int begin = last->to.rank == GY_EVERY ? 0 : last->to.rank;
    int end = last->to.rank == GY_EVERY ? comm->size : begin + 1;
    size_t bytes = gy_run_bytes_of(coll, &last->to);
    bool is_dense = true;
    for (uint32_t i = 0; i < length; i++) {
        is_dense = is_dense && !is_in_pieces(coll, &first[i]);
    }
    if (fold->many == NULL || !is_dense || end - begin > TARGETS_AT_ONCE || bytes == 0) {
        return false;
    }
    terms[0] = gy_run_place(coll, &first->a, first->a.rank);
    for (uint32_t i = 0; i < length; i++) {
        terms[i + 1] = gy_run_place(coll, &first[i].b, first[i].b.rank);
    }
    for (int rank = begin; rank < end; rank++) {
        to[targets.count++] = gy_run_place(coll, &last->to, rank);
    }
    GY_ASSERT(targets.count >= 1 && targets.count <= TARGETS_AT_ONCE);
    gy_coll_fold_many_into(&targets, fold, terms, (int)length + 1, bytes / fold->element_bytes);
    return true;
}

uint32_t gy_run_reduce(const gy_coll *coll, const gy_step *step)
{
    const gy_step_note *note = &coll->runner.plan->notes[coll->runner.next];
    GY_ASSERT(step->kind == GY_STEP_REDUCE);
    GY_ASSERT(coll->runner.next + note->chain <= coll->runner.plan->steps.count);
    if (note->chain > 0 && fold_chain(coll, step, note->chain)) {
        return note->chain - 1U;
    }
    gy_run_write(coll, step);
    return 0;
}

const void *gy_run_pack(gy_coll *coll, const gy_blocks *at)
{
    gy_runner *runner = &coll->runner;
    uint8_t *packed = runner->scratch + runner->pack_at + runner->packed_bytes, *to = packed;
    gy_blocks one = *at;
    GY_ASSERT(at->first >= 0 && at->run >= 1);
    for (one.run = 1; one.first < at->first + at->run; one.first++) {
        size_t bytes = gy_run_bytes_of(coll, &one);
        if (bytes > 0) {
            memcpy(to, gy_run_place(coll, &one, coll->comm->rank), bytes);
        }
        to += bytes;
    }
    runner->packed_bytes += (size_t)(to - packed);
    GY_ASSERT(runner->pack_at + runner->packed_bytes <= runner->work_at);
    return packed;
}

const void *gy_run_widen(gy_coll *coll, const gy_blocks *at)
{
    gy_runner *runner = &coll->runner;
    uint8_t *packed = runner->scratch + runner->pack_at + runner->packed_bytes;
    size_t count = gy_run_bytes_of(coll, at) / gy_run_element_bytes(coll);
    GY_ASSERT(at->run == 1);
    gy_half_widen(runner->fold.dtype, (float *)(void *)packed,
                  gy_run_place(coll, at, coll->comm->rank), count);
    runner->packed_bytes += gy_round_up(count * sizeof(float), GY_CACHE_LINE);
    GY_ASSERT(runner->pack_at + runner->packed_bytes <= runner->work_at);
    return packed;
}
