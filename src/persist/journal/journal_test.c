/* Goal: a journal in each form returns the records that were appended, distinguishes corruption
 * from a torn end, and is removed without leaving a readable half. */
#include "base/base.h"
#include "base/disk.h"
#include "persist/journal/journal.h"
#include "persist/journal/journal_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "gy_test.h"

typedef struct taken {
    uint8_t bytes[1 << 20];
    size_t size_bytes;
} taken;

/* The head of a record in this test. */
typedef struct record_head {
    uint32_t size_bytes; /* of the body that follows */
    uint32_t letter;     /* every byte of the body */
} record_head;

static taken got;
static char folder[96];

/* The size of the intact records. */
static size_t measure(const void *records, size_t size_bytes)
{
    const uint8_t *bytes = records;
    record_head head;
    size_t at = 0;
    while (size_bytes - at > sizeof(head)) {
        memcpy(&head, bytes + at, sizeof(head));
        const uint8_t *body = bytes + at + sizeof(head);
        if (head.size_bytes > size_bytes - at - sizeof(head) || body[0] != head.letter) {
            break;
        }
        at += sizeof(head) + head.size_bytes;
    }
    return at;
}

static gy_status take(void *arg, const void *records, size_t size_bytes, size_t *used)
{
    taken *to = arg;
    assert_true(size_bytes <= sizeof(to->bytes));
    memcpy(to->bytes, records, size_bytes);
    to->size_bytes = *used = measure(records, size_bytes);
    return GY_OK;
}

static gy_status open_as(uint64_t epoch, gy_journal **journal)
{
    const gy_journal_options options = {.folder = folder,
                                        .epoch = epoch,
                                        .owner = "the test",
                                        .take = take,
                                        .measure = measure,
                                        .arg = &got};
    got.size_bytes = 0;
    return gy_journal_open(gy_env_real(), &options, journal);
}

/* Append a record whose body repeats a letter `size` times. */
static void add(gy_journal *journal, char letter, uint32_t size)
{
    static uint8_t record[(1 << 20) + sizeof(record_head)];
    record_head head = {.size_bytes = size, .letter = (uint8_t)letter};
    memset(record + sizeof(head), letter, size);
    memcpy(record, &head, sizeof(head));
    assert_ok(gy_journal_append(journal, record, sizeof(head) + size));
}

/* Check the letters of the records passed to `take`. */
static void assert_taken(const char *letters)
{
    size_t at = 0;
    for (; *letters != '\0'; letters++) {
        record_head head;
        assert_true(at + sizeof(head) < got.size_bytes);
        memcpy(&head, got.bytes + at, sizeof(head));
        assert_int_equal(got.bytes[at + sizeof(head)], *letters);
        at += sizeof(head) + head.size_bytes;
    }
    assert_int_equal(at, got.size_bytes);
}

static int enter(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-journal-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    char line[128], said[64];
    snprintf(line, sizeof(line), "rm -rf %s", folder);
    return gy_test_shell(line, said, sizeof(said));
}

static void path_to(const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", folder, name);
}

/* Overwrite bytes of a file; at -1, append them. */
static void spoil(const char *name, long at, const char *bytes)
{
    char path[128];
    path_to(name, path);
    FILE *file = fopen(path, at < 0 ? "a" : "r+");
    assert_true(file != NULL && (at < 0 || fseek(file, at, SEEK_SET) == 0));
    assert_true(fputs(bytes, file) >= 0 && fclose(file) == 0);
}

static bool is_there(const char *name)
{
    char path[128];
    path_to(name, path);
    return access(path, F_OK) == 0;
}

/* Write epochs 1 .. count, each with records of its letter: 'a' for epoch 1. */
static void write_epochs(uint64_t count)
{
    for (uint64_t epoch = 1; epoch <= count; epoch++) {
        gy_journal *journal = NULL;
        assert_ok(open_as(epoch, &journal));
        add(journal, (char)('a' + epoch - 1), 100);
        assert_ok(gy_journal_sync(journal));
        gy_journal_close(journal);
    }
}

