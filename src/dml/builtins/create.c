/* New matrices: of data, of chance, of sequences. */
#include "dml/builtins/builtins_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "1 2 3" as a column. */
static gy_status parse_cells(const char *text, gy_dml_matrix **out)
{
    static const char between[] = " \t\r\n,";
    int64_t count = 0;
    for (const char *at = text + strspn(text, between); *at != '\0';) {
        count++;
        at += strcspn(at, between);
        at += strspn(at, between);
    }
    GY_TRY(gy_dml_matrix_new(count, 1, out));
    int64_t i = 0;
    for (const char *at = text + strspn(text, between); *at != '\0'; i++) {
        char *end = NULL;
        (*out)->data[i] = strtod(at, &end);
        if (end != at + strcspn(at, between)) {
            gy_dml_matrix_drop(*out);
            return gy_fail(GY_ARG, "matrix: \"%.20s\" is no number", at);
        }
        at = end + strspn(end, between);
    }
    return GY_OK;
}

/* Rows and columns of which one or both may be left out (-1). */
static gy_status complete_sizes(int64_t count, int64_t *rows, int64_t *columns)
{
    if (*rows < 0 && *columns < 0) {
        *rows = count;
        *columns = 1;
    } else if (*rows < 0) {
        *rows = *columns > 0 ? count / *columns : 0;
    } else if (*columns < 0) {
        *columns = *rows > 0 ? count / *rows : 0;
    }
    return *rows >= 0 && *columns >= 0 && (*columns == 0 || *rows <= INT64_MAX / *columns) &&
                   *rows * *columns == count
               ? GY_OK
               : gy_fail(GY_SHAPE, "matrix: %lld cells do not make a matrix of %lldx%lld",
                         (long long)count, (long long)*rows, (long long)*columns);
}

