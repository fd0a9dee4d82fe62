/**
 * Gyre's side of the training-step benchmark: one model, one batch size, one thread.
 *
 * Usage: steps mlp|lenet|gpt BATCH [nodropout]. Reads a number of steps per line from standard
 * input, runs them, answers "CPU_SECONDS LOSS". Data and first weights follow the formulas of
 * torch_peer.py. The GPT has 4 layers of width 256, 4 heads, windows of 128 of 1,024 tokens and
 * is updated by Adam.
 */
#include "train/train_priv.h"

#include <gyre/gpt.h>

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

enum { LENGTH = 128, VOCABULARY = 1024 };
static const double adam_rate = 1e-3, beta1 = 0.9, beta2 = 0.999;

/* What the matrices of a GPT begin with: 0.04 (frac(j * 2654435761 / 2^32) - 1/2). */
static void set_matrices(gy_model *model)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        const gy_train_slot *slot = &model->slots[i];
        gy_tensor *weight = gy_session_parameter(model->session, slot->name);
        if (slot->kind != GY_SLOT_PARAMETER || gy_tensor_rank(weight) != 2) {
            continue;
        }
        for (int64_t j = 0; j < gy_tensor_count(weight); j++) {
            const double turn = (double)((uint32_t)j * 2654435761u) / 4294967296.0;
            gy_tensor_set(weight, j, 0.04 * (turn - 0.5));
        }
    }
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

static gy_status make_gpt(gy_model **model)
{
    const gy_model_options options = {
        .dtype = GY_F32, .input_sizes = {LENGTH}, .class_count = VOCABULARY, .workers = 1};
    const gy_gpt_options gpt = {.layers = 4, .width = 256, .heads = 4};
    gy_train_options training;
    GY_TRY(gy_gpt_new(&gpt, &options, model));
    GY_TRY(gy_train_defaults(&(gy_train_options){.epochs = 1,
                                                 .batch = 1,
                                                 .optimizer = GY_OPTIMIZER_ADAM,
                                                 .beta1 = beta1,
                                                 .beta2 = beta2},
                             &training));
    GY_TRY(gy_model_build(*model, &training));
    set_matrices(*model);
    return GY_OK;
}

static gy_status make_model(const char *name, bool has_dropout, gy_model **model)
{
    gy_model_options options = {
        .dtype = GY_F32, .input_rank = 3, .input_sizes = {1, 28, 28}, .workers = 1};
    if (strcmp(name, "gpt") == 0) {
        return make_gpt(model);
    }
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

static void fill(const gy_batch *rows, bool is_text)
{
    for (int64_t i = 0; i < gy_tensor_count(rows->x); i++) {
        gy_tensor_set(rows->x, i,
                      is_text ? (double)(i * 7919 % VOCABULARY)
                              : sin(0.01 * (double)i) * 0.5 + 0.5);
    }
    for (int64_t i = 0; i < gy_tensor_count(rows->labels); i++) {
        gy_tensor_set(rows->labels, i,
                      (double)(is_text ? (i + 1) * 7919 % VOCABULARY : i % 10));
    }
}

/* One update; `step` counts from 1. */
static gy_status run_step(gy_model *model, const gy_batch *rows, gy_tensor *scalars[2],
                          int64_t step, double *loss)
{
    gy_feed feeds[4] = {{model->x, rows->x},
                        {model->labels, rows->labels},
                        {model->update.rate, scalars[0]},
                        {model->update.correction, scalars[1]}};
    gy_tensor **results =
        gy_alloc_zero("bench", (size_t)model->update.fetch_count, sizeof(gy_tensor *));
    const bool is_adam = model->update.correction.index != model->update.rate.index;
    gy_tensor_set(scalars[0], 0, is_adam ? adam_rate / (1 - pow(beta1, (double)step)) : 0.01);
    gy_tensor_set(scalars[1], 0, 1 / sqrt(1 - pow(beta2, (double)step)));
    gy_status status = results == NULL ? GY_NOMEM
                                       : gy_session_run(model->session, feeds, is_adam ? 4 : 3,
                                                        rows->rows, model->update.fetches,
                                                        model->update.fetch_count, results);
    if (status == GY_OK) {
        *loss = gy_tensor_get(results[0], 0);
        gy_tensor_drop(results[0]);
    }
    gy_free(results);
    return status;
}

static gy_status serve(gy_model *model, int64_t batch, bool is_text)
{
    gy_batch rows;
    gy_tensor *scalars[2] = {NULL, NULL};
    GY_TRY(gy_batch_new(model, batch, &rows));
    fill(&rows, is_text);
    for (int i = 0; i < 2; i++) {
        GY_TRY(gy_tensor_zeros(NULL, GY_F32, NULL, 0, &scalars[i]));
    }
    printf("ready gyre %s\n", gy_version());
    fflush(stdout);
    char line[64];
    int64_t step = 0;
    while (fgets(line, sizeof(line), stdin) != NULL) {
        long steps = strtol(line, NULL, 10);
        double begun = cpu_seconds();
        double loss = 0;
        for (long i = 0; i < steps; i++) {
            GY_TRY(run_step(model, &rows, scalars, ++step, &loss));
        }
        printf("%.9f %.9g\n", cpu_seconds() - begun, loss);
        fflush(stdout);
    }
    gy_tensor_drop(scalars[0]);
    gy_tensor_drop(scalars[1]);
    gy_batch_free(&rows);
    return GY_OK;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: steps mlp|lenet|gpt BATCH [nodropout]\n");
        return 2;
    }
    gy_model *model = NULL;
    gy_status status = make_model(argv[1], argc < 4, &model);
    if (status == GY_OK) {
        status = serve(model, strtoll(argv[2], NULL, 10), strcmp(argv[1], "gpt") == 0);
    }
    gy_model_free(model);
    if (status < 0) {
        fprintf(stderr, "steps: %s\n", gy_error_text());
        return 1;
    }
    return 0;
}
