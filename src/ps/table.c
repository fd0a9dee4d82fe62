/* Tables of a worker, and what users call: push, pull, clock. */
#include "codec/codec.h"
#include "ps/client_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- Open ---- */

typedef struct opening {
    gy_ps_table *table;
    uint32_t part;
    int *pending;
    gy_error *error;
    uint64_t clock;
    uint64_t snapshot; /* that the part began from */
} opening;

static void on_opened(void *arg, gy_status status, const ProtobufCMessage *message)
{
    opening *at = arg;
    --*at->pending;
    if (status < 0) {
        gy_error_take(at->error, status);
        return;
    }
    const Gy__Ps__Opened *opened = (const Gy__Ps__Opened *)message;
    at->table->parts[at->part].id = opened->table;
    at->snapshot = opened->snapshot;
    at->clock = opened->clock;
    at->table->clock = GY_MAX(at->table->clock, opened->clock);
}

static void fill_open(const gy_ps *ps, uint32_t part, Gy__Ps__Table *shape, Gy__Ps__Open *open)
{
    gy__ps__open__init(open);
    open->table = shape;
    open->part = part;
    open->parts = ps->part_count;
    open->worker = ps->worker;
    open->workers = ps->workers;
    open->client = ps->client;
}

/* A new server of a part knows the table, but not that this worker is there. */
static void on_reopened(void *arg, gy_status status, const ProtobufCMessage *message)
{
    gy_ps_table *table = arg;
    (void)message;
    if (status < 0 && table->failure.status == GY_OK) {
        gy_error_take(&table->failure, status);
    }
}

void gy_ps_reopen(void *arg, uint32_t part)
{
    gy_ps *ps = arg;
    for (gy_ps_table *table = ps->tables; table != NULL; table = table->next) {
        double numbers[PS_NUMBERS];
        Gy__Ps__Table shape;
        Gy__Ps__Open open;
        gy_ps_table_tell(table->name, &table->options, numbers, &shape);
        if (table->has_failed || table->parts[part].id == 0) {
            continue; /* it is being opened, which is done again */
        }
        fill_open(ps, part, &shape, &open);
        open.is_again = true;
        gy_status status = gy_ps_route_call(ps->route, part, true,
                                            &(gy_rpc_request){.type = PS_OPEN,
                                                              .message = &open.base,
                                                              .deadline = GY_NEVER,
                                                              .done = on_reopened,
                                                              .arg = table},
                                            NULL);
        if (status < 0 && table->failure.status == GY_OK) {
            gy_error_take(&table->failure, status);
        }
    }
}

/* Without a lead nobody else sees that servers began from different snapshots. */
static gy_status check_snapshots(const gy_ps *ps, const gy_ps_table *table,
                                 const opening *openings)
{
    for (uint32_t i = 1; i < ps->part_count; i++) {
        if (openings[i].snapshot != openings[0].snapshot) {
            return gy_fail(GY_MISMATCH,
                           "table %s: servers %s and %s have not begun from the same snapshot",
                           table->name, ps->targets[0].address, ps->targets[i].address);
        }
    }
    return GY_OK;
}

static void on_clock(void *arg, gy_status status, const ProtobufCMessage *message)
{
    gy_ps_table *table = arg;
    (void)message;
    table->clocks_pending--;
    if (status < 0 && table->failure.status == GY_OK) {
        gy_error_take(&table->failure, status);
    }
}

static gy_status call_clock(gy_ps_table *table, uint32_t part, uint64_t number,
                            gy_deadline deadline)
{
    gy_ps *ps = table->ps;
    Gy__Ps__Clock clock;
    gy__ps__clock__init(&clock);
    clock.table = table->parts[part].id;
    clock.worker = ps->worker;
    clock.client = ps->client;
    clock.clock = number;
    GY_TRY(gy_ps_call(ps, part,
                      &(gy_rpc_request){.type = PS_CLOCK,
                                        .message = &clock.base,
                                        .deadline = deadline,
                                        .done = on_clock,
                                        .arg = table},
                      NULL, deadline));
    table->clocks_pending++;
    return GY_OK;
}

/* Others have moved while this worker joined one part after the other: it begins at the latest
 * clock, which it makes at all parts. */
static gy_status catch_up(gy_ps *ps, gy_ps_table *table, const opening *openings)
{
    const gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    gy_status status = check_snapshots(ps, table, openings);
    for (uint32_t i = 0; i < ps->part_count; i++) {
        for (uint64_t at = openings[i].clock; at < table->clock && status == GY_OK; at++) {
            status = call_clock(table, i, at + 1, deadline);
        }
    }
    gy_error why;
    gy_error_take(&why, status);
    (void)gy_ps_drive(ps, &table->clocks_pending, GY_NEVER); /* the calls have a deadline */
    return status < 0                  ? gy_error_raise(&why)
           : table->failure.status < 0 ? gy_error_raise(&table->failure)
                                       : GY_OK;
}

