/**
 * For the tests of operators that spill: a folder that must be empty at the end, and a disk of
 * which one call fails.
 */
#ifndef GY_QUERY_ROWS_DISK_TEST_H
#define GY_QUERY_ROWS_DISK_TEST_H

#include "query/rows/random_test.h"

#include "base/disk.h"
#include "store/files_test.h"

#include <errno.h>

static char test_files[TEST_PATH_BYTES];

static inline int test_disk_begin(void **state)
{
    (void)state;
    test_folder(test_files);
    test_live = gy_alloc_live();
    return 0;
}

static inline int test_disk_end(void **state)
{
    (void)state;
    return gy_alloc_live() == test_live && rmdir(test_files) == 0 ? 0 : -1;
}

static struct {
    int now, count, fails_at; /* reads and writes; the one that fails, from 1; 0: none */
} test_disk_calls;

static inline int64_t test_disk_write_at(gy_env *env, int file, const void *data,
                                         size_t size_bytes, uint64_t offset)
{
    return ++test_disk_calls.now == test_disk_calls.fails_at
               ? -ENOSPC
               : gy_disk_real.write_at(env, file, data, size_bytes, offset);
}

static inline int64_t test_disk_read_at(gy_env *env, int file, void *data, size_t size_bytes,
                                        uint64_t offset)
{
    return ++test_disk_calls.now == test_disk_calls.fails_at
               ? -EIO
               : gy_disk_real.read_at(env, file, data, size_bytes, offset);
}

/** The real environment, on that disk. */
static inline gy_env *test_disk_env(gy_env *env)
{
    static gy_disk_ops disk;
    static gy_env_ops ops;
    disk = gy_disk_real;
    disk.write_at = test_disk_write_at;
    disk.read_at = test_disk_read_at;
    ops = *gy_env_real()->ops;
    ops.disk = &disk;
    env->ops = &ops;
    return env;
}

#endif
