/* Selections: from, where, group by, having, targets. */
#include "query/plan/plan_priv.h"

#include <stdlib.h>
#include <string.h>

typedef struct query {
    gy_query_planner *planner;
    const gy_sql_select *select;
    gy_query_scope scope;
    gy_query_resolver in;
    gy_query_grouping grouping;
    gy_query_node *node;
    gy_query_list values; /* of targets */
    gy_sql_name *names;   /* of targets */
    uint32_t name_capacity;
} query;

/* ---- Groups ---- */

static bool has_aggregates(const gy_query_planner *planner, const gy_sql_select *select)
{
    bool has = select->group_count > 0 || select->having != NULL;
    for (uint32_t i = 0; i < select->target_count && !has; i++) {
        has = gy_query_has_aggregate(planner, select->targets[i].value);
    }
    for (uint32_t i = 0; i < select->order_count && !has; i++) {
        has = gy_query_has_aggregate(planner, select->order[i].value);
    }
    return has;
}

gy_status gy_query_position(const gy_query_planner *planner, const gy_sql_node *node,
                            uint32_t count, uint32_t *position)
{
    char *end = NULL;
    const long long number = strtoll(node->text, &end, 10);
    if (*end != '\0' || number < 1 || number > (long long)count) {
        return gy_sql_refuse(planner->source, node->place, GY_FORMAT,
                             "position %s is not in the select list, which has %u columns",
                             node->text, count);
    }
    *position = (uint32_t)number - 1;
    return GY_OK;
}

/* 'x', true and null would be the same for all rows: who writes them means a column. */
static gy_status refuse_constant(const query *of, const gy_sql_node *node, const char *clause)
{
    return node->kind == GY_SQL_TEXT || node->kind == GY_SQL_BOOLEAN ||
                   node->kind == GY_SQL_NULL
               ? gy_sql_refuse(of->planner->source, node->place, GY_FORMAT,
                               "non-integer constant in %s", clause)
               : GY_OK;
}

/* A group is an expression over the input; or a number or a name of the select list. */
static gy_status group_text(const query *of, const gy_sql_node *node, const gy_sql_node **text)
{
    const gy_sql_select *select = of->select;
    *text = node;
    GY_TRY(refuse_constant(of, node, "GROUP BY"));
    if (node->kind == GY_SQL_NUMBER) {
        uint32_t position = 0;
        GY_TRY(gy_query_position(of->planner, node, select->target_count, &position));
        *text = select->targets[position].value;
        return GY_OK;
    }
    if (node->kind != GY_SQL_COLUMN || node->table != NULL) {
        return GY_OK;
    }
    for (uint32_t i = 0; i < of->scope.count; i++) {
        if (!of->scope.names[i].is_merged &&
            gy_query_matches(node->text, node->is_quoted, of->scope.names[i].name) > 0) {
            return GY_OK;
        }
    }
    for (uint32_t i = 0; i < select->target_count; i++) {
        const char *name = select->targets[i].name.text;
        if (name != NULL && gy_query_matches(node->text, node->is_quoted, name) > 0) {
            *text = select->targets[i].value;
        }
    }
    return GY_OK;
}

static gy_status group(query *of)
{
    const gy_sql_select *select = of->select;
    gy_query_resolver *in = &of->in;
    in->clause = "GROUP BY";
    of->grouping.group_texts =
        gy_query_alloc(of->planner, select->group_count, sizeof(*of->grouping.group_texts));
    if (of->grouping.group_texts == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < select->group_count; i++) {
        const gy_sql_node *text = NULL;
        gy_sql_node *value = NULL;
        uint32_t column = GY_QUERY_NONE;
        GY_TRY(group_text(of, select->groups[i], &text));
        of->grouping.group_texts[i] = text;
        GY_TRY(gy_query_resolve(in, text, &value));
        GY_TRY(gy_query_compute(of->planner, NULL, value, &of->node, &column));
        GY_TRY(gy_query_list_add(of->planner, &of->grouping.groups, value));
        GY_TRY(gy_query_numbers_add(of->planner, &of->grouping.grouped, column));
    }
    of->grouping.input = of->node;
    in->grouping = &of->grouping;
    for (uint32_t i = 0; i < select->target_count; i++) {
        GY_TRY(gy_query_collect(in, select->targets[i].value));
    }
    for (uint32_t i = 0; i < select->order_count; i++) {
        GY_TRY(gy_query_collect(in, select->order[i].value));
    }
    if (select->having != NULL) {
        GY_TRY(gy_query_collect(in, select->having));
    }
    return gy_query_group(of->planner, &of->grouping, &of->node);
}

