/* Sessions: what rows are made in, and how a call begins and ends. */
#include "query/api/api_priv.h"

#include "base/options.h"
#include "base/setting.h"

#include <string.h>

/* Places are 32 bits wide. */
static const size_t texts_bytes_max = (size_t)1 << 30;

/* ---- Memory ---- */

void *gy_rows_alloc(gy_rows_session *session, size_t count, size_t size_bytes)
{
    void *made = gy_arena_alloc(&session->arena, (count > 0 ? count : 1) * size_bytes);
    if (made == NULL) {
        (void)gy_fail(GY_NOMEM, "no memory for the rows of a query");
    }
    return made;
}

static char *copy_bytes(gy_rows_session *session, const char *text, size_t size)
{
    char *copy = gy_rows_alloc(session, size + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, size);
        copy[size] = '\0';
    }
    return copy;
}

char *gy_rows_copy(gy_rows_session *session, const char *text)
{
    return copy_bytes(session, text, strlen(text));
}

/* ---- Making ---- */

static gy_status take_options(gy_rows_session *session, const gy_rows_session_options *options)
{
    const char *setting = gy_setting_get("TMPDIR");
    const char *scratch = options->scratch != NULL ? options->scratch
                          : setting != NULL        ? setting
                                                   : "/tmp";
    const char *tables =
        options->tables != NULL ? gy_rows_copy(session, options->tables) : NULL;
    scratch = gy_rows_copy(session, scratch);
    if (scratch == NULL || (options->tables != NULL && tables == NULL)) {
        return GY_NOMEM;
    }
    session->how = GY_OPTIONS(
        gy_query_options, .tables = tables, .scratch = scratch, .workers = options->workers,
        .memory_bytes = options->memory_bytes, .job = options->job, .flow = options->flow,
        .split_bytes = options->split_bytes, .functions = options->functions);
    return gy_query_check(&session->how);
}

/* Places of no text are in the first part. */
static gy_status begin_parts(gy_rows_session *session)
{
    gy_sql_part *first = gy_rows_alloc(session, 1, sizeof(*first));
    if (first == NULL) {
        return GY_NOMEM;
    }
    *first = (gy_sql_part){.name = "gy_rows_run", .text = ""};
    session->parts = first;
    return GY_OK;
}

gy_status gy_rows_session_new(const gy_rows_session_options *given, gy_rows_session **out)
{
    gy_rows_session_options options;
    GY_TRY(gy_options_take(gy_rows_session_options, &options, given));
    gy_rows_session *session = gy_alloc_zero("query.session", 1, sizeof(*session));
    if (session == NULL) {
        return GY_NOMEM;
    }
    gy_status status = take_options(session, &options);
    status = status == GY_OK ? begin_parts(session) : status;
    if (status == GY_OK) {
        const gy_engine_options workers =
            GY_OPTIONS(gy_engine_options, .workers = options.workers);
        status = gy_engine_new(&workers, &session->engine);
    }
    if (status != GY_OK) {
        gy_rows_session_free(session);
        return status;
    }
    session->lost_report = (gy_sql_report){
        .status = GY_NOMEM, .text = "gy_rows: there was no memory for the rows of a query\n"};
    session->lost = (gy_rows){.session = session, .failure = &session->lost_report};
    *out = session;
    return GY_OK;
}

void gy_rows_session_free(gy_rows_session *session)
{
    if (session == NULL) {
        return;
    }
    for (gy_rows *at = session->all; at != NULL; at = at->older) {
        gy_text_free(&at->note);
        gy_query_free(at->query);
        gy_schema_drop(at->schema);
    }
    for (gy_rows_script *at = session->scripts; at != NULL; at = at->older) {
        gy_sql_script_fini(&at->script);
    }
    for (gy_rows_table_of *at = session->tables; at != NULL; at = at->older) {
        gy_rows_table_drop(at);
    }
    gy_engine_free(session->engine);
    gy_arena_free(&session->arena);
    gy_free(session);
}

/* ---- Calls ---- */

