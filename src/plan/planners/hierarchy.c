/*
 * Hierarchy: a plan inside each host, one across hosts between the hosts' leaders, and another
 * one inside (`hierarchy:inside+across`, any two algorithms over messages). Two hosts of three
 * ranks, leaders 0 and 3:
 *
 *   inside    1>0 2>0   4>3 5>3        reduce to the leaders
 *   across    0<>3                     allreduce among them
 *   inside    0>1 0>2   3>4 3>5        broadcast
 *
 * "flat+ring" is a parameter server within a host and a ring across hosts. The parts of each
 * operation:
 *
 *   allreduce       reduce, allreduce, broadcast       broadcast   -, broadcast, broadcast
 *   reduce-scatter  reduce, reduce-scatter, scatter    reduce      reduce, reduce, -
 *   allgather       gather, allgather, broadcast       barrier     barrier, barrier, barrier
 *
 * cost: the sum of the three; the links between hosts carry one vector a host instead of one a
 * rank. Sums are in rank order inside a host and across hosts, not over all ranks.
 *
 * source: lecture A, "Case study: NVLink + RDMA"; Karonis et al.: "Exploiting hierarchy in
 * parallel computer networks to optimize collective operation performance", IPDPS 2000
 */
#include "plan/plan_priv.h"

#include "base/base.h"

enum {
    PLANE = 0,
    INNER_PLANE = 1
}; /* private vectors: the leader's, and those of inner plans */

/* A rank's plan under construction. */
typedef struct host_plan {
    const gy_plan_request *request;
    const gy_plan_shared *hosts;
    gy_plan_sink *sink;
    int rank, host, chunks;
    int32_t scratch_end; /* the parts so far may still be sending from slots below it */
} host_plan;

/* Give a part memory that earlier parts did not use. */
static void keep_apart(host_plan *plan, gy_plan_group *part)
{
    part->work_plane = INNER_PLANE;
    part->scratch_slot = plan->scratch_end;
    part->scratch_end = &plan->scratch_end;
}

/* A part inside this rank's host, with its leader as the root, by the inner algorithm. */
static gy_status inside(host_plan *plan, gy_operation operation, int chunks,
                        gy_plan_group *part)
{
    const gy_plan_shared *hosts = plan->hosts;
    int begin = hosts->begins[plan->host];
    part->algorithm = gy_plan_request_inner(plan->request, operation);
    part->request.operation = operation;
    part->request.ranks = hosts->begins[plan->host + 1] - begin;
    part->request.chunks = chunks;
    part->request.root = hosts->places[hosts->leaders[plan->host]];
    part->ranks = &hosts->ranks[begin];
    part->at = 1 + hosts->places[plan->rank];
    keep_apart(plan, part);
    return gy_plan_part(part, plan->rank, plan->sink);
}

/* A part among the leaders, by the outer algorithm. */
static gy_status across(host_plan *plan, int chunks, gy_plan_group *part)
{
    gy_plan_request outer;
    part->algorithm = gy_plan_request_outer(plan->request, &outer);
    outer.in_place = part->request.in_place;
    outer.chunks = chunks;
    outer.root = gy_host_of(plan->request->topology, plan->request->root);
    part->request = outer;
    part->ranks = plan->hosts->leaders;
    part->at = 1 + plan->host;
    keep_apart(plan, part);
    return plan->hosts->leaders[plan->host] == plan->rank
               ? gy_plan_part(part, plan->rank, plan->sink)
               : GY_OK;
}

static const gy_blocks in = {.buffer = GY_BUFFER_IN}, out = {.buffer = GY_BUFFER_OUT},
                       work = {.buffer = GY_BUFFER_WORK, .slot = PLANE};

static int block_count(const gy_plan_request *request)
{
    return gy_cut_parts(GY_CUT_OUTER, request) * gy_cut_chunks(GY_CUT_OUTER, request);
}

static gy_status allreduce(host_plan *plan)
{
    int blocks = block_count(plan->request);
    gy_plan_group up = {.in = in, .out = out, .request.in_place = plan->request->in_place};
    gy_plan_group over = {.in = out, .out = out, .request.in_place = true};
    gy_plan_group down = {.in = out, .out = out};
    GY_TRY(inside(plan, GY_OPERATION_REDUCE, blocks, &up));
    GY_TRY(across(plan, plan->chunks, &over));
    return inside(plan, GY_OPERATION_BROADCAST, blocks, &down);
}

