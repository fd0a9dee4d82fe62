/* Goal: gradients of composed graphs agree with finite differences in float64, also of the
 * second order; values that the loss does not reach get zeros; what cannot be is named. */
#include "graph/random_graph.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

static double run_scalar(gy_session *session, const gy_feed *feeds, int count, gy_node node)
{
    gy_tensor *result = NULL;
    assert_ok(gy_session_run(session, feeds, count, 0, &node, 1, &result));
    double value = gy_tensor_get(result, 0);
    gy_tensor_drop(result);
    return value;
}

static gy_tensor *random_tensor(gy_random *random, int64_t rows, int64_t columns)
{
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_new(NULL, GY_F64, (int64_t[]){rows, columns}, 2, &tensor));
    for (int64_t i = 0; i < rows * columns; i++) {
        gy_tensor_set(tensor, i, 2 * gy_random_unit(random) - 1);
    }
    return tensor;
}

/* d loss by central differences against the gradient node, for every element. */
static void check_parameter(gy_session *session, const gy_feed *feeds, int count, gy_node loss,
                            const char *name, gy_node gradient)
{
    gy_tensor *parameter = gy_session_parameter(session, name), *given = NULL;
    assert_ok(gy_session_run(session, feeds, count, 0, &gradient, 1, &given));
    for (int64_t i = 0; i < gy_tensor_count(parameter); i++) {
        const double step = 1e-5, at = gy_tensor_get(parameter, i);
        gy_tensor_set(parameter, i, at + step);
        double above = run_scalar(session, feeds, count, loss);
        gy_tensor_set(parameter, i, at - step);
        double below = run_scalar(session, feeds, count, loss);
        gy_tensor_set(parameter, i, at);
        double wanted = (above - below) / (2 * step), have = gy_tensor_get(given, i);
        if (!(fabs(wanted - have) <= 2e-7 * fmax(1, fabs(wanted)))) {
            fail_msg("d loss / d %s[%d] is %.10g, by differences %.10g", name, (int)i, have,
                     wanted);
        }
    }
    gy_tensor_drop(given);
}

GY_TEST(random_graphs_agree_with_finite_differences)
{
    uint64_t seed = gy_test_seed();
    static const char *const names[RANDOM_PARAMETERS] = {"u", "v", "w", "row"};
    for (uint64_t trial = 0; trial < 12; trial++) {
        random_graph r;
        random_graph_make(&r, seed + trial, true, 14);
        gy_node gradients[RANDOM_PARAMETERS];
        assert_ok(gy_graph_status(r.graph));
        assert_ok(gy_op_gradients(r.loss, r.parameters, RANDOM_PARAMETERS, gradients));
        gy_session *session;
        assert_ok(gy_session_new(r.graph, &(gy_session_options){.workers = 1}, &session));
        gy_tensor *x = random_tensor(&r.random, 3, RANDOM_FEATURES);
        gy_tensor *y = random_tensor(&r.random, 3, RANDOM_FEATURES);
        const gy_feed feeds[] = {{r.x, x}, {r.y, y}};
        for (int i = 0; i < RANDOM_PARAMETERS; i++) {
            check_parameter(session, feeds, 2, r.loss, names[i], gradients[i]);
        }
        gy_session_free(session);
        gy_tensor_drop(x);
        gy_tensor_drop(y);
        gy_graph_free(r.graph);
    }
}

/* The loss of the second level is the sum of squares of the first level's gradient. */
GY_TEST(gradients_of_gradients_agree)
{
    gy_random random = {.key = 11};
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, 3}, 2);
    gy_node y = gy_graph_input(g, "y", GY_F64, (int64_t[]){GY_BATCH, 2}, 2);
    gy_node w = gy_graph_parameter(g, "w", GY_F64, (int64_t[]){3, 2}, 2,
                                   (gy_init){GY_INIT_UNIFORM, 1, NULL});
    gy_node error = gy_op_sub(gy_op_softmax(gy_op_matmul(x, w), 1), y);
    gy_node loss = gy_op_mean(gy_op_mul(error, gy_op_tanh(error)), 0, false);
    gy_node first = gy_op_gradient(loss, w);
    gy_node penalty = gy_op_sum(gy_op_mul(first, first), 0, false);
    gy_node second = gy_op_gradient(penalty, w);
    assert_ok(gy_graph_status(g));
    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    gy_tensor *rows = random_tensor(&random, 5, 3), *goal = random_tensor(&random, 5, 2);
    const gy_feed feeds[] = {{x, rows}, {y, goal}};
    check_parameter(session, feeds, 2, loss, "w", first);
    check_parameter(session, feeds, 2, penalty, "w", second);
    gy_session_free(session);
    gy_tensor_drop(rows);
    gy_tensor_drop(goal);
    gy_graph_free(g);
}

