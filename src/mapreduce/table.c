/* Tables: adds items in waves of 16, so that the cache misses of a wave overlap. */
#include "mapreduce/table_priv.h"

#include "base/base.h"

#include <assert.h>
#include <string.h>

enum {
    WAVE = 16,
    WAVES = 3,
    SAMPLE = 4 << 20,
    BLOCK_BYTES_MIN = 4096,
    BLOCK_BYTES_MAX = 8 << 20,
};

/* An item being added: its slot is prefetched, then its record. */
typedef struct pending {
    const char *key;
    const gy_item *item; /* NULL: a word of a text */
    uint64_t hash;
    gy_key_head head;
    uint32_t key_size;
    uint32_t found; /* position of a record with the same half of the hash; 0: none */
} pending;

int64_t gy_mapreduce_fold_numbers(gy_mapreduce_fold fold, gy_join_numbers join, int64_t left,
                                  int64_t right)
{
    switch (fold) {
    case GY_FOLD_SUM:
        return (int64_t)((uint64_t)left + (uint64_t)right);
    case GY_FOLD_MIN:
        return GY_MIN(left, right);
    case GY_FOLD_MAX:
        return GY_MAX(left, right);
    case GY_FOLD_USER:
        return join(left, right);
    case GY_FOLD_LIST:
    case GY_FOLD_NUMBERS:
    case GY_FOLD_SET:
        break;
    }
    gy_panic("fold %d does not fold numbers", (int)fold);
}

