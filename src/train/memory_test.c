/* Goal: each allocation of opening data, loading a model, labelling and plotting fails once, in
 * turn: the answer is GY_NOMEM, nothing stays behind, and the next try goes well. */
#include "train/language/language_priv.h"
#include "train/train_priv.h"

#include <gyre/demo/language.h>
#include <gyre/gpt.h>
#include <gyre/report.h>

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

enum { SIDE = 4, IMAGES = 12 };
static char folder[64];

static const char *in_folder(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void write_idx(const char *name, int rank, size_t bytes)
{
    static const uint8_t head[16] = {0, 0, 8, 0, 0, 0, 0, IMAGES, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    char path[128];
    FILE *file = fopen(in_folder(name, path), "wb");
    assert_non_null(file);
    fwrite(head, 1, 3, file);
    fputc(rank, file);
    fwrite(head + 4, 1, 4 * (size_t)rank, file);
    for (size_t i = 0; i < bytes; i++) {
        fputc((int)(i % 10), file);
    }
    assert_int_equal(fclose(file), 0);
}

static int open_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-memory-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    write_idx("train-images-idx3-ubyte", 3, (size_t)IMAGES * SIDE * SIDE);
    write_idx("train-labels-idx1-ubyte", 1, IMAGES);
    write_idx("t10k-images-idx3-ubyte", 3, (size_t)IMAGES * SIDE * SIDE);
    write_idx("t10k-labels-idx1-ubyte", 1, IMAGES);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    char path[128];
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        unlink(in_folder(names[i], path));
    }
    return rmdir(folder); /* fails when something else was left there */
}

typedef gy_status (*attempt)(void *arg);

/* Fail the first, the second, … allocation until one attempt needs none of those; later ones
 * are sampled. */
static void refuse_in_turn(const char *what, attempt try_once, void *arg, int least)
{
    assert_ok(try_once(arg)); /* what is made once a process is made now */
    int64_t live = gy_alloc_live();
    int refused = 0, in_a_row = 0;
    for (int64_t n = 1; n < 100000 && in_a_row < 3; n += 1 + n / 64) {
        gy_alloc_fail_after(n);
        gy_status status = try_once(arg);
        gy_alloc_fail_after(0);
        if (status != GY_OK && status != GY_NOMEM) {
            fail_msg("%s, allocation %lld: %s (%s)", what, (long long)n, gy_status_text(status),
                     gy_error_text());
        }
        if (gy_alloc_live() != live) {
            fail_msg("%s, allocation %lld: %lld stay", what, (long long)n,
                     (long long)(gy_alloc_live() - live));
        }
        refused += status == GY_NOMEM;
        in_a_row = status == GY_OK ? in_a_row + 1 : 0;
    }
    printf("%s: refused %d times\n", what, refused);
    assert_true(refused >= least);
    assert_ok(try_once(arg));
}

static gy_status open_pair(void *arg)
{
    gy_dataset *dataset = NULL;
    char images[128], labels[128];
    (void)arg;
    GY_TRY(gy_dataset_open_idx(in_folder("train-images-idx3-ubyte", images),
                               in_folder("train-labels-idx1-ubyte", labels), &dataset));
    gy_dataset_free(dataset);
    return GY_OK;
}

static gy_status open_digits(void *arg)
{
    gy_dataset *train = NULL, *test = NULL;
    (void)arg;
    GY_TRY(gy_dataset_open_mnist(folder, &train, &test));
    gy_dataset_free(train);
    gy_dataset_free(test);
    return GY_OK;
}

GY_TEST(data_sets)
{
    refuse_in_turn("a pair of files", open_pair, NULL, 6);
    refuse_in_turn("the digits", open_digits, NULL, 12);
}

static gy_status plot(void *arg)
{
    static const double y[3] = {1, 3, 2};
    char path[128];
    const gy_series series = {.name = "a & b", .y = y, .count = 3};
    const gy_plot picture = {
        .title = "t", .x_label = "x", .y_label = "y", .series = &series, .series_count = 1};
    (void)arg;
    gy_status status = gy_plot_save(&picture, in_folder("plot.svg", path));
    bool is_there = access(path, F_OK) == 0;
    (void)unlink(path);
    return status == GY_NOMEM && is_there ? gy_fail(GY_STATE, "half a plot stays") : status;
}

GY_TEST(plots)
{
    refuse_in_turn("a plot", plot, NULL, 2);
}

static gy_status load(void *arg)
{
    gy_model *model = NULL;
    GY_TRY(gy_model_load(arg, &(gy_model_options){.workers = 1}, &model));
    gy_model_free(model);
    return GY_OK;
}

