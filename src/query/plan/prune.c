/* Read and compute nothing that nobody needs; guess sizes. */
#include "query/plan/plan_priv.h"

#include <math.h>
#include <string.h>

/* ---- Guesses ---- */

static double selectivity(const gy_sql_node *node)
{
    double share = 0.33;
    if (node->kind == GY_SQL_OR) {
        share = 0;
        for (uint32_t i = 0; i < node->count; i++) {
            share = fmin(1, share + selectivity(node->items[i]));
        }
    } else if (node->kind == GY_SQL_OPERATION) {
        share = strcmp(node->text, "=") == 0    ? 0.05
                : strcmp(node->text, "<>") == 0 ? 0.95
                                                : 0.4;
    } else if (node->kind == GY_SQL_BETWEEN || node->kind == GY_SQL_IN) {
        share = 0.2;
    } else if (node->kind == GY_SQL_LIKE || node->kind == GY_SQL_ILIKE) {
        share = 0.1;
    } else if (node->kind == GY_SQL_NOT && node->count == 1) {
        return 1 - selectivity(node->items[0]);
    }
    return node->is_not ? 1 - share : share;
}

static double guess_join(const gy_query_plan *plan, const gy_query_node *node)
{
    GY_ASSERT(node->left != NULL && node->right != NULL);
    const double left = node->left->rows, right = node->right->rows;
    double least = 1;
    for (uint32_t i = 0; i < node->key_count; i++) {
        const double a = plan->columns[node->left_keys[i]].distinct;
        const double b = plan->columns[node->right_keys[i]].distinct;
        least = fmax(least, fmin(a > 0 ? a : left, b > 0 ? b : right));
    }
    double rows = left * right / least;
    for (uint32_t i = 0; i < node->condition_count; i++) {
        rows *= selectivity(node->conditions[i]);
    }
    switch (node->join) {
    case GY_QUERY_LEFT:
        return fmax(rows, left);
    case GY_QUERY_RIGHT:
        return fmax(rows, right);
    case GY_QUERY_FULL:
        return fmax(rows, left + right);
    case GY_QUERY_SEMI:
    case GY_QUERY_ANTI:
    case GY_QUERY_ANTI_NULL:
        return left / 2;
    case GY_QUERY_INNER:
    default:
        return rows;
    }
}

static double guess(const gy_query_plan *plan, const gy_query_node *node)
{
    double rows = node->left != NULL ? node->left->rows : 1;
    switch (node->kind) {
    case GY_QUERY_SCAN:
        return node->table->rows;
    case GY_QUERY_VALUES:
        return node->row_count;
    case GY_QUERY_FILTER:
        for (uint32_t i = 0; i < node->condition_count; i++) {
            rows *= selectivity(node->conditions[i]);
        }
        return rows;
    case GY_QUERY_JOIN:
        return guess_join(plan, node);
    case GY_QUERY_AGGREGATE:
        return node->group_count == 0 ? 1 : fmax(1, rows / 10);
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
        return node->limit >= 0 ? fmin(rows, (double)node->limit) : rows;
    case GY_QUERY_SET:
        return node->set == GY_SQL_UNION ? rows + node->right->rows : rows / 2;
    case GY_QUERY_SINGLE:
        return 1;
    case GY_QUERY_PROJECT:
    case GY_QUERY_CHECK:
    case GY_QUERY_APPLY:
    case GY_QUERY_KINDS:
    default:
        return rows;
    }
}

void gy_query_guess(const gy_query_plan *plan, gy_query_node *node)
{
    node->rows = guess(plan, node);
}

/* ---- Needs ---- */

static gy_status use_all(const gy_query_planner *planner, gy_sql_node *const *items,
                         uint32_t count, gy_query_numbers *needs)
{
    for (uint32_t i = 0; i < count; i++) {
        GY_TRY(gy_query_uses(planner, items[i], needs));
    }
    return GY_OK;
}

/* One column at least is read, so that rows are counted. */
static gy_status prune_scan(const gy_query_planner *planner, gy_query_node *node,
                            const gy_query_numbers *needs)
{
    gy_query_numbers columns = {.items = NULL};
    int *fields = gy_query_alloc(planner, node->count, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        const bool is_last = i + 1 == node->count && columns.count == 0;
        if (is_last || gy_query_has(needs->items, needs->count, node->columns[i])) {
            fields[columns.count] = node->fields[i];
            GY_TRY(gy_query_numbers_add(planner, &columns, node->columns[i]));
        }
    }
    node->columns = columns.items;
    node->count = columns.count;
    node->fields = fields;
    return GY_OK;
}

