/*
 * Aggregation by several workers: gy_parallel_aggregate.
 *
 * The tables that count are the parts: part p has the groups whose hashes lie in
 * [p, p + 1) * 2^64 / parts, so that the parts, one behind the other, are in the order of one
 * table. A wave of rows goes there in two steps, each by all workers: pieces are divided by
 * hash, then each part takes its rows of all pieces in their order.
 *
 * Few groups would be few parts with rows. So a piece is first offered to a small table (a
 * lane) that nobody else uses at the moment, which groups it; what lanes have goes to the parts
 * as states, when a lane is full and at the end. Lanes that make few groups of many rows stay.
 */
#include "query/parallel/parallel_priv.h"

#include <stdatomic.h>
#include <string.h>

enum {
    LANE_GROUPS = 32 << 10, /* a table of so many groups lies in the cache of a core */
    LANE_GAIN = 4,          /* rows of a group at least, else lanes are of no use */
    PIECE_ROWS = 64 << 10,
    PIECE_ROWS_LIMITED = 8 << 10,
    WAVE_ROWS = 1 << 20,
    PARTS_A_WORKER = 8,
    PARTS_MOST = 64,
    PART_BYTES_MIN = 2 * GY_ROWS_MEMORY_BYTES_MIN,
};

#define WAVE_BYTES (UINT64_C(64) << 20)

/* A frame whose rows stand in the order of parts: part p ends before ends[p]. */
typedef struct divided {
    gy_frame *frame; /* NULL: none */
    int64_t ends[PARTS_MOST];
} divided;

typedef struct lane {
    atomic_flag is_used;
    gy_rows_aggregator *aggregator; /* rows to states */
    int64_t rows;                   /* since it was empty */
    divided *states;                /* (state_count) what it gave */
    size_t state_count, state_capacity;
} lane;

typedef struct crowd {
    gy_frame_source in;
    gy_rows_limits limits;
    gy_parallel_waves waves;
    int key_count;
    int *keys, *state_keys; /* (key_count) in rows, in states */
    int part_count;
    gy_rows_aggregator *parts[PARTS_MOST];
    gy_rows_counts part_counts[PARTS_MOST];
    bool has_lanes;
    lane *lanes;
    int lane_count;
    uint64_t lane_bytes; /* 0: no bound */
    divided *pieces;     /* (piece_count) of the wave */
    size_t piece_count, piece_capacity;
    bool is_read, has_spilled;
    bool gives_on; /* to another one of the same operator: what it gives is not counted */
    gy_rows_list given[PARTS_MOST]; /* what parts gave */
    int part, given_end;            /* the part that is given; those before the end gave all */
    size_t given_at;
} crowd;

/* ---- dividing ---- */

static int part_of(const crowd *it, uint64_t hash)
{
    __extension__ typedef unsigned __int128 wide;
    return (int)((wide)hash * (unsigned)it->part_count >> 64);
}

/* Rows in the order of their parts. */
static gy_status divide(const crowd *it, const int *keys, gy_frame *frame, divided *to)
{
    const int64_t rows = gy_frame_rows(frame);
    uint64_t *hashes = gy_alloc("query.hashes", ((size_t)rows + 1) * sizeof(*hashes));
    int32_t *order = gy_alloc("query.parts", ((size_t)rows + 1) * sizeof(*order));
    gy_status status = hashes == NULL || order == NULL ? GY_NOMEM : GY_OK;
    int64_t at[PARTS_MOST + 1] = {0};
    bool is_ordered = true;
    if (status == GY_OK) {
        gy_rows_hash(frame, keys, it->key_count, hashes);
        int last = 0;
        for (int64_t i = 0; i < rows; i++) {
            const int part = part_of(it, hashes[i]);
            hashes[i] = (uint64_t)part;
            is_ordered &= part >= last;
            last = part;
            at[part + 1]++;
        }
        for (int p = 0; p < it->part_count; p++) {
            at[p + 1] += at[p];
            to->ends[p] = at[p + 1];
        }
        for (int64_t i = 0; i < rows && !is_ordered; i++) {
            order[at[hashes[i]]++] = (int32_t)i;
        }
    }
    if (status == GY_OK && is_ordered) {
        to->frame = gy_frame_hold(frame);
    } else if (status == GY_OK) {
        status = gy_rows_gather(frame, order, rows, &to->frame);
    }
    gy_free(hashes);
    gy_free(order);
    return status;
}

/* ---- lanes ---- */

