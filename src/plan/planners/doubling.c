/*
 * Recursive doubling: in round k a rank exchanges its whole sum with the rank whose number
 * differs in bit k, so that after log2 p rounds all have the sum of all. Eight ranks:
 *
 *   round 0   0-1  2-3  4-5  6-7       sums of 2
 *   round 1   0-2  1-3  4-6  5-7       sums of 4
 *   round 2   0-4  1-5  2-6  3-7       sums of 8
 *
 * With p = 2^m + r ranks the first 2r pair up before: the odd one gives its vector to the even
 * one, sits out and is told the result. Each sum is of neighbouring ranks and the lower half is
 * always the left operand: the order is that of the ranks, the bracketing the same on all.
 *
 * cost: log2 p rounds of n bytes each way, floor(log2 p) + 2 where p is no power of two: the
 * fewest rounds of all, for short vectors.
 *
 * Folded: only the first k ranks double (k the parameter, half of the ranks without one); each
 * other rank r gives its vector to rank r mod k before and is told the result. Four ranks, k 2:
 *
 *   2 -> 0, 3 -> 1;   0-1;   0 -> 2, 1 -> 3
 *
 * For ranks that share k cores: 2 (p-k) + k log2 k messages instead of p log2 p, and where rank
 * r runs on core r mod k only those among the k go from core to core.
 *
 * source: Thakur, Rabenseifner, Gropp 2005, section 4.5; lecture C, "Latency-optimal recursive
 * doubling"
 */
#include "plan/plan_priv.h"

#include "base/base.h"

gy_core gy_core_of(int ranks, int rank)
{
    gy_core core = {.size = 1};
    while (core.size <= ranks / 2) {
        core.size *= 2;
    }
    core.extra = ranks - core.size;
    core.is_out = rank < 2 * core.extra && rank % 2 == 1;
    core.has_guest = rank < 2 * core.extra && rank % 2 == 0;
    core.id = rank < 2 * core.extra ? rank / 2 : rank - core.extra;
    return core;
}

int gy_core_rank(const gy_core *core, int id)
{
    return id < core->extra ? 2 * id : id + core->extra;
}

/* One exchange: the partner's sum comes into scratch and is combined after the own one was
 * sent. */
static gy_status exchange(int rank, int partner, gy_blocks *sum, int chunk, gy_plan_sink *sink)
{
    gy_blocks came = gy_scratch(rank, chunk, chunk), out = gy_out(rank, chunk, 1);
    GY_TRY(gy_plan_emit_send(sink, partner, *sum, chunk));
    uint32_t sent = sink->count;
    GY_TRY(gy_plan_emit_recv(sink, partner, came, chunk, 0));
    bool is_left = rank < partner;
    GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_REDUCE,
                                         .a = is_left ? *sum : came,
                                         .b = is_left ? came : *sum,
                                         .to = out,
                                         .after = {sent}}));
    *sum = out;
    return GY_OK;
}

/* `sum`: where this rank's operand is. */
static gy_status double_chunk(const gy_plan_request *request, int rank, gy_blocks sum,
                              int chunk, gy_plan_sink *sink)
{
    gy_core core = gy_core_of(request->ranks, rank);
    gy_blocks out = gy_out(rank, chunk, 1);
    if (core.is_out) {
        GY_TRY(gy_plan_emit_send(sink, rank - 1, sum, chunk));
        return gy_plan_emit_recv(sink, rank - 1, out, chunk, sink->count);
    }
    if (core.has_guest) {
        GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                             .peer = rank + 1,
                                             .a = sum,
                                             .b = gy_wire(chunk, 1),
                                             .to = out,
                                             .chunk = (uint16_t)chunk}));
        sum = out;
    }
    for (int bit = 1; bit < core.size; bit *= 2) {
        GY_TRY(exchange(rank, gy_core_rank(&core, core.id ^ bit), &sum, chunk, sink));
    }
    return core.has_guest ? gy_plan_emit_send(sink, rank + 1, out, chunk) : GY_OK;
}

static gy_status fold_chunk(const gy_plan_request *request, int rank, int chunk,
                            gy_plan_sink *sink)
{
    int ranks = request->ranks;
    int doubling = GY_MIN(gy_plan_request_number(request, (ranks + 1) / 2), ranks);
    gy_plan_request among = {.ranks = doubling};
    gy_blocks sum = gy_in(rank, chunk, 1), out = gy_out(rank, chunk, 1);
    if (rank >= doubling) {
        GY_TRY(gy_plan_emit_send(sink, rank % doubling, sum, chunk));
        return gy_plan_emit_recv(sink, rank % doubling, out, chunk, sink->count);
    }
    for (int guest = rank + doubling; guest < ranks; guest += doubling) {
        GY_TRY(gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                             .peer = guest,
                                             .a = sum,
                                             .b = gy_wire(chunk, 1),
                                             .to = out,
                                             .chunk = (uint16_t)chunk}));
        sum = out;
    }
    if (doubling > 1) {
        GY_TRY(double_chunk(&among, rank, sum, chunk, sink));
    }
    for (int guest = rank + doubling; guest < ranks; guest += doubling) {
        GY_TRY(gy_plan_emit_send(sink, guest, out, chunk));
    }
    return GY_OK;
}

static gy_status plan_chunks(const gy_plan_request *request, int rank, bool is_folded,
                             gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    if (request->ranks == 1) {
        return request->in_place
                   ? GY_OK
                   : gy_plan_emit_copy(sink, gy_in(0, 0, chunks), gy_out(0, 0, chunks));
    }
    for (int chunk = 0; chunk < chunks; chunk++) {
        GY_TRY(is_folded ? fold_chunk(request, rank, chunk, sink)
                         : double_chunk(request, rank, gy_in(rank, chunk, 1), chunk, sink));
    }
    return GY_OK;
}

gy_status gy_plan_doubling_allreduce(const gy_plan_request *request, int rank,
                                     gy_plan_sink *sink)
{
    return plan_chunks(request, rank, false, sink);
}

gy_status gy_plan_folded_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    return plan_chunks(request, rank, true, sink);
}
