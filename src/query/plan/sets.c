/* Set operations and values: columns by position, of common types; and how all queries end:
 * distinct, order, limit. */
#include "query/plan/plan_priv.h"

#include <string.h>

/* ---- Distinct, order, limit ---- */

gy_status gy_query_distinct(const gy_query_planner *planner, const uint32_t *columns,
                            uint32_t count, gy_query_node **input)
{
    gy_query_numbers once = {.items = NULL};
    GY_TRY(gy_query_numbers_join(planner, &once, columns, count));
    GY_TRY(gy_query_keep(planner, once.items, once.count, input));
    gy_query_node *made =
        gy_query_node_new(planner, GY_QUERY_AGGREGATE, *input, NULL, once.count);
    if (made == NULL) {
        return GY_NOMEM;
    }
    memcpy(made->columns, once.items, once.count * sizeof(*once.items));
    made->group_count = once.count;
    *input = made;
    return GY_OK;
}

/* '2' and 2.5 are integers where one is asked for. */
static gy_status bind_integer(const gy_query_planner *planner, const gy_sql_node *node,
                              const gy_expr_scope *scope, const gy_expr **expr)
{
    const gy_expr_type integer = {.kind = GY_FIELD_INT64};
    gy_sql_node *copy = gy_query_copy(planner, node);
    const gy_sql_node *cast = copy != NULL ? gy_query_cast(planner, copy, &integer) : NULL;
    if (cast == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        copy->items[i] = node->items[i];
    }
    return gy_expr_bind(scope, cast, expr);
}

/* A count of rows that does not depend on any. */
static gy_status count_of(const gy_query_planner *planner, const gy_sql_node *node,
                          const char *clause, int64_t *count)
{
    const gy_expr_scope scope = {.source = planner->source,
                                 .arena = planner->arena,
                                 .functions = planner->plan->functions};
    const gy_expr *expr = NULL;
    if (node == NULL) {
        return GY_OK;
    }
    GY_TRY(gy_expr_bind(&scope, node, &expr));
    if (gy_expr_is_null(expr)) {
        return GY_OK;
    }
    const gy_expr_type *type = gy_expr_type_of(expr);
    if (type->is_unknown || type->kind == GY_FIELD_DECIMAL || type->kind == GY_FIELD_DOUBLE) {
        GY_TRY(bind_integer(planner, node, &scope, &expr));
    }
    if (!gy_expr_constant_int64(expr, count)) {
        return gy_sql_refuse(planner->source, node->place, GY_TYPE, "%s must be an integer",
                             clause);
    }
    return *count >= 0 ? GY_OK
                       : gy_sql_refuse(planner->source, node->place, GY_ARG,
                                       "%s must not be negative", clause);
}

/* Whether rows come in the order of files: what stands between is row by row. */
static bool is_in_order(const gy_query_node *node)
{
    while (node->kind == GY_QUERY_FILTER || node->kind == GY_QUERY_PROJECT ||
           node->kind == GY_QUERY_LIMIT) {
        node = node->left;
    }
    return node->kind == GY_QUERY_SCAN || node->kind == GY_QUERY_VALUES ||
           node->kind == GY_QUERY_SORT;
}

gy_status gy_query_end(const gy_query_planner *planner, const gy_query_ending *ending,
                       gy_query_node **input)
{
    const gy_sql_select *select = ending->select;
    int64_t limit = -1, offset = 0;
    GY_TRY(count_of(planner, select->limit, "LIMIT", &limit));
    GY_TRY(count_of(planner, select->offset, "OFFSET", &offset));
    const bool is_cut = limit >= 0 || offset > 0;
    const bool is_sorted =
        select->order_count > 0 || (is_cut && !is_in_order(*input) && ending->count > 0);
    if (!is_cut && !is_sorted) {
        return GY_OK;
    }
    gy_query_node *made = gy_query_node_new(planner, is_sorted ? GY_QUERY_SORT : GY_QUERY_LIMIT,
                                            *input, NULL, (*input)->count);
    gy_query_key *keys =
        gy_query_alloc(planner, select->order_count + ending->count, sizeof(*keys));
    if (made == NULL || keys == NULL) {
        return GY_NOMEM;
    }
    memcpy(made->columns, (*input)->columns, (*input)->count * sizeof(*made->columns));
    made->limit = limit;
    made->offset = offset;
    made->keys = keys;
    GY_ASSERT(select->order_count == 0 || ending->keys != NULL);
    for (uint32_t i = 0; i < select->order_count; i++) {
        keys[made->key_count++] = ending->keys[i];
    }
    for (uint32_t i = 0; is_cut && is_sorted && i < ending->count; i++) {
        bool is_there = false;
        for (uint32_t j = 0; j < made->key_count && !is_there; j++) {
            is_there = keys[j].column == ending->columns[i];
        }
        if (!is_there) {
            keys[made->key_count++] = (gy_query_key){.column = ending->columns[i]};
        }
    }
    *input = made;
    return GY_OK;
}

