/* Goal: rows of a libsvm file are samples with their zeros, a tenth of them the test; logistic
 * regression of them goes the way of one written by hand. */
#include "train/train.h"

#include "base/base.h"

#include <gyre/data.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

enum { ROWS = 43, FEATURES = 6 };

static char path[64];

/* Row i has feature j (from 0) when i + j is no multiple of 3, with value (i + j) % 5 + 0.5. */
static double value_of(int row, int feature)
{
    return (row + feature) % 3 == 0 ? 0 : (row + feature) % 5 + 0.5;
}

static int label_of(int row)
{
    return row % 7 < 3;
}

static int write_rows(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/gyre-rows-XXXXXX");
    const int file = mkstemp(path);
    FILE *out = fdopen(file, "w");
    if (file < 0 || out == NULL) {
        return 1;
    }
    for (int i = 0; i < ROWS; i++) {
        fprintf(out, "%s", label_of(i) ? "+1" : "-1");
        for (int j = 0; j < FEATURES; j++) {
            if (value_of(i, j) > 0) {
                fprintf(out, " %d:%g", j + 1, value_of(i, j));
            }
        }
        fprintf(out, "\n");
    }
    return fclose(out);
}

static int remove_rows(void **state)
{
    (void)state;
    return unlink(path);
}

static void check_sample(gy_dataset *set, int64_t index, int row)
{
    double x[FEATURES];
    int32_t label = 7;
    gy_view view = gy_view_of(x, GY_F64, (int64_t[]){1, FEATURES}, 2);
    gy_view known = gy_view_of(&label, GY_I32, (int64_t[]){1}, 1);
    memset(x, 0x55, sizeof(x));
    assert_ok(set->ops->fill(set, &index, 1, &view, &known));
    assert_int_equal(label, label_of(row));
    for (int j = 0; j < FEATURES; j++) {
        assert_true(x[j] == value_of(row, j));
    }
}

GY_TEST(every_tenth_row_is_a_test)
{
    gy_dataset *train = NULL, *test = NULL;
    int next = 0;
    assert_ok(gy_dataset_open_libsvm(path, &train, &test));
    assert_int_equal(train->count, 39);
    assert_int_equal(test->count, 4);
    assert_int_equal(train->classes, 2);
    assert_int_equal(train->input_sizes[0], FEATURES);
    for (int row = 0; row < ROWS; row++) {
        if (row % 10 == 9) {
            check_sample(test, row / 10, row);
        } else {
            check_sample(train, next++, row);
        }
    }
    gy_dataset_free(train); /* what both share lives on */
    check_sample(test, 1, 19);
    gy_dataset_free(test);
}

/* Full batches of plain gradient descent, written out. */
static void descend(double w[FEATURES + 1], int steps, double rate)
{
    memset(w, 0, (FEATURES + 1) * sizeof(*w));
    for (int step = 0; step < steps; step++) {
        double g[FEATURES + 1] = {0};
        for (int i = 0; i < ROWS; i++) {
            double z = w[FEATURES];
            for (int j = 0; j < FEATURES; j++) {
                z += w[j] * value_of(i, j);
            }
            const double error = 1 / (1 + exp(-z)) - label_of(i);
            for (int j = 0; j <= FEATURES && i % 10 != 9; j++) {
                g[j] += error * (j < FEATURES ? value_of(i, j) : 1) / 39;
            }
        }
        for (int j = 0; j <= FEATURES; j++) {
            w[j] -= rate * g[j];
        }
    }
}

GY_TEST(logistic_regression_is_that_by_hand)
{
    gy_dataset *train = NULL, *test = NULL;
    gy_model *model = NULL;
    gy_train_result result;
    double w[FEATURES + 1];
    assert_ok(gy_dataset_open_libsvm(path, &train, &test));
    const gy_model_options options = {
        .dtype = GY_F64, .input_rank = 1, .input_sizes = {FEATURES}, .seed = 1, .workers = 1};
    assert_ok(gy_model_named("logistic", &options, 2, &model));
    assert_ok(gy_train(model, train, test,
                       &(gy_train_options){.steps = 30, .batch = 39, .rate = 0.1}, &result));
    descend(w, 30, 0.1);
    gy_tensor *weight = gy_session_parameter(gy_model_session(model), "weight");
    gy_tensor *bias = gy_session_parameter(gy_model_session(model), "bias");
    for (int j = 0; j < FEATURES; j++) {
        assert_true(fabs(gy_tensor_get(weight, j) - w[j]) < 1e-12);
    }
    assert_true(fabs(gy_tensor_get(bias, 0) - w[FEATURES]) < 1e-12);
    gy_train_result_free(&result);
    gy_model_free(model);
    assert_status(gy_model_named("logistic", &options, 3, &model), GY_ARG);
    assert_string_equal(gy_error_text(), "model logistic: 3 classes, expected 2");
    gy_dataset_free(train);
    gy_dataset_free(test);
}

static void expect_failure(const char *text, gy_status status, const char *says)
{
    gy_dataset *train = NULL, *test = NULL;
    char name[80], expected[256];
    snprintf(name, sizeof(name), "%s.bad", path);
    assert_ok(gy_save_file(name, text, strlen(text)));
    assert_status(gy_dataset_open_libsvm(name, &train, &test), status);
    snprintf(expected, sizeof(expected), "%s%s", name, says);
    assert_string_equal(gy_error_text(), expected);
    assert_int_equal(unlink(name), 0);
}

GY_TEST(files_that_do_not_fit_are_named)
{
    expect_failure("1 1:1\n-1 2:1\n", GY_FORMAT, ": 2 rows, expected 10 or more");
    expect_failure("1 1:1\n1 1:1\n1 1:1\n1 1:1\n1 1:1\n1 1:1\n1 1:1\n1 1:1\n1 1:1\n1 1:1\n",
                   GY_FORMAT, ": all rows have label 1, expected two or more");
    expect_failure("1 1048577:1\n", GY_LIMIT, ": 1048577 features, expected 1 to 1048576");
    expect_failure("1 0:1\n", GY_FORMAT,
                   ":1:3: '0': expected an index of 1 to 9223372036854775807");
}

GY_TEST_MAIN(write_rows, remove_rows)
