/* Goal: frames pass Arrow's C interfaces out and in without a copy and with the same values,
 * each side gives the other's memory back exactly once, and what does not fit is refused by
 * name. */
#include "frame/frame.h"

#include <gyre/arrow.h>

#include "gy_test.h"

#include <errno.h>

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

enum { COLUMNS = 7, ROWS = 100 };

/* Rows of random values of all types; a quarter of the values is null. */
static gy_frame *make_rows(gy_random *random, int64_t rows)
{
    gy_schema *schema = NULL;
    gy_frame_builder *builder = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_parse("f bool, i int, d double, m decimal(20, 4), day date, "
                              "at timestamp, name text",
                              &schema));
    assert_ok(gy_frame_builder_new(schema, &builder));
    gy_schema_drop(schema);
    for (int64_t r = 0; r < rows; r++) {
        for (int i = 0; i < COLUMNS; i++) {
            const int64_t value = (int64_t)gy_random_below(random, 1000000) - 500000;
            char text[32];
            const size_t size = gy_print(text, sizeof(text), "%lld", (long long)value);
            if (gy_random_below(random, 4) == 0) {
                gy_frame_add_null(builder);
            } else if (i == 0) {
                gy_frame_add_bool(builder, value > 0);
            } else if (i == 1) {
                gy_frame_add_int64(builder, value);
            } else if (i == 2) {
                gy_frame_add_double(builder, (double)value / 8);
            } else if (i == 3) {
                gy_frame_add_decimal(builder, value);
            } else if (i == 4) {
                gy_frame_add_date(builder, (int32_t)value);
            } else if (i == 5) {
                gy_frame_add_timestamp(builder, value * 1000003);
            } else {
                gy_frame_add_text(builder, text, size);
            }
        }
        gy_frame_row_end(builder);
    }
    assert_ok(gy_frame_finish(builder, &frame));
    gy_frame_builder_free(builder);
    return frame;
}

/* The same schema and rows, value by value. */
static void check_same(const gy_frame *a, const gy_frame *b)
{
    char *texts[2] = {NULL, NULL};
    assert_ok(gy_schema_text(gy_frame_schema(a), &texts[0]));
    assert_ok(gy_schema_text(gy_frame_schema(b), &texts[1]));
    assert_string_equal(texts[0], texts[1]);
    gy_string_free(texts[0]);
    gy_string_free(texts[1]);
    assert_int_equal(gy_frame_rows(a), gy_frame_rows(b));
    for (int i = 0; i < gy_schema_count(gy_frame_schema(a)); i++) {
        const gy_column left = gy_frame_column(a, i), right = gy_frame_column(b, i);
        for (int64_t row = 0; row < gy_frame_rows(a); row++) {
            char out[2][GY_FRAME_VALUE_BYTES] = {"", ""};
            assert_int_equal(gy_column_is_null(&left, row), gy_column_is_null(&right, row));
            if (gy_column_is_null(&left, row)) {
                continue;
            }
            if (left.field->kind == GY_FIELD_TEXT) {
                const gy_text_view x = gy_column_text(&left, row),
                                   y = gy_column_text(&right, row);
                assert_int_equal(x.size_bytes, y.size_bytes);
                assert_memory_equal(x.data, y.data, x.size_bytes);
                continue;
            }
            (void)gy_frame_write(&left, row, out[0]);
            (void)gy_frame_write(&right, row, out[1]);
            assert_string_equal(out[0], out[1]);
        }
    }
}

static gy_schema *pass_schema(gy_schema *schema)
{
    gy_arrow_schema arrow;
    gy_schema *taken = NULL;
    assert_ok(gy_schema_to_arrow(schema, &arrow));
    assert_ok(gy_schema_from_arrow(&arrow, &taken));
    arrow.release(&arrow);
    assert_null(arrow.release);
    return taken;
}

