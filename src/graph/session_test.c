/* Goal: a session trains lecture A's softmax regression; feeds, fetches and assignments do
 * what their headers say, and a failure names its cause. */
#include "graph/random_graph.h"
#include "graph/session.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { ROWS = 64, FEATURES = 8, CLASSES = 3 };

/* Rows around one centre per class. */
static void make_data(float *x, int32_t *labels)
{
    gy_random random = {.key = 7};
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        for (int j = 0; j < FEATURES; j++) {
            double centre = j % CLASSES == labels[i] ? 2 : 0;
            x[i * FEATURES + j] = (float)(centre + 0.3 * gy_random_normal(&random));
        }
    }
}

static gy_tensor *tensor_of(gy_dtype dtype, int64_t rows, int64_t columns, const void *data)
{
    gy_tensor *tensor = NULL;
    assert_ok(gy_tensor_from(NULL, dtype, (int64_t[]){rows, columns}, columns > 0 ? 2 : 1, data,
                             &tensor));
    return tensor;
}

GY_TEST(softmax_regression_converges)
{
    float x_data[ROWS * FEATURES];
    int32_t label_data[ROWS];
    make_data(x_data, label_data);

    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, FEATURES}, 2);
    gy_node labels = gy_graph_input(g, "labels", GY_I32, (int64_t[]){GY_BATCH}, 1);
    gy_node w =
        gy_graph_parameter(g, "w", GY_F32, (int64_t[]){FEATURES, CLASSES}, 2, gy_init_zeros());
    gy_node logits = gy_op_matmul(x, w);
    gy_node loss = gy_op_cross_entropy(logits, labels);
    gy_node rate = gy_graph_scalar(g, GY_F32, 0.5);
    gy_node step = gy_op_assign(w, gy_op_sub(w, gy_op_mul(rate, gy_op_gradient(loss, w))));
    gy_node best = gy_op_argmax(gy_op_softmax(logits, 1), 1);

    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    gy_tensor *rows = tensor_of(GY_F32, ROWS, FEATURES, x_data);
    gy_tensor *truth = tensor_of(GY_I32, ROWS, 0, label_data);
    const gy_feed feeds[] = {{x, rows}, {labels, truth}};
    double first = 0, last = 0;
    for (int i = 0; i < 60; i++) {
        gy_tensor *results[2];
        assert_ok(gy_session_run(session, feeds, 2, 0, (gy_node[]){loss, step}, 2, results));
        assert_null(results[1]);
        last = gy_tensor_get(results[0], 0);
        first = i == 0 ? last : first;
        gy_tensor_drop(results[0]);
    }
    assert_true(fabs(first - log(CLASSES)) < 1e-6);
    assert_true(last < 0.05);
    gy_tensor *answers;
    assert_ok(gy_session_run(session, feeds, 1, 0, &best, 1, &answers));
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal((int)gy_tensor_get(answers, i), label_data[i]);
    }
    assert_int_equal(gy_session_step(session), 61);
    gy_session_stats stats = gy_session_statistics(session);
    assert_int_equal(stats.runs, 61);
    assert_true(stats.compute_s > 0 && stats.exposed_communication_s == 0);
    gy_tensor_drop(answers);
    gy_tensor_drop(rows);
    gy_tensor_drop(truth);
    gy_session_free(session);
    gy_graph_free(g);
}

static gy_tensor *vector(int64_t n, const double *data)
{
    return tensor_of(GY_F64, n, 0, data);
}

