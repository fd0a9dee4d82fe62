/* Goal: timers of the real environment fire once, in the order of their times. */
#include "base/base.h"
#include "base/timer.h"

#include "gy_test.h"

static int order[8];
static int fired;

static void note(void *arg)
{
    order[fired++] = *(int *)arg;
}

GY_TEST(timers_fire_in_order)
{
    gy_env *env = gy_env_real();
    int names[4] = {0, 1, 2, 3};
    int64_t now = gy_now_ns(env);
    fired = 0;
    assert_ok(env->ops->timer(env, now + 200000000, note, &names[3]));
    assert_ok(env->ops->timer(env, now - 5, note, &names[1]));
    assert_ok(env->ops->timer(env, now - 5, note, &names[2]));
    assert_ok(env->ops->timer(env, now - 9, note, &names[0]));
    assert_int_equal(gy_env_poll(env, (gy_deadline){0}), 3);
    assert_int_equal(gy_env_poll(env, (gy_deadline){0}), 0);
    assert_int_equal(gy_env_poll(env, gy_deadline_after(20)), 1);
    assert_true(gy_now_ns(env) >= now + 200000000);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(order[i], i);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

GY_TEST(heap_sorts_any_order)
{
    gy_random random = {.key = gy_test_seed()};
    gy_timers timers = {.items = NULL};
    gy_timer timer, before = {.at_ns = -1};
    for (int i = 0; i < 1000; i++) {
        assert_ok(gy_timers_set(&timers, (int64_t)gy_random_below(&random, 100), note, NULL));
    }
    assert_int_equal(gy_timers_next_ns(&timers), 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(gy_timers_take(&timers, INT64_MAX, &timer));
        assert_true(timer.at_ns > before.at_ns ||
                    (timer.at_ns == before.at_ns && timer.order > before.order));
        before = timer;
    }
    assert_false(gy_timers_take(&timers, INT64_MAX, &timer));
    assert_int_equal(gy_timers_next_ns(&timers), INT64_MAX);
}

GY_TEST_MAIN(NULL, NULL)
