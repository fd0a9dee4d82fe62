/* Goal: a parfor gives what its iterations give in any order, on any number of threads; one
 * whose iterations depend on each other is refused with both places. */
#include "dml/run/run_priv.h"

#include "gy_test.h"

static void take(void *arg, const char *text, size_t size)
{
    gy_text_add_bytes(arg, text, size);
}

static gy_status run(const char *text, gy_dml_script **script, gy_text *printed)
{
    const gy_dml_script_options options = {
        .path = "a.dml", .text = text, .print = take, .print_arg = printed};
    gy_status status = gy_dml_script_open(&options, script);
    if (status == GY_OK) {
        (*script)->main.state.random = (gy_random){.key = 7};
        status = gy_dml_script_run(*script);
    }
    return status;
}

/* ---- what loops give ---- */

static const struct {
    const char *text, *wanted;
} results[] = {
    {"acc = 0; parfor (i in 1:10) acc += i; print(acc)", "55\n"},
    {"acc = 1.5; parfor (i in 1:10) { acc += i; acc += 0.5 }; print(acc)", "61.5\n"},
    {"s = \"\"; parfor (i in 1:12) s += i + \",\"; print(s)", "1,2,3,4,5,6,7,8,9,10,11,12,\n"},
    /* zeros written over ones stay zero */
    {"A = matrix(1, 4, 3); parfor (i in 1:3) A[i, ] = matrix(0, 1, 3); print(sum(A))", "3.0\n"},
    {"A = matrix(1, 4, 3); parfor (i in 1:3, check=0) A[i, ] = matrix(0, 1, 3); print(sum(A))",
     "3.0\n"},
    /* who holds the matrix besides keeps its own */
    {"A = matrix(1, 3, 3); B = A; parfor (i in 1:3) A[i, i] = 5; print(sum(A) + \" \" + "
     "sum(B))",
     "21.0 9.0\n"},
    /* sums of matrices, of a scalar that grows into one */
    {"A = matrix(7, 2, 2); B = matrix(3, 2, 2); parfor (i in 1:10) { A += i; A += i * B }\n"
     "print(sum(A))",
     "908.0\n"},
    {"n = 0; parfor (i in 1:5) { parfor (j in 1:4) n += i * j }; print(n)", "150\n"},
    {"R = matrix(0, 4, 3); parfor (i in 1:4) { s = 0; for (j in 1:3) { s += i * j; R[i, j] = s "
     "} }; print(sum(R)); print(as.scalar(R[4, 3]))",
     "100.0\n24.0\n"},
    /* prints come in the order of the iterations */
    {"parfor (i in 3:1) print(i)", "3\n2\n1\n"},
    {"parfor (i in seq(1, 9, 4)) { parfor (j in 1:2) print(i + \" \" + j) }",
     "1 1\n1 2\n5 1\n5 2\n9 1\n9 2\n"},
    {"parfor (i in seq(0.5, 1.5, 0.5)) print(i)", "0.5\n1.0\n1.5\n"},
    {"parfor (i in 1:0, check=1) print(i)", "1\n0\n"},
    {"parfor (i in seq(1, 0, 1)) print(i); print(\"end\")", "end\n"},
    /* values of an iteration are its own */
    {"t = 5; parfor (i in 1:3) { t = i; print(t) }; t = 6; print(t)", "1\n2\n3\n6\n"},
    {"parfor (i in 1:3) { i = i * 10; print(i) }", "10\n20\n30\n"},
    {"L = list(1, 2, 3); parfor (i in 1:3) L[i] = as.scalar(L[i]) * 10; print(L)",
     "List (10, 20, 30)\n"},
    /* functions, recursion, eval */
    {"f = function(double x) return (double y) { y = x * 2 }\n"
     "A = matrix(0, 1, 8); parfor (i in 1:8) A[1, i] = f(i); print(sum(A))",
     "72.0\n"},
    {"f = function(double x) return (double y) { y = x * 2 }\n"
     "g = function(double x) return (double y) { y = eval(\"f\", x) + 1 }\n"
     "A = matrix(0, 1, 40); parfor (i in 1:40) A[1, i] = eval(\"g\", i); print(sum(A))",
     "1680.0\n"},
    {"f = function(int n) return (matrix[double] M) { M = matrix(0, n, n)\n"
     "parfor (i in 1:n) { M[i, ] = matrix(i, 1, n) } }\n"
     "s = 0; parfor (k in 1:5) s += sum(f(k)); print(s)",
     "140.0\n"},
    /* check=0: what differs from before is taken, the last iteration's of several */
    {"x = 1; parfor (i in 1:40, check=0) x = i; print(x)", "40\n"},
    {"A = matrix(0, 1, 4); parfor (i in 1:40, check=0) A[1, i %% 4 + 1] = i; "
     "print(toString(A, decimal=0))",
     "40 37 38 39\n\n"},
    {"A = matrix(0/0, 2, 2); parfor (i in 1:2, check=0) A[i, 1] = i; print(sum(A[, 1]))",
     "3.0\n"},
    /* options */
    {"n = 0; k = 1; parfor (i in 1:9, par=k+1, mode=LOCAL, opt=CONSTRAINED, tasksize=3, "
     "taskpartitioner=factoring, resultmerge=LOCAL_MEM, datapartitioner=NONE, log=DEBUG, "
     "profile=0) n += i; print(n)",
     "45\n"},
    /* ends that are known at the loop's start alone */
    {"n = nrow(matrix(0, 6, 1)); b = n / 3; A = matrix(0, 6, 1)\n"
     "parfor (i in 1:3) A[((i - 1) * b + 1):(i * b), ] = matrix(i, b, 1)\n"
     "print(sum(A))",
     "12.0\n"},
    {"n = length(matrix(0, 5, 1)); A = matrix(1, 2 * n, 1); parfor (i in 1:n) A[i + n, 1] = "
     "A[i, 1] + 1; print(sum(A))",
     "15.0\n"},
};

