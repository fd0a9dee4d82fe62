/*
 * Files as rows. A file that is not compressed is read in cuts: a batch of them at once by the
 * engine's workers, which also filter and project what they read; frames come out in the order
 * of the cuts.
 */
#include "query/run/run.h"

#include "base/env.h"

#include <string.h>

typedef struct slot {
    gy_frame *frame; /* NULL: none */
    gy_error error;
} slot;

typedef struct scan {
    gy_query_run *run;
    const gy_query_node *node;
    gy_query_files *files;
    gy_schema *schema; /* of what is read */
    gy_query_step steps[GY_QUERY_STEPS_MAX];
    int step_count;
    size_t file; /* the next one to open */
    gy_csv *csv;
    bool is_split;
    int64_t cut, cut_count; /* the next one to read */
    slot *slots;            /* (batch) */
    int64_t batch, filled, given;
} scan;

/* ---- Steps ---- */

gy_status gy_query_take_steps(const gy_query_step *steps, int count, gy_frame **frame)
{
    for (int i = 0; i < count; i++) {
        gy_frame *out = NULL;
        const gy_query_step *step = &steps[i];
        if (i > 0) {
            gy_query_meter_add(steps[i - 1].meter, *frame);
        }
        const gy_status status = step->condition != NULL
                                     ? gy_expr_filter(step->condition, *frame, &out)
                                     : gy_expr_project(step->values, (int)step->node->count,
                                                       step->schema, *frame, &out);
        gy_frame_drop(*frame);
        *frame = out;
        if (status != GY_OK) {
            return status;
        }
    }
    return GY_OK;
}

/* ---- Files ---- */

/* Columns by name, unless two have the same: then all, and the wanted ones of them. */
static bool has_twice(const scan *in)
{
    for (uint32_t i = 0; i < in->node->count; i++) {
        const gy_field *field = gy_schema_field(in->files->table.schema, in->node->fields[i]);
        if (gy_schema_find(in->files->table.schema, field->name) < 0) {
            return true;
        }
    }
    return false;
}

/* A file that became another one since the query was planned has no place in the plan. */
static gy_status check_types(const scan *in)
{
    const bool has_all = has_twice(in);
    const gy_schema *planned = in->files->table.schema, *found = gy_csv_schema(in->csv);
    bool is_same =
        gy_schema_count(found) == (has_all ? gy_schema_count(planned) : (int)in->node->count);
    for (uint32_t i = 0; i < in->node->count && is_same; i++) {
        const int field = in->node->fields[i];
        const gy_field *a = gy_schema_field(planned, field);
        const gy_field *b = gy_schema_field(found, has_all ? field : (int)i);
        is_same = a->kind == b->kind && a->precision == b->precision && a->scale == b->scale;
    }
    return is_same ? GY_OK
                   : gy_fail(GY_STATE, "%s: the types of its columns changed meanwhile",
                             in->files->paths[in->file]);
}

static gy_status open_file(scan *in)
{
    gy_query_files *files = in->files;
    gy_csv_options options = files->options;
    const char **used = gy_alloc_zero("query.used", in->node->count + 1, sizeof(*used));
    if (used == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < in->node->count; i++) {
        used[i] = gy_schema_field(files->table.schema, in->node->fields[i])->name;
    }
    options.columns = files->columns;
    if (!has_twice(in)) {
        options.used = used;
        options.used_count = (int)in->node->count;
    }
    gy_status status = gy_csv_open(files->paths[in->file], &options, &in->csv);
    gy_free(used);
    status = status == GY_OK ? check_types(in) : status;
    if (status == GY_OK) {
        status = gy_csv_split(in->csv, in->run->engine);
        in->is_split = status == GY_OK;
        in->cut = 0;
        in->cut_count = in->is_split ? gy_csv_cut_count(in->csv) : 0;
        status = status == GY_UNSUPPORTED ? GY_OK : status; /* compressed: read in order */
    }
    in->file += status == GY_OK ? 1 : 0;
    return status;
}

