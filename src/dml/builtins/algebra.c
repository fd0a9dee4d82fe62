/*
 * Systems of equations and decompositions by LAPACK. It takes matrices by columns: what it is
 * given is the transpose, and what it gives is transposed.
 */
#include "dml/builtins/builtins_priv.h"
#include "ops/kernels/libraries.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static gy_status check_size(const gy_dml_call *call, const gy_dml_matrix *x)
{
    return x->rows <= INT_MAX / 4 && x->columns <= INT_MAX / 4
               ? GY_OK
               : gy_fail(GY_LIMIT, "%s: a matrix of %lldx%lld is too large",
                         call->builtin->name, (long long)x->rows, (long long)x->columns);
}

static gy_status check_square(const gy_dml_call *call, const gy_dml_matrix *x)
{
    GY_TRY(check_size(call, x));
    return x->rows == x->columns
               ? GY_OK
               : gy_fail(GY_SHAPE, "%s: a matrix of %lldx%lld is not square",
                         call->builtin->name, (long long)x->rows, (long long)x->columns);
}

/* x by columns, for LAPACK to overwrite. */
static gy_status by_columns(const gy_dml_matrix *x, gy_dml_matrix **out)
{
    return gy_dml_transpose(x, out);
}

typedef struct system {
    gy_dml_matrix *a, *b; /* by columns */
    int *pivots;
    double *work;
} system;

static void system_drop(system *s)
{
    gy_dml_matrix_drop(s->a);
    gy_dml_matrix_drop(s->b);
    gy_free(s->pivots);
    gy_free(s->work);
}

static gy_status singular(const gy_dml_call *call, int info)
{
    return gy_fail(GY_NUMERIC, "%s: the matrix is singular: the pivot of column %d is 0",
                   call->builtin->name, info);
}

/* a x = b by LU; b becomes x. */
static gy_status solve_square(gy_dml_call *call, system *s, int n, int right_sides)
{
    const gy_lapack *lapack = NULL;
    int info = 0;
    GY_TRY(gy_lapack_get(&lapack));
    s->pivots = gy_alloc("dml.pivots", ((size_t)n + 1) * sizeof(int));
    if (s->pivots == NULL) {
        return GY_NOMEM;
    }
    gy_lapack_begin();
    lapack->dgesv(&n, &right_sides, s->a->data, &n, s->pivots, s->b->data, &n, &info);
    gy_lapack_end();
    return info > 0 ? singular(call, info) : GY_OK;
}

/* The least squares of more rows than columns, by QR. */
static gy_status solve_squares(system *s, int m, int n, int right_sides)
{
    const gy_lapack *lapack = NULL;
    int info = 0, size = -1;
    double wanted = 0;
    GY_TRY(gy_lapack_get(&lapack));
    lapack->dgels("N", &m, &n, &right_sides, s->a->data, &m, s->b->data, &m, &wanted, &size,
                  &info);
    size = (int)wanted;
    s->work = gy_alloc("dml.work", (size_t)size * sizeof(double));
    if (s->work == NULL) {
        return GY_NOMEM;
    }
    gy_lapack_begin();
    lapack->dgels("N", &m, &n, &right_sides, s->a->data, &m, s->b->data, &m, s->work, &size,
                  &info);
    gy_lapack_end();
    return info > 0 ? gy_fail(GY_NUMERIC, "solve: the matrix has not full rank") : GY_OK;
}

static gy_status solve(gy_dml_call *call, const gy_dml_matrix *a, const gy_dml_matrix *b)
{
    system s = {.a = NULL};
    gy_dml_matrix *out = NULL;
    GY_TRY(check_size(call, a));
    GY_TRY(check_size(call, b));
    if (a->rows != b->rows || a->rows < a->columns) {
        return gy_fail(GY_SHAPE,
                       "solve: a matrix of %lldx%lld and a right side of %lldx%lld do not fit",
                       (long long)a->rows, (long long)a->columns, (long long)b->rows,
                       (long long)b->columns);
    }
    gy_status status = by_columns(a, &s.a);
    status = status == GY_OK ? by_columns(b, &s.b) : status;
    if (status == GY_OK && a->columns > 0) {
        status = a->rows == a->columns
                     ? solve_square(call, &s, (int)a->rows, (int)b->columns)
                     : solve_squares(&s, (int)a->rows, (int)a->columns, (int)b->columns);
    }
    status = status == GY_OK ? gy_dml_matrix_new(a->columns, b->columns, &out) : status;
    for (int64_t i = 0; i < a->columns && status == GY_OK; i++) {
        for (int64_t j = 0; j < b->columns; j++) {
            out->data[i * b->columns + j] = s.b->data[j * b->rows + i];
        }
    }
    system_drop(&s);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_solve(gy_dml_call *call)
{
    gy_dml_matrix *a = NULL, *b = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &a));
    gy_status status = gy_dml_arg_matrix(call, 1, &b);
    status = status == GY_OK ? solve(call, a, b) : status;
    gy_dml_matrix_drop(a);
    gy_dml_matrix_drop(b);
    return status;
}

