/* Conditions move towards what they are about. */
#include "query/plan/plan_priv.h"

#include <string.h>

/* Those that use these columns alone go to `down`, the others stay. */
static gy_status take(const gy_query_planner *planner, gy_query_list *from,
                      const gy_query_node *node, gy_query_list *down)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        gy_sql_node *one = from->items[i];
        if (gy_query_uses_only(one, node->columns, node->count) &&
            gy_query_uses_any(one, node->columns, node->count)) {
            GY_TRY(gy_query_list_add(planner, down, one));
        } else {
            from->items[left++] = one;
        }
    }
    from->count = left;
    return GY_OK;
}

/* Conditions of a filter or join stand before those above it, as in the text: what a condition
 * divides by, one before it may have tested. */
static gy_status put_before(const gy_query_planner *planner, const gy_query_node *node,
                            gy_query_list *above)
{
    gy_query_list all = {.items = NULL};
    for (uint32_t i = 0; i < node->condition_count; i++) {
        GY_TRY(gy_query_list_add(planner, &all, node->conditions[i]));
    }
    for (uint32_t i = 0; i < above->count; i++) {
        GY_TRY(gy_query_list_add(planner, &all, above->items[i]));
    }
    *above = all;
    return GY_OK;
}

/* ---- Joins ---- */

/* Inputs of inner joins of inner joins, and the conditions of all of them. */
static gy_status flatten(const gy_query_planner *planner, gy_query_node *node,
                         gy_query_node ***inputs, uint32_t *count, gy_query_list *conditions)
{
    if (node->kind == GY_QUERY_FILTER) {
        GY_TRY(put_before(planner, node, conditions));
        return flatten(planner, node->left, inputs, count, conditions);
    }
    if (node->kind == GY_QUERY_JOIN && node->join == GY_QUERY_INNER) {
        GY_TRY(put_before(planner, node, conditions));
        GY_TRY(flatten(planner, node->left, inputs, count, conditions));
        return flatten(planner, node->right, inputs, count, conditions);
    }
    gy_query_node **more = gy_query_alloc(planner, *count + 1, sizeof(*more));
    if (more == NULL) {
        return GY_NOMEM;
    }
    if (*count > 0) {
        memcpy(more, *inputs, *count * sizeof(*more));
    }
    more[(*count)++] = node;
    *inputs = more;
    return GY_OK;
}

static gy_status push_inner(const gy_query_planner *planner, gy_query_list *above,
                            gy_query_node **node)
{
    gy_query_node **inputs = NULL;
    uint32_t count = 0;
    gy_query_list conditions = *above;
    above->count = 0;
    above->items = NULL;
    above->capacity = 0;
    GY_TRY(flatten(planner, *node, &inputs, &count, &conditions));
    for (uint32_t i = 0; i < count; i++) {
        gy_query_list down = {.items = NULL};
        GY_TRY(take(planner, &conditions, inputs[i], &down));
        GY_TRY(gy_query_push(planner, &down, &inputs[i]));
    }
    GY_TRY(gy_query_order(planner, inputs, count, &conditions, node));
    *above = conditions; /* without columns */
    return GY_OK;
}

/* Whether a condition is never true where a column of `node` is null. */
static bool rejects_null(const gy_sql_node *one, const gy_query_node *node)
{
    if (one->kind == GY_SQL_IS_NULL && one->is_not) {
        return one->items[0]->kind == GY_SQL_COLUMN &&
               gy_query_has(node->columns, node->count, one->items[0]->column);
    }
    static const char *const strict[] = {"=", "<>", "<", ">", "<=", ">="};
    bool is_strict = false;
    for (size_t i = 0; one->kind == GY_SQL_OPERATION && i < GY_COUNT(strict); i++) {
        is_strict = is_strict || strcmp(one->text, strict[i]) == 0;
    }
    for (uint32_t i = 0; is_strict && i < one->count; i++) {
        if (one->items[i]->kind == GY_SQL_COLUMN &&
            gy_query_has(node->columns, node->count, one->items[i]->column)) {
            return true;
        }
    }
    return false;
}

static bool any_rejects_null(const gy_query_list *list, const gy_query_node *node)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (rejects_null(list->items[i], node)) {
            return true;
        }
    }
    return false;
}

static gy_status push_outer(const gy_query_planner *planner, gy_query_list *above,
                            gy_query_node *node)
{
    gy_query_list left = {.items = NULL}, right = {.items = NULL};
    gy_query_list on = {.items = node->conditions,
                        .count = node->condition_count,
                        .capacity = node->condition_count};
    const bool is_semi = node->join == GY_QUERY_SEMI, is_anti = node->join == GY_QUERY_ANTI;
    if (node->join != GY_QUERY_RIGHT && node->join != GY_QUERY_FULL) {
        GY_TRY(take(planner, above, node->left, &left));
    }
    if (node->join == GY_QUERY_RIGHT) {
        GY_TRY(take(planner, above, node->right, &right));
        GY_TRY(take(planner, &on, node->left, &left));
    }
    if (node->join == GY_QUERY_LEFT || is_semi || is_anti) {
        GY_TRY(take(planner, &on, node->right, &right));
    }
    if (is_semi) {
        GY_TRY(take(planner, &on, node->left, &left));
    }
    node->condition_count = on.count;
    GY_TRY(gy_query_push(planner, &left, &node->left));
    GY_TRY(gy_query_push(planner, &right, &node->right));
    return gy_query_find_keys(planner, node);
}