static gy_status take_steps(const scan *in, gy_frame **frame)
{
    if (has_twice(in)) {
        gy_frame *kept = NULL;
        const gy_status status =
            gy_frame_select(*frame, in->node->fields, (int)in->node->count, &kept);
        gy_frame_drop(*frame);
        *frame = kept;
        GY_TRY(status);
    }
    if (in->step_count > 0) {
        gy_query_meter_add(&in->run->meters[in->node->number], *frame);
    }
    return gy_query_take_steps(in->steps, in->step_count, frame);
}

/* ---- Where a value is that has no answer ---- */

static gy_status take_some(const scan *in, gy_frame *whole, int64_t begin, int64_t end)
{
    gy_frame *some = NULL;
    GY_TRY(gy_frame_slice(whole, begin, end, &some));
    const gy_status status = take_steps(in, &some);
    gy_frame_drop(some);
    return status;
}

/* Say of the first row that fails where it stands. `cut` -1: of a file that is read in order.
 */
static gy_status place_failure(const scan *in, int64_t cut, gy_frame *whole, gy_status failed)
{
    char place[4200];
    gy_error error = {.status = GY_OK};
    int64_t begin = 0, end = gy_frame_rows(whole);
    GY_ASSERT(failed < 0 && end > 0 && in->file > 0);
    (void)gy_error_keep(&error, failed);
    if (failed != GY_NUMERIC && failed != GY_FORMAT && failed != GY_LIMIT && failed != GY_ARG) {
        return failed;
    }
    while (end - begin > 1) {
        const int64_t middle = begin + (end - begin) / 2;
        if (take_some(in, whole, begin, middle) != GY_OK) {
            end = middle;
        } else {
            begin = middle;
        }
    }
    failed = take_some(in, whole, begin, end);
    if (failed == GY_OK) { /* all rows together are too many */
        return gy_error_raise(&error);
    }
    (void)gy_error_keep(&error, failed);
    (void)gy_print(place, sizeof(place), "%s", in->files->paths[in->file - 1]);
    if (cut >= 0) {
        GY_TRY(gy_csv_row_place(in->csv, cut, begin, place, sizeof(place)));
    }
    return gy_fail(failed, "%s: %s", place, error.text);
}

static gy_status take_frame(const scan *in, int64_t cut, gy_frame **frame)
{
    gy_frame *whole = gy_frame_hold(*frame);
    gy_status status = take_steps(in, frame);
    if (status != GY_OK) {
        status = place_failure(in, cut, whole, status);
    }
    gy_frame_drop(whole);
    return status;
}

static void read_cuts(void *arg, int64_t begin, int64_t end)
{
    scan *in = arg;
    for (int64_t i = begin; i < end; i++) {
        slot *to = &in->slots[i];
        gy_status status = gy_csv_read_cut(in->csv, in->cut + i, &to->frame);
        status = status == GY_OK ? take_frame(in, in->cut + i, &to->frame) : status;
        (void)gy_error_keep(&to->error, status);
    }
}

/* Read the next batch; none is left of the file: *has_any is false. */
static gy_status fill(scan *in, bool *has_any)
{
    in->filled = 0;
    in->given = 0;
    *has_any = false;
    if (in->csv == NULL) {
        return GY_OK;
    }
    memset(in->slots, 0, (size_t)in->batch * sizeof(*in->slots));
    if (!in->is_split) {
        const gy_status status = gy_csv_next(in->csv, &in->slots[0].frame);
        *has_any = status == GY_OK;
        in->filled = *has_any ? 1 : 0;
        return status == GY_OK ? take_frame(in, -1, &in->slots[0].frame)
                               : (status == GY_DONE ? GY_OK : status);
    }
    const int64_t left = in->cut_count - in->cut;
    in->filled = left < in->batch ? left : in->batch;
    *has_any = in->filled > 0;
    gy_parallel_for(in->run->engine, in->filled, 1, read_cuts, in);
    in->cut += in->filled;
    for (int64_t i = 0; i < in->filled; i++) {
        if (in->slots[i].error.status < 0) {
            return gy_error_raise(&in->slots[i].error);
        }
    }
    return GY_OK;
}

