/*
 * Composition: clone, pointwise, bipartite, merge, fork (Isard et al. 2007, section 3). Each
 * operation adds edges to the dag and makes a new part; its operands stay unchanged. Marks of
 * vertices are scratch: an operation sets, uses and clears them within one call.
 */
#include "flow/dag.h"

#include <stdio.h>
#include <string.h>

/* Marks of a vertex: the parts that contain it, and the parts in which its ports are free. */
enum { IN_A = 1, IN_B = 2, INPUT_B = 4, OUTPUT_B = 8 };

/* Copy the description of a part that a composition is about to use. */
static bool take(gy_dag *dag, gy_part part, gy_dag_part *out)
{
    if (dag == NULL || dag->status < 0) {
        return false;
    }
    const gy_dag_part *found = gy_flow_part_get(dag, part);
    if (found == NULL) {
        gy_dag_fail(dag, GY_ARG, "%s",
                    part.dag != dag ? "a part of another graph is composed"
                    : dag->is_running
                        ? "a refinement function composes a part from before the job's start"
                        : "a part that was not made is composed");
        return false;
    }
    *out = *found; /* a copy, because the dag's array may be reallocated */
    return true;
}

static void mark(gy_dag *dag, const gy_dag_part *part, gy_part_list list, uint32_t bit)
{
    uint32_t vertex = 0;
    gy_part_cursor cursor = gy_flow_part_read(dag, part, list);
    while (gy_flow_part_next(&cursor, &vertex)) {
        dag->marks[vertex] |= bit;
    }
}

static void unmark(gy_dag *dag, const gy_dag_part *part)
{
    uint32_t vertex = 0;
    gy_part_cursor cursor = gy_flow_part_read(dag, part, GY_PART_VERTICES);
    while (gy_flow_part_next(&cursor, &vertex)) {
        dag->marks[vertex] = 0;
    }
}

static void add_list(gy_part_maker *maker, const gy_dag_part *part, gy_part_list list)
{
    for (uint32_t i = 0; i < part->count[list]; i++) {
        const gy_dag_run run =
            maker->dag->runs[part->at[list] + i]; /* adding may reallocate the array */
        gy_flow_part_add_run(maker, run);
    }
}

/* Add the edges of both parts in ascending order, then the new edges from `first` on. */
static void add_edges(gy_part_maker *maker, const gy_dag_part *a, const gy_dag_part *b,
                      size_t first)
{
    const gy_dag *dag = maker->dag;
    uint32_t i = a->at[GY_PART_EDGES], j = b != NULL ? b->at[GY_PART_EDGES] : 0;
    const uint32_t i_end = i + a->count[GY_PART_EDGES];
    const uint32_t j_end = b != NULL ? j + b->count[GY_PART_EDGES] : 0;
    while (i < i_end || j < j_end) {
        const bool is_a = j == j_end || (i < i_end && dag->runs[i].first <= dag->runs[j].first);
        /* a copy, because adding may reallocate the array */
        const gy_dag_run run = dag->runs[is_a ? i++ : j++];
        gy_flow_part_add_edges(maker, run.first, run.count);
    }
    gy_flow_part_add_edges(maker, (uint32_t)first, (uint32_t)(dag->edge_count - first));
}

/* ---- clone ---- */

static void clone_list(gy_part_maker *maker, const gy_dag_part *part, gy_part_list list,
                       const uint32_t shape[3])
{
    gy_dag *dag = maker->dag;
    gy_flow_part_begin_list(maker, list);
    add_list(maker, part, list);
    for (uint32_t c = 1; c < shape[0]; c++) {
        const uint32_t base = shape[2] + (c - 1) * shape[1];
        uint32_t vertex = 0;
        gy_part_cursor cursor = gy_flow_part_read(dag, part, list);
        while (dag->status >= 0 && gy_flow_part_next(&cursor, &vertex)) {
            gy_flow_part_add(maker, base + dag->marks[vertex] - 1);
        }
    }
}

/* shape: number of copies, vertices of the part, first new vertex */
static bool clone_edges(gy_dag *dag, const gy_dag_part *part, const uint32_t shape[3])
{
    for (uint32_t c = 1; c < shape[0]; c++) {
        const uint32_t base = shape[2] + (c - 1) * shape[1];
        uint32_t at = 0;
        gy_part_cursor cursor = gy_flow_part_read(dag, part, GY_PART_EDGES);
        while (gy_flow_part_next(&cursor, &at)) {
            gy_dag_edge edge = dag->edges[at];
            GY_ASSERT(dag->marks[edge.from] != 0 && dag->marks[edge.to] != 0);
            edge.from = base + dag->marks[edge.from] - 1;
            edge.to = base + dag->marks[edge.to] - 1;
            if (!gy_dag_add_edge(dag, edge)) {
                return false;
            }
        }
    }
    return true;
}

