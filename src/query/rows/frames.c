/* Frames: rows gathered, frames put together, lists of them, and what all operators share. */
#include "query/rows/rows_priv.h"

gy_frame_maker *gy_rows_makers_new(const gy_schema *schema)
{
    const int count = gy_schema_count(schema);
    gy_frame_maker *makers = gy_alloc_zero("query.makers", (size_t)count + 1, sizeof(*makers));
    for (int i = 0; makers != NULL && i < count; i++) {
        makers[i].field = *gy_schema_field(schema, i);
    }
    return makers;
}

void gy_rows_makers_free(gy_frame_maker *makers, int count)
{
    for (int i = 0; makers != NULL && i < count; i++) {
        gy_frame_maker_fini(&makers[i]);
    }
    gy_free(makers);
}

/* Set the bits [from, from + count). */
static void set_bits(uint8_t *bits, int64_t from, int64_t count)
{
    const int64_t end = from + count;
    for (; from < end && (from & 7) != 0; from++) {
        bits[from >> 3] |= (uint8_t)(1 << (from & 7));
    }
    memset(bits + (from >> 3), 255, (size_t)((end - from) >> 3));
    for (from += (end - from) & ~INT64_C(7); from < end; from++) {
        bits[from >> 3] |= (uint8_t)(1 << (from & 7));
    }
}

/* Which of the rows have a value; the maker's bits are zero there. */
static void append_valid(gy_frame_maker *maker, const gy_column *column, const int32_t *rows,
                         int64_t count, bool has_missing)
{
    if (column->valid == NULL && !has_missing) {
        set_bits(maker->valid, maker->rows, count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const bool is_null = rows[i] < 0 || gy_column_is_null(column, rows[i]);
        const int64_t at = maker->rows + i;
        maker->valid[at >> 3] |= (uint8_t)(!is_null << (at & 7));
        maker->nulls += is_null;
    }
}

static gy_status append_texts(gy_frame_maker *maker, const gy_column *column,
                              const int32_t *rows, int64_t count)
{
    const int32_t *offsets = (const int32_t *)column->values + column->offset;
    size_t bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        bytes += rows[i] < 0 ? 0 : (size_t)(offsets[rows[i] + 1] - offsets[rows[i]]);
    }
    GY_TRY(gy_frame_maker_reserve_text(maker, bytes));
    int32_t *to = (int32_t *)maker->values + maker->rows + 1;
    char *text = maker->text + maker->text_bytes;
    int32_t end = (int32_t)maker->text_bytes;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] >= 0) {
            const int32_t begin = offsets[rows[i]], size = offsets[rows[i] + 1] - begin;
            if (size > 0) {
                memcpy(text, column->text + begin, (size_t)size);
            }
            text += size;
            end += size;
        }
        to[i] = end;
    }
    maker->text_bytes += bytes;
    GY_ASSERT((size_t)end == maker->text_bytes);
    return GY_OK;
}

/* A row of -1 has zero; its bit says that it has no value. */
#define GATHER(type, to, from)                                                                 \
    for (int64_t i = 0; i < count && !has_missing; i++) {                                      \
        ((type *)(to))[i] = ((const type *)(from))[rows[i]];                                   \
    }                                                                                          \
    for (int64_t i = 0; i < count && has_missing; i++) {                                       \
        ((type *)(to))[i] = rows[i] < 0 ? (type)0 : ((const type *)(from))[rows[i]];           \
    }

typedef struct pair_of_words {
    uint64_t low, high;
} pair_of_words;

static void gather_values(gy_frame_maker *maker, const gy_column *column, const int32_t *rows,
                          int64_t count, bool has_missing)
{
    const size_t size = gy_frame_kind_bytes(maker->field.kind);
    if (size == 0) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = maker->rows + i;
            const bool value = rows[i] >= 0 && gy_column_bool(column, rows[i]);
            ((uint8_t *)maker->values)[at >> 3] |= (uint8_t)(value << (at & 7));
        }
        return;
    }
    char *to = (char *)maker->values + (size_t)maker->rows * size;
    const char *from = (const char *)column->values + (size_t)column->offset * size;
    if (size == 4) {
        GATHER(uint32_t, to, from)
    } else if (size == 8) {
        GATHER(uint64_t, to, from)
    } else {
        static const pair_of_words none;
        for (int64_t i = 0; i < count; i++) {
            memcpy(to + 16 * i,
                   rows[i] < 0 ? (const char *)&none : from + 16 * (int64_t)rows[i], 16);
        }
    }
}

