/* Goal: every plan is right for 1 to 65 ranks, and every plan that was spoilt by one step is
 * caught. */
#include "plan/plan.h"

#include "base/base.h"
#include "plan/chance_priv.h"

#include <stdio.h>
#include <string.h>

#include "gy_test.h"

enum { RANKS_MAX = 65, HOSTS_MAX = 7 };

/* Where the ranks are, in different ways: in blocks, by turns, unevenly, one host, hosts of
 * one.
 */
typedef struct host_table {
    gy_topology topology;
    int32_t host_of[RANKS_MAX];
    double between[HOSTS_MAX * HOSTS_MAX];
} host_table;

static void place_ranks(host_table *table, int ranks, int way)
{
    int hosts = GY_MIN(ranks, 2 + way % (HOSTS_MAX - 1));
    *table = (host_table){
        .topology = {.host_of = table->host_of, .hosts = hosts, .within = 1, .across = 9}};
    for (int rank = 0; rank < ranks; rank++) {
        int uneven = GY_MIN(rank * rank / ranks, hosts - 1); /* the last has the most */
        int32_t hosts_of[] = {rank * hosts / ranks, rank % hosts, uneven, rank % hosts, 0};
        table->host_of[rank] = hosts_of[way % 5];
    }
    if (way % 5 == 2) { /* every host has one at least */
        for (int rank = 0; rank < hosts; rank++) {
            table->host_of[rank] = rank;
        }
    }
    if (way % 5 == 3) {
        table->topology.between = table->between;
        for (int i = 0; i < hosts * hosts; i++) {
            table->between[i] = 2 + i * 5 % 7;
        }
    }
    table->topology.hosts = way % 5 == 4 ? 1 : hosts;
}

static gy_plan_request request_of(const gy_algorithm *row, int ranks, int variant,
                                  host_table *hosts)
{
    gy_plan_request request = {
        .operation = row->operation,
        .ranks = ranks,
        .root = variant * (ranks - 1) / 2 % ranks,
        .chunks = 1 + variant % 3 * 2,
        .in_place = variant % 2 == 1 && (row->limits & GY_LIMIT_APART) == 0,
        .order = row->order,
        .claims = (row->limits & GY_HAS_CLAIMS) != 0 ? (variant + 1) % 3 : 0};
    if (row->parameter == GY_PARAMETER_NUMBER) {
        snprintf(request.parameter, sizeof(request.parameter), "%d", 1 + variant % 3);
    }
    if (variant % 6 != 0) {
        place_ranks(hosts, ranks, variant + ranks);
        request.topology = &hosts->topology;
    }
    return request;
}

static void assert_right(const gy_algorithm *row, const gy_plan_request *request)
{
    gy_plan *plan = NULL;
    gy_status status = gy_plan_new(row, request, &plan);
    status = status == GY_OK ? gy_plan_check(plan) : status;
    if (status != GY_OK) {
        fail_msg("%s by %s:%s, %d ranks, root %d, %d chunks, %s, %d hosts: %s",
                 gy_operation_name(request->operation), row->name, request->parameter,
                 request->ranks, request->root, request->chunks,
                 request->in_place ? "in place" : "apart",
                 request->topology == NULL ? 1 : request->topology->hosts, gy_error_text());
    }
    gy_plan_free(plan);
}

/* Of how many sizes one is tried: fewest where races are looked for, of which one thread has
 * none.
 */
static int sparseness(void)
{
#ifdef GYRE_TSAN
    return 32;
#else
    return gy_test_cases(8) == 1 ? 8 : 1;
#endif
}

/* All variants for few ranks; for more they take turns, for fewer sizes under a sanitizer. The
 * largest plans, whose checks take most of the time, are a fifth of those, all in a soak. */
GY_TEST(every_plan_is_right)
{
    enum { VARIANTS = 6, LARGE = 32 };
    bool is_slow = sparseness() > 1;
    int checked = 0;
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            for (int variant = 0; variant < VARIANTS; variant++) {
                bool has_turns = !is_slow && ranks > LARGE && getenv("GYRE_SOAK") == NULL;
                int turn =
                    (ranks + variant + (int)i) % ((has_turns ? 5 : sparseness()) * VARIANTS);
                if (ranks > (is_slow ? 5 : 12) && turn != 0) {
                    continue;
                }
                host_table hosts;
                gy_plan_request request = request_of(&gy_algorithms[i], ranks, variant, &hosts);
                assert_right(&gy_algorithms[i], &request);
                checked++;
            }
        }
    }
    printf("%zu rows, 1 to %d ranks: %d plans\n", gy_algorithm_count, RANKS_MAX, checked);
}

