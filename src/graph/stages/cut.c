/*
 * The part of a scheduled graph that this rank's stage has. A value that another stage wants is
 * sent by its maker, right where it is made, and received there at the same place in the order
 * of the whole graph; an edge over several stages goes straight.
 *
 * All stages walk one order, in which every receive stands behind its send. A rank that would
 * do one node after the other and wait for each message would end so, whichever nodes are its
 * own: of all ranks that wait, the one with the first message in that order waits for one that
 * is sent already. The engine, which only waits for what a node reads, waits for less.
 * Exchanges of a stage have numbers in this order, which the passes to come keep.
 *
 * Where the graph says which root is the loss, messages say to which pass they belong, by what
 * their makers and users do: the loss needs the forward pass, all else is the backward pass.
 * A stage then runs whole, so an edge may go forward upwards and backward downwards alone.
 *
 * The ranks of a line along `pipe` have the same coordinates along the other axes, so that each
 * part of a value goes to the rank with the same part, and a summand to the rank that has it.
 */
#include "graph/stages/stages.h"

#include <stdio.h>

typedef struct cutter {
    gy_pass pass;
    gy_stages stages;
    int rank;
    gy_stage_set mine; /* stages of this rank */
    int32_t next;      /* number of the next exchange */
    int32_t messages;  /* of all ranks, so far */
    bool *is_forward;  /* node of `in`: the loss needs it; without a loss all are */
    bool *is_read;     /* value number of `in`, of those made away: a forward node of this rank
                          reads it */
} cutter;

static void number(cutter *c, gy_value made)
{
    if (!gy_value_is_none(made)) {
        GY_ASSERT((gy_graph_at(c->pass.out, made)->op->flags & GY_OP_COLLECTIVE) != 0);
        c->pass.out->nodes[made.node].origin = -2 - c->next++;
    }
}

/* The tag is the value's number, which both ranks know. */
static gy_attributes message_of(const cutter *c, gy_value in, int peer, int to)
{
    const gy_stages *stages = &c->stages;
    const gy_mesh *mesh = &c->pass.in->mesh;
    const gy_stage_set want =
        stages->need[gy_graph_value(c->pass.in, in)] & gy_mesh_stages_of(mesh, to);
    gy_attributes attributes = {.bytes = {0}};
    GY_ASSERT(peer >= 0 && peer < mesh->stages && peer != c->rank && want != 0);
    attributes.message.peer = peer;
    attributes.message.tag = gy_graph_value(c->pass.in, in);
    attributes.message.number = c->messages;
    attributes.message.from = (int16_t)gy_stage_lowest(stages->made[in.node]);
    attributes.message.is_made_backward = !c->is_forward[in.node];
    attributes.message.is_wanted_backward =
        to != c->rank || !c->is_read[attributes.message.tag];
    attributes.message.to =
        (int16_t)(attributes.message.is_wanted_backward ? gy_stage_highest(want)
                                                        : gy_stage_lowest(want));
    return attributes;
}

static void send(cutter *c, gy_value in, int to)
{
    const gy_attributes attributes = message_of(c, in, to, to);
    const gy_value value = gy_pass_get(&c->pass, in);
    GY_ASSERT(c->pass.out->failure.status < 0 || !gy_value_is_none(value));
    const gy_type nothing = {.dtype = GY_U8};
    char name[160];
    snprintf(name, sizeof(name), "%.120s.send%d", gy_graph_at(c->pass.in, in)->name, to);
    number(c, gy_graph_apply_typed(c->pass.out, &gy_ops_row_send, &attributes, &value, 1,
                                   &nothing, 1, name));
}

static void receive(cutter *c, gy_value in, int from)
{
    const gy_attributes attributes = message_of(c, in, from, c->rank);
    GY_ASSERT(gy_value_is_none(gy_pass_get(&c->pass, in)));
    char name[160];
    snprintf(name, sizeof(name), "%.120s.receive%d", gy_graph_at(c->pass.in, in)->name, from);
    const gy_value made = gy_graph_apply_typed(c->pass.out, &gy_ops_row_receive, &attributes,
                                               NULL, 0, gy_graph_type(c->pass.in, in), 1, name);
    number(c, made);
    gy_pass_set(&c->pass, in, made);
}

