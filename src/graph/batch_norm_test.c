/* Goal: batch norm trains by its batch and evaluates by its running statistics, as PyTorch
 * documents both: momentum, biased variance to normalise, unbiased variance in the running one.
 */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { CHANNELS = 3, ROWS = 5, VALUES_MAX = 256 };
static const double epsilon = 1e-5;

/* A graph with one batch norm, in both forms, over x (batch, CHANNELS, side, side) or, with
 * side 0, (batch, CHANNELS). */
typedef struct network {
    gy_graph *graph;
    gy_session *session;
    gy_node x, gain, bias, mean, variance, trained, evaluated, updates[2];
    int side, positions; /* values of a channel in one row */
} network;

static network network_new(int side, double momentum)
{
    network n = {.graph = kit_graph(), .side = side, .positions = side > 0 ? side * side : 1};
    const int64_t channels[] = {CHANNELS};
    n.x = gy_graph_input(n.graph, "x", GY_F64, (int64_t[]){GY_BATCH, CHANNELS, side, side},
                         side > 0 ? 4 : 2);
    n.gain = gy_graph_parameter(n.graph, "gain", GY_F64, channels, 1,
                                (gy_init){.kind = GY_INIT_UNIFORM, .scale = 1});
    n.bias = gy_graph_parameter(n.graph, "bias", GY_F64, channels, 1,
                                (gy_init){.kind = GY_INIT_UNIFORM, .scale = 1});
    n.mean = gy_graph_parameter(n.graph, "mean", GY_F64, channels, 1, gy_init_zeros());
    n.variance = gy_graph_parameter(n.graph, "variance", GY_F64, channels, 1,
                                    (gy_init){.kind = GY_INIT_CONSTANT, .scale = 1});
    n.trained = gy_op_batch_norm(n.x, n.gain, n.bias, epsilon);
    n.evaluated = gy_op_batch_norm_inference(n.x, n.gain, n.bias, n.mean, n.variance, epsilon);
    gy_op_batch_norm_updates(n.x, n.mean, n.variance, momentum, n.updates);
    assert_ok(
        gy_session_new(n.graph, &(gy_session_options){.workers = 1, .seed = 7}, &n.session));
    return n;
}

static void network_free(network *n)
{
    gy_session_free(n->session);
    gy_graph_free(n->graph);
}

static gy_tensor *batch_of(const network *n, int rows, uint64_t key)
{
    gy_tensor *x = NULL;
    assert_ok(gy_tensor_new(NULL, GY_F64, (int64_t[]){rows, CHANNELS, n->side, n->side},
                            n->side > 0 ? 4 : 2, &x));
    gy_random random = {.key = key};
    for (int64_t i = 0; i < gy_tensor_count(x); i++) {
        int64_t channel = i / n->positions % CHANNELS;
        gy_tensor_set(x, i,
                      gy_random_normal(&random) * (1 + (double)channel) + 10 * (double)channel);
    }
    return x;
}

static double parameter(const network *n, const char *name, int64_t index)
{
    return gy_tensor_get(gy_session_parameter(n->session, name), index);
}

/* One channel of a batch: mean, biased and unbiased variance. */
static void moments_of(const network *n, gy_tensor *x, int channel, double m[3])
{
    const int64_t count = gy_tensor_count(x) / CHANNELS;
    double sum[2] = {0, 0};
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < gy_tensor_count(x); i++) {
            if (i / n->positions % CHANNELS == channel) {
                const double value = gy_tensor_get(x, i);
                sum[pass] += pass == 0 ? value : (value - m[0]) * (value - m[0]);
            }
        }
        m[0] = sum[0] / (double)count;
    }
    m[1] = sum[1] / (double)count;
    m[2] = sum[1] / (double)(count - 1);
}

static void expect_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12 * fmax(1, fabs(expected)))) {
        fail_msg("got %.17g, expected %.17g", got, expected);
    }
}

