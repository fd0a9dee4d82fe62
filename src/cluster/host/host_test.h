/**
 * For tests of daemons: a scripted name server and managers on real sockets, and daemons as
 * processes of the test program, whose main begins with: HOST_TEST_SERVE()
 */
#ifndef GY_CLUSTER_HOST_TEST_H
#define GY_CLUSTER_HOST_TEST_H

#include "cluster/host/host.h"
#include "cluster/host/process_test.h"
#include "control/net/net.h"
#include "driver/job_test.h"
#include "rpc/keyring.h"
#include "worker/wire.h"

#include <sys/wait.h>

enum { KIT_DAEMONS = 2, KIT_MANAGERS = 3, KIT_BYTES = 1 << 20, KIT_GONE = 96 };

/* ---- The daemon's side ---- */

/* A section: the halves of its file's bytes exchanged, or as given. */
static inline gy_status kit_locate(void *arg, const char *path, const void *wanted,
                                   size_t wanted_bytes, gy_net_located *located)
{
    struct stat about;
    (void)arg;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        return gy_fail(GY_NOTFOUND, "%s: %s", path, strerror(errno));
    }
    uint64_t size = (uint64_t)about.st_size, half = size / 3;
    bool is_cut = wanted_bytes == 3 && memcmp(wanted, "cut", 3) == 0;
    *located = (gy_net_located){.fd = fd, .extent_count = 2, .note_bytes = 4};
    located->extents = gy_alloc("test", 2 * sizeof(gy_net_extent));
    assert_non_null(located->extents);
    located->extents[0] = (gy_net_extent){half, size - half + (is_cut ? 10 : 0)};
    located->extents[1] = (gy_net_extent){0, half};
    memcpy(located->note, "note", 4);
    return GY_OK;
}

