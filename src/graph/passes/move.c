/*
 * Changes of placement: Partial -> Replicate is an allreduce, Partial -> Shard a
 * reduce-scatter, Shard -> Replicate an allgather, Replicate -> Shard a local slice, Shard ->
 * another Shard an all-to-all. Costs are those of the plan model (price.c).
 *
 * On the data axis what is whole is not cut, unless a parameter of its sizes is pinned so; what
 * is whole becomes a summand for such alone, and an allgather counts four times: it would stand
 * at the end of the step, where nothing is left to overlap with it.
 */
#include "graph/passes/place_priv.h"

#include <math.h>
#include <stdio.h>

static const double unwanted_s = 1, exposed = 4;

/* Of what the ranks of this axis share: decided axes have cut it. */
static double type_bytes(const gy_placer *placer, const gy_type *type)
{
    GY_ASSERT(placer->axis < placer->pass.in->mesh.axes);
    double bytes = (double)gy_type_count(type) * (double)gy_dtype_bytes(type->dtype);
    for (int axis = 0; axis < placer->axis; axis++) {
        bytes /= type->placement[axis].kind == GY_SHARD ? placer->pass.in->mesh.sizes[axis] : 1;
    }
    return bytes;
}

/* Is a value of these sizes placed as a pinned parameter of the same sizes is? */
static bool is_like_pinned(const gy_placer *placer, const gy_type *type, gy_placement to)
{
    for (int32_t i = 0; i < placer->pinned_count; i++) {
        const gy_type *pinned = placer->pinned[i];
        GY_ASSERT(pinned->placement[placer->axis].kind != GY_REPLICATE);
        if (gy_placement_is(pinned->placement[placer->axis], to) &&
            gy_type_is_same_shape(pinned, type)) {
            return true;
        }
    }
    return false;
}

double gy_move_cost(const gy_placer *placer, const gy_type *type, gy_placement from,
                    gy_placement to, bool is_fill)
{
    GY_ASSERT(placer->prices != NULL && placer->ranks > 1);
    GY_ASSERT(to.kind != GY_SHARD || to.dim < type->rank);
    if (gy_placement_is(from, to)) {
        return 0;
    }
    const bool is_data = placer->pass.in->mesh.kinds[placer->axis] == GY_AXIS_DATA;
    const double bytes = type_bytes(placer, type);
    const double cut =
        to.kind == GY_SHARD && is_data && !is_like_pinned(placer, type, to) ? unwanted_s : 0;
    if (to.kind == GY_PARTIAL) { /* one rank has it, the others zeros */
        return from.kind == GY_PARTIAL || !is_like_pinned(placer, type, to)
                   ? INFINITY
                   : gy_price_copy(placer->prices, bytes) +
                         (from.kind == GY_SHARD
                              ? gy_price_exchange(placer->prices, GY_OPERATION_ALLGATHER, bytes)
                              : 0);
    }
    if (from.kind == GY_REPLICATE) {
        return is_fill ? 0 : cut + gy_price_copy(placer->prices, bytes / placer->ranks);
    }
    if (from.kind == GY_PARTIAL) {
        return cut + gy_price_exchange(placer->prices,
                                       to.kind == GY_REPLICATE ? GY_OPERATION_ALLREDUCE
                                                               : GY_OPERATION_REDUCE_SCATTER,
                                       bytes);
    }
    if (to.kind == GY_SHARD) { /* packed, exchanged, unpacked */
        const double part = bytes / placer->ranks;
        return cut + gy_price_exchange(placer->prices, GY_OPERATION_ALLTOALL, part) +
               gy_price_copy(placer->prices, 2 * part);
    }
    return (is_data ? exposed : 1) *
           gy_price_exchange(placer->prices, GY_OPERATION_ALLGATHER, bytes);
}

static bool is_fill(const gy_placer *placer, gy_value in)
{
    return gy_graph_at(placer->pass.in, in)->op == &gy_ops_row_fill;
}

