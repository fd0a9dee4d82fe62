/*
 * Sub-queries that use columns from outside: their conditions on these are taken out of them
 * and become conditions of the join that the sub-query is made to. An aggregation on the way
 * gets the inner sides of equalities as groups.
 *
 * Source: Neumann & Kemper, "Unnesting Arbitrary Queries", BTW 2015 (the case of equalities).
 */
#include "query/plan/plan_priv.h"

#include <string.h>

typedef struct pull {
    const gy_query_planner *planner;
    uint32_t place;
    gy_query_pulled *pulled;
} pull;

static gy_status pull_node(pull *in, gy_query_node **node);

static gy_status refuse(const pull *in, const char *what)
{
    return gy_sql_refuse(in->planner->source, in->place, GY_UNSUPPORTED,
                         "not supported: a sub-query that uses columns from outside %s", what);
}

/* Columns as the left input has them. */
static gy_status take_columns(const pull *in, gy_query_node *node)
{
    const gy_query_node *left = node->left;
    node->columns = gy_query_alloc(in->planner, left->count, sizeof(*node->columns));
    if (node->columns == NULL) {
        return GY_NOMEM;
    }
    memcpy(node->columns, left->columns, left->count * sizeof(*node->columns));
    node->count = left->count;
    return GY_OK;
}

/* Conditions that use more than these columns are pulled, the others stay. */
static gy_status divide(const pull *in, gy_query_node *node, const gy_query_numbers *known)
{
    gy_query_list stay = {.items = NULL};
    for (uint32_t i = 0; i < node->condition_count; i++) {
        gy_sql_node *one = node->conditions[i];
        const bool is_inside = gy_query_uses_only(one, known->items, known->count);
        GY_TRY(
            gy_query_list_add(in->planner, is_inside ? &stay : &in->pulled->conditions, one));
    }
    node->conditions = stay.items;
    node->condition_count = stay.count;
    return GY_OK;
}

static gy_status pull_filter(const pull *in, gy_query_node **node)
{
    const gy_query_node *left = (*node)->left;
    GY_ASSERT(left != NULL);
    const gy_query_numbers known = {.items = left->columns, .count = left->count};
    GY_TRY(divide(in, *node, &known));
    if ((*node)->condition_count == 0) {
        *node = (*node)->left;
        return GY_OK;
    }
    return take_columns(in, *node);
}

static gy_status pull_join(pull *in, gy_query_node *node)
{
    const uint32_t before = in->pulled->conditions.count;
    gy_query_numbers known = {.items = NULL};
    GY_TRY(pull_node(in, &node->left));
    const uint32_t of_left = in->pulled->conditions.count;
    GY_TRY(pull_node(in, &node->right));
    const uint32_t of_right = in->pulled->conditions.count;
    const bool is_inner = node->join == GY_QUERY_INNER;
    const bool keeps_left =
        is_inner || node->join == GY_QUERY_LEFT || node->join >= GY_QUERY_SEMI;
    if ((of_right > of_left && !is_inner && node->join != GY_QUERY_RIGHT) ||
        (of_left > before && !keeps_left)) {
        return refuse(in, "below an outer join");
    }
    GY_TRY(gy_query_numbers_join(in->planner, &known, node->left->columns, node->left->count));
    const uint32_t left_count = known.count;
    GY_TRY(
        gy_query_numbers_join(in->planner, &known, node->right->columns, node->right->count));
    GY_TRY(divide(in, node, &known));
    if (in->pulled->conditions.count > of_right && !is_inner) {
        return refuse(in, "in a join's condition");
    }
    node->columns = known.items;
    node->count = node->join >= GY_QUERY_SEMI ? left_count : known.count;
    return GY_OK;
}

/* What pulled conditions use stays there. */
static gy_status pull_project(const pull *in, gy_query_node *node, uint32_t before)
{
    const gy_query_node *left = node->left;
    GY_ASSERT(left != NULL);
    gy_query_numbers used = {.items = NULL}, columns = {.items = NULL};
    gy_query_list values = {.items = NULL};
    for (uint32_t i = 0; i < node->count; i++) {
        if (!gy_query_uses_only(node->values[i], left->columns, left->count)) {
            return refuse(in, "in its select list");
        }
        GY_TRY(gy_query_list_add(in->planner, &values, node->values[i]));
        GY_TRY(gy_query_numbers_add(in->planner, &columns, node->columns[i]));
    }
    for (uint32_t i = before; i < in->pulled->conditions.count; i++) {
        GY_TRY(gy_query_uses(in->planner, in->pulled->conditions.items[i], &used));
    }
    for (uint32_t i = 0; i < used.count; i++) {
        if (gy_query_has(left->columns, left->count, used.items[i]) &&
            !gy_query_has(columns.items, columns.count, used.items[i])) {
            GY_TRY(gy_query_numbers_add(in->planner, &columns, used.items[i]));
            GY_TRY(gy_query_list_add(in->planner, &values,
                                     gy_query_make_column(in->planner, used.items[i], 0)));
        }
    }
    node->columns = columns.items;
    node->count = columns.count;
    node->values = values.items;
    return GY_OK;
}

