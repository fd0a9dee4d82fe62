/*
 * Goal: what the literature says of each algorithm is what the model reads off its plan:
 * rounds, bytes, fan-in. n bytes a vector, p ranks, links of 1/beta bytes a second.
 */
#include "plan/plan.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

#include "price_kit.h"

static const gy_links links = {.alpha = 1e-6, .beta = 1e-9, .gamma = 1e-10};

/* Vectors that all cuts divide. */
enum { UNIT = 840 * 64 };

typedef struct case_of {
    gy_operation operation;
    const char *name;
    int ranks, chunks;
    int64_t bytes;
    const gy_topology *topology;
} case_of;

static gy_plan_costs price_of(const case_of *of)
{
    const gy_algorithm *row = NULL;
    gy_plan_request request = {.operation = of->operation,
                               .ranks = of->ranks,
                               .chunks = of->chunks,
                               .topology = of->topology};
    gy_plan_costs price = {.rounds = 0};
    gy_plan *plan = NULL;
    assert_ok(gy_algorithm_parse(of->operation, of->name, &row, request.parameter));
    request.in_place = (row->limits & GY_LIMIT_APART) == 0;
    assert_ok(gy_plan_new_lazy(row, &request, of->ranks > 300 ? 16 : 0, &plan));
    assert_ok(gy_plan_cost_of(plan, &(gy_volume){.count = of->bytes, .element_bytes = 1},
                              &links, &price));
    gy_plan_free(plan);
    return price;
}

static gy_plan_costs allreduce(const char *name, int ranks, int64_t bytes)
{
    return price_of(&(case_of){
        .operation = GY_OPERATION_ALLREDUCE, .name = name, .ranks = ranks, .bytes = bytes});
}

static gy_plan_costs cost(gy_operation operation, const char *name, int ranks, int64_t bytes)
{
    return price_of(
        &(case_of){.operation = operation, .name = name, .ranks = ranks, .bytes = bytes});
}

static bool is_power(int p)
{
    return (p & (p - 1)) == 0;
}

/* Lecture A: two messages deep, N P at the server, fan-in P. Lecture C: max(n/b, pn/(kb)). */
GY_TEST(servers_cost_what_lectures_a_and_c_say)
{
    for (int p = 2; p <= 64; p++) {
        int64_t n = UNIT;
        gy_plan_costs price = allreduce("flat", p, n);
        assert_int_equal(price.depth, 2);
        assert_int_equal(price.fan_in_max, p - 1);
        assert_int_equal(price.received_max, (p - 1) * n);
        assert_int_equal(price.sent_max, (p - 1) * n);
        assert_int_equal(price.sent_sum, 2 * (int64_t)(p - 1) * n);
        for (int k = 2; k <= 8 && k <= p; k++) {
            char name[32];
            snprintf(name, sizeof(name), "servers:%d", k);
            price = allreduce(name, p, n);
            assert_int_equal(price.depth, 2);
            /* Its share of all others, and the shares of the other servers back. */
            assert_int_equal(price.received_max, (p - 1) * (n / k) + (k - 1) * (n / k));
            assert_int_equal(price.sent_sum, 2 * (int64_t)(p - 1) * n);
            double bound = fmax((double)n * (k - 1) / k, (double)(p - 1) * (double)n / k);
            assert_true(price.time_s >= 2 * bound * links.beta);
            assert_true(price.time_s <= 4 * bound * links.beta + 4 * (p + k) * links.alpha);
        }
    }
    /* 256 workers, 3 steps a second of 97.5 MB: 74.88 GB/s into the server. (The lecture's 73.1
     * divides megabytes by 1024.) */
    gy_plan_costs price = allreduce("flat", 257, 97500000);
    assert_near(3 * (double)price.received_max, 74.88e9, 1e-12);
}

