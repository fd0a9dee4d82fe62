/**
 * What the files of room train share: the model's inside, the update's nodes, order and
 * schedule.
 */
#ifndef GY_TRAIN_TRAIN_PRIV_H
#define GY_TRAIN_TRAIN_PRIV_H

#include "base/base.h"
#include "graph/files/files.h"
#include "ops/device.h"
#include "train/train.h"

#include <gyre/data.h>

/* A parameter's name leaves room for what the optimizer adds to it ("/velocity"). */
enum { GY_LAYER_LIMIT = 256, GY_TRAIN_NAME_BYTES = 96, GY_TRAIN_PARAMETER_BYTES = 80 };

/* The tensor of a checkpoint that is no parameter. */
#define GY_TRAIN_LOSSES "losses"

/** What of the session's parameters belongs to the model, and who changes it. */
typedef enum gy_train_slot_kind {
    GY_SLOT_PARAMETER, /* the optimizer, by its gradient */
    GY_SLOT_FROZEN,    /* nobody in this training */
    GY_SLOT_STATISTIC, /* each training batch: running mean and variance */
    GY_SLOT_STATE,     /* the optimizer's own: in checkpoints, not in saved models */
} gy_train_slot_kind;

/** A parameter of the model, a running statistic, or a piece of the optimizer's state. */
typedef struct gy_train_slot {
    char name[GY_TRAIN_NAME_BYTES];
    gy_node node;
    gy_train_slot_kind kind;
} gy_train_slot;

/** State that batches hand on. Training keeps it in the session, as a slot of the rows of a
 * batch; evaluation feeds it and fetches what follows. */
typedef struct gy_train_carried {
    char name[GY_TRAIN_PARAMETER_BYTES];
    gy_node fed, next; /* of the evaluation form; (batch, sizes…) */
} gy_train_carried;
/** As it is in the name of the slot: "layer0.cell/carried". */
#define GY_TRAIN_CARRIED "carried"

/** Nodes of one kind of run: what it feeds and fetches. */
typedef struct gy_update {
    /* Scalar inputs; the same node where an optimizer has no use of its own for one. */
    gy_node rate, correction, plain_rate;
    gy_node share; /* of the update's rows that are in this batch; where batches accumulate or
                      workers push */
    gy_node scale, is_finite; /* of the loss, and whether all gradients are; f16 alone */
    gy_node *fetches; /* [0] is the loss, but of micro-batches; the rest are assignments */
    int fetch_count;
    gy_node *gather_fetches; /* of a batch that only accumulates, or a micro-batch: its loss,
                                assignments */
    int gather_count;
} gy_update;

/** Does the training ask for products of 16-bit operands? */
static inline bool gy_train_is_narrow(const gy_train_options *options)
{
    return options->precision != GY_DTYPE_NONE && options->precision != GY_F32;
}

/** The slot of the loss's scale; its state has this name before a slash. */
#define GY_TRAIN_SCALE "loss_scale"
/** Put the scale of the loss and the steps that were skipped into the result: of f16 alone.
 * GY_NUMERIC no scale gives finite gradients. Collective. */
GY_MUST_CHECK gy_status gy_train_scale_check(gy_model *model, const gy_train_options *options,
                                             gy_train_result *result);
/** The loss scale of a checkpoint, which stays where it has none. GY_FORMAT it is no scale
 * (infinite, no number, out of range). */
GY_MUST_CHECK gy_status gy_train_scale_kept(const gy_bundle *bundle,
                                            const gy_train_options *options, double *scale);
/** GY_ARG names a precision that the model cannot take. */
GY_MUST_CHECK gy_status gy_train_precision_check(const gy_model *model,
                                                 const gy_train_options *options);

