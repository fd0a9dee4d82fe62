#include "base/text.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room for `more` bytes and a NUL; false when out of memory. */
static bool make_room(gy_text *text, size_t more)
{
    if (text->status < 0) {
        return false;
    }
    void *data = text->data;
    text->status =
        gy_reserve("base.text", &data, &text->capacity, text->size_bytes + more + 1, 1);
    text->data = data;
    return text->status == GY_OK;
}

void gy_text_add(gy_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    GY_ASSERT(size >= 0);
    if (make_room(text, (size_t)size)) {
        vsnprintf(text->data + text->size_bytes, (size_t)size + 1, format, again);
        text->size_bytes += (size_t)size;
    }
    va_end(again);
}

void gy_text_add_bytes(gy_text *text, const void *data, size_t size_bytes)
{
    if (make_room(text, size_bytes)) {
        if (size_bytes > 0) {
            memcpy(text->data + text->size_bytes, data, size_bytes);
        }
        text->size_bytes += size_bytes;
        text->data[text->size_bytes] = '\0';
    }
}

void gy_text_free(gy_text *text)
{
    gy_free(text->data);
    *text = (gy_text){.data = NULL};
}

const char *gy_text_get(const gy_text *text)
{
    return text->data == NULL ? "" : text->data;
}

const char *gy_text_move(gy_text *text, char *out, size_t size_bytes)
{
    GY_ASSERT(size_bytes > 0);
    const char *all = text->status == GY_OK ? gy_text_get(text) : "out of memory\n";
    snprintf(out, size_bytes, "%s", all);
    gy_text_free(text);
    return out;
}

const char *gy_text_bytes(char out[32], uint64_t size_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)size_bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return out;
}
