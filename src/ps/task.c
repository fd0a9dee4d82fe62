/* Requests as tasks of an engine: they begin once what they read and write is free, and end
 * when the server has answered, so that what depends on the rows runs then (lecture B,
 * `on_data_received`). */
#include "ps/client_priv.h"

typedef struct ps_task {
    gy_ps_table *table;
    ps_order order;
    double timeout_s;
    gy_done *done;
} ps_task;

static void on_data_received(void *arg, gy_status status)
{
    ps_task *task = arg;
    if (status < 0) {
        gy_done_fail(task->done, status);
    } else {
        gy_done_ok(task->done);
    }
    gy_free(task);
}

static gy_status begin(const ps_task *task, gy_ps_request **request)
{
    const ps_order *order = &task->order;
    switch (order->kind) {
    case PS_KIND_PULL:
        return gy_ps_pull(task->table, order->keys, order->count, order->rows, request);
    case PS_KIND_BOTH:
        return gy_ps_push_pull(task->table, order->keys, order->count, order->values,
                               order->rows, request);
    case PS_KIND_PUSH:
    case PS_KIND_PUT:
    default:
        return gy_ps_push(task->table, order->keys, order->count, order->values, request);
    }
}

static void run(void *arg, gy_done *done)
{
    ps_task *task = arg;
    gy_ps_request *request = NULL;
    gy_status status = gy_done_cause(done); /* it runs in any case, to free the task */
    status = status == GY_OK ? begin(task, &request) : status;
    task->done = done;
    if (status < 0) {
        on_data_received(task, status);
        return;
    }
    gy_ps_then(request, gy_deadline_after(task->timeout_s), on_data_received, task);
}

gy_status gy_ps_push_task(gy_ps_table *table, const gy_ps_task *task)
{
    gy_ps_task o;
    GY_TRY(gy_options_take(gy_ps_task, &o, task));
    bool pushes = o.values != NULL, pulls = o.rows != NULL;
    if (o.engine == NULL || (!pushes && !pulls)) {
        return gy_fail(GY_ARG, "table %s: a task without an engine, or without values and rows",
                       table->name);
    }
    ps_task *made = gy_alloc_zero("ps.task", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    *made = (ps_task){.table = table,
                      .order = {.kind = pushes && pulls ? PS_KIND_BOTH
                                        : pushes        ? PS_KIND_PUSH
                                                        : PS_KIND_PULL,
                                .keys = o.keys,
                                .count = o.count,
                                .values = o.values,
                                .rows = o.rows},
                      .timeout_s = o.timeout_s > 0 ? o.timeout_s : table->ps->timeout_s};
    gy_var *const reads[] = {o.values_var}, *const mutates[] = {o.rows_var};
    gy_status status =
        gy_engine_push(o.engine, &(gy_task){.name = pulls ? "ps pull" : "ps push",
                                            .run = run,
                                            .arg = made,
                                            .scope = o.scope,
                                            .lane = GY_LANE_NETWORK,
                                            .reads = reads,
                                            .read_count = o.values_var != NULL,
                                            .mutates = mutates,
                                            .mutate_count = o.rows_var != NULL,
                                            .runs_poisoned = true,
                                            .priority = o.priority});
    if (status < 0) {
        gy_free(made);
    }
    return status;
}
