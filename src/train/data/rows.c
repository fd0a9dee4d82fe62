/**
 * Data sets of sparse rows: the features that a row has, among zeros. Both parts of a file
 * share its rows.
 */
#include "train/train.h"

#include "base/base.h"
#include "store/remote/remote.h"

#include <gyre/data.h>

#include <string.h>

enum { CLASSES_MAX = 1000, FEATURES_MAX = 1 << 20, PATH_BYTES = 4096, TEST_EVERY = 10 };

/* What the parts of a file share. */
typedef struct shared_rows {
    int holders;
    gy_libsvm *rows;
    int32_t *classes; /* (rows) */
} shared_rows;

typedef struct rows_dataset {
    gy_dataset base;
    shared_rows *shared;
    bool is_test;
} rows_dataset;

static void drop_shared(shared_rows *shared)
{
    if (shared != NULL && --shared->holders <= 0) {
        gy_libsvm_free(shared->rows);
        gy_free(shared->classes);
        gy_free(shared);
    }
}

static void rows_free(gy_dataset *dataset)
{
    rows_dataset *own = (rows_dataset *)dataset;
    drop_shared(own->shared);
    gy_free(own);
}

/* The row of the file that sample `index` of a part is. */
static size_t row_of(const rows_dataset *own, int64_t index)
{
    const size_t i = (size_t)index;
    return own->is_test ? i * TEST_EVERY + TEST_EVERY - 1 : i + i / (TEST_EVERY - 1);
}

static gy_status rows_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                           gy_view *x, gy_view *labels)
{
    const rows_dataset *own = (const rows_dataset *)dataset;
    const gy_libsvm *rows = own->shared->rows;
    const int64_t size = dataset->input_sizes[0];
    GY_ASSERT(x->dtype == GY_F32 || x->dtype == GY_F64);
    memset(x->data, 0, (size_t)(count * size) * gy_dtype_bytes(x->dtype));
    for (int64_t i = 0; i < count; i++) {
        GY_ASSERT(indices[i] >= 0 && indices[i] < dataset->count);
        const size_t row = row_of(own, indices[i]);
        for (size_t k = rows->begins[row]; k < rows->begins[row + 1]; k++) {
            const int64_t at = i * size + (int64_t)rows->indices[k];
            if (x->dtype == GY_F32) {
                ((float *)x->data)[at] = (float)rows->values[k];
            } else {
                ((double *)x->data)[at] = rows->values[k];
            }
        }
        if (labels != NULL) {
            ((int32_t *)labels->data)[i] = own->shared->classes[row];
        }
    }
    return GY_OK;
}

static const gy_dataset_ops rows_ops = {.name = "libsvm", .fill = rows_fill, .free = rows_free};

/* Number the labels in ascending order. */
static gy_status number_classes(shared_rows *shared, const char *path, int *classes)
{
    const gy_libsvm *rows = shared->rows;
    double known[CLASSES_MAX] = {0};
    int count = 0;
    for (size_t i = 0; i < rows->rows; i++) {
        int at = 0;
        while (at < count && known[at] < rows->labels[i]) {
            at++;
        }
        if (at < count && known[at] == rows->labels[i]) {
            continue;
        }
        if (count == CLASSES_MAX) {
            return gy_fail(GY_LIMIT, "%s: more than %d different labels", path, CLASSES_MAX);
        }
        memmove(known + at + 1, known + at, (size_t)(count - at) * sizeof(*known));
        known[at] = rows->labels[i];
        count++;
    }
    for (size_t i = 0; i < rows->rows; i++) {
        int at = 0;
        while (known[at] < rows->labels[i]) {
            at++;
        }
        shared->classes[i] = at;
    }
    *classes = count;
    return count > 1 ? GY_OK
                     : gy_fail(GY_FORMAT, "%s: all rows have label %g, expected two or more",
                               path, known[0]);
}

static gy_status judge(const gy_libsvm *rows, const char *path)
{
    if (rows->features < 1 || rows->features > FEATURES_MAX) {
        return gy_fail(GY_LIMIT, "%s: %llu features, expected 1 to %d", path,
                       (unsigned long long)rows->features, FEATURES_MAX);
    }
    return rows->rows >= TEST_EVERY ? GY_OK
                                    : gy_fail(GY_FORMAT, "%s: %zu rows, expected %d or more",
                                              path, rows->rows, TEST_EVERY);
}

static gy_status make_part(shared_rows *shared, int classes, bool is_test, gy_dataset **dataset)
{
    const size_t tests = shared->rows->rows / TEST_EVERY;
    rows_dataset *own = gy_alloc_zero("train.dataset", 1, sizeof(*own));
    if (own == NULL) {
        return GY_NOMEM;
    }
    own->base = (gy_dataset){.ops = &rows_ops,
                             .count = (int64_t)(is_test ? tests : shared->rows->rows - tests),
                             .classes = classes,
                             .input_rank = 1,
                             .input_sizes = {(int64_t)shared->rows->features}};
    own->shared = shared;
    own->is_test = is_test;
    shared->holders++;
    *dataset = &own->base;
    return GY_OK;
}

/* Both parts hold what they share; this function does until its end. */
static gy_status make_parts(shared_rows *shared, const char *path, gy_dataset **train,
                            gy_dataset **test)
{
    gy_dataset *first = NULL;
    int classes = 0;
    GY_TRY(gy_read_libsvm(path, &shared->rows));
    GY_TRY(judge(shared->rows, path));
    shared->classes = gy_alloc("train.dataset", shared->rows->rows * sizeof(*shared->classes));
    if (shared->classes == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(number_classes(shared, path, &classes));
    GY_TRY(make_part(shared, classes, false, &first));
    gy_status status = make_part(shared, classes, true, test);
    if (status < 0) {
        gy_dataset_free(first);
        return status;
    }
    *train = first;
    return GY_OK;
}

gy_status gy_dataset_open_libsvm(const char *path, gy_dataset **train, gy_dataset **test)
{
    char local[PATH_BYTES];
    GY_TRY(gy_store_path_local(path, "the rows", local, sizeof(local)));
    shared_rows *shared = gy_alloc_zero("train.dataset", 1, sizeof(*shared));
    if (shared == NULL) {
        return GY_NOMEM;
    }
    shared->holders = 1;
    gy_status status = make_parts(shared, local, train, test);
    drop_shared(shared);
    return status;
}
