/* Operators that are here alone: values, steps, single row, check, meter. */
#include "query/run/run.h"

#include "base/env.h"

#include <string.h>

/* An input with what is done to its frames. */
typedef struct through {
    gy_query_run *run;
    const gy_query_node *node;
    gy_query_stream input;
    gy_query_step steps[GY_QUERY_STEPS_MAX];
    int step_count;
    gy_schema *schema;
    bool is_done;
    gy_error error; /* of opening the input of a sub-query whose errors are told */
    int column;
    int *columns;
} through;

static void close_through(void *arg)
{
    through *in = arg;
    gy_query_stream_close(&in->input);
    for (int i = 0; i < in->step_count; i++) {
        gy_schema_drop(in->steps[i].schema);
    }
    gy_schema_drop(in->schema);
    gy_free(in->columns);
    gy_free(in);
}

void gy_query_stream_close(gy_query_stream *stream)
{
    if (stream->source.close != NULL) {
        stream->source.close(stream->source.arg);
    }
    gy_schema_drop(stream->schema);
    *stream = (gy_query_stream){.schema = NULL};
}

/* Put `next` behind the stream, whose schema becomes `schema` (held once; NULL: as it is). */
static gy_status put_behind(gy_query_run *run, const gy_query_node *node, gy_schema *schema,
                            gy_status (*next)(void *arg, gy_frame **frame),
                            gy_query_stream *stream)
{
    through *in = gy_alloc_zero("query.operator", 1, sizeof(*in));
    if (in == NULL) {
        gy_schema_drop(schema);
        gy_query_stream_close(stream);
        return GY_NOMEM;
    }
    in->run = run;
    in->node = node;
    in->input = *stream;
    in->schema = schema != NULL ? schema : gy_schema_hold(stream->schema);
    *stream = (gy_query_stream){.source = {.next = next, .close = close_through, .arg = in},
                                .schema = gy_schema_hold(in->schema)};
    return GY_OK;
}

/* ---- Steps ---- */

static gy_status next_steps(void *arg, gy_frame **frame)
{
    through *in = arg;
    for (;;) {
        gy_frame *one = NULL;
        const gy_status status = in->input.source.next(in->input.source.arg, &one);
        if (status != GY_OK) {
            return status;
        }
        GY_TRY(gy_query_take_steps(in->steps, in->step_count, &one));
        if (gy_frame_rows(one) > 0) {
            *frame = one;
            return GY_OK;
        }
        gy_frame_drop(one);
    }
}

gy_status gy_query_steps_stream(gy_query_run *run, const gy_query_step *steps, int count,
                                gy_query_stream *stream)
{
    gy_schema *schema = NULL;
    for (int i = 0; i < count; i++) {
        schema = steps[i].schema != NULL ? steps[i].schema : schema;
    }
    schema = schema != NULL ? gy_schema_hold(schema) : NULL;
    const gy_status status = put_behind(run, NULL, schema, next_steps, stream);
    if (status != GY_OK) {
        for (int i = 0; i < count; i++) {
            gy_schema_drop(steps[i].schema);
        }
        return status;
    }
    through *in = stream->source.arg;
    in->step_count = count;
    for (int i = 0; i < count; i++) {
        in->steps[i] = steps[i];
    }
    return GY_OK;
}

/* ---- Values ---- */

/* A row without columns. */
static gy_status empty_row(int64_t rows, gy_frame **frame)
{
    gy_schema *schema = NULL;
    GY_TRY(gy_schema_new(NULL, 0, &schema));
    const gy_status status = gy_frame_make(schema, NULL, rows, frame);
    gy_schema_drop(schema);
    return status;
}

static gy_status one_row(gy_query_run *run, const gy_query_node *node, uint32_t row,
                         gy_schema *schema, gy_frame **out)
{
    const gy_query_node nothing = {.count = 0};
    const gy_expr **values = gy_arena_alloc(&run->arena, (node->count + 1) * sizeof(*values));
    gy_frame *empty = NULL;
    if (values == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        GY_TRY(gy_query_bind(run, &nothing, NULL, node->values[row * node->count + i],
                             &values[i]));
    }
    GY_TRY(empty_row(1, &empty));
    const gy_status status = gy_expr_project(values, (int)node->count, schema, empty, out);
    gy_frame_drop(empty);
    return status;
}

