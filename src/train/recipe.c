/**
 * How the known models are trained by default. docs/decisions/011-training.md has the figures
 * that chose these values.
 */
#include "train/train_priv.h"

#include <string.h>

static const struct {
    const char *model;
    int64_t batch;
    double rate;
} recipes[] = {
    {"softmax", 64, 5e-3},
    {"mlp", 64, 2e-3},
    {"lenet", 64, 1e-3},
};

gy_train_options gy_train_recipe(const char *model)
{
    gy_train_options options = {
        .struct_size = sizeof(options),
        .epochs = 10,
        .batch = 128,
        .optimizer = GY_OPTIMIZER_ADAM,
        .rate = 1e-3,
        .schedule = GY_SCHEDULE_COSINE,
        .seed = 1,
    };
    for (size_t i = 0; i < GY_COUNT(recipes); i++) {
        if (strcmp(recipes[i].model, model) == 0) {
            options.batch = recipes[i].batch;
            options.rate = recipes[i].rate;
        }
    }
    return options;
}
