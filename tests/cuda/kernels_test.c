/*
 * Goal: rows that multiply (products, a product that adds into its output, convolutions and
 * their gradients) have on a device the values of their plain definitions, in each type, with
 * bias and activation, and with images in any number of pieces; what a device lacks says why.
 */
#include "ops/cuda/executor_priv.h"
#include "ops_eager.h"
#include "ops_random.h"
#include "standin/standin_kit.h"

#include <math.h>

enum { CASES = 360, IMAGES_MAX = 21 };

typedef struct example {
    const gy_op *op;
    gy_attributes attributes;
    int input_count;
    gy_view inputs[4], wanted, got;
} example;

static const gy_op *const rows[] = {
    &gy_ops_row_matmul, &gy_ops_row_matmul_over_rows,      &gy_ops_row_matmul_update,
    &gy_ops_row_conv2d, &gy_ops_row_conv2d_input_gradient, &gy_ops_row_conv2d_filter_gradient};
static const gy_dtype types[] = {GY_F32, GY_F64, GY_BF16, GY_F16};

static bool is_conv(const gy_op *op)
{
    return strncmp(op->name, "conv2d", 6) == 0;
}

static gy_kernel_call call_of(const example *e, const gy_view *inputs, gy_view *output)
{
    return (gy_kernel_call){.op = e->op,
                            .attributes = &e->attributes,
                            .inputs = inputs,
                            .input_count = e->input_count,
                            .outputs = output,
                            .output_count = 1};
}

/* Some images more than the samples have, so that there are pieces. */
static void draw_images(gy_ops_sample *sample, const gy_op *op, gy_random *random)
{
    const int64_t images = ops_random_in(random, 1, IMAGES_MAX);
    sample->inputs[0].sizes[0] = images;
    if (op == &gy_ops_row_conv2d_filter_gradient) {
        sample->inputs[1].sizes[0] = images;
    } else if (op == &gy_ops_row_conv2d_input_gradient) {
        sample->attributes.conv.input_sizes[0] = images;
    }
}

/* What a convolution is to a device: any, one whose images are its columns, and of those one
 * whose images are as large as its filters. */
typedef enum conv_kind { ANY_CONV, DIRECT, WHOLE } conv_kind;

static conv_kind kind_of(const gy_ops_sample *sample, const gy_op *op)
{
    const int64_t *first = sample->inputs[0].sizes, *second = sample->inputs[1].sizes;
    const bool is_input = op == &gy_ops_row_conv2d_input_gradient;
    const int64_t *x = is_input ? sample->attributes.conv.input_sizes : first;
    const int64_t *w =
        op == &gy_ops_row_conv2d_filter_gradient ? sample->attributes.conv.input_sizes : second;
    const int32_t *stride = sample->attributes.conv.stride, *pad = sample->attributes.conv.pad;
    if (pad[0] > 0 || pad[1] > 0) {
        return ANY_CONV;
    }
    return x[2] == w[2] && x[3] == w[3] ? WHOLE
           : w[2] * w[3] == 1 && (stride[0] == 1 || x[2] == 1) && (stride[1] == 1 || x[3] == 1)
               ? DIRECT
               : ANY_CONV;
}

/* Any number of leading dimensions, each repeated in one operand, in the other or in none;
 * missing ones where all before them are. */
static void draw_leads(gy_ops_sample *sample, gy_random *random)
{
    enum { LEADS_MAX = 4 };
    int64_t sizes[2][LEADS_MAX], ends[2][2];
    const int count = (int)ops_random_in(random, 1, LEADS_MAX);
    for (int i = 0; i < 2; i++) {
        const int rank = sample->inputs[i].rank;
        ends[i][0] = sample->inputs[i].sizes[rank - 2];
        ends[i][1] = sample->inputs[i].sizes[rank - 1];
    }
    for (int dim = 0; dim < count; dim++) {
        const int64_t size = ops_random_in(random, 1, 3),
                      repeated = ops_random_in(random, 0, 3);
        sizes[0][dim] = repeated == 0 ? 1 : size;
        sizes[1][dim] = repeated == 1 ? 1 : size;
    }
    for (int i = 0; i < 2; i++) {
        int cut = 0;
        while (cut < count && sizes[i][cut] == 1 && ops_random_chance(random, 2)) {
            cut++;
        }
        memcpy(sample->inputs[i].sizes, sizes[i] + cut,
               (size_t)(count - cut) * sizeof(sizes[i][0]));
        memcpy(sample->inputs[i].sizes + count - cut, ends[i], sizeof(ends[i]));
        sample->inputs[i].rank = count - cut + 2;
    }
}

