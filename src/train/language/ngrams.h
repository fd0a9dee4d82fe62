/**
 * Hashed character 3-grams: a line of text as a vector of fixed width.
 */
#ifndef GY_TRAIN_NGRAMS_H
#define GY_TRAIN_NGRAMS_H

#include <gyre/base.h>

enum {
    GY_NGRAM_WIDTH = 8192,    /* of the language job; any power of two up to 65,536 works */
    GY_NGRAM_LINE_BYTES = 160 /* of a line, the rest is cut off */
};

/**
 * Write the features of one line into `row` (width): 1 / sqrt(k) at each of the k buckets that
 * a 3-gram of the line hashes to, 0 elsewhere, so that every line but the empty one has norm 1.
 * The line counts as framed by one byte 2 before and one byte 3 after.
 *
 * @param width a power of two in [2, 65536] (asserted)
 * @threads any
 * @source Weinberger et al., "Feature hashing for large scale multitask learning", ICML 2009
 */
void gy_train_ngrams_row(const char *text, size_t size_bytes, int width, float *row);

/** The bucket of one 3-gram in [0, width). */
static inline uint32_t gy_ngram_bucket(unsigned char a, unsigned char b, unsigned char c,
                                       int width)
{
    uint32_t gram = ((uint32_t)a << 16) | ((uint32_t)b << 8) | c;
    return ((gram * 0x9E3779B1u) >> 16) & ((uint32_t)width - 1);
}

#endif
