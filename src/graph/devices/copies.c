/*
 * The nodes of a device, with copies where values go there or come back: one of each value for
 * all its readers, before the first of them. A view of a copied value is a view of the copy.
 * One value in all elements is not copied: it is made on the other side as well.
 */
#include "graph/devices/devices.h"

#include <stdio.h>
#include <string.h>

typedef struct copying {
    gy_pass pass;
    bool *is_there;  /* node of `in` */
    gy_value *other; /* value number of `in` -> the same value on the other side */
} copying;

static bool is_there(const copying *c, gy_value value)
{
    GY_ASSERT(value.node >= 0 && value.node < c->pass.in->node_count);
    return c->is_there[value.node];
}

/* The node again, on the other side: a view of `input`, or a fill. */
static gy_value apply(copying *c, const gy_graph_node *from, gy_value input, bool lies_there)
{
    GY_ASSERT(from->output_count == 1 && from->input_count <= 1);
    const gy_value made = gy_graph_apply_typed(c->pass.out, from->op, &from->attributes, &input,
                                               from->input_count, from->types, 1, from->name);
    if (!gy_value_is_none(made)) {
        gy_graph_node *node = &c->pass.out->nodes[made.node];
        node->mark = from->mark;
        node->is_on_device = lies_there;
    }
    return made;
}

/* A value of `in` on the other side than its maker's. */
static gy_value copied(copying *c, gy_value in)
{
    gy_value *made = &c->other[gy_graph_value(c->pass.in, in)];
    const gy_graph_node *maker = gy_graph_at(c->pass.in, in);
    const bool goes_there = !is_there(c, in);
    if (!gy_value_is_none(*made)) {
        return *made;
    }
    if ((maker->op->flags & GY_OP_VIEW) != 0) {
        const gy_value base = copied(c, maker->inputs[0]);
        *made = gy_value_is_none(base) ? base : apply(c, maker, base, goes_there);
        return *made;
    }
    if (gy_devices_makes_again(c->pass.in, in.node)) {
        *made = apply(c, maker, GY_NO_VALUE, goes_there);
        return *made;
    }
    char name[160];
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    const gy_value value = gy_pass_get(&c->pass, in);
    const gy_type type = *gy_graph_type(c->pass.out, value);
    snprintf(name, sizeof(name), "%s %s", maker->name, goes_there ? "there" : "back");
    *made = gy_graph_apply_typed(c->pass.out,
                                 goes_there ? &gy_ops_row_to_device : &gy_ops_row_to_host,
                                 &attributes, &value, 1, &type, 1, name);
    if (!gy_value_is_none(*made)) {
        c->pass.out->nodes[made->node].mark = maker->mark;
        c->pass.out->nodes[made->node].is_on_device = goes_there;
    }
    return *made;
}

static gy_status move_node(copying *c, int32_t index)
{
    const gy_graph_node *node = &c->pass.in->nodes[index];
    gy_value inputs[GY_OP_INPUTS_MAX];
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = is_there(c, node->inputs[k]) == c->is_there[index]
                        ? gy_pass_get(&c->pass, node->inputs[k])
                        : copied(c, node->inputs[k]);
        GY_TRY(gy_graph_status(c->pass.out));
    }
    const gy_value value =
        gy_graph_apply_typed(c->pass.out, node->op, &node->attributes, inputs,
                             node->input_count, node->types, node->output_count, node->name);
    GY_TRY(gy_graph_status(c->pass.out));
    gy_graph_node *made = &c->pass.out->nodes[value.node];
    gy_graph_inherit(made, node);
    made->is_on_device = c->is_there[index];
    for (int32_t k = 0; k < node->output_count; k++) {
        gy_pass_set(&c->pass, (gy_value){index, k}, (gy_value){value.node, k});
    }
    return GY_OK;
}

/* What is fetched is the CPU's. */
static gy_status move_roots(copying *c)
{
    const gy_graph *in = c->pass.in;
    GY_ASSERT(c->pass.out->root_count == 0);
    for (int32_t i = 0; i < in->root_count; i++) {
        gy_root root = in->roots[i];
        const bool is_effect = gy_graph_at(in, root.value)->op == &gy_ops_row_assign;
        root.value = is_there(c, root.value) && !is_effect && !root.is_elsewhere
                         ? copied(c, root.value)
                         : gy_pass_get(&c->pass, root.value);
        GY_TRY(gy_graph_status(c->pass.out));
        GY_TRY(gy_graph_add_root(c->pass.out, &root));
    }
    return GY_OK;
}

static gy_status move_all(copying *c)
{
    GY_ASSERT(c->is_there != NULL && c->other != NULL);
    GY_TRY(gy_devices_choose(c->pass.in, c->is_there, &c->pass.out->share.short_bytes));
    for (int32_t i = 0; i < c->pass.in->node_count; i++) {
        GY_TRY(move_node(c, i));
    }
    return move_roots(c);
}

gy_status gy_pass_devices(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->is_placed && in->device != NULL);
    copying c = {.is_there = NULL};
    GY_TRY(gy_pass_begin(&c.pass, in));
    c.is_there = gy_alloc_zero("graph.devices", (size_t)in->node_count + 1, sizeof(bool));
    c.other = gy_alloc("graph.devices", ((size_t)in->value_count + 1) * sizeof(gy_value));
    for (int32_t i = 0; c.other != NULL && i < in->value_count; i++) {
        c.other[i] = GY_NO_VALUE;
    }
    const gy_status status = c.is_there != NULL && c.other != NULL ? move_all(&c) : GY_NOMEM;
    gy_free(c.is_there);
    gy_free(c.other);
    GY_TRY(gy_pass_end(&c.pass, status, out));
    (*out)->share = gy_devices_share(*out);
    return GY_OK;
}

void gy_devices_keep(const gy_graph *compiled, gy_device_home *homes)
{
    GY_ASSERT(compiled->is_placed && homes != NULL);
    for (int32_t i = 0; i < compiled->node_count; i++) {
        const gy_graph_node *node = &compiled->nodes[i];
        if (node->op == &gy_ops_row_parameter && node->origin >= 0) {
            const gy_device_home home = node->is_on_device ? GY_HOME_DEVICE : GY_HOME_CPU;
            gy_device_home *kept = &homes[node->origin];
            GY_ASSERT(*kept == GY_HOME_OPEN || *kept == home);
            *kept = home;
        }
    }
}