GY_TEST(training_normalises_by_the_batch_and_moves_the_running_statistics)
{
    static const double momenta[] = {0.1, 0.5, 1};
    for (int side = 0; side <= 2; side++) {
        const double momentum = momenta[side];
        network n = network_new(side, momentum);
        double running[2][CHANNELS] = {{0, 0, 0}, {1, 1, 1}};
        for (int step = 0; step < 4; step++) {
            gy_tensor *x = batch_of(&n, ROWS - (step == 3), (uint64_t)step + 1), *results[3];
            const gy_node fetches[] = {n.trained, n.updates[0], n.updates[1]};
            assert_ok(gy_session_run(n.session, &(gy_feed){n.x, x}, 1, 0, fetches, 3, results));
            for (int c = 0; c < CHANNELS; c++) {
                double m[3] = {0};
                moments_of(&n, x, c, m);
                running[0][c] = (1 - momentum) * running[0][c] + momentum * m[0];
                running[1][c] = (1 - momentum) * running[1][c] + momentum * m[2];
                expect_near(parameter(&n, "mean", c), running[0][c]);
                expect_near(parameter(&n, "variance", c), running[1][c]);
                for (int64_t i = 0; i < gy_tensor_count(x); i++) {
                    if (i / n.positions % CHANNELS == c) {
                        expect_near(gy_tensor_get(results[0], i),
                                    (gy_tensor_get(x, i) - m[0]) / sqrt(m[1] + epsilon) *
                                            parameter(&n, "gain", c) +
                                        parameter(&n, "bias", c));
                    }
                }
            }
            gy_tensor_drop(results[0]);
            gy_tensor_drop(x);
        }
        network_free(&n);
    }
}

/* All rows at once, one by one and in between: equal bits. */
GY_TEST(evaluation_of_a_row_knows_no_batch)
{
    for (int side = 0; side <= 2; side += 2) {
        network n = network_new(side, 0.1);
        gy_tensor *x = batch_of(&n, ROWS, 1), *all = NULL;
        assert_ok(gy_session_run(n.session, &(gy_feed){n.x, x}, 1, 0, n.updates, 2,
                                 (gy_tensor *[2]){NULL, NULL}));
        assert_ok(gy_session_run(n.session, &(gy_feed){n.x, x}, 1, 0, &n.evaluated, 1, &all));
        const int64_t row = gy_tensor_count(all) / ROWS;
        for (int64_t rows = 1; rows <= 2; rows++) {
            for (int64_t from = 0; from + rows <= ROWS; from++) {
                gy_tensor *part = NULL, *y = NULL;
                assert_ok(gy_tensor_slice(x, 0, from, from + rows, 1, &part));
                assert_ok(gy_session_run(n.session, &(gy_feed){n.x, part}, 1, 0, &n.evaluated,
                                         1, &y));
                for (int64_t i = 0; i < rows * row; i++) {
                    const int64_t at = from * row + i;
                    const int64_t c = at / n.positions % CHANNELS;
                    assert_true(gy_tensor_get(y, i) == gy_tensor_get(all, at));
                    expect_near(gy_tensor_get(y, i),
                                (gy_tensor_get(x, at) - parameter(&n, "mean", c)) /
                                        sqrt(parameter(&n, "variance", c) + epsilon) *
                                        parameter(&n, "gain", c) +
                                    parameter(&n, "bias", c));
                }
                gy_tensor_drop(y);
                gy_tensor_drop(part);
            }
        }
        gy_tensor_drop(all);
        gy_tensor_drop(x);
        network_free(&n);
    }
}

static double loss_at(const network *n, gy_node loss, gy_tensor *x)
{
    gy_tensor *result = NULL;
    assert_ok(gy_session_run(n->session, &(gy_feed){n->x, x}, 1, 0, &loss, 1, &result));
    const double value = gy_tensor_get(result, 0);
    gy_tensor_drop(result);
    return value;
}

/* By finite differences, for x and all four values of a channel, in both forms. */
GY_TEST(gradients_are_slopes_in_both_forms)
{
    for (int form = 0; form < 4; form++) {
        const bool is_training = form % 2 == 1;
        network n = network_new(form / 2 * 2, 0.3);
        gy_tensor *x = batch_of(&n, ROWS, 3);
        assert_ok(gy_session_run(n.session, &(gy_feed){n.x, x}, 1, 0, n.updates, 2,
                                 (gy_tensor *[2]){NULL, NULL}));
        gy_node y = is_training ? n.trained : n.evaluated;
        gy_node loss = gy_op_sum(
            gy_op_mul(gy_op_tanh(y),
                      gy_op_exp(gy_op_mul(n.x, gy_graph_scalar(n.graph, GY_F64, 0.1)))),
            0, false);
        const gy_node wrt[] = {n.x, n.gain, n.bias, n.mean, n.variance};
        static const char *const names[] = {NULL, "gain", "bias", "mean", "variance"};
        gy_node slopes[5];
        gy_tensor *results[5] = {NULL};
        assert_ok(gy_op_gradients(loss, wrt, 5, slopes));
        assert_ok(gy_session_run(n.session, &(gy_feed){n.x, x}, 1, 0, slopes, 5, results));
        for (int k = 0; k < 5; k++) {
            gy_tensor *value = k == 0 ? x : gy_session_parameter(n.session, names[k]);
            for (int64_t i = 0; i < gy_tensor_count(value); i++) {
                const double kept = gy_tensor_get(value, i), h = 1e-5;
                gy_tensor_set(value, i, kept + h);
                const double above = loss_at(&n, loss, x);
                gy_tensor_set(value, i, kept - h);
                const double below = loss_at(&n, loss, x);
                gy_tensor_set(value, i, kept);
                const double slope = (above - below) / (2 * h);
                if (!(fabs(slope - gy_tensor_get(results[k], i)) <
                      1e-6 * fmax(1, fabs(slope)))) {
                    fail_msg("form %d, input %d, element %d: %.12g, by differences %.12g", form,
                             k, (int)i, gy_tensor_get(results[k], i), slope);
                }
            }
            gy_tensor_drop(results[k]);
        }
        gy_tensor_drop(x);
        network_free(&n);
    }
}

