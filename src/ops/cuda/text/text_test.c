/*
 * Goal: each row has a text or says why not, and its kernels give what the plain definition
 * gives in float64 (within 1e-12, float32 within 1e-5, integers and 16 bits exactly), over the
 * rows' own samples, random shapes and types and some long ones, in either order of threads.
 */
#include "cuda_text_kit.h"
#include "ops/ops.h"
#include "ops_example.h"
#include "ops_random.h"

enum { RANDOM_SAMPLES = 12, CASES_MAX = 4096 };

/* In the tested type, and where its text stands. */
typedef struct example {
    ops_example of;
    int at;
} example;

static void run_example(const texts *all, example *e)
{
    gy_kernel_call call = ops_example_call(&e->of, e->of.inputs, e->of.got);
    assert_ok(ops_example_define(&e->of));
    void *first[GY_OP_OUTPUTS_MAX] = {NULL};
    for (int order = 0; order < 2; order++) {
        texts_order(all, order);
        assert_int_equal(texts_run(all, e->at, &call), UINT64_MAX);
        for (int o = 0; o < e->of.output_count; o++) {
            const size_t bytes = gy_view_bytes(&e->of.got[o]);
            if (order == 0) {
                ops_example_compare(&e->of, "by its text");
                first[o] = gy_alloc("test", bytes);
                memcpy(first[o], e->of.got[o].data, bytes);
            } else {
                if (memcmp(first[o], e->of.got[o].data, bytes) != 0) {
                    fail_msg("%s: other bits in another order of threads", e->of.op->name);
                }
                gy_free(first[o]);
            }
        }
    }
}

/* ---- which rows have a text ---- */

typedef struct absent {
    const gy_op *op;
    const char *why; /* part of the reason */
} absent;

/* All rows that run on the CPU whatever the views: kept exact. */
static const absent absents[] = {
    {&gy_ops_row_input, "fed"},
    {&gy_ops_row_parameter, "fed"},
    {&gy_ops_row_literal, "fed"},
    {&gy_ops_row_assign, "executor stores"},
    {&gy_ops_row_matmul, "cublasLt"},
    {&gy_ops_row_matmul_over_rows, "cublasLt"},
    {&gy_ops_row_matmul_update, "cublasLt"},
    {&gy_ops_row_conv2d, "unfolded"},
    {&gy_ops_row_conv2d_input_gradient, "unfolded"},
    {&gy_ops_row_conv2d_filter_gradient, "unfolded"},
    {&gy_ops_row_batch_norm, "expansion"},
    {&gy_ops_row_variance, "expansion"},
    {&gy_ops_row_reorder, "layout"},
    {&gy_ops_row_to_device, "copy"},
    {&gy_ops_row_to_host, "copy"},
    {&gy_ops_row_allreduce, "exchanges"},
    {&gy_ops_row_reduce_scatter, "exchanges"},
    {&gy_ops_row_allgather, "exchanges"},
    {&gy_ops_row_alltoall, "exchanges"},
    {&gy_ops_row_send, "exchanges"},
    {&gy_ops_row_receive, "exchanges"},
};

GY_TEST(rows_without_a_text_are_these_and_say_why)
{
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        const char *reason = gy_cuda_text_reason(op);
        size_t at = 0;
        while (at < GY_COUNT(absents) && absents[at].op != op) {
            at++;
        }
        if (at == GY_COUNT(absents)
                ? reason != NULL
                : reason == NULL || strstr(reason, absents[at].why) == NULL) {
            fail_msg("%s: %s", op->name, reason != NULL ? reason : "has a text");
        }
    }
}

static bool has_same_text(const gy_kernel_call *a, const gy_kernel_call *b)
{
    gy_cuda_text of[2];
    assert_ok(gy_cuda_text_make(a, &of[0]));
    assert_ok(gy_cuda_text_make(b, &of[1]));
    assert_null(of[0].reason);
    assert_null(of[1].reason);
    const bool is_same = strcmp(gy_text_get(&of[0].source), gy_text_get(&of[1].source)) == 0;
    gy_cuda_text_fini(&of[0]);
    gy_cuda_text_fini(&of[1]);
    return is_same;
}

