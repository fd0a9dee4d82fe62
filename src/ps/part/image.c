/*
 * A part as bytes, in the order of memory of the hosts that Gyre runs on (little-endian):
 *
 *     mark · rows · [keys] · [steps] · values · states · workers · held pushes · counts
 *
 * Who sends or stores it adds the checksum.
 */
#include "ps/part/part_priv.h"

#include "tensor/tensor.h"

#include <string.h>

static const uint64_t image_mark = 0x3154524150535947; /* "GYSPART1" */

/* ---- Saving ---- */

static void put(gy_text *image, uint64_t value)
{
    gy_text_add_bytes(image, &value, sizeof(value));
}

static void put_rows(const ps_rows *rows, gy_text *image)
{
    put(image, rows->count);
    if (rows->table->is_sparse) {
        gy_text_add_bytes(image, rows->keys, rows->count * sizeof(*rows->keys));
    }
    if (rows->steps != NULL) {
        gy_text_add_bytes(image, rows->steps, rows->count * sizeof(*rows->steps));
    }
    gy_text_add_bytes(image, rows->values, rows->count * rows->row_bytes);
    for (int i = 0; i < rows->slots; i++) {
        gy_text_add_bytes(image, rows->state[i], rows->count * rows->row_bytes);
    }
}

static void put_clocks(const ps_clocks *clocks, gy_text *image)
{
    put(image, clocks->count);
    put(image, clocks->closed);
    for (uint32_t i = 0; i < clocks->count; i++) {
        const ps_worker *worker = &clocks->workers[i];
        put(image, worker->client);
        put(image, worker->number);
        put(image, worker->clock);
        put(image, (uint64_t)worker->is_live | (uint64_t)worker->has_joined << 1);
    }
}

static void put_held(const gy_ps_part *part, gy_text *image)
{
    uint64_t count = 0;
    for (const ps_held *at = part->held; at != NULL; at = at->next) {
        count++;
    }
    put(image, count);
    for (const ps_held *at = part->held; at != NULL; at = at->next) {
        put(image, at->worker);
        put(image, at->clock);
        gy_text_add_bytes(image, &at->rate, sizeof(at->rate));
        put(image, at->rows.first);
        put(image, at->rows.count);
        if (part->options.table.is_sparse) {
            gy_text_add_bytes(image, at->rows.keys, at->rows.count * sizeof(uint64_t));
        }
        gy_text_add_bytes(image, at->values, at->rows.count * part->rows.row_bytes);
    }
}

gy_status gy_ps_part_save(const gy_ps_part *part, gy_text *image)
{
    const uint64_t counts[] = {part->updates, part->pushes, part->duplicates, part->dropped};
    put(image, image_mark);
    put_rows(&part->rows, image);
    put_clocks(&part->clocks, image);
    put_held(part, image);
    for (size_t i = 0; i < GY_COUNT(counts); i++) {
        put(image, counts[i]);
    }
    return image->status;
}

/* ---- Loading ---- */

typedef struct reader {
    const uint8_t *at;
    size_t left;
    bool is_short;
} reader;

static void take_bytes(reader *from, void *out, size_t size_bytes)
{
    if (from->is_short || size_bytes > from->left) {
        from->is_short = true;
        return;
    }
    if (size_bytes > 0) {
        memcpy(out, from->at, size_bytes);
    }
    from->at += size_bytes;
    from->left -= size_bytes;
}

static uint64_t take(reader *from)
{
    uint64_t value = 0;
    take_bytes(from, &value, sizeof(value));
    return value;
}

static gy_status is_whole(const gy_ps_part *part, const reader *from)
{
    return !from->is_short
               ? GY_OK
               : gy_fail(GY_FORMAT, "table %s: a copy of a part that ends early", part->name);
}

/* Are there as many bytes as so many things of this size take? */
static bool has(const reader *from, uint64_t count, size_t size_bytes)
{
    return !from->is_short && count <= from->left / size_bytes;
}

static gy_status take_keys(gy_ps_part *part, reader *from, size_t count)
{
    ps_rows *rows = &part->rows;
    GY_TRY(count > 0 ? gy_ps_rows_admit(rows, count) : GY_OK);
    for (size_t i = 0; i < count; i++) {
        uint32_t place = 0;
        uint64_t key = take(from);
        GY_TRY(gy_ps_rows_take(rows, key, &place));
        if (place != i || gy_ps_key_part(&part->options.table, key, part->options.parts) !=
                              part->options.part) {
            return gy_fail(GY_FORMAT,
                           "table %s: key %llu of a copy is there twice, or of "
                           "another part",
                           part->name, (unsigned long long)key);
        }
    }
    return GY_OK;
}

