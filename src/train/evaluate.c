/**
 * Batches of a data set, and a model's loss and accuracy over one.
 */
#include "base/text.h"
#include "coll/coll.h"
#include "graph/graph.h"
#include "train/train_priv.h"

#include <string.h>

/* What ranks do so that one's failure is everybody's, with the same words. */
gy_status gy_train_tell(gy_comm *comm, gy_status status)
{
    if (status >= 0 || comm == NULL || gy_comm_size(comm) == 1) {
        return status;
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_comm_refuse(comm, &error);
    return gy_error_raise(&error);
}

gy_status gy_batch_new(const gy_model *model, int64_t rows, gy_batch *batch)
{
    int64_t sizes[GY_TENSOR_RANK_MAX] = {rows};
    memcpy(&sizes[1], model->input_sizes, (size_t)model->input_rank * sizeof(*sizes));
    *batch =
        (gy_batch){.rows = rows, .classes = model->classes, .label_count = model->label_count};
    GY_TRY(gy_tensor_new(NULL, model->input_dtype, sizes, model->input_rank + 1, &batch->x));
    memcpy(&sizes[1], model->label_sizes, (size_t)model->label_rank * sizeof(*sizes));
    gy_status status =
        gy_tensor_new(NULL, GY_I32, sizes, model->label_rank + 1, &batch->labels);
    if (status < 0) {
        gy_tensor_drop(batch->x);
        batch->x = NULL;
    }
    return status;
}

void gy_batch_free(gy_batch *batch)
{
    gy_tensor_drop(batch->x);
    gy_tensor_drop(batch->labels);
    *batch = (gy_batch){.x = NULL};
}

/* Here the sample is known, a kernel knows the row of its batch alone. */
static gy_status check_labels(const gy_batch *batch, const gy_dataset *dataset,
                              const int64_t *indices, int64_t count, const gy_view *labels)
{
    const int32_t *values = labels->data;
    for (int64_t i = 0; i < count * batch->label_count; i++) {
        if (values[i] < 0 || values[i] >= batch->classes) {
            return gy_fail(GY_ARG, "data set %s: sample %lld has label %d, expected 0 to %d",
                           dataset->ops->name, (long long)indices[i / batch->label_count],
                           (int)values[i], batch->classes - 1);
        }
    }
    return GY_OK;
}

gy_status gy_batch_fill(gy_batch *batch, gy_dataset *dataset, const int64_t *indices,
                        int64_t count, gy_tensor **x, gy_tensor **labels)
{
    GY_ASSERT(count >= 0 && count <= batch->rows);
    GY_TRY(gy_tensor_slice(batch->x, 0, 0, count, 1, x));
    gy_status status = gy_tensor_slice(batch->labels, 0, 0, count, 1, labels);
    if (status < 0) {
        gy_tensor_drop(*x);
        return status;
    }
    gy_view x_view = gy_tensor_pin(*x);
    gy_view labels_view = gy_tensor_pin(*labels);
    status = dataset->ops->fill(dataset, indices, count, &x_view, &labels_view);
    if (status == GY_OK) {
        status = check_labels(batch, dataset, indices, count, &labels_view);
    }
    gy_tensor_unpin(*x);
    gy_tensor_unpin(*labels);
    if (status < 0) {
        gy_tensor_drop(*x);
        gy_tensor_drop(*labels);
    }
    return status;
}

/* ---- state that batches hand on ---- */

/* What adds nothing to a row of another rank, not even a sign: -0. */
static void disown(const gy_view *view, int64_t from, int64_t to)
{
    const int64_t row = gy_view_count(view) / view->sizes[0];
    GY_ASSERT(from >= 0 && from <= to && to <= view->sizes[0]);
    for (int64_t i = from * row; i < to * row; i++) {
        if (view->dtype == GY_F32) {
            ((float *)view->data)[i] = -0.0F;
        } else {
            ((double *)view->data)[i] = -0.0;
        }
    }
}

/* Rows that lie between those of this rank in micro-batches. */
static void disown_others(const gy_model *model, const gy_view *view)
{
    int64_t end = 0;
    if (view->sizes[0] != model->carried_rows || gy_model_row_ranks(model) == 1) {
        return; /* it has no others */
    }
    for (int k = 0; k < model->micro_count; k++) {
        const int64_t begin = gy_part_begin(model->carried_rows, k, model->micro_count);
        const int64_t rows =
            gy_part_begin(model->carried_rows, k + 1, model->micro_count) - begin;
        int64_t first = 0, last = 0;
        gy_model_part(model, rows, &first, &last);
        disown(view, end, begin + first);
        end = begin + last;
    }
    disown(view, end, view->sizes[0]);
}

/* Zero before, if it shall be. */
static gy_status settle_carried(gy_model *model, bool is_zero)
{
    for (size_t i = 0; i < model->carried_count; i++) {
        char name[GY_TRAIN_NAME_BYTES];
        gy_tensor *state = NULL;
        gy_print(name, sizeof(name), "%s/" GY_TRAIN_CARRIED, model->carried[i].name);
        if (gy_session_is_elsewhere(model->session, name)) {
            continue;
        }
        GY_TRY(gy_train_slot_tensor(model, name, &state));
        const gy_view view = gy_tensor_pin(state);
        if (is_zero) {
            memset(view.data, 0, (size_t)gy_view_count(&view) * gy_dtype_bytes(view.dtype));
        }
        if (model->micro_count > 0) {
            disown_others(model, &view);
        }
        gy_tensor_unpin(state);
    }
    return GY_OK;
}

gy_status gy_train_carried_reset(gy_model *model)
{
    return settle_carried(model, true);
}

gy_status gy_train_carried_disown(gy_model *model)
{
    return settle_carried(model, false);
}

gy_status gy_train_carried_new(const gy_model *model, int64_t rows, gy_tensor **states)
{
    memset(states, 0, model->carried_count * sizeof(gy_tensor *));
    for (size_t i = 0; i < model->carried_count; i++) {
        const gy_node fed = model->carried[i].fed;
        const gy_type *type = gy_graph_type(model->graph, (gy_value){fed.index, fed.output});
        int64_t sizes[GY_TENSOR_RANK_MAX] = {rows};
        memcpy(&sizes[1], &type->sizes[1], ((size_t)type->rank - 1) * sizeof(*sizes));
        GY_TRY(gy_tensor_zeros(NULL, type->dtype, sizes, type->rank, &states[i]));
    }
    return GY_OK;
}

gy_status gy_train_carried_run(gy_model *model, const gy_train_fed *fed, const gy_node *fetches,
                               int fetch_count, gy_tensor **results)
{
    const size_t count = model->carried_count;
    const int given = fed->labels != NULL ? 2 : 1;
    gy_feed *feeds = gy_alloc_zero("train.carried", count + 2, sizeof(*feeds));
    gy_node *wanted =
        gy_alloc_zero("train.carried", count + (size_t)fetch_count, sizeof(*wanted));
    gy_tensor **made =
        gy_alloc_zero("train.carried", count + (size_t)fetch_count, sizeof(gy_tensor *));
    gy_status status = feeds == NULL || wanted == NULL || made == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        feeds[0] = (gy_feed){model->x, fed->x};
        feeds[given - 1] =
            fed->labels != NULL ? (gy_feed){model->labels, fed->labels} : feeds[0];
        memcpy(wanted, fetches, (size_t)fetch_count * sizeof(*wanted));
        for (size_t i = 0; i < count; i++) {
            feeds[given + (int)i] = (gy_feed){model->carried[i].fed, fed->states[i]};
            wanted[fetch_count + (int)i] = model->carried[i].next;
        }
        status = gy_session_run(model->session, feeds, given + (int)count, fed->rows, wanted,
                                fetch_count + (int)count, made);
    }
    for (size_t i = 0; status == GY_OK && i < count; i++) {
        gy_tensor_drop(fed->states[i]);
        fed->states[i] = made[fetch_count + (int)i];
    }
    if (status == GY_OK) {
        memcpy(results, made, (size_t)fetch_count * sizeof(*results));
    }
    gy_free(feeds);
    gy_free(wanted);
    gy_free(made);
    return status;
}

