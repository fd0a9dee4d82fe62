/*
 * Aggregates over distinct values. For each column of which some are asked for, rows are first
 * grouped by the keys and that column, which leaves each value once, and those groups then by
 * the keys. All other aggregates are one aggregation by the keys. All of these have the same
 * groups in the same order, so that their columns are put side by side.
 */
#include "query/rows/rows_priv.h"

/* Aggregates of one column, through one filter. */
typedef struct family {
    gy_rows_aggregator *values; /* keys and column, each once */
    gy_schema *schema;          /* of what goes in there: keys, column */
    int column, filter;         /* filter -1: none */
} family;

/* One of the aggregations side by side. */
typedef struct strand {
    gy_frame_source source;
    gy_frame *frame; /* held; what is left of it is given from `at` on */
    int64_t at;
} strand;

typedef struct distinct_source {
    gy_frame_source in;
    gy_rows_limits limits;
    bool is_read;
    int key_count, family_count;
    int *keys;
    gy_rows_aggregator *plain;
    family *families; /* (family_count) */
    strand *strands;  /* (1 + family_count): the plain one first */
    gy_schema *schema;
    int column_count;           /* of the answer */
    int *strand_of, *column_of; /* (column_count) */
} distinct_source;

/* Whether it matters that values are distinct. */
static bool is_really_distinct(const gy_rows_aggregate_of *of)
{
    return of->is_distinct && (of->kind == GY_ROWS_COUNT || of->kind == GY_ROWS_SUM ||
                               of->kind == GY_ROWS_AVG || of->kind == GY_ROWS_OWN);
}

static bool is_of_family(const gy_rows_aggregate_of *of, const family *kin)
{
    return is_really_distinct(of) && of->column == kin->column &&
           (of->has_filter ? of->filter : -1) == kin->filter;
}

/* ---- making ---- */

static gy_status plain_next(void *arg, gy_frame **frame)
{
    return gy_rows_aggregator_next(arg, frame);
}

/* Copy the aggregates that `kin` has, or that no family has (NULL), with their places. */
static int select_aggregates(distinct_source *source, const gy_rows_aggregate_options *options,
                             int strand_index, gy_rows_aggregate_of *chosen)
{
    const family *kin = strand_index == 0 ? NULL : &source->families[strand_index - 1];
    int count = 0;
    for (int i = 0; i < options->aggregate_count; i++) {
        const gy_rows_aggregate_of *of = &options->aggregates[i];
        if (kin == NULL ? is_really_distinct(of) : !is_of_family(of, kin)) {
            continue;
        }
        source->strand_of[source->key_count + i] = strand_index;
        source->column_of[source->key_count + i] = source->key_count + count;
        chosen[count] = *of;
        chosen[count].is_distinct = false;
        if (kin != NULL) {
            chosen[count].column = source->key_count;
            chosen[count].has_filter = false;
        }
        count++;
    }
    return count;
}

static gy_status open_family(distinct_source *source, gy_schema *in_schema, family *kin,
                             gy_rows_aggregate_options *options)
{
    const int keys = source->key_count;
    int *columns = gy_alloc_zero("query.keys", ((size_t)keys + 1) * 2, sizeof(*columns));
    if (columns == NULL) {
        return GY_NOMEM;
    }
    for (int k = 0; k < keys; k++) {
        columns[k] = source->keys[k];
    }
    columns[keys] = kin->column;
    gy_status status = gy_rows_schema_of(in_schema, NULL, columns, keys + 1, &kin->schema);
    for (int k = 0; k <= keys; k++) {
        columns[k] = k;
    }
    const gy_rows_aggregate_options values = {.keys = columns,
                                              .key_count = keys + 1,
                                              .phase = GY_ROWS_WHOLE,
                                              .limits = source->limits};
    if (status == GY_OK) {
        status = gy_rows_aggregator_new(kin->schema, &values, &kin->values);
    }
    if (status == GY_OK) {
        options->keys = columns;
        const gy_frame_source in = {.next = plain_next, .arg = kin->values};
        gy_schema *schema = NULL;
        status =
            gy_rows_aggregate(in, kin->schema, options,
                              &source->strands[1 + (kin - source->families)].source, &schema);
        gy_schema_drop(schema);
    }
    gy_free(columns);
    return status;
}

