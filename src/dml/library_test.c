/* Goal: functions of share/gyre/dml give what R's do, or what their definition says; layers'
 * gradients are those of finite differences. */
#include <gyre/script.h>

#include "base/base.h"

#include "gy_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    double tolerance;
    const char *wanted;
} cases[] = {
#define GY_X(text, tolerance, wanted) {text, tolerance, wanted},
#define GY_SAID(text, wanted)
#include "dml/library_test.def"
#undef GY_X
#undef GY_SAID
};

/* What is printed: the numbers behind the last commas of its lines. */
static const struct {
    const char *text, *wanted;
} said[] = {
#define GY_X(text, tolerance, wanted)
#define GY_SAID(text, wanted) {text, wanted},
#include "dml/library_test.def"
#undef GY_X
#undef GY_SAID
};

/* The data of library_reference.R. */
static const char data[] =
    "s = seq(1, 40); X = sin(s %*% matrix(\"1.3 2.1 0.7\", 1, 3))\n"
    "w = matrix(\"1 -2 0.5\", 3, 1); e = cos(1.7 * s); y = X %*% w + 3 + e\n"
    "yb = X %*% w + 1.5 * e > 0; yc = round(exp(X %*% w / 2 + 1 + e / 3))\n"
    "yg = exp(X %*% w / 2) * (1.3 + e)\n"
    "cl = 1 + (X[, 1] + 0.8 * e > 0.3) + (X[, 2] + 0.8 * cos(2.3 * s) > 0.4)\n"
    "B = matrix(\"0.5 -1 0.7 0.2\", 4, 1)\n"
    "G = 10 * cbind(cos(s %% 3 * 2), sin(s %% 3 * 2)) + X[, 1:2]\n";

static void drop_print(void *arg, const char *text, size_t size_bytes)
{
    (void)arg;
    (void)text;
    (void)size_bytes;
}

static void take_print(void *arg, const char *text, size_t size_bytes)
{
    gy_text_add_bytes(arg, text, size_bytes);
}

/* Run the data and a text; fails with the script's report. `printed` takes what it prints. */
static gy_script *run_and_take(const char *text, gy_text *printed)
{
    gy_script *script = NULL;
    gy_text whole = {.data = NULL};
    gy_text_add(&whole, "%s%s", data, text);
    gy_script_options options =
        GY_OPTIONS(gy_script_options, .text = gy_text_get(&whole),
                   .print = printed != NULL ? take_print : drop_print, .print_arg = printed);
    gy_status status = gy_script_new(&options, &script);
    status = status == GY_OK ? gy_script_run(script) : status;
    if (status != GY_OK) {
        fail_msg("%s: %s", text, gy_script_report(script));
    }
    gy_text_free(&whole);
    return script;
}

static gy_script *run(const char *text)
{
    return run_and_take(text, NULL);
}

/* How far x is from the numbers of a text; Inf where they are more or fewer. */
static double distance(gy_tensor *x, const char *wanted)
{
    const int64_t count = gy_tensor_size(x, 0) * gy_tensor_size(x, 1);
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        char *end = NULL;
        const double value = strtod(wanted, &end);
        if (end == wanted) {
            return INFINITY;
        }
        const double off = fabs(gy_tensor_get(x, i) - value);
        most = off <= most ? most : off; /* NaN stays */
        wanted = end;
    }
    return wanted[strspn(wanted, " ")] == '\0' ? most : INFINITY;
}

static void test_references(void **state)
{
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_tensor *x = NULL;
        gy_script *script = run(cases[i].text);
        assert_int_equal(gy_script_get(script, "x", &x), GY_OK);
        const double off = distance(x, cases[i].wanted);
        if (!(off <= cases[i].tolerance)) {
            print_error("%s: off by %g\n", cases[i].text, off);
            wrong++;
        }
        gy_tensor_drop(x);
        gy_script_free(script);
    }
    assert_int_equal(wrong, 0);
}

static bool is_near(double value, double wanted)
{
    return (isnan(value) && isnan(wanted)) || fabs(value - wanted) <= 1e-9 * (1 + fabs(wanted));
}

static void test_statistics(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(said); i++) {
        gy_text printed = {.data = NULL};
        const char *wanted = said[i].wanted, *line = NULL;
        gy_script_free(run_and_take(said[i].text, &printed));
        for (line = printed.data; line != NULL && *line != '\0';) {
            const char *end = strchr(line, '\n');
            const char *comma = memrchr(line, ',', (size_t)(end - line));
            char *next = NULL;
            if (strncmp(line, "glmPredict:", 11) != 0) {
                const double value = strtod(wanted, &next);
                assert_true(next != wanted && comma != NULL);
                if (!is_near(strtod(comma + 1, NULL), value)) {
                    fail_msg("%s: %.*s, expected %g", said[i].text, (int)(end - line), line,
                             value);
                }
                wanted = next;
            }
            line = end + 1;
        }
        assert_string_equal(wanted, "");
        gy_text_free(&printed);
    }
}

