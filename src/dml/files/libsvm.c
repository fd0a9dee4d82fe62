/*
 * libsvm's rows of a label and sparse features as a matrix and back: as in SystemDS, the label
 * is the last column. Room store parses the text.
 *
 * Source: Chang & Lin, "LIBSVM: a library for support vector machines", README.
 */
#include "dml/files/files_priv.h"

#include <string.h>

static gy_status fill(const char *path, const gy_libsvm *rows, int64_t columns,
                      gy_dml_matrix **matrix)
{
    if (columns < 1 || rows->features > (uint64_t)columns - 1) {
        return gy_fail(GY_FORMAT, "%s: feature %llu and a label, expected %lld columns", path,
                       (unsigned long long)rows->features, (long long)columns);
    }
    GY_TRY(gy_dml_matrix_fill((int64_t)rows->rows, columns, 0, matrix));
    for (size_t i = 0; i < rows->rows; i++) {
        double *row = (*matrix)->data + (int64_t)i * columns;
        for (size_t k = rows->begins[i]; k < rows->begins[i + 1]; k++) {
            row[rows->indices[k]] = rows->values[k];
        }
        row[columns - 1] = rows->labels[i];
    }
    return GY_OK;
}

gy_status gy_dml_libsvm_parse(gy_dml_bytes bytes, const gy_dml_meta *meta,
                              gy_dml_matrix **matrix)
{
    gy_source *source = NULL;
    gy_libsvm *rows = NULL;
    GY_TRY(gy_source_of(bytes.data, bytes.size, bytes.path, GY_ENCODING_PLAIN, &source));
    gy_status status = gy_store_libsvm_read(source, UINT64_MAX, &rows);
    gy_source_close(source);
    GY_TRY(status);
    status =
        rows->features < (uint64_t)1 << 40
            ? fill(bytes.path, rows,
                   meta->columns >= 0 ? meta->columns : (int64_t)rows->features + 1, matrix)
            : gy_fail(GY_LIMIT, "%s: feature %llu is beyond 2^40", bytes.path,
                      (unsigned long long)rows->features);
    gy_libsvm_free(rows);
    return status;
}

gy_status gy_dml_libsvm_write(gy_writer *writer, const gy_dml_matrix *matrix)
{
    gy_text text = {.data = NULL};
    gy_status status = matrix->columns > 0
                           ? GY_OK
                           : gy_fail(GY_SHAPE, "write: a matrix without columns has no labels");
    for (int64_t i = 0; i < matrix->rows && status == GY_OK; i++) {
        const double *row = matrix->data + i * matrix->columns;
        for (int64_t j = 0; j < matrix->columns && status == GY_OK; j++) {
            const double value = row[j == 0 ? matrix->columns - 1 : j - 1];
            if (value - value != 0) {
                status =
                    gy_fail(GY_UNSUPPORTED, "write: row %lld: libsvm has finite numbers only",
                            (long long)i + 1);
            }
            if (j > 0 && value != 0) {
                gy_text_add(&text, " %lld:", (long long)j);
            }
            if (j == 0 || value != 0) {
                gy_dml_add_real(&text, value);
            }
        }
        gy_text_add(&text, "\n");
        status = status == GY_OK ? gy_dml_write_flush(writer, &text, true) : status;
    }
    status = status == GY_OK ? gy_dml_write_flush(writer, &text, false) : status;
    gy_text_free(&text);
    return status;
}
