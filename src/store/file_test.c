/* Goal: whole files are read, mapped and written; what is not a readable file is refused by
 * name. */
#include "store/files_test.h"

#include <sys/wait.h>

#include "gy_test.h"

static void expect_prefix(const char *text)
{
    if (strncmp(gy_error_text(), text, strlen(text)) != 0) {
        fail_msg("'%s' does not begin with '%s'", gy_error_text(), text);
    }
}

GY_TEST(written_files_are_read_back)
{
    char path[TEST_PATH_BYTES];
    test_path(path, test_home, "a");
    for (size_t size = 0; size < 400000; size = size * 3 + 1) {
        char *data = gy_alloc("test", size);
        for (size_t i = 0; i < size; i++) {
            data[i] = (char)(i * 7);
        }
        gy_bytes back = {NULL, 0};
        gy_mapping mapping = {NULL, 0};
        assert_ok(gy_store_file_write(gy_env_real(), path, data, size));
        assert_ok(gy_store_file_read(gy_env_real(), path, size, &back));
        assert_ok(gy_store_file_map(path, &mapping));
        assert_int_equal(back.size_bytes, size);
        assert_int_equal(mapping.size_bytes, size);
        assert_memory_equal(back.data, data, size);
        assert_memory_equal(mapping.data, data, size);
        assert_int_equal(back.data[size], 0);
        gy_store_file_unmap(&mapping);
        gy_free(back.data);
        gy_free(data);
    }
    assert_int_equal(test_entry_count(test_home), 1);
}

GY_TEST(what_is_no_file_is_refused)
{
    char path[TEST_PATH_BYTES], expected[2 * TEST_PATH_BYTES];
    gy_bytes out = {NULL, 0};
    gy_mapping mapping = {NULL, 0};
    test_path(path, test_home, "missing");
    assert_status(gy_store_file_read(gy_env_real(), path, 100, &out), GY_NOTFOUND);
    snprintf(expected, sizeof(expected), "cannot open %s: No such file or directory", path);
    assert_string_equal(gy_error_text(), expected);
    assert_status(gy_store_file_map(path, &mapping), GY_NOTFOUND);

    assert_status(gy_store_file_read(gy_env_real(), test_home, 100, &out), GY_IO);
    snprintf(expected, sizeof(expected), "cannot read %s: it is a folder, expected a file",
             test_home);
    assert_string_equal(gy_error_text(), expected);
    assert_status(gy_store_file_map(test_home, &mapping), GY_IO);

    test_path(path, test_home, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    assert_status(gy_store_file_read(gy_env_real(), path, 100, &out), GY_IO);
    snprintf(expected, sizeof(expected),
             "cannot read %s: it is a device, pipe or socket, expected a file", path);
    assert_string_equal(gy_error_text(), expected);
    assert_status(gy_store_file_read(gy_env_real(), "/dev/zero", 100, &out), GY_IO);

    test_path(path, test_home, "long");
    test_put(path, "0123456789", 10);
    assert_status(gy_store_file_read(gy_env_real(), path, 9, &out), GY_LIMIT);
    snprintf(expected, sizeof(expected), "%s has 10 bytes, expected at most 9", path);
    assert_string_equal(gy_error_text(), expected);
    assert_null(out.data);
    assert_null(mapping.data);
}

/* In a child without root's rights: 0 when reading and writing were refused with their reasons.
 */
static int try_without_rights(const char *secret, const char *locked)
{
    gy_bytes out = {NULL, 0};
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 9;
    }
    if (gy_store_file_read(gy_env_real(), secret, 100, &out) != GY_IO ||
        strstr(gy_error_text(), "Permission denied") == NULL) {
        return 1;
    }
    if (gy_store_file_write(gy_env_real(), locked, "x", 1) != GY_IO ||
        strstr(gy_error_text(), "Permission denied") == NULL) {
        return 2;
    }
    return 0;
}

GY_TEST(missing_rights_are_named)
{
    if (getuid() != 0) {
        printf("not root: cannot become somebody without rights\n");
        skip();
    }
    char secret[TEST_PATH_BYTES], locked[TEST_PATH_BYTES];
    test_path(secret, test_home, "secret");
    test_path(locked, test_home, "locked");
    test_put(secret, "s", 1);
    assert_int_equal(chmod(secret, 0600), 0);
    assert_int_equal(chmod(test_home, 0755), 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(try_without_rights(secret, locked));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

GY_TEST(every_failing_read_is_an_error_and_closes)
{
    char path[TEST_PATH_BYTES];
    test_path(path, test_home, "read");
    test_put(path, "hello", 5);
    gy_bytes out = {NULL, 0};
    const int64_t live = gy_alloc_live();
    int n = 0;
    for (n = 1; n < 20; n++) {
        test_disk_state = (test_disk){.countdown = n, .error = -EIO};
        gy_status status = gy_store_file_read(test_env(), path, 100, &out);
        assert_int_equal(test_disk_state.open_files, 0);
        if (status == GY_OK) {
            gy_free(out.data);
            if (test_disk_state.countdown > 0) {
                break; /* no call was left to fail; a close that failed is no failure here */
            }
            continue;
        }
        assert_int_equal(status, GY_IO);
        assert_non_null(strstr(gy_error_text(), "Input/output error"));
    }
    assert_in_range(n, 4, 19);
    for (n = 1; n < 20; n++) {
        gy_alloc_fail_after(n);
        gy_status status = gy_store_file_read(gy_env_real(), path, 100, &out);
        gy_alloc_fail_after(0);
        if (status == GY_OK) {
            gy_free(out.data);
            break;
        }
        assert_int_equal(status, GY_NOMEM);
    }
    assert_in_range(n, 2, 19);
    assert_int_equal(gy_alloc_live(), live);
}

GY_TEST(paths_that_name_no_file_are_not_written)
{
    char path[TEST_PATH_BYTES];
    assert_status(gy_store_file_write(gy_env_real(), "", "x", 1), GY_ARG);
    assert_status(
        gy_store_file_write(gy_env_real(), test_path(path, test_home, "new/"), "x", 1), GY_ARG);
    assert_status(gy_store_file_write(gy_env_real(), test_home, "x", 1), GY_IO);
    expect_prefix("cannot write ");
    assert_non_null(strstr(gy_error_text(), "it is a folder"));
    assert_status(
        gy_store_file_write(gy_env_real(), test_path(path, test_home, "no/file"), "x", 1),
        GY_NOTFOUND);
    /* A pipe stays one, as /dev/null would; a link gives way to the file. */
    struct stat about;
    assert_int_equal(mkfifo(test_path(path, test_home, "target"), 0600), 0);
    assert_status(gy_store_file_write(gy_env_real(), path, "x", 1), GY_IO);
    expect_prefix("cannot write ");
    assert_non_null(strstr(gy_error_text(), "it is a device, pipe or socket"));
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", test_path(path, test_home, "link")), 0);
    assert_ok(gy_store_file_write(gy_env_real(), path, "x", 1));
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISREG(about.st_mode));
    assert_int_equal(unlink(path), 0);
}

GY_TEST_MAIN(test_make_home, test_remove_home)
