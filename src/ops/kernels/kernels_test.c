/*
 * Goal: every kernel computes what the plain definition computes in float64, over the rows' own
 * samples and over random larger shapes, in both layouts, with any number of workers.
 */
#include "ops/kernels/kernels.h"
#include "ops/kernels/libraries.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { MOST_INPUTS = 6, GUARD = 64 };

typedef struct example {
    const gy_op *op;
    gy_attributes attributes;
    int input_count, output_count;
    bool only_blocked;                 /* of the ways to run it: the reference takes long */
    bool is_winograd;                  /* may be: a gradient, 5 by 5, stride 1, whole blocks */
    bool spreads_nan, spreads_any_nan; /* where numbers belong, in float32; in both types */
    gy_type input_types[MOST_INPUTS], output_types[GY_OP_OUTPUTS_MAX];
    double *values[MOST_INPUTS]; /* row-major, of every input */
} example;

static int64_t count_of(const gy_type *type)
{
    int64_t count = 1;
    for (int d = 0; d < type->rank; d++) {
        count *= type->sizes[d];
    }
    return count;
}

/* Memory of a view of `type`, one element past an aligned address, guarded behind. */
static gy_view new_view(const gy_type *type, gy_dtype dtype, gy_format format)
{
    gy_view view = gy_view_of(NULL, dtype, type->sizes, type->rank);
    if (format == GY_FORMAT_BLOCKED) {
        view = gy_view_blocked(NULL, dtype, type->sizes);
    }
    size_t item = gy_dtype_bytes(dtype), bytes = gy_view_bytes(&view);
    char *memory = gy_alloc("test", bytes + item + GUARD);
    assert_non_null(memory);
    memset(memory, 0x7b, bytes + item + GUARD);
    view.data = memory + item;
    return view;
}

static void free_view(const gy_view *view)
{
    const char *memory = (const char *)view->data - gy_dtype_bytes(view->dtype);
    size_t size = gy_dtype_bytes(view->dtype) + gy_view_bytes(view);
    for (int i = 0; i < GUARD; i++) {
        assert_int_equal(memory[size + (size_t)i], 0x7b);
    }
    gy_free(view->data != NULL ? (char *)view->data - gy_dtype_bytes(view->dtype) : NULL);
}

static gy_view filled_view(const example *e, int input, gy_dtype dtype, gy_format format)
{
    const gy_type *type = &e->input_types[input];
    gy_view plain = gy_view_of(e->values[input], GY_F64, type->sizes, type->rank);
    gy_view view = new_view(type, dtype, format);
    assert_ok(gy_view_copy(&view, &plain));
    return view;
}

static bool is_real(gy_dtype dtype)
{
    return dtype == GY_F64 || dtype == GY_F32;
}

/* The example's type for a tested float type. */
static gy_dtype tested(gy_dtype dtype, gy_dtype real)
{
    return is_real(dtype) ? real : dtype;
}

typedef struct result {
    gy_view outputs[GY_OP_OUTPUTS_MAX];
    int count;
    gy_status status;
} result;

static void free_result(result *r)
{
    for (int i = 0; i < r->count; i++) {
        free_view(&r->outputs[i]);
    }
}

/* ---- the plain definitions once more, for sizes where walking by index takes minutes ---- */

static void large_matmul(const example *e, double *c)
{
    bool ta = e->attributes.matmul.transpose_a, tb = e->attributes.matmul.transpose_b;
    int64_t m = e->output_types[0].sizes[0], n = e->output_types[0].sizes[1];
    int64_t k = e->input_types[0].sizes[ta ? 0 : 1];
    const double *a = e->values[0], *b = e->values[1];
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = e->attributes.matmul.has_bias ? e->values[2][j] : 0;
            for (int64_t l = 0; l < k; l++) {
                sum += a[ta ? l * m + i : i * k + l] * b[tb ? j * k + l : l * n + j];
            }
            c[i * n + j] = e->attributes.matmul.activation != 0 && sum < 0 ? 0 : sum;
        }
    }
}