static inline const char *kit_word(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* In the daemon's process: environment variables GYRE_TEST_... set its options. */
static inline int kit_be_daemon(void)
{
    const gy_net_hooks hooks = {.locate = kit_locate};
    const char *sandbox = kit_word("GYRE_TEST_WALLS");
    const char *reserve = kit_word("GYRE_TEST_RESERVE"), *keep = kit_word("GYRE_TEST_KEEP");
    const gy_host_options options = {
        .names = kit_word("GYRE_TEST_NAMES"),
        .listen = "127.0.0.1:0",
        .folder = kit_word("GYRE_TEST_FOLDER"),
        .key_file = kit_word("GYRE_TEST_KEY"),
        .is_plaintext = kit_word("GYRE_TEST_KEY") == NULL,
        .host = kit_word("GYRE_TEST_HOST"),
        .labels = "test",
        .slots = 4,
        .reserve_bytes = reserve != NULL ? strtoull(reserve, NULL, 10) : 1,
        .keep_ns = keep != NULL ? strtoll(keep, NULL, 10) * 1000000 : 0,
        .fetch_ns = 100000000,
        /* the default without a PID namespace, so that processes report ids valid outside */
        .sandbox = sandbox != NULL ? sandbox : "available,rights,calls",
        .hooks = &hooks};
    gy_log_set_level(kit_word("GYRE_TEST_LOUD") != NULL ? GY_LOG_DEBUG : GY_LOG_ERROR);
    gy_status status = gy_host_run(gy_env_real(), &options);
    if (status < 0) {
        fprintf(stderr, "%s\n", gy_error_text());
    }
    return status < 0 ? 100 - (int)status : 0;
}

#define HOST_TEST_SERVE()                                                                      \
    do {                                                                                       \
        GY_JOB_TEST_SERVE();                                                                   \
        if (kit_word("GYRE_TEST_FOLDER") != NULL) {                                            \
            return kit_be_daemon();                                                            \
        }                                                                                      \
    } while (0)

/* ---- The test's side ---- */

/* The name server's view of a daemon. */
typedef struct kit_daemon {
    pid_t process;
    char folder[64], host[16];
    gy_rpc_peer peer;
    uint64_t id, incarnation, life, sequence;
    char address[GY_CONTROL_TEXT_BYTES], trouble[GY_CONTROL_REASON_BYTES];
    uint64_t leases[8];
    size_t lease_count, manager_count;
    int byes;
} kit_daemon;

typedef struct kit_gone {
    uint64_t lease;
    uint32_t generation;
    bool has_process, is_over_memory;
    int wait_status;
    char reason[256], words[256], board[GY_BOARD_BYTES];
    size_t boards;
} kit_gone;

typedef struct kit_manager {
    gy_rpc *rpc;
    gy_rpc_peer peer; /* the daemon it is connected to */
    gy_key job;
    uint32_t epoch;
    int ends; /* of calls */
    gy_status status;
    char text[512], folder[4096];
    size_t lease_count;
    uint8_t in[KIT_BYTES]; /* received from lease 1 */
    size_t in_bytes, relays;
    kit_gone gone[KIT_GONE];
    size_t gone_count, lease_gone_count;
    uint64_t credit;
    gy_status fetched[KIT_GONE];
    uint64_t fetched_numbers[KIT_GONE];
    size_t fetched_count;
    uint64_t transfers, beyond_bytes; /* on the wire, besides the sections' */
} kit_manager;

typedef struct kit_scene {
    char folder[48], ring[64], names_address[GY_RPC_ADDRESS_BYTES];
    bool has_key;
    gy_rpc *names;
    gy_rpc_method names_methods[8], manager_methods[24];
    gy_bulk_server bulk;
    kit_daemon daemons[KIT_DAEMONS];
    kit_manager managers[KIT_MANAGERS];
    gy_key job, spec; /* spec: the job's blob */
    uint64_t platform, order;
    char blob_folder[64];
    uint8_t packed[4096]; /* content of that blob, */
    size_t packed_bytes;
    bool is_telling; /* sent with the order */
    int spec_asks, finds, ends;
    gy_status end_status;
    char end_reason[512];
    uint32_t end_epoch;
    char said[4096];   /* by the manager */
    size_t end_output; /* of it, when its end was reported */
    bool is_deaf;      /* it does not answer JOB_END */
    gy_rpc *awaited;   /* whose message is awaited; NULL: the name server's */
} kit_scene;

static inline gy_status kit_state(void *arg, const gy_rpc_asked *asked,
                                  const ProtobufCMessage *request)
{
    kit_scene *at = arg;
    gy_arena arena = {NULL};
    gy_daemon_state state;
    assert_ok(gy_net_read_state((const Gy__Cluster__DaemonState *)request, &arena, &state));
    for (int i = 0; i < KIT_DAEMONS; i++) {
        kit_daemon *daemon = &at->daemons[i];
        if (strcmp(daemon->host, state.host) != 0 || daemon->process == 0) {
            continue;
        }
        daemon->peer = asked->peer;
        daemon->id = state.daemon;
        daemon->incarnation = state.incarnation;
        daemon->life = state.life;
        daemon->sequence = state.sequence;
        snprintf(daemon->address, sizeof(daemon->address), "%s", state.address);
        snprintf(daemon->trouble, sizeof(daemon->trouble), "%s", state.trouble);
        daemon->lease_count = state.lease_count;
        daemon->manager_count = 0;
        for (size_t k = 0; k < state.manager_count; k++) {
            daemon->manager_count += !state.managers[k].is_gone;
        }
        for (size_t k = 0; k < GY_MIN(state.lease_count, GY_COUNT(daemon->leases)); k++) {
            daemon->leases[k] = state.leases[k].lease;
        }
    }
    gy_arena_free(&arena);
    return GY_OK;
}

static inline gy_status kit_done_answer(gy_rpc *rpc, const gy_rpc_asked *asked)
{
    static const Gy__Cluster__Done done = GY__CLUSTER__DONE__INIT;
    return gy_rpc_answer(rpc, asked, &done.base);
}

static inline gy_status kit_bye(void *arg, const gy_rpc_asked *asked,
                                const ProtobufCMessage *request)
{
    kit_scene *at = arg;
    const Gy__Cluster__DaemonBye *bye = (const Gy__Cluster__DaemonBye *)request;
    for (int i = 0; i < KIT_DAEMONS; i++) {
        at->daemons[i].byes += at->daemons[i].id == bye->daemon;
    }
    return kit_done_answer(at->names, asked);
}

static inline gy_status kit_spec(void *arg, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request)
{
    kit_scene *at = arg;
    Gy__Cluster__Key key = GY__CLUSTER__KEY__INIT;
    Gy__Cluster__Spec answer;
    (void)request;
    gy__cluster__spec__init(&answer);
    key.high = at->spec.high;
    key.low = at->spec.low;
    answer.spec = &key;
    answer.platform = at->platform;
    answer.packed.data = at->packed;
    answer.packed.len = at->is_telling ? at->packed_bytes : 0;
    at->spec_asks++;
    return gy_rpc_answer(at->names, asked, &answer.base);
}

static inline gy_status kit_output(void *arg, const gy_rpc_asked *asked,
                                   const ProtobufCMessage *request)
{
    kit_scene *at = arg;
    const Gy__Cluster__Output *told = (const Gy__Cluster__Output *)request;
    Gy__Cluster__Done done = GY__CLUSTER__DONE__INIT;
    const size_t room = sizeof(at->said) - 1;
    if (told->offset <= room) {
        const size_t size = GY_MIN(told->data.len, room - (size_t)told->offset);
        memcpy(at->said + told->offset, told->data.data, size);
    }
    return gy_rpc_answer(at->names, asked, &done.base);
}

static inline gy_status kit_job_end(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request)
{
    kit_scene *at = arg;
    const Gy__Cluster__JobEnd *end = (const Gy__Cluster__JobEnd *)request;
    Gy__Cluster__Over over = GY__CLUSTER__OVER__INIT;
    Gy__Cluster__Key key = *end->job;
    if (at->is_deaf) {
        at->ends++;
        return gy_fail(GY_TIMEOUT, "the record is being stored");
    }
    at->ends++;
    if (end->last.len > 0 && end->said <= sizeof(at->said)) {
        memcpy(at->said + (end->said - end->last.len), end->last.data, end->last.len);
    }
    at->end_output = strnlen(at->said, sizeof(at->said));
    at->end_status = (gy_status)end->status;
    at->end_epoch = end->epoch;
    snprintf(at->end_reason, sizeof(at->end_reason), "%s", end->reason);
    over.job = &key;
    over.epoch = end->epoch;
    return gy_rpc_answer(at->names, asked, &over.base);
}

/* The blobs of the job are files of a folder. */
static inline gy_status kit_find(void *arg, gy_rpc_role role, const char *subject,
                                 const void *name, size_t name_bytes, gy_bulk_region *region)
{
    kit_scene *at = arg;
    char path[256];
    struct stat about;
    (void)role, (void)subject;
    at->finds++;
    Gy__Cluster__BulkName *asks = gy__cluster__bulk_name__unpack(NULL, name_bytes, name);
    assert_true(asks != NULL && asks->blob != NULL);
    snprintf(path, sizeof(path), "%s/%016llx%016llx", at->blob_folder,
             (unsigned long long)asks->blob->high, (unsigned long long)asks->blob->low);
    gy__cluster__bulk_name__free_unpacked(asks, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        return gy_fail(GY_NOTFOUND, "no such blob");
    }
    *region =
        (gy_bulk_region){.fd = fd, .is_taken = true, .size_bytes = (uint64_t)about.st_size};
    return GY_OK;
}

/* ---- Managers ---- */

static inline kit_manager *kit_manager_of(kit_scene *at, const gy_rpc *rpc)
{
    int i = 0;
    while (at->managers[i].rpc != rpc) {
        i++;
    }
    return &at->managers[i];
}

static inline gy_status kit_relay(void *arg, const gy_rpc_asked *asked,
                                  const ProtobufCMessage *request)
{
    kit_manager *own = arg;
    const Gy__Cluster__Relay *relay = (const Gy__Cluster__Relay *)request;
    assert_true(own->in_bytes + relay->data.len <= sizeof(own->in));
    memcpy(own->in + own->in_bytes, relay->data.data, relay->data.len);
    own->in_bytes += relay->data.len;
    own->relays++;
    return kit_done_answer(own->rpc, asked);
}

static inline gy_status kit_executor_gone(void *arg, const gy_rpc_asked *asked,
                                          const ProtobufCMessage *request)
{
    kit_manager *own = arg;
    const Gy__Cluster__ExecutorGone *gone = (const Gy__Cluster__ExecutorGone *)request;
    assert_true(own->gone_count < KIT_GONE);
    kit_gone *to = &own->gone[own->gone_count++];
    *to = (kit_gone){.lease = gone->lease,
                     .generation = gone->generation,
                     .has_process = gone->has_process,
                     .is_over_memory = gone->is_over_memory,
                     .wait_status = gone->wait_status,
                     .boards = gone->n_boards};
    snprintf(to->reason, sizeof(to->reason), "%s", gone->reason);
    snprintf(to->words, sizeof(to->words), "%s", gone->log_tail);
    if (gone->n_boards > 0) {
        memcpy(to->board, gone->boards[0]->text.data, gone->boards[0]->text.len);
    }
    return kit_done_answer(own->rpc, asked);
}

static inline gy_status kit_lease_gone(void *arg, const gy_rpc_asked *asked,
                                       const ProtobufCMessage *request)
{
    kit_manager *own = arg;
    (void)request;
    own->lease_gone_count++;
    return kit_done_answer(own->rpc, asked);
}

static inline gy_status kit_credit(void *arg, const gy_rpc_asked *asked,
                                   const ProtobufCMessage *request)
{
    kit_manager *own = arg;
    own->credit += ((const Gy__Cluster__Credit *)request)->bytes;
    return kit_done_answer(own->rpc, asked);
}

static inline gy_status kit_fetched(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request)
{
    kit_manager *own = arg;
    const Gy__Cluster__Fetched *fetched = (const Gy__Cluster__Fetched *)request;
    for (size_t i = 0; i < fetched->n_sections; i++, own->fetched_count++) {
        assert_true(own->fetched_count < KIT_GONE);
        own->fetched_numbers[own->fetched_count] = fetched->sections[i]->number;
        own->fetched[own->fetched_count] = (gy_status)fetched->sections[i]->status;
    }
    own->transfers += fetched->transfers;
    own->beyond_bytes += fetched->wire_bytes - fetched->bytes;
    return kit_done_answer(own->rpc, asked);
}

typedef gy_status (*kit_serve)(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request);

static inline void kit_add(gy_rpc_method *methods, size_t *count, gy_net_type type,
                           kit_serve serve)
{
    methods[*count] = gy_net_method(type);
    methods[(*count)++].serve = serve;
}

static inline void kit_manager_open(kit_scene *at, int which, gy_key job, uint32_t epoch)
{
    kit_manager *own = &at->managers[which];
    size_t count = 0;
    *own = (kit_manager){.job = job, .epoch = epoch};
    gy_rpc_method *methods = at->manager_methods;
    for (int type = GY_NET_ATTACH; type <= GY_NET_JOB_OVER; type++) {
        kit_add(methods, &count, (gy_net_type)type,
                type == GY_NET_RELAY    ? kit_relay
                : type == GY_NET_CREDIT ? kit_credit
                                        : NULL);
    }
    kit_add(methods, &count, GY_NET_LEASE_GONE, kit_lease_gone);
    kit_add(methods, &count, GY_NET_EXECUTOR_GONE, kit_executor_gone);
    kit_add(methods, &count, GY_NET_FETCHED, kit_fetched);
    char subject[40];
    snprintf(subject, sizeof(subject), "%016llx%016llx", (unsigned long long)job.high,
             (unsigned long long)job.low);
    assert_ok(gy_rpc_new(gy_env_real(),
                         &(gy_rpc_options){.name = "manager",
                                           .role = GY_RPC_MANAGER,
                                           .subject = subject,
                                           .methods = methods,
                                           .method_count = count,
                                           .arg = own,
                                           .key_file = at->has_key ? at->ring : NULL,
                                           .is_plaintext = !at->has_key},
                         &own->rpc));
}

static inline void kit_done(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    kit_manager *own = arg;
    own->ends++;
    own->status = status;
    snprintf(own->text, sizeof(own->text), "%s", status < 0 ? gy_error_text() : "");
    if (answer != NULL && answer->descriptor == &gy__cluster__attached__descriptor) {
        const Gy__Cluster__Attached *attached = (const Gy__Cluster__Attached *)answer;
        own->lease_count = attached->n_leases;
        snprintf(own->folder, sizeof(own->folder), "%s", attached->folder);
    }
}

static inline void kit_call(kit_manager *own, gy_net_type type, const ProtobufCMessage *message)
{
    assert_ok(gy_rpc_call(own->rpc, own->peer,
                          &(gy_rpc_request){.type = type,
                                            .message = message,
                                            .deadline = gy_deadline_after(20),
                                            .done = kit_done,
                                            .arg = own},
                          NULL));
}

/* ---- Turns ---- */

static inline void kit_turn(kit_scene *at)
{
    bool has_moved = gy_rpc_turn(at->names, (gy_deadline){0}) == GY_OK;
    for (int i = 0; i < KIT_MANAGERS; i++) {
        if (at->managers[i].rpc != NULL) {
            has_moved =
                gy_rpc_turn(at->managers[i].rpc, (gy_deadline){0}) == GY_OK || has_moved;
        }
    }
    if (!has_moved) {
        (void)gy_rpc_turn(at->awaited != NULL ? at->awaited : at->names,
                          gy_env_deadline(gy_env_real(), 0.001));
    }
}

#define KIT_UNTIL(at, fact)                                                                    \
    do {                                                                                       \
        gy_deadline last_ = gy_deadline_after(60);                                             \
        while (!(fact)) {                                                                      \
            if (gy_now_ns(gy_env_real()) > last_.at_ns) {                                      \
                fail_msg("never: %s", #fact);                                                  \
            }                                                                                  \
            kit_turn(at);                                                                      \
        }                                                                                      \
    } while (0)

/* Make a call and wait for its result. */
#define KIT_CALL(at, own, type, message, expected)                                             \
    do {                                                                                       \
        int before_ = (own)->ends;                                                             \
        kit_call(own, type, message);                                                          \
        KIT_UNTIL(at, (own)->ends > before_);                                                  \
        if ((own)->status != (expected)) {                                                     \
            fail_msg("%s: \"%s\"", gy_status_text((own)->status), (own)->text);                \
        }                                                                                      \
    } while (0)

static inline void kit_open(kit_scene *at, bool has_key)
{
    size_t count = 0;
    memset(at, 0, sizeof(*at));
    at->has_key = has_key;
    at->job = (gy_key){0xabcdef0123456789u, 7};
    char folder[] = "/tmp/gyre-host-XXXXXX";
    assert_non_null(mkdtemp(folder));
    memcpy(at->folder, folder, sizeof(folder));
    snprintf(at->ring, sizeof(at->ring), "%s/ring", folder);
    snprintf(at->blob_folder, sizeof(at->blob_folder), "%s/blobs", folder);
    assert_int_equal(mkdir(at->blob_folder, 0700), 0);
    if (has_key) {
        assert_ok(gy_keyring_make(at->ring));
    }
    kit_add(at->names_methods, &count, GY_NET_DAEMON_STATE, kit_state);
    kit_add(at->names_methods, &count, GY_NET_DAEMON_BYE, kit_bye);
    kit_add(at->names_methods, &count, GY_NET_ASK_SPEC, kit_spec);
    kit_add(at->names_methods, &count, GY_NET_JOB_END, kit_job_end);
    kit_add(at->names_methods, &count, GY_NET_OUTPUT, kit_output);
    kit_add(at->names_methods, &count, GY_NET_ORDER, NULL);
    at->bulk =
        (gy_bulk_server){.roles = GY_RPC_MAY(GY_RPC_DAEMON), .find = kit_find, .arg = at};
    assert_ok(gy_rpc_new(gy_env_real(),
                         &(gy_rpc_options){.name = "names",
                                           .role = GY_RPC_NAMESERVER,
                                           .methods = at->names_methods,
                                           .method_count = count,
                                           .arg = at,
                                           .key_file = has_key ? at->ring : NULL,
                                           .is_plaintext = !has_key,
                                           .bulk = &at->bulk},
                         &at->names));
    assert_ok(gy_rpc_listen(at->names, "127.0.0.1:0", at->names_address));
}

/* ---- Daemons as processes ---- */

static inline pid_t kit_start_process(const kit_scene *at, const kit_daemon *daemon,
                                      const char *more)
{
    static char line[5][128]; /* the environment of started processes */
    snprintf(line[0], 128, "GYRE_TEST_NAMES=%s", at->names_address);
    snprintf(line[1], 128, "GYRE_TEST_FOLDER=%s", daemon->folder);
    snprintf(line[2], 128, "GYRE_TEST_HOST=%s", daemon->host);
    snprintf(line[3], 128, "GYRE_TEST_KEY=%s", at->has_key ? at->ring : "");
    snprintf(line[4], 128, "%s", more);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++) {
            putenv(line[i]);
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close_range(3, ~0u, 0);
        execl("/proc/self/exe", program_invocation_name, (char *)NULL);
        _exit(99);
    }
    assert_true(child > 0);
    return child;
}

/* Start it and wait for its first state in this life. */
static inline void kit_daemon_start(kit_scene *at, int which, const char *more)
{
    kit_daemon *daemon = &at->daemons[which];
    char base[48];
    memcpy(base, at->folder, sizeof(base));
    snprintf(daemon->folder, sizeof(daemon->folder), "%.47s/daemon%d", base, which);
    snprintf(daemon->host, sizeof(daemon->host), "host%d", which);
    daemon->sequence = 0;
    daemon->byes = 0;
    daemon->process = kit_start_process(at, daemon, more);
    KIT_UNTIL(at, daemon->sequence > 0);
}

static inline int kit_wait(pid_t process)
{
    int status = -1;
    gy_deadline last = gy_deadline_after(20);
    while (waitpid(process, &status, WNOHANG) == 0) {
        if (gy_now_ns(gy_env_real()) > last.at_ns) {
            fail_msg("process %d does not end", (int)process);
        }
        (void)poll(NULL, 0, 1);
    }
    return status;
}

static inline int kit_daemon_end(kit_scene *at, int which, int number)
{
    pid_t process = at->daemons[which].process;
    int status = 0;
    gy_deadline last = gy_deadline_after(20);
    assert_int_equal(kill(process, number), 0);
    while (waitpid(process, &status, WNOHANG) == 0) {
        assert_true(gy_now_ns(gy_env_real()) < last.at_ns);
        kit_turn(at); /* it sends DAEMON_BYE */
    }
    at->daemons[which].process = 0;
    return status;
}

static inline void kit_close(kit_scene *at)
{
    char line[160], said[256];
    for (int i = 0; i < KIT_DAEMONS; i++) {
        if (at->daemons[i].process != 0) {
            int status = kit_daemon_end(at, i, SIGTERM);
            assert_int_equal(status, 0);
        }
    }
    for (int i = 0; i < KIT_MANAGERS; i++) {
        gy_rpc_free(at->managers[i].rpc);
    }
    gy_rpc_free(at->names);
    snprintf(line, sizeof(line), "chmod -R u+w '%s'; rm -rf '%s'", at->folder, at->folder);
    assert_int_equal(gy_test_shell(line, said, sizeof(said)), 0);
}

/* ---- The name server ---- */

static inline void kit_order(kit_scene *at, int which, gy_control_order order)
{
    gy_arena arena = {NULL};
    Gy__Cluster__Order message = GY__CLUSTER__ORDER__INIT;
    order.daemon = at->daemons[which].id;
    order.incarnation = at->daemons[which].incarnation;
    order.term = 1;
    order.number = ++at->order;
    assert_ok(gy_net_write_order(&order, &arena, &message));
    assert_ok(gy_rpc_tell(at->names, at->daemons[which].peer, GY_NET_ORDER, &message.base));
    gy_arena_free(&arena);
}

static inline void kit_lend(kit_scene *at, int which, uint64_t lease, uint32_t count,
                            uint32_t epoch)
{
    kit_order(at, which,
              (gy_control_order){.kind = GY_ORDER_LEASE,
                                 .lease = lease,
                                 .count = count,
                                 .job = at->job,
                                 .epoch = epoch,
                                 .length_ns = 10000000000});
    KIT_UNTIL(at, at->daemons[which].lease_count >= count);
}

/* Write content to the folder of blobs; its name. */
static inline gy_key kit_blob(kit_scene *at, const void *data, size_t size_bytes)
{
    gy_net_digest *digest = NULL;
    char path[256];
    assert_ok(gy_net_digest_begin(&digest));
    gy_net_digest_feed(digest, data, size_bytes);
    gy_key key = gy_net_digest_end(digest);
    gy_net_digest_free(digest);
    snprintf(path, sizeof(path), "%s/%016llx%016llx", at->blob_folder,
             (unsigned long long)key.high, (unsigned long long)key.low);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
    return key;
}

typedef struct kit_program {
    const char *arguments[4]; /* NULL-terminated */
    const char *names[4];     /* of files; NULL-terminated */
    gy_key contents[4];
    bool is_library; /* the last file */
    const char *directory, *variable;
} kit_program;

static inline void kit_job_is(kit_scene *at, const kit_program *program)
{
    Gy__Cluster__JobSpec spec;
    Gy__Cluster__SpecFile files[4], *list[4];
    Gy__Cluster__Key keys[4];
    char *arguments[4], *variables[2], *libraries[1];
    gy__cluster__job_spec__init(&spec);
    for (; program->arguments[spec.n_arguments] != NULL; spec.n_arguments++) {
        arguments[spec.n_arguments] = (char *)(uintptr_t)program->arguments[spec.n_arguments];
    }
    for (; spec.n_files < 4 && program->names[spec.n_files] != NULL; spec.n_files++) {
        size_t i = spec.n_files;
        gy__cluster__spec_file__init(&files[i]);
        gy__cluster__key__init(&keys[i]);
        keys[i].high = program->contents[i].high;
        keys[i].low = program->contents[i].low;
        files[i].name = (char *)(uintptr_t)program->names[i];
        files[i].content = &keys[i];
        files[i].is_executable = i == 0;
        list[i] = &files[i];
        libraries[0] = files[i].name;
    }
    spec.arguments = arguments;
    spec.files = list;
    spec.libraries = libraries;
    spec.n_libraries = program->is_library;
    spec.environment = variables;
    if (program->variable != NULL) {
        variables[spec.n_environment++] = (char *)(uintptr_t)program->variable;
    }
    spec.directory =
        (char *)(uintptr_t)(program->directory != NULL ? program->directory : "/nowhere");
    at->packed_bytes = gy__cluster__job_spec__pack(&spec, at->packed);
    at->spec = kit_blob(at, at->packed, at->packed_bytes);
}

/* The program is the test program itself: its processes do what words say. */
static inline void kit_job_is_this(kit_scene *at)
{
    char path[512] = "";
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    kit_job_is(at, &(kit_program){.arguments = {path}, .directory = "/tmp"});
}

/* ---- The managers ---- */

static inline Gy__Cluster__Key kit_key(gy_key key)
{
    Gy__Cluster__Key message = GY__CLUSTER__KEY__INIT;
    message.high = key.high;
    message.low = key.low;
    return message;
}

static inline void kit_attach(kit_scene *at, kit_manager *own, int daemon, gy_status expected)
{
    Gy__Cluster__Attach message = GY__CLUSTER__ATTACH__INIT;
    Gy__Cluster__Key key = kit_key(own->job);
    if (own->peer == 0) {
        assert_ok(gy_rpc_dial(own->rpc, at->daemons[daemon].address, &own->peer));
    }
    message.job = &key;
    message.epoch = own->epoch;
    KIT_CALL(at, own, GY_NET_ATTACH, &message.base, expected);
}

/* Manager 0 is this process, attached to daemon 0, which has lent it lease 1 of so many slots.
 */
static inline kit_manager *kit_attach_first(kit_scene *at, uint32_t slots)
{
    kit_manager *own = &at->managers[0];
    kit_lend(at, 0, 1, slots, 1);
    kit_manager_open(at, 0, at->job, 1);
    kit_attach(at, own, 0, GY_OK);
    return own;
}

static inline void kit_executor(kit_scene *at, kit_manager *own, uint64_t lease,
                                uint32_t generation, uint64_t credit, gy_status expected)
{
    Gy__Cluster__Open message = GY__CLUSTER__OPEN__INIT;
    Gy__Cluster__Key key = kit_key(own->job);
    message.job = &key;
    message.epoch = own->epoch;
    message.lease = lease;
    message.generation = generation;
    message.credit_bytes = credit;
    message.threads = 1;
    KIT_CALL(at, own, GY_NET_OPEN, &message.base, expected);
}

static inline void kit_close_executor(kit_scene *at, kit_manager *own, uint64_t lease,
                                      uint32_t generation)
{
    Gy__Cluster__Close message;
    Gy__Cluster__Key key = kit_key(own->job);
    gy__cluster__close__init(&message);
    message.job = &key;
    message.epoch = own->epoch;
    message.lease = lease;
    message.generation = generation;
    KIT_CALL(at, own, GY_NET_CLOSE, &message.base, GY_OK);
}

static inline void kit_say(kit_scene *at, kit_manager *own, uint64_t lease, uint32_t generation,
                           const gy_wire *what)
{
    gy_text text = {.data = NULL};
    Gy__Cluster__Relay message = GY__CLUSTER__RELAY__INIT;
    Gy__Cluster__Key key = kit_key(own->job);
    gy_wire_add(&text, what);
    message.job = &key;
    message.epoch = own->epoch;
    message.lease = lease;
    message.generation = generation;
    message.data = (ProtobufCBinaryData){.len = text.size_bytes, .data = (uint8_t *)text.data};
    KIT_CALL(at, own, GY_NET_RELAY, &message.base, GY_OK);
    gy_text_free(&text);
}

/* Check the kind of the next message of lease 1; its body. */
static inline void kit_hear(kit_scene *at, kit_manager *own, gy_wire_kind kind, char body[256])
{
    gy_wire message;
    size_t used = 0;
    do {
        gy_status status = GY_AGAIN;
        KIT_UNTIL(at,
                  (status = gy_wire_next(own->in, own->in_bytes, &message, &used)) != GY_AGAIN);
        assert_ok(status);
        snprintf(body, 256, "%.*s", (int)message.body_bytes,
                 message.body_bytes > 0 ? (const char *)message.body : "");
        memmove(own->in, own->in + used, own->in_bytes - used);
        own->in_bytes -= used;
    } while (message.kind == GY_WIRE_ALIVE);
    assert_int_equal(message.kind, kind);
}

/* Start a process that serves in an executor. */
static inline void kit_serve_executor(kit_scene *at, kit_manager *own, uint64_t lease,
                                      uint32_t generation)
{
    char body[256];
    kit_executor(at, own, lease, generation, 1 << 20, GY_OK);
    kit_say(at, own, lease, generation, &(gy_wire){.kind = GY_WIRE_WELCOME});
    kit_hear(at, own, GY_WIRE_READY, body);
}

static inline void kit_task(kit_scene *at, kit_manager *own, uint64_t lease,
                            uint32_t generation, const char *word)
{
    kit_say(at, own, lease, generation,
            &(gy_wire){.kind = GY_WIRE_START,
                       .id = {.task = 3, .epoch = 1, .attempt = 1},
                       .body = word,
                       .body_bytes = strlen(word)});
}

/* The process id of an executor's process. */
static inline pid_t kit_process_of(kit_scene *at, kit_manager *own, uint64_t lease,
                                   uint32_t generation)
{
    char body[256];
    kit_task(at, own, lease, generation, "say");
    kit_hear(at, own, GY_WIRE_DONE, body);
    return (pid_t)strtol(strstr(body, " by ") + 4, NULL, 10);
}

#endif
