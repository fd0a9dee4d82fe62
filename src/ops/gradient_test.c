/*
 * Goal: the gradient of every differentiable input of every sample of every row, and the
 * gradient of that gradient, agree with central differences in float64; expansions compute what
 * their rows compute.
 */
#include "ops/ops.h"
#include "ops_eager.h"
#include "ops_random.h"

#include <math.h>

#include "gy_test.h"

enum { MAX_SAMPLE_INPUTS = 6 };

static void assert_near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance)) {
        fail_msg("%.17g, expected %.17g", got, expected);
    }
}

typedef struct example {
    const gy_op *op;
    const gy_ops_sample *sample;
    int number; /* of the sample */
    gy_view inputs[MAX_SAMPLE_INPUTS];
    uint64_t weights; /* seed of the random weights */
    int weighted;     /* of the outputs: the first so many */
} example;

/* sum(a * random weights), added to `total`. */
static gy_value weighted(ops_eager *eager, gy_value a, uint64_t seed, gy_value total)
{
    const gy_type *type = ops_eager_type(&eager->builder, a);
    gy_random random = {.key = seed};
    gy_view view = ops_eager_view(type);
    for (int64_t i = 0; i < gy_view_count(&view); i++) {
        gy_element_set(view.dtype, view.data, i, 2 * gy_random_unit(&random) - 1);
    }
    gy_value weights = ops_eager_leaf(eager, &view, view.dtype);
    gy_free(view.data);
    gy_value product = gy_build2(&eager->builder, &gy_ops_row_mul, a, weights);
    gy_value sum = gy_build1(&eager->builder, &gy_ops_row_sum, product);
    return total.node < 0 ? sum : gy_build2(&eager->builder, &gy_ops_row_add, total, sum);
}

/*
 * The scalar that is differentiated: order 1: sum(weights y) over the weighted outputs; order
 * 2: the sum of weights times the first gradients. Writes the leaves of the inputs.
 */
static gy_value target(ops_eager *eager, const example *e, int order, gy_value *leaves)
{
    gy_value inputs[MAX_SAMPLE_INPUTS], wrt[MAX_SAMPLE_INPUTS], slopes[MAX_SAMPLE_INPUTS];
    int count = 0;
    for (int i = 0; i < e->sample->input_count; i++) {
        inputs[i] = leaves[i] = ops_eager_leaf(eager, &e->inputs[i], e->inputs[i].dtype);
        if ((e->sample->differentiable >> i & 1) != 0) {
            wrt[count++] = inputs[i];
        }
    }
    gy_value y = gy_build(&eager->builder, e->op, &e->sample->attributes, inputs,
                          e->sample->input_count);
    gy_value loss = GY_NO_VALUE;
    for (int k = 0; k < e->weighted; k++) {
        loss = weighted(eager, (gy_value){y.node, k}, e->weights + 100 * (uint64_t)k, loss);
    }
    if (order == 1) {
        return loss;
    }
    gy_value one = gy_build_scalar_like(&eager->builder, loss, 1);
    assert_ok(ops_eager_gradients(eager, loss, one, wrt, count, slopes));
    gy_value total = GY_NO_VALUE;
    for (int i = 0; i < count; i++) {
        if (slopes[i].node >= 0) {
            total = weighted(eager, slopes[i], e->weights + 1 + (uint64_t)i, total);
        }
    }
    return total;
}

/* NAN when there is nothing to differentiate at this order. */
static double target_value(ops_eager *eager, const example *e, int order)
{
    gy_value leaves[MAX_SAMPLE_INPUTS];
    ops_eager_reset(eager);
    gy_value loss = target(eager, e, order, leaves);
    if (eager->status != GY_OK) {
        fail_msg("%s sample %d: %s", e->op->name, e->number, eager->text);
    }
    return loss.node >= 0 ? ops_eager_get(eager, loss, 0) : NAN;
}

/* Compare the gradient with respect to one input, element by element. */
static int compare(const example *e, int order, int input, const double *slopes)
{
    const gy_view *x = &e->inputs[input];
    const double step = 1e-5;
    const int64_t count = gy_view_count(x);
    ops_eager eager;
    ops_eager_open(&eager);
    for (int64_t i = 0; i < count; i++) {
        const double kept = gy_element_get(x->dtype, x->data, i);
        gy_element_set(x->dtype, x->data, i, kept + step);
        double above = target_value(&eager, e, order);
        gy_element_set(x->dtype, x->data, i, kept - step);
        double below = target_value(&eager, e, order);
        gy_element_set(x->dtype, x->data, i, kept);
        double expected = (above - below) / (2 * step);
        double got = slopes != NULL ? slopes[i] : 0;
        if (!(fabs(got - expected) <= 2e-6 * (1 + fabs(expected)))) {
            fail_msg("%s sample %d, order %d, input %d, element %lld: gradient %.12g, "
                     "differences %.12g",
                     e->op->name, e->number, order, input, (long long)i, got, expected);
        }
    }
    ops_eager_close(&eager);
    return (int)count;
}