/* ---- Targets ---- */

static const char *name_of(const gy_sql_node *node);

/* The name of the column that a sub-query gives. */
static const char *name_of_query(const gy_sql_select *select)
{
    while (select->set != GY_SQL_NO_SET) {
        select = select->left;
    }
    if (select->target_count != 1) {
        return select->row_count > 0 ? "column1" : "?column?";
    }
    const gy_sql_target *target = &select->targets[0];
    return target->name.text != NULL ? target->name.text : name_of(target->value);
}

/* The name that an expression has of its own; NULL: none, casts and case have another. */
static const char *own_name(const gy_sql_node *node)
{
    static const char *const of_kinds[GY_SQL_KINDS] = {[GY_SQL_COALESCE] = "coalesce",
                                                       [GY_SQL_EXISTS] = "exists",
                                                       [GY_SQL_NULLIF] = "nullif",
                                                       [GY_SQL_GREATEST] = "greatest",
                                                       [GY_SQL_LEAST] = "least"};
    if (node->kind == GY_SQL_COLUMN || node->kind == GY_SQL_CALL) {
        return node->text;
    }
    if (node->kind == GY_SQL_CAST || (node->kind == GY_SQL_CASE && node->count % 2 == 1)) {
        return own_name(node->items[node->count - 1]); /* of case that of its else */
    }
    return node->kind == GY_SQL_SCALAR ? name_of_query(node->select) : of_kinds[node->kind];
}

static const char *name_of(const gy_sql_node *node)
{
    const char *own = own_name(node);
    return own != NULL                 ? own
           : node->kind == GY_SQL_CAST ? node->text
           : node->kind == GY_SQL_CASE ? "case"
                                       : "?column?";
}

static gy_status add_target(query *of, gy_sql_node *value, gy_sql_name name)
{
    if (of->values.count == of->name_capacity) {
        const uint32_t capacity = 2 * of->name_capacity + 16;
        gy_sql_name *names = gy_query_alloc(of->planner, capacity, sizeof(*names));
        if (names == NULL) {
            return GY_NOMEM;
        }
        if (of->values.count > 0) {
            memcpy(names, of->names, of->values.count * sizeof(*names));
        }
        of->names = names;
        of->name_capacity = capacity;
    }
    if (of->in.grouping != NULL) {
        GY_TRY(gy_query_regroup(&of->in, &value));
    }
    of->names[of->values.count] = name;
    return gy_query_list_add(of->planner, &of->values, value);
}

static gy_status add_star(query *of, const gy_sql_node *star)
{
    const uint32_t before = of->values.count;
    for (uint32_t i = 0; i < of->scope.count; i++) {
        const gy_query_name *name = &of->scope.names[i];
        const bool is_meant =
            star->table == NULL
                ? !name->is_merged
                : name->table != NULL && gy_query_matches(star->table, false, name->table) > 0;
        if (is_meant) {
            gy_sql_node *column = gy_query_make_column(of->planner, name->column, star->place);
            if (column == NULL) {
                return GY_NOMEM;
            }
            GY_TRY(
                add_target(of, column, (gy_sql_name){.text = name->name, .is_quoted = true}));
        }
    }
    if (of->values.count == before) {
        return star->table != NULL
                   ? gy_sql_refuse(of->planner->source, star->place, GY_NOTFOUND,
                                   "there is no table \"%s\" here", star->table)
                   : gy_sql_refuse(of->planner->source, star->place, GY_FORMAT,
                                   of->select->from != NULL
                                       ? "* of a table without columns: its file is empty"
                                       : "* without a table");
    }
    return GY_OK;
}

static gy_status targets(query *of)
{
    of->in.clause = "the select list";
    for (uint32_t i = 0; i < of->select->target_count; i++) {
        const gy_sql_target *target = &of->select->targets[i];
        if (target->value->kind == GY_SQL_STAR) {
            GY_TRY(add_star(of, target->value));
            continue;
        }
        gy_sql_node *value = NULL;
        const gy_sql_name name = target->name.text != NULL
                                     ? target->name
                                     : (gy_sql_name){.text = name_of(target->value)};
        GY_TRY(gy_query_resolve(&of->in, target->value, &value));
        GY_TRY(add_target(of, value, name));
    }
    return GY_OK;
}

