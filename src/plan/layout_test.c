/* Goal: blocks are found where callers keep them, and steps read by windows are the same steps.
 */
#include "plan/plan.h"

#include "base/base.h"

#include <string.h>

#include "gy_test.h"

/* A rank of an all-to-all of 3 ranks, two chunks, with gaps before each part. */
GY_TEST(columns_of_all_to_all_are_found)
{
    enum { P = 3, RANK = 1 };
    static const int64_t row[P] = {4, 0, 7}, column[P] = {5, 0, 2};
    static const int64_t in_displacements[P] = {10, 20, 30},
                         out_displacements[P] = {100, 90, 80};
    gy_plan_request request = {.operation = GY_OPERATION_ALLTOALL, .ranks = P, .chunks = 2};
    gy_layout layout = {.parts = P * P,
                        .chunks = 2,
                        .part_unit = 1,
                        .chunk_unit = 1,
                        .in_counts = row,
                        .out_counts = column,
                        .in_displacements = in_displacements,
                        .out_displacements = out_displacements,
                        .ranks = P,
                        .rank = RANK};
    for (int other = 0; other < P; other++) {
        for (int chunk = 0; chunk < 2; chunk++) {
            int32_t given = (RANK * P + other) * 2 + chunk,
                    got = (other * P + RANK) * 2 + chunk;
            assert_true(gy_plan_block_is_held(&request, 2, RANK, GY_BUFFER_IN, given));
            assert_true(gy_plan_block_is_held(&request, 2, RANK, GY_BUFFER_OUT, got));
            assert_int_equal(gy_plan_block_is_held(&request, 2, RANK, GY_BUFFER_OUT, given),
                             other == RANK);
            int64_t half = chunk == 0 ? (row[other] + 1) / 2 : row[other] / 2;
            assert_int_equal(gy_layout_length(&layout, given, 1), half);
            assert_int_equal(gy_layout_start(&layout, &request, GY_BUFFER_IN, given),
                             in_displacements[other] + (chunk == 0 ? 0 : (row[other] + 1) / 2));
            assert_int_equal(gy_layout_start(&layout, &request, GY_BUFFER_OUT, got),
                             out_displacements[other] +
                                 (chunk == 0 ? 0 : (column[other] + 1) / 2));
            assert_int_equal(gy_plan_block_local(&request, 2, GY_BUFFER_OUT, got),
                             other * 2 + chunk);
        }
        assert_int_equal(gy_layout_length(&layout, (other * P + RANK) * 2, 2), column[other]);
        assert_true(
            gy_layout_is_dense(&layout, &request, GY_BUFFER_OUT, (other * P + RANK) * 2, 2));
    }
    assert_false(gy_layout_is_dense(&layout, &request, GY_BUFFER_IN, RANK * P * 2, 6));
    assert_int_equal(gy_layout_longest(&layout), 4);
}

GY_TEST(parts_of_their_own_length_are_found)
{
    static const int64_t counts[4] = {3, 0, 5, 1}, starts[4] = {0, 3, 3, 8};
    gy_plan_request request = {.operation = GY_OPERATION_ALLGATHER, .ranks = 4};
    gy_layout layout = {.count = 9,
                        .parts = 4,
                        .chunks = 1,
                        .part_unit = 1,
                        .chunk_unit = 1,
                        .counts = counts,
                        .out_displacements = starts};
    assert_int_equal(gy_layout_length(&layout, 0, 4), 9);
    assert_int_equal(gy_layout_longest(&layout), 5);
    assert_int_equal(gy_layout_start(&layout, &request, GY_BUFFER_OUT, 3), 8);
    assert_int_equal(gy_layout_start(&layout, &request, GY_BUFFER_IN, 3), 0);
    assert_true(gy_layout_is_dense(&layout, &request, GY_BUFFER_OUT, 0, 4));
    /* Equal parts of a leg, each in a larger vector. */
    layout = (gy_layout){
        .count = 40, .parts = 4, .chunks = 1, .part_unit = 1, .chunk_unit = 1, .stride = 100};
    assert_int_equal(gy_layout_start(&layout, &request, GY_BUFFER_OUT, 3), 300);
    assert_int_equal(gy_layout_start(&layout, &request, GY_BUFFER_IN, 3), 0);
    assert_false(gy_layout_is_dense(&layout, &request, GY_BUFFER_OUT, 0, 2));
}

