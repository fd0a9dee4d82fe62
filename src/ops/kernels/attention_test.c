/* Goal: attention over packed q, k and v gives the bits that it gives over the three apart, and
 * so does its gradient; operands of 16 bits give what float64 gives of them, within the
 * roundings of probabilities; what is not seen does not matter. */
#include "ops/kernels/libraries.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { WORKERS = 1 };

static gy_view value(gy_random *random, gy_dtype dtype, const int64_t *sizes, int rank)
{
    gy_view view = gy_view_of(NULL, dtype, sizes, rank);
    view.data = gy_alloc("test", gy_view_bytes(&view));
    assert_non_null(view.data);
    for (int64_t i = 0; i < gy_view_count(&view); i++) {
        gy_element_set(dtype, view.data, i, 4 * gy_random_unit(random) - 2);
    }
    return view;
}

static void run_by(const gy_kernel *kernel, const gy_kernel_query *query, gy_view *outputs,
                   gy_engine *engine)
{
    gy_kernel_call call = {.op = query->op,
                           .attributes = query->attributes,
                           .inputs = query->inputs,
                           .input_count = query->input_count,
                           .outputs = outputs,
                           .output_count = query->output_count,
                           .engine = engine};
    call.workspace = gy_alloc("test", kernel->workspace_bytes(query));
    assert_non_null(call.workspace);
    assert_ok(kernel->prepare(query, &call.state));
    assert_ok(kernel->run(&call));
    kernel->release(call.state);
    gy_free(call.workspace);
}

static gy_kernel_query query_of(const gy_op *op, const gy_attributes *attributes,
                                gy_view *inputs, int input_count, gy_view *outputs)
{
    return (gy_kernel_query){.op = op,
                             .attributes = attributes,
                             .inputs = inputs,
                             .input_count = input_count,
                             .outputs = outputs,
                             .output_count = op->output_count,
                             .workers = WORKERS};
}

static void run(const gy_op *op, const gy_attributes *attributes, gy_view *inputs,
                int input_count, gy_view *outputs)
{
    const gy_kernel_query query = query_of(op, attributes, inputs, input_count, outputs);
    const gy_kernel *kernel = gy_kernel_choose(&query);
    assert_non_null(kernel);
    run_by(kernel, &query, outputs, NULL);
}

static gy_dtype result_of(gy_dtype operands)
{
    return operands == GY_F64 ? GY_F64 : GY_F32;
}

static void free_views(const gy_view *views, int count)
{
    for (int i = 0; i < count; i++) {
        gy_free(views[i].data);
    }
}

/* Copy part `part` of (rows,3,width) to (rows,width), or back. */
static void copy_part(const gy_view *packed, int part, const gy_view *plain, bool is_back)
{
    const size_t row = (size_t)plain->sizes[3] * gy_dtype_bytes(plain->dtype);
    for (int64_t r = 0; r < gy_view_count(plain) / plain->sizes[3]; r++) {
        char *in = (char *)packed->data + (size_t)(3 * r + part) * row;
        char *out = (char *)plain->data + (size_t)r * row;
        memcpy(is_back ? in : out, is_back ? out : in, row);
    }
}

