/**
 * Computation graphs: a program builds them from nodes, differentiates them and runs them in a
 * session.
 *
 * Names. gy_graph_* makes the leaves of a graph (inputs, parameters, constants); gy_op_* makes
 * one node from others and is named as its row of the operator table; gy_session_* runs.
 *
 * Shapes are written (rows, columns); "…" stands for any number of dimensions; a size may be
 * GY_BATCH, which a run binds. `dim` counts dimensions from 0, and from the end when it is
 * negative (-1: the last) where the comment says so. `axes` is a set of dimensions: bit i is
 * dimension i, 0 means all of them.
 *
 * Errors. A gy_op_* or gy_graph_* call that fails returns a failed node (index -1) and keeps
 * its failure in the graph; a failed node may be passed on and gives failed nodes. The first
 * failure is reported, with the place of its node, by gy_graph_status(), gy_op_gradients() and
 * gy_session_new(): GY_SHAPE shapes do not fit, GY_TYPE element types do not fit, GY_ARG an
 * argument or a node of another graph, GY_EXISTS a name that is taken, GY_NOMEM.
 *
 * Types. Arithmetic runs on f64, f32 and integers up to 64 bits (u64, f16 and bf16 are storage:
 * cast them). Operands have one element type; gy_op_cast makes it so.
 *
 * Threads. A graph is built by one thread at a time; sessions over it run when it is no longer
 * changed, except by nodes added to its end.
 *
 * @source lecture A, "The Language of AI: Computation Graph"
 */
#ifndef GYRE_GRAPH_H
#define GYRE_GRAPH_H

#include <gyre/engine.h>
#include <gyre/info.h>
#include <gyre/operation.h>
#include <gyre/pipe.h>
#include <gyre/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Nodes and their edges. @threads owner */
typedef struct gy_graph gy_graph;

/** One output of one node. A value to copy; the graph owns the node. */
typedef struct gy_node {
    gy_graph *graph;
    int32_t index, output; /* index -1: failed */
} gy_node;

/** The values that a parameter begins with. */
typedef enum gy_init_kind {
    GY_INIT_ZEROS,
    GY_INIT_CONSTANT, /* scale everywhere */
    GY_INIT_UNIFORM,  /* drawn from [-scale, scale) */
    GY_INIT_NORMAL,   /* drawn with mean 0 and standard deviation scale */
    GY_INIT_GLOROT,   /* uniform within sqrt(6 / (fan in + fan out)) */
    GY_INIT_HE,       /* normal with deviation sqrt(2 / fan in) */
    GY_INIT_TENSOR,   /* a copy of `tensor` */
} gy_init_kind;
/** Zero: all zeros. Draws come from the session's seed and the parameter's name, so that they
 * are the same on any number of ranks. */
typedef struct gy_init {
    gy_init_kind kind;
    double scale;
    gy_tensor *tensor; /* held by the graph from gy_graph_parameter on */
} gy_init;
static inline gy_init gy_init_zeros(void)
{
    gy_init init = {GY_INIT_ZEROS, 0, NULL};
    return init;
}
static inline gy_init gy_init_glorot(void)
{
    gy_init init = {GY_INIT_GLOROT, 0, NULL};
    return init;
}
static inline gy_init gy_init_he(void)
{
    gy_init init = {GY_INIT_HE, 0, NULL};
    return init;
}

/** An empty graph; caller owns it. @return GY_OK; GY_NOMEM @threads any */
GY_API GY_MUST_CHECK gy_status gy_graph_new(gy_graph **graph);
/** Frees the graph and its nodes. NULL is fine. Free its sessions first. */
GY_API void gy_graph_free(gy_graph *graph);
/** The first failure of any call on the graph, with its node in gy_error_text(); GY_OK if none.
 */
GY_API gy_status gy_graph_status(const gy_graph *graph);

/* ---- leaves ---- */

/**
 * A value that each run is fed. Only its first size may be symbolic.
 * @param name   unique among the graph's inputs; copied
 * @param sizes  (rank)
 */
GY_API gy_node gy_graph_input(gy_graph *graph, const char *name, gy_dtype dtype,
                              const int64_t *sizes, int rank);
/**
 * A variable that the session keeps between runs and gy_op_assign changes. Its gradient is
 * computed only where gy_op_gradient asks for it.
 * @param name   unique among the graph's parameters; copied
 * @param sizes  (rank) numbers, none symbolic
 */
GY_API gy_node gy_graph_parameter(gy_graph *graph, const char *name, gy_dtype dtype,
                                  const int64_t *sizes, int rank, gy_init init);
/** A constant: the graph keeps a copy of the tensor. */
GY_API gy_node gy_graph_literal(gy_graph *graph, gy_tensor *tensor);
/** A constant of rank 0. */
GY_API gy_node gy_graph_scalar(gy_graph *graph, gy_dtype dtype, double value);
/** The same from an integer, each bit of which is kept, where a double holds none beyond 2^53
 * (u64: its bits; a smaller integer type: the low ones). */
