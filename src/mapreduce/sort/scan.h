/** What the passes over mapped records share: scanning a range, and gathering into a sink. */
#ifndef GY_MAPREDUCE_SORT_SCAN_H
#define GY_MAPREDUCE_SORT_SCAN_H

#include "mapreduce/sort/lists.h"

enum {
    GY_BLOCK_ENTRIES = 256,
    GY_FLAT_ENTRIES = 32768 /* 512 KiB: half of a core's L2 cache */
};

/** Takes entries of a range in the order of the input; prefix: the key's first word. The block
 * has room for GY_BLOCK_ENTRIES. */
typedef gy_status (*gy_sort_take)(void *arg, gy_entry *block, size_t count);

/** Pass every record of the range to `take`, in blocks. Returns the first failure of `take`. */
GY_MUST_CHECK gy_status gy_sort_scan(const gy_sort_records *records,
                                     const gy_sort_range_of *range, gy_sort_take take,
                                     void *arg);

/** Writes the records of entries. */
typedef struct gy_sort_gather {
    const gy_sort_records *records;
    const gy_sort_sink *sink;
    gy_range_report *report;
    gy_entry_chunks chunks;
    gy_entry *flat, *scratch; /* GY_FLAT_ENTRIES each */
} gy_sort_gather;

/** Write the records of entries in their order; each line ends with '\n'. */
GY_MUST_CHECK gy_status gy_sort_gather_entries(gy_sort_gather *gather, const gy_entry *entries,
                                               size_t count);

/**
 * Sort the list, write its records, and free its chunks (also after a failure).
 *
 * @param depth  number of bytes that all keys share; the prefixes are the words after them
 */
GY_MUST_CHECK gy_status gy_sort_gather_list(gy_sort_gather *gather, gy_entry_list *list,
                                            size_t depth);

#endif
