/*
 * Links of different speed: a ring and a tree that avoid slow ones (request.topology).
 *
 * The weighted ring passes through all ranks of a host before it leaves it, and goes on to the
 * nearest host not yet visited, so that it crosses between hosts as often as there are hosts.
 * With ranks 0 2 4 on one host and 1 3 5 on another: 0 2 4 1 3 5 instead of 0 1 2 3 4 5, two
 * slow links instead of six. Rings of the other operations are the same, with parts renamed.
 *
 * The weighted tree grows by the edge that ends earliest: each step some rank that has the
 * vector gives it to one that has not, such that start plus cost is the least; a host is told
 * from outside once. With equal links this is the binomial tree.
 *
 * cost: ring as ring.c, paced by the slowest link it uses; tree: about the best time of one
 * sender a rank; planning O(p hosts^2).
 *
 * source: lecture A, "what if the hardware speed between different machines diff?"; Bhat,
 * Raghavendra, Prasanna: "Efficient collective communication in distributed heterogeneous
 * systems", JPDC 2003 (earliest completing edge first, here a host at a time); nearest
 * neighbour tour: Rosenkrantz, Stearns, Lewis 1977
 */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <math.h>

static int host_count(const gy_plan_request *request)
{
    return request->topology == NULL ? 1 : request->topology->hosts;
}

/* The ranks host by host, each host the nearest to the one before; a host is marked by its
 * visit. */
static void tour(const gy_plan_request *request, int32_t *order, uint8_t *is_visited)
{
    int host = gy_host_of(request->topology, 0), count = 0;
    while (host >= 0) {
        is_visited[host] = 1;
        for (int rank = 0; rank < request->ranks; rank++) {
            if (gy_host_of(request->topology, rank) == host) {
                order[count++] = rank;
            }
        }
        int next = -1;
        for (int other = 0; other < host_count(request); other++) {
            if (!is_visited[other] &&
                (next < 0 || gy_host_cost(request->topology, host, other) <
                                 gy_host_cost(request->topology, host, next))) {
                next = other;
            }
        }
        host = next;
    }
    GY_ASSERT(count == request->ranks);
}

/* The ring over `order`, whose i-th part is that of rank order[i] where each rank has one. */
static gy_status plan_ring(const gy_plan_request *request, int rank, const int32_t *order,
                           gy_block_run *runs, int32_t *begins, gy_plan_sink *sink)
{
    gy_part part = {.algorithm = gy_algorithm_find(request->operation, "ring"),
                    .request = *request,
                    .ranks = order,
                    .in = {.buffer = GY_BUFFER_IN},
                    .out = {.buffer = GY_BUFFER_OUT}};
    int chunks = gy_request_chunks(request);
    part.request.topology = NULL;
    if (request->operation != GY_OPERATION_ALLREDUCE) {
        for (int block = 0; block < request->ranks * chunks; block++) {
            runs[block] = (gy_block_run){order[block / chunks] * chunks + block % chunks, 1};
            begins[block + 1] = block + 1;
        }
        part.runs = runs;
        part.begins = begins;
    }
    return gy_plan_part(&part, rank, sink);
}

gy_status gy_plan_weighted_ring(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    gy_arena arena = {.blocks = NULL};
    size_t ranks = (size_t)request->ranks;
    size_t blocks = ranks * (size_t)gy_request_chunks(request);
    int32_t *order = gy_arena_alloc(&arena, ranks * sizeof(*order));
    uint8_t *is_visited = gy_arena_alloc(&arena, (size_t)host_count(request));
    gy_block_run *runs = gy_arena_alloc(&arena, blocks * sizeof(*runs));
    int32_t *begins = gy_arena_alloc(&arena, (blocks + 1) * sizeof(*begins));
    gy_status status = GY_NOMEM;
    if (order != NULL && is_visited != NULL && runs != NULL && begins != NULL) {
        tour(request, order, is_visited);
        status = plan_ring(request, rank, order, runs, begins, sink);
    }
    gy_arena_free(&arena);
    return status;
}

/* The tree as it grows. */
typedef struct growth {
    const gy_plan_request *request;
    int32_t *parents;  /* (p) -1: not told yet; the top's own number */
    double *free_at;   /* (p) when a rank that was told may tell the next */
    int32_t *sender;   /* (hosts) of those told the one that is free first, -1 none */
    int32_t *untold;   /* (hosts) the lowest rank not told, -1 none */
    int32_t *children; /* (p) of the rank asked for, the last told first */
    int child_count;
} growth;

