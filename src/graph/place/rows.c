/*
 * Which dimensions of each value are rows of the batch: those of inputs that were symbolic, and
 * what a row's signatures make of them. An axis `model` cuts none of them, an axis `data`
 * nothing else but what has the sizes of a parameter that is pinned so.
 */
#include "graph/place/place_priv.h"

static bool is_row(const gy_placer *placer, int32_t value, gy_placement placement)
{
    GY_ASSERT(placement.kind != GY_SHARD || placement.dim < GY_TENSOR_RANK_MAX);
    return placement.kind == GY_SHARD && (placer->rows[value] >> placement.dim & 1) != 0;
}

/* A value of one number, which has rows where its users have them. */
static bool is_fill(const gy_placer *placer, gy_value value)
{
    return gy_graph_at(placer->pass.in, value)->op == &gy_ops_row_fill;
}

/* Would the signature run on values that are cut by their rows, and by nothing else? */
static bool runs_on_rows(const gy_placer *placer, const gy_graph_node *node,
                         const gy_signature *signature)
{
    bool any = false;
    for (int k = 0; k < node->input_count; k++) {
        const int32_t value = gy_graph_value(placer->pass.in, node->inputs[k]);
        const gy_placement placement = signature->inputs[k];
        GY_ASSERT(placement.kind != GY_SHARD || placement.dim < GY_TENSOR_RANK_MAX);
        const bool is_cut = is_row(placer, value, placement);
        if (!is_cut && !is_fill(placer, node->inputs[k]) &&
            (placer->rows[value] != 0 || placement.kind == GY_SHARD)) {
            return false;
        }
        any = any || is_cut;
    }
    return any;
}

static void mark_fills(gy_placer *placer, const gy_graph_node *node,
                       const gy_signature *signature)
{
    GY_ASSERT(node->input_count <= GY_OP_INPUTS_MAX);
    for (int k = 0; k < node->input_count; k++) {
        if (is_fill(placer, node->inputs[k]) && signature->inputs[k].kind == GY_SHARD) {
            placer->rows[gy_graph_value(placer->pass.in, node->inputs[k])] |=
                1u << signature->inputs[k].dim;
        }
    }
}

void gy_placer_mark_rows(gy_placer *placer, int32_t index, const gy_signature *signatures,
                         int count)
{
    GY_ASSERT(count >= 0 && count <= GY_OP_SIGNATURES_MAX);
    GY_ASSERT(placer->rows != NULL);
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    if (gy_graph_has_batch(node)) {
        GY_ASSERT(node->types[0].rank > 0);
        placer->rows[node->first_value] = 1;
    }
    for (int i = 0; i < count; i++) {
        if (runs_on_rows(placer, node, &signatures[i])) {
            mark_fills(placer, node, &signatures[i]);
            for (int32_t k = 0; k < node->output_count; k++) {
                if (signatures[i].outputs[k].kind == GY_SHARD) {
                    GY_ASSERT(signatures[i].outputs[k].dim < node->types[k].rank);
                    placer->rows[node->first_value + k] |= 1u << signatures[i].outputs[k].dim;
                }
            }
        }
    }
}

/* Is a value of these sizes placed as a pinned parameter of the same sizes is? */
bool gy_placer_is_like_pinned(const gy_placer *placer, const gy_type *type, int axis,
                              gy_placement to)
{
    GY_ASSERT(axis >= 0 && axis < placer->pass.in->mesh.axes);
    for (int32_t i = 0; i < placer->pinned_count; i++) {
        if (gy_placement_is(placer->pinned[i]->placement[axis], to) &&
            gy_type_is_same_shape(placer->pinned[i], type)) {
            return true;
        }
    }
    return false;
}

bool gy_placer_allows(const gy_placer *placer, const gy_graph_node *node, int axis,
                      const gy_signature *signature)
{
    GY_ASSERT(axis >= 0 && axis < placer->pass.in->mesh.axes);
    const gy_axis_kind kind = placer->pass.in->mesh.kinds[axis];
    GY_ASSERT(kind < GY_AXIS_KINDS);
    for (int k = 0; k < node->input_count + node->output_count; k++) {
        const bool is_input = k < node->input_count;
        const int32_t output = (int32_t)k - node->input_count;
        const int32_t value = is_input ? gy_graph_value(placer->pass.in, node->inputs[k])
                                       : node->first_value + output;
        const gy_type *type =
            is_input ? gy_graph_type(placer->pass.in, node->inputs[k]) : &node->types[output];
        const gy_placement placement =
            is_input ? signature->inputs[k] : signature->outputs[output];
        if (placement.kind != GY_SHARD) {
            continue;
        }
        if ((kind == GY_AXIS_MODEL && is_row(placer, value, placement)) ||
            (kind == GY_AXIS_DATA && !is_row(placer, value, placement) &&
             !gy_placer_is_like_pinned(placer, type, axis, placement))) {
            return false;
        }
    }
    return true;
}
