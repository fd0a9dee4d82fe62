/* Turns messages and ends of processes into events of the machine. */
#include "driver/loop.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
    NEVER_READY_MAX = 12, /* processes in a row that died before they were ready */
    NO_ANSWER_MAX = 8,    /* processes in a row that died by themselves without any result */
    LOSSES_MAX = 10,      /* processes lost under one task, after which the task is blamed */
    SILENCES_MAX = 3      /* the same for silence; each takes long, and the last ends the job */
};
static const int64_t heard_every_ns = 100000000;

/* ---- messages ---- */

static void handle_failed(gy_driver *driver, const gy_process *process, const gy_wire *message,
                          int64_t now_ns)
{
    static const uint8_t none[GY_BOARD_BYTES];
    const gy_driver_ops *ops = driver->ops;
    bool has_board = message->body_bytes >= GY_BOARD_BYTES;
    char reason[GY_ERROR_TEXT_BYTES];
    size_t skipped = has_board ? GY_BOARD_BYTES : 0;
    const char *words = (const char *)message->body + skipped;
    snprintf(reason, sizeof(reason), "%.*s",
             (int)GY_MIN(message->body_bytes - skipped, sizeof(reason) - 1), words);
    gy_sched_event event = {.kind = GY_EVENT_FAILED,
                            .cause = message->cause,
                            .now_ns = now_ns,
                            .process = process->slot,
                            .generation = process->generation,
                            .id = message->id,
                            .member = message->member,
                            .input = message->input,
                            .reason = reason};
    if (ops->failed != NULL) {
        event.cause =
            ops->failed(ops->arg, driver->manager, &event, has_board ? message->body : none);
    }
    gy_driver_step(driver, &event);
}

