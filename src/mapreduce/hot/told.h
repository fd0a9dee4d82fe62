/** The encoding of a map's report of heavy keys: a head, then for each key a row and its
 * bytes. */
#ifndef GY_MAPREDUCE_HOT_TOLD_H
#define GY_MAPREDUCE_HOT_TOLD_H

#include <stdint.h>

#define GY_TOLD_MAGIC 0x79766168u

typedef struct gy_told_head {
    uint32_t magic, count;
} gy_told_head;

typedef struct gy_told_row {
    uint64_t bytes;
    uint32_t partition, key_size;
} gy_told_row;

#endif
