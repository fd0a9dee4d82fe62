/* Goal: splits have each byte of each file once, in order, and stand still when a file grows;
 * numbers as keys order as they do. */
#include "base/base.h"
#include "mapreduce/plan.h"

#include <string.h>

#include "gy_test.h"

GY_TEST(typed_keys_have_their_order)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(20000); i++) {
        const int64_t a = (int64_t)gy_random_u64(&random) >> gy_random_below(&random, 64),
                      b = (int64_t)gy_random_u64(&random) >> gy_random_below(&random, 64);
        const gy_number_key x = gy_key_of_int64(a), y = gy_key_of_int64(b);
        const gy_number_key ux = gy_key_of_uint64((uint64_t)a),
                            uy = gy_key_of_uint64((uint64_t)b);
        const double fa = (double)a / 3, fb = (double)b / 7;
        const gy_number_key fx = gy_key_of_float64(fa), fy = gy_key_of_float64(fb);
        assert_int_equal(memcmp(&x, &y, 8) < 0, a < b);
        assert_int_equal(memcmp(&ux, &uy, 8) < 0, (uint64_t)a < (uint64_t)b);
        assert_int_equal(memcmp(&fx, &fy, 8) < 0, fa < fb || (fa == 0 && a < 0 && fb > fa));
        assert_int_equal(gy_int64_of_key(&x), a);
        assert_true(gy_uint64_of_key(&ux) == (uint64_t)a);
        assert_true(gy_float64_of_key(&fx) == fa);
    }
}

/* 300 objects of a few bytes are several tasks, as many files one. */
GY_TEST(small_objects_are_spread)
{
    for (int is_remote = 0; is_remote < 2; is_remote++) {
        gy_split_file files[300];
        for (size_t i = 0; i < GY_COUNT(files); i++) {
            files[i] = (gy_split_file){.size_bytes = i, .is_remote = is_remote == 1};
        }
        gy_splits splits;
        assert_ok(gy_splits_plan(files, GY_COUNT(files), 32 << 20, &splits));
        assert_int_equal(splits.task_count, is_remote == 1 ? 10 : 1);
        gy_splits_free(&splits);
        assert_ok(gy_splits_plan(files, GY_COUNT(files), UINT64_C(1) << 30, &splits));
        assert_int_equal(splits.task_count, 1);
        gy_splits_free(&splits);
    }
}

GY_TEST(splits_cover_files_once)
{
    gy_random random = {.key = gy_test_seed()};
    for (long i = 0; i < gy_test_cases(500); i++) {
        gy_split_file files[300];
        const size_t count = 1 + gy_random_below(&random, GY_COUNT(files));
        const uint64_t bytes = 1 + gy_random_below(&random, 5000);
        for (size_t j = 0; j < count; j++) {
            files[j] = (gy_split_file){.size_bytes =
                                           gy_random_below(&random, i % 2 == 0 ? 200 : 20000),
                                       .can_part = gy_random_below(&random, 4) != 0,
                                       .is_remote = gy_random_below(&random, 8) == 0};
            if (gy_random_below(&random, 8) == 0) { /* of another host */
                files[j] = (gy_split_file){.size_bytes = UINT64_MAX};
            }
        }
        gy_splits splits;
        assert_ok(gy_splits_plan(files, count, bytes, &splits));
        uint64_t number = 0, at = 0;
        assert_int_equal(splits.starts[0], 0);
        assert_int_equal(splits.starts[splits.task_count], splits.part_count);
        for (size_t j = 0; j < splits.part_count; j++) {
            const gy_task_part *part = &splits.parts[j];
            assert_int_equal(part->number, number);
            assert_int_equal(part->begin, at);
            at = part->end;
            assert_true(at == UINT64_MAX || files[number].can_part);
            if (at == UINT64_MAX) {
                number++;
                at = 0;
            }
        }
        assert_int_equal(number, count);
        for (size_t t = 0; t < splits.task_count; t++) {
            assert_true(splits.starts[t] < splits.starts[t + 1]);
        }
        /* A file that grows a little changes its own task alone. */
        gy_splits again;
        const size_t grown = gy_random_below(&random, count);
        const bool is_small = files[grown].size_bytes < bytes;
        files[grown].size_bytes += files[grown].size_bytes != UINT64_MAX;
        assert_ok(gy_splits_plan(files, count, bytes, &again));
        if (is_small && again.task_count == splits.task_count) {
            assert_memory_equal(again.starts, splits.starts,
                                (splits.task_count + 1) * sizeof(size_t));
        }
        gy_splits_free(&again);
        gy_splits_free(&splits);
    }
    assert_int_equal(gy_mapreduce_split_bytes(0, 1), 32 << 20);
    assert_int_equal(gy_mapreduce_split_bytes(UINT64_C(1) << 40, 2), 256 << 20);
}

GY_TEST_MAIN(NULL, NULL)
