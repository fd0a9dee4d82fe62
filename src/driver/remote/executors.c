/* Processes in executors on daemons: started, killed, sent data within windows, ended. */
#include "driver/remote/remote_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- what is ordered ---- */

typedef struct open_call {
    gy_driver *driver;
    uint64_t lease;
    uint32_t generation;
} open_call;

static void opened(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    const open_call call = *(open_call *)arg;
    gy_driver *driver = call.driver;
    (void)answer;
    gy_free(arg);
    if (status >= 0 || status == GY_CANCELLED || status == GY_PEER || driver->has_ended) {
        return; /* if a daemon is lost or restarts all its executors are handled at once */
    }
    gy_error why;
    gy_error_take(&why, status);
    if (status == GY_STATE) {
        remote_over(driver, GY_STATE, why.text);
    } else { /* it cannot be used now; the name server may have others */
        gy_lease_client_not_opened(&driver->remote->client, call.lease, call.generation,
                                   why.text);
    }
}

static void report_open(gy_driver *driver, uint32_t slot)
{
    gy_remote *remote = driver->remote;
    lease_executor *executor = &remote->client.executors[slot];
    REMOTE_MESSAGE(Open, open, message);
    message.lease = executor->lease;
    message.generation = executor->generation;
    message.credit_bytes = REMOTE_CREDIT_BYTES;
    message.threads = driver->threads;
    message.memory_bytes = driver->options->memory_bytes;
    open_call *call = gy_alloc("driver.remote", sizeof(*call));
    executor->is_open_due = true;
    if (call == NULL) {
        return;
    }
    *call = (open_call){driver, executor->lease, executor->generation};
    if (remote_call(driver, remote->client.hosts[executor->host].peer, GY_NET_OPEN,
                    &message.base, opened, call) < 0) {
        gy_free(call); /* sent when there is room */
    } else {
        executor->is_open_due = false;
    }
}

gy_status remote_spawn(gy_driver *driver, gy_process *process)
{
    GY_TRY(gy_lease_client_spawn(&driver->remote->client, process->slot, process->generation));
    driver->remote->client.executors[process->slot].window = REMOTE_WINDOW_BYTES;
    report_open(driver, process->slot);
    return GY_OK;
}

static void report_close(gy_driver *driver, uint32_t slot, const char *reason)
{
    gy_remote *remote = driver->remote;
    lease_executor *executor = &remote->client.executors[slot];
    char words[GY_CONTROL_REASON_BYTES];
    gy_net_clean_text(reason != NULL ? reason : "", words, sizeof(words));
    REMOTE_MESSAGE(Close, close, message);
    message.lease = executor->lease;
    message.generation = executor->generation;
    message.reason = words;
    executor->is_kill_due = remote_call(driver, remote->client.hosts[executor->host].peer,
                                        GY_NET_CLOSE, &message.base, NULL, NULL) < 0;
}

void remote_kill(gy_driver *driver, const gy_process *process, const char *reason)
{
    const lease_executor *executor = &driver->remote->client.executors[process->slot];
    if (executor->lease != 0 && executor->generation == process->generation) {
        report_close(driver, process->slot, reason);
    }
}

void remote_answered(gy_driver *driver, const gy_process *process)
{
    lease_executor *executor = &driver->remote->client.executors[process->slot];
    executor->running -= executor->running > 0;
}

/* ---- bytes ---- */

void remote_send(gy_driver *driver, gy_process *process)
{
    gy_remote *remote = driver->remote;
    lease_executor *executor = &remote->client.executors[process->slot];
    gy_text *out = &process->out;
    while (executor->lease != 0 && executor->generation == process->generation &&
           process->sent < out->size_bytes && executor->window > 0 && !executor->is_open_due) {
        REMOTE_MESSAGE(Relay, relay, message);
        const size_t most = GY_MIN((size_t)executor->window, (size_t)GY_NET_RELAY_BYTES);
        const size_t size = GY_MIN(out->size_bytes - process->sent, most);
        message.lease = executor->lease;
        message.generation = executor->generation;
        message.data.data = (uint8_t *)out->data + process->sent;
        message.data.len = size;
        if (remote_call(driver, remote->client.hosts[executor->host].peer, GY_NET_RELAY,
                        &message.base, NULL, NULL) < 0) {
            remote->client.hosts[executor->host].is_full = true;
            return;
        }
        executor->window -= size;
        process->sent += size;
    }
    if (process->sent == out->size_bytes) {
        out->size_bytes = 0;
        process->sent = 0;
    }
}

void remote_executors_go_on(gy_driver *driver, uint32_t host)
{
    gy_remote *remote = driver->remote;
    for (uint32_t i = 0; i < driver->process_count; i++) {
        lease_executor *executor = &remote->client.executors[i];
        gy_process *process = &driver->processes[i];
        if (executor->lease == 0 || executor->host != host || executor->generation == 0 ||
            process->state == GY_PROCESS_NONE) {
            continue;
        }
        if (executor->is_open_due) {
            report_open(driver, i);
        }
        if (executor->is_kill_due) {
            report_close(driver, i, process->reason);
        }
        if (process->out.size_bytes > process->sent) {
            gy_process_touch(driver, process);
        }
    }
}

/* ---- what is heard ---- */

static void answer_done(const gy_driver *driver, const gy_rpc_asked *asked)
{
    Gy__Cluster__Done done;
    gy__cluster__done__init(&done);
    if (gy_rpc_answer(driver->remote->rpc, asked, &done.base) < 0) {
        gy_debug("cannot answer a daemon: %s", gy_error_text());
    }
}

