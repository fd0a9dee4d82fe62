/* Goal: schemas are read and written, frames hold what was appended, slices and selections see
 * the same values without copies, and the last hold frees the memory. */
#include "frame/frame.h"

#include "gy_test.h"

static int64_t live;

static int begin(void **state)
{
    (void)state;
    live = gy_alloc_live();
    return 0;
}

static int end(void **state)
{
    (void)state;
    return gy_alloc_live() == live ? 0 : -1;
}

GY_TEST(schemas_are_read_as_they_are_written)
{
    static const struct {
        const char *text, *written; /* written NULL: refused */
    } rows[] = {
        {"", ""},
        {"a int", "a int64"},
        {" a INTEGER , b Text,c double precision ", "a int64, b text, c double"},
        {"\"odd, \"\"name\"\"\" numeric(12, 2)", "\"odd, \"\"name\"\"\" decimal(12, 2)"},
        {"d date, t timestamptz, f bool, g decimal(38)",
         "d date, t timestamp, f bool, g decimal(38, 0)"},
        {"\"\" text, größe int8", "\"\" text, größe int64"},
        {"a", NULL},
        {"a int,", NULL},
        {"a int b text", NULL},
        {"a money", NULL},
        {"a decimal", NULL},
        {"a decimal(39, 2)", NULL},
        {"a decimal(2, 3)", NULL},
        {"a decimal(0)", NULL},
        {"a decimal(1, 2, 3)", NULL},
        {"\"a int", NULL},
        {"a, int", NULL},
        {"\xff text", NULL},
    };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        gy_schema *schema = NULL;
        const gy_status status = gy_schema_parse(rows[i].text, &schema);
        if (rows[i].written == NULL) {
            assert_status(status, GY_ARG);
            continue;
        }
        assert_ok(status);
        char *text = NULL;
        assert_ok(gy_schema_text(schema, &text));
        assert_string_equal(text, rows[i].written);
        gy_schema *again = NULL;
        assert_ok(gy_schema_parse(text, &again));
        assert_int_equal(gy_schema_count(again), gy_schema_count(schema));
        gy_schema_drop(again);
        gy_string_free(text);
        gy_schema_drop(schema);
    }
}

GY_TEST(columns_are_found_by_name)
{
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int, b int, a text", &schema));
    assert_int_equal(gy_schema_find(schema, "b"), 1);
    assert_int_equal(gy_schema_find(schema, "a"), -2);
    assert_int_equal(gy_schema_find(schema, "c"), -1);
    gy_schema_drop(schema);
}

#define ALL                                                                                    \
    "f bool, i int, d double, m decimal(38, 4), day date, at timestamp, "                      \
    "name text"

/* Row r of the frame that make_rows makes; each value is null where (r + column) % 5 == 0. */
static void add_row(gy_frame_builder *builder, int64_t r)
{
    char text[32];
    const size_t size =
        gy_print(text, sizeof(text), "%.*s%lld", (int)(r % 4), "äü", (long long)r);
    for (int column = 0; column < 7; column++) {
        if ((r + column) % 5 == 0) {
            gy_frame_add_null(builder);
            continue;
        }
        switch (column) {
        case 0:
            gy_frame_add_bool(builder, r % 3 == 0);
            break;
        case 1:
            gy_frame_add_int64(builder, r * r - 50);
            break;
        case 2:
            gy_frame_add_double(builder, (double)r / 4);
            break;
        case 3:
            gy_frame_add_decimal(builder, (gy_int128)r << 90);
            break;
        case 4:
            gy_frame_add_date(builder, (int32_t)r * 100);
            break;
        case 5:
            gy_frame_add_timestamp(builder, r * 1234567891);
            break;
        default:
            gy_frame_add_text(builder, text, r % 4 == 1 || r % 4 == 3 ? size - size : size);
        }
    }
    gy_frame_row_end(builder);
}

