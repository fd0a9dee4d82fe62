/* Goal: a model with batch norm that is trained can be evaluated, saved, loaded and resumed:
 * its running statistics are PyTorch's, and a row's prediction is its own. */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

enum { SAMPLES = 23, WIDTH = 4, CLASSES = 3, BATCH = 5 };

static double value_at(int64_t sample, int feature)
{
    gy_random random = {.key = 5, .next = (uint64_t)(sample * WIDTH + feature) * 16};
    const double centre = feature == (int)(sample % CLASSES) ? 6 : 0;
    return (gy_random_normal(&random) + centre) * (1 + feature) + 20 * feature;
}

static gy_status points_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                             gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count; i++) {
        for (int j = 0; j < WIDTH; j++) {
            ((double *)x->data)[i * WIDTH + j] = value_at(indices[i], j);
        }
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)(indices[i] % CLASSES);
        }
    }
    return GY_OK;
}

static const gy_dataset_ops points_ops = {.name = "points", .fill = points_fill};

static gy_dataset points(void)
{
    return (gy_dataset){.ops = &points_ops,
                        .count = SAMPLES,
                        .classes = CLASSES,
                        .input_rank = 1,
                        .input_sizes = {WIDTH}};
}

/* batch norm 0, dense 1, batch norm 2, relu 3, dropout 4, dense 5 */
static gy_model *new_model(const char *const *class_names)
{
    gy_layer layers[] = {gy_layer_batch_norm(), gy_layer_dense(6),     gy_layer_batch_norm(),
                         gy_layer_relu(),       gy_layer_dropout(0.2), gy_layer_dense(CLASSES)};
    layers[0].momentum = 0.25;
    gy_model *model = NULL;
    assert_ok(gy_model_new(&(gy_model_options){.name = "normal",
                                               .layers = layers,
                                               .layer_count = GY_COUNT(layers),
                                               .dtype = GY_F64,
                                               .input_rank = 1,
                                               .input_sizes = {WIDTH},
                                               .seed = 3,
                                               .workers = 1,
                                               .class_names = class_names,
                                               .class_count = CLASSES},
                           &model));
    return model;
}

static gy_train_options usual(void)
{
    return (gy_train_options){
        .epochs = 4, .batch = BATCH, .optimizer = GY_OPTIMIZER_ADAM, .rate = 0.02, .seed = 9};
}

static void train(gy_model *model, const gy_train_options *options)
{
    gy_dataset set = points();
    gy_train_result result;
    assert_ok(gy_train(model, &set, &set, options, &result));
    gy_train_result_free(&result);
}

static double parameter(gy_model *model, const char *name, int64_t index)
{
    gy_tensor *tensor = gy_session_parameter(gy_model_session(model), name);
    assert_non_null(tensor);
    return gy_tensor_get(tensor, index);
}

/* The first layer's statistics are of the data alone: replayed in the order of the samples. */
GY_TEST(running_statistics_are_those_of_the_batches)
{
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        gy_train_options options = usual();
        options.accumulate = accumulate; /* each batch counts, whether it updates or not */
        gy_model *model = new_model(NULL);
        train(model, &options);
        double mean[WIDTH] = {0}, variance[WIDTH] = {1, 1, 1, 1};
        for (int epoch = 0; epoch < options.epochs; epoch++) {
            int64_t order[SAMPLES];
            gy_train_order_fill(options.seed, epoch, order, SAMPLES);
            for (int64_t from = 0; from < SAMPLES; from += BATCH) {
                const int64_t to = GY_MIN(from + BATCH, SAMPLES); /* the last one has 3 rows */
                for (int j = 0; j < WIDTH; j++) {
                    double sum = 0, squares = 0;
                    for (int64_t i = from; i < to; i++) {
                        sum += value_at(order[i], j);
                    }
                    sum /= (double)(to - from);
                    for (int64_t i = from; i < to; i++) {
                        squares += pow(value_at(order[i], j) - sum, 2);
                    }
                    mean[j] = 0.75 * mean[j] + 0.25 * sum;
                    variance[j] = 0.75 * variance[j] + 0.25 * squares / (double)(to - from - 1);
                }
            }
        }
        for (int j = 0; j < WIDTH; j++) {
            assert_true(fabs(parameter(model, "batch_norm0.running_mean", j) - mean[j]) <
                        1e-10);
            assert_true(fabs(parameter(model, "batch_norm0.running_variance", j) -
                             variance[j]) < 1e-10);
        }
        gy_model_free(model);
    }
}

