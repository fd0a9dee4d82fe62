/* Fuzz target: any bytes as a libsvm file give rows or a failure, never both; rows have what
 * their header says. */
#include "base/base.h"
#include "store/store.h"

#include <gyre/data.h>

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const gy_libsvm *rows)
{
    GY_ASSERT(rows->rows > 0 && rows->begins[0] == 0);
    GY_ASSERT(rows->begins[rows->rows] == rows->count);
    for (size_t i = 0; i < rows->rows; i++) {
        GY_ASSERT(rows->begins[i] <= rows->begins[i + 1] && isfinite(rows->labels[i]));
        for (size_t k = rows->begins[i]; k < rows->begins[i + 1]; k++) {
            GY_ASSERT(rows->indices[k] < rows->features && isfinite(rows->values[k]));
            GY_ASSERT(k == rows->begins[i] || rows->indices[k - 1] < rows->indices[k]);
        }
    }
#ifdef GYRE_PLANTED_BUG
    /* room for two rows: a third is written beyond it */
    double *labels = gy_alloc_zero("fuzz", 2, sizeof(double));
    for (size_t i = 0; labels != NULL && i < rows->rows; i++) {
        ((volatile double *)labels)[i] = rows->labels[i];
    }
    gy_free(labels);
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gy_source *source = NULL;
    gy_libsvm *rows = NULL;
    if (gy_source_of(data, size, "fuzz", GY_ENCODING_AUTO, &source) == GY_OK) {
        gy_status status = gy_store_libsvm_read(source, 1 << 20, &rows);
        GY_ASSERT((status == GY_OK) == (rows != NULL));
        if (rows != NULL) {
            use(rows);
        }
        gy_libsvm_free(rows);
        gy_source_close(source);
    }
    return 0;
}
