/*
 * exists, in, any, all as values, as sub-queries that count. Of rows s(v):
 *   exists      count(*) > 0
 *   x in s      true if x is the v of some; else null if x is null and there are rows, or if
 *               some v is null; else false
 *   x op any s  the same, with x op min(v) or x op max(v) in place of the first test
 *   x op all s  the contrary, with and
 */
#include "query/plan/plan_priv.h"

#include <string.h>

/* Names that no statement has. */
#define ROWS  "\x01rows"
#define VALUE "\x01value"

typedef struct maker {
    const gy_query_planner *planner;
    const gy_sql_node *of;
} maker;

static gy_sql_node *node_of(const maker *in, gy_sql_kind kind, gy_sql_node *a, gy_sql_node *b)
{
    gy_sql_node *const items[2] = {a, b};
    return gy_query_make(in->planner, kind, in->of->place, items,
                         b != NULL   ? 2
                         : a != NULL ? 1
                                     : 0);
}

static gy_sql_node *value_of(const maker *in)
{
    gy_sql_node *made = node_of(in, GY_SQL_COLUMN, NULL, NULL);
    if (made != NULL) {
        made->table = ROWS;
        made->text = VALUE;
        made->is_quoted = true;
    }
    return made;
}

/* (select function(value) from (select …) rows(value) where …) */
static gy_sql_node *count_of(const maker *in, const char *function, gy_sql_node *argument,
                             gy_sql_node *where)
{
    gy_sql_node *made = node_of(in, GY_SQL_SCALAR, NULL, NULL);
    gy_sql_node *call = node_of(in, GY_SQL_CALL, argument, NULL);
    gy_sql_select *select = gy_query_alloc(in->planner, 1, sizeof(*select));
    gy_sql_from *from = gy_query_alloc(in->planner, 1, sizeof(*from));
    gy_sql_name *names = gy_query_alloc(in->planner, 1, sizeof(*names));
    gy_sql_target *target = gy_query_alloc(in->planner, 1, sizeof(*target));
    if (made == NULL || call == NULL || select == NULL || from == NULL || names == NULL ||
        target == NULL) {
        return NULL;
    }
    call->text = function;
    call->is_star = argument == NULL;
    names[0] = (gy_sql_name){.text = VALUE, .is_quoted = true};
    target[0] = (gy_sql_target){.value = call};
    *from = (gy_sql_from){.kind = GY_SQL_DERIVED,
                          .place = in->of->place,
                          .alias = {.text = ROWS, .is_quoted = true},
                          .select = in->of->select,
                          .columns = names,
                          .column_count = in->of->kind == GY_SQL_EXISTS ? 0 : 1};
    *select = (gy_sql_select){.place = in->of->place,
                              .targets = target,
                              .target_count = 1,
                              .from = from,
                              .where = where};
    made->select = select;
    return made;
}

static gy_sql_node *is_more(const maker *in, gy_sql_node *count)
{
    return gy_query_make_operation(in->planner, ">", count,
                                   gy_query_make_number(in->planner, "0", in->of->place));
}

static gy_sql_node *truth(const maker *in, const char *text)
{
    gy_sql_node *made = node_of(in, text != NULL ? GY_SQL_BOOLEAN : GY_SQL_NULL, NULL, NULL);
    if (made != NULL) {
        made->text = text;
    }
    return made;
}

static gy_sql_node *compare(const maker *in, const char *function)
{
    return gy_query_make_operation(in->planner, in->of->text, in->of->items[0],
                                   count_of(in, function, value_of(in), NULL));
}

gy_sql_node *gy_query_quantified(const gy_query_planner *planner, const gy_sql_node *node)
{
    const maker in = {.planner = planner, .of = node};
    if (node->kind == GY_SQL_EXISTS) {
        return is_more(&in, count_of(&in, "count", NULL, NULL));
    }
    gy_sql_node *tested = node->items[0], *found = NULL;
    const bool is_all = node->kind == GY_SQL_ALL_SELECT;
    const bool is_in =
        node->kind == GY_SQL_IN_SELECT || strcmp(node->text, is_all ? "<>" : "=") == 0;
    if (is_in) {
        gy_sql_node *equal = gy_query_make_operation(planner, "=", value_of(&in), tested);
        found = equal != NULL ? is_more(&in, count_of(&in, "count", NULL, equal)) : NULL;
    } else {
        found = node_of(&in, is_all ? GY_SQL_AND : GY_SQL_OR, compare(&in, "min"),
                        compare(&in, "max"));
        found = is_all ? node_of(&in, GY_SQL_NOT, found, NULL) : found;
    }
    gy_sql_node *has_null = is_more(
        &in, count_of(&in, "count", NULL, node_of(&in, GY_SQL_IS_NULL, value_of(&in), NULL)));
    gy_sql_node *has_rows = is_more(&in, count_of(&in, "count", NULL, NULL));
    gy_sql_node *is_unknown =
        node_of(&in, GY_SQL_OR,
                node_of(&in, GY_SQL_AND, node_of(&in, GY_SQL_IS_NULL, tested, NULL), has_rows),
                has_null);
    gy_sql_node *const items[5] = {found, truth(&in, is_all ? "false" : "true"), is_unknown,
                                   truth(&in, NULL), truth(&in, is_all ? "true" : "false")};
    return gy_query_make(planner, GY_SQL_CASE, node->place, items, 5);
}
