/* A part: what is pushed is judged, counted once, and held or applied. */
#include "ps/part/part_priv.h"

#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PREFETCH = 12 }; /* keys whose cells are being read at a time */

#ifdef GYRE_PLANTED
gy_ps_plant gy_ps_planted;
#endif

static const size_t held_bytes_max = (size_t)1 << 30;

gy_status gy_ps_part_new(const gy_ps_part_options *options, gy_ps_part **part)
{
    gy_ps_part *made = gy_alloc_zero("ps.part", 1, sizeof(*made));
    uint64_t first = 0, end = 0;
    GY_ASSERT(options->part < options->parts && options->parts <= GY_PS_PARTS_MAX);
    GY_ASSERT(options->workers > 0 && options->workers <= GY_PS_WORKERS_MAX);
    GY_ASSERT((options->table.update == GY_PS_FUNCTION) == (options->function != NULL));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->options = *options;
    made->options.held_bytes_max =
        options->held_bytes_max > 0 ? options->held_bytes_max : held_bytes_max;
    snprintf(made->name, sizeof(made->name), "%s", options->name);
    if (options->table.function != NULL) {
        snprintf(made->function, sizeof(made->function), "%s", options->table.function);
        made->options.table.function = made->function;
    }
    made->clocks = (ps_clocks){.sync = options->table.sync, .count = options->workers};
    if (!options->table.is_sparse) {
        gy_ps_part_range(&options->table, options->part, options->parts, &first, &end);
    }
    gy_status status = GY_GROW("ps.workers", made->clocks.workers, made->clocks.capacity,
                               (size_t)options->workers);
    if (status == GY_OK) {
        memset(made->clocks.workers, 0, options->workers * sizeof(*made->clocks.workers));
        status = gy_ps_rows_init(&made->rows, &made->options.table, first, end);
    }
    if (status < 0) {
        gy_ps_part_free(made);
        return status;
    }
    for (uint32_t i = 0; i < options->workers; i++) {
        made->clocks.workers[i].is_live = true; /* the others wait for it from the start */
    }
    *part = made;
    return GY_OK;
}

void gy_ps_part_free(gy_ps_part *part)
{
    if (part == NULL) {
        return;
    }
    while (part->held != NULL) {
        ps_held *gone = part->held;
        part->held = gone->next;
        gy_ps_held_free(part, gone);
    }
    gy_ps_rows_fini(&part->rows);
    gy_free(part->clocks.workers);
    gy_free(part->sums);
    gy_free(part->touched);
    gy_free(part->places);
    gy_free(part);
}

/* ---- Workers ---- */

static gy_status close_what_is_over(gy_ps_part *part)
{
    while (gy_ps_clocks_hold(&part->clocks) && gy_ps_clocks_may_close(&part->clocks)) {
        GY_TRY(gy_ps_held_close(part));
    }
    return GY_OK;
}

/* The least clock of live workers: a worker that comes later begins there. */
static uint64_t clock_now(const ps_clocks *clocks)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < clocks->count; i++) {
        if (clocks->workers[i].is_live) {
            least = GY_MIN(least, clocks->workers[i].clock);
        }
    }
    return GY_MAX(least == UINT64_MAX ? 0 : least, clocks->closed);
}

gy_status gy_ps_part_join(gy_ps_part *part, uint32_t worker, uint64_t client, uint64_t *clock)
{
    ps_clocks *clocks = &part->clocks;
    if (worker >= GY_PS_WORKERS_MAX) {
        return gy_fail(GY_ARG, "table %s: worker %u: expected 0 to %d", part->name, worker,
                       GY_PS_WORKERS_MAX - 1);
    }
    if (worker >= clocks->count) {
        GY_TRY(GY_GROW("ps.workers", clocks->workers, clocks->capacity, (size_t)worker + 1));
        memset(clocks->workers + clocks->count, 0,
               (worker + 1 - clocks->count) * sizeof(*clocks->workers));
        clocks->count = worker + 1;
    }
    ps_worker *row = &clocks->workers[worker];
    if (row->is_live && row->has_joined && row->client != client) {
        return gy_fail(GY_EXISTS, "table %s: worker %u is another client already", part->name,
                       worker);
    }
    if (!row->is_live) {
        row->clock = GY_MAX(row->clock, clock_now(clocks));
    }
    if (row->client != client) {
        row->number = 0;
    }
    row->client = client;
    row->is_live = row->has_joined = true;
    *clock = row->clock;
    return GY_OK;
}

void gy_ps_part_leave(gy_ps_part *part, uint32_t worker, uint64_t client)
{
    ps_clocks *clocks = &part->clocks;
    if (worker >= clocks->count || clocks->workers[worker].client != client ||
        !clocks->workers[worker].is_live) {
        return;
    }
    clocks->workers[worker].is_live = GY_PS_PLANTED(LEFT_AWAITED);
    (void)close_what_is_over(part); /* on failure it is tried again with the next clock */
}

