/*
 * Goal: every row is full or says why not, and types are inferred as the contract says, with
 * symbolic batches, failures showing both shapes.
 */
#include "ops/ops.h"
#include "ops_eager.h"

#include <math.h>

#include "gy_test.h"

enum { MAX_SAMPLE_INPUTS = 6 };

#define EXPECT(fact, op)                                                                       \
    do {                                                                                       \
        if (!(fact)) {                                                                         \
            fail_msg("%s: %s", (op)->name, #fact);                                             \
        }                                                                                      \
    } while (0)

static void check_sample(const gy_op *op, int s)
{
    const gy_ops_sample *sample = &op->samples[s];
    gy_type types[MAX_SAMPLE_INPUTS], outputs[GY_OP_OUTPUTS_MAX];
    EXPECT(sample->input_count <= MAX_SAMPLE_INPUTS, op);
    EXPECT(op->input_count < 0 || sample->input_count == op->input_count, op);
    EXPECT(sample->differentiable >> sample->input_count == 0, op);
    EXPECT(sample->differentiable == 0 || op->gradient != NULL, op);
    for (int i = 0; i < sample->input_count; i++) {
        types[i] = (gy_type){.dtype = sample->inputs[i].dtype, .rank = sample->inputs[i].rank};
        memcpy(types[i].sizes, sample->inputs[i].sizes, sizeof(types[i].sizes));
        EXPECT((sample->differentiable >> i & 1) == 0 || types[i].dtype == GY_F64, op);
    }
    if (op->infer(&sample->attributes, types, sample->input_count, outputs) != GY_OK) {
        fail_msg("%s sample %d: %s", op->name, s, gy_error_text());
    }
    gy_cost cost;
    op->cost(&sample->attributes, types, sample->input_count, outputs, &cost);
    EXPECT(isfinite(cost.flops) && cost.flops >= 0, op);
    EXPECT(cost.bytes_read >= 0 && cost.bytes_written >= 0 && cost.workspace_bytes >= 0, op);
}

GY_TEST(every_row_is_full_or_says_why_not)
{
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        assert_non_null(op->name);
        assert_ptr_equal(gy_ops_find(op->name), op);
        EXPECT(op->input_count >= -1 && op->input_count <= GY_OP_INPUTS_MAX, op);
        EXPECT(op->output_count >= 1 || op == &gy_ops_row_fused, op);
        EXPECT(op->infer != NULL && op->cost != NULL, op);
        EXPECT((op->gradient == NULL) == (op->no_gradient != NULL), op);
        EXPECT((op->placements == NULL) == (op->no_placements != NULL), op);
        EXPECT((op->reference == NULL) == (op->no_reference != NULL), op);
        EXPECT((op->sample_count > 0) == (op->reference != NULL), op);
        EXPECT((op->flags & GY_OP_ELEMENTWISE) == 0 || op->input_count <= 3, op);
        EXPECT((op->flags & GY_OP_COMMUTES) == 0 || op->input_count == 2, op);
        for (int s = 0; s < op->sample_count; s++) {
            check_sample(op, s);
        }
    }
    assert_null(gy_ops_find("no such operator"));
    assert_in_range(gy_ops_all_count, 60, 1000);
}

GY_TEST(what_commutes_commutes)
{
    gy_random random = {.key = gy_test_seed()};
    int checked = 0;
    for (int i = 0; i < gy_ops_all_count; i++) {
        const gy_op *op = gy_ops_all[i];
        for (int s = 0; s < op->sample_count && (op->flags & GY_OP_COMMUTES) != 0; s++) {
            ops_eager eager;
            ops_eager_open(&eager);
            gy_value a = ops_eager_input(&eager, &op->samples[s], 0, GY_F64, &random);
            gy_value b = ops_eager_input(&eager, &op->samples[s], 1, GY_F64, &random);
            gy_view y = ops_eager_of(&eager, gy_build2(&eager.builder, op, a, b));
            gy_view z = ops_eager_of(&eager, gy_build2(&eager.builder, op, b, a));
            assert_memory_equal(y.data, z.data, gy_view_bytes(&y));
            ops_eager_close(&eager);
            checked++;
        }
    }
    assert_in_range(checked, 10, 1000);
}

/* ---- types ---- */

#define T(type, ...)                                                                           \
    {                                                                                          \
        .dtype = (type), .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),           \
        .sizes = {                                                                             \
            __VA_ARGS__                                                                        \
        }                                                                                      \
    }
#define B GY_BATCH

typedef struct type_case {
    const gy_op *op;
    gy_attributes attributes;
    int input_count;
    gy_type inputs[6];
    const char *expected; /* the type of output 0, or the text of the failure */
} type_case;

