/* Requests: what each server has of the rows, and the calls for it. */
#include "codec/codec.h"
#include "ps/client_priv.h"

#include <stdio.h>
#include <string.h>

/* A push of more bytes is not left to the next call of the user. */
enum { SMALL_BYTES = 64 * 1024 };

/* ---- Memory ---- */

void *gy_ps_room_take(gy_ps *ps, size_t size_bytes)
{
    gy_mutex_lock(&ps->pool_lock);
    void *room = gy_ps_pool_take(&ps->pool, size_bytes);
    gy_mutex_unlock(&ps->pool_lock);
    return room;
}

void gy_ps_room_give(gy_ps *ps, void *room)
{
    if (room != NULL) {
        gy_mutex_lock(&ps->pool_lock);
        gy_ps_pool_give(room);
        gy_mutex_unlock(&ps->pool_lock);
    }
}

/* ---- Pieces ---- */

static gy_status judge_rows(const gy_ps_table *table, const uint64_t *keys, size_t count)
{
    const gy_ps_table_options *o = &table->options;
    if (count >= UINT32_MAX) {
        return gy_fail(GY_LIMIT, "table %s: %zu rows at a time", table->name, count);
    }
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

static void cut_dense(gy_ps_request *request)
{
    const gy_ps_table *table = request->table;
    uint64_t first = request->keys != NULL ? *request->keys : 0;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        uint64_t from = 0, end = 0;
        gy_ps_part_range(&table->options, i, request->piece_count, &from, &end);
        from = GY_MAX(from, first);
        end = GY_MIN(end, first + request->count);
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
    gy_ps *ps = request->table->ps;
    if (parts == 1) {
        request->pieces[0].count = request->count;
        return GY_OK;
    }
    for (size_t i = 0; i < request->count; i++) {
        ps_piece *piece = &request->pieces[gy_ps_key_part(o, request->keys[i], parts)];
        piece->begin = piece->count == 0 ? i : piece->begin;
        piece->count++;
    }
    if (o->is_by_range) {
        return GY_OK;
    }
    for (uint32_t i = 0; i < parts; i++) {
        ps_piece *piece = &request->pieces[i];
        if (piece->count > 0) {
            piece->places = gy_ps_room_take(ps, piece->count * sizeof(*piece->places));
            piece->keys = gy_ps_room_take(ps, piece->count * sizeof(*piece->keys));
            if (piece->places == NULL || piece->keys == NULL) {
                return GY_NOMEM;
            }
            piece->count = 0;
        }
    }
    for (size_t i = 0; i < request->count; i++) {
        ps_piece *piece = &request->pieces[gy_ps_key_part(o, request->keys[i], parts)];
        piece->keys[piece->count] = request->keys[i];
        piece->places[piece->count++] = (uint32_t)i;
    }
    return GY_OK;
}

/* The keys of a sparse table's piece, in one place. */
static const uint64_t *keys_of(const ps_piece *piece)
{
    return piece->places != NULL ? piece->keys : piece->request->keys + piece->begin;
}

static size_t place_of(const ps_piece *piece, size_t i)
{
    return piece->places != NULL ? piece->places[i] : piece->begin + i;
}

/* Rows that have no place of their own at the caller arrive in a room of the piece. */
static gy_status make_rooms(gy_ps_request *request)
{
    size_t row = request->table->row_bytes;
    for (uint32_t i = 0; gy_ps_kind_pulls(request->kind) && i < request->piece_count; i++) {
        ps_piece *piece = &request->pieces[i];
        if (piece->places != NULL && piece->count > 0) {
            piece->pulled = gy_ps_room_take(request->table->ps, piece->count * row);
            if (piece->pulled == NULL) {
                return GY_NOMEM;
            }
        }
    }
    return GY_OK;
}

gy_status gy_ps_request_new(gy_ps_table *table, const ps_order *order, gy_ps_request **request)
{
    uint32_t parts = table->ps->part_count;
    GY_TRY(judge_rows(table, order->keys, order->count));
    gy_ps_request *made =
        gy_alloc_zero("ps.request", 1, sizeof(*made) + parts * sizeof(made->pieces[0]));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->table = table;
    made->kind = order->kind;
    made->keys = order->keys;
    made->count = order->count;
    made->values = order->values;
    made->rows = order->rows;
    made->slot = order->slot;
    made->updates = order->updates;
    made->piece_count = parts;
    for (uint32_t i = 0; i < parts; i++) {
        made->pieces[i].request = made;
        made->pieces[i].part = i;
    }
    gy_status status = GY_OK;
    if (table->options.is_sparse) {
        status = cut_sparse(made);
    } else {
        cut_dense(made);
    }
    status = status == GY_OK ? make_rooms(made) : status;
    if (status < 0) {
        gy_ps_request_free(made);
        return status;
    }
    *request = made;
    return GY_OK;
}

void gy_ps_request_free(gy_ps_request *request)
{
    GY_ASSERT(request->pending == 0);
    gy_ps *ps = request->table->ps;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        gy_ps_room_give(ps, request->pieces[i].places);
        gy_ps_room_give(ps, request->pieces[i].keys);
        gy_ps_room_give(ps, request->pieces[i].pushed);
        gy_ps_room_give(ps, request->pieces[i].pulled);
    }
    gy_ps_room_give(ps, request->own_keys);
    gy_ps_room_give(ps, request->own_rows);
    gy_free(request);
}

