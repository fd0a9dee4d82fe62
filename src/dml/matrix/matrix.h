/**
 * What scripts compute on f64 matrices: cells, reductions, running sums, pieces, products.
 * Matrices are row-major (rows, columns); no rows and no columns are ordinary.
 *
 * A function that takes `reuse` may write its result into that matrix, which is one of its
 * inputs that nobody else holds, or NULL; `out` has a hold of its own in any case.
 */
#ifndef GY_DML_MATRIX_MATRIX_H
#define GY_DML_MATRIX_MATRIX_H

#include "dml/values/values.h"

/** Binary functions of cells: name, what two doubles x and y give. Comparisons give 0 or 1. */
#define GY_DML_BINARY_LIST(X)                                                                  \
    X(PLUS, "+", x + y)                                                                        \
    X(MINUS, "-", x - y)                                                                       \
    X(TIMES, "*", x *y)                                                                        \
    X(DIVIDE, "/", x / y)                                                                      \
    X(POWER, "^", y == 2 ? x * x : pow(x, y))                                                  \
    X(WHOLE_DIVIDE, "%/%", gy_dml_whole_divide(x, y))                                          \
    X(MODULO, "%%", gy_dml_modulo(x, y))                                                       \
    X(LESS, "<", x < y ? 1.0 : 0.0)                                                            \
    X(LESS_EQUAL, "<=", x <= y ? 1.0 : 0.0)                                                    \
    X(GREATER, ">", x > y ? 1.0 : 0.0)                                                         \
    X(GREATER_EQUAL, ">=", x >= y ? 1.0 : 0.0)                                                 \
    X(EQUAL, "==", x == y ? 1.0 : 0.0)                                                         \
    X(NOT_EQUAL, "!=", x != y ? 1.0 : 0.0)                                                     \
    X(AND, "&", x != 0 && y != 0 ? 1.0 : 0.0)                                                  \
    X(OR, "|", x != 0 || y != 0 ? 1.0 : 0.0)                                                   \
    X(XOR, "xor", (x != 0) != (y != 0) ? 1.0 : 0.0)                                            \
    X(MIN, "min", isnan(x) || isnan(y) ? NAN : x < y ? x : y)                                  \
    X(MAX, "max", isnan(x) || isnan(y) ? NAN : x > y ? x : y)                                  \
    X(LOG, "log", log(x) / log(y))                                                             \
    X(BIT_AND, "bitwAnd", (double)((int64_t)x & (int64_t)y))                                   \
    X(BIT_OR, "bitwOr", (double)((int64_t)x | (int64_t)y))                                     \
    X(BIT_XOR, "bitwXor", (double)((int64_t)x ^ (int64_t)y))                                   \
    X(SHIFT_LEFT, "bitwShiftL", gy_dml_shift(x, y))                                            \
    X(SHIFT_RIGHT, "bitwShiftR", gy_dml_shift(x, -y))

typedef enum gy_dml_binary {
#define GY_X(id, name, value) GY_DML_CELL_##id,
    GY_DML_BINARY_LIST(GY_X)
#undef GY_X
        GY_DML_BINARY_COUNT
} gy_dml_binary;

/** Unary functions of cells. Halves are rounded up. */
#define GY_DML_UNARY_LIST(X)                                                                   \
    X(NEGATE, "-", -x)                                                                         \
    X(NOT, "!", x == 0 ? 1.0 : 0.0)                                                            \
    X(ABS, "abs", fabs(x))                                                                     \
    X(SIGN, "sign", x > 0 ? 1.0 : x < 0 ? -1.0 : x)                                            \
    X(SQRT, "sqrt", sqrt(x))                                                                   \
    X(EXP, "exp", exp(x))                                                                      \
    X(LN, "log", log(x))                                                                       \
    X(ROUND, "round", fabs(x) < 0x1p52 ? floor(x + 0.5) : x)                                   \
    X(FLOOR, "floor", floor(x))                                                                \
    X(CEIL, "ceil", ceil(x))                                                                   \
    X(SIN, "sin", sin(x))                                                                      \
    X(COS, "cos", cos(x))                                                                      \
    X(TAN, "tan", tan(x))                                                                      \
    X(ASIN, "asin", asin(x))                                                                   \
    X(ACOS, "acos", acos(x))                                                                   \
    X(ATAN, "atan", atan(x))                                                                   \
    X(SINH, "sinh", sinh(x))                                                                   \
    X(COSH, "cosh", cosh(x))                                                                   \
    X(TANH, "tanh", tanh(x))                                                                   \
    X(IS_NA, "is.na", isnan(x) ? 1.0 : 0.0)                                                    \
    X(IS_NAN, "is.nan", isnan(x) ? 1.0 : 0.0)                                                  \
    X(IS_INFINITE, "is.infinite", isinf(x) ? 1.0 : 0.0)

