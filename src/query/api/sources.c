/* What rows come from: files, tables, statements, frames. */
#include "query/api/api_priv.h"

#include "base/options.h"

#include <string.h>

/* All rows of a source. */
static gy_rows *end_source(gy_rows_call *call, gy_status status, gy_sql_from *from)
{
    gy_sql_select *select = status == GY_OK ? gy_rows_select_new(call) : NULL;
    if (status == GY_OK) {
        status = select != NULL ? gy_rows_star(call, select) : GY_NOMEM;
    }
    if (status == GY_OK) {
        select->from = from;
    }
    return gy_rows_end(call, status, select, NULL, NULL);
}

static gy_sql_from *from_new(const gy_rows_call *call, gy_sql_from_kind kind)
{
    gy_sql_from *from = gy_rows_alloc(call->session, 1, sizeof(*from));
    if (from != NULL) {
        *from = (gy_sql_from){.kind = kind, .place = call->place};
    }
    return from;
}

/* ---- Files ---- */

enum { ARGUMENTS = 6 };

/* Add an argument of read_csv. */
static gy_status add_argument(const gy_rows_call *call, gy_sql_from *from, const char *name,
                              gy_sql_kind kind, const char *text)
{
    gy_sql_node *node = gy_rows_alloc(call->session, 1, sizeof(*node));
    char *copy = gy_rows_copy(call->session, text);
    if (node == NULL || copy == NULL) {
        return GY_NOMEM;
    }
    GY_ASSERT(from->call->count < ARGUMENTS);
    *node = (gy_sql_node){.kind = kind, .place = call->place, .text = copy};
    from->names[from->call->count] = name;
    from->call->items[from->call->count++] = node;
    return GY_OK;
}

static gy_status read_csv(const gy_rows_call *call, const char *pattern,
                          const gy_rows_read_options *options, gy_sql_from **out)
{
    gy_sql_from *from = from_new(call, GY_SQL_FUNCTION);
    gy_sql_node *function = gy_rows_alloc(call->session, 1, sizeof(*function));
    gy_sql_node **items = gy_rows_alloc(call->session, ARGUMENTS, sizeof(*items));
    const char **names = gy_rows_alloc(call->session, ARGUMENTS, sizeof(*names));
    if (from == NULL || function == NULL || items == NULL || names == NULL) {
        return GY_NOMEM;
    }
    *function = (gy_sql_node){
        .kind = GY_SQL_CALL, .place = call->place, .text = "read_csv", .items = items};
    from->call = function;
    from->names = names;
    GY_TRY(add_argument(call, from, NULL, GY_SQL_TEXT, pattern));
    if (options->delimiter != '\0') {
        const char delimiter[2] = {options->delimiter, '\0'};
        GY_TRY(add_argument(call, from, "delim", GY_SQL_TEXT, delimiter));
    }
    if (options->has_no_header) {
        GY_TRY(add_argument(call, from, "header", GY_SQL_BOOLEAN, "false"));
    }
    if (options->skip_lines != 0) {
        char lines[24];
        (void)gy_print(lines, sizeof(lines), "%lld", (long long)options->skip_lines);
        GY_TRY(add_argument(call, from, "skip", GY_SQL_NUMBER, lines));
    }
    if (options->null_text != NULL) {
        GY_TRY(add_argument(call, from, "nullstr", GY_SQL_TEXT, options->null_text));
    }
    *out = from;
    return options->columns != NULL
               ? add_argument(call, from, "columns", GY_SQL_TEXT, options->columns)
               : GY_OK;
}

gy_rows *gy_rows_read(gy_rows_session *session, const char *pattern,
                      const gy_rows_read_options *given)
{
    gy_rows_call call;
    gy_rows_read_options options;
    gy_sql_from *from = NULL;
    gy_status status = gy_rows_begin(session, "gy_rows_read", pattern, &call);
    status = status == GY_OK ? gy_options_take(gy_rows_read_options, &options, given) : status;
    if (status == GY_OK && (pattern == NULL || pattern[0] == '\0')) {
        status = gy_rows_refuse(&call, GY_ARG, "no text: expected a file's name");
    }
    status = status == GY_OK ? read_csv(&call, pattern, &options, &from) : status;
    return end_source(&call, status, from);
}

/* ---- Tables ---- */