/* Operands in `dtype`; what goes with them in the type of the sums. */
static void draw(example *e, const gy_op *op, gy_dtype dtype, gy_random *random)
{
    const gy_dtype wide = dtype == GY_F64 ? GY_F64 : GY_F32;
    const int first = op == &gy_ops_row_matmul_update ? 1 : 0;
    gy_ops_sample sample = {.input_count = 0};
    gy_type of[4], result;
    if (!ops_random_sample(op, random, &sample)) {
        sample = op->samples[gy_random_below(random, (uint64_t)op->sample_count)];
    }
    if (is_conv(op)) {
        const conv_kind kind = (conv_kind)ops_random_in(random, ANY_CONV, WHOLE);
        while (kind_of(&sample, op) != kind) { /* one of some 700 is direct */
            assert_true(ops_random_sample(op, random, &sample));
        }
        draw_images(&sample, op, random);
    }
    if (op == &gy_ops_row_matmul && !ops_random_chance(random, 4)) {
        draw_leads(&sample, random);
    }
    *e =
        (example){.op = op, .attributes = sample.attributes, .input_count = sample.input_count};
    for (int i = 0; i < e->input_count; i++) {
        const bool is_operand = i == first || i == first + 1;
        e->inputs[i] = ops_eager_draw(&sample, i, is_operand ? dtype : wide, random);
        of[i] = ops_eager_type_of(&e->inputs[i]);
    }
    if (op == &gy_ops_row_matmul || op == &gy_ops_row_conv2d) {
        const bool has_bias = ops_random_chance(random, 2);
        const uint8_t activation =
            ops_random_chance(random, 2) ? GY_ACTIVATION_RELU : GY_ACTIVATION_NONE;
        e->attributes = sample.attributes;
        assert_int_equal(e->input_count, 2);
        assert_ok(op->infer(&e->attributes, of, 2, &result));
        gy_ops_sample bias = {.input_count = 1,
                              .inputs = {{.dtype = GY_F64, .rank = 1, .low = -1, .high = 1}}};
        bias.inputs[0].sizes[0] = result.sizes[is_conv(op) ? 1 : result.rank - 1];
        *(is_conv(op) ? &e->attributes.conv.has_bias : &e->attributes.matmul.has_bias) =
            has_bias;
        *(is_conv(op) ? &e->attributes.conv.activation : &e->attributes.matmul.activation) =
            activation;
        if (has_bias) {
            e->inputs[2] = ops_eager_draw(&bias, 0, wide, random);
            of[2] = ops_eager_type_of(&e->inputs[2]);
            e->input_count = 3;
        }
    }
    assert_ok(op->infer(&e->attributes, of, e->input_count, &result));
    assert_int_equal(result.dtype, wide);
    e->wanted = ops_eager_view(&result);
    e->got = ops_eager_view(&result);
    const gy_kernel_call call = call_of(e, e->inputs, &e->wanted);
    assert_ok(op->reference(&call));
}

static void free_example(example *e)
{
    for (int i = 0; i < e->input_count; i++) {
        gy_free(e->inputs[i].data);
    }
    gy_free(e->wanted.data);
    gy_free(e->got.data);
}