gy_status gy_rows_append(gy_frame_maker *maker, const gy_column *column, const int32_t *rows,
                         int64_t count, bool has_missing)
{
    GY_ASSERT(maker->field.kind == column->field->kind);
    GY_TRY(gy_frame_maker_reserve(maker, count));
    if (maker->field.kind == GY_FIELD_TEXT) {
        GY_TRY(append_texts(maker, column, rows, count));
    } else {
        gather_values(maker, column, rows, count, has_missing);
    }
    append_valid(maker, column, rows, count, has_missing);
    maker->rows += count;
    return GY_OK;
}

/* Append a stretch of a column of texts: one copy. */
static gy_status append_text_range(gy_frame_maker *maker, const gy_column *column,
                                   int64_t begin, int64_t count)
{
    const int32_t *from = (const int32_t *)column->values + column->offset + begin;
    const size_t bytes = (size_t)(from[count] - from[0]);
    GY_TRY(gy_frame_maker_reserve_text(maker, bytes));
    if (bytes > 0) {
        memcpy(maker->text + maker->text_bytes, column->text + from[0], bytes);
    }
    int32_t *to = (int32_t *)maker->values + maker->rows + 1;
    for (int64_t i = 0; i < count; i++) {
        to[i] = (int32_t)maker->text_bytes + (from[i + 1] - from[0]);
    }
    maker->text_bytes += bytes;
    return GY_OK;
}

gy_status gy_rows_append_range(gy_frame_maker *maker, const gy_column *column, int64_t begin,
                               int64_t count)
{
    GY_ASSERT(begin >= 0 && begin + count <= column->rows);
    GY_TRY(gy_frame_maker_reserve(maker, count));
    const size_t size = gy_frame_kind_bytes(maker->field.kind);
    if (maker->field.kind == GY_FIELD_TEXT) {
        GY_TRY(append_text_range(maker, column, begin, count));
    } else if (size > 0 && count > 0) {
        memcpy((char *)maker->values + (size_t)maker->rows * size,
               (const char *)column->values + (size_t)(column->offset + begin) * size,
               (size_t)count * size);
    }
    if (column->valid == NULL) {
        set_bits(maker->valid, maker->rows, count);
    }
    for (int64_t i = 0; i < count && (column->valid != NULL || size == 0); i++) {
        const int64_t at = maker->rows + i;
        const bool is_null = gy_column_is_null(column, begin + i);
        maker->valid[at >> 3] |= (uint8_t)(!is_null << (at & 7));
        maker->nulls += is_null;
        if (size == 0) {
            const bool value = gy_column_bool(column, begin + i);
            ((uint8_t *)maker->values)[at >> 3] |= (uint8_t)(value << (at & 7));
        }
    }
    maker->rows += count;
    return GY_OK;
}

gy_status gy_rows_append_int64(gy_frame_maker *maker, int64_t value, int64_t count)
{
    GY_ASSERT(maker->field.kind == GY_FIELD_INT64);
    GY_TRY(gy_frame_maker_reserve(maker, count));
    for (int64_t i = 0; i < count; i++) {
        ((int64_t *)maker->values)[maker->rows + i] = value;
    }
    set_bits(maker->valid, maker->rows, count);
    maker->rows += count;
    return GY_OK;
}

gy_status gy_rows_schema_of(const gy_schema *left, const gy_schema *right, const int *columns,
                            int count, gy_schema **schema)
{
    const int lefts = gy_schema_count(left);
    const int all = lefts + (right == NULL ? 0 : gy_schema_count(right));
    count = columns == NULL ? all : count;
    gy_field *fields = gy_alloc_zero("query.fields", (size_t)count + 1, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        const int at = columns == NULL ? i : columns[i];
        GY_ASSERT(at >= 0 && at < all);
        fields[i] =
            at < lefts ? *gy_schema_field(left, at) : *gy_schema_field(right, at - lefts);
    }
    const gy_status status = gy_schema_new(fields, count, schema);
    gy_free(fields);
    return status;
}

gy_status gy_rows_schema_tagged(const gy_schema *schema, gy_schema **tagged)
{
    gy_schema *tag = NULL;
    const gy_field field = {.name = "", .kind = GY_FIELD_INT64};
    GY_TRY(gy_schema_new(&field, 1, &tag));
    const gy_status status = gy_rows_schema_of(schema, tag, NULL, 0, tagged);
    gy_schema_drop(tag);
    return status;
}