GY_TEST(every_root_is_right)
{
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        gy_operation operation = gy_algorithms[i].operation;
        bool has_root = operation == GY_OPERATION_BROADCAST ||
                        operation == GY_OPERATION_REDUCE || operation == GY_OPERATION_GATHER ||
                        operation == GY_OPERATION_SCATTER;
        for (int ranks = 2; has_root && ranks <= 9; ranks++) {
            for (int root = 0; root < ranks; root++) {
                host_table hosts;
                gy_plan_request request =
                    request_of(&gy_algorithms[i], ranks, root % 6, &hosts);
                request.root = root;
                assert_right(&gy_algorithms[i], &request);
            }
        }
    }
}

/* Any plan inside hosts under any plan across them, or a message that says why not. */
GY_TEST(every_pair_of_plans_makes_a_hierarchy)
{
    static const int sizes[] = {1, 2, 3, 6, 9, 14};
    int pairs = 0;
    for (size_t i = 0; i < gy_algorithm_count * gy_algorithm_count; i++) {
        const gy_algorithm *inner = &gy_algorithms[i / gy_algorithm_count];
        const gy_algorithm *outer = &gy_algorithms[i % gy_algorithm_count], *row = NULL;
        bool is_inner = inner->operation == GY_OPERATION_BROADCAST ||
                        inner->operation == GY_OPERATION_BARRIER;
        gy_plan_request request = {.operation = outer->operation};
        char name[3 * GY_PLAN_PARAMETER];
        snprintf(name, sizeof(name), "hierarchy:%s+%s", inner->name, outer->name);
        if (!is_inner || gy_algorithm_find(outer->operation, "hierarchy") == NULL ||
            gy_algorithm_parse(outer->operation, name, &row, request.parameter) != GY_OK) {
            continue;
        }
        pairs++;
        for (size_t s = 0; s < GY_COUNT(sizes); s++) {
            for (int way = 0; way < 5; way++) {
                host_table hosts;
                place_ranks(&hosts, sizes[s], way);
                request.ranks = sizes[s];
                request.root = way * (sizes[s] - 1) / 4;
                request.chunks = 1 + way % 2;
                request.in_place = way % 3 == 1;
                request.topology = &hosts.topology;
                assert_right(row, &request);
            }
        }
    }
    printf("%d pairs\n", pairs);
    assert_true(pairs > 30);
}

typedef enum mutation { DROP, DOUBLE, SWAP, SHIFT, PEER, MUTATION_COUNT } mutation_kind;
static const char *const mutation_names[] = {"dropped", "doubled", "swapped", "shifted",
                                             "sent elsewhere"};

static bool moves_data(const gy_step *step)
{
    return step->kind != GY_STEP_POST && step->kind != GY_STEP_WAIT;
}

static bool uses(const gy_blocks *at)
{
    return at->run > 0 && at->buffer != GY_BUFFER_WIRE;
}

/* The next block, or slot where slots move as they are. */
static void shift(gy_blocks *at)
{
    int32_t *what = at->first == GY_WHOLE ? &at->slot : &at->first;
    (*what)++;
}

/* Change one step of one rank; false: this mutation does not apply to it. */
static bool mutate(gy_steps *steps, size_t at, mutation_kind how, int rank, int ranks)
{
    gy_step *step = &steps->items[at];
    switch (how) {
    case DROP:
        memmove(step, step + 1, (steps->count - at - 1) * sizeof(*step));
        steps->count--;
        return true;
    case DOUBLE:
        memmove(step + 1, step, (steps->count - at) * sizeof(*step));
        steps->count++;
        return true;
    case SWAP: {
        if (at + 1 == steps->count || memcmp(step, step + 1, sizeof(*step)) == 0) {
            return false;
        }
        gy_step first = step[0];
        step[0] = step[1];
        step[1] = first;
        return true;
    }
    case SHIFT:
        if (!moves_data(step) || (!uses(&step->a) && !uses(&step->to))) {
            return false;
        }
        shift(uses(&step->to) && step->kind != GY_STEP_SEND ? &step->to : &step->a);
        return true;
    case PEER: {
        bool is_message = step->kind == GY_STEP_SEND || step->kind == GY_STEP_RECV ||
                          step->kind == GY_STEP_RECV_REDUCE;
        if (ranks < 3) {
            return false;
        }
        if (is_message || (step->kind == GY_STEP_WAIT && step->peer != GY_EVERY)) {
            step->peer = (step->peer + 1) % ranks;
            step->peer = step->peer == rank ? (step->peer + 1) % ranks : step->peer;
            return true;
        }
        if (step->kind == GY_STEP_COPY && step->a.rank != rank) {
            int other = (step->a.rank + 1) % ranks;
            step->a.rank = other == rank ? (other + 1) % ranks : other;
            return true;
        }
        return false;
    }
    case MUTATION_COUNT:
    default:
        return false;
    }
}