/* Add the vertices copy by copy, each copy in the order of the part. */
static void clone_vertices(gy_dag *dag, const gy_dag_part *part, uint32_t copies)
{
    uint32_t at = 0, vertex = 0;
    gy_part_cursor cursor = gy_flow_part_read(dag, part, GY_PART_VERTICES);
    while (gy_flow_part_next(&cursor, &vertex)) {
        dag->marks[vertex] = ++at; /* its position, from 1 */
    }
    for (uint32_t c = 1; c < copies; c++) {
        cursor = gy_flow_part_read(dag, part, GY_PART_VERTICES);
        while (gy_flow_part_next(&cursor, &vertex)) {
            const uint32_t made = gy_dag_add_vertex(dag, dag->proto[vertex]);
            /* vertices with any number of ports: the number that has edges */
            dag->inputs[made] = dag->inputs[vertex];
            dag->outputs[made] = dag->outputs[vertex];
        }
    }
}

gy_part gy_part_clone(gy_part part, int copies)
{
    gy_dag *dag = part.dag;
    const gy_part none = {dag, -1};
    gy_dag_part a;
    if (!take(dag, part, &a)) {
        return none;
    }
    if (copies < 1) {
        gy_dag_fail(dag, GY_ARG, "%d clones of a part: expected at least 1", copies);
        return none;
    }
    const uint64_t size = gy_flow_part_size(dag, &a, GY_PART_VERTICES);
    const uint32_t shape[3] = {(uint32_t)copies, (uint32_t)size, (uint32_t)dag->vertex_count};
    if ((uint64_t)(copies - 1) * size > GY_DAG_VERTICES_MAX) {
        gy_dag_fail(dag, GY_LIMIT, "%d copies of %llu vertices: expected at most %d", copies,
                    (unsigned long long)size, GY_DAG_VERTICES_MAX);
        return none;
    }
    if (!gy_dag_reserve(dag, (size_t)(copies - 1) * size) || !gy_dag_marks(dag)) {
        return none;
    }
    const size_t first_edge = dag->edge_count;
    gy_part_maker maker = {.dag = dag};
    clone_vertices(dag, &a, shape[0]);
    if (clone_edges(dag, &a, shape)) {
        clone_list(&maker, &a, GY_PART_VERTICES, shape);
        clone_list(&maker, &a, GY_PART_INPUTS, shape);
        clone_list(&maker, &a, GY_PART_OUTPUTS, shape);
        gy_flow_part_begin_list(&maker, GY_PART_EDGES);
        add_edges(&maker, &a, NULL, first_edge);
    }
    unmark(dag, &a);
    return gy_flow_part_end(&maker);
}

/* ---- edges between two parts ---- */

static uint32_t last_of(const gy_dag_run *run)
{
    return run->first + (run->count - 1) * run->stride;
}

/* Do the runs of the two parts cover disjoint ranges? False: perhaps not. Avoids a walk over
 * the whole graph composed so far. */
static bool is_apart(const gy_dag *dag, const gy_dag_part parts[2])
{
    enum { PAIRS_MAX = 4096 };
    const gy_dag_run *a = &dag->runs[parts[0].at[GY_PART_VERTICES]];
    const gy_dag_run *b = &dag->runs[parts[1].at[GY_PART_VERTICES]];
    const uint64_t as = parts[0].count[GY_PART_VERTICES], bs = parts[1].count[GY_PART_VERTICES];
    bool is_known = as * bs <= PAIRS_MAX;
    for (uint64_t i = 0; is_known && i < as * bs; i++) {
        const gy_dag_run *left = &a[i / bs], *right = &b[i % bs];
        is_known = last_of(left) < right->first || last_of(right) < left->first;
    }
    return is_known;
}

