/*
 * Functions of cells. Each has three loops (two vectors, a scalar on either side) that the
 * compiler makes vectors of where it can; shapes are decided outside of them.
 */
#include "dml/matrix/matrix.h"

#include <math.h>
#include <string.h>

double gy_dml_modulo(double x, double y)
{
    if (y == 0) {
        return NAN;
    }
    if (isinf(y) && isfinite(x)) { /* as R: x, or infinity on the other side of 0 */
        return x == 0 || (x > 0) == (y > 0) ? x : y;
    }
    return x - gy_dml_whole_divide(x, y) * y;
}

double gy_dml_shift(double x, double y)
{
    const int64_t whole = (int64_t)x;
    const int by = (int)y;
    if (by <= -64 || by >= 64) {
        return by < 0 && whole < 0 ? -1 : 0;
    }
    return by < 0 ? (double)(whole >> -by) : (double)(int64_t)((uint64_t)whole << by);
}

#define GY_X(id, name, value)                                                                  \
    static double one_##id(double x, double y)                                                 \
    {                                                                                          \
        return value;                                                                          \
    }                                                                                          \
    static void both_##id(double *out, const double *a, const double *b, int64_t count)        \
    {                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                  \
            const double x = a[i], y = b[i];                                                   \
            out[i] = value;                                                                    \
        }                                                                                      \
    }                                                                                          \
    static void right_##id(double *out, const double *a, double y, int64_t count)              \
    {                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                  \
            const double x = a[i];                                                             \
            out[i] = value;                                                                    \
        }                                                                                      \
    }                                                                                          \
    static void left_##id(double *out, const double *b, double x, int64_t count)               \
    {                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                  \
            const double y = b[i];                                                             \
            out[i] = value;                                                                    \
        }                                                                                      \
    }
GY_DML_BINARY_LIST(GY_X)
#undef GY_X

#define GY_X(id, name, value)                                                                  \
    static double only_##id(double x)                                                          \
    {                                                                                          \
        return value;                                                                          \
    }                                                                                          \
    static void each_##id(double *out, const double *a, int64_t count)                         \
    {                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                  \
            const double x = a[i];                                                             \
            out[i] = value;                                                                    \
        }                                                                                      \
    }
GY_DML_UNARY_LIST(GY_X)
#undef GY_X

static const struct {
    const char *name;
    double (*one)(double x, double y);
    void (*both)(double *out, const double *a, const double *b, int64_t count);
    void (*right)(double *out, const double *a, double y, int64_t count);
    void (*left)(double *out, const double *b, double x, int64_t count);
} binary[] = {
#define GY_X(id, name, value) {name, one_##id, both_##id, right_##id, left_##id},
    GY_DML_BINARY_LIST(GY_X)
#undef GY_X
};

static const struct {
    double (*one)(double x);
    void (*each)(double *out, const double *a, int64_t count);
} unary[] = {
#define GY_X(id, name, value) {only_##id, each_##id},
    GY_DML_UNARY_LIST(GY_X)
#undef GY_X
};

double gy_dml_cell_binary(gy_dml_binary code, double x, double y)
{
    return binary[code].one(x, y);
}

double gy_dml_cell_unary(gy_dml_unary code, double x)
{
    return unary[code].one(x);
}

/* The reused matrix with one hold more, or a new one. */
static gy_status result_of(gy_dml_matrix *reuse, int64_t rows, int64_t columns,
                           gy_dml_matrix **out)
{
    if (reuse != NULL && reuse->rows == rows && reuse->columns == columns) {
        *out = gy_dml_hold(gy_dml_of_matrix(reuse)).matrix;
        return GY_OK;
    }
    return gy_dml_matrix_new(rows, columns, out);
}

gy_status gy_dml_cells_scalar(gy_dml_binary code, gy_dml_matrix *a, const double *scalar,
                              bool is_left, gy_dml_matrix *reuse, gy_dml_matrix **out)
{
    GY_TRY(result_of(reuse, a->rows, a->columns, out));
    (is_left ? binary[code].left : binary[code].right)((*out)->data, a->data, *scalar,
                                                       gy_dml_matrix_count(a));
    return GY_OK;
}

static bool is_single(const gy_dml_matrix *a)
{
    return a->rows == 1 && a->columns == 1;
}

/* b is a row (1, columns), a column (rows, 1), or, with a column a, the other side of an outer
 * form. */
static gy_status repeated(gy_dml_binary code, const gy_dml_matrix *a, const gy_dml_matrix *b,
                          gy_dml_matrix *reuse, gy_dml_matrix **out)
{
    const bool is_outer = a->columns == 1 && b->rows == 1;
    const bool is_row = b->rows == 1 && b->columns == a->columns;
    const bool is_column = b->columns == 1 && b->rows == a->rows;
    if (!is_outer && !is_row && !is_column) {
        return gy_fail(GY_SHAPE,
                       "%s: a matrix of %lldx%lld and one of %lldx%lld do not fit: expected "
                       "equal sizes, or a row or column on the right that is repeated",
                       binary[code].name, (long long)a->rows, (long long)a->columns,
                       (long long)b->rows, (long long)b->columns);
    }
    const int64_t columns = is_outer ? b->columns : a->columns;
    GY_TRY(result_of(reuse, a->rows, columns, out));
    for (int64_t i = 0; i < a->rows; i++) {
        double *to = (*out)->data + i * columns;
        if (is_outer) {
            binary[code].left(to, b->data, a->data[i], columns);
        } else if (is_row) {
            binary[code].both(to, a->data + i * columns, b->data, columns);
        } else {
            binary[code].right(to, a->data + i * columns, b->data[i], columns);
        }
    }
    return GY_OK;
}

gy_status gy_dml_cells_binary(gy_dml_binary code, gy_dml_matrix *a, gy_dml_matrix *b,
                              gy_dml_matrix *reuse, gy_dml_matrix **out)
{
    if (a->rows == b->rows && a->columns == b->columns) {
        GY_TRY(result_of(reuse, a->rows, a->columns, out));
        binary[code].both((*out)->data, a->data, b->data, gy_dml_matrix_count(a));
        return GY_OK;
    }
    if (is_single(b)) {
        return gy_dml_cells_scalar(code, a, b->data, false, reuse == a ? a : NULL, out);
    }
    if (is_single(a)) {
        return gy_dml_cells_scalar(code, b, a->data, true, reuse == b ? b : NULL, out);
    }
    return repeated(code, a, b, reuse == a && a->columns != 1 ? a : NULL, out);
}

gy_status gy_dml_cells_unary(gy_dml_unary code, gy_dml_matrix *a, gy_dml_matrix *reuse,
                             gy_dml_matrix **out)
{
    GY_TRY(result_of(reuse, a->rows, a->columns, out));
    unary[code].each((*out)->data, a->data, gy_dml_matrix_count(a));
    return GY_OK;
}
