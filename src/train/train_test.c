/* Goal: models train, agree with hand-written updates, resume bit for bit, and refuse what does
 * not fit. */
#include "graph/graph.h"
#include "train/train_priv.h"

#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

enum { SAMPLES = 50, WIDTH = 6, CLASSES = 3 };

/* Points around one centre a class, the same each time. */
static gy_status points_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                             gy_view *x, gy_view *labels)
{
    (void)dataset;
    for (int64_t i = 0; i < count; i++) {
        gy_random random = {.key = 77, .next = (uint64_t)indices[i] * 100};
        int64_t label = indices[i] % CLASSES;
        for (int j = 0; j < WIDTH; j++) {
            double value = gy_random_normal(&random) * 0.5 + (j % CLASSES == label ? 1.5 : 0);
            if (x->dtype == GY_F64) {
                ((double *)x->data)[i * WIDTH + j] = value;
            } else {
                ((float *)x->data)[i * WIDTH + j] = (float)value;
            }
        }
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = (int32_t)label;
        }
    }
    return GY_OK;
}

static void points_free(gy_dataset *dataset)
{
    (void)dataset;
}

static const gy_dataset_ops points_ops = {
    .name = "points", .fill = points_fill, .free = points_free};

static gy_status wrong_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                            gy_view *x, gy_view *labels)
{
    GY_TRY(points_fill(dataset, indices, count, x, labels));
    for (int64_t i = 0; i < count; i++) {
        int32_t *label = &((int32_t *)labels->data)[i];
        *label = (*label + 1) % CLASSES;
    }
    return GY_OK;
}

static const gy_dataset_ops wrong_ops = {
    .name = "wrong", .fill = wrong_fill, .free = points_free};

static gy_dataset points(void)
{
    return (gy_dataset){.ops = &points_ops,
                        .count = SAMPLES,
                        .classes = CLASSES,
                        .input_rank = 1,
                        .input_sizes = {WIDTH}};
}

static gy_model *new_model(double dropout)
{
    gy_layer layers[] = {gy_layer_dense(8), gy_layer_relu(), gy_layer_dropout(dropout),
                         gy_layer_dense(CLASSES)};
    gy_model *model = NULL;
    assert_ok(gy_model_new(&(gy_model_options){.name = "points",
                                               .layers = layers,
                                               .layer_count = 4,
                                               .dtype = GY_F64,
                                               .input_rank = 1,
                                               .input_sizes = {WIDTH},
                                               .seed = 5,
                                               .workers = 1},
                           &model));
    return model;
}

GY_TEST(every_optimizer_learns)
{
    gy_dataset set = points();
    for (int kind = GY_OPTIMIZER_SGD; kind <= GY_OPTIMIZER_ADAMW; kind++) {
        gy_model *model = new_model(0);
        gy_train_options options = {.epochs = 40,
                                    .batch = 10,
                                    .optimizer = (gy_optimizer_kind)kind,
                                    .rate = kind >= GY_OPTIMIZER_ADAM ? 0.02 : 0.1,
                                    .weight_decay = kind == GY_OPTIMIZER_ADAMW ? 0.01 : 0,
                                    .clip_norm = kind == GY_OPTIMIZER_MOMENTUM ? 1 : 0,
                                    .seed = 1};
        gy_train_result result;
        assert_ok(gy_train(model, &set, &set, &options, &result));
        assert_int_equal(result.steps, 200);
        assert_true(result.losses[0] > 0.9);
        if (result.test_accuracy < 0.95) {
            fail_msg("optimizer %d reached %g", kind, result.test_accuracy);
        }
        gy_train_result_free(&result);
        gy_model_free(model);
    }
}

/* A copy of the model's parameter. */
static void read_parameter(gy_model *model, const char *name, double *out, int64_t count)
{
    gy_tensor *tensor = gy_session_parameter(gy_model_session(model), name);
    assert_non_null(tensor);
    assert_int_equal(gy_tensor_count(tensor), count);
    for (int64_t i = 0; i < count; i++) {
        out[i] = gy_tensor_get(tensor, i);
    }
}