GY_TEST_WITH(test_both_forms_give_back, .setup_func = enter, .teardown_func = leave)
{
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        gy_journal *journal = NULL;
        int64_t since_ns = 0;
        assert_false(gy_journal_is_there(gy_env_real(), folder));
        assert_ok(open_as(epoch, &journal));
        assert_int_equal(gy_journal_epoch(journal), epoch);
        add(journal, 'x', 10);
        assert_true(gy_journal_is_waiting(journal, &since_ns) && since_ns > 0);
        add(journal, 'y', 200 << 10); /* together more than the buffer holds */
        add(journal, 'z', 600 << 10);
        assert_ok(gy_journal_sync(journal));
        assert_false(gy_journal_is_waiting(journal, &since_ns));
        add(journal, 'w', 9);
        gy_journal_close(journal); /* drops the waiting records */
        assert_true(gy_journal_is_there(gy_env_real(), folder));
        assert_ok(open_as(epoch > 0 ? 2 : 0, &journal));
        assert_taken("xyz");
        gy_journal_close(journal);
        assert_ok(gy_journal_remove(gy_env_real(), folder));
        assert_false(gy_journal_is_there(gy_env_real(), folder));
        if (epoch > 0) {
            assert_status(open_as(0, &journal), GY_STATE);
            assert_status(open_as(2, &journal), GY_STATE);
            assert_status(open_as(3, &journal), GY_STATE);
            assert_non_null(strstr(gy_error_text(), "has ended: its journal was removed"));
            assert_true(is_there("seal.2") && !is_there("seal.1"));
            assert_false(gy_journal_is_there(gy_env_real(), folder));
        }
    }
}

/* A process that removes a journal may be killed at each step: the journal is that of an ended
 * job, and the next process completes the removal. */
GY_TEST_WITH(test_half_removed_has_ended, .setup_func = enter, .teardown_func = leave)
{
    static const char *const steps[] = {"true", "rm journal.1", "rm journal.1 journal.2",
                                        "rm journal.1 journal.2 seal.1"};
    for (size_t i = 0; i < GY_COUNT(steps); i++) {
        char line[300], out[64];
        write_epochs(2);
        assert_false(gy_journal_is_ending(gy_env_real(), folder));
        assert_ok(gy_journal_segment_close(gy_env_real(), folder, 2));
        (void)snprintf(line, sizeof(line), "cd %s && %s", folder, steps[i]);
        assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
        assert_true(gy_journal_is_ending(gy_env_real(), folder));
        assert_ok(gy_journal_remove(gy_env_real(), folder));
        assert_true(is_there("seal.2") && !is_there("seal.1") && !is_there("journal.2"));
        (void)snprintf(line, sizeof(line), "rm %s/*", folder);
        assert_int_equal(gy_test_shell(line, out, sizeof(out)), 0);
    }
}

/* Exchange the folder and its URI. */
static void swap_folder(char other[96])
{
    char kept[96];
    memcpy(kept, folder, sizeof(kept));
    memcpy(folder, other, sizeof(folder));
    memcpy(other, kept, sizeof(kept));
}

