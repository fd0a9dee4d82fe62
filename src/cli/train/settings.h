/** What the options of `gyre train` say. */
#ifndef GY_CLI_TRAIN_SETTINGS_H
#define GY_CLI_TRAIN_SETTINGS_H

#include "cli/options.h"
#include "cli/train/pipe.h"
#include "cli/train/text.h"
#include "cli/train/update.h"

#define OPTIMIZERS "sgd|momentum|nesterov|adam|adamw"
#define SCHEDULES  "constant|step|cosine|linear"
#define RECOMPUTES "none|layers|auto"

enum { GY_CLI_EPOCHS_MAX = 1000 };

/** Zero members were not given, but for those that have another default (train.c). */
typedef struct gy_cli_train_settings {
    gy_option_list data;
    long long ranks, workers, epochs, steps, batch, accumulate, seed, patience,
        checkpoint_every, steps_max;
    long long zero, memory, loss_scale;
    long long warmup;
    gy_cli_text text;
    double rate, momentum, weight_decay, clip, factor;
    const char *output, *optimizer, *schedule, *dtype, *checkpoints, *overlap, *mesh;
    const char *precision, *exchange, *recompute, *update, *key, *simulate, *cluster, *device;
    gy_cli_pipe pipe;
    gy_option_list pins;
    bool is_plaintext, resume, explain, stats, quiet;
    gy_cli_pins read_pins; /* of `pins`, by the checks */
} gy_cli_train_settings;

#endif
