/**
 * Names that come from outside, as part of a line or of JSON.
 */
#ifndef GY_BASE_ESCAPE_H
#define GY_BASE_ESCAPE_H

#include "base/text.h"

/**
 * Bytes of the character of UTF-8 that begins at `at`, which a NUL ends; 0: none does.
 * @source RFC 3629, section 4: no overlong forms, no surrogates, none above U+10FFFF
 */
size_t gy_utf8_bytes(const unsigned char *at);

/**
 * Append a name so that it stays on its line and is UTF-8: control characters, bytes that are
 * not UTF-8 and backslashes become \n, \t, \r, \xNN, \\. No two names come out alike.
 */
void gy_text_add_name(gy_text *text, const char *name);

/** Append a string of JSON with its quotes; bytes that are not UTF-8 come as \xNN does. */
void gy_text_add_json(gy_text *text, const char *value);

#endif