/* The row once on the device, its data copied there and back. */
static gy_status run_there(gy_device *device, example *e, bool *is_taken)
{
    gy_view there[4], out = e->got;
    void *kernel = NULL, *workspace = NULL;
    uint64_t mark = 0;
    const char *why = NULL;
    gy_status status = GY_OK;
    const gy_kernel_call shape = call_of(e, e->inputs, &out);
    const gy_kernel_query query = gy_kernel_query_of(&shape, 1);
    *is_taken = device->ops->accepts(device, &query, &why);
    if (!*is_taken) {
        printf("%s: %s\n", e->op->name, why);
        return GY_OK;
    }
    for (int i = 0; i < e->input_count; i++) {
        there[i] = e->inputs[i];
        assert_ok(device->ops->take(device, gy_view_bytes(&there[i]), &there[i].data));
        assert_ok(device->ops->copy_there(device, there[i].data, e->inputs[i].data,
                                          gy_view_bytes(&there[i]), &mark));
    }
    assert_ok(device->ops->take(device, gy_view_bytes(&out), &out.data));
    assert_ok(
        device->ops->take(device, device->ops->workspace_bytes(device, &query), &workspace));
    gy_kernel_call call = call_of(e, there, &out);
    call.workspace = workspace;
    status = device->ops->prepare(device, &call, "the node", &kernel);
    for (int again = 0; again < 2 && status == GY_OK; again++) { /* nothing is left behind */
        status = device->ops->launch(device, kernel, &call);
    }
    if (status == GY_OK) {
        status =
            device->ops->copy_back(device, e->got.data, out.data, gy_view_bytes(&out), &mark);
    }
    status = status == GY_OK ? device->ops->finish(device, soon()) : status;
    gy_error error;
    (void)gy_error_keep(&error, status);
    device->ops->release(device, kernel);
    for (int i = 0; i < e->input_count; i++) {
        device->ops->give(device, there[i].data);
    }
    device->ops->give(device, out.data);
    device->ops->give(device, workspace);
    return status < 0 ? gy_error_raise(&error) : GY_OK;
}

static void compare(const example *e, bool may_round)
{
    const bool rounds = may_round && e->inputs[1].dtype == GY_F32;
    const double tolerance = e->got.dtype == GY_F64 ? 1e-12 : rounds ? 5e-3 : 1e-5;
    for (int64_t i = 0; i < gy_view_count(&e->wanted); i++) {
        const double a = gy_element_get(e->wanted.dtype, e->wanted.data, i);
        const double b = gy_element_get(e->got.dtype, e->got.data, i);
        if (!(fabs(a - b) <= tolerance * (1 + fabs(a)))) {
            fail_msg("%s of %s at %lld: %.17g, expected %.17g", e->op->name,
                     gy_dtype_name(e->inputs[1].dtype), (long long)i, b, a);
        }
    }
}

GY_TEST(rows_that_multiply_give_what_plain_definitions_give)
{
    gy_random random = {.key = gy_test_seed()};
    gy_device *device = NULL;
    int taken[GY_COUNT(rows)][GY_COUNT(types)] = {{0}};
    standin->reset(gy_random_u64(&random));
    assert_ok(gy_cuda_executor_open(0, &device));
    gy_cuda_executor *executor = gy_cuda_executor_of(device);
    for (long n = 0; n < gy_test_serial_cases(CASES); n++) {
        const size_t row = (size_t)n % GY_COUNT(rows), type = (size_t)n / GY_COUNT(rows) % 4;
        example e;
        bool is_taken = false;
        executor->columns_bytes = ops_random_chance(&random, 2) ? 1 : 0;
        executor->joins_images = ops_random_chance(&random, 3);
        executor->launch_bytes = ops_random_chance(&random, 2) ? 1 : 0;
        executor->may_round = ops_random_chance(&random, 2);
        draw(&e, rows[row], types[type], &random);
        assert_ok(run_there(device, &e, &is_taken));
        if (is_taken) {
            compare(&e, executor->may_round);
        }
        taken[row][type] += is_taken;
        free_example(&e);
    }
    for (size_t i = 0; i < GY_COUNT(rows) * GY_COUNT(types); i++) {
        assert_true(taken[i / 4][i % 4] > 0 || gy_test_serial_cases(CASES) < CASES);
    }
    gy_cuda_executor_close(device);
    standin_expect_clean();
}

