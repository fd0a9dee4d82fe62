/**
 * A worker of parameter servers. Each parameter is a dense table; its gradient is pushed by the
 * task that made it, while the backward pass goes on, and all are pulled in the order in which
 * the forward pass wants them. A table of two numbers, named as the training, says whether the
 * initial values are there and whether worker 0 has stopped early, and is where workers meet:
 * before the first clock, after the last, and where a checkpoint needs what each has.
 *
 * @source lecture D, "Distributed Parameter Servers"; lecture B, "PS Interface for Data
 * Parallel Training"
 */
#include "base/setting_numbers.h"
#include "codec/codec.h"
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <stdio.h>
#include <string.h>

/* What workers say to each other by the start table: 1 and the step that they begin at, and
 * that worker 0 stops early. */
enum { SAID_BEGUN, SAID_OVER, SAID };

enum { WORKER_LOCK_RANK = 70 /* above the client's */, TABLE_NAME_BYTES = 64 };

static const double timeout_default_s = 300;
static const int64_t width_max = 1 << 20; /* of a row; GY_PS_WIDTH_MAX */

typedef struct worker_table {
    char name[GY_TRAIN_NAME_BYTES], sum_name[GY_TRAIN_NAME_BYTES]; /* in the session */
    gy_ps_table *table;
    gy_ps_request *push, *pull;
    size_t rows;
    gy_tensor *parameter, *sum;             /* of the session; sum: NULL with fetch=1 */
    gy_tensor *residual;                    /* NULL: without a codec; pinned */
    gy_tensor *served[GY_TRAIN_SERVED_MAX]; /* of worker 0, for checkpoints */
    gy_view view;                           /* of the parameter, pinned */
} worker_table;

struct gy_train_worker {
    gy_session *session;
    gy_ps *ps;
    gy_ps_table *start;
    gy_mutex lock;  /* of what hooks do */
    gy_error error; /* the first of a hook */
    double timeout_s;
    int64_t waited_ns;
    bool is_first, is_resumed; /* worker 0; with a checkpoint */
    int served;                /* pieces of state that it takes of the servers */
    int64_t over_before;       /* trainings of this name that were stopped early */
    size_t count;
    worker_table tables[]; /* in the order of the model's parameters, as the forward pass */
};

gy_status gy_train_servers_check(const gy_model *model, const gy_train_options *o)
{
    gy_train_servers s;
    if (o->servers == NULL) {
        return GY_OK;
    }
    GY_TRY(gy_options_take(gy_train_servers, &s, o->servers));
    const struct {
        const char *name;
        bool is_set;
    } excluded[] = {
        {"a communicator of several ranks",
         (model->comm != NULL && gy_comm_size(model->comm) > 1) || model->mesh != NULL},
        {"accumulate (expected fetch=N)", o->accumulate > 1},
        {"micro_batches (expected fetch=N)", o->micro_batches > 0},
        {"zero", o->zero > 0},
        {"pins", o->pin_count > 0},
    };
    for (size_t i = 0; i < GY_COUNT(excluded); i++) {
        if (excluded[i].is_set) {
            return gy_fail(GY_ARG, "training: parameter servers and %s exclude each other",
                           excluded[i].name);
        }
    }
    const uint32_t workers = s.workers == 0 ? 1 : s.workers;
    if (s.worker >= workers) {
        return gy_fail(GY_ARG, "training: worker %u, expected 0 to %u of %u workers", s.worker,
                       workers - 1, workers);
    }
    if (s.fetch < 0 || s.fetch > 1000000) {
        return gy_fail(GY_ARG, "training: fetch is %d, expected 1 to 1000000 batches", s.fetch);
    }
    if (s.sync.rule == GY_PS_BACKUP && s.sync.bound >= workers) {
        return gy_fail(GY_ARG, "training: %u backup workers of %u workers, expected fewer",
                       s.sync.bound, workers);
    }
    GY_TRY(gy_codec_check(s.codec));
    return s.timeout_s >= 0
               ? GY_OK
               : gy_fail(GY_ARG, "training: a timeout of %g s, expected above 0", s.timeout_s);
}

/* ---- Tables ---- */