/* A single value has no unbiased variance: said, and nothing is changed. One row of several
 * positions has one. */
GY_TEST(one_value_a_channel_is_refused)
{
    for (int side = 0; side <= 2; side++) {
        network n = network_new(side, 0.1);
        gy_tensor *x = batch_of(&n, 1, 3), *y = NULL;
        gy_status status = gy_session_run(n.session, &(gy_feed){n.x, x}, 1, 0, n.updates, 2,
                                          (gy_tensor *[2]){NULL, NULL});
        if (side == 2) {
            assert_ok(status);
        } else {
            assert_status(status, GY_SHAPE);
            assert_non_null(strstr(gy_error_text(), "running variance"));
            assert_non_null(strstr(gy_error_text(), "expected at least 2"));
            assert_true(parameter(&n, "mean", 1) == 0 && parameter(&n, "variance", 1) == 1);
        }
        /* Evaluation takes one row, before any training too. */
        assert_ok(gy_session_run(n.session, &(gy_feed){n.x, x}, 1, 0, &n.evaluated, 1, &y));
        assert_true(isfinite(gy_tensor_get(y, 0)));
        gy_tensor_drop(y);
        gy_tensor_drop(x);
        network_free(&n);
    }
}

GY_TEST(what_does_not_fit_is_named)
{
    static const struct {
        int64_t sizes[2];
        int rank;
        double momentum, epsilon;
        const char *words;
    } cases[] = {
        {{1}, 1, 0.1, 1e-5, "mean is f64[1], expected f64[3]"},
        {{3, 1}, 2, 0.1, 1e-5, "mean is f64[3,1], expected f64[3]"},
        {{0}, 0, 0.1, 1e-5, "mean is f64[], expected f64[3]"},
        {{3}, 1, 0, 1e-5, "momentum is 0, expected above 0"},
        {{3}, 1, NAN, 1e-5, "momentum is nan"},
        {{3}, 1, 1.5, 1e-5, "momentum is 1.5"},
        {{3}, 1, 0.1, -1, "epsilon is -1"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        for (int form = 0; form < 2; form++) {
            gy_graph *g = kit_graph();
            gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, 3}, 2), updates[2];
            gy_node one =
                gy_graph_parameter(g, "one", GY_F64, (int64_t[]){3}, 1, gy_init_zeros());
            gy_node mean = gy_graph_parameter(g, "mean", GY_F64, cases[i].sizes, cases[i].rank,
                                              gy_init_zeros());
            const char *words = cases[i].words;
            if (form == 0) {
                gy_op_batch_norm_updates(x, mean, one, cases[i].momentum, updates);
            } else {
                gy_op_batch_norm_inference(x, one, one, mean, one, cases[i].epsilon);
            }
            const bool is_here = strstr(words, form == 0 ? "epsilon" : "momentum") == NULL;
            assert_int_equal(gy_graph_status(g) < 0, is_here);
            if (is_here && strstr(gy_error_text(), words) == NULL) {
                fail_msg("'%s' is not in '%s'", words, gy_error_text());
            }
            gy_graph_free(g);
        }
    }
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH}, 1);
    gy_node one = gy_graph_parameter(g, "one", GY_F64, (int64_t[]){1}, 1, gy_init_zeros());
    assert_int_equal(gy_op_batch_norm_inference(x, one, one, one, one, 1e-5).index, -1);
    assert_status(gy_graph_status(g), GY_SHAPE);
    assert_non_null(strstr(gy_error_text(), "expected channels in dimension 1"));
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
