/* Goal: sorted sources become one in order and stably, whatever the pieces they come in; groups
 * give each key's values. */
#include "mapreduce/sort/records_test.h"

#include "gy_test.h"

/* A source that gives its bytes in pieces of random sizes. */
typedef struct pieces {
    char *data, *piece;
    size_t size_bytes, at, most;
    gy_random random;
} pieces;

static gy_status fill(void *arg, const void **data, size_t *size_bytes)
{
    pieces *from = arg;
    const size_t left = from->size_bytes - from->at;
    size_t size = from->most == 0 ? left : 1 + gy_random_below(&from->random, from->most);
    size = GY_MIN(size, left);
    memset(from->piece, 0xee, from->size_bytes); /* the last piece is gone */
    memcpy(from->piece, from->data + from->at, size);
    from->at += size;
    *data = from->piece;
    *size_bytes = size;
    return GY_OK;
}

static void write_pieces(pieces *to, const gy_sort_item *items, size_t count)
{
    size_t size = 1;
    for (size_t i = 0; i < count; i++) {
        size += items[i].key_bytes + items[i].value_bytes + 2 * GY_VARINT_BYTES;
    }
    to->data = gy_alloc("test", size);
    to->piece = gy_alloc("test", size);
    assert_non_null(to->data);
    assert_non_null(to->piece);
    char *at = to->data;
    for (size_t i = 0; i < count; i++) {
        at += gy_sort_varint_put(at, items[i].key_bytes);
        at += gy_sort_varint_put(at, items[i].value_bytes);
        memcpy(at, items[i].key, items[i].key_bytes);
        memcpy(at + items[i].key_bytes, items[i].value, items[i].value_bytes);
        at += items[i].key_bytes + items[i].value_bytes;
    }
    to->size_bytes = (size_t)(at - to->data);
}

enum { SOURCES = 9 };

/* Deal records out to sources in stretches, sort each. */
static void deal(test_records *records, size_t sources, size_t most, pieces *all)
{
    for (size_t i = 0; i < sources; i++) {
        const size_t begin = records->count * i / sources;
        test_records part = *records;
        part.items += begin;
        part.count = records->count * (i + 1) / sources - begin;
        records_sort(&part);
        all[i] = (pieces){.most = most, .random = {i, most}};
        write_pieces(&all[i], part.items, part.count);
    }
}

static void free_pieces(pieces *all, size_t sources)
{
    for (size_t i = 0; i < sources; i++) {
        gy_free(all[i].data);
        gy_free(all[i].piece);
    }
}

static gy_merge *open_merge(const test_records *records, pieces *all, size_t sources)
{
    gy_merge_source list[SOURCES];
    for (size_t i = 0; i < sources; i++) {
        list[i] = (gy_merge_source){fill, &all[i]};
    }
    const gy_sort_layout layout = {
        .kind = GY_LAYOUT_FRAMED, .key = records->key, .has_values = records->has_values};
    gy_merge *merge = NULL;
    assert_int_equal(gy_merge_new(&layout, list, sources, &merge), GY_OK);
    return merge;
}

GY_TEST(sources_merge)
{
    gy_random random = {gy_test_seed(), 0};
    for (long round = 0; round < gy_test_cases(80); round++) {
        const size_t sources = (size_t)round % (SOURCES + 1);
        const test_shape shape = {.count = sources == 0 ? 0 : gy_random_below(&random, 600),
                                  .key_most =
                                      1 + gy_random_below(&random, round % 3 == 0 ? 200 : 10),
                                  .value_most = gy_random_below(&random, 200),
                                  .alphabet = round % 2 == 0 ? 2 : 256,
                                  .has_values = round % 4 == 1,
                                  .key = (gy_key_kind)(round % 5 == 4 ? 1 + round % 2 : 0)};
        test_records records = records_make(&random, &shape);
        pieces all[SOURCES];
        deal(&records, sources, (size_t)round % 3 * 20, all);
        gy_merge *merge = open_merge(&records, all, sources);
        records_sort(&records);
        gy_sort_item item;
        bool has = true;
        for (size_t i = 0; i < records.count; i++) {
            assert_int_equal(gy_merge_next(merge, &item, &has), GY_OK);
            assert_true(has && test_is_same(&item, &records.items[i]));
        }
        for (int again = 0; again < 2; again++) {
            assert_int_equal(gy_merge_next(merge, &item, &has), GY_OK);
            assert_false(has);
        }
        gy_merge_free(merge);
        free_pieces(all, sources);
        records_free(&records);
    }
}

