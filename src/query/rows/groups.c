/*
 * Groups: a hash table from keys to records.
 *
 * A record is words: hash, key, states. Records lie in chunks, in the order in which they came.
 * A slot has 32 bits of the hash and the record's number. A batch of rows is found in steps:
 * hashes and keys of all rows, the slots are prefetched, then the records that they name, then
 * keys are compared.
 */
#include "query/rows/rows_priv.h"

#include "mapreduce/sort.h"

enum {
    SLOT_BITS_MIN = 10,
    CHUNK_WORDS = 1 << 13, /* about: records of a chunk are a power of two */
    HEAP_CHUNK = 32 << 10,
    GROUPS_MOST = INT32_MAX - 1,
};

struct gy_rows_groups {
    const gy_rows_key_layout *layout;
    size_t record_words;
    uint64_t **chunks;
    size_t chunk_count, chunk_capacity;
    unsigned chunk_bits; /* records of a chunk, as a power of two */
    int64_t count;
    uint64_t *slots; /* hash << 32 | number + 1; 0: empty */
    unsigned slot_bits;
    gy_rows_heap heap;
    gy_entry *order; /* (count) of hash and number, when they are ordered */
    uint64_t hashes[GY_ROWS_BATCH];
    uint64_t *keys; /* (GY_ROWS_BATCH, layout words) */
};

/* ---- memory of texts ---- */

char *gy_rows_heap_take(gy_rows_heap *heap, size_t size_bytes)
{
    if (heap->left < size_bytes) {
        const size_t size = GY_MAX(size_bytes, (size_t)HEAP_CHUNK);
        if (GY_GROW("query.heap", heap->chunks, heap->capacity, heap->count + 1) < 0) {
            return NULL;
        }
        char *chunk = gy_alloc("query.heap", size);
        if (chunk == NULL) {
            return NULL;
        }
        heap->chunks[heap->count++] = chunk;
        heap->at = chunk;
        heap->left = size;
        heap->bytes += size;
    }
    char *taken = heap->at;
    heap->at += size_bytes;
    heap->left -= size_bytes;
    return taken;
}

void gy_rows_heap_free(gy_rows_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        gy_free(heap->chunks[i]);
    }
    gy_free(heap->chunks);
    *heap = (gy_rows_heap){.count = 0};
}

gy_status gy_rows_text_keep(gy_rows_heap *heap, uint64_t *words)
{
    const gy_text_view text = gy_rows_text_get(words);
    if (text.size_bytes > GY_ROWS_TEXT_INLINE) {
        char *kept = gy_rows_heap_take(heap, text.size_bytes);
        if (kept == NULL) {
            return GY_NOMEM;
        }
        memcpy(kept, text.data, text.size_bytes);
        memcpy(words + 1, &kept, sizeof(kept));
    }
    return GY_OK;
}

/* ---- the table ---- */

gy_status gy_rows_groups_new(const gy_rows_key_layout *layout, int state_words,
                             gy_rows_groups **groups)
{
    gy_rows_groups *made = gy_alloc_zero("query.groups", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->layout = layout;
    made->record_words = 1 + (size_t)layout->words + (size_t)state_words;
    while (made->record_words << (made->chunk_bits + 1) <= CHUNK_WORDS) {
        made->chunk_bits++;
    }
    made->slot_bits = SLOT_BITS_MIN;
    made->slots = gy_alloc_zero("query.slots", (size_t)1 << SLOT_BITS_MIN, sizeof(uint64_t));
    made->keys = gy_alloc_zero("query.keys", (size_t)GY_ROWS_BATCH * (size_t)layout->words,
                               sizeof(uint64_t));
    if (made->slots == NULL || made->keys == NULL) {
        gy_rows_groups_free(made);
        return GY_NOMEM;
    }
    *groups = made;
    return GY_OK;
}

void gy_rows_groups_free(gy_rows_groups *groups)
{
    if (groups == NULL) {
        return;
    }
    for (size_t i = 0; i < groups->chunk_count; i++) {
        gy_free(groups->chunks[i]);
    }
    gy_free(groups->chunks);
    gy_free(groups->slots);
    gy_free(groups->keys);
    gy_free(groups->order);
    gy_rows_heap_free(&groups->heap);
    gy_free(groups);
}

int64_t gy_rows_groups_count(const gy_rows_groups *groups)
{
    return groups->count;
}

gy_rows_heap *gy_rows_groups_heap(gy_rows_groups *groups)
{
    return &groups->heap;
}

static uint64_t chunk_bytes(const gy_rows_groups *groups)
{
    return (groups->record_words * sizeof(uint64_t)) << groups->chunk_bits;
}

uint64_t gy_rows_groups_bytes(const gy_rows_groups *groups)
{
    const uint64_t records = (uint64_t)groups->count * groups->record_words * sizeof(uint64_t);
    return records + (sizeof(uint64_t) << groups->slot_bits) + groups->heap.bytes +
           (uint64_t)groups->count * 2 * sizeof(gy_entry);
}

static inline uint64_t *record_at(const gy_rows_groups *groups, uint64_t number)
{
    return groups->chunks[number >> groups->chunk_bits] +
           (number & ((UINT64_C(1) << groups->chunk_bits) - 1)) * groups->record_words;
}

static inline size_t home_of(const gy_rows_groups *groups, uint64_t hash)
{
    return (size_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - groups->slot_bits));
}

