/**
 * Updates as nodes of the graph: the compiler fuses each into one pass over parameter, gradient
 * and state.
 *
 *   sgd       w -= r g
 *   momentum  v = m v + g;  w -= r v
 *   nesterov  v = m v + g;  w -= r (g + m v)
 *   adam      a = b1 a + (1-b1) g;  s = b2 s + (1-b2) g²
 *             w -= r/(1-b1^t) a / (sqrt(s / (1-b2^t)) + e)
 *   adamw     the same, and w -= r d w before it
 *
 * The rate and the corrections by t are scalars that the loop feeds, so that one program serves
 * all steps.
 *
 * @source Sutskever et al., ICML 2013; Kingma & Ba, ICLR 2015; Loshchilov & Hutter, ICLR 2019
 */
#include "base/text.h"
#include "graph/graph.h"
#include "tensor/tensor.h"
#include "train/train_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of the loss, for f16: powers of two, so that scaling rounds nothing that f32 holds. The first
 * and the steps to the next are those of Micikevicius et al., ICLR 2018, in common use. */
#define LOSS_SCALE_FIRST 0x1p16
#define LOSS_SCALE_MIN   0x1p-24
#define LOSS_SCALE_MAX   0x1p24
#define LOSS_SCALE_STEPS 2000

gy_status gy_train_defaults(const gy_train_options *options, gy_train_options *filled)
{
    gy_train_options o;
    GY_TRY(gy_options_take(gy_train_options, &o, options));
    bool is_adam = o.optimizer == GY_OPTIMIZER_ADAM || o.optimizer == GY_OPTIMIZER_ADAMW;
    o.rate = o.rate == 0 ? (is_adam ? 1e-3 : 1e-2) : o.rate;
    o.momentum = o.momentum == 0 ? 0.9 : o.momentum;
    o.beta1 = o.beta1 == 0 ? 0.9 : o.beta1;
    o.beta2 = o.beta2 == 0 ? 0.999 : o.beta2;
    o.epsilon = o.epsilon == 0 ? 1e-8 : o.epsilon;
    o.schedule_factor = o.schedule_factor == 0 ? 0.1 : o.schedule_factor;
    o.schedule_every = o.schedule_every == 0 ? 1 : o.schedule_every;
    o.accumulate = o.accumulate == 0 ? 1 : o.accumulate;
    *filled = o;
    return GY_OK;
}

static bool is_scale(double value)
{
    return value >= LOSS_SCALE_MIN && value <= LOSS_SCALE_MAX;
}

/* By a power of two gradients are scaled, and scaled back, without rounding. */
static bool is_exact(double value)
{
    int exponent = 0;
    return frexp(value, &exponent) == 0.5;
}

gy_status gy_train_precision_check(const gy_model *model, const gy_train_options *o)
{
    const bool is_known = o->precision == GY_BF16 || o->precision == GY_F16;
    if (gy_train_is_narrow(o) && (!is_known || model->dtype != GY_F32)) {
        return gy_fail(
            GY_ARG, "training: precision %s of a model of %s, expected %s",
            gy_dtype_is_element(o->precision) ? gy_dtype_name(o->precision) : "of no type",
            gy_dtype_name(model->dtype), model->dtype == GY_F32 ? "f32, bf16 or f16" : "none");
    }
    const bool is_f16 = o->precision == GY_F16;
    if (o->loss_scale != 0 && !(is_f16 && is_scale(o->loss_scale) && is_exact(o->loss_scale))) {
        return gy_fail(GY_ARG, "training: loss scale %.12g of precision %s, expected %s",
                       o->loss_scale, is_f16 ? "f16" : "other than f16",
                       is_f16 ? "0 (65536) or a power of two up to 16777216" : "none");
    }
    if (o->exchange != GY_DTYPE_NONE && o->exchange != GY_F32 &&
        (o->exchange != GY_BF16 || model->dtype != GY_F32 || o->servers != NULL)) {
        return gy_fail(
            GY_ARG,
            "training: exchange of gradients of %s in %s%s, expected f32, or bf16 of "
            "a model of f32 without parameter servers (which have a codec)",
            gy_dtype_name(model->dtype),
            gy_dtype_is_element(o->exchange) ? gy_dtype_name(o->exchange) : "no type",
            o->servers != NULL ? " with parameter servers" : "");
    }
    if (o->precision == GY_F16 && o->servers != NULL) {
        return gy_fail(GY_ARG, "training: precision f16 by parameter servers, which know no "
                               "loss scale: expected f32 or bf16");
    }
    return GY_OK;
}

