/** Finds one field of each line of text, as awk's $n, 64 bytes at a time. */
#ifndef GY_MAPREDUCE_FIELDS_H
#define GY_MAPREDUCE_FIELDS_H

#include "topo/ways.h"

enum {
    GY_FIELDS_TEXT_BYTES = 64 << 10,            /* largest text of one call */
    GY_FIELDS_EDGES = GY_FIELDS_TEXT_BYTES + 2, /* size of its array of edges */
};

/**
 * Find field `number` of each line: edges[2 i] and edges[2 i + 1] are the offsets of its begin
 * and end. Spaces, tabs and carriage returns separate fields; a line with fewer fields gives
 * no edges.
 *
 * @param text    whole lines; the last one may lack its '\n'
 * @param size    at most GY_FIELDS_TEXT_BYTES
 * @param number  from 1
 * @param edges   room for GY_FIELDS_EDGES
 * @param lines   becomes the number of lines
 * @return the number of lines that have the field
 * @threads any
 * @cost about 8 ns a line of 100 bytes with AVX-512
 * @source Langdale, Lemire: "Parsing gigabytes of JSON per second", VLDB Journal 2019 (bit
 *     masks of blocks); the n-th set bit by a parallel deposit
 */
size_t gy_mapreduce_fields_find(const char *text, size_t size, unsigned number, uint32_t *edges,
                                size_t *lines);

/** The same with one instruction set that this CPU supports; tests try all. */
size_t gy_mapreduce_fields_find_by(gy_way way, const char *text, size_t size, unsigned number,
                                   uint32_t *edges, size_t *lines);

#endif
