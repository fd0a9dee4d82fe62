/**
 * One application of a row: operands of the type that is tested, the same numbers in float64,
 * and what the plain definition gives of these.
 *
 *     ops_example e;
 *     if (ops_example_make(&e, op, &sample, GY_BF16, &random)) {
 *         assert_ok(ops_example_define(&e));
 *         … fill e.got from e.inputs …
 *         ops_example_compare(&e, "by the kernel");
 *         ops_example_free(&e);
 *     }
 */
#ifndef GY_TESTS_OPS_EXAMPLE_H
#define GY_TESTS_OPS_EXAMPLE_H

#include "ops/ops.h"
#include "ops_eager.h"

#include <math.h>
#include <string.h>

#include "gy_test.h"

typedef struct ops_example {
    const gy_op *op;
    gy_attributes attributes;
    int input_count, output_count;
    gy_dtype dtype; /* what stands for the F64 of samples */
    gy_view inputs[GY_OP_INPUTS_MAX], wide[GY_OP_INPUTS_MAX]; /* owned, end where memory does */
    gy_view wanted[GY_OP_OUTPUTS_MAX], got[GY_OP_OUTPUTS_MAX]; /* row-major, owned */
} ops_example;

static inline bool ops_example_is_half(gy_dtype dtype)
{
    return dtype == GY_BF16 || dtype == GY_F16;
}

static inline bool ops_example_is_floating(gy_dtype dtype)
{
    return gy_dtype_is_real(dtype) || ops_example_is_half(dtype);
}

static inline gy_kernel_call ops_example_call(const ops_example *e, const gy_view *inputs,
                                              gy_view *outputs)
{
    return (gy_kernel_call){.op = e->op,
                            .attributes = &e->attributes,
                            .inputs = inputs,
                            .input_count = e->input_count,
                            .outputs = outputs,
                            .output_count = e->output_count};
}

static inline gy_view ops_example_view(gy_dtype dtype, const int64_t *sizes, int rank)
{
    gy_view view = gy_view_of(NULL, dtype, sizes, rank);
    view.data = gy_alloc("test.view", gy_view_bytes(&view));
    assert_non_null(view.data);
    if (gy_view_bytes(&view) > 0) {
        memset(view.data, 0x7b, gy_view_bytes(&view));
    }
    return view;
}

/* The types of results; false: the row does not take those of the inputs. */
static inline bool ops_example_infer(const ops_example *e, const gy_view *inputs,
                                     gy_type *types)
{
    gy_type of[GY_OP_INPUTS_MAX];
    for (int i = 0; i < e->input_count; i++) {
        of[i] = ops_eager_type_of(&inputs[i]);
    }
    return gy_ops_infer(e->op, &e->attributes, of, e->input_count, types) == GY_OK;
}

static inline void ops_example_outputs(const ops_example *e, const gy_view *inputs,
                                       gy_view *outputs)
{
    gy_type types[GY_OP_OUTPUTS_MAX];
    if (!ops_example_infer(e, inputs, types)) {
        fail_msg("%s: %s", e->op->name, gy_error_text());
    }
    for (int o = 0; o < e->output_count; o++) {
        outputs[o] = ops_example_view(types[o].dtype, types[o].sizes, types[o].rank);
    }
}

/* Which inputs have the tested type, bit by bit, the others float32: all, or of 16 bits those
 * that the row wants so. 0: it takes none. */
static inline uint32_t ops_example_choose(ops_example *e, const gy_ops_sample *sample,
                                          gy_random *random)
{
    gy_type types[GY_OP_OUTPUTS_MAX];
    const uint32_t all = (1u << e->input_count) - 1;
    const uint32_t first = (uint32_t)gy_random_below(random, (uint64_t)all + 1);
    for (uint32_t n = 0; n <= all + 1; n++) {
        const uint32_t mask = n == 0 ? all : (first + n) & all;
        for (int i = 0; i < e->input_count; i++) {
            const gy_dtype kind = sample->inputs[i].dtype;
            const bool is_tested = (mask >> i & 1) != 0;
            e->inputs[i] = gy_view_of(NULL,
                                      kind != GY_F64 ? kind
                                      : is_tested    ? e->dtype
                                                     : GY_F32,
                                      sample->inputs[i].sizes, sample->inputs[i].rank);
        }
        if (ops_example_infer(e, e->inputs, types)) {
            return mask | 1u << 31;
        }
        if (!ops_example_is_half(e->dtype)) {
            break;
        }
    }
    return 0;
}

