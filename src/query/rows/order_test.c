/* Goal: rows are sorted as a plain stable sort does it, whatever the keys, the memory and the
 * limit; sources that are in order merge; rows are cut by a limit; what fails leaves no file.
 */
#include "query/rows/disk_test.h"
#include "query/rows/random_test.h"

#include "gy_test.h"

/* What the reference compares. */
static const gy_frame *compared;
static const gy_rows_sort_key *compared_keys;
static int compared_count;

static int order_values(const gy_column *column, int64_t a, int64_t b)
{
    switch (column->field->kind) {
    case GY_FIELD_BOOL:
        return gy_column_bool(column, a) - gy_column_bool(column, b);
    case GY_FIELD_DOUBLE: {
        const double x = gy_column_double(column, a), y = gy_column_double(column, b);
        return (x > y) - (x < y);
    }
    case GY_FIELD_DECIMAL: {
        const gy_int128 x = gy_column_decimal(column, a), y = gy_column_decimal(column, b);
        return (x > y) - (x < y);
    }
    case GY_FIELD_DATE:
        return gy_column_date(column, a) - gy_column_date(column, b);
    case GY_FIELD_TEXT: {
        const gy_text_view x = gy_column_text(column, a), y = gy_column_text(column, b);
        const int order = memcmp(x.data, y.data, GY_MIN(x.size_bytes, y.size_bytes));
        return order != 0 ? order : (int)x.size_bytes - (int)y.size_bytes;
    }
    case GY_FIELD_INT64:
    case GY_FIELD_TIMESTAMP:
    default: {
        const int64_t x = gy_column_int64(column, a), y = gy_column_int64(column, b);
        return (x > y) - (x < y);
    }
    }
}

static int order_rows(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    for (int k = 0; k < compared_count; k++) {
        const gy_column column = gy_frame_column(compared, compared_keys[k].column);
        const bool x_null = gy_column_is_null(&column, x),
                   y_null = gy_column_is_null(&column, y);
        int order = 0;
        if (x_null || y_null) {
            order = x_null == y_null ? 0 : x_null == compared_keys[k].nulls_first ? -1 : 1;
        } else {
            order = order_values(&column, x, y);
            order = compared_keys[k].is_descending ? -order : order;
        }
        if (order != 0) {
            return order;
        }
    }
    return x < y ? -1 : x > y;
}

static gy_frame *reference(const gy_frame *frame, const gy_rows_sort_key *keys, int key_count,
                           int64_t limit)
{
    const int64_t rows = gy_frame_rows(frame);
    int32_t *order = gy_alloc("test", ((size_t)rows + 1) * sizeof(*order));
    assert_non_null(order);
    for (int64_t i = 0; i < rows; i++) {
        order[i] = (int32_t)i;
    }
    compared = frame;
    compared_keys = keys;
    compared_count = key_count;
    qsort(order, (size_t)rows, sizeof(*order), order_rows);
    gy_frame *sorted = NULL;
    assert_ok(gy_rows_gather(frame, order, limit < 0 ? rows : GY_MIN(rows, limit), &sorted));
    gy_free(order);
    return sorted;
}

static gy_status sort(gy_random *random, const gy_frame *frame, int64_t most,
                      const gy_rows_sort_options *options, gy_frame **all)
{
    gy_frame_source out;
    gy_schema *schema = NULL;
    GY_TRY(gy_rows_sort(test_cut(random, frame, most), gy_frame_schema(frame), options, &out,
                        &schema));
    const gy_status status = test_collect(&out, schema, all);
    gy_schema_drop(schema);
    return status;
}

static int random_keys(gy_random *random, int columns, gy_rows_sort_key keys[4])
{
    const int count = columns == 0 ? 0 : (int)gy_random_below(random, 4);
    for (int k = 0; k < count; k++) {
        keys[k] = (gy_rows_sort_key){.column = (int)gy_random_below(random, (uint64_t)columns),
                                     .is_descending = gy_random_below(random, 2) == 0,
                                     .nulls_first = gy_random_below(random, 2) == 0};
    }
    return count;
}

