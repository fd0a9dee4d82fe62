/*
 * What each node can do: the signatures of its row along every axis that the axis allows, in
 * all combinations, and what each costs the busiest rank. A choice that costs no less than
 * another one and the moves from its spots to that one's is dropped: whatever the neighbours
 * do, the other one is as good.
 */
#include "graph/place/place_priv.h"

#include "base/base.h"
#include "base/index.h"

#include <math.h>
#include <string.h>

static const double flops_s = 50e9, memory_bytes_s = 10e9;

enum {
    OPERANDS_MAX = GY_OP_INPUTS_MAX + GY_OP_OUTPUTS_MAX,
    /* nothing cut, what the row says, what its expansion does with a dimension cut */
    SIGNATURES_MAX = 1 + GY_OP_SIGNATURES_MAX + GY_TENSOR_RANK_MAX,
    COMPARED_MAX = 128 /* choices that are compared with each other */
};

/* A node with what it can do along each axis by itself. */
typedef struct wanted {
    const gy_graph_node *node;
    int32_t index;
    int operands;
    gy_type types[OPERANDS_MAX];                    /* inputs, then outputs */
    gy_signature list[GY_MESH_MAX][SIGNATURES_MAX]; /* the first: nothing is cut */
    double expanded_s[GY_MESH_MAX][SIGNATURES_MAX]; /* of an expansion's; 0: of the row's */
    int counts[GY_MESH_MAX];
    gy_signature row[GY_OP_SIGNATURES_MAX]; /* what the row says, whatever the axis */
    int row_count;
} wanted;

/* Candidates that were listed, by what they depend on. */
typedef struct listed {
    gy_index kinds; /* key -> number of the kind */
    int32_t *first; /* kind -> its first node */
    size_t capacity;
    int32_t *kind_of; /* node -> kind */
} listed;

static gy_placement *operand_of(gy_signature *signature, const gy_graph_node *node, int operand)
{
    GY_ASSERT(operand >= 0 && operand < node->input_count + node->output_count);
    return operand < node->input_count ? &signature->inputs[operand]
                                       : &signature->outputs[operand - node->input_count];
}

