/* Goal: a dependence between the iterations of a parfor is found before it runs, and named with
 * both places; loops whose iterations write different cells are let through. */
#include "dml/run/run.h"

#include "gy_test.h"

static gy_status run(const char *text, gy_dml_script **script)
{
    const gy_dml_script_options options = {.path = "a.dml", .text = text};
    const gy_status status = gy_dml_script_open(&options, script);
    return status == GY_OK ? gy_dml_script_run(*script) : status;
}

#define A10 "A = matrix(1, 40, 40); B = matrix(2, 40, 40)\n"

static const char *const independent[] = {
    /* scalars and matrices of an iteration's own */
    "a = 1; parfor (i in 1:(a + 9)) { b = i + a; c = b }",
    A10 "parfor (i in 1:9) { a = i; A[i, 1] = a * B[i + 1, 1] }",
    A10 "parfor (i in 1:9) { if (i > 3) { s = 1 } else { s = 2 }; A[i, 1] = s }",
    A10 "parfor (i in 1:9) { T = A[i, ] * 2; T[1, 1] = 0; A[i, ] = T }",
    A10 "parfor (i in 1:9) { for (j in 1:3) { s = j }; A[i, 1] = s }",
    A10 "parfor (i in 1:9) { k = 0; while (k < 3) { A[i, k + 1] = k; k = k + 1 } }",
    /* one cell, row or column an iteration */
    A10 "parfor (i in 1:9) { A[i, 1] = i; A[i, 2] = A[i, 1]; A[i, ] = A[i, ] + 1 }",
    A10 "parfor (i in 10:1) A[, i] = A[, i] * 2",
    A10 "parfor (i in 1:9) { A[i, i] = 1; A[i, 12] = 2 }",
    A10 "parfor (i in 1:19) { A[i + 1.0, 1] = i; A[1, i + 1.0] = i }",
    /* apart by divisors, by ends, by both */
    A10 "parfor (i in 1:9) { x = A[2 * i + 1, 1]; A[2 * i, 1] = x }",
    A10 "parfor (i in 1:9) A[i + 9, 1] = A[i, 1]",
    A10 "parfor (i in 10:15) A[i, 1] = A[i - 6, 1]",
    A10 "parfor (i in seq(1, 19, 3)) { A[i, 1] = 1; A[i + 1, 1] = 2 }",
    A10 "parfor (i in 1:2) { A[2 * i + 10, 1] = 1; A[5 * i, 1] = 2 }",
    A10 "parfor (i in 1:9) { A[1:10, i] = 1; A[11:nrow(A), i] = 2 }",
    A10 "parfor (i in 1:9) { A[(4 * i - 3):(4 * i), ] = 1 }",
    A10 "parfor (i in 1:9) { e = min(4 * i, 36); A[(4 * i - 3):e, ] = 1 }",
    A10 "parfor (i in 1:9) { b = 4 * i; A[(b - 3):b, ] = 1 }",
    /* inner loops */
    A10 "parfor (i in 1:9) { for (j in 2:9) A[i, j] = A[i, j - 1] + 1 }",
    A10 "parfor (i in 1:4) { parfor (k in 0:2) A[, 3 * i + k] = 1 }",
    A10 "for (i in 2:9) { parfor (j in 1:9) A[i, j] = A[i - 1, j] }",
    A10 "parfor (i in 1:8) { R = matrix(0, 1, 9); parfor (j in (i + 1):9) R[1, j] = i + j\n"
        "A[i, 1:9] = R }",
    A10 "parfor (i in 1:9) { for (j in 1:3) A[i, j] = 1; for (j in 4:6) A[i, j] = 2 }",
    /* ends known when the loop begins */
    A10 "n = ncol(A) / 4; parfor (i in 1:n) { A[i + n, 1] = A[i, 1] }",
    A10 "f = function(matrix[double] X, int b) return (matrix[double] Y) { Y = X\n"
        "parfor (i in 1:3) Y[(i * b + 1):((i + 1) * b), ] = Y[1:b, ] }\nC = f(A, 5)",
    /* sums and sizes */
    A10 "s = 0; parfor (i in 1:9) { s += i; A[i, 1] = nrow(A) + ncol(A) }",
    A10 "parfor (i in 1:9) A[i, 1] += i",
    /* not read again, or not there before */
    "t = 3; parfor (i in 1:9) { t = i; print(t) }; t = 4; print(t)",
    "parfor (i in 1:9) { for (j in 1:3) print(j) }; for (j in 1:2) print(j)",
    "L = list(1, 2, 3); parfor (i in 1:3) L[i] = i",
    /* the test is skipped, or one iteration alone is left */
    "a = 1; parfor (i in 1:9, check=0) a = a + i",
    A10 "parfor (i in 1:1) A[2, 1] = A[1, 1]",
};

