/* Memory of tables: slots that grow, an arena of blocks, lists of segments. */
#include "mapreduce/table_priv.h"

#include "base/base.h"
#include "mapreduce/rows.h"

enum {
    SLOTS_MIN = 256,
    FIRST_CHUNK_BYTES = 24,
    LAST_CHUNK_BYTES = 32 << 10,
    SURE_KEYS = 8 << 10, /* fewer keys give no reliable estimate */
    FORESEEN_TIMES = 16, /* largest factor by which the slots grow at once */
};

static const size_t arena_most = (size_t)GY_PLACE_BYTES << 32, slots_most = (size_t)1 << 32;

size_t gy_mapreduce_table_slots_bytes(size_t capacity)
{
    return (capacity + GY_SLOTS_BEHIND) * sizeof(gy_mapreduce_slot);
}

size_t gy_mapreduce_table_bytes(const gy_mapreduce_table *table)
{
    return table->space.arena.bytes + table->space.slots.bytes;
}

gy_mapreduce_table_space *gy_mapreduce_table_space_new(void)
{
    return gy_alloc_zero("mapreduce.space", 1, sizeof(gy_mapreduce_table_space));
}

void gy_mapreduce_table_space_empty(gy_mapreduce_table_space *space)
{
    gy_region_release(&space->arena);
    gy_region_release(&space->slots);
}

void gy_mapreduce_table_space_free(gy_mapreduce_table_space *space)
{
    if (space != NULL) {
        gy_mapreduce_table_space_empty(space);
        gy_free(space);
    }
}

gy_status gy_mapreduce_table_reserve(gy_mapreduce_table *table)
{
    gy_mapreduce_table_space *left = table->options.space;
    const size_t memory = table->options.memory_bytes;
    if (left != NULL && left->slots.at != NULL && left->memory_bytes == memory) {
        table->space = *left;
        *left = (gy_mapreduce_table_space){0};
    } else {
        if (left != NULL) {
            gy_mapreduce_table_space_empty(left);
        }
        table->space.memory_bytes = memory;
        GY_TRY(gy_region_reserve(&table->space.arena, GY_MIN(memory, arena_most),
                                 GY_TABLE_BYTES_MIN));
        GY_TRY(gy_region_reserve(&table->space.slots,
                                 GY_MIN(memory, gy_mapreduce_table_slots_bytes(slots_most)),
                                 GY_TABLE_BYTES_MIN));
    }
    table->slots = (gy_mapreduce_slot *)(void *)table->space.slots.at;
    return GY_OK;
}

void gy_mapreduce_table_unreserve(gy_mapreduce_table *table)
{
    if (table->options.space != NULL) {
        *table->options.space = table->space;
    } else {
        gy_mapreduce_table_space_empty(&table->space);
    }
}

/* Commit memory up to `bytes` of the arena or the slots; surplus of the other one is released
 * if needed. `wanted`: how much to commit when the budget allows. */
static gy_status need(gy_mapreduce_table *table, gy_region *region, size_t bytes, size_t wanted)
{
    const size_t memory = table->options.memory_bytes;
    gy_region *arena = &table->space.arena, *slots = &table->space.slots,
              *other = region == arena ? slots : arena;
    if (bytes > region->reserved) {
        return GY_AGAIN;
    }
    if (bytes + other->bytes > memory) {
        gy_region_trim(other, other == arena ? table->arena_used + GY_COPY_SLACK
                                             : gy_mapreduce_table_slots_bytes(table->capacity));
    }
    const size_t others = GY_MIN(other->bytes, memory),
                 most = GY_MIN(memory - others, region->reserved) / GY_REGION_PAGE *
                        GY_REGION_PAGE;
    return bytes > most ? GY_AGAIN : gy_region_grow(region, GY_MIN(wanted, most));
}

gy_status gy_mapreduce_table_need(gy_mapreduce_table *table, size_t end)
{
    const size_t bytes = end + GY_COPY_SLACK;
    return need(table, &table->space.arena, bytes, gy_round_up(bytes, table->block_bytes));
}

/*
 * Rehash in place: move all slots to the end, then each one to where its hash belongs now. The
 * order of hashes is kept except among neighbours. No slot may be written beyond its reading
 * position; the GY_SLOTS_BEHIND slots at the end ensure this, as at most GY_PROBES_MAX plus
 * one for each growth are needed.
 */
static void spread_slots(gy_mapreduce_table *table, size_t old_count)
{
    gy_mapreduce_slot *slots = table->slots;
    const size_t count = table->capacity + GY_SLOTS_BEHIND;
    size_t from = count;
    for (size_t i = old_count; i-- > 0;) { /* whether a slot is taken cannot be predicted */
        const gy_mapreduce_slot slot = slots[i];
        slots[from - 1] = slot;
        from -= slot != 0;
    }
    memset(slots, 0, GY_MIN(from, old_count) * sizeof(*slots));
    for (; from < count; from++) {
        const gy_mapreduce_slot slot = slots[from];
        slots[from] = 0;
        size_t at = gy_mapreduce_slot_index(table, slot);
        GY_ASSERT(at <= from);
        while (slots[at] != 0) {
            at++;
        }
        slots[at] = slot;
    }
}

