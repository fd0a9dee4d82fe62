#include "base/index.h"

#include <string.h>

static size_t find_cell(const gy_index *table, gy_key key)
{
    size_t at = gy_index_home(table, key);
    while (table->cells[at].value != 0 && !gy_key_is_same(table->cells[at].key, key)) {
        at = (at + 1) & table->mask;
    }
    return at;
}

uint32_t gy_index_find(const gy_index *table, gy_key key)
{
    return table->cells == NULL ? GY_NONE : table->cells[find_cell(table, key)].value - 1;
}

static gy_status grow(gy_index *table)
{
    gy_index larger = {.mask = table->cells == NULL ? 15 : table->mask * 2 + 1};
    larger.cells = gy_alloc_zero("base.index", larger.mask + 1, sizeof(gy_index_cell));
    if (larger.cells == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; table->cells != NULL && i <= table->mask; i++) {
        if (table->cells[i].value != 0) {
            larger.cells[find_cell(&larger, table->cells[i].key)] = table->cells[i];
        }
    }
    gy_free(table->cells);
    table->cells = larger.cells;
    table->mask = larger.mask;
    return GY_OK;
}

gy_status gy_index_put(gy_index *table, gy_key key, uint32_t value)
{
    if (table->cells == NULL || (table->count + 1) * 2 > table->mask + 1) {
        GY_TRY(grow(table));
    }
    gy_index_cell *cell = &table->cells[find_cell(table, key)];
    GY_ASSERT(cell->value == 0 && value != GY_NONE);
    *cell = (gy_index_cell){key, value + 1};
    table->count++;
    return GY_OK;
}

gy_status gy_index_number(gy_index *table, gy_key key, uint32_t *number)
{
    const uint32_t known = gy_index_find(table, key), next = (uint32_t)table->count;
    GY_ASSERT(table->count < GY_NONE && (known == GY_NONE || known < next));
    if (known == GY_NONE) {
        GY_TRY(gy_index_put(table, key, next));
    }
    *number = known == GY_NONE ? next : known;
    return GY_OK;
}

/* Those behind the hole move into it, unless they stand where they are at home (Knuth 6.4 R).
 */
void gy_index_remove(gy_index *table, gy_key key)
{
    size_t hole = table->cells == NULL ? 0 : find_cell(table, key);
    if (table->cells == NULL || table->cells[hole].value == 0) {
        return;
    }
    for (size_t at = (hole + 1) & table->mask; table->cells[at].value != 0;
         at = (at + 1) & table->mask) {
        size_t is_local = gy_index_home(table, table->cells[at].key);
        if (((at - is_local) & table->mask) >= ((at - hole) & table->mask)) {
            table->cells[hole] = table->cells[at];
            hole = at;
        }
    }
    GY_ASSERT(table->count > 0);
    table->cells[hole] = (gy_index_cell){0};
    table->count--;
}

void gy_index_free(gy_index *table)
{
    gy_free(table->cells);
    *table = (gy_index){0};
}

static void place(gy_control_heap *heap, size_t at, uint32_t item)
{
    heap->items[at] = item;
    heap->places[item] = (uint32_t)at;
}

static void settle(gy_control_heap *heap, size_t at)
{
    uint32_t item = heap->items[at];
    while (at > 0 && heap->is_before(heap->arg, item, heap->items[(at - 1) / 2])) {
        place(heap, at, heap->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (size_t child = at * 2 + 1; child < heap->count; child = at * 2 + 1) {
        child += child + 1 < heap->count &&
                 heap->is_before(heap->arg, heap->items[child + 1], heap->items[child]);
        if (!heap->is_before(heap->arg, heap->items[child], item)) {
            break;
        }
        place(heap, at, heap->items[child]);
        at = child;
    }
    place(heap, at, item);
}

gy_status gy_control_heap_put(gy_control_heap *heap, uint32_t item)
{
    size_t known = heap->place_count;
    if (!gy_control_heap_has(heap, item)) {
        GY_TRY(GY_GROW("base.heap", heap->items, heap->capacity, heap->count + 1));
        if (item >= known) {
            size_t room = known;
            GY_TRY(GY_GROW("base.heap", heap->places, room, (size_t)item + 1));
            memset(heap->places + known, 0xff, (room - known) * sizeof(uint32_t));
            heap->place_count = room;
        }
        place(heap, heap->count++, item);
    }
    settle(heap, heap->places[item]);
    return GY_OK;
}

void gy_control_heap_remove(gy_control_heap *heap, uint32_t item)
{
    if (!gy_control_heap_has(heap, item)) {
        return;
    }
    size_t at = heap->places[item];
    heap->places[item] = GY_NONE;
    uint32_t last = heap->items[--heap->count];
    if (last != item) {
        place(heap, at, last);
        settle(heap, at);
    }
}

void gy_control_heap_free(gy_control_heap *heap)
{
    gy_free(heap->items);
    gy_free(heap->places);
    heap->items = heap->places = NULL;
    heap->count = heap->capacity = heap->place_count = 0;
}
