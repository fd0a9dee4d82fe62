/**
 * Gyre's side of the training-step benchmark: one model, one batch size, one thread.
 *
 * Usage: steps mlp|lenet BATCH [nodropout]. Reads a number of steps per line from standard
 * input, runs them, answers "CPU_SECONDS LOSS". Data and first weights follow the formulas of
 * torch_peer.py.
 */
#include "train/train_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* sin(0.7 i + 1) / sqrt(fan in); biases are zero already. */
static void set_weights(gy_model *model)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        if (strstr(model->slots[i].name, ".weight") == NULL) {
            continue;
        }
        gy_tensor *weight = gy_session_parameter(model->session, model->slots[i].name);
        int64_t count = gy_tensor_count(weight);
        bool is_filter = gy_tensor_rank(weight) == 4;
        int64_t outputs = gy_tensor_size(weight, is_filter ? 0 : 1);
        double fan_in = (double)(count / outputs);
        for (int64_t j = 0; j < count; j++) {
            gy_tensor_set(weight, j, sin(0.7 * (double)j + 1) / sqrt(fan_in));
        }
    }
}

static gy_status make_model(const char *name, bool has_dropout, gy_model **model)
{
    gy_model_options options = {
        .dtype = GY_F32, .input_rank = 3, .input_sizes = {1, 28, 28}, .workers = 1};
    GY_TRY(gy_model_named(name, &options, 10, model));
    for (int i = 0; !has_dropout && i < (*model)->layer_count; i++) {
        if ((*model)->layers[i].kind == GY_LAYER_DROPOUT) {
            (*model)->layers[i].rate = 0;
        }
    }
    gy_train_options training;
    GY_TRY(gy_train_defaults(&(gy_train_options){.epochs = 1, .batch = 1, .rate = 0.01},
                             &training));
    GY_TRY(gy_model_build(*model, &training));
    set_weights(*model);
    return GY_OK;
}

static gy_status serve(gy_model *model, int64_t batch)
{
    gy_batch rows;
    GY_TRY(gy_batch_new(model, batch, &rows));
    for (int64_t i = 0; i < batch * 784; i++) {
        gy_tensor_set(rows.x, i, sin(0.01 * (double)i) * 0.5 + 0.5);
    }
    for (int64_t i = 0; i < batch; i++) {
        gy_tensor_set(rows.labels, i, (double)(i % 10));
    }
    gy_tensor *rate = NULL;
    GY_TRY(gy_tensor_zeros(NULL, GY_F32, NULL, 0, &rate));
    gy_tensor_set(rate, 0, 0.01);
    gy_feed feeds[] = {
        {model->x, rows.x}, {model->labels, rows.labels}, {model->update.rate, rate}};
    gy_tensor *results[64] = {NULL};
    printf("ready gyre %s\n", gy_version());
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        long steps = strtol(line, NULL, 10);
        double begun = cpu_seconds();
        double loss = 0;
        for (long i = 0; i < steps; i++) {
            GY_TRY(gy_session_run(model->session, feeds, 3, batch, model->update.fetches,
                                  model->update.fetch_count, results));
            loss = gy_tensor_get(results[0], 0);
            gy_tensor_drop(results[0]);
        }
        printf("%.9f %.9g\n", cpu_seconds() - begun, loss);
        fflush(stdout);
    }
    gy_tensor_drop(rate);
    gy_batch_free(&rows);
    return GY_OK;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: steps mlp|lenet BATCH [nodropout]\n");
        return 2;
    }
    gy_model *model = NULL;
    gy_status status = make_model(argv[1], argc < 4, &model);
    if (status == GY_OK) {
        status = serve(model, strtoll(argv[2], NULL, 10));
    }
    gy_model_free(model);
    if (status < 0) {
        fprintf(stderr, "steps: %s\n", gy_error_text());
        return 1;
    }
    return 0;
}