GY_API gy_node gy_graph_scalar_int64(gy_graph *graph, gy_dtype dtype, int64_t value);
/** A constant of the given sizes, `value` everywhere. */
GY_API gy_node gy_graph_fill(gy_graph *graph, gy_dtype dtype, const int64_t *sizes, int rank,
                             double value);

/** Gives the node another name, in failures, traces and explanations. Inputs and parameters
 * keep theirs. @return the node */
GY_API gy_node gy_node_named(gy_node node, const char *name);

/* ---- products ---- */

/** c = a b: (…,m,k) (…,k,n) -> (…,m,n). Floating types. */
GY_API gy_node gy_op_matmul(gy_node a, gy_node b);
/** The same of a and b with their last two dimensions swapped where asked for. */
GY_API gy_node gy_op_matmul_transposed(gy_node a, bool transpose_a, gy_node b,
                                       bool transpose_b);

/* ---- element by element, broadcasting from the right ---- */

/* Two operands. Integers wrap; a quotient of integers is cut towards 0, by 0 it is 0. pow is of
 * floating types alone. minimum and maximum are NaN where either is, and -0 is below +0. */
GY_API gy_node gy_op_add(gy_node a, gy_node b);
GY_API gy_node gy_op_sub(gy_node a, gy_node b);
GY_API gy_node gy_op_mul(gy_node a, gy_node b);
GY_API gy_node gy_op_div(gy_node a, gy_node b);
GY_API gy_node gy_op_pow(gy_node a, gy_node b);
GY_API gy_node gy_op_minimum(gy_node a, gy_node b);
GY_API gy_node gy_op_maximum(gy_node a, gy_node b);
/* Comparisons give u8: 0 or 1. They have no gradient. */
GY_API gy_node gy_op_equal(gy_node a, gy_node b);
GY_API gy_node gy_op_not_equal(gy_node a, gy_node b);
GY_API gy_node gy_op_less(gy_node a, gy_node b);
GY_API gy_node gy_op_less_equal(gy_node a, gy_node b);
GY_API gy_node gy_op_greater(gy_node a, gy_node b);
GY_API gy_node gy_op_greater_equal(gy_node a, gy_node b);
/** a where condition (u8) is not 0, else b. */
GY_API gy_node gy_op_select(gy_node condition, gy_node a, gy_node b);

/* One operand of a floating or integer type. sign is -1, 0 or 1, and 0 of NaN; relu of NaN is
 * NaN; the gradients of abs, sign and relu are 0 at 0. */
GY_API gy_node gy_op_neg(gy_node a);
GY_API gy_node gy_op_abs(gy_node a);
GY_API gy_node gy_op_sign(gy_node a);
GY_API gy_node gy_op_square(gy_node a);
GY_API gy_node gy_op_relu(gy_node a);
/* One operand of a floating type. log is the natural logarithm, log1p is log(1 + a) without
 * loss near 0, gelu is the exact form a Phi(a), round takes halves to the even number. The
 * gradients of floor, ceil and round are 0. */
GY_API gy_node gy_op_exp(gy_node a);
GY_API gy_node gy_op_log(gy_node a);
GY_API gy_node gy_op_log1p(gy_node a);
GY_API gy_node gy_op_sqrt(gy_node a);
GY_API gy_node gy_op_sin(gy_node a);
GY_API gy_node gy_op_cos(gy_node a);
GY_API gy_node gy_op_tanh(gy_node a);
GY_API gy_node gy_op_sigmoid(gy_node a);
GY_API gy_node gy_op_gelu(gy_node a);
GY_API gy_node gy_op_erf(gy_node a);
GY_API gy_node gy_op_floor(gy_node a);
GY_API gy_node gy_op_ceil(gy_node a);
GY_API gy_node gy_op_round(gy_node a);
/** The values in another element type. A floating value becomes an integer by being cut towards
 * 0 (the ends of the range for what lies beyond, 0 for NaN); a smaller integer type keeps the
 * low bits. The gradient passes between floating types alone. */
GY_API gy_node gy_op_cast(gy_node a, gy_dtype dtype);

/* ---- reductions over `axes` ---- */

/* The reduced dimensions go away, or stay with size 1 where keep_dims is set. The result has
 * the element type of `a`: sums and products of integers wrap, so cast narrow ones first. max
 * and min are NaN where any element is, on any number of ranks, and refuse to reduce a
 * dimension of size 0 (GY_SHAPE). */
GY_API gy_node gy_op_sum(gy_node a, uint32_t axes, bool keep_dims);
GY_API gy_node gy_op_prod(gy_node a, uint32_t axes, bool keep_dims);
GY_API gy_node gy_op_max(gy_node a, uint32_t axes, bool keep_dims);
GY_API gy_node gy_op_min(gy_node a, uint32_t axes, bool keep_dims);
/** Of floating types. */
GY_API gy_node gy_op_mean(gy_node a, uint32_t axes, bool keep_dims);
/** The unbiased variance: squared deviations from the mean, summed and divided by n - 1. Of
 * floating types; a run that finds n = 1 fails with GY_SHAPE. */
