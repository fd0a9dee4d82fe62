/**
 * For tests of the driver's remote side: a scripted name server and daemons, on sockets in a
 * thread of their own. The processes in their executors are simulated: they read STARTs and
 * answer them. Tasks 0 .. producers - 1 produce outputs; each other task reads all of them.
 */
#ifndef GY_DRIVER_REMOTE_SCRIPT_TEST_H
#define GY_DRIVER_REMOTE_SCRIPT_TEST_H

#include "control/net/net.h"
#include "driver/loop.h"
#include "driver/remote/script_types_test.h"

#include "gy_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void script_wrong(script *at, const char *what)
{
    if (at->wrong[0] == '\0') {
        snprintf(at->wrong, sizeof(at->wrong), "%s", what);
    }
    at->is_wrong = true;
}

static inline bool script_is_due(const script *at)
{
    return at->trouble != TROUBLE_NONE && !at->has_struck && at->done >= at->after;
}

/* Is the trouble caused from here, and not in an answer? */
static inline bool script_strikes_itself(const script *at)
{
    return (at->trouble >= TROUBLE_HOST_DIES && at->trouble <= TROUBLE_LEASE_GONE) ||
           at->trouble == TROUBLE_ASKED || at->trouble == TROUBLE_KILLED ||
           at->trouble == TROUBLE_OVER || at->trouble == TROUBLE_CLAIMED;
}

#define SCRIPT_MESSAGE(TYPE, STEM, NAME)                                                       \
    Gy__Cluster__Key NAME##_job;                                                               \
    gy__cluster__key__init(&NAME##_job);                                                       \
    NAME##_job.high = 11;                                                                      \
    NAME##_job.low = 12;                                                                       \
    Gy__Cluster__##TYPE NAME;                                                                  \
    gy__cluster__##STEM##__init(&(NAME));                                                      \
    (NAME).job = &NAME##_job;                                                                  \
    (NAME).epoch = 3

static inline void script_done(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    (void)arg, (void)status, (void)answer;
}

static inline void script_call(script_host *host, uint32_t type,
                               const ProtobufCMessage *message)
{
    const gy_rpc_request request = {.type = type,
                                    .message = message,
                                    .deadline = gy_deadline_after(20),
                                    .done = script_done};
    const gy_status status =
        host->manager != 0 ? gy_rpc_call(host->rpc, host->manager, &request, NULL) : GY_OK;
    if (status < 0 && status != GY_PEER) { /* the peer has closed the connection */
        script_wrong(host->at, "a daemon cannot call");
    }
}

static inline void script_answer(gy_rpc *rpc, const gy_rpc_asked *asked)
{
    Gy__Cluster__Done done;
    gy__cluster__done__init(&done);
    (void)!gy_rpc_answer(rpc, asked, &done.base);
}

/* ---- the process in an executor ---- */

static inline script_executor *script_find(script_host *host, uint64_t lease)
{
    for (int i = 0; i < EXECUTORS; i++) {
        if (host->executors[i].lease == lease && lease != 0) {
            return &host->executors[i];
        }
    }
    return NULL;
}

static inline void script_relay(script_host *host, script_executor *executor)
{
    while (executor->sent < executor->out.size_bytes && executor->credit > 0) {
        SCRIPT_MESSAGE(Relay, relay, message);
        const size_t most = GY_MIN((size_t)executor->credit, (size_t)GY_NET_RELAY_BYTES);
        message.lease = executor->lease;
        message.generation = executor->generation;
        message.data.data = (uint8_t *)executor->out.data + executor->sent;
        message.data.len = GY_MIN(executor->out.size_bytes - executor->sent, most);
        script_call(host, GY_NET_RELAY, &message.base);
        executor->sent += message.data.len;
        executor->credit -= message.data.len;
    }
}

static inline void script_executor_free(script_executor *executor)
{
    gy_text_free(&executor->in);
    gy_text_free(&executor->out);
    *executor = (script_executor){.lease = executor->lease};
}

static inline void script_executor_gone(script_host *host, script_executor *executor,
                                        const gy_wire *start)
{
    SCRIPT_MESSAGE(ExecutorGone, executor_gone, message);
    Gy__Cluster__Board board, beside, *boards[2] = {&board, &beside};
    uint8_t text[GY_BOARD_BYTES] = "it was at this", other[GY_BOARD_BYTES] = "beside it";
    gy__cluster__board__init(&board);
    message.lease = executor->lease;
    message.generation = executor->generation;
    message.reason = (char *)(uintptr_t) "killed by SIGSEGV";
    message.log_tail = (char *)(uintptr_t) "ouch";
    message.has_process = true;
    message.wait_status = SIGSEGV;
    if (start != NULL) {
        board.task = start->id.task;
        board.task_epoch = start->id.epoch;
        board.attempt = start->id.attempt;
        board.text.data = text;
        board.text.len = sizeof(text);
        beside = board;
        beside.attempt++; /* an attempt that the manager need not know */
        beside.text.data = other;
        message.boards = boards;
        message.n_boards = 2;
    } else {
        message.wait_status = SIGKILL;
    }
    script_call(host, GY_NET_EXECUTOR_GONE, &message.base);
    script_executor_free(executor);
}

/* The body of a START: the number of sections that must be there, then their names. */
static inline void script_look_at_needs(script_host *host, const gy_wire *start)
{
    uint32_t count = 0;
    memcpy(&count, start->body, sizeof(count));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t name = 0;
        bool is_here = false;
        memcpy(&name, (const char *)start->body + sizeof(count) + i * sizeof(name),
               sizeof(name));
        for (int k = 0; k < host->fetched_count; k++) {
            is_here = is_here || host->fetched[k] == name;
        }
        if (!is_here) {
            script_wrong(host->at, "a task is started before its input is there");
        }
    }
}

