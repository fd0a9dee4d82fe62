/**
 * The program's own functions (<gyre/function.h>): lists of them, and their calls.
 */
#ifndef GY_QUERY_FUNCTIONS_FUNCTIONS_H
#define GY_QUERY_FUNCTIONS_FUNCTIONS_H

#include <gyre/function.h>

#include "base/base.h"

struct gy_function_call {
    const gy_query_function *function;
    /* Memory for a result's text. NULL: out of memory */
    char *(*text)(void *arg, size_t size_bytes);
    void *text_arg;
    /* Of a function of rows: takes a frame of `columns`; it is held by who keeps it. */
    gy_status (*emit)(void *arg, gy_frame *frame);
    void *emit_arg;
    gy_schema *columns;
    char reason[512]; /* of the failure; "": none was given */
};

/**
 * Whether a list can be registered.
 *
 * @param is_builtin whether a builtin function has that name
 * @return GY_OK; GY_ARG a name that is none, is there twice or is a builtin's, types that are
 *     none, a function that does nothing: says name and place in the list
 * @threads any
 */
GY_MUST_CHECK gy_status gy_query_functions_check(const gy_query_functions *functions,
                                                 bool (*is_builtin)(const char *name));

static inline bool gy_query_function_is_aggregate(const gy_query_function *function)
{
    return function->accumulate != NULL;
}

/** The function of a name, in a list that may be NULL; NULL: there is none. */
const gy_query_function *gy_query_function_find(const gy_query_functions *functions,
                                                const char *name);

/** "f(double, text)", as errors say it; returns `out`. */
const char *gy_query_function_text(const gy_query_function *function, char out[300]);

/** End a call that gave `status`: pass GY_OK and GY_NOMEM, else fail with GY_ARG, the
 * function's name and its reason. */
GY_MUST_CHECK gy_status gy_query_function_end(const gy_function_call *call, gy_status status);

/** Whether a result is a value of its type: GY_ARG what is wrong with it. */
GY_MUST_CHECK gy_status gy_query_function_check(const gy_function_call *call,
                                                const gy_function_value *result);

#endif
