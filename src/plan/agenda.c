/* The simulator's queues: events by time, and early messages by their ends. */
#include "plan/simulate_priv.h"

#include "base/base.h"

#include <string.h>

/* The bits of a non-negative time, as an integer, have the order of times. */
static uint64_t key_of(double at)
{
    uint64_t key;
    _Static_assert(sizeof(key) == sizeof(at), "a time is 64 bits");
    at += 0.0; /* turns -0 into 0 */
    memcpy(&key, &at, sizeof(key));
    return key;
}

static int bucket_of(const gy_agenda *agenda, double at)
{
    uint64_t differs = key_of(at) ^ agenda->last;
    return differs == 0 ? 0 : 64 - __builtin_clzll(differs);
}

static gy_status put(gy_agenda *agenda, const gy_plan_event *event)
{
    int index = bucket_of(agenda, event->at);
    struct gy_agenda_bucket *bucket = &agenda->buckets[index];
    if (bucket->count == bucket->capacity) {
        void *items = bucket->items;
        GY_TRY(gy_reserve("plan.agenda", &items, &bucket->capacity, bucket->count + 1,
                          sizeof(*event)));
        bucket->items = items;
    }
    bucket->items[bucket->count++] = *event;
    if (index > 0) {
        agenda->used |= UINT64_C(1) << (index - 1);
    }
    return GY_OK;
}

void gy_agenda_fini(gy_agenda *agenda)
{
    for (int i = 0; i < GY_AGENDA_BUCKETS; i++) {
        gy_free(agenda->buckets[i].items);
    }
    *agenda = (gy_agenda){.last = 0};
}

gy_status gy_agenda_add(gy_agenda *agenda, const gy_plan_event *event)
{
    GY_ASSERT(key_of(event->at) >= agenda->last);
    return put(agenda, event);
}

/* Bucket 0 is empty: make the earliest event of the lowest bucket the new `last`, and
 * redistribute that bucket. */
static gy_status spread(gy_agenda *agenda)
{
    int index = __builtin_ctzll(agenda->used) + 1;
    struct gy_agenda_bucket *bucket = &agenda->buckets[index];
    double earliest = bucket->items[0].at;
    size_t count = bucket->count;
    for (size_t i = 1; i < count; i++) {
        earliest = GY_MIN(earliest, bucket->items[i].at);
    }
    agenda->last = key_of(earliest);
    agenda->used &= agenda->used - 1;
    agenda->buckets[0].count = agenda->taken = 0;
    bucket->count = 0;
    for (size_t i = 0; i < count; i++) {
        GY_TRY(put(agenda, &bucket->items[i])); /* into a lower bucket */
    }
    return GY_OK;
}

gy_status gy_agenda_take(gy_agenda *agenda, gy_plan_event *event)
{
    if (agenda->taken == agenda->buckets[0].count) {
        if (agenda->used == 0) {
            return GY_AGAIN;
        }
        GY_TRY(spread(agenda));
    }
    *event = agenda->buckets[0].items[agenda->taken++];
    return GY_OK;
}

/* ---- Messages that wait for their receives ---- */

static gy_plan_unexpected *held_at(const gy_plan_unexpected_table *table, uint32_t index)
{
    return (gy_plan_unexpected *)(void *)(table->items +
                                          index * (sizeof(gy_plan_unexpected) + table->bytes));
}

static size_t circle_of(const gy_plan_unexpected_table *table, int from, int to)
{
    uint64_t key = (uint64_t)(uint32_t)from << 32 | (uint32_t)to;
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (table->size - 1);
}

static void link_last(gy_plan_unexpected_table *table, uint32_t index)
{
    gy_plan_unexpected *item = held_at(table, index);
    uint32_t *last = &table->lasts[circle_of(table, item->from, item->to)];
    if (*last == 0) {
        item->next = index;
    } else {
        item->next = held_at(table, *last - 1)->next;
        held_at(table, *last - 1)->next = index;
    }
    *last = index + 1;
}

static gy_status grow(gy_plan_unexpected_table *table)
{
    size_t old_size = table->size, size = GY_MAX(2 * old_size, (size_t)1024);
    uint32_t *old = table->lasts;
    uint32_t *lasts = gy_alloc_zero("plan.held", size, sizeof(*lasts));
    if (lasts == NULL) {
        return GY_NOMEM;
    }
    table->lasts = lasts;
    table->size = size;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i] != 0) {
            uint32_t last = old[i] - 1, at = held_at(table, last)->next, next = at;
            do { /* oldest first, so that the messages of a pair keep their order */
                at = next;
                next = held_at(table, at)->next;
                link_last(table, at);
            } while (at != last);
        }
    }
    gy_free(old);
    return GY_OK;
}

void gy_plan_unexpected_fini(gy_plan_unexpected_table *table)
{
    gy_free(table->items);
    gy_free(table->lasts);
    *table = (gy_plan_unexpected_table){.bytes = table->bytes};
}

gy_status gy_plan_unexpected_add(gy_plan_unexpected_table *table, int from, int to,
                                 const void *message)
{
    if (table->filled >= table->size) {
        GY_TRY(grow(table));
    }
    uint32_t index = table->free - 1;
    if (table->free != 0) {
        table->free = held_at(table, index)->next;
    } else {
        void *items = table->items;
        GY_TRY(gy_reserve("plan.held", &items, &table->capacity, table->count + 1,
                          sizeof(gy_plan_unexpected) + table->bytes));
        table->items = items;
        index = (uint32_t)table->count++;
    }
    gy_plan_unexpected *item = held_at(table, index);
    item->from = from;
    item->to = to;
    memcpy(item->message, message, table->bytes);
    link_last(table, index);
    table->filled++;
    return GY_OK;
}

/* Find the oldest message from one rank to another, and its predecessor in the circular list;
 * NULL: none. */
static gy_plan_unexpected *find(const gy_plan_unexpected_table *table, int from, int to,
                                uint32_t *before)
{
    uint32_t last = table->filled == 0 ? 0 : table->lasts[circle_of(table, from, to)];
    if (last == 0) {
        return NULL;
    }
    *before = last - 1;
    for (;;) {
        uint32_t at = held_at(table, *before)->next;
        gy_plan_unexpected *item = held_at(table, at);
        if (item->from == from && item->to == to) {
            return item;
        }
        if (at == last - 1) {
            return NULL;
        }
        *before = at;
    }
}

const void *gy_plan_unexpected_find(const gy_plan_unexpected_table *table, int from, int to)
{
    uint32_t before;
    const gy_plan_unexpected *item = find(table, from, to, &before);
    return item == NULL ? NULL : item->message;
}

bool gy_plan_unexpected_take(gy_plan_unexpected_table *table, int from, int to, void *message)
{
    uint32_t before;
    gy_plan_unexpected *item = find(table, from, to, &before);
    if (item == NULL) {
        return false;
    }
    uint32_t *last = &table->lasts[circle_of(table, from, to)];
    uint32_t at = held_at(table, before)->next;
    memcpy(message, item->message, table->bytes);
    held_at(table, before)->next = item->next;
    if (before == at) {
        *last = 0;
    } else if (at == *last - 1) {
        *last = before + 1;
    }
    item->next = table->free;
    table->free = at + 1;
    table->filled--;
    return true;
}

const gy_plan_unexpected *gy_plan_unexpected_any(const gy_plan_unexpected_table *table)
{
    for (size_t i = 0; i < table->size; i++) {
        if (table->lasts[i] != 0) {
            return held_at(table, held_at(table, table->lasts[i] - 1)->next);
        }
    }
    return NULL;
}
