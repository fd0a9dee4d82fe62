/*
 * Which nodes the device runs. A node takes one time there and another on the CPU, and a value
 * that is made on one side and read on the other one more for its copy, once for all readers.
 * The cheapest choice is a cheapest cut of a network: a vertex for each node, two edges to the
 * ends for what it takes on either side, and for each value a vertex for its copy each way.
 *
 * A view lies where its input does, a parameter where it is assigned. What is fed, exchanged or
 * fetched is the CPU's.
 */
#include "graph/devices/devices.h"

#include "graph/session.h"

#include <math.h>
#include <string.h>

enum { CPU = 0, DEVICE = 1, FIRST = 2, SEARCHES = 24 };

/* The memory that it is: a node, through views and assignments. */
static int32_t *find_groups(const gy_graph *graph)
{
    int32_t *groups =
        gy_alloc("graph.devices", ((size_t)graph->node_count + 1) * sizeof(*groups));
    for (int32_t i = 0; groups != NULL && i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        const bool is_same =
            (node->op->flags & GY_OP_VIEW) != 0 || node->op == &gy_ops_row_assign;
        groups[i] = is_same ? groups[node->inputs[0].node] : i;
        GY_ASSERT(groups[i] >= 0 && groups[i] <= i);
    }
    return groups;
}

static bool is_memory(const gy_graph_node *node)
{
    GY_ASSERT(node->op != NULL);
    return (node->op->flags & GY_OP_VIEW) != 0 || node->op == &gy_ops_row_assign ||
           node->op == &gy_ops_row_parameter;
}

bool gy_devices_can(const gy_graph *graph, int32_t index, const char **why)
{
    const gy_graph_node *node = &graph->nodes[index];
    gy_device *device = graph->device;
    gy_view views[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX];
    GY_ASSERT(device != NULL && index >= 0 && index < graph->node_count);
    *why = "";
    if (node->op == &gy_ops_row_input || node->op == &gy_ops_row_literal) {
        *why = "fed by the CPU";
    } else if ((node->op->flags & GY_OP_COLLECTIVE) != 0) {
        *why = "an exchange between ranks";
    } else if (node->op == &gy_ops_row_parameter && gy_graph_has_rows(node)) {
        *why = "its rows are those of the batch";
    } else if (!is_memory(node)) {
        const gy_kernel_query query = gy_graph_query(graph, index, 1, views);
        return device->ops->accepts(device, &query, why);
    }
    return **why == '\0';
}

size_t gy_devices_workspace(const gy_graph *graph, int32_t index)
{
    gy_view views[GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX];
    GY_ASSERT(graph->device != NULL && index >= 0 && index < graph->node_count);
    if (!gy_devices_is_work(&graph->nodes[index])) {
        return 0;
    }
    const gy_kernel_query query = gy_graph_query(graph, index, 1, views);
    return graph->device->ops->workspace_bytes(graph->device, &query);
}

static double roofline(const gy_cost *cost, double flops_s, double bytes_s)
{
    GY_ASSERT(flops_s > 0 && bytes_s > 0);
    return fmax(cost->flops / flops_s, (cost->bytes_read + cost->bytes_written) / bytes_s);
}

double gy_devices_seconds(const gy_graph *graph, int32_t index, bool is_there)
{
    const gy_graph_node *node = &graph->nodes[index];
    const gy_device_rates *rates = &graph->device->rates;
    gy_cost cost;
    GY_ASSERT(index >= 0 && index < graph->node_count);
    if (is_memory(node) || node->op == &gy_ops_row_input || node->op == &gy_ops_row_literal) {
        return 0;
    }
    gy_graph_cost(graph, &graph->mesh, index, &cost);
    if (!is_there) {
        return roofline(&cost, rates->host_flops_s, rates->host_bytes_s);
    }
    const gy_dtype dtype = node->input_count > 0 ? gy_graph_type(graph, node->inputs[0])->dtype
                                                 : node->types[0].dtype;
    const double flops_s =
        rates->flops_s[dtype] > 0 ? rates->flops_s[dtype] : rates->flops_s[GY_F32];
    return rates->launch_s + roofline(&cost, flops_s, rates->bytes_s);
}

static size_t bytes_of(const gy_graph *graph, gy_value value)
{
    return gy_local_bytes(&graph->mesh, gy_graph_type(graph, value));
}

