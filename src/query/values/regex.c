/* Regular expressions, by PCRE2, which is opened at the first one. */
#include "query/values/values.h"

#include "base/lazy.h"
#include "query/values/regex_priv.h"

#include <dlfcn.h>
#include <string.h>

enum { SHOWN = 100 /* bytes of a pattern in a message */ };

struct gy_regex {
    pcre2_code_8 *code;
    pcre2_match_data_8 *found;
    size_t size;
    char text[];
};

/* The pattern in messages; as many of its bytes as are shown. */
static int shown(const gy_regex *regex)
{
    return (int)GY_MIN(regex->size, (size_t)SHOWN);
}

static gy_status compile(gy_regex *to, bool ignores_case)
{
    int error = 0;
    size_t place = 0;
    to->code = pcre2_compile_8((const uint8_t *)to->text, to->size,
                               PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C |
                                   PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY |
                                   (ignores_case ? PCRE2_CASELESS : 0),
                               &error, &place, NULL);
    if (to->code == NULL) {
        uint8_t why[200] = "";
        (void)pcre2_get_error_message_8(error, why, sizeof(why));
        return gy_fail(GY_ARG, "invalid regular expression '%.*s': %s at byte %zu", shown(to),
                       to->text, (char *)why, place);
    }
    (void)pcre2_jit_compile_8(to->code, PCRE2_JIT_COMPLETE); /* it works without */
    to->found = pcre2_match_data_create_from_pattern_8(to->code, NULL);
    return to->found != NULL ? GY_OK : gy_fail(GY_NOMEM, "no memory for a regular expression");
}

gy_status gy_regex_new(gy_text_view pattern, bool ignores_case, gy_regex **out)
{
    if (dlopen(GY_LATE_PCRE, RTLD_NOW | RTLD_LOCAL) == NULL) { /* it stays */
        return gy_fail(GY_UNSUPPORTED, "regular expressions need PCRE2: %s", dlerror());
    }
    gy_regex *made = gy_alloc_zero("query.regex", 1, sizeof(*made) + pattern.size_bytes + 1);
    if (made == NULL) {
        return GY_NOMEM;
    }
    made->size = pattern.size_bytes;
    if (made->size > 0) {
        memcpy(made->text, pattern.data, made->size);
    }
    const gy_status status = compile(made, ignores_case);
    if (status < 0) {
        gy_regex_free(made);
        return status;
    }
    *out = made;
    return GY_OK;
}

void gy_regex_free(gy_regex *regex)
{
    if (regex == NULL) {
        return;
    }
    if (regex->found != NULL) {
        pcre2_match_data_free_8(regex->found);
    }
    if (regex->code != NULL) {
        pcre2_code_free_8(regex->code);
    }
    gy_free(regex);
}

/* The first match from byte `from` on; its ends are in `found`. */
static gy_status match_from(gy_regex *regex, gy_text_view text, size_t from, int *count)
{
    const char *data = text.size_bytes > 0 ? text.data : "";
    *count = pcre2_match_8(regex->code, (const uint8_t *)data, text.size_bytes, from,
                           PCRE2_NO_UTF_CHECK, regex->found, NULL);
    if (*count < 0 && *count != PCRE2_ERROR_NOMATCH) {
        uint8_t why[200] = "";
        (void)pcre2_get_error_message_8(*count, why, sizeof(why));
        return gy_fail(GY_LIMIT, "regular expression '%.*s' over a text of %zu bytes: %s",
                       shown(regex), regex->text, text.size_bytes, (char *)why);
    }
    return GY_OK;
}

gy_status gy_regex_match(gy_regex *regex, gy_text_view text, bool *is_found, gy_text_view *part)
{
    const char *data = text.size_bytes > 0 ? text.data : "";
    int count = 0;
    GY_TRY(match_from(regex, text, 0, &count));
    *is_found = count > 0;
    if (count < 0) {
        return GY_OK;
    }
    const size_t *ends = pcre2_get_ovector_pointer_8(regex->found);
    const bool has_brackets = pcre2_get_ovector_count_8(regex->found) > 1;
    const bool is_empty = has_brackets && (count < 2 || ends[2] == SIZE_MAX);
    const size_t *at = has_brackets ? ends + 2 : ends;
    if (is_empty) {
        *part = (gy_text_view){.data = NULL};
        return GY_OK;
    }
    /* with \K a match may begin behind its end: nothing of the text is its part */
    *part = (gy_text_view){data + at[0], at[1] > at[0] ? at[1] - at[0] : 0};
    return GY_OK;
}

/* ---- replacing ---- */

/* What stands for a match. */
static void add_replacement(const size_t *ends, int count, gy_text_view text, gy_text_view by,
                            gy_text *out)
{
    for (size_t i = 0; i < by.size_bytes; i++) {
        const bool is_escape = by.data[i] == '\\' && i + 1 < by.size_bytes;
        const char next = (char)(is_escape ? by.data[i + 1] : '\0');
        const bool is_group = next == '&' || (next >= '1' && next <= '9');
        const size_t group = is_group && next != '&' ? (size_t)(next - '0') : 0;
        i += is_group || next == '\\';
        if (!is_group) {
            gy_text_add_bytes(out, by.data + i, 1);
        } else if (group < (size_t)count && ends[2 * group] < ends[2 * group + 1]) {
            gy_text_add_bytes(out, text.data + ends[2 * group],
                              ends[2 * group + 1] - ends[2 * group]);
        }
    }
}

gy_status gy_regex_replace(gy_regex *regex, gy_text_view text, gy_text_view by, bool is_all,
                           size_t bytes_max, gy_text *out)
{
    size_t copied = 0, from = 0;
    int count = 0;
    while (from <= text.size_bytes && out->size_bytes <= bytes_max && out->status == GY_OK) {
        GY_TRY(match_from(regex, text, from, &count));
        if (count < 0) {
            break;
        }
        const size_t *ends = pcre2_get_ovector_pointer_8(regex->found);
        const size_t begin = GY_MAX(ends[0], copied),
                     end = GY_MAX(ends[1], begin); /* with \K */
        if (begin > copied) {
            gy_text_add_bytes(out, text.data + copied, begin - copied);
        }
        add_replacement(ends, count, text, by, out);
        copied = end;
        from =
            end == begin ? end + (end < text.size_bytes ? gy_values_step(text, end) : 1) : end;
        if (!is_all) {
            break;
        }
    }
    if (copied < text.size_bytes) {
        gy_text_add_bytes(out, text.data + copied, text.size_bytes - copied);
    }
    return out->size_bytes <= bytes_max
               ? out->status
               : gy_fail(GY_LIMIT, "regexp_replace: a text of more than %zu bytes", bytes_max);
}
