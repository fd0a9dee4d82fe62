/*
 * Goal: keepers of up to nine hosts whose ranks die at any moment, also while a generation is
 * being agreed on: every rank is started anew, all hosts begin each generation, none before all
 * have doors for it, and all end together when all have done all; the same from the same seed.
 */
#include "launch/renewal.h"

#include "sim/sim.h"

#include <string.h>

#include "gy_test.h"
#include "seeds_kit.h"

enum { HOSTS = 9, RANKS = 3, DEATHS = 24 };
static const int64_t step_ns = 700000, deaths_ns = 40000000, limit_ns = 2000000000;

typedef struct word {
    gy_transport_frame_type type;
    uint32_t generation;
    gy_run_end cause;
} word;

typedef struct host {
    struct story *told;
    gy_renewal renewal;
    int node, said;
    bool is_over;
    bool is_dead[RANKS], has_done[RANKS];
    bool was_done[RANKS]; /* it is dead, but had done all */
    uint32_t lost_in[RANKS];
} host;

typedef struct mortal {
    host *at;
    int rank;
} mortal;

typedef struct story {
    gy_sim *sim;
    uint64_t seed;
    gy_random random;
    int size, losses, restarts;
    int started_in[DEATHS + 1]; /* generation: ranks started anew */
    host hosts[HOSTS];
    mortal doomed[DEATHS], workers[HOSTS * RANKS];
} story;

static void expect(const story *told, bool is_true, const char *what)
{
    if (!is_true) {
        fail_msg("GYRE_SEED=%llu: %d hosts: %s", (unsigned long long)told->seed, told->size,
                 what);
    }
}

/* As a keeper does it once a round. */
static void look_at_done(host *at)
{
    bool has_all_done = true;
    for (int rank = 0; rank < RANKS; rank++) {
        has_all_done = has_all_done && at->has_done[rank] && !at->is_dead[rank];
    }
    if (has_all_done) {
        gy_renewal_done(&at->renewal);
    }
}

static void tell(void *arg, int to, gy_transport_frame_type type, uint32_t generation,
                 const gy_run_end *cause)
{
    host *at = arg;
    word said = {.type = type, .generation = generation};
    if (cause != NULL) {
        said.cause = *cause;
    }
    for (int node = 0; node < at->told->size; node++) {
        if (node != at->node && (to < 0 || node == to)) {
            assert_ok(gy_sim_send(at->told->sim, at->node, node, &said, sizeof(said)));
        }
    }
}

static void say(void *arg, const gy_run_end *cause)
{
    host *at = arg;
    expect(at->told, strcmp(cause->text, "lost") == 0, "a loss without its cause");
    at->said++;
}

static bool offer(void *arg, uint32_t generation, const gy_run_end *cause)
{
    const host *at = arg;
    expect(at->told, cause->status == 137, "doors for no cause");
    expect(at->told, !at->is_over, "doors after the end");
    expect(at->told, generation == at->renewal.generation + 1, "doors out of order");
    return true;
}

static void begin(void *arg, uint32_t generation)
{
    host *at = arg;
    story *told = at->told;
    for (int node = 0; node < told->size; node++) {
        expect(told, told->hosts[node].renewal.offered >= generation,
               "a generation without doors");
    }
    for (int rank = 0; rank < RANKS; rank++) {
        if (at->is_dead[rank]) {
            expect(told, at->lost_in[rank] < generation, "started anew where it died");
            at->is_dead[rank] = at->has_done[rank] = at->was_done[rank] = false;
            told->restarts++;
            told->started_in[generation]++;
        }
    }
}

static void over(void *arg)
{
    host *at = arg;
    at->is_over = true;
    for (int node = 0; node < at->told->size; node++) {
        const host *other = &at->told->hosts[node];
        for (int rank = 0; rank < RANKS; rank++) {
            expect(at->told, other->has_done[rank] || other->was_done[rank],
                   "over before all have done all");
        }
    }
}

static const gy_renewal_ops ops = {
    .tell = tell, .say = say, .offer = offer, .begin = begin, .over = over};

