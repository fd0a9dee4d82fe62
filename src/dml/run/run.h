/**
 * A script from its text to its end: units (files), functions as instructions over slots, the
 * runner.
 *
 *     gy_dml_script *script = NULL;
 *     gy_dml_script_options options = {.path = "a.dml", .print = to_stdout};
 *     gy_status status = gy_dml_script_open(&options, &script);
 *     status = status == GY_OK ? gy_dml_script_run(script) : status;
 *     fputs(gy_dml_script_report(script), stderr);
 *     gy_dml_script_close(script);
 */
#ifndef GY_DML_RUN_RUN_H
#define GY_DML_RUN_RUN_H

#include "dml/values/values.h"

typedef struct gy_dml_script gy_dml_script;

typedef struct gy_dml_script_options {
    const char *path;         /* of the script; with `text`, its name in messages */
    const char *text;         /* NULL: what the file of `path` has */
    const char *const *args;  /* (arg_count): $1, $2, … */
    const char *const *named; /* (named_count): "name=value" for $name */
    int arg_count, named_count;
    void (*print)(void *arg, const char *text, size_t size); /* NULL: nothing is printed */
    void *print_arg;
    bool has_statistics; /* count and time instructions */
    const char *library; /* folders of functions, as GYRE_DML_PATH; NULL: none */
} gy_dml_script_options;

/**
 * Read, parse and lower a script with all that it sources and calls. Options are borrowed.
 *
 * @return GY_OK; any failure, with its report in the script, which is to be closed in any case
 *     unless it is NULL (GY_NOMEM)
 */
GY_MUST_CHECK gy_status gy_dml_script_open(const gy_dml_script_options *options,
                                           gy_dml_script **script);
/** Give a variable of the script a value before it runs; takes a hold of its own. GY_NOTFOUND:
 * the script has no such name. */
GY_MUST_CHECK gy_status gy_dml_script_set(gy_dml_script *script, const char *name,
                                          gy_dml_value value);
/** Run it from its first statement. @threads one at a time */
GY_MUST_CHECK gy_status gy_dml_script_run(gy_dml_script *script);
/** Run statements that are typed one after the other at a terminal, with the variables and
 * functions of those before; an expression alone is printed. After a failure the next input
 * goes on with what is there. @threads one at a time */
GY_MUST_CHECK gy_status gy_dml_script_input(gy_dml_script *script, const char *text);
/** End what runs now: it fails with GY_CANCELLED. @threads any, also a signal handler */
void gy_dml_script_interrupt(gy_dml_script *script);
/** Whether the last input failed as its text ended too early. */
bool gy_dml_script_is_cut(const gy_dml_script *script);
/** What a script with statistics cost, in lines: times, memory, the `most` costliest
 * instructions. */
void gy_dml_script_statistics(const gy_dml_script *script, int most, gy_text *text);
/** A variable after the run; the script's hold. GY_NOTFOUND. */
GY_MUST_CHECK gy_status gy_dml_script_get(gy_dml_script *script, const char *name,
                                          const gy_dml_value **value);
/** The first error as its author sees it, several lines; "" without one. */
const char *gy_dml_script_report(const gy_dml_script *script);
void gy_dml_script_close(gy_dml_script *script);

#endif