/* after[] names steps by index: where steps moved, the names must move along to mean the same.
 */
static void renumber(gy_steps *steps, size_t at, mutation_kind how)
{
    for (size_t i = 0; i < steps->count; i++) {
        for (int k = 0; k < 2; k++) {
            uint32_t *after = &steps->items[i].after[k];
            if (*after == 0) {
                continue;
            }
            size_t named = *after - 1;
            if (how == DROP && named == at) {
                *after = 0;
            } else if (how == DROP && named > at) {
                (*after)--;
            } else if (how == DOUBLE && named > at) {
                (*after)++;
            } else if (how == SWAP && named == at) {
                (*after)++;
            } else if (how == SWAP && named == at + 1) {
                (*after)--;
            }
        }
    }
}

/*
 * The same plan in other words: swapping neighbours that do not touch the same things, doing a
 * copy or a reduction into another place twice, or waiting for what was waited for. Such a
 * mutant may pass; any other that passes is a hole in the checker.
 */
static bool may_be_harmless(const gy_step *step, const gy_step *next, mutation_kind how)
{
    switch (how) {
    case SWAP:
        return next != NULL;
    case DOUBLE:
        return step->kind == GY_STEP_COPY || step->kind == GY_STEP_WAIT ||
               step->kind == GY_STEP_REDUCE;
    case DROP:
        return step->kind == GY_STEP_WAIT || step->kind == GY_STEP_POST;
    case PEER:
        return step->kind == GY_STEP_WAIT;
    case SHIFT:
    case MUTATION_COUNT:
    default:
        return false;
    }
}

static void try_by_chance(const gy_plan *mutant, const gy_plan *right, uint64_t seed)
{
    enum { RUNS = 4 };
    static chance_world expected, got; /* large */
    gy_random random = {.key = seed};
    assert_true(chance_run(&expected, right, &random));
    for (int run = 0; run < RUNS; run++) {
        bool has_ended = chance_run(&got, mutant, &random);
        int rank = has_ended ? chance_differs(&expected, &got) : -1;
        if (!has_ended || rank >= 0) {
            fail_msg("%s by %s, %d ranks: the checker passed a mutant that %s (rank %d)",
                     gy_operation_name(right->request.operation), right->algorithm->name,
                     right->request.ranks, has_ended ? "gives a wrong answer" : "hangs", rank);
        }
    }
}

typedef struct tally_sheet {
    int made, caught, harmless;
} tally_sheet;

static void mutate_one(const gy_algorithm *row, const gy_plan_request *request, int rank,
                       size_t at, mutation_kind how, tally_sheet *tally)
{
    gy_plan *plan = NULL;
    assert_ok(gy_plan_new(row, request, &plan));
    gy_steps *steps = &plan->ranks[rank];
    assert_ok(GY_GROW("test", steps->items, steps->capacity, steps->count + 1));
    gy_step before = steps->items[at];
    gy_step next = at + 1 < steps->count ? steps->items[at + 1] : before;
    if (mutate(steps, at, how, rank, request->ranks)) {
        renumber(steps, at, how);
        tally->made++;
        if (gy_plan_check(plan) == GY_OK) {
            if (!may_be_harmless(&before, at + 1 < steps->count ? &next : NULL, how)) {
                gy_text text = {.data = NULL};
                gy_step_print(&text, &before, rank);
                fail_msg("%s by %s, %d ranks: rank %d step %zu (%s) %s is not caught",
                         gy_operation_name(row->operation), row->name, request->ranks, rank, at,
                         gy_text_get(&text), mutation_names[how]);
            }
            gy_plan *right = NULL;
            assert_ok(gy_plan_new(row, request, &right));
            try_by_chance(plan, right, (uint64_t)tally->made);
            gy_plan_free(right);
            tally->harmless++;
        } else {
            tally->caught++;
            assert_non_null(strstr(gy_error_text(), "rank "));
            assert_non_null(strstr(gy_error_text(), " step "));
        }
    }
    gy_plan_free(plan);
}

