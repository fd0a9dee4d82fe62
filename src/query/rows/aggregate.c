/*
 * Aggregation: rows are added to groups until memory is full. Then all groups are written as
 * states, in the order of hashes and cut by them into parts, and the table begins anew. At the
 * end each part is merged by an aggregation of its own, one part behind the other, so that
 * groups come in the order of hashes, spilled or not.
 *
 * Groups in part that are hardly fewer than their rows cost more than they save: as a source of
 * states an aggregation measures that on some rows, and then makes a state of each row, without
 * a table, until it measures again.
 *
 * @source Leis, Boncz, Kemper, Neumann, "Morsel-Driven Parallelism", SIGMOD 2014 (groups in
 * part before a partition); Larson, "Grouping and Duplicate Elimination", 1997 (switched off)
 */
#include "query/rows/rows_priv.h"

enum { PARTS = 16, LEVELS_MOST = 8, EMIT_GROUPS = 256, MEASURE_AGAIN = 16 };

struct gy_rows_aggregator {
    gy_schema *in_schema, *state_schema, *out_schema;
    gy_rows_phase phase;
    gy_rows_limits limits;
    bool is_passing, needs_rows;
    int64_t measured_rows; /* 0: it makes groups of all rows */
    int level;
    int key_count, state_count, record_words;
    gy_rows_key_layout layout;
    gy_rows_state *states; /* (state_count) */
    /* the same for rows that are states, in the columns of `state_schema` */
    gy_rows_key_layout merge_layout;
    gy_rows_state *merges; /* (state_count) */
    gy_rows_groups *groups;
    /* groups in memory are given from `given` on, when they are ordered */
    bool is_ordered, is_ended;
    int64_t given;
    /* spilled: runs of states by part; part p has hashes below bounds[p] */
    gy_rows_spill *spill;
    gy_rows_run runs[PARTS];
    uint64_t bounds[PARTS - 1];
    int part;
    gy_rows_aggregator *child; /* merges a part */
};

static bool takes_states(const gy_rows_aggregator *it)
{
    return it->phase == GY_ROWS_MERGE || it->phase == GY_ROWS_FINAL;
}

static bool gives_states(const gy_rows_aggregator *it)
{
    return it->phase == GY_ROWS_PARTIAL || it->phase == GY_ROWS_MERGE;
}

/* ---- making ---- */

/* The columns that a function of the program takes. */
static gy_status check_own(const gy_rows_aggregator *it, const gy_rows_aggregate_of *of)
{
    GY_TRY(gy_rows_check_columns(it->in_schema, of->more, of->own->parameter_count - 1,
                                 "aggregate"));
    for (int k = 0; k < of->own->parameter_count; k++) {
        const int column = k == 0 ? of->column : of->more[k - 1];
        GY_TRY(gy_rows_check_same(gy_schema_field(it->in_schema, column),
                                  &of->own->parameters[k]));
    }
    return GY_OK;
}

static gy_status init_states(gy_rows_aggregator *it, const gy_rows_aggregate_options *options)
{
    static const gy_field none = {.name = "", .kind = GY_FIELD_BOOL};
    int offset = 1 + it->layout.words;
    for (int i = 0; i < options->aggregate_count; i++) {
        const gy_rows_aggregate_of *of = &options->aggregates[i];
        const bool is_star = of->kind == GY_ROWS_COUNT_STAR && !takes_states(it);
        gy_rows_state *state = &it->states[i];
        if (!is_star) {
            GY_TRY(gy_rows_check_columns(it->in_schema, &of->column, 1, "aggregate"));
        }
        if (of->has_filter) {
            GY_TRY(gy_rows_check_columns(it->in_schema, &of->filter, 1, "filter"));
            if (takes_states(it) ||
                gy_schema_field(it->in_schema, of->filter)->kind != GY_FIELD_BOOL) {
                return gy_fail(GY_TYPE, "the filter of an aggregate is no bool column of rows");
            }
        }
        if (of->kind == GY_ROWS_OWN && !takes_states(it)) {
            GY_TRY(check_own(it, of));
        }
        const gy_field *field =
            takes_states(it) ? &of->field
                             : (is_star ? &none : gy_schema_field(it->in_schema, of->column));
        GY_TRY(gy_rows_state_init(state, of, field));
        for (int k = 0; k < state->column_count && takes_states(it); k++) {
            const int column = of->column + k;
            GY_TRY(gy_rows_check_columns(it->in_schema, &column, 1, "state"));
            const gy_field wanted = gy_rows_state_field(state, k);
            GY_TRY(gy_rows_check_same(gy_schema_field(it->in_schema, column), &wanted));
        }
        state->offset = offset;
        offset += state->words;
    }
    it->record_words = offset;
    return gy_rows_groups_new(&it->layout, offset - 1 - it->layout.words, &it->groups);
}