static void drop_states(const gy_model *model, gy_tensor **states)
{
    for (size_t i = 0; states != NULL && i < model->carried_count; i++) {
        gy_tensor_drop(states[i]);
    }
    gy_free(states);
}

/* What one evaluation adds up. */
typedef struct tally {
    double loss_sum;
    int64_t correct;
    int64_t count;      /* rows, of all ranks */
    int32_t *predicted; /* of all labels, zero where other ranks predict; or NULL */
} tally;

/* An evaluation under way. */
typedef struct evaluation {
    gy_model *model;
    gy_dataset *dataset;
    gy_batch batch;
    int64_t *order;     /* (dataset->count) which sample each row of all batches is */
    gy_tensor **states; /* (carried_count) or NULL: batches hand nothing on */
    tally sum;
} evaluation;

/* Predictions of the labels of some samples. */
static void count_right(gy_tensor *predicted, gy_tensor *labels, const int64_t *indices,
                        int64_t of_sample, tally *sum)
{
    const gy_view guesses = gy_tensor_pin(predicted), known = gy_tensor_pin(labels);
    const int64_t count = gy_view_count(&known);
    GY_ASSERT(guesses.dtype == GY_I64 && gy_view_count(&guesses) == count);
    GY_ASSERT(gy_view_is_contiguous(&guesses) && gy_view_is_contiguous(&known));
    for (int64_t i = 0; i < count; i++) {
        const int32_t guess = (int32_t)((const int64_t *)guesses.data)[i];
        sum->correct += guess == ((const int32_t *)known.data)[i];
        if (sum->predicted != NULL) {
            sum->predicted[indices[i / of_sample] * of_sample + i % of_sample] = guess;
        }
    }
    gy_tensor_unpin(predicted);
    gy_tensor_unpin(labels);
}

