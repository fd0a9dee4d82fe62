/**
 * For the tests of operators: random frames, frames as rows of texts, and sources that cut
 * them.
 */
#ifndef GY_QUERY_ROWS_RANDOM_TEST_H
#define GY_QUERY_ROWS_RANDOM_TEST_H

#include "base/base.h"
#include "query/rows/rows.h"

#include "gy_test.h"

static int64_t test_live;

/** What a random frame is like. */
typedef struct test_shape {
    int64_t rows, distinct; /* so many values a column, at most; the small ones are frequent */
    unsigned null_percent;
} test_shape;

static inline gy_schema *test_schema(gy_random *random, int columns)
{
    gy_field fields[16];
    GY_ASSERT(columns <= 16);
    for (int i = 0; i < columns; i++) {
        const gy_field_kind kind = (gy_field_kind)(1 + gy_random_below(random, 7));
        fields[i] = (gy_field){.name = "c", .kind = kind};
        if (kind == GY_FIELD_DECIMAL) {
            fields[i].precision = 10 + (int)gy_random_below(random, 29);
            fields[i].scale = (int)gy_random_below(random, 5);
        }
    }
    gy_schema *schema = NULL;
    assert_ok(gy_schema_new(fields, columns, &schema));
    return schema;
}

/** A value by its number. */
static inline void test_add(gy_frame_builder *builder, gy_field_kind kind, int64_t value)
{
    char text[64];
    switch (kind) {
    case GY_FIELD_BOOL:
        gy_frame_add_bool(builder, (value & 1) != 0);
        break;
    case GY_FIELD_INT64:
        gy_frame_add_int64(builder, value % 11 == 3 ? value * INT64_C(98765432109) : 3 - value);
        break;
    case GY_FIELD_DOUBLE:
        gy_frame_add_double(builder, value % 13 == 1   ? -0.0
                                     : value % 13 == 2 ? (double)0
                                                       : (double)(value - 7) * 0.1);
        break;
    case GY_FIELD_DECIMAL:
        gy_frame_add_decimal(builder, (gy_int128)(value - 5) * 12345);
        break;
    case GY_FIELD_DATE:
        gy_frame_add_date(builder, (int32_t)(value * 37 % 100000));
        break;
    case GY_FIELD_TIMESTAMP:
        gy_frame_add_timestamp(builder, value * 3600000001 % 1000000000000000);
        break;
    case GY_FIELD_TEXT:
    default: {
        const size_t size = gy_print(text, sizeof(text),
                                     value % 3 == 0   ? "%lld"
                                     : value % 3 == 1 ? "a text that is long %lld"
                                                      : "a\xc3\xa4%lld",
                                     (long long)(value / 2));
        gy_frame_add_text(builder, text, value == 0 ? 0 : size);
        break;
    }
    }
}

static inline gy_frame *test_frame(gy_random *random, gy_schema *schema,
                                   const test_shape *shape)
{
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_frame_builder_new(schema, &builder));
    for (int64_t row = 0; row < shape->rows; row++) {
        for (int i = 0; i < gy_schema_count(schema); i++) {
            uint64_t value = gy_random_below(random, (uint64_t)shape->distinct);
            value =
                gy_random_below(random, 3) == 0 ? gy_random_below(random, value + 1) : value;
            if (gy_random_below(random, 100) < shape->null_percent) {
                gy_frame_add_null(builder);
            } else {
                test_add(builder, gy_schema_field(schema, i)->kind, (int64_t)value);
            }
        }
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    return frame;
}

/** A value as a text that tells all values apart: "null", or the kind's own, with quotes. -0 is
 * 0, as in keys. */
static inline size_t test_value(const gy_column *column, int64_t row, char *to, size_t size)
{
    if (gy_column_is_null(column, row)) {
        return gy_print(to, size, "null");
    }
    if (column->field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(column, row);
        return gy_print(to, size, "'%.*s'", (int)text.size_bytes, text.data);
    }
    if (column->field->kind == GY_FIELD_DOUBLE && gy_column_double(column, row) == 0) {
        return gy_print(to, size, "0");
    }
    char value[GY_FRAME_VALUE_BYTES];
    gy_frame_write(column, row, value);
    return gy_print(to, size, "%s", value);
}

