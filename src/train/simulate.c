/*
 * Trainings in virtual time. A model of the graph under the rules of parameter servers: its
 * parameters as one vector, gradients as workers compute them. And one update on a mesh of
 * ranks that need not exist, whose kernels are measured here or costed.
 */
#include "graph/simulate/simulate.h"
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <stdlib.h>
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

/* ---- One update on a cluster ---- */

static void nodes_to_values(const gy_node *nodes, int count, gy_value *values)
{
    for (int i = 0; i < count; i++) {
        GY_ASSERT(nodes[i].index >= 0);
        values[i] = (gy_value){nodes[i].index, nodes[i].output};
    }
}

/* Compile the update's programs for all stages, and play them. */
static gy_status play_lists(gy_model *model, const gy_train_options *options,
                            const gy_virtual_cluster *cluster, const gy_kernel_rates *rates,
                            const gy_pipe_schedule *lists, gy_virtual_step *step)
{
    const gy_update *u = &model->update;
    const bool has_micros = options->micro_batches > 0;
    const int stages = GY_MAX(model->mesh->stages, 1);
    gy_mesh mesh = *model->mesh;
    mesh.chunks = model->chunks;
    const int count = has_micros || options->accumulate > 1 ? 2 : 1;
    const size_t all = (size_t)u->fetch_count + (size_t)u->gather_count;
    gy_value *values = gy_alloc("train.simulate", (all + 1) * sizeof(*values));
    gy_graph **graphs =
        gy_alloc_zero("train.simulate", (size_t)stages * (size_t)count, sizeof(gy_graph *));
    gy_footprint *footprints =
        gy_alloc_zero("train.simulate", (size_t)stages, sizeof(*footprints));
    gy_status status =
        values == NULL || graphs == NULL || footprints == NULL ? GY_NOMEM : GY_OK;
    if (status >= 0) {
        nodes_to_values(u->fetches, u->fetch_count, values);
        nodes_to_values(u->gather_fetches, u->gather_count, values + u->fetch_count);
        const gy_planned_run runs[] = {{.batch = gy_train_micro_rows(options, options->batch),
                                        .fetches = values + u->fetch_count,
                                        .fetch_count = u->gather_count,
                                        .loss = lists != NULL ? 1 : 0},
                                       {.batch = has_micros ? 1 : options->batch,
                                        .fetches = values,
                                        .fetch_count = u->fetch_count}};
        status = gy_session_foresee(model->session, &mesh, &runs[2 - count], count, graphs,
                                    footprints);
    }
    if (status >= 0) {
        const gy_virtual_update update = {.mesh = &mesh,
                                          .graphs = graphs,
                                          .run_count = count,
                                          .footprints = footprints,
                                          .before = has_micros ? options->accumulate *
                                                                     options->micro_batches
                                                               : options->accumulate - 1,
                                          .lists = lists};
        status = gy_virtual_update_play(&update, cluster, rates, step);
    }
    for (int i = 0; graphs != NULL && i < stages * count; i++) {
        gy_graph_free(graphs[i]);
    }
    gy_free(values);
    gy_free(graphs);
    gy_free(footprints);
    return status;
}

/* Stages work on micro-batches by a schedule, as gy_train has them do. */
static gy_status play_update(gy_model *model, const gy_train_options *options,
                             const gy_virtual_cluster *cluster, const gy_kernel_rates *rates,
                             gy_virtual_step *step)
{
    gy_pipe_schedule *planned = NULL;
    const bool is_scheduled = model->mesh->stages > 1 && options->micro_batches > 0;
    if (is_scheduled && options->pipe_lists == NULL) {
        const gy_pipe_query query = {
            .schedule = options->pipe_schedule != NULL ? options->pipe_schedule : "1f1b",
            .ranks = model->mesh->stages,
            .micros = options->micro_batches,
            .chunks = model->chunks};
        GY_TRY(gy_pipe_plan(&query, &planned));
    }
    const gy_pipe_schedule *lists = planned != NULL ? planned
                                    : is_scheduled  ? options->pipe_lists
                                                    : NULL;
    const gy_status status = play_lists(model, options, cluster, rates, lists, step);
    gy_pipe_free(planned);
    return status;
}