/* Find the families; each has a column and a filter. */
static void find_families(distinct_source *source, const gy_rows_aggregate_options *options)
{
    for (int i = 0; i < options->aggregate_count; i++) {
        const gy_rows_aggregate_of *of = &options->aggregates[i];
        bool is_known = !is_really_distinct(of);
        for (int f = 0; f < source->family_count && !is_known; f++) {
            is_known = is_of_family(of, &source->families[f]);
        }
        if (!is_known) {
            source->families[source->family_count++] =
                (family){.column = of->column, .filter = of->has_filter ? of->filter : -1};
        }
    }
}

/* The answer's fields, in the order of the aggregates. */
static gy_status make_schema(distinct_source *source, gy_schema *in_schema,
                             const gy_rows_aggregate_options *options)
{
    gy_field *fields =
        gy_alloc_zero("query.fields", (size_t)source->column_count + 1, sizeof(*fields));
    if (fields == NULL) {
        return GY_NOMEM;
    }
    for (int k = 0; k < source->key_count; k++) {
        fields[k] = *gy_schema_field(in_schema, source->keys[k]);
        source->column_of[k] = k;
    }
    gy_status status = GY_OK;
    for (int i = 0; i < options->aggregate_count && status == GY_OK; i++) {
        static const gy_field none = {.name = "", .kind = GY_FIELD_BOOL};
        const gy_rows_aggregate_of *of = &options->aggregates[i];
        gy_rows_state state;
        status = gy_rows_state_init(
            &state, of,
            of->kind == GY_ROWS_COUNT_STAR ? &none : gy_schema_field(in_schema, of->column));
        if (status == GY_OK) {
            fields[source->key_count + i] = gy_rows_state_answer(&state);
        }
    }
    if (status == GY_OK) {
        status = gy_schema_new(fields, source->column_count, &source->schema);
    }
    gy_free(fields);
    return status;
}

static gy_status check(gy_schema *in_schema, const gy_rows_aggregate_options *options)
{
    if (options->phase != GY_ROWS_WHOLE) {
        return gy_fail(GY_UNSUPPORTED, "distinct values in a part of an aggregation");
    }
    GY_TRY(gy_rows_check_columns(in_schema, options->keys, options->key_count, "key"));
    for (int i = 0; i < options->aggregate_count; i++) {
        const gy_rows_aggregate_of *of = &options->aggregates[i];
        if (of->kind != GY_ROWS_COUNT_STAR) {
            GY_TRY(gy_rows_check_columns(in_schema, &of->column, 1, "aggregate"));
        }
        if (of->has_filter) {
            GY_TRY(gy_rows_check_columns(in_schema, &of->filter, 1, "filter"));
            if (gy_schema_field(in_schema, of->filter)->kind != GY_FIELD_BOOL) {
                return gy_fail(GY_TYPE, "the filter of an aggregate is no bool column");
            }
        }
    }
    return GY_OK;
}