static bool is_full(const crowd *it, const lane *in)
{
    return gy_rows_aggregator_groups(in->aggregator) > LANE_GROUPS ||
           (it->lane_bytes != 0 && gy_rows_aggregator_bytes(in->aggregator) > it->lane_bytes);
}

/* A lane that nobody uses; there are more than threads that ask. */
static lane *enter_lane(crowd *it)
{
    for (int i = 0;; i = (i + 1) % it->lane_count) {
        if (!atomic_flag_test_and_set_explicit(&it->lanes[i].is_used, memory_order_acquire)) {
            return &it->lanes[i];
        }
    }
}

static gy_status take_piece(void *arg, int64_t index)
{
    crowd *it = arg;
    gy_frame *frame = it->waves.list.frames[index];
    bool is_taken = false;
    gy_status status = GY_OK;
    if (it->has_lanes) {
        lane *in = enter_lane(it);
        is_taken = !is_full(it, in);
        if (is_taken) {
            status = gy_rows_aggregator_push(in->aggregator, frame);
            in->rows += gy_frame_rows(frame);
        }
        atomic_flag_clear_explicit(&in->is_used, memory_order_release);
    }
    if (!is_taken) {
        status = divide(it, it->keys, frame, &it->pieces[index]);
    }
    it->waves.list.frames[index] = NULL;
    gy_frame_drop(frame);
    return status;
}

/* The groups of a lane as divided states; it is empty then. */
static gy_status empty_lane(void *arg, int64_t index)
{
    crowd *it = arg;
    lane *in = &it->lanes[index];
    for (;;) {
        gy_frame *frame = NULL;
        gy_status status = gy_rows_aggregator_next(in->aggregator, &frame);
        if (status == GY_DONE) {
            gy_rows_aggregator_again(in->aggregator);
            return GY_OK;
        }
        GY_TRY(status);
        status = GY_GROW("query.lane", in->states, in->state_capacity, in->state_count + 1);
        if (status == GY_OK) {
            divided *to = &in->states[in->state_count++];
            *to = (divided){.frame = NULL};
            status = divide(it, it->state_keys, frame, to);
        }
        gy_frame_drop(frame);
        GY_TRY(status);
    }
}

static void drop_lanes(crowd *it)
{
    for (int i = 0; i < it->lane_count; i++) {
        lane *in = &it->lanes[i];
        gy_rows_aggregator_free(in->aggregator);
        for (size_t k = 0; k < in->state_count; k++) {
            gy_frame_drop(in->states[k].frame);
        }
        gy_free(in->states);
    }
    gy_free(it->lanes);
    it->lanes = NULL;
    it->lane_count = 0;
    it->has_lanes = false;
}

/* ---- parts ---- */

static gy_status take_divided(crowd *it, const divided *from, int64_t p, bool is_states)
{
    const int64_t begin = p == 0 ? 0 : from->ends[p - 1], end = from->ends[p];
    if (from->frame == NULL || begin == end) {
        return GY_OK;
    }
    return is_states ? gy_rows_aggregator_merge_range(it->parts[p], from->frame, begin, end)
                     : gy_rows_aggregator_push_range(it->parts[p], from->frame, begin, end);
}

static gy_status fill_part(void *arg, int64_t p)
{
    crowd *it = arg;
    for (size_t i = 0; i < it->piece_count; i++) {
        GY_TRY(take_divided(it, &it->pieces[i], p, false));
    }
    for (int k = 0; k < it->lane_count; k++) {
        for (size_t i = 0; i < it->lanes[k].state_count; i++) {
            GY_TRY(take_divided(it, &it->lanes[k].states[i], p, true));
        }
    }
    return GY_OK;
}

/* Counts of parts are those of the operator. */
static void add_counts(crowd *it)
{
    for (int p = 0; p < it->part_count; p++) {
        gy_rows_counts *from = &it->part_counts[p], *to = it->limits.counts;
        if (to != NULL) {
            to->spills += from->spills;
            to->spilled_bytes += from->spilled_bytes;
        }
        *from = (gy_rows_counts){.spills = 0};
    }
}

/* What was divided goes to the parts. */
static gy_status fill_parts(crowd *it)
{
    const gy_status status = gy_rows_each(it->limits.engine, it->part_count, fill_part, it);
    add_counts(it);
    for (size_t i = 0; i < it->piece_count; i++) {
        gy_frame_drop(it->pieces[i].frame);
        it->pieces[i].frame = NULL;
    }
    for (int k = 0; k < it->lane_count; k++) {
        for (size_t i = 0; i < it->lanes[k].state_count; i++) {
            gy_frame_drop(it->lanes[k].states[i].frame);
        }
        it->lanes[k].state_count = 0;
    }
    return status;
}

