/*
 * Functions of the program over partitions of rows. Rows are sorted by the hash of the keys, by
 * the keys and by the order that is asked for; sorting is stable. The rows of a partition then
 * stand together, and partitions come by their hash, as groups do. What a function emits is
 * kept, in a file where memory does not hold it, until it returns, and is then given.
 */
#include "query/run/run.h"

#include <string.h>

typedef struct apply {
    gy_query_run *run;
    const gy_query_node *node;
    const gy_query_function *own;
    gy_rows_limits limits;
    gy_query_stream input;
    gy_schema *parameters, *columns;
    int *arguments; /* (argument_count) columns of the input */
    int *keys;      /* (key_count) columns that make a partition, the hash first; 0: all rows */
    int key_count;
    /* the input: rows of `frame` from `at` on */
    gy_frame *frame; /* NULL: none */
    int64_t at;
    gy_frame *last;    /* the row before, alone; NULL: none */
    bool has_rows;     /* of the partition: its first row was seen */
    bool is_end;       /* of the input */
    gy_status failure; /* of the input or of what is emitted */
    /* what was emitted, and is to be given */
    gy_frame **made;
    size_t made_count, made_capacity, given;
    uint64_t made_bytes;
    gy_rows_file *file;
    gy_frame_source rest; /* of the file; next NULL: none */
    bool is_called;
} apply;

/* ---- Partitions ---- */

static bool are_equal(const gy_column *a, int64_t i, const gy_column *b, int64_t k)
{
    const bool is_null = gy_column_is_null(a, i);
    if (is_null || gy_column_is_null(b, k)) {
        return is_null && gy_column_is_null(b, k);
    }
    switch (a->field->kind) {
    case GY_FIELD_BOOL:
        return gy_column_bool(a, i) == gy_column_bool(b, k);
    case GY_FIELD_DOUBLE: {
        const double x = gy_column_double(a, i), y = gy_column_double(b, k);
        return x == y || (x != x && y != y);
    }
    case GY_FIELD_DECIMAL:
        return gy_column_decimal(a, i) == gy_column_decimal(b, k);
    case GY_FIELD_DATE:
        return gy_column_date(a, i) == gy_column_date(b, k);
    case GY_FIELD_TEXT: {
        const gy_text_view x = gy_column_text(a, i), y = gy_column_text(b, k);
        return x.size_bytes == y.size_bytes && memcmp(x.data, y.data, x.size_bytes) == 0;
    }
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
    default:
        return gy_column_int64(a, i) == gy_column_int64(b, k);
    }
}

/* Whether two rows are of one partition. */
static bool is_same(const apply *in, const gy_frame *a, int64_t i, const gy_frame *b, int64_t k)
{
    for (int key = 0; key < in->key_count; key++) {
        const gy_column x = gy_frame_column(a, in->keys[key]);
        const gy_column y = gy_frame_column(b, in->keys[key]);
        if (!are_equal(&x, i, &y, k)) {
            return false;
        }
    }
    return true;
}

/* The input's next frame with rows, if there is none at hand. GY_DONE */
static gy_status need_frame(apply *in)
{
    while (in->frame == NULL && !in->is_end) {
        const gy_status status = in->input.source.next(in->input.source.arg, &in->frame);
        if (status == GY_DONE) {
            in->is_end = true;
        } else if (status != GY_OK) {
            return status;
        } else if (gy_frame_rows(in->frame) == 0) {
            gy_frame_drop(in->frame);
            in->frame = NULL;
        }
    }
    return in->frame != NULL ? GY_OK : GY_DONE;
}

/* Take the rows [at, end) of the frame at hand. */
static gy_status take_rows(apply *in, int64_t end, gy_frame **out)
{
    gy_frame *some = NULL;
    const gy_frame **from =
        gy_alloc_zero("query.apply", in->node->argument_count + 1u, sizeof(*from));
    gy_status status = from != NULL ? gy_frame_slice(in->frame, in->at, end, &some) : GY_NOMEM;
    for (uint32_t i = 0; i < in->node->argument_count && status == GY_OK; i++) {
        from[i] = some;
    }
    if (status == GY_OK) {
        status = gy_frame_compose(in->parameters, from, in->arguments, end - in->at, out);
    }
    gy_frame_drop(some);
    gy_free((void *)from);
    GY_TRY(status);
    gy_frame_drop(in->last);
    in->last = NULL;
    if (in->key_count > 0) {
        status = gy_frame_slice(in->frame, end - 1, end, &in->last);
    }
    in->at = end;
    if (end == gy_frame_rows(in->frame)) {
        gy_frame_drop(in->frame);
        in->frame = NULL;
        in->at = 0;
    }
    if (status != GY_OK) {
        gy_frame_drop(*out);
    }
    return status;
}

