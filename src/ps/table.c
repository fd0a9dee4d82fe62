/* Tables of a worker: push, pull and clock, each as one call to every server that has some of
 * the rows. */
#include "ps/client_priv.h"

#include <stdio.h>
#include <string.h>

/* What one server has of a request. */
typedef struct ps_piece {
    gy_ps_request *request;
    uint32_t part;
    bool is_made;        /* its call was made */
    uint64_t call;       /* its number */
    size_t begin, count; /* rows of the request, unless `places` says which */
    uint32_t *places;
    uint8_t *buffer; /* keys, and values behind them, or room for them */
    size_t buffer_bytes;
} ps_piece;

struct gy_ps_request {
    gy_ps_table *table;
    bool is_pull, is_put;
    int pending; /* pieces */
    uint64_t number, first;
    const uint64_t *keys;
    size_t count;
    uint8_t *values; /* of the caller; read, or of a pull written */
    gy_error error;
    uint32_t piece_count;
    ps_piece pieces[];
};

/* ---- Open ---- */

typedef struct opening {
    gy_ps_table *table;
    uint32_t part;
    int *pending;
    gy_error *error;
    uint64_t *clock;
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
    *at->clock = GY_MAX(*at->clock, opened->clock);
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
        gy__ps__open__init(&open);
        open.table = &shape;
        open.part = i;
        open.parts = ps->part_count;
        open.worker = ps->worker;
        open.workers = ps->workers;
        open.client = ps->client;
        openings[i] = (opening){.table = table,
                                .part = i,
                                .pending = &pending,
                                .error = &error,
                                .clock = &table->clock};
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
                              : GY_OK;
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
    gy_status status = open_parts(ps, made, openings);
    if (status == GY_OK) {
        made->next = ps->tables;
        ps->tables = made;
        *table = made;
    }
    gy_error why;
    gy_error_take(&why, status);
    gy_ps_leave(ps);
    gy_free(openings);
    if (status < 0) {
        gy_free(made);
        return gy_error_raise(&why);
    }
    return GY_OK;
}

/* ---- Pieces ---- */

static gy_status judge_rows(const gy_ps_table *table, const uint64_t *keys, size_t count)
{
    const gy_ps_table_options *o = &table->options;
    if (o->is_sparse) {
        GY_ASSERT(keys != NULL || count == 0);
        return gy_ps_keys_check(o, keys, count, UINT32_MAX, 1) == GY_OK
                   ? GY_OK
                   : gy_fail(GY_ARG, "table %s: %s", table->name, gy_error_text());
    }
    uint64_t first = keys != NULL ? *keys : 0;
    if (first > o->rows || count > o->rows - first) {
        return gy_fail(GY_ARG, "table %s: rows %llu to %llu of %llu", table->name,
                       (unsigned long long)first, (unsigned long long)(first + count),
                       (unsigned long long)o->rows);
    }
    return GY_OK;
}

static void cut_dense(gy_ps_request *request, uint64_t first, size_t count)
{
    const gy_ps_table *table = request->table;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        uint64_t from = 0, end = 0;
        gy_ps_part_range(&table->options, i, request->piece_count, &from, &end);
        from = GY_MAX(from, first);
        end = GY_MIN(end, first + count);
        if (from < end) {
            request->pieces[i].begin = (size_t)(from - first);
            request->pieces[i].count = (size_t)(end - from);
        }
    }
    request->first = first;
}

/* By range each server has consecutive keys; by hash the places of its keys are listed. */
static gy_status cut_sparse(gy_ps_request *request)
{
    const gy_ps_table_options *o = &request->table->options;
    uint32_t parts = request->piece_count;
    for (size_t i = 0; i < request->count; i++) {
        ps_piece *piece = &request->pieces[gy_ps_key_part(o, request->keys[i], parts)];
        piece->begin = piece->count == 0 ? i : piece->begin;
        piece->count++;
    }
    if (o->is_by_range || parts == 1) {
        return GY_OK;
    }
    for (uint32_t i = 0; i < parts; i++) {
        ps_piece *piece = &request->pieces[i];
        if (piece->count > 0) {
            piece->places = gy_alloc("ps.places", piece->count * sizeof(*piece->places));
            if (piece->places == NULL) {
                return GY_NOMEM;
            }
            piece->count = 0;
        }
    }
    for (size_t i = 0; i < request->count; i++) {
        ps_piece *piece = &request->pieces[gy_ps_key_part(o, request->keys[i], parts)];
        piece->places[piece->count++] = (uint32_t)i;
    }
    return GY_OK;
}