static const type_case good_cases[] = {
    {&gy_ops_row_matmul,
     {.matmul = {0}},
     2,
     {T(GY_F32, B, 784), T(GY_F32, 784, 10)},
     "f32[batch,10]"},
    {&gy_ops_row_matmul,
     {.matmul = {.transpose_a = true}},
     2,
     {T(GY_F32, B, 784), T(GY_F32, B, 10)},
     "f32[784,10]"},
    {&gy_ops_row_matmul,
     {.matmul = {.transpose_b = true, .has_bias = true}},
     3,
     {T(GY_F64, B, 2, 3), T(GY_F64, 5, 3), T(GY_F64, 5)},
     "f64[batch,2,5]"},
    {&gy_ops_row_add, {.matmul = {0}}, 2, {T(GY_F32, B, 10), T(GY_F32, 10)}, "f32[batch,10]"},
    {&gy_ops_row_add, {.matmul = {0}}, 2, {T(GY_F32, -3, 1), T(GY_F32, 1, 4)}, "f32[3batch,4]"},
    {&gy_ops_row_less, {.matmul = {0}}, 2, {T(GY_I64, B), T(GY_I64, 1)}, "u8[batch]"},
    {&gy_ops_row_sum, {.reduce = {.axes = 1}}, 1, {T(GY_F32, B, 10)}, "f32[10]"},
    {&gy_ops_row_sum, {.reduce = {.axes = 0}}, 1, {T(GY_F32, B, 10)}, "f32[]"},
    {&gy_ops_row_max,
     {.reduce = {.axes = 2, .keep = true}},
     1,
     {T(GY_F32, B, 9)},
     "f32[batch,1]"},
    {&gy_ops_row_argmax, {.axis = {.dim = 1}}, 1, {T(GY_F32, B, 9)}, "i64[batch]"},
    {&gy_ops_row_count, {.reduce = {.axes = 1}}, 1, {T(GY_F32, B, 9)}, "f32[]"},
    {&gy_ops_row_cross_entropy, {.axis = {0}}, 2, {T(GY_F32, B, 9), T(GY_I32, B)}, "f32[]"},
    {&gy_ops_row_cross_entropy,
     {.axis = {0}},
     2,
     {T(GY_F32, B, 7, 9), T(GY_I32, B, 7)},
     "f32[]"},
    {&gy_ops_row_cross_entropy_gradient,
     {.axis = {0}},
     3,
     {T(GY_F32, B, 7, 9), T(GY_I32, B, 7), {.dtype = GY_F32}},
     "f32[batch,7,9]"},
    {&gy_ops_row_attention,
     {.attention = {.is_causal = true}},
     3,
     {T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 9, 2, 4), T(GY_F32, B, 9, 2, 5)},
     "f32[batch,7,2,5]"},
    {&gy_ops_row_attention_gradient,
     {.attention = {.scale = 2}},
     6,
     {T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 9, 2, 4), T(GY_F32, B, 9, 2, 5),
      T(GY_F32, B, 7, 2, 5), T(GY_F32, B, 2, 7), T(GY_F32, B, 7, 2, 5)},
     "f32[batch,7,2,4]"},
    {&gy_ops_row_attention_packed,
     {.attention = {.is_causal = true}},
     1,
     {T(GY_F32, B, 7, 2, 3, 4)},
     "f32[batch,7,2,4]"},
    {&gy_ops_row_attention_packed_gradient,
     {.attention = {.scale = 2}},
     4,
     {T(GY_F32, B, 7, 2, 3, 4), T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 2, 7),
      T(GY_F32, B, 7, 2, 4)},
     "f32[batch,7,2,3,4]"},
    {&gy_ops_row_one_hot,
     {.axis = {.dim = 1, .depth = 9, .dtype = GY_F32}},
     1,
     {T(GY_U8, B)},
     "f32[batch,9]"},
    {&gy_ops_row_reshape,
     {.shape = {.rank = 2, .sizes = {B, 3136}}},
     1,
     {T(GY_F32, B, 64, 7, 7)},
     "f32[batch,3136]"},
    {&gy_ops_row_reshape,
     {.shape = {.rank = 1, .sizes = {-16}}},
     1,
     {T(GY_F32, B, 16)},
     "f32[16batch]"},
    {&gy_ops_row_reshape,
     {.shape = {.rank = 2, .sizes = {INT64_MAX, 8}}},
     1,
     {T(GY_F32, B, 16)},
     "f32[2batch,8]"},
    {&gy_ops_row_reshape,
     {.shape = {.rank = 2, .sizes = {B, INT64_MAX}}},
     1,
     {T(GY_F32, B, 4, 4)},
     "f32[batch,16]"},
    {&gy_ops_row_broadcast_to,
     {.shape = {.rank = 2, .sizes = {B, 4}}},
     1,
     {T(GY_F32, 4)},
     "f32[batch,4]"},
    {&gy_ops_row_transpose, {.permute = {{1, 0}}}, 1, {T(GY_F32, B, 4)}, "f32[4,batch]"},
    {&gy_ops_row_slice,
     {.slice = {.dim = 1, .begin = 1, .end = 8, .step = 3}},
     1,
     {T(GY_F32, B, 9)},
     "f32[batch,3]"},
    {&gy_ops_row_slice,
     {.slice = {.dim = 0, .begin = -1, .end = -3, .step = 1}},
     1,
     {T(GY_F32, -3, 9)},
     "f32[2batch,9]"},
    {&gy_ops_row_pad,
     {.slice = {.dim = 0, .begin = -1, .end = -3, .step = 1, .size = -3}},
     1,
     {T(GY_F32, -2, 9)},
     "f32[3batch,9]"},
    {&gy_ops_row_concat,
     {.axis = {.dim = 0}},
     2,
     {T(GY_F32, B, 9), T(GY_F32, -2, 9)},
     "f32[3batch,9]"},
    {&gy_ops_row_gather,
     {.axis = {.dim = 0}},
     2,
     {T(GY_F32, 99, 8), T(GY_I32, B, 5)},
     "f32[batch,5,8]"},
    {&gy_ops_row_scatter_add,
     {.axis = {.dim = 0, .depth = 99}},
     2,
     {T(GY_F32, B, 5, 8), T(GY_I32, B, 5)},
     "f32[99,8]"},
    {&gy_ops_row_gather, /* its adjoint has more dimensions than it may have */
     {.axis = {.dim = 0}},
     2,
     {T(GY_F32, 99, 8, 2), T(GY_I32, B, 5, 2, 3)},
     "f32[batch,5,2,3,8,2]"},
    {&gy_ops_row_slice,
     {.slice = {.dim = 1, .begin = 1, .end = 8, .step = INT64_MAX}},
     1,
     {T(GY_F32, B, 9)},
     "f32[batch,1]"},
    {&gy_ops_row_conv2d,
     {.conv = {.stride = {1, 1}, .pad = {2, 2}}},
     2,
     {T(GY_F32, B, 1, 28, 28), T(GY_F32, 32, 1, 5, 5)},
     "f32[batch,32,28,28]"},
    {&gy_ops_row_conv2d_input_gradient,
     {.conv = {.stride = {2, 1}, .pad = {0, 1}, .input_sizes = {B, 3, 8, 8}}},
     2,
     {T(GY_F32, B, 4, 3, 8), T(GY_F32, 4, 3, 3, 3)},
     "f32[batch,3,8,8]"},
    {&gy_ops_row_conv2d_filter_gradient,
     {.conv = {.stride = {2, 1}, .pad = {0, 1}, .input_sizes = {4, 3, 3, 3}}},
     2,
     {T(GY_F32, B, 3, 8, 8), T(GY_F32, B, 4, 3, 8)},
     "f32[4,3,3,3]"},
    {&gy_ops_row_max_pool,
     {.pool = {.window = {2, 2}, .stride = {2, 2}}},
     1,
     {T(GY_F32, B, 32, 28, 28)},
     "f32[batch,32,14,14]"},
    {&gy_ops_row_layer_norm,
     {.norm = {.epsilon = 1e-5, .axis_count = 1}},
     3,
     {T(GY_F32, B, 7), T(GY_F32, 7), T(GY_F32, 7)},
     "f32[batch,7]"},
    {&gy_ops_row_mean, {.reduce = {.axes = 5}}, 1, {T(GY_F64, B, 7, 3)}, "f64[7]"},
    {&gy_ops_row_prod, {.reduce = {.axes = 1}}, 1, {T(GY_F64, B, 7)}, "f64[7]"},
    {&gy_ops_row_div, {.axis = {0}}, 2, {T(GY_F64, B, 7), T(GY_F64, B, 1)}, "f64[batch,7]"},
    {&gy_ops_row_mul, {.axis = {0}}, 2, {T(GY_F64, 7), T(GY_F64, B, 3, 1)}, "f64[batch,3,7]"},
    {&gy_ops_row_pow, {.axis = {0}}, 2, {T(GY_F64, B, 7), {.dtype = GY_F64}}, "f64[batch,7]"},
    {&gy_ops_row_maximum, {.axis = {0}}, 2, {T(GY_F64, B, 7), T(GY_F64, 7)}, "f64[batch,7]"},
    {&gy_ops_row_select,
     {.axis = {0}},
     3,
     {T(GY_U8, B, 1), T(GY_F64, B, 7), T(GY_F64, 7)},
     "f64[batch,7]"},
    {&gy_ops_row_gelu, {.axis = {0}}, 1, {T(GY_F64, B, 7)}, "f64[batch,7]"},
    {&gy_ops_row_softmax, {.axis = {.dim = 1}}, 1, {T(GY_F64, B, 7)}, "f64[batch,7]"},
    {&gy_ops_row_log_softmax, {.axis = {.dim = 0}}, 1, {T(GY_F64, B, 7)}, "f64[batch,7]"},
    {&gy_ops_row_average_pool,
     {.pool = {.window = {3, 3}, .stride = {2, 2}, .pad = {1, 1}}},
     1,
     {T(GY_F32, B, 32, 9, 9)},
     "f32[batch,32,5,5]"},
    {&gy_ops_row_batch_norm,
     {.norm = {.epsilon = 1e-5}},
     3,
     {T(GY_F32, B, 6, 8, 8), T(GY_F32, 6), T(GY_F32, 6)},
     "f32[batch,6,8,8]"},
    {&gy_ops_row_batch_norm,
     {.norm = {.epsilon = 1e-5}},
     3,
     {T(GY_F32, B, 6), T(GY_F32, 6), T(GY_F32, 6)},
     "f32[batch,6]"},
    {&gy_ops_row_dropout,
     {.dropout = {.rate = 0.5}},
     2,
     {T(GY_F32, B, 7), T(GY_I64, 2)},
     "f32[batch,7]"},
};

