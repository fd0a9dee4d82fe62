/* Names: which column they mean, and which other one is near; expressions of them. */
#include "query/plan/plan_priv.h"

#include <string.h>
#include <strings.h>

gy_status gy_query_scope_add(const gy_query_planner *planner, gy_query_scope *scope,
                             const char *table, const char *name, uint32_t column)
{
    if (scope->count == scope->capacity) {
        const uint32_t capacity = scope->capacity == 0 ? 16 : 2 * scope->capacity;
        gy_query_name *names = gy_query_alloc(planner, capacity, sizeof(*names));
        if (names == NULL) {
            return GY_NOMEM;
        }
        if (scope->count > 0) {
            memcpy(names, scope->names, scope->count * sizeof(*names));
        }
        scope->names = names;
        scope->capacity = capacity;
    }
    scope->names[scope->count++] =
        (gy_query_name){.table = table, .name = name, .column = column};
    return GY_OK;
}

int gy_query_matches(const char *name, bool is_quoted, const char *other)
{
    if (strcmp(name, other) == 0) {
        return 2;
    }
    return !is_quoted && strcasecmp(name, other) == 0 ? 1 : 0;
}

/* Of an alias in front of a column the tree does not say whether it was quoted. */
static int table_matches(const gy_sql_node *node, const gy_query_name *name)
{
    if (node->table == NULL) {
        return name->is_merged ? 0 : 2;
    }
    return name->table != NULL ? gy_query_matches(node->table, false, name->table) : 0;
}

static int matches(const gy_sql_node *node, const gy_query_name *name)
{
    const int table = table_matches(node, name);
    const int column = gy_query_matches(node->text, node->is_quoted, name->name);
    return table < column ? table : column;
}

/* ---- What was meant ---- */

static gy_status unknown(const gy_query_planner *planner, const gy_query_scope *scope,
                         const gy_sql_node *node)
{
    const char *nearest = NULL;
    int least = (int)GY_MIN((strlen(node->text) + 1) / 3, 63);
    bool has_table = node->table == NULL;
    for (const gy_query_scope *at = scope; at != NULL; at = at->outer) {
        for (uint32_t i = 0; i < at->count; i++) {
            const int far = gy_text_distance(node->text, at->names[i].name, true);
            const bool is_its = node->table == NULL || table_matches(node, &at->names[i]) > 0;
            has_table = has_table || is_its;
            if (is_its && far <= least && (nearest == NULL || far < least)) {
                nearest = at->names[i].name;
                least = far;
            }
        }
    }
    if (!has_table) {
        return gy_sql_refuse(planner->source, node->place, GY_NOTFOUND,
                             "there is no table \"%s\" here", node->table);
    }
    return gy_sql_refuse(planner->source, node->place, GY_NOTFOUND,
                         "there is no column \"%s\"%s%s%s", node->text,
                         nearest != NULL   ? "; the nearest name is \""
                         : node->is_quoted ? "; a text stands in single quotes"
                                           : "",
                         nearest != NULL ? nearest : "", nearest != NULL ? "\"" : "");
}

gy_status gy_query_find(const gy_query_planner *planner, const gy_query_scope *scope,
                        const gy_sql_node *node, uint32_t *column)
{
    for (const gy_query_scope *at = scope; at != NULL; at = at->outer) {
        int best = 0, count = 0;
        for (uint32_t i = 0; i < at->count; i++) {
            const int one = matches(node, &at->names[i]);
            if (one > best) {
                best = one;
                count = 0;
            }
            if (one > 0 && one == best) {
                count = count > 0 && *column == at->names[i].column ? count : count + 1;
                *column = at->names[i].column;
            }
        }
        if (count > 1) {
            return gy_sql_refuse(planner->source, node->place, GY_ARG,
                                 "column \"%s\" is ambiguous: %d columns have this name",
                                 node->text, count);
        }
        if (count == 1) {
            return GY_OK;
        }
    }
    return unknown(planner, scope, node);
}

/* ---- Expressions: names become columns, sub-queries and aggregates too ---- */

/* Those that evaluate all but their first item only for rows that need it. */
static bool chooses(const gy_sql_node *node)
{
    return node->kind == GY_SQL_CASE || node->kind == GY_SQL_COALESCE ||
           node->kind == GY_SQL_AND || node->kind == GY_SQL_OR;
}

static gy_status resolve_items(gy_query_resolver *in, const gy_sql_node *node,
                               gy_sql_node **out)
{
    const bool was_conditional = in->is_conditional;
    gy_sql_node *made = gy_query_copy(in->planner, node);
    gy_status status = made != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; i < node->count && status == GY_OK; i++) {
        in->is_conditional = was_conditional || (i > 0 && chooses(node) && !in->is_quantified);
        status = gy_query_resolve(in, node->items[i], &made->items[i]);
    }
    in->is_conditional = was_conditional;
    *out = made;
    return status;
}

static gy_status resolve_column(const gy_query_resolver *in, const gy_sql_node *node,
                                gy_sql_node **out)
{
    uint32_t column = node->column;
    if (node->table == NULL || strcmp(node->table, GY_QUERY_NUMBERED) != 0) {
        GY_TRY(gy_query_find(in->planner, in->scope, node, &column));
    }
    *out = gy_query_make_column(in->planner, column, node->place);
    return *out != NULL ? GY_OK : GY_NOMEM;
}

/* The group that a part of the statement is, by its place: what has a sub-query is not the same
 * twice. */
static uint32_t group_of(const gy_query_grouping *grouping, const gy_sql_node *node)
{
    for (uint32_t i = 0; grouping != NULL && i < grouping->groups.count; i++) {
        if (grouping->group_texts[i] == node) {
            return grouping->grouped.items[i];
        }
    }
    return GY_QUERY_NONE;
}

gy_status gy_query_resolve(gy_query_resolver *in, const gy_sql_node *node, gy_sql_node **out)
{
    const uint32_t group = group_of(in->grouping, node);
    if (group != GY_QUERY_NONE) {
        *out = gy_query_make_column(in->planner, group, node->place);
        return *out != NULL ? GY_OK : GY_NOMEM;
    }
    switch ((int)node->kind) {
    case GY_SQL_COLUMN:
        return resolve_column(in, node, out);
    case GY_SQL_STAR:
        return gy_sql_refuse(in->planner->source, node->place, GY_FORMAT,
                             "* stands alone in a select list, or in count(*)");
    case GY_SQL_SCALAR:
    case GY_SQL_EXISTS:
    case GY_SQL_IN_SELECT:
    case GY_SQL_ALL_SELECT:
    case GY_SQL_ANY_SELECT:
        return gy_query_sub_query(in, node, out);
    case GY_SQL_CALL:
        if (gy_query_is_aggregate(in->planner, node)) {
            return gy_query_aggregate_call(in, node, out);
        }
        return resolve_items(in, node, out);
    default:
        return resolve_items(in, node, out);
    }
}
