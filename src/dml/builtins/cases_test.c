/* Goal: every builtin gives what R gives, or what SystemDS does on purpose instead; each has a
 * case at least, and refuses what it does not take. */
#include "dml/builtins/builtins.h"
#include "dml/run/run.h"

#include "gy_test.h"

/* What is computed (an expression, or statements that set x), and x as `show` writes it; behind
 * "!" a part of the refusal. */
static const struct {
    const char *text, *wanted;
} cases[] = {
#define GY_X(text, wanted) {text, wanted},
#include "dml/builtins/cases_test.def"
#undef GY_X
};

static void show_real(double real, gy_text *text)
{
    if (real != real) {
        gy_text_add(text, "nan"); /* without the sign that some have */
    } else {
        gy_text_add(text, "%.10g", real + 0.0);
    }
}

static void show_matrix(const gy_dml_matrix *matrix, gy_text *text)
{
    gy_text_add(text, "[");
    for (int64_t i = 0; i < matrix->rows && matrix->columns > 0; i++) {
        gy_text_add(text, "%s", i > 0 ? "; " : "");
        for (int64_t j = 0; j < matrix->columns; j++) {
            gy_text_add(text, "%s", j > 0 ? " " : "");
            show_real(matrix->data[i * matrix->columns + j], text);
        }
    }
    gy_text_add(text, "]");
    if (gy_dml_matrix_count(matrix) == 0) {
        gy_text_add(text, "%lldx%lld", (long long)matrix->rows, (long long)matrix->columns);
    }
}

static void show(const gy_dml_value *value, gy_text *text)
{
    if (value->kind == GY_DML_IS_MATRIX) {
        show_matrix(value->matrix, text);
    } else if (value->kind == GY_DML_IS_REAL) {
        show_real(value->real, text);
    } else {
        gy_dml_add_value(text, value);
    }
}

static void take(void *arg, const char *text, size_t size)
{
    gy_text_add_bytes(arg, text, size);
}

/* x, or what was printed; the report where the script is refused. */
static void result_of(const char *expression, gy_text *text)
{
    char script_text[1024];
    const gy_dml_value *value = NULL;
    gy_dml_script *script = NULL;
    gy_print(script_text, sizeof(script_text), "%s%s",
             strstr(expression, "x = ") != NULL || strncmp(expression, "print", 5) == 0
                 ? ""
                 : "x = ",
             expression);
    const gy_dml_script_options options = {
        .path = "case", .text = script_text, .print = take, .print_arg = text};
    gy_status status = gy_dml_script_open(&options, &script);
    status = status == GY_OK ? gy_dml_script_run(script) : status;
    if (status != GY_OK) {
        gy_text_add(text, "!%s", gy_dml_script_report(script));
    } else if (gy_dml_script_get(script, "x", &value) == GY_OK) {
        show(value, text);
    }
    gy_dml_script_close(script);
}

static void test_cases(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_text text = {.data = NULL};
        const int64_t live = gy_alloc_live();
        result_of(cases[i].text, &text);
        const char *got = gy_text_get(&text);
        const bool is_right = cases[i].wanted[0] == '!'
                                  ? got[0] == '!' && strstr(got, cases[i].wanted + 1) != NULL
                                  : strcmp(got, cases[i].wanted) == 0;
        if (!is_right) {
            print_error("%s: got %s, expected %s\n", cases[i].text, got, cases[i].wanted);
            wrong++;
        }
        gy_text_free(&text);
        if (gy_alloc_live() != live) {
            print_error("%s: leaves memory behind\n", cases[i].text);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* Whether a case calls the function. */
static bool has_case(const char *name)
{
    const size_t size = strlen(name);
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        for (const char *at = cases[i].text; (at = strstr(at, name)) != NULL; at += size) {
            const bool is_begin = at == cases[i].text || strchr(" (=-,", at[-1]) != NULL;
            if (is_begin && at[size] == '(') {
                return true;
            }
        }
    }
    return false;
}

static void test_every_builtin_has_a_case(void **state)
{
    int missing = 0;
    (void)state;
    for (int i = 0; i < gy_dml_builtin_count; i++) {
        const char *name = gy_dml_builtins[i].name;
        assert_true(i == 0 || strcmp(gy_dml_builtins[i - 1].name, name) < 0);
        assert_ptr_equal(gy_dml_builtin_find(name), &gy_dml_builtins[i]);
        if (!has_case(name)) {
            print_error("%s has no case\n", name);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_every_builtin_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
