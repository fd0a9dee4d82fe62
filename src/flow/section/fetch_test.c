/* Goal: a section that goes to another host comes back as it was written; every byte of it that
 * changes, and every cut, is noticed; what asks for another attempt's file gets nothing. */
#include "base/base.h"
#include "flow/section/section_fetch.h"
#include "flow/section/section_priv.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "gy_test.h"

static char folder[64], from[96], to[96];
static const gy_section_owner owner = {.key = {7, 9}, .epoch = 2, .attempt = 5, .member = 1};

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-fetch-XXXXXX");
    const int failed = mkdtemp(folder) == NULL;
    snprintf(from, sizeof(from), "%s/from", folder);
    snprintf(to, sizeof(to), "%s/to", folder);
    return failed;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(from);
    unlink(to);
    return rmdir(folder);
}

enum { COUNT = 3, MOST = 300000 };

typedef struct written {
    uint8_t *data[COUNT];
    size_t size[COUNT];
    gy_key content;
} written;

/* A file of three sections, interleaved. */
static void write_file(gy_random *random, size_t most, written *out)
{
    gy_section_writer *writer = NULL;
    gy_section_writer_options options = {
        .path = from, .owner = owner, .count = COUNT, .memory_bytes = 1 << 20};
    assert_ok(gy_section_writer_new(gy_env_real(), &options, &writer));
    size_t left[COUNT];
    bool is_small = true;
    for (uint32_t i = 0; i < COUNT; i++) {
        left[i] = out->size[i] = 1 + (size_t)gy_random_below(random, most);
        out->data[i] = gy_alloc("test", left[i]);
        assert_non_null(out->data[i]);
        for (size_t k = 0; k < left[i]; k++) {
            out->data[i][k] = (uint8_t)gy_random_u64(random);
        }
    }
    while (left[0] + left[1] + left[2] > 0) {
        const uint32_t i = (uint32_t)gy_random_below(random, COUNT);
        const size_t piece = 1 + (size_t)gy_random_below(random, 70000);
        const size_t size = GY_MIN(left[i], piece);
        assert_ok(gy_section_add(writer, i, out->data[i] + out->size[i] - left[i], size));
        left[i] -= size;
    }
    assert_ok(gy_section_finish(writer, &is_small));
    assert_false(is_small);
    out->content = gy_section_content(gy_section_sums(writer), COUNT);
    gy_section_writer_free(writer);
}

static void free_written(written *out)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        gy_free(out->data[i]);
    }
}

static gy_section_wanted wanted_of(const written *out, uint32_t section, const char *path)
{
    return (gy_section_wanted){
        .path = path, .owner = owner, .content = out->content, .section = section};
}

static gy_status locate(const gy_section_wanted *wanted, gy_net_located *located)
{
    uint8_t asked[GY_SECTION_ASKED_BYTES];
    gy_section_ask(wanted, asked);
    return gy_section_locate(NULL, wanted->path, asked, sizeof(asked), located);
}

/* What the two daemons do: bytes of the extents, the note, its size. */
static size_t carry(const gy_section_wanted *wanted)
{
    gy_net_located located;
    assert_ok(locate(wanted, &located));
    int file = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    size_t size = 0;
    for (uint32_t i = 0; i < located.extent_count; i++) {
        const size_t bytes = (size_t)located.extents[i].size_bytes;
        uint8_t *piece = gy_alloc("test", bytes);
        assert_non_null(piece);
        assert_int_equal(pread(located.fd, piece, bytes, (off_t)located.extents[i].offset),
                         bytes);
        assert_int_equal(write(file, piece, bytes), bytes);
        gy_free(piece);
        size += bytes;
    }
    assert_int_equal(write(file, located.note, located.note_bytes), located.note_bytes);
    assert_int_equal(write(file, &located.note_bytes, sizeof(uint32_t)), sizeof(uint32_t));
    close(file);
    close(located.fd);
    gy_free(located.extents);
    return size + located.note_bytes + sizeof(uint32_t);
}

static gy_status read_back(const gy_section_wanted *wanted, const void *data, size_t size)
{
    gy_section section;
    gy_section_sum sum;
    GY_TRY(gy_section_open_fetched(wanted, &section, &sum));
    gy_status status = gy_section_verify(&section, &sum, wanted->path);
    if (status == GY_OK) {
        assert_int_equal(section.size_bytes, size);
        assert_memory_equal(section.data, data, size);
    }
    gy_section_close(&section);
    return status;
}

