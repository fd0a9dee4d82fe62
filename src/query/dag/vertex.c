/* The vertex program: a stage's text is read, its plan is run over the vertex's inputs, and its
 * rows are written by the sink. */
#include "query/dag/dag_priv.h"

#include <gyre/query.h>

#include <string.h>

typedef struct output {
    gy_query_work *work;
    const gy_query_sink *sink;
    gy_schema *schema;       /* of what is written */
    int *keys;               /* (key_count) places of the keys in it */
    gy_rows_sort_key *order; /* of ranges */
    gy_frame *bounds;        /* of ranges */
    gy_rows_hot hot;         /* keys of a join */
    gy_frame **parts;        /* (sink->parts) */
    int64_t *counts;         /* (sink->parts) rows written */
    gy_rows_buffer buffer;
    int64_t rows;
    uint64_t bytes; /* of frames */
} output;

/* ---- Writing ---- */

static gy_status write_frame(output *out, uint32_t part, const gy_frame *frame)
{
    out->counts[part] += gy_frame_rows(frame);
    out->bytes += gy_rows_bytes(frame);
    out->buffer.size_bytes = 0;
    GY_TRY(gy_rows_bytes_write(frame, &out->buffer));
    const gy_status status =
        gy_vertex_write(out->work->vertex, (int)part, out->buffer.data, out->buffer.size_bytes);
    out->work->is_lost = out->work->is_lost || status != GY_OK;
    return status;
}

/* One frame of each part, of how many parts there are. */
static gy_status divide(output *out, const gy_frame *frame, uint32_t *count)
{
    const gy_query_sink *sink = out->sink;
    *count = sink->parts;
    if (sink->kind == GY_QUERY_HASHED) {
        return gy_rows_partition_hot(frame, out->keys, (int)sink->key_count, (int)sink->parts,
                                     &out->hot, out->parts);
    }
    *count = (uint32_t)gy_frame_rows(out->bounds) + 1;
    return gy_rows_partition_range(frame, out->order, (int)sink->order_count, out->bounds,
                                   out->parts);
}

static gy_status write_parts(output *out, const gy_frame *frame)
{
    gy_status status = GY_OK;
    uint32_t count = 0;
    GY_TRY(divide(out, frame, &count));
    for (uint32_t i = 0; i < count; i++) {
        if (status == GY_OK && gy_frame_rows(out->parts[i]) > 0) {
            status = write_frame(out, i, out->parts[i]);
        }
        gy_frame_drop(out->parts[i]);
    }
    return status;
}

/* Takes the frame. */
static gy_status put_frame(output *out, gy_frame *frame)
{
    gy_status status = GY_OK;
    const int64_t rows = gy_frame_rows(frame);
    if (rows == 0) {
        gy_frame_drop(frame);
        return GY_OK;
    }
    if (out->sink->ordinal != GY_QUERY_NONE) {
        status = gy_query_number_rows(out->schema, out->rows, GY_QUERY_NUMBER_NEW, &frame);
    }
    out->rows += rows;
    if (status == GY_OK) {
        status = out->sink->parts == 1 ? write_frame(out, 0, frame) : write_parts(out, frame);
    }
    gy_frame_drop(frame);
    return status;
}

static gy_status read_hot(output *out, gy_query_run *run)
{
    const gy_query_sink *sink = out->sink;
    const gy_query_input *input = out->work->fragment->stage.inputs[sink->chosen];
    gy_query_stream stream = {.schema = NULL};
    gy_frame *hashes = NULL;
    GY_TRY(gy_query_input_open(out->work, run, input, &stream));
    GY_TRY(gy_query_read_all(&stream, &hashes));
    const gy_column column = gy_frame_column(hashes, 0);
    out->hot.hashes =
        gy_alloc("query.hot", ((size_t)column.rows + 1) * sizeof(*out->hot.hashes));
    for (int64_t i = 0; i < column.rows && out->hot.hashes != NULL; i++) {
        out->hot.hashes[i] = (uint64_t)gy_column_int64(&column, i);
    }
    out->hot.count = (size_t)column.rows;
    out->hot.is_copied = sink->heat == GY_QUERY_COPIED;
    gy_frame_drop(hashes);
    return out->hot.hashes != NULL ? GY_OK : GY_NOMEM;
}

static gy_status read_bounds(output *out, gy_query_run *run)
{
    const gy_query_sink *sink = out->sink;
    const gy_query_input *input = out->work->fragment->stage.inputs[sink->chosen];
    gy_query_stream stream = {.schema = NULL};
    out->order = gy_query_sort_keys(run->plan->root, sink->order, sink->order_count);
    if (out->order == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_query_input_open(out->work, run, input, &stream));
    GY_TRY(gy_query_read_all(&stream, &out->bounds));
    if (gy_frame_rows(out->bounds) >= (int64_t)sink->parts) {
        out->work->is_lost = true;
        return gy_fail(GY_FORMAT, "%lld bounds of %u ranges",
                       (long long)gy_frame_rows(out->bounds), sink->parts);
    }
    return GY_OK;
}

