/* Visits a table in canonical order: by hash, then key. */
#include "mapreduce/table_priv.h"

#include "base/base.h"

#include <string.h>

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS, PREFETCH = 24, INSERTION_MOVES = 48 };

/* Slots have half of the hash: those with equal halves are ordered during the visit. */
static uint32_t half_of(gy_mapreduce_slot slot)
{
    return (uint32_t)(slot >> 32);
}

/* One stable counting pass by RADIX_BITS bits of the hash. */
static void radix_pass(const gy_mapreduce_slot *from, gy_mapreduce_slot *to, size_t count,
                       int shift)
{
    size_t starts[RADIX] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[from[i] >> shift & (RADIX - 1)]++;
    }
    size_t sum = 0;
    for (size_t i = 0; i < RADIX; i++) {
        const size_t size = starts[i];
        starts[i] = sum;
        sum += size;
    }
    for (size_t i = 0; i < count; i++) {
        to[starts[from[i] >> shift & (RADIX - 1)]++] = from[i];
    }
}

/* Order by half of the hash; with equal halves by hash and key. */
static bool is_before(const gy_mapreduce_table *table, gy_mapreduce_slot a, gy_mapreduce_slot b,
                      bool by_key)
{
    if (!by_key) {
        return half_of(a) < half_of(b);
    }
    const gy_record_head *left = gy_record_at(table, a), *right = gy_record_at(table, b);
    const uint64_t left_hash = gy_record_hash(left), right_hash = gy_record_hash(right);
    if (left_hash != right_hash) {
        return left_hash < right_hash;
    }
    const int sign = memcmp(left->key, right->key, GY_MIN(left->key_size, right->key_size));
    return sign != 0 ? sign < 0 : left->key_size < right->key_size;
}

/* Stable merge sort, bottom-up. `other` is as large. */
static void merge_sort(const gy_mapreduce_table *table, gy_mapreduce_slot *slots,
                       gy_mapreduce_slot *other, size_t count, bool by_key)
{
    gy_mapreduce_slot *from = slots, *to = other;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            const size_t middle = GY_MIN(low + width, count),
                         high = GY_MIN(low + 2 * width, count);
            size_t left = low, right = middle;
            for (size_t i = low; i < high; i++) {
                const bool takes_right =
                    right < high &&
                    (left == middle || is_before(table, from[right], from[left], by_key));
                to[i] = takes_right ? from[right++] : from[left++];
            }
        }
        gy_mapreduce_slot *last = from;
        from = to;
        to = last;
    }
    if (from != slots) {
        memcpy(slots, from, count * sizeof(*slots));
    }
}

/* Sort slots that are nearly in order; false: some are too far from their position (the slots
 * are still complete, and the caller sorts them in another way). */
static bool insertion_sort(gy_mapreduce_slot *slots, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (half_of(slots[i]) < half_of(slots[i - 1])) {
            const gy_mapreduce_slot slot = slots[i];
            size_t j = i;
            for (; j > 0 && half_of(slot) < half_of(slots[j - 1]); j--) {
                slots[j] = slots[j - 1];
            }
            slots[j] = slot;
            if (i - j > INSERTION_MOVES) {
                return false;
            }
        }
    }
    return true;
}

/* Sort by half of the hash, stable. */
static gy_status sort_slots(gy_mapreduce_table *table)
{
    if (!table->is_passing) {
        const size_t kept =
            gy_slots_squeeze(table->slots, table->slots, table->capacity + GY_SLOTS_BEHIND - 1);
        GY_ASSERT(kept == table->used);
        if (insertion_sort(table->slots, table->used)) {
            return GY_OK;
        }
    }
    const size_t bytes = gy_mapreduce_table_slots_bytes(table->used);
    gy_region space;
    GY_TRY(gy_region_reserve(&space, bytes, bytes));
    const gy_status status = gy_region_grow(&space, bytes);
    if (status < 0) {
        gy_region_release(&space);
        return status;
    }
    gy_mapreduce_slot *other = (gy_mapreduce_slot *)(void *)space.at;
    radix_pass(table->slots, other, table->used, 64 - 2 * RADIX_BITS);
    radix_pass(other, table->slots, table->used, 64 - RADIX_BITS);
    /* few slots share 22 bits, except for a very frequent key */
    for (size_t low = 0; low < table->used;) {
        size_t high = low + 1;
        while (high < table->used && table->slots[high] >> (64 - 2 * RADIX_BITS) ==
                                         table->slots[low] >> (64 - 2 * RADIX_BITS)) {
            high++;
        }
        if (!insertion_sort(table->slots + low, high - low)) {
            merge_sort(table, table->slots + low, other, high - low, false);
        }
        low = high;
    }
    gy_region_release(&space);
    return GY_OK;
}