static gy_status next_rows(apply *in, gy_frame **out)
{
    GY_TRY(in->failure);
    const gy_status status = need_frame(in);
    if (status != GY_OK) {
        return status;
    }
    if (in->has_rows && in->key_count > 0 && !is_same(in, in->frame, in->at, in->last, 0)) {
        return GY_DONE;
    }
    int64_t end = in->at + 1;
    const int64_t rows = gy_frame_rows(in->frame);
    end = in->key_count == 0 ? rows : end;
    while (end < rows && is_same(in, in->frame, end, in->frame, end - 1)) {
        end++;
    }
    in->has_rows = true;
    return take_rows(in, end, out);
}

/* As a function sees it: a failure is remembered, whatever it makes of it. */
static gy_status next_of_partition(void *arg, gy_frame **out)
{
    apply *in = arg;
    const gy_status status = next_rows(in, out);
    in->failure = status < 0 ? status : in->failure;
    return status;
}

/* ---- What comes out ---- */

static gy_status keep(apply *in, gy_frame *frame)
{
    if (in->file == NULL &&
        (in->limits.memory_bytes == 0 ||
         in->made_bytes + gy_rows_bytes(frame) <= in->limits.memory_bytes)) {
        GY_TRY(GY_GROW("query.apply", in->made, in->made_capacity, in->made_count + 1));
        in->made[in->made_count++] = gy_frame_hold(frame);
        in->made_bytes += gy_rows_bytes(frame);
        return GY_OK;
    }
    if (in->file == NULL) {
        GY_TRY(gy_rows_file_new(in->columns, &in->limits, &in->file));
    }
    return gy_rows_file_add(in->file, frame);
}

static gy_status emit(void *arg, gy_frame *frame)
{
    apply *in = arg;
    const int count = gy_schema_count(in->columns);
    gy_frame *named = NULL;
    if (gy_frame_rows(frame) == 0 || in->failure < 0) {
        return in->failure;
    }
    const gy_frame **from = gy_alloc_zero("query.apply", (size_t)count + 1, sizeof(*from));
    int *columns = gy_alloc_zero("query.apply", (size_t)count + 1, sizeof(*columns));
    gy_status status = from != NULL && columns != NULL ? GY_OK : GY_NOMEM;
    for (int i = 0; i < count && status == GY_OK; i++) {
        from[i] = frame;
        columns[i] = i;
    }
    if (status == GY_OK) {
        status = gy_frame_compose(in->columns, from, columns, gy_frame_rows(frame), &named);
    }
    status = status == GY_OK ? keep(in, named) : status;
    gy_frame_drop(named);
    gy_free((void *)from);
    gy_free(columns);
    in->failure = status;
    return status;
}

/* Call the function with the next partition. GY_DONE: there is none */
static gy_status call(apply *in)
{
    gy_function_call one = {
        .function = in->own, .emit = emit, .emit_arg = in, .columns = in->columns};
    const gy_frame_source rows = {.next = next_of_partition, .arg = in};
    const gy_status begun = need_frame(in);
    if (begun < 0 || (begun == GY_DONE && (in->key_count > 0 || in->is_called))) {
        return begun;
    }
    in->has_rows = false;
    in->is_called = true;
    const gy_status status = in->own->apply(&one, &rows);
    GY_TRY(in->failure);
    GY_TRY(gy_query_function_end(&one, status));
    for (gy_status left = GY_OK; left == GY_OK;) { /* rows that it did not want */
        gy_frame *frame = NULL;
        left = next_rows(in, &frame);
        gy_frame_drop(left == GY_OK ? frame : NULL);
        GY_TRY(left);
    }
    if (in->file != NULL) {
        in->rest = gy_rows_file_source(in->file);
        in->file = NULL;
    }
    return GY_OK;
}

static gy_status next(void *arg, gy_frame **frame)
{
    apply *in = arg;
    for (;;) {
        if (in->given < in->made_count) {
            *frame = in->made[in->given++];
            return GY_OK;
        }
        in->given = in->made_count = 0;
        in->made_bytes = 0;
        if (in->rest.next != NULL) {
            const gy_status status = in->rest.next(in->rest.arg, frame);
            if (status != GY_DONE) {
                return status;
            }
            in->rest.close(in->rest.arg);
            in->rest = (gy_frame_source){.next = NULL};
        }
        const gy_status status = call(in);
        if (status != GY_OK) {
            return status;
        }
    }
}

