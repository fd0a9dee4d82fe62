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
    const gy_ps_simulated_model *model;
    size_t rows; /* of the table */
    gy_ps_part *part;
    virtual_worker *workers;
    size_t *order;   /* samples, as workers share them out */
    size_t *samples; /* (batch) of a step */
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
    const gy_ps_rows all = {.first = 0, .count = s->rows};
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
    const size_t all = s->model->samples;
    const size_t first = all * index / o->workers, end = all * (index + 1) / o->workers;
    gy_ps_outcome outcome = GY_PS_APPLIED;
    memset(s->gradient, 0, s->model->width * sizeof(double));
    for (uint32_t i = 0; i < o->batch; i++) {
        s->samples[i] =
            s->order[first + (size_t)gy_random_below(&worker->samples, end - first)];
    }
    GY_TRY(s->model->gradient(s->model->arg, worker->w, s->samples, o->batch,
                              1.0 / o->batch / o->workers, s->gradient));
    gy_codec_encode_fed(o->codec, GY_F64, s->gradient, s->model->width, worker->residual,
                        s->encoded);
    GY_TRY(gy_codec_decode(o->codec, GY_F64, s->encoded, s->result.push_bytes, s->gradient,
                           s->model->width));
    GY_TRY(gy_ps_part_push(s->part,
                           &(gy_ps_gradient){.worker = index,
                                             .client = CLIENT + index,
                                             .number = ++s->number,
                                             .clock = worker->clock,
                                             .seen = worker->seen,
                                             .rows = {.first = 0, .count = s->rows},
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
    const gy_ps_rows all = {.first = 0, .count = s->rows};
    uint64_t updates = 0;
    GY_TRY(gy_ps_part_pull(s->part, &all, s->w, &updates));
    GY_TRY(s->model->loss(s->model->arg, s->w, &s->result.loss));
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

/* Even shards are of shuffled samples; skewed ones of samples by label. */
static void share_out(scene *s)
{
    const size_t all = s->model->samples;
    gy_random random = {.key = gy_hash("rows", 4, s->options->seed)};
    const bool is_skewed = s->options->stragglers == GY_PS_SKEWED;
    size_t used = 0;
    for (uint32_t label = 0; label < s->model->labels && is_skewed; label++) {
        for (size_t i = 0; i < all; i++) {
            if (s->model->label(s->model->arg, i) == label) {
                s->order[used++] = i;
            }
        }
    }
    for (size_t i = 0; i < all && !is_skewed; i++) {
        s->order[i] = i;
    }
    for (size_t i = all; i > 1 && !is_skewed; i--) {
        const size_t other = (size_t)gy_random_below(&random, i);
        const size_t kept = s->order[i - 1];
        s->order[i - 1] = s->order[other];
        s->order[other] = kept;
    }
}

/* Parameters in as few rows as a table takes. */
static size_t count_rows(size_t width)
{
    size_t rows = 1;
    while (width % rows != 0 || width / rows > GY_PS_WIDTH_MAX) {
        rows++;
    }
    return rows;
}

static gy_status open_part(scene *s)
{
    const gy_ps_simulation *o = s->options;
    const gy_ps_table_options table =
        GY_OPTIONS(gy_ps_table_options, .dtype = GY_F64, .rows = s->rows,
                   .width = (uint32_t)(s->model->width / s->rows), .update = GY_PS_SGD,
                   .rate = o->rate, .sync = o->sync);
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
        worker->w = gy_alloc("ps.simulate", s->model->width * sizeof(double));
        worker->residual = gy_alloc_zero("ps.simulate", s->model->width, sizeof(double));
        if (worker->w == NULL || worker->residual == NULL) {
            return GY_NOMEM;
        }
    }
    if (s->model->begin != NULL) {
        const gy_ps_rows all = {.first = 0, .count = s->rows};
        memset(s->w, 0, s->model->width * sizeof(double));
        s->model->begin(s->model->arg, s->w);
        GY_TRY(gy_ps_part_put(s->part, &all, s->w, 0));
    }
    return GY_OK;
}

static gy_status simulate(scene *s)
{
    const size_t width = s->model->width;
    s->workers = gy_alloc_zero("ps.simulate", s->options->workers, sizeof(*s->workers));
    s->order = gy_alloc("ps.simulate", s->model->samples * sizeof(*s->order));
    s->samples = gy_alloc("ps.simulate", s->options->batch * sizeof(*s->samples));
    s->gradient = gy_alloc("ps.simulate", width * sizeof(double));
    s->w = gy_alloc("ps.simulate", width * sizeof(double));
    s->result.push_bytes = gy_codec_bytes(s->options->codec, GY_F64, width);
    s->encoded = gy_alloc("ps.simulate", s->result.push_bytes + 1);
    if (s->encoded == NULL || s->workers == NULL || s->order == NULL || s->gradient == NULL ||
        s->w == NULL || s->samples == NULL) {
        return GY_NOMEM;
    }
    share_out(s);
    GY_TRY(open_part(s));
    return run(s);
}

static gy_status judge(const gy_ps_simulated_model *model, const gy_ps_simulation *options,
                       gy_ps_simulation *o)
{
    GY_TRY(gy_options_take(gy_ps_simulation, o, options));
    o->workers = o->workers == 0 ? 16 : o->workers;
    o->batch = o->batch == 0 ? 16 : o->batch;
    o->clocks = o->clocks == 0 ? 1000 : o->clocks;
    o->rate = o->rate == 0 ? 0.5 : o->rate;
    if (o->workers > GY_PS_WORKERS_MAX || model->samples < o->workers) {
        return gy_fail(GY_ARG,
                       "simulation: %u workers of %zu rows: expected 1 to %d, and a row "
                       "for each",
                       o->workers, model->samples, GY_PS_WORKERS_MAX);
    }
    GY_TRY(gy_codec_check(o->codec));
    if (o->stragglers >= GY_PS_STRAGGLERS || !(o->rate > 0 && o->rate < INFINITY)) {
        return gy_fail(GY_ARG,
                       "simulation: stragglers %d at rate %g: expected one of enum "
                       "gy_ps_stragglers and a rate above 0",
                       (int)o->stragglers, o->rate);
    }
    if (o->stragglers == GY_PS_SKEWED && model->labels == 0) {
        return gy_fail(GY_ARG, "simulation: samples without labels cannot be skewed by them");
    }
    return model->width > 0 && model->width < UINT32_MAX
               ? GY_OK
               : gy_fail(GY_LIMIT, "simulation: %zu parameters, expected 1 to 2^32 - 2",
                         model->width);
}

gy_status gy_ps_simulate_model(const gy_ps_simulated_model *model,
                               const gy_ps_simulation *options, gy_ps_simulated *result)
{
    gy_ps_simulation o;
    gy_ps_simulated_model taken;
    GY_TRY(gy_options_take(gy_ps_simulated_model, &taken, model));
    GY_TRY(judge(&taken, options, &o));
    scene s = {.options = &o, .model = &taken, .rows = count_rows(taken.width)};
    gy_status status = simulate(&s);
    for (uint32_t i = 0; s.workers != NULL && i < o.workers; i++) {
        gy_free(s.workers[i].w);
        gy_free(s.workers[i].residual);
    }
    gy_ps_part_free(s.part);
    gy_free(s.workers);
    gy_free(s.order);
    gy_free(s.samples);
    gy_free(s.gradient);
    gy_free(s.w);
    gy_free(s.encoded);
    GY_TRY(status);
    s.result.struct_size = sizeof(s.result);
    *result = s.result;
    return GY_OK;
}