static gy_status reshape(gy_dml_call *call, const gy_dml_matrix *from, bool is_by_row)
{
    int64_t rows = -1, columns = -1;
    gy_dml_matrix *out = NULL;
    GY_TRY(gy_dml_arg_integer(call, 1, &rows));
    GY_TRY(gy_dml_arg_integer(call, 2, &columns));
    GY_TRY(complete_sizes(gy_dml_matrix_count(from), &rows, &columns));
    GY_TRY(gy_dml_matrix_new(rows, columns, &out));
    const int64_t count = rows * columns;
    if (is_by_row) {
        memcpy(out->data, from->data, (size_t)count * sizeof(double));
        return gy_dml_give(call, out);
    }
    for (int64_t i = 0; i < count; i++) { /* the i-th cell by columns of both */
        out->data[i % rows * columns + i / rows] =
            from->data[i % from->rows * from->columns + i / from->rows];
    }
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_matrix(gy_dml_call *call)
{
    bool is_by_row = true;
    GY_TRY(gy_dml_arg_boolean(call, 3, &is_by_row));
    const gy_dml_value *data = &call->args[0];
    gy_dml_matrix *cells = NULL;
    if (data->kind == GY_DML_IS_MATRIX) {
        return reshape(call, data->matrix, is_by_row);
    }
    if (data->kind == GY_DML_IS_TEXT) {
        GY_TRY(parse_cells(data->text->data, &cells));
        if (gy_dml_matrix_count(cells) != 1) {
            const gy_status status = reshape(call, cells, is_by_row);
            gy_dml_matrix_drop(cells);
            return status;
        }
    }
    int64_t rows = 1, columns = 1;
    const bool is_text = cells != NULL;
    double value = is_text ? cells->data[0] : 0;
    gy_dml_matrix_drop(cells);
    GY_TRY(gy_dml_arg_integer(call, 1, &rows));
    GY_TRY(gy_dml_arg_integer(call, 2, &columns));
    if (!is_text) {
        GY_TRY(gy_dml_arg_real(call, 0, &value));
    }
    gy_dml_matrix *out = NULL;
    GY_TRY(gy_dml_matrix_fill(rows, columns, value, &out));
    return gy_dml_give(call, out);
}

/* Knuth's product of uniforms for small rates, in steps of at most 500 (TAOCP 2, 3.4.1). */
static double poisson(gy_random *random, double rate)
{
    double count = 0;
    while (rate > 0) {
        const double part = GY_MIN(rate, 500);
        const double limit = exp(-part);
        double product = gy_random_unit(random);
        while (product > limit) {
            product *= gy_random_unit(random);
            count++;
        }
        rate -= part;
    }
    return count;
}

typedef struct draw {
    double low, high, sparsity, rate;
    const char *pdf;
} draw;

static double draw_cell(gy_random *random, const draw *from)
{
    if (from->sparsity < 1 && gy_random_unit(random) >= from->sparsity) {
        return 0;
    }
    return from->pdf[0] == 'u'   ? from->low + (from->high - from->low) * gy_random_unit(random)
           : from->pdf[0] == 'n' ? gy_random_normal(random)
                                 : poisson(random, from->rate);
}

/* The stream of a seed, or the script's own one for a seed of -1. */
static gy_status stream_of(gy_dml_call *call, int seed_argument, gy_random *random)
{
    int64_t seed = -1;
    GY_TRY(gy_dml_arg_integer(call, seed_argument, &seed));
    const uint64_t key = seed == -1 ? gy_random_u64(&call->state->random) : (uint64_t)seed;
    *random = (gy_random){.key = key};
    return GY_OK;
}

gy_status gy_dml_run_rand(gy_dml_call *call)
{
    int64_t rows = 1, columns = 1;
    draw from = {.low = 0, .high = 1, .sparsity = 1, .rate = 1, .pdf = "uniform"};
    gy_random random;
    gy_dml_matrix *out = NULL;
    GY_TRY(gy_dml_arg_integer(call, 0, &rows));
    GY_TRY(gy_dml_arg_integer(call, 1, &columns));
    GY_TRY(gy_dml_arg_real(call, 2, &from.low));
    GY_TRY(gy_dml_arg_real(call, 3, &from.high));
    GY_TRY(gy_dml_arg_real(call, 4, &from.sparsity));
    GY_TRY(gy_dml_arg_text(call, 5, &from.pdf));
    GY_TRY(gy_dml_arg_real(call, 7, &from.rate));
    GY_TRY(stream_of(call, 6, &random));
    if (strcmp(from.pdf, "uniform") != 0 && strcmp(from.pdf, "normal") != 0 &&
        strcmp(from.pdf, "poisson") != 0) {
        return gy_fail(GY_ARG, "rand: pdf: \"%.40s\" is none of uniform, normal, poisson",
                       from.pdf);
    }
    if (!(from.sparsity >= 0 && from.sparsity <= 1)) {
        return gy_fail(GY_ARG, "rand: sparsity: %g is not within [0, 1]", from.sparsity);
    }
    if (from.high < from.low) {
        return gy_fail(GY_ARG, "rand: max %g is below min %g", from.high, from.low);
    }
    if (!(from.rate >= 0 && from.rate <= 1e6)) {
        return gy_fail(GY_ARG, "rand: lambda: %g is not within [0, 1e6]", from.rate);
    }
    GY_TRY(gy_dml_matrix_new(rows, columns, &out));
    for (int64_t i = 0; i < rows * columns; i++) {
        out->data[i] = draw_cell(&random, &from);
    }
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_seq(gy_dml_call *call)
{
    double from = 0, to = 0;
    GY_TRY(gy_dml_arg_real(call, 0, &from));
    GY_TRY(gy_dml_arg_real(call, 1, &to));
    double by = from <= to ? 1 : -1;
    GY_TRY(gy_dml_arg_real(call, 2, &by));
    const double count = floor((to - from) / by + 1e-10) + 1;
    if (!(count >= 1 && count < 0x1p60)) {
        return from == to
                   ? gy_fail(GY_ARG, "seq: a step of 0")
                   : gy_fail(GY_ARG, "seq: from %g to %g by %g never ends or never begins",
                             from, to, by);
    }
    gy_dml_matrix *out = NULL;
    GY_TRY(gy_dml_matrix_new((int64_t)count, 1, &out));
    for (int64_t i = 0; i < out->rows; i++) {
        out->data[i] = from + (double)i * by;
    }
    return gy_dml_give(call, out);
}

/* Floyd's sample without repetition, shuffled as it grows (Bentley and Floyd 1987) would need a
 * set; a range up to this is permuted instead. */
gy_status gy_dml_run_sample(gy_dml_call *call)
{
    int64_t range = 0, size = 0;
    bool is_repeated = false;
    gy_random random;
    gy_dml_matrix *out = NULL, *all = NULL;
    GY_TRY(gy_dml_arg_integer(call, 0, &range));
    GY_TRY(gy_dml_arg_integer(call, 1, &size));
    int seed = 3;
    if (gy_dml_has(call, 2) && call->args[2].kind != GY_DML_IS_BOOLEAN &&
        !gy_dml_has(call, 3)) {
        seed = 2; /* sample(range, size, seed) */
    } else {
        GY_TRY(gy_dml_arg_boolean(call, 2, &is_repeated));
    }
    GY_TRY(stream_of(call, seed, &random));
    if (range < 1 || size < 0 || (!is_repeated && size > range)) {
        return gy_fail(GY_ARG, "sample: %lld of 1:%lld%s", (long long)size, (long long)range,
                       is_repeated ? "" : " without repetition");
    }
    GY_TRY(gy_dml_matrix_new(size, 1, &out));
    if (is_repeated) {
        for (int64_t i = 0; i < size; i++) {
            out->data[i] = 1 + (double)gy_random_below(&random, (uint64_t)range);
        }
        return gy_dml_give(call, out);
    }
    const gy_status status = gy_dml_matrix_new(range, 1, &all);
    if (status != GY_OK) {
        gy_dml_matrix_drop(out);
        return status;
    }
    for (int64_t i = 0; i < range; i++) {
        all->data[i] = (double)(i + 1);
    }
    for (int64_t i = 0; i < size; i++) {
        const int64_t k = i + (int64_t)gy_random_below(&random, (uint64_t)(range - i));
        out->data[i] = all->data[k];
        all->data[k] = all->data[i];
    }
    gy_dml_matrix_drop(all);
    return gy_dml_give(call, out);
}

gy_status gy_dml_run_diag(gy_dml_call *call)
{
    gy_dml_matrix *x = NULL, *out = NULL;
    GY_TRY(gy_dml_arg_matrix(call, 0, &x));
    gy_status status = GY_OK;
    if (x->columns == 1 && x->rows != 1) {
        status = gy_dml_matrix_fill(x->rows, x->rows, 0, &out);
        for (int64_t i = 0; i < x->rows && status == GY_OK; i++) {
            out->data[i * x->rows + i] = x->data[i];
        }
    } else if (x->rows == x->columns) {
        status = gy_dml_matrix_new(x->rows, 1, &out);
        for (int64_t i = 0; i < x->rows && status == GY_OK; i++) {
            out->data[i] = x->data[i * x->columns + i];
        }
    } else {
        status = gy_fail(GY_SHAPE,
                         "diag: expected a column or a square matrix, found one of %lldx%lld",
                         (long long)x->rows, (long long)x->columns);
    }
    gy_dml_matrix_drop(x);
    GY_TRY(status);
    return gy_dml_give(call, out);
}
