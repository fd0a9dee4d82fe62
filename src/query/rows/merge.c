/*
 * Merging: sources that are each in order become one. A tree of losers says which comes next,
 * by the first word of its normalised key; rows are picked until a frame is full, then gathered
 * column by column from the frames that they lie in.
 */
#include "query/rows/rows_priv.h"

#include "mapreduce/losers.h"
#include "mapreduce/sort.h"

enum { FAN_IN_MOST = 64, FAN_IN_LEAST = 4 };

/* A source with its frame of now. */
typedef struct input {
    gy_frame_source source;
    gy_rows_order_keys keys;
    gy_frame *frame; /* borrowed from `held` of the merge */
    int64_t at;
    uint32_t held_index;
    bool is_done;
} input;

typedef struct merge_source {
    gy_schema *schema;
    gy_rows_sort_key *keys;
    int key_count, input_count;
    int64_t left; /* rows that are still given; -1: all */
    input *inputs;
    gy_losers tree;
    bool is_begun;
    gy_rows_list held;  /* frames that picks lie in */
    uint32_t *frame_of; /* (GY_ROWS_FRAME) picks */
    int32_t *row_of;
    int64_t picked;
    gy_rows_counts *counts;
    /* what it reads from, if it is its own */
    gy_rows_spill *spill;
    gy_rows_run *runs;
    size_t run_count;
} merge_source;

/* ---- the next row ---- */

static gy_sort_span key_of(const input *in)
{
    return (gy_sort_span){in->keys.bytes + in->keys.starts[in->at],
                          (size_t)(in->keys.starts[in->at + 1] - in->keys.starts[in->at])};
}

static bool comes_first(const void *arg, uint32_t a, uint32_t b)
{
    const merge_source *merge = arg;
    const input *x = &merge->inputs[a], *y = &merge->inputs[b];
    if (x->is_done || y->is_done) {
        return !x->is_done || (y->is_done && a < b);
    }
    const gy_sort_span left = key_of(x), right = key_of(y);
    const int order =
        gy_sort_bytes_compare(left.data, left.size_bytes, right.data, right.size_bytes);
    return order != 0 ? order < 0 : a < b;
}

static void set_word(merge_source *merge, uint32_t index)
{
    const input *in = &merge->inputs[index];
    uint64_t word = UINT64_MAX;
    if (!in->is_done) {
        const gy_sort_span key = key_of(in);
        word = gy_sort_word(key.data, key.size_bytes);
    }
    merge->tree.words[index] = word;
}

/* Read the next frame that has rows. */
static gy_status refill(merge_source *merge, uint32_t index)
{
    input *in = &merge->inputs[index];
    in->at = 0;
    for (;;) {
        gy_frame *frame = NULL;
        const gy_status status = in->source.next(in->source.arg, &frame);
        if (status == GY_DONE) {
            in->is_done = true;
            in->frame = NULL;
            return GY_OK;
        }
        if (status != GY_OK) {
            return status;
        }
        if (gy_frame_rows(frame) == 0) {
            gy_frame_drop(frame);
            continue;
        }
        in->frame = NULL; /* until the list holds it */
        in->held_index = (uint32_t)merge->held.count;
        GY_TRY(gy_rows_list_add(&merge->held, frame));
        in->frame = frame;
        return gy_rows_order_encode(frame, merge->keys, merge->key_count, &in->keys);
    }
}

/* ---- picked rows as a frame ---- */

static gy_status gather_texts(gy_frame_maker *maker, const merge_source *merge,
                              const gy_column *columns)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < merge->picked; i++) {
        bytes += gy_column_text(&columns[merge->frame_of[i]], merge->row_of[i]).size_bytes;
    }
    GY_TRY(gy_frame_maker_reserve_text(maker, bytes));
    int32_t *ends = (int32_t *)maker->values + 1;
    for (int64_t i = 0; i < merge->picked; i++) {
        const gy_text_view text =
            gy_column_text(&columns[merge->frame_of[i]], merge->row_of[i]);
        if (text.size_bytes > 0) {
            memcpy(maker->text + maker->text_bytes, text.data, text.size_bytes);
        }
        maker->text_bytes += text.size_bytes;
        ends[i] = (int32_t)maker->text_bytes;
    }
    return GY_OK;
}

