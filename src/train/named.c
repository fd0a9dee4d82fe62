/**
 * The models that Gyre knows by name: lists of layers, and functions.
 */
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <string.h>

gy_model_function gy_train_function_named(const char *name)
{
    static const struct {
        const char *name;
        gy_model_function build;
    } known[] = {{GY_GPT_MODEL, gy_train_gpt_build}};
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
    return gy_fail(GY_NOTFOUND, "no model '%s': there are softmax, mlp and lenet", name);
}

bool gy_train_takes_tokens(const gy_model *model, int64_t *length)
{
    *length = model->input_sizes[0];
    return model->input_dtype == GY_I32 && model->input_rank == 1 && model->label_rank == 1 &&
           model->label_sizes[0] == *length;
}