/* Whether a projection gives what it reads. */
static bool is_identity(const gy_query_node *node)
{
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->values[i]->kind != GY_SQL_COLUMN ||
            node->values[i]->column != node->columns[i] || node->count != node->left->count ||
            node->columns[i] != node->left->columns[i]) {
            return false;
        }
    }
    return true;
}

static gy_status prune_project(const gy_query_planner *planner, gy_query_node **node,
                               const gy_query_numbers *needs)
{
    gy_query_node *at = *node;
    gy_query_numbers columns = {.items = NULL}, below = {.items = NULL};
    gy_query_list values = {.items = NULL};
    for (uint32_t i = 0; i < at->count; i++) {
        if (gy_query_has(needs->items, needs->count, at->columns[i])) {
            GY_TRY(gy_query_numbers_add(planner, &columns, at->columns[i]));
            GY_TRY(gy_query_list_add(planner, &values, at->values[i]));
        }
    }
    if (columns.count == 0) {
        *node = at->left;
        return gy_query_prune(planner, node, NULL, 0);
    }
    at->columns = columns.items;
    at->count = columns.count;
    at->values = values.items;
    GY_TRY(use_all(planner, at->values, at->count, &below));
    GY_TRY(gy_query_prune(planner, &at->left, below.items, below.count));
    *node = is_identity(at) ? at->left : at;
    return GY_OK;
}

static gy_status prune_join(const gy_query_planner *planner, gy_query_node *node,
                            const gy_query_numbers *needs)
{
    gy_query_numbers below = {.items = NULL}, columns = {.items = NULL};
    GY_TRY(gy_query_numbers_join(planner, &below, needs->items, needs->count));
    GY_TRY(gy_query_numbers_join(planner, &below, node->left_keys, node->key_count));
    GY_TRY(gy_query_numbers_join(planner, &below, node->right_keys, node->key_count));
    GY_TRY(use_all(planner, node->conditions, node->condition_count, &below));
    GY_TRY(gy_query_prune(planner, &node->left, below.items, below.count));
    GY_TRY(gy_query_prune(planner, &node->right, below.items, below.count));
    for (int side = 0; side < (node->join >= GY_QUERY_SEMI ? 1 : 2); side++) {
        const gy_query_node *from = side == 0 ? node->left : node->right;
        for (uint32_t i = 0; i < from->count; i++) {
            if (node->join >= GY_QUERY_SEMI ||
                gy_query_has(needs->items, needs->count, from->columns[i])) {
                GY_TRY(gy_query_numbers_add(planner, &columns, from->columns[i]));
            }
        }
    }
    if (columns.count == 0) {
        const gy_query_node *any = node->left->count > 0 ? node->left : node->right;
        GY_TRY(gy_query_numbers_join(planner, &columns, any->columns, any->count > 0 ? 1 : 0));
    }
    node->columns = columns.items;
    node->count = columns.count;
    return GY_OK;
}

static gy_status prune_aggregate(const gy_query_planner *planner, gy_query_node *node,
                                 const gy_query_numbers *needs)
{
    gy_query_numbers columns = {.items = NULL}, below = {.items = NULL};
    GY_TRY(gy_query_numbers_join(planner, &columns, node->columns, node->group_count));
    GY_TRY(gy_query_numbers_join(planner, &below, node->columns, node->group_count));
    uint32_t kept = 0;
    const uint32_t count = node->count - node->group_count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t column = node->columns[node->group_count + i];
        const bool is_last = i + 1 == count && kept == 0 && node->group_count == 0;
        if (is_last || gy_query_has(needs->items, needs->count, column)) {
            node->aggregates[kept++] = node->aggregates[i];
            GY_TRY(gy_query_numbers_add(planner, &columns, column));
            const uint32_t input = node->aggregates[i].input;
            GY_TRY(
                gy_query_numbers_join(planner, &below, &input, input != GY_QUERY_NONE ? 1 : 0));
            GY_TRY(gy_query_numbers_join(planner, &below, node->aggregates[i].more,
                                         node->aggregates[i].more_count));
        }
    }
    node->columns = columns.items;
    node->count = columns.count;
    return gy_query_prune(planner, &node->left, below.items, below.count);
}

