/**
 * Room ops: one row per operator, holding all that the system knows of it; kernels that run
 * rows; the tables to find both.
 *
 * A row is pure knowledge: it includes neither a graph nor an executor. Where it must make
 * nodes (gradients, expansions) it does so through a gy_builder that the caller fills in.
 */
#ifndef GY_OPS_OPS_H
#define GY_OPS_OPS_H

#include "base/base.h"

#include <gyre/coll.h>
#include <gyre/engine.h>
#include <gyre/tensor.h>
#include <gyre/types.h>

enum { GY_OP_INPUTS_MAX = 16, GY_OP_OUTPUTS_MAX = 8, GY_OP_SIGNATURES_MAX = 16 };

typedef struct gy_op gy_op;
typedef struct gy_fused gy_fused;

/** What a matmul or convolution does to its result before it stores it. */
typedef enum gy_activation { GY_ACTIVATION_NONE, GY_ACTIVATION_RELU } gy_activation;

/**
 * The parameters of one application of an operator. Zero all bytes before setting members:
 * equal attributes are equal memory (common subexpressions are found so). Sizes may be symbolic
 * (gyre/types.h).
 */
typedef union gy_attributes {
    struct {
        bool transpose_a, transpose_b; /* of the last two dimensions */
        bool has_bias;                 /* third input: (n) */
        uint8_t activation;            /* gy_activation */
    } matmul;
    struct {
        uint32_t axes; /* bit i: dimension i is reduced; 0: all are (gy_reduce_axes) */
        bool keep;     /* reduced dimensions stay with size 1 */
    } reduce;
    struct {
        int32_t stride[2], pad[2]; /* height, width; pad on both sides */
        bool has_bias;             /* third input: (K) */
        uint8_t activation;
        /* Of the gradient operators' result, global: (N,C,H,W) or (K,C,R,S). Kernels take the
           sizes of this rank's part from the views. Zero for conv2d itself. */
        int64_t input_sizes[4];
    } conv;
    struct {
        int32_t window[2], stride[2], pad[2];
        bool count_pad;         /* average pooling: padding counts as elements */
        int64_t input_sizes[4]; /* of average_pool_gradient's result, global; else zero */
    } pool;
    struct {
        double rate;     /* probability that an element is dropped, in [0, 1) */
        uint64_t stream; /* which random stream: two dropouts differ here */
        int64_t row;     /* elements of a row of the batch, once batch has a number: draws
                            begin at the row that the seed names; 0: at element 0 */
    } dropout;
    struct {
        double epsilon;
        int32_t axis_count; /* layer norm: the last axis_count dimensions */
    } norm;
    struct {
        int32_t rank; /* reshape, broadcast_to, fill, input, parameter */
        gy_dtype dtype;
        int64_t sizes[GY_TENSOR_RANK_MAX];
        double value;
        bool is_batched;   /* input, parameter, once batch has a number: its first size is
                              that of the batch */
        uint8_t free_axes; /* parameter: bits of the mesh's axes that may cut it */
        int64_t rows;      /* parameter of a row for each of the batch: how many are kept, of
                              which a micro-batch has some; 0: what is kept has its sizes */
    } shape;
    struct {
        int32_t dims[GY_TENSOR_RANK_MAX];
    } permute;
    struct {
        /* slice takes [begin, end) by step; pad is its adjoint: `size` zeros along dim, its
           input at begin, begin + step, … In a symbolic dimension all are 0 or symbolic and
           step is 1. */
        int32_t dim;
        int64_t begin, end, step, size; /* size: pad alone */
    } slice;
    struct {
        int32_t dim;     /* concat, softmax, argmax, cumsum, one_hot, gather, scatter_add */
        int64_t depth;   /* one_hot: classes; scatter_add: size of dim in the result */
        gy_dtype dtype;  /* one_hot: of the result */
        bool is_reverse; /* cumsum: from the end */
    } axis;
    struct {
        double scale;   /* of the scores; 0: 1 / sqrt(d) */
        bool is_causal; /* position t of q sees s <= t + S - T */
    } attention;
    struct {
        gy_dtype dtype;
        bool takes_parts; /* of a sum: each rank's is rounded, and the sum is of those */
    } cast;
    struct {
        gy_tensor *tensor; /* literal: held by the graph */
    } literal;
    struct {
        const gy_fused *program; /* held by the compiled program */
    } fused;
    struct {
        uint8_t mesh_axis;
        gy_placement from, to;
    } move; /* collectives that change a placement */
    struct {
        int32_t peer, tag; /* send, receive: the other rank, and which of its messages */
        /* Where a loss tells the passes apart: stages that make and want the value, whether
           that is in their backward pass, and the message's place among all of a run. */
        int16_t from, to;
        bool is_made_backward, is_wanted_backward;
        int32_t number;
    } message;
    struct {
        uint8_t axes; /* bits of the mesh's axes */
        gy_placement to[GY_MESH_MAX];
    } pin; /* where a value is kept along those axes */
    struct {
        gy_format format;
    } reorder;
    unsigned char bytes[120];
} gy_attributes;

