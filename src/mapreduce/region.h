/**
 * Regions: reserved address ranges whose beginning is committed as needed, so that data there
 * grow without moving. Small regions use small pages, large ones huge pages.
 */
#ifndef GY_MAPREDUCE_REGION_H
#define GY_MAPREDUCE_REGION_H

#include <gyre/base.h>

typedef struct gy_region {
    char *at;        /* (reserved) start address; NULL: none */
    size_t bytes;    /* committed bytes from the start, zeros at first */
    size_t reserved; /* reserved pages of 4096 bytes */
} gy_region;

enum { GY_REGION_PAGE = 4096, GY_REGION_HUGE_PAGE = 2 << 20 };

/**
 * Reserve addresses for up to `most` bytes; when the process's limit refuses it, half as much,
 * and so on down to `least`. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_region_reserve(gy_region *region, size_t most, size_t least);
void gy_region_release(gy_region *region);
/** Commit memory up to `bytes`, at most what is reserved. GY_NOMEM: unchanged */
GY_MUST_CHECK gy_status gy_region_grow(gy_region *region, size_t bytes);
/** Release the memory after the pages of the first `bytes`. */
void gy_region_trim(gy_region *region, size_t bytes);

#endif