static gy_kernel_call call_over(const gy_op *op, const gy_attributes *attributes,
                                gy_view views[2], const int64_t *sizes)
{
    views[0] = gy_view_of(NULL, GY_F32, sizes, 2);
    views[1] = views[0];
    return (gy_kernel_call){.op = op,
                            .attributes = attributes,
                            .inputs = &views[0],
                            .input_count = 1,
                            .outputs = &views[1],
                            .output_count = 1};
}

/* Another batch, another rate: the kernel that is there serves. Another type: it does not. */
GY_TEST(sizes_and_attributes_are_no_part_of_a_text)
{
    static const gy_op *const ops[] = {&gy_ops_row_exp, &gy_ops_row_softmax, &gy_ops_row_pad,
                                       &gy_ops_row_cumsum, &gy_ops_row_argmax};
    const int64_t small[2] = {32, 300}, large[2] = {77, 260};
    for (size_t n = 0; n < GY_COUNT(ops); n++) {
        gy_attributes one, other;
        gy_view a[2], b[2];
        memset(&one, 0, sizeof(one));
        one.axis.dim = 1;
        if (ops[n] == &gy_ops_row_pad) {
            one.slice.step = 1;
        }
        other = one;
        if (ops[n] == &gy_ops_row_pad) {
            other.slice.begin = 3;
        } else if (ops[n] == &gy_ops_row_cumsum) {
            other.axis.is_reverse = true;
        }
        const gy_kernel_call first = call_over(ops[n], &one, a, small);
        const gy_kernel_call second = call_over(ops[n], &other, b, large);
        assert_true(has_same_text(&first, &second));
        b[0].dtype = b[1].dtype = GY_F64;
        assert_true(ops[n] == &gy_ops_row_pad || !has_same_text(&first, &second));
    }
}

/* Whichever of its allocations fails, it says so and leaves none. */
GY_TEST(without_memory_there_is_no_text)
{
    const int64_t sizes[2] = {3, 5};
    gy_attributes attributes;
    gy_view views[2];
    gy_cuda_text *text = gy_alloc("test", sizeof(*text));
    memset(&attributes, 0, sizeof(attributes));
    const gy_kernel_call call = call_over(&gy_ops_row_softmax, &attributes, views, sizes);
    gy_status status = GY_NOMEM;
    int failed = 0;
    while (status != GY_OK) {
        gy_alloc_fail_after(failed + 1);
        status = gy_cuda_text_make(&call, text);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        assert_true(status == GY_OK || text->source.data == NULL);
        failed += status != GY_OK;
    }
    assert_in_range(failed, 3, 1000);
    gy_cuda_text_fini(text);
    gy_free(text);
}

/* ---- values ---- */

typedef struct bench {
    texts all;
    example examples[CASES_MAX];
    int count;
    int of_row[256]; /* cases of each row */
} bench;

/* Some sizes have no text, or no value. */
static void add_sample(bench *b, int row, const gy_ops_sample *sample, gy_dtype dtype,
                       gy_random *random)
{
    assert_true(b->count < CASES_MAX);
    example *e = &b->examples[b->count];
    if (!ops_example_make(&e->of, gy_ops_all[row], sample, dtype, random)) {
        return;
    }
    const gy_kernel_call call = ops_example_call(&e->of, e->of.inputs, e->of.got);
    e->at = ops_example_define(&e->of) == GY_OK ? texts_add(&b->all, &call) : -1;
    if (e->at < 0) {
        ops_example_free(&e->of);
        return;
    }
    b->count++;
    b->of_row[row]++;
}

static void add_both(bench *b, int row, const gy_ops_sample *sample, gy_random *random)
{
    add_sample(b, row, sample, GY_F64, random);
    add_sample(b, row, sample, GY_F32, random);
}

#define LONG(type, from, to, ...)                                                              \
    {                                                                                          \
        .dtype = (type), .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),           \
        .sizes = {__VA_ARGS__}, .low = (from), .high = (to)                                    \
    }

