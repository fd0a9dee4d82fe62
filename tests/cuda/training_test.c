/*
 * Goal: a training on a device has the losses, test results and parameters of one on the CPU:
 * softmax, a network of dense layers, LeNet and a GPT, in float32 and with operands of 16 bits.
 * A device that is not there is named, and the model stays what it was.
 */
#include "base/disk.h"
#include "graph/session.h"
#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"
#include "train/train_priv.h"

#include <math.h>

#include "letters_kit.h"
#include "training_kit.h"

enum { STEPS = 4, SIDE = 12, LENGTH = 16, BATCH = 8 };
/* Wide enough for 16 bits (docs/decisions/058). */
enum { WIDE_LENGTH = 32, WIDE_BATCH = 32, SAMPLES = 48 };

typedef enum model_kind { SOFTMAX, MLP, LENET, GPT, KINDS } model_kind;

static const char *const kind_names[KINDS] = {"softmax", "mlp", "lenet", "gpt"};

static gy_model *new_wide_model(model_kind kind)
{
    const gy_layer mlp[] = {gy_layer_flatten(), gy_layer_dense(64),
                            gy_layer_relu(),    gy_layer_dense(32),
                            gy_layer_relu(),    gy_layer_dense(KIT_CLASSES)};
    const gy_layer lenet[] = {
        gy_layer_conv2d(16, 3, 1), gy_layer_relu(),      gy_layer_conv2d(16, 3, 1),
        gy_layer_relu(),           gy_layer_max_pool(2), gy_layer_flatten(),
        gy_layer_dense(32),        gy_layer_relu(),      gy_layer_dense(KIT_CLASSES)};
    return kind == LENET ? kit_digits_model(lenet, (int)GY_COUNT(lenet), SIDE, 1)
                         : kit_digits_model(mlp, (int)GY_COUNT(mlp), SIDE, 1);
}

static gy_model *new_model(model_kind kind, bool is_wide)
{
    const gy_layer softmax[] = {gy_layer_flatten(), gy_layer_dense(KIT_CLASSES)};
    const gy_layer mlp[] = {gy_layer_flatten(), gy_layer_dense(32), gy_layer_relu(),
                            gy_layer_dense(KIT_CLASSES)};
    const gy_layer lenet[] = {gy_layer_conv2d(6, 3, 1),   gy_layer_relu(),
                              gy_layer_max_pool(2),       gy_layer_flatten(),
                              gy_layer_dense(24),         gy_layer_relu(),
                              gy_layer_dense(KIT_CLASSES)};
    if (kind == GPT) {
        return kit_letters_gpt(is_wide ? WIDE_LENGTH : LENGTH, is_wide ? 32 : 16, 1);
    }
    if (is_wide) {
        return new_wide_model(kind);
    }
    return kind == SOFTMAX ? kit_digits_model(softmax, (int)GY_COUNT(softmax), SIDE, 1)
           : kind == MLP   ? kit_digits_model(mlp, (int)GY_COUNT(mlp), SIDE, 1)
                           : kit_digits_model(lenet, (int)GY_COUNT(lenet), SIDE, 1);
}

typedef struct trained {
    double losses[STEPS], test_loss, sum; /* of all parameters' elements, by place */
    int nodes, there; /* of the programs that ran last; those on the device */
    int products, narrow, products_there; /* that multiply; with operands of 16 bits */
} trained;

static bool is_product(const gy_op *op)
{
    return strncmp(op->name, "matmul", 6) == 0 || strncmp(op->name, "conv2d", 6) == 0 ||
           strncmp(op->name, "attention", 9) == 0;
}

static void count_nodes(const gy_graph *graph, trained *out)
{
    for (int32_t n = 0; n < graph->node_count; n++) {
        const gy_graph_node *node = &graph->nodes[n];
        out->nodes++;
        out->there += node->is_on_device;
        if (is_product(node->op)) {
            const gy_dtype dtype = gy_graph_type(graph, node->inputs[0])->dtype;
            out->products++;
            out->products_there += node->is_on_device;
            out->narrow += dtype == GY_BF16 || dtype == GY_F16;
        }
    }
}

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

static void train(model_kind kind, gy_dtype precision, gy_device *device, trained *out)
{
    const bool is_wide = precision != GY_F32;
    gy_model *model = new_model(kind, is_wide);
    gy_train_result result = {.losses = NULL};
    gy_dataset set = kind == GPT ? kit_letters(is_wide ? SAMPLES : 24, KIT_LETTERS,
                                               is_wide ? WIDE_LENGTH : LENGTH)
                                 : kit_digits(is_wide ? SAMPLES : 24, SIDE);
    const gy_train_options options =
        GY_OPTIONS(gy_train_options, .steps = STEPS, .batch = is_wide ? WIDE_BATCH : BATCH,
                   .clip_norm = 1, .precision = precision,
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
        count_nodes(session->programs[i]->graph, out);
    }
    sum_parameters(model, out);
    gy_train_result_free(&result);
    gy_model_free(model);
}