struct gy_model {
    char name[GY_TRAIN_NAME_BYTES];
    gy_model_function build;
    void *build_arg;
    char *configuration; /* of a function; NULL: a list of layers */
    gy_layer *layers;    /* of a list; NULL: a function */
    int layer_count, input_rank, label_rank, classes;
    int64_t input_sizes[GY_TENSOR_RANK_MAX], label_sizes[GY_TENSOR_RANK_MAX];
    int64_t label_count; /* of one sample: the product of label_sizes */
    gy_dtype dtype, input_dtype;
    uint64_t seed;
    gy_comm *comm;   /* all ranks; NULL: this process alone */
    bool is_sharded; /* ranks have parts of the parameters: what reads them whole is collective
                      */
    gy_mesh *mesh;   /* borrowed; NULL: all ranks share out the rows */
    int workers;
    bool has_no_overlap;
    char **class_names;        /* `classes` of them, or NULL */
    gy_bundle *source;         /* the file it was loaded from, without its elements, or NULL */
    int chunks;                /* stages of a rank along pipe; 0: 1 */
    bool is_lazy;              /* parts are read from there when they are first used */
    const gy_bundle *expected; /* while it is made: the tensors that must fit, or NULL */

    gy_device *device; /* lent to the session; NULL: it opens its own, if any */
    gy_graph *graph;
    gy_session *session;
    gy_node x, labels, train_loss, loss, log_probabilities, predicted;
    gy_train_slot *slots;
    size_t slot_count, slot_capacity;
    gy_status slot_status; /* the first failure to make one, which the graph does not know */
    bool *is_frozen;       /* of each layer */
    gy_node *statistics;   /* assignments of a training batch to running statistics */
    size_t statistic_count, statistic_capacity;
    char pair_layer[GY_TRAIN_NAME_BYTES]; /* the first one that cannot train on a batch of one
                                             row; "": none */
    gy_train_carried *carried;            /* what batches hand on */
    size_t carried_count, carried_capacity;
    int64_t carried_rows; /* of each batch of the training that the graph is for; 0: none */
    int micro_count;      /* of each of these batches; 0: it is not split */
    gy_update update;
    int64_t input_ns; /* spent in filling batches to evaluate */
};

/** Optimizer settings with every default filled in. */
GY_MUST_CHECK gy_status gy_train_defaults(const gy_train_options *options,
                                          gy_train_options *filled);
/** GY_ARG names the field that is out of range, its value and the range. */
gy_status gy_train_check(const gy_model *model, const gy_dataset *train, const gy_dataset *test,
                         const gy_train_options *options);

/** GY_SHAPE samples of other sizes, or none; GY_ARG more classes than the model has. */
gy_status gy_train_dataset_check(const gy_model *model, const gy_dataset *set,
                                 const char *what);

/**
 * Build the graph anew: forward pass, and with `options` the update. Parameters that the model
 * had keep their values; the optimizer's state begins at zero.
 */
gy_status gy_model_build(gy_model *model, const gy_train_options *options);

struct gy_model_builder {
    gy_model *model;
    bool is_training;
    int layer; /* of a list: which one is applied; -1: of a function */
};

/** The gy_model_function of a list of layers; `arg` is not read. */
gy_status gy_train_layers_build(void *arg, gy_model_builder *builder, gy_node x,
                                gy_node *logits);
/** The gy_model_function of a GPT, which reads its configuration; `arg` is not read. */
gy_status gy_train_gpt_build(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits);
/** May ranks along an axis keep parts of the parameter's dimension, each of whole heads?
 * GY_ARG: names both numbers, and those that do. */
GY_MUST_CHECK gy_status gy_train_gpt_check_pin(const gy_model *model, const char *name,
                                               const gy_parameter_pin *pin, int ranks);
/** The function of a model that Gyre knows by name; NULL: there is none. */
gy_model_function gy_train_function_named(const char *name);
/** Whether the layer that is being applied is frozen; false in a function. */
bool gy_train_builder_is_frozen(const gy_model_builder *builder);
/** A parameter or a running statistic: the slot of that name, made when it is first named. */
gy_node gy_train_builder_slot(gy_model_builder *builder, const char *name, const int64_t *sizes,
                              int rank, gy_init init, gy_train_slot_kind kind);
/** "conv2d 32 5 1 2; relu; …", and back. GY_FORMAT names the word. */
void gy_train_layers_text(const gy_layer *layers, int count, gy_text *text);
gy_status gy_train_layers_parse(const char *text, gy_layer **layers, int *count);