typedef enum gy_dml_unary {
#define GY_X(id, name, value) GY_DML_CELL_##id,
    GY_DML_UNARY_LIST(GY_X)
#undef GY_X
        GY_DML_UNARY_COUNT
} gy_dml_unary;

double gy_dml_cell_binary(gy_dml_binary code, double x, double y);
double gy_dml_cell_unary(gy_dml_unary code, double x);

/**
 * Cell by cell. Equal sizes; or one side is 1x1; or b is a row or a column that is repeated
 * over a; or a is a column and b a row, which gives their outer form. GY_SHAPE otherwise.
 */
GY_MUST_CHECK gy_status gy_dml_cells_binary(gy_dml_binary code, gy_dml_matrix *a,
                                            gy_dml_matrix *b, gy_dml_matrix *reuse,
                                            gy_dml_matrix **out);
/** With a scalar on the right, or (is_left) on the left. */
GY_MUST_CHECK gy_status gy_dml_cells_scalar(gy_dml_binary code, gy_dml_matrix *a,
                                            const double *scalar, bool is_left,
                                            gy_dml_matrix *reuse, gy_dml_matrix **out);
GY_MUST_CHECK gy_status gy_dml_cells_unary(gy_dml_unary code, gy_dml_matrix *a,
                                           gy_dml_matrix *reuse, gy_dml_matrix **out);

/** What a row, a column or a whole matrix is reduced to. */
typedef enum gy_dml_reduction {
    GY_DML_SUM,    /* compensated; 0 of nothing */
    GY_DML_MEAN,   /* NaN of nothing */
    GY_DML_MIN_OF, /* Inf of nothing; NaN where one is */
    GY_DML_MAX_OF,
    GY_DML_PRODUCT,
    GY_DML_VARIANCE, /* of a sample, by n - 1 */
    GY_DML_DEVIATION,
    GY_DML_MIN_INDEX, /* of the last of equal ones, from 1 */
    GY_DML_MAX_INDEX,
} gy_dml_reduction;

typedef enum gy_dml_over { GY_DML_OVER_ALL, GY_DML_OVER_ROWS, GY_DML_OVER_COLUMNS } gy_dml_over;

/** Of `count` doubles that lie `step` apart. */
double gy_dml_reduce_values(gy_dml_reduction what, const double *values, int64_t count,
                            int64_t step);
/** OVER_ROWS: one value a row (rows, 1); OVER_COLUMNS: one a column (1, columns); else 1x1. */
GY_MUST_CHECK gy_status gy_dml_reduce(gy_dml_reduction what, gy_dml_over over,
                                      const gy_dml_matrix *a, gy_dml_matrix **out);

/** a[r0:r1, c0:c1] with bounds from 0, the ends left out; checked by the caller. */
typedef struct gy_dml_box {
    int64_t row, row_end, column, column_end;
} gy_dml_box;

GY_MUST_CHECK gy_status gy_dml_cut(const gy_dml_matrix *a, const gy_dml_box *box,
                                   gy_dml_matrix **out);
/** Write `from` (of the box's size) into cells of `to` that nobody else reads or writes. */
void gy_dml_paste(gy_dml_matrix *to, const gy_dml_box *box, const gy_dml_matrix *from);
void gy_dml_paste_value(gy_dml_matrix *to, const gy_dml_box *box, double value);

GY_MUST_CHECK gy_status gy_dml_transpose(const gy_dml_matrix *a, gy_dml_matrix **out);
/** a %*% b. GY_SHAPE with both sizes. */
GY_MUST_CHECK gy_status gy_dml_product(gy_dml_matrix *a, gy_dml_matrix *b, gy_dml_matrix **out);

static inline double gy_dml_whole_divide(double x, double y)
{
    const double ratio = x / y;
    return __builtin_isfinite(ratio) ? __builtin_floor(ratio + 0x1p-53) : ratio;
}
double gy_dml_modulo(double x, double y);
/** x times 2^y, of whole numbers; y < 0 shifts right. */
double gy_dml_shift(double x, double y);

#endif