/* Rows [begin, begin + rows) of the order, of which this rank has its part. */
static gy_status evaluate_batch(evaluation *e, int64_t begin, int64_t rows)
{
    gy_model *model = e->model;
    int64_t first = 0;
    int64_t last = 0;
    gy_model_part(model, rows, &first, &last);
    const int64_t *indices = e->order + begin + first;
    gy_tensor *x = NULL;
    gy_tensor *labels = NULL;
    const int64_t begun = gy_now_ns(gy_env_real());
    gy_status status = gy_batch_fill(&e->batch, e->dataset, indices, last - first, &x, &labels);
    model->input_ns += gy_now_ns(gy_env_real()) - begun;
    GY_TRY(gy_train_tell(model->comm, status));
    const gy_node fetches[] = {model->loss, model->predicted};
    gy_tensor *results[2] = {NULL, NULL};
    const gy_train_fed fed = {x, labels, e->states, rows};
    status = gy_train_carried_run(model, &fed, fetches, 2, results);
    if (status == GY_OK) {
        e->sum.loss_sum += gy_tensor_get(results[0], 0) * (double)rows;
        e->sum.count += rows;
        count_right(results[1], labels, indices, model->label_count, &e->sum);
    }
    gy_tensor_drop(results[0]);
    gy_tensor_drop(results[1]);
    gy_tensor_drop(x);
    gy_tensor_drop(labels);
    return gy_train_tell(model->comm, status);
}

