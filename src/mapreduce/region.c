/* Reserves address ranges and commits memory in them. */
#include "mapreduce/region.h"

#include "base/base.h"

#include <sys/mman.h>

gy_status gy_region_reserve(gy_region *region, size_t most, size_t least)
{
    const size_t wanted = most;
    char *space = MAP_FAILED;
    size_t size = 0;
    for (; space == MAP_FAILED && most >= least; most /= 2) {
        size = gy_round_up(most, GY_REGION_PAGE);
        space = mmap(NULL, size + GY_REGION_HUGE_PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (space == MAP_FAILED) {
        return gy_fail(GY_NOMEM, "out of memory: no %zu bytes of addresses", wanted);
    }
    const size_t before = gy_round_up((uintptr_t)space, GY_REGION_HUGE_PAGE) - (uintptr_t)space;
    if (before > 0) {
        (void)munmap(space, before);
    }
    (void)munmap(space + before + size, GY_REGION_HUGE_PAGE - before);
    *region = (gy_region){.at = space + before, .reserved = size};
    if (size > GY_REGION_HUGE_PAGE) {
        (void)madvise(region->at + GY_REGION_HUGE_PAGE, size - GY_REGION_HUGE_PAGE,
                      MADV_HUGEPAGE); /* a failure only costs speed */
    }
    return GY_OK;
}

void gy_region_release(gy_region *region)
{
    if (region->at != NULL) {
        (void)munmap(region->at, region->reserved);
    }
    *region = (gy_region){NULL, 0, 0};
}

gy_status gy_region_grow(gy_region *region, size_t bytes)
{
    GY_ASSERT(bytes <= region->reserved);
    const size_t wanted = gy_round_up(bytes, GY_REGION_PAGE);
    if (wanted <= region->bytes) {
        return GY_OK;
    }
    if (mprotect(region->at + region->bytes, wanted - region->bytes, PROT_READ | PROT_WRITE) !=
        0) {
        return gy_fail(GY_NOMEM, "out of memory: no %zu bytes for a table", wanted);
    }
    region->bytes = wanted;
    return GY_OK;
}

void gy_region_trim(gy_region *region, size_t bytes)
{
    const size_t kept = gy_round_up(bytes, GY_REGION_PAGE);
    if (kept < region->bytes &&
        madvise(region->at + kept, region->bytes - kept, MADV_DONTNEED) == 0 &&
        mprotect(region->at + kept, region->bytes - kept, PROT_NONE) == 0) {
        region->bytes = kept;
    }
}
