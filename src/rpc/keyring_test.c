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

static gy_keyring_who offered(const gy_keyring *ring, gy_rpc_role role, const char *subject,
                              char name[GY_KEYRING_NAME_BYTES],
                              uint8_t key[GY_KEYRING_KEY_BYTES])
{
    gy_keyring_who who = {.role = role}, proved = {.role = GY_RPC_ROLES};
    uint8_t found[GY_KEYRING_KEY_BYTES];
    snprintf(who.subject, sizeof(who.subject), "%s", subject);
    assert_ok(gy_keyring_offer(ring, &who, 0, name, key));
    assert_true(gy_keyring_find(ring, name, &proved, found));
    assert_memory_equal(found, key, GY_KEYRING_KEY_BYTES);
    assert_int_equal(proved.role, role);
    assert_string_equal(proved.subject, who.subject);
    return who;
}

/* Does the ring know a key of that name? */
static bool knows(const gy_keyring *ring, const char *name)
{
    gy_keyring_who who;
    uint8_t key[GY_KEYRING_KEY_BYTES];
    return gy_keyring_find(ring, name, &who, key);
}

static bool can_be(const gy_keyring *ring, gy_rpc_role role, const char *subject)
{
    gy_keyring_who who = {.role = role};
    char name[GY_KEYRING_NAME_BYTES];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    snprintf(who.subject, sizeof(who.subject), "%s", subject);
    return gy_keyring_offer(ring, &who, 0, name, key) == GY_OK;
}

GY_TEST(keys_follow_their_definition)
{
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
    offered(ring, GY_RPC_DAEMON, "", name, key);
    assert_memory_equal(key, expected, sizeof(expected));
    assert_int_equal(strncmp(name, "gyre rpc daemon 3 ", 18), 0);
    assert_int_equal(strlen(name), 26);
    offered(ring, GY_RPC_MANAGER, "", other, key);
    assert_string_not_equal(name, other);
    assert_memory_not_equal(key, expected, sizeof(expected));
    assert_string_equal(gy_keyring_text(ring), "epochs 2 to 3");
    /* Of that, the same with info "gyre rpc daemon job-1". */
    static const uint8_t of_job[GY_KEYRING_KEY_BYTES] = {
        0xf1, 0x95, 0x4d, 0xbd, 0xd9, 0x2c, 0x96, 0x73, 0x5b, 0xc7, 0x82,
        0xce, 0x95, 0x8b, 0x8a, 0x97, 0xb3, 0xb1, 0x94, 0xa5, 0x12, 0xfb,
        0xd8, 0x0a, 0xa9, 0xe3, 0x3f, 0xa9, 0x4a, 0x96, 0x20, 0x80};
    offered(ring, GY_RPC_DAEMON, "job-1", name, key);
    assert_memory_equal(key, of_job, sizeof(of_job));
    assert_int_equal(strncmp(name, "gyre rpc daemon/job-1 3 ", 24), 0);
    gy_keyring_free(ring);
    close_scene(&at);
}

