/*
 * From the user's graph to one that can be compiled: what the fetches need, numbers for the
 * batch, the mesh, and where values must begin (inputs) and end (roots).
 */
#include "graph/graph_priv.h"

#include <string.h>

/* needed[node] for everything that the roots (or fetches) reach; inputs stand before users. */
static void mark_needed(const gy_graph *graph, bool *needed)
{
    GY_ASSERT(graph->node_count == 0 || needed != NULL);
    for (int32_t i = graph->node_count - 1; i >= 0; i--) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int k = 0; needed[i] && k < node->input_count; k++) {
            GY_ASSERT(node->inputs[k].node < i);
            needed[node->inputs[k].node] = true;
        }
    }
}

gy_status gy_rewrite_dead(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->batch > 0);
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    bool *needed = gy_alloc_zero("graph.needed", (size_t)in->node_count, sizeof(bool));
    if (needed == NULL) {
        return gy_pass_end(&pass, GY_NOMEM, out);
    }
    for (int32_t i = 0; i < in->node_count; i++) { /* another stage waits for it */
        needed[i] = in->nodes[i].op == &gy_ops_row_send;
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        needed[in->roots[i].value.node] = true;
    }
    mark_needed(in, needed);
    for (int32_t i = 0; i < in->node_count; i++) {
        if (needed[i]) {
            gy_pass_copy(&pass, i);
        }
    }
    gy_free(needed);
    return gy_pass_end(&pass, GY_OK, out);
}

/* A used assignment is the value it assigns. */
static gy_value used(const gy_pass *pass, gy_value in)
{
    gy_value value = gy_pass_get(pass, in);
    while (!gy_value_is_none(value) &&
           gy_graph_at(pass->out, value)->op == &gy_ops_row_assign) {
        value = gy_graph_at(pass->out, value)->inputs[1];
    }
    return value;
}

/* Its first size is symbolic: its rows are shared out over the data axis. */
static bool is_batched(const gy_graph *out, const gy_type *type)
{
    GY_ASSERT(out->mesh.axes > 0);
    return gy_mesh_row_ranks(&out->mesh) > 1 && type->rank > 0 && type->sizes[0] < 0;
}

/* A value that gy_pin keeps somewhere is followed by a node that says so to the placement: its
 * users, fetches too, read that. Along an axis of one rank there is nothing to say. */
static void bind_pins(gy_pass *pass, int32_t index, gy_value value)
{
    GY_ASSERT(index >= 0 && index < pass->in->node_count);
    const gy_graph_node *node = &pass->in->nodes[index];
    const gy_mesh *mesh = &pass->out->mesh;
    gy_attributes attributes = {.bytes = {0}};
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (mesh->sizes[axis] > 1 && (node->pinned_kinds >> mesh->kinds[axis] & 1) != 0) {
            attributes.pin.axes |= (uint8_t)(1u << axis);
            attributes.pin.to[axis] = node->pins[mesh->kinds[axis]];
        }
    }
    if (attributes.pin.axes != 0) {
        value = gy_graph_apply(pass->out, &gy_ops_row_pin, &attributes, &value, 1, node->name);
        gy_pass_set(pass, (gy_value){index, 0}, value);
    }
}

/* Of a value whose first size is the batch, or a multiple of it; 0: of another. */
static int64_t row_elements(const gy_type *type)
{
    const int64_t count = type->rank > 0 && type->sizes[0] < 0 ? gy_type_count(type) : 0;
    GY_ASSERT(count <= 0 && count > INT64_MIN);
    return -count;
}

/* Rows of a parameter that are taken for the batch: the values of it are cut as fed ones are.
 */
static void mark_batched(gy_pass *pass, const gy_graph_node *node)
{
    const gy_type *type = gy_graph_type(pass->in, node->inputs[0]);
    const gy_value input = gy_pass_get(pass, node->inputs[0]);
    GY_ASSERT(node->op == &gy_ops_row_reshape);
    if (type->rank > 0 && type->sizes[0] >= 0 && node->types[0].rank > 0 &&
        node->types[0].sizes[0] < 0 && !gy_value_is_none(input) &&
        gy_graph_at(pass->out, input)->op == &gy_ops_row_parameter) {
        pass->out->nodes[input.node].attributes.shape.is_batched = true;
    }
}

/* A parameter with a row for each of the batch: as what is fed; fetched itself, whole. */
static void bind_rows(gy_graph *out, gy_graph_node *made, const gy_graph_node *node,
                      bool is_fetched)
{
    gy_type type = gy_graph_parameter_type(&out->mesh, node);
    GY_ASSERT(gy_graph_has_rows(node) && type.rank >= 1);
    made->attributes.shape.sizes[0] = type.sizes[0];
    if (!is_fetched) {
        made->attributes.shape.is_batched = true;
        made->attributes.shape.sizes[0] = type.sizes[0] = out->batch;
        if (is_batched(out, &node->types[0])) {
            type.placement[gy_mesh_data_axis(&out->mesh)] =
                (gy_placement){.kind = GY_SHARD, .dim = 0};
        }
    }
    made->types[0] = type;
}

