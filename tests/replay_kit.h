/**
 * Work that survives its ranks, as tests of replay share it: steps of three kinds of calls
 * whose state is the same bits however often a rank is started anew.
 */
#ifndef REPLAY_KIT_H
#define REPLAY_KIT_H

#include "base/base.h"
#include "coll/coll.h"

#include <string.h>

enum {
    REPLAY_WIDE = 1200,
    REPLAY_SHORT = 5,
    REPLAY_CALLS = 5,
    REPLAY_RANKS = 16,
    REPLAY_TAIL = 4
};

typedef struct replay_work {
    int64_t step;
    double x[REPLAY_WIDE];
    int64_t tail[REPLAY_TAIL]; /* of which each rank has others, and another number */
} replay_work;

static inline size_t replay_state_bytes(int rank)
{
    return offsetof(replay_work, tail) + (size_t)(rank % (REPLAY_TAIL + 1)) * sizeof(int64_t);
}

/* One step: a barrier, an allreduce (long in every third step), an allgather, a broadcast, an
 * allreduce of nothing; then, each `every` steps, a checkpoint, after which nothing may be
 * kept. */
static inline gy_status replay_step(gy_recoverable *replay, replay_work *work, int every)
{
    double all[2 * REPLAY_RANKS];
    gy_comm *comm = gy_recoverable_comm(replay);
    int rank = gy_comm_rank(comm), size = gy_comm_size(comm);
    size_t count = work->step % 3 == 0 ? REPLAY_WIDE : REPLAY_SHORT;
    for (int i = 0; i < rank % (REPLAY_TAIL + 1) && work->step == 0; i++) {
        work->tail[i] = 100 * (rank + 1) + i;
    }
    for (size_t i = 0; i < REPLAY_WIDE; i++) {
        work->x[i] = work->x[i] * 0.75 + (double)(rank + 1) / (double)(i + 3);
    }
    GY_TRY(gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_BARRIER}));
    GY_TRY(gy_recoverable_allreduce(replay, work->x, work->x, count, GY_F64, GY_SUM));
    GY_TRY(gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_ALLGATHER,
                                                      .dtype = GY_F64,
                                                      .count = 2,
                                                      .in = work->x + rank,
                                                      .out = all}));
    work->x[7] += all[2 * (work->step % size)];
    GY_TRY(gy_recoverable_run(replay, &(gy_coll_call){.operation = GY_OPERATION_BROADCAST,
                                                      .dtype = GY_F64,
                                                      .root = (int)(work->step % size),
                                                      .count = 9,
                                                      .out = work->x + 20}));
    GY_TRY(gy_recoverable_allreduce(replay, work->x, work->x, 0, GY_F64, GY_SUM));
    work->step++;
    if (work->step % every == 0) {
        GY_TRY(gy_recoverable_checkpoint(replay, work, replay_state_bytes(rank)));
        return gy_recoverable_bytes(replay) == 0 ? GY_OK
                                                 : gy_fail(GY_STATE, "results are kept on");
    }
    return gy_recoverable_bytes(replay) > 0 ? GY_OK : gy_fail(GY_STATE, "nothing is kept");
}

/* What a rank of an undisturbed run keeps after a step: its own share of what all ranks have
 * ended, and the last three: nobody knows that the allgather has ended everywhere, and what
 * follows it does not need all ranks. */
static inline size_t replay_bytes_kept(int rank, int size, int replicas, int64_t step,
                                       int every)
{
    size_t bytes = 0;
    int64_t calls = step % every * REPLAY_CALLS, first = step - step % every;
    for (int64_t number = 0; number < calls; number++) {
        int64_t of_step = first + number / REPLAY_CALLS;
        size_t wide = of_step % 3 == 0 ? REPLAY_WIDE : REPLAY_SHORT;
        size_t kinds[REPLAY_CALLS] = {0, wide, 2 * (size_t)size, 9, 0};
        bool is_mine = false;
        for (int j = 0; j <= replicas; j++) {
            is_mine = is_mine || (number + j) % size == rank;
        }
        bytes += is_mine || number >= calls - 3 ? kinds[number % REPLAY_CALLS] * 8 : 0;
    }
    return bytes;
}

static inline bool replay_is_same(const replay_work *a, const replay_work *b)
{
    return a->step == b->step && memcmp(a->x, b->x, sizeof(a->x)) == 0 &&
           memcmp(a->tail, b->tail, sizeof(a->tail)) == 0;
}

#endif
