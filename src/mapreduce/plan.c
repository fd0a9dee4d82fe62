/* Plans the splits of input files. */
#include "mapreduce/plan.h"

#include "base/base.h"

enum {
    FILES_MOST = 4096,
    LEAST = 32 << 20,
    MOST = 256 << 20,
    ROUNDS = 2,
    OBJECT_BYTES = 1 << 20,
    OBJECTS = 32
};

uint64_t gy_mapreduce_split_bytes(uint64_t total_bytes, int cores)
{
    const uint64_t share = total_bytes / ((uint64_t)cores * ROUNDS);
    return GY_MIN(GY_MAX(share, (uint64_t)LEAST), (uint64_t)MOST);
}

static gy_status add_part(gy_splits *splits, uint64_t begin, uint64_t end, size_t number)
{
    GY_TRY(GY_GROW("mapreduce.splits", splits->parts, splits->part_capacity,
                   splits->part_count + 1));
    splits->parts[splits->part_count++] =
        (gy_task_part){.begin = begin, .end = end, .number = number};
    return GY_OK;
}

/* Make one task of what was added since the last task. */
static gy_status end_task(gy_splits *splits)
{
    if (splits->starts[splits->task_count] == splits->part_count) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("mapreduce.splits", splits->starts, splits->start_capacity,
                   splits->task_count + 2));
    splits->starts[++splits->task_count] = splits->part_count;
    return GY_OK;
}

/* How many small files share a task: a power of two, which rarely changes when a file's size
 * changes, so that memoised results stay valid. */
static size_t files_together(const gy_split_file *files, size_t count, uint64_t split_bytes)
{
    const uint64_t least = GY_MIN((uint64_t)OBJECT_BYTES, split_bytes / OBJECTS);
    uint64_t small_bytes = 0, small = 0;
    for (size_t i = 0; i < count; i++) {
        if (files[i].size_bytes <= split_bytes) {
            small_bytes +=
                files[i].is_remote ? GY_MAX(files[i].size_bytes, least) : files[i].size_bytes;
            small++;
        }
    }
    size_t together = 1;
    while (together < FILES_MOST && small_bytes * together * 2 <= split_bytes * small) {
        together *= 2;
    }
    return together;
}

static gy_status cut_file(gy_splits *splits, const gy_split_file *file, size_t number,
                          uint64_t split_bytes)
{
    uint64_t pieces = file->can_part ? (file->size_bytes + split_bytes - 1) / split_bytes : 1;
    pieces = GY_MAX(pieces, (uint64_t)1);
    for (uint64_t i = 0; i < pieces; i++) {
        const uint64_t begin = file->size_bytes / pieces * i,
                       end = i + 1 < pieces ? file->size_bytes / pieces * (i + 1) : UINT64_MAX;
        GY_TRY(add_part(splits, begin, end, number));
        GY_TRY(end_task(splits));
    }
    return GY_OK;
}

static gy_status plan(const gy_split_file *files, size_t count, uint64_t split_bytes,
                      gy_splits *splits)
{
    const size_t together = files_together(files, count, split_bytes);
    GY_TRY(GY_GROW("mapreduce.splits", splits->starts, splits->start_capacity, 1));
    splits->starts[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_small = files[i].size_bytes <= split_bytes;
        if (!is_small || i % together == 0) {
            GY_TRY(end_task(splits));
        }
        GY_TRY(is_small ? add_part(splits, 0, UINT64_MAX, i)
                        : cut_file(splits, &files[i], i, split_bytes));
    }
    return end_task(splits);
}

gy_status gy_splits_plan(const gy_split_file *files, size_t count, uint64_t split_bytes,
                         gy_splits *splits)
{
    GY_ASSERT(count > 0 && split_bytes > 0);
    *splits = (gy_splits){0};
    gy_status status = plan(files, count, split_bytes, splits);
    if (status < 0) {
        gy_splits_free(splits);
    }
    return status;
}

void gy_splits_free(gy_splits *splits)
{
    gy_free(splits->parts);
    gy_free(splits->starts);
    *splits = (gy_splits){0};
}
