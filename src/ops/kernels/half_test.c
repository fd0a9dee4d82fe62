/*
 * Goal: 16-bit floats are narrowed and widened to the bits of gy_view_copy on every
 * instruction set, and products of them are the float64 product within k 2^-24 sum |a b| by
 * every kernel, with any number of workers.
 */
#include "ops/kernels/kernels_priv.h"
#include "ops/kernels/tiles.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

enum { PATTERNS = 1 << 16, LARGE = 20000 /* results: some of them are looked at */ };

static const gy_tile_table *const tables[] = {&gy_tiles_baseline, &gy_tiles_avx2,
                                              &gy_tiles_avx512};

static uint32_t wide[PATTERNS], wanted_wide[PATTERNS];
static uint16_t half[PATTERNS], wanted_half[PATTERNS];

static void cast(int level, gy_dtype from, gy_dtype to, const void *in, void *out)
{
    const gy_tile tile = {.inputs = {in}, .output = out, .count = PATTERNS};
    tables[level]->find(GY_CODE_cast, from, to)(&tile);
}

static void convert(gy_dtype from, gy_dtype to, void *in, void *out)
{
    const int64_t size = PATTERNS;
    gy_view target = gy_view_of(out, to, &size, 1);
    const gy_view source = gy_view_of(in, from, &size, 1);
    assert_ok(gy_view_copy(&target, &source));
}

GY_TEST(every_pattern_widens_to_its_number)
{
    for (int i = 0; i < PATTERNS; i++) {
        half[i] = (uint16_t)i;
    }
    for (gy_dtype dtype = GY_F16; dtype <= GY_BF16; dtype++) {
        convert(dtype, GY_F32, half, wanted_wide);
        for (int level = 0; level <= (int)gy_tile_isa_level(); level++) {
            cast(level, dtype, GY_F32, half, wide);
            assert_memory_equal(wide, wanted_wide, sizeof(wide));
        }
    }
}

/* All that lie at, beside and half way between the numbers of either type; any bits. */
GY_TEST(floats_narrow_to_the_nearest_even)
{
    gy_random random = {.key = gy_test_seed()};
    for (int round = 0; round < 13; round++) {
        for (uint32_t i = 0; i < PATTERNS; i++) {
            static const uint32_t offsets[] = {0,      1,      0x0fff, 0x1000,
                                               0x1001, 0x7fff, 0x8000, 0x8001};
            const uint32_t any = (uint32_t)gy_random_u64(&random);
            const float small = gy_float_of_bits((uint32_t)0x33000000 + (any & 0x07ffffff));
            wide[i] = round < 8 ? i << 16 | offsets[round] : any;
            if (round >= 11) { /* f16's subnormal numbers and what lies below */
                memcpy(&wide[i], &small, sizeof(small));
            }
        }
        for (gy_dtype dtype = GY_F16; dtype <= GY_BF16; dtype++) {
            convert(GY_F32, dtype, wide, wanted_half);
            for (int level = 0; level <= (int)gy_tile_isa_level(); level++) {
                cast(level, GY_F32, dtype, wide, half);
                for (int i = 0; i < PATTERNS; i++) {
                    if (half[i] != wanted_half[i]) {
                        fail_msg("%s of %08x at level %d: %04x, expected %04x",
                                 gy_dtype_name(dtype), wide[i], level, half[i], wanted_half[i]);
                    }
                }
            }
        }
    }
}

/* ---- products ---- */

typedef struct product {
    gy_dtype dtype;
    int64_t batch, m, n, k;
    bool ta, tb, has_bias, relu, is_over_rows, shares_b;
} product;

static gy_view random_view(gy_random *random, gy_dtype dtype, const int64_t *sizes, int rank)
{
    gy_view view = gy_view_of(NULL, dtype, sizes, rank);
    const int64_t count = gy_view_count(&view);
    view.data = gy_alloc("test", (size_t)(count + 1) * gy_dtype_bytes(dtype));
    assert_non_null(view.data);
    for (int64_t i = 0; i < count; i++) {
        gy_element_set(dtype, view.data, i, 2 * gy_random_unit(random) - 1);
    }
    return view;
}

static void free_views(const gy_view *views, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gy_free(views[i].data);
    }
}