static const struct {
    const char *text, *first, *second; /* what is reported first, and a part of the rest */
} dependent[] = {
    {"a = 1\nparfor (i in 1:9) {\n  b = a + i\n  a = b\n}",
     "a.dml:4:3: ", "a is written here, and another one reads a at line 3, column 7"},
    {"a = 1\nparfor (i in 1:9) a = i\nprint(a)", "a.dml:2:19: ", "is read after the loop"},
    {A10 "parfor (i in 2:10) A[i, 1] = B[i, 1] + A[i - 1, 1]",
     "a.dml:2:20: ", "reads A[(i - 1), 1] at line 2, column 40"},
    {A10 "parfor (i in 1:9) { A[i, 1] = 1; A[2 * i, 1] = 2 }",
     "a.dml:2:21: ", "another one writes A[(2 * i), 1]"},
    {A10 "parfor (i in 1:10) { A[2 * i + 10, 1] = 1; A[5 * i, 1] = 2 }",
     "a.dml:2:22: ", "writes"},
    {A10 "parfor (i in 1:9) { for (j in 1:9) A[1, j] = B[i, j] }",
     "a.dml:2:36: ", "is written by another one, too"},
    {A10 "parfor (i in 1:9) { parfor (j in 1:9) A[i, j] = A[i + 1, j] }",
     "a.dml:2:39: ", "reads"},
    {A10 "parfor (i in 1:9) { A[1:10, i] = 1; A[i, 5] = 2 }", "a.dml:2:21: ", "writes A[i, 5]"},
    {A10 "parfor (i in 1:9) A[i:(i + 1), 1] = matrix(1, 2, 1)", "a.dml:2:19: ", "too"},
    {A10 "parfor (i in 1:9) A[, ] = i", "a.dml:2:19: ", "too"},
    {A10 "parfor (i in 1:9) A[2, as.scalar(B[i, 1])] = i", "a.dml:2:19: ", "too"},
    {A10 "parfor (i in 1:2) A[i + 7.3, 1] = i", "a.dml:2:19: ", "too"},
    {A10 "parfor (i in 1:9) { A[i, 1] = 1; print(sum(A)) }",
     "a.dml:2:21: ", "reads A at line 2, column 44"},
    {A10 "parfor (i in 1:9) A = A + i", "a.dml:2:19: ", "reads A"},
    {A10 "parfor (i in 1:9) { A += i; B += A }", "a.dml:2:21: ", "reads A"},
    {A10 "parfor (i in 1:9) { A += i; A = B }", "a.dml:2:21: ", "A"},
    {A10 "parfor (i in 1:9) { if (i == 1) { A = B } }\nprint(sum(A))",
     "a.dml:2:35: ", "read after the loop"},
    {A10
     "f = function(matrix[double] X) return (matrix[double] a, matrix[double] b) { a = X; b "
     "= X }\nparfor (i in 2:9) [A[i - 1, 1], A[i, 1]] = f(B[i, 1])",
     "a.dml:3:20: ", "writes A[i, 1]"},
    {"L = list(1, 2, 3)\nparfor (i in 2:3) L[i] = L[i - 1]", "a.dml:2:19: ", "reads L["},
    {"s = 0\nfor (k in 1:2) {\n  parfor (i in 1:3) s = i\n  print(s)\n}",
     "a.dml:3:21: ", "after the loop"},
    {"s = 0\nwhile (s < 3) {\n  parfor (i in 1:3) s = i\n}", "a.dml:3:21: ", "after the loop"},
    /* values decide */
    {A10 "n = ncol(A) / 4; parfor (i in 1:n) A[i + n - 1, 1] = A[i, 1]",
     "a.dml:2:36: ", "reads"},
    {A10 "b = 3; if (nrow(A) > 1) { b = 2 }\n"
         "parfor (i in 1:3) A[(i * b + 1):(i * b + 3), ] = matrix(1, 3, 40)",
     "a.dml:3:19: ", "too"},
    /* options */
    {"parfor (i in 1:3, chek=0) print(i)", "a.dml:1:19: ", "parfor has no option chek\n"},
    {"parfor (i in 1:3, mode=REMOTE) print(i)", "a.dml:1:24: ", "expected LOCAL, REMOTE_SPARK"},
    {"parfor (i in 1:3, check=2) print(i)", "a.dml:1:25: ", "check has no such value"},
};