GY_API gy_node gy_op_variance(gy_node a, uint32_t axes, bool keep_dims);
/** How many elements the axes hold, over all ranks: a scalar of a's element type. */
GY_API gy_node gy_op_count(gy_node a, uint32_t axes);

/* ---- along one dimension, from the end when `dim` is negative ---- */

/** The place of the largest element, the first of equals, the first NaN where there is one:
 * i64, without `dim`. */
GY_API gy_node gy_op_argmax(gy_node a, int dim);
/** The same of the smallest element. */
GY_API gy_node gy_op_argmin(gy_node a, int dim);
/** Running sums: element i is the sum of elements 0 to i; of elements i to the last with
 * is_reverse. Integers wrap. */
GY_API gy_node gy_op_cumsum(gy_node a, int dim, bool is_reverse);
GY_API gy_node gy_op_softmax(gy_node a, int dim);
GY_API gy_node gy_op_log_softmax(gy_node a, int dim);
/** Mean over all rows of -log softmax(logits)[label]: logits (…, classes), labels (…) integers
 * -> scalar. A run that meets a label outside [0, classes) fails with GY_ARG and names the row,
 * counted over all ranks. */
GY_API gy_node gy_op_cross_entropy(gy_node logits, gy_node labels);
/**
 * Labels (…) as a new dimension `dim` of size `classes`: 1 at the label's place, else 0. A
 * label outside [0, classes) fails the run with GY_ARG.
 * @param dtype  of the result; 0: f32
 */
GY_API gy_node gy_op_one_hot(gy_node labels, int64_t classes, int dim, gy_dtype dtype);

/* ---- images: (N, C, H, W) ---- */

/** Zero: steps of 1, no padding. */
typedef struct gy_conv_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int stride[2];      /* down and across, in elements; 0: 1 */
    int pad[2];         /* rows of zeros above and below, columns of zeros left and right */
} gy_conv_options;
/** x (N,C,H,W), filters (K,C,R,S) -> (N,K,H',W') with H' = (H + 2 pad - R) / stride + 1. The
 * sums are not flipped: y[h,w] = sum x[h stride + r - pad, …] filters[r, …]. */
GY_API gy_node gy_op_conv2d(gy_node x, gy_node filters, const gy_conv_options *options);

/** The windows of a pooling operator. `window` is needed, the rest may be zero. */
typedef struct gy_window_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int window[2];      /* rows and columns of a window */
    int stride[2];      /* from one window to the next, down and across; 0: the window's size */
    int pad[2];         /* rows and columns around the image; below the window's size */
    bool counts_padding; /* average: padding counts as zeros (see gy_op_average_pool) */
} gy_window_options;
/** The largest element of each window; padding is never the largest. */
GY_API gy_node gy_op_max_pool(gy_node x, const gy_window_options *options);
/**
 * The mean of each window. Padding counts neither in the sum nor in what it is divided by
 * (ONNX's default, PyTorch's count_include_pad=False), or, with counts_padding, as zeros in
 * both (PyTorch's default). The gradient is divided alike.
 */
GY_API gy_node gy_op_average_pool(gy_node x, const gy_window_options *options);

/* ---- layers ---- */

/** Zero: every position sees all, scores are scaled by 1 / sqrt(d). */
typedef struct gy_attention_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    bool is_causal;     /* position t of q sees positions s <= t + S - T of k and v */
    double scale;       /* of the scores; 0: 1 / sqrt(d) */
} gy_attention_options;
/**
 * Scaled dot-product attention of each head: softmax over s of scale q[t] . k[s], times v.
 * q (B,T,H,d), k (B,S,H,d), v (B,S,H,e) -> (B,T,H,e); S is at least 1, and at least T where it
 * is causal. Neither it nor its gradient keeps the scores (B,H,T,S); second derivatives do.
 * q, k and v of bf16 or f16 give f32.
 */
GY_API gy_node gy_op_attention(gy_node q, gy_node k, gy_node v,
                               const gy_attention_options *options);
/** The same with q, k and v in one value (B,T,H,3,d), as one product of weights makes them:
 * nothing is copied apart. */
GY_API gy_node gy_op_attention_packed(gy_node qkv, const gy_attention_options *options);

/** Each element is 0 with probability `rate`, else it is scaled by 1 / (1 - rate). Drawn anew
 * each run, from the session's seed and step. For training: leave it out of the nodes that are
 * fetched to evaluate. */
GY_API gy_node gy_op_dropout(gy_node x, double rate);
/** table (rows, width), indices integers (…) -> (…, width). An index outside [0, rows) fails
 * the run with GY_ARG. */
GY_API gy_node gy_op_embedding(gy_node table, gy_node indices);
/** Normalise the last `axis_count` dimensions; gain and bias have their sizes. */
GY_API gy_node gy_op_layer_norm(gy_node x, gy_node gain, gy_node bias, int axis_count,
                                double epsilon);