/* Lecture A: N (P-1) bytes a machine; P (P-1) rounds one by one, P-1 where rounds overlap. */
GY_TEST(decentralised_plans_cost_what_lecture_a_says)
{
    for (int p = 2; p <= 40; p++) {
        int64_t n = UNIT;
        gy_plan_costs price = allreduce("one-by-one", p, n);
        assert_int_equal(price.rounds, p * (p - 1));
        assert_int_equal(price.sent_max, (p - 1) * n);
        price = allreduce("pipeline", p, n);
        assert_int_equal(price.rounds, p - 1);
        assert_int_equal(price.sent_max, (p - 1) * n);
        price = allreduce("copies", p, n); /* lecture C: (p-1) n in 1 step */
        assert_int_equal(price.depth, 1);
        assert_int_equal(price.sent_max, (p - 1) * n);
        assert_int_equal(price.fan_in_max, p - 1);
        price = allreduce("partitioned", p, (int64_t)p * 1000);
        assert_int_equal(price.depth, 2);
        assert_int_equal(price.sent_max, 2 * (p - 1) * 1000);
        assert_int_equal(price.received_max, 2 * (p - 1) * 1000);
    }
}

/* Thakur et al. 2005; lecture C: n log2 p bytes in log2 p steps, 2n in 2 log2 p steps. */
GY_TEST(doubling_and_halving_cost_log_p_rounds)
{
    for (int p = 2; p <= 64; p++) {
        int64_t n = (int64_t)p * 64 * 10;
        int log = log2_up(p), extra = is_power(p) ? 0 : 1;
        gy_plan_costs price = allreduce("doubling", p, n);
        /* Beside a power of two: one round before and one after. */
        assert_int_equal(price.rounds, extra != 0 ? log + 1 : log);
        assert_int_equal(price.sent_max, log * n);
        price = allreduce("halving", p, n);
        assert_int_equal(price.rounds, 2 * log);
        if (extra == 0) {
            double part = (double)(p - 1) / p * (double)n;
            assert_int_equal(price.sent_max, 2 * (int64_t)(p - 1) * (n / p));
            assert_near(price.time_s,
                        2 * log * links.alpha + part * (2 * links.beta + links.gamma), 1e-9);
            price = cost(GY_OPERATION_REDUCE_SCATTER, "halving", p, n);
            assert_int_equal(price.rounds, log);
            assert_int_equal(price.sent_max, (p - 1) * (n / p));
            price = cost(GY_OPERATION_ALLGATHER, "doubling", p, n);
            assert_int_equal(price.rounds, log);
            assert_int_equal(price.sent_max, (p - 1) * (n / p));
        }
    }
}

/* Each rank beside the k that double sends one vector and is sent one. */
GY_TEST(folding_sends_fewer_messages)
{
    for (int p = 2; p <= 64; p++) {
        for (int k = 1; k <= 8 && k <= p; k *= 2) {
            char name[32];
            int64_t n = UNIT, log = log2_up(k), guests = (p - 1) / k;
            snprintf(name, sizeof(name), "folded:%d", k);
            gy_plan_costs price = allreduce(name, p, n);
            assert_int_equal(price.sent_sum, (2 * (p - k) + k * log) * n);
            assert_int_equal(price.sent_max, GY_MAX(guests + log, (int64_t)1) * n);
            assert_int_equal(price.received_max, GY_MAX(guests + log, (int64_t)1) * n);
        }
    }
}

/* Bruck et al. 1997; Thakur et al. 2005. */
GY_TEST(all_to_all_and_allgather_cost_what_bruck_says)
{
    for (int p = 2; p <= 48; p++) {
        int64_t block = 100;
        int log = log2_up(p);
        gy_plan_costs price = cost(GY_OPERATION_ALLGATHER, "bruck", p, p * block);
        assert_int_equal(price.rounds, log);
        assert_int_equal(price.sent_max, (p - 1) * block);
        price = cost(GY_OPERATION_ALLTOALL, "bruck", p, (int64_t)p * p * block);
        int64_t moved = 0; /* in each round those with its bit in their distance */
        for (int i = 1; i < p; i++) {
            moved += __builtin_popcount((unsigned)i);
        }
        assert_int_equal(price.rounds, log);
        assert_int_equal(price.sent_max, moved * block);
        if (is_power(p)) {
            assert_int_equal(price.sent_max, (int64_t)p / 2 * log * block);
        }
        price = cost(GY_OPERATION_ALLTOALL, "flat", p, (int64_t)p * p * block);
        assert_int_equal(price.rounds, p - 1);
        assert_int_equal(price.depth, 1);
        assert_int_equal(price.sent_max, (p - 1) * block);
        price = cost(GY_OPERATION_ALLTOALL, "pairwise", p, (int64_t)p * p * block);
        assert_int_equal(price.sent_max, (p - 1) * block);
        assert_true(price.rounds >= p - 1 && price.rounds <= p); /* one meets itself */
    }
}

