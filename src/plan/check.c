/*
 * The checker executes all ranks' steps on symbols (values_priv.h) with a vector clock for
 * each rank. Messages and posts carry what a rank knows of another's past; an access to a cell
 * is correct when every conflicting earlier access is known to have ended. So one walk proves
 * all schedules: if messages and posts did not order two accesses, some schedule would overlap
 * them.
 *
 * source: vector clocks as in Flanagan and Freund, "FastTrack", PLDI 2009
 */
#include "plan/plan_priv.h"
#include "plan/values_priv.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* One block of a buffer. */
typedef struct cell_state {
    uint32_t value; /* also identifies the block */
    int32_t writer; /* the rank that wrote it, and its clock at that time */
    uint32_t written;
    uint32_t *reads; /* (p) each rank's clock at its last read; NULL: no reads */
} cell_state;

typedef struct post {
    uint32_t mark;
    uint32_t *clock; /* (p) */
} post;

typedef struct sent_note {
    uint32_t *clock;  /* (p) */
    uint32_t *values; /* (run) */
    uint32_t taken;   /* the receiver's clock at the receive; 0: not received yet */
} sent_note;

typedef struct rank_state {
    uint32_t *clock; /* (p) [q]: how much of rank q's past it knows */
    post *posts;
    size_t post_count, post_capacity;
    sent_note *sent; /* (steps) by the send's step */
    uint32_t *sends; /* (send_count) sends that may still read their source */
    size_t send_count, send_capacity;
    cell_state *cells; /* in, out, stage, scratch, work, concatenated */
    size_t cell_count;
} rank_state;

typedef struct check_run {
    gy_visitor visitor;
    gy_plan *plan;
    gy_plan_values values;
    gy_arena arena;
    rank_state *ranks;
    int rank_count, blocks, chunks_of_part;
    int held; /* most blocks that an input or output has */
    int32_t stage_slots, scratch_slots, work_planes;
    bool in_place;
} check_run;

static bool is_data_shared(const check_run *checker)
{
    return checker->in_place || checker->plan->request.operation == GY_OPERATION_BROADCAST;
}

static bool has_block(const check_run *checker, int rank, int buffer, int block)
{
    return block >= 0 && block < checker->blocks &&
           gy_plan_block_is_held(&checker->plan->request, checker->chunks_of_part, rank, buffer,
                                 block);
}

/* With in-place calls, the output block at the position of this input block: the same block,
 * except that all-to-all replaces the block for rank d by the block from rank d. */
static int twin_of(const check_run *checker, int block)
{
    int ranks = checker->rank_count, chunks = checker->chunks_of_part;
    int part = block / chunks;
    return checker->plan->request.operation == GY_OPERATION_ALLTOALL
               ? (part % ranks * ranks + part / ranks) * chunks + block % chunks
               : block;
}

/* Is that input block also a block of the output? */
static bool is_shared(const check_run *checker, int rank, int block)
{
    return is_data_shared(checker) &&
           has_block(checker, rank, GY_BUFFER_OUT, twin_of(checker, block));
}

static cell_state *slot_at(const check_run *checker, int rank, const gy_blocks *at, int i)
{
    bool is_stage = at->buffer == GY_BUFFER_STAGE;
    int slot = at->slot + i;
    int slots = is_stage ? checker->stage_slots : checker->scratch_slots;
    bool is_one = at->first == GY_WHOLE || (at->run == 1 && at->first < checker->blocks);
    if (slot < 0 || slot >= slots || at->first < GY_WHOLE || !is_one) {
        return NULL;
    }
    return &checker->ranks[rank]
                .cells[2 * checker->held + (is_stage ? 0 : checker->stage_slots) + slot];
}

static cell_state *work_at(const check_run *checker, int rank, const gy_blocks *at, int i)
{
    int block = at->first + i;
    if (at->first < 0 || block >= checker->blocks || at->slot < 0 ||
        at->slot >= checker->work_planes) {
        return NULL;
    }
    return &checker->ranks[rank]
                .cells[2 * checker->held + checker->stage_slots + checker->scratch_slots +
                       at->slot * checker->blocks + block];
}

