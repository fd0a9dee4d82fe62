/* Goal: prices follow the links; those of one host are as measured there, to a half. */
#include "graph/place/place_priv.h"

#include <math.h>

#include "gy_test.h"

GY_TEST(prices_are_those_of_the_plan_model)
{
    gy_prices prices;
    const gy_links links = {.alpha = 1e-3, .beta = 1e-9, .gamma = 0};
    gy_prices_init(&prices, 4, &links);
    double empty = gy_price_exchange(&prices, GY_OPERATION_ALLGATHER, 64);
    double full = gy_price_exchange(&prices, GY_OPERATION_ALLGATHER, 4e9);
    assert_true(empty >= 1e-3 && empty < 7e-3);
    assert_true(full > 2.9 && full < 4.1); /* three quarters of it come in */
    double all = gy_price_exchange(&prices, GY_OPERATION_ALLREDUCE, 4e9);
    assert_true(all > 5.9 && all < 8.1); /* twice that */
    double last = 0, bytes = 1;
    for (int i = 0; i < 28; i++, bytes *= 3) {
        double now = gy_price_exchange(&prices, GY_OPERATION_REDUCE_SCATTER, bytes);
        assert_true(now >= last && now < 1e-2 + bytes * 1.1e-9);
        last = now;
    }
    assert_true(gy_price_copy(&prices, 1e6) == 0);
    gy_prices_init(&prices, 2, &(gy_links){0});
    double kibs = gy_price_exchange(&prices, GY_OPERATION_ALLREDUCE, 64 << 10);
    assert_true(kibs > 7e-6 && kibs < 15e-6);
    assert_true(fabs(gy_price_copy(&prices, 1e6) - 1e-4) < 1e-9);
    gy_prices_init(&prices, 4096, &(gy_links){0}); /* as for 32, and soon */
    assert_true(gy_price_exchange(&prices, GY_OPERATION_ALLREDUCE, 1e6) > 0);
    assert_true(isfinite(last) && prices.status == GY_OK);
    prices.status = GY_NOMEM;
    assert_true(gy_price_exchange(&prices, GY_OPERATION_ALLREDUCE, 1e6) == INFINITY);
}

GY_TEST_MAIN(NULL, NULL)
