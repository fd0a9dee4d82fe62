/* Goal: the language is parsed with the precedence of SystemDS's grammar, and what is not of
 * the language is refused with its place, a caret and a hint. */
#include "dml/syntax/syntax.h"

#include "gy_test.h"

static gy_dml_report report;

static gy_status parse(const char *text, size_t size, gy_dml_program *program)
{
    static gy_dml_source source;
    report = (gy_dml_report){.status = GY_OK};
    source = (gy_dml_source){.path = "a.dml", .text = text, .size = size, .report = &report};
    return gy_dml_parse(&source, program);
}

static void expect(const char *text, const char *wanted)
{
    gy_dml_program program;
    gy_text printed = {.data = NULL};
    if (parse(text, strlen(text), &program) != GY_OK) {
        fail_msg("%s: %s", text, report.text);
    }
    gy_dml_print(&program, &printed);
    assert_string_equal(gy_text_get(&printed), wanted);
    gy_text_free(&printed);
    gy_dml_program_fini(&program);
}

static const struct {
    const char *text, *tree;
} expressions[] = {
    {"2^3^2", "(2 ^ (3 ^ 2))"},
    {"-2^2", "(-(2 ^ 2))"},
    {"2^-x*y", "((2 ^ (-x)) * y)"},
    {"-a %*% b", "((-a) %*% b)"},
    {"--a", "(-(-a))"},
    {"a %*% b * c", "((a %*% b) * c)"},
    {"a * b %*% c", "(a * (b %*% c))"},
    {"a %/% b %*% c", "(a %/% (b %*% c))"},
    {"a * b %% c", "(a * (b %% c))"},
    {"a / b / c", "((a / b) / c)"},
    {"a - b + c", "((a - b) + c)"},
    {"a + b * c - d", "((a + (b * c)) - d)"},
    {"a < b + 1", "(a < (b + 1))"},
    {"!a == b", "(!(a == b))"},
    {"!a & b", "((!a) & b)"},
    {"a | b & c", "(a | (b & c))"},
    {"a & b || c && d", "((a & b) | (c & d))"},
    {"a + !b == c", "(a + (!(b == c)))"},
    {"-(X[1:n, ] + Y[,2] + Z[k])", "(-((X[1:n, ] + Y[, 2]) + Z[k]))"},
    {"X[i+1:min(N, beg+k-1),]", "X[(i + 1):min(N, ((beg + k) - 1)), ]"},
    {"f(x, k=a==b, 'q')", "f(x, k = (a == b), \"q\")"},
    {"ns::f()", "ns::f()"},
    {"as.scalar(X[1,1])", "as.scalar(X[1, 1])"},
    {"1.5e3 + 7L + .5 + 2.", "(((1500. + 7) + 0.5) + 2.)"},
    {"$1 + $name + ifdef($x, 3)", "(($1 + $name) + ifdef($x, 3))"},
    {"\"a\\\"b\\n\" + 'c\"\\''", "(\"a\\\"b\\n\" + \"c\\\"'\")"},
    {"TRUE & FALSE", "(TRUE & FALSE)"},
    {"a\n-b", "(a - b)"},
    {"f(g(1);) .\n", "f(g(1))"},
};

static void test_expressions(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(expressions); i++) {
        char text[256], tree[256];
        gy_print(text, sizeof(text), "x = %s", expressions[i].text);
        gy_print(tree, sizeof(tree), "x = %s;\n", expressions[i].tree);
        expect(text, tree);
    }
}

static void test_statements(void **state)
{
    (void)state;
    expect("a <- 1;; b += 2\nX[1,] = 3; X[2:3,k] += a", "a = 1;\nb += 2;\nX[1, ] = 3;\n"
                                                        "X[2:3, k] += a;\n");
    expect("a = b\n[c, d] = f(a)", "a = b;\n[c, d] = f(a);\n");
    expect("a = b[1]\n[c[1,2], d] <- f(a)", "a = b[1];\n[c[1, 2], d] = f(a);\n");
    expect(
        "if (a) b = 1 else if (c) d = 2 else { e = 3; print(e) }",
        "if (a) {\nb = 1;\n} else {\nif (c) {\nd = 2;\n} else {\ne = 3;\nprint(e);\n};\n};\n");
    expect("while(i < 3) i = i + 1", "while ((i < 3)) {\ni = (i + 1);\n};\n");
    expect("parfor(i in seq(1, n, 2), check=0, mode=LOCAL) { a = i }",
           "parfor (i in seq(1, n, 2), check = 0, mode = LOCAL) {\na = i;\n};\n");
    expect("for (i in 10:1) { }", "for (i in 10:1) {\n};\n");
    expect("source(\"l.dml\") as l; setwd('x')", "source(\"l.dml\") as l;\nsetwd(\"x\");\n");
    expect("# c\n/* d\n */ a = 1 # e", "a = 1;\n");
    expect("", "");
}

