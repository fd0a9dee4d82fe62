/* Queries: <gyre/query.h>. */
#include "query/ask/ask.h"
#include "query/dag/dag.h"
#include "query/run/run.h"

#include "base/options.h"
#include "base/setting.h"
#include "base/thread.h"

#include <gyre/query.h>

#include <string.h>

/* Deep enough for a tree of GY_SQL_DEPTH_MAX levels; memory is taken as it is touched. */
enum { STACK_BYTES = 512 << 20 };

/* That editors put in front of UTF-8. */
#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

/* Frames of an answer below these are put together. */
enum { ROWS_FEW = 1024, BYTES_FEW = 64 << 20 };

/* Of jobs, unless options say another number. */
enum { SPLIT_BYTES = 16 << 20 };

/* A view that a statement made. */
typedef struct made_view made_view;
struct made_view {
    gy_query_views views; /* first */
    made_view *older;
};

struct gy_query {
    gy_query_options options;
    gy_text text;
    char *name, *tables_folder, *scratch;
    gy_sql_report report;
    gy_sql_source source;
    gy_sql_script script;
    gy_sql_statement asked; /* of a tree: the only one */
    uint32_t at;            /* the next statement */
    gy_engine *engine;
    bool has_engine_of_others;
    gy_query_tables tables;
    made_view *views;
    gy_query_plan plan; /* of the last answer */
    gy_query_run run;
    bool has_plan;
    gy_flow_options how; /* of jobs */
    gy_query_job *job;   /* of the last answer; NULL: it had none */
    int job_count;
    char note[1280];
};

/* ---- Making ---- */

static gy_status copy(const char *text, char **out)
{
    if (text != NULL) {
        *out = gy_copy_text("query.text", text);
        return *out != NULL ? GY_OK : GY_NOMEM;
    }
    return GY_OK;
}

static gy_status take_bytes(void *arg, const void *data, size_t size_bytes)
{
    gy_text *text = arg;
    if (text->size_bytes + size_bytes > GY_SQL_SOURCE_MAX) {
        return gy_fail(GY_LIMIT, "statements of more than %d bytes", GY_SQL_SOURCE_MAX);
    }
    gy_text_add_bytes(text, data, size_bytes);
    return text->status;
}

static gy_status take_statements(gy_query *query, const gy_query_options *options)
{
    if (options->path != NULL) {
        GY_TRY(gy_store_read(options->path, false, take_bytes, &query->text));
    } else {
        gy_text_add(&query->text, "%s", options->text);
        GY_TRY(query->text.status);
    }
    GY_TRY(copy(options->path != NULL ? options->path : "query", &query->name));
    const char *text = gy_text_get(&query->text);
    const size_t mark = strncmp(text, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    query->source = (gy_sql_source){.path = query->name,
                                    .text = text + mark,
                                    .size = query->text.size_bytes - mark,
                                    .report = &query->report};
    return GY_OK;
}

static gy_status take_tree(gy_query *query, const gy_query_tree *tree)
{
    GY_TRY(copy(tree->source->path, &query->name));
    query->source = *tree->source;
    query->source.path = query->name;
    query->source.report = &query->report;
    query->asked = (gy_sql_statement){.what = GY_SQL_ASK, .select = tree->select};
    query->script = (gy_sql_script){.statements = &query->asked, .count = 1};
    return GY_OK;
}

static gy_status take_texts(gy_query *query, const gy_query_options *options,
                            const gy_query_tree *tree)
{
    const char *scratch =
        options->scratch != NULL ? options->scratch : gy_setting_get("TMPDIR");
    GY_TRY(tree != NULL ? take_tree(query, tree) : take_statements(query, options));
    GY_TRY(copy(options->tables, &query->tables_folder));
    GY_TRY(copy(scratch != NULL ? scratch : "/tmp", &query->scratch));
    query->tables.folder = query->tables_folder;
    return GY_OK;
}

static gy_status check_job(gy_query_options *options)
{
    if (options->split_bytes == 0) {
        options->split_bytes = SPLIT_BYTES;
    }
    if (options->split_bytes < 64 || (options->split_bytes & (options->split_bytes - 1)) != 0) {
        return gy_fail(GY_ARG, "pieces of %zu bytes: expected a power of two from 64",
                       options->split_bytes);
    }
    return options->job == NULL || options->flow != NULL || options->is_planning
               ? GY_OK
               : gy_fail(GY_ARG, "a query as a job without the program's handle");
}

static bool is_builtin(const char *name)
{
    /* of the grammar, of FROM, and what plans have inside */
    static const char *const others[] = {"coalesce", "nullif", "greatest", "least",
                                         "trim",     "exists", "read_csv", "any"};
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        if (strcmp(name, others[i]) == 0) {
            return true;
        }
    }
    return gy_expr_is_builtin(name);
}

