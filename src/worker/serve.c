/*
 * A vertex process. One thread reads tasks in advance and sends heartbeats, also while user
 * code runs; `threads` others run the tasks. Answers are batched: a runner that finishes a task
 * sends them when no task waits, when there are enough, or when the reader is not checking (it
 * checks every LOOK_MS while tasks wait, so that no answer waits behind a long task).
 *
 * Locks: `lock` (the queue) before `out_lock` (the answers); never both.
 */
#include "worker/serve_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const double leave_seconds = 0.1; /* time for a running task to end at shutdown */
enum {
    QUEUE_MAX = 4096, /* tasks; the manager sends far fewer */
    READ_BYTES = 64 << 10,
    GATHER_ANSWERS = 16,
    GATHER_BYTES = 64 << 10,
    LOOK_MS = 10,
    BEAT_MS = 250,
    QUEUE_RANK = 20,
    OUT_RANK = 10
};

/* A task that waits or runs; it owns its body. */
typedef struct waiting {
    gy_wire start;
    void *body;
    bool is_cancelled;
} waiting;

typedef struct runner {
    gy_thread thread;
    struct server *server;
    gy_board *board;
    gy_attempt id; /* of the task that runs */
    uint32_t member;
    bool is_running;
    _Atomic bool is_cancelled;
    /* with `lock`: the answer to its last question */
    uint32_t asked; /* a member */
    char words[GY_WORKER_WORDS_BYTES + 1];
    size_t word_bytes; /* 0: no answer has come */
} runner;

typedef struct server {
    const gy_worker_serving *serving;
    /* Its identity at the start: user code may put another file in its place. */
    struct stat socket;
    gy_env *env;
    gy_mutex lock;
    gy_cond has_task, is_idle;
    waiting *queue GY_GUARDED(lock); /* a ring of QUEUE_MAX */
    uint32_t head;
    _Atomic uint32_t count;
    bool has_ended;
    runner *runners; /* (threads) */
    _Atomic bool is_watched;
    gy_mutex out_lock;
    gy_text out GY_GUARDED(out_lock);
    _Atomic uint32_t gathered;   /* bytes of batched answers; changed with out_lock */
    _Atomic int64_t reported_ns; /* when the last bytes were sent */
    _Atomic bool is_broken;      /* the other end has closed */
    uint8_t *in;                 /* (room) received, not parsed yet; used by the reader only */
    size_t in_bytes, in_room;
} server;

/* ---- a socket that code of users closed or replaced ---- */

static bool is_socket_ours(const server *here)
{
    struct stat now;
    return fstat(here->serving->socket, &now) == 0 && now.st_ino == here->socket.st_ino &&
           now.st_dev == here->socket.st_dev;
}

/* End the process, and record on the boards why and which task caused it: that of `line`; NULL:
 * any that ran last in a thread, whose answer may be lost with the socket. */
static _Noreturn void end_cut_off(const server *here, const gy_board *line)
{
    for (uint32_t i = 0; i < here->serving->threads; i++) {
        gy_board *one = &here->serving->boards[i];
        if (one->id.task != GY_NONE && (line == NULL || one == line)) {
            atomic_store_explicit(&one->is_cut_off, 1, memory_order_relaxed);
            atomic_store_explicit(&one->is_running, 1, memory_order_release);
        }
    }
    _exit(1);
}

/* ---- answers ---- */

/* The socket does not block, so that user code that reads from it erroneously does not hang. */
static void wait_for_room(const server *here)
{
    struct pollfd look = {.fd = here->serving->socket, .events = POLLOUT};
    (void)poll(&look, 1, BEAT_MS);
}

