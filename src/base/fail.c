#include "base/fail.h"

#include "base/log.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a path of 4,095 bytes and what was tried with it, before its middle is left out. */
enum { WHOLE_BYTES = 6144 };
static _Thread_local char last_text[GY_ERROR_TEXT_BYTES];

const char *gy_status_text(gy_status status)
{
    switch (status) {
#define GY_X(name, value, text)                                                                \
    case GY_##name:                                                                            \
        return text;
        GY_STATUS_LIST(GY_X)
#undef GY_X
    }
    return "unknown status";
}

const char *gy_error_text(void)
{
    return last_text;
}

const char *gy_version(void)
{
    return GYRE_VERSION;
}

gy_status gy_fail_at(gy_status status, const char *file, int line, const char *format, ...)
{
    GY_ASSERT(status < 0);
    char text[WHOLE_BYTES]; /* arguments may point into the last text */
    va_list args;
    va_start(args, format);
    const size_t size = gy_print_list(text, sizeof(text), format, args);
    va_end(args);
    gy_printable(last_text, sizeof(last_text), text, size, "");
    gy_log_at(GY_LOG_DEBUG, file, line, "%s: %s", gy_status_text(status), last_text);
    return status;
}

/* in parentheses, since the lint puts a macro over it (tools/analyzer.h) */
gy_status(gy_fail_within)(gy_status status, const char *format, ...)
{
    char text[WHOLE_BYTES];
    va_list args;
    va_start(args, format);
    size_t size = gy_print_list(text, sizeof(text) - sizeof(last_text), format, args);
    va_end(args);
    size += gy_print(text + size, sizeof(text) - size, ": %s", last_text);
    gy_printable(last_text, sizeof(last_text), text, size, "");
    return status;
}

void gy_error_take(gy_error *error, gy_status status)
{
    error->status = status;
    error->rank = -1;
    memcpy(error->text, last_text, sizeof(error->text));
}

gy_status gy_error_keep(gy_error *error, gy_status status)
{
    if (status < 0) {
        gy_error_take(error, status);
    }
    return status;
}

gy_status gy_error_raise(const gy_error *error)
{
    memcpy(last_text, error->text, sizeof(last_text));
    return error->status;
}

void gy_panic_at(const char *file, int line, const char *format, ...)
{
    char whole[GY_ERROR_TEXT_BYTES], text[GY_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    const size_t size = gy_print_list(whole, sizeof(whole), format, args);
    va_end(args);
    gy_printable(text, sizeof(text), whole, size, "\n");
    fprintf(stderr, "gyre: panic at %s:%d: %s\n", file, line, text);
    abort();
}