/* The inner side of an equality becomes a group. */
static gy_status group_by_side(const pull *in, gy_query_node *node, gy_query_numbers *groups,
                               gy_sql_node **condition)
{
    const gy_sql_node *one = *condition;
    const gy_query_node *left = node->left;
    if (one->kind == GY_SQL_OPERATION && one->count == 2 && strcmp(one->text, "=") == 0) {
        for (uint32_t side = 0; side < 2; side++) {
            gy_sql_node *inner = one->items[side], *outer = one->items[1 - side];
            if (gy_query_uses_only(inner, left->columns, left->count) &&
                !gy_query_uses_any(outer, left->columns, left->count)) {
                uint32_t column = GY_QUERY_NONE;
                GY_TRY(gy_query_compute(in->planner, NULL, inner, &node->left, &column));
                GY_TRY(gy_query_numbers_join(in->planner, groups, &column, 1));
                *condition = gy_query_make_operation(
                    in->planner, "=", outer,
                    gy_query_make_column(in->planner, column, inner->place));
                return *condition != NULL ? GY_OK : GY_NOMEM;
            }
        }
    }
    return refuse(in, "below an aggregate, but for equalities");
}

static gy_status pull_aggregate(const pull *in, gy_query_node *node, uint32_t before)
{
    gy_query_numbers columns = {.items = NULL};
    if (in->pulled->conditions.count == before) {
        return GY_OK;
    }
    in->pulled->scalar_count += node->group_count == 0 ? 1 : 0;
    GY_TRY(gy_query_numbers_join(in->planner, &columns, node->columns, node->group_count));
    for (uint32_t i = before; i < in->pulled->conditions.count; i++) {
        GY_TRY(group_by_side(in, node, &columns, &in->pulled->conditions.items[i]));
    }
    const uint32_t groups = columns.count;
    for (uint32_t i = node->group_count; i < node->count; i++) {
        GY_TRY(gy_query_numbers_add(in->planner, &columns, node->columns[i]));
    }
    node->group_count = groups;
    node->columns = columns.items;
    node->count = columns.count;
    return GY_OK;
}

static gy_status pull_values(const pull *in, const gy_query_node *node)
{
    for (uint32_t i = 0; i < node->row_count * node->count; i++) {
        if (!gy_query_is_constant(node->values[i])) {
            return refuse(in, "in VALUES");
        }
    }
    return GY_OK;
}

static gy_status pull_other(const pull *in, gy_query_node **node, uint32_t before)
{
    const bool has_none = in->pulled->conditions.count == before;
    switch ((*node)->kind) {
    case GY_QUERY_SORT:
        if ((*node)->limit < 0 && (*node)->offset == 0) {
            *node = (*node)->left; /* the order of a sub-query's rows is nothing to anybody */
            return GY_OK;
        }
        return has_none ? GY_OK : refuse(in, "below a limit");
    case GY_QUERY_LIMIT:
        return has_none ? GY_OK : refuse(in, "below a limit");
    case GY_QUERY_SET:
        return has_none ? GY_OK : refuse(in, "below a set operation");
    case GY_QUERY_APPLY:
        return has_none ? GY_OK : refuse(in, "below a function of rows");
    case GY_QUERY_CHECK:
    case GY_QUERY_SINGLE:
        return has_none ? GY_OK : refuse(in, "below another sub-query");
    case GY_QUERY_VALUES:
        return pull_values(in, *node);
    case GY_QUERY_SCAN:
    case GY_QUERY_FILTER:
    case GY_QUERY_PROJECT:
    case GY_QUERY_JOIN:
    case GY_QUERY_AGGREGATE:
    case GY_QUERY_KINDS:
    default:
        return GY_OK;
    }
}

static gy_status pull_node(pull *in, gy_query_node **node)
{
    const uint32_t before = in->pulled->conditions.count;
    if ((*node)->kind == GY_QUERY_JOIN) {
        return pull_join(in, *node);
    }
    if ((*node)->left != NULL) {
        GY_TRY(pull_node(in, &(*node)->left));
    }
    if ((*node)->right != NULL) {
        GY_TRY(pull_node(in, &(*node)->right));
    }
    switch ((int)(*node)->kind) {
    case GY_QUERY_FILTER:
        return pull_filter(in, node);
    case GY_QUERY_PROJECT:
        return pull_project(in, *node, before);
    case GY_QUERY_AGGREGATE:
        return pull_aggregate(in, *node, before);
    default:
        return pull_other(in, node, before);
    }
}

gy_status gy_query_pull(const gy_query_planner *planner, uint32_t place, gy_query_node **node,
                        gy_query_pulled *pulled)
{
    pull in = {.planner = planner, .place = place, .pulled = pulled};
    return pull_node(&in, node);
}
