/*
 * Cohorts: the classes of vertices under "joined by a pipe or FIFO". One that is wider than the
 * processes is built again edge by edge, the ones of most expected bytes first (Kruskal 1956
 * with a bound on the size of a tree); what would make it too wide becomes a file.
 */
#include "flow/lower.h"

#include <stdlib.h>
#include <string.h>

/* A pipe with what is expected to go through it. */
typedef struct gy_pipe_weight {
    int64_t bytes;
    size_t edge;
} gy_pipe_weight;

typedef struct gy_cohorts {
    gy_dag *dag;
    uint32_t floor, width_max;
    uint32_t *parent, *size; /* (new vertices) a forest; size of roots */
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

/* The smaller number stays root, so that tasks come in the order of their first vertices. */
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

/* Cohorts wider than allowed lose their cheapest pipes; the others stay whole. */
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
    if (has_wide) {
        alone(c);
        qsort(c->pipes, c->pipe_count, sizeof(*c->pipes), compare_weights);
        for (size_t i = 0; i < c->pipe_count; i++) {
            gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
            const bool wide = is_wide[edge->from - c->floor] != 0;
            if (!unite(c, edge, wide ? c->width_max : UINT32_MAX)) {
                make_file(c, edge);
            }
        }
    }
    gy_free(is_wide);
    return GY_OK;
}

/* ---- tasks ---- */

/* task, members and member_first from the forest. */
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
        first[l->task[v] + 1]++;
    }
    first[l->task_count] = v0;
    for (uint32_t t = l->task_count; t < task; t++) {
        first[t + 1] += first[t];
    }
    for (uint32_t v = v0; v < end; v++) {
        l->members[first[l->task[v]]++] = v;
    }
    memmove(first + l->task_count + 1, first + l->task_count,
            (task - l->task_count) * sizeof(*first));
    first[l->task_count] = v0;
}

static gy_status reserve_tasks(gy_lowering *l, const gy_dag *dag)
{
    const size_t vertices = dag->vertex_count;
    GY_TRY(gy_reserve("flow.lower", (void **)&l->task, &l->task_capacity, vertices,
                      sizeof(uint32_t)));
    GY_TRY(gy_reserve("flow.lower", (void **)&l->members, &l->members_capacity, vertices,
                      sizeof(uint32_t)));
    return gy_reserve("flow.lower", (void **)&l->member_first, &l->member_first_capacity,
                      l->task_count + (vertices - l->vertex_floor) + 1, sizeof(uint32_t));
}

/* Cohorts that wait for themselves, through a file within or through other tasks, become files.
 */
static gy_status untie(gy_cohorts *c, gy_lowering *l, bool *is_tied)
{
    const uint32_t vertices = (uint32_t)(c->dag->vertex_count - c->floor);
    uint8_t *on_cycle = gy_alloc_zero("flow.cohorts", vertices, 1);
    if (on_cycle == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    *is_tied = gy_lower_cycle(l, c->dag, l->task, on_cycle, &status);
    for (size_t i = 0; *is_tied && i < c->pipe_count; i++) {
        gy_dag_edge *edge = &c->dag->edges[c->pipes[i].edge];
        if (edge->channel != GY_CHANNEL_FILE && on_cycle[l->task[edge->from] - l->task_count]) {
            make_file(c, edge);
        }
    }
    gy_free(on_cycle);
    return status;
}

static gy_status find_pipes(gy_cohorts *c, const gy_lowering *l)
{
    size_t count = 0;
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
    for (bool is_tied = true; is_tied;) { /* each round leaves fewer pipes */
        unite_all(c);
        number_tasks(c, l);
        GY_TRY(untie(c, l, &is_tied));
    }
    return GY_OK;
}

gy_status gy_lower_cohorts(gy_lowering *lowering, gy_dag *dag, uint32_t width_max,
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

uint32_t gy_lower_member(const gy_lowering *lowering, uint32_t vertex)
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