static void bind_node(gy_pass *pass, int32_t index, int64_t batch, bool is_fetched)
{
    GY_ASSERT(batch > 0 && index >= 0 && index < pass->in->node_count);
    const gy_graph_node *node = &pass->in->nodes[index];
    gy_attributes attributes = node->attributes;
    if (node->op->bind != NULL) {
        node->op->bind(&attributes, batch);
    }
    if (node->op == &gy_ops_row_dropout) {
        attributes.dropout.row = row_elements(&node->types[0]);
    }
    if (node->op == &gy_ops_row_input) {
        attributes.shape.is_batched = node->types[0].rank > 0 && node->types[0].sizes[0] < 0;
    }
    gy_value inputs[GY_OP_INPUTS_MAX];
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = used(pass, node->inputs[k]);
    }
    gy_value value =
        gy_graph_apply(pass->out, node->op, &attributes, inputs, node->input_count, node->name);
    if (gy_value_is_none(value)) {
        return; /* the graph keeps the failure */
    }
    gy_graph_node *made = &pass->out->nodes[value.node];
    GY_ASSERT(made->output_count == node->output_count);
    made->origin = index;
    made->homes = node->homes;
    made->home = node->home;
    made->mark = pass->in->nodes[node->mark.source].mark;
    made->mark.is_gradient = node->mark.is_gradient;
    if (node->mark.by_hand != 0) {
        made->mark.by_hand = node->mark.by_hand;
    }
    if (node->mark.precision != GY_DTYPE_NONE) {
        made->mark.precision = node->mark.precision;
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        gy_pass_set(pass, (gy_value){index, k}, (gy_value){value.node, k});
    }
    if (gy_graph_has_rows(node)) {
        bind_rows(pass->out, made, node, is_fetched);
    } else if (node->op == &gy_ops_row_parameter) {
        made->types[0] = gy_graph_parameter_type(&pass->out->mesh, node);
    }
    if (node->op == &gy_ops_row_reshape) {
        mark_batched(pass, node);
    }
    if (node->op == &gy_ops_row_input && is_batched(pass->out, &node->types[0])) {
        made->types[0].placement[gy_mesh_data_axis(&pass->out->mesh)] =
            (gy_placement){.kind = GY_SHARD, .dim = 0};
    }
    if (node->op != &gy_ops_row_parameter && node->pinned_kinds != 0) {
        bind_pins(pass, index, value);
    }
}

static gy_status bind_roots(gy_pass *pass, const gy_value *fetches, int fetch_count)
{
    GY_ASSERT(fetch_count == 0 || fetches != NULL);
    for (int i = 0; i < fetch_count; i++) {
        const gy_type *type = gy_graph_type(pass->in, fetches[i]);
        gy_root root = {.value = gy_pass_get(pass, fetches[i])};
        if (gy_value_is_none(root.value)) {
            return gy_graph_status(pass->out);
        }
        if (is_batched(pass->out, type) &&
            !gy_graph_has_rows(gy_graph_at(pass->in, fetches[i]))) {
            root.placement[gy_mesh_data_axis(&pass->out->mesh)] =
                (gy_placement){.kind = GY_SHARD, .dim = 0};
        }
        GY_TRY(gy_graph_add_root(pass->out, &root));
    }
    return GY_OK;
}

/* Each value has at most 2^62 bytes (gy_ops_infer). Of all together no count may overflow
 * either, wherever passes add some of them up. */
static gy_status check_bytes(const gy_graph *graph)
{
    static const double bytes_max = 0x1p60;
    double bytes = 0;
    GY_ASSERT(graph->batch > 0);
    for (int32_t i = 0; i < graph->node_count; i++) {
        const gy_graph_node *node = &graph->nodes[i];
        for (int k = 0; k < node->output_count; k++) {
            const gy_type *type = &node->types[k];
            bytes += (double)gy_type_count(type) * (double)gy_dtype_bytes(type->dtype);
            if (bytes > bytes_max) {
                char text[160];
                return gy_fail(GY_SHAPE,
                               "node %s: with %s the values of the graph have more than 2^60 "
                               "bytes",
                               node->name, gy_type_text(type, text));
            }
        }
    }
    return GY_OK;
}

static bool is_fetched(int32_t index, const gy_value *fetches, int fetch_count)
{
    GY_ASSERT(index >= 0 && fetch_count >= 0);
    for (int i = 0; i < fetch_count; i++) {
        if (fetches[i].node == index) {
            return true;
        }
    }
    return false;
}

gy_status gy_bind(const gy_graph *in, const gy_mesh *mesh, int64_t batch,
                  const gy_value *fetches, int fetch_count, gy_graph **out)
{
    GY_ASSERT(batch > 0 && in->batch == 0 && mesh->axes >= 1 && mesh->axes <= GY_MESH_MAX);
    GY_ASSERT(in->root_count == 0 && !in->is_placed);
    GY_ASSERT(fetch_count >= 0);
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    pass.out->batch = batch;
    pass.out->mesh = *mesh;
    bool *needed = gy_alloc_zero("graph.needed", (size_t)in->node_count, sizeof(bool));
    if (needed == NULL) {
        return gy_pass_end(&pass, GY_NOMEM, out);
    }
    for (int i = 0; i < fetch_count; i++) {
        GY_ASSERT(fetches[i].node >= 0 && fetches[i].node < in->node_count);
        needed[fetches[i].node] = true;
    }
    mark_needed(in, needed);
    for (int32_t i = 0; i < in->node_count; i++) {
        if (needed[i]) {
            bind_node(&pass, i, batch, is_fetched(i, fetches, fetch_count));
        }
    }
    gy_free(needed);
    gy_status status = bind_roots(&pass, fetches, fetch_count);
    if (status >= 0 && gy_graph_status(pass.out) >= 0) {
        status = check_bytes(pass.out);
    }
    return gy_pass_end(&pass, status, out);
}
