/* Goal: a parameter is read as it was written, and one that is not whole is refused, whatever
 * sizes it tells. */
#include "mapreduce/task.h"

#include "base/base.h"

#include <string.h>

#include "gy_test.h"

/* Where the sizes stand in the head, as task.c lays it. */
enum { PARAMETER_BYTES_AT = 24, HOT_BYTES_AT = 40, TEXT_BYTES_AT = 48, MOST = 512 };

static const gy_task_part parts[] = {{0, 10, 0}, {5, 9, 1}};
static const char *const paths[] = {"a", "bc"};

/* A parameter with two parts, into words that are aligned; its size. */
static size_t write_one(uint64_t out[MOST / 8], const char *combine, const char *partition,
                        size_t part_count)
{
    const gy_task_options options = {.phase = GY_PHASE_MAP,
                                     .partitions = 3,
                                     .combine = combine,
                                     .partition = partition,
                                     .parameter = "user",
                                     .parameter_bytes = 4,
                                     .hot = "hot",
                                     .hot_bytes = 3};
    gy_text text = {0};
    gy_mapreduce_task_write(&text, &options, parts, paths, part_count);
    assert_ok(text.status);
    const size_t size_bytes = text.size_bytes;
    assert_true(size_bytes <= MOST);
    memcpy(out, text.data, size_bytes);
    gy_text_free(&text);
    return size_bytes;
}

GY_TEST(a_parameter_is_read_as_written)
{
    uint64_t data[MOST / 8];
    gy_task_stage stage;
    const size_t size_bytes = write_one(data, "sum", "range", 2);
    assert_ok(gy_mapreduce_task_read(data, size_bytes, &stage));
    assert_int_equal(stage.part_count, 2);
    assert_memory_equal(stage.parts, parts, sizeof(parts));
    assert_string_equal(stage.options.combine, "sum");
    assert_string_equal(stage.options.partition, "range");
    assert_memory_equal(stage.options.parameter, "user", 4);
    assert_memory_equal(stage.options.hot, "hot", 3);
    assert_memory_equal(stage.paths, "a\0bc", 5);
    for (size_t cut = 0; cut < size_bytes; cut++) {
        assert_status(gy_mapreduce_task_read(data, cut, &stage), GY_FORMAT);
    }
}

/* Two sizes whose sum is right, and is so only because it does not fit. */
GY_TEST(sizes_that_wrap_are_refused)
{
    static const size_t at[] = {PARAMETER_BYTES_AT, HOT_BYTES_AT, TEXT_BYTES_AT};
    uint64_t data[MOST / 8];
    gy_task_stage stage;
    const size_t size_bytes = write_one(data, "sum", NULL, 2);
    for (size_t i = 0; i < GY_COUNT(at); i++) {
        for (size_t j = 0; j < GY_COUNT(at); j++) {
            uint64_t *more = &data[at[i] / 8], *less = &data[at[j] / 8];
            const uint64_t before[] = {*more, *less};
            if (i != j) {
                *more += (uint64_t)1 << 63;
                *less -= (uint64_t)1 << 63;
                assert_status(gy_mapreduce_task_read(data, size_bytes, &stage), GY_FORMAT);
                *more = before[0];
                *less = before[1];
            }
        }
    }
    assert_ok(gy_mapreduce_task_read(data, size_bytes, &stage));
}

GY_TEST(names_without_an_end_are_refused)
{
    uint64_t data[MOST / 8];
    gy_task_stage stage;
    size_t size_bytes = write_one(data, "sum", NULL, 0);
    ((char *)data)[size_bytes - 1] = 'x';
    assert_status(gy_mapreduce_task_read(data, size_bytes, &stage), GY_FORMAT);
    size_bytes = write_one(data, NULL, "range", 0);
    ((char *)data)[size_bytes - 1] = 'x';
    assert_status(gy_mapreduce_task_read(data, size_bytes, &stage), GY_FORMAT);
    size_bytes = write_one(data, NULL, NULL, 2);
    ((char *)data)[size_bytes - 1] = 'x';
    assert_status(gy_mapreduce_task_read(data, size_bytes, &stage), GY_FORMAT);
}

GY_TEST_MAIN(NULL, NULL)
