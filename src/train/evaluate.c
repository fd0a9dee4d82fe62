/**
 * Batches of a data set, and a model's loss and accuracy over one.
 */
#include "coll/coll.h"
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

/* What one evaluation adds up. */
typedef struct tally {
    double loss_sum;
    int64_t correct;
    int32_t *predicted; /* of all labels, zero where other ranks predict; or NULL */
} tally;

/* Predictions of some labels, the first of which is label `begin` of the set. */
static void count_right(gy_tensor *predicted, gy_tensor *labels, int64_t begin, tally *sum)
{
    const gy_view guesses = gy_tensor_pin(predicted), known = gy_tensor_pin(labels);
    const int64_t count = gy_view_count(&known);
    GY_ASSERT(guesses.dtype == GY_I64 && gy_view_count(&guesses) == count);
    GY_ASSERT(gy_view_is_contiguous(&guesses) && gy_view_is_contiguous(&known));
    for (int64_t i = 0; i < count; i++) {
        const int32_t guess = (int32_t)((const int64_t *)guesses.data)[i];
        sum->correct += guess == ((const int32_t *)known.data)[i];
        if (sum->predicted != NULL) {
            sum->predicted[begin + i] = guess;
        }
    }
    gy_tensor_unpin(predicted);
    gy_tensor_unpin(labels);
}

/* Rows [begin, begin + rows) of the set, of which this rank has its part. */
static gy_status evaluate_batch(gy_model *model, gy_dataset *dataset, gy_batch *batch,
                                int64_t begin, int64_t rows, tally *sum)
{
    int64_t first = 0;
    int64_t last = 0;
    gy_model_part(model, rows, &first, &last);
    int64_t *indices =
        gy_alloc("train.evaluate", (size_t)GY_MAX(last - first, 1) * sizeof(*indices));
    if (indices == NULL) {
        return gy_train_tell(model->comm, GY_NOMEM);
    }
    for (int64_t i = first; i < last; i++) {
        indices[i - first] = begin + i;
    }
    gy_tensor *x = NULL;
    gy_tensor *labels = NULL;
    const int64_t begun = gy_now_ns(gy_env_real());
    gy_status status = gy_batch_fill(batch, dataset, indices, last - first, &x, &labels);
    model->input_ns += gy_now_ns(gy_env_real()) - begun;
    gy_free(indices);
    GY_TRY(gy_train_tell(model->comm, status));
    gy_feed feeds[] = {{model->x, x}, {model->labels, labels}};
    gy_node fetches[] = {model->loss, model->predicted};
    gy_tensor *results[2] = {NULL, NULL};
    status = gy_session_run(model->session, feeds, 2, rows, fetches, 2, results);
    if (status == GY_OK) {
        sum->loss_sum += gy_tensor_get(results[0], 0) * (double)rows;
        count_right(results[1], labels, (begin + first) * model->label_count, sum);
    }
    gy_tensor_drop(results[0]);
    gy_tensor_drop(results[1]);
    gy_tensor_drop(x);
    gy_tensor_drop(labels);
    return gy_train_tell(model->comm, status);
}

/* Counts and predictions of all rows: ranks with the same rows have counted the same. */
static gy_status share(gy_model *model, int64_t count, tally *sum)
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
        GY_TRY(
            gy_allreduce(comm, sum->predicted, sum->predicted, (size_t)count, GY_I32, GY_SUM));
    }
    return GY_OK;
}

gy_status gy_model_evaluate(gy_model *model, gy_dataset *dataset, int64_t batch, double *loss,
                            double *accuracy, int32_t *predicted)
{
    if (batch < 1) {
        return gy_fail(GY_ARG, "batch %lld, expected at least 1", (long long)batch);
    }
    GY_TRY(gy_train_dataset_check(model, dataset, "test"));
    gy_batch rows;
    GY_TRY(
        gy_train_tell(model->comm, gy_batch_new(model, GY_MIN(batch, dataset->count), &rows)));
    tally sum = {.predicted = predicted};
    const int64_t labels = dataset->count * model->label_count;
    if (predicted != NULL) {
        memset(predicted, 0, (size_t)labels * sizeof(*predicted));
    }
    gy_status status = GY_OK;
    for (int64_t at = 0; at < dataset->count && status == GY_OK; at += batch) {
        status =
            evaluate_batch(model, dataset, &rows, at, GY_MIN(batch, dataset->count - at), &sum);
    }
    gy_batch_free(&rows);
    GY_TRY(status);
    GY_TRY(share(model, labels, &sum));
    *loss = sum.loss_sum / (double)dataset->count;
    *accuracy = (double)sum.correct / (double)labels;
    return GY_OK;
}

gy_status gy_model_predict(gy_model *model, gy_tensor *x, gy_tensor **out)
{
    if (model->comm != NULL && gy_comm_size(model->comm) > 1) {
        return gy_fail(GY_STATE, "predict runs on one rank, the model is spread over %d",
                       gy_comm_size(model->comm));
    }
    gy_feed feed = {model->x, x};
    gy_tensor *result = NULL;
    GY_TRY(gy_session_run(model->session, &feed, 1, 0, &model->log_probabilities, 1, &result));
    int64_t sizes[GY_TENSOR_RANK_MAX];
    const int rank = gy_tensor_rank(result);
    for (int i = 0; i < rank; i++) {
        sizes[i] = gy_tensor_size(result, i);
    }
    gy_tensor *made = NULL;
    gy_status status = gy_tensor_new(NULL, GY_F32, sizes, rank, &made);
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
