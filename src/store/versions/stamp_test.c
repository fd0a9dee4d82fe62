/* Goal: a file that was replaced, written to or cut is told from the one that was looked at,
 * whatever was done to its times; one that was linked, made unwritable or appended to is not.
 */
#include "store/bundle/bundle.h"
#include "store/files_test.h"
#include "store/versions/stamp.h"

#include <fcntl.h>

#include "gy_test.h"

enum { BYTES = 100000 };

static char folder[TEST_PATH_BYTES], path[TEST_PATH_BYTES], other[TEST_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    test_folder(folder);
    test_path(path, folder, "input");
    test_path(other, folder, "other");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_remove(folder);
    return 0;
}

/* A file of letters, opened and looked at. */
static int open_new(char letter, gy_stamp *stamp)
{
    char *data = gy_alloc("test", BYTES);
    memset(data, letter, BYTES);
    (void)remove(path);
    test_put(path, data, BYTES);
    gy_free(data);
    const int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_ok(gy_stamp_look(path, stamp));
    assert_ok(gy_stamp_check(gy_env_real(), file, path, stamp));
    return file;
}

static void write_at(off_t at, const char *text)
{
    const int file = open(path, O_WRONLY);
    assert_true(file >= 0 && pwrite(file, text, strlen(text), at) == (ssize_t)strlen(text));
    close(file);
}

/* As the open file and by its name, which is opened again. */
static void expect(gy_status expected, int file, const gy_stamp *stamp)
{
    const int again = open(path, O_RDONLY);
    assert_true(again >= 0);
    const int files[] = {file, again};
    for (size_t i = 0; i < GY_COUNT(files); i++) {
        const gy_status status = gy_stamp_check(gy_env_real(), files[i], path, stamp);
        assert_int_equal(status, expected);
        assert_true(status == GY_OK || strstr(gy_error_text(), path) != NULL);
    }
    close(again);
    close(file);
}

GY_TEST(written_bytes_are_seen)
{
    gy_stamp stamp;
    int file = open_new('a', &stamp);
    write_at(0, "b"); /* at once: within a tick of the clock that stamps files */
    expect(GY_STATE, file, &stamp);
    file = open_new('a', &stamp);
    write_at(BYTES / 2 + 333, "b"); /* where no sample is */
    expect(GY_STATE, file, &stamp);
    file = open_new('a', &stamp);
    assert_int_equal(truncate(path, BYTES - 1), 0);
    expect(GY_STATE, file, &stamp);
    assert_non_null(strstr(gy_error_text(), "its size is 99999, expected 100000"));
}

GY_TEST(a_time_that_is_set_back_hides_nothing)
{
    gy_stamp stamp;
    const int file = open_new('a', &stamp);
    write_at(77777, "b");
    const int64_t was = stamp.disk.modified_ns;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {was / 1000000000, was % 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    expect(GY_STATE, file, &stamp);
}

GY_TEST(a_name_that_leads_elsewhere_is_seen)
{
    gy_stamp stamp;
    const int file = open_new('a', &stamp);
    char *data = gy_alloc("test", BYTES);
    memset(data, 'a', BYTES);
    test_put(other, data, BYTES);
    gy_free(data);
    assert_int_equal(rename(other, path), 0);
    const int again = open(path, O_RDONLY);
    assert_status(gy_stamp_check(gy_env_real(), again, path, &stamp), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "another file has its name"));
    assert_ok(gy_stamp_check(gy_env_real(), file, path, &stamp)); /* it was opened before */
    close(again);
    close(file);
}

GY_TEST(names_and_attributes_are_no_bytes)
{
    gy_stamp stamp;
    int file = open_new('a', &stamp);
    assert_int_equal(chmod(path, 0400), 0);
    expect(GY_OK, file, &stamp);
    file = open_new('a', &stamp);
    assert_int_equal(link(path, other), 0);
    expect(GY_OK, file, &stamp);
    assert_int_equal(remove(other), 0);
    file = open_new('a', &stamp);
    assert_int_equal(rename(path, other), 0); /* as a log is rotated */
    assert_ok(gy_stamp_check(gy_env_real(), file, path, &stamp));
    close(file);
    assert_int_equal(remove(other), 0);
}

GY_TEST(what_grows_is_the_same_up_to_its_size)
{
    gy_stamp stamp;
    int file = open_new('a', &stamp);
    write_at(BYTES, "more");
    expect(GY_OK, file, &stamp);
    file = open_new('a', &stamp);
    write_at(0, "b");
    write_at(BYTES, "more");
    expect(GY_STATE, file, &stamp);
    file = open_new('a', &stamp);
    write_at(BYTES - 1, "bmore");
    expect(GY_STATE, file, &stamp);
}