/* Every product of a convolution, added to the one of the three that is wanted. */
static void large_conv(const example *e, double *out)
{
    bool is_input = e->op == &gy_ops_row_conv2d_input_gradient;
    bool is_filter = e->op == &gy_ops_row_conv2d_filter_gradient;
    const int64_t *x = is_input ? e->output_types[0].sizes : e->input_types[0].sizes;
    const int64_t *y = is_input    ? e->input_types[0].sizes
                       : is_filter ? e->input_types[1].sizes
                                   : e->output_types[0].sizes;
    const int64_t *w = is_filter ? e->output_types[0].sizes : e->input_types[1].sizes;
    memset(out, 0, (size_t)count_of(&e->output_types[0]) * sizeof(double));
    for (int64_t at = 0; at < y[0] * y[1] * y[2] * y[3]; at++) {
        int64_t j = at % y[3], i = at / y[3] % y[2], k = at / (y[3] * y[2]) % y[1];
        int64_t n = at / (y[3] * y[2] * y[1]);
        for (int64_t f = 0; f < w[2] * w[3]; f++) {
            int64_t r = i * e->attributes.conv.stride[0] - e->attributes.conv.pad[0];
            int64_t q = j * e->attributes.conv.stride[1] - e->attributes.conv.pad[1];
            r += f / w[3];
            q += f % w[3];
            if (r < 0 || r >= x[2] || q < 0 || q >= x[3]) {
                continue;
            }
            for (int64_t c = 0; c < w[1]; c++) {
                int64_t from = ((n * x[1] + c) * x[2] + r) * x[3] + q;
                int64_t tap = (k * w[1] + c) * w[2] * w[3] + f;
                if (is_input) {
                    out[from] += e->values[0][at] * e->values[1][tap];
                } else if (is_filter) {
                    out[tap] += e->values[0][from] * e->values[1][at];
                } else {
                    out[at] += e->values[0][from] * e->values[1][tap];
                }
            }
        }
    }
}

/* true: computed here. */
static bool run_large(const example *e, gy_view *out)
{
    bool is_matmul = e->op == &gy_ops_row_matmul && e->output_types[0].rank == 2;
    bool is_conv = e->op == &gy_ops_row_conv2d_input_gradient ||
                   e->op == &gy_ops_row_conv2d_filter_gradient ||
                   (e->op == &gy_ops_row_conv2d && !e->attributes.conv.has_bias);
    double work = (double)count_of(&e->output_types[0]) * (double)count_of(&e->input_types[1]);
    if ((!is_matmul && !is_conv) || work < 5e5) {
        return false;
    }
    double *values = gy_alloc("test", (size_t)count_of(&e->output_types[0]) * sizeof(double));
    (is_matmul ? large_matmul : large_conv)(e, values);
    gy_view plain = gy_view_of(values, GY_F64, out->sizes, out->rank);
    assert_ok(gy_view_copy(out, &plain));
    gy_free(values);
    return true;
}

static result run_reference(const example *e)
{
    gy_view inputs[MOST_INPUTS];
    result r = {.count = e->output_count};
    for (int i = 0; i < e->input_count; i++) {
        inputs[i] = filled_view(e, i, tested(e->input_types[i].dtype, GY_F64), GY_FORMAT_DENSE);
    }
    for (int o = 0; o < e->output_count; o++) {
        gy_dtype dtype = tested(e->output_types[o].dtype, GY_F64);
        r.outputs[o] = new_view(&e->output_types[o], dtype, GY_FORMAT_DENSE);
    }
    gy_kernel_call call = {.op = e->op,
                           .attributes = &e->attributes,
                           .inputs = inputs,
                           .input_count = e->input_count,
                           .outputs = r.outputs,
                           .output_count = r.count};
    r.status = run_large(e, &r.outputs[0]) ? GY_OK : e->op->reference(&call);
    for (int i = 0; i < e->input_count; i++) {
        free_view(&inputs[i]);
    }
    return r;
}

typedef struct manner {
    gy_dtype real;
    bool blocked;
    gy_engine *engine;
} manner;

static void ask_formats(const gy_kernel_query *query, bool blocked, gy_format *inputs,
                        gy_format *outputs)
{
    const gy_kernel *kernel = gy_ops_kernels(query->op)[0];
    gy_view views[MOST_INPUTS];
    gy_kernel_query asked = *query;
    memset(inputs, 0, MOST_INPUTS * sizeof(*inputs));
    memset(outputs, 0, GY_OP_OUTPUTS_MAX * sizeof(*outputs));
    if (kernel == NULL || kernel->formats == NULL || query->input_count == 0) {
        return;
    }
    for (int i = 0; i < query->input_count; i++) {
        views[i] = query->inputs[i];
        if (blocked && views[i].rank == 4 && views[i].sizes[1] % 16 == 0) {
            views[i].format = GY_FORMAT_BLOCKED;
        }
    }
    asked.inputs = views;
    if (query->inputs[0].dtype == GY_F32) {
        kernel->formats(&asked, inputs, outputs);
    }
}