#define GY_SCALAR                                                                              \
    {                                                                                          \
        .dtype = GY_F64, .low = -1, .high = 1                                                  \
    }

typedef struct long_sample {
    const gy_op *op;
    gy_ops_sample sample;
} long_sample;

#define ALONG(dimension) .attributes.axis = {.dim = (dimension)}

/* Lines longer than a block, and more of them than a block has threads. */
static const long_sample long_samples[] = {
    {&gy_ops_row_sum,
     {.attributes.reduce = {.axes = 2},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 3, 9001)}}},
    {&gy_ops_row_mean,
     {.attributes.reduce = {.axes = 1},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 701, 5)}}},
    {&gy_ops_row_sum, /* tiles of columns, and more pieces than threads join at a time */
     {.attributes.reduce = {.axes = 1},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 2101, 41)}}},
    {&gy_ops_row_max,
     {.attributes.reduce = {.axes = 3},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 7, 97, 3)}}},
    {&gy_ops_row_softmax,
     {ALONG(1), .input_count = 1, .inputs = {LONG(GY_F64, -9, 9, 5, 1009)}}},
    {&gy_ops_row_softmax,
     {ALONG(1), .input_count = 1, .inputs = {LONG(GY_F64, -9, 9, 2, 301, 3)}}},
    {&gy_ops_row_softmax, /* a thread's maximum rises */
     {ALONG(0), .input_count = 1, .inputs = {LONG(GY_F64, -40, 40, 2311, 2)}}},
    {&gy_ops_row_log_softmax,
     {ALONG(1), .input_count = 1, .inputs = {LONG(GY_F64, -9, 9, 3, 257)}}},
    {&gy_ops_row_cross_entropy,
     {.input_count = 2, .inputs = {LONG(GY_F64, -3, 3, 301, 130), LONG(GY_I32, 0, 130, 301)}}},
    {&gy_ops_row_cross_entropy_gradient,
     {.input_count = 3,
      .inputs = {LONG(GY_F64, -3, 3, 11, 530), LONG(GY_I64, 0, 530, 11), GY_SCALAR}}},
    {&gy_ops_row_argmax, {ALONG(1), .input_count = 1, .inputs = {LONG(GY_F64, -1, 1, 4, 999)}}},
    {&gy_ops_row_argmax, {ALONG(1), .input_count = 1, .inputs = {LONG(GY_I32, 0, 3, 4, 999)}}},
    {&gy_ops_row_cumsum, {ALONG(0), .input_count = 1, .inputs = {LONG(GY_F64, -1, 1, 5, 300)}}},
    {&gy_ops_row_layer_norm,
     {.attributes.norm = {.epsilon = 1e-5, .axis_count = 1},
      .input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 7, 1031), LONG(GY_F64, 0.5, 1.5, 1031),
                 LONG(GY_F64, -1, 1, 1031)}}},
    {&gy_ops_row_layer_norm_gradient,
     {.attributes.norm = {.epsilon = 1e-5, .axis_count = 1},
      .input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 131, 67), LONG(GY_F64, 0.5, 1.5, 67),
                 LONG(GY_F64, -1, 1, 131, 67)}}},
    {&gy_ops_row_layer_norm, /* a thread takes more than eight */
     {.attributes.norm = {.epsilon = 1e-5, .axis_count = 1},
      .input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 2, 2307), LONG(GY_F64, 0.5, 1.5, 2307),
                 LONG(GY_F64, -1, 1, 2307)}}},
    {&gy_ops_row_layer_norm_gradient, /* more pieces of rows than threads fold at a time */
     {.attributes.norm = {.epsilon = 1e-5, .axis_count = 1},
      .input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 311, 40), LONG(GY_F64, 0.5, 1.5, 40),
                 LONG(GY_F64, -1, 1, 311, 40)}}},
    {&gy_ops_row_scatter_add,
     {.attributes.axis = {.dim = 0, .depth = 13},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 211, 5), LONG(GY_I32, 0, 13, 211)}}},
    {&gy_ops_row_scatter_add,
     {.attributes.axis = {.dim = 1, .depth = 5},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 2, 97, 131), LONG(GY_U8, 0, 5, 97)}}},
    {&gy_ops_row_scatter_add, /* more rows than places, columns in two chunks */
     {.attributes.axis = {.dim = 1, .depth = 41},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 2, 37, 259), LONG(GY_I32, 30, 41, 37)}}},
    {&gy_ops_row_gather,
     {.attributes.axis = {.dim = 0},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 31, 17), LONG(GY_I8, 0, 31, 19, 2)}}},
    {&gy_ops_row_max_pool_gradient,
     {.attributes.pool = {.window = {3, 3}, .stride = {1, 2}, .pad = {1, 0}},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 2, 3, 13, 11), LONG(GY_F64, -1, 1, 2, 3, 13, 5)}}},
    {&gy_ops_row_attention,
     {.input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 2, 3, 2, 5), LONG(GY_F64, -1, 1, 2, 150, 2, 5),
                 LONG(GY_F64, -1, 1, 2, 150, 2, 7)}}},
    {&gy_ops_row_attention,
     {.input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 1, 2, 1, 131), LONG(GY_F64, -1, 1, 1, 3, 1, 131),
                 LONG(GY_F64, -1, 1, 1, 3, 1, 140)}}},
    {&gy_ops_row_attention,
     {.attributes.attention.is_causal = true,
      .input_count = 3,
      .inputs = {LONG(GY_BF16, -1, 1, 1, 9, 2, 4), LONG(GY_BF16, -1, 1, 1, 11, 2, 4),
                 LONG(GY_BF16, -1, 1, 1, 11, 2, 4)}}},
    {&gy_ops_row_attention_packed,
     {.attributes.attention.is_causal = true,
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 2, 133, 2, 3, 4)}}},
    {&gy_ops_row_attention_packed,
     {.input_count = 1, .inputs = {LONG(GY_F16, -1, 1, 2, 13, 2, 3, 4)}}},
    {&gy_ops_row_attention_gradient,
     {.attributes.attention.is_causal = true,
      .input_count = 6,
      .inputs = {LONG(GY_F64, -1, 1, 1, 140, 2, 4), LONG(GY_F64, -1, 1, 1, 142, 2, 4),
                 LONG(GY_F64, -1, 1, 1, 142, 2, 3), LONG(GY_F64, -1, 1, 1, 140, 2, 3),
                 LONG(GY_F64, 4, 6, 1, 2, 140), LONG(GY_F64, -1, 1, 1, 140, 2, 3)}}},
    {&gy_ops_row_attention_gradient,
     {.input_count = 6,
      .inputs = {LONG(GY_F64, -1, 1, 1, 2, 1, 131), LONG(GY_F64, -1, 1, 1, 3, 1, 131),
                 LONG(GY_F64, -1, 1, 1, 3, 1, 140), LONG(GY_F64, -1, 1, 1, 2, 1, 140),
                 LONG(GY_F64, 4, 6, 1, 1, 2), LONG(GY_F64, -1, 1, 1, 2, 1, 140)}}},
    {&gy_ops_row_attention_packed_gradient,
     {.input_count = 4,
      .inputs = {LONG(GY_BF16, -1, 1, 1, 7, 2, 3, 4), LONG(GY_F32, -1, 1, 1, 7, 2, 4),
                 LONG(GY_F32, 1, 3, 1, 2, 7), LONG(GY_BF16, -1, 1, 1, 7, 2, 4)}}},
    {&gy_ops_row_transpose,
     {.attributes.permute = {{2, 0, 1}},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 7, 5, 31)}}},
    {&gy_ops_row_transpose, /* several tiles each way, several matrices */
     {.attributes.permute = {{1, 3, 0, 2}},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 2, 3, 41, 35)}}},
};