GY_TEST(gather_scatter_and_scans_cost_what_is_said)
{
    for (int p = 2; p <= 64; p++) {
        int64_t part = 100, n = p * part;
        int log = log2_up(p);
        for (int i = 0; i < 2; i++) {
            gy_operation operation = i == 0 ? GY_OPERATION_GATHER : GY_OPERATION_SCATTER;
            gy_plan_costs price = cost(operation, "tree", p, n);
            assert_int_equal(price.rounds, log);
            assert_int_equal(i == 0 ? price.received_max : price.sent_max, (p - 1) * part);
            price = cost(operation, "flat", p, n);
            assert_int_equal(price.rounds, p - 1);
            assert_int_equal(price.depth, 1);
            assert_int_equal(price.sent_sum, (p - 1) * part);
            operation = i == 0 ? GY_OPERATION_SCAN : GY_OPERATION_EXCLUSIVE_SCAN;
            price = cost(operation, "doubling", p, n);
            assert_int_equal(price.rounds, log);
            price = cost(operation, "chain", p, n);
            assert_int_equal(price.rounds, p - 1);
            assert_int_equal(price.sent_sum, (p - 1) * n);
            price = price_of(&(case_of){.operation = operation,
                                        .name = "chain",
                                        .ranks = p,
                                        .chunks = 8,
                                        .bytes = n * 8});
            assert_int_equal(price.rounds, p - 1 + 7);
        }
    }
}

/* Sanders, Speck, Traeff 2009: nobody sends or takes more than n bytes each way. */
GY_TEST(two_trees_share_the_load)
{
    for (int p = 2; p <= 65; p++) {
        int64_t n = UNIT;
        gy_plan_costs price = cost(GY_OPERATION_BROADCAST, "double-tree", p, n);
        assert_true(price.sent_max <= n);
        assert_true(price.received_max == n);
        assert_true(price.depth <= 2 * log2_up(p) + 2);
        price = cost(GY_OPERATION_REDUCE, "double-tree", p, n);
        assert_true(price.sent_max <= n && price.received_max <= n);
    }
}

/* The same: k chunks a tree follow each other, so that all take about n b; 2 n b for both ways.
 * The paper's schedule takes 2 (k + h) rounds; here messages that meet on a link cost some
 * more. */
GY_TEST(two_trees_keep_their_links_busy)
{
    static const gy_operation operations[] = {GY_OPERATION_BROADCAST, GY_OPERATION_REDUCE,
                                              GY_OPERATION_ALLREDUCE};
    for (int p = 2; p <= 256; p += 1 + p / 2) {
        for (int k = 16; k <= (gy_test_cases(8) == 1 ? 64 : 256); k *= 4) {
            for (size_t i = 0; i < GY_COUNT(operations); i++) {
                int64_t n = INT64_C(1) << 24;
                int ways = operations[i] == GY_OPERATION_ALLREDUCE ? 2 : 1;
                gy_plan_costs price = price_of(&(case_of){.operation = operations[i],
                                                          .name = "double-tree",
                                                          .ranks = p,
                                                          .chunks = k,
                                                          .bytes = n});
                double chunk = (double)n / (2 * k);
                double round = links.alpha + chunk * (links.beta + links.gamma);
                assert_true(price.time_s <= (ways * 2 * k + 4 * log2_up(p) + 2) * round);
                assert_true(price.time_s >= (double)n * links.beta);
            }
        }
    }
}