/* false: no kernel takes it. */
static bool run_kernel(const example *e, const manner *how, result *r)
{
    gy_view inputs[MOST_INPUTS], outputs[GY_OP_OUTPUTS_MAX];
    gy_format in_formats[MOST_INPUTS], out_formats[GY_OP_OUTPUTS_MAX];
    *r = (result){.count = e->output_count};
    for (int i = 0; i < e->input_count; i++) {
        inputs[i] = gy_view_of(NULL, tested(e->input_types[i].dtype, how->real),
                               e->input_types[i].sizes, e->input_types[i].rank);
    }
    for (int o = 0; o < e->output_count; o++) {
        outputs[o] = gy_view_of(NULL, tested(e->output_types[o].dtype, how->real),
                                e->output_types[o].sizes, e->output_types[o].rank);
    }
    gy_kernel_query query = {.op = e->op,
                             .attributes = &e->attributes,
                             .inputs = inputs,
                             .input_count = e->input_count,
                             .outputs = outputs,
                             .output_count = e->output_count,
                             .workers = how->engine != NULL ? 3 : 1};
    ask_formats(&query, how->blocked, in_formats, out_formats);
    for (int i = 0; i < e->input_count; i++) {
        inputs[i].format = in_formats[i];
    }
    for (int o = 0; o < e->output_count; o++) {
        outputs[o].format = out_formats[o];
    }
    const gy_kernel *kernel = gy_kernel_choose(&query);
    if (kernel == NULL) {
        return false;
    }
    void *state = NULL, *workspace = NULL;
    size_t bytes = kernel->workspace_bytes != NULL ? kernel->workspace_bytes(&query) : 0;
    if (kernel->prepare != NULL) {
        assert_ok(kernel->prepare(&query, &state));
    }
    workspace = gy_alloc("test", GY_MAX(bytes, (size_t)64));
    for (int i = 0; i < e->input_count; i++) {
        inputs[i] = filled_view(e, i, inputs[i].dtype, inputs[i].format);
    }
    for (int o = 0; o < e->output_count; o++) {
        r->outputs[o] = new_view(&e->output_types[o], outputs[o].dtype, outputs[o].format);
    }
    gy_kernel_call call = {.op = e->op,
                           .attributes = &e->attributes,
                           .inputs = inputs,
                           .input_count = e->input_count,
                           .outputs = r->outputs,
                           .output_count = r->count,
                           .workspace = workspace,
                           .state = state,
                           .engine = how->engine};
    r->status = kernel->run(&call);
    if (r->status == GY_OK) {
        r->status = kernel->run(&call); /* nothing is left over from the first run */
    }
    for (int i = 0; i < e->input_count; i++) {
        free_view(&inputs[i]);
    }
    if (kernel->release != NULL) {
        kernel->release(state);
    }
    gy_free(workspace);
    return true;
}

/* 4e-6 of the largest value in float32, three times that by Winograd, 1e-12 in float64; a sum
 * of n random numbers may cancel and is compared with its spread, the root of n. */
static void compare(const example *e, const manner *how, const result *got,
                    const result *expected)
{
    for (int o = 0; o < e->output_count; o++) {
        const gy_view *x = &got->outputs[o], *y = &expected->outputs[o];
        int64_t count = gy_view_count(y);
        const double terms = (double)count_of(&e->input_types[0]) / (double)GY_MAX(count, 1);
        const bool is_prod = e->op == &gy_ops_row_prod; /* each factor rounds */
        double largest = e->op == &gy_ops_row_sum ? GY_MAX(sqrt(terms), 1) : 1;
        for (int64_t i = 0; i < count; i++) {
            double value = fabs(gy_element_get(y->dtype, y->data, i));
            largest = isfinite(value) && value > largest ? value : largest;
        }
        for (int64_t i = 0; i < count; i++) {
            double a = gy_element_get(x->dtype, x->data, gy_view_offset(x, i));
            double b = gy_element_get(y->dtype, y->data, i);
            double tolerance = (how->real == GY_F64 ? 1e-12 : e->is_winograd ? 12e-6 : 4e-6);
            tolerance *= is_prod ? largest * GY_MAX(terms / 32, 1) : largest;
            if (isnan(a) && (e->spreads_any_nan || (e->spreads_nan && how->real == GY_F32))) {
                continue;
            }
            if (!(fabs(a - b) <= tolerance) && !(isnan(a) && isnan(b)) && a != b) {
                fail_msg("%s %s%s output %d element %lld of %lld: %.9g, reference %.9g",
                         e->op->name, gy_dtype_name(how->real), how->blocked ? " blocked" : "",
                         o, (long long)i, (long long)count, a, b);
            }
        }
    }
}

