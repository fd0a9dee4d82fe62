/*
 * Goal: a wait fails only after a look that came behind the end of the peer it is for: what
 * that peer published before it left has been seen, however long this rank was held up. Where
 * yielding costs a rank its core, it sleeps.
 */
#include "transport/transport.h"

#include "gy_test.h"

/* Ranks 1 to 3 have left; how often that was asked. */
static int checks;

static gy_status none_aborted(gy_transport *transport)
{
    (void)transport;
    return GY_OK;
}

static gy_status all_have_left(gy_transport *transport, int peer)
{
    (void)transport;
    checks += peer >= 0;
    return peer >= 0 ? gy_fail(GY_PEER, "rank %d has left the launch", peer) : GY_OK;
}

static gy_status nothing_moves(gy_transport *transport)
{
    (void)transport;
    return GY_AGAIN;
}

static void no_nap(gy_transport *transport, int64_t nap_ns)
{
    (void)transport;
    (void)nap_ns;
}

static const gy_transport_ops still_ops = {.name = "still",
                                           .aborted = none_aborted,
                                           .check = all_have_left,
                                           .progress = nothing_moves,
                                           .nap = no_nap};

static gy_transport still(void)
{
    checks = 0;
    return (gy_transport){.ops = &still_ops, .env = gy_env_real(), .size = 4};
}

/* Rounds up to the next look after the peers: what that one says. */
static gy_status next_check(gy_wait *wait)
{
    gy_status status = GY_OK;
    for (int before = checks; status >= 0 && checks == before;) {
        status = gy_wait_round(wait);
    }
    return status;
}

GY_TEST(one_who_left_is_looked_at_once_more)
{
    gy_transport transport = still();
    gy_wait wait = gy_wait_start(&transport, 1, "its call", gy_deadline_after(30));
    assert_ok(next_check(&wait));
    assert_status(next_check(&wait), GY_PEER);
    assert_string_equal(gy_error_text(), "its call: rank 1 has left the launch");
    assert_int_equal(checks, 2);
}

GY_TEST(so_is_the_next_one)
{
    gy_transport transport = still();
    gy_wait wait = gy_wait_start(&transport, 1, "its call", gy_deadline_after(30));
    for (wait.peer = 1; wait.peer < 4; wait.peer++) {
        assert_ok(next_check(&wait)); /* and the look behind it found that peer's word */
    }
    wait.peer = 3;
    assert_status(next_check(&wait), GY_PEER);
    assert_string_equal(gy_error_text(), "its call: rank 3 has left the launch");
}

GY_TEST(what_moved_gives_another_look)
{
    gy_transport transport = still();
    gy_wait wait = gy_wait_start(&transport, 1, "its call", gy_deadline_after(30));
    for (int i = 0; i < 3; i++) {
        assert_ok(next_check(&wait));
        gy_wait_again(&wait);
    }
    assert_ok(next_check(&wait));
    assert_status(next_check(&wait), GY_PEER);
}

/* ---- beside other processes ---- */

static int pauses, naps;

static void count_nap(gy_transport *transport, int64_t nap_ns)
{
    (void)transport;
    naps += nap_ns > 0;
}

static int64_t passed_ns; /* of a clock that is not the real one */

static int64_t own_now_ns(gy_env *env)
{
    (void)env;
    return ++passed_ns;
}

/* The core is another process's for a millisecond. */
static void lose_core(gy_env *env, uint64_t round)
{
    pauses++;
    passed_ns += 1000000;
    assert_true(round > 0); /* it yields */
    for (int64_t until_ns = gy_now_ns(gy_env_real()) + 1000000;
         env->ops->now_ns != own_now_ns && gy_now_ns(env) < until_ns;) {
        gy_spin();
    }
}

/* How often waits of a rank among too many yield, of three that take three rounds each. */
static int count_yields(gy_env *env)
{
    static const gy_transport_ops ops = {.name = "crowded",
                                         .aborted = none_aborted,
                                         .progress = nothing_moves,
                                         .nap = count_nap};
    gy_transport transport = {.ops = &ops, .env = env, .size = 4, .is_oversubscribed = true};
    pauses = naps = 0;
    for (int i = 0; i < 3; i++) {
        gy_wait wait = gy_wait_start(&transport, 1, "its call", (gy_deadline){INT64_MAX});
        for (int round = 0; round < 3; round++) {
            assert_ok(gy_wait_round(&wait));
        }
    }
    return pauses;
}

GY_TEST(who_loses_its_core_by_yielding_sleeps)
{
    gy_env_ops ops = *gy_env_real()->ops;
    ops.pause = lose_core;
    gy_env env = {.ops = &ops};
    assert_int_equal(count_yields(&env), 1);
    assert_int_equal(naps, 1 + 2 + 2); /* the first nap of a wait announces the others */
}

GY_TEST(a_simulated_rank_learns_nothing)
{
    static const gy_env_ops ops = {.name = "own", .now_ns = own_now_ns, .pause = lose_core};
    gy_env env = {.ops = &ops};
    assert_int_equal(count_yields(&env), 3);
}

GY_TEST_MAIN(NULL, NULL)
