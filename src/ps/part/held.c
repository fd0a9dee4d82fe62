/* Pushes of a clock that is not over. When it is, they are summed in the order of workers, and
 * of arrival for each, so that the sum has the same bits whoever came first. */
#include "ps/part/part_priv.h"

#include <string.h>

void gy_ps_room_release(const gy_ps_part *part, void *room)
{
    if (room != NULL && part->options.release != NULL) {
        part->options.release(part->options.release_arg, room);
    } else {
        gy_free(room);
    }
}

void gy_ps_held_free(const gy_ps_part *part, ps_held *held)
{
    if (held->is_copy) {
        gy_free(held->room);
    } else {
        gy_ps_room_release(part, held->room);
    }
    gy_free(held);
}

/* Copy borrowed rows, so that they outlive the call. */
static gy_status keep(const gy_ps_part *part, const gy_ps_gradient *push, ps_held *held)
{
    bool has_keys = part->options.table.is_sparse;
    size_t key_bytes = has_keys ? push->rows.count * sizeof(uint64_t) : 0;
    size_t value_bytes = push->rows.count * part->rows.row_bytes;
    held->size_bytes = key_bytes + value_bytes;
    held->room = push->room;
    if (push->room != NULL) {
        return GY_OK;
    }
    uint8_t *room = gy_alloc("ps.held", held->size_bytes + 1);
    if (room == NULL) {
        return GY_NOMEM;
    }
    if (has_keys) {
        memcpy(room, push->rows.keys, key_bytes);
        held->rows.keys = (const uint64_t *)(const void *)room;
    }
    memcpy(room + key_bytes, push->values, value_bytes);
    held->values = room + key_bytes;
    held->room = room;
    held->is_copy = true;
    return GY_OK;
}

static bool is_before(const ps_held *a, const ps_held *b)
{
    return a->clock != b->clock ? a->clock < b->clock : a->worker <= b->worker;
}

gy_status gy_ps_held_add(gy_ps_part *part, const gy_ps_gradient *push)
{
    ps_held *made = gy_alloc_zero("ps.held", 1, sizeof(*made));
    gy_status status = made != NULL ? GY_OK : GY_NOMEM;
    if (made == NULL) {
        gy_ps_room_release(part, push->room);
        return status;
    }
    *made = (ps_held){.worker = push->worker,
                      .clock = push->clock,
                      .rate = push->rate,
                      .rows = push->rows,
                      .values = push->values};
    status = keep(part, push, made);
    if (status == GY_OK && part->held_bytes + made->size_bytes > part->options.held_bytes_max) {
        status = gy_fail(
            GY_LIMIT,
            "table %s: %zu bytes of pushes wait for the end of their clock: expected "
            "at most %zu",
            part->name, part->held_bytes + made->size_bytes, part->options.held_bytes_max);
    }
    if (status < 0) {
        gy_ps_held_free(part, made);
        return status;
    }
    part->held_bytes += made->size_bytes;
    ps_held **place = &part->held;
    while (*place != NULL && is_before(*place, made)) {
        place = &(*place)->next;
    }
    made->next = *place;
    *place = made;
    return GY_OK;
}

/* ---- Sums ---- */

static bool counts(const gy_ps_part *part, const ps_held *held)
{
    const ps_worker *worker = &part->clocks.workers[held->worker];
    return held->clock == part->clocks.closed && worker->clock > part->clocks.closed;
}

/* Sum dense pushes into part->sums; rows are `touched` by the first push that has them. */
static void sum_dense(gy_ps_part *part, uint64_t first, size_t count)
{
    const gy_ps_table_options *table = &part->options.table;
    size_t row_bytes = part->rows.row_bytes;
    memset(part->touched, 0, count);
    for (const ps_held *at = part->held; at != NULL; at = at->next) {
        if (!counts(part, at)) {
            continue;
        }
        size_t from = (size_t)(at->rows.first - first);
        const uint8_t *values = at->values;
        for (size_t i = 0; i < at->rows.count;) {
            bool is_touched = part->touched[from + i] != 0;
            size_t end = i + 1;
            while (end < at->rows.count && (part->touched[from + end] != 0) == is_touched) {
                end++;
            }
            uint8_t *to = part->sums + (from + i) * row_bytes;
            if (is_touched) {
                gy_ps_values_add(table->dtype, to, values + i * row_bytes,
                                 (end - i) * table->width);
            } else {
                memcpy(to, values + i * row_bytes, (end - i) * row_bytes);
            }
            i = end;
        }
        memset(part->touched + from, 1, at->rows.count);
    }
}