static void same_bits(const example *e, const result *a, const result *b)
{
    for (int o = 0; o < e->output_count; o++) {
        assert_memory_equal(a->outputs[o].data, b->outputs[o].data,
                            gy_view_bytes(&a->outputs[o]));
    }
}

static gy_engine *workers;

/* Runs an example in all ways; returns how many kernels took it. */
static int check(example *e)
{
    int taken = 0;
    for (int way = e->only_blocked ? 2 : 0; way < 3; way++) {
        manner how = {.real = way == 0 ? GY_F64 : GY_F32, .blocked = way == 2};
        for (int i = 0; i < e->input_count && how.real == GY_F32; i++) {
            for (int64_t k = 0; k < count_of(&e->input_types[i]); k++) {
                if (is_real(e->input_types[i].dtype)) {
                    e->values[i][k] = (double)(float)e->values[i][k];
                }
            }
        }
        result got, again, expected = run_reference(e);
        if (run_kernel(e, &how, &got)) {
            taken++;
            assert_int_equal(got.status, expected.status);
            if (got.status == GY_OK) {
                compare(e, &how, &got, &expected);
                how.engine = workers;
                assert_true(run_kernel(e, &how, &again));
                same_bits(e, &got, &again);
                free_result(&again);
            }
            free_result(&got);
        }
        free_result(&expected);
    }
    return taken;
}

static void make_types(example *e)
{
    assert_ok(e->op->infer(&e->attributes, e->input_types, e->input_count, e->output_types));
    e->output_count = e->op->output_count;
}

static void draw(example *e, int input, double low, double high, gy_random *random)
{
    int64_t count = count_of(&e->input_types[input]);
    e->values[input] = gy_alloc("test", ((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        double value = low + (high - low) * gy_random_unit(random);
        e->values[input][i] = is_real(e->input_types[input].dtype) ? value : floor(value);
    }
}

static void free_values(example *e)
{
    for (int i = 0; i < e->input_count; i++) {
        gy_free(e->values[i]);
    }
}

/* A number in [1, 40], often small; `unit` at times. */
static int64_t stretch(gy_random *random)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 17, 33, 64};
    return sizes[gy_random_below(random, GY_COUNT(sizes))];
}

static void set_type(example *e, int input, int rank, const int64_t *sizes)
{
    e->input_types[input] = (gy_type){.dtype = GY_F64, .rank = rank};
    memcpy(e->input_types[input].sizes, sizes, (size_t)rank * sizeof(sizes[0]));
}

/* An example of a row's sample, its values drawn. */
static example drawn_example(const gy_op *op, const gy_ops_sample *sample, gy_random *random)
{
    example e = {
        .op = op, .attributes = sample->attributes, .input_count = sample->input_count};
    for (int i = 0; i < sample->input_count; i++) {
        gy_type *type = &e.input_types[i];
        type->dtype = sample->inputs[i].dtype;
        type->rank = sample->inputs[i].rank;
        memcpy(type->sizes, sample->inputs[i].sizes, sizeof(type->sizes));
        draw(&e, i, sample->inputs[i].low, sample->inputs[i].high, random);
    }
    make_types(&e);
    return e;
}

GY_TEST(samples_of_every_row)
{
    gy_random random = {.key = gy_test_seed()};
    int taken = 0, rows = 0;
    for (int k = 0; k < gy_ops_all_count; k++) {
        const gy_op *op = gy_ops_all[k];
        int of_row = 0;
        for (int s = 0; s < op->sample_count; s++) {
            example e = drawn_example(op, &op->samples[s], &random);
            of_row += check(&e);
            free_values(&e);
        }
        taken += of_row;
        rows += of_row > 0;
        if (of_row == 0 && op->reference != NULL) {
            printf("%s: the reference alone\n", op->name);
        }
    }
    printf("%d runs of kernels of %d rows\n", taken, rows);
    assert_true(rows >= 50);
}

