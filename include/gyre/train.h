/**
 * Training: layers, data sets, optimizers and the loop that every rank runs.
 *
 * @source lecture A, "Synchronous Data Parallelism"; lecture B, "Use Allreduce for Data
 * Parallel Training"
 */
#ifndef GYRE_TRAIN_H
#define GYRE_TRAIN_H

#include <gyre/graph.h>
#include <gyre/ps.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Samples by index: a table of functions, and a context that begins with gy_dataset. Programs
 * may make their own. @threads owner */
typedef struct gy_dataset gy_dataset;
typedef struct gy_dataset_ops {
    const char *name;
    /* Writes samples indices[0 .. count) to x (count, input sizes…), of input_dtype, and,
     * unless it is NULL, to labels (count, label sizes…) i32. A failure ends the training. */
    gy_status (*fill)(gy_dataset *dataset, const int64_t *indices, int64_t count, gy_view *x,
                      gy_view *labels);
    void (*free)(gy_dataset *dataset); /* called once, by gy_dataset_free */
} gy_dataset_ops;
struct gy_dataset {
    const gy_dataset_ops *ops;
    int64_t count;                  /* samples, the same on every rank */
    int classes;                    /* labels are in [0, classes) */
    const char *const *class_names; /* or NULL */
    int input_rank;                 /* of one sample */
    int64_t input_sizes[GY_TENSOR_RANK_MAX];
    gy_dtype input_dtype; /* GY_DTYPE_NONE: the model's element type */
    int label_rank;       /* of one sample's labels; 0: one label a sample */
    int64_t label_sizes[GY_TENSOR_RANK_MAX];
};

/**
 * Images and labels of a pair of IDX files (plain or compressed), pixels scaled to [0, 1].
 * @param labels_path  NULL: images to predict, all labelled 0, of 0 classes
 * @param dataset      caller owns; gy_dataset_free
 * @return as gy_read_idx; GY_FORMAT the two do not fit: names file, offset and value
 */
GY_API GY_MUST_CHECK gy_status gy_dataset_open_idx(const char *images_path,
                                                   const char *labels_path,
                                                   gy_dataset **dataset);
/** MNIST's four files in `folder`: train-images-idx3-ubyte[.gz] … t10k-labels-idx1-ubyte[.gz].
 * Caller owns both sets; on failure neither is made. */
GY_API GY_MUST_CHECK gy_status gy_dataset_open_mnist(const char *folder, gy_dataset **train,
                                                     gy_dataset **test);
/**
 * Rows of a libsvm file (gy_read_libsvm) as samples of all their features. The distinct labels,
 * in ascending order, are the classes: -1 and 1 become 0 and 1.
 * @param test  every tenth row, from the tenth; the other rows are `train`
 * @return as gy_read_libsvm; GY_FORMAT fewer than ten rows, or one label alone; GY_LIMIT more
 *         than 1,000 labels or 1,048,576 features
 */
GY_API GY_MUST_CHECK gy_status gy_dataset_open_libsvm(const char *path, gy_dataset **train,
                                                      gy_dataset **test);
/** NULL is fine. */
GY_API void gy_dataset_free(gy_dataset *dataset);

/** One layer of a sequential model. The functions below make them; zero members are defaults.
 */
typedef enum gy_layer_kind {
    GY_LAYER_DENSE,
    GY_LAYER_CONV2D,
    GY_LAYER_MAX_POOL,
    GY_LAYER_AVERAGE_POOL,
    GY_LAYER_RELU,
    GY_LAYER_TANH,
    GY_LAYER_SIGMOID,
    GY_LAYER_GELU,
    GY_LAYER_DROPOUT,
    GY_LAYER_FLATTEN,
    GY_LAYER_BATCH_NORM,
} gy_layer_kind;
typedef struct gy_layer {
    gy_layer_kind kind;
    int64_t units;           /* dense: outputs; conv2d: filters */
    int window, stride, pad; /* conv2d, pools */
    double rate;             /* dropout */
    double momentum;         /* batch norm: share of each batch in the running statistics, up to
                                1; 0: 0.1 */
    double epsilon;          /* batch norm: added to the variance; 0: 1e-5 */
} gy_layer;