/* Send all batched answers; waits until the manager's side takes them or has ended. */
static void send_gathered(server *here) GY_REQUIRES(here->out_lock)
{
    size_t sent = 0;
    if (!is_socket_ours(here)) {
        end_cut_off(here, NULL);
    }
    while (sent < here->out.size_bytes && !here->is_broken) {
        ssize_t done = send(here->serving->socket, here->out.data + sent,
                            here->out.size_bytes - sent, MSG_NOSIGNAL);
        if (done > 0) {
            sent += (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {
            wait_for_room(here);
        } else if (done < 0 && errno != EINTR) {
            here->is_broken = true;
        }
    }
    if (here->out.status < 0) { /* an answer is lost, and the manager must not wait for it */
        here->is_broken = true;
        (void)shutdown(here->serving->socket, SHUT_RDWR);
    }
    here->out.size_bytes = 0;
    here->gathered = 0;
    here->reported_ns = gy_now_ns(here->env);
}

static void tell(server *here, const gy_wire *message, bool is_urgent)
{
    gy_mutex_lock(&here->out_lock);
    gy_wire_add(&here->out, message);
    here->gathered++;
    if (is_urgent || here->gathered >= GATHER_ANSWERS || here->out.size_bytes >= GATHER_BYTES ||
        !atomic_load_explicit(&here->is_watched, memory_order_relaxed) ||
        atomic_load_explicit(&here->count, memory_order_relaxed) == 0) {
        send_gathered(here);
    }
    gy_mutex_unlock(&here->out_lock);
}

/* The body of FAILED is the board, then the reason. */
static void tell_failure(server *here, const gy_wire *start, const void *board,
                         const gy_worker_answer *answer)
{
    gy_text body = {.data = NULL};
    gy_text_add_bytes(&body, board, GY_BOARD_BYTES);
    const char *reason = gy_text_get(&answer->reason);
    gy_text_add_bytes(&body, reason, GY_MIN(strlen(reason), (size_t)GY_ERROR_TEXT_BYTES));
    gy_wire message = {.kind = GY_WIRE_FAILED,
                       .cause = answer->cause,
                       .id = start->id,
                       .member = start->member,
                       .input = answer->input,
                       .body = body.status == GY_OK ? body.data : NULL,
                       .body_bytes = body.status == GY_OK ? body.size_bytes : 0};
    tell(here, &message, true);
    gy_text_free(&body);
}

/* ---- runners ---- */

/* Take the next task; false: the process ends. */
static bool take(server *here, runner *self, waiting *task)
{
    gy_mutex_lock(&here->lock);
    self->is_running = false;
    if (here->has_ended) {
        gy_cond_signal(&here->is_idle);
    }
    while (here->count == 0 && !here->has_ended) {
        /* No deadline: at the end the reader sees its socket close and wakes all. */
        (void)gy_cond_wait(&here->has_task, &here->lock, GY_NEVER);
    }
    bool is_there = !here->has_ended;
    if (is_there) {
        *task = here->queue[here->head];
        here->head = (here->head + 1) % QUEUE_MAX;
        here->count--;
        /* Start at index 0 again, which is in the cache. */
        here->head = here->count == 0 ? 0 : here->head;
        self->id = task->start.id;
        self->member = task->start.member;
        self->asked = GY_NONE;
        self->word_bytes = 0;
        self->is_running = true;
        self->is_cancelled = task->is_cancelled;
    }
    gy_mutex_unlock(&here->lock);
    return is_there;
}

static void run_task(server *here, runner *self, const waiting *task)
{
    const gy_worker_ops *ops = here->serving->ops;
    gy_board *board = self->board;
    gy_worker_answer answer = {.cause = GY_CAUSE_NONE};
    gy_worker_task given = {.id = task->start.id,
                            .key = task->start.key,
                            .member = task->start.member,
                            .message = task->body,
                            .message_bytes = task->start.body_bytes,
                            .board = board->text,
                            .runner = self};
    memset(board->text, 0, sizeof(board->text));
    board->id = task->start.id;
    board->member = task->start.member;
    /* Pairs with the manager's side, which reads it after this process's death. */
    atomic_store_explicit(&board->is_running, 1, memory_order_release);
    int64_t begin_ns = gy_now_ns(here->env);
    ops->run(ops->arg, &given, &self->is_cancelled, &answer);
    int64_t run_ns = gy_now_ns(here->env) - begin_ns;
    if (!is_socket_ours(here)) {
        end_cut_off(here, board);
    }
    if (answer.cause == GY_CAUSE_NONE &&
        (answer.report.status < 0 || answer.report.size_bytes > GY_WIRE_BODY_BYTES)) {
        answer.cause = GY_CAUSE_OWN;
        gy_text_add(&answer.reason, "its report of %zu bytes is too large",
                    answer.report.size_bytes);
    }
    if (answer.cause != GY_CAUSE_NONE) {
        tell_failure(here, &task->start, board->text, &answer);
    }
    atomic_store_explicit(&board->is_running, 0, memory_order_release);
    if (answer.cause == GY_CAUSE_NONE) {
        tell(here,
             &(gy_wire){.kind = GY_WIRE_DONE,
                        .id = task->start.id,
                        .member = task->start.member,
                        .key = answer.content,
                        .run_ns = run_ns,
                        .body = answer.report.data,
                        .body_bytes = answer.report.size_bytes},
             false);
    }
    gy_text_free(&answer.report);
    gy_text_free(&answer.reason);
}

void gy_worker_publish(const gy_worker_task *task, const void *words, size_t size_bytes)
{
    const runner *self = task->runner;
    GY_ASSERT(size_bytes > 0 && size_bytes <= GY_WORKER_WORDS_BYTES);
    tell(self->server,
         &(gy_wire){.kind = GY_WIRE_MEET,
                    .id = task->id,
                    .member = task->member,
                    .body = words,
                    .body_bytes = size_bytes},
         true);
}

gy_status gy_worker_ask(const gy_worker_task *task, uint32_t member,
                        char words[GY_WORKER_WORDS_BYTES + 1])
{
    runner *self = task->runner;
    server *here = self->server;
    gy_mutex_lock(&here->lock);
    if (self->asked != member) {
        self->asked = member;
        self->word_bytes = 0;
    }
    const size_t got = self->word_bytes;
    memcpy(words, self->words, got);
    self->word_bytes = 0;
    gy_mutex_unlock(&here->lock);
    words[got] = '\0';
    if (got == 0) {
        tell(here,
             &(gy_wire){
                 .kind = GY_WIRE_MEET, .id = task->id, .member = task->member, .input = member},
             true);
    }
    return got > 0 ? GY_OK : GY_AGAIN;
}

void gy_worker_output(const gy_worker_task *task, const void *text, size_t size_bytes,
                      int exit_status)
{
    const runner *self = task->runner;
    tell(self->server,
         &(gy_wire){.kind = GY_WIRE_OUTPUT,
                    .id = task->id,
                    .member = task->member,
                    .input = (uint32_t)exit_status,
                    .body = text,
                    .body_bytes = text != NULL ? size_bytes : 0},
         true);
}

void gy_worker_trace(const gy_worker_task *task, const void *rows, size_t size_bytes)
{
    const runner *self = task->runner;
    if (size_bytes > 0 && size_bytes <= GY_WIRE_BODY_BYTES) {
        tell(self->server,
             &(gy_wire){.kind = GY_WIRE_TRACED,
                        .id = task->id,
                        .member = task->member,
                        .input = (uint32_t)getpid(),
                        .body = rows,
                        .body_bytes = size_bytes},
             false);
    }
}

/* User code ended the thread that ran it, so no thread would answer for its task. */
static void end_thread(void *arg)
{
    (void)arg;
    gy_log_message("a function of the job ended its thread (pthread_exit)");
    _exit(1);
}

static void *run_tasks(void *arg)
{
    runner *self = arg;
    server *here = self->server;
    waiting task;
    sigset_t none; /* user code has the fault signals and handlers of an ordinary program */
    sigemptyset(&none);
    GY_ASSERT(pthread_sigmask(SIG_SETMASK, &none, NULL) == 0);
    while (take(here, self, &task)) {
        if (task.is_cancelled) {
            static const uint8_t no_board[GY_BOARD_BYTES];
            tell_failure(here, &task.start, no_board,
                         &(gy_worker_answer){.cause = GY_CAUSE_CANCELLED});
        } else {
            pthread_cleanup_push(end_thread, NULL);
            run_task(here, self, &task);
            pthread_cleanup_pop(0);
        }
        gy_free(task.body);
    }
    return NULL;
}

/* ---- the reader ---- */

static gy_status add_task(server *here, const gy_wire *start)
{
    waiting task = {.start = *start};
    task.start.body = NULL;
    if (start->body_bytes > 0) {
        task.body = gy_alloc("worker.task", start->body_bytes);
        if (task.body == NULL) {
            return GY_NOMEM;
        }
        memcpy(task.body, start->body, start->body_bytes);
    }
    gy_mutex_lock(&here->lock);
    bool is_full = here->count == QUEUE_MAX;
    if (!is_full) {
        here->queue[(here->head + here->count) % QUEUE_MAX] = task;
        here->count++;
        gy_cond_signal(&here->has_task);
    }
    gy_mutex_unlock(&here->lock);
    if (is_full) {
        gy_free(task.body);
        return gy_fail(GY_LIMIT, "over %d tasks at once", QUEUE_MAX);
    }
    return GY_OK;
}

static bool is_same(const gy_attempt *a, const gy_attempt *b)
{
    return a->task == b->task && a->epoch == b->epoch && a->attempt == b->attempt;
}

static void cancel(server *here, const gy_wire *message)
{
    gy_mutex_lock(&here->lock);
    for (uint32_t i = 0; i < here->count; i++) {
        waiting *task = &here->queue[(here->head + i) % QUEUE_MAX];
        if (is_same(&task->start.id, &message->id) && task->start.member == message->member) {
            task->is_cancelled = true;
        }
    }
    for (uint32_t i = 0; i < here->serving->threads; i++) {
        runner *one = &here->runners[i];
        if (one->is_running && is_same(&one->id, &message->id) &&
            one->member == message->member) {
            one->is_cancelled = true;
        }
    }
    gy_mutex_unlock(&here->lock);
}

/* Deliver an answer to the member that asked, unless it has asked for another member since. */
static gy_status answer(server *here, const gy_wire *message)
{
    if (message->body_bytes == 0 || message->body_bytes > GY_WORKER_WORDS_BYTES) {
        return gy_fail(GY_FORMAT, "an answer of %zu bytes", message->body_bytes);
    }
    gy_mutex_lock(&here->lock);
    for (uint32_t i = 0; i < here->serving->threads; i++) {
        runner *one = &here->runners[i];
        if (one->is_running && is_same(&one->id, &message->id) &&
            one->member == message->member && one->asked == message->input) {
            memcpy(one->words, message->body, message->body_bytes);
            one->word_bytes = message->body_bytes;
        }
    }
    gy_mutex_unlock(&here->lock);
    return GY_OK;
}

static gy_status hear(server *here, const gy_wire *message)
{
    const gy_worker_ops *ops = here->serving->ops;
    switch (message->kind) {
    case GY_WIRE_WELCOME:
        if (ops->welcome != NULL) {
            GY_TRY(ops->welcome(ops->arg, message->body, message->body_bytes));
        }
        tell(here, &(gy_wire){.kind = GY_WIRE_READY}, true);
        return GY_OK;
    case GY_WIRE_START:
        return add_task(here, message);
    case GY_WIRE_CANCEL:
        cancel(here, message);
        return GY_OK;
    case GY_WIRE_MEET:
        return answer(here, message);
    case GY_WIRE_OUTPUT:
    case GY_WIRE_TRACED:
    case GY_WIRE_NONE:
    case GY_WIRE_READY:
    case GY_WIRE_ALIVE:
    case GY_WIRE_DONE:
    case GY_WIRE_FAILED:
    case GY_WIRE_KINDS:
        break;
    }
    return gy_fail(GY_FORMAT, "message %d is none for a vertex process", (int)message->kind);
}

/* Handle all messages received so far. */
static gy_status handle_all(server *here)
{
    size_t at = 0, used = 0;
    gy_status status = GY_OK;
    while (status == GY_OK) {
        gy_wire message;
        status = gy_wire_next(here->in + at, here->in_bytes - at, &message, &used);
        if (status == GY_OK) {
            at += used;
            status = hear(here, &message);
        }
    }
    memmove(here->in, here->in + at, here->in_bytes - at);
    here->in_bytes -= at;
    if (status == GY_AGAIN) {
        status = GY_GROW("worker.serve", here->in, here->in_room, GY_MAX(used, READ_BYTES));
    }
    return status;
}

/* Read once. GY_AGAIN: no data; GY_PEER: the end */
static gy_status read_some(server *here)
{
    if (!is_socket_ours(here)) {
        end_cut_off(here, NULL);
    }
    ssize_t got = recv(here->serving->socket, here->in + here->in_bytes,
                       here->in_room - here->in_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return GY_AGAIN;
    }
    if (got <= 0) {
        return GY_PEER;
    }
    here->in_bytes += (size_t)got;
    return handle_all(here);
}

/* Send answers that wait behind a long task, and a heartbeat when nothing was sent for a while.
 */
static void look_after(server *here)
{
    gy_mutex_lock(&here->out_lock);
    if (here->out.size_bytes > 0) {
        send_gathered(here);
    }
    gy_mutex_unlock(&here->out_lock);
    if (gy_now_ns(here->env) - here->reported_ns >= (int64_t)BEAT_MS * 1000000) {
        tell(here, &(gy_wire){.kind = GY_WIRE_ALIVE}, true);
    }
}

/* Read until the other end closes, or invalid data arrive. */
static gy_status read_all(server *here)
{
    gy_status status = GY_OK;
    while (status >= 0 && !here->is_broken) {
        bool is_watched = here->count > 0 || here->gathered > 0;
        atomic_store_explicit(&here->is_watched, is_watched, memory_order_relaxed);
        struct pollfd look = {.fd = here->serving->socket, .events = POLLIN};
        if (poll(&look, 1, is_watched ? LOOK_MS : BEAT_MS) > 0) {
            status = read_some(here);
            if (gy_now_ns(here->env) - here->reported_ns >= (int64_t)BEAT_MS * 1000000) {
                look_after(here);
            }
        } else {
            look_after(here);
        }
    }
    return here->is_broken ? GY_PEER : status;
}

/* ---- the process ---- */

static gy_status start_runners(server *here)
{
    for (uint32_t i = 0; i < here->serving->threads; i++) {
        runner *one = &here->runners[i];
        *one = (runner){.server = here, .board = &here->serving->boards[i]};
        atomic_store_explicit(&one->board->is_running, 0, memory_order_relaxed);
        one->board->id.task = GY_NONE; /* no task ran in this thread */
        GY_TRY(gy_thread_start(&one->thread, "vertex", run_tasks, one));
    }
    return GY_OK;
}

static bool is_any_running(const server *here) GY_REQUIRES(here->lock)
{
    uint32_t i = 0;
    while (i < here->serving->threads && !here->runners[i].is_running) {
        i++;
    }
    return i < here->serving->threads;
}

/* A task that runs when the socket ends may be the cause, by shutting it down. The manager's
 * side learns this from the boards, which an answer that does not arrive leaves set. */
static void mark_running(server *here)
{
    gy_mutex_lock(&here->lock);
    for (uint32_t i = 0; i < here->serving->threads; i++) {
        if (here->runners[i].is_running) {
            atomic_store_explicit(&here->serving->boards[i].is_cut_off, 1,
                                  memory_order_release);
        }
    }
    gy_mutex_unlock(&here->lock);
}

/* End the runners. The result of a running task is no longer needed: cancel it, and end the
 * process if the task ignores its flag. */
static void end_runners(server *here, int status)
{
    mark_running(here); /* in case the manager's side is alive after all */
    gy_deadline last = gy_env_deadline(here->env, leave_seconds);
    gy_status waited = GY_OK;
    gy_mutex_lock(&here->lock);
    here->has_ended = true;
    for (uint32_t i = 0; i < here->serving->threads; i++) {
        here->runners[i].is_cancelled = true;
    }
    gy_cond_broadcast(&here->has_task);
    while (waited == GY_OK && is_any_running(here)) {
        waited = gy_cond_wait(&here->is_idle, &here->lock, last);
    }
    gy_mutex_unlock(&here->lock);
    if (waited != GY_OK) {
        _exit(status);
    }
    for (uint32_t i = 0; i < here->serving->threads; i++) {
        gy_thread_join(&here->runners[i].thread);
    }
}

static void free_server(server *here)
{
    for (; here->queue != NULL && here->count > 0; here->count--) {
        gy_free(here->queue[here->head].body);
        here->head = (here->head + 1) % QUEUE_MAX;
    }
    gy_free(here->queue);
    gy_free(here->runners);
    gy_free(here->in);
    gy_text_free(&here->out);
    gy_mutex_fini(&here->out_lock);
    gy_cond_fini(&here->has_task);
    gy_cond_fini(&here->is_idle);
    gy_mutex_fini(&here->lock);
    close(here->serving->socket);
}

int gy_worker_serve_tasks(const gy_worker_serving *serving)
{
    server here = {.serving = serving, .env = gy_env_real(), .in_room = READ_BYTES};
    gy_mutex_init(&here.lock, QUEUE_RANK);
    gy_cond_init(&here.has_task);
    gy_cond_init(&here.is_idle);
    gy_mutex_init(&here.out_lock, OUT_RANK);
    here.queue = gy_alloc("worker.serve", QUEUE_MAX * sizeof(waiting));
    here.runners = gy_alloc_zero("worker.serve", serving->threads, sizeof(runner));
    here.in = gy_alloc("worker.serve", READ_BYTES);
    gy_status status = GY_NOMEM;
    if (here.queue != NULL && here.runners != NULL && here.in != NULL) {
        here.reported_ns = gy_now_ns(here.env);
        GY_ASSERT(fstat(serving->socket, &here.socket) == 0 &&
                  fcntl(serving->socket, F_SETFL, O_NONBLOCK) == 0);
        status = start_runners(&here);
        status = status < 0 ? status : read_all(&here);
    }
    if (status != GY_PEER) {
        gy_log_message("a vertex process cannot continue: %s", gy_error_text());
    }
    int code = status == GY_PEER ? 0 : 1;
    if (here.runners != NULL) {
        end_runners(&here, code);
    }
    free_server(&here);
    return code;
}