/* ---- Pushes ---- */

static gy_status call_push(ps_piece *piece, gy_deadline deadline);
static gy_status call_pull(ps_piece *piece, gy_deadline deadline);

static void end_call(ps_piece *piece, ps_one_call *call, gy_status status)
{
    gy_ps_request *request = piece->request;
    call->is_made = false;
    request->pending--;
    if (status < 0 && request->error.status == GY_OK) {
        gy_error_take(&request->error, status);
    }
    if (request->pending == 0) {
        gy_ps_request_ended(request);
    }
}

/* The server does not have the keys that the call named: send it again, with them. */
static bool was_missed(const ps_piece *piece, ps_one_call *call, gy_status status)
{
    if (status != GY_MISMATCH || !call->is_by_list) {
        return false;
    }
    gy_ps_table *table = piece->request->table;
    gy_ps_own_lists_forget(&table->parts[piece->part].lists, call->list);
    call->is_by_list = false;
    return true;
}

/* What was pushed since is above its number, so it gets another; nothing of it was applied. */
static gy_status push_again(ps_piece *piece)
{
    gy_ps_request *request = piece->request;
    gy_ps_table *table = request->table;
    if (table->clock != request->clock) {
        return gy_fail(GY_STATE,
                       "table %s: a push of clock %llu came to a server that had not its keys, "
                       "and the clock is over",
                       table->name, (unsigned long long)request->clock);
    }
    request->number = request->kind == PS_KIND_PUT ? 0 : ++table->number;
    table->parts[piece->part].seen -= request->kind != PS_KIND_PUT; /* it was counted */
    return call_push(piece, (gy_deadline){0});
}

static void on_pushed(void *arg, gy_status status, const ProtobufCMessage *message)
{
    ps_piece *piece = arg;
    gy_ps_table *table = piece->request->table;
    if (was_missed(piece, &piece->push, status)) {
        status = push_again(piece);
        if (status == GY_OK) {
            return;
        }
    }
    if (status == GY_OK) {
        const Gy__Ps__Pushed *pushed = (const Gy__Ps__Pushed *)message;
        table->ps->stats.dropped += pushed->outcome == GY_PS_DROPPED;
        table->ps->stats.duplicates += pushed->outcome == GY_PS_DUPLICATE;
        if (piece->push.list.slot > 0) {
            gy_ps_own_lists_kept(&table->parts[piece->part].lists, piece->push.list,
                                 pushed->is_kept);
        }
    }
    end_call(piece, &piece->push, status);
}