/* One step on one dense layer, against the formulas by hand. */
GY_TEST(updates_match_their_formulas)
{
    gy_dataset set = points();
    enum { COUNT = WIDTH * CLASSES };
    for (int kind = GY_OPTIMIZER_SGD; kind <= GY_OPTIMIZER_ADAMW; kind++) {
        gy_layer layer = gy_layer_dense(CLASSES);
        gy_model *model = NULL;
        assert_ok(gy_model_new(&(gy_model_options){.layers = &layer,
                                                   .layer_count = 1,
                                                   .dtype = GY_F64,
                                                   .input_rank = 1,
                                                   .input_sizes = {WIDTH},
                                                   .workers = 1},
                               &model));
        double before[COUNT];
        double first[COUNT];
        double after[COUNT];
        read_parameter(model, "dense0.weight", before, COUNT);
        gy_train_options options = {.epochs = 2,
                                    .batch = SAMPLES,
                                    .optimizer = (gy_optimizer_kind)kind,
                                    .rate = 0.1,
                                    .step_limit = 1};
        gy_train_result result;
        assert_ok(gy_train(model, &set, NULL, &options, &result));
        gy_train_result_free(&result);
        read_parameter(model, "dense0.weight", first, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double moved = (before[i] - first[i]) / 0.1;
            /* The first Adam step has length rate whatever the gradient. */
            if (kind >= GY_OPTIMIZER_ADAM) {
                assert_true(fabs(fabs(moved) - 1) < 1e-4);
            }
            after[i] = moved;
        }
        if (kind == GY_OPTIMIZER_SGD || kind == GY_OPTIMIZER_MOMENTUM ||
            kind == GY_OPTIMIZER_NESTEROV) {
            /* dL/dW = X^T (softmax - onehot) / n, by hand. */
            double gradient[COUNT] = {0};
            for (int64_t n = 0; n < SAMPLES; n++) {
                double x[WIDTH];
                int32_t label = 0;
                gy_view xv = gy_view_of(x, GY_F64, (int64_t[]){1, WIDTH}, 2);
                gy_view lv = gy_view_of(&label, GY_I32, (int64_t[]){1}, 1);
                assert_ok(points_fill(&set, &n, 1, &xv, &lv));
                double z[CLASSES] = {0};
                double total = 0;
                for (int c = 0; c < CLASSES; c++) {
                    for (int j = 0; j < WIDTH; j++) {
                        z[c] += x[j] * before[j * CLASSES + c];
                    }
                    total += exp(z[c]);
                }
                for (int c = 0; c < CLASSES; c++) {
                    double d = exp(z[c]) / total - (c == label);
                    for (int j = 0; j < WIDTH; j++) {
                        gradient[j * CLASSES + c] += x[j] * d / SAMPLES;
                    }
                }
            }
            double factor = kind == GY_OPTIMIZER_NESTEROV ? 1.9 : 1;
            for (int i = 0; i < COUNT; i++) {
                assert_true(fabs(after[i] - factor * gradient[i]) < 1e-12);
            }
        }
        gy_model_free(model);
    }
}

static void remove_folder(const char *folder)
{
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        return;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(entries)) != NULL) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(entries);
    rmdir(folder);
}

GY_TEST(resumed_run_has_the_bits_of_the_whole)
{
    gy_dataset set = points();
    char folder[] = "/tmp/gyre-train-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int accumulate = 1; accumulate <= 2; accumulate++) {
        gy_train_options options = {.epochs = 3,
                                    .batch = 8,
                                    .accumulate = accumulate,
                                    .optimizer = GY_OPTIMIZER_ADAM,
                                    .rate = 0.01,
                                    .seed = 3,
                                    .schedule = GY_SCHEDULE_COSINE,
                                    .warmup_steps = 2};
        gy_model *whole = new_model(0.5);
        gy_train_result expected;
        assert_ok(gy_train(whole, &set, &set, &options, &expected));
        for (int64_t stop = 1; stop < expected.steps; stop += 4) {
            remove_folder(folder);
            options.checkpoint_folder = folder;
            options.checkpoint_every = stop % 8 == 1 ? 1 : 1000;
            gy_model *broken = new_model(0.5);
            gy_train_result result;
            options.step_limit = stop;
            assert_ok(gy_train(broken, &set, &set, &options, &result));
            gy_train_result_free(&result);
            gy_model_free(broken);
            char path[1024];
            snprintf(path, sizeof(path), "%s/step-%012lld.safetensors", folder,
                     (long long)stop);
            assert_int_equal(access(path, F_OK), 0); /* where it stopped, whatever was due */
            gy_model *resumed = new_model(0.5);
            options.step_limit = 0;
            options.resume = true;
            assert_ok(gy_train(resumed, &set, &set, &options, &result));
            assert_int_equal(result.steps, expected.steps);
            assert_memory_equal(result.losses, expected.losses,
                                (size_t)expected.steps * sizeof(double));
            for (size_t i = 0; i < resumed->slot_count; i++) {
                gy_tensor *a = gy_session_parameter(whole->session, whole->slots[i].name);
                gy_tensor *b = gy_session_parameter(resumed->session, resumed->slots[i].name);
                assert_memory_equal(gy_tensor_pin(a).data, gy_tensor_pin(b).data,
                                    (size_t)gy_tensor_count(a) * sizeof(double));
                gy_tensor_unpin(a);
                gy_tensor_unpin(b);
            }
            gy_train_result_free(&result);
            gy_model_free(resumed);
            options.resume = false;
            options.checkpoint_folder = NULL;
        }
        gy_train_result_free(&expected);
        gy_model_free(whole);
    }
    remove_folder(folder);
}