/* In a store of objects each sync creates one object, or several for large data. */
GY_TEST_WITH(test_a_place_gives_back, .setup_func = enter, .teardown_func = leave)
{
    char other[96];
    gy_journal *journal = NULL, *next = NULL;
    snprintf(other, sizeof(other), "file:%.80s/", folder);
    swap_folder(other); /* `folder` is the URI from here on */
    assert_false(gy_journal_is_there(gy_env_real(), folder));
    assert_ok(gy_journal_suits(gy_env_real(), folder));
    assert_ok(open_as(3, &journal));
    add(journal, 'x', 10);
    add(journal, 'y', 200 << 10);
    assert_ok(gy_journal_sync(journal));
    assert_ok(gy_journal_sync(journal));
    add(journal, 'z', 600 << 10);
    assert_ok(gy_journal_sync(journal));
    add(journal, 'w', 9); /* never synced */
    assert_true(gy_journal_is_there(gy_env_real(), folder));
    assert_ok(open_as(5, &next));
    assert_taken("xyz");
    assert_status(gy_journal_sync(journal), GY_STATE);
    assert_true(gy_journal_is_over(journal));
    gy_journal_close(journal);
    assert_status(open_as(5, &journal), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "epoch 5 was used before"));
    assert_status(open_as(4, &journal), GY_STATE);
    assert_string_equal(gy_error_text(), "epoch 4 has ended: epoch 5 continues (the test)");
    uint64_t epoch = 0;
    assert_ok(gy_journal_next(gy_env_real(), folder, &epoch));
    assert_int_equal(epoch, 6);
    for (int i = 0; i < 12; i++) {
        add(next, 'l', 1 << 20); /* more than the buffer holds, twice */
    }
    gy_journal_close(next);
    swap_folder(other);
    assert_true(is_there("journal.5.2") && is_there("journal.3.3"));
    assert_ok(gy_journal_remove(gy_env_real(), other));
    assert_false(gy_journal_is_there(gy_env_real(), other));
    assert_true(!is_there("journal.5.0") && !is_there("journal.5.2") &&
                !is_there("journal.3.0"));
    swap_folder(other);
    assert_status(open_as(6, &journal), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "has ended: its journal was removed"));
    swap_folder(other);
}

GY_TEST_WITH(test_objects_that_are_spoilt_are_told, .setup_func = enter, .teardown_func = leave)
{
    static const long at[] = {3, 20, 60, -1};
    for (size_t i = 0; i < GY_COUNT(at); i++) {
        gy_journal *journal = NULL;
        char other[96];
        snprintf(other, sizeof(other), "file:%.80s", folder);
        swap_folder(other);
        write_epochs(1);
        swap_folder(other);
        spoil("journal.1.1", at[i], "?");
        swap_folder(other);
        assert_status(open_as(2, &journal), GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), "journal.1.1 does not hold what was written"));
        swap_folder(other);
        assert_int_equal(leave(NULL), 0);
        assert_int_equal(enter(NULL), 0);
    }
}

GY_TEST_WITH(test_torn_is_not_read, .setup_func = enter, .teardown_func = leave)
{
    gy_journal *journal = NULL;
    write_epochs(2);
    spoil("journal.2", -1, "half a record");
    assert_ok(open_as(3, &journal));
    assert_taken("ab");
    gy_journal_close(journal);
    spoil("journal.2", -1, "and more behind the seal");
    assert_ok(open_as(0, &journal));
    assert_int_equal(gy_journal_epoch(journal), 4);
    assert_taken("ab");
    gy_journal_close(journal);
    assert_true(is_there("seal.3") && !is_there("seal.4"));
}

GY_TEST_WITH(test_a_newer_epoch_stops_an_older, .setup_func = enter, .teardown_func = leave)
{
    gy_journal *old = NULL, *new = NULL;
    assert_ok(open_as(9, &old)); /* 9 and 10 are ordered as numbers, not as text */
    add(old, 'a', 5);
    assert_ok(gy_journal_sync(old));
    assert_ok(gy_journal_check(old));
    assert_ok(open_as(10, &new));
    assert_taken("a");
    add(old, 'b', 5);
    assert_false(gy_journal_is_over(old));
    assert_status(gy_journal_sync(old), GY_STATE);
    assert_string_equal(gy_error_text(), "epoch 9 has ended: epoch 10 continues (the test)");
    assert_true(gy_journal_is_over(old));
    assert_status(gy_journal_check(old), GY_STATE);
    assert_ok(gy_journal_sync(new));
    gy_journal_close(old);
    assert_status(open_as(9, &old), GY_STATE);
    assert_status(open_as(10, &old), GY_STATE);
    assert_ok(gy_journal_remove(gy_env_real(), folder));
    assert_status(gy_journal_sync(new), GY_STATE); /* another process has ended the job */
    gy_journal_close(new);
}

