/**
 * For tests: executes a plan on numbers, one step of a random rank at a time, with messages
 * that arrive late and callers that enter late and reuse their buffers at once. It does not
 * depend on the checker, so it tests what the checker accepts.
 */
#ifndef GY_PLAN_CHANCE_PRIV_H
#define GY_PLAN_CHANCE_PRIV_H

#include "base/base.h"
#include "plan/plan.h"

#include <string.h>

enum { CHANCE_RANKS = 5, CHANCE_CELLS = 160, CHANCE_STEPS = 256, CHANCE_RUN = 32 };

typedef struct chance_message {
    uint32_t step;
    uint64_t values[CHANCE_RUN];
} chance_message;

typedef struct chance_rank {
    bool has_entered, has_left;
    uint32_t next, mark;
    uint64_t in[CHANCE_CELLS], out[CHANCE_CELLS], stage[CHANCE_CELLS], scratch[CHANCE_CELLS],
        work[2 * CHANCE_CELLS];
    uint64_t result[CHANCE_CELLS]; /* the output at the time when the rank left */
    bool is_sent[CHANCE_STEPS];
    uint32_t sent[CHANCE_RANKS], arrived[CHANCE_RANKS], taken[CHANCE_RANKS];
    /* To each rank, of which `sent` are there; what lies behind them is of earlier runs. */
    chance_message messages[CHANCE_RANKS][CHANCE_STEPS];
} chance_rank;

typedef struct chance_world {
    const gy_plan *plan;
    int ranks, blocks, chunks;
    bool is_one; /* input and output are the same buffer */
    chance_rank all[CHANCE_RANKS];
} chance_world;

/* Where an input block is in the output of an in-place call: all-to-all puts its result in the
 * same place. */
static inline int chance_twin(const chance_world *chance, int block)
{
    int part = block / chance->chunks, ranks = chance->ranks;
    bool is_pair = chance->plan->request.operation == GY_OPERATION_ALLTOALL;
    return is_pair
               ? (part % ranks * ranks + part / ranks) * chance->chunks + block % chance->chunks
               : block;
}

static inline uint64_t *chance_cell(chance_world *chance, int rank, const gy_blocks *at, int i)
{
    chance_rank *here = &chance->all[rank];
    int buffer = at->buffer;
    GY_ASSERT(at->first + i < CHANCE_CELLS && at->slot + i < CHANCE_CELLS && i < CHANCE_RUN);
    switch (buffer) {
    case GY_BUFFER_IN:
        return chance->is_one ? &here->out[chance_twin(chance, at->first + i)]
                              : &here->in[at->first + i];
    case GY_BUFFER_OUT:
        return &here->out[at->first + i];
    case GY_BUFFER_STAGE:
        return &here->stage[at->slot + i];
    case GY_BUFFER_WORK:
        return &here->work[at->slot * CHANCE_CELLS + at->first + i];
    default:
        return &here->scratch[at->slot + i];
    }
}

/* Neither commutative nor associative, so any other order or bracketing shows, unless the plan
 * may choose it. */
static inline uint64_t chance_combine(const chance_world *chance, uint64_t a, uint64_t b)
{
    if (chance->plan->algorithm->order == GY_ORDER_ANY) {
        return a + b;
    }
    uint64_t pair[2] = {a, b};
    return gy_hash(pair, sizeof(pair), 7);
}

static inline void chance_enter(chance_world *chance, int rank)
{
    chance_rank *here = &chance->all[rank];
    gy_operation operation = chance->plan->request.operation;
    here->has_entered = true;
    for (int block = 0; block < chance->blocks; block++) {
        bool has_input = true;
        if (operation == GY_OPERATION_BROADCAST) {
            has_input = rank == chance->plan->request.root;
        } else if (operation == GY_OPERATION_ALLGATHER || operation == GY_OPERATION_GATHER) {
            has_input = block / chance->chunks == rank;
        } else if (operation == GY_OPERATION_SCATTER) {
            has_input = rank == chance->plan->request.root;
        } else if (operation == GY_OPERATION_ALLTOALL) {
            has_input = block / chance->chunks / chance->ranks == rank;
        }
        uint64_t pair[2] = {(uint64_t)rank + 1, (uint64_t)block};
        if (has_input) {
            *(chance->is_one ? &here->out[chance_twin(chance, block)] : &here->in[block]) =
                gy_hash(pair, sizeof(pair), 1);
        }
    }
}