static const type_case bad_cases[] = {
    {&gy_ops_row_matmul,
     {.matmul = {0}},
     2,
     {T(GY_F32, B, 784), T(GY_F32, 512, 10)},
     "matmul: inner sizes differ: f32[batch,784] times f32[512,10] (784 against 512)"},
    {&gy_ops_row_matmul,
     {.matmul = {0}},
     2,
     {T(GY_F32, 4, 5), T(GY_F64, 5, 4)},
     "matmul: element types differ: f32[4,5] and f64[5,4] (cast one)"},
    {&gy_ops_row_matmul,
     {.matmul = {0}},
     2,
     {T(GY_F32, 2, 4, 5), T(GY_F32, 3, 5, 4)},
     "matmul: leading sizes differ: f32[2,4,5] times f32[3,5,4]"},
    {&gy_ops_row_matmul,
     {.matmul = {.has_bias = true}},
     3,
     {T(GY_F32, 4, 5), T(GY_F32, 5, 3), T(GY_F32, 4)},
     "matmul: bias f32[4] does not fit result f32[4,3]"},
    {&gy_ops_row_add,
     {.matmul = {0}},
     2,
     {T(GY_F32, B, 10), T(GY_F32, 64, 10)},
     "add: sizes differ: f32[batch,10] and f32[64,10] (batch against 64)"},
    {&gy_ops_row_mul,
     {.matmul = {0}},
     2,
     {T(GY_F32, 3), T(GY_I32, 3)},
     "mul: element types differ: f32[3] and i32[3] (cast one)"},
    {&gy_ops_row_add,
     {.matmul = {0}},
     2,
     {T(GY_F16, 3), T(GY_F16, 3)},
     "add: f16[3] and f16[3] are storage types, cast them first"},
    {&gy_ops_row_exp,
     {.matmul = {0}},
     1,
     {T(GY_I32, 3)},
     "exp: input 0 is i32[3], expected f64 or f32"},
    {&gy_ops_row_select,
     {.matmul = {0}},
     3,
     {T(GY_I32, 3), T(GY_F32, 3), T(GY_F32, 3)},
     "select: condition is i32[3], expected u8"},
    {&gy_ops_row_sum,
     {.reduce = {.axes = 4}},
     1,
     {T(GY_F32, 3, 4)},
     "sum: axes 0x4 of f32[3,4]"},
    {&gy_ops_row_max,
     {.reduce = {.axes = 1}},
     1,
     {T(GY_F32, 0, 4)},
     "max: no elements along dimension 0 of f32[0,4]"},
    {&gy_ops_row_softmax,
     {.axis = {.dim = 2}},
     1,
     {T(GY_F32, 3, 4)},
     "softmax: dimension 2 of f32[3,4]"},
    {&gy_ops_row_cross_entropy,
     {.axis = {0}},
     2,
     {T(GY_F32, B, 9), T(GY_I32, 7)},
     "cross_entropy: logits f32[batch,9] and labels i32[7]"},
    {&gy_ops_row_cross_entropy,
     {.axis = {0}},
     2,
     {T(GY_F32, B, 9), T(GY_F32, B)},
     "cross_entropy: input 1 is f32[batch], expected integers"},
    {&gy_ops_row_cross_entropy,
     {.axis = {0}},
     2,
     {T(GY_F32, B, 7, 9), T(GY_I32, B)},
     "cross_entropy: logits f32[batch,7,9] and labels i32[batch], expected (..., classes)"},
    {&gy_ops_row_cross_entropy_gradient,
     {.axis = {0}},
     3,
     {T(GY_F32, B, 9), T(GY_I32, B), T(GY_F32, 1)},
     "cross_entropy_gradient: dy is f32[1], expected a scalar"},
    {&gy_ops_row_attention,
     {.attention = {0}},
     3,
     {T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 7, 3, 4), T(GY_F32, B, 7, 3, 4)},
     "attention: q f32[batch,7,2,4], k f32[batch,7,3,4] and v f32[batch,7,3,4]"},
    {&gy_ops_row_attention,
     {.attention = {.is_causal = true}},
     3,
     {T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 6, 2, 4), T(GY_F32, B, 6, 2, 4)},
     "attention: causal, with q f32[batch,7,2,4] and k f32[batch,6,2,4]"},
    {&gy_ops_row_attention,
     {.attention = {.scale = -1}},
     3,
     {T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 7, 2, 4)},
     "attention: scale -1"},
    {&gy_ops_row_attention_gradient,
     {.attention = {0}},
     6,
     {T(GY_F32, B, 7, 2, 4), T(GY_F32, B, 9, 2, 4), T(GY_F32, B, 9, 2, 5),
      T(GY_F32, B, 7, 2, 5), T(GY_F32, B, 7, 2), T(GY_F32, B, 7, 2, 5)},
     "attention_gradient: lse is f32[batch,7,2], expected f32[batch,2,7]"},
    {&gy_ops_row_reshape,
     {.shape = {.rank = 2, .sizes = {B, 3135}}},
     1,
     {T(GY_F32, B, 64, 7, 7)},
     "reshape: f32[batch,64,7,7] to f32[batch,3135]: 3136batch elements against 3135batch"},
    {&gy_ops_row_reshape,
     {.shape = {.rank = 2, .sizes = {INT64_MAX, 7}}},
     1,
     {T(GY_F32, 3, 4)},
     "reshape: f32[3,4] to f32[1,7]: 12 elements against 7"},
    {&gy_ops_row_broadcast_to,
     {.shape = {.rank = 2, .sizes = {B, 4}}},
     1,
     {T(GY_F32, 5)},
     "broadcast_to: f32[5] does not broadcast to f32[batch,4]"},
    {&gy_ops_row_transpose,
     {.permute = {{1, 1}}},
     1,
     {T(GY_F32, 3, 4)},
     "transpose: f32[3,4] by a list"},
    {&gy_ops_row_slice,
     {.slice = {.dim = 0, .begin = 0, .end = 10, .step = 1}},
     1,
     {T(GY_F32, B, 4)},
     "slice: [0, 10) by 1 of dimension 0 of f32[batch,4]"},
    {&gy_ops_row_slice,
     {.slice = {.dim = 0, .begin = -1, .end = -4, .step = 1}},
     1,
     {T(GY_F32, -3, 4)},
     "slice: [batch, 4batch) by 1 of dimension 0 of f32[3batch,4]"},
    {&gy_ops_row_slice,
     {.slice = {.dim = 0, .begin = 0, .end = 4, .step = 1}},
     1,
     {T(GY_F32, 3)},
     "slice: [0, 4) by 1 of dimension 0 of f32[3]"},
    {&gy_ops_row_pad,
     {.slice = {.dim = 0, .begin = 0, .end = 2, .step = 1, .size = 5}},
     1,
     {T(GY_F32, 3)},
     "pad: f32[3] to f32[5]: 2 places along dimension 0"},
    {&gy_ops_row_concat,
     {.axis = {.dim = 1}},
     2,
     {T(GY_F32, 3, 4), T(GY_F32, 2, 4)},
     "concat: f32[3,4] and f32[2,4] along dimension 1"},
    {&gy_ops_row_gather,
     {.axis = {.dim = 0}},
     2,
     {T(GY_F32, 9, 4), T(GY_F32, 3)},
     "gather: input 1 is f32[3], expected integers"},
    {&gy_ops_row_scatter_add,
     {.axis = {.dim = 0, .depth = 9}},
     2,
     {T(GY_F32, 3, 4), T(GY_I32, 2)},
     "scatter_add: values f32[3,4] and indices i32[2]"},
    {&gy_ops_row_conv2d,
     {.conv = {.stride = {1, 1}}},
     2,
     {T(GY_F32, B, 3, 28, 28), T(GY_F32, 32, 1, 5, 5)},
     "conv2d: images f32[batch,3,28,28] and filters f32[32,1,5,5]"},
    {&gy_ops_row_conv2d,
     {.conv = {.stride = {1, 1}}},
     2,
     {T(GY_F32, B, 1, 4, 4), T(GY_F32, 32, 1, 5, 5)},
     "conv2d: filters f32[32,1,5,5] do not fit images f32[batch,1,4,4] with pad 0"},
    {&gy_ops_row_conv2d,
     {.conv = {.stride = {0, 1}}},
     2,
     {T(GY_F32, B, 1, 8, 8), T(GY_F32, 32, 1, 5, 5)},
     "conv2d: stride 0 and pad 0"},
    {&gy_ops_row_conv2d_input_gradient,
     {.conv = {.stride = {1, 1}, .input_sizes = {B, 3, 8, 8}}},
     2,
     {T(GY_F32, B, 4, 5, 8), T(GY_F32, 4, 3, 3, 3)},
     "shapes differ: f32[batch,4,5,8], expected f32[batch,4,6,6]"},
    {&gy_ops_row_max_pool,
     {.pool = {.window = {2, 2}, .stride = {2, 2}, .pad = {2, 0}}},
     1,
     {T(GY_F32, B, 1, 8, 8)},
     "max_pool: window 2, stride 2, pad 2"},
    {&gy_ops_row_max_pool,
     {.pool = {.window = {9, 2}, .stride = {2, 2}}},
     1,
     {T(GY_F32, B, 1, 8, 8)},
     "max_pool: window 9 does not fit f32[batch,1,8,8]"},
    {&gy_ops_row_layer_norm,
     {.norm = {.epsilon = 1e-5, .axis_count = 1}},
     3,
     {T(GY_F32, B, 7), T(GY_F32, 6), T(GY_F32, 7)},
     "layer_norm: gain is f32[6] for x f32[batch,7]"},
    {&gy_ops_row_batch_norm,
     {.norm = {.epsilon = -1}},
     3,
     {T(GY_F32, B, 7), T(GY_F32, 7), T(GY_F32, 7)},
     "batch_norm: epsilon -1"},
    {&gy_ops_row_dropout,
     {.dropout = {.rate = 1}},
     2,
     {T(GY_F32, B, 7), T(GY_I64, 2)},
     "dropout: rate 1, expected 0 to below 1"},
    {&gy_ops_row_assign,
     {.matmul = {0}},
     2,
     {T(GY_F32, 3, 4), T(GY_F32, 4)},
     "assign: shapes differ: f32[4], expected f32[3,4]"},
    {&gy_ops_row_max_pool,
     {.pool = {.window = {2, 2}, .stride = {1, 1}, .pad = {1, 1}}},
     1,
     {T(GY_F32, B, 1, 0, 8)},
     "max_pool: window 2 does not fit f32[batch,1,0,8] with pad 1"},
    {&gy_ops_row_add,
     {.matmul = {0}},
     2,
     {T(GY_F32, INT64_C(1) << 31, 1), T(GY_F32, 1, INT64_C(1) << 31)},
     "add: a result f32[2147483648,2147483648] has more than 2^62 bytes"},
    {&gy_ops_row_broadcast_to,
     {.shape = {.rank = 2, .sizes = {INT64_MAX, 4}}},
     1,
     {T(GY_F32, 4)},
     "broadcast_to: a result f32[9223372036854775807,4] has more than 2^62 bytes"},
    {&gy_ops_row_concat,
     {.axis = {.dim = 0}},
     2,
     {T(GY_U8, INT64_C(1) << 62), T(GY_U8, INT64_C(1) << 62)},
     "concat: u8[4611686018427387904] and u8[4611686018427387904] along dimension 0"},
    {&gy_ops_row_scatter_add,
     {.axis = {.dim = 0, .depth = 9}},
     2,
     {T(GY_F32, 3), T(GY_I32, 3, 2, 2)},
     "scatter_add: dimension 0 of f32[3] by i32[3,2,2]"},
    {&gy_ops_row_fill, {.shape = {.rank = 9}}, 0, {T(GY_F32, 1)}, "rank 9, expected 0 to 8"},
};

