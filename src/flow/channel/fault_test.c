/* Goal: whatever signal a record causes, the manager learns of it, with or without datagrams;
 * two deaths at one record make it bad, and no other; a file that was shortened is no bad
 * record. */
#include "base/base.h"
#include "flow/channel/vertex.h"

#include <gyre/data.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "gy_test.h"

static char folder[64], plain[128];
static const _Atomic bool never;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/gyre-fault-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(plain, sizeof(plain), "%s/plain", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* ---- records that kill, by kind ---- */

enum { SEGV, ABORT, FLOAT, ILLEGAL, BUS, OVERFLOW, ENDLESS, SHRUNK, KINDS };

static const int signals[KINDS] = {SIGSEGV, SIGABRT, SIGFPE,  SIGILL,
                                   SIGBUS,  SIGSEGV, SIGALRM, SIGBUS};

static int64_t dig(volatile int64_t depth)
{
    volatile char room[4096];
    room[depth % 4096] = 1;
    return depth < INT64_MAX ? dig(depth + 1) + room[depth % 4096] : 0;
}

__attribute__((noinline)) static void die_of(int kind)
{
    volatile int zero = 0;
    if (kind == SEGV) {
        *(volatile int *)(uintptr_t)8 = zero;
    } else if (kind == FLOAT) {
        (void)raise(SIGFPE); /* the sanitizer would report a real division by zero */
    } else if (kind == ILLEGAL) {
        __asm__ volatile("ud2");
    } else if (kind == BUS) {
        (void)raise(SIGBUS);
    } else if (kind == OVERFLOW) {
        (void)dig(zero);
    } else if (kind == ENDLESS) {
        while (zero == 0) {
#ifdef GYRE_TSAN
            /* ThreadSanitizer delivers such signals only within calls */
            (void)poll(NULL, 0, 0);
#endif
        }
    }
    abort();
}

/* Records 0, 100, 200, ...: the parameter says which of them kill, and how. */
typedef struct plan {
    uint64_t fatal[12];
    int kinds[12];
    int count;
    bool is_key;
} plan;

static gy_status walk(gy_vertex *vertex)
{
    size_t size = 0;
    const plan *does = gy_vertex_parameter(vertex, &size);
    const char *data = "";
    if (gy_vertex_inputs(vertex) > 0) {
        const void *bytes = NULL;
        GY_TRY(gy_vertex_read(vertex, 0, &bytes, &size));
        data = bytes;
    }
    for (uint64_t offset = 0; offset < 2000; offset += 100) {
        if (does->is_key ? gy_vertex_is_bad_key(vertex, &offset, sizeof(offset))
                         : gy_vertex_is_bad_record(vertex, 7, offset)) {
            continue;
        }
        if (does->is_key) {
            gy_vertex_at_key(vertex, &offset, sizeof(offset));
        } else {
            gy_vertex_at_record(vertex, 7, offset);
        }
        for (int i = 0; i < does->count; i++) {
            if (does->fatal[i] != offset) {
                continue;
            }
            if (does->kinds[i] == SHRUNK) {
                assert_int_equal(truncate(plain, 100), 0);
                return ((volatile const char *)data)[300000] == 'x' ? GY_OK : GY_NUMERIC;
            }
            die_of(does->kinds[i]);
        }
    }
    gy_vertex_count(vertex, "reached the end", 1);
    return GY_OK;
}

static const gy_attempt id = {.task = 5, .epoch = 0, .attempt = 1};

/* Run one attempt in a process of its own; returns its wait status. */
static int attempt(const plan *does, const gy_bad *bad, void *board, bool is_mapped)
{
    memset(board, 0, GY_BOARD_BYTES);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit small = {1 << 20, 1 << 20}, none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)setrlimit(RLIMIT_STACK, &small);
        gy_fault *fault = NULL;
        if (gy_fault_open(folder, &fault) < 0) {
            _exit(90);
        }
        gy_flow_task_input input = {
            .kind = GY_INPUT_PLAIN, .path = plain, .size_bytes = UINT64_MAX};
        gy_flow_task order = {
            .id = id,
            .name = "walk[0]",
            .stage = "walk",
            .run = walk,
            .parameter = does,
            .parameter_bytes = sizeof(*does),
            .folder = folder,
            .path = plain,
            .inputs = &input,
            .input_count = is_mapped ? 1 : 0,
            .record_timeout_ns = 60000000,
            .deadline = gy_deadline_after(60),
        };
        order.bad = gy_bad_of(bad, id.task, 0, &order.bad_count);
        gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
        gy_vertex_execute(gy_env_real(), &order, fault, board, &never, &answer);
        gy_fault_close(fault);
        _exit(answer.cause == GY_CAUSE_NONE ? 0 : 91);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void *new_board(void)
{
    void *board = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(board, MAP_FAILED);
    return board;
}

static bool has_datagram(gy_fault_context *door, gy_bad *bad, int expected)
{
    gy_crash_report crash_report;
    bool is_heard = false;
    while (gy_fault_handle(door, &crash_report)) {
        assert_int_equal(crash_report.signal, expected);
        assert_int_equal(crash_report.id.task, id.task);
        gy_bad_handle(bad, &crash_report);
        is_heard = true;
    }
    return is_heard;
}

/* Each kind dies by its signal, is identified at once, and is skipped from the third attempt
 * on. */
GY_TEST(every_kind_is_named_and_skipped)
{
    void *board = new_board();
    for (int blocked = 0; blocked < 2; blocked++) {
        gy_fault_context *door = NULL;
        assert_ok(gy_fault_listen(folder, &door));
        if (blocked == 1) {
            gy_fault_context_free(door);
        }
        for (int kind = 0; kind < SHRUNK; kind++) {
            plan does = {.fatal = {300}, .kinds = {kind}, .count = 1, .is_key = kind % 2 == 1};
            gy_bad *bad = gy_bad_new(-1);
            for (int turn = 0; turn < 2; turn++) {
                int status = attempt(&does, bad, board, false);
                if (!WIFSIGNALED(status) || WTERMSIG(status) != signals[kind]) {
                    fail_msg("kind %d ended with %#x", kind, (unsigned)status);
                }
                if (blocked == 0) {
                    assert_true(has_datagram(door, bad, signals[kind]));
                }
                assert_int_equal(gy_bad_tell(bad, id, 0, board, GY_CAUSE_OWN),
                                 GY_CAUSE_NEW_BAD_RECORD);
                assert_int_equal(gy_bad_count(bad), turn);
            }
            size_t count = 0;
            const gy_flow_record_id *places = gy_bad_of(bad, id.task, 0, &count);
            assert_int_equal(count, 1);
            assert_true(does.is_key ? places[0].source == GY_PLACE_KEY
                                    : places[0].source == 7 && places[0].offset == 300);
            assert_int_equal(attempt(&does, bad, board, false), 0);
            gy_attempt next = id;
            next.attempt++;
            assert_int_equal(gy_bad_tell(bad, next, 0, board, GY_CAUSE_OWN), GY_CAUSE_OWN);
            gy_text list = {.data = NULL};
            gy_bad_list(bad, &list);
            assert_non_null(strstr(gy_text_get(&list), does.is_key ? "key '" : "offset 300"));
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
            bool has_name = strstr(gy_text_get(&list), "die_of") != NULL ||
                            strstr(gy_text_get(&list), " dig") != NULL;
            if (has_name != (blocked == 0)) {
                fail_msg("kind %d: %s", kind, gy_text_get(&list));
            }
#endif
            gy_text_free(&list);
            gy_bad_free(bad);
        }
        if (blocked == 0) {
            gy_fault_context_free(door);
        }
    }
    assert_int_equal(munmap(board, 4096), 0);
}

GY_TEST(a_file_that_shrinks_is_no_bad_record)
{
    void *board = new_board();
    char *bytes = gy_alloc_zero("test", 1, 400000);
    assert_ok(gy_save_file(plain, bytes, 400000));
    gy_free(bytes);
    plan does = {.fatal = {300}, .kinds = {SHRUNK}, .count = 1};
    gy_bad *bad = gy_bad_new(-1);
    int status = attempt(&does, bad, board, true);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    assert_int_equal(gy_bad_tell(bad, id, 0, board, GY_CAUSE_OWN), GY_CAUSE_FATAL);
    assert_non_null(strstr(gy_error_text(), plain));
    assert_non_null(strstr(gy_error_text(), "became shorter"));
    assert_int_equal(gy_bad_count(bad), 0);
    gy_bad_free(bad);
    assert_int_equal(unlink(plain), 0);
    assert_int_equal(munmap(board, 4096), 0);
}

/* Ten bad records in one split: 21 attempts, none of which counts against the vertex. */
GY_TEST(ten_bad_records_cost_two_attempts_each)
{
    void *board = new_board();
    plan does = {.count = 10};
    for (int i = 0; i < 10; i++) {
        does.fatal[i] = 100 + 150 * (uint64_t)i / 100 * 100;
        does.kinds[i] = i % 5;
    }
    gy_bad *bad = gy_bad_new(10);
    int attempts = 0, status = 0;
    while ((status = attempt(&does, bad, board, false)) != 0) {
        assert_true(WIFSIGNALED(status));
        assert_int_equal(gy_bad_tell(bad, id, 0, board, GY_CAUSE_OWN), GY_CAUSE_NEW_BAD_RECORD);
        assert_true(++attempts <= 20);
    }
    assert_int_equal(attempts, 20);
    assert_int_equal(gy_bad_count(bad), 10);
    gy_bad_free(bad);
    assert_int_equal(munmap(board, 4096), 0);
}

/* ---- decisions only ---- */

static void set_board(gy_fault_board *board, uint64_t offset, int number)
{
    memset(board, 0, sizeof(*board));
    atomic_store(&board->offset, offset);
    atomic_store(&board->has_place, 1);
    atomic_store(&board->signal, number);
}

GY_TEST(who_dies_elsewhere_each_time_is_ill_itself)
{
    gy_fault_board board;
    gy_bad *bad = gy_bad_new(-1);
    for (uint64_t i = 0; i < 20; i++) {
        set_board(&board, i, SIGSEGV);
        assert_int_equal(gy_bad_tell(bad, id, 0, &board, GY_CAUSE_OWN),
                         i < GY_BAD_SUSPECTS_MAX ? GY_CAUSE_NEW_BAD_RECORD : GY_CAUSE_OWN);
    }
    size_t count = 1;
    (void)gy_bad_of(bad, id.task, 0, &count);
    assert_int_equal(count, 0);
    /* killed from outside, so the record on the board does not matter */
    set_board(&board, 3, 0);
    assert_int_equal(gy_bad_tell(bad, id, 0, &board, GY_CAUSE_OWN), GY_CAUSE_OWN);
    set_board(&board, 3, SIGSEGV);
    atomic_store(&board.has_place, 0); /* not at a record */
    assert_int_equal(gy_bad_tell(bad, id, 0, &board, GY_CAUSE_OWN), GY_CAUSE_OWN);
    (void)gy_bad_of(bad, id.task, 0, &count);
    assert_int_equal(count, 0);
    gy_bad_free(bad);
}

/* What one manager wrote, another one reads: the same records are skipped and listed, and
 * counts continue. */
GY_TEST(what_was_learnt_is_taken_as_it_was)
{
    gy_fault_board board;
    gy_bad *first = gy_bad_new(2), *next = gy_bad_new(2);
    gy_text said[2] = {{.data = NULL}, {.data = NULL}}, word = {.data = NULL};
    gy_crash_report crash_report = {
        .id = id, .place = {.source = 0, .offset = 7}, .backtrace = "nowhere+0x1\n"};
    gy_bad_write_last(first, &word);
    assert_int_equal(word.size_bytes, 0);
    gy_bad_handle(first, &crash_report);
    for (int i = 0; i < 3; i++) { /* record 7 becomes bad, record 8 a suspect */
        set_board(&board, i < 2 ? 7 : 8, SIGFPE);
        assert_int_equal(gy_bad_tell(first, id, 0, &board, GY_CAUSE_OWN),
                         GY_CAUSE_NEW_BAD_RECORD);
        word.size_bytes = 0;
        gy_bad_write_last(first, &word);
        assert_ok(gy_bad_learn(next, word.data, word.size_bytes));
    }
    assert_status(gy_bad_learn(next, word.data, word.size_bytes - 1), GY_FORMAT);
    memset(word.data, 0xff, word.size_bytes);
    assert_status(gy_bad_learn(next, word.data, word.size_bytes), GY_FORMAT);
    size_t count = 0;
    assert_int_equal(gy_bad_of(next, id.task, 0, &count)[0].offset, 7);
    assert_int_equal(count, 1);
    assert_int_equal(gy_bad_count(next), 1);
    gy_bad_list(first, &said[0]);
    gy_bad_list(next, &said[1]);
    assert_string_equal(gy_text_get(&said[0]), gy_text_get(&said[1]));
    assert_non_null(strstr(gy_text_get(&said[1]), "nowhere"));
    /* the suspect's second death makes it bad; an attempt that began earlier is not blamed */
    set_board(&board, 8, SIGFPE);
    assert_int_equal(gy_bad_tell(next, id, 0, &board, GY_CAUSE_OWN), GY_CAUSE_NEW_BAD_RECORD);
    assert_int_equal(gy_bad_count(next), 2);
    gy_text_free(&said[0]);
    gy_text_free(&said[1]);
    gy_text_free(&word);
    gy_bad_free(first);
    gy_bad_free(next);
}

GY_TEST(too_many_bad_records_end_the_job)
{
    gy_fault_board board;
    gy_bad *bad = gy_bad_new(2);
    for (uint32_t task = 0; task < 3; task++) {
        gy_attempt other = {.task = task};
        set_board(&board, 9, SIGFPE);
        assert_int_equal(gy_bad_tell(bad, other, 1, &board, GY_CAUSE_OWN),
                         GY_CAUSE_NEW_BAD_RECORD);
        assert_int_equal(gy_bad_tell(bad, other, 1, &board, GY_CAUSE_OWN),
                         task < 2 ? GY_CAUSE_NEW_BAD_RECORD : GY_CAUSE_FATAL);
        size_t count = 0;
        (void)gy_bad_of(bad, task, 0, &count);
        assert_int_equal(count, 0); /* a record of another member */
        assert_int_equal(gy_bad_of(bad, task, 1, &count)[0].offset, 9);
        assert_int_equal(count, 1);
    }
    /* an attempt that began before the second death is not to blame; a later one is */
    for (uint32_t attempt = 0; attempt < 2; attempt++) {
        gy_attempt other = {.task = 1, .attempt = attempt};
        set_board(&board, 9, SIGFPE);
        assert_int_equal(gy_bad_tell(bad, other, 1, &board, GY_CAUSE_OWN),
                         attempt == 0 ? GY_CAUSE_NEW_BAD_RECORD : GY_CAUSE_OWN);
    }
    assert_non_null(strstr(gy_error_text(), "more than 2 bad records"));
    assert_non_null(strstr(gy_error_text(), "task 2 member 1 input 0 offset 9 SIGFPE"));
    gy_bad_free(bad);
}

static void name_record(void *arg, const gy_bad_record *record, gy_text *out)
{
    gy_text_add(out, "%s[%u] a file", (const char *)arg, record->task);
}

GY_TEST(bad_records_are_named_and_read)
{
    static char stage[] = "map";
    gy_fault_board board;
    gy_bad *bad = gy_bad_new(2);
    gy_bad_name_by(bad, name_record, stage);
    gy_text text = {0};
    bool is_bad = true;
    assert_false(gy_bad_last(bad, &text, &is_bad));
    for (int death = 0; death < 3; death++) { /* the third death is another record's first */
        set_board(&board, death < 2 ? 9 : 8, SIGFPE);
        assert_int_equal(gy_bad_tell(bad, (gy_attempt){.task = 4}, 0, &board, GY_CAUSE_OWN),
                         GY_CAUSE_NEW_BAD_RECORD);
        assert_true(gy_bad_last(bad, &text, &is_bad));
        assert_int_equal(is_bad, death == 1);
        assert_string_equal(gy_text_get(&text), death < 2 ? "map[4] a file offset 9 SIGFPE"
                                                          : "map[4] a file offset 8 SIGFPE");
        gy_text_free(&text);
    }
    gy_bad_record record;
    assert_true(gy_bad_get(bad, 0, &record));
    assert_int_equal(record.place.offset, 9);
    assert_int_equal(record.signal, SIGFPE);
    assert_false(gy_bad_get(bad, 1, &record));
    gy_bad_list(bad, &text);
    assert_string_equal(gy_text_get(&text), "map[4] a file offset 9 SIGFPE\n");
    gy_text_free(&text);
    gy_bad_free(bad);
}

GY_TEST_MAIN(make_folder, remove_folder)
