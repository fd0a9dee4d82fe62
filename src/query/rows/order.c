/*
 * Sorting: rows are collected until memory is full, sorted as a run, and written; runs are
 * merged at the end. With a limit, what has been collected is sorted and cut whenever it is
 * twice as much, and rows behind the last one of it are no longer collected.
 */
#include "query/rows/rows_priv.h"

#include "mapreduce/sort.h"

enum { CUT_ROWS_MIN = 4 * GY_ROWS_FRAME };

/* What is sorted at once: a column's text must fit a frame, and a row's number 32 bits. */
#define PIECE_BYTES (UINT64_C(1) << 30)

typedef struct sort_source {
    gy_frame_source in;
    gy_schema *schema;
    gy_rows_sort_key *keys;
    int key_count;
    int64_t limit;
    gy_rows_limits limits;
    bool is_read;
    gy_rows_list list;       /* collected */
    int64_t cut_at;          /* with a limit: collected rows at which they are sorted and cut */
    gy_rows_order_keys last; /* the key of the limit's last row, once there are as many */
    gy_rows_order_keys keys_of; /* of a frame */
    int32_t *chosen;
    size_t chosen_capacity;
    gy_rows_runs runs;    /* written */
    gy_rows_list *pieces; /* without bound: sorted pieces in memory */
    size_t piece_count, piece_capacity;
    gy_frame *sorted; /* all that was collected, and its order */
    int32_t *order;
    int64_t sorted_rows; /* that are given, at most the limit */
    gy_frame **gathered; /* (gathered_count) some frames of that, held; given are NULL */
    int64_t gathered_count, gathered_at, given;
    gy_frame_source merged; /* next: NULL without runs */
} sort_source;

/* ---- collecting ---- */

/* Sort what was collected: a frame and the order of its rows, at most `limit`. */
static gy_status sort_collected(sort_source *it, gy_frame **frame, int32_t **order,
                                int64_t *count)
{
    gy_frame *all = NULL;
    GY_TRY(gy_rows_concat_by(it->limits.engine, it->schema, it->list.frames, it->list.count,
                             &all));
    gy_rows_list_free(&it->list);
    const int64_t rows = gy_frame_rows(all);
    int32_t *made = gy_alloc("query.order", ((size_t)rows + 1) * sizeof(*made));
    const gy_status status =
        made == NULL ? GY_NOMEM
                     : gy_rows_order_of(it->limits.engine, all, it->keys, it->key_count, made);
    if (status < 0) {
        gy_free(made);
        gy_frame_drop(all);
        return status;
    }
    *frame = all;
    *order = made;
    *count = it->limit < 0 ? rows : GY_MIN(rows, it->limit);
    return GY_OK;
}

/* Keep the first rows alone, and remember the last one of them. */
static gy_status cut(sort_source *it)
{
    gy_frame *all = NULL, *first = NULL, *last = NULL;
    int32_t *order = NULL;
    int64_t count = 0;
    GY_TRY(sort_collected(it, &all, &order, &count));
    gy_status status = gy_rows_gather(all, order, count, &first);
    if (status == GY_OK && count == it->limit && count > 0) {
        status = gy_frame_slice(first, count - 1, count, &last);
    }
    if (status == GY_OK && last != NULL) {
        status = gy_rows_order_encode(last, it->keys, it->key_count, &it->last);
    }
    gy_frame_drop(last);
    gy_frame_drop(all);
    gy_free(order);
    if (status < 0) {
        gy_frame_drop(first);
        return status;
    }
    return gy_rows_list_add(&it->list, first);
}

/* Write what was collected as a run; without a bound, keep it as one. */
static gy_status end_run(sort_source *it)
{
    gy_frame *all = NULL;
    int32_t *order = NULL;
    int64_t count = 0;
    GY_TRY(sort_collected(it, &all, &order, &count));
    gy_rows_list *piece = NULL;
    gy_status status = GY_OK;
    if (it->limits.memory_bytes != 0) {
        status = gy_rows_runs_add(&it->runs, &it->limits);
    } else {
        status = GY_GROW("query.pieces", it->pieces, it->piece_capacity, it->piece_count + 1);
        if (status == GY_OK) {
            piece = &it->pieces[it->piece_count++];
            *piece = (gy_rows_list){.count = 0};
        }
    }
    for (int64_t at = 0; at < count && status == GY_OK; at += GY_ROWS_FRAME) {
        gy_frame *frame = NULL;
        const int64_t rows = GY_MIN(count - at, (int64_t)GY_ROWS_FRAME);
        status = gy_rows_gather(all, order + at, rows, &frame);
        if (status == GY_OK && piece != NULL) {
            status = gy_rows_list_add(piece, frame);
        } else if (status == GY_OK) {
            status =
                gy_rows_spill_add(it->runs.spill, &it->runs.runs[it->runs.count - 1], frame);
            gy_frame_drop(frame);
        }
    }
    if (it->limits.counts != NULL && piece == NULL) {
        it->limits.counts->spills++;
    }
    gy_frame_drop(all);
    gy_free(order);
    return status;
}

