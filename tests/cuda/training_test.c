/*
 * Goal: a training on a device has the losses, test results and parameters of one on the CPU:
 * softmax, a network of dense layers, LeNet and a GPT. A device that is not there is named, and
 * the model stays what it was.
 */
#include "graph/session.h"
#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>

#include "letters_kit.h"
#include "training_kit.h"

enum { STEPS = 4, SIDE = 12, LETTERS = 20, LENGTH = 16 };

typedef enum model_kind { SOFTMAX, MLP, LENET, GPT, KINDS } model_kind;

static const char *const kind_names[KINDS] = {"softmax", "mlp", "lenet", "gpt"};

static gy_model *new_model(model_kind kind)
{
    static const char *const letters[LETTERS] = {"a", "b", "c", "d", "e", "f", "g",
                                                 "h", "i", "j", "k", "l", "m", "n",
                                                 "o", "p", "q", "r", "s", "t"};
    const gy_layer softmax[] = {gy_layer_flatten(), gy_layer_dense(KIT_CLASSES)};
    const gy_layer mlp[] = {gy_layer_flatten(), gy_layer_dense(32), gy_layer_relu(),
                            gy_layer_dense(KIT_CLASSES)};
    const gy_layer lenet[] = {gy_layer_conv2d(6, 3, 1),   gy_layer_relu(),
                              gy_layer_max_pool(2),       gy_layer_flatten(),
                              gy_layer_dense(24),         gy_layer_relu(),
                              gy_layer_dense(KIT_CLASSES)};
    gy_model *model = NULL;
    gy_model_options base = GY_OPTIONS(gy_model_options, .seed = 11, .workers = 1);
    if (kind == GPT) {
        base.input_sizes[0] = LENGTH;
        base.class_names = letters;
        base.class_count = LETTERS;
        assert_ok(gy_gpt_new(
            &GY_OPTIONS(gy_gpt_options, .layers = 2, .width = 16, .heads = 2, .dropout = 0.1),
            &base, &model));
        return model;
    }
    base.layers = kind == SOFTMAX ? softmax : kind == MLP ? mlp : lenet;
    base.layer_count = (int)(kind == SOFTMAX ? GY_COUNT(softmax)
                             : kind == MLP   ? GY_COUNT(mlp)
                                             : GY_COUNT(lenet));
    base.input_rank = 3;
    memcpy(base.input_sizes, (int64_t[]){1, SIDE, SIDE}, 3 * sizeof(int64_t));
    assert_ok(gy_model_new(&base, &model));
    return model;
}

typedef struct trained {
    double losses[STEPS], test_loss, sum; /* of all parameters' elements, by place */
    int there; /* nodes of the programs that ran last on the device */
} trained;

static void sum_parameters(gy_model *model, trained *out)
{
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *tensor = gy_session_parameter(gy_model_session(model), model->slots[i].name);
        assert_non_null(tensor);
        for (int64_t k = 0; k < gy_tensor_count(tensor); k++) {
            out->sum += gy_tensor_get(tensor, k) * (double)(k % 7 + 1);
        }
    }
}

static void train(model_kind kind, gy_device *device, trained *out)
{
    gy_model *model = new_model(kind);
    gy_train_result result = {.losses = NULL};
    gy_dataset set = kind == GPT ? kit_letters(24, LETTERS, LENGTH) : kit_digits(24, SIDE);
    const gy_train_options options =
        GY_OPTIONS(gy_train_options, .steps = STEPS, .batch = 8, .clip_norm = 1,
                   .optimizer = kind == GPT ? GY_OPTIMIZER_ADAMW : GY_OPTIMIZER_MOMENTUM,
                   .rate = 0.01, .seed = 3);
    *out = (trained){.there = 0};
    model->device = device; /* lent */
    assert_ok(gy_train(model, &set, &set, &options, &result));
    out->test_loss = result.test_loss;
    assert_int_equal(result.steps, STEPS);
    memcpy(out->losses, result.losses, sizeof(out->losses));
    const gy_session *session = gy_model_session(model);
    for (size_t i = 0; i < session->program_count; i++) {
        const gy_graph *graph = session->programs[i]->graph;
        for (int32_t n = 0; n < graph->node_count; n++) {
            out->there += graph->nodes[n].is_on_device;
        }
    }
    sum_parameters(model, out);
    gy_train_result_free(&result);
    gy_model_free(model);
}

static bool is_near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * fmax(1, fabs(a));
}

GY_TEST(a_training_on_a_device_has_the_losses_of_the_cpu)
{
    for (int kind = 0; kind < KINDS; kind++) {
        trained alone, both;
        gy_device *device = NULL;
        standin->reset(gy_test_seed());
        train((model_kind)kind, NULL, &alone);
        assert_ok(gy_cuda_executor_open(0, &device));
        device->rates.launch_s = device->rates.copy_s = 1e-12; /* all that can pays there */
        device->rates.copy_bytes_s = device->rates.bytes_s = 1e15;
        device->rates.host_flops_s = device->rates.host_bytes_s = 1e6;
        train((model_kind)kind, device, &both);
        gy_cuda_executor_close(device);
        printf("%s: %d nodes on the device, loss %.6f to %.6f\n", kind_names[kind], both.there,
               alone.losses[0], alone.losses[STEPS - 1]);
        assert_int_equal(alone.there, 0);
        assert_true(both.there > 10);
        for (int step = 0; step < STEPS; step++) {
            assert_true(alone.losses[step] > 0);
            assert_true(is_near(alone.losses[step], both.losses[step], 1e-4));
        }
        assert_true(is_near(alone.test_loss, both.test_loss, 1e-4));
        assert_true(is_near(alone.sum, both.sum, 1e-3));
        standin_expect_clean();
    }
}

GY_TEST(a_device_that_is_not_there_is_named)
{
    gy_model *model = new_model(SOFTMAX);
    gy_train_result result = {.losses = NULL};
    gy_dataset set = kit_digits(24, SIDE);
    gy_train_options options =
        GY_OPTIONS(gy_train_options, .steps = 1, .batch = 8, .seed = 3, .device = 8);
    standin->reset(1);
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_NOTFOUND);
    printf("%s\n", gy_error_text());
    assert_non_null(strstr(gy_error_text(), "device 7"));
    options.device = -1;
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    gy_train_result_free(&result);
    options.device = 1; /* opened and closed by the training */
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    assert_non_null(strstr(gy_model_device(model), "0 ("));
    gy_train_result_free(&result);
    gy_model_free(model);
    standin_expect_clean();
}

GY_TEST_MAIN(standin_find, NULL)