gy_status gy_rows_text(gy_rows_call *call, const char *text)
{
    gy_rows_session *session = call->session;
    const gy_sql_part *last = session->parts;
    gy_sql_part *part = gy_rows_alloc(session, 1, sizeof(*part));
    const size_t size = text != NULL ? strlen(text) : 0;
    char *copy = NULL;
    if (part == NULL) {
        return GY_NOMEM;
    }
    *part = (gy_sql_part){.name = call->name,
                          .text = "",
                          .base = last->base + (uint32_t)last->size + 1,
                          .older = last};
    call->source = (gy_sql_source){.path = call->name,
                                   .text = "",
                                   .base = part->base,
                                   .parts = part,
                                   .report = &call->report};
    session->parts = part;
    if (part->base + size > texts_bytes_max) {
        return gy_rows_refuse(call, GY_LIMIT, "a session's texts of more than %zu bytes",
                              texts_bytes_max);
    }
    copy = copy_bytes(session, text != NULL ? text : "", size);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    part->text = copy;
    part->size = size;
    call->source.text = copy;
    call->source.size = size;
    return GY_OK;
}

gy_status gy_rows_begin(gy_rows_session *session, const char *name, const char *text,
                        gy_rows_call *call)
{
    *call = (gy_rows_call){.name = name, .session = session};
    GY_TRY(gy_rows_text(call, text));
    call->place = call->source.base;
    return GY_OK;
}

gy_status gy_rows_refuse(gy_rows_call *call, gy_status status, const char *format, ...)
{
    char message[GY_ERROR_TEXT_BYTES / 2];
    va_list args;
    va_start(args, format);
    gy_print_list(message, sizeof(message), format, args);
    va_end(args);
    return gy_sql_refuse(&call->source, call->source.base, status, "%s", message);
}

static gy_rows *rows_new(gy_rows_session *session)
{
    gy_rows *rows = gy_rows_alloc(session, 1, sizeof(*rows));
    if (rows == NULL) {
        return &session->lost;
    }
    *rows = (gy_rows){.session = session, .older = session->all, .limit = -1};
    session->all = rows;
    return rows;
}

/* Failures without a place are reported by their text alone. */
static const gy_sql_report *failure_of(const gy_rows_call *call, gy_status status)
{
    gy_sql_report *report = gy_rows_alloc(call->session, 1, sizeof(*report));
    if (report == NULL || status == GY_NOMEM) {
        return &call->session->lost_report;
    }
    *report = call->report;
    if (report->status == GY_OK) {
        report->status = status;
        gy_print(report->text, sizeof(report->text), "%s: %s\n", call->name, gy_error_text());
    }
    return report;
}

gy_rows *gy_rows_end(const gy_rows_call *call, gy_status status, gy_sql_select *select,
                     gy_rows *left, gy_rows *right)
{
    gy_rows_call end = *call;
    const uint64_t operators = (left != NULL ? (uint64_t)left->operators : 0) +
                               (right != NULL ? (uint64_t)right->operators : 0);
    if (status == GY_OK && operators >= GY_ROWS_OPERATORS_MAX) {
        status =
            gy_sql_refuse(&(gy_sql_source){.parts = end.source.parts, .report = &end.report},
                          end.place, GY_LIMIT,
                          "rows of more than %d operators (those that stand in several "
                          "calls count as often): run a part of them, and give its frames "
                          "to gy_rows_frames",
                          GY_ROWS_OPERATORS_MAX);
    }
    gy_rows *rows = rows_new(call->session);
    if (rows == &call->session->lost) {
        return rows;
    }
    if (status != GY_OK) {
        rows->failure = failure_of(&end, status);
        return rows;
    }
    rows->select = select;
    rows->inputs[0] = left;
    rows->inputs[1] = right;
    rows->operators = (uint32_t)operators + 1;
    return rows;
}

gy_rows *gy_rows_fail(const gy_rows *input)
{
    gy_rows *rows = rows_new(input->session);
    if (rows != &input->session->lost) {
        rows->failure = input->failure;
    }
    return rows;
}
