/* Decimals of up to 38 digits: products and quotients that need 256 bits on the way. */
#include "query/values/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 word128;

gy_int128 gy_decimal_power(int digits)
{
    static const int64_t small[] = {1,
                                    10,
                                    100,
                                    1000,
                                    10000,
                                    100000,
                                    1000000,
                                    10000000,
                                    100000000,
                                    1000000000,
                                    10000000000,
                                    100000000000,
                                    1000000000000,
                                    10000000000000,
                                    100000000000000,
                                    1000000000000000,
                                    10000000000000000,
                                    100000000000000000,
                                    1000000000000000000};
    GY_ASSERT(digits >= 0 && digits <= GY_DECIMAL_DIGITS_MAX);
    gy_int128 value = 1;
    for (; digits > 18; digits -= 18) {
        value *= small[18];
    }
    return value * small[digits];
}

bool gy_decimal_fits(gy_int128 value)
{
    const gy_int128 half = INT64_C(1000000000000000000), limit = half * half * 100;
    return value < limit && value > -limit;
}

int gy_decimal_digits(gy_int128 value)
{
    int digits = 1;
    word128 rest = value < 0 ? 0 - (word128)value : (word128)value;
    for (; rest >= 10; rest /= 10) {
        digits++;
    }
    return digits;
}

static word128 size_of(gy_int128 value)
{
    return value < 0 ? 0 - (word128)value : (word128)value;
}

/* With its sign; false: more than 38 digits. */
static bool give(word128 size, bool is_negative, gy_int128 *out)
{
    if (size >= (word128)gy_decimal_power(GY_DECIMAL_DIGITS_MAX)) {
        return false;
    }
    *out = is_negative ? -(gy_int128)size : (gy_int128)size;
    return true;
}

bool gy_decimal_rescale(gy_int128 value, int from, int to, gy_int128 *out)
{
    if (to >= from) {
        if (value == 0 || to == from) {
            *out = value;
            return true;
        }
        return to - from <= GY_DECIMAL_DIGITS_MAX &&
               !__builtin_mul_overflow(value, gy_decimal_power(to - from), out) &&
               gy_decimal_fits(*out);
    }
    if (from - to > GY_DECIMAL_DIGITS_MAX) {
        *out = 0;
        return true;
    }
    const gy_int128 unit = gy_decimal_power(from - to);
    const gy_int128 whole = value / unit, rest = value % unit;
    const gy_int128 up = size_of(rest) >= (word128)(unit - unit / 2) ? 1 : 0;
    *out = whole + (value < 0 ? -up : up);
    return true;
}

/* ---- 256 bits, by longhand ---- */

/* a * b = (*high, *low) */
static void multiply_whole(word128 a, word128 b, word128 *high, word128 *low)
{
    const word128 mask = UINT64_MAX;
    const word128 a0 = a & mask, a1 = a >> 64, b0 = b & mask, b1 = b >> 64;
    const word128 low_part = a0 * b0, middle = a1 * b0 + (low_part >> 64);
    const word128 other = a0 * b1 + (middle & mask);
    *low = (low_part & mask) | other << 64;
    *high = a1 * b1 + (middle >> 64) + (other >> 64);
}

/* (high, low) / by, where high < by <= 2^127; bit by bit. */
static word128 divide_whole(word128 high, word128 low, word128 by, word128 *rest)
{
    word128 quotient = 0;
    GY_ASSERT(high < by && by <= (word128)1 << 127);
    for (int bit = 127; bit >= 0; bit--) {
        high = high << 1 | (low >> bit & 1);
        quotient <<= 1;
        if (high >= by) {
            high -= by;
            quotient |= 1;
        }
    }
    *rest = high;
    return quotient;
}

bool gy_decimal_multiply(gy_int128 a, gy_int128 b, int drop, gy_int128 *out)
{
    if (drop == 0) {
        return !__builtin_mul_overflow(a, b, out) && gy_decimal_fits(*out);
    }
    word128 high = 0, low = 0, rest = 0;
    multiply_whole(size_of(a), size_of(b), &high, &low);
    const word128 unit = (word128)gy_decimal_power(drop);
    if (high >= unit) {
        return false;
    }
    word128 quotient = divide_whole(high, low, unit, &rest);
    quotient += rest >= unit - unit / 2 && quotient != ~(word128)0;
    return give(quotient, (a < 0) != (b < 0), out);
}

bool gy_decimal_divide(gy_int128 a, gy_int128 b, int shift, gy_int128 *out)
{
    GY_ASSERT(b != 0 && shift >= 0);
    const word128 by = size_of(b), limit = (word128)gy_decimal_power(GY_DECIMAL_DIGITS_MAX);
    if (size_of(a) <= UINT64_MAX && shift <= 19) {
        const word128 scaled = size_of(a) * (word128)gy_decimal_power(shift);
        const word128 left = scaled % by;
        return give(scaled / by + (left >= by - by / 2), (a < 0) != (b < 0), out);
    }
    word128 quotient = size_of(a) / by, rest = size_of(a) % by;
    while (shift > 0) { /* as many digits at once as have room */
        int step = GY_MIN(shift, GY_DECIMAL_DIGITS_MAX - gy_decimal_digits((gy_int128)by));
        step = GY_MAX(step, 1);
        const word128 unit = (word128)gy_decimal_power(step);
        word128 high = 0, low = 0, digits = 0, over = 0;
        if (quotient > limit / unit) {
            return false;
        }
        if (rest <= ~(word128)0 / unit) {
            digits = rest * unit / by;
            rest = rest * unit % by;
        } else {
            multiply_whole(rest, unit, &high, &low);
            digits = divide_whole(high, low, by, &over);
            rest = over;
        }
        quotient = quotient * unit + digits;
        shift -= step;
    }
    quotient += rest >= by - by / 2;
    return give(quotient, (a < 0) != (b < 0), out);
}

