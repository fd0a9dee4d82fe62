/**
 * What the rows of room ops share: checks of types, element walks of the plain definitions,
 * signatures.
 */
#ifndef GY_OPS_OPS_PRIV_H
#define GY_OPS_OPS_PRIV_H

#include "ops/ops.h"
#include "tensor/tensor.h"

enum { GY_TYPE_TEXT_BYTES = 160 };

/* Rank-many sizes or places. */
typedef struct gy_ops_index {
    int64_t at[GY_TENSOR_RANK_MAX];
} gy_ops_index;

/* ---- types ---- */

/** "784", "batch" or "16batch"; returns `out`. */
const char *gy_size_text(int64_t size, char out[32]);
/** i64 i32 i16 i8 u32 u16 u8: what integer arithmetic runs on (u64 is storage). */
bool gy_dtype_is_whole(gy_dtype dtype);
/** Fails unless input `index` is f64 or f32, naming operator and type. */
gy_status gy_need_real(const char *name, const gy_type *inputs, int index);
/** Fails unless the first two inputs are of one type that products read: f64, f32, bf16, f16.
 */
gy_status gy_ops_need_operands(const char *name, const gy_type *inputs);
/** What a product of such operands gives: float32 of 16-bit ones. */
gy_dtype gy_ops_product_dtype(const gy_type *operand);
/** `value` in the element type of `like`: itself, or a cast. */
gy_value gy_ops_build_as(gy_builder *builder, gy_value value, gy_value like);
/** Fails unless input `index` holds integers. */
gy_status gy_need_whole(const char *name, const gy_type *inputs, int index);
/** Fails unless both have one element type, naming both types. */
gy_status gy_need_same_dtype(const char *name, const gy_type *a, const gy_type *b);
/** Fails with both types unless the element types and sizes are equal. */
gy_status gy_need_same_shape(const char *name, const gy_type *a, const gy_type *b);
/** A dense, replicated type without sizes. */
gy_type gy_type_plain(gy_dtype dtype, int rank);
/** The same element type and sizes, dense and replicated: what infer says of a result like its
 * input. */
gy_type gy_type_like(const gy_type *type);
/** The common sizes of two types by broadcasting from the right. GY_SHAPE with both types. */
gy_status gy_broadcast_sizes(const char *name, const gy_type *a, const gy_type *b,
                             gy_type *out);
/** Put a number for a symbolic size; numbers (and INT64_MAX, "what remains") stay. What does
 * not fit becomes INT64_MAX, which no type may have. */
void gy_bind_size(int64_t *size, int64_t batch);
void gy_bind_sizes(int64_t *sizes, int count, int64_t batch);
/** A row's `bind` for attributes.shape. */
void gy_bind_shape(gy_attributes *attributes, int64_t batch);
/** Sizes of dimensions [from, to) multiplied, as gy_type_count. */
int64_t gy_sizes_product(const int64_t *sizes, int from, int to);
/** |gy_type_count| with batch as one: for costs. */
double gy_type_elements(const gy_type *type);
/** Bytes of all inputs and outputs; flops is the number a row passes. */
void gy_cost_of(const gy_type *inputs, int input_count, const gy_type *output, double flops,
                gy_cost *cost);

/* ---- walks of the plain definitions: by index, in row-major order, slow and clear ---- */

/** Step to the next index; false after the last. */
bool gy_ops_index_next(gy_ops_index *place, const int64_t *sizes, int rank);
/** Elements of sizes. */
int64_t gy_place_count(const int64_t *sizes, int rank);
/** Where an element stands in memory, in elements; dimensions of size 1 repeat (broadcasting),
 * `place` has `rank` >= view->rank dimensions and is aligned at the right. */
int64_t gy_ops_index_offset(const gy_view *view, const gy_ops_index *place, int rank);
double gy_real_at(const gy_view *view, const gy_ops_index *place, int rank);
int64_t gy_whole_at(const gy_view *view, const gy_ops_index *place, int rank);
void gy_real_put(const gy_view *view, const gy_ops_index *place, double value);
/** Keeps the low bits in an integer view. */
void gy_whole_put(const gy_view *view, const gy_ops_index *place, int64_t value);

typedef double (*gy_real_formula)(const double *x);
typedef int64_t (*gy_whole_formula)(const int64_t *x);
/** Output 0 element by element from the broadcast inputs: `real` when the last input is
 * floating, else `whole` (NULL where infer lets no integers in). */
gy_status gy_walk(const gy_kernel_call *call, gy_real_formula real, gy_whole_formula whole);
/** Global size of a dimension of an input. */
int64_t gy_call_size(const gy_kernel_call *call, int input, int dim);
/** A copy of input 0, whatever the element types: a row's `reference`. */
gy_status gy_reference_copy(const gy_kernel_call *call);

/* ---- cost, gradients and signatures that many rows share ---- */

void gy_cost_elementwise(const gy_attributes *attributes, const gy_type *inputs,
                         int input_count, const gy_type *outputs, gy_cost *cost);
