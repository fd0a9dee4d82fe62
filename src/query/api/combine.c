/* Operators over two inputs: joins and set operations. */
#include "query/api/api_priv.h"

/* A call over two inputs begins. GY_ARG: they are of two sessions. */
static gy_status begin(const gy_rows *left, const gy_rows *right, const char *name,
                       const char *text, gy_rows_call *call)
{
    GY_TRY(gy_rows_begin(left->session, name, text, call));
    if (left->session != right->session) {
        return gy_rows_refuse(call, GY_ARG, "rows of two sessions");
    }
    return GY_OK;
}

static gy_rows *failed(const gy_rows *left, const gy_rows *right)
{
    return left->failure != NULL    ? gy_rows_fail(left)
           : right->failure != NULL ? gy_rows_fail(right)
                                    : NULL;
}

/* ---- Joins ---- */

/* How the sides are named in texts. */
static const char left_name[] = "l", right_name[] = "r";

static const struct {
    gy_sql_join join;
    bool is_filter; /* semi and anti: a condition on the left rows */
} kinds[] = {
    [GY_JOIN_INNER] = {.join = GY_SQL_INNER}, [GY_JOIN_LEFT] = {.join = GY_SQL_LEFT},
    [GY_JOIN_RIGHT] = {.join = GY_SQL_RIGHT}, [GY_JOIN_FULL] = {.join = GY_SQL_FULL},
    [GY_JOIN_SEMI] = {.is_filter = true},     [GY_JOIN_ANTI] = {.is_filter = true},
};

/* A node of `count` items that are still to come. NULL: GY_NOMEM */
static gy_sql_node *node_new(const gy_rows_call *call, gy_sql_kind kind, uint32_t count)
{
    gy_sql_node *node = gy_rows_alloc(call->session, 1, sizeof(*node));
    gy_sql_node **items = gy_rows_alloc(call->session, count, sizeof(gy_sql_node *));
    if (node == NULL || items == NULL) {
        return NULL;
    }
    *node = (gy_sql_node){.kind = kind, .place = call->place, .items = items, .count = count};
    return node;
}

static gy_sql_node *column_of(const gy_rows_call *call, const char *table,
                              const gy_sql_name *name)
{
    gy_sql_node *node = node_new(call, GY_SQL_COLUMN, 0);
    if (node != NULL) {
        node->table = table;
        node->text = name->text;
        node->is_quoted = name->is_quoted;
    }
    return node;
}

/* What `using` means, as a condition. */
static gy_status equal_columns(const gy_rows_call *call, const gy_sql_from *join,
                               gy_sql_node **condition)
{
    gy_sql_node *all = node_new(call, GY_SQL_AND, join->using_count);
    if (all == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < join->using_count; i++) {
        gy_sql_node *equal = node_new(call, GY_SQL_OPERATION, 2);
        if (equal == NULL) {
            return GY_NOMEM;
        }
        equal->text = "=";
        equal->items[0] = column_of(call, left_name, &join->using[i]);
        equal->items[1] = column_of(call, right_name, &join->using[i]);
        if (equal->items[0] == NULL || equal->items[1] == NULL) {
            return GY_NOMEM;
        }
        all->items[i] = equal;
    }
    *condition = join->using_count == 1 ? all->items[0] : all;
    return GY_OK;
}

/* The condition of the text, or its columns. */
static gy_status read_on(gy_rows_call *call, gy_join_kind kind, const char *on,
                         gy_sql_from *join)
{
    if (on == NULL) {
        join->join = GY_SQL_CROSS;
        return kind == GY_JOIN_INNER
                   ? GY_OK
                   : gy_rows_refuse(call, GY_ARG,
                                    "no text: expected a condition, or using (columns)");
    }
    join->join = kinds[kind].join;
    return gy_rows_is_using(call) ? gy_rows_read_using(call, join)
                                  : gy_rows_read_condition(call, &join->on);
}

/* The left rows that have, or have not, a right one with a true condition. */
static gy_status filter_by(const gy_rows_call *call, gy_join_kind kind, gy_sql_from *join,
                           gy_sql_select *select)
{
    gy_sql_node *exists = node_new(call, GY_SQL_EXISTS, 0);
    gy_sql_node *negation = node_new(call, GY_SQL_NOT, 1);
    gy_sql_select *inner = gy_rows_select_new(call);
    if (exists == NULL || negation == NULL || inner == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_rows_star(call, inner));
    if (join->using_count > 0) {
        GY_TRY(equal_columns(call, join, &join->on));
    }
    inner->from = join->right;
    inner->where = join->on;
    exists->select = inner;
    negation->items[0] = exists;
    select->from = join->left;
    select->where = kind == GY_JOIN_ANTI ? negation : exists;
    return GY_OK;
}