static void run_all(bench *b)
{
    texts_compile(&b->all);
    texts_check(&b->all);
    for (int i = 0; i < b->count; i++) {
        run_example(&b->all, &b->examples[i]);
        ops_example_free(&b->examples[i].of);
    }
    texts_close(&b->all);
}

GY_TEST(texts_give_what_plain_definitions_give)
{
    gy_random random = {.key = gy_test_seed()};
    bench *b = gy_alloc_zero("test", 1, sizeof(*b));
    texts_open(&b->all);
    assert_true(gy_ops_all_count < 256);
    for (int row = 0; row < gy_ops_all_count; row++) {
        const gy_op *op = gy_ops_all[row];
        gy_ops_sample sample;
        if (gy_cuda_text_reason(op) != NULL || op == &gy_ops_row_fused) {
            continue;
        }
        for (int s = 0; s < op->sample_count; s++) {
            add_both(b, row, &op->samples[s], &random);
        }
        const long drawn = gy_test_serial_cases(RANDOM_SAMPLES);
        for (long s = 0; s < drawn && ops_random_any(op, &random, &sample); s++) {
            add_sample(b, row, &sample, ops_random_dtype(&random), &random);
        }
        for (size_t s = 0; s < GY_COUNT(long_samples); s++) {
            if (long_samples[s].op == op) {
                add_both(b, row, &long_samples[s].sample, &random);
            }
        }
        if (b->of_row[row] == 0) {
            fail_msg("%s: no sample has a text: %s", op->name, b->all.reason);
        }
    }
    run_all(b);
    gy_free(b);
}

