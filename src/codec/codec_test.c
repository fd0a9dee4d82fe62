/*
 * Goal: codecs give what a plain reference of each gives, for any count, type and values that
 * are not finite; error feedback loses nothing; what is no code is refused.
 */
#include "codec/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gy_test.h"

enum { COUNT_MAX = 1500, BYTES_MAX = 16 * COUNT_MAX };

static const gy_codec codecs[] = {{GY_CODEC_NONE, 0},   {GY_CODEC_BF16, 0},
                                  {GY_CODEC_INT8, 0},   {GY_CODEC_TOPK, 0.01},
                                  {GY_CODEC_TOPK, 0.3}, {GY_CODEC_TOPK, 1}};

/* ---- References ---- */

/* The nearest number of 8 significant bits, of two the one whose last bit is 0. */
static double reference_bf16(double value)
{
    int exponent = 0;
    const float single = (float)value;
    if (!isfinite(single) || single == 0) {
        return single;
    }
    const double fraction = frexp(single, &exponent);
    exponent = exponent < -125 ? -125 : exponent; /* subnormal numbers have fewer bits */
    (void)fraction;
    const double unit = ldexp(1, exponent - 8);
    const double rounded = nearbyint((double)single / unit) * unit;
    return fabs(rounded) > 3.3895313892515355e38 ? copysign(INFINITY, single) : rounded;
}

static void reference_int8(const double *values, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        const size_t first = i / 256 * 256, end = first + 256 < count ? first + 256 : count;
        double largest = 0;
        bool is_finite = true;
        for (size_t k = first; k < end; k++) {
            is_finite = is_finite && isfinite((float)values[k]);
            largest = fmax(largest, fabs(values[k]));
        }
        const double scale = (double)(float)(largest / 127);
        const double steps = scale > 0 ? rint(values[i] / scale) : 0;
        out[i] = !is_finite ? NAN : scale * fmax(fmin(steps, 127), -127);
    }
}

/* What is no number comes before infinities. */
static double magnitude(double value)
{
    const double size = fabs((double)(float)value);
    return isnan(value) ? INFINITY : isinf(size) ? 1e300 : size;
}

/* A value is kept when fewer than k others come before it. */
static void reference_topk(const double *values, size_t count, double share, double *out)
{
    const size_t kept = (size_t)ceil(share * (double)count);
    for (size_t i = 0; i < count; i++) {
        size_t before = 0;
        for (size_t k = 0; k < count; k++) {
            const double a = magnitude(values[k]), b = magnitude(values[i]);
            before += a > b || (a == b && k < i);
        }
        out[i] = before < kept ? (double)(float)values[i] : 0;
    }
}

static void reference(gy_codec codec, const double *values, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = codec.kind == GY_CODEC_BF16 ? reference_bf16(values[i]) : values[i];
    }
    if (codec.kind == GY_CODEC_INT8) {
        reference_int8(values, count, out);
    } else if (codec.kind == GY_CODEC_TOPK) {
        reference_topk(values, count, codec.share, out);
    }
}

/* ---- Values ---- */

/* Of any size, many of them equal; with some that are not finite. */
static double draw(gy_random *random, bool is_wild)
{
    const uint64_t kind = gy_random_below(random, 20);
    if (is_wild && kind == 0) {
        static const double odd[] = {NAN, INFINITY, -INFINITY};
        return odd[gy_random_below(random, 3)];
    }
    if (kind < 6) {
        return (double)gy_random_below(random, 5) - 2;
    }
    const double size = ldexp(1, (int)gy_random_below(random, 40) - 30);
    return (double)(float)(gy_random_normal(random) * size);
}

static bool is_same(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b;
}

static void compare(gy_codec codec, gy_dtype dtype, const double *values, size_t count)
{
    static uint8_t bytes[BYTES_MAX];
    static double wide[COUNT_MAX], expected[COUNT_MAX];
    static float narrow[COUNT_MAX];
    const size_t size = gy_codec_bytes(codec, dtype, count);
    char name[32];
    for (size_t i = 0; i < count; i++) {
        narrow[i] = (float)values[i];
        wide[i] = values[i];
    }
    void *data = dtype == GY_F32 ? (void *)narrow : (void *)wide;
    assert_true(size <= BYTES_MAX);
    gy_codec_encode(codec, dtype, data, count, bytes);
    memset(data, 0x55, count * gy_dtype_bytes(dtype));
    assert_ok(gy_codec_decode(codec, dtype, bytes, size, data, count));
    reference(codec, values, count, expected);
    gy_codec_print(codec, name, sizeof(name));
    for (size_t i = 0; i < count; i++) {
        const double got = dtype == GY_F32 ? (double)narrow[i] : wide[i];
        const double want = dtype == GY_F32 ? (double)(float)expected[i] : expected[i];
        if (!is_same(got, want)) {
            fail_msg("%s of %zu values: value %zu, %g, is %.9g, expected %.9g", name, count, i,
                     values[i], got, want);
        }
    }
}

GY_TEST(codes_are_those_of_the_references)
{
    gy_random random = {.key = gy_test_seed()};
    static double values[COUNT_MAX];
    for (long round = 0; round < gy_test_cases(40); round++) {
        static const size_t counts[] = {0, 1, 2, 255, 256, 257};
        const size_t count =
            round < 6 ? counts[round] : (size_t)gy_random_below(&random, COUNT_MAX + 1);
        for (size_t i = 0; i < count; i++) {
            values[i] = draw(&random, round % 3 == 0);
        }
        for (size_t c = 0; c < GY_COUNT(codecs); c++) {
            compare(codecs[c], GY_F32, values, count);
            compare(codecs[c], GY_F64, values, count);
        }
    }
}

