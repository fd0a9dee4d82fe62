/**
 * The training loop: every rank runs it, each on its rows of the same batches.
 *
 *   order of the epoch by (seed, epoch) -> batch -> this rank's rows -> run(loss, assignments)
 *
 * @source lecture A, "Synchronous Data Parallelism w/ BSP"
 */
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <math.h>
#include <string.h>

/* Names of checkpoints have twelve digits. */
static const int64_t steps_limit = 999999999999;

/* How many labels at least a batch of the test has, if the training's has fewer. */
static const int64_t test_labels = 256;

/* All that one call of gy_train holds. */
typedef struct loop {
    gy_model *model;
    gy_dataset *train, *test;
    gy_train_options options;
    gy_train_state state;
    gy_batch batch;
    gy_train_micros *micros; /* NULL: batches are not split */
    gy_train_worker *worker; /* of parameter servers; NULL: ranks exchange themselves */
    gy_train_servers servers;
    bool has_checkpoints;  /* of this worker, or others */
    char *own_folder;      /* of a worker's checkpoints but worker 0's */
    gy_tensor *scalars[4]; /* rate, correction, plain rate, share */
    gy_tensor **results;
    int64_t *order;
    int64_t saved_step; /* of the newest checkpoint of this run; 0: none */
    int order_epoch;    /* the epoch `order` is of; -1: none */
    int64_t batches_per_epoch, steps_per_epoch, steps;
    int64_t input_ns, samples; /* of this call */
    gy_train_clock clock;
    gy_train_result result;
    bool is_done;
} loop;

static gy_status out_of(const char *name, double value, const char *range)
{
    return gy_fail(GY_ARG, "training: %s is %g, expected %s", name, value, range);
}

/* Element type of the samples, sizes of their labels. */
static gy_status check_kinds(const gy_model *model, const gy_dataset *set, const char *what)
{
    const gy_dtype dtype = set->input_dtype != GY_DTYPE_NONE ? set->input_dtype : model->dtype;
    if (dtype != model->input_dtype) {
        return gy_fail(GY_TYPE, "training: the %s set has samples of %s, model %s takes %s",
                       what, gy_dtype_name(dtype), model->name,
                       gy_dtype_name(model->input_dtype));
    }
    if (set->label_rank != model->label_rank ||
        memcmp(set->label_sizes, model->label_sizes,
               (size_t)model->label_rank * sizeof(int64_t)) != 0) {
        char has[GY_SHAPE_TEXT_BYTES], takes[GY_SHAPE_TEXT_BYTES];
        return gy_fail(GY_SHAPE, "training: the %s set has labels %s a sample, model %s %s",
                       what, gy_shape_text(set->label_sizes, set->label_rank, has), model->name,
                       gy_shape_text(model->label_sizes, model->label_rank, takes));
    }
    return GY_OK;
}

gy_status gy_train_dataset_check(const gy_model *model, const gy_dataset *set, const char *what)
{
    bool fits = set->input_rank == model->input_rank &&
                memcmp(set->input_sizes, model->input_sizes,
                       (size_t)model->input_rank * sizeof(int64_t)) == 0;
    if (!fits || set->count < 1) {
        char has[GY_SHAPE_TEXT_BYTES], takes[GY_SHAPE_TEXT_BYTES];
        return gy_fail(
            GY_SHAPE, "training: the %s set of %lld has samples %s, model %s takes %s", what,
            (long long)set->count, gy_shape_text(set->input_sizes, set->input_rank, has),
            model->name, gy_shape_text(model->input_sizes, model->input_rank, takes));
    }
    if (set->classes > model->classes) {
        return gy_fail(GY_ARG, "training: the %s set has %d classes, model %s %d", what,
                       set->classes, model->name, model->classes);
    }
    return check_kinds(model, set, what);
}

