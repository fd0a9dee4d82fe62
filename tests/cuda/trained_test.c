/*
 * Goal: a model that was trained on a device is of use as any other: it is tested, predicts,
 * writes text, is saved and loaded, and is trained again on the CPU, on the device, on another.
 */
#include "graph/session.h"
#include "ops/cuda/executor.h"
#include "standin/standin_kit.h"
#include "train/train_priv.h"

#include <gyre/gpt.h>

#include <math.h>
#include <unistd.h>

#include "letters_kit.h"
#include "training_kit.h"

enum { LETTERS = 12, LENGTH = 8, STEPS = 3 };

static gy_model *new_model(bool is_lstm)
{
    gy_model *model = NULL;
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .seed = 11, .workers = 1, .input_sizes = {LENGTH},
                   .class_names = kit_letter_names, .class_count = LETTERS);
    assert_ok(is_lstm ? gy_lstm_new(&GY_OPTIONS(gy_lstm_options, .layers = 1, .hidden = 16),
                                    &base, &model)
                      : gy_gpt_new(&GY_OPTIONS(gy_gpt_options, .layers = 1, .width = 16,
                                               .heads = 2, .dropout = 0.1),
                                   &base, &model));
    return model;
}

static void cheap(gy_device *device)
{
    device->rates.launch_s = device->rates.copy_s = 1e-12;
    device->rates.copy_bytes_s = device->rates.bytes_s = 1e15;
    device->rates.host_flops_s = device->rates.host_bytes_s = 1e6;
}

static void train(gy_model *model, gy_device *device, int number, gy_dtype precision)
{
    gy_dataset set = kit_letters(24, LETTERS, LENGTH);
    gy_train_result result = {.losses = NULL};
    model->device = device != NULL ? device : model->device;
    const gy_train_options options =
        GY_OPTIONS(gy_train_options, .steps = STEPS, .batch = 6, .rate = 0.01, .seed = 3,
                   .optimizer = GY_OPTIMIZER_ADAM, .device = number, .precision = precision);
    assert_ok(gy_train(model, &set, &set, &options, &result));
    gy_train_result_free(&result);
}

typedef struct used {
    double loss, accuracy;
    char text[64];
} used;

static gy_status add(void *arg, const char *character)
{
    used *u = arg;
    (void)gy_print(u->text + strlen(u->text), sizeof(u->text) - strlen(u->text), "%s",
                   character);
    return GY_OK;
}

static void use(gy_model *model, used *u)
{
    gy_dataset set = kit_letters(24, LETTERS, LENGTH);
    *u = (used){.loss = 0};
    assert_ok(gy_model_evaluate(model, &set, 5, &u->loss, &u->accuracy, NULL));
    assert_ok(gy_gpt_generate(model, "abc",
                              &GY_OPTIONS(gy_generate_options, .length = 20, .seed = 5,
                                          .top_k = 1, .on_text = add, .arg = u)));
    printf("  loss %.6f, %.3f: %s\n", u->loss, u->accuracy, u->text);
}

static void same(const used *a, const used *b)
{
    assert_true(fabs(a->loss - b->loss) < 1e-4);
    assert_string_equal(a->text, b->text);
}

GY_TEST(a_trained_model_is_of_use)
{
    for (int k = 0; k < 4; k += 3) { /* a GPT, and an LSTM in bf16 */
        used alone, there, loaded_use;
        gy_device *device = NULL;
        standin->reset(gy_test_seed());
        gy_model *a = new_model(k % 2 == 1), *b = new_model(k % 2 == 1), *loaded = NULL;
        const gy_dtype precision = k < 2 ? GY_DTYPE_NONE : GY_BF16;
        train(a, NULL, -1, precision);
        use(a, &alone);
        assert_ok(gy_cuda_executor_open(0, &device));
        cheap(device);
        train(b, device, 0, precision);
        use(b, &there);
        same(&alone, &there);
        char path[] = "/tmp/gyre-trained-XXXXXX";
        const int file = mkstemp(path);
        assert_true(file >= 0);
        close(file);
        assert_ok(gy_model_save(b, path, NULL));
        assert_ok(gy_model_load(path, NULL, &loaded));
        unlink(path);
        use(loaded, &loaded_use);
        same(&alone, &loaded_use);
        train(a, NULL, -1, GY_DTYPE_NONE);
        use(a, &alone);
        train(b, device, 0, GY_DTYPE_NONE);
        use(b, &there);
        same(&alone, &there);
        gy_model_free(loaded);
        gy_model_free(a);
        gy_model_free(b);
        gy_cuda_executor_close(device);
        standin_expect_clean();
    }
}

GY_TEST(a_model_changes_its_device)
{
    used alone, there;
    standin->reset(1);
    gy_model *a = new_model(false), *b = new_model(false);
    static const int numbers[] = {1, -1, 1, 0};
    for (size_t i = 0; i < GY_COUNT(numbers); i++) {
        train(a, NULL, -1, GY_DTYPE_NONE);
        train(b, NULL, numbers[i], GY_DTYPE_NONE);
        use(a, &alone);
        use(b, &there);
        same(&alone, &there);
        assert_true((gy_model_device(b) != NULL) == (numbers[i] > 0));
    }
    gy_model_free(a);
    gy_model_free(b);
    standin_expect_clean();
}

/* Of what does not fit, values or the work of kernels, the CPU takes what it can. */
GY_TEST(a_device_with_little_memory_takes_what_fits)
{
    static const char *const sizes[] = {"9000", "300000", "5000000"};
    used alone, there;
    gy_model *a = new_model(false);
    train(a, NULL, -1, GY_DTYPE_NONE);
    use(a, &alone);
    for (size_t i = 0; i < GY_COUNT(sizes); i++) {
        gy_device *device = NULL;
        standin->reset(i + 1);
        assert_int_equal(setenv("GYRE_TEST_CUDA_MEMORY", sizes[i], 1), 0);
        gy_model *b = new_model(false);
        assert_ok(gy_cuda_executor_open(0, &device));
        cheap(device);
        train(b, device, 0, GY_DTYPE_NONE);
        use(b, &there);
        same(&alone, &there);
        gy_model_free(b);
        gy_cuda_executor_close(device);
        standin_expect_clean();
    }
    assert_int_equal(unsetenv("GYRE_TEST_CUDA_MEMORY"), 0);
    gy_model_free(a);
}

GY_TEST_MAIN(standin_find, NULL)