/* Rows of a frame that may be among the first ones: before the last one of those known. */
static gy_status choose(sort_source *it, gy_frame **frame)
{
    if (it->last.rows == 0) {
        return GY_OK;
    }
    const int64_t rows = gy_frame_rows(*frame);
    GY_TRY(gy_rows_order_encode(*frame, it->keys, it->key_count, &it->keys_of));
    GY_TRY(GY_GROW("query.chosen", it->chosen, it->chosen_capacity, (size_t)rows + 1));
    int64_t count = 0;
    const gy_rows_order_keys *keys = &it->keys_of;
    for (int64_t i = 0; i < rows; i++) {
        const int order = gy_sort_bytes_compare(keys->bytes + keys->starts[i],
                                                (size_t)(keys->starts[i + 1] - keys->starts[i]),
                                                it->last.bytes, (size_t)it->last.starts[1]);
        it->chosen[count] = (int32_t)i;
        count += order < 0;
    }
    if (count == rows) {
        return GY_OK;
    }
    gy_frame *less = NULL;
    GY_TRY(gy_rows_gather(*frame, it->chosen, count, &less));
    gy_frame_drop(*frame);
    *frame = less;
    return GY_OK;
}

static bool is_full(const sort_source *it)
{
    /* rows twice, as they are put together, with their order and keys */
    const uint64_t bytes =
        2 * it->list.bytes +
        (uint64_t)it->list.rows * (3 * sizeof(gy_entry) + 16 * (uint64_t)it->key_count);
    return (it->limits.memory_bytes != 0 && bytes > it->limits.memory_bytes) ||
           it->list.bytes > PIECE_BYTES || it->list.rows > INT32_MAX / 2;
}

/* Takes the frame. */
static gy_status collect(sort_source *it, gy_frame *frame)
{
    const gy_status status = it->limit >= 0 ? choose(it, &frame) : GY_OK;
    if (status < 0 || gy_frame_rows(frame) == 0) {
        gy_frame_drop(frame);
        return status;
    }
    GY_TRY(gy_rows_list_add(&it->list, frame));
    if (it->limit >= 0 && it->list.rows > it->cut_at) {
        GY_TRY(cut(it));
    }
    return is_full(it) ? end_run(it) : GY_OK;
}

static gy_status take(sort_source *it)
{
    while (it->limit != 0) {
        gy_frame *frame = NULL;
        const gy_status status = gy_rows_next(&it->in, it->limits.counts, &frame);
        if (status == GY_DONE) {
            break;
        }
        if (status != GY_OK) {
            return status;
        }
        const int64_t begin_ns = gy_now_ns(it->limits.env);
        GY_TRY(collect(it, frame));
        if (it->limits.counts != NULL) {
            it->limits.counts->time_ns += gy_now_ns(it->limits.env) - begin_ns;
        }
    }
    gy_rows_close(&it->in);
    it->is_read = true;
    return GY_OK;
}

/* ---- giving ---- */

/* Merge pieces that lie in memory. */
static gy_status merge_pieces(sort_source *it, const gy_rows_sort_options *options)
{
    gy_frame_source *sources = gy_alloc_zero("query.pieces", it->piece_count, sizeof(*sources));
    gy_status status = sources == NULL ? GY_NOMEM : GY_OK;
    size_t made = 0;
    while (status == GY_OK && made < it->piece_count) {
        status =
            gy_rows_source(it->pieces[made].frames, it->pieces[made].count, &sources[made]);
        made += status == GY_OK;
    }
    gy_schema *schema = NULL;
    if (status == GY_OK) {
        status = gy_rows_merge(sources, (int)made, it->schema, options, &it->merged, &schema);
    } else {
        for (size_t i = 0; i < made; i++) {
            gy_rows_close(&sources[i]);
        }
    }
    gy_schema_drop(schema);
    gy_free(sources);
    return status;
}

static gy_status prepare(sort_source *it)
{
    if (it->runs.count == 0 && it->piece_count == 0) {
        return sort_collected(it, &it->sorted, &it->order, &it->sorted_rows);
    }
    const gy_rows_sort_options options = {
        .keys = it->keys, .key_count = it->key_count, .limit = it->limit, .limits = it->limits};
    if (it->list.rows > 0) {
        GY_TRY(end_run(it));
    }
    return it->piece_count > 0
               ? merge_pieces(it, &options)
               : gy_rows_runs_merge(&it->runs, it->schema, &options, &it->merged);
}