/** What is known of a value: element type, layout, global sizes, where its parts live. */
typedef struct gy_type {
    gy_dtype dtype;
    gy_format format;
    int32_t rank;
    int64_t sizes[GY_TENSOR_RANK_MAX]; /* global; number or symbol */
    gy_placement placement[GY_MESH_MAX];
} gy_type;

/** "f32[batch,784]". Returns `out`. */
const char *gy_type_text(const gy_type *type, char out[160]);
/** Equal element type and sizes. */
bool gy_type_is_same_shape(const gy_type *a, const gy_type *b);
/** Elements; negative: that many times batch; INT64_MIN: batch occurs twice or it overflows. */
int64_t gy_type_count(const gy_type *type);
/** The reduced dimensions as bits: `axes`, or all `rank` of them when it is 0. */
static inline uint32_t gy_reduce_axes(uint32_t axes, int rank)
{
    return axes != 0 ? axes : (1u << rank) - 1u;
}

/** One output of one node, in a builder's numbering. {-1, 0}: none, or the result of a failed
 * call. */
typedef struct gy_value {
    int32_t node, output;
} gy_value;
#define GY_NO_VALUE ((gy_value){-1, 0})

/** Makes nodes: a graph fills this in, and the tests do with one that computes at once. */
typedef struct gy_builder gy_builder;
typedef struct gy_builder_ops {
    /* Output 0 of a new node; further outputs are {node, k}. An input that is GY_NO_VALUE gives
       GY_NO_VALUE; a failure is kept by the builder (its first one). */
    gy_value (*apply)(gy_builder *builder, const gy_op *op, const gy_attributes *attributes,
                      const gy_value *inputs, int input_count);
    const gy_type *(*type)(gy_builder *builder, gy_value value);
} gy_builder_ops;
struct gy_builder {
    const gy_builder_ops *ops;
};

gy_value gy_build(gy_builder *builder, const gy_op *op, const gy_attributes *attributes,
                  const gy_value *inputs, int input_count);
gy_value gy_build1(gy_builder *builder, const gy_op *op, gy_value a);
gy_value gy_build2(gy_builder *builder, const gy_op *op, gy_value a, gy_value b);
/** A scalar of the element type of `like`. */
gy_value gy_build_scalar_like(gy_builder *builder, gy_value like, double value);
/** Sum `value` down to the sizes of `like` (undoes broadcasting). */
gy_value gy_build_sum_to(gy_builder *builder, gy_value value, gy_value like);
gy_value gy_build_broadcast_like(gy_builder *builder, gy_value value, gy_value like);

/** A node as its row sees it. */
typedef struct gy_applied {
    const gy_attributes *attributes;
    const gy_value *inputs;
    int input_count;
    const gy_value *outputs;
} gy_applied;

typedef struct gy_cost {
    double flops, bytes_read, bytes_written, workspace_bytes;
} gy_cost;

/** Placements of inputs and outputs along one mesh axis that need no communication. */
typedef struct gy_signature {
    gy_placement inputs[GY_OP_INPUTS_MAX], outputs[GY_OP_OUTPUTS_MAX];
} gy_signature;

/** What a kernel is asked to prepare for: concrete local sizes and formats. */
typedef struct gy_kernel_query {
    const gy_op *op;
    const gy_attributes *attributes;
    const gy_view *inputs; /* data NULL; sizes of this rank's part */
    int input_count;
    const gy_view *outputs;
    int output_count;
    int workers;
} gy_kernel_query;

typedef struct gy_kernel_call {
    const gy_op *op;
    const gy_attributes *attributes;
    const gy_view *inputs;
    int input_count;
    gy_view
        *outputs; /* memory is there; must not overlap inputs unless the kernel is in_place */
    int output_count;
    /* Where this rank's part begins in the global value, and the global sizes, per input and
       output; NULL: the whole value is here. */
    const int64_t (*input_offsets)[GY_TENSOR_RANK_MAX], (*output_offsets)[GY_TENSOR_RANK_MAX];
    const gy_type *input_types, *output_types; /* global; NULL: as the views */
    void *workspace;                           /* 64-byte aligned, as large as asked */
    void *state;                               /* from prepare */
    gy_engine *engine;                         /* for gy_parallel_for; may be NULL */
} gy_kernel_call;

