/* Sub-queries become joins. */
#include "query/plan/plan_priv.h"

#include <string.h>

/* ---- The sub-query ---- */

static gy_status plan_inner(const gy_query_resolver *in, const gy_sql_node *node,
                            gy_query_answer *answer)
{
    if (in->input == NULL) {
        return gy_sql_refuse(in->planner->source, node->place, GY_UNSUPPORTED,
                             "not supported: a sub-query in %s", in->clause);
    }
    GY_TRY(gy_query_select(in->planner, node->select, in->scope, in->views, answer));
    if (node->kind != GY_SQL_EXISTS && answer->node->count != 1) {
        return gy_sql_refuse(in->planner->source, node->place, GY_FORMAT,
                             "this sub-query gives %u columns; it must give one",
                             answer->node->count);
    }
    return GY_OK;
}

/* In a query that groups, what is pulled may use groups alone. */
static gy_status regroup(const gy_query_resolver *in, gy_query_list *list)
{
    for (uint32_t i = 0; in->grouping != NULL && i < list->count; i++) {
        GY_TRY(gy_query_regroup(in, &list->items[i]));
    }
    return GY_OK;
}

/* Whether an operator or its inputs use columns from outside. */
static bool is_correlated(const gy_query_node *node)
{
    const gy_query_node *sides[2] = {node->left, node->right};
    gy_query_numbers known = {.items = NULL};
    for (int i = 0; i < 2; i++) {
        if (sides[i] != NULL && is_correlated(sides[i])) {
            return true;
        }
    }
    GY_ASSERT(node->condition_count == 0 || node->left != NULL);
    for (uint32_t i = 0; i < node->condition_count; i++) {
        bool is_known = false;
        const gy_sql_node *one = node->conditions[i];
        if (node->right == NULL) {
            is_known = gy_query_uses_only(one, node->left->columns, node->left->count);
        } else {
            uint32_t columns[GY_FRAME_COLUMNS_MAX / 64]; /* of both sides, if they are few */
            const uint32_t count = node->left->count + node->right->count;
            if (count > GY_COUNT(columns)) {
                return true;
            }
            memcpy(columns, node->left->columns, node->left->count * sizeof(*columns));
            memcpy(columns + node->left->count, node->right->columns,
                   node->right->count * sizeof(*columns));
            known = (gy_query_numbers){.items = columns, .count = count};
            is_known = gy_query_uses_only(one, known.items, known.count);
        }
        if (!is_known) {
            return true;
        }
    }
    const uint32_t values = node->kind == GY_QUERY_PROJECT  ? node->count
                            : node->kind == GY_QUERY_VALUES ? node->row_count * node->count
                                                            : 0;
    for (uint32_t i = 0; i < values; i++) {
        const bool is_known =
            node->left != NULL
                ? gy_query_uses_only(node->values[i], node->left->columns, node->left->count)
                : gy_query_is_constant(node->values[i]);
        if (!is_known) {
            return true;
        }
    }
    return false;
}

/* ---- As a value ---- */

