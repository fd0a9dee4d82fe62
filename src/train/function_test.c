/* Goal: a model that is a function trains, is saved, resumed and loaded as a list of layers is;
 * labels and inputs have any shape and element type. */
#include "train/train_priv.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"
#include "training_kit.h"

enum { SIDE = 6, SAMPLES = 40, WORDS = 7, WINDOW = 5, TEXTS = 30 };

/* ---- images: the same network as layers and as a function ---- */

static const gy_layer layers[] = {
    {.kind = GY_LAYER_FLATTEN},
    {.kind = GY_LAYER_DENSE, .units = 12},
    {.kind = GY_LAYER_BATCH_NORM},
    {.kind = GY_LAYER_RELU},
    {.kind = GY_LAYER_DROPOUT, .rate = 0.25},
    {.kind = GY_LAYER_DENSE, .units = KIT_CLASSES},
};

static gy_status layers_as_function(void *arg, gy_model_builder *builder, gy_node x,
                                    gy_node *logits)
{
    static const char *const names[] = {"flatten0", "dense1",   "batch_norm2",
                                        "relu3",    "dropout4", "dense5"};
    int *calls = arg;
    *calls += 1;
    for (size_t i = 0; i < GY_COUNT(layers); i++) {
        x = gy_model_layer(builder, names[i], layers[i], x);
    }
    *logits = x;
    return GY_OK;
}

static int calls;

static gy_model *image_model(bool is_function)
{
    gy_model_options options =
        GY_OPTIONS(gy_model_options, .name = "both", .dtype = GY_F64, .input_rank = 3,
                   .input_sizes = {1, SIDE, SIDE}, .seed = 3, .workers = 1);
    if (is_function) {
        options.build = layers_as_function;
        options.arg = &calls;
    } else {
        options.layers = layers;
        options.layer_count = GY_COUNT(layers);
    }
    gy_model *model = NULL;
    assert_ok(gy_model_new(&options, &model));
    return model;
}

GY_TEST(a_function_has_the_bits_of_its_layers)
{
    gy_dataset set = kit_digits(SAMPLES, SIDE);
    const gy_train_options options = GY_OPTIONS(gy_train_options, .epochs = 3, .batch = 8,
                                                .optimizer = GY_OPTIMIZER_ADAM, .seed = 2);
    gy_model *both[2];
    gy_train_result results[2];
    double loss[2], accuracy[2];
    calls = 0;
    for (int k = 0; k < 2; k++) {
        both[k] = image_model(k == 1);
        assert_ok(gy_train(both[k], &set, &set, &options, &results[k]));
        assert_ok(gy_model_evaluate(both[k], &set, 7, &loss[k], &accuracy[k], NULL));
    }
    assert_int_equal(calls, 4); /* two forms when it is made, and when it is trained */
    assert_int_equal(results[0].steps, 15);
    assert_memory_equal(results[0].losses, results[1].losses, 15 * sizeof(double));
    assert_true(loss[0] == loss[1] && accuracy[0] == accuracy[1]);
    assert_int_equal(both[0]->slot_count, both[1]->slot_count);
    assert_int_equal(gy_model_class_count(both[1]), KIT_CLASSES);
    for (int k = 0; k < 2; k++) {
        gy_train_result_free(&results[k]);
        gy_model_free(both[k]);
    }
}

GY_TEST(a_layer_of_a_function_is_not_frozen_by_its_place)
{
    gy_model *model = image_model(true);
    assert_status(gy_model_freeze(model, 1, true), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "model both is a function"));
    gy_model_free(model);
}

/* A training that cannot begin leaves the model as it was, and of use. */
GY_TEST(a_model_outlives_a_build_that_failed)
{
    gy_dataset set = kit_digits(SAMPLES, SIDE);
    gy_model *model = image_model(false);
    gy_train_result result;
    double before[2], after[2];
    assert_ok(gy_model_evaluate(model, &set, SAMPLES, &before[0], &before[1], NULL));
    for (int i = 0; i < (int)GY_COUNT(layers); i++) {
        assert_ok(gy_model_freeze(model, i, true));
    }
    assert_status(gy_train(model, &set, NULL,
                           &GY_OPTIONS(gy_train_options, .epochs = 1, .batch = 8), &result),
                  GY_ARG);
    assert_non_null(strstr(gy_error_text(), "all are frozen"));
    assert_ok(gy_model_evaluate(model, &set, SAMPLES, &after[0], &after[1], NULL));
    assert_memory_equal(before, after, sizeof(before));
    gy_model_free(model);
}

/* ---- words: integers in, a label for each ---- */

