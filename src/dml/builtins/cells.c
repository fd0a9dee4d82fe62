/* Functions of cells, reductions, and what a value's kind and sizes are. */
#include "dml/builtins/builtins_priv.h"
#include "dml/values/frame.h"

#include <math.h>
#include <string.h>

static const char *const unary_names[] = {
#define GY_X(id, name, value) name,
    GY_DML_UNARY_LIST(GY_X)
#undef GY_X
};

static const char *const binary_names[] = {
#define GY_X(id, name, value) name,
    GY_DML_BINARY_LIST(GY_X)
#undef GY_X
};

static int place_of(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* Which scalars keep their integer type: what gives a whole number of one. */
static bool is_whole(gy_dml_unary code)
{
    return code == GY_DML_CELL_ABS;
}

static bool is_predicate(gy_dml_unary code)
{
    return code == GY_DML_CELL_IS_NA || code == GY_DML_CELL_IS_NAN ||
           code == GY_DML_CELL_IS_INFINITE;
}

static const char *const other_names[][2] = {
    {"ceiling", "ceil"}, {"isNA", "is.na"}, {"isNaN", "is.nan"}, {"isInf", "is.infinite"}};

gy_status gy_dml_run_cell(gy_dml_call *call)
{
    const char *name = call->builtin->name;
    for (size_t i = 0; i < GY_COUNT(other_names); i++) {
        name = strcmp(name, other_names[i][0]) == 0 ? other_names[i][1] : name;
    }
    const gy_dml_unary code = (gy_dml_unary)place_of(unary_names, GY_DML_UNARY_COUNT, name);
    const gy_dml_value *x = &call->args[0];
    if (x->kind == GY_DML_IS_MATRIX) {
        gy_dml_matrix *out = NULL;
        GY_TRY(gy_dml_cells_unary(code, x->matrix, NULL, &out));
        return gy_dml_give(call, out);
    }
    if (x->kind == GY_DML_IS_INTEGER && is_whole(code)) {
        return gy_dml_give_integer(call, x->whole < 0 ? -x->whole : x->whole);
    }
    double real = 0;
    GY_TRY(gy_dml_arg_real(call, 0, &real));
    const double value = gy_dml_cell_unary(code, real);
    if (is_predicate(code)) {
        call->results[0] = gy_dml_of_boolean(value != 0);
        return GY_OK;
    }
    return gy_dml_give_real(call, value);
}

static gy_status binary(gy_dml_call *call, gy_dml_binary code, const gy_dml_value *x,
                        const gy_dml_value *y)
{
    gy_dml_matrix *a = NULL, *b = NULL, *out = NULL;
    double real_x = 0, real_y = 0;
    if (x->kind != GY_DML_IS_MATRIX && y->kind != GY_DML_IS_MATRIX) {
        GY_TRY(gy_dml_as_real(x, call->builtin->name, &real_x));
        GY_TRY(gy_dml_as_real(y, call->builtin->name, &real_y));
        const double value = gy_dml_cell_binary(code, real_x, real_y);
        const bool is_integer = x->kind == GY_DML_IS_INTEGER && y->kind == GY_DML_IS_INTEGER &&
                                code != GY_DML_CELL_LOG;
        gy_dml_drop(&call->results[0]);
        call->results[0] = code == GY_DML_CELL_XOR ? gy_dml_of_boolean(value != 0)
                           : is_integer            ? gy_dml_of_integer((int64_t)value)
                                                   : gy_dml_of_real(value);
        return GY_OK;
    }
    GY_TRY(gy_dml_as_matrix(x, call->builtin->name, &a));
    gy_status status = gy_dml_as_matrix(y, call->builtin->name, &b);
    status = status == GY_OK ? gy_dml_cells_binary(code, a, b, NULL, &out) : status;
    gy_dml_matrix_drop(a);
    gy_dml_matrix_drop(b);
    GY_TRY(status);
    gy_dml_drop(&call->results[0]);
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_cell2(gy_dml_call *call)
{
    const int code = place_of(binary_names, GY_DML_BINARY_COUNT, call->builtin->name);
    return binary(call, (gy_dml_binary)code, &call->args[0], &call->args[1]);
}

gy_status gy_dml_run_log(gy_dml_call *call)
{
    return gy_dml_has(call, 1) ? binary(call, GY_DML_CELL_LOG, &call->args[0], &call->args[1])
                               : gy_dml_run_cell(call);
}

gy_status gy_dml_run_extreme(gy_dml_call *call)
{
    const bool is_max = strstr(call->builtin->name, "max") != NULL;
    if (call->count == 0) {
        return gy_fail(GY_ARG, "%s: expected at least one argument", call->builtin->name);
    }
    if (call->count == 1) {
        const gy_dml_value *x = &call->args[0];
        if (x->kind == GY_DML_IS_MATRIX) {
            return gy_dml_give_real(
                call, gy_dml_reduce_values(is_max ? GY_DML_MAX_OF : GY_DML_MIN_OF,
                                           x->matrix->data, gy_dml_matrix_count(x->matrix), 1));
        }
        call->results[0] = gy_dml_hold(*x);
        return GY_OK;
    }
    gy_dml_value left = gy_dml_hold(call->args[0]);
    gy_status status = GY_OK;
    for (int i = 1; i < call->count && status == GY_OK; i++) {
        status =
            binary(call, is_max ? GY_DML_CELL_MAX : GY_DML_CELL_MIN, &left, &call->args[i]);
        gy_dml_drop(&left);
        left = gy_dml_hold(call->results[0]);
    }
    gy_dml_drop(&left);
    return status;
}

static const struct {
    const char *name;
    gy_dml_reduction what;
} reductions[] = {
    {"sum", GY_DML_SUM},       {"Sums", GY_DML_SUM},           {"mean", GY_DML_MEAN},
    {"avg", GY_DML_MEAN},      {"Means", GY_DML_MEAN},         {"Mins", GY_DML_MIN_OF},
    {"Maxs", GY_DML_MAX_OF},   {"prod", GY_DML_PRODUCT},       {"Prods", GY_DML_PRODUCT},
    {"var", GY_DML_VARIANCE},  {"Vars", GY_DML_VARIANCE},      {"sd", GY_DML_DEVIATION},
    {"Sds", GY_DML_DEVIATION}, {"IndexMin", GY_DML_MIN_INDEX}, {"IndexMax", GY_DML_MAX_INDEX},
};

static gy_status weighted_mean(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL, *weights = NULL, *products = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = gy_dml_arg_matrix(call, 1, &weights);
    status = status == GY_OK
                 ? gy_dml_cells_binary(GY_DML_CELL_TIMES, x, weights, NULL, &products)
                 : status;
    if (status == GY_OK) {
        const int64_t count = gy_dml_matrix_count(products);
        status =
            gy_dml_give_real(call, gy_dml_reduce_values(GY_DML_SUM, products->data, count, 1) /
                                       gy_dml_reduce_values(GY_DML_SUM, weights->data,
                                                            gy_dml_matrix_count(weights), 1));
    }
    gy_dml_matrix_drop(x);
    gy_dml_matrix_drop(weights);
    gy_dml_matrix_drop(products);
    return status;
}

gy_status gy_dml_run_reduce(gy_dml_call *call)
{
    const char *name = call->builtin->name;
    gy_dml_over over = GY_DML_OVER_ALL;
    if (strncmp(name, "row", 3) == 0 || strncmp(name, "col", 3) == 0) {
        over = name[0] == 'r' ? GY_DML_OVER_ROWS : GY_DML_OVER_COLUMNS;
        name += 3;
    }
    gy_dml_reduction what = GY_DML_SUM;
    for (size_t i = 0; i < GY_COUNT(reductions); i++) {
        what = strcmp(reductions[i].name, name) == 0 ? reductions[i].what : what;
    }
    if (call->count > 1 && gy_dml_has(call, 1)) {
        return weighted_mean(call);
    }
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    const gy_status status = gy_dml_reduce(what, over, x, &out);
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    if (over != GY_DML_OVER_ALL) {
        return gy_dml_give(call, out);
    }
    const double value = out->data[0];
    gy_dml_matrix_drop(out);
    return gy_dml_give_real(call, value);
}

/* Rows and columns of a value that has them. */
static gy_status sizes_of(const gy_dml_call *call, int64_t *rows, int64_t *columns)
{
    const gy_dml_value *x = &call->args[0];
    if (x->kind == GY_DML_IS_MATRIX) {
        *rows = x->matrix->rows;
        *columns = x->matrix->columns;
        return GY_OK;
    }
    if (x->kind == GY_DML_IS_FRAME) {
        *rows = x->frame->rows;
        *columns = x->frame->columns;
        return GY_OK;
    }
    if (x->kind == GY_DML_IS_LIST) {
        *rows = (int64_t)x->list->count;
        *columns = 1;
        return GY_OK;
    }
    return gy_fail(GY_TYPE, "%s: expected a matrix, found %s", call->builtin->name,
                   gy_dml_value_kind_text(x->kind));
}

gy_status gy_dml_run_nrow(gy_dml_call *call)
{
    int64_t rows = 0, columns = 0;
    GY_TRY(sizes_of(call, &rows, &columns));
    return gy_dml_give_integer(call, rows);
}

gy_status gy_dml_run_ncol(gy_dml_call *call)
{
    int64_t rows = 0, columns = 0;
    GY_TRY(sizes_of(call, &rows, &columns));
    return gy_dml_give_integer(call, columns);
}

gy_status gy_dml_run_length(gy_dml_call *call)
{
    int64_t rows = 1, columns = 1;
    if (call->args[0].kind == GY_DML_IS_TEXT) {
        return gy_dml_give_integer(call, (int64_t)call->args[0].text->size);
    }
    if (!gy_dml_is_scalar(&call->args[0])) {
        GY_TRY(sizes_of(call, &rows, &columns));
    }
    return gy_dml_give_integer(call, rows * columns);
}

/* The function of cells of that sign or name; fails with those that there are. */
static gy_status operator_of(const gy_dml_call *call, int argument, gy_dml_binary *code)
{
    const char *name = "*";
    GY_TRY(gy_dml_arg_text(call, argument, &name));
    const int at = place_of(binary_names, GY_DML_BINARY_COUNT, name);
    if (at < 0) {
        return gy_fail(GY_ARG, "%s: there is no operator \"%.20s\"", call->builtin->name, name);
    }
    *code = (gy_dml_binary)at;
    return GY_OK;
}

gy_status gy_dml_run_outer(gy_dml_call *call)
{
    gy_dml_binary code = GY_DML_CELL_TIMES;
    gy_dml_matrix *u = NULL, *v = NULL, *out = NULL;
    GY_TRY(operator_of(call, 2, &code));
    GY_TRY(gy_dml_arg_matrix(call, 0, &u));
    gy_status status = gy_dml_arg_matrix(call, 1, &v);
    if (status == GY_OK && (u->columns != 1 || v->rows != 1)) {
        status = gy_fail(GY_SHAPE,
                         "outer: expected a column and a row, found %lldx%lld and %lldx%lld",
                         (long long)u->rows, (long long)u->columns, (long long)v->rows,
                         (long long)v->columns);
    }
    status = status == GY_OK ? gy_dml_matrix_new(u->rows, v->columns, &out) : status;
    for (int64_t i = 0; status == GY_OK && i < u->rows; i++) {
        for (int64_t j = 0; j < v->columns; j++) {
            out->data[i * v->columns + j] = gy_dml_cell_binary(code, u->data[i], v->data[j]);
        }
    }
    gy_dml_matrix_drop(u);
    gy_dml_matrix_drop(v);
    GY_TRY(status);
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_ppred(gy_dml_call *call)
{
    gy_dml_binary code = GY_DML_CELL_EQUAL;
    GY_TRY(operator_of(call, 2, &code));
    return binary(call, code, &call->args[0], &call->args[1]);
}

gy_status gy_dml_run_contains(gy_dml_call *call)
{
    double pattern = 0;
    bool is_there = false;
    gy_dml_matrix *x = NULL;
    GY_TRY(gy_dml_arg_real(call, 1, &pattern));
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    for (int64_t i = 0; i < gy_dml_matrix_count(x) && !is_there; i++) {
        is_there = isnan(pattern) ? isnan(x->data[i]) : x->data[i] == pattern;
    }
    gy_dml_matrix_drop(x);
    call->results[0] = gy_dml_of_boolean(is_there);
    return GY_OK;
}
