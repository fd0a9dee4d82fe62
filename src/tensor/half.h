/**
 * Sixteen-bit floating types as bits: IEEE binary16 and bfloat16, rounded to nearest even.
 *
 * A double converts to either type with one rounding, never two.
 *
 * @source IEEE 754-2019, 4.3.1 (roundTiesToEven), 3.4 (binary16)
 */
#ifndef GY_TENSOR_HALF_H
#define GY_TENSOR_HALF_H

#include <gyre/base.h>

#include <string.h>

static inline uint64_t gy_bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float gy_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/**
 * Round a double to a 16-bit format with `mantissa_bits` and `exponent_bits` (1 + both = 16).
 * Overflow gives infinity; NaN becomes a quiet NaN with its sign; a value below the normal
 * range becomes a subnormal or 0.
 */
static inline uint16_t gy_small_float(double value, int mantissa_bits, int exponent_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << mantissa_bits;
    const uint64_t bits = gy_bits_of_double(value);
    const uint64_t sign = (bits >> 63) << 15;
    const int exponent = (int)((bits >> 52) & 0x7ff);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 0x7ff) {
        uint64_t quiet = mantissa == 0 ? 0 : UINT64_C(1) << (mantissa_bits - 1);
        return (uint16_t)(sign | infinity | quiet);
    }
    int target = exponent - 1023 + bias; /* biased exponent in the small format */
    int drop = 52 - mantissa_bits;
    if (target <=
        0) { /* a subnormal result: the leading 1 is explicit, and more bits are rounded off */
        mantissa |= exponent == 0 ? 0 : UINT64_C(1) << 52;
        drop += 1 - target;
        target = 0;
        if (drop > 60) {
            return (uint16_t)sign;
        }
    }
    uint64_t kept = ((uint64_t)target << mantissa_bits) + (mantissa >> drop);
    uint64_t rest = mantissa & ((UINT64_C(1) << drop) - 1);
    uint64_t half = UINT64_C(1) << (drop - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) {
        /* a carry out of the mantissa increments the exponent, which is the correct result */
        kept++;
    }
    return (uint16_t)(sign | (kept >= infinity ? infinity : kept));
}

static inline uint16_t gy_f16_from(double value)
{
    return gy_small_float(value, 10, 5);
}

static inline uint16_t gy_bf16_from(double value)
{
    return gy_small_float(value, 7, 8);
}

static inline float gy_bf16_to(uint16_t bits)
{
    return gy_float_of_bits((uint32_t)bits << 16);
}

static inline float gy_f16_to(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1f;
    const uint32_t mantissa = bits & 0x3ff;
    if (exponent == 0x1f) {
        return gy_float_of_bits(sign | 0x7f800000 | mantissa << 13);
    }
    if (exponent == 0) { /* mantissa * 2^-24 is exact */
        float value = (float)mantissa * gy_float_of_bits((127 - 24) << 23);
        return sign != 0 ? -value : value;
    }
    return gy_float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

#endif