/* Cut the newest file of the folder to half its length. */
static void cut_newest(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size / 2), 0);
}

GY_TEST(damaged_and_foreign_checkpoints_are_named)
{
    gy_dataset set = points();
    char folder[] = "/tmp/gyre-train-XXXXXX";
    assert_non_null(mkdtemp(folder));
    gy_train_options options = {.epochs = 1,
                                .batch = 10,
                                .checkpoint_folder = folder,
                                .checkpoint_every = 1,
                                .rate = 0.1};
    gy_model *model = new_model(0);
    gy_train_result result;
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    gy_train_result_free(&result);
    /* The two newest are kept. */
    char path[1024];
    snprintf(path, sizeof(path), "%s/step-000000000003.safetensors", folder);
    assert_int_equal(access(path, F_OK), -1);
    options.resume = true;
    options.batch = 25;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "batch 10"));
    assert_non_null(strstr(gy_error_text(), "batch 25"));
    options.batch = 10;
    cut_newest(folder, "step-000000000005.safetensors");
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    assert_int_equal(result.steps, 5);
    gy_train_result_free(&result);
    cut_newest(folder, "step-000000000004.safetensors");
    cut_newest(folder, "step-000000000005.safetensors");
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "step-000000000004.safetensors"));
    gy_model_free(model);
    remove_folder(folder);
}

GY_TEST(saved_models_load_and_predict_alike)
{
    gy_dataset set = points();
    char path[] = "/tmp/gyre-model-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    gy_model *model = new_model(0.5);
    gy_train_result result;
    assert_ok(
        gy_train(model, &set, NULL, &(gy_train_options){.epochs = 5, .batch = 10}, &result));
    gy_train_result_free(&result);
    const char *extra[] = {"made.by", "a test", NULL};
    assert_ok(gy_model_save(model, path, extra));
    gy_model *loaded = NULL;
    assert_ok(gy_model_load(path, NULL, &loaded));
    assert_string_equal(gy_model_name(loaded), "points");
    assert_string_equal(gy_model_metadata(loaded, "made.by"), "a test");
    assert_int_equal(gy_model_class_count(loaded), CLASSES);
    int32_t first[SAMPLES];
    int32_t second[SAMPLES];
    double loss[2];
    double accuracy[2];
    assert_ok(gy_model_evaluate(model, &set, 7, &loss[0], &accuracy[0], first));
    assert_ok(gy_model_evaluate(loaded, &set, SAMPLES, &loss[1], &accuracy[1], second));
    assert_memory_equal(first, second, sizeof(first));
    assert_true(fabs(loss[0] - loss[1]) < 1e-12);
    gy_model_free(loaded);
    gy_model_free(model);
    unlink(path);
    assert_status(gy_model_load(path, NULL, &loaded), GY_NOTFOUND);
}

