/* Goal: a file appears whole or not at all, whichever system call or allocation fails, and a
 * full disk leaves nothing. */
#include "sim/sim.h"
#include "store/files_test.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "gy_test.h"

/* 200 KB in pieces of all sizes. */
static gy_status write_pieces(gy_env *env, const char *path)
{
    static char data[200000];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (char)(i % 251);
    }
    gy_writer *writer = NULL;
    GY_TRY(gy_writer_open(env, path, &writer));
    size_t at = 0;
    for (size_t size = 0; at < sizeof(data); size = size * 2 + 1) {
        size_t n = GY_MIN(size, sizeof(data) - at);
        gy_status status = gy_writer_add(writer, data + at, n);
        if (status < 0) {
            GY_ASSERT(gy_writer_add(writer, data, 1) == status); /* it is remembered */
            return gy_writer_finish(writer);
        }
        at += n;
    }
    return gy_writer_finish(writer);
}

static void expect_pieces(const char *path)
{
    gy_bytes back = {NULL, 0};
    assert_ok(gy_store_file_read(gy_env_real(), path, 1 << 20, &back));
    assert_int_equal(back.size_bytes, 200000);
    for (size_t i = 0; i < back.size_bytes; i++) {
        if (back.data[i] != (char)(i % 251)) {
            fail_msg("byte %zu differs", i);
        }
    }
    gy_free(back.data);
}

static void expect_old(const char *path)
{
    gy_bytes back = {NULL, 0};
    assert_ok(gy_store_file_read(gy_env_real(), path, 100, &back));
    assert_string_equal(back.data, "old");
    gy_free(back.data);
}

GY_TEST(each_failing_call_leaves_the_old_file)
{
    static const int errors[] = {-EIO, -ENOSPC, -EACCES, -EROFS};
    char path[TEST_PATH_BYTES];
    test_path(path, test_home, "model");
    int failures = 0;
    for (size_t e = 0; e < GY_COUNT(errors); e++) {
        for (int n = 1;; n++) {
            test_put(path, "old", 3);
            test_disk_state =
                (test_disk){.countdown = n, .error = errors[e], .write_most = 7001};
            gy_status status = write_pieces(test_env(), path);
            assert_int_equal(test_disk_state.open_files, 0);
            assert_int_equal(test_entry_count(test_home), 1); /* no temporary file is left */
            if (status == GY_OK) {
                expect_pieces(path);
                if (test_disk_state.countdown > 0) {
                    break;
                }
                continue; /* the look at the target, or a close after reading */
            }
            failures++;
            assert_int_equal(status, GY_IO);
            assert_non_null(strstr(gy_error_text(), strerrordesc_np(-errors[e])));
            if (strstr(gy_error_text(), "folder") != NULL) {
                expect_pieces(path); /* only the folder's sync comes after the rename */
            } else {
                expect_old(path);
            }
        }
    }
    assert_true(failures > 100);
}

/* Before its name shows the bytes are on the disk, and then the name is. */
GY_TEST(bytes_are_synced_before_the_rename_and_the_name_after)
{
    char path[TEST_PATH_BYTES];
    test_path(path, test_home, "model");
    test_disk_state = (test_disk){.countdown = 0};
    assert_ok(write_pieces(test_env(), path));
    assert_string_equal(test_disk_state.order, "wsrs");
}

GY_TEST(each_failing_allocation_leaves_the_old_file)
{
    char path[TEST_PATH_BYTES];
    test_path(path, test_home, "model");
    test_put(path, "old", 3);
    const int64_t live = gy_alloc_live();
    int n = 1;
    for (; n < 20; n++) {
        gy_alloc_fail_after(n);
        gy_status status = write_pieces(gy_env_real(), path);
        gy_alloc_fail_after(0);
        if (status == GY_OK) {
            break;
        }
        assert_int_equal(status, GY_NOMEM);
        assert_int_equal(test_entry_count(test_home), 1);
        expect_old(path);
    }
    assert_in_range(n, 3, 19);
    assert_int_equal(gy_alloc_live(), live);
    expect_pieces(path);
}

/* On the simulated disk: whatever fails and whenever the power goes, the old bytes or the new;
 * the new ones once the write was acknowledged. */
