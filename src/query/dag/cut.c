/* A plan becomes stages. Each operator extends the stages of its input, or ends them and reads
 * them in a new one. */
#include "query/dag/dag_priv.h"

#include <string.h>

typedef struct cutter {
    gy_query_stages *out;
    const gy_query_plan *plan;
    const gy_query_cut_options *options;
    bool is_first; /* within a side of a join that its size decides */
} cutter;

/* Rows of an operator: those of stages that have not ended, one behind the other. */
typedef struct rows {
    gy_query_stage **stages; /* (count) with equal columns */
    uint32_t count;
    /* columns behind those of the operator; by them rows are in its order. None: they are as
     * they are */
    gy_query_key *order;
    uint32_t order_count;
    gy_query_parting by; /* of one stage: how its vertices have them */
} rows;

static gy_status cut(cutter *c, const gy_query_node *node, bool is_ordered, rows *out);

/* ---- Memory ---- */

static void *take(cutter *c, size_t count, size_t size_bytes)
{
    return gy_query_stages_take(c->out, count, size_bytes);
}

/* `first`, then the columns of an order. */
static gy_status join_columns(cutter *c, const uint32_t *first, uint32_t count,
                              const rows *behind, uint32_t **columns)
{
    return gy_query_join_columns(c->out, first, count, behind->order, behind->order_count,
                                 columns);
}

static gy_status join_keys(cutter *c, const gy_query_key *first, uint32_t count,
                           const rows *behind, gy_query_key **keys)
{
    return gy_query_join_keys(c->out, first, count, behind->order, behind->order_count, keys);
}

/* ---- Stages ---- */

static gy_status add_stage(cutter *c, const gy_query_table *table, uint32_t vertices, rows *out)
{
    *out = (rows){.stages = take(c, 1, sizeof(gy_query_stage *)), .count = 1};
    return out->stages == NULL ? GY_NOMEM
                               : gy_query_stages_add(c->out, table, vertices, &out->stages[0]);
}

static bool is_single(const rows *in)
{
    const gy_query_stage *stage = in->stages[0];
    return in->count == 1 && stage->table == NULL && stage->like == GY_QUERY_NONE &&
           stage->vertices == 1;
}

