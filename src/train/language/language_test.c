/* Goal: the job's data set holds the features of its lines, a model goes through a file and
 * back to the same labels, files of other models are refused, labels survive odd input. */
#include "train/language/language_priv.h"

#include "base/base.h"
#include "train/language/corpus_priv.h"
#include "train/language/ngrams.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-language-XXXXXX");
    return mkdtemp(folder) == NULL ? 1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t size_bytes)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size_bytes, file), size_bytes);
    fclose(file);
}

static gy_model *new_model(void)
{
    gy_model *model = NULL;
    gy_model_options options = {.dtype = GY_F32, .seed = 7, .workers = 1};
    assert_ok(gy_language_model(&options, &model));
    return model;
}

static gy_sample sample_of(const char *text)
{
    return (gy_sample){.text = text, .size_bytes = (int32_t)strlen(text)};
}

GY_TEST(rows_are_the_features_in_both_types)
{
    const gy_sample samples[2] = {sample_of("int x;"), sample_of("import os, sys")};
    const int64_t sizes[2] = {2, GY_NGRAM_WIDTH};
    static float narrow[2 * GY_NGRAM_WIDTH], expected[GY_NGRAM_WIDTH];
    static double wide[2 * GY_NGRAM_WIDTH];
    gy_view x32 = gy_view_of(narrow, GY_F32, sizes, 2);
    gy_view x64 = gy_view_of(wide, GY_F64, sizes, 2);
    gy_language_rows(samples, 2, &x32);
    gy_language_rows(samples, 2, &x64);
    for (int row = 0; row < 2; row++) {
        gy_train_ngrams_row(samples[row].text, (size_t)samples[row].size_bytes, GY_NGRAM_WIDTH,
                            expected);
        assert_memory_equal(narrow + row * GY_NGRAM_WIDTH, expected, sizeof(expected));
        for (int i = 0; i < GY_NGRAM_WIDTH; i++) {
            assert_true(wide[row * GY_NGRAM_WIDTH + i] == (double)expected[i]);
        }
    }
}

GY_TEST(a_saved_model_says_the_same)
{
    const gy_sample lines[3] = {sample_of("#include <stdio.h>"), sample_of(""),
                                sample_of("the quick brown fox")};
    gy_language_verdict before[3], after[3];
    gy_model *model = new_model();
    assert_ok(gy_language_label_lines(model, lines, 3, before));
    assert_ok(gy_model_save(model, in_folder("model"), gy_language_metadata()));
    gy_model_free(model);
    assert_ok(gy_language_open(in_folder("model"), &model));
    assert_string_equal(gy_model_class_name(model, GY_LANGUAGE_PERL), "Perl");
    assert_ok(gy_language_label_lines(model, lines, 3, after));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(before[i].language, after[i].language);
        assert_true(before[i].probability == after[i].probability);
        assert_true(after[i].probability >= 0.2 && after[i].probability <= 1);
    }
    gy_model_free(model);
    unlink(in_folder("model"));
}

GY_TEST(other_models_are_refused)
{
    gy_model *model = NULL;
    gy_model_options options = {
        .dtype = GY_F32, .input_rank = 3, .input_sizes = {1, 4, 4}, .seed = 1, .workers = 1};
    assert_ok(gy_model_named("softmax", &options, 10, &model));
    assert_ok(gy_model_save(model, in_folder("digits"), NULL));
    gy_model_free(model);
    model = NULL;
    assert_status(gy_language_open(in_folder("digits"), &model), GY_TYPE);
    assert_non_null(strstr(gy_error_text(), "'softmax', expected 'language'"));
    unlink(in_folder("digits"));

    gy_model *language = new_model();
    const char *const other[] = {"features", "words", NULL};
    assert_ok(gy_model_save(language, in_folder("words"), other));
    gy_model_free(language);
    assert_status(gy_language_open(in_folder("words"), &model), GY_TYPE);
    assert_non_null(strstr(gy_error_text(), "'words'"));
    unlink(in_folder("words"));
    assert_null(model);
    assert_status(gy_language_open(in_folder("nothing"), &model), GY_NOTFOUND);
}

GY_TEST(odd_files_are_labelled_or_refused)
{
    gy_model *model = new_model();
    gy_language_verdict verdict;
    write_file("empty", "", 0);
    assert_ok(gy_language_label_file(model, in_folder("empty"), &verdict));
    assert_int_equal(verdict.lines, 0);
    assert_true(verdict.probability == 0);
    unlink(in_folder("empty"));
    write_file("two", "first line of text\n12\nsecond line of text\n", 41);
    assert_ok(gy_language_label_file(model, in_folder("two"), &verdict));
    assert_int_equal(verdict.lines, 2);
    unlink(in_folder("two"));
    write_file("nul", "some text\0more", 14);
    assert_status(gy_language_label_file(model, in_folder("nul"), &verdict), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "offset 9"));
    unlink(in_folder("nul"));
    assert_status(gy_language_label_file(model, folder, &verdict), GY_IO);
    gy_model_free(model);
}

GY_TEST(the_recipe_fills_only_what_is_open)
{
    gy_train_options options = {.optimizer = GY_OPTIMIZER_ADAM};
    gy_language_recipe(&options);
    assert_true(options.epochs > 0 && options.batch > 0 && options.rate > 0);
    gy_train_options given = {.optimizer = GY_OPTIMIZER_SGD, .epochs = 1, .batch = 3};
    gy_language_recipe(&given);
    assert_int_equal(given.epochs, 1);
    assert_int_equal(given.batch, 3);
    assert_true(given.rate == 0);
}

GY_TEST_MAIN(make_folder, remove_folder)
