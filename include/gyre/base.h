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

/** Every status code: 0 is success, above 0 a fact that is neither, below 0 a failure. */
#define GY_STATUS_LIST(X)                                                                      \
    X(OK, 0, "ok")                                                                             \
    X(AGAIN, 1, "try again")                                                                   \
    X(DONE, 2, "nothing is left to do")                                                        \
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

/** The text of a status code ("out of memory"); static. @threads any */
GY_API const char *gy_status_text(gy_status status);

/**
 * The text of this thread's last failure, "" when it had none.
 * @return valid until the thread's next failure
 * @threads any
 */
GY_API const char *gy_error_text(void);

/**
 * Free a text that the library made for its caller (a report, a drawing, a description). NULL
 * is fine. @threads any
 */
GY_API void gy_string_free(char *text);

/**
 * Escape a text from outside (a name, a path, a program's output) so that it can stand in a
 * message. Control characters become \n, \t, \r or \x1b; so do characters that steer a terminal
 * or turn the direction of writing, and bytes that are not UTF-8. Printable text is copied
 * unchanged, so the function is idempotent. A text that does not fit loses its middle ("…"),
 * not its end.
 *
 * @param out         (size_bytes >= 16) NUL-terminated
 * @param keeps       control characters that stay as they are, such as "\n"; "" for none
 * @return bytes in `out` without the NUL, below size_bytes
 * @threads any
 */
GY_API size_t gy_printable(char *out, size_t size_bytes, const char *text, size_t text_bytes,
                           const char *keeps);

/**
 * Print a message for people: fprintf, then gy_printable over the whole text. Line ends stay at
 * the text's end, and inside it only where the format itself has some.
 * @threads any
 */
GY_API void gy_print_to(FILE *out, const char *format, ...) GY_PRINTF(2, 3);

/**
 * Options structs. Each begins with `size_t struct_size` and means its defaults when all its
 * bytes are zero. struct_size says how large the struct was where the caller was compiled: the
 * library takes the members that the caller knew, and the defaults of later ones. Zero stands
 * for the size that this library knows, which is right for a program compiled with its headers.
 * GY_OPTIONS fills the member in:
 *
 *     gy_session_options options = GY_OPTIONS(gy_session_options, .comm = comm, .seed = 7);
 *
 * A function that takes options takes NULL for the defaults, too, unless its comment says that
 * a member is needed. It refuses with GY_ARG a struct_size below sizeof(size_t), and with
 * GY_UNSUPPORTED a larger struct of a later Gyre that sets what this library does not know.
 */
#define GY_OPTIONS(type, ...) ((type){.struct_size = sizeof(type), __VA_ARGS__})

/** A point in time on the process's monotonic clock, in nanoseconds. */
typedef struct gy_deadline {
    int64_t at_ns;
} gy_deadline;

#define GY_NEVER ((gy_deadline){INT64_MAX})

/** The deadline `timeout_s` from now on the real clock. @threads any */
GY_API gy_deadline gy_deadline_after(double timeout_s);

/**
 * Open /dev/null under each of the descriptors 0, 1 and 2 that is closed, so that no file that
 * is opened later gets such a number. Reading from or writing to the placeholder still fails.
 * The command gyre and gy_flow_start call this first.
 * @threads the first, before it starts others
 */
GY_API void gy_reserve_standard_files(void);

typedef enum gy_log_level {
    GY_LOG_ERROR,
    GY_LOG_WARN,
    GY_LOG_INFO,
    GY_LOG_DEBUG,
    GY_LOG_TRACE,
} gy_log_level;

/** Takes one line of the log, without its line end. Any thread may call it, and so may a
 * process that the library forked. */
typedef void (*gy_log_handler)(void *arg, gy_log_level level, const char *line);

/**
 * Give the library's messages and log lines to `handler` in place of standard error. GYRE_LOG
 * still chooses which levels there are; messages about a failure always come.
 *
 * @param handler NULL: standard error again
 * @threads the first, before it starts others
 */
GY_API void gy_log_set_handler(gy_log_handler handler, void *arg);

/** Library version, "major.minor.patch". */
GY_API const char *gy_version(void);

#ifdef __cplusplus
}
#endif
#endif