static gy_node scaled(gy_model *model, gy_node value, double by)
{
    return gy_op_mul(value, gy_graph_scalar(model->graph, model->dtype, by));
}

/* State of a parameter, zero at first. */
static gy_node state_of(gy_model *model, const gy_train_slot *slot, const char *what)
{
    char name[GY_TRAIN_NAME_BYTES];
    gy_print(name, sizeof(name), "%s/%s", slot->name, what);
    const gy_type *type =
        gy_graph_type(model->graph, (gy_value){slot->node.index, slot->node.output});
    return gy_model_slot(model, name, type->sizes, type->rank, gy_init_zeros(), GY_SLOT_STATE);
}

/* ---- loss scaling: gradients of `scale` times the loss, so that f16 holds small ones ---- */

/* What an update writes; nothing where the gradients are not finite. */
static gy_node assign(gy_model *model, gy_node kept, gy_node value)
{
    const gy_node is_finite = model->update.is_finite;
    return gy_op_assign(kept,
                        is_finite.graph == NULL ? value : gy_op_select(is_finite, value, kept));
}

static gy_node scale_slot(gy_model *model, const char *name, double first)
{
    const gy_init init = {GY_INIT_CONSTANT, first, NULL};
    return gy_model_slot(model, name, NULL, 0, init, GY_SLOT_STATE);
}

/* Gradients of an update's scaled losses as those of the losses; are they finite? The largest
 * element is a number below infinity then: NaN passes through maxima. */
static void unscale(gy_model *model, gy_node *gradients, size_t count)
{
    gy_node most = gy_graph_scalar(model->graph, model->dtype, 0);
    for (size_t i = 0; i < count; i++) {
        gradients[i] = gy_op_div(gradients[i], model->update.scale);
        most = gy_op_maximum(most, gy_op_max(gy_op_abs(gradients[i]), 0, false));
    }
    model->update.is_finite =
        gy_op_less(most, gy_graph_scalar(model->graph, model->dtype, INFINITY));
}

/* Half after a step that is skipped, twice after LOSS_SCALE_STEPS that are not. */
static void move_scale(gy_model *model)
{
    gy_update *u = &model->update;
    const gy_node zero = gy_graph_scalar(model->graph, model->dtype, 0);
    const gy_node one = gy_graph_scalar(model->graph, model->dtype, 1);
    const gy_node good = scale_slot(model, GY_TRAIN_SCALE "/good", 0);
    const gy_node skipped = scale_slot(model, GY_TRAIN_SCALE "/skipped", 0);
    const gy_node next = gy_op_add(good, one);
    const gy_node grows = gy_op_greater_equal(
        next, gy_graph_scalar(model->graph, model->dtype, LOSS_SCALE_STEPS));
    const gy_node larger =
        gy_op_minimum(scaled(model, u->scale, 2),
                      gy_graph_scalar(model->graph, model->dtype, LOSS_SCALE_MAX));
    const gy_node values[3] = {
        gy_op_select(u->is_finite, gy_op_select(grows, larger, u->scale),
                     scaled(model, u->scale, 0.5)),
        gy_op_select(u->is_finite, gy_op_select(grows, zero, next), zero),
        gy_op_add(skipped, gy_op_select(u->is_finite, zero, one))};
    u->fetches[u->fetch_count++] = gy_op_assign(u->scale, values[0]);
    u->fetches[u->fetch_count++] = gy_op_assign(good, values[1]);
    u->fetches[u->fetch_count++] = gy_op_assign(skipped, values[2]);
}

static gy_status scalar_of(gy_model *model, const char *name, double *value)
{
    gy_tensor *tensor = NULL;
    GY_TRY(gy_session_gather(model->session, name, &tensor));
    *value = gy_tensor_get(tensor, 0);
    gy_tensor_drop(tensor);
    return GY_OK;
}

gy_status gy_train_scale_kept(const gy_bundle *bundle, const gy_train_options *o, double *scale)
{
    size_t index = 0;
    float value = 0;
    if (o->precision != GY_F16 || !gy_bundle_index(bundle, GY_TRAIN_SCALE, &index)) {
        return GY_OK; /* what lacks is looked for with all state */
    }
    const gy_view shape = gy_bundle_shape(bundle, index);
    if (shape.dtype != GY_F32 || gy_view_count(&shape) != 1) {
        return GY_OK;
    }
    const gy_box all = gy_box_whole(&shape);
    GY_TRY(gy_bundle_read_box(bundle, index, &all, 0, 1, &value));
    *scale = (double)value;
    return is_scale((double)value)
               ? GY_OK
               : gy_fail(GY_FORMAT, "the loss scale is %g, expected %g to %g", (double)value,
                         LOSS_SCALE_MIN, LOSS_SCALE_MAX);
}

