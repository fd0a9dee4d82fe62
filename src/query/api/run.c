/* Answers: rows are planned and run as a query. */
#include "query/api/api_priv.h"

#include <string.h>

/* The failure of a call, as this thread's last. */
static gy_status raise(const gy_sql_report *failure)
{
    const char *end = strchr(failure->text, '\n');
    return gy_fail(failure->status, "%.*s",
                   end != NULL ? (int)(end - failure->text) : (int)strlen(failure->text),
                   failure->text);
}

gy_status gy_rows_ask(gy_rows *rows, gy_sql_select *select, bool is_planning,
                      gy_schema **schema, gy_frame_source *source)
{
    const gy_rows_session *session = rows->session;
    const gy_sql_source texts = {.path = "gy_rows_run", .parts = session->parts};
    const gy_query_tree tree = {.source = &texts, .select = select, .engine = session->engine};
    gy_query_options how = session->how;
    gy_query_free(rows->query);
    rows->query = NULL;
    how.is_planning = is_planning;
    if (how.memory_bytes > 0) { /* what caches have is not there */
        how.memory_bytes -= session->cached_bytes;
    }
    GY_TRY(gy_query_of_tree(&how, &tree, &rows->query));
    const gy_status status = gy_query_next(rows->query, schema, source);
    GY_ASSERT(status != GY_DONE);
    gy_text_add(&rows->note, "%s", gy_query_note(rows->query));
    return status;
}

static gy_status ask(gy_rows *rows, gy_sql_select *select, bool is_planning, gy_schema **schema,
                     gy_frame_source *source)
{
    gy_schema_drop(rows->schema);
    rows->schema = NULL;
    rows->has_run = false;
    gy_text_free(&rows->note);
    rows->note = (gy_text){.data = NULL};
    GY_TRY(gy_rows_fill_caches(rows, is_planning));
    GY_TRY(gy_rows_ask(rows, select, is_planning, schema, source));
    rows->has_run = !is_planning;
    return GY_OK;
}

gy_status gy_rows_run_tree(gy_rows *rows, gy_sql_select *select, gy_schema **schema,
                           gy_frame_source *source)
{
    return rows->failure != NULL ? raise(rows->failure)
                                 : ask(rows, select, false, schema, source);
}

gy_status gy_rows_run(gy_rows *rows, gy_schema **schema, gy_frame_source *source)
{
    GY_TRY(gy_rows_run_tree(rows, rows->select, schema, source));
    rows->schema = gy_schema_hold(*schema);
    return GY_OK;
}

gy_status gy_rows_schema(gy_rows *rows, gy_schema **schema)
{
    gy_frame_source nothing = {.next = NULL};
    if (rows->schema != NULL) {
        *schema = gy_schema_hold(rows->schema);
        return GY_OK;
    }
    GY_TRY(rows->failure != NULL ? raise(rows->failure)
                                 : ask(rows, rows->select, true, schema, &nothing));
    rows->schema = gy_schema_hold(*schema);
    nothing.close(nothing.arg);
    return GY_OK;
}

/* ---- What is told ---- */

char *gy_rows_explain(gy_rows *rows)
{
    gy_schema *schema = NULL;
    if (gy_rows_schema(rows, &schema) != GY_OK) {
        return NULL;
    }
    gy_schema_drop(schema);
    return gy_query_explain(rows->query);
}

char *gy_rows_statistics(const gy_rows *rows)
{
    return rows->has_run ? gy_query_statistics(rows->query) : NULL;
}

const char *gy_rows_report(const gy_rows *rows)
{
    return rows->failure != NULL ? rows->failure->text : gy_query_report(rows->query);
}

const char *gy_rows_note(const gy_rows *rows)
{
    return gy_text_get(&rows->note);
}