static size_t place_of(const ps_piece *piece, size_t i)
{
    return piece->places != NULL ? piece->places[i] : piece->begin + i;
}

/* Keys, and the values of a push, in one buffer, as they lie beside a message. */
static gy_status fill_buffer(ps_piece *piece)
{
    const gy_ps_request *request = piece->request;
    size_t row = request->table->row_bytes, keys = piece->count * sizeof(uint64_t);
    bool has_values = !request->is_pull || piece->places != NULL;
    piece->buffer_bytes = keys + (has_values ? piece->count * row : 0);
    piece->buffer = gy_alloc("ps.buffer", piece->buffer_bytes);
    if (piece->buffer == NULL) {
        return GY_NOMEM;
    }
    uint64_t *to = (uint64_t *)(void *)piece->buffer;
    for (size_t i = 0; i < piece->count; i++) {
        to[i] = request->keys[place_of(piece, i)];
    }
    for (size_t i = 0; i < piece->count && !request->is_pull; i++) {
        memcpy(piece->buffer + keys + i * row, request->values + place_of(piece, i) * row, row);
    }
    return GY_OK;
}

static gy_status request_new(gy_ps_table *table, const uint64_t *keys, size_t count,
                             uint8_t *values, gy_ps_request **request)
{
    uint32_t parts = table->ps->part_count;
    GY_TRY(judge_rows(table, keys, count));
    if (count >= UINT32_MAX) {
        return gy_fail(GY_LIMIT, "table %s: %zu rows at a time", table->name, count);
    }
    gy_ps_request *made =
        gy_alloc_zero("ps.request", 1, sizeof(*made) + parts * sizeof(made->pieces[0]));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->table = table;
    made->keys = keys;
    made->count = count;
    made->values = values;
    made->piece_count = parts;
    for (uint32_t i = 0; i < parts; i++) {
        made->pieces[i].request = made;
        made->pieces[i].part = i;
    }
    *request = made;
    return GY_OK;
}

static void request_free(gy_ps_request *request)
{
    for (uint32_t i = 0; i < request->piece_count; i++) {
        gy_free(request->pieces[i].places);
        gy_free(request->pieces[i].buffer);
    }
    gy_free(request);
}

/* ---- Calls ---- */

static void end_piece(ps_piece *piece, gy_status status)
{
    gy_ps_request *request = piece->request;
    piece->is_made = false;
    request->pending--;
    if (status < 0 && request->error.status == GY_OK) {
        gy_error_take(&request->error, status);
    }
}

static void on_pushed(void *arg, gy_status status, const ProtobufCMessage *message)
{
    (void)message;
    end_piece(arg, status);
}

/* Where the rows of a pull go: to the caller's memory at once, or by way of the buffer. */
static uint8_t *room_of(const ps_piece *piece)
{
    const gy_ps_request *request = piece->request;
    return piece->places != NULL ? piece->buffer + piece->count * sizeof(uint64_t)
                                 : request->values + piece->begin * request->table->row_bytes;
}

static gy_status admit_rows(void *arg, const ProtobufCMessage *message, size_t size_bytes,
                            void **room)
{
    const ps_piece *piece = arg;
    size_t wanted = piece->count * piece->request->table->row_bytes;
    (void)message;
    if (size_bytes != wanted) {
        return gy_fail(GY_SHAPE, "%zu bytes of rows: expected %zu", size_bytes, wanted);
    }
    *room = room_of(piece);
    return GY_OK;
}

