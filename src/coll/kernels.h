/**
 * The inner loops: combine and copy.
 */
#ifndef GY_COLL_KERNELS_H
#define GY_COLL_KERNELS_H

#include <gyre/base.h>
#include <gyre/coll.h>

/** to = a op b over `count` elements; `to` may be a or b, or apart from both. */
typedef void (*gy_combine)(void *to, const void *a, const void *b, size_t count);

/**
 * The loop of a type and a reduction. Integers wrap; f16 and bf16 are combined in float32 and
 * rounded to nearest even; min and max of floating types give b where neither is smaller.
 * @threads any
 */
gy_combine gy_combine_of(gy_dtype dtype, gy_reduction reduction);

/** "sum"; static. */
const char *gy_reduction_name(gy_reduction reduction);

/** Ask for a cache line that will be written: it may lie in another core's cache. */
static inline void gy_fetch_to_write(const void *line)
{
#if defined(__x86_64__)
    /* What the builtin becomes without -mprfchw only asks for a copy to read. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1, 3);
#endif
}

/** Copy past the cache; the copy is visible to others after the next gy_stream_end of this
 * thread. */
void gy_stream_copy(void *to, const void *from, size_t size_bytes);
void gy_stream_end(void);

/** Where results go: to[0], ..., each past the cache if `is_streamed`. */
typedef struct gy_targets {
    uint8_t *const *to;
    int count;
    bool is_streamed;
} gy_targets;

/** All targets = a op b, a tile that fits the first cache at a time. */
void gy_combine_into(const gy_targets *targets, gy_combine combine, const void *a,
                     const void *b, size_t count, size_t element_bytes);
/** All targets = from. */
void gy_copy_into(const gy_targets *targets, const void *from, size_t size_bytes);

#endif