bool gy_devices_makes_again(const gy_graph *graph, int32_t index)
{
    const char *why = "";
    GY_ASSERT(index >= 0 && index < graph->node_count);
    return graph->nodes[index].op == &gy_ops_row_fill && gy_devices_can(graph, index, &why);
}

double gy_devices_copy_seconds(const gy_graph *graph, gy_value value)
{
    GY_ASSERT(graph->device != NULL && graph->device->rates.copy_bytes_s > 0);
    if (gy_devices_makes_again(graph, value.node)) {
        return graph->device->rates.launch_s;
    }
    return graph->device->rates.copy_s +
           (double)bytes_of(graph, value) / graph->device->rates.copy_bytes_s;
}

/* ---- the network ---- */

typedef struct network {
    const gy_graph *graph;
    const int32_t *groups;
    const bool *can;          /* node */
    const size_t *workspaces; /* node */
    double byte_s;            /* for a byte that lies there */
    gy_devices_network flow;
    int32_t *copies; /* value -> its vertex of a copy there; the next is that of one back */
} network;

/* In picoseconds. */
static int64_t capacity(double seconds)
{
    GY_ASSERT(seconds >= 0);
    return (int64_t)fmin(1e12 * seconds, 1e15);
}

static int32_t vertex_of(const network *n, int32_t node)
{
    GY_ASSERT(node >= 0 && node < n->graph->node_count);
    return FIRST + n->groups[node];
}

static gy_status add_node(network *n, int32_t index)
{
    const gy_graph *graph = n->graph;
    const gy_graph_node *node = &graph->nodes[index];
    const int32_t vertex = vertex_of(n, index);
    double there = gy_devices_seconds(graph, index, true);
    GY_ASSERT(n->byte_s >= 0);
    const bool is_home = node->op == &gy_ops_row_parameter && node->home != GY_HOME_OPEN;
    for (int32_t k = 0; k < node->output_count && n->groups[index] == index; k++) {
        there += n->byte_s * (double)bytes_of(graph, (gy_value){index, k});
    }
    const int64_t cpu = is_home && node->home == GY_HOME_DEVICE
                            ? GY_DEVICES_NEVER_CUT
                            : capacity(gy_devices_seconds(graph, index, false));
    const bool may = n->can[index] && !(is_home && node->home == GY_HOME_CPU);
    GY_TRY(gy_devices_network_add(&n->flow, CPU, vertex,
                                  may ? capacity(there) : GY_DEVICES_NEVER_CUT));
    return gy_devices_network_add(&n->flow, vertex, DEVICE, cpu);
}

/* What its copies take, when its maker is on one side and a reader on the other. */
static gy_status add_copies(network *n, int32_t node, int32_t k)
{
    const gy_value value = {node, k};
    const int32_t maker = vertex_of(n, node),
                  there = n->copies[gy_graph_value(n->graph, value)];
    const int64_t takes = capacity(gy_devices_copy_seconds(n->graph, value));
    GY_ASSERT(there >= FIRST && n->groups[node] == node);
    GY_TRY(gy_devices_network_add(&n->flow, maker, there, takes));
    return gy_devices_network_add(&n->flow, there + 1, maker, takes);
}

/* The value whose memory an input is. */
static gy_value base_of(const gy_graph *graph, gy_value value)
{
    while ((gy_graph_at(graph, value)->op->flags & GY_OP_VIEW) != 0) {
        GY_ASSERT(gy_graph_at(graph, value)->inputs[0].node < value.node);
        value = gy_graph_at(graph, value)->inputs[0];
    }
    return value;
}

static gy_status add_reader(network *n, gy_value value, int32_t reader)
{
    const gy_value base = base_of(n->graph, value);
    const int32_t maker = vertex_of(n, base.node);
    GY_ASSERT(reader >= 0 && reader < n->flow.vertices);
    if (gy_graph_at(n->graph, base)->op == &gy_ops_row_assign || maker == reader) {
        return GY_OK; /* the same memory */
    }
    const int32_t there = n->copies[gy_graph_value(n->graph, base)];
    GY_TRY(gy_devices_network_add(&n->flow, there, reader, GY_DEVICES_NEVER_CUT));
    return gy_devices_network_add(&n->flow, reader, there + 1, GY_DEVICES_NEVER_CUT);
}