static gy_status check_step(const gy_model *model, const gy_train_options *options,
                            const gy_virtual_cluster *cluster, const gy_kernel_rates *rates)
{
    const gy_mesh *mesh = model->mesh;
    const int micros = GY_MAX(options->micro_batches, 1);
    const int row_ranks = mesh != NULL ? gy_mesh_row_ranks(mesh) : 1;
    const bool is_imagined = mesh != NULL && mesh->whole == NULL;
    int ranks = mesh != NULL ? GY_MAX(mesh->stages, 1) : 0;
    for (int axis = 0; mesh != NULL && axis < mesh->axes; axis++) {
        ranks *= mesh->sizes[axis];
    }
    if (!is_imagined || ranks != gy_virtual_cluster_ranks(cluster)) {
        return gy_fail(GY_STATE,
                       "simulation: the model's mesh is of %d ranks, the cluster has %d", ranks,
                       gy_virtual_cluster_ranks(cluster));
    }
    if (options->recompute == GY_RECOMPUTE_AUTO && cluster->memory_bytes == 0) {
        return gy_fail(GY_ARG, "simulation: recompute auto needs the memory of a rank");
    }
    if (rates == NULL && !(cluster->flops_s > 0)) {
        return gy_fail(GY_STATE, "simulation: neither measured kernels nor flops are known");
    }
    if (options->batch < (int64_t)row_ranks * micros) {
        return gy_fail(GY_ARG,
                       "simulation: %lld rows for %d ranks along data and %d micro-batches: "
                       "expected a batch of at least %lld",
                       (long long)options->batch, row_ranks, micros,
                       (long long)row_ranks * micros);
    }
    GY_TRY(gy_train_micros_check(model, options));
    return options->servers == NULL
               ? GY_OK
               : gy_fail(GY_ARG, "simulation: parameter servers are simulated by "
                                 "gy_train_simulate");
}

gy_status gy_train_simulate_step(gy_model *model, const gy_train_options *options,
                                 const gy_virtual_cluster *cluster,
                                 const gy_kernel_rates *rates, gy_virtual_step *step)
{
    gy_train_options filled;
    gy_virtual_step made = {.struct_size = step->struct_size};
    GY_TRY(gy_train_defaults(options, &filled));
    GY_TRY(check_step(model, &filled, cluster, rates));
    const bool is_auto = filled.recompute == GY_RECOMPUTE_AUTO;
    filled.memory_bytes = 0;
    filled.recompute = is_auto ? GY_RECOMPUTE_NONE : filled.recompute;
    GY_TRY(gy_model_build(model, &filled));
    GY_TRY(filled.micro_batches > 0
               ? gy_session_check_micros(model->session, model->train_loss, filled.batch)
               : GY_OK);
    GY_TRY(play_update(model, &filled, cluster, rates, &made));
    if (is_auto && made.memory_bytes > cluster->memory_bytes) {
        filled.recompute = GY_RECOMPUTE_LAYERS;
        GY_TRY(gy_model_build(model, &filled));
        GY_TRY(play_update(model, &filled, cluster, rates, &made));
    }
    made.samples = filled.batch * filled.accumulate;
    *step = made;
    return GY_OK;
}

/* ---- Kernels measured ---- */

enum { RUNS_MEASURED = 8, RUNS_WARM = 2 };

typedef struct measurement {
    gy_model *model;
    gy_dataset *train;
    gy_batch batch;
    gy_tensor *scalar, **results;
    int64_t *indices;
    int64_t *node_ns; /* (runs, nodes) of one batch size */
    gy_kernel_point *points;
    size_t count, capacity;
    double tasks, rest_s; /* beside kernels, of all batch sizes; tasks with it */
} measurement;

