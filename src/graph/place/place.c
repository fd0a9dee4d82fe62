/*
 * Placement: all that each node can do (candidates.c), what of it costs least in all
 * (search.c), and the graph that follows: nodes at their choices, moves between them. A value
 * that is kept elsewhere than where it is made is brought there at once, and all its users go
 * on from there. So the gradient's allreduce appears between t(X) dY and the update, which
 * wants the parameter whole.
 *
 * Decided from sizes alone: every rank comes to the same graph. Source: idea A of the design;
 * Xu et al., "GSPMD", 2021.
 */
#include "graph/place/place_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- moves ---- */

static gy_status note(gy_placer *placer, gy_value in, const gy_spot *to, gy_value out)
{
    GY_ASSERT(to != NULL);
    gy_moved *moved = gy_arena_alloc(&placer->arena, sizeof(*moved));
    if (moved == NULL) {
        return GY_NOMEM;
    }
    *moved = (gy_moved){.to = *to, .value = out};
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

static const gy_kin *kin_of(const gy_placer *placer, gy_value in)
{
    const int32_t kin = placer->kin_of[gy_graph_value(placer->pass.in, in)];
    GY_ASSERT(kin >= 0 && kin < placer->kin_count);
    return &placer->kins[kin];
}

/* One step of one axis: a node. */
static gy_status move_once(gy_placer *placer, const gy_route_step *step, gy_value *value)
{
    GY_ASSERT(step->axis >= 0 && step->axis < placer->pass.in->mesh.axes);
    gy_graph *out = placer->pass.out;
    gy_type type = *gy_graph_type(out, *value);
    const gy_placement from = type.placement[step->axis];
    const gy_op *op = operation(from, step->to);
    const gy_graph_node *source = gy_graph_at(out, *value);
    gy_attributes attributes = {.bytes = {0}};
    attributes.move.mesh_axis = (uint8_t)step->axis;
    attributes.move.from = from;
    attributes.move.to = step->to;
    type.placement[step->axis] = step->to;
    char name[160];
    snprintf(name, sizeof(name), "%s.%s", source->name, op->name);
    *value = gy_graph_apply_typed(out, op, &attributes, value, 1, &type, 1, name);
    return gy_graph_status(out);
}

/* A fill is simply made again where it is wanted. */
static gy_status fill_there(gy_placer *placer, gy_value in, const gy_spot *to, gy_value *value)
{
    GY_ASSERT(gy_graph_at(placer->pass.in, in)->op == &gy_ops_row_fill);
    gy_graph *out = placer->pass.out;
    const gy_graph_node *source = gy_graph_at(placer->pass.in, in);
    gy_type type = source->types[0];
    memcpy(type.placement, to->along, sizeof(type.placement));
    *value = gy_graph_apply_typed(out, source->op, &source->attributes, NULL, 0, &type, 1,
                                  source->name);
    GY_TRY(gy_graph_status(out));
    return note(placer, in, to, *value);
}

/* Why no way was found: every one has a price unless pricing failed. */
static gy_status no_way(const gy_placer *placer, gy_value in)
{
    GY_ASSERT(placer->pass.in->mesh.axes > 0);
    for (int axis = 0; axis < placer->pass.in->mesh.axes; axis++) {
        GY_TRY(placer->prices[axis].status);
    }
    return gy_fail(GY_STATE, "node %s has no way to where it is wanted",
                   gy_graph_at(placer->pass.in, in)->name);
}

/* The value of `in` in spot `to`: found, or made by the cheapest moves. */
static gy_status move(gy_placer *placer, gy_value in, const gy_spot *to, gy_value *out)
{
    const gy_kin *kin = kin_of(placer, in);
    const gy_moved *best = NULL;
    gy_route route = {.seconds = INFINITY};
    GY_ASSERT(placer->moved[gy_graph_value(placer->pass.in, in)] != NULL);
    for (const gy_moved *have = placer->moved[gy_graph_value(placer->pass.in, in)];
         have != NULL; have = have->next) {
        const gy_route found = gy_route_find(placer, kin, &have->to, to);
        if (found.seconds < route.seconds) {
            route = found;
            best = have;
        }
    }
    if (best == NULL) {
        return no_way(placer, in);
    }
    *out = best->value;
    if (gy_spot_is(&placer->pass.in->mesh, &best->to, to)) {
        return GY_OK;
    }
    gy_spot at = best->to;
    if (route.count == 0) {
        GY_ASSERT(kin->is_fill);
        return fill_there(placer, in, to, out);
    }
    for (int i = 0; i < route.count; i++) {
        GY_TRY(move_once(placer, &route.steps[i], out));
        at.along[route.steps[i].axis] = route.steps[i].to;
        GY_TRY(note(placer, in, &at, *out));
    }
    GY_ASSERT(gy_spot_is(&placer->pass.in->mesh, &at, to));
    return GY_OK;
}

/* ---- nodes ---- */

/* Where the node's choice has operand `k`, inputs before outputs. */
static const gy_spot *choice_of(const gy_placer *placer, int32_t index, int k)
{
    GY_ASSERT(k >= 0 && k < placer->candidates[index].operands);
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    const gy_candidates *all = &placer->candidates[index];
    const int32_t value = k < node->input_count
                              ? gy_graph_value(placer->pass.in, node->inputs[k])
                              : node->first_value + k - node->input_count;
    GY_ASSERT(placer->chosen[index] >= 0 && placer->chosen[index] < all->count);
    return &placer->kins[placer->kin_of[value]]
                .spots[gy_candidate_spots(all, placer->chosen[index])[k]];
}

/* A pin is what it says: its input, brought there. */
static gy_status place_pin(gy_placer *placer, int32_t index)
{
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    const gy_value in = {index, 0};
    gy_value there, kept;
    GY_ASSERT(node->op == &gy_ops_row_pin && node->input_count == 1);
    GY_TRY(move(placer, node->inputs[0], choice_of(placer, index, 0), &there));
    GY_TRY(note(placer, in, choice_of(placer, index, 1), there));
    return move(placer, in, &placer->kept[gy_graph_value(placer->pass.in, in)], &kept);
}

static gy_status place_node(gy_placer *placer, int32_t index)
{
    GY_ASSERT(index >= 0 && index < placer->pass.in->node_count);
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    if (node->op == &gy_ops_row_pin) {
        return place_pin(placer, index);
    }
    gy_value inputs[GY_OP_INPUTS_MAX];
    gy_type types[GY_OP_OUTPUTS_MAX];
    for (int k = 0; k < node->input_count; k++) {
        GY_TRY(move(placer, node->inputs[k], choice_of(placer, index, k), &inputs[k]));
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        types[k] = node->types[k];
        memcpy(types[k].placement, choice_of(placer, index, node->input_count + (int)k)->along,
               sizeof(types[k].placement));
    }
    const gy_value value =
        gy_graph_apply_typed(placer->pass.out, node->op, &node->attributes, inputs,
                             node->input_count, types, node->output_count, node->name);
    GY_TRY(gy_graph_status(placer->pass.out));
    gy_graph_node *made = &placer->pass.out->nodes[value.node];
    gy_graph_inherit(made, node);
    GY_ASSERT(made->output_count == node->output_count);
    for (int32_t k = 0; k < node->output_count; k++) {
        const gy_value in = {index, k};
        gy_value kept;
        GY_TRY(note(placer, in, choice_of(placer, index, node->input_count + (int)k),
                    (gy_value){value.node, k}));
        if ((node->op->flags & GY_OP_EFFECT) == 0) {
            GY_TRY(move(placer, in, &placer->kept[gy_graph_value(placer->pass.in, in)], &kept));
        }
    }
    return GY_OK;
}

static gy_status place_roots(gy_placer *placer)
{
    GY_ASSERT(placer->pass.out->root_count == 0);
    const gy_graph *in = placer->pass.in;
    for (int32_t i = 0; i < in->root_count; i++) {
        gy_root root = in->roots[i];
        const int32_t value = gy_graph_value(in, root.value);
        GY_ASSERT(placer->moved[value] != NULL);
        if ((gy_graph_at(in, root.value)->op->flags & GY_OP_EFFECT) != 0) {
            root.value = placer->moved[value]->value;
        } else {
            gy_spot to;
            memcpy(to.along, root.placement, sizeof(to.along));
            GY_TRY(move(placer, root.value, &to, &root.value));
        }
        GY_TRY(gy_graph_add_root(placer->pass.out, &root));
    }
    return GY_OK;
}

/* ---- the pass ---- */

/* Does the node read the value of input k for the first time there? */
static bool is_first_read(const gy_graph_node *node, int k)
{
    GY_ASSERT(k >= 0 && k < node->input_count);
    for (int before = 0; before < k; before++) {
        if (gy_value_is(node->inputs[before], node->inputs[k])) {
            return false;
        }
    }
    return true;
}

static gy_status list_users(const gy_graph *in, gy_arena *arena, gy_users *of)
{
    GY_ASSERT(of->list == NULL);
    int32_t total = 0;
    for (int32_t i = 0; i < in->node_count; i++) {
        total += in->nodes[i].input_count;
    }
    of->first = gy_arena_alloc(arena, ((size_t)in->value_count + 2) * sizeof(int32_t));
    of->list = gy_arena_alloc(arena, ((size_t)total + 1) * sizeof(int32_t));
    if (of->first == NULL || of->list == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        for (int k = 0; k < in->nodes[i].input_count; k++) {
            of->first[gy_graph_value(in, in->nodes[i].inputs[k]) + 2] +=
                is_first_read(&in->nodes[i], k) ? 1 : 0;
        }
    }
    for (int32_t v = 0; v < in->value_count; v++) {
        of->first[v + 2] += of->first[v + 1];
    }
    for (int32_t i = 0; i < in->node_count; i++) { /* first[v + 1] runs to the end of v */
        for (int k = 0; k < in->nodes[i].input_count; k++) {
            if (is_first_read(&in->nodes[i], k)) {
                of->list[of->first[gy_graph_value(in, in->nodes[i].inputs[k]) + 1]++] = i;
            }
        }
    }
    GY_ASSERT(of->first[in->value_count] <= total);
    return GY_OK;
}

static gy_status list_pinned(gy_placer *placer)
{
    const gy_graph *in = placer->pass.in;
    placer->pinned =
        gy_arena_alloc(&placer->arena, ((size_t)in->node_count + 1) * sizeof(*placer->pinned));
    if (placer->pinned == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        for (int axis = 0; axis < in->mesh.axes; axis++) {
            if (node->op == &gy_ops_row_parameter && !gy_graph_has_batch(node) &&
                node->types[0].placement[axis].kind != GY_REPLICATE) {
                placer->pinned[placer->pinned_count++] = &node->types[0];
                break;
            }
        }
    }
    return GY_OK;
}

static gy_status prepare(gy_placer *placer)
{
    GY_ASSERT(placer->kin_count == 0 && placer->chosen == NULL);
    const gy_graph *in = placer->pass.in;
    gy_arena *arena = &placer->arena;
    const size_t values = (size_t)in->value_count + 1, nodes = (size_t)in->node_count + 1;
    placer->moved = gy_arena_alloc(arena, values * sizeof(*placer->moved));
    placer->kept = gy_arena_alloc(arena, values * sizeof(*placer->kept));
    placer->rows = gy_arena_alloc(arena, values * sizeof(*placer->rows));
    placer->kin_of = gy_arena_alloc(arena, values * sizeof(*placer->kin_of));
    placer->candidates = gy_arena_alloc(arena, nodes * sizeof(*placer->candidates));
    placer->chosen = gy_arena_alloc(arena, nodes * sizeof(*placer->chosen));
    if (placer->moved == NULL || placer->kept == NULL || placer->rows == NULL ||
        placer->kin_of == NULL || placer->candidates == NULL || placer->chosen == NULL) {
        return GY_NOMEM;
    }
    for (int axis = 0; axis < in->mesh.axes; axis++) {
        if (placer->prices[axis].ranks == 0) {
            gy_prices_init(&placer->prices[axis], in->mesh.sizes[axis], &in->mesh.links[axis]);
        }
        GY_ASSERT(placer->prices[axis].ranks <= in->mesh.sizes[axis]);
    }
    placer->byte_s = in->mesh.byte_s;
    GY_TRY(list_users(in, arena, &placer->users));
    return list_pinned(placer);
}

gy_status gy_placer_decide(gy_placer *placer)
{
    GY_ASSERT(placer->pass.in != NULL && !placer->pass.in->is_placed);
    GY_TRY(prepare(placer));
    GY_TRY(gy_candidates_list(placer));
    GY_TRY(gy_search(placer));
    for (int axis = 0; axis < placer->pass.in->mesh.axes; axis++) {
        GY_TRY(placer->prices[axis].status);
    }
    return placer->cost_s < INFINITY ? GY_OK : gy_placer_refuse_pins(placer);
}

void gy_placer_free(gy_placer *placer)
{
    for (int32_t i = 0; i < placer->kin_count; i++) {
        gy_free(placer->kins[i].spots);
    }
    gy_free(placer->kins);
    gy_free(placer->expansions);
    gy_arena_free(&placer->arena);
}

/* The graph that follows from the choices. */
static gy_status place_nodes(gy_placer *placer, gy_graph **out)
{
    GY_ASSERT(placer->pass.out->node_count == 0);
    gy_status status = GY_OK;
    for (int32_t i = 0; status >= 0 && i < placer->pass.in->node_count; i++) {
        status = place_node(placer, i);
    }
    status = status < 0 ? status : place_roots(placer);
    GY_TRY(gy_pass_end(&placer->pass, status, out));
    (*out)->predicted_s = placer->time_s;
    return GY_OK;
}

/* ---- searches ---- */

/* A search, and the graph of expanded nodes that it is over; NULL: over the pass's own. */
typedef struct trial {
    gy_placer placer;
    gy_graph *expanded;
} trial;

static gy_status begin_search(gy_placer *placer, const gy_graph *in, bool may_expand,
                              const gy_prices *prices)
{
    *placer = (gy_placer){.may_expand = may_expand};
    if (prices != NULL) {
        memcpy(placer->prices, prices, sizeof(placer->prices));
    }
    GY_TRY(gy_pass_begin(&placer->pass, in));
    return gy_placer_decide(placer);
}

static void drop_trial(trial *t)
{
    if (t->placer.pass.map != NULL) { /* nothing was built */
        gy_graph *ended = NULL;
        const gy_status status = gy_pass_end(&t->placer.pass, GY_STATE, &ended);
        GY_ASSERT(status == GY_STATE && ended == NULL);
    }
    gy_placer_free(&t->placer);
    gy_graph_free(t->expanded);
}

/* Mark nodes that the search would rather have expanded. Their number. */
static int32_t mark_wanted(const gy_placer *placer, bool *marks)
{
    const gy_graph *in = placer->pass.in;
    int32_t count = 0;
    for (int32_t i = 0; i < in->node_count; i++) {
        marks[i] = placer->candidates[i].is_expanded[placer->chosen[i]];
        GY_ASSERT(!marks[i] || in->nodes[i].op->expand != NULL);
        count += marks[i] ? 1 : 0;
    }
    return count;
}

/* Does the node take its first input from where it is cut to elsewhere, though its expansion
 * could leave it there? */
static gy_status is_taken_away(gy_placer *placer, int32_t index, bool *is_taken)
{
    const gy_graph *in = placer->pass.in;
    const gy_graph_node *node = &in->nodes[index];
    GY_ASSERT(node->op->expand != NULL && node->input_count >= 1);
    const gy_value input = node->inputs[0];
    const gy_spot *made =
        choice_of(placer, input.node, in->nodes[input.node].input_count + input.output);
    const gy_spot *wanted = choice_of(placer, index, 0);
    *is_taken = false;
    for (int axis = 0; axis < in->mesh.axes && !*is_taken; axis++) {
        const gy_placement at = made->along[axis];
        gy_expansion found = {.is_possible = false};
        if (in->mesh.kinds[axis] != GY_AXIS_DATA && at.kind == GY_SHARD &&
            !gy_placement_is(at, wanted->along[axis])) {
            GY_TRY(gy_expansion_find(placer, index, axis, at.dim, &found));
        }
        *is_taken = found.is_possible;
    }
    return GY_OK;
}

/* Mark these as well: what each of them would gain may lie in what their expansions have in
 * common. Adds their number to `count`. */
static gy_status mark_taken(gy_placer *placer, bool *marks, int32_t *count)
{
    const gy_graph *in = placer->pass.in;
    GY_ASSERT(placer->may_expand);
    for (int32_t i = 0; i < in->node_count; i++) {
        if (!marks[i] && in->nodes[i].op->expand != NULL) {
            GY_TRY(is_taken_away(placer, i, &marks[i]));
            *count += marks[i] ? 1 : 0;
        }
    }
    return GY_OK;
}

/* What two expansions have in common is computed once, and what nobody needs is not. */
static gy_status expand_marked(const gy_graph *in, const bool *marks, gy_graph **out)
{
    static gy_status (*const passes[])(const gy_graph *, gy_graph **) = {
        gy_rewrite_constants, gy_rewrite_algebra, gy_rewrite_common, gy_rewrite_dead};
    gy_graph *last = NULL;
    GY_TRY(gy_graph_expand_nodes(in, marks, &last));
    for (size_t i = 0; i < GY_COUNT(passes); i++) {
        gy_graph *next = NULL;
        const gy_status status = passes[i](last, &next);
        gy_graph_free(last);
        GY_TRY(status);
        last = next;
    }
    GY_ASSERT(last->root_count == in->root_count);
    *out = last;
    return GY_OK;
}

/* Search again where the marked nodes are expanded (NULL: none is); `best` is what costs least.
 */
static gy_status try_marks(const gy_placer *first, const bool *marks, trial *made,
                           gy_placer **best)
{
    const gy_graph *in = first->pass.in;
    GY_TRY(marks != NULL ? expand_marked(in, marks, &made->expanded) : GY_OK);
    GY_TRY(
        begin_search(&made->placer, marks != NULL ? made->expanded : in, false, first->prices));
    if (*best == NULL || made->placer.cost_s < (*best)->cost_s) {
        *best = &made->placer;
    }
    return GY_OK;
}

/* The first search reckons each node's expansion by itself. What it wants is searched again as
 * it would be; and without, should that cost more than was reckoned. */
static gy_status search_all(trial trials[4], bool *marks, gy_placer **best)
{
    gy_placer *first = &trials[0].placer;
    int32_t taken = 0;
    const int32_t wanted = mark_wanted(first, marks);
    *best = wanted == 0 ? first : NULL;
    GY_TRY(wanted > 0 ? try_marks(first, marks, &trials[1], best) : GY_OK);
    GY_TRY(mark_taken(first, marks, &taken));
    GY_TRY(taken > 0 ? try_marks(first, marks, &trials[2], best) : GY_OK);
    GY_ASSERT(*best != NULL);
    return wanted > 0 && (*best)->cost_s > first->cost_s
               ? try_marks(first, NULL, &trials[3], best)
               : GY_OK;
}

static gy_status search_and_place(const gy_graph *in, gy_graph **out)
{
    trial trials[4] = {{.expanded = NULL}};
    gy_placer *best = NULL;
    bool *marks = gy_alloc_zero("graph.place", (size_t)in->node_count + 1, sizeof(bool));
    gy_status status = marks == NULL ? GY_NOMEM : GY_OK;
    status = status < 0 ? status : begin_search(&trials[0].placer, in, true, NULL);
    status = status < 0 ? status : search_all(trials, marks, &best);
    status = status < 0 ? status : place_nodes(best, out);
    for (size_t i = 0; i < GY_COUNT(trials); i++) {
        drop_trial(&trials[i]);
    }
    gy_free(marks);
    return status;
}

static gy_status copy_nodes(const gy_graph *in, gy_graph **out)
{
    gy_pass pass;
    GY_TRY(gy_pass_begin(&pass, in));
    for (int32_t i = 0; i < in->node_count; i++) {
        gy_pass_copy(&pass, i);
    }
    GY_ASSERT(pass.out->failure.status < 0 || pass.out->node_count == in->node_count);
    return gy_pass_end(&pass, GY_OK, out);
}

static int rank_count(const gy_mesh *mesh)
{
    GY_ASSERT(mesh->axes > 0 && mesh->axes <= GY_MESH_MAX);
    int count = 1;
    for (int axis = 0; axis < mesh->axes; axis++) {
        count *= mesh->sizes[axis];
    }
    return count;
}

gy_status gy_place(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->mesh.axes > 0 && in->mesh.axes <= GY_MESH_MAX);
    GY_ASSERT(!in->is_placed && in->batch > 0);
    gy_graph *placed = NULL;
    GY_TRY(rank_count(&in->mesh) > 1 ? search_and_place(in, &placed) : copy_nodes(in, &placed));
    GY_ASSERT(placed->root_count == in->root_count);
    placed->is_placed = true;
    /* A value that was brought to its users may suit none of them better than as it was made.
     */
    const gy_status status = gy_rewrite_dead(placed, out);
    gy_graph_free(placed);
    return status;
}