static gy_status add_all(network *n)
{
    const gy_graph *graph = n->graph;
    GY_ASSERT(n->flow.vertices >= FIRST + graph->node_count);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        GY_TRY(add_node(n, i));
        for (int32_t k = 0; k < node->output_count && n->groups[i] == i; k++) {
            GY_TRY(add_copies(n, i, k));
        }
        for (int k = 0; k < node->input_count; k++) {
            const bool is_own = k == 0 && n->groups[i] != i; /* a view's, an assignment's */
            GY_TRY(is_own ? GY_OK : add_reader(n, node->inputs[k], vertex_of(n, i)));
        }
    }
    for (int32_t i = 0; i < graph->root_count; i++) {
        const gy_value value = graph->roots[i].value;
        const bool is_fetched = gy_graph_at(graph, value)->op != &gy_ops_row_assign &&
                                !graph->roots[i].is_elsewhere;
        GY_TRY(is_fetched ? add_reader(n, value, CPU) : GY_OK);
    }
    return GY_OK;
}

static gy_status cut(network *n, bool *stays, bool *is_there)
{
    const gy_graph *graph = n->graph;
    int32_t vertices = FIRST + graph->node_count;
    for (int32_t i = 0; i < graph->value_count; i++) {
        n->copies[i] = vertices;
        vertices += 2;
    }
    gy_status status = gy_devices_network_begin(&n->flow, vertices);
    if (status >= 0) {
        status = add_all(n);
    }
    if (status >= 0) {
        status = gy_devices_network_cut(&n->flow, stays);
    }
    for (int32_t i = 0; i < graph->node_count && status >= 0; i++) {
        is_there[i] = !stays[vertex_of(n, i)];
        GY_ASSERT(n->can[n->groups[i]] || !is_there[i]);
    }
    gy_devices_network_free(&n->flow);
    return status;
}

/* ---- memory ---- */

/* Where each value is read last, or, on the other side, its copy is. */
static void find_last(const gy_graph *graph, const int32_t *groups, const bool *is_there,
                      int32_t *last)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        last[i] = is_there[i] ? i : -1;
        GY_ASSERT(groups[i] >= 0 && groups[i] <= i);
        for (int k = 0; k < node->input_count; k++) {
            int32_t *read = &last[groups[node->inputs[k].node]];
            *read = is_there[i] || is_there[node->inputs[k].node] ? i : *read;
        }
    }
}

/* Values alone; as gy_devices_bytes. */
static uint64_t value_bytes(const gy_graph *graph, const bool *is_there)
{
    int32_t *groups = find_groups(graph);
    const size_t nodes = (size_t)graph->node_count + 1;
    int32_t *last = gy_alloc("graph.devices", nodes * sizeof(*last));
    uint64_t *gone = gy_alloc_zero("graph.devices", nodes, sizeof(*gone)), now = 0, most = 0;
    const bool has_memory = groups != NULL && last != NULL && gone != NULL;
    GY_ASSERT(is_there != NULL);
    if (has_memory) {
        find_last(graph, groups, is_there, last);
    }
    for (int32_t i = 0; i < graph->node_count && has_memory; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        uint64_t bytes = 0;
        for (int32_t k = 0; k < node->output_count && groups[i] == i; k++) {
            bytes += last[i] >= 0 ? bytes_of(graph, (gy_value){i, k}) : 0;
        }
        now += bytes;
        most = GY_MAX(most, now);
        const bool is_kept = node->op == &gy_ops_row_parameter && is_there[i];
        gone[GY_MAX(last[i], i)] += is_kept ? 0 : bytes;
        now -= gone[i];
    }
    gy_free(groups);
    gy_free(last);
    gy_free(gone);
    return has_memory ? most : UINT64_MAX;
}

/* Kernels share one piece of memory, for they run one behind another. `workspaces` has what
 * each node wants; NULL: the device is asked. */
static uint64_t workspace_bytes(const gy_graph *graph, const bool *is_there,
                                const size_t *workspaces)
{
    size_t most = 0;
    GY_ASSERT(graph->device != NULL && is_there != NULL);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const size_t own = !is_there[i]         ? 0
                           : workspaces != NULL ? workspaces[i]
                                                : gy_devices_workspace(graph, i);
        most = GY_MAX(most, own);
    }
    return most;
}