/* A reshape keeps its part when every rank has as many elements before as after. */
static bool keeps_parts(const gy_placer *placer, const wanted *w, const gy_spot *spots)
{
    GY_ASSERT(w->operands >= 1);
    if ((w->node->op->flags & GY_OP_VIEW) == 0) {
        return true;
    }
    GY_ASSERT(w->node->input_count >= 1 && w->node->output_count == 1);
    gy_type types[2] = {w->types[0], w->types[w->operands - 1]};
    gy_mesh mesh = placer->pass.in->mesh;
    memcpy(types[0].placement, spots[0].along, sizeof(types[0].placement));
    memcpy(types[1].placement, spots[w->operands - 1].along, sizeof(types[1].placement));
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

/* The largest part of a dimension along `axis`, of what the outer axes have left of it. */
static double largest_part(const gy_mesh *mesh, const gy_type *type, const gy_spot *spot,
                           int axis)
{
    GY_ASSERT(axis >= 0 && axis < mesh->axes);
    const gy_placement *cut = &spot->along[axis];
    GY_ASSERT(cut->kind == GY_SHARD && cut->dim < type->rank);
    int64_t size = type->sizes[cut->dim];
    for (int outer = 0; outer < axis; outer++) {
        const gy_placement *before = &spot->along[outer];
        if (before->kind == GY_SHARD && before->dim == cut->dim) {
            size = (size + mesh->sizes[outer] - 1) / mesh->sizes[outer];
        }
    }
    const int64_t part = (size + mesh->sizes[axis] - 1) / mesh->sizes[axis];
    return size == 0 ? 0 : (double)part / (double)size;
}

/* How much of the work falls to the busiest rank along one axis; all when nothing is cut. */
static double share_along(const gy_mesh *mesh, const wanted *w, const gy_spot *spots, int axis)
{
    GY_ASSERT(w->operands >= 1 && w->operands <= OPERANDS_MAX);
    double share = 0;
    for (int k = 0; k < w->operands; k++) {
        if (spots[k].along[axis].kind == GY_SHARD) {
            share = fmax(share, largest_part(mesh, &w->types[k], &spots[k], axis));
        }
    }
    return share > 0 ? share : 1;
}

/* Of the busiest rank; `at` has the signature along each axis. Of expansions along two axes the
 * dearer counts. */
static double choice_cost(const gy_placer *placer, const wanted *w, const gy_spot *spots,
                          const int *at, double work_s)
{
    GY_ASSERT(work_s >= 0);
    const gy_mesh *mesh = &placer->pass.in->mesh;
    double shares[GY_MESH_MAX], most_s = 0;
    for (int axis = 0; axis < mesh->axes; axis++) {
        shares[axis] = share_along(mesh, w, spots, axis);
    }
    for (int axis = -1; axis < mesh->axes; axis++) { /* -1: as the row does it */
        double cost_s = axis < 0 ? work_s : w->expanded_s[axis][at[axis]];
        for (int other = 0; other < mesh->axes; other++) {
            cost_s *= other == axis ? 1 : shares[other];
        }
        most_s = fmax(most_s, cost_s);
    }
    return most_s;
}

static bool has_expansion(const gy_mesh *mesh, const wanted *w, const int *at)
{
    for (int axis = 0; axis < mesh->axes; axis++) {
        GY_ASSERT(at[axis] >= 0 && at[axis] < w->counts[axis]);
        if (w->expanded_s[axis][at[axis]] > 0) {
            return true;
        }
    }
    return false;
}

static bool is_elementwise(const gy_graph_node *node)
{
    return (node->op->flags & GY_OP_ELEMENTWISE) != 0 && node->input_count > 0;
}

/* Does the value, which is one node's alone, never reach memory, since fusion makes one of both
 * nodes? */
static bool is_fused(const gy_placer *placer, int32_t maker, int32_t value)
{
    GY_ASSERT(value >= 0 && value < placer->pass.in->value_count);
    const gy_graph *in = placer->pass.in;
    const gy_graph_node *node = &in->nodes[maker];
    const int32_t first = placer->users.first[value];
    if (!is_elementwise(node) || placer->users.first[value + 1] != first + 1) {
        return false;
    }
    const gy_graph_node *user = &in->nodes[placer->users.list[first]];
    const bool is_step =
        is_elementwise(user) && user->types[0].rank == node->types[0].rank &&
        memcmp(user->types[0].sizes, node->types[0].sizes, sizeof(node->types[0].sizes)) == 0;
    return is_step || (user->op->flags & GY_OP_REDUCTION) != 0;
}

static double bytes_of(const gy_type *type)
{
    return (double)gy_type_count(type) * (double)gy_dtype_bytes(type->dtype);
}

static double work_of(const gy_placer *placer, const wanted *w)
{
    GY_ASSERT(w->operands == w->node->input_count + w->node->output_count);
    const gy_graph_node *node = w->node;
    gy_cost cost = {.flops = 0};
    if (node->op->cost != NULL) {
        node->op->cost(&node->attributes, w->types, node->input_count, node->types, &cost);
    }
    double bytes = cost.bytes_read + cost.bytes_written;
    for (int k = 0; k < node->input_count; k++) {
        const int32_t value = gy_graph_value(placer->pass.in, node->inputs[k]);
        bytes -= is_fused(placer, node->inputs[k].node, value) ? bytes_of(&w->types[k]) : 0;
    }
    bytes -= is_fused(placer, w->index, node->first_value) ? bytes_of(&node->types[0]) : 0;
    const double given_s = placer->pass.in->mesh.memory_bytes_s;
    return fmax(cost.flops / flops_s,
                fmax(bytes, 0) / (given_s > 0 ? given_s : memory_bytes_s));
}

/* Summands of different reductions are no value. */
static bool is_value(const gy_mesh *mesh, const gy_spot *spot)
{
    GY_ASSERT(mesh->axes > 0);
    int reduction = -1;
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (spot->along[axis].kind == GY_PARTIAL) {
            if (reduction >= 0 && reduction != spot->along[axis].reduction) {
                return false;
            }
            reduction = spot->along[axis].reduction;
        }
    }
    return true;
}

/* Do two axes cut one dimension? What is kept so would have to be gathered to be moved. */
static bool is_cut_twice(const gy_mesh *mesh, const gy_spot *spot)
{
    uint32_t cut = 0;
    GY_ASSERT(mesh->axes <= GY_MESH_MAX);
    for (int axis = 0; axis < mesh->axes; axis++) {
        if (spot->along[axis].kind == GY_SHARD) {
            const uint32_t bit = 1u << spot->along[axis].dim;
            if ((cut & bit) != 0) {
                return true;
            }
            cut |= bit;
        }
    }
    return false;
}

