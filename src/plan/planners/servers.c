/*
 * Servers: everyone sends its vector to the servers, each sums its share in rank order and
 * sends the result back to everyone. With one server this is "flat", the single parameter
 * server; with k of them (`servers:k`) each has a k-th; with all ranks ("partitioned") it is a
 * direct reduce-scatter followed by a direct allgather. Four ranks, two servers, s is a
 * server's sum:
 *
 *   rank 0   a0 b0        a0 a1 a2 a3 -> s      s .        s t
 *   rank 1   a1 b1                              . .   ->   s t
 *   rank 2   a2 b2        b0 b1 b2 b3 -> t      . t        s t
 *   rank 3   a3 b3                              . .        s t
 *
 * cost: 2 messages deep; a server takes (p-1) n/k bytes and gives as many: with links of b
 * bytes a second max(n/b, pn/(kb)) each way, fan-in p-1. Partitioned: 2(p-1)/p n a rank, the
 * least.
 *
 * source: lecture A, "Try #1: parameter server"; lecture C, "Splitting the Aggregation"; Li et
 * al.: "Scaling distributed machine learning with the parameter server", OSDI 2014
 */
#include "plan/plan_priv.h"

#include "base/base.h"

typedef struct server_plan {
    const gy_plan_request *request;
    gy_plan_sink *sink;
    int rank, servers, chunks;
    int own; /* the part that this rank serves; -1: none */
} server_plan;

static int server_of(const server_plan *plan, int part)
{
    return (int)((int64_t)part * plan->request->ranks / plan->servers);
}

static server_plan plan_of(const gy_plan_request *request, int rank, int servers,
                           gy_plan_sink *sink)
{
    server_plan plan = {.request = request,
                        .sink = sink,
                        .rank = rank,
                        .servers = servers,
                        .chunks = gy_request_chunks(request)};
    int nearest = (int)(((int64_t)rank * servers + request->ranks - 1) / request->ranks);
    bool is_server = nearest < servers && server_of(&plan, nearest) == rank;
    plan.own = is_server ? nearest : -1;
    return plan;
}

/* The position of a part in this rank's order of sends: each rank begins with another part. */
static int turn_of(const server_plan *plan, int part)
{
    return (part - plan->rank % plan->servers + plan->servers) % plan->servers;
}

/* 1 + index of the send of a part's chunk. */
static uint32_t sent_at(const server_plan *plan, int part, int chunk)
{
    int turn = turn_of(plan, part);
    turn -= plan->own >= 0 && turn_of(plan, plan->own) < turn;
    return (uint32_t)(turn * plan->chunks + chunk) + 1;
}

static gy_status send_parts(const server_plan *plan)
{
    int own_turn = plan->own < 0 ? plan->servers : turn_of(plan, plan->own);
    int i = gy_sink_skip(plan->sink, plan->chunks, plan->servers - (plan->own >= 0));
    for (i += i > own_turn; i < plan->servers; i++) {
        int part = (plan->rank + i) % plan->servers, server = server_of(plan, part);
        for (int chunk = 0; server != plan->rank && chunk < plan->chunks; chunk++) {
            GY_TRY(gy_plan_emit_send(plan->sink, server,
                                     gy_in(plan->rank, part * plan->chunks + chunk, 1), chunk));
        }
    }
    return GY_OK;
}

enum { SUM, FIRST }; /* scratch slots: a running sum may be wider than a received block */

/* Sum a block on arrival, in rank order; the running sum stays in scratch, so that also in
 * place the own part survives until its turn. */
static gy_status sum_block(const server_plan *plan, int block, int tag)
{
    int ranks = plan->request->ranks, rank = plan->rank;
    gy_blocks sum = gy_scratch(rank, FIRST, block);
    for (int of = 0; of < ranks; of++) {
        gy_blocks came = of == rank ? gy_in(rank, block, 1) : gy_wire(block, 1);
        gy_step step = {.kind = of == rank ? GY_STEP_REDUCE : GY_STEP_RECV_REDUCE,
                        .peer = of == rank ? 0 : of,
                        .a = sum,
                        .b = came,
                        .to = of == ranks - 1 ? gy_out(rank, block, 1)
                                              : gy_scratch(rank, SUM, block),
                        .chunk = of == rank ? 0 : (uint16_t)tag};
        if (of == 0 && rank == 0) {
            sum = came;
            continue;
        }
        if (of == 0) {
            GY_TRY(gy_plan_emit_recv(plan->sink, of, sum, tag, 0));
            continue;
        }
        GY_TRY(gy_plan_emit(plan->sink, &step));
        sum = step.to;
        /* from there on all steps have one form */
        of += of == 1 ? gy_sink_skip(plan->sink, 1, ranks - 2) : 0;
    }
    return GY_OK;
}

static gy_status copy_all(const server_plan *plan)
{
    int blocks = plan->servers * plan->chunks;
    return plan->request->in_place
               ? GY_OK
               : gy_plan_emit_copy(plan->sink, gy_in(0, 0, blocks), gy_out(0, 0, blocks));
}