/* ---- what is no number, and infinities ---- */

static bool takes_odd_values(const gy_op *op)
{
    static const gy_op *const ops[] = {&gy_ops_row_softmax,  &gy_ops_row_log_softmax,
                                       &gy_ops_row_argmax,   &gy_ops_row_max_pool_gradient,
                                       &gy_ops_row_cumsum,   &gy_ops_row_layer_norm,
                                       &gy_ops_row_max,      &gy_ops_row_cross_entropy,
                                       &gy_ops_row_transpose};
    size_t n = 0;
    while (n < GY_COUNT(ops) && ops[n] != op) {
        n++;
    }
    return n < GY_COUNT(ops);
}

GY_TEST(odd_values_go_where_plain_definitions_let_them)
{
    const double odd[] = {NAN, INFINITY, -INFINITY, -0.0};
    gy_random random = {.key = gy_test_seed()};
    bench *b = gy_alloc_zero("test", 1, sizeof(*b));
    texts_open(&b->all);
    for (size_t n = 0; n < 8 * GY_COUNT(long_samples); n++) {
        const long_sample *from = &long_samples[n / 8];
        if (!takes_odd_values(from->op) || from->sample.inputs[0].dtype != GY_F64) {
            continue;
        }
        example *e = &b->examples[b->count];
        assert_true(ops_example_make(&e->of, from->op, &from->sample,
                                     n % 2 == 1 ? GY_F32 : GY_F64, &random));
        gy_view *x = &e->of.inputs[0], *wide = &e->of.wide[0];
        for (int k = 0; k < 3; k++) {
            const int64_t at = ops_random_in(&random, 0, gy_view_count(x) - 1);
            const double value = odd[n / 2 % GY_COUNT(odd)];
            gy_element_set(x->dtype, x->data, at, value);
            gy_element_set(wide->dtype, wide->data, at, value);
        }
        const gy_kernel_call call = ops_example_call(&e->of, e->of.inputs, e->of.got);
        e->at = texts_add(&b->all, &call);
        assert_int_equal(e->at, b->count);
        b->count++;
    }
    assert_in_range(b->count, 60, CASES_MAX);
    run_all(b);
    gy_free(b);
}

/* ---- integers out of range ---- */

typedef struct fault_case {
    const gy_op *op;
    gy_ops_sample sample;
    int input;
} fault_case;