static void receive(void *arg, int from, const void *data, size_t size_bytes)
{
    host *at = arg;
    word heard;
    assert_int_equal(size_bytes, sizeof(heard));
    memcpy(&heard, data, sizeof(heard));
    assert_ok(
        gy_renewal_handle(&at->renewal, from, heard.type, heard.generation, &heard.cause));
    look_at_done(at);
}

static void strike(void *arg)
{
    const mortal *who = arg;
    host *at = who->at;
    const gy_run_end cause = {.status = 137, .number = 15, .text = "lost"};
    if (at->is_dead[who->rank] || at->is_over) {
        return;
    }
    at->is_dead[who->rank] = true;
    at->was_done[who->rank] = at->has_done[who->rank];
    at->has_done[who->rank] = false;
    at->lost_in[who->rank] = at->renewal.generation;
    at->told->losses++;
    gy_renewal_lose(&at->renewal, at->renewal.generation, &cause);
}

/* Have all ranks met in this generation? */
static bool have_met(const story *told, uint32_t generation)
{
    for (int node = 0; node < told->size; node++) {
        const host *at = &told->hosts[node];
        for (int rank = 0; rank < RANKS; rank++) {
            if (at->is_dead[rank] || at->renewal.generation != generation) {
                return false;
            }
        }
    }
    return true;
}

/* A rank is done some time after all have met. */
static void work(void *arg)
{
    mortal *who = arg;
    host *at = who->at;
    story *told = at->told;
    if (at->is_over) {
        return;
    }
    if (!at->is_dead[who->rank] && have_met(told, at->renewal.generation) &&
        gy_random_below(&told->random, 8) == 0) {
        at->has_done[who->rank] = true;
        look_at_done(at);
    }
    int64_t later_ns = (int64_t)gy_random_below(&told->random, (uint64_t)step_ns) + 1;
    assert_ok(gy_sim_at(told->sim, gy_sim_now_ns(told->sim) + later_ns, work, who));
}

static uint64_t run_story(uint64_t seed, story *told)
{
    *told = (story){.seed = seed, .random = {.key = seed}};
    told->size = 1 + (int)gy_random_below(&told->random, HOSTS);
    int deaths = (int)gy_random_below(&told->random, DEATHS + 1);
    const gy_sim_options options = {
        .seed = seed,
        .nodes = told->size,
        .link = {.latency_ns = 20000, .jitter_ns = 900000, .bytes_per_second = 1e9}};
    assert_ok(gy_sim_new(&options, &told->sim));
    for (int node = 0; node < told->size; node++) {
        host *at = &told->hosts[node];
        *at = (host){.told = told, .node = node};
        gy_renewal_init(&at->renewal, node, told->size, &ops, at);
        gy_sim_listen(told->sim, node, receive, at);
        for (int rank = 0; rank < RANKS; rank++) {
            mortal *who = &told->workers[node * RANKS + rank];
            *who = (mortal){.at = at, .rank = rank};
            assert_ok(gy_sim_at(told->sim, 1 + node + rank, work, who));
        }
    }
    for (int i = 0; i < deaths; i++) {
        told->doomed[i] =
            (mortal){.at = &told->hosts[gy_random_below(&told->random, (uint64_t)told->size)],
                     .rank = (int)gy_random_below(&told->random, RANKS)};
        int64_t at_ns = (int64_t)gy_random_below(&told->random, (uint64_t)deaths_ns);
        assert_ok(gy_sim_at(told->sim, at_ns, strike, &told->doomed[i]));
    }
    while (gy_sim_now_ns(told->sim) < limit_ns && gy_sim_step(told->sim)) {
    }
    uint64_t digest = gy_sim_digest(told->sim);
    gy_sim_free(told->sim);
    assert_int_equal(gy_alloc_live(), 0);
    return digest;
}