/**
 * Normalise per channel (dimension 1) over all others, by mean and biased variance of the whole
 * (global) batch: gain (x - mean) / sqrt(variance + epsilon) + bias. For training: a row's
 * result depends on the other rows of its batch.
 *
 * A session has no modes. What differs between training and evaluation is applied twice to the
 * same parameters, and a run computes what it fetches: with dropout and without,
 * gy_op_batch_norm with gy_op_batch_norm_updates for training and gy_op_batch_norm_inference
 * for evaluation (examples/batch_norm.c).
 */
GY_API gy_node gy_op_batch_norm(gy_node x, gy_node gain, gy_node bias, double epsilon);
/**
 * Running statistics of x, the input of a gy_op_batch_norm: two gy_op_assign to fetch with the
 * training step, which set running to (1 - momentum) running + momentum (that of the batch).
 * The batch's variance is unbiased here; its mean and variance are those of the global batch
 * and so alike on all ranks.
 *
 * @param mean, variance  parameters (channels); zeros and ones at first
 * @param momentum        above 0, up to 1; 0.1 is usual
 * A run whose batch has one value a channel fails with GY_SHAPE: it has no unbiased variance.
 */
GY_API void gy_op_batch_norm_updates(gy_node x, gy_node mean, gy_node variance, double momentum,
                                     gy_node updates[2]);
/** The same by the given mean and variance (channels), such as running ones: each row's result
 * is its own. Differentiable in all five. */
GY_API gy_node gy_op_batch_norm_inference(gy_node x, gy_node gain, gy_node bias, gy_node mean,
                                          gy_node variance, double epsilon);

/* ---- shapes ---- */

/** In gy_op_reshape: the size that remains. */
#define GY_ANY INT64_MAX
/** The same elements, row-major, in other sizes (rank), one of which may be GY_ANY. Where the
 * sizes differ in the first alone, of which one is GY_BATCH and the other a number, that number
 * is what the batch of a run must be: a run of another batch fails with GY_SHAPE. */
GY_API gy_node gy_op_reshape(gy_node a, const int64_t *sizes, int rank);
/** dims: a permutation, one entry a dimension; dimension i of the result is dims[i] of `a`. */
GY_API gy_node gy_op_transpose(gy_node a, const int *dims);
/** Repeats dimensions of size 1, and new ones on the left, up to the given sizes. */
GY_API gy_node gy_op_broadcast_to(gy_node a, const int64_t *sizes, int rank);
/** Elements [begin, end) by `step` of dimension `dim`. In a symbolic dimension all are
 * multiples of GY_BATCH or 0, and step is 1. */
GY_API gy_node gy_op_slice(gy_node a, int dim, int64_t begin, int64_t end, int64_t step);
/** Zeros around dimension `dim`: `before` and `after` of them, 0 or more. */
GY_API gy_node gy_op_pad(gy_node a, int dim, int64_t before, int64_t after);
/** The parts one behind the other along `dim`; all other sizes are equal. count >= 1. */
GY_API gy_node gy_op_concat(const gy_node *parts, int count, int dim);
/** Slices of `a` along dim by integer indices (…), whose sizes replace dim. An index outside
 * [0, size of dim) fails the run with GY_ARG. */
GY_API gy_node gy_op_gather(gy_node a, gy_node indices, int dim);
/** The adjoint of gather: slices of `a` summed into `size` places along dim, by their indices.
 */
GY_API gy_node gy_op_scatter_add(gy_node a, gy_node indices, int dim, int64_t size);

/** One element of each line along dim: the sizes of `a` without dim, which the integer indices
 * have too. An index outside [0, size of dim) fails the run with GY_ARG. */
GY_API gy_node gy_op_pick(gy_node a, gy_node indices, int dim);
/** The first place along dim where `a` has the line's value (NaN: the first NaN), the size of
 * dim where it has none: i64, the sizes of `a` without dim, which the values have too. */
GY_API gy_node gy_op_find(gy_node a, gy_node values, int dim);

/* ---- gradients and updates ---- */

/**
 * d loss / d wrt[i] as nodes of the same graph; gradients of gradients work. A value that loss
 * does not depend on gets zeros.
 * @param loss       a floating scalar
 * @param wrt        (count)
 * @param gradients  (count) takes the nodes
 * @return GY_OK; the graph's failure; GY_SHAPE loss is no scalar; GY_UNSUPPORTED a node on the
 *         way has no gradient (names it); GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_op_gradients(gy_node loss, const gy_node *wrt, int count,
                                               gy_node *gradients);
/** The same of one; a failure is the graph's. */
GY_API gy_node gy_op_gradient(gy_node loss, gy_node wrt);
/** Fetched, it sets the parameter to `value` after all reads of this run, once in a run; used,
 * it is `value`. */
GY_API gy_node gy_op_assign(gy_node parameter, gy_node value);

/* ---- meshes ---- */

