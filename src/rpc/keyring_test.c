/*
 * Goal: key rings are made, rotated, retired and derived with care; what a node derives follows
 * the definition; a file that is wrong is refused without its secrets being said.
 */
#include "rpc/keyring.h"

#include "transport/net.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gy_test.h"

typedef struct scene {
    char folder[32], ring[64], other[64];
} scene;

static void open_scene(scene *at)
{
    *at = (scene){.folder = "/tmp/gyre-ring-XXXXXX"};
    assert_non_null(mkdtemp(at->folder));
    snprintf(at->ring, sizeof(at->ring), "%s/ring", at->folder);
    snprintf(at->other, sizeof(at->other), "%s/other", at->folder);
}

static void close_scene(scene *at)
{
    unlink(at->ring);
    unlink(at->other);
    assert_int_equal(rmdir(at->folder), 0);
}

static void write_ring(const char *path, const char *text)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

#define HEX32 "6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b"

static void offered(const gy_keyring *ring, gy_rpc_role role, char name[GY_KEYRING_NAME_BYTES],
                    uint8_t key[GY_KEYRING_KEY_BYTES])
{
    gy_rpc_role proved = GY_RPC_ROLES;
    assert_ok(gy_keyring_offer(ring, role, name, key));
    const uint8_t *found = gy_keyring_find(ring, name, &proved);
    assert_non_null(found);
    assert_memory_equal(found, key, GY_KEYRING_KEY_BYTES);
    assert_int_equal(proved, role);
}

static void keys_follow_their_definition(void **state)
{
    (void)state;
    /* HKDF-SHA256 of 32 bytes "k", salt 3 and fifteen zeros, info "gyre rpc daemon", by an
     * independent program. */
    static const uint8_t expected[GY_KEYRING_KEY_BYTES] = {
        0x76, 0x05, 0x77, 0x99, 0xc1, 0x44, 0x06, 0x37, 0x95, 0x5a, 0x15,
        0x3b, 0xdd, 0x3a, 0xb2, 0x9a, 0x11, 0xfe, 0x3f, 0x9d, 0x02, 0xf9,
        0x66, 0x4d, 0x87, 0x0b, 0xe3, 0xda, 0x12, 0x24, 0xd2, 0x0e};
    scene at;
    gy_keyring *ring = NULL;
    char name[GY_KEYRING_NAME_BYTES], other[GY_KEYRING_NAME_BYTES];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    open_scene(&at);
    write_ring(at.ring, "# a comment\n\n2 " HEX32 HEX32 "\n3 " HEX32 "\n");
    assert_ok(gy_keyring_open(at.ring, &ring));
    offered(ring, GY_RPC_DAEMON, name, key);
    assert_memory_equal(key, expected, sizeof(expected));
    assert_int_equal(strncmp(name, "gyre rpc daemon 3 ", 18), 0);
    assert_int_equal(strlen(name), 26);
    offered(ring, GY_RPC_MANAGER, other, key);
    assert_string_not_equal(name, other);
    assert_memory_not_equal(key, expected, sizeof(expected));
    assert_string_equal(gy_keyring_text(ring), "epochs 2 to 3");
    gy_keyring_free(ring);
    close_scene(&at);
}

