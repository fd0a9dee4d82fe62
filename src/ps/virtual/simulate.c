/*
 * Workers in virtual time. A worker whose pull is answered computes for a while that the seed
 * draws, pushes, ends its clock, and pulls again: D's loop. Events of one moment come in the
 * order of workers, so that a seed gives one history. The loss is that of all rows, looked at
 * whenever as many gradients have come as there are workers.
 *
 * @source Ho et al., NIPS 2013, section 5 (stragglers); Chen et al., 2016 (backup workers)
 */
#include "ps/virtual/simulate.h"
#include "codec/codec.h"
#include "ps/part/part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SLOW_WORKER = 4, SLOW_STEP = 10, CLIENT = 1 };
static const double slow_share = 0.05, jitter = 0.1, transfer_s = 0.02;

typedef struct virtual_worker {
    bool is_computing;
    double ends_s;  /* when what it computes is there */
    uint64_t clock; /* calls that it has made */
    uint64_t seen;  /* updates in what it has pulled */
    gy_random times, samples;
    double *w;        /* what it has pulled */
    double *residual; /* what its codec has lost */
} virtual_worker;

typedef struct scene {
    const gy_ps_simulation *options;
    const ps_sample_rows *data;
    gy_ps_part *part;
    virtual_worker *workers;
    size_t *order; /* rows, as workers share them out */
    double *gradient, *w;
    uint8_t *encoded; /* (result.push_bytes) */
    double now_s;
    uint64_t number;
    gy_ps_simulated result;
} scene;

/* ---- A worker ---- */

/* How long a step takes: 1 s and a tenth by chance, and what makes it a straggler. */
static double draw_step_s(const scene *s, uint32_t worker, gy_random *times)
{
    const double plain = 1 + jitter * (2 * gy_random_unit(times) - 1);
    const bool is_slow = gy_random_unit(times) < slow_share; /* drawn in any case */
    switch (s->options->stragglers) {
    case GY_PS_ONE_SLOW:
        return worker == 0 ? plain * SLOW_WORKER : plain;
    case GY_PS_SLOW_STEPS:
        return is_slow ? plain * SLOW_STEP : plain;
    case GY_PS_EVEN:
    case GY_PS_SKEWED:
    case GY_PS_STRAGGLERS:
        break;
    }
    return plain;
}

/* The worker has its parameters, and computes with them until ends_s. */
static gy_status begin_step(scene *s, uint32_t index)
{
    virtual_worker *worker = &s->workers[index];
    const gy_ps_rows all = {.first = 0, .count = 1};
    uint64_t updates = 0;
    GY_TRY(gy_ps_part_pull(s->part, &all, worker->w, &updates));
    worker->seen = updates;
    worker->is_computing = true;
    worker->ends_s = s->now_s + transfer_s + draw_step_s(s, index, &worker->times);
    return GY_OK;
}

static gy_status end_step(scene *s, uint32_t index)
{
    virtual_worker *worker = &s->workers[index];
    const gy_ps_simulation *o = s->options;
    const size_t rows = s->data->rows->rows;
    const size_t first = rows * index / o->workers, end = rows * (index + 1) / o->workers;
    gy_ps_outcome outcome = GY_PS_APPLIED;
    memset(s->gradient, 0, s->data->width * sizeof(double));
    for (uint32_t i = 0; i < o->batch; i++) {
        const size_t row = first + (size_t)gy_random_below(&worker->samples, end - first);
        gy_ps_logistic_add(s->data, worker->w, s->order[row], 1.0 / o->batch / o->workers,
                           s->gradient);
    }
    gy_codec_encode_fed(o->codec, GY_F64, s->gradient, s->data->width, worker->residual,
                        s->encoded);
    GY_TRY(gy_codec_decode(o->codec, GY_F64, s->encoded, s->result.push_bytes, s->gradient,
                           s->data->width));
    GY_TRY(gy_ps_part_push(s->part,
                           &(gy_ps_gradient){.worker = index,
                                             .client = CLIENT + index,
                                             .number = ++s->number,
                                             .clock = worker->clock,
                                             .seen = worker->seen,
                                             .rows = {.first = 0, .count = 1},
                                             .values = s->gradient},
                           &outcome));
    GY_TRY(gy_ps_part_clock(s->part, index, CLIENT + index, ++worker->clock));
    worker->is_computing = false;
    s->result.pushes++;
    s->result.dropped += outcome == GY_PS_DROPPED;
    return GY_OK;
}

