/* Goal: a seed fixes everything that happens; timers, links and faults do what they were asked
 * to. */
#include "sim/sim.h"

#include <string.h>

#include "gy_test.h"

enum { NODES = 5, LOG = 4096 };

typedef struct world {
    gy_sim *sim;
    int got[LOG], from[LOG];
    int64_t at_ns[LOG];
    int count;
} world;

typedef struct mailbox {
    world *world;
    int node;
} mailbox;

static void note_message(void *arg, int from, const void *data, size_t size_bytes)
{
    const mailbox *box = arg;
    world *all = box->world;
    assert_int_equal(size_bytes, sizeof(int));
    assert_true(all->count < LOG);
    memcpy(&all->got[all->count], data, sizeof(int));
    all->from[all->count] = from;
    all->at_ns[all->count++] = gy_sim_now_ns(all->sim);
}

static gy_sim *new_sim(uint64_t seed, gy_sim_link link)
{
    gy_sim *sim = NULL;
    assert_ok(gy_sim_new(&(gy_sim_options){.seed = seed, .nodes = NODES, .link = link}, &sim));
    return sim;
}

/* A node that passes a number on to a node by chance, and sets timers by chance. */
typedef struct gossip {
    gy_sim *sim;
    int node, left;
} gossip;

static void gossip_once(void *arg)
{
    gossip *me = arg;
    gy_env *env = gy_sim_env(me->sim, me->node);
    if (me->left-- <= 0) {
        return;
    }
    int to = (int)(env->ops->random(env, GY_CHANCE_WORK) % NODES);
    if (gy_sim_is_up(me->sim, to)) {
        assert_ok(gy_sim_send(me->sim, me->node, to, &me->left, sizeof(int)));
    }
    assert_ok(gy_sim_cast(me->sim, me->node, to, &me->left, sizeof(int)));
    int64_t delay_ns = (int64_t)(env->ops->random(env, GY_CHANCE_WORK) % 3000);
    assert_ok(env->ops->timer(env, gy_now_ns(env) + delay_ns, gossip_once, me));
}

static void hear_gossip(void *arg, int from, const void *data, size_t size_bytes)
{
    (void)from;
    (void)data;
    (void)size_bytes;
    gossip_once(arg);
}

static void crash_second(void *arg)
{
    gy_sim_crash(arg, 2);
}

static uint64_t gossip_digest(uint64_t seed)
{
    gossip nodes[NODES];
    gy_sim *sim = new_sim(seed, (gy_sim_link){.latency_ns = 1000,
                                              .jitter_ns = 700,
                                              .bytes_per_second = 1e8,
                                              .drop = 0.2,
                                              .duplicate = 0.2});
    for (int i = 0; i < NODES; i++) {
        nodes[i] = (gossip){.sim = sim, .node = i, .left = 60};
        gy_sim_listen(sim, i, hear_gossip, &nodes[i]);
        gossip_once(&nodes[i]);
    }
    assert_ok(gy_sim_at(sim, 9000, crash_second, sim));
    int steps = 0;
    while (gy_sim_step(sim)) {
        steps++;
    }
    assert_true(steps > 200);
    uint64_t digest = gy_sim_digest(sim);
    gy_sim_free(sim);
    return digest;
}

GY_TEST(same_seed_same_trace)
{
    uint64_t seed = gy_test_seed(), seen[20];
    for (uint64_t i = 0; i < 20; i++) {
        seen[i] = gossip_digest(seed + i);
        assert_true(gossip_digest(seed + i) == seen[i]);
        for (uint64_t j = 0; j < i; j++) {
            assert_true(seen[i] != seen[j]);
        }
    }
    assert_int_equal(gy_alloc_live(), 0);
}

static int fired[8], fired_count;

static void note_timer(void *arg)
{
    fired[fired_count++] = *(int *)arg;
}