/* Is a push of values encoded? What is put is set as it is. */
static bool is_encoded(const gy_ps_request *request)
{
    return request->table->codec.kind != GY_CODEC_NONE && request->kind != PS_KIND_PUT;
}

/* Encoded values of a dense table's rows, and what they lose for later pushes. */
static gy_status encode_push(ps_piece *piece, const uint8_t **beside, size_t *size_bytes)
{
    const gy_ps_request *request = piece->request;
    const gy_ps_table *table = request->table;
    const gy_dtype dtype = table->options.dtype;
    const size_t count = piece->count * table->options.width, row = table->row_bytes;
    const uint8_t *values = request->values + piece->begin * row;
    *size_bytes = gy_codec_bytes(table->codec, dtype, count);
    piece->pushed = gy_ps_room_take(table->ps, GY_MAX(*size_bytes, (size_t)1));
    if (piece->pushed == NULL) {
        return GY_NOMEM;
    }
    if (table->residual != NULL) {
        gy_codec_encode_fed(table->codec, dtype, values, count,
                            table->residual + (request->first + piece->begin) * row,
                            piece->pushed);
    } else {
        gy_codec_encode(table->codec, dtype, values, count, piece->pushed);
    }
    *beside = piece->pushed;
    return GY_OK;
}

/* Keys, unless they are named, and values in one buffer, as they lie beside a message; or the
 * caller's values as they lie there. */
static gy_status fill_push(ps_piece *piece, bool has_keys, const uint8_t **beside,
                           size_t *size_bytes)
{
    const gy_ps_request *request = piece->request;
    size_t row = request->table->row_bytes;
    size_t keys = has_keys ? piece->count * sizeof(uint64_t) : 0;
    *size_bytes = keys + piece->count * row;
    if (!has_keys && piece->places == NULL) {
        *beside = request->values + piece->begin * row;
        return GY_OK;
    }
    gy_ps_room_give(request->table->ps, piece->pushed); /* it is sent again, with its keys */
    uint8_t *room = gy_ps_room_take(request->table->ps, *size_bytes);
    piece->pushed = room;
    if (room == NULL) {
        return GY_NOMEM;
    }
    if (has_keys) {
        memcpy(room, keys_of(piece), keys);
    }
    if (piece->places == NULL) {
        memcpy(room + keys, request->values + piece->begin * row, piece->count * row);
    }
    for (size_t i = 0; piece->places != NULL && i < piece->count; i++) {
        memcpy(room + keys + i * row, request->values + place_of(piece, i) * row, row);
    }
    *beside = room;
    return GY_OK;
}

static void count_keys(gy_ps_stats *stats, const ps_piece *piece, bool is_sparse,
                       bool is_by_list)
{
    uint64_t bytes = is_sparse ? piece->count * sizeof(uint64_t) : 0;
    *(is_by_list ? &stats->spared_key_bytes : &stats->key_bytes) += bytes;
}