static bool is_conv(const gy_op *op)
{
    return op == &gy_ops_row_conv2d || op == &gy_ops_row_conv2d_input_gradient ||
           op == &gy_ops_row_conv2d_filter_gradient;
}

/* A NaN in places of every real input, as far apart as a prime says; check() then demands that
 * each NaN of the definition is one of the kernel. */
static int check_with_nan(example *e)
{
    for (int i = 0; i < e->input_count; i++) {
        int64_t count = count_of(&e->input_types[i]);
        for (int64_t at = 5; at < count; at += 1009) {
            e->values[i][at] = NAN;
        }
    }
    return check(e);
}

/* Infinities, NaN and -0 go through kernels as through the plain definitions. */
GY_TEST(special_numbers_of_every_row)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0};
    gy_random random = {.key = gy_test_seed()};
    int taken = 0;
    for (int k = 0; k < gy_ops_all_count; k++) {
        const gy_op *op = gy_ops_all[k];
        for (int s = 0; s < op->sample_count; s++) {
            if (op == &gy_ops_row_matmul_update) {
                continue; /* libraries do not scale an empty product */
            }
            example e = drawn_example(op, &op->samples[s], &random);
            e.spreads_nan = is_conv(op);
            e.spreads_any_nan = strncmp(op->name, "attention", 9) == 0;
            for (int i = 0; i < e.input_count; i++) {
                int64_t count = count_of(&e.input_types[i]);
                for (int64_t at = 0; at < count && is_real(e.input_types[i].dtype); at++) {
                    if (gy_random_below(&random, 3) == 0) {
                        e.values[i][at] = special[gy_random_below(&random, 5)];
                    }
                }
            }
            taken += check(&e);
            free_values(&e);
        }
    }
    assert_in_range(taken, 200, 100000);
}

/* Far below 0 it is 0, not a small share of x. */
GY_TEST(gelu_of_large_numbers)
{
    double values[6] = {-1e30, -1e6, -100, -6, 100, 1e6};
    example e = {.op = &gy_ops_row_gelu, .input_count = 1, .values = {values}};
    set_type(&e, 0, 1, (int64_t[]){6});
    make_types(&e);
    const manner how = {.real = GY_F32};
    result got;
    assert_true(run_kernel(&e, &how, &got));
    for (int i = 0; i < 6; i++) {
        double y = gy_element_get(GY_F32, got.outputs[0].data, i);
        double expected = values[i] < 0 ? 0 : values[i];
        assert_true(fabs(y - expected) <= 2e-8);
    }
    free_result(&got);
}

/* ---- larger shapes ---- */

GY_TEST(matmuls)
{
    gy_random random = {.key = gy_test_seed()};
    static const int64_t shapes[][3] = {{64, 80, 300},   {64, 10, 512}, {100, 70, 160},
                                        {1, 33, 70},     {65, 1, 129},  {257, 10, 130},
                                        {520, 256, 512}, {5, 16, 1},    {37, 7, 128},
                                        {128, 16, 64},   {64, 1, 192}};
    for (size_t s = 0; s < GY_COUNT(shapes); s++) {
        for (int variant = 0; variant < 8; variant++) {
            int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            bool ta = (variant & 1) != 0, tb = (variant & 2) != 0, bias = (variant & 4) != 0;
            example e = {.op = &gy_ops_row_matmul, .input_count = bias ? 3 : 2};
            e.attributes.matmul.transpose_a = ta;
            e.attributes.matmul.transpose_b = tb;
            e.attributes.matmul.has_bias = bias;
            e.attributes.matmul.activation =
                variant % 4 == 0 || variant == 3 ? GY_ACTIVATION_RELU : GY_ACTIVATION_NONE;
            set_type(&e, 0, 2, ta ? (int64_t[]){k, m} : (int64_t[]){m, k});
            set_type(&e, 1, 2, tb ? (int64_t[]){n, k} : (int64_t[]){k, n});
            set_type(&e, 2, 1, &n);
            e.only_blocked = m * n * k > 30000000;
            if (e.only_blocked && ((variant != 0 && variant != 5) || gy_test_cases(8) == 1)) {
                continue; /* takes long */
            }
            for (int i = 0; i < e.input_count; i++) {
                draw(&e, i, -1, 1, &random);
            }
            make_types(&e);
            assert_int_equal(check(&e), e.only_blocked ? 1 : 3);
            if (gy_test_cases(8) == 1 ? s == 0 : !e.only_blocked || variant == 0) {
                assert_int_equal(check_with_nan(&e), e.only_blocked ? 1 : 3);
            }
            free_values(&e);
        }
    }
}

