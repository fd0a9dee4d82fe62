/* Goal: a ticket is read as it was written, and only if no other user can have written it; the
 * jobs of its program are counted. */
#include "control/net/ticket.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

static char folder[] = "/tmp/gyre-ticket-XXXXXX", path[64];

static void in_folder(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(setenv(GY_TICKET_VARIABLE, path, 1), 0);
}

GY_TEST(a_ticket_is_read_as_written)
{
    gy_ticket got;
    unsetenv(GY_TICKET_VARIABLE);
    assert_int_equal(gy_ticket_read(&got), GY_NOTFOUND);
    in_folder("ticket");
    assert_int_equal(gy_ticket_read(&got), GY_IO);
    gy_ticket ticket = {.job = {0x123, UINT64_MAX}, .epoch = 7, .slots = 16};
    snprintf(ticket.names, sizeof(ticket.names), "a:1,b:2");
    snprintf(ticket.folder, sizeof(ticket.folder), "/a folder/with spaces");
    snprintf(ticket.daemon, sizeof(ticket.daemon), "[::1]:7");
    for (int round = 0; round < 2; round++) { /* the second replaces the first */
        struct stat about;
        ticket.epoch++;
        ticket.is_resumed = round == 1;
        ticket.is_forgotten = round == 0;
        assert_ok(gy_ticket_write(path, &ticket));
        assert_ok(gy_ticket_read(&got));
        assert_memory_equal(&got.job, &ticket.job, sizeof(gy_key));
        assert_int_equal(got.epoch, ticket.epoch);
        assert_int_equal(got.slots, ticket.slots);
        assert_int_equal(got.is_resumed, ticket.is_resumed);
        assert_int_equal(got.is_forgotten, ticket.is_forgotten);
        assert_string_equal(got.names, ticket.names);
        assert_string_equal(got.folder, ticket.folder);
        assert_string_equal(got.daemon, ticket.daemon);
        assert_string_equal(got.key_file, "");
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_mode & 0777, 0600);
        snprintf(ticket.key_file, sizeof(ticket.key_file), "%s", "");
    }
    unlink(path);
}

