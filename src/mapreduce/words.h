/**
 * Words and lines of text, found 64 bytes at a time.
 *
 * A word is a maximal run of bytes other than blank, tab, newline and carriage return: what
 * awk's default fields are in the C locale, whatever ends lines. Every other byte belongs to a
 * word, also NUL.
 */
#ifndef GY_MAPREDUCE_WORDS_H
#define GY_MAPREDUCE_WORDS_H

#include "mapreduce/ways.h"

enum {
    GY_WORDS_TEXT_BYTES = 64 << 10,             /* of one call at most */
    GY_WORDS_EDGES = GY_WORDS_TEXT_BYTES + 128, /* room for its edges */
};

/** A byte that parts words. */
static inline bool gy_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/**
 * Where the words of a text begin and end: edges[2 i] and edges[2 i + 1], offsets; a word at
 * the end of the text ends there.
 *
 * @param size at most GY_WORDS_TEXT_BYTES
 * @param edges room for GY_WORDS_EDGES
 * @return how many words
 * @threads any
 * @cost about 3 ns for 64 bytes with AVX-512
 */
size_t gy_mapreduce_words_find(const char *text, size_t size, uint32_t *edges);

/** The same by a way that is here: tests try all. */
size_t gy_mapreduce_words_find_by(gy_way way, const char *text, size_t size, uint32_t *edges);

#endif