/* Where keys and numbers stand in what is written. */
static gy_status begin(output *out, gy_query_run *run)
{
    const gy_query_sink *sink = out->sink;
    const gy_query_node *root = run->plan->root;
    out->keys = gy_alloc_zero("query.keys", sink->key_count + 1u, sizeof(*out->keys));
    out->parts = gy_alloc_zero("query.parts", sink->parts, sizeof(gy_frame *));
    out->counts = gy_alloc_zero("query.parts", sink->parts, sizeof(*out->counts));
    if (out->keys == NULL || out->parts == NULL || out->counts == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < sink->key_count; i++) {
        out->keys[i] = sink->aggregate != NULL ? (int)i : gy_query_index(root, sink->keys[i]);
        GY_ASSERT(out->keys[i] >= 0);
    }
    if (sink->kind == GY_QUERY_RANGED) {
        GY_TRY(read_bounds(out, run));
    }
    if (sink->heat != GY_QUERY_COOL) {
        GY_TRY(read_hot(out, run));
    }
    if (sink->kind != GY_QUERY_HASHED || sink->ordinal == GY_QUERY_NONE) {
        return GY_OK;
    }
    uint32_t *columns = gy_arena_alloc(&run->arena, (root->count + 1u) * sizeof(*columns));
    if (columns == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < root->count; i++) {
        columns[i] = root->columns[i];
    }
    columns[root->count] = sink->ordinal;
    return gy_query_schema_of(run->plan, columns, root->count + 1, &out->schema);
}

/* What is known when all rows were there. */
static gy_status write_chosen(output *out, gy_query_run *run, const char *stage,
                              gy_query_stream *stream)
{
    gy_frame *chosen = NULL;
    if (out->sink->kind == GY_QUERY_SAMPLED) {
        GY_TRY(gy_query_sample(run, out->work, stream, &chosen));
    } else if (out->sink->kind == GY_QUERY_BOUNDED) {
        GY_TRY(gy_query_bounds(run, out->sink, stream, &chosen));
    } else {
        char name[64];
        GY_TRY(gy_query_find_hot(run, out->sink, stream, &chosen));
        gy_print(name, sizeof(name), "hot %s", stage);
        gy_vertex_count(out->work->vertex, name, gy_frame_rows(chosen));
    }
    const gy_status status = write_frame(out, 0, chosen);
    gy_frame_drop(chosen);
    return status;
}

static gy_status write_all(output *out, gy_query_run *run, const char *stage)
{
    gy_query_stream stream = {.schema = NULL};
    GY_TRY(begin(out, run));
    GY_TRY(gy_query_run_rows(run, &stream));
    if (out->sink->kind != GY_QUERY_HASHED && out->sink->kind != GY_QUERY_RANGED) {
        return write_chosen(out, run, stage, &stream);
    }
    if (out->sink->aggregate != NULL) {
        GY_TRY(gy_query_aggregate_rows(run, out->sink->aggregate, run->plan->root,
                                       GY_ROWS_PARTIAL, &stream));
        GY_TRY(gy_query_meter_stream(run, out->sink->aggregate, &stream));
    }
    gy_status status = GY_OK;
    while (status == GY_OK) {
        gy_frame *frame = NULL;
        status = stream.source.next(stream.source.arg, &frame);
        status = status == GY_OK ? put_frame(out, frame) : status;
    }
    gy_query_stream_close(&stream);
    return status == GY_DONE ? GY_OK : status;
}

/* ---- Counting ---- */

typedef struct counting {
    gy_vertex *vertex;
    const char *stage;
    int left; /* counters that there may still be */
} counting;

static void count_one(counting *to, const char *what, uint32_t number, int64_t value)
{
    char name[64];
    if (value != 0 && to->left > 0) {
        gy_print(name, sizeof(name), "%s %s.%u", what, to->stage, number);
        gy_vertex_count(to->vertex, name, value);
        to->left--;
    }
}

/* What operators did, as counters of the job: rows of all of them, then times of all, ... */
static void count_work(const output *out, const gy_query_run *run, const char *stage)
{
    counting to = {.vertex = out->work->vertex, .stage = stage, .left = GY_QUERY_COUNTERS_MAX};
    const uint32_t parts = out->sink->parts;
    /* where there is room, whatever operators count: the largest of some is not the largest */
    for (uint32_t i = 0; parts > 1 && i < parts; i++) {
        if (parts + 2 * run->plan->node_count <= GY_QUERY_COUNTERS_MAX) {
            count_one(&to, "part", i, out->counts[i]);
        }
    }
#define GY_X(what, field)                                                                      \
    for (uint32_t i = 0; i < run->plan->node_count; i++) {                                     \
        count_one(&to, what, i, (int64_t)run->meters[i].field);                                \
    }
    GY_QUERY_COUNT_LIST(GY_X)
#undef GY_X
}

