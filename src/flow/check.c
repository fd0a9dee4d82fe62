/* Checks that a graph is complete: every port is connected once, and there is no cycle. */
#include "flow/lower.h"

#include <stdlib.h>
#include <string.h>

/* Flags of an output port. */
enum { PORT_USED = 1, PORT_PIPED = 2, PORT_FINAL = 4 };

void gy_lowering_fini(gy_lowering *lowering)
{
    gy_free(lowering->edge_first);
    gy_free(lowering->task);
    gy_free(lowering->members);
    gy_free(lowering->member_first);
    *lowering = (gy_lowering){0};
}

/* ---- edges in order of (to, input) ---- */

static int compare_edges(const void *left, const void *right)
{
    const gy_dag_edge *a = left, *b = right;
    if (a->to != b->to) {
        return a->to < b->to ? -1 : 1;
    }
    return (a->input > b->input) - (a->input < b->input);
}

static bool is_sorted(const gy_dag_edge *edges, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (compare_edges(&edges[i - 1], &edges[i]) > 0) {
            return false;
        }
    }
    return true;
}

/* Sort a vertex's inputs, which are nearly always sorted already, as they were connected in
 * order. */
static void sort_inputs(gy_dag_edge *edges, const uint32_t *first, size_t vertices)
{
    for (size_t v = 0; v < vertices; v++) {
        const size_t count = first[v + 1] - first[v];
        if (!is_sorted(edges + first[v], count)) {
            qsort(edges + first[v], count, sizeof(*edges), compare_edges);
        }
    }
}

/* Compute edge_first of the new vertices from their edge counts, then distribute the edges. */
static gy_status sort_edges(gy_lowering *l, gy_dag *dag)
{
    const size_t v0 = l->vertex_floor, e0 = l->edge_floor;
    const size_t vertices = dag->vertex_count - v0, edges = dag->edge_count - e0;
    GY_TRY(GY_GROW("flow.lower", l->edge_first, l->edge_first_capacity, dag->vertex_count + 1));
    uint32_t *first = l->edge_first + v0;
    memset(first, 0, (vertices + 1) * sizeof(*first));
    for (size_t e = e0; e < dag->edge_count; e++) {
        first[dag->edges[e].to - v0 + 1]++;
    }
    first[0] = (uint32_t)e0;
    for (size_t v = 0; v < vertices; v++) {
        first[v + 1] += first[v];
    }
    if (is_sorted(dag->edges + e0, edges)) {
        return GY_OK;
    }
    gy_dag_edge *old = gy_alloc("flow.lower", edges * sizeof(*old));
    if (old == NULL) {
        return GY_NOMEM;
    }
    memcpy(old, dag->edges + e0, edges * sizeof(*old));
    for (size_t e = 0; e < edges; e++) {
        dag->edges[first[old[e].to - v0]++] = old[e]; /* now first[v] is the end of v's edges */
    }
    gy_free(old);
    memmove(first + 1, first, vertices * sizeof(*first));
    first[0] = (uint32_t)e0;
    sort_inputs(dag->edges, first, vertices);
    return GY_OK;
}

/* ---- ports ---- */

static gy_status check_ends(const gy_lowering *l, const gy_dag *dag)
{
    char names[2][GY_DAG_NAME_BYTES];
    for (size_t e = l->edge_floor; e < dag->edge_count; e++) {
        const gy_dag_edge *edge = &dag->edges[e];
        if (edge->to < l->vertex_floor) {
            return gy_fail(GY_ARG, "an edge goes into %s, which is done",
                           gy_dag_vertex_name(dag, edge->to, names[0]));
        }
        if (edge->from < l->vertex_floor && edge->channel != GY_CHANNEL_FILE) {
            return gy_fail(GY_ARG,
                           "output %u of %s goes to %s by no file, but its vertex is done",
                           edge->output, gy_dag_vertex_name(dag, edge->from, names[0]),
                           gy_dag_vertex_name(dag, edge->to, names[1]));
        }
    }
    for (size_t i = l->final_floor; i < dag->final_count; i++) {
        if (dag->finals[i].vertex < l->vertex_floor) {
            return gy_fail(GY_ARG,
                           "a refinement function makes %s, which has finished, an output of "
                           "the job: expected a vertex between",
                           gy_dag_vertex_name(dag, dag->finals[i].vertex, names[0]));
        }
    }
    return GY_OK;
}