GY_API gy_layer gy_layer_dense(int64_t units);
GY_API gy_layer gy_layer_conv2d(int64_t filters, int window, int pad);
GY_API gy_layer gy_layer_max_pool(int window);
/** As gy_op_average_pool: padding counts neither in the sum nor in what it is divided by. */
GY_API gy_layer gy_layer_average_pool(int window);
GY_API gy_layer gy_layer_relu(void);
GY_API gy_layer gy_layer_dropout(double rate);
GY_API gy_layer gy_layer_flatten(void);
/**
 * Normalise each channel (dimension 1 of the batch: a feature behind dense, a filter behind
 * conv2d), then scale and shift it by what is learned. gy_train normalises by the mean and
 * variance of the global batch and moves running ones, kept beside the parameters, towards
 * them; gy_model_evaluate and gy_model_predict normalise by the running ones, so that a row's
 * result depends neither on the other rows nor on their number. Before any training these are
 * mean 0 and variance 1. A batch that would have one value a channel is refused before the
 * training.
 */
GY_API gy_layer gy_layer_batch_norm(void);

/**
 * What a model's function builds with: one form of the model, for training or for evaluation,
 * in one graph. Valid during the call.
 */
typedef struct gy_model_builder gy_model_builder;
/**
 * A model as a function: make nodes from x (batch, input sizes…) to *logits (batch, label
 * sizes…, classes). It is called as often as forms are needed, more than once in one graph, and
 * each time makes the same nodes of the same parameters, but for what differs between training
 * and evaluation (gy_model_is_training). A node that fails is reported by its graph: the
 * function itself fails only with what it checks, such as sizes that do not divide.
 * @param arg  of gy_model_options
 */
typedef gy_status (*gy_model_function)(void *arg, gy_model_builder *builder, gy_node x,
                                       gy_node *logits);
/**
 * The parameter `name`, of the model's element type. Named again, in this form or another, it
 * is the same node, and rank, sizes and init must be the same: that ties weights.
 * @param sizes  (rank)
 * @return a failed node where there is a parameter of that name and other sizes
 */
GY_API gy_node gy_model_parameter(gy_model_builder *builder, const char *name,
                                  const int64_t *sizes, int rank, gy_init init);
/** One layer on x, as in a list of layers, with parameters "name.weight", "name.bias"; batch
 * norm with its running statistics. */
GY_API gy_node gy_model_layer(gy_model_builder *builder, const char *name, gy_layer layer,
                              gy_node x);
/**
 * State that is handed on from each batch to the next, (batch, sizes…) of the model's element
 * type: zeros at the start of an epoch or an evaluation, then the value given to
 * gy_model_carry. No gradient passes from a batch to the one before (truncated back-propagation
 * through time).
 *
 * A model with such state reads its data set as streams. Of `count` samples that follow one
 * another and batches of b rows, row r of batch k is sample r (count / b) + k: each row goes on
 * where it ended in the batch before, also in micro-batches, which have some of the rows each.
 * The count % b last samples are not read, every epoch has the same order, and several batches
 * an update are windows that follow one another.
 * @param name   of the state, in no other use; each form of the model names the same ones
 * @param sizes  (rank) of one row
 * @source Werbos 1990; the layout is that of PyTorch's word_language_model
 */
GY_API gy_node gy_model_carried(gy_model_builder *builder, const char *name,
                                const int64_t *sizes, int rank);