GY_TEST(models)
{
    char path[128];
    gy_model *model = NULL;
    static const char *const names[] = {"a", "b", "c"};
    static const gy_layer layers[] = {{.kind = GY_LAYER_FLATTEN},
                                      {.kind = GY_LAYER_DENSE, .units = 5},
                                      {.kind = GY_LAYER_RELU},
                                      {.kind = GY_LAYER_DENSE, .units = 3}};
    const gy_model_options options = {.name = "named",
                                      .layers = layers,
                                      .layer_count = 4,
                                      .dtype = GY_F32,
                                      .input_rank = 3,
                                      .input_sizes = {1, SIDE, SIDE},
                                      .class_names = names,
                                      .class_count = 3,
                                      .seed = 1,
                                      .workers = 1};
    assert_ok(gy_model_new(&options, &model));
    assert_ok(gy_model_save(model, in_folder("model", path), NULL));
    gy_model_free(model);
    refuse_in_turn("a model", load, path, 40);
    assert_int_equal(unlink(path), 0);
}

static gy_status predict(void *arg)
{
    static float pixels[2 * SIDE * SIDE];
    const int64_t sizes[4] = {2, 1, SIDE, SIDE};
    gy_tensor *x = NULL, *out = NULL;
    gy_status status = gy_tensor_new(NULL, GY_F32, sizes, 4, &x);
    if (status == GY_OK) {
        gy_view view = gy_tensor_pin(x);
        memcpy(view.data, pixels, sizeof(pixels));
        gy_tensor_unpin(x);
        status = gy_model_predict(arg, x, &out);
    }
    gy_tensor_drop(x);
    gy_tensor_drop(out);
    return status;
}

GY_TEST(predictions)
{
    gy_model *model = NULL;
    const gy_model_options options = {.dtype = GY_F32,
                                      .input_rank = 3,
                                      .input_sizes = {1, SIDE, SIDE},
                                      .seed = 1,
                                      .workers = 1};
    assert_ok(gy_model_named("softmax", &options, 10, &model));
    refuse_in_turn("a prediction", predict, model, 3);
    gy_model_free(model);
}

/* What `gyre predict` does with lines and with a file. */
static gy_status label(void *arg)
{
    const char *path = arg;
    const gy_sample lines[2] = {{.text = "int main(void)", .size_bytes = 14},
                                {.text = "", .size_bytes = 0}};
    gy_language_verdict verdicts[2], whole;
    gy_model *model = NULL;
    GY_TRY(gy_language_open(path, &model));
    gy_status status = gy_language_label_lines(model, lines, 2, verdicts);
    if (status == GY_OK) {
        char text[128];
        status = gy_language_label_file(model, in_folder("text", text), &whole);
    }
    gy_model_free(model);
    return status;
}

GY_TEST(labels_of_a_language)
{
    char path[128], text[128];
    gy_model *model = NULL;
    const gy_model_options options = {.dtype = GY_F32, .seed = 7, .workers = 1};
    assert_ok(gy_language_model(&options, &model));
    assert_ok(gy_model_save(model, in_folder("language", path), gy_language_metadata()));
    gy_model_free(model);
    FILE *file = fopen(in_folder("text", text), "wb");
    assert_non_null(file);
    fputs("first line of text\nsecond line of text\n", file);
    assert_int_equal(fclose(file), 0);
    refuse_in_turn("labels", label, path, 100);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(text), 0);
}

static gy_status open_text(void *arg)
{
    gy_dataset *train = NULL, *test = NULL;
    GY_TRY(gy_dataset_open_text((const char *[]){arg, NULL}, 3, &train, &test));
    gy_dataset_free(train);
    gy_dataset_free(test);
    return GY_OK;
}

/* What `gyre generate` does. */
static gy_status write_text(void *arg)
{
    gy_model *model = NULL;
    GY_TRY(gy_model_load(arg, &(gy_model_options){.workers = 1}, &model));
    gy_status status =
        gy_gpt_generate(model, "ab", &GY_OPTIONS(gy_generate_options, .length = 2));
    gy_model_free(model);
    return status;
}

GY_TEST(texts)
{
    char path[128];
    gy_dataset *train = NULL, *test = NULL;
    gy_model *model = NULL;
    FILE *file = fopen(in_folder("text", path), "wb");
    assert_non_null(file);
    for (int i = 0; i < 50; i++) {
        fputs("ab\n", file);
    }
    assert_int_equal(fclose(file), 0);
    refuse_in_turn("a text", open_text, path, 10);
    assert_ok(gy_dataset_open_text((const char *[]){path, NULL}, 3, &train, &test));
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .input_sizes = {3}, .class_names = train->class_names,
                   .class_count = train->classes, .workers = 1);
    assert_ok(gy_gpt_new(&GY_OPTIONS(gy_gpt_options, .layers = 1, .width = 4, .heads = 2),
                         &base, &model));
    gy_dataset_free(train);
    gy_dataset_free(test);
    assert_ok(gy_model_save(model, path, NULL));
    gy_model_free(model);
    refuse_in_turn("a gpt that writes", write_text, path, 80);
    assert_int_equal(unlink(path), 0);
}

GY_TEST_MAIN(open_folder, close_folder)