GY_TEST(cut_sources_are_refused)
{
    const gy_sort_item item = {
        .key = "key", .value = "value", .key_bytes = 3, .value_bytes = 5};
    const gy_sort_layout layout = {.kind = GY_LAYOUT_FRAMED};
    for (size_t size = 1; size <= 20; size++) {
        pieces from = {.most = size % 3};
        write_pieces(&from, (const gy_sort_item[]){item, item}, 2);
        assert_int_equal(from.size_bytes, 20);
        from.size_bytes = size;
        gy_merge *merge = NULL;
        gy_status status = gy_merge_new(&layout, &(gy_merge_source){fill, &from}, 1, &merge);
        gy_sort_item got;
        for (bool has = true; status == GY_OK && has;) {
            status = gy_merge_next(merge, &got, &has);
        }
        assert_int_equal(status, size % 10 == 0 ? GY_OK : GY_FORMAT);
        gy_merge_free(merge);
        free_pieces(&from, 1);
    }
    pieces bad = {
        .data = gy_alloc("test", 32), .piece = gy_alloc("test", 32), .size_bytes = 32};
    memset(bad.data, 0xff, 32); /* sizes beyond 64 bits */
    gy_merge *merge = NULL;
    assert_int_equal(gy_merge_new(&layout, &(gy_merge_source){fill, &bad}, 1, &merge),
                     GY_FORMAT);
    free_pieces(&bad, 1);
}

/* Some groups are read to their end, some in part, some not at all. */
GY_TEST(groups_give_each_key_once)
{
    gy_random random = {gy_test_seed(), 1};
    for (long round = 0; round < gy_test_cases(40); round++) {
        const test_shape shape = {.count = gy_random_below(&random, 500),
                                  .key_most = 2,
                                  .value_most = 5,
                                  .alphabet = 3,
                                  .has_values = round % 2 == 0};
        test_records records = records_make(&random, &shape);
        pieces all[SOURCES];
        deal(&records, 4, 7, all);
        gy_merge *merge = open_merge(&records, all, 4);
        records_sort(&records);
        gy_sort_groups groups;
        gy_sort_groups_init(&groups, gy_sort_next_merged, merge);
        gy_sort_span key, value;
        bool has = true;
        size_t at = 0;
        while (gy_sort_groups_next(&groups, &key, &has) == GY_OK && has) {
            const gy_sort_item *first = &records.items[at];
            size_t end = at + 1;
            while (end < records.count &&
                   gy_sort_bytes_compare(first->key, first->key_bytes, records.items[end].key,
                                         records.items[end].key_bytes) == 0) {
                end++;
            }
            assert_int_equal(
                gy_sort_bytes_compare(key.data, key.size_bytes, first->key, first->key_bytes),
                0);
            size_t wanted =
                gy_random_below(&random, 2) == 0 ? end - at : gy_random_below(&random, 3);
            wanted = GY_MIN(wanted, end - at);
            for (size_t i = at; i < at + wanted; i++) {
                assert_int_equal(gy_sort_groups_value(&groups, &value, &has), GY_OK);
                assert_true(has);
                assert_int_equal(gy_sort_bytes_compare(value.data, value.size_bytes,
                                                       records.items[i].value,
                                                       records.items[i].value_bytes),
                                 0);
            }
            if (wanted == end - at) {
                assert_int_equal(gy_sort_groups_value(&groups, &value, &has), GY_OK);
                assert_false(has);
            }
            at = end;
        }
        assert_int_equal(at, records.count);
        gy_sort_groups_fini(&groups);
        gy_merge_free(merge);
        free_pieces(all, 4);
        records_free(&records);
    }
}

GY_TEST_MAIN(NULL, NULL)