static gy_ps_update update_of(gy_optimizer_kind kind)
{
    switch (kind) {
    case GY_OPTIMIZER_SGD:
        return GY_PS_SGD;
    case GY_OPTIMIZER_MOMENTUM:
        return GY_PS_MOMENTUM;
    case GY_OPTIMIZER_NESTEROV:
        return GY_PS_NESTEROV;
    case GY_OPTIMIZER_ADAM:
        return GY_PS_ADAM;
    case GY_OPTIMIZER_ADAMW:
        break;
    }
    return GY_PS_ADAMW;
}

/* A row is what the first dimension counts, so that servers have even parts of it. */
static gy_ps_table_options table_of(const gy_train_options *o, const gy_type *type)
{
    int64_t rows = type->rank > 0 ? type->sizes[0] : 1;
    int64_t width = 1;
    for (int i = 1; i < type->rank; i++) {
        width *= type->sizes[i];
    }
    if (width > width_max) {
        rows *= width;
        width = 1;
    }
    gy_ps_table_options table =
        GY_OPTIONS(gy_ps_table_options, .dtype = type->dtype, .width = (uint32_t)width,
                   .rows = (uint64_t)rows, .update = update_of(o->optimizer),
                   .sync = o->servers->sync, .rate = o->rate, .momentum = o->momentum,
                   .beta1 = o->beta1, .beta2 = o->beta2, .epsilon = o->epsilon);
    if (type->rank >= o->weight_decay_rank_min) {
        table.weight_decay = o->weight_decay;
    }
    return table;
}

/* A piece of the optimizer's state of a parameter. */
static gy_status state_tensor(gy_model *model, const gy_train_slot *slot, const char *what,
                              gy_tensor **tensor)
{
    char name[GY_TRAIN_NAME_BYTES];
    gy_print(name, sizeof(name), "%s/%s", slot->name, what);
    return gy_train_slot_tensor(model, name, tensor);
}

/* What worker 0's checkpoints keep of the servers. */
static gy_status find_served(gy_train_worker *worker, gy_model *model,
                             const gy_train_slot *slot, worker_table *made)
{
    for (int i = 0; i < worker->served; i++) {
        char name[GY_TRAIN_SERVED_BYTES];
        gy_train_served_name(i + 1, name);
        GY_TRY(state_tensor(model, slot, name, &made->served[i]));
    }
    return GY_OK;
}

static gy_status open_table(gy_train_worker *worker, gy_model *model, const gy_train_options *o,
                            const gy_train_slot *slot)
{
    worker_table *made = &worker->tables[worker->count];
    const gy_type *type =
        gy_graph_type(model->graph, (gy_value){slot->node.index, slot->node.output});
    const gy_ps_table_options options = table_of(o, type);
    const char *training = o->servers->name != NULL ? o->servers->name : model->name;
    char name[TABLE_NAME_BYTES];
    if (!gy_print_whole(name, sizeof(name), "%s/%s", training, slot->name)) {
        return gy_fail(GY_ARG, "table %s/%s: expected a name of up to %d characters", training,
                       slot->name, TABLE_NAME_BYTES - 1);
    }
    gy_print(made->name, sizeof(made->name), "%s", slot->name);
    GY_TRY(gy_train_slot_tensor(model, slot->name, &made->parameter));
    if (o->servers->fetch > 1) {
        gy_print(made->sum_name, sizeof(made->sum_name), "%s/%s", slot->name, GY_TRAIN_SUM);
        GY_TRY(state_tensor(model, slot, GY_TRAIN_SUM, &made->sum));
    }
    GY_TRY(find_served(worker, model, slot, made));
    GY_TRY(gy_ps_table_open(worker->ps, name, &options, &made->table));
    if (o->servers->codec.kind != GY_CODEC_NONE) {
        GY_TRY(state_tensor(model, slot, GY_TRAIN_RESIDUAL, &made->residual));
        GY_TRY(gy_ps_set_codec(made->table, o->servers->codec,
                               gy_tensor_pin(made->residual).data));
    }
    made->rows = (size_t)options.rows;
    made->view = gy_tensor_pin(made->parameter);
    worker->count++;
    return GY_OK;
}

