/* Goal: entries sort as a plain comparison sort does, stably, whatever the keys are like. */
#include "mapreduce/sort.h"
#include "mapreduce/sort/records_test.h"

#include "base/base.h"

#include "gy_test.h"

typedef struct bytes {
    char *data;
    size_t size_bytes, capacity;
} bytes;

static void add_byte(bytes *text, char byte)
{
    assert_int_equal(GY_GROW("test", text->data, text->capacity, text->size_bytes + 1), GY_OK);
    text->data[text->size_bytes++] = byte;
}

/* Sort all records of `data` both ways. */
static void check(const gy_sort_layout *layout, const char *data, size_t size_bytes)
{
    const gy_sort_span span = {data, size_bytes};
    const gy_sort_records records = {layout, &span, 1};
    gy_entry *entries = NULL;
    size_t count = 0, capacity = 0;
    for (size_t at = 0; at < size_bytes; count++) {
        gy_sort_item item;
        assert_true(gy_sort_item_read(layout, data + at, data + size_bytes, &item));
        assert_int_equal(GY_GROW("test", entries, capacity, count + 1), GY_OK);
        entries[count] =
            (gy_entry){gy_sort_key_word(layout->key, item.key, item.key_bytes), at};
        at += item.size_bytes;
    }
    gy_entry *expected = gy_alloc("test", (count + 1) * sizeof(*expected));
    gy_entry *scratch = gy_alloc("test", (count + 1) * sizeof(*scratch));
    assert_non_null(expected);
    assert_non_null(scratch);
    if (count > 0) {
        memcpy(expected, entries, count * sizeof(*entries));
        records_compared = &records;
        qsort(expected, count, sizeof(*expected), records_compare_entries);
    }
    gy_mapreduce_entries_sort(&records, entries, scratch, count, 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(entries[i].position, expected[i].position);
    }
    gy_free(entries);
    gy_free(expected);
    gy_free(scratch);
}

static void add_field(bytes *text, gy_random *random, size_t size_bytes, unsigned alphabet)
{
    for (size_t i = 0; i < size_bytes; i++) {
        add_byte(text, (char)gy_random_below(random, alphabet));
    }
}

/* Keys of few byte values (0 among them) and all lengths tie in every way. */
GY_TEST(framed_records_sort)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_cases(60); round++) {
        static const size_t counts[] = {0, 1, 2, 3, 13, 24, 25, 97, 511, 513, 4099, 20011};
        const size_t count = counts[gy_random_below(&random, GY_COUNT(counts))];
        const unsigned alphabet =
            1 + (unsigned)gy_random_below(&random, round % 3 == 0 ? 256 : 3);
        const size_t longest = gy_random_below(&random, round % 2 == 0 ? 9 : 40);
        const gy_sort_layout layout = {.kind = GY_LAYOUT_FRAMED, .has_values = round % 4 == 1};
        bytes data = {0};
        for (size_t i = 0; i < count; i++) {
            const size_t key = gy_random_below(&random, longest + 1);
            const size_t value = gy_random_below(&random, 12);
            add_byte(&data, (char)key);
            add_byte(&data, (char)value);
            add_field(&data, &random, key, alphabet);
            add_field(&data, &random, value, alphabet);
        }
        check(&layout, data.data, data.size_bytes);
        gy_free(data.data);
    }
}

GY_TEST(fixed_records_sort)
{
    gy_random random = {gy_test_seed(), 1};
    for (long round = 0; round < gy_test_cases(24); round++) {
        const size_t count = gy_random_below(&random, round % 8 == 7 ? 100000 : 3000);
        const unsigned alphabet = round % 3 == 0 ? 256 : 2;
        const gy_sort_layout layout = {.kind = GY_LAYOUT_FIXED,
                                       .record_bytes = 20 + (size_t)round % 3,
                                       .key_offset = gy_random_below(&random, 3),
                                       .key_bytes = 1 + gy_random_below(&random, 17)};
        bytes data = {0};
        add_field(&data, &random, count * layout.record_bytes, alphabet);
        check(&layout, data.data, data.size_bytes);
        gy_free(data.data);
    }
}

