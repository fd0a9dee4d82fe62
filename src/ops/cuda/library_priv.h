/**
 * A library of NVIDIA's that is opened once, by one of its names.
 */
#ifndef GY_OPS_CUDA_LIBRARY_PRIV_H
#define GY_OPS_CUDA_LIBRARY_PRIV_H

#include "base/base.h"

enum { GY_CUDA_LIBRARY_NAMES = 4 };

/** One name of a library. */
typedef struct gy_cuda_library_name {
    const char *file;
    int major; /* of the CUDA that it belongs to; 0: of any */
} gy_cuda_library_name;

typedef struct gy_cuda_library {
    const char *what, *package;                        /* "NVRTC"; who brings it */
    gy_cuda_library_name names[GY_CUDA_LIBRARY_NAMES]; /* as they are preferred */
    void *handle;                                      /* NULL: missing */
    const char *file;                                  /* the name that was found */
    int major;                                         /* of that name */
    const char *symbol;                                /* the first that it lacks, or NULL */
    char reason[512];                                  /* why none could be opened */
} gy_cuda_library;

/** Open the first name that is there and of no newer CUDA than `major`; when all that are there
 * are newer, the first of them. What failed is kept in `library`. */
void gy_cuda_library_open(gy_cuda_library *library, int major);
/** A function of it; NULL and remembered when it is not there. */
void *gy_cuda_library_find(gy_cuda_library *library, const char *symbol);
/** GY_OK when all was found, else GY_NOTFOUND with what is missing and who brings it. */
GY_MUST_CHECK gy_status gy_cuda_library_check(const gy_cuda_library *library);
/** What tells builds of one version apart: size and time of the file that was opened. */
uint64_t gy_cuda_library_build(const gy_cuda_library *library);

/**
 * May a driver of that version (as the driver counts, 12040) run what the library makes?
 * @return GY_OK; GY_UNSUPPORTED the library is of a newer CUDA: says both versions
 */
GY_MUST_CHECK gy_status gy_cuda_library_check_version(const gy_cuda_library *library, int major,
                                                      int minor, int driver_version);

/** ISO C knows no conversion from object to function pointers; POSIX gives them one size. */
#define GY_CUDA_FIND(slot, library, symbol)                                                    \
    do {                                                                                       \
        void *symbol_ = gy_cuda_library_find((library), (symbol));                             \
        _Static_assert(sizeof(symbol_) == sizeof(slot), "pointers of one size");               \
        memcpy(&(slot), &symbol_, sizeof(slot));                                               \
    } while (0)

#endif