static inline void test_same(const gy_frame *a, const gy_frame *b)
{
    const int columns = gy_schema_count(gy_frame_schema(a));
    assert_int_equal(columns, gy_schema_count(gy_frame_schema(b)));
    assert_int_equal(gy_frame_rows(a), gy_frame_rows(b));
    for (int i = 0; i < columns; i++) {
        const gy_column left = gy_frame_column(a, i), right = gy_frame_column(b, i);
        assert_int_equal(left.field->kind, right.field->kind);
        for (int64_t row = 0; row < left.rows; row++) {
            char x[256], y[256];
            test_value(&left, row, x, sizeof(x));
            test_value(&right, row, y, sizeof(y));
            assert_string_equal(x, y);
        }
    }
}

/** The rows of a frame in random cuts, some of which are empty. */
static inline gy_frame_source test_cut(gy_random *random, const gy_frame *frame, int64_t most)
{
    gy_frame *cuts[4096];
    size_t count = 0;
    for (int64_t at = 0; at < gy_frame_rows(frame) || count == 0;) {
        const int64_t left = gy_frame_rows(frame) - at;
        const int64_t rows = (int64_t)gy_random_below(random, (uint64_t)most + 1);
        assert_true(count < GY_COUNT(cuts));
        assert_ok(gy_frame_slice(frame, at, at + GY_MIN(rows, left), &cuts[count++]));
        at += GY_MIN(rows, left);
    }
    gy_frame_source source;
    assert_ok(gy_rows_source(cuts, count, &source));
    for (size_t i = 0; i < count; i++) {
        gy_frame_drop(cuts[i]);
    }
    return source;
}

/** All rows of a source as one frame, or the failure; closes it. */
static inline gy_status test_collect(gy_frame_source *source, gy_schema *schema, gy_frame **all)
{
    gy_frame **frames = NULL, *next = NULL;
    size_t count = 0, capacity = 0;
    gy_status status = GY_OK;
    while ((status = source->next(source->arg, &next)) == GY_OK) {
        assert_true(gy_frame_rows(next) <= GY_ROWS_FRAME);
        status = GY_GROW("test", frames, capacity, count + 1);
        if (status < 0) {
            gy_frame_drop(next);
            break;
        }
        frames[count++] = next;
    }
    if (status == GY_DONE) {
        status = gy_rows_concat(schema, frames, count, all);
    }
    for (size_t i = 0; i < count; i++) {
        gy_frame_drop(frames[i]);
    }
    gy_free(frames);
    source->close(source->arg);
    return status;
}

/** Some columns of a row as a text that is equal where they are. The caller frees it. */
static inline char *test_row(const gy_frame *frame, const int *columns, int count, int64_t row)
{
    char text[4096];
    size_t size = 0;
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        const gy_column column = gy_frame_column(frame, columns == NULL ? i : columns[i]);
        size += test_value(&column, row, text + size, sizeof(text) - size);
        size += gy_print(text + size, sizeof(text) - size, "|");
    }
    char *copy = gy_copy_text("test", text);
    assert_non_null(copy);
    return copy;
}

/** Rows as texts. */
typedef struct test_texts {
    char **texts;
    int64_t count;
} test_texts;

static inline test_texts test_rows(const gy_frame *frame, const int *columns, int count)
{
    const int64_t rows = gy_frame_rows(frame);
    test_texts made = {gy_alloc_zero("test", (size_t)rows + 1, sizeof(char *)), rows};
    assert_non_null(made.texts);
    for (int64_t row = 0; row < rows; row++) {
        made.texts[row] = test_row(frame, columns, count, row);
    }
    return made;
}

static inline void test_texts_free(test_texts *texts)
{
    for (int64_t i = 0; i < texts->count; i++) {
        gy_free(texts->texts[i]);
    }
    gy_free(texts->texts);
}

static inline int test_text_order(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static inline void test_texts_sort(test_texts *texts)
{
    qsort(texts->texts, (size_t)texts->count, sizeof(char *), test_text_order);
}

/** Whether two lists of texts are equal. */
static inline void test_texts_same(const test_texts *a, const test_texts *b)
{
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        assert_string_equal(a->texts[i], b->texts[i]);
    }
}

#endif
