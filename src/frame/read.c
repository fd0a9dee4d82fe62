/* Values read from texts. */
#include "frame/frame.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    NUMBER_BYTES_MAX = 1024, /* longer texts are no doubles */
    DIGITS_FAST = 18,        /* digits that a uint64_t always has room for */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static gy_text_view trim(gy_text_view text)
{
    const char *begin = text.data, *end = text.data + text.size_bytes;
    while (begin < end && (*begin == ' ' || (*begin >= '\t' && *begin <= '\r'))) {
        begin++;
    }
    while (end > begin && (end[-1] == ' ' || (end[-1] >= '\t' && end[-1] <= '\r'))) {
        end--;
    }
    return (gy_text_view){begin, (size_t)(end - begin)};
}

static gy_text_view text_of(gy_text_view text, gy_frame_reading how)
{
    return how == GY_READING_CAST ? trim(text) : text;
}

static bool is_word(gy_text_view text, const char *word)
{
    return text.size_bytes == strlen(word) &&
           strncasecmp(text.data, word, text.size_bytes) == 0;
}

bool gy_frame_read_bool(gy_text_view text, gy_frame_reading how, bool *value)
{
    static const char *const words[] = {"true",  "t", "yes", "y", "on",  "1",
                                        "false", "f", "no",  "n", "off", "0"};
    const size_t half = GY_COUNT(words) / 2;
    text = text_of(text, how);
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        if ((how == GY_READING_CAST || i % half == 0) && is_word(text, words[i])) {
            *value = i < half;
            return true;
        }
    }
    return false;
}

/* ---- numbers ---- */

/* A number's parts: its sign, the digits before and behind the point, its exponent. */
typedef struct number {
    const char *whole, *fraction;
    size_t whole_count, fraction_count; /* the first without leading zeros */
    bool is_negative, is_zero, has_exponent, is_strict;
    int64_t exponent;
} number;

/* "e+12" at `at`; false: malformed. */
static bool scan_exponent(const char *at, const char *end, number *found)
{
    bool is_negative = false;
    at++;
    if (at < end && (*at == '+' || *at == '-')) {
        is_negative = *at == '-';
        at++;
    }
    if (at == end) {
        return false;
    }
    for (; at < end; at++) {
        if (!is_digit(*at)) {
            return false;
        }
        found->exponent = GY_MIN(found->exponent * 10 + (*at - '0'), (int64_t)1000000);
    }
    found->exponent = is_negative ? -found->exponent : found->exponent;
    found->has_exponent = true;
    return true;
}

static bool are_zeros(const char *digits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (digits[i] != '0') {
            return false;
        }
    }
    return true;
}

/* Split a number; false: it is none. */
static bool scan_number(gy_text_view text, number *found)
{
    const char *at = text.data, *const end = text.data + text.size_bytes;
    *found = (number){.is_strict = true};
    if (at < end && (*at == '-' || *at == '+')) {
        found->is_strict = *at == '-';
        found->is_negative = *at++ == '-';
    }
    const char *const whole = at;
    while (at < end && is_digit(*at)) {
        at++;
    }
    size_t zeros = 0;
    while (whole + zeros < at && whole[zeros] == '0') {
        zeros++;
    }
    found->whole = whole + zeros;
    found->whole_count = (size_t)(at - whole) - zeros;
    found->is_strict =
        found->is_strict && zeros <= 1 && (zeros == 0 || found->whole_count == 0);
    const bool has_whole = at > whole;
    if (at < end && *at == '.') {
        found->fraction = ++at;
        while (at < end && is_digit(*at)) {
            at++;
        }
        found->fraction_count = (size_t)(at - found->fraction);
        found->is_strict = found->is_strict && found->fraction_count > 0;
    }
    if (!has_whole && found->fraction_count == 0) {
        return false;
    }
    found->is_zero =
        found->whole_count == 0 && are_zeros(found->fraction, found->fraction_count);
    return at == end || ((*at | 0x20) == 'e' && scan_exponent(at, end, found));
}

/* Its digits as one integer; there are at most DIGITS_FAST. */
static uint64_t digits_of(const number *found)
{
    uint64_t value = 0;
    for (size_t i = 0; i < found->whole_count; i++) {
        value = value * 10 + (uint64_t)(found->whole[i] - '0');
    }
    for (size_t i = 0; i < found->fraction_count; i++) {
        value = value * 10 + (uint64_t)(found->fraction[i] - '0');
    }
    return value;
}

