/* The functions of PCRE2; the library is loaded at the first call. */
#include "query/values/regex_priv.h"

#include "base/lazy.h"

GY_LAZY(GY_LATE_PCRE, pcre2_code_8 *, pcre2_compile_8,
        (const uint8_t *pattern, size_t size, uint32_t options, int *error, size_t *place,
         void *context),
        (pattern, size, options, error, place, context))
GY_LAZY(GY_LATE_PCRE, int, pcre2_jit_compile_8, (pcre2_code_8 * code, uint32_t options),
        (code, options))
GY_LAZY(GY_LATE_PCRE, pcre2_match_data_8 *, pcre2_match_data_create_from_pattern_8,
        (const pcre2_code_8 *code, void *context), (code, context))
GY_LAZY(GY_LATE_PCRE, int, pcre2_match_8,
        (const pcre2_code_8 *code, const uint8_t *subject, size_t size, size_t start,
         uint32_t options, pcre2_match_data_8 *data, void *context),
        (code, subject, size, start, options, data, context))
GY_LAZY(GY_LATE_PCRE, size_t *, pcre2_get_ovector_pointer_8, (pcre2_match_data_8 * data),
        (data))
GY_LAZY(GY_LATE_PCRE, uint32_t, pcre2_get_ovector_count_8, (pcre2_match_data_8 * data), (data))
GY_LAZY(GY_LATE_PCRE, int, pcre2_get_error_message_8, (int error, uint8_t *out, size_t size),
        (error, out, size))
GY_LAZY_VOID(GY_LATE_PCRE, pcre2_match_data_free_8, (pcre2_match_data_8 * data), (data))
GY_LAZY_VOID(GY_LATE_PCRE, pcre2_code_free_8, (pcre2_code_8 * code), (code))
