/**
 * One field of each line of text, as awk's $n, found 64 bytes at a time.
 */
#ifndef GY_MAPREDUCE_FIELDS_H
#define GY_MAPREDUCE_FIELDS_H

#include "mapreduce/ways.h"

enum {
    GY_FIELDS_TEXT_BYTES = 64 << 10,            /* of one call at most */
    GY_FIELDS_EDGES = GY_FIELDS_TEXT_BYTES + 2, /* room for its edges */
};

/**
 * Where field `number` of each line begins and ends: edges[2 i] and edges[2 i + 1], offsets.
 * Fields are separated by any spaces, tabs and carriage returns; a line with fewer fields gives
 * none.
 *
 * @param text    whole lines; the last one may lack its '\n'
 * @param size    at most GY_FIELDS_TEXT_BYTES
 * @param number  from 1
 * @param edges   room for GY_FIELDS_EDGES
 * @param lines   how many lines there are
 * @return how many lines have one
 * @threads any
 * @cost about 8 ns a line of 100 bytes with AVX-512
 * @source Langdale, Lemire: "Parsing gigabytes of JSON per second", VLDB Journal 2019 (masks of
 * blocks); the n-th bit by a parallel deposit
 */
size_t gy_mapreduce_fields_find(const char *text, size_t size, unsigned number, uint32_t *edges,
                                size_t *lines);

/** The same by a way that is here: tests try all. */
size_t gy_mapreduce_fields_find_by(gy_way way, const char *text, size_t size, unsigned number,
                                   uint32_t *edges, size_t *lines);

#endif
