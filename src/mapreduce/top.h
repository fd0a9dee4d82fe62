/** The k largest counts of any number of keys, in little memory. */
#ifndef GY_MAPREDUCE_TOP_H
#define GY_MAPREDUCE_TOP_H

#include <gyre/base.h>

/** A heap of the k best rows so far, with the worst at its root. Not thread-safe. */
typedef struct gy_top gy_top;

/** A key with its count; the heap owns the key. */
typedef struct gy_top_row {
    const char *key;
    size_t key_bytes;
    int64_t count;
} gy_top_row;

/** Make a heap for `most` >= 0 rows. GY_NOMEM */
GY_MUST_CHECK gy_status gy_top_new(size_t most, gy_top **top);
/**
 * Offer a key, at most once each. Of equal counts the lower key is better, so the result does
 * not depend on the order of offers. A rejected key costs one comparison and no copy.
 *
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_top_add(gy_top *top, const char *key, size_t key_bytes,
                                   int64_t count);
/** Sort the rows; returns their number. Nothing may be added afterwards. */
size_t gy_top_end(gy_top *top);
/** Row `index` from the best, after the end. The key is borrowed from the heap. */
gy_top_row gy_top_get(const gy_top *top, size_t index);
/** Free a heap. NULL is fine. */
void gy_top_free(gy_top *top);

#endif