/* All ranks but its makers that want the value get it from the first of those. */
static void cross(cutter *c, gy_value in)
{
    const gy_mesh *mesh = &c->pass.in->mesh;
    const gy_stage_set made = c->stages.made[in.node];
    const gy_stage_set need = c->stages.need[gy_graph_value(c->pass.in, in)];
    if ((need & ~made) == 0) {
        return;
    }
    GY_ASSERT(made != 0);
    const int maker = gy_mesh_stage_rank(mesh, gy_stage_lowest(made));
    for (int to = 0; to < mesh->stages; to++) {
        const gy_stage_set there = gy_mesh_stages_of(mesh, to);
        if ((need & there) == 0 || (made & there) != 0) {
            continue;
        }
        if (maker == c->rank) {
            send(c, in, to);
        } else if (to == c->rank) {
            receive(c, in, maker);
        }
        c->messages++;
    }
}

static gy_status cut_node(cutter *c, int32_t index)
{
    const gy_graph_node *node = &c->pass.in->nodes[index];
    GY_ASSERT(c->rank >= 0 && c->rank < c->pass.in->mesh.stages);
    if ((c->stages.made[index] & c->mine) != 0) {
        const gy_value made = gy_pass_copy(&c->pass, index);
        if ((node->op->flags & GY_OP_COLLECTIVE) != 0) {
            number(c, made);
        }
    }
    for (int32_t k = 0; k < node->output_count && (node->op->flags & GY_OP_EFFECT) == 0; k++) {
        cross(c, (gy_value){index, k});
    }
    return gy_graph_status(c->pass.out);
}

/* An assignment of other stages alone has no value here: something stands for it. */
static gy_status cut_roots(cutter *c)
{
    const gy_graph *in = c->pass.in;
    gy_attributes nothing = {.bytes = {0}};
    GY_ASSERT(c->pass.out->root_count == 0);
    nothing.shape.dtype = GY_U8;
    for (int32_t i = 0; i < in->root_count; i++) {
        gy_root root = in->roots[i];
        root.value = gy_pass_get(&c->pass, root.value);
        if (gy_value_is_none(root.value)) {
            GY_ASSERT((gy_graph_at(in, in->roots[i].value)->op->flags & GY_OP_EFFECT) != 0);
            root.is_elsewhere = true;
            root.value = gy_graph_apply(c->pass.out, &gy_ops_row_fill, &nothing, NULL, 0, NULL);
            GY_TRY(gy_graph_status(c->pass.out));
        }
        GY_TRY(gy_graph_add_root(c->pass.out, &root));
    }
    return GY_OK;
}

/* ---- passes of a pipeline ---- */

/* What the loss does not need, yet follows from what the forward pass has made up to its stage
 * (a mask of a gradient), runs in the forward pass where a later stage reads it. */
static void find_early(const cutter *c, bool *is_early, bool *is_wanted)
{
    const gy_graph *in = c->pass.in;
    const gy_stages *stages = &c->stages;
    GY_ASSERT(is_early != is_wanted);
    for (int32_t i = 0; i < in->node_count; i++) {
        is_early[i] = true;
        for (int k = 0; k < in->nodes[i].input_count && !c->is_forward[i]; k++) {
            const int32_t maker = in->nodes[i].inputs[k].node;
            is_early[i] = is_early[i] && is_early[maker] && stages->of[maker] <= stages->of[i];
            is_wanted[maker] = is_wanted[maker] || (!c->is_forward[maker] && is_early[maker] &&
                                                    stages->of[maker] < stages->of[i]);
        }
    }
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        GY_ASSERT(!is_wanted[i] || is_early[i]);
        for (int k = 0; k < in->nodes[i].input_count && is_wanted[i]; k++) {
            is_wanted[in->nodes[i].inputs[k].node] = true;
        }
    }
}

