/* Goal: files as places, and folders that several hosts share: created by one alone whatever
 * the network says, read again when a handle is stale. */
#include "store/files_test.h"
#include "store/remote/remote_priv.h"

#include <errno.h>
#include <pthread.h>
#include <sys/vfs.h>

#include "gy_test.h"

enum { RIVALS = 4 };

GY_TEST(creation_is_exclusive)
{
    char folder[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    test_folder(folder);
    test_path(path, folder, "x");
    gy_env *env = test_env();
    memset(&test_disk_state, 0, sizeof(test_disk_state));
    assert_ok(gy_share_create(env, path, "one", 3));
    assert_string_equal(test_disk_state.order, "wsls"); /* bytes, link, folder */
    assert_status(gy_share_create(env, path, "two", 3), GY_EXISTS);
    gy_bytes got;
    assert_ok(gy_share_read(env, path, 100, &got));
    assert_string_equal(got.data, "one");
    gy_free(got.data);
    assert_int_equal(test_entry_count(folder), 1); /* no other name is left */
    test_remove(folder);
}

/* Every call of the disk fails once: nothing is left but, once it was linked, the whole. */
GY_TEST(a_disk_that_fails_leaves_all_or_nothing)
{
    char folder[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    test_folder(folder);
    test_path(path, folder, "x");
    gy_status status = GY_IO;
    for (int n = 1; status != GY_OK; n++) {
        memset(&test_disk_state, 0, sizeof(test_disk_state));
        test_disk_state.countdown = n;
        test_disk_state.error = -EIO;
        status = gy_share_create(test_env(), path, "whole", 5);
        test_disk_state.countdown = 0;
        gy_bytes got = {NULL, 0};
        if (gy_store_file_read(gy_env_real(), path, 100, &got) == GY_OK) {
            assert_string_equal(got.data, "whole");
            gy_free(got.data);
            assert_int_equal(test_entry_count(folder), 1);
            assert_int_equal(unlink(path), 0);
        } else {
            assert_int_equal(status, GY_IO);
            assert_int_equal(test_entry_count(folder), 0);
        }
        assert_int_equal(test_disk_state.open_files, 0);
        assert_true(n < 50);
    }
    test_remove(folder);
}

/* A link that was made, and an answer that says it was not. */
static int lying_link(gy_env *env, const char *from, const char *to)
{
    const int error = gy_disk_real.link(env, from, to);
    return error == 0 ? -EEXIST : error;
}

static int refusing_link(gy_env *env, const char *from, const char *to)
{
    (void)env, (void)from, (void)to;
    return -EPERM;
}

static int stale_left;
static int64_t stale_read(gy_env *env, int file, void *data, size_t size)
{
    return stale_left-- > 0 ? -ESTALE : gy_disk_real.read(env, file, data, size);
}

GY_TEST(answers_may_be_lost_and_handles_stale)
{
    char folder[TEST_PATH_BYTES], path[TEST_PATH_BYTES];
    test_folder(folder);
    test_path(path, folder, "x");
    gy_disk_ops disk = gy_disk_real;
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {.ops = &ops};
    ops.disk = &disk;
    disk.link = lying_link;
    assert_ok(gy_share_create(&env, path, "one", 3));
    assert_status(gy_share_create(&env, path, "two", 3), GY_EXISTS);
    disk.link = refusing_link;
    assert_status(gy_share_create(&env, test_path(path, folder, "y"), "1", 1), GY_UNSUPPORTED);
    test_path(path, folder, "x");
    disk.read = stale_read;
    stale_left = 1;
    gy_bytes got;
    assert_ok(gy_share_read(&env, path, 100, &got));
    assert_string_equal(got.data, "one");
    gy_free(got.data);
    stale_left = 100;
    assert_status(gy_share_read(&env, path, 100, &got), GY_IO);
    assert_non_null(strstr(gy_error_text(), "stale"));
    assert_status(gy_share_read(gy_env_real(), path, 2, &got), GY_LIMIT);
    char other[TEST_PATH_BYTES];
    assert_ok(gy_share_rename(gy_env_real(), path, test_path(other, folder, "z")));
    assert_status(gy_share_rename(gy_env_real(), path, other), GY_NOTFOUND);
    test_remove(folder);
}

GY_TEST(file_systems_are_known)
{
    gy_share share;
    assert_ok(gy_share_look("/dev/shm", &share));
    struct statfs facts;
    if (statfs("/dev/shm", &facts) == 0 && facts.f_type == 0x01021994) {
        assert_string_equal(share.name, "tmpfs");
        assert_true(share.is_exclusive && !share.is_network);
    }
    assert_ok(gy_share_look("/proc", &share));
    assert_string_equal(share.name, "unknown");
    assert_false(share.is_exclusive);
    assert_status(gy_share_look("/nonexistent", &share), GY_NOTFOUND);
}

typedef struct rival {
    const char *uri;
    gy_status status;
    char number;
} rival;

static void *create_one(void *arg)
{
    rival *self = arg;
    gy_place *place = NULL;
    self->status = gy_place_open(gy_env_real(), self->uri, NULL, &place);
    if (self->status == GY_OK) {
        self->status = gy_place_write(place, GY_PLACE_NEW, &self->number, 1);
    }
    gy_place_close(place);
    return NULL;
}

static gy_status note(void *arg, const gy_place_entry *entry)
{
    gy_text_add(arg, "%s:%llu ", entry->name, (unsigned long long)entry->facts.size_bytes);
    return GY_OK;
}

GY_TEST(files_are_places)
{
    char folder[TEST_PATH_BYTES], path[TEST_PATH_BYTES], uri[TEST_PATH_BYTES + 8];
    test_folder(folder);
    test_path(path, folder, "x");
    snprintf(uri, sizeof(uri), "file:%s", path);
    rival rivals[RIVALS];
    pthread_t threads[RIVALS];
    for (int i = 0; i < RIVALS; i++) {
        rivals[i] = (rival){uri, GY_OK, (char)('0' + i)};
        assert_int_equal(pthread_create(&threads[i], NULL, create_one, &rivals[i]), 0);
    }
    char winner = '\0';
    for (int i = 0; i < RIVALS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(rivals[i].status == GY_EXISTS ||
                    (rivals[i].status == GY_OK && winner == '\0'));
        winner = rivals[i].status == GY_OK ? rivals[i].number : winner;
    }
    gy_place *place = NULL;
    assert_ok(gy_place_open(gy_env_real(), uri, NULL, &place));
    gy_place_facts facts;
    char out[8];
    size_t got = 0;
    assert_ok(gy_place_stat(place, &facts));
    assert_ok(gy_place_read(place, facts.version, 0, out, sizeof(out), &got));
    assert_int_equal(got, 1);
    assert_int_equal(out[0], winner);
    assert_ok(gy_place_write(place, GY_PLACE_REPLACE, "more", 4));
    assert_status(gy_place_read(place, facts.version, 0, out, sizeof(out), &got), GY_STATE);
    gy_place_close(place);
    test_put(test_path(path, folder, "a"), "12", 2);
    gy_text names = {0};
    assert_ok(gy_place_open(gy_env_real(), folder, NULL, &place));
    assert_ok(gy_place_list(place, note, &names));
    assert_string_equal(gy_text_get(&names), "a:2 x:4 ");
    gy_text_free(&names);
    assert_status(gy_place_remove(place), GY_IO);
    gy_place_close(place);
    assert_ok(gy_place_open(gy_env_real(), uri, NULL, &place));
    assert_ok(gy_place_remove(place));
    assert_ok(gy_place_remove(place));
    assert_status(gy_place_stat(place, &facts), GY_NOTFOUND);
    gy_place_close(place);
    test_remove(folder);
}

GY_TEST_MAIN(NULL, NULL)