/* ---- along one axis ---- */

static bool is_leaf(const gy_graph_node *node)
{
    return (node->op->flags & GY_OP_LEAF) != 0 || node->op == &gy_ops_row_fill;
}

/* The parameter that a node is or assigns; NULL: neither. */
static const gy_graph_node *parameter_of(const gy_graph *in, const gy_graph_node *node)
{
    const gy_graph_node *leaf =
        node->op == &gy_ops_row_assign ? gy_graph_at(in, node->inputs[0]) : node;
    GY_ASSERT(leaf != NULL);
    return leaf->op == &gy_ops_row_parameter ? leaf : NULL;
}

/* Along another axis than this one: is the dimension of a parameter pinned to be cut? */
static bool is_cut_elsewhere(const gy_mesh *mesh, const gy_type *type, int axis, int dim)
{
    GY_ASSERT(dim >= 0 && dim < type->rank);
    for (int other = 0; other < mesh->axes; other++) {
        if (other != axis && type->placement[other].kind == GY_SHARD &&
            type->placement[other].dim == dim) {
            return true;
        }
    }
    return false;
}

static void set_all(const wanted *w, gy_signature *signature, gy_placement placement)
{
    GY_ASSERT(w->operands >= 1);
    memset(signature, 0, sizeof(*signature));
    for (int k = 0; k < w->operands; k++) {
        *operand_of(signature, w->node, k) = placement;
    }
}

/* Leaves are where they are, and what is assigned lives where the parameter does. A parameter
 * that is free along the axis may be cut there, along any dimension with a part for each rank.
 */
static void list_fixed(const gy_placer *placer, wanted *w, int axis)
{
    GY_ASSERT(is_leaf(w->node) || w->node->op == &gy_ops_row_assign);
    const gy_mesh *mesh = &placer->pass.in->mesh;
    const gy_graph_node *leaf = parameter_of(placer->pass.in, w->node);
    const gy_type *type = &w->types[0];
    set_all(w, &w->list[axis][0], type->placement[axis]);
    if (leaf == NULL || (leaf->attributes.shape.free_axes >> axis & 1) == 0) {
        return;
    }
    for (int dim = 0; dim < type->rank && w->counts[axis] <= GY_OP_SIGNATURES_MAX; dim++) {
        if (type->sizes[dim] >= mesh->sizes[axis] && !is_cut_elsewhere(mesh, type, axis, dim)) {
            set_all(w, &w->list[axis][w->counts[axis]++],
                    (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)dim});
        }
    }
}

/* Dimensions of the first input that no signature of the row cuts, for its expansion. Rows of
 * batches along data were expanded before placement. */
static gy_status list_expansions(gy_placer *placer, wanted *w, int axis)
{
    const gy_mesh *mesh = &placer->pass.in->mesh;
    GY_ASSERT(axis >= 0 && axis < mesh->axes);
    if (!placer->may_expand || w->node->op->expand == NULL || mesh->sizes[axis] == 1 ||
        mesh->kinds[axis] == GY_AXIS_DATA) {
        return GY_OK;
    }
    const int count = w->counts[axis];
    for (int dim = 0; dim < w->types[0].rank; dim++) {
        gy_expansion found;
        bool is_new = w->types[0].sizes[dim] >= mesh->sizes[axis];
        for (int i = 0; is_new && i < count; i++) {
            const gy_placement *first = &w->list[axis][i].inputs[0];
            is_new = first->kind != GY_SHARD || first->dim != dim;
        }
        GY_TRY(is_new ? gy_expansion_find(placer, w->index, axis, dim, &found) : GY_OK);
        if (is_new && found.is_possible &&
            gy_placer_allows(placer, w->node, axis, &found.signature)) {
            GY_ASSERT(w->counts[axis] < SIGNATURES_MAX);
            w->expanded_s[axis][w->counts[axis]] = found.seconds;
            w->list[axis][w->counts[axis]++] = found.signature;
        }
    }
    return GY_OK;
}

static bool is_fixed(const gy_graph_node *node)
{
    return is_leaf(node) || node->op == &gy_ops_row_assign;
}

