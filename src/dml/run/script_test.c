/* Goal: the language does what SystemDS's does, seen from a script's text and what it prints;
 * what is wrong in a script is refused with its place. */
#include "dml/run/run.h"

#include "gy_test.h"

static gy_text printed;
static bool is_quiet; /* what is printed is dropped */

static void take(void *arg, const char *text, size_t size)
{
    (void)arg;
    if (!is_quiet) {
        gy_text_add_bytes(&printed, text, size);
    }
}

static gy_status run(const char *text, gy_dml_script **script)
{
    static const char *const args[] = {"7", "word", "2.5", "TRUE"};
    static const char *const named[] = {"k=3", "name=\"a b\""};
    gy_text_free(&printed);
    printed = (gy_text){.data = NULL};
    const gy_dml_script_options options = {.path = "a.dml",
                                           .text = text,
                                           .args = args,
                                           .arg_count = 4,
                                           .named = named,
                                           .named_count = 2,
                                           .print = take};
    const gy_status status = gy_dml_script_open(&options, script);
    return status == GY_OK ? gy_dml_script_run(*script) : status;
}

typedef struct script_case {
    const char *text, *wanted;
} script_case;

static void expect_all(const script_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gy_dml_script *script = NULL;
        const int64_t live = gy_alloc_live();
        if (run(cases[i].text, &script) != GY_OK) {
            fail_msg("%s: %s", cases[i].text, gy_dml_script_report(script));
        }
        if (strcmp(gy_text_get(&printed), cases[i].wanted) != 0) {
            fail_msg("%s: printed %s", cases[i].text, gy_text_get(&printed));
        }
        gy_dml_script_close(script);
        gy_text_free(&printed);
        printed = (gy_text){.data = NULL};
        assert_int_equal(gy_alloc_live(), live);
    }
}

static const script_case scalars[] = {
    {"print(7 %/% 2); print(-7 %/% 2); print(5 %% 0); print(-7 %% 3)", "3\n-4\nNaN\n2\n"},
    {"print(1/4); print(4/2); print(2^3); print(1e7); print(1e-3); print(9.9e-4)",
     "0.25\n2.0\n8.0\n1.0E7\n0.001\n9.9E-4\n"},
    {"print(27.0); print(100); print(0.1+0.2); print(1/3)",
     "27.0\n100\n0.30000000000000004\n0.3333333333333333\n"},
    {"print(TRUE); print(!TRUE); print(TRUE & FALSE | TRUE); print(TRUE + TRUE)",
     "TRUE\nFALSE\nTRUE\n2.0\n"},
    {"print(1 < 2.5); print(\"a\" == \"a\"); print(\"a\" < \"b\"); print(1 != 1)",
     "TRUE\nTRUE\nTRUE\nFALSE\n"},
    {"print(\"n=\" + 3 + \", \" + 2.50 + TRUE)", "n=3, 2.5TRUE\n"},
    {"print(1/0); print(-1/0); print(0/0); print(Inf - Inf); print(pi)",
     "Infinity\n-Infinity\nNaN\nNaN\n3.141592653589793\n"},
    {"x = 3; x += 4; print(x); x = x * 1.0; print(x)", "7\n7.0\n"},
    {"print($1 + 1); print($2); print($3 * 2); print($4); print($k); print($name)",
     "8\nword\n5.0\nTRUE\n3\na b\n"},
    {"print(ifdef($k, 9)); print(ifdef($none, 9)); print(ifdef($9, \"d\"))", "3\n9\nd\n"},
    {"print(\"%d and %.2f: %s\", 3, 1.005, \"t\")", "3 and 1.00: t\n"},
    {"a = 2; print(exists(a)); print(exists(b)); if (a > 5) { b = 1 }", "TRUE\nFALSE\n"},
    {"print(-2^2); print(2^3^2); print(-(3)); print(+3)", "-4.0\n512.0\n-3\n3\n"},
};

static const script_case flow[] = {
    {"for (i in 1:3) print(i)", "1\n2\n3\n"},
    {"for (i in 3:1) print(i)", "3\n2\n1\n"},
    {"for (i in seq(1, 10, 4)) print(i)", "1\n5\n9\n"},
    {"for (i in seq(0.5, 1.5, 0.5)) print(i)", "0.5\n1.0\n1.5\n"},
    {"for (i in 1:(6/2)) { i = i * 10; print(i) }", "10\n20\n30\n"},
    {"for (i in seq(3, 1, 1)) print(i); print(\"end\")", "end\n"},
    {"acc = 0; parfor (i in 1:10, check=0) acc += i; print(acc)", "55\n"},
    {"i = 0; while (i < 3) { i = i + 1; if (i == 2) print(\"two\") else print(i) }",
     "1\ntwo\n3\n"},
    {"if (as.matrix(1)) print(\"yes\"); if (0) print(\"no\") else print(\"else\")",
     "yes\nelse\n"},
    {"n = 0; for (i in 1:3) for (j in 1:i) n += j; print(n)", "10\n"},
};