static gy_status open_start(gy_train_worker *worker, const char *training)
{
    return gy_ps_table_open(worker->ps, training,
                            &GY_OPTIONS(gy_ps_table_options, .dtype = GY_I64, .rows = SAID,
                                        .update = GY_PS_SUM, .sync = gy_ps_bsp()),
                            &worker->start);
}

static gy_deadline patience(const gy_train_worker *worker)
{
    return gy_deadline_after(worker->timeout_s);
}

/* ---- Waits ---- */

/* Wait for one request of each table, and forget it; the first failure. */
static gy_status wait_all(gy_train_worker *worker, bool is_pull)
{
    gy_error first = {.status = GY_OK};
    const int64_t begun = gy_now_ns(gy_env_real());
    const gy_deadline deadline = patience(worker); /* of all together */
    for (size_t i = 0; i < worker->count; i++) {
        worker_table *at = &worker->tables[i];
        gy_ps_request **request = is_pull ? &at->pull : &at->push;
        gy_status status = gy_ps_wait(*request, deadline);
        *request = NULL;
        if (status < 0 && first.status == GY_OK) {
            gy_error_take(&first, status);
        }
    }
    worker->waited_ns += gy_now_ns(gy_env_real()) - begun;
    return first.status < 0 ? gy_error_raise(&first) : GY_OK;
}

/* Ask for a tensor of the session again, behind a run and before it is read or written: a
 * device has the newer value, and takes what is written with the next run. */
static gy_status bring(gy_train_worker *worker, const char *name)
{
    GY_ASSERT(name[0] != '\0');
    return gy_session_parameter(worker->session, name) != NULL
               ? GY_OK
               : gy_fail_within(GY_STATE, "parameter %s", name);
}

gy_status gy_train_worker_pull(gy_train_worker *worker)
{
    gy_status status = GY_OK;
    for (size_t i = 0; i < worker->count && status == GY_OK; i++) {
        worker_table *at = &worker->tables[i];
        GY_ASSERT(at->pull == NULL);
        status = bring(worker, at->name);
        status = status < 0 ? status
                            : gy_ps_pull(at->table, NULL, at->rows, at->view.data, &at->pull);
    }
    gy_error error;
    gy_error_take(&error, status);
    gy_status waited = wait_all(worker, true);
    return status < 0 ? gy_error_raise(&error) : waited;
}

static gy_status read_start(gy_train_worker *worker, int64_t said[SAID])
{
    gy_ps_request *pull = NULL;
    GY_TRY(gy_ps_pull(worker->start, NULL, SAID, said, &pull));
    const int64_t since = gy_now_ns(gy_env_real());
    gy_status status = gy_ps_wait(pull, patience(worker));
    worker->waited_ns += gy_now_ns(gy_env_real()) - since;
    return status;
}

/* Say it, and wait for the others; then *said is what all have said together. */
static gy_status say(gy_train_worker *worker, int64_t said[SAID])
{
    if (said[SAID_BEGUN] != 0 || said[SAID_OVER] != 0) {
        GY_TRY(gy_ps_push(worker->start, NULL, SAID, said, NULL));
    }
    GY_TRY(gy_ps_clock(worker->start));
    return read_start(worker, said);
}

/* ---- Begin and end ---- */

static gy_status put_state(gy_train_worker *worker, worker_table *at, uint64_t updates)
{
    for (int i = 0; i < worker->served && updates > 0; i++) {
        const gy_view view = gy_tensor_pin(at->served[i]);
        gy_status status = gy_ps_put_state(at->table, (uint32_t)i + 1, view.data, updates);
        gy_tensor_unpin(at->served[i]);
        GY_TRY(status);
    }
    return GY_OK;
}

gy_status gy_train_worker_take_state(gy_train_worker *worker, uint64_t *updates)
{
    *updates = 0;
    for (size_t t = 0; t < worker->count; t++) {
        const worker_table *at = &worker->tables[t];
        for (int i = 0; i < worker->served; i++) {
            uint64_t made = 0;
            const gy_view view = gy_tensor_pin(at->served[i]);
            gy_status status = gy_ps_pull_state(at->table, (uint32_t)i + 1, view.data, &made);
            gy_tensor_unpin(at->served[i]);
            GY_TRY(status);
            *updates = GY_MAX(*updates, made);
        }
    }
    return GY_OK;
}

