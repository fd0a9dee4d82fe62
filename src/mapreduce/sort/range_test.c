/* Goal: parts of a range sort, one after the other, are what a plain stable sort gives, under
 * budgets that force many passes; splitters are even and a function of the sample. */
#include "mapreduce/sort.h"
#include "mapreduce/sort/records_test.h"

#include "base/base.h"

#include "gy_test.h"

#include <time.h>

enum { SPANS = 3, PARTS_MOST = 5 };

typedef struct input {
    gy_sort_layout layout;
    char *bytes;
    gy_sort_span spans[SPANS];
    gy_sort_records records;
    gy_entry *order; /* all records, sorted plainly */
    size_t count;
    size_t size_bytes; /* of the output */
} input;

static void sort_plainly(input *in)
{
    in->order = gy_alloc("test", (in->count + 1) * sizeof(*in->order));
    assert_non_null(in->order);
    in->records = (gy_sort_records){&in->layout, in->spans, SPANS};
    in->size_bytes = 0;
    size_t count = 0;
    for (size_t i = 0; i < SPANS; i++) {
        for (size_t at = 0; at < in->spans[i].size_bytes;) {
            const uint64_t position = gy_sort_position(i, at);
            const gy_sort_item item = gy_sort_item_at(&in->records, position);
            in->order[count++] = (gy_entry){0, position};
            at += item.size_bytes;
            size_t written = item.size_bytes;
            written += in->layout.kind == GY_LAYOUT_LINES &&
                       gy_sort_line_trim(&in->layout, item.data, &written);
            in->size_bytes += written;
        }
    }
    assert_int_equal(count, in->count);
    records_compared = &in->records;
    qsort(in->order, count, sizeof(*in->order), records_compare_entries);
}

typedef struct input_shape {
    gy_sort_layout layout;
    size_t count, key_most; /* key_most: LINES */
    unsigned alphabet;      /* of keys */
    unsigned heavy;         /* per cent with one key */
    bool is_cut;            /* the last line lacks its end */
    bool is_zero;           /* bytes from 0, not from 'a': they look like the end of a key */
} input_shape;

static void make(gy_random *random, const input_shape *shape, input *in)
{
    const bool is_fixed = shape->layout.kind == GY_LAYOUT_FIXED;
    const size_t most = is_fixed ? shape->layout.record_bytes : shape->key_most + 2;
    *in = (input){.layout = shape->layout, .count = shape->count};
    in->bytes = gy_alloc("test", shape->count * most + 1);
    assert_non_null(in->bytes);
    char *to = in->bytes;
    size_t record = 0;
    for (size_t span = 0; span < SPANS; span++) {
        const char *begin = to;
        for (; record < shape->count * (span + 1) / SPANS; record++) {
            const bool is_heavy = gy_random_below(random, 100) < shape->heavy;
            const size_t key = is_fixed   ? most
                               : is_heavy ? shape->key_most
                                          : gy_random_below(random, shape->key_most + 1);
            for (size_t i = 0; i < key; i++) {
                const char byte = (char)gy_random_below(random, shape->alphabet);
                *to++ = (char)((shape->is_zero ? 0 : 'a') +
                               (is_heavy && i < shape->key_most ? 1 : byte));
                if (shape->layout.takes_cr && to[-1] == 'b') {
                    to[-1] = '\r';
                }
            }
            if (!is_fixed) {
                *to++ = '\n';
            }
        }
        if (shape->is_cut && to - begin >= 2 && to[-2] != '\n') {
            to--;
        }
        in->spans[span] = (gy_sort_span){begin, (size_t)(to - begin)};
    }
    sort_plainly(in);
}

static void drop(input *in)
{
    gy_free(in->bytes);
    gy_free(in->order);
}

typedef struct output {
    char *data;
    size_t used, capacity;
    int fail_at; /* so many rooms from now; 0: never */
} output;

static gy_status room(void *arg, size_t size_bytes, void **at)
{
    output *out = arg;
    if (out->fail_at > 0 && --out->fail_at == 0) {
        return gy_fail(GY_IO, "no more room");
    }
    assert_true(out->used + size_bytes <= out->capacity);
    *at = out->data + out->used;
    return GY_OK;
}

static gy_status wrote(void *arg, size_t size_bytes)
{
    ((output *)arg)->used += size_bytes;
    return GY_OK;
}