static gy_status push_join(const gy_query_planner *planner, gy_query_list *above,
                           gy_query_node **node)
{
    gy_query_node *join = *node;
    if ((join->join == GY_QUERY_LEFT && any_rejects_null(above, join->right)) ||
        (join->join == GY_QUERY_RIGHT && any_rejects_null(above, join->left))) {
        join->join = GY_QUERY_INNER;
    }
    return join->join == GY_QUERY_INNER ? push_inner(planner, above, node)
                                        : push_outer(planner, above, join);
}

/* ---- Others ---- */

static gy_status push_project(const gy_query_planner *planner, gy_query_list *above,
                              gy_query_node *node)
{
    for (uint32_t i = 0; i < above->count; i++) {
        GY_TRY(gy_query_replace(planner, node->columns, node->values, node->count,
                                &above->items[i]));
    }
    GY_TRY(gy_query_push(planner, above, &node->left));
    above->count = 0;
    return GY_OK;
}

/* A side of a set operation keeps its columns at their places. */
static gy_status push_side(const gy_query_planner *planner, const gy_query_list *above,
                           const gy_query_node *node, gy_query_node **side)
{
    const gy_query_node old = **side;
    gy_query_list down = {.items = NULL};
    gy_sql_node **values = gy_query_alloc(planner, old.count, sizeof(gy_sql_node *));
    if (values == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < old.count; i++) {
        values[i] = gy_query_make_column(planner, old.columns[i], 0);
        if (values[i] == NULL) {
            return GY_NOMEM;
        }
    }
    for (uint32_t i = 0; i < above->count; i++) {
        gy_sql_node *one = above->items[i];
        GY_TRY(gy_query_replace(planner, node->columns, values, node->count, &one));
        GY_TRY(gy_query_list_add(planner, &down, one));
    }
    GY_TRY(gy_query_push(planner, &down, side));
    return gy_query_keep(planner, old.columns, old.count, side);
}

static gy_status push_set(const gy_query_planner *planner, gy_query_list *above,
                          gy_query_node *node)
{
    const gy_query_list nothing = {.items = NULL};
    const bool is_all = node->set == GY_SQL_UNION && node->is_all;
    GY_TRY(push_side(planner, is_all ? above : &nothing, node, &node->left));
    GY_TRY(push_side(planner, is_all ? above : &nothing, node, &node->right));
    above->count = is_all ? 0 : above->count;
    return GY_OK;
}

static gy_status push_input(const gy_query_planner *planner, gy_query_list *above,
                            gy_query_node *node)
{
    gy_query_list down = {.items = NULL};
    const gy_query_node groups = {.columns = node->columns, .count = node->group_count};
    if (node->kind == GY_QUERY_AGGREGATE && node->group_count > 0) {
        GY_TRY(take(planner, above, &groups, &down));
    }
    if (node->kind == GY_QUERY_SORT && node->limit < 0 && node->offset == 0) {
        GY_TRY(take(planner, above, node, &down));
    }
    return node->left != NULL ? gy_query_push(planner, &down, &node->left) : GY_OK;
}

gy_status gy_query_push(const gy_query_planner *planner, gy_query_list *above,
                        gy_query_node **node)
{
    gy_query_node *at = *node;
    switch (at->kind) {
    case GY_QUERY_FILTER:
        GY_TRY(put_before(planner, at, above));
        *node = at->left;
        return gy_query_push(planner, above, node);
    case GY_QUERY_PROJECT:
        GY_TRY(push_project(planner, above, at));
        break;
    case GY_QUERY_JOIN:
        GY_TRY(push_join(planner, above, node));
        break;
    case GY_QUERY_SET:
        GY_TRY(push_set(planner, above, at));
        break;
    case GY_QUERY_SCAN:
    case GY_QUERY_VALUES:
    case GY_QUERY_AGGREGATE:
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
    case GY_QUERY_SINGLE:
    case GY_QUERY_CHECK:
    case GY_QUERY_APPLY:
    case GY_QUERY_KINDS:
    default:
        GY_TRY(push_input(planner, above, at));
    }
    gy_query_guess(planner->plan, *node);
    GY_TRY(gy_query_filter(planner, above, node));
    gy_query_guess(planner->plan, *node);
    return GY_OK;
}