/** Ranks as a grid with named axes, along which the work and the values of a graph are cut. */
typedef struct gy_mesh gy_mesh;
/**
 * Lays the ranks of a communicator out as a grid; caller owns the mesh. All ranks of `comm`
 * call it with the same text. Rank r has the coordinates of r written in the axes' sizes, the
 * last axis as the last digit, so that the last axis joins neighbouring ranks.
 *
 * What an axis may cut is in its name: `data` the rows of a batch (dimensions of symbolic
 * size) and what is pinned along it, `model` everything but rows, `auto` everything.
 *
 * @param comm  borrowed, outlives the mesh; NULL: this process alone
 * @param axes  such as "data=2,model=4", each name at most once; NULL: all ranks along data
 * @return GY_OK; GY_ARG the text names no axis, an unknown one or one twice, or its product is
 *         not the number of ranks; GY_NOMEM; as gy_comm_split and gy_allreduce
 * @threads as gy_comm_split
 */
GY_API GY_MUST_CHECK gy_status gy_mesh_new(gy_comm *comm, const char *axes, gy_mesh **mesh);
/** How many ranks a mesh of that text needs: the product of its sizes. @return GY_OK; GY_ARG as
 * gy_mesh_new @threads any */
GY_API GY_MUST_CHECK gy_status gy_mesh_places(const char *axes, int *ranks);
/** Freed by all its ranks, behind its sessions and before its communicator. NULL is fine. */
GY_API void gy_mesh_free(gy_mesh *mesh);
/** The number of axes. */
GY_API int gy_mesh_axes(const gy_mesh *mesh);
/** "data", "model" or "auto" of an axis in [0, axes). */
GY_API const char *gy_mesh_axis_name(const gy_mesh *mesh, int axis);
/** The axis of that name; -1: the mesh has none. */
GY_API int gy_mesh_find(const gy_mesh *mesh, const char *name);
/** Ranks along an axis, and this process's coordinate there; 1 and 0 of axis -1. */
GY_API int gy_mesh_size(const gy_mesh *mesh, int axis);
GY_API int gy_mesh_rank(const gy_mesh *mesh, int axis);
/** All ranks of the mesh, borrowed; NULL: this process alone. */
GY_API gy_comm *gy_mesh_comm(const gy_mesh *mesh);
/** The ranks that differ from this one in that axis alone, borrowed; NULL: there is no other.
 */
GY_API gy_comm *gy_mesh_axis_comm(const gy_mesh *mesh, int axis);

/**
 * Pins where a value lives along the axis of that name.
 *
 * A parameter is kept so by sessions: Shard each rank its part, Partial (sum) each rank a
 * summand, which must begin with zeros. What reads or assigns it gets the exchanges that this
 * needs.
 *
 * The first value of any other node is brought there right behind the node, and its users read
 * it from there; so tokens stay cut between the products of a layer, say. Gradients are values
 * of their own, with their own pins.
 *
 * A mesh that has no such axis, or one rank along it, knows no pin. Called before the first
 * session of the graph; a second call for the axis replaces the first. Several axes cut
 * different dimensions. What no placement can do fails where the graph is first compiled:
 * GY_ARG names the node, the axis and what it could be.
 * @return GY_OK; the graph's failure; GY_ARG no such axis, a dimension that it has not or that
 *         another axis cuts, a parameter's Partial that is no sum of zeros, an assignment, a
 *         further value of a node
 */
GY_API GY_MUST_CHECK gy_status gy_pin(gy_node pinned, const char *axis, gy_placement placement);

/* ---- stages ---- */

/**
 * On a mesh with an axis `pipe` each rank along it runs the nodes of one stage; values go from
 * stage to stage, and gradients back. Any stages of any nodes give the values that one rank
 * gives. A node without one is of the stage of the node that it is the gradient of, else of its
 * largest input's. Parameters live where they are used. Without this call and gy_graph_cut()
 * stages are cut by cost. Called before the first session of the graph; of inputs, parameters
 * and constants it says nothing.
 * @return GY_OK; the graph's failure; GY_ARG no node, or a stage outside [0, 64). One that the
 *         mesh does not have fails where the graph is first compiled
 */
GY_API GY_MUST_CHECK gy_status gy_stage(gy_node node, int stage);
/**
 * Stages 1, 2, … begin at the nodes of these names, in the order in which the graph was built:
 * at those that read it, where the name is that of a parameter or input. Called when the
 * gradients are there, and before the first session.
 * @return GY_OK; the graph's failure; GY_ARG no node is called so (the nearest names are), no
 *         gradient passes through it, two names of one place
 */
GY_API GY_MUST_CHECK gy_status gy_graph_cut(gy_graph *graph, const char *const *names,
                                            int count);

/* ---- precision ---- */