/* The least and the greatest of a type of integers now and then. */
static inline void ops_example_put_ends(gy_view *view, gy_random *random)
{
    const int bits = 8 * (int)gy_dtype_bytes(view->dtype);
    const bool is_signed = view->dtype <= GY_I8;
    const int64_t ends[] = {is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0,
                            (int64_t)(UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0)))};
    for (int64_t i = 0; i < gy_view_count(view); i++) {
        if (gy_random_below(random, 8) == 0) {
            gy_element_set_whole(view->dtype, view->data, i, ends[gy_random_below(random, 2)]);
        }
    }
}

static inline void ops_example_draw(ops_example *e, const gy_ops_sample *sample, int i,
                                    gy_random *random)
{
    gy_ops_sample drawn = *sample;
    const gy_dtype dtype = e->inputs[i].dtype;
    const bool is_data = sample->inputs[i].dtype == GY_F64;
    if (is_data && !ops_example_is_floating(dtype)) {
        drawn.inputs[i].low = dtype >= GY_U64 ? 0 : -9;
        drawn.inputs[i].high = 10;
        drawn.inputs[i].is_distinct = false;
    }
    gy_view view = ops_eager_draw(&drawn, i, dtype, random);
    if (is_data && !ops_example_is_floating(dtype)) {
        ops_example_put_ends(&view, random);
    }
    const bool widens = ops_example_is_floating(dtype);
    e->inputs[i] = ops_example_view(dtype, view.sizes, view.rank);
    e->wide[i] = ops_example_view(widens ? GY_F64 : dtype, view.sizes, view.rank);
    assert_ok(gy_view_copy(&e->inputs[i], &view));
    assert_ok(gy_view_copy(&e->wide[i], &e->inputs[i]));
    gy_free(view.data);
}

/** false: the row does not take that type. */
static inline bool ops_example_make(ops_example *e, const gy_op *op,
                                    const gy_ops_sample *sample, gy_dtype dtype,
                                    gy_random *random)
{
    *e = (ops_example){.op = op,
                       .attributes = sample->attributes,
                       .input_count = sample->input_count,
                       .output_count = op->output_count,
                       .dtype = dtype};
    if (op->output_count < 0) {
        e->output_count = sample->attributes.fused.program->output_count;
    }
    if (ops_example_choose(e, sample, random) == 0) {
        return false;
    }
    for (int i = 0; i < e->input_count; i++) {
        ops_example_draw(e, sample, i, random);
    }
    ops_example_outputs(e, e->inputs, e->got);
    ops_example_outputs(e, e->wide, e->wanted);
    return true;
}

/** Lay an input out anew: its dimensions turned round, or every second element of memory. */
static inline void ops_example_stride(ops_example *e, int i, gy_random *random)
{
    gy_view *view = &e->inputs[i], strided;
    int64_t sizes[GY_TENSOR_RANK_MAX];
    int dims[GY_TENSOR_RANK_MAX];
    const int rank = view->rank;
    const bool turns = gy_random_below(random, 2) == 0;
    for (int dim = 0; dim < rank; dim++) {
        sizes[dim] = turns ? view->sizes[rank - 1 - dim] : view->sizes[dim];
        dims[dim] = rank - 1 - dim;
    }
    if (!turns && rank > 0) {
        sizes[rank - 1] = GY_MAX(2 * sizes[rank - 1] - 1, 0);
    }
    const gy_view memory = ops_example_view(view->dtype, sizes, rank);
    strided = turns      ? gy_view_permute(&memory, dims)
              : rank > 0 ? gy_view_cut(&memory, rank - 1, 0, view->sizes[rank - 1], 2)
                         : memory;
    assert_true(strided.data == memory.data);
    assert_ok(gy_view_copy(&strided, view));
    gy_free(view->data);
    *view = strided;
}

/** Bytes from the first element of a view to behind the last. */
static inline size_t ops_example_span(const gy_view *view)
{
    const int64_t count = gy_view_count(view);
    return count == 0
               ? 0
               : (size_t)(gy_view_offset(view, count - 1) + 1) * gy_dtype_bytes(view->dtype);
}

static inline void ops_example_free(ops_example *e)
{
    for (int i = 0; i < e->input_count; i++) {
        gy_free(e->inputs[i].data);
        gy_free(e->wide[i].data);
    }
    for (int o = 0; o < e->output_count; o++) {
        gy_free(e->wanted[o].data);
        gy_free(e->got[o].data);
    }
}