static gy_frame *make_rows(int64_t rows)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse(ALL, &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    gy_schema_drop(schema);
    for (int64_t r = 0; r < rows; r++) {
        add_row(builder, r);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    return frame;
}

/* Row `row` of a frame is row r of make_rows. */
static void check_row(const gy_frame *frame, int64_t row, int64_t r)
{
    for (int i = 0; i < 7; i++) {
        const gy_column column = gy_frame_column(frame, i);
        assert_int_equal(gy_column_is_null(&column, row), (r + i) % 5 == 0);
        if ((r + i) % 5 == 0) {
            continue;
        }
        if (i == 0) {
            assert_int_equal(gy_column_bool(&column, row), r % 3 == 0);
        } else if (i == 1) {
            assert_int_equal(gy_column_int64(&column, row), r * r - 50);
        } else if (i == 2) {
            assert_true(gy_column_double(&column, row) == (double)r / 4);
        } else if (i == 3) {
            assert_true(gy_column_decimal(&column, row) == (gy_int128)r << 90);
        } else if (i == 4) {
            assert_int_equal(gy_column_date(&column, row), r * 100);
        } else if (i == 5) {
            assert_int_equal(gy_column_int64(&column, row), r * 1234567891);
        } else if (r % 4 == 0) {
            char text[32];
            const size_t size = gy_print(text, sizeof(text), "%lld", (long long)r);
            const gy_text_view view = gy_column_text(&column, row);
            assert_int_equal(view.size_bytes, size);
            assert_memory_equal(view.data, text, size);
        }
    }
}

GY_TEST(slices_of_slices_see_their_rows)
{
    enum { ROWS = 300 };
    gy_random random = {.key = gy_test_seed()};
    gy_frame *frame = make_rows(ROWS);
    for (long i = gy_test_cases(200); i > 0; i--) {
        const int64_t from = (int64_t)gy_random_below(&random, ROWS + 1);
        const int64_t to =
            from + (int64_t)gy_random_below(&random, (uint64_t)(ROWS - from) + 1);
        gy_frame *outer = NULL, *inner = NULL;
        assert_ok(gy_frame_slice(frame, from, to, &outer));
        const int64_t skip = (int64_t)gy_random_below(&random, (uint64_t)(to - from) + 1);
        assert_ok(gy_frame_slice(outer, skip, to - from, &inner));
        gy_frame_drop(outer);
        assert_int_equal(gy_frame_rows(inner), to - from - skip);
        int64_t nulls[7] = {0};
        for (int64_t row = 0; row < gy_frame_rows(inner); row++) {
            check_row(inner, row, from + skip + row);
            for (int column = 0; column < 7; column++) {
                nulls[column] += (from + skip + row + column) % 5 == 0;
            }
        }
        for (int column = 0; column < 7; column++) {
            const gy_column view = gy_frame_column(inner, column);
            assert_int_equal(gy_column_nulls(&view), nulls[column]);
        }
        gy_frame_drop(inner);
    }
    gy_frame *none = NULL;
    assert_status(gy_frame_slice(frame, -1, 2, &none), GY_ARG);
    assert_status(gy_frame_slice(frame, 3, 2, &none), GY_ARG);
    assert_status(gy_frame_slice(frame, 0, ROWS + 1, &none), GY_ARG);
    gy_frame_drop(frame);
}

GY_TEST(selections_share_the_memory)
{
    gy_frame *frame = make_rows(20), *picked = NULL, *none = NULL;
    const int columns[] = {6, 1, 6};
    assert_ok(gy_frame_select(frame, columns, 3, &picked));
    const gy_column was = gy_frame_column(frame, 6), is = gy_frame_column(picked, 2);
    assert_ptr_equal(was.values, is.values);
    assert_string_equal(is.field->name, "name");
    assert_status(gy_frame_select(frame, (const int[]){7}, 1, &none), GY_ARG);
    gy_frame_drop(frame);
    const gy_column text = gy_frame_column(picked, 0);
    assert_memory_equal(gy_column_text(&text, 8).data, "8", 1);
    assert_ok(gy_frame_select(picked, NULL, 0, &none));
    assert_int_equal(gy_frame_rows(none), 20);
    assert_int_equal(gy_schema_count(gy_frame_schema(none)), 0);
    gy_frame_drop(none);
    gy_frame_drop(picked);
}

GY_TEST(a_builder_remembers_its_first_failure)
{
    gy_schema *schema = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse("a int, b decimal(3, 1), c text, d date", &schema));
    for (int kind = 0; kind < 7; kind++) {
        gy_frame_builder *builder = NULL;
        assert_ok(gy_frame_builder_new(schema, &builder));
        gy_status expected = GY_ARG;
        if (kind == 0) {
            gy_frame_add_text(builder, "x", 1);
            expected = GY_TYPE;
        } else if (kind == 6) {
            gy_frame_row_end(builder);
            expected = GY_STATE;
        } else {
            gy_frame_add_int64(builder, 1);
        }
        if (kind == 1) {
            gy_frame_add_decimal(builder, 1000);
        } else if (kind > 1) {
            gy_frame_add_decimal(builder, -999);
        }
        if (kind == 2) {
            gy_frame_add_text(builder, "a\0b", 3);
        } else if (kind > 2) {
            gy_frame_add_text(builder, "", 0);
        }
        if (kind == 3) {
            gy_frame_add_date(builder, GY_DAYS_END);
        } else if (kind == 4) {
            gy_frame_add_date(builder, GY_DAYS_MIN - 1);
        } else if (kind == 5) {
            gy_frame_add_date(builder, GY_DAYS_END - 1);
            gy_frame_add_null(builder);
            expected = GY_STATE;
        }
        gy_frame_row_end(builder);
        assert_status(gy_frame_finish(builder, &frame), expected);
        gy_frame_builder_free(builder);
    }
    gy_schema_drop(schema);
}

