/* Goal: sections come back as they were written, however they were interleaved; every bit that
 * flips and every byte that is cut off is noticed; a full disk leaves no file. */
#include "base/base.h"
#include "flow/section/section_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "gy_test.h"

enum { SECTIONS_MOST = 9 };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-section-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails when a test left a file */
}

static const gy_section_owner owner = {.key = {7, 9}, .epoch = 2, .attempt = 5, .member = 1};

typedef struct plain {
    char *data;
    size_t size, capacity;
} plain;

static void plain_add(plain *to, const void *data, size_t size)
{
    assert_ok(GY_GROW("test", to->data, to->capacity, to->size + size + 1));
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

/* One piece of a random size into a random section, both ways. */
static void add_piece(gy_random *random, gy_section_writer *writer, plain *expected,
                      uint32_t count)
{
    static char bytes[800000];
    static const size_t sizes[] = {0, 1, 2, 100, 4095, 4096, 4097, 70000, 262144, 600000};
    uint32_t to = (uint32_t)gy_random_below(random, count);
    size_t size = sizes[gy_random_below(random, GY_COUNT(sizes))];
    size = gy_random_below(random, 2) == 0 ? size : gy_random_below(random, size + 1);
    for (size_t i = 0; bytes[0] == 0 && i + 8 <= sizeof(bytes); i += 8) {
        uint64_t value = gy_random_u64(random) | 1;
        memcpy(bytes + i, &value, 8);
    }
    const char *noise = bytes + gy_random_below(random, 100000);
    if (gy_random_below(random, 3) == 0) {
        void *room = NULL;
        assert_ok(gy_section_room(writer, to, size + gy_random_below(random, 100), &room));
        memcpy(room, noise, size);
        assert_ok(gy_section_wrote(writer, to, size));
    } else {
        assert_ok(gy_section_add(writer, to, noise, size));
    }
    plain_add(&expected[to], noise, size);
}

static void check_section(const char *path, uint32_t index, const gy_section_sum *sums,
                          uint32_t count, const plain *expected)
{
    gy_section_wanted wanted = {path, owner, gy_section_content(sums, count), index};
    gy_section section;
    gy_section_sum sum;
    assert_ok(gy_section_open(&wanted, &section, &sum));
    assert_int_equal(section.size_bytes, expected->size);
    assert_true(sum.hash == sums[index].hash);
    assert_ok(gy_section_verify(&section, &sum, path));
    if (expected->size > 0) {
        assert_memory_equal(section.data, expected->data, expected->size);
    }
    gy_section_close(&section);
}

GY_TEST(sections_come_back_whatever_the_order)
{
    gy_random random = {.key = gy_test_seed()};
    char path[128];
    snprintf(path, sizeof(path), "%s/file", folder);
    for (long round = 0; round < gy_test_cases(64); round++) {
        uint32_t count = 1 + (uint32_t)gy_random_below(&random, SECTIONS_MOST);
        plain expected[SECTIONS_MOST] = {{NULL, 0, 0}};
        gy_section_writer *writer = NULL;
        assert_ok(gy_section_writer_new(gy_env_real(),
                                        &(gy_section_writer_options){
                                            .path = path,
                                            .owner = owner,
                                            .count = count,
                                            .small_bytes = 100,
                                            .memory_bytes = round % 2 == 0 ? 1 : 0,
                                        },
                                        &writer));
        uint64_t pieces = gy_random_below(&random, 40);
        for (uint64_t i = 0; i < pieces; i++) {
            add_piece(&random, writer, expected, count);
        }
        bool is_small = false;
        assert_ok(gy_section_finish(writer, &is_small));
        size_t total = 0;
        for (uint32_t i = 0; i < count; i++) {
            total += expected[i].size;
        }
        assert_true(!is_small || total <= 100);
        assert_int_equal(access(path, F_OK), is_small ? -1 : 0);
        for (uint32_t i = 0; i < count; i++) {
            const gy_section_sum *sums = gy_section_sums(writer);
            if (is_small) {
                assert_memory_equal(gy_section_small(writer, i),
                                    expected[i].size > 0 ? expected[i].data : "",
                                    expected[i].size);
            } else {
                check_section(path, i, sums, count, &expected[i]);
            }
            gy_free(expected[i].data);
        }
        gy_section_writer_free(writer);
        assert_int_equal(unlink(path), is_small ? -1 : 0);
    }
}

/* A file of three sections, the second empty; its content goes to *content. */
static size_t write_small(const char *path, gy_key *content)
{
    gy_section_writer *writer = NULL;
    assert_ok(gy_section_writer_new(
        gy_env_real(), &(gy_section_writer_options){.path = path, .owner = owner, .count = 3},
        &writer));
    assert_ok(gy_section_add(writer, 0, "first", 5));
    assert_ok(gy_section_add(writer, 2, "the third", 9));
    bool is_small = true;
    assert_ok(gy_section_finish(writer, &is_small));
    assert_false(is_small);
    *content = gy_section_content(gy_section_sums(writer), 3);
    gy_section_writer_free(writer);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return (size_t)status.st_size;
}

/* Whether all three sections are there and right. */
static bool is_whole(const char *path, gy_key content)
{
    static const char *const texts[] = {"first", "", "the third"};
    bool is_good = true;
    for (uint32_t i = 0; i < 3; i++) {
        gy_section_wanted wanted = {path, owner, content, i};
        gy_section section;
        gy_section_sum sum;
        gy_status status = gy_section_open(&wanted, &section, &sum);
        if (status == GY_OK) {
            status = gy_section_verify(&section, &sum, path);
            assert_true(status == GY_FORMAT ||
                        (section.size_bytes == strlen(texts[i]) &&
                         memcmp(section.data, texts[i], section.size_bytes) == 0));
            gy_section_close(&section);
        }
        assert_true(status == GY_OK || status == GY_FORMAT);
        is_good = is_good && status == GY_OK;
    }
    return is_good;
}

static void overwrite(const char *path, const void *data, size_t size)
{
    int file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(write(file, data, size), size);
    close(file);
}

GY_TEST(every_flipped_bit_and_every_cut_is_noticed)
{
    char path[128], bytes[1024];
    snprintf(path, sizeof(path), "%s/file", folder);
    gy_key content;
    size_t size = write_small(path, &content);
    assert_true(size <= sizeof(bytes) - 8);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(file, bytes, sizeof(bytes)), size);
    close(file);
    assert_true(is_whole(path, content));
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        overwrite(path, bytes, size);
        if (is_whole(path, content)) {
            fail_msg("bit %zu of %zu flipped unnoticed", bit, size * 8);
        }
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
    for (size_t cut = 0; cut < size; cut++) {
        overwrite(path, bytes, cut);
        assert_false(is_whole(path, content));
    }
    memset(bytes + size, 0, 8);
    overwrite(path, bytes, size + 8);
    assert_false(is_whole(path, content));
    assert_int_equal(unlink(path), 0);
}