static gy_frame *pass_frame(const gy_frame *frame)
{
    gy_arrow_array array;
    gy_frame *taken = NULL;
    gy_schema *schema = pass_schema(gy_frame_schema(frame));
    assert_ok(gy_frame_to_arrow(frame, &array));
    assert_ok(gy_frame_from_arrow(schema, &array, &taken));
    assert_null(array.release);
    gy_schema_drop(schema);
    return taken;
}

GY_TEST(frames_go_out_and_in)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = gy_test_serial_cases(60); i > 0; i--) {
        gy_frame *whole = make_rows(&random, (int64_t)gy_random_below(&random, ROWS)), *slice;
        const int64_t rows = gy_frame_rows(whole);
        const int64_t from = (int64_t)gy_random_below(&random, (uint64_t)rows + 1);
        const int64_t to =
            from + (int64_t)gy_random_below(&random, (uint64_t)(rows - from) + 1);
        assert_ok(gy_frame_slice(whole, from, to, &slice));
        gy_frame_drop(whole);
        gy_frame *once = pass_frame(slice), *twice = pass_frame(once);
        const gy_column was = gy_frame_column(slice, 1), is = gy_frame_column(twice, 1);
        assert_ptr_equal(was.values, is.values); /* no copy */
        check_same(slice, twice);
        gy_frame_drop(slice);
        gy_frame_drop(once);
        gy_frame *part = NULL;
        assert_ok(gy_frame_slice(twice, 0, gy_frame_rows(twice), &part));
        check_same(part, twice);
        gy_frame_drop(twice);
        gy_frame_drop(part);
    }
}

GY_TEST(frames_without_rows_or_columns)
{
    gy_random random = {.key = 1};
    gy_frame *frame = make_rows(&random, 3), *none = NULL;
    assert_ok(gy_frame_select(frame, NULL, 0, &none));
    gy_frame *again = pass_frame(none);
    assert_int_equal(gy_frame_rows(again), 3);
    gy_frame_drop(again);
    gy_frame_drop(none);
    gy_frame_drop(frame);
    frame = make_rows(&random, 0);
    again = pass_frame(frame);
    check_same(frame, again);
    gy_frame_drop(again);
    gy_frame_drop(frame);
}

GY_TEST(an_array_may_begin_behind_its_columns)
{
    gy_random random = {.key = 6};
    gy_frame *frame = make_rows(&random, 20), *taken = NULL, *slice = NULL;
    gy_arrow_array array;
    assert_ok(gy_frame_to_arrow(frame, &array));
    array.offset = 3; /* of the struct: its columns have all rows */
    array.length = 10;
    assert_ok(gy_frame_from_arrow(gy_frame_schema(frame), &array, &taken));
    assert_ok(gy_frame_slice(frame, 3, 13, &slice));
    check_same(taken, slice);
    gy_frame_drop(taken);
    gy_frame_drop(slice);
    gy_frame_drop(frame);
}

GY_TEST(columns_outlive_their_frame)
{
    gy_random random = {.key = 2};
    gy_frame *frame = make_rows(&random, 10);
    const gy_column column = gy_frame_column(frame, 1);
    const int64_t value = gy_column_int64(&column, 9);
    gy_arrow_array array;
    assert_ok(gy_frame_to_arrow(frame, &array));
    gy_frame_drop(frame);
    gy_arrow_array moved = *array.children[1]; /* as a consumer takes one column out */
    array.children[1]->release = NULL;
    array.release(&array);
    assert_true(((const int64_t *)moved.buffers[1])[9] == value);
    moved.release(&moved);
    assert_null(moved.release);
}

static void release_nothing(gy_arrow_schema *self)
{
    self->release = NULL;
}