GY_TEST(sets_that_do_not_fit_are_not_evaluated)
{
    gy_model *model = new_model(0);
    double loss = 0, accuracy = 0;
    gy_dataset wide = points(), none = points(), rich = points();
    wide.input_sizes[0] = WIDTH + 1;
    none.count = 0;
    rich.classes = CLASSES + 1;
    assert_status(gy_model_evaluate(model, &wide, 10, &loss, &accuracy, NULL), GY_SHAPE);
    assert_non_null(strstr(gy_error_text(), "has samples [7], model points takes [6]"));
    assert_status(gy_model_evaluate(model, &none, 10, &loss, &accuracy, NULL), GY_SHAPE);
    assert_status(gy_model_evaluate(model, &rich, 10, &loss, &accuracy, NULL), GY_ARG);
    gy_model_free(model);
}

enum { FILL_NS = 2000000 };
static int fills;

/* Takes FILL_NS of the clock for any batch. */
static gy_status slow_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                           gy_view *x, gy_view *labels)
{
    const int64_t until = gy_now_ns(gy_env_real()) + FILL_NS;
    fills++;
    gy_status status = points_fill(dataset, indices, count, x, labels);
    while (gy_now_ns(gy_env_real()) < until) {
    }
    return status;
}

GY_TEST(the_parts_of_the_time_add_up)
{
    static const gy_dataset_ops slow_ops = {
        .name = "slow", .fill = slow_fill, .free = points_free};
    gy_dataset set = points();
    set.ops = &slow_ops;
    gy_model *model = new_model(0);
    gy_train_result result;
    fills = 0;
    assert_ok(
        gy_train(model, &set, &set, &(gy_train_options){.epochs = 3, .batch = 10}, &result));
    assert_int_equal(fills, 3 * 5 + 3);
    assert_true(result.input_s >= 3 * 5 * 1e-9 * FILL_NS); /* of updates, not of tests */
    assert_true(result.compute_s > 0);
    assert_true(result.compute_s + result.exposed_communication_s + result.input_s <=
                result.wall_s);
    gy_train_result_free(&result);
    gy_model_free(model);
}

GY_TEST(nan_loss_stops_with_its_step)
{
    gy_dataset set = points();
    gy_model *model = new_model(0);
    gy_train_result result;
    gy_train_options options = {.epochs = 50, .batch = 10, .rate = 1e200};
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_NUMERIC);
    assert_non_null(strstr(gy_error_text(), "at step "));
    assert_non_null(strstr(gy_error_text(), " of 250 (epoch 1, rate 1e+200)"));
    gy_model_free(model);
}

enum { BAD_SAMPLE = 37 };
static int bad_label;

static gy_status bad_label_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                                gy_view *x, gy_view *labels)
{
    GY_TRY(points_fill(dataset, indices, count, x, labels));
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] == BAD_SAMPLE) {
            ((int32_t *)labels->data)[i] = bad_label;
        }
    }
    return GY_OK;
}

/* By the sample's number in the set, not by its place in a batch of shuffled ones. */
GY_TEST(a_label_out_of_range_is_named_with_its_sample)
{
    static const int labels[] = {CLASSES, -1, 1 << 30};
    static const gy_dataset_ops ops = {
        .name = "slips", .fill = bad_label_fill, .free = points_free};
    gy_dataset set = points();
    set.ops = &ops;
    for (size_t i = 0; i < GY_COUNT(labels); i++) {
        gy_model *model = new_model(0);
        gy_train_result result;
        double loss = 0, accuracy = 0;
        char expected[128];
        bad_label = labels[i];
        snprintf(expected, sizeof(expected),
                 "data set slips: sample 37 has label %d, expected 0 to 2", bad_label);
        gy_train_options options = {.epochs = 1, .batch = 8, .seed = 4};
        assert_status(gy_train(model, &set, NULL, &options, &result), GY_ARG);
        assert_non_null(strstr(gy_error_text(), expected));
        assert_status(gy_model_evaluate(model, &set, 7, &loss, &accuracy, NULL), GY_ARG);
        assert_non_null(strstr(gy_error_text(), expected));
        gy_model_free(model);
    }
}

