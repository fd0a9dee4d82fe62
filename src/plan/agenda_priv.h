/**
 * What is to happen, earliest first: a radix heap. It never goes back in time: nothing may be
 * added that lies before what was taken last. Of two things at one time the one added first
 * comes first, so a run is a function of what is added.
 *
 * @source Ahuja, Mehlhorn, Orlin, Tarjan: "Faster algorithms for the shortest path problem",
 *         JACM 1990 (the heap; here the keys are the bits of times)
 * @cost amortised O(64) moves an event, in practice two or three; no allocation once grown
 */
#ifndef GY_PLAN_AGENDA_PRIV_H
#define GY_PLAN_AGENDA_PRIV_H

#include <gyre/base.h>

#include <stdalign.h>

/** The head of a message reaches a link. */
typedef struct gy_plan_event {
    double at;   /* seconds, >= 0 */
    double tail; /* when its last byte can be there at the earliest */
    int32_t from, to, first, run;
    uint16_t chunk;
    uint16_t link; /* which of those on its way */
} gy_plan_event;

enum { GY_AGENDA_BUCKETS = 65 };

/** Zero-initialise. */
typedef struct gy_agenda {
    uint64_t last; /* key of what was taken last */
    uint64_t used; /* bit b - 1: bucket b > 0 holds something */
    size_t taken;  /* of bucket 0 */
    struct gy_agenda_bucket {
        gy_plan_event *items;
        size_t count, capacity;
    } buckets[GY_AGENDA_BUCKETS]; /* b: keys whose highest bit that differs from last is b - 1
                                   */
} gy_agenda;

void gy_agenda_fini(gy_agenda *agenda);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_agenda_add(gy_agenda *agenda, const gy_plan_event *event);
/** GY_OK; GY_AGAIN nothing is left; GY_NOMEM */
gy_status gy_agenda_take(gy_agenda *agenda, gy_plan_event *event);

/** A message that waits for its receive; those of a bucket in a circle, oldest after the last.
 */
typedef struct gy_plan_unexpected {
    int32_t from, to;
    uint32_t next;
    alignas(8) uint8_t message[];
} gy_plan_unexpected;

/** Messages of `bytes` each, a multiple of 8, found by sender and receiver, those of a pair in
 * order. Zero but for `bytes` at first. */
typedef struct gy_plan_unexpected_table {
    size_t bytes;
    uint8_t *items;
    size_t count, capacity; /* used so far, free ones included */
    uint32_t *lasts;        /* (size) 1 + index of a bucket's last; 0: empty */
    size_t size, filled;
    uint32_t free; /* 1 + index of a free item */
} gy_plan_unexpected_table;

void gy_plan_unexpected_fini(gy_plan_unexpected_table *table);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_plan_unexpected_add(gy_plan_unexpected_table *table, int from,
                                               int to, const void *message);
/** The oldest message from one rank to another, until the next is added; NULL: there is none.
 */
const void *gy_plan_unexpected_find(const gy_plan_unexpected_table *table, int from, int to);
/** The same, taken out; false: there is none. */
bool gy_plan_unexpected_take(gy_plan_unexpected_table *table, int from, int to, void *message);
/** One that is left; NULL: there is none. */
const gy_plan_unexpected *gy_plan_unexpected_any(const gy_plan_unexpected_table *table);

#endif