/** What the next batch finds in state `name`: a value of the same sizes. Once for each. */
GY_API void gy_model_carry(gy_model_builder *builder, const char *name, gy_node next);
/** Whether this form is the one for training: with dropout, by the statistics of the batch. */
GY_API bool gy_model_is_training(const gy_model_builder *builder);
/** The text of gy_model_options.configuration, or of the file that is loaded; "" for none. */
GY_API const char *gy_model_configuration(const gy_model_builder *builder);
/** The element type of parameters and arithmetic. */
GY_API gy_dtype gy_model_dtype(const gy_model_builder *builder);

/** A function of nodes, or layers; their parameters, and the session that holds them.
 * @threads owner */
typedef struct gy_model gy_model;
typedef struct gy_model_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    const char *name;   /* architecture, kept in the saved file: "lenet" */
    /* A list of layers, in order … */
    const gy_layer *layers;
    int layer_count;
    gy_dtype dtype; /* of parameters and arithmetic: GY_F32 or GY_F64; 0: GY_F32 */
    int input_rank; /* of one sample, without the batch */
    int64_t input_sizes[GY_TENSOR_RANK_MAX];
    uint64_t seed;
    gy_comm *comm; /* as in gy_session_options */
    gy_mesh *mesh;
    int workers;                    /* 0: cores / ranks on this host */
    bool has_no_overlap;            /* as in gy_session_options */
    const char *const *class_names; /* kept in the saved file; NULL: none */
    int class_count;
    /* … or a function, which outlives the model as `arg` does. */
    gy_model_function build;
    void *arg;
    const char *configuration; /* of the function; kept in the saved file; NULL: "" */
    gy_dtype input_dtype;      /* of x: integers for tokens; 0: `dtype` */
    int label_rank;            /* of one sample's labels; 0: one label a sample */
    int64_t label_sizes[GY_TENSOR_RANK_MAX];
} gy_model_options;
/**
 * A model, not trained; caller owns it. Layers and texts are copied, the communicator outlives
 * it. Every rank of the communicator makes it alike. The last size of the logits is the number
 * of classes; the loss is the mean over all labels of the batch of their cross entropy.
 * @return GY_OK; GY_ARG, GY_TYPE or GY_SHAPE an option or a layer that does not fit (names it);
 *         GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_model_new(const gy_model_options *options, gy_model **model);
/** NULL is fine. */
GY_API void gy_model_free(gy_model *model);
/**
 * Freeze layer `index` (or no longer): from the next gy_train on its parameters stay what they
 * are, and a frozen batch norm normalises by its running statistics, which stay too. A choice
 * of this training: a saved model does not keep it, a checkpoint is resumed with the same one.
 * @return GY_OK; GY_ARG no such layer, or the model is a function
 */
GY_API GY_MUST_CHECK gy_status gy_model_freeze(gy_model *model, int index, bool is_frozen);

/**
 * One of the models that the command knows (softmax, mlp, lenet; logistic of two classes), for
 * the inputs that `options` gives and a number of classes; name and layers of the options are
 * not read.
 * @return as gy_model_new; GY_NOTFOUND there is no model of that name
 */
GY_API GY_MUST_CHECK gy_status gy_model_named(const char *name, const gy_model_options *options,
                                              int classes, gy_model **model);

/** How a gradient becomes a change of the parameters. */
typedef enum gy_optimizer_kind {
    GY_OPTIMIZER_SGD,
    GY_OPTIMIZER_MOMENTUM,
    GY_OPTIMIZER_NESTEROV,
    GY_OPTIMIZER_ADAM,
    GY_OPTIMIZER_ADAMW,
} gy_optimizer_kind;
/**
 * The learning rate of step s = 0 … S-1 of the S steps of the training, of which the first W
 * are the warm-up. Step s < W has rate (s + 1) / W, so that step W-1 has the full rate; without
 * a warm-up (W = 0) step 0 has it. Then, with t = s - W and T = S - W: cosine and linear begin
 * at the full rate and reach 0 at t = T, right after the last step: that one still trains, with
 * rate / 2 (1 - cos(pi / T)) or rate / T. A training of one step has the full rate. A resumed
 * training, and one that a step limit or early stopping ends, follow the curve of all S steps.
 */