GY_TEST(rows_are_sorted_as_a_plain_sort_does_it)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_serial_cases(120); round++) {
        const int columns = (int)gy_random_below(&random, 6);
        gy_schema *schema = test_schema(&random, columns);
        const test_shape shape = {.rows = (int64_t)gy_random_below(&random, 600),
                                  .distinct = 1 + (int64_t)gy_random_below(&random, 90),
                                  .null_percent = round % 3 == 0 ? 0 : 20};
        gy_frame *frame = test_frame(&random, schema, &shape), *all = NULL;
        gy_rows_sort_key keys[4];
        const int64_t limit =
            round % 4 == 0 ? (int64_t)gy_random_below(&random, 40) : (int64_t)-1;
        const gy_rows_sort_options options = {
            .keys = keys, .key_count = random_keys(&random, columns, keys), .limit = limit};
        gy_frame *expected = reference(frame, keys, options.key_count, limit);
        assert_ok(sort(&random, frame, 100, &options, &all));
        test_same(expected, all);
        gy_frame_drop(all);
        gy_frame_drop(expected);
        gy_frame_drop(frame);
        gy_schema_drop(schema);
    }
}

GY_TEST(rows_that_spill_are_sorted_the_same)
{
    gy_random random = {gy_test_seed(), 1};
    for (long round = 0; round < gy_test_serial_cases(6); round++) {
        const int columns = 3;
        gy_schema *schema = test_schema(&random, columns);
        const test_shape shape = {
            .rows = 20000, .distinct = round % 2 == 0 ? 30 : 5000, .null_percent = 10};
        gy_frame *frame = test_frame(&random, schema, &shape), *all = NULL, *first = NULL;
        gy_rows_sort_key keys[4];
        gy_rows_counts counts = {.rows_in = 0};
        gy_rows_sort_options options = {
            .keys = keys,
            .key_count = random_keys(&random, columns, keys),
            .limit = -1,
            .limits = {.memory_bytes = 1, .spill_folder = test_files, .counts = &counts}};
        gy_frame *expected = reference(frame, keys, options.key_count, -1);
        assert_ok(sort(&random, frame, 700, &options, &all));
        assert_true(counts.spills > 4); /* more runs than are merged at once */
        assert_int_equal(counts.rows_in, shape.rows);
        assert_int_equal(counts.rows_out, shape.rows);
        test_same(expected, all);
        options.limit = 9000;
        assert_ok(sort(&random, frame, 700, &options, &first));
        gy_frame *some = NULL;
        assert_ok(gy_frame_slice(expected, 0, 9000, &some));
        test_same(some, first);
        gy_frame_drop(some);
        gy_frame_drop(first);
        gy_frame_drop(all);
        gy_frame_drop(expected);
        gy_frame_drop(frame);
        gy_schema_drop(schema);
    }
}