uint64_t gy_ps_part_now(const gy_ps_part *part)
{
    const ps_clocks *clocks = &part->clocks;
    uint64_t most = 0;
    bool is_live = false;
    for (uint32_t i = 0; i < clocks->count; i++) {
        most = GY_MAX(most, clocks->workers[i].clock);
        is_live = is_live || clocks->workers[i].is_live;
    }
    return gy_ps_clocks_hold(clocks) ? clocks->closed : is_live ? clock_now(clocks) : most;
}

void gy_ps_part_rewind(gy_ps_part *part, uint64_t clock)
{
    ps_clocks *clocks = &part->clocks;
    while (part->held != NULL) {
        ps_held *gone = part->held;
        part->held = gone->next;
        part->held_bytes -= gone->size_bytes;
        gy_ps_held_free(part, gone);
    }
    for (uint32_t i = 0; i < clocks->count; i++) {
        clocks->workers[i] = (ps_worker){.clock = clock, .is_live = i < part->options.workers};
    }
    clocks->closed = gy_ps_clocks_hold(clocks) ? clock : 0; /* others close none */
    GY_ASSERT(part->held_bytes == 0 && gy_ps_part_now(part) == clock);
}

static gy_status find_worker(const gy_ps_part *part, uint32_t worker, uint64_t client,
                             ps_worker **row)
{
    const ps_clocks *clocks = &part->clocks;
    if (worker >= clocks->count || !clocks->workers[worker].has_joined ||
        !clocks->workers[worker].is_live || clocks->workers[worker].client != client) {
        return gy_fail(GY_STATE, "table %s: worker %u has not joined, or was given up",
                       part->name, worker);
    }
    *row = &clocks->workers[worker];
    return GY_OK;
}

gy_status gy_ps_part_clock(gy_ps_part *part, uint32_t worker, uint64_t client, uint64_t clock)
{
    ps_worker *row = NULL;
    GY_TRY(find_worker(part, worker, client, &row));
    if (clock > row->clock + 1) {
        return gy_fail(GY_STATE, "table %s: worker %u is at clock %llu after %llu", part->name,
                       worker, (unsigned long long)clock, (unsigned long long)row->clock);
    }
    row->clock = GY_PS_PLANTED(CLOCK_TWICE) ? row->clock + 1 : GY_MAX(row->clock, clock);
    return close_what_is_over(part);
}

bool gy_ps_part_is_ready(const gy_ps_part *part, uint64_t clock, uint32_t *behind)
{
    return gy_ps_clocks_are_ready(&part->clocks, clock, behind);
}

/* ---- Rows ---- */

static gy_status judge_rows(const gy_ps_part *part, const gy_ps_rows *rows)
{
    const gy_ps_part_options *o = &part->options;
    const uint32_t slots = o->table.is_sparse ? 0 : (uint32_t)part->rows.slots;
    if (rows->slot > slots) {
        return gy_fail(GY_ARG, "table %s: state %u of its update, which keeps %u", part->name,
                       rows->slot, slots);
    }
    if (o->table.is_sparse) {
        gy_status status =
            gy_ps_keys_check(&o->table, rows->keys, rows->count, o->part, o->parts);
        return status == GY_OK ? GY_OK
                               : gy_fail(status, "table %s: %s", part->name, gy_error_text());
    }
    uint64_t end = part->rows.end;
    if (rows->first < part->rows.first || rows->first > end ||
        rows->count > end - rows->first) {
        return gy_fail(GY_ARG,
                       "table %s: rows %llu to %llu: part %u of %u has rows %llu to %llu",
                       part->name, (unsigned long long)rows->first,
                       (unsigned long long)(rows->first + rows->count), o->part, o->parts,
                       (unsigned long long)part->rows.first, (unsigned long long)end);
    }
    return GY_OK;
}

static gy_status judge_values(const gy_ps_part *part, const gy_ps_rows *rows,
                              const void *values)
{
    const gy_ps_table_options *table = &part->options.table;
    size_t count = rows->count * table->width;
    if (table->takes_non_finite) {
        return GY_OK;
    }
    size_t at = gy_ps_values_find_non_finite(table->dtype, values, count);
    if (at == count) {
        return GY_OK;
    }
    size_t row = at / table->width;
    return gy_fail(
        GY_NUMERIC, "table %s: value %zu of key %llu is not finite", part->name,
        at % table->width,
        (unsigned long long)(table->is_sparse ? rows->keys[row] : rows->first + row));
}

static void apply_function(gy_ps_part *part, uint64_t key, uint8_t *row, const void *gradient,
                           double rate)
{
    part->options.function(part->options.function_arg, key, row, gradient,
                           part->options.table.width, rate);
}

