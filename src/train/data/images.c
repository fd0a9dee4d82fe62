/**
 * Data sets of images in IDX files, kept as bytes, widened when a batch is filled.
 */
#include "store/remote/remote.h"
#include "train/train.h"

#include "base/base.h"
#include "base/text.h"

#include <gyre/data.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct idx_dataset {
    gy_dataset base;
    gy_tensor *images, *labels; /* u8 (n, h, w) and (n); labels NULL: none are known */
    int64_t sample_count;       /* elements of one sample */
} idx_dataset;

static void idx_free(gy_dataset *dataset)
{
    idx_dataset *own = (idx_dataset *)dataset;
    gy_tensor_drop(own->images);
    gy_tensor_drop(own->labels);
    gy_free(own);
}

static void widen_f32(float *out, const uint8_t *pixels, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = (float)pixels[i] * (1.0F / 255);
    }
}

static void widen_f64(double *out, const uint8_t *pixels, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = pixels[i] * (1.0 / 255);
    }
}

static gy_status idx_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                          gy_view *x, gy_view *labels)
{
    idx_dataset *own = (idx_dataset *)dataset;
    int64_t size = own->sample_count;
    GY_ASSERT(x->dtype == GY_F32 || x->dtype == GY_F64);
    GY_ASSERT(gy_view_count(x) == count * size);
    gy_view images = gy_tensor_pin(own->images);
    gy_view classes = {.data = NULL};
    if (own->labels != NULL) {
        classes = gy_tensor_pin(own->labels);
    }
    const uint8_t *pixels = images.data;
    for (int64_t i = 0; i < count; i++) {
        GY_ASSERT(indices[i] >= 0 && indices[i] < dataset->count);
        if (x->dtype == GY_F32) {
            widen_f32((float *)x->data + i * size, pixels + indices[i] * size, size);
        } else {
            widen_f64((double *)x->data + i * size, pixels + indices[i] * size, size);
        }
        if (labels != NULL) {
            const uint8_t *known = classes.data;
            ((int32_t *)labels->data)[i] = known != NULL ? known[indices[i]] : 0;
        }
    }
    if (own->labels != NULL) {
        gy_tensor_unpin(own->labels);
    }
    gy_tensor_unpin(own->images);
    return GY_OK;
}

static const gy_dataset_ops idx_ops = {.name = "idx", .fill = idx_fill, .free = idx_free};

void gy_dataset_free(gy_dataset *dataset)
{
    if (dataset != NULL) {
        dataset->ops->free(dataset);
    }
}

/* Shapes and types of a pair that was read; labels may be NULL. */
static gy_status check_pair(const gy_tensor *images, const gy_tensor *labels,
                            const char *images_path, const char *labels_path)
{
    int rank = gy_tensor_rank(images);
    if (gy_tensor_dtype(images) != GY_U8 || rank < 2 || rank > 4) {
        return gy_fail(GY_FORMAT, "%s: holds %s of rank %d, expected images: u8 of rank 2 to 4",
                       images_path, gy_dtype_name(gy_tensor_dtype(images)), rank);
    }
    if (gy_tensor_size(images, 0) == 0) {
        return gy_fail(GY_FORMAT, "%s: no images", images_path);
    }
    if (labels == NULL) {
        return GY_OK;
    }
    if (gy_tensor_dtype(labels) != GY_U8 || gy_tensor_rank(labels) != 1) {
        return gy_fail(GY_FORMAT, "%s: holds %s of rank %d, expected labels: u8 of rank 1",
                       labels_path, gy_dtype_name(gy_tensor_dtype(labels)),
                       gy_tensor_rank(labels));
    }
    if (gy_tensor_size(images, 0) != gy_tensor_size(labels, 0)) {
        return gy_fail(GY_FORMAT, "%s has %lld images, %s has %lld labels", images_path,
                       (long long)gy_tensor_size(images, 0), labels_path,
                       (long long)gy_tensor_size(labels, 0));
    }
    return GY_OK;
}

/* The number of classes: `limit`, or the largest label + 1 when limit is 0. */
static gy_status count_classes(gy_tensor *labels, const char *path, int limit, int *classes)
{
    gy_view view = gy_tensor_pin(labels);
    const uint8_t *values = view.data;
    int largest = 0;
    gy_status status = GY_OK;
    for (int64_t i = 0; i < view.sizes[0] && status == GY_OK; i++) {
        largest = GY_MAX(largest, values[i]);
        if (limit > 0 && values[i] >= limit) {
            status = gy_fail(GY_FORMAT, "%s: label %d at index %lld: expected 0 to %d", path,
                             values[i], (long long)i, limit - 1);
        }
    }
    gy_tensor_unpin(labels);
    *classes = limit > 0 ? limit : largest + 1;
    return status;
}