static inline void script_report(script_host *host, script_executor *executor,
                                 const gy_wire *start)
{
    script *at = host->at;
    char *report = gy_alloc_zero("test", 1, at->report_bytes + 8);
    snprintf(report, 8, "h%d", host->index);
    at->done++;
    gy_wire_add(&executor->out, &(gy_wire){.kind = GY_WIRE_DONE,
                                           .id = start->id,
                                           .member = start->member,
                                           .run_ns = 1000,
                                           .key = {start->id.task, 5},
                                           .body = report,
                                           .body_bytes = at->report_bytes + 8});
    gy_free(report);
}

/* Wait until each host has a process: otherwise the first would do everything. Then do nothing
 * until the trouble has happened, and nothing for ended leases: otherwise all tasks could
 * finish before. */
static inline bool script_must_wait(const script *at)
{
    const int first = at->trouble == TROUBLE_OPEN_REFUSED;
    if ((script_strikes_itself(at) && script_is_due(at)) || at->asked != 0) {
        return true;
    }
    if (at->has_struck && (at->trouble == TROUBLE_KILLED || at->trouble == TROUBLE_OVER ||
                           at->trouble == TROUBLE_CLAIMED)) {
        return true;
    }
    for (int i = first; i < at->host_count && at->done == 0; i++) {
        bool is_open = at->hosts[i].rpc == NULL;
        for (int k = 0; k < EXECUTORS; k++) {
            is_open = is_open || at->hosts[i].executors[k].is_open;
        }
        if (!is_open) {
            return true;
        }
    }
    return false;
}