static void on_pulled(void *arg, gy_status status, const ProtobufCMessage *message)
{
    ps_piece *piece = arg;
    gy_ps_request *request = piece->request;
    size_t row = request->table->row_bytes;
    if (status == GY_OK) {
        const Gy__Ps__Rows *rows = (const Gy__Ps__Rows *)message;
        request->table->parts[piece->part].seen = rows->updates;
    }
    for (size_t i = 0; status == GY_OK && piece->places != NULL && i < piece->count; i++) {
        memcpy(request->values + piece->places[i] * row, room_of(piece) + i * row, row);
    }
    end_piece(piece, status);
}

static gy_status call_push(ps_piece *piece, gy_deadline deadline)
{
    const gy_ps_request *request = piece->request;
    gy_ps_table *table = request->table;
    ps_table_part *part = &table->parts[piece->part];
    Gy__Ps__Push push;
    gy__ps__push__init(&push);
    push.table = part->id;
    push.worker = table->ps->worker;
    push.client = table->ps->client;
    push.number = request->number;
    push.clock = table->clock;
    push.seen = part->seen;
    push.rate = table->rate;
    push.first = request->first + piece->begin;
    push.count = piece->count;
    push.is_put = request->is_put;
    bool is_sparse = table->options.is_sparse;
    GY_TRY(gy_ps_call(
        table->ps, piece->part,
        &(gy_rpc_request){
            .type = PS_PUSH,
            .message = &push.base,
            .deadline = GY_NEVER,
            .done = on_pushed,
            .arg = piece,
            .beside =
                is_sparse ? piece->buffer : request->values + piece->begin * table->row_bytes,
            .beside_bytes = is_sparse ? piece->buffer_bytes : piece->count * table->row_bytes},
        &piece->call, deadline));
    part->seen += !request->is_put; /* its own update is one that it knows of */
    return GY_OK;
}

static gy_status call_pull(ps_piece *piece, gy_deadline deadline)
{
    const gy_ps_request *request = piece->request;
    const gy_ps_table *table = request->table;
    Gy__Ps__Pull pull;
    gy__ps__pull__init(&pull);
    pull.table = table->parts[piece->part].id;
    pull.clock = table->clock;
    pull.first = request->first + piece->begin;
    pull.count = piece->count;
    bool is_sparse = table->options.is_sparse;
    return gy_ps_call(
        table->ps, piece->part,
        &(gy_rpc_request){.type = PS_PULL,
                          .message = &pull.base,
                          .deadline = GY_NEVER,
                          .done = on_pulled,
                          .arg = piece,
                          .beside = is_sparse ? piece->buffer : NULL,
                          .beside_bytes = is_sparse ? piece->count * sizeof(uint64_t) : 0,
                          .admit = admit_rows},
        &piece->call, deadline);
}

static gy_status call_all(gy_ps_request *request)
{
    gy_ps_table *table = request->table;
    gy_deadline deadline = gy_deadline_after(table->ps->timeout_s);
    request->number = request->is_pull || request->is_put ? 0 : ++table->number;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        ps_piece *piece = &request->pieces[i];
        if (piece->count == 0) {
            continue;
        }
        GY_TRY(request->is_pull ? call_pull(piece, deadline) : call_push(piece, deadline));
        piece->is_made = true;
        request->pending++;
    }
    return GY_OK;
}

/* End what is under way: its memory is not lent any more afterwards. */
static void cancel(gy_ps_request *request)
{
    gy_ps *ps = request->table->ps;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const ps_piece *piece = &request->pieces[i];
        if (piece->is_made) {
            gy_rpc_cancel(ps->rpc, ps->targets[i].peer, piece->call);
        }
    }
    while (request->pending > 0) {
        (void)gy_rpc_turn(ps->rpc, (gy_deadline){0});
    }
}

/* The failure of a clock is that of the next call. */
static gy_status check_clock(gy_ps_table *table)
{
    if (table->failure.status == GY_OK) {
        return GY_OK;
    }
    return gy_error_raise(&table->failure);
}