/* Empty the lanes if one is full, or at the end. Lanes that do not make rows fewer go. */
static gy_status empty_lanes(crowd *it, bool is_end)
{
    int64_t rows = 0, groups = 0;
    bool has_full = is_end;
    for (int i = 0; i < it->lane_count; i++) {
        rows += it->lanes[i].rows;
        groups += gy_rows_aggregator_groups(it->lanes[i].aggregator);
        has_full |= is_full(it, &it->lanes[i]);
    }
    if (!has_full) {
        return GY_OK;
    }
    for (int i = 0; i < it->lane_count; i++) {
        it->lanes[i].rows = 0;
    }
    it->has_lanes = groups * LANE_GAIN <= rows;
    return gy_rows_each(it->limits.engine, it->lane_count, empty_lane, it);
}

static gy_status take_wave(crowd *it)
{
    const size_t count = it->waves.list.count;
    GY_TRY(GY_GROW("query.pieces", it->pieces, it->piece_capacity, count));
    memset(it->pieces, 0, count * sizeof(*it->pieces));
    it->piece_count = count;
    GY_TRY(gy_rows_each(it->limits.engine, (int64_t)count, take_piece, it));
    GY_TRY(empty_lanes(it, false));
    GY_TRY(fill_parts(it));
    if (!it->has_lanes) {
        drop_lanes(it);
    }
    return GY_OK;
}

static gy_status take(crowd *it)
{
    for (;;) {
        GY_TRY(gy_parallel_waves_next(&it->waves));
        if (it->waves.list.count == 0) {
            break;
        }
        GY_TRY(take_wave(it));
    }
    gy_parallel_waves_fini(&it->waves);
    gy_rows_close(&it->in);
    it->piece_count = 0;
    if (it->has_lanes) {
        GY_TRY(empty_lanes(it, true));
        GY_TRY(fill_parts(it));
        drop_lanes(it);
    }
    for (int p = 0; p < it->part_count; p++) {
        it->has_spilled |= gy_rows_aggregator_has_spilled(it->parts[p]);
    }
    it->is_read = true;
    return GY_OK;
}

/* ---- giving ---- */

/* All groups of a part; its table goes. */
static gy_status give_part(void *arg, int64_t index)
{
    crowd *it = arg;
    const int64_t p = it->given_end + index;
    for (;;) {
        gy_frame *frame = NULL;
        const gy_status status = gy_rows_aggregator_next(it->parts[p], &frame);
        if (status == GY_DONE) {
            gy_rows_aggregator_free(it->parts[p]);
            it->parts[p] = NULL;
            return GY_OK;
        }
        GY_TRY(status);
        GY_TRY(gy_rows_list_add(&it->given[p], frame));
    }
}

/* The next frame of parts that lie in memory: some at once are made frames. */
static gy_status next_given(crowd *it, gy_frame **frame)
{
    while (it->part < it->part_count) {
        if (it->part == it->given_end) {
            const int more =
                GY_MIN(it->part_count - it->given_end, 2 * gy_parallel_workers(&it->limits));
            GY_TRY(gy_rows_each(it->limits.engine, more, give_part, it));
            it->given_end += more;
        }
        gy_rows_list *list = &it->given[it->part];
        if (it->given_at < list->count) {
            *frame = list->frames[it->given_at];
            list->frames[it->given_at++] = NULL;
            return GY_OK;
        }
        gy_rows_list_free(list);
        it->given_at = 0;
        it->part++;
    }
    return GY_DONE;
}

/* The next frame, one part behind the other: what is in files is not read at once. */
static gy_status next_spilled(crowd *it, gy_frame **frame)
{
    while (it->part < it->part_count) {
        const gy_status status = gy_rows_aggregator_next(it->parts[it->part], frame);
        if (status != GY_DONE) {
            return status;
        }
        gy_rows_aggregator_free(it->parts[it->part]);
        it->parts[it->part++] = NULL;
    }
    return GY_DONE;
}

static gy_status crowd_next(void *arg, gy_frame **frame)
{
    crowd *it = arg;
    const int64_t begin_ns = gy_now_ns(it->limits.env);
    it->waves.source_ns = 0;
    gy_status status = it->is_read ? GY_OK : take(it);
    if (status == GY_OK) {
        status = it->has_spilled ? next_spilled(it, frame) : next_given(it, frame);
        add_counts(it);
    }
    if (it->limits.counts != NULL) {
        it->limits.counts->rows_out +=
            status == GY_OK && !it->gives_on ? gy_frame_rows(*frame) : 0;
        it->limits.counts->time_ns +=
            gy_now_ns(it->limits.env) - begin_ns - it->waves.source_ns;
    }
    return status;
}

