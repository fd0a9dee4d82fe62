/**
 * Ranks of a simulated run as threads of which one runs at a time: blocking calls in virtual
 * time, the same from the same seed. A rank gives the baton on whenever it would sleep.
 */
#ifndef BATON_KIT_H
#define BATON_KIT_H

#include "transport/simnet.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "gy_test.h"

enum { BATON_RANKS = 16, BATON_NOBODY = -1 };

typedef struct baton {
    gy_sim *sim;
    int size;
    void (*body)(struct baton *baton, int rank);
    void *arg;
    sem_t bells[BATON_RANKS + 1]; /* to whom the baton goes; the last is the scheduler's */
    bool is_over[BATON_RANKS];    /* the rank's thread ends, */
    bool is_joined[BATON_RANKS];  /* and has ended */
    pthread_t threads[BATON_RANKS];
    int64_t wake_ns[BATON_RANKS]; /* it sleeps until then */
    int64_t limit_ns;             /* of virtual time */
} baton;

static _Thread_local baton *own_baton;
static _Thread_local int own_rank;
static const gy_transport_ops *baton_below;
static gy_transport_ops baton_ops;

static inline sem_t *baton_bell(baton *all, int who)
{
    return &all->bells[who == BATON_NOBODY ? BATON_RANKS : who];
}

static inline void baton_await(baton *all, int who)
{
    int failed;
    do {
        failed = sem_wait(baton_bell(all, who));
    } while (failed != 0 && errno == EINTR);
    assert_int_equal(failed, 0);
}

static inline void baton_pass(baton *all, int from, int to)
{
    bool is_over = from != BATON_NOBODY && all->is_over[from];
    assert_int_equal(sem_post(baton_bell(all, to)), 0);
    if (!is_over) { /* else it may be gone */
        baton_await(all, from);
    }
}

static inline bool baton_is_up(const baton *all, int rank)
{
    return gy_sim_is_up(all->sim, rank);
}

/* The next rank of this round behind `rank`; BATON_NOBODY: it is over. */
static inline int baton_next(const baton *all, int rank)
{
    do {
        rank++;
    } while (rank < all->size &&
             (all->is_over[rank] || all->wake_ns[rank] > gy_sim_now_ns(all->sim)));
    return rank < all->size ? rank : BATON_NOBODY;
}

static void baton_nap(gy_transport *transport, int64_t nap_ns)
{
    (void)transport;
    if (own_baton != NULL) {
        own_baton->wake_ns[own_rank] = gy_sim_now_ns(own_baton->sim) + nap_ns;
        baton_pass(own_baton, own_rank, baton_next(own_baton, own_rank));
    }
}

/* A rank that has crashed finds everybody gone, so that it ends soon. */
static gy_status baton_check(gy_transport *transport, int peer)
{
    if (own_baton != NULL && !baton_is_up(own_baton, own_rank)) {
        return gy_fail(GY_PEER, "rank %d itself has crashed", own_rank);
    }
    return baton_below->check(transport, peer);
}

static inline gy_transport *baton_open(baton *all, int rank)
{
    gy_transport *transport = NULL;
    assert_ok(gy_transport_simnet_open(all->sim, rank, &transport));
    if (baton_below == NULL) {
        baton_below = transport->ops;
        baton_ops = *baton_below;
        baton_ops.nap = baton_nap;
        baton_ops.check = baton_check;
    }
    transport->ops = &baton_ops;
    transport->is_oversubscribed = true;
    return transport;
}

typedef struct baton_place {
    baton *all;
    int rank;
} baton_place;

static void *baton_thread(void *arg)
{
    baton_place place = *(baton_place *)arg;
    gy_free(arg);
    own_baton = place.all;
    own_rank = place.rank;
    baton_await(place.all, place.rank);
    place.all->body(place.all, place.rank);
    place.all->is_over[place.rank] = true;
    baton_pass(place.all, place.rank, baton_next(place.all, place.rank));
    return NULL;
}

static inline void baton_start(baton *all, int rank)
{
    baton_place *place = gy_alloc("test", sizeof(*place));
    *place = (baton_place){.all = all, .rank = rank};
    all->is_over[rank] = all->is_joined[rank] = false;
    all->wake_ns[rank] = 0;
    assert_int_equal(pthread_create(&all->threads[rank], NULL, baton_thread, place), 0);
}

/* Let every rank that is awake have the baton once, then time pass. False: all have ended. */
static inline bool baton_round(baton *all)
{
    bool is_any = false;
    int64_t next_ns = INT64_MAX;
    int first = baton_next(all, -1);
    if (first != BATON_NOBODY) {
        baton_pass(all, BATON_NOBODY, first);
    }
    for (int rank = 0; rank < all->size; rank++) {
        if (!all->is_over[rank]) {
            is_any = true;
            next_ns = GY_MIN(next_ns, all->wake_ns[rank]);
        } else if (!all->is_joined[rank]) {
            pthread_join(all->threads[rank], NULL);
            all->is_joined[rank] = true;
        }
    }
    if (is_any) {
        gy_sim_run_until(all->sim, next_ns);
    }
    assert_true(gy_sim_now_ns(all->sim) < all->limit_ns);
    return is_any;
}

static inline void baton_init(baton *all, uint64_t seed, int size, double seconds)
{
    const gy_sim_options options = {
        .seed = seed,
        .nodes = size,
        .link = {.latency_ns = 20000, .jitter_ns = 300000, .bytes_per_second = 1e9}};
    *all = (baton){.size = size, .limit_ns = (int64_t)(seconds * 1e9)};
    for (int i = 0; i <= BATON_RANKS; i++) {
        assert_int_equal(sem_init(&all->bells[i], 0, 0), 0);
    }
    assert_ok(gy_sim_new(&options, &all->sim));
}

static inline void baton_fini(baton *all)
{
    gy_sim_free(all->sim);
    for (int i = 0; i <= BATON_RANKS; i++) {
        sem_destroy(&all->bells[i]);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

typedef struct baton_crash {
    gy_sim *sim;
    int node;
} baton_crash;

static void baton_strike(void *arg)
{
    const baton_crash *crash = arg;
    gy_sim_crash(crash->sim, crash->node);
}

#endif