gy_status gy_train_check(const gy_model *model, const gy_dataset *train, const gy_dataset *test,
                         const gy_train_options *o)
{
    const struct {
        const char *name;
        double value, low, high;
        const char *range;
    } fields[] = {
        {"epochs", o->steps > 0 ? 1 : o->epochs, 1, 1e9, "at least 1"},
        {"steps", (double)o->steps, 0, (double)steps_limit, "0 to 999999999999"},
        {"batch", (double)o->batch, 1, 1e12, "at least 1"},
        {"accumulate", o->accumulate, 1, 1e6, "1 to 1000000"},
        {"micro-batches", o->micro_batches, 0, GY_TRAIN_MICROS_MAX, "0 to 65536"},
        {"zero", o->zero, 0, GY_TRAIN_ZERO_MAX, "0 to 3"},
        {"optimizer", (double)o->optimizer, GY_OPTIMIZER_SGD, GY_OPTIMIZER_ADAMW,
         "a gy_optimizer_kind"},
        {"schedule", (double)o->schedule, GY_SCHEDULE_CONSTANT, GY_SCHEDULE_LINEAR,
         "a gy_schedule_kind"},
        {"rate", o->rate, 1e-300, 1e300, "above 0"},
        {"momentum", o->momentum, 0, 1, "0 to 1"},
        {"beta1", o->beta1, 0, 0.9999999, "0 to below 1"},
        {"beta2", o->beta2, 0, 0.9999999, "0 to below 1"},
        {"epsilon", o->epsilon, 0, 1, "0 to 1"},
        {"weight decay", o->weight_decay, 0, 1e6, "at least 0"},
        {"least rank of weight decay", o->weight_decay_rank_min, 0, GY_TENSOR_RANK_MAX,
         "0 to 8"},
        {"schedule factor", o->schedule_factor, 0, 1e9, "at least 0"},
        {"schedule interval", o->schedule_every, 1, 1e9, "at least 1"},
        {"clip norm", o->clip_norm, 0, 1e300, "at least 0"},
        {"warmup steps", o->warmup_steps, 0, 1e9, "at least 0"},
        {"patience", o->patience, 0, 1e9, "at least 0"},
        {"checkpoint interval", (double)o->checkpoint_every, 0, 1e15, "at least 0"},
        {"step limit", (double)o->step_limit, 0, 1e15, "at least 0"},
        {"recompute", (double)o->recompute, GY_RECOMPUTE_NONE, GY_RECOMPUTE_AUTO,
         "a gy_recompute"},
    };
    for (size_t i = 0; i < GY_COUNT(fields); i++) {
        if (!(fields[i].value >= fields[i].low && fields[i].value <= fields[i].high)) {
            return out_of(fields[i].name, fields[i].value, fields[i].range);
        }
    }
    GY_TRY(gy_train_dataset_check(model, train, "training"));
    if (test != NULL) {
        GY_TRY(gy_train_dataset_check(model, test, "test"));
    }
    if (o->resume && o->checkpoint_folder == NULL) {
        return gy_fail(GY_ARG, "training: resume needs a checkpoint folder");
    }
    if (o->patience > 0 && test == NULL) {
        return gy_fail(GY_ARG, "training: early stop needs a test set");
    }
    if (o->recompute == GY_RECOMPUTE_AUTO && o->memory_bytes == 0) {
        return gy_fail(GY_ARG, "training: recompute auto needs memory_bytes");
    }
    GY_TRY(gy_train_precision_check(model, o));
    GY_TRY(gy_train_micros_check(model, o));
    return gy_train_servers_check(model, o);
}

/* This rank's, or this worker's, part of `rows`. */
static void part_of(const loop *l, int64_t rows, int64_t *first, int64_t *last)
{
    if (l->options.servers == NULL) {
        gy_model_part(l->model, rows, first, last);
        return;
    }
    const int worker = (int)l->servers.worker, workers = (int)l->servers.workers;
    *first = gy_part_begin(rows, worker, workers);
    *last = gy_part_begin(rows, worker + 1, workers);
}

/* Memory for the batches; the data are the same on all ranks, memory may not be. */
static gy_status make_room(loop *l)
{
    l->order = gy_alloc("train.order", (size_t)l->train->count * sizeof(*l->order));
    const gy_update *u = &l->model->update;
    l->results = gy_alloc_zero("train.results", (size_t)GY_MAX(u->fetch_count, u->gather_count),
                               sizeof(gy_tensor *));
    if (l->order == NULL || l->results == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < GY_COUNT(l->scalars); i++) {
        GY_TRY(gy_tensor_zeros(NULL, l->model->dtype, NULL, 0, &l->scalars[i]));
    }
    int64_t first = 0;
    int64_t last = 0;
    const int64_t rows = GY_MIN(l->options.batch, l->train->count);
    if (l->options.micro_batches > 0) {
        return gy_train_micros_new(l->model, &l->options, rows, &l->micros);
    }
    part_of(l, rows, &first, &last);
    /* A smaller batch may give this rank one row more than rounding gave it here. */
    return gy_batch_new(l->model, last - first + 1, &l->batch);
}