/** What a call asks a kernel for; `workers` 0: of no matter. */
static inline gy_kernel_query gy_kernel_query_of(const gy_kernel_call *call, int workers)
{
    return (gy_kernel_query){.op = call->op,
                             .attributes = call->attributes,
                             .inputs = call->inputs,
                             .input_count = call->input_count,
                             .outputs = call->outputs,
                             .output_count = call->output_count,
                             .workers = workers};
}

typedef struct gy_kernel {
    const char *name; /* "onednn matmul" */
    /* May it run this? Formats of the query's views are as `formats` below asked (else dense
     * contiguous). */
    bool (*accepts)(const gy_kernel_query *query);
    /* Optional: the formats it wants, written per input and output; NULL: dense everywhere. */
    void (*formats)(const gy_kernel_query *query, gy_format *inputs, gy_format *outputs);
    size_t (*workspace_bytes)(const gy_kernel_query *query); /* optional: 0 */
    /* Optional: what is made once for these shapes (a primitive). State is used by one call at
     * a time. */
    gy_status (*prepare)(const gy_kernel_query *query, void **state);
    void (*release)(void *state);
    gy_status (*run)(const gy_kernel_call *call);
    bool takes_strides; /* inputs may be strided views; else they are contiguous */
    uint8_t in_place;   /* bit i: output 0 may be the memory of input i (same size) */
    bool in_place_any;  /* any output may be the memory of any input of its sizes and format
                           whose elements are as large */
} gy_kernel;

enum {
    GY_OP_ELEMENTWISE =
        1 << 0, /* output i depends on element i of (broadcast) inputs: may be fused */
    GY_OP_REDUCTION =
        1 << 1, /* sum, prod, min, max over attributes.reduce.axes: may end a fused chain */
    GY_OP_RANDOM = 1 << 2,     /* two equal nodes are two draws: not a common subexpression */
    GY_OP_EFFECT = 1 << 3,     /* changes a variable or the world: kept, in order */
    GY_OP_VIEW = 1 << 4,       /* output is the input's memory with other sizes (reshape) */
    GY_OP_LEAF = 1 << 5,       /* input, parameter, literal: fed, not computed */
    GY_OP_COLLECTIVE = 1 << 6, /* all ranks take part, in the same order */
    GY_OP_COMMUTES = 1 << 7,   /* two inputs may be swapped */
    GY_OP_LINEAR =
        1 << 8, /* unary elementwise, f(a+b) = f(a)+f(b): Partial(sum) passes through */
};

/** Inputs of an operator for the tests: sizes (concrete), element kind and value range. */
typedef struct gy_ops_sample {
    gy_attributes attributes;
    int input_count;
    struct {
        gy_dtype dtype; /* F64 stands for "the tested float type" */
        int rank;
        int64_t sizes[GY_TENSOR_RANK_MAX];
        double low, high; /* uniform values; integers are drawn from [low, high) */
        bool is_distinct; /* values differ by at least 1e-2, for max and the like */
    } inputs[6];
    uint32_t differentiable; /* bit i: the gradient with respect to input i is tested */
} gy_ops_sample;

struct gy_op {
    const char *name;
    int input_count;  /* -1: any number >= 1 */
    int output_count; /* -1: as many as the program has (fused) */
    uint32_t flags;
    /* Types of the outputs; failures name both shapes (the caller adds the node). */
    gy_status (*infer)(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                       gy_type *outputs);
    void (*cost)(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                 const gy_type *outputs, gy_cost *cost);
    /* Values for the inputs' gradients from those of the outputs (GY_NO_VALUE: zero); writes
       one per input, GY_NO_VALUE where there is none. NULL: not differentiable, and why below.
     */
    gy_status (*gradient)(gy_builder *builder, const gy_applied *node,
                          const gy_value *output_gradients, gy_value *input_gradients);
    const char *no_gradient; /* why `gradient` is NULL */
    /* Optional: the same result from other operators, used when no signature or kernel fits. */
    gy_status (*expand)(gy_builder *builder, const gy_applied *node, gy_value *outputs);
    /* Signatures for one mesh axis beyond (R,…)->R, which always holds; writes the first
     * GY_OP_SIGNATURES_MAX, returns how many there are (more: the caller refuses the node). */
    int (*placements)(const gy_attributes *attributes, const gy_type *inputs, int input_count,
                      const gy_type *outputs, gy_signature *signatures);
    const char *no_placements; /* why `placements` is NULL */
    /* Optional: put numbers for symbols in the attributes. */
    void (*bind)(gy_attributes *attributes, int64_t batch);
    /* The plain definition, any element type that infer allows, strided views, clarity before
     * speed. */
    gy_status (*reference)(const gy_kernel_call *call);
    const char *no_reference;     /* why `reference` is NULL */
    const gy_ops_sample *samples; /* none without a reference */
    int sample_count;
};