gy_status gy_train_scale_check(gy_model *model, const gy_train_options *o,
                               gy_train_result *result)
{
    double skipped = 0;
    if (o->precision != GY_F16) {
        return GY_OK;
    }
    GY_TRY(scalar_of(model, GY_TRAIN_SCALE, &result->loss_scale));
    GY_TRY(scalar_of(model, GY_TRAIN_SCALE "/skipped", &skipped));
    result->skipped_steps = (int64_t)skipped;
    if (!is_scale(result->loss_scale)) {
        return gy_fail(GY_NUMERIC,
                       "the loss scale is %g after %lld skipped steps, expected %g to %g: "
                       "gradients are not finite at any: try a lower rate, or bf16",
                       result->loss_scale, (long long)result->skipped_steps, LOSS_SCALE_MIN,
                       LOSS_SCALE_MAX);
    }
    return GY_OK;
}

/* Assignments of one parameter's update, written to fetches; returns how many. */
static int update_one(gy_model *model, const gy_train_options *o, gy_train_slot slot,
                      gy_node gradient, gy_node *fetches)
{
    gy_node w = slot.node;
    gy_node rate = model->update.rate;
    const gy_type *type = gy_graph_type(model->graph, (gy_value){w.index, w.output});
    const bool decays = o->weight_decay > 0 && type->rank >= o->weight_decay_rank_min;
    if (decays && o->optimizer != GY_OPTIMIZER_ADAMW) {
        gradient = gy_op_add(gradient, scaled(model, w, o->weight_decay));
    }
    if (o->optimizer == GY_OPTIMIZER_SGD) {
        fetches[0] = assign(model, w, gy_op_sub(w, gy_op_mul(gradient, rate)));
        return 1;
    }
    if (o->optimizer == GY_OPTIMIZER_MOMENTUM || o->optimizer == GY_OPTIMIZER_NESTEROV) {
        gy_node velocity = state_of(model, &slot, "velocity");
        gy_node next = gy_op_add(scaled(model, velocity, o->momentum), gradient);
        gy_node step = o->optimizer == GY_OPTIMIZER_MOMENTUM
                           ? next
                           : gy_op_add(gradient, scaled(model, next, o->momentum));
        fetches[0] = assign(model, w, gy_op_sub(w, gy_op_mul(step, rate)));
        fetches[1] = assign(model, velocity, next);
        return 2;
    }
    gy_node mean = state_of(model, &slot, "mean");
    gy_node square = state_of(model, &slot, "square");
    gy_node next_mean =
        gy_op_add(scaled(model, mean, o->beta1), scaled(model, gradient, 1 - o->beta1));
    gy_node next_square = gy_op_add(scaled(model, square, o->beta2),
                                    scaled(model, gy_op_mul(gradient, gradient), 1 - o->beta2));
    gy_node below = gy_op_add(gy_op_mul(gy_op_sqrt(next_square), model->update.correction),
                              gy_graph_scalar(model->graph, model->dtype, o->epsilon));
    gy_node from = w;
    if (o->optimizer == GY_OPTIMIZER_ADAMW && decays) {
        from = gy_op_sub(
            w, gy_op_mul(scaled(model, w, o->weight_decay), model->update.plain_rate));
    }
    fetches[0] =
        assign(model, w, gy_op_sub(from, gy_op_div(gy_op_mul(next_mean, rate), below)));
    fetches[1] = assign(model, mean, next_mean);
    fetches[2] = assign(model, square, next_square);
    return 3;
}

/* Scale all gradients so that their common norm is at most `limit`. */
static void clip(gy_model *model, double limit, gy_node *gradients, size_t count)
{
    gy_node total = gy_graph_scalar(model->graph, model->dtype, 0);
    for (size_t i = 0; i < count; i++) {
        total = gy_op_add(total, gy_op_sum(gy_op_mul(gradients[i], gradients[i]), 0, false));
    }
    gy_node one = gy_graph_scalar(model->graph, model->dtype, 1);
    gy_node norm =
        gy_op_add(gy_op_sqrt(total), gy_graph_scalar(model->graph, model->dtype, 1e-6));
    gy_node scale =
        gy_op_minimum(one, gy_op_div(gy_graph_scalar(model->graph, model->dtype, limit), norm));
    for (size_t i = 0; i < count; i++) {
        gradients[i] = gy_op_mul(gradients[i], scale);
    }
}