/* Handle a message to the process. False: the process has ended. */
static inline bool script_obey(script_host *host, script_executor *executor,
                               const gy_wire *message)
{
    script *at = host->at;
    if (message->kind == GY_WIRE_WELCOME) {
        char folder[64];
        snprintf(folder, sizeof(folder), "/host%d", host->index);
        if (message->body_bytes != strlen(folder) ||
            memcmp(message->body, folder, message->body_bytes) != 0) {
            script_wrong(at, "the welcome is for another host");
        }
        gy_wire_add(&executor->out, &(gy_wire){.kind = GY_WIRE_READY});
    } else if (message->kind == GY_WIRE_START) {
        at->runs[message->id.task]++;
        script_look_at_needs(host, message);
        if (at->trouble == TROUBLE_EXECUTOR_DIES && script_is_due(at) && host->index == 0) {
            at->has_struck = true;
            script_executor_gone(host, executor, message);
            return false;
        }
        script_report(host, executor, message);
    } else if (message->kind != GY_WIRE_CANCEL) {
        script_wrong(at, "a process gets what is not for it");
    }
    return true;
}

static inline void script_pump(script_host *host, script_executor *executor)
{
    gy_wire message;
    size_t used = 0, taken = 0;
    while (gy_wire_next((const uint8_t *)executor->in.data + taken,
                        executor->in.size_bytes - taken, &message, &used) == GY_OK &&
           (message.kind != GY_WIRE_START || !script_must_wait(host->at))) {
        if (!script_obey(host, executor, &message)) {
            return;
        }
        taken += used;
    }
    memmove(executor->in.data, executor->in.data + taken, executor->in.size_bytes - taken);
    executor->in.size_bytes -= taken;
    script_relay(host, executor);
}

static inline gy_status script_handle_relay(void *arg, const gy_rpc_asked *asked,
                                            const ProtobufCMessage *request)
{
    script_host *host = arg;
    const Gy__Cluster__Relay *said = (const void *)request;
    script_answer(host->rpc, asked);
    script_executor *executor = script_find(host, said->lease);
    if (executor == NULL || !executor->is_open || executor->generation != said->generation) {
        return GY_OK;
    }
    if (said->data.len > executor->window) {
        script_wrong(host->at, "more than the window of a process");
    }
    executor->window -= GY_MIN(said->data.len, executor->window);
    executor->taken += said->data.len;
    executor->is_fed = true;
    gy_text_add_bytes(&executor->in, said->data.data, said->data.len);
    script_pump(host, executor);
    return GY_OK;
}

/* Return the window after a turn without data: this detects a sender that exceeds it. */
static inline void script_refill(script_host *host, script_executor *executor)
{
    if (executor->taken == 0 || executor->is_fed) {
        executor->is_fed = false;
        return;
    }
    SCRIPT_MESSAGE(Credit, credit, message);
    message.lease = executor->lease;
    message.generation = executor->generation;
    message.bytes = executor->taken;
    executor->window += executor->taken;
    executor->taken = 0;
    script_call(host, GY_NET_CREDIT, &message.base);
}

/* ---- the daemon ---- */

static inline gy_status script_attach(void *arg, const gy_rpc_asked *asked,
                                      const ProtobufCMessage *request)
{
    script_host *host = arg;
    const Gy__Cluster__Attach *said = (const void *)request;
    if (said->epoch != 3 || said->job->high != 11) {
        script_wrong(host->at, "it attaches as somebody else");
    }
    if (host->at->trouble == TROUBLE_EPOCH) {
        return gy_fail(GY_STATE, "epoch 4 has begun");
    }
    Gy__Cluster__Attached answer;
    char folder[64];
    gy__cluster__attached__init(&answer);
    snprintf(folder, sizeof(folder), "/host%d", host->index);
    answer.folder = folder;
    answer.incarnation = host->incarnation;
    host->manager = asked->peer;
    host->attaches++;
    return gy_rpc_answer(host->rpc, asked, &answer.base);
}

static inline gy_status script_open(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request)
{
    script_host *host = arg;
    const Gy__Cluster__Open *said = (const void *)request;
    script_executor *executor = script_find(host, said->lease);
    if (host->at->trouble == TROUBLE_OPEN_REFUSED && host->index == 0) {
        host->at->has_struck = true;
        return gy_fail(GY_LIMIT, "disk full");
    }
    if (executor == NULL) {
        return gy_fail(GY_NOTFOUND, "the manager has no such lease at this daemon");
    }
    script_executor_free(executor);
    executor->is_open = true;
    executor->generation = said->generation;
    executor->credit = executor->credit_max = said->credit_bytes;
    executor->window = 256 << 10;
    script_answer(host->rpc, asked);
    return GY_OK;
}

