/* The slots: processes that start, get messages, are killed, end. */
#include "driver/remote.h"
#include "worker/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const int64_t ready_ns = 30000000000; /* from its start to READY */
static const int64_t leave_ns = 500000000;   /* from the end of its socket to its own */

gy_status gy_driver_processes_open(gy_driver *driver)
{
    const gy_driver_options *options = driver->options;
    uint32_t count = driver->process_count;
    driver->processes = gy_alloc_zero("driver.processes", count, sizeof(gy_process));
    driver->dirty = gy_alloc("driver.processes", count * sizeof(uint32_t));
    if (driver->processes == NULL || driver->dirty == NULL) {
        return GY_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        driver->processes[i].slot = i;
        driver->processes[i].socket = -1;
    }
    if (options->ticket != NULL) {
        return GY_OK; /* daemons have the supervisors */
    }
    driver->supervisor = (gy_supervisor){.env = driver->env,
                                         .start = {.argv = options->argv},
                                         .role = {.processes = count,
                                                  .threads = driver->threads,
                                                  .memory_bytes = options->memory_bytes},
                                         .sandbox = options->sandbox,
                                         .folder = driver->options->folder};
    return gy_supervisor_open(&driver->supervisor);
}

gy_status gy_driver_fork_server_start(gy_driver *driver)
{
    GY_TRY(gy_supervisor_start(&driver->supervisor));
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = GY_EPOLL_FORK_SERVER}};
    if (epoll_ctl(driver->epoll, EPOLL_CTL_ADD, driver->supervisor.socket, &event) != 0) {
        return gy_fail(GY_LIMIT, "cannot watch a socket: %s", strerror(errno));
    }
    return GY_OK;
}

static gy_status add_welcome(gy_driver *driver, gy_process *process)
{
    const gy_driver_ops *ops = driver->ops;
    gy_text *message = &driver->message;
    message->size_bytes = 0;
    message->status = GY_OK;
    if (ops->welcome != NULL) {
        const char *folder =
            driver->remote != NULL ? gy_remote_folder(driver, process->slot) : NULL;
        GY_TRY(ops->welcome(ops->arg, folder, message));
        GY_TRY(message->status);
    }
    gy_wire_add(&process->out, &(gy_wire){.kind = GY_WIRE_WELCOME,
                                          .body = message->data,
                                          .body_bytes = message->size_bytes});
    return process->out.status;
}

static gy_status spawn(gy_driver *driver, gy_process *process)
{
    if (driver->remote != NULL) {
        GY_TRY(gy_remote_spawn(driver, process));
        return add_welcome(driver, process);
    }
    GY_TRY(gy_supervisor_spawn(&driver->supervisor, process->slot, process->generation,
                               &process->socket));
    uint64_t name = ((uint64_t)process->generation << 32) | process->slot << 2;
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = name | GY_EPOLL_PROCESS}};
    if (epoll_ctl(driver->epoll, EPOLL_CTL_ADD, process->socket, &event) != 0) {
        gy_status status = gy_fail(GY_LIMIT, "cannot watch a socket: %s", strerror(errno));
        gy_supervisor_kill(&driver->supervisor, process->slot, process->generation);
        return status;
    }
    return add_welcome(driver, process);
}

void gy_process_spawn(gy_driver *driver, const gy_effect *effect)
{
    GY_ASSERT(effect->process < driver->process_count);
    gy_process *process = &driver->processes[effect->process];
    GY_ASSERT(process->state == GY_PROCESS_NONE);
    process->generation = effect->generation;
    process->state = GY_PROCESS_STARTING;
    process->began_ns = gy_now_ns(driver->env);
    process->heard_ns = 0;
    process->closed_ns = 0;
    process->is_killed = false;
    process->is_silent = false;
    process->is_bereft = false;
    process->reason[0] = '\0';
    if (spawn(driver, process) < 0) {
        gy_process_gone(driver, process);
        gy_errand_failed(driver, effect);
    } else {
        gy_process_touch(driver, process);
    }
}