static const fault_case fault_cases[] = {
    {&gy_ops_row_gather,
     {ALONG(0), .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 5, 3), LONG(GY_I32, 0, 5, 700)}},
     1},
    {&gy_ops_row_gather,
     {ALONG(0), .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 5, 3), LONG(GY_I8, 0, 5, 700)}},
     1},
    {&gy_ops_row_scatter_add,
     {.attributes.axis = {.dim = 0, .depth = 4},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 700, 2), LONG(GY_I32, 0, 4, 700)}},
     1},
    {&gy_ops_row_pick,
     {ALONG(1), .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 700, 6), LONG(GY_I64, 0, 6, 700)}},
     1},
    {&gy_ops_row_pick_gradient,
     {.attributes.axis = {.dim = 1, .depth = 3},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 700), LONG(GY_I32, 0, 3, 700)}},
     1},
    {&gy_ops_row_one_hot,
     {.attributes.axis = {.dim = 1, .depth = 3, .dtype = GY_F32},
      .input_count = 1,
      .inputs = {LONG(GY_I8, 0, 3, 700)}},
     0},
    {&gy_ops_row_cross_entropy,
     {.input_count = 2, .inputs = {LONG(GY_F64, -1, 1, 700, 4), LONG(GY_I32, 0, 4, 700)}},
     1},
    {&gy_ops_row_cross_entropy_gradient,
     {.input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 700, 4), LONG(GY_I32, 0, 4, 700), GY_SCALAR}},
     1},
};

/* Two bad ones, negative and one too large, either of them first. */
static void spoil(const example *e, int input, int64_t size, int64_t place, bool is_low_first)
{
    const gy_view *index = &e->of.inputs[input];
    gy_element_set_whole(index->dtype, index->data, 613, is_low_first ? size : -1);
    gy_element_set_whole(index->dtype, index->data, place, is_low_first ? -1 : size);
}

/* The first is reported, and no memory around is touched. */
GY_TEST(the_first_integer_out_of_range_is_reported)
{
    gy_random random = {.key = gy_test_seed()};
    bench *b = gy_alloc_zero("test", 1, sizeof(*b));
    texts_open(&b->all);
    for (size_t n = 0; n < GY_COUNT(fault_cases); n++) {
        example *e = &b->examples[n];
        assert_true(ops_example_make(&e->of, fault_cases[n].op, &fault_cases[n].sample, GY_F32,
                                     &random));
        const gy_kernel_call call = ops_example_call(&e->of, e->of.inputs, e->of.got);
        e->at = texts_add(&b->all, &call);
        assert_int_equal(e->at, n);
        assert_int_equal(b->all.of[n]->index_input, fault_cases[n].input);
    }
    texts_compile(&b->all);
    for (size_t n = 0; n < GY_COUNT(fault_cases); n++) {
        example *e = &b->examples[n];
        const gy_kernel_call call = ops_example_call(&e->of, e->of.inputs, e->of.got);
        const int input = fault_cases[n].input;
        const int64_t size = b->all.of[n]->index_size, wanted = 400 + (int64_t)n;
        for (int low_first = 0; low_first < 2; low_first++) {
            int64_t index = 0;
            spoil(e, input, size, wanted, low_first == 1);
            const uint64_t place = texts_run(&b->all, e->at, &call);
            assert_int_equal(place, wanted);
            assert_status(gy_call_index(&call, input, (int64_t)place, b->all.of[n]->index_what,
                                        size, &index),
                          GY_ARG);
        }
        ops_example_free(&e->of);
    }
    texts_close(&b->all);
    gy_free(b);
}

/* ---- parts of a value that ranks share ---- */

typedef struct part_case {
    const gy_op *op;
    gy_ops_sample sample; /* of the part */
    int input;            /* whose part it is; -1: the output's */
    int dim;
} part_case;

/* Of 13 elements along the dimension this rank has what the views say, from the fourth on. */
enum { PART_BEGIN = 4, PART_WHOLE = 13 };