void gy_cost_move(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                  const gy_type *outputs, gy_cost *cost);
gy_value gy_build3(gy_builder *builder, const gy_op *op, gy_value a, gy_value b, gy_value c);
/** sum, max, mean, count … over axes. */
gy_value gy_build_reduce(gy_builder *builder, const gy_op *op, gy_value value, uint32_t axes,
                         bool keep);
gy_value gy_build_reshape(gy_builder *builder, gy_value value, const int64_t *sizes, int rank);
/** `value` in the element type of `like`. */
gy_value gy_build_cast_like(gy_builder *builder, gy_value value, gy_value like);
/** a + b, where either may be GY_NO_VALUE (zero). */
gy_value gy_build_total(gy_builder *builder, gy_value a, gy_value b);
/**
 * A row's gradient from what its expansion is made of, for rows whose gradient is seldom
 * needed: of second derivatives. The expansion has at most 64 nodes of one output each.
 */
gy_status gy_ops_expanded_gradient(gy_builder *builder, const gy_op *op, const gy_applied *node,
                                   const gy_value *dy, gy_value *dx);
/** Zero everywhere: GY_NO_VALUE for every input. */
gy_status gy_gradient_zero(gy_builder *builder, const gy_applied *node, const gy_value *dy,
                           gy_value *dx);

static inline gy_placement gy_shard(int dim)
{
    return (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)dim};
}
static inline gy_placement gy_partial(gy_reduction reduction)
{
    return (gy_placement){.kind = GY_PARTIAL, .reduction = (uint8_t)reduction};
}

/** A list of signatures that is being filled. */
typedef struct gy_signatures {
    gy_signature *list; /* (GY_OP_SIGNATURES_MAX) */
    int count;          /* of all that were added; more than the list holds: it is incomplete */
    gy_signature spare; /* what the list has no room for goes here */
} gy_signatures;
/** The next signature, all replicated. */
gy_signature *gy_signatures_add(gy_signatures *signatures);
/** All inputs sharded alike on every dimension of the output (those that broadcast there:
 * replicated). */
void gy_signatures_elementwise(gy_signatures *signatures, const gy_type *inputs,
                               int input_count, const gy_type *output);
/** gy_signatures_elementwise as a row's `placements`. */
int gy_placements_elementwise(const gy_attributes *attributes, const gy_type *inputs,
                              int input_count, const gy_type *outputs,
                              gy_signature *signatures);
/** A row's `placements` when it is linear in input 0, element by element (which may repeat);
 * further inputs are replicated. */
int gy_placements_linear(const gy_attributes *attributes, const gy_type *inputs,
                         int input_count, const gy_type *outputs, gy_signature *signatures);
/** Input 0 and the output sharded alike on every dimension of x but `fixed`, which each rank
 * needs whole. */
void gy_signatures_all_but(gy_signatures *signatures, const gy_type *x, int fixed);
/** Input 0 sharded on `from`, output on `to`; the rest replicated. */
void gy_signatures_shard(gy_signatures *signatures, int from, int to);
/** Input `input` partial(sum), output partial(sum); the rest replicated. */
void gy_signatures_partial(gy_signatures *signatures, int input);

/** The row of an element-wise operator that has <name>_infer, <name>_reference. */
#define GY_ELEMENTWISE_ROW(row_name, inputs, row_flags, row_gradient, row_placements,          \
                           row_samples)                                                        \
    const gy_op gy_ops_row_##row_name = {                                                      \
        .name = #row_name,                                                                     \
        .input_count = (inputs),                                                               \
        .output_count = 1,                                                                     \
        .flags = GY_OP_ELEMENTWISE | (row_flags),                                              \
        .infer = row_name##_infer,                                                             \
        .cost = gy_cost_elementwise,                                                           \
        .gradient = (row_gradient),                                                            \
        .placements = (row_placements),                                                        \
        .reference = row_name##_reference,                                                     \
        GY_SAMPLES(row_samples),                                                               \
    }

/* ---- samples ---- */

#define GY_SIZES(...)                                                                          \
    .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .sizes = {__VA_ARGS__}
/* A floating input of the given sizes, values in [from, to). */
#define GY_IN(from, to, ...)                                                                   \
    {                                                                                          \
        .dtype = GY_F64, GY_SIZES(__VA_ARGS__), .low = (from), .high = (to)                    \
    }
#define GY_IN_DISTINCT(from, to, ...)                                                          \
    {                                                                                          \
        .dtype = GY_F64, GY_SIZES(__VA_ARGS__), .low = (from), .high = (to),                   \
        .is_distinct = true                                                                    \
    }
#define GY_IN_OF(type, from, to, ...)                                                          \
    {                                                                                          \
        .dtype = (type), GY_SIZES(__VA_ARGS__), .low = (from), .high = (to)                    \
    }
#define GY_IN_SCALAR(from, to)                                                                 \
    {                                                                                          \
        .dtype = GY_F64, .rank = 0, .low = (from), .high = (to)                                \
    }
#define GY_SAMPLES(list) .samples = (list), .sample_count = sizeof(list) / sizeof((list)[0])

#endif
