/* Goal: what is added comes back as a plain stable sort orders it, whatever the budget; a disk
 * that fails is an error and leaves nothing. */
#include "mapreduce/sort/records_test.h"

#include "store/files_test.h"

#include "gy_test.h"

static char folder[TEST_PATH_BYTES];

static gy_status sort_records(gy_env *env, const test_records *records, size_t memory_bytes,
                              const gy_sort_item *expected, gy_sorter_report *report)
{
    gy_sorter *sorter = NULL;
    const gy_sorter_options options = {memory_bytes, folder, records->key, records->has_values};
    GY_TRY(gy_sorter_new(env, &options, &sorter));
    gy_status status = GY_OK;
    for (size_t i = 0; status == GY_OK && i < records->count; i += 7) {
        status = gy_sorter_add(sorter, records->items + i, GY_MIN(7, records->count - i));
    }
    if (status == GY_OK) {
        status = gy_sorter_end(sorter);
    }
    size_t count = 0;
    for (bool has = true; status == GY_OK && has;) {
        gy_sort_item item;
        status = gy_sorter_next(sorter, &item, &has);
        if (status == GY_OK && has) {
            assert_true(count < records->count);
            assert_true(test_is_same(&item, &expected[count++]));
        }
    }
    if (status == GY_OK) {
        assert_int_equal(count, records->count);
    }
    gy_sorter_report_get(sorter, report);
    gy_sorter_free(sorter);
    return status;
}

/* Sort `shape` under `memory_bytes` and compare. */
static void check(gy_random *random, const test_shape *shape, size_t memory_bytes,
                  gy_sorter_report *report)
{
    test_records records = records_make(random, shape);
    test_records expected = records;
    expected.items = gy_alloc("test", (records.count + 1) * sizeof(gy_sort_item));
    assert_non_null(expected.items);
    memcpy(expected.items, records.items, records.count * sizeof(gy_sort_item));
    records_sort(&expected);
    assert_int_equal(
        sort_records(gy_env_real(), &records, memory_bytes, expected.items, report), GY_OK);
    assert_int_equal(test_entry_count(folder), 0);
    gy_free(expected.items);
    records_free(&records);
}

GY_TEST(records_come_back_in_order)
{
    gy_random random = {gy_test_seed(), 0};
    static const size_t counts[] = {0, 1, 2, 3, 97, 997, 3001};
    for (long round = 0; round < gy_test_cases(40); round++) {
        const test_shape shape = {.count = counts[gy_random_below(&random, GY_COUNT(counts))],
                                  .key_most = gy_random_below(&random, 30),
                                  .value_most = gy_random_below(&random, 20),
                                  .alphabet = round % 2 == 0 ? 256 : 2,
                                  .heavy = round % 5 == 0   ? 30
                                           : round % 7 == 0 ? 100
                                                            : 0,
                                  .has_values = round % 3 == 0,
                                  .key = (gy_key_kind)(round % 4 == 3 ? round / 4 % 3 : 0)};
        gy_sorter_report report;
        check(&random, &shape, round % 2 == 0 ? GY_SORTER_MEMORY_BYTES_MIN : 1 << 20, &report);
        assert_int_equal(report.records, shape.count);
    }
}

/* 52 KiB of memory and 8 runs a level: merges of merges. */
GY_TEST(tiny_budgets_merge_many_times)
{
    gy_random random = {gy_test_seed(), 1};
    const test_shape shape = {.count = 60000,
                              .key_most = 12,
                              .value_most = 30,
                              .alphabet = 5,
                              .heavy = 30,
                              .has_values = false};
    gy_sorter_report report;
    check(&random, &shape, GY_SORTER_MEMORY_BYTES_MIN, &report);
    assert_true(report.merges >= 9);
    assert_true(report.run_bytes > 2 * report.bytes);
    const test_shape secondary = {
        .count = 20000, .key_most = 2, .value_most = 9, .alphabet = 3, .has_values = true};
    check(&random, &secondary, GY_SORTER_MEMORY_BYTES_MIN, &report);
    assert_true(report.runs > 2);
}