/** What the plain definition gives in float64. */
static inline gy_status ops_example_define(ops_example *e)
{
    const gy_kernel_call call = ops_example_call(e, e->wide, e->wanted);
    return e->op->reference(&call);
}

/* Rounding of sums and functions; rows that make 16 bits or integers only move or round, and
 * give them exactly. A sum of many terms has a spread of their root, with which it rounds; a
 * product of many factors rounds with each. */
static inline double ops_example_tolerance(const ops_example *e, int o)
{
    const gy_dtype dtype = e->got[o].dtype;
    const double terms = (double)gy_view_count(&e->inputs[0]) /
                         (double)GY_MAX(gy_view_count(&e->got[o]), (int64_t)1);
    const double rounds = GY_MAX(e->op == &gy_ops_row_prod ? terms / 32 : sqrt(terms) / 8, 1.0);
    return dtype == GY_F32 ? 1e-5 * rounds : dtype == GY_F64 ? 1e-12 * rounds : 0;
}

static inline void ops_example_describe(const ops_example *e, char out[512])
{
    gy_text text = {.data = NULL};
    gy_text_add(&text, "%s(", e->op->name);
    for (int i = 0; i < e->input_count; i++) {
        char of[160];
        const gy_type type = ops_eager_type_of(&e->inputs[i]);
        gy_text_add(&text, "%s%s%s", i > 0 ? ", " : "", gy_type_text(&type, of),
                    gy_view_is_contiguous(&e->inputs[i]) ? "" : " strided");
    }
    (void)gy_print(out, 512, "%s)", gy_text_get(&text));
    gy_text_free(&text);
}

/** Output o, within `tolerance` of 1 and of what is expected. */
static inline void ops_example_compare_within(const ops_example *e, int o, double tolerance,
                                              const char *how)
{
    const gy_view *wanted = &e->wanted[o], *got = &e->got[o];
    const bool is_whole = !ops_example_is_floating(wanted->dtype);
    for (int64_t i = 0; i < gy_view_count(wanted); i++) {
        const double a = gy_element_get(wanted->dtype, wanted->data, i);
        const double b = gy_element_get(got->dtype, got->data, i);
        const bool is_nan = isnan(a) || isnan(b);
        bool is_same =
            is_nan ? isnan(a) == isnan(b) : a == b || fabs(a - b) <= tolerance * (1 + fabs(a));
        if (is_whole) {
            is_same = gy_element_get_whole(wanted->dtype, wanted->data, i) ==
                      gy_element_get_whole(got->dtype, got->data, i);
        }
        if (!is_same) {
            char text[512];
            ops_example_describe(e, text);
            fail_msg("%s %s, output %d at %lld of %lld: %.17g, expected %.17g", text, how, o,
                     (long long)i, (long long)gy_view_count(wanted), b, a);
        }
    }
}

/** The largest size of a value of output o, or 1. */
static inline double ops_example_largest(const ops_example *e, int o)
{
    double largest = 1;
    for (int64_t i = 0; i < gy_view_count(&e->wanted[o]); i++) {
        const double size = fabs(gy_element_get(e->wanted[o].dtype, e->wanted[o].data, i));
        largest = GY_MAX(largest, size);
    }
    return largest;
}

/* Of attention, slopes are sums of terms that cancel, more so of a log-sum-exp that is none of
 * the scores'; from 16 bits, probabilities and slopes of scores are rounded to them for their
 * products (docs/decisions/058, 063). */
static inline double ops_example_attention_tolerance(const ops_example *e, int o)
{
    const gy_dtype stored = e->inputs[0].dtype;
    const double of_one = stored == GY_BF16 ? 0x1p-6 : stored == GY_F16 ? 0x1p-9 : 0x1p-13;
    return of_one * ops_example_largest(e, o);
}

/** What is in `got` against what is in `wanted`. `how` it was made is for the message. */
static inline void ops_example_compare(const ops_example *e, const char *how)
{
    const bool is_attention = strncmp(e->op->name, "attention", 9) == 0;
    for (int o = 0; o < e->output_count; o++) {
        const double tolerance = is_attention && e->inputs[0].dtype != GY_F64
                                     ? ops_example_attention_tolerance(e, o)
                                     : ops_example_tolerance(e, o);
        ops_example_compare_within(e, o, tolerance, how);
    }
}

#endif
