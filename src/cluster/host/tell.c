/* Messages to a job's manager: calls over the connection that it opened, in order. */
#include "cluster/host/host_priv.h"
#include "worker/log.h"

#include <stdio.h>
#include <string.h>

static const double call_seconds = 600; /* a lease expires long before */
enum { BOARDS_MAX = 1024 };

/* A manager that cannot be reached will soon count as silent. */
static void told(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    (void)arg;
    (void)answer;
    if (status < 0 && status != GY_CANCELLED) {
        gy_debug("cannot send to a manager: %s", gy_error_text());
    }
}

static gy_status call(gy_host *host, const host_job *job, uint32_t type,
                      const ProtobufCMessage *message)
{
    return gy_rpc_call(host->rpc, job->peer,
                       &(gy_rpc_request){.type = type,
                                         .message = message,
                                         .deadline = gy_env_deadline(host->env, call_seconds),
                                         .done = told,
                                         .arg = host},
                       NULL);
}

gy_status gy_host_call_now(gy_host *host, host_job *job, uint32_t epoch, uint32_t type,
                           const ProtobufCMessage *message)
{
    if (job->peer == 0 || job->peer_epoch != epoch) {
        return GY_OK; /* no manager is there */
    }
    gy_status status = job->outbox != NULL ? GY_AGAIN : call(host, job, type, message);
    if (status < 0) {
        gy_debug("cannot send to a manager: %s", gy_error_text());
    }
    return status == GY_AGAIN ? GY_AGAIN : GY_OK;
}

void gy_host_call(gy_host *host, host_job *job, uint32_t epoch, uint32_t type,
                  const ProtobufCMessage *message)
{
    if (gy_host_call_now(host, job, epoch, type, message) != GY_AGAIN) {
        return;
    }
    size_t size = protobuf_c_message_get_packed_size(message);
    host_outgoing *outgoing = gy_alloc("host.outgoing", sizeof(*outgoing) + size);
    if (outgoing == NULL) {
        gy_host_fail(host, GY_NOMEM);
        return;
    }
    outgoing->next = NULL;
    outgoing->type = type;
    outgoing->size_bytes = size;
    protobuf_c_message_pack(message, outgoing->packed);
    *job->last_outgoing = outgoing;
    job->last_outgoing = &outgoing->next;
}

void gy_host_outbox_free(host_job *job)
{
    while (job->outbox != NULL) {
        host_outgoing *outgoing = job->outbox;
        job->outbox = outgoing->next;
        gy_free(outgoing);
    }
    job->last_outgoing = &job->outbox;
}

static void *take(void *arg, size_t size_bytes)
{
    (void)arg;
    return gy_alloc("host.outgoing", size_bytes);
}

static void give(void *arg, void *pointer)
{
    (void)arg;
    gy_free(pointer);
}

static void flush_outbox(gy_host *host, host_job *job)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = give};
    while (job->outbox != NULL) {
        host_outgoing *outgoing = job->outbox;
        gy_rpc_method method = gy_net_method((gy_net_type)outgoing->type);
        ProtobufCMessage *message = protobuf_c_message_unpack(
            method.request, &allocator, outgoing->size_bytes, outgoing->packed);
        if (message == NULL) {
            gy_host_fail(host, GY_NOMEM);
            return;
        }
        gy_status status = call(host, job, outgoing->type, message);
        protobuf_c_message_free_unpacked(message, &allocator);
        if (status == GY_AGAIN) {
            return;
        }
        job->outbox = outgoing->next;
        job->last_outgoing = job->outbox == NULL ? &job->outbox : job->last_outgoing;
        gy_free(outgoing);
    }
}

void gy_host_flush(gy_host *host, gy_rpc_peer peer)
{
    for (host_job *job = host->jobs; job != NULL; job = job->next) {
        if (job->peer != peer) {
            continue;
        }
        flush_outbox(host, job);
        for (host_executor *executor = job->executors; executor != NULL && job->outbox == NULL;
             executor = executor->next) {
            gy_host_executor_pump(host, executor);
        }
    }
}

/* ---- The machine's messages ---- */

static Gy__Cluster__Key key_message(gy_key key)
{
    Gy__Cluster__Key message = GY__CLUSTER__KEY__INIT;
    message.high = key.high;
    message.low = key.low;
    return message;
}

static char *words(const char *text)
{
    return (char *)(uintptr_t)(text != NULL ? text : "");
}