GY_TEST(types_follow_with_symbolic_batches)
{
    char text[160];
    for (size_t i = 0; i < GY_COUNT(good_cases); i++) {
        const type_case *c = &good_cases[i];
        gy_type outputs[GY_OP_OUTPUTS_MAX];
        if (gy_ops_infer(c->op, &c->attributes, c->inputs, c->input_count, outputs) != GY_OK) {
            fail_msg("case %zu: %s", i, gy_error_text());
        }
        assert_string_equal(gy_type_text(&outputs[0], text), c->expected);
    }
}

/* A builder that only infers types, which may be symbolic; output k of a node has number
 * node + k. */
typedef struct typer {
    gy_builder builder;
    gy_type types[512];
    int count;
} typer;

static gy_value typer_apply(gy_builder *builder, const gy_op *op,
                            const gy_attributes *attributes, const gy_value *inputs,
                            int input_count)
{
    typer *t = (typer *)builder;
    gy_type types[GY_OP_INPUTS_MAX];
    for (int i = 0; i < input_count; i++) {
        types[i] = t->types[inputs[i].node + inputs[i].output];
    }
    assert_in_range(t->count, 0, GY_COUNT(t->types) - GY_OP_OUTPUTS_MAX);
    gy_status status = gy_ops_infer(op, attributes, types, input_count, &t->types[t->count]);
    if (status != GY_OK) {
        fail_msg("%s: %s", op->name, gy_error_text());
    }
    t->count += op->output_count;
    return (gy_value){t->count - op->output_count, 0};
}

