/* Numbers in texts: the digits of a double into the nearest one. */
#include "dml/values/values.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

/* A long double holds 64 bits, so each mantissa of 19 digits and each of these powers. One
 * operation rounds once; what is then rounded to 53 bits is right unless it lies on a midpoint
 * (Clinger 1990; the second rounding errs only there). */
static_assert(LDBL_MANT_DIG == 64, "long double has 64 bits of mantissa");
static const long double powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                     1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                     1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                     1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

static bool slow(const char *text, size_t size, double *value)
{
    char copy[512];
    char *end = NULL;
    if (size == 0 || size >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    *value = strtod(copy, &end);
    return *end == '\0' && copy[strspn(copy, "0123456789+-.eEaAfFiInNtTyY")] == '\0';
}

/* How many of eight bytes, the lowest first, are digits before another byte. With '0' taken off
 * a digit is below 10; a carry reaches only bytes behind one that is none. */
static inline int leading_digits(uint64_t bytes)
{
    const uint64_t off = bytes ^ 0x3030303030303030;
    const uint64_t others = ((off + 0x7676767676767676) | off) & 0x8080808080808080;
    return others == 0 ? 8 : __builtin_ctzll(others) / 8;
}

/* The number of eight digits, each step joining neighbours (Lemire 2021, after Mula). The first
 * digit is the lowest byte; of a byte 0 the digit is 0. */
static inline uint64_t eight(uint64_t bytes)
{
    bytes = ((bytes & 0x0f0f0f0f0f0f0f0f) * 2561) >> 8;
    bytes = ((bytes & 0x00ff00ff00ff00ff) * 6553601) >> 16;
    return ((bytes & 0x0000ffff0000ffff) * 42949672960001) >> 32;
}

/* Digits from *at on into a mantissa; how many there were. */
static inline int take_digits(const char **at, const char *end, uint64_t *mantissa)
{
    static const uint64_t tens[] = {1,      10,      100,      1000,     10000,
                                    100000, 1000000, 10000000, 100000000};
    const char *begin = *at;
    int count = 8;
    while (count == 8 && end - *at >= 8) {
        uint64_t bytes = 0;
        memcpy(&bytes, *at, sizeof(bytes));
        count = leading_digits(bytes);
        if (count > 0) { /* no loop over digits: where it ends cannot be foreseen */
            *mantissa = *mantissa * tens[count] + eight(bytes << (8 * (8 - count)));
        }
        *at += count;
    }
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        *mantissa = *mantissa * 10 + (uint64_t)(**at - '0');
    }
    return (int)GY_MIN(*at - begin, 1 << 20);
}

/* e+12 behind a number, or nothing; false: not so. */
static bool take_exponent(const char **at, const char *end, int *power)
{
    if (*at == end || (**at != 'e' && **at != 'E')) {
        return true;
    }
    ++*at;
    const bool has_sign = *at < end && (**at == '-' || **at == '+');
    const bool is_negative = has_sign && **at == '-';
    uint64_t digits = 0;
    *at += has_sign;
    const int count = take_digits(at, end, &digits);
    *power += is_negative ? -(int)(digits % 1000) : (int)(digits % 1000);
    return count > 0 && count < 4;
}

/* mantissa times 10^power; false where that needs more care. */
static bool scale(uint64_t mantissa, int power, double *value)
{
    const long double wide = power < 0 ? (long double)mantissa / powers[-power]
                                       : (long double)mantissa * powers[power];
    uint64_t bits = 0;
    memcpy(&bits, &wide, sizeof(bits)); /* the 64 bits of its mantissa */
    *value = (double)wide;
    return (bits & 0x7ff) != 0x400;
}

bool gy_dml_take_real(const char **text, const char *end, double *value)
{
    const char *at = *text;
    const bool is_negative = at < end && *at == '-';
    uint64_t mantissa = 0;
    at += is_negative;
    const int whole = take_digits(&at, end, &mantissa);
    int fraction = 0;
    if (at < end && *at == '.') {
        at++;
        fraction = take_digits(&at, end, &mantissa);
    }
    int power = -fraction;
    if (!take_exponent(&at, end, &power) || whole + fraction == 0 || whole + fraction > 19 ||
        power < -27 || power > 27 || !scale(mantissa, power, value)) {
        return false;
    }
    *value = is_negative ? -*value : *value;
    *text = at;
    return true;
}

bool gy_dml_parse_real(const char *text, size_t size, double *value)
{
    const char *at = text, *end = text + size;
    return (gy_dml_take_real(&at, end, value) && at == end) || slow(text, size, value);
}