/* ---- making ---- */

static void crowd_close(void *arg)
{
    crowd *it = arg;
    gy_parallel_waves_fini(&it->waves);
    gy_rows_close(&it->in);
    drop_lanes(it);
    for (size_t i = 0; i < it->piece_count; i++) {
        gy_frame_drop(it->pieces[i].frame);
    }
    gy_free(it->pieces);
    for (int p = 0; p < it->part_count; p++) {
        gy_rows_aggregator_free(it->parts[p]);
        gy_rows_list_free(&it->given[p]);
    }
    gy_free(it->keys);
    gy_free(it->state_keys);
    gy_rows_limits_fini(&it->limits);
    gy_free(it);
}

/* How much of a bound is whose: a half the parts', an eighth the lanes', and of waves, which
 * exist twice when they are divided, a sixteenth each. */
static void set_sizes(crowd *it)
{
    const uint64_t bound = it->limits.memory_bytes;
    const int workers = gy_parallel_workers(&it->limits);
    it->part_count = 1;
    while (it->key_count > 0 && it->part_count < PARTS_MOST &&
           it->part_count < PARTS_A_WORKER * workers &&
           (bound == 0 || bound / 4 / (unsigned)it->part_count >= PART_BYTES_MIN)) {
        it->part_count *= 2;
    }
    it->lane_count = workers + 1;
    it->lane_bytes = bound / 8 / (unsigned)it->lane_count;
    it->waves =
        (gy_parallel_waves){.in = &it->in,
                            .counts = it->limits.counts,
                            .env = it->limits.env,
                            .piece_rows = bound == 0 ? PIECE_ROWS : PIECE_ROWS_LIMITED,
                            .rows = WAVE_ROWS,
                            .bytes = bound == 0 ? WAVE_BYTES : GY_MIN(WAVE_BYTES, bound / 16),
                            .pieces = SIZE_MAX};
}

static gy_status make_parts(crowd *it, gy_schema *in_schema,
                            const gy_rows_aggregate_options *options)
{
    gy_rows_aggregate_options own = *options;
    for (int p = 0; p < it->part_count; p++) {
        own.limits = it->limits;
        own.limits.memory_bytes = it->limits.memory_bytes / 2 / (unsigned)it->part_count;
        own.limits.counts = &it->part_counts[p];
        GY_TRY(gy_rows_aggregator_new(in_schema, &own, &it->parts[p]));
    }
    return GY_OK;
}

static gy_status make_lanes(crowd *it, gy_schema *in_schema,
                            const gy_rows_aggregate_options *options)
{
    gy_rows_aggregate_options own = *options;
    own.phase = GY_ROWS_PARTIAL;
    own.is_passing = true;
    own.needs_rows = true;
    own.limits = (gy_rows_limits){.memory_bytes = 0, .env = it->limits.env};
    it->lanes = gy_alloc_zero("query.lanes", (size_t)it->lane_count, sizeof(*it->lanes));
    if (it->lanes == NULL) {
        it->lane_count = 0;
        return GY_NOMEM;
    }
    it->has_lanes = true;
    for (int i = 0; i < it->lane_count; i++) {
        atomic_flag_clear(&it->lanes[i].is_used);
        GY_TRY(gy_rows_aggregator_new(in_schema, &own, &it->lanes[i].aggregator));
    }
    return GY_OK;
}

/* Whether it matters in which order rows come to a group. */
static bool is_in_order(const gy_rows_aggregate_options *options)
{
    for (int i = 0; i < options->aggregate_count; i++) {
        if (options->aggregates[i].kind == GY_ROWS_ANY) {
            return true;
        }
    }
    return false;
}

static gy_status init(crowd *it, gy_schema *in_schema, const gy_rows_aggregate_options *options)
{
    const size_t keys = (size_t)options->key_count;
    it->key_count = options->key_count;
    GY_TRY(gy_rows_limits_copy(&options->limits, &it->limits));
    set_sizes(it);
    it->keys = gy_alloc_zero("query.keys", keys + 1, sizeof(*it->keys));
    it->state_keys = gy_alloc_zero("query.keys", keys + 1, sizeof(*it->state_keys));
    if (it->keys == NULL || it->state_keys == NULL) {
        return GY_NOMEM;
    }
    for (int k = 0; k < options->key_count; k++) {
        it->keys[k] = options->keys[k];
        it->state_keys[k] = k;
    }
    GY_TRY(make_parts(it, in_schema, options));
    if (is_in_order(options)) {
        it->lane_count = 0;
        return GY_OK;
    }
    return make_lanes(it, in_schema, options);
}