/* ---- as doubles and texts ---- */

size_t gy_decimal_write(gy_int128 value, int scale, char out[GY_FRAME_VALUE_BYTES])
{
    const gy_field field = {.name = "",
                            .kind = GY_FIELD_DECIMAL,
                            .precision = GY_DECIMAL_DIGITS_MAX,
                            .scale = scale};
    const gy_column column = {.field = &field, .rows = 1, .values = &value};
    return gy_frame_write(&column, 0, out);
}

double gy_decimal_to_double(gy_int128 value, int scale)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (scale < (int)GY_COUNT(powers) && size_of(value) <= (word128)1 << 53) {
        return (double)(int64_t)value / powers[scale]; /* both exact, so rounded once */
    }
    char digits[GY_FRAME_VALUE_BYTES];
    double real = 0;
    const size_t size = gy_decimal_write(value, scale, digits);
    const bool is_number =
        gy_frame_read_double((gy_text_view){digits, size}, GY_READING_CAST, &real);
    GY_ASSERT(is_number);
    return real;
}

bool gy_decimal_of_double(double real, int scale, gy_int128 *out)
{
    char digits[GY_FRAME_VALUE_BYTES];
    bool is_number = false;
    if (!isfinite(real)) {
        return false;
    }
    size_t size = gy_print(digits, sizeof(digits), "%.14e", real);
    for (size_t i = 0; i < size; i++) { /* what another locale takes for a point */
        if (strchr("0123456789+-e", digits[i]) == NULL) {
            digits[i] = '.';
        }
    }
    return gy_decimal_read((gy_text_view){digits, size}, &scale, out, &is_number);
}

/* Digits at the front of a text. */
static size_t count_digits(const char *at, const char *end)
{
    size_t count = 0;
    while (at + count < end && at[count] >= '0' && at[count] <= '9') {
        count++;
    }
    return count;
}

typedef struct number {
    const char *whole, *fraction;
    size_t whole_count, fraction_count;
    bool is_negative;
    int exponent;
} number;

static bool scan_exponent(const char *at, const char *end, number *found)
{
    const bool is_negative = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    const size_t count = count_digits(at, end);
    for (size_t i = 0; i < count; i++) {
        found->exponent = GY_MIN(found->exponent * 10 + (at[i] - '0'), 100000);
    }
    found->exponent = is_negative ? -found->exponent : found->exponent;
    return count > 0 && at + count == end;
}

static bool scan(gy_text_view text, number *found)
{
    const char *at = text.data, *end = at + text.size_bytes;
    for (; at < end && strchr(" \t\n\v\f\r", *at) != NULL; at++) {
    }
    for (; end > at && strchr(" \t\n\v\f\r", end[-1]) != NULL; end--) {
    }
    *found = (number){.is_negative = at < end && *at == '-'};
    at += at < end && (*at == '-' || *at == '+');
    found->whole = at;
    found->whole_count = count_digits(at, end);
    at += found->whole_count;
    if (at < end && *at == '.') {
        found->fraction = ++at;
        found->fraction_count = count_digits(at, end);
        at += found->fraction_count;
    }
    if (found->whole_count + found->fraction_count == 0) {
        return false;
    }
    return at == end || ((*at | 0x20) == 'e' && scan_exponent(at + 1, end, found));
}

static int digit_of(const number *found, size_t at)
{
    return (at < found->whole_count ? found->whole[at]
                                    : found->fraction[at - found->whole_count]) -
           '0';
}

bool gy_decimal_read(gy_text_view text, int *scale, gy_int128 *out, bool *is_number)
{
    number found;
    *is_number = scan(text, &found);
    if (!*is_number) {
        return false;
    }
    const int64_t places = (int64_t)found.fraction_count - found.exponent;
    if (*scale < 0) {
        *scale = (int)GY_MAX(places, (int64_t)0);
        if (*scale > GY_DECIMAL_DIGITS_MAX) {
            return false;
        }
    }
    const int64_t all = (int64_t)(found.whole_count + found.fraction_count);
    const int64_t kept = all - places + *scale; /* digits from the left */
    word128 sum = 0;
    for (int64_t i = 0; i < kept; i++) {
        const int digit = i < all ? digit_of(&found, (size_t)i) : 0;
        if (i >= all && sum == 0) {
            break; /* however many zeros follow */
        }
        sum = sum * 10 + (word128)(unsigned)digit;
        if (sum >= (word128)gy_decimal_power(GY_DECIMAL_DIGITS_MAX)) {
            return false;
        }
    }
    const bool rounds_up = kept >= 0 && kept < all && digit_of(&found, (size_t)kept) >= 5;
    return give(sum + rounds_up, found.is_negative, out);
}
