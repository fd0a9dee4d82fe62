/* Names from outside, escaped. */
#include "base/escape.h"

#include <stdint.h>
#include <string.h>

size_t gy_utf8_bytes(const unsigned char *at)
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

/* Controls of C0 and C1, and the ends of lines that Unicode has besides. */
static bool is_control(const unsigned char *at, size_t size)
{
    return (size == 1 && (at[0] < ' ' || at[0] == 0x7F)) ||
           (size == 2 && at[0] == 0xC2 && at[1] < 0xA0) ||
           (size == 3 && at[0] == 0xE2 && at[1] == 0x80 && (at[2] == 0xA8 || at[2] == 0xA9));
}

void gy_text_add_name(gy_text *text, const char *name)
{
    static const char letters[] = "\\\\\nn\tt\rr"; /* pairs: the byte, its letter */
    const unsigned char *at = (const unsigned char *)name;
    while (*at != '\0') {
        const size_t size = gy_utf8_bytes(at), taken = size > 0 ? size : 1;
        const bool is_bad = size == 0 || is_control(at, size);
        const char *letter = is_bad || *at == '\\' ? strchr(letters, *at) : NULL;
        if (letter != NULL) {
            gy_text_add(text, "\\%c", letter[1]);
        } else if (!is_bad) {
            gy_text_add_bytes(text, at, size);
        }
        for (size_t i = 0; letter == NULL && is_bad && i < taken; i++) {
            gy_text_add(text, "\\x%02x", at[i]);
        }
        at += taken;
    }
}

void gy_text_add_json(gy_text *text, const char *value)
{
    const unsigned char *at = (const unsigned char *)value;
    gy_text_add_bytes(text, "\"", 1);
    while (*at != '\0') {
        const size_t size = gy_utf8_bytes(at);
        if (size == 0) {
            gy_text_add(text, "\\\\x%02x", *at);
        } else if (*at == '"' || *at == '\\') {
            gy_text_add(text, "\\%c", *at);
        } else if (size == 1 && *at < ' ') {
            gy_text_add(text, "\\u%04x", *at);
        } else {
            gy_text_add_bytes(text, at, size);
        }
        at += size > 0 ? size : 1;
    }
    gy_text_add_bytes(text, "\"", 1);
}
