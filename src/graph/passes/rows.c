/*
 * Which dimensions of each value are rows of the batch: those of inputs that were symbolic, and
 * what a row's signatures make of them. An axis `model` cuts none.
 */
#include "graph/passes/place_priv.h"

#include <string.h>

/* Would the signature run on values that are cut by their rows, and by nothing else? */
static bool runs_on_rows(const gy_placer *placer, const gy_graph_node *node,
                         const gy_signature *signature)
{
    bool any = false;
    for (int k = 0; k < node->input_count; k++) {
        const uint32_t rows = placer->rows[gy_graph_value(placer->pass.in, node->inputs[k])];
        const gy_placement placement = signature->inputs[k];
        GY_ASSERT(placement.kind != GY_SHARD || placement.dim < GY_TENSOR_RANK_MAX);
        const bool is_cut = placement.kind == GY_SHARD && (rows >> placement.dim & 1) != 0;
        if (!is_cut && (rows != 0 || placement.kind == GY_SHARD)) {
            return false;
        }
        any = any || is_cut;
    }
    return any;
}

static void mark_outputs(gy_placer *placer, int32_t index, const gy_signature *signatures,
                         int count)
{
    GY_ASSERT(count >= 0 && count <= GY_OP_SIGNATURES_MAX);
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    for (int i = 0; i < count; i++) {
        if (runs_on_rows(placer, node, &signatures[i])) {
            for (int32_t k = 0; k < node->output_count; k++) {
                if (signatures[i].outputs[k].kind == GY_SHARD) {
                    GY_ASSERT(signatures[i].outputs[k].dim < node->types[k].rank);
                    placer->rows[node->first_value + k] |= 1u << signatures[i].outputs[k].dim;
                }
            }
        }
    }
}

static bool cuts_rows(const gy_placer *placer, const gy_graph_node *node,
                      const gy_signature *signature)
{
    GY_ASSERT(placer->pass.in->mesh.kinds[placer->axis] == GY_AXIS_MODEL);
    for (int k = 0; k < node->input_count; k++) {
        const uint32_t rows = placer->rows[gy_graph_value(placer->pass.in, node->inputs[k])];
        if (signature->inputs[k].kind == GY_SHARD &&
            (rows >> signature->inputs[k].dim & 1) != 0) {
            return true;
        }
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        if (signature->outputs[k].kind == GY_SHARD &&
            (placer->rows[node->first_value + k] >> signature->outputs[k].dim & 1) != 0) {
            return true;
        }
    }
    return false;
}

int gy_placer_signatures(gy_placer *placer, int32_t index, gy_signature *signatures)
{
    GY_ASSERT(index >= 0 && index < placer->pass.in->node_count);
    GY_ASSERT(placer->rows != NULL);
    const gy_graph *in = placer->pass.in;
    const gy_graph_node *node = &in->nodes[index];
    gy_type inputs[GY_OP_INPUTS_MAX];
    memset(signatures, 0, GY_OP_SIGNATURES_MAX * sizeof(*signatures));
    if (node->op == &gy_ops_row_input && node->attributes.shape.is_batched) {
        GY_ASSERT(node->types[0].rank > 0);
        placer->rows[node->first_value] = 1;
    }
    if (node->op->placements == NULL || node->op == &gy_ops_row_assign) {
        return 0; /* what is assigned has the parameter's placement */
    }
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = *gy_graph_type(in, node->inputs[k]);
    }
    int count = node->op->placements(&node->attributes, inputs, node->input_count, node->types,
                                     signatures);
    GY_ASSERT(count >= 0);
    if (count > GY_OP_SIGNATURES_MAX) {
        return count;
    }
    mark_outputs(placer, index, signatures, count);
    if (in->mesh.kinds[placer->axis] != GY_AXIS_MODEL) {
        return count;
    }
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!cuts_rows(placer, node, &signatures[i])) {
            signatures[kept++] = signatures[i];
        }
    }
    return kept;
}