/* Corrupt bytes in heads, seals and records. */
GY_TEST_WITH(test_damage_is_told, .setup_func = enter, .teardown_func = leave)
{
    static const struct {
        const char *name, *said;
        long at;
    } cases[] = {
        {"journal.1", "is no segment of epoch 1", 3},
        {"journal.1", "is no segment of epoch 1", 16},
        {"journal.1", "is no segment of epoch 1", 60}, /* the epoch in the head */
        {"journal.1", "is not what was sealed", 128 + 40},
        {"seal.1", "is no seal of epoch 1", 40},
        {"seal.1", "is no seal of epoch 1", -1},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_journal *journal = NULL;
        write_epochs(2);
        spoil(cases[i].name, cases[i].at, "?");
        assert_status(open_as(3, &journal), GY_FORMAT);
        if (strstr(gy_error_text(), cases[i].said) == NULL) {
            fail_msg("nothing says \"%s\" in: %s", cases[i].said, gy_error_text());
        }
        assert_int_equal(leave(NULL), 0);
        assert_int_equal(enter(NULL), 0);
    }
    gy_journal *journal = NULL;
    write_epochs(2);
    char path[128];
    path_to("journal.1", path);
    assert_int_equal(truncate(path, 150), 0);
    assert_status(open_as(3, &journal), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "has 22 bytes, its seal says"));
    assert_int_equal(truncate(path, 50), 0);
    assert_status(open_as(4, &journal), GY_FORMAT);
    assert_non_null(strstr(gy_error_text(), "has 50 bytes, expected a head"));
}

/* What another version wrote is named with its version, whatever its fields were. */
GY_TEST_WITH(test_other_versions_are_refused, .setup_func = enter, .teardown_func = leave)
{
    static const struct {
        const char *name, *said;
        bool is_object;
        long size_bytes; /* its head had less then; 0: as many as today */
    } cases[] = {
        {"journal.1", "journal.1 is of version 2, expected version 1", false, 0},
        {"journal.1", "journal.1 is of version 2, expected version 1", false, 24},
        {"seal.1", "seal.1 is of version 2, expected version 1", false, 0},
        {"seal.1", "seal.1 is of version 2, expected version 1", false, 40},
        {"journal.1.0", "journal.1.0 is of version 2, expected version 1", true, 0},
        {"journal.1.1", "journal.1.1 is of version 2, expected version 1", true, 16},
    };
    for (size_t i = 0; i < GY_COUNT(cases); i++) {
        gy_journal *journal = NULL;
        char other[96], path[128];
        snprintf(other, sizeof(other), cases[i].is_object ? "file:%.80s" : "%.80s", folder);
        swap_folder(other);
        write_epochs(2);
        swap_folder(other);
        spoil(cases[i].name, 8, "\2"); /* behind its magic */
        path_to(cases[i].name, path);
        assert_int_equal(cases[i].size_bytes > 0 ? truncate(path, cases[i].size_bytes) : 0, 0);
        swap_folder(other);
        assert_status(open_as(3, &journal), GY_UNSUPPORTED);
        if (strstr(gy_error_text(), cases[i].said) == NULL) {
            fail_msg("nothing says \"%s\" in: %s", cases[i].said, gy_error_text());
        }
        assert_null(strchr(gy_error_text(), '\n'));
        swap_folder(other);
        assert_int_equal(leave(NULL), 0);
        assert_int_equal(enter(NULL), 0);
    }
}

/* A removal interrupted at any name leaves no journal of an unfinished job. */
GY_TEST_WITH(test_half_removed_is_not_half_a_job, .setup_func = enter, .teardown_func = leave)
{
    static const char *const left[] = {"journal.1", "journal.2", "journal.3", "seal.1"};
    gy_journal *journal = NULL;
    for (size_t i = 0; i < GY_COUNT(left); i++) {
        char path[128];
        write_epochs(3);
        assert_true(is_there("journal.3") && !is_there("seal.3"));
        for (size_t k = 0; k <= i; k++) {
            path_to(left[k], path);
            assert_int_equal(unlink(path), 0);
        }
        assert_false(gy_journal_is_there(gy_env_real(), folder));
        assert_status(open_as(9, &journal), GY_STATE);
        assert_non_null(strstr(gy_error_text(), "its journal was removed"));
        assert_ok(gy_journal_remove(gy_env_real(), folder)); /* a second removal succeeds */
        assert_false(gy_journal_is_there(gy_env_real(), folder));
        assert_true(is_there(i < 2 ? "seal.3" : "seal.2") && !is_there("seal.1"));
        assert_int_equal(leave(NULL), 0);
        assert_int_equal(enter(NULL), 0);
    }
}

