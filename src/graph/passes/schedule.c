/*
 * The order in which tasks are pushed: that of the nodes, but a collective right after what it
 * waits for (so that it overlaps all that follows and its number comes early), unless the
 * reshard pass chose its place or it is one of a copy (recompute), and assignments last (after
 * all reads of the old value). What a fetch or an assignment reads of a parameter that is
 * assigned is copied first.
 *
 * Run right after placement it numbers the collectives; run again at the end, when passes that
 * look at this rank's sizes have been at the graph, it keeps that order, so that all ranks
 * agree.
 */
#include "graph/graph_priv.h"

#include <stdio.h>
#include <string.h>

typedef struct order {
    gy_pass pass;
    bool *entered, *emitted; /* node of `in`: what stands before it is sought, it stands */
    bool *timed;             /* node of `in`: a collective that stays where it stands */
    bool *assigned;          /* node of `in`: a parameter that an assignment changes */
    int32_t *collectives;    /* number -> node of `in`; -1: none has it */
    int32_t *first, *after;  /* node -> the first collective that reads it, the next one; -1 */
    int32_t next;            /* number of the next collective */
} order;

/* Origins of collectives are numbers: -2 is the first, -1 has none yet. */
static int32_t number_of(const gy_graph_node *node)
{
    GY_ASSERT((node->op->flags & GY_OP_COLLECTIVE) != 0);
    return -2 - node->origin;
}

static bool is_collective(const gy_graph_node *node)
{
    return (node->op->flags & GY_OP_COLLECTIVE) != 0;
}

/* The leaf whose memory a value is, through views. */
static int32_t memory_of(const gy_graph *graph, gy_value value)
{
    const gy_graph_node *node = gy_graph_at(graph, value);
    while ((node->op->flags & GY_OP_VIEW) != 0) {
        GY_ASSERT(node->input_count >= 1 && node->inputs[0].node < value.node);
        value = node->inputs[0];
        node = gy_graph_at(graph, value);
    }
    return value.node;
}

static gy_status emit(order *state, int32_t index);

/* What must stand before the node: its inputs, and collectives with smaller numbers. */
static gy_status emit_before(order *state, int32_t index)
{
    GY_ASSERT(state->entered[index] && !state->emitted[index]);
    const gy_graph_node *node = &state->pass.in->nodes[index];
    for (int i = 0; i < node->input_count; i++) {
        GY_TRY(emit(state, node->inputs[i].node));
    }
    while (is_collective(node) && state->next < number_of(node)) {
        GY_ASSERT(state->next >= 0 && number_of(node) < state->pass.in->node_count);
        const int32_t earlier = state->collectives[state->next];
        if (earlier < 0) {
            return gy_fail(GY_STATE, "collective %s is number %d, and none is number %d",
                           node->name, (int)number_of(node), (int)state->next);
        }
        GY_TRY(emit(state, earlier));
    }
    return GY_OK;
}

/* Nothing that it reads is still to come; a receive reads nothing. */
static bool is_ready(const order *state, int32_t index)
{
    const gy_graph_node *node = &state->pass.in->nodes[index];
    GY_ASSERT(is_collective(node) && node->input_count <= 1);
    return node->input_count == 0 || state->emitted[node->inputs[0].node];
}

/* Collectives that wait for this node alone, when it is their turn. */
static gy_status emit_ready(order *state, int32_t index)
{
    GY_ASSERT(state->emitted[index]);
    const gy_graph *in = state->pass.in;
    for (int32_t i = state->first[index]; i >= 0; i = state->after[i]) {
        if (!state->entered[i] && number_of(&in->nodes[i]) <= state->next) {
            GY_TRY(emit(state, i));
        }
    }
    GY_ASSERT(state->next <= in->node_count);
    int32_t next = state->collectives[state->next];
    if (next >= 0 && !state->timed[next] && !state->entered[next] && is_ready(state, next)) {
        return emit(state, next);
    }
    return GY_OK;
}

static gy_status emit(order *state, int32_t index)
{
    GY_ASSERT(index >= 0 && index < state->pass.in->node_count);
    const gy_graph_node *node = &state->pass.in->nodes[index];
    if (state->emitted[index]) {
        return GY_OK;
    }
    if (state->entered[index]) {
        return gy_fail(GY_STATE,
                       "node %s waits for itself: the numbers of collectives do not "
                       "follow what they read",
                       node->name);
    }
    state->entered[index] = true;
    GY_TRY(emit_before(state, index));
    state->emitted[index] = true;
    gy_value copy = gy_pass_copy(&state->pass, index);
    GY_TRY(gy_graph_status(state->pass.out));
    if (is_collective(node)) {
        GY_ASSERT(number_of(node) == state->next || number_of(node) == -1);
        state->pass.out->nodes[copy.node].origin = -2 - state->next++;
    }
    return emit_ready(state, index);
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
    *out = gy_graph_apply_typed(graph, &gy_ops_row_identity, NULL, out, 1, &type, 1, name);
    return gy_graph_status(graph);
}

