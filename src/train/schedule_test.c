/* Goal: every step sees the rate that <gyre/train.h> says, and every epoch an order of its own.
 */
#include "train/train_priv.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

GY_TEST(schedules_follow_their_formulas)
{
    gy_train_options o = {.rate = 1, .schedule = GY_SCHEDULE_COSINE, .warmup_steps = 4};
    assert_true(gy_train_schedule_rate(&o, 0, 104, 10) == 0.25);
    assert_true(gy_train_schedule_rate(&o, 3, 104, 10) == 1);
    assert_true(fabs(gy_train_schedule_rate(&o, 54, 104, 10) - 0.5) < 1e-12);
    o = (gy_train_options){.rate = 2, .schedule = GY_SCHEDULE_LINEAR};
    assert_true(gy_train_schedule_rate(&o, 75, 100, 10) == 0.5);
    o = (gy_train_options){
        .rate = 2, .schedule = GY_SCHEDULE_STEP, .schedule_factor = 0.5, .schedule_every = 2};
    assert_true(gy_train_schedule_rate(&o, 39, 100, 10) == 1);
    assert_true(gy_train_schedule_rate(&o, 40, 100, 10) == 0.5);
}

/* As <gyre/train.h> says: the first step, the last one, and 0 right behind it and from then on.
 */
GY_TEST(schedules_begin_and_end_where_they_say)
{
    static const int64_t totals[] = {1, 2, 3, 10, 1000003};
    for (size_t i = 0; i < GY_COUNT(totals); i++) {
        const int64_t steps = totals[i];
        for (int warmup = 0; warmup <= 3; warmup++) {
            for (int kind = GY_SCHEDULE_CONSTANT; kind <= GY_SCHEDULE_LINEAR; kind++) {
                const gy_train_options o = {.rate = 0.7,
                                            .schedule = (gy_schedule_kind)kind,
                                            .schedule_factor = 0.5,
                                            .schedule_every = 1,
                                            .warmup_steps = warmup};
                const double first = gy_train_schedule_rate(&o, 0, steps, steps);
                const double last = gy_train_schedule_rate(&o, steps - 1, steps, steps);
                const double part = 1 / (double)(steps - warmup);
                assert_true(fabs(first - (warmup > 1 ? 0.7 / warmup : 0.7)) < 1e-15);
                assert_true(last > 0); /* no step is without effect */
                for (int64_t beyond = steps; beyond < steps + 3 && steps > warmup; beyond++) {
                    const double rate = gy_train_schedule_rate(&o, beyond, steps, 4 * steps);
                    assert_true(rate == (kind >= GY_SCHEDULE_COSINE ? 0 : 0.7));
                }
                if (steps > warmup && kind == GY_SCHEDULE_LINEAR) {
                    assert_true(fabs(last - 0.7 * part) < 1e-12);
                } else if (steps > warmup && kind == GY_SCHEDULE_COSINE) {
                    const double half = sin(1.5707963267948966 * part);
                    assert_true(fabs(last - 0.7 * half * half) < 1e-12);
                } else if (steps <= warmup) {
                    assert_true(fabs(last - 0.7 * (double)steps / warmup) < 1e-15);
                }
            }
        }
    }
}

GY_TEST(orders_are_permutations_that_repeat)
{
    enum { COUNT = 1000 };
    int64_t first[COUNT];
    int64_t again[COUNT];
    int64_t other[COUNT];
    gy_train_order_fill(9, 2, first, COUNT);
    gy_train_order_fill(9, 2, again, COUNT);
    gy_train_order_fill(9, 3, other, COUNT);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
    bool seen[COUNT] = {false};
    for (int i = 0; i < COUNT; i++) {
        assert_in_range(first[i], 0, COUNT - 1);
        assert_false(seen[first[i]]);
        seen[first[i]] = true;
    }
}

GY_TEST_MAIN(NULL, NULL)