GY_TEST(convolutions)
{
    gy_random random = {.key = gy_test_seed()};
    static const int64_t shapes[][6] =
        {/* N C H K R pad */
         {3, 1, 12, 16, 5, 2}, {2, 3, 9, 32, 3, 1},   {5, 16, 7, 32, 5, 2},
         {2, 5, 8, 7, 3, 0},   {9, 32, 6, 16, 3, 1},  {1, 16, 5, 20, 1, 0},
         {0, 16, 5, 16, 3, 1}, {2, 48, 3, 16, 5, 4},  {1, 32, 7, 48, 5, 0},
         {4, 16, 6, 16, 5, 1}, {11, 64, 14, 64, 5, 2}}; /* pieces of 2 and of 1 image */
    for (size_t s = 0; s < GY_COUNT(shapes); s++) {
        const int64_t *p = shapes[s];
        for (int stride = 1; stride <= 2; stride++) {
            int64_t width = p[2] + (int64_t)(s % 3), around = 2 * p[5] - p[4];
            const int64_t x[4] = {p[0], p[1], p[2], width}, w[4] = {p[3], p[1], p[4], p[4]};
            const int64_t y[4] = {p[0], p[3], (p[2] + around) / stride + 1,
                                  (width + around) / stride + 1};
            for (int kind = 0; kind < 4; kind++) {
                if (s == GY_COUNT(shapes) - 1 &&
                    (stride == 2 || kind == 1 || gy_test_cases(8) == 1)) {
                    continue; /* takes long */
                }
                if (gy_test_cases(8) == 1 && (s + (size_t)kind) % 2 != 0) {
                    continue; /* every shape and every kind under a sanitizer, not every pair */
                }
                example e = {.op = kind <= 1   ? &gy_ops_row_conv2d
                                   : kind == 2 ? &gy_ops_row_conv2d_input_gradient
                                               : &gy_ops_row_conv2d_filter_gradient,
                             .input_count = kind == 1 ? 3 : 2,
                             .is_winograd =
                                 kind != 1 && p[4] == 5 && stride == 1 && p[1] % 16 == 0,
                             .only_blocked = s == GY_COUNT(shapes) - 1};
                for (int d = 0; d < 2; d++) {
                    e.attributes.conv.stride[d] = stride;
                    e.attributes.conv.pad[d] = (int32_t)p[5];
                }
                e.attributes.conv.has_bias = kind == 1;
                e.attributes.conv.activation = kind == 1;
                set_type(&e, 0, 4, kind == 2 ? y : x);
                set_type(&e, 1, 4, kind == 3 ? y : w);
                set_type(&e, 2, 1, &w[0]);
                memcpy(e.attributes.conv.input_sizes, kind == 2 ? x : w, sizeof(x));
                if (kind <= 1) {
                    memset(e.attributes.conv.input_sizes, 0, sizeof(x));
                }
                for (int i = 0; i < e.input_count; i++) {
                    draw(&e, i, -1, 1, &random);
                }
                make_types(&e);
                assert_true(check(&e) >= (e.only_blocked ? 1 : 2));
                bool has_nan =
                    gy_test_cases(8) == 1 ? s == 3 && kind == 1 : kind == 1 || s % 3 == 0;
                e.spreads_nan = true;
                assert_true(e.only_blocked || stride == 2 || !has_nan ||
                            check_with_nan(&e) >= 2);
                free_values(&e);
            }
        }
    }
}