/* Loss and accuracy are means over rows: whatever the batch, and of a partial last one. */
GY_TEST(means_are_over_rows)
{
    gy_dataset set = points(), wrong = points();
    wrong.ops = &wrong_ops;
    gy_model *model = new_model(0);
    gy_train_result result;
    assert_ok(gy_train(model, &set, NULL,
                       &(gy_train_options){.epochs = 5, .batch = 16, .rate = 0.1}, &result));
    gy_train_result_free(&result);
    static const int64_t batches[] = {SAMPLES, 1, 7, 49, 51, 100000};
    double loss[GY_COUNT(batches)], accuracy[GY_COUNT(batches)];
    for (size_t i = 0; i < GY_COUNT(batches); i++) {
        assert_ok(gy_model_evaluate(model, &wrong, batches[i], &loss[i], &accuracy[i], NULL));
        assert_true(fabs(loss[i] - loss[0]) < 1e-12 * loss[0] && accuracy[i] == accuracy[0]);
    }
    gy_model_free(model);
    /* A step's loss too: of all 50 rows in one batch, in more than one, in a larger one. */
    for (size_t i = 0; i < GY_COUNT(batches); i++) {
        gy_train_options options = {.epochs = 1,
                                    .batch = batches[i],
                                    .accumulate =
                                        (int)((SAMPLES + batches[i] - 1) / batches[i]),
                                    .rate = 1e-6};
        model = new_model(0);
        assert_ok(gy_train(model, &set, NULL, &options, &result));
        assert_int_equal(result.steps, 1);
        loss[i] = result.losses[0];
        assert_true(fabs(loss[i] - loss[0]) < 1e-12 * loss[0]);
        gy_train_result_free(&result);
        gy_model_free(model);
    }
}

/* The loss of the last step is finite, what it leaves is not: no result, and no checkpoint that
 * every resume would fail with. */
GY_TEST(parameters_that_are_not_finite_are_not_kept)
{
    gy_dataset set = points();
    char folder[] = "/tmp/gyre-train-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int kept = 0; kept < 2; kept++) {
        gy_model *model = new_model(0);
        gy_train_result result;
        gy_tensor *bias = gy_session_parameter(gy_model_session(model), "dense3.bias");
        for (int i = 0; i < CLASSES; i++) {
            gy_tensor_set(bias, i, i == 0 ? 1e10 : 0); /* a large finite loss */
        }
        gy_train_options options = {.epochs = 1,
                                    .batch = SAMPLES,
                                    .rate = 1e300,
                                    .momentum = 0.9,
                                    .weight_decay = 1e6,
                                    .checkpoint_folder = kept == 1 ? folder : NULL};
        assert_status(gy_train(model, &set, NULL, &options, &result), GY_NUMERIC);
        assert_non_null(strstr(gy_error_text(), "dense3.bias is not finite after step 1 of 1"));
        gy_model_free(model);
    }
    assert_int_equal(rmdir(folder), 0); /* nothing is in it */
}

/* One value of one image is not a number. */
static gy_status one_nan_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                              gy_view *x, gy_view *labels)
{
    GY_TRY(points_fill(dataset, indices, count, x, labels));
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] == SAMPLES - 1) {
            ((float *)x->data)[i * WIDTH + 1] = NAN;
        }
    }
    return GY_OK;
}

/* Relu must not make 0 of it, in a layer before the last or in a convolution. */
GY_TEST(nan_in_one_image_stops_with_its_step)
{
    static const gy_dataset_ops ops = {
        .name = "one nan", .fill = one_nan_fill, .free = points_free};
    const gy_layer wide[] = {gy_layer_dense(64), gy_layer_relu(), gy_layer_dense(32),
                             gy_layer_relu(), gy_layer_dense(CLASSES)};
    const gy_layer image[] = {gy_layer_conv2d(16, 5, 2), gy_layer_relu(), gy_layer_max_pool(1),
                              gy_layer_conv2d(16, 5, 2), gy_layer_relu(), gy_layer_flatten(),
                              gy_layer_dense(CLASSES)};
    for (int kind = 0; kind < 2; kind++) {
        gy_dataset set = points();
        gy_model_options options = {.name = "points",
                                    .layers = kind == 0 ? wide : image,
                                    .layer_count = kind == 0 ? 5 : 7,
                                    .dtype = GY_F32,
                                    .input_rank = 1,
                                    .input_sizes = {WIDTH},
                                    .seed = 5,
                                    .workers = 1};
        set.ops = &ops;
        if (kind == 1) {
            const int64_t sizes[3] = {1, 1, WIDTH};
            options.input_rank = set.input_rank = 3;
            memcpy(options.input_sizes, sizes, sizeof(sizes));
            memcpy(set.input_sizes, sizes, sizeof(sizes));
        }
        gy_model *model = NULL;
        gy_train_result result;
        assert_ok(gy_model_new(&options, &model));
        assert_status(gy_train(model, &set, NULL,
                               &(gy_train_options){.epochs = 2, .batch = 10, .rate = 0.01},
                               &result),
                      GY_NUMERIC);
        assert_non_null(strstr(gy_error_text(), "not a number at step "));
        assert_non_null(
            strstr(gy_error_text(), " of 10 (epoch 1")); /* progress counts from 1 */
        gy_model_free(model);
    }
}