/* Log-probabilities of all samples, in batches of `rows`. */
static void predict(gy_model *model, int64_t rows, double out[SAMPLES * CLASSES])
{
    for (int64_t from = 0; from < SAMPLES; from += rows) {
        const int64_t count = GY_MIN(rows, SAMPLES - from);
        gy_tensor *x = NULL, *y = NULL;
        assert_ok(gy_tensor_new(NULL, GY_F64, (int64_t[]){count, WIDTH}, 2, &x));
        for (int64_t i = 0; i < count * WIDTH; i++) {
            gy_tensor_set(x, i, value_at(from + i / WIDTH, (int)(i % WIDTH)));
        }
        assert_ok(gy_model_predict(model, x, &y));
        for (int64_t i = 0; i < count * CLASSES; i++) {
            out[from * CLASSES + i] = gy_tensor_get(y, i);
        }
        gy_tensor_drop(y);
        gy_tensor_drop(x);
    }
}

static void expect_alike(const double *a, const double *b)
{
    for (int i = 0; i < SAMPLES * CLASSES; i++) {
        if (!(fabs(a[i] - b[i]) < 1e-6)) {
            fail_msg("prediction %d of sample %d: %g and %g", i % CLASSES, i / CLASSES, a[i],
                     b[i]);
        }
    }
}

GY_TEST(a_trained_model_predicts_alike_in_any_batch_and_when_loaded)
{
    char path[] = "/tmp/gyre-norm-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    gy_dataset set = points();
    gy_model *model = new_model(NULL), *loaded = NULL;
    gy_train_options options = usual();
    options.epochs = 40;
    train(model, &options);
    double all[SAMPLES * CLASSES], some[SAMPLES * CLASSES];
    double loss[3], accuracy[3];
    predict(model, SAMPLES, all);
    predict(model, 1, some);
    expect_alike(all, some);
    predict(model, 4, some);
    expect_alike(all, some);
    assert_ok(gy_model_save(model, path, NULL));
    assert_ok(gy_model_load(path, NULL, &loaded));
    predict(loaded, 1, some);
    expect_alike(all, some);
    assert_ok(gy_model_evaluate(model, &set, 1, &loss[0], &accuracy[0], NULL));
    assert_ok(gy_model_evaluate(model, &set, 7, &loss[1], &accuracy[1], NULL));
    assert_ok(gy_model_evaluate(loaded, &set, SAMPLES, &loss[2], &accuracy[2], NULL));
    assert_true(accuracy[0] > 0.9);
    for (int i = 1; i < 3; i++) {
        assert_true(fabs(loss[0] - loss[i]) < 1e-9 && accuracy[0] == accuracy[i]);
    }
    gy_model_free(loaded);
    gy_model_free(model);
    unlink(path);
}

/* Mean 0 and variance 1: finite, and of each row alone. */
GY_TEST(a_model_is_evaluated_before_any_training)
{
    gy_model *model = new_model(NULL);
    double all[SAMPLES * CLASSES], single[SAMPLES * CLASSES];
    predict(model, SAMPLES, all);
    predict(model, 1, single);
    expect_alike(all, single);
    for (int i = 0; i < SAMPLES * CLASSES; i++) {
        assert_true(isfinite(all[i]));
    }
    gy_model_free(model);
}