/**
 * In which type products (gy_op_matmul, gy_op_conv2d, gy_op_attention, and those of their
 * gradients) read operands that the graph has in f32: GY_BF16 or GY_F16 narrows them by casts,
 * each value once a run, and sums in f32, which the results are in. Parameters, updates, norms,
 * softmax, that of attention too, losses and all sums stay f32. A product with a side below 32,
 * attention of fewer positions or of heads below 16, and a convolution whose channels are no
 * multiples of 16, stay f32 too, unless they are pinned. A CPU without a unit for bf16 widens
 * the same operands again: slower, and not the same sums.
 * @param dtype  GY_F32, as at first, GY_BF16, or GY_F16, which no CPU's unit is used for yet
 * Called before the first session of the graph.
 * @return GY_OK; the graph's failure; GY_ARG another type
 */
GY_API GY_MUST_CHECK gy_status gy_graph_precision(gy_graph *graph, gy_dtype dtype);
/**
 * The same of one product and those of its gradients, whatever the graph's is. Called before
 * the first session; a second call replaces the first.
 * @return as gy_graph_precision; GY_ARG the node is no product of f32 (names it)
 */
GY_API GY_MUST_CHECK gy_status gy_pin_precision(gy_node node, gy_dtype dtype);

/* ---- recomputation ---- */

/**
 * What the forward pass holds for the way back, made again there: sessions cut the forward pass
 * into chunks where little crosses (layers, mostly), hold what crosses, and run a chunk again
 * when its gradients begin. Values are the same bits, dropout draws the same. Results of
 * exchanges are held, unless they are larger than what they are made of.
 * @param chunks_max  at most so many chunks, those first that free most bytes for their time;
 *                    INT_MAX: all but the last, whose gradients begin at once; 0, as at first:
 *                    none
 * Called before the first session of the graph.
 * @return GY_OK; the graph's failure; GY_ARG a negative number
 */
GY_API GY_MUST_CHECK gy_status gy_graph_recompute(gy_graph *graph, int chunks_max);

/* ---- sessions ---- */

/** Parameters, and the programs that were compiled from a graph. @threads owner */
typedef struct gy_session gy_session;
/** Zero: this process alone, on all cores, seed 0. */
typedef struct gy_session_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    gy_engine *engine;  /* borrowed; NULL: the session makes one */
    /* The ranks: `mesh`, or all of `comm` along the data axis. Both borrowed; of both, GY_ARG;
       of none, this process alone. */
    gy_comm *comm;
    gy_mesh *mesh;
    uint64_t seed;       /* of parameters and dropout, the same on every rank */
    int workers;         /* of the session's own engine; 0: cores / ranks on this host */
    bool has_no_overlap; /* nothing runs beside an exchange: to see what overlap gains */
    int chunks;          /* stages of a rank along pipe: s is of rank s % ranks; 0: 1 */
    /* The device of this rank: what pays there runs on it, and parameters that are assigned
       there lie in its memory. Its number, as the driver counts devices from 0, plus 1 (device
       0 is 1); 0: `devices` says which; -1: none. The session opens it and closes it. */
    int device;
    /* "none"; a number; several with commas between, of which the rank r of a host takes the
       r-th, from the first again behind the last; "auto": so of all that the driver shows, and
       none where there is none. NULL: GYRE_DEVICE in the same words, else none. */
    const char *devices;
    /* This process among those of its host that choose so; 0 ranks: those of the communicator.
       Which share a device have equal parts of its free memory. */
    int device_rank, device_ranks;
} gy_session_options;

/**
 * A session over the graph; caller owns it. Parameters are made when they are first used,
 * programs are compiled at the first run of each (fetches, batch). The graph, the engine and
 * the communicators outlive it.
 *
 * A session on a mesh of ranks that do not exist opens no device. A rank whose device cannot be
 * opened tells the others, whose runs fail with the same cause.
 * @return GY_OK; the graph's failure; GY_ARG; GY_NOMEM; of a device GY_NOTFOUND it, its driver
 * or a library is missing (which are named), GY_UNSUPPORTED they do not fit each other, GY_PEER
 * and GY_STATE what the driver says
 */
GY_API GY_MUST_CHECK gy_status gy_session_new(gy_graph *graph,
                                              const gy_session_options *options,
                                              gy_session **session);
/** NULL is fine. */
GY_API void gy_session_free(gy_session *session);
/** Its device: number, name and how many processes share it; NULL: none. Borrowed. @threads any
 */
GY_API const char *gy_session_device(const gy_session *session);
/** What its device has done for it. False, and *counts unchanged: it has none that counts.
 * @threads any */
GY_API bool gy_session_device_counts(const gy_session *session, gy_device_counts *counts);
/** How many products of a run read operands of 16 bits (gy_graph_precision). */
typedef struct gy_precision_share {
    int narrowed, products; /* so many of all products of f32 */
    const char *why;        /* the first of the others does not: static; "": there is none */
} gy_precision_share;
/** How many do of the largest run that was compiled so far: of a training, of an update. False,
 * and *share unchanged: its graph has no precision, or it has compiled nothing. @threads owner
 */
