/**
 * Finds words and lines of text, 64 bytes at a time.
 *
 * A word is a maximal sequence of bytes other than space, tab, newline and carriage return,
 * like awk's default fields in the C locale, whatever ends lines. Every other byte belongs to a
 * word, also NUL.
 */
#ifndef GY_MAPREDUCE_WORDS_H
#define GY_MAPREDUCE_WORDS_H

#include "topo/ways.h"

enum {
    GY_WORDS_TEXT_BYTES = 64 << 10,             /* largest text of one call */
    GY_WORDS_EDGES = GY_WORDS_TEXT_BYTES + 128, /* size of its array of edges */
};

/** A byte that separates words. */
static inline bool gy_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/**
 * Find the words of a text: edges[2 i] and edges[2 i + 1] are the offsets of begin and end; a
 * word at the end of the text ends there.
 *
 * @param size at most GY_WORDS_TEXT_BYTES
 * @param edges room for GY_WORDS_EDGES
 * @return the number of words
 * @threads any
 * @cost about 3 ns for 64 bytes with AVX-512
 */
size_t gy_mapreduce_words_find(const char *text, size_t size, uint32_t *edges);

/** The same with one instruction set that this CPU supports; tests try all. */
size_t gy_mapreduce_words_find_by(gy_way way, const char *text, size_t size, uint32_t *edges);

#endif