/** What a function's model is, as text: its configuration, then parameters and sizes. */
void gy_model_describe(const gy_model *model, gy_text *text);

/** A new slot of the model. */
gy_node gy_model_slot(gy_model *model, const char *name, const int64_t *sizes, int rank,
                      gy_init init, gy_train_slot_kind kind);
/** The same of state with a row for each row of the batch, sizes[0] of them. */
gy_node gy_model_rows_slot(gy_model *model, const char *name, const int64_t *sizes, int rank);
/** The nodes of `options->optimizer`; fills model->update. */
gy_status gy_update_build(gy_model *model, const gy_train_options *options);

/** The rate of step `step` of `steps`, `steps_per_epoch` each; at and behind `steps` what the
 * schedule ends at. Pure. */
double gy_train_schedule_rate(const gy_train_options *options, int64_t step, int64_t steps,
                              int64_t steps_per_epoch);
/** The same for a model that hands state on: (count / streams) batches of as many rows, in
 * which each row goes on where it ended. Pure. */
void gy_train_streams_fill(int64_t streams, int64_t *order, int64_t count);
/** The training begins an epoch: what batches hand on is zero. GY_NOMEM */
GY_MUST_CHECK gy_status gy_train_carried_reset(gy_model *model);
/** What batches hand on was read for all rows: where others' would be added to this rank's,
 * they are zero again. */
GY_MUST_CHECK gy_status gy_train_carried_disown(gy_model *model);
/** (carried_count) tensors of zeros for `rows` rows of this rank; drop them. On failure some
 * may be there. GY_NOMEM */
GY_MUST_CHECK gy_status gy_train_carried_new(const gy_model *model, int64_t rows,
                                             gy_tensor **states);
/** What one run of the evaluation form is fed. */
typedef struct gy_train_fed {
    gy_tensor *x, *labels; /* labels NULL: none are wanted */
    gy_tensor **states;    /* (carried_count) take what the batch hands on */
    int64_t rows;          /* over all ranks; 0: those of x */
} gy_train_fed;
/** Run the evaluation form; results (fetch_count) are the caller's. As gy_session_run */
GY_MUST_CHECK gy_status gy_train_carried_run(gy_model *model, const gy_train_fed *fed,
                                             const gy_node *fetches, int fetch_count,
                                             gy_tensor **results);
/** The order of `count` samples in `epoch`: a pure function of (seed, epoch). */
void gy_train_order_fill(uint64_t seed, int epoch, int64_t *order, int64_t count);

/** Where a training stands, as a checkpoint keeps it. */
typedef struct gy_train_state {
    int64_t step;     /* updates made */
    double best_loss; /* of the tests so far */
    int epochs_worse; /* since then */
    uint64_t updates; /* that parameter servers had made; 0: there are none */
    double *losses;   /* one per update; grows */
    size_t loss_capacity;
} gy_train_state;

/** Do all ranks train with the same options on as many samples? GY_MISMATCH on all of them
 * names the first rank that does not, and what it has instead of rank 0's. */
gy_status gy_train_check_alike(const gy_model *model, const gy_train_options *options,
                               gy_dataset *train, const gy_dataset *test);
/** Make the folder, see that it can be written and, unless resuming, that it is unused. */
gy_status gy_train_checkpoint_check_folder(const gy_train_options *options);
/** The same, of all ranks; and what a killed run left there is removed. */
gy_status gy_train_checkpoint_prepare(gy_model *model, const gy_train_options *options);
/** Each rank writes what it has; all learn how it went. */
gy_status gy_train_checkpoint_write(gy_model *model, const gy_train_options *options,
                                    gy_dataset *train, const gy_train_state *state);
/** The one of a step, of this worker alone. GY_IO there is none; as gy_train_checkpoint_read.
 */
gy_status gy_train_checkpoint_read_step(gy_model *model, const gy_train_options *options,
                                        gy_dataset *train, int64_t step, gy_train_state *state);
/** The newest whole one of the folder; `is_found` false when there is none at all. */
gy_status gy_train_checkpoint_read(gy_model *model, const gy_train_options *options,
                                   gy_dataset *train, gy_train_state *state, bool *is_found);

