/*
 * Goal: each rank of a host takes the device that the words say, and knows with how many it
 * shares it; a part of its memory is as large. Sessions open theirs, and sessions of one graph
 * do not see each other's.
 */
#include "graph/session.h"
#include "standin/standin_kit.h"

#include <math.h>

#include "graph_kit.h"
#include "gy_test.h"

/* The devices of all ranks of a host as "0 1 0/2": behind a bar how many share it. */
static const char *devices_of(const char *names, int shown, int ranks, char out[128])
{
    size_t used = 0;
    out[0] = '\0';
    for (int rank = 0; rank < ranks; rank++) {
        int index = -7, sharers = -7;
        const gy_device_choice choice = {.names = names, .rank = rank, .ranks = ranks};
        assert_ok(gy_device_choose(&choice, shown, &index, &sharers));
        used +=
            gy_print(out + used, 128 - used, "%s%d/%d", rank > 0 ? " " : "", index, sharers);
    }
    return out;
}

GY_TEST(ranks_take_the_devices_of_the_words)
{
    static const struct {
        const char *names;
        int shown, ranks;
        const char *devices;
    } cases[] = {
        {"auto", 2, 4, "0/2 1/2 0/2 1/2"},
        {"auto", 4, 3, "0/1 1/1 2/1"},
        {"auto", 2, 3, "0/2 1/1 0/2"},
        {"auto", 0, 2, "-1/2 -1/2"},
        {"none", 4, 2, "-1/2 -1/2"},
        {"1", 0, 2, "1/2 1/2"},
        {"3,1", 0, 2, "3/1 1/1"},
        {"3,1", 0, 3, "3/2 1/1 3/2"},
        {"2,2,0", 0, 6, "2/4 2/4 0/2 2/4 2/4 0/2"},
    };
    char out[128];
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_string_equal(devices_of(cases[i].names, cases[i].shown, cases[i].ranks, out),
                            cases[i].devices);
    }
    setenv("GYRE_DEVICE", "1,0", 1);
    assert_string_equal(devices_of(NULL, 0, 2, out), "1/1 0/1");
    unsetenv("GYRE_DEVICE");
    assert_string_equal(devices_of(NULL, 4, 1, out), "-1/1");
}

GY_TEST(a_number_wins_over_words)
{
    int index = -7, sharers = 0;
    gy_device_choice choice = {.number = 3, .names = "junk", .ranks = 0};
    assert_ok(gy_device_choose(&choice, 0, &index, &sharers));
    assert_true(index == 2 && sharers == 1);
    choice.number = -1;
    assert_ok(gy_device_choose(&choice, 4, &index, &sharers));
    assert_int_equal(index, -1);
    choice.number = 0;
    assert_status(gy_device_choose(&choice, 4, &index, &sharers), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "\"junk\""));
    choice = (gy_device_choice){.names = "0", .rank = 2, .ranks = 2};
    assert_status(gy_device_choose(&choice, 4, &index, &sharers), GY_ARG);
}

/* What is opened for that rank of two. */
static gy_status open_as(const char *names, int rank, gy_device **device)
{
    const gy_device_choice choice = {.names = names, .rank = rank, .ranks = 2};
    return gy_device_open(&choice, device);
}

GY_TEST(who_shares_a_device_has_a_part_of_its_memory)
{
    gy_device *alone = NULL, *one = NULL, *none = NULL;
    standin->reset(1);
    assert_ok(open_as("0", 0, &one));
    assert_string_equal(one->name, "0 (Stand-in 0) shared by 2 processes");
    const uint64_t part = one->rates.memory_bytes;
    gy_device_close(one);
    assert_ok(gy_device_open(&(gy_device_choice){.number = 1}, &alone));
    assert_string_equal(alone->name, "0 (Stand-in 0)");
    assert_int_equal(alone->rates.memory_bytes / 2, part);
    gy_device_close(alone);
    assert_ok(open_as("none", 0, &none));
    assert_null(none);
    assert_ok(open_as("auto", 0, &one));
    assert_non_null(one);
    gy_device_close(one);
    gy_device_close(NULL);
    standin_expect_clean();
}

GY_TEST(a_device_that_is_not_there_is_no_device_of_auto)
{
    gy_device *device = NULL;
    standin->reset(1);
    assert_status(open_as("0,7", 1, &device), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "device 7: this machine shows device 0 alone"));
    assert_null(device);
    standin->fail_call("cuDeviceGetCount", 1, GY_CUDA_NOT_INITIALIZED);
    assert_status(open_as("auto", 0, &device), GY_STATE);
    assert_null(device);
    standin_expect_clean();
}

enum { SIZE = 128, STEPS = 3 };

/* w -= 0.1 (w w - w), whose products pay on the device. */
typedef struct squares {
    gy_graph *graph;
    gy_node sum, assigned;
} squares;

static squares make_squares(void)
{
    squares s = {.graph = kit_graph()};
    const gy_node w =
        gy_graph_parameter(s.graph, "w", GY_F32, (int64_t[]){SIZE, SIZE}, 2, gy_init_he());
    const gy_node rate = gy_graph_scalar(s.graph, GY_F32, 0.1);
    const gy_node product = gy_op_matmul(gy_op_matmul(w, w), w);
    s.sum = gy_op_sum(product, 3, false);
    s.assigned = gy_op_assign(w, gy_op_sub(w, gy_op_mul(rate, product)));
    assert_ok(gy_graph_status(s.graph));
    return s;
}