static gy_status take_rows(gy_ps_part *part, reader *from)
{
    ps_rows *rows = &part->rows;
    uint64_t count = take(from);
    bool is_sparse = part->options.table.is_sparse;
    if (!has(from, count, rows->row_bytes) || (!is_sparse && count != rows->count)) {
        return gy_fail(GY_FORMAT, "table %s: a copy of %llu rows: expected %zu", part->name,
                       (unsigned long long)count, is_sparse ? (size_t)0 : rows->count);
    }
    if (is_sparse) {
        GY_ASSERT(rows->count == 0);
        GY_TRY(take_keys(part, from, (size_t)count));
    }
    if (rows->steps != NULL) {
        take_bytes(from, rows->steps, (size_t)count * sizeof(*rows->steps));
    }
    take_bytes(from, rows->values, (size_t)count * rows->row_bytes);
    for (int i = 0; i < rows->slots; i++) {
        take_bytes(from, rows->state[i], (size_t)count * rows->row_bytes);
    }
    return is_whole(part, from);
}

static gy_status take_clocks(gy_ps_part *part, reader *from)
{
    ps_clocks *clocks = &part->clocks;
    uint64_t count = take(from);
    clocks->closed = take(from);
    if (count == 0 || count > GY_PS_WORKERS_MAX || from->is_short) {
        return gy_fail(GY_FORMAT, "table %s: a copy of %llu workers", part->name,
                       (unsigned long long)count);
    }
    GY_TRY(GY_GROW("ps.workers", clocks->workers, clocks->capacity, (size_t)count));
    clocks->count = (uint32_t)count;
    for (uint32_t i = 0; i < clocks->count; i++) {
        ps_worker *worker = &clocks->workers[i];
        worker->client = take(from);
        worker->number = take(from);
        worker->clock = take(from);
        uint64_t bits = take(from);
        worker->is_live = (bits & 1) != 0;
        worker->has_joined = (bits & 2) != 0;
    }
    return is_whole(part, from);
}

/* A push that is held, which the part copies. */
static gy_status take_push(gy_ps_part *part, reader *from)
{
    size_t key_bytes = part->options.table.is_sparse ? sizeof(uint64_t) : 0;
    gy_ps_gradient push = {.worker = (uint32_t)take(from)};
    push.clock = take(from);
    take_bytes(from, &push.rate, sizeof(push.rate));
    push.rows.first = take(from);
    push.rows.count = (size_t)take(from);
    if (push.worker >= part->clocks.count ||
        !has(from, push.rows.count, key_bytes + part->rows.row_bytes)) {
        return gy_fail(GY_FORMAT, "table %s: a copy of a push of worker %u and %zu rows",
                       part->name, push.worker, push.rows.count);
    }
    uint8_t *room =
        gy_alloc("ps.held", push.rows.count * (key_bytes + part->rows.row_bytes) + 1);
    if (room == NULL) {
        return GY_NOMEM;
    }
    take_bytes(from, room, push.rows.count * (key_bytes + part->rows.row_bytes));
    push.rows.keys = key_bytes > 0 ? (const uint64_t *)(const void *)room : NULL;
    push.values = room + push.rows.count * key_bytes;
    gy_status status = gy_ps_held_add(part, &push);
    gy_free(room);
    return status;
}

gy_status gy_ps_part_load(gy_ps_part *part, const void *image, size_t size_bytes, size_t *used)
{
    reader from = {.at = image, .left = size_bytes};
    GY_ASSERT(part->held == NULL && part->updates == 0);
    if (take(&from) != image_mark) {
        return gy_fail(GY_FORMAT, "table %s: not a copy of a part: another version of Gyre?",
                       part->name);
    }
    GY_TRY(take_rows(part, &from));
    GY_TRY(take_clocks(part, &from));
    uint64_t count = take(&from);
    for (uint64_t i = 0; i < count; i++) {
        GY_TRY(take_push(part, &from));
    }
    uint64_t *const counts[] = {&part->updates, &part->pushes, &part->duplicates,
                                &part->dropped};
    for (size_t i = 0; i < GY_COUNT(counts); i++) {
        *counts[i] = take(&from);
    }
    GY_TRY(is_whole(part, &from));
    *used = size_bytes - from.left;
    return GY_OK;
}
