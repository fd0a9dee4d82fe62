/*
 * Goal: a snapshot's files are read back as they were written, whatever bit is flipped or end
 * is cut is refused, and a folder's newest whole snapshot is found.
 */
#include "base/disk.h"
#include "ps/snapshot/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "gy_test.h"

enum { PARTS = 3 };

static char folder[64];

static void begin_folder(void)
{
    gy_print(folder, sizeof(folder), "/tmp/gyre-snapshot-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

/* A manifest whose parts have these hashes. */
typedef struct made {
    Gy__Ps__Snapshot of;
    Gy__Ps__SnapshotFile files[PARTS], *file_list[PARTS];
    Gy__Ps__Cut cuts[2], *cut_list[2];
} made;

static void make(made *out, char *name, uint64_t number)
{
    gy__ps__snapshot__init(&out->of);
    for (uint32_t i = 0; i < PARTS; i++) {
        gy__ps__snapshot_file__init(&out->files[i]);
        out->files[i].part = i;
        out->file_list[i] = &out->files[i];
    }
    for (size_t i = 0; i < 2; i++) {
        gy__ps__cut__init(&out->cuts[i]);
        out->cuts[i].table = i == 0 ? "t/a" : "t/b";
        out->cuts[i].clock = 7 + i;
        out->cut_list[i] = &out->cuts[i];
    }
    out->of.id = 100 + number;
    out->of.cluster = 3;
    out->of.number = number;
    out->of.clock = 8;
    out->of.name = name;
    out->of.n_files = PARTS;
    out->of.files = out->file_list;
    out->of.n_tables = 2;
    out->of.tables = out->cut_list;
}

/* Write the parts from `first` on, and the manifest. */
static void write_snapshot(made *out, char *name, uint64_t number, uint32_t first)
{
    make(out, name, number);
    for (uint32_t i = 0; i < PARTS; i++) {
        gy_text image = {.data = NULL};
        const gy_ps_snapshot_part of = {.id = out->of.id, .cluster = 3, .part = i};
        gy_text_add(&image, "part %u of snapshot %llu", i, (unsigned long long)number);
        out->files[i].size_bytes = image.size_bytes;
        assert_ok(gy_ps_snapshot_write(gy_env_real(), folder, name, &of, &image,
                                       &out->files[i].hash));
        gy_text_free(&image);
        if (i < first) {
            assert_ok(gy_ps_snapshot_remove(gy_env_real(), folder, name, i));
        }
    }
    assert_ok(gy_ps_snapshot_finish(gy_env_real(), folder, &out->of));
}

GY_TEST(a_flipped_bit_or_half_a_file_is_refused)
{
    made one;
    gy_text packed = {.data = NULL};
    gy_bytes file = {.data = NULL};
    Gy__Ps__Snapshot *back = NULL;
    begin_folder();
    write_snapshot(&one, "one", 1, 0);
    assert_ok(gy_ps_snapshot_read(gy_env_real(), folder, &one.of, 1, &file));
    for (size_t bit = 0; bit < file.size_bytes * 8; bit++) {
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ 1 << bit % 8);
        assert_true(gy_ps_snapshot_judge(&one.of, 1, "f", file.data, file.size_bytes) < 0);
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t size = 0; size < file.size_bytes; size++) {
        assert_true(gy_ps_snapshot_judge(&one.of, 1, "f", file.data, size) < 0);
    }
    assert_int_equal(gy_ps_snapshot_judge(&one.of, 2, "f", file.data, file.size_bytes),
                     GY_MISMATCH);
    one.of.cluster = 4;
    assert_int_equal(gy_ps_snapshot_judge(&one.of, 1, "f", file.data, file.size_bytes),
                     GY_MISMATCH);
    one.of.cluster = 3;
    assert_ok(gy_ps_snapshot_judge(&one.of, 1, "f", file.data, file.size_bytes));
    gy_free(file.data);
    assert_ok(gy_ps_manifest_pack(&one.of, &packed));
    for (size_t bit = 0; bit < packed.size_bytes * 8; bit++) {
        packed.data[bit / 8] = (char)(packed.data[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(gy_ps_manifest_unpack(packed.data, packed.size_bytes, &back),
                         GY_FORMAT);
        packed.data[bit / 8] = (char)(packed.data[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t size = 0; size < packed.size_bytes; size++) {
        assert_int_equal(gy_ps_manifest_unpack(packed.data, size, &back), GY_FORMAT);
    }
    gy_text_free(&packed);
    assert_int_equal(gy_disk_remove_tree(folder), 0);
}

GY_TEST(a_manifest_that_cannot_be_is_refused)
{
    made one;
    Gy__Ps__Snapshot *back = NULL;
    for (int what = 0; what < 7; what++) {
        gy_text packed = {.data = NULL};
        make(&one, "one", 1);
        one.of.number = what == 0 ? 0 : one.of.number;
        one.of.n_files = what == 1 ? 0 : one.of.n_files;
        one.files[1].part = what == 2 ? 2 : 1;
        one.of.name = what == 3 ? "../one" : one.of.name;
        one.cuts[1].clock = what == 4 ? 9 : 8; /* beyond the snapshot's */
        one.cuts[1].table = what == 5 ? "t/a" : "t/b";
        one.cuts[0].table = what == 6 ? "" : "t/a";
        assert_ok(gy_ps_manifest_pack(&one.of, &packed));
        assert_true(gy_ps_manifest_unpack(packed.data, packed.size_bytes, &back) < 0);
        gy_text_free(&packed);
    }
}

GY_TEST(a_folder_tells_of_its_newest_whole_snapshots)
{
    static char *const names[] = {"a", "b", "c", "d", "e", "f"};
    gy_env *env = gy_env_real();
    gy_ps_snapshot_list list;
    made one;
    char path[128];
    begin_folder();
    assert_ok(gy_ps_snapshots_find(env, folder, &list));
    assert_true(list.count == 0 && list.number == 0);
    for (uint64_t i = 0; i < GY_COUNT(names); i++) { /* f has part 2 alone, e two parts */
        write_snapshot(&one, names[i], i + 1, i == 5 ? 2 : i == 4 ? 1 : 0);
    }
    assert_int_equal(gy_ps_snapshot_check_free(env, folder, "f", 1), GY_EXISTS);
    assert_ok(gy_ps_snapshot_check_free(env, folder, "g", 1));
    gy_print(path, sizeof(path), "%s/c/part-0", folder);
    assert_ok(gy_store_file_write(env, path, "x", 1));
    gy_print(path, sizeof(path), "%s/d/manifest", folder);
    assert_ok(gy_store_file_write(env, path, "x", 1));
    gy_log_set_level(GY_LOG_ERROR);
    assert_ok(gy_ps_snapshots_find(env, folder, &list));
    gy_log_set_level(GY_LOG_WARN);
    assert_int_equal(list.number, 6);
    assert_int_equal(list.count, GY_PS_SNAPSHOTS_KEPT); /* f e c b */
    static const uint32_t counts[] = {1, 2, 2, 3}, first[] = {2, 1, 1, 0};
    for (uint32_t i = 0; i < list.count; i++) {
        assert_int_equal(list.at[i].part_count, counts[i]);
        assert_true(gy_ps_snapshot_has(&list.at[i], first[i]));
        assert_true(first[i] == 0 || !gy_ps_snapshot_has(&list.at[i], 0));
    }
    gy_ps_snapshots_free(&list);
    assert_int_equal(gy_disk_remove_tree(folder), 0);
}

GY_TEST_MAIN(NULL, NULL)
