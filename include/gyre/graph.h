/**
 * Computation graphs: build them from nodes, differentiate them, run them in a session.
 *
 * A failed call returns a node of its graph that carries the failure; using it is harmless, and
 * gy_graph_status() or the first gy_session call reports the first failure with the node's
 * place.
 *
 * @source lecture A, "The Language of AI: Computation Graph"
 */
#ifndef GYRE_GRAPH_H
#define GYRE_GRAPH_H

#include <gyre/engine.h>
#include <gyre/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gy_graph gy_graph;

/** One output of one node: a small value. */
typedef struct gy_node {
    gy_graph *graph;
    int32_t index, output; /* index -1: failed */
} gy_node;

/** How a parameter begins. */
typedef enum gy_init_kind {
    GY_INIT_ZEROS,
    GY_INIT_CONSTANT,
    GY_INIT_UNIFORM, /* [-scale, scale) */
    GY_INIT_NORMAL,  /* deviation scale */
    GY_INIT_GLOROT,  /* uniform, sqrt(6 / (fan in + fan out)) */
    GY_INIT_HE,      /* normal, sqrt(2 / fan in) */
    GY_INIT_TENSOR,  /* a copy of `tensor` */
} gy_init_kind;
typedef struct gy_init {
    gy_init_kind kind;
    double scale;
    gy_tensor *tensor;
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

GY_API gy_graph *gy_graph_new(void); /* NULL when out of memory */
GY_API void gy_graph_free(gy_graph *graph);
/** The first failure of any call on the graph, its text with node and place; GY_OK if none. */
GY_API gy_status gy_graph_status(const gy_graph *graph);

/** Fed at each run. Names are unique per graph among inputs and among parameters. */
GY_API gy_node gy_graph_input(gy_graph *graph, const char *name, gy_dtype dtype,
                              const int64_t *sizes, int rank);
/** Kept by the session, changed by gy_op_assign. Not differentiated unless asked for by
 * gy_op_gradient. */
GY_API gy_node gy_graph_parameter(gy_graph *graph, const char *name, gy_dtype dtype,
                                  const int64_t *sizes, int rank, gy_init init);
/** A copy of the tensor. */
GY_API gy_node gy_graph_literal(gy_graph *graph, gy_tensor *tensor);
GY_API gy_node gy_graph_scalar(gy_graph *graph, gy_dtype dtype, double value);
/** The same of a whole number, each bit of which is kept (u64: its bits; a smaller integer
 * type: the low ones), where a double holds none beyond 2^53. */
GY_API gy_node gy_graph_scalar_int64(gy_graph *graph, gy_dtype dtype, int64_t value);

/** The node under another name: in failures, traces and explanations. Returns it. */
GY_API gy_node gy_node_named(gy_node node, const char *name);

/** c = op(a) op(b): (…,m,k) (…,k,n) -> (…,m,n). */
GY_API gy_node gy_op_matmul(gy_node a, gy_node b);
GY_API gy_node gy_op_matmul_transposed(gy_node a, bool transpose_a, gy_node b,
                                       bool transpose_b);

/* Element-wise, broadcasting from the right. Comparisons give u8 0 or 1. Minimum and maximum
 * are NaN where either is, and -0 is below +0; relu of NaN is NaN. Integers wrap. */
GY_API gy_node gy_op_add(gy_node a, gy_node b);
GY_API gy_node gy_op_sub(gy_node a, gy_node b);
GY_API gy_node gy_op_mul(gy_node a, gy_node b);
GY_API gy_node gy_op_div(gy_node a, gy_node b);
GY_API gy_node gy_op_pow(gy_node a, gy_node b);
GY_API gy_node gy_op_minimum(gy_node a, gy_node b);
GY_API gy_node gy_op_maximum(gy_node a, gy_node b);
GY_API gy_node gy_op_equal(gy_node a, gy_node b);
GY_API gy_node gy_op_less(gy_node a, gy_node b);
GY_API gy_node gy_op_greater(gy_node a, gy_node b);
GY_API gy_node gy_op_select(gy_node condition, gy_node a, gy_node b);
GY_API gy_node gy_op_neg(gy_node a);
GY_API gy_node gy_op_abs(gy_node a);
GY_API gy_node gy_op_exp(gy_node a);
GY_API gy_node gy_op_log(gy_node a);
GY_API gy_node gy_op_sqrt(gy_node a);
GY_API gy_node gy_op_tanh(gy_node a);
GY_API gy_node gy_op_sigmoid(gy_node a);
GY_API gy_node gy_op_relu(gy_node a);
GY_API gy_node gy_op_gelu(gy_node a);
GY_API gy_node gy_op_cast(gy_node a, gy_dtype dtype);

/* Reductions over the dimensions whose bit is set in `axes`; 0 means all. Max and min are NaN
 * where any element is, and argmax is the place of the first NaN, on any number of ranks. A sum
 * has the element type of `a`, and of integers wraps: cast narrow ones first (gy_op_cast). A
 * mean is of floating types alone. */
GY_API gy_node gy_op_sum(gy_node a, uint32_t axes, bool keep);
GY_API gy_node gy_op_mean(gy_node a, uint32_t axes, bool keep);
GY_API gy_node gy_op_max(gy_node a, uint32_t axes, bool keep);
GY_API gy_node gy_op_min(gy_node a, uint32_t axes, bool keep);
GY_API gy_node gy_op_argmax(gy_node a, int dim); /* i64, the first of equals */

GY_API gy_node gy_op_softmax(gy_node a, int dim);
GY_API gy_node gy_op_log_softmax(gy_node a, int dim);
/** Mean over rows of -log softmax(logits)[label]: logits (n, classes), labels (n) integers ->
 * scalar. */
GY_API gy_node gy_op_cross_entropy(gy_node logits, gy_node labels);

/** x (N,C,H,W), filters (K,C,R,S) -> (N,K,H',W'); zero padding on both sides. */
GY_API gy_node gy_op_conv2d(gy_node x, gy_node filters, int stride, int pad);
GY_API gy_node gy_op_max_pool(gy_node x, int window, int stride, int pad);
/**
 * The mean of each window over those of its elements that lie in the image: what is padding
 * counts neither in the sum nor in what it is divided by (ONNX's default, PyTorch's
 * count_include_pad=False). The gradient is divided alike.
 */
GY_API gy_node gy_op_average_pool(gy_node x, int window, int stride, int pad);
/** The same divided by all window * window elements, padding being zeros (PyTorch's default,
 * count_include_pad=True). Without padding both are one. */
GY_API gy_node gy_op_average_pool_padded(gy_node x, int window, int stride, int pad);
/** Zero with probability rate, else scaled by 1 / (1 - rate). Drawn anew each run, from the
 * session's seed. For training: leave it out of the nodes that are fetched to evaluate. */
GY_API gy_node gy_op_dropout(gy_node x, double rate);
/** table (rows, width), indices integers (…) -> (…, width). */
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
 * The batch's variance is unbiased here, its mean and variance are of the global batch and so
 * alike on all ranks.
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

/** One size may be 0x7fffffffffffffff (GY_ANY): what remains. */
#define GY_ANY INT64_MAX
GY_API gy_node gy_op_reshape(gy_node a, const int64_t *sizes, int rank);
GY_API gy_node gy_op_transpose(gy_node a,
                               const int *dims); /* dims: a permutation, one per dimension */
GY_API gy_node gy_op_broadcast_to(gy_node a, const int64_t *sizes, int rank);
GY_API gy_node gy_op_slice(gy_node a, int dim, int64_t begin, int64_t end, int64_t step);
GY_API gy_node gy_op_concat(const gy_node *parts, int count, int dim);
/** Rows of `a` along dim by integer indices (1-D), and its adjoint: rows of `a` summed into
 * `size` rows. */
GY_API gy_node gy_op_gather(gy_node a, gy_node indices, int dim);
GY_API gy_node gy_op_scatter_add(gy_node a, gy_node indices, int dim, int64_t size);

/**
 * d loss / d wrt[i] as nodes of the same graph; loss is a scalar. Gradients of gradients work.
 * A value that loss does not depend on gets zeros.
 */
GY_API GY_MUST_CHECK gy_status gy_op_gradients(gy_node loss, const gy_node *wrt, int count,
                                               gy_node *gradients);
GY_API gy_node gy_op_gradient(gy_node loss, gy_node wrt);
/** Fetched, it sets the parameter to `value` after all reads of this run (once in a run); used,
 * it is `value`. */
GY_API gy_node gy_op_assign(gy_node parameter, gy_node value);

typedef struct gy_session gy_session;
typedef struct gy_session_options {
    gy_engine *engine; /* NULL: the session makes one */
    gy_comm *comm;     /* the data axis of the mesh; NULL: one rank along it */
    /* The model axis: ranks with the same rows, which share out the work of operators. NULL:
       one rank along it. Every rank is in one communicator of each axis. */
    gy_comm *model;
    uint64_t seed;       /* of parameters and dropout */
    int workers;         /* of the session's own engine; 0: cores / ranks on this host */
    bool has_no_overlap; /* nothing runs beside an exchange: to see what overlap gains */
} gy_session_options;

/** Parameters kept, programs compiled at first use per (fetches, batch). GY_OK or the graph's
 * failure. */
GY_API GY_MUST_CHECK gy_status gy_session_new(gy_graph *graph,
                                              const gy_session_options *options,
                                              gy_session **session);
GY_API void gy_session_free(gy_session *session);

typedef struct gy_feed {
    gy_node node;
    gy_tensor *tensor; /* borrowed for the run */
} gy_feed;

/**
 * Run: feed every needed input, compute the fetches.
 *
 * An input whose first size is symbolic is sharded over the data axis: each rank feeds its
 * part, rows [gy_part_begin(batch, r, p), gy_part_begin(batch, r + 1, p)). Other inputs are fed
 * alike on all.
 *
 * @param batch   the global batch; 0: this rank's rows times ranks
 * @param results one held tensor per fetch (caller drops), complete on every rank: a fetched
 * value with a symbolic first size is this rank's rows. NULL entries for fetches of
 * gy_op_assign.
 * @return GY_OK; GY_ARG a feed is missing; GY_SHAPE a feed does not fit (names node and both
 * shapes); what a kernel or a collective failed with
 */
GY_API GY_MUST_CHECK gy_status gy_session_run(gy_session *session, const gy_feed *feeds,
                                              int feed_count, int64_t batch,
                                              const gy_node *fetches, int fetch_count,
                                              gy_tensor **results);
/** The parameter's tensor, borrowed; change it only between runs. NULL: no such
 * name, or no memory to make it, which is done when it is first asked for. */
GY_API gy_tensor *gy_session_parameter(gy_session *session, const char *name);
/** How often it ran; part of every random draw. Set when a checkpoint is resumed. */
GY_API uint64_t gy_session_step(const gy_session *session);
GY_API void gy_session_set_step(gy_session *session, uint64_t step);

/** Where the time of all runs so far went, in seconds of this process's wall clock. */
typedef struct gy_session_stats {
    double compute_s, exposed_communication_s, other_s;
    double hidden_communication_s; /* part of compute_s: exchanges under way beside it */
    uint64_t bytes_sent, runs;
} gy_session_stats;
GY_API gy_session_stats gy_session_statistics(const gy_session *session);

/**
 * The text of every stage of compiling (fetches, batch): graph, gradient, rewrite, expand,
 * place, fuse, memory, with sizes, placements and costs. Caller frees with gy_string_free.
 */
GY_API GY_MUST_CHECK gy_status gy_session_explain(gy_session *session, int64_t batch,
                                                  const gy_node *fetches, int fetch_count,
                                                  char **text);

#ifdef __cplusplus
}
#endif
#endif
