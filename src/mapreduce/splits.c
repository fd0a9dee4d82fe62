/* Moves splits of CSV files to where rows begin. */
#include "mapreduce/plan.h"

#include "base/base.h"
#include "frame/csv/records.h"

enum { CUT_BYTES_MIN = 64, CUT_BYTES_MAX = 1 << 20 };

/* The largest power of two that is not over the parts' size. */
static size_t cut_bytes_of(uint64_t part_bytes)
{
    size_t cut = CUT_BYTES_MIN;
    while (cut < CUT_BYTES_MAX && cut * 2 <= part_bytes) {
        cut *= 2;
    }
    return cut;
}

/* Move the parts [first, first + count) of one file. */
static gy_status move_parts(gy_task_part *parts, size_t count, const char *path,
                            gy_engine *engine)
{
    uint64_t *begins = gy_alloc("mapreduce.splits", count * sizeof(*begins));
    if (begins == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        begins[i] = parts[i].begin;
    }
    const gy_status status =
        gy_csv_records_begins(path, cut_bytes_of(parts[0].end), engine, begins, count);
    for (size_t i = 1; i < count && status == GY_OK; i++) {
        GY_ASSERT(begins[i] >= begins[i - 1]);
        parts[i].begin = begins[i];
        parts[i - 1].end = begins[i];
    }
    gy_free(begins);
    return status;
}

gy_status gy_splits_move_to_rows(gy_splits *splits, const char *const *inputs)
{
    gy_engine *engine = NULL;
    gy_status status = GY_OK;
    size_t end = 0;
    for (size_t first = 0; first < splits->part_count && status == GY_OK; first = end) {
        const uint64_t number = splits->parts[first].number;
        end = first + 1;
        while (end < splits->part_count && splits->parts[end].number == number) {
            end++;
        }
        if (end - first > 1 && engine == NULL) {
            status = gy_engine_new(NULL, &engine);
        }
        if (end - first > 1 && status == GY_OK) {
            status = move_parts(splits->parts + first, end - first, inputs[number], engine);
        }
    }
    gy_engine_free(engine);
    return status;
}