static const script_case functions[] = {
    {"f = function(double a, int b=2, int c=3) return (double s) { s = a*100 + b*10 + c }\n"
     "print(f(1)); print(f(c=9, a=1)); print(f(1, 5) + 1)",
     "123.0\n129.0\n154.0\n"},
    {"f = function(int n) return (int r) { if (n < 2) r = 1 else r = n * f(n - 1) }\n"
     "print(f(10))",
     "3628800\n"},
    {"f = function(double x) return (double a, double b) { a = x + 1; b = x + 2 }\n"
     "[p, q] = f(1); print(p + q); X = as.matrix(0); [X[1,1], r] = f(5); print(toString(X)); "
     "print(r)",
     "5.0\n6.000\n\n7.0\n"},
    {"f = function(matrix[double] X) return (matrix[double] Y) { X[1,1] = 9; Y = X }\n"
     "A = as.matrix(1); B = f(A); print(as.scalar(A) + as.scalar(B))",
     "10.0\n"},
    {"sum = function(double x) return (double y) { y = 42 }\nprint(sum(1))", "42\n"},
    {"g = function() { print(\"in g\") }\ng(); x = g()", "in g\nin g\n"},
    {"f = function(int x) return (int y) { y = x }\nprint(f(2.9)); print(f(as.matrix(4)))",
     "2\n4\n"},
    {"f = function(double x, double y = x * 2) return (double z) { z = x + y }\nprint(f(3))",
     "9.0\n"},
    {"f = function(double x, double y) return (double z) { z = x - y }\n"
     "print(eval(\"f\", 5, 3)); print(eval(\"f\", list(y=5, x=3))); print(eval(\"abs\", -3))",
     "2.0\n-2.0\n3\n"},
    {"f = function(double x) return (double a, double b) { a = x; b = -x }\n"
     "l = evalList(\"f\", list(4)); print(length(l)); print(as.scalar(l[\"b\"]))",
     "2\n-4.0\n"},
    /* a list into a range takes its items' places, and names where both have them */
    {"l = list(a=1, b=2, c=3); l[1] = list(f=5); l[\"f\"] = 6; l[2:3] = list(7, 8)\n"
     "print(length(l)); print(as.scalar(l[\"f\"])); print(as.scalar(l[\"c\"]))",
     "3\n6\n8\n"},
};

/* Both sides of & and | are computed, as in SystemDS and in R: no operator decides what runs.
 */
static const script_case both_sides[] = {
    {"f = function(boolean x) return (boolean y) { print(\"f\" + x); y = x }\n"
     "a = f(FALSE) & f(TRUE); b = f(TRUE) | f(FALSE); print(a); print(b)\n"
     "if (f(TRUE) | f(TRUE)) print(\"in\")",
     "fFALSE\nfTRUE\nfTRUE\nfFALSE\nFALSE\nTRUE\nfTRUE\nfTRUE\nin\n"},
};

static const script_case values[] = {
    {"l = list(a=1, b=\"q\"); print(l); print(as.scalar(l[\"b\"])); print(as.scalar(l[1]) + 1)",
     "List (a=1, b=q)\nq\n2\n"},
    {"l = list(1, 2, 3); m = l; l[2] = 7; print(l); print(m); l[2:3] = list(8, 9); print(l)",
     "List (1, 7, 3)\nList (1, 2, 3)\nList (1, 8, 9)\n"},
    {"l = list(); l[\"x\"] = 5; l[\"y\"] = list(6); print(l); print(length(l))",
     "List (x=5, y=List (6))\n2\n"},
    {"X = as.matrix(2); Y = X; X[1,1] = 5; print(as.scalar(Y)); print(as.scalar(X))",
     "2.0\n5.0\n"},
    {"X = as.matrix(2); X = X + 1; X += 2; print(as.scalar(-X)); print(as.scalar(X == 5))",
     "-5.0\n1.0\n"},
};

static void test_scalars(void **state)
{
    (void)state;
    expect_all(scalars, GY_COUNT(scalars));
}

static void test_flow(void **state)
{
    (void)state;
    expect_all(flow, GY_COUNT(flow));
}

static void test_functions(void **state)
{
    (void)state;
    expect_all(functions, GY_COUNT(functions));
}

static void test_both_sides(void **state)
{
    (void)state;
    expect_all(both_sides, GY_COUNT(both_sides));
}

static void test_values(void **state)
{
    (void)state;
    expect_all(values, GY_COUNT(values));
}

