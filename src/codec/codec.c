/* Names, sizes and error feedback of codecs. */
#include "codec/codec_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gy_status gy_codec_check(gy_codec codec)
{
    if (codec.kind >= GY_CODEC_KINDS) {
        return gy_fail(GY_ARG, "codec %d: expected one of enum gy_codec_kind", (int)codec.kind);
    }
    if (gy_codec_kind_of(codec.kind)->has_share && !(codec.share > 0 && codec.share <= 1)) {
        return gy_fail(GY_ARG, "codec topk: the share is %g, expected above 0 and up to 1",
                       codec.share);
    }
    return GY_OK;
}

gy_status gy_codec_read(const char *text, gy_codec *codec)
{
    for (gy_codec_kind kind = GY_CODEC_NONE; kind < GY_CODEC_KINDS; kind++) {
        const codec_kind *row = gy_codec_kind_of(kind);
        const size_t size = strlen(row->name);
        if (strncmp(text, row->name, size) != 0 ||
            text[size] != (row->has_share ? ':' : '\0')) {
            continue;
        }
        gy_codec read = {.kind = kind};
        if (row->has_share) {
            char *end = NULL;
            const char *number = text + size + 1;
            read.share = strtod(number, &end);
            if (end == number || *end != '\0' ||
                strspn(number, "0123456789.eE-") != strlen(number) ||
                gy_codec_check(read) < 0) {
                break;
            }
        }
        *codec = read;
        return GY_OK;
    }
    return gy_fail(GY_ARG, "'%s' is no codec: expected none, bf16, int8 or topk:SHARE", text);
}

void gy_codec_print(gy_codec codec, char *out, size_t size_bytes)
{
    const codec_kind *row = gy_codec_kind_of(codec.kind);
    if (row->has_share) {
        snprintf(out, size_bytes, "%s:%g", row->name, codec.share);
    } else {
        snprintf(out, size_bytes, "%s", row->name);
    }
}

size_t gy_codec_bytes(gy_codec codec, gy_dtype dtype, size_t count)
{
    return gy_codec_kind_of(codec.kind)->bytes(codec, dtype, count);
}

void gy_codec_encode(gy_codec codec, gy_dtype dtype, const void *values, size_t count,
                     void *out)
{
    GY_ASSERT(dtype == GY_F32 || dtype == GY_F64);
    const codec_values from = {dtype, (void *)(uintptr_t)values, count};
    gy_codec_kind_of(codec.kind)->encode(codec, &from, out);
}

gy_status gy_codec_decode(gy_codec codec, gy_dtype dtype, const void *bytes, size_t size_bytes,
                          void *values, size_t count)
{
    GY_ASSERT(dtype == GY_F32 || dtype == GY_F64);
    const codec_values to = {dtype, values, count};
    const size_t expected = gy_codec_bytes(codec, dtype, count);
    if (size_bytes != expected) {
        char name[32];
        gy_codec_print(codec, name, sizeof(name));
        return gy_fail(GY_FORMAT, "%zu bytes of codec %s: expected %zu for %zu values",
                       size_bytes, name, expected, count);
    }
    return gy_codec_kind_of(codec.kind)->decode(codec, bytes, &to);
}

void gy_codec_encode_fed(gy_codec codec, gy_dtype dtype, const void *values, size_t count,
                         void *residual, void *out)
{
    GY_ASSERT(dtype == GY_F32 || dtype == GY_F64);
    const codec_values all = {dtype, residual, count};
    const codec_values given = {dtype, (void *)(uintptr_t)values, count};
    for (size_t i = 0; i < count; i++) {
        gy_codec_set(&all, i, gy_codec_get(&all, i) + gy_codec_get(&given, i));
    }
    gy_codec_kind_of(codec.kind)->encode(codec, &all, out);
    gy_codec_kind_of(codec.kind)->subtract(codec, out, &all);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(gy_codec_get(&all, i))) {
            gy_codec_set(&all, i, 0);
        }
    }
}