/**
 * gy_model_new; with a bundle also GY_FORMAT when its tensors are not just the parameters,
 * before anything large is allocated. Borrows it.
 */
gy_status gy_model_make(const gy_model_options *options, const gy_bundle *bundle,
                        gy_model **model);
/** Is there a tensor for a slot of the model in the bundle? GY_FORMAT: none, or one of another
 * type or size. */
gy_status gy_train_slot_check(const gy_model *model, const gy_train_slot *slot,
                              const gy_bundle *bundle);

/** A worker of parameter servers: a table of each parameter that trains, and what is under way.
 */
typedef struct gy_train_worker gy_train_worker;
/** GY_ARG an option that servers exclude, or one of theirs that is out of range. */
GY_MUST_CHECK gy_status gy_train_servers_check(const gy_model *model,
                                               const gy_train_options *options);
/** Reach the servers, and open the tables. The model was built with the options. */
GY_MUST_CHECK gy_status gy_train_worker_open(gy_model *model, const gy_train_options *options,
                                             gy_train_worker **worker);
/** What workers tell each other where they meet. */
typedef struct gy_train_meeting {
    int64_t step; /* that all begin at */
    bool is_over; /* worker 0 has stopped the training early */
} gy_train_meeting;
/**
 * Wait for all workers. Worker 0 says where the training begins, and gives the servers its
 * parameters and their state, as a checkpoint has it with `updates`; the others hear of it.
 * GY_EXISTS it is resumed at servers that have one; GY_PEER worker 0 has left
 */
GY_MUST_CHECK gy_status gy_train_worker_meet(gy_train_worker *worker, uint64_t updates,
                                             gy_train_meeting *meeting);
/** Wait for all workers that are there; those behind worker 0 hear whether it has stopped. All
 * of them call it, at the same steps. */
GY_MUST_CHECK gy_status gy_train_worker_agree(gy_train_worker *worker, bool *is_over);
/** Take the parameters of the servers. */
GY_MUST_CHECK gy_status gy_train_worker_pull(gy_train_worker *worker);
/** Worker 0, for a checkpoint: take what the servers keep beside parameters, and the number of
 * their updates. */
GY_MUST_CHECK gy_status gy_train_worker_take_state(gy_train_worker *worker, uint64_t *updates);
/** Has each worker state of its own, which its checkpoints keep? */
bool gy_train_worker_has_own(const gy_train_options *options);
/** Leave: nobody waits for this worker. NULL is fine. */
void gy_train_worker_close(gy_train_worker *worker);
/** Before the run whose gradients are pushed: they go as soon as they are there. `rate`: of the
 * update. */
void gy_train_worker_begin(gy_train_worker *worker, double rate);
/** After it: wait until the gradients are taken, end the clock, pull. `ran` is what the run
 * returned; GY_AGAIN: there was none, for want of rows. Returns its failure, or its own. */
GY_MUST_CHECK gy_status gy_train_worker_end(gy_train_worker *worker, gy_status ran);
/** Wait for the last clock of all workers, and take the parameters. */
GY_MUST_CHECK gy_status gy_train_worker_finish(gy_train_worker *worker);
/** Nanoseconds of waits so far. */
int64_t gy_train_worker_waited_ns(const gy_train_worker *worker);

enum { GY_TRAIN_ZERO_MAX = 3, GY_TRAIN_MICROS_MAX = 65536 };
#define GY_TRAIN_SUM      "sum"      /* a parameter's state: the sum of its gradients */
#define GY_TRAIN_RESIDUAL "residual" /* what codecs have lost of them */
#define GY_TRAIN_SERVED   "served"   /* and a number: what servers keep, for checkpoints */
enum { GY_TRAIN_SERVED_MAX = 2, GY_TRAIN_SERVED_BYTES = 16 };
/** How many pieces of state servers keep of a parameter. */
int gy_train_served_count(gy_optimizer_kind optimizer);
/** "served1" */
void gy_train_served_name(int piece, char name[GY_TRAIN_SERVED_BYTES]);
/** Pin the slots of a built update as the options' pins and stage of ZeRO keep them. GY_ARG
 * names a pin that fits no parameter. */
