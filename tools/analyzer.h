/**
 * What clang's analyzer cannot see from one file: a failure's code is below zero.
 *
 * scripts/lint gives this to clang-tidy with -include; no build sees it. Without it every
 * GY_TRY around a function that fails looks as if it could go on with outputs that were never
 * written.
 */
#ifndef GY_TOOLS_ANALYZER_H
#define GY_TOOLS_ANALYZER_H

#include "base/fail.h"

static inline gy_status gy_below_zero(gy_status status)
{
    if (status >= 0) {
        __builtin_unreachable();
    }
    return status;
}

#undef gy_fail
#define gy_fail(status, ...)                                                                   \
    (gy_fail_at((status), __FILE__, __LINE__, __VA_ARGS__), gy_below_zero(status))
#define gy_fail_within(status, ...)                                                            \
    ((gy_fail_within)((status), __VA_ARGS__), gy_below_zero(status))

#endif
