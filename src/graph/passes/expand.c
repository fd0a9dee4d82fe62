/*
 * Rows that cannot run on parts (batch norm over a sharded batch: its statistics are of all
 * ranks), and rows that no kernel runs, are replaced by what their expansion makes, before
 * placement. What placement would rather have expanded along other axes comes later.
 */
#include "graph/graph_priv.h"

#include <stdio.h>
#include <string.h>

/* Which values will likely be sharded: those that depend on a sharded input with equal first
 * size. */
static bool is_row_sharded(const gy_graph *graph, const bool *sharded, gy_value value)
{
    return sharded[gy_graph_value(graph, value)];
}

static void mark_node(const gy_graph *in, int32_t index, bool *sharded)
{
    GY_ASSERT(index >= 0 && index < in->node_count);
    const gy_graph_node *node = &in->nodes[index];
    bool any = false;
    int64_t rows = -1;
    for (int k = 0; k < node->input_count; k++) {
        if (is_row_sharded(in, sharded, node->inputs[k])) {
            any = true;
            GY_ASSERT(gy_graph_type(in, node->inputs[k])->rank > 0);
            rows = gy_graph_type(in, node->inputs[k])->sizes[0];
        }
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        const gy_type *type = &node->types[k];
        sharded[node->first_value + k] = type->placement[0].kind == GY_SHARD ||
                                         (any && type->rank > 0 && type->sizes[0] == rows);
    }
}

/* No kernel runs the row (its plain definition would, at a crawl), or no signature lets the
 * sharded inputs stay so. */
static bool needs_expansion(const gy_graph *in, const gy_graph_node *node, const bool *sharded)
{
    GY_ASSERT(in->mesh.axes > 0);
    bool any = false;
    if (node->op->expand == NULL) {
        return false;
    }
    if (gy_ops_kernels(node->op)[0] == NULL) {
        return true;
    }
    for (int k = 0; k < node->input_count; k++) {
        any = any || is_row_sharded(in, sharded, node->inputs[k]);
    }
    if (!any || in->mesh.sizes[0] == 1) {
        return false;
    }
    gy_signature signatures[GY_OP_SIGNATURES_MAX];
    gy_type inputs[GY_OP_INPUTS_MAX];
    memset(signatures, 0, sizeof(signatures));
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = *gy_graph_type(in, node->inputs[k]);
    }
    int count = node->op->placements == NULL
                    ? 0
                    : node->op->placements(&node->attributes, inputs, node->input_count,
                                           node->types, signatures);
    count = GY_MIN(count, GY_OP_SIGNATURES_MAX); /* the placement pass refuses more */
    for (int i = 0; i < count; i++) {
        bool fits = true;
        for (int k = 0; k < node->input_count; k++) {
            fits = fits && (!is_row_sharded(in, sharded, node->inputs[k]) ||
                            (signatures[i].inputs[k].kind == GY_SHARD &&
                             signatures[i].inputs[k].dim == 0));
        }
        if (fits) {
            return false;
        }
    }
    return true;
}

static gy_status expand_node(gy_pass *pass, int32_t index)
{
    GY_ASSERT(pass->in->nodes[index].op->expand != NULL);
    const gy_graph_node *node = &pass->in->nodes[index];
    gy_value inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX], made[GY_OP_OUTPUTS_MAX];
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = gy_pass_get(pass, node->inputs[k]);
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        outputs[k] = (gy_value){index, k};
        made[k] = GY_NO_VALUE;
    }
    const gy_applied applied = {.attributes = &node->attributes,
                                .inputs = inputs,
                                .input_count = node->input_count,
                                .outputs = outputs};
    const gy_stage_mark before = pass->out->mark;
    pass->out->mark = node->mark;
    GY_TRY(node->op->expand(&pass->out->builder, &applied, made));
    pass->out->mark = before;
    GY_TRY(gy_graph_status(pass->out));
    for (int32_t k = 0; k < node->output_count; k++) {
        GY_ASSERT(gy_type_is_same_shape(gy_graph_type(pass->out, made[k]), &node->types[k]));
        gy_pass_set(pass, outputs[k], made[k]);
    }
    return GY_OK;
}

gy_status gy_graph_expand_nodes(const gy_graph *in, const bool *is_marked, gy_graph **out)
{
    GY_ASSERT(in->batch > 0 && !in->is_placed);
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    gy_status status = GY_OK;
    for (int32_t i = 0; status >= 0 && i < in->node_count; i++) {
        if (is_marked[i]) {
            status = expand_node(&pass, i);
        } else {
            gy_pass_copy(&pass, i);
            status = gy_graph_status(pass.out);
        }
    }
    return gy_pass_end(&pass, status, out);
}

gy_status gy_expand(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->batch > 0 && !in->is_placed);
    bool *sharded = gy_alloc_zero("graph.expand", (size_t)in->value_count + 1, sizeof(bool));
    bool *marks = gy_alloc_zero("graph.expand", (size_t)in->node_count + 1, sizeof(bool));
    gy_status status = sharded == NULL || marks == NULL ? GY_NOMEM : GY_OK;
    for (int32_t i = 0; status >= 0 && i < in->node_count; i++) {
        mark_node(in, i, sharded);
        marks[i] = needs_expansion(in, &in->nodes[i], sharded);
    }
    status = status < 0 ? status : gy_graph_expand_nodes(in, marks, out);
    gy_free(sharded);
    gy_free(marks);
    return status;
}
