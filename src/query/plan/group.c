/* Groups and aggregates. */
#include "query/plan/plan_priv.h"

#include <string.h>

static const char *const functions[] = {"count", "sum",     "avg",      "min",
                                        "max",   "bool_or", "bool_and", "every"};

static const gy_query_function *own_of(const gy_query_planner *planner, const gy_sql_node *node)
{
    const gy_query_function *own =
        node->kind == GY_SQL_CALL ? gy_query_function_find(planner->plan->functions, node->text)
                                  : NULL;
    return own != NULL && gy_query_function_is_aggregate(own) ? own : NULL;
}

bool gy_query_is_aggregate(const gy_query_planner *planner, const gy_sql_node *node)
{
    for (size_t i = 0; node->kind == GY_SQL_CALL && i < GY_COUNT(functions); i++) {
        if (strcmp(node->text, functions[i]) == 0) {
            return true;
        }
    }
    return own_of(planner, node) != NULL;
}

bool gy_query_has_aggregate(const gy_query_planner *planner, const gy_sql_node *node)
{
    if (gy_query_is_aggregate(planner, node)) {
        return true;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        if (gy_query_has_aggregate(planner, node->items[i])) {
            return true;
        }
    }
    return false;
}

/* ---- Types ---- */

static bool sum_type(const gy_expr_type *of, bool is_avg, gy_expr_type *type)
{
    if (of->kind == GY_FIELD_DOUBLE) {
        *type = (gy_expr_type){.kind = GY_FIELD_DOUBLE, .is_nullable = true};
        return true;
    }
    if (of->kind != GY_FIELD_INT64 && of->kind != GY_FIELD_DECIMAL) {
        return false;
    }
    int scale = of->kind == GY_FIELD_DECIMAL ? of->scale : 0;
    scale = is_avg && scale < 16 ? 16 : scale;
    *type = (gy_expr_type){.kind = GY_FIELD_DECIMAL,
                           .precision = GY_DECIMAL_DIGITS_MAX,
                           .scale = scale,
                           .is_nullable = true};
    return true;
}

bool gy_query_aggregate_type(const char *function, const gy_expr_type *of, gy_expr_type *type)
{
    const gy_expr_type integer = {.kind = GY_FIELD_INT64, .is_nullable = true};
    if (strcmp(function, "count") == 0 || strcmp(function, "count(*)") == 0) {
        *type = integer;
        return true;
    }
    if (strcmp(function, "sum") == 0 || strcmp(function, "avg") == 0) {
        return !of->is_unknown && sum_type(of, function[0] == 'a', type);
    }
    if (strcmp(function, "bool_or") == 0 || strcmp(function, "bool_and") == 0) {
        *type = *of;
        return of->kind == GY_FIELD_BOOL;
    }
    *type = *of; /* min, max, any */
    type->is_nullable = true;
    type->is_unknown = false;
    return of->kind != GY_FIELD_BOOL || strcmp(function, "any") == 0;
}

/* ---- Calls ---- */

static gy_status check_call(const gy_query_resolver *in, const gy_sql_node *node)
{
    const gy_sql_source *source = in->planner->source;
    if (in->grouping == NULL) {
        return gy_sql_refuse(source, node->place, GY_FORMAT,
                             "aggregate functions are not allowed in %s", in->clause);
    }
    if (own_of(in->planner, node) != NULL) {
        return node->is_star
                   ? gy_sql_refuse(source, node->place, GY_FORMAT, "%s takes no *", node->text)
               : node->is_distinct && node->count > 1
                   ? gy_sql_refuse(source, node->place, GY_UNSUPPORTED,
                                   "not supported: distinct of several arguments (select them "
                                   "distinct in a sub-query)")
                   : GY_OK;
    }
    if (node->count != (node->is_star ? 0 : 1) ||
        (node->is_star && strcmp(node->text, "count") != 0)) {
        return gy_sql_refuse(source, node->place, GY_FORMAT, "%s takes one argument",
                             node->text);
    }
    return GY_OK;
}

