/**
 * Gyre's side of the training-step benchmarks: one model, one batch size, one thread a rank.
 *
 * Usage: steps mlp|lenet|gpt BATCH [nodropout] [bf16|f16] [wall] [layers=N] [width=N] [heads=N]
 * [context=N]. Reads a number of steps per line from standard input, runs them, answers
 * "CPU_SECONDS LOSS", and as rank 0 of several, started by `gyre run`, "WALL_SECONDS LOSS
 * EXPOSED_SECONDS": the batch is then that of all ranks. Data and first weights follow the
 * formulas of torch_peer.py. The GPT has 4 layers of width 256, 4 heads, windows of 128 of
 * 1,024 tokens unless told otherwise, and is updated by Adam. With wall (on a device, which
 * GYRE_DEVICE chooses) seconds are those of a clock, all cores work, and the answer ends with
 * how many nodes of the last program run on the device.
 */
#include "graph/session.h"
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

enum { VOCABULARY = 1024 };
/* As the arguments have them. */
static int context = 128;
static gy_gpt_options gpt = {.layers = 4, .width = 256, .heads = 4};
static bool has_wall;
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

static gy_status make_gpt(gy_dtype precision, gy_comm *comm, gy_model **model)
{
    const gy_model_options options = {.dtype = GY_F32,
                                      .input_sizes = {context},
                                      .class_count = VOCABULARY,
                                      .comm = comm,
                                      .workers = has_wall ? 0 : 1};
    gy_train_options training;
    GY_TRY(gy_gpt_new(&gpt, &options, model));
    GY_TRY(gy_train_defaults(&(gy_train_options){.epochs = 1,
                                                 .batch = 1,
                                                 .precision = precision,
                                                 .optimizer = GY_OPTIMIZER_ADAM,
                                                 .beta1 = beta1,
                                                 .beta2 = beta2},
                             &training));
    GY_TRY(gy_model_build(*model, &training));
    set_matrices(*model);
    return GY_OK;
}

static gy_status make_model(const char *name, bool has_dropout, gy_dtype precision,
                            gy_comm *comm, gy_model **model)
{
    gy_model_options options = {.dtype = GY_F32,
                                .input_rank = 3,
                                .input_sizes = {1, 28, 28},
                                .comm = comm,
                                .workers = has_wall ? 0 : 1};
    if (strcmp(name, "gpt") == 0) {
        return make_gpt(precision, comm, model);
    }
    GY_TRY(gy_model_named(name, &options, 10, model));
    for (int i = 0; !has_dropout && i < (*model)->layer_count; i++) {
        if ((*model)->layers[i].kind == GY_LAYER_DROPOUT) {
            (*model)->layers[i].rate = 0;
        }
    }
    gy_train_options training;
    GY_TRY(gy_train_defaults(
        &(gy_train_options){.epochs = 1, .batch = 1, .rate = 0.01, .precision = precision},
        &training));
    GY_TRY(gy_model_build(*model, &training));
    set_weights(*model);
    return GY_OK;
}

/* The rows of a batch from row `first` on. */
static void fill(const gy_batch *rows, int64_t first, bool is_text)
{
    const int64_t count = rows->rows > 0 ? gy_tensor_count(rows->x) : 0;
    const int64_t labels = rows->rows > 0 ? gy_tensor_count(rows->labels) : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i + first * (count / rows->rows);
        gy_tensor_set(rows->x, i,
                      is_text ? (double)(at * 7919 % VOCABULARY)
                              : sin(0.01 * (double)at) * 0.5 + 0.5);
    }
    for (int64_t i = 0; i < labels; i++) {
        const int64_t at = i + first * (labels / rows->rows);
        gy_tensor_set(rows->labels, i,
                      (double)(is_text ? (at + 1) * 7919 % VOCABULARY : at % 10));
    }
}

/* One update; `step` counts from 1. */
static gy_status run_step(gy_model *model, int64_t batch, const gy_batch *rows,
                          gy_tensor *scalars[2], int64_t step, double *loss)
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
                                                        batch, model->update.fetches,
                                                        model->update.fetch_count, results);
    if (status == GY_OK) {
        *loss = gy_tensor_get(results[0], 0);
        gy_tensor_drop(results[0]);
    }
    gy_free(results);
    return status;
}

/* Until the first rank has said how many steps: the others sleep meanwhile, for the peer of
 * the comparison runs on their cores. */
static gy_status hear(gy_comm *comm, int64_t *steps)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    gy_request *request = NULL;
    const gy_coll_call call = gy_broadcast_call(steps, 1, GY_I64, 0);
    GY_TRY(gy_request_begin(comm, &call, &request));
    gy_status status = gy_request_test(request);
    while (status == GY_AGAIN) {
        nanosleep(&pause, NULL);
        status = gy_request_test(request);
    }
    gy_request_free(request);
    return status < 0 ? status : gy_barrier(comm);
}