static int check_order(const example *e, int order)
{
    ops_eager eager;
    gy_value leaves[MAX_SAMPLE_INPUTS], slopes[MAX_SAMPLE_INPUTS];
    int compared = 0;
    ops_eager_open(&eager);
    gy_value loss = target(&eager, e, order, leaves);
    if (loss.node < 0 && eager.status == GY_OK) { /* the first gradient is zero everywhere */
        ops_eager_close(&eager);
        return 0;
    }
    gy_value one = gy_build_scalar_like(&eager.builder, loss, 1);
    gy_status status =
        ops_eager_gradients(&eager, loss, one, leaves, e->sample->input_count, slopes);
    if (status != GY_OK || eager.status != GY_OK) {
        fail_msg("%s sample %d, order %d: %s %s", e->op->name, e->number, order, eager.text,
                 gy_error_text());
    }
    for (int i = 0; i < e->sample->input_count; i++) {
        if ((e->sample->differentiable >> i & 1) == 0) {
            continue;
        }
        const double *values = NULL;
        if (slopes[i].node >= 0) {
            gy_view view = ops_eager_of(&eager, slopes[i]);
            assert_int_equal(view.dtype, GY_F64);
            assert_true(gy_view_same_shape(&view, &e->inputs[i]));
            values = view.data;
        }
        compared += compare(e, order, i, values);
    }
    ops_eager_close(&eager);
    return compared;
}

static void check_sample(const gy_op *op, const gy_ops_sample *sample, int number,
                         gy_random *random, int compared[3])
{
    example e = {.op = op, .sample = sample, .number = number};
    if (sample->differentiable == 0) {
        return;
    }
    e.weights = gy_random_u64(random);
    for (int i = 0; i < sample->input_count; i++) {
        e.inputs[i] = ops_eager_draw(sample, i, GY_F64, random);
    }
    for (e.weighted = op->output_count; e.weighted > 0; e.weighted -= op->output_count - 1) {
        compared[1] += check_order(&e, 1); /* of several outputs: all, then the first */
        compared[2] += check_order(&e, 2);
        if (e.weighted == 1) {
            break;
        }
    }
    for (int i = 0; i < sample->input_count; i++) {
        gy_free(e.inputs[i].data);
    }
}

GY_TEST(gradients_agree_with_differences)
{
    gy_random random = {.key = gy_test_seed()};
    int total[3] = {0};
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        for (int s = 0; s < op->sample_count; s++) {
            check_sample(op, &op->samples[s], s, &random, total);
        }
    }
    printf("%d first and %d second derivatives\n", total[1], total[2]);
    assert_in_range(total[1], 1000, 1000000);
    assert_in_range(total[2], 1000, 1000000);
}

/* Not where broadcasting may bring two values close to a tie. */
GY_TEST(so_over_random_shapes)
{
    gy_random random = {.key = gy_test_seed()};
    int total[3] = {0};
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        for (int round = 0;
             round < gy_test_cases(4) && op != &gy_ops_row_minimum && op != &gy_ops_row_maximum;
             round++) {
            gy_ops_sample sample;
            if (ops_random_sample(op, &random, &sample)) {
                check_sample(op, &sample, 1000 + round, &random, total);
            }
        }
    }
    printf("%d first and %d second derivatives\n", total[1], total[2]);
    assert_in_range(total[1], 400, 1000000);
    assert_in_range(total[2], 400, 1000000);
}

/* A row whose output is real has a differentiable sample, unless its gradient is zero by
 * nature. */
GY_TEST(every_gradient_is_tested)
{
    static const char *const flat[] = {
        "input",      "parameter", "literal", "fill",          "equal",   "not_equal", "less",
        "less_equal", "greater",   "argmax",  "greater_equal", "one_hot", "count",     "find"};
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        bool is_tested = op->gradient == NULL;
        for (size_t k = 0; k < GY_COUNT(flat); k++) {
            is_tested |= strcmp(op->name, flat[k]) == 0;
        }
        for (int s = 0; s < op->sample_count; s++) {
            is_tested |= op->samples[s].differentiable != 0;
        }
        if (!is_tested) {
            fail_msg("%s has a gradient and no sample that tests it", op->name);
        }
    }
}