static gy_status init(distinct_source *source, gy_schema *in_schema,
                      const gy_rows_aggregate_options *options)
{
    const size_t aggregates = (size_t)options->aggregate_count;
    GY_TRY(check(in_schema, options));
    source->key_count = options->key_count;
    source->column_count = options->key_count + options->aggregate_count;
    source->keys = gy_alloc_zero("query.keys", (size_t)source->key_count + 1, sizeof(int));
    source->families = gy_alloc_zero("query.families", aggregates + 1, sizeof(family));
    source->strands = gy_alloc_zero("query.strands", aggregates + 2, sizeof(strand));
    source->strand_of =
        gy_alloc_zero("query.strands", (size_t)source->column_count + 1, sizeof(int));
    source->column_of =
        gy_alloc_zero("query.strands", (size_t)source->column_count + 1, sizeof(int));
    gy_rows_aggregate_of *chosen =
        gy_alloc_zero("query.aggregates", aggregates + 1, sizeof(*chosen));
    gy_status status = source->keys == NULL || source->families == NULL ||
                               source->strands == NULL || source->strand_of == NULL ||
                               source->column_of == NULL || chosen == NULL
                           ? GY_NOMEM
                           : GY_OK;
    if (status == GY_OK) {
        for (int k = 0; k < source->key_count; k++) {
            source->keys[k] = options->keys[k];
        }
        find_families(source, options);
        source->limits = options->limits;
        source->limits.memory_bytes /= 1 + 2 * (uint64_t)source->family_count;
        if (options->limits.memory_bytes != 0) {
            source->limits.memory_bytes = GY_MAX(source->limits.memory_bytes, (uint64_t)1);
        }
        source->limits.counts = NULL;
        status = make_schema(source, in_schema, options);
    }
    for (int f = 0; f <= source->family_count && status == GY_OK; f++) {
        gy_rows_aggregate_options part = *options;
        part.limits = source->limits;
        part.aggregates = chosen;
        part.aggregate_count = select_aggregates(source, options, f, chosen);
        status = f > 0 ? open_family(source, in_schema, &source->families[f - 1], &part)
                       : gy_rows_aggregator_new(in_schema, &part, &source->plain);
    }
    if (status == GY_OK) {
        source->strands[0].source = (gy_frame_source){.next = plain_next, .arg = source->plain};
    }
    gy_free(chosen);
    source->limits = options->limits;
    source->limits.env = source->limits.env == NULL ? gy_env_real() : source->limits.env;
    return status;
}

/* ---- running ---- */

/* Keys, and the column with nulls where the filter leaves a row out. */
static gy_status push_family(const distinct_source *source, const family *kin,
                             const gy_frame *frame)
{
    const int64_t rows = gy_frame_rows(frame);
    const int keys = source->key_count;
    gy_frame_maker *makers = gy_rows_makers_new(kin->schema);
    int32_t *chosen = gy_alloc("query.rows", ((size_t)rows + 1) * sizeof(*chosen));
    gy_status status = makers == NULL || chosen == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < keys && status == GY_OK; k++) {
        const gy_column column = gy_frame_column(frame, source->keys[k]);
        status = gy_rows_append_range(&makers[k], &column, 0, rows);
    }
    if (status == GY_OK) {
        const gy_column filter =
            gy_frame_column(frame, kin->filter < 0 ? kin->column : kin->filter);
        for (int64_t i = 0; i < rows; i++) {
            const bool is_in = kin->filter < 0 ||
                               (!gy_column_is_null(&filter, i) && gy_column_bool(&filter, i));
            chosen[i] = is_in ? (int32_t)i : -1;
        }
        const gy_column column = gy_frame_column(frame, kin->column);
        status = gy_rows_append(&makers[keys], &column, chosen, rows, true);
    }
    gy_frame *made = NULL;
    if (status == GY_OK) {
        status = gy_frame_make(kin->schema, makers, rows, &made);
    }
    if (status == GY_OK) {
        status = gy_rows_aggregator_push(kin->values, made);
    }
    gy_frame_drop(made);
    gy_free(chosen);
    gy_rows_makers_free(makers, keys + 1);
    return status;
}

static gy_status take(distinct_source *source)
{
    for (;;) {
        gy_frame *frame = NULL;
        gy_status status = gy_rows_next(&source->in, source->limits.counts, &frame);
        if (status != GY_OK) {
            return status;
        }
        status = gy_rows_aggregator_push(source->plain, frame);
        for (int f = 0; f < source->family_count && status == GY_OK; f++) {
            status = push_family(source, &source->families[f], frame);
        }
        gy_frame_drop(frame);
        GY_TRY(status);
    }
}