static inline bool chance_data(chance_world *chance, int rank, const gy_step *step,
                               const chance_message *message)
{
    for (int i = 0; i < step->to.run; i++) {
        bool is_wire_a = step->a.buffer == GY_BUFFER_WIRE;
        uint64_t value = 0;
        if (step->kind == GY_STEP_RECV) {
            value = message->values[i];
        } else {
            value = is_wire_a ? message->values[i]
                              : *chance_cell(chance, step->a.rank, &step->a, i);
        }
        if (step->kind == GY_STEP_REDUCE || step->kind == GY_STEP_RECV_REDUCE) {
            bool is_wire_b = step->b.buffer == GY_BUFFER_WIRE;
            value = chance_combine(chance, value,
                                   is_wire_b ? message->values[i]
                                             : *chance_cell(chance, step->b.rank, &step->b, i));
        }
        for (int to = 0; to < chance->ranks; to++) {
            if (step->to.rank == GY_EVERY || step->to.rank == to) {
                *chance_cell(chance, to, &step->to, i) = value;
            }
        }
    }
    (void)rank;
    return true;
}

static inline bool chance_waits(const chance_world *chance, int rank, const gy_step *step)
{
    for (int peer = 0; peer < chance->ranks; peer++) {
        bool is_meant = step->peer == GY_EVERY ? peer != rank : peer == step->peer;
        if (is_meant && chance->all[peer].mark < step->mark) {
            return true;
        }
    }
    return false;
}

/* Execute the rank's next step; false: it must wait. */
static inline bool chance_step(chance_world *chance, int rank)
{
    chance_rank *here = &chance->all[rank];
    const gy_step *step = &chance->plan->ranks[rank].items[here->next];
    for (int i = 0; i < 2; i++) {
        if (step->after[i] != 0 && !here->is_sent[step->after[i] - 1]) {
            return false;
        }
    }
    if (step->kind == GY_STEP_SEND) {
        chance_message *message = &here->messages[step->peer][here->sent[step->peer]++];
        message->step = here->next;
    } else if (step->kind == GY_STEP_RECV || step->kind == GY_STEP_RECV_REDUCE) {
        chance_rank *from = &chance->all[step->peer];
        if (from->taken[rank] == from->arrived[rank]) {
            return false;
        }
        (void)chance_data(chance, rank, step, &from->messages[rank][from->taken[rank]++]);
    } else if (step->kind == GY_STEP_POST) {
        here->mark = GY_MAX(here->mark, step->mark);
    } else if (step->kind == GY_STEP_WAIT) {
        if (chance_waits(chance, rank, step)) {
            return false;
        }
    } else {
        (void)chance_data(chance, rank, step, NULL);
    }
    here->next++;
    return true;
}

/* Deliver the oldest message between two ranks: its source is read only now. */
static inline bool chance_arrive(chance_world *chance, int from, int to)
{
    chance_rank *here = &chance->all[from];
    if (here->arrived[to] == here->sent[to]) {
        return false;
    }
    chance_message *message = &here->messages[to][here->arrived[to]++];
    const gy_step *step = &chance->plan->ranks[from].items[message->step];
    for (int i = 0; i < step->a.run; i++) {
        message->values[i] = *chance_cell(chance, from, &step->a, i);
    }
    here->is_sent[message->step] = true;
    return true;
}