/* The cell of block i of a range; NULL: outside the buffer. */
static cell_state *cell_at(const check_run *checker, int rank, const gy_blocks *at, int i)
{
    int block = at->first + i, buffer = at->buffer, first = 0;
    if (buffer == GY_BUFFER_STAGE || buffer == GY_BUFFER_SCRATCH) {
        return slot_at(checker, rank, at, i);
    }
    if (buffer == GY_BUFFER_WORK) {
        return work_at(checker, rank, at, i);
    }
    if ((buffer != GY_BUFFER_IN && buffer != GY_BUFFER_OUT) || at->first < 0 ||
        !has_block(checker, rank, buffer, block)) {
        return NULL;
    }
    if (buffer == GY_BUFFER_IN && is_shared(checker, rank, block)) {
        buffer = GY_BUFFER_OUT;
        block = twin_of(checker, block);
    }
    first = buffer == GY_BUFFER_OUT ? checker->held : 0;
    return &checker->ranks[rank]
                .cells[first + gy_plan_block_local(&checker->plan->request,
                                                   checker->chunks_of_part, buffer, block)];
}

/* Block i of a range. */
static gy_blocks block_of(const gy_blocks *at, int i)
{
    gy_blocks one = *at;
    one.first += at->first == GY_WHOLE ? 0 : i;
    one.slot += at->buffer == GY_BUFFER_WORK ? 0 : i;
    one.run = 1;
    return one;
}

static bool may_write(const check_run *checker, int rank, const gy_blocks *at, int i)
{
    return at->buffer != GY_BUFFER_IN || is_shared(checker, rank, at->first + i);
}

static gy_status read_cell(check_run *checker, int rank, uint32_t index, const gy_blocks *at,
                           int i, uint32_t *value)
{
    const gy_plan *plan = checker->plan;
    if (at->rank < 0 || at->rank >= checker->rank_count) {
        return gy_plan_wrong(plan, rank, index, "reads of rank %d, which does not exist",
                             at->rank);
    }
    cell_state *cell = cell_at(checker, at->rank, at, i);
    if (cell == NULL) {
        return gy_plan_wrong(plan, rank, index, "block %d or its slot is outside the buffer",
                             at->first + i);
    }
    uint32_t *clock = checker->ranks[rank].clock;
    if (cell->written > clock[cell->writer]) {
        return gy_plan_wrong(plan, rank, index, "reads what rank %d may not have written yet",
                             cell->writer);
    }
    /* Whole slots are sent whatever they contain; an operand that names its block must contain
     * it. */
    if (at->first != GY_WHOLE && (cell->value == GY_VALUE_NONE ||
                                  checker->values.items[cell->value].block != at->first + i)) {
        return gy_plan_wrong(plan, rank, index, "reads block %d, but there is %s",
                             at->first + i,
                             cell->value == GY_VALUE_NONE ? "nothing" : "another block");
    }
    if (cell->reads == NULL) {
        cell->reads =
            gy_arena_alloc(&checker->arena, (size_t)checker->rank_count * sizeof(*cell->reads));
        if (cell->reads == NULL) {
            return GY_NOMEM;
        }
    }
    cell->reads[rank] = clock[rank];
    *value = cell->value;
    return GY_OK;
}

static bool overlaps(const check_run *checker, int rank, const gy_blocks *at,
                     const cell_state *wanted)
{
    for (int i = 0; i < at->run; i++) {
        if (cell_at(checker, rank, at, i) == wanted) {
            return true;
        }
    }
    return false;
}

/* No send of the cell's owner may still read the cell: the writer has waited for each such
 * send, or knows that its message was received. */