GY_TEST(timers_fire_in_order)
{
    int names[4] = {0, 1, 2, 3};
    gy_sim *sim = new_sim(1, (gy_sim_link){.latency_ns = 0});
    gy_env *env = gy_sim_env(sim, 0), *other = gy_sim_env(sim, 1);
    fired_count = 0;
    assert_ok(env->ops->timer(env, 300, note_timer, &names[2]));
    assert_ok(env->ops->timer(env, 100, note_timer, &names[0]));
    assert_ok(env->ops->timer(env, 100, note_timer, &names[1]));
    assert_ok(other->ops->timer(other, 200, note_timer, &names[3]));
    assert_int_equal(gy_env_poll(env, (gy_deadline){50}), 0);
    assert_int_equal(gy_now_ns(env), 50);
    assert_int_equal(gy_env_poll(env, GY_NEVER), 1);
    assert_int_equal(gy_now_ns(env), 100);
    gy_sim_crash(sim, 1);
    gy_sim_run_until(sim, 250);
    assert_int_equal(fired_count, 2); /* that of the crashed node did not */
    gy_sim_run_until(sim, 1000);
    assert_int_equal(fired_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fired[i], i);
    }
    gy_sim_shift_wall(sim, 0, -86400000000000);
    assert_int_equal(env->ops->wall_ns(env), 1000 - 86400000000000);
    assert_int_equal(gy_now_ns(env), 1000);
    env->ops->pause(env, 0);
    assert_true(gy_now_ns(env) > 1000);
    gy_sim_free(sim);
}

GY_TEST(streams_keep_order_and_bandwidth)
{
    static world all;
    gy_sim *sim = new_sim(7, (gy_sim_link){.latency_ns = 5000,
                                           .jitter_ns = 100000,
                                           .bytes_per_second = 1e6, /* 4 bytes: 4 us */
                                           .drop = 1,
                                           .duplicate = 1});
    all = (world){.sim = sim};
    mailbox box = {.world = &all, .node = 1};
    gy_sim_listen(sim, 1, note_message, &box);
    for (int i = 0; i < 500; i++) {
        assert_ok(gy_sim_send(sim, 0, 1, &i, sizeof(i)));
    }
    while (gy_sim_step(sim)) {
    }
    assert_int_equal(all.count, 500);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(all.got[i], i);
        assert_true(all.at_ns[i] >= 5000 + 4000 * (int64_t)(i + 1));
    }
    assert_true(all.at_ns[499] <= 5000 + 100000 + 4000 * 500);
    gy_sim_free(sim);
}

GY_TEST(partitions_hold_streams_and_lose_datagrams)
{
    static world all;
    gy_sim *sim = new_sim(7, (gy_sim_link){.latency_ns = 100});
    all = (world){.sim = sim};
    mailbox box = {.world = &all, .node = 1}, back = {.world = &all, .node = 0};
    gy_sim_listen(sim, 1, note_message, &box);
    gy_sim_listen(sim, 0, note_message, &back);
    int values[4] = {0, 1, 2, 3};
    assert_ok(gy_sim_send(sim, 0, 1, &values[0], sizeof(int)));
    gy_sim_run_until(sim, 50);
    assert_ok(gy_sim_cut(sim, 0, 1, true));
    assert_ok(gy_sim_send(sim, 0, 1, &values[1], sizeof(int)));
    assert_ok(gy_sim_cast(sim, 0, 1, &values[2], sizeof(int)));
    assert_ok(gy_sim_send(sim, 1, 0, &values[3], sizeof(int))); /* the other way is open */
    gy_sim_run_until(sim, 10000);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.got[0], 3);
    assert_ok(gy_sim_cut(sim, 0, 1, false));
    gy_sim_run_until(sim, 20000);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.got[1], 0);
    assert_int_equal(all.got[2], 1);
    assert_true(all.at_ns[1] >= 10100);
    gy_sim_free(sim);
}