static void check_order(const input *in, const output *out)
{
    assert_int_equal(out->used, in->size_bytes);
    const char *at = out->data;
    for (size_t i = 0; i < in->count; i++) {
        const gy_sort_item item = gy_sort_item_at(&in->records, in->order[i].position);
        size_t size = item.size_bytes;
        const bool is_cut = in->layout.kind == GY_LAYOUT_LINES &&
                            gy_sort_line_trim(&in->layout, item.data, &size);
        assert_memory_equal(at, item.data, size);
        at += size;
        if (is_cut) {
            assert_true(*at++ == '\n');
        }
    }
}

/* Sort in parts; the scans that it took. */
static uint64_t check(const input *in, size_t parts, bool keeps_keys, size_t memory_bytes)
{
    gy_mapreduce_sample sample;
    gy_sort_bound bounds[PARTS_MOST];
    assert_int_equal(gy_mapreduce_sample_take(&in->records, 1, &sample), GY_OK);
    gy_mapreduce_sample_split(&sample, in->layout.key, parts, keeps_keys, bounds);
    output out = {gy_alloc("test", in->size_bytes + 1), 0, in->size_bytes, 0};
    assert_non_null(out.data);
    const gy_sort_sink sink = {room, wrote, &out};
    uint64_t scans = 0, records = 0;
    const int64_t live = gy_alloc_live();
    for (size_t i = 0; i < parts; i++) {
        const gy_sort_range_of range = {i == 0 ? NULL : &bounds[i - 1],
                                        i + 1 == parts ? NULL : &bounds[i]};
        const gy_range_options options = {memory_bytes, &sample};
        gy_range_report report;
        assert_int_equal(gy_sort_range(&in->records, &range, &options, &sink, &report), GY_OK);
        scans += report.scans;
        records += report.records;
    }
    assert_int_equal(gy_alloc_live(), live);
    assert_int_equal(records, in->count);
    check_order(in, &out);
    gy_free(out.data);
    gy_mapreduce_sample_free(&sample);
    return scans;
}

static const gy_sort_layout lines = {.kind = GY_LAYOUT_LINES};
static const gy_sort_layout cr_lines = {.kind = GY_LAYOUT_LINES, .takes_cr = true};

static gy_sort_layout fixed(size_t record_bytes, size_t key_offset, size_t key_bytes)
{
    return (gy_sort_layout){.kind = GY_LAYOUT_FIXED,
                            .record_bytes = record_bytes,
                            .key_offset = key_offset,
                            .key_bytes = key_bytes};
}

GY_TEST(parts_make_the_whole)
{
    gy_random random = {gy_test_seed(), 0};
    static const size_t counts[] = {0, 1, 2, 97, 4099, 30011};
    for (long round = 0; round < gy_test_cases(40); round++) {
        input_shape shape = {.count = counts[gy_random_below(&random, GY_COUNT(counts))],
                             .key_most = 1 + gy_random_below(&random, 20),
                             .alphabet = round % 3 == 0 ? 26 : 2,
                             .heavy = round % 4 == 0 ? 40 : 0,
                             .is_cut = round % 5 == 0};
        shape.layout = lines;
        if (round % 2 == 0) {
            const size_t key = 1 + gy_random_below(&random, 16);
            shape.layout = fixed(20, gy_random_below(&random, 21 - key), key);
            shape.is_cut = false;
        } else if (round % 8 == 1) {
            shape.layout.key_offset = 1;
            shape.layout.key_bytes = 3;
        }
        input in;
        make(&random, &shape, &in);
        check(&in, 1 + (size_t)round % PARTS_MOST, round % 3 == 1, 0);
        drop(&in);
    }
}

/* 4 MiB, half of them for other things, hold 58,000 entries. */
GY_TEST(small_budgets_take_passes)
{
    gy_random random = {gy_test_seed(), 1};
    const size_t count = (size_t)GY_MAX(gy_test_cases(200000), 70000);
    const input_shape shapes[] = {
        {.layout = fixed(16, 0, 10), .count = count, .alphabet = 20},
        {.layout = fixed(12, 1, 9),
         .count = count,
         .alphabet = 20,
         .heavy = 60,
         .key_most = 12},
        {.layout = fixed(24, 0, 20),
         .count = count,
         .alphabet = 20,
         .heavy = 95,
         .key_most = 18},
        {.layout = lines, .count = count, .alphabet = 2, .key_most = 12},
        {.layout = lines, .count = count, .alphabet = 1, .key_most = 40, .is_cut = true},
        {.layout = lines, .count = count, .alphabet = 20, .key_most = 14, .heavy = 100},
        {.layout = cr_lines, .count = count, .alphabet = 2, .key_most = 12, .is_cut = true},
        {.layout = cr_lines, .count = count, .alphabet = 2, .key_most = 9, .heavy = 40},
    };
    for (size_t i = 0; i < GY_COUNT(shapes); i++) {
        input in;
        make(&random, &shapes[i], &in);
        const uint64_t scans = check(&in, 1 + i % 2, false, GY_RANGE_MEMORY_BYTES_MIN);
        printf("shape %zu: %llu scans\n", i, (unsigned long long)scans);
        assert_true(scans >= 2 && scans < 60);
        drop(&in);
    }
}