/* Put a number into the first free slot from its home on. */
static void put_slot(gy_rows_groups *groups, uint64_t hash, uint64_t number)
{
    const size_t mask = ((size_t)1 << groups->slot_bits) - 1;
    size_t at = home_of(groups, hash);
    while (groups->slots[at] != 0) {
        at = (at + 1) & mask;
    }
    groups->slots[at] = hash << 32 | (number + 1);
}

static gy_status grow(gy_rows_groups *groups)
{
    uint64_t *slots =
        gy_alloc_zero("query.slots", (size_t)1 << (groups->slot_bits + 1), sizeof(uint64_t));
    if (slots == NULL) {
        return GY_NOMEM;
    }
    gy_free(groups->slots);
    groups->slots = slots;
    groups->slot_bits++;
    enum { AHEAD = 16 };
    for (int64_t i = 0; i < groups->count; i++) {
        if (i + AHEAD < groups->count) {
            const uint64_t next = *record_at(groups, (uint64_t)(i + AHEAD));
            __builtin_prefetch(&slots[home_of(groups, next)], 1);
        }
        put_slot(groups, *record_at(groups, (uint64_t)i), (uint64_t)i);
    }
    return GY_OK;
}

/* Room for a batch of new groups, so that finding them moves nothing. */
static gy_status reserve(gy_rows_groups *groups, int64_t count)
{
    GY_ASSERT(groups->order == NULL);
    if (groups->count + count > GROUPS_MOST) {
        return gy_fail(GY_LIMIT, "over %d groups in one table", (int)GROUPS_MOST);
    }
    while ((uint64_t)(groups->count + count) > (UINT64_C(1) << groups->slot_bits) / 2 + 1) {
        GY_TRY(grow(groups));
    }
    while ((uint64_t)(groups->count + count) > (uint64_t)groups->chunk_count
                                                   << groups->chunk_bits) {
        GY_TRY(GY_GROW("query.chunks", groups->chunks, groups->chunk_capacity,
                       groups->chunk_count + 1));
        uint64_t *chunk = gy_alloc("query.chunk", chunk_bytes(groups));
        if (chunk == NULL) {
            return GY_NOMEM;
        }
        groups->chunks[groups->chunk_count++] = chunk;
    }
    return GY_OK;
}

/* A record for a key that has none. */
static gy_status insert(gy_rows_groups *groups, uint64_t hash, const uint64_t *key,
                        uint64_t **record)
{
    const gy_rows_key_layout *layout = groups->layout;
    uint64_t *made = record_at(groups, (uint64_t)groups->count);
    made[0] = hash;
    memcpy(made + 1, key, (size_t)layout->words * sizeof(*key));
    memset(made + 1 + layout->words, 0,
           (groups->record_words - 1 - (size_t)layout->words) * sizeof(*made));
    for (int k = 0; k < layout->column_count && layout->has_text; k++) {
        if (layout->kinds[k] == GY_FIELD_TEXT) {
            GY_TRY(gy_rows_text_keep(&groups->heap, made + 1 + layout->offsets[k]));
        }
    }
    groups->count++;
    *record = made;
    return GY_OK;
}