/* The slot of a lease of this epoch at the calling daemon; GY_NONE: none. */
static uint32_t find_slot(const gy_driver *driver, const gy_rpc_asked *asked, uint32_t epoch,
                          uint64_t lease)
{
    return gy_lease_client_slot_at(&driver->remote->client, remote_host_of(driver, asked->peer),
                                   epoch, lease);
}

/* The process that the message names; NULL: it has ended, or belongs to another. */
static gy_process *find_process(gy_driver *driver, const gy_rpc_asked *asked, uint32_t epoch,
                                uint64_t lease, uint32_t generation)
{
    const uint32_t slot = find_slot(driver, asked, epoch, lease);
    if (slot == GY_NONE || driver->remote->client.executors[slot].generation != generation) {
        return NULL;
    }
    gy_process *process = &driver->processes[slot];
    return process->state != GY_PROCESS_NONE && process->generation == generation ? process
                                                                                  : NULL;
}

static void give_credit(gy_driver *driver, uint32_t slot)
{
    gy_remote *remote = driver->remote;
    lease_executor *executor = &remote->client.executors[slot];
    REMOTE_MESSAGE(Credit, credit, message);
    message.lease = executor->lease;
    message.generation = executor->generation;
    message.bytes = executor->owed;
    if (remote_call(driver, remote->client.hosts[executor->host].peer, GY_NET_CREDIT,
                    &message.base, NULL, NULL) == GY_OK) {
        executor->owed = 0; /* else with later data; half a window is left then */
    }
}

gy_status remote_handle_relay(void *arg, const gy_rpc_asked *asked,
                              const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__Relay *message = (const void *)request;
    answer_done(driver, asked);
    gy_process *process =
        find_process(driver, asked, message->epoch, message->lease, message->generation);
    if (process == NULL) {
        return GY_OK;
    }
    const uint32_t slot = process->slot;
    gy_driver_handle_bytes(driver, process, message->data.data, message->data.len);
    lease_executor *executor = &driver->remote->client.executors[slot];
    if (!driver->has_ended && executor->lease == message->lease &&
        executor->generation == message->generation) {
        executor->owed += message->data.len;
        if (executor->owed >= REMOTE_CREDIT_BYTES / 2) {
            give_credit(driver, slot);
        }
    }
    return GY_OK;
}

gy_status remote_handle_credit(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__Credit *message = (const void *)request;
    answer_done(driver, asked);
    gy_process *process =
        find_process(driver, asked, message->epoch, message->lease, message->generation);
    if (process != NULL) {
        lease_executor *executor = &driver->remote->client.executors[process->slot];
        executor->window =
            GY_MIN(executor->window + message->bytes, (uint64_t)REMOTE_WINDOW_BYTES);
        gy_process_touch(driver, process);
    }
    return GY_OK;
}

gy_status remote_handle_lease_gone(void *arg, const gy_rpc_asked *asked,
                                   const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__LeaseGone *message = (const void *)request;
    answer_done(driver, asked);
    const uint32_t slot = find_slot(driver, asked, message->epoch, message->lease);
    if (slot != GY_NONE) {
        char reason[GY_CONTROL_REASON_BYTES];
        gy_net_clean_text(message->reason, reason, sizeof(reason));
        gy_lease_client_executor_close(&driver->remote->client, slot, reason,
                                       LEASE_CLIENT_IS_DOWN);
    }
    return GY_OK;
}

/* What its threads were running, as rows like local boards; NULL: no memory. */
static gy_board *copy_boards(const Gy__Cluster__ExecutorGone *message)
{
    gy_board *lines = gy_alloc_zero("driver.remote", message->n_boards + 1, sizeof(gy_board));
    for (size_t i = 0; lines != NULL && i < message->n_boards; i++) {
        const Gy__Cluster__Board *from = message->boards[i];
        lines[i].member = from->member;
        lines[i].id = (gy_attempt){from->task, from->task_epoch, from->attempt};
        if (from->text.len > 0) {
            memcpy(lines[i].text, from->text.data,
                   GY_MIN(from->text.len, sizeof(lines[i].text)));
        }
        atomic_store_explicit(&lines[i].is_running, 1, memory_order_relaxed);
    }
    return lines;
}

gy_status remote_handle_executor_gone(void *arg, const gy_rpc_asked *asked,
                                      const ProtobufCMessage *request)
{
    gy_driver *driver = arg;
    const Gy__Cluster__ExecutorGone *message = (const void *)request;
    answer_done(driver, asked);
    gy_process *process =
        find_process(driver, asked, message->epoch, message->lease, message->generation);
    if (process == NULL) {
        return GY_OK;
    }
    char why[GY_ERROR_TEXT_BYTES], words[GY_ERROR_TEXT_BYTES];
    char log_end[sizeof(words) + 24] = "";
    gy_net_clean_text(message->reason, why, sizeof(why));
    gy_net_clean_text(message->log_tail, words, sizeof(words));
    if (words[0] != '\0') {
        (void)gy_print(log_end, sizeof(log_end), "; its log ends: %s", words);
    }
    gy_board *lines = copy_boards(message);
    const gy_fork_server_news news = {.slot = process->slot,
                                      .generation = process->generation,
                                      .status = message->wait_status,
                                      .error = message->has_process ? 0 : ECHILD,
                                      .is_over_memory = message->is_over_memory};
    if (lines == NULL) {
        gy_driver_fail(driver, GY_NOMEM);
        return GY_OK;
    }
    gy_lease_client_process_ended(
        &driver->remote->client, driver->remote->client.executors[process->slot].host,
        process->state != GY_PROCESS_STARTING || process->is_killed, why);
    gy_process_end(driver, process,
                   &(gy_gone){.news = &news,
                              .lines = lines,
                              .line_count = (uint32_t)message->n_boards,
                              .why = why,
                              .log_end = log_end});
    gy_free(lines);
    return GY_OK;
}
