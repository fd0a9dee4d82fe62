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
 * The ranks of a line along `pipe` have the same coordinates along the other axes, so that each
 * part of a value goes to the rank with the same part, and a summand to the rank that has it.
 */
#include "graph/stages/stages.h"

#include <stdio.h>

typedef struct cutter {
    gy_pass pass;
    gy_stages stages;
    int stage;
    int32_t next; /* number of the next exchange */
} cutter;

static void number(cutter *c, gy_value made)
{
    if (!gy_value_is_none(made)) {
        GY_ASSERT((gy_graph_at(c->pass.out, made)->op->flags & GY_OP_COLLECTIVE) != 0);
        c->pass.out->nodes[made.node].origin = -2 - c->next++;
    }
}

/* The tag is the value's number, which both stages know. */
static gy_attributes message_of(const cutter *c, gy_value in, int peer)
{
    gy_attributes attributes = {.bytes = {0}};
    GY_ASSERT(peer >= 0 && peer < c->pass.in->mesh.stages && peer != c->stage);
    attributes.message.peer = peer;
    attributes.message.tag = gy_graph_value(c->pass.in, in);
    return attributes;
}

static void send(cutter *c, gy_value in, int to)
{
    const gy_attributes attributes = message_of(c, in, to);
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
    const gy_attributes attributes = message_of(c, in, from);
    GY_ASSERT(gy_value_is_none(gy_pass_get(&c->pass, in)));
    char name[160];
    snprintf(name, sizeof(name), "%.120s.receive%d", gy_graph_at(c->pass.in, in)->name, from);
    const gy_value made = gy_graph_apply_typed(c->pass.out, &gy_ops_row_receive, &attributes,
                                               NULL, 0, gy_graph_type(c->pass.in, in), 1, name);
    number(c, made);
    gy_pass_set(&c->pass, in, made);
}

/* All stages but its makers that want the value get it from the first of those. */
static void cross(cutter *c, gy_value in)
{
    const gy_stage_set made = c->stages.made[in.node];
    const gy_stage_set away = c->stages.need[gy_graph_value(c->pass.in, in)] & ~made;
    if (away == 0) {
        return;
    }
    GY_ASSERT(made != 0);
    const int maker = gy_stage_lowest(made);
    for (int to = 0; to < c->pass.in->mesh.stages; to++) {
        if ((away >> to & 1) != 0 && maker == c->stage) {
            send(c, in, to);
        } else if ((away >> to & 1) != 0 && to == c->stage) {
            receive(c, in, maker);
        }
    }
}

static gy_status cut_node(cutter *c, int32_t index)
{
    const gy_graph_node *node = &c->pass.in->nodes[index];
    GY_ASSERT(c->stage >= 0 && c->stage < c->pass.in->mesh.stages);
    if ((c->stages.made[index] & gy_stage_bit(c->stage)) != 0) {
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

gy_status gy_stages_cut(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->is_placed && in->mesh.stages > 1);
    cutter c = {.stage = in->mesh.stage};
    GY_TRY(gy_pass_begin(&c.pass, in));
    gy_status status = gy_stages_find(in, &c.stages);
    for (int32_t i = 0; i < in->node_count && status >= 0; i++) {
        status = cut_node(&c, i);
    }
    status = status >= 0 ? cut_roots(&c) : status;
    gy_stages_free(&c.stages);
    return gy_pass_end(&c.pass, status, out);
}
