/* Is a graph whole: every port joined, once, and no cycle. */
#include "flow/lower.h"

#include <stdlib.h>
#include <string.h>

/* What is known of an output port. */
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

/* A vertex's inputs, in the order they were joined, are sorted nearly always. */
static void sort_inputs(gy_dag_edge *edges, const uint32_t *first, size_t vertices)
{
    for (size_t v = 0; v < vertices; v++) {
        const size_t count = first[v + 1] - first[v];
        if (!is_sorted(edges + first[v], count)) {
            qsort(edges + first[v], count, sizeof(*edges), compare_edges);
        }
    }
}

/* edge_first of the new vertices from the edges' counts; then the edges themselves. */
static gy_status sort_edges(gy_lowering *l, gy_dag *dag)
{
    const size_t v0 = l->vertex_floor, e0 = l->edge_floor;
    const size_t vertices = dag->vertex_count - v0, edges = dag->edge_count - e0;
    GY_TRY(gy_reserve("flow.lower", (void **)&l->edge_first, &l->edge_first_capacity,
                      dag->vertex_count + 1, sizeof(uint32_t)));
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
        dag->edges[first[old[e].to - v0]++] = old[e]; /* now first[v] is where v ends */
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
                           "a growth function makes an output of the job of %s, which is done: "
                           "expected a vertex between",
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

/* Output ports of the new vertices while they are marked. */
typedef struct gy_port_table {
    const gy_lowering *lowering;
    const gy_dag *dag;
    size_t *first;  /* (new vertices + 1) where a vertex's are in `ports` */
    uint8_t *ports; /* PORT_ */
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
    for (size_t i = table->lowering->gate_floor; i < dag->gate_count; i++) {
        for (uint32_t k = 0; k < dag->gates[i].port_count; k++) {
            const uint32_t *at = &dag->gates[i].ports[(size_t)k * 2];
            if (at[0] < table->lowering->vertex_floor) {
                return fail_port(dag, at[0], at[1], "waits for growth a second time");
            }
            uint8_t *port = port_at(table, at[0], at[1]);
            if ((*port & (PORT_PIPED | PORT_FINAL)) != 0) {
                return fail_port(dag, at[0], at[1],
                                 "waits for growth and goes through a pipe or is of the job");
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

/* ---- cycles ---- */

enum { NEW, OPEN, CLOSED };

/* A walk against the edges: `node` has its members' edges left from `edge` of `member` on. */
typedef struct gy_cycle_step {
    uint32_t node, member, edge;
} gy_cycle_step;

typedef struct gy_cycle_walk {
    const gy_lowering *lowering;
    const gy_dag *dag;
    const uint32_t *task; /* NULL: nodes are vertices */
    uint32_t floor;
    gy_cycle_step *stack;
    size_t depth;
    uint8_t *state;
} gy_cycle_walk;

static void enter(gy_cycle_walk *walk, uint32_t node)
{
    const gy_lowering *l = walk->lowering;
    const uint32_t member = walk->task != NULL ? l->member_first[node] : node;
    const uint32_t vertex = walk->task != NULL ? l->members[member] : node;
    walk->stack[walk->depth++] = (gy_cycle_step){node, member, l->edge_first[vertex]};
    walk->state[node - walk->floor] = OPEN;
}

/* The next node that the top one waits for; false: no more. */
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
                continue; /* done already, or within the cohort */
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

/* From one node; true: the stack ends with a cycle that begins and ends at *found. */
static bool walk_from(gy_cycle_walk *walk, uint32_t start, uint32_t *found)
{
    enter(walk, start);
    while (walk->depth > 0) {
        uint32_t node = 0;
        if (!next_before(walk, &node)) {
            walk->state[walk->stack[--walk->depth].node - walk->floor] = CLOSED;
        } else if (walk->state[node - walk->floor] == OPEN) {
            *found = node;
            return true;
        } else if (walk->state[node - walk->floor] == NEW) {
            enter(walk, node);
        }
    }
    return false;
}

bool gy_lower_cycle(const gy_lowering *lowering, const gy_dag *dag, const uint32_t *task,
                    uint8_t *on_cycle, gy_status *status)
{
    const uint32_t floor =
        task != NULL ? lowering->task_count : (uint32_t)lowering->vertex_floor;
    const uint32_t end = task != NULL ? floor : (uint32_t)dag->vertex_count;
    uint32_t nodes = end - floor;
    for (size_t v = lowering->vertex_floor; task != NULL && v < dag->vertex_count; v++) {
        nodes = GY_MAX(nodes, task[v] - floor + 1);
    }
    gy_cycle_walk walk = {.lowering = lowering,
                          .dag = dag,
                          .task = task,
                          .floor = floor,
                          .stack = gy_alloc("flow.lower", (size_t)nodes * sizeof(*walk.stack)),
                          .state = gy_alloc_zero("flow.lower", nodes, 1)};
    bool is_found = false;
    *status = walk.stack != NULL && walk.state != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t node = floor; *status >= 0 && !is_found && node < floor + nodes; node++) {
        uint32_t first = 0;
        if (walk.state[node - floor] == NEW && walk_from(&walk, node, &first)) {
            is_found = true;
            while (walk.depth > 0) {
                const uint32_t at = walk.stack[--walk.depth].node;
                on_cycle[at - floor] = 1;
                if (at == first) {
                    break;
                }
            }
        }
    }
    gy_free(walk.stack);
    gy_free(walk.state);
    return is_found;
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
    uint8_t *on_cycle = gy_alloc_zero("flow.lower", vertices, 1);
    if (on_cycle == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    if (gy_lower_cycle(l, dag, NULL, on_cycle, &status)) {
        size_t first = 0, count = 0;
        for (size_t v = vertices; v-- > 0;) {
            first = on_cycle[v] != 0 ? v : first;
            count += on_cycle[v];
        }
        char name[GY_DAG_NAME_BYTES];
        status =
            gy_fail(GY_ARG, "%s is on a cycle of %zu vertices",
                    gy_dag_vertex_name(dag, (uint32_t)(l->vertex_floor + first), name), count);
    }
    gy_free(on_cycle);
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

gy_status gy_lower_check(gy_lowering *lowering, gy_dag *dag)
{
    if (dag->status < 0) {
        return gy_fail(dag->status, "%s", dag->mistake);
    }
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