gy_status gy_mapreduce_table_new(const gy_mapreduce_table_options *options,
                                 gy_mapreduce_table **table)
{
    GY_ASSERT(options->memory_bytes >= GY_TABLE_BYTES_MIN && options->full != NULL);
    GY_ASSERT((options->fold == GY_FOLD_USER) == (options->join != NULL));
    gy_mapreduce_table *made = gy_alloc_zero("mapreduce.table", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->options = *options;
    made->options.sample_items = options->sample_items != 0 ? options->sample_items : SAMPLE;
    made->arena_used = GY_PLACE_BYTES;
    /* a power of two, so that huge pages are used completely */
    made->block_bytes = BLOCK_BYTES_MIN;
    while (made->block_bytes < BLOCK_BYTES_MAX &&
           made->block_bytes * 2 <= options->memory_bytes / 16) {
        made->block_bytes *= 2;
    }
    gy_status status = gy_mapreduce_table_reserve(made);
    if (status >= 0) {
        status = gy_mapreduce_table_begin_slots(made);
    }
    if (status < 0) {
        gy_mapreduce_table_free(made);
        return status;
    }
    *table = made;
    return GY_OK;
}

void gy_mapreduce_table_free(gy_mapreduce_table *table)
{
    if (table != NULL) {
        gy_mapreduce_table_unreserve(table);
        gy_free(table);
    }
}

void gy_mapreduce_table_clear(gy_mapreduce_table *table)
{
    table->arena_used = GY_PLACE_BYTES;
    memset(table->slots, 0, gy_mapreduce_table_slots_bytes(table->capacity));
    table->used = 0;
    table->items = 0;
    table->is_passing = false;
    table->clears++;
}

size_t gy_mapreduce_table_size(const gy_mapreduce_table *table)
{
    return table->used;
}

bool gy_mapreduce_table_is_passing(const gy_mapreduce_table *table)
{
    return table->is_passing;
}

static inline bool is_same_key(const gy_record_head *record, const pending *item)
{
    uint64_t low, high;
    memcpy(&low, record->key, sizeof(low));
    memcpy(&high, record->key + sizeof(low), sizeof(high));
    const uint64_t differs =
        (record->key_size ^ item->key_size) | (low ^ item->head.low) | (high ^ item->head.high);
    return differs == 0 && (item->key_size <= GY_KEY_HEAD ||
                            memcmp(record->key + GY_KEY_HEAD, item->key + GY_KEY_HEAD,
                                   item->key_size - GY_KEY_HEAD) == 0);
}

/* GY_AGAIN: no room for the value; nothing was changed. */
static inline gy_status combine(gy_mapreduce_table *table, gy_record_head *record,
                                const pending *item)
{
    if (item->item == NULL) {
        record->number++;
        return GY_OK;
    }
    if (gy_mapreduce_fold_is_list(table->options.fold)) {
        bool is_full = false;
        return gy_list_add(table, record->list, item->item, &is_full);
    }
    record->number = gy_mapreduce_fold_numbers(table->options.fold, table->options.join,
                                               record->number, item->item->number);
    return GY_OK;
}

/* Make a record with its first value. GY_AGAIN: no room; memory taken so far is released by
 * the clear. */
static gy_status make_record(gy_mapreduce_table *table, const pending *item,
                             gy_record_head **made)
{
    bool is_full = false;
    const size_t key_room = GY_MAX((size_t)item->key_size, (size_t)GY_KEY_HEAD);
    gy_record_head *record =
        gy_mapreduce_table_take(table, offsetof(gy_record_head, key) + key_room, &is_full);
    if (record == NULL) {
        return is_full ? GY_AGAIN : GY_NOMEM;
    }
    record->key_size = item->key_size;
    memcpy(record->key, &item->head, sizeof(item->head));
    if (item->key_size > GY_KEY_HEAD) {
        memcpy(record->key + GY_KEY_HEAD, item->key + GY_KEY_HEAD,
               item->key_size - GY_KEY_HEAD);
    }
    record->number = item->item == NULL ? 1 : item->item->number;
    if (gy_mapreduce_fold_is_list(table->options.fold)) {
        record->list = gy_mapreduce_table_take(table, sizeof(gy_list), &is_full);
        if (record->list == NULL) {
            return is_full ? GY_AGAIN : GY_NOMEM;
        }
        *record->list = (gy_list){NULL, NULL, 0};
        GY_TRY(gy_list_add(table, record->list, item->item, &is_full));
        if (is_full) {
            return GY_AGAIN;
        }
    }
    *made = record;
    return GY_OK;
}

/* Stop combining: from here on items are only stored, in the order of arrival. */
static void give_up_combining(gy_mapreduce_table *table)
{
    const size_t kept =
        gy_slots_squeeze(table->slots, table->slots, table->capacity + GY_SLOTS_BEHIND - 1);
    GY_ASSERT(kept == table->used);
    table->is_passing = true;
}

static gy_status append(gy_mapreduce_table *table, const pending *item)
{
    gy_status status = gy_mapreduce_table_room(table);
    if (status != GY_OK) {
        return status;
    }
    gy_record_head *record = NULL;
    status = make_record(table, item, &record);
    if (status == GY_OK) {
        table->slots[table->used++] =
            gy_mapreduce_slot_of(item->hash, gy_place_of(table, record));
    }
    return status;
}

/* Find or make the record. GY_AGAIN: no room; nothing was changed. */
static gy_status insert(gy_mapreduce_table *table, const pending *item)
{
    if (table->is_passing) {
        return append(table, item);
    }
    const size_t home = gy_mapreduce_slot_index(table, item->hash);
    size_t at = home;
    for (; table->slots[at] != 0; at++) {
        if (table->slots[at] >> 32 == item->hash >> 32) {
            gy_record_head *record = gy_record_at(table, table->slots[at]);
            if (is_same_key(record, item)) {
                return combine(table, record, item);
            }
        }
    }
    if (at - home > GY_PROBES_MAX) { /* keys arrive in the order of their hashes */
        give_up_combining(table);
        return append(table, item);
    }
    gy_record_head *record = NULL;
    gy_status status = make_record(table, item, &record);
    if (status != GY_OK) {
        return status;
    }
    table->slots[at] = gy_mapreduce_slot_of(item->hash, gy_place_of(table, record));
    table->used++;
    status = gy_mapreduce_table_room(table);
    if (status == GY_AGAIN) { /* the item is in the table; long probes only cost time */
        status = table->used < table->capacity / 4 * 3 ? GY_OK : GY_AGAIN;
        if (status == GY_AGAIN) { /* one slot must always stay free: take the item out again */
            table->slots[at] = 0;
            table->used--;
        }
    }
    return status;
}

/* No room: the owner writes the table's rows and clears it; then try again. */
static gy_status insert_after_full(gy_mapreduce_table *table, const pending *item)
{
    const uint64_t clears = table->clears;
    GY_TRY(table->options.full(table->options.arg));
    GY_ASSERT(table->clears != clears && table->used == 0);
    gy_status status = insert(table, item);
    if (status == GY_AGAIN) {
        GY_TRY(gy_mapreduce_table_begin_slots(table)); /* a large key needs more room */
        status = insert(table, item);
    }
    if (status != GY_AGAIN) {
        return status;
    }
    const size_t size = item->key_size + (item->item != NULL && item->item->value != NULL &&
                                                  table->options.fold == GY_FOLD_LIST
                                              ? item->item->value_size
                                              : 0);
    return gy_fail(GY_LIMIT, "a key and its value have %zu bytes: too many for %zu of memory",
                   size, table->options.memory_bytes);
}

/* Compare two slots with masks instead of branches, because compilers turn choices into
 * branches that the CPU would mispredict. Nine of ten existing keys are in one of the two
 * slots, and `insert` finds the others. */
static inline void look(const gy_mapreduce_table *table, pending *item)
{
    const size_t at = gy_mapreduce_slot_index(table, item->hash);
    const gy_mapreduce_slot first = table->slots[at], second = table->slots[at + 1];
    const uint64_t is_first = 0 - (uint64_t)(first >> 32 == item->hash >> 32);
    const uint64_t is_second = 0 - (uint64_t)(second >> 32 == item->hash >> 32);
    item->found = (uint32_t)((first & is_first) | (second & is_second & ~is_first));
    __builtin_prefetch(gy_record_at(table, item->found));
}

static gy_status settle_slowly(gy_mapreduce_table *table, pending *wave, size_t i,
                               pending *looked)
{
    gy_status status = insert(table, &wave[i]);
    if (status == GY_AGAIN) {
        status = insert_after_full(table, &wave[i]);
        for (size_t j = i + 1; j < WAVE; j++) { /* the records found so far are gone */
            wave[j].found = 0;
        }
        for (size_t j = 0; j < WAVE; j++) {
            looked[j].found = 0;
        }
    }
    return status;
}

static inline gy_status settle(gy_mapreduce_table *table, pending *wave, size_t count,
                               pending *looked)
{
    for (size_t i = 0; i < count; i++) {
        gy_record_head *record = gy_record_at(table, wave[i].found);
        if (wave[i].found != 0 && !table->is_passing && is_same_key(record, &wave[i]) &&
            combine(table, record, &wave[i]) == GY_OK) {
            continue;
        }
        GY_TRY(settle_slowly(table, wave, i, looked));
    }
    return GY_OK;
}

static inline void begin(const gy_mapreduce_table *table, pending *item)
{
    item->head = gy_key_head_of(item->key, item->key_size);
    item->hash = gy_key_hash(item->key, item->key_size, item->head);
    __builtin_prefetch(&table->slots[gy_mapreduce_slot_index(table, item->hash)]);
}

/* Does combining pay off? Not when more than a third of the keys are new. */
static void judge(gy_mapreduce_table *table)
{
    if (!table->is_passing && table->items >= table->options.sample_items &&
        table->used > table->items / 3 && !gy_mapreduce_fold_is_list(table->options.fold)) {
        give_up_combining(table);
    }
}

/* The words of a text, in place of items. */
typedef struct gy_words_of {
    const char *text;
    const uint32_t *edges;
    const gy_item *like;
} gy_words_of;

/* The common part of both sources; `items` NULL: words. */
static inline __attribute__((always_inline)) gy_status
add_all(gy_mapreduce_table *table, const gy_item *items, const gy_words_of *words, size_t count)
{
    const size_t behind = (size_t)(WAVES - 1) * WAVE;
    pending waves[WAVES][WAVE];
    pending *fresh = waves[0], *looked = waves[1], *ready = waves[2];
    for (size_t i = 0; i < count + behind; i += WAVE) {
        const size_t size = i < count ? GY_MIN(count - i, (size_t)WAVE) : 0;
        for (size_t j = 0; j < size; j++) {
            pending *item = &fresh[j];
            if (items != NULL) {
                item->item = &items[i + j];
                item->key = items[i + j].key;
                item->key_size = items[i + j].key_size;
            } else {
                const uint32_t *edges = &words->edges[2 * (i + j)];
                item->item = words->like;
                item->key = words->text + edges[0];
                item->key_size = edges[1] - edges[0];
            }
            begin(table, item);
        }
        if (i >= WAVE && i - WAVE < count) {
            const size_t before = GY_MIN(count - (i - WAVE), (size_t)WAVE);
            for (size_t j = 0; j < before; j++) {
                look(table, &looked[j]);
            }
        }
        if (i >= behind) {
            const size_t done = GY_MIN(count - (i - behind), (size_t)WAVE);
            GY_TRY(settle(table, ready, done, looked));
            table->items += done;
        }
        pending *last = ready;
        ready = looked;
        looked = fresh;
        fresh = last;
    }
    judge(table);
    return GY_OK;
}

gy_status gy_mapreduce_table_add(gy_mapreduce_table *table, const gy_item *items, size_t count)
{
    return count == 0 ? GY_OK : add_all(table, items, NULL, count);
}

gy_status gy_mapreduce_table_add_words(gy_mapreduce_table *table, const char *text,
                                       const uint32_t *edges, size_t count, const gy_item *like)
{
    GY_ASSERT(like != NULL || table->options.fold == GY_FOLD_SUM);
    GY_ASSERT(table->options.fold != GY_FOLD_LIST);
    const gy_words_of words = {text, edges, like};
    if (count == 0) {
        return GY_OK;
    }
    return like == NULL ? add_all(table, NULL, &(gy_words_of){text, edges, NULL}, count)
                        : add_all(table, NULL, &words, count);
}