/* The sum of `steps` runs, and whether its parameter lies on a device. */
static double run_squares(const squares *s, gy_session *session, int steps, bool *is_there)
{
    double sum = 0;
    for (int i = 0; i < steps; i++) {
        gy_tensor *results[2] = {NULL, NULL};
        const gy_node fetches[] = {s->sum, s->assigned};
        assert_ok(gy_session_run(session, NULL, 0, 1, fetches, 2, results));
        sum = gy_tensor_get(results[0], 0);
        gy_tensor_drop(results[0]);
    }
    *is_there = session->parameters[0].there != NULL;
    return sum;
}

static gy_session *open_session(const squares *s, int device)
{
    gy_session *session = NULL;
    setenv("GYRE_TEST_CUDA_MULTIPROCESSORS", "100", 1); /* what is this small pays there */
    const gy_session_options options =
        GY_OPTIONS(gy_session_options, .seed = 3, .workers = 1, .device = device);
    assert_ok(gy_session_new(s->graph, &options, &session));
    assert_int_equal(gy_session_device(session) != NULL, device > 0);
    return session;
}

GY_TEST(sessions_of_one_graph_have_devices_of_their_own)
{
    standin->reset(1);
    const squares s = make_squares();
    bool is_there = false;
    gy_session *there = open_session(&s, 1), *here = open_session(&s, -1);
    const double first = run_squares(&s, there, STEPS, &is_there);
    assert_true(is_there);
    const double second = run_squares(&s, here, STEPS, &is_there);
    assert_false(is_there);
    assert_true(fabs(first - second) <= 1e-4 * fabs(second));
    gy_session_free(there);
    standin_expect_clean();
    (void)run_squares(&s, here, 1, &is_there);
    assert_false(is_there);
    there = open_session(&s, 1);
    assert_true(fabs(run_squares(&s, there, STEPS, &is_there) - second) <= 1e-4 * fabs(second));
    assert_true(is_there);
    gy_session_free(there);
    gy_session_free(here);
    gy_graph_free(s.graph);
    standin_expect_clean();
}

/* The sum alone, which assigns nothing. */
static void read_sum(const squares *s, gy_session *session)
{
    gy_tensor *sum = NULL;
    assert_ok(gy_session_run(session, NULL, 0, 1, &s->sum, 1, &sum));
    gy_tensor_drop(sum);
}

static int copied(const char *symbol)
{
    return standin->count(symbol);
}

GY_TEST(a_parameter_that_is_only_read_is_sent_once_and_never_brought)
{
    static const char *const there = "cuMemcpyHtoDAsync_v2", *const back =
                                                                 "cuMemcpyDtoHAsync_v2";
    standin->reset(1);
    const squares s = make_squares();
    gy_session *session = open_session(&s, 1);
    read_sum(&s, session);
    assert_non_null(session->parameters[0].there);
    const int sent = copied(there);
    read_sum(&s, session);
    assert_int_equal(copied(there), sent);
    const int brought = copied(back);
    gy_tensor *w = gy_session_parameter(session, "w");
    assert_non_null(w);
    assert_int_equal(copied(back), brought);
    gy_tensor_set(w, 0, 7); /* who has asked for it may write to it */
    read_sum(&s, session);
    assert_int_equal(copied(there), sent + 1);
    bool is_there = false;
    (void)run_squares(&s, session, 1, &is_there);
    assert_int_equal(copied(there), sent + 1);
    const int before = copied(back);
    assert_true(fabs(gy_tensor_get(gy_session_parameter(session, "w"), 0) - 7) > 1e-3);
    assert_int_equal(copied(back), before + 1);
    gy_session_free(session);
    gy_graph_free(s.graph);
    standin_expect_clean();
}

/* A kernel that never ends: the rank is told which device, in time, and so are later runs. */
GY_TEST(a_device_that_hangs_is_named_in_time)
{
    const squares s = make_squares();
    const gy_node fetches[] = {s.sum, s.assigned};
    gy_tensor *results[2] = {NULL, NULL};
    bool is_there = false;
    standin->reset(1);
    setenv("GYRE_TIMEOUT", "3", 1);
    gy_session *session = open_session(&s, 1);
    unsetenv("GYRE_TIMEOUT");
    (void)run_squares(&s, session, 1, &is_there);
    assert_true(is_there);
    standin->stall(true);
    for (int i = 0; i < 2; i++) {
        assert_status(gy_session_run(session, NULL, 0, 1, fetches, 2, results), GY_TIMEOUT);
        assert_non_null(strstr(gy_error_text(), "device 0 (Stand-in 0)"));
    }
    assert_null(gy_session_parameter(session, "w"));
    assert_null(results[0]);
    standin->stall(false);
    gy_session_free(session);
    gy_graph_free(s.graph);
    standin_expect_clean();
}

GY_TEST(a_session_whose_device_fails_leaves_nothing)
{
    const squares s = make_squares();
    gy_session *session = NULL;
    const gy_session_options options =
        GY_OPTIONS(gy_session_options, .workers = 1, .devices = "0,junk");
    standin->reset(1);
    assert_status(gy_session_new(s.graph, &options, &session), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "\"0,junk\""));
    const gy_session_options ranked =
        GY_OPTIONS(gy_session_options, .workers = 1, .device = 1, .device_rank = -1);
    assert_status(gy_session_new(s.graph, &ranked, &session), GY_ARG);
    standin->fail_call("cuStreamCreate", 1, GY_CUDA_LAUNCH_FAILED);
    const gy_session_options one =
        GY_OPTIONS(gy_session_options, .workers = 1, .device = 1, .device_ranks = 1);
    assert_status(gy_session_new(s.graph, &one, &session), GY_PEER);
    assert_null(session);
    gy_graph_free(s.graph);
    standin_expect_clean();
}

GY_TEST_MAIN(standin_find, NULL)