/* The largest difference of a product of float32 from its definition. */
static double error_of_product(void)
{
    gy_random random = {.key = 3};
    gy_device *device = NULL;
    example e;
    bool is_taken = false;
    double error = 0;
    assert_ok(gy_cuda_executor_open(0, &device));
    draw(&e, &gy_ops_row_matmul_over_rows, GY_F32, &random);
    assert_ok(run_there(device, &e, &is_taken));
    assert_true(is_taken);
    for (int64_t i = 0; i < gy_view_count(&e.wanted); i++) {
        error = fmax(error, fabs(gy_element_get(GY_F32, e.wanted.data, i) -
                                 gy_element_get(GY_F32, e.got.data, i)));
    }
    free_example(&e);
    gy_cuda_executor_close(device);
    return error;
}

GY_TEST(operands_are_rounded_to_tf32_only_where_that_is_asked_for)
{
    gy_device *device = NULL;
    standin->reset(1);
    assert_int_equal(setenv("GYRE_TF32", "1", 1), 0);
    const double rounded = error_of_product();
    assert_true(rounded > 1e-6 && rounded < 1e-2);
    assert_int_equal(setenv("GYRE_TF32", "yes", 1), 0);
    assert_status(gy_cuda_executor_open(0, &device), GY_ARG);
    assert_int_equal(unsetenv("GYRE_TF32"), 0);
    assert_true(error_of_product() < 1e-6);
    standin_expect_clean();
}

/* As many pieces as there must be, each with an unfolding and a product; one sum at the end. */
GY_TEST(large_images_go_in_pieces)
{
    const gy_attributes attributes = {.conv = {.stride = {1, 1}, .pad = {1, 1}}};
    const int64_t x[4] = {21, 2, 4, 5}, w[4] = {3, 2, 3, 3}, y[4] = {21, 3, 4, 5};
    const gy_cuda_plan_options small = {.has_products = true,
                                        .columns_bytes = (size_t)8 * 18 * 20 * 4};
    const gy_cuda_plan_options large = {.has_products = true};
    const gy_view images = gy_view_of(NULL, GY_F32, x, 4),
                  filters = gy_view_of(NULL, GY_F32, w, 4);
    const gy_view results = gy_view_of(NULL, GY_F32, y, 4);
    const struct {
        const gy_op *op;
        gy_view inputs[2], output;
        size_t small_steps, large_steps;
    } cases[] = {
        {&gy_ops_row_conv2d, {images, filters}, results, 6, 2},
        {&gy_ops_row_conv2d_input_gradient, {results, filters}, images, 6, 2},
        {&gy_ops_row_conv2d_filter_gradient, {images, results}, filters, 7, 3},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_attributes of = attributes;
        gy_view output = cases[i].output;
        gy_cuda_plan plan;
        memcpy(of.conv.input_sizes, output.sizes, sizeof(of.conv.input_sizes));
        const gy_kernel_call call = {.op = cases[i].op,
                                     .attributes = &of,
                                     .inputs = cases[i].inputs,
                                     .input_count = 2,
                                     .outputs = &output,
                                     .output_count = 1};
        assert_ok(gy_cuda_plan_make(&call, &small, &plan));
        assert_null(plan.reason);
        assert_int_equal(plan.step_count, cases[i].small_steps);
        assert_true(plan.workspace_bytes < plan.product_bytes + (64 << 10));
        gy_cuda_plan_fini(&plan);
        assert_ok(gy_cuda_plan_make(&call, &large, &plan));
        assert_int_equal(plan.step_count, cases[i].large_steps);
        gy_cuda_plan_fini(&plan);
    }
}

/* The plan of a convolution or gradient of images x, filters w and stride 1. */
static void plan_conv(const gy_op *op, const int64_t x[4], const int64_t w[4],
                      gy_cuda_plan *plan)
{
    const gy_cuda_plan_options options = {.has_products = true};
    const int64_t y[4] = {x[0], w[0], x[2] - w[2] + 1, x[3] - w[3] + 1};
    const bool is_input = op == &gy_ops_row_conv2d_input_gradient;
    const bool is_filter = op == &gy_ops_row_conv2d_filter_gradient;
    const gy_attributes attributes = {.conv = {.stride = {1, 1}}};
    const gy_view inputs[2] = {gy_view_of(NULL, GY_BF16, is_input ? y : x, 4),
                               gy_view_of(NULL, GY_BF16, is_filter ? y : w, 4)};
    gy_view output = gy_view_of(NULL, GY_F32, is_input ? x : is_filter ? w : y, 4);
    const gy_kernel_call call = {.op = op,
                                 .attributes = &attributes,
                                 .inputs = inputs,
                                 .input_count = 2,
                                 .outputs = &output,
                                 .output_count = 1};
    assert_ok(gy_cuda_plan_make(&call, &options, plan));
    assert_null(plan->reason);
}