static gy_status gather_column(gy_frame_maker *maker, const merge_source *merge,
                               const gy_column *columns)
{
    const size_t size = gy_frame_kind_bytes(maker->field.kind);
    GY_TRY(gy_frame_maker_reserve(maker, merge->picked));
    if (maker->field.kind == GY_FIELD_TEXT) {
        GY_TRY(gather_texts(maker, merge, columns));
    }
    for (int64_t i = 0; i < merge->picked; i++) {
        const gy_column *column = &columns[merge->frame_of[i]];
        const int64_t row = merge->row_of[i];
        const bool is_null = gy_column_is_null(column, row);
        maker->valid[i >> 3] |= (uint8_t)(!is_null << (i & 7));
        maker->nulls += is_null;
        if (size == 0) {
            const bool value = gy_column_bool(column, row);
            ((uint8_t *)maker->values)[i >> 3] |= (uint8_t)(value << (i & 7));
        } else if (size == sizeof(int64_t)) {
            ((int64_t *)maker->values)[i] = gy_column_int64(column, row);
        } else if (maker->field.kind != GY_FIELD_TEXT) {
            memcpy((char *)maker->values + (size_t)i * size,
                   (const char *)column->values + (size_t)(column->offset + row) * size, size);
        }
    }
    maker->rows = merge->picked;
    return GY_OK;
}

static gy_status make_frame(merge_source *merge, gy_frame **frame)
{
    const int count = gy_schema_count(merge->schema);
    gy_frame_maker *makers = gy_rows_makers_new(merge->schema);
    gy_column *columns = gy_alloc_zero("query.merge", merge->held.count + 1, sizeof(*columns));
    gy_status status = makers == NULL || columns == NULL ? GY_NOMEM : GY_OK;
    for (int k = 0; k < count && status == GY_OK; k++) {
        for (size_t f = 0; f < merge->held.count; f++) {
            columns[f] = gy_frame_column(merge->held.frames[f], k);
        }
        status = gather_column(&makers[k], merge, columns);
    }
    if (status == GY_OK) {
        status = gy_frame_make(merge->schema, makers, merge->picked, frame);
    }
    gy_rows_makers_free(makers, count);
    gy_free(columns);
    return status;
}

/* Keep the frames that inputs are in alone. */
static gy_status drop_read(merge_source *merge)
{
    gy_rows_list kept = {.count = 0};
    gy_status status = GY_OK;
    for (int i = 0; i < merge->input_count && status == GY_OK; i++) {
        input *in = &merge->inputs[i];
        if (in->frame != NULL) {
            in->held_index = (uint32_t)kept.count;
            status = gy_rows_list_add(&kept, gy_frame_hold(in->frame));
        }
    }
    gy_rows_list_free(&merge->held);
    merge->held = kept;
    return status;
}

static gy_status begin(merge_source *merge)
{
    for (int i = 0; i < merge->input_count; i++) {
        const gy_status status = refill(merge, (uint32_t)i);
        if (status != GY_OK) {
            return status;
        }
        set_word(merge, (uint32_t)i);
    }
    gy_losers_play(&merge->tree, comes_first, merge);
    merge->is_begun = true;
    return GY_OK;
}