/* A copy of the operator above one of the stages, with the order's columns. */
static gy_status copy_node(cutter *c, const gy_query_node *node, const rows *behind,
                           gy_query_node *left, gy_query_node **out)
{
    gy_query_node *made = take(c, 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = *node;
    made->left = left;
    made->right = NULL;
    made->count = node->count + behind->order_count;
    GY_TRY(join_columns(c, node->columns, node->count, behind, &made->columns));
    *out = made;
    return GY_OK;
}

/* What reads an input: columns of those that arrive. */
static gy_status leaf_of(cutter *c, gy_query_input *input, const uint32_t *columns,
                         uint32_t count, double guess, gy_query_node **out)
{
    return gy_query_input_scan(c->out, input, columns, count, guess, out);
}

static gy_status add_input(cutter *c, gy_query_stage *stage, gy_query_input *input)
{
    return gy_query_stage_read(c->out, stage, input);
}

/* Stages end with that sink; what they give is an input. */
static gy_status end_stages(cutter *c, const rows *in, const gy_query_sink *sink, double guess,
                            gy_query_input **out)
{
    gy_query_input *made = take(c, 1, sizeof(*made));
    uint32_t *numbers = take(c, in->count, sizeof(*numbers));
    char *name = take(c, 32, 1);
    if (made == NULL || numbers == NULL || name == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < in->count; i++) {
        GY_ASSERT(!in->stages[i]->is_ended &&
                  in->stages[i]->root->count == in->stages[0]->root->count);
        in->stages[i]->sink = *sink;
        in->stages[i]->is_ended = true;
        numbers[i] = gy_query_stage_number(c->out, in->stages[i]);
    }
    gy_print(name, 32, "of stage %u", numbers[0]);
    const gy_query_node *root = in->stages[0]->root;
    const bool has_ordinal = sink->ordinal != GY_QUERY_NONE;
    const rows ordinal = {.order = &(gy_query_key){.column = sink->ordinal},
                          .order_count = has_ordinal ? 1 : 0};
    uint32_t *columns = NULL;
    GY_TRY(join_columns(c, root->columns, root->count, &ordinal, &columns));
    *made = (gy_query_input){.leaf = {.name = name, .rows = guess, .bytes = 8 * guess},
                             .columns = columns,
                             .count = root->count + ordinal.order_count,
                             .keys = has_ordinal ? NULL : in->order,
                             .key_count = has_ordinal ? 0 : in->order_count,
                             .ordinal = sink->ordinal,
                             .stages = numbers,
                             .stage_count = in->count,
                             .is_whole = sink->parts == 1};
    *out = made;
    return GY_OK;
}

/* All rows, in their order, at each vertex of `to`: the operator's own columns. */
static gy_status gather(cutter *c, const rows *in, const gy_query_node *node,
                        gy_query_stage *to, gy_query_node **leaf)
{
    const gy_query_sink all = {.parts = 1, .ordinal = GY_QUERY_NONE};
    gy_query_input *input = NULL;
    GY_TRY(end_stages(c, in, &all, node->rows, &input));
    GY_TRY(add_input(c, to, input));
    return leaf_of(c, input, node->columns, node->count, node->rows, leaf);
}

/* How rows of an operator are divided for a stage. */
typedef struct division {
    const gy_query_node *node;
    const uint32_t *keys; /* (key_count) */
    uint32_t key_count;
    bool is_ordered; /* their order is asked for */
    gy_query_heat heat;
    gy_query_stage *to;
} division;

/* Rows by the hash of keys; *in becomes what is read: with its order, if it is asked for. */
static gy_status by_hash(cutter *c, rows *in, const division *by, gy_query_node **leaf)
{
    gy_query_sink sink = {.parts = c->options->parts,
                          .keys = by->keys,
                          .key_count = by->key_count,
                          .heat = by->heat,
                          .chosen = GY_QUERY_NONE,
                          .ordinal = GY_QUERY_NONE};
    gy_query_input *input = NULL;
    uint32_t *columns = NULL;
    if (by->is_ordered && in->order_count == 0) {
        gy_query_key *order = take(c, 1, sizeof(*order));
        GY_TRY(gy_query_stages_column(c->out, &sink.ordinal));
        if (order == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(end_stages(c, in, &sink, by->node->rows, &input));
        *order = (gy_query_key){.column = sink.ordinal};
        in->order = order;
        in->order_count = 1;
    } else {
        GY_TRY(end_stages(c, in, &sink, by->node->rows, &input));
    }
    in->order_count = by->is_ordered ? in->order_count : 0;
    GY_TRY(add_input(c, by->to, input));
    GY_TRY(join_columns(c, by->node->columns, by->node->count, in, &columns));
    return leaf_of(c, input, columns, by->node->count + in->order_count, by->node->rows, leaf);
}

/* ---- Row by row ---- */

static gy_status cut_row_wise(cutter *c, const gy_query_node *node, bool is_ordered, rows *out)
{
    GY_TRY(cut(c, node->left, is_ordered, out));
    for (uint32_t i = 0; i < out->count; i++) {
        gy_query_node *made = NULL;
        GY_TRY(copy_node(c, node, out, out->stages[i]->root, &made));
        out->stages[i]->root = made;
        if (node->kind != GY_QUERY_PROJECT) {
            continue;
        }
        made->values = take(c, made->count, sizeof(*made->values));
        if (made->values == NULL) {
            return GY_NOMEM;
        }
        for (uint32_t k = 0; k < made->count; k++) {
            made->values[k] = k < node->count ? node->values[k]
                                              : gy_query_column_node(c->out, made->columns[k]);
            if (made->values[k] == NULL) {
                return GY_NOMEM;
            }
        }
    }
    return GY_OK;
}

static gy_status cut_leaf(cutter *c, const gy_query_node *node, rows *out)
{
    const bool is_scan = node->kind == GY_QUERY_SCAN;
    GY_TRY(add_stage(c, is_scan ? node->table : NULL, 1, out));
    return copy_node(c, node, out, NULL, &out->stages[0]->root);
}

/* ---- One vertex ---- */

/* The operator where all rows of its inputs are. */
static gy_status at_one(cutter *c, const gy_query_node *node, rows *left, rows *right,
                        rows *out)
{
    gy_query_node *leaf = NULL, *other = NULL;
    if (right == NULL && is_single(left) && left->order_count == 0) {
        *out = *left;
        leaf = left->stages[0]->root;
    } else {
        GY_TRY(add_stage(c, NULL, 1, out));
        GY_TRY(gather(c, left, node->left, out->stages[0], &leaf));
    }
    if (right != NULL) {
        GY_TRY(gather(c, right, node->right, out->stages[0], &other));
    }
    GY_TRY(copy_node(c, node, out, leaf, &out->stages[0]->root));
    out->stages[0]->root->right = other;
    return GY_OK;
}

/* ---- Joins ---- */

/* Each vertex of the probing side reads all of the other one. */
static gy_status join_broadcast(cutter *c, const gy_query_node *node, bool builds_left,
                                rows sides[2], rows *out)
{
    const gy_query_node *built = builds_left ? node->left : node->right;
    const gy_query_sink all = {.parts = 1, .ordinal = GY_QUERY_NONE};
    gy_query_input *input = NULL;
    *out = sides[builds_left ? 1 : 0];
    GY_TRY(end_stages(c, &sides[builds_left ? 0 : 1], &all, built->rows, &input));
    for (uint32_t i = 0; i < out->count; i++) {
        gy_query_stage *stage = out->stages[i];
        gy_query_node *leaf = NULL, *made = NULL;
        GY_TRY(add_input(c, stage, input));
        GY_TRY(leaf_of(c, input, built->columns, built->count, built->rows, &leaf));
        stage->root->rows = builds_left ? node->right->rows : node->left->rows;
        GY_TRY(copy_node(c, node, out, builds_left ? leaf : stage->root, &made));
        made->right = builds_left ? stage->root : leaf;
        stage->root = made;
    }
    return GY_OK;
}

/* Where the sides of a join by hash meet. */
typedef struct meeting {
    const gy_query_node *node;
    bool builds_left, has_built, is_ordered;
    bool is_kept[2]; /* a side's rows are in their parts already */
    gy_query_stage *stage;
} meeting;

/* What may happen to hot keys of a side. The side that is kept in memory is copied, as in a
 * broadcast, where none of its rows comes out by itself; so each row of the other one finds all
 * of its matches in one part. */
static gy_query_heat heat_of(const cutter *c, const meeting *at, int side)
{
    const bool is_built = (side == 0) == at->builds_left;
    const bool is_first = at->is_kept[0] || at->is_kept[1]
                              ? is_built && gy_query_has_hot_keys(c->out, at->stage)
                              : true;
    return at->has_built || !is_first ? GY_QUERY_COOL
           : is_built                 ? GY_QUERY_COPIED
                                      : GY_QUERY_SPREAD;
}

/* Which sides' rows stay where they are. Hot keys of theirs must be copied of the other one. */
static void find_kept(const cutter *c, const rows sides[2], meeting *at)
{
    const gy_query_node *node = at->node;
    for (int i = 0; i < 2 && !(at->is_ordered && at->has_built); i++) {
        const bool is_built = (i == 0) == at->builds_left;
        at->is_kept[i] =
            sides[i].count == 1 &&
            gy_query_is_parted(&sides[i].by, i == 0 ? node->left_keys : node->right_keys,
                               node->key_count) &&
            ((!is_built && !at->has_built) ||
             !gy_query_has_hot_keys(c->out, sides[i].stages[0]));
    }
    const int probe = at->builds_left ? 1 : 0;
    if (at->is_kept[0] && at->is_kept[1]) {
        at->is_kept[1 - probe] = !gy_query_has_hot_keys(c->out, sides[probe].stages[0]);
    }
    if (at->is_kept[0] || at->is_kept[1]) {
        const int first = at->is_kept[probe] ? probe : 1 - probe;
        at->stage = sides[first].stages[0];
        at->stage->kept = first == 0 ? node->left_keys : node->right_keys;
        at->stage->kept_count = node->key_count;
    }
}

/* A side's rows at the stage where they meet the others. */
static gy_status join_side(cutter *c, const meeting *at, int side, rows *in,
                           gy_query_node **leaf)
{
    const gy_query_node *node = at->node, *below = side == 0 ? node->left : node->right;
    const bool is_built = (side == 0) == at->builds_left;
    const bool is_out =
        side == 0 || (node->join != GY_QUERY_SEMI && node->join != GY_QUERY_ANTI);
    const bool is_ordered = at->is_ordered && is_out &&
                            (!is_built || at->has_built || node->join == GY_QUERY_SEMI ||
                             node->join == GY_QUERY_ANTI);
    if (!at->is_kept[side]) {
        const division by = {.node = below,
                             .keys = side == 0 ? node->left_keys : node->right_keys,
                             .key_count = node->key_count,
                             .is_ordered = is_ordered,
                             .heat = heat_of(c, at, side),
                             .to = at->stage};
        return by_hash(c, in, &by, leaf);
    }
    gy_query_stage *stage = in->stages[0];
    in->order_count = is_ordered ? in->order_count : 0;
    if (stage == at->stage) {
        *leaf = stage->root;
        return GY_OK;
    }
    const gy_query_sink all = {.parts = 1, .ordinal = GY_QUERY_NONE};
    gy_query_input *input = NULL;
    uint32_t *columns = NULL;
    GY_TRY(end_stages(c, in, &all, below->rows, &input));
    input->is_whole = false;
    input->is_beside = true;
    GY_TRY(add_input(c, at->stage, input));
    GY_TRY(join_columns(c, below->columns, below->count, in, &columns));
    return leaf_of(c, input, columns, below->count + in->order_count, below->rows, leaf);
}

/* Both sides by the hash of their keys. */
static gy_status join_by_hash(cutter *c, const gy_query_node *node, bool is_ordered,
                              rows sides[2], rows *out)
{
    gy_query_node *leaves[2] = {NULL, NULL};
    meeting at = {
        .node = node, .builds_left = gy_query_builds_left(node), .is_ordered = is_ordered};
    at.has_built = gy_query_gives_built(node, at.builds_left);
    find_kept(c, sides, &at);
    if (at.stage == NULL) {
        GY_TRY(add_stage(c, NULL, c->options->parts, out));
        at.stage = out->stages[0];
    } else {
        *out = sides[sides[0].stages[0] == at.stage ? 0 : 1];
    }
    out->by = gy_query_join_parting(node);
    for (int i = 0; i < 2; i++) {
        GY_TRY(join_side(c, &at, i, &sides[i], &leaves[i]));
    }
    const rows *probe = &sides[at.builds_left ? 1 : 0], *built = &sides[at.builds_left ? 0 : 1];
    out->order_count = probe->order_count + built->order_count;
    GY_TRY(join_keys(c, probe->order, probe->order_count, built, &out->order));
    GY_TRY(copy_node(c, node, out, leaves[0], &at.stage->root));
    at.stage->root->right = leaves[1];
    return GY_OK;
}

/* A side of a join; is_first: its size decides. */
static gy_status cut_side(cutter *c, const gy_query_node *node, bool is_ordered, bool is_first,
                          rows *out)
{
    const uint32_t begin = c->out->count;
    const bool was_first = c->is_first;
    c->is_first = was_first || is_first;
    const gy_status status = cut(c, node, is_ordered, out);
    c->is_first = was_first;
    for (uint32_t i = begin; is_first && i < c->out->count; i++) {
        c->out->items[i]->is_first = true;
    }
    return status;
}

static gy_status cut_join(cutter *c, const gy_query_node *node, bool is_ordered, rows *out)
{
    rows sides[2];
    const bool builds_left = gy_query_builds_left(node);
    const gy_query_node *built = builds_left ? node->left : node->right;
    const double most = c->options->broadcast_bytes;
    const bool has_built = gy_query_gives_built(node, builds_left);
    const bool may_hash =
        node->key_count > 0 && node->join != GY_QUERY_ANTI_NULL && c->options->parts > 1;
    const bool is_decided =
        c->options->has_decisions && !c->is_first && may_hash && !has_built &&
        !gy_query_is_sure_of_size(built, gy_query_guess_bytes(built, built->rows), most);
    const double size =
        is_decided && c->options->sizes != NULL ? c->options->sizes[node->number] : -1;
    const double bytes = size >= 0 ? size : gy_query_guess_bytes(built, built->rows);
    GY_TRY(cut_side(c, node->left, is_ordered, is_decided && builds_left, &sides[0]));
    GY_TRY(cut_side(c, node->right, is_ordered, is_decided && !builds_left, &sides[1]));
    if (is_decided) {
        rows *side = &sides[builds_left ? 0 : 1];
        gy_query_decision decision = {.join = node->number,
                                      .stage_count = side->count,
                                      .is_broadcast = bytes <= most,
                                      .bytes = size};
        GY_TRY(gy_query_decision_side(c->out, &decision, &side->stages));
    }
    if (!has_built && (bytes <= most || !may_hash)) {
        return join_broadcast(c, node, builds_left, sides, out);
    }
    return may_hash ? join_by_hash(c, node, is_ordered, sides, out)
                    : at_one(c, node, &sides[0], &sides[1], out);
}

/* ---- Aggregates ---- */

/* Whether each vertex has all rows of its groups. Where hot keys can be split, that is worth
 * more if groups in part are few. */
static bool is_together(const cutter *c, const gy_query_node *node, const rows *below)
{
    return below->count == 1 &&
           gy_query_is_parted(&below->by, node->columns, node->group_count) &&
           (gy_query_has_distinct(node) || below->order_count > 0 ||
            2 * node->rows > node->left->rows ||
            !gy_query_has_hot_keys(c->out, below->stages[0]));
}

static gy_status aggregate_kept(cutter *c, const gy_query_node *node, rows *below, rows *out)
{
    gy_query_stage *stage = below->stages[0];
    *out = *below;
    out->order_count = 0;
    out->by = (gy_query_parting){.keys = {node->columns}, .key_count = node->group_count};
    stage->kept = node->columns;
    stage->kept_count = node->group_count;
    gy_query_stage_cool(c->out, stage);
    return copy_node(c, node, out, stage->root, &stage->root);
}

static gy_status cut_aggregate(cutter *c, const gy_query_node *node, rows *out)
{
    rows below;
    gy_query_node *leaf = NULL;
    gy_query_input *input = NULL;
    const bool is_ordered = gy_query_depends_on_order(c->plan, node);
    GY_TRY(cut(c, node->left, is_ordered, &below));
    if (is_single(&below)) {
        return at_one(c, node, &below, NULL, out);
    }
    if (is_together(c, node, &below)) {
        return aggregate_kept(c, node, &below, out);
    }
    GY_TRY(add_stage(c, NULL, node->group_count > 0 ? c->options->parts : 1, out));
    out->by = (gy_query_parting){.keys = {node->columns}, .key_count = node->group_count};
    gy_query_stage *stage = out->stages[0];
    if (gy_query_has_distinct(node) || below.order_count > 0) {
        GY_TRY(end_stages(c, &below,
                          &(gy_query_sink){.parts = stage->vertices,
                                           .keys = node->columns,
                                           .key_count = node->group_count,
                                           .ordinal = GY_QUERY_NONE},
                          node->left->rows, &input));
        GY_TRY(add_input(c, stage, input));
        GY_TRY(
            leaf_of(c, input, node->left->columns, node->left->count, node->left->rows, &leaf));
        return copy_node(c, node, out, leaf, &stage->root);
    }
    GY_TRY(end_stages(c, &below,
                      &(gy_query_sink){.parts = stage->vertices,
                                       .keys = node->columns,
                                       .key_count = node->group_count,
                                       .aggregate = node,
                                       .ordinal = GY_QUERY_NONE},
                      node->rows, &input));
    input->aggregate = node;
    input->columns = node->columns;
    input->count = node->count;
    GY_TRY(add_input(c, stage, input));
    return leaf_of(c, input, node->columns, node->count, node->rows, &stage->root);
}

/* ---- Functions of rows ---- */

/* Partitions come to parts by the hash of their keys, each with its rows in their order. */
static gy_status cut_apply(cutter *c, const gy_query_node *node, rows *out)
{
    rows below;
    gy_query_node *leaf = NULL;
    gy_query_input *input = NULL;
    GY_TRY(cut(c, node->left, true, &below));
    if (is_single(&below) || node->group_count == 0) {
        return at_one(c, node, &below, NULL, out);
    }
    uint32_t *keys = take(c, node->group_count, sizeof(*keys));
    if (keys == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->group_count; i++) {
        keys[i] = node->keys[i].column;
    }
    GY_TRY(add_stage(c, NULL, c->options->parts, out));
    gy_query_stage *stage = out->stages[0];
    GY_TRY(end_stages(c, &below,
                      &(gy_query_sink){.parts = stage->vertices,
                                       .keys = keys,
                                       .key_count = node->group_count,
                                       .ordinal = GY_QUERY_NONE},
                      node->left->rows, &input));
    GY_TRY(add_input(c, stage, input));
    GY_TRY(leaf_of(c, input, node->left->columns, node->left->count, node->left->rows, &leaf));
    return copy_node(c, node, out, leaf, &stage->root);
}

/* ---- Order ---- */

/* A side's columns under the names of the operator's. */
static gy_status rename_side(cutter *c, const gy_query_node *node, const gy_query_node *side,
                             gy_query_stage *stage)
{
    const rows none = {.count = 0};
    gy_query_node *made = NULL;
    const gy_query_node project = {.kind = GY_QUERY_PROJECT,
                                   .columns = node->columns,
                                   .count = node->count,
                                   .rows = side->rows};
    GY_TRY(copy_node(c, &project, &none, stage->root, &made));
    made->values = take(c, node->count, sizeof(*made->values));
    if (made->values == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        made->values[i] = gy_query_column_node(c->out, side->columns[i]);
        if (made->values[i] == NULL) {
            return GY_NOMEM;
        }
    }
    stage->root = made;
    return GY_OK;
}

/* The first rows of an operator, where they come together. */
static gy_status cut_rest(cutter *c, const gy_query_node *node, gy_query_stage *stage,
                          gy_query_node *leaf)
{
    const rows none = {.count = 0};
    const gy_query_node end = {.kind = GY_QUERY_LIMIT,
                               .columns = node->columns,
                               .count = node->count,
                               .rows = node->rows,
                               .limit = node->limit,
                               .offset = node->offset};
    stage->root = leaf;
    return node->limit >= 0 || node->offset > 0 ? copy_node(c, &end, &none, leaf, &stage->root)
                                                : GY_OK;
}

/* A vertex sorts each range; outputs, one behind the other, are in order. */
static gy_status sort_ranges(cutter *c, const gy_query_node *node, const gy_query_key *keys,
                             rows *below, rows *out)
{
    gy_query_input *input = NULL;
    gy_query_node *leaf = NULL, *made = NULL;
    const uint32_t key_count = node->key_count + below->order_count;
    uint32_t *columns = NULL;
    const gy_query_sink sink = {.kind = GY_QUERY_RANGED,
                                .parts = c->options->parts,
                                .ordinal = GY_QUERY_NONE,
                                .order = keys,
                                .order_count = key_count};
    GY_TRY(add_stage(c, NULL, sink.parts, out));
    gy_query_stage *stage = out->stages[0];
    GY_TRY(end_stages(c, below, &sink, node->left->rows, &input));
    input->key_count = 0; /* what arrives is sorted in any case */
    GY_TRY(add_input(c, stage, input));
    GY_TRY(join_columns(c, node->columns, node->count, below, &columns));
    GY_TRY(
        leaf_of(c, input, columns, node->count + below->order_count, node->left->rows, &leaf));
    GY_TRY(copy_node(c, node, below, leaf, &made));
    made->keys = take(c, key_count, sizeof(*made->keys));
    if (made->keys == NULL) {
        return GY_NOMEM;
    }
    memcpy(made->keys, keys, key_count * sizeof(*keys));
    made->key_count = key_count;
    made->limit = gy_query_is_cut(node) ? node->limit + node->offset : -1;
    made->offset = 0;
    stage->root = made;
    if (below->order_count > 0) {
        GY_TRY(rename_side(c, node, node, stage));
    }
    if (node->limit < 0 && node->offset == 0) {
        return GY_OK;
    }
    rows ranges = *out;
    GY_TRY(add_stage(c, NULL, 1, out));
    GY_TRY(gather(c, &ranges, node, out->stages[0], &leaf));
    return cut_rest(c, node, out->stages[0], leaf);
}

/* The operator in each stage, for at most so many rows. */
static gy_status sort_stages(cutter *c, const gy_query_node *node, gy_query_key *keys,
                             const rows *below)
{
    for (uint32_t i = 0; i < below->count; i++) {
        gy_query_node *made = NULL;
        if (node->kind != GY_QUERY_SORT && !gy_query_is_cut(node)) {
            break;
        }
        GY_TRY(copy_node(c, node, below, below->stages[i]->root, &made));
        made->offset = 0;
        made->limit = gy_query_is_cut(node) ? node->limit + node->offset : -1;
        if (node->kind == GY_QUERY_SORT) {
            made->keys = keys;
            made->key_count = node->key_count + below->order_count;
        }
        below->stages[i]->root = made;
    }
    return GY_OK;
}

static gy_status cut_sort(cutter *c, const gy_query_node *node, rows *out)
{
    rows below;
    gy_query_node rest = *node;
    if (node->kind == GY_QUERY_SORT && gy_query_is_sorted(node)) {
        rest.kind = GY_QUERY_LIMIT;
        rest.key_count = 0;
        node = &rest;
    }
    if (node->kind == GY_QUERY_LIMIT && node->limit < 0 && node->offset == 0) {
        return cut(c, node->left, true, out);
    }
    gy_query_input *input = NULL;
    gy_query_node *leaf = NULL;
    const gy_query_sink all = {.parts = 1, .ordinal = GY_QUERY_NONE};
    const uint32_t key_count = node->kind == GY_QUERY_SORT ? node->key_count : 0;
    GY_TRY(cut(c, node->left, true, &below));
    if (is_single(&below)) {
        return at_one(c, node, &below, NULL, out);
    }
    gy_query_key *keys = NULL;
    GY_TRY(join_keys(c, node->keys, key_count, &below, &keys));
    if (gy_query_is_ranged(c->options, node)) {
        return sort_ranges(c, node, keys, &below, out);
    }
    GY_TRY(sort_stages(c, node, keys, &below));
    GY_TRY(add_stage(c, NULL, 1, out));
    GY_TRY(end_stages(c, &below, &all, node->rows, &input));
    input->keys = keys;
    input->key_count = key_count + below.order_count;
    GY_TRY(add_input(c, out->stages[0], input));
    GY_TRY(leaf_of(c, input, node->columns, node->count, node->rows, &leaf));
    return cut_rest(c, node, out->stages[0], leaf);
}

/* ---- Sets ---- */

static gy_status unite(cutter *c, const gy_query_node *node, rows sides[2], rows *out)
{
    *out = (rows){.count = sides[0].count + sides[1].count};
    out->stages = take(c, out->count, sizeof(gy_query_stage *));
    if (out->stages == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        const bool is_left = i < sides[0].count;
        out->stages[i] = is_left ? sides[0].stages[i] : sides[1].stages[i - sides[0].count];
        GY_TRY(rename_side(c, node, is_left ? node->left : node->right, out->stages[i]));
    }
    return GY_OK;
}

static gy_status cut_set(cutter *c, const gy_query_node *node, bool is_ordered, rows *out)
{
    rows sides[2];
    gy_query_node *left = NULL, *right = NULL;
    const bool is_union = node->set == GY_SQL_UNION;
    GY_TRY(cut(c, node->left, is_ordered || !is_union, &sides[0]));
    GY_TRY(cut(c, node->right, is_ordered || !is_union, &sides[1]));
    if (is_union && sides[0].order_count + sides[1].order_count == 0) {
        return unite(c, node, sides, out);
    }
    if (is_union || node->count == 0 || c->options->parts == 1) {
        return at_one(c, node, &sides[0], &sides[1], out);
    }
    GY_TRY(add_stage(c, NULL, c->options->parts, out));
    gy_query_stage *stage = out->stages[0];
    for (int i = 0; i < 2; i++) {
        const gy_query_node *side = i == 0 ? node->left : node->right;
        gy_query_input *input = NULL;
        GY_TRY(end_stages(c, &sides[i],
                          &(gy_query_sink){.parts = stage->vertices,
                                           .keys = side->columns,
                                           .key_count = side->count,
                                           .ordinal = GY_QUERY_NONE},
                          side->rows, &input));
        GY_TRY(add_input(c, stage, input));
        GY_TRY(
            leaf_of(c, input, side->columns, side->count, side->rows, i == 0 ? &left : &right));
    }
    GY_TRY(copy_node(c, node, out, left, &stage->root));
    stage->root->right = right;
    return GY_OK;
}

/* ---- The plan ---- */

static gy_status cut(cutter *c, const gy_query_node *node, bool is_ordered, rows *out)
{
    rows below;
    switch (node->kind) {
    case GY_QUERY_SCAN:
    case GY_QUERY_VALUES:
        return cut_leaf(c, node, out);
    case GY_QUERY_FILTER:
    case GY_QUERY_PROJECT:
    case GY_QUERY_CHECK:
        return cut_row_wise(c, node, is_ordered, out);
    case GY_QUERY_JOIN:
        return cut_join(c, node, is_ordered, out);
    case GY_QUERY_AGGREGATE:
        return cut_aggregate(c, node, out);
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
        return cut_sort(c, node, out);
    case GY_QUERY_SET:
        return cut_set(c, node, is_ordered, out);
    case GY_QUERY_APPLY:
        return cut_apply(c, node, out);
    case GY_QUERY_SINGLE:
    case GY_QUERY_KINDS:
    default:
        GY_ASSERT(node->kind == GY_QUERY_SINGLE);
        GY_TRY(cut(c, node->left, is_ordered, &below));
        return at_one(c, node, &below, NULL, out);
    }
}

static gy_status cut_root(cutter *c)
{
    rows all;
    GY_TRY(cut(c, c->plan->root, true, &all));
    if (all.order_count > 0) {
        rows one;
        GY_TRY(add_stage(c, NULL, 1, &one));
        GY_TRY(gather(c, &all, c->plan->root, one.stages[0], &one.stages[0]->root));
        all = one;
    }
    uint32_t *results = take(c, all.count, sizeof(*results));
    if (results == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < all.count; i++) {
        results[i] = gy_query_stage_number(c->out, all.stages[i]);
        all.stages[i]->is_ended = true;
    }
    c->out->results = results;
    c->out->result_count = all.count;
    return GY_OK;
}

gy_status gy_query_cut(const gy_query_plan *plan, const gy_query_cut_options *options,
                       gy_query_stages *stages)
{
    GY_ASSERT(options->parts >= 1);
    *stages = (gy_query_stages){.plan = {.source = plan->source, .functions = plan->functions}};
    cutter c = {.out = stages, .plan = plan, .options = options};
    GY_TRY(GY_GROW("query.columns", stages->plan.columns, stages->plan.column_capacity,
                   plan->column_count + 1));
    if (plan->column_count > 0) {
        memcpy(stages->plan.columns, plan->columns,
               plan->column_count * sizeof(*plan->columns));
    }
    stages->plan.column_count = plan->column_count;
    GY_TRY(cut_root(&c));
    GY_TRY(gy_query_sample_stages(stages));
    return stages->decision_count > 0 ? gy_query_stages_order(stages) : GY_OK;
}

void gy_query_stages_fini(gy_query_stages *stages)
{
    gy_query_plan_fini(&stages->plan);
    *stages = (gy_query_stages){.count = 0};
}
