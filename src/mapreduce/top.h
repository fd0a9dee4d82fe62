/**
 * The k largest counts of any number of keys, in little memory.
 */
#ifndef GY_MAPREDUCE_TOP_H
#define GY_MAPREDUCE_TOP_H

#include <gyre/base.h>

/** A heap of the k best so far, the worst at its root. Not thread-safe. */
typedef struct gy_top gy_top;

/** A key with its count; the key is the top's. */
typedef struct gy_top_row {
    const char *key;
    size_t key_bytes;
    int64_t count;
} gy_top_row;

/** GY_NOMEM. `most` >= 0 rows are kept. */
GY_MUST_CHECK gy_status gy_top_new(size_t most, gy_top **top);
/**
 * Offer a key, once each: of equal counts the lower key is better, so that what is kept does
 * not depend on the order of offers. A key that is not kept costs one comparison and no copy.
 *
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_top_add(gy_top *top, const char *key, size_t key_bytes,
                                   int64_t count);
/** Put what is kept in order; how many rows that is. Nothing may be added afterwards. */
size_t gy_top_end(gy_top *top);
/** Row `index` from the best, after the end. Its key is borrowed from the top. */
gy_top_row gy_top_get(const gy_top *top, size_t index);
/** NULL is fine. */
void gy_top_free(gy_top *top);

#endif