static bool is_near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * fmax(1, fabs(a));
}

/* On the CPU alone and with a device on which pays whatever it can. */
static void train_both(model_kind kind, gy_dtype precision, trained *alone, trained *both)
{
    gy_device *device = NULL;
    standin->reset(gy_test_seed());
    train(kind, precision, NULL, alone);
    assert_ok(gy_cuda_executor_open(0, &device));
    device->rates.launch_s = device->rates.copy_s = 1e-12;
    device->rates.copy_bytes_s = device->rates.bytes_s = 1e15;
    device->rates.host_flops_s = device->rates.host_bytes_s = 1e6;
    train(kind, precision, device, both);
    gy_cuda_executor_close(device);
    printf("%s, %s: %d of %d nodes on the device, %d of %d that multiply (%d of 16 bits), loss "
           "%.6f to %.6f, there %.6f\n",
           kind_names[kind], gy_dtype_name(precision), both->there, both->nodes,
           both->products_there, both->products, both->narrow, alone->losses[0],
           alone->losses[STEPS - 1], both->losses[STEPS - 1]);
    assert_int_equal(alone->there, 0);
    assert_true(both->products > 0);
    assert_int_equal(both->products_there, both->products);
    standin_expect_clean();
}

static void compare(const trained *alone, const trained *both, double tolerance)
{
    for (int step = 0; step < STEPS; step++) {
        assert_true(alone->losses[step] > 0);
        assert_true(is_near(alone->losses[step], both->losses[step], tolerance));
    }
    assert_true(is_near(alone->test_loss, both->test_loss, tolerance));
    assert_true(is_near(alone->sum, both->sum, 10 * tolerance));
}

GY_TEST(a_training_on_a_device_has_the_losses_of_the_cpu)
{
    for (int kind = 0; kind < KINDS; kind++) {
        trained alone, both;
        train_both((model_kind)kind, GY_F32, &alone, &both);
        assert_int_equal(both.narrow, 0);
        assert_true(both.there > 10);
        compare(&alone, &both, 1e-4);
    }
}

/* Values are rounded to 16 bits in the same places; sums in another order let some of them
 * round to the neighbour, 2^-8 of it away (2^-11 in f16). */
GY_TEST(sixteen_bits_on_a_device_have_the_losses_of_the_cpu)
{
    static const struct {
        model_kind kind;
        gy_dtype precision;
        int narrow_min;
    } cases[] = {{MLP, GY_BF16, 3}, {LENET, GY_BF16, 3}, {GPT, GY_BF16, 10}, {MLP, GY_F16, 3}};
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        trained alone, both;
        if (!gy_test_takes(i)) {
            continue;
        }
        train_both(cases[i].kind, cases[i].precision, &alone, &both);
        assert_true(both.narrow >= cases[i].narrow_min);
        assert_int_equal(alone.narrow, both.narrow);
        assert_true(2 * both.there > both.nodes);
        compare(&alone, &both, 1e-3);
    }
}

GY_TEST(a_device_that_is_not_there_is_named)
{
    gy_model *model = new_model(SOFTMAX, false);
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

/* Kernels that one training has compiled are there for the next, of another process or not. */
GY_TEST(a_second_training_compiles_nothing)
{
    for (int again = 0; again < 2; again++) {
        trained there;
        gy_device *device = NULL;
        standin->reset(1);
        assert_ok(gy_cuda_executor_open(0, &device));
        device->rates.launch_s = device->rates.copy_s = 1e-12;
        device->rates.host_flops_s = device->rates.host_bytes_s = 1e6;
        train(MLP, GY_F32, device, &there);
        gy_cuda_executor_close(device);
        assert_true(there.there > 10);
        assert_true(again == 0 || standin->count("nvrtcCompileProgram") == 0);
        assert_true(standin->count("cuModuleLoadDataEx") > 5);
        standin_expect_clean();
    }
}

static char images[] = "/tmp/gyre-training-XXXXXX";

static int begin(void **state)
{
    return mkdtemp(images) != NULL && setenv("GYRE_CACHE_DIR", images, 1) == 0
               ? standin_find(state)
               : 1;
}

static int end(void **state)
{
    (void)state;
    return gy_disk_remove_tree(images);
}

GY_TEST_MAIN(begin, end)
