/**
 * Failures and assertions.
 *
 * Whoever first sees a failure calls gy_fail(): it records code, place and text for the thread
 * and logs once at debug level; callers pass the code on. Misuse of an interface is no failure:
 * GY_ASSERT panics.
 */
#ifndef GY_BASE_FAIL_H
#define GY_BASE_FAIL_H

#include <gyre/base.h>

/** Record a failure and return its code. `format` is one line without a newline, lower case. */
#define gy_fail(status, ...) gy_fail_at((status), __FILE__, __LINE__, __VA_ARGS__)

gy_status gy_fail_at(gy_status status, const char *file, int line, const char *format, ...)
    GY_PRINTF(4, 5);

/** Put words before the recorded text: "words: text". Returns `status`, which it does not
 * change. */
gy_status gy_fail_within(gy_status status, const char *format, ...) GY_PRINTF(2, 3);

/** Pass a failure up. Not where something must be undone: use a named label there. */
#define GY_TRY(expr)                                                                           \
    do {                                                                                       \
        gy_status gy_try_ = (expr);                                                            \
        if (gy_try_ < 0) {                                                                     \
            return gy_try_;                                                                    \
        }                                                                                      \
    } while (0)

enum { GY_ERROR_TEXT_BYTES = 1024 };

/** A failure that travels between threads, ranks and requests. */
typedef struct gy_error {
    gy_status status;
    int rank; /* where it was seen; -1: here */
    char text[GY_ERROR_TEXT_BYTES];
} gy_error;

/** Copy this thread's last failure into `error`. */
void gy_error_take(gy_error *error, gy_status status);

/** gy_error_take if `status` is a failure. Returns `status`. */
gy_status gy_error_keep(gy_error *error, gy_status status);

/** Make `error` this thread's last failure and return its code. */
gy_status gy_error_raise(const gy_error *error);

_Noreturn void gy_panic_at(const char *file, int line, const char *format, ...) GY_PRINTF(3, 4);
#define gy_panic(...) gy_panic_at(__FILE__, __LINE__, __VA_ARGS__)

/** Always on: O(1), one fact each. */
#define GY_ASSERT(fact)                                                                        \
    ((fact) ? (void)0 : gy_panic_at(__FILE__, __LINE__, "assertion failed: %s", #fact))

/** Facts that are O(n), or that each task of nanoseconds would pay; development builds alone.
 */
#ifdef GYRE_DEEP
#define GY_CHECK_DEEP(fact) GY_ASSERT(fact)
#else
#define GY_CHECK_DEEP(fact) ((void)sizeof(!(fact))) /* named, never evaluated */
#endif

#endif