static void check_apart(gy_dag *dag, const gy_dag_part parts[2])
{
    if (is_apart(dag, parts) || !gy_dag_marks(dag)) {
        return;
    }
    mark(dag, &parts[0], GY_PART_VERTICES, IN_A);
    uint32_t vertex = 0;
    gy_part_cursor cursor = gy_flow_part_read(dag, &parts[1], GY_PART_VERTICES);
    while (gy_flow_part_next(&cursor, &vertex)) {
        if (dag->marks[vertex] != 0) {
            char name[GY_DAG_NAME_BYTES];
            gy_dag_fail(dag, GY_ARG, "vertex %s stands on both sides of a composition",
                        gy_dag_vertex_name(dag, vertex, name));
            break;
        }
    }
    unmark(dag, &parts[0]);
}

/* Get both parts of a composition, which must be of one dag and share no vertex. */
static bool take_two(gy_part a, gy_part b, gy_dag_part parts[2])
{
    gy_dag *dag = a.dag;
    if (!take(dag, a, &parts[0]) || !take(dag, b, &parts[1])) {
        return false;
    }
    check_apart(dag, parts);
    for (int side = 0; side < 2 && dag->status >= 0; side++) {
        if (parts[side].count[side == 0 ? GY_PART_OUTPUTS : GY_PART_INPUTS] == 0) {
            uint32_t vertex = 0;
            char name[GY_DAG_NAME_BYTES];
            gy_part_cursor cursor = gy_flow_part_read(dag, &parts[side], GY_PART_VERTICES);
            const bool has_one = gy_flow_part_next(&cursor, &vertex);
            gy_dag_fail(dag, GY_ARG, "a composition finds no free %s at %s",
                        side == 0 ? "output" : "input",
                        has_one ? gy_dag_vertex_name(dag, vertex, name) : "an empty part");
        }
    }
    return dag->status >= 0;
}

void gy_dag_join(gy_dag *dag, const uint32_t from[2], const uint32_t to[2], gy_channel channel)
{
    const bool is_any[2] = {from[1] == UINT32_MAX, to[1] == UINT32_MAX};
    const uint32_t input = is_any[1] ? dag->inputs[to[0]] : to[1];
    if (gy_dag_add_edge(dag,
                        (gy_dag_edge){.from = from[0],
                                      .output = is_any[0] ? dag->outputs[from[0]] : from[1],
                                      .to = to[0],
                                      .input = input & 0x3fffffff,
                                      .channel = (unsigned)channel & 3})) {
        dag->outputs[from[0]] += is_any[0];
        dag->inputs[to[0]] += is_any[1];
    }
}

static bool check_channel(gy_dag *dag, gy_channel channel)
{
    if ((int)channel < 0 || channel > GY_CHANNEL_FIFO) {
        gy_dag_fail(dag, GY_ARG, "channel %d: expected a gy_channel", (int)channel);
    }
    return dag->status >= 0;
}

/* The next port; after the last one starts again at the first. */
static void next_round(gy_part_cursor *cursor, const gy_dag_part *part, gy_part_list list,
                       uint32_t out[2])
{
    if (!gy_flow_part_next_port(cursor, &out[0], &out[1])) {
        *cursor = gy_flow_part_read(cursor->dag, part, list);
        GY_ASSERT(gy_flow_part_next_port(cursor, &out[0], &out[1]));
    }
}

static uint64_t count_ports(const gy_dag *dag, const gy_dag_part *part, gy_part_list list)
{
    uint64_t count = 0;
    uint32_t vertex = 0, port = 0;
    gy_part_cursor cursor = gy_flow_part_read(dag, part, list);
    while (gy_flow_part_next_port(&cursor, &vertex, &port)) {
        count++;
    }
    return count;
}

static void join_pointwise(gy_dag *dag, const gy_dag_part parts[2], gy_channel channel)
{
    const uint64_t lefts = count_ports(dag, &parts[0], GY_PART_OUTPUTS);
    const uint64_t rights = count_ports(dag, &parts[1], GY_PART_INPUTS);
    gy_part_cursor left = gy_flow_part_read(dag, &parts[0], GY_PART_OUTPUTS);
    gy_part_cursor right = gy_flow_part_read(dag, &parts[1], GY_PART_INPUTS);
    for (uint64_t k = 0; dag->status >= 0 && k < GY_MAX(lefts, rights); k++) {
        uint32_t from[2] = {0, 0}, to[2] = {0, 0};
        next_round(&left, &parts[0], GY_PART_OUTPUTS, from);
        next_round(&right, &parts[1], GY_PART_INPUTS, to);
        gy_dag_join(dag, from, to, channel);
    }
}