/* There a file of the same bytes is a copy; its numbers and times say nothing. */
GY_TEST(on_another_machine_bytes_count)
{
    gy_stamp stamp;
    int file = open_new('a', &stamp);
    stamp.machine ^= 2;
    stamp.disk.inode++;
    stamp.disk.modified_ns++;
    expect(GY_OK, file, &stamp);
    file = open_new('b', &stamp);
    stamp.machine ^= 2;
    close(file);
    gy_stamp ignored;
    expect(GY_STATE, open_new('a', &ignored), &stamp);
}

/* The job is of the version that it was planned with, until it ends. */
GY_TEST(what_was_looked_at_is_remembered)
{
    gy_stamp stamp, again;
    close(open_new('a', &stamp));
    write_at(0, "b");
    assert_ok(gy_stamp_of(path, &again));
    assert_memory_equal(&again, &stamp, sizeof(stamp));
    gy_store_stamps_forget();
    assert_ok(gy_stamp_of(path, &again));
    assert_memory_not_equal(&again, &stamp, sizeof(stamp));
    assert_status(gy_stamp_look(folder, &again), GY_IO);
    assert_status(gy_stamp_look("/nonexistent/x", &again), GY_NOTFOUND);
    gy_store_stamps_forget();
}

/* ---- sources ---- */

static gy_source *open_source(const char *text)
{
    gy_source *source = NULL;
    test_put(path, text, strlen(text));
    assert_ok(gy_source_open(gy_env_real(), path, GY_ENCODING_AUTO, &source));
    return source;
}

GY_TEST(a_source_is_of_one_version)
{
    char data[16];
    size_t got = 0;
    gy_source *source = open_source("one two three");
    assert_ok(gy_source_read(source, data, 6, &got));
    write_at(8, "THREE");
    assert_status(gy_source_read(source, data, 6, &got), GY_STATE);
    gy_source_close(source);
    source = open_source("one two three");
    assert_ok(gy_source_read(source, data, 6, &got));
    assert_int_equal(truncate(path, 8), 0);
    assert_status(gy_source_read(source, data, 6, &got), GY_STATE);
    gy_source_close(source);
    source = open_source("one two three");
    write_at(13, " four");
    assert_ok(gy_source_read(source, data, sizeof(data), &got));
    assert_int_equal(got, 13); /* what is appended is no part of it */
    gy_source_close(source);
}

/* Data sets and models are read in several steps: each of them of what was opened. */
GY_TEST(training_data_is_of_one_version)
{
    char idx[8 + 100000] = {0, 0, 0x08, 1, 0, 1, (char)0x86, (char)0xa0};
    gy_source *source = NULL;
    gy_tensor *tensor = NULL;
    gy_bundle *bundle = NULL;
    test_put(path, idx, sizeof(idx));
    assert_ok(gy_source_open(gy_env_real(), path, GY_ENCODING_PLAIN, &source));
    write_at(50000, "other");
    assert_status(gy_store_idx_read(source, NULL, GY_IDX_LIMIT, &tensor), GY_STATE);
    assert_null(tensor);
    gy_source_close(source);
    assert_ok(gy_bundle_new(&bundle));
    assert_ok(gy_bundle_set(bundle, "key", "value"));
    assert_ok(gy_bundle_save(bundle, gy_env_real(), path));
    gy_bundle_free(bundle);
    bundle = NULL;
    assert_ok(gy_source_open(gy_env_real(), path, GY_ENCODING_PLAIN, &source));
    write_at(12, "K");
    assert_status(gy_bundle_load(source, NULL, &bundle), GY_STATE);
    assert_null(bundle);
    gy_source_close(source);
}

/* In /proc files have a size of 0, bytes, and a new time each time. */
GY_TEST(files_without_a_size_are_read)
{
    gy_stamp stamp;
    gy_source *source = NULL;
    char data[64];
    size_t got = 0;
    assert_ok(gy_stamp_look("/proc/self/status", &stamp));
    assert_ok(gy_source_open(gy_env_real(), "/proc/self/status", GY_ENCODING_AUTO, &source));
    assert_ok(gy_source_read(source, data, sizeof(data), &got));
    assert_true(got == sizeof(data) && memcmp(data, "Name:", 5) == 0);
    gy_source_close(source);
}

GY_TEST_MAIN(make_folder, remove_folder)