gy_status gy_train_pin_slots(gy_model *model, const gy_train_options *options);
/** Cut a built update into the stages of the mesh, as the options say. GY_ARG another number of
 * names than the mesh has stages but one; as gy_graph_cut. */
gy_status gy_train_cut(gy_model *model, const gy_train_options *options);
/** Behind gy_train_pin_slots, once there is a session: where the update has the slots that are
 * not pinned along axes of other kinds than data. Collective; GY_NOMEM. */
gy_status gy_train_decide_slots(gy_model *model, const gy_train_options *options);

enum { GY_TRAIN_FIT_BYTES = 160 };
/** Samples of the data sets, which tell the sizes of batches; 0: not known, or no test. */
typedef struct gy_train_counts {
    int64_t train, test;
} gy_train_counts;
/** Rows of a batch that is tested in the training. */
int64_t gy_train_test_batch(const gy_model *model, const gy_train_options *options);
struct gy_footprint; /* graph/graph.h */
/** What the rank with the largest parts will hold of a training for which the model is built.
 */
GY_MUST_CHECK gy_status gy_train_predict(const gy_model *model, const gy_train_options *options,
                                         const gy_train_counts *counts,
                                         struct gy_footprint *footprint);
/** The same of one rank of a mesh, whose sizes, coordinates and stage alone are read. */
GY_MUST_CHECK gy_status gy_train_predict_on(const gy_model *model,
                                            const gy_train_options *options,
                                            const gy_train_counts *counts,
                                            const struct gy_mesh *mesh,
                                            struct gy_footprint *footprint);
/** A line for each slot that the stage would cut and that has too few elements for it. */
void gy_train_explain_whole(const gy_model *model, const gy_train_options *options,
                            gy_text *text);
/** Lines about it, for --explain; `held`: the same without recomputation, or NULL. */
void gy_train_explain_memory(const struct gy_footprint *footprint,
                             const struct gy_footprint *held, gy_text *text);
/** With GY_RECOMPUTE_AUTO: the fewest chunks that are made again so that a rank fits into
 * options->memory_bytes, all of them where none do. Alike on all ranks. */
GY_MUST_CHECK gy_status gy_train_fit_chunks(gy_model *model, const gy_train_options *options,
                                            const gy_train_counts *counts);
/** GY_LIMIT it is more than options->memory_bytes: names both figures, and the stage or the
 * number of ranks that fits. All ranks call it and end alike. */
GY_MUST_CHECK gy_status gy_train_check_memory(gy_model *model, const gy_train_options *options,
                                              const gy_train_counts *counts);

/** Holds the sum of gradients of a batch in parts: zeros between updates. */
bool gy_train_is_gradient_sum(const gy_train_slot *slot);
/**
 * Add every slot of the model to a bundle, without elements: gy_session_save writes what each
 * rank has of them.
 * @param has_state  with what the optimizer keeps
 */
GY_MUST_CHECK gy_status gy_train_slots_outline(const gy_model *model, bool has_state,
                                               gy_bundle *bundle);

/** The session's tensor of that name, borrowed; it is made when it is first asked for. GY_NOMEM
 */
gy_status gy_train_slot_tensor(gy_model *model, const char *name, gy_tensor **tensor);

/** Tensors for one rank's rows of a batch, filled from a data set. */
typedef struct gy_batch {
    gy_tensor *x, *labels;     /* room for `rows` */
    int64_t rows, label_count; /* of a row */
    int classes;               /* labels are below */
} gy_batch;
gy_status gy_batch_new(const gy_model *model, int64_t rows, gy_batch *batch);
void gy_batch_free(gy_batch *batch);
/** Samples indices[0 .. count) as two tensors of `count` rows, held for the caller. GY_ARG
 * names a sample whose label is no class of the model. */
gy_status gy_batch_fill(gy_batch *batch, gy_dataset *dataset, const int64_t *indices,
                        int64_t count, gy_tensor **x, gy_tensor **labels);

