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

/** The head of a message reaches a link. */
typedef struct gy_event {
    double at;   /* seconds, >= 0 */
    double tail; /* when its last byte can be there at the earliest */
    int32_t from, to, first, run;
    uint16_t chunk;
    uint16_t link; /* which of those on its way */
} gy_event;

enum { GY_AGENDA_BUCKETS = 65 };

/** Zero-initialise. */
typedef struct gy_agenda {
    uint64_t last; /* key of what was taken last */
    uint64_t used; /* bit b - 1: bucket b > 0 holds something */
    size_t taken;  /* of bucket 0 */
    struct gy_agenda_bucket {
        gy_event *items;
        size_t count, capacity;
    } buckets[GY_AGENDA_BUCKETS]; /* b: keys whose highest bit that differs from last is b - 1
                                   */
} gy_agenda;

void gy_agenda_fini(gy_agenda *agenda);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_agenda_add(gy_agenda *agenda, const gy_event *event);
/** GY_OK; GY_AGAIN nothing is left; GY_NOMEM */
gy_status gy_agenda_take(gy_agenda *agenda, gy_event *event);

#endif