/* ---- Common types ---- */

/* Columns of a side as those types; each column once, so that their numbers differ. */
static gy_status convert(const gy_query_planner *planner, const gy_expr_type *types,
                         gy_query_node **side)
{
    const gy_query_node *old = *side;
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_PROJECT, *side, NULL, old->count);
    gy_sql_node **values = gy_query_alloc(planner, old->count, sizeof(gy_sql_node *));
    if (made == NULL || values == NULL) {
        return GY_NOMEM;
    }
    bool is_changed = false;
    for (uint32_t i = 0; i < old->count; i++) {
        const gy_query_column *column = &planner->plan->columns[old->columns[i]];
        const bool is_twice = gy_query_has(old->columns, i, old->columns[i]);
        const bool is_cast = !gy_query_is_same_type(&column->type, &types[i]);
        values[i] = gy_query_make_column(planner, old->columns[i], 0);
        made->columns[i] = old->columns[i];
        if (is_cast) {
            values[i] = gy_query_cast(planner, values[i], &types[i]);
        }
        if (values[i] == NULL) {
            return GY_NOMEM;
        }
        if (is_cast || is_twice) {
            const char *name = column->name;
            GY_TRY(gy_query_column_add(planner, name, &types[i], &made->columns[i]));
            is_changed = true;
        }
    }
    made->values = values;
    *side = is_changed ? made : *side;
    return GY_OK;
}

static gy_status common(const gy_query_planner *planner, uint32_t place, gy_query_node **left,
                        gy_query_node **right, gy_query_node *to)
{
    gy_expr_type *types = gy_query_alloc(planner, to->count, sizeof(*types));
    if (types == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < to->count; i++) {
        const gy_query_column *a = &planner->plan->columns[(*left)->columns[i]];
        const gy_query_column *b = &planner->plan->columns[(*right)->columns[i]];
        char shown[2][48];
        if (!gy_expr_type_common(&a->type, &b->type, &types[i])) {
            return gy_sql_refuse(planner->source, place, GY_TYPE,
                                 "column %u is %s on one side and %s on the other", i + 1,
                                 gy_expr_type_text(&a->type, shown[0]),
                                 gy_expr_type_text(&b->type, shown[1]));
        }
        const char *name = a->name;
        GY_TRY(gy_query_column_add(planner, name, &types[i], &to->columns[i]));
    }
    GY_TRY(convert(planner, types, left));
    return convert(planner, types, right);
}

/* ---- Set operations ---- */

/* Keys by numbers and names of the columns alone. */
static gy_status order(const gy_query_planner *planner, const gy_sql_select *select,
                       const gy_query_answer *answer, gy_query_key **keys)
{
    gy_query_key *made = gy_query_alloc(planner, select->order_count, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < select->order_count; i++) {
        const gy_sql_order *by = &select->order[i];
        uint32_t at = GY_QUERY_NONE;
        if (by->value->kind == GY_SQL_NUMBER) {
            GY_TRY(gy_query_position(planner, by->value, answer->node->count, &at));
        }
        for (uint32_t j = 0; j < answer->node->count && at == GY_QUERY_NONE; j++) {
            const bool is_it = by->value->kind == GY_SQL_COLUMN && by->value->table == NULL &&
                               gy_query_matches(by->value->text, by->value->is_quoted,
                                                answer->names[j].text) > 0;
            at = is_it ? j : at;
        }
        if (at == GY_QUERY_NONE) {
            return gy_sql_refuse(planner->source, by->value->place, GY_FORMAT,
                                 "ORDER BY of a set operation takes names and numbers of its "
                                 "columns");
        }
        made[i] = (gy_query_key){.column = answer->node->columns[at],
                                 .is_descending = by->is_descending,
                                 .has_nulls_first =
                                     by->nulls == GY_SQL_NULLS_FIRST ||
                                     (by->nulls == GY_SQL_NULLS_USUAL && by->is_descending)};
    }
    *keys = made;
    return GY_OK;
}

static gy_status end(const gy_query_planner *planner, const gy_sql_select *select,
                     gy_query_answer *answer)
{
    gy_query_key *keys = NULL;
    GY_TRY(order(planner, select, answer, &keys));
    const gy_query_ending ending = {.select = select,
                                    .keys = keys,
                                    .columns = answer->node->columns,
                                    .count = answer->node->count};
    return gy_query_end(planner, &ending, &answer->node);
}