gy_status gy_query_check(gy_query_options *options)
{
    if (options->workers < 0) {
        return gy_fail(GY_ARG, "%d workers: expected 0 or more", options->workers);
    }
    GY_TRY(check_job(options));
    return gy_query_functions_check(&options->functions, is_builtin);
}

static gy_status take_engine(gy_query *query, gy_engine *engine)
{
    const gy_engine_options workers =
        GY_OPTIONS(gy_engine_options, .workers = query->options.workers);
    query->engine = engine;
    query->has_engine_of_others = engine != NULL;
    return engine != NULL ? GY_OK : gy_engine_new(&workers, &query->engine);
}

/* Everything but reading the statements. */
static gy_status make(const gy_query_options *options, const gy_query_tree *tree,
                      gy_query **out)
{
    gy_query *query = gy_alloc_zero("query", 1, sizeof(*query));
    if (query == NULL) {
        return GY_NOMEM;
    }
    query->options = *options;
    query->how = options->job != NULL ? *options->job : (gy_flow_options){.output = NULL};
    gy_status status = take_texts(query, options, tree);
    status = status == GY_OK ? take_engine(query, tree != NULL ? tree->engine : NULL) : status;
    if (status != GY_OK) {
        gy_query_free(query);
        return status;
    }
    *out = query;
    return GY_OK;
}

gy_status gy_query_new(const gy_query_options *given, gy_query **out)
{
    gy_query_options options;
    GY_TRY(gy_options_take(gy_query_options, &options, given));
    *out = NULL;
    if ((options.text == NULL) == (options.path == NULL)) {
        return gy_fail(GY_ARG, "a query with %s",
                       options.text == NULL ? "no text" : "both a text and a path");
    }
    GY_TRY(gy_query_check(&options));
    GY_TRY(make(&options, NULL, out));
    return gy_sql_read(&(*out)->source, &(*out)->script);
}

gy_status gy_query_of_tree(const gy_query_options *options, const gy_query_tree *tree,
                           gy_query **out)
{
    *out = NULL;
    return make(options, tree, out);
}

static void drop_plan(gy_query *query)
{
    gy_query_job_free(query->job);
    query->job = NULL;
    gy_query_run_fini(&query->run);
    if (query->has_plan) {
        gy_query_plan_fini(&query->plan);
        query->has_plan = false;
    }
}

void gy_query_free(gy_query *query)
{
    if (query == NULL) {
        return;
    }
    drop_plan(query);
    while (query->views != NULL) {
        made_view *older = query->views->older;
        gy_free(query->views);
        query->views = older;
    }
    gy_query_tables_fini(&query->tables);
    gy_sql_script_fini(&query->script);
    if (!query->has_engine_of_others) {
        gy_engine_free(query->engine);
    }
    gy_text_free(&query->text);
    gy_free(query->name);
    gy_free(query->tables_folder);
    gy_free(query->scratch);
    gy_free(query);
}

static gy_query_catalog catalog_of(gy_query *query)
{
    gy_query_catalog catalog = gy_query_catalog_of(&query->tables);
    catalog.functions = &query->options.functions;
    return catalog;
}

/* ---- Views ---- */

static gy_query_views *views_of(const gy_query *query)
{
    return query->views != NULL ? &query->views->views : NULL;
}

/* Of a view that was dropped the links of younger ones stay: it is passed over. */
static made_view **find_view(gy_query *query, const gy_sql_name *name)
{
    for (made_view **at = &query->views; *at != NULL; at = &(*at)->older) {
        const char *other = (*at)->views.view->name.text;
        if (strcmp(other, name->text) == 0) {
            return at;
        }
    }
    return NULL;
}

static void relink(gy_query *query)
{
    for (made_view *at = query->views; at != NULL; at = at->older) {
        at->views.next = at->older != NULL ? &at->older->views : NULL;
    }
}