static gy_status apply_sparse(gy_ps_part *part, const gy_ps_rows *rows, const uint8_t *values,
                              double rate)
{
    ps_rows *to = &part->rows;
    const gy_ps_table_options *table = &part->options.table;
    GY_TRY(GY_GROW("ps.places", part->places, part->places_capacity, rows->count));
    for (size_t i = 0; i < rows->count; i++) { /* what can fail, first */
        gy_ps_rows_prefetch(to, rows->keys[GY_MIN(i + PREFETCH, rows->count - 1)]);
        GY_TRY(gy_ps_rows_take(to, rows->keys[i], &part->places[i]));
    }
    for (size_t i = 0; i < rows->count; i++) {
        uint32_t place = part->places[i];
        size_t at = place * to->row_bytes;
        const uint8_t *gradient = values + i * to->row_bytes;
        if (table->update == GY_PS_FUNCTION) {
            apply_function(part, rows->keys[i], to->values + at, gradient, rate);
            continue;
        }
        gy_ps_update_apply(&(ps_step){.table = table,
                                      .rate = rate,
                                      .step = to->steps != NULL ? ++to->steps[place] : 1,
                                      .values = to->values + at,
                                      .state = {to->slots > 0 ? to->state[0] + at : NULL,
                                                to->slots > 1 ? to->state[1] + at : NULL},
                                      .gradient = gradient,
                                      .count = table->width});
    }
    return GY_OK;
}

gy_status gy_ps_part_apply(gy_ps_part *part, const gy_ps_rows *rows, const void *values,
                           double rate)
{
    ps_rows *to = &part->rows;
    const gy_ps_table_options *table = &part->options.table;
    rate = rate > 0 ? rate : table->rate;
    if (table->is_sparse) {
        return apply_sparse(part, rows, values, rate);
    }
    size_t at = (size_t)(rows->first - to->first) * to->row_bytes;
    if (table->update == GY_PS_FUNCTION) {
        for (size_t i = 0; i < rows->count; i++) {
            apply_function(part, rows->first + i, to->values + at + i * to->row_bytes,
                           (const uint8_t *)values + i * to->row_bytes, rate);
        }
        return GY_OK;
    }
    gy_ps_update_apply(&(ps_step){.table = table,
                                  .rate = rate,
                                  .step = part->updates + 1,
                                  .values = to->values + at,
                                  .state = {to->slots > 0 ? to->state[0] + at : NULL,
                                            to->slots > 1 ? to->state[1] + at : NULL},
                                  .gradient = values,
                                  .count = rows->count * table->width});
    return GY_OK;
}

/* ---- Pushes ---- */

static gy_status judge(gy_ps_part *part, const gy_ps_gradient *push, const ps_worker *row)
{
    if (push->clock != row->clock) {
        return gy_fail(GY_STATE,
                       "table %s: a push of clock %llu of worker %u, which is at %llu",
                       part->name, (unsigned long long)push->clock, push->worker,
                       (unsigned long long)row->clock);
    }
    if (!(push->rate >= 0 && push->rate < INFINITY)) {
        return gy_fail(GY_NUMERIC, "table %s: a push at rate %g: expected 0 or above",
                       part->name, push->rate);
    }
    if (push->rows.slot > 0) {
        return gy_fail(GY_ARG, "table %s: a push to the state of its update", part->name);
    }
    GY_TRY(GY_PS_PLANTED(ROWS_UNJUDGED) ? GY_OK : judge_rows(part, &push->rows));
    return judge_values(part, &push->rows, push->values);
}

/* A push of a worker that has not seen some updates counts less. */
static gy_status apply_now(gy_ps_part *part, const gy_ps_gradient *push)
{
    const gy_ps_table_options *table = &part->options.table;
    const void *values = push->values;
    size_t count = push->rows.count * table->width;
    if (table->is_sparse) {
        GY_TRY(gy_ps_rows_admit(&part->rows, push->rows.count));
    }
    if (table->sync.rule == GY_PS_WEIGHTED && part->updates > push->seen) {
        size_t size = push->rows.count * part->rows.row_bytes;
        GY_TRY(GY_GROW("ps.sums", part->sums, part->sums_capacity, size));
        memcpy(part->sums, push->values, size);
        gy_ps_values_scale(table->dtype, part->sums, count,
                           1 / (1 + (double)(part->updates - push->seen)));
        values = part->sums;
    }
    GY_TRY(gy_ps_part_apply(part, &push->rows, values, push->rate));
    part->updates++;
    return GY_OK;
}

