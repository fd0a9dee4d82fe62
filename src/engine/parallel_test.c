/* Goal: a split loop has the same pieces whoever runs them, and all have run when it returns.
 */
#include "engine/engine.h"

#include "base/base.h"

#include <sched.h>
#include <stdatomic.h>

#include "gy_test.h"

enum { WORKERS_MAX = 3 };

static gy_engine *start(int workers)
{
    gy_engine *engine = NULL;
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = workers}, &engine));
    return engine;
}

typedef struct loop {
    int64_t begins[64], ends[64];
    _Atomic int pieces;
    _Atomic int64_t sum;
} loop;

static void add_range(void *arg, int64_t begin, int64_t end)
{
    loop *to = arg;
    int64_t sum = 0;
    for (int64_t i = begin; i < end; i++) {
        sum += i;
    }
    atomic_fetch_add(&to->sum, sum);
    to->begins[begin / 17] = begin;
    to->ends[begin / 17] = end;
    atomic_fetch_add(&to->pieces, 1);
}

static void loop_in_task(void *arg, gy_done *done)
{
    void **pair = arg;
    gy_parallel_for(pair[0], 1000, 17, add_range, pair[1]);
    gy_done_ok(done);
}

GY_TEST(loops_cut_alike_whoever_runs_them)
{
    for (int workers = 0; workers <= WORKERS_MAX; workers++) {
        gy_engine *engine = workers > 0 ? start(workers) : NULL;
        for (int repeat = 0; repeat < 50; repeat++) {
            loop direct = {.sum = 0};
            loop nested = {.sum = 0};
            void *pair[2] = {engine, &nested};
            if (engine != NULL) {
                assert_ok(gy_engine_push(engine, &(gy_task){.run = loop_in_task, .arg = pair}));
            }
            gy_parallel_for(engine, 1000, 17, add_range, &direct);
            assert_int_equal(atomic_load(&direct.pieces), 59);
            assert_int_equal(atomic_load(&direct.sum), 499500);
            for (int i = 0; i < 59; i++) {
                assert_int_equal(direct.begins[i], i * 17);
                assert_int_equal(direct.ends[i], GY_MIN(1000, (i + 1) * 17));
            }
            if (engine != NULL) {
                assert_ok(gy_engine_wait_all(engine, GY_NEVER));
                assert_int_equal(atomic_load(&nested.sum), 499500);
            }
        }
        gy_parallel_for(engine, 0, 5, add_range, NULL);
        gy_engine_free(engine);
    }
}

typedef struct meeting {
    gy_engine *engine;
    pthread_t owner;
    _Atomic int inside;
} meeting;

/* Both threads are in the loop; the helper stays until the owner has gone to sleep. */
static void meet(void *arg, int64_t begin, int64_t end)
{
    meeting *me = arg;
    (void)begin;
    (void)end;
    atomic_fetch_add(&me->inside, 1);
    while (atomic_load(&me->inside) < 2) {
        sched_yield();
    }
    int64_t until = gy_now_ns(gy_env_real()) + 400000;
    while (!pthread_equal(me->owner, pthread_self()) && gy_now_ns(gy_env_real()) < until) {
        gy_spin();
    }
}

static void meet_in_task(void *arg, gy_done *done)
{
    meeting *me = arg;
    me->owner = pthread_self();
    gy_parallel_for(me->engine, 2, 1, meet, me);
    gy_done_ok(done);
}

/* The helper calls the owner and then sleeps itself: it must not take the owner's call. */
GY_TEST(a_called_owner_wakes)
{
    gy_engine *engine = start(2);
    for (int repeat = 0; repeat < 300; repeat++) {
        meeting both = {.engine = engine};
        assert_ok(gy_engine_push(engine, &(gy_task){.run = meet_in_task, .arg = &both}));
        gy_status status = gy_engine_wait_all(engine, gy_deadline_after(20));
        if (status != GY_OK) {
            gy_panic("a loop's owner was not woken"); /* no way to end its engine */
        }
    }
    gy_engine_free(engine);
}

GY_TEST_MAIN(NULL, NULL)
