/*
 * The order of joins, and their keys. Greedy: the pair whose join is smallest first, then
 * always the input that makes the smallest join; what no condition connects comes last.
 */
#include "query/plan/plan_priv.h"

#include <math.h>
#include <string.h>

/* Guesses beyond this are all the same. */
#define ROWS_MOST 1e300

static bool is_equality(const gy_sql_node *node)
{
    return node->kind == GY_SQL_OPERATION && node->count == 2 && strcmp(node->text, "=") == 0;
}

/* Which side of an equality is about `left`, the other one being about `right`; -1: none. */
static int side_of(const gy_sql_node *one, const gy_query_node *left,
                   const gy_query_node *right)
{
    for (int side = 0; is_equality(one) && side < 2; side++) {
        const gy_sql_node *a = one->items[side], *b = one->items[1 - side];
        if (gy_query_uses_only(a, left->columns, left->count) &&
            gy_query_uses_any(a, left->columns, left->count) &&
            gy_query_uses_only(b, right->columns, right->count) &&
            gy_query_uses_any(b, right->columns, right->count)) {
            return side;
        }
    }
    return -1;
}

/* ---- Keys ---- */

/* A column of that value on one side of a join, cast to a type. */
static gy_status key_of(const gy_query_planner *planner, gy_sql_node *value,
                        const gy_expr_type *type, gy_query_node **side, uint32_t *column)
{
    gy_expr_type own;
    GY_TRY(gy_query_type(planner, value, &own));
    if (!gy_query_is_same_type(&own, type)) {
        value = gy_query_cast(planner, value, type);
        if (value == NULL) {
            return GY_NOMEM;
        }
    }
    return gy_query_compute(planner, NULL, value, side, column);
}

static gy_status add_key(const gy_query_planner *planner, gy_query_node *join,
                         const gy_sql_node *equal, int side)
{
    gy_sql_node *a = equal->items[side], *b = equal->items[1 - side];
    gy_expr_type types[2], type;
    uint32_t *at_left = &join->left_keys[join->key_count];
    uint32_t *at_right = &join->right_keys[join->key_count];
    GY_TRY(gy_query_type(planner, a, &types[0]));
    GY_TRY(gy_query_type(planner, b, &types[1]));
    if (!gy_expr_type_common(&types[0], &types[1], &type)) {
        return gy_sql_refuse(planner->source, equal->place, GY_TYPE,
                             "the sides of = have no common type");
    }
    type.is_unknown = false;
    GY_TRY(key_of(planner, a, &type, &join->left, at_left));
    GY_TRY(key_of(planner, b, &type, &join->right, at_right));
    join->key_count++;
    return GY_OK;
}

gy_status gy_query_find_keys(const gy_query_planner *planner, gy_query_node *join)
{
    uint32_t left = 0;
    const uint32_t count = join->condition_count;
    join->left_keys = gy_query_alloc(planner, count, sizeof(*join->left_keys));
    join->right_keys = gy_query_alloc(planner, count, sizeof(*join->right_keys));
    gy_sql_node **conditions = gy_query_alloc(planner, count, sizeof(*conditions));
    if (join->left_keys == NULL || join->right_keys == NULL || conditions == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        gy_sql_node *one = join->conditions[i];
        gy_expr_type type = {.is_interval = false};
        int side = side_of(one, join->left, join->right);
        side = join->join == GY_QUERY_ANTI_NULL ? 0 : side;
        if (side >= 0) {
            GY_TRY(gy_query_type(planner, one->items[0], &type));
        }
        if (side >= 0 && !type.is_interval) { /* no column holds an interval */
            GY_TRY(add_key(planner, join, one, side));
        } else {
            conditions[left++] = one;
        }
    }
    join->conditions = conditions;
    join->condition_count = left;
    return GY_OK;
}

/* ---- Order ---- */

static double distinct_of(const gy_query_plan *plan, const gy_sql_node *node, double rows)
{
    return node->kind == GY_SQL_COLUMN && plan->columns[node->column].distinct > 0
               ? plan->columns[node->column].distinct
               : rows;
}

