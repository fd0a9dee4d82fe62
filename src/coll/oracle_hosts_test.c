/*
 * Goal: over several hosts too, with unlike numbers of ranks, every collective equals the
 * serial oracle: hierarchies of any two plans, weighted rings and trees, what is chosen, every
 * plan of messages; in groups that span hosts, and in groups of one host, which share its
 * memory.
 */
#include "oracle_kit.h"

/* Cases of one set of ranks; under TSan as many sets, but less done by each. */
#ifdef GYRE_TSAN
enum { EACH = 20, ROUND = 8 };
#else
enum { EACH = 20, ROUND = EACH };
#endif

/* Two to five hosts of one to five ranks. */
static void draw_spread(gy_random *random, spread *over)
{
    *over = (spread){.hosts = 2 + (int)gy_random_below(random, 4),
                     .pool_bytes = 16 << 20,
                     .ring_bytes = crew_ring_bytes};
    int left = 13 - over->hosts;
    for (int host = 0; host < over->hosts; host++) {
        int more = (int)gy_random_below(random, (uint64_t)GY_MIN(left, 4) + 1);
        over->counts[host] = 1 + more;
        left -= more;
    }
}

/* As they are; dealt, so that neighbours are on different hosts; by parity and by chance, so
 * that groups span hosts with unlike numbers of ranks; by host. Are all groups on one host
 * each?
 */
static bool draw_groups(gy_random *random, int ranks, round_list *list)
{
    enum { WHOLE, DEALT, BY_PARITY, BY_CHANCE, BY_HOST, WAYS };
    int way = (int)gy_random_below(random, WAYS);
    const int groups[WAYS] = {0, 1, 2, 2, list->over->hosts};
    list->groups = groups[way];
    for (int rank = 0; rank < ranks; rank++) {
        const int colours[WAYS] = {0, 0, rank % 2, (int)gy_random_below(random, 2),
                                   host_of(list->over, rank)};
        list->colours[rank] = colours[way];
        list->keys[rank] = way == BY_PARITY ? -rank : (int)gy_random_below(random, 100);
    }
    return way == BY_HOST;
}

/* How a row that takes messages is asked for on several hosts; for a hierarchy any two others.
 */
static const char *name_over_hosts(gy_random *random, const gy_algorithm *row, char name[128])
{
    const gy_algorithm *checked = NULL;
    char pair[64], parameter[GY_PLAN_PARAMETER];
    if (row == NULL || row->parameter != GY_PARAMETER_PAIR) {
        return row == NULL ? NULL : name_of((size_t)(row - gy_algorithms), random, name);
    }
    do {
        const gy_algorithm *two[2];
        for (int i = 0; i < 2; i++) {
            two[i] = &gy_algorithms[gy_random_below(random, gy_algorithm_count)];
        }
        snprintf(pair, sizeof(pair), "hierarchy:%s+%s", two[0]->name, two[1]->name);
    } while (gy_algorithm_parse(row->operation, pair, &checked, parameter) != GY_OK);
    snprintf(name, 128, "%s=%s", gy_operation_name(row->operation), pair);
    return name;
}

/* Hierarchies, weighted rings and trees, what is chosen, and every other plan of messages. */
GY_TEST(random_cases_over_hosts_equal_the_oracle)
{
    enum { CASES = 5000, TURNS_MAX = 256 };
    long total = gy_test_cases(CASES) / EACH * ROUND;
    gy_random random = {.key = gy_test_seed()};
    case_spec cases[ROUND];
    size_t turns = gy_algorithm_count + 2;
    bool taken[TURNS_MAX] = {false};
    assert_in_range(turns, 1, TURNS_MAX);
    for (long done = 0, round = 0; done < total; done += ROUND, round++) {
        char text[128], hosts[64];
        spread over;
        size_t turn = turn_of(round, turns);
        taken[turn] = true;
        const gy_algorithm *row = turn < gy_algorithm_count ? &gy_algorithms[turn] : NULL;
        draw_spread(&random, &over);
        int ranks = spread_size(&over);
        round_list list = {.cases = cases, .count = ROUND, .over = &over};
        bool is_together = draw_groups(&random, ranks, &list);
        const char *name = name_over_hosts(&random, row, text);
        for (size_t i = 0; i < ROUND; i++) {
            draw_case(&random, ranks, row, &cases[i]);
            const char *forced = row != NULL ? row->name : NULL;
            cases[i].is_rough = is_fold(&cases[i], forced, !is_together);
        }
        const gy_comm_options options = {.algorithm = name};
        int failures = run_round(ranks, &options, &list);
        if (failures != 0) {
            fail_msg("round %ld, hosts of %s ranks%s, algorithm %s: %d failures (%s)", round,
                     spread_text(&over, hosts), list.groups > 0 ? " in groups" : "",
                     name != NULL ? name : "chosen", failures, gy_error_text());
        }
    }
    assert_all_had_turns(taken, turns, (total + ROUND - 1) / ROUND);
}

GY_TEST_MAIN(NULL, NULL)
