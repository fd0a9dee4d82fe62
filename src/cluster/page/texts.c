/* Escapes users' names and reasons: as JSON strings and as metrics' labels. */
#include "base/escape.h"
#include "cluster/page/page.h"

#include <string.h>

static void add_text(gy_text *text, const char *value,
                     void (*escape)(gy_text *text, unsigned char one))
{
    const unsigned char *at = (const unsigned char *)(value != NULL ? value : "");
    gy_text_add_bytes(text, "\"", 1);
    while (*at != '\0') {
        const size_t size = gy_utf8_bytes(at);
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