static gy_status check_sends(const check_run *checker, int rank, uint32_t index, int owner,
                             const cell_state *cell)
{
    const rank_state *state = &checker->ranks[owner];
    for (size_t i = 0; i < state->send_count; i++) {
        const gy_step *send = &checker->plan->ranks[owner].items[state->sends[i]];
        uint32_t taken = state->sent[state->sends[i]].taken;
        bool is_known = taken > 0 && taken <= checker->ranks[rank].clock[send->peer];
        if (!is_known && overlaps(checker, owner, &send->a, cell)) {
            return gy_plan_wrong(checker->plan, rank, index,
                                 "overwrites what step %u of rank %d may still be sending",
                                 state->sends[i], owner);
        }
    }
    return GY_OK;
}

static gy_status write_one(check_run *checker, int rank, uint32_t index, int owner,
                           const gy_blocks *at, uint32_t value)
{
    const gy_plan *plan = checker->plan;
    cell_state *cell = cell_at(checker, owner, at, 0);
    if (cell == NULL) {
        return gy_plan_wrong(plan, rank, index, "block %d or its slot is outside the buffer",
                             at->first);
    }
    if (!may_write(checker, owner, at, 0)) {
        return gy_plan_wrong(plan, rank, index, "writes the input");
    }
    uint32_t *clock = checker->ranks[rank].clock;
    if (cell->written > clock[cell->writer]) {
        return gy_plan_wrong(plan, rank, index, "writes what rank %d may be writing",
                             cell->writer);
    }
    for (int reader = 0; cell->reads != NULL && reader < checker->rank_count; reader++) {
        if (cell->reads[reader] > clock[reader]) {
            return gy_plan_wrong(plan, rank, index, "writes what rank %d may still be reading",
                                 reader);
        }
    }
    GY_TRY(check_sends(checker, rank, index, owner, cell));
    cell->value = value;
    cell->writer = rank;
    cell->written = clock[rank];
    return GY_OK;
}

static gy_status write_cell(check_run *checker, int rank, uint32_t index, const gy_blocks *at,
                            int i, uint32_t value)
{
    const gy_blocks one = block_of(at, i);
    if (at->rank != GY_EVERY) {
        if (at->rank < 0 || at->rank >= checker->rank_count) {
            return gy_plan_wrong(checker->plan, rank, index,
                                 "writes to rank %d, which does not exist", at->rank);
        }
        return write_one(checker, rank, index, at->rank, &one, value);
    }
    for (int owner = 0; owner < checker->rank_count; owner++) {
        GY_TRY(write_one(checker, rank, index, owner, &one, value));
    }
    return GY_OK;
}

static void join_clock(const check_run *checker, uint32_t *clock, const uint32_t *other)
{
    for (int i = 0; i < checker->rank_count; i++) {
        clock[i] = GY_MAX(clock[i], other[i]);
    }
}

static uint32_t *copy_clock(check_run *checker, int rank)
{
    size_t size = (size_t)checker->rank_count * sizeof(uint32_t);
    uint32_t *copy = gy_arena_alloc(&checker->arena, size);
    if (copy != NULL) {
        memcpy(copy, checker->ranks[rank].clock, size);
    }
    return copy;
}

static gy_status do_send(check_run *checker, int rank, const gy_step *step)
{
    rank_state *state = &checker->ranks[rank];
    uint32_t index = checker->visitor.index;
    size_t run = step->a.run > 0 ? (size_t)step->a.run : 0;
    sent_note *sent = &state->sent[index];
    sent->values = gy_arena_alloc(&checker->arena, (run + 1) * sizeof(*sent->values));
    sent->clock = copy_clock(checker, rank);
    if (sent->values == NULL || sent->clock == NULL) {
        return GY_NOMEM;
    }
    if (step->a.rank != rank) {
        return gy_plan_wrong(checker->plan, rank, index, "sends what is another rank's");
    }
    for (int i = 0; i < (int)run; i++) {
        GY_TRY(read_cell(checker, rank, index, &step->a, i, &sent->values[i]));
    }
    GY_TRY(GY_GROW("plan.check", state->sends, state->send_capacity, state->send_count + 1));
    state->sends[state->send_count++] = index;
    return GY_OK;
}

/* Sends that the step waited for, and earlier ones to the same peer, no longer read their
 * source. */
