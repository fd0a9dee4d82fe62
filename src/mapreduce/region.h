/**
 * Regions: addresses of which the first become memory as they are needed, so that what lies
 * there grows without moving. Few bytes touch small pages, many huge ones.
 */
#ifndef GY_MAPREDUCE_REGION_H
#define GY_MAPREDUCE_REGION_H

#include <gyre/base.h>

typedef struct gy_region {
    char *at;        /* (reserved) addresses; NULL: none */
    size_t bytes;    /* are memory, from the first on: zeros at first */
    size_t reserved; /* of 4096 bytes each */
} gy_region;

enum { GY_REGION_PAGE = 4096, GY_REGION_HUGE_PAGE = 2 << 20 };

/**
 * Addresses for up to `most` bytes; of what a limit of the process refuses half, and so on down
 * to `least`. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_region_reserve(gy_region *region, size_t most, size_t least);
void gy_region_release(gy_region *region);
/** Memory up to `bytes`, at most what is reserved. GY_NOMEM: unchanged */
GY_MUST_CHECK gy_status gy_region_grow(gy_region *region, size_t bytes);
/** Give back what lies behind the pages of the first `bytes`. */
void gy_region_trim(gy_region *region, size_t bytes);

#endif
