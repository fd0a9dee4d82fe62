/**
 * What is called of PCRE2: its declarations, so that a build needs no header of it. The
 * library is opened when the first regular expression is compiled (base/lazy.h).
 *
 * @source PCRE2 10.42, pcre2api(3); its binary interface is the same since 10.30
 */
#ifndef GY_QUERY_VALUES_REGEX_PRIV_H
#define GY_QUERY_VALUES_REGEX_PRIV_H

#include <stddef.h>
#include <stdint.h>

#define PCRE2_CASELESS          0x00000008u
#define PCRE2_DOLLAR_ENDONLY    0x00000010u
#define PCRE2_DOTALL            0x00000020u
#define PCRE2_UTF               0x00080000u
#define PCRE2_NEVER_BACKSLASH_C 0x00100000u
#define PCRE2_NO_UTF_CHECK      0x40000000u
#define PCRE2_JIT_COMPLETE      0x00000001u
#define PCRE2_ERROR_NOMATCH     (-1)

/* NOLINTBEGIN(readability-identifier-naming): PCRE2 names them */
typedef struct pcre2_real_code_8 pcre2_code_8;
typedef struct pcre2_real_match_data_8 pcre2_match_data_8;

pcre2_code_8 *pcre2_compile_8(const uint8_t *pattern, size_t size, uint32_t options, int *error,
                              size_t *place, void *context);
int pcre2_jit_compile_8(pcre2_code_8 *code, uint32_t options);
pcre2_match_data_8 *pcre2_match_data_create_from_pattern_8(const pcre2_code_8 *code,
                                                           void *context);
int pcre2_match_8(const pcre2_code_8 *code, const uint8_t *subject, size_t size, size_t start,
                  uint32_t options, pcre2_match_data_8 *data, void *context);
size_t *pcre2_get_ovector_pointer_8(pcre2_match_data_8 *data);
uint32_t pcre2_get_ovector_count_8(pcre2_match_data_8 *data);
int pcre2_get_error_message_8(int error, uint8_t *out, size_t size);
void pcre2_match_data_free_8(pcre2_match_data_8 *data);
void pcre2_code_free_8(pcre2_code_8 *code);
/* NOLINTEND(readability-identifier-naming) */

#endif