gy_rows *gy_rows_table(gy_rows_session *session, const char *name)
{
    gy_rows_call call;
    gy_sql_from *from = NULL;
    gy_status status = gy_rows_begin(session, "gy_rows_table", name, &call);
    if (status == GY_OK && (name == NULL || name[0] == '\0')) {
        status = gy_rows_refuse(&call, GY_ARG, "no text: expected a table's name");
    } else if (status == GY_OK && session->how.tables == NULL) {
        status = gy_rows_refuse(&call, GY_NOTFOUND,
                                "there is no table \"%s\": the session has no folder of tables",
                                name);
    } else if (status == GY_OK && strpbrk(name, "/.*") != NULL) {
        status = gy_rows_refuse(&call, GY_ARG,
                                "\"%s\" is no table's name: gy_rows_read reads files", name);
    }
    if (status == GY_OK) {
        from = from_new(&call, GY_SQL_TABLE);
        status = from != NULL ? GY_OK : GY_NOMEM;
    }
    if (status == GY_OK) {
        from->name = (gy_sql_name){.text = call.source.text};
    }
    return end_source(&call, status, from);
}

/* ---- Statements ---- */

gy_rows *gy_rows_sql(gy_rows_session *session, const char *statement)
{
    gy_rows_call call;
    gy_sql_select *select = NULL;
    gy_status status = gy_rows_begin(session, "gy_rows_sql", statement, &call);
    status = status == GY_OK ? gy_rows_read_statement(&call, &select) : status;
    return gy_rows_end(&call, status, select, NULL, NULL);
}

/* ---- Frames ---- */

static bool is_of(const gy_frame *frame, const gy_schema *schema)
{
    const gy_schema *own = gy_frame_schema(frame);
    const int count = gy_schema_count(schema);
    bool is_same = gy_schema_count(own) == count;
    for (int i = 0; i < count && is_same; i++) {
        const gy_field *a = gy_schema_field(own, i), *b = gy_schema_field(schema, i);
        is_same = a->kind == b->kind && a->precision == b->precision && a->scale == b->scale;
    }
    return is_same;
}

static gy_status check_frames(gy_rows_call *call, const gy_schema *schema,
                              gy_frame *const *frames, size_t count)
{
    if (schema == NULL) {
        return gy_rows_refuse(call, GY_ARG, "no schema");
    }
    for (size_t i = 0; i < count; i++) {
        if (frames[i] == NULL) {
            return gy_rows_refuse(call, GY_ARG, "frame %zu is NULL", i);
        }
        if (!is_of(frames[i], schema)) {
            return gy_rows_refuse(call, GY_TYPE, "frame %zu has other columns than the schema",
                                  i);
        }
    }
    return GY_OK;
}

static gy_rows_table_of *table_new(gy_rows_session *session, gy_schema *schema,
                                   gy_frame *const *frames, size_t count)
{
    gy_rows_table_of *of = gy_rows_alloc(session, 1, sizeof(*of));
    gy_frame **copy = gy_rows_alloc(session, count, sizeof(gy_frame *));
    if (of == NULL || copy == NULL) {
        return NULL;
    }
    *of = (gy_rows_table_of){.table = {.name = "frames",
                                       .schema = gy_schema_hold(schema),
                                       .frames = copy,
                                       .frame_count = count},
                             .older = session->tables};
    for (size_t i = 0; i < count; i++) {
        copy[i] = gy_frame_hold(frames[i]);
        of->table.rows += (double)gy_frame_rows(frames[i]);
    }
    of->table.bytes = of->table.rows * 8 * gy_schema_count(schema);
    session->tables = of;
    return of;
}

gy_rows *gy_rows_frames(gy_rows_session *session, gy_schema *schema, gy_frame *const *frames,
                        size_t count)
{
    gy_rows_call call;
    gy_sql_from *from = NULL;
    gy_status status = gy_rows_begin(session, "gy_rows_frames", NULL, &call);
    status = status == GY_OK ? check_frames(&call, schema, frames, count) : status;
    if (status == GY_OK) {
        const gy_rows_table_of *of = table_new(session, schema, frames, count);
        from = from_new(&call, GY_SQL_TABLE);
        status = of != NULL && from != NULL ? GY_OK : GY_NOMEM;
        if (status == GY_OK) {
            from->name = (gy_sql_name){.text = of->table.name};
            from->given = &of->table;
        }
    }
    return end_source(&call, status, from);
}