static void end_sends(check_run *checker, int rank, const gy_step *step)
{
    rank_state *state = &checker->ranks[rank];
    const gy_step *items = checker->plan->ranks[rank].items;
    for (int i = 0; i < 2; i++) {
        size_t kept = 0;
        for (size_t s = 0; step->after[i] != 0 && s < state->send_count; s++) {
            uint32_t send = state->sends[s];
            bool is_over =
                send < step->after[i] && items[send].peer == items[step->after[i] - 1].peer;
            if (!is_over) {
                state->sends[kept++] = send;
            }
        }
        state->send_count = step->after[i] != 0 ? kept : state->send_count;
    }
}

static gy_status join_values(check_run *checker, int rank, uint32_t index,
                             const uint32_t pair[2], uint32_t *value)
{
    int doubled = -1;
    *value = gy_plan_value_join(&checker->values, pair[0], pair[1], &doubled);
    if (doubled >= 0) {
        return gy_plan_wrong(checker->plan, rank, index, "combines the part of rank %d twice",
                             doubled);
    }
    return *value == GY_VALUE_BAD ? GY_NOMEM : GY_OK;
}

/* The value of one operand block: from the message (`arrived`; NULL: none) or from a cell. */
static gy_status operand_value(check_run *checker, int rank, uint32_t index, gy_blocks at,
                               const uint32_t *arrived, uint32_t *value)
{
    if (at.buffer == GY_BUFFER_WIRE) {
        if (arrived == NULL) {
            return gy_plan_wrong(checker->plan, rank, index, "nothing comes with this step");
        }
        *value = *arrived;
        return GY_OK;
    }
    return read_cell(checker, rank, index, &at, 0, value);
}

/* Execute COPY, REDUCE, RECV, RECV_REDUCE. */
static gy_status do_data(check_run *checker, int rank, uint32_t index, const uint32_t *arrived)
{
    const gy_step *step = &checker->plan->ranks[rank].items[index];
    bool is_pair = step->kind == GY_STEP_REDUCE || step->kind == GY_STEP_RECV_REDUCE;
    bool is_fit = step->kind == GY_STEP_RECV || step->a.first == step->to.first;
    is_fit = is_fit && !(is_pair && step->to.first == GY_WHOLE);
    is_fit = is_fit && (step->kind == GY_STEP_RECV || step->a.run == step->to.run);
    is_fit = is_fit &&
             (!is_pair || (step->b.first == step->to.first && step->b.run == step->to.run));
    if (!is_fit) {
        return gy_plan_wrong(checker->plan, rank, index, "its operands are different blocks");
    }
    for (int i = 0; i < step->to.run; i++) {
        const uint32_t *came = arrived == NULL ? NULL : &arrived[i];
        uint32_t value = GY_VALUE_NONE, pair[2] = {0, 0};
        if (step->kind == GY_STEP_RECV) {
            GY_ASSERT(came != NULL);
            value = *came;
        } else {
            GY_TRY(operand_value(checker, rank, index, block_of(&step->a, i), came, &pair[0]));
            value = pair[0];
        }
        if (is_pair) {
            GY_TRY(operand_value(checker, rank, index, block_of(&step->b, i), came, &pair[1]));
            GY_TRY(join_values(checker, rank, index, pair, &value));
        }
        GY_TRY(write_cell(checker, rank, index, &step->to, i, value));
    }
    return GY_OK;
}

static gy_status do_post(check_run *checker, int rank, uint32_t mark)
{
    rank_state *state = &checker->ranks[rank];
    GY_TRY(GY_GROW("plan.check", state->posts, state->post_capacity, state->post_count + 1));
    uint32_t *clock = copy_clock(checker, rank);
    if (clock == NULL) {
        return GY_NOMEM;
    }
    state->posts[state->post_count++] = (post){.mark = mark, .clock = clock};
    return GY_OK;
}

static void do_wait(check_run *checker, int rank, const gy_step *step)
{
    for (int peer = 0; peer < checker->rank_count; peer++) {
        if (peer == rank || (step->peer != GY_EVERY && step->peer != peer)) {
            continue;
        }
        const rank_state *state = &checker->ranks[peer];
        size_t i = 0;
        while (i < state->post_count && state->posts[i].mark < step->mark) {
            i++;
        }
        if (i < state->post_count) {
            join_clock(checker, checker->ranks[rank].clock, state->posts[i].clock);
        }
    }
}

