/**
 * For tests with the stand-in for a device (tests/standin): what it has to say, and a device
 * that is opened for a test and leaves nothing behind.
 *
 * Where GYRE_TEST_DEVICE is set (scripts/device) the same tests run on device 0, whatever it
 * is. A device itself has no complaints and fails no call on purpose: tests that are about that
 * say standin_needed().
 */
#ifndef GY_TESTS_STANDIN_KIT_H
#define GY_TESTS_STANDIN_KIT_H

#include "ops/cuda/device.h"
#include "standin/standin.h"

#include <dlfcn.h>

#include "gy_test.h"

static const standin_hooks *standin;

/* ---- a device that is none of ours ---- */

static inline void standin_no_reset(uint64_t seed)
{
    (void)seed;
}

static inline int standin_no_count(const char *symbol)
{
    (void)symbol;
    return 0;
}

static inline const char *standin_no_call(int i)
{
    (void)i;
    return NULL;
}

static inline int standin_no_complaints(char *first, size_t size_bytes)
{
    (void)size_bytes;
    *first = '\0';
    return 0;
}

static inline int standin_no_live(void)
{
    return 0;
}

/* The rest of the test is about what only the stand-in does. */
static inline void standin_leave_out(void)
{
    printf("on a device this is left out: it needs the stand-in\n");
    skip();
}

static inline void standin_no_fail(const char *symbol, int n, int code)
{
    (void)symbol;
    (void)n;
    (void)code;
    standin_leave_out();
}

static inline void standin_no_stall(bool is_stalled)
{
    (void)is_stalled;
    standin_leave_out();
}

static const standin_hooks standin_none = {.reset = standin_no_reset,
                                           .fail_call = standin_no_fail,
                                           .stall = standin_no_stall,
                                           .count = standin_no_count,
                                           .called = standin_no_call,
                                           .complaints = standin_no_complaints,
                                           .order = standin_no_reset,
                                           .live = standin_no_live};

static inline bool standin_is_there(void)
{
    return standin != &standin_none;
}

static inline void standin_needed(void)
{
    if (!standin_is_there()) {
        standin_leave_out();
    }
}

/* A context takes a device some 0.3 s: this process keeps one, which tests open again and
 * again. False: there is none. */
static inline bool standin_keep_context(void)
{
    const gy_cuda_driver *driver = NULL;
    gy_cuda_context *context = NULL;
    return gy_cuda_driver_get(&driver) == GY_OK && driver->context_retain(&context, 0) == 0;
}

/* ---- the stand-in ---- */

/* The library that the driver is found in, for good. */
static inline int standin_find(void **state)
{
    (void)state;
    char path[1024];
    const char *folder = getenv("GYRE_CUDA_LIBRARIES");
    (void)gy_print(path, sizeof(path), "%s/libcuda.so.1", folder != NULL ? folder : "");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *get = library != NULL ? dlsym(library, "standin_get") : NULL;
    if (get == NULL && getenv("GYRE_TEST_DEVICE") != NULL) {
        standin = &standin_none;
        return standin_keep_context() ? 0 : 1;
    }
    if (get == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    const standin_hooks *(*call)(void) = NULL;
    memcpy(&call, &get, sizeof(call));
    standin = call();
    return 0;
}

/* Nothing has been complained of, nothing is left. */
static inline void standin_expect_clean(void)
{
    char first[512];
    if (standin->complaints(first, sizeof(first)) > 0) {
        fail_msg("the stand-in: %s", first);
    }
    assert_int_equal(standin->live(), 0);
}

/* One complaint at least, with these words; it is forgotten. */
static inline void standin_expect_complaint(const char *words)
{
    char first[512];
    assert_true(standin->complaints(first, sizeof(first)) > 0);
    if (strstr(first, words) == NULL) {
        fail_msg("the stand-in complains of '%s', expected '%s'", first, words);
    }
    assert_int_equal(standin->live(), 0);
    standin->reset(1);
}

static inline gy_deadline soon(void)
{
    return gy_deadline_after(60);
}

/* Wait for all of a stream, which may have failed. */
static inline void settle(gy_cuda_device *device, gy_cuda_stream *stream)
{
    if (stream != NULL && gy_cuda_stream_wait(device, stream, soon()) == GY_TIMEOUT) {
        fail_msg("%s", gy_error_text());
    }
}

#endif