/* The rank returns: its caller reads the result and reuses the buffers. */
static inline bool chance_leave(chance_world *chance, int rank)
{
    chance_rank *here = &chance->all[rank];
    for (int to = 0; to < chance->ranks; to++) {
        if (here->arrived[to] < here->sent[to]) {
            return false;
        }
    }
    memcpy(here->result, here->out, sizeof(here->result));
    memset(here->in, 0xaa, sizeof(here->in));
    memset(here->out, 0xaa, sizeof(here->out));
    here->has_left = true;
    bool is_barrier = chance->plan->request.operation == GY_OPERATION_BARRIER;
    for (int other = 0; is_barrier && other < chance->ranks; other++) {
        here->result[0] += chance->all[other].has_entered ? 1 : 0;
    }
    return true;
}

static inline bool chance_move(chance_world *chance, int rank)
{
    chance_rank *here = &chance->all[rank];
    if (here->has_left) {
        return false;
    }
    if (!here->has_entered) {
        chance_enter(chance, rank);
        return true;
    }
    return here->next < chance->plan->ranks[rank].count ? chance_step(chance, rank)
                                                        : chance_leave(chance, rank);
}

/* Run to the end in an order from `random`; false: deadlock. Each rank has its own speed in
 * each run. */
static inline bool chance_run(chance_world *chance, const gy_plan *plan, gy_random *random)
{
    gy_cut cut = plan->algorithm->cut;
    for (int rank = 0; rank < plan->request.ranks; rank++) { /* all but its messages */
        memset(&chance->all[rank], 0, offsetof(chance_rank, messages));
    }
    chance->plan = plan;
    chance->ranks = plan->request.ranks;
    chance->chunks = gy_cut_chunks(cut, &plan->request);
    chance->blocks = gy_cut_parts(cut, &plan->request) * chance->chunks;
    chance->is_one =
        plan->request.in_place || plan->request.operation == GY_OPERATION_BROADCAST;
    uint64_t pace[CHANCE_RANKS];
    for (int rank = 0; rank < chance->ranks; rank++) {
        GY_ASSERT(plan->ranks[rank].count <= CHANCE_STEPS);
        pace[rank] = 1 + (gy_random_u64(random) & 7) * (gy_random_u64(random) & 7);
    }
    int left = 0, idle = 0;
    while (left < chance->ranks && idle < 20000) {
        uint64_t draw = gy_random_u64(random); /* 16 random bits for each decision */
        int rank = (int)((draw & 0xffff) % (uint64_t)chance->ranks);
        int to = (int)((draw >> 16 & 0xffff) % (uint64_t)chance->ranks);
        bool has_moved = (draw >> 32 & 0xffff) % 3 == 0 && chance_arrive(chance, rank, to);
        if ((draw >> 48) % pace[rank] == 0 && !chance->all[rank].has_left) {
            has_moved = chance_move(chance, rank) || has_moved;
            left += chance->all[rank].has_left;
        }
        idle = has_moved ? 0 : idle + 1;
    }
    return left == chance->ranks;
}

/* The first rank whose guaranteed results differ; -1: none. */
static inline int chance_differs(const chance_world *a, const chance_world *b)
{
    const gy_plan_request *request = &a->plan->request;
    for (int rank = 0; rank < a->ranks; rank++) {
        int first = 0, end = a->blocks, stride = 1, run = a->blocks;
        if (request->operation == GY_OPERATION_REDUCE_SCATTER ||
            request->operation == GY_OPERATION_SCATTER) {
            first = rank * a->chunks;
            end = first + a->chunks;
        } else if (request->operation == GY_OPERATION_ALLTOALL) {
            first = rank * a->chunks;
            stride = a->ranks * a->chunks;
            run = a->chunks;
        } else if ((request->operation == GY_OPERATION_REDUCE ||
                    request->operation == GY_OPERATION_GATHER) &&
                   rank != request->root) {
            end = 0;
        }
        for (int block = first; block < end; block++) {
            bool is_result = (block - first) % stride < run || stride == 1;
            if (is_result && a->all[rank].result[block] != b->all[rank].result[block]) {
                return rank;
            }
        }
    }
    return -1;
}

#endif