GY_TEST(options_out_of_range_are_named)
{
    gy_dataset set = points();
    gy_model *model = new_model(0);
    gy_train_result result;
    const struct {
        gy_train_options options;
        const char *word;
    } cases[] = {
        {{.epochs = 0, .batch = 1}, "epochs is 0"},
        {{.epochs = 1, .batch = 0}, "batch is 0"},
        {{.epochs = 1, .batch = 1, .rate = -1}, "rate is -1"},
        {{.epochs = 1, .batch = 1, .beta2 = 1}, "beta2 is 1"},
        {{.epochs = 1, .batch = 1, .resume = true}, "resume needs"},
        {{.epochs = 1, .batch = 1, .optimizer = (gy_optimizer_kind)9}, "optimizer is 9"},
        {{.epochs = 1, .batch = 1, .schedule = (gy_schedule_kind)4}, "schedule is 4"},
        {{.epochs = 1, .batch = 1, .warmup_steps = -1}, "warmup steps is -1"},
        {{.epochs = 1, .batch = 1, .clip_norm = NAN}, "clip norm is nan"},
        {{.epochs = 1, .batch = 1, .patience = 1}, "needs a test set"},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        assert_status(gy_train(model, &set, NULL, &cases[i].options, &result), GY_ARG);
        assert_non_null(strstr(gy_error_text(), cases[i].word));
    }
    set.input_sizes[0] = WIDTH + 1;
    assert_status(
        gy_train(model, &set, NULL, &(gy_train_options){.epochs = 1, .batch = 1}, &result),
        GY_SHAPE);
    gy_model_free(model);
}

GY_TEST(patience_stops_early)
{
    gy_dataset set = points();
    gy_dataset wrong = points();
    wrong.ops = &wrong_ops;
    gy_model *model = new_model(0);
    gy_train_result result;
    /* The better the model fits its set, the worse it does on one with other labels. */
    gy_train_options options = {.epochs = 100, .batch = 5, .rate = 0.1, .patience = 2};
    assert_ok(gy_train(model, &set, &wrong, &options, &result));
    assert_true(result.is_stopped_early);
    assert_in_range(result.steps, 2 * 10, 10 * 10);
    const int64_t stopped = result.steps;
    gy_train_result_free(&result);
    gy_model_free(model);
    /* Without a better loss at the end of the last epoch it is no early stop. */
    model = new_model(0);
    options.epochs = (int)(stopped / 10);
    assert_ok(gy_train(model, &set, &wrong, &options, &result));
    assert_int_equal(result.steps, stopped);
    assert_false(result.is_stopped_early);
    gy_train_result_free(&result);
    gy_model_free(model);
    /* Resumed behind an early stop it is stopped still, and says so. */
    char folder[] = "/tmp/gyre-train-XXXXXX";
    assert_non_null(mkdtemp(folder));
    options.epochs = 100;
    options.checkpoint_folder = folder;
    for (int part = 0; part < 2; part++) {
        model = new_model(0);
        options.resume = part == 1;
        assert_ok(gy_train(model, &set, &wrong, &options, &result));
        assert_int_equal(result.steps, stopped);
        assert_int_equal(result.resumed_step, part == 1 ? stopped : 0);
        assert_true(result.is_stopped_early);
        gy_train_result_free(&result);
        gy_model_free(model);
    }
    remove_folder(folder);
}

