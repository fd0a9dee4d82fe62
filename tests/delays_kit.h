/**
 * Ranks that are threads, whose messages go over simulated links: late, each by a time of its
 * own drawn from a seed, so that they overtake each other. Messages of one tag to one rank keep
 * their order, which is all that a transport owes. Time is virtual: it passes when a rank finds
 * nothing to do.
 */
#ifndef GY_TESTS_DELAYS_KIT_H
#define GY_TESTS_DELAYS_KIT_H

#include "sim/sim.h"
#include "transport/failure_priv.h"
#include "transport/match_priv.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "gy_test.h"

enum { DELAYS_RANKS = 8, DELAYS_IDLE = 3 }; /* rounds without a message until time passes */

/* How many messages of a tag one rank has sent to another, or taken from it. */
typedef struct delays_count {
    int peer;
    uint64_t tag, count;
} delays_count;

typedef struct delays_counts {
    delays_count *list;
    size_t count, capacity;
} delays_counts;

typedef struct delays_frame {
    struct delays_frame *next;
    int from;
    uint64_t tag, nth; /* of its tag */
    size_t size_bytes;
    uint8_t data[];
} delays_frame;

typedef struct delays {
    pthread_mutex_t lock; /* of all members but the first */
    gy_sim *sim;
    gy_transport_failure failure;
    delays_frame *arrived[DELAYS_RANKS]; /* what each rank has not looked at */
    uint64_t overtaken; /* messages that came before one that was sent earlier */
    uint64_t sent[DELAYS_RANKS][DELAYS_RANKS], newest[DELAYS_RANKS][DELAYS_RANKS];
    int open;
} delays;

typedef struct delays_transport {
    gy_transport base;
    delays *all;
    delays_counts sent, taken;
    gy_inbox inboxes[DELAYS_RANKS];
    int idle;
} delays_transport;

typedef struct delays_head {
    uint64_t tag, nth, number;
} delays_head;

static inline delays_transport *delays_of(gy_transport *transport)
{
    return (delays_transport *)(void *)transport;
}

static inline uint64_t *delays_counter(delays_counts *counts, int peer, uint64_t tag)
{
    for (size_t i = 0; i < counts->count; i++) {
        if (counts->list[i].peer == peer && counts->list[i].tag == tag) {
            return &counts->list[i].count;
        }
    }
    GY_ASSERT(GY_GROW("test", counts->list, counts->capacity, counts->count + 1) == GY_OK);
    counts->list[counts->count] = (delays_count){.peer = peer, .tag = tag};
    return &counts->list[counts->count++].count;
}

static inline void delays_arrive(void *arg, int from, const void *data, size_t size_bytes)
{
    delays_transport *to = arg;
    delays *all = to->all;
    delays_head head;
    delays_frame *frame = gy_alloc("test", sizeof(*frame) + size_bytes);
    GY_ASSERT(frame != NULL && size_bytes >= sizeof(head));
    memcpy(&head, data, sizeof(head));
    *frame = (delays_frame){.next = all->arrived[to->base.rank],
                            .from = from,
                            .tag = head.tag,
                            .nth = head.nth,
                            .size_bytes = size_bytes - sizeof(head)};
    memcpy(frame->data, (const uint8_t *)data + sizeof(head), frame->size_bytes);
    uint64_t *newest = &all->newest[from][to->base.rank];
    all->overtaken += head.number < *newest;
    *newest = GY_MAX(*newest, head.number);
    all->arrived[to->base.rank] = frame;
}

/* Deliver one that is the next of its tag; false: there is none. */
static inline bool delays_take(delays_transport *own)
{
    for (delays_frame **at = &own->all->arrived[own->base.rank]; *at != NULL;
         at = &(*at)->next) {
        delays_frame *frame = *at;
        uint64_t *taken = delays_counter(&own->taken, frame->from, frame->tag);
        if (frame->nth == *taken && gy_inbox_deliver(&own->inboxes[frame->from], frame->tag,
                                                     frame->data, frame->size_bytes)) {
            ++*taken;
            *at = frame->next;
            gy_free(frame);
            return true;
        }
    }
    return false;
}

static inline gy_status delays_send(gy_transport *transport, gy_transfer *transfer)
{
    delays_transport *own = delays_of(transport);
    delays *all = own->all;
    const int to = transfer->peer;
    uint8_t *bytes = gy_alloc("test", sizeof(delays_head) + transfer->size_bytes);
    GY_ASSERT(bytes != NULL);
    pthread_mutex_lock(&all->lock);
    const delays_head head = {.tag = transfer->tag,
                              .nth = (*delays_counter(&own->sent, to, transfer->tag))++,
                              .number = ++all->sent[transport->rank][to]};
    memcpy(bytes, &head, sizeof(head));
    if (transfer->size_bytes > 0) {
        memcpy(bytes + sizeof(head), transfer->data, transfer->size_bytes);
    }
    const gy_status status =
        gy_sim_cast(all->sim, transport->rank, to, bytes, sizeof(head) + transfer->size_bytes);
    pthread_mutex_unlock(&all->lock);
    gy_free(bytes);
    gy_transfer_end(transfer, status);
    return status;
}

