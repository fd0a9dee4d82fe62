/* Goal: rows come back as they were put, short and long ones, whatever pieces their bytes come
 * in; those that do not rise or that end too early are refused, each at its place. */
#include "mapreduce/rows_priv.h"

#include <string.h>

#include "gy_test.h"

enum { ROWS = 400, KEY_MAX = 300 };

typedef struct entry {
    uint64_t hash;
    int64_t number; /* of lists: their size */
    size_t key_size;
    char key[KEY_MAX + GY_COPY_SLACK];
} entry;

static const char list_bytes[KEY_MAX] = "a list";

/* Bytes in pieces, each of memory of its own, so that a read past it is seen. */
typedef struct pieces {
    const char *at;
    size_t left;
    gy_random *random;
    char *piece;
} pieces;

static gy_status next_piece(void *arg, const char **data, size_t *size_bytes)
{
    pieces *from = arg;
    const uint64_t most = gy_random_below(from->random, 4) == 0 ? 20 : 4000;
    const size_t wanted = 1 + (size_t)gy_random_below(from->random, most);
    *size_bytes = GY_MIN(wanted, from->left);
    gy_free(from->piece);
    from->piece = gy_alloc("test", *size_bytes);
    if (from->piece == NULL) {
        return GY_NOMEM;
    }
    memcpy(from->piece, from->at, *size_bytes);
    from->at += *size_bytes;
    from->left -= *size_bytes;
    *data = from->piece;
    return GY_OK;
}

static gy_status write_text(void *arg, const void *data, size_t size_bytes)
{
    gy_text *text = arg;
    gy_text_add_bytes(text, data, size_bytes);
    return text->status;
}

/* Sizes and numbers on both sides of where they take a further byte. */
static void draw_entries(gy_random *random, bool is_list, entry *entries)
{
    static const size_t sizes[] = {0, 1, 7, 16, 126, 127, 128, KEY_MAX};
    static const int64_t numbers[] = {0, 1, 63, -64, 64, -65, INT64_MAX, INT64_MIN};
    uint64_t hash = 0;
    for (size_t i = 0; i < ROWS; i++) {
        entry *made = &entries[i];
        const bool is_short = gy_random_below(random, 8) != 0;
        hash += 1 + gy_random_below(random, UINT64_C(1) << 50);
        *made = (entry){.hash = hash};
        made->key_size = sizes[gy_random_below(random, is_short ? 4 : GY_COUNT(sizes))];
        for (size_t k = 0; k < made->key_size; k++) {
            made->key[k] = (char)gy_random_u64(random);
        }
        made->number = is_list ? (int64_t)sizes[gy_random_below(random, GY_COUNT(sizes))]
                               : numbers[gy_random_below(random, GY_COUNT(numbers))];
    }
}

/* The rows' bytes; where each begins, and the end. */
static void put_entries(const entry *entries, bool is_list, gy_text *bytes, size_t *starts)
{
    gy_outlet outlet = {.sink = {write_text, bytes}, .capacity = 1000};
    for (size_t i = 0; i < ROWS; i++) {
        const gy_row row = {.hash = entries[i].hash,
                            .key = entries[i].key,
                            .key_size = entries[i].key_size,
                            .number = is_list ? 0 : entries[i].number,
                            .list = list_bytes,
                            .list_size = is_list ? (size_t)entries[i].number : 0};
        starts[i] = outlet.flushed + outlet.used;
        assert_ok(gy_row_put(&outlet, &row, is_list));
    }
    starts[ROWS] = outlet.flushed + outlet.used;
    assert_ok(gy_outlet_flush(&outlet));
    gy_outlet_free(&outlet);
    assert_int_equal(bytes->size_bytes, starts[ROWS]);
}

typedef gy_status (*row_reader)(gy_mapreduce_rows *rows, gy_row *row, bool *has_row);

static const row_reader readers[] = {gy_mapreduce_rows_next, gy_mapreduce_rows_step};