static void report_attached(gy_host *host, host_job *job, const gy_daemon_effect *effect)
{
    const gy_daemon_state *state = &effect->state;
    const bool is_late = job->attaching.number != 0;
    const gy_rpc_asked asked = is_late               ? job->attaching
                               : host->asked != NULL ? *host->asked
                                                     : (gy_rpc_asked){.peer = 0};
    if (asked.peer == 0 || (!is_late && host->is_answered)) {
        return;
    }
    job->attaching = (gy_rpc_asked){.peer = 0};
    if (job->peer != asked.peer || job->peer_epoch != effect->epoch) {
        gy_host_outbox_free(job); /* for the previous manager */
    }
    job->peer = asked.peer;
    job->peer_epoch = effect->epoch;
    gy_arena arena = {NULL};
    gy_daemon_state only = {.leases = state->leases,
                            .lease_count = state->lease_count,
                            .address = "",
                            .host = "",
                            .labels = "",
                            .trouble = ""};
    Gy__Cluster__DaemonState listed;
    Gy__Cluster__Attached message;
    gy__cluster__daemon_state__init(&listed);
    gy__cluster__attached__init(&message);
    gy_status status = gy_net_write_state(&only, &arena, &listed);
    message.leases = listed.leases;
    message.n_leases = listed.n_leases;
    message.folder = job->path;
    message.heard_ns = job->attach_ns;
    message.answered_ns = gy_now_ns(host->env);
    message.incarnation = host->incarnation;
    message.host = host->host_name;
    status = status < 0 ? status : gy_rpc_answer(host->rpc, &asked, &message.base);
    if (status < 0) {
        gy_rpc_refuse(host->rpc, &asked, status, gy_error_text());
    }
    host->is_answered = host->is_answered || !is_late;
    gy_arena_free(&arena);
}

static void report_refused(gy_host *host, const gy_daemon_effect *effect)
{
    char text[GY_CONTROL_REASON_BYTES + 64];
    if (host->asked == NULL || host->asked->number == 0 || host->is_answered) {
        gy_debug("refused a message of a manager: %s", effect->reason);
        host->is_refused = true;
        return;
    }
    snprintf(text, sizeof(text), "%s: the daemon has epoch %u", effect->reason,
             effect->started);
    /* A refusal that may be retried is sent as a failure. */
    gy_rpc_refuse(host->rpc, host->asked,
                  effect->status == GY_AGAIN ? GY_TIMEOUT : effect->status, text);
    host->is_answered = host->is_refused = true;
}

static void report_lease_gone(gy_host *host, host_job *job, const gy_daemon_effect *effect)
{
    Gy__Cluster__LeaseGone message;
    Gy__Cluster__Key key = key_message(job->key);
    gy__cluster__lease_gone__init(&message);
    message.job = &key;
    message.epoch = effect->epoch;
    message.lease = effect->lease;
    message.reason = words(effect->reason);
    gy_host_call(host, job, effect->epoch, GY_NET_LEASE_GONE, &message.base);
}

static void report_credit(gy_host *host, host_job *job, const gy_daemon_effect *effect)
{
    Gy__Cluster__Credit message = GY__CLUSTER__CREDIT__INIT;
    Gy__Cluster__Key key = key_message(job->key);
    message.job = &key;
    message.epoch = effect->epoch;
    message.lease = effect->lease;
    message.generation = effect->generation;
    message.bytes = effect->bytes;
    gy_host_call(host, job, effect->epoch, GY_NET_CREDIT, &message.base);
}

/* Send all unsent results of the job's fetches in one message. */
static void say_fetched(gy_host *host, host_job *job)
{
    Gy__Cluster__FetchedOne rows[HOST_TOLD], *sections[HOST_TOLD];
    Gy__Cluster__Fetched message;
    Gy__Cluster__Key key = key_message(job->key);
    gy__cluster__fetched__init(&message);
    message.job = &key;
    message.epoch = job->told_epoch;
    message.sections = sections;
    message.n_sections = job->told_count;
    message.transfers = job->transfers;
    message.bytes = job->fetched_bytes;
    message.wire_bytes = job->wire_bytes;
    for (uint32_t i = 0; i < job->told_count; i++) {
        const host_result *told = &job->told[i];
        sections[i] = &rows[i];
        gy__cluster__fetched_one__init(&rows[i]);
        rows[i].number = told->number;
        rows[i].status = told->status;
        rows[i].reason = words(told->status < 0 ? gy_status_text(told->status) : "");
    }
    job->told_count = 0;
    job->transfers = job->fetched_bytes = job->wire_bytes = 0;
    gy_host_call(host, job, job->told_epoch, GY_NET_FETCHED, &message.base);
}