/* The sum in float64 and that of its terms' sizes. */
static double sum_of(const product *p, const gy_view *in, int64_t at, double *size)
{
    const int64_t j = at % p->n, i = at / p->n % p->m, matrix = at / (p->n * p->m);
    double sum = p->has_bias ? gy_element_get(GY_F32, in[2].data, j) : 0;
    *size = fabs(sum);
    for (int64_t l = 0; l < p->k; l++) {
        const int64_t left = p->ta ? l * p->m + i : i * p->k + l;
        const int64_t right = p->tb ? j * p->k + l : l * p->n + j;
        const double term = gy_element_get(p->dtype, in[0].data, matrix * p->m * p->k + left) *
                            gy_element_get(p->dtype, in[1].data,
                                           (p->shares_b ? 0 : matrix * p->k * p->n) + right);
        sum += term;
        *size += fabs(term);
    }
    return p->relu && sum < 0 ? 0 : sum;
}

static void compare(const product *p, const gy_view *in, const gy_view *c, const char *how)
{
    const int64_t count = p->batch * p->m * p->n, step = count > LARGE ? 197 : 1;
    for (int64_t at = 0; at < count; at += step) {
        double size = 0;
        const double sum = sum_of(p, in, at, &size), got = gy_element_get(GY_F32, c->data, at);
        if (!(fabs(got - sum) <= (double)(p->k + 2) * 0x1p-24 * size)) {
            fail_msg("%s %s (%lld,%lld,%lld)%s%s element %lld: %.9g, expected %.9g",
                     gy_dtype_name(p->dtype), how, (long long)p->m, (long long)p->n,
                     (long long)p->k, p->ta ? " ta" : "", p->tb ? " tb" : "", (long long)at,
                     got, sum);
        }
    }
}

static void run(const gy_kernel *kernel, const gy_kernel_query *query, gy_view *c,
                gy_engine *engine)
{
    void *state = NULL;
    const size_t bytes = kernel->workspace_bytes(query);
    void *workspace = gy_alloc("test", bytes + 64);
    assert_ok(kernel->prepare(query, &state));
    const gy_kernel_call call = {.op = query->op,
                                 .attributes = query->attributes,
                                 .inputs = query->inputs,
                                 .input_count = query->input_count,
                                 .outputs = c,
                                 .output_count = 1,
                                 .workspace = (void *)gy_round_up((size_t)workspace, 64),
                                 .state = state,
                                 .engine = engine};
    assert_ok(kernel->run(&call));
    kernel->release(state);
    gy_free(workspace);
}

static int check_product(gy_random *random, const product *p, gy_engine *engine)
{
    const int64_t a_sizes[] = {p->batch, p->ta ? p->k : p->m, p->ta ? p->m : p->k};
    const int64_t b_sizes[] = {p->batch, p->tb ? p->n : p->k, p->tb ? p->k : p->n};
    const int64_t c_sizes[] = {p->batch, p->m, p->n};
    const int skip = p->batch == 1 ? 1 : 0; /* dimensions */
    const int b_skip = p->shares_b ? 1 : skip;
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    if (!p->is_over_rows) {
        attributes.matmul.transpose_a = p->ta;
        attributes.matmul.transpose_b = p->tb;
        attributes.matmul.has_bias = p->has_bias;
        attributes.matmul.activation = p->relu ? GY_ACTIVATION_RELU : GY_ACTIVATION_NONE;
    }
    gy_view in[3] = {random_view(random, p->dtype, a_sizes + skip, 3 - skip),
                     random_view(random, p->dtype, b_sizes + b_skip, 3 - b_skip),
                     random_view(random, GY_F32, &p->n, 1)};
    gy_view c = random_view(random, GY_F32, c_sizes + skip, 3 - skip);
    gy_view again = random_view(random, GY_F32, c_sizes + skip, 3 - skip);
    const gy_op *op = p->is_over_rows ? &gy_ops_row_matmul_over_rows : &gy_ops_row_matmul;
    gy_kernel_query query = {.op = op,
                             .attributes = &attributes,
                             .inputs = in,
                             .input_count = p->has_bias ? 3 : 2,
                             .outputs = &c,
                             .output_count = 1,
                             .workers = engine != NULL ? 3 : 1};
    int taken = 0;
    for (const gy_kernel *const *k = gy_ops_kernels(op); *k != NULL; k++) {
        if (!(*k)->accepts(&query)) {
            continue;
        }
        taken++;
        run(*k, &query, &c, NULL);
        compare(p, in, &c, (*k)->name);
        run(*k, &query, &again, engine);
        assert_memory_equal(again.data, c.data, (size_t)gy_view_count(&c) * sizeof(float));
    }
    const gy_kernel_call plain = {.op = op,
                                  .attributes = &attributes,
                                  .inputs = in,
                                  .input_count = query.input_count,
                                  .outputs = &c,
                                  .output_count = 1};
    if (gy_view_count(&c) <= LARGE) {
        assert_ok(op->reference(&plain));
        compare(p, in, &c, "reference");
    }
    free_views((const gy_view[]){in[0], in[1], in[2], c, again}, 5);
    return taken;
}