/* ---- The program ---- */

static gy_status run_fragment(gy_query_work *work, const char *stage)
{
    output out = {.work = work, .sink = &work->fragment->stage.sink};
    const gy_engine_options one = GY_OPTIONS(gy_engine_options, .workers = 1);
    gy_query_run run = {.plan = &work->fragment->plan,
                        .memory_bytes = work->fragment->reading.memory_bytes,
                        .open_leaf = gy_query_leaf_open,
                        .leaf_arg = work};
    run.scratch = gy_vertex_scratch(work->vertex);
    if (run.scratch == NULL) {
        work->is_lost = true;
        return GY_IO;
    }
    GY_TRY(gy_engine_new(&one, &run.engine));
    gy_engine *engine = run.engine;
    gy_status status = gy_query_run_init(&run);
    run.keeping += out.sink->aggregate != NULL ? 1 : 0;
    status = status == GY_OK ? write_all(&out, &run, stage) : status;
    if (status == GY_OK &&
        out.sink->kind == GY_QUERY_HASHED) { /* refinement points ask for it */
        status = gy_vertex_set_sample(work->vertex, &out.bytes, sizeof(out.bytes));
        work->is_lost = work->is_lost || status != GY_OK;
    }
    if (status == GY_OK) {
        count_work(&out, &run, stage);
    }
    gy_query_run_fini(&run);
    gy_engine_free(engine);
    gy_schema_drop(out.schema);
    gy_free(out.keys);
    gy_free(out.order);
    gy_free(out.hot.hashes);
    gy_frame_drop(out.bounds);
    gy_free(out.parts);
    gy_free(out.counts);
    gy_free(out.buffer.data);
    return status;
}

/* A failure that comes again in each attempt, and that the run in one process says better. */
static gy_status wrong_rows(gy_status status)
{
    char text[512];
    switch ((int)status) {
    case GY_FORMAT:
    case GY_ARG:
    case GY_TYPE:
    case GY_NUMERIC:
    case GY_LIMIT:
    case GY_UNSUPPORTED:
    case GY_NOTFOUND:
        gy_print(text, sizeof(text), "%s", gy_error_text());
        return gy_fail(GY_FORMAT, GY_QUERY_WRONG_ROWS "%s", text);
    default:
        return status;
    }
}

/* The program's functions: its vertices must have those that the query was planned with. */
static gy_status find_functions(gy_vertex *vertex, const gy_query_fragment *fragment,
                                gy_query_functions *functions)
{
    const gy_query_function_list list = (gy_query_function_list)gy_vertex_user(vertex);
    *functions = list != NULL ? list() : (gy_query_functions){.count = 0};
    for (uint32_t i = 0; i < fragment->function_count; i++) {
        const gy_query_called *called = &fragment->functions[i];
        const gy_query_function *own = gy_query_function_find(functions, called->name);
        if (own == NULL) {
            return gy_fail(GY_UNSUPPORTED,
                           "this worker has no function %s: list it by GY_QUERY_VERTEX_OF in "
                           "gy_flow_start",
                           called->name);
        }
        if (own->version != called->version) {
            return gy_fail(GY_UNSUPPORTED,
                           "this worker has version %u of function %s, the query was planned "
                           "with version %u",
                           own->version, called->name, called->version);
        }
    }
    return GY_OK;
}

gy_status gy_query_vertex(gy_vertex *vertex)
{
    size_t size = 0;
    const char *data = gy_vertex_parameter(vertex, &size);
    const char *end = memchr(data, '\n', size);
    char stage[16];
    gy_query_fragment fragment;
    if (end == NULL || (size_t)(end - data) >= sizeof(stage)) {
        return gy_fail(GY_ARG, "a query's vertex without a stage");
    }
    gy_print(stage, sizeof(stage), "%.*s", (int)(end - data), data);
    end++;
    GY_TRY(gy_query_fragment_read(end, size - (size_t)(end - data), &fragment));
    char nothing[1] = "";
    gy_sql_report report = {.status = GY_OK};
    const gy_sql_source source = {.path = "query", .text = nothing, .report = &report};
    fragment.plan.source = &source;
    fragment.plan.root = fragment.stage.root;
    gy_query_functions functions;
    gy_query_work work = {.vertex = vertex, .fragment = &fragment, .scale = 1};
    gy_status status = find_functions(vertex, &fragment, &functions);
    if (status == GY_OK) {
        fragment.plan.functions = &functions;
        status = run_fragment(&work, stage);
        status = status < 0 && !work.is_lost ? wrong_rows(status) : status;
    }
    gy_query_fragment_fini(&fragment);
    return status;
}