/* No text, no columns: a batch, or one matrix of all images; a filter's gradient of many images
 * sums its partial results. */
GY_TEST(images_that_are_their_columns_do_not_move)
{
    static const int64_t x[4] = {70, 64, 14, 14}, one[4] = {32, 64, 1, 1},
                         whole[4] = {32, 64, 14, 14};
    static const struct {
        const gy_op *op;
        size_t one_steps;
        int one_texts;
        int64_t one_batch, m, n, k; /* the latter of whole images */
    } cases[] = {
        {&gy_ops_row_conv2d, 1, 0, 70, 70, 32, 64 * 14 * 14},
        {&gy_ops_row_conv2d_input_gradient, 1, 0, 70, 70, 64 * 14 * 14, 32},
        {&gy_ops_row_conv2d_filter_gradient, 4, 1, 32, 32, 64 * 14 * 14, 70},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_cuda_plan plan;
        plan_conv(cases[i].op, x, one, &plan);
        assert_int_equal(plan.step_count, cases[i].one_steps);
        assert_int_equal(plan.text_count, cases[i].one_texts);
        assert_int_equal(plan.products[0].batch, cases[i].one_batch);
        assert_true(plan.workspace_bytes <= plan.product_bytes + (1 << 20));
        gy_cuda_plan_fini(&plan);
        plan_conv(cases[i].op, x, whole, &plan);
        assert_int_equal(plan.step_count, 1);
        assert_int_equal(plan.text_count, 0);
        assert_int_equal(plan.products[0].batch, 0);
        assert_int_equal(plan.products[0].m, cases[i].m);
        assert_int_equal(plan.products[0].n, cases[i].n);
        assert_int_equal(plan.products[0].k, cases[i].k);
        gy_cuda_plan_fini(&plan);
    }
}

/* Filters that are larger than results: one product a piece, to which the next adds; also where
 * images would have been their own columns. */
GY_TEST(images_of_large_filters_are_joined)
{
    static const int64_t x[4] = {20, 64, 7, 7}, one[4] = {512, 64, 1, 1},
                         many[4] = {64, 64, 3, 3}, large[4] = {4000, 64, 7, 7};
    gy_cuda_plan plan;
    plan_conv(&gy_ops_row_conv2d_filter_gradient, x, many, &plan);
    assert_int_equal(plan.step_count, 3);
    assert_int_equal(plan.text_count, 2);
    assert_int_equal(plan.product_count, 1);
    assert_int_equal(plan.products[0].batch, 0);
    assert_int_equal(plan.products[0].k, 20 * 5 * 5);
    assert_false(plan.products[0].adds);
    gy_cuda_plan_fini(&plan);
    plan_conv(&gy_ops_row_conv2d_filter_gradient, x, one, &plan); /* 2 K C > (K + C) P Q */
    assert_int_equal(plan.step_count, 3);
    assert_int_equal(plan.products[0].k, 20 * 7 * 7);
    gy_cuda_plan_fini(&plan);
    const int64_t images[4] = {4004, 64, 14, 14};
    plan_conv(&gy_ops_row_conv2d_filter_gradient, images, many, &plan);
    assert_int_equal(plan.product_count, 3); /* the first, those that add, the last */
    assert_int_equal(plan.products[0].k % (8 * 12 * 12), 0);
    assert_false(plan.products[0].adds);
    assert_true(plan.products[1].adds && plan.products[2].adds);
    assert_int_equal(plan.products[1].k, plan.products[0].k);
    assert_true(plan.workspace_bytes < plan.product_bytes + (72u << 20));
    gy_cuda_plan_fini(&plan);
    const int64_t odd[4] = {20, 512, 9, 9}, even[4] = {20, 512, 10, 10},
                  deep[4] = {64, 512, 3, 3};
    plan_conv(&gy_ops_row_conv2d, odd, deep, &plan); /* 49 places */
    assert_int_equal(plan.step_count, 3);
    assert_int_equal(plan.products[0].n, 20 * 49);
    gy_cuda_plan_fini(&plan);
    plan_conv(&gy_ops_row_conv2d_input_gradient, odd, deep, &plan);
    assert_int_equal(plan.step_count, 3);
    assert_int_equal(plan.products[0].n, 20 * 49);
    gy_cuda_plan_fini(&plan);
    plan_conv(&gy_ops_row_conv2d, even, deep, &plan); /* 64 */
    assert_int_equal(plan.step_count, 2);
    assert_int_equal(plan.products[0].n, 64);
    gy_cuda_plan_fini(&plan);
    plan_conv(&gy_ops_row_conv2d_filter_gradient, x, large, &plan); /* a matrix already */
    assert_int_equal(plan.step_count, 1);
    gy_cuda_plan_fini(&plan);
}