static gy_part joined(const gy_dag_part parts[2], gy_dag *dag, size_t first_edge, bool is_fork)
{
    gy_part_maker maker = {.dag = dag};
    gy_flow_part_begin_list(&maker, GY_PART_VERTICES);
    add_list(&maker, &parts[0], GY_PART_VERTICES);
    add_list(&maker, &parts[1], GY_PART_VERTICES);
    gy_flow_part_begin_list(&maker, GY_PART_INPUTS);
    add_list(&maker, &parts[0], GY_PART_INPUTS);
    gy_flow_part_begin_list(&maker, GY_PART_OUTPUTS);
    if (is_fork) {
        add_list(&maker, &parts[0], GY_PART_OUTPUTS);
    }
    add_list(&maker, &parts[1], GY_PART_OUTPUTS);
    gy_flow_part_begin_list(&maker, GY_PART_EDGES);
    add_edges(&maker, &parts[0], &parts[1], first_edge);
    return gy_flow_part_end(&maker);
}

static gy_part pointwise(gy_part a, gy_part b, gy_channel channel, bool is_fork)
{
    gy_dag *dag = a.dag;
    gy_dag_part parts[2];
    if (!take_two(a, b, parts) || !check_channel(dag, channel)) {
        return (gy_part){dag, -1};
    }
    const size_t first_edge = dag->edge_count;
    join_pointwise(dag, parts, channel);
    return joined(parts, dag, first_edge, is_fork);
}

gy_part gy_part_pointwise(gy_part a, gy_part b, gy_channel channel)
{
    return pointwise(a, b, channel, false);
}

gy_part gy_part_fork(gy_part a, gy_part b, gy_channel channel)
{
    return pointwise(a, b, channel, true);
}

/* Choose the port of `vertex` for the k-th of `count` neighbours; false: the numbers do not
 * fit. */
static bool choose_port(gy_dag *dag, uint32_t vertex, bool is_output, const uint64_t of[2],
                        uint32_t *port)
{
    const uint32_t ports = (is_output ? dag->outputs : dag->inputs)[vertex];
    if (gy_proto_is_any(dag, vertex, is_output)) {
        *port = UINT32_MAX;
    } else if (ports == of[1]) {
        *port = (uint32_t)of[0];
    } else if (is_output && ports == 1) {
        *port = 0; /* one output goes to all neighbours */
    } else {
        char name[GY_DAG_NAME_BYTES];
        gy_dag_fail(dag, GY_ARG,
                    "%s has %u free %s for %llu vertices in a bipartite composition",
                    gy_dag_vertex_name(dag, vertex, name), ports,
                    is_output ? "outputs" : "inputs", (unsigned long long)of[1]);
        return false;
    }
    return true;
}

gy_part gy_part_bipartite(gy_part a, gy_part b, gy_channel channel)
{
    gy_dag *dag = a.dag;
    gy_dag_part parts[2];
    if (!take_two(a, b, parts) || !check_channel(dag, channel)) {
        return (gy_part){dag, -1};
    }
    const size_t first_edge = dag->edge_count;
    const uint64_t lefts = gy_flow_part_size(dag, &parts[0], GY_PART_OUTPUTS);
    const uint64_t rights = gy_flow_part_size(dag, &parts[1], GY_PART_INPUTS);
    uint64_t i = 0;
    uint32_t from = 0, to = 0;
    gy_part_cursor left = gy_flow_part_read(dag, &parts[0], GY_PART_OUTPUTS);
    for (; dag->status >= 0 && gy_flow_part_next(&left, &from); i++) {
        uint64_t j = 0;
        gy_part_cursor right = gy_flow_part_read(dag, &parts[1], GY_PART_INPUTS);
        for (; dag->status >= 0 && gy_flow_part_next(&right, &to); j++) {
            uint32_t output[2] = {from, 0}, input[2] = {to, 0};
            if (choose_port(dag, from, true, (uint64_t[]){j, rights}, &output[1]) &&
                choose_port(dag, to, false, (uint64_t[]){i, lefts}, &input[1])) {
                gy_dag_join(dag, output, input, channel);
            }
        }
    }
    return joined(parts, dag, first_edge, false);
}

/* ---- merge ---- */