static void close_apply(void *arg)
{
    apply *in = arg;
    while (in->given < in->made_count) {
        gy_frame_drop(in->made[in->given++]);
    }
    gy_free(in->made);
    gy_rows_file_free(in->file);
    if (in->rest.next != NULL) {
        in->rest.close(in->rest.arg);
    }
    gy_frame_drop(in->frame);
    gy_frame_drop(in->last);
    gy_query_stream_close(&in->input);
    gy_schema_drop(in->parameters);
    gy_schema_drop(in->columns);
    gy_free(in);
}

/* ---- Sorting ---- */

/* Rows and the hash of their keys, an int64 that ascends as the hash does. */
typedef struct hashing {
    gy_frame_source input;
    gy_schema *schema, *single;
    const gy_frame **frames; /* (columns) */
    int *columns, *keys;     /* (columns), (key_count) */
    int key_count;
} hashing;

static gy_status make_hashes(const hashing *in, const gy_frame *frame, gy_frame **out)
{
    const int64_t rows = gy_frame_rows(frame);
    gy_frame_maker maker = {.field = *gy_schema_field(in->single, 0)};
    gy_status status = gy_frame_maker_reserve(&maker, rows);
    if (status == GY_OK) {
        uint64_t *hashes = maker.values;
        gy_rows_hash(frame, in->keys, in->key_count, hashes);
        for (int64_t i = 0; i < rows; i++) {
            hashes[i] ^= UINT64_C(1) << 63;
            gy_frame_maker_set(&maker);
        }
        status = gy_frame_make(in->single, &maker, rows, out);
    }
    gy_frame_maker_fini(&maker);
    return status;
}

static gy_status next_hashed(void *arg, gy_frame **out)
{
    hashing *in = arg;
    gy_frame *frame = NULL, *hashes = NULL;
    const int count = gy_schema_count(in->schema);
    gy_status status = in->input.next(in->input.arg, &frame);
    if (status != GY_OK) {
        return status;
    }
    status = make_hashes(in, frame, &hashes);
    for (int i = 0; i < count && status == GY_OK; i++) {
        in->frames[i] = i + 1 < count ? frame : hashes;
        in->columns[i] = i + 1 < count ? i : 0;
    }
    if (status == GY_OK) {
        status =
            gy_frame_compose(in->schema, in->frames, in->columns, gy_frame_rows(frame), out);
    }
    gy_frame_drop(frame);
    gy_frame_drop(hashes);
    return status;
}

static void close_hashing(void *arg)
{
    hashing *in = arg;
    if (in->input.close != NULL) {
        in->input.close(in->input.arg);
    }
    gy_schema_drop(in->schema);
    gy_schema_drop(in->single);
    gy_free(in);
}

/* Put hashes behind the input. What the stream has is its, or closed. */
static gy_status hash_rows(gy_query_run *run, const gy_query_node *node,
                           gy_query_stream *stream)
{
    const int count = gy_schema_count(stream->schema);
    const gy_field hash = {.name = "hash", .kind = GY_FIELD_INT64};
    gy_field *fields = gy_arena_alloc(&run->arena, ((size_t)count + 1) * sizeof(*fields));
    hashing *made = gy_alloc_zero("query.apply", 1, sizeof(*made));
    if (made == NULL || fields == NULL) {
        gy_free(made);
        gy_query_stream_close(stream);
        return GY_NOMEM;
    }
    for (int i = 0; i <= count; i++) {
        fields[i] = i < count ? *gy_schema_field(stream->schema, i) : hash;
    }
    *made = (hashing){.input = stream->source, .key_count = (int)node->group_count};
    made->frames = gy_arena_alloc(&run->arena, ((size_t)count + 1) * sizeof(*made->frames));
    made->columns = gy_arena_alloc(&run->arena, ((size_t)count + 1) * sizeof(*made->columns));
    made->keys = gy_arena_alloc(&run->arena, (node->group_count + 1u) * sizeof(*made->keys));
    gy_status status =
        made->frames != NULL && made->columns != NULL && made->keys != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; i < node->group_count && status == GY_OK; i++) {
        made->keys[i] = gy_query_index(node->left, node->keys[i].column);
    }
    status = status == GY_OK ? gy_schema_new(fields, count + 1, &made->schema) : status;
    status = status == GY_OK ? gy_schema_new(&hash, 1, &made->single) : status;
    gy_schema_drop(stream->schema);
    *stream = (gy_query_stream){.schema = NULL};
    if (status != GY_OK) {
        close_hashing(made);
        return status;
    }
    stream->source =
        (gy_frame_source){.next = next_hashed, .close = close_hashing, .arg = made};
    stream->schema = gy_schema_hold(made->schema);
    return GY_OK;
}

