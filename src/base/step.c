#include "base/step.h"

#include <stdio.h>
#include <string.h>

const char *gy_step_text(gy_arena *texts, gy_status *status, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = gy_arena_alloc(texts, (size_t)size + 1);
    if (text == NULL) {
        *status = GY_NOMEM;
        return "out of memory";
    }
    vsnprintf(text, (size_t)size + 1, format, args);
    return text;
}

bool gy_step_take_text(char *to, size_t size_bytes, const char *text)
{
    size_t size = text == NULL ? 0 : strnlen(text, size_bytes);
    if (size >= size_bytes) {
        return false;
    }
    if (size > 0) {
        memcpy(to, text, size);
    }
    to[size] = '\0';
    return true;
}
