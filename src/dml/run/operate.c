/* Operators on values: scalars by SystemDS's rules of types, matrices cell by cell. */
#include "dml/frame/frame.h"
#include "dml/run/run_priv.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
#define GY_X(id, name, value) name,
    GY_DML_BINARY_LIST(GY_X)
#undef GY_X
};

static bool is_comparison(gy_dml_binary code)
{
    return code >= GY_DML_CELL_LESS && code <= GY_DML_CELL_NOT_EQUAL;
}

static bool is_logical(gy_dml_binary code)
{
    return code == GY_DML_CELL_AND || code == GY_DML_CELL_OR;
}

static bool compare(gy_dml_binary code, int order)
{
    return code == GY_DML_CELL_LESS            ? order < 0
           : code == GY_DML_CELL_LESS_EQUAL    ? order <= 0
           : code == GY_DML_CELL_GREATER       ? order > 0
           : code == GY_DML_CELL_GREATER_EQUAL ? order >= 0
           : code == GY_DML_CELL_EQUAL         ? order == 0
                                               : order != 0;
}

static gy_status texts(gy_dml_binary code, const gy_dml_value *x, const gy_dml_value *y,
                       gy_dml_value *out)
{
    gy_text left = {.data = NULL}, right = {.data = NULL};
    gy_status status = GY_OK;
    gy_dml_add_value(&left, x);
    if (code == GY_DML_CELL_PLUS) {
        gy_dml_add_value(&left, y);
        status = left.status == GY_OK ? gy_dml_of_text(gy_text_get(&left), left.size_bytes, out)
                                      : left.status;
    } else if (is_comparison(code)) {
        gy_dml_add_value(&right, y);
        *out =
            gy_dml_of_boolean(compare(code, strcmp(gy_text_get(&left), gy_text_get(&right))));
    } else {
        status = gy_fail(GY_TYPE, "%s: strings have no arithmetic, except + that joins them",
                         names[code]);
    }
    gy_text_free(&left);
    gy_text_free(&right);
    return status;
}

static gy_status overflow(gy_dml_binary code, int64_t x, int64_t y)
{
    return gy_fail(GY_NUMERIC, "integer overflow in %lld %s %lld: write one as a double",
                   (long long)x, names[code], (long long)y);
}

/* Two integers, or an integer and a boolean. */
static gy_status integers(gy_dml_binary code, int64_t x, int64_t y, gy_dml_value *out)
{
    int64_t whole = 0;
    bool is_over = false;
    if (code == GY_DML_CELL_PLUS) {
        is_over = __builtin_add_overflow(x, y, &whole);
    } else if (code == GY_DML_CELL_MINUS) {
        is_over = __builtin_sub_overflow(x, y, &whole);
    } else if (code == GY_DML_CELL_TIMES) {
        is_over = __builtin_mul_overflow(x, y, &whole);
    } else if ((code == GY_DML_CELL_MODULO || code == GY_DML_CELL_WHOLE_DIVIDE) && y != 0) {
        is_over = x == INT64_MIN && y == -1 && code == GY_DML_CELL_WHOLE_DIVIDE;
        const int64_t rest = y == -1 ? 0 : x % y;
        const bool is_off = rest != 0 && (rest < 0) != (y < 0);
        whole = code == GY_DML_CELL_MODULO ? rest + (is_off ? y : 0)
                : is_over                  ? 0
                                           : x / y - is_off;
    } else {
        const double real = gy_dml_cell_binary(code, (double)x, (double)y);
        *out = is_comparison(code) ? gy_dml_of_boolean(compare(code, (x > y) - (x < y)))
               : is_logical(code)  ? gy_dml_of_boolean(real != 0)
                                   : gy_dml_of_real(real);
        return GY_OK;
    }
    *out = gy_dml_of_integer(whole);
    return is_over ? overflow(code, x, y) : GY_OK;
}

static gy_status scalars(gy_dml_binary code, const gy_dml_value *x, const gy_dml_value *y,
                         gy_dml_value *out)
{
    if (x->kind == GY_DML_IS_TEXT || y->kind == GY_DML_IS_TEXT) {
        return texts(code, x, y, out);
    }
    if (x->kind == GY_DML_IS_INTEGER && y->kind == GY_DML_IS_INTEGER) {
        return integers(code, x->whole, y->whole, out);
    }
    double a = 0, b = 0;
    GY_TRY(gy_dml_as_real(x, names[code], &a));
    GY_TRY(gy_dml_as_real(y, names[code], &b));
    if ((x->kind == GY_DML_IS_INTEGER || y->kind == GY_DML_IS_INTEGER) &&
        x->kind != GY_DML_IS_REAL && y->kind != GY_DML_IS_REAL) {
        return integers(code, (int64_t)a, (int64_t)b, out);
    }
    const double real = gy_dml_cell_binary(code, a, b);
    *out = is_comparison(code) || is_logical(code) ? gy_dml_of_boolean(real != 0)
                                                   : gy_dml_of_real(real);
    return GY_OK;
}

/* An item alone in a list stands for itself. */
static const gy_dml_value *plain(const gy_dml_value *value)
{
    while (value->kind == GY_DML_IS_LIST && value->list->count == 1) {
        value = &value->list->items[0];
    }
    return value;
}

static gy_dml_matrix *reusable(const gy_dml_value *value, bool is_owned)
{
    return is_owned && value->kind == GY_DML_IS_MATRIX && gy_dml_is_alone(value->matrix)
               ? value->matrix
               : NULL;
}