/* One update of `rows` rows at rate 0. */
static gy_status run_once(measurement *m, int64_t rows, int64_t *wall_ns)
{
    const gy_update *u = &m->model->update;
    gy_tensor *x = NULL, *labels = NULL;
    const int64_t begun_ns = gy_now_ns(gy_env_real());
    GY_TRY(gy_batch_fill(&m->batch, m->train, m->indices, rows, &x, &labels));
    gy_feed feeds[5] = {{m->model->x, x}, {m->model->labels, labels}, {u->rate, m->scalar}};
    int count = 3;
    if (u->correction.index != u->rate.index) {
        feeds[count++] = (gy_feed){u->correction, m->scalar};
    }
    if (u->plain_rate.index != u->rate.index) {
        feeds[count++] = (gy_feed){u->plain_rate, m->scalar};
    }
    const gy_status status = gy_session_run(m->model->session, feeds, count, rows, u->fetches,
                                            u->fetch_count, m->results);
    gy_tensor_drop(x);
    gy_tensor_drop(labels);
    GY_TRY(status);
    for (int i = 0; i < u->fetch_count; i++) {
        gy_tensor_drop(m->results[i]);
    }
    *wall_ns = gy_now_ns(gy_env_real()) - begun_ns;
    return GY_OK;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* The lower quartile: what other work of the machine came between takes longer. */
static int64_t usual(int64_t *values, int count)
{
    GY_ASSERT(count > 0);
    qsort(values, (size_t)count, sizeof(*values), by_size);
    return values[count / 4];
}

/* The usual times of all nodes of the last graph. */
static gy_status add_points(measurement *m, int64_t wall_ns)
{
    const gy_graph *graph = gy_session_last_graph(m->model->session);
    const size_t first = m->count;
    double kernels_s = 0;
    for (int32_t i = 0; i < graph->node_count; i++) {
        int64_t ran[RUNS_MEASURED];
        gy_cost cost;
        for (int r = 0; r < RUNS_MEASURED; r++) {
            ran[r] = m->node_ns[(size_t)r * (size_t)graph->node_count + (size_t)i];
        }
        const int64_t took_ns = usual(ran, RUNS_MEASURED);
        if (took_ns == 0) {
            continue;
        }
        gy_graph_cost(graph, &graph->mesh, i, &cost);
        GY_TRY(GY_GROW("train.simulate", m->points, m->capacity, m->count + 1));
        m->points[m->count++] = (gy_kernel_point){
            .name = graph->nodes[i].op->name,
            .nominal_s = gy_simulate_nominal(&cost, gy_simulate_nominal_flops_s,
                                             gy_simulate_nominal_bytes_s),
            .measured_s = (double)took_ns * 1e-9};
        kernels_s += (double)took_ns * 1e-9;
    }
    const double wall_s = (double)wall_ns * 1e-9;
    for (size_t i = first; kernels_s > wall_s && i < m->count; i++) {
        m->points[i].measured_s *= wall_s / kernels_s; /* several ran at a time */
    }
    m->rest_s += GY_MAX(0, wall_s - kernels_s);
    m->tasks += (double)(m->count - first);
    return GY_OK;
}

static gy_status measure_rows(measurement *m, int64_t rows)
{
    int64_t wall_ns[RUNS_MEASURED];
    GY_ASSERT(rows >= 1);
    for (int i = 0; i < RUNS_WARM; i++) { /* compiles; touches its memory */
        GY_TRY(run_once(m, rows, &wall_ns[0]));
    }
    const size_t nodes = (size_t)gy_session_last_graph(m->model->session)->node_count;
    gy_free(m->node_ns);
    m->node_ns = gy_alloc_zero("train.simulate", RUNS_MEASURED * nodes, sizeof(int64_t));
    if (m->node_ns == NULL) {
        return GY_NOMEM;
    }
    for (int r = 0; r < RUNS_MEASURED; r++) {
        GY_TRY(run_once(m, rows, &wall_ns[r]));
        gy_session_last_times(m->model->session, m->node_ns + (size_t)r * nodes);
    }
    return add_points(m, usual(wall_ns, RUNS_MEASURED));
}

static gy_status measure(measurement *m, const gy_train_options *options)
{
    const int64_t rows = GY_MIN(options->batch, m->train->count);
    GY_TRY(gy_train_dataset_check(m->model, m->train, "training"));
    GY_TRY(gy_model_build(m->model, options));
    m->indices = gy_alloc("train.simulate", (size_t)rows * sizeof(*m->indices));
    m->results = gy_alloc_zero("train.simulate", (size_t)m->model->update.fetch_count,
                               sizeof(*m->results));
    if (m->indices == NULL || m->results == NULL) {
        return GY_NOMEM;
    }
    for (int64_t i = 0; i < rows; i++) {
        m->indices[i] = i;
    }
    GY_TRY(gy_tensor_zeros(NULL, m->model->dtype, NULL, 0, &m->scalar));
    GY_TRY(gy_batch_new(m->model, rows, &m->batch));
    gy_session_set_timed(m->model->session, true);
    GY_TRY(measure_rows(m, rows));
    return rows > 3 && m->model->carried_count == 0 ? measure_rows(m, rows / 4) : GY_OK;
}

gy_status gy_train_can_measure(const gy_train_options *options)
{
    int index = -1, sharers = 1;
    const gy_device_choice asked = {.number = options->device, .names = options->devices};
    GY_TRY(gy_device_choose(&asked, 1, &index, &sharers));
    GY_ASSERT(sharers == 1);
    return index < 0
               ? GY_OK
               : gy_fail(
                     GY_UNSUPPORTED,
                     "mesh auto measures kernels on the CPU, and a device was asked for: say "
                     "what it computes by flops= in the description of the cluster (such as "
                     "--cluster flops=14T), or name the mesh");
}

gy_status gy_train_measure(gy_model *model, gy_dataset *train, const gy_train_options *options,
                           gy_kernel_rates **rates)
{
    measurement m = {.model = model, .train = train};
    gy_train_options filled;
    if (model->comm != NULL || model->mesh != NULL) {
        return gy_fail(GY_STATE, "kernels are measured with a model of one process");
    }
    GY_TRY(gy_train_defaults(options, &filled));
    filled.accumulate = 1;
    filled.recompute = GY_RECOMPUTE_NONE;
    filled.micro_batches = 0;
    filled.servers = NULL;
    filled.zero = 0;
    filled.device = -1; /* it is the CPU's kernels that are measured */
    gy_status status = measure(&m, &filled);
    if (status >= 0) {
        status =
            gy_kernel_rates_fit(m.points, m.count, m.tasks > 0 ? m.rest_s / m.tasks : 0, rates);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_batch_free(&m.batch);
    gy_tensor_drop(m.scalar);
    gy_free(m.indices);
    gy_free(m.results);
    gy_free(m.node_ns);
    gy_free(m.points);
    return status < 0 ? gy_error_raise(&error) : GY_OK;
}