static gy_status open_parts(gy_ps *ps, gy_ps_table *table, opening *openings)
{
    double numbers[PS_NUMBERS];
    Gy__Ps__Table shape;
    gy_error error = {.status = GY_OK};
    gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    gy_status status = GY_OK;
    int pending = 0;
    gy_ps_table_tell(table->name, &table->options, numbers, &shape);
    for (uint32_t i = 0; i < ps->part_count && status == GY_OK; i++) {
        Gy__Ps__Open open;
        fill_open(ps, i, &shape, &open);
        openings[i] =
            (opening){.table = table, .part = i, .pending = &pending, .error = &error};
        status = gy_ps_call(ps, i,
                            &(gy_rpc_request){.type = PS_OPEN,
                                              .message = &open.base,
                                              .deadline = deadline,
                                              .done = on_opened,
                                              .arg = &openings[i]},
                            NULL, deadline);
        pending += status == GY_OK;
    }
    gy_error why;
    gy_error_take(&why, status);
    (void)gy_ps_drive(ps, &pending, GY_NEVER); /* the calls have a deadline */
    return status < 0         ? gy_error_raise(&why)
           : error.status < 0 ? gy_error_raise(&error)
                              : catch_up(ps, table, openings);
}

gy_status gy_ps_table_open(gy_ps *ps, const char *name, const gy_ps_table_options *options,
                           gy_ps_table **table)
{
    gy_ps_table_options judged;
    GY_TRY(gy_ps_table_judge(name, options, ps->workers, &judged));
    size_t size = sizeof(gy_ps_table) + ps->part_count * sizeof(ps_table_part);
    gy_ps_table *made = gy_alloc_zero("ps.table", 1, size);
    opening *openings = gy_alloc_zero("ps.table", ps->part_count, sizeof(*openings));
    if (made == NULL || openings == NULL) {
        gy_free(made);
        gy_free(openings);
        return GY_NOMEM;
    }
    made->ps = ps;
    made->options = judged;
    made->row_bytes = judged.width * gy_dtype_bytes(judged.dtype);
    snprintf(made->name, sizeof(made->name), "%s", name);
    if (judged.function != NULL) {
        snprintf(made->function, sizeof(made->function), "%s", judged.function);
        made->options.function = made->function;
    }
    gy_ps_enter(ps);
    made->next = ps->tables; /* a part that is open has to be opened at a new head as well */
    ps->tables = made;
    gy_status status = open_parts(ps, made, openings);
    if (status == GY_OK) {
        *table = made;
    } else {
        made->has_failed = true; /* freed with the client */
    }
    gy_error why;
    gy_error_take(&why, status);
    gy_ps_leave(ps);
    gy_free(openings);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}

/* ---- Requests ---- */

/* The failure of a clock is that of the next call. */
static gy_status check_clock(const gy_ps_table *table)
{
    if (table->failure.status == GY_OK) {
        return GY_OK;
    }
    return gy_error_raise(&table->failure);
}

/* What a wait of so long was for. */
static void count_wait(gy_ps_stats *stats, const gy_ps_request *request, double wait_s)
{
    if (!gy_ps_kind_pulls(request->kind)) {
        stats->push_wait_s += wait_s;
        return;
    }
    double clock_s = GY_MIN((double)request->waited_ns / 1e9, wait_s);
    stats->clock_wait_s += clock_s;
    stats->pull_wait_s += wait_s - clock_s;
}

/* Wait under the lock. */
static void wait_inside(gy_ps *ps, gy_ps_request *request, gy_deadline deadline)
{
    gy_env *env = gy_env_real();
    int64_t begun_ns = gy_now_ns(env);
    if (gy_ps_drive(ps, &request->pending, deadline) == GY_TIMEOUT) {
        gy_error_take(&request->error, gy_ps_request_blame(request));
        gy_ps_request_cancel(request);
    }
    count_wait(&ps->stats, request, (double)(gy_now_ns(env) - begun_ns) / 1e9);
}

static gy_status finish(gy_ps_request *request)
{
    gy_error why = request->error;
    gy_ps_request_free(request);
    return why.status < 0 ? gy_error_raise(&why) : GY_OK;
}

/* Take rows that were prefetched, or make the calls. */
static gy_status begin(gy_ps_table *table, gy_ps_request **request)
{
    gy_ps_request *made = *request;
    GY_TRY(check_clock(table));
    gy_ps_prefetch_drop(table, false);
    if (made->kind == PS_KIND_PULL && made->slot == 0 && table->prefetched != NULL) {
        gy_ps_request *found = gy_ps_prefetch_find(table, made->keys, made->count);
        if (found != NULL) {
            gy_ps_prefetch_take(found, made->rows);
            gy_ps_request_free(made);
            table->ps->stats.prefetched++;
            *request = found;
            return GY_OK;
        }
    }
    return gy_ps_request_start(made);
}

