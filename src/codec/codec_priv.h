/** Inside codecs: one row for each kind. */
#ifndef GY_CODEC_CODEC_PRIV_H
#define GY_CODEC_CODEC_PRIV_H

#include "codec/codec.h"

enum { CODEC_BLOCK = 256 /* values with one scale */ };

/** Values of either type, read and written as float64. */
typedef struct codec_values {
    gy_dtype dtype;
    void *data;
    size_t count;
} codec_values;

static inline double gy_codec_get(const codec_values *values, size_t i)
{
    return values->dtype == GY_F32 ? (double)((const float *)values->data)[i]
                                   : ((const double *)values->data)[i];
}

static inline void gy_codec_set(const codec_values *values, size_t i, double value)
{
    if (values->dtype == GY_F32) {
        ((float *)values->data)[i] = (float)value;
    } else {
        ((double *)values->data)[i] = value;
    }
}

typedef struct codec_kind {
    const char *name;
    bool has_share;
    size_t (*bytes)(gy_codec codec, gy_dtype dtype, size_t count);
    void (*encode)(gy_codec codec, const codec_values *values, uint8_t *out);
    /* of bytes of the right size; GY_FORMAT */
    gy_status (*decode)(gy_codec codec, const uint8_t *bytes, const codec_values *values);
    /* residual -= what was encoded of it */
    void (*subtract)(gy_codec codec, const uint8_t *bytes, const codec_values *residual);
} codec_kind;

/** Of a kind that there is. */
const codec_kind *gy_codec_kind_of(gy_codec_kind kind);

#endif