static void test_independent(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(independent); i++) {
        gy_dml_script *script = NULL;
        if (run(independent[i], &script) != GY_OK) {
            fail_msg("%s:\n%s", independent[i], gy_dml_script_report(script));
        }
        gy_dml_script_close(script);
    }
}

static void test_dependent(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(dependent); i++) {
        gy_dml_script *script = NULL;
        assert_int_equal(run(dependent[i].text, &script), GY_ARG);
        const char *report = gy_dml_script_report(script);
        if (strstr(report, dependent[i].first) != report ||
            strstr(report, dependent[i].second) == NULL) {
            fail_msg("%s:\n%s", dependent[i].text, report);
        }
        gy_dml_script_close(script);
    }
}

/* ---- random loops beside all their cells ---- */

typedef struct subscript {
    int i, j, constant;
} subscript;

typedef struct box {
    subscript row[2], column; /* row[0] : row[1] */
} box;

static int value_of(const subscript *of, int i, int j)
{
    return of->i * i + of->j * j + of->constant;
}

static subscript draw(gy_random *random)
{
    return (subscript){.i = (int)gy_random_below(random, 4),
                       .j = (int)gy_random_below(random, 3),
                       .constant = 1 + (int)gy_random_below(random, 4)};
}

static box draw_box(gy_random *random)
{
    box of = {.row = {draw(random)}, .column = draw(random)};
    of.row[1] = of.row[0];
    of.row[1].constant += gy_random_below(random, 2) == 0 ? 0 : (int)gy_random_below(random, 3);
    return of;
}

static void show(gy_text *text, const box *of)
{
    gy_text_add(text, "A[(%d*i + %d*j + %d):(%d*i + %d*j + %d), %d*i + %d*j + %d]",
                of->row[0].i, of->row[0].j, of->row[0].constant, of->row[1].i, of->row[1].j,
                of->row[1].constant, of->column.i, of->column.j, of->column.constant);
}

static bool meets(const box *a, int i, int j, const box *b, int k, int l)
{
    return value_of(&a->column, i, j) == value_of(&b->column, k, l) &&
           value_of(&a->row[0], i, j) <= value_of(&b->row[1], k, l) &&
           value_of(&b->row[0], k, l) <= value_of(&a->row[1], i, j);
}

typedef struct ends {
    int i[2], j[2];
} ends;

static bool depends(const box *write, const box *other, const ends *of)
{
    for (int i = of->i[0]; i <= of->i[1]; i++) {
        for (int k = of->i[0]; k <= of->i[1]; k++) {
            for (int j = of->j[0]; j <= of->j[1] && i != k; j++) {
                for (int l = of->j[0]; l <= of->j[1]; l++) {
                    if (meets(write, i, j, other, k, l)) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}

/* No dependence is missed; most loops without one are let through. Half the loops learn their
 * ends only when they run. */
static void test_random_loops(void **state)
{
    gy_random random = {.key = gy_test_seed()};
    int free_count = 0, passed = 0;
    (void)state;
    for (int n = 0; n < 600; n++) {
        const box write = draw_box(&random), read = draw_box(&random);
        ends of = {.i = {1 + (int)gy_random_below(&random, 3)},
                   .j = {(int)gy_random_below(&random, 3)}};
        of.i[1] = of.i[0] + (int)gy_random_below(&random, 4);
        of.j[1] = of.j[0] + (int)gy_random_below(&random, 3);
        gy_text text = {.data = NULL};
        gy_text_add(&text,
                    "A = matrix(0, 60, 60); z = %s\nparfor (i in (%d + z):(%d + z)) { for "
                    "(j in (%d + z):(%d + z)) {\n",
                    n % 2 == 0 ? "0" : "ncol(A) - 60", of.i[0], of.i[1], of.j[0], of.j[1]);
        show(&text, &write);
        gy_text_add(&text, " = 1\nx = ");
        show(&text, &read);
        gy_text_add(&text, "\n} }");
        gy_dml_script *script = NULL;
        const bool must_fail = depends(&write, &read, &of) || depends(&write, &write, &of);
        const gy_status status = run(gy_text_get(&text), &script);
        if (must_fail && status != GY_ARG) {
            fail_msg("missed:\n%s", gy_text_get(&text));
        }
        free_count += !must_fail;
        passed += status == GY_OK;
        gy_dml_script_close(script);
        gy_text_free(&text);
    }
    print_message("%d of %d independent loops are let through\n", passed, free_count);
    assert_true(passed * 10 >= free_count * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_independent),
        cmocka_unit_test(test_dependent),
        cmocka_unit_test(test_random_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