GY_TEST(what_the_loss_does_not_reach_gets_zeros)
{
    gy_graph *g = kit_graph();
    gy_node a = gy_graph_parameter(g, "a", GY_F64, (int64_t[]){2}, 1, gy_init_zeros());
    gy_node b = gy_graph_parameter(g, "b", GY_F64, (int64_t[]){2, 3}, 2, gy_init_zeros());
    gy_node loss = gy_op_sum(gy_op_exp(a), 0, false);
    gy_node wrt[] = {a, b}, gradients[2];
    assert_ok(gy_op_gradients(loss, wrt, 2, gradients));
    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    gy_tensor *results[2];
    assert_ok(gy_session_run(session, NULL, 0, 0, gradients, 2, results));
    assert_true(gy_tensor_get(results[0], 1) == 1);
    assert_int_equal(gy_tensor_count(results[1]), 6);
    for (int i = 0; i < 6; i++) {
        assert_true(gy_tensor_get(results[1], i) == 0);
    }
    gy_tensor_drop(results[0]);
    gy_tensor_drop(results[1]);
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST(a_loss_that_is_no_scalar_is_named)
{
    gy_graph *g = kit_graph();
    gy_node a = gy_graph_parameter(g, "a", GY_F64, (int64_t[]){2, 3}, 2, gy_init_zeros());
    gy_node loss = gy_node_named(gy_op_exp(a), "energy"), gradient;
    assert_status(gy_op_gradients(loss, &a, 1, &gradient), GY_SHAPE);
    assert_int_equal(gradient.index, -1);
    assert_non_null(strstr(gy_error_text(), "energy is f64[2,3]"));
    /* The graph keeps it; what is built on it stays harmless. */
    gy_node later = gy_op_add(gradient, a);
    assert_int_equal(later.index, -1);
    assert_status(gy_graph_status(g), GY_SHAPE);
    gy_session *session;
    assert_status(gy_session_new(g, NULL, &session), GY_SHAPE);
    gy_graph_free(g);
}

/* By the rows with two and three outputs, and by what they are expanded into. */
GY_TEST(attention_agrees_with_finite_differences)
{
    static const char *const names[3] = {"q", "k", "v"};
    gy_graph *g = kit_graph();
    gy_random random = {.key = gy_test_seed()};
    gy_node x[3], slopes[3], second[3];
    for (int i = 0; i < 3; i++) {
        gy_tensor *tensor = NULL;
        const int64_t sizes[4] = {2, i == 0 ? 3 : 4, 2, 3};
        assert_ok(gy_tensor_new(NULL, GY_F64, sizes, 4, &tensor));
        for (int64_t k = 0; k < gy_tensor_count(tensor); k++) {
            gy_tensor_set(tensor, k, 2 * gy_random_unit(&random) - 1);
        }
        const gy_init init = {.kind = GY_INIT_TENSOR, .tensor = tensor};
        x[i] = gy_graph_parameter(g, names[i], GY_F64, sizes, 4, init);
        gy_tensor_drop(tensor);
    }
    gy_node y = gy_op_attention(x[0], x[1], x[2], &(gy_attention_options){.is_causal = true});
    gy_node loss = gy_op_sum(gy_op_square(y), 0, false);
    assert_ok(gy_op_gradients(loss, x, 3, slopes));
    gy_node size = gy_op_sum(gy_op_square(slopes[1]), 0, false);
    assert_ok(gy_op_gradients(size, x, 3, second));
    gy_session *session = NULL;
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 2}, &session));
    for (int i = 0; i < 3; i++) {
        check_parameter(session, NULL, 0, loss, names[i], slopes[i]);
        check_parameter(session, NULL, 0, size, names[i], second[i]);
    }
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
