/* A name server in its own process, and scripted daemons, managers and submitters that talk to
 * it over real sockets. */
#ifndef GY_CLUSTER_SERVER_SERVER_TEST_H
#define GY_CLUSTER_SERVER_SERVER_TEST_H

#include "control/net/net.h"
#include "rpc/bulk.h"
#include "rpc/keyring.h"

#include <gyre/cluster.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gy_test.h"

enum { KIT_WAIT_S = 60, KIT_LEASES = 16, KIT_JOBS = 4 };

/* ---- The process ---- */

typedef struct kit_server {
    char folder[32], ring[64], table[64], address[GY_RPC_ADDRESS_BYTES];
    gy_nameserver_options options;
    const char *const *command; /* options of `gyre nameserver`; NULL: a process of this test */
    pid_t process;
    int told; /* a pipe from which its address is read */
} kit_server;

static int kit_tell;

static inline void kit_listening(void *arg, const char *address)
{
    (void)arg;
    ssize_t put = write(kit_tell, address, strlen(address));
    GY_ASSERT(put > 0);
}

static inline void kit_server_make(kit_server *at)
{
    *at = (kit_server){.folder = "/tmp/gyre-names-XXXXXX", .process = -1, .told = -1};
    assert_non_null(mkdtemp(at->folder));
    snprintf(at->ring, sizeof(at->ring), "%s/ring", at->folder);
    snprintf(at->table, sizeof(at->table), "sqlite:%s/table", at->folder);
    snprintf(at->address, sizeof(at->address), "127.0.0.1:0");
    assert_ok(gy_keyring_make(at->ring));
    at->options = (gy_nameserver_options){.table = at->table,
                                          .key_file = at->ring,
                                          .preempt_after_s = 0.05,
                                          /* no peer is lost by time, however slow this machine
                                           * is */
                                          .heartbeat_timeout_s = KIT_WAIT_S,
                                          .on_listening = kit_listening};
}

/* Become the command under test, which prints its address to standard output. */
static inline void kit_server_become(kit_server *at, int output)
{
    const char *binary = getenv("GYRE_BIN");
    const char *words[40] = {binary != NULL ? binary : "build/dev/gyre",
                             "nameserver",
                             "--listen",
                             at->address,
                             "--table",
                             at->table,
                             "--key",
                             at->ring};
    size_t count = 8;
    for (size_t i = 0; at->command[i] != NULL && count < GY_COUNT(words) - 1; i++) {
        words[count++] = at->command[i];
    }
    (void)setenv("GYRE_LOG", "error", 1);
    if (dup2(output, STDOUT_FILENO) == STDOUT_FILENO) {
        (void)execv(words[0], (char *const *)(uintptr_t)words);
    }
    _exit(127);
}

static inline void kit_server_begin(kit_server *at)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    at->process = fork();
    assert_true(at->process >= 0);
    if (at->process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        kit_tell = ends[1];
        gy_log_set_level(getenv("GYRE_LOG") != NULL ? GY_LOG_DEBUG : GY_LOG_ERROR);
        if (at->command != NULL) {
            kit_server_become(at, ends[1]);
        }
        at->options.listen = at->address;
        gy_status status = gy_nameserver_run(&at->options);
        if (status < 0) {
            fprintf(stderr, "the name server: %s\n", gy_error_text());
        }
        _exit(status == GY_OK ? 0 : 1);
    }
    close(ends[1]);
    at->told = ends[0];
}

/* Wait until it serves. */
static inline void kit_server_hear(kit_server *at)
{
    struct pollfd look = {.fd = at->told, .events = POLLIN};
    assert_int_equal(poll(&look, 1, KIT_WAIT_S * 1000), 1);
    ssize_t got = read(at->told, at->address, sizeof(at->address) - 1);
    assert_true(got > 0);
    at->address[got] = '\0';
    at->address[strcspn(at->address, "\n")] = '\0'; /* of the command */
}

static inline void kit_server_start(kit_server *at)
{
    kit_server_begin(at);
    kit_server_hear(at);
}

static inline int kit_server_end(kit_server *at, int number)
{
    int status = 0;
    assert_int_equal(kill(at->process, number), 0);
    assert_int_equal(waitpid(at->process, &status, 0), at->process);
    close(at->told);
    at->process = at->told = -1;
    return status;
}

