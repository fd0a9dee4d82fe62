/* Goal: a file exists only after all its bytes have arrived and match its name; unreferenced
 * files are removed when there is no room; a full disk, a restart and garbage leave nothing
 * behind. */
#include "cluster/server/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "gy_test.h"

/* ---- A disk that is full after so many bytes, and a settable clock ---- */

static int64_t now_ns = 1000000000, room_bytes;
static gy_disk_ops disk;
static gy_env_ops ops;
static gy_env env = {&ops};

static int64_t clock_now(gy_env *of)
{
    (void)of;
    return now_ns;
}

static int64_t write_some(gy_env *of, int file, const void *data, size_t size_bytes)
{
    if (room_bytes < (int64_t)size_bytes) {
        return -ENOSPC;
    }
    room_bytes -= (int64_t)size_bytes;
    return gy_disk_real.write(of, file, data, size_bytes);
}

/* ---- A store in a folder of its own ---- */

static char folder[64];
static gy_blobs *blobs;
static gy_key named[4]; /* referenced by open jobs */
static int named_count, marks;

static gy_status mark(void *arg, gy_blobs *of)
{
    (void)arg;
    marks++;
    for (int i = 0; i < named_count; i++) {
        gy_blobs_mark(of, named[i]);
    }
    return GY_OK;
}

static gy_status open_store(uint64_t limit)
{
    return gy_blobs_open(
        &env, &(gy_blobs_options){.folder = folder, .limit_bytes = limit, .mark = mark},
        &blobs);
}

static int begin(void **state)
{
    (void)state;
    disk = gy_disk_real;
    disk.write = write_some;
    ops = *gy_env_real()->ops;
    ops.now_ns = clock_now;
    ops.disk = &disk;
    room_bytes = INT64_MAX;
    named_count = marks = 0;
    snprintf(folder, sizeof(folder), "/tmp/gyre-blobs-XXXXXX");
    return mkdtemp(folder) != NULL && open_store(1 << 20) == GY_OK ? 0 : 1;
}

static int end(void **state)
{
    (void)state;
    gy_blobs_close(blobs);
    return gy_disk_remove_tree(folder);
}

static int entries(void)
{
    DIR *opened = opendir(folder);
    int count = -2; /* . and .. do not count */
    assert_non_null(opened);
    while (readdir(opened) != NULL) {
        count++;
    }
    closedir(opened);
    return count;
}

static gy_key hash_of(const void *data, size_t size)
{
    gy_net_digest *digest = NULL;
    assert_ok(gy_net_digest_begin(&digest));
    gy_net_digest_feed(digest, data, size);
    gy_key key = gy_net_digest_end(digest);
    gy_net_digest_free(digest);
    return key;
}

static uint8_t bytes[1 << 16];

/* A different file for each number. */
static gy_key content(unsigned number, size_t size)
{
    memset(bytes, (int)number, size);
    return hash_of(bytes, size);
}

static gy_status put(uint64_t from, gy_key key, uint64_t at, size_t count, size_t size)
{
    return gy_blobs_put(blobs, &(gy_blob_piece){.from = from,
                                                .content = key,
                                                .offset = at,
                                                .size_bytes = size,
                                                .data = bytes + at,
                                                .data_bytes = count});
}

/* ---- Tests ---- */

static void a_file_is_there_when_it_is_whole(void **state)
{
    (void)state;
    gy_arena arena = {0};
    void *data = NULL;
    size_t size = 0;
    gy_bulk_region region;
    gy_key key = content(7, 1000);
    assert_int_equal(put(1, key, 100, 100, 1000), GY_STATE);
    assert_ok(put(1, key, 0, 600, 1000));
    assert_ok(put(1, key, 0, 600, 1000)); /* sent twice */
    assert_false(gy_blobs_touch(blobs, key, NULL));
    assert_int_equal(gy_blobs_find(blobs, key, &region), GY_NOTFOUND);
    assert_ok(put(2, key, 0, 1000, 1000)); /* another upload of the same file is faster */
    assert_ok(put(1, key, 600, 400, 1000));
    uint64_t is = 0;
    assert_true(gy_blobs_touch(blobs, key, &is) && is == 1000);
    assert_int_equal(entries(), 1);
    assert_ok(gy_blobs_read(blobs, key, 1000, &arena, &data, &size));
    assert_true(size == 1000 && memcmp(data, bytes, size) == 0);
    assert_int_equal(gy_blobs_read(blobs, key, 999, &arena, &data, &size), GY_LIMIT);
    assert_ok(gy_blobs_find(blobs, key, &region));
    assert_true(region.is_taken && region.size_bytes == 1000);
    close(region.fd);
    key = hash_of("", 0);
    assert_ok(put(1, key, 0, 0, 0));
    assert_true(gy_blobs_touch(blobs, key, NULL));
    gy_arena_free(&arena);
}

static void garbage_is_not_kept(void **state)
{
    (void)state;
    gy_key key = content(7, 1000);
    bytes[500] ^= 1;
    assert_int_equal(put(1, key, 0, 1000, 1000), GY_FORMAT);
    assert_int_equal(entries(), 0);
    bytes[500] ^= 1;
    assert_int_equal(put(1, key, 0, 10, 5), GY_ARG);
    assert_int_equal(put(1, key, 6, 1, 5), GY_ARG);
    assert_int_equal(put(1, key, 0, 0, 5), GY_ARG); /* would never end */
    assert_ok(put(1, key, 0, 500, 1000));
    assert_int_equal(put(1, key, 501, 400, 1000), GY_STATE); /* a gap */
    assert_ok(put(1, key, 500, 500, 1000));
    assert_true(gy_blobs_touch(blobs, key, NULL));
}