/* A function gives all its columns, whoever needs them. */
static gy_status prune_apply(const gy_query_planner *planner, gy_query_node *node)
{
    gy_query_numbers below = {.items = NULL};
    GY_TRY(gy_query_numbers_join(planner, &below, node->arguments, node->argument_count));
    for (uint32_t i = 0; i < node->key_count; i++) {
        GY_TRY(gy_query_numbers_join(planner, &below, &node->keys[i].column, 1));
    }
    return gy_query_prune(planner, &node->left, below.items, below.count);
}

static gy_status prune_set(const gy_query_planner *planner, gy_query_node *node)
{
    gy_query_node **const sides[2] = {&node->left, &node->right};
    for (int i = 0; i < 2; i++) {
        const uint32_t *columns = (*sides[i])->columns;
        const uint32_t count = (*sides[i])->count;
        GY_TRY(gy_query_prune(planner, sides[i], columns, count));
        GY_TRY(gy_query_arrange(planner, columns, count, sides[i]));
    }
    return GY_OK;
}

/* Those whose rows have the columns of the input. */
static gy_status prune_through(const gy_query_planner *planner, gy_query_node *node,
                               const gy_query_numbers *needs)
{
    gy_query_numbers below = {.items = NULL}, columns = {.items = NULL};
    GY_TRY(gy_query_numbers_join(planner, &below, needs->items, needs->count));
    GY_TRY(use_all(planner, node->conditions, node->condition_count, &below));
    for (uint32_t i = 0; node->kind == GY_QUERY_SORT && i < node->key_count; i++) {
        GY_TRY(gy_query_numbers_join(planner, &below, &node->keys[i].column, 1));
    }
    if (node->kind == GY_QUERY_CHECK) {
        GY_TRY(gy_query_numbers_join(planner, &below, &node->checked, 1));
    }
    if (node->kind == GY_QUERY_SINGLE) { /* also where nobody needs it: how many rows there are
                                            is asked */
        GY_TRY(gy_query_numbers_join(planner, &below, node->columns, 1));
    }
    GY_TRY(gy_query_prune(planner, &node->left, below.items, below.count));
    if (node->kind == GY_QUERY_SINGLE) {
        return gy_query_arrange(planner, node->columns, 1, &node->left);
    }
    for (uint32_t i = 0; i < node->left->count; i++) {
        if (node->kind != GY_QUERY_CHECK || node->left->columns[i] != node->checked) {
            GY_TRY(gy_query_numbers_add(planner, &columns, node->left->columns[i]));
        }
    }
    node->columns = columns.items;
    node->count = columns.count;
    return GY_OK;
}

static gy_status prune_node(const gy_query_planner *planner, gy_query_node **node,
                            const gy_query_numbers *needs)
{
    switch ((*node)->kind) {
    case GY_QUERY_SCAN:
        return prune_scan(planner, *node, needs);
    case GY_QUERY_VALUES:
        return GY_OK;
    case GY_QUERY_PROJECT:
        return prune_project(planner, node, needs);
    case GY_QUERY_JOIN:
        return prune_join(planner, *node, needs);
    case GY_QUERY_AGGREGATE:
        return prune_aggregate(planner, *node, needs);
    case GY_QUERY_SET:
        return prune_set(planner, *node);
    case GY_QUERY_APPLY:
        return prune_apply(planner, *node);
    case GY_QUERY_FILTER:
    case GY_QUERY_SORT:
    case GY_QUERY_LIMIT:
    case GY_QUERY_SINGLE:
    case GY_QUERY_CHECK:
    case GY_QUERY_KINDS:
    default:
        return prune_through(planner, *node, needs);
    }
}

gy_status gy_query_prune(const gy_query_planner *planner, gy_query_node **node,
                         const uint32_t *needed, uint32_t count)
{
    gy_query_numbers needs = {.items = NULL};
    const gy_query_node *before = *node;
    GY_TRY(gy_query_numbers_join(planner, &needs, needed, count));
    GY_TRY(prune_node(planner, node, &needs));
    if (*node == before) { /* else the one below has its number */
        (*node)->number = planner->plan->node_count++;
        gy_query_guess(planner->plan, *node);
    }
    return GY_OK;
}

gy_status gy_query_arrange(const gy_query_planner *planner, const uint32_t *columns,
                           uint32_t count, gy_query_node **node)
{
    gy_query_node *before = *node;
    GY_TRY(gy_query_keep(planner, columns, count, node));
    if (*node != before) {
        (*node)->number = planner->plan->node_count++;
        gy_query_guess(planner->plan, *node);
    }
    return GY_OK;
}