/* ---- Time ---- */

static gy_status begin_ready(scene *s)
{
    for (uint32_t i = 0; i < s->options->workers; i++) {
        uint32_t behind = 0;
        if (!s->workers[i].is_computing &&
            gy_ps_part_is_ready(s->part, s->workers[i].clock, &behind)) {
            GY_TRY(begin_step(s, i));
        }
    }
    return GY_OK;
}

static uint32_t next_to_end(const scene *s)
{
    uint32_t next = UINT32_MAX;
    for (uint32_t i = 0; i < s->options->workers; i++) {
        const virtual_worker *at = &s->workers[i];
        if (at->is_computing && (next == UINT32_MAX || at->ends_s < s->workers[next].ends_s)) {
            next = i;
        }
    }
    return next;
}

static gy_status look(scene *s, bool *is_over)
{
    const gy_ps_rows all = {.first = 0, .count = 1};
    uint64_t updates = 0;
    GY_TRY(gy_ps_part_pull(s->part, &all, s->w, &updates));
    s->result.loss = gy_ps_logistic_loss(s->data, s->w);
    s->result.time_s = s->now_s;
    s->result.is_reached = s->result.loss <= s->options->target_loss;
    *is_over = s->result.is_reached || !isfinite(s->result.loss);
    return GY_OK;
}

static gy_status run(scene *s)
{
    const uint64_t rounds = s->options->clocks;
    const uint64_t workers = s->options->workers;
    bool is_over = false;
    while (!is_over && s->result.pushes < rounds * workers) {
        GY_TRY(begin_ready(s));
        const uint32_t next = next_to_end(s);
        GY_ASSERT(next != UINT32_MAX); /* whoever is furthest behind waits for nobody */
        s->now_s = s->workers[next].ends_s;
        GY_TRY(end_step(s, next));
        if (s->result.pushes % workers == 0) {
            GY_TRY(look(s, &is_over));
        }
    }
    return GY_OK;
}

/* ---- The whole ---- */

/* Even shards are of shuffled rows; skewed ones of rows by label. */
static void share_out(scene *s)
{
    const size_t rows = s->data->rows->rows;
    gy_random random = {.key = gy_hash("rows", 4, s->options->seed)};
    size_t used = 0;
    for (int label = 0; label < 2 && s->options->stragglers == GY_PS_SKEWED; label++) {
        for (size_t i = 0; i < rows; i++) {
            if (s->data->labels[i] == label) {
                s->order[used++] = i;
            }
        }
    }
    for (size_t i = 0; i < rows && s->options->stragglers != GY_PS_SKEWED; i++) {
        s->order[i] = i;
    }
    for (size_t i = rows; i > 1 && s->options->stragglers != GY_PS_SKEWED; i--) {
        const size_t other = (size_t)gy_random_below(&random, i);
        const size_t kept = s->order[i - 1];
        s->order[i - 1] = s->order[other];
        s->order[other] = kept;
    }
}

static gy_status open_part(scene *s)
{
    const gy_ps_simulation *o = s->options;
    const gy_ps_table_options table = GY_OPTIONS(
        gy_ps_table_options, .dtype = GY_F64, .rows = 1, .width = (uint32_t)s->data->width,
        .update = GY_PS_SGD, .rate = o->rate, .sync = o->sync);
    gy_ps_table_options judged;
    uint64_t clock = 0;
    GY_TRY(gy_ps_table_judge("simulated", &table, o->workers, &judged));
    GY_TRY(gy_ps_part_new(
        &(gy_ps_part_options){
            .name = "simulated", .table = judged, .parts = 1, .workers = o->workers},
        &s->part));
    for (uint32_t i = 0; i < o->workers; i++) {
        virtual_worker *worker = &s->workers[i];
        GY_TRY(gy_ps_part_join(s->part, i, CLIENT + i, &clock));
        worker->times.key = gy_hash(&i, sizeof(i), gy_hash("times", 5, o->seed));
        worker->samples.key = gy_hash(&i, sizeof(i), gy_hash("samples", 7, o->seed));
        worker->w = gy_alloc("ps.simulate", s->data->width * sizeof(double));
        worker->residual = gy_alloc_zero("ps.simulate", s->data->width, sizeof(double));
        if (worker->w == NULL || worker->residual == NULL) {
            return GY_NOMEM;
        }
    }
    return GY_OK;
}