/* Scripts that assert what holds by definition. */
static const char *const properties[] = {
    /* a product of two is found again; more updates are no worse; no negative cells */
    "A = abs(X[, 1:2]) %*% abs(matrix(\"1 2 3 4 5 6 2 1\", 2, 4))\n"
    "[W, H] = gnmf(X=A, rnk=2, maxi=3000); assert(sum((A - W %*% H)^2) < 1e-4 * sum(A^2))\n"
    "assert(min(W) >= 0 & min(H) >= 0 & ncol(W) == 2 & nrow(H) == 2)",
    /* unknown cells of a product are found, too; each row solves its least squares */
    "A = (abs(X[, 1:2]) + 0.1) %*% matrix(\"1 2 3 4 5 6 2 1 1 3\", 2, 5)\n"
    "K = (s %*% matrix(\"1 2 3 4 5\", 1, 5)) %% 4 != 1; M = A * K\n"
    "[U, V] = als(X=M, rank=2, reg=1e-9, maxi=300, thr=1e-14, verbose=FALSE)\n"
    "assert(max(abs(U %*% V - A)) < 1e-3 & nrow(U) == 40 & ncol(V) == 5)",
    "A = abs(X) + 0.1; A[1, 1] = 0; A[2, ] = matrix(0, 1, 3)\n"
    "[U, V] = als(X=A, rank=2, regType=\"wL2\", reg=0.3, maxi=400, thr=1e-15, verbose=FALSE)\n"
    "K = A != 0; R = K * (U %*% V - A)\n"
    "assert(max(abs(t(U) %*% R + 0.3 * V * colSums(K))) < 1e-6 & sum(abs(U[2, ])) == 0)",
    /* the same seed gives the same centroids; all rows belong to the nearest */
    "[C, Y] = kmeans(X=X, k=4, runs=3, seed=3); [D, Z] = kmeans(X=X, k=4, runs=3, seed=3)\n"
    "assert(sum(abs(C - D)) == 0 & sum(abs(Y - Z)) == 0 & min(Y) == 1 & max(Y) == 4)\n"
    "for (i in 1:4) assert(min(rowSums((X - C[i, ])^2) - rowSums((X - table(s, Y, 40, 4) %*% C"
    ")^2)) > -1e-12)",
    /* layers: an affine one, relu, softmax, cross entropy; gradients by differences */
    "source(\"nn/layers/affine.dml\") as affine\nsource(\"nn/layers/relu.dml\") as relu\n"
    "source(\"nn/layers/softmax.dml\") as softmax\n"
    "source(\"nn/layers/cross_entropy_loss.dml\") as loss\nsource(\"nn/layers/l2_reg.dml\") as "
    "l2\n"
    "f = function(matrix[double] X, matrix[double] W, matrix[double] b, matrix[double] Y)\n"
    "  return (double l) { p = softmax::forward(relu::forward(affine::forward(X, W, b)))\n"
    "  l = loss::forward(p, Y) + l2::forward(W, 0.3) }\n"
    "Y = toOneHot(cl, 3); [W, b] = affine::init(3, 3, 7); b = b + 0.1; h = 1e-5\n"
    "a = affine::forward(X, W, b); r = relu::forward(a); p = softmax::forward(r)\n"
    "assert(max(abs(rowSums(p) - 1)) < 1e-14 & abs(loss::forward(Y, Y)) < 1e-9)\n"
    "da = relu::backward(softmax::backward(loss::backward(p, Y), r), a)\n"
    "[dX, dW, db] = affine::backward(da, X, W, b); dW = dW + l2::backward(W, 0.3)\n"
    "for (i in 1:3) { for (j in 1:3) { D = matrix(0, 3, 3); D[i, j] = h\n"
    "  assert(abs((f(X, W + D, b, Y) - f(X, W - D, b, Y)) / (2 * h) - as.scalar(dW[i, j])) < "
    "1e-8) } }\n"
    "for (j in 1:3) { D = matrix(0, 1, 3); D[1, j] = h\n"
    "  assert(abs((f(X, W, b + D, Y) - f(X, W, b - D, Y)) / (2 * h) - as.scalar(db[1, j])) < "
    "1e-8) }\n"
    "for (j in 1:3) { D = matrix(0, 40, 3); D[5, j] = h\n"
    "  assert(abs((f(X + D, W, b, Y) - f(X - D, W, b, Y)) / (2 * h) - as.scalar(dX[5, j])) < "
    "1e-8) }",
    /* a convolution by its definition, and both names; gradients by differences */
    "source(\"nn/layers/conv2d.dml\") as conv\nsource(\"nn/layers/max_pool2d.dml\") as pool\n"
    "source(\"nn/layers/conv2d_builtin.dml\") as conv2\n"
    "f = function(matrix[double] X, matrix[double] W, matrix[double] b, matrix[double] c)\n"
    "  return (double l) { [o, h, w] = conv::forward(X, W, b, 2, 4, 3, 3, 2, 1, 1, 1, 0)\n"
    "  [o, h, w] = pool::forward(o, 2, h, w, 2, 2, 2, 2, 0, 0); l = sum(o * c) }\n"
    "I = sin(seq(1, 3) %*% t(seq(1, 24))); [W, b] = conv::init(2, 2, 3, 2, 9)\n"
    "b = matrix(\"0.5 -0.25\", 2, 1)\n"
    "[o, h, w] = conv::forward(I, W, b, 2, 4, 3, 3, 2, 1, 1, 1, 0)\n"
    "[o2, h2, w2] = conv2::forward(I, W, b, 2, 4, 3, 3, 2, 1, 1, 1, 0)\n"
    "assert(h == 4 & w == 2 & sum(abs(o - o2)) == 0 & ncol(o) == 16)\n"
    "v = -0.25; for (c in 0:1) { for (i in 0:2) { for (j in 0:1) { r = 1 + i - 1\n"
    "  if (r >= 0) { v = v + as.scalar(I[2, c * 12 + r * 3 + 1 + j + 1]) * "
    "as.scalar(W[2, c * 6 + i * 2 + j + 1]) } } } }\n"
    "assert(abs(v - as.scalar(o[2, 8 + 1 * 2 + 2])) < 1e-12)\n"
    "[p, ph, pw] = pool::forward(o, 2, h, w, 2, 2, 2, 2, 0, 0); c = cos(p * 7)\n"
    "assert(ph == 2 & pw == 1 & as.scalar(p[1, 1]) == max(o[1, 1:4]))\n"
    "dO = pool::backward(c, ph, pw, o, 2, h, w, 2, 2, 2, 2, 0, 0)\n"
    "[dI, dW, db] = conv::backward(dO, h, w, I, W, b, 2, 4, 3, 3, 2, 1, 1, 1, 0); e = 1e-6\n"
    "for (k in 1:12) { D = matrix(0, 2, 12); D[2, k] = e\n"
    "  assert(abs((f(I, W + D, b, c) - f(I, W - D, b, c)) / (2 * e) - as.scalar(dW[2, k])) < "
    "1e-7) }\n"
    "for (k in 1:24) { D = matrix(0, 3, 24); D[3, k] = e\n"
    "  assert(abs((f(I + D, W, b, c) - f(I - D, W, b, c)) / (2 * e) - as.scalar(dI[3, k])) < "
    "1e-7) }\n"
    "for (k in 1:2) { D = matrix(0, 2, 1); D[k, 1] = e\n"
    "  assert(abs((f(I, W, b + D, c) - f(I, W, b - D, c)) / (2 * e) - as.scalar(db[k, 1])) < "
    "1e-7) }",
    /* dropout keeps the mean, and what it keeps it divides; the same seed keeps the same */
    "source(\"nn/layers/dropout.dml\") as dropout\nO = matrix(1, 200, 100)\n"
    "[o, m] = dropout::forward(O, 0.8, 4); [o2, m2] = dropout::forward(O, 0.8, 4)\n"
    "assert(sum(abs(o - o2)) == 0 & abs(mean(o) - 1) < 0.02 & abs(mean(m) - 0.8) < 0.02)\n"
    "assert(max(o) == 1 / 0.8 & min(o) == 0 & sum(abs(dropout::backward(O, O, 0.8, m) - o)) == "
    "0)\n"
    "[o3, m3] = dropout::forward(O, 0.8, -1); [o4, m4] = dropout::forward(O, 0.8, -1)\n"
    "assert(sum(abs(o3 - o4)) > 0)",
    /* two steps of each optimizer by hand */
    "source(\"nn/optim/sgd_nesterov.dml\") as sgd\nsource(\"nn/optim/adam.dml\") as adam\n"
    "A = matrix(\"1 2\", 1, 2); D = matrix(\"0.5 -1\", 1, 2); v = sgd::init(A)\n"
    "[A, v] = sgd::update(A, D, 0.1, 0.9, v); [A, v] = sgd::update(A, D, 0.1, 0.9, v)\n"
    "v1 = -0.05; x1 = 1 + 1.9 * v1; v2 = 0.9 * v1 - 0.05; x2 = x1 - 0.9 * v1 + 1.9 * v2\n"
    "assert(abs(as.scalar(A[1, 1]) - x2) < 1e-15 & abs(as.scalar(v[1, 1]) - v2) < 1e-15)\n"
    "A = matrix(\"1 2\", 1, 2); [m, q] = adam::init(A)\n"
    "[A, m, q] = adam::update(A, D, 0.1, 0.9, 0.999, 0, 0, m, q)\n"
    "assert(max(abs(A - matrix(\"0.9 2.1\", 1, 2))) < 1e-12)\n"
    "[A, m, q] = adam::update(A, D, 0.1, 0.9, 0.999, 0, 1, m, q)\n"
    "assert(max(abs(A - matrix(\"0.8 2.2\", 1, 2))) < 1e-12 & abs(as.scalar(m[1, 1]) - 0.095) "
    "< "
    "1e-15)",
    /* verbose ones print and give the same */
    "A = lm(X=X, y=y, icpt=1); B = lmCG(X=X, y=y, icpt=1, tol=1e-12); p = lmPredict(X=X, B=A, "
    "ytest=y, icpt=1, verbose=TRUE)\nassert(max(abs(A - B)) < 1e-6)\n"
    "A = glm(X=X, Y=yb, dfam=2, icpt=1); M = glmPredict(X=X, B=A, ytest=yb, dfam=2)\n"
    "A = multiLogReg(X=X, Y=cl, icpt=1); A = l2svm(X=X, Y=yb, verbose=TRUE)\n"
    "[p, q] = naiveBayes(D=abs(round(X)), C=cl); [U, V] = als(X=abs(X), rank=2)\n"
    "[C, Y] = kmeans(X=X, k=2, runs=2, is_verbose=TRUE); A = msvm(X=X, Y=cl, verbose=TRUE)",
};