/* Word t of text i, and, at WINDOW, the label of the last. */
static int32_t word_at(int64_t text, int64_t at)
{
    return (int32_t)((text * 3 + at * (1 + text % 2)) % WORDS);
}

static gy_status words_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                            gy_view *x, gy_view *labels)
{
    (void)dataset;
    assert_int_equal(x->dtype, GY_I32);
    for (int64_t i = 0; i < count * WINDOW; i++) {
        ((int32_t *)x->data)[i] = word_at(indices[i / WINDOW], i % WINDOW);
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = word_at(indices[i / WINDOW], i % WINDOW + 1);
        }
    }
    return GY_OK;
}

static const gy_dataset_ops words_ops = {.name = "words", .fill = words_fill, .free = kit_free};

static gy_dataset words(void)
{
    return (gy_dataset){.ops = &words_ops,
                        .count = TEXTS,
                        .classes = WORDS,
                        .input_rank = 1,
                        .input_sizes = {WINDOW},
                        .input_dtype = GY_I32,
                        .label_rank = 1,
                        .label_sizes = {WINDOW}};
}

/* An embedding, a layer, and the embedding again as the head: its weights are tied. */
static gy_status tied(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    const int64_t sizes[2] = {WORDS, 8};
    const gy_init normal = {.kind = GY_INIT_NORMAL, .scale = 0.5};
    (void)arg;
    gy_node table = gy_model_parameter(builder, "table", sizes, 2, normal);
    gy_node h = gy_op_embedding(table, x);
    h = gy_op_add(h, gy_model_layer(builder, "inner", gy_layer_dense(8), h));
    gy_node again = gy_model_parameter(builder, "table", sizes, 2, normal);
    *logits = gy_op_matmul_transposed(h, false, again, true);
    return GY_OK;
}

static gy_model_options tied_options(void)
{
    return GY_OPTIONS(gy_model_options, .name = "tied", .dtype = GY_F64, .input_rank = 1,
                      .input_sizes = {WINDOW}, .seed = 4, .workers = 1, .build = tied,
                      .configuration = "width 8", .input_dtype = GY_I32, .label_rank = 1,
                      .label_sizes = {WINDOW});
}

static gy_status train_tied(kit_rank *me)
{
    gy_dataset set = words();
    gy_model_options options = tied_options();
    double *losses = (double *)me->arg + (ptrdiff_t)10 * me->rank;
    gy_model *model = NULL;
    gy_train_result result;
    options.comm = me->comm;
    GY_TRY(gy_model_new(&options, &model));
    gy_status status =
        gy_train(model, &set, &set,
                 &GY_OPTIONS(gy_train_options, .epochs = 2, .batch = 6, .rate = 0.05,
                             .optimizer = GY_OPTIMIZER_ADAM, .seed = 1),
                 &result);
    if (status == GY_OK) {
        GY_ASSERT(result.steps == 10);
        memcpy(losses, result.losses, 9 * sizeof(double));
        losses[9] = result.test_loss + result.test_accuracy;
        gy_train_result_free(&result);
    }
    gy_model_free(model);
    return status;
}

/* On one rank, on two, and on four, of which one has a row more than another. */
GY_TEST(labels_of_each_word_give_the_same_losses_on_any_ranks)
{
    static double losses[3][KIT_RANKS_MAX * 10];
    static const int ranks[] = {1, 2, 4};
    for (int k = 0; k < 3; k++) {
        kit_rank members[KIT_RANKS_MAX];
        kit_run_ranks(ranks[k], train_tied, losses[k], members);
        for (int r = 0; r < ranks[k]; r++) {
            assert_int_equal(members[r].error.status, GY_OK);
            for (int i = 0; i < 10; i++) {
                assert_true(fabs(losses[k][10 * r + i] - losses[0][i]) < 1e-11);
            }
        }
    }
    assert_true(fabs(losses[0][0] - log(WORDS)) < 1.5); /* a mean over the labels */
}

