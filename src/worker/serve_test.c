/* Goal: a vertex process answers every task once, obeys a cancel whether the task waits or
 * runs, sends heartbeats while user code runs, and ends with its manager. This test plays the
 * manager. */
#include "worker/serve_priv.h"

#include "gy_test.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

typedef struct fixture {
    gy_thread thread;
    gy_worker_serving serving;
    gy_board *boards;
    int boards_file, socket, status;
    _Atomic bool may_go; /* releases the tasks that wait */
    _Atomic int running;
    uint8_t in[1 << 18];
    size_t in_bytes, at;
} fixture;

/* "wait": until released or cancelled; "fail": fails; else succeeds, with the message as
 * report. */
static void run(void *arg, const gy_worker_task *task, const _Atomic bool *is_cancelled,
                gy_worker_answer *answer)
{
    fixture *here = arg;
    char word[32];
    snprintf(word, sizeof(word), "%.*s", (int)task->message_bytes, (const char *)task->message);
    atomic_fetch_add(&here->running, 1);
    if (strcmp(word, "wait") == 0) {
        while (!atomic_load(&here->may_go) && !atomic_load(is_cancelled)) {
            (void)poll(NULL, 0, 1);
        }
        answer->cause = atomic_load(is_cancelled) ? GY_CAUSE_CANCELLED : GY_CAUSE_NONE;
    } else if (strcmp(word, "fail") == 0) {
        memcpy(task->board, "here", 5);
        answer->cause = GY_CAUSE_LOST_INPUT;
        answer->input = 3;
        gy_text_add(&answer->reason, "no such input");
    }
    answer->content = (gy_key){.high = 1, .low = task->id.task};
    gy_text_add_bytes(&answer->report, task->message, task->message_bytes);
}

static gy_status welcome(void *arg, const void *message, size_t message_bytes)
{
    (void)arg;
    return message_bytes == 5 && memcmp(message, "hello", 5) == 0
               ? GY_OK
               : gy_fail(GY_FORMAT, "no greeting");
}

static void *serve(void *arg)
{
    fixture *here = arg;
    here->status = gy_worker_serve_tasks(&here->serving);
    return NULL;
}

static void start(fixture *here, gy_worker_ops *ops, uint32_t threads)
{
    int pair[2];
    memset(here, 0, sizeof(*here));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_ok(gy_worker_boards_new(threads, &here->boards_file));
    assert_ok(gy_worker_boards_map(here->boards_file, threads, &here->boards));
    *ops = (gy_worker_ops){.run = run, .welcome = welcome, .arg = here};
    here->socket = pair[0];
    here->serving = (gy_worker_serving){
        .socket = pair[1], .threads = threads, .boards = here->boards, .ops = ops};
    assert_ok(gy_thread_start(&here->thread, "serve", serve, here));
}

static void tell(fixture *here, const gy_wire *message)
{
    gy_text out = {.data = NULL};
    gy_wire_add(&out, message);
    assert_int_equal(send(here->socket, out.data, out.size_bytes, MSG_NOSIGNAL),
                     (ssize_t)out.size_bytes);
    gy_text_free(&out);
}

static void order(fixture *here, gy_wire_kind kind, uint32_t task, const char *body)
{
    tell(here, &(gy_wire){.kind = kind,
                          .id = {.task = task, .attempt = 1},
                          .body = body,
                          .body_bytes = strlen(body)});
}

/* The next message; heartbeats are skipped unless one is wanted. */
static gy_wire hear(fixture *here, bool is_beat_wanted)
{
    gy_env *env = gy_env_real();
    gy_deadline last = gy_env_deadline(env, 10);
    for (;;) {
        gy_wire message;
        size_t used = 0;
        gy_status status =
            gy_wire_next(here->in + here->at, here->in_bytes - here->at, &message, &used);
        if (status == GY_OK) {
            here->at += used;
            if (message.kind != GY_WIRE_ALIVE || is_beat_wanted) {
                return message;
            }
            continue;
        }
        assert_int_equal(status, GY_AGAIN);
        struct pollfd look = {.fd = here->socket, .events = POLLIN};
        assert_true(gy_now_ns(env) < last.at_ns);
        if (poll(&look, 1, 100) > 0) {
            ssize_t got = recv(here->socket, here->in + here->in_bytes,
                               sizeof(here->in) - here->in_bytes, 0);
            assert_true(got > 0);
            here->in_bytes += (size_t)got;
        }
    }
}

static void wait_for_runs(fixture *here, int count)
{
    gy_deadline last = gy_env_deadline(gy_env_real(), 10);
    while (atomic_load(&here->running) < count) {
        assert_true(gy_now_ns(gy_env_real()) < last.at_ns);
        (void)poll(NULL, 0, 1);
    }
}

static void greet(fixture *here)
{
    order(here, GY_WIRE_WELCOME, 0, "hello");
    assert_int_equal(hear(here, false).kind, GY_WIRE_READY);
}

static int finish(fixture *here)
{
    close(here->socket);
    gy_thread_join(&here->thread);
    gy_worker_boards_unmap(here->boards, here->serving.threads);
    close(here->boards_file);
    return here->status;
}

