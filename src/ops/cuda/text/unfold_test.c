/*
 * Goal: a convolution and its gradients are products of the columns that the text makes of
 * images, as its comment says: with plain products they give the plain definitions; bias and
 * activation are what their text does to a product.
 */
#include "cuda_text_kit.h"
#include "ops/ops.h"
#include "ops_eager.h"
#include "ops_random.h"

#include <math.h>

enum { CASES = 90 };

typedef struct conv_case {
    const gy_op *op;
    gy_attributes attributes;
    gy_view inputs[2], wanted, got, columns;
    int64_t sizes[3]; /* of the columns */
    bool is_joined;
    int at;
} conv_case;

static gy_view new_view(const int64_t *sizes, int rank)
{
    gy_view view = gy_view_of(NULL, GY_F64, sizes, rank);
    view.data = gy_alloc_zero("test.view", 1, gy_view_bytes(&view));
    assert_non_null(view.data);
    return view;
}

static gy_kernel_call call_of(conv_case *c, gy_view *output)
{
    return (gy_kernel_call){.op = c->op,
                            .attributes = &c->attributes,
                            .inputs = c->inputs,
                            .input_count = 2,
                            .outputs = output,
                            .output_count = 1};
}

static void draw_case(conv_case *c, const gy_op *op, gy_random *random)
{
    gy_ops_sample sample = {.input_count = 0};
    gy_type types[2], result;
    assert_true(ops_random_sample(op, random, &sample));
    *c = (conv_case){.op = op, .attributes = sample.attributes};
    for (int i = 0; i < 2; i++) {
        c->inputs[i] = ops_eager_draw(&sample, i, GY_F64, random);
        types[i] = ops_eager_type_of(&c->inputs[i]);
    }
    assert_ok(op->infer(&c->attributes, types, 2, &result));
    c->wanted = new_view(result.sizes, result.rank);
    c->got = new_view(result.sizes, result.rank);
    const gy_kernel_call call = call_of(c, &c->wanted);
    assert_ok(op->reference(&call));
}

/* The text's call: images and columns, in the order that it wants them. */
static gy_kernel_call moving_call(conv_case *c)
{
    const bool is_fold = c->op == &gy_ops_row_conv2d_input_gradient;
    gy_kernel_call call = call_of(c, is_fold ? &c->got : &c->columns);
    call.inputs = is_fold ? &c->columns : c->inputs;
    call.input_count = 1;
    return call;
}

/* c (m,n) += op(a) op(b), of depth k. */
static void add_product(double *c, const double *a, const double *b, const int64_t sizes[3],
                        int turns)
{
    const int64_t m = sizes[0], n = sizes[1], k = sizes[2];
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            for (int64_t l = 0; l < k; l++) {
                c[i * n + j] += a[turns == 1 ? l * m + i : i * k + l] *
                                b[turns == 2 ? j * k + l : l * n + j];
            }
        }
    }
}

/* The same with joined columns. */
static void multiply_joined(conv_case *c)
{
    const bool is_fold = c->op == &gy_ops_row_conv2d_input_gradient;
    const bool is_filter = c->op == &gy_ops_row_conv2d_filter_gradient;
    const int64_t taps = c->sizes[0], images = c->sizes[1], places = c->sizes[2];
    const gy_view *filters = is_filter ? &c->got : &c->inputs[1];
    double *f = filters->data, *columns = c->columns.data;
    double *y = c->inputs[is_fold ? 0 : 1].data;
    y = !is_fold && !is_filter ? c->got.data : y;
    for (int64_t i = 0; i < images * filters->sizes[0] * places * taps; i++) {
        const int64_t p = i % places, n = i / places % images, t = i / places / images % taps;
        const int64_t k = i / places / images / taps;
        double *of_f = &f[k * taps + t], *of_y = &y[(n * filters->sizes[0] + k) * places + p];
        double *of_columns = &columns[(t * images + n) * places + p];
        if (is_fold) {
            *of_columns += *of_f * *of_y;
        } else if (is_filter) {
            *of_f += *of_y * *of_columns;
        } else {
            *of_y += *of_f * *of_columns;
        }
    }
}

static void multiply(conv_case *c)
{
    if (c->is_joined) {
        multiply_joined(c);
        return;
    }
    const bool is_fold = c->op == &gy_ops_row_conv2d_input_gradient;
    const bool is_filter = c->op == &gy_ops_row_conv2d_filter_gradient;
    const int64_t taps = c->sizes[1], places = c->sizes[2];
    const int64_t filters = is_filter ? c->got.sizes[0] : c->inputs[1].sizes[0];
    for (int64_t n = 0; n < c->sizes[0]; n++) {
        double *columns = (double *)c->columns.data + n * taps * places;
        const double *dy =
            (const double *)c->inputs[is_fold ? 0 : 1].data + n * filters * places;
        if (is_fold) {
            add_product(columns, c->inputs[1].data, dy, (int64_t[]){taps, places, filters}, 1);
        } else if (is_filter) {
            add_product(c->got.data, dy, columns, (int64_t[]){filters, taps, places}, 2);
        } else {
            add_product((double *)c->got.data + n * filters * places, c->inputs[1].data,
                        columns, (int64_t[]){filters, places, taps}, 0);
        }
    }
}