/* Find a key from its home on; a new one gets a record. */
static inline gy_status find(gy_rows_groups *groups, uint64_t hash, const uint64_t *key,
                             uint64_t **record)
{
    const size_t mask = ((size_t)1 << groups->slot_bits) - 1;
    for (size_t at = home_of(groups, hash);; at = (at + 1) & mask) {
        const uint64_t slot = groups->slots[at];
        if (slot == 0) {
            GY_TRY(insert(groups, hash, key, record));
            groups->slots[at] = hash << 32 | (uint64_t)groups->count;
            return GY_OK;
        }
        if ((uint32_t)(slot >> 32) == (uint32_t)hash) {
            uint64_t *here = record_at(groups, (slot & UINT32_MAX) - 1);
            if (here[0] == hash && gy_rows_keys_equal(groups->layout, here + 1, key)) {
                *record = here;
                return GY_OK;
            }
        }
    }
}

gy_status gy_rows_groups_find(gy_rows_groups *groups, const gy_rows_key_layout *from,
                              const gy_frame *frame, int64_t begin, int64_t count,
                              uint64_t **records)
{
    enum { AHEAD_SLOT = 32, AHEAD_RECORD = 16 };
    const size_t words = (size_t)groups->layout->words;
    GY_ASSERT(count <= GY_ROWS_BATCH && (size_t)from->words == words);
    GY_TRY(reserve(groups, count));
    if (from->column_count == 0 && count > 0) { /* one group */
        memset(groups->keys, 0, words * sizeof(*groups->keys));
        GY_TRY(find(groups, 0, groups->keys, &records[0]));
        for (int64_t i = 1; i < count; i++) {
            records[i] = records[0];
        }
        return GY_OK;
    }
    gy_rows_hash_range(frame, from->columns, from->column_count, begin, count, groups->hashes);
    gy_rows_keys_write(from, frame, begin, count, groups->keys, words);
    for (int64_t i = 0; i < count; i++) {
        if (i + AHEAD_SLOT < count) {
            __builtin_prefetch(&groups->slots[home_of(groups, groups->hashes[i + AHEAD_SLOT])]);
        }
        if (i + AHEAD_RECORD < count) {
            const uint64_t hash = groups->hashes[i + AHEAD_RECORD];
            const uint64_t slot = groups->slots[home_of(groups, hash)];
            if ((uint32_t)(slot >> 32) == (uint32_t)hash && slot != 0) {
                uint64_t *record = record_at(groups, (slot & UINT32_MAX) - 1);
                __builtin_prefetch(record, 1);
                __builtin_prefetch(record + groups->record_words - 1, 1);
            }
        }
        GY_TRY(find(groups, groups->hashes[i], groups->keys + (size_t)i * words, &records[i]));
    }
    return GY_OK;
}

/* ---- their order ---- */

gy_status gy_rows_groups_order(gy_rows_groups *groups)
{
    const size_t count = (size_t)groups->count;
    GY_ASSERT(groups->order == NULL);
    gy_entry *order = gy_alloc("query.order", (count + 1) * sizeof(*order));
    gy_entry *scratch = gy_alloc("query.order", (count + 1) * sizeof(*order));
    if (order == NULL || scratch == NULL) {
        gy_free(order);
        gy_free(scratch);
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (gy_entry){.prefix = *record_at(groups, i), .position = i};
    }
    gy_mapreduce_entries_sort_words(order, scratch, count);
    gy_free(scratch);
    for (size_t i = 1; i < count; i++) { /* keys of one hash, of which there are few */
        const gy_entry entry = order[i];
        const uint64_t *key = record_at(groups, entry.position) + 1;
        size_t at = i;
        while (at > 0 && order[at - 1].prefix == entry.prefix &&
               gy_rows_keys_compare(groups->layout,
                                    record_at(groups, order[at - 1].position) + 1, key) > 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = entry;
    }
    groups->order = order;
    return GY_OK;
}

void gy_rows_groups_get(const gy_rows_groups *groups, int64_t begin, int64_t count,
                        const uint64_t **records)
{
    GY_ASSERT(groups->order != NULL && begin + count <= groups->count);
    for (int64_t i = 0; i < count; i++) {
        records[i] = record_at(groups, groups->order[begin + i].position);
        __builtin_prefetch(records[i]);
        __builtin_prefetch(records[i] + groups->record_words - 1);
    }
}

void gy_rows_groups_clear(gy_rows_groups *groups)
{
    gy_free(groups->order);
    groups->order = NULL;
    groups->count = 0;
    gy_rows_heap_free(&groups->heap);
    memset(groups->slots, 0, sizeof(uint64_t) << groups->slot_bits);
}