/* A micro-batch of one row is the smallest of a batch that has fewer than two for each. */
static gy_status check_micro_rows(const loop *l)
{
    const int64_t batch = GY_MIN(l->options.batch, l->train->count);
    const int64_t rest = l->train->count % batch;
    const int64_t least = rest > 0 ? rest : batch;
    GY_TRY(gy_train_tell(l->model->comm, gy_session_check_micros(l->model->session,
                                                                 l->model->train_loss, batch)));
    if (l->model->pair_layer[0] == '\0' || least >= 2 * (int64_t)l->options.micro_batches) {
        return GY_OK;
    }
    return gy_fail(
        GY_ARG,
        "training: a batch of %lld rows in %d micro-batches leaves one of 1 row, and "
        "%s normalises by at least 2: choose fewer micro-batches, or another batch",
        (long long)least, l->options.micro_batches, l->model->pair_layer);
}

/* Variances are of two values at least: said before the first step, not at the end of an
 * epoch. */
static gy_status check_rows(const loop *l)
{
    const int64_t count = l->train->count, batch = l->options.batch;
    if (l->options.micro_batches > 0) {
        return check_micro_rows(l);
    }
    if (l->model->pair_layer[0] == '\0' || (batch > 1 && count % batch != 1)) {
        return GY_OK;
    }
    return gy_fail(GY_ARG,
                   "training: %lld samples in batches of %lld leave one of 1 row, and "
                   "%s normalises by a batch of at least 2: choose another batch",
                   (long long)count, (long long)batch, l->model->pair_layer);
}

/* A model that hands state on reads a stream in each row of its batches. */
static gy_status check_streams(const loop *l)
{
    if (l->model->carried_count == 0) {
        return GY_OK;
    }
    if (l->options.servers != NULL) {
        return gy_fail(GY_ARG,
                       "training: model %s hands state on from batch to batch, which workers "
                       "of parameter servers do not: expected ranks that exchange gradients",
                       l->model->name);
    }
    return l->train->count >= l->options.batch
               ? GY_OK
               : gy_fail(GY_ARG,
                         "training: %lld samples are no %lld streams, one for each row of a "
                         "batch: expected a smaller batch or more data",
                         (long long)l->train->count, (long long)l->options.batch);
}

/* Rank 0 warns for all; worker 0 tests. */
static bool is_first(const loop *l)
{
    if (l->options.servers != NULL) {
        return l->servers.worker == 0;
    }
    return l->model->comm == NULL || gy_comm_rank(l->model->comm) == 0;
}

/* Worker 0 says where it begins, and the others take what is their own from a checkpoint of
 * that step. */
static gy_status meet_workers(loop *l)
{
    gy_train_meeting meeting = {.step = l->state.step, .is_over = l->is_done};
    GY_TRY(gy_train_worker_meet(l->worker, l->state.updates, &meeting));
    l->is_done = meeting.is_over;
    if (l->state.step != meeting.step && l->options.checkpoint_folder != NULL) {
        gy_status status = gy_train_checkpoint_read_step(l->model, &l->options, l->train,
                                                         meeting.step, &l->state);
        if (status < 0) {
            gy_warn("worker %u begins without what it had of its own: %s", l->servers.worker,
                    gy_error_text());
        }
    }
    if (l->state.step != meeting.step) { /* it does not know what its losses were */
        GY_TRY(GY_GROW("train.losses", l->state.losses, l->state.loss_capacity,
                       (size_t)meeting.step));
        for (int64_t i = 0; i < meeting.step; i++) {
            l->state.losses[i] = NAN;
        }
        l->state.step = meeting.step;
    }
    l->saved_step = l->result.resumed_step = l->state.step;
    return gy_train_worker_pull(l->worker);
}

static gy_status resume(loop *l)
{
    bool is_found = false;
    GY_TRY(gy_train_checkpoint_read(l->model, &l->options, l->train, &l->state, &is_found));
    GY_TRY(gy_train_tell(l->model->comm, gy_train_carried_disown(l->model)));
    l->saved_step = l->result.resumed_step = l->state.step;
    if (!is_found && is_first(l)) {
        gy_warn("%s: no checkpoint to resume: training starts from the beginning",
                l->options.checkpoint_folder);
    }
    return GY_OK;
}