/* What the row says, and the rows of batches that follow from it. */
static gy_status list_row(gy_placer *placer, wanted *w)
{
    GY_ASSERT(w->index >= 0 && w->index < placer->pass.in->node_count);
    const gy_op *op = w->node->op;
    memset(w->row, 0, sizeof(w->row));
    w->row_count = is_fixed(w->node) || op->placements == NULL
                       ? 0
                       : op->placements(&w->node->attributes, w->types, w->node->input_count,
                                        w->node->types, w->row);
    if (w->row_count > GY_OP_SIGNATURES_MAX) {
        return gy_fail(GY_LIMIT, "operator %s has %d placements, at most %d", op->name,
                       w->row_count, GY_OP_SIGNATURES_MAX);
    }
    gy_placer_mark_rows(placer, w->index, w->row, w->row_count);
    return GY_OK;
}

static gy_status list_signatures(gy_placer *placer, wanted *w)
{
    const gy_mesh *mesh = &placer->pass.in->mesh;
    GY_ASSERT(w->row_count <= GY_OP_SIGNATURES_MAX);
    for (int axis = 0; axis < mesh->axes; axis++) {
        w->counts[axis] = 1;
        memset(&w->list[axis][0], 0, sizeof(w->list[axis][0]));
        memset(w->expanded_s[axis], 0, sizeof(w->expanded_s[axis]));
        if (is_fixed(w->node)) {
            list_fixed(placer, w, axis);
        }
        if (gy_placer_is_pinned(w->node, axis)) {
            GY_TRY(gy_placer_check_pin(placer, w->index, axis));
            set_all(w, &w->list[axis][0], w->node->attributes.pin.to[axis]);
            continue;
        }
        for (int i = 0; mesh->sizes[axis] > 1 && i < w->row_count; i++) {
            if (gy_placer_allows(placer, w->node, axis, &w->row[i])) {
                w->list[axis][w->counts[axis]++] = w->row[i];
            }
        }
        GY_TRY(list_expansions(placer, w, axis));
    }
    return GY_OK;
}

/* ---- combinations ---- */

/* Does choice `a` cost so little that the moves from b's spots to a's are paid, too? */
static bool is_better(gy_placer *placer, const wanted *w, const gy_candidates *all, int32_t a,
                      int32_t b)
{
    GY_ASSERT(a != b && a < all->count && b < all->count);
    GY_ASSERT(all->cost_s[a] >= 0);
    double cost = all->cost_s[a];
    for (int k = 0; k < w->operands && cost <= all->cost_s[b]; k++) {
        const bool is_input = k < w->node->input_count;
        const int32_t value = is_input ? gy_graph_value(placer->pass.in, w->node->inputs[k])
                                       : w->node->first_value + k - w->node->input_count;
        const int32_t at_a = gy_candidate_spots(all, a)[k];
        const int32_t at_b = gy_candidate_spots(all, b)[k];
        const int32_t from = is_input ? at_b : at_a, to = is_input ? at_a : at_b;
        const int32_t kin = placer->kin_of[value];
        cost += gy_kin_route(placer, kin, from, to);
        cost += from != to ? gy_kin_held(placer, kin, to) : 0;
    }
    return cost <= all->cost_s[b];
}

static void drop_worse(gy_placer *placer, const wanted *w, gy_candidates *all)
{
    GY_ASSERT(all->count >= 1);
    if (placer->keeps_all || all->count > COMPARED_MAX ||
        (w->node->op->flags & (GY_OP_EFFECT | GY_OP_LEAF)) != 0) {
        return;
    }
    bool is_worse[COMPARED_MAX] = {false};
    for (int32_t a = 0; a < all->count; a++) {
        for (int32_t b = 0; !is_worse[a] && b < all->count; b++) {
            is_worse[b] = is_worse[b] || (b != a && is_better(placer, w, all, a, b));
        }
    }
    int32_t kept = 0;
    for (int32_t a = 0; a < all->count; a++) {
        if (!is_worse[a]) {
            all->cost_s[kept] = all->cost_s[a];
            all->is_expanded[kept] = all->is_expanded[a];
            memmove(gy_candidate_spots(all, kept), gy_candidate_spots(all, a),
                    (size_t)w->operands * sizeof(*all->spots));
            kept++;
        }
    }
    GY_ASSERT(kept >= 1);
    all->count = kept;
}