/* Counts and predictions of all rows: ranks with the same rows have counted the same. */
static gy_status share(gy_model *model, int64_t samples, tally *sum)
{
    gy_comm *comm = model->comm;
    if (model->mesh != NULL) {
        const int axis = gy_mesh_find(model->mesh, "data");
        comm = axis < 0 ? NULL : gy_mesh_axis_comm(model->mesh, axis);
    }
    if (comm == NULL) {
        return GY_OK;
    }
    GY_TRY(gy_allreduce(comm, &sum->correct, &sum->correct, 1, GY_I64, GY_SUM));
    if (sum->predicted != NULL) {
        GY_TRY(gy_allreduce(comm, sum->predicted, sum->predicted,
                            (size_t)(samples * model->label_count), GY_I32, GY_SUM));
    }
    return GY_OK;
}

/* Batches in the order of the samples, or along streams, with a state that begins at zero. */
static gy_status begin_evaluation(evaluation *e, int64_t batch)
{
    const int64_t count = e->dataset->count;
    int64_t first = 0, last = 0;
    e->order = gy_alloc("train.evaluate", (size_t)count * sizeof(*e->order));
    if (e->order == NULL) {
        return GY_NOMEM;
    }
    for (int64_t i = 0; i < count; i++) {
        e->order[i] = i;
    }
    if (e->model->carried_count > 0) {
        gy_train_streams_fill(batch, e->order, count);
        e->states =
            gy_alloc_zero("train.evaluate", e->model->carried_count, sizeof(gy_tensor *));
        if (e->states == NULL) {
            return GY_NOMEM;
        }
        gy_model_part(e->model, batch, &first, &last);
        GY_TRY(gy_train_carried_new(e->model, last - first, e->states));
    }
    return gy_batch_new(e->model, batch, &e->batch);
}

gy_status gy_model_evaluate(gy_model *model, gy_dataset *dataset, int64_t batch, double *loss,
                            double *accuracy, int32_t *predicted)
{
    if (batch < 1) {
        return gy_fail(GY_ARG, "batch %lld, expected at least 1", (long long)batch);
    }
    GY_TRY(gy_train_dataset_check(model, dataset, "test"));
    evaluation e = {.model = model, .dataset = dataset, .sum.predicted = predicted};
    const int64_t labels = dataset->count * model->label_count;
    if (predicted != NULL) {
        memset(predicted, 0, (size_t)labels * sizeof(*predicted));
    }
    batch = GY_MIN(batch, dataset->count);
    const int64_t count =
        model->carried_count > 0 ? dataset->count / batch * batch : dataset->count;
    gy_status status = gy_train_tell(model->comm, begin_evaluation(&e, batch));
    for (int64_t at = 0; at < count && status == GY_OK; at += batch) {
        status = evaluate_batch(&e, at, GY_MIN(batch, count - at));
    }
    gy_batch_free(&e.batch);
    drop_states(model, e.states);
    gy_free(e.order);
    GY_TRY(status);
    GY_TRY(share(model, dataset->count, &e.sum));
    GY_ASSERT(e.sum.count == count);
    *loss = e.sum.loss_sum / (double)count;
    *accuracy = (double)e.sum.correct / (double)(count * model->label_count);
    return GY_OK;
}

