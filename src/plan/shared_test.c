/* Goal: a rank that plans alone does what it does among ranks that share what they found out.
 */
#include "plan/plan.h"

#include "base/base.h"

#include "gy_test.h"

enum { RANKS_MAX = 14, HOSTS_MAX = 5, WAYS = 4 };

typedef struct places {
    gy_topology topology;
    int32_t host_of[RANKS_MAX];
    double between[HOSTS_MAX * HOSTS_MAX];
} places;

/* In blocks, by turns, unevenly, with links of different speed. */
static void place_ranks(places *at, int ranks, int way)
{
    int hosts = GY_MIN(ranks, HOSTS_MAX - way % 2);
    *at = (places){
        .topology = {.host_of = at->host_of, .hosts = hosts, .within = 1, .across = 7}};
    for (int rank = 0; rank < ranks; rank++) {
        int by_turns = rank % hosts;
        at->host_of[rank] = way == 0   ? rank * hosts / ranks
                            : way == 1 ? GY_MIN(rank, hosts - 1)
                                       : by_turns;
    }
    for (int i = 0; i < hosts * hosts; i++) {
        at->between[i] = 2 + i * 3 % 5;
    }
    at->topology.between = way == 3 ? at->between : NULL;
}

static void assert_same_steps(const gy_steps *alone, const gy_steps *shared)
{
    gy_text texts[2] = {{.data = NULL}};
    assert_int_equal(alone->count, shared->count);
    for (size_t i = 0; i < alone->count; i++) {
        gy_step_print(&texts[0], &alone->items[i], 0);
        gy_step_print(&texts[1], &shared->items[i], 0);
    }
    assert_string_equal(gy_text_get(&texts[0]), gy_text_get(&texts[1]));
    gy_text_free(&texts[0]);
    gy_text_free(&texts[1]);
}

GY_TEST(a_rank_alone_plans_the_same)
{
    int plans = 0;
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks += 1 + ranks / 4) {
            for (int way = 0; way < WAYS; way++) {
                places at;
                gy_plan *plan = NULL;
                place_ranks(&at, ranks, way);
                gy_plan_request request = {.operation = gy_algorithms[i].operation,
                                           .ranks = ranks,
                                           .root = way % ranks,
                                           .chunks = 1 + way % 2,
                                           .topology = &at.topology};
                assert_ok(gy_plan_new(&gy_algorithms[i], &request, &plan));
                for (int rank = 0; rank < ranks; rank++) {
                    gy_steps alone;
                    gy_steps_init(&alone);
                    assert_ok(gy_plan_rank(&gy_algorithms[i], &request, rank, &alone.sink));
                    assert_same_steps(&alone, &plan->ranks[rank]);
                    gy_steps_free(&alone);
                }
                gy_plan_free(plan);
                plans++;
            }
        }
    }
    printf("%d plans\n", plans);
}

GY_TEST_MAIN(NULL, NULL)