gy_status gy_dml_run_inv(gy_dml_call *call)
{
    system s = {.a = NULL};
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = check_square(call, x);
    status = status == GY_OK ? by_columns(x, &s.a) : status;
    status = status == GY_OK ? gy_dml_matrix_fill(x->rows, x->rows, 0, &s.b) : status;
    for (int64_t i = 0; i < x->rows && status == GY_OK; i++) {
        s.b->data[i * x->rows + i] = 1;
    }
    if (status == GY_OK && x->rows > 0) {
        status = solve_square(call, &s, (int)x->rows, (int)x->rows);
    }
    status = status == GY_OK ? gy_dml_transpose(s.b, &out) : status;
    system_drop(&s);
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

/* The lower triangle l of l t(l) = x. Row by row and by columns are the same of a symmetric x:
 * LAPACK's upper triangle is ours below. */
gy_status gy_dml_run_cholesky(gy_dml_call *call)
{
    const gy_lapack *lapack = NULL;
    gy_dml_matrix *x = NULL, *out = NULL;
    int info = 0;
    GY_TRY(gy_lapack_get(&lapack));
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = check_square(call, x);
    status = status == GY_OK ? gy_dml_matrix_copy(x, &out) : status;
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    GY_ASSERT(out != NULL);
    const int n = (int)out->rows;
    gy_lapack_begin();
    lapack->dpotrf("U", &n, out->data, &n, &info);
    gy_lapack_end();
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++) {
            out->data[(int64_t)i * n + j] = 0;
        }
    }
    if (info != 0) {
        gy_dml_matrix_drop(out);
        return gy_fail(GY_NUMERIC,
                       "cholesky: the matrix is not positive definite: its minor of %d rows",
                       info);
    }
    return gy_dml_give(call, out);
}

/* The LU of x in place, by columns of t(x): t(x) = P L U. GY_OK also where it is singular. */
static gy_status factorize(gy_dml_matrix *x, int *pivots)
{
    const gy_lapack *lapack = NULL;
    const int n = (int)x->rows;
    int info = 0;
    GY_TRY(gy_lapack_get(&lapack));
    gy_lapack_begin();
    lapack->dgetrf(&n, &n, x->data, &n, pivots, &info);
    gy_lapack_end();
    return GY_OK;
}

gy_status gy_dml_run_det(gy_dml_call *call)
{
    system s = {.a = NULL};
    gy_dml_matrix *x = NULL;
    double product = 1;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = check_square(call, x);
    const int64_t n = x->rows;
    status = status == GY_OK ? by_columns(x, &s.a) : status;
    s.pivots = gy_alloc("dml.pivots", ((size_t)n + 1) * sizeof(int));
    status = s.pivots == NULL ? GY_NOMEM : status;
    status = status == GY_OK && n > 0 ? factorize(s.a, s.pivots) : status;
    for (int64_t i = 0; i < n && status == GY_OK; i++) {
        product *= s.a->data[i * n + i] * (s.pivots[i] != i + 1 ? -1 : 1);
    }
    system_drop(&s);
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give_real(call, product);
}

