/* Copies that bypass the cache. An ordinary store reads a line before it writes it. A streaming
 * store does not, which saves a third of the traffic of large vectors and costs two or three
 * times as much where the vector would have stayed in the cache. */
#include "coll/kernels.h"

#include "base/base.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

void gy_stream_copy(void *to, const void *from, size_t size_bytes)
{
    GY_CHECK_DEEP(to != from || size_bytes == 0);
#if defined(__SSE2__) && !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t head = (uintptr_t)(-(uintptr_t)out % GY_CACHE_LINE);
    if (size_bytes < 4UL * GY_CACHE_LINE) {
        memcpy(to, from, size_bytes);
        return;
    }
    memcpy(out, in, head);
    size_t end = head + (size_bytes - head) / GY_CACHE_LINE * GY_CACHE_LINE;
    for (size_t at = head; at < end; at += GY_CACHE_LINE) {
        for (size_t lane = 0; lane < GY_CACHE_LINE; lane += sizeof(__m128i)) {
            __m128i value = _mm_loadu_si128((const __m128i *)(const void *)(in + at + lane));
            _mm_stream_si128((__m128i *)(void *)(out + at + lane), value);
        }
    }
    memcpy(out + end, in + end, size_bytes - end);
#else
    memcpy(to, from, size_bytes);
#endif
}

void gy_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

void gy_stream_put(const gy_targets *targets, size_t at, const void *from, size_t size_bytes)
{
    GY_CHECK_DEEP(targets->count > 0 && targets->to != NULL);
    for (int i = 0; i < targets->count; i++) {
        uint8_t *to = targets->to[i] + at;
        if (to == from) {
            continue;
        }
        if (targets->is_streamed) {
            gy_stream_copy(to, from, size_bytes);
        } else {
            memcpy(to, from, size_bytes);
        }
    }
}

void gy_copy_into(const gy_targets *targets, const void *from, size_t size_bytes)
{
    GY_CHECK_DEEP(targets->count > 0);
    gy_stream_put(targets, 0, from, size_bytes);
}