/* Read on where a strand's frame has been given. GY_DONE: they have all ended. */
static gy_status advance(distinct_source *source, int64_t *rows)
{
    *rows = INT64_MAX;
    int ended = 0;
    for (int s = 0; s <= source->family_count; s++) {
        strand *it = &source->strands[s];
        while (it->frame == NULL || it->at == gy_frame_rows(it->frame)) {
            gy_frame *frame = NULL;
            const gy_status status = it->source.next(it->source.arg, &frame);
            if (status == GY_DONE) {
                ended++;
                break;
            }
            if (status != GY_OK) {
                return status;
            }
            gy_frame_drop(it->frame);
            it->frame = frame;
            it->at = 0;
        }
        if (ended == 0) {
            *rows = GY_MIN(*rows, gy_frame_rows(it->frame) - it->at);
        }
    }
    GY_ASSERT(ended == 0 || ended == 1 + source->family_count); /* all have the same groups */
    return ended > 0 ? GY_DONE : GY_OK;
}

static gy_status distinct_next(void *arg, gy_frame **frame)
{
    distinct_source *source = arg;
    const int64_t begin_ns = gy_now_ns(source->limits.env);
    if (!source->is_read) {
        const gy_status status = take(source);
        if (status != GY_DONE) {
            return status;
        }
        source->is_read = true;
    }
    int64_t rows = 0;
    gy_status status = advance(source, &rows);
    if (status != GY_OK) {
        return status;
    }
    gy_frame_maker *makers = gy_rows_makers_new(source->schema);
    status = makers == NULL ? GY_NOMEM : GY_OK;
    for (int i = 0; i < source->column_count && status == GY_OK; i++) {
        const strand *it = &source->strands[source->strand_of[i]];
        const gy_column column = gy_frame_column(it->frame, source->column_of[i]);
        status = gy_rows_append_range(&makers[i], &column, it->at, rows);
    }
    if (status == GY_OK) {
        status = gy_frame_make(source->schema, makers, rows, frame);
    }
    gy_rows_makers_free(makers, source->column_count);
    for (int s = 0; s <= source->family_count; s++) {
        source->strands[s].at += rows;
    }
    if (status == GY_OK && source->limits.counts != NULL) {
        source->limits.counts->rows_out += rows;
        source->limits.counts->time_ns += gy_now_ns(source->limits.env) - begin_ns;
    }
    return status;
}

static void distinct_close(void *arg)
{
    distinct_source *source = arg;
    gy_rows_close(&source->in);
    for (int f = 0; f < source->family_count; f++) {
        gy_rows_close(&source->strands[1 + f].source);
        gy_frame_drop(source->strands[1 + f].frame);
        gy_rows_aggregator_free(source->families[f].values);
        gy_schema_drop(source->families[f].schema);
    }
    if (source->strands != NULL) {
        gy_frame_drop(source->strands[0].frame);
    }
    gy_rows_aggregator_free(source->plain);
    gy_schema_drop(source->schema);
    gy_free(source->keys);
    gy_free(source->families);
    gy_free(source->strands);
    gy_free(source->strand_of);
    gy_free(source->column_of);
    gy_free(source);
}

gy_status gy_rows_aggregate_distinct(gy_frame_source in, gy_schema *in_schema,
                                     const gy_rows_aggregate_options *options,
                                     gy_frame_source *out, gy_schema **schema)
{
    distinct_source *source = gy_alloc_zero("query.distinct", 1, sizeof(*source));
    if (source == NULL) {
        gy_rows_close(&in);
        return GY_NOMEM;
    }
    source->in = in;
    const gy_status status = init(source, in_schema, options);
    if (status < 0) {
        distinct_close(source);
        return status;
    }
    *out = (gy_frame_source){.next = distinct_next, .close = distinct_close, .arg = source};
    *schema = gy_schema_hold(source->schema);
    return GY_OK;
}
