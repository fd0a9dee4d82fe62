/**
 * What every part of Gyre shares: status codes, error texts, deadlines.
 */
#ifndef GYRE_BASE_H
#define GYRE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GY_API        __attribute__((visibility("default")))
#define GY_MUST_CHECK __attribute__((warn_unused_result))
#define GY_PRINTF(format_index, first_index)                                                   \
    __attribute__((format(printf, format_index, first_index)))

/** Every status code: 0 is success, above 0 "not yet", below 0 a failure. */
#define GY_STATUS_LIST(X)                                                                      \
    X(OK, 0, "ok")                                                                             \
    X(AGAIN, 1, "try again")                                                                   \
    X(NOMEM, -1, "out of memory")                                                              \
    X(ARG, -2, "bad argument")                                                                 \
    X(IO, -3, "input or output failed")                                                        \
    X(PEER, -4, "a peer is gone")                                                              \
    X(TIMEOUT, -5, "deadline passed")                                                          \
    X(MISMATCH, -6, "ranks disagree")                                                          \
    X(FORMAT, -7, "malformed data")                                                            \
    X(SHAPE, -8, "shapes do not fit")                                                          \
    X(TYPE, -9, "types do not fit")                                                            \
    X(CANCELLED, -10, "cancelled")                                                             \
    X(UNSUPPORTED, -11, "not supported")                                                       \
    X(NOTFOUND, -12, "not found")                                                              \
    X(EXISTS, -13, "exists already")                                                           \
    X(NUMERIC, -14, "not a number")                                                            \
    X(LIMIT, -15, "over a limit")                                                              \
    X(STATE, -16, "wrong state")

typedef enum gy_status {
#define GY_X(name, value, text) GY_##name = (value),
    GY_STATUS_LIST(GY_X)
#undef GY_X
} gy_status;

/** The text of a code, static. @threads any */
GY_API const char *gy_status_text(gy_status status);

/** What this thread's last failure said, "" if none; valid until its next failure. @threads any
 */
GY_API const char *gy_error_text(void);

/**
 * Write a text that came from outside (a name, a path, what a program said) so that it can
 * stand in a message: control characters come as \n, \t, \r or \x1b, and so do characters that
 * steer a terminal or turn the direction of writing, and bytes that are not UTF-8. A text that
 * is printable already stays as it is, so twice is as good as once. What does not fit loses its
 * middle ("…"), not its end.
 * @param out         (size_bytes >= 16) NUL-terminated
 * @param keeps       control characters that stay, as "\n" where lines are shown; "" for none
 * @return bytes in `out` without the NUL, below size_bytes
 * @threads any
 */
GY_API size_t gy_printable(char *out, size_t size_bytes, const char *text, size_t text_bytes,
                           const char *keeps);

/**
 * Print for people: as fprintf, and what the text carries from outside is made printable. Line
 * ends stay at its end, and inside where the format itself has some there.
 * @threads any
 */
GY_API void gy_print_to(FILE *out, const char *format, ...) GY_PRINTF(2, 3);

/** Pass a failure up. Not where something must be undone: use a named label there. */
#define GY_TRY(expr)                                                                           \
    do {                                                                                       \
        gy_status gy_try_ = (expr);                                                            \
        if (gy_try_ < 0) {                                                                     \
            return gy_try_;                                                                    \
        }                                                                                      \
    } while (0)

/** A point on the environment's monotonic clock, in nanoseconds. */
typedef struct gy_deadline {
    int64_t at_ns;
} gy_deadline;

#define GY_NEVER ((gy_deadline){INT64_MAX})

/** The deadline `seconds` from now on the real clock. @threads any */
GY_API gy_deadline gy_deadline_after(double seconds);

/**
 * Give the numbers of standard input, output and error to /dev/null where they are closed, so
 * that nothing that is opened later gets them; to read, or to write, still fails there. The
 * command gyre and gy_flow_start begin with it. @threads the one that starts the others
 */
GY_API void gy_reserve_standard_files(void);

/** Library version, "major.minor.patch". */
GY_API const char *gy_version(void);

#ifdef __cplusplus
}
#endif
#endif