/* w, v = v, w: assignments read what was there before the run, and so do fetches. */
GY_TEST(assignments_come_after_all_reads)
{
    gy_tensor *one = vector(2, (double[]){1, 2}), *two = vector(2, (double[]){3, 4});
    gy_graph *g = kit_graph();
    const int64_t sizes[] = {2};
    gy_node v = gy_graph_parameter(g, "v", GY_F64, sizes, 1, (gy_init){GY_INIT_TENSOR, 0, one});
    gy_node w = gy_graph_parameter(g, "w", GY_F64, sizes, 1, (gy_init){GY_INIT_TENSOR, 0, two});
    gy_node swap[] = {gy_op_assign(v, w), gy_op_assign(w, v), w,
                      gy_op_reshape(v, (int64_t[]){1, 2}, 2)};
    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    gy_tensor *results[4];
    assert_ok(gy_session_run(session, NULL, 0, 0, swap, 4, results));
    assert_true(gy_tensor_get(results[2], 0) == 3 && gy_tensor_get(results[3], 1) == 2);
    gy_tensor *now_v = gy_session_parameter(session, "v");
    gy_tensor *now_w = gy_session_parameter(session, "w");
    assert_true(gy_tensor_get(now_v, 0) == 3 && gy_tensor_get(now_v, 1) == 4);
    assert_true(gy_tensor_get(now_w, 0) == 1 && gy_tensor_get(now_w, 1) == 2);
    assert_null(gy_session_parameter(session, "u"));
    gy_tensor_drop(results[2]);
    gy_tensor_drop(results[3]);
    gy_session_free(session);
    gy_graph_free(g);
    gy_tensor_drop(one);
    gy_tensor_drop(two);
}

GY_TEST(initial_values_depend_on_seed_and_name_alone)
{
    const int64_t sizes[] = {20, 30};
    double seen[3];
    for (int i = 0; i < 3; i++) {
        gy_graph *g = kit_graph();
        if (i == 1) {
            gy_graph_parameter(g, "other", GY_F32, sizes, 2, gy_init_he());
        }
        gy_graph_parameter(g, "w", GY_F32, sizes, 2, gy_init_glorot());
        gy_session *session;
        const gy_session_options options = {.seed = i == 2 ? 6 : 5};
        assert_ok(gy_session_new(g, &options, &session));
        gy_tensor *w = gy_session_parameter(session, "w");
        seen[i] = 0;
        for (int k = 0; k < 600; k++) {
            assert_true(fabs(gy_tensor_get(w, k)) <= sqrt(6.0 / 50) + 1e-6);
            seen[i] += gy_tensor_get(w, k) * k;
        }
        gy_session_free(session);
        gy_graph_free(g);
    }
    assert_true(seen[0] == seen[1]);
    assert_true(seen[0] != seen[2]);
}

static void assert_says(const char *const *words, int count)
{
    for (int i = 0; i < count; i++) {
        if (strstr(gy_error_text(), words[i]) == NULL) {
            fail_msg("\"%s\" does not say %s", gy_error_text(), words[i]);
        }
    }
}

GY_TEST(wrong_feeds_are_named_with_both_shapes)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "pixels", GY_F64, (int64_t[]){GY_BATCH, 3}, 2);
    gy_node y = gy_graph_input(g, "offset", GY_F64, (int64_t[]){3}, 1);
    gy_node sum = gy_op_sum(gy_op_add(x, y), 0, false);
    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    gy_tensor *good = tensor_of(GY_F64, 2, 3, (double[]){1, 2, 3, 4, 5, 6});
    gy_tensor *bad = tensor_of(GY_F64, 2, 2, (double[]){1, 2, 3, 4});
    gy_tensor *typed = tensor_of(GY_F32, 2, 3, (float[]){1, 2, 3, 4, 5, 6});
    gy_tensor *offset = vector(3, (double[]){10, 20, 30}), *result = NULL;
    gy_feed feeds[] = {{x, bad}, {y, offset}};
    assert_status(gy_session_run(session, feeds, 2, 0, &sum, 1, &result), GY_SHAPE);
    assert_says((const char *[]){"pixels", "f64[2,2]", "f64[2,3]"}, 3);
    feeds[0].tensor = typed;
    assert_status(gy_session_run(session, feeds, 2, 0, &sum, 1, &result), GY_SHAPE);
    assert_says((const char *[]){"pixels", "f32[2,3]", "f64[2,3]"}, 3);
    feeds[0].tensor = good;
    assert_status(gy_session_run(session, feeds, 1, 0, &sum, 1, &result), GY_ARG);
    assert_says((const char *[]){"offset", "not fed"}, 2);
    assert_status(gy_session_run(session, feeds, 2, 5, &sum, 1, &result), GY_SHAPE);
    assert_says((const char *[]){"pixels", "f64[2,3]", "f64[5,3]"}, 3);
    assert_null(result);
    assert_int_equal(gy_session_step(session), 0);
    assert_ok(gy_session_run(session, feeds, 2, 0, &sum, 1, &result));
    assert_true(gy_tensor_get(result, 0) == 21 + 2 * 60);
    gy_tensor_drop(result);
    gy_tensor_drop(good);
    gy_tensor_drop(bad);
    gy_tensor_drop(typed);
    gy_tensor_drop(offset);
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST(dropout_is_drawn_anew_and_repeats_from_seed_and_step)
{
    double sums[2][3];
    for (int i = 0; i < 2; i++) {
        gy_graph *g = kit_graph();
        gy_node ones = gy_op_broadcast_to(gy_graph_scalar(g, GY_F32, 1), (int64_t[]){1000}, 1);
        gy_node weights = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){1000}, 1,
                                             (gy_init){GY_INIT_UNIFORM, 1, NULL});
        gy_node dropped = gy_op_sum(gy_op_mul(weights, gy_op_dropout(ones, 0.5)), 0, false);
        gy_session *session;
        const gy_session_options options = {.seed = 3};
        assert_ok(gy_session_new(g, &options, &session));
        for (int run = 0; run < 3; run++) {
            gy_tensor *result;
            gy_session_set_step(session, run == 2 ? 0 : (uint64_t)run);
            assert_ok(gy_session_run(session, NULL, 0, 0, &dropped, 1, &result));
            sums[i][run] = gy_tensor_get(result, 0);
            gy_tensor_drop(result);
        }
        gy_session_free(session);
        gy_graph_free(g);
    }
    assert_true(sums[0][0] != sums[0][1]);
    assert_true(sums[0][0] == sums[0][2]);
    assert_memory_equal(sums[0], sums[1], sizeof(sums[0]));
}

