/*
 * Cohorts: the equivalence classes of vertices connected by pipes or FIFOs. A cohort with more
 * members than processes is built again from single vertices: the two groups with the most
 * expected bytes between them (then with the most pipes) are united while the result fits. The
 * pipes that still connect different groups become files. A graph with very many pipes
 * considers each pipe once, by descending bytes (Kruskal 1956 with a bound).
 */
#include "flow/lower.h"

#include <stdlib.h>
#include <string.h>

enum { PIPES_WEIGHED_MAX = 1024, ROUNDS_MAX = 50 };

/* A pipe with its expected number of bytes. */
typedef struct gy_pipe_weight {
    int64_t bytes;
    size_t edge;
} gy_pipe_weight;

typedef struct gy_cohorts {
    gy_dag *dag;
    uint32_t floor, width_max;
    uint32_t *parent, *size; /* (new vertices) a union-find forest; size is valid at roots */
    gy_pipe_weight *pipes;
    size_t pipe_count, cut_count;
} gy_cohorts;

static uint32_t find_root(uint32_t *parent, uint32_t at)
{
    while (parent[at] != at) {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    return at;
}

/* The smaller number becomes the root, so that tasks are in the order of their first
 * vertices. */
static bool unite(gy_cohorts *c, const gy_dag_edge *edge, uint32_t width_max)
{
    const uint32_t a = find_root(c->parent, edge->from - c->floor);
    const uint32_t b = find_root(c->parent, edge->to - c->floor);
    if (a == b) {
        return true;
    }
    if (c->size[a] + c->size[b] > width_max) {
        return false;
    }
    const uint32_t root = GY_MIN(a, b), other = GY_MAX(a, b);
    c->parent[other] = root;
    c->size[root] += c->size[other];
    return true;
}

static void alone(gy_cohorts *c)
{
    const uint32_t vertices = (uint32_t)(c->dag->vertex_count - c->floor);
    for (uint32_t v = 0; v < vertices; v++) {
        c->parent[v] = v;
        c->size[v] = 1;
    }
}

static void make_file(gy_cohorts *c, gy_dag_edge *edge)
{
    edge->channel = GY_CHANNEL_FILE;
    c->cut_count++;
}

static void unite_all(gy_cohorts *c)
{
    alone(c);
    for (size_t i = 0; i < c->pipe_count; i++) {
        const gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        if (edge->channel != GY_CHANNEL_FILE) {
            GY_ASSERT(unite(c, edge, UINT32_MAX));
        }
    }
}

static int compare_weights(const void *left, const void *right)
{
    const gy_pipe_weight *a = left, *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    return (a->edge > b->edge) - (a->edge < b->edge);
}

/* Sum over all pipes between two groups. */
typedef struct gy_group_pair {
    uint32_t a, b;
    uint32_t pipes;
    int64_t bytes;
} gy_group_pair;

static int compare_pairs(const void *left, const void *right)
{
    const gy_group_pair *x = left, *y = right;
    if (x->a != y->a) {
        return x->a < y->a ? -1 : 1;
    }
    return (x->b > y->b) - (x->b < y->b);
}

static bool is_better(const gy_group_pair *x, const gy_group_pair *y)
{
    return x->bytes != y->bytes ? x->bytes > y->bytes : x->pipes > y->pipes;
}

/* List the pairs of groups that may still be united, with the bytes between them; returns how
 * many. */
static size_t list_pairs(const gy_cohorts *c, const uint8_t *is_wide, gy_group_pair *pairs)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < c->pipe_count; i++) {
        const gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        const uint32_t a = find_root(c->parent, edge->from - c->floor);
        const uint32_t b = find_root(c->parent, edge->to - c->floor);
        if (is_wide[edge->from - c->floor] != 0 && a != b &&
            c->size[a] + c->size[b] <= c->width_max) {
            pairs[count++] = (gy_group_pair){GY_MIN(a, b), GY_MAX(a, b), 1, c->pipes[i].bytes};
        }
    }
    qsort(pairs, count, sizeof(*pairs), compare_pairs);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && compare_pairs(&pairs[kept - 1], &pairs[i]) == 0) {
            pairs[kept - 1].pipes++;
            pairs[kept - 1].bytes += pairs[i].bytes;
        } else {
            pairs[kept++] = pairs[i];
        }
    }
    return kept;
}

static gy_status unite_best(gy_cohorts *c, const uint8_t *is_wide)
{
    gy_group_pair *pairs = gy_alloc("flow.cohorts", (c->pipe_count + 1) * sizeof(*pairs));
    if (pairs == NULL) {
        return GY_NOMEM;
    }
    for (size_t count = list_pairs(c, is_wide, pairs); count > 0;
         count = list_pairs(c, is_wide, pairs)) {
        const gy_group_pair *best = &pairs[0];
        for (size_t i = 1; i < count; i++) {
            best = is_better(&pairs[i], best) ? &pairs[i] : best;
        }
        c->parent[best->b] = best->a;
        c->size[best->a] += c->size[best->b];
    }
    gy_free(pairs);
    return GY_OK;
}

