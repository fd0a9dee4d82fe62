/*
 * Placement, one mesh axis at a time: walk the nodes in order and give each the signature of
 * its row that costs least: bringing the inputs there, the work (divided where it is shared
 * out), and what the next users would have to pay. A sum that is Partial stays so while its
 * users can go on with the parts; where one of them cannot, it is completed at once and all use
 * that. So the gradient's allreduce appears between t(X) dY and the update, which wants the
 * parameter whole.
 *
 * Decided from sizes alone: every rank comes to the same graph. Cost: nodes * users *
 * signatures^2. Source: idea A of the design; Xu et al., "GSPMD", 2021; Jia et al., "Beyond
 * data and model parallelism", 2019.
 */
#include "graph/passes/place_priv.h"

#include <math.h>
#include <string.h>

static const double flops_s = 50e9, memory_bytes_s = 10e9;
static const double rounding = 1e-9; /* what sums of costs in another order may differ by */

/* Which nodes use which value, each once: list[first[v] .. first[v + 1]). */
typedef struct users {
    int32_t *first, *list;
} users;

/* A reshape keeps its part when every rank has as many elements before as after. */
static bool keeps_parts(const gy_placer *placer, const gy_graph_node *node,
                        const gy_signature *signature)
{
    GY_ASSERT(placer->axis >= 0 && placer->axis < placer->pass.in->mesh.axes);
    if ((node->op->flags & GY_OP_VIEW) == 0) {
        return true;
    }
    GY_ASSERT(node->input_count >= 1 && node->output_count == 1);
    gy_type types[2] = {*gy_graph_type(placer->pass.in, node->inputs[0]), node->types[0]};
    gy_mesh mesh = placer->pass.in->mesh;
    types[0].placement[placer->axis] = signature->inputs[0];
    types[1].placement[placer->axis] = signature->outputs[0];
    memset(mesh.coordinates, 0, sizeof(mesh.coordinates));
    for (int axis = 0; axis < mesh.axes;) { /* all places of the mesh */
        if (gy_local_bytes(&mesh, &types[0]) != gy_local_bytes(&mesh, &types[1])) {
            return false;
        }
        for (axis = 0; axis < mesh.axes && ++mesh.coordinates[axis] == mesh.sizes[axis];) {
            mesh.coordinates[axis++] = 0;
        }
    }
    return true;
}

/* The node's work on one rank when the decided axes have shared it out. */
static double node_work(const gy_placer *placer, const gy_graph_node *node,
                        const gy_type *inputs)
{
    GY_ASSERT(placer->axis < placer->pass.in->mesh.axes);
    gy_cost cost = {.flops = 0};
    if (node->op->cost != NULL) {
        node->op->cost(&node->attributes, inputs, node->input_count, node->types, &cost);
    }
    double work_s =
        fmax(cost.flops / flops_s, (cost.bytes_read + cost.bytes_written) / memory_bytes_s);
    for (int axis = 0; axis < placer->axis; axis++) {
        bool is_divided = false;
        for (int k = 0; k < node->input_count; k++) {
            is_divided = is_divided || inputs[k].placement[axis].kind == GY_SHARD;
        }
        for (int32_t k = 0; k < node->output_count; k++) {
            is_divided = is_divided || node->types[k].placement[axis].kind == GY_SHARD;
        }
        work_s /= is_divided ? placer->pass.in->mesh.sizes[axis] : 1;
    }
    return work_s;
}

/* The largest part of a dimension, of what the decided axes have left of it. */
static double largest_share(const gy_placer *placer, const gy_type *type, gy_placement to)
{
    GY_ASSERT(to.kind != GY_SHARD || to.dim < type->rank);
    if (to.kind != GY_SHARD || type->sizes[to.dim] == 0) {
        return 0;
    }
    int64_t size = type->sizes[to.dim];
    GY_ASSERT(size > 0);
    for (int axis = 0; axis < placer->axis; axis++) {
        const gy_placement *outer = &type->placement[axis];
        if (outer->kind == GY_SHARD && outer->dim == to.dim) {
            const int ranks = placer->pass.in->mesh.sizes[axis];
            size = (size + ranks - 1) / ranks;
        }
    }
    const int64_t largest = (size + placer->ranks - 1) / placer->ranks;
    GY_ASSERT(largest >= 1 && largest <= size);
    return (double)largest / (double)size;
}

/* How much of the work falls to the busiest rank; all of it when nothing is sharded. */
static double share_of_work(const gy_placer *placer, const gy_graph_node *node,
                            const gy_signature *signature)
{
    double share = 0;
    for (int k = 0; k < node->input_count; k++) {
        share =
            fmax(share, largest_share(placer, gy_graph_type(placer->pass.in, node->inputs[k]),
                                      signature->inputs[k]));
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        share = fmax(share, largest_share(placer, &node->types[k], signature->outputs[k]));
    }
    GY_ASSERT(share >= 0 && share <= 1);
    return share > 0 ? share : 1;
}