static const gy_type *typer_type(gy_builder *builder, gy_value value)
{
    return &((typer *)builder)->types[value.node + value.output];
}

static void expect_same_type(typer *t, gy_value a, gy_value b)
{
    char left[160], right[160];
    assert_string_equal(gy_type_text(typer_type(&t->builder, a), left),
                        gy_type_text(typer_type(&t->builder, b), right));
}

/* Gradients have their inputs' types and expansions the result's, with a symbolic batch too. */
GY_TEST(gradients_and_expansions_have_the_types)
{
    static const gy_builder_ops ops = {.apply = typer_apply, .type = typer_type};
    static typer t;
    for (size_t i = 0; i < GY_COUNT(good_cases); i++) {
        const type_case *c = &good_cases[i];
        gy_value inputs[6], slopes[6], outputs[GY_OP_OUTPUTS_MAX], dy[GY_OP_OUTPUTS_MAX];
        const bool is_fused = c->op == &gy_ops_row_matmul && c->attributes.matmul.has_bias;
        t = (typer){.builder = {&ops}};
        for (int k = 0; k < c->input_count; k++) {
            t.types[t.count] = c->inputs[k];
            inputs[k] = (gy_value){t.count++, 0};
        }
        gy_value y = gy_build(&t.builder, c->op, &c->attributes, inputs, c->input_count);
        for (int k = 0; k < c->op->output_count; k++) {
            outputs[k] = (gy_value){y.node, k};
            dy[k] = outputs[k];
        }
        const gy_applied applied = {&c->attributes, inputs, c->input_count, outputs};
        if (c->op->expand != NULL) {
            gy_value made[GY_OP_OUTPUTS_MAX];
            assert_ok(c->op->expand(&t.builder, &applied, made));
            for (int k = 0; k < c->op->output_count; k++) {
                expect_same_type(&t, made[k], outputs[k]);
            }
        }
        /* With slopes of all outputs, then of the first alone. */
        for (int round = 0; round < 2 && c->op->gradient != NULL && !is_fused; round++) {
            assert_ok(c->op->gradient(&t.builder, &applied, dy, slopes));
            for (int k = 0; k < c->input_count; k++) {
                if (slopes[k].node >= 0) {
                    expect_same_type(&t, slopes[k], inputs[k]);
                }
            }
            for (int k = 1; k < c->op->output_count; k++) {
                dy[k] = GY_NO_VALUE;
            }
        }
    }
}

