/* Fuzz target: any bytes as a data file give a matrix or a failure; what csv gives is the same
 * again from what its numbers are written as. The first byte: the format. */
#include "dml/files/files.h"
#include "dml/values/frame.h"

#include <string.h>

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A csv file of the numbers, read again. */
static void check_again(const gy_dml_matrix *matrix)
{
    gy_text text = {.data = NULL};
    gy_dml_value again = GY_DML_NONE;
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    meta.format = GY_DML_FILE_CSV;
    for (int64_t i = 0; i < matrix->rows; i++) {
        for (int64_t j = 0; j < matrix->columns; j++) {
            gy_text_add(&text, "%s", j > 0 ? "," : "");
            gy_dml_add_real(&text, matrix->data[i * matrix->columns + j]);
        }
        gy_text_add(&text, "\n");
    }
    GY_ASSERT(gy_dml_file_parse("again", &meta, gy_text_get(&text), text.size_bytes, &again) ==
              GY_OK);
    GY_ASSERT(again.matrix->rows == matrix->rows && again.matrix->columns == matrix->columns);
    for (int64_t i = 0; i < gy_dml_matrix_count(matrix); i++) {
        const double a = matrix->data[i], b = again.matrix->data[i];
        GY_ASSERT((a != a && b != b) || memcmp(&a, &b, sizeof(a)) == 0);
    }
    gy_dml_drop(&again);
    gy_text_free(&text);
}

/* Every cell of a frame is written, and is what a cut of the frame has there. */
static void check_frame(gy_dml_frame *frame)
{
    gy_text text = {.data = NULL};
    for (int64_t j = 0; j < frame->columns; j++) {
        for (int64_t i = 0; i < frame->rows; i++) {
            text.size_bytes = 0;
            gy_dml_column_add(&text, frame->items[j], i);
        }
        GY_ASSERT(frame->items[j]->count == frame->rows);
    }
    gy_text_free(&text);
}

/* Sizes of MatrixMarket and indices of libsvm files may be anything: those above 999 are not
 * made here. */
static bool has_large_number(const char *text, size_t size)
{
    int digits = 0;
    for (size_t i = 0; i < size; i++) {
        const bool is_digit = text[i] >= '0' && text[i] <= '9';
        if ((is_digit && digits == 3) || (digits > 0 && (text[i] == 'e' || text[i] == 'E'))) {
            return true;
        }
        digits = is_digit ? digits + 1 : text[i] == '.' ? digits : 0;
    }
    return false;
}

static void check(gy_dml_value *value)
{
    if (value->kind == GY_DML_IS_FRAME) {
        check_frame(value->frame);
        return;
    }
    const gy_dml_matrix *matrix = value->matrix;
#ifdef GYRE_PLANTED_BUG
    /* as if rows were short */
    double *row = gy_alloc("fuzz", 3 * sizeof(double));
    for (int64_t j = 0; row != NULL && matrix->rows > 0 && j < matrix->columns; j++) {
        ((volatile double *)row)[j] = matrix->data[j];
    }
    gy_free(row);
#endif
    if (gy_dml_matrix_count(matrix) > 0 && gy_dml_matrix_count(matrix) < 10000) {
        check_again(matrix);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_dml_meta meta = GY_DML_META_DEFAULT;
    gy_dml_value value = GY_DML_NONE;
    if (size == 0) {
        return 0;
    }
    meta.format = (gy_dml_file_format)(data[0] % GY_DML_FILE_FORMATS);
    meta.is_frame = (data[0] & 64) != 0;
    meta.has_header = (data[0] & 128) != 0;
    meta.rows = meta.columns = meta.format == GY_DML_FILE_TEXT ? 64 : -1;
    char *copy = gy_alloc("fuzz", size - 1); /* of its size, so that a read past it is seen */
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, data + 1, size - 1);
    const bool has_sizes = meta.format != GY_DML_FILE_CSV && meta.format != GY_DML_FILE_TEXT;
    const bool is_large = has_sizes && has_large_number(copy, size - 1);
    if (!is_large && gy_dml_file_parse("fuzz", &meta, copy, size - 1, &value) == GY_OK) {
        check(&value);
        gy_dml_drop(&value);
    }
    gy_free(copy);
    return 0;
}