/* A port of a vertex in both parts is free if it is free in both. */
static void merge_ports(gy_part_maker *maker, const gy_dag_part parts[2], gy_part_list list,
                        uint32_t free_in_b)
{
    gy_dag *dag = maker->dag;
    gy_flow_part_begin_list(maker, list);
    for (int side = 0; side < 2; side++) {
        const uint32_t other = side == 0 ? IN_B : IN_A;
        uint32_t vertex = 0;
        gy_part_cursor cursor = gy_flow_part_read(dag, &parts[side], list);
        while (dag->status >= 0 && gy_flow_part_next(&cursor, &vertex)) {
            const uint32_t marks = dag->marks[vertex];
            const bool is_shared = (marks & other) != 0;
            if (!is_shared || (side == 0 && (marks & free_in_b) != 0)) {
                gy_flow_part_add(maker, vertex);
            }
        }
    }
}

gy_part gy_part_merge(gy_part a, gy_part b)
{
    gy_dag *dag = a.dag;
    gy_dag_part parts[2];
    if (!take(dag, a, &parts[0]) || !take(dag, b, &parts[1]) || !gy_dag_marks(dag)) {
        return (gy_part){dag, -1};
    }
    mark(dag, &parts[0], GY_PART_VERTICES, IN_A);
    mark(dag, &parts[1], GY_PART_VERTICES, IN_B);
    mark(dag, &parts[1], GY_PART_INPUTS, INPUT_B);
    mark(dag, &parts[1], GY_PART_OUTPUTS, OUTPUT_B);
    gy_part_maker maker = {.dag = dag};
    gy_flow_part_begin_list(&maker, GY_PART_VERTICES);
    add_list(&maker, &parts[0], GY_PART_VERTICES);
    uint32_t vertex = 0;
    gy_part_cursor cursor = gy_flow_part_read(dag, &parts[1], GY_PART_VERTICES);
    while (dag->status >= 0 && gy_flow_part_next(&cursor, &vertex)) {
        if ((dag->marks[vertex] & IN_A) == 0) {
            gy_flow_part_add(&maker, vertex);
        }
    }
    merge_ports(&maker, parts, GY_PART_INPUTS, INPUT_B);
    merge_ports(&maker, parts, GY_PART_OUTPUTS, OUTPUT_B);
    gy_flow_part_begin_list(&maker, GY_PART_EDGES);
    add_edges(&maker, &parts[0], &parts[1], dag->edge_count);
    unmark(dag, &parts[0]);
    unmark(dag, &parts[1]);
    return gy_flow_part_end(&maker);
}

/* ---- destinations of outputs ---- */

static bool is_file_name(const char *name)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return name != NULL && name[0] != '\0' && name[0] != '.' && strlen(name) < 64 &&
           name[strspn(name, letters)] == '\0';
}

static bool name_output(gy_dag *dag, const char *name)
{
    if (!is_file_name(name)) {
        gy_dag_fail(
            dag, GY_ARG,
            "output name \"%.80s\": expected up to 63 letters, digits, '-', '_', '.', not "
            "starting with '.'",
            name != NULL ? name : "");
        return false;
    }
    for (size_t i = 0; i < dag->name_count; i++) {
        if (strcmp(dag->output_names[i], name) == 0) {
            gy_dag_fail(dag, GY_ARG, "two outputs of the job have the name %s", name);
            return false;
        }
    }
    char *copy = gy_arena_alloc(&dag->arena, strlen(name) + 1);
    if (copy == NULL ||
        GY_GROW("flow.names", dag->output_names, dag->name_capacity, dag->name_count + 1) < 0) {
        gy_dag_fail(dag, GY_NOMEM, "out of memory");
        return false;
    }
    dag->output_names[dag->name_count++] = memcpy(copy, name, strlen(name) + 1);
    return true;
}

void gy_part_output(gy_part part, const char *name)
{
    gy_dag *dag = part.dag;
    gy_dag_part a;
    if (!take(dag, part, &a) || !name_output(dag, name)) {
        return;
    }
    if (a.count[GY_PART_OUTPUTS] == 0) {
        gy_dag_fail(dag, GY_ARG, "output %s is of a part without free outputs", name);
        return;
    }
    uint32_t vertex = 0, port = 0, number = 0;
    gy_part_cursor cursor = gy_flow_part_read(dag, &a, GY_PART_OUTPUTS);
    while (gy_flow_part_next_port(&cursor, &vertex, &port)) {
        if (GY_GROW("flow.finals", dag->finals, dag->final_capacity, dag->final_count + 1) <
            0) {
            gy_dag_fail(dag, GY_NOMEM, "out of memory");
            return;
        }
        if (port == UINT32_MAX) {
            port = dag->outputs[vertex]++;
        }
        dag->finals[dag->final_count++] =
            (gy_dag_final){vertex, port, (uint32_t)dag->name_count - 1, number++};
    }
}