static gy_status put_initial(gy_train_worker *worker, uint64_t updates)
{
    for (size_t i = 0; i < worker->count; i++) {
        worker_table *at = &worker->tables[i];
        GY_TRY(gy_ps_put(at->table, NULL, at->rows, at->view.data, NULL));
        GY_TRY(put_state(worker, at, updates));
    }
    return GY_OK;
}

/* What the servers have is not taken back: others may train with it. */
static gy_status join_begun(const gy_train_worker *worker)
{
    if (!worker->is_first) {
        return GY_OK;
    }
    if (worker->is_resumed) {
        return gy_fail(GY_EXISTS, "the servers have parameters of this training: a checkpoint "
                                  "is resumed at servers without them, or under another name");
    }
    gy_warn("the servers have parameters of this training: it goes on from them");
    return GY_OK;
}

gy_status gy_train_worker_meet(gy_train_worker *worker, uint64_t updates,
                               gy_train_meeting *meeting)
{
    int64_t said[SAID];
    GY_TRY(read_start(worker, said));
    if (said[SAID_BEGUN] > 0) {
        GY_TRY(join_begun(worker));
        worker->over_before = said[SAID_OVER];
    } else {
        if (worker->is_first) {
            GY_TRY(put_initial(worker, updates));
            said[SAID_BEGUN] = 1 + meeting->step;
            said[SAID_OVER] = meeting->is_over;
        }
        GY_TRY(say(worker, said));
    }
    if (said[SAID_BEGUN] == 0) {
        return gy_fail(GY_PEER, "worker 0 has left before it set the initial values");
    }
    meeting->step = worker->is_first ? meeting->step : said[SAID_BEGUN] - 1;
    meeting->is_over = said[SAID_OVER] > worker->over_before;
    return GY_OK;
}

gy_status gy_train_worker_agree(gy_train_worker *worker, bool *is_over)
{
    int64_t said[SAID] = {0};
    said[SAID_OVER] = worker->is_first && *is_over;
    GY_TRY(say(worker, said));
    *is_over = said[SAID_OVER] > worker->over_before;
    return GY_OK;
}

bool gy_train_worker_has_own(const gy_train_options *o)
{
    return o->servers->codec.kind != GY_CODEC_NONE ||
           (o->servers->fetch > 1 && gy_train_served_count(o->optimizer) > 0);
}

static gy_status open_all(gy_train_worker *worker, gy_model *model, const gy_train_options *o)
{
    const gy_train_servers *s = o->servers;
    GY_TRY(gy_ps_open(&GY_OPTIONS(gy_ps_options, .servers = s->servers, .lead = s->lead,
                                  .replicas = s->replicas, .key_file = s->key_file,
                                  .is_plaintext = s->is_plaintext, .worker = s->worker,
                                  .workers = s->workers, .timeout_s = worker->timeout_s),
                      &worker->ps));
    GY_TRY(open_start(worker, s->name != NULL ? s->name : model->name));
    for (size_t i = 0; i < model->slot_count; i++) {
        if (model->slots[i].kind == GY_SLOT_PARAMETER) {
            GY_TRY(open_table(worker, model, o, &model->slots[i]));
        }
    }
    return GY_OK;
}

gy_status gy_train_worker_open(gy_model *model, const gy_train_options *options,
                               gy_train_worker **worker)
{
    const double timeout_s = options->servers->timeout_s;
    gy_train_worker *made = gy_alloc_zero(
        "train.worker", 1, sizeof(*made) + model->slot_count * sizeof(made->tables[0]));
    if (made == NULL) {
        return GY_NOMEM;
    }
    gy_mutex_init(&made->lock, WORKER_LOCK_RANK);
    made->session = model->session;
    made->is_first = options->servers->worker == 0;
    made->is_resumed = options->resume;
    made->served = made->is_first && options->checkpoint_folder != NULL
                       ? gy_train_served_count(options->optimizer)
                       : 0;
    made->timeout_s = timeout_s > 0 ? timeout_s : timeout_default_s;
    gy_status status =
        timeout_s > 0 ? GY_OK : gy_base_setting_seconds("GYRE_TIMEOUT", &made->timeout_s);
    status = status == GY_OK ? open_all(made, model, options) : status;
    if (status < 0) {
        gy_error error;
        gy_error_take(&error, status);
        gy_train_worker_close(made);
        return gy_error_raise(&error);
    }
    *worker = made;
    return GY_OK;
}