static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    gy_key key = content(3, 1000);
    room_bytes = 700;
    assert_ok(put(1, key, 0, 600, 1000));
    assert_int_equal(put(1, key, 600, 400, 1000), GY_LIMIT);
    assert_non_null(strstr(gy_error_text(), "No space left"));
    assert_int_equal(entries(), 0);
    assert_int_equal(gy_blobs_look(blobs).uploads, 0);
    room_bytes = 1000;
    assert_ok(put(1, key, 0, 1000, 1000));
}

static void what_is_not_named_gives_way_oldest_first(void **state)
{
    (void)state;
    gy_key keys[8];
    gy_blobs_close(blobs);
    assert_ok(open_store(4000));
    for (unsigned i = 0; i < 4; i++) {
        keys[i] = content(i, 1000);
        assert_ok(put(1, keys[i], 0, 1000, 1000));
        now_ns += 1000000000;
    }
    keys[4] = content(4, 1000);
    assert_int_equal(put(1, keys[4], 0, 1000, 1000), GY_LIMIT); /* all are from this minute */
    now_ns += 600000000000;
    assert_true(gy_blobs_touch(blobs, keys[1], NULL));
    named[named_count++] = keys[0];
    assert_int_equal(put(1, keys[4], 0, 1000, 5000), GY_LIMIT); /* never fits */
    assert_ok(put(1, keys[4], 0, 1000, 1000));
    assert_true(gy_blobs_touch(blobs, keys[0], NULL)); /* an open job references it */
    assert_true(gy_blobs_touch(blobs, keys[1], NULL)); /* it was used */
    assert_false(gy_blobs_touch(blobs, keys[2], NULL));
    assert_true(gy_blobs_touch(blobs, keys[3], NULL));
    int before = marks;
    keys[5] = content(5, 1000);
    assert_int_equal(put(1, keys[5], 0, 1000, 1000), GY_LIMIT);
    assert_int_equal(put(1, keys[5], 0, 1000, 1000), GY_LIMIT);
    assert_int_equal(marks, before + 1); /* the search is not repeated at once */
    assert_int_equal(gy_blobs_look(blobs).size_bytes, 4000);
    assert_int_equal(entries(), 4);
}

static void uploads_are_bounded_and_the_idle_give_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GY_BLOBS_UPLOADS; i++) {
        assert_ok(put(i, content(i, 100), 0, 50, 100));
    }
    gy_key more = content(99, 100);
    assert_int_equal(put(99, more, 0, 50, 100), GY_LIMIT);
    gy_blobs_leave(blobs, 5);
    assert_ok(put(99, more, 0, 50, 100));
    now_ns += 11000000000;
    assert_ok(put(100, more, 0, 50, 100)); /* replaces an idle upload */
    assert_int_equal(gy_blobs_look(blobs).uploads, GY_BLOBS_UPLOADS);
    assert_int_equal(entries(), GY_BLOBS_UPLOADS);
    gy_blobs_close(blobs);
    blobs = NULL;
    assert_int_equal(entries(), 0);
    assert_ok(open_store(1 << 20));
}

static void a_restart_finds_what_was_whole(void **state)
{
    (void)state;
    char path[128];
    gy_key key = content(1, 1000);
    assert_ok(put(1, key, 0, 1000, 1000));
    gy_blobs_close(blobs);
    snprintf(path, sizeof(path), "%s/.part-17", folder); /* left by a killed process */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_ok(open_store(1 << 20));
    assert_true(gy_blobs_touch(blobs, key, NULL));
    assert_int_equal(entries(), 1);
    gy_blobs_close(blobs);
    blobs = NULL;
    snprintf(path, sizeof(path), "%s/thesis.tex", folder); /* the folder is someone else's */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(open_store(1 << 20), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "thesis.tex"));
    assert_int_equal(entries(), 2);
    assert_int_equal(unlink(path), 0);
    assert_ok(open_store(1 << 20));
}

static int list_one(gy_env *of, const char *of_folder, gy_disk_visit visit, void *arg)
{
    (void)of, (void)of_folder;
    const int ended = visit(arg, "00000000000000000000000000000001");
    return ended != 0 ? ended : -EIO;
}

/* If files cannot be listed they must not count as missing. */
static void a_folder_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    gy_blobs *other = NULL;
    const gy_blobs_options options = {.folder = folder};
    char path[128];
    snprintf(path, sizeof(path), "%s/00000000000000000000000000000001", folder);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    disk.list = list_one;
    assert_status(gy_blobs_open(&env, &options, &other), GY_IO);
    disk.list = gy_disk_real.list;
    assert_ok(gy_blobs_open(&env, &options, &other));
    gy_blobs_close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_folder_that_cannot_be_read_is_refused),
        TEST(a_file_is_there_when_it_is_whole),
        TEST(garbage_is_not_kept),
        TEST(a_full_disk_leaves_nothing),
        TEST(what_is_not_named_gives_way_oldest_first),
        TEST(uploads_are_bounded_and_the_idle_give_way),
        TEST(a_restart_finds_what_was_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