/* Operands of a product: leading sizes, and both of a matrix; a rank of 0 ends them. */
typedef struct leading_case {
    gy_dtype dtype;
    bool turns_a;
    int64_t a[5], b[5], c[5]; /* up to the first 0 */
    int texts, steps;         /* what is written out; all steps */
    int64_t batch, m;
    int alignment;
} leading_case;

static gy_view view_of_sizes(gy_dtype dtype, const int64_t sizes[5])
{
    int rank = 0;
    while (rank < 5 && sizes[rank] > 0) {
        rank++;
    }
    return gy_view_of(NULL, dtype, sizes, rank);
}

GY_TEST(leading_dimensions_become_rows_batches_and_products)
{
    static const leading_case cases[] = {
        /* one row of matrices, or the same on both sides: a batch */
        {GY_F32, true, {6, 4, 4}, {6, 4, 4}, {6, 4, 4}, 0, 1, 6, 4, 16},
        {GY_F32, true, {2, 3, 4, 4}, {4, 4}, {2, 3, 4, 4}, 0, 1, 6, 4, 16},
        /* b is repeated within: rows of one matrix, with no batch or in each of one */
        {GY_F32, false, {2, 3, 4, 4}, {4, 4}, {2, 3, 4, 4}, 0, 1, 0, 24, 16},
        {GY_F32, false, {2, 3, 4, 4}, {2, 1, 4, 4}, {2, 3, 4, 4}, 0, 1, 2, 12, 16},
        {GY_F32, false, {3, 4, 4}, {2, 1, 4, 4}, {2, 3, 4, 4}, 0, 1, 2, 12, 16},
        /* each is repeated where the other is not: small ones are written out */
        {GY_F32, true, {5, 1, 4, 4}, {7, 4, 4}, {5, 7, 4, 4}, 2, 3, 35, 4, 16},
        {GY_F32, true, {2, 1, 3, 4, 4}, {2, 5, 3, 4, 4}, {2, 5, 3, 4, 4}, 1, 2, 30, 4, 16},
        /* large ones are not: products of batches */
        {GY_F32, true, {5, 1, 999, 999}, {7, 999, 999}, {5, 7, 999, 999}, 0, 5, 7, 999, 4},
        {GY_BF16, true, {5, 1, 999, 999}, {7, 999, 999}, {5, 7, 999, 999}, 0, 5, 7, 999, 2},
        {GY_BF16, true, {5, 1, 996, 992}, {7, 996, 4}, {5, 7, 992, 4}, 0, 5, 7, 992, 16},
    };
    const gy_cuda_plan_options options = {.has_products = true};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        const leading_case *it = &cases[i];
        gy_attributes attributes;
        gy_cuda_plan plan;
        const gy_view inputs[2] = {view_of_sizes(it->dtype, it->a),
                                   view_of_sizes(it->dtype, it->b)};
        gy_view output = view_of_sizes(GY_F32, it->c);
        memset(&attributes, 0, sizeof(attributes));
        attributes.matmul.transpose_a = it->turns_a;
        const gy_kernel_call call = {.op = &gy_ops_row_matmul,
                                     .attributes = &attributes,
                                     .inputs = inputs,
                                     .input_count = 2,
                                     .outputs = &output,
                                     .output_count = 1};
        assert_ok(gy_cuda_plan_make(&call, &options, &plan));
        assert_null(plan.reason);
        assert_int_equal(plan.text_count, it->texts);
        assert_int_equal(plan.step_count, it->steps);
        assert_int_equal(plan.products[0].batch, it->batch);
        assert_int_equal(plan.products[0].m, it->m);
        assert_int_equal(plan.products[0].alignment, it->alignment);
        gy_cuda_plan_fini(&plan);
    }
}

