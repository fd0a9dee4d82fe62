/* Names and reasons come from users: as strings of JSON and as labels of metrics. */
#include "cluster/page/page.h"

#include <string.h>

/*
 * Bytes of the character at `at`: 0 when it is none of UTF-8.
 * Source: RFC 3629, section 4 (no overlong forms, no surrogates, none above U+10FFFF).
 */
static size_t character(const unsigned char *at)
{
    if (at[0] < 0x80) {
        return 1;
    }
    const size_t size = at[0] >= 0xF0 ? 4 : at[0] >= 0xE0 ? 3 : 2;
    const unsigned char least = at[0] == 0xE0 ? 0xA0 : at[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char most = at[0] == 0xED ? 0x9F : at[0] == 0xF4 ? 0x8F : 0xBF;
    if (at[0] < 0xC2 || at[0] > 0xF4 || at[1] < least || at[1] > most) {
        return 0;
    }
    for (size_t i = 2; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return size;
}

static void add_text(gy_text *text, const char *value,
                     void (*escape)(gy_text *text, unsigned char one))
{
    const unsigned char *at = (const unsigned char *)(value != NULL ? value : "");
    gy_text_add_bytes(text, "\"", 1);
    while (*at != '\0') {
        const size_t size = character(at);
        if (size == 0) {
            gy_text_add_bytes(text, "\xEF\xBF\xBD", 3);
        } else if (size == 1) {
            escape(text, *at);
        } else {
            gy_text_add_bytes(text, at, size);
        }
        at += size > 0 ? size : 1;
    }
    gy_text_add_bytes(text, "\"", 1);
}

static void escape_string(gy_text *text, unsigned char one)
{
    if (one < 0x20 || one == 0x7F || strchr("\"\\<>&'", one) != NULL) {
        gy_text_add(text, "\\u%04x", one);
    } else {
        gy_text_add_bytes(text, &one, 1);
    }
}

void gy_page_add_string(gy_text *text, const char *value)
{
    add_text(text, value, escape_string);
}

static void escape_label(gy_text *text, unsigned char one)
{
    if (one == '\n') {
        gy_text_add_bytes(text, "\\n", 2);
    } else if (one == '"' || one == '\\') {
        const char escaped[] = {'\\', (char)one};
        gy_text_add_bytes(text, escaped, 2);
    } else {
        gy_text_add_bytes(text, &one, 1);
    }
}

void gy_page_add_label(gy_text *text, const char *value)
{
    add_text(text, value, escape_label);
}