static gy_status refuse_kind(const char *name, const gy_dml_value *x, const gy_dml_value *y)
{
    return gy_fail(GY_TYPE, "%s: %s and %s have no such operation", name,
                   gy_dml_value_kind_text(x->kind), gy_dml_value_kind_text(y->kind));
}

/* A frame compared with a frame, a matrix or a scalar. */
static gy_status frames(gy_dml_binary code, const gy_dml_value *x, const gy_dml_value *y,
                        gy_dml_value *out)
{
    /* who is larger is the same seen from the other side */
    static const gy_dml_binary turned[] = {[GY_DML_CELL_LESS] = GY_DML_CELL_GREATER,
                                           [GY_DML_CELL_LESS_EQUAL] = GY_DML_CELL_GREATER_EQUAL,
                                           [GY_DML_CELL_GREATER] = GY_DML_CELL_LESS,
                                           [GY_DML_CELL_GREATER_EQUAL] = GY_DML_CELL_LESS_EQUAL,
                                           [GY_DML_CELL_EQUAL] = GY_DML_CELL_EQUAL,
                                           [GY_DML_CELL_NOT_EQUAL] = GY_DML_CELL_NOT_EQUAL};
    gy_dml_frame *a = NULL, *b = NULL, *made = NULL;
    GY_TRY(gy_dml_as_frame(x, names[code], &a));
    gy_status status = gy_dml_as_frame(y, names[code], &b);
    if (status == GY_OK) {
        const bool is_turned = a->rows == 1 && a->columns == 1 && is_comparison(code);
        status = gy_dml_frame_compare(is_turned ? turned[code] : code, is_turned ? b : a,
                                      is_turned ? a : b, &made);
    }
    gy_dml_frame_drop(a);
    gy_dml_frame_drop(b);
    GY_TRY(status);
    *out = gy_dml_of_frame(made);
    return GY_OK;
}

gy_status gy_dml_operate(gy_dml_binary code, gy_dml_value *x, gy_dml_value *y, int owned,
                         gy_dml_value *out)
{
    const gy_dml_value *a = plain(x), *b = plain(y);
    gy_dml_matrix *made = NULL;
    double scalar = 0;
    if (gy_dml_is_scalar(a) && gy_dml_is_scalar(b)) {
        return scalars(code, a, b, out);
    }
    const bool has_frame = a->kind == GY_DML_IS_FRAME || b->kind == GY_DML_IS_FRAME;
    const bool is_joined =
        code == GY_DML_CELL_PLUS && (a->kind == GY_DML_IS_TEXT || b->kind == GY_DML_IS_TEXT);
    if (has_frame && !is_joined) {
        return frames(code, a, b, out);
    }
    const bool is_text = a->kind == GY_DML_IS_TEXT || b->kind == GY_DML_IS_TEXT;
    if (is_text && (code == GY_DML_CELL_PLUS || is_comparison(code)) &&
        a->kind != GY_DML_IS_NOTHING && b->kind != GY_DML_IS_NOTHING) {
        return texts(code, a, b, out);
    }
    gy_dml_matrix *reuse = reusable(x, (owned & 1) != 0);
    if (a->kind == GY_DML_IS_MATRIX && b->kind == GY_DML_IS_MATRIX) {
        reuse = reuse != NULL ? reuse : reusable(y, (owned & 2) != 0);
        GY_TRY(gy_dml_cells_binary(code, a->matrix, b->matrix, reuse, &made));
    } else if (a->kind == GY_DML_IS_MATRIX && gy_dml_is_scalar(b)) {
        GY_TRY(gy_dml_as_real(b, names[code], &scalar));
        GY_TRY(gy_dml_cells_scalar(code, a->matrix, &scalar, false, reuse, &made));
    } else if (b->kind == GY_DML_IS_MATRIX && gy_dml_is_scalar(a)) {
        GY_TRY(gy_dml_as_real(a, names[code], &scalar));
        GY_TRY(gy_dml_cells_scalar(code, b->matrix, &scalar, true,
                                   reusable(y, (owned & 2) != 0), &made));
    } else {
        return refuse_kind(names[code], a, b);
    }
    *out = gy_dml_of_matrix(made);
    return GY_OK;
}

gy_status gy_dml_operate_unary(gy_dml_unary code, gy_dml_value *x, bool is_owned,
                               gy_dml_value *out)
{
    const gy_dml_value *a = plain(x);
    if (a->kind == GY_DML_IS_MATRIX) {
        gy_dml_matrix *made = NULL;
        GY_TRY(gy_dml_cells_unary(code, a->matrix, reusable(x, is_owned), &made));
        *out = gy_dml_of_matrix(made);
        return GY_OK;
    }
    if (code == GY_DML_CELL_NOT) {
        bool truth = false;
        GY_TRY(gy_dml_as_boolean(a, "!", &truth));
        *out = gy_dml_of_boolean(!truth);
        return GY_OK;
    }
    if (a->kind == GY_DML_IS_INTEGER) {
        *out = gy_dml_of_integer((int64_t)(0 - (uint64_t)a->whole));
        return GY_OK;
    }
    double real = 0;
    GY_TRY(gy_dml_as_real(a, "-", &real));
    *out = gy_dml_of_real(-real);
    return GY_OK;
}