static const part_case part_cases[] = {
    {&gy_ops_row_gather,
     {ALONG(0), .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 5, 3), LONG(GY_I32, 0, 13, 70)}},
     0,
     0},
    {&gy_ops_row_pick,
     {ALONG(1), .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 70, 5), LONG(GY_I32, 0, 13, 70)}},
     0,
     1},
    {&gy_ops_row_find,
     {ALONG(1), .input_count = 2,
      .inputs = {LONG(GY_I32, 0, 4, 70, 5), LONG(GY_I32, 0, 4, 70)}},
     0,
     1},
    {&gy_ops_row_cross_entropy,
     {.input_count = 2, .inputs = {LONG(GY_F64, -1, 1, 5, 4), LONG(GY_I32, 0, 4, 5)}},
     1,
     0},
    {&gy_ops_row_cross_entropy_gradient,
     {.input_count = 3,
      .inputs = {LONG(GY_F64, -1, 1, 5, 4), LONG(GY_I32, 0, 4, 5), GY_SCALAR}},
     1,
     0},
    {&gy_ops_row_mean,
     {.attributes.reduce = {.axes = 1},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 5, 3)}},
     0,
     0},
    {&gy_ops_row_count,
     {.attributes.reduce = {.axes = 1},
      .input_count = 1,
      .inputs = {LONG(GY_F64, -1, 1, 5, 3)}},
     0,
     0},
    {&gy_ops_row_scatter_add,
     {.attributes.axis = {.dim = 0, .depth = 5},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 70, 3), LONG(GY_I32, 0, 13, 70)}},
     -1,
     0},
    {&gy_ops_row_pick_gradient,
     {.attributes.axis = {.dim = 1, .depth = 5},
      .input_count = 2,
      .inputs = {LONG(GY_F64, -1, 1, 70), LONG(GY_I32, 0, 13, 70)}},
     -1,
     1},
};

typedef struct part_place {
    gy_type input_types[GY_OP_INPUTS_MAX], output_types[GY_OP_OUTPUTS_MAX];
    int64_t input_offsets[GY_OP_INPUTS_MAX][GY_TENSOR_RANK_MAX];
    int64_t output_offsets[GY_OP_OUTPUTS_MAX][GY_TENSOR_RANK_MAX];
} part_place;

static gy_kernel_call part_call(const ops_example *e, const part_case *c, part_place *place,
                                gy_view *inputs, gy_view *outputs)
{
    gy_kernel_call call = ops_example_call(e, inputs, outputs);
    memset(place, 0, sizeof(*place));
    for (int i = 0; i < e->input_count; i++) {
        place->input_types[i] = ops_eager_type_of(&inputs[i]);
    }
    place->output_types[0] = ops_eager_type_of(&outputs[0]);
    gy_type *cut = c->input < 0 ? &place->output_types[0] : &place->input_types[c->input];
    cut->sizes[c->dim] = PART_WHOLE;
    (c->input < 0 ? place->output_offsets[0] : place->input_offsets[c->input])[c->dim] =
        PART_BEGIN;
    call.input_types = place->input_types;
    call.output_types = place->output_types;
    call.input_offsets = (const int64_t(*)[GY_TENSOR_RANK_MAX])place->input_offsets;
    call.output_offsets = (const int64_t(*)[GY_TENSOR_RANK_MAX])place->output_offsets;
    return call;
}

GY_TEST(parts_of_a_value_give_what_plain_definitions_give)
{
    gy_random random = {.key = gy_test_seed()};
    bench *b = gy_alloc_zero("test", 1, sizeof(*b));
    part_place place;
    texts_open(&b->all);
    for (size_t n = 0; n < GY_COUNT(part_cases); n++) {
        example *e = &b->examples[n];
        assert_true(
            ops_example_make(&e->of, part_cases[n].op, &part_cases[n].sample, GY_F64, &random));
        const gy_kernel_call call =
            part_call(&e->of, &part_cases[n], &place, e->of.inputs, e->of.got);
        e->at = texts_add(&b->all, &call);
        assert_int_equal(e->at, n);
    }
    texts_compile(&b->all);
    for (size_t n = 0; n < GY_COUNT(part_cases); n++) {
        example *e = &b->examples[n];
        const gy_kernel_call plain =
            part_call(&e->of, &part_cases[n], &place, e->of.wide, e->of.wanted);
        assert_ok(e->of.op->reference(&plain));
        const gy_kernel_call call =
            part_call(&e->of, &part_cases[n], &place, e->of.inputs, e->of.got);
        assert_int_equal(texts_run(&b->all, e->at, &call), UINT64_MAX);
        ops_example_compare(&e->of, "by its text");
        ops_example_free(&e->of);
    }
    texts_close(&b->all);
    gy_free(b);
}