/* Operators that rows.h has alone. */
static bool is_alone(const gy_rows_aggregate_options *options)
{
    return gy_parallel_workers(&options->limits) == 1 || options->phase != GY_ROWS_WHOLE ||
           options->is_passing;
}

static gy_status of_rows(gy_frame_source in, gy_schema *in_schema,
                         const gy_rows_aggregate_options *options, gy_frame_source *out,
                         gy_schema **schema)
{
    crowd *it = gy_alloc_zero("query.aggregate", 1, sizeof(*it));
    if (it == NULL) {
        gy_rows_close(&in);
        return GY_NOMEM;
    }
    it->in = in;
    const gy_status status = init(it, in_schema, options);
    if (status < 0) {
        crowd_close(it);
        return status;
    }
    *out = (gy_frame_source){.next = crowd_next, .close = crowd_close, .arg = it};
    *schema = gy_schema_hold(gy_rows_aggregator_schema(it->parts[0]));
    return GY_OK;
}

/* ---- distinct values ---- */

/* How many aggregates are of distinct values; -1: not all of them, or not of one column, or of
 * a kind to which that does not matter. */
static int count_distinct(const gy_rows_aggregate_options *options)
{
    int distinct = 0;
    bool is_one = true;
    for (int i = 0; i < options->aggregate_count; i++) {
        const gy_rows_aggregate_of *of = &options->aggregates[i];
        distinct += of->is_distinct;
        is_one &= of->is_distinct && !of->has_filter &&
                  of->column == options->aggregates[0].column &&
                  (of->kind == GY_ROWS_COUNT || of->kind == GY_ROWS_SUM ||
                   of->kind == GY_ROWS_AVG || of->kind == GY_ROWS_OWN);
    }
    return distinct == 0 || is_one ? distinct : -1;
}

/* Groups by the keys and the column leave each value once; they are grouped by the keys. Rows
 * are counted as they go in and come out, and each of the two has half of the memory. */
static gy_status of_values(gy_frame_source in, gy_schema *in_schema,
                           const gy_rows_aggregate_options *options, gy_frame_source *out,
                           gy_schema **schema)
{
    const int keys = options->key_count;
    const size_t count = (size_t)options->aggregate_count;
    int *of = gy_alloc_zero("query.keys", 2 * (size_t)keys + 1, sizeof(*of));
    gy_rows_aggregate_of *aggregates = gy_alloc_zero("query.keys", count, sizeof(*aggregates));
    gy_frame_source values = in;
    gy_schema *between = NULL;
    gy_status status = of == NULL || aggregates == NULL ? GY_NOMEM : GY_OK;
    gy_rows_aggregate_options first = *options, last = *options;
    first.limits.memory_bytes = last.limits.memory_bytes = options->limits.memory_bytes / 2;
    if (status == GY_OK) {
        for (int k = 0; k < keys; k++) {
            of[k] = options->keys[k];
            of[keys + 1 + k] = k;
        }
        of[keys] = options->aggregates[0].column;
        for (size_t i = 0; i < count; i++) {
            aggregates[i] = options->aggregates[i];
            aggregates[i].column = keys;
            aggregates[i].is_distinct = false;
        }
        first.keys = of;
        first.key_count = keys + 1;
        first.aggregate_count = 0;
        last.keys = of + keys + 1;
        last.aggregates = aggregates;
        status = of_rows(in, in_schema, &first, &values, &between);
    } else {
        gy_rows_close(&in);
    }
    if (status == GY_OK) {
        ((crowd *)values.arg)->gives_on = true;
        status = of_rows(values, between, &last, out, schema);
    }
    if (status == GY_OK) {
        ((crowd *)out->arg)->waves.counts = NULL;
    }
    gy_schema_drop(between);
    gy_free(of);
    gy_free(aggregates);
    return status;
}

gy_status gy_parallel_aggregate(gy_frame_source in, gy_schema *in_schema,
                                const gy_rows_aggregate_options *options, gy_frame_source *out,
                                gy_schema **schema)
{
    const int distinct = count_distinct(options);
    if (is_alone(options) || distinct < 0) {
        return gy_rows_aggregate(in, in_schema, options, out, schema);
    }
    return distinct == 0 ? of_rows(in, in_schema, options, out, schema)
                         : of_values(in, in_schema, options, out, schema);
}