/* Estimate the final number of keys: twice as much text has 15/8 times as many keys. */
static size_t foresee(const gy_mapreduce_table *table)
{
    const gy_mapreduce_progress *progress = table->options.progress;
    size_t keys = table->used;
    uint64_t done = progress->done;
    for (; done <= progress->total / 2 && keys < SIZE_MAX / 4; done *= 2) {
        keys += keys - keys / 8;
    }
    if (done > progress->total / 2) { /* less than half of the input is left */
        const double more = (double)(progress->total - done) / (double)done;
        keys += (size_t)((double)keys * more * 7 / 8);
    }
    return keys;
}

/*
 * Double the slots, or provide as many as the estimated keys need: then they move once, and
 * lookups succeed at the first probe. At most a quarter of the memory, since keys need some
 * too.
 */
static size_t larger_capacity(const gy_mapreduce_table *table)
{
    const gy_mapreduce_progress *progress = table->options.progress;
    if (progress == NULL || progress->done == 0 || progress->done > progress->total ||
        table->used < SURE_KEYS || table->is_passing) {
        return table->capacity * 2;
    }
    const size_t least = table->capacity + table->capacity / 4, keys = foresee(table),
                 most = GY_MIN(table->capacity * FORESEEN_TIMES,
                               table->options.memory_bytes / 4 / sizeof(gy_mapreduce_slot));
    const size_t wanted = GY_MAX(GY_MIN(2 * keys + keys / 16, most), least);
    return gy_mapreduce_table_bytes(table) + gy_mapreduce_table_slots_bytes(wanted) <=
                   table->options.memory_bytes
               ? wanted
               : least;
}

gy_status gy_mapreduce_table_grow(gy_mapreduce_table *table)
{
    const size_t larger = larger_capacity(table),
                 bytes = gy_mapreduce_table_slots_bytes(larger);
    gy_region *slots = &table->space.slots;
    const size_t old_bytes = gy_mapreduce_table_slots_bytes(table->capacity),
                 left = slots->bytes;
    if (larger > slots_most) {
        return GY_AGAIN;
    }
    const size_t pages = bytes > GY_REGION_HUGE_PAGE ? GY_REGION_HUGE_PAGE : GY_REGION_PAGE;
    const gy_status status = need(table, slots, bytes, gy_round_up(bytes, pages));
    if (status != GY_OK) {
        return status;
    }
    if (left > old_bytes) { /* left by another table */
        memset(slots->at + old_bytes, 0, GY_MIN(left, bytes) - old_bytes);
    }
    table->capacity = larger;
    if (!table->is_passing) {
        spread_slots(table, old_bytes / sizeof(gy_mapreduce_slot));
    }
    return GY_OK;
}

gy_status gy_mapreduce_table_begin_slots(gy_mapreduce_table *table)
{
    table->capacity = SLOTS_MIN;
    const size_t bytes = gy_mapreduce_table_slots_bytes(SLOTS_MIN);
    GY_TRY(gy_region_grow(&table->space.slots, bytes));
    memset(table->slots, 0, bytes);
    return GY_OK;
}

/* Add a segment with room for `size` bytes; each is larger than the last, so that long lists
 * have few segments. */
static gy_chunk *add_chunk(gy_mapreduce_table *table, gy_list *list, size_t size, bool *is_full)
{
    size_t capacity = FIRST_CHUNK_BYTES;
    if (list->last != NULL) {
        capacity = GY_MIN((size_t)list->last->capacity * 2, (size_t)LAST_CHUNK_BYTES);
    }
    capacity = gy_round_up(GY_MAX(capacity, size), 8);
    gy_chunk *chunk = gy_mapreduce_table_take(table, sizeof(*chunk) + capacity, is_full);
    if (chunk == NULL) {
        return NULL;
    }
    *chunk = (gy_chunk){.capacity = (uint32_t)capacity};
    if (list->last == NULL) {
        list->first = chunk;
    } else {
        list->last->next = chunk;
    }
    list->last = chunk;
    return chunk;
}

gy_status gy_list_add(gy_mapreduce_table *table, gy_list *list, const gy_item *item,
                      bool *is_full)
{
    const gy_mapreduce_fold fold = table->options.fold;
    const bool is_first = list->last == NULL;
    char head[GY_VARINT_BYTES];
    size_t head_size = 0, body_size = 0;
    if (fold == GY_FOLD_LIST) {
        head_size = gy_sort_varint_put(head, item->value_size);
        body_size = item->value_size;
    } else if (fold == GY_FOLD_NUMBERS) {
        head_size = gy_sort_varint_put(head, gy_zigzag(item->number));
    } else if (is_first || item->number != list->newest) {
        GY_ASSERT(is_first || item->number > list->newest);
        /* Each segment begins with a full number, so that it can be decoded alone. */
        head_size = gy_sort_varint_put(head, gy_zigzag(item->number));
    } else {
        return GY_OK;
    }
    gy_chunk *chunk = list->last;
    if (chunk == NULL || chunk->capacity - chunk->used < head_size + body_size) {
        chunk = add_chunk(table, list, head_size + body_size, is_full);
        if (chunk == NULL) {
            return *is_full ? GY_AGAIN : GY_NOMEM;
        }
    } else if (fold == GY_FOLD_SET) {
        head_size = gy_sort_varint_put(head, (uint64_t)item->number - (uint64_t)list->newest);
    }
    memcpy(chunk->bytes + chunk->used, head, head_size);
    if (body_size > 0) {
        memcpy(chunk->bytes + chunk->used + head_size, item->value, body_size);
    }
    chunk->used += (uint32_t)(head_size + body_size);
    list->newest = item->number;
    return GY_OK;
}