static gy_status begin(loop *l)
{
    int64_t count = l->train->count;
    GY_TRY(gy_train_check_alike(l->model, &l->options, l->train, l->test));
    GY_TRY(check_streams(l));
    if (l->model->carried_count > 0) { /* streams of the same length */
        count -= count % l->options.batch;
    }
    l->batches_per_epoch = (count + l->options.batch - 1) / l->options.batch;
    l->steps_per_epoch =
        (l->batches_per_epoch + l->options.accumulate - 1) / l->options.accumulate;
    if (l->options.steps == 0 && l->steps_per_epoch > steps_limit / l->options.epochs) {
        return gy_fail(GY_ARG, "training: %d epochs of %lld steps, expected up to %lld steps",
                       l->options.epochs, (long long)l->steps_per_epoch,
                       (long long)steps_limit);
    }
    l->steps = l->options.steps > 0 ? l->options.steps : l->steps_per_epoch * l->options.epochs;
    l->order_epoch = -1;
    l->state.best_loss = INFINITY;
    if (l->options.checkpoint_folder != NULL) {
        GY_TRY(gy_train_checkpoint_prepare(l->model, &l->options));
    }
    GY_TRY(gy_train_tell(l->model->comm, gy_model_build(l->model, &l->options)));
    GY_TRY(check_rows(l));
    const gy_train_counts counts = {count, l->test != NULL ? l->test->count : 0};
    GY_TRY(gy_train_check_memory(l->model, &l->options, &counts));
    GY_TRY(gy_train_tell(l->model->comm, make_room(l)));
    if (l->options.servers != NULL) {
        GY_TRY(gy_train_worker_open(l->model, &l->options, &l->worker));
    }
    if (l->options.resume && (l->worker == NULL || is_first(l))) {
        GY_TRY(resume(l));
    }
    GY_TRY(gy_train_scale_check(l->model, &l->options, &l->result));
    l->is_done = l->options.patience > 0 && l->state.epochs_worse >= l->options.patience;
    if (l->worker != NULL) {
        GY_TRY(meet_workers(l));
    }
    if (l->options.warmup_steps > l->steps && is_first(l)) {
        gy_warn("training: a warm-up of %d steps in a training of %lld: the full rate is not "
                "reached",
                l->options.warmup_steps, (long long)l->steps);
    }
    return GY_OK;
}

/* The scalars of update `step`. */
static void set_scalars(loop *l, int64_t step)
{
    const gy_train_options *o = &l->options;
    double rate = gy_train_schedule_rate(o, step, l->steps, l->steps_per_epoch);
    double updates = (double)(step + 1);
    gy_tensor_set(l->scalars[2], 0, rate);
    if (o->optimizer == GY_OPTIMIZER_ADAM || o->optimizer == GY_OPTIMIZER_ADAMW) {
        gy_tensor_set(l->scalars[1], 0, 1 / sqrt(1 - pow(o->beta2, updates)));
        rate /= 1 - pow(o->beta1, updates);
    }
    gy_tensor_set(l->scalars[0], 0, rate);
}

/* Feeds of the scalars that the run has inputs for. */
static int scalar_feeds(const loop *l, bool is_update, gy_feed *feeds)
{
    const gy_update *u = &l->model->update;
    int count = 0;
    if ((l->options.accumulate > 1 && l->micros == NULL) || l->worker != NULL) {
        feeds[count++] = (gy_feed){u->share, l->scalars[3]};
    }
    /* What updates: the last batch of several; a worker's own parameters, all but that one. */
    if (l->worker != NULL ? is_update : !is_update) {
        return count;
    }
    feeds[count++] = (gy_feed){u->rate, l->scalars[0]};
    if (u->correction.index != u->rate.index) {
        feeds[count++] = (gy_feed){u->correction, l->scalars[1]};
    }
    if (u->plain_rate.index != u->rate.index) {
        feeds[count++] = (gy_feed){u->plain_rate, l->scalars[2]};
    }
    return count;
}

/* Rows of batch `index` of an epoch; the last one has what is left. */
static int64_t rows_of(const loop *l, int64_t index)
{
    return GY_MIN(l->options.batch, l->train->count - index * l->options.batch);
}

static void find_order(loop *l, int epoch)
{
    if (l->order_epoch != epoch) {
        if (l->model->carried_count > 0) {
            gy_train_streams_fill(l->options.batch, l->order, l->train->count);
        } else {
            gy_train_order_fill(l->options.seed, epoch, l->order, l->train->count);
        }
        l->order_epoch = epoch;
    }
}

/* This rank's rows of the batch. */
static gy_status fill(loop *l, int epoch, int64_t index, gy_tensor **x, gy_tensor **labels)
{
    int64_t begun = gy_now_ns(gy_env_real());
    find_order(l, epoch);
    int64_t first = 0;
    int64_t last = 0;
    part_of(l, rows_of(l, index), &first, &last);
    const int64_t *indices = l->order + index * l->options.batch + first;
    gy_status status = gy_batch_fill(&l->batch, l->train, indices, last - first, x, labels);
    l->input_ns += gy_now_ns(gy_env_real()) - begun;
    return gy_train_tell(l->model->comm, status);
}