/* ---- The source ---- */

static gy_status next_batch(scan *in)
{
    bool has_any = false;
    for (;;) {
        GY_TRY(fill(in, &has_any));
        if (has_any) {
            return GY_OK;
        }
        gy_csv_close(in->csv);
        in->csv = NULL;
        if (in->file == in->files->count) {
            return GY_DONE;
        }
        GY_TRY(open_file(in));
    }
}

/* A value that is none of its column's type, where types were guessed. Of files whose guesses
 * differ one type was made: what does not fit it is a cast that failed. */
static void see_wrong(const scan *in, gy_status status)
{
    const gy_query_files *files = in->files;
    if (!files->is_given && !files->is_retyped &&
        (status == GY_TYPE || (status == GY_FORMAT && files->columns != NULL))) {
        in->run->wrong = in->files;
    }
}

static gy_status next(void *arg, gy_frame **frame)
{
    scan *in = arg;
    for (;;) {
        while (in->given < in->filled) {
            gy_frame *one = in->slots[in->given].frame;
            in->slots[in->given++].frame = NULL;
            if (one != NULL && gy_frame_rows(one) > 0) {
                *frame = one;
                return GY_OK;
            }
            gy_frame_drop(one);
        }
        const gy_status status = next_batch(in);
        if (status != GY_OK) {
            see_wrong(in, status);
            return status;
        }
    }
}

static void close_scan(void *arg)
{
    scan *in = arg;
    for (int64_t i = in->given; in->slots != NULL && i < in->filled; i++) {
        gy_frame_drop(in->slots[i].frame);
    }
    for (int i = 0; i < in->step_count; i++) {
        gy_schema_drop(in->steps[i].schema);
    }
    gy_csv_close(in->csv);
    gy_schema_drop(in->schema);
    gy_free(in->slots);
    gy_free(in);
}

gy_status gy_query_scan(gy_query_run *run, const gy_query_node *node, gy_query_stream *stream)
{
    return gy_query_scan_steps(run, node, NULL, 0, stream);
}

gy_status gy_query_scan_steps(gy_query_run *run, const gy_query_node *node,
                              const gy_query_step *steps, int count, gy_query_stream *stream)
{
    GY_ASSERT(count <= GY_QUERY_STEPS_MAX && node->kind == GY_QUERY_SCAN);
    if (node->table->files == NULL) {
        return gy_query_frames_steps(run, node, steps, count, stream);
    }
    scan *in = gy_alloc_zero("query.scan", 1, sizeof(*in));
    if (in != NULL) {
        in->run = run;
        in->node = node;
        in->files = node->table->files;
        in->batch = 2 * (int64_t)gy_engine_workers(run->engine);
        in->slots = gy_alloc_zero("query.slots", (size_t)in->batch, sizeof(*in->slots));
        in->step_count = count;
        for (int i = 0; i < count; i++) {
            in->steps[i] = steps[i];
        }
    }
    gy_status status = in != NULL && in->slots != NULL ? GY_OK : GY_NOMEM;
    status = status == GY_OK
                 ? gy_query_schema_of(run->plan, node->columns, node->count, &in->schema)
                 : status;
    if (status != GY_OK) {
        for (int i = 0; i < count && in == NULL; i++) {
            gy_schema_drop(steps[i].schema);
        }
        if (in != NULL) {
            close_scan(in);
        }
        return status;
    }
    gy_schema *schema = in->schema;
    for (int i = 0; i < count; i++) {
        schema = steps[i].schema != NULL ? steps[i].schema : schema;
    }
    *stream = (gy_query_stream){.source = {.next = next, .close = close_scan, .arg = in},
                                .schema = gy_schema_hold(schema)};
    return GY_OK;
}
