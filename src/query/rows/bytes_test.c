/* Goal: random frames come back from their bytes as they were, slices too; whatever is cut off
 * or changed is refused, and a failed allocation is an error. */
#include "query/rows/random_test.h"

#include "gy_test.h"

static int begin(void **state)
{
    (void)state;
    test_live = gy_alloc_live();
    return 0;
}

static int end(void **state)
{
    (void)state;
    return gy_alloc_live() == test_live ? 0 : -1;
}

GY_TEST(frames_come_back_from_bytes)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_serial_cases(200); round++) {
        gy_schema *schema = test_schema(&random, (int)gy_random_below(&random, 8));
        const test_shape shape = {.rows = (int64_t)gy_random_below(&random, 300),
                                  .distinct = 1 + (int64_t)gy_random_below(&random, 50),
                                  .null_percent = round % 3 == 0 ? 0 : 20};
        gy_frame *whole = test_frame(&random, schema, &shape), *slice = NULL, *back = NULL;
        const int64_t from = (int64_t)gy_random_below(&random, (uint64_t)shape.rows + 1);
        assert_ok(gy_frame_slice(whole, from, shape.rows, &slice));
        gy_rows_buffer buffer = {.data = NULL};
        assert_ok(gy_rows_bytes_write(whole, &buffer));
        const size_t first = buffer.size_bytes;
        assert_ok(gy_rows_bytes_write(slice, &buffer));
        size_t used = 0;
        assert_ok(gy_rows_bytes_read(schema, buffer.data, buffer.size_bytes, &used, &back));
        assert_int_equal(used, first);
        test_same(whole, back);
        gy_frame_drop(back);
        assert_ok(gy_rows_bytes_read(schema, buffer.data + first, buffer.size_bytes - first,
                                     &used, &back));
        assert_int_equal(used, buffer.size_bytes - first);
        test_same(slice, back);
        gy_frame_drop(back);
        gy_free(buffer.data);
        gy_frame_drop(slice);
        gy_frame_drop(whole);
        gy_schema_drop(schema);
    }
}

GY_TEST(bytes_that_are_cut_or_changed_are_refused)
{
    gy_random random = {gy_test_seed(), 1};
    gy_schema *schema = NULL;
    assert_ok(gy_schema_parse("a int, b text, c decimal(38, 4), d bool, e double, f date, "
                              "g timestamp",
                              &schema));
    const test_shape shape = {.rows = 40, .distinct = 20, .null_percent = 20};
    gy_frame *frame = test_frame(&random, schema, &shape), *back = NULL;
    gy_rows_buffer buffer = {.data = NULL};
    assert_ok(gy_rows_bytes_write(frame, &buffer));
    for (size_t size = 0; size < buffer.size_bytes; size++) {
        size_t used = 0;
        assert_status(gy_rows_bytes_read(schema, buffer.data, size, &used, &back), GY_AGAIN);
        assert_true(used > size || size < GY_ROWS_HEAD_BYTES);
    }
    for (size_t at = 0; at < buffer.size_bytes; at++) {
        size_t used = 0;
        buffer.data[at] = (char)(buffer.data[at] ^ (char)(1 + gy_random_below(&random, 127)));
        const gy_status status =
            gy_rows_bytes_read(schema, buffer.data, buffer.size_bytes, &used, &back);
        /* a length may have grown */
        assert_true(status == GY_FORMAT || (status == GY_AGAIN && at < GY_ROWS_HEAD_BYTES));
        buffer.size_bytes = 0;
        assert_ok(gy_rows_bytes_write(frame, &buffer));
    }
    gy_schema *other = NULL;
    assert_ok(gy_schema_parse("a int, b text", &other));
    size_t used = 0;
    assert_status(gy_rows_bytes_read(other, buffer.data, buffer.size_bytes, &used, &back),
                  GY_FORMAT);
    gy_schema_drop(other);
    gy_free(buffer.data);
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST(memory_that_fails_is_an_error)
{
    gy_random random = {gy_test_seed(), 2};
    gy_schema *schema = test_schema(&random, 7);
    const test_shape shape = {.rows = 100, .distinct = 20, .null_percent = 20};
    gy_frame *frame = test_frame(&random, schema, &shape);
    bool is_done = false;
    for (int64_t n = 1; !is_done; n++) {
        gy_rows_buffer buffer = {.data = NULL};
        gy_frame *back = NULL;
        size_t used = 0;
        gy_alloc_fail_after(n);
        gy_status status = gy_rows_bytes_write(frame, &buffer);
        if (status == GY_OK) {
            status = gy_rows_bytes_read(schema, buffer.data, buffer.size_bytes, &used, &back);
        }
        gy_alloc_fail_after(0);
        is_done = status == GY_OK;
        assert_true(is_done || status == GY_NOMEM);
        gy_frame_drop(back);
        gy_free(buffer.data);
    }
    gy_frame_drop(frame);
    gy_schema_drop(schema);
}

GY_TEST_MAIN(begin, end)