static gy_status all_rows(gy_query_run *run, const gy_query_node *node, gy_schema *schema,
                          gy_frame **out)
{
    if (node->count == 0) {
        return empty_row(node->row_count, out);
    }
    gy_frame **frames = gy_alloc_zero("query.values", node->row_count + 1u, sizeof(*frames));
    gy_status status = frames != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; i < node->row_count && status == GY_OK; i++) {
        status = one_row(run, node, i, schema, &frames[i]);
    }
    status = status == GY_OK ? gy_rows_concat(schema, frames, node->row_count, out) : status;
    for (uint32_t i = 0; frames != NULL && i < node->row_count; i++) {
        gy_frame_drop(frames[i]);
    }
    gy_free(frames);
    return status;
}

gy_status gy_query_values_stream(gy_query_run *run, const gy_query_node *node,
                                 gy_query_stream *stream)
{
    gy_frame *all = NULL;
    *stream = (gy_query_stream){.schema = NULL};
    GY_TRY(gy_query_schema_of(run->plan, node->columns, node->count, &stream->schema));
    gy_status status = all_rows(run, node, stream->schema, &all);
    status = status == GY_OK ? gy_rows_source(&all, 1, &stream->source) : status;
    gy_frame_drop(all);
    if (status != GY_OK) {
        gy_query_stream_close(stream);
    }
    return status;
}

/* ---- A single row ---- */

/* A row of nulls; of the last column a text, where there is one. */
static gy_status null_row(gy_schema *schema, const gy_text *last, gy_frame **frame)
{
    gy_frame_builder *builder = NULL;
    GY_TRY(gy_frame_builder_new(schema, &builder));
    for (int i = 0; i < gy_schema_count(schema) - (last != NULL ? 1 : 0); i++) {
        gy_frame_add_null(builder);
    }
    if (last != NULL) {
        gy_frame_add_text(builder, last->data, last->size_bytes);
    }
    gy_frame_row_end(builder);
    const gy_status status = gy_frame_finish(builder, frame);
    gy_frame_builder_free(builder);
    return status;
}

static gy_status two_rows(const through *in)
{
    if (in->node->kind == GY_QUERY_SINGLE && in->node->count > 1) { /* perhaps nobody asks */
        return gy_fail(GY_ARG, "more than one row returned by a sub-query that is a value");
    }
    return gy_sql_refuse(in->run->plan->source, in->node->place, GY_ARG,
                         "more than one row returned by a sub-query that is a value");
}

/* The only row; NULL: none. */
static gy_status find_single(const through *in, gy_frame **row)
{
    gy_frame *found = NULL;
    for (;;) {
        gy_frame *one = NULL;
        const gy_status status = in->input.source.next(in->input.source.arg, &one);
        if (status == GY_DONE) {
            break;
        }
        const int64_t rows = status == GY_OK ? gy_frame_rows(one) : 0;
        if (status != GY_OK || rows + (found != NULL ? 1 : 0) > 1) {
            gy_frame_drop(one);
            gy_frame_drop(found);
            return status != GY_OK ? status : two_rows(in);
        }
        if (rows == 1) {
            found = one;
        } else {
            gy_frame_drop(one);
        }
    }
    *row = found;
    return GY_OK;
}

static gy_status next_single(void *arg, gy_frame **frame)
{
    through *in = arg;
    if (in->is_done) {
        return GY_DONE;
    }
    in->is_done = true;
    GY_TRY(find_single(in, frame));
    return *frame != NULL ? GY_OK : null_row(in->schema, NULL, frame);
}

/* Errors of values, not of files, memory or types that were guessed. */
static bool is_of_values(const gy_query_run *run, gy_status status)
{
    return run->wrong == NULL && (status == GY_NUMERIC || status == GY_FORMAT ||
                                  status == GY_LIMIT || status == GY_ARG);
}

/* The row with a column behind it that says what failed. */
static gy_status tell_failure(const through *in, gy_status failed, gy_frame *row,
                              gy_frame **frame)
{
    gy_text text = {.data = NULL};
    if (failed != GY_OK) {
        gy_text_add(&text, "%d%s%s", (int)failed, " ", gy_error_text());
        const gy_status status =
            text.status == GY_OK ? null_row(in->schema, &text, frame) : text.status;
        gy_text_free(&text);
        return status;
    }
    gy_frame *nulls = NULL;
    GY_TRY(null_row(in->schema, NULL, &nulls));
    const gy_frame *const frames[2] = {row != NULL ? row : nulls, nulls};
    const int columns[2] = {0, 1};
    const gy_status status = gy_frame_compose(in->schema, frames, columns, 1, frame);
    gy_frame_drop(nulls);
    return status;
}