static void check_case(const texts *all, conv_case *c, int order)
{
    const bool is_fold = c->op == &gy_ops_row_conv2d_input_gradient;
    gy_kernel_call call = moving_call(c);
    texts_order(all, order);
    if (is_fold) {
        multiply(c);
    }
    assert_int_equal(texts_run(all, c->at, &call), UINT64_MAX);
    if (!is_fold) {
        multiply(c);
    }
    for (int64_t i = 0; i < gy_view_count(&c->wanted); i++) {
        const double a = ((double *)c->wanted.data)[i], b = ((double *)c->got.data)[i];
        if (!(fabs(a - b) <= 1e-12 * (1 + fabs(a)))) {
            fail_msg("%s at %lld: %.17g, expected %.17g", c->op->name, (long long)i, b, a);
        }
    }
    gy_free(c->inputs[0].data);
    gy_free(c->inputs[1].data);
    gy_free(c->columns.data);
    gy_free(c->wanted.data);
    gy_free(c->got.data);
}

GY_TEST(convolutions_are_products_of_columns)
{
    static const gy_op *const ops[] = {&gy_ops_row_conv2d, &gy_ops_row_conv2d_input_gradient,
                                       &gy_ops_row_conv2d_filter_gradient};
    gy_random random = {.key = gy_test_seed()};
    const long count = gy_test_serial_cases(CASES);
    conv_case *cases = gy_alloc_zero("test", (size_t)count, sizeof(*cases));
    texts *all = gy_alloc("test", sizeof(*all));
    texts_open(all);
    for (long n = 0; n < count; n++) {
        conv_case *c = &cases[n];
        draw_case(c, ops[n % 3], &random);
        const gy_kernel_call call = call_of(c, &c->got);
        gy_cuda_text *text = gy_alloc("test.text", sizeof(*text));
        c->is_joined = ops_random_chance(&random, 2);
        assert_ok(gy_cuda_text_columns(&call, c->is_joined, c->sizes, text));
        assert_null(text->reason);
        c->at = texts_keep(all, text);
        c->columns = new_view(c->sizes, 3);
    }
    assert_in_range(all->source_count, 2, 2); /* there and back, whatever the sizes */
    texts_compile(all);
    for (long n = 0; n < count; n++) {
        check_case(all, &cases[n], (int)(n & 1));
    }
    texts_close(all);
    gy_free(all);
    gy_free(cases);
}

/* ---- what follows a product ---- */

/* The plain definition with bias and relu is the one without, then the text. */
static void check_finish(texts *all, const gy_op *op, bool has_bias, bool is_relu,
                         gy_random *random)
{
    gy_ops_sample sample = {.input_count = 0};
    gy_type types[3], result;
    gy_view inputs[3], wanted, got;
    assert_true(ops_random_sample(op, random, &sample));
    gy_attributes plain = sample.attributes, whole = plain;
    for (int i = 0; i < 2; i++) {
        inputs[i] = ops_eager_draw(&sample, i, GY_F64, random);
        types[i] = ops_eager_type_of(&inputs[i]);
    }
    assert_ok(op->infer(&plain, types, 2, &result));
    const bool is_conv = op == &gy_ops_row_conv2d;
    const int64_t channels = result.sizes[is_conv ? 1 : result.rank - 1];
    inputs[2] = new_view(&channels, 1);
    for (int64_t i = 0; i < channels; i++) {
        ((double *)inputs[2].data)[i] = gy_random_unit(random) - 0.5;
    }
    *(is_conv ? &whole.conv.has_bias : &whole.matmul.has_bias) = has_bias;
    *(is_conv ? &whole.conv.activation : &whole.matmul.activation) =
        is_relu ? GY_ACTIVATION_RELU : GY_ACTIVATION_NONE;
    wanted = new_view(result.sizes, result.rank);
    got = new_view(result.sizes, result.rank);
    gy_kernel_call call = {.op = op,
                           .attributes = &plain,
                           .inputs = inputs,
                           .input_count = 2,
                           .outputs = &got,
                           .output_count = 1};
    assert_ok(op->reference(&call));
    call.attributes = &whole;
    call.input_count = has_bias ? 3 : 2;
    call.outputs = &wanted;
    assert_ok(op->reference(&call));
    call.outputs = &got;
    gy_cuda_text *text = gy_alloc("test.text", sizeof(*text));
    assert_ok(gy_cuda_text_finish(&call, text));
    assert_int_equal(text->reason == NULL, has_bias || is_relu);
    if (text->reason == NULL) {
        texts_open(all);
        const int at = texts_keep(all, text);
        texts_compile(all);
        call.inputs = &inputs[2];
        call.input_count = has_bias ? 1 : 0;
        (void)texts_run(all, at, &call);
        texts_close(all);
    } else {
        gy_cuda_text_fini(text);
        gy_free(text);
    }
    for (int64_t i = 0; i < gy_view_count(&got); i++) {
        assert_true(fabs(((double *)got.data)[i] - ((double *)wanted.data)[i]) <= 1e-12);
    }
    for (int i = 0; i < 3; i++) {
        gy_free(inputs[i].data);
    }
    gy_free(wanted.data);
    gy_free(got.data);
}

GY_TEST(bias_and_relu_follow_a_product)
{
    gy_random random = {.key = gy_test_seed()};
    texts *all = gy_alloc("test", sizeof(*all));
    for (int i = 0; i < 8; i++) {
        check_finish(all, i < 4 ? &gy_ops_row_matmul : &gy_ops_row_conv2d, (i & 1) != 0,
                     (i & 2) != 0, &random);
    }
    gy_free(all);
}

GY_TEST_MAIN(NULL, NULL)