static gy_status broadcast(host_plan *plan)
{
    gy_plan_group over = {.in = out, .out = out}, down = {.in = out, .out = out};
    GY_TRY(across(plan, plan->chunks, &over));
    return inside(plan, GY_OPERATION_BROADCAST, block_count(plan->request), &down);
}

static gy_status reduce(host_plan *plan)
{
    gy_plan_group up = {.in = in, .out = work}, over = {.in = work, .out = out};
    GY_TRY(inside(plan, GY_OPERATION_REDUCE, block_count(plan->request), &up));
    return across(plan, plan->chunks, &over);
}

/* Inner part i belongs to the host's i-th rank. */
static void part_by_mates(const host_plan *plan, gy_plan_group *part)
{
    part->runs = &plan->hosts->singles[plan->hosts->begins[plan->host]];
    part->outer_chunks = plan->chunks;
    part->width = plan->chunks;
}

/* Inner part h consists of the parts of all ranks of host h. */
static void part_by_hosts(const host_plan *plan, gy_plan_group *part)
{
    part->runs = plan->hosts->runs;
    part->begins = plan->hosts->run_begins;
    part->outer_chunks = plan->chunks;
    part->width = plan->hosts->widest * plan->chunks;
}

/* Inner part 0 is the whole vector. */
static void part_whole(const host_plan *plan, const gy_block_run *all, gy_plan_group *part)
{
    part->runs = all;
    part->outer_chunks = plan->chunks;
    part->width = all->run * plan->chunks;
}

static gy_status allgather(host_plan *plan)
{
    const gy_block_run all = {0, plan->request->ranks};
    gy_plan_group up = {.in = in, .out = out, .request.in_place = plan->request->in_place};
    gy_plan_group over = {.in = out, .out = out, .request.in_place = true};
    gy_plan_group down = {.in = out, .out = out};
    part_by_mates(plan, &up);
    part_by_hosts(plan, &over);
    part_whole(plan, &all, &down);
    GY_TRY(inside(plan, GY_OPERATION_GATHER, 1, &up));
    GY_TRY(across(plan, 1, &over));
    return inside(plan, GY_OPERATION_BROADCAST, 1, &down);
}

static gy_status reduce_scatter(host_plan *plan)
{
    const gy_block_run all = {0, plan->request->ranks};
    gy_plan_group up = {.in = in, .out = work};
    gy_plan_group over = {.in = work, .out = work, .request.in_place = true};
    gy_plan_group down = {.in = work, .out = out};
    part_whole(plan, &all, &up);
    part_by_hosts(plan, &over);
    part_by_mates(plan, &down);
    GY_TRY(inside(plan, GY_OPERATION_REDUCE, 1, &up));
    GY_TRY(across(plan, 1, &over));
    return inside(plan, GY_OPERATION_SCATTER, 1, &down);
}

static gy_status barrier(host_plan *plan)
{
    gy_plan_group before = {.in = in, .out = out}, over = before, after = before;
    GY_TRY(inside(plan, GY_OPERATION_BARRIER, 1, &before));
    GY_TRY(across(plan, 1, &over));
    return inside(plan, GY_OPERATION_BARRIER, 1, &after);
}

static host_plan plan_of(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    return (host_plan){.request = request,
                       .hosts = request->shared,
                       .sink = sink,
                       .rank = rank,
                       .host = gy_host_of(request->topology, rank),
                       .chunks = gy_request_chunks(request)};
}

#define GY_HIERARCHY(name)                                                                     \
    static gy_status shared_##name(const gy_plan_request *request, int rank,                   \
                                   gy_plan_sink *sink)                                         \
    {                                                                                          \
        host_plan plan = plan_of(request, rank, sink);                                         \
        return name(&plan);                                                                    \
    }                                                                                          \
    gy_status gy_plan_hierarchy_##name(const gy_plan_request *request, int rank,               \
                                       gy_plan_sink *sink)                                     \
    {                                                                                          \
        return gy_plan_with_shared(request, rank, sink, GY_FROM_HOSTS, shared_##name);         \
    }
GY_HIERARCHY(allreduce)
GY_HIERARCHY(reduce_scatter)
GY_HIERARCHY(allgather)
GY_HIERARCHY(broadcast)
GY_HIERARCHY(reduce)
GY_HIERARCHY(barrier)
#undef GY_HIERARCHY