/* Loss, accuracy and predictions against what gy_model_predict says of each text. */
GY_TEST(means_are_over_labels)
{
    gy_dataset set = words();
    gy_model_options options = tied_options();
    gy_model *model = NULL;
    gy_tensor *x = NULL, *out = NULL;
    int32_t texts[TEXTS * WINDOW], labels[TEXTS * WINDOW], predicted[TEXTS * WINDOW];
    int64_t indices[TEXTS];
    double loss = 0, accuracy = 0, sum = 0, right = 0;
    for (int64_t i = 0; i < TEXTS; i++) {
        indices[i] = i;
    }
    const int64_t sizes[2] = {TEXTS, WINDOW};
    gy_view inputs = gy_view_of(texts, GY_I32, sizes, 2);
    gy_view known = gy_view_of(labels, GY_I32, sizes, 2);
    assert_ok(words_fill(&set, indices, TEXTS, &inputs, &known));
    assert_ok(gy_model_new(&options, &model));
    assert_ok(gy_model_evaluate(model, &set, 7, &loss, &accuracy, predicted));
    assert_ok(gy_tensor_from(NULL, GY_I32, sizes, 2, texts, &x));
    assert_ok(gy_model_predict(model, x, &out));
    assert_int_equal(gy_tensor_rank(out), 3);
    assert_int_equal(gy_tensor_size(out, 2), WORDS);
    for (int64_t i = 0; i < (int64_t)TEXTS * WINDOW; i++) {
        sum -= gy_tensor_get(out, i * WORDS + labels[i]);
        right += predicted[i] == labels[i];
        for (int64_t w = 0; w < WORDS; w++) {
            assert_true(gy_tensor_get(out, i * WORDS + w) <=
                        gy_tensor_get(out, i * WORDS + predicted[i]));
        }
    }
    assert_true(fabs(loss - sum / (TEXTS * WINDOW)) < 1e-6);
    assert_true(fabs(accuracy - right / (TEXTS * WINDOW)) < 1e-12);
    gy_tensor_drop(x);
    gy_tensor_drop(out);
    gy_model_free(model);
}

static void temporary(char path[32])
{
    snprintf(path, 32, "/tmp/gyre-function-XXXXXX");
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
}

GY_TEST(a_file_is_loaded_with_the_function_of_its_model)
{
    gy_dataset set = words();
    gy_model_options options = tied_options(), none = {.workers = 1};
    gy_model *model = NULL, *loaded = NULL;
    double loss[2], accuracy[2];
    char path[32];
    temporary(path);
    assert_ok(gy_model_new(&options, &model));
    assert_ok(gy_model_evaluate(model, &set, 8, &loss[0], &accuracy[0], NULL));
    assert_ok(gy_model_save(model, path, NULL));
    gy_model_free(model);
    gy_model_options own = {.workers = 1, .build = tied};
    assert_ok(gy_model_load(path, &own, &loaded));
    assert_ok(gy_model_evaluate(loaded, &set, 8, &loss[1], &accuracy[1], NULL));
    assert_true(loss[0] == loss[1] && accuracy[0] == accuracy[1]);
    assert_string_equal(gy_model_metadata(loaded, "gyre.configuration"), "width 8");
    gy_model_free(loaded);
    assert_status(gy_model_load(path, &none, &loaded), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "model tied is one of a function"));
    own.configuration = "width 9";
    assert_status(gy_model_load(path, &own, &loaded), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "'width 8', expected 'width 9'"));
    own = (gy_model_options){.workers = 1, .build = layers_as_function, .arg = &calls};
    assert_status(gy_model_load(path, &own, &loaded), GY_TYPE); /* dense of integers */
    model = image_model(false);
    assert_ok(gy_model_save(model, path, NULL));
    assert_status(gy_model_load(path, &own, &loaded), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "is a list of layers"));
    gy_model_free(model);
    unlink(path);
}