/** Rows of the largest micro-batch of a batch; the batch where it is not split. */
static inline int64_t gy_train_micro_rows(const gy_train_options *options, int64_t batch)
{
    const int64_t parts = GY_MAX(options->micro_batches, 1);
    return (batch + parts - 1) / parts;
}

/** The micro-batches of a training, made once: their memory, and what they feed. */
typedef struct gy_train_micros gy_train_micros;
/** Of batches of up to `rows`; the model is built with the options. As gy_pipe_plan; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_train_micros_new(gy_model *model, const gy_train_options *options,
                                            int64_t rows, gy_train_micros **micros);
/** GY_ARG a schedule or chunks without micro-batches or without an axis pipe, or both a
 * schedule and lists; lists of another number of ranks or micro-batches. */
GY_MUST_CHECK gy_status gy_train_micros_check(const gy_model *model,
                                              const gy_train_options *options);
/** What stood on the clocks when a training began. */
typedef struct gy_train_clock {
    gy_session_stats session;
    int64_t begun_ns, input_ns; /* input: of tests */
    /* Of tests and checkpoints so far, which are no part of what updates took. */
    gy_session_stats aside;
    int64_t aside_ns, aside_input_ns;
} gy_train_clock;
void gy_train_account_begin(const gy_model *model, gy_train_clock *clock);
/** What was since `from`, a clock that gy_train_account_begin set, is no update's. */
void gy_train_account_leave_out(const gy_model *model, const gy_train_clock *from,
                                gy_train_clock *clock);
/** The times of the result so far, but input and waiting that the session does not see. */
void gy_train_account_take(const gy_model *model, const gy_train_clock *clock,
                           gy_train_result *result);
/** For `gyre doctor`: what this rank's time went to in `steps` steps, as the result says. */
void gy_train_account_record(const gy_model *model, const gy_train_result *result,
                             int64_t steps);
/** On a mesh with stages: where the time of each rank went. Collective. GY_NOMEM */
GY_MUST_CHECK gy_status gy_train_account_all(const gy_model *model, gy_train_result *result);
/** Stages of a rank; 0: there is one, or no axis pipe. */
int gy_train_chunks(const gy_model *model, const gy_train_options *options);
/** By which lists its stages work; NULL: one micro-batch after the other, or no stages.
 * `planned` is what of it is the caller's to gy_pipe_free. As gy_pipe_plan */
GY_MUST_CHECK gy_status gy_train_plan_pipe(const gy_model *model,
                                           const gy_train_options *options,
                                           gy_pipe_schedule **planned,
                                           const gy_pipe_schedule **schedule);
/** NULL is fine. */
void gy_train_micros_free(gy_train_micros *micros);
/** This rank's rows of a batch of samples indices[0 .. rows), which is one of those of an
 * update of `update_rows`. As gy_batch_fill. */
GY_MUST_CHECK gy_status gy_train_micros_fill(gy_train_micros *micros, gy_dataset *dataset,
                                             const int64_t *indices, int64_t rows,
                                             int64_t update_rows);
/** Add up what the filled batch has; `loss` gets its share of the update's. As
 * gy_session_run_micros. */
GY_MUST_CHECK gy_status gy_train_micros_run(gy_train_micros *micros, double *loss);

/** The ranks that share out the rows of a batch. */
static inline int gy_model_row_ranks(const gy_model *model)
{
    return model->mesh != NULL   ? gy_mesh_size(model->mesh, gy_mesh_find(model->mesh, "data"))
           : model->comm != NULL ? gy_comm_size(model->comm)
                                 : 1;
}

/** This rank's part of `batch` rows. */
static inline void gy_model_part(const gy_model *model, int64_t batch, int64_t *begin,
                                 int64_t *end)
{
    const int ranks = gy_model_row_ranks(model);
    int rank = model->comm == NULL ? 0 : gy_comm_rank(model->comm);
    if (model->mesh != NULL) {
        rank = gy_mesh_rank(model->mesh, gy_mesh_find(model->mesh, "data"));
    }
    *begin = gy_part_begin(batch, rank, ranks);
    *end = gy_part_begin(batch, rank + 1, ranks);
}

#endif