/* What is printed of a frame. */
static void print(const gy_frame *frame, const gy_frame_print_options *options, char *out,
                  size_t size)
{
    FILE *file = fmemopen(out, size, "w");
    assert_non_null(file);
    assert_ok(gy_frame_print(frame, file, options));
    assert_int_equal(fclose(file), 0);
}

GY_TEST(frames_are_printed_as_tables)
{
    static char out[8192];
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse("id int, price decimal(6, 2), name text, at timestamp", &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    gy_schema_drop(schema);
    gy_frame_add_int64(builder, 7);
    gy_frame_add_decimal(builder, -5);
    gy_frame_add_text(builder, "größer\nals", 12);
    gy_frame_add_timestamp(builder, -1);
    gy_frame_row_end(builder);
    gy_frame_add_int64(builder, 1234);
    gy_frame_add_null(builder);
    gy_frame_add_text(builder, "", 0);
    gy_frame_add_timestamp(builder, 1709208000500000);
    gy_frame_row_end(builder);
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    print(frame, NULL, out, sizeof(out));
    assert_string_equal(out, "   id | price | name        | at\n"
                             "------+-------+-------------+----------------------------\n"
                             "    7 | -0.05 | größer\\nals | 1969-12-31 23:59:59.999999\n"
                             " 1234 |  null |             | 2024-02-29 12:00:00.5\n"
                             "(2 rows)\n");
    print(frame, &GY_OPTIONS(gy_frame_print_options, .rows_max = 1, .width_max = 5), out,
          sizeof(out));
    assert_string_equal(out, " id | price | name  | at\n"
                             "----+-------+-------+-------\n"
                             "  7 | -0.05 | größ… | 1969…\n"
                             "(2 rows, 1 shown)\n");
    gy_frame *none = NULL;
    assert_ok(gy_frame_select(frame, NULL, 0, &none));
    print(none, NULL, out, sizeof(out));
    assert_string_equal(out, "(2 rows)\n");
    gy_frame_drop(none);
    assert_ok(gy_frame_slice(frame, 1, 1, &none));
    print(none, NULL, out, sizeof(out));
    assert_non_null(strstr(out, "(0 rows)\n"));
    gy_frame_drop(none);
    gy_frame_drop(frame);
}

GY_TEST(memory_that_runs_out_leaves_nothing)
{
    for (int64_t n = 1; n < 60; n++) {
        const int64_t before = gy_alloc_live();
        gy_schema *schema = NULL;
        gy_frame_builder *builder = NULL;
        gy_frame *frame = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_schema_parse(ALL, &schema);
        status = status == GY_OK ? gy_frame_builder_new(schema, &builder) : status;
        for (int64_t r = 0; r < 70 && status == GY_OK; r++) {
            add_row(builder, r);
        }
        status = status == GY_OK ? gy_frame_finish(builder, &frame) : status;
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        gy_frame_drop(frame);
        gy_frame_builder_free(builder);
        gy_schema_drop(schema);
        assert_int_equal(gy_alloc_live(), before);
    }
}

GY_TEST_MAIN(begin, end)