GY_TEST(another_ones_file_is_refused)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/file", folder);
    gy_key content;
    write_small(path, &content);
    gy_section_owner others[] = {owner, owner, owner, owner};
    others[0].key.low++;
    others[1].epoch++;
    others[2].attempt++;
    others[3].member++;
    gy_section section;
    gy_section_sum sum;
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        gy_section_wanted wanted = {path, others[i], content, 0};
        assert_status(gy_section_open(&wanted, &section, &sum), GY_FORMAT);
    }
    gy_section_wanted wanted = {path, owner, {content.high, content.low ^ 1}, 0};
    assert_status(gy_section_open(&wanted, &section, &sum), GY_FORMAT);
    wanted = (gy_section_wanted){path, owner, content, 3};
    assert_status(gy_section_open(&wanted, &section, &sum), GY_FORMAT);
    assert_int_equal(unlink(path), 0);
    wanted.section = 0;
    assert_status(gy_section_open(&wanted, &section, &sum), GY_NOTFOUND);
    assert_status(
        gy_section_open(&(gy_section_wanted){folder, owner, content, 0}, &section, &sum),
        GY_IO);
}

/* Nor the right one by a symbolic link, which a vertex can make. */
GY_TEST(a_symbolic_link_is_not_followed)
{
    char path[128], other[128];
    snprintf(path, sizeof(path), "%s/file", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    gy_key content;
    write_small(path, &content);
    assert_int_equal(symlink(path, other), 0);
    const gy_section_wanted wanted = {other, owner, content, 0};
    gy_section section;
    gy_section_sum sum;
    gy_section_place place;
    assert_status(gy_section_open(&wanted, &section, &sum), GY_IO);
    assert_status(gy_section_find(&wanted, &place), GY_IO);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(link(path, other), 0);
    assert_ok(gy_section_open(&wanted, &section, &sum));
    gy_section_close(&section);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(unlink(path), 0);
}

GY_TEST(content_does_not_depend_on_who_wrote_or_how)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/file", folder);
    gy_key content;
    write_small(path, &content);
    assert_int_equal(unlink(path), 0);
    gy_section_writer *writer = NULL;
    assert_ok(gy_section_writer_new(
        gy_env_real(),
        &(gy_section_writer_options){
            .path = path, .owner = {.attempt = 77}, .count = 3, .small_bytes = 4096},
        &writer));
    assert_ok(gy_section_add(writer, 2, "the ", 4));
    assert_ok(gy_section_add(writer, 0, "first", 5));
    assert_ok(gy_section_add(writer, 2, "third", 5));
    bool is_small = false;
    assert_ok(gy_section_finish(writer, &is_small));
    assert_true(is_small);
    gy_key other = gy_section_content(gy_section_sums(writer), 3);
    assert_true(other.high == content.high && other.low == content.low);
    gy_section_writer_free(writer);
}