bool gy_frame_read_int64(gy_text_view text, gy_frame_reading how, int64_t *value)
{
    text = text_of(text, how);
    const char *at = text.data, *const end = at + text.size_bytes;
    const bool is_negative = at < end && *at == '-';
    at += is_negative || (how == GY_READING_CAST && at < end && *at == '+');
    while (how == GY_READING_CAST && end - at > 1 && *at == '0' && is_digit(at[1])) {
        at++;
    }
    if (at == end || end - at > 19 ||
        (*at == '0' && (end - at > 1 || is_negative) && how == GY_READING_STRICT)) {
        return false; /* -0 would lose its sign */
    }
    uint64_t sum = 0; /* 19 digits fit */
    for (; at < end; at++) {
        const unsigned digit = (unsigned char)*at - (unsigned)'0';
        if (digit > 9) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    if (sum > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *value = (int64_t)(is_negative ? 0 - sum : sum);
    return true;
}

static locale_t plain_locale;

static void make_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* In the C locale: a program's own does not change what a point is. */
static double parse_slowly(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_locale);
    return plain_locale != (locale_t)0 ? strtod_l(text, NULL, plain_locale)
                                       : strtod(text, NULL);
}

/* NaN and Infinity, as the writer writes them; in casts any case, and inf. */
static bool read_special(gy_text_view text, gy_frame_reading how, double *value)
{
    const bool has_sign = text.size_bytes > 0 && *text.data == '-';
    const gy_text_view word = {text.data + has_sign, text.size_bytes - has_sign};
    const bool is_cast = how == GY_READING_CAST;
    const bool is_nan =
        !has_sign && is_word(word, "NaN") && (is_cast || memcmp(word.data, "NaN", 3) == 0);
    const bool is_infinity =
        (is_cast && is_word(word, "inf")) ||
        (is_word(word, "Infinity") && (is_cast || memcmp(word.data, "Infinity", 8) == 0));
    *value = is_nan ? (double)NAN : has_sign ? -(double)INFINITY : (double)INFINITY;
    return is_nan || is_infinity;
}

/* Exact where the digits and the power of ten are (Clinger 1990); else the C library. */
static bool number_to_double(gy_text_view text, const number *found, double *value)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int64_t power = found->exponent - (int64_t)found->fraction_count;
    if (found->whole_count + found->fraction_count <= DIGITS_FAST && power >= -22 &&
        power <= 22) {
        const uint64_t digits = digits_of(found);
        if (digits <= UINT64_C(1) << 53) {
            const double exact =
                power < 0 ? (double)digits / powers[-power] : (double)digits * powers[power];
            *value = found->is_negative ? -exact : exact;
            return true;
        }
    }
    char copy[NUMBER_BYTES_MAX + 1];
    if (text.size_bytes > NUMBER_BYTES_MAX) {
        return false;
    }
    memcpy(copy, text.data, text.size_bytes);
    copy[text.size_bytes] = '\0';
    *value = parse_slowly(copy);
    return !isinf(*value) && (*value != 0 || found->is_zero);
}

bool gy_frame_read_double(gy_text_view text, gy_frame_reading how, double *value)
{
    number found;
    text = text_of(text, how);
    if (!scan_number(text, &found)) {
        return read_special(text, how, value);
    }
    return (found.is_strict || how == GY_READING_CAST) && number_to_double(text, &found, value);
}

bool gy_frame_count_digits(gy_text_view text, int *whole, int *fraction)
{
    number found;
    if (!scan_number(text, &found) || !found.is_strict || found.has_exponent ||
        (found.is_zero && found.is_negative) || text.size_bytes > NUMBER_BYTES_MAX) {
        return false;
    }
    *whole = (int)found.whole_count;
    *fraction = (int)found.fraction_count;
    return true;
}

/* The digits of a decimal, cut to the scale and rounded; the caller checked their number. */
static gy_int128 decimal_digits(const number *found, int scale)
{
    gy_int128 sum = 0;
    const size_t kept = GY_MIN(found->fraction_count, (size_t)scale);
    for (size_t i = 0; i < found->whole_count; i++) {
        sum = sum * 10 + (found->whole[i] - '0');
    }
    for (size_t i = 0; i < kept; i++) {
        sum = sum * 10 + (found->fraction[i] - '0');
    }
    for (size_t i = kept; i < (size_t)scale; i++) {
        sum *= 10;
    }
    return sum + (kept < found->fraction_count && found->fraction[kept] >= '5');
}

bool gy_frame_read_decimal(gy_text_view text, gy_frame_reading how, const gy_field *field,
                           gy_int128 *value)
{
    GY_ASSERT(field->kind == GY_FIELD_DECIMAL && field->precision <= GY_DECIMAL_DIGITS_MAX);
    number found;
    text = text_of(text, how);
    if (!scan_number(text, &found) || found.has_exponent ||
        found.whole_count > (size_t)(field->precision - field->scale)) {
        return false;
    }
    if (how == GY_READING_STRICT &&
        (!found.is_strict || found.fraction_count > (size_t)field->scale ||
         (found.is_zero && found.is_negative))) {
        return false;
    }
    gy_int128 sum = decimal_digits(&found, field->scale);
    gy_int128 limit = 1;
    for (int i = 0; i < field->precision && sum >= limit; i++) {
        limit *= 10;
    }
    if (sum >= limit) { /* 9.99 as decimal(2, 1) rounds to 10.0 */
        return false;
    }
    *value = found.is_negative ? -sum : sum;
    return true;
}

