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

gy_status gy_query_sample(gy_query_run *run, const gy_query_sink *sink, gy_query_stream *stream,
                          gy_frame **sample)
{
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
    const int64_t rows = GY_MAX(gy_frame_rows(*sample), INT64_C(1));
    status = gy_query_number_rows(schema, seen * WEIGHT / rows, GY_QUERY_NUMBER_SAME, sample);
    gy_schema_drop(schema);
    return status;
}

/* ---- Bounds ---- */

gy_status gy_query_bounds(gy_query_run *run, const gy_query_sink *sink, gy_query_stream *stream,
                          gy_frame **bounds)
{
    gy_frame *all = NULL, *sample = NULL;
    GY_TRY(gy_query_read_all(stream, &all));
    gy_rows_sort_key *keys =
        gy_query_sort_keys(run->plan->root, sink->order, sink->order_count);
    int *columns = gy_alloc_zero("query.keys", sink->order_count + 1u, sizeof(*columns));
    gy_status status = keys != NULL && columns != NULL ? GY_OK : GY_NOMEM;
    for (uint32_t i = 0; status == GY_OK && i < sink->order_count; i++) {
        columns[i] = keys[i].column;
        keys[i].column = (int)i;
    }
    if (status == GY_OK) {
        status = gy_frame_select(all, columns, (int)sink->order_count, &sample);
    }
    if (status == GY_OK) {
        const gy_column weights =
            gy_frame_column(all, gy_query_index(run->plan->root, sink->ordinal));
        const int64_t *of = weights.rows > 0 ? weights.values : NULL;
        status = gy_rows_bounds(sample, of != NULL ? of + weights.offset : NULL, keys,
                                (int)sink->order_count, (int)sink->ranges, bounds);
    }
    gy_frame_drop(sample);
    gy_frame_drop(all);
    gy_free(columns);
    gy_free(keys);
    return status;
}