GY_TEST(products_are_those_of_float64)
{
    gy_random random = {.key = gy_test_seed()};
    gy_engine *engine = NULL;
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = 3}, &engine));
    for (int trial = 0; trial < 44; trial++) {
        product p = {.dtype = trial % 2 == 0 ? GY_BF16 : GY_F16, .batch = 1};
        int64_t *const sizes[] = {&p.m, &p.n, &p.k};
        for (int i = 0; i < 3; i++) {
            *sizes[i] = (int64_t)gy_random_below(&random, trial % 10 == 0 ? 3 : 70);
        }
        p.ta = (trial / 2 & 1) != 0;
        p.tb = (trial / 4 & 1) != 0;
        p.is_over_rows = trial % 7 == 0;
        p.ta = p.ta || p.is_over_rows;
        p.tb = p.tb && !p.is_over_rows;
        p.has_bias = !p.is_over_rows && trial % 3 == 0;
        p.relu = !p.is_over_rows && trial % 5 == 0;
        if (!p.is_over_rows && trial % 11 == 0) {
            p.batch = 2;
            p.shares_b = !p.ta && trial % 22 == 0;
        }
        const int taken = check_product(&random, &p, engine);
        assert_int_equal(taken, p.dtype == GY_BF16 && gy_kernel_has_bf16() ? 2 : 1);
    }
    /* in pieces */
    const product large = {.dtype = GY_BF16, .batch = 1, .m = 1030, .n = 96, .k = 700};
    (void)check_product(&random, &large, engine);
    gy_engine_free(engine);
}

/* ---- convolutions ---- */

/* Values of `from`, or their sizes, in float64. */
static gy_view in_double(const gy_view *from, bool is_size)
{
    gy_view wide_view = gy_view_of(NULL, GY_F64, from->sizes, from->rank);
    const int64_t count = gy_view_count(from);
    double *values = gy_alloc("test", (size_t)(count + 1) * sizeof(double));
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        const double value = gy_element_get(from->dtype, from->data, i);
        values[i] = is_size ? fabs(value) : value;
    }
    wide_view.data = values;
    return wide_view;
}

/* What the row's definition gives in float64. */
static gy_view define(const gy_op *op, const gy_attributes *attributes, const gy_view *in,
                      const gy_view *like, bool is_size)
{
    gy_view inputs[2] = {in_double(&in[0], is_size), in_double(&in[1], is_size)};
    gy_view out = in_double(like, false);
    const gy_kernel_call call = {.op = op,
                                 .attributes = attributes,
                                 .inputs = inputs,
                                 .input_count = 2,
                                 .outputs = &out,
                                 .output_count = 1};
    assert_ok(op->reference(&call));
    free_views(inputs, 2);
    return out;
}

/* The view in the format that a kernel asks for, with memory of its own. */
static gy_view in_format(const gy_view *from, gy_format format)
{
    gy_view to = format == GY_FORMAT_BLOCKED
                     ? gy_view_blocked(NULL, from->dtype, from->sizes)
                     : gy_view_of(NULL, from->dtype, from->sizes, from->rank);
    to.data = gy_alloc("test", gy_view_bytes(&to) + 64);
    assert_non_null(to.data);
    assert_ok(gy_view_copy(&to, from));
    return to;
}

static void run_conv(const gy_kernel *kernel, const gy_kernel_query *dense, gy_view *out,
                     gy_engine *engine, int *taken)
{
    gy_format in_formats[2] = {GY_FORMAT_DENSE}, out_format = GY_FORMAT_DENSE;
    if (kernel->formats != NULL) {
        kernel->formats(dense, in_formats, &out_format);
    }
    gy_view in[2] = {in_format(&dense->inputs[0], in_formats[0]),
                     in_format(&dense->inputs[1], in_formats[1])};
    gy_view made = in_format(out, out_format);
    gy_kernel_query query = *dense;
    query.inputs = in;
    query.outputs = &made;
    if (kernel->accepts(&query)) {
        (*taken)++;
        run(kernel, &query, &made, engine);
        assert_ok(gy_view_copy(out, &made));
    }
    free_views((const gy_view[]){in[0], in[1], made}, 3);
}