/* ---- times ---- */

/* `count` digits at *at, which moves behind them; -1: they are none. */
static int take_digits(const char **at, const char *end, int count)
{
    int value = 0;
    if (end - *at < count) {
        return -1;
    }
    for (int i = 0; i < count; i++) {
        if (!is_digit((*at)[i])) {
            return -1;
        }
        value = value * 10 + ((*at)[i] - '0');
    }
    *at += count;
    return value;
}

static bool take_char(const char **at, const char *end, char c)
{
    const bool is_there = *at < end && **at == c;
    *at += is_there;
    return is_there;
}

/* YYYY-MM-DD at *at, which moves behind it. */
static bool take_date(const char **at, const char *end, int32_t *days)
{
    const int year = take_digits(at, end, 4);
    const int month = year > 0 && take_char(at, end, '-') ? take_digits(at, end, 2) : -1;
    const int day =
        month >= 1 && month <= 12 && take_char(at, end, '-') ? take_digits(at, end, 2) : -1;
    if (day < 1 || day > gy_frame_month_days(year, month)) {
        return false;
    }
    *days = gy_frame_days(year, month, day);
    return true;
}

bool gy_frame_read_date(gy_text_view text, gy_frame_reading how, int32_t *days)
{
    text = text_of(text, how);
    const char *at = text.data, *const end = at + text.size_bytes;
    int32_t found = 0;
    if (!take_date(&at, end, &found) || at != end) {
        return false;
    }
    *days = found;
    return true;
}

/* ".123456" at *at as microseconds, rounded; -1: malformed, or too many digits. */
static int64_t take_fraction(const char **at, const char *end, gy_frame_reading how)
{
    int64_t micros = 0;
    int count = 0;
    for (; *at < end && is_digit(**at); ++*at, count++) {
        if (count < 6) {
            micros = micros * 10 + (**at - '0');
        } else if (count == 6) {
            micros += **at >= '5';
        }
    }
    if (count == 0 || count > (how == GY_READING_STRICT ? 6 : 9)) {
        return -1;
    }
    for (; count < 6; count++) {
        micros *= 10;
    }
    return micros;
}

/* HH:MM[:SS[.FFFFFF]] at *at in microseconds; -1: malformed. */
static int64_t take_time(const char **at, const char *end, gy_frame_reading how)
{
    const int hour = take_digits(at, end, 2);
    const int minute = hour >= 0 && take_char(at, end, ':') ? take_digits(at, end, 2) : -1;
    if (minute < 0 || hour > 23 || minute > 59) {
        return -1;
    }
    const int64_t whole = (hour * 60 + minute) * INT64_C(60);
    if (!take_char(at, end, ':')) {
        return whole * 1000000;
    }
    const int second = take_digits(at, end, 2);
    if (second < 0 || second > 59) {
        return -1;
    }
    const int64_t fraction = take_char(at, end, '.') ? take_fraction(at, end, how) : 0;
    return fraction < 0 ? -1 : (whole + second) * 1000000 + fraction;
}

/* Z, +HH, +HHMM or +HH:MM up to the end, in minutes; false: malformed. Nothing is UTC. */
static bool take_offset(const char *at, const char *end, int *minutes)
{
    *minutes = 0;
    if (at == end || (end - at == 1 && (*at | 0x20) == 'z')) {
        return true;
    }
    const bool is_west = *at == '-';
    if (!is_west && *at != '+') {
        return false;
    }
    at++;
    const int hours = take_digits(&at, end, 2);
    int more = 0;
    if (hours >= 0 && at < end) {
        (void)take_char(&at, end, ':');
        more = take_digits(&at, end, 2);
    }
    *minutes = (hours * 60 + more) * (is_west ? -1 : 1);
    return hours >= 0 && hours <= 15 && more >= 0 && more <= 59 && at == end;
}

bool gy_frame_read_timestamp(gy_text_view text, gy_frame_reading how, int64_t *micros)
{
    text = text_of(text, how);
    const char *at = text.data, *const end = at + text.size_bytes;
    int32_t days = 0;
    int64_t time = 0;
    int offset = 0;
    if (!take_date(&at, end, &days)) {
        return false;
    }
    if (at < end) {
        if (!take_char(&at, end, ' ') && !take_char(&at, end, 'T')) {
            return false;
        }
        time = take_time(&at, end, how);
        if (time < 0 || !take_offset(at, end, &offset)) {
            return false;
        }
    }
    const int64_t found = days * GY_MICROS_A_DAY + time - offset * INT64_C(60000000);
    if (found < GY_DAYS_MIN * GY_MICROS_A_DAY || found >= GY_DAYS_END * GY_MICROS_A_DAY) {
        return false;
    }
    *micros = found;
    return true;
}
