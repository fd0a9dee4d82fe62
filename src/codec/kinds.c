/*
 * Each codec.
 *
 *   none   the values
 *   bf16   2 bytes a value: sign, 8 bits of exponent and 7 of fraction, to nearest even
 *   int8   blocks of 256: a float32 scale s = max |x| / 127, then round(x / s) in a byte each
 *   top-k  k = ceil(share * n) values of the largest magnitude, of equal ones the first: their
 *          32-bit indices, ascending, then the values as float32
 */
#include "codec/codec_priv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- none ---- */

static size_t none_bytes(gy_codec codec, gy_dtype dtype, size_t count)
{
    (void)codec;
    return count * gy_dtype_bytes(dtype);
}

static void none_encode(gy_codec codec, const codec_values *values, uint8_t *out)
{
    if (values->count > 0) {
        memcpy(out, values->data, none_bytes(codec, values->dtype, values->count));
    }
}

static gy_status none_decode(gy_codec codec, const uint8_t *bytes, const codec_values *values)
{
    if (values->count > 0) {
        memcpy(values->data, bytes, none_bytes(codec, values->dtype, values->count));
    }
    return GY_OK;
}

static void none_subtract(gy_codec codec, const uint8_t *bytes, const codec_values *residual)
{
    (void)codec;
    (void)bytes;
    for (size_t i = 0; i < residual->count; i++) {
        gy_codec_set(residual, i, 0);
    }
}

/* ---- bf16 ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float value_of(uint32_t bits)
{
    float value = 0;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint16_t to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if (isnan(value)) {
        return (uint16_t)(bits >> 16 | 0x40); /* rounding could make an infinity of it */
    }
    bits += 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(bits >> 16);
}

static float from_bf16(const uint8_t *bytes)
{
    uint16_t half = 0;
    memcpy(&half, bytes, sizeof(half));
    return value_of((uint32_t)half << 16);
}

static size_t bf16_bytes(gy_codec codec, gy_dtype dtype, size_t count)
{
    (void)codec;
    (void)dtype;
    return 2 * count;
}

static void bf16_encode(gy_codec codec, const codec_values *values, uint8_t *out)
{
    (void)codec;
    for (size_t i = 0; i < values->count; i++) {
        const uint16_t half = to_bf16((float)gy_codec_get(values, i));
        memcpy(out + 2 * i, &half, sizeof(half));
    }
}

static gy_status bf16_decode(gy_codec codec, const uint8_t *bytes, const codec_values *values)
{
    (void)codec;
    for (size_t i = 0; i < values->count; i++) {
        gy_codec_set(values, i, (double)from_bf16(bytes + 2 * i));
    }
    return GY_OK;
}

static void bf16_subtract(gy_codec codec, const uint8_t *bytes, const codec_values *residual)
{
    (void)codec;
    for (size_t i = 0; i < residual->count; i++) {
        gy_codec_set(residual, i, gy_codec_get(residual, i) - (double)from_bf16(bytes + 2 * i));
    }
}

/* ---- int8 ---- */

static size_t int8_bytes(gy_codec codec, gy_dtype dtype, size_t count)
{
    (void)codec;
    (void)dtype;
    return count + (count + CODEC_BLOCK - 1) / CODEC_BLOCK * sizeof(float);
}

/* The scale of values [first, end): 0 for zeros, NaN where one is not finite. */
static float scale_of(const codec_values *values, size_t first, size_t end)
{
    double largest = 0;
    for (size_t i = first; i < end; i++) {
        const double size = fabs(gy_codec_get(values, i));
        if (!isfinite((float)size)) {
            return NAN;
        }
        largest = GY_MAX(largest, size);
    }
    return (float)(largest / 127);
}

static void int8_encode(gy_codec codec, const codec_values *values, uint8_t *out)
{
    (void)codec;
    for (size_t first = 0; first < values->count; first += CODEC_BLOCK) {
        const size_t end = GY_MIN(first + CODEC_BLOCK, values->count);
        const float scale = scale_of(values, first, end);
        memcpy(out, &scale, sizeof(scale));
        out += sizeof(scale);
        for (size_t i = first; i < end; i++) {
            const double steps = scale > 0 ? rint(gy_codec_get(values, i) / (double)scale) : 0;
            *out++ = (uint8_t)(int8_t)GY_MIN(GY_MAX(steps, -127.0), 127.0);
        }
    }
}

static double int8_value(float scale, uint8_t byte)
{
    return (double)scale * (double)(int8_t)byte;
}

static gy_status int8_decode(gy_codec codec, const uint8_t *bytes, const codec_values *values)
{
    (void)codec;
    for (size_t first = 0; first < values->count; first += CODEC_BLOCK) {
        const size_t end = GY_MIN(first + CODEC_BLOCK, values->count);
        float scale = 0;
        memcpy(&scale, bytes, sizeof(scale));
        bytes += sizeof(scale);
        for (size_t i = first; i < end; i++) {
            gy_codec_set(values, i, int8_value(scale, *bytes++));
        }
    }
    return GY_OK;
}

static void int8_subtract(gy_codec codec, const uint8_t *bytes, const codec_values *residual)
{
    (void)codec;
    for (size_t first = 0; first < residual->count; first += CODEC_BLOCK) {
        const size_t end = GY_MIN(first + CODEC_BLOCK, residual->count);
        float scale = 0;
        memcpy(&scale, bytes, sizeof(scale));
        bytes += sizeof(scale);
        for (size_t i = first; i < end; i++) {
            /* what is decoded is of the values' type */
            const codec_values one = {residual->dtype, &(double){0}, 1};
            gy_codec_set(&one, 0, int8_value(scale, *bytes++));
            gy_codec_set(residual, i, gy_codec_get(residual, i) - gy_codec_get(&one, 0));
        }
    }
}