/* A view is planned when it is made, so that what is wrong with it is said there. */
static gy_status create_view(gy_query *query, const gy_sql_statement *statement)
{
    const gy_query_catalog catalog = catalog_of(query);
    made_view **same = find_view(query, &statement->view.name);
    gy_query_plan plan;
    if (same != NULL && !statement->is_replacing) {
        return gy_sql_refuse(&query->source, statement->view.place, GY_EXISTS,
                             "there is a view \"%s\" already", statement->view.name.text);
    }
    GY_TRY(gy_query_plan_make(&query->source, statement->view.select, &catalog, views_of(query),
                              &plan));
    const uint32_t count = plan.root->count;
    gy_query_plan_fini(&plan);
    if (statement->view.column_count > count) {
        return gy_sql_refuse(&query->source, statement->view.place, GY_FORMAT,
                             "%u names for a view of %u columns", statement->view.column_count,
                             count);
    }
    if (same != NULL) { /* it stands where the old one was, so that others see it */
        (*same)->views.view = &statement->view;
        (*same)->views.inside = views_of(query);
        return GY_OK;
    }
    made_view *made = gy_alloc_zero("query.view", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (made_view){.views = {.view = &statement->view, .inside = views_of(query)},
                        .older = query->views};
    query->views = made;
    relink(query);
    return GY_OK;
}

static gy_status drop_view(gy_query *query, const gy_sql_statement *statement)
{
    made_view **at = find_view(query, &statement->view.name);
    if (at == NULL) {
        return statement->may_be_missing
                   ? GY_OK
                   : gy_sql_refuse(&query->source, statement->place, GY_NOTFOUND,
                                   "there is no view \"%s\"", statement->view.name.text);
    }
    made_view *gone = *at;
    *at = gone->older;
    for (made_view *of = query->views; of != NULL; of = of->older) {
        if (of->views.inside == &gone->views) {
            of->views.inside = gone->views.next;
        }
    }
    gy_free(gone);
    relink(query);
    return GY_OK;
}

/* ---- Answers ---- */

/* Frames of an answer, held; behind them those that memory does not hold. */
typedef struct held {
    gy_frame **frames;
    size_t count, capacity;
    uint64_t bytes;
    gy_rows_file *rest; /* NULL: none */
} held;

static void drop_held(held *of)
{
    for (size_t i = 0; i < of->count; i++) {
        gy_frame_drop(of->frames[i]);
    }
    gy_free(of->frames);
    gy_rows_file_free(of->rest);
    *of = (held){.frames = NULL};
}

/* Takes the frame. */
static gy_status hold_frame(const gy_query_run *run, gy_schema *schema, gy_frame *one, held *to)
{
    const gy_rows_limits limits = gy_query_run_share(run);
    gy_status status = GY_OK;
    to->bytes += gy_rows_bytes(one);
    if (limits.memory_bytes == 0 || to->bytes <= limits.memory_bytes) {
        status = GY_GROW("query.answer", to->frames, to->capacity, to->count + 1);
        if (status == GY_OK) {
            to->frames[to->count++] = one;
            return GY_OK;
        }
    } else if (to->rest == NULL) {
        status = gy_rows_file_new(schema, &limits, &to->rest);
    }
    status = status == GY_OK ? gy_rows_file_add(to->rest, one) : status;
    gy_frame_drop(one);
    return status;
}

static gy_status take_all(const gy_query_run *run, const gy_query_stream *stream, held *to)
{
    for (;;) {
        gy_frame *one = NULL;
        gy_status status = stream->source.next(stream->source.arg, &one);
        if (status != GY_OK) {
            return status == GY_DONE ? GY_OK : status;
        }
        GY_TRY(hold_frame(run, stream->schema, one, to));
    }
}

/* What is held as a source; nothing is then. */
static gy_status give_held(held *of, gy_schema *schema, gy_frame_source *rows)
{
    gy_frame_source first = {.next = NULL};
    gy_status status = gy_rows_source(of->frames, of->count, &first);
    if (status == GY_OK && of->rest != NULL) {
        const gy_rows_side sides[2] = {{.source = first, .schema = schema},
                                       {gy_rows_file_source(of->rest), schema}};
        gy_schema *same = NULL;
        of->rest = NULL;
        status = gy_rows_chain(sides, 2, &first, &same);
        gy_schema_drop(same);
    }
    drop_held(of);
    *rows = first;
    return status;
}

/* Few rows of many files or cuts become one frame: who shows the first one shows enough. */
static gy_status join_few(held *of, gy_schema *schema)
{
    size_t kept = 0;
    for (size_t begin = 0, end = 0; begin < of->count; begin = end) {
        int64_t rows = 0;
        uint64_t bytes = 0;
        while (end < of->count && rows < ROWS_FEW && (end == begin || bytes < BYTES_FEW)) {
            rows += gy_frame_rows(of->frames[end]);
            bytes += gy_rows_bytes(of->frames[end++]);
        }
        gy_frame *one = gy_frame_hold(of->frames[begin]);
        if (end - begin > 1) {
            gy_frame_drop(one);
            GY_TRY(gy_rows_concat(schema, of->frames + begin, end - begin, &one));
        }
        for (size_t i = begin; i < end; i++) {
            gy_frame_drop(of->frames[i]);
            of->frames[i] = NULL;
        }
        of->frames[kept++] = one;
    }
    of->count = kept;
    return GY_OK;
}

static gy_status run_plan(gy_query *query, held *answer)
{
    gy_query_stream stream = {.schema = NULL};
    query->run = (gy_query_run){.plan = &query->plan,
                                .engine = query->engine,
                                .memory_bytes = query->options.memory_bytes,
                                .scratch = query->scratch};
    GY_TRY(gy_query_run_init(&query->run));
    GY_TRY(gy_query_run_open(&query->run, &stream));
    const gy_status status =
        query->options.is_planning ? GY_OK : take_all(&query->run, &stream, answer);
    gy_query_stream_close(&stream);
    return status;
}

static gy_status plan_once(gy_query *query, const gy_sql_statement *statement)
{
    const gy_query_catalog catalog = catalog_of(query);
    drop_plan(query);
    GY_TRY(gy_query_plan_make(&query->source, statement->select, &catalog, views_of(query),
                              &query->plan));
    query->has_plan = true;
    return GY_OK;
}

/* ---- Jobs ---- */

/* Processes of the job; that they are known decides into how many parts rows are divided. */
static uint32_t processes(const gy_query *query)
{
    return query->how.processes > 0 ? (uint32_t)query->how.processes
                                    : (uint32_t)gy_engine_workers(query->engine);
}

/* GY_AGAIN: a job was made, and is to run. GY_OK: there is none. */
static gy_status make_job(gy_query *query)
{
    const gy_query_job_options options = {
        .flow = query->options.is_planning ? NULL : query->options.flow,
        .how = &query->how,
        .scratch = query->scratch,
        .engine = query->engine,
        .piece_bytes = query->options.split_bytes,
        .broadcast_bytes = 2 * (double)query->options.split_bytes,
        .memory_bytes = query->options.memory_bytes / processes(query),
        .parts = processes(query)};
    if (query->options.job == NULL) {
        return GY_OK;
    }
    const gy_status status = gy_query_job_new(&query->plan, &options, &query->job);
    if (status != GY_OK) {
        return status == GY_UNSUPPORTED ? GY_OK : status;
    }
    return query->options.is_planning ? GY_OK : GY_AGAIN;
}

/* Each job has a folder of its own. */
static gy_status run_job(gy_query *query)
{
    const char *folder = query->how.folder;
    char own[4200];
    query->job_count++;
    if (folder != NULL && query->job_count > 1) {
        if (!gy_print_whole(own, sizeof(own), "%s-%d", folder, query->job_count)) {
            return gy_fail(GY_ARG, "a folder's name that is too long");
        }
        query->how.folder = own;
    }
    const gy_status status = gy_query_job_run(query->job);
    query->how.folder = folder;
    return status;
}

typedef struct taking {
    gy_query_run run; /* of the answer: what it may keep */
    gy_schema *schema;
    held *to;
} taking;

static gy_status take_frame(void *arg, gy_frame *frame)
{
    const taking *in = arg;
    return hold_frame(&in->run, in->schema, frame, in->to);
}

/* ---- Answers ---- */

/* What an expression that does not fit is, is said with its place before a job begins. */
static gy_status check_plan(gy_query *query)
{
    held nothing = {.frames = NULL};
    const bool is_planning = query->options.is_planning;
    query->options.is_planning = true;
    const gy_status status = run_plan(query, &nothing);
    query->options.is_planning = is_planning;
    gy_query_run_fini(&query->run);
    return status;
}

static gy_status run_here(gy_query *query, const gy_sql_statement *statement, held *rows);

/* Plan, and run unless a job is to run: GY_AGAIN. */
static gy_status answer(gy_query *query, const gy_sql_statement *statement, held *rows)
{
    GY_TRY(plan_once(query, statement));
    if (query->options.job != NULL) {
        GY_TRY(check_plan(query));
    }
    const gy_status status = make_job(query);
    return status == GY_OK ? run_here(query, statement, rows) : status;
}

/* Where guessed types did not fit they are found over all rows; each table once. */
static gy_status run_here(gy_query *query, const gy_sql_statement *statement, held *rows)
{
    const gy_status status = run_plan(query, rows);
    gy_query_files *wrong = query->run.wrong;
    if (status == GY_OK || wrong == NULL) {
        return status == GY_OK ? join_few(rows, query->plan.schema) : status;
    }
    drop_held(rows);
    const size_t used = strlen(query->note);
    gy_print(query->note + used, sizeof(query->note) - used,
             "%s: the types of all rows were found, and the query was planned again\n",
             gy_error_text());
    GY_TRY(gy_query_files_retype(wrong, query->engine));
    return answer(query, statement, rows);
}

/* After a job: its rows, or what one process says of rows that are wrong. */
static gy_status finish_job(gy_query *query, const gy_sql_statement *statement, gy_status job,
                            held *rows)
{
    if (job != GY_OK) {
        return run_here(query, statement, rows);
    }
    taking in = {.run = {.plan = &query->plan,
                         .memory_bytes = query->options.memory_bytes,
                         .scratch = query->scratch,
                         .keeping = 1},
                 .schema = query->plan.schema,
                 .to = rows};
    GY_TRY(gy_query_job_read(query->job, in.schema, take_frame, &in));
    return join_few(rows, query->plan.schema);
}

/* ---- Statements ---- */

typedef struct work {
    gy_query *query;
    held rows;
    gy_status status;
    gy_status job; /* how the job ended; GY_AGAIN: none ran yet */
    gy_error error;
} work;

static gy_status run_statements(gy_query *query, held *rows)
{
    while (query->at < query->script.count) {
        const gy_sql_statement *statement = &query->script.statements[query->at++];
        if (statement->what == GY_SQL_ASK) {
            query->note[0] = '\0';
            return answer(query, statement, rows);
        }
        GY_TRY(statement->what == GY_SQL_CREATE_VIEW ? create_view(query, statement)
                                                     : drop_view(query, statement));
    }
    return GY_DONE;
}

static void *run_deep(void *arg)
{
    work *in = arg;
    gy_query *query = in->query;
    in->status =
        in->job == GY_AGAIN
            ? run_statements(query, &in->rows)
            : finish_job(query, &query->script.statements[query->at - 1], in->job, &in->rows);
    if (in->status < 0) {
        drop_held(&in->rows);
        gy_error_take(&in->error, in->status);
    }
    return NULL;
}

/* Failures without a place are reported by their text alone. */
static gy_status report(gy_query *query, const gy_error *error)
{
    if (query->report.status == GY_OK) {
        query->report.status = error->status;
        gy_print(query->report.text, sizeof(query->report.text), "%s: %s\n", query->name,
                 error->text);
    }
    return gy_error_raise(error);
}

gy_status gy_query_next(gy_query *query, gy_schema **schema, gy_frame_source *rows)
{
    work in = {.query = query, .status = GY_AGAIN, .job = GY_AGAIN};
    gy_thread thread;
    if (query->report.status != GY_OK) {
        return query->report.status;
    }
    while (in.status == GY_AGAIN) {
        GY_TRY(gy_thread_start_deep(&thread, "gyre-query", STACK_BYTES, run_deep, &in));
        gy_thread_join(&thread);
        if (in.status == GY_AGAIN) {
            in.job = run_job(query);
        }
        if (in.status == GY_AGAIN && in.job < 0 && in.job != GY_FORMAT) {
            gy_error_take(&in.error, in.job);
            in.status = in.job;
        }
    }
    if (in.status < 0) {
        return report(query, &in.error);
    }
    if (in.status == GY_OK) {
        in.status = give_held(&in.rows, query->plan.schema, rows);
        if (in.status == GY_OK) {
            *schema = gy_schema_hold(query->plan.schema);
        }
    }
    return in.status;
}

const char *gy_query_report(const gy_query *query)
{
    return query != NULL ? query->report.text : "";
}

const char *gy_query_note(const gy_query *query)
{
    return query->note;
}

/* ---- Explanations ---- */

static char *take_text(gy_text *text)
{
    char *made = text->status == GY_OK ? gy_copy_text("query.text", gy_text_get(text)) : NULL;
    gy_text_free(text);
    return made;
}

char *gy_query_explain(const gy_query *query)
{
    gy_text text = {.data = NULL};
    if (!query->has_plan) {
        return NULL;
    }
    gy_query_plan_print(&query->plan, &text);
    if (query->job != NULL) {
        gy_query_job_print(query->job, &text);
    }
    return take_text(&text);
}

char *gy_query_statistics(const gy_query *query)
{
    gy_text text = {.data = NULL};
    if (!query->has_plan) {
        return NULL;
    }
    if (query->job != NULL && query->run.plan == NULL) {
        gy_query_job_print(query->job, &text);
    } else {
        gy_query_print_meters(&query->run, &text);
    }
    return take_text(&text);
}