/* Steps that the next line asks for. 0: the end. */
static gy_status next_steps(gy_comm *comm, int64_t *steps)
{
    char line[64];
    *steps = 0;
    if (gy_comm_rank(comm) == 0 && fgets(line, sizeof(line), stdin) != NULL) {
        *steps = strtol(line, NULL, 10);
    }
    return gy_comm_size(comm) > 1 ? hear(comm, steps) : GY_OK;
}

static double wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void answer(gy_comm *comm, double cpu_s, double wall_s, double loss, double exposed_s)
{
    if (gy_comm_size(comm) == 1 && !has_wall) {
        printf("%.9f %.9g\n", cpu_s, loss);
    } else if (gy_comm_size(comm) > 1 && gy_comm_rank(comm) == 0) {
        printf("%.9f %.9g %.9f\n", wall_s, loss, exposed_s);
    }
    fflush(stdout);
}

/* Nodes of the last program that run on the device. */
static int nodes_there(const gy_session *session)
{
    int there = 0;
    const gy_graph *graph = session->program_count > 0
                                ? session->programs[session->program_count - 1]->graph
                                : NULL;
    for (int32_t n = 0; graph != NULL && n < graph->node_count; n++) {
        there += graph->nodes[n].is_on_device;
    }
    return there;
}

static gy_status run_all(gy_model *model, gy_comm *comm, int64_t batch, const gy_batch *rows,
                         gy_tensor *scalars[2])
{
    int64_t step = 0, steps = 0;
    GY_TRY(next_steps(comm, &steps));
    while (steps > 0) {
        const double cpu_begun = cpu_seconds(), wall_begun = wall_seconds();
        const gy_session_stats before = gy_session_statistics(model->session);
        double loss = 0;
        for (int64_t i = 0; i < steps; i++) {
            GY_TRY(run_step(model, batch, rows, scalars, ++step, &loss));
        }
        const gy_session_stats after = gy_session_statistics(model->session);
        const double cpu_s = cpu_seconds() - cpu_begun, wall_s = wall_seconds() - wall_begun;
        answer(comm, cpu_s, wall_s, loss,
               after.exposed_communication_s - before.exposed_communication_s);
        if (gy_comm_size(comm) == 1 && has_wall) {
            printf("%.9f %.9g %d\n", wall_s, loss, nodes_there(model->session));
            fflush(stdout);
        }
        GY_TRY(next_steps(comm, &steps));
    }
    return GY_OK;
}

static gy_status serve(gy_model *model, gy_comm *comm, int64_t batch, bool is_text)
{
    gy_batch rows;
    gy_tensor *scalars[2] = {NULL, NULL};
    int64_t first = 0, last = 0;
    gy_model_part(model, batch, &first, &last);
    GY_TRY(gy_batch_new(model, last - first, &rows));
    fill(&rows, first, is_text);
    for (int i = 0; i < 2; i++) {
        GY_TRY(gy_tensor_zeros(NULL, GY_F32, NULL, 0, &scalars[i]));
    }
    if (gy_comm_rank(comm) == 0) {
        printf("ready gyre %s\n", gy_version());
        fflush(stdout);
    }
    GY_TRY(run_all(model, comm, batch, &rows, scalars));
    gy_tensor_drop(scalars[0]);
    gy_tensor_drop(scalars[1]);
    gy_batch_free(&rows);
    return GY_OK;
}

static bool has_flag(char **flags, const char *name)
{
    while (*flags != NULL && strcmp(*flags, name) != 0) {
        flags++;
    }
    return *flags != NULL;
}

/* A size of the GPT, if it is among the flags. */
static void take_size(char **flags, const char *name, int *size)
{
    const size_t length = strlen(name);
    for (; *flags != NULL; flags++) {
        if (strncmp(*flags, name, length) == 0 && (*flags)[length] == '=') {
            *size = (int)strtol(*flags + length + 1, NULL, 10);
        }
    }
}

static void take_sizes(char **flags)
{
    take_size(flags, "layers", &gpt.layers);
    take_size(flags, "width", &gpt.width);
    take_size(flags, "heads", &gpt.heads);
    take_size(flags, "context", &context);
}

static gy_status run(char **argv)
{
    has_wall = has_flag(argv + 3, "wall");
    take_sizes(argv + 3);
    const gy_dtype precision = has_flag(argv + 3, "bf16")  ? GY_BF16
                               : has_flag(argv + 3, "f16") ? GY_F16
                                                           : GY_F32;
    gy_comm *comm = NULL;
    gy_model *model = NULL;
    GY_TRY(gy_comm_world(&comm));
    GY_TRY(make_model(argv[1], !has_flag(argv + 3, "nodropout"), precision,
                      gy_comm_size(comm) > 1 ? comm : NULL, &model));
    const gy_status status =
        serve(model, comm, strtoll(argv[2], NULL, 10), strcmp(argv[1], "gpt") == 0);
    gy_model_free(model);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: steps mlp|lenet|gpt BATCH [nodropout] [bf16|f16] [wall] "
                        "[layers=N] [width=N] [heads=N] [context=N]\n");
        return 2;
    }
    if (run(argv) < 0) {
        fprintf(stderr, "steps: %s\n", gy_error_text());
        return 1;
    }
    gy_comm_world_close();
    return 0;
}
