/*
 * Converts between any two element types in two steps: it widens a chunk of the source to
 * double or to 64-bit integers, which hold every value of the source exactly, and then narrows
 * the chunk to the target type. Twelve types thus need 12 wideners and 3 x 12 narrowers
 * instead of 144 loops; the chunk stays in the L1 cache.
 */
#include "tensor/convert_priv.h"

#include "base/base.h"
#include "tensor/half.h"

#include <math.h>

enum { PIECE = 256 };

typedef union wide {
    double real[PIECE];
    int64_t whole[PIECE];
} wide;

/* A double that rounds to any shorter floating type exactly as `value` would: the bits that do
 * not fit are ORed into the last bit ("round to odd"; Boldo and Melquiond, "Emulation of FMA
 * and correctly rounded sums", 2008). This avoids double rounding. */
static double sticky_double(uint64_t magnitude)
{
    if (magnitude >> 53 != 0) {
        uint64_t low = magnitude & 0x7ff;
        magnitude = (magnitude & ~UINT64_C(0x7ff)) | (low != 0 ? UINT64_C(0x800) : 0);
    }
    return (double)magnitude;
}

static double sticky_signed(int64_t value)
{
    return value < 0 ? -sticky_double(-(uint64_t)value) : sticky_double((uint64_t)value);
}

static int64_t cut_signed(double value, double low, double high, int64_t lowest,
                          int64_t highest)
{
    if (isnan(value)) {
        return 0;
    }
    return value <= low ? lowest : value >= high ? highest : (int64_t)value;
}

static uint64_t cut_unsigned(double value, double high, uint64_t highest)
{
    if (isnan(value) || value <= 0) {
        return 0;
    }
    return value >= high ? highest : (uint64_t)value;
}

#define KEEP_F64(x)  (x)
#define KEEP_F32(x)  ((double)(x))
#define KEEP_F16(x)  ((double)gy_f16_to(x))
#define KEEP_BF16(x) ((double)gy_bf16_to(x))

/* Widen `n` elements of the source. */
#define DEFINE_WIDEN(name, type, field, keep)                                                  \
    static void widen_##name(wide *out, const void *data, int64_t stride, int64_t n)           \
    {                                                                                          \
        const type *from = data;                                                               \
        for (int64_t i = 0; i < n; i++) {                                                      \
            out->field[i] = keep(from[i * stride]);                                            \
        }                                                                                      \
    }
DEFINE_WIDEN(F64, double, real, KEEP_F64)
DEFINE_WIDEN(F32, float, real, KEEP_F32)
DEFINE_WIDEN(F16, uint16_t, real, KEEP_F16)
DEFINE_WIDEN(BF16, uint16_t, real, KEEP_BF16)
DEFINE_WIDEN(I64, int64_t, whole, (int64_t))
DEFINE_WIDEN(I32, int32_t, whole, (int64_t))
DEFINE_WIDEN(I16, int16_t, whole, (int64_t))
DEFINE_WIDEN(I8, int8_t, whole, (int64_t))
DEFINE_WIDEN(U64, uint64_t, whole, (int64_t))
DEFINE_WIDEN(U32, uint32_t, whole, (int64_t))
DEFINE_WIDEN(U16, uint16_t, whole, (int64_t))
DEFINE_WIDEN(U8, uint8_t, whole, (int64_t))

#define CUT_I64(x) cut_signed((x), -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
#define CUT_I32(x) (int32_t) cut_signed((x), -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
#define CUT_I16(x) (int16_t) cut_signed((x), -0x1p15, 0x1p15, INT16_MIN, INT16_MAX)
#define CUT_I8(x)  (int8_t) cut_signed((x), -0x1p7, 0x1p7, INT8_MIN, INT8_MAX)
#define CUT_U64(x) cut_unsigned((x), 0x1p64, UINT64_MAX)
#define CUT_U32(x) (uint32_t) cut_unsigned((x), 0x1p32, UINT32_MAX)
#define CUT_U16(x) (uint16_t) cut_unsigned((x), 0x1p16, UINT16_MAX)
#define CUT_U8(x)  (uint8_t) cut_unsigned((x), 0x1p8, UINT8_MAX)

#define SIGNED_F16(x)    gy_f16_from(sticky_signed(x))
#define SIGNED_BF16(x)   gy_bf16_from(sticky_signed(x))
#define UNSIGNED_F64(x)  ((double)(uint64_t)(x))
#define UNSIGNED_F32(x)  ((float)(uint64_t)(x))
#define UNSIGNED_F16(x)  gy_f16_from(sticky_double((uint64_t)(x)))
#define UNSIGNED_BF16(x) gy_bf16_from(sticky_double((uint64_t)(x)))