GY_TEST(one_row_batches_are_refused_before_the_first_step)
{
    static const int64_t batches[] = {1, 2, 11, 22};
    gy_dataset set = points();
    gy_train_result result;
    for (size_t i = 0; i < GY_COUNT(batches); i++) {
        gy_model *model = new_model(NULL);
        gy_train_options options = usual();
        options.batch = batches[i]; /* 23 = 22 + 1 */
        assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
        assert_non_null(strstr(gy_error_text(), "23 samples in batches of "));
        assert_non_null(strstr(gy_error_text(), "batch_norm0 "));
        assert_true(parameter(model, "batch_norm0.running_mean", 0) == 0);
        gy_model_free(model);
    }
    gy_model *model = new_model(NULL);
    gy_train_options options = usual();
    options.batch = 1000; /* larger than the set: one batch of all rows */
    train(model, &options);
    /* Frozen layers take no statistics of a batch, so that one row will do. */
    assert_ok(gy_model_freeze(model, 0, true));
    assert_ok(gy_model_freeze(model, 2, true));
    options.batch = 22;
    train(model, &options);
    gy_model_free(model);
}

GY_TEST(frozen_layers_stay_what_they_are)
{
    static const char *const names[] = {
        "batch_norm0.weight", "batch_norm0.bias", "batch_norm0.running_mean",
        "batch_norm0.running_variance", "dense1.weight",
        /* and those that are not frozen */
        "batch_norm2.weight", "batch_norm2.running_mean", "dense5.weight"};
    gy_model *model = new_model(NULL);
    gy_train_options options = usual();
    train(model, &options);
    double before[GY_COUNT(names)];
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        before[i] = parameter(model, names[i], 1);
    }
    assert_ok(gy_model_freeze(model, 0, true));
    assert_ok(gy_model_freeze(model, 1, true));
    assert_status(gy_model_freeze(model, 6, true), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "has 0 to 5"));
    options.weight_decay = 0.1;
    train(model, &options);
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        if ((parameter(model, names[i], 1) == before[i]) != (i < 5)) {
            fail_msg("%s was %g, is %g", names[i], before[i], parameter(model, names[i], 1));
        }
    }
    assert_ok(gy_model_freeze(model, 0, false));
    train(model, &options);
    assert_true(parameter(model, names[2], 1) != before[2]);
    for (int i = 0; i < 6; i++) {
        assert_ok(gy_model_freeze(model, i, true));
    }
    gy_dataset set = points();
    gy_train_result result;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "all are frozen"));
    gy_model_free(model);
}

static void remove_checkpoints(const char *folder)
{
    for (int step = 0; step < 100; step++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/step-%012d.safetensors", folder, step);
        unlink(path);
    }
}

GY_TEST(a_resumed_training_has_the_bits_of_the_whole)
{
    char folder[] = "/tmp/gyre-norm-XXXXXX";
    assert_non_null(mkdtemp(folder));
    gy_train_options options = usual();
    gy_model *whole = new_model(NULL), *broken = new_model(NULL), *resumed = new_model(NULL);
    train(whole, &options);
    options.checkpoint_folder = folder;
    options.step_limit = 7; /* in the middle of the second epoch */
    train(broken, &options);
    options.step_limit = 0;
    options.resume = true;
    train(resumed, &options);
    for (size_t i = 0; i < whole->slot_count; i++) {
        gy_tensor *value = gy_session_parameter(whole->session, whole->slots[i].name);
        for (int64_t j = 0; j < gy_tensor_count(value); j++) {
            assert_true(gy_tensor_get(value, j) == parameter(resumed, whole->slots[i].name, j));
        }
    }
    /* Another choice of frozen layers is another training. */
    gy_dataset set = points();
    gy_train_result result;
    assert_ok(gy_model_freeze(resumed, 1, true));
    assert_status(gy_train(resumed, &set, &set, &options, &result), GY_MISMATCH);
    assert_non_null(
        strstr(gy_error_text(), "its frozen layers are none, this training run's 1"));
    /* So are micro-batches, each of which is normalised by itself. */
    assert_ok(gy_model_freeze(resumed, 1, false));
    options.micro_batches = 1;
    assert_status(gy_train(resumed, &set, &set, &options, &result), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "'micro-batches 1'"));
    gy_model_free(whole);
    gy_model_free(broken);
    gy_model_free(resumed);
    remove_checkpoints(folder);
    assert_int_equal(rmdir(folder), 0);
}

GY_TEST_MAIN(NULL, NULL)