static gy_status check_inputs(const gy_lowering *l, const gy_dag *dag)
{
    char name[GY_DAG_NAME_BYTES];
    for (uint32_t v = (uint32_t)l->vertex_floor; v < dag->vertex_count; v++) {
        uint32_t expected = 0;
        const uint32_t end = l->edge_first[v + 1];
        for (uint32_t e = l->edge_first[v]; e < end; e++, expected++) {
            const uint32_t input = dag->edges[e].input;
            if (input < expected) {
                return gy_fail(GY_ARG, "input %u of %s has two edges", input,
                               gy_dag_vertex_name(dag, v, name));
            }
            if (input > expected) {
                break;
            }
        }
        if (expected < dag->inputs[v]) {
            return gy_fail(GY_ARG, "input %u of %s comes from nowhere", expected,
                           gy_dag_vertex_name(dag, v, name));
        }
    }
    return GY_OK;
}

static gy_status fail_port(const gy_dag *dag, uint32_t vertex, uint32_t output,
                           const char *what)
{
    char name[GY_DAG_NAME_BYTES];
    return gy_fail(GY_ARG, "output %u of %s %s", output, gy_dag_vertex_name(dag, vertex, name),
                   what);
}

/* Marks on the output ports of the new vertices. */
typedef struct gy_port_table {
    const gy_lowering *lowering;
    const gy_dag *dag;
    size_t *first;  /* (new vertices + 1) index of a vertex's first port in `ports` */
    uint8_t *ports; /* flags PORT_* */
} gy_port_table;

static uint8_t *port_at(const gy_port_table *table, uint32_t vertex, uint32_t output)
{
    return &table->ports[table->first[vertex - table->lowering->vertex_floor] + output];
}

static gy_status mark_edges(const gy_port_table *table)
{
    const gy_dag *dag = table->dag;
    for (size_t e = table->lowering->edge_floor; e < dag->edge_count; e++) {
        const gy_dag_edge *edge = &dag->edges[e];
        if (edge->from < table->lowering->vertex_floor) {
            continue;
        }
        uint8_t *port = port_at(table, edge->from, edge->output);
        const bool is_piped = edge->channel != GY_CHANNEL_FILE;
        if (*port != 0 && (is_piped || (*port & PORT_PIPED) != 0)) {
            return fail_port(dag, edge->from, edge->output,
                             "goes to two inputs, and not by files alone");
        }
        *port |= (uint8_t)(PORT_USED | (is_piped ? PORT_PIPED : 0));
    }
    return GY_OK;
}

static gy_status mark_finals(const gy_port_table *table)
{
    const gy_dag *dag = table->dag;
    for (size_t i = table->lowering->final_floor; i < dag->final_count; i++) {
        const gy_dag_final *final = &dag->finals[i];
        uint8_t *port = port_at(table, final->vertex, final->output);
        if ((*port & PORT_FINAL) != 0) {
            return fail_port(dag, final->vertex, final->output,
                             "is an output of the job twice");
        }
        if ((*port & PORT_PIPED) != 0) {
            return fail_port(dag, final->vertex, final->output,
                             "is an output of the job and goes through a pipe");
        }
        *port |= PORT_USED | PORT_FINAL;
    }
    return GY_OK;
}

static gy_status mark_gates(const gy_port_table *table)
{
    const gy_dag *dag = table->dag;
    for (size_t i = table->lowering->refinement_floor; i < dag->refinement_count; i++) {
        for (uint32_t k = 0; k < dag->refinements[i].port_count; k++) {
            const uint32_t *at = &dag->refinements[i].ports[(size_t)k * 2];
            if (at[0] < table->lowering->vertex_floor) {
                return fail_port(dag, at[0], at[1],
                                 "is a refinement point for the second time");
            }
            uint8_t *port = port_at(table, at[0], at[1]);
            if ((*port & (PORT_PIPED | PORT_FINAL)) != 0) {
                return fail_port(
                    dag, at[0], at[1],
                    "is a refinement point and goes through a pipe or is an output of the job");
            }
            *port |= PORT_USED;
        }
    }
    return GY_OK;
}

static gy_status mark_outputs(const gy_port_table *table)
{
    GY_TRY(mark_edges(table));
    GY_TRY(mark_finals(table));
    return mark_gates(table);
}

