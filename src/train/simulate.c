/*
 * A model of the graph under the rules of parameter servers in virtual time: its parameters as
 * one vector, gradients as workers compute them.
 */
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <string.h>

enum { LOSS_SAMPLES = 200 }; /* that the target is of */

typedef struct virtual_model {
    gy_model *model;
    gy_dataset *train;
    gy_batch batch;
    int64_t *indices; /* (batch.rows) */
    gy_tensor *share, **results;
    gy_tensor **parameters; /* (count) of the session, borrowed */
    size_t count, width;
    double *initial; /* (width) */
} virtual_model;

/* ---- Parameters as a vector ---- */

static size_t copy_one(gy_tensor *tensor, double *values, bool is_read)
{
    const gy_view view = gy_tensor_pin(tensor);
    const size_t count = (size_t)gy_view_count(&view);
    GY_ASSERT(gy_view_is_contiguous(&view) && (view.dtype == GY_F32 || view.dtype == GY_F64));
    for (size_t i = 0; i < count && view.dtype == GY_F32; i++) {
        if (is_read) {
            values[i] = ((const float *)view.data)[i];
        } else {
            ((float *)view.data)[i] = (float)values[i];
        }
    }
    if (view.dtype == GY_F64) {
        memcpy(is_read ? (void *)values : view.data, is_read ? view.data : (void *)values,
               count * sizeof(double));
    }
    gy_tensor_unpin(tensor);
    return count;
}

static void copy_all(const virtual_model *v, double *values, bool is_read)
{
    for (size_t i = 0; i < v->count; i++) {
        values += copy_one(v->parameters[i], values, is_read);
    }
}

static void begin(void *arg, double *parameters)
{
    const virtual_model *v = arg;
    memcpy(parameters, v->initial, v->width * sizeof(*parameters));
}

/* ---- Gradients and losses ---- */

static gy_status run(virtual_model *v, const double *parameters, size_t count,
                     const gy_node *fetches, int fetch_count)
{
    gy_tensor *x = NULL, *labels = NULL;
    /* the vector is the caller's, and is read alone */
    copy_all(v, (double *)(uintptr_t)parameters, false);
    GY_TRY(gy_batch_fill(&v->batch, v->train, v->indices, (int64_t)count, &x, &labels));
    const gy_feed feeds[] = {
        {v->model->x, x}, {v->model->labels, labels}, {v->model->update.share, v->share}};
    gy_status status = gy_session_run(v->model->session, feeds, fetch_count > 1 ? 3 : 2,
                                      (int64_t)count, fetches, fetch_count, v->results);
    gy_tensor_drop(x);
    gy_tensor_drop(labels);
    return status;
}

static void drop_results(const virtual_model *v, int count)
{
    for (int i = 0; i < count; i++) {
        gy_tensor_drop(v->results[i]);
    }
}

static gy_status add_gradient(void *arg, const double *parameters, const size_t *samples,
                              size_t count, double share, double *gradient)
{
    virtual_model *v = arg;
    const gy_update *u = &v->model->update;
    for (size_t i = 0; i < count; i++) {
        v->indices[i] = (int64_t)samples[i];
    }
    gy_tensor_set(v->share, 0, share * (double)count); /* gradients are of the mean loss */
    /* What is drawn is of the samples, so that it does not depend on who was slow. */
    gy_session_set_step(v->model->session, gy_hash(samples, count * sizeof(*samples), 0));
    GY_TRY(run(v, parameters, count, u->fetches, u->fetch_count));
    for (size_t i = 0; i < v->count; i++) {
        const gy_view view = gy_tensor_pin(v->results[1 + i]);
        const int64_t values = gy_view_count(&view);
        for (int64_t j = 0; j < values; j++) {
            gradient[j] += view.dtype == GY_F32 ? (double)((const float *)view.data)[j]
                                                : ((const double *)view.data)[j];
        }
        gy_tensor_unpin(v->results[1 + i]);
        gradient += values;
    }
    drop_results(v, u->fetch_count);
    return GY_OK;
}

static gy_status look_at_loss(void *arg, const double *parameters, double *loss)
{
    virtual_model *v = arg;
    const int64_t count = GY_MIN(v->train->count, (int64_t)LOSS_SAMPLES);
    for (int64_t i = 0; i < count; i++) {
        v->indices[i] = i;
    }
    GY_TRY(run(v, parameters, (size_t)count, &v->model->loss, 1));
    *loss = gy_tensor_get(v->results[0], 0);
    drop_results(v, 1);
    return GY_OK;
}

/* ---- The whole ---- */

static gy_status open_model(virtual_model *v, const gy_ps_simulation *o)
{
    gy_model *model = v->model;
    const gy_train_servers servers = {.fetch = 1, .workers = 1};
    gy_train_options options;
    GY_TRY(gy_train_defaults(&(gy_train_options){.epochs = 1, .batch = 1}, &options));
    options.servers = &servers;
    GY_TRY(gy_train_dataset_check(model, v->train, "training"));
    GY_TRY(gy_model_build(model, &options));
    const int64_t rows = GY_MAX((int64_t)(o->batch > 0 ? o->batch : 16), (int64_t)LOSS_SAMPLES);
    v->indices = gy_alloc("train.simulate", (size_t)rows * sizeof(*v->indices));
    v->results =
        gy_alloc_zero("train.simulate", (size_t)model->update.fetch_count, sizeof(*v->results));
    v->parameters = gy_alloc_zero("train.simulate", model->slot_count, sizeof(*v->parameters));
    if (v->indices == NULL || v->results == NULL || v->parameters == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_tensor_zeros(NULL, model->dtype, NULL, 0, &v->share));
    GY_TRY(gy_batch_new(model, rows, &v->batch));
    for (size_t i = 0; i < model->slot_count; i++) {
        if (model->slots[i].kind == GY_SLOT_PARAMETER) {
            gy_tensor **place = &v->parameters[v->count++];
            GY_TRY(gy_train_slot_tensor(model, model->slots[i].name, place));
            v->width += (size_t)gy_tensor_count(*place);
        }
    }
    v->initial = gy_alloc("train.simulate", v->width * sizeof(*v->initial));
    if (v->initial == NULL) {
        return GY_NOMEM;
    }
    copy_all(v, v->initial, true);
    return GY_OK;
}

gy_status gy_train_simulate(gy_model *model, gy_dataset *train, const gy_ps_simulation *options,
                            gy_ps_simulated *result)
{
    virtual_model v = {.model = model, .train = train};
    if (model->comm != NULL || model->mesh != NULL) {
        return gy_fail(GY_STATE, "a simulation is of a model of one process");
    }
    gy_status status = open_model(&v, options);
    if (status == GY_OK) {
        const gy_ps_simulated_model simulated = GY_OPTIONS(
            gy_ps_simulated_model, .arg = &v, .width = v.width, .samples = (size_t)train->count,
            .begin = begin, .gradient = add_gradient, .loss = look_at_loss);
        status = gy_ps_simulate_model(&simulated, options, result);
        copy_all(&v, v.initial, false);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_batch_free(&v.batch);
    gy_tensor_drop(v.share);
    gy_free(v.indices);
    gy_free(v.results);
    gy_free(v.parameters);
    gy_free(v.initial);
    return status < 0 ? gy_error_raise(&error) : GY_OK;
}