GY_TEST(types_are_refused_by_name)
{
    static const struct {
        const char *format, *words;
    } rows[] = {{"i", "int32"},
                {"U", "large text"},
                {"vu", "text view"},
                {"+l", "list"},
                {"+s", "struct"},
                {"+m", "map"},
                {"tsn:", "nanoseconds"},
                {"tdm", "date in milliseconds"},
                {"d:40,2", "decimal"},
                {"d:12,2,256", "decimal"},
                {"d:3,-1", "decimal"},
                {"d:12", "decimal"},
                {"z", "binary"},
                {"?", "type"},
                {"", "type"},
                {"tiM", "interval"}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        gy_arrow_schema child = {
            .format = rows[i].format, .name = "price", .release = release_nothing};
        gy_arrow_schema *children[] = {&child};
        gy_arrow_schema arrow = {
            .format = "+s", .n_children = 1, .children = children, .release = release_nothing};
        gy_schema *schema = NULL;
        assert_status(gy_schema_from_arrow(&arrow, &schema), GY_UNSUPPORTED);
        assert_non_null(strstr(gy_error_text(), "'price'"));
        assert_non_null(strstr(gy_error_text(), rows[i].words));
        child = (gy_arrow_schema){
            .format = "u", .name = "price", .release = release_nothing, .dictionary = &child};
        assert_status(gy_schema_from_arrow(&arrow, &schema), GY_UNSUPPORTED);
        assert_non_null(strstr(gy_error_text(), "dictionary"));
        arrow.format = "l";
        assert_status(gy_schema_from_arrow(&arrow, &schema), GY_UNSUPPORTED);
        arrow.release = NULL;
        assert_status(gy_schema_from_arrow(&arrow, &schema), GY_ARG);
    }
}

static void release_array(gy_arrow_array *array)
{
    array->release = NULL;
}

GY_TEST(arrays_that_do_not_fit_are_refused)
{
    gy_random random = {.key = 3};
    gy_frame *frame = make_rows(&random, 16), *none = NULL;
    gy_schema *schema = gy_frame_schema(frame);
    for (int kind = 0; kind < 9; kind++) {
        gy_arrow_array array;
        assert_ok(gy_frame_to_arrow(frame, &array));
        gy_arrow_array *text = array.children[6], was = *text, whole = array;
        const void *buffers[3] = {text->buffers[0], text->buffers[1], text->buffers[2]};
        static const int32_t descending[18] = {5, 4};
        static const uint8_t nulls[2] = {0xff, 0x7f};
        const void *rows[1] = {nulls};
        text->buffers = buffers;
        if (kind == 0) {
            text->n_buffers = 2;
        } else if (kind == 1) {
            text->length = 15;
        } else if (kind == 2) {
            buffers[1] = NULL;
        } else if (kind == 3) {
            buffers[1] = descending;
            text->offset = 0;
        } else if (kind == 4) {
            buffers[2] = NULL;
        } else if (kind == 5) {
            array.n_children = 6;
        } else if (kind == 6) {
            array.buffers = rows;
            array.null_count = -1;
        } else if (kind == 7) {
            buffers[0] = NULL;
            text->null_count = 3;
        } else {
            text->dictionary = &was;
        }
        assert_status(gy_frame_from_arrow(schema, &array, &none), GY_ARG);
        assert_non_null(array.release); /* it stays the caller's */
        *text = was;
        whole.release(&whole);
    }
    gy_frame_drop(frame);
}

/* Take one column of texts in, whose offsets are given. */
static gy_status take_texts(const char *bytes, const int32_t *offsets, int64_t rows,
                            const uint8_t *valid)
{
    const gy_field field = {.name = "name", .kind = GY_FIELD_TEXT};
    const void *none[1] = {NULL}, *buffers[3] = {valid, offsets, bytes};
    gy_arrow_array column = {.length = rows,
                             .null_count = valid != NULL ? -1 : 0,
                             .n_buffers = 3,
                             .buffers = buffers,
                             .release = release_array};
    gy_arrow_array *children[1] = {&column};
    gy_arrow_array array = {.length = rows,
                            .n_buffers = 1,
                            .n_children = 1,
                            .buffers = none,
                            .children = children,
                            .release = release_array};
    gy_schema *schema = NULL;
    gy_frame *frame = NULL;
    assert_ok(gy_schema_new(&field, 1, &schema));
    const gy_status status = gy_frame_from_arrow(schema, &array, &frame);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
    return status;
}

