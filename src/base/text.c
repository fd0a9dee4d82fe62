#include "base/text.h"

#include "base/alloc.h"
#include "base/base.h"
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
    text->status =
        GY_GROW("base.text", text->data, text->capacity, text->size_bytes + more + 1);
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

/* What was wanted, as vsnprintf says it; an encoding that failed is an empty text. */
static __attribute__((format(printf, 3, 0))) size_t print(char *out, size_t size_bytes,
                                                          const char *format, va_list args)
{
    GY_ASSERT(size_bytes > 0);
    const int wanted = vsnprintf(out, size_bytes, format, args);
    if (wanted < 0) {
        out[0] = '\0';
        return 0;
    }
    return (size_t)wanted;
}

size_t gy_print_list(char *out, size_t size_bytes, const char *format, va_list args)
{
    const size_t wanted = print(out, size_bytes, format, args);
    return wanted < size_bytes ? wanted : size_bytes - 1;
}

size_t gy_print(char *out, size_t size_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t size = gy_print_list(out, size_bytes, format, args);
    va_end(args);
    return size;
}

bool gy_print_whole(char *out, size_t size_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t wanted = print(out, size_bytes, format, args);
    va_end(args);
    return wanted < size_bytes;
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

/* ---- texts from outside, made fit to print: what a terminal would obey is shown instead ----
 */

enum { UNIT_MAX = 16 }; /* four bytes as \xNN */

/* The bytes of one character in UTF-8 (RFC 3629: shortest form, no surrogates); 0: none. */
static size_t sequence(const unsigned char *at, size_t size, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t bytes = at[0] < 0x80   ? 1
                         : at[0] < 0xc2 ? 0
                         : at[0] < 0xe0 ? 2
                         : at[0] < 0xf0 ? 3
                         : at[0] < 0xf5 ? 4
                                        : 0;
    if (bytes == 0 || bytes > size) {
        return 0;
    }
    *code = bytes == 1 ? at[0] : at[0] & (0x7fU >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (at[i] & 0x3f);
    }
    const bool is_legal =
        *code >= least[bytes] && *code <= 0x10ffff && !(*code >= 0xd800 && *code <= 0xdfff);
    return is_legal ? bytes : 0;
}

/* Controls of C0 and C1, line and paragraph separators, and what turns the direction. */
static bool is_steering(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           code == 0xfeff;
}

/* Writes one character's bytes, as they are or escaped; returns how many of `at` it took. */
static size_t write_unit(const unsigned char *at, size_t size, const char *keeps,
                         char out[UNIT_MAX + 1], size_t *out_bytes)
{
    uint32_t code = 0;
    const size_t bytes = sequence(at, size, &code);
    if (bytes > 0 && (!is_steering(code) ||
                      (code < 0x80 && code != 0 && strchr(keeps, (int)code) != NULL))) {
        memcpy(out, at, bytes);
        *out_bytes = bytes;
        return bytes;
    }
    const char *letter = bytes == 1 && code != 0 ? strchr("\nn\tt\rr", (int)code) : NULL;
    if (letter != NULL) {
        *out_bytes = gy_print(out, UNIT_MAX + 1, "\\%c", letter[1]);
        return 1;
    }
    *out_bytes = 0;
    for (size_t i = 0; i < GY_MAX(bytes, (size_t)1); i++) {
        *out_bytes += gy_print(out + *out_bytes, UNIT_MAX + 1 - *out_bytes, "\\x%02x", at[i]);
    }
    return GY_MAX(bytes, (size_t)1);
}

static bool is_plain(const char *text, size_t text_bytes)
{
    for (size_t i = 0; i < text_bytes; i++) {
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x7f) {
            return false;
        }
    }
    return true;
}