/* ---- top-k ---- */

static size_t kept_of(gy_codec codec, size_t count)
{
    const size_t kept = (size_t)ceil(codec.share * (double)count);
    return GY_MIN(kept, count);
}

static size_t topk_bytes(gy_codec codec, gy_dtype dtype, size_t count)
{
    (void)dtype;
    return kept_of(codec, count) * (sizeof(uint32_t) + sizeof(float));
}

/* The magnitude as a number whose order is that of magnitudes; NaN is above all. */
static uint32_t rank_of(const codec_values *values, size_t i)
{
    return bits_of((float)gy_codec_get(values, i)) & 0x7fffffff;
}

/* The rank of the kept-th largest value, and how many of that rank are kept: three digits of
 * 11, 10 and 10 bits, from the top, each by a histogram of the values that have those above. */
static uint32_t threshold(const codec_values *values, size_t kept, size_t *equal)
{
    static const int shifts[] = {20, 10, 0}, widths[] = {11, 10, 10};
    uint32_t prefix = 0;
    size_t left = kept;
    for (int digit = 0; digit < 3; digit++) {
        uint32_t counts[1 << 11] = {0};
        const int above = shifts[digit] + widths[digit];
        for (size_t i = 0; i < values->count; i++) {
            const uint32_t rank = rank_of(values, i);
            if ((uint64_t)rank >> above == (uint64_t)prefix >> above) {
                counts[rank >> shifts[digit] & ((1U << widths[digit]) - 1)]++;
            }
        }
        uint32_t at = (1U << widths[digit]) - 1;
        while (counts[at] < left) {
            GY_ASSERT(at > 0);
            left -= counts[at--];
        }
        prefix |= at << shifts[digit];
    }
    *equal = left;
    return prefix;
}

static void topk_encode(gy_codec codec, const codec_values *values, uint8_t *out)
{
    const size_t kept = kept_of(codec, values->count);
    size_t equal = 0, used = 0;
    GY_ASSERT(values->count <= UINT32_MAX);
    if (kept == 0) {
        return;
    }
    const uint32_t least = threshold(values, kept, &equal);
    for (size_t i = 0; i < values->count && used < kept; i++) {
        const uint32_t rank = rank_of(values, i), index = (uint32_t)i;
        if (rank < least || (rank == least && equal == 0)) {
            continue;
        }
        equal -= rank == least;
        const float value = (float)gy_codec_get(values, i);
        memcpy(out + used * sizeof(index), &index, sizeof(index));
        memcpy(out + kept * sizeof(index) + used * sizeof(value), &value, sizeof(value));
        used++;
    }
    GY_ASSERT(used == kept);
}

static uint32_t topk_index(const uint8_t *bytes, size_t i)
{
    uint32_t index = 0;
    memcpy(&index, bytes + i * sizeof(index), sizeof(index));
    return index;
}

static float topk_value(const uint8_t *bytes, size_t kept, size_t i)
{
    float value = 0;
    memcpy(&value, bytes + kept * sizeof(uint32_t) + i * sizeof(value), sizeof(value));
    return value;
}

static gy_status topk_decode(gy_codec codec, const uint8_t *bytes, const codec_values *values)
{
    const size_t kept = kept_of(codec, values->count);
    for (size_t i = 0; i < kept; i++) {
        const uint32_t index = topk_index(bytes, i);
        if (index >= values->count || (i > 0 && index <= topk_index(bytes, i - 1))) {
            return gy_fail(GY_FORMAT,
                           "codec topk: index %zu is %u of %zu values: expected "
                           "ascending ones",
                           i, index, values->count);
        }
    }
    for (size_t i = 0; i < values->count; i++) {
        gy_codec_set(values, i, 0);
    }
    for (size_t i = 0; i < kept; i++) {
        gy_codec_set(values, topk_index(bytes, i), (double)topk_value(bytes, kept, i));
    }
    return GY_OK;
}

static void topk_subtract(gy_codec codec, const uint8_t *bytes, const codec_values *residual)
{
    const size_t kept = kept_of(codec, residual->count);
    for (size_t i = 0; i < kept; i++) {
        const size_t index = topk_index(bytes, i);
        gy_codec_set(residual, index,
                     gy_codec_get(residual, index) - (double)topk_value(bytes, kept, i));
    }
}

/* ---- Rows ---- */

static const codec_kind kinds[] = {
    [GY_CODEC_NONE] = {"none", false, none_bytes, none_encode, none_decode, none_subtract},
    [GY_CODEC_BF16] = {"bf16", false, bf16_bytes, bf16_encode, bf16_decode, bf16_subtract},
    [GY_CODEC_INT8] = {"int8", false, int8_bytes, int8_encode, int8_decode, int8_subtract},
    [GY_CODEC_TOPK] = {"topk", true, topk_bytes, topk_encode, topk_decode, topk_subtract},
};
static_assert(GY_COUNT(kinds) == GY_CODEC_KINDS, "a row for each kind");

const codec_kind *gy_codec_kind_of(gy_codec_kind kind)
{
    GY_ASSERT(kind < GY_CODEC_KINDS);
    return &kinds[kind];
}