double gy_move_cost_of(const gy_placer *placer, gy_value in, gy_placement to)
{
    double best = INFINITY;
    const gy_type *type = gy_graph_type(placer->pass.in, in);
    for (const gy_moved *have = placer->moved[gy_graph_value(placer->pass.in, in)];
         have != NULL; have = have->next) {
        best = fmin(best, gy_move_cost(placer, type, have->to, to, is_fill(placer, in)));
    }
    return best;
}

gy_status gy_move_note(gy_placer *placer, gy_value in, gy_placement to, gy_value out)
{
    gy_moved *moved = gy_arena_alloc(&placer->arena, sizeof(*moved));
    if (moved == NULL) {
        return GY_NOMEM;
    }
    *moved = (gy_moved){.to = to, .value = out};
    gy_moved **end = &placer->moved[gy_graph_value(placer->pass.in, in)];
    GY_ASSERT(out.node >= 0 && out.node < placer->pass.out->node_count);
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = moved;
    return GY_OK;
}

static const gy_op *operation(gy_placement from, gy_placement to)
{
    GY_ASSERT(!gy_placement_is(from, to));
    if (from.kind == GY_PARTIAL) {
        return to.kind == GY_REPLICATE ? &gy_ops_row_allreduce : &gy_ops_row_reduce_scatter;
    }
    if (from.kind == GY_SHARD) {
        return to.kind == GY_REPLICATE ? &gy_ops_row_allgather : &gy_ops_row_alltoall;
    }
    GY_ASSERT(from.kind == GY_REPLICATE && to.kind != GY_REPLICATE);
    return &gy_ops_row_take_shard;
}

/* One node; a fill is simply made again where it is wanted. */
static gy_status move_once(gy_placer *placer, gy_value in, gy_placement from, gy_placement to,
                           gy_value *value)
{
    GY_ASSERT(!gy_placement_is(from, to));
    gy_graph *out = placer->pass.out;
    gy_type type = *gy_graph_type(out, *value);
    GY_ASSERT(gy_placement_is(type.placement[placer->axis], from));
    type.placement[placer->axis] = to;
    const gy_graph_node *source = gy_graph_at(out, *value);
    if (is_fill(placer, in) && to.kind != GY_PARTIAL) {
        *value = gy_graph_apply_typed(out, source->op, &source->attributes, NULL, 0, &type, 1,
                                      source->name);
    } else {
        const gy_op *op = operation(from, to);
        gy_attributes attributes = {.bytes = {0}};
        attributes.move.mesh_axis = (uint8_t)placer->axis;
        attributes.move.from = from;
        attributes.move.to = to;
        char name[160];
        snprintf(name, sizeof(name), "%s.%s", source->name, op->name);
        *value = gy_graph_apply_typed(out, op, &attributes, value, 1, &type, 1, name);
    }
    GY_TRY(gy_graph_status(out));
    return gy_move_note(placer, in, to, *value);
}

gy_status gy_move(gy_placer *placer, gy_value in, gy_placement to, gy_value *out)
{
    GY_ASSERT(out != NULL);
    GY_ASSERT(placer->moved[gy_graph_value(placer->pass.in, in)] != NULL);
    const gy_type *type = gy_graph_type(placer->pass.in, in);
    const gy_moved *best = NULL;
    double best_cost = INFINITY;
    for (const gy_moved *have = placer->moved[gy_graph_value(placer->pass.in, in)];
         have != NULL; have = have->next) {
        double cost = gy_move_cost(placer, type, have->to, to, is_fill(placer, in));
        if (cost < best_cost) {
            best_cost = cost;
            best = have;
        }
    }
    if (best == NULL) { /* every way has a price unless pricing failed */
        GY_ASSERT(placer->prices->status < 0);
        return placer->prices->status;
    }
    GY_ASSERT(!gy_value_is_none(best->value));
    *out = best->value;
    if (gy_placement_is(best->to, to)) {
        return GY_OK;
    }
    gy_placement from = best->to;
    if (from.kind == GY_SHARD && to.kind == GY_PARTIAL) {
        const gy_placement whole = {.kind = GY_REPLICATE};
        GY_TRY(move_once(placer, in, from, whole, out));
        from = whole;
    }
    return move_once(placer, in, from, to, out);
}