/* Between numbers that bf16 has, the nearer one; in the middle the even one; what is above all
 * becomes an infinity. */
GY_TEST(bf16_rounds_to_nearest_even)
{
    const double values[] = {
        1, 1 + 1.0 / 256, 1 + 3.0 / 256, 1 + 1.1 / 256, -1 - 1.0 / 256, 3.4e38, 1e-40};
    const double rounded[] = {1,  1,        1 + 1.0 / 64,         1 + 1.0 / 128,
                              -1, INFINITY, reference_bf16(1e-40)};
    for (size_t i = 0; i < GY_COUNT(values); i++) {
        uint8_t bytes[2];
        float value = (float)values[i];
        gy_codec_encode(codecs[1], GY_F32, &value, 1, bytes);
        assert_ok(gy_codec_decode(codecs[1], GY_F32, bytes, 2, &value, 1));
        assert_true((double)value == rounded[i]);
    }
}

/* ---- Error feedback ---- */

/* What was decoded and what is left sum to what was given, as exactly as float64 adds. */
GY_TEST(feedback_loses_nothing)
{
    enum { COUNT = 700, ROUNDS = 60 };
    gy_random random = {.key = gy_test_seed()};
    for (size_t c = 0; c < GY_COUNT(codecs); c++) {
        static double given[COUNT], sent[COUNT], residual[COUNT], values[COUNT];
        static uint8_t bytes[16 * COUNT];
        memset(given, 0, sizeof(given));
        memset(sent, 0, sizeof(sent));
        memset(residual, 0, sizeof(residual));
        const size_t size = gy_codec_bytes(codecs[c], GY_F64, COUNT);
        for (int round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < COUNT; i++) {
                values[i] = gy_random_normal(&random);
                given[i] += values[i];
            }
            gy_codec_encode_fed(codecs[c], GY_F64, values, COUNT, residual, bytes);
            assert_ok(gy_codec_decode(codecs[c], GY_F64, bytes, size, values, COUNT));
            for (size_t i = 0; i < COUNT; i++) {
                sent[i] += values[i];
            }
        }
        for (size_t i = 0; i < COUNT; i++) {
            if (!(fabs(given[i] - sent[i] - residual[i]) < 1e-11)) {
                fail_msg("codec %zu: value %zu: %.17g given, %.17g sent, %.17g left", c, i,
                         given[i], sent[i], residual[i]);
            }
        }
    }
}

/* A value that is not finite is sent, and does not come again. */
GY_TEST(what_is_not_finite_leaves_nothing)
{
    for (size_t c = 0; c < GY_COUNT(codecs); c++) {
        float values[3] = {1, NAN, 2}, residual[3] = {0}, got[3];
        uint8_t bytes[64];
        const size_t size = gy_codec_bytes(codecs[c], GY_F32, 3);
        gy_codec_encode_fed(codecs[c], GY_F32, values, 3, residual, bytes);
        assert_ok(gy_codec_decode(codecs[c], GY_F32, bytes, size, got, 3));
        assert_true(isnan(got[1]));
        for (int i = 0; i < 3; i++) {
            assert_true(isfinite(residual[i]));
        }
    }
}

/* ---- What is no code ---- */

GY_TEST(what_is_no_code_is_refused)
{
    const gy_codec topk = {GY_CODEC_TOPK, 0.5};
    const uint32_t doubled[4] = {1, 1, 0, 0}, outside[4] = {0, 4, 0, 0};
    float values[4] = {7, 7, 7, 7};
    for (size_t c = 0; c < GY_COUNT(codecs); c++) {
        const uint8_t bytes[64] = {0};
        const size_t size = gy_codec_bytes(codecs[c], GY_F32, 4);
        assert_status(gy_codec_decode(codecs[c], GY_F32, bytes, size + 1, values, 4),
                      GY_FORMAT);
    }
    assert_status(gy_codec_decode(topk, GY_F32, doubled, sizeof(doubled), values, 4),
                  GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "index 1 is 1 of 4"));
    assert_status(gy_codec_decode(topk, GY_F32, outside, sizeof(outside), values, 4),
                  GY_FORMAT);
    assert_true(values[0] == 7);
}

GY_TEST(names_are_read_and_printed)
{
    static const char *const wrong[] = {"",       "bf",       "bf16:1", "topk",     "topk:",
                                        "topk:0", "topk:1.1", "topk:x", "topk:nan", "topk:-1"};
    for (size_t c = 0; c < GY_COUNT(codecs); c++) {
        char name[32];
        gy_codec read;
        gy_codec_print(codecs[c], name, sizeof(name));
        assert_ok(gy_codec_read(name, &read));
        assert_true(read.kind == codecs[c].kind && read.share == codecs[c].share);
    }
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        gy_codec read;
        assert_status(gy_codec_read(wrong[i], &read), GY_ARG);
        assert_non_null(strstr(gy_error_text(), "is no codec: expected none, bf16"));
    }
}

GY_TEST_MAIN(NULL, NULL)
