/* Goal: a plan in shared memory inside groups and another across them is a right plan, and a
 * wrong renaming is told. */
#include "plan/plan.h"

#include "base/base.h"

#include <string.h>

#include "gy_test.h"

enum { GROUP_MAX = 6 };

static uint32_t second_mark; /* what the second part adds to its marks */

/* Two groups: each sums directly, then rank i of one and rank i of the other exchange. */
static gy_status plan_groups(const gy_plan_request *request, int rank, gy_plan_sink *sink)
{
    int32_t mates[GROUP_MAX], pair[2];
    int size = request->ranks / 2, group = rank / size;
    for (int i = 0; i < size; i++) {
        mates[i] = group * size + i;
    }
    pair[0] = rank % size;
    pair[1] = rank % size + size;
    gy_plan_group inside = {.algorithm = gy_algorithm_find(GY_OPERATION_ALLREDUCE, "direct"),
                            .request = {.operation = GY_OPERATION_ALLREDUCE,
                                        .ranks = size,
                                        .in_place = request->in_place},
                            .ranks = mates,
                            .in = {.buffer = GY_BUFFER_IN},
                            .out = {.buffer = GY_BUFFER_OUT}};
    gy_plan_group across = {.algorithm = gy_algorithm_find(GY_OPERATION_ALLREDUCE, "exchange"),
                            .request = {.operation = GY_OPERATION_ALLREDUCE,
                                        .ranks = 2,
                                        .chunks = request->chunks,
                                        .in_place = true},
                            .ranks = pair,
                            .in = {.buffer = GY_BUFFER_OUT},
                            .out = {.buffer = GY_BUFFER_OUT},
                            .stage_slot = 5,
                            .mark = second_mark};
    GY_TRY(gy_plan_part(&inside, rank, sink));
    return gy_plan_part(&across, rank, sink);
}

static const gy_algorithm groups = {.name = "groups",
                                    .operation = GY_OPERATION_ALLREDUCE,
                                    .plan = plan_groups,
                                    .cut = GY_CUT_CHUNKS,
                                    .need = GY_NEED_DIRECT,
                                    .order = GY_ORDER_RANK};

static gy_status check_groups(int size, bool in_place)
{
    gy_plan_request request = {.operation = GY_OPERATION_ALLREDUCE,
                               .ranks = 2 * size,
                               .chunks = size, /* the parts of the direct plan */
                               .in_place = in_place};
    gy_plan *plan = NULL;
    assert_ok(gy_plan_new(&groups, &request, &plan));
    if (size > 1) {
        assert_int_equal(plan->ranks[0].stage_slots, 5 + 2);
    }
    gy_status status = gy_plan_check(plan);
    gy_plan_free(plan);
    return status;
}

GY_TEST(shared_memory_inside_groups_is_right)
{
    second_mark = 2; /* the direct plan posts 1 and 2 */
    for (int size = 1; size <= GROUP_MAX; size++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            gy_status status = check_groups(size, in_place != 0);
            if (status != GY_OK) {
                fail_msg("groups of %d: %s", size, gy_error_text());
            }
        }
    }
}

GY_TEST(marks_that_were_posted_are_told)
{
    second_mark = 1;
    assert_status(check_groups(3, false), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "rank "));
    assert_non_null(strstr(gy_error_text(), "was posted before"));
}

GY_TEST(ranks_outside_have_no_steps)
{
    static const int32_t others[] = {3, 1};
    gy_plan_group part = {.algorithm = gy_algorithm_find(GY_OPERATION_BARRIER, "dissemination"),
                          .request = {.operation = GY_OPERATION_BARRIER, .ranks = 2},
                          .ranks = others};
    gy_steps steps;
    gy_steps_init(&steps);
    assert_ok(gy_plan_part(&part, 2, &steps.sink));
    assert_int_equal(steps.count, 0);
    assert_ok(gy_plan_part(&part, 1, &steps.sink));
    assert_int_equal(steps.count, 2);
    assert_int_equal(steps.items[0].peer, 3);
    gy_steps_free(&steps);
    part.request.ranks = 0;
    part.ranks = NULL;
    assert_ok(gy_plan_part(&part, 1, &steps.sink)); /* nobody is in it */
    gy_steps_free(&steps);
}

GY_TEST_MAIN(NULL, NULL)
