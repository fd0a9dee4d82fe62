/** The bytes in which a map tells its heavy keys: a head, then for each a row and the key. */
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