static gy_status list_candidates(gy_placer *placer, int32_t index)
{
    GY_ASSERT(placer->candidates[index].list == NULL);
    const gy_graph *in = placer->pass.in;
    const gy_graph_node *node = &in->nodes[index];
    gy_candidates *out = &placer->candidates[index];
    gy_signature more[GY_OP_SIGNATURES_MAX];
    gy_type inputs[GY_OP_INPUTS_MAX];
    for (int k = 0; k < node->input_count; k++) {
        inputs[k] = *gy_graph_type(in, node->inputs[k]);
    }
    const int count = gy_placer_signatures(placer, index, more);
    if (count > GY_OP_SIGNATURES_MAX) {
        return gy_fail(GY_LIMIT, "operator %s has %d placements, at most %d", node->op->name,
                       count, GY_OP_SIGNATURES_MAX);
    }
    out->list = gy_arena_alloc(&placer->arena, ((size_t)count + 1) * sizeof(*out->list));
    out->work_s = gy_arena_alloc(&placer->arena, ((size_t)count + 1) * sizeof(double));
    if (out->list == NULL || out->work_s == NULL) {
        return GY_NOMEM;
    }
    GY_ASSERT(count >= 0);
    out->count = 1;                       /* all replicated: zero */
    if (node->op == &gy_ops_row_assign) { /* what is assigned has the parameter's placement */
        const gy_placement kept = inputs[0].placement[placer->axis];
        out->list[0].inputs[0] = out->list[0].inputs[1] = out->list[0].outputs[0] = kept;
    }
    out->work_s[0] = node_work(placer, node, inputs);
    for (int i = 0; i < count; i++) {
        if (keeps_parts(placer, node, &more[i])) {
            out->work_s[out->count] = out->work_s[0] * share_of_work(placer, node, &more[i]);
            out->list[out->count++] = more[i];
        }
    }
    return GY_OK;
}

/* What `user` pays at least when `value` comes as `placement`; the rest as known so far. */
static double user_cost(const gy_placer *placer, int32_t user, gy_value value,
                        gy_placement placement, double *move_s)
{
    GY_ASSERT(user > value.node);
    const gy_graph *in = placer->pass.in;
    const gy_graph_node *node = &in->nodes[user];
    const gy_candidates *all = &placer->candidates[user];
    GY_ASSERT(all->count >= 1);
    double best = INFINITY;
    for (int i = 0; i < all->count; i++) {
        double moved = 0, cost = all->work_s[i];
        for (int k = 0; k < node->input_count; k++) {
            gy_placement wanted = all->list[i].inputs[k];
            if (gy_value_is(node->inputs[k], value)) {
                moved = fmax(moved, gy_move_cost(placer, gy_graph_type(in, value), placement,
                                                 wanted, false));
            } else if (placer->moved[gy_graph_value(in, node->inputs[k])] != NULL) {
                cost += gy_move_cost_of(placer, node->inputs[k], wanted);
            }
        }
        /* A sum that it hands on has to be completed by somebody. */
        for (int32_t k = 0; k < node->output_count; k++) {
            const gy_placement made = all->list[i].outputs[k];
            if (made.kind == GY_PARTIAL) {
                cost += gy_move_cost(placer, &node->types[k], made,
                                     (gy_placement){.kind = GY_REPLICATE}, false);
            }
        }
        if (cost + moved < best) {
            best = cost + moved;
            *move_s = moved;
        }
    }
    return best;
}

/* What all users pay for a value in `placement`: a move is made once for all of them. */
static double users_cost(const gy_placer *placer, const users *of, gy_value value,
                         gy_placement placement)
{
    const gy_graph *in = placer->pass.in;
    int32_t number = gy_graph_value(in, value);
    double total = 0, moves = 0;
    GY_ASSERT(of->first[number] <= of->first[number + 1]);
    for (int32_t i = of->first[number]; i < of->first[number + 1]; i++) {
        double move_s = 0;
        total += user_cost(placer, of->list[i], value, placement, &move_s) - move_s;
        moves = fmax(moves, move_s);
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        if (gy_value_is(in->roots[i].value, value)) {
            moves = fmax(moves, gy_move_cost(placer, gy_graph_type(in, value), placement,
                                             in->roots[i].placement[placer->axis], false));
        }
    }
    return total + moves;
}