GY_TEST(texts_that_are_no_utf8_are_refused_by_name)
{
    static const int32_t offsets[4] = {1, 3, 3, 5};
    static const uint8_t valid[1] = {3};
    assert_ok(take_texts("x\xc3\xa9yz", offsets, 3, NULL));
    assert_status(take_texts("xabz\xff", offsets, 3, NULL), GY_FORMAT);
    assert_string_equal(gy_error_text(),
                        "Arrow: byte 0xff in row 3 of column 'name' is no UTF-8");
    assert_ok(take_texts("xabz\xff", offsets, 3, valid)); /* under a null */
    assert_status(take_texts("xa\xc3\xa9z", offsets, 3, NULL),
                  GY_FORMAT); /* a letter's halves */
    assert_status(take_texts("xab\0z", offsets, 3, NULL), GY_FORMAT);
    assert_string_equal(gy_error_text(), "Arrow: column 'name' has a NUL byte in row 3");
}

/* A source of `left` slices of a frame, then of a failure. */
typedef struct slices {
    gy_frame *frame;
    int64_t left;
    bool fails;
    int closed;
} slices;

static gy_status next_slice(void *arg, gy_frame **frame)
{
    slices *from = arg;
    if (from->left == 0) {
        return from->fails ? gy_fail(GY_FORMAT, "x.csv:7: no row") : GY_DONE;
    }
    from->left--;
    return gy_frame_slice(from->frame, from->left, from->left + 2, frame);
}

static void close_slices(void *arg)
{
    ((slices *)arg)->closed++;
}

GY_TEST(streams_go_out_and_in)
{
    gy_random random = {.key = 4};
    gy_frame *frame = make_rows(&random, 10);
    for (int fails = 0; fails < 2; fails++) {
        slices from = {.frame = frame, .left = 5, .fails = fails != 0};
        gy_arrow_stream stream;
        gy_frame_source source;
        gy_schema *schema = NULL;
        assert_ok(gy_frames_to_arrow(
            gy_frame_schema(frame),
            &(gy_frame_source){.next = next_slice, .close = close_slices, .arg = &from},
            &stream));
        assert_ok(gy_frames_from_arrow(&stream, &schema, &source));
        assert_null(stream.release);
        gy_frame *got = NULL, *expected = NULL;
        for (int64_t at = 4; at >= 0; at--) {
            assert_ok(source.next(source.arg, &got));
            assert_ok(gy_frame_slice(frame, at, at + 2, &expected));
            check_same(got, expected);
            gy_frame_drop(got);
            gy_frame_drop(expected);
        }
        assert_status(source.next(source.arg, &got), fails ? GY_IO : GY_DONE);
        if (fails) {
            assert_non_null(strstr(gy_error_text(), "x.csv:7: no row"));
        }
        assert_int_equal(from.closed, 0);
        source.close(source.arg);
        assert_int_equal(from.closed, 1);
        gy_schema_drop(schema);
    }
    gy_frame_drop(frame);
}

GY_TEST(memory_that_runs_out_leaves_nothing)
{
    gy_random random = {.key = 5};
    gy_frame *frame = make_rows(&random, 10);
    for (int64_t n = 1; n < 50; n++) {
        const int64_t before = gy_alloc_live();
        gy_arrow_schema arrow = {.release = NULL};
        gy_arrow_array array = {.release = NULL};
        gy_schema *schema = NULL;
        gy_frame *taken = NULL;
        gy_alloc_fail_after(n);
        gy_status status = gy_schema_to_arrow(gy_frame_schema(frame), &arrow);
        status = status == GY_OK ? gy_schema_from_arrow(&arrow, &schema) : status;
        status = status == GY_OK ? gy_frame_to_arrow(frame, &array) : status;
        status = status == GY_OK ? gy_frame_from_arrow(schema, &array, &taken) : status;
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        if (arrow.release != NULL) {
            arrow.release(&arrow);
        }
        if (array.release != NULL) {
            array.release(&array);
        }
        gy_frame_drop(taken);
        gy_schema_drop(schema);
        assert_int_equal(gy_alloc_live(), before);
    }
    gy_frame_drop(frame);
}

GY_TEST_MAIN(begin, end)
