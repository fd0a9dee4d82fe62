/**
 * Which parts of which files a map takes: a pure function of the files' sizes.
 */
#ifndef GY_MAPREDUCE_PLAN_H
#define GY_MAPREDUCE_PLAN_H

#include "mapreduce/task.h"

typedef struct gy_split_file {
    uint64_t size_bytes; /* UINT64_MAX: not known, and it cannot be parted: a task of its own */
    bool can_part;
    bool is_remote; /* an object: asking for it takes as long as reading a lot of a file */
} gy_split_file;

/** Task t has parts[starts[t]] up to parts[starts[t + 1]]. */
typedef struct gy_splits {
    gy_task_part *parts;
    size_t part_count, part_capacity;
    size_t *starts; /* (task_count + 1) */
    size_t task_count, start_capacity;
} gy_splits;

/**
 * Cut files into tasks of about split_bytes, in their order. Large files are cut evenly. Small
 * ones share a task by their number alone, 2^n of them, so that one file that changes its size
 * changes no other task. A small object counts for 1 MiB at least (for less of small splits),
 * so that many of them are spread over tasks.
 *
 * @param files (count) at least one
 * @param split_bytes > 0
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_splits_plan(const gy_split_file *files, size_t count,
                                       uint64_t split_bytes, gy_splits *splits);
void gy_splits_free(gy_splits *splits);

/** The default of split_bytes: half of a core's share, within 32 and 256 MiB. Pure. */
uint64_t gy_mapreduce_split_bytes(uint64_t total_bytes, int cores);

#endif