double gy_candidates_held(const gy_placer *placer, int32_t index, const int32_t *spots)
{
    GY_ASSERT(index >= 0 && index < placer->pass.in->node_count);
    const gy_graph_node *node = &placer->pass.in->nodes[index];
    double sum = 0;
    for (int32_t k = 0; k < node->output_count; k++) {
        const bool is_new = (node->op->flags & (GY_OP_VIEW | GY_OP_EFFECT)) == 0;
        sum += is_new ? gy_kin_held(placer, placer->kin_of[node->first_value + k],
                                    spots[node->input_count + k])
                      : 0;
    }
    return sum;
}

static gy_status add_choice(gy_placer *placer, const wanted *w, const gy_spot *spots,
                            double cost_s, gy_candidates *all)
{
    GY_ASSERT(cost_s >= 0);
    GY_ASSERT(all->operands == w->operands);
    for (int k = 0; k < w->operands; k++) {
        const int32_t value = k < w->node->input_count
                                  ? gy_graph_value(placer->pass.in, w->node->inputs[k])
                                  : w->node->first_value + k - w->node->input_count;
        GY_TRY(gy_kin_spot(placer, placer->kin_of[value], &spots[k],
                           &gy_candidate_spots(all, all->count)[k]));
    }
    cost_s += gy_candidates_held(placer, w->index, gy_candidate_spots(all, all->count));
    all->cost_s[all->count++] = cost_s;
    return GY_OK;
}

static gy_status combine(gy_placer *placer, wanted *w, gy_candidates *all)
{
    GY_ASSERT(all->count == 0);
    GY_ASSERT(w->counts[0] >= 1);
    const gy_mesh *mesh = &placer->pass.in->mesh;
    int at[GY_MESH_MAX] = {0};
    const bool is_kept = parameter_of(placer->pass.in, w->node) != NULL;
    const double work_s = work_of(placer, w);
    size_t count = 1;
    for (int axis = 0; axis < mesh->axes; axis++) {
        count *= (size_t)w->counts[axis];
    }
    all->operands = w->operands;
    all->cost_s = gy_arena_alloc(&placer->arena, count * sizeof(double));
    all->spots =
        gy_arena_alloc(&placer->arena, (count * (size_t)w->operands + 1) * sizeof(int32_t));
    all->is_expanded = gy_arena_alloc(&placer->arena, count * sizeof(bool));
    if (all->cost_s == NULL || all->spots == NULL || all->is_expanded == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        gy_spot spots[OPERANDS_MAX];
        bool is_possible = true;
        memset(spots, 0, sizeof(spots));
        for (int k = 0; k < w->operands; k++) {
            for (int axis = 0; axis < mesh->axes; axis++) {
                spots[k].along[axis] = *operand_of(&w->list[axis][at[axis]], w->node, k);
            }
            is_possible = is_possible && is_value(mesh, &spots[k]) &&
                          (!is_kept || !is_cut_twice(mesh, &spots[k]));
        }
        if (i == 0 || (is_possible && keeps_parts(placer, w, spots))) {
            const double cost_s = i == 0 ? work_s : choice_cost(placer, w, spots, at, work_s);
            all->is_expanded[all->count] = has_expansion(mesh, w, at);
            GY_TRY(add_choice(placer, w, spots, cost_s, all));
        }
        for (int axis = 0; axis < mesh->axes && ++at[axis] == w->counts[axis]; axis++) {
            at[axis] = 0;
        }
    }
    return GY_OK;
}

/* ---- nodes alike ---- */

/* All that the candidates of a node depend on. */
typedef struct kind_key {
    const gy_op *op;
    gy_attributes attributes;
    gy_type leaf; /* of what lives somewhere */
    int32_t kins[OPERANDS_MAX];
    uint32_t rows[OPERANDS_MAX];
    uint32_t same[OPERANDS_MAX];         /* the first operand that is this value */
    uint32_t fused;                      /* bits of operands that never reach memory */
    int32_t input_count, free_axes, own; /* own: the node, of a pin; 0 */
} kind_key;

static int32_t operand_value(const gy_graph *in, const gy_graph_node *node, int k)
{
    GY_ASSERT(k >= 0 && k < node->input_count + node->output_count);
    return k < node->input_count ? gy_graph_value(in, node->inputs[k])
                                 : node->first_value + k - node->input_count;
}

