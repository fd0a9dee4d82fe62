/* Process slots: processes start, receive messages, are killed, end. */
#include "driver/loop.h"

#include <stdio.h>
#include <unistd.h>

static const int64_t ready_ns = 30000000000; /* from start to READY */
static const int64_t leave_ns = 500000000;   /* from the end of its socket to its exit */

gy_status gy_driver_processes_open(gy_driver *driver)
{
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
    return GY_OK;
}

static gy_status add_welcome(gy_driver *driver, gy_process *process)
{
    const gy_driver_ops *ops = driver->ops;
    gy_text *message = &driver->message;
    message->size_bytes = 0;
    message->status = GY_OK;
    if (ops->welcome != NULL) {
        const char *(*folder_of)(const gy_driver *, uint32_t) = driver->executor->folder;
        const char *folder = folder_of != NULL ? folder_of(driver, process->slot) : NULL;
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
    GY_TRY(driver->executor->spawn(driver, process));
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
    process->has_lost_fork_server = false;
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
    driver->executor->forget(driver, process);
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
    driver->executor->kill(driver, process, reason);
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

void gy_process_start(gy_driver *driver, gy_process *process, const gy_effect *effect)
{
    GY_ASSERT(process->state == GY_PROCESS_READY);
    gy_wire_add(&process->out, &(gy_wire){.kind = GY_WIRE_START,
                                          .id = effect->id,
                                          .member = effect->member,
                                          .key = effect->key,
                                          .body = driver->message.data,
                                          .body_bytes = driver->message.size_bytes});
    gy_process_touch(driver, process);
}

void gy_driver_processes_send(gy_driver *driver)
{
    for (uint32_t i = 0; i < driver->dirty_count; i++) {
        gy_process *process = &driver->processes[driver->dirty[i]];
        process->is_dirty = false;
        if (process->state == GY_PROCESS_MUTE || process->state == GY_PROCESS_NONE) {
            continue;
        }
        if (process->out.status < 0) { /* a message is missing */
            gy_process_kill(driver, process->slot, process->generation,
                            "out of memory for a message to it");
        } else {
            driver->executor->send(driver, process);
        }
    }
    driver->dirty_count = 0;
}

static bool is_attempt(const gy_attempt *a, const gy_attempt *b)
{
    return a->task == b->task && a->epoch == b->epoch && a->attempt == b->attempt;
}

/* The row of a member of that attempt; NULL: it has published nothing. */
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

static gy_status store_error_text(gy_driver *driver, const gy_wire *message)
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
    if (process->is_killed) { /* the machine counts it as ended */
        return GY_OK;
    }
    if (message->body_bytes > 0) {
        return store_error_text(driver, message);
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
    return GY_OK; /* not published yet: the member asks again */
}

void gy_driver_processes_check(gy_driver *driver, int64_t now_ns)
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

void gy_driver_processes_free(gy_driver *driver)
{
    for (uint32_t i = 0; driver->processes != NULL && i < driver->process_count; i++) {
        gy_text_free(&driver->processes[i].out);
        gy_free(driver->processes[i].in);
    }
    gy_free(driver->processes);
    gy_free(driver->dirty);
    gy_free(driver->suspects);
    for (size_t i = 0; i < driver->meet_count; i++) {
        gy_text_free(&driver->meets[i].words);
    }
    gy_free(driver->meets);
}
