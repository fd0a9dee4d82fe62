/**
 * The models that Gyre knows by name: lists of layers, and functions; and how they are trained
 * by default. docs/decisions/011-training.md has the figures that chose these values.
 */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <string.h>

#define LOGISTIC "logistic"

/* Logits (batch, 2) of 0 and x w + b: their cross entropy is that of logistic regression, which
 * has one weight a feature where two classes of softmax have two. */
static gy_status logistic_build(void *arg, gy_model_builder *builder, gy_node x,
                                gy_node *logits)
{
    const gy_type *type = gy_graph_type(x.graph, (gy_value){x.index, x.output});
    (void)arg;
    if (type->rank != 2) {
        return gy_fail(GY_SHAPE, "model logistic: samples have %d dimensions, expected 1",
                       type->rank - 1);
    }
    const gy_node w = gy_model_parameter(builder, "weight", (int64_t[]){type->sizes[1], 1}, 2,
                                         gy_init_zeros());
    const gy_node b = gy_model_parameter(builder, "bias", (int64_t[]){1}, 1, gy_init_zeros());
    *logits = gy_op_pad(gy_op_add(gy_op_matmul(x, w), b), 1, 1, 0);
    return GY_OK;
}

gy_model_function gy_train_function_named(const char *name)
{
    static const struct {
        const char *name;
        gy_model_function build;
    } known[] = {{GY_GPT_MODEL, gy_train_gpt_build},
                 {GY_LSTM_MODEL, gy_train_lstm_build},
                 {LOGISTIC, logistic_build}};
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i].build;
        }
    }
    return NULL;
}

gy_status gy_model_named(const char *name, const gy_model_options *options, int classes,
                         gy_model **model)
{
    const gy_layer softmax[] = {gy_layer_flatten(), gy_layer_dense(classes)};
    const gy_layer mlp[] = {gy_layer_flatten(),  gy_layer_dense(512), gy_layer_relu(),
                            gy_layer_dense(512), gy_layer_relu(),     gy_layer_dense(classes)};
    const gy_layer lenet[] = {
        gy_layer_conv2d(32, 5, 2), gy_layer_relu(),         gy_layer_max_pool(2),
        gy_layer_conv2d(64, 5, 2), gy_layer_relu(),         gy_layer_max_pool(2),
        gy_layer_flatten(),        gy_layer_dense(512),     gy_layer_relu(),
        gy_layer_dropout(0.5),     gy_layer_dense(classes),
    };
    const struct {
        const char *name;
        const gy_layer *layers;
        size_t count;
    } known[] = {{"softmax", softmax, GY_COUNT(softmax)},
                 {"mlp", mlp, GY_COUNT(mlp)},
                 {"lenet", lenet, GY_COUNT(lenet)}};
    if (classes < 1) {
        return gy_fail(GY_ARG, "model %s: %d classes, expected at least 1", name, classes);
    }
    if (strcmp(name, LOGISTIC) == 0) {
        gy_model_options o;
        GY_TRY(gy_options_take(gy_model_options, &o, options));
        if (classes != 2) {
            return gy_fail(GY_ARG, "model logistic: %d classes, expected 2", classes);
        }
        o.name = name;
        o.build = logistic_build;
        o.layers = NULL;
        o.layer_count = 0;
        return gy_model_new(&o, model);
    }
    for (size_t i = 0; i < GY_COUNT(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            gy_model_options o;
            GY_TRY(gy_options_take(gy_model_options, &o, options));
            o.name = name;
            o.layers = known[i].layers;
            o.layer_count = (int)known[i].count;
            return gy_model_new(&o, model);
        }
    }
    return gy_fail(GY_NOTFOUND, "no model '%s': there are softmax, mlp, lenet and logistic",
                   name);
}

bool gy_train_takes_tokens(const gy_model *model, int64_t *length)
{
    *length = model->input_sizes[0];
    return model->input_dtype == GY_I32 && model->input_rank == 1 && model->label_rank == 1 &&
           model->label_sizes[0] == *length;
}

/* ---- recipes ---- */

static const gy_train_options recipes[] = {
    {.epochs = 10, .batch = 64, .optimizer = GY_OPTIMIZER_ADAM, .rate = 5e-3},
    {.epochs = 10, .batch = 64, .optimizer = GY_OPTIMIZER_ADAM, .rate = 2e-3},
    {.epochs = 10, .batch = 64, .optimizer = GY_OPTIMIZER_ADAM, .rate = 1e-3},
    {.steps = 2000,
     .batch = 12,
     .optimizer = GY_OPTIMIZER_ADAMW,
     .rate = 3e-3,
     .beta2 = 0.99,
     .weight_decay = 0.1,
     .weight_decay_rank_min = 2,
     .warmup_steps = 100,
     .clip_norm = 1},
    {.epochs = 5, .batch = 64, .optimizer = GY_OPTIMIZER_ADAM, .rate = 5e-3},
    {.steps = 2000, .batch = 32, .optimizer = GY_OPTIMIZER_ADAM, .rate = 2e-3, .clip_norm = 1},
};
static const char *const models[GY_COUNT(recipes)] = {"softmax",    "mlp",      "lenet",
                                                      GY_GPT_MODEL, "logistic", GY_LSTM_MODEL};

gy_train_options gy_train_recipe(const char *model)
{
    gy_train_options options = {
        .epochs = 10, .batch = 128, .optimizer = GY_OPTIMIZER_ADAM, .rate = 1e-3};
    for (size_t i = 0; i < GY_COUNT(recipes); i++) {
        if (strcmp(models[i], model) == 0) {
            options = recipes[i];
        }
    }
    options.struct_size = sizeof(options);
    options.schedule = GY_SCHEDULE_COSINE;
    options.seed = 1;
    return options;
}