static gy_status remember(const gy_query_planner *planner, gy_query_grouping *grouping,
                          const gy_sql_node *text, gy_sql_node *call, uint32_t column)
{
    if (grouping->calls.count == grouping->text_capacity) {
        const uint32_t capacity = 2 * grouping->text_capacity + 8;
        const gy_sql_node **texts = gy_query_alloc(planner, capacity, sizeof(*texts));
        if (texts == NULL) {
            return GY_NOMEM;
        }
        for (uint32_t i = 0; i < grouping->calls.count; i++) {
            texts[i] = grouping->texts[i];
        }
        grouping->texts = texts;
        grouping->text_capacity = capacity;
    }
    grouping->texts[grouping->calls.count] = text;
    GY_TRY(gy_query_list_add(planner, &grouping->calls, call));
    return gy_query_numbers_add(planner, &grouping->called, column);
}

/* Of a function of the program: its arguments become what it declares. */
static gy_status resolve_own(const gy_query_resolver *in, const gy_query_function *own,
                             gy_sql_node *call, gy_expr_type *type)
{
    const gy_query_planner *planner = in->planner;
    gy_expr_type *types = gy_query_alloc(planner, call->count, sizeof(*types));
    if (types == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < call->count; i++) {
        GY_TRY(gy_query_type(planner, call->items[i], &types[i]));
    }
    GY_TRY(gy_expr_check_call(planner->source, call, own, types));
    for (uint32_t i = 0; i < call->count; i++) {
        const gy_expr_type wanted = gy_expr_type_of_field(&own->parameters[i]);
        if (!gy_query_is_same_type(&types[i], &wanted)) {
            call->items[i] = gy_query_cast(planner, call->items[i], &wanted);
            if (call->items[i] == NULL) {
                return GY_NOMEM;
            }
            GY_TRY(gy_query_type(planner, call->items[i], &types[i]));
        }
    }
    *type = gy_expr_type_of_field(&own->result);
    return GY_OK;
}

/* The call over the input of the grouping, and the type of its answer. */
static gy_status resolve_call(const gy_query_resolver *in, const gy_sql_node *node,
                              gy_sql_node **out, gy_expr_type *type)
{
    gy_query_resolver inner = *in;
    inner.grouping = NULL;
    inner.clause = "an aggregate's argument";
    inner.input = &in->grouping->input;
    *out = gy_query_copy(in->planner, node);
    if (*out == NULL) {
        return GY_NOMEM;
    }
    gy_expr_type of = {.kind = GY_FIELD_INT64};
    const gy_query_function *own = own_of(in->planner, node);
    if (own != NULL) {
        for (uint32_t i = 0; i < node->count; i++) {
            GY_TRY(gy_query_resolve(&inner, node->items[i], &(*out)->items[i]));
        }
        return resolve_own(in, own, *out, type);
    }
    if (node->count == 1) {
        GY_TRY(gy_query_resolve(&inner, node->items[0], &(*out)->items[0]));
        GY_TRY(gy_query_type(in->planner, (*out)->items[0], &of));
    }
    if (strcmp(node->text, "every") == 0) {
        (*out)->text = "bool_and";
    }
    char shown[48];
    if (of.is_interval || !gy_query_aggregate_type((*out)->text, &of, type)) {
        return gy_sql_refuse(in->planner->source, node->place, GY_TYPE, "there is no %s of %s",
                             node->text,
                             of.is_interval ? "interval" : gy_expr_type_text(&of, shown));
    }
    return GY_OK;
}

gy_status gy_query_aggregate_call(gy_query_resolver *in, const gy_sql_node *node,
                                  gy_sql_node **out)
{
    const gy_query_planner *planner = in->planner;
    GY_TRY(check_call(in, node));
    gy_query_grouping *grouping = in->grouping;
    uint32_t column = GY_QUERY_NONE;
    for (uint32_t i = 0; i < grouping->calls.count && column == GY_QUERY_NONE; i++) {
        column = grouping->texts[i] == node ? grouping->called.items[i] : column;
    }
    if (column == GY_QUERY_NONE) {
        gy_sql_node *call = NULL;
        gy_expr_type type;
        GY_TRY(resolve_call(in, node, &call, &type));
        for (uint32_t i = 0; i < grouping->calls.count && column == GY_QUERY_NONE; i++) {
            column = gy_query_is_same(grouping->calls.items[i], call)
                         ? grouping->called.items[i]
                         : column;
        }
        if (column == GY_QUERY_NONE) {
            GY_TRY(gy_query_column_add(planner, node->text, &type, &column));
        }
        GY_TRY(remember(planner, grouping, node, call, column));
    }
    *out = gy_query_make_column(planner, column, node->place);
    return *out != NULL ? GY_OK : GY_NOMEM;
}

