/*
 * Joins by several workers: gy_parallel_join. The table is built by rows.h; here the probing
 * side is read in waves of pieces, each of which has a prober of its own. Workers run probers
 * until each gave all of its rows or as many frames as it may keep; what they gave comes out in
 * the order of the pieces. A piece is a part of a frame whatever its keys, so that a frequent
 * key is everyone's work; where rows have many matches pieces are smaller.
 */
#include "query/parallel/parallel_priv.h"

enum {
    PIECES_A_WORKER = 8,
    PIECE_ROWS = GY_ROWS_FRAME / 2,
    FRAMES_KEPT = 8, /* of a prober */
};

/* What a frame of the join is thought to take, when memory is bound. */
#define FRAME_BYTES (UINT64_C(1) << 20)

typedef struct prober {
    gy_rows_matcher *matcher;
    gy_rows_list given;
    size_t at; /* the next one that is given on */
    bool is_done;
} prober;

typedef struct probers {
    gy_rows_matcher *table;
    gy_frame_source probe;
    gy_engine *engine;
    gy_parallel_waves waves;
    prober *probers;         /* (count) */
    int64_t count, used, at; /* of this wave; the one that gives */
    size_t frames_kept;
    int64_t rows_in, rows_out;
} probers;

/* ---- a wave ---- */

static gy_status run_prober(void *arg, int64_t index)
{
    probers *it = arg;
    prober *in = &it->probers[it->at + index];
    while (!in->is_done && in->given.count - in->at < it->frames_kept) {
        gy_frame *frame = NULL;
        const gy_status status = gy_rows_matcher_more(in->matcher, &frame);
        if (status == GY_DONE) {
            in->is_done = true;
            break;
        }
        GY_TRY(status);
        GY_TRY(gy_rows_list_add(&in->given, frame));
    }
    return GY_OK;
}

/* So few rows a piece that its matches, as many as rows had so far, are some frames. */
static int64_t piece_rows(const probers *it)
{
    const int64_t most = (int64_t)it->frames_kept * GY_ROWS_FRAME / 2;
    const int64_t matches = it->rows_out / GY_MAX(it->rows_in, INT64_C(1)) + 1;
    return GY_MAX(GY_MIN(most / matches, (int64_t)PIECE_ROWS), INT64_C(1));
}

/* Read pieces and give them to probers. GY_DONE: there are none. */
static gy_status begin_wave(probers *it)
{
    it->waves.piece_rows = piece_rows(it);
    GY_TRY(gy_parallel_waves_next(&it->waves));
    gy_rows_list *list = &it->waves.list;
    it->used = (int64_t)list->count;
    it->at = 0;
    GY_ASSERT(it->used <= it->count);
    for (int64_t i = 0; i < it->used; i++) {
        it->rows_in += gy_frame_rows(list->frames[i]);
        gy_rows_matcher_see(it->table, list->frames[i]);
        gy_rows_matcher_probe(it->probers[i].matcher, list->frames[i]);
        list->frames[i] = NULL;
        it->probers[i].is_done = false;
    }
    return it->used == 0 ? GY_DONE : GY_OK;
}

/* The next frame that a prober keeps. GY_DONE: the one that is next keeps none, but goes on;
 * or the wave is over. */
static gy_status give(probers *it, gy_frame **frame)
{
    for (; it->at < it->used; it->at++) {
        prober *in = &it->probers[it->at];
        if (in->at < in->given.count) {
            *frame = in->given.frames[in->at];
            in->given.frames[in->at++] = NULL;
            it->rows_out += gy_frame_rows(*frame);
            return GY_OK;
        }
        gy_rows_list_free(&in->given);
        in->at = 0;
        if (!in->is_done) {
            break;
        }
    }
    return GY_DONE;
}

static gy_status probers_next(void *arg, gy_frame **frame)
{
    probers *it = arg;
    for (;;) {
        gy_status status = give(it, frame);
        if (status != GY_DONE) {
            return status;
        }
        if (it->at == it->used) {
            status = begin_wave(it);
            if (status == GY_DONE) {
                return gy_rows_matcher_built(it->table, frame);
            }
            GY_TRY(status);
        }
        GY_TRY(gy_rows_each(it->engine, it->used - it->at, run_prober, it));
    }
}

/* ---- making ---- */

static void probers_close(void *arg)
{
    probers *it = arg;
    gy_parallel_waves_fini(&it->waves);
    for (int64_t i = 0; i < it->count; i++) {
        gy_rows_matcher_free(it->probers[i].matcher);
        gy_rows_list_free(&it->probers[i].given);
    }
    gy_free(it->probers);
    gy_free(it);
}

static gy_status init(probers *it)
{
    it->probers = gy_alloc_zero("query.probers", (size_t)it->count, sizeof(*it->probers));
    if (it->probers == NULL) {
        it->count = 0;
        return GY_NOMEM;
    }
    for (int64_t i = 0; i < it->count; i++) {
        GY_TRY(gy_rows_matcher_share(it->table, &it->probers[i].matcher));
    }
    return GY_OK;
}

static gy_status open_probers(gy_rows_matcher *matcher, const gy_frame_source *probe,
                              const gy_rows_limits *limits, gy_frame_source *out)
{
    probers *it = gy_alloc_zero("query.probers", 1, sizeof(*it));
    if (it == NULL) {
        return GY_NOMEM;
    }
    const uint64_t bound = limits->memory_bytes;
    it->table = matcher;
    it->probe = *probe;
    it->engine = limits->engine;
    it->count = (int64_t)PIECES_A_WORKER * gy_parallel_workers(limits);
    it->frames_kept = FRAMES_KEPT;
    if (bound != 0) { /* an eighth of it */
        const uint64_t frames = bound / 8 / FRAME_BYTES;
        it->frames_kept = 1;
        it->count = GY_MAX(GY_MIN(it->count, (int64_t)frames), INT64_C(1));
    }
    it->waves = (gy_parallel_waves){.in = &it->probe,
                                    .env = limits->env,
                                    .rows = INT64_MAX,
                                    .bytes = bound == 0 ? UINT64_MAX : bound / 16,
                                    .pieces = (size_t)it->count};
    const gy_status status = init(it);
    if (status < 0) {
        probers_close(it);
        return status;
    }
    *out = (gy_frame_source){.next = probers_next, .close = probers_close, .arg = it};
    return GY_OK;
}

gy_status gy_parallel_join(gy_rows_side left, gy_rows_side right,
                           const gy_rows_match_options *options, gy_frame_source *out,
                           gy_schema **schema)
{
    const gy_rows_side sides[2] = {left, right};
    const bool is_alone = gy_parallel_workers(&options->limits) == 1;
    return gy_rows_join_probed(sides, options, is_alone ? NULL : open_probers, out, schema);
}
