/*
 * Changes of placement: along one axis Partial -> Replicate is an allreduce, Partial -> Shard a
 * reduce-scatter, Shard -> Replicate an allgather, Replicate -> Shard a local slice, Shard ->
 * another Shard an all-to-all. Costs are those of the plan model (price.c). A change along
 * several axes is one step an axis, in the order that costs least.
 *
 * Where two axes cut one dimension, the parts of the inner one lie within those of the outer
 * one, so a step of the outer axis that touches this dimension first undoes the inner cut.
 *
 * What is whole becomes a summand where a parameter of its sizes is pinned so; rows of a batch
 * are gathered where nothing else works.
 */
#include "graph/place/place_priv.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

static const double gathered = 1000; /* rows of a batch: all ranks then hold and work on all */

bool gy_spot_is(const gy_mesh *mesh, const gy_spot *a, const gy_spot *b)
{
    GY_ASSERT(mesh->axes > 0 && mesh->axes <= GY_MESH_MAX);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (!gy_placement_is(a->along[axis], b->along[axis])) {
            return false;
        }
    }
    return true;
}

/* Of what the ranks of this axis share: the other axes have cut it. */
static double shared_bytes(const gy_placer *placer, const gy_type *type, const gy_spot *at,
                           int axis)
{
    GY_ASSERT(axis >= 0 && axis < placer->pass.in->mesh.axes);
    const gy_mesh *mesh = &placer->pass.in->mesh;
    double bytes = (double)gy_type_count(type) * (double)gy_dtype_bytes(type->dtype);
    for (int other = 0; other < mesh->axes; other++) {
        if (other != axis && at->along[other].kind == GY_SHARD) {
            bytes /= mesh->sizes[other];
        }
    }
    return bytes;
}

/* One step that is not a detour: to.kind is no Partial unless from is whole. */
static double step_cost(gy_placer *placer, const gy_type *type, const gy_spot *at, int axis,
                        gy_placement to)
{
    GY_ASSERT(axis >= 0 && axis < placer->pass.in->mesh.axes);
    gy_prices *prices = &placer->prices[axis];
    const gy_mesh *mesh = &placer->pass.in->mesh;
    const gy_placement from = at->along[axis];
    const int ranks = mesh->sizes[axis];
    GY_ASSERT(!gy_placement_is(from, to) && ranks > 1);
    GY_ASSERT(to.kind != GY_SHARD || to.dim < type->rank);
    const double bytes = shared_bytes(placer, type, at, axis);
    const bool is_data = mesh->kinds[axis] == GY_AXIS_DATA;
    if (to.kind == GY_PARTIAL) { /* one rank has it, the others zeros */
        return from.kind == GY_REPLICATE && gy_placer_is_like_pinned(placer, type, axis, to)
                   ? gy_price_copy(prices, bytes)
                   : INFINITY;
    }
    const bool is_gathered = is_data && from.kind == GY_SHARD && to.kind == GY_REPLICATE &&
                             !gy_placer_is_like_pinned(placer, type, axis, from);
    return (is_gathered ? gathered : 1) * gy_place_price_step(prices, from, to, bytes, ranks);
}

/* An inner axis that cuts a dimension which a step of `axis` touches; -1: none. */
static int blocker(const gy_mesh *mesh, const gy_spot *at, int axis, gy_placement to)
{
    GY_ASSERT(axis >= 0 && axis < mesh->axes);
    const gy_placement from = at->along[axis];
    for (int inner = mesh->axes - 1; inner > axis; inner--) {
        const gy_placement *cut = &at->along[inner];
        if (cut->kind == GY_SHARD && ((from.kind == GY_SHARD && from.dim == cut->dim) ||
                                      (to.kind == GY_SHARD && to.dim == cut->dim))) {
            return inner;
        }
    }
    return -1;
}

/* A way so far, and the best one that was found. */
typedef struct trip {
    gy_placer *placer;
    const gy_type *type;
    const gy_spot *to;
    gy_route_step steps[GY_ROUTE_MAX];
    gy_route best;
} trip;

/* Try all orders of the axes that are not there yet. */
static void travel(trip *t, const gy_spot *at, int count, double seconds)
{
    GY_ASSERT(count >= 0 && count <= GY_ROUTE_MAX);
    GY_ASSERT(seconds >= 0);
    const gy_mesh *mesh = &t->placer->pass.in->mesh;
    bool is_there = true;
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (gy_placement_is(at->along[axis], t->to->along[axis])) {
            continue;
        }
        is_there = false;
        gy_route_step step = {.axis = axis, .to = t->to->along[axis]};
        const int inner = blocker(mesh, at, axis, step.to);
        if (inner >=
            0) { /* to where it is whole along the inner axis, which cuts again later */
            step = (gy_route_step){.axis = inner, .to = {.kind = GY_REPLICATE}};
        } else if (step.to.kind == GY_PARTIAL && at->along[axis].kind == GY_SHARD) {
            step.to = (gy_placement){.kind = GY_REPLICATE};
        }
        const double cost = step_cost(t->placer, t->type, at, step.axis, step.to);
        if (count == GY_ROUTE_MAX || !(seconds + cost < t->best.seconds)) {
            continue;
        }
        gy_spot next = *at;
        next.along[step.axis] = step.to;
        t->steps[count] = step;
        travel(t, &next, count + 1, seconds + cost);
    }
    if (is_there && seconds < t->best.seconds) {
        t->best.seconds = seconds;
        t->best.count = count;
        memcpy(t->best.steps, t->steps, sizeof(t->steps));
    }
}

