/* Operators over one input: each is a selection of it. */
#include "query/api/api_priv.h"

/* ---- Selections ---- */

gy_sql_select *gy_rows_select_new(const gy_rows_call *call)
{
    gy_sql_select *select = gy_rows_alloc(call->session, 1, sizeof(*select));
    if (select != NULL) {
        *select = (gy_sql_select){.place = call->place};
    }
    return select;
}

gy_sql_from *gy_rows_from(const gy_rows_call *call, const gy_rows *rows, const char *alias)
{
    gy_sql_from *from = gy_rows_alloc(call->session, 1, sizeof(*from));
    if (from != NULL) {
        *from = (gy_sql_from){.kind = GY_SQL_DERIVED,
                              .place = call->place,
                              .alias = {.text = alias},
                              .select = rows->select};
    }
    return from;
}

gy_status gy_rows_star(const gy_rows_call *call, gy_sql_select *select)
{
    gy_sql_node *star = gy_rows_alloc(call->session, 1, sizeof(*star));
    gy_sql_target *target = gy_rows_alloc(call->session, 1, sizeof(*target));
    if (star == NULL || target == NULL) {
        return GY_NOMEM;
    }
    *star = (gy_sql_node){.kind = GY_SQL_STAR, .place = call->place};
    *target = (gy_sql_target){.value = star};
    select->targets = target;
    select->target_count = 1;
    return GY_OK;
}

/* A call over rows begins; *select reads them. */
static gy_status begin(const gy_rows *rows, const char *name, const char *text,
                       gy_rows_call *call, gy_sql_select **select)
{
    GY_TRY(gy_rows_begin(rows->session, name, text, call));
    *select = gy_rows_select_new(call);
    gy_sql_from *from = gy_rows_from(call, rows, NULL);
    if (*select == NULL || from == NULL) {
        return GY_NOMEM;
    }
    (*select)->from = from;
    return gy_rows_star(call, *select);
}

gy_rows *gy_rows_where(gy_rows *rows, const char *condition)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_status status = begin(rows, "gy_rows_where", condition, &call, &select);
    status = status == GY_OK ? gy_rows_read_condition(&call, &select->where) : status;
    return gy_rows_end(&call, status, select, rows, NULL);
}

gy_rows *gy_rows_select(gy_rows *rows, const char *columns)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_status status = begin(rows, "gy_rows_select", columns, &call, &select);
    status = status == GY_OK ? gy_rows_read_targets(&call, select) : status;
    return gy_rows_end(&call, status, select, rows, NULL);
}

gy_rows *gy_rows_group(gy_rows *rows, const char *keys, const char *columns)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_status status = begin(rows, "gy_rows_group", keys, &call, &select);
    if (status == GY_OK && keys != NULL) {
        status = gy_rows_read_groups(&call, select);
    }
    status = status == GY_OK ? gy_rows_text(&call, columns) : status;
    status = status == GY_OK ? gy_rows_read_targets(&call, select) : status;
    return gy_rows_end(&call, status, select, rows, NULL);
}

gy_rows *gy_rows_distinct(gy_rows *rows)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    const gy_status status = begin(rows, "gy_rows_distinct", NULL, &call, &select);
    if (status == GY_OK) {
        select->is_distinct = true;
    }
    return gy_rows_end(&call, status, select, rows, NULL);
}

/* ---- Functions of rows ---- */

/* An argument of the call: a text, as `name`; NULL is none. */
static gy_status add_text(gy_rows_call *call, gy_sql_from *from, const char *name,
                          const char *text)
{
    if (text == NULL) {
        return GY_OK;
    }
    gy_sql_node *made = gy_rows_alloc(call->session, 1, sizeof(*made));
    const char *copy = gy_rows_copy(call->session, text);
    GY_TRY(gy_rows_text(call, text));
    if (made == NULL || copy == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_sql_node){.kind = GY_SQL_TEXT, .place = call->source.base, .text = copy};
    from->names[from->call->count] = name;
    from->call->items[from->call->count++] = made;
    return GY_OK;
}

/* function((rows), …) in place of the rows. */
static gy_status call_function(gy_rows_call *call, const gy_rows *rows, const char *function,
                               gy_sql_from *from)
{
    enum { ARGUMENTS = 3 };
    gy_sql_node *made = gy_rows_alloc(call->session, 2, sizeof(*made));
    gy_sql_node **items = gy_rows_alloc(call->session, ARGUMENTS, sizeof(gy_sql_node *));
    const char **names = gy_rows_alloc(call->session, ARGUMENTS, sizeof(*names));
    const char *copy = gy_rows_copy(call->session, function != NULL ? function : "");
    if (made == NULL || items == NULL || names == NULL || copy == NULL) {
        return GY_NOMEM;
    }
    made[0] = (gy_sql_node){
        .kind = GY_SQL_CALL, .place = call->place, .text = copy, .items = items, .count = 1};
    made[1] = (gy_sql_node){
        .kind = GY_SQL_SCALAR, .place = call->place, .text = "", .select = rows->select};
    items[0] = &made[1];
    *from = (gy_sql_from){
        .kind = GY_SQL_FUNCTION, .place = call->place, .call = made, .names = names};
    return GY_OK;
}