static gy_status check_outputs(const gy_lowering *l, const gy_dag *dag)
{
    const size_t v0 = l->vertex_floor, vertices = dag->vertex_count - v0;
    size_t *first = gy_alloc("flow.lower", (vertices + 1) * sizeof(*first));
    if (first == NULL) {
        return GY_NOMEM;
    }
    first[0] = 0;
    for (size_t v = 0; v < vertices; v++) {
        first[v + 1] = first[v] + dag->outputs[v0 + v];
    }
    uint8_t *ports = gy_alloc_zero("flow.lower", first[vertices], 1);
    const gy_port_table table = {l, dag, first, ports};
    gy_status status = ports != NULL ? mark_outputs(&table) : GY_NOMEM;
    for (size_t v = 0; status >= 0 && v < vertices; v++) {
        for (size_t p = first[v]; status >= 0 && p < first[v + 1]; p++) {
            if (ports[p] == 0) {
                status = fail_port(dag, (uint32_t)(v0 + v), (uint32_t)(p - first[v]),
                                   "goes nowhere");
            }
        }
    }
    gy_free(ports);
    gy_free(first);
    return status;
}

/* ---- cycles: strongly connected components (Tarjan 1972), against the direction of edges
 * ---- */

/* A node on the stack: its edges from `edge` of `member` on are still to be followed. */
typedef struct gy_cycle_step {
    uint32_t node, member, edge;
} gy_cycle_step;

typedef struct gy_cycle_walk {
    const gy_lowering *lowering;
    const gy_dag *dag;
    const uint32_t *task; /* NULL: each vertex is a node */
    uint32_t floor, nodes;
    gy_cycle_step *stack;
    size_t depth;
    uint32_t *open; /* nodes whose component is not complete yet */
    size_t open_count;
    uint32_t *order, *low; /* (nodes) order 0: not visited; UINT32_MAX: component complete */
    uint8_t *is_own;       /* (nodes) the node depends on itself */
    uint32_t seen;
    uint32_t *component; /* (nodes) the caller's result */
    uint32_t component_count;
} gy_cycle_walk;

static void enter(gy_cycle_walk *walk, uint32_t node)
{
    const gy_lowering *l = walk->lowering;
    const uint32_t member = walk->task != NULL ? l->member_first[node] : node;
    const uint32_t vertex = walk->task != NULL ? l->members[member] : node;
    walk->stack[walk->depth++] = (gy_cycle_step){node, member, l->edge_first[vertex]};
    walk->open[walk->open_count++] = node;
    walk->order[node - walk->floor] = walk->low[node - walk->floor] = ++walk->seen;
}

/* The next node that the top node depends on; false: no more. */
static bool next_before(gy_cycle_walk *walk, uint32_t *node)
{
    const gy_lowering *l = walk->lowering;
    gy_cycle_step *top = &walk->stack[walk->depth - 1];
    for (;;) {
        const uint32_t vertex = walk->task != NULL ? l->members[top->member] : top->node;
        while (top->edge < l->edge_first[vertex + 1]) {
            const gy_dag_edge *edge = &walk->dag->edges[top->edge++];
            if (edge->from < l->vertex_floor ||
                (walk->task != NULL && edge->channel != GY_CHANNEL_FILE)) {
                continue; /* complete already, or within the same cohort */
            }
            *node = walk->task != NULL ? walk->task[edge->from] : edge->from;
            return true;
        }
        if (walk->task == NULL || top->member + 1 == l->member_first[top->node + 1]) {
            return false;
        }
        top->edge = l->edge_first[l->members[++top->member]];
    }
}

/* The top node has no more edges: pop it, which may complete a component. */
static void leave(gy_cycle_walk *walk)
{
    const uint32_t node = walk->stack[--walk->depth].node, at = node - walk->floor;
    if (walk->depth > 0) {
        uint32_t *low = &walk->low[walk->stack[walk->depth - 1].node - walk->floor];
        *low = GY_MIN(*low, walk->low[at]);
    }
    if (walk->low[at] != walk->order[at]) {
        return;
    }
    const bool is_cyclic = walk->open[walk->open_count - 1] != node || walk->is_own[at] != 0;
    walk->component_count += is_cyclic;
    for (uint32_t taken = UINT32_MAX; taken != node;) {
        taken = walk->open[--walk->open_count];
        walk->order[taken - walk->floor] = UINT32_MAX;
        walk->component[taken - walk->floor] = is_cyclic ? walk->component_count : 0;
    }
}

static void walk_from(gy_cycle_walk *walk, uint32_t start)
{
    enter(walk, start);
    while (walk->depth > 0) {
        const uint32_t top = walk->stack[walk->depth - 1].node - walk->floor;
        uint32_t node = 0;
        if (!next_before(walk, &node)) {
            leave(walk);
            continue;
        }
        const uint32_t order = walk->order[node - walk->floor];
        if (order == 0) {
            enter(walk, node);
        } else if (order != UINT32_MAX) {
            walk->low[top] = GY_MIN(walk->low[top], order);
            walk->is_own[top] |= node - walk->floor == top;
        }
    }
}