static gy_status emit_assignments(order *state)
{
    GY_ASSERT(state->pass.out->root_count == 0);
    const gy_graph *in = state->pass.in;
    gy_graph *out = state->pass.out;
    for (int32_t i = 0; i < in->root_count; i++) { /* copies stand before all assignments */
        gy_root root = in->roots[i];
        const gy_graph_node *node = gy_graph_at(in, root.value);
        gy_value value;
        bool is_assign = node->op == &gy_ops_row_assign;
        GY_TRY(settle(state, is_assign ? node->inputs[1] : root.value, &value));
        GY_ASSERT(!gy_value_is_none(value));
        root.value = value;
        GY_TRY(gy_graph_add_root(out, &root));
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        const gy_graph_node *node = gy_graph_at(in, in->roots[i].value);
        if (node->op != &gy_ops_row_assign) {
            continue;
        }
        GY_ASSERT(out->root_count == in->root_count);
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
    GY_ASSERT(state->next == 0);
    const gy_graph *in = state->pass.in;
    for (int32_t i = 0; i <= in->node_count; i++) {
        state->collectives[i] = state->first[i] = state->after[i] = -1;
    }
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        if (!is_collective(&in->nodes[i])) {
            continue;
        }
        state->timed[i] = gy_memory_is_gather(in, i) || in->nodes[i].mark.is_again;
        if (!state->timed[i] && in->nodes[i].input_count > 0) {
            int32_t *first = &state->first[in->nodes[i].inputs[0].node];
            state->after[i] = *first;
            *first = i;
        }
        if (number_of(&in->nodes[i]) >= 0) {
            GY_ASSERT(number_of(&in->nodes[i]) < in->node_count);
            GY_ASSERT(state->collectives[number_of(&in->nodes[i])] == -1);
            state->collectives[number_of(&in->nodes[i])] = i;
        }
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        if (in->nodes[i].op == &gy_ops_row_assign) {
            const int32_t parameter = memory_of(in, in->nodes[i].inputs[0]);
            GY_ASSERT(in->nodes[parameter].op == &gy_ops_row_parameter);
            if (state->assigned[parameter]) {
                return gy_fail(GY_ARG, "parameter %s is assigned twice in one run",
                               in->nodes[parameter].name);
            }
            state->assigned[parameter] = true;
        } else {
            GY_TRY(emit(state, i));
        }
    }
    return emit_assignments(state);
}

gy_status gy_schedule(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->is_placed);
    order state = {.emitted = NULL};
    const size_t nodes = (size_t)in->node_count + 1;
    GY_TRY(gy_pass_begin(&state.pass, in));
    gy_arena arena = {0};
    state.entered = gy_arena_alloc(&arena, nodes * sizeof(bool));
    state.emitted = gy_arena_alloc(&arena, nodes * sizeof(bool));
    state.timed = gy_arena_alloc(&arena, nodes * sizeof(bool));
    state.assigned = gy_arena_alloc(&arena, nodes * sizeof(bool));
    state.collectives = gy_arena_alloc(&arena, nodes * sizeof(int32_t));
    state.first = gy_arena_alloc(&arena, nodes * sizeof(int32_t));
    state.after = gy_arena_alloc(&arena, nodes * sizeof(int32_t));
    bool is_there = state.entered != NULL && state.emitted != NULL && state.timed != NULL &&
                    state.assigned != NULL && state.collectives != NULL &&
                    state.first != NULL && state.after != NULL;
    gy_status status = is_there ? emit_all(&state) : GY_NOMEM;
    gy_arena_free(&arena);
    return gy_pass_end(&state.pass, status, out);
}

/* ---- priorities ---- */

/* Of each node the first send that depends on it; `nodes`: none does. */
static void find_sends(const gy_graph *graph, int32_t *first)
{
    const int32_t nodes = graph->node_count;
    GY_ASSERT(nodes >= 0);
    for (int32_t i = 0; i < nodes; i++) {
        first[i] = nodes;
    }
    for (int32_t i = nodes - 1; i >= 0; i--) {
        const gy_graph_node *node = &graph->nodes[i];
        const int32_t send = node->op == &gy_ops_row_send ? i : first[i];
        for (int k = 0; k < node->input_count; k++) {
            GY_ASSERT(node->inputs[k].node < i);
            first[node->inputs[k].node] = GY_MIN(first[node->inputs[k].node], send);
        }
    }
}

gy_status gy_graph_prioritize(const gy_graph *graph, int32_t *priorities)
{
    const int32_t nodes = graph->node_count;
    const size_t room = (size_t)nodes + 2;
    int32_t *first = gy_alloc("graph.priorities", room * sizeof(*first));
    /* send -> how many nodes stand before those that it is the first send of */
    int32_t *before = gy_alloc_zero("graph.priorities", room, sizeof(*before));
    const bool is_there = first != NULL && before != NULL;
    GY_ASSERT(graph->is_placed);
    if (is_there) {
        find_sends(graph, first);
        for (int32_t i = 0; i < nodes; i++) {
            before[first[i] + 1]++;
        }
        for (int32_t send = 0; send < nodes; send++) {
            before[send + 1] += before[send];
        }
        for (int32_t i = 0; i < nodes; i++) {
            priorities[i] = nodes - before[first[i]]++;
        }
        for (int32_t i = 0; i < nodes; i++) {
            const gy_graph_node *node = &graph->nodes[i];
            if (is_collective(node) && node->input_count > 0) {
                int32_t *read = &priorities[node->inputs[0].node];
                *read += *read > nodes ? 0 : nodes;
            }
        }
    }
    gy_free(first);
    gy_free(before);
    return is_there ? GY_OK : GY_NOMEM;
}