static inline gy_status script_close(void *arg, const gy_rpc_asked *asked,
                                     const ProtobufCMessage *request)
{
    script_host *host = arg;
    const Gy__Cluster__Close *said = (const void *)request;
    script_executor *executor = script_find(host, said->lease);
    script_answer(host->rpc, asked);
    if (executor != NULL && executor->is_open && executor->generation == said->generation) {
        script_executor_gone(host, executor, NULL);
    }
    return GY_OK;
}

static inline gy_status script_handle_credit(void *arg, const gy_rpc_asked *asked,
                                             const ProtobufCMessage *request)
{
    script_host *host = arg;
    const Gy__Cluster__Credit *said = (const void *)request;
    script_executor *executor = script_find(host, said->lease);
    script_answer(host->rpc, asked);
    if (executor != NULL && executor->generation == said->generation) {
        executor->credit += said->bytes;
        if (executor->credit > executor->credit_max) {
            script_wrong(host->at, "more credit than there was at first");
        }
        script_relay(host, executor);
    }
    return GY_OK;
}

static inline gy_status script_fetch_status(script_host *host)
{
    script *at = host->at;
    if (at->trouble == TROUBLE_FETCH_LOST && script_is_due(at)) {
        at->has_struck = true;
        return gy_fail(GY_NOTFOUND, "it has no such file");
    }
    if (at->trouble == TROUBLE_FETCH_DEAD && at->failures < 1) {
        at->failures++;
        return gy_fail(GY_PEER, "nobody answers");
    }
    if (at->trouble == TROUBLE_FULL && host->index == 1) {
        at->has_struck = true;
        return gy_fail(GY_LIMIT, "disk full");
    }
    return GY_OK;
}

static inline gy_status script_fetch(void *arg, const gy_rpc_asked *asked,
                                     const ProtobufCMessage *request)
{
    script_host *host = arg;
    const Gy__Cluster__Fetch *said = (const void *)request;
    script_answer(host->rpc, asked);
    for (size_t i = 0; i < said->n_sections; i++) {
        Gy__Cluster__FetchedOne one, *sections[1] = {&one};
        gy__cluster__fetched_one__init(&one);
        SCRIPT_MESSAGE(Fetched, fetched, message);
        message.n_sections = 1, message.sections = sections;
        one.status = script_fetch_status(host);
        one.number = said->sections[i]->number;
        one.reason = (char *)(uintptr_t)(one.status < 0 ? gy_error_text() : "");
        if (said->sections[i]->peer == (uint64_t)host->index + 100) {
            script_wrong(host->at, "what is here is fetched");
        }
        if (one.status >= 0 && host->fetched_count < FETCHED_MAX) {
            host->fetched[host->fetched_count++] = said->sections[i]->content->low;
        }
        script_call(host, GY_NET_FETCHED, &message.base);
    }
    return GY_OK;
}

static inline gy_status script_over(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request)
{
    script_host *host = arg;
    (void)request;
    host->is_over = true;
    script_answer(host->rpc, asked);
    return GY_OK;
}

static inline gy_status script_told(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request)
{
    (void)arg, (void)asked, (void)request;
    return GY_OK;
}

static inline gy_rpc_method script_method(gy_net_type type,
                                          gy_status (*serve)(void *, const gy_rpc_asked *,
                                                             const ProtobufCMessage *))
{
    gy_rpc_method method = gy_net_method(type);
    method.serve = serve;
    return method;
}

static inline void script_handle(void *arg, gy_rpc_peer peer, gy_rpc_event event)
{
    script_host *host = arg;
    (void)peer;
    host->calls += event == GY_RPC_UP;
}

