/**
 * Codecs: gradients in fewer bytes than their numbers have. What a codec loses, error feedback
 * adds to the next gradient, so that nothing is lost for good.
 *
 * @source lecture C, "Gradient Compression"
 */
#ifndef GYRE_CODEC_H
#define GYRE_CODEC_H

#include <gyre/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gy_codec_kind {
    GY_CODEC_NONE, /* as they are */
    GY_CODEC_BF16, /* the upper 16 bits of a float32, rounded to nearest even */
    GY_CODEC_INT8, /* blocks of 256 values: a float32 scale, and 8 bits a value */
    GY_CODEC_TOPK, /* a share of the values, those of the largest magnitude; the rest are 0 */
    GY_CODEC_KINDS
} gy_codec_kind;

/** Zero: none. */
typedef struct gy_codec {
    gy_codec_kind kind;
    double share; /* of GY_CODEC_TOPK, in (0, 1] */
} gy_codec;

/**
 * Read "none", "bf16", "int8" or "topk:0.01".
 * @return GY_OK; GY_ARG the text is none of them
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_codec_read(const char *text, gy_codec *codec);
/** "topk:0.01"; `out` (size_bytes >= 32). @threads any */
GY_API void gy_codec_print(gy_codec codec, char *out, size_t size_bytes);
/** Bytes of `count` encoded values of a type. @threads any */
GY_API size_t gy_codec_bytes(gy_codec codec, gy_dtype dtype, size_t count);

#ifdef __cplusplus
}
#endif
#endif