/* [P, L, U] with P x = L U */
static gy_status split_lu(gy_dml_call *call, const system *s, int64_t n)
{
    gy_dml_matrix *of[3] = {NULL};
    for (int k = 0; k < 3; k++) {
        GY_TRY(gy_dml_matrix_fill(n, n, 0, &of[k]));
        call->results[k] = gy_dml_of_matrix(of[k]);
    }
    for (int64_t i = 0; i < n; i++) {
        of[0]->data[i * n + i] = 1;
        for (int64_t j = 0; j < n; j++) {
            const double value = s->a->data[j * n + i];
            of[1]->data[i * n + j] = j < i ? value : j == i ? 1 : 0;
            of[2]->data[i * n + j] = j >= i ? value : 0;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t other = s->pivots[i] - 1;
        for (int64_t j = 0; j < n && other != i; j++) {
            const double value = of[0]->data[i * n + j];
            of[0]->data[i * n + j] = of[0]->data[other * n + j];
            of[0]->data[other * n + j] = value;
        }
    }
    return GY_OK;
}

gy_status gy_dml_run_lu(gy_dml_call *call)
{
    system s = {.a = NULL};
    gy_dml_matrix *x = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = check_square(call, x);
    const int64_t n = x->rows;
    status = status == GY_OK ? by_columns(x, &s.a) : status;
    s.pivots = gy_alloc("dml.pivots", ((size_t)n + 1) * sizeof(int));
    status = s.pivots == NULL ? GY_NOMEM : status;
    status = status == GY_OK && n > 0 ? factorize(s.a, s.pivots) : status;
    status = status == GY_OK ? split_lu(call, &s, n) : status;
    system_drop(&s);
    gy_dml_matrix_drop(x);
    return status;
}

/* [values, vectors] of a symmetric matrix, ascending as SystemDS has them. */
static gy_status eigen(gy_dml_call *call, gy_dml_matrix *vectors)
{
    const gy_lapack *lapack = NULL;
    const int n = (int)vectors->rows;
    gy_dml_matrix *values = NULL, *turned = NULL;
    int info = 0, size = GY_MAX(1, 34 * n);
    GY_TRY(gy_lapack_get(&lapack));
    double *work = gy_alloc("dml.work", (size_t)size * sizeof(double));
    gy_status status = work != NULL ? gy_dml_matrix_new(n, 1, &values) : GY_NOMEM;
    if (status == GY_OK) {
        call->results[0] = gy_dml_of_matrix(values);
        gy_lapack_begin();
        lapack->dsyev("V", "L", &n, vectors->data, &n, values->data, work, &size, &info);
        gy_lapack_end();
        status = info != 0 ? gy_fail(GY_NUMERIC, "eigen: does not converge")
                           : gy_dml_transpose(vectors, &turned);
    }
    gy_free(work);
    call->results[1] = status == GY_OK ? gy_dml_of_matrix(turned) : GY_DML_NONE;
    return status;
}

gy_status gy_dml_run_eigen(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL, *vectors = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = check_square(call, x);
    for (int64_t i = 0; i < x->rows && status == GY_OK; i++) {
        for (int64_t j = 0; j < i && status == GY_OK; j++) {
            const double low = x->data[i * x->columns + j], high = x->data[j * x->columns + i];
            if (!(fabs(low - high) <= 1e-8 * fmax(1, fabs(low)))) {
                status =
                    gy_fail(GY_NUMERIC,
                            "eigen: the matrix is not symmetric: row %lld, column %lld is %g "
                            "and the other way %g",
                            (long long)i + 1, (long long)j + 1, low, high);
            }
        }
    }
    status = status == GY_OK ? gy_dml_matrix_copy(x, &vectors) : status;
    status = status == GY_OK ? eigen(call, vectors) : status;
    gy_dml_matrix_drop(x);
    gy_dml_matrix_drop(vectors);
    return status;
}

/* [q, r] of m rows and n columns, m >= n: q (m, n), r (n, n). */
/*
 * Householder's reflections I - 2 v t(v) / (t(v) v), one a column, as SystemDS takes them from
 * Apache Commons Math: v = x - r e1, where r has the sign that x's first cell has not (+ of 0),
 * and a column of H is v / -r, so that the reflection is I - h t(h) / h1. LAPACK's differ where
 * that cell is 0. `a` is by columns.
 */
static void reflect(double *a, int64_t rows, int64_t columns, int64_t k, double *pivot)
{
    double *v = a + k * rows, squares = 0;
    for (int64_t i = k; i < rows; i++) {
        squares += v[i] * v[i];
    }
    *pivot = v[k] > 0 ? -sqrt(squares) : sqrt(squares);
    if (*pivot == 0) {
        return; /* nothing to reflect */
    }
    v[k] -= *pivot;
    for (int64_t j = k + 1; j < columns; j++) {
        double *c = a + j * rows, dot = 0;
        for (int64_t i = k; i < rows; i++) {
            dot += v[i] * c[i];
        }
        dot /= *pivot * v[k];
        for (int64_t i = k; i < rows; i++) {
            c[i] += dot * v[i];
        }
    }
}

/* H and R, of X's size both, of columns that hold reflections below and R above. */
static gy_status give_reflections(gy_dml_call *call, const gy_dml_matrix *x, const double *a,
                                  const double *pivots)
{
    gy_dml_matrix *h = NULL, *r = NULL;
    GY_TRY(gy_dml_matrix_fill(x->rows, x->columns, 0, &h));
    call->results[0] = gy_dml_of_matrix(h);
    GY_TRY(gy_dml_matrix_fill(x->rows, x->columns, 0, &r));
    call->results[1] = gy_dml_of_matrix(r);
    for (int64_t i = 0; i < x->rows; i++) {
        for (int64_t j = 0; j < x->columns; j++) {
            const double value = a[j * x->rows + i];
            if (i == j) {
                r->data[i * x->columns + j] = pivots[j];
            } else if (i < j) {
                r->data[i * x->columns + j] = value;
            }
            if (i >= j && pivots[j] != 0) {
                h->data[i * x->columns + j] = value / -pivots[j];
            }
        }
    }
    return GY_OK;
}

gy_status gy_dml_run_qr(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL, *a = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const int64_t count = GY_MIN(x->rows, x->columns);
    gy_status status = gy_dml_transpose(x, &a);
    double *pivots = gy_alloc_zero("dml.qr", (size_t)x->columns + 1, sizeof(*pivots));
    status = status == GY_OK && pivots == NULL ? GY_NOMEM : status;
    for (int64_t k = 0; k < count && status == GY_OK; k++) {
        reflect(a->data, x->rows, x->columns, k, &pivots[k]);
    }
    status = status == GY_OK ? give_reflections(call, x, a->data, pivots) : status;
    gy_free(pivots);
    gy_dml_matrix_drop(a);
    gy_dml_matrix_drop(x);
    return status;
}

/* [u, s, v] with x = u s t(v), s a diagonal matrix. LAPACK sees t(x) = v s t(u): its u is t(v)
 * by rows, its transposed v is u by rows. */
static gy_status svd(gy_dml_call *call, gy_dml_matrix *x, int m, int n)
{
    const gy_lapack *lapack = NULL;
    const int k = GY_MIN(m, n);
    gy_dml_matrix *u = NULL, *values = NULL, *vt = NULL, *v = NULL, *s = NULL;
    int info = 0, size = 3 * k + GY_MAX(GY_MAX(m, n), 5 * k * k + 4 * k) + 64 * k + 1;
    GY_TRY(gy_lapack_get(&lapack));
    double *work = gy_alloc("dml.work", (size_t)size * sizeof(double));
    int *whole = gy_alloc("dml.work", ((size_t)k * 8 + 1) * sizeof(int));
    gy_status status = work != NULL && whole != NULL ? gy_dml_matrix_new(m, k, &u) : GY_NOMEM;
    status = status == GY_OK ? gy_dml_matrix_new(k, 1, &values) : status;
    status = status == GY_OK ? gy_dml_matrix_new(k, n, &vt) : status;
    status = status == GY_OK ? gy_dml_matrix_fill(k, k, 0, &s) : status;
    if (status == GY_OK) {
        gy_lapack_begin();
        lapack->dgesdd("S", &n, &m, x->data, &n, values->data, vt->data, &n, u->data, &k, work,
                       &size, whole, &info);
        gy_lapack_end();
        status = info != 0 ? gy_fail(GY_NUMERIC, "svd: does not converge")
                           : gy_dml_transpose(vt, &v);
    }
    for (int i = 0; i < k && status == GY_OK; i++) {
        s->data[(int64_t)i * k + i] = values->data[i];
    }
    if (status == GY_OK) {
        call->results[0] = gy_dml_hold(gy_dml_of_matrix(u));
        call->results[1] = gy_dml_hold(gy_dml_of_matrix(s));
        call->results[2] = gy_dml_hold(gy_dml_of_matrix(v));
    }
    gy_free(work);
    gy_free(whole);
    gy_dml_matrix *const all[] = {u, values, vt, v, s};
    for (size_t i = 0; i < GY_COUNT(all); i++) {
        gy_dml_matrix_drop(all[i]);
    }
    return status;
}

gy_status gy_dml_run_svd(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL, *copy = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = check_size(call, x);
    status = status == GY_OK ? gy_dml_matrix_copy(x, &copy) : status;
    status = status == GY_OK && gy_dml_matrix_count(x) == 0
                 ? gy_fail(GY_SHAPE, "svd: the matrix has no cells")
                 : status;
    status = status == GY_OK ? svd(call, copy, (int)x->rows, (int)x->columns) : status;
    gy_dml_matrix_drop(x);
    gy_dml_matrix_drop(copy);
    return status;
}