GY_TEST(a_crash_leaves_the_old_file_or_the_new)
{
    static char bytes[2][3000];
    memset(bytes[0], 'o', sizeof(bytes[0]));
    memset(bytes[1], 'n', sizeof(bytes[1]));
    int old = 0, new = 0, refused = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        gy_sim *sim = NULL;
        gy_bytes back = {NULL, 0};
        assert_ok(gy_sim_new(&(gy_sim_options){.seed = seed, .nodes = 1}, &sim));
        gy_env *env = gy_sim_env(sim, 0);
        assert_ok(gy_store_file_write(env, "/d/a", bytes[0], sizeof(bytes[0])));
        gy_sim_set_faults(sim, 0, &(gy_sim_faults){.write_error = 0.1, .sync_error = 0.2});
        gy_status status = gy_store_file_write(env, "/d/a", bytes[1], sizeof(bytes[1]));
        gy_sim_crash(sim, 0);
        gy_sim_restart(sim, 0);
        assert_ok(gy_store_file_read(env, "/d/a", sizeof(bytes[0]), &back));
        assert_int_equal(back.size_bytes, sizeof(bytes[0]));
        const bool is_new = memcmp(back.data, bytes[1], sizeof(bytes[1])) == 0;
        assert_true(is_new || memcmp(back.data, bytes[0], sizeof(bytes[0])) == 0);
        assert_true(is_new || status < 0);
        gy_free(back.data);
        old += !is_new;
        new += is_new;
        refused += status < 0;
        gy_sim_free(sim);
    }
    assert_true(old > 30 && new > 100 && refused > 60);
}

GY_TEST(an_abort_leaves_nothing)
{
    char path[TEST_PATH_BYTES];
    test_path(path, test_home, "model");
    test_put(path, "old", 3);
    gy_writer *writer = NULL;
    assert_ok(gy_writer_open(gy_env_real(), path, &writer));
    assert_ok(gy_writer_add(writer, "new", 3));
    assert_int_equal(test_entry_count(test_home), 2);
    gy_writer_abort(writer);
    gy_writer_abort(NULL);
    assert_int_equal(test_entry_count(test_home), 1);
    expect_old(path);
}

static uint64_t same_number(gy_env *env, gy_chance concern)
{
    (void)env;
    (void)concern;
    return 7;
}

GY_TEST(a_taken_temporary_name_is_never_overwritten)
{
    char path[TEST_PATH_BYTES], taken[TEST_PATH_BYTES];
    test_put(test_path(taken, test_home, ".gyre-0000000000000007.tmp"), "mine", 4);
    gy_env_ops ops = *gy_env_real()->ops;
    ops.random = same_number;
    gy_env env = {.ops = &ops};
    assert_status(gy_store_file_write(&env, test_path(path, test_home, "b"), "x", 1), GY_IO);
    assert_non_null(strstr(gy_error_text(), "File exists"));
    gy_bytes back = {NULL, 0};
    assert_ok(gy_store_file_read(gy_env_real(), taken, 100, &back));
    assert_string_equal(back.data, "mine");
    gy_free(back.data);
    assert_int_equal(unlink(taken), 0);
}

/* In a child with a mount table of its own: a file system of 1 MiB. 0 when all is as it should
 * be. */
static int fill_small_disk(const char *mount_point)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", mount_point, "tmpfs", 0, "size=1m") != 0) {
        return 9;
    }
    char path[TEST_PATH_BYTES];
    test_path(path, mount_point, "model");
    if (gy_store_file_write(gy_env_real(), path, "old", 3) != GY_OK) {
        return 1;
    }
    static char large[3 << 20];
    if (gy_store_file_write(gy_env_real(), path, large, sizeof(large)) != GY_IO ||
        strstr(gy_error_text(), "No space left on device") == NULL ||
        strstr(gy_error_text(), path) == NULL) {
        return 2;
    }
    gy_bytes back = {NULL, 0};
    if (gy_store_file_read(gy_env_real(), path, 100, &back) != GY_OK || back.size_bytes != 3) {
        return 3;
    }
    gy_free(back.data);
    if (test_entry_count(mount_point) != 1) {
        return 4;
    }
    /* and the space is free again */
    return gy_store_file_write(gy_env_real(), path, large, sizeof(large) / 6) == GY_OK ? 0 : 5;
}

GY_TEST(a_full_disk_leaves_the_old_file)
{
    char mount_point[TEST_PATH_BYTES];
    test_folder(mount_point);
    pid_t child = fork();
    if (child == 0) {
        _exit(fill_small_disk(mount_point));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(rmdir(mount_point), 0);
    if (WEXITSTATUS(status) == 9) {
        printf("cannot mount a small file system (needs root): skipped\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

GY_TEST_MAIN(test_make_home, test_remove_home)