static gy_status next_told(void *arg, gy_frame **frame)
{
    through *in = arg;
    gy_frame *row = NULL;
    if (in->is_done) {
        return GY_DONE;
    }
    in->is_done = true;
    gy_status status = in->error.status;
    status = status < 0 ? gy_error_raise(&in->error) : find_single(in, &row);
    if (status == GY_OK || is_of_values(in->run, status)) {
        status = tell_failure(in, status, row, frame);
    }
    gy_frame_drop(row);
    return status;
}

gy_status gy_query_single_stream(gy_query_run *run, const gy_query_node *node, gy_status opened,
                                 gy_query_stream *stream)
{
    gy_schema *schema = NULL;
    if (node->count == 1 && opened == GY_OK) {
        return put_behind(run, node, NULL, next_single, stream);
    }
    if (node->count == 1 || (opened != GY_OK && !is_of_values(run, opened))) {
        return opened;
    }
    gy_error error = {.status = GY_OK};
    (void)gy_error_keep(&error, opened);
    if (opened != GY_OK) {
        *stream = (gy_query_stream){.schema = NULL};
    }
    const gy_status status = gy_query_schema_of(run->plan, node->columns, node->count, &schema);
    if (status != GY_OK) {
        gy_query_stream_close(stream);
        return status;
    }
    GY_TRY(put_behind(run, node, schema, next_told, stream));
    ((through *)stream->source.arg)->error = error;
    return GY_OK;
}

/* ---- At most one ---- */

static gy_status next_check(void *arg, gy_frame **frame)
{
    through *in = arg;
    gy_frame *one = NULL;
    gy_status status = in->input.source.next(in->input.source.arg, &one);
    if (status != GY_OK) {
        return status;
    }
    const gy_column counts = gy_frame_column(one, in->column);
    for (int64_t i = 0; i < counts.rows && status == GY_OK; i++) {
        if (!gy_column_is_null(&counts, i) && gy_column_int64(&counts, i) > 1) {
            status = two_rows(in);
        }
    }
    status = status == GY_OK ? gy_frame_select(one, in->columns, (int)in->node->count, frame)
                             : status;
    gy_frame_drop(one);
    return status;
}

gy_status gy_query_check_stream(gy_query_run *run, const gy_query_node *node,
                                gy_query_stream *stream)
{
    gy_schema *schema = NULL;
    int *kept = gy_alloc_zero("query.columns", node->count + 1u, sizeof(*kept));
    gy_status status = kept != NULL ? GY_OK : GY_NOMEM;
    status = status == GY_OK
                 ? gy_query_schema_of(run->plan, node->columns, node->count, &schema)
                 : status;
    if (status != GY_OK) {
        gy_free(kept);
        gy_query_stream_close(stream);
        return status;
    }
    status = put_behind(run, node, schema, next_check, stream);
    if (status != GY_OK) {
        gy_free(kept);
        return status;
    }
    through *in = stream->source.arg;
    in->column = gy_query_index(node->left, node->checked);
    in->columns = kept;
    for (uint32_t i = 0; i < node->count; i++) {
        kept[i] = gy_query_index(node->left, node->columns[i]);
    }
    return GY_OK;
}

/* ---- Counting ---- */

static gy_status next_metered(void *arg, gy_frame **frame)
{
    through *in = arg;
    gy_query_meter *meter = &in->run->meters[in->node->number];
    const int64_t begin_ns = gy_now_ns(gy_env_real());
    const gy_status status = in->input.source.next(in->input.source.arg, frame);
    meter->time_ns += gy_now_ns(gy_env_real()) - begin_ns;
    if (status == GY_OK) {
        meter->rows += gy_frame_rows(*frame);
        meter->frames++;
        meter->bytes += (int64_t)gy_rows_bytes(*frame);
    }
    return status;
}

gy_status gy_query_meter_stream(gy_query_run *run, const gy_query_node *node,
                                gy_query_stream *stream)
{
    return put_behind(run, node, NULL, next_metered, stream);
}