static gy_status visit(gy_visitor *visitor, int rank, const gy_step *step,
                       gy_plan_message *message)
{
    check_run *checker = (struct check_run *)visitor; /* the visitor is its first member */
    uint32_t index = visitor->index;
    checker->ranks[rank].clock[rank]++;
    end_sends(checker, rank, step);
    sent_note *sent = NULL;
    switch (step->kind) {
    case GY_STEP_SEND:
        return do_send(checker, rank, step);
    case GY_STEP_RECV:
    case GY_STEP_RECV_REDUCE:
        sent = &checker->ranks[step->peer].sent[message->index];
        join_clock(checker, checker->ranks[rank].clock, sent->clock);
        sent->taken = checker->ranks[rank].clock[rank];
        return do_data(checker, rank, index, sent->values);
    case GY_STEP_COPY:
    case GY_STEP_REDUCE:
        return do_data(checker, rank, index, NULL);
    case GY_STEP_POST:
        return do_post(checker, rank, step->mark);
    case GY_STEP_WAIT:
        do_wait(checker, rank, step);
        return GY_OK;
    case GY_STEP_CLAIM:
    case GY_STEP_CLAIMED:
    case GY_STEP_COUNT:
    default:
        return GY_OK;
    }
}

static gy_status wrong_end(const check_run *checker, int rank, const char *format, ...)
    GY_PRINTF(3, 4);

/* A failure of a rank's plan as a whole: names its last step. */
static gy_status wrong_end(const check_run *checker, int rank, const char *format, ...)
{
    char cause[256];
    va_list args;
    va_start(args, format);
    vsnprintf(cause, sizeof(cause), format, args);
    va_end(args);
    size_t count = checker->plan->ranks[rank].count;
    if (count == 0) {
        return gy_fail(GY_STATE, "rank %d step 0 (end): %s", rank, cause);
    }
    return gy_plan_wrong(checker->plan, rank, (uint32_t)count - 1, "at the end %s", cause);
}

/* How many ranks, from 0 on, contribute to a rank's result. */
static int contributors(const check_run *checker, int rank)
{
    gy_operation operation = checker->plan->request.operation;
    if (operation == GY_OPERATION_SCAN) {
        return rank + 1;
    }
    return operation == GY_OPERATION_EXCLUSIVE_SCAN ? rank : checker->rank_count;
}

/* Check a reduced block: it has every contribution that it must have, in the guaranteed order,
 * and equals the block of other ranks with the same result. */
static gy_status check_sum(const check_run *checker, int rank, int block, uint32_t number,
                           uint32_t *first)
{
    const gy_plan_value *value = &checker->values.items[number];
    int wanted = contributors(checker, rank);
    int missing = gy_plan_value_missing(&checker->values, number, wanted);
    if (value->block != block) {
        return wrong_end(checker, rank, "block %d holds block %d", block, value->block);
    }
    if (missing >= 0) {
        return wrong_end(checker, rank, "block %d lacks the part of rank %d", block, missing);
    }
    if (value->leaves != wanted) {
        return wrong_end(checker, rank, "block %d has parts of %d ranks, expected %d", block,
                         value->leaves, wanted);
    }
    gy_plan_order order = checker->plan->algorithm->order;
    if ((order == GY_ORDER_RANK && !value->is_ordered) ||
        (order == GY_ORDER_FOLD && !value->is_fold)) {
        return wrong_end(checker, rank, "block %d is not combined in the guaranteed order",
                         block);
    }
    if (*first != GY_VALUE_NONE && *first != number && wanted == checker->rank_count) {
        return wrong_end(checker, rank, "block %d is combined in another way than elsewhere",
                         block);
    }
    *first = wanted == checker->rank_count ? number : *first;
    return GY_OK;
}