GY_TEST(crash_loses_what_is_under_way)
{
    static world all;
    gy_sim *sim = new_sim(7, (gy_sim_link){.latency_ns = 100});
    all = (world){.sim = sim};
    mailbox box = {.world = &all, .node = 1};
    gy_sim_listen(sim, 1, note_message, &box);
    int old = 1, new = 2;
    assert_ok(gy_sim_send(sim, 0, 1, &old, sizeof(int)));
    assert_ok(gy_sim_cast(sim, 0, 1, &old, sizeof(int)));
    gy_sim_crash(sim, 1);
    assert_status(gy_sim_send(sim, 0, 1, &old, sizeof(int)), GY_PEER);
    assert_string_equal(gy_error_text(), "node 1 is down");
    gy_sim_restart(sim, 1);
    gy_sim_listen(sim, 1, note_message, &box);
    gy_sim_run_until(sim, 60);
    assert_ok(gy_sim_send(sim, 0, 1, &new, sizeof(int)));
    gy_sim_run_until(sim, 1000);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.got[0], 2);
    assert_int_equal(all.at_ns[0], 160); /* not with the events of the lost ones */
    gy_sim_free(sim);
}

/* What waits at a cut link has no event of its own that a crash could void. */
GY_TEST(a_crash_loses_what_waits_at_a_cut_link)
{
    static world all;
    gy_sim *sim = new_sim(7, (gy_sim_link){.latency_ns = 100});
    all = (world){.sim = sim};
    mailbox box = {.world = &all, .node = 1};
    int old = 1, new = 2;
    assert_ok(gy_sim_cut(sim, 0, 1, true));
    assert_ok(gy_sim_send(sim, 0, 1, &old, sizeof(int)));
    gy_sim_run_until(sim, 1000);
    gy_sim_crash(sim, 1);
    gy_sim_restart(sim, 1);
    gy_sim_listen(sim, 1, note_message, &box);
    assert_ok(gy_sim_cut(sim, 0, 1, false));
    assert_ok(gy_sim_send(sim, 0, 1, &new, sizeof(int)));
    gy_sim_run_until(sim, 3000);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.got[0], 2);
    gy_sim_free(sim);
}

GY_TEST(datagrams_are_dropped_and_doubled)
{
    static world all;
    gy_sim *sim = new_sim(
        11, (gy_sim_link){.latency_ns = 10, .jitter_ns = 50, .drop = 0.25, .duplicate = 0.25});
    all = (world){.sim = sim};
    mailbox box = {.world = &all, .node = 1};
    gy_sim_listen(sim, 1, note_message, &box);
    int seen[1000] = {0}, lost = 0, doubled = 0, overtaken = 0;
    for (int i = 0; i < 1000; i++) {
        assert_ok(gy_sim_cast(sim, 0, 1, &i, sizeof(i)));
        gy_sim_run_until(sim, gy_sim_now_ns(sim) + 10);
    }
    while (gy_sim_step(sim)) {
    }
    for (int i = 0; i < all.count; i++) {
        seen[all.got[i]]++;
        overtaken += i > 0 && all.got[i] < all.got[i - 1];
    }
    for (int i = 0; i < 1000; i++) {
        lost += seen[i] == 0;
        doubled += seen[i] == 2;
        assert_in_range(seen[i], 0, 2);
    }
    assert_in_range(lost, 150, 350);
    assert_in_range(doubled, 110, 280);
    assert_true(overtaken > 0);
    gy_sim_free(sim);
}

GY_TEST(bad_sizes_are_refused)
{
    gy_sim *sim = NULL;
    assert_status(gy_sim_new(&(gy_sim_options){.nodes = 0}, &sim), GY_ARG);
    assert_status(gy_sim_new(&(gy_sim_options){.nodes = GY_SIM_NODES_MAX + 1}, &sim), GY_ARG);
    for (int n = 1; n <= 3; n++) {
        gy_alloc_fail_after(n);
        assert_status(gy_sim_new(&(gy_sim_options){.nodes = 2}, &sim), GY_NOMEM);
        gy_alloc_fail_after(0);
    }
    assert_int_equal(gy_alloc_live(), 0);
    gy_sim_free(NULL);
}

GY_TEST_MAIN(NULL, NULL)