/* Ties and zeros, where the samples do not go. */
GY_TEST(gradients_at_ties_are_as_documented)
{
    ops_eager eager;
    ops_eager_open(&eager);
    double values[4] = {2, 5, 5, 1};
    gy_view view = gy_view_of(values, GY_F64, (int64_t[]){4}, 1);
    gy_value x = ops_eager_leaf(&eager, &view, GY_F64), slope;
    gy_value y = gy_build1(&eager.builder, &gy_ops_row_max, x);
    gy_value one = gy_build_scalar_like(&eager.builder, y, 1);
    assert_ok(ops_eager_gradients(&eager, y, one, &x, 1, &slope));
    static const double shared[4] = {0, 0.5, 0.5, 0};
    for (int i = 0; i < 4; i++) {
        assert_near(ops_eager_get(&eager, slope, i), shared[i], 0);
    }
    values[0] = 0;
    x = ops_eager_leaf(&eager, &view, GY_F64);
    y = gy_build1(&eager.builder, &gy_ops_row_prod, x);
    assert_ok(ops_eager_gradients(&eager, y, one, &x, 1, &slope));
    static const double single[4] = {25, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        assert_near(ops_eager_get(&eager, slope, i), single[i], 0);
    }
    y = gy_build1(&eager.builder, &gy_ops_row_relu, x);
    gy_value ones = gy_build_broadcast_like(&eager.builder, one, y);
    assert_ok(ops_eager_gradients(&eager, y, ones, &x, 1, &slope));
    assert_near(ops_eager_get(&eager, slope, 0), 0, 0); /* relu at 0 */
    gy_value power = gy_build_scalar_like(&eager.builder, x, 0);
    y = gy_build2(&eager.builder, &gy_ops_row_pow, x, power);
    assert_ok(ops_eager_gradients(&eager, y, ones, &x, 1, &slope));
    assert_near(ops_eager_get(&eager, slope, 0), 0, 0); /* of 0^0: 0^-1 is infinite */
    assert_near(ops_eager_get(&eager, slope, 1), 0, 0);
    assert_int_equal(eager.status, GY_OK);
    ops_eager_close(&eager);
}

GY_TEST(fused_products_refuse_a_gradient)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    attributes.matmul.has_bias = true;
    ops_eager eager;
    ops_eager_open(&eager);
    double data[4] = {1, 2, 3, 4};
    gy_view square = gy_view_of(data, GY_F64, (int64_t[]){2, 2}, 2);
    gy_view line = gy_view_of(data, GY_F64, (int64_t[]){2}, 1);
    gy_value a = ops_eager_leaf(&eager, &square, GY_F64);
    gy_value bias = ops_eager_leaf(&eager, &line, GY_F64), slope;
    gy_value y =
        gy_build(&eager.builder, &gy_ops_row_matmul, &attributes, (gy_value[]){a, a, bias}, 3);
    assert_status(ops_eager_gradients(&eager, y, y, &a, 1, &slope), GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(), "before bias and activation"));
    ops_eager_close(&eager);
}

static void check_expansion(const gy_op *op, int s, gy_random *random)
{
    ops_eager eager;
    gy_value inputs[MAX_SAMPLE_INPUTS], expanded[GY_OP_OUTPUTS_MAX];
    const gy_ops_sample *sample = &op->samples[s];
    ops_eager_open(&eager);
    for (int i = 0; i < sample->input_count; i++) {
        inputs[i] = ops_eager_input(&eager, sample, i, GY_F64, random);
    }
    gy_value y = gy_build(&eager.builder, op, &sample->attributes, inputs, sample->input_count);
    const gy_applied applied = {&sample->attributes, inputs, sample->input_count, &y};
    assert_ok(op->expand(&eager.builder, &applied, expanded));
    if (eager.status != GY_OK) {
        fail_msg("%s sample %d: %s", op->name, s, eager.text);
    }
    for (int k = 0; k < op->output_count; k++, y.output++) {
        gy_view a = ops_eager_of(&eager, y), b = ops_eager_of(&eager, expanded[k]);
        assert_true(gy_view_same_shape(&a, &b));
        for (int64_t i = 0; i < gy_view_count(&a); i++) {
            assert_near(ops_eager_get(&eager, y, i), ops_eager_get(&eager, expanded[k], i),
                        1e-9);
        }
    }
    ops_eager_close(&eager);
}

GY_TEST(expansions_compute_their_rows)
{
    gy_random random = {.key = gy_test_seed()};
    int expanded = 0;
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        for (int s = 0; s < op->sample_count && op->expand != NULL; s++) {
            check_expansion(op, s, &random);
            expanded++;
        }
    }
    assert_in_range(expanded, 10, 1000);
}

GY_TEST_MAIN(NULL, NULL)