static bool is_equal_key(const gy_record_head *a, const gy_record_head *b)
{
    return a->key_size == b->key_size && memcmp(a->key, b->key, a->key_size) == 0;
}

/* Sort slots with equal halves by hash and key, if they have different keys. */
static gy_status sort_equal_halves(const gy_mapreduce_table *table, gy_mapreduce_slot *slots,
                                   size_t count)
{
    const gy_record_head *first = gy_record_at(table, slots[0]);
    size_t same = 1;
    while (same < count && is_equal_key(first, gy_record_at(table, slots[same]))) {
        same++;
    }
    if (same == count) {
        return GY_OK;
    }
    gy_mapreduce_slot *other = gy_alloc("mapreduce.order", count * sizeof(*other));
    if (other == NULL) {
        return GY_NOMEM;
    }
    merge_sort(table, slots, other, count, true);
    gy_free(other);
    return GY_OK;
}

static gy_status visit_list(const gy_list *list, gy_row *row, gy_row_visit visit, void *arg)
{
    for (const gy_chunk *chunk = list->first; chunk != NULL; chunk = chunk->next) {
        row->list = chunk->bytes;
        row->list_size = chunk->used;
        GY_TRY(visit(arg, row));
    }
    return GY_OK;
}

/* Visit the slots from `low` on that have its key: one row for a number, a row for each
 * segment of lists. Returns where the next key begins. */
static gy_status visit_key(const gy_mapreduce_table *table, size_t *low, size_t high,
                           gy_row_visit visit, void *arg)
{
    const gy_mapreduce_slot *slots = table->slots;
    const gy_record_head *record = gy_record_at(table, slots[*low]);
    const bool is_list = gy_mapreduce_fold_is_list(table->options.fold);
    gy_row row = {
        .hash = gy_record_hash(record), .key = record->key, .key_size = record->key_size};
    if (!is_list) {
        row.number = record->number;
    } else {
        GY_TRY(visit_list(record->list, &row, visit, arg));
    }
    size_t next = *low + 1;
    for (; next < high && is_equal_key(record, gy_record_at(table, slots[next])); next++) {
        const gy_record_head *same = gy_record_at(table, slots[next]);
        if (is_list) {
            GY_TRY(visit_list(same->list, &row, visit, arg));
        } else {
            row.number = gy_mapreduce_fold_numbers(table->options.fold, table->options.join,
                                                   row.number, same->number);
        }
    }
    *low = next;
    return is_list ? GY_OK : visit(arg, &row);
}

gy_status gy_mapreduce_table_visit(gy_mapreduce_table *table, gy_row_visit visit, void *arg)
{
    GY_TRY(sort_slots(table));
    const gy_mapreduce_slot *slots = table->slots;
    const size_t used = table->used;
    for (size_t low = 0, ahead = 0; low < used;) {
        size_t high = low + 1;
        while (high < used && half_of(slots[high]) == half_of(slots[low])) {
            high++;
        }
        for (; ahead < GY_MIN(high + PREFETCH, used); ahead++) {
            const char *record = (const char *)gy_record_at(table, slots[ahead]);
            __builtin_prefetch(record);
            __builtin_prefetch(record + GY_CACHE_LINE);
        }
        if (high > low + 1) {
            GY_TRY(sort_equal_halves(table, table->slots + low, high - low));
        }
        while (low < high) {
            GY_TRY(visit_key(table, &low, high, visit, arg));
        }
    }
    return GY_OK;
}