/* Its loss is known: of all rows, or of a worker's own. */
static gy_status end_step(loop *l, double total)
{
    /* The loss is a sum over all ranks: each sees the same one, and all stop together. */
    if (!isfinite(total)) {
        return gy_fail(GY_NUMERIC,
                       "the loss is %s at step %lld of %lld (epoch %d, rate %g): try a lower "
                       "rate or a clipped gradient, or look for such values in the data",
                       isnan(total) ? "not a number" : "infinite", (long long)l->state.step + 1,
                       (long long)l->steps, (int)(l->state.step / l->steps_per_epoch) + 1,
                       gy_tensor_get(l->scalars[2], 0));
    }
    GY_TRY(gy_train_tell(l->model->comm,
                         GY_GROW("train.losses", l->state.losses, l->state.loss_capacity,
                                 (size_t)l->state.step + 1)));
    l->state.losses[l->state.step++] = total;
    l->result.loss = total;
    return gy_train_scale_check(l->model, &l->options, &l->result);
}

/* The number of a batch's random draws: workers draw apart from each other. */
static uint64_t draw_of(const loop *l, int64_t batch)
{
    return l->worker == NULL ? (uint64_t)batch
                             : (uint64_t)batch * l->servers.workers + l->servers.worker;
}

/* One batch of the epoch; the last of an update also updates. */
static gy_status run_batch(loop *l, int epoch, int64_t index, bool is_update, double *loss)
{
    gy_tensor *x = NULL;
    gy_tensor *labels = NULL;
    if (index == 0) {
        GY_TRY(gy_train_tell(l->model->comm, gy_train_carried_reset(l->model)));
    }
    GY_TRY(fill(l, epoch, index, &x, &labels));
    gy_feed feeds[6] = {{l->model->x, x}, {l->model->labels, labels}};
    const gy_update *u = &l->model->update;
    int feed_count = 2 + scalar_feeds(l, is_update, feeds + 2);
    int64_t rows = rows_of(l, index);
    const int64_t own_rows = gy_tensor_size(x, 0);
    /* Every random draw is of its batch, so that a resumed run draws the same. */
    gy_session_set_step(l->model->session, draw_of(l, epoch * l->batches_per_epoch + index));
    if (l->worker != NULL && is_update) {
        gy_train_worker_begin(l->worker, gy_train_schedule_rate(&l->options, l->state.step,
                                                                l->steps, l->steps_per_epoch));
    }
    gy_status status = GY_AGAIN; /* a worker without rows has nothing to run */
    if (l->worker == NULL || own_rows > 0) {
        status = gy_session_run(l->model->session, feeds, feed_count,
                                l->worker == NULL ? rows : own_rows,
                                is_update ? u->fetches : u->gather_fetches,
                                is_update ? u->fetch_count : u->gather_count, l->results);
    }
    if (status == GY_OK) {
        *loss = gy_tensor_get(l->results[0], 0);
        gy_tensor_drop(l->results[0]);
        l->samples += rows;
    }
    gy_tensor_drop(x);
    gy_tensor_drop(labels);
    if (l->worker != NULL && is_update) {
        status = gy_train_worker_end(l->worker, status);
    }
    return gy_train_tell(l->model->comm, status == GY_AGAIN ? GY_OK : status);
}

/* One batch of a worker, the loss being that of its own rows. The last of `fetch` batches, of
 * an epoch and of the training ends with an exchange, as does that before a checkpoint. */
static gy_status run_worker_step(loop *l)
{
    const int64_t step = l->state.step, index = step % l->steps_per_epoch;
    const int64_t limit =
        l->options.step_limit > 0 ? GY_MIN(l->steps, l->options.step_limit) : l->steps;
    const int64_t every = l->has_checkpoints ? l->options.checkpoint_every : 0;
    const bool is_last = index + 1 == l->steps_per_epoch || step + 1 == limit ||
                         (every > 0 && (step + 1) % every == 0);
    const int64_t rows = rows_of(l, index);
    int64_t first = 0, last = 0;
    part_of(l, rows, &first, &last);
    set_scalars(l, step);
    gy_tensor_set(l->scalars[3], 0, (double)(last - first) / (double)rows);
    double loss = l->result.loss; /* without rows: the last */
    GY_TRY(run_batch(l, (int)(step / l->steps_per_epoch), index,
                     is_last || (index + 1) % l->servers.fetch == 0, &loss));
    return end_step(l, loss);
}