/* Sort by hash, keys and order; without any the rows stay as they are. */
static gy_status sort_rows(apply *in)
{
    const gy_query_node *node = in->node;
    gy_rows_sort_key *keys =
        gy_arena_alloc(&in->run->arena, (node->key_count + 1u) * sizeof(*keys));
    in->keys = gy_arena_alloc(&in->run->arena, (node->group_count + 1u) * sizeof(*in->keys));
    if (keys == NULL || in->keys == NULL) {
        return GY_NOMEM;
    }
    int count = 0;
    if (node->group_count > 0) {
        const int hash = gy_schema_count(in->input.schema);
        GY_TRY(hash_rows(in->run, node, &in->input));
        keys[count++] = (gy_rows_sort_key){.column = hash};
        in->keys[in->key_count++] = hash;
    }
    for (uint32_t i = 0; i < node->key_count; i++) {
        const int column = gy_query_index(node->left, node->keys[i].column);
        keys[count++] = (gy_rows_sort_key){.column = column,
                                           .is_descending = node->keys[i].is_descending,
                                           .nulls_first = node->keys[i].has_nulls_first};
        if (i < node->group_count) {
            in->keys[in->key_count++] = column;
        }
    }
    if (count == 0) {
        return GY_OK;
    }
    const gy_rows_sort_options options = {
        .keys = keys, .key_count = count, .limit = -1, .limits = in->limits};
    gy_query_stream sorted = {.schema = NULL};
    const gy_status status = gy_rows_sort(in->input.source, in->input.schema, &options,
                                          &sorted.source, &sorted.schema);
    gy_schema_drop(in->input.schema);
    in->input = status == GY_OK ? sorted : (gy_query_stream){.schema = NULL};
    return status;
}

/* ---- The stream ---- */

/* The function of the plan, whose columns are the node's. */
static gy_status open_function(apply *in)
{
    const gy_query_node *node = in->node;
    const gy_query_function *own =
        gy_query_function_find(in->run->plan->functions, node->function);
    if (own == NULL || own->apply == NULL || own->column_count != (int)node->count ||
        own->parameter_count != (int)node->argument_count) {
        return gy_fail(GY_STATE, "function %s is not the one that the query was planned with",
                       node->function);
    }
    in->own = own;
    in->arguments =
        gy_arena_alloc(&in->run->arena, (node->argument_count + 1u) * sizeof(*in->arguments));
    if (in->arguments == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < node->argument_count; i++) {
        in->arguments[i] = gy_query_index(node->left, node->arguments[i]);
        GY_ASSERT(in->arguments[i] >= 0);
    }
    GY_TRY(gy_schema_new(own->parameters, own->parameter_count, &in->parameters));
    return gy_schema_new(own->columns, own->column_count, &in->columns);
}

gy_status gy_query_apply_stream(gy_query_run *run, const gy_query_node *node,
                                gy_query_stream *stream)
{
    apply *made = gy_alloc_zero("query.apply", 1, sizeof(*made));
    if (made == NULL) {
        gy_query_stream_close(stream);
        return GY_NOMEM;
    }
    *made = (apply){.run = run, .node = node, .input = *stream};
    *stream = (gy_query_stream){.schema = NULL};
    made->limits = gy_query_run_share(run);
    made->limits.memory_bytes =
        (made->limits.memory_bytes + 1) / 2; /* sorting, what is emitted */
    made->limits.counts = &run->meters[node->number].counts;
    gy_status status = open_function(made);
    status = status == GY_OK ? sort_rows(made) : status;
    if (status == GY_OK) {
        status = gy_query_schema_of(run->plan, node->columns, node->count, &stream->schema);
    }
    if (status != GY_OK) {
        close_apply(made);
        return status;
    }
    stream->source = (gy_frame_source){.next = next, .close = close_apply, .arg = made};
    return GY_OK;
}