/* More than fits the cache in each bucket: parts of parts. */
GY_TEST(large_buckets_are_dealt_out)
{
    gy_random random = {gy_test_seed(), 2};
    const size_t count = (size_t)GY_MAX(gy_test_cases(200000), 60000);
    const input_shape shapes[] = {
        {.layout = fixed(16, 0, 14), .count = count, .alphabet = 3, .heavy = 70, .key_most = 9},
        {.layout = lines, .count = count, .alphabet = 1, .key_most = 50},
        {.layout = lines, .count = count, .alphabet = 1, .key_most = 20, .is_zero = true},
        {.layout = lines, .count = count, .alphabet = 2, .key_most = 30, .heavy = 90},
        {.layout = {GY_LAYOUT_FIXED, GY_KEY_INT64, 8, 0, 8, false, false},
         .count = count,
         .alphabet = 1},
    };
    for (size_t i = 0; i < GY_COUNT(shapes); i++) {
        input in;
        make(&random, &shapes[i], &in);
        check(&in, 1, false, 0);
        drop(&in);
    }
}

/* Zeros with every nibble beside them: levels of parts beyond the spare chunks. */
GY_TEST(deep_keys_are_sorted_whole)
{
    enum { KEY = 64, DEEP = 34000, ASIDE = 30 };
    gy_random random = {gy_test_seed(), 6};
    const input_shape shape = {
        .layout = fixed(KEY, 0, KEY), .count = DEEP + KEY * ASIDE, .alphabet = 1};
    input in;
    make(&random, &shape, &in);
    gy_free(in.order);
    for (size_t i = 0; i < shape.count; i++) {
        char *key = in.bytes + i * 7919 % shape.count * KEY;
        memset(key, 0, KEY);
        if (i < DEEP) {
            memcpy(key + KEY - 4, &(uint32_t){(uint32_t)i * 40503}, 4);
        } else {
            const size_t aside = (i - DEEP) % ASIDE;
            key[(i - DEEP) / ASIDE] = (char)(aside < 15 ? aside + 1 : (aside - 14) << 4);
        }
    }
    sort_plainly(&in);
    check(&in, 1, false, GY_RANGE_MEMORY_BYTES_MIN);
    drop(&in);
}

GY_TEST(typed_keys_take_passes)
{
    gy_random random = {gy_test_seed(), 3};
    for (int kind = GY_KEY_INT64; kind <= GY_KEY_FLOAT64; kind++) {
        input_shape shape = {.layout = fixed(8, 0, 8),
                             .count = (size_t)GY_MAX(gy_test_cases(150000), 80000),
                             .alphabet = 256,
                             .heavy = 50};
        shape.layout.key = (gy_key_kind)kind;
        shape.key_most = 8;
        input in;
        make(&random, &shape, &in);
        check(&in, 2, false, GY_RANGE_MEMORY_BYTES_MIN);
        drop(&in);
    }
}

GY_TEST(splitters_are_even)
{
    gy_random random = {gy_test_seed(), 4};
    const input_shape shape = {.layout = fixed(20, 0, 10), .count = 50000, .alphabet = 20};
    input in;
    make(&random, &shape, &in);
    gy_mapreduce_sample sample, again;
    assert_int_equal(gy_mapreduce_sample_take(&in.records, 5, &sample), GY_OK);
    assert_int_equal(gy_mapreduce_sample_take(&in.records, 5, &again), GY_OK);
    assert_int_equal(sample.count, GY_SAMPLE_MOST);
    assert_int_equal(sample.records, shape.count);
    gy_sort_bound bounds[PARTS_MOST], same[PARTS_MOST];
    gy_mapreduce_sample_split(&sample, GY_KEY_BYTES, 4, false, bounds);
    gy_mapreduce_sample_split(&again, GY_KEY_BYTES, 4, false, same);
    size_t at = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(gy_sort_bound_compare(GY_KEY_BYTES, &bounds[i], &same[i]), 0);
        const size_t before = at;
        for (; at < in.count; at++) {
            const gy_sort_item item = gy_sort_item_at(&in.records, in.order[at].position);
            const gy_sort_bound here = {item.key, item.key_bytes, in.order[at].position};
            if (gy_sort_bound_compare(GY_KEY_BYTES, &here, &bounds[i]) >= 0) {
                break;
            }
        }
        const double share = (double)(at - before) / (double)in.count;
        assert_true(share > 0.23 && share < 0.27);
    }
    gy_mapreduce_sample_free(&sample);
    gy_mapreduce_sample_free(&again);
    drop(&in);
}

