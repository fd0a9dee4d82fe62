/* Goal: what was synced survives a crash, what was not may go or be torn, faults come as asked.
 */
#include "base/disk.h"
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "gy_test.h"

static gy_sim *sim;
static gy_env *env;
static const gy_disk_ops *disk;

static void start(uint64_t seed)
{
    assert_ok(gy_sim_new(&(gy_sim_options){.seed = seed, .nodes = 2}, &sim));
    env = gy_sim_env(sim, 0);
    disk = gy_env_disk(env);
}

static void end(void)
{
    gy_sim_free(sim);
    assert_int_equal(gy_alloc_live(), 0);
}

static void write_file(const char *path, char letter, size_t size_bytes, bool is_synced)
{
    char *bytes = gy_alloc("test", size_bytes);
    memset(bytes, letter, size_bytes);
    int file = disk->open(env, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(file >= 0);
    assert_int_equal(disk->write(env, file, bytes, size_bytes), size_bytes);
    if (is_synced) {
        assert_int_equal(disk->sync(env, file), 0);
    }
    assert_int_equal(disk->close(env, file), 0);
    gy_free(bytes);
}

static void sync_folder(const char *path)
{
    int folder = disk->open(env, path, O_RDONLY | O_DIRECTORY, 0);
    assert_true(folder >= 0);
    assert_int_equal(disk->sync(env, folder), 0);
    assert_int_equal(disk->close(env, folder), 0);
}

/* Bytes of the file, -1 when there is none; counts how many are `letter`. */
static int64_t read_file(const char *path, char letter, int64_t *matching)
{
    static char bytes[1 << 16];
    int file = disk->open(env, path, O_RDONLY, 0);
    *matching = 0;
    if (file < 0) {
        assert_int_equal(file, -ENOENT);
        return -1;
    }
    int64_t size = disk->read(env, file, bytes, sizeof(bytes));
    assert_int_equal(size, disk->size(env, file));
    for (int64_t i = 0; i < size; i++) {
        *matching += bytes[i] == letter;
    }
    assert_int_equal(disk->close(env, file), 0);
    return size;
}

GY_TEST(files_work_without_faults)
{
    start(1);
    int64_t matching = 0;
    write_file("/d/a", 'a', 5000, false);
    assert_int_equal(read_file("/d/a", 'a', &matching), 5000);
    assert_int_equal(matching, 5000);
    assert_int_equal(disk->open(env, "/d/a", O_WRONLY | O_CREAT | O_EXCL, 0666), -EEXIST);
    int file = disk->open(env, "/d/a", O_WRONLY | O_APPEND, 0);
    assert_int_equal(disk->write(env, file, "bb", 2), 2);
    assert_int_equal(disk->close(env, file), 0);
    assert_int_equal(disk->close(env, file), -EBADF);
    assert_int_equal(read_file("/d/a", 'b', &matching), 5002);
    assert_int_equal(matching, 2);
    assert_int_equal(disk->open(env, "/d/a", O_RDONLY | O_DIRECTORY, 0), -ENOTDIR);
    assert_int_equal(disk->rename(env, "/d/a", "/d/c"), 0);
    assert_int_equal(disk->rename(env, "/d/a", "/d/c"), -ENOENT);
    assert_int_equal(read_file("/d/a", 'a', &matching), -1);
    assert_int_equal(disk->unlink(env, "/d/c"), 0);
    assert_int_equal(disk->unlink(env, "/d/c"), -ENOENT);
    end();
}

GY_TEST(synced_survives)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        start(seed);
        int64_t matching = 0;
        write_file("/d/a", 'a', 3000, true);
        sync_folder("/d");
        write_file("/d/b", 'b', 3000, false);
        gy_sim_crash(sim, 0);
        gy_sim_restart(sim, 0);
        assert_int_equal(read_file("/d/a", 'a', &matching), 3000);
        assert_int_equal(matching, 3000);
        end();
    }
}

/* Over many seeds an unsynced file is seen missing, empty, whole and torn; never with other
 * bytes. */
GY_TEST(unsynced_goes_or_is_torn)
{
    int missing = 0, torn = 0, whole = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        start(seed);
        int64_t matching = 0;
        write_file("/d/a", 'a', 3 * GY_SIM_SECTOR_BYTES, false);
        gy_sim_crash(sim, 0);
        gy_sim_restart(sim, 0);
        int64_t size = read_file("/d/a", 'a', &matching), zeros = 0;
        missing += size < 0;
        whole += matching == 3 * GY_SIM_SECTOR_BYTES;
        torn += size >= 0 && matching < 3 * GY_SIM_SECTOR_BYTES;
        if (size >= 0) {
            assert_int_equal(read_file("/d/a", '\0', &zeros), size);
            assert_int_equal(zeros + matching, size);
        }
        end();
    }
    assert_true(missing > 50 && torn > 50 && whole > 5);
}