gy_status gy_rows_check_columns(const gy_schema *schema, const int *columns, int count,
                                const char *what)
{
    for (int i = 0; i < count; i++) {
        if (columns[i] < 0 || columns[i] >= gy_schema_count(schema)) {
            return gy_fail(GY_ARG, "%s: column %d of %d", what, columns[i],
                           gy_schema_count(schema));
        }
    }
    return GY_OK;
}

gy_status gy_rows_check_same(const gy_field *a, const gy_field *b)
{
    if (a->kind != b->kind || a->scale != b->scale) {
        return gy_fail(GY_TYPE, "columns '%s' (%s) and '%s' (%s) have two types", a->name,
                       gy_field_kind_name(a->kind), b->name, gy_field_kind_name(b->kind));
    }
    return GY_OK;
}

uint64_t gy_rows_bytes(const gy_frame *frame)
{
    const uint64_t rows = (uint64_t)gy_frame_rows(frame);
    uint64_t bytes = 0;
    for (int i = 0; i < gy_schema_count(gy_frame_schema(frame)); i++) {
        const gy_column column = gy_frame_column(frame, i);
        const size_t size = gy_frame_kind_bytes(column.field->kind);
        bytes += size == 0 ? rows / 8 : rows * size;
        bytes += column.valid == NULL ? 0 : rows / 8;
        if (column.field->kind == GY_FIELD_TEXT) {
            const int32_t *offsets = (const int32_t *)column.values + column.offset;
            bytes += (uint64_t)(offsets[rows] - offsets[0]);
        }
    }
    return bytes;
}

gy_status gy_rows_gather(const gy_frame *frame, const int32_t *rows, int64_t count,
                         gy_frame **gathered)
{
    gy_schema *schema = gy_frame_schema(frame);
    gy_frame_maker *makers = gy_rows_makers_new(schema);
    gy_status status = makers == NULL ? GY_NOMEM : GY_OK;
    bool has_missing = false;
    for (int64_t i = 0; i < count; i++) {
        has_missing |= rows[i] < 0;
        GY_CHECK_DEEP(rows[i] >= -1 && rows[i] < gy_frame_rows(frame));
    }
    for (int i = 0; i < gy_schema_count(schema) && status == GY_OK; i++) {
        const gy_column column = gy_frame_column(frame, i);
        status = gy_rows_append(&makers[i], &column, rows, count, has_missing);
    }
    if (status == GY_OK) {
        status = gy_frame_make(schema, makers, count, gathered);
    }
    gy_rows_makers_free(makers, gy_schema_count(schema));
    return status;
}

/* Frames that are put together, column by column. */
typedef struct joining {
    gy_frame *const *frames;
    size_t count;
    int64_t rows;
    gy_frame_maker *makers;
} joining;

static gy_status append_column(void *arg, int64_t k)
{
    const joining *in = arg;
    GY_TRY(gy_frame_maker_reserve(&in->makers[k], in->rows));
    for (size_t i = 0; i < in->count; i++) {
        const gy_column column = gy_frame_column(in->frames[i], (int)k);
        GY_TRY(gy_rows_append_range(&in->makers[k], &column, 0, column.rows));
    }
    return GY_OK;
}

gy_status gy_rows_concat_by(gy_engine *engine, gy_schema *schema, gy_frame *const *frames,
                            size_t count, gy_frame **all)
{
    if (count == 1 && gy_frame_schema(frames[0]) == schema) {
        *all = gy_frame_hold(frames[0]);
        return GY_OK;
    }
    const int columns = gy_schema_count(schema);
    joining in = {.frames = frames, .count = count, .makers = gy_rows_makers_new(schema)};
    gy_status status = in.makers == NULL ? GY_NOMEM : GY_OK;
    for (size_t k = 0; k < count; k++) {
        in.rows += gy_frame_rows(frames[k]);
    }
    if (status == GY_OK) {
        status = gy_rows_each(engine, columns, append_column, &in);
    }
    if (status == GY_OK) {
        status = gy_frame_make(schema, in.makers, in.rows, all);
    }
    gy_rows_makers_free(in.makers, columns);
    return status;
}

gy_status gy_rows_concat(gy_schema *schema, gy_frame *const *frames, size_t count,
                         gy_frame **all)
{
    return gy_rows_concat_by(NULL, schema, frames, count, all);
}