static gy_status open_pair(const char *images_path, const char *labels_path, int class_limit,
                           gy_dataset **dataset)
{
    gy_tensor *images = NULL;
    gy_tensor *labels = NULL;
    int classes = 0;
    gy_status status = gy_read_idx(images_path, &images);
    if (status == GY_OK && labels_path != NULL) {
        status = gy_read_idx(labels_path, &labels);
    }
    if (status == GY_OK) {
        status = check_pair(images, labels, images_path, labels_path);
    }
    if (status == GY_OK && labels != NULL) {
        status = count_classes(labels, labels_path, class_limit, &classes);
    }
    idx_dataset *own = status == GY_OK ? gy_alloc_zero("train.dataset", 1, sizeof(*own)) : NULL;
    if (own == NULL) {
        gy_tensor_drop(images);
        gy_tensor_drop(labels);
        return status == GY_OK ? GY_NOMEM : status;
    }
    own->base =
        (gy_dataset){.ops = &idx_ops, .count = gy_tensor_size(images, 0), .classes = classes};
    own->images = images;
    own->labels = labels;
    own->sample_count = gy_tensor_count(images) / own->base.count;
    /* Grey images get their one channel. */
    int rank = gy_tensor_rank(images);
    if (rank == 3) {
        own->base.input_sizes[own->base.input_rank++] = 1;
    }
    for (int i = 1; i < rank; i++) {
        own->base.input_sizes[own->base.input_rank++] = gy_tensor_size(images, i);
    }
    *dataset = &own->base;
    return GY_OK;
}

gy_status gy_dataset_open_idx(const char *images_path, const char *labels_path,
                              gy_dataset **dataset)
{
    return open_pair(images_path, labels_path, 0, dataset);
}

/* `folder`/`name`, or with .gz behind it when only that is there. */
static gy_status find_file(const char *folder, const char *name, char *path, size_t size)
{
    if (!gy_print_whole(path, size - 4, "%s/%s", folder, name)) {
        return gy_fail(GY_ARG, "path too long: %.60s…", folder);
    }
    if (access(path, F_OK) == 0) {
        return GY_OK;
    }
    size_t end = strlen(path);
    memcpy(path + end, ".gz", 4);
    if (access(path, F_OK) == 0) {
        return GY_OK;
    }
    path[end] = '\0';
    return gy_fail(GY_NOTFOUND, "%s: no such file, nor %s.gz", path, name);
}

static gy_status open_part(const char *folder, const char *part, gy_dataset **dataset)
{
    char name[64];
    char images[4096];
    char labels[4096];
    snprintf(name, sizeof(name), "%s-images-idx3-ubyte", part);
    GY_TRY(find_file(folder, name, images, sizeof(images)));
    snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", part);
    GY_TRY(find_file(folder, name, labels, sizeof(labels)));
    return open_pair(images, labels, 10, dataset);
}

/* One part of the digits, read on a thread of its own: most of the time goes into expanding
 * gzip, which one thread does at the pace of one core. */
typedef struct part_job {
    const char *folder, *part;
    gy_dataset *dataset;
    gy_error error;
} part_job;

static void *part_main(void *arg)
{
    part_job *job = arg;
    gy_error_take(&job->error, open_part(job->folder, job->part, &job->dataset));
    return NULL;
}

gy_status gy_dataset_open_mnist(const char *folder, gy_dataset **train, gy_dataset **test)
{
    char path[4096];
    GY_TRY(gy_store_path_local(folder, "the folder of the digits", path, sizeof(path)));
    folder = path;
    part_job second = {.folder = folder, .part = "t10k"};
    gy_thread helper = {.is_started = false};
    bool has_helper = gy_thread_start(&helper, "gyre-data", part_main, &second) == GY_OK;
    gy_dataset *first = NULL;
    gy_status status = open_part(folder, "train", &first);
    if (has_helper) {
        gy_thread_join(&helper);
    } else if (status == GY_OK) {
        (void)part_main(&second);
    }
    if (status == GY_OK && second.error.status < 0) {
        status = gy_error_raise(&second.error);
    }
    if (status < 0) {
        gy_dataset_free(first);
        gy_dataset_free(second.dataset);
        return status;
    }
    *train = first;
    *test = second.dataset;
    return GY_OK;
}