static void test_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(results); i++) {
        gy_dml_script *script = NULL;
        gy_text printed = {.data = NULL};
        const int64_t live = gy_alloc_live();
        if (run(results[i].text, &script, &printed) != GY_OK) {
            fail_msg("%s: %s", results[i].text, gy_dml_script_report(script));
        }
        if (strcmp(gy_text_get(&printed), results[i].wanted) != 0) {
            fail_msg("%s: printed %s", results[i].text, gy_text_get(&printed));
        }
        gy_dml_script_close(script);
        gy_text_free(&printed);
        assert_int_equal(gy_alloc_live(), live);
    }
}

/* ---- the same on any number of threads ---- */

/* %d: the limit. Sums of parts that rounding would tell apart, and draws without a seed. */
static const char spread_text[] =
    "X = rand(rows=40, cols=7); s = 0; S = matrix(0, 7, 7); R = matrix(0, 100, 3)\n"
    "parfor (i in 1:100, par=%d) { s += sum(X) / i; S += t(X) %%*%% X / i; "
    "R[i, ] = rand(rows=1, cols=3); if (i %%%% 9 == 0) print(i + \" \" + sum(R[i, ])) }\n"
    "print(s); print(toString(S, decimal=17)); print(sum(R)); print(sum(rand(rows=2, cols=2)))";

static void test_threads(void **state)
{
    gy_text first = {.data = NULL};
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        char text[1024];
        gy_text printed = {.data = NULL};
        gy_dml_script *script = NULL;
        gy_print(text, sizeof(text), spread_text, threads);
        if (run(text, &script, &printed) != GY_OK) {
            fail_msg("%s", gy_dml_script_report(script));
        }
        gy_dml_script_close(script);
        if (threads == 1) {
            first = printed;
            continue;
        }
        assert_string_equal(gy_text_get(&printed), gy_text_get(&first));
        gy_text_free(&printed);
    }
    gy_text_free(&first);
}