static gy_status call_push(ps_piece *piece, gy_deadline deadline)
{
    const gy_ps_request *request = piece->request;
    gy_ps_table *table = request->table;
    ps_table_part *part = &table->parts[piece->part];
    bool is_sparse = table->options.is_sparse;
    const uint8_t *beside = NULL;
    size_t beside_bytes = 0;
    Gy__Ps__Push push;
    gy__ps__push__init(&push);
    piece->push.list = (ps_list_name){.slot = 0};
    if (is_sparse && table->ps->route == NULL) { /* the next head would not have the list */
        piece->push.list =
            gy_ps_own_lists_name(&part->lists, keys_of(piece), piece->count, false);
    }
    piece->push.is_by_list = piece->push.list.is_known;
    if (is_encoded(request)) {
        GY_TRY(encode_push(piece, &beside, &beside_bytes));
        push.codec = table->codec.kind;
        push.share = table->codec.share;
    } else {
        GY_TRY(fill_push(piece, is_sparse && !piece->push.is_by_list, &beside, &beside_bytes));
    }
    count_keys(&table->ps->stats, piece, is_sparse, piece->push.is_by_list);
    push.table = part->id;
    push.worker = table->ps->worker;
    push.client = table->ps->client;
    push.number = request->number;
    push.clock = request->clock;
    push.seen = request->slot > 0 ? request->updates : part->seen;
    push.slot = request->slot;
    push.rate = table->rate;
    push.first = request->first + piece->begin;
    push.count = piece->count;
    push.is_put = request->kind == PS_KIND_PUT;
    push.list_slot = piece->push.list.slot;
    push.list_number = piece->push.list.number;
    push.list_is_known = piece->push.is_by_list;
    GY_TRY(gy_ps_call(table->ps, piece->part,
                      &(gy_rpc_request){.type = PS_PUSH,
                                        .message = &push.base,
                                        .deadline = GY_NEVER,
                                        .done = on_pushed,
                                        .arg = piece,
                                        .beside = beside,
                                        .beside_bytes = beside_bytes},
                      &piece->push.number, deadline));
    part->seen += request->kind != PS_KIND_PUT; /* its own update is one that it knows of */
    return GY_OK;
}

/* ---- Pulls ---- */