uint64_t gy_devices_bytes(const gy_graph *graph, const bool *is_there)
{
    const uint64_t values = value_bytes(graph, is_there);
    return values == UINT64_MAX ? values : values + workspace_bytes(graph, is_there, NULL);
}

/* ---- the choice ---- */

static bool fits(const network *n, const bool *is_there)
{
    GY_ASSERT(n->workspaces != NULL);
    const uint64_t values = value_bytes(n->graph, is_there);
    const uint64_t workspace = workspace_bytes(n->graph, is_there, n->workspaces);
    const uint64_t limit = n->graph->device->rates.memory_bytes;
    return limit == 0 || (values <= limit && workspace <= limit - values);
}

/* What each node wants of the device's memory for its work; one that wants more than there is
 * cannot run there. Returns the most that such a node wants. */
static size_t find_workspaces(const gy_graph *graph, bool *can, size_t *workspaces)
{
    const uint64_t limit = graph->device->rates.memory_bytes;
    size_t refused = 0;
    GY_ASSERT(can != NULL && workspaces != NULL);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const char *why;
        can[i] = gy_devices_can(graph, i, &why);
        workspaces[i] = can[i] && limit > 0 ? gy_devices_workspace(graph, i) : 0;
        if (workspaces[i] > limit) {
            can[i] = false;
            refused = GY_MAX(refused, workspaces[i]);
        }
    }
    return refused;
}

/* Dearer bytes until what lies there fits. */
static gy_status fit(network *n, bool *stays, bool *is_there, uint64_t *short_bytes)
{
    double low = 0, high = 0;
    GY_ASSERT(n->byte_s == 0);
    GY_TRY(cut(n, stays, is_there));
    if (fits(n, is_there)) {
        return GY_OK;
    }
    *short_bytes = gy_devices_bytes(n->graph, is_there);
    bool has_fitted = false;
    for (high = 1e-13; !has_fitted && high < 1;) {
        n->byte_s = high;
        GY_TRY(cut(n, stays, is_there));
        has_fitted = fits(n, is_there);
        low = has_fitted ? low : high;
        high = has_fitted ? high : 10 * high;
    }
    for (int i = 0; i < SEARCHES && high < 1; i++) {
        n->byte_s = (low + high) / 2;
        GY_TRY(cut(n, stays, is_there));
        *(fits(n, is_there) ? &high : &low) = n->byte_s;
    }
    n->byte_s = high;
    GY_TRY(cut(n, stays, is_there));
    if (!fits(n, is_there)) { /* parameters that have their home there */
        char have[32], want[32];
        return gy_fail(GY_LIMIT,
                       "device %s has %s, and what must lie there, parameters and what updates "
                       "them, takes %s",
                       n->graph->device->name,
                       gy_text_bytes(have, n->graph->device->rates.memory_bytes),
                       gy_text_bytes(want, gy_devices_bytes(n->graph, is_there)));
    }
    return GY_OK;
}

gy_status gy_devices_choose(const gy_graph *graph, bool *is_there, uint64_t *short_bytes)
{
    const size_t nodes = (size_t)graph->node_count + 1, values = (size_t)graph->value_count + 1;
    int32_t *groups = find_groups(graph);
    gy_arena arena = {0};
    bool *can = gy_arena_alloc(&arena, nodes * sizeof(*can));
    bool *stays = gy_arena_alloc(&arena, (nodes + 2 * values + FIRST) * sizeof(*stays));
    size_t *workspaces = gy_arena_alloc(&arena, nodes * sizeof(*workspaces));
    network n = {.graph = graph,
                 .groups = groups,
                 .can = can,
                 .workspaces = workspaces,
                 .copies = gy_arena_alloc(&arena, values * sizeof(*n.copies))};
    GY_ASSERT(graph->device != NULL && graph->is_placed);
    const bool has_memory = groups != NULL && can != NULL && stays != NULL &&
                            workspaces != NULL && n.copies != NULL;
    *short_bytes = 0;
    const size_t refused = has_memory ? find_workspaces(graph, can, workspaces) : 0;
    const gy_status status = has_memory ? fit(&n, stays, is_there, short_bytes) : GY_NOMEM;
    *short_bytes = GY_MAX(*short_bytes, refused);
    gy_free(groups);
    gy_arena_free(&arena);
    return status;
}