GY_TEST(bad_inputs_and_failures)
{
    gy_mapreduce_sample sample;
    const gy_sort_layout layout = fixed(10, 0, 4), framed = {.kind = GY_LAYOUT_FRAMED};
    const gy_sort_span cut = {"0123456789abc", 13};
    assert_int_equal(gy_mapreduce_sample_take(&(gy_sort_records){&layout, &cut, 1}, 1, &sample),
                     GY_FORMAT);
    assert_int_equal(gy_mapreduce_sample_take(&(gy_sort_records){&framed, &cut, 1}, 1, &sample),
                     GY_ARG);
    gy_random random = {gy_test_seed(), 5};
    const input_shape shape = {.layout = fixed(20, 0, 10), .count = 100000, .alphabet = 20};
    input in;
    make(&random, &shape, &in);
    assert_int_equal(gy_mapreduce_sample_take(&in.records, 1, &sample), GY_OK);
    const int64_t live = gy_alloc_live();
    const gy_sort_range_of all = {NULL, NULL};
    gy_range_report report;
    output out = {gy_alloc("test", in.size_bytes), 0, in.size_bytes, 0};
    const gy_sort_sink sink = {room, wrote, &out};
    const gy_range_options little = {1 << 20, &sample}, enough = {0, &sample};
    assert_int_equal(gy_sort_range(&in.records, &all, &little, &sink, &report), GY_ARG);
    for (int n = 1; n < 20; n += 6) {
        out.used = 0;
        out.fail_at = n;
        assert_int_equal(gy_sort_range(&in.records, &all, &enough, &sink, &report), GY_IO);
        out.fail_at = 0;
    }
    gy_status status = GY_NOMEM;
    for (int n = 1; status != GY_OK; n++) {
        out.used = 0;
        gy_alloc_fail_after(n);
        status = gy_sort_range(&in.records, &all, &enough, &sink, &report);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        assert_int_equal(gy_alloc_live(), live + 1);
    }
    gy_free(out.data);
    gy_mapreduce_sample_free(&sample);
    drop(&in);
}

/* Lines that are longer than what a sample draws from, and agree in all but their ends: work
 * grows with their bytes, not with bytes times samples or words. */
GY_TEST(long_lines_are_looked_at_once)
{
    enum { LONG = 3 << 20, LINES = 20, EACH = 150 << 10 };
    const clock_t begin = clock();
    for (size_t key_bytes = 0; key_bytes <= EACH / 2; key_bytes += EACH / 2) {
        input in = {
            .layout = {.kind = GY_LAYOUT_LINES, .key_offset = 3, .key_bytes = key_bytes},
            .count = LINES + 2};
        in.bytes = gy_alloc("test", LONG + LINES * EACH + 1);
        assert_non_null(in.bytes);
        memset(in.bytes, 'x', LONG + LINES * EACH + 1);
        in.bytes[0] = '\n';
        for (size_t i = 0; i < LINES; i++) {
            char *end = in.bytes + 1 + (i + 1) * EACH;
            end[-1] = '\n';
            end[-2] = (char)('a' + i * 7 % LINES);
            end[-EACH / 2] = (char)('a' + i % 2);
        }
        in.spans[0] = (gy_sort_span){in.bytes, 1 + LINES * EACH};
        in.spans[2] = (gy_sort_span){in.bytes + 1 + LINES * EACH, LONG}; /* a line, cut */
        sort_plainly(&in);
        check(&in, 2, false, 16 << 20);
        drop(&in);
    }
    assert_true(clock() - begin < 20 * CLOCKS_PER_SEC);
}

GY_TEST_MAIN(NULL, NULL)