static inline void script_host_start(script_host *host)
{
    const gy_rpc_method methods[] = {
        script_method(GY_NET_ATTACH, script_attach),
        script_method(GY_NET_BEAT, script_told),
        script_method(GY_NET_OPEN, script_open),
        script_method(GY_NET_CLOSE, script_close),
        script_method(GY_NET_CREDIT, script_handle_credit),
        script_method(GY_NET_RELAY, script_handle_relay),
        script_method(GY_NET_FETCH, script_fetch),
        script_method(GY_NET_UNFETCH, script_told),
        script_method(GY_NET_DISCARD, script_told),
        script_method(GY_NET_JOB_OVER, script_over),
        script_method(GY_NET_LEASE_GONE, NULL),
        script_method(GY_NET_EXECUTOR_GONE, NULL),
        script_method(GY_NET_FETCHED, NULL),
    };
    memcpy(host->methods, methods, sizeof(methods));
    const gy_rpc_options options = {.name = "daemon",
                                    .role = GY_RPC_DAEMON,
                                    .methods = host->methods,
                                    .method_count = GY_COUNT(methods),
                                    .arg = host,
                                    .hear = script_handle,
                                    .is_plaintext = true};
    char at[GY_RPC_ADDRESS_BYTES];
    snprintf(at, sizeof(at), "%s", host->address[0] != '\0' ? host->address : "127.0.0.1:0");
    if (gy_rpc_new(gy_env_real(), &options, &host->rpc) < 0 ||
        gy_rpc_listen(host->rpc, at, host->address) < 0) {
        gy_panic("no daemon: %s", gy_error_text());
    }
}

static inline void script_host_stop(script_host *host)
{
    gy_rpc_free(host->rpc);
    host->rpc = NULL;
    host->manager = 0;
    for (int i = 0; i < EXECUTORS; i++) {
        host->executors[i].lease = 0;
        script_executor_free(&host->executors[i]);
    }
}

/* ---- the name server ---- */

static inline void script_allocation(script *at, uint64_t seen,
                                     const gy_allocation *allocations, size_t count)
{
    gy_arena arena = {0};
    SCRIPT_MESSAGE(Allocations, allocations, message);
    if (gy_net_write_allocations(allocations, count, &arena, &message) < 0) {
        gy_panic("no memory");
    }
    message.job = &message_job; /* only the allocations were written */
    message.epoch = 3;
    message.version = ++at->version;
    message.from = seen;
    message.never = message.most = at->is_narrow; /* of the first request */
    message.is_killed = at->has_struck && at->trouble == TROUBLE_KILLED;
    if (gy_rpc_tell(at->rpc, at->manager, GY_NET_ALLOCATIONS, &message.base) < 0) {
        at->version--; /* sent again with the next requests */
    }
    gy_arena_free(&arena);
}

static inline gy_allocation script_allocation_of(const script_host *host, uint64_t lease,
                                                 gy_allocation_state state)
{
    return (gy_allocation){.lease = lease,
                           .state = state,
                           .daemon = (uint64_t)host->index + 100,
                           .incarnation = host->incarnation,
                           .address = host->address,
                           .host = "h",
                           .length_ns =
                               host->at->trouble == TROUBLE_CLAIMED ? 1600000000 : 60000000000};
}

static inline uint32_t script_leases(const script *at)
{
    uint32_t count = 0;
    for (int i = 0; i < at->host_count; i++) {
        for (int k = 0; k < EXECUTORS; k++) {
            count += at->hosts[i].executors[k].lease != 0;
        }
    }
    return count;
}