/* Write beside, sync, rename, sync the folder: the reader sees the old or the new, whole. */
GY_TEST(replacement_is_atomic)
{
    int old = 0, new = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        start(seed);
        int64_t matching = 0;
        write_file("/d/a", 'a', 2000, true);
        sync_folder("/d");
        write_file("/d/a.new", 'b', 2500, true);
        assert_int_equal(disk->rename(env, "/d/a.new", "/d/a"), 0);
        bool is_synced = seed % 3 == 0;
        if (is_synced) {
            sync_folder("/d");
        }
        gy_sim_crash(sim, 0);
        gy_sim_restart(sim, 0);
        int64_t size = read_file("/d/a", 'b', &matching);
        old += size == 2000 && matching == 0;
        new += size == 2500 && matching == 2500;
        assert_int_equal(old + new, seed + 1);
        assert_true(!is_synced || size == 2500);
        end();
    }
    assert_true(old > 30 && new > 130);
}

GY_TEST(faults_come_as_asked)
{
    start(3);
    int errors = 0;
    gy_sim_set_faults(sim, 0, &(gy_sim_faults){.write_error = 0.25, .read_error = 1});
    int file = disk->open(env, "/d/a", O_RDWR | O_CREAT, 0666);
    for (int i = 0; i < 400; i++) {
        int64_t wrote = disk->write(env, file, "x", 1);
        assert_true(wrote == 1 || wrote == -EIO);
        errors += wrote < 0;
    }
    assert_in_range(errors, 60, 140);
    char byte = 0;
    assert_int_equal(disk->read(env, file, &byte, 1), -EIO);
    gy_sim_set_faults(sim, 0, &(gy_sim_faults){.capacity_bytes = 1000});
    char bytes[900] = "";
    int other = disk->open(env, "/d/b", O_WRONLY | O_CREAT, 0666);
    int64_t left = 1000 - (400 - errors);
    assert_int_equal(disk->write(env, other, bytes, 900), left);
    assert_int_equal(disk->write(env, other, bytes, 900), -ENOSPC);
    assert_int_equal(disk->unlink(env, "/d/b"), 0);
    int third = disk->open(env, "/d/c", O_WRONLY | O_CREAT, 0666);
    assert_int_equal(disk->write(env, third, bytes, 500), 500);
    end();
}

/* After a failed sync a good one does not bring the lost bytes back. */
GY_TEST(failed_sync_is_not_mended)
{
    start(3);
    int64_t matching = 0;
    int file = disk->open(env, "/d/a", O_RDWR | O_CREAT, 0666);
    sync_folder("/d");
    assert_int_equal(disk->write(env, file, "data", 4), 4);
    gy_sim_set_faults(sim, 0, &(gy_sim_faults){.sync_error = 1});
    assert_int_equal(disk->sync(env, file), -EIO);
    gy_sim_set_faults(sim, 0, &(gy_sim_faults){.sync_error = 0});
    assert_int_equal(disk->sync(env, file), 0);
    gy_sim_crash(sim, 0);
    gy_sim_restart(sim, 0);
    assert_int_equal(read_file("/d/a", 'd', &matching), 0);
    end();
}

/* A second name is made once, outlives the first, and holds the bytes until it goes. */
GY_TEST(links_are_names)
{
    start(4);
    int64_t matching = 0;
    gy_sim_set_faults(sim, 0, &(gy_sim_faults){.capacity_bytes = 100});
    write_file("/d/a", 'a', 60, true);
    assert_int_equal(disk->link(env, "/d/none", "/d/b"), -ENOENT);
    assert_int_equal(disk->link(env, "/d/a", "/d/b"), 0);
    assert_int_equal(disk->link(env, "/d/a", "/d/b"), -EEXIST);
    assert_int_equal(disk->links(env, "/d/a"), 2);
    assert_int_equal(disk->unlink(env, "/d/a"), 0);
    assert_int_equal(disk->links(env, "/d/b"), 1);
    assert_int_equal(disk->links(env, "/d/a"), -ENOENT);
    char bytes[60] = "";
    int file = disk->open(env, "/d/c", O_WRONLY | O_CREAT, 0666);
    assert_int_equal(disk->write(env, file, bytes, 60), 40); /* its bytes are still taken */
    assert_int_equal(disk->unlink(env, "/d/c"), 0);
    sync_folder("/d");
    gy_sim_crash(sim, 0);
    gy_sim_restart(sim, 0);
    assert_int_equal(read_file("/d/b", 'a', &matching), 60);
    assert_int_equal(matching, 60);
    file = disk->open(env, "/d/c", O_WRONLY | O_CREAT, 0666);
    assert_int_equal(disk->write(env, file, bytes, 60), 40);
    assert_int_equal(disk->unlink(env, "/d/b"), 0);
    assert_int_equal(disk->write(env, file, bytes, 60), 60);
    end();
}

GY_TEST_MAIN(NULL, NULL)