static void test_properties(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(properties); i++) {
        gy_script_free(run(properties[i]));
    }
}

static const struct {
    const char *text, *said;
} refusals[] = {
    {"x = toOneHot(cl, 2)", "classes 1.0 to 3.0 are not within 1:2"},
    {"[a, b] = confusionMatrix(cl, X)", "expected two columns of one length"},
    {"x = lmPredict(X=X, B=y)", "X has 3 columns, B has 40 rows"},
    {"x = glmPredict(X=X, B=B, ytest=cbind(y, y, y), dfam=2)", "3 columns, expected 1 or 2"},
    {"x = glmPredict(X=X, B=B, ytest=s[1:3, ])", "X has 40 rows, ytest has 3"},
    {"x = glm(X=X, Y=y, dfam=3)", "dfam is 3"},
    {"x = glm(X=X, Y=y, dfam=1, link=2)", "link 2 does not go with dfam 1"},
    {"x = glm(X=X, Y=-yc, dfam=1, vpow=1)", "expected no negative values"},
    {"x = multiLogReg(X=X, Y=yb * 0 + 1)", "one class alone"},
    {"x = l2svm(X=X, Y=cl)", "more than two values"},
    {"x = msvm(X=X, Y=-cl)", "negative labels"},
    {"[a, b] = kmeans(X=X, k=50)", "k is 50 of 40 rows"},
    {"[a, b] = gnmf(X=X, rnk=2)", "expected no negative cells"},
    {"[a, b] = als(X=X, regType=\"L1\")", "expected L2 or wL2"},
    {"[a, b] = naiveBayes(D=X, C=cl)", "expected counts"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < GY_COUNT(refusals); i++) {
        gy_script *script = NULL;
        gy_text whole = {.data = NULL};
        gy_text_add(&whole, "%s%s", data, refusals[i].text);
        gy_script_options options =
            GY_OPTIONS(gy_script_options, .text = gy_text_get(&whole), .print = drop_print);
        assert_int_equal(gy_script_new(&options, &script), GY_OK);
        assert_true(gy_script_run(script) < 0);
        if (strstr(gy_script_report(script), refusals[i].said) == NULL) {
            fail_msg("%s: %s", refusals[i].text, gy_script_report(script));
        }
        gy_script_free(script);
        gy_text_free(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
