/**
 * Events by time: a radix heap. It is monotone: no event may be added that is earlier than the
 * one taken last. Of two events at the same time the one added first comes first, so a run is
 * a function of the added events.
 *
 * @source Ahuja, Mehlhorn, Orlin, Tarjan: "Faster algorithms for the shortest path problem",
 *     JACM 1990 (the heap; here the keys are the bits of times)
 * @cost amortised O(64) moves an event, in practice two or three; no allocation once it has
 *     grown
 */
#ifndef GY_PLAN_AGENDA_PRIV_H
#define GY_PLAN_AGENDA_PRIV_H

#include <gyre/base.h>

#include <stdalign.h>

/** The event that the head of a message reaches a link. */
typedef struct gy_plan_event {
    double at;   /* seconds, >= 0 */
    double tail; /* earliest time at which its last byte can be there */
    int32_t from, to, first, run;
    uint16_t chunk;
    uint16_t link; /* index of the link on the message's way */
} gy_plan_event;

enum { GY_AGENDA_BUCKETS = 65 };

/** Zero-initialise. */
typedef struct gy_agenda {
    uint64_t last; /* key of the event taken last */
    uint64_t used; /* bit b - 1: bucket b > 0 is not empty */
    size_t taken;  /* items of bucket 0 that were taken */
    struct gy_agenda_bucket {
        gy_plan_event *items;
        size_t count, capacity;
        /* b: keys whose highest bit that differs from `last` is b - 1 */
    } buckets[GY_AGENDA_BUCKETS];
} gy_agenda;

void gy_agenda_fini(gy_agenda *agenda);
/** Add an event. GY_NOMEM */
GY_MUST_CHECK gy_status gy_agenda_add(gy_agenda *agenda, const gy_plan_event *event);
/** Take the earliest event. GY_OK; GY_AGAIN there is none; GY_NOMEM */
gy_status gy_agenda_take(gy_agenda *agenda, gy_plan_event *event);

/** A message that waits for its receive; a bucket is a circular list in which the oldest
 * follows the last. */
typedef struct gy_plan_unexpected {
    int32_t from, to;
    uint32_t next;
    alignas(8) uint8_t message[];
} gy_plan_unexpected;

/** Messages of `bytes` each (a multiple of 8), found by sender and receiver; those of a pair in
 * order. Zero at first, except for `bytes`. */
typedef struct gy_plan_unexpected_table {
    size_t bytes;
    uint8_t *items;
    size_t count, capacity; /* used so far, including free ones */
    uint32_t *lasts;        /* (size) 1 + index of a bucket's last item; 0: empty */
    size_t size, filled;
    uint32_t free; /* 1 + index of a free item */
} gy_plan_unexpected_table;

void gy_plan_unexpected_fini(gy_plan_unexpected_table *table);
/** Add a message. GY_NOMEM */
GY_MUST_CHECK gy_status gy_plan_unexpected_add(gy_plan_unexpected_table *table, int from,
                                               int to, const void *message);
/** Find the oldest message from one rank to another, valid until the next one is added; NULL:
 * there is none. */
const void *gy_plan_unexpected_find(const gy_plan_unexpected_table *table, int from, int to);
/** Remove that message; false: there is none. */
bool gy_plan_unexpected_take(gy_plan_unexpected_table *table, int from, int to, void *message);
/** Find any message; NULL: there is none. */
const gy_plan_unexpected *gy_plan_unexpected_any(const gy_plan_unexpected_table *table);

#endif