GY_TEST(a_function_resumes_its_own_checkpoint_alone)
{
    gy_dataset set = words();
    gy_model_options own = tied_options();
    char folder[] = "/tmp/gyre-function-XXXXXX", path[96];
    gy_train_result whole, part;
    gy_model *model = NULL;
    assert_non_null(mkdtemp(folder));
    gy_train_options options =
        GY_OPTIONS(gy_train_options, .epochs = 2, .batch = 6, .rate = 0.05);
    assert_ok(gy_model_new(&own, &model));
    assert_ok(gy_train(model, &set, NULL, &options, &whole));
    gy_model_free(model);
    options.checkpoint_folder = folder;
    options.step_limit = 4;
    for (int k = 0; k < 2; k++) {
        assert_ok(gy_model_new(&own, &model));
        assert_ok(gy_train(model, &set, NULL, &options, &part));
        gy_model_free(model);
        options.resume = true;
        options.step_limit = 0;
        if (k == 0) {
            gy_train_result_free(&part);
        }
    }
    assert_int_equal(part.resumed_step, 4);
    assert_memory_equal(part.losses, whole.losses, 10 * sizeof(double));
    own.configuration = "width 8 or so";
    assert_ok(gy_model_new(&own, &model));
    gy_train_result_free(&part);
    assert_status(gy_train(model, &set, NULL, &options, &part), GY_MISMATCH);
    assert_non_null(strstr(gy_error_text(), "function tied: width 8 or so"));
    gy_model_free(model);
    gy_train_result_free(&whole);
    for (int step = 5; step <= 10; step += 5) {
        snprintf(path, sizeof(path), "%s/step-%012d.safetensors", folder, step);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* ---- what does not fit ---- */

/* What the function below gets wrong. */
typedef enum slip {
    NO_LOGITS,
    RANK,
    SIZE_AGAIN,
    NO_NAME,
    LONG_NAME,
    NAME_OF_LOSSES,
    OWN_FAILURE,
    LAYER_KIND,
    SLIPS
} slip;

static gy_status slipping(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits)
{
    const int64_t sizes[2] = {WORDS, WORDS}, others[2] = {WORDS, WORDS + 1};
    const slip kind = *(const slip *)arg;
    char name[200];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    gy_node table = gy_model_parameter(builder, "table", sizes, 2, gy_init_glorot());
    gy_node made = gy_op_embedding(table, x);
    if (kind == OWN_FAILURE) {
        return gy_fail(GY_LIMIT, "too much");
    }
    if (kind == SIZE_AGAIN) {
        (void)gy_model_parameter(builder, "table", others, 2, gy_init_glorot());
    } else if (kind == NO_NAME || kind == LONG_NAME || kind == NAME_OF_LOSSES) {
        made = gy_op_add(made, gy_model_parameter(builder,
                                                  kind == NO_NAME     ? ""
                                                  : kind == LONG_NAME ? name
                                                                      : "losses",
                                                  NULL, 0, gy_init_zeros()));
    } else if (kind == RANK) {
        made = gy_op_sum(made, 2, false);
    } else if (kind == LAYER_KIND) {
        made = gy_model_layer(builder, "odd", (gy_layer){.kind = (gy_layer_kind)77}, made);
    }
    if (kind != NO_LOGITS) {
        *logits = made;
    }
    return GY_OK;
}

GY_TEST(functions_that_do_not_fit_are_named)
{
    static const struct {
        slip slip;
        gy_status status;
        const char *text;
    } cases[] = {
        {NO_LOGITS, GY_ARG, "its function gave no logits"},
        {RANK, GY_SHAPE, "expected the sizes of the labels"},
        {SIZE_AGAIN, GY_SHAPE, "table has sizes [7,7] and is named again with [7,8]"},
        {NO_NAME, GY_ARG, "expected a name of 1 to 79 bytes"},
        {LONG_NAME, GY_ARG, "expected a name of 1 to 79 bytes"},
        {NAME_OF_LOSSES, GY_ARG, "checkpoints keep the losses"},
        {OWN_FAILURE, GY_LIMIT, "too much"},
        {LAYER_KIND, GY_ARG, "layer odd is of kind 77"},
    };
    assert_int_equal(GY_COUNT(cases), SLIPS);
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_model_options options = tied_options();
        gy_model *model = NULL;
        slip kind = cases[i].slip;
        options.build = slipping;
        options.arg = &kind;
        assert_status(gy_model_new(&options, &model), cases[i].status);
        assert_non_null(strstr(gy_error_text(), cases[i].text));
    }
    gy_model_options both = tied_options(), many = tied_options(), none = tied_options();
    gy_model *model = NULL;
    both.layers = layers;
    both.layer_count = 1;
    many.label_rank = GY_TENSOR_RANK_MAX - 1;
    none.label_sizes[0] = 0;
    assert_status(gy_model_new(&both, &model), GY_ARG);
    assert_status(gy_model_new(&many, &model), GY_ARG);
    assert_status(gy_model_new(&none, &model), GY_ARG);
    assert_non_null(strstr(gy_error_text(), "label size 0"));
}

GY_TEST(sets_of_other_kinds_are_refused)
{
    gy_model_options options = tied_options();
    gy_dataset set = words();
    gy_model *model = NULL;
    double loss = 0, accuracy = 0;
    assert_ok(gy_model_new(&options, &model));
    set.input_dtype = GY_DTYPE_NONE;
    assert_status(gy_model_evaluate(model, &set, 4, &loss, &accuracy, NULL), GY_TYPE);
    assert_non_null(strstr(gy_error_text(), "has samples of f64, model tied takes i32"));
    set = words();
    set.label_sizes[0] = WINDOW - 1;
    assert_status(gy_model_evaluate(model, &set, 4, &loss, &accuracy, NULL), GY_SHAPE);
    assert_non_null(strstr(gy_error_text(), "has labels [4] a sample, model tied [5]"));
    gy_model_free(model);
}

GY_TEST_MAIN(NULL, NULL)
