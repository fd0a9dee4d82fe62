/* Whether bytes are UTF-8. */
#include "frame/frame.h"

#include <string.h>

/* Bytes of the character at `at`, of which `left` are there; 0: there is none, or a NUL. */
static size_t character_bytes(const unsigned char *at, size_t left)
{
    const unsigned char first = at[0];
    if (first < 0x80) {
        return first != 0;
    }
    const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || left < size) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* no overlong forms, no surrogates, none above U+10FFFF */
    const bool is_none = (first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) ||
                         (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f);
    return is_none ? 0 : size;
}

bool gy_frame_is_utf8(const char *data, size_t size_bytes, size_t *wrong)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    for (size_t i = 0; i < size_bytes;) {
        uint64_t word;
        if (size_bytes - i >= sizeof(word)) {
            memcpy(&word, data + i, sizeof(word));
            /* eight bytes of ASCII, none of them NUL */
            if (((word | ((word - ones) & ~word)) & highs) == 0) {
                i += sizeof(word);
                continue;
            }
        }
        const size_t size = character_bytes((const unsigned char *)data + i, size_bytes - i);
        if (size == 0) {
            *wrong = i;
            return false;
        }
        i += size;
    }
    return true;
}