void gy_process_gone(gy_driver *driver, gy_process *process)
{
    if (process->socket >= 0) {
        close(process->socket);
    }
    process->socket = -1;
    process->state = GY_PROCESS_NONE;
    process->is_blocked = false;
    process->sent = 0;
    process->in_bytes = 0;
    gy_text_free(&process->out);
    if (driver->remote != NULL) {
        gy_remote_forget(driver, process);
    } else {
        gy_supervisor_clear(&driver->supervisor, process->slot);
    }
}

void gy_process_kill(gy_driver *driver, uint32_t slot, uint32_t generation, const char *reason)
{
    gy_process *process = &driver->processes[slot];
    GY_ASSERT(slot < driver->process_count);
    if (process->state == GY_PROCESS_NONE || process->generation != generation) {
        return;
    }
    if (reason != NULL) {
        process->state = GY_PROCESS_MUTE;
        if (process->reason[0] == '\0') {
            snprintf(process->reason, sizeof(process->reason), "%s", reason);
        }
    } else {
        process->is_killed = true;
    }
    if (driver->remote != NULL) {
        gy_remote_kill(driver, process, reason);
    } else {
        gy_supervisor_kill(&driver->supervisor, slot, generation);
    }
}

gy_process *gy_process_get(gy_driver *driver, uint32_t slot, uint32_t generation)
{
    GY_ASSERT(slot < driver->process_count);
    gy_process *process = &driver->processes[slot];
    return process->state == GY_PROCESS_READY && process->generation == generation ? process
                                                                                   : NULL;
}

void gy_process_touch(gy_driver *driver, gy_process *process)
{
    if (!process->is_dirty) {
        process->is_dirty = true;
        driver->dirty[driver->dirty_count++] = process->slot;
    }
}

static void watch(const gy_driver *driver, gy_process *process, bool is_blocked)
{
    if (process->is_blocked != is_blocked) {
        uint64_t name = ((uint64_t)process->generation << 32) | process->slot << 2;
        struct epoll_event event = {.events = EPOLLIN | (is_blocked ? EPOLLOUT : 0),
                                    .data = {.u64 = name | GY_EPOLL_PROCESS}};
        GY_ASSERT(epoll_ctl(driver->epoll, EPOLL_CTL_MOD, process->socket, &event) == 0);
        process->is_blocked = is_blocked;
    }
}

static void send_to(gy_driver *driver, gy_process *process)
{
    gy_text *out = &process->out;
    if (out->status < 0) { /* a message is missing */
        gy_process_kill(driver, process->slot, process->generation,
                        "out of memory for a message to it");
        return;
    }
    while (process->sent < out->size_bytes) {
        ssize_t done = send(process->socket, out->data + process->sent,
                            out->size_bytes - process->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done > 0) {
            process->sent += (size_t)done;
        } else if (done < 0 && errno == EAGAIN) {
            watch(driver, process, true);
            return;
        } else if (done < 0 && errno != EINTR) {
            break; /* it is gone, which its end will tell */
        }
    }
    watch(driver, process, false);
    out->size_bytes = 0;
    process->sent = 0;
}

void gy_driver_processes_send(gy_driver *driver)
{
    for (uint32_t i = 0; i < driver->dirty_count; i++) {
        gy_process *process = &driver->processes[driver->dirty[i]];
        process->is_dirty = false;
        const bool is_heard =
            process->state != GY_PROCESS_MUTE && process->state != GY_PROCESS_NONE;
        if (driver->remote != NULL && is_heard) {
            gy_remote_send(driver, process);
        } else if (process->socket >= 0 && is_heard) {
            send_to(driver, process);
        }
    }
    driver->dirty_count = 0;
}

static bool is_attempt(const gy_attempt *a, const gy_attempt *b)
{
    return a->task == b->task && a->epoch == b->epoch && a->attempt == b->attempt;
}