static int choose(const gy_placer *placer, const users *of, int32_t index)
{
    GY_ASSERT(index >= 0 && index < placer->pass.in->node_count);
    const gy_candidates *all = &placer->candidates[index];
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    int best = 0;
    GY_ASSERT(all->count >= 1);
    double best_cost = INFINITY;
    for (int i = 0; i < all->count; i++) {
        double cost = all->work_s[i];
        for (int k = 0; k < node->input_count; k++) {
            cost += gy_move_cost_of(placer, node->inputs[k], all->list[i].inputs[k]);
        }
        for (int32_t k = 0; cost < best_cost && k < node->output_count; k++) {
            cost += users_cost(placer, of, (gy_value){index, k}, all->list[i].outputs[k]);
        }
        if (cost < best_cost * (1 - rounding)) { /* of equals the first */
            best_cost = cost;
            best = i;
        }
    }
    return best;
}

/* Can all users and fetches of the value go on with it as it is? */
static bool suits_all(const gy_placer *placer, const users *of, gy_value value,
                      gy_placement placement)
{
    const gy_graph *in = placer->pass.in;
    const int32_t number = gy_graph_value(in, value);
    for (int32_t i = 0; i < in->root_count; i++) {
        if (gy_value_is(in->roots[i].value, value)) {
            return false;
        }
    }
    for (int32_t i = of->first[number]; i < of->first[number + 1]; i++) {
        const gy_graph_node *user = &in->nodes[of->list[i]];
        GY_ASSERT(of->list[i] > value.node);
        const gy_candidates *all = &placer->candidates[of->list[i]];
        bool fits = false;
        for (int s = 0; s < all->count; s++) {
            bool takes = true;
            for (int k = 0; k < user->input_count; k++) {
                takes = takes && (!gy_value_is(user->inputs[k], value) ||
                                  gy_placement_is(all->list[s].inputs[k], placement));
            }
            fits = fits || takes;
        }
        if (!fits) {
            return false;
        }
    }
    return true;
}

/*
 * Complete a Partial now if a user (or a fetch) cannot go on with the parts: so that all users
 * share one exchange. It becomes whole, or is cut where that suits the users better.
 */
static gy_status complete(gy_placer *placer, const users *of, gy_value value,
                          gy_placement placement)
{
    GY_ASSERT(placement.kind == GY_PARTIAL);
    const gy_graph *in = placer->pass.in;
    const gy_type *type = gy_graph_type(in, value);
    gy_value moved;
    if (suits_all(placer, of, value, placement)) {
        return GY_OK;
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        if (gy_value_is(in->roots[i].value, value)) {
            return gy_move(placer, value, in->roots[i].placement[placer->axis], &moved);
        }
    }
    gy_placement best = {.kind = GY_REPLICATE};
    double best_cost = gy_move_cost(placer, type, placement, best, false) +
                       users_cost(placer, of, value, best);
    for (int dim = 0; dim < type->rank; dim++) {
        const gy_placement cut = {.kind = GY_SHARD, .dim = (uint8_t)dim};
        const double cost = gy_move_cost(placer, type, placement, cut, false) +
                            users_cost(placer, of, value, cut);
        if (cost < best_cost * (1 - rounding)) {
            best = cut;
            best_cost = cost;
        }
    }
    return gy_move(placer, value, best, &moved);
}

static gy_status place_inner(gy_placer *placer, const users *of, int32_t index)
{
    GY_ASSERT((placer->pass.in->nodes[index].op->flags & GY_OP_LEAF) == 0);
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    const gy_signature *signature = &placer->candidates[index].list[choose(placer, of, index)];
    gy_value inputs[GY_OP_INPUTS_MAX];
    gy_type types[GY_OP_OUTPUTS_MAX];
    for (int k = 0; k < node->input_count; k++) {
        GY_TRY(gy_move(placer, node->inputs[k], signature->inputs[k], &inputs[k]));
    }
    for (int32_t k = 0; k < node->output_count; k++) {
        types[k] = node->types[k];
        types[k].placement[placer->axis] = signature->outputs[k];
    }
    gy_value value =
        gy_graph_apply_typed(placer->pass.out, node->op, &node->attributes, inputs,
                             node->input_count, types, node->output_count, node->name);
    GY_TRY(gy_graph_status(placer->pass.out));
    placer->pass.out->nodes[value.node].origin = node->origin;
    GY_ASSERT(placer->pass.out->nodes[value.node].output_count == node->output_count);
    for (int32_t k = 0; k < node->output_count; k++) {
        const gy_value in = {index, k};
        GY_TRY(gy_move_note(placer, in, signature->outputs[k], (gy_value){value.node, k}));
        if (signature->outputs[k].kind == GY_PARTIAL && (node->op->flags & GY_OP_EFFECT) == 0) {
            GY_TRY(complete(placer, of, in, signature->outputs[k]));
        }
    }
    return GY_OK;
}