GY_TEST(comes_back_as_it_was)
{
    gy_random random = {.key = gy_test_seed()};
    for (int i = 0; i < 12; i++) {
        written out = {0};
        write_file(&random, i % 2 == 0 ? MOST : 9000, &out);
        for (uint32_t section = 0; section < COUNT; section++) {
            gy_section_wanted wanted = wanted_of(&out, section, from);
            (void)carry(&wanted);
            wanted.path = to;
            assert_ok(read_back(&wanted, out.data[section], out.size[section]));
            wanted.section = (section + 1) % COUNT;
            assert_int_equal(read_back(&wanted, NULL, 0), GY_FORMAT);
            wanted.section = section;
            wanted.content.low++;
            assert_int_equal(read_back(&wanted, NULL, 0), GY_FORMAT);
        }
        free_written(&out);
    }
}

GY_TEST(every_byte_counts)
{
    gy_random random = {.key = gy_test_seed()};
    written out = {0};
    write_file(&random, 3000, &out);
    gy_section_wanted wanted = wanted_of(&out, 1, from);
    const size_t size = carry(&wanted);
    wanted.path = to;
    int file = open(to, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    for (size_t at = 0; at < size; at++) {
        uint8_t good = 0;
        assert_int_equal(pread(file, &good, 1, (off_t)at), 1);
        const uint8_t bad = good ^ (uint8_t)(1u << gy_random_below(&random, 8));
        assert_int_equal(pwrite(file, &bad, 1, (off_t)at), 1);
        if (read_back(&wanted, NULL, 0) != GY_FORMAT) {
            fail_msg("byte %zu of %zu may change", at, size);
        }
        assert_int_equal(pwrite(file, &good, 1, (off_t)at), 1);
    }
    assert_ok(read_back(&wanted, out.data[1], out.size[1]));
    for (size_t cut = 1; cut <= size; cut += 1 + size / 97) {
        assert_int_equal(ftruncate(file, (off_t)(size - cut)), 0);
        assert_int_equal(read_back(&wanted, NULL, 0), GY_FORMAT);
    }
    close(file);
    unlink(to);
    assert_int_equal(read_back(&wanted, NULL, 0), GY_NOTFOUND);
    free_written(&out);
}

GY_TEST(gives_nothing_else)
{
    gy_random random = {.key = gy_test_seed()};
    written out = {0};
    gy_net_located located;
    uint8_t asked[GY_SECTION_ASKED_BYTES + 1] = {0};
    write_file(&random, 3000, &out);
    gy_section_wanted wanted = wanted_of(&out, COUNT, from);
    assert_int_equal(locate(&wanted, &located), GY_FORMAT);
    wanted = wanted_of(&out, 0, from);
    wanted.owner.attempt++;
    assert_int_equal(locate(&wanted, &located), GY_FORMAT);
    wanted = wanted_of(&out, 0, from);
    wanted.content.high++;
    assert_int_equal(locate(&wanted, &located), GY_FORMAT);
    wanted = wanted_of(&out, 0, to);
    assert_int_equal(locate(&wanted, &located), GY_NOTFOUND);
    assert_int_equal(gy_section_locate(NULL, from, asked, sizeof(asked), &located), GY_FORMAT);
    assert_int_equal(gy_section_locate(NULL, from, asked, sizeof(asked) - 1, &located),
                     GY_FORMAT);
    assert_int_equal(gy_section_asked(asked, sizeof(asked) - 1, from, &wanted), GY_FORMAT);
    assert_int_equal(located.fd, -1);
    char name[GY_FETCH_NAME_BYTES], other[GY_FETCH_NAME_BYTES];
    wanted = wanted_of(&out, 0, from);
    assert_int_equal(strlen(gy_section_fetch_name(&wanted, name)), 32);
    wanted.section = 1;
    assert_string_not_equal(name, gy_section_fetch_name(&wanted, other));
    wanted.section = 0;
    wanted.owner.attempt++;
    assert_string_not_equal(name, gy_section_fetch_name(&wanted, other));
    free_written(&out);
}

GY_TEST_MAIN(make_folder, remove_folder)