static gy_status simulate(scene *s)
{
    const size_t width = s->data->width;
    s->workers = gy_alloc_zero("ps.simulate", s->options->workers, sizeof(*s->workers));
    s->order = gy_alloc("ps.simulate", s->data->rows->rows * sizeof(*s->order));
    s->gradient = gy_alloc("ps.simulate", width * sizeof(double));
    s->w = gy_alloc("ps.simulate", width * sizeof(double));
    s->result.push_bytes = gy_codec_bytes(s->options->codec, GY_F64, width);
    s->encoded = gy_alloc("ps.simulate", s->result.push_bytes + 1);
    if (s->encoded == NULL || s->workers == NULL || s->order == NULL || s->gradient == NULL ||
        s->w == NULL) {
        return GY_NOMEM;
    }
    share_out(s);
    GY_TRY(open_part(s));
    return run(s);
}

static gy_status judge(const gy_libsvm *rows, const gy_ps_simulation *options,
                       gy_ps_simulation *o)
{
    GY_TRY(gy_options_take(gy_ps_simulation, o, options));
    o->workers = o->workers == 0 ? 16 : o->workers;
    o->batch = o->batch == 0 ? 16 : o->batch;
    o->clocks = o->clocks == 0 ? 1000 : o->clocks;
    o->rate = o->rate == 0 ? 0.5 : o->rate;
    if (o->workers > GY_PS_WORKERS_MAX || rows->rows < o->workers) {
        return gy_fail(GY_ARG,
                       "simulation: %u workers of %zu rows: expected 1 to %d, and a row "
                       "for each",
                       o->workers, rows->rows, GY_PS_WORKERS_MAX);
    }
    GY_TRY(gy_codec_check(o->codec));
    if (o->stragglers >= GY_PS_STRAGGLERS || !(o->rate > 0 && o->rate < INFINITY)) {
        return gy_fail(GY_ARG,
                       "simulation: stragglers %d at rate %g: expected one of enum "
                       "gy_ps_stragglers and a rate above 0",
                       (int)o->stragglers, o->rate);
    }
    return rows->features < GY_PS_WIDTH_MAX
               ? GY_OK
               : gy_fail(GY_LIMIT, "simulation: %llu features, expected fewer than %d",
                         (unsigned long long)rows->features, GY_PS_WIDTH_MAX);
}

/* The smaller of two labels is 0. */
static gy_status number_labels(const gy_libsvm *rows, uint8_t *labels)
{
    double low = rows->labels[0], high = low;
    for (size_t i = 0; i < rows->rows; i++) {
        low = GY_MIN(low, rows->labels[i]);
        high = GY_MAX(high, rows->labels[i]);
    }
    for (size_t i = 0; i < rows->rows; i++) {
        if (low == high || (rows->labels[i] != low && rows->labels[i] != high)) {
            return gy_fail(GY_ARG,
                           "simulation: row %zu has label %g: expected two labels in all",
                           i + 1, rows->labels[i]);
        }
        labels[i] = rows->labels[i] == high;
    }
    return GY_OK;
}

gy_status gy_ps_simulate(const gy_libsvm *rows, const gy_ps_simulation *options,
                         gy_ps_simulated *result)
{
    gy_ps_simulation o;
    GY_TRY(judge(rows, options, &o));
    ps_sample_rows data = {.rows = rows, .width = (size_t)rows->features + 1};
    data.labels = gy_alloc("ps.simulate", rows->rows);
    if (data.labels == NULL) {
        return GY_NOMEM;
    }
    scene s = {.options = &o, .data = &data};
    gy_status status = number_labels(rows, data.labels);
    status = status == GY_OK ? simulate(&s) : status;
    for (uint32_t i = 0; s.workers != NULL && i < o.workers; i++) {
        gy_free(s.workers[i].w);
        gy_free(s.workers[i].residual);
    }
    gy_ps_part_free(s.part);
    gy_free(s.workers);
    gy_free(s.order);
    gy_free(s.gradient);
    gy_free(s.w);
    gy_free(s.encoded);
    gy_free(data.labels);
    GY_TRY(status);
    s.result.struct_size = sizeof(s.result);
    *result = s.result;
    return GY_OK;
}