/* Counts of groups that are not there are 0, not null. */
static gy_status count_nothing(const gy_query_planner *planner, const gy_query_node *aggregate,
                               gy_sql_node **value)
{
    for (uint32_t i = aggregate->group_count; i < aggregate->count; i++) {
        const uint32_t column = aggregate->columns[i];
        const char *function = aggregate->aggregates[i - aggregate->group_count].function;
        if (strcmp(function, "count") != 0 && strcmp(function, "count(*)") != 0) {
            continue;
        }
        gy_sql_node *const items[2] = {gy_query_make_column(planner, column, (*value)->place),
                                       gy_query_make_number(planner, "0", (*value)->place)};
        gy_sql_node *zero = gy_query_make(planner, GY_SQL_COALESCE, (*value)->place, items, 2);
        if (zero == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(gy_query_replace(planner, &column, &zero, 1, value));
    }
    return GY_OK;
}

/* any of each column, count(*): the first row's values, and how many rows there are. */
static gy_status count_rows(const gy_query_planner *planner, uint32_t place,
                            gy_query_node **node)
{
    const uint32_t count = (*node)->count;
    const gy_expr_type integer = {.kind = GY_FIELD_INT64, .is_nullable = true};
    gy_query_node *made =
        gy_query_node_new(planner, GY_QUERY_AGGREGATE, *node, NULL, count + 1);
    gy_query_aggregate *aggregates = gy_query_alloc(planner, count + 1, sizeof(*aggregates));
    if (made == NULL || aggregates == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        const gy_query_column of = planner->plan->columns[(*node)->columns[i]];
        GY_TRY(gy_query_column_add(planner, of.name, &of.type, &made->columns[i]));
        aggregates[i] = (gy_query_aggregate){
            .function = "any", .input = (*node)->columns[i], .place = place};
    }
    GY_TRY(gy_query_column_add(planner, "count(*)", &integer, &made->columns[count]));
    aggregates[count] =
        (gy_query_aggregate){.function = "count(*)", .input = GY_QUERY_NONE, .place = place};
    made->aggregates = aggregates;
    *node = made;
    return GY_OK;
}

/* case when gyre_passes(column) then value end: whoever evaluates it meets the error that the
 * column tells of. NULL: GY_NOMEM */
static gy_sql_node *guard(const gy_query_planner *planner, const char *function,
                          uint32_t column, gy_sql_node *value)
{
    gy_sql_node *items[2] = {
        gy_query_make_column(planner, column, value != NULL ? value->place : 0), value};
    gy_sql_node *call = gy_query_make(planner, GY_SQL_CALL, 0, items, 1);
    if (call == NULL) {
        return NULL;
    }
    call->place = items[0]->place;
    call->text = function;
    items[0] = call;
    return gy_query_make(planner, GY_SQL_CASE, call->place, items, 2);
}

/* The join fails where a row found more than one. */
static gy_status check_rows(const gy_query_planner *planner, uint32_t count, uint32_t place,
                            gy_query_node **input)
{
    gy_query_node *made =
        gy_query_node_new(planner, GY_QUERY_CHECK, *input, NULL, (*input)->count - 1);
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0, j = 0; i < (*input)->count; i++) {
        if ((*input)->columns[i] != count) {
            made->columns[j++] = (*input)->columns[i];
        }
    }
    made->checked = count;
    made->place = place;
    *input = made;
    return GY_OK;
}

static bool is_order_alone(const gy_query_node *node)
{
    return node->kind == GY_QUERY_SORT && node->limit < 0 && node->offset == 0;
}

/* A row of those that the value is computed of, and how many there are: it is computed behind
 * the join, for rows that need it. */