gy_status gy_query_set(gy_query_planner *planner, const gy_sql_select *select,
                       const gy_query_scope *outer, const gy_query_views *views,
                       gy_query_answer *answer)
{
    gy_query_answer left = {.node = NULL}, right = {.node = NULL};
    GY_TRY(gy_query_select(planner, select->left, outer, views, &left));
    GY_TRY(gy_query_select(planner, select->right, outer, views, &right));
    if (left.node->count != right.node->count) {
        return gy_sql_refuse(planner->source, select->right->place, GY_FORMAT,
                             "the sides of a set operation have %u and %u columns",
                             left.node->count, right.node->count);
    }
    gy_query_node *made =
        gy_query_node_new(planner, GY_QUERY_SET, NULL, NULL, left.node->count);
    if (made == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(common(planner, select->right->place, &left.node, &right.node, made));
    made->left = left.node;
    made->right = right.node;
    made->set = select->set;
    made->is_all = select->is_all;
    *answer = (gy_query_answer){.node = made, .names = left.names};
    if (select->set == GY_SQL_UNION && !select->is_all) {
        made->is_all = true;
        GY_TRY(gy_query_distinct(planner, made->columns, made->count, &answer->node));
    }
    return end(planner, select, answer);
}

/* ---- Values ---- */

static gy_status value_types(const gy_query_planner *planner, const gy_query_node *made,
                             gy_expr_type *types)
{
    for (uint32_t i = 0; i < made->row_count * made->count; i++) {
        gy_expr_type type, both;
        char shown[2][48];
        gy_expr_type *to = &types[i % made->count];
        GY_TRY(gy_query_type(planner, made->values[i], &type));
        if (type.is_interval) {
            return gy_sql_refuse(
                planner->source, made->values[i]->place, GY_UNSUPPORTED,
                "not supported: intervals as a column (cast it to text, or extract a part)");
        }
        if (i < made->count) {
            *to = type;
        } else if (gy_expr_type_common(to, &type, &both)) {
            *to = both;
        } else {
            return gy_sql_refuse(planner->source, made->values[i]->place, GY_TYPE,
                                 "this is %s, and what stands above it %s",
                                 gy_expr_type_text(&type, shown[0]),
                                 gy_expr_type_text(to, shown[1]));
        }
    }
    return GY_OK;
}

static gy_status cast_values(const gy_query_planner *planner, const gy_query_node *made,
                             const gy_expr_type *types)
{
    for (uint32_t i = 0; i < made->row_count * made->count; i++) {
        gy_expr_type type;
        GY_TRY(gy_query_type(planner, made->values[i], &type));
        if (!gy_query_is_same_type(&type, &types[i % made->count])) {
            made->values[i] = gy_query_cast(planner, made->values[i], &types[i % made->count]);
            if (made->values[i] == NULL) {
                return GY_NOMEM;
            }
        }
    }
    return GY_OK;
}

gy_status gy_query_values(gy_query_planner *planner, const gy_sql_select *select,
                          const gy_query_scope *outer, const gy_query_views *views,
                          gy_query_answer *answer)
{
    const uint32_t count = select->column_count;
    const gy_query_scope scope = {.outer = outer};
    gy_query_resolver in = {
        .planner = planner, .scope = &scope, .views = views, .clause = "VALUES"};
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_VALUES, NULL, NULL, count);
    gy_expr_type *types = gy_query_alloc(planner, count, sizeof(*types));
    gy_sql_name *names = gy_query_alloc(planner, count, sizeof(*names));
    char *texts = gy_query_alloc(planner, count, 16);
    if (made == NULL || types == NULL || names == NULL || texts == NULL) {
        return GY_NOMEM;
    }
    made->values =
        gy_query_alloc(planner, (size_t)select->row_count * count, sizeof(gy_sql_node *));
    if (made->values == NULL) {
        return GY_NOMEM;
    }
    made->row_count = select->row_count;
    for (uint32_t i = 0; i < select->row_count * count; i++) {
        GY_TRY(gy_query_resolve(&in, select->rows[i / count][i % count], &made->values[i]));
    }
    GY_TRY(value_types(planner, made, types));
    GY_TRY(cast_values(planner, made, types));
    for (uint32_t i = 0; i < count; i++) {
        gy_print(texts + 16 * (size_t)i, 16, "column%u", i + 1);
        names[i] = (gy_sql_name){.text = texts + 16 * (size_t)i, .is_quoted = true};
        GY_TRY(gy_query_column_add(planner, names[i].text, &types[i], &made->columns[i]));
    }
    *answer = (gy_query_answer){.node = made, .names = names};
    return end(planner, select, answer);
}
