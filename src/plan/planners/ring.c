/*
 * The ring: blocks travel from rank to rank + 1. Allreduce with 4 ranks; the row is the rank,
 * the column the part, and the number how many contributions its sum has after each round:
 *
 *   start      round 0     round 1     round 2    then the finished parts go once around
 *   1 1 1 1    1 1 1 2     1 1 3 2     1 4 3 2    4 4 4 4
 *   1 1 1 1    2 1 1 1     2 1 1 3     2 1 4 3    4 4 4 4
 *   1 1 1 1    1 2 1 1     3 2 1 1     3 2 1 4    4 4 4 4
 *   1 1 1 1    1 1 2 1     1 3 2 1     4 3 2 1    4 4 4 4
 *
 * Segmented (`segments:n`): each part is sent in n segments, so that one is on its way while
 * the previous one is being summed.
 *
 * cost: 2(p-1) rounds, 2(p-1)/p of the vector sent by each rank (allreduce); half of both for
 * the other two. A part is summed from the rank after its first sender around the ring, so the
 * order is not the rank order, but it is always the same, on every rank.
 *
 * source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 2009; lecture B, "Ring based Reduction"
 */
#include "plan/plan_priv.h"

#include "base/fail.h"

static int wrap(int part, int ranks)
{
    return (part % ranks + ranks) % ranks;
}

/* Send block `a` to the next rank, then receive `to` from the previous one. */
typedef struct round_step {
    const gy_plan_request *request;
    int rank;
    uint16_t tag;
} round_step;

static gy_status send_next(const round_step *now, gy_plan_sink *sink, gy_blocks a)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_SEND,
                                         .peer = wrap(now->rank + 1, now->request->ranks),
                                         .a = a,
                                         .chunk = now->tag});
}

static gy_status take_previous(const round_step *now, gy_plan_sink *sink, gy_blocks to,
                               uint32_t after)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV,
                                         .peer = wrap(now->rank - 1, now->request->ranks),
                                         .to = to,
                                         .after = {after},
                                         .chunk = now->tag});
}

static gy_status reduce_previous(const round_step *now, gy_plan_sink *sink, gy_blocks to,
                                 uint32_t after)
{
    return gy_plan_emit(sink, &(gy_step){.kind = GY_STEP_RECV_REDUCE,
                                         .peer = wrap(now->rank - 1, now->request->ranks),
                                         .a = gy_wire(to.first, 1),
                                         .b = gy_in(now->rank, to.first, 1),
                                         .to = to,
                                         .after = {after},
                                         .chunk = now->tag});
}

static gy_status copy_part(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    if (request->in_place) {
        return GY_OK;
    }
    return gy_plan_emit_copy(sink, gy_in(rank, rank * chunks, chunks),
                             gy_out(rank, rank * chunks, chunks));
}

/*
 * The order of steps: the chunks of the first round are sent, then each chunk that has come in
 * a round goes on in the next, so that the link has others to carry meanwhile. 1 + index of the
 * send of a chunk in a round:
 */
static uint32_t sent_in(int chunks, int round, int chunk)
{
    return round == 0 ? (uint32_t)chunk + 1
                      : (uint32_t)(chunks + 2 * ((round - 1) * chunks + chunk) + 2);
}

/* What a ring sends and receives in a round. */
typedef struct ring_kind {
    int rounds;
    gy_status (*send)(const round_step *now, int round, gy_plan_sink *sink);
    gy_status (*take)(const round_step *now, int round, gy_plan_sink *sink);
} ring_kind;

static gy_status go_round(const gy_plan_request *request, int rank, const ring_kind *kind,
                          gy_plan_sink *sink)
{
    int chunks = gy_request_chunks(request);
    round_step now = {.request = request, .rank = rank};
    for (int chunk = 0; kind->rounds > 0 && chunk < chunks; chunk++) {
        now.tag = (uint16_t)chunk;
        GY_TRY(kind->send(&now, 0, sink));
    }
    int round = gy_sink_skip(sink, 2 * (int64_t)chunks, kind->rounds - 1);
    for (; round < kind->rounds; round++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            now.tag = (uint16_t)chunk;
            GY_TRY(kind->take(&now, round, sink));
            if (round + 1 < kind->rounds) {
                GY_TRY(kind->send(&now, round + 1, sink));
            }
        }
    }
    return GY_OK;
}