/* While one segment is summed the next is on its way. */
GY_TEST(segments_hide_the_arithmetic)
{
    int64_t n = INT64_C(1) << 26;
    gy_plan_costs whole = allreduce("ring", 8, n), cut = allreduce("segments:8", 8, n);
    assert_int_equal(cut.sent_max, whole.sent_max);
    assert_true(cut.time_s < whole.time_s);
    assert_true(cut.time_s > (double)whole.sent_max * links.beta);
}

enum { HOSTS = 4, RANKS = 32 };

/* Ranks dealt to hosts by turns: the worst for a plan that knows nothing of hosts. */
GY_TEST(hosts_are_crossed_as_little_as_can_be)
{
    int32_t host_of[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        host_of[rank] = rank % HOSTS;
    }
    const gy_topology topology = {
        .host_of = host_of, .hosts = HOSTS, .within = 1, .across = 10};
    int64_t n = (int64_t)UNIT * 64;
    case_of of = {.operation = GY_OPERATION_ALLREDUCE,
                  .name = "ring",
                  .ranks = RANKS,
                  .bytes = n,
                  .topology = &topology};
    int64_t each =
        2 * (int64_t)(RANKS - 1) * (n / RANKS); /* what any ring sends over any of its links */
    assert_int_equal(price_of(&of).across_sum, RANKS * each);
    of.name = "weighted-ring";
    assert_int_equal(price_of(&of).across_sum, HOSTS * each);
    assert_int_equal(price_of(&of).across_max, each);
    of.name = "hierarchy:flat+ring"; /* lecture A: a server inside, a ring across */
    assert_int_equal(price_of(&of).across_max, 2 * (int64_t)(HOSTS - 1) * (n / HOSTS));
    assert_int_equal(price_of(&of).across_sum, (int64_t)HOSTS * 2 * (HOSTS - 1) * (n / HOSTS));
    of.name = "tree"; /* its edges over bits 0 and 1 are between hosts */
    assert_int_equal(price_of(&of).across_sum, 2 * (int64_t)(RANKS / 2 + RANKS / 4) * n);
    of.name = "hierarchy:tree+tree";
    assert_int_equal(price_of(&of).across_sum, 2 * (int64_t)(HOSTS - 1) * n);

    of.operation = GY_OPERATION_BROADCAST;
    double plain = price_of(&of).time_s;
    of.name = "weighted-tree";
    gy_plan_costs told = price_of(&of);
    assert_int_equal(told.across_sum,
                     (int64_t)(HOSTS - 1) * n); /* each other host is told once */
    assert_true(told.time_s < plain);
    of.topology = NULL; /* links of one speed: the binomial tree */
    assert_int_equal(price_of(&of).rounds, log2_up(RANKS));
}

GY_TEST(as_many_ranks_as_there_can_be_are_priced)
{
    int ranks = gy_test_cases(8) == 1 ? (int)gy_test_serial_cases(32768) : GY_PLAN_RANKS;
    printf("%d ranks\n", ranks);
    gy_plan_costs price = allreduce("tree", ranks, 1000);
    assert_int_equal(price.rounds, 2 * log2_up(ranks));
    price = cost(GY_OPERATION_BARRIER, "dissemination", ranks, 0);
    assert_int_equal(price.rounds, log2_up(ranks));
    static int32_t host_of[GY_PLAN_RANKS];
    for (int rank = 0; rank < ranks; rank++) {
        host_of[rank] = rank % (ranks / 16);
    }
    const gy_topology topology = {
        .host_of = host_of, .hosts = ranks / 16, .within = 1, .across = 10};
    case_of of = {.operation = GY_OPERATION_BROADCAST,
                  .ranks = ranks,
                  .bytes = 1000,
                  .topology = &topology};
    static const char *const names[] = {"hierarchy", "weighted-tree"};
    for (size_t i = 0; i < GY_COUNT(names); i++) { /* planning all ranks is not p^2 */
        of.name = names[i];
        price = price_of(&of);
        assert_int_equal(price.across_sum, (int64_t)(ranks / 16 - 1) * 1000);
    }
    price = allreduce("ring", 512, 51200);
    assert_int_equal(price.rounds, 2 * 511);
}

GY_TEST_MAIN(NULL, NULL)