GY_API bool gy_session_precision_share(const gy_session *session, gy_precision_share *share);
/** How much of a run a device does. */
typedef struct gy_device_share {
    int there, nodes; /* it runs so many of all nodes */
    const char *why;  /* the others do not run there: the reason of most of their time on the
                         CPU, static; "": there are none */
    uint64_t memory_bytes; /* of it, for this process; 0: there is no limit */
    uint64_t short_bytes;  /* what the fastest choice would take there, which does not fit; 0:
                              it does */
} gy_device_share;
/** How much its device does of the largest run that was compiled so far: of a training, of an
 * update. False, and *share unchanged: it has no device, or has compiled nothing.
 * @threads owner */
GY_API bool gy_session_device_share(const gy_session *session, gy_device_share *share);

/** What an input is in one run. */
typedef struct gy_feed {
    gy_node node;
    gy_tensor *tensor; /* borrowed for the run */
} gy_feed;

/**
 * Run: feed the inputs that are needed and compute the fetches. All ranks of the session's
 * mesh call it with the same fetches and batch.
 *
 * An input whose first size is symbolic is sharded over the data axis: each rank feeds its
 * part, rows [gy_part_begin(batch, r, p), gy_part_begin(batch, r + 1, p)) for its coordinate r
 * of p there. Other inputs are fed alike on all.
 *
 * @param batch   rows of the global batch; 0: this rank's rows times the ranks
 * @param results (fetch_count) takes one held tensor a fetch, which the caller drops. It is
 *                complete on every rank, but a value with a symbolic first size is this rank's
 *                rows; NULL for a fetch of gy_op_assign.
 * @return GY_OK; GY_ARG a feed is missing; GY_SHAPE a feed does not fit (names node and both
 *         shapes); what a kernel or a collective failed with. `results` is untouched on
 *         failure.
 */
GY_API GY_MUST_CHECK gy_status gy_session_run(gy_session *session, const gy_feed *feeds,
                                              int feed_count, int64_t batch,
                                              const gy_node *fetches, int fetch_count,
                                              gy_tensor **results);

/** A part of a batch: some of its rows, one behind the other. */
typedef struct gy_micro_batch {
    const gy_feed *feeds; /* (feed_count) borrowed for the run, as of gy_session_run */
    int feed_count;
    int64_t rows;  /* of the global micro-batch; 0: nothing of it runs */
    int64_t first; /* where it begins in the whole batch: its rows draw what they draw there */
} gy_micro_batch;

/** What is run of each micro-batch. */
typedef struct gy_micro_run {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    const gy_micro_batch *micros;
    int count; /* at least 1 */
    const gy_node *fetches;
    int fetch_count;
    /* On a mesh with an axis pipe: its ranks work on several micro-batches at a time, each by
       its list, whose forward pass is what fetch number `loss` needs and whose backward pass is
       all else. Borrowed for the run. NULL: one micro-batch after the other. */
    const gy_pipe_schedule *schedule;
    int loss;
} gy_micro_run;

/**
 * Run the fetches for each micro-batch of one batch, as one step of the session: dropout draws
 * for each row what it draws in the whole batch. Whatever is to be of the whole batch (sums of
 * gradients) the graph adds up in parameters; assignments happen in the order of micro-batches.
 * All ranks of the mesh call it alike; a micro-batch of fewer rows than ranks along data leaves
 * some of them without any.
 *
 * @param results (count * fetch_count) of micro-batch k from k * fetch_count on, as of
 *                gy_session_run; NULL for those without rows
 * @return as gy_session_run; GY_ARG also counts below their least, a schedule of other ranks,
 *         stages or micro-batches, an edge of the graph that goes back from a stage to an
 *         earlier one in the forward pass or the other way round (names it), a parameter that
 *         each micro-batch assigns and reads elsewhere; as gy_pipe_check
 * @cost memory of as many micro-batches as are alive at a time by the list
 */
GY_API GY_MUST_CHECK gy_status gy_session_run_micros(gy_session *session,
                                                     const gy_micro_run *run,
                                                     gy_tensor **results);
/**
 * May the batch of `loss` be cut by its rows? Each node that it needs must work on rows apart
 * from each other: the loss itself is then their mean, so that micro-batches weighed by their
 * rows have the whole batch's gradient. Normalising by the batch (gy_op_batch_norm) passes: it
 * is then by each micro-batch, as in other frameworks.
 *
 * @param batch  rows of a global batch
 * @return GY_OK; GY_ARG names the first node that mixes rows; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_session_check_micros(const gy_session *session, gy_node loss,
                                                       int64_t batch);
/**
 * Told that a fetch of a run is there, while the run goes on: what follows from it need not
 * wait for the end. `value` is this rank's part, row-major, and lives on until the next run of
 * the session.
 * @param index  of the fetch, each once a run; not of a gy_op_assign
 * @return true the value was taken: results[index] becomes NULL and nothing is copied
 * @threads any of the engine; several fetches may come at the same time
 */