/* The first iteration that fails ends the script; those before it have printed. */
static void test_failures(void **state)
{
    static const struct {
        const char *text, *printed, *report;
    } cases[] = {
        {"parfor (i in 1:200) {\nif (i >= 3) {\nstop(\"at \" + i)\n}\nprint(i)\n}", "1\n2\n",
         "a.dml:3:1: stopped: at 3\n"},
        {"f = function(int i) return (int y) { y = i; if (i > 5) { stop(\"f\" + i) } }\n"
         "n = 0; parfor (i in 1:200) n += f(i)",
         "", "a.dml:1:58: stopped: f6\n"},
        {"parfor (i in 1:20) { parfor (j in 1:20) { if (i + j == 30) { stop(i + \" \" + j) } } "
         "}",
         "", "a.dml:1:62: stopped: 10 20\n"},
        {"n = 0; parfor (i in 1:3, par=0) n += i", "", "a.dml:1:8: parfor: par is 0"},
        {"parfor (i in 1:3) x = eval(\"nosuch\", i)", "",
         "a.dml:1:23: eval: there is no function nosuch"},
        {"f = function(int x) return (int y) { y = z1 }\nparfor (i in 1:50) x = eval(\"f\", i)",
         "", "a.dml:1:42: z1 is not defined"},
        {"parfor (i in 1:3) { if (i == 2) { t = i }; y = t }", "",
         "a.dml:1:48: t has no value"},
        {"parfor (i in 1:3) A[i, 1] = i", "", "a.dml:1:19: A has no value"},
    };
    (void)state;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_dml_script *script = NULL;
        gy_text printed = {.data = NULL};
        const int64_t live = gy_alloc_live();
        assert_true(run(cases[i].text, &script, &printed) < 0);
        assert_string_equal(gy_text_get(&printed), cases[i].printed);
        const char *report = gy_dml_script_report(script);
        if (strncmp(report, cases[i].report, strlen(cases[i].report)) != 0) {
            fail_msg("%s: %s", cases[i].text, report);
        }
        gy_dml_script_close(script);
        gy_text_free(&printed);
        assert_int_equal(gy_alloc_live(), live);
    }
}

/* Each allocation fails once: the script ends in GY_NOMEM and leaves nothing behind. */
static void test_no_memory(void **state)
{
    static const char text[] =
        "f = function(double x) return (double y) { y = x * 2 }\n"
        "A = matrix(0, 4, 2); s = matrix(0, 1, 2); L = list(1, 2, 3, 4); M = matrix(1, 2, 2)\n"
        "parfor (i in 1:4, par=1) { A[i, ] = matrix(f(i), 1, 2); s += A[i, ]; L[i] = \"a\" + "
        "i\n"
        "  parfor (j in 1:2, par=1) s += eval(\"f\", j); print(i) }\n"
        "parfor (i in 1:4, check=0, par=1) { M = M + i }; print(sum(A) + sum(s) + sum(M))";
    const int64_t live = gy_alloc_live();
    long failures = 0, successes = 0;
    (void)state;
    for (long n = 1; successes < 20; n++) {
        gy_dml_script *script = NULL;
        gy_text printed = {.data = NULL};
        gy_alloc_fail_after(n);
        const gy_status status = run(text, &script, &printed);
        gy_alloc_fail_after(0);
        const bool has_report = script == NULL || gy_dml_script_report(script)[0] != '\0';
        gy_dml_script_close(script);
        gy_text_free(&printed);
        if (gy_alloc_live() != live) {
            fail_msg("allocation %ld fails: %lld stay behind", n,
                     (long long)(gy_alloc_live() - live));
        }
        if (status != GY_OK && !has_report) {
            fail_msg("allocation %ld fails: no report", n);
        }
        failures += status != GY_OK;
        successes = status != GY_OK ? 0 : successes + 1;
    }
    assert_in_range(failures, 100, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
