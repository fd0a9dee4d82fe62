/*
 * Recursive halving and doubling. Allreduce: in each round two ranks exchange halves of what
 * they still work on, each sums the half that it keeps; when each has one part, the same
 * exchanges run backwards and put the parts together. Four ranks, the parts that each works on:
 *
 *   rank 0   0 1 2 3   0 1 . .   0 . . .      rounds 2, 3 backwards: all parts on all ranks
 *   rank 1   0 1 2 3   . . 2 3   . . 2 .
 *   rank 2   0 1 2 3   0 1 . .   . 1 . .
 *   rank 3   0 1 2 3   . . 2 3   . . . 3
 *
 * The nearest ranks meet first, so sums are of neighbouring ranks, in rank order.
 * Reduce-scatter must end with part r on rank r, so there the farthest meet first and the order
 * is not kept. Ranks above the largest power of two pair up before and after (doubling.c).
 *
 * cost: allreduce 2 log2 p rounds and 2(p-1)/p n bytes each way, the least of both kinds at
 * once; where p is no power of two 2 rounds and up to 2n bytes more. Halves of each for the
 * others.
 *
 * source: Rabenseifner: "Optimization of collective reduction operations", ICCS 2004; Thakur et
 * al. 2005; lecture C, "Bandwidth-optimal recursive doubling"
 */
#include "plan/plan_priv.h"

#include "base/base.h"

enum { ROUNDS = 17 };

/* Blocks [first, first + run). */
typedef struct block_range {
    int first, run;
} block_range;

typedef struct halving_run {
    gy_plan_sink *sink;
    int rank, chunks;
    gy_core core;
    block_range given[ROUNDS]; /* sent in each round, */
    uint32_t sent[ROUNDS];     /* and 1 + index of the send */
} halving_run;

static gy_blocks in_range(gy_blocks (*of)(int, int, int), int rank, block_range range)
{
    return of(rank, range.first, range.run);
}

/* Combine the range from `partner` with `mine`; the lower rank's part is the left operand. */
static gy_status join_range(const halving_run *run, int partner, gy_blocks mine, gy_blocks to,
                            int tag)
{
    gy_blocks came = gy_wire(mine.first, mine.run);
    bool is_left = run->rank < partner;
    return gy_plan_emit(run->sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                              .peer = partner,
                                              .a = is_left ? mine : came,
                                              .b = is_left ? came : mine,
                                              .to = to,
                                              .chunk = (uint16_t)tag});
}

static gy_status halve(halving_run *run, block_range *range, bool is_summed)
{
    int round = 0;
    for (int bit = 1; bit < run->core.size; bit *= 2, round++) {
        int partner = gy_core_rank(&run->core, run->core.id ^ bit);
        block_range low = {range->first, range->run / 2};
        block_range high = {range->first + low.run, range->run - low.run};
        bool keeps_high = (run->core.id & bit) != 0;
        block_range keep = keeps_high ? high : low, give = keeps_high ? low : high;
        gy_blocks (*from)(int, int, int) = is_summed || round > 0 ? gy_out : gy_in;
        GY_TRY(gy_plan_emit_send(run->sink, partner, in_range(from, run->rank, give), round));
        run->given[round] = give;
        run->sent[round] = run->sink->count;
        GY_TRY(join_range(run, partner, in_range(from, run->rank, keep),
                          in_range(gy_out, run->rank, keep), round));
        *range = keep;
    }
    return GY_OK;
}

/* The same exchanges in reverse: the ranges that were sent come back summed. */
static gy_status unite(const halving_run *run, block_range range)
{
    int round = 0;
    for (int bit = 1; bit < run->core.size; bit *= 2) {
        round++;
    }
    for (int bit = run->core.size / 2; bit > 0; bit /= 2) {
        round--;
        int partner = gy_core_rank(&run->core, run->core.id ^ bit);
        block_range back = run->given[round];
        GY_TRY(
            gy_plan_emit_send(run->sink, partner, in_range(gy_out, run->rank, range), round));
        GY_TRY(gy_plan_emit_recv(run->sink, partner, in_range(gy_out, run->rank, back), round,
                                 run->sent[round]));
        range.first = GY_MIN(range.first, back.first);
        range.run += back.run;
    }
    return GY_OK;
}

gy_status gy_plan_halving_allreduce(const gy_plan_request *request, int rank,
                                    gy_plan_sink *sink)
{
    halving_run run = {.sink = sink,
                       .rank = rank,
                       .chunks = gy_request_chunks(request),
                       .core = gy_core_of(request->ranks, rank)};
    block_range all = {0, run.core.size * run.chunks}, range = all;
    gy_blocks in = in_range(gy_in, rank, all), out = in_range(gy_out, rank, all);
    if (request->ranks == 1) {
        return request->in_place ? GY_OK : gy_plan_emit_copy(sink, in, out);
    }
    if (run.core.is_out) {
        GY_TRY(gy_plan_emit_send(sink, rank - 1, in, ROUNDS));
        return gy_plan_emit_recv(sink, rank - 1, out, ROUNDS, sink->count);
    }
    if (run.core.has_guest) {
        GY_TRY(join_range(&run, rank + 1, in, out, ROUNDS));
    }
    GY_TRY(halve(&run, &range, run.core.has_guest));
    GY_TRY(unite(&run, range));
    return run.core.has_guest ? gy_plan_emit_send(sink, rank + 1, out, ROUNDS) : GY_OK;
}

