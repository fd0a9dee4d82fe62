/*
 * Links of different speed: a ring and a tree that avoid slow links (request.topology).
 *
 * The weighted ring passes through all ranks of a host before it continues to the nearest host
 * not yet visited, so it crosses between hosts only as often as there are hosts. With ranks 0 2
 * 4 on one host and 1 3 5 on another: 0 2 4 1 3 5 instead of 0 1 2 3 4 5, two slow links
 * instead of six. Rings of the other operations are the same, with parts renamed.
 *
 * The weighted tree grows by the edge that ends earliest: in each step some rank that has the
 * vector sends it to one that has not, such that start plus cost is minimal; each host receives
 * it from outside once. With equal links this is the binomial tree.
 *
 * cost: ring as ring.c, limited by the slowest link it uses; tree: about the best time with one
 * sender a rank; planning all ranks O(p log p), and O(hosts^2) where pairs of hosts differ.
 *
 * source: lecture A, "what if the hardware speed between different machines diff?"; Bhat,
 * Raghavendra, Prasanna: "Efficient collective communication in distributed heterogeneous
 * systems", JPDC 2003 (earliest completing edge first, here a host at a time); nearest
 * neighbour tour: Rosenkrantz, Stearns, Lewis 1977
 */
#include "plan/plan_priv.h"

#include "base/base.h"

#include <string.h>

static int host_count(const gy_plan_request *request)
{
    return request->topology == NULL ? 1 : request->topology->hosts;
}

/* The nearest host that is not left out; -1: none. */
static int nearest_host(const gy_topology *topology, int from, const uint8_t *is_left_out)
{
    int nearest = -1;
    for (int other = 0; other < topology->hosts; other++) {
        if (!is_left_out[other] &&
            (nearest < 0 || gy_plan_host_cost(topology, from, other) <
                                gy_plan_host_cost(topology, from, nearest))) {
            nearest = other;
        }
    }
    return nearest;
}

/* The hosts to continue to; with equal distances the lowest number. */
typedef struct host_search {
    const gy_topology *topology;
    uint8_t *is_left_out; /* (hosts) */
    int lowest;
} host_search;

static int next_host(host_search *search, int from)
{
    const gy_topology *topology = search->topology;
    if (topology != NULL && topology->between != NULL) {
        return nearest_host(topology, from, search->is_left_out);
    }
    int hosts = topology == NULL ? 1 : topology->hosts;
    while (search->lowest < hosts && search->is_left_out[search->lowest] != 0) {
        search->lowest++;
    }
    return search->lowest < hosts ? search->lowest : -1;
}

/* The ranks host by host, each host the nearest to the previous one. */
gy_status gy_plan_find_tour(const gy_plan_request *request, gy_plan_shared *shared)
{
    host_search search = {.topology = request->topology,
                          .is_left_out = gy_arena_alloc(&shared->arena, (size_t)shared->hosts)};
    int count = 0;
    if (search.is_left_out == NULL) {
        return GY_NOMEM;
    }
    for (int host = gy_host_of(request->topology, 0); host >= 0;
         host = next_host(&search, host)) {
        search.is_left_out[host] = 1;
        for (int i = shared->begins[host]; i < shared->begins[host + 1]; i++) {
            shared->tour_places[shared->ranks[i]] = count;
            shared->tour_runs[count] = (gy_block_run){shared->ranks[i], 1};
            shared->tour[count++] = shared->ranks[i];
        }
    }
    GY_ASSERT(count == request->ranks);
    return GY_OK;
}

/* The ring over the tour; part i is that of the tour's i-th rank where each rank has a part. */
static gy_status ring(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    gy_plan_group part = {.algorithm = gy_algorithm_find(request->operation, "ring"),
                          .request = *request,
                          .ranks = request->shared->tour,
                          .at = 1 + request->shared->tour_places[rank],
                          .in = {.buffer = GY_BUFFER_IN},
                          .out = {.buffer = GY_BUFFER_OUT},
                          .is_single_step = true};
    part.request.topology = NULL;
    part.request.shared = NULL;
    if (request->operation != GY_OPERATION_ALLREDUCE) {
        part.runs = request->shared->tour_runs;
        part.inner_chunks = part.outer_chunks = gy_request_chunks(request);
    }
    return gy_plan_part(&part, rank, sink);
}

gy_status gy_plan_weighted_ring(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    return gy_plan_with_shared(request, rank, sink, GY_FROM_TOUR, ring);
}

