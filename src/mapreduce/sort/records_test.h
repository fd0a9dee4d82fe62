/**
 * For the tests of sorting: random records of key and value, and their order by a simple sort.
 */
#ifndef GY_MAPREDUCE_SORT_RECORDS_TEST_H
#define GY_MAPREDUCE_SORT_RECORDS_TEST_H

#include "mapreduce/sort.h"

#include "base/base.h"

#include <stdlib.h>

/** Records in memory of their own; the items point into it. */
typedef struct test_records {
    char *bytes;
    gy_sort_item *items;
    size_t count;
    bool has_values;
    gy_key_kind key;
} test_records;

typedef struct test_shape {
    size_t count, key_most, value_most;
    unsigned alphabet; /* all bytes are below it */
    unsigned heavy;    /* percentage of records with one key */
    bool has_values;
    gy_key_kind key; /* a typed key has 8 bytes */
} test_shape;

static inline test_records records_make(gy_random *random, const test_shape *shape)
{
    const size_t most = GY_MAX(shape->key_most, 8) + shape->value_most;
    test_records made = {gy_alloc("test", shape->count * (most + 1) + 1),
                         gy_alloc_zero("test", shape->count + 1, sizeof(gy_sort_item)),
                         shape->count, shape->has_values, shape->key};
    GY_ASSERT(made.bytes != NULL && made.items != NULL);
    char *to = made.bytes;
    for (size_t i = 0; i < shape->count; i++) {
        const bool is_heavy = gy_random_below(random, 100) < shape->heavy;
        size_t key = is_heavy ? shape->key_most : gy_random_below(random, shape->key_most + 1);
        key = shape->key == GY_KEY_BYTES ? key : 8;
        const size_t value = gy_random_below(random, shape->value_most + 1);
        made.items[i] = (gy_sort_item){
            .key = to, .value = to + key, .key_bytes = key, .value_bytes = value};
        for (size_t j = 0; j < key + value; j++) {
            const char byte = (char)gy_random_below(random, shape->alphabet);
            *to++ = is_heavy && j < key ? 'k' : byte;
        }
        to++; /* no two records at the same address */
    }
    return made;
}

static inline int test_compare(const void *a, const void *b, void *arg)
{
    const gy_sort_item *first = a, *second = b;
    const test_records *records = arg;
    const gy_sort_layout layout = {
        .kind = GY_LAYOUT_FRAMED, .key = records->key, .has_values = records->has_values};
    const int order = gy_sort_item_compare(&layout, first, second);
    return order != 0 ? order : (first->key > second->key) - (first->key < second->key);
}

/** Put the items into the order of a stable sort: their addresses ascend with the input. */
static inline void records_sort(test_records *records)
{
    qsort_r(records->items, records->count, sizeof(gy_sort_item), test_compare, records);
}

static inline bool test_is_same(const gy_sort_item *a, const gy_sort_item *b)
{
    return gy_sort_bytes_compare(a->key, a->key_bytes, b->key, b->key_bytes) == 0 &&
           gy_sort_bytes_compare(a->value, a->value_bytes, b->value, b->value_bytes) == 0;
}

static inline void records_free(test_records *records)
{
    gy_free(records->bytes);
    gy_free(records->items);
}

/** Where the entries that qsort() compares point. */
static const gy_sort_records *records_compared;

static inline int records_compare_entries(const void *a, const void *b)
{
    const gy_entry *first = a, *second = b;
    const gy_sort_item x = gy_sort_item_at(records_compared, first->position);
    const gy_sort_item y = gy_sort_item_at(records_compared, second->position);
    const int order = gy_sort_item_compare(records_compared->layout, &x, &y);
    return order != 0
               ? order
               : (first->position > second->position) - (first->position < second->position);
}

#endif
