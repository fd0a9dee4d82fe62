/*
 * Goal: a parameter server's updates have the bits of gy_train's: the training's own update, as
 * the compiler fuses it, beside a part of a table that gets the same gradients.
 */
#include "ps/part/part.h"
#include "train/train_priv.h"

#include <math.h>
#include <string.h>

#include "graph_kit.h"
#include "gy_test.h"

enum { VALUES = 1003, STEPS = 12 };

typedef struct scene {
    gy_model model;
    gy_node x;
    gy_session *session;
    gy_ps_part *part;
    gy_ps_table_options table;
    gy_train_options options;
} scene;

/* A model whose gradient is what is fed: the loss is the sum of w x. */
static void open_training(scene *at)
{
    const int64_t sizes[] = {VALUES};
    gy_model *model = &at->model;
    model->graph = kit_graph();
    model->dtype = at->table.dtype;
    gy_node w = gy_model_slot(model, "w", sizes, 1, gy_init_zeros(), GY_SLOT_PARAMETER);
    at->x = gy_graph_input(model->graph, "x", model->dtype, sizes, 1);
    model->train_loss = gy_op_sum(gy_op_mul(w, at->x), 0, false);
    assert_ok(gy_update_build(model, &at->options));
    assert_ok(gy_session_new(model->graph, NULL, &at->session));
}

static void open_part(scene *at)
{
    uint64_t clock = 0;
    gy_ps_table_options judged;
    assert_ok(gy_ps_table_judge("w", &at->table, 1, &judged));
    assert_ok(gy_ps_part_new(
        &(gy_ps_part_options){.name = "w", .table = judged, .parts = 1, .workers = 1},
        &at->part));
    assert_ok(gy_ps_part_join(at->part, 0, 1, &clock));
}

static gy_tensor *scalar(gy_dtype dtype, double value)
{
    gy_tensor *made = NULL;
    assert_ok(gy_tensor_zeros(NULL, dtype, NULL, 0, &made));
    gy_tensor_set(made, 0, value);
    return made;
}

/* What train/loop.c feeds at a step. */
static void train_step(scene *at, int step, gy_tensor *gradient)
{
    const gy_train_options *o = &at->options;
    const gy_update *u = &at->model.update;
    bool is_adam = o->optimizer == GY_OPTIMIZER_ADAM || o->optimizer == GY_OPTIMIZER_ADAMW;
    double rate = is_adam ? o->rate / (1 - pow(o->beta1, step + 1)) : o->rate;
    double correction = 1 / sqrt(1 - pow(o->beta2, step + 1));
    gy_tensor *scalars[] = {scalar(at->table.dtype, rate), scalar(at->table.dtype, correction),
                            scalar(at->table.dtype, o->rate)};
    gy_tensor *results[8] = {NULL};
    gy_feed feeds[4] = {{at->x, gradient}, {u->rate, scalars[0]}};
    int count = 2;
    if (u->correction.index != u->rate.index) {
        feeds[count++] = (gy_feed){u->correction, scalars[1]};
    }
    if (u->plain_rate.index != u->rate.index) {
        feeds[count++] = (gy_feed){u->plain_rate, scalars[2]};
    }
    assert_ok(
        gy_session_run(at->session, feeds, count, 1, u->fetches, u->fetch_count, results));
    for (int i = 0; i < u->fetch_count; i++) {
        gy_tensor_drop(results[i]);
    }
    for (size_t i = 0; i < GY_COUNT(scalars); i++) {
        gy_tensor_drop(scalars[i]);
    }
}

static void push_step(const scene *at, int step, const void *gradient)
{
    gy_ps_outcome outcome;
    assert_ok(gy_ps_part_push(at->part,
                              &(gy_ps_gradient){.client = 1,
                                                .number = (uint64_t)step + 1,
                                                .clock = (uint64_t)step,
                                                .rows = {.count = VALUES},
                                                .values = gradient},
                              &outcome));
    assert_ok(gy_ps_part_clock(at->part, 0, 1, (uint64_t)step + 1));
}

static void compare(const scene *at)
{
    static double rows[VALUES];
    uint64_t updates = 0;
    gy_tensor *w = gy_session_parameter(at->session, "w");
    assert_ok(gy_ps_part_pull(at->part, &(gy_ps_rows){.count = VALUES}, rows, &updates));
    for (int i = 0; i < VALUES; i++) {
        double value = at->table.dtype == GY_F32 ? (double)((float *)(void *)rows)[i] : rows[i];
        if (value != gy_tensor_get(w, i)) {
            fail_msg("value %d after %d updates is %.17g, in training %.17g (optimizer %d)", i,
                     (int)updates, value, gy_tensor_get(w, i), (int)at->options.optimizer);
        }
    }
}

static void train_both(uint64_t seed, gy_dtype dtype, gy_optimizer_kind optimizer,
                       gy_ps_update update, double decay)
{
    scene at = {.table = {.dtype = dtype,
                          .rows = VALUES,
                          .update = update,
                          .rate = 0.03,
                          .weight_decay = decay}};
    gy_random random = {.key = seed};
    static double values[VALUES];
    assert_ok(gy_train_defaults(
        &(gy_train_options){.optimizer = optimizer, .rate = 0.03, .weight_decay = decay},
        &at.options));
    open_training(&at);
    open_part(&at);
    for (int step = 0; step < STEPS; step++) {
        gy_tensor *gradient = NULL;
        assert_ok(gy_tensor_zeros(NULL, dtype, (int64_t[]){VALUES}, 1, &gradient));
        for (int i = 0; i < VALUES; i++) {
            double value = gy_random_normal(&random);
            gy_tensor_set(gradient, i, value);
            if (dtype == GY_F32) {
                ((float *)(void *)values)[i] = (float)value;
            } else {
                values[i] = value;
            }
        }
        train_step(&at, step, gradient);
        push_step(&at, step, values);
        compare(&at);
        gy_tensor_drop(gradient);
    }
    gy_ps_part_free(at.part);
    gy_session_free(at.session);
    gy_graph_free(at.model.graph);
    gy_free(at.model.slots);
    gy_free(at.model.update.fetches);
    gy_free(at.model.update.gather_fetches);
}

GY_TEST(updates_have_the_bits_of_training)
{
    static const struct {
        gy_optimizer_kind optimizer;
        gy_ps_update update;
    } pairs[] = {{GY_OPTIMIZER_SGD, GY_PS_SGD},
                 {GY_OPTIMIZER_MOMENTUM, GY_PS_MOMENTUM},
                 {GY_OPTIMIZER_NESTEROV, GY_PS_NESTEROV},
                 {GY_OPTIMIZER_ADAM, GY_PS_ADAM},
                 {GY_OPTIMIZER_ADAMW, GY_PS_ADAMW}};
    uint64_t seed = gy_test_seed();
    for (size_t i = 0; i < GY_COUNT(pairs); i++) {
        for (int k = 0; k < 4; k++) {
            train_both(seed, k % 2 == 0 ? GY_F32 : GY_F64, pairs[i].optimizer, pairs[i].update,
                       k < 2 ? 0 : 0.01);
        }
    }
}

GY_TEST_MAIN(NULL, NULL)