/* A possible next edge of the tree: `from` is free at `start`. */
typedef struct tree_edge {
    double start, end;
    int32_t from, host;
} tree_edge;

/* The tree under construction. */
typedef struct growth {
    const gy_plan_request *request;
    gy_plan_shared *shared;
    host_search hosts; /* left out: hosts that have the vector */
    int32_t *told;     /* (p) ranks that have the vector, in this order */
    int32_t *untold;   /* (hosts) the first of its ranks that may not have the vector */
    double *free_at;   /* (p) when a rank that has the vector is free to send */
    tree_edge *edges;  /* a binary heap: the edge that ends first is on top */
    size_t edge_count;
    int told_count;
} growth;

static gy_status growth_init(growth *grow, const gy_plan_request *request,
                             gy_plan_shared *shared, gy_arena *arena)
{
    size_t ranks = (size_t)request->ranks, hosts = (size_t)shared->hosts;
    *grow = (growth){
        .request = request,
        .shared = shared,
        .hosts = {.topology = request->topology, .is_left_out = gy_arena_alloc(arena, hosts)},
        .told = gy_arena_alloc(arena, ranks * sizeof(int32_t)),
        .untold = gy_arena_alloc(arena, hosts * sizeof(int32_t)),
        .free_at = gy_arena_alloc(arena, ranks * sizeof(double)),
        .edges = gy_arena_alloc(arena, 4 * ranks * sizeof(tree_edge))};
    bool is_there = grow->hosts.is_left_out != NULL && grow->told != NULL &&
                    grow->untold != NULL && grow->free_at != NULL && grow->edges != NULL;
    for (size_t rank = 0; is_there && rank < ranks; rank++) {
        shared->parents[rank] = -1;
    }
    /* hosts without ranks count as having it */
    for (size_t host = 0; is_there && host < hosts; host++) {
        grow->untold[host] = shared->begins[host];
        grow->hosts.is_left_out[host] = shared->begins[host] == shared->begins[host + 1];
    }
    return is_there ? GY_OK : GY_NOMEM;
}

static bool is_sooner(const tree_edge *a, const tree_edge *b)
{
    return a->end < b->end || (a->end == b->end && (a->from < b->from ||
                                                    (a->from == b->from && a->host < b->host)));
}

static void add_edge(growth *grow, tree_edge edge)
{
    size_t at = grow->edge_count++;
    for (; at > 0 && is_sooner(&edge, &grow->edges[(at - 1) / 2]); at = (at - 1) / 2) {
        grow->edges[at] = grow->edges[(at - 1) / 2];
    }
    grow->edges[at] = edge;
}

static tree_edge take_edge(growth *grow)
{
    GY_ASSERT(grow->edge_count > 0);
    const tree_edge first = grow->edges[0], last = grow->edges[--grow->edge_count];
    size_t at = 0;
    for (size_t child = 1; child < grow->edge_count; child = 2 * at + 1) {
        if (child + 1 < grow->edge_count &&
            is_sooner(&grow->edges[child + 1], &grow->edges[child])) {
            child++;
        }
        if (!is_sooner(&grow->edges[child], &last)) {
            break;
        }
        grow->edges[at] = grow->edges[child];
        at = child;
    }
    grow->edges[at] = last;
    return first;
}

static tree_edge edge_to(const growth *grow, int from, int host)
{
    const gy_topology *topology = grow->request->topology;
    double start = grow->free_at[from];
    return (tree_edge){start,
                       start + gy_plan_host_cost(topology, gy_host_of(topology, from), host),
                       from, host};
}

/* The possible next sends of a free rank: to one of its host, or to the nearest host without
 * the vector. */
static void offer_edges(growth *grow, int rank)
{
    int host = gy_host_of(grow->request->topology, rank);
    int other = next_host(&grow->hosts, host);
    add_edge(grow, edge_to(grow, rank, host));
    if (other >= 0) {
        add_edge(grow, edge_to(grow, rank, other));
    }
}

/* The next rank of a host to get the vector; -1: none. */
static int untold_of(growth *grow, int host)
{
    const gy_plan_shared *shared = grow->shared;
    int32_t *at = &grow->untold[host];
    while (*at < shared->begins[host + 1] && shared->parents[shared->ranks[*at]] >= 0) {
        ++*at;
    }
    return *at < shared->begins[host + 1] ? shared->ranks[*at] : -1;
}