/* Slots for a gang: on a host with enough of its two. */
static inline void script_lend_gang(script *at, uint64_t seen, uint32_t gang, uint32_t width)
{
    gy_allocation allocations[2];
    for (int i = 0; i < at->host_count && at->gang < gang; i++) {
        script_host *host = &at->hosts[i];
        if (width == 2 && host->executors[0].lease == 0 && host->executors[1].lease == 0) {
            for (int k = 0; k < 2; k++) {
                host->executors[k].lease = ++at->lease;
                allocations[k] = script_allocation_of(host, at->lease, GY_ALLOCATION_HELD);
                allocations[k].gang = gang;
            }
            at->gang = gang;
            script_allocation(at, seen, allocations, 2);
        }
    }
}

/* Lease two executors on each host, as long as more are requested. */
static inline void script_lend(script *at, uint64_t seen)
{
    gy_allocation allocations[HOSTS * 2];
    size_t count = 0;
    for (int k = 0; k < (at->is_sharded ? 1 : 2); k++) {
        for (int i = 0; i < at->host_count; i++) {
            script_host *host = &at->hosts[i];
            if (host->rpc != NULL && host->executors[k].lease == 0 &&
                script_leases(at) < at->wanted) {
                host->executors[k].lease = ++at->lease;
                allocations[count++] =
                    script_allocation_of(host, at->lease, GY_ALLOCATION_HELD);
            }
        }
    }
    if (count > 0) {
        script_allocation(at, seen, allocations, count);
    }
}

static inline void script_say_over(script *at)
{
    SCRIPT_MESSAGE(Over, over, message);
    message.status = GY_STATE;
    (void)!gy_rpc_tell(at->rpc, at->manager, GY_NET_OVER, &message.base);
}

static inline gy_status script_handle_requests(void *arg, const gy_rpc_asked *asked,
                                               const ProtobufCMessage *request)
{
    script *at = arg;
    const Gy__Cluster__Requests *said = (const void *)request;
    at->manager = asked->peer;
    if (at->is_called_first && at->hosts[0].calls == 0) {
        return GY_OK; /* the manager will request again */
    }
    at->wanted = said->slots;
    if (said->seen > at->version) {
        script_wrong(at, "it has seen what nobody said");
    }
    if (at->has_struck && at->trouble == TROUBLE_KILLED) { /* repeated in case it is lost */
        script_allocation(at, said->seen, NULL, 0);
        return GY_OK;
    }
    if (at->has_struck && at->trouble == TROUBLE_OVER) {
        script_say_over(at);
        return GY_OK;
    }
    script_lend(at, said->seen);
    if (at->is_narrow) {
        script_allocation(at, said->seen, NULL, 0);
    } else if (at->is_sharded && said->n_gangs > 0) { /* the rest */
        script_lend_gang(at, at->version, said->gangs[0]->number, said->gangs[0]->width);
    }
    return GY_OK;
}

static inline gy_status script_handle_view(void *arg, const gy_rpc_asked *asked,
                                           const ProtobufCMessage *request)
{
    script *at = arg;
    const Gy__Cluster__View *said = (const void *)request;
    (void)asked;
    if (gy_net_check_view(said) < 0 || said->n_stages != 2 || said->stages[0]->n_reads != 0 ||
        said->stages[1]->n_reads != 1 || said->stages[1]->reads[0] != 0) {
        script_wrong(at, "a view that no name server takes");
        return GY_OK;
    }
    at->views++;
    at->view_tasks = at->view_committed = 0;
    for (size_t i = 0; i < said->n_stages; i++) {
        at->view_tasks += said->stages[i]->tasks;
        at->view_committed += said->stages[i]->committed;
    }
    at->view_notes = (uint32_t)said->n_notes;
    return GY_OK;
}

static inline gy_status script_release(void *arg, const gy_rpc_asked *asked,
                                       const ProtobufCMessage *request)
{
    script *at = arg;
    const Gy__Cluster__Release *said = (const void *)request;
    at->given++;
    at->bad += said->is_bad != 0;
    at->asked = at->asked == said->lease ? 0 : at->asked;
    script_answer(at->rpc, asked);
    for (int i = 0; i < at->host_count; i++) {
        script_executor *executor = script_find(&at->hosts[i], said->lease);
        if (executor != NULL) {
            executor->lease = 0;
            script_executor_free(executor);
            const gy_allocation gone =
                script_allocation_of(&at->hosts[i], said->lease, GY_ALLOCATION_GONE);
            script_allocation(at, at->version, &gone, 1);
        }
    }
    return GY_OK;
}