gy_status gy_model_predict(gy_model *model, gy_tensor *x, gy_tensor **out)
{
    if (model->comm != NULL && gy_comm_size(model->comm) > 1) {
        return gy_fail(GY_STATE, "predict runs on one rank, the model is spread over %d",
                       gy_comm_size(model->comm));
    }
    gy_tensor **states =
        gy_alloc_zero("train.predict", model->carried_count + 1, sizeof(gy_tensor *));
    gy_tensor *result = NULL;
    const int64_t rows = gy_tensor_rank(x) > 0 ? gy_tensor_size(x, 0) : 0;
    gy_status status = states == NULL ? GY_NOMEM : gy_train_carried_new(model, rows, states);
    if (status == GY_OK) {
        const gy_train_fed fed = {x, NULL, states, 0};
        status = gy_train_carried_run(model, &fed, &model->log_probabilities, 1, &result);
    }
    drop_states(model, states);
    GY_TRY(status);
    int64_t sizes[GY_TENSOR_RANK_MAX];
    const int rank = gy_tensor_rank(result);
    for (int i = 0; i < rank; i++) {
        sizes[i] = gy_tensor_size(result, i);
    }
    gy_tensor *made = NULL;
    status = gy_tensor_new(NULL, GY_F32, sizes, rank, &made);
    if (status == GY_OK) {
        status = gy_tensor_copy(made, result);
    }
    gy_tensor_drop(result);
    if (status < 0) {
        gy_tensor_drop(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

/* ---- one token after the other ---- */

struct gy_train_steps {
    gy_model *model; /* of one row and a window of one token */
    gy_tensor *x, **states;
};

bool gy_train_has_carried(const gy_model *model)
{
    return model->carried_count > 0;
}

/* The same function for windows of one token: parameters do not depend on a window. */
static gy_status make_narrow(gy_model *model, gy_model **narrow)
{
    const gy_model_options options = GY_OPTIONS(
        gy_model_options, .name = model->name, .build = model->build, .arg = model->build_arg,
        .configuration = model->configuration, .dtype = model->dtype,
        .input_dtype = model->input_dtype, .input_rank = 1, .input_sizes = {1}, .label_rank = 1,
        .label_sizes = {1}, .seed = model->seed, .workers = model->workers);
    gy_model *made = NULL;
    GY_TRY(gy_model_new(&options, &made));
    gy_status status = GY_OK;
    for (size_t i = 0; status == GY_OK && i < made->slot_count; i++) {
        gy_tensor *whole = NULL;
        status = gy_session_gather(model->session, made->slots[i].name, &whole);
        if (status == GY_OK) {
            status = gy_session_scatter(made->session, made->slots[i].name, whole);
            gy_tensor_drop(whole);
        }
    }
    if (status < 0) {
        gy_model_free(made);
        return status;
    }
    *narrow = made;
    return GY_OK;
}

gy_status gy_train_steps_new(gy_model *model, gy_train_steps **steps)
{
    GY_ASSERT(gy_train_has_carried(model) && model->input_dtype == GY_I32);
    if (model->comm != NULL && gy_comm_size(model->comm) > 1) {
        return gy_fail(GY_STATE, "text is written on one rank, the model is spread over %d",
                       gy_comm_size(model->comm));
    }
    gy_train_steps *made = gy_alloc_zero("train.steps", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_status status = make_narrow(model, &made->model);
    if (status == GY_OK) {
        made->states =
            gy_alloc_zero("train.steps", made->model->carried_count, sizeof(gy_tensor *));
        status = made->states != NULL ? gy_train_carried_new(made->model, 1, made->states)
                                      : GY_NOMEM;
    }
    if (status == GY_OK) {
        status = gy_tensor_zeros(NULL, GY_I32, (const int64_t[]){1, 1}, 2, &made->x);
    }
    if (status < 0) {
        gy_train_steps_free(made);
        return status;
    }
    *steps = made;
    return GY_OK;
}

gy_status gy_train_steps_next(gy_train_steps *steps, int32_t token, double *log_probabilities)
{
    gy_tensor *result = NULL;
    GY_ASSERT(token >= 0 && token < steps->model->classes);
    gy_tensor_set(steps->x, 0, token);
    const gy_train_fed fed = {steps->x, NULL, steps->states, 1};
    GY_TRY(
        gy_train_carried_run(steps->model, &fed, &steps->model->log_probabilities, 1, &result));
    GY_ASSERT(gy_tensor_count(result) == steps->model->classes);
    for (int i = 0; i < steps->model->classes; i++) {
        log_probabilities[i] = gy_tensor_get(result, i);
    }
    gy_tensor_drop(result);
    return GY_OK;
}

void gy_train_steps_free(gy_train_steps *steps)
{
    if (steps == NULL) {
        return;
    }
    if (steps->model != NULL) {
        drop_states(steps->model, steps->states);
        gy_model_free(steps->model);
    }
    gy_tensor_drop(steps->x);
    gy_free(steps);
}
