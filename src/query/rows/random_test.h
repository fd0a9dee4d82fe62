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

/** A value as a text that tells all values apart: "null", or the kind's own, with quotes. */
static inline size_t test_write(const gy_column *column, int64_t row, char *to, size_t size)
{
    if (gy_column_is_null(column, row)) {
        return gy_print(to, size, "null");
    }
    if (column->field->kind == GY_FIELD_TEXT) {
        const gy_text_view text = gy_column_text(column, row);
        return gy_print(to, size, "'%.*s'", (int)text.size_bytes, text.data);
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
            test_write(&left, row, x, sizeof(x));
            test_write(&right, row, y, sizeof(y));
            assert_string_equal(x, y);
        }
    }
}

#endif