/* Sums over several batches, each weighed by its share of the update's rows, so that the
 * update is that of one large batch: what a batch adds, and what the last one makes of it. Of
 * micro-batches all add, and the update is a run of its own, which has no batch. */
static void accumulate(gy_model *model, const gy_train_slot *slots, size_t count,
                       bool has_micros, gy_node *gradients)
{
    gy_update *update = &model->update;
    update->share = gy_graph_input(model->graph, "share", model->dtype, NULL, 0);
    update->gather_fetches[update->gather_count++] = model->train_loss;
    for (size_t i = 0; i < count; i++) {
        gy_node sum = state_of(model, &slots[i], GY_TRAIN_SUM);
        gradients[i] = gy_op_add(sum, gy_op_mul(gradients[i], update->share));
        update->gather_fetches[update->gather_count++] = gy_op_assign(sum, gradients[i]);
        gy_node zero = gy_op_mul(sum, gy_graph_scalar(model->graph, model->dtype, 0));
        if (update->scale.graph != NULL) { /* 0 times infinity is none */
            zero = gy_op_select(gy_op_equal(zero, zero), zero,
                                gy_graph_scalar(model->graph, model->dtype, 0));
        }
        update->fetches[update->fetch_count++] = gy_op_assign(sum, zero);
        gradients[i] = has_micros ? sum : gradients[i];
    }
}

int gy_train_served_count(gy_optimizer_kind optimizer)
{
    return optimizer == GY_OPTIMIZER_SGD                                              ? 0
           : optimizer == GY_OPTIMIZER_MOMENTUM || optimizer == GY_OPTIMIZER_NESTEROV ? 1
                                                                                      : 2;
}

void gy_train_served_name(int piece, char name[GY_TRAIN_SERVED_BYTES])
{
    snprintf(name, GY_TRAIN_SERVED_BYTES, GY_TRAIN_SERVED "%d", piece);
}

/* State of workers that no node reads: what codecs lose, and what worker 0 takes of the
 * servers' for checkpoints. */
static void add_kept(gy_model *model, const gy_train_options *o, const gy_train_slot *slot)
{
    const bool has_served = o->checkpoint_folder != NULL && o->servers->worker == 0;
    if (o->servers->codec.kind != GY_CODEC_NONE) {
        (void)state_of(model, slot, GY_TRAIN_RESIDUAL);
    }
    for (int i = 1; has_served && i <= gy_train_served_count(o->optimizer); i++) {
        char name[GY_TRAIN_SERVED_BYTES];
        gy_train_served_name(i, name);
        (void)state_of(model, slot, name);
    }
}

/* What a worker computes: gradients to push, weighed by its share of the batch. Where several
 * batches lie between two exchanges, the gradients are summed and its own parameters follow
 * each of them: gather_fetches are of these batches, fetches of the last one. */
static void push(gy_model *model, const gy_train_options *o, const gy_train_slot *slots,
                 size_t count, gy_node *gradients)
{
    gy_update *update = &model->update;
    update->share = gy_graph_input(model->graph, "share", model->dtype, NULL, 0);
    update->gather_fetches[update->gather_count++] = model->train_loss;
    for (size_t i = 0; i < count; i++) {
        gradients[i] = gy_op_mul(gradients[i], update->share);
        add_kept(model, o, &slots[i]);
    }
    if (o->servers->fetch <= 1) {
        memcpy(update->fetches + 1, gradients, count * sizeof(*gradients));
        update->fetch_count += (int)count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        gy_node sum = state_of(model, &slots[i], GY_TRAIN_SUM);
        gy_node total = gy_op_add(sum, gradients[i]);
        gy_node zero = gy_op_mul(sum, gy_graph_scalar(model->graph, model->dtype, 0));
        update->gather_fetches[update->gather_count++] = gy_op_assign(sum, total);
        update->gather_count += update_one(model, o, slots[i], gradients[i],
                                           &update->gather_fetches[update->gather_count]);
        update->fetches[1 + i] = total;
        update->fetches[1 + count + i] = gy_op_assign(sum, zero);
    }
    update->fetch_count += (int)(2 * count);
}