/* Narrow `n` wide elements into the target. */
#define DEFINE_NARROW(kind, name, type, field, narrow)                                         \
    static void kind##_##name(void *data, int64_t stride, const wide *in, int64_t n)           \
    {                                                                                          \
        type *to = data;                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                      \
            to[i * stride] = narrow(in->field[i]);                                             \
        }                                                                                      \
    }
DEFINE_NARROW(real, F64, double, real, (double))
DEFINE_NARROW(real, F32, float, real, (float))
DEFINE_NARROW(real, F16, uint16_t, real, gy_f16_from)
DEFINE_NARROW(real, BF16, uint16_t, real, gy_bf16_from)
DEFINE_NARROW(real, I64, int64_t, real, CUT_I64)
DEFINE_NARROW(real, I32, int32_t, real, CUT_I32)
DEFINE_NARROW(real, I16, int16_t, real, CUT_I16)
DEFINE_NARROW(real, I8, int8_t, real, CUT_I8)
DEFINE_NARROW(real, U64, uint64_t, real, CUT_U64)
DEFINE_NARROW(real, U32, uint32_t, real, CUT_U32)
DEFINE_NARROW(real, U16, uint16_t, real, CUT_U16)
DEFINE_NARROW(real, U8, uint8_t, real, CUT_U8)
DEFINE_NARROW(whole, F64, double, whole, (double))
DEFINE_NARROW(whole, F32, float, whole, (float))
DEFINE_NARROW(whole, F16, uint16_t, whole, SIGNED_F16)
DEFINE_NARROW(whole, BF16, uint16_t, whole, SIGNED_BF16)
DEFINE_NARROW(whole, I64, int64_t, whole, (int64_t))
DEFINE_NARROW(whole, I32, int32_t, whole, (int32_t))
DEFINE_NARROW(whole, I16, int16_t, whole, (int16_t))
DEFINE_NARROW(whole, I8, int8_t, whole, (int8_t))
DEFINE_NARROW(whole, U64, uint64_t, whole, (uint64_t))
DEFINE_NARROW(whole, U32, uint32_t, whole, (uint32_t))
DEFINE_NARROW(whole, U16, uint16_t, whole, (uint16_t))
DEFINE_NARROW(whole, U8, uint8_t, whole, (uint8_t))
/* Unsigned sources need their own loop only for floating targets: the low bits are the same. */
DEFINE_NARROW(natural, F64, double, whole, UNSIGNED_F64)
DEFINE_NARROW(natural, F32, float, whole, UNSIGNED_F32)
DEFINE_NARROW(natural, F16, uint16_t, whole, UNSIGNED_F16)
DEFINE_NARROW(natural, BF16, uint16_t, whole, UNSIGNED_BF16)

typedef void (*widen_run)(wide *out, const void *data, int64_t stride, int64_t n);
typedef void (*narrow_run)(void *data, int64_t stride, const wide *in, int64_t n);

static const widen_run wideners[GY_DTYPE_COUNT] = {
#define GY_X(name, bytes, type) [GY_##name] = widen_##name,
    GY_DTYPE_LIST(GY_X)
#undef GY_X
};
static const narrow_run from_real[GY_DTYPE_COUNT] = {
#define GY_X(name, bytes, type) [GY_##name] = real_##name,
    GY_DTYPE_LIST(GY_X)
#undef GY_X
};
static const narrow_run from_whole[GY_DTYPE_COUNT] = {
#define GY_X(name, bytes, type) [GY_##name] = whole_##name,
    GY_DTYPE_LIST(GY_X)
#undef GY_X
};

static narrow_run narrower(gy_dtype to, gy_dtype from)
{
    GY_ASSERT(gy_dtype_is_element(to));
    GY_ASSERT(gy_dtype_is_element(from));
    static const narrow_run from_natural[] = {
        [GY_F64] = natural_F64,
        [GY_F32] = natural_F32,
        [GY_F16] = natural_F16,
        [GY_BF16] = natural_BF16,
    };
    if (from <= GY_BF16) {
        return from_real[to];
    }
    return from >= GY_U64 && to <= GY_BF16 ? from_natural[to] : from_whole[to];
}

void gy_convert_run(gy_run to, gy_const_run from, int64_t count)
{
    GY_ASSERT(count >= 0);
    GY_ASSERT(gy_dtype_is_element(to.dtype));
    GY_ASSERT(gy_dtype_is_element(from.dtype));
    const widen_run widen = wideners[from.dtype];
    const narrow_run narrow = narrower(to.dtype, from.dtype);
    const int64_t to_step = to.stride * (int64_t)gy_dtype_bytes(to.dtype);
    const int64_t from_step = from.stride * (int64_t)gy_dtype_bytes(from.dtype);
    wide piece;
    for (int64_t done = 0; done < count; done += PIECE) {
        int64_t n = GY_MIN((int64_t)PIECE, count - done);
        widen(&piece, (const char *)from.data + done * from_step, from.stride, n);
        narrow((char *)to.data + done * to_step, to.stride, &piece, n);
    }
}