GY_TEST(poolings)
{
    gy_random random = {.key = gy_test_seed()};
    const gy_op *const ops[] = {&gy_ops_row_max_pool, &gy_ops_row_max_pool_gradient,
                                &gy_ops_row_max_pool_pick, &gy_ops_row_average_pool,
                                &gy_ops_row_average_pool_gradient};
    for (int round = 0; round < gy_test_cases(40); round++) {
        int window = 2 + (int)gy_random_below(&random, 2);
        int stride = 1 + (int)gy_random_below(&random, 2);
        int pad = (int)gy_random_below(&random, 2);
        int64_t height = 4 + (int64_t)gy_random_below(&random, 9), width = 2 * window;
        int64_t out[2] = {(height + 2 * pad - window) / stride + 1,
                          (width + 2 * pad - window) / stride + 1};
        const int64_t x[4] = {2, 16 * (1 + round % 2), height, width};
        const int64_t y[4] = {x[0], x[1], out[0], out[1]};
        for (size_t k = 0; k < GY_COUNT(ops); k++) {
            example e = {.op = ops[k], .input_count = k == 1 || k == 2 ? 2 : 1};
            for (int d = 0; d < 2; d++) {
                e.attributes.pool.window[d] = window;
                e.attributes.pool.stride[d] = stride;
                e.attributes.pool.pad[d] = pad;
            }
            e.attributes.pool.count_pad = k >= 3 && round % 3 == 0;
            if (k == 4) {
                memcpy(e.attributes.pool.input_sizes, x, sizeof(x));
            }
            set_type(&e, 0, 4, k == 4 ? y : x);
            set_type(&e, 1, 4, k == 1 ? y : x);
            for (int i = 0; i < e.input_count; i++) {
                draw(&e, i, -1, 1, &random);
            }
            /* Ties, and a NaN now and then. */
            e.values[0][0] = round % 4 == 0 && k < 3 ? NAN : 0.5;
            e.values[0][1] = 0.5;
            make_types(&e);
            assert_int_equal(check(&e), 3);
            free_values(&e);
        }
    }
}

GY_TEST(random_elementwise_and_reductions)
{
    gy_random random = {.key = gy_test_seed()};
    int taken = 0;
    for (int round = 0; round < gy_test_cases(300); round++) {
        const gy_op *op = gy_ops_all[gy_random_below(&random, (uint64_t)gy_ops_all_count)];
        bool is_step = (op->flags & GY_OP_ELEMENTWISE) != 0;
        bool is_reduction = (op->flags & GY_OP_REDUCTION) != 0 || op == &gy_ops_row_mean;
        if (op == &gy_ops_row_dropout || op == &gy_ops_row_cast || op == &gy_ops_row_select ||
            (!is_step && !is_reduction)) {
            continue;
        }
        example e = {.op = op, .input_count = op->input_count};
        int rank = 1 + (int)gy_random_below(&random, 4);
        int64_t sizes[4], count = 1;
        for (int d = 0; d < rank; d++) {
            sizes[d] = count > 200 ? 1 + d % 2 : stretch(&random);
            sizes[d] *= round % 7 == 0 && d == rank - 1 && count < 10 ? 60 : 1;
            count *= sizes[d];
        }
        for (int i = 0; i < e.input_count; i++) {
            int64_t own[4];
            int skip = i > 0 ? (int)gy_random_below(&random, (uint64_t)rank) : 0;
            for (int d = skip; d < rank; d++) {
                own[d - skip] = i > 0 && gy_random_below(&random, 3) == 0 ? 1 : sizes[d];
            }
            set_type(&e, i, rank - skip, own);
            draw(&e, i,
                 op == &gy_ops_row_log || op == &gy_ops_row_pow || op == &gy_ops_row_sqrt ||
                         op == &gy_ops_row_log1p
                     ? 0.1
                     : -4,
                 op == &gy_ops_row_prod ? -3.9 : 4, &random);
        }
        if (is_reduction) {
            e.attributes.reduce.axes = (uint32_t)gy_random_below(&random, 1u << rank);
            e.attributes.reduce.keep = round % 2 == 0;
            for (int64_t i = 0; op == &gy_ops_row_prod && i < count_of(&e.input_types[0]);
                 i++) {
                e.values[0][i] = 1 + (e.values[0][i] + 4) * 0.01;
            }
        }
        make_types(&e);
        taken += check(&e);
        free_values(&e);
    }
    printf("%d runs\n", taken);
    assert_true(taken > gy_test_cases(200) / 2);
}