static inline gy_status delays_recv(gy_transport *transport, gy_transfer *transfer)
{
    gy_inbox_post(&delays_of(transport)->inboxes[transfer->peer], transfer);
    return GY_OK;
}

static inline gy_status delays_progress(gy_transport *transport)
{
    delays_transport *own = delays_of(transport);
    pthread_mutex_lock(&own->all->lock);
    const bool has_moved = delays_take(own);
    own->idle = has_moved ? 0 : own->idle + 1;
    if (own->idle == DELAYS_IDLE) {
        own->idle = 0;
        (void)gy_sim_step(own->all->sim);
    }
    pthread_mutex_unlock(&own->all->lock);
    return has_moved ? GY_OK : GY_AGAIN;
}

static inline void delays_cancel(gy_transport *transport, gy_transfer *transfer)
{
    gy_inbox_cancel(&delays_of(transport)->inboxes[transfer->peer], transfer);
}

static inline gy_status delays_aborted(gy_transport *transport)
{
    delays *all = delays_of(transport)->all;
    pthread_mutex_lock(&all->lock);
    const gy_status status =
        gy_transport_failure_raise(&all->failure, transport->survival.epoch);
    pthread_mutex_unlock(&all->lock);
    return status;
}

static inline gy_status delays_check(gy_transport *transport, int peer)
{
    (void)transport;
    (void)peer;
    return GY_OK;
}

static inline void delays_abort(gy_transport *transport, const gy_error *error)
{
    delays *all = delays_of(transport)->all;
    pthread_mutex_lock(&all->lock);
    gy_transport_failure_say(&all->failure, error, transport->rank, transport->survival.epoch);
    pthread_mutex_unlock(&all->lock);
}

static inline bool delays_has_joined(gy_transport *transport, int peer)
{
    (void)transport;
    (void)peer;
    return true;
}

static inline void delays_nap(gy_transport *transport, int64_t nap_ns)
{
    (void)transport;
    (void)nap_ns; /* nobody can wake it */
    (void)sched_yield();
}

/* The last one takes the links with it. */
static inline void delays_close(gy_transport *transport)
{
    delays_transport *own = delays_of(transport);
    delays *all = own->all;
    for (int rank = 0; rank < transport->size; rank++) {
        gy_inbox_fini(&own->inboxes[rank]);
    }
    gy_free(own->sent.list);
    gy_free(own->taken.list);
    pthread_mutex_lock(&all->lock);
    gy_sim_listen(all->sim, transport->rank, NULL, NULL);
    while (all->arrived[transport->rank] != NULL) {
        delays_frame *frame = all->arrived[transport->rank];
        all->arrived[transport->rank] = frame->next;
        gy_free(frame);
    }
    const bool is_last = --all->open == 0;
    pthread_mutex_unlock(&all->lock);
    gy_free(own);
    if (is_last) {
        gy_sim_free(all->sim);
        pthread_mutex_destroy(&all->lock);
    }
}

static const gy_transport_ops delays_ops = {
    .name = "delays",
    .close = delays_close,
    .send = delays_send,
    .recv = delays_recv,
    .progress = delays_progress,
    .cancel = delays_cancel,
    .aborted = delays_aborted,
    .check = delays_check,
    .abort = delays_abort,
    .has_joined = delays_has_joined,
    .nap = delays_nap,
};

/* Transports of so many ranks; `all` must stay until they are closed. */
static inline void delays_open(delays *all, uint64_t seed, int ranks,
                               gy_transport *transports[DELAYS_RANKS])
{
    const gy_sim_options options = {
        .seed = seed,
        .nodes = ranks,
        .link = {.latency_ns = 1000, .jitter_ns = 1000000, .bytes_per_second = 1e9}};
    *all = (delays){.open = ranks};
    assert_int_equal(pthread_mutex_init(&all->lock, NULL), 0);
    assert_ok(gy_sim_new(&options, &all->sim));
    for (int rank = 0; rank < ranks; rank++) {
        delays_transport *made = gy_alloc_zero("test", 1, sizeof(*made));
        assert_non_null(made);
        made->all = all;
        made->base = (gy_transport){.ops = &delays_ops,
                                    .env = gy_env_real(),
                                    .rank = rank,
                                    .size = ranks,
                                    .host_ranks = 1,
                                    .is_oversubscribed = true};
        for (int peer = 0; peer < ranks; peer++) {
            made->inboxes[peer].survival = &made->base.survival;
        }
        gy_sim_listen(all->sim, rank, delays_arrive, made);
        transports[rank] = &made->base;
    }
}

#endif