/* The row of a member of that attempt; NULL: it has told nothing. */
static gy_meet *find_meet(const gy_driver *driver, const gy_attempt *id, uint32_t member)
{
    for (size_t i = 0; i < driver->meet_count; i++) {
        if (driver->meets[i].member == member && is_attempt(&driver->meets[i].id, id)) {
            return &driver->meets[i];
        }
    }
    return NULL;
}

void gy_process_part(gy_driver *driver, const gy_attempt *id)
{
    size_t kept = 0;
    for (size_t i = 0; i < driver->meet_count; i++) {
        if (is_attempt(&driver->meets[i].id, id)) {
            gy_text_free(&driver->meets[i].words);
        } else {
            driver->meets[kept++] = driver->meets[i];
        }
    }
    driver->meet_count = kept;
}

static gy_status keep_words(gy_driver *driver, const gy_wire *message)
{
    gy_meet *row = find_meet(driver, &message->id, message->member);
    if (message->body_bytes > GY_WORKER_WORDS_BYTES ||
        (row == NULL && driver->meet_count >= GY_MEETS_MAX)) {
        return gy_fail(GY_FORMAT,
                       "a member of a gang reported %zu bytes after %zu members had reported",
                       message->body_bytes, driver->meet_count);
    }
    if (row == NULL) {
        GY_TRY(
            GY_GROW("driver.meets", driver->meets, driver->meet_room, driver->meet_count + 1));
        row = &driver->meets[driver->meet_count++];
        *row = (gy_meet){.id = message->id, .member = message->member};
    }
    row->words.size_bytes = 0;
    gy_text_add_bytes(&row->words, message->body, message->body_bytes);
    return row->words.status;
}

gy_status gy_process_meet(gy_driver *driver, gy_process *process, const gy_wire *message)
{
    if (process->is_killed) { /* for the machine it is gone */
        return GY_OK;
    }
    if (message->body_bytes > 0) {
        return keep_words(driver, message);
    }
    const gy_meet *row = find_meet(driver, &message->id, message->input);
    if (row != NULL) {
        gy_wire_add(&process->out, &(gy_wire){.kind = GY_WIRE_MEET,
                                              .id = message->id,
                                              .member = message->member,
                                              .input = message->input,
                                              .body = row->words.data,
                                              .body_bytes = row->words.size_bytes});
        gy_process_touch(driver, process);
    }
    return GY_OK; /* not told yet: it asks again */
}

void gy_driver_processes_look_after(gy_driver *driver, int64_t now_ns)
{
    for (uint32_t i = 0; i < driver->process_count; i++) {
        gy_process *process = &driver->processes[i];
        if (process->state == GY_PROCESS_STARTING && now_ns - process->began_ns > ready_ns) {
            gy_process_kill(driver, i, process->generation,
                            "it did not get ready within 30 s: the program must serve before "
                            "it does anything else");
        } else if (process->closed_ns != 0 && now_ns - process->closed_ns > leave_ns) {
            process->closed_ns = 0;
            gy_process_kill(driver, i, process->generation, "it closed its socket");
        }
    }
}

void gy_driver_processes_close(gy_driver *driver, bool is_hard)
{
    for (uint32_t i = 0; driver->processes != NULL && i < driver->process_count; i++) {
        gy_process *process = &driver->processes[i];
        if (process->socket >= 0) {
            close(process->socket);
            process->socket = -1;
        }
    }
    const bool is_remote = driver->options->ticket != NULL;
    if (!is_remote) {
        gy_supervisor_close(&driver->supervisor, is_hard);
    }
    for (uint32_t i = 0; driver->processes != NULL && i < driver->process_count; i++) {
        gy_process *process = &driver->processes[i];
        if (process->state != GY_PROCESS_NONE && !is_remote) {
            gy_worker_log_end(driver->env, driver->options->folder, i, process->generation,
                              NULL);
        }
        gy_text_free(&process->out);
        gy_free(process->in);
    }
    gy_free(driver->processes);
    gy_free(driver->dirty);
    gy_free(driver->suspects);
    for (size_t i = 0; i < driver->meet_count; i++) {
        gy_text_free(&driver->meets[i].words);
    }
    gy_free(driver->meets);
}