size_t gy_printable(char *out, size_t size_bytes, const char *text, size_t text_bytes,
                    const char *keeps)
{
    static const char gap[] = "…";
    GY_ASSERT(size_bytes >= 16);
    const unsigned char *at = (const unsigned char *)text;
    if (text_bytes < size_bytes && is_plain(text, text_bytes)) {
        if (text_bytes > 0) {
            memmove(out, text, text_bytes);
        }
        out[text_bytes] = '\0';
        return text_bytes;
    }
    char unit[UNIT_MAX + 1];
    size_t total = 0, bytes = 0, used = 0, i = 0;
    while (i < text_bytes) {
        i += write_unit(at + i, text_bytes - i, keeps, unit, &bytes);
        total += bytes;
    }
    const size_t room = size_bytes - 1, tail = (room - sizeof(gap) + 1) * 2 / 5;
    const size_t head = total <= room ? total : room - sizeof(gap) + 1 - tail;
    bool is_cut = false;
    for (i = 0; i < text_bytes;) {
        i += write_unit(at + i, text_bytes - i, keeps, unit, &bytes);
        total -= bytes;
        if (is_cut ? total + bytes <= tail : used + bytes <= head) {
            memcpy(out + used, unit, bytes);
            used += bytes;
        } else if (!is_cut) {
            is_cut = true;
            memcpy(out + used, gap, sizeof(gap) - 1);
            used += sizeof(gap) - 1;
        }
    }
    GY_ASSERT(used < size_bytes);
    out[used] = '\0';
    return used;
}

void gy_string_free(char *text)
{
    gy_free(text);
}

void gy_print_to(FILE *out, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int wanted = vsnprintf(NULL, 0, format, args);
    va_end(args);
    const size_t size = wanted > 0 ? (size_t)wanted : 0, room = 4 * size + UNIT_MAX;
    char *whole = gy_alloc("base.text", size + 1 + room), *shown = whole + size + 1;
    if (whole == NULL) {
        vfprintf(out, format, again);
    } else {
        size_t ends = 0, body = strlen(format), inside = size;
        while (ends < body && format[body - ends - 1] == '\n') {
            ends++;
        }
        vsnprintf(whole, size + 1, format, again);
        for (size_t i = 0; i < ends && inside > 0 && whole[inside - 1] == '\n'; i++) {
            inside--;
        }
        gy_printable(shown, room, whole, inside,
                     memchr(format, '\n', body - ends) != NULL ? "\n" : "");
        fprintf(out, "%s%s", shown, whole + inside);
    }
    va_end(again);
    gy_free(whole);
}

enum { EXCERPT_BYTES = 80 };

void gy_text_place(const char *source, size_t size_bytes, size_t place, int *line, int *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < place && i < size_bytes; i++) {
        if (source[i] == '\n') {
            *line += 1;
            *column = 1;
        } else {
            *column += 1;
        }
    }
}

void gy_text_add_excerpt(gy_text *text, const char *source, size_t size_bytes, size_t place)
{
    place = place < size_bytes ? place : size_bytes;
    size_t begin = place, end = place;
    while (begin > 0 && source[begin - 1] != '\n' && place - begin < EXCERPT_BYTES / 2) {
        begin--;
    }
    while (end < size_bytes && source[end] != '\n' && end - begin < EXCERPT_BYTES) {
        end++;
    }
    char line[EXCERPT_BYTES + 1];
    GY_ASSERT(end - begin <= EXCERPT_BYTES);
    for (size_t i = begin; i < end; i++) {
        const unsigned char c = (unsigned char)source[i];
        line[i - begin] = ' ';
        if (c >= ' ' && c != 0x7F) {
            line[i - begin] = source[i];
        }
    }
    line[end - begin] = '\0';
    char shown[4 * EXCERPT_BYTES];
    gy_printable(shown, sizeof(shown), line, end - begin, "");
    gy_text_add(text, "    %s\n    %*s^\n", shown, (int)(place - begin), "");
}

static int lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter;
}

int gy_text_distance(const char *a, const char *b, bool ignores_case)
{
    enum { LONGEST = 63 };
    const int n = (int)strnlen(a, LONGEST), m = (int)strnlen(b, LONGEST);
    int row[LONGEST + 1];
    for (int j = 0; j <= m; j++) {
        row[j] = j;
    }
    for (int i = 1; i <= n; i++) {
        int before = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            const bool is_same =
                ignores_case ? lower(a[i - 1]) == lower(b[j - 1]) : a[i - 1] == b[j - 1];
            const int change = before + (is_same ? 0 : 1);
            before = row[j];
            row[j] = GY_MIN(change, 1 + GY_MIN(row[j], row[j - 1]));
        }
    }
    GY_ASSERT(row[m] >= 0 && row[m] <= GY_MAX(n, m));
    return row[m];
}