/* Is a fill made at once where it is wanted? Not a summand: that is another value. */
static bool is_made_there(const gy_mesh *mesh, const gy_spot *to)
{
    GY_ASSERT(mesh->axes > 0);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (to->along[axis].kind == GY_PARTIAL) {
            return false;
        }
    }
    return true;
}

gy_route gy_route_find(gy_placer *placer, const gy_kin *of, const gy_spot *from,
                       const gy_spot *to)
{
    trip t = {.placer = placer, .type = &of->type, .to = to, .best = {.seconds = INFINITY}};
    GY_ASSERT(from != NULL && to != NULL);
    if (of->is_fill && is_made_there(&placer->pass.in->mesh, to)) {
        t.best.seconds = 0;
    } else {
        travel(&t, from, 0, 0);
    }
    GY_ASSERT(t.best.seconds >= 0 && t.best.count <= GY_ROUTE_MAX);
    return t.best;
}

/* ---- kins ---- */

double gy_kin_route(gy_placer *placer, int32_t kin, int32_t from, int32_t to)
{
    GY_ASSERT(kin >= 0 && kin < placer->kin_count);
    const gy_kin *of = &placer->kins[kin];
    GY_ASSERT(from >= 0 && from < of->spot_count && to >= 0 && to < of->spot_count);
    if (from == to) {
        return 0;
    }
    double *seconds = &of->seconds[(size_t)from * (size_t)of->spot_count + (size_t)to];
    if (*seconds < 0) {
        *seconds = gy_route_find(placer, of, &of->spots[from], &of->spots[to]).seconds;
    }
    return *seconds;
}

double gy_kin_held(const gy_placer *placer, int32_t kin, int32_t spot)
{
    const gy_mesh *mesh = &placer->pass.in->mesh;
    const gy_kin *of = &placer->kins[kin];
    GY_ASSERT(spot >= 0 && spot < of->spot_count);
    if (placer->byte_s == 0) {
        return 0;
    }
    double bytes = (double)gy_type_count(&of->type) * (double)gy_dtype_bytes(of->type.dtype);
    for (int axis = 0; axis < mesh->axes; axis++) {
        const gy_placement *at = &of->spots[spot].along[axis];
        if (at->kind == GY_SHARD) {
            const double size = (double)of->type.sizes[at->dim], ranks = mesh->sizes[axis];
            bytes *= size > 0 ? ceil(size / ranks) / size : 1;
        }
    }
    GY_ASSERT(bytes >= 0);
    return bytes * placer->byte_s;
}

gy_status gy_kin_spot(gy_placer *placer, int32_t kin, const gy_spot *spot, int32_t *number)
{
    GY_ASSERT(kin >= 0 && kin < placer->kin_count);
    gy_kin *of = &placer->kins[kin];
    GY_ASSERT(of->seconds == NULL);
    for (int32_t i = 0; i < of->spot_count; i++) {
        if (gy_spot_is(&placer->pass.in->mesh, &of->spots[i], spot)) {
            *number = i;
            return GY_OK;
        }
    }
    GY_TRY(GY_GROW("graph.place", of->spots, of->spot_capacity, (size_t)of->spot_count + 1));
    of->spots[of->spot_count] = *spot;
    *number = of->spot_count++;
    return GY_OK;
}

gy_status gy_kins_list(gy_placer *placer)
{
    GY_ASSERT(placer->kin_count == 0 && placer->kin_of != NULL);
    const gy_graph *in = placer->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        const bool is_fill = node->op == &gy_ops_row_fill;
        for (int32_t k = 0; k < node->output_count; k++) {
            int32_t kin = 0;
            while (kin < placer->kin_count &&
                   (placer->kins[kin].is_fill != is_fill ||
                    !gy_type_is_same_shape(&placer->kins[kin].type, &node->types[k]))) {
                kin++;
            }
            if (kin == placer->kin_count) {
                GY_TRY(GY_GROW("graph.place", placer->kins, placer->kin_capacity,
                               (size_t)placer->kin_count + 1));
                placer->kins[placer->kin_count++] =
                    (gy_kin){.type = node->types[k], .is_fill = is_fill};
            }
            placer->kin_of[node->first_value + k] = kin;
        }
    }
    return GY_OK;
}

gy_status gy_kins_close(gy_placer *placer)
{
    GY_ASSERT(placer->kin_count > 0 || placer->pass.in->value_count == 0);
    for (int32_t i = 0; i < placer->kin_count; i++) {
        gy_kin *kin = &placer->kins[i];
        const size_t count = (size_t)kin->spot_count * (size_t)kin->spot_count;
        kin->seconds = gy_arena_alloc(&placer->arena, (count + 1) * sizeof(double));
        if (kin->seconds == NULL) {
            return GY_NOMEM;
        }
        for (size_t k = 0; k < count; k++) {
            kin->seconds[k] = -1;
        }
    }
    return GY_OK;
}