/* Rows of the join of two inputs; below 0: no condition connects them. */
static double joined_rows(const gy_query_plan *plan, const gy_query_node *left,
                          const gy_query_node *right, const gy_query_list *conditions)
{
    double least = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < conditions->count; i++) {
        const gy_sql_node *one = conditions->items[i];
        const int side = side_of(one, left, right);
        if (side < 0) {
            continue;
        }
        const double a = distinct_of(plan, one->items[side], left->rows);
        const double b = distinct_of(plan, one->items[1 - side], right->rows);
        least = fmax(least, fmin(a, b));
        count++;
    }
    return count == 0 ? -1 : left->rows * right->rows / fmax(least, 1);
}

typedef struct orderer {
    const gy_query_planner *planner;
    gy_query_node **inputs;
    uint32_t count;
    gy_query_list *conditions;
} orderer;

/* Join inputs a and b; the result takes the first place of the two, the last input the other.
 */
static gy_status join_two(orderer *in, uint32_t a, uint32_t b, uint32_t *at)
{
    const gy_query_planner *planner = in->planner;
    gy_query_list on = {.items = NULL};
    gy_query_node *node = in->inputs[a];
    GY_TRY(gy_query_join_nodes(planner, GY_QUERY_INNER, NULL, in->inputs[b], &node));
    uint32_t left = 0;
    for (uint32_t i = 0; i < in->conditions->count; i++) {
        gy_sql_node *one = in->conditions->items[i];
        if (gy_query_uses_only(one, node->columns, node->count) &&
            gy_query_uses_any(one, node->columns, node->count)) {
            GY_TRY(gy_query_list_add(planner, &on, one));
        } else {
            in->conditions->items[left++] = one;
        }
    }
    in->conditions->count = left;
    node->conditions = on.items;
    node->condition_count = on.count;
    GY_TRY(gy_query_find_keys(planner, node));
    gy_query_guess(planner->plan, node);
    *at = GY_MIN(a, b);
    in->inputs[GY_MAX(a, b)] = in->inputs[--in->count];
    in->inputs[*at] = node;
    return GY_OK;
}

/* Take inputs a and b where joining them gives fewer rows than `least`, the best so far.
 * Without a condition on both they count where `is_any`. */
static double choose_between(const orderer *in, uint32_t a, uint32_t b, bool is_any,
                             double least, uint32_t best[2])
{
    const gy_query_node *left = in->inputs[a], *right = in->inputs[b];
    double rows = joined_rows(in->planner->plan, left, right, in->conditions);
    if (rows < 0 && !is_any) {
        return least;
    }
    rows = rows < 0 ? left->rows * right->rows : rows;
    if (!(rows < least || isinf(least))) {
        return least;
    }
    best[0] = a;
    best[1] = b;
    return fmin(rows, ROWS_MOST);
}

/* The best partner of input `first`; GY_QUERY_NONE: the best pair. */
static void choose(const orderer *in, uint32_t first, uint32_t best[2])
{
    double least = INFINITY;
    const uint32_t begin = first == GY_QUERY_NONE ? 0 : first;
    const uint32_t end = first == GY_QUERY_NONE ? in->count : first + 1;
    for (int is_connected = 1; is_connected >= 0 && isinf(least); is_connected--) {
        for (uint32_t a = begin; a < end; a++) {
            for (uint32_t b = first == GY_QUERY_NONE ? a + 1 : 0; b < in->count; b++) {
                if (b != a) {
                    least = choose_between(in, a, b, is_connected == 0, least, best);
                }
            }
        }
    }
}

gy_status gy_query_order(const gy_query_planner *planner, gy_query_node *const *inputs,
                         uint32_t count, gy_query_list *conditions, gy_query_node **out)
{
    orderer in = {.planner = planner, .count = count, .conditions = conditions};
    uint32_t first = GY_QUERY_NONE;
    GY_ASSERT(count > 0);
    in.inputs = gy_query_alloc(planner, count, sizeof(*in.inputs));
    if (in.inputs == NULL) {
        return GY_NOMEM;
    }
    memcpy(in.inputs, inputs, count * sizeof(*in.inputs));
    while (in.count > 1) {
        uint32_t best[2] = {0, 1};
        choose(&in, first, best);
        GY_TRY(join_two(&in, best[0], best[1], &first));
    }
    *out = in.inputs[0];
    return GY_OK;
}