static gy_status join_of(gy_rows_call *call, gy_join_kind kind, const char *on,
                         gy_sql_from *join, gy_sql_select *select)
{
    if ((unsigned)kind >= GY_COUNT(kinds)) {
        return gy_rows_refuse(call, GY_ARG, "a join of kind %d", (int)kind);
    }
    GY_TRY(read_on(call, kind, on, join));
    if (kinds[kind].is_filter) {
        return filter_by(call, kind, join, select);
    }
    select->from = join;
    return GY_OK;
}

gy_rows *gy_rows_join(gy_rows *left, gy_rows *right, gy_join_kind kind, const char *on,
                      const char *columns)
{
    gy_rows_call call;
    gy_rows *fail = failed(left, right);
    if (fail != NULL) {
        return fail;
    }
    gy_status status = begin(left, right, "gy_rows_join", on, &call);
    gy_sql_select *select = gy_rows_select_new(&call);
    gy_sql_from *join = gy_rows_alloc(call.session, 1, sizeof(*join));
    if (status == GY_OK && (select == NULL || join == NULL)) {
        status = GY_NOMEM;
    }
    if (status == GY_OK) {
        *join = (gy_sql_from){.kind = GY_SQL_JOIN,
                              .place = call.place,
                              .left = gy_rows_from(&call, left, left_name),
                              .right = gy_rows_from(&call, right, right_name)};
        status =
            join->left != NULL && join->right != NULL ? gy_rows_star(&call, select) : GY_NOMEM;
    }
    status = status == GY_OK ? join_of(&call, kind, on, join, select) : status;
    if (status == GY_OK && columns != NULL) {
        status = gy_rows_text(&call, columns);
        status = status == GY_OK ? gy_rows_read_targets(&call, select) : status;
    }
    return gy_rows_end(&call, status, select, left, right);
}

/* ---- Sets ---- */

/* All rows of a side, whose place is the call's. NULL: GY_NOMEM */
static gy_sql_select *side_of(const gy_rows_call *call, const gy_rows *rows)
{
    gy_sql_select *select = gy_rows_select_new(call);
    gy_sql_from *from = gy_rows_from(call, rows, NULL);
    if (select == NULL || from == NULL || gy_rows_star(call, select) != GY_OK) {
        return NULL;
    }
    select->from = from;
    return select;
}

static gy_rows *set_of(gy_rows *left, gy_rows *right, const char *name, gy_sql_set set,
                       bool is_all)
{
    gy_rows_call call;
    gy_rows *fail = failed(left, right);
    if (fail != NULL) {
        return fail;
    }
    gy_status status = begin(left, right, name, NULL, &call);
    gy_sql_select *select = gy_rows_select_new(&call);
    if (status == GY_OK && select != NULL) {
        select->set = set;
        select->is_all = is_all;
        select->left = side_of(&call, left);
        select->right = side_of(&call, right);
    }
    if (status == GY_OK && (select == NULL || select->left == NULL || select->right == NULL)) {
        status = GY_NOMEM;
    }
    return gy_rows_end(&call, status, select, left, right);
}

gy_rows *gy_rows_union(gy_rows *left, gy_rows *right)
{
    return set_of(left, right, "gy_rows_union", GY_SQL_UNION, false);
}

gy_rows *gy_rows_union_all(gy_rows *left, gy_rows *right)
{
    return set_of(left, right, "gy_rows_union_all", GY_SQL_UNION, true);
}

gy_rows *gy_rows_intersect(gy_rows *left, gy_rows *right)
{
    return set_of(left, right, "gy_rows_intersect", GY_SQL_INTERSECT, false);
}

gy_rows *gy_rows_intersect_all(gy_rows *left, gy_rows *right)
{
    return set_of(left, right, "gy_rows_intersect_all", GY_SQL_INTERSECT, true);
}

gy_rows *gy_rows_except(gy_rows *left, gy_rows *right)
{
    return set_of(left, right, "gy_rows_except", GY_SQL_EXCEPT, false);
}

gy_rows *gy_rows_except_all(gy_rows *left, gy_rows *right)
{
    return set_of(left, right, "gy_rows_except_all", GY_SQL_EXCEPT, true);
}