static inline void script_strike_lease(script *at, script_host *host, script_executor *executor)
{
    const uint64_t lease = executor->lease;
    if (at->trouble == TROUBLE_ASKED) {
        const gy_allocation asked = script_allocation_of(host, lease, GY_ALLOCATION_ASKED);
        at->asked = lease;
        script_allocation(at, at->version, &asked, 1);
        return;
    }
    SCRIPT_MESSAGE(LeaseGone, lease_gone, message);
    message.lease = lease;
    message.reason = (char *)(uintptr_t) "its length is over";
    script_call(host, GY_NET_LEASE_GONE, &message.base);
    executor->lease = 0;
    script_executor_free(executor);
}

/* Cause a trouble that does not depend on a message of the manager. */
static inline void script_strike(script *at)
{
    script_host *host = &at->hosts[0];
    const bool is_of_host =
        at->trouble >= TROUBLE_HOST_DIES && at->trouble <= TROUBLE_HOST_EMPTY;
    if (!script_is_due(at)) {
        return;
    }
    if (is_of_host) {
        at->has_struck = true;
        script_host_stop(host);
        host->incarnation += at->trouble == TROUBLE_HOST_EMPTY;
        host->fetched_count = at->trouble == TROUBLE_HOST_EMPTY ? 0 : host->fetched_count;
        if (at->trouble != TROUBLE_HOST_DIES) {
            script_host_start(host);
        }
    } else if (at->trouble == TROUBLE_LEASE_GONE || at->trouble == TROUBLE_ASKED) {
        for (int i = 0; i < at->host_count * EXECUTORS && !at->has_struck; i++) {
            script_executor *executor = &at->hosts[i / EXECUTORS].executors[i % EXECUTORS];
            if (executor->lease != 0 && executor->in.size_bytes > 0) { /* a task waits in it */
                at->has_struck = true;
                script_strike_lease(at, &at->hosts[i / EXECUTORS], executor);
            }
        }
    } else if (at->trouble == TROUBLE_KILLED) {
        at->has_struck = true;
        script_allocation(at, at->version, NULL, 0);
    } else if (at->trouble == TROUBLE_OVER) {
        at->has_struck = true;
        script_say_over(at);
    } else if (at->trouble == TROUBLE_CLAIMED) {
        FILE *claim = fopen(at->claim, "wxe");
        at->has_struck = true;
        if (claim == NULL || fclose(claim) != 0) {
            script_wrong(at, "another epoch cannot begin");
        }
    }
}

static inline bool script_is_at_end(const script *at, int64_t last_ns)
{
    const bool is_awaited = at->is_over_awaited && !at->hosts[0].is_over;
    return at->is_ended && (!is_awaited || gy_now_ns(gy_env_real()) > last_ns);
}

static inline void *script_run(void *arg)
{
    script *at = arg;
    const int64_t last_ns = gy_deadline_after(60).at_ns;
    while (!script_is_at_end(at, last_ns)) {
        for (int i = 0; i < at->host_count; i++) {
            if (at->hosts[i].rpc != NULL) {
                while (gy_rpc_turn(at->hosts[i].rpc, (gy_deadline){0}) == GY_OK) {
                }
                for (int k = 0; k < EXECUTORS; k++) {
                    if (at->hosts[i].executors[k].in.size_bytes > 0) {
                        script_pump(&at->hosts[i], &at->hosts[i].executors[k]);
                    }
                    script_refill(&at->hosts[i], &at->hosts[i].executors[k]);
                }
            }
        }
        (void)gy_rpc_turn(at->rpc, gy_deadline_after(0.0005));
        script_strike(at);
    }
    return NULL;
}

#endif
