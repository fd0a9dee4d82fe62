/* What vertices make of all their rows: samples of keys, and bounds of ranges. */
#include "query/dag/dag_priv.h"

/* A row of a sample stands for so many in so many parts. */
enum { WEIGHT = 1024 };

gy_rows_sort_key *gy_query_sort_keys(const gy_query_node *row, const gy_query_key *keys,
                                     uint32_t count)
{
    gy_rows_sort_key *made = gy_alloc_zero("query.keys", count + 1u, sizeof(*made));
    for (uint32_t i = 0; i < count && made != NULL; i++) {
        made[i] = (gy_rows_sort_key){.column = gy_query_index(row, keys[i].column),
                                     .is_descending = keys[i].is_descending,
                                     .nulls_first = keys[i].has_nulls_first};
        GY_ASSERT(made[i].column >= 0);
    }
    return made;
}

gy_status gy_query_read_all(gy_query_stream *stream, gy_frame **all)
{
    gy_frame **frames = NULL;
    size_t count = 0, capacity = 0;
    gy_status status = GY_OK;
    while (status == GY_OK) {
        status = GY_GROW("query.frames", frames, capacity, count + 1);
        status =
            status == GY_OK ? stream->source.next(stream->source.arg, &frames[count]) : status;
        count += status == GY_OK ? 1 : 0;
    }
    if (status == GY_DONE) {
        status = gy_rows_concat(stream->schema, frames, count, all);
    }
    for (size_t i = 0; i < count; i++) {
        gy_frame_drop(frames[i]);
    }
    gy_free(frames);
    gy_query_stream_close(stream);
    return status;
}

/* ---- Samples ---- */

/* Keys of rows, and how many came. */
static gy_status take_sample(const gy_query_node *root, const gy_query_sink *sink,
                             gy_query_stream *stream, gy_frame **sample, int64_t *seen)
{
    gy_rows_sampler *sampler = NULL;
    gy_rows_sort_key *keys = gy_query_sort_keys(root, sink->order, sink->order_count);
    gy_status status = keys != NULL
                           ? gy_rows_sampler_new(stream->schema, keys, (int)sink->order_count,
                                                 GY_QUERY_SAMPLE_ROWS, 0, &sampler)
                           : GY_NOMEM;
    while (status == GY_OK) {
        gy_frame *frame = NULL;
        status = stream->source.next(stream->source.arg, &frame);
        if (status == GY_OK) {
            *seen += gy_frame_rows(frame);
            status = gy_rows_sampler_add(sampler, frame);
            gy_frame_drop(frame);
        }
    }
    status = status == GY_DONE ? gy_rows_sampler_take(sampler, sample) : status;
    gy_rows_sampler_free(sampler);
    gy_free(keys);
    return status;
}

/* The schema of sample rows: keys, then the weight. */
static gy_status sample_schema(gy_query_run *run, const gy_query_sink *sink, gy_schema **schema)
{
    uint32_t *columns =
        gy_arena_alloc(&run->arena, (sink->order_count + 1u) * sizeof(*columns));
    if (columns == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < sink->order_count; i++) {
        columns[i] = sink->order[i].column;
    }
    columns[sink->order_count] = sink->ordinal;
    return gy_query_schema_of(run->plan, columns, sink->order_count + 1, schema);
}

gy_status gy_query_sample(gy_query_run *run, const gy_query_work *work, gy_query_stream *stream,
                          gy_frame **sample)
{
    const gy_query_sink *sink = &work->fragment->stage.sink;
    int64_t seen = 0;
    gy_schema *schema = NULL;
    gy_status status = take_sample(run->plan->root, sink, stream, sample, &seen);
    gy_query_stream_close(stream);
    GY_TRY(status);
    status = sample_schema(run, sink, &schema);
    if (status != GY_OK) {
        gy_frame_drop(*sample);
        return status;
    }
    const double rows = (double)GY_MAX(gy_frame_rows(*sample), INT64_C(1));
    const double weight = (double)seen * work->scale * WEIGHT / rows;
    status = gy_query_number_rows(schema, (int64_t)weight, GY_QUERY_NUMBER_SAME, sample);
    gy_schema_drop(schema);
    return status;
}

/* ---- What is chosen ---- */

/* All samples: their keys, and what each row stands for. */
typedef struct samples {
    gy_frame *all, *keys;
    gy_column weights;
    gy_rows_sort_key *order; /* (order_count) of `keys` */
    int *columns;            /* (order_count) 0, 1, ... */
} samples;

static void drop_samples(samples *in)
{
    gy_frame_drop(in->keys);
    gy_frame_drop(in->all);
    gy_free(in->columns);
    gy_free(in->order);
}

static gy_status read_samples(const gy_query_node *root, const gy_query_sink *sink,
                              gy_query_stream *stream, samples *out)
{
    const uint32_t count = sink->order_count;
    *out = (samples){.all = NULL};
    GY_TRY(gy_query_read_all(stream, &out->all));
    out->order = gy_query_sort_keys(root, sink->order, count);
    out->columns = gy_alloc_zero("query.keys", count + 1u, sizeof(*out->columns));
    gy_status status = out->order != NULL && out->columns != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; status == GY_OK && i < count; i++) {
        out->columns[i] = out->order[i].column;
        out->order[i].column = (int)i;
    }
    if (status == GY_OK) {
        status = gy_frame_select(out->all, out->columns, (int)count, &out->keys);
    }
    for (uint32_t i = 0; status == GY_OK && i < count; i++) {
        out->columns[i] = (int)i;
    }
    if (status != GY_OK) {
        drop_samples(out);
        return status;
    }
    out->weights = gy_frame_column(out->all, gy_query_index(root, sink->ordinal));
    return GY_OK;
}

static const int64_t *weights_of(const samples *in)
{
    return in->weights.rows > 0 ? (const int64_t *)in->weights.values + in->weights.offset
                                : NULL;
}

gy_status gy_query_bounds(gy_query_run *run, const gy_query_sink *sink, gy_query_stream *stream,
                          gy_frame **bounds)
{
    samples in;
    GY_TRY(read_samples(run->plan->root, sink, stream, &in));
    const gy_status status = gy_rows_bounds(in.keys, weights_of(&in), in.order,
                                            (int)sink->order_count, (int)sink->ranges, bounds);
    drop_samples(&in);
    return status;
}

gy_status gy_query_find_hot(gy_query_run *run, const gy_query_sink *sink,
                            gy_query_stream *stream, gy_frame **hashes)
{
    const gy_field field = {.name = "hash", .kind = GY_FIELD_INT64};
    gy_frame_maker maker = {.field = field};
    gy_schema *schema = NULL;
    gy_rows_hot hot = {.hashes = NULL};
    samples in;
    GY_TRY(read_samples(run->plan->root, sink, stream, &in));
    gy_status status = gy_rows_find_hot(in.keys, in.columns, (int)sink->order_count,
                                        weights_of(&in), (int)sink->ranges, &hot);
    drop_samples(&in);
    GY_TRY(status);
    status = gy_frame_maker_reserve(&maker, (int64_t)hot.count);
    for (size_t i = 0; i < hot.count && status == GY_OK; i++) {
        int64_t *values = maker.values;
        values[i] = (int64_t)hot.hashes[i];
        gy_frame_maker_set(&maker);
    }
    status = status == GY_OK ? gy_schema_new(&field, 1, &schema) : status;
    status =
        status == GY_OK ? gy_frame_make(schema, &maker, (int64_t)hot.count, hashes) : status;
    gy_frame_maker_fini(&maker);
    gy_schema_drop(schema);
    gy_free(hot.hashes);
    return status;
}
