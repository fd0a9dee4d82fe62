/* Memory of tables: slots that grow, an arena of blocks, lists of pieces. */
#include "mapreduce/table_priv.h"

#include "base/base.h"
#include "mapreduce/rows.h"

#include <string.h>
#include <sys/mman.h>

enum {
    HUGE_PAGE = 2 << 20,
    FIRST_CHUNK_BYTES = 24,
    LAST_CHUNK_BYTES = 32 << 10,
    MOVED_TOGETHER = 64,
    SURE_KEYS = 8 << 10,  /* fewer tell nothing of those to come */
    FORESEEN_TIMES = 256, /* at most so many times the slots at once */
};

void *gy_space_new(size_t size_bytes)
{
    if (size_bytes < HUGE_PAGE) {
        return gy_alloc_zero("mapreduce.space", 1, size_bytes);
    }
    const size_t size = gy_round_up(size_bytes, HUGE_PAGE);
    char *space = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        gy_fail(GY_NOMEM, "out of memory: no %zu bytes for a table", size);
        return NULL;
    }
    const size_t before = gy_round_up((uintptr_t)space, HUGE_PAGE) - (uintptr_t)space;
    if (before > 0) {
        (void)munmap(space, before);
    }
    (void)munmap(space + before + size, HUGE_PAGE - before);
    (void)madvise(space + before, size, MADV_HUGEPAGE); /* only faster */
    return space + before;
}

void gy_space_free(void *space, size_t size_bytes)
{
    if (size_bytes < HUGE_PAGE) {
        gy_free(space);
    } else if (space != NULL) {
        (void)munmap(space, gy_round_up(size_bytes, HUGE_PAGE));
    }
}

size_t gy_table_slots_bytes(size_t capacity)
{
    return capacity * sizeof(gy_slot);
}

size_t gy_table_bytes(const gy_table *table)
{
    return table->arena_bytes + gy_table_slots_bytes(table->capacity);
}

/* A block for at least size_bytes: a spare one, or a new one within the budget. */
static gy_block *take_block(gy_table *table, size_t size_bytes, bool *is_full)
{
    const size_t needed = sizeof(gy_block) + size_bytes + GY_COPY_SLACK;
    for (gy_block **spare = &table->spare; *spare != NULL; spare = &(*spare)->next) {
        if ((*spare)->size_bytes >= needed) {
            gy_block *block = *spare;
            *spare = block->next;
            return block;
        }
    }
    const size_t size = GY_MAX(table->block_bytes, needed);
    while (table->spare != NULL &&
           gy_table_bytes(table) + size > table->options.memory_bytes) { /* too small ones */
        gy_block *block = table->spare;
        table->spare = block->next;
        table->arena_bytes -= block->size_bytes;
        gy_space_free(block, block->size_bytes);
    }
    if (gy_table_bytes(table) + size > table->options.memory_bytes) {
        *is_full = true;
        return NULL;
    }
    gy_block *block = gy_space_new(size);
    if (block != NULL) {
        block->size_bytes = size;
        table->arena_bytes += size;
    }
    return block;
}

void *gy_table_take(gy_table *table, size_t size_bytes, bool *is_full)
{
    const size_t size = gy_round_up(size_bytes, 8);
    if ((size_t)(table->end - table->at) < size) {
        gy_block *block = take_block(table, size, is_full);
        if (block == NULL) {
            return NULL;
        }
        block->next = table->blocks;
        table->blocks = block;
        table->at = (char *)(block + 1);
        table->end = (char *)block + block->size_bytes - GY_COPY_SLACK;
    }
    void *taken = table->at;
    table->at += size;
    return taken;
}

/* Slots in hash order move to slots in hash order: both are walked through once. */
static void move_slots(gy_table *table, const gy_slot *old, size_t old_capacity)
{
    const size_t mask = table->capacity - 1;
    gy_slot taken[MOVED_TOGETHER];
    for (size_t i = 0; i < old_capacity; i += MOVED_TOGETHER) {
        const size_t some = GY_MIN(old_capacity - i, (size_t)MOVED_TOGETHER);
        const size_t count = gy_slots_squeeze(taken, old + i, some);
        for (size_t j = 0; j < count; j++) {
            size_t at = taken[j].hash >> table->shift;
            while (table->slots[at].record != NULL) {
                at = (at + 1) & mask;
            }
            table->slots[at] = taken[j];
        }
    }
}

/* How many keys there will be: of text, twice as much has 15/8 times as many. */
static size_t foresee(const gy_table *table)
{
    const gy_progress *progress = table->options.progress;
    size_t keys = table->used;
    for (uint64_t done = progress->done;
         done > 0 && done <= progress->total / 2 && keys < SIZE_MAX / 4; done *= 2) {
        keys += keys - keys / 8;
    }
    return keys;
}

/*
 * Twice the slots, or as many as the keys to come will need where that can be foreseen: then
 * they move once, and lookups find them where they look first. Not for more than a quarter of
 * the memory, which keys need too.
 */
static size_t larger_capacity(const gy_table *table)
{
    size_t larger = table->capacity * 2;
    if (table->options.progress == NULL || table->used < SURE_KEYS || table->is_passing) {
        return larger;
    }
    const size_t keys = foresee(table);
    const size_t most = GY_MIN(table->capacity * FORESEEN_TIMES,
                               table->options.memory_bytes / 4 / sizeof(gy_slot));
    while (larger < 2 * keys && larger * 2 <= most &&
           gy_table_bytes(table) + gy_table_slots_bytes(larger * 2) <=
               table->options.memory_bytes) {
        larger *= 2;
    }
    return larger;
}

gy_status gy_table_grow(gy_table *table)
{
    const size_t limit = table->is_passing ? table->capacity : table->capacity / 2;
    if (table->used < limit) {
        return GY_OK;
    }
    const size_t larger = larger_capacity(table);
    if (gy_table_bytes(table) + gy_table_slots_bytes(larger) > table->options.memory_bytes) {
        return GY_AGAIN;
    }
    gy_slot *slots = gy_space_new(gy_table_slots_bytes(larger));
    if (slots == NULL) {
        return GY_NOMEM;
    }
    gy_slot *old = table->slots;
    const size_t old_capacity = table->capacity;
    table->slots = slots;
    table->capacity = larger;
    table->shift -= __builtin_ctzll(larger / old_capacity);
    if (table->is_passing) {
        memcpy(slots, old, gy_table_slots_bytes(old_capacity));
    } else {
        move_slots(table, old, old_capacity);
    }
    gy_space_free(old, gy_table_slots_bytes(old_capacity));
    return GY_OK;
}

/* A piece with room for `size` bytes; larger each time, so that long lists are few pieces. */
static gy_chunk *add_chunk(gy_table *table, gy_list *list, size_t size, bool *is_full)
{
    size_t capacity = FIRST_CHUNK_BYTES;
    if (list->last != NULL) {
        capacity = GY_MIN((size_t)list->last->capacity * 2, (size_t)LAST_CHUNK_BYTES);
    }
    capacity = gy_round_up(GY_MAX(capacity, size), 8);
    gy_chunk *chunk = gy_table_take(table, sizeof(*chunk) + capacity, is_full);
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

gy_status gy_list_add(gy_table *table, gy_list *list, const gy_item *item, bool *is_full)
{
    const gy_fold fold = table->options.fold;
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
        /* Each piece begins anew, so that it can be read alone. */
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