void gy_train_worker_close(gy_train_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    gy_session_set_fetch_hook(worker->session, NULL, NULL);
    for (size_t i = 0; i < worker->count; i++) {
        (void)gy_ps_wait(worker->tables[i].push, gy_deadline_after(0));
        (void)gy_ps_wait(worker->tables[i].pull, gy_deadline_after(0));
        gy_tensor_unpin(worker->tables[i].parameter);
        if (worker->tables[i].residual != NULL) {
            gy_tensor_unpin(worker->tables[i].residual);
        }
    }
    gy_ps_close(worker->ps);
    gy_mutex_fini(&worker->lock);
    gy_free(worker);
}

/* ---- A clock ---- */

static void push_one(gy_train_worker *worker, size_t index, const void *gradient)
{
    worker_table *at = &worker->tables[index];
    gy_mutex_lock(&worker->lock);
    GY_ASSERT(at->push == NULL);
    if (worker->error.status == GY_OK) {
        gy_error_take(&worker->error,
                      gy_ps_push(at->table, NULL, at->rows, gradient, &at->push));
    }
    gy_mutex_unlock(&worker->lock);
}

/* A gradient is there: fetch 0 is the loss, the tables' follow. */
static bool on_fetch(void *arg, int index, const gy_view *value)
{
    gy_train_worker *worker = arg;
    if (index < 1 || (size_t)index > worker->count) {
        return false;
    }
    GY_ASSERT(gy_view_is_contiguous(value));
    push_one(worker, (size_t)index - 1, value->data);
    return true;
}

void gy_train_worker_begin(gy_train_worker *worker, double rate)
{
    for (size_t i = 0; i < worker->count; i++) {
        gy_ps_set_rate(worker->tables[i].table, rate);
    }
    worker->error = (gy_error){.status = GY_OK};
    gy_session_set_fetch_hook(worker->session, on_fetch, worker);
}

/* The last batch had no rows for this worker, those before it did. */
static gy_status push_sums(gy_train_worker *worker)
{
    for (size_t i = 0; i < worker->count; i++) {
        if (worker->tables[i].sum != NULL) {
            GY_TRY(bring(worker, worker->tables[i].sum_name));
            const gy_view view = gy_tensor_pin(worker->tables[i].sum);
            push_one(worker, i, view.data);
            gy_tensor_unpin(worker->tables[i].sum);
        }
    }
    return GY_OK;
}

static gy_status end_clock(gy_train_worker *worker)
{
    for (size_t i = 0; i < worker->count; i++) {
        GY_TRY(gy_ps_clock(worker->tables[i].table));
    }
    return gy_train_worker_pull(worker);
}

gy_status gy_train_worker_end(gy_train_worker *worker, gy_status ran)
{
    gy_error error;
    gy_session_set_fetch_hook(worker->session, NULL, NULL);
    gy_error_take(&error, ran);
    const gy_status summed = ran == GY_AGAIN ? push_sums(worker) : GY_OK;
    if (summed < 0) {
        gy_error_take(&error, summed);
        ran = summed;
    }
    gy_status waited = wait_all(worker, false);
    for (size_t i = 0; ran == GY_AGAIN && i < worker->count; i++) {
        if (worker->tables[i].sum != NULL) {
            const gy_view view = gy_tensor_pin(worker->tables[i].sum);
            memset(view.data, 0, (size_t)gy_view_count(&view) * gy_dtype_bytes(view.dtype));
            gy_tensor_unpin(worker->tables[i].sum);
        }
    }
    if (ran < 0) {
        return gy_error_raise(&error);
    }
    if (worker->error.status < 0) {
        return gy_error_raise(&worker->error);
    }
    GY_TRY(waited);
    return end_clock(worker);
}

gy_status gy_train_worker_finish(gy_train_worker *worker)
{
    int64_t said[SAID] = {0};
    GY_TRY(say(worker, said));
    return gy_train_worker_pull(worker);
}

int64_t gy_train_worker_waited_ns(const gy_train_worker *worker)
{
    return worker->waited_ns;
}
