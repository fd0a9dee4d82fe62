/**
 * A device's driver without a device, stricter than one: shared libraries with the symbols of
 * libcuda.so.1, libnvrtc.so.12 and libcublasLt.so.12 (see docs/decisions/059), which the tests
 * put in their place by GYRE_CUDA_LIBRARIES.
 *
 * What a device forgives is a complaint: it is printed, with the seed that replays it, and the
 * test asks for it. A process that ends with something left behind ends with status 86.
 *
 * Environment: GYRE_TEST_CUDA_SEED (order of streams), GYRE_TEST_CUDA_DEVICES (how many, 1),
 * GYRE_TEST_CUDA_MEMORY (bytes of each, 64 MiB), GYRE_TEST_CUDA_VERSION (12040),
 * GYRE_TEST_CUDA_CAPABILITY (80), GYRE_TEST_CUDA_MULTIPROCESSORS (2),
 * GYRE_TEST_CUDA_FAIL=SYMBOL:N:CODE (its N-th call fails; N-M: those
 * from N to M; -9: the process is killed in it).
 */
#ifndef GY_TESTS_CUDA_STANDIN_H
#define GY_TESTS_CUDA_STANDIN_H

#include "ops/cuda/driver.h"

#include <stdlib.h>

enum {
    STANDIN_DEVICES_MAX = 4,
    STANDIN_STREAMS_MAX = 15,
    STANDIN_HOST = STANDIN_STREAMS_MAX, /* the host's place in a clock */
    STANDIN_EVENTS_MAX = 4096,
    STANDIN_BLOCKS_MAX = 8192,
    STANDIN_MODULES_MAX = 1024,
    STANDIN_FUNCTIONS_MAX = 4096,
    STANDIN_WORK_MAX = 64,         /* of a stream */
    STANDIN_ARGUMENT_BYTES = 4096, /* as a device's launch takes */
    STANDIN_EXIT = 86
};

/** What a test asks of the stand-in, by the symbol standin_get of libcuda.so.1. */
typedef struct standin_hooks {
    /** Forget calls, complaints and failures to come; nothing must be left of earlier work. */
    void (*reset)(uint64_t seed);
    /** The n-th call of a symbol from now on, counted from 1, gives `code`. What releases
     * something still does. */
    void (*fail_call)(const char *symbol, int n, int code);
    /** How often it was called since the reset. */
    int (*count)(const char *symbol);
    /** The i-th symbol that was called since the reset; NULL behind the last. */
    const char *(*called)(int i);
    /** Complaints since the reset, and the first of them. */
    int (*complaints)(char *first, size_t size_bytes);
    /** From here on another order of streams. */
    void (*order)(uint64_t seed);
    /** Nothing runs, until it is ended. */
    void (*stall)(bool is_stalled);
    /** Nothing of the streams whose bits are set runs; streams count from 0 as they are made.
     */
    void (*hold)(unsigned streams);
    /** Whatever was made and is not released. */
    int (*live)(void);
} standin_hooks;
__attribute__((visibility("default"))) const standin_hooks *standin_get(void);

/** What an image begins with; a shared library follows. */
typedef struct standin_image {
    uint64_t magic, size_bytes;
} standin_image;
#define STANDIN_MAGIC 0x6e69622d61647563u

/* ---- for the other libraries of the stand-in ---- */

/** What the stand-in itself must have right. */
#define STANDIN_EXPECT(fact)                                                                   \
    do {                                                                                       \
        if (!(fact)) {                                                                         \
            fprintf(stderr, "stand-in: expected %s\n", #fact);                                 \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

#define STANDIN_EXPORT __attribute__((visibility("default")))

/** Every call begins so: takes the lock, counts, and gives the code that it shall fail with. */
STANDIN_EXPORT int standin_enter(const char *symbol);
/** And ends so. */
STANDIN_EXPORT int standin_leave(int code);
STANDIN_EXPORT void standin_complain(const char *format, ...) GY_PRINTF(1, 2);
/** Memory of the device that a call uses. */
typedef struct standin_range {
    gy_cuda_address address;
    size_t size_bytes;
    bool writes;
} standin_range;
/** Work that waits in a stream: run(arguments), which are copied. */
typedef struct standin_call {
    const char *by;
    void (*run)(const void *arguments);
    const void *arguments;
    size_t size_bytes;
} standin_call;
/** A code of the driver. */
STANDIN_EXPORT int standin_push_call(gy_cuda_stream *stream, const standin_call *call,
                                     const standin_range *ranges, int count);
/** One thing more (1) or less (-1) that must be released. */
STANDIN_EXPORT void standin_count_live(int change);

#endif