GY_TEST(windows_hold_the_same_steps)
{
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        gy_plan_request request = {
            .operation = gy_algorithms[i].operation, .ranks = 7, .root = 2, .chunks = 3};
        for (int rank = 0; rank < 7; rank += 3) {
            gy_steps whole, window;
            gy_steps_init(&whole);
            gy_steps_init(&window);
            assert_ok(gy_plan_rank(&gy_algorithms[i], &request, rank, &whole.sink));
            uint32_t at = 0;
            do {
                assert_ok(gy_plan_window(&gy_algorithms[i], &request, rank, at, 5, &window));
                assert_int_equal(window.sink.first, at);
                for (size_t k = 0; k < window.count; k++, at++) {
                    assert_memory_equal(&window.items[k], &whole.items[at], sizeof(gy_step));
                }
            } while (!window.has_end);
            assert_int_equal(at, whole.count);
            gy_steps_free(&whole);
            gy_steps_free(&window);
        }
    }
}

GY_TEST(lazy_plans_cost_the_same)
{
    static const gy_links links = {.alpha = 1e-6, .beta = 1e-9, .gamma = 1e-10};
    static const gy_volume volume = {.count = 6000, .element_bytes = 4};
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        gy_plan_request request = {
            .operation = gy_algorithms[i].operation, .ranks = 13, .root = 2, .chunks = 2};
        gy_plan *whole = NULL, *lazy = NULL;
        gy_plan_costs expected, got;
        memset(&expected, 0, sizeof(expected));
        memset(&got, 0, sizeof(got));
        assert_ok(gy_plan_new(&gy_algorithms[i], &request, &whole));
        assert_ok(gy_plan_new_lazy(&gy_algorithms[i], &request, 3, &lazy));
        assert_ok(gy_plan_cost_of(whole, &volume, &links, &expected));
        for (int time = 0; time < 2; time++) {
            assert_ok(gy_plan_cost_of(lazy, &volume, &links, &got));
            assert_int_equal(got.rounds, expected.rounds);
            assert_int_equal(got.sent_sum, expected.sent_sum);
            assert_true(got.time_s == expected.time_s);
        }
        gy_plan_free(whole);
        gy_plan_free(lazy);
    }
}

GY_TEST(names_and_parameters_are_read)
{
    const gy_algorithm *row = NULL;
    char parameter[GY_PLAN_PARAMETER];
    assert_ok(gy_algorithm_parse(GY_OPERATION_ALLREDUCE, "ring", &row, parameter));
    assert_string_equal(row->name, "ring");
    assert_string_equal(parameter, "");
    assert_status(gy_algorithm_parse(GY_OPERATION_ALLREDUCE, "rin", &row, parameter), GY_ARG);
    assert_non_null(
        strstr(gy_error_text(), "there are ring, segments[:NUMBER], weighted-ring"));
    assert_status(gy_algorithm_parse(GY_OPERATION_ALLREDUCE, "tree:4", &row, parameter),
                  GY_ARG);
    assert_non_null(strstr(gy_error_text(), "takes no parameter"));
    assert_status(gy_algorithm_parse(GY_OPERATION_ALLREDUCE, "ring:", &row, parameter), GY_ARG);
    assert_ok(gy_algorithm_parse(GY_OPERATION_ALLREDUCE, "servers:4", &row, parameter));
    assert_string_equal(row->name, "servers");
    assert_string_equal(parameter, "4");
    static const char *const wrong[] = {"servers:0",
                                        "servers:x",
                                        "servers:70000",
                                        "hierarchy:flat",
                                        "hierarchy:flat+nothing",
                                        "hierarchy:nothing+ring",
                                        "hierarchy:double-tree+ring"};
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        assert_status(gy_algorithm_parse(GY_OPERATION_ALLREDUCE, wrong[i], &row, parameter),
                      GY_ARG);
    }
    assert_ok(
        gy_algorithm_parse(GY_OPERATION_ALLREDUCE, "hierarchy:flat+ring", &row, parameter));
    assert_string_equal(parameter, "flat+ring");
}

GY_TEST_MAIN(NULL, NULL)