static gy_status compute_later(const gy_query_planner *planner, uint32_t place,
                               gy_query_node **inner, gy_sql_node **value)
{
    gy_query_numbers used = {.items = NULL}, own = {.items = NULL};
    gy_query_list now = {.items = NULL};
    GY_TRY(gy_query_uses(planner, *value, &used));
    for (uint32_t i = 0; i < used.count; i++) {
        if (gy_query_has((*inner)->columns, (*inner)->count, used.items[i])) {
            GY_TRY(gy_query_numbers_join(planner, &own, &used.items[i], 1));
        }
    }
    GY_TRY(gy_query_keep(planner, own.items, own.count, inner));
    GY_TRY(count_rows(planner, place, inner));
    for (uint32_t i = 0; i < own.count; i++) {
        gy_sql_node *column = gy_query_make_column(planner, (*inner)->columns[i], place);
        if (column == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(gy_query_list_add(planner, &now, column));
    }
    return gy_query_replace(planner, own.items, now.items, own.count, value);
}

static gy_status correlated(const gy_query_resolver *in, const gy_sql_node *node,
                            gy_query_node *inner, gy_sql_node **out)
{
    const gy_query_planner *planner = in->planner;
    gy_query_pulled pulled = {.scalar_count = 0};
    gy_sql_node *value = gy_query_make_column(planner, inner->columns[0], node->place);
    if (value == NULL) {
        return GY_NOMEM;
    }
    while (inner->kind == GY_QUERY_PROJECT || is_order_alone(inner)) {
        if (inner->kind == GY_QUERY_PROJECT) {
            GY_TRY(
                gy_query_replace(planner, inner->columns, inner->values, inner->count, &value));
        }
        inner = inner->left;
        GY_ASSERT(inner != NULL);
    }
    const bool is_one = inner->kind == GY_QUERY_AGGREGATE && inner->group_count == 0;
    const bool is_row = inner->kind == GY_QUERY_VALUES && inner->row_count == 1;
    uint32_t count = GY_QUERY_NONE;
    if (is_row) { /* select outside.x, values (outside.x) */
        GY_TRY(gy_query_replace(planner, inner->columns, inner->values, inner->count, &value));
        *out = value;
        return GY_OK;
    }
    if (!is_one && in->is_conditional) {
        GY_TRY(compute_later(planner, node->place, &inner, &value));
        count = inner->columns[inner->count - 1];
        value = guard(planner, "gyre_single", count, value);
    } else if (!is_one) {
        uint32_t column = GY_QUERY_NONE;
        GY_TRY(gy_query_compute(planner, NULL, value, &inner, &column));
        GY_TRY(gy_query_keep(planner, &column, 1, &inner));
        GY_TRY(count_rows(planner, node->place, &inner));
        count = inner->columns[1];
        value = gy_query_make_column(planner, inner->columns[0], node->place);
    }
    const gy_query_node *aggregate = inner;
    GY_TRY(gy_query_pull(planner, node->place, &inner, &pulled));
    if (pulled.scalar_count > 1) { /* the lower one gives a row where nothing matches, too */
        return gy_sql_refuse(planner->source, node->place, GY_UNSUPPORTED,
                             "not supported: a sub-query that uses columns from outside below "
                             "an aggregate without groups that is not its last operator");
    }
    GY_TRY(regroup(in, &pulled.conditions));
    if (is_one) {
        GY_TRY(count_nothing(planner, aggregate, &value));
    }
    GY_TRY(gy_query_join_nodes(planner, GY_QUERY_LEFT, &pulled.conditions, inner, in->input));
    if (count != GY_QUERY_NONE && !in->is_conditional) {
        GY_TRY(check_rows(planner, count, node->place, in->input));
    }
    *out = value;
    return value != NULL ? GY_OK : GY_NOMEM;
}

static gy_status scalar(const gy_query_resolver *in, const gy_sql_node *node, gy_sql_node **out)
{
    gy_query_answer answer = {.node = NULL};
    GY_TRY(plan_inner(in, node, &answer));
    GY_ASSERT(answer.node != NULL);
    if (is_correlated(answer.node)) {
        GY_TRY(correlated(in, node, answer.node, out));
        return in->grouping != NULL ? gy_query_regroup(in, out) : GY_OK;
    }
    const gy_expr_type text = {.kind = GY_FIELD_TEXT, .is_nullable = true};
    gy_query_node *single = gy_query_node_new(in->planner, GY_QUERY_SINGLE, answer.node, NULL,
                                              in->is_conditional ? 2 : 1);
    if (single == NULL) {
        return GY_NOMEM;
    }
    single->columns[0] = answer.node->columns[0];
    single->place = node->place;
    if (in->is_conditional) {
        GY_TRY(gy_query_column_add(in->planner, "error", &text, &single->columns[1]));
    }
    GY_TRY(gy_query_join_nodes(in->planner, GY_QUERY_INNER, NULL, single, in->input));
    *out = gy_query_make_column(in->planner, single->columns[0], node->place);
    if (in->is_conditional) {
        *out = guard(in->planner, "gyre_passes", single->columns[1], *out);
    }
    return *out != NULL ? GY_OK : GY_NOMEM;
}

/* An aggregate that is compared with a sub-query's values belongs to the query around it: it
 * becomes a column there. */
static gy_status take_aggregate(gy_query_resolver *in, const gy_sql_node **node)
{
    gy_sql_node *asked = gy_query_copy(in->planner, *node), *tested = NULL;
    uint32_t column = GY_QUERY_NONE;
    if (asked == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_resolve(in, (*node)->items[0], &tested));
    GY_TRY(gy_query_regroup(in, &tested));
    GY_TRY(gy_query_compute(in->planner, NULL, tested, in->input, &column));
    asked->items[0] = gy_query_make_column(in->planner, column, (*node)->items[0]->place);
    if (asked->items[0] == NULL) {
        return GY_NOMEM;
    }
    asked->items[0]->table = GY_QUERY_NUMBERED;
    *node = asked;
    return GY_OK;
}

gy_status gy_query_sub_query(gy_query_resolver *in, const gy_sql_node *node, gy_sql_node **out)
{
    if (node->kind == GY_SQL_SCALAR) {
        return scalar(in, node, out);
    }
    if (node->kind != GY_SQL_EXISTS) {
        gy_query_answer answer = {.node = NULL};
        GY_TRY(plan_inner(in, node, &answer)); /* refuses several columns */
    }
    if (node->count > 0 && in->grouping != NULL &&
        gy_query_has_aggregate(in->planner, node->items[0])) {
        GY_TRY(take_aggregate(in, &node));
    }
    const gy_sql_node *value = gy_query_quantified(in->planner, node);
    const bool was_quantified = in->is_quantified;
    in->is_quantified = true;
    const gy_status status = value != NULL ? gy_query_resolve(in, value, out) : GY_NOMEM;
    in->is_quantified = was_quantified;
    return status;
}

/* ---- As a condition ---- */

/* Operators that do not change whether there are rows. */
static gy_query_node *without_order(gy_query_node *node)
{
    while (is_order_alone(node) ||
           ((node->kind == GY_QUERY_SORT || node->kind == GY_QUERY_LIMIT) && node->limit > 0 &&
            node->offset == 0) ||
           node->kind == GY_QUERY_PROJECT ||
           (node->kind == GY_QUERY_AGGREGATE && node->count == node->group_count &&
            node->group_count > 0)) {
        node = node->left;
        GY_ASSERT(node != NULL);
    }
    return node;
}

/* exists (select …), and in front of it not. */
static gy_status where_exists(const gy_query_resolver *in, const gy_sql_node *node, bool is_not)
{
    gy_query_answer answer = {.node = NULL};
    gy_query_pulled pulled = {.scalar_count = 0};
    GY_TRY(plan_inner(in, node, &answer));
    GY_ASSERT(answer.node != NULL);
    gy_query_node *inner = without_order(answer.node);
    GY_TRY(gy_query_pull(in->planner, node->place, &inner, &pulled));
    if (pulled.scalar_count > 0) {
        return gy_sql_refuse(in->planner->source, node->place, GY_UNSUPPORTED,
                             "not supported: exists of an aggregate without groups");
    }
    GY_TRY(regroup(in, &pulled.conditions));
    return gy_query_join_nodes(in->planner, is_not ? GY_QUERY_ANTI : GY_QUERY_SEMI,
                               &pulled.conditions, inner, in->input);
}

/* x in (select …), and in front of it not. Not done: not in of a sub-query that uses columns
 * from outside, which is counted as a value; its plan is left behind. */
static gy_status where_in(gy_query_resolver *in, const gy_sql_node *node, bool is_not,
                          bool *is_done)
{
    gy_query_answer answer = {.node = NULL};
    gy_query_pulled pulled = {.scalar_count = 0};
    gy_sql_node *tested = NULL;
    GY_TRY(plan_inner(in, node, &answer));
    GY_ASSERT(answer.node != NULL);
    gy_query_node *inner = answer.node;
    if (is_not && is_correlated(inner)) {
        *is_done = false;
        return GY_OK;
    }
    GY_TRY(gy_query_resolve(in, node->items[0], &tested));
    if (in->grouping != NULL) {
        GY_TRY(gy_query_regroup(in, &tested));
    }
    gy_sql_node *equal = gy_query_make_operation(
        in->planner, "=", tested,
        gy_query_make_column(in->planner, inner->columns[0], node->place));
    gy_expr_type type;
    if (equal == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_type(in->planner, equal, &type)); /* reports types that do not fit */
    GY_TRY(gy_query_pull(in->planner, node->place, &inner, &pulled));
    if (pulled.scalar_count > 0) {
        *is_done = false;
        return GY_OK;
    }
    GY_TRY(regroup(in, &pulled.conditions));
    GY_TRY(gy_query_list_add(in->planner, &pulled.conditions, equal));
    *is_done = true;
    return gy_query_join_nodes(in->planner, is_not ? GY_QUERY_ANTI_NULL : GY_QUERY_SEMI,
                               &pulled.conditions, inner, in->input);
}

/* A sub-query that is a condition of its own; false: it is none. */
static gy_status where_sub_query(gy_query_resolver *in, const gy_sql_node *node, bool *is_done)
{
    const bool is_not = node->kind == GY_SQL_NOT;
    const gy_sql_node *asked = is_not ? node->items[0] : node;
    *is_done = false;
    if (asked->kind == GY_SQL_EXISTS) {
        *is_done = true;
        return where_exists(in, asked, is_not);
    }
    return asked->kind == GY_SQL_IN_SELECT ? where_in(in, asked, is_not, is_done) : GY_OK;
}

static bool has_sub_query(const gy_sql_node *node)
{
    if (node->select != NULL) {
        return true;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        if (has_sub_query(node->items[i])) {
            return true;
        }
    }
    return false;
}

static gy_status where_plain(gy_query_resolver *in, const gy_sql_node *node,
                             gy_query_list *conditions)
{
    gy_sql_node *resolved = NULL;
    GY_TRY(gy_query_resolve(in, node, &resolved));
    if (in->grouping != NULL) {
        GY_TRY(gy_query_regroup(in, &resolved));
    }
    GY_TRY(gy_query_check_condition(in->planner, resolved));
    return gy_query_split(in->planner, resolved, conditions);
}

/* Conditions without sub-queries, or those with some, which stand behind operators of theirs.
 */
static gy_status where_of(gy_query_resolver *in, const gy_sql_node *node, bool of_sub_queries,
                          gy_query_list *conditions)
{
    if (node->kind == GY_SQL_AND) {
        for (uint32_t i = 0; i < node->count; i++) {
            GY_TRY(where_of(in, node->items[i], of_sub_queries, conditions));
        }
        return GY_OK;
    }
    bool is_done = false;
    if (has_sub_query(node) != of_sub_queries) {
        return GY_OK;
    }
    if (of_sub_queries) {
        GY_TRY(where_sub_query(in, node, &is_done));
    }
    if (!is_done) {
        GY_TRY(where_plain(in, node, conditions));
    }
    return GY_OK;
}

gy_status gy_query_where(gy_query_resolver *in, const gy_sql_node *node)
{
    gy_query_list plain = {.items = NULL}, behind = {.items = NULL};
    /* those without sub-queries first: fewer rows are joined */
    GY_TRY(where_of(in, node, false, &plain));
    GY_TRY(gy_query_filter(in->planner, &plain, in->input));
    GY_TRY(where_of(in, node, true, &behind));
    return gy_query_filter(in->planner, &behind, in->input);
}