/* Leaves are where they are: inputs and parameters as bound, all else whole on every rank. */
static gy_status place_leaf(gy_placer *placer, int32_t index)
{
    GY_ASSERT(placer->pass.in->nodes[index].output_count == 1);
    GY_ASSERT(placer->pass.in->nodes[index].input_count == 0);
    gy_value value = gy_pass_copy(&placer->pass, index);
    GY_TRY(gy_graph_status(placer->pass.out));
    return gy_move_note(placer, (gy_value){index, 0},
                        gy_graph_type(placer->pass.out, value)->placement[placer->axis], value);
}

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

static gy_status list_users(const gy_graph *in, gy_arena *arena, users *of)
{
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
    GY_ASSERT(placer->pinned_count == 0);
    const gy_graph *in = placer->pass.in;
    placer->pinned =
        gy_arena_alloc(&placer->arena, ((size_t)in->node_count + 1) * sizeof(*placer->pinned));
    if (placer->pinned == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_graph_node *node = &in->nodes[i];
        if (node->op == &gy_ops_row_parameter &&
            node->types[0].placement[placer->axis].kind != GY_REPLICATE) {
            placer->pinned[placer->pinned_count++] = &node->types[0];
        }
    }
    return GY_OK;
}

static gy_status place_nodes(gy_placer *placer)
{
    GY_ASSERT(placer->ranks > 1 && placer->prices != NULL);
    const gy_graph *in = placer->pass.in;
    users of;
    GY_TRY(list_pinned(placer));
    placer->moved =
        gy_arena_alloc(&placer->arena, ((size_t)in->value_count + 1) * sizeof(gy_moved *));
    placer->candidates =
        gy_arena_alloc(&placer->arena, ((size_t)in->node_count + 1) * sizeof(gy_candidates));
    placer->rows =
        gy_arena_alloc(&placer->arena, ((size_t)in->value_count + 1) * sizeof(uint32_t));
    if (placer->moved == NULL || placer->candidates == NULL || placer->rows == NULL) {
        return GY_NOMEM;
    }
    for (int32_t i = 0; i < in->node_count; i++) {
        GY_TRY(list_candidates(placer, i));
    }
    GY_TRY(list_users(in, &placer->arena, &of));
    for (int32_t i = 0; i < in->node_count; i++) {
        const gy_op *op = in->nodes[i].op;
        bool is_leaf = (op->flags & GY_OP_LEAF) != 0 || op == &gy_ops_row_fill;
        GY_TRY(is_leaf ? place_leaf(placer, i) : place_inner(placer, &of, i));
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        gy_root root = in->roots[i];
        if ((gy_graph_at(in, root.value)->op->flags & GY_OP_EFFECT) != 0) {
            GY_ASSERT(placer->moved[gy_graph_value(in, root.value)] != NULL);
            root.value = placer->moved[gy_graph_value(in, root.value)]->value;
        } else {
            GY_TRY(gy_move(placer, root.value, root.placement[placer->axis], &root.value));
        }
        GY_TRY(gy_graph_add_root(placer->pass.out, &root));
    }
    GY_ASSERT(placer->pass.out->root_count == in->root_count);
    return placer->prices->status;
}

static gy_status copy_nodes(gy_pass *pass)
{
    for (int32_t i = 0; i < pass->in->node_count; i++) {
        gy_pass_copy(pass, i);
    }
    GY_ASSERT(pass->out->failure.status < 0 || pass->out->node_count == pass->in->node_count);
    return gy_graph_status(pass->out);
}

static gy_status place_axis(const gy_graph *in, int axis, gy_graph **out)
{
    GY_ASSERT(axis >= 0 && axis < in->mesh.axes && in->mesh.sizes[axis] >= 1);
    gy_prices prices;
    gy_prices_init(&prices, in->mesh.sizes[axis], &in->mesh.links[axis]);
    gy_placer placer = {.axis = axis, .ranks = in->mesh.sizes[axis], .prices = &prices};
    GY_TRY(gy_pass_begin(&placer.pass, in));
    gy_status status = placer.ranks > 1 ? place_nodes(&placer) : copy_nodes(&placer.pass);
    gy_arena_free(&placer.arena);
    return gy_pass_end(&placer.pass, status, out);
}

gy_status gy_place(const gy_graph *in, gy_graph **out)
{
    GY_ASSERT(in->mesh.axes > 0);
    GY_ASSERT(!in->is_placed && in->batch > 0);
    gy_graph *last = NULL;
    for (int axis = 0; axis < in->mesh.axes; axis++) {
        gy_graph *next = NULL;
        gy_status status = place_axis(last != NULL ? last : in, axis, &next);
        gy_graph_free(last);
        GY_TRY(status);
        last = next;
    }
    GY_ASSERT(last != NULL && last->root_count == in->root_count);
    last->is_placed = true;
    *out = last;
    return GY_OK;
}
