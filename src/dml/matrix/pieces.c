/* Pieces of matrices, transposes and products. */
#include "dml/matrix/matrix.h"

#include "ops/kernels/libraries.h"

#include <limits.h>
#include <string.h>

enum { TILE = 32, SMALL = 8 };

gy_status gy_dml_cut(const gy_dml_matrix *a, const gy_dml_box *box, gy_dml_matrix **out)
{
    const int64_t rows = box->row_end - box->row, columns = box->column_end - box->column;
    GY_TRY(gy_dml_matrix_new(rows, columns, out));
    for (int64_t i = 0; i < rows && columns > 0; i++) {
        memcpy((*out)->data + i * columns, a->data + (box->row + i) * a->columns + box->column,
               (size_t)columns * sizeof(double));
    }
    return GY_OK;
}

void gy_dml_paste(gy_dml_matrix *to, const gy_dml_box *box, const gy_dml_matrix *from)
{
    for (int64_t i = 0; i < from->rows && from->columns > 0; i++) {
        memmove(to->data + (box->row + i) * to->columns + box->column,
                from->data + i * from->columns, (size_t)from->columns * sizeof(double));
    }
}

void gy_dml_paste_value(gy_dml_matrix *to, const gy_dml_box *box, double value)
{
    for (int64_t i = box->row; i < box->row_end; i++) {
        for (int64_t j = box->column; j < box->column_end; j++) {
            to->data[i * to->columns + j] = value;
        }
    }
}

/* One tile: rows [i, i + TILE) by columns [j, j + TILE). */
static void transpose_tile(const gy_dml_matrix *a, double *out, int64_t i, int64_t j)
{
    const int64_t i_end = GY_MIN(i + TILE, a->rows), j_end = GY_MIN(j + TILE, a->columns);
    for (int64_t row = i; row < i_end; row++) {
        for (int64_t column = j; column < j_end; column++) {
            out[column * a->rows + row] = a->data[row * a->columns + column];
        }
    }
}

gy_status gy_dml_transpose(const gy_dml_matrix *a, gy_dml_matrix **out)
{
    GY_TRY(gy_dml_matrix_new(a->columns, a->rows, out));
    if (a->rows == 1 || a->columns == 1) {
        memcpy((*out)->data, a->data, (size_t)gy_dml_matrix_count(a) * sizeof(double));
        return GY_OK;
    }
    for (int64_t i = 0; i < a->rows; i += TILE) {
        for (int64_t j = 0; j < a->columns; j += TILE) {
            transpose_tile(a, (*out)->data, i, j);
        }
    }
    return GY_OK;
}

static void product_plain(const gy_dml_matrix *a, const gy_dml_matrix *b, gy_dml_matrix *out)
{
    for (int64_t i = 0; i < a->rows; i++) {
        double *row = out->data + i * b->columns;
        for (int64_t j = 0; j < b->columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < a->columns; k++) {
                sum += a->data[i * a->columns + k] * b->data[k * b->columns + j];
            }
            row[j] = sum;
        }
    }
}

gy_status gy_dml_product(gy_dml_matrix *a, gy_dml_matrix *b, gy_dml_matrix **out)
{
    const gy_blas *blas = NULL;
    if (a->columns != b->rows) {
        return gy_fail(GY_SHAPE,
                       "%%*%%: a matrix of %lldx%lld and one of %lldx%lld do not fit: the "
                       "columns on the left are not the rows on the right",
                       (long long)a->rows, (long long)a->columns, (long long)b->rows,
                       (long long)b->columns);
    }
    GY_TRY(gy_dml_matrix_new(a->rows, b->columns, out));
    const int64_t m = a->rows, n = b->columns, k = a->columns;
    if ((m <= SMALL && n <= SMALL && k <= SMALL) || m == 0 || n == 0 || k == 0 ||
        GY_MAX(GY_MAX(m, n), k) > INT_MAX || gy_blas_get(&blas) != GY_OK) {
        product_plain(a, b, *out);
    } else if (n == 1) {
        blas->dgemv(GY_BLAS_ROW_MAJOR, GY_BLAS_PLAIN, (int)m, (int)k, 1, a->data, (int)k,
                    b->data, 1, 0, (*out)->data, 1);
    } else {
        blas->dgemm(GY_BLAS_ROW_MAJOR, GY_BLAS_PLAIN, GY_BLAS_PLAIN, (int)m, (int)n, (int)k, 1,
                    a->data, (int)k, b->data, (int)n, 0, (*out)->data, (int)n);
    }
    return GY_OK;
}