static gy_status start(gy_ps_request *request, gy_ps_request **out)
{
    gy_ps_table *table = request->table;
    gy_ps *ps = table->ps;
    gy_status status = GY_OK;
    bool is_sparse = table->options.is_sparse;
    if (is_sparse) {
        status = cut_sparse(request);
    } else {
        cut_dense(request, request->keys != NULL ? *request->keys : 0, request->count);
    }
    for (uint32_t i = 0; is_sparse && status == GY_OK && i < request->piece_count; i++) {
        status = request->pieces[i].count > 0 ? fill_buffer(&request->pieces[i]) : GY_OK;
    }
    gy_ps_enter(ps);
    status = status == GY_OK ? check_clock(table) : status;
    status = status == GY_OK ? call_all(request) : status;
    gy_error why;
    gy_error_take(&why, status);
    if (status < 0) {
        cancel(request);
    }
    gy_ps_leave(ps);
    if (status < 0) {
        request_free(request);
        return gy_error_raise(&why);
    }
    if (out == NULL) {
        return gy_ps_wait(request, gy_deadline_after(ps->timeout_s));
    }
    *out = request;
    return GY_OK;
}

gy_status gy_ps_push(gy_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                     gy_ps_request **request)
{
    gy_ps_request *made = NULL;
    GY_TRY(request_new(table, keys, count, (uint8_t *)(uintptr_t)values, &made));
    return start(made, request);
}

gy_status gy_ps_put(gy_ps_table *table, const uint64_t *keys, size_t count, const void *values,
                    gy_ps_request **request)
{
    gy_ps_request *made = NULL;
    GY_TRY(request_new(table, keys, count, (uint8_t *)(uintptr_t)values, &made));
    made->is_put = true;
    return start(made, request);
}

gy_status gy_ps_pull(gy_ps_table *table, const uint64_t *keys, size_t count, void *values,
                     gy_ps_request **request)
{
    gy_ps_request *made = NULL;
    GY_TRY(request_new(table, keys, count, values, &made));
    made->is_pull = true;
    return start(made, request);
}

void gy_ps_set_rate(gy_ps_table *table, double rate)
{
    table->rate = rate;
}

gy_status gy_ps_wait(gy_ps_request *request, gy_deadline deadline)
{
    if (request == NULL) {
        return GY_OK;
    }
    gy_ps_table *table = request->table;
    gy_ps *ps = table->ps;
    char what[128];
    gy_ps_enter(ps);
    if (gy_ps_drive(ps, &request->pending, deadline) == GY_TIMEOUT) {
        uint32_t part = 0;
        while (part + 1 < request->piece_count && !request->pieces[part].is_made) {
            part++;
        }
        snprintf(what, sizeof(what), "table %s: a %s after clock %llu", table->name,
                 request->is_pull ? "pull" : "push", (unsigned long long)table->clock);
        gy_error_take(&request->error, gy_ps_blame(ps, part, what));
        cancel(request);
    }
    gy_ps_leave(ps);
    gy_error why = request->error;
    request_free(request);
    return why.status < 0 ? gy_error_raise(&why) : GY_OK;
}

/* ---- Clocks ---- */

static void on_clock(void *arg, gy_status status, const ProtobufCMessage *message)
{
    gy_ps_table *table = arg;
    (void)message;
    table->clocks_pending--;
    if (status < 0 && table->failure.status == GY_OK) {
        gy_error_take(&table->failure, status);
    }
}

static gy_status call_clocks(gy_ps_table *table)
{
    gy_ps *ps = table->ps;
    gy_deadline deadline = gy_deadline_after(ps->timeout_s);
    Gy__Ps__Clock clock;
    GY_TRY(check_clock(table));
    table->clock++;
    for (uint32_t i = 0; i < ps->part_count; i++) {
        gy__ps__clock__init(&clock);
        clock.table = table->parts[i].id;
        clock.worker = ps->worker;
        clock.client = ps->client;
        clock.clock = table->clock;
        GY_TRY(gy_ps_call(ps, i,
                          &(gy_rpc_request){.type = PS_CLOCK,
                                            .message = &clock.base,
                                            .deadline = deadline,
                                            .done = on_clock,
                                            .arg = table},
                          NULL, deadline));
        table->clocks_pending++;
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