/* What one rank takes of a value that it has from `own` on. */
typedef struct shard_case {
    gy_view whole, wanted, got;
    int64_t own[1][GY_TENSOR_RANK_MAX], begin[1][GY_TENSOR_RANK_MAX];
    int at;
} shard_case;

static gy_kernel_call shard_call(const shard_case *c, const gy_attributes *attributes,
                                 gy_view *output)
{
    return (gy_kernel_call){.op = &gy_ops_row_take_shard,
                            .attributes = attributes,
                            .inputs = &c->whole,
                            .input_count = 1,
                            .outputs = output,
                            .output_count = 1,
                            .input_offsets = c->own,
                            .output_offsets = c->begin};
}

static void draw_shard(shard_case *c, gy_random *random)
{
    static const gy_dtype types[] = {GY_F64, GY_F32, GY_BF16, GY_U8};
    const gy_dtype dtype = types[gy_random_below(random, GY_COUNT(types))];
    const int rank = (int)ops_random_in(random, 1, 4);
    int64_t sizes[4], parts[4];
    for (int dim = 0; dim < rank; dim++) {
        sizes[dim] = ops_random_in(random, 1, 9);
        parts[dim] = ops_random_in(random, 1, sizes[dim]);
        c->own[0][dim] = ops_random_in(random, 0, 5);
        c->begin[0][dim] = c->own[0][dim] + ops_random_in(random, 0, sizes[dim] - parts[dim]);
    }
    c->whole = ops_example_view(dtype, sizes, rank);
    c->wanted = ops_example_view(dtype, parts, rank);
    c->got = ops_example_view(dtype, parts, rank);
    for (size_t i = 0; i < gy_view_bytes(&c->whole); i++) {
        ((uint8_t *)c->whole.data)[i] = (uint8_t)gy_random_below(random, 256);
    }
}

GY_TEST(a_shard_is_what_its_definition_takes)
{
    enum { SHARDS = 40 };
    static shard_case cases[SHARDS];
    gy_random random = {.key = gy_test_seed()};
    gy_attributes attributes;
    texts *all = gy_alloc("test", sizeof(*all));
    texts_open(all);
    memset(&attributes, 0, sizeof(attributes));
    attributes.move.to.kind = GY_SHARD;
    for (int n = 0; n < SHARDS; n++) {
        draw_shard(&cases[n], &random);
        gy_kernel_call call = shard_call(&cases[n], &attributes, &cases[n].wanted);
        assert_ok(gy_ops_row_take_shard.reference(&call));
        cases[n].at = texts_add(all, &call);
        assert_int_equal(cases[n].at, n);
    }
    texts_compile(all);
    for (int n = 0; n < SHARDS; n++) {
        gy_kernel_call call = shard_call(&cases[n], &attributes, &cases[n].got);
        (void)texts_run(all, cases[n].at, &call);
        assert_memory_equal(cases[n].got.data, cases[n].wanted.data,
                            gy_view_bytes(&cases[n].wanted));
        gy_free(cases[n].whole.data);
        gy_free(cases[n].wanted.data);
        gy_free(cases[n].got.data);
    }
    texts_close(all);
    gy_kernel_call sum = shard_call(&cases[0], &attributes, &cases[0].got);
    attributes.move.to.kind = GY_PARTIAL; /* which part is all 0, the mesh says */
    texts_open(all);
    assert_int_equal(texts_add(all, &sum), -1);
    assert_string_equal(all->reason, "a part of a sum depends on the rank");
    texts_close(all);
    gy_free(all);
}

GY_TEST_MAIN(NULL, NULL)