/* One batch of an update of `update_rows`, in micro-batches; `loss` gets its share. */
static gy_status run_micros(loop *l, int epoch, int64_t index, int64_t update_rows,
                            double *loss)
{
    const int64_t begun = gy_now_ns(gy_env_real());
    if (index == 0) {
        GY_TRY(gy_train_tell(l->model->comm, gy_train_carried_reset(l->model)));
    }
    find_order(l, epoch);
    const gy_status filled =
        gy_train_micros_fill(l->micros, l->train, l->order + index * l->options.batch,
                             rows_of(l, index), update_rows);
    l->input_ns += gy_now_ns(gy_env_real()) - begun;
    GY_TRY(gy_train_tell(l->model->comm, filled));
    gy_session_set_step(l->model->session, draw_of(l, epoch * l->batches_per_epoch + index));
    GY_TRY(gy_train_tell(l->model->comm, gy_train_micros_run(l->micros, loss)));
    l->samples += rows_of(l, index);
    return GY_OK;
}

/* What the sums of all micro-batches make of the parameters: a run without a batch. */
static gy_status run_update(loop *l)
{
    gy_feed feeds[4];
    const gy_update *u = &l->model->update;
    const int feed_count = scalar_feeds(l, true, feeds);
    return gy_train_tell(l->model->comm,
                         gy_session_run(l->model->session, feeds, feed_count, 1, u->fetches,
                                        u->fetch_count, l->results));
}

/* One update: `accumulate` batches, fewer at the end of an epoch. */
static gy_status run_step(loop *l)
{
    int epoch = (int)(l->state.step / l->steps_per_epoch);
    int64_t first = l->state.step % l->steps_per_epoch * l->options.accumulate;
    int64_t last = GY_MIN(first + l->options.accumulate, l->batches_per_epoch);
    int64_t rows = (last - 1 - first) * l->options.batch + rows_of(l, last - 1);
    double total = 0;
    set_scalars(l, l->state.step);
    for (int64_t b = first; b < last; b++) {
        double share = (double)rows_of(l, b) / (double)rows;
        double loss = 0;
        gy_tensor_set(l->scalars[3], 0, share);
        GY_TRY(l->micros != NULL ? run_micros(l, epoch, b, rows, &loss)
                                 : run_batch(l, epoch, b, b + 1 == last, &loss));
        total += l->micros != NULL ? loss : loss * share;
    }
    GY_TRY(l->micros != NULL ? run_update(l) : GY_OK);
    return end_step(l, total);
}

/* Add what the session has exchanged so far to the result, or take it away: between the two
 * lies what is counted, or is not. */
static void count_exchanges(loop *l, bool adds)
{
    gy_exchange_stats now[GY_EXCHANGE_KINDS_MAX];
    const int count = gy_session_exchanges(l->model->session, now);
    GY_ASSERT(l->result.exchange_count == 0 || l->result.exchange_count == count);
    for (int i = 0; i < count; i++) {
        gy_exchange_stats *sum = &l->result.exchanges[i];
        const int sign = adds ? 1 : -1;
        sum->axis = now[i].axis;
        sum->operation = now[i].operation;
        sum->count = adds ? sum->count + now[i].count : sum->count - now[i].count;
        sum->sent_bytes = adds ? sum->sent_bytes + now[i].sent_bytes
                               : sum->sent_bytes - now[i].sent_bytes; /* both modulo 2^64 */
        sum->hidden_s += sign * now[i].hidden_s;
        sum->exposed_s += sign * now[i].exposed_s;
    }
    l->result.exchange_count = count;
}

int64_t gy_train_test_batch(const gy_model *model, const gy_train_options *options)
{
    return GY_MAX(options->batch, test_labels / model->label_count);
}

/* Test at an epoch's end; decides about stopping early. */
static gy_status test_model(loop *l)
{
    const int64_t batch = gy_train_test_batch(l->model, &l->options);
    count_exchanges(l, true);
    GY_TRY(gy_model_evaluate(l->model, l->test, batch, &l->result.test_loss,
                             &l->result.test_accuracy, NULL));
    count_exchanges(l, false);
    if (l->result.test_loss < l->state.best_loss) {
        l->state.best_loss = l->result.test_loss;
        l->state.epochs_worse = 0;
    } else {
        l->state.epochs_worse++;
    }
    l->is_done = l->options.patience > 0 && l->state.epochs_worse >= l->options.patience;
    return GY_OK;
}