static void put(const char *text, size_t size_bytes, unsigned mode)
{
    unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(file >= 0 && write(file, text, size_bytes) == (ssize_t)size_bytes);
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

static const char good[] = "job 00000000000000010000000000000002\nepoch 3\nnames a:1\nkey \n"
                           "folder /f\n";

GY_TEST(other_hands_are_refused)
{
    gy_ticket got;
    char target[80];
    in_folder("ticket");
    put(good, strlen(good), 0600);
    assert_ok(gy_ticket_read(&got));
    static const unsigned modes[] = {0640, 0604, 0660, 0602, 0620};
    for (size_t i = 0; i < GY_COUNT(modes); i++) {
        put(good, strlen(good), modes[i]);
        assert_int_equal(gy_ticket_read(&got), GY_STATE);
    }
    if (geteuid() == 0) {
        put(good, strlen(good), 0600);
        assert_int_equal(chown(path, 1234, 1234), 0);
        assert_int_equal(gy_ticket_read(&got), GY_STATE);
    }
    snprintf(target, sizeof(target), "%s/target", folder);
    put(good, strlen(good), 0600);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(gy_ticket_read(&got), GY_IO);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(gy_ticket_read(&got), GY_STATE);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(gy_ticket_read(&got), GY_STATE);
    assert_int_equal(rmdir(path), 0);
    unlink(target);
}

GY_TEST(jobs_of_a_program_are_counted)
{
    gy_ticket ticket = {.epoch = 1}, other = {.epoch = 1};
    int lock = -1, none = -1;
    snprintf(ticket.folder, sizeof(ticket.folder), "%s", folder);
    snprintf(other.folder, sizeof(other.folder), "%s", folder);
    assert_true(gy_ticket_is_idle(&ticket));
    assert_int_equal(ticket.round, 0);
    for (uint32_t round = 1; round <= 3; round++) {
        assert_ok(gy_ticket_begin(&ticket, &lock));
        assert_int_equal(ticket.round, round);
        assert_false(gy_ticket_is_idle(&other));
        if (round == 2) {
            assert_int_equal(gy_ticket_begin(&other, &none), GY_STATE);
        }
        close(lock);
        assert_true(gy_ticket_is_idle(&other));
        assert_int_equal(other.round, round);
    }
    in_folder("jobs");
    put("1000\n", 5, 0600);
    assert_int_equal(gy_ticket_begin(&ticket, &lock), GY_LIMIT);
    put("3x\n", 3, 0600);
    assert_int_equal(gy_ticket_begin(&ticket, &lock), GY_FORMAT);
    assert_false(gy_ticket_is_idle(&ticket));
    unlink(path);
}

GY_TEST(garbage_is_no_ticket)
{
    static const char *const bad[] = {
        "",
        "job 00000000000000010000000000000002\nepoch 3\nnames a:1\nkey \nfolder /f\nslots x\n",
        "job 1\nepoch 3\nnames a:1\nkey \nfolder /f\n",
        "job 0000000000000001000000000000000g\nepoch 3\nnames a:1\nkey \nfolder /f\n",
        "job 00000000000000010000000000000002\nepoch 0\nnames a:1\nkey \nfolder /f\n",
        "job 00000000000000010000000000000002\nepoch 3x\nnames a:1\nkey \nfolder /f\n",
        "job 00000000000000010000000000000002\nepoch 3\nkey \nfolder /f\n",
        "job 00000000000000010000000000000002\nepoch 3\nnames a:1\nkey \nfolder /f",
    };
    gy_ticket got;
    in_folder("ticket");
    for (size_t i = 0; i < GY_COUNT(bad); i++) {
        put(bad[i], strlen(bad[i]), 0600);
        if (gy_ticket_read(&got) != GY_FORMAT) {
            fail_msg("ticket %zu is taken", i);
        }
    }
    put(good, sizeof(good), 0600); /* with its NUL */
    assert_int_equal(gy_ticket_read(&got), GY_FORMAT);
    static char large[70000];
    memset(large, 'x', sizeof(large));
    put(large, sizeof(large), 0600);
    assert_int_equal(gy_ticket_read(&got), GY_FORMAT);
    /* A change of any byte is refused, or changes one value only: nothing is read beyond. */
    for (size_t i = 0; i < strlen(good); i++) {
        char changed[sizeof(good)];
        memcpy(changed, good, sizeof(good));
        changed[i] ^= 0x55;
        put(changed, strlen(good), 0600);
        gy_status status = gy_ticket_read(&got);
        assert_true(status == GY_OK || status == GY_FORMAT);
        assert_true(strnlen(got.names, sizeof(got.names)) < sizeof(got.names));
    }
    unlink(path);
}

GY_TEST(words_ahead_are_heard_once)
{
    gy_ticket ticket = {.epoch = 1};
    gy_ticket_request request = {.threads = 7, .memory_bytes = UINT64_MAX},
                      got = {.threads = 0};
    int file = -1, other = -1;
    snprintf(ticket.folder, sizeof(ticket.folder), "%s", folder);
    gy_ticket_prewarm_hint(&ticket, &request); /* no daemon listens */
    assert_ok(gy_ticket_listen(folder, &file));
    assert_int_equal(gy_ticket_listen(folder, &other), GY_IO);
    gy_ticket_prewarm_hint(&ticket, &request);
    assert_ok(gy_ticket_handle(file, &got));
    assert_int_equal(got.threads, 7);
    assert_true(got.memory_bytes == UINT64_MAX);
    assert_int_equal(gy_ticket_handle(file, &got), GY_FORMAT); /* it is closed */
    snprintf(path, sizeof(path), "%s/request", folder);
    static const char *const words[] = {"nonsense\n", "threads 1 memory\n",
                                        "threads 1 memory 0", "threads 1 memory 0\n\n",
                                        "threads -1 memory x\n"};
    for (size_t i = 0; i < GY_COUNT(words); i++) {
        other = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        assert_int_equal(gy_ticket_handle(file, &got), GY_AGAIN);
        assert_int_equal(write(other, words[i], strlen(words[i])), strlen(words[i]));
        assert_int_equal(gy_ticket_handle(file, &got), GY_FORMAT);
        close(other);
    }
    close(file);
    gy_ticket_prewarm_hint(&ticket, &request); /* no daemon listens any more */
    unlink(path);
}

int main(void)
{
    assert_non_null(mkdtemp(folder));
    int failed = GY_TESTS_RUN(NULL, NULL);
    return rmdir(folder) == 0 ? failed : failed + 1;
}