/* Split cohorts that are too wide at their cheapest pipes; leave the others whole. */
static gy_status rebuild(gy_cohorts *c, const uint8_t *is_wide)
{
    alone(c);
    size_t wide_pipes = 0;
    for (size_t i = 0; i < c->pipe_count; i++) {
        const gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        if (is_wide[edge->from - c->floor] != 0) {
            wide_pipes++;
        } else {
            GY_ASSERT(unite(c, edge, UINT32_MAX));
        }
    }
    if (wide_pipes <= PIPES_WEIGHED_MAX) {
        GY_TRY(unite_best(c, is_wide));
    } else {
        qsort(c->pipes, c->pipe_count, sizeof(*c->pipes), compare_weights);
        for (size_t i = 0; i < c->pipe_count; i++) {
            (void)unite(c, &c->dag->edges[c->pipes[i].edge], c->width_max);
        }
    }
    for (size_t i = 0; i < c->pipe_count; i++) {
        gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        if (find_root(c->parent, edge->from - c->floor) !=
            find_root(c->parent, edge->to - c->floor)) {
            make_file(c, edge);
        }
    }
    return GY_OK;
}

static gy_status cut_wide(gy_cohorts *c)
{
    const uint32_t vertices = (uint32_t)(c->dag->vertex_count - c->floor);
    uint8_t *is_wide = gy_alloc_zero("flow.cohorts", vertices, 1);
    if (is_wide == NULL) {
        return GY_NOMEM;
    }
    bool has_wide = false;
    for (uint32_t v = 0; v < vertices; v++) {
        const bool wide = c->size[find_root(c->parent, v)] > c->width_max;
        is_wide[v] = wide;
        has_wide = has_wide || wide;
    }
    const gy_status status = has_wide ? rebuild(c, is_wide) : GY_OK;
    gy_free(is_wide);
    return status;
}

/* ---- tasks ---- */

uint32_t gy_flow_lower_ranks(const gy_lowering *lowering, const gy_dag *dag, uint32_t vertex)
{
    const gy_proto *proto = &dag->protos[dag->proto[vertex]];
    return lowering->is_over_hosts && proto->hosts > 0 ? GY_MAX((uint32_t)proto->ranks, 1) : 1;
}

/* Fill in task, members and member_first from the forest. */
static void number_tasks(const gy_cohorts *c, gy_lowering *l)
{
    const uint32_t v0 = c->floor, end = (uint32_t)c->dag->vertex_count;
    uint32_t task = l->task_count;
    for (uint32_t v = v0; v < end; v++) {
        const uint32_t root = c->parent != NULL ? find_root(c->parent, v - v0) + v0 : v;
        l->task[v] = root == v ? task++ : l->task[root];
    }
    uint32_t *first = l->member_first;
    memset(first + l->task_count, 0, (task + 1 - l->task_count) * sizeof(*first));
    for (uint32_t v = v0; v < end; v++) {
        first[l->task[v] + 1] += gy_flow_lower_ranks(l, c->dag, v);
    }
    first[l->task_count] = l->member_count;
    for (uint32_t t = l->task_count; t < task; t++) {
        first[t + 1] += first[t];
    }
    for (uint32_t v = v0; v < end; v++) {
        for (uint32_t ranks = gy_flow_lower_ranks(l, c->dag, v); ranks > 0; ranks--) {
            l->members[first[l->task[v]]++] = v;
        }
    }
    memmove(first + l->task_count + 1, first + l->task_count,
            (task - l->task_count) * sizeof(*first));
    first[l->task_count] = l->member_count;
}

static gy_status reserve_tasks(gy_lowering *l, const gy_dag *dag)
{
    const size_t vertices = dag->vertex_count;
    size_t members = l->member_count;
    for (size_t v = l->vertex_floor; v < vertices; v++) {
        members += gy_flow_lower_ranks(l, dag, (uint32_t)v);
    }
    if (members > UINT32_MAX) {
        return gy_fail(GY_LIMIT, "%zu ranks in one job", members);
    }
    GY_TRY(GY_GROW("flow.lower", l->task, l->task_capacity, vertices));
    GY_TRY(GY_GROW("flow.lower", l->members, l->members_capacity, members));
    return GY_GROW("flow.lower", l->member_first, l->member_first_capacity,
                   l->task_count + (vertices - l->vertex_floor) + 1);
}

/* In each cycle turn the cheapest cohort (`is_all`: every cohort) into files. cost (tasks):
 * zero on entry */
static void untie_cycles(gy_cohorts *c, const gy_lowering *l, const uint32_t *component,
                         int64_t *cost, uint32_t *cheapest, bool is_all)
{
    for (size_t i = 0; i < c->pipe_count; i++) {
        const gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        if (edge->channel != GY_CHANNEL_FILE) {
            cost[l->task[edge->from] - l->task_count] += c->pipes[i].bytes + 1;
        }
    }
    for (size_t i = 0; i < c->pipe_count; i++) {
        const gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        const uint32_t task = l->task[edge->from] - l->task_count, of = component[task];
        if (edge->channel != GY_CHANNEL_FILE && of != 0 &&
            (cheapest[of] == UINT32_MAX || cost[task] < cost[cheapest[of]])) {
            cheapest[of] = task;
        }
    }
    for (size_t i = 0; i < c->pipe_count; i++) {
        gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        const uint32_t task = l->task[edge->from] - l->task_count, of = component[task];
        if (edge->channel != GY_CHANNEL_FILE && of != 0 && (is_all || cheapest[of] == task)) {
            make_file(c, edge);
        }
    }
}