GY_TEST(every_mutant_is_caught)
{
    static const int sizes[] = {2, 3, 5, 3};
    size_t size_count = gy_test_cases(8) == 1 ? 2 : GY_COUNT(sizes);
    for (size_t i = 0; i < gy_algorithm_count; i++) {
        tally_sheet tally = {0, 0, 0};
        for (size_t s = 0; s < size_count; s++) {
            host_table hosts;
            gy_plan_request request =
                request_of(&gy_algorithms[i], sizes[s], (int)s % 2, &hosts);
            bool has_segments = gy_algorithms[i].cut == GY_CUT_SEGMENTS;
            request.chunks = s == 3 && !has_segments ? 6 : 1; /* so that slots are used again */
            gy_plan *plan = NULL;
            assert_ok(gy_plan_new(&gy_algorithms[i], &request, &plan));
            for (int rank = 0; rank < sizes[s]; rank++) {
                for (size_t at = 0; at < plan->ranks[rank].count; at++) {
                    for (mutation_kind how = DROP; how < MUTATION_COUNT; how++) {
                        mutate_one(&gy_algorithms[i], &request, rank, at, how, &tally);
                    }
                }
            }
            gy_plan_free(plan);
        }
        printf("%s by %s: %d mutants, %d caught, %d harmless\n",
               gy_operation_name(gy_algorithms[i].operation), gy_algorithms[i].name, tally.made,
               tally.caught, tally.harmless);
        assert_true(tally.caught > 0);
    }
}

/* The runs by chance must themselves be able to see what a missing wait does. */
GY_TEST(chance_sees_a_missing_wait)
{
    static chance_world expected, got;
    for (size_t at = 1; at < 5; at += 3) { /* the first and the last wait */
        const gy_algorithm *row = gy_algorithm_find(GY_OPERATION_ALLREDUCE, "direct");
        gy_plan_request request = {
            .operation = GY_OPERATION_ALLREDUCE, .ranks = 2, .in_place = true};
        gy_plan *right = NULL, *wrong = NULL;
        assert_ok(gy_plan_new(row, &request, &right));
        assert_ok(gy_plan_new(row, &request, &wrong));
        gy_steps *steps = &wrong->ranks[0];
        assert_int_equal(steps->items[at].kind, GY_STEP_WAIT);
        assert_true(mutate(steps, at, DROP, 0, 2));
        gy_random random = {.key = at};
        assert_true(chance_run(&expected, right, &random));
        int wrong_runs = 0;
        for (int run = 0; run < 200; run++) {
            assert_true(chance_run(&got, wrong, &random));
            wrong_runs += chance_differs(&expected, &got) >= 0;
        }
        assert_true(wrong_runs > 5);
        gy_plan_free(right);
        gy_plan_free(wrong);
    }
}

GY_TEST(requests_are_checked)
{
    const gy_algorithm *ring = gy_algorithm_find(GY_OPERATION_ALLREDUCE, "ring");
    assert_non_null(ring);
    assert_null(gy_algorithm_find(GY_OPERATION_ALLREDUCE, "dissemination"));
    gy_plan *plan = NULL;
    gy_plan_request bad = {.operation = GY_OPERATION_ALLREDUCE, .ranks = 0};
    assert_status(gy_plan_new(ring, &bad, &plan), GY_ARG);
    bad = (gy_plan_request){.operation = GY_OPERATION_BARRIER, .ranks = 2};
    assert_status(gy_plan_new(ring, &bad, &plan), GY_ARG);
    bad = (gy_plan_request){.operation = GY_OPERATION_ALLREDUCE, .ranks = 2, .root = 2};
    assert_status(gy_plan_new(ring, &bad, &plan), GY_ARG);
    bad = (gy_plan_request){
        .operation = GY_OPERATION_ALLREDUCE, .ranks = 2, .order = GY_ORDER_RANK};
    assert_status(gy_plan_new(ring, &bad, &plan), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "order"));
}

GY_TEST(memory_that_ends_is_a_failure)
{
    const gy_algorithm *row = gy_algorithm_find(GY_OPERATION_ALLGATHER, "hierarchy");
    host_table hosts;
    gy_plan_request request = request_of(row, 4, 1, &hosts);
    int64_t live = gy_alloc_live();
    gy_status status = GY_NOMEM;
    for (int n = 1; status == GY_NOMEM; n++) {
        gy_plan *plan = NULL;
        gy_alloc_fail_after(n);
        status = gy_plan_new(row, &request, &plan);
        status = status == GY_OK ? gy_plan_check(plan) : status;
        gy_alloc_fail_after(0);
        gy_plan_free(plan);
        assert_int_equal(gy_alloc_live(), live);
    }
    assert_int_equal(status, GY_OK);
}

GY_TEST_MAIN(NULL, NULL)