/* What a run hands out is allocated, nothing else. */
/* One pass over memory, the same bits; names of any kind are one line each. */
GY_TEST(dropout_is_part_of_a_fused_group)
{
    enum { HEIGHT = 6, WIDTH = 37 };
    double values[2][HEIGHT * WIDTH];
    for (int turn = 0; turn < 2; turn++) {
        gy_graph *g = kit_graph();
        gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, WIDTH}, 2);
        gy_node y = gy_op_tanh(gy_op_dropout(gy_op_exp(x), 0.5));
        gy_node loss = gy_op_sum(gy_node_named(y, "two\nlines\n:"), 0, false);
        gy_node fetches[] = {loss, gy_op_gradient(loss, x)};
        gy_session *session;
        assert_ok(gy_session_new(g, &(gy_session_options){.seed = 3}, &session));
        for (int i = 0; turn == 1 && i < gy_compile_pass_count; i++) {
            session->skip |= strcmp(gy_compile_passes[i].name, "fuse") == 0 ? 1u << i : 0;
        }
        float rows[HEIGHT * WIDTH];
        for (int i = 0; i < HEIGHT * WIDTH; i++) {
            rows[i] = (float)(i % 11) / 8 - 1;
        }
        gy_tensor *fed = tensor_of(GY_F32, HEIGHT, WIDTH, rows), *results[2];
        assert_ok(gy_session_run(session, &(gy_feed){x, fed}, 1, 0, fetches, 2, results));
        int zeros = 0;
        for (int i = 0; i < HEIGHT * WIDTH; i++) {
            values[turn][i] = gy_tensor_get(results[1], i);
            zeros += values[turn][i] == 0;
        }
        assert_in_range(zeros, HEIGHT * WIDTH / 4, HEIGHT * WIDTH * 3 / 4);
        int dropouts = 0;
        const gy_program *program = session->programs[0];
        for (int32_t i = 0; i < program->step_count; i++) {
            dropouts += program->steps[i].node->op == &gy_ops_row_dropout;
        }
        assert_true(turn == 0 ? dropouts == 0 : dropouts > 0);
        char *text;
        assert_ok(gy_session_explain(session, HEIGHT, fetches, 2, &text));
        assert_non_null(strstr(text, "two?lines?:"));
        gy_string_free(text);
        gy_tensor_drop(results[0]);
        gy_tensor_drop(results[1]);
        gy_tensor_drop(fed);
        gy_session_free(session);
        gy_graph_free(g);
    }
    for (int i = 0; i < HEIGHT * WIDTH; i++) {
        assert_true(values[0][i] == values[1][i]);
    }
}