static gy_status merge_next(void *arg, gy_frame **frame)
{
    merge_source *merge = arg;
    if (!merge->is_begun) {
        const gy_status status = begin(merge);
        if (status != GY_OK) {
            return status;
        }
    }
    GY_TRY(drop_read(merge));
    merge->picked = 0;
    const int64_t most =
        merge->left < 0 ? GY_ROWS_FRAME : GY_MIN(merge->left, (int64_t)GY_ROWS_FRAME);
    while (merge->picked < most) {
        const uint32_t first = gy_losers_first(&merge->tree);
        input *in = &merge->inputs[first];
        if (in->is_done) {
            break;
        }
        merge->frame_of[merge->picked] = in->held_index;
        merge->row_of[merge->picked++] = (int32_t)in->at++;
        if (in->at == in->keys.rows) {
            const gy_status status = refill(merge, first);
            if (status != GY_OK) {
                return status;
            }
        }
        set_word(merge, first);
        gy_losers_replay(&merge->tree, comes_first, merge);
    }
    merge->left -= merge->left < 0 ? 0 : merge->picked;
    if (merge->picked == 0) {
        return GY_DONE;
    }
    if (merge->counts != NULL) {
        merge->counts->rows_out += merge->picked;
    }
    return make_frame(merge, frame);
}

static void merge_close(void *arg)
{
    merge_source *merge = arg;
    for (int i = 0; i < merge->input_count; i++) {
        gy_rows_close(&merge->inputs[i].source);
        gy_rows_order_keys_free(&merge->inputs[i].keys);
    }
    gy_rows_list_free(&merge->held);
    for (size_t i = 0; i < merge->run_count; i++) {
        gy_rows_run_free(&merge->runs[i]);
    }
    gy_free(merge->runs);
    gy_rows_spill_free(merge->spill);
    gy_losers_fini(&merge->tree);
    gy_schema_drop(merge->schema);
    gy_free(merge->keys);
    gy_free(merge->inputs);
    gy_free(merge->frame_of);
    gy_free(merge->row_of);
    gy_free(merge);
}

static gy_status init(merge_source *merge, int count, gy_schema *schema,
                      const gy_rows_sort_options *options)
{
    merge->schema = gy_schema_hold(schema);
    merge->left = options->limit;
    merge->key_count = options->key_count;
    merge->counts = options->limits.counts;
    merge->inputs = gy_alloc_zero("query.merge", (size_t)count + 1, sizeof(*merge->inputs));
    merge->keys =
        gy_alloc("query.merge", ((size_t)options->key_count + 1) * sizeof(*merge->keys));
    merge->frame_of = gy_alloc("query.merge", GY_ROWS_FRAME * sizeof(*merge->frame_of));
    merge->row_of = gy_alloc("query.merge", GY_ROWS_FRAME * sizeof(*merge->row_of));
    if (merge->inputs == NULL || merge->keys == NULL || merge->frame_of == NULL ||
        merge->row_of == NULL) {
        return GY_NOMEM;
    }
    for (int k = 0; k < options->key_count; k++) {
        merge->keys[k] = options->keys[k];
        GY_TRY(gy_rows_check_columns(schema, &options->keys[k].column, 1, "key"));
    }
    return gy_losers_init(&merge->tree, (size_t)GY_MAX(count, 1));
}

gy_status gy_rows_merge(const gy_frame_source *sources, int count, gy_schema *in_schema,
                        const gy_rows_sort_options *options, gy_frame_source *out,
                        gy_schema **schema)
{
    GY_ASSERT(count > 0);
    merge_source *merge = gy_alloc_zero("query.merge", 1, sizeof(*merge));
    gy_status status = merge == NULL ? GY_NOMEM : init(merge, count, in_schema, options);
    for (int i = 0; i < count; i++) {
        gy_frame_source source = sources[i];
        if (status < 0) {
            gy_rows_close(&source);
        } else {
            merge->inputs[merge->input_count++].source = source;
        }
    }
    if (status < 0) {
        if (merge != NULL) {
            merge_close(merge);
        }
        return status;
    }
    *out = (gy_frame_source){.next = merge_next, .close = merge_close, .arg = merge};
    *schema = gy_schema_hold(in_schema);
    return GY_OK;
}

/* ---- runs of a spill file ---- */

void gy_rows_runs_free(gy_rows_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        gy_rows_run_free(&runs->runs[i]);
    }
    gy_free(runs->runs);
    gy_rows_spill_free(runs->spill);
    *runs = (gy_rows_runs){.count = 0};
}