/* The parts of the core's members [id, id + count) and of the ranks that they represent. */
static block_range parts_of(const halving_run *run, int id, int count)
{
    int first = gy_core_rank(&run->core, id);
    int end = id + count == run->core.size ? run->core.size + run->core.extra
                                           : gy_core_rank(&run->core, id + count);
    return (block_range){first * run->chunks, (end - first) * run->chunks};
}

/* Copy the own part of the sums in `from` to the output, and send the represented rank its
 * part. */
static gy_status hand_out(const halving_run *run, bool is_in_out)
{
    block_range own = {run->rank * run->chunks, run->chunks};
    if (!is_in_out) {
        GY_TRY(gy_plan_emit_copy(run->sink, gy_work(run->rank, own.first, own.run),
                                 gy_out(run->rank, own.first, own.run)));
    }
    return run->core.has_guest
               ? gy_plan_emit_send(run->sink, run->rank + 1,
                                   gy_work(run->rank, own.first + own.run, own.run), ROUNDS)
               : GY_OK;
}

gy_status gy_plan_halving_reduce_scatter(const gy_plan_request *request, int rank,
                                         gy_plan_sink *sink)
{
    halving_run run = {.sink = sink,
                       .rank = rank,
                       .chunks = gy_request_chunks(request),
                       .core = gy_core_of(request->ranks, rank)};
    int blocks = request->ranks * run.chunks, own = rank * run.chunks, first = 0, round = 0;
    if (request->ranks == 1) {
        return request->in_place
                   ? GY_OK
                   : gy_plan_emit_copy(sink, gy_in(0, 0, blocks), gy_out(0, 0, blocks));
    }
    if (run.core.is_out) {
        GY_TRY(gy_plan_emit_send(sink, rank - 1, gy_in(rank, 0, blocks), ROUNDS));
        return gy_plan_emit_recv(sink, rank - 1, gy_out(rank, own, run.chunks), ROUNDS,
                                 sink->count);
    }
    gy_blocks (*from)(int, int, int) = gy_in;
    if (run.core.has_guest) {
        GY_TRY(join_range(&run, rank + 1, gy_in(rank, 0, blocks), gy_work(rank, 0, blocks),
                          ROUNDS));
        from = gy_work;
    }
    for (int bit = run.core.size / 2; bit > 0; bit /= 2, round++) {
        int partner = gy_core_rank(&run.core, run.core.id ^ bit);
        bool keeps_high = (run.core.id & bit) != 0;
        block_range low = parts_of(&run, first, bit), high = parts_of(&run, first + bit, bit);
        block_range keep = keeps_high ? high : low, give = keeps_high ? low : high;
        bool is_last = bit == 1 && !run.core.has_guest;
        GY_TRY(gy_plan_emit_send(sink, partner, in_range(from, rank, give), round));
        GY_TRY(join_range(&run, partner, in_range(from, rank, keep),
                          in_range(is_last ? gy_out : gy_work, rank, keep), round));
        from = gy_work;
        first += keeps_high ? bit : 0;
    }
    return hand_out(&run, !run.core.has_guest);
}

gy_status gy_plan_doubling_allgather(const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink)
{
    halving_run run = {.sink = sink,
                       .rank = rank,
                       .chunks = gy_request_chunks(request),
                       .core = gy_core_of(request->ranks, rank)};
    int chunks = run.chunks, blocks = request->ranks * chunks, round = 0;
    gy_blocks own = gy_out(rank, rank * chunks, chunks);
    if (!request->in_place) {
        GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, rank * chunks, chunks), own));
    }
    if (run.core.is_out) {
        GY_TRY(gy_plan_emit_send(sink, rank - 1, own, ROUNDS));
        return gy_plan_emit_recv(sink, rank - 1, gy_out(rank, 0, blocks), ROUNDS, sink->count);
    }
    if (run.core.has_guest) {
        GY_TRY(gy_plan_emit_recv(sink, rank + 1, gy_out(rank, (rank + 1) * chunks, chunks),
                                 ROUNDS, 0));
    }
    for (int bit = 1; bit < run.core.size; bit *= 2, round++) {
        int mine = run.core.id / bit * bit, theirs = mine ^ bit;
        int partner = gy_core_rank(&run.core, run.core.id ^ bit);
        GY_TRY(gy_plan_emit_send(sink, partner,
                                 in_range(gy_out, rank, parts_of(&run, mine, bit)), round));
        GY_TRY(gy_plan_emit_recv(
            sink, partner, in_range(gy_out, rank, parts_of(&run, theirs, bit)), round, 0));
    }
    return run.core.has_guest
               ? gy_plan_emit_send(sink, rank + 1, gy_out(rank, 0, blocks), ROUNDS)
               : GY_OK;
}