/* x (n,c,h,h), filters (k,c,r,r), stride 1, pad 1; kind 0 forward, 1 and 2 the gradients. */
static int check_conv(gy_random *random, gy_dtype dtype, int kind, const int64_t *s,
                      gy_engine *engine)
{
    const int64_t n = s[0], c = s[1], h = s[2], k = s[3], r = s[4], wide_h = h + 3 - r;
    const int64_t x[] = {n, c, h, h}, w[] = {k, c, r, r}, y[] = {n, k, wide_h, wide_h};
    const gy_op *const ops[] = {&gy_ops_row_conv2d, &gy_ops_row_conv2d_input_gradient,
                                &gy_ops_row_conv2d_filter_gradient};
    const double terms[] = {(double)(c * r * r), (double)(k * r * r),
                            (double)(n * wide_h * wide_h)};
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    for (int i = 0; i < 2; i++) {
        attributes.conv.stride[i] = attributes.conv.pad[i] = 1;
    }
    if (kind > 0) {
        memcpy(attributes.conv.input_sizes, kind == 1 ? x : w, sizeof(x));
    }
    gy_view in[2] = {random_view(random, dtype, kind == 1 ? y : x, 4),
                     random_view(random, dtype, kind == 2 ? y : w, 4)};
    gy_view out = random_view(random, GY_F32, kind == 0 ? y : kind == 1 ? x : w, 4);
    const gy_view expected = define(ops[kind], &attributes, in, &out, false);
    const gy_view size = define(ops[kind], &attributes, in, &out, true);
    gy_kernel_query query = {.op = ops[kind],
                             .attributes = &attributes,
                             .inputs = in,
                             .input_count = 2,
                             .outputs = &out,
                             .output_count = 1,
                             .workers = engine != NULL ? 3 : 1};
    int taken = 0;
    for (const gy_kernel *const *kernel = gy_ops_kernels(ops[kind]); *kernel != NULL;
         kernel++) {
        const int before = taken;
        run_conv(*kernel, &query, &out, engine, &taken);
        for (int64_t i = 0; taken > before && i < gy_view_count(&out); i++) {
            const double got = gy_element_get(GY_F32, out.data, i);
            const double sum = ((double *)expected.data)[i];
            if (!(fabs(got - sum) <= (terms[kind] + 2) * 0x1p-24 * ((double *)size.data)[i])) {
                fail_msg("%s %s %s element %lld: %.9g, expected %.9g", (*kernel)->name,
                         ops[kind]->name, gy_dtype_name(dtype), (long long)i, got, sum);
            }
        }
    }
    free_views((const gy_view[]){in[0], in[1], out, expected, size}, 5);
    return taken;
}

GY_TEST(convolutions_are_those_of_float64)
{
    gy_random random = {.key = gy_test_seed()};
    gy_engine *engine = NULL;
    static const int64_t shapes[][5] = {{2, 16, 6, 16, 3},
                                        {3, 32, 5, 16, 3},
                                        {2, 1, 7, 16, 5},
                                        {2, 3, 5, 4, 3},
                                        {1, 16, 4, 32, 1}};
    assert_ok(gy_engine_new(&(gy_engine_options){.workers = 3}, &engine));
    for (size_t i = 0; i < GY_COUNT(shapes); i++) {
        for (int kind = 0; kind < 3; kind++) {
            for (gy_dtype dtype = GY_F16; dtype <= GY_BF16; dtype++) {
                const bool is_blocked = shapes[i][1] % 16 == 0 && shapes[i][3] % 16 == 0;
                const int units = dtype == GY_BF16 && is_blocked && gy_kernel_has_bf16();
                assert_int_equal(
                    check_conv(&random, dtype, kind, shapes[i], i % 2 == 0 ? engine : NULL),
                    1 + units);
            }
        }
    }
    gy_engine_free(engine);
}

GY_TEST(operands_of_two_types_are_refused)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    gy_type out, in[2] = {{.dtype = GY_BF16, .rank = 2, .sizes = {4, 4}},
                          {.dtype = GY_F16, .rank = 2, .sizes = {4, 4}}};
    assert_int_equal(gy_ops_infer(&gy_ops_row_matmul, &attributes, in, 2, &out), GY_TYPE);
    assert_string_equal(gy_error_text(),
                        "matmul: element types differ: bf16[4,4] and f16[4,4] (cast one)");
    in[1].dtype = GY_BF16;
    assert_ok(gy_ops_infer(&gy_ops_row_matmul, &attributes, in, 2, &out));
    assert_int_equal(out.dtype, GY_F32);
    in[0].dtype = GY_I32;
    assert_int_equal(gy_ops_infer(&gy_ops_row_matmul, &attributes, in, 2, &out), GY_TYPE);
    assert_string_equal(
        gy_error_text(),
        "matmul: input 0 is i32[4,4], expected f64, f32, bf16 or f16 (cast it)");
}

GY_TEST_MAIN(NULL, NULL)
