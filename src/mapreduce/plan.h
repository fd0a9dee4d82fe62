/**
 * Which parts of which files a map takes: a pure function of the files' sizes, but for CSV,
 * whose rows are found.
 */
#ifndef GY_MAPREDUCE_PLAN_H
#define GY_MAPREDUCE_PLAN_H

#include "mapreduce/task.h"

typedef struct gy_split_file {
    /* UINT64_MAX: unknown, so the file cannot be split and is a task of its own */
    uint64_t size_bytes;
    bool can_part;
    bool is_remote; /* an object: a request takes as long as reading much of a local file */
} gy_split_file;

/** Task t has parts[starts[t]] up to parts[starts[t + 1]], exclusive. */
typedef struct gy_splits {
    gy_task_part *parts;
    size_t part_count, part_capacity;
    size_t *starts; /* (task_count + 1) */
    size_t task_count, start_capacity;
} gy_splits;

/**
 * Divide files into tasks of about split_bytes, in their order. Large files are cut into equal
 * parts. Small files share a task in groups of 2^n, which depends only on their number, so a
 * file whose size changes changes no other task. A small object counts as at least 1 MiB (less
 * with small splits), so that many objects are spread over several tasks.
 *
 * @param files (count) at least one
 * @param split_bytes > 0
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_splits_plan(const gy_split_file *files, size_t count,
                                       uint64_t split_bytes, gy_splits *splits);
void gy_splits_free(gy_splits *splits);

/**
 * Move parts of CSV files to where rows begin, also behind quoted line ends: one pass over each
 * file that has several parts, by all cores. A part may become empty.
 *
 * @param inputs  paths by the parts' numbers, of this machine where there are several
 * @return GY_OK; GY_FORMAT a quote that is not closed; GY_NOTFOUND, GY_IO, GY_STATE; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_splits_move_to_rows(gy_splits *splits, const char *const *inputs);

/** The default of split_bytes: half of a core's share, between 32 and 256 MiB. Pure. */
uint64_t gy_mapreduce_split_bytes(uint64_t total_bytes, int cores);

#endif