static inline void kit_server_remove(kit_server *at)
{
    if (at->process > 0) {
        int status = kit_server_end(at, SIGTERM);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(gy_disk_remove_tree(at->folder), 0);
}

/* ---- Its peers ---- */

typedef struct kit_agent {
    gy_rpc *rpc;
    gy_rpc_peer server;
    gy_rpc_method methods[21];
    gy_arena arena;
    /* A daemon: what it has leased and started. */
    gy_daemon_state state;
    gy_leased leases[KIT_LEASES];
    gy_hosted managers[KIT_JOBS];
    uint32_t starts;   /* orders to start a manager, without repetitions */
    int64_t length_ns; /* of the leases in the last order */
    /* A manager: what it has. */
    gy_manager_requests requests;
    uint64_t held[KIT_LEASES];
    size_t held_count;
    bool is_over, is_killed, is_stubborn;
    gy_status over;
    /* The result of its last call. */
    bool is_answered;
    gy_status status;
    char text[512];
    int64_t spoke_ns;
} kit_agent;

/* Send a message; if the connection breaks it is sent again. */
static inline void kit_tell_it(kit_agent *at, gy_net_type type, const ProtobufCMessage *message)
{
    gy_status told = gy_rpc_tell(at->rpc, at->server, (uint32_t)type, message);
    assert_true(told == GY_OK || told == GY_PEER);
    gy_arena_free(&at->arena);
    at->spoke_ns = gy_now_ns(gy_env_real());
}

static inline void kit_tell_state(kit_agent *at)
{
    Gy__Cluster__DaemonState message;
    at->state.sequence++;
    at->state.leases = at->leases;
    at->state.managers = at->managers;
    assert_ok(gy_net_write_state(&at->state, &at->arena, &message));
    kit_tell_it(at, GY_NET_DAEMON_STATE, &message.base);
}

static inline void kit_tell_requests(kit_agent *at)
{
    Gy__Cluster__Requests message;
    at->requests.sequence++;
    assert_ok(gy_net_write_requests(&at->requests, &at->arena, &message));
    message.progress = (char *)(uintptr_t) "half of it";
    kit_tell_it(at, GY_NET_REQUESTS, &message.base);
}

static inline gy_status kit_order(void *arg, const gy_rpc_asked *asked,
                                  const ProtobufCMessage *request)
{
    kit_agent *at = arg;
    gy_control_order order;
    (void)asked;
    assert_ok(gy_net_read_order((const Gy__Cluster__Order *)request, &order));
    assert_true(order.daemon == at->state.daemon);
    if (order.term < at->state.term ||
        (order.term == at->state.term && order.number <= at->state.order)) {
        return GY_OK;
    }
    at->state.term = order.term;
    at->state.order = order.number;
    if (order.kind == GY_ORDER_MANAGER) {
        assert_true(at->state.manager_count < KIT_JOBS);
        at->starts++;
        at->managers[at->state.manager_count++] =
            (gy_hosted){.job = order.job, .epoch = order.epoch};
    }
    at->length_ns = order.kind == GY_ORDER_LEASE ? order.length_ns : at->length_ns;
    for (uint32_t i = 0; order.kind == GY_ORDER_LEASE && i < order.count; i++) {
        assert_true(at->state.lease_count < KIT_LEASES);
        at->leases[at->state.lease_count++] = (gy_leased){.lease = order.lease + i,
                                                          .job = order.job,
                                                          .epoch = order.epoch,
                                                          .gang = order.gang};
    }
    for (size_t i = 0; order.kind == GY_ORDER_END_LEASE && i < at->state.lease_count; i++) {
        if (at->leases[i].lease == order.lease) {
            at->leases[i] = at->leases[--at->state.lease_count];
        }
    }
    kit_tell_state(at);
    return GY_OK;
}

static inline void kit_done(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    kit_agent *at = arg;
    (void)answer;
    at->is_answered = true;
    at->status = status;
    snprintf(at->text, sizeof(at->text), "%s", status < 0 ? gy_error_text() : "");
}

static inline void kit_ignore(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    (void)arg;
    (void)status;
    (void)answer;
}

static inline Gy__Cluster__Key kit_key(gy_key key)
{
    Gy__Cluster__Key made = GY__CLUSTER__KEY__INIT;
    made.high = key.high;
    made.low = key.low;
    return made;
}

static inline void kit_release(kit_agent *at, uint64_t lease)
{
    Gy__Cluster__Key job = kit_key(at->requests.job);
    Gy__Cluster__Release message;
    gy__cluster__release__init(&message);
    message.job = &job;
    message.epoch = at->requests.epoch;
    message.lease = lease;
    assert_ok(gy_rpc_call(at->rpc, at->server,
                          &(gy_rpc_request){.type = GY_NET_RELEASE,
                                            .message = &message.base,
                                            .deadline = gy_deadline_after(KIT_WAIT_S),
                                            .done = kit_ignore,
                                            .arg = at},
                          NULL));
}

/* Take the allocations; release a preempted lease at once. */
static inline void kit_take_allocation(kit_agent *at, const gy_allocation *allocation)
{
    size_t where = 0;
    while (where < at->held_count && at->held[where] != allocation->lease) {
        where++;
    }
    if (allocation->state == GY_ALLOCATION_HELD && where == at->held_count) {
        assert_true(at->held_count < KIT_LEASES);
        at->held[at->held_count++] = allocation->lease;
    }
    if (allocation->state == GY_ALLOCATION_ASKED && !at->is_stubborn) {
        kit_release(at, allocation->lease);
    }
    bool is_gone = allocation->state == GY_ALLOCATION_GONE ||
                   (allocation->state == GY_ALLOCATION_ASKED && !at->is_stubborn);
    if (is_gone && where < at->held_count) {
        at->held[where] = at->held[--at->held_count];
    }
}

static inline gy_status kit_allocations(void *arg, const gy_rpc_asked *asked,
                                        const ProtobufCMessage *request)
{
    kit_agent *at = arg;
    const Gy__Cluster__Allocations *message = (const Gy__Cluster__Allocations *)request;
    gy_allocation *allocations = NULL;
    size_t count = 0;
    (void)asked;
    assert_ok(gy_net_read_allocations(message, &at->arena, &allocations, &count));
    assert_true(gy_key_is_same(gy_net_key(message->job), at->requests.job));
    if (message->epoch == at->requests.epoch && message->from <= at->requests.seen) {
        for (size_t i = 0; i < count; i++) {
            kit_take_allocation(at, &allocations[i]);
        }
        at->is_killed = message->is_killed;
        at->requests.seen = message->version;
    }
    gy_arena_free(&at->arena);
    kit_tell_requests(at);
    return GY_OK;
}

static inline gy_status kit_over(void *arg, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request)
{
    kit_agent *at = arg;
    (void)asked;
    const Gy__Cluster__Over *message = (const Gy__Cluster__Over *)request;
    if (gy_key_is_same(gy_net_key(message->job), at->requests.job)) {
        at->is_over = true;
        at->over = (gy_status)message->status;
    }
    return GY_OK;
}

static inline void kit_agent_open(kit_agent *at, const kit_server *server, gy_rpc_role role,
                                  const char *subject)
{
    static const gy_net_type types[] = {
        GY_NET_DAEMON_STATE, GY_NET_DAEMON_BYE, GY_NET_ASK_SPEC,   GY_NET_JOB_END,
        GY_NET_ORDER,        GY_NET_REQUESTS,   GY_NET_RELEASE,    GY_NET_ALLOCATIONS,
        GY_NET_OVER,         GY_NET_ASK_BLOBS,  GY_NET_PUT_BLOB,   GY_NET_SUBMIT,
        GY_NET_KILL,         GY_NET_DRAIN,      GY_NET_WAIT_END,   GY_NET_LIST,
        GY_NET_VIEW,         GY_NET_OUTPUT,     GY_NET_ASK_OUTPUT, GY_NET_RESUME,
        GY_NET_ASK_VIEW};
    *at = (kit_agent){.over = GY_AGAIN};
    for (size_t i = 0; i < GY_COUNT(types); i++) {
        at->methods[i] = gy_net_method(types[i]);
        at->methods[i].serve = types[i] == GY_NET_ORDER         ? kit_order
                               : types[i] == GY_NET_ALLOCATIONS ? kit_allocations
                               : types[i] == GY_NET_OVER        ? kit_over
                                                                : NULL;
    }
    const gy_rpc_options node = {.name = gy_rpc_role_text(role),
                                 .role = role,
                                 .subject = subject,
                                 .methods = at->methods,
                                 .method_count = GY_COUNT(types),
                                 .arg = at,
                                 .retry_ns_min = 5000000,
                                 .retry_ns_max = 20000000,
                                 .key_file = server->ring};
    assert_ok(gy_rpc_new(gy_env_real(), &node, &at->rpc));
    assert_ok(gy_rpc_dial(at->rpc, server->address, &at->server));
}

static inline void kit_daemon_open(kit_agent *at, const kit_server *server, uint64_t id,
                                   uint32_t slots)
{
    kit_agent_open(at, server, GY_RPC_DAEMON, NULL);
    at->state = (gy_daemon_state){.daemon = id,
                                  .incarnation = 1,
                                  .life = 1,
                                  .platform = gy_net_platform(),
                                  .slots = slots,
                                  .address = "127.0.0.1:1",
                                  .host = "here",
                                  .labels = "fast,gpu",
                                  .trouble = ""};
}

static inline void kit_manager_open(kit_agent *at, const kit_server *server, gy_key job,
                                    uint32_t epoch, uint32_t slots)
{
    char subject[GY_NET_KEY_TEXT];
    gy_net_key_text(job, subject);
    kit_agent_open(at, server, GY_RPC_MANAGER, subject);
    at->requests = (gy_manager_requests){
        .job = job, .epoch = epoch, .address = "127.0.0.1:2", .slots = slots};
}

static inline void kit_agent_close(kit_agent *at)
{
    gy_rpc_free(at->rpc);
    gy_arena_free(&at->arena);
}

/* ---- Turns ---- */

/* Turn each once; they repeat their messages from time to time. */
static inline void kit_turn(kit_agent *const *agents, size_t count)
{
    static const int64_t beat_ns = 50000000;
    bool has_moved = false;
    for (size_t i = 0; i < count; i++) {
        gy_rpc_facts facts;
        kit_agent *at = agents[i];
        has_moved = gy_rpc_turn(at->rpc, (gy_deadline){0}) == GY_OK || has_moved;
        bool is_late = gy_now_ns(gy_env_real()) - at->spoke_ns >= beat_ns;
        if (is_late && gy_rpc_look(at->rpc, at->server, &facts) && facts.is_up) {
            if (at->state.daemon != 0) {
                kit_tell_state(at);
            } else if (at->requests.epoch != 0 && !at->is_over) {
                kit_tell_requests(at);
            }
        }
    }
    if (!has_moved) {
        (void)gy_rpc_turn(agents[0]->rpc, gy_deadline_after(0.001));
    }
}

#define KIT_UNTIL(agents, count, fact)                                                         \
    do {                                                                                       \
        gy_deadline last_ = gy_deadline_after(KIT_WAIT_S);                                     \
        while (!(fact)) {                                                                      \
            if (gy_now_ns(gy_env_real()) > last_.at_ns) {                                      \
                fail_msg("never: %s", #fact);                                                  \
            }                                                                                  \
            kit_turn(agents, count);                                                           \
        }                                                                                      \
    } while (0)

/* Call and wait for the answer, which goes to `done`; its status. */
static inline gy_status kit_ask_of(kit_agent *const *agents, size_t count, kit_agent *at,
                                   gy_net_type type, const ProtobufCMessage *message)
{
    at->is_answered = false;
    assert_ok(gy_rpc_call(at->rpc, at->server,
                          &(gy_rpc_request){.type = (uint32_t)type,
                                            .message = message,
                                            .deadline = gy_deadline_after(KIT_WAIT_S),
                                            .done = kit_done,
                                            .arg = at},
                          NULL));
    KIT_UNTIL(agents, count, at->is_answered);
    return at->status;
}

static inline gy_status kit_ask(kit_agent *at, gy_net_type type,
                                const ProtobufCMessage *message)
{
    return kit_ask_of(&at, 1, at, type, message);
}

#endif