GY_TEST(rings_are_rotated_and_retired)
{
    scene at;
    gy_keyring *ring = NULL;
    struct stat facts;
    uint64_t epoch = 0;
    char first[GY_KEYRING_NAME_BYTES], second[GY_KEYRING_NAME_BYTES];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    assert_status(gy_keyring_make(at.ring), GY_EXISTS);
    assert_int_equal(stat(at.ring, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_ok(gy_keyring_open(at.ring, &ring));
    offered(ring, GY_RPC_SUBMITTER, "", first, key);
    assert_status(gy_keyring_refresh(ring), GY_OK);
    assert_status(gy_keyring_retire(at.ring, 1), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "the only one"));
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_int_equal(epoch, 2);
    assert_int_equal(stat(at.ring, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_status(gy_keyring_refresh(ring), GY_AGAIN);
    offered(ring, GY_RPC_SUBMITTER, "", second, key);
    assert_string_not_equal(first, second);
    assert_true(knows(ring, first));
    assert_status(gy_keyring_retire(at.ring, 7), GY_NOTFOUND);
    assert_ok(gy_keyring_retire(at.ring, 1));
    assert_status(gy_keyring_refresh(ring), GY_AGAIN);
    assert_false(knows(ring, first));
    assert_true(knows(ring, second));
    /* A ring that became unreadable leaves the keys that there were. */
    gy_log_set_level(GY_LOG_ERROR);
    assert_int_equal(chmod(at.ring, 0644), 0);
    assert_status(gy_keyring_refresh(ring), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "mode 0644"));
    assert_status(gy_keyring_refresh(ring), GY_OK); /* said once */
    assert_true(knows(ring, second));
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

GY_TEST(a_role_alone_is_derived)
{
    scene at;
    gy_keyring *all = NULL, *one = NULL;
    uint64_t epoch = 0;
    char name[2][GY_KEYRING_NAME_BYTES];
    uint8_t key[2][GY_KEYRING_KEY_BYTES];
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_ok(gy_keyring_derive(at.ring, "submitter", at.other));
    assert_ok(gy_keyring_derive(at.ring, "submitter", at.other)); /* as it was */
    assert_status(gy_keyring_derive(at.ring, "daemon", at.other), GY_EXISTS);
    assert_status(gy_keyring_derive(at.other, "submitter", at.ring), GY_EXISTS);
    assert_ok(gy_keyring_open(at.ring, &all));
    assert_ok(gy_keyring_open(at.other, &one));
    offered(all, GY_RPC_SUBMITTER, "", name[0], key[0]);
    offered(one, GY_RPC_SUBMITTER, "", name[1], key[1]);
    assert_string_equal(name[0], name[1]);
    assert_memory_equal(key[0], key[1], sizeof(key[0]));
    assert_false(can_be(one, GY_RPC_DAEMON, ""));
    assert_non_null(strstr(gy_error_text(), "no key of a daemon"));
    assert_string_equal(gy_keyring_text(one), "epochs 1 to 2 of submitter alone");
    assert_status(gy_keyring_rotate(at.other, &epoch), GY_STATE);
    gy_keyring_free(all);
    gy_keyring_free(one);
    unlink(at.other);
    write_ring(at.ring, "4 watcher " HEX32 "\n");
    assert_status(gy_keyring_derive(at.ring, "submitter", at.other), GY_STATE);
    close_scene(&at);
}

/* ---- Subjects ---- */

static void write_derived(const scene *at, const char *who)
{
    unlink(at->other);
    assert_ok(gy_keyring_derive(at->ring, who, at->other));
}

GY_TEST(a_subject_is_one_of_its_role)
{
    scene at;
    gy_keyring *all = NULL, *daemon = NULL, *job = NULL;
    uint64_t epoch = 0;
    char name[GY_KEYRING_NAME_BYTES], other[GY_KEYRING_NAME_BYTES];
    uint8_t key[2][GY_KEYRING_KEY_BYTES];
    struct stat facts;
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_ok(gy_keyring_open(at.ring, &all));
    write_derived(&at, "daemon,manager");
    assert_ok(gy_keyring_open(at.other, &daemon));
    assert_string_equal(gy_keyring_text(daemon), "epochs 1 to 2 of daemon, manager alone");
    write_derived(&at, "manager/job-1");
    assert_int_equal(stat(at.other, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_ok(gy_keyring_open(at.other, &job));
    assert_string_equal(gy_keyring_text(job), "epochs 1 to 2 of manager/job-1 alone");
    /* It is what it says without being told, and those who have more find the same key. */
    gy_keyring_who who = offered(job, GY_RPC_MANAGER, "", name, key[0]);
    assert_string_equal(who.subject, "job-1");
    offered(all, GY_RPC_MANAGER, "job-1", other, key[1]);
    assert_string_equal(name, other);
    assert_memory_equal(key[0], key[1], sizeof(key[0]));
    offered(daemon, GY_RPC_MANAGER, "job-1", other, key[1]);
    assert_string_equal(name, other);
    assert_memory_equal(key[0], key[1], sizeof(key[0]));
    assert_true(knows(all, name) && knows(daemon, name) && knows(job, name));
    /* It is nothing else, and verifies nobody else. */
    assert_true(can_be(daemon, GY_RPC_MANAGER, "job-2"));
    assert_false(can_be(daemon, GY_RPC_SUBMITTER, "job-1"));
    assert_false(can_be(job, GY_RPC_MANAGER, "job-2"));
    assert_false(can_be(job, GY_RPC_DAEMON, ""));
    offered(all, GY_RPC_MANAGER, "", other, key[1]);
    assert_false(knows(job, other));
    assert_memory_not_equal(key[0], key[1], sizeof(key[0]));
    offered(all, GY_RPC_MANAGER, "job-2", other, key[1]);
    assert_true(knows(daemon, other) && !knows(job, other));
    offered(all, GY_RPC_SUBMITTER, "job-1", other, key[1]);
    assert_false(knows(daemon, other)); /* that of another role */
    gy_keyring_free(all);
    gy_keyring_free(daemon);
    gy_keyring_free(job);
    close_scene(&at);
}

GY_TEST(scoped_rings_are_made_and_made_anew)
{
    static const char long_one[] =
        "1234567890123456789012345678901234567890123456789012345678901234";
    static const char *const wrong[] = {
        "",
        "a b",
        "a\tb",
        "a\n",
        "\303\244",
        "\177",
        "12345678901234567890123456789012345678901234567890123456789012345"};
    scene at;
    gy_keyring *job = NULL, *all = NULL;
    uint64_t epoch = 0;
    char first[GY_KEYRING_NAME_BYTES], second[GY_KEYRING_NAME_BYTES], text[512];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        assert_status(gy_keyring_scope(at.ring, GY_RPC_MANAGER, wrong[i], at.other), GY_ARG);
    }
    assert_ok(gy_keyring_scope(at.ring, GY_RPC_MANAGER, long_one, at.other));
    assert_ok(gy_keyring_open(at.other, &job));
    offered(job, GY_RPC_MANAGER, long_one, first, key);
    assert_status(gy_keyring_scope(at.ring, GY_RPC_MANAGER, "job-1", at.other), GY_EXISTS);
    assert_non_null(strstr(gy_error_text(), "holds other keys"));
    /* After a rotation the same file gets the new epoch's too, and loses the old one's. */
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_ok(gy_keyring_scope(at.ring, GY_RPC_MANAGER, long_one, at.other));
    assert_status(gy_keyring_refresh(job), GY_AGAIN);
    offered(job, GY_RPC_MANAGER, "", second, key);
    assert_true(knows(job, first) && strcmp(first, second) != 0);
    assert_ok(gy_keyring_open(at.ring, &all));
    assert_true(knows(all, first) && knows(all, second));
    assert_ok(gy_keyring_retire(at.ring, 1));
    assert_status(gy_keyring_refresh(all), GY_AGAIN);
    assert_true(!knows(all, first) && knows(all, second));
    /* From a role's key as from the secret; what was commented out stays where it was. */
    unlink(at.ring);
    write_ring(at.ring, "# 1 " HEX32 "\n2 manager " HEX32 "\n# 3 " HEX32 "\n");
    unlink(at.other);
    assert_ok(gy_keyring_scope(at.ring, GY_RPC_MANAGER, "j", at.other));
    assert_status(gy_keyring_scope(at.other, GY_RPC_MANAGER, "k", at.ring), GY_STATE);
    assert_status(gy_keyring_scope(at.ring, GY_RPC_DAEMON, "j", at.other), GY_STATE);
    int fd = open(at.other, O_RDONLY);
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    assert_int_equal(got, 2 + 10 + 64 + 1);
    text[got] = '\0';
    assert_true(strncmp(text, "2 manager/j ", 12) == 0 && strstr(text, "6b6b") == NULL);
    gy_keyring_free(job);
    gy_keyring_free(all);
    close_scene(&at);
}

GY_TEST(older_keys_are_offered_in_turn)
{
    scene at;
    gy_keyring *ring = NULL;
    uint8_t key[GY_KEYRING_KEY_BYTES];
    static const char *const names[] = {"gyre rpc daemon 9 ", "gyre rpc daemon 4 ",
                                        "gyre rpc daemon 2 ", "gyre rpc daemon 9 ",
                                        "gyre rpc daemon 4 "};
    open_scene(&at);
    write_ring(at.ring, "4 " HEX32 "\n10 manager/j " HEX32 "\n9 " HEX32 "\n2 " HEX32 "\n");
    assert_ok(gy_keyring_open(at.ring, &ring));
    for (uint32_t i = 0; i < GY_COUNT(names); i++) {
        gy_keyring_who who = {.role = GY_RPC_DAEMON};
        char name[GY_KEYRING_NAME_BYTES];
        assert_ok(gy_keyring_offer(ring, &who, i, name, key));
        assert_int_equal(strncmp(name, names[i], strlen(names[i])), 0);
        assert_true(knows(ring, name));
    }
    gy_keyring_free(ring);
    close_scene(&at);
}

/* A name is believed whole or not at all. */
GY_TEST(tampered_names_are_no_names)
{
    scene at;
    gy_keyring *ring = NULL;
    char name[GY_KEYRING_NAME_BYTES], changed[GY_KEYRING_NAME_BYTES + 8];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    static const char *const wrong[] = {"",
                                        "gyre",
                                        "gyre rpc ",
                                        "gyre rpc manager",
                                        "gyre rpc manager/job-1",
                                        "gyre rpc manager/job-1 1",
                                        "gyre rpc manager/job-1 1 ",
                                        "gyre rpc manager/ 1 00000000",
                                        "gyre rpc king/job-1 1 00000000",
                                        "gyre rpc manager/job-1 1 00000000",
                                        "gyre rpc manager/job-1 01 00000000",
                                        "gyre node 00000000"};
    open_scene(&at);
    assert_ok(gy_keyring_make(at.ring));
    assert_ok(gy_keyring_open(at.ring, &ring));
    offered(ring, GY_RPC_MANAGER, "job-1", name, key);
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        assert_false(knows(ring, wrong[i]));
    }
    for (size_t i = 0; i < strlen(name); i++) {
        memcpy(changed, name, sizeof(name));
        changed[i] ^= 1;
        if (knows(ring, changed)) {
            fail_msg("\"%s\" is known", changed);
        }
        snprintf(changed, sizeof(changed), "%.*s", (int)i, name);
        assert_false(knows(ring, changed));
    }
    snprintf(changed, sizeof(changed), "%s ", name);
    assert_false(knows(ring, changed));
    gy_keyring_free(ring);
    close_scene(&at);
}

/* What `gyre key` wrote before there were epochs is the first one. */
GY_TEST(digits_alone_are_epoch_one)
{
    scene at;
    gy_keyring *ring = NULL;
    uint64_t epoch = 0;
    char name[GY_KEYRING_NAME_BYTES], later[GY_KEYRING_NAME_BYTES], text[512];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    open_scene(&at);
    write_ring(at.ring, "# mine\n" HEX32 HEX32 "\n# end\n");
    assert_ok(gy_keyring_open(at.ring, &ring));
    assert_string_equal(gy_keyring_text(ring), "epoch 1");
    offered(ring, GY_RPC_DAEMON, "", name, key);
    assert_ok(gy_keyring_rotate(at.ring, &epoch));
    assert_int_equal(epoch, 2);
    assert_status(gy_keyring_refresh(ring), GY_AGAIN);
    assert_string_equal(gy_keyring_text(ring), "epochs 1 to 2");
    assert_true(knows(ring, name));
    offered(ring, GY_RPC_DAEMON, "", later, key);
    assert_string_not_equal(name, later);
    int fd = open(at.ring, O_RDONLY);
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[GY_MAX(got, (ssize_t)0)] = '\0';
    assert_int_equal(strncmp(text, "# mine\n1 " HEX32 HEX32 "\n", 7 + 2 + 129), 0);
    assert_non_null(strstr(text, "\n# end\n2 "));
    gy_keyring_free(ring);
    close_scene(&at);
}

typedef struct seen {
    int count, count_max; /* a visit that many ends the list; 0: none does */
    char text[512];
} seen;

static gy_status note(void *arg, const gy_keyring_entry *entry)
{
    seen *what = arg;
    size_t used = strlen(what->text);
    what->count++;
    snprintf(what->text + used, sizeof(what->text) - used, "%llu:%s;",
             (unsigned long long)entry->epoch, entry->restriction);
    return what->count == what->count_max ? GY_LIMIT : GY_OK;
}

GY_TEST(lines_are_shown_without_keys)
{
    scene at;
    seen what = {0};
    open_scene(&at);
    write_ring(at.ring, "# 9\n4 " HEX32 "\n\n2 daemon " HEX32 "\n3 manager/j " HEX32 "\n# end");
    assert_ok(gy_keyring_list(at.ring, note, &what));
    assert_string_equal(what.text, "4:;2:daemon;3:manager/j;");
    what = (seen){.count_max = 2};
    assert_status(gy_keyring_list(at.ring, note, &what), GY_LIMIT);
    assert_string_equal(what.text, "4:;2:daemon;");
    what = (seen){0};
    write_ring(at.ring, "4 " HEX32 "\n4 daemon " HEX32 "\n");
    assert_status(gy_keyring_list(at.ring, note, &what), GY_FORMAT);
    assert_int_equal(what.count, 0);
    for (int epoch = 1; epoch < 16; epoch++) { /* 16 are the most */
        uint64_t newest = 0;
        if (epoch == 1) {
            unlink(at.ring);
            assert_ok(gy_keyring_make(at.ring));
        }
        assert_ok(gy_keyring_rotate(at.ring, &newest));
        assert_int_equal(newest, epoch + 1);
    }
    assert_status(gy_keyring_rotate(at.ring, &(uint64_t){0}), GY_LIMIT);
    close_scene(&at);
}

GY_TEST(wrong_rings_are_refused)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"", "no key in it"},
        {"hello\n", "ring:1: the last word is not a key"},
        {HEX32 "\n1 " HEX32 HEX32 "\n", "ring:2: epoch 1 has two keys for one role"},
        {"0 " HEX32 "\n", "no epoch"},
        {"-3 " HEX32 "\n", "no epoch"},
        {"99999999999999999999 " HEX32 "\n", "no epoch"},
        {"1 6b6b\n", "a key of 2 bytes: expected at least 32"},
        {"1 " HEX32 "\n2 " HEX32 "6\n", "ring:2: the last word is not a key"},
        {"1 " HEX32 "xx\n", "not a key"},
        {"1 king " HEX32 "\n", "neither ROLE nor"},
        {"1 daemo " HEX32 "\n", "neither ROLE nor"},
        {"1 manager/ " HEX32 "\n", "neither ROLE nor"},
        {"1 /job " HEX32 "\n", "neither ROLE nor"},
        {"1 manager/a\177 " HEX32 "\n", "neither ROLE nor"},
        {"1 manager/" HEX32 "6 " HEX32 "\n", "neither ROLE nor"}, /* 65 */
        {"1 manager/" HEX32 HEX32 " " HEX32 "\n", "too long"},
        {"1 manager/a " HEX32 "\n1 manager " HEX32 "\n", "two keys for one role"},
        {"1 manager/a " HEX32 "\n1 " HEX32 "\n", "two keys for one role"},
        {"1 manager/a " HEX32 "\n1 manager/a " HEX32 "\n", "two keys for one role"},
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

GY_TEST(no_memory_is_no_harm)
{
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

GY_TEST_MAIN(NULL, NULL)