typedef enum gy_schedule_kind {
    GY_SCHEDULE_CONSTANT,
    GY_SCHEDULE_STEP,   /* rate factor^floor(epoch / every), epochs counted from 0 */
    GY_SCHEDULE_COSINE, /* rate / 2 (1 + cos(pi t / T)) */
    GY_SCHEDULE_LINEAR, /* rate (1 - t / T) */
} gy_schedule_kind;

/** Where a training is. */
typedef struct gy_progress {
    int epoch;
    int64_t step, steps;  /* of the whole training */
    double loss, rate;    /* of the last step */
    double samples_per_s; /* over all ranks */
    bool is_epoch_end;
    double test_loss, test_accuracy; /* at an epoch end, when there is a test set */
} gy_progress;

/** How the ranks along an axis keep parameters and what an update keeps for them (gy_pin). */
typedef struct gy_parameter_pin {
    const char *name; /* of parameters, a pattern as of the shell: "dense*.weight" */
    const char *axis; /* of the mesh */
    gy_placement placement;
} gy_parameter_pin;

/**
 * A training by parameter servers: each worker calls gy_train with a model of its own, alike on
 * all but without a communicator, pulls the parameters, computes the gradients of its rows of
 * each global batch and pushes them while the backward pass goes on. No worker waits for
 * another but as the rule says; whoever leaves or dies is not waited for. A training of workers
 * that come later goes on from what the servers have.
 *
 * BSP gives the update of the whole batch, as ranks with an allreduce do. Under the other rules
 * each worker's gradient, weighed by its share of the batch, is an update of its own. Dropout
 * draws, batch norm and clipping are of a worker's own rows.
 *
 * @source lecture D, "Basic Worker Algorithm", "Extended Worker Algorithm"; the push comes
 * before the pull (as printed there, with the pull first, each worker's own last update is
 * missing from what it computes with)
 */
typedef struct gy_train_servers {
    size_t struct_size;
    /* "HOST:PORT,HOST:PORT" of servers, or of leads, and the replicas of each part that these
     * are to have (0: any), as in gy_ps_options */
    const char *servers, *lead;
    uint32_t replicas;
    const char *key_file; /* key ring; NULL: only with is_plaintext */
    bool is_plaintext;
    uint32_t worker, workers; /* which one this is, of how many; workers 0: 1 */
    gy_ps_sync sync;
    /* Batches between two exchanges: a worker sums its gradients and updates its own parameters
     * meanwhile. An epoch ends with an exchange. 0: 1 */
    int fetch;
    const char *name; /* of the training at the servers; NULL: the model's */
    double timeout_s; /* of each wait; 0: GYRE_TIMEOUT seconds, else 300 */
    /* Of what is pushed, with error feedback: "residual" of each parameter is in the worker's
     * state. */
    gy_codec codec;
} gy_train_servers;

/** Which chunks of the forward pass the way back makes again (gy_graph_recompute). */
typedef enum gy_recompute {
    GY_RECOMPUTE_NONE,
    GY_RECOMPUTE_LAYERS, /* all but the last */
    GY_RECOMPUTE_AUTO    /* as many as memory_bytes asks for, which is needed then */
} gy_recompute;

