/* Goal: <gyre/script.h> runs a text with tensors in and out, and tells what ended it. */
#include <gyre/script.h>

#include "base/base.h"

#include "gy_test.h"

static void take(void *arg, const char *text, size_t size_bytes)
{
    gy_text_add_bytes(arg, text, size_bytes);
}

static void test_tensors(void **state)
{
    const int64_t live = gy_alloc_live();
    static const double cells[] = {1, 2, 3, 4, 5, 6};
    gy_text printed = {.data = NULL};
    gy_tensor *x = NULL, *y = NULL, *n = NULL;
    gy_script *script = NULL;
    gy_script_options options = GY_OPTIONS(
        gy_script_options, .text = "y = X %*% t(X); n = nrow(X); print(n)\nX = y * 0",
        .print = take, .print_arg = &printed);
    (void)state;
    assert_int_equal(gy_tensor_from(NULL, GY_F64, (int64_t[]){2, 3}, 2, cells, &x), GY_OK);
    assert_int_equal(gy_script_new(&options, &script), GY_OK);
    assert_int_equal(gy_script_set(script, "z", x), GY_NOTFOUND);
    assert_int_equal(gy_script_set(script, "X", x), GY_OK);
    assert_int_equal(gy_script_run(script), GY_OK);
    assert_int_equal(gy_script_run(script), GY_STATE);
    assert_string_equal(gy_script_report(script), "");
    assert_int_equal(gy_script_get(script, "y", &y), GY_OK);
    assert_int_equal(gy_script_get(script, "n", &n), GY_OK);
    gy_script_free(script);
    assert_int_equal(gy_tensor_size(y, 1), 2);
    assert_true(gy_tensor_get(y, 1) == 32 && gy_tensor_get(n, 0) == 2);
    assert_true(gy_tensor_get(x, 0) == 1); /* it was copied */
    assert_string_equal(gy_text_get(&printed), "2\n");
    gy_text_free(&printed);
    gy_tensor_drop(x);
    gy_tensor_drop(y);
    gy_tensor_drop(n);
    assert_int_equal(gy_alloc_live(), live);
}

static void test_refusals(void **state)
{
    gy_script *script = NULL;
    gy_tensor *x = NULL;
    gy_script_options options = GY_OPTIONS(gy_script_options, .text = "x = (1");
    (void)state;
    assert_int_equal(gy_script_new(&options, &script), GY_FORMAT);
    assert_non_null(strstr(gy_script_report(script), "text:1:7: expected ')'"));
    gy_script_free(script);
    options.text = NULL;
    assert_int_equal(gy_script_new(&options, &script), GY_ARG);
    assert_null(script);
    options.struct_size = 3;
    assert_int_equal(gy_script_new(&options, &script), GY_ARG);
    options = GY_OPTIONS(gy_script_options, .text = "x = 1; y = \"a\"");
    assert_int_equal(gy_script_new(&options, &script), GY_OK);
    assert_int_equal(gy_tensor_zeros(NULL, GY_F32, (int64_t[]){1, 1}, 2, &x), GY_OK);
    assert_int_equal(gy_script_set(script, "x", x), GY_TYPE);
    gy_tensor_drop(x);
    assert_int_equal(gy_script_get(script, "x", &x), GY_NOTFOUND);
    assert_int_equal(gy_script_run(script), GY_OK);
    assert_int_equal(gy_script_get(script, "y", &x), GY_TYPE);
    gy_script_free(script);
    gy_script_free(NULL);
}

/* Statements one by one: variables and functions stay, failures end what failed alone. */
static void test_inputs(void **state)
{
    static const struct {
        const char *text;
        gy_status status;
        const char *printed;
    } inputs[] = {
        {"n = 2; X = matrix(1, 2, 2)", GY_OK, ""},
        {"f = function(int a) return (int b) {", GY_AGAIN, ""},
        {"f = function(int a) return (int b) { b = g(a) }", GY_OK, ""},
        {"f(3)", GY_NOTFOUND, ""},
        {"g = function(int a) return (int b) { b = a + 1 }", GY_OK, ""},
        {"f(3)", GY_OK, "4\n"},
        {"X[1, 1] = 5; X[3, 1] = 1", GY_ARG, ""},
        {"sum(X) + n", GY_OK, "10.0\n"},
        {"k = 7; [n, 3]", GY_OK, "List (2, 3)\n"},
        {"for (i in 1:2) { abs(-1); print(k * i) }", GY_OK, "7\n14\n"},
        {"x = 'a", GY_AGAIN, ""},
        {"/* a", GY_AGAIN, ""},
        {"X[1, ", GY_AGAIN, ""},
        {"1 + )", GY_FORMAT, ""},
        {"g = function(int a) return (int b) { b = a * 100 }; g(n)", GY_OK, "200\n"},
        {"eval('g', 3)", GY_OK, "300\n"},
        {"s = 0; parfor (i in 1:4) s += i", GY_OK, ""},
        {"s", GY_OK, "10\n"},
    };
    const int64_t live = gy_alloc_live();
    gy_text printed = {.data = NULL};
    gy_script *script = NULL;
    gy_tensor *x = NULL;
    gy_script_options options = GY_OPTIONS(gy_script_options, .text = "", .print = take,
                                           .print_arg = &printed, .statistics = true);
    (void)state;
    assert_int_equal(gy_script_new(&options, &script), GY_OK);
    for (size_t i = 0; i < GY_COUNT(inputs); i++) {
        const gy_status status = gy_script_input(script, inputs[i].text);
        if (status != inputs[i].status ||
            strcmp(gy_text_get(&printed), inputs[i].printed) != 0) {
            fail_msg("%s: %d, printed %s, %s", inputs[i].text, (int)status,
                     gy_text_get(&printed), gy_script_report(script));
        }
        gy_text_free(&printed);
        printed = (gy_text){.data = NULL};
    }
    assert_int_equal(gy_script_get(script, "X", &x), GY_OK);
    assert_true(gy_tensor_get(x, 0) == 5);
    gy_tensor_drop(x);
    char *statistics = gy_script_statistics(script, 3);
    assert_non_null(strstr(statistics, "heavy hitters"));
    gy_string_free(statistics);
    gy_script_free(script);
    assert_int_equal(gy_alloc_live(), live);
}

static void test_help(void **state)
{
    char *all = gy_script_help(NULL), *one = gy_script_help("diag");
    (void)state;
    assert_non_null(strstr(all, "solve(A, b)\n"));
    assert_non_null(strstr(one, "diag(X)\n    a diagonal matrix"));
    assert_null(gy_script_help("nosuch"));
    gy_string_free(all);
    gy_string_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
