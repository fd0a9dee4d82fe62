/* A hash table by number, and a heap of alarms. */
#include "rpc/session/session_priv.h"

#include <string.h>

static size_t bucket_of(uint64_t number, size_t bucket_count)
{
    return (size_t)(number * 0x9E3779B97F4A7C15u >> 20) & (bucket_count - 1);
}

/* If it fails, longer chains only cost time. */
static void grow(gy_rpc_table *table)
{
    size_t count = table->bucket_count * 2;
    gy_rpc_entry **buckets = gy_alloc_zero("rpc.table", count, sizeof(gy_rpc_entry *));
    if (buckets == NULL) {
        return;
    }
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i] != NULL) {
            gy_rpc_entry *entry = table->buckets[i];
            table->buckets[i] = entry->next;
            gy_rpc_entry **place = &buckets[bucket_of(entry->number, count)];
            entry->next = *place;
            *place = entry;
        }
    }
    gy_free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
}

gy_status gy_rpc_table_add(gy_rpc_table *table, gy_rpc_entry *entry)
{
    enum { FIRST = 8 };
    if (table->buckets == NULL) {
        table->buckets = gy_alloc_zero("rpc.table", FIRST, sizeof(gy_rpc_entry *));
        if (table->buckets == NULL) {
            return GY_NOMEM;
        }
        table->bucket_count = FIRST;
    }
    if (table->count >= table->bucket_count) {
        grow(table);
    }
    gy_rpc_entry **place = &table->buckets[bucket_of(entry->number, table->bucket_count)];
    entry->next = *place;
    *place = entry;
    table->count++;
    return GY_OK;
}

gy_rpc_entry *gy_rpc_table_find(const gy_rpc_table *table, uint64_t number)
{
    if (table->count == 0) {
        return NULL;
    }
    gy_rpc_entry *entry = table->buckets[bucket_of(number, table->bucket_count)];
    while (entry != NULL && entry->number != number) {
        entry = entry->next;
    }
    return entry;
}

void gy_rpc_table_remove(gy_rpc_table *table, const gy_rpc_entry *entry)
{
    GY_ASSERT(table->count > 0);
    gy_rpc_entry **place = &table->buckets[bucket_of(entry->number, table->bucket_count)];
    while (*place != entry) {
        GY_ASSERT(*place != NULL);
        place = &(*place)->next;
    }
    *place = entry->next;
    table->count--;
}

gy_rpc_entry *gy_rpc_table_any(const gy_rpc_table *table)
{
    for (size_t i = 0; table->count > 0 && i < table->bucket_count; i++) {
        if (table->buckets[i] != NULL) {
            return table->buckets[i];
        }
    }
    return NULL;
}

void gy_rpc_table_free(gy_rpc_table *table)
{
    gy_free(table->buckets);
    *table = (gy_rpc_table){0};
}

/* ---- A heap of alarms, the earliest first ---- */

static void put_at(gy_rpc_alarms *alarms, size_t place, gy_rpc_alarm *alarm)
{
    alarms->heap[place - 1] = alarm;
    alarm->place = place;
}

static void sift(gy_rpc_alarms *alarms, gy_rpc_alarm *alarm)
{
    size_t place = alarm->place;
    while (place > 1 && alarms->heap[place / 2 - 1]->at_ns > alarm->at_ns) {
        put_at(alarms, place, alarms->heap[place / 2 - 1]);
        place /= 2;
    }
    for (;;) {
        size_t below = place * 2;
        if (below < alarms->count &&
            alarms->heap[below]->at_ns < alarms->heap[below - 1]->at_ns) {
            below++;
        }
        if (below > alarms->count || alarms->heap[below - 1]->at_ns >= alarm->at_ns) {
            break;
        }
        put_at(alarms, place, alarms->heap[below - 1]);
        place = below;
    }
    put_at(alarms, place, alarm);
}

static void unset(gy_rpc_alarms *alarms, gy_rpc_alarm *alarm)
{
    gy_rpc_alarm *last = alarms->heap[--alarms->count];
    if (last != alarm) {
        put_at(alarms, alarm->place, last);
        sift(alarms, last);
    }
    alarm->place = 0;
}

gy_status gy_rpc_alarm_admit(gy_rpc_alarms *alarms)
{
    GY_TRY(GY_GROW("rpc.alarms", alarms->heap, alarms->capacity, alarms->admitted + 1));
    alarms->admitted++;
    return GY_OK;
}

void gy_rpc_alarm_dismiss(gy_rpc_alarms *alarms, gy_rpc_alarm *alarm)
{
    if (alarm->place > 0) {
        unset(alarms, alarm);
    }
    alarms->admitted--;
}

void gy_rpc_alarm_set(gy_rpc_alarms *alarms, gy_rpc_alarm *alarm, int64_t at_ns)
{
    if (at_ns == INT64_MAX) {
        if (alarm->place > 0) {
            unset(alarms, alarm);
        }
        return;
    }
    alarm->at_ns = at_ns;
    if (alarm->place == 0) {
        GY_ASSERT(alarms->count < alarms->capacity);
        put_at(alarms, ++alarms->count, alarm);
    }
    sift(alarms, alarm);
}