/* Find cohorts that depend on themselves, through a file inside or through other tasks, and
 * turn their pipes into files. */
static gy_status untie(gy_cohorts *c, gy_lowering *l, int round, bool *is_tied)
{
    const size_t vertices = c->dag->vertex_count - c->floor;
    uint32_t *component = gy_alloc("flow.cohorts", vertices * sizeof(*component));
    uint32_t count = 0;
    gy_status status = component != NULL
                           ? gy_flow_lower_cycles(l, c->dag, l->task, component, &count)
                           : GY_NOMEM;
    *is_tied = status >= 0 && count > 0;
    if (*is_tied) {
        int64_t *cost = gy_alloc_zero("flow.cohorts", vertices, sizeof(*cost));
        uint32_t *cheapest = gy_alloc("flow.cohorts", (size_t)(count + 1) * sizeof(*cheapest));
        status = cost != NULL && cheapest != NULL ? GY_OK : GY_NOMEM;
        if (status >= 0) {
            memset(cheapest, 0xff, (size_t)(count + 1) * sizeof(*cheapest));
            untie_cycles(c, l, component, cost, cheapest, round >= ROUNDS_MAX);
        }
        gy_free(cost);
        gy_free(cheapest);
    }
    gy_free(component);
    return status;
}

/* Ranks over hosts are a task of their own, so their inputs and outputs are files. */
static void join_gangs_by_files(const gy_cohorts *c, const gy_lowering *l)
{
    const gy_dag *dag = c->dag;
    for (size_t e = l->edge_floor; e < dag->edge_count; e++) {
        gy_dag_edge *edge = &dag->edges[e];
        if (dag->protos[dag->proto[edge->from]].hosts > 0 ||
            dag->protos[dag->proto[edge->to]].hosts > 0) {
            edge->channel = GY_CHANNEL_FILE;
        }
    }
}

static gy_status find_pipes(gy_cohorts *c, const gy_lowering *l)
{
    size_t count = 0;
    join_gangs_by_files(c, l);
    for (size_t e = l->edge_floor; e < c->dag->edge_count; e++) {
        count += c->dag->edges[e].channel != GY_CHANNEL_FILE;
    }
    if (count == 0) {
        return GY_OK;
    }
    const size_t vertices = c->dag->vertex_count - c->floor;
    c->pipes = gy_alloc("flow.cohorts", count * sizeof(*c->pipes));
    c->parent = gy_alloc("flow.cohorts", vertices * sizeof(*c->parent));
    c->size = gy_alloc("flow.cohorts", vertices * sizeof(*c->size));
    if (c->pipes == NULL || c->parent == NULL || c->size == NULL) {
        return GY_NOMEM;
    }
    for (size_t e = l->edge_floor; e < c->dag->edge_count; e++) {
        const gy_dag_edge *edge = &c->dag->edges[e];
        if (edge->channel != GY_CHANNEL_FILE) {
            c->pipes[c->pipe_count++] =
                (gy_pipe_weight){c->dag->protos[c->dag->proto[edge->from]].output_bytes, e};
        }
    }
    return GY_OK;
}

static gy_status cut(gy_cohorts *c, gy_lowering *l)
{
    GY_TRY(find_pipes(c, l));
    GY_TRY(reserve_tasks(l, c->dag));
    if (c->pipe_count == 0) {
        number_tasks(c, l);
        return GY_OK;
    }
    unite_all(c);
    GY_TRY(cut_wide(c));
    bool is_tied = true;
    for (int round = 0; is_tied; round++) { /* ends, since each round leaves fewer pipes */
        unite_all(c);
        number_tasks(c, l);
        GY_TRY(untie(c, l, round, &is_tied));
    }
    return GY_OK;
}

gy_status gy_flow_lower_cohorts(gy_lowering *lowering, gy_dag *dag, uint32_t width_max,
                                size_t *cut_count)
{
    gy_cohorts c = {
        .dag = dag, .floor = (uint32_t)lowering->vertex_floor, .width_max = width_max};
    const gy_status status = cut(&c, lowering);
    *cut_count = c.cut_count;
    gy_free(c.pipes);
    gy_free(c.parent);
    gy_free(c.size);
    return status;
}

uint32_t gy_flow_lower_member(const gy_lowering *lowering, uint32_t vertex)
{
    const uint32_t task = lowering->task[vertex];
    uint32_t low = lowering->member_first[task], high = lowering->member_first[task + 1];
    while (lowering->members[low] != vertex) {
        const uint32_t middle = low + (high - low) / 2;
        GY_ASSERT(high > low);
        if (lowering->members[middle] <= vertex) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low - lowering->member_first[task];
}