/* sizes: B T H d */
static void check(gy_random *random, gy_dtype dtype, const int64_t sizes[4], bool is_causal)
{
    const gy_attributes attributes = {.attention = {.is_causal = is_causal}};
    const int64_t packed[5] = {sizes[0], sizes[1], sizes[2], 3, sizes[3]};
    const int64_t lse[3] = {sizes[0], sizes[2], sizes[1]};
    const gy_dtype result = result_of(dtype);
    gy_view plain[6], slopes[3], out[2], all[4], slope[1], expected;
    all[0] = value(random, dtype, packed, 5);
    slope[0] = value(random, result, packed, 5);
    expected = value(random, result, packed, 5);
    for (int i = 0; i < 6; i++) {
        plain[i] = value(random, i == 3 || i == 4 ? result : dtype, i == 4 ? lse : sizes,
                         i == 4 ? 3 : 4);
        if (i < 3) {
            slopes[i] = value(random, result, sizes, 4);
            copy_part(&all[0], i, &plain[i], false);
        }
    }
    out[0] = value(random, result, sizes, 4);
    out[1] = value(random, result, lse, 3);
    run(&gy_ops_row_attention, &attributes, plain, 3, &plain[3]);
    run(&gy_ops_row_attention_packed, &attributes, all, 1, out);
    assert_memory_equal(out[0].data, plain[3].data, gy_view_bytes(&out[0]));
    assert_memory_equal(out[1].data, plain[4].data, gy_view_bytes(&out[1]));

    all[1] = out[0];
    all[2] = out[1];
    all[3] = plain[5];
    run(&gy_ops_row_attention_gradient, &attributes, plain, 6, slopes);
    run(&gy_ops_row_attention_packed_gradient, &attributes, all, 4, slope);
    for (int i = 0; i < 3; i++) {
        copy_part(&expected, i, &slopes[i], true);
    }
    assert_memory_equal(slope[0].data, expected.data, gy_view_bytes(&expected));
    free_views((const gy_view[]){all[0], slope[0], expected, out[0], out[1]}, 5);
    free_views(slopes, 3);
    free_views(plain, 6);
}

GY_TEST(packed_is_the_same_as_apart)
{
    static const int64_t sizes[][4] = {{2, 130, 2, 5}, {1, 530, 2, 3}, {5, 65, 1, 64}};
    gy_random random = {.key = gy_test_seed()};
    static const gy_dtype dtypes[] = {GY_F32, GY_F64, GY_BF16, GY_F16};
    for (size_t k = 0; k < 2 * GY_COUNT(sizes); k++) {
        for (size_t i = 0; i < GY_COUNT(dtypes); i++) {
            check(&random, dtypes[i], sizes[k / 2], k % 2 == 0);
        }
    }
}

/* ---- 16 bits beside float64 ---- */

enum { Q, K, V, OUT, LSE, DOUT, INPUTS };

/* Sizes, what a kernel reads and gives, and in float64: its results and what their terms sum up
 * to without their signs. */
typedef struct heads {
    int64_t b, t, s, h, d, e;
    double scale;
    bool is_causal;
    gy_dtype dtype;
    gy_view in[INPUTS], got[3];
    double *expected[5], *size[5]; /* out, lse; of q, k, v */
} heads;

static int64_t seen(const heads *a, int64_t t)
{
    return a->is_causal ? t + a->s - a->t + 1 : a->s;
}

/* Element i of position `at` of head (b,h) of a value (B,positions,H,width). */
static int64_t place(const heads *a, int64_t b, int64_t h, int64_t positions, int64_t at,
                     int64_t width, int64_t i)
{
    return ((b * positions + at) * a->h + h) * width + i;
}

static double q_at(const heads *a, int64_t b, int64_t h, int64_t t, int64_t i)
{
    return gy_element_get(a->dtype, a->in[Q].data, place(a, b, h, a->t, t, a->d, i));
}

static double k_at(const heads *a, int64_t b, int64_t h, int64_t s, int64_t i)
{
    return gy_element_get(a->dtype, a->in[K].data, place(a, b, h, a->s, s, a->d, i));
}

static double v_at(const heads *a, int64_t b, int64_t h, int64_t s, int64_t i)
{
    return gy_element_get(a->dtype, a->in[V].data, place(a, b, h, a->s, s, a->e, i));
}

static double score(const heads *a, int64_t b, int64_t h, int64_t t, int64_t s)
{
    double sum = 0;
    for (int64_t i = 0; i < a->d; i++) {
        sum += q_at(a, b, h, t, i) * k_at(a, b, h, s, i);
    }
    return a->scale * sum;
}