/** Zero members are the defaults, but for batch, and epochs or steps, which are needed. */
typedef struct gy_train_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int epochs;
    int64_t batch;  /* global, over all ranks; one step's update when accumulate is 1 */
    int accumulate; /* batches per update; 0 is 1 */
    /* What ranks along the data axis keep in parts: 0 nothing, 1 the optimizer's state, 2 the
       sums of gradients as well, 3 the parameters as well (the stages of ZeRO). */
    int zero;
    const gy_parameter_pin *pins; /* (pin_count) borrowed for the call; stronger than `zero` */
    int pin_count;
    /* Where stages 1, 2, … begin on a mesh with an axis pipe: names as gy_graph_cut takes them,
       separated by commas; NULL: by cost. */
    const char *cut;
    gy_optimizer_kind optimizer;
    double rate, momentum, beta1, beta2, epsilon,
        weight_decay; /* 0: the optimizer's usual value; decay 0: none */
    gy_schedule_kind schedule;
    double schedule_factor;
    int schedule_every, warmup_steps;
    double clip_norm; /* of the global gradient; 0: none */
    uint64_t seed;    /* of the order of samples */
    /* Early stop: epochs without a better test loss; 0: never. The model stays that of the last
       epoch. */
    int patience;
    const char *checkpoint_folder; /* NULL: none; of all ranks, which write to it together */
    int64_t checkpoint_every;      /* steps; 0: each epoch */
    bool resume; /* from the folder's newest whole checkpoint; none there: from the start, with
                    a warning */
    int64_t step_limit; /* stop after so many steps, with a checkpoint; 0: none */
    /* Called on every rank after each step and epoch; a failure stops the training. May be
     * NULL. */
    gy_status (*on_step)(void *arg, const gy_progress *progress);
    void *arg;
    int64_t steps; /* S, of which the last ends an epoch; 0: the steps of `epochs` epochs */
    /* Parameters of fewer dimensions have no weight decay: 2 spares biases and gains; 0: all
     * have it. */
    int weight_decay_rank_min;
    /* What a rank may hold of parameters, optimizer state and values. A training for which more
       is predicted ends before its first step. 0: no limit. */
    uint64_t memory_bytes;
    /* NULL: ranks exchange gradients with each other. Excludes a communicator, `accumulate`,
       `zero` and `pins`. Worker 0 makes the tests, stops the others early, and writes
       checkpoints, with what the servers keep of the optimizer; the others write what is their
       own (a codec's residual; with `fetch` the state of their own updates) to folders in that
       one. A resumed training has the same bits under BSP (with a codec: at
       as many servers). A worker's losses are those of its
       own rows: NaN before a resumed step if it has none of its own. */
    const gy_train_servers *servers;
    /* Parts of each batch that are computed one after the other, as even as they can be (also
       of no rows): the update is that of the whole batch, but for batch norm, which normalises
       each of them. Gradients are summed in their order, and exchanged once an update. 0: the
       batch is not split. Excludes `servers`. */
    int micro_batches;
    gy_recompute recompute;
    /* On a mesh with an axis pipe ranks work on several micro-batches at a time: by the
       schedule of this name (gy_pipe_name; NULL: 1f1b), or by these lists, which are borrowed
       for the call. Their stages must run whole: an edge of the cut that goes back is refused
       by name. The update is the same whatever the schedule. */
    const char *pipe_schedule;
    const gy_pipe_schedule *pipe_lists;
    int chunks; /* stages of a rank along pipe; 0: as the schedule wants, of interleaved 2 */
    /* gy_graph_precision of the model's graph, until it is trained anew: parameters, optimizer
       state, checkpoints and files stay f32, tests read what the training reads. 0: f32. Of
       models of f32. With GY_F16 the loss is scaled, so that its type holds small gradients: a
       step whose gradients are not finite changes nothing and halves the scale, 2000 that are
       double it, up to 2^24. Excludes `servers`. */
    gy_dtype precision;
    /* Of f16, at first, a power of two up to 2^24; 0: 65536. A resumed training goes on with
       its checkpoint's, and warns where this is another. */
    double loss_scale;
    /* GY_BF16: gradients are rounded to it, and exchanged and summed by ranks in it, half the
       bytes of f32, in which updates go on; also on one rank, so that ranks learn alike. 0 or
       GY_F32: as they are. Of models of f32. Excludes `servers`, which have a codec. */
    gy_dtype exchange;
    /* As in gy_session_options. */
    int device;
    const char *devices;
    int device_rank, device_ranks;
} gy_train_options;