static gy_status start(gy_ps_table *table, const ps_order *order, gy_ps_request **out)
{
    gy_ps *ps = table->ps;
    gy_ps_request *request = NULL;
    GY_TRY(gy_ps_request_new(table, order, &request));
    gy_ps_enter(ps);
    gy_status status = begin(table, &request);
    gy_error why;
    gy_error_take(&why, status);
    if (status == GY_OK && out == NULL) {
        wait_inside(ps, request, gy_deadline_after(ps->timeout_s));
    }
    gy_ps_leave(ps);
    if (status < 0) {
        gy_ps_request_free(request);
        return gy_error_raise(&why);
    }
    if (out == NULL) {
        return finish(request);
    }
    *out = request;
    return GY_OK;
}

gy_status gy_ps_push(gy_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                     gy_ps_request **request)
{
    return start(
        table,
        &(ps_order){.kind = PS_KIND_PUSH, .keys = keys, .count = count, .values = values},
        request);
}

gy_status gy_ps_put(gy_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                    gy_ps_request **request)
{
    return start(
        table, &(ps_order){.kind = PS_KIND_PUT, .keys = keys, .count = count, .values = values},
        request);
}

gy_status gy_ps_pull(gy_ps_table *table, const uint64_t *keys, size_t count, void *values,
                     gy_ps_request **request)
{
    return start(
        table, &(ps_order){.kind = PS_KIND_PULL, .keys = keys, .count = count, .rows = values},
        request);
}

/* How many arrays the update keeps, servers say. */
static gy_status judge_state(const gy_ps_table *table, uint32_t slot)
{
    return !table->options.is_sparse && slot > 0
               ? GY_OK
               : gy_fail(GY_ARG,
                         "table %s: state %u of its update: expected 1 and up, of a dense "
                         "table",
                         table->name, slot);
}

gy_status gy_ps_put_state(gy_ps_table *table, uint32_t slot, const void *values,
                          uint64_t updates)
{
    GY_TRY(judge_state(table, slot));
    return start(table,
                 &(ps_order){.kind = PS_KIND_PUT,
                             .count = (size_t)table->options.rows,
                             .values = values,
                             .slot = slot,
                             .updates = updates},
                 NULL);
}

gy_status gy_ps_pull_state(gy_ps_table *table, uint32_t slot, void *values, uint64_t *updates)
{
    *updates = 0;
    GY_TRY(judge_state(table, slot));
    GY_TRY(start(table,
                 &(ps_order){.kind = PS_KIND_PULL,
                             .count = (size_t)table->options.rows,
                             .rows = values,
                             .slot = slot},
                 NULL));
    gy_mutex_lock(&table->ps->lock);
    for (uint32_t i = 0; i < table->ps->part_count; i++) {
        *updates = GY_MAX(*updates, table->parts[i].seen);
    }
    gy_mutex_unlock(&table->ps->lock);
    return GY_OK;
}

gy_status gy_ps_push_pull(gy_ps_table *table, const uint64_t *keys, size_t count,
                          const void *values, void *rows, gy_ps_request **request)
{
    return start(
        table,
        &(ps_order){
            .kind = PS_KIND_BOTH, .keys = keys, .count = count, .values = values, .rows = rows},
        request);
}

gy_status gy_ps_set_codec(gy_ps_table *table, gy_codec codec, void *residual)
{
    const gy_ps_table_options *o = &table->options;
    GY_TRY(gy_codec_check(codec));
    if (codec.kind != GY_CODEC_NONE && (o->is_sparse || o->dtype == GY_I64)) {
        return gy_fail(GY_ARG, "table %s: a codec is of dense tables of floating point",
                       table->name);
    }
    gy_mutex_lock(&table->ps->lock);
    table->codec = codec;
    table->residual = residual;
    gy_mutex_unlock(&table->ps->lock);
    return GY_OK;
}

void gy_ps_set_rate(gy_ps_table *table, double rate)
{
    gy_mutex_lock(&table->ps->lock);
    table->rate = rate;
    gy_mutex_unlock(&table->ps->lock);
}

gy_status gy_ps_wait(gy_ps_request *request, gy_deadline deadline)
{
    if (request == NULL) {
        return GY_OK;
    }
    gy_ps *ps = request->table->ps;
    GY_ASSERT(request->done == NULL); /* one that calls a function is not waited for */
    gy_ps_enter(ps);
    wait_inside(ps, request, deadline);
    gy_ps_leave(ps);
    return finish(request);
}

/* ---- Clocks ---- */

static gy_status call_clocks(gy_ps_table *table)
{
    gy_ps *ps = table->ps;
    gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    GY_TRY(check_clock(table));
    table->clock++;
    ps->stats.clocks++;
    for (uint32_t i = 0; i < ps->part_count; i++) {
        GY_TRY(call_clock(table, i, table->clock, deadline));
    }
    return GY_OK;
}

gy_status gy_ps_clock(gy_ps_table *table)
{
    gy_ps_enter(table->ps);
    gy_status status = call_clocks(table);
    gy_error why;
    gy_error_take(&why, status);
    gy_ps_leave(table->ps);
    return status < 0 ? gy_error_raise(&why) : GY_OK;
}

void gy_ps_stats_read(gy_ps *ps, gy_ps_stats *stats)
{
    gy_mutex_lock(&ps->lock);
    *stats = ps->stats;
    gy_mutex_unlock(&ps->lock);
}
