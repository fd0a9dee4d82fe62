/**
 * Scripts in SystemDS's language (DML), run in this process:
 *
 *     gy_script_options options = GY_OPTIONS(gy_script_options, .text = "y = X %*% t(X)");
 *     gy_script *script = NULL;
 *     gy_status status = gy_script_new(&options, &script);
 *     status = status == GY_OK ? gy_script_set(script, "X", x) : status;
 *     status = status == GY_OK ? gy_script_run(script) : status;
 *     status = status == GY_OK ? gy_script_get(script, "y", &y) : status;
 *     gy_script_free(script);
 */
#ifndef GYRE_SCRIPT_H
#define GYRE_SCRIPT_H

#include <gyre/base.h>
#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gy_script gy_script;

typedef struct gy_script_options {
    size_t struct_size;
    const char *path;         /* the script's file; with `text`, its name in messages */
    const char *text;         /* NULL: what the file has */
    const char *const *args;  /* (arg_count): $1, $2, ... */
    const char *const *named; /* (named_count): "name=value" for $name */
    int arg_count, named_count;
    /* What the script prints; NULL: standard output. Called by one thread at a time, inside a
     * parfor perhaps not the one that runs the script. */
    void (*print)(void *arg, const char *text, size_t size_bytes);
    void *print_arg;
    bool statistics; /* count and time instructions, for gy_script_statistics; a script is
                        slower */
} gy_script_options;

/**
 * Read, parse and bind a script with all that it sources and calls; nothing runs. Functions
 * that it does not define are found as NAME.dml in the folders of GYRE_DML_PATH ("A:B"),
 * then in share/gyre/dml beside the library.
 *
 * @param options  borrowed while the script lives
 * @param script   takes it, also after a failure that gy_script_report explains; NULL for
 *     GY_NOMEM. Caller owns it
 * @return GY_OK; GY_FORMAT no such language; GY_NOTFOUND a file, name or function; GY_ARG
 */
GY_API GY_MUST_CHECK gy_status gy_script_new(const gy_script_options *options,
                                             gy_script **script);
/** Give a variable a matrix, an f64 tensor of rank 2, before the script runs: it is copied.
 * @return GY_OK; GY_NOTFOUND the script has no such name; GY_TYPE, GY_SHAPE; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_script_set(gy_script *script, const char *name,
                                             gy_tensor *tensor);
/** Run it, once. @return GY_OK; what ended it. @threads one at a time */
GY_API GY_MUST_CHECK gy_status gy_script_run(gy_script *script);
/**
 * Run further statements, as typed at a terminal, with the variables and functions that there
 * are; the value of an expression alone is printed. A failure ends these statements only.
 * @return GY_OK; GY_AGAIN the text ends within a statement: give it again with what follows;
 *     what ended it, also for gy_script_report @threads one at a time
 */
GY_API GY_MUST_CHECK gy_status gy_script_input(gy_script *script, const char *text);
/** End what runs now, or nothing: the run or the input fails with GY_CANCELLED before its next
 * loop, call or operation, and its report says where it was. @threads any, also a signal
 * handler */
GY_API void gy_script_interrupt(gy_script *script);
/** What a script with statistics cost so far, as lines: time in all and of compilation, peak
 * memory, the `rows_max` costliest instructions with count and time. Caller frees it with
 * gy_string_free. NULL: out of memory. */
GY_API char *gy_script_statistics(const gy_script *script, int rows_max);
/** A variable after the run as an f64 tensor of rank 2; a number is 1x1. Caller owns a hold of
 * what no later call changes. @return GY_OK; GY_NOTFOUND; GY_TYPE; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_script_get(gy_script *script, const char *name,
                                             gy_tensor **tensor);
/** What ended it, for its author: file, line, column, the line with a caret, a hint; "" when
 * nothing did. Valid until the script is freed. */
GY_API const char *gy_script_report(const gy_script *script);
GY_API void gy_script_free(gy_script *script);

/**
 * The builtin functions as text: all of them, a line each, or (name) one with its parameters.
 * @return NULL: no such function, or out of memory. Caller frees it with gy_string_free.
 */
GY_API char *gy_script_help(const char *name);

#ifdef __cplusplus
}
#endif
#endif