static gy_status report(loop *l, bool is_epoch_end)
{
    if (l->options.on_step == NULL) {
        return GY_OK;
    }
    const int64_t updates_ns = gy_now_ns(gy_env_real()) - l->clock.begun_ns - l->clock.aside_ns;
    const double seconds = (double)updates_ns / 1e9;
    gy_progress progress = {
        .epoch = (int)((l->state.step - 1) / l->steps_per_epoch),
        .step = l->state.step,
        .steps = l->steps,
        .loss = l->result.loss,
        .rate = gy_tensor_get(l->scalars[2], 0),
        .samples_per_s = (double)l->samples / seconds,
        .is_epoch_end = is_epoch_end,
        .test_loss = l->result.test_loss,
        .test_accuracy = l->result.test_accuracy,
    };
    return gy_train_tell(l->model->comm, l->options.on_step(l->options.arg, &progress));
}

static bool is_finite(gy_tensor *tensor)
{
    const gy_view view = gy_tensor_pin(tensor);
    const int64_t count = gy_view_count(&view);
    bool is_good = true;
    for (int64_t i = 0; is_good && i < count; i++) {
        is_good = view.dtype == GY_F32 ? isfinite(((const float *)view.data)[i])
                                       : isfinite(((const double *)view.data)[i]);
    }
    gy_tensor_unpin(tensor);
    return is_good;
}

/* What is kept of a training, in a file or in the model, is of use: a finite loss may have a
 * gradient that is not, and then the next step only would tell. */
static gy_status check_own_parameters(const loop *l)
{
    for (size_t i = 0; i < l->model->slot_count; i++) {
        const gy_train_slot *slot = &l->model->slots[i];
        gy_tensor *value = NULL;
        if (slot->kind == GY_SLOT_STATE ||
            gy_session_is_elsewhere(l->model->session, slot->name)) {
            continue;
        }
        GY_TRY(gy_train_slot_tensor(l->model, slot->name, &value));
        if (!is_finite(value)) {
            return gy_fail(GY_NUMERIC,
                           "%s is not finite after step %lld of %lld (rate %g): try a lower "
                           "rate or a clipped gradient, or look for such values in the data",
                           slot->name, (long long)l->state.step, (long long)l->steps,
                           gy_tensor_get(l->scalars[2], 0));
        }
    }
    return GY_OK;
}

/* Ranks see the same, unless each has its parts. */
static gy_status check_parameters(const loop *l)
{
    gy_status status = check_own_parameters(l);
    return l->model->is_sharded ? gy_session_agree(l->model->comm, status) : status;
}

/* Worker 0 writes what the servers have, behind the others, if these have state of their own:
 * where there is a checkpoint of worker 0, there are theirs. */
static gy_status save_worker(loop *l)
{
    bool is_over = false;
    if (is_first(l)) {
        GY_TRY(gy_train_worker_take_state(l->worker, &l->state.updates));
    } else if (l->options.checkpoint_folder != NULL) {
        GY_TRY(gy_train_checkpoint_write(l->model, &l->options, l->train, &l->state));
    }
    if (gy_train_worker_has_own(&l->options)) {
        GY_TRY(gy_train_worker_agree(l->worker, &is_over));
    }
    return is_first(l) ? gy_train_checkpoint_write(l->model, &l->options, l->train, &l->state)
                       : GY_OK;
}

static gy_status save_state(loop *l)
{
    GY_TRY(check_parameters(l));
    GY_TRY(l->worker != NULL
               ? save_worker(l)
               : gy_train_checkpoint_write(l->model, &l->options, l->train, &l->state));
    l->saved_step = l->state.step;
    return GY_OK;
}

/* What follows an update: test, checkpoint, report. */
static gy_status after_step(loop *l)
{
    bool is_epoch_end = l->state.step % l->steps_per_epoch == 0 || l->state.step == l->steps;
    gy_train_clock from;
    gy_train_account_begin(l->model, &from);
    if (is_epoch_end && l->test != NULL && (l->worker == NULL || is_first(l))) {
        GY_TRY(test_model(l));
    }
    if (is_epoch_end && l->worker != NULL && l->options.patience > 0) {
        GY_TRY(gy_train_worker_agree(l->worker, &l->is_done));
    }
    int64_t every = l->options.checkpoint_every;
    bool is_due = every > 0 ? l->state.step % every == 0 : is_epoch_end;
    if (l->has_checkpoints && (is_due || is_epoch_end)) {
        GY_TRY(save_state(l));
    }
    gy_train_account_leave_out(l->model, &from, &l->clock);
    return report(l, is_epoch_end);
}

