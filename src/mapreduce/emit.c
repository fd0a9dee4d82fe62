/* What a map emits: batches of pairs on their way to the table, the sorters or the output. */
#include "mapreduce/task.h"

#include "base/base.h"
#include "mapreduce/sort.h"

#include <stdio.h>
#include <string.h>

#if defined(__SSE2__) && !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
#include <emmintrin.h>
#define HAS_VECTORS 1
#endif

void gy_map_keep(gy_map *map, gy_status status)
{
    if (status < 0 && map->status >= 0) {
        map->capacity = 0;
        map->status = status;
        (void)snprintf(map->text, sizeof(map->text), "%s", gy_error_text());
    }
}

void gy_map_fail(gy_map *map, const char *text)
{
    gy_map_keep(map, gy_fail(GY_ARG, "%s", text));
}

const void *gy_map_parameter(const gy_map *map, size_t *size_bytes)
{
    *size_bytes = map->stage->options.parameter_bytes;
    return map->stage->options.parameter;
}

void **gy_map_state(gy_map *map, void (*drop)(void *state))
{
    map->drop_state = drop;
    return &map->state;
}

gy_vertex *gy_map_vertex(gy_map *map)
{
    return map->vertex;
}

/* Add each item to the sorter of its partition; a number becomes 8 bytes. */
static gy_status sort_items(gy_map *map, const gy_item *items, size_t count)
{
    const gy_task_options *options = &map->stage->options;
    const uint32_t partitions = options->partitions;
    for (size_t i = 0; i < count; i++) {
        const gy_item *item = &items[i];
        uint32_t part = 0;
        if (map->partition != NULL) {
            part = map->partition(item->key, item->key_size, partitions);
            if (part >= partitions) {
                return gy_fail(GY_ARG, "the partition function gave %u: expected less than %u",
                               part, partitions);
            }
        } else if (partitions > 1) {
            const gy_key_head head = gy_key_head_of(item->key, item->key_size);
            part = gy_hash_partition(gy_key_hash(item->key, item->key_size, head), partitions);
        }
        const bool is_bytes = options->fold == GY_FOLD_LIST;
        const gy_sort_item sorted = {
            .key = item->key,
            .key_bytes = item->key_size,
            .value = is_bytes ? item->value : (const char *)&item->number,
            .value_bytes = is_bytes ? item->value_size : sizeof(item->number)};
        GY_TRY(gy_sorter_add(map->sorters[part], &sorted, 1));
    }
    return GY_OK;
}

static gy_status add_items(gy_map *map, const gy_item *items, size_t count)
{
    if (map->gather == NULL && map->sorters == NULL) {
        return gy_fail(GY_ARG, "a map without a reduce emitted a key: it may only write");
    }
    if (map->gather != NULL) {
        return gy_gather_add(map->gather, items, count);
    }
    map->sorted += count;
    return sort_items(map, items, count);
}

gy_status gy_map_flush(gy_map *map)
{
    const size_t count = map->count;
    map->count = map->used = 0;
    if (map->status < 0 || count == 0) {
        return map->status;
    }
    gy_map_keep(map, add_items(map, map->items, count));
    return map->status;
}

/* Copy a short text into the batch's memory, which has room for it. */
static inline const char *copy_small(gy_map *map, const char *from, size_t size)
{
    char *to = map->bytes + map->used;
    map->used += size;
#ifdef HAS_VECTORS
    /* Copy 16 bytes at once where that cannot cross into another page; later copies overwrite
     * the surplus. An empty text may have an address outside any page. */
    if (size - 1 < 16 && ((uintptr_t)from & 4095) <= 4096 - 16) {
        _mm_storeu_si128((void *)to, _mm_loadu_si128((const void *)from));
        return to;
    }
#endif
    if (size > 0) {
        memcpy(to, from, size);
    }
    return to;
}

static inline bool is_lasting(const gy_map *map, const void *data)
{
    return (uintptr_t)data - (uintptr_t)map->lasting < map->lasting_size;
}

static bool has_bytes(const gy_map *map)
{
    return map->stage->options.fold == GY_FOLD_LIST;
}

static gy_status check_size(size_t size)
{
    return size <= GY_VALUE_BYTES_MAX
               ? GY_OK
               : gy_fail(GY_LIMIT, "a key or value of %zu bytes: at most %d", size,
                         GY_VALUE_BYTES_MAX);
}

/* Add an item that is too large for the batch as a batch of its own, after the current one. */
static void emit_large(gy_map *map, const gy_item *item)
{
    if (gy_map_flush(map) >= 0) {
        gy_map_keep(map, add_items(map, item, 1));
    }
}

/* The slow path: a key that the batch has no room for, or that the map may not emit. */
static __attribute__((noinline)) bool make_room(gy_map *map, const gy_item *item)
{
    if (map->status < 0) {
        return false;
    }
    if (has_bytes(map)) {
        gy_map_keep(map, gy_fail(GY_ARG, "a number was emitted where the job expects bytes"));
        return false;
    }
    if (item->key_size > GY_EMIT_BYTES) {
        emit_large(map, item);
        return false;
    }
    return gy_map_flush(map) >= 0;
}