/* Check a block that must be some rank's unchanged block. */
static gy_status check_moved(const check_run *checker, int rank, int block, uint32_t number)
{
    const gy_plan_value *value = &checker->values.items[number];
    const gy_plan_request *request = &checker->plan->request;
    int from = request->root, part = block / checker->chunks_of_part;
    if (request->operation == GY_OPERATION_ALLGATHER ||
        request->operation == GY_OPERATION_GATHER) {
        from = part;
    } else if (request->operation == GY_OPERATION_ALLTOALL) {
        from = part / request->ranks;
    }
    if (value->leaves != 1 || value->first != from || value->block != block) {
        return wrong_end(checker, rank, "block %d is not that of rank %d", block, from);
    }
    return GY_OK;
}

static bool is_sum(gy_operation operation)
{
    return operation == GY_OPERATION_ALLREDUCE || operation == GY_OPERATION_REDUCE ||
           operation == GY_OPERATION_REDUCE_SCATTER || operation == GY_OPERATION_SCAN ||
           operation == GY_OPERATION_EXCLUSIVE_SCAN;
}

/* No rank comes before rank 0, so an exclusive scan leaves its output unchanged. */
static gy_status check_left_alone(const check_run *checker, int rank, int block,
                                  const cell_state *cell)
{
    uint32_t value = cell->value;
    const gy_plan_value *was = &checker->values.items[value];
    bool is_own = value != GY_VALUE_NONE && was->leaves == 1 && was->first == rank;
    if (checker->in_place ? !is_own : value != GY_VALUE_NONE) {
        return wrong_end(checker, rank, "block %d was written, but no step comes before",
                         block);
    }
    return GY_OK;
}

static gy_status check_results(const check_run *checker)
{
    gy_operation operation = checker->plan->request.operation;
    for (int block = 0; block < checker->blocks; block++) {
        uint32_t first = GY_VALUE_NONE;
        for (int rank = 0; rank < checker->rank_count; rank++) {
            gy_blocks at = {.buffer = GY_BUFFER_OUT, .first = block, .run = 1};
            const cell_state *cell = cell_at(checker, rank, &at, 0);
            if (cell == NULL || operation == GY_OPERATION_BARRIER) {
                continue;
            }
            if (operation == GY_OPERATION_EXCLUSIVE_SCAN && rank == 0) {
                GY_TRY(check_left_alone(checker, rank, block, cell));
                continue;
            }
            if (cell->value == GY_VALUE_NONE) {
                return wrong_end(checker, rank, "block %d was never written", block);
            }
            if (is_sum(operation)) {
                GY_TRY(check_sum(checker, rank, block, cell->value, &first));
            } else {
                GY_TRY(check_moved(checker, rank, block, cell->value));
            }
        }
    }
    return GY_OK;
}

/* When a rank returns, its caller may change input and output, so all accesses by others must
 * have ended. */
static gy_status check_leaving(const check_run *checker)
{
    for (int rank = 0; rank < checker->rank_count; rank++) {
        const rank_state *state = &checker->ranks[rank];
        for (int i = 0; i < 2 * checker->held; i++) {
            const cell_state *cell = &state->cells[i];
            if (cell->written > state->clock[cell->writer]) {
                return wrong_end(checker, rank, "rank %d may still be writing its buffer",
                                 cell->writer);
            }
            for (int reader = 0; cell->reads != NULL && reader < checker->rank_count;
                 reader++) {
                if (cell->reads[reader] > state->clock[reader]) {
                    return wrong_end(checker, rank, "rank %d may still be reading its buffer",
                                     reader);
                }
            }
        }
        bool is_barrier = checker->plan->request.operation == GY_OPERATION_BARRIER;
        for (int other = 0; is_barrier && other < checker->rank_count; other++) {
            if (other != rank && state->clock[other] == 0) {
                return wrong_end(checker, rank, "it may leave before rank %d entered", other);
            }
        }
    }
    return GY_OK;
}

static bool has_input(const check_run *checker, int rank, int block)
{
    const gy_plan_request *request = &checker->plan->request;
    if (request->operation == GY_OPERATION_BARRIER ||
        (request->operation == GY_OPERATION_BROADCAST && rank != request->root)) {
        return false;
    }
    return has_block(checker, rank, GY_BUFFER_IN, block);
}