GY_TEST(a_parameter_is_assigned_once)
{
    gy_graph *g = kit_graph();
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){2}, 1, gy_init_zeros());
    gy_node fetches[] = {gy_op_assign(w, gy_op_exp(w)), gy_op_assign(w, gy_op_neg(w))};
    gy_session *session;
    gy_tensor *results[2];
    char *text;
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_int_equal(gy_session_run(session, NULL, 0, 0, fetches, 2, results), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "parameter w is assigned twice"));
    assert_int_equal(gy_session_explain(session, 1, fetches, -1, &text), GY_ARG);
    assert_ok(gy_session_run(session, NULL, 0, 0, fetches, 1, results));
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST(steady_state_allocates_nothing)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 4}, 2);
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){4, 2}, 2, gy_init_glorot());
    gy_node y = gy_op_dropout(gy_op_softmax(gy_op_matmul(x, w), 1), 0.5);
    gy_node loss = gy_op_mean(gy_op_mul(y, y), 0, false);
    gy_node step = gy_op_assign(w, gy_op_sub(w, gy_op_gradient(loss, w)));
    gy_session *session;
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    float rows[6 * 4] = {1, 2, 3};
    gy_tensor *fed = tensor_of(GY_F32, 6, 4, rows), *result = NULL;
    const gy_feed feed = {x, fed};
    for (int i = 0; i < 4; i++) {
        gy_alloc_fail_after(i < 2 ? 0 : 1);
        gy_status status = gy_session_run(session, &feed, 1, 0, &step, 1, &result);
        gy_alloc_fail_after(0);
        assert_ok(status);
    }
    gy_tensor_drop(fed);
    gy_session_free(session);
    gy_graph_free(g);
}

/* Sizes whose product no count holds are refused when the node is made, or when the batch is
 * known, ahead of placement: no line of an explanation is of it. */
GY_TEST(sizes_that_overflow_are_refused)
{
    static const struct {
        int64_t sizes[2], batch;
        int copies; /* values of that size */
        const char *words;
    } cases[] = {
        {{INT64_C(1) << 31, INT64_C(1) << 31},
         1,
         0,
         "f32[2147483648,2147483648] has more than"},
        {{GY_BATCH, INT64_C(1) << 61}, 1, 0, "has more than 2^62 bytes"},
        {{GY_BATCH, 1 << 20}, INT64_C(1) << 41, 0, "f32[2199023255552,1048576] has more than"},
        {{GY_BATCH, 1 << 20}, INT64_MAX, 0, "has more than 2^62 bytes"},
        {{3 * GY_BATCH, 1}, INT64_MAX / 2, 0, "has more than 2^62 bytes"},
        {{INT64_C(1) << 30, 1 << 27}, 1, 2, "more than 2^60 bytes"},
        {{GY_BATCH, 1 << 20}, INT64_C(1) << 34, 17, "more than 2^60 bytes"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_graph *g = kit_graph();
        gy_node x = gy_graph_input(g, "x", GY_F32, cases[i].sizes, 2);
        for (int k = 0; k < cases[i].copies; k++) {
            x = gy_op_cumsum(x, 1, k % 2 != 0);
        }
        x = gy_op_sum(x, 0, false);
        gy_session *session = NULL;
        gy_tensor *result = NULL;
        gy_status status = gy_graph_status(g);
        status = status >= 0 ? gy_session_new(g, NULL, &session) : status;
        if (status >= 0) {
            status = gy_session_run(session, NULL, 0, cases[i].batch, &x, 1, &result);
        }
        assert_status(status, GY_SHAPE);
        if (strstr(gy_error_text(), cases[i].words) == NULL) {
            fail_msg("case %zu: %s", i, gy_error_text());
        }
        gy_session_free(session);
        gy_graph_free(g);
    }
}

GY_TEST(traces_name_the_nodes)
{
    gy_trace_start(256);
    gy_graph *g = kit_graph();
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){4, 2}, 2, gy_init_glorot());
    gy_node y = gy_node_named(gy_op_exp(w), "energy of w"), loss = gy_op_sum(y, 0, false);
    gy_session *session;
    gy_tensor *result;
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    assert_ok(gy_session_run(session, NULL, 0, 0, (gy_node[]){y}, 1, &result));
    gy_tensor_drop(result);
    assert_ok(gy_session_run(session, NULL, 0, 0, (gy_node[]){loss}, 1, &result));
    gy_tensor_drop(result);
    gy_session_free(session);
    gy_graph_free(g);
    gy_text text = {.data = NULL};
    gy_trace_write(&text, 1, "test");
    assert_non_null(strstr(gy_text_get(&text), "energy of w"));
    gy_text_free(&text);
}

