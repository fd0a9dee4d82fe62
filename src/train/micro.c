/*
 * Micro-batches: each batch in parts that are computed one after the other, whose gradients the
 * graph adds up, each weighed by its share of the update's rows. Part k of m has rows
 * [k b / m, (k + 1) b / m) of a batch of b, also none; of each part every rank along data has
 * its rows, also none.
 */
#include "coll/coll.h"
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <math.h>
#include <string.h>

struct gy_train_micros {
    gy_model *model;
    int count;
    gy_micro_batch *micros;           /* (count) */
    gy_batch *batches;                /* (count) memory for this rank's rows */
    gy_feed *feeds;                   /* (count, 3): x, labels, share */
    gy_tensor **shares;               /* (count) scalars */
    gy_tensor **results;              /* (count, gather_count) */
    gy_pipe_schedule *planned;        /* NULL: none was */
    const gy_pipe_schedule *schedule; /* what is run; NULL: one after the other */
};

static bool has_pipe(const gy_model *model)
{
    return model->mesh != NULL && model->mesh->stages > 1;
}

gy_status gy_train_micros_check(const gy_model *model, const gy_train_options *options)
{
    const gy_pipe_schedule *lists = options->pipe_lists;
    const bool is_pipe =
        options->pipe_schedule != NULL || lists != NULL || options->chunks != 0;
    if (options->pipe_schedule != NULL && lists != NULL) {
        return gy_fail(GY_ARG, "training: a schedule and lists, expected one of them");
    }
    if (is_pipe && options->micro_batches == 0) {
        return gy_fail(GY_ARG,
                       "training: a schedule of stages is of micro-batches: say how many");
    }
    if (is_pipe && !has_pipe(model)) {
        return gy_fail(GY_ARG,
                       "training: a schedule of stages, and the mesh has no axis pipe of "
                       "at least 2 ranks");
    }
    if (options->chunks < 0 || options->chunks > GY_STAGES_MAX) {
        return gy_fail(GY_ARG, "training: %d chunks, expected 1 to %d", options->chunks,
                       GY_STAGES_MAX);
    }
    if (lists != NULL && options->chunks > 0 &&
        lists->stages != options->chunks * lists->ranks) {
        return gy_fail(GY_ARG, "training: %d chunks, and lists of %d stages on %d ranks",
                       options->chunks, lists->stages, lists->ranks);
    }
    if (lists != NULL &&
        (lists->ranks != model->mesh->stages || lists->stages % lists->ranks != 0 ||
         lists->micros != options->micro_batches)) {
        return gy_fail(GY_ARG,
                       "training: lists of %d ranks, %d stages and %d micro-batches, expected "
                       "%d ranks, as many stages on each and %d micro-batches",
                       lists->ranks, lists->stages, lists->micros, model->mesh->stages,
                       options->micro_batches);
    }
    return GY_OK;
}

int gy_train_chunks(const gy_model *model, const gy_train_options *options)
{
    const bool is_interleaved =
        options->pipe_schedule != NULL && strcmp(options->pipe_schedule, "interleaved") == 0;
    if (!has_pipe(model) || options->micro_batches == 0) {
        return 0;
    }
    if (options->pipe_lists != NULL) {
        return options->pipe_lists->stages / options->pipe_lists->ranks;
    }
    return options->chunks > 0 ? options->chunks : is_interleaved ? 2 : 1;
}

gy_status gy_train_plan_pipe(const gy_model *model, const gy_train_options *options,
                             gy_pipe_schedule **planned, const gy_pipe_schedule **schedule)
{
    *planned = NULL;
    if (!has_pipe(model) || options->micro_batches == 0 || options->pipe_lists != NULL) {
        *schedule = has_pipe(model) && options->micro_batches > 0 ? options->pipe_lists : NULL;
        return GY_OK;
    }
    const gy_pipe_query query = {
        .schedule = options->pipe_schedule != NULL ? options->pipe_schedule : "1f1b",
        .ranks = model->mesh->stages,
        .micros = options->micro_batches,
        .chunks = gy_train_chunks(model, options)};
    GY_TRY(gy_pipe_plan(&query, planned));
    *schedule = *planned;
    return GY_OK;
}

static gy_status make_room(gy_train_micros *micros, int64_t rows)
{
    const gy_model *model = micros->model;
    /* A smaller batch may give this rank one row more than rounding gave it here. */
    const int64_t most = (rows + micros->count - 1) / micros->count;
    const int64_t own = most / gy_model_row_ranks(model) + 2;
    for (int k = 0; k < micros->count; k++) {
        GY_TRY(gy_batch_new(model, own, &micros->batches[k]));
        GY_TRY(gy_tensor_zeros(NULL, model->dtype, NULL, 0, &micros->shares[k]));
    }
    return GY_OK;
}