static gy_status init_rank(check_run *checker, int rank)
{
    rank_state *state = &checker->ranks[rank];
    size_t steps = checker->plan->ranks[rank].count;
    state->cell_count = 2 * (size_t)checker->held + (size_t)checker->stage_slots +
                        (size_t)checker->scratch_slots +
                        (size_t)checker->work_planes * (size_t)checker->blocks;
    state->clock =
        gy_arena_alloc(&checker->arena, (size_t)checker->rank_count * sizeof(*state->clock));
    state->cells =
        gy_arena_alloc(&checker->arena, (state->cell_count + 1) * sizeof(cell_state));
    state->sent = gy_arena_alloc(&checker->arena, (steps + 1) * sizeof(sent_note));
    if (state->clock == NULL || state->cells == NULL || state->sent == NULL) {
        return GY_NOMEM;
    }
    bool is_barrier = checker->plan->request.operation == GY_OPERATION_BARRIER;
    /* 1: the rank has entered, and its buffers are ready */
    state->clock[rank] = is_barrier ? 0 : 1;
    for (int i = 0; i < 2 * checker->held; i++) {
        state->cells[i].writer = rank;
        state->cells[i].written = state->clock[rank];
    }
    for (int block = 0; block < checker->blocks; block++) {
        if (has_input(checker, rank, block)) {
            gy_blocks at = {.buffer = GY_BUFFER_IN, .first = block, .run = 1};
            cell_state *cell = cell_at(checker, rank, &at, 0);
            cell->value = gy_plan_value_leaf(&checker->values, rank, block);
            if (cell->value == GY_VALUE_BAD) {
                return GY_NOMEM;
            }
        }
    }
    return GY_OK;
}

static gy_status check_with(check_run *checker)
{
    gy_plan *plan = checker->plan;
    checker->ranks =
        gy_alloc_zero("plan.check", (size_t)checker->rank_count, sizeof(*checker->ranks));
    if (checker->ranks == NULL) {
        return GY_NOMEM;
    }
    for (int rank = 0; rank < checker->rank_count; rank++) {
        checker->stage_slots = GY_MAX(checker->stage_slots, plan->ranks[rank].stage_slots);
        checker->scratch_slots =
            GY_MAX(checker->scratch_slots, plan->ranks[rank].scratch_slots);
        checker->work_planes = GY_MAX(checker->work_planes, plan->ranks[rank].work_planes);
    }
    for (int rank = 0; rank < checker->rank_count; rank++) {
        GY_TRY(init_rank(checker, rank));
    }
    GY_TRY(gy_plan_walk(plan, &checker->visitor));
    GY_TRY(check_results(checker));
    return check_leaving(checker);
}

gy_status gy_plan_check(gy_plan *plan)
{
    /* a proof needs earlier steps too, so the plan must be stored */
    GY_ASSERT(plan->window == 0);
    gy_cut cut = plan->algorithm->cut;
    check_run checker = {
        .visitor = {.visit = visit},
        .plan = plan,
        .rank_count = plan->request.ranks,
        .blocks = gy_cut_parts(cut, &plan->request) * gy_cut_chunks(cut, &plan->request),
        .chunks_of_part = gy_cut_chunks(cut, &plan->request),
        .in_place = plan->request.in_place,
    };
    checker.held = plan->request.operation == GY_OPERATION_ALLTOALL
                       ? checker.rank_count * checker.chunks_of_part
                       : checker.blocks;
    GY_TRY(gy_plan_values_init(&checker.values, checker.rank_count));
    gy_status status = check_with(&checker);
    for (int rank = 0; checker.ranks != NULL && rank < checker.rank_count; rank++) {
        gy_free(checker.ranks[rank].posts);
        gy_free(checker.ranks[rank].sends);
    }
    gy_free(checker.ranks);
    gy_arena_free(&checker.arena);
    gy_plan_values_fini(&checker.values);
    return status;
}