void gy_emit(gy_map *map, const void *key, size_t key_size, int64_t value)
{
    gy_item item = {.key = key, .key_size = (uint32_t)key_size};
    item.number = map->is_counting ? 1 : value;
    const size_t copied = is_lasting(map, key) ? 0 : key_size;
    /* `capacity` is 0 when the map may not emit numbers. */
    if (__builtin_expect(map->count >= map->capacity || key_size > GY_EMIT_BYTES ||
                             map->used + copied > GY_EMIT_BYTES,
                         0)) {
        gy_map_keep(map, check_size(key_size));
        if (!make_room(map, &item)) {
            return;
        }
    }
    /* Also for an empty key: its pointer may be invalid by the time the batch is flushed. */
    if (copied > 0 || key_size == 0) {
        item.key = copy_small(map, key, key_size);
    }
    map->items[map->count++] = item;
}

void gy_emit_bytes(gy_map *map, const void *key, size_t key_size, const void *value,
                   size_t value_size)
{
    if (map->status < 0) {
        return;
    }
    if (!has_bytes(map)) {
        gy_map_keep(map, gy_fail(GY_ARG, "bytes were emitted where the job expects numbers"));
        return;
    }
    gy_map_keep(map, check_size(GY_MAX(key_size, value_size)));
    gy_item item = {.key = key_size > 0 ? key : map->bytes,
                    .key_size = (uint32_t)key_size,
                    .value_size = (uint32_t)value_size};
    item.value = value_size > 0 ? value : map->bytes;
    if (key_size + value_size > GY_EMIT_BYTES) {
        emit_large(map, &item);
        return;
    }
    if ((map->count == GY_EMIT_ITEMS || map->used + key_size + value_size > GY_EMIT_BYTES) &&
        gy_map_flush(map) < 0) {
        return;
    }
    item.key = copy_small(map, key, key_size);
    item.value = copy_small(map, value, value_size);
    map->items[map->count++] = item;
}

void gy_emit_batch(gy_map *map, const gy_emission *items, size_t count)
{
    if (gy_map_flush(map) < 0) {
        return;
    }
    if (has_bytes(map)) {
        gy_map_keep(map, gy_fail(GY_ARG, "a number was emitted where the job expects bytes"));
        return;
    }
    for (size_t i = 0; i < count && map->status >= 0; i += GY_EMIT_ITEMS) {
        const size_t size = GY_MIN(count - i, (size_t)GY_EMIT_ITEMS);
        for (size_t j = 0; j < size; j++) {
            const gy_emission *from = &items[i + j];
            gy_map_keep(map, check_size(from->key_size));
            map->items[j] = (gy_item){.key = from->key_size > 0 ? from->key : map->bytes,
                                      .key_size = (uint32_t)from->key_size};
            map->items[j].number = map->stage->options.is_counting ? 1 : from->value;
        }
        map->count = size;
        gy_map_keep(map, gy_map_flush(map));
    }
}

/* Emit the words one by one, where the output is no table that takes texts. */
static void emit_each_word(gy_map *map, const char *text, size_t size)
{
    const gy_record record = {.data = text, .size = size};
    for (gy_token word = gy_first_word(&record); word.size > 0; word = gy_next_word(word)) {
        gy_emit(map, word.data, word.size, 1);
    }
}

void gy_emit_words(gy_map *map, const char *text, size_t size)
{
    if (map->gather == NULL || map->stage->options.fold != GY_FOLD_SUM) {
        emit_each_word(map, text, size);
        return;
    }
    if (gy_map_flush(map) >= 0) {
        gy_map_keep(map, gy_gather_add_words(map->gather, text, size, 1));
    }
}

void gy_map_write(gy_map *map, const void *data, size_t size)
{
    if (map->status < 0) {
        return;
    }
    if (!map->stage->options.is_map_only) {
        gy_map_keep(map,
                    gy_fail(GY_ARG, "a map before a reduce wrote bytes: it may only emit"));
        return;
    }
    gy_map_keep(map, gy_outlet_add(&map->output, data, size));
}

/* ---- numbers as keys ---- */

static gy_number_key key_of(uint64_t bits)
{
    gy_number_key key;
    for (int i = 0; i < 8; i++) {
        key.bytes[i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    return key;
}

static const uint64_t sign_bit = UINT64_C(1) << 63;

gy_number_key gy_key_of_uint64(uint64_t number)
{
    return key_of(number);
}

gy_number_key gy_key_of_int64(int64_t number)
{
    return key_of((uint64_t)number ^ sign_bit);
}

gy_number_key gy_key_of_float64(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return key_of((bits & sign_bit) != 0 ? ~bits : bits ^ sign_bit);
}

uint64_t gy_uint64_of_key(const void *key)
{
    const unsigned char *bytes = key;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) {
        bits = bits << 8 | bytes[i];
    }
    return bits;
}

int64_t gy_int64_of_key(const void *key)
{
    return (int64_t)(gy_uint64_of_key(key) ^ sign_bit);
}

double gy_float64_of_key(const void *key)
{
    uint64_t bits = gy_uint64_of_key(key);
    bits = (bits & sign_bit) != 0 ? bits ^ sign_bit : ~bits;
    double number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}