/* Each call to the disk fails once, each allocation fails once. */
GY_TEST(failures_leave_nothing)
{
    gy_random random = {gy_test_seed(), 2};
    const test_shape shape = {.count = 9000, .key_most = 9, .value_most = 40, .alphabet = 7};
    test_records records = records_make(&random, &shape);
    test_records expected = records;
    expected.items = gy_alloc("test", records.count * sizeof(gy_sort_item));
    assert_non_null(expected.items);
    memcpy(expected.items, records.items, records.count * sizeof(gy_sort_item));
    records_sort(&expected);
    gy_sorter_report report;
    int failures = 0, successes = 0;
    test_disk_state = (test_disk){0};
    assert_int_equal(
        sort_records(test_env(), &records, GY_SORTER_MEMORY_BYTES_MIN, expected.items, &report),
        GY_OK);
    const int calls = test_disk_state.calls;
    assert_true(report.merges > 0);
    const int step = (int)GY_MAX(1, calls / gy_test_cases(150));
    for (int call = 1; call <= calls; call += call < 40 ? 1 : step) {
        test_disk_state = (test_disk){.countdown = call, .error = -ENOSPC};
        const gy_status status = sort_records(test_env(), &records, GY_SORTER_MEMORY_BYTES_MIN,
                                              expected.items, &report);
        failures += status == GY_IO;
        successes += status == GY_OK; /* the close of a descriptor that only read */
        assert_true(status == GY_OK || status == GY_IO);
        assert_true(status == GY_OK || strstr(gy_error_text(), folder) != NULL);
        assert_int_equal(test_disk_state.open_files, 0);
    }
    assert_true(failures > 20 && failures > successes);
    assert_int_equal(test_entry_count(folder), 0);
    const int64_t live = gy_alloc_live();
    for (int64_t n = 1; n < 60; n++) {
        gy_alloc_fail_after(n);
        const gy_status status = sort_records(
            gy_env_real(), &records, GY_SORTER_MEMORY_BYTES_MIN, expected.items, &report);
        gy_alloc_fail_after(0);
        assert_true(status == GY_NOMEM || status == GY_OK);
        assert_int_equal(gy_alloc_live(), live);
    }
    gy_free(expected.items);
    records_free(&records);
}

GY_TEST(what_cannot_be_sorted_is_refused)
{
    gy_sorter *sorter = NULL;
    const gy_sorter_options small = {1000, folder, GY_KEY_BYTES, false};
    assert_int_equal(gy_sorter_new(gy_env_real(), &small, &sorter), GY_ARG);
    const gy_sorter_options typed = {GY_SORTER_MEMORY_BYTES_MIN, folder, GY_KEY_INT64, false};
    assert_int_equal(gy_sorter_new(gy_env_real(), &typed, &sorter), GY_OK);
    assert_int_equal(gy_sorter_add(sorter, &(gy_sort_item){.key = "abc", .key_bytes = 3}, 1),
                     GY_ARG);
    gy_sorter_free(sorter);
    const gy_sorter_options nowhere = {GY_SORTER_MEMORY_BYTES_MIN, "/nonexistent", GY_KEY_BYTES,
                                       false};
    assert_int_equal(gy_sorter_new(gy_env_real(), &nowhere, &sorter), GY_OK);
    static const char large[2 * GY_SORTER_MEMORY_BYTES_MIN];
    assert_int_equal(
        gy_sorter_add(sorter, &(gy_sort_item){.key = large, .key_bytes = sizeof(large)}, 1),
        GY_LIMIT);
    gy_status status = GY_OK;
    for (int i = 0; status == GY_OK && i < 100000; i++) {
        status = gy_sorter_add(sorter, &(gy_sort_item){.key = "abc", .key_bytes = 3}, 1);
    }
    assert_int_equal(status, GY_NOTFOUND);
    gy_sorter_free(sorter);
}

/* A run whose bytes change between writing and reading is an error, not an answer. */
static int flip_at;

static int64_t flipping_read(gy_env *env, int file, void *data, size_t size_bytes)
{
    const int64_t got = gy_disk_real.read(env, file, data, size_bytes);
    if (got > 0 && --flip_at == 0) {
        ((char *)data)[got / 2] ^= 1;
    }
    return got;
}

GY_TEST(changed_runs_are_found)
{
    gy_disk_ops disk = gy_disk_real;
    disk.read = flipping_read;
    gy_env_ops ops = *gy_env_real()->ops;
    ops.disk = &disk;
    gy_env env = {&ops};
    char buffer[512], block[100];
    for (flip_at = 1; flip_at <= 10; flip_at++) {
        const int wanted = flip_at;
        gy_sort_run *run = NULL;
        assert_int_equal(gy_sort_run_new(&env, folder, buffer, sizeof(buffer), &run), GY_OK);
        for (int i = 0; i < 10; i++) {
            memset(block, 'a' + i, sizeof(block));
            assert_int_equal(gy_sort_run_add(run, block, sizeof(block)), GY_OK);
        }
        assert_int_equal(gy_sort_run_seal(run), GY_OK);
        gy_sort_run_read(run, block, sizeof(block));
        gy_status status = GY_OK;
        size_t size = 1, sum = 0;
        while (status == GY_OK && size > 0) {
            const void *data = NULL;
            status = gy_sort_run_fill(run, &data, &size);
            sum += size;
        }
        assert_int_equal(status, GY_IO);
        assert_true(sum < 1000);
        gy_sort_run_free(run);
        flip_at = wanted;
    }
}

int main(void)
{
    test_folder(folder);
    const int failed = GY_TESTS_RUN(NULL, NULL);
    test_remove(folder);
    return failed;
}