GY_TEST(all_hosts_go_on_together)
{
    static story told;
    uint64_t first = gy_test_seed();
    int seeds = (int)seeds_count(2000), losses = 0, restarts = 0, generations = 0;
    for (int i = 0; i < seeds; i++) {
        (void)run_story(first + (uint64_t)i, &told);
        for (int node = 0; node < told.size; node++) {
            const host *at = &told.hosts[node];
            expect(&told, at->is_over, "never over");
            expect(&told, at->renewal.generation == told.hosts[0].renewal.generation,
                   "generations differ");
            expect(&told, at->said == told.hosts[0].said, "causes are told to some");
        }
        expect(&told, told.hosts[0].said <= told.losses, "more is told than happened");
        for (uint32_t at = 1; at <= told.hosts[0].renewal.generation; at++) {
            expect(&told, told.started_in[at] > 0, "a generation that nobody needed");
        }
        losses += told.losses;
        restarts += told.restarts;
        generations += (int)told.hosts[0].renewal.generation;
    }
    printf("soak: %d seeds: %d ranks lost, %d started anew in %d generations\n", seeds, losses,
           restarts, generations);
    assert_true(restarts > seeds && generations < restarts && losses >= restarts);
}

GY_TEST(a_seed_tells_one_story)
{
    static story one, two;
    uint64_t first = gy_test_seed();
    for (uint64_t seed = first; seed < first + 20; seed++) {
        assert_true(run_story(seed, &one) == run_story(seed, &two));
    }
}

/* Words out of place are refused and change nothing. */
GY_TEST(nonsense_is_refused)
{
    static story told;
    const gy_run_end cause = {.status = 137, .text = "lost"};
    static const struct {
        int node;
        gy_transport_frame_type type;
        uint32_t generation;
    } words[] = {
        {0, GY_FRAME_LOST, 1},  {0, GY_FRAME_NODE, 1},  {0, GY_FRAME_NODE, 0},
        {0, GY_FRAME_READY, 1}, {0, GY_FRAME_TABLE, 1}, {0, GY_FRAME_RENEW, 1},
        {0, GY_FRAME_OVER, 0},  {1, GY_FRAME_TABLE, 1}, {1, GY_FRAME_TABLE, 0},
        {1, GY_FRAME_RENEW, 2}, {1, GY_FRAME_OVER, 1},  {1, GY_FRAME_LOST, 0},
        {1, GY_FRAME_NODE, 1},  {1, GY_FRAME_READY, 0},
    };
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        told.hosts[0] = (host){.told = &told, .node = words[i].node};
        gy_renewal *renewal = &told.hosts[0].renewal;
        gy_renewal_init(renewal, words[i].node, 3, &ops, &told.hosts[0]);
        gy_renewal before = *renewal;
        assert_status(gy_renewal_handle(renewal, words[i].node == 0 ? 1 : 0, words[i].type,
                                        words[i].generation, &cause),
                      GY_FORMAT);
        assert_memory_equal(renewal, &before, sizeof(before));
    }
}

/* Who keeps the others waiting is known by name. */
GY_TEST(the_missing_one_is_named)
{
    static story told;
    const gy_run_end cause = {.status = 137, .text = "lost"};
    const gy_sim_options options = {.seed = 1, .nodes = 4};
    assert_ok(gy_sim_new(&options, &told.sim));
    told.size = 4;
    for (int node = 0; node < 4; node++) {
        told.hosts[node] = (host){.told = &told, .node = node};
        gy_renewal_init(&told.hosts[node].renewal, node, 4, &ops, &told.hosts[node]);
    }
    gy_renewal *first = &told.hosts[0].renewal;
    assert_false(gy_renewal_is_on(first));
    gy_renewal_lose(first, 0, &cause);
    assert_true(gy_renewal_is_on(first));
    assert_int_equal(gy_renewal_missing(first), 1);
    assert_ok(gy_renewal_handle(first, 1, GY_FRAME_NODE, 1, NULL));
    assert_ok(gy_renewal_handle(first, 3, GY_FRAME_NODE, 1, NULL));
    assert_int_equal(gy_renewal_missing(first), 2);
    assert_status(gy_renewal_handle(first, 3, GY_FRAME_NODE, 1, NULL), GY_FORMAT);
    assert_ok(gy_renewal_handle(&told.hosts[2].renewal, 0, GY_FRAME_RENEW, 1, &cause));
    assert_true(gy_renewal_is_on(&told.hosts[2].renewal));
    assert_int_equal(gy_renewal_missing(&told.hosts[2].renewal), 0);
    gy_sim_free(told.sim);
}

GY_TEST_MAIN(NULL, NULL)
