/* Goal: the simulator's time is the model's where nothing is shared, contention and failures do
 * what they say, and a run is a function of its seed. */
#include "plan/agenda_priv.h"
#include "plan/plan.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

static const gy_links links = {.alpha = 1e-6, .beta = 1e-9, .gamma = 1e-10};

GY_TEST(agenda_is_sorted_and_fair)
{
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 200; round++) {
        gy_agenda agenda = {.last = 0};
        gy_plan_event event = {.at = 0};
        double last = 0;
        int32_t last_number = -1;
        int added = 0, taken = 0;
        while (taken < 500) {
            if (added < 500 && (added == taken || gy_random_below(&random, 2) == 0)) {
                /* Few different times, so that many are equal; some far away. */
                double later = (double)gy_random_below(&random, 4) *
                               (gy_random_below(&random, 9) == 0 ? 1e9 : 1e-7);
                assert_ok(gy_agenda_add(
                    &agenda, &(gy_plan_event){.at = last + later, .first = added++}));
                continue;
            }
            assert_int_equal(gy_agenda_take(&agenda, &event), GY_OK);
            assert_true(event.at > last || (event.at == last && event.first > last_number) ||
                        taken == 0);
            last = event.at;
            last_number = event.first;
            taken++;
        }
        assert_int_equal(gy_agenda_take(&agenda, &event), GY_AGAIN);
        gy_agenda_fini(&agenda);
    }
    assert_int_equal(gy_alloc_live(), 0);
}

typedef struct both_spec {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_links links;
    int64_t count;
} both_spec;

/* How far apart model and simulator are, as a part of the model's time; -1: the algorithm does
 * not take the request. */
static double difference(const both_spec *spec)
{
    const gy_volume volume = {.count = spec->count, .element_bytes = 4};
    gy_fault_model calm = {.seed = 1};
    gy_plan *plan = NULL;
    gy_plan_costs price;
    gy_simulation_result result;
    gy_status status = gy_plan_new(spec->algorithm, &spec->request, &plan);
    if (status == GY_ARG) {
        return -1;
    }
    assert_ok(status);
    assert_ok(gy_plan_cost_of(plan, &volume, &spec->links, &price));
    gy_plan_free(plan);
    assert_ok(gy_plan_run_simulated(&(gy_simulation){.algorithm = spec->algorithm,
                                                     .request = &spec->request,
                                                     .volume = &volume,
                                                     .links = &spec->links,
                                                     .faults = &calm},
                                    &result));
    if (spec->algorithm->need == GY_NEED_MESSAGES) {
        assert_true(result.bytes == (double)price.sent_sum);
    }
    double apart = fabs(result.time_s - price.time_s);
    if (apart > 0.01 * price.time_s) {
        printf("%s by %s, %d ranks on %d hosts, %d chunks, %lld elements: simulated %.9g s, "
               "the model says %.9g s\n",
               gy_operation_name(spec->request.operation), spec->algorithm->name,
               spec->request.ranks, spec->request.topology->hosts, spec->request.chunks,
               (long long)spec->count, result.time_s, price.time_s);
    }
    return apart > 0 ? apart / price.time_s : 0;
}

enum { RANKS_MOST = 24 };

/* Each pair of hosts has its own alpha, so that no two messages reach a link at one moment: who
 * is served first is then no matter of taste. */
GY_TEST(time_is_the_models)
{
    gy_random random = {.key = gy_test_seed()};
    int cases = 0, apart = 0, refused = 0;
    const int most = (int)GY_MIN((long)RANKS_MOST, gy_test_cases(4L * RANKS_MOST));
    for (size_t row = 0; row < gy_algorithm_count; row++) {
        for (int p = 1; p <= most; p++) {
            for (int kind = 0; kind < 4; kind++) {
                int32_t host_of[RANKS_MOST];
                double alphas[RANKS_MOST * RANKS_MOST];
                const int hosts = kind == 3 ? GY_MIN(p, 3) : p;
                const gy_topology topology = {
                    .host_of = host_of, .hosts = hosts, .within = 1, .across = 2};
                const both_spec spec = {
                    .algorithm = &gy_algorithms[row],
                    .request = {.operation = gy_algorithms[row].operation,
                                .ranks = p,
                                .chunks = kind == 1 ? 4 : 1,
                                .topology = &topology},
                    .links = {.alpha = 1e-6,
                              .beta = 1e-9,
                              .gamma = 1e-10,
                              .alpha_between = alphas},
                    .count = kind == 2 ? 16 : (int64_t)p * 4096,
                };
                for (int rank = 0; rank < p; rank++) {
                    host_of[rank] = rank * hosts / p;
                }
                for (int i = 0; i < hosts * hosts; i++) {
                    alphas[i] = 1e-6 * (1 + gy_random_unit(&random));
                }
                double part = difference(&spec);
                assert_true(part < (kind == 3 ? 0.5 : 0.01));
                apart += part > 0.01;
                refused += part < 0;
                cases++;
            }
        }
    }
    /* Ranks of one host share their alphas. */
    printf("%d cases, %d refused, %d where it matters who is served first\n", cases, refused,
           apart);
    assert_true(apart <= cases / 50 && refused <= cases / 4);
}

GY_TEST(even_links_cost_what_the_formulas_say)
{
    for (int p = 2; p <= 64; p++) {
        double n = 4000.0 * p;
        gy_simulation_result result;
        gy_plan_query query = {.operation = "allreduce",
                               .algorithm = "ring",
                               .ranks = p,
                               .bytes = (int64_t)n,
                               .links = links};
        assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.seed = 1}, &result));
        double expected = 2 * (p - 1) * links.alpha + 2 * (p - 1) * n / p * links.beta +
                          (p - 1) * n / p * links.gamma;
        assert_true(fabs(result.time_s - expected) < 1e-9 * expected);
    }
}