GY_TEST(what_has_no_kernel_says_why)
{
    gy_attributes attributes;
    const int64_t sizes[2] = {4, 4}, none[2] = {0, 3};
    const gy_cuda_plan_options options = {.has_products = true};
    gy_view inputs[2], output;
    gy_cuda_plan plan;
    memset(&attributes, 0, sizeof(attributes));
    gy_kernel_call call = {.op = &gy_ops_row_matmul,
                           .attributes = &attributes,
                           .inputs = inputs,
                           .input_count = 2,
                           .outputs = &output,
                           .output_count = 1};
    inputs[0] = inputs[1] = output = gy_view_of(NULL, GY_F32, sizes, 2);
    assert_ok(gy_cuda_plan_make(&call, &(gy_cuda_plan_options){.has_products = false}, &plan));
    assert_string_equal(plan.reason, "there is no cuBLASLt");
    gy_cuda_plan_fini(&plan);
    output = gy_view_of(NULL, GY_F32, none, 2);
    assert_ok(gy_cuda_plan_make(&call, &options, &plan));
    assert_string_equal(plan.reason, "it is empty");
    gy_cuda_plan_fini(&plan);
    output = gy_view_of(NULL, GY_F32, sizes, 2);
    inputs[1].dtype = GY_F64;
    assert_ok(gy_cuda_plan_make(&call, &options, &plan));
    assert_string_equal(plan.reason, "no product of these types");
    gy_cuda_plan_fini(&plan);
}

/* Each call of a convolution in pieces fails once: by name, and nothing is left. */
GY_TEST(a_call_that_fails_ends_the_kernel)
{
    static const char *const symbols[] = {"cublasLtMatmulDescCreate",
                                          "cublasLtMatrixLayoutCreate",
                                          "cublasLtMatmulAlgoGetHeuristic",
                                          "cublasLtMatmul",
                                          "nvrtcCompileProgram",
                                          "cuModuleLoadDataEx",
                                          "cuModuleGetFunction",
                                          "cuLaunchKernel"};
    gy_random random = {.key = 12};
    int failures = 0;
    example e;
    draw(&e, &gy_ops_row_conv2d_filter_gradient, GY_BF16, &random);
    for (size_t i = 0; i < GY_COUNT(symbols); i++) {
        gy_status status = GY_STATE;
        for (int n = 1; status != GY_OK; n++) {
            const int64_t live = gy_alloc_live();
            gy_device *device = NULL;
            bool is_taken = false;
            standin->reset((uint64_t)n);
            assert_ok(gy_cuda_executor_open(0, &device));
            gy_cuda_executor_of(device)->columns_bytes = 1;
            standin->fail_call(symbols[i], n, 14);
            status = run_there(device, &e, &is_taken);
            if (status != GY_OK && strstr(gy_error_text(), symbols[i]) == NULL) {
                fail_msg("%s, call %d: %s", symbols[i], n, gy_error_text());
            }
            failures += status != GY_OK;
            gy_cuda_executor_close(device);
            assert_int_equal(gy_alloc_live(), live);
            standin_expect_clean();
        }
    }
    printf("%d calls failed\n", failures);
    assert_in_range(failures, 12, 200);
    free_example(&e);
}

/* ---- the table ---- */