gy_rows *gy_rows_apply(gy_rows *rows, const char *function, const char *partition_by,
                       const char *order_by)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_status status = begin(rows, "gy_rows_apply", function, &call, &select);
    status = status == GY_OK ? call_function(&call, rows, function, select->from) : status;
    status =
        status == GY_OK ? add_text(&call, select->from, "partition_by", partition_by) : status;
    status = status == GY_OK ? add_text(&call, select->from, "order_by", order_by) : status;
    return gy_rows_end(&call, status, select, rows, NULL);
}

/* ---- Order and limits ---- */

static gy_rows *order_by(gy_rows *rows, const char *name, const char *keys)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_status status = begin(rows, name, keys, &call, &select);
    status = status == GY_OK ? gy_rows_read_order(&call, select) : status;
    gy_rows *made = gy_rows_end(&call, status, select, rows, NULL);
    made->has_end = made->failure == NULL;
    return made;
}

gy_rows *gy_rows_order_by(gy_rows *rows, const char *keys)
{
    return order_by(rows, "gy_rows_order_by", keys);
}

static gy_status add_count(const gy_rows_call *call, int64_t count, gy_sql_node **node)
{
    char digits[24];
    gy_sql_node *made = gy_rows_alloc(call->session, 1, sizeof(*made));
    gy_print(digits, sizeof(digits), "%lld", (long long)count);
    const char *text = gy_rows_copy(call->session, digits);
    if (made == NULL || text == NULL) {
        return GY_NOMEM;
    }
    *made = (gy_sql_node){.kind = GY_SQL_NUMBER, .place = call->place, .text = text};
    *node = made;
    return GY_OK;
}

/* The rows [offset, offset + limit) of rows [before->offset, + before->limit); -1: all. */
static gy_rows *cut(gy_rows_call *call, gy_rows *before, int64_t limit, int64_t offset)
{
    gy_sql_select *select = gy_rows_select_new(call);
    gy_status status = select != NULL ? GY_OK : GY_NOMEM;
    if (status == GY_OK && before->has_end) { /* its order is this one's */
        *select = *before->select;
    } else if (status == GY_OK) {
        select->from = gy_rows_from(call, before, NULL);
        status = select->from != NULL ? gy_rows_star(call, select) : GY_NOMEM;
    }
    if (before->limit >= 0) {
        const int64_t left = before->limit > offset ? before->limit - offset : 0;
        limit = limit < 0 || left < limit ? left : limit;
    }
    offset = offset > INT64_MAX - before->offset ? INT64_MAX : before->offset + offset;
    if (status == GY_OK && limit >= 0) {
        status = add_count(call, limit, &select->limit);
    }
    status = status == GY_OK ? add_count(call, offset, &select->offset) : status;
    gy_rows *made = gy_rows_end(call, status, select, before, NULL);
    if (made->failure == NULL) {
        made->has_end = true;
        made->limit = limit;
        made->offset = offset;
    }
    return made;
}

static gy_rows *limit_of(gy_rows *rows, const char *name, int64_t limit, int64_t offset,
                         bool is_all)
{
    gy_rows_call call;
    if (rows->failure != NULL) {
        return gy_rows_fail(rows);
    }
    gy_status status = gy_rows_begin(rows->session, name, NULL, &call);
    if (status == GY_OK && (limit < 0 || offset < 0)) {
        status = gy_rows_refuse(&call, GY_ARG, "%lld rows: expected 0 or more",
                                (long long)(limit < 0 ? limit : offset));
    }
    return status == GY_OK ? cut(&call, rows, is_all ? -1 : limit, offset)
                           : gy_rows_end(&call, status, NULL, NULL, NULL);
}

gy_rows *gy_rows_limit(gy_rows *rows, int64_t limit, int64_t offset)
{
    return limit_of(rows, "gy_rows_limit", limit, offset, false);
}

gy_rows *gy_rows_take(gy_rows *rows, int64_t limit)
{
    return limit_of(rows, "gy_rows_take", limit, 0, false);
}

gy_rows *gy_rows_skip(gy_rows *rows, int64_t offset)
{
    return limit_of(rows, "gy_rows_skip", 0, offset, true);
}

gy_rows *gy_rows_top(gy_rows *rows, const char *keys, int64_t limit)
{
    return limit_of(order_by(rows, "gy_rows_top", keys), "gy_rows_top", limit, 0, false);
}
