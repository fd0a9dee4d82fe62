/**
 * Values as bytes and back: pure functions. Bytes are little-endian, as all hosts of Gyre are.
 *
 * Reading order: codec.c names, sizes and error feedback · kinds.c each codec.
 */
#ifndef GY_CODEC_CODEC_H
#define GY_CODEC_CODEC_H

#include "base/base.h"

#include <gyre/codec.h>

/** GY_ARG a kind that there is not, or a share outside (0, 1]. @threads any */
GY_MUST_CHECK gy_status gy_codec_check(gy_codec codec);

/**
 * Encode values.
 * @param dtype   GY_F32 or GY_F64
 * @param values  (count)
 * @param out     (gy_codec_bytes) any alignment
 * @threads any
 * @cost bf16 and int8 one or two passes, top-k four
 */
void gy_codec_encode(gy_codec codec, gy_dtype dtype, const void *values, size_t count,
                     void *out);
/**
 * Decode what was encoded.
 * @param values  (count) written whole, unless it fails
 * @return GY_OK; GY_FORMAT it is not what gy_codec_encode makes: says what was expected
 * @threads any
 */
GY_MUST_CHECK gy_status gy_codec_decode(gy_codec codec, gy_dtype dtype, const void *bytes,
                                        size_t size_bytes, void *values, size_t count);
/**
 * Encode values and what was lost before: residual += values, encode that, and keep what the
 * code lost of it. Over any number of calls, what was decoded and the residual sum to what was
 * given. A value that is not finite leaves no residual.
 * @param residual  (count) zero at first
 */
void gy_codec_encode_fed(gy_codec codec, gy_dtype dtype, const void *values, size_t count,
                         void *residual, void *out);

#endif