static void define_row(heads *a, int64_t b, int64_t h, int64_t t)
{
    double sum = 0;
    for (int64_t s = 0; s < seen(a, t); s++) {
        sum += exp(score(a, b, h, t, s));
    }
    const double lse = log(sum);
    a->expected[1][(b * a->h + h) * a->t + t] = lse;
    a->size[1][(b * a->h + h) * a->t + t] = 1 + fabs(lse);
    for (int64_t s = 0; s < seen(a, t); s++) {
        const double p = exp(score(a, b, h, t, s) - lse);
        for (int64_t i = 0; i < a->e; i++) {
            const int64_t to = place(a, b, h, a->t, t, a->e, i);
            a->expected[0][to] += p * v_at(a, b, h, s, i);
            a->size[0][to] += p * fabs(v_at(a, b, h, s, i));
        }
    }
}

/* Of the out and lse that the gradient is given. */
static void define_slopes(heads *a, int64_t b, int64_t h, int64_t t)
{
    const double lse = gy_element_get(GY_F32, a->in[LSE].data, (b * a->h + h) * a->t + t);
    for (int64_t s = 0; s < seen(a, t); s++) {
        const double p = exp(score(a, b, h, t, s) - lse);
        double slope = 0, slope_size = 0;
        for (int64_t i = 0; i < a->e; i++) {
            const int64_t at = place(a, b, h, a->t, t, a->e, i);
            const int64_t to = place(a, b, h, a->s, s, a->e, i);
            const double dout = gy_element_get(a->dtype, a->in[DOUT].data, at);
            const double v = v_at(a, b, h, s, i),
                         out = gy_element_get(GY_F32, a->in[OUT].data, at);
            slope += dout * (v - out);
            slope_size += fabs(dout * v) + fabs(dout * out);
            a->expected[4][to] += p * dout;
            a->size[4][to] += fabs(p * dout);
        }
        for (int64_t i = 0; i < a->d; i++) {
            const int64_t of_q = place(a, b, h, a->t, t, a->d, i);
            const int64_t of_k = place(a, b, h, a->s, s, a->d, i);
            const double q = q_at(a, b, h, t, i), k = k_at(a, b, h, s, i);
            a->expected[2][of_q] += a->scale * p * slope * k;
            a->size[2][of_q] += a->scale * p * slope_size * fabs(k);
            a->expected[3][of_k] += a->scale * p * slope * q;
            a->size[3][of_k] += a->scale * p * slope_size * fabs(q);
        }
    }
}

static void each_row(heads *a, void (*fn)(heads *a, int64_t b, int64_t h, int64_t t))
{
    for (int64_t i = 0; i < a->b * a->h * a->t; i++) {
        fn(a, i / a->t / a->h, i / a->t % a->h, i % a->t);
    }
}

static void compare(const heads *a, const char *how, int first, int count)
{
    static const char *const names[] = {"out", "lse", "dq", "dk", "dv"};
    /* Probabilities and slopes are rounded to bf16 for their products; f16 is widened. */
    const double share = a->dtype == GY_BF16 ? 0x1p-8 : 0x1p-14;
    for (int k = 0; k < count; k++) {
        const int which = first + k;
        GY_ASSERT(which >= 0 && which < (int)GY_COUNT(names));
        const double *expected = a->expected[which], *size = a->size[which];
        for (int64_t i = 0; i < gy_view_count(&a->got[k]); i++) {
            const double got = gy_element_get(GY_F32, a->got[k].data, i);
            const double most = (which == 1 ? 0x1p-14 : share) * size[i];
            if (!(fabs(got - expected[i]) <= most)) {
                fail_msg("%s %s (%lld,%lld,%lld,%lld,%lld,%lld)%s: %s %lld is %.9g, expected "
                         "%.9g within %.3g",
                         gy_dtype_name(a->dtype), how, (long long)a->b, (long long)a->t,
                         (long long)a->s, (long long)a->h, (long long)a->d, (long long)a->e,
                         a->is_causal ? " causal" : "", names[which], (long long)i, got,
                         expected[i], most);
            }
        }
    }
}

