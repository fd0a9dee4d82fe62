/* Goal: layers go through their text and back, and what cannot is refused. */
#include "train/train_priv.h"

#include <string.h>
#include <unistd.h>

#include "gy_test.h"

enum { WIDTH = 4, CLASSES = 3 };

GY_TEST(layer_texts_round_trip_and_refuse)
{
    static const char text[] =
        "conv2d 32 5 0 2; relu; max_pool 2 2 0; flatten; dense 512; dropout 0.5; "
        "batch_norm 0.25 0.001; dense 10";
    gy_layer *layers = NULL;
    int count = 0;
    assert_ok(gy_train_layers_parse(text, &layers, &count));
    assert_int_equal(count, 8);
    gy_text out = {.data = NULL};
    gy_train_layers_text(layers, count, &out);
    assert_string_equal(gy_text_get(&out), text);
    gy_text_free(&out);
    gy_free(layers);
    static const char *const bad[] = {"",
                                      "dense",
                                      "dense 0",
                                      "dense 1e99",
                                      "soup 3",
                                      "dropout 1",
                                      "relu 4",
                                      "dense 3 relu",
                                      "conv2d 32",
                                      "max_pool 0 1 1",
                                      "batch_norm",
                                      "batch_norm 2 1e-5",
                                      "batch_norm 0.1 -1"};
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        assert_status(gy_train_layers_parse(bad[i], &layers, &count), GY_FORMAT);
    }
}

/* What is made can be saved and loaded; the rest is refused when it is made. */
GY_TEST(what_no_file_could_hold_is_refused)
{
    static const gy_layer layers[] = {
        {.kind = GY_LAYER_DROPOUT, .rate = 0.9999999},
        {.kind = GY_LAYER_DROPOUT, .rate = -1},
        {.kind = GY_LAYER_DENSE},
        {.kind = GY_LAYER_BATCH_NORM, .momentum = 1.5},
        {.kind = GY_LAYER_BATCH_NORM, .epsilon = -1e-5},
        {.kind = (gy_layer_kind)99},
    };
    gy_model *model = NULL;
    const gy_layer only = gy_layer_dense(2);
    const gy_model_options plain =
        GY_OPTIONS(gy_model_options, .layers = &only, .layer_count = 1, .input_rank = 1,
                   .input_sizes = {WIDTH});
    assert_ok(gy_model_new(&plain, &model)); /* of float32, for no element type is said */
    assert_int_equal(model->dtype, GY_F32);
    gy_model_free(model);
    model = NULL;
    gy_model_options options = {.layers = layers,
                                .layer_count = 1,
                                .dtype = GY_F64,
                                .input_rank = 1,
                                .input_sizes = {WIDTH}};
    for (size_t i = 0; i < GY_COUNT(layers); i++) {
        options.layers = &layers[i];
        assert_status(gy_model_new(&options, &model), GY_ARG);
        assert_non_null(strstr(gy_error_text(), "model: "));
    }
}

/* Characters are names of classes, and one of them is a line end. */
GY_TEST(names_of_classes_go_through_a_file)
{
    static const char *const names[2][CLASSES] = {{"a\\nb", "c\\", "\xc3\xa9"},
                                                  {"\n", "\\n\n", "\r\x01\""}};
    const gy_layer dense = gy_layer_dense(CLASSES);
    char path[] = "/tmp/gyre-names-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    for (int k = 0; k < 2; k++) {
        gy_model *model = NULL;
        assert_ok(gy_model_new(&GY_OPTIONS(gy_model_options, .layers = &dense, .layer_count = 1,
                                           .input_rank = 1, .input_sizes = {WIDTH},
                                           .class_names = names[k], .class_count = CLASSES,
                                           .workers = 1),
                               &model));
        assert_ok(gy_model_save(model, path, NULL));
        gy_model_free(model);
        assert_ok(gy_model_load(path, NULL, &model));
        assert_string_equal(gy_model_metadata(model, "gyre.format"), k == 0 ? "1" : "2");
        for (int i = 0; i < CLASSES; i++) {
            assert_string_equal(gy_model_class_name(model, i), names[k][i]);
        }
        gy_model_free(model);
    }
    unlink(path);
}

GY_TEST_MAIN(NULL, NULL)