/**
 * The four random numbers of elements 4 block .. 4 block + 3 (row-major in the global tensor)
 * of a dropout: element i is dropped when number i % 4 is below gy_dropout_threshold(rate),
 * else scaled by 1 / (1 - rate).
 *
 * @param seed  the second input of dropout: session seed, step, and where attributes name a
 *              row also the batch's first one (gy_dropout_begin)
 */
static inline void gy_dropout_block(const int64_t seed[2], uint64_t stream, uint64_t block,
                                    uint32_t out[4])
{
    gy_philox((uint64_t)seed[0] ^ (stream * 0x9E3779B97F4A7C15u), (uint64_t)seed[1], block,
              out);
}
/** The number of the first element's draw: a micro-batch draws what its rows would in the whole
 * batch. */
static inline int64_t gy_dropout_begin(const gy_attributes *attributes, const int64_t *seed)
{
    return attributes->dropout.row > 0 ? attributes->dropout.row * seed[2] : 0;
}
static inline uint64_t gy_dropout_threshold(double rate)
{
    return (uint64_t)(rate * 4294967296.0);
}

/** Of a table along the dimension that gather and scatter_add index: rows in all, and those of
 * this rank. */
typedef struct gy_ops_rows {
    int64_t all, begin, count;
} gy_ops_rows;
/** The table of a gather (input 0) or scatter_add (output 0). */
gy_ops_rows gy_call_rows(const gy_kernel_call *call);

/**
 * op->infer, and no output may exceed 2^62 bytes (with batch as one): every type of a graph is
 * made here. Outputs are untouched on failure.
 */
gy_status gy_ops_infer(const gy_op *op, const gy_attributes *attributes, const gy_type *inputs,
                       int input_count, gy_type *outputs);

/**
 * Element `local` (row-major) of this rank's part of an input, an integer below `size`.
 * GY_ARG outside [0, size), naming operator, `what` it is and its row-major number in the
 * global value.
 */
gy_status gy_call_index(const gy_kernel_call *call, int input, int64_t local, const char *what,
                        int64_t size, int64_t *index);

/** f64 or f32: what floating arithmetic runs on. */
bool gy_dtype_is_real(gy_dtype dtype);

/** Every operator: one X(name) line each in ops.def; gy_ops_row_<name> is the row. */
#define GY_X(name) extern const gy_op gy_ops_row_##name;
#include "ops/ops.def"
#undef GY_X

extern const gy_op *const gy_ops_all[];
extern const int gy_ops_all_count;
/** NULL when there is no such operator. */
const gy_op *gy_ops_find(const char *name);

/** The kernels of an operator, best first, NULL-ended (an empty list when only the reference
 * runs it). */
const gy_kernel *const *gy_ops_kernels(const gy_op *op);

/** The best kernel that accepts the query; NULL: run the reference. GYRE_KERNEL=reference
 * forces NULL. */
const gy_kernel *gy_kernel_choose(const gy_kernel_query *query);

/**
 * Several element-wise operators, and reductions of their results, as one pass over tiles.
 * Registers 0 .. input_count-1 are the inputs (broadcast to the common shape), step i writes
 * register input_count + i.
 */
typedef struct gy_fused_step {
    const gy_op *op; /* GY_OP_ELEMENTWISE, at most 3 inputs */
    gy_attributes attributes;
    int16_t inputs[3];
} gy_fused_step;

typedef struct gy_fused_output {
    int16_t register_index;
    const gy_op *reduction; /* NULL: stored in full; else a GY_OP_REDUCTION row or mean … */
    uint32_t axes;          /* … over these axes of the common shape */
    bool keep;
    double count; /* of a mean: what the sum is divided by; 0: as the inputs' types say */
} gy_fused_output;

struct gy_fused {
    int input_count, step_count, output_count;
    int rank;
    int64_t sizes[GY_TENSOR_RANK_MAX]; /* the common shape, concrete, this rank's part */
    gy_fused_step steps[32];
    gy_fused_output outputs[GY_OP_OUTPUTS_MAX];
};

#endif