typedef bool (*gy_fetch_hook)(void *arg, int index, const gy_view *value);
/** The hook of the runs to come; NULL: none. @threads owner @cost none without a hook */
GY_API void gy_session_set_fetch_hook(gy_session *session, gy_fetch_hook hook, void *arg);
/**
 * Decides where parameters live that a program of these fetches reads or assigns: along axes of
 * kind model and auto each rank keeps a part where the program costs least so. Parameters that
 * have a value already, and axes that gy_pin was called for, stay as they are. Called on all
 * ranks alike, before the first run; without it parameters are whole where they are not pinned.
 *
 * @param batch  rows of the global batch
 * @return GY_OK; the graph's failure; GY_NOMEM on one rank fails on all @threads owner
 */
GY_API GY_MUST_CHECK gy_status gy_session_decide(gy_session *session, int64_t batch,
                                                 const gy_node *fetches, int fetch_count);
/**
 * What this rank has of a parameter, borrowed from the session: the whole, or the part that
 * gy_pin gives it. It is made when it is first asked for. Change it between runs only. With a
 * device ask for it again behind each run, to read it or to change it: the call copies what the
 * device has of it, and the next run takes it from here. NULL: no such name, no memory, the
 * device has failed, or other stages keep it.
 */
GY_API gy_tensor *gy_session_parameter(gy_session *session, const char *name);
/**
 * A parameter whole, one held tensor that the caller drops and does not change. All ranks of
 * the mesh call it together where the parameter is pinned; else no rank waits for another.
 * @return GY_OK; GY_NOTFOUND; GY_NOMEM; what a collective failed with
 */
GY_API GY_MUST_CHECK gy_status gy_session_gather(gy_session *session, const char *name,
                                                 gy_tensor **whole);
/**
 * Sets a parameter from its whole value, of which this rank takes its part. Every rank calls it
 * with the same value, and waits for none.
 * @return GY_OK; GY_NOTFOUND; GY_SHAPE or GY_TYPE the value is no such tensor; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_session_scatter(gy_session *session, const char *name,
                                                  gy_tensor *whole);
/** Runs so far; part of every random draw. */
GY_API uint64_t gy_session_step(const gy_session *session);
/** Sets the number of runs, as when a checkpoint is resumed. */
GY_API void gy_session_set_step(gy_session *session, uint64_t step);

/** Where the time of all runs so far went, in seconds of this process's wall clock. */
typedef struct gy_session_stats {
    double compute_s, exposed_communication_s, other_s;
    double hidden_communication_s; /* part of compute_s: exchanges under way beside it */
    uint64_t bytes_sent, runs;     /* bytes of exchanges, as in gy_exchange_stats */
    double bubble_s; /* nothing computes, and another stage has yet to send what is wanted, or
                        is not at the end of the run yet; what its transfers take by the model
                        of costs is exposed communication */
} gy_session_stats;
GY_API gy_session_stats gy_session_statistics(const gy_session *session);

/** The exchanges of one kind along one axis in all runs so far, as this rank saw them. */
typedef struct gy_exchange_stats {
    const char *axis;       /* "data"; "pipe": between stages; "mesh": all ranks; static */
    gy_operation operation; /* GY_OPERATION_COUNT: messages */
    uint64_t count;
    uint64_t sent_bytes; /* by this rank; where ranks share memory, what it copied to and from
                            that of the others */
    double hidden_s, exposed_s; /* computing beside it, or not; of several at once, a share */
} gy_exchange_stats;
/** As many kinds as there can be: four a mesh axis, messages between stages, and the barrier
 * that ends a run. */
enum { GY_EXCHANGE_KINDS_MAX = 4 * GY_MESH_MAX + 2 };
/**
 * Fills one row for each kind that the session's mesh can have, in an order that does not
 * change, also where there was none.
 * @return the number of rows
 */
GY_API int gy_session_exchanges(const gy_session *session,
                                gy_exchange_stats rows[GY_EXCHANGE_KINDS_MAX]);

/**
 * The text of every stage of compiling (fetches, batch): graph, gradient, rewrite, expand,
 * place, fuse, memory, with sizes, placements and costs.
 * @param text  takes the text; free it with gy_string_free
 * @return GY_OK; what compiling failed with; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_session_explain(gy_session *session, int64_t batch,
                                                  const gy_node *fetches, int fetch_count,
                                                  char **text);
/**
 * The exchanges of the runs that had these fetches, of the batch size that ran most often.
 * Those with the longest predicted time come first: kind, axis, placements, value, the nodes
 * that read it so; predicted bytes and milliseconds of a run, and those that this rank counted
 * and measured. Does not wait for other ranks.
 * @param lines_max  exchanges that are printed, the longest ones; 0: all
 * @param text  takes the text; free it with gy_string_free
 * @return GY_OK; GY_NOTFOUND no run had these fetches; GY_ARG; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_session_explain_runs(gy_session *session,
                                                       const gy_node *fetches, int fetch_count,
                                                       int lines_max, char **text);

#ifdef __cplusplus
}
#endif
#endif