GY_TEST(test_tasks_are_answered)
{
    static fixture here;
    gy_worker_ops ops;
    start(&here, &ops, 1);
    greet(&here);
    for (uint32_t i = 0; i < 100; i++) {
        order(&here, GY_WIRE_START, i, i == 50 ? "fail" : "x");
    }
    for (uint32_t i = 0; i < 100; i++) {
        gy_wire answer = hear(&here, false);
        assert_int_equal(answer.id.task, i);
        assert_int_equal(answer.id.attempt, 1);
        if (i == 50) {
            assert_int_equal(answer.kind, GY_WIRE_FAILED);
            assert_int_equal(answer.cause, GY_CAUSE_LOST_INPUT);
            assert_int_equal(answer.input, 3);
            assert_string_equal((const char *)answer.body, "here");
            assert_int_equal(answer.body_bytes, GY_BOARD_BYTES + strlen("no such input"));
            assert_memory_equal((const char *)answer.body + GY_BOARD_BYTES, "no such input",
                                13);
        } else {
            assert_int_equal(answer.kind, GY_WIRE_DONE);
            assert_int_equal(answer.key.low, i);
            assert_int_equal(answer.body_bytes, 1);
        }
    }
    assert_int_equal(finish(&here), 0);
}

/* An answer does not wait for the end of a long task that follows. */
GY_TEST(test_no_answer_lies_behind_a_long_task)
{
    static fixture here;
    gy_worker_ops ops;
    start(&here, &ops, 1);
    greet(&here);
    order(&here, GY_WIRE_START, 0, "x");
    order(&here, GY_WIRE_START, 1, "wait");
    order(&here, GY_WIRE_START, 2, "x");
    assert_int_equal(hear(&here, false).id.task, 0);
    assert_int_equal(hear(&here, true).kind, GY_WIRE_ALIVE); /* while the task runs */
    atomic_store(&here.may_go, true);
    assert_int_equal(hear(&here, false).id.task, 1);
    assert_int_equal(hear(&here, false).id.task, 2);
    assert_int_equal(finish(&here), 0);
}

GY_TEST(test_cancel)
{
    static fixture here;
    gy_worker_ops ops;
    start(&here, &ops, 1);
    greet(&here);
    order(&here, GY_WIRE_START, 0, "wait");
    wait_for_runs(&here, 1);
    order(&here, GY_WIRE_START, 1, "x");
    order(&here, GY_WIRE_START, 2, "x");
    order(&here, GY_WIRE_CANCEL, 1, "");
    order(&here, GY_WIRE_CANCEL, 7, ""); /* of a task that the process never had */
    order(&here, GY_WIRE_CANCEL, 0, "");
    gy_wire first = hear(&here, false), second = hear(&here, false);
    assert_int_equal(first.id.task, 0);
    assert_int_equal(first.cause, GY_CAUSE_CANCELLED);
    assert_int_equal(second.id.task, 1);
    assert_int_equal(second.cause, GY_CAUSE_CANCELLED);
    assert_int_equal(hear(&here, false).kind, GY_WIRE_DONE);
    assert_int_equal(atomic_load(&here.running), 2); /* the cancelled task never ran */
    assert_int_equal(finish(&here), 0);
}

GY_TEST(test_threads_run_side_by_side)
{
    static fixture here;
    gy_worker_ops ops;
    start(&here, &ops, 3);
    greet(&here);
    for (uint32_t i = 0; i < 3; i++) {
        order(&here, GY_WIRE_START, i, "wait");
    }
    wait_for_runs(&here, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&here.boards[i].is_running), 1);
    }
    atomic_store(&here.may_go, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hear(&here, false).kind, GY_WIRE_DONE);
    }
    assert_int_equal(finish(&here), 0);
}

GY_TEST(test_nonsense_ends_it)
{
    static fixture here;
    gy_worker_ops ops;
    start(&here, &ops, 1);
    greet(&here);
    tell(&here, &(gy_wire){.kind = GY_WIRE_READY}); /* only the process may send READY */
    gy_thread_join(&here.thread);
    assert_int_equal(finish(&here), 1);
    start(&here, &ops, 1);
    order(&here, GY_WIRE_WELCOME, 0, "what?");
    gy_thread_join(&here.thread);
    assert_int_equal(finish(&here), 1);
}

/* A message larger than one read, and one that arrives byte by byte. */
GY_TEST(test_pieces)
{
    static fixture here;
    static char large[100000];
    gy_worker_ops ops;
    start(&here, &ops, 1);
    memset(large, 'l', sizeof(large));
    order(&here, GY_WIRE_WELCOME, 0, "hello");
    gy_text out = {.data = NULL};
    gy_wire_add(&out, &(gy_wire){.kind = GY_WIRE_START, .body = "x", .body_bytes = 1});
    for (size_t i = 0; i < out.size_bytes; i++) {
        assert_int_equal(send(here.socket, out.data + i, 1, MSG_NOSIGNAL), 1);
    }
    gy_text_free(&out);
    assert_int_equal(hear(&here, false).kind, GY_WIRE_READY);
    assert_int_equal(hear(&here, false).kind, GY_WIRE_DONE);
    tell(&here, &(gy_wire){.kind = GY_WIRE_START,
                           .id = {.task = 9},
                           .body = large,
                           .body_bytes = sizeof(large)});
    gy_wire answer = hear(&here, false);
    assert_int_equal(answer.body_bytes, sizeof(large));
    assert_memory_equal(answer.body, large, sizeof(large));
    assert_int_equal(finish(&here), 0);
}

GY_TEST_MAIN(NULL, NULL)