/* The current chunk of the part that is `back` ranks behind this one. */
static int behind(const round_step *now, int back)
{
    int part = wrap(now->rank - back, now->request->ranks);
    return part * gy_request_chunks(now->request) + now->tag;
}

/* Rounds are numbered over both phases: sums in rounds up to p-2, results from p-1 on. */
static gy_status send_sum(const round_step *now, int round, gy_plan_sink *sink)
{
    int block = behind(now, round);
    return send_next(now, sink,
                     round == 0 ? gy_in(now->rank, block, 1) : gy_out(now->rank, block, 1));
}

static gy_status take_sum(const round_step *now, int round, gy_plan_sink *sink)
{
    gy_blocks out = gy_out(now->rank, behind(now, round + 1), 1);
    int sums = now->request->ranks - 1, chunks = gy_request_chunks(now->request);
    if (round < sums) {
        return reduce_previous(now, sink, out, 0);
    }
    /* This complete block replaces the one sent so many rounds before. */
    return take_previous(now, sink, out, sent_in(chunks, round - sums, now->tag));
}

gy_status gy_plan_ring_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    if (request->ranks == 1) {
        return copy_part(request, rank, sink);
    }
    const ring_kind kind = {
        .rounds = 2 * (request->ranks - 1), .send = send_sum, .take = take_sum};
    return go_round(request, rank, &kind, sink);
}

/* Sums under way alternate between two sets of slots. */
static gy_status send_share(const round_step *now, int round, gy_plan_sink *sink)
{
    int block = behind(now, round + 1), chunks = gy_request_chunks(now->request);
    int slot = (round + 1) % 2 * chunks + now->tag;
    return send_next(now, sink,
                     round == 0 ? gy_in(now->rank, block, 1)
                                : gy_scratch(now->rank, slot, block));
}

static gy_status take_share(const round_step *now, int round, gy_plan_sink *sink)
{
    int block = behind(now, round + 2), chunks = gy_request_chunks(now->request);
    if (round == now->request->ranks - 2) {
        return reduce_previous(now, sink, gy_out(now->rank, block, 1), 0);
    }
    int slot = round % 2 * chunks + now->tag;
    /* The slot had the block that the previous round sent. */
    uint32_t sent = round < 2 ? 0 : sent_in(chunks, round - 1, now->tag);
    return reduce_previous(now, sink, gy_scratch(now->rank, slot, block), sent);
}

gy_status gy_plan_ring_reduce_scatter(const gy_plan_request *request, int rank,
                                      gy_plan_sink *sink)
{
    if (request->ranks == 1) {
        return copy_part(request, rank, sink);
    }
    const ring_kind kind = {
        .rounds = request->ranks - 1, .send = send_share, .take = take_share};
    return go_round(request, rank, &kind, sink);
}

static gy_status send_part(const round_step *now, int round, gy_plan_sink *sink)
{
    return send_next(now, sink, gy_out(now->rank, behind(now, round), 1));
}

static gy_status take_part(const round_step *now, int round, gy_plan_sink *sink)
{
    return take_previous(now, sink, gy_out(now->rank, behind(now, round + 1), 1), 0);
}

gy_status gy_plan_ring_allgather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    const ring_kind kind = {.rounds = request->ranks - 1, .send = send_part, .take = take_part};
    GY_TRY(copy_part(request, rank, sink));
    return go_round(request, rank, &kind, sink);
}

gy_status gy_plan_segmented_ring_allreduce(const gy_plan_request *request, int rank,
                                           gy_plan_sink *sink)
{
    gy_plan_request segments = *request;
    segments.chunks = gy_cut_chunks(GY_CUT_SEGMENTS, request);
    return gy_plan_ring_allreduce(&segments, rank, sink);
}