static gy_plan_query ring_query(int ranks)
{
    return (gy_plan_query){.operation = "allreduce",
                           .algorithm = "ring",
                           .ranks = ranks,
                           .bytes = 1000000,
                           .links = links};
}

GY_TEST(seeds_decide_what_is_lost)
{
    gy_plan_query query = ring_query(16);
    gy_fault_model faults = {.seed = 7, .loss = 0.05, .retry_s = 1e-4};
    gy_simulation_result calm, one, again, other;
    assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.seed = 7}, &calm));
    assert_ok(gy_plan_simulate(&query, &faults, &one));
    assert_ok(gy_plan_simulate(&query, &faults, &again));
    faults.seed = 8;
    assert_ok(gy_plan_simulate(&query, &faults, &other));
    assert_memory_equal(&one, &again, sizeof(one));
    assert_true(one.digest != other.digest && one.digest != calm.digest);
    assert_true(one.lost > 5 && one.lost < 60 && calm.lost == 0);
    assert_true(one.time_s > calm.time_s + 1e-4);
    faults.loss = 1;
    assert_status(gy_plan_simulate(&query, &faults, &one), GY_PEER);
    assert_non_null(strstr(gy_error_text(), "rank 0 lost a message to rank 1 16 times"));
}

/* Whenever a rank fails, all that did not end have it to blame. */
GY_TEST(failed_rank_is_named)
{
    gy_random random = {.key = gy_test_seed()};
    int failed = 0, fine = 0;
    for (int round = 0; round < 300; round++) {
        int ranks = 2 + (int)gy_random_below(&random, 30);
        gy_plan_query query = ring_query(ranks);
        gy_simulation_result result, calm;
        query.algorithm = round % 2 == 0 ? "ring" : "tree";
        assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.seed = 1}, &calm));
        const gy_rank_failure failure = {.rank = (int)gy_random_below(&random, (uint64_t)ranks),
                                         .at_s = calm.time_s * 1.2 * gy_random_unit(&random)};
        gy_status status = gy_plan_simulate(
            &query, &(gy_fault_model){.failures = &failure, .failure_count = 1}, &result);
        char name[64];
        snprintf(name, sizeof(name), "rank %d failed at", failure.rank);
        if (status == GY_OK) {
            assert_int_equal(result.ended, ranks);
            assert_true(result.time_s == calm.time_s);
            fine++;
        } else if (status != GY_PEER || strstr(gy_error_text(), name) != gy_error_text()) {
            fail_msg("round %d: %s, expected %s", round, gy_error_text(), name);
        } else {
            assert_true(result.ended < ranks);
            failed++;
        }
    }
    printf("%d failed, %d ended before\n", failed, fine);
    assert_true(failed > 100 && fine > 20);
}

GY_TEST(shared_uplinks_are_shared)
{
    /* Ranks 4 to 7 of the second host send a quarter of a vector each to rank 0. */
    gy_plan_query query = {.operation = "gather",
                           .algorithm = "flat",
                           .ranks = 8,
                           .hosts = 2,
                           .bytes = 8000000,
                           .links = links};
    gy_simulation_result apart, shared;
    assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.seed = 1}, &apart));
    assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.uplink_beta = 4e-9}, &shared));
    /* The root's own link takes seven megabytes; the uplink four, at a quarter of the speed. */
    assert_true(fabs(apart.time_s - (1e-6 + 7e-3 + 1e-4)) < 1e-5 ||
                fabs(apart.time_s - (1e-6 + 7e-3)) < 1.1e-4);
    assert_true(shared.time_s > 16e-3 && shared.time_s < 17.2e-3);
    /* A ring crosses each uplink once a round: nothing to share. */
    query.operation = "allreduce";
    query.algorithm = "ring";
    assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.seed = 1}, &apart));
    assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.uplink_beta = 1e-9}, &shared));
    assert_true(fabs(apart.time_s - shared.time_s) < 1e-9);
}

/* Logarithmic in rounds, and planned in as many steps. */
static bool is_logarithmic(const char *name)
{
    static const char *const names[] = {"tree", "double-tree", "doubling", "halving",
                                        "dissemination"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

GY_TEST(tens_of_thousands_of_ranks)
{
    const int many = (int)GY_MIN((long)GY_PLAN_RANKS, gy_test_serial_cases(GY_PLAN_RANKS));
    for (size_t row = 0; row < gy_algorithm_count; row++) {
        const gy_algorithm *algorithm = &gy_algorithms[row];
        gy_plan_query query = {.operation = gy_operation_name(algorithm->operation),
                               .algorithm = algorithm->name,
                               .ranks = many,
                               .bytes = 1 << 20,
                               .links = links};
        gy_simulation_result result;
        if (!is_logarithmic(algorithm->name)) {
            continue;
        }
        assert_ok(gy_plan_simulate(&query, &(gy_fault_model){.seed = 1}, &result));
        assert_int_equal(result.ended, many);
        printf("%s by %s: %lld messages, %.6g s\n", query.operation, query.algorithm,
               (long long)result.messages, result.time_s);
    }
    int ranks = getenv("GYRE_SOAK") != NULL ? 8192 : (int)gy_test_cases(1024);
    gy_plan_query ring = ring_query(ranks);
    gy_simulation_result result;
    assert_ok(gy_plan_simulate(&ring, &(gy_fault_model){.seed = 1}, &result));
    assert_true(result.messages == 2 * (int64_t)ranks * (ranks - 1));
}

GY_TEST_MAIN(NULL, NULL)