GY_TEST(rows_along_the_last_dimension)
{
    gy_random random = {.key = gy_test_seed()};
    const gy_op *const ops[] = {&gy_ops_row_softmax,       &gy_ops_row_log_softmax,
                                &gy_ops_row_argmax,        &gy_ops_row_layer_norm,
                                &gy_ops_row_cross_entropy, &gy_ops_row_cross_entropy_gradient};
    for (int round = 0; round < gy_test_cases(16); round++) {
        for (size_t k = 0; k < GY_COUNT(ops); k++) {
            int64_t sizes[2] = {stretch(&random), stretch(&random)};
            sizes[1] *= round % 5 == 0 && sizes[0] < 10 ? 40 : 1;
            example e = {.op = ops[k], .input_count = k < 3 ? 1 : k == 4 ? 2 : 3};
            set_type(&e, 0, 2, sizes);
            set_type(&e, 1, 1, k == 4 || k == 5 ? &sizes[0] : &sizes[1]);
            set_type(&e, 2, k == 5 ? 0 : k == 6 ? 2 : 1, k == 6 ? sizes : &sizes[1]);
            if (k == 3 || k == 6) {
                e.attributes.norm.axis_count = 1;
                e.attributes.norm.epsilon = 1e-3;
            } else if (k < 3) {
                e.attributes.axis.dim = 1;
            }
            if (k == 4 || k == 5) {
                e.input_types[1].dtype = GY_I32;
            }
            double wide = round % 3 == 0 ? 90 : 3;
            draw(&e, 0, -wide, wide, &random);
            draw(&e, 1, 0, k == 4 || k == 5 ? (double)sizes[1] : 2, &random);
            draw(&e, 2, -1, 1, &random);
            e.input_count = k < 3 ? 1 : k == 4 ? 2 : 3;
            make_types(&e);
            assert_true(check(&e) >= 2);
            e.input_count = 3;
            free_values(&e);
        }
    }
}

/* More queries and keys than a tile has, and heads for all workers. */
GY_TEST(attention_by_tiles)
{
    static const int64_t sizes[][5] = {
        {1, 130, 600, 5, 0}, {1, 70, 1030, 3, 1}, {5, 65, 65, 17, 1}};
    gy_random random = {.key = gy_test_seed()};
    for (size_t k = 0; k < 2 * GY_COUNT(sizes); k++) {
        const int64_t *n = sizes[k / 2], h = 2;
        example e = {.op = &gy_ops_row_attention, .input_count = k % 2 == 0 ? 3 : 6};
        e.op = k % 2 == 0 ? e.op : &gy_ops_row_attention_gradient;
        e.attributes.attention.is_causal = n[4] != 0;
        for (int i = 0; i < e.input_count; i++) {
            const int64_t positions = n[i == 1 || i == 2 ? 2 : 1];
            set_type(&e, i, 4, (int64_t[]){n[0], positions, h, i < 2 ? n[3] : 4});
            if (i == 4) { /* log-sum-exp */
                set_type(&e, i, 3, (int64_t[]){n[0], h, n[1]});
            }
            draw(&e, i, i == 4 ? 4 : -2, i == 4 ? 7 : 2, &random);
        }
        make_types(&e);
        assert_true(check(&e) >= 2);
        free_values(&e);
    }
}

GY_TEST(wrong_labels_are_named)
{
    const gy_op *const ops[] = {&gy_ops_row_cross_entropy, &gy_ops_row_cross_entropy_gradient};
    const int64_t sizes[3] = {3, 2, 4};
    double logits[24] = {0}, labels[6] = {0, 1, 2, 4, 5, 3}, slope[1] = {1};
    for (int k = 0; k < 2; k++) {
        example e = {.op = ops[k], .input_count = 2 + k, .values = {logits, labels, slope}};
        set_type(&e, 0, 3, sizes);
        set_type(&e, 1, 2, sizes);
        set_type(&e, 2, 0, sizes);
        e.input_types[1].dtype = GY_I64;
        make_types(&e);
        manner how = {.real = GY_F32};
        result r;
        assert_true(run_kernel(&e, &how, &r));
        assert_int_equal(r.status, GY_ARG);
        assert_non_null(strstr(gy_error_text(), "label 4 at place 3, expected 0 to 3"));
        free_result(&r);
    }
}

GY_TEST(the_description_names_the_libraries)
{
    gy_text text = {0};
    printf("%s", gy_kernels_describe(&text));
    assert_non_null(strstr(gy_text_get(&text), "oneDNN"));
    assert_non_null(strstr(gy_text_get(&text), "OpenBLAS"));
    gy_text_free(&text);
}

static int start_workers(void **state)
{
    (void)state;
    return gy_engine_new(&(gy_engine_options){.workers = 3}, &workers) == GY_OK ? 0 : -1;
}

static int end_workers(void **state)
{
    (void)state;
    gy_engine_free(workers);
    return 0;
}

GY_TEST_MAIN(start_workers, end_workers)