static void rings_are_rotated_and_retired(void **state)
{
    (void)state;
    scene at;
    gy_keyring *ring = NULL;
    struct stat facts;
    uint64_t epoch = 0;
    char first[GY_KEYRING_NAME_BYTES], second[GY_KEYRING_NAME_BYTES];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    gy_rpc_role role;
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    assert_status(gy_keyring_make(at.ring), GY_EXISTS);
    assert_int_equal(stat(at.ring, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_ok(gy_keyring_open(at.ring, &ring));
    offered(ring, GY_RPC_SUBMITTER, first, key);
    assert_status(gy_keyring_refresh(ring), GY_OK);
    assert_status(gy_keyring_retire(at.ring, 1), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "the only one"));
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_int_equal(epoch, 2);
    assert_int_equal(stat(at.ring, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_status(gy_keyring_refresh(ring), GY_AGAIN);
    offered(ring, GY_RPC_SUBMITTER, second, key);
    assert_string_not_equal(first, second);
    assert_non_null(gy_keyring_find(ring, first, &role));
    assert_status(gy_keyring_retire(at.ring, 7), GY_NOTFOUND);
    assert_ok(gy_keyring_retire(at.ring, 1));
    assert_status(gy_keyring_refresh(ring), GY_AGAIN);
    assert_null(gy_keyring_find(ring, first, &role));
    assert_non_null(gy_keyring_find(ring, second, &role));
    /* A ring that became unreadable leaves the keys that there were. */
    gy_log_set_level(GY_LOG_ERROR);
    assert_int_equal(chmod(at.ring, 0644), 0);
    assert_status(gy_keyring_refresh(ring), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "mode 0644"));
    assert_status(gy_keyring_refresh(ring), GY_OK); /* said once */
    assert_non_null(gy_keyring_find(ring, second, &role));
    gy_log_set_level(GY_LOG_WARN);
    gy_keyring_free(ring);
    /* Two changes at once: the second is refused. */
    assert_int_equal(chmod(at.ring, 0600), 0);
    snprintf(at.other, sizeof(at.other), "%s/ring.new", at.folder);
    write_ring(at.other, "");
    assert_status(gy_keyring_rotate(at.ring, &epoch), GY_EXISTS);
    assert_non_null(strstr(gy_error_text(), "another change"));
    close_scene(&at);
}

static void a_role_alone_is_derived(void **state)
{
    (void)state;
    scene at;
    gy_keyring *all = NULL, *one = NULL;
    uint64_t epoch = 0;
    char name[2][GY_KEYRING_NAME_BYTES];
    uint8_t key[2][GY_KEYRING_KEY_BYTES];
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_ok(gy_keyring_derive(at.ring, GY_RPC_SUBMITTER, at.other));
    assert_status(gy_keyring_derive(at.ring, GY_RPC_SUBMITTER, at.other), GY_EXISTS);
    assert_ok(gy_keyring_open(at.ring, &all));
    assert_ok(gy_keyring_open(at.other, &one));
    offered(all, GY_RPC_SUBMITTER, name[0], key[0]);
    offered(one, GY_RPC_SUBMITTER, name[1], key[1]);
    assert_string_equal(name[0], name[1]);
    assert_memory_equal(key[0], key[1], sizeof(key[0]));
    assert_status(gy_keyring_offer(one, GY_RPC_DAEMON, name[1], key[1]), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "no key of a daemon"));
    assert_status(gy_keyring_rotate(at.other, &epoch), GY_STATE);
    gy_keyring_free(all);
    gy_keyring_free(one);
    unlink(at.other);
    write_ring(at.ring, "4 watcher " HEX32 "\n");
    assert_status(gy_keyring_derive(at.ring, GY_RPC_SUBMITTER, at.other), GY_STATE);
    close_scene(&at);
}

static void wrong_rings_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"", "no key in it"},
        {HEX32 "\n", "ring:1: 1 words"},
        {"0 " HEX32 "\n", "no epoch"},
        {"-3 " HEX32 "\n", "no epoch"},
        {"99999999999999999999 " HEX32 "\n", "no epoch"},
        {"1 6b6b\n", "a key of 2 bytes: expected at least 32"},
        {"1 " HEX32 "\n2 " HEX32 "6\n", "ring:2: the last word is not a key"},
        {"1 " HEX32 "xx\n", "not a key"},
        {"1 king " HEX32 "\n", "no role"},
        {"1 daemon " HEX32 "00\n", "a key of 33 bytes: expected 32"},
        {"1 " HEX32 "\n1 " HEX32 "\n", "two keys for one role"},
        {"1 " HEX32 "\n1 daemon " HEX32 "\n", "two keys for one role"},
        {"1 daemon " HEX32 " more\n", "4 words"},
        {"1 \001" HEX32 "\n", "expected text"},
    };
    scene at;
    gy_keyring *ring = NULL;
    open_scene(&at);
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        write_ring(at.ring, wrong[i].text);
        assert_status(gy_keyring_open(at.ring, &ring), GY_FORMAT);
        if (strstr(gy_error_text(), wrong[i].said) == NULL ||
            strstr(gy_error_text(), "6b6b") != NULL) {
            fail_msg("ring %zu: \"%s\", expected \"%s\"", i, gy_error_text(), wrong[i].said);
        }
    }
    assert_int_equal(unlink(at.ring), 0);
    assert_status(gy_keyring_open(at.ring, &ring), GY_NOTFOUND);
    write_ring(at.other, "1 " HEX32 "\n");
    assert_int_equal(symlink(at.other, at.ring), 0);
    assert_status(gy_keyring_open(at.ring, &ring), GY_IO); /* nothing is followed */
    assert_int_equal(unlink(at.ring), 0);
    assert_int_equal(mkdir(at.ring, 0700), 0);
    assert_status(gy_keyring_open(at.ring, &ring), GY_STATE);
    assert_int_equal(rmdir(at.ring), 0);
    close_scene(&at);
}

static void no_memory_is_no_harm(void **state)
{
    (void)state;
    scene at;
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    snprintf(at.other, sizeof(at.other), "%s/ring.new", at.folder);
    int64_t live = gy_alloc_live();
    for (int64_t n = 1; n < 8; n++) {
        gy_keyring *ring = NULL;
        uint64_t epoch = 0;
        gy_alloc_fail_after(n);
        gy_status status = gy_keyring_open(at.ring, &ring);
        gy_alloc_fail_after(0);
        assert_true(status == GY_OK || status == GY_NOMEM);
        if (status == GY_OK) {
            gy_keyring_free(ring);
        }
        gy_alloc_fail_after(n);
        status = gy_keyring_rotate(at.ring, &epoch);
        gy_alloc_fail_after(0);
        assert_true(status <= 0);
        assert_int_equal(access(at.other, F_OK), -1); /* nothing half-written */
        assert_int_equal(stat(at.ring, &(struct stat){0}), 0);
        assert_int_equal(gy_alloc_live(), live);
    }
    close_scene(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_follow_their_definition),
        cmocka_unit_test(rings_are_rotated_and_retired),
        cmocka_unit_test(a_role_alone_is_derived),
        cmocka_unit_test(wrong_rings_are_refused),
        cmocka_unit_test(no_memory_is_no_harm),
    };
    return cmocka_run_group_tests_name("rpc_keyring", tests, NULL, NULL);
}
