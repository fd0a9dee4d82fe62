/*
 * Values that gy_pin keeps somewhere: the node behind such a value has one choice along the
 * axes of the pin, and no work. What cannot be kept so is refused by the node's name, with the
 * axis and what it could be.
 */
#include "graph/place/place_priv.h"

#include "base/base.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

bool gy_placer_is_pinned(const gy_graph_node *node, int axis)
{
    GY_ASSERT(axis >= 0 && axis < GY_MESH_MAX);
    return node->op == &gy_ops_row_pin && (node->attributes.pin.axes >> axis & 1) != 0;
}

bool gy_placer_pin_holds(const gy_mesh *mesh, const gy_graph_node *node, const gy_spot *spot)
{
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (gy_placer_is_pinned(node, axis) &&
            !gy_placement_is(spot->along[axis], node->attributes.pin.to[axis])) {
            return false;
        }
    }
    return true;
}

/* "1, 2 or 4": sizes of an axis that cut so many elements into equal parts. */
static void add_divisors(int64_t of, gy_text *text)
{
    enum { TRIED = 64 };
    int64_t last = 1;
    GY_ASSERT(of >= 1);
    for (int64_t ranks = 2; ranks <= GY_MIN(of, (int64_t)TRIED); ranks++) {
        last = of % ranks == 0 ? ranks : last;
    }
    for (int64_t ranks = 1; ranks <= last; ranks++) {
        if (of % ranks == 0) {
            gy_text_add(text, "%s%" PRId64,
                        ranks == 1      ? ""
                        : ranks == last ? " or "
                                        : ", ",
                        ranks);
        }
    }
}

/* A reshape's value is cut where its input is: in equal parts, or both are gathered. */
static gy_status check_parts(const gy_placer *placer, const gy_graph_node *node, int axis)
{
    const gy_graph *in = placer->pass.in;
    const gy_placement to = node->attributes.pin.to[axis];
    const int ranks = in->mesh.sizes[axis];
    GY_ASSERT(to.kind != GY_SHARD || to.dim < node->types[0].rank);
    const int64_t size = to.kind == GY_SHARD ? node->types[0].sizes[to.dim] : 0;
    if ((gy_graph_at(in, node->inputs[0])->op->flags & GY_OP_VIEW) == 0 || size % ranks == 0) {
        return GY_OK;
    }
    gy_text text = {.data = NULL};
    add_divisors(size, &text);
    const gy_status status =
        gy_fail(GY_ARG,
                "pin of %s: dimension %d has %" PRId64
                " elements, which %s=%d does not cut evenly, expected %s ranks along %s",
                node->name, to.dim, size, gy_mesh_axis_name(&in->mesh, axis), ranks,
                gy_text_get(&text), gy_mesh_axis_name(&in->mesh, axis));
    gy_text_free(&text);
    return status;
}

gy_status gy_placer_check_pin(const gy_placer *placer, int32_t index, int axis)
{
    GY_ASSERT(index >= 0 && index < placer->pass.in->node_count);
    const gy_graph *in = placer->pass.in;
    const gy_graph_node *node = &in->nodes[index];
    const gy_placement to = node->attributes.pin.to[axis];
    GY_ASSERT(gy_placer_is_pinned(node, axis));
    if (in->mesh.kinds[axis] == GY_AXIS_MODEL && to.kind == GY_SHARD &&
        (placer->rows[node->first_value] >> to.dim & 1) != 0) {
        return gy_fail(GY_ARG,
                       "pin of %s: dimension %d has the rows of the batch, which model=%d does "
                       "not cut, expected data or auto",
                       node->name, to.dim, in->mesh.sizes[axis]);
    }
    return check_parts(placer, node, axis);
}

/* Is there a way from where the value may be made to where the pin wants it? */
static bool has_way(gy_placer *placer, int32_t index)
{
    const gy_graph *in = placer->pass.in;
    const gy_value input = in->nodes[index].inputs[0];
    const gy_candidates *from = &placer->candidates[input.node],
                        *to = &placer->candidates[index];
    const int32_t kin = placer->kin_of[gy_graph_value(in, input)];
    GY_ASSERT(from->count >= 1 && to->count >= 1);
    for (int32_t a = 0; a < from->count; a++) {
        const int32_t made =
            gy_candidate_spots(from, a)[in->nodes[input.node].input_count + input.output];
        for (int32_t b = 0; b < to->count; b++) {
            if (gy_kin_route(placer, kin, made, gy_candidate_spots(to, b)[0]) < INFINITY) {
                return true;
            }
        }
    }
    return false;
}

gy_status gy_placer_refuse_pins(gy_placer *placer)
{
    const gy_graph *in = placer->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        if (node->op != &gy_ops_row_pin || has_way(placer, i)) {
            continue;
        }
        for (int axis = 0; axis < in->mesh.axes; axis++) {
            if (gy_placer_is_pinned(node, axis) &&
                node->attributes.pin.to[axis].kind == GY_PARTIAL) {
                return gy_fail(GY_ARG,
                               "pin of %s: nothing makes it a Partial along %s=%d, expected R "
                               "or S0 to S%d",
                               node->name, gy_mesh_axis_name(&in->mesh, axis),
                               in->mesh.sizes[axis], GY_MAX(node->types[0].rank - 1, 0));
            }
        }
        return gy_fail(GY_ARG, "pin of %s: nothing brings it there", node->name);
    }
    return GY_OK;
}