/* The schema of keys, and behind them states or answers. */
static gy_status make_schema(const gy_rows_aggregator *it, bool has_states, gy_schema **schema)
{
    int count = it->key_count;
    for (int i = 0; i < it->state_count; i++) {
        count += has_states ? it->states[i].column_count : 1;
    }
    gy_field *fields = gy_alloc_zero("query.fields", (size_t)count + 1, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    int at = 0;
    for (; at < it->key_count; at++) {
        fields[at] = *gy_schema_field(it->in_schema, it->layout.columns[at]);
    }
    for (int i = 0; i < it->state_count; i++) {
        const gy_rows_state *state = &it->states[i];
        if (!has_states) {
            fields[at++] = gy_rows_state_answer(state);
        }
        for (int k = 0; k < state->column_count && has_states; k++) {
            fields[at++] = gy_rows_state_field(state, k);
        }
    }
    GY_ASSERT(at == count);
    const gy_status status = gy_schema_new(fields, count, schema);
    gy_free(fields);
    return status;
}

/* How states are merged that lie as this aggregation gives them to itself. */
static gy_status init_merges(gy_rows_aggregator *it)
{
    int *keys = gy_alloc_zero("query.keys", (size_t)it->key_count + 1, sizeof(*keys));
    it->merges =
        gy_alloc_zero("query.states", (size_t)it->state_count + 1, sizeof(*it->merges));
    gy_status status = keys == NULL || it->merges == NULL ? GY_NOMEM : GY_OK;
    int column = it->key_count;
    for (int k = 0; k < it->key_count && status == GY_OK; k++) {
        keys[k] = k;
    }
    for (int i = 0; i < it->state_count && status == GY_OK; i++) {
        it->merges[i] = it->states[i];
        it->merges[i].of.column = column;
        it->merges[i].of.has_filter = false;
        it->merges[i].of.field = it->states[i].field;
        column += it->states[i].column_count;
    }
    if (status == GY_OK) {
        status =
            gy_rows_key_layout_init(&it->merge_layout, it->state_schema, keys, it->key_count);
    }
    gy_free(keys);
    return status;
}

static gy_status init(gy_rows_aggregator *it, const gy_rows_aggregate_options *options)
{
    GY_TRY(gy_rows_limits_copy(&options->limits, &it->limits));
    GY_TRY(gy_rows_check_columns(it->in_schema, options->keys, options->key_count, "key"));
    GY_TRY(
        gy_rows_key_layout_init(&it->layout, it->in_schema, options->keys, options->key_count));
    it->states = gy_alloc_zero("query.states", (size_t)options->aggregate_count + 1,
                               sizeof(*it->states));
    if (it->states == NULL) {
        return GY_NOMEM;
    }
    it->state_count = options->aggregate_count;
    GY_TRY(init_states(it, options));
    GY_TRY(make_schema(it, true, &it->state_schema));
    GY_TRY(make_schema(it, gives_states(it), &it->out_schema));
    for (int i = 0; i < it->state_count; i++) {
        it->states[i].of.name = NULL; /* it was borrowed */
        it->states[i].field.name = "";
    }
    return init_merges(it);
}

gy_status gy_rows_aggregator_new(gy_schema *in_schema, const gy_rows_aggregate_options *options,
                                 gy_rows_aggregator **aggregator)
{
    gy_rows_aggregator *made = gy_alloc_zero("query.aggregator", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->in_schema = gy_schema_hold(in_schema);
    made->phase = options->phase;
    made->is_passing = options->is_passing;
    made->needs_rows = options->needs_rows || options->key_count > 0;
    made->key_count = options->key_count;
    GY_ASSERT(!made->is_passing || gives_states(made));
    if (made->is_passing && made->phase == GY_ROWS_PARTIAL && made->key_count > 0) {
        made->measured_rows =
            options->measured_rows > 0 ? options->measured_rows : GY_ROWS_MEASURED;
    }
    const gy_status status = init(made, options);
    if (status < 0) {
        gy_rows_aggregator_free(made);
        return status;
    }
    *aggregator = made;
    return GY_OK;
}

void gy_rows_aggregator_free(gy_rows_aggregator *it)
{
    if (it == NULL) {
        return;
    }
    gy_rows_aggregator_free(it->child);
    for (int p = 0; p < PARTS; p++) {
        gy_rows_run_free(&it->runs[p]);
    }
    gy_rows_spill_free(it->spill);
    gy_rows_groups_free(it->groups);
    gy_rows_key_layout_fini(&it->layout);
    gy_rows_key_layout_fini(&it->merge_layout);
    gy_free(it->states);
    gy_free(it->merges);
    gy_schema_drop(it->in_schema);
    gy_schema_drop(it->state_schema);
    gy_schema_drop(it->out_schema);
    gy_rows_limits_fini(&it->limits);
    gy_free(it);
}

gy_schema *gy_rows_aggregator_schema(const gy_rows_aggregator *it)
{
    return it->out_schema;
}

/* ---- groups as frames ---- */

/* Append a few groups to the makers of all columns: as many as stay in the cache meanwhile. */
static gy_status append_groups(gy_rows_aggregator *it, bool has_states, int64_t begin,
                               int64_t count, gy_frame_maker *makers)
{
    const uint64_t *records[EMIT_GROUPS], *keys[EMIT_GROUPS];
    GY_ASSERT(count <= EMIT_GROUPS);
    gy_rows_groups_get(it->groups, begin, count, records);
    for (int64_t i = 0; i < count; i++) {
        keys[i] = records[i] + 1;
    }
    for (int k = 0; k < it->key_count; k++) {
        GY_TRY(gy_rows_keys_append(&it->layout, k, keys, count, &makers[k]));
    }
    int at = it->key_count;
    for (int i = 0; i < it->state_count; i++) {
        GY_TRY(gy_rows_state_emit(&it->states[i], records, count, !has_states, &makers[at]));
        at += has_states ? it->states[i].column_count : 1;
    }
    return GY_OK;
}

/* The groups [begin, begin + count) of the order. */
static gy_status make_frame(gy_rows_aggregator *it, bool has_states, int64_t begin,
                            int64_t count, gy_frame **frame)
{
    gy_schema *schema = has_states ? it->state_schema : it->out_schema;
    const int columns = gy_schema_count(schema);
    gy_frame_maker *makers = gy_rows_makers_new(schema);
    gy_status status = makers == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < columns && status == GY_OK; k++) {
        status = gy_frame_maker_reserve(&makers[k], count);
    }
    for (int64_t at = 0; at < count && status == GY_OK; at += EMIT_GROUPS) {
        status = append_groups(it, has_states, begin + at,
                               GY_MIN(count - at, (int64_t)EMIT_GROUPS), makers);
    }
    if (status == GY_OK) {
        status = gy_frame_make(schema, makers, count, frame);
    }
    gy_rows_makers_free(makers, columns);
    return status;
}

/* ---- spilling ---- */

/* The end of part p in the order of groups: those below its bound. */
static int64_t part_end(const gy_rows_aggregator *it, int p, int64_t begin)
{
    int64_t low = begin, high = gy_rows_groups_count(it->groups);
    while (p < PARTS - 1 && low < high) {
        const int64_t middle = low + (high - low) / 2;
        const uint64_t *record = NULL;
        gy_rows_groups_get(it->groups, middle, 1, &record);
        if (record[0] < it->bounds[p]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return p == PARTS - 1 ? high : low;
}

/* The first spill says where parts are cut: they have equally many of its groups. */
static gy_status open_spill(gy_rows_aggregator *it)
{
    GY_TRY(gy_rows_spill_new(&it->limits, &it->spill));
    const int64_t count = gy_rows_groups_count(it->groups);
    for (int p = 0; p < PARTS - 1; p++) {
        const uint64_t *record = NULL;
        gy_rows_groups_get(it->groups, count * (p + 1) / PARTS, 1, &record);
        it->bounds[p] = record[0];
    }
    return GY_OK;
}

static gy_status spill_groups(gy_rows_aggregator *it)
{
    if (gy_rows_groups_count(it->groups) == 0) {
        return GY_OK;
    }
    GY_TRY(gy_rows_groups_order(it->groups));
    if (it->spill == NULL) {
        GY_TRY(open_spill(it));
    }
    int64_t at = 0;
    for (int p = 0; p < PARTS; p++) {
        for (const int64_t end = part_end(it, p, at); at < end;) {
            const int64_t count = GY_MIN(end - at, (int64_t)GY_ROWS_SPILL_FRAME);
            gy_frame *frame = NULL;
            GY_TRY(make_frame(it, true, at, count, &frame));
            const gy_status status = gy_rows_spill_add(it->spill, &it->runs[p], frame);
            gy_frame_drop(frame);
            GY_TRY(status);
            at += count;
        }
    }
    GY_ASSERT(at == gy_rows_groups_count(it->groups));
    gy_rows_groups_clear(it->groups);
    if (it->limits.counts != NULL) {
        it->limits.counts->spills++;
    }
    return GY_OK;
}

/* Without groups it is not: slots that one large frame asked for stay. */
static bool is_full(const gy_rows_aggregator *it)
{
    return it->limits.memory_bytes != 0 && it->level < LEVELS_MOST &&
           gy_rows_groups_count(it->groups) > 0 &&
           gy_rows_groups_bytes(it->groups) > it->limits.memory_bytes;
}

/* Rows, or states that lie as in `state_schema`. */
static gy_status take_range(gy_rows_aggregator *it, const gy_frame *frame, int64_t from,
                            int64_t end, bool is_merge)
{
    uint64_t *records[GY_ROWS_BATCH];
    const gy_rows_key_layout *layout = is_merge ? &it->merge_layout : &it->layout;
    const gy_rows_state *states = is_merge ? it->merges : it->states;
    const bool has_states = is_merge || takes_states(it);
    GY_ASSERT(!it->is_ended && from >= 0 && end <= gy_frame_rows(frame));
    for (int64_t begin = from; begin < end; begin += GY_ROWS_BATCH) {
        const gy_rows_batch batch = {.frame = frame,
                                     .begin = begin,
                                     .count = GY_MIN(end - begin, (int64_t)GY_ROWS_BATCH),
                                     .records = records,
                                     .heap = gy_rows_groups_heap(it->groups)};
        GY_TRY(gy_rows_groups_find(it->groups, layout, frame, begin, batch.count, records));
        for (int i = 0; i < it->state_count; i++) {
            GY_TRY(has_states ? gy_rows_state_merge(&states[i], &batch)
                              : gy_rows_state_add(&states[i], &batch));
        }
        if (is_full(it) && !it->is_passing) {
            GY_TRY(spill_groups(it));
        }
    }
    return GY_OK;
}

gy_status gy_rows_aggregator_push(gy_rows_aggregator *it, const gy_frame *frame)
{
    return take_range(it, frame, 0, gy_frame_rows(frame), false);
}

gy_status gy_rows_aggregator_push_range(gy_rows_aggregator *it, const gy_frame *frame,
                                        int64_t begin, int64_t end)
{
    return take_range(it, frame, begin, end, false);
}

gy_status gy_rows_aggregator_merge_range(gy_rows_aggregator *it, const gy_frame *states,
                                         int64_t begin, int64_t end)
{
    GY_ASSERT(!takes_states(it));
    return take_range(it, states, begin, end, true);
}

int64_t gy_rows_aggregator_groups(const gy_rows_aggregator *it)
{
    return gy_rows_groups_count(it->groups);
}

uint64_t gy_rows_aggregator_bytes(const gy_rows_aggregator *it)
{
    return gy_rows_groups_bytes(it->groups);
}

bool gy_rows_aggregator_has_spilled(const gy_rows_aggregator *it)
{
    return it->spill != NULL;
}

void gy_rows_aggregator_again(gy_rows_aggregator *it)
{
    GY_ASSERT(it->spill == NULL && it->given == gy_rows_groups_count(it->groups));
    gy_rows_groups_clear(it->groups);
    it->is_ended = it->is_ordered = false;
    it->given = 0;
}

/* Without keys there is a group, also without rows. */
static gy_status add_only_group(gy_rows_aggregator *it)
{
    if (it->needs_rows || gy_rows_groups_count(it->groups) > 0 || it->spill != NULL) {
        return GY_OK;
    }
    gy_schema *none = NULL;
    GY_TRY(gy_schema_new(NULL, 0, &none));
    gy_frame *row = NULL;
    gy_status status = gy_frame_make(none, NULL, 1, &row);
    if (status == GY_OK) {
        uint64_t *record = NULL;
        status = gy_rows_groups_find(it->groups, &it->layout, row, 0, 1, &record);
    }
    gy_frame_drop(row);
    gy_schema_drop(none);
    return status;
}

/* ---- merging parts ---- */

/* An aggregator of the states of a part. */
static gy_status open_child(gy_rows_aggregator *it)
{
    gy_rows_aggregate_of *of =
        gy_alloc_zero("query.states", (size_t)it->state_count + 1, sizeof(*of));
    if (of == NULL) {
        return GY_NOMEM;
    }
    for (int i = 0; i < it->state_count; i++) {
        of[i] = it->merges[i].of;
    }
    const gy_rows_aggregate_options options = {
        .keys = it->merge_layout.columns,
        .key_count = it->key_count,
        .aggregates = of,
        .aggregate_count = it->state_count,
        .phase = gives_states(it) ? GY_ROWS_MERGE : GY_ROWS_FINAL,
        .needs_rows = true,
        .limits = it->limits,
    };
    gy_status status = gy_rows_aggregator_new(it->state_schema, &options, &it->child);
    gy_free(of);
    GY_TRY(status);
    it->child->level = it->level + 1;
    gy_schema_drop(it->child->out_schema); /* the one that has the names */
    it->child->out_schema = gy_schema_hold(it->out_schema);
    const gy_rows_run *run = &it->runs[it->part];
    for (size_t i = 0; i < run->count; i++) {
        gy_frame *frame = NULL;
        GY_TRY(gy_rows_spill_get(it->spill, it->state_schema, run, i, &frame));
        status = gy_rows_aggregator_push(it->child, frame);
        gy_frame_drop(frame);
        GY_TRY(status);
    }
    return GY_OK;
}

static gy_status next_of_parts(gy_rows_aggregator *it, gy_frame **frame)
{
    while (it->part < PARTS) {
        if (it->child == NULL && it->runs[it->part].count > 0) {
            GY_TRY(open_child(it));
        }
        if (it->child != NULL) {
            const gy_status status = gy_rows_aggregator_next(it->child, frame);
            if (status != GY_DONE) {
                return status;
            }
        }
        gy_rows_aggregator_free(it->child);
        it->child = NULL;
        it->part++;
    }
    return GY_DONE;
}

/* The next groups of memory; GY_DONE: all were given. */
static gy_status next_of_groups(gy_rows_aggregator *it, gy_frame **frame)
{
    if (!it->is_ordered) {
        GY_TRY(gy_rows_groups_order(it->groups));
        it->is_ordered = true;
        it->given = 0;
    }
    const int64_t left = gy_rows_groups_count(it->groups) - it->given;
    if (left == 0) {
        return GY_DONE;
    }
    const int64_t count = GY_MIN(left, (int64_t)GY_ROWS_FRAME);
    GY_TRY(make_frame(it, gives_states(it), it->given, count, frame));
    it->given += count;
    return GY_OK;
}

gy_status gy_rows_aggregator_next(gy_rows_aggregator *it, gy_frame **frame)
{
    if (!it->is_ended) {
        it->is_ended = true;
        GY_TRY(add_only_group(it));
        if (it->spill != NULL) {
            GY_TRY(spill_groups(it));
            gy_rows_groups_free(it->groups); /* the memory is the parts' now */
            it->groups = NULL;
        }
    }
    return it->spill != NULL ? next_of_parts(it, frame) : next_of_groups(it, frame);
}

/* ---- rows as states ---- */

/* A state for each of a few rows. */
static gy_status append_rows(gy_rows_aggregator *it, const gy_frame *frame, int64_t begin,
                             int64_t count, uint64_t *words, gy_frame_maker *makers)
{
    uint64_t *records[EMIT_GROUPS];
    gy_rows_heap heap = {.count = 0};
    const gy_rows_batch batch = {
        .frame = frame, .begin = begin, .count = count, .records = records, .heap = &heap};
    GY_ASSERT(count <= EMIT_GROUPS);
    memset(words, 0, (size_t)(count * it->record_words) * sizeof(*words));
    for (int64_t i = 0; i < count; i++) {
        records[i] = words + i * it->record_words;
    }
    gy_status status = GY_OK;
    int at = it->key_count;
    for (int i = 0; i < it->state_count && status == GY_OK; i++) {
        status = gy_rows_state_add(&it->states[i], &batch);
        status = status == GY_OK
                     ? gy_rows_state_emit(&it->states[i], (const uint64_t *const *)records,
                                          count, false, &makers[at])
                     : status;
        at += it->states[i].column_count;
    }
    gy_rows_heap_free(&heap);
    return status;
}

/* The rows [begin, begin + count) of a frame as states. */
static gy_status make_states(gy_rows_aggregator *it, const gy_frame *rows, int64_t begin,
                             int64_t count, gy_frame **frame)
{
    const int columns = gy_schema_count(it->state_schema);
    gy_frame_maker *makers = gy_rows_makers_new(it->state_schema);
    uint64_t *words =
        gy_alloc("query.states", (size_t)EMIT_GROUPS * (size_t)it->record_words * 8);
    gy_status status = makers == NULL || words == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < columns && status == GY_OK; k++) {
        status = gy_frame_maker_reserve(&makers[k], count);
    }
    for (int k = 0; k < it->key_count && status == GY_OK; k++) {
        const gy_column column = gy_frame_column(rows, it->layout.columns[k]);
        status = gy_rows_append_range(&makers[k], &column, begin, count);
    }
    for (int64_t at = 0; at < count && status == GY_OK && it->state_count > 0;
         at += EMIT_GROUPS) {
        status = append_rows(it, rows, begin + at, GY_MIN(count - at, (int64_t)EMIT_GROUPS),
                             words, makers);
    }
    if (status == GY_OK) {
        status = gy_frame_make(it->state_schema, makers, count, frame);
    }
    gy_rows_makers_free(makers, columns);
    gy_free(words);
    return status;
}

/* ---- as a source ---- */

typedef struct aggregate_source {
    gy_frame_source in;
    gy_rows_aggregator *aggregator;
    bool is_read;  /* all of the input */
    bool is_given; /* groups of a full table are on their way */
    int64_t taken; /* rows of the groups in the table */
    /* rows become states one by one: `passed` of them so far; of `rest` those from `rest_at` on
     * are to come */
    bool is_off;
    int64_t passed, rest_at;
    gy_frame *rest;
} aggregate_source;

/* Whether groups are hardly fewer than their rows. */
static bool is_of_no_use(const aggregate_source *source)
{
    const gy_rows_aggregator *it = source->aggregator;
    return it->measured_rows > 0 && (source->taken >= it->measured_rows || is_full(it)) &&
           (double)gy_rows_groups_count(it->groups) >
               GY_ROWS_GROUPS_MOST * (double)source->taken;
}

/* Take in rows until the input ends, or a table that passes is full. */
static gy_status take(aggregate_source *source)
{
    gy_rows_aggregator *it = source->aggregator;
    while (!source->is_read && !source->is_off && !(it->is_passing && is_full(it))) {
        gy_frame *frame = NULL;
        const gy_status status = gy_rows_next(&source->in, it->limits.counts, &frame);
        if (status == GY_DONE) {
            source->is_read = true;
            break;
        }
        if (status != GY_OK) {
            return status;
        }
        const int64_t begin_ns = gy_now_ns(it->limits.env);
        const gy_status pushed = gy_rows_aggregator_push(it, frame);
        source->taken += gy_frame_rows(frame);
        gy_frame_drop(frame);
        GY_TRY(pushed);
        source->is_off = is_of_no_use(source);
        if (it->limits.counts != NULL) {
            it->limits.counts->time_ns += gy_now_ns(it->limits.env) - begin_ns;
        }
    }
    return GY_OK;
}

static void count_given(const gy_rows_aggregator *it, int64_t begin_ns, int64_t rows)
{
    if (it->limits.counts != NULL) {
        it->limits.counts->time_ns += gy_now_ns(it->limits.env) - begin_ns;
        it->limits.counts->rows_out += rows;
    }
}

/* The next rows as states. GY_AGAIN: it makes groups again, or all rows were read. */
static gy_status pass_rows(aggregate_source *source, gy_frame **frame)
{
    gy_rows_aggregator *it = source->aggregator;
    while (source->rest == NULL || source->rest_at == gy_frame_rows(source->rest)) {
        gy_frame_drop(source->rest);
        source->rest = NULL;
        source->rest_at = 0;
        gy_status status = GY_DONE;
        if (source->passed < MEASURE_AGAIN * it->measured_rows) {
            status = gy_rows_next(&source->in, it->limits.counts, &source->rest);
            source->is_read = status == GY_DONE;
        }
        if (status == GY_DONE) {
            source->is_off = false;
            source->passed = 0;
            return GY_AGAIN;
        }
        GY_TRY(status);
    }
    const int64_t begin_ns = gy_now_ns(it->limits.env);
    const int64_t rows =
        GY_MIN(gy_frame_rows(source->rest) - source->rest_at, (int64_t)GY_ROWS_FRAME);
    GY_TRY(make_states(it, source->rest, source->rest_at, rows, frame));
    source->rest_at += rows;
    source->passed += rows;
    if (it->limits.counts != NULL) {
        it->limits.counts->rows_passed += rows;
    }
    count_given(it, begin_ns, rows);
    return GY_OK;
}

/* The next of the groups that the table has. */
static gy_status give_groups(aggregate_source *source, gy_frame **frame)
{
    gy_rows_aggregator *it = source->aggregator;
    const int64_t begin_ns = gy_now_ns(it->limits.env);
    const gy_status status =
        source->is_read ? gy_rows_aggregator_next(it, frame) : next_of_groups(it, frame);
    count_given(it, begin_ns, status == GY_OK ? gy_frame_rows(*frame) : 0);
    return status;
}

static gy_status aggregate_next(void *arg, gy_frame **frame)
{
    aggregate_source *source = arg;
    gy_rows_aggregator *it = source->aggregator;
    for (;;) {
        if (!source->is_given && source->is_off) {
            const gy_status passed = pass_rows(source, frame);
            if (passed != GY_AGAIN) {
                return passed;
            }
        }
        if (!source->is_given) {
            const gy_status taken = take(source);
            if (taken != GY_OK) {
                return taken;
            }
            source->is_given = true;
        }
        const gy_status status = give_groups(source, frame);
        if (status != GY_DONE || source->is_read) {
            return status;
        }
        gy_rows_groups_clear(it->groups);
        it->is_ordered = false;
        source->taken = 0;
        source->is_given = false;
    }
}

static void aggregate_close(void *arg)
{
    aggregate_source *source = arg;
    gy_rows_close(&source->in);
    gy_frame_drop(source->rest);
    gy_rows_aggregator_free(source->aggregator);
    gy_free(source);
}

static bool has_distinct(const gy_rows_aggregate_options *options)
{
    for (int i = 0; i < options->aggregate_count; i++) {
        if (options->aggregates[i].is_distinct) {
            return true;
        }
    }
    return false;
}

gy_status gy_rows_aggregate(gy_frame_source in, gy_schema *in_schema,
                            const gy_rows_aggregate_options *options, gy_frame_source *out,
                            gy_schema **schema)
{
    if (has_distinct(options)) {
        return gy_rows_aggregate_distinct(in, in_schema, options, out, schema);
    }
    aggregate_source *source = gy_alloc_zero("query.aggregate", 1, sizeof(*source));
    if (source == NULL) {
        gy_rows_close(&in);
        return GY_NOMEM;
    }
    source->in = in;
    const gy_status status = gy_rows_aggregator_new(in_schema, options, &source->aggregator);
    if (status < 0) {
        aggregate_close(source);
        return status;
    }
    *out = (gy_frame_source){.next = aggregate_next, .close = aggregate_close, .arg = source};
    *schema = gy_schema_hold(source->aggregator->out_schema);
    return GY_OK;
}

gy_status gy_rows_unique(gy_frame_source in, gy_schema *in_schema, const gy_rows_limits *limits,
                         gy_frame_source *out, gy_schema **schema)
{
    const int count = gy_schema_count(in_schema);
    int *keys = gy_alloc_zero("query.keys", (size_t)count + 1, sizeof(*keys));
    if (keys == NULL) {
        gy_rows_close(&in);
        return GY_NOMEM;
    }
    for (int i = 0; i < count; i++) {
        keys[i] = i;
    }
    gy_rows_aggregate_options options = {
        .keys = keys, .key_count = count, .phase = GY_ROWS_WHOLE, .needs_rows = true};
    options.limits = limits == NULL ? options.limits : *limits;
    const gy_status status = gy_rows_aggregate(in, in_schema, &options, out, schema);
    gy_free(keys);
    return status;
}