gy_status gy_rows_runs_add(gy_rows_runs *runs, const gy_rows_limits *limits)
{
    if (runs->spill == NULL) {
        GY_TRY(gy_rows_spill_new(limits, &runs->spill));
    }
    GY_TRY(GY_GROW("query.runs", runs->runs, runs->capacity, runs->count + 1));
    runs->runs[runs->count++] = (gy_rows_run){.count = 0};
    return GY_OK;
}

/* Merge the runs [begin, begin + count) through a source. */
static gy_status merge_some(const gy_rows_runs *runs, size_t begin_at, size_t count,
                            gy_schema *schema, const gy_rows_sort_options *options,
                            gy_frame_source *out)
{
    gy_frame_source *sources = gy_alloc_zero("query.runs", count, sizeof(*sources));
    if (sources == NULL) {
        return GY_NOMEM;
    }
    gy_status status = GY_OK;
    size_t made = 0;
    while (made < count && status == GY_OK) {
        status = gy_rows_run_source(runs->spill, schema, &runs->runs[begin_at + made],
                                    &sources[made]);
        made += status == GY_OK;
    }
    gy_schema *same = NULL;
    if (status == GY_OK) {
        status = gy_rows_merge(sources, (int)count, schema, options, out, &same);
    } else {
        for (size_t i = 0; i < made; i++) {
            gy_rows_close(&sources[i]);
        }
    }
    gy_schema_drop(same);
    gy_free(sources);
    return status;
}

/* How many runs are merged at once: a frame of each is in memory, and its keys. */
static size_t fan_in(const gy_rows_runs *runs, const gy_rows_limits *limits)
{
    uint64_t bytes = 0, rows = 1;
    for (size_t i = 0; i < runs->count; i++) {
        bytes += runs->runs[i].bytes;
        rows += (uint64_t)runs->runs[i].rows;
    }
    const uint64_t frame = (3 * bytes / rows + 16) * GY_ROWS_SPILL_FRAME;
    const uint64_t most =
        limits->memory_bytes == 0 ? FAN_IN_MOST : limits->memory_bytes / frame;
    return (size_t)GY_MIN(GY_MAX(most, (uint64_t)FAN_IN_LEAST), (uint64_t)FAN_IN_MOST);
}

/* Merge each `fan` runs to one, in another file. */
static gy_status merge_pass(gy_rows_runs *runs, size_t fan, gy_schema *schema,
                            const gy_rows_sort_options *options)
{
    gy_rows_runs merged = {.count = 0};
    gy_rows_sort_options all = *options;
    all.limits.counts = NULL;
    gy_status status = GY_OK;
    for (size_t at = 0; at < runs->count && status == GY_OK; at += fan) {
        gy_frame_source source = {.next = NULL};
        status = gy_rows_runs_add(&merged, &options->limits);
        if (status == GY_OK) {
            status = merge_some(runs, at, GY_MIN(fan, runs->count - at), schema, &all, &source);
        }
        while (status == GY_OK) {
            gy_frame *frame = NULL;
            status = source.next(source.arg, &frame);
            if (status == GY_OK) {
                status = gy_rows_spill_add(merged.spill, &merged.runs[merged.count - 1], frame);
                gy_frame_drop(frame);
            }
        }
        gy_rows_close(&source);
        status = status == GY_DONE ? GY_OK : status;
    }
    if (status < 0) {
        gy_rows_runs_free(&merged);
        return status;
    }
    gy_rows_runs_free(runs);
    *runs = merged;
    return GY_OK;
}

gy_status gy_rows_runs_merge(gy_rows_runs *runs, gy_schema *schema,
                             const gy_rows_sort_options *options, gy_frame_source *out)
{
    const size_t fan = fan_in(runs, &options->limits);
    while (runs->count > fan) {
        GY_TRY(merge_pass(runs, fan, schema, options));
    }
    GY_TRY(merge_some(runs, 0, runs->count, schema, options, out));
    merge_source *merge = out->arg; /* it keeps what it reads from */
    merge->spill = runs->spill;
    merge->runs = runs->runs;
    merge->run_count = runs->count;
    *runs = (gy_rows_runs){.count = 0};
    return GY_OK;
}