static const struct {
    const char *text, *place, *message, *hint;
} refusals[] = {
    {"apple = 1\nprint(aple)", "a.dml:2:7: ", "aple is not defined", "did you mean apple"},
    {"x = sun(1)", "a.dml:1:5: ", "there is no function sun", "did you mean"},
    {"x = nrwo(1)", "a.dml:1:5: ", "there is no function nrwo", "did you mean nrow"},
    {"x = $5", "a.dml:1:5: ", "$5 was not given", "-args"},
    {"x = $foo", "a.dml:1:5: ", "$foo was not given", "-nvargs foo="},
    {"if (1 > 2) { x = 1 }\nprint(x)", "a.dml:2:1: ", "x has no value here", ""},
    {"X = as.matrix(1); y = X[2, 1]", "a.dml:1:23: ", "rows 2:2 are not within 1:1", ""},
    {"X = as.matrix(1); y = X[1, 0]", "a.dml:1:23: ", "columns 0:0 are not within 1:1", ""},
    {"l = list(a=1); x = l[\"b\"]", "a.dml:1:20: ", "no item \"b\"", ""},
    {"x = 9223372036854775807 + 1", "a.dml:1:25: ", "integer overflow", ""},
    {"x = \"a\" * 2", "a.dml:1:9: ", "strings have no arithmetic", ""},
    {"f = function(int x) return (int y) { y = f(x) }\nz = f(1)",
     "a.dml:1:42: ", "endless recursion", ""},
    {"f = function(int x) return (int y) { y = eval(\"f\", x) }\nz = eval(\"f\", 1)",
     "a.dml:1:42: ", "eval: calls are nested deeper", ""},
    {"f = function(int x) return (int y) { z = x }\nq = f(1)",
     "a.dml:2:5: ", "without a value for its result y", ""},
    {"f = function(int x) return (int y) { y = x }\nq = f()",
     "a.dml:2:5: ", "the argument x is missing", "it is f(int x)"},
    {"f = function(int x) return (int y) { y = x }\nq = f(z=1)",
     "a.dml:2:7: ", "no parameter z", "it is f(int x)"},
    {"f = function(int x) return (int y) { y = x }\n[a, b] = f(1)",
     "a.dml:2:10: ", "f has 1 results, not 2", ""},
    {"x = transformencode(1)", "a.dml:1:5: ", "no function transformencode", "transforms"},
    {"x = abs(1, 2)", "a.dml:1:12: ", "takes no more arguments", "it is abs(X)"},
    {"x = abs()", "a.dml:1:5: ", "the argument X is missing", "it is abs(X)"},
    {"x = print(1)", "a.dml:1:5: ", "gives no value", ""},
    {"stop(\"enough\")", "a.dml:1:1: ", "stopped: enough", ""},
    {"assert(1 > 2)", "a.dml:1:1: ", "does not hold", ""},
    {"source(\"none.dml\") as n", "a.dml:1:1: ", "no script none.dml", "GYRE_DML_PATH"},
    {"f = function(int a, int a) return (int b) { b = a }\nx = f(1, 2)",
     "a.dml:1:21: ", "two parameters", ""},
    {"x = as.integer(\"q\")", "a.dml:1:5: ", "expected a number", ""},
    {"for (i in seq(1, 3, 0)) print(i)", "a.dml:1:1: ", "step is 0", ""},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(refusals); i++) {
        gy_dml_script *script = NULL;
        assert_true(run(refusals[i].text, &script) < 0);
        const char *report = gy_dml_script_report(script);
        if (strstr(report, refusals[i].place) != report ||
            strstr(report, refusals[i].message) == NULL ||
            strstr(report, refusals[i].hint) == NULL) {
            fail_msg("%s: got %s", refusals[i].text, report);
        }
        gy_dml_script_close(script);
    }
    gy_text_free(&printed);
    printed = (gy_text){.data = NULL};
}

/* Each allocation of a script fails once: it ends in GY_NOMEM and leaves nothing behind. */
static void test_no_memory(void **state)
{
    static const char text[] =
        "f = function(matrix[double] X, int k = 2) return (matrix[double] Y, list[unknown] l) "
        "{ Y = X[1:k, ] %*% t(X); l = list(a=Y, \"t\", k) }\n"
        "X = matrix(\"1 2 3 4 5 6\", 3, 2); [Y, l] = f(X); l[\"b\"] = 3; Y[1, 1] = sum(X)\n"
        "for (i in 1:3) { Z = cbind(X + i, -X); print(\"n\" + sum(Z)) }\n"
        "print(toString(order(target=X, by=2, decreasing=TRUE))); q = quantile(X, 0.5)\n"
        "e = eval(\"f\", list(X=X)); r = removeEmpty(target=X, margin=\"rows\"); s = inv(t(X) "
        "%*% X)";
    const int64_t live = gy_alloc_live();
    long failures = 0, successes = 0;
    (void)state;
    is_quiet = true;
    /* a text for an error that does not come may fail unseen; after the last one all is well */
    for (long n = 1; successes < 50; n++) {
        gy_dml_script *script = NULL;
        gy_alloc_fail_after(n);
        const gy_status status = run(text, &script);
        gy_alloc_fail_after(0);
        const bool has_report = script == NULL || gy_dml_script_report(script)[0] != '\0';
        gy_dml_script_close(script);
        gy_text_free(&printed);
        printed = (gy_text){.data = NULL};
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
    is_quiet = false;
    assert_in_range(failures, 100, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_flow),      cmocka_unit_test(test_functions),
        cmocka_unit_test(test_values),    cmocka_unit_test(test_both_sides),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
