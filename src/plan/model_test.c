/* Goal: prices read off the plans equal the formulas of the literature. */
#include "plan/plan.h"

#include "base/base.h"

#include <string.h>

#include "price_kit.h"

static const gy_links links = {.alpha = 1e-6, .beta = 1e-9, .gamma = 1e-10};

static gy_plan_costs price_of(gy_operation operation, const char *name, int ranks,
                              int64_t count)
{
    const gy_algorithm *row = gy_algorithm_find(operation, name);
    gy_plan_request request = {.operation = operation, .ranks = ranks, .in_place = true};
    gy_plan *plan = NULL;
    assert_non_null(row);
    assert_ok(gy_plan_new(row, &request, &plan));
    gy_plan_costs price = {.rounds = 0};
    assert_ok(gy_plan_cost_of(plan, &(gy_volume){.count = count, .element_bytes = 4}, &links,
                              &price));
    gy_plan_free(plan);
    return price;
}

GY_TEST(ring_costs_what_patarasuk_and_yuan_say)
{
    for (int p = 2; p <= 64; p++) {
        int64_t count = (int64_t)p * 1000, bytes = count * 4;
        double n = (double)bytes;
        gy_plan_costs price = price_of(GY_OPERATION_ALLREDUCE, "ring", p, count);
        assert_int_equal(price.rounds, 2 * (p - 1));
        assert_int_equal(price.sent_max, 2 * (p - 1) * (bytes / p));
        assert_int_equal(price.received_max, 2 * (p - 1) * (bytes / p));
        assert_int_equal(price.fan_in_max, 1);
        assert_near(price.time_s,
                    2 * (p - 1) * links.alpha + 2 * (p - 1) * n / p * links.beta +
                        (p - 1) * n / p * links.gamma,
                    1e-9);
        price = price_of(GY_OPERATION_REDUCE_SCATTER, "ring", p, count);
        assert_int_equal(price.rounds, p - 1);
        price = price_of(GY_OPERATION_ALLGATHER, "ring", p, count);
        assert_int_equal(price.rounds, p - 1);
        assert_near(price.time_s, (p - 1) * links.alpha + (p - 1) * n / p * links.beta, 1e-9);
    }
}

GY_TEST(tree_takes_two_log_p_rounds_of_the_whole)
{
    for (int p = 2; p <= 64; p++) {
        double n = 4000;
        gy_plan_costs price = price_of(GY_OPERATION_ALLREDUCE, "tree", p, 1000);
        assert_int_equal(price.rounds, 2 * log2_up(p));
        assert_true(price.fan_in_max <= log2_up(p));
        if ((p & (p - 1)) == 0) { /* the formula is for powers of two */
            assert_near(price.time_s,
                        2 * log2_up(p) * (links.alpha + n * links.beta) +
                            log2_up(p) * n * links.gamma,
                        1e-9);
        }
        price = price_of(GY_OPERATION_BROADCAST, "tree", p, 1000);
        assert_int_equal(price.rounds, log2_up(p));
        assert_int_equal(price.sent_sum, (int64_t)(p - 1) * 4000);
        price = price_of(GY_OPERATION_BARRIER, "dissemination", p, 0);
        assert_int_equal(price.rounds, log2_up(p));
        assert_int_equal(price.sent_sum, 0);
    }
}

GY_TEST(shared_memory_moves_the_least)
{
    for (int p = 2; p <= 16; p++) {
        int64_t count = (int64_t)p * 512;
        gy_plan_costs price = price_of(GY_OPERATION_ALLREDUCE, "direct", p, count);
        assert_int_equal(price.rounds, 2);
        /* A rank reads p-1 parts of the others and writes its part to p-1 others. */
        assert_int_equal(price.sent_max, 2 * (p - 1) * (count * 4 / p));
        assert_int_equal(price.fan_in_max, p - 1);
        price = price_of(GY_OPERATION_ALLREDUCE, "exchange", p, count);
        assert_int_equal(price.rounds, 1);
        assert_int_equal(price.received_max, (p - 1) * count * 4);
    }
}

GY_TEST(thousand_ranks_and_huge_counts_are_priced)
{
    int64_t count = INT64_C(1) << 33;
    gy_plan_costs price = price_of(GY_OPERATION_ALLREDUCE, "tree", 1024, count);
    assert_int_equal(price.rounds, 20);
    assert_int_equal(price.received_max, 10 * count * 4);
    price = price_of(GY_OPERATION_ALLREDUCE, "ring", 257, count);
    assert_true(price.sent_max > 2 * (count * 4 / 257) * 255);
}

GY_TEST(layouts_cover_each_element_once)
{
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 2000; round++) {
        gy_layout layout = {.count = (int64_t)gy_random_below(&random, 5000),
                            .parts = 1 + (int32_t)gy_random_below(&random, 9),
                            .chunks = 1 + (int32_t)gy_random_below(&random, 9),
                            .part_unit = 1 << gy_random_below(&random, 5),
                            .chunk_unit = 1 << gy_random_below(&random, 5)};
        if (round % 3 == 0) {
            layout.count += INT64_C(1) << 40;
        }
        int64_t before = 0;
        assert_int_equal(gy_layout_at(&layout, 0), 0);
        for (int64_t block = 1; block <= layout.parts * layout.chunks; block++) {
            int64_t at = gy_layout_at(&layout, block);
            assert_true(at >= before && at - before <= gy_layout_longest(&layout));
            before = at;
        }
        assert_int_equal(before, layout.count);
    }
}

GY_TEST(plans_are_drawn)
{
    gy_plan_request request = {.operation = GY_OPERATION_ALLREDUCE, .ranks = 2};
    gy_plan *plan = NULL;
    assert_ok(
        gy_plan_new(gy_algorithm_find(GY_OPERATION_ALLREDUCE, "direct"), &request, &plan));
    gy_text text = {.data = NULL};
    gy_plan_draw(&text, plan);
    assert_string_equal(gy_text_get(&text),
                        "allreduce by direct, 2 ranks, 1 chunks\n"
                        "rank 0\n"
                        "  0 post mark 1\n"
                        "  1 wait for mark 1 of all\n"
                        "  2 reduce in block 0 + in of rank 1 block 0 -> out of all block 0\n"
                        "  3 post mark 2\n"
                        "  4 wait for mark 2 of all\n"
                        "rank 1\n"
                        "  0 post mark 1\n"
                        "  1 wait for mark 1 of all\n"
                        "  2 reduce in of rank 0 block 1 + in block 1 -> out of all block 1\n"
                        "  3 post mark 2\n"
                        "  4 wait for mark 2 of all\n");
    gy_text_free(&text);
    gy_plan_free(plan);
}

GY_TEST_MAIN(NULL, NULL)
