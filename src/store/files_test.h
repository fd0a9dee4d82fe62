/**
 * For the tests of this room: a scratch folder, files in it, and a disk that fails on request.
 */
#ifndef GY_STORE_FILES_TEST_H
#define GY_STORE_FILES_TEST_H

#include "base/base.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEST_PATH_BYTES = 512 };

/** Make a new folder; remove it with test_remove. */
static inline void test_folder(char out[TEST_PATH_BYTES])
{
    const char *root = getenv("TMPDIR");
    snprintf(out, TEST_PATH_BYTES, "%s/gyre-store-XXXXXX", root != NULL ? root : "/tmp");
    GY_ASSERT(mkdtemp(out) != NULL);
}

static inline const char *test_path(char out[TEST_PATH_BYTES], const char *folder,
                                    const char *name)
{
    GY_ASSERT(snprintf(out, TEST_PATH_BYTES, "%s/%s", folder, name) < TEST_PATH_BYTES);
    return out;
}

/** Number of entries of a folder without "." and "..". */
static inline int test_entry_count(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    GY_ASSERT(open != NULL);
    while (readdir(open) != NULL) {
        count++;
    }
    closedir(open);
    return count - 2;
}

/** Remove a folder and the files in it. */
static inline void test_remove(const char *folder)
{
    DIR *open = opendir(folder);
    GY_ASSERT(open != NULL);
    for (struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open)) {
        char path[TEST_PATH_BYTES];
        (void)remove(test_path(path, folder, entry->d_name)); /* "." and ".." stay */
    }
    closedir(open);
    GY_ASSERT(rmdir(folder) == 0);
}

/** A test program's own folder: fixtures of a group of tests. */
static char test_home[TEST_PATH_BYTES];

static inline int test_make_home(void **state)
{
    (void)state;
    test_folder(test_home);
    return 0;
}

static inline int test_remove_home(void **state)
{
    (void)state;
    test_remove(test_home);
    return 0;
}

static inline void test_put(const char *path, const void *data, size_t size_bytes)
{
    FILE *file = fopen(path, "wb");
    GY_ASSERT(file != NULL);
    GY_ASSERT(fwrite(data, 1, size_bytes, file) == size_bytes);
    GY_ASSERT(fclose(file) == 0);
}

/** Letters that compress to about half their size; gy_free. */
static inline char *test_text(gy_random *random, size_t size)
{
    char *text = gy_alloc("test", size);
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)('a' + gy_random_below(random, i % 3 == 0 ? 20 : 2));
    }
    return text;
}

/* A disk whose n-th call from now (1: the next one) fails with `error`, a negated errno. */
typedef struct test_disk {
    int countdown, error, calls;
    int open_files;
    int64_t write_most; /* longer writes are cut short; 0: no limit */
    /* calls so far by first letter: w(rite) s(ync) r(ename); repeated ones once */
    char order[64];
} test_disk;

static test_disk test_disk_state;

static inline int test_strike(void)
{
    test_disk_state.calls++;
    return test_disk_state.countdown > 0 && --test_disk_state.countdown == 0
               ? test_disk_state.error
               : 0;
}

static inline void test_note(char letter)
{
    size_t size = strlen(test_disk_state.order);
    if (size + 1 < sizeof(test_disk_state.order) &&
        (size == 0 || test_disk_state.order[size - 1] != letter)) {
        test_disk_state.order[size] = letter;
    }
}

static int test_open(gy_env *env, const char *path, int flags, unsigned mode)
{
    int error = test_strike();
    int file = error < 0 ? error : gy_disk_real.open(env, path, flags, mode);
    test_disk_state.open_files += file >= 0;
    return file;
}

static int test_close(gy_env *env, int file)
{
    int error = test_strike();
    /* Linux closes the descriptor even when it reports a failure */
    int closed = gy_disk_real.close(env, file);
    test_disk_state.open_files--;
    return error < 0 ? error : closed;
}

static int64_t test_size(gy_env *env, int file)
{
    int error = test_strike();
    return error < 0 ? error : gy_disk_real.size(env, file);
}

static int64_t test_read(gy_env *env, int file, void *data, size_t size_bytes)
{
    int error = test_strike();
    return error < 0 ? error : gy_disk_real.read(env, file, data, size_bytes);
}

static int64_t test_write(gy_env *env, int file, const void *data, size_t size_bytes)
{
    test_note('w');
    int error = test_strike();
    if (test_disk_state.write_most > 0 && size_bytes > (size_t)test_disk_state.write_most) {
        size_bytes = (size_t)test_disk_state.write_most;
    }
    return error < 0 ? error : gy_disk_real.write(env, file, data, size_bytes);
}

static int test_sync(gy_env *env, int file)
{
    test_note('s');
    int error = test_strike();
    return error < 0 ? error : gy_disk_real.sync(env, file);
}

static int test_rename(gy_env *env, const char *from, const char *to)
{
    test_note('r');
    int error = test_strike();
    return error < 0 ? error : gy_disk_real.rename(env, from, to);
}

static int test_unlink(gy_env *env, const char *path)
{
    /* cleaning up never fails here, since otherwise tests could not require it */
    test_disk_state.calls++;
    return gy_disk_real.unlink(env, path);
}

static int test_link(gy_env *env, const char *from, const char *to)
{
    test_note('l');
    int error = test_strike();
    return error < 0 ? error : gy_disk_real.link(env, from, to);
}

static int64_t test_links(gy_env *env, const char *path)
{
    test_disk_state.calls++;
    return gy_disk_real.links(env, path);
}

static const gy_disk_ops test_disk_ops = {
    .name = "failing",
    .open = test_open,
    .close = test_close,
    .size = test_size,
    .read = test_read,
    .write = test_write,
    .sync = test_sync,
    .rename = test_rename,
    .unlink = test_unlink,
    .link = test_link,
    .links = test_links,
};

/** The real environment with this disk. */
static inline gy_env *test_env(void)
{
    static gy_env_ops ops;
    static gy_env env;
    ops = *gy_env_real()->ops;
    ops.disk = &test_disk_ops;
    env.ops = &ops;
    return &env;
}

#endif
