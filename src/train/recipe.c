/**
 * How the known models are trained by default. docs/decisions/011-training.md has the figures
 * that chose these values.
 */
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <string.h>

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
};
static const char *const models[GY_COUNT(recipes)] = {"softmax", "mlp", "lenet", GY_GPT_MODEL,
                                                      "logistic"};

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
