/* Goal: what a thread has recorded is taken once, and shown by another process, with its own
 * clock's shift; rows that somebody scribbled over are refused, and no name ends a string. */
#include "base/trace.h"

#include <string.h>

#include "gy_test.h"

GY_TEST(rows_are_taken_once_and_shown)
{
    gy_text rows = {.data = NULL}, shown = {.data = NULL};
    gy_trace_take(&rows); /* nothing was recorded */
    assert_int_equal(rows.size_bytes, 0);
    gy_trace_start(4);
    for (int i = 0; i < 6; i++) { /* the ring has the last four */
        gy_trace_span(i == 5 ? "a \"b\\\n" : "step", 1000000 + i * 1000, 1002000 + i * 1000, i);
    }
    gy_trace_take(&rows);
    assert_ok(gy_trace_show(&shown, rows.data, rows.size_bytes, INT64_C(1) << 33, -500000));
    const char *text = gy_text_get(&shown);
    assert_null(strstr(text, "\"value\":1}"));
    assert_non_null(strstr(text,
                           ",\n{\"name\":\"step\",\"ph\":\"X\",\"pid\":8589934592,\"tid\":0,"
                           "\"ts\":502.000,\"dur\":2.000,\"args\":{\"value\":2}}"));
    assert_non_null(strstr(text, "{\"name\":\"a ?b??\""));
    const size_t before = rows.size_bytes;
    gy_trace_take(&rows);
    assert_int_equal(rows.size_bytes, before);
    gy_trace_span("next", 1, 2, 3);
    gy_trace_take(&rows);
    assert_true(rows.size_bytes > before && rows.size_bytes < 2 * before);
    gy_text_free(&rows);
    gy_text_free(&shown);
}

GY_TEST(scribbled_rows_are_refused)
{
    gy_text rows = {.data = NULL}, shown = {.data = NULL};
    gy_trace_start(4);
    gy_trace_span("one", 1, 2, 3);
    gy_trace_span("two", 1, 2, 3);
    gy_trace_take(&rows);
    const size_t half = rows.size_bytes / 2;
    assert_ok(gy_trace_show(&shown, rows.data, half, 1, INT64_MIN));
    const size_t one_shown = shown.size_bytes;
    for (size_t size = 1; size < rows.size_bytes; size++) { /* cut anywhere: whole rows alone */
        gy_text part = {.data = NULL};
        const gy_status status = gy_trace_show(&part, rows.data, size, 1, INT64_MIN);
        assert_int_equal(status, size == half ? GY_OK : GY_FORMAT);
        assert_int_equal(part.size_bytes, size < half ? 0 : one_shown);
        gy_text_free(&part);
    }
    /* All bytes of the name are there, but nobody takes so many. */
    static const char letters[300] = {'x'};
    gy_text_add_bytes(&rows, letters, sizeof(letters));
    for (uint32_t name_bytes = 256; name_bytes <= 257; name_bytes++) {
        const size_t head = half - strlen("one");
        memcpy(rows.data + head - sizeof(name_bytes), &name_bytes, sizeof(name_bytes));
        assert_int_equal(gy_trace_show(&shown, rows.data, head + name_bytes, 1, 0),
                         name_bytes == 256 ? GY_OK : GY_FORMAT);
    }
    memset(rows.data, 0xff, half);
    assert_int_equal(gy_trace_show(&shown, rows.data, rows.size_bytes, 1, 0), GY_FORMAT);
    gy_text_free(&rows);
    gy_text_free(&shown);
}

GY_TEST_MAIN(NULL, NULL)
