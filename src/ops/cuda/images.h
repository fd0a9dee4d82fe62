/**
 * Compiled kernels on disk, by content: a process finds what an earlier one has compiled.
 *
 * The folder is $GYRE_CACHE_DIR/kernels, $XDG_CACHE_HOME/gyre/kernels or ~/.cache/gyre/kernels,
 * this user's alone; GYRE_CACHE_DIR=none: there is none. A file is an image, its key and a
 * checksum. It appears whole, is taken only if nobody else can have written it, and counts as
 * absent where anything about it is wrong. Whatever fails here costs a compilation, never a
 * run.
 */
#ifndef GY_OPS_CUDA_IMAGES_H
#define GY_OPS_CUDA_IMAGES_H

#include "base/base.h"

enum { GY_CUDA_IMAGES_PATH_BYTES = 4096 };

typedef struct gy_cuda_images {
    char folder[GY_CUDA_IMAGES_PATH_BYTES]; /* "": none */
    uint64_t bytes_max;                     /* of the folder; what was used longest ago goes */
    uint64_t unmeasured_bytes;              /* written since the folder was measured */
    bool has_warned;
} gy_cuda_images;

/** All that decides what an image is, in 128 bits. */
typedef struct gy_cuda_image_key {
    uint64_t hash[2];
} gy_cuda_image_key;

/** What an image is made of. */
typedef struct gy_cuda_image_source {
    const char *text;
    const char *const *options; /* (option_count) of the compiler, the device's among them */
    int option_count;
    int compiler_major, compiler_minor;
    uint64_t compiler_build; /* an update of a version makes other images */
} gy_cuda_image_source;

/** Pure. @threads any */
gy_cuda_image_key gy_cuda_image_key_of(const gy_cuda_image_source *source);

/** Find the folder, and make it. Where that cannot be, a warning says why, and there is none.
 * Nothing has to be given back. */
void gy_cuda_images_open(gy_cuda_images *images);

/** The image of that key into `image`, which is empty, and which the caller owns; false: there
 * is none. @threads one at a time, beside other processes @cost some 50 us */
GY_MUST_CHECK bool gy_cuda_images_find(gy_cuda_images *images, gy_cuda_image_key key,
                                       gy_text *image);

/** Keep an image. A disk that is full or not to be written is a warning, once.
 * @threads as above @cost some 100 us; now and then a look at all files of the folder */
void gy_cuda_images_put(gy_cuda_images *images, gy_cuda_image_key key, const gy_text *image);

#endif