static gy_status gather_frame(void *arg, int64_t index)
{
    sort_source *it = arg;
    const int64_t begin = it->given + index * GY_ROWS_FRAME;
    return gy_rows_gather(it->sorted, it->order + begin,
                          GY_MIN(it->sorted_rows - begin, (int64_t)GY_ROWS_FRAME),
                          &it->gathered[index]);
}

/* The next frame of what was sorted: some are gathered at once. GY_DONE */
static gy_status next_sorted(sort_source *it, gy_frame **frame)
{
    gy_engine *engine = it->limits.engine;
    const int64_t most = engine == NULL ? 1 : 2 * gy_engine_workers(engine);
    if (it->gathered == NULL) {
        it->gathered = gy_alloc_zero("query.sort", (size_t)most, sizeof(*it->gathered));
        if (it->gathered == NULL) {
            return GY_NOMEM;
        }
    }
    if (it->gathered_at == it->gathered_count) {
        const int64_t left = it->sorted_rows - it->given;
        const int64_t count = GY_MIN((left + GY_ROWS_FRAME - 1) / (int64_t)GY_ROWS_FRAME, most);
        it->gathered_count = count;
        it->gathered_at = 0;
        if (count == 0) {
            return GY_DONE;
        }
        GY_TRY(gy_rows_each(engine, count, gather_frame, it));
        it->given += GY_MIN(left, count * GY_ROWS_FRAME);
    }
    *frame = it->gathered[it->gathered_at];
    it->gathered[it->gathered_at++] = NULL;
    return GY_OK;
}

static gy_status sort_next(void *arg, gy_frame **frame)
{
    sort_source *it = arg;
    if (!it->is_read) {
        const gy_status status = take(it);
        if (status != GY_OK) {
            return status;
        }
    }
    const int64_t begin_ns = gy_now_ns(it->limits.env);
    if (it->sorted == NULL && it->merged.next == NULL) {
        GY_TRY(prepare(it));
    }
    gy_status status = GY_DONE;
    if (it->merged.next != NULL) {
        status = it->merged.next(it->merged.arg, frame);
    } else {
        status = next_sorted(it, frame);
        if (status == GY_OK && it->limits.counts != NULL) {
            it->limits.counts->rows_out += gy_frame_rows(*frame);
        }
    }
    if (it->limits.counts != NULL) {
        it->limits.counts->time_ns += gy_now_ns(it->limits.env) - begin_ns;
    }
    return status;
}

static void sort_close(void *arg)
{
    sort_source *it = arg;
    gy_rows_close(&it->in);
    gy_rows_close(&it->merged);
    gy_rows_runs_free(&it->runs);
    for (size_t i = 0; i < it->piece_count; i++) {
        gy_rows_list_free(&it->pieces[i]);
    }
    gy_free(it->pieces);
    gy_rows_list_free(&it->list);
    gy_rows_order_keys_free(&it->last);
    gy_rows_order_keys_free(&it->keys_of);
    gy_free(it->chosen);
    for (int64_t i = 0; i < it->gathered_count; i++) {
        gy_frame_drop(it->gathered[i]);
    }
    gy_free(it->gathered);
    gy_frame_drop(it->sorted);
    gy_free(it->order);
    gy_free(it->keys);
    gy_schema_drop(it->schema);
    gy_rows_limits_fini(&it->limits);
    gy_free(it);
}

static gy_status init(sort_source *it, const gy_rows_sort_options *options)
{
    GY_ASSERT(options->limit >= -1);
    GY_TRY(gy_rows_limits_copy(&options->limits, &it->limits));
    it->keys = gy_alloc("query.sort", ((size_t)options->key_count + 1) * sizeof(*it->keys));
    if (it->keys == NULL) {
        return GY_NOMEM;
    }
    it->key_count = options->key_count;
    for (int k = 0; k < options->key_count; k++) {
        it->keys[k] = options->keys[k];
        GY_TRY(gy_rows_check_columns(it->schema, &options->keys[k].column, 1, "key"));
    }
    it->limit = options->limit;
    it->cut_at = options->limit > INT64_MAX / 2
                     ? INT64_MAX
                     : GY_MAX(2 * options->limit, (int64_t)CUT_ROWS_MIN);
    return GY_OK;
}

gy_status gy_rows_sort(gy_frame_source in, gy_schema *in_schema,
                       const gy_rows_sort_options *options, gy_frame_source *out,
                       gy_schema **schema)
{
    sort_source *it = gy_alloc_zero("query.sort", 1, sizeof(*it));
    if (it == NULL) {
        gy_rows_close(&in);
        return GY_NOMEM;
    }
    it->in = in;
    it->schema = gy_schema_hold(in_schema);
    const gy_status status = init(it, options);
    if (status < 0) {
        sort_close(it);
        return status;
    }
    *out = (gy_frame_source){.next = sort_next, .close = sort_close, .arg = it};
    *schema = gy_schema_hold(in_schema);
    return GY_OK;
}