GY_TEST(typed_keys_sort)
{
    gy_random random = {gy_test_seed(), 2};
    for (int kind = GY_KEY_INT64; kind <= GY_KEY_FLOAT64; kind++) {
        const gy_sort_layout layout = {.kind = GY_LAYOUT_FIXED,
                                       .key = (gy_key_kind)kind,
                                       .record_bytes = 8,
                                       .key_bytes = 8};
        bytes data = {0};
        add_field(&data, &random, 8 * 3001, 256);
        check(&layout, data.data, data.size_bytes);
        gy_free(data.data);
    }
    const double values[] = {-1.0 / 0.0, -1e300, -1.5, -1e-310, -0.0,
                             0.0,        1e-310, 2,    1e300,   1.0 / 0.0};
    const int64_t numbers[] = {INT64_MIN, -5, -1, 0, 1, 7, INT64_MAX};
    for (size_t i = 1; i < GY_COUNT(values); i++) {
        assert_true(gy_typed_word(GY_KEY_FLOAT64, (const char *)&values[i - 1]) <
                    gy_typed_word(GY_KEY_FLOAT64, (const char *)&values[i]));
    }
    for (size_t i = 1; i < GY_COUNT(numbers); i++) {
        assert_true(gy_typed_word(GY_KEY_INT64, (const char *)&numbers[i - 1]) <
                    gy_typed_word(GY_KEY_INT64, (const char *)&numbers[i]));
    }
}

/* Each key begins the next one: 8 bytes a level, far more levels than the stack may have. */
GY_TEST(keys_that_begin_others_sort)
{
    enum { KEYS = 700 };
    bytes data = {0};
    const gy_sort_layout layout = {.kind = GY_LAYOUT_LINES};
    for (size_t i = 0; i < KEYS; i++) {
        const size_t size = (i * 311 % KEYS) * 8;
        for (size_t j = 0; j < size; j++) {
            add_byte(&data, 'a');
        }
        add_byte(&data, '\n');
    }
    check(&layout, data.data, data.size_bytes);
    check(&layout, data.data, data.size_bytes - 1); /* the last line lacks its end */
    gy_free(data.data);
}

GY_TEST(long_shared_keys_sort)
{
    bytes data = {0};
    gy_random random = {gy_test_seed(), 3};
    const gy_sort_layout layout = {.kind = GY_LAYOUT_LINES, .key_offset = 2};
    for (int i = 0; i < 800; i++) {
        for (int j = 0; j < 3000 - i % 3; j++) {
            add_byte(&data, 'x');
        }
        for (size_t j = 1 + gy_random_below(&random, 4); j > 0; j--) {
            add_byte(&data, (char)('a' + gy_random_below(&random, 3)));
        }
        add_byte(&data, '\n');
    }
    check(&layout, data.data, data.size_bytes);
    gy_free(data.data);
}

GY_TEST(records_that_are_cut_are_refused)
{
    gy_sort_item item;
    const gy_sort_layout framed = {.kind = GY_LAYOUT_FRAMED};
    const char good[] = "\x02\x01"
                        "abc";
    assert_true(gy_sort_item_read(&framed, good, good + 5, &item));
    for (size_t i = 1; i < 5; i++) {
        assert_false(gy_sort_item_read(&framed, good, good + i, &item));
    }
    const char huge[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_false(gy_sort_item_read(&framed, huge, huge + sizeof(huge) - 1, &item));
    const char wraps[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01"
                         "ab";
    assert_false(gy_sort_item_read(&framed, wraps, wraps + sizeof(wraps) - 1, &item));
    uint64_t size_read = 0;
    const char beyond[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02";
    assert_null(gy_sort_varint_get(beyond, beyond + sizeof(beyond) - 1, &size_read));
    for (uint64_t value = 1; value != 0; value <<= 1) {
        char written[GY_VARINT_BYTES];
        uint64_t back = 0;
        const size_t size = gy_sort_varint_put(written, value - 1);
        assert_ptr_equal(gy_sort_varint_get(written, written + size, &back), written + size);
        assert_int_equal(back, value - 1);
    }
    const gy_sort_layout bad[] = {
        {.kind = GY_LAYOUT_FIXED, .record_bytes = 10, .key_offset = 8, .key_bytes = 3},
        {.kind = GY_LAYOUT_FIXED, .record_bytes = 10},
        {.kind = GY_LAYOUT_LINES, .key = GY_KEY_INT64},
        {.kind = GY_LAYOUT_FIXED, .key = GY_KEY_INT64, .record_bytes = 10, .key_bytes = 4},
        {.kind = GY_LAYOUT_LINES, .has_values = true}};
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        assert_int_equal(gy_sort_layout_check(&bad[i]), GY_ARG);
    }
}

GY_TEST_MAIN(NULL, NULL)