static gy_status close_dense(gy_ps_part *part, uint64_t first, uint64_t end, double rate)
{
    size_t count = (size_t)(end - first), row_bytes = part->rows.row_bytes;
    GY_TRY(GY_GROW("ps.sums", part->sums, part->sums_capacity, count * row_bytes));
    GY_TRY(GY_GROW("ps.sums", part->touched, part->touched_capacity, count));
    sum_dense(part, first, count);
    for (size_t i = 0; i < count;) {
        size_t after = i + 1;
        while (after < count && part->touched[after] == part->touched[i]) {
            after++;
        }
        if (part->touched[i] != 0) {
            const gy_ps_rows run = {.first = first + i, .count = after - i};
            GY_TRY(gy_ps_part_apply(part, &run, part->sums + i * row_bytes, rate));
        }
        i = after;
    }
    return GY_OK;
}

/* Number the keys in the order in which they come; part->sums has a row for each. */
static gy_status close_sparse(gy_ps_part *part, size_t rows_max, double rate)
{
    const gy_ps_table_options *table = &part->options.table;
    size_t row_bytes = part->rows.row_bytes, count = 0;
    gy_index index = {0};
    uint64_t *keys = gy_alloc("ps.sums", rows_max * sizeof(*keys) + 1);
    gy_status status = keys != NULL ? GY_OK : GY_NOMEM;
    if (status == GY_OK) {
        status = GY_GROW("ps.sums", part->sums, part->sums_capacity, rows_max * row_bytes);
    }
    for (const ps_held *at = part->held; at != NULL && status == GY_OK; at = at->next) {
        const uint8_t *values = at->values;
        for (size_t i = 0; counts(part, at) && i < at->rows.count && status == GY_OK; i++) {
            uint32_t place = 0;
            status = gy_index_number(&index, gy_index_id(at->rows.keys[i]), &place);
            if (status < 0) {
                break;
            }
            uint8_t *to = part->sums + place * row_bytes;
            if (place < count) {
                gy_ps_values_add(table->dtype, to, values + i * row_bytes, table->width);
            } else {
                keys[count++] = at->rows.keys[i];
                memcpy(to, values + i * row_bytes, row_bytes);
            }
        }
    }
    const gy_ps_rows run = {.keys = keys, .count = count};
    if (status == GY_OK && count > 0) {
        status = gy_ps_rows_admit(&part->rows, count);
    }
    if (status == GY_OK && count > 0) {
        status = gy_ps_part_apply(part, &run, part->sums, rate);
    }
    gy_index_free(&index);
    gy_free(keys);
    return status;
}

static void forget_closed(gy_ps_part *part)
{
    while (part->held != NULL && part->held->clock <= part->clocks.closed) {
        ps_held *gone = part->held;
        part->held = gone->next;
        part->dropped += !counts(part, gone);
        part->held_bytes -= gone->size_bytes;
        gy_ps_held_free(part, gone);
    }
}

gy_status gy_ps_held_close(gy_ps_part *part)
{
    uint64_t first = UINT64_MAX, end = 0;
    size_t rows = 0;
    double rate = 0;
    for (const ps_held *at = part->held; at != NULL; at = at->next) {
        if (counts(part, at)) {
            first = GY_MIN(first, at->rows.first);
            end = GY_MAX(end, at->rows.first + at->rows.count);
            rate = rate == 0 ? at->rate : rate; /* that of the first worker that says one */
            rows += at->rows.count;
        }
    }
    if (rows > 0) {
        GY_TRY(part->options.table.is_sparse ? close_sparse(part, rows, rate)
                                             : close_dense(part, first, end, rate));
    }
    forget_closed(part);
    part->updates++;
    part->clocks.closed++;
    return GY_OK;
}