GY_TEST(failures_show_what_does_not_fit)
{
    for (size_t i = 0; i < GY_COUNT(bad_cases); i++) {
        const type_case *c = &bad_cases[i];
        gy_type output[GY_OP_OUTPUTS_MAX], before[GY_OP_OUTPUTS_MAX];
        memset(output, 0x5a, sizeof(output));
        memset(before, 0x5a, sizeof(before));
        gy_status status =
            gy_ops_infer(c->op, &c->attributes, c->inputs, c->input_count, output);
        if (status >= 0 || strstr(gy_error_text(), c->expected) == NULL) {
            fail_msg("case %zu: %s: '%s', expected '%s'", i, gy_status_text(status),
                     gy_error_text(), c->expected);
        }
        assert_memory_equal(output, before, sizeof(output));
    }
}

/* Binding the symbols gives the type that numbers would have given. */
GY_TEST(bound_attributes_give_numbers)
{
    int bound = 0;
    for (size_t i = 0; i < GY_COUNT(good_cases); i++) {
        type_case c = good_cases[i];
        gy_type symbolic[GY_OP_OUTPUTS_MAX], numeric[GY_OP_OUTPUTS_MAX];
        char left[160], right[160];
        assert_ok(c.op->infer(&c.attributes, c.inputs, c.input_count, symbolic));
        for (int k = 0; k < c.input_count; k++) {
            for (int dim = 0; dim < c.inputs[k].rank; dim++) {
                int64_t *size = &c.inputs[k].sizes[dim];
                *size = *size < 0 ? -*size * 6 : *size;
            }
        }
        for (int dim = 0; dim < symbolic->rank; dim++) {
            int64_t *size = &symbolic->sizes[dim];
            *size = *size < 0 ? -*size * 6 : *size;
        }
        if (c.op->bind != NULL) {
            c.op->bind(&c.attributes, 6);
            bound++;
        }
        assert_ok(c.op->infer(&c.attributes, c.inputs, c.input_count, numeric));
        assert_string_equal(gy_type_text(numeric, left), gy_type_text(symbolic, right));
    }
    assert_in_range(bound, 8, 100);
}