/* Pieces that run beside each other give the same bits. */
static void check_workers(const gy_kernel *kernel, const gy_kernel_query *query, gy_view *got)
{
    gy_engine *engine = NULL;
    gy_view again[3];
    gy_kernel_query shared = *query;
    shared.workers = 3;
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = 3}, &engine));
    for (int k = 0; k < query->output_count; k++) {
        again[k] = got[k];
        again[k].data = gy_alloc("test", gy_view_bytes(&got[k]));
        assert_non_null(again[k].data);
    }
    run_by(kernel, &shared, again, engine);
    for (int k = 0; k < query->output_count; k++) {
        assert_memory_equal(again[k].data, got[k].data, gy_view_bytes(&got[k]));
    }
    free_views(again, query->output_count);
    gy_engine_free(engine);
}

/* By every kernel that takes it; how many do? */
static int run_all(heads *a, bool is_forward)
{
    const gy_op *op = is_forward ? &gy_ops_row_attention : &gy_ops_row_attention_gradient;
    const gy_attributes attributes = {
        .attention = {.is_causal = a->is_causal, .scale = a->scale}};
    gy_kernel_query query =
        query_of(op, &attributes, a->in, is_forward ? 3 : (int)INPUTS, a->got);
    int taken = 0;
    for (const gy_kernel *const *kernel = gy_ops_kernels(op); *kernel != NULL; kernel++) {
        if ((*kernel)->accepts(&query)) {
            taken++;
            run_by(*kernel, &query, a->got, NULL);
            compare(a, (*kernel)->name, is_forward ? 0 : 2, op->output_count);
            check_workers(*kernel, &query, a->got);
        }
    }
    return taken;
}

static void check_half(gy_random *random, heads *a)
{
    const int64_t q[] = {a->b, a->t, a->h, a->d}, k[] = {a->b, a->s, a->h, a->d};
    const int64_t v[] = {a->b, a->s, a->h, a->e}, out[] = {a->b, a->t, a->h, a->e};
    const int64_t lse[] = {a->b, a->h, a->t};
    const int64_t *const sizes[] = {q, k, v, out, lse, out};
    const int units = a->dtype == GY_BF16 && gy_kernel_has_bf16();
    for (int i = 0; i < INPUTS; i++) {
        a->in[i] =
            value(random, i == OUT || i == LSE ? GY_F32 : a->dtype, sizes[i], i == LSE ? 3 : 4);
    }
    for (int i = 0; i < 5; i++) { /* out, lse, q, k, v */
        const size_t count = (size_t)gy_view_count(&a->in[(i + OUT) % 5]);
        a->expected[i] = gy_alloc_zero("test", count, sizeof(double));
        a->size[i] = gy_alloc_zero("test", count, sizeof(double));
        assert_non_null(a->expected[i]);
        assert_non_null(a->size[i]);
    }
    each_row(a, define_row);
    a->got[0] = value(random, GY_F32, out, 4);
    a->got[1] = value(random, GY_F32, lse, 3);
    assert_int_equal(run_all(a, true), 1 + units);
    free_views(a->got, 2);
    for (int i = 0; i < 2; i++) { /* the gradient is given what is right */
        for (int64_t j = 0; j < gy_view_count(&a->in[OUT + i]); j++) {
            gy_element_set(GY_F32, a->in[OUT + i].data, j, a->expected[i][j]);
        }
    }
    each_row(a, define_slopes);
    for (int i = 0; i < 3; i++) {
        a->got[i] = value(random, GY_F32, sizes[i], 4);
    }
    assert_int_equal(run_all(a, false), 1 + units);
    free_views(a->got, 3);
    free_views(a->in, INPUTS);
    for (int i = 0; i < 5; i++) {
        gy_free(a->expected[i]);
        gy_free(a->size[i]);
    }
}