/* ---- work by several workers ---- */

typedef struct each {
    gy_status (*run)(void *arg, int64_t index);
    void *arg;
    gy_error *errors; /* (count) */
} each;

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const each *in = arg;
    for (int64_t i = begin; i < end; i++) {
        (void)gy_error_keep(&in->errors[i], in->run(in->arg, i));
    }
}

gy_status gy_rows_each(gy_engine *engine, int64_t count,
                       gy_status (*run)(void *arg, int64_t index), void *arg)
{
    each in = {.run = run, .arg = arg};
    in.errors = gy_alloc_zero("query.errors", (size_t)count + 1, sizeof(*in.errors));
    if (in.errors == NULL) {
        return GY_NOMEM;
    }
    gy_parallel_for(engine, count, 1, run_range, &in);
    gy_status status = GY_OK;
    for (int64_t i = 0; i < count && status == GY_OK; i++) {
        if (in.errors[i].status < 0) {
            status = gy_error_raise(&in.errors[i]);
        }
    }
    gy_free(in.errors);
    return status;
}

/* ---- lists and sources ---- */

gy_status gy_rows_list_add(gy_rows_list *list, gy_frame *frame)
{
    const gy_status status =
        GY_GROW("query.list", list->frames, list->capacity, list->count + 1);
    if (status < 0) {
        gy_frame_drop(frame);
        return status;
    }
    list->frames[list->count++] = frame;
    list->bytes += gy_rows_bytes(frame);
    list->rows += gy_frame_rows(frame);
    return GY_OK;
}

void gy_rows_list_free(gy_rows_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        gy_frame_drop(list->frames[i]);
    }
    gy_free(list->frames);
    *list = (gy_rows_list){.count = 0};
}

typedef struct memory_source {
    gy_rows_list list;
    size_t at;
} memory_source;

static gy_status memory_next(void *arg, gy_frame **frame)
{
    memory_source *source = arg;
    if (source->at == source->list.count) {
        return GY_DONE;
    }
    *frame = gy_frame_hold(source->list.frames[source->at++]);
    return GY_OK;
}

static void memory_close(void *arg)
{
    memory_source *source = arg;
    gy_rows_list_free(&source->list);
    gy_free(source);
}

gy_status gy_rows_source(gy_frame *const *frames, size_t count, gy_frame_source *out)
{
    memory_source *source = gy_alloc_zero("query.source", 1, sizeof(*source));
    if (source == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const gy_status status = gy_rows_list_add(&source->list, gy_frame_hold(frames[i]));
        if (status < 0) {
            memory_close(source);
            return status;
        }
    }
    *out = (gy_frame_source){.next = memory_next, .close = memory_close, .arg = source};
    return GY_OK;
}

gy_status gy_rows_next(const gy_frame_source *source, gy_rows_counts *counts, gy_frame **frame)
{
    const gy_status status = source->next(source->arg, frame);
    if (status == GY_OK && counts != NULL) {
        counts->rows_in += gy_frame_rows(*frame);
        counts->bytes_in += gy_rows_bytes(*frame);
    }
    return status;
}

void gy_rows_close(gy_frame_source *source)
{
    if (source->close != NULL) {
        source->close(source->arg);
    }
    *source = (gy_frame_source){.next = NULL};
}

gy_status gy_rows_limits_copy(const gy_rows_limits *limits, gy_rows_limits *copy)
{
    *copy = limits == NULL ? (gy_rows_limits){.memory_bytes = 0} : *limits;
    copy->env = copy->env == NULL ? gy_env_real() : copy->env;
    if (copy->memory_bytes != 0) {
        copy->memory_bytes = GY_MAX(copy->memory_bytes, (uint64_t)GY_ROWS_MEMORY_BYTES_MIN);
        GY_ASSERT(copy->spill_folder != NULL);
    }
    if (copy->spill_folder != NULL) {
        copy->spill_folder = gy_copy_text("query.folder", copy->spill_folder);
        return copy->spill_folder == NULL ? GY_NOMEM : GY_OK;
    }
    return GY_OK;
}

void gy_rows_limits_fini(gy_rows_limits *limits)
{
    union {
        const char *text;
        void *memory;
    } folder = {.text = limits->spill_folder};
    gy_free(folder.memory);
    limits->spill_folder = NULL;
}