/* ---- Order ---- */

/* The place of the select list that a key means by its number or name; GY_QUERY_NONE: none. */
static gy_status order_target(const query *of, const gy_sql_node *node, uint32_t *target)
{
    const uint32_t count = of->values.count;
    *target = GY_QUERY_NONE;
    GY_TRY(refuse_constant(of, node, "ORDER BY"));
    if (node->kind == GY_SQL_NUMBER) {
        return gy_query_position(of->planner, node, count, target);
    }
    for (uint32_t i = 0, best = 0;
         node->kind == GY_SQL_COLUMN && node->table == NULL && i < count; i++) {
        const int one = gy_query_matches(node->text, node->is_quoted, of->names[i].text);
        if (one > 0 && (uint32_t)one == best &&
            !gy_query_is_same(of->values.items[*target], of->values.items[i])) {
            return gy_sql_refuse(of->planner->source, node->place, GY_ARG,
                                 "ORDER BY \"%s\" is ambiguous: two columns of the select list "
                                 "have this name",
                                 node->text);
        }
        if (one > 0 && (uint32_t)one > best) {
            best = (uint32_t)one;
            *target = i;
        }
    }
    return GY_OK;
}

/* The column of a key; of an expression one more column behind those of the targets. */
static gy_status order_column(query *of, const gy_sql_node *node, gy_query_numbers *columns,
                              uint32_t *column)
{
    uint32_t target = GY_QUERY_NONE;
    GY_TRY(order_target(of, node, &target));
    if (target == GY_QUERY_NONE) {
        gy_sql_node *value = NULL;
        of->in.clause = "ORDER BY";
        GY_TRY(gy_query_resolve(&of->in, node, &value));
        if (of->in.grouping != NULL) {
            GY_TRY(gy_query_regroup(&of->in, &value));
        }
        for (uint32_t i = 0; i < of->values.count && target == GY_QUERY_NONE; i++) {
            target = gy_query_is_same(of->values.items[i], value) ? i : target;
        }
        if (target == GY_QUERY_NONE && of->select->is_distinct) {
            return gy_sql_refuse(of->planner->source, node->place, GY_FORMAT,
                                 "for SELECT DISTINCT, ORDER BY expressions must appear in "
                                 "the select list");
        }
        if (target == GY_QUERY_NONE) {
            GY_TRY(gy_query_compute(of->planner, NULL, value, &of->node, column));
            return gy_query_numbers_join(of->planner, columns, column, 1);
        }
    }
    GY_ASSERT(target < columns->count);
    *column = columns->items[target];
    return GY_OK;
}

static gy_status order(query *of, gy_query_numbers *columns, gy_query_key **keys)
{
    const gy_sql_select *select = of->select;
    gy_query_key *made = gy_query_alloc(of->planner, select->order_count, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < select->order_count; i++) {
        const gy_sql_order *by = &select->order[i];
        GY_TRY(order_column(of, by->value, columns, &made[i].column));
        made[i].is_descending = by->is_descending;
        made[i].has_nulls_first = by->nulls == GY_SQL_NULLS_FIRST ||
                                  (by->nulls == GY_SQL_NULLS_USUAL && by->is_descending);
    }
    *keys = made;
    return GY_OK;
}

/* ---- All of it ---- */

/* Without FROM there is one row; it has a column that no name means, as rows of none are not
 * joined. */
static gy_status one_row(query *of)
{
    const gy_expr_type type = {.kind = GY_FIELD_INT64};
    of->node = gy_query_node_new(of->planner, GY_QUERY_VALUES, NULL, NULL, 1);
    gy_sql_node **values = gy_query_alloc(of->planner, 1, sizeof(*values));
    if (of->node == NULL || values == NULL) {
        return GY_NOMEM;
    }
    values[0] = gy_query_make_number(of->planner, "0", of->select->place);
    of->node->values = values;
    of->node->row_count = 1;
    return values[0] != NULL
               ? gy_query_column_add(of->planner, "", &type, &of->node->columns[0])
               : GY_NOMEM;
}