static gy_status number_kind(const gy_placer *placer, const wanted *w, listed *all,
                             uint32_t *number)
{
    const gy_graph *in = placer->pass.in;
    const gy_graph_node *node = w->node, *leaf = parameter_of(in, node);
    kind_key key;
    memset(&key, 0, sizeof(key)); /* every byte of it is hashed */
    key.op = node->op;
    if ((node->op->flags & GY_OP_RANDOM) == 0) { /* else they hold what tells draws apart */
        memcpy(&key.attributes, &node->attributes, sizeof(key.attributes));
    }
    key.input_count = node->input_count;
    key.free_axes = leaf != NULL ? leaf->attributes.shape.free_axes : 0;
    key.own = node->op == &gy_ops_row_pin ? w->index : 0;
    if (is_fixed(node)) {
        memcpy(key.leaf.placement, w->types[0].placement, sizeof(key.leaf.placement));
    }
    GY_ASSERT(w->operands <= OPERANDS_MAX);
    for (int k = 0; k < w->operands; k++) {
        const int32_t value = operand_value(in, node, k);
        key.kins[k] = placer->kin_of[value];
        key.rows[k] = placer->rows[value];
        while (operand_value(in, node, (int)key.same[k]) != value) {
            key.same[k]++;
        }
        const int32_t maker = k < node->input_count ? node->inputs[k].node : w->index;
        key.fused |= is_fused(placer, maker, value) ? 1u << k : 0;
    }
    return gy_index_number(&all->kinds, gy_key_of(&key, sizeof(key)), number);
}

static gy_status list_node(gy_placer *placer, wanted *w, listed *all)
{
    GY_ASSERT(w->index < placer->pass.in->node_count);
    const gy_graph_node *node = w->node;
    const size_t before = all->kinds.count;
    uint32_t kind = 0;
    w->operands = node->input_count + node->output_count;
    for (int k = 0; k < node->input_count; k++) {
        w->types[k] = *gy_graph_type(placer->pass.in, node->inputs[k]);
    }
    memcpy(&w->types[node->input_count], node->types,
           (size_t)node->output_count * sizeof(gy_type));
    GY_TRY(list_row(placer, w));
    GY_TRY(number_kind(placer, w, all, &kind));
    all->kind_of[w->index] = (int32_t)kind;
    if (kind < before) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("graph.place", all->first, all->capacity, before + 1));
    all->first[kind] = w->index;
    GY_TRY(list_signatures(placer, w));
    return combine(placer, w, &placer->candidates[w->index]);
}

/* Of each kind its first node's, without what is never better. */
static void share_candidates(gy_placer *placer, wanted *w, const listed *all)
{
    const gy_graph *in = placer->pass.in;
    for (int32_t i = 0; i < in->node_count; i++) {
        GY_ASSERT(all->first != NULL);
        const int32_t first = all->first[all->kind_of[i]];
        GY_ASSERT(first <= i);
        if (first < i) {
            placer->candidates[i] = placer->candidates[first];
            continue;
        }
        w->node = &in->nodes[i];
        w->index = i;
        w->operands = w->node->input_count + w->node->output_count;
        drop_worse(placer, w, &placer->candidates[i]);
    }
}

static gy_status list_all(gy_placer *placer, wanted *w, listed *all)
{
    const gy_graph *in = placer->pass.in;
    GY_TRY(gy_kins_list(placer));
    for (int32_t i = 0; i < in->node_count; i++) {
        w->node = &in->nodes[i];
        w->index = i;
        GY_TRY(list_node(placer, w, all));
    }
    for (int32_t i = 0; i < in->root_count; i++) {
        gy_spot spot;
        int32_t number;
        memcpy(spot.along, in->roots[i].placement, sizeof(spot.along));
        GY_TRY(gy_kin_spot(placer, placer->kin_of[gy_graph_value(in, in->roots[i].value)],
                           &spot, &number));
    }
    GY_TRY(gy_kins_close(placer));
    share_candidates(placer, w, all);
    return GY_OK;
}

gy_status gy_candidates_list(gy_placer *placer)
{
    GY_ASSERT(placer->candidates != NULL && placer->rows != NULL);
    listed all = {.first = NULL};
    wanted *w = gy_alloc_zero("graph.place", 1, sizeof(*w));
    all.kind_of = gy_alloc("graph.place",
                           ((size_t)placer->pass.in->node_count + 1) * sizeof(*all.kind_of));
    const gy_status status =
        w == NULL || all.kind_of == NULL ? GY_NOMEM : list_all(placer, w, &all);
    gy_index_free(&all.kinds);
    gy_free(all.first);
    gy_free(all.kind_of);
    gy_free(w);
    return status;
}
