/*
 * Reverse accumulation: with y a scalar, d y/d v is the sum over the uses of v of what the
 * user's row makes of d y/d(its outputs). The gradients are nodes of the same graph, so that
 * they have gradients themselves. Integers carry none.
 *
 * Cost: one walk over the nodes before the loss. Source: lecture A, "Benefit of computation
 * graph: Automatic Differentiation"; Griewank & Walther, "Evaluating Derivatives", 2008.
 */
#include "graph/graph_priv.h"

#include <stdio.h>
#include <string.h>

typedef struct reverse {
    gy_graph *graph;
    int32_t node_count;  /* of the graph before the first gradient node */
    bool *depends;       /* value number -> depends on a wanted value */
    gy_value *gradients; /* value number -> sum so far; GY_NO_VALUE: zero */
} reverse;

static bool is_float(gy_dtype dtype)
{
    return dtype == GY_F64 || dtype == GY_F32 || dtype == GY_F16 || dtype == GY_BF16;
}

/* Which values depend on a wanted one through floats. */
static void mark(reverse *state, const gy_node *wrt, int count)
{
    GY_ASSERT(state->node_count <= state->graph->node_count);
    const gy_graph *graph = state->graph;
    for (int i = 0; i < count; i++) {
        state->depends[gy_graph_value(graph, (gy_value){wrt[i].index, wrt[i].output})] = true;
    }
    for (int32_t i = 0; i < state->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        bool any = false;
        for (int k = 0; k < node->input_count; k++) {
            any = any || state->depends[gy_graph_value(graph, node->inputs[k])];
        }
        for (int32_t k = 0; any && k < node->output_count; k++) {
            if (is_float(node->types[k].dtype)) {
                state->depends[node->first_value + k] = true;
            }
        }
    }
}

static gy_status accumulate(reverse *state, gy_value input, gy_value gradient)
{
    GY_ASSERT(!gy_value_is_none(gradient));
    const gy_type *have = gy_graph_type(state->graph, gradient);
    const gy_type *want = gy_graph_type(state->graph, input);
    if (!gy_type_is_same_shape(have, want)) {
        char a[160], b[160];
        return gy_fail(GY_SHAPE, "its gradient for %s is %s, expected %s",
                       gy_graph_at(state->graph, input)->name, gy_type_text(have, a),
                       gy_type_text(want, b));
    }
    gy_value *sum = &state->gradients[gy_graph_value(state->graph, input)];
    *sum = gy_value_is_none(*sum)
               ? gradient
               : gy_build2(&state->graph->builder, &gy_ops_row_add, *sum, gradient);
    return gy_graph_status(state->graph);
}

static gy_status step_back(reverse *state, int32_t index)
{
    GY_ASSERT(index >= 0 && index < state->node_count);
    gy_graph *graph = state->graph;
    const gy_graph_node node = graph->nodes[index]; /* a copy: the array may move */
    gy_value outputs[GY_OP_OUTPUTS_MAX], above[GY_OP_OUTPUTS_MAX], below[GY_OP_INPUTS_MAX];
    bool is_reached = false, is_wanted = false;
    for (int32_t k = 0; k < node.output_count; k++) {
        outputs[k] = (gy_value){index, k};
        above[k] = state->gradients[node.first_value + k];
        is_reached = is_reached || !gy_value_is_none(above[k]);
    }
    for (int k = 0; k < node.input_count; k++) {
        GY_ASSERT(node.inputs[k].node < index);
        below[k] = GY_NO_VALUE;
        is_wanted = is_wanted || state->depends[gy_graph_value(graph, node.inputs[k])];
    }
    if (!is_reached || !is_wanted) {
        return GY_OK;
    }
    if (node.op->gradient == NULL) {
        return gy_fail(GY_UNSUPPORTED, "%s has no gradient: %s", node.op->name,
                       node.op->no_gradient != NULL ? node.op->no_gradient
                                                    : "not differentiable");
    }
    const gy_applied applied = {.attributes = &node.attributes,
                                .inputs = node.inputs,
                                .input_count = node.input_count,
                                .outputs = outputs};
    graph->mark.source = node.mark.source;
    graph->mark.is_gradient = true;
    graph->nodes[node.mark.source].mark.is_differentiated = true;
    GY_TRY(node.op->gradient(&graph->builder, &applied, above, below));
    GY_TRY(gy_graph_status(graph));
    for (int k = 0; k < node.input_count; k++) {
        if (!gy_value_is_none(below[k]) &&
            state->depends[gy_graph_value(graph, node.inputs[k])]) {
            GY_TRY(accumulate(state, node.inputs[k], below[k]));
        }
    }
    return GY_OK;
}