static void tell(growth *grow, int rank, int from, double end)
{
    gy_plan_shared *shared = grow->shared;
    shared->parents[rank] = from;
    shared->depths[rank] = from == rank ? 0 : shared->depths[from] + 1;
    shared->deepest = GY_MAX(shared->deepest, shared->depths[rank]);
    grow->hosts.is_left_out[gy_host_of(grow->request->topology, rank)] = 1;
    grow->told[grow->told_count++] = rank;
    grow->free_at[from] = grow->free_at[rank] = end;
    offer_edges(grow, rank);
    if (from != rank) {
        offer_edges(grow, from);
    }
}

/* Take the edge that ends first. */
static void grow_edge(growth *grow)
{
    for (;;) {
        tree_edge edge = take_edge(grow);
        int own = gy_host_of(grow->request->topology, edge.from);
        if (edge.start < grow->free_at[edge.from]) {
            continue; /* its sender has sent elsewhere since */
        }
        if (edge.host != own && grow->hosts.is_left_out[edge.host] != 0) {
            int other = next_host(&grow->hosts, own);
            if (other >= 0) {
                add_edge(grow, edge_to(grow, edge.from, other));
            }
            continue;
        }
        int to = untold_of(grow, edge.host);
        if (to >= 0) {
            tell(grow, to, edge.from, edge.end);
            return;
        }
    }
}

/* List the children by parent: sums arrive first from the child that got the vector last. */
static void sort_children(growth *grow)
{
    gy_plan_shared *shared = grow->shared;
    int32_t *at = shared->child_begins;
    int ranks = grow->request->ranks;
    for (int i = 1; i < ranks; i++) {
        at[shared->parents[grow->told[i]] + 1]++;
    }
    for (int rank = 0; rank < ranks; rank++) {
        at[rank + 1] += at[rank];
    }
    for (int i = 1; i < ranks; i++) { /* fill each parent's range from its end, which moves */
        shared->children[--at[shared->parents[grow->told[i]] + 1]] = grow->told[i];
    }
    memmove(at, at + 1, (size_t)ranks * sizeof(*at));
    at[ranks] = ranks - 1;
}

gy_status gy_plan_grow_tree(const gy_plan_request *request, gy_plan_shared *shared)
{
    gy_arena arena = {.blocks = NULL};
    growth grow;
    int top = request->operation == GY_OPERATION_ALLREDUCE ? 0 : request->root;
    gy_status status = growth_init(&grow, request, shared, &arena);
    if (status == GY_OK) {
        tell(&grow, top, top, 0);
        while (grow.told_count < request->ranks) {
            grow_edge(&grow);
        }
        sort_children(&grow);
    }
    gy_arena_free(&arena);
    return status;
}

static gy_tree_plan tree_of(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    const gy_plan_shared *shared = request->shared;
    int top = request->operation == GY_OPERATION_ALLREDUCE ? 0 : request->root;
    int first = shared->child_begins[rank];
    gy_tree_spot spot = {.parent = rank == top ? -1 : shared->parents[rank],
                         .child_count = shared->child_begins[rank + 1] - first,
                         .children = &shared->children[first],
                         .depth = shared->depths[rank]};
    return (gy_tree_plan){.request = request,
                          .sink = sink,
                          .rank = rank,
                          .trees = 1,
                          .top = top,
                          .deepest = shared->deepest,
                          .spots = {spot}};
}

#define GY_WEIGHTED_TREE(name)                                                                 \
    static gy_status tree_##name(const gy_plan_request *request, int rank, gy_plan_sink *sink) \
    {                                                                                          \
        gy_tree_plan plan = tree_of(request, rank, sink);                                      \
        return gy_plan_trees_##name(&plan);                                                    \
    }                                                                                          \
    gy_status gy_plan_weighted_tree_##name(const gy_plan_request *request, int rank,           \
                                           gy_plan_sink *sink)                                 \
    {                                                                                          \
        return host_count(request) == 1                                                        \
                   ? gy_plan_tree_##name(request, rank, sink)                                  \
                   : gy_plan_with_shared(request, rank, sink, GY_FROM_TREE, tree_##name);      \
    }
GY_WEIGHTED_TREE(broadcast)
GY_WEIGHTED_TREE(reduce)
GY_WEIGHTED_TREE(allreduce)
#undef GY_WEIGHTED_TREE