/**
 * What the models that gy_model_named knows are trained with unless told otherwise: epochs,
 * batch, optimizer, rate, schedule, decay; a general recipe for other names.
 * @threads any
 */
GY_API gy_train_options gy_train_recipe(const char *model);

/**
 * gy_ps_simulate for a model and its samples: workers of parameter servers in virtual time. The
 * loss is that of the first 200 samples, which the target is of. The same arguments give the
 * same result on the same kind of machine. The model keeps its parameters.
 * @param model  of one process
 * @return as gy_ps_simulate; GY_SHAPE the samples are not the model's; GY_STATE
 */
GY_API GY_MUST_CHECK gy_status gy_train_simulate(gy_model *model, gy_dataset *train,
                                                 const gy_ps_simulation *options,
                                                 gy_ps_simulated *result);

/** Where the time of a rank went, in seconds; the rest of wall_s is its own. Tests and
 * checkpoints are in aside_s and in no other figure but wall_s. */
typedef struct gy_train_account {
    double wall_s, compute_s, bubble_s, exposed_communication_s, input_s, aside_s;
} gy_train_account;

/** What a training did; times are this rank's, in seconds, of its updates: tests and
 * checkpoints are in wall_s and aside_s alone. */
typedef struct gy_train_result {
    int64_t steps;
    double loss, test_loss, test_accuracy, wall_s;
    double compute_s, exposed_communication_s, input_s;
    double hidden_communication_s; /* part of compute_s */
    double *losses; /* one per step, `steps` of them; free with gy_train_result_free */
    /* By patience, before the last epoch; also when resumed after that. */
    bool is_stopped_early;
    int64_t resumed_step; /* of the checkpoint that it went on from; 0: none */
    /* Of the updates alone, without tests and checkpoints: seconds of wall_s, samples of all
       ranks, and what this rank exchanged, with the rows of gy_session_exchanges. */
    double update_s;
    int64_t samples;
    gy_exchange_stats exchanges[GY_EXCHANGE_KINDS_MAX];
    int exchange_count;
    double bubble_s; /* waiting for other stages (gy_session_stats); in no other figure */
    double aside_s;  /* tests and checkpoints */
    gy_train_account *accounts; /* of all ranks, where there are stages; free as `losses` */
    int account_count;
    /* Of precision f16, at the end: the scale of the loss, and the steps of the whole training
       that were skipped as their gradients were not finite. Else 0. */
    double loss_scale;
    int64_t skipped_steps;
} gy_train_result;

/**
 * Train: each rank takes its rows of every global batch, gradients meet in an allreduce that
 * the graph's placement inserted, every rank makes the same update.
 * @param test may be NULL
 * The last batch of an epoch has the rows that are left; a batch larger than the set is all of
 * it. Losses are means over labels, whatever the ranks' shares.
 * @return GY_OK; GY_NUMERIC the loss is not a number (names the step, counted from 1), or a
 * parameter is not finite at a checkpoint or the end: the model is what that step left;
 * GY_LIMIT a rank would hold more than memory_bytes (names what fits); with servers also the
 * failures of gy_ps_open, gy_ps_push and gy_ps_pull; GY_ARG a label out of
 * range (names the sample), an option; what data, files, ranks failed with
 */
GY_API GY_MUST_CHECK gy_status gy_train(gy_model *model, gy_dataset *train, gy_dataset *test,
                                        const gy_train_options *options,
                                        gy_train_result *result);
/** Frees what the result points at. */
GY_API void gy_train_result_free(gy_train_result *result);

/**
 * The text of every stage of compiling one update with `options`, with sizes, placements and
 * costs; free it with gy_string_free. Builds the model's graph anew, parameters keep their
 * values.
 */
GY_API GY_MUST_CHECK gy_status gy_train_explain(gy_model *model,
                                                const gy_train_options *options, char **text);