static void tell_fetched(gy_host *host, host_job *job, const gy_daemon_effect *effect)
{
    if (job->told_count == HOST_TOLD ||
        (job->told_count > 0 && job->told_epoch != effect->epoch)) {
        say_fetched(host, job);
    }
    job->told_epoch = effect->epoch;
    job->told[job->told_count++] = (host_result){effect->number, effect->status};
}

void gy_host_send_fetched(gy_host *host)
{
    for (host_job *job = host->jobs; job != NULL; job = job->next) {
        if (job->told_count > 0) {
            say_fetched(host, job);
        }
    }
}

/* List what the process ran: one line for each busy thread. */
static void add_boards(const host_executor *executor, gy_arena *arena,
                       Gy__Cluster__ExecutorGone *message)
{
    const gy_supervisor *supervisor = executor->job->supervisor;
    if (supervisor == NULL || !executor->has_process) {
        return;
    }
    gy_board *lines = gy_supervisor_boards(supervisor, executor->slot);
    uint32_t threads = GY_MIN(supervisor->role.threads, (uint32_t)BOARDS_MAX);
    Gy__Cluster__Board *boards = gy_arena_alloc(arena, threads * sizeof(*boards));
    message->boards = gy_arena_alloc(arena, threads * sizeof(Gy__Cluster__Board *));
    for (uint32_t i = 0; i < threads && boards != NULL && message->boards != NULL; i++) {
        if (atomic_load_explicit(&lines[i].is_running, memory_order_acquire) == 0 &&
            atomic_load_explicit(&lines[i].is_cut_off, memory_order_acquire) == 0) {
            continue;
        }
        Gy__Cluster__Board *board = &boards[message->n_boards];
        gy__cluster__board__init(board);
        board->task = lines[i].id.task;
        board->task_epoch = lines[i].id.epoch;
        board->attempt = lines[i].id.attempt;
        board->member = lines[i].member;
        board->text = (ProtobufCBinaryData){.len = GY_BOARD_BYTES, .data = lines[i].text};
        message->boards[message->n_boards++] = board;
    }
}

static void report_executor_gone(gy_host *host, host_job *job, const gy_daemon_effect *effect)
{
    host_executor *executor = gy_host_executor(job, effect->lease, effect->generation);
    gy_arena arena = {NULL};
    gy_text log = {.data = NULL};
    char name[64];
    Gy__Cluster__ExecutorGone message;
    Gy__Cluster__Key key = key_message(job->key);
    gy__cluster__executor_gone__init(&message);
    message.job = &key;
    message.epoch = effect->epoch;
    message.lease = effect->lease;
    message.generation = effect->generation;
    message.reason = words(effect->reason);
    if (executor != NULL && executor->has_news && executor->news.error == 0) {
        message.has_process = true;
        message.wait_status = executor->news.status;
        message.is_over_memory = executor->news.is_over_memory;
        snprintf(name, sizeof(name), "log/%u-%u", executor->slot, executor->generation);
        gy_worker_log_tail(host->env, job->path, name, &log);
        add_boards(executor, &arena, &message);
    }
    message.log_tail = words(log.status == GY_OK ? gy_text_get(&log) : "");
    gy_host_call(host, job, effect->epoch, GY_NET_EXECUTOR_GONE, &message.base);
    gy_text_free(&log);
    gy_arena_free(&arena);
    if (executor != NULL) {
        gy_host_executor_free(host, executor);
    }
}

void gy_host_send(gy_host *host, const gy_daemon_effect *effect)
{
    host_job *job = gy_host_job(host, effect->job);
    if (effect->kind == GY_DAEMON_TELL_REFUSED) {
        report_refused(host, effect);
    } else if (job == NULL) {
        gy_debug("a message is about a job that is not known any more");
    } else if (effect->kind == GY_DAEMON_TELL_ATTACHED) {
        report_attached(host, job, effect);
    } else if (effect->kind == GY_DAEMON_TELL_LEASE_GONE) {
        report_lease_gone(host, job, effect);
    } else if (effect->kind == GY_DAEMON_TELL_CREDIT) {
        report_credit(host, job, effect);
    } else if (effect->kind == GY_DAEMON_TELL_FETCHED) {
        tell_fetched(host, job, effect);
    } else {
        report_executor_gone(host, job, effect);
    }
}