/* Does the output lie on the process's host, so that it is lost with it? */
static void check_held(const gy_driver *driver, gy_sched_event *done)
{
    const gy_driver_ops *ops = driver->ops;
    const int64_t bytes = ops->held != NULL ? ops->held(ops->arg, driver->manager, done) : -1;
    done->is_held = bytes >= 0;
    done->held_bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

/* Messages that concern only room flow. */
static void handle_words(const gy_driver *driver, const gy_process *process,
                         const gy_wire *message)
{
    const gy_driver_ops *ops = driver->ops;
    if (message->kind == GY_WIRE_OUTPUT && ops->said != NULL) {
        ops->said(ops->arg, message->body_bytes > 0 ? message->body : NULL, message->body_bytes,
                  (int)(message->input & 255));
    } else if (message->kind == GY_WIRE_TRACED && ops->traced != NULL) {
        gy_driver_guest guest = {.host = ""};
        if (driver->executor->guest != NULL) {
            driver->executor->guest(driver, process->slot, &guest);
        }
        ops->traced(ops->arg, &guest, message->input, message->body, message->body_bytes);
    }
}

/* Handle one message; one that a process must not send is a failure. */
static gy_status hear(gy_driver *driver, gy_process *process, const gy_wire *message,
                      int64_t now_ns)
{
    gy_sched_event event = {
        .now_ns = now_ns, .process = process->slot, .generation = process->generation};
    bool is_ready = process->state == GY_PROCESS_READY;
    switch (message->kind) {
    case GY_WIRE_READY:
        if (process->state != GY_PROCESS_STARTING) {
            break;
        }
        process->state = GY_PROCESS_READY;
        driver->deaths = 0;
        event.kind = GY_EVENT_PROCESS_UP;
        gy_driver_step(driver, &event);
        return GY_OK;
    case GY_WIRE_ALIVE:
        return GY_OK;
    case GY_WIRE_DONE:
        if (!is_ready) {
            break;
        }
        driver->unexplained = 0;
        event.kind = GY_EVENT_DONE;
        event.id = message->id;
        event.member = message->member;
        event.run_ns = message->run_ns;
        event.content = message->key;
        event.report = message->body;
        event.report_bytes = message->body_bytes;
        if (driver->executor->answered != NULL) {
            driver->executor->answered(driver, process);
            check_held(driver, &event);
        }
        gy_driver_step(driver, &event);
        return GY_OK;
    case GY_WIRE_FAILED:
        if (!is_ready) {
            break;
        }
        driver->unexplained = 0;
        if (driver->executor->answered != NULL) {
            driver->executor->answered(driver, process);
        }
        handle_failed(driver, process, message, now_ns);
        return GY_OK;
    case GY_WIRE_MEET:
        if (!is_ready) {
            break;
        }
        return gy_process_meet(driver, process, message);
    case GY_WIRE_OUTPUT:
    case GY_WIRE_TRACED:
        if (!is_ready) {
            break;
        }
        handle_words(driver, process, message);
        return GY_OK;
    case GY_WIRE_NONE:
    case GY_WIRE_WELCOME:
    case GY_WIRE_START:
    case GY_WIRE_CANCEL:
    case GY_WIRE_KINDS:
        break;
    }
    return gy_fail(GY_FORMAT, "message %d is out of order", (int)message->kind);
}

gy_status gy_process_understand(gy_driver *driver, gy_process *process)
{
    size_t at = 0, used = 0;
    int64_t now_ns = gy_now_ns(driver->env);
    gy_status status = GY_OK;
    while (status == GY_OK) {
        gy_wire message;
        status = gy_wire_next(process->in + at, process->in_bytes - at, &message, &used);
        if (status == GY_OK) {
            at += used;
            status = hear(driver, process, &message, now_ns);
        }
    }
    memmove(process->in, process->in + at, process->in_bytes - at);
    process->in_bytes -= at;
    if (status != GY_AGAIN) {
        return status;
    }
    return GY_GROW("driver.handle", process->in, process->in_room, GY_MAX(used, GY_READ_BYTES));
}

/* Make room for that many more bytes. */
static gy_status make_room(gy_process *process, size_t size_bytes)
{
    return GY_GROW("driver.handle", process->in, process->in_room,
                   GY_MAX(process->in_bytes + size_bytes, GY_READ_BYTES));
}

static void kill_for_garbage(gy_driver *driver, const gy_process *process)
{
    char reason[256];
    snprintf(reason, sizeof(reason), "it sent a malformed message: %.180s", gy_error_text());
    gy_process_kill(driver, process->slot, process->generation, reason);
}

static void report_heard(gy_driver *driver, gy_process *process, int64_t now_ns)
{
    if (process->state == GY_PROCESS_READY && now_ns - process->heard_ns >= heard_every_ns) {
        process->heard_ns = now_ns;
        gy_driver_step(driver, &(gy_sched_event){.kind = GY_EVENT_HEARD,
                                                 .now_ns = now_ns,
                                                 .process = process->slot,
                                                 .generation = process->generation});
    }
}

void gy_process_received(gy_driver *driver, gy_process *process, gy_status status)
{
    if (status < 0 && status != GY_AGAIN) {
        kill_for_garbage(driver, process);
    } else {
        report_heard(driver, process, gy_now_ns(driver->env));
    }
}

void gy_driver_handle_bytes(gy_driver *driver, gy_process *process, const void *data,
                            size_t size_bytes)
{
    const uint32_t generation = process->generation;
    if (process->state == GY_PROCESS_MUTE || size_bytes == 0) {
        return;
    }
    gy_status status = make_room(process, size_bytes);
    if (status == GY_OK) {
        memcpy(process->in + process->in_bytes, data, size_bytes);
        process->in_bytes += size_bytes;
        status = gy_process_understand(driver, process);
    }
    if (process->generation == generation && process->state != GY_PROCESS_NONE) {
        gy_process_received(driver, process,
                            status); /* otherwise its own message closed the slot */
    }
}

/* ---- ends ---- */

/* Write why a process ended, for display; returns the length without the end of its log. */
static size_t explain(const gy_process *process, const gy_gone *gone, gy_text *reason)
{
    gy_text_add(reason, "%s", process->reason[0] != '\0' ? process->reason : gone->why);
    const size_t brief = reason->size_bytes;
    gy_text_add(reason, "%s", gone->log_end);
    return brief;
}

/* Did the process die from what it ran? Not if it was killed from outside. */
static bool is_its_own(const gy_process *process, const gy_fork_server_news *news)
{
    if (process->is_killed) {
        return false;
    }
    if (news->is_over_memory || process->reason[0] != '\0' || !WIFSIGNALED(news->status)) {
        return true;
    }
    int number = WTERMSIG(news->status);
    return number != SIGKILL && number != SIGTERM && number != SIGINT && number != SIGHUP;
}

/* The row of a task under which processes are lost; NULL: no memory. */
static gy_suspect *get_suspect(gy_driver *driver, uint32_t task)
{
    size_t at = 0;
    while (at < driver->suspect_count && driver->suspects[at].task != task) {
        at++;
    }
    if (at == driver->suspect_count) {
        gy_status status =
            GY_GROW("driver.suspects", driver->suspects, driver->suspect_room, at + 1);
        if (status < 0) {
            return NULL;
        }
        driver->suspects[driver->suspect_count++] = (gy_suspect){.task = task};
    }
    return &driver->suspects[at];
}

/* Count another process lost under the task for no reason of its own. True: this happened too
 * often to be chance. Without memory to count: false. */
static bool is_suspect(gy_driver *driver, uint32_t task)
{
    gy_suspect *row = get_suspect(driver, task);
    return row != NULL && ++row->losses > LOSSES_MAX;
}

static bool is_at_work(const gy_board *line)
{
    return atomic_load_explicit(&line->is_running, memory_order_acquire) != 0 ||
           atomic_load_explicit(&line->is_cut_off, memory_order_acquire) != 0;
}

static bool is_culprit(const gy_driver_ops *ops, const gy_board *line)
{
    return atomic_load_explicit(&line->is_cut_off, memory_order_acquire) != 0 ||
           (ops->is_culprit != NULL && ops->is_culprit(line->text));
}

/* Did another task's action kill the process? */
static bool is_bystander(const gy_driver_ops *ops, const gy_gone *gone, const gy_board *line)
{
    bool is_known = false; /* a board names the culprit */
    for (uint32_t i = 0; i < gone->line_count; i++) {
        const gy_board *one = &gone->lines[i];
        is_known = is_known || (is_at_work(one) && is_culprit(ops, one));
    }
    return is_known && !is_culprit(ops, line);
}

/* A silent process is killed and its task runs again, but not for ever: the task may have
 * stopped the process. A suspended or busy host makes many processes silent, each with another
 * task. */
static void count_silence(gy_driver *driver, const gy_process *process, const gy_gone *gone)
{
    for (uint32_t i = 0; process->is_silent && i < gone->line_count; i++) {
        const gy_board *line = &gone->lines[i];
        gy_suspect *row = is_at_work(line) ? get_suspect(driver, line->id.task) : NULL;
        if (row != NULL && ++row->silences >= SILENCES_MAX && !driver->is_killed) {
            gy_sched_task_state state;
            gy_manager_task(driver->manager, row->task, &state);
            gy_driver_kill(
                driver,
                gy_fail(
                    GY_TIMEOUT,
                    "%d processes that ran task %u of stage '%s' sent no heartbeat and were "
                    "killed: the task's code stops its process or keeps it from running",
                    SILENCES_MAX, row->task,
                    gy_manager_stage_name(driver->manager, state.stage)));
        }
    }
}

/* Fail the tasks that were running in the process; if it was killed from outside, only those
 * under which this happens repeatedly. True: any failed. */
static bool fail_running(gy_driver *driver, const gy_process *process, const gy_gone *gone,
                         const char *reason)
{
    const gy_driver_ops *ops = driver->ops;
    const bool is_own = is_its_own(process, gone->news);
    bool has_failed = false;
    for (uint32_t i = 0; i < gone->line_count; i++) {
        gy_board *line = &gone->lines[i];
        if (!is_at_work(line) || (!is_own && !is_suspect(driver, line->id.task))) {
            continue;
        }
        const bool is_innocent = is_bystander(ops, gone, line);
        gy_sched_event event = {.kind = GY_EVENT_FAILED,
                                .cause = is_innocent ? GY_CAUSE_PEER : GY_CAUSE_OWN,
                                .process = process->slot,
                                .generation = process->generation,
                                .id = line->id,
                                .member = line->member,
                                .is_gone = true,
                                .reason = reason};
        if (ops->failed != NULL) {
            event.cause = ops->failed(ops->arg, driver->manager, &event, line->text);
        }
        gy_driver_step(driver, &event);
        has_failed = true;
    }
    return has_failed;
}

/* No task was running for sure: blame the tasks that ran last. */
static void fail_without_answer(gy_driver *driver, const gy_gone *gone, const char *words)
{
    char last[128] = "";
    const gy_board *line = gone->line_count > 0 ? &gone->lines[0] : NULL;
    if (line != NULL && line->id.attempt > 0 && line->id.task != GY_NONE) {
        gy_sched_task_state state;
        gy_manager_task(driver->manager, line->id.task, &state);
        (void)gy_print(last, sizeof(last), " of task %u of stage '%.60s'", line->id.task,
                       gy_manager_stage_name(driver->manager, state.stage));
    }
    gy_driver_fail(driver, gy_fail(GY_PEER, "processes%s end repeatedly without an answer: %s",
                                   last[0] != '\0' ? last : " of the job", words));
}

void gy_process_end(gy_driver *driver, gy_process *process, const gy_gone *gone)
{
    gy_text reason = {.data = NULL};
    const size_t brief = explain(process, gone, &reason);
    const char *words = reason.status == GY_OK ? gy_text_get(&reason) : "out of memory";
    if (process->state == GY_PROCESS_STARTING && !process->is_killed &&
        ++driver->deaths > NEVER_READY_MAX) {
        gy_driver_fail(driver,
                       gy_fail(GY_PEER, "no process of the job becomes ready: %s", words));
    }
    count_silence(driver, process, gone);
    const bool has_failed =
        gone->news->error == 0 && fail_running(driver, process, gone, words);
    const bool is_nobodys = gone->news->error == 0 && !has_failed &&
                            process->state == GY_PROCESS_READY &&
                            is_its_own(process, gone->news);
    if (has_failed && brief < reason.size_bytes) {
        reason.data[brief] = '\0'; /* the task's note contains its log */
    }
    if (is_nobodys && ++driver->unexplained > NO_ANSWER_MAX) {
        fail_without_answer(driver, gone, words);
    }
    uint32_t generation = process->generation;
    gy_process_gone(driver, process);
    gy_driver_step(driver,
                   &(gy_sched_event){.kind = GY_EVENT_PROCESS_DOWN,
                                     .cause = GY_CAUSE_CANCELLED, /* what counts is reported */
                                     .process = process->slot,
                                     .generation = generation,
                                     .reason = words});
    gy_text_free(&reason);
}