/* Sum the part that this rank serves. */
static gy_status serve(const server_plan *plan)
{
    for (int chunk = 0; plan->own >= 0 && chunk < plan->chunks; chunk++) {
        GY_TRY(sum_block(plan, plan->own * plan->chunks + chunk, chunk));
    }
    return GY_OK;
}

static gy_status give_results(const server_plan *plan, int part)
{
    int ranks = plan->request->ranks;
    int step = 1 + gy_sink_skip(plan->sink, plan->chunks, ranks - 1);
    for (; step < ranks; step++) {
        for (int chunk = 0; chunk < plan->chunks; chunk++) {
            GY_TRY(gy_plan_emit_send(plan->sink, (plan->rank + step) % ranks,
                                     gy_out(plan->rank, part * plan->chunks + chunk, 1),
                                     chunk));
        }
    }
    return GY_OK;
}

static gy_status take_results(const server_plan *plan, int part)
{
    for (int chunk = 0; chunk < plan->chunks; chunk++) {
        GY_TRY(gy_plan_emit_recv(plan->sink, server_of(plan, part),
                                 gy_out(plan->rank, part * plan->chunks + chunk, 1), chunk,
                                 sent_at(plan, part, chunk)));
    }
    return GY_OK;
}

static gy_status allreduce(const server_plan *plan)
{
    if (plan->request->ranks == 1) {
        return copy_all(plan);
    }
    GY_TRY(send_parts(plan));
    GY_TRY(serve(plan));
    if (plan->own >= 0) {
        GY_TRY(give_results(plan, plan->own));
    }
    int servers = plan->servers;
    int behind =
        plan->rank - plan->own + servers - 1; /* the own part's position is its remainder */
    int own_turn = plan->own < 0 ? servers + 1 : behind % servers + 1;
    int i = 1 + gy_sink_skip(plan->sink, plan->chunks, servers - (plan->own >= 0));
    for (i += i > own_turn; i <= servers; i++) {
        /* The nearest server below this rank is served first. */
        int part = ((plan->rank - i) % servers + servers) % servers;
        if (server_of(plan, part) != plan->rank) {
            GY_TRY(take_results(plan, part));
        }
    }
    return GY_OK;
}

gy_status gy_plan_servers_allreduce(const gy_plan_request *request, int rank,
                                    gy_plan_sink *sink)
{
    server_plan plan = plan_of(request, rank, gy_cut_parts(GY_CUT_SERVERS, request), sink);
    return allreduce(&plan);
}

gy_status gy_plan_flat_allreduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    server_plan plan = plan_of(request, rank, 1, sink);
    return allreduce(&plan);
}

gy_status gy_plan_partitioned_allreduce(const gy_plan_request *request, int rank,
                                        gy_plan_sink *sink)
{
    server_plan plan = plan_of(request, rank, request->ranks, sink);
    return allreduce(&plan);
}

gy_status gy_plan_flat_reduce_scatter(const gy_plan_request *request, int rank,
                                      gy_plan_sink *sink)
{
    server_plan plan = plan_of(request, rank, request->ranks, sink);
    if (request->ranks == 1) {
        return copy_all(&plan);
    }
    GY_TRY(send_parts(&plan));
    return serve(&plan);
}

gy_status gy_plan_flat_allgather(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, chunks = gy_request_chunks(request), own = rank * chunks;
    if (!request->in_place) {
        GY_TRY(gy_plan_emit_copy(sink, gy_in(rank, own, chunks), gy_out(rank, own, chunks)));
    }
    for (int step = 1 + gy_sink_skip(sink, 1, ranks - 1); step < ranks; step++) {
        GY_TRY(gy_plan_emit_send(sink, (rank + step) % ranks, gy_out(rank, own, chunks), 0));
    }
    for (int step = 1 + gy_sink_skip(sink, 1, ranks - 1); step < ranks; step++) {
        int of = (rank - step + ranks) % ranks;
        GY_TRY(gy_plan_emit_recv(sink, of, gy_out(rank, of * chunks, chunks), 0, 0));
    }
    return GY_OK;
}

gy_status gy_plan_flat_reduce(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    server_plan plan = plan_of(request, rank, 1, sink);
    if (request->ranks == 1) {
        return copy_all(&plan);
    }
    for (int chunk = 0; chunk < plan.chunks; chunk++) {
        GY_TRY(rank == request->root
                   ? sum_block(&plan, chunk, chunk)
                   : gy_plan_emit_send(sink, request->root, gy_in(rank, chunk, 1), chunk));
    }
    return GY_OK;
}

gy_status gy_plan_flat_broadcast(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int ranks = request->ranks, root = request->root;
    for (int chunk = 0; chunk < gy_request_chunks(request); chunk++) {
        gy_blocks block = gy_out(rank, chunk, 1);
        if (rank != root) {
            GY_TRY(gy_plan_emit_recv(sink, root, block, chunk, 0));
        }
        for (int step = 1; rank == root && step < ranks; step++) {
            GY_TRY(gy_plan_emit_send(sink, (root + step) % ranks, block, chunk));
        }
    }
    return GY_OK;
}