/**
 * What the exchanges of the updates since the model was built sent and took, beside the
 * prediction (gy_session_explain_runs); of several batches an update those of a batch before
 * the last as well, of micro-batches those of one. Call it on any rank.
 * @param lines_max  exchanges that are told, the longest ones; 0: all
 * @param text  takes the text; free it with gy_string_free
 * @return GY_OK; GY_NOTFOUND no update has run; GY_ARG; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_train_explain_runs(gy_model *model, int lines_max,
                                                     char **text);

/**
 * Loss and accuracy over the labels of a data set, shared among the ranks; `predicted` (count,
 * label sizes…) may be NULL. A model that hands state on (gy_model_carried) reads the set as
 * `batch` streams: means are over what these have, and the rest is predicted as 0.
 * @return GY_OK; GY_SHAPE samples of other sizes than the model takes, or none; GY_ARG; what
 * data, ranks failed with
 */
GY_API GY_MUST_CHECK gy_status gy_model_evaluate(gy_model *model, gy_dataset *dataset,
                                                 int64_t batch, double *loss, double *accuracy,
                                                 int32_t *predicted);
/** Class log-probabilities of x (rows, input sizes…) -> out (rows, label sizes…, classes) f32,
 * held once by the caller; this rank alone computes them, from a state of zeros where the model
 * hands one on. @return GY_OK; GY_SHAPE; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_model_predict(gy_model *model, gy_tensor *x, gy_tensor **out);

/**
 * Save as safetensors, whole or not at all; `extra` are further metadata pairs, NULL-ended, or
 * NULL. Any rank may call it; of a model that is sharded (gy_model_is_sharded) all ranks call
 * it together with one path, each writes its parts, and all return how that went.
 */
GY_API GY_MUST_CHECK gy_status gy_model_save(gy_model *model, const char *path,
                                             const char *const *extra);
/**
 * Load a model of any architecture that gy_model_save wrote. Of the options it takes seed,
 * communicator and workers, and of a program's own function `build` and `arg`: the one that the
 * model was saved with. Models that gy_model_named, gy_gpt_new and gy_lstm_new made need none.
 * One of several ranks reads values when they are first used, its parts alone: until then the
 * file stays open, and another version in its place is GY_STATE.
 * @return GY_OK; GY_FORMAT names what does not fit; GY_MISMATCH a configuration that is not the
 * file's; GY_ARG the file is of a function and there is none, or of layers and there is one;
 * what reading failed with
 */
GY_API GY_MUST_CHECK gy_status gy_model_load(const char *path, const gy_model_options *options,
                                             gy_model **model);
/** Do ranks have parts of the parameters? So after a training with `zero` 3, or pins, over
 * several ranks. */
GY_API bool gy_model_is_sharded(const gy_model *model);
/** gy_session_device of its session: of the last training; NULL: none. */
GY_API const char *gy_model_device(const gy_model *model);
/**
 * Can a rank that trains with the options have its device? Opens it and closes it again, before
 * much is read. Collective.
 * @param comm  of the ranks that train; NULL: this one is alone
 * @return GY_OK, also where no device is asked for; as gy_session_new, on every rank
 */
GY_API GY_MUST_CHECK gy_status gy_train_find_device(const gy_train_options *options,
                                                    gy_comm *comm);
/** The architecture's name; borrowed from the model. */
GY_API const char *gy_model_name(const gy_model *model);
/** A metadata value of the file that the model came from, borrowed; NULL: no such key. */
GY_API const char *gy_model_metadata(const gy_model *model, const char *key);
/** The name of class `index`, borrowed; NULL: it has none. */
GY_API const char *gy_model_class_name(const gy_model *model, int index);
GY_API int gy_model_class_count(const gy_model *model);
/** The session that holds the parameters, borrowed until the model is trained or freed. */
GY_API gy_session *gy_model_session(gy_model *model);

#ifdef __cplusplus
}
#endif
#endif
