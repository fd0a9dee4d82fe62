/* Fuzz target: any text as an interval and as a decimal reads to a value that is written and
 * read as the same again; any pattern of like finds what a plain matcher finds. */
#include "query/values/values.h"

#include <string.h>

enum { PLAIN_BYTES = 24 /* of a text for the plain matcher, which may take long */ };

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_interval(gy_text_view text)
{
    char out[128];
    gy_interval first, again;
    if (!gy_interval_read(text, 0, &first)) {
        return;
    }
    const gy_text_view written = {out, gy_interval_write(first, out, sizeof(out))};
#ifdef GYRE_PLANTED_BUG
    char *kept = gy_alloc("fuzz", 4); /* as if what is written were short */
    for (size_t i = 0; kept != NULL && first.days == 7 && i < written.size_bytes; i++) {
        ((volatile char *)kept)[i] = out[i];
    }
    gy_free(kept);
#endif
    const bool is_read = gy_interval_read(written, 0, &again);
    GY_ASSERT(is_read && first.months == again.months && first.days == again.days);
    const bool is_large = first.micros >> 52 != 0 && first.micros >> 52 != -1;
    GY_ASSERT(first.micros == again.micros || is_large); /* these are read through doubles */
}

static void check_decimal(gy_text_view text)
{
    char out[GY_FRAME_VALUE_BYTES];
    int scale = -1, scale_again = -1;
    bool is_number = false;
    gy_decimal first = 0, again = 0;
    if (!gy_decimal_read(text, &scale, &first, &is_number)) {
        return;
    }
    GY_ASSERT(is_number && gy_decimal_fits(first) && scale >= 0);
    const gy_text_view written = {out, gy_decimal_write(first, scale, out)};
    const bool is_read = gy_decimal_read(written, &scale_again, &again, &is_number);
    GY_ASSERT(is_read && first == again && scale == scale_again);
}

/* `at` bytes of the pattern are done. */
static bool matches(gy_text_view pattern, size_t at, gy_text_view text, size_t done)
{
    if (at == pattern.size_bytes) {
        return done == text.size_bytes;
    }
    const char c = pattern.data[at];
    if (c == '%' && at + 1 < pattern.size_bytes && pattern.data[at + 1] == '%') {
        return matches(pattern, at + 1, text, done); /* many would try all places each */
    }
    if (c == '%') {
        return matches(pattern, at + 1, text, done) ||
               (done < text.size_bytes &&
                matches(pattern, at, text, done + gy_values_step(text, done)));
    }
    if (done == text.size_bytes) {
        return false;
    }
    return c == '_' ? matches(pattern, at + 1, text, done + gy_values_step(text, done))
                    : c == text.data[done] && matches(pattern, at + 1, text, done + 1);
}

static void check_like(gy_text_view all)
{
    const char *cut = memchr(all.data, '\n', all.size_bytes);
    gy_like *like = NULL;
    size_t wrong = 0;
    if (cut == NULL || !gy_frame_is_utf8(all.data, all.size_bytes, &wrong)) {
        return;
    }
    const gy_text_view pattern = {all.data, (size_t)(cut - all.data)};
    const gy_text_view text = {cut + 1, all.size_bytes - pattern.size_bytes - 1};
    if (gy_like_new(pattern, (gy_text_view){.data = ""}, &like) < 0) {
        return;
    }
    const bool found = gy_like_match(like, text);
    gy_like_free(like);
    if (pattern.size_bytes < PLAIN_BYTES && text.size_bytes < PLAIN_BYTES) {
        GY_ASSERT(found == matches(pattern, 0, text, 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const gy_text_view text = {(const char *)data, size};
    check_interval(text);
    check_decimal(text);
    check_like(text);
    return 0;
}