gy_status gy_query_collect(gy_query_resolver *in, const gy_sql_node *node)
{
    if (gy_query_is_aggregate(in->planner, node)) {
        gy_sql_node *column = NULL;
        return gy_query_aggregate_call(in, node, &column);
    }
    for (uint32_t i = 0; i < node->count; i++) {
        GY_TRY(gy_query_collect(in, node->items[i]));
    }
    return GY_OK;
}

/* ---- The aggregation ---- */

gy_status gy_query_regroup(const gy_query_resolver *in, gy_sql_node **node)
{
    const gy_query_grouping *grouping = in->grouping;
    for (uint32_t i = 0; i < grouping->groups.count; i++) {
        if (gy_query_is_same(*node, grouping->groups.items[i])) {
            *node =
                gy_query_make_column(in->planner, grouping->grouped.items[i], (*node)->place);
            return *node != NULL ? GY_OK : GY_NOMEM;
        }
    }
    if ((*node)->kind == GY_SQL_COLUMN) {
        const uint32_t column = (*node)->column;
        const bool is_inside =
            gy_query_has(grouping->input->columns, grouping->input->count, column) &&
            !gy_query_has(grouping->grouped.items, grouping->grouped.count, column);
        return is_inside
                   ? gy_sql_refuse(in->planner->source, (*node)->place, GY_FORMAT,
                                   "column \"%s\" must appear in the GROUP BY clause or be "
                                   "used in an aggregate function",
                                   in->planner->plan->columns[column].name)
                   : GY_OK;
    }
    for (uint32_t i = 0; i < (*node)->count; i++) {
        GY_TRY(gy_query_regroup(in, &(*node)->items[i]));
    }
    return GY_OK;
}

static gy_status compute_inputs(const gy_query_planner *planner, const gy_sql_node *call,
                                gy_query_node **input, gy_query_aggregate *to)
{
    uint32_t *more = gy_query_alloc(planner, call->count, sizeof(*more));
    if (more == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_compute(planner, NULL, call->items[0], input, &to->input));
    for (uint32_t i = 1; i < call->count; i++) {
        GY_TRY(gy_query_compute(planner, NULL, call->items[i], input, &more[i - 1]));
    }
    to->more = more;
    to->more_count = call->count - 1;
    return GY_OK;
}

gy_status gy_query_group(const gy_query_planner *planner, const gy_query_grouping *grouping,
                         gy_query_node **out)
{
    gy_query_numbers distinct = {.items = NULL}, answers = {.items = NULL};
    GY_TRY(gy_query_numbers_join(planner, &distinct, grouping->grouped.items,
                                 grouping->grouped.count));
    GY_TRY(gy_query_numbers_join(planner, &answers, grouping->called.items,
                                 grouping->called.count));
    gy_query_node *input = grouping->input;
    gy_query_aggregate *aggregates =
        gy_query_alloc(planner, answers.count, sizeof(*aggregates));
    if (aggregates == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0, made = 0; i < grouping->calls.count; i++) {
        const gy_sql_node *call = grouping->calls.items[i];
        if (made == answers.count || grouping->called.items[i] != answers.items[made]) {
            continue; /* the same as an earlier one */
        }
        gy_query_aggregate *to = &aggregates[made++];
        *to = (gy_query_aggregate){.function = call->is_star ? "count(*)" : call->text,
                                   .input = GY_QUERY_NONE,
                                   .is_distinct = call->is_distinct,
                                   .place = call->place};
        if (!call->is_star) {
            GY_TRY(compute_inputs(planner, call, &input, to));
        }
    }
    gy_query_node *made = gy_query_node_new(planner, GY_QUERY_AGGREGATE, input, NULL,
                                            distinct.count + answers.count);
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < made->count; i++) {
        made->columns[i] =
            i < distinct.count ? distinct.items[i] : answers.items[i - distinct.count];
    }
    made->group_count = distinct.count;
    made->aggregates = aggregates;
    *out = made;
    return GY_OK;
}