gy_status gy_flow_lower_cycles(const gy_lowering *lowering, const gy_dag *dag,
                               const uint32_t *task, uint32_t *component, uint32_t *count)
{
    gy_cycle_walk walk = {
        .lowering = lowering, .dag = dag, .task = task, .component = component};
    walk.floor = task != NULL ? lowering->task_count : (uint32_t)lowering->vertex_floor;
    walk.nodes = (uint32_t)(dag->vertex_count - lowering->vertex_floor);
    if (task != NULL) {
        uint32_t end = walk.floor;
        for (size_t v = lowering->vertex_floor; v < dag->vertex_count; v++) {
            end = GY_MAX(end, task[v] + 1);
        }
        walk.nodes = end - walk.floor;
    }
    const size_t nodes = walk.nodes;
    memset(component, 0, nodes * sizeof(*component));
    walk.stack = gy_alloc("flow.cycles", nodes * sizeof(*walk.stack));
    walk.open = gy_alloc("flow.cycles", nodes * sizeof(*walk.open));
    walk.order = gy_alloc_zero("flow.cycles", nodes, sizeof(*walk.order));
    walk.low = gy_alloc("flow.cycles", nodes * sizeof(*walk.low));
    walk.is_own = gy_alloc_zero("flow.cycles", nodes, 1);
    const bool is_ok = walk.stack != NULL && walk.open != NULL && walk.order != NULL &&
                       walk.low != NULL && walk.is_own != NULL;
    for (uint32_t node = walk.floor; is_ok && node < walk.floor + walk.nodes; node++) {
        if (walk.order[node - walk.floor] == 0) {
            walk_from(&walk, node);
        }
    }
    gy_free(walk.stack);
    gy_free(walk.open);
    gy_free(walk.order);
    gy_free(walk.low);
    gy_free(walk.is_own);
    *count = walk.component_count;
    return is_ok ? GY_OK : GY_NOMEM;
}

static bool is_forward(const gy_lowering *l, const gy_dag *dag)
{
    for (size_t e = l->edge_floor; e < dag->edge_count; e++) {
        if (dag->edges[e].from >= dag->edges[e].to) {
            return false;
        }
    }
    return true;
}

static gy_status check_cycles(const gy_lowering *l, const gy_dag *dag)
{
    if (is_forward(l, dag)) {
        return GY_OK;
    }
    const size_t vertices = dag->vertex_count - l->vertex_floor;
    uint32_t *component = gy_alloc("flow.cycles", vertices * sizeof(*component));
    if (component == NULL) {
        return GY_NOMEM;
    }
    uint32_t cycles = 0;
    gy_status status = gy_flow_lower_cycles(l, dag, NULL, component, &cycles);
    size_t first = vertices, count = 0;
    for (size_t v = 0; status >= 0 && cycles > 0 && v < vertices; v++) {
        if (component[v] != 0 && (first == vertices || component[v] == component[first])) {
            first = GY_MIN(first, v);
            count++;
        }
    }
    if (count > 0) {
        char name[GY_DAG_NAME_BYTES];
        status =
            gy_fail(GY_ARG, "%s is on a cycle of %zu vertices",
                    gy_dag_vertex_name(dag, (uint32_t)(l->vertex_floor + first), name), count);
    }
    gy_free(component);
    return status;
}

static int compare_finals(const void *left, const void *right)
{
    const gy_dag_final *a = left, *b = right;
    if (a->vertex != b->vertex) {
        return a->vertex < b->vertex ? -1 : 1;
    }
    return (a->output > b->output) - (a->output < b->output);
}

gy_status gy_flow_lower_check(gy_lowering *lowering, gy_dag *dag)
{
    GY_TRY(gy_dag_status(dag));
    GY_TRY(check_ends(lowering, dag));
    GY_TRY(sort_edges(lowering, dag));
    GY_TRY(check_inputs(lowering, dag));
    GY_TRY(check_outputs(lowering, dag));
    if (dag->final_count > lowering->final_floor) {
        qsort(dag->finals + lowering->final_floor, dag->final_count - lowering->final_floor,
              sizeof(*dag->finals), compare_finals);
    }
    return check_cycles(lowering, dag);
}
