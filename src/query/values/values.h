/**
 * Values that SQL has beside those of frames' columns, and what is done with one of them:
 * decimals of 38 digits, intervals, patterns of like, regular expressions. Nothing here knows
 * of expressions or rows.
 */
#ifndef GY_QUERY_VALUES_VALUES_H
#define GY_QUERY_VALUES_VALUES_H

#include "base/base.h"
#include "frame/frame.h"

/* ---- decimals (decimal.c) ---- */

/** A number times 10^scale; its scale stands beside it. */
typedef gy_int128 gy_decimal;

/** 10^digits, of 0 to 38. */
gy_decimal gy_decimal_power(int digits);
/** Whether it has at most 38 digits. */
bool gy_decimal_fits(gy_decimal value);
/** How many digits it has; of 0 one. */
int gy_decimal_digits(gy_decimal value);
/* False: more than 38 digits. All round half away from zero. */
bool gy_decimal_rescale(gy_decimal value, int from, int to, gy_decimal *out);
/** a * b without the last `drop` places. */
bool gy_decimal_multiply(gy_decimal a, gy_decimal b, int drop, gy_decimal *out);
/** a * 10^shift / b. */
bool gy_decimal_divide(gy_decimal a, gy_decimal b, int shift, gy_decimal *out);
/** The nearest double. */
double gy_decimal_to_double(gy_decimal value, int scale);
/** Of its first 15 digits, as PostgreSQL's numeric(double). */
bool gy_decimal_of_double(double real, int scale, gy_decimal *out);
/** Read a number with a point and an exponent. *scale < 0: it becomes the number of places that
 * stand there. False: *is_number says whether it is a number, of more than 38 digits. */
bool gy_decimal_read(gy_text_view text, int *scale, gy_decimal *out, bool *is_number);
/** Write it with its NUL; returns its bytes. */
size_t gy_decimal_write(gy_decimal value, int scale, char out[GY_FRAME_VALUE_BYTES]);

/* ---- intervals (interval.c) ---- */

/** A span of time as PostgreSQL has it: parts that do not become one another. */
typedef struct gy_interval {
    int32_t months, days;
    int64_t micros;
} gy_interval;

/** Read an interval; `fields` is the modifier of its type in PostgreSQL's grammar (0: none). */
bool gy_interval_read(gy_text_view text, int fields, gy_interval *out);
/** Write it as PostgreSQL does, with its NUL; returns its bytes. */
size_t gy_interval_write(gy_interval interval, char *out, size_t size_bytes);

/* ---- texts (like.c) ---- */

/** Bytes of the character at `at` of a text, which is below its end. */
size_t gy_values_step(gy_text_view text, size_t at);

/** A pattern of like. Read by any number of threads. */
typedef struct gy_like gy_like;

/** `escape`: a character, or empty for none. GY_ARG the pattern ends with it; GY_NOMEM */
GY_MUST_CHECK gy_status gy_like_new(gy_text_view pattern, gy_text_view escape, gy_like **out);
void gy_like_free(gy_like *like);
/** @cost O(text) for patterns without '_', else O(text * pattern) */
bool gy_like_match(const gy_like *like, gy_text_view text);

/* ---- regular expressions (regex.c) ---- */

/** A regular expression, and what it found last: for one thread at a time. */
typedef struct gy_regex gy_regex;

/** GY_ARG malformed, with the reason; GY_UNSUPPORTED PCRE2 cannot be opened; GY_NOMEM */
GY_MUST_CHECK gy_status gy_regex_new(gy_text_view pattern, bool ignores_case, gy_regex **out);
void gy_regex_free(gy_regex *regex);
/** Whether it matches a part of the text; `part` becomes what its first brackets matched, or
 * all that matched where it has none; data NULL: the brackets took no part. GY_LIMIT too much
 * work.
 */
GY_MUST_CHECK gy_status gy_regex_match(gy_regex *regex, gy_text_view text, bool *is_found,
                                       gy_text_view *part);
/** Append the text with its first match, or with all that do not overlap, replaced: in `by`
 * \1 to \9 are what brackets matched, \& is all that matched and \\ a backslash. GY_LIMIT too
 * much work, or more than `bytes_max`; GY_NOMEM */
GY_MUST_CHECK gy_status gy_regex_replace(gy_regex *regex, gy_text_view text, gy_text_view by,
                                         bool is_all, size_t bytes_max, gy_text *out);

#endif