gy_status gy_ps_part_push(gy_ps_part *part, const gy_ps_gradient *push, gy_ps_outcome *outcome)
{
    ps_worker *row = NULL;
    gy_status status = find_worker(part, push->worker, push->client, &row);
    if (status == GY_OK && push->number <= row->number && !GY_PS_PLANTED(NUMBER_FORGOTTEN)) {
        part->duplicates++;
        *outcome = GY_PS_DUPLICATE;
        gy_ps_room_release(part, push->room);
        return GY_OK;
    }
    if (status == GY_OK) {
        status = judge(part, push, row);
    }
    if (row != NULL && GY_PS_PLANTED(NUMBER_FIRST)) {
        row->number = push->number;
    }
    bool is_held = gy_ps_clocks_hold(&part->clocks);
    bool is_late = is_held && push->clock < part->clocks.closed;
    if (status == GY_OK && is_held && !is_late) {
        status = gy_ps_held_add(part, push); /* takes the room */
    } else {
        if (status == GY_OK && (!is_late || GY_PS_PLANTED(LATE_APPLIED))) {
            status = apply_now(part, push);
        }
        gy_ps_room_release(part, push->room);
    }
    if (status < 0) {
        part->refused++;
        return status;
    }
    row->number = push->number;
    part->pushes++;
    part->dropped += is_late;
    *outcome = is_late ? GY_PS_DROPPED : is_held ? GY_PS_HELD : GY_PS_APPLIED;
    return GY_OK;
}

/* The values of a dense table, or a state of its update. */
static uint8_t *array_of(const ps_rows *rows, uint32_t slot)
{
    return slot == 0 ? rows->values : rows->state[slot - 1];
}

gy_status gy_ps_part_put(gy_ps_part *part, const gy_ps_rows *rows, const void *values,
                         uint64_t updates)
{
    ps_rows *to = &part->rows;
    const uint8_t *from = values;
    GY_TRY(judge_rows(part, rows));
    GY_TRY(judge_values(part, rows, values));
    if (!part->options.table.is_sparse) {
        memcpy(array_of(to, rows->slot) + (size_t)(rows->first - to->first) * to->row_bytes,
               from, rows->count * to->row_bytes);
        part->updates = rows->slot > 0 ? updates : part->updates;
        return GY_OK;
    }
    GY_TRY(gy_ps_rows_admit(to, rows->count));
    for (size_t i = 0; i < rows->count; i++) {
        uint32_t place = 0;
        GY_TRY(gy_ps_rows_take(to, rows->keys[i], &place));
        memcpy(to->values + place * to->row_bytes, from + i * to->row_bytes, to->row_bytes);
    }
    return GY_OK;
}

gy_status gy_ps_part_pull(const gy_ps_part *part, const gy_ps_rows *rows, void *out,
                          uint64_t *updates)
{
    const ps_rows *from = &part->rows;
    uint8_t *to = out;
    GY_TRY(judge_rows(part, rows));
    *updates = part->updates;
    if (!part->options.table.is_sparse) {
        memcpy(to,
               array_of(from, rows->slot) +
                   (size_t)(rows->first - from->first) * from->row_bytes,
               rows->count * from->row_bytes);
        return GY_OK;
    }
    for (size_t i = 0; i < rows->count; i++) {
        gy_ps_rows_prefetch(from, rows->keys[GY_MIN(i + PREFETCH, rows->count - 1)]);
        gy_ps_rows_read(from, rows->keys[i], to + i * from->row_bytes);
    }
    return GY_OK;
}

/* ---- Facts ---- */

void gy_ps_part_look(const gy_ps_part *part, gy_ps_part_facts *facts)
{
    const ps_clocks *clocks = &part->clocks;
    *facts = (gy_ps_part_facts){.rows = part->rows.count,
                                .updates = part->updates,
                                .pushes = part->pushes,
                                .duplicates = part->duplicates,
                                .dropped = part->dropped,
                                .refused = part->refused,
                                .held_bytes = part->held_bytes,
                                .closed = clocks->closed};
    for (uint32_t i = 0; i < clocks->count; i++) {
        const ps_worker *worker = &clocks->workers[i];
        if (worker->is_live) {
            facts->clock_min =
                facts->live == 0 ? worker->clock : GY_MIN(facts->clock_min, worker->clock);
            facts->clock_max = GY_MAX(facts->clock_max, worker->clock);
            facts->live++;
        }
    }
}

const gy_ps_table_options *gy_ps_part_table(const gy_ps_part *part)
{
    return &part->options.table;
}

uint32_t gy_ps_part_worker_count(const gy_ps_part *part)
{
    return part->clocks.count;
}

bool gy_ps_part_has_worker(const gy_ps_part *part, uint32_t worker, uint64_t *client)
{
    GY_ASSERT(worker < part->clocks.count);
    const ps_worker *row = &part->clocks.workers[worker];
    *client = row->client;
    return row->is_live && row->has_joined;
}
