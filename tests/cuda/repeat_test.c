/* Goal: a training whose steps repeat is a few launches a step, with the bits of kernels that
 * are launched one by one: the rate changes, masks are drawn, the optimizer counts its steps.
 */
#include "graph/session.h"
#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"
#include "train/train_priv.h"

#include "letters_kit.h"
#include "training_kit.h"

enum { STEPS_MAX = 6, SIDE = 12, LENGTH = 16 };

static gy_model *new_model(bool is_text)
{
    const gy_layer layers[] = {gy_layer_flatten(), gy_layer_dense(32), gy_layer_relu(),
                               gy_layer_dense(KIT_CLASSES)};
    return is_text ? kit_letters_gpt(LENGTH, 16, 2)
                   : kit_digits_model(layers, (int)GY_COUNT(layers), SIDE, 2);
}

typedef struct trained {
    double losses[STEPS_MAX], test_loss, sum; /* of all parameters' elements, by place */
} trained;

/* Copies have memory of their own: else they would wait for kernels of other values. */
static void check_copies(const gy_session *session)
{
    for (size_t i = 0; i < session->program_count; i++) {
        const gy_graph *graph = session->programs[i]->graph;
        const gy_memory_plan *memory = &session->programs[i]->memory;
        for (int32_t n = 0; n < graph->node_count; n++) {
            if (graph->nodes[n].op == &gy_ops_row_to_device) {
                const int32_t buffer = memory->of_value[graph->nodes[n].first_value];
                assert_int_equal(memory->buffers[buffer].chunk, -1);
            }
        }
    }
}

/* Without a device of its own: *counts are those of one on which all that can pays. */
static gy_device_counts train_with(bool has_graphs, bool is_text, int steps, trained *out)
{
    gy_device *device = NULL;
    gy_device_counts counts;
    gy_train_result result = {.losses = NULL};
    gy_dataset set = is_text ? kit_letters(24, KIT_LETTERS, LENGTH) : kit_digits(24, SIDE);
    assert_int_equal(setenv("GYRE_DEVICE_GRAPHS", has_graphs ? "on" : "off", 1), 0);
    assert_ok(gy_cuda_executor_open(0, &device));
    device->rates.launch_s = device->rates.copy_s = 1e-12;
    device->rates.copy_bytes_s = device->rates.bytes_s = 1e15;
    device->rates.host_flops_s = device->rates.host_bytes_s = 1e6;
    gy_model *model = new_model(is_text);
    model->device = device; /* lent */
    memset(out, 0, sizeof(*out));
    assert_ok(
        gy_train(model, &set, &set,
                 &GY_OPTIONS(gy_train_options, .steps = steps, .batch = 8, .clip_norm = 1,
                             .optimizer = is_text ? GY_OPTIMIZER_ADAMW : GY_OPTIMIZER_MOMENTUM,
                             .rate = 0.01, .schedule = GY_SCHEDULE_COSINE, .seed = 3),
                 &result));
    assert_int_equal(result.steps, steps);
    memcpy(out->losses, result.losses, (size_t)steps * sizeof(double));
    out->test_loss = result.test_loss;
    for (size_t i = 0; i < model->slot_count; i++) {
        gy_tensor *tensor = gy_session_parameter(gy_model_session(model), model->slots[i].name);
        assert_non_null(tensor);
        for (int64_t k = 0; k < gy_tensor_count(tensor); k++) {
            out->sum += gy_tensor_get(tensor, k) * (double)(k % 7 + 1);
        }
    }
    check_copies(gy_model_session(model));
    assert_true(gy_session_device_counts(gy_model_session(model), &counts));
    gy_train_result_free(&result);
    gy_model_free(model);
    gy_cuda_executor_close(device);
    assert_int_equal(unsetenv("GYRE_DEVICE_GRAPHS"), 0);
    standin_expect_clean();
    return counts;
}

static void repeat(bool is_text)
{
    trained one, other;
    standin->reset(gy_test_seed());
    const gy_device_counts plain = train_with(false, is_text, STEPS_MAX, &one);
    const gy_device_counts many = train_with(true, is_text, STEPS_MAX, &other);
    assert_memory_equal(&one, &other, sizeof(one));
    assert_true(one.losses[0] > 0 && one.losses[0] != one.losses[STEPS_MAX - 1]);
    assert_int_equal(plain.graphs, 0);
    assert_int_equal(plain.kernels, many.kernels);
    assert_int_equal(plain.bytes_there, many.bytes_there);
    /* What two steps more cost: neither rate nor step number nor mask is in a launch. */
    const gy_device_counts few = train_with(true, is_text, STEPS_MAX - 2, &other);
    const double kernels = (double)(many.kernels - few.kernels) / 2;
    const double launches = (double)(many.launches - few.launches) / 2;
    printf("a step is %.1f kernels, %.1f launches\n", kernels, launches);
    assert_true(kernels > 20);
    assert_true(launches <= 4);
}

GY_TEST(steps_of_dense_layers_with_momentum_are_a_few_graphs)
{
    repeat(false);
}

GY_TEST(steps_of_a_gpt_with_dropout_are_a_few_graphs)
{
    repeat(true);
}

GY_TEST_MAIN(standin_find, NULL)