/* What does not fit when the batch is known is a size that no type may have. */
GY_TEST(too_large_a_batch_is_refused)
{
    gy_attributes attributes = {
        .shape = {.rank = 1, .dtype = GY_F64, .sizes = {-(INT64_C(1) << 55)}}};
    gy_type output;
    assert_ok(gy_ops_infer(&gy_ops_row_fill, &attributes, NULL, 0, &output));
    gy_ops_row_fill.bind(&attributes, INT64_C(1) << 61);
    assert_status(gy_ops_infer(&gy_ops_row_fill, &attributes, NULL, 0, &output), GY_SHAPE);
}

GY_TEST(counts_of_symbolic_sizes)
{
    const gy_type images = T(GY_F32, B, 7, 7, 64), square = T(GY_F32, B, B);
    const gy_type empty = T(GY_F32, B, 0), scalar = {.dtype = GY_F32};
    const gy_type huge = T(GY_F32, INT64_MAX, 3);
    assert_int_equal(gy_type_count(&images), -3136);
    assert_int_equal(gy_type_count(&square), INT64_MIN);
    assert_int_equal(gy_type_count(&huge), INT64_MIN);
    assert_int_equal(gy_type_count(&empty), 0);
    assert_int_equal(gy_type_count(&scalar), 1);
}