static void test_functions(void **state)
{
    (void)state;
    expect(
        "x = f(1)\nf = function(matrix[double] X, Int k = 2, list[unknown] l) return (double "
        "y, frame[string] z) { y = k }",
        "f = function(matrix[double] X, int k = 2, list[unknown] l) return (double y, "
        "frame[string] z) {\ny = k;\n}\nx = f(1);\n");
    expect("f = function() { print(1) }", "f = function() return () {\nprint(1);\n}\n");
    expect("g = externalFunction(int a) return (int b) implemented in (classname=\"x.Y\")",
           "g = externalFunction(int a) return (int b) implemented in ()\n");
}

static const struct {
    const char *text;
    int line, column;
    const char *message, *hint;
} refusals[] = {
    {"x = ", 1, 5, "found the end of the script", ""},
    {"a = 1\nb = (1 + 2", 2, 11, "expected ')'", "each ( needs its )"},
    {"x = 3 +* 4", 1, 8, "expected an expression, found '*'", ""},
    {"x = \"abc", 1, 5, "this string has no end", "quote"},
    {"x = \"\\q\"", 1, 6, "this escape has no meaning", "escapes are"},
    {"/* x", 1, 1, "this comment has no end", "*/"},
    {"x = a.b", 1, 6, "'.' means nothing", "no dots"},
    {"x = 99999999999999999999", 1, 5, "9223372036854775807", "as a double"},
    {"x = 1 ? 2", 1, 7, "'?'", ""},
    {"x = $", 1, 5, "missing after $", "$1"},
    {"if x > 1 { }", 1, 4, "expected '('", "parentheses"},
    {"for (i in 1) { }", 1, 12, "expected ':'", "from:to"},
    {"f = function(foo x) { }", 1, 14, "expected a type, found 'foo'", "types are"},
    {"f = function(int x) x", 1, 21, "expected '{'", "braces"},
    {"[a, b] = 3", 1, 10, "only a call", "[a, b] = f(x)"},
    {"f(1, )", 1, 6, "expected an argument", "remove the comma"},
    {"while (1) { x = 1", 1, 18, "expected '}'", "each { needs"},
    {"x = 2y", 1, 6, "a number and a name", ""},
    {"else = 1", 1, 1, "expected a statement, found 'else'", ""},
    {"a == 1", 1, 3, "expected '='", "name = expression"},
    {"f(1) + 2", 1, 1, "is not used", "print"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(refusals); i++) {
        gy_dml_program program;
        char place[32];
        assert_int_equal(parse(refusals[i].text, strlen(refusals[i].text), &program),
                         GY_FORMAT);
        gy_print(place, sizeof(place), "a.dml:%d:%d: ", refusals[i].line, refusals[i].column);
        if (strstr(report.text, place) != report.text ||
            strstr(report.text, refusals[i].message) == NULL ||
            strstr(report.text, refusals[i].hint) == NULL || strchr(report.text, '^') == NULL) {
            fail_msg("%s: got %s", refusals[i].text, report.text);
        }
        gy_dml_program_fini(&program);
    }
}

static void test_caret(void **state)
{
    (void)state;
    gy_dml_program program;
    static const char text[] = "a = 1\nx = 3 +* 4\n";
    assert_int_equal(parse(text, strlen(text), &program), GY_FORMAT);
    assert_string_equal(report.text, "a.dml:2:8: expected an expression, found '*'\n"
                                     "    x = 3 +* 4\n"
                                     "           ^\n");
    gy_dml_program_fini(&program);
}

/* `count` times `open`, then `middle`, then `count` times `close`. */
static void expect_limit(const char *begin, const char *open, const char *close, int count)
{
    gy_dml_program program;
    gy_text text = {.data = NULL};
    gy_text_add(&text, "%s", begin);
    for (int i = 0; i < count; i++) {
        gy_text_add(&text, "%s", open);
    }
    gy_text_add(&text, "1");
    for (int i = 0; i < count; i++) {
        gy_text_add(&text, "%s", close);
    }
    assert_int_equal(parse(text.data, text.size_bytes, &program), GY_LIMIT);
    gy_dml_program_fini(&program);
    gy_text_free(&text);
}

static void test_limits(void **state)
{
    (void)state;
    expect_limit("x = ", "(", ")", 100000);
    expect_limit("x = ", "-", "", 100000);
    expect_limit("x = ", "f(", ")", 100000);
    expect_limit("x = ", "1+", "", 100000);
    expect_limit("x = ", "2^", "", 100000);
    expect_limit("x = ", "X[", "]", 100000);
    expect_limit("", "if (1) {", "}", 100000);
    expect_limit("", "while(1) ", "", 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expressions), cmocka_unit_test(test_statements),
        cmocka_unit_test(test_functions),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_caret),       cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
