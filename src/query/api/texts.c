/* Texts of calls: each is read as what it is in a statement, and nothing else. */
#include "query/api/api_priv.h"

#include <string.h>
#include <strings.h>

/* Parts of a selection. */
enum { TARGETS = 1, FROM = 2, GROUPS = 4, ORDER = 8 };

/* Whether the text added these parts to `select 1`, and no others. */
static bool has_only(const gy_sql_select *select, unsigned parts)
{
    const bool is_plain = select->set == GY_SQL_NO_SET && select->with_count == 0 &&
                          select->row_count == 0 && !select->is_distinct &&
                          select->where == NULL && select->having == NULL &&
                          select->limit == NULL && select->offset == NULL;
    return is_plain && ((parts & FROM) != 0 || select->from == NULL) &&
           ((parts & GROUPS) != 0) == (select->group_count > 0) &&
           ((parts & ORDER) != 0) == (select->order_count > 0) &&
           ((parts & TARGETS) != 0 ? select->target_count > 0 : select->target_count == 1);
}

/* Keep the script as long as the session. */
static gy_sql_script *script_new(gy_rows_session *session)
{
    gy_rows_script *made = gy_rows_alloc(session, 1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    *made = (gy_rows_script){.older = session->scripts};
    session->scripts = made;
    return &made->script;
}

/* The selection that is `before` and the text; `what` is expected of it. */
static gy_status read_part(gy_rows_call *call, const char *before, unsigned parts,
                           const char *what, const gy_sql_select **select)
{
    gy_sql_script *script = script_new(call->session);
    if (script == NULL) {
        return GY_NOMEM;
    }
    if (call->source.size == 0) {
        return gy_rows_refuse(call, GY_ARG, "no text: expected %s", what);
    }
    gy_sql_source source = call->source;
    source.parts = NULL; /* the text has its places itself */
    GY_TRY(gy_sql_read_behind(&source, before, script));
    const gy_sql_select *read = script->count == 1 ? script->statements[0].select : NULL;
    if (read == NULL || !has_only(read, parts)) {
        return gy_rows_refuse(call, GY_FORMAT, "expected %s, and nothing else", what);
    }
    *select = read;
    return GY_OK;
}

gy_status gy_rows_read_statement(gy_rows_call *call, gy_sql_select **select)
{
    gy_sql_script *script = script_new(call->session);
    if (script == NULL) {
        return GY_NOMEM;
    }
    gy_sql_source source = call->source;
    source.parts = NULL; /* as above */
    GY_TRY(gy_sql_read_behind(&source, "", script));
    if (script->count != 1 || script->statements[0].what != GY_SQL_ASK) {
        return gy_rows_refuse(call, GY_FORMAT, "expected one statement with an answer");
    }
    *select = script->statements[0].select;
    return GY_OK;
}

gy_status gy_rows_read_condition(gy_rows_call *call, gy_sql_node **condition)
{
    const gy_sql_select *read = NULL;
    GY_TRY(read_part(call, "select ", TARGETS, "a condition", &read));
    GY_ASSERT(read != NULL);
    if (read->target_count != 1 || read->targets[0].name.text != NULL) {
        return gy_rows_refuse(call, GY_FORMAT, "expected one condition");
    }
    *condition = read->targets[0].value;
    return GY_OK;
}

bool gy_rows_is_using(const gy_rows_call *call)
{
    static const char word[] = "using";
    const char *text = call->source.text + strspn(call->source.text, " \t\r\n");
    return strncasecmp(text, word, sizeof(word) - 1) == 0 &&
           strchr(" \t\r\n(", text[sizeof(word) - 1]) != NULL;
}

gy_status gy_rows_read_using(gy_rows_call *call, gy_sql_from *join)
{
    const gy_sql_select *read = NULL;
    const char *what = "using (columns)";
    GY_TRY(read_part(call, "select 1 from l join r ", FROM, what, &read));
    GY_ASSERT(read != NULL && read->from != NULL);
    const gy_sql_from *from = read->from;
    if (from->kind != GY_SQL_JOIN || from->left->kind != GY_SQL_TABLE ||
        from->right->kind != GY_SQL_TABLE) {
        return gy_rows_refuse(call, GY_FORMAT, "expected %s, and nothing else", what);
    }
    join->using = from->using;
    join->using_count = from->using_count;
    return GY_OK;
}

gy_status gy_rows_read_targets(gy_rows_call *call, gy_sql_select *select)
{
    const gy_sql_select *read = NULL;
    GY_TRY(read_part(call, "select ", TARGETS, "a list of columns", &read));
    GY_ASSERT(read != NULL);
    select->targets = read->targets;
    select->target_count = read->target_count;
    return GY_OK;
}

gy_status gy_rows_read_groups(gy_rows_call *call, gy_sql_select *select)
{
    const gy_sql_select *read = NULL;
    GY_TRY(read_part(call, "select 1 group by ", GROUPS, "keys of groups", &read));
    GY_ASSERT(read != NULL);
    select->groups = read->groups;
    select->group_count = read->group_count;
    return GY_OK;
}

gy_status gy_rows_read_order(gy_rows_call *call, gy_sql_select *select)
{
    const gy_sql_select *read = NULL;
    GY_TRY(read_part(call, "select 1 order by ", ORDER, "keys of an order", &read));
    GY_ASSERT(read != NULL);
    select->order = read->order;
    select->order_count = read->order_count;
    return GY_OK;
}