/* Zeros of the value's type; their sizes may be symbolic. */
static gy_value filled_like(gy_graph *graph, gy_value like, double value)
{
    const gy_type *type = gy_graph_type(graph, like);
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.shape.rank = type->rank;
    attributes.shape.dtype = type->dtype;
    memcpy(attributes.shape.sizes, type->sizes, sizeof(type->sizes));
    attributes.shape.value = value;
    return gy_graph_apply(graph, &gy_ops_row_fill, &attributes, NULL, 0, NULL);
}

static gy_status run_reverse(reverse *state, gy_node loss, const gy_node *wrt, int count,
                             gy_node *gradients)
{
    GY_ASSERT(count >= 0);
    gy_graph *graph = state->graph;
    for (int32_t i = 0; i < graph->value_count; i++) {
        state->gradients[i] = GY_NO_VALUE;
    }
    mark(state, wrt, count);
    GY_ASSERT(loss.graph == graph && loss.index < state->node_count);
    const gy_value top = {loss.index, loss.output};
    state->gradients[gy_graph_value(graph, top)] = filled_like(graph, top, 1);
    for (int32_t i = loss.index; i >= 0; i--) {
        char place[128];
        snprintf(place, sizeof(place), "gradient of %s", graph->nodes[i].name);
        gy_status status = step_back(state, i);
        graph->mark.source = -1;
        graph->mark.is_gradient = false;
        if (status < 0) {
            return gy_graph_fail(graph, status, place);
        }
    }
    for (int i = 0; i < count; i++) {
        const gy_value value = {wrt[i].index, wrt[i].output};
        gy_value gradient = state->gradients[gy_graph_value(graph, value)];
        if (gy_value_is_none(gradient)) {
            gradient = filled_like(graph, value, 0);
        }
        gradients[i] = (gy_node){graph, gradient.node, gradient.output};
    }
    return gy_graph_status(graph);
}

static gy_status check_request(gy_node loss, const gy_node *wrt, int count)
{
    GY_TRY(gy_graph_status(loss.graph));
    if (loss.index < 0) {
        return gy_fail(GY_ARG, "the loss is a failed node");
    }
    const gy_type *type = gy_graph_type(loss.graph, (gy_value){loss.index, loss.output});
    if (gy_type_count(type) != 1 || !is_float(type->dtype)) {
        char text[160];
        return gy_fail(GY_SHAPE, "the loss %s is %s, expected a scalar of a float type",
                       loss.graph->nodes[loss.index].name, gy_type_text(type, text));
    }
    for (int i = 0; i < count; i++) {
        if (wrt[i].index < 0 || wrt[i].graph != loss.graph) {
            return gy_fail(GY_ARG, "value %d to differentiate for is not of the loss's graph",
                           i);
        }
    }
    return GY_OK;
}

gy_status gy_op_gradients(gy_node loss, const gy_node *wrt, int count, gy_node *gradients)
{
    for (int i = 0; i < count; i++) {
        gradients[i] = gy_node_failed(loss.graph);
    }
    gy_status status = check_request(loss, wrt, count);
    if (status < 0) {
        return loss.graph == NULL ? status : gy_graph_fail(loss.graph, status, "gradient");
    }
    gy_graph *graph = loss.graph;
    const size_t values = (size_t)graph->value_count;
    reverse state = {.graph = graph,
                     .node_count = graph->node_count,
                     .depends = gy_alloc_zero("graph.gradient", values, sizeof(bool)),
                     .gradients = gy_alloc("graph.gradient", values * sizeof(gy_value))};
    if (state.depends == NULL || state.gradients == NULL) {
        status = gy_graph_fail(graph, GY_NOMEM, "gradient");
    } else {
        status = run_reverse(&state, loss, wrt, count, gradients);
    }
    gy_free(state.depends);
    gy_free(state.gradients);
    return status;
}

gy_node gy_op_gradient(gy_node loss, gy_node wrt)
{
    gy_node gradient = gy_node_failed(loss.graph);
    if (gy_op_gradients(loss, &wrt, 1, &gradient) < 0) {
        return gy_node_failed(loss.graph); /* the graph keeps the failure */
    }
    return gradient;
}