GY_TEST(a_plain_file_holds_the_bytes_alone)
{
    char path[128], bytes[16];
    snprintf(path, sizeof(path), "%s/plain", folder);
    for (int is_empty = 0; is_empty < 2; is_empty++) {
        gy_section_writer *writer = NULL;
        assert_ok(gy_section_writer_new(
            gy_env_real(),
            &(gy_section_writer_options){.path = path, .count = 1, .is_plain = true}, &writer));
        assert_ok(gy_section_add(writer, 0, "hello", is_empty == 1 ? 0 : 5));
        bool is_small = true;
        assert_ok(gy_section_finish(writer, &is_small));
        assert_false(is_small);
        gy_section_writer_free(writer);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(read(file, bytes, sizeof(bytes)), is_empty == 1 ? 0 : 5);
        close(file);
        assert_int_equal(unlink(path), 0);
    }
}

/* The real disk with room for so many bytes more. */
static int64_t disk_left;

static int64_t write_while_it_fits(gy_env *env, int file, const void *data, size_t size_bytes)
{
    if (disk_left <= 0 && size_bytes > 0) {
        return -ENOSPC;
    }
    int64_t written =
        gy_disk_real.write(env, file, data, (size_t)GY_MIN((int64_t)size_bytes, disk_left));
    disk_left -= written;
    return written;
}

GY_TEST(a_full_disk_is_told_and_leaves_no_file)
{
    static char noise[100000];
    char path[128];
    snprintf(path, sizeof(path), "%s/file", folder);
    gy_disk_ops disk = gy_disk_real;
    disk.write = write_while_it_fits;
    gy_env_ops ops = *gy_env_real()->ops;
    ops.disk = &disk;
    gy_env env = {.ops = &ops};
    for (size_t size = 40000; size <= sizeof(noise); size += 5000) {
        disk_left = 60000;
        gy_section_writer *writer = NULL;
        assert_ok(gy_section_writer_new(
            &env,
            &(gy_section_writer_options){
                .path = path, .owner = owner, .count = 2, .memory_bytes = 40000},
            &writer));
        gy_status status = gy_section_add(writer, 1, noise, size);
        bool is_small = false;
        if (status == GY_OK) {
            status = gy_section_finish(writer, &is_small);
        }
        assert_true(status == GY_OK || status == GY_LIMIT);
        assert_true((status == GY_OK) == (size <= 55000)); /* one page before, and the table */
        assert_true(gy_section_is_full(writer) == (status == GY_LIMIT));
        if (status == GY_LIMIT) { /* and says it again */
            assert_status(gy_section_add(writer, 0, "x", 1), GY_LIMIT);
            assert_non_null(strstr(gy_error_text(), "disk full"));
        }
        gy_section_writer_free(writer);
        assert_int_equal(unlink(path), status == GY_OK ? 0 : -1);
    }
}

GY_TEST_MAIN(make_folder, remove_folder)