/* As many samples, but others, or an optimizer or schedule of another name. */
GY_TEST(resuming_another_training_names_what_differs)
{
    char folder[] = "/tmp/gyre-train-XXXXXX";
    assert_non_null(mkdtemp(folder));
    gy_dataset set = points(), wrong = points();
    wrong.ops = &wrong_ops;
    const gy_train_options kept = {.epochs = 1,
                                   .batch = 10,
                                   .checkpoint_folder = folder,
                                   .schedule = GY_SCHEDULE_COSINE,
                                   .resume = true};
    gy_model *model = new_model(0);
    gy_train_result result;
    assert_ok(gy_train(model, &set, NULL, &kept, &result)); /* nothing there: from the start */
    assert_int_equal(result.resumed_step, 0);
    gy_train_result_free(&result);
    gy_train_options options = kept;
    assert_status(gy_train(model, &wrong, NULL, &options, &result), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "the 50 samples of data set wrong are others now"));
    options.optimizer = GY_OPTIMIZER_ADAMW;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_MISMATCH);
    assert_non_null(
        strstr(gy_error_text(), "'optimizer sgd', this training run 'optimizer adamw'"));
    options = kept;
    options.steps = 5;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "it has no steps, this training run 'steps 5'"));
    options = kept;
    options.schedule = GY_SCHEDULE_STEP;
    assert_status(gy_train(model, &set, NULL, &options, &result), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "it has 'schedule cosine, factor 0.1 every 1'"));
    options = kept;
    assert_ok(gy_train(model, &set, NULL, &options, &result));
    assert_int_equal(result.resumed_step, 5);
    gy_train_result_free(&result);
    gy_model_free(model);
    remove_folder(folder);
}

static double rates[16];

static gy_status keep_rate(void *arg, const gy_progress *progress)
{
    (void)arg;
    rates[progress->step - 1] = progress->rate;
    return GY_OK;
}

/* What the steps of a training see, broken off and resumed between any two of them. */
GY_TEST(a_resumed_training_follows_the_same_curve)
{
    gy_dataset set = points();
    char folder[] = "/tmp/gyre-train-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int64_t stop = 1; stop < 9; stop += 3) {
        gy_train_options options = {.epochs = 3,
                                    .batch = 20, /* 3 steps an epoch, the last of 10 rows */
                                    .rate = 0.1,
                                    .schedule = GY_SCHEDULE_LINEAR,
                                    .warmup_steps = 2,
                                    .checkpoint_folder = folder,
                                    .step_limit = stop,
                                    .on_step = keep_rate};
        static const double expected[] = {0.05,    0.1,     0.1,     0.6 / 7, 0.5 / 7,
                                          0.4 / 7, 0.3 / 7, 0.2 / 7, 0.1 / 7};
        memset(rates, 0, sizeof(rates));
        for (int part = 0; part < 2; part++) {
            gy_model *model = new_model(0);
            gy_train_result result;
            assert_ok(gy_train(model, &set, NULL, &options, &result));
            assert_int_equal(result.steps, part == 0 ? stop : 9);
            gy_train_result_free(&result);
            gy_model_free(model);
            options.step_limit = 0;
            options.resume = true;
        }
        for (int i = 0; i < 9; i++) {
            assert_true(fabs(rates[i] - expected[i]) < 1e-12);
        }
        remove_folder(folder);
    }
}

GY_TEST(mnist_files_are_read_and_bad_ones_named)
{
    gy_dataset *train = NULL;
    gy_dataset *test = NULL;
    assert_status(gy_dataset_open_mnist("/nonexistent", &train, &test), GY_NOTFOUND);
    assert_non_null(strstr(gy_error_text(), "train-images-idx3-ubyte"));
    char probe[1024];
    if (gy_test_data(probe, "mnist/t10k-labels-idx1-ubyte.gz") == NULL) {
        skip();
    }
    char *end = strrchr(probe, '/');
    *end = '\0';
    assert_ok(gy_dataset_open_mnist(probe, &train, &test));
    assert_int_equal(train->count, 10000);
    assert_int_equal(test->count, 10000);
    assert_int_equal(test->input_sizes[2], 28);
    float pixels[784];
    int32_t label = -1;
    gy_view x = gy_view_of(pixels, GY_F32, (int64_t[]){1, 1, 28, 28}, 4);
    gy_view labels = gy_view_of(&label, GY_I32, (int64_t[]){1}, 1);
    assert_ok(test->ops->fill(test, (int64_t[]){0}, 1, &x, &labels));
    assert_int_equal(label, 7); /* the first digit of the test part is a seven */
    gy_dataset_free(train);
    gy_dataset_free(test);
}

GY_TEST_MAIN(NULL, NULL)