GY_TEST(a_limit_over_many_rows_keeps_the_first_ones)
{
    gy_random random = {gy_test_seed(), 2};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int, b text", &schema));
    const test_shape shape = {.rows = 90000, .distinct = 3000, .null_percent = 2};
    gy_frame *frame = test_frame(&random, schema, &shape), *all = NULL;
    const gy_rows_sort_key keys[] = {{.column = 1, .is_descending = true}, {.column = 0}};
    for (int count = 0; count <= 2; count++) {
        const gy_rows_sort_options options = {.keys = keys, .key_count = count, .limit = 50};
        gy_frame *expected = reference(frame, keys, count, 50);
        assert_ok(sort(&random, frame, 3000, &options, &all));
        test_same(expected, all);
        gy_frame_drop(all);
        gy_frame_drop(expected);
    }
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST(doubles_are_ordered_as_postgresql_does)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL, *all = NULL;
    assert_ok(gy_schema_parse("d double", &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    const double values[] = {__builtin_nan(""), 1,    -__builtin_inf(),  0, -1,
                             __builtin_inf(),   -0.0, -__builtin_nan("")};
    for (size_t i = 0; i < GY_COUNT(values); i++) {
        gy_frame_add_double(builder, values[i]);
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    gy_random random = {gy_test_seed(), 3};
    const gy_rows_sort_key keys[] = {{.column = 0}};
    const gy_rows_sort_options options = {.keys = keys, .key_count = 1, .limit = -1};
    assert_ok(sort(&random, frame, 3, &options, &all));
    static const int expected[] = {2, 4, 3, 6, 1, 5, 0, 7};
    const gy_column column = gy_frame_column(all, 0);
    for (size_t i = 0; i < GY_COUNT(values); i++) {
        const double got = gy_column_double(&column, (int64_t)i);
        assert_memory_equal(&got, &values[expected[i]], sizeof(got));
    }
    gy_frame_drop(all);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST(a_limit_cuts_rows)
{
    gy_random random = {gy_test_seed(), 4};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int", &schema));
    const test_shape shape = {.rows = 300, .distinct = 300};
    gy_frame *frame = test_frame(&random, schema, &shape);
    for (long round = 0; round < gy_test_serial_cases(60); round++) {
        const int64_t offset = (int64_t)gy_random_below(&random, 350);
        const int64_t count = (int64_t)gy_random_below(&random, 350) - 1;
        const int64_t from = GY_MIN(offset, shape.rows);
        gy_frame_source out;
        gy_schema *same = NULL;
        gy_frame *all = NULL, *expected = NULL;
        assert_ok(
            gy_rows_slice(test_cut(&random, frame, 60), schema, offset, count, &out, &same));
        assert_ok(test_collect(&out, same, &all));
        assert_ok(gy_frame_slice(
            frame, from, count < 0 ? shape.rows : GY_MIN(from + count, shape.rows), &expected));
        test_same(expected, all);
        gy_frame_drop(expected);
        gy_frame_drop(all);
        gy_schema_drop(same);
    }
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST(failed_memory_and_full_disks_leave_nothing)
{
    gy_random random = {gy_test_seed(), 5};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int, b text", &schema));
    const test_shape shape = {.rows = 9000, .distinct = 3000, .null_percent = 2};
    gy_frame *frame = test_frame(&random, schema, &shape);
    const gy_rows_sort_key keys[] = {{.column = 1}, {.column = 0}};
    gy_env env;
    const gy_rows_sort_options options = {
        .keys = keys,
        .key_count = 2,
        .limit = -1,
        .limits = {.memory_bytes = 1, .spill_folder = test_files, .env = test_disk_env(&env)}};
    bool is_done = false;
    for (int64_t n = 1; !is_done; n += 1 + n / 8) {
        gy_frame *all = NULL;
        gy_random same = {7, 7};
        gy_frame_source out, in = test_cut(&same, frame, 900);
        gy_schema *out_schema = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_rows_sort(in, schema, &options, &out, &out_schema);
        if (status == GY_OK) {
            status = test_collect(&out, out_schema, &all);
        }
        gy_alloc_fail_after(0);
        gy_schema_drop(out_schema);
        gy_frame_drop(all);
        is_done = status == GY_OK;
        assert_true(is_done || status == GY_NOMEM);
    }
    for (int at = 0; at == 0 || at <= test_disk_calls.count; at += 1 + at / 3) {
        gy_frame *all = NULL;
        gy_random same = {7, 7};
        test_disk_calls.now = 0;
        test_disk_calls.fails_at = at;
        assert_status(sort(&same, frame, 900, &options, &all), at == 0 ? GY_OK : GY_IO);
        test_disk_calls.count = at == 0 ? test_disk_calls.now : test_disk_calls.count;
        gy_frame_drop(all);
        assert_int_equal(test_entry_count(test_files), 0);
    }
    assert_true(test_disk_calls.count > 10);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST_MAIN(test_disk_begin, test_disk_end)