/* What the loss needs. */
static gy_status find_forward(cutter *c)
{
    const gy_graph *in = c->pass.in;
    GY_ASSERT(in->loss >= 0 && in->loss <= in->root_count);
    for (int32_t i = in->node_count - 1; i >= 0; i--) {
        c->is_forward[i] =
            c->is_forward[i] || in->loss == 0 || i == in->roots[in->loss - 1].value.node;
        for (int k = 0; k < in->nodes[i].input_count && c->is_forward[i]; k++) {
            c->is_forward[in->nodes[i].inputs[k].node] = true;
        }
    }
    bool *is_early = gy_arena_alloc(&c->stages.arena, (size_t)in->node_count + 1);
    bool *is_wanted = gy_arena_alloc(&c->stages.arena, (size_t)in->node_count + 1);
    if (is_early == NULL || is_wanted == NULL) {
        return GY_NOMEM;
    }
    find_early(c, is_early, is_wanted);
    for (int32_t i = 0; i < in->node_count; i++) {
        c->is_forward[i] = c->is_forward[i] || is_wanted[i];
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        const bool is_here = c->is_forward[i] && (c->stages.made[i] & c->mine) != 0;
        for (int k = 0; k < in->nodes[i].input_count && is_here; k++) {
            c->is_read[gy_graph_value(in, in->nodes[i].inputs[k])] = true;
        }
    }
    return GY_OK;
}

/* Would the stages run whole? */
static gy_status check_edges(const cutter *c)
{
    const gy_graph *in = c->pass.in;
    const gy_stages *stages = &c->stages;
    for (int32_t i = 0; i < in->node_count && in->loss > 0; i++) {
        const gy_graph_node *node = &in->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            const int32_t maker = node->inputs[k].node;
            const int from = stages->of[maker], to = stages->of[i];
            const bool is_one =
                stages->kind[i] == GY_STAGE_ONE && stages->kind[maker] == GY_STAGE_ONE;
            if (!is_one || from < 0 || to < 0 || from == to ||
                c->is_forward[i] != c->is_forward[maker]) {
                continue;
            }
            if (c->is_forward[i] ? from > to : from < to) {
                return gy_fail(GY_ARG,
                               "micro-batches: in the %s pass stage %d reads %s of stage %d, "
                               "for node %s: stages that run whole cannot; choose another cut, "
                               "or run without micro-batches",
                               c->is_forward[i] ? "forward" : "backward", to,
                               in->nodes[maker].name, from, node->name);
            }
        }
    }
    return GY_OK;
}

static gy_status cut_all(cutter *c)
{
    const gy_graph *in = c->pass.in;
    const size_t nodes = (size_t)in->node_count + 1, values = (size_t)in->value_count + 1;
    GY_ASSERT(c->messages == 0 && c->next == 0);
    gy_arena *arena = &c->stages.arena;
    c->is_forward = gy_arena_alloc(arena, nodes * sizeof(bool));
    c->is_read = gy_arena_alloc(arena, values * sizeof(bool));
    if (c->is_forward == NULL || c->is_read == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(find_forward(c));
    GY_TRY(check_edges(c));
    for (int32_t i = 0; i < in->node_count; i++) {
        GY_TRY(cut_node(c, i));
    }
    return cut_roots(c);
}

gy_status gy_stages_cut(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->is_placed && in->mesh.stages > 1);
    cutter c = {.rank = in->mesh.stage, .mine = gy_mesh_stages_of(&in->mesh, in->mesh.stage)};
    GY_TRY(gy_pass_begin(&c.pass, in));
    gy_status status = gy_stages_find(in, &c.stages);
    status = status >= 0 ? cut_all(&c) : status;
    gy_stages_free(&c.stages);
    return gy_pass_end(&c.pass, status, out);
}