static gy_status growth_init(growth *grow, const gy_plan_request *request, gy_arena *arena)
{
    size_t ranks = (size_t)request->ranks, hosts = (size_t)host_count(request);
    *grow = (growth){.request = request,
                     .parents = gy_arena_alloc(arena, ranks * sizeof(int32_t)),
                     .free_at = gy_arena_alloc(arena, ranks * sizeof(double)),
                     .sender = gy_arena_alloc(arena, hosts * sizeof(int32_t)),
                     .untold = gy_arena_alloc(arena, hosts * sizeof(int32_t)),
                     .children = gy_arena_alloc(arena, ranks * sizeof(int32_t))};
    bool is_there = grow->parents != NULL && grow->free_at != NULL && grow->sender != NULL &&
                    grow->untold != NULL && grow->children != NULL;
    for (int rank = 0; is_there && rank < request->ranks; rank++) {
        grow->parents[rank] = -1;
    }
    return is_there ? GY_OK : GY_NOMEM;
}

/* Each host's next sender and next to be told. */
static void find_candidates(growth *grow)
{
    const gy_plan_request *request = grow->request;
    for (int host = 0; host < host_count(request); host++) {
        grow->sender[host] = grow->untold[host] = -1;
    }
    for (int rank = request->ranks - 1; rank >= 0; rank--) {
        int host = gy_host_of(request->topology, rank), best = grow->sender[host];
        if (grow->parents[rank] < 0) {
            grow->untold[host] = rank;
        } else if (best < 0 || grow->free_at[rank] <= grow->free_at[best]) {
            grow->sender[host] = rank;
        }
    }
}

/* The edge that ends first. */
static void add_edge(growth *grow, int rank)
{
    const gy_plan_request *request = grow->request;
    int from = -1, to = -1, hosts = host_count(request);
    double end = INFINITY;
    find_candidates(grow);
    for (int a = 0; a < hosts; a++) {
        for (int b = 0; grow->sender[a] >= 0 && b < hosts; b++) {
            /* Slow links are used once: a host where somebody knows tells its own. */
            bool is_open = grow->untold[b] >= 0 && (a == b || grow->sender[b] < 0);
            double ends =
                is_open ? grow->free_at[grow->sender[a]] + gy_host_cost(request->topology, a, b)
                        : INFINITY;
            if (ends < end) {
                end = ends;
                from = grow->sender[a];
                to = grow->untold[b];
            }
        }
    }
    GY_ASSERT(from >= 0 && to >= 0);
    grow->parents[to] = from;
    grow->free_at[from] = grow->free_at[to] = end;
    if (from == rank) {
        grow->children[grow->child_count++] = to;
    }
}

static gy_status with_tree(const gy_plan_request *request, int rank, int top,
                           gy_plan_sink *sink, gy_status (*plan)(const gy_tree_plan *))
{
    gy_arena arena = {.blocks = NULL};
    growth grow;
    gy_status status = growth_init(&grow, request, &arena);
    if (status == GY_OK) {
        grow.parents[top] = top;
        for (int told = 1; told < request->ranks; told++) {
            add_edge(&grow, rank);
        }
        for (int i = 0; i < grow.child_count / 2;
             i++) { /* sums come from the last told first */
            int32_t other = grow.children[grow.child_count - 1 - i];
            grow.children[grow.child_count - 1 - i] = grow.children[i];
            grow.children[i] = other;
        }
        gy_tree_spot spot = {.parent = rank == top ? -1 : grow.parents[rank],
                             .child_count = grow.child_count,
                             .children = grow.children};
        status = plan(&(gy_tree_plan){.request = request,
                                      .sink = sink,
                                      .rank = rank,
                                      .trees = 1,
                                      .top = top,
                                      .spots = {spot}});
    }
    gy_arena_free(&arena);
    return status;
}

gy_status gy_plan_weighted_tree_broadcast(const gy_plan_request *request, int rank,
                                          gy_plan_sink *sink)
{
    return host_count(request) == 1
               ? gy_plan_tree_broadcast(request, rank, sink)
               : with_tree(request, rank, request->root, sink, gy_trees_broadcast);
}

gy_status gy_plan_weighted_tree_reduce(const gy_plan_request *request, int rank,
                                       gy_plan_sink *sink)
{
    return host_count(request) == 1
               ? gy_plan_tree_reduce(request, rank, sink)
               : with_tree(request, rank, request->root, sink, gy_trees_reduce);
}

gy_status gy_plan_weighted_tree_allreduce(const gy_plan_request *request, int rank,
                                          gy_plan_sink *sink)
{
    return host_count(request) == 1 ? gy_plan_tree_allreduce(request, rank, sink)
                                    : with_tree(request, rank, 0, sink, gy_trees_allreduce);
}