GY_TEST(explanation_shows_every_stage)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 4}, 2);
    gy_node w = gy_graph_parameter(g, "w", GY_F32, (int64_t[]){4, 2}, 2, gy_init_zeros());
    gy_node y = gy_node_named(gy_op_matmul(x, w), "logits");
    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    char *text;
    assert_ok(gy_session_explain(session, 16, &y, 1, &text));
    const char *const stages[] = {"== graph",  "== bind",      "== constants", "== algebra",
                                  "== common", "== expand",    "== place",     "== schedule",
                                  "== memory", "f32[batch,4]", "f32[16,2]",    "logits"};
    for (size_t i = 0; i < GY_COUNT(stages); i++) {
        assert_non_null(strstr(text, stages[i]));
    }
    /* Nothing is said twice: a stage that changes nothing is one line. */
    const char *line = strstr(text, "logits: f32[16,2]");
    assert_non_null(line);
    assert_non_null(strstr(text, ", as before\n"));
    size_t size = strcspn(line, "\n") + 1;
    for (const char *later = strstr(line + 1, "logits: "); later != NULL;
         later = strstr(later + 1, "logits: ")) {
        assert_int_not_equal(strncmp(line, later, size), 0);
    }
    gy_string_free(text);
    gy_session_free(session);
    gy_graph_free(g);
}

/* ---- programs in turn ---- */

enum { ROWS_MAX = 9, RUNS = 12 };

/* Runs of several programs of one graph, in an order that the key decides. */
static void run_in_turn(uint64_t key, uint32_t skip, double values[RUNS])
{
    random_graph r;
    gy_session *session = NULL;
    random_graph_make(&r, key, false, 12);
    assert_ok(
        gy_session_new(r.graph, &(gy_session_options){.workers = 2, .seed = 3}, &session));
    session->skip = skip;
    gy_random random = {.key = key + 1};
    for (int run = 0; run < RUNS; run++) {
        const int64_t rows = 1 + (int64_t)gy_random_below(&random, ROWS_MAX);
        gy_tensor *x = NULL, *y = NULL, *loss = NULL;
        const int64_t sizes[] = {rows, RANDOM_FEATURES};
        assert_ok(gy_tensor_new(NULL, GY_F64, sizes, 2, &x));
        assert_ok(gy_tensor_new(NULL, GY_F64, sizes, 2, &y));
        for (int64_t i = 0; i < rows * RANDOM_FEATURES; i++) {
            gy_tensor_set(x, i, gy_random_unit(&random));
            gy_tensor_set(y, i, gy_random_unit(&random));
        }
        const gy_feed feeds[] = {{r.x, x}, {r.y, y}};
        assert_ok(gy_session_run(session, feeds, 2, 0, &r.loss, 1, &loss));
        values[run] = gy_tensor_get(loss, 0);
        gy_tensor_drop(loss);
        gy_tensor_drop(x);
        gy_tensor_drop(y);
    }
    assert_true(session->program_count > 1);
    gy_session_free(session);
    gy_graph_free(r.graph);
}

GY_TEST(programs_that_share_memory_compute_the_same_bits)
{
    const uint64_t seed = gy_test_seed();
    for (uint64_t trial = 0; trial < (uint64_t)gy_test_cases(16); trial++) {
        double own[RUNS], shared[RUNS];
        run_in_turn(seed + trial, GY_SKIP_SHARING, own);
        run_in_turn(seed + trial, 0, shared);
        assert_memory_equal(own, shared, sizeof(own));
    }
}

/* What a hook was told: the order of fetches, and the first value of each. */
typedef struct told {
    gy_mutex lock;
    int order[4], count;
    double values[4];
    bool takes;
} told;

