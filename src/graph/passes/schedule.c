/*
 * The order in which tasks are pushed: that of the nodes, but a collective right after what it
 * waits for (so that it overlaps all that follows and its number comes early), and assignments
 * last (after all reads of the old value). What a fetch or an assignment reads of a parameter
 * that is assigned is copied first.
 */
#include "graph/graph_priv.h"

#include <stdio.h>
#include <string.h>

typedef struct order {
    gy_pass pass;
    bool *emitted;  /* node of `in` */
    bool *assigned; /* node of `in`: a parameter that an assignment changes */
} order;

/* The leaf whose memory a value is, through views. */
static int32_t memory_of(const gy_graph *graph, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(graph, value);
    while ((node->op->flags & GY_OP_VIEW) != 0) {
        value = node->inputs[0];
        node = gy_graph_at(graph, value);
    }
    return value.node;
}

static gy_status emit(order *state, int32_t index)
{
    gy_pass_copy(&state->pass, index);
    state->emitted[index] = true;
    GY_TRY(gy_graph_status(state->pass.out));
    /* Collectives that wait for this node alone follow at once. */
    const gy_graph *in = state->pass.in;
    for (int32_t i = index + 1; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        if (!state->emitted[i] && (node->op->flags & GY_OP_COLLECTIVE) != 0 &&
            node->inputs[0].node == index) {
            GY_TRY(emit(state, i));
        }
    }
    return GY_OK;
}

/* A value that no assignment of this run changes: itself, or a copy. */
static gy_status settle(order *state, gy_value in, gy_value *out)
{
    *out = gy_pass_get(&state->pass, in);
    if (!state->assigned[memory_of(state->pass.in, in)]) {
        return GY_OK;
    }
    gy_graph *graph = state->pass.out;
    char name[160];
    snprintf(name, sizeof(name), "%s.before", gy_graph_at(graph, *out)->name);
    const gy_type type = *gy_graph_type(graph, *out);
    *out = gy_graph_apply_typed(graph, &gy_op_identity, NULL, out, 1, &type, 1, name);
    return gy_graph_status(graph);
}

static gy_status emit_assignments(order *state)
{
    const gy_graph *in = state->pass.in;
    gy_graph *out = state->pass.out;
    for (int32_t i = 0; i < in->root_count; i++) { /* copies stand before all assignments */
        gy_root root = in->roots[i];
        const gy_graph_node *node = gy_graph_at(in, root.value);
        gy_value value;
        bool is_assign = node->op == &gy_op_assign;
        GY_TRY(settle(state, is_assign ? node->inputs[1] : root.value, &value));
        root.value = value;
        GY_TRY(gy_graph_add_root(out, &root));
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        const gy_graph_node *node = gy_graph_at(in, in->roots[i].value);
        if (node->op != &gy_op_assign) {
            continue;
        }
        gy_value *root = &out->roots[i].value;
        if (!state->emitted[in->roots[i].value.node]) {
            const gy_value inputs[2] = {gy_pass_get(&state->pass, node->inputs[0]), *root};
            *root = gy_graph_apply_typed(out, node->op, &node->attributes, inputs, 2,
                                         node->types, node->output_count, node->name);
            GY_TRY(gy_graph_status(out));
            gy_pass_set(&state->pass, in->roots[i].value, *root);
            state->emitted[in->roots[i].value.node] = true;
        } else {
            *root = gy_pass_get(&state->pass, in->roots[i].value);
        }
    }
    return GY_OK;
}

static gy_status emit_all(order *state)
{
    const gy_graph *in = state->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        if (in->nodes[i].op == &gy_op_assign) {
            state->assigned[memory_of(in, in->nodes[i].inputs[0])] = true;
        } else if (!state->emitted[i]) {
            GY_TRY(emit(state, i));
        }
    }
    return emit_assignments(state);
}

gy_status gy_schedule(const gy_graph *in, gy_graph **out)
{
    order state = {.emitted = NULL};
    GY_TRY(gy_pass_begin(&state.pass, in));
    state.emitted = gy_alloc_zero("graph.schedule", (size_t)in->node_count, sizeof(bool));
    state.assigned = gy_alloc_zero("graph.schedule", (size_t)in->node_count, sizeof(bool));
    gy_status status =
        state.emitted == NULL || state.assigned == NULL ? GY_NOMEM : emit_all(&state);
    gy_free(state.emitted);
    gy_free(state.assigned);
    return gy_pass_end(&state.pass, status, out);
}