static void check_row(const gy_row *row, const entry *expected, bool is_list)
{
    assert_true(row->hash == expected->hash);
    assert_int_equal(row->key_size, expected->key_size);
    assert_memory_equal(row->key, expected->key, expected->key_size);
    if (is_list) {
        assert_int_equal(row->list_size, expected->number);
        assert_memory_equal(row->list, list_bytes, row->list_size);
    } else {
        assert_true(row->number == expected->number);
    }
}

/* What ends the reading of a table; `count`: the rows before, each as it was put. */
static gy_status read_all(row_reader reader, const char *bytes, size_t size,
                          const entry *entries, bool is_list, gy_random *random, size_t *count)
{
    pieces from = {.at = bytes, .left = size, .random = random};
    gy_mapreduce_rows *rows;
    assert_ok(
        gy_mapreduce_rows_new((gy_byte_source){next_piece, &from, "a test"}, is_list, &rows));
    gy_status status = GY_OK;
    *count = 0;
    for (bool has_row = true; status >= 0 && has_row;) {
        gy_row row;
        status = reader(rows, &row, &has_row);
        if (status >= 0 && has_row) {
            assert_in_range(*count, 0, ROWS - 1);
            check_row(&row, &entries[(*count)++], is_list);
        }
    }
    gy_mapreduce_rows_free(rows);
    gy_free(from.piece);
    return status;
}

/* Of numbers, then of lists; by both ways of reading. */
static void for_each_table(void (*check)(row_reader reader, entry *entries, bool is_list,
                                         gy_random *random))
{
    gy_random random = {.key = gy_test_seed()};
    entry *entries = gy_alloc("test", ROWS * sizeof(*entries));
    assert_non_null(entries);
    const long cases = gy_test_serial_cases(64);
    for (long i = 0; i < cases * 4; i++) {
        const bool is_list = i % 2 == 1;
        draw_entries(&random, is_list, entries);
        check(readers[i / 2 % 2], entries, is_list, &random);
    }
    gy_free(entries);
}

static void check_whole(row_reader reader, entry *entries, bool is_list, gy_random *random)
{
    size_t starts[ROWS + 1], count;
    gy_text bytes = {0};
    put_entries(entries, is_list, &bytes, starts);
    assert_ok(read_all(reader, bytes.data, bytes.size_bytes, entries, is_list, random, &count));
    assert_int_equal(count, ROWS);
    gy_text_free(&bytes);
}

static void check_fallen(row_reader reader, entry *entries, bool is_list, gy_random *random)
{
    size_t starts[ROWS + 1], count;
    gy_text bytes = {0};
    const size_t at = 1 + (size_t)gy_random_below(random, ROWS - 1);
    entries[at].hash = entries[at - 1].hash - 1;
    put_entries(entries, is_list, &bytes, starts);
    assert_status(
        read_all(reader, bytes.data, bytes.size_bytes, entries, is_list, random, &count),
        GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "a test: rows out of order"));
    assert_int_equal(count, at);
    gy_text_free(&bytes);
}

static void check_cut(row_reader reader, entry *entries, bool is_list, gy_random *random)
{
    size_t starts[ROWS + 1], count;
    gy_text bytes = {0};
    put_entries(entries, is_list, &bytes, starts);
    const size_t at = (size_t)gy_random_below(random, ROWS);
    const size_t row_bytes = starts[at + 1] - starts[at];
    const size_t kept = starts[at] + 1 + (size_t)gy_random_below(random, row_bytes - 1);
    assert_status(read_all(reader, bytes.data, kept, entries, is_list, random, &count),
                  GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "a test: a row is cut"));
    assert_int_equal(count, at);
    gy_text_free(&bytes);
}

GY_TEST(rows_come_back)
{
    for_each_table(check_whole);
}

GY_TEST(rows_that_fall_are_refused)
{
    for_each_table(check_fallen);
}

GY_TEST(rows_that_are_cut_are_refused)
{
    for_each_table(check_cut);
}

GY_TEST_MAIN(NULL, NULL)