/* Eight long sizes do not fit; the text is cut, not overrun. */
GY_TEST(long_types_are_cut)
{
    const int64_t n = -INT64_C(1234567890123456789);
    const gy_type type = T(GY_BF16, n, n, n, n, n, n, n, n);
    char text[160];
    assert_in_range(strlen(gy_type_text(&type, text)), 100, 159);
    assert_non_null(strstr(text, ",...]"));
}

GY_TEST(a_product_costs_its_flops)
{
    gy_attributes attributes;
    memset(&attributes, 0, sizeof(attributes));
    const gy_type inputs[2] = {T(GY_F32, 64, 784), T(GY_F32, 784, 512)};
    gy_type output;
    gy_cost cost;
    assert_ok(gy_ops_row_matmul.infer(&attributes, inputs, 2, &output));
    gy_ops_row_matmul.cost(&attributes, inputs, 2, &output, &cost);
    assert_true(cost.flops == 2.0 * 64 * 784 * 512);
    assert_true(cost.bytes_read == 4.0 * (64 * 784 + 784 * 512));
    assert_true(cost.bytes_written == 4.0 * 64 * 512);
    const gy_type conv[2] = {T(GY_F64, 2, 3, 8, 8), T(GY_F64, 4, 3, 3, 3)};
    attributes.conv.stride[0] = attributes.conv.stride[1] = 1;
    assert_ok(gy_ops_row_conv2d.infer(&attributes, conv, 2, &output));
    gy_ops_row_conv2d.cost(&attributes, conv, 2, &output, &cost);
    assert_true(cost.flops == 2.0 * 2 * 4 * 6 * 6 * 3 * 3 * 3);
}

static gy_cost cost_of(const gy_op *op, const gy_attributes *attributes, const gy_type *inputs,
                       int input_count)
{
    gy_type output;
    gy_cost cost;
    assert_ok(gy_ops_infer(op, attributes, inputs, input_count, &output));
    op->cost(attributes, inputs, input_count, &output, &cost);
    return cost;
}

/* What is not read is not paid for: a table's other rows, what a slice leaves, sizes. */
GY_TEST(a_part_of_a_value_costs_a_part)
{
    const gy_attributes none = {.axis = {.dim = 0}};
    const gy_attributes part = {.slice = {.dim = 0, .begin = 5, .end = 15, .step = 5}};
    const gy_attributes window = {.pool = {.window = {2, 2}, .stride = {1, 1}, .pad = {1, 1}}};
    const gy_type table[2] = {T(GY_F32, 1000000, 64), T(GY_I32, 10)};
    gy_cost cost = cost_of(&gy_ops_row_gather, &none, table, 2);
    assert_true(cost.bytes_read == 4.0 * (10 * 64 + 10) && cost.bytes_written == 4.0 * 10 * 64);
    cost = cost_of(&gy_ops_row_slice, &part, table, 1);
    assert_true(cost.bytes_read == 4.0 * 2 * 64 && cost.bytes_written == 4.0 * 2 * 64);
    cost = cost_of(&gy_ops_row_count, &none, table, 1);
    assert_true(cost.bytes_read == 0 && cost.flops == 0);
    const gy_type image[2] = {T(GY_F32, 1, 1, 3, 3), T(GY_F32, 1, 1, 4, 4)};
    cost = cost_of(&gy_ops_row_max_pool, &window, image, 1);
    assert_true(cost.flops == 4 * 16 && cost.bytes_written == 4.0 * 16);
    cost = cost_of(&gy_ops_row_max_pool_gradient, &window, image, 2);
    assert_true(cost.flops == 4 * 16 && cost.bytes_written == 4.0 * 9);
}

GY_TEST_MAIN(NULL, NULL)