gy_status gy_train_micros_new(gy_model *model, const gy_train_options *options, int64_t rows,
                              gy_train_micros **micros)
{
    static const char what[] = "train.micros";
    const int count = options->micro_batches;
    GY_ASSERT(count >= 1 && rows >= 1 && model->update.gather_count > 0);
    gy_train_micros *made = gy_alloc_zero(what, 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    const size_t n = (size_t)count;
    made->model = model;
    made->count = count;
    made->micros = gy_alloc_zero(what, n, sizeof(*made->micros));
    made->batches = gy_alloc_zero(what, n, sizeof(*made->batches));
    made->feeds = gy_alloc_zero(what, 3 * n, sizeof(*made->feeds));
    made->shares = gy_alloc_zero(what, n, sizeof(gy_tensor *));
    made->results =
        gy_alloc_zero(what, n * (size_t)model->update.gather_count, sizeof(gy_tensor *));
    const bool is_there = made->micros != NULL && made->batches != NULL &&
                          made->feeds != NULL && made->shares != NULL && made->results != NULL;
    gy_status status = is_there ? make_room(made, rows) : GY_NOMEM;
    status = status >= 0 ? gy_train_plan_pipe(model, options, &made->planned, &made->schedule)
                         : status;
    if (status < 0) {
        made->count = is_there ? count : 0;
        gy_train_micros_free(made);
        return status;
    }
    *micros = made;
    return GY_OK;
}

void gy_train_micros_free(gy_train_micros *micros)
{
    if (micros == NULL) {
        return;
    }
    for (int k = 0; k < micros->count; k++) {
        gy_batch_free(&micros->batches[k]);
        gy_tensor_drop(micros->shares[k]);
    }
    gy_pipe_free(micros->planned);
    gy_free(micros->micros);
    gy_free(micros->batches);
    gy_free(micros->feeds);
    gy_free(micros->shares);
    gy_free(micros->results);
    gy_free(micros);
}

/* x and labels of the last batch. */
static void drop_feeds(gy_train_micros *micros)
{
    for (int k = 0; k < micros->count; k++) {
        for (int i = 0; i < 2; i++) {
            gy_tensor_drop(micros->feeds[3 * k + i].tensor);
            micros->feeds[3 * k + i].tensor = NULL;
        }
    }
}

gy_status gy_train_micros_fill(gy_train_micros *micros, gy_dataset *dataset,
                               const int64_t *indices, int64_t rows, int64_t update_rows)
{
    GY_ASSERT(rows >= 1 && update_rows >= rows);
    const gy_model *model = micros->model;
    gy_status status = GY_OK;
    for (int k = 0; k < micros->count && status >= 0; k++) {
        gy_feed *feeds = micros->feeds + 3 * (size_t)k;
        gy_micro_batch *micro = &micros->micros[k];
        int64_t first = 0, last = 0;
        micro->first = gy_part_begin(rows, k, micros->count);
        micro->rows = gy_part_begin(rows, k + 1, micros->count) - micro->first;
        micro->feeds = feeds;
        micro->feed_count = 3;
        gy_model_part(model, micro->rows, &first, &last);
        feeds[0].node = model->x;
        feeds[1].node = model->labels;
        feeds[2] = (gy_feed){model->update.share, micros->shares[k]};
        gy_tensor_set(micros->shares[k], 0, (double)micro->rows / (double)update_rows);
        status = gy_batch_fill(&micros->batches[k], dataset, indices + micro->first + first,
                               last - first, &feeds[0].tensor, &feeds[1].tensor);
        if (status < 0) {
            feeds[0].tensor = feeds[1].tensor = NULL;
        }
    }
    if (status < 0) {
        drop_feeds(micros);
    }
    return status;
}

gy_status gy_train_micros_run(gy_train_micros *micros, double *loss)
{
    const gy_update *u = &micros->model->update;
    const gy_micro_run run =
        GY_OPTIONS(gy_micro_run, .micros = micros->micros, .count = micros->count,
                   .fetches = u->gather_fetches, .fetch_count = u->gather_count,
                   .schedule = micros->schedule, .loss = 0);
    const gy_status status =
        gy_session_run_micros(micros->model->session, &run, micros->results);
    drop_feeds(micros);
    GY_TRY(status);
    *loss = 0;
    for (int k = 0; k < micros->count; k++) {
        gy_tensor **results = micros->results + (size_t)k * (size_t)u->gather_count;
        if (micros->micros[k].rows > 0) {
            *loss += gy_tensor_get(results[0], 0) * gy_tensor_get(micros->shares[k], 0);
        }
        for (int i = 0; i < u->gather_count; i++) {
            gy_tensor_drop(results[i]);
            results[i] = NULL;
        }
    }
    return GY_OK;
}

/* ---- where the time goes ---- */

void gy_train_account_begin(const gy_model *model, gy_train_clock *clock)
{
    GY_ASSERT(model->session != NULL);
    *clock = (gy_train_clock){.session = gy_session_statistics(model->session),
                              .begun_ns = gy_now_ns(gy_env_real()),
                              .input_ns = model->input_ns};
}

void gy_train_account_leave_out(const gy_model *model, const gy_train_clock *from,
                                gy_train_clock *clock)
{
    const gy_session_stats now = gy_session_statistics(model->session);
    const gy_session_stats *then = &from->session;
    gy_session_stats *aside = &clock->aside;
    GY_ASSERT(from->begun_ns >= clock->begun_ns && now.compute_s >= then->compute_s);
    aside->compute_s += now.compute_s - then->compute_s;
    aside->exposed_communication_s +=
        now.exposed_communication_s - then->exposed_communication_s;
    aside->hidden_communication_s += now.hidden_communication_s - then->hidden_communication_s;
    aside->bubble_s += now.bubble_s - then->bubble_s;
    clock->aside_ns += gy_now_ns(gy_env_real()) - from->begun_ns;
    clock->aside_input_ns += model->input_ns - from->input_ns;
}

void gy_train_account_take(const gy_model *model, const gy_train_clock *clock,
                           gy_train_result *result)
{
    const gy_session_stats now = gy_session_statistics(model->session);
    const gy_session_stats *then = &clock->session, *aside = &clock->aside;
    GY_ASSERT(now.compute_s >= then->compute_s && model->input_ns >= clock->input_ns);
    result->wall_s = (double)(gy_now_ns(gy_env_real()) - clock->begun_ns) / 1e9;
    result->aside_s = (double)clock->aside_ns / 1e9;
    result->compute_s = fmax(now.compute_s - then->compute_s - aside->compute_s, 0);
    result->exposed_communication_s =
        fmax(now.exposed_communication_s - then->exposed_communication_s -
                 aside->exposed_communication_s,
             0);
    result->hidden_communication_s =
        fmax(now.hidden_communication_s - then->hidden_communication_s -
                 aside->hidden_communication_s,
             0);
    result->bubble_s = fmax(now.bubble_s - then->bubble_s - aside->bubble_s, 0);
    result->input_s = (double)(model->input_ns - clock->input_ns - clock->aside_input_ns) / 1e9;
}

static uint64_t ns_of(double seconds)
{
    return seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
}

void gy_train_account_record(const gy_model *model, const gy_train_result *result,
                             int64_t steps)
{
    GY_ASSERT(steps >= 0);
    const gy_flight_account account = {.steps = (uint64_t)steps,
                                       .wall_ns = ns_of(result->wall_s - result->aside_s),
                                       .compute_ns = ns_of(result->compute_s),
                                       .bubble_ns = ns_of(result->bubble_s),
                                       .transfer_ns = ns_of(result->exposed_communication_s),
                                       .input_ns = ns_of(result->input_s)};
    if (model->comm != NULL) {
        gy_comm_record_account(model->comm, &account);
    }
}

gy_status gy_train_account_all(const gy_model *model, gy_train_result *result)
{
    if (!has_pipe(model)) {
        return GY_OK;
    }
    const int ranks = gy_comm_size(model->comm);
    const gy_train_account own = {.wall_s = result->wall_s,
                                  .compute_s = result->compute_s,
                                  .bubble_s = result->bubble_s,
                                  .exposed_communication_s = result->exposed_communication_s,
                                  .input_s = result->input_s,
                                  .aside_s = result->aside_s};
    GY_ASSERT(result->accounts == NULL);
    result->accounts = gy_alloc_zero("train.accounts", (size_t)ranks, sizeof(own));
    GY_TRY(gy_train_tell(model->comm, result->accounts != NULL ? GY_OK : GY_NOMEM));
    result->account_count = ranks;
    return gy_allgather(model->comm, &own, result->accounts, sizeof(own) / sizeof(double),
                        GY_F64);
}

void gy_train_result_free(gy_train_result *result)
{
    gy_free(result->losses);
    gy_free(result->accounts);
    result->losses = NULL;
    result->accounts = NULL;
    result->account_count = 0;
}