GY_TEST(sixteen_bits_are_near_float64)
{
    gy_random random = {.key = gy_test_seed()};
    for (int trial = 0; trial < 24; trial++) {
        heads a = {.dtype = trial % 3 == 0 ? GY_F16 : GY_BF16,
                   .is_causal = trial % 2 == 0,
                   .scale = trial % 4 == 1 ? 0.5 : 0.2};
        a.b = 1 + (int64_t)gy_random_below(&random, 2);
        a.h = 1 + (int64_t)gy_random_below(&random, 3);
        a.t = 1 + (int64_t)gy_random_below(&random, trial % 5 == 0 ? 150 : 40);
        a.s = a.t + (int64_t)gy_random_below(&random, trial % 4 == 0 ? 3 : 30);
        a.d = 1 + (int64_t)gy_random_below(&random, 40);
        a.e = trial % 2 == 0 ? a.d : 1 + (int64_t)gy_random_below(&random, 40);
        check_half(&random, &a);
    }
    heads long_keys = {.dtype = GY_BF16, .b = 1, .h = 1, .t = 3, .s = 530, .d = 16, .e = 5};
    long_keys.scale = 0.25;
    check_half(&random, &long_keys);
}

/* Which of (1,count,1,width) has no NaN at all, as a string of marks. */
static void marks_of(const gy_view *view, char *marks)
{
    const int64_t width = view->sizes[3];
    for (int64_t t = 0; t < view->sizes[1]; t++) {
        int bad = 0;
        for (int64_t i = 0; i < width; i++) {
            bad += isnan(gy_element_get(GY_F32, view->data, t * width + i)) ? 1 : 0;
        }
        marks[t] = bad == 0 ? '.' : 'N';
    }
    marks[view->sizes[1]] = '\0';
}

/* A NaN in the key and the value of position 4 of 6 is one in what sees them alone. */
GY_TEST(what_is_not_seen_is_not_told)
{
    gy_random random = {.key = gy_test_seed()};
    const int64_t sizes[] = {1, 6, 1, 20}, lse[] = {1, 1, 6};
    const gy_attributes attributes = {.attention = {.is_causal = true}};
    for (gy_dtype dtype = GY_F16; dtype <= GY_BF16; dtype++) {
        gy_view in[INPUTS], slopes[3];
        char marks[8];
        for (int i = 0; i < INPUTS; i++) {
            in[i] = value(&random, i == OUT || i == LSE ? GY_F32 : dtype,
                          i == LSE ? lse : sizes, i == LSE ? 3 : 4);
        }
        for (int i = 0; i < 3; i++) {
            slopes[i] = value(&random, GY_F32, sizes, 4);
        }
        gy_element_set(dtype, in[K].data, 4 * 20 + 3, NAN);
        run(&gy_ops_row_attention, &attributes, in, 3, &in[OUT]);
        marks_of(&in[OUT], marks);
        assert_string_equal(marks, "....NN");
        run(&gy_ops_row_attention_gradient, &attributes, in, INPUTS, slopes);
        marks_of(&slopes[Q], marks);
        assert_string_equal(marks, "....NN");
        gy_element_set(dtype, in[K].data, 4 * 20 + 3, 1);
        gy_element_set(dtype, in[Q].data, 2 * 20 + 3, NAN);
        run(&gy_ops_row_attention, &attributes, in, 3, &in[OUT]);
        marks_of(&in[OUT], marks);
        assert_string_equal(marks, "..N...");
        run(&gy_ops_row_attention_gradient, &attributes, in, INPUTS, slopes);
        marks_of(&slopes[K], marks);
        assert_string_equal(marks, "NNN...");
        free_views(slopes, 3);
        free_views(in, INPUTS);
    }
}

GY_TEST_MAIN(NULL, NULL)