GY_TEST_WITH(test_forms_do_not_mix, .setup_func = enter, .teardown_func = leave)
{
    gy_journal *journal = NULL;
    assert_ok(open_as(0, &journal));
    gy_journal_close(journal);
    assert_status(open_as(1, &journal), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "of a job of one machine"));
    assert_int_equal(leave(NULL), 0);
    assert_int_equal(enter(NULL), 0);
    write_epochs(1);
    spoil("journal", -1, "x");
    assert_status(open_as(0, &journal), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "with epochs and one without"));
}

static int refuse_link(gy_env *env, const char *from, const char *to)
{
    (void)env, (void)from, (void)to;
    return -EPERM;
}

GY_TEST_WITH(test_storage_must_create_exclusively, .setup_func = enter, .teardown_func = leave)
{
    assert_ok(gy_journal_suits(gy_env_real(), "/tmp"));
    assert_status(gy_journal_suits(gy_env_real(), "/proc"), GY_UNSUPPORTED);
    assert_non_null(strstr(gy_error_text(), "create files exclusively"));
    assert_status(gy_journal_suits(gy_env_real(), "/nonexistent"), GY_NOTFOUND);
    gy_disk_ops disk = gy_disk_real;
    gy_env_ops ops = *gy_env_real()->ops;
    gy_env env = {.ops = &ops};
    disk.link = refuse_link;
    ops.disk = &disk;
    gy_journal *journal = NULL;
    const gy_journal_options options = {
        .folder = folder, .epoch = 1, .take = take, .measure = measure, .arg = &got};
    assert_status(gy_journal_open(&env, &options, &journal), GY_UNSUPPORTED);
    assert_false(is_there("journal.1"));
}

/* Names that resemble those of epochs. */
GY_TEST_WITH(test_other_names_are_no_epochs, .setup_func = enter, .teardown_func = leave)
{
    static const char *const names[] = {
        "journal.", "journal.02", "journal.0",  "journal.7x", "seal.99999999999999999999999",
        "seal",     "log",        "xjournal.8", "seal.-1",    "journal.1.tmp"};
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        spoil(names[i], -1, "x");
    }
    gy_journal *journal = NULL;
    assert_ok(open_as(1, &journal));
    add(journal, 'a', 1);
    assert_ok(gy_journal_sync(journal));
    gy_journal_close(journal);
    assert_ok(open_as(UINT64_MAX - 10, &journal));
    assert_taken("a");
    gy_journal_close(journal);
}

/* Another writer of the folder may have written an owner without a terminating NUL. */
GY_TEST_WITH(test_an_owner_has_an_end, .setup_func = enter, .teardown_func = leave)
{
    enum { OWNER = 24, CHECKSUM = OWNER + GY_JOURNAL_OWNER };
    char path[128], owner[GY_JOURNAL_OWNER];
    uint8_t head[CHECKSUM + sizeof(uint64_t)];
    gy_journal journal = {.env = gy_env_real(), .folder = folder, .epoch = 4};
    assert_ok(gy_journal_segment_create(&journal, "the test"));
    gy_journal_segment_owner(&journal, 4, owner);
    assert_string_equal(owner, "the test");
    path_to("journal.4", path);
    int file = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(read(file, head, sizeof(head)), sizeof(head));
    memset(head + OWNER, 'x', GY_JOURNAL_OWNER);
    const uint64_t sum = gy_hash(head, CHECKSUM, 1);
    memcpy(head + CHECKSUM, &sum, sizeof(sum));
    assert_int_equal(pwrite(file, head, sizeof(head), 0), sizeof(head));
    assert_int_equal(close(file), 0);
    memset(owner, 'y', sizeof(owner));
    gy_journal_segment_owner(&journal, 4, owner);
    assert_int_equal(strnlen(owner, sizeof(owner)), sizeof(owner) - 1);
    assert_int_equal(owner[0], 'x');
}

GY_TEST_MAIN(NULL, NULL)