static gy_status begin(query *of, const gy_query_scope *outer, const gy_query_views *views)
{
    const gy_sql_select *select = of->select;
    of->scope.outer = outer;
    of->in = (gy_query_resolver){.planner = of->planner,
                                 .scope = &of->scope,
                                 .views = views,
                                 .input = &of->node,
                                 .clause = "FROM"};
    if (select->from != NULL) {
        GY_TRY(gy_query_from(&of->in, select->from, &of->scope, &of->node));
    } else {
        GY_TRY(one_row(of));
    }
    if (select->where != NULL) {
        of->in.clause = "WHERE";
        GY_TRY(gy_query_where(&of->in, select->where));
    }
    if (has_aggregates(of->in.planner, select)) {
        GY_TRY(group(of));
    }
    if (select->having != NULL) {
        of->in.clause = "HAVING";
        GY_TRY(gy_query_where(&of->in, select->having));
    }
    return targets(of);
}

static gy_status plain(gy_query_planner *planner, const gy_sql_select *select,
                       const gy_query_scope *outer, const gy_query_views *views,
                       gy_query_answer *answer)
{
    query of = {.planner = planner, .select = select};
    gy_query_numbers columns = {.items = NULL};
    gy_query_key *keys = NULL;
    GY_TRY(begin(&of, outer, views));
    const uint32_t count = of.values.count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t column = GY_QUERY_NONE;
        const char *name = of.names[i].text;
        GY_TRY(gy_query_compute(planner, name, of.values.items[i], &of.node, &column));
        GY_TRY(gy_query_numbers_add(planner, &columns, column));
    }
    GY_TRY(order(&of, &columns, &keys));
    if (select->is_distinct) {
        GY_TRY(gy_query_distinct(planner, columns.items, count, &of.node));
    }
    const gy_query_ending ending = {
        .select = select, .keys = keys, .columns = columns.items, .count = count};
    GY_TRY(gy_query_end(planner, &ending, &of.node));
    GY_TRY(gy_query_keep(planner, columns.items, count, &of.node));
    *answer = (gy_query_answer){.node = of.node, .names = of.names};
    return GY_OK;
}

/* What WITH names is seen by what stands behind it. */
static gy_status with(const gy_query_planner *planner, const gy_sql_select *select,
                      const gy_query_views **views, const gy_query_views **out)
{
    const uint32_t count = select->with_count;
    gy_query_views *made = gy_query_alloc(planner, count, sizeof(*made));
    bool *used = gy_query_alloc(planner, count, sizeof(*used));
    if (made == NULL || used == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(select->with[k].name.text, select->with[i].name.text) == 0) {
                return gy_sql_refuse(planner->source, select->with[i].place, GY_EXISTS,
                                     "WITH has the name \"%s\" twice",
                                     select->with[i].name.text);
            }
        }
        made[i] = (gy_query_views){
            .view = &select->with[i], .next = *views, .inside = *views, .is_used = &used[i]};
        *views = &made[i];
    }
    *out = made;
    return GY_OK;
}

/* What nobody uses is refused, too, where it is wrong. */
static gy_status check_unused(gy_query_planner *planner, const gy_query_views *with,
                              uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        gy_query_answer nothing = {.node = NULL};
        GY_ASSERT(with != NULL && with[i].is_used != NULL);
        if (!*with[i].is_used) {
            GY_TRY(gy_query_view(planner, &with[i], with[i].view->place, &nothing));
        }
    }
    return GY_OK;
}

static gy_status body(gy_query_planner *planner, const gy_sql_select *select,
                      const gy_query_scope *outer, const gy_query_views *views,
                      gy_query_answer *answer)
{
    if (select->set != GY_SQL_NO_SET) {
        return gy_query_set(planner, select, outer, views, answer);
    }
    return select->row_count > 0 ? gy_query_values(planner, select, outer, views, answer)
                                 : plain(planner, select, outer, views, answer);
}

gy_status gy_query_select(gy_query_planner *planner, const gy_sql_select *select,
                          const gy_query_scope *outer, const gy_query_views *views,
                          gy_query_answer *answer)
{
    const gy_query_views *made = NULL;
    GY_TRY(with(planner, select, &views, &made));
    GY_TRY(body(planner, select, outer, views, answer));
    return check_unused(planner, made, select->with_count);
}