static bool on_fetch(void *arg, int index, const gy_view *value)
{
    told *what = arg;
    gy_mutex_lock(&what->lock);
    if (what->count < 4) {
        what->order[what->count++] = index;
        what->values[index] = ((const float *)value->data)[0];
    }
    gy_mutex_unlock(&what->lock);
    return what->takes;
}

/* Each fetch is told once, with its value, whether a step makes it or it was fed; an assignment
 * is not. What is taken is not copied. */
GY_TEST(a_hook_is_told_of_each_fetch)
{
    gy_graph *g = kit_graph();
    gy_node x = gy_graph_input(g, "x", GY_F32, (int64_t[]){GY_BATCH, 2}, 2);
    gy_node w = gy_graph_parameter(g, "w", GY_F32, NULL, 0, gy_init_zeros());
    gy_node sum = gy_op_sum(x, 0, false), twice = gy_op_add(sum, sum);
    const gy_node fetches[] = {twice, gy_op_assign(w, sum), sum, x};
    const float data[] = {1, 2, 3, 4};
    gy_session *session;
    assert_ok(gy_session_new(g, NULL, &session));
    gy_tensor *rows = tensor_of(GY_F32, 2, 2, data);
    const gy_feed feed = {x, rows};
    for (int round = 0; round < 3; round++) {
        told what = {.takes = round == 1};
        gy_tensor *results[4];
        gy_mutex_init(&what.lock, 1);
        gy_session_set_fetch_hook(session, round < 2 ? on_fetch : NULL, &what);
        assert_ok(gy_session_run(session, &feed, 1, 0, fetches, 4, results));
        assert_int_equal(what.count, round < 2 ? 3 : 0);
        for (int i = 0; i < 4 && round < 2; i++) {
            const double expected[] = {20, 0, 10, 1};
            assert_true(what.values[i] == expected[i]);
        }
        for (int i = 0; i < 4; i++) {
            assert_true((results[i] == NULL) == (i == 1 || round == 1));
            gy_tensor_drop(results[i]);
        }
        gy_mutex_fini(&what.lock);
    }
    gy_tensor_drop(rows);
    gy_session_free(session);
    gy_graph_free(g);
}

/* A parameter of as many rows as the batch has: another batch is refused, this one is fed. */
GY_TEST(rows_stand_for_the_batch)
{
    gy_graph *g = NULL;
    gy_session *session = NULL;
    gy_tensor *batch[2] = {NULL, NULL}, *sum = NULL;
    assert_ok(gy_graph_new(&g));
    gy_node x = gy_graph_input(g, "x", GY_F64, (int64_t[]){GY_BATCH, 2}, 2);
    gy_node rows = gy_graph_parameter(g, "state", GY_F64, (int64_t[]){3, 2}, 2,
                                      (gy_init){.kind = GY_INIT_CONSTANT, .scale = 4});
    gy_node both = gy_op_add(x, gy_op_reshape(rows, (int64_t[]){GY_BATCH, 2}, 2));
    gy_node fetch = gy_op_sum(gy_op_reshape(both, (int64_t[]){3, 2}, 2), 0, false);
    assert_ok(gy_graph_status(g));
    assert_ok(gy_session_new(g, &(gy_session_options){.workers = 1}, &session));
    for (int i = 0; i < 2; i++) {
        assert_ok(gy_tensor_zeros(NULL, GY_F64, (int64_t[]){3 + i, 2}, 2, &batch[i]));
    }
    assert_ok(gy_session_run(session, &(gy_feed){x, batch[0]}, 1, 0, &fetch, 1, &sum));
    assert_true(gy_tensor_get(sum, 0) == 24);
    gy_tensor_drop(sum);
    assert_status(gy_session_run(session, &(gy_feed){x, batch[1]}, 1, 0, &fetch, 1, &sum),
                  GY_SHAPE);
    assert_non_null(strstr(gy_error_text(), "f64[3,2] to f64[4,2]"));
    (void)gy_op_reshape(x, (int64_t[]){3, 3}, 2);
    assert_status(gy_graph_status(g), GY_SHAPE);
    gy_tensor_drop(batch[0]);
    gy_tensor_drop(batch[1]);
    gy_session_free(session);
    gy_graph_free(g);
}

GY_TEST_MAIN(NULL, NULL)