/* All rows that no device runs, whatever the views: kept exact. */
static const gy_op *const absents[] = {
    &gy_ops_row_input,     &gy_ops_row_parameter,      &gy_ops_row_literal,
    &gy_ops_row_assign,    &gy_ops_row_batch_norm,     &gy_ops_row_variance,
    &gy_ops_row_reorder,   &gy_ops_row_to_device,      &gy_ops_row_to_host,
    &gy_ops_row_allreduce, &gy_ops_row_reduce_scatter, &gy_ops_row_allgather,
    &gy_ops_row_alltoall,  &gy_ops_row_send,           &gy_ops_row_receive,
};

/* Has the row a plan over one of its samples? Else `why`. */
static bool has_plan(const gy_op *op, const char **why)
{
    gy_random random = {.key = 5};
    const gy_cuda_plan_options options = {.has_products = true};
    bool is_planned = false;
    *why = gy_cuda_text_reason(op);
    for (int s = 0; s < op->sample_count && !is_planned; s++) {
        gy_view inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
        gy_type of[GY_OP_INPUTS_MAX], results[GY_OP_OUTPUTS_MAX];
        gy_cuda_plan plan;
        for (int i = 0; i < op->samples[s].input_count; i++) {
            inputs[i] = ops_eager_draw(&op->samples[s], i, GY_F32, &random);
            of[i] = ops_eager_type_of(&inputs[i]);
            gy_free(inputs[i].data);
            inputs[i].data = NULL;
        }
        assert_ok(
            op->infer(&op->samples[s].attributes, of, op->samples[s].input_count, results));
        for (int o = 0; o < op->output_count; o++) {
            outputs[o] = gy_view_of(NULL, results[o].dtype, results[o].sizes, results[o].rank);
        }
        const gy_kernel_call call = {.op = op,
                                     .attributes = &op->samples[s].attributes,
                                     .inputs = inputs,
                                     .input_count = op->samples[s].input_count,
                                     .outputs = outputs,
                                     .output_count = op->output_count};
        assert_ok(gy_cuda_plan_make(&call, &options, &plan));
        is_planned = plan.reason == NULL;
        *why = is_planned ? NULL : plan.reason;
        gy_cuda_plan_fini(&plan);
    }
    return is_planned;
}

GY_TEST(rows_that_no_device_runs_are_these_and_say_why)
{
    int planned = 0;
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        const char *why = NULL;
        size_t at = 0;
        while (at < GY_COUNT(absents) && absents[at] != op) {
            at++;
        }
        const bool is_absent = at < GY_COUNT(absents);
        if (op == &gy_ops_row_fused) { /* has no samples: its own test draws programs */
            continue;
        }
        if (has_plan(op, &why) == is_absent || (is_absent && why == NULL)) {
            fail_msg("%s: %s", op->name, why != NULL ? why : "has a kernel");
        }
        planned += !is_absent;
        if (is_absent) {
            printf("%s: %s\n", op->name, why);
        }
    }
    printf("%d rows have kernels, %zu have none\n", planned, GY_COUNT(absents));
}

/* Whichever of its allocations fails, it says so and leaves none. */
GY_TEST(without_memory_there_is_no_plan)
{
    gy_random random = {.key = 9};
    for (size_t row = 0; row < GY_COUNT(rows); row++) {
        example e;
        const gy_cuda_plan_options options = {.has_products = true, .columns_bytes = 1};
        draw(&e, rows[row], GY_F64, &random);
        const gy_kernel_call call = call_of(&e, e.inputs, &e.got);
        const int64_t live = gy_alloc_live();
        gy_status status = GY_NOMEM;
        for (int n = 1; status != GY_OK; n++) {
            gy_cuda_plan plan;
            gy_alloc_fail_after(n);
            status = gy_cuda_plan_make(&call, &options, &plan);
            gy_alloc_fail_after(0);
            assert_true(status == GY_OK || status == GY_NOMEM);
            gy_cuda_plan_fini(&plan);
            assert_int_equal(gy_alloc_live(), live);
            assert_in_range(n, 1, 1000);
        }
        free_example(&e);
    }
}

GY_TEST_MAIN(standin_find, NULL)
