/*
 * Frames as rows: pieces of those in memory, then those of a file, several at once by the
 * engine's workers, which also filter and project them; they come out in their order.
 */
#include "query/run/run.h"

#include <string.h>

/* Of a piece: enough to be worth waking a worker, few enough that large frames are shared. */
enum { PIECE_ROWS = 1 << 16 };

/* A piece, and what became of it. */
typedef struct slot {
    gy_frame *of; /* held */
    int64_t begin, end;
    gy_frame *frame; /* NULL: none */
    gy_error error;
} slot;

typedef struct pieces {
    gy_query_run *run;
    const gy_query_node *node;
    gy_query_step steps[GY_QUERY_STEPS_MAX];
    int step_count;
    size_t frame; /* where the next piece begins */
    int64_t row;
    gy_frame_source rest; /* of the table's file; next NULL: it is not open */
    slot *slots;          /* (batch) */
    int64_t batch, filled, given;
} pieces;

static gy_status take(const pieces *in, slot *to)
{
    gy_frame *some = NULL;
    gy_status status = gy_frame_slice(to->of, to->begin, to->end, &some);
    gy_frame_drop(to->of);
    to->of = NULL;
    GY_TRY(status);
    status = gy_frame_select(some, in->node->fields, (int)in->node->count, &to->frame);
    gy_frame_drop(some);
    GY_TRY(status);
    if (in->step_count > 0) {
        gy_query_meter_add(&in->run->meters[in->node->number], to->frame);
    }
    return gy_query_take_steps(in->steps, in->step_count, &to->frame);
}

static void take_pieces(void *arg, int64_t begin, int64_t end)
{
    pieces *in = arg;
    for (int64_t i = begin; i < end; i++) {
        (void)gy_error_keep(&in->slots[i].error, take(in, &in->slots[i]));
    }
}

/* The next frame of the file, whole. */
static gy_status take_rest(pieces *in, slot *to)
{
    if (in->rest.next == NULL) {
        GY_TRY(gy_rows_file_again(in->node->table->rest, &in->rest));
    }
    const gy_status status = in->rest.next(in->rest.arg, &to->of);
    if (status == GY_OK) {
        to->end = gy_frame_rows(to->of);
    }
    return status;
}

/* The next piece; GY_DONE: there is none. */
static gy_status next_piece(pieces *in, slot *to)
{
    const gy_query_table *table = in->node->table;
    for (; in->frame < table->frame_count; in->frame++) {
        gy_frame *of = table->frames[in->frame];
        const int64_t left = gy_frame_rows(of) - in->row;
        if (left > 0) {
            to->of = gy_frame_hold(of);
            to->begin = in->row;
            in->row += left < PIECE_ROWS ? left : PIECE_ROWS;
            to->end = in->row;
            return GY_OK;
        }
        in->row = 0;
    }
    return table->rest != NULL ? take_rest(in, to) : GY_DONE;
}

/* The next batch; GY_DONE: there is none. */
static gy_status fill(pieces *in)
{
    gy_status status = GY_OK;
    in->filled = 0;
    in->given = 0;
    memset(in->slots, 0, (size_t)in->batch * sizeof(*in->slots));
    while (in->filled < in->batch && status == GY_OK) {
        status = next_piece(in, &in->slots[in->filled]);
        in->filled += status == GY_OK ? 1 : 0;
    }
    GY_TRY(status);
    if (in->filled == 0) {
        return GY_DONE;
    }
    gy_parallel_for(in->run->engine, in->filled, 1, take_pieces, in);
    for (int64_t i = 0; i < in->filled; i++) {
        if (in->slots[i].error.status < 0) {
            return gy_error_raise(&in->slots[i].error);
        }
    }
    return GY_OK;
}

static gy_status next(void *arg, gy_frame **frame)
{
    pieces *in = arg;
    for (;;) {
        while (in->given < in->filled) {
            gy_frame *one = in->slots[in->given].frame;
            in->slots[in->given++].frame = NULL;
            if (gy_frame_rows(one) > 0) {
                *frame = one;
                return GY_OK;
            }
            gy_frame_drop(one);
        }
        const gy_status status = fill(in);
        if (status != GY_OK) {
            return status;
        }
    }
}

static void close_pieces(void *arg)
{
    pieces *in = arg;
    for (int64_t i = in->given; i < in->filled; i++) {
        gy_frame_drop(in->slots[i].frame);
        gy_frame_drop(in->slots[i].of);
    }
    if (in->rest.close != NULL) {
        in->rest.close(in->rest.arg);
    }
    for (int i = 0; i < in->step_count; i++) {
        gy_schema_drop(in->steps[i].schema);
    }
    gy_free(in->slots);
    gy_free(in);
}

static void drop_steps(const gy_query_step *steps, int count)
{
    for (int i = 0; i < count; i++) {
        gy_schema_drop(steps[i].schema);
    }
}

gy_status gy_query_frames_steps(gy_query_run *run, const gy_query_node *node,
                                const gy_query_step *steps, int count, gy_query_stream *stream)
{
    gy_schema *schema = NULL;
    const int64_t batch = 2 * (int64_t)gy_engine_workers(run->engine);
    pieces *in = gy_alloc_zero("query.pieces", 1, sizeof(*in));
    slot *slots = gy_alloc_zero("query.pieces", (size_t)batch, sizeof(*slots));
    gy_status status = in != NULL && slots != NULL ? GY_OK : GY_NOMEM;
    status = status == GY_OK
                 ? gy_query_schema_of(run->plan, node->columns, node->count, &schema)
                 : status;
    if (status != GY_OK) {
        drop_steps(steps, count);
        gy_free(slots);
        gy_free(in);
        return status;
    }
    *in =
        (pieces){.run = run, .node = node, .step_count = count, .slots = slots, .batch = batch};
    for (int i = 0; i < count; i++) {
        in->steps[i] = steps[i];
        if (steps[i].schema != NULL) {
            gy_schema_drop(schema);
            schema = gy_schema_hold(steps[i].schema);
        }
    }
    *stream = (gy_query_stream){.source = {.next = next, .close = close_pieces, .arg = in},
                                .schema = schema};
    return GY_OK;
}