/* Where the rows of a pull go: to the caller's memory at once, or by way of the piece's. */
static uint8_t *room_of(const ps_piece *piece)
{
    const gy_ps_request *request = piece->request;
    return piece->places != NULL ? piece->pulled
                                 : request->rows + piece->begin * request->table->row_bytes;
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

static void take_rows(const ps_piece *piece, const Gy__Ps__Rows *rows)
{
    gy_ps_request *request = piece->request;
    ps_table_part *part = &request->table->parts[piece->part];
    size_t row = request->table->row_bytes;
    part->seen = rows->updates;
    request->waited_ns = GY_MAX(request->waited_ns, rows->waited_ns);
    request->clock_min = GY_MIN(request->clock_min, rows->clock_min);
    if (piece->pull.list.slot > 0) {
        gy_ps_own_lists_kept(&part->lists, piece->pull.list, rows->is_kept);
    }
    for (size_t i = 0; piece->places != NULL && i < piece->count; i++) {
        memcpy(request->rows + piece->places[i] * row, room_of(piece) + i * row, row);
    }
}

static void on_pulled(void *arg, gy_status status, const ProtobufCMessage *message)
{
    ps_piece *piece = arg;
    if (was_missed(piece, &piece->pull, status)) {
        status = call_pull(piece, (gy_deadline){0});
        if (status == GY_OK) {
            return;
        }
    }
    if (status == GY_OK) {
        take_rows(piece, (const Gy__Ps__Rows *)message);
    }
    end_call(piece, &piece->pull, status);
}

static gy_status call_pull(ps_piece *piece, gy_deadline deadline)
{
    const gy_ps_request *request = piece->request;
    gy_ps_table *table = request->table;
    ps_table_part *part = &table->parts[piece->part];
    bool is_sparse = table->options.is_sparse;
    Gy__Ps__Pull pull;
    gy__ps__pull__init(&pull);
    piece->pull.list = (ps_list_name){.slot = 0};
    if (is_sparse && table->ps->route == NULL) {
        piece->pull.list =
            gy_ps_own_lists_name(&part->lists, keys_of(piece), piece->count, true);
    }
    piece->pull.is_by_list = piece->pull.list.is_known;
    bool has_keys = is_sparse && !piece->pull.is_by_list;
    count_keys(&table->ps->stats, piece, is_sparse, piece->pull.is_by_list);
    pull.table = part->id;
    pull.clock = request->clock;
    pull.first = request->first + piece->begin;
    pull.count = piece->count;
    pull.slot = request->slot;
    pull.worker = table->ps->worker;
    pull.client = table->ps->client;
    pull.list_slot = piece->pull.list.slot;
    pull.list_number = piece->pull.list.number;
    pull.list_is_known = piece->pull.is_by_list;
    return gy_ps_call(
        table->ps, piece->part,
        &(gy_rpc_request){.type = PS_PULL,
                          .message = &pull.base,
                          .deadline = GY_NEVER,
                          .done = on_pulled,
                          .arg = piece,
                          .beside = has_keys ? keys_of(piece) : NULL,
                          .beside_bytes = has_keys ? piece->count * sizeof(uint64_t) : 0,
                          .admit = admit_rows},
        &piece->pull.number, deadline);
}

/* ---- All calls ---- */

static gy_status call_piece(ps_piece *piece, gy_deadline deadline)
{
    gy_ps_request *request = piece->request;
    if (gy_ps_kind_pushes(request->kind)) {
        request->pending++; /* before the call, whose end may be near */
        gy_status status = call_push(piece, deadline);
        piece->push.is_made = status == GY_OK;
        request->pending -= status < 0;
        GY_TRY(status);
    }
    if (gy_ps_kind_pulls(request->kind)) {
        request->pending++;
        gy_status status = call_pull(piece, deadline);
        piece->pull.is_made = status == GY_OK;
        request->pending -= status < 0;
        GY_TRY(status);
    }
    return GY_OK;
}

gy_status gy_ps_request_start(gy_ps_request *request)
{
    gy_ps_table *table = request->table;
    gy_deadline deadline = gy_deadline_after(table->ps->timeout_s);
    gy_status status = GY_OK;
    bool is_push = request->kind == PS_KIND_PUSH || request->kind == PS_KIND_BOTH;
    request->number = is_push ? ++table->number : 0;
    table->changes += gy_ps_kind_pushes(request->kind);
    request->clock += table->clock;
    request->clock_min = UINT64_MAX;
    request->pending = 1; /* none ends it before all are made */
    for (uint32_t i = 0; i < request->piece_count && status == GY_OK; i++) {
        if (request->pieces[i].count > 0) {
            status = call_piece(&request->pieces[i], deadline);
        }
    }
    if (status < 0) {
        gy_error why;
        gy_error_take(&why, status);
        request->pending--;
        gy_ps_request_cancel(request);
        return gy_error_raise(&why);
    }
    request->pending--;
    gy_ps_stats *stats = &table->ps->stats;
    size_t size = request->count * table->row_bytes;
    stats->pushes += gy_ps_kind_pushes(request->kind);
    stats->pulls += gy_ps_kind_pulls(request->kind);
    stats->pushed_bytes += gy_ps_kind_pushes(request->kind) ? size : 0;
    stats->pulled_bytes += gy_ps_kind_pulls(request->kind) ? size : 0;
    gy_ps_request_begin(request, request->kind != PS_KIND_PUSH || size > SMALL_BYTES);
    return GY_OK;
}

void gy_ps_request_cancel(gy_ps_request *request)
{
    gy_ps *ps = request->table->ps;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const ps_piece *piece = &request->pieces[i];
        if (piece->push.is_made) {
            gy_ps_cancel(ps, piece->part, piece->push.number);
        }
        if (piece->pull.is_made) {
            gy_ps_cancel(ps, piece->part, piece->pull.number);
        }
    }
    while (request->pending > 0) {
        (void)gy_ps_turn(ps, (gy_deadline){0});
    }
}

gy_status gy_ps_request_blame(const gy_ps_request *request)
{
    const gy_ps_table *table = request->table;
    char what[160];
    uint32_t part = 0;
    while (part + 1 < request->piece_count && !request->pieces[part].push.is_made &&
           !request->pieces[part].pull.is_made) {
        part++;
    }
    bool is_pushing = request->pieces[part].push.is_made;
    snprintf(what, sizeof(what), "table %s: a %s after clock %llu", table->name,
             is_pushing ? "push" : "pull", (unsigned long long)request->clock);
    return gy_ps_blame(table->ps, part, what);
}