/* Where the time of this call went so far. */
static void take_account(loop *l)
{
    const int64_t waited_ns = l->worker != NULL ? gy_train_worker_waited_ns(l->worker) : 0;
    gy_train_account_take(l->model, &l->clock, &l->result);
    l->result.input_s += (double)l->input_ns / 1e9;
    l->result.exposed_communication_s += (double)waited_ns / 1e9;
}

static gy_status run(loop *l)
{
    GY_TRY(begin(l));
    count_exchanges(l, false);
    gy_train_account_begin(l->model, &l->clock);
    int64_t limit =
        l->options.step_limit > 0 ? GY_MIN(l->steps, l->options.step_limit) : l->steps;
    bool is_begun = false;
    while (l->state.step < limit && !l->is_done) {
        const int64_t step_ns = gy_now_ns(gy_env_real());
        GY_TRY(l->worker != NULL ? run_worker_step(l) : run_step(l));
        l->result.update_s += (double)(gy_now_ns(gy_env_real()) - step_ns) / 1e9;
        if (!is_begun) {
            gy_info("first step done, loss %g",
                    l->result.loss); /* what bench/startup.py awaits */
            is_begun = true;
        }
        take_account(l);
        gy_train_account_record(l->model, &l->result, l->state.step - l->result.resumed_step);
        GY_TRY(after_step(l));
    }
    if (l->has_checkpoints && l->saved_step != l->state.step) {
        gy_train_clock from;
        gy_train_account_begin(l->model, &from);
        GY_TRY(save_state(l)); /* stopped between two: go on from here */
        gy_train_account_leave_out(l->model, &from, &l->clock);
    }
    if (l->worker != NULL) {
        GY_TRY(gy_train_worker_finish(l->worker));
    }
    GY_TRY(check_parameters(l));
    count_exchanges(l, true);
    l->result.samples = l->samples;
    take_account(l);
    GY_TRY(gy_train_account_all(l->model, &l->result));
    l->result.steps = l->state.step;
    l->result.is_stopped_early = l->is_done && l->state.step < l->steps;
    if (l->result.steps > 0) {
        l->result.loss = l->state.losses[l->result.steps - 1];
    }
    return GY_OK;
}

/* The other workers keep what is their own in folders beside worker 0's checkpoints. */
static gy_status take_servers(loop *l, const gy_train_options *o)
{
    GY_TRY(gy_options_take(gy_train_servers, &l->servers, o->servers));
    l->servers.workers = GY_MAX(l->servers.workers, 1U);
    l->servers.fetch = GY_MAX(l->servers.fetch, 1);
    l->options.servers = &l->servers;
    if (l->servers.worker == 0 || !l->has_checkpoints) {
        return GY_OK;
    }
    GY_TRY(gy_train_checkpoint_check_folder(o)); /* what worker 0 ends with, ends all */
    l->options.checkpoint_folder = NULL;
    if (gy_train_worker_has_own(&l->options)) {
        gy_text path = {.data = NULL};
        gy_text_add(&path, "%s/worker%u", o->checkpoint_folder, l->servers.worker);
        GY_TRY(path.status);
        l->options.checkpoint_folder = l->own_folder = path.data;
    }
    return GY_OK;
}

gy_status gy_train(gy_model *model, gy_dataset *train, gy_dataset *test,
                   const gy_train_options *options, gy_train_result *result)
{
    gy_train_options filled;
    GY_TRY(gy_train_defaults(options, &filled));
    GY_TRY(gy_train_check(model, train, test, &filled));
    loop l = {.model = model, .train = train, .test = test, .options = filled};
    l.has_checkpoints = filled.checkpoint_folder != NULL;
    gy_status status = filled.servers != NULL ? take_servers(&l, &filled) : GY_OK;
    status = status == GY_OK ? gy_mesh_name_stages(model->mesh, run(&l)) : status;
    gy_error error;
    gy_error_take(&error, status);
    gy_train_worker_close(l.worker);
    for (size_t i = 0; i < GY_COUNT(l.scalars); i++) {
        gy_tensor_drop(l.scalars[i]);
    }
    gy_batch_free(&l.batch);
    gy_train_micros_free(l.micros);
    gy_free(l.results);
    gy_free(l.order);
    gy_string_free(l.own_folder);
    if (status < 0) {
        gy_free(l.state.losses);
        gy_free(l.result.accounts);
        return gy_error_raise(&error);
    }
    l.result.losses = l.state.losses;
    *result = l.result;
    return GY_OK;
}