/* Of the loss, or of the scaled loss. */
static gy_status find_gradients(gy_model *model, const gy_train_options *o, const gy_node *wrt,
                                size_t count, gy_node *gradients)
{
    gy_update *update = &model->update;
    gy_node loss = model->train_loss;
    if (o->precision == GY_F16) {
        update->scale = scale_slot(model, GY_TRAIN_SCALE,
                                   o->loss_scale > 0 ? o->loss_scale : LOSS_SCALE_FIRST);
        loss = gy_op_mul(loss, update->scale);
    }
    return gy_op_gradients(loss, wrt, (int)count, gradients);
}

static gy_status build(gy_model *model, const gy_train_options *o, const gy_train_slot *slots,
                       size_t count, gy_node *gradients)
{
    gy_update *update = &model->update;
    gy_node *wrt = gy_alloc_zero("train.update", count, sizeof(*wrt));
    if (wrt == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        wrt[i] = slots[i].node;
    }
    gy_status status = find_gradients(model, o, wrt, count, gradients);
    gy_free(wrt);
    GY_TRY(status);
    update->rate = gy_graph_input(model->graph, "rate", model->dtype, NULL, 0);
    update->correction = update->rate;
    update->plain_rate = update->rate;
    update->share = update->rate;
    if (o->optimizer == GY_OPTIMIZER_ADAM || o->optimizer == GY_OPTIMIZER_ADAMW) {
        update->correction = gy_graph_input(model->graph, "correction", model->dtype, NULL, 0);
    }
    if (o->optimizer == GY_OPTIMIZER_ADAMW && o->weight_decay > 0) {
        update->plain_rate = gy_graph_input(model->graph, "plain_rate", model->dtype, NULL, 0);
    }
    if (o->micro_batches == 0) {
        update->fetches[update->fetch_count++] = model->train_loss;
    }
    if (o->accumulate > 1 || o->micro_batches > 0) {
        accumulate(model, slots, count, o->micro_batches > 0, gradients);
    }
    for (size_t i = 0; i < count && o->exchange == GY_BF16; i++) {
        gradients[i] = gy_graph_exchange_as(gradients[i], o->exchange);
    }
    if (o->precision == GY_F16) {
        unscale(model, gradients, count);
    }
    if (o->clip_norm > 0) {
        clip(model, o->clip_norm, gradients, count);
    }
    if (o->servers != NULL) {
        push(model, o, slots, count, gradients);
    }
    for (size_t i = 0; i < count && o->servers == NULL; i++) {
        update->fetch_count +=
            update_one(model, o, slots[i], gradients[i], &update->fetches[update->fetch_count]);
    }
    if (o->precision == GY_F16) {
        move_scale(model);
    }
    GY_TRY(model->slot_status);
    return gy_graph_status(model->graph);
}

/* Of every batch, whether it updates or not: running statistics. */
static void add_statistics(gy_model *model, bool has_micros)
{
    gy_update *update = &model->update;
    for (size_t i = 0; i < model->statistic_count; i++) {
        if (!has_micros) {
            update->fetches[update->fetch_count++] = model->statistics[i];
        }
        update->gather_fetches[update->gather_count++] = model->statistics[i];
    }
}

gy_status gy_update_build(gy_model *model, const gy_train_options *options)
{
    /* State is appended to the model's slots meanwhile, so the parameters are copied first. */
    const size_t all = model->slot_count;
    const size_t more = model->statistic_count + 1 + 3; /* the loss, the state of its scale */
    gy_train_slot *slots = gy_alloc_zero("train.update", all, sizeof(*slots));
    gy_node *gradients = gy_alloc_zero("train.update", all, sizeof(*gradients));
    model->update.fetches =
        gy_alloc_zero("train.update", 4 * all + more, sizeof(*model->update.fetches));
    model->update.gather_fetches =
        gy_alloc_zero("train.update", 4 * all + more, sizeof(*model->update.gather_fetches));
    gy_status status = GY_NOMEM;
    if (slots != NULL && gradients != NULL && model->update.fetches != NULL &&
        model->update.gather_fetches != NULL) {
        size_t count = 0;
        for (size_t i = 0; i < all; i++) {
            if (model->slots[i].kind == GY_SLOT_PARAMETER) {
                slots[count++] = model->slots[i];
            }
        }
        status = count > 0 ? build(model, options, slots, count, gradients)
                           : gy_fail(GY_ARG, "training: model %s has no parameter to train%s",
                                     model->name, all > 0 ? ": all are frozen" : "");
    }
    if (status == GY_OK) {
        add_statistics(model, options->micro_batches > 0);
        status = gy_train_pin_slots(model, options);
    }
    gy_free(slots);
    gy_free(gradients);
    return status;
}
