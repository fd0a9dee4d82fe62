/*
 * Goal: whoever comes to a node's door without its key, or with it and speaks wrongly, is sent
 * away with one line in the log, costs little, and does no harm to those who are served.
 */
#include "rpc/carrier.h"
#include "rpc/rpc.h"
#include "transport/net.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "rpc_pair.h"

typedef struct scene {
    kit_pair pair;
    char other_ring[64], log[64];
    struct sockaddr_in at;
    int log_fd, kept_stderr;
    off_t log_at;
} scene;

static int64_t clock_ns;   /* added to the real one */
static int64_t stopped_ns; /* all that it says; 0: it goes */

static int64_t test_now(gy_env *env)
{
    (void)env;
    gy_env *real = gy_env_real();
    return stopped_ns > 0 ? stopped_ns : real->ops->now_ns(real) + clock_ns;
}

static gy_env test_env;
static gy_env_ops test_ops;

static gy_rpc *new_node(scene *at, kit_end *end, const char *name, gy_rpc_role role,
                        const char *ring)
{
    gy_rpc_options options = kit_options(end, name, role);
    options.key_file = ring;
    options.is_plaintext = ring == NULL;
    options.stranger_max = 8;
    options.dead_ns = 20000000000; /* the test's clock jumps */
    (void)at;
    assert_ok(gy_rpc_new(&test_env, &options, &end->rpc));
    return end->rpc;
}

static void turn_some(scene *at)
{
    for (int i = 0; i < 20; i++) {
        kit_pair_turn(&at->pair);
    }
}

static void open_scene(scene *at, bool is_plain)
{
    *at = (scene){0};
    clock_ns = 0;
    test_ops = *gy_env_real()->ops;
    test_ops.now_ns = test_now;
    test_env.ops = &test_ops;
    kit_pair_open(&at->pair, &test_env, is_plain);
    snprintf(at->other_ring, sizeof(at->other_ring), "%s/other", at->pair.folder);
    snprintf(at->log, sizeof(at->log), "%s/log", at->pair.folder);
    assert_ok(gy_keyring_make(at->other_ring));
    new_node(at, &at->pair.server, "name server", GY_RPC_NAMESERVER,
             is_plain ? NULL : at->pair.ring);
    assert_ok(gy_rpc_listen(at->pair.server.rpc, "127.0.0.1:0", at->pair.address));
    at->at = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtoul(strrchr(at->pair.address, ':') + 1, NULL, 10)),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
    };
    at->log_fd = open(at->log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    at->kept_stderr = dup(STDERR_FILENO);
    assert_true(at->log_fd >= 0 && dup2(at->log_fd, STDERR_FILENO) >= 0);
}

/* A good one is served, whatever came before. */
static void close_scene(scene *at, bool is_plain)
{
    kit_call call;
    if (at->pair.client.rpc == NULL) {
        new_node(at, &at->pair.client, "a daemon", GY_RPC_DAEMON,
                 is_plain ? NULL : at->pair.ring);
        assert_ok(gy_rpc_dial(at->pair.client.rpc, at->pair.address, &at->pair.peer));
    }
    assert_ok(kit_ask(at->pair.client.rpc, at->pair.peer, KIT_ECHO, 3, GY_NEVER, &call));
    KIT_TURN_UNTIL(&at->pair, call.ends == 1);
    assert_int_equal(call.number, 3);
    assert_true(dup2(at->kept_stderr, STDERR_FILENO) >= 0);
    close(at->kept_stderr);
    close(at->log_fd);
    unlink(at->other_ring);
    unlink(at->log);
    kit_pair_close(&at->pair);
}

static int call_in(const scene *at)
{
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(connect(made, (const struct sockaddr *)&at->at, sizeof(at->at)), 0);
    return made;
}

/* What was logged since it was last asked, and how many lines. */
static size_t logged(scene *at, char *out, size_t size)
{
    ssize_t got = pread(at->log_fd, out, size - 1, at->log_at);
    size_t lines = 0;
    assert_true(got >= 0);
    out[got] = '\0';
    at->log_at += got;
    for (ssize_t i = 0; i < got; i++) {
        lines += out[i] == '\n';
    }
    return lines;
}

/* One line, which says that the caller was sent away, and why. */
static void expect_line(scene *at, const char *why)
{
    char text[4096];
    size_t lines = logged(at, text, sizeof(text));
    if (lines != 1 || strstr(text, why) == NULL || strstr(text, "127.0.0.1:") == NULL ||
        strstr(text, "was sent away") == NULL) {
        fail_msg("%zu lines \"%s\", expected one with \"%s\"", lines, text, why);
    }
}

static bool is_closed(int socket)
{
    char byte[4096];
    ssize_t got = 1;
    while (got > 0) {
        got = recv(socket, byte, sizeof(byte), MSG_DONTWAIT);
    }
    return got == 0 || (errno != EAGAIN && errno != EINTR);
}

static void expect_sent_away(scene *at, const void *bytes, size_t size, const char *why)
{
    int socket = call_in(at);
    assert_int_equal(send(socket, bytes, size, MSG_NOSIGNAL), size);
    KIT_TURN_UNTIL(&at->pair, is_closed(socket));
    close(socket);
    expect_line(at, why);
    clock_ns += 2000000000; /* the log has room again */
}

/* ---- Without a key ---- */

GY_TEST(strangers_are_sent_away)
{
    scene at;
    static uint8_t noise[100000];
    static const char http[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    /* A hello of TLS 1.2. */
    static const uint8_t old[] = {0x16, 3, 1, 0, 47, 1, 0, 0,    43,   3, 3,    1, 2,
                                  3,    4, 5, 6, 7,  8, 9, 0,    1,    2, 3,    4, 5,
                                  6,    7, 8, 9, 0,  1, 2, 3,    4,    5, 6,    7, 8,
                                  9,    0, 1, 2, 0,  0, 4, 0xc0, 0x2f, 0, 0x9c, 1, 0};
    open_scene(&at, false);
    expect_sent_away(&at, http, sizeof(http) - 1, "does not use TLS");
    expect_sent_away(&at, old, sizeof(old), "does not support TLS 1.3");
    memset(noise, 0x41, sizeof(noise));
    expect_sent_away(&at, noise, sizeof(noise), "does not use TLS");
    uint64_t key = 7;
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)((key = key * 6364136223846793005u + 1442695040888963407u) >> 56);
    }
    expect_sent_away(&at, noise, 1000, "TLS");
    /* Half-open: it comes, says a byte, and no more. */
    int socket = call_in(&at);
    assert_int_equal(send(socket, "\x16", 1, MSG_NOSIGNAL), 1);
    turn_some(&at);
    assert_false(is_closed(socket));
    clock_ns += 3000000000;
    turn_some(&at);
    assert_false(is_closed(socket));
    clock_ns += 2100000000;
    KIT_TURN_UNTIL(&at.pair, is_closed(socket));
    close(socket);
    expect_line(&at, "did not prove itself within 5 s");
    close_scene(&at, false);
}

/* Asks until the other end has said why it does not serve, which goes to `text`, and a bit
 * longer. */
static void be_refused(scene *at, kit_call *call, char *text, size_t size)
{
    (void)logged(at, text, size);
    assert_ok(kit_ask(at->pair.client.rpc, at->pair.peer, KIT_ECHO, 3,
                      gy_env_deadline(&test_env, 3), call));
    KIT_TURN_UNTIL(&at->pair, logged(at, text, size) >= 1);
    turn_some(at);
    clock_ns += 3000000000;
    KIT_TURN_UNTIL(&at->pair, call->ends == 1);
    assert_int_equal(call->status, GY_PEER);
}

GY_TEST(another_key_is_no_key)
{
    scene at;
    kit_call call;
    char text[2048];
    open_scene(&at, false);
    new_node(&at, &at.pair.client, "a liar", GY_RPC_DAEMON, at.other_ring);
    assert_ok(gy_rpc_dial(at.pair.client.rpc, at.pair.address, &at.pair.peer));
    be_refused(&at, &call, text, sizeof(text));
    assert_non_null(strstr(call.text, "refused this end's cluster key"));
    assert_non_null(strstr(text, "the caller has another cluster key: \"gyre rpc daemon 1"));
    assert_non_null(strstr(text, "here is \"epoch 1\""));
    gy_rpc_free(at.pair.client.rpc);
    at.pair.client = (kit_end){0};
    /* Plain text where TLS is wanted. */
    new_node(&at, &at.pair.client, "a plain one", GY_RPC_DAEMON, NULL);
    assert_ok(gy_rpc_dial(at.pair.client.rpc, at.pair.address, &at.pair.peer));
    be_refused(&at, &call, text, sizeof(text));
    gy_rpc_free(at.pair.client.rpc);
    at.pair.client = (kit_end){0};
    assert_int_equal(at.pair.server.ups, 0);
    close_scene(&at, false);
}

/* A user's key does not make a daemon. */
GY_TEST(a_key_proves_one_role)
{
    scene at;
    char ring[64];
    kit_end end = {0};
    open_scene(&at, false);
    snprintf(ring, sizeof(ring), "%s/user", at.pair.folder);
    assert_ok(gy_keyring_derive(at.pair.ring, "submitter", ring));
    gy_rpc_options options = kit_options(&end, "a user", GY_RPC_DAEMON);
    options.key_file = ring;
    assert_status(gy_rpc_new(&test_env, &options, &end.rpc), GY_STATE);
    new_node(&at, &at.pair.client, "a user", GY_RPC_SUBMITTER, ring);
    assert_ok(gy_rpc_dial(at.pair.client.rpc, at.pair.address, &at.pair.peer));
    KIT_TURN_UNTIL(&at.pair, at.pair.client.ups == 1);
    gy_rpc_facts facts;
    assert_true(gy_rpc_look(at.pair.server.rpc, at.pair.server.peer, &facts));
    assert_int_equal(facts.role, GY_RPC_SUBMITTER);
    unlink(ring);
    close_scene(&at, false);
}

/* ---- With the key of one subject ---- */

static void restart_server(scene *at, gy_rpc_role role, const char *ring)
{
    gy_rpc_free(at->pair.server.rpc);
    at->pair.server = (kit_end){0};
    new_node(at, &at->pair.server, "a server", role, ring);
    assert_ok(gy_rpc_listen(at->pair.server.rpc, "127.0.0.1:0", at->pair.address));
}

static void start_client(scene *at, gy_rpc_role role, const char *ring)
{
    gy_rpc_free(at->pair.client.rpc);
    at->pair.client = (kit_end){0};
    new_node(at, &at->pair.client, "one who asks", role, ring);
    assert_ok(gy_rpc_dial(at->pair.client.rpc, at->pair.address, &at->pair.peer));
}

static void expect_served(scene *at, const char *subject)
{
    kit_call call;
    gy_rpc_facts facts;
    assert_ok(kit_ask(at->pair.client.rpc, at->pair.peer, KIT_GUARDED, 3, GY_NEVER, &call));
    KIT_TURN_UNTIL(&at->pair, call.ends == 1);
    assert_int_equal(call.status, GY_OK);
    assert_string_equal(at->pair.server.subject, subject);
    assert_true(gy_rpc_look(at->pair.server.rpc, at->pair.server.peer, &facts));
    assert_int_equal(facts.role, GY_RPC_MANAGER);
    assert_string_equal(facts.subject, subject);
}

static void expect_refused(scene *at, const char *said)
{
    kit_call call;
    char text[4096];
    be_refused(at, &call, text, sizeof(text));
    if (strstr(text, said) == NULL) {
        fail_msg("\"%s\", expected \"%s\"", text, said);
    }
    clock_ns += 2000000000;
}

/* A manager holds what proves whose it is, to those who have more, and to nobody else. */
GY_TEST(a_key_proves_one_subject)
{
    scene at;
    char job[64], daemon[64];
    open_scene(&at, false);
    snprintf(job, sizeof(job), "%s/job", at.pair.folder);
    snprintf(daemon, sizeof(daemon), "%s/daemon", at.pair.folder);
    assert_ok(gy_keyring_derive(at.pair.ring, "daemon,manager", daemon));
    assert_ok(gy_keyring_scope(daemon, GY_RPC_MANAGER, "job-1", job));
    start_client(&at, GY_RPC_MANAGER, job); /* the name server has the secret */
    expect_served(&at, "job-1");
    restart_server(&at, GY_RPC_DAEMON, daemon);
    start_client(&at, GY_RPC_MANAGER, job);
    expect_served(&at, "job-1");
    start_client(&at, GY_RPC_MANAGER, daemon);
    expect_served(&at, "");
    /* It says at once that it cannot be another. */
    gy_rpc_options options = kit_options(&at.pair.client, "a liar", GY_RPC_MANAGER);
    gy_rpc *liar = NULL;
    options.key_file = job;
    options.subject = "job-2";
    assert_status(gy_rpc_new(&test_env, &options, &liar), GY_STATE);
    assert_non_null(strstr(gy_error_text(), "no key of a manager for job-2"));
    options.subject = "job 2";
    options.key_file = daemon;
    assert_true(gy_rpc_new(&test_env, &options, &liar) < 0);
    /* One that has another role's keys alone cannot verify it, and says which it has. */
    unlink(daemon);
    assert_ok(gy_keyring_derive(at.pair.ring, "daemon", daemon));
    restart_server(&at, GY_RPC_DAEMON, daemon);
    start_client(&at, GY_RPC_MANAGER, job);
    expect_refused(&at, "here is \"epoch 1 of daemon alone\"");
    /* Nor can another manager. */
    unlink(daemon);
    assert_ok(gy_keyring_scope(at.pair.ring, GY_RPC_MANAGER, "job-2", daemon));
    restart_server(&at, GY_RPC_MANAGER, daemon);
    start_client(&at, GY_RPC_MANAGER, job);
    expect_refused(&at, "the caller has another cluster key: \"gyre rpc manager/job-1 1 ");
    restart_server(&at, GY_RPC_NAMESERVER, at.pair.ring);
    gy_rpc_free(at.pair.client.rpc);
    at.pair.client = (kit_end){0};
    unlink(job);
    unlink(daemon);
    close_scene(&at, false);
}

static const char *named; /* what it says that it has */

static gy_status offer_lie(void *arg, char name[GY_KEY_NAME_BYTES], gy_transport_key *key)
{
    const gy_keyring *job = arg;
    gy_keyring_who who = {.role = GY_RPC_MANAGER};
    GY_TRY(gy_keyring_offer(job, &who, 0, name, key->bytes));
    snprintf(name, GY_KEY_NAME_BYTES, "%s", named);
    return GY_OK;
}

static bool find_nothing(void *arg, const char *name, gy_transport_key *key)
{
    (void)arg;
    (void)name;
    (void)key;
    return false;
}

/* Who calls by the name of another subject's key, or of another role's, does not have it. */
GY_TEST(a_subject_cannot_be_claimed)
{
    scene at;
    char job[64], names[3][GY_KEYRING_NAME_BYTES];
    uint8_t key[GY_KEYRING_KEY_BYTES];
    static const gy_keyring_who others[] = {
        {GY_RPC_MANAGER, "job-2"}, {GY_RPC_MANAGER, ""}, {GY_RPC_SUBMITTER, "job-1"}};
    gy_keyring *all = NULL, *one = NULL;
    open_scene(&at, false);
    snprintf(job, sizeof(job), "%s/job", at.pair.folder);
    assert_ok(gy_keyring_scope(at.pair.ring, GY_RPC_MANAGER, "job-1", job));
    assert_ok(gy_keyring_open(at.pair.ring, &all));
    assert_ok(gy_keyring_open(job, &one));
    for (size_t i = 0; i < GY_COUNT(others); i++) {
        gy_keyring_who who = others[i];
        gy_address to;
        gy_tcp_wire *wire = NULL;
        gy_tls *tls = NULL;
        gy_status status = GY_AGAIN;
        char byte;
        struct iovec piece = {.iov_base = &byte, .iov_len = 1};
        size_t got = 0;
        assert_ok(gy_keyring_offer(all, &who, 0, names[i], key));
        named = names[i];
        const gy_tls_source source = {
            .arg = one, .offer = offer_lie, .find = find_nothing, .here = "a lie"};
        assert_ok(gy_tls_new_from(&source, &tls));
        assert_ok(gy_address_find(at.pair.address, &to));
        assert_ok(gy_tcp_wire_call(&to, tls, &wire));
        KIT_TURN_UNTIL(&at.pair, (status = gy_tcp_wire_open(wire)) != GY_AGAIN);
        if (status == GY_OK) {
            KIT_TURN_UNTIL(&at.pair,
                           (status = gy_tcp_wire_read(wire, &piece, 1, &got)) != GY_AGAIN);
        }
        assert_true(status < 0);
        gy_tcp_wire_close(wire);
        gy_tls_free(tls);
        expect_line(&at, "the caller does not have the cluster key");
        clock_ns += 2000000000;
    }
    assert_int_equal(at.pair.server.ups, 0);
    gy_keyring_free(all);
    gy_keyring_free(one);
    unlink(job);
    close_scene(&at, false);
}

/* A retired epoch takes what was derived from it along; the job's file is made anew in time. */
GY_TEST(a_retired_epoch_ends_its_subjects)
{
    scene at;
    char job[64];
    uint64_t epoch = 0;
    open_scene(&at, false);
    snprintf(job, sizeof(job), "%s/job", at.pair.folder);
    assert_ok(gy_keyring_scope(at.pair.ring, GY_RPC_MANAGER, "job-1", job));
    start_client(&at, GY_RPC_MANAGER, job);
    expect_served(&at, "job-1");
    assert_ok(gy_keyring_rotate(at.pair.ring, &epoch));
    clock_ns += 2100000000;
    turn_some(&at);
    expect_served(&at, "job-1");
    assert_int_equal(at.pair.server.downs, 0);
    assert_ok(gy_keyring_retire(at.pair.ring, 1));
    clock_ns += 2100000000;
    KIT_TURN_UNTIL(&at.pair, at.pair.server.downs == 1);
    assert_non_null(strstr(at.pair.server.why, "was retired"));
    expect_refused(&at, "the caller has another cluster key: \"gyre rpc manager/job-1 1 ");
    assert_ok(gy_keyring_scope(at.pair.ring, GY_RPC_MANAGER, "job-1", job));
    clock_ns += 6000000000; /* it dials again */
    expect_served(&at, "job-1");
    gy_rpc_free(at.pair.client.rpc);
    at.pair.client = (kit_end){0};
    unlink(job);
    close_scene(&at, false);
}

static void copy_ring(const char *from, const char *to)
{
    char text[4096];
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, text, sizeof(text));
    close(fd);
    unlink(to);
    fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(size > 0 && write(fd, text, (size_t)size) == size);
    close(fd);
}

/* A ring reaches one host after the other: who has the new epoch first calls on by the old one.
 */
GY_TEST(a_rotation_cuts_nobody_off)
{
    scene at;
    char mine[64];
    uint64_t epoch = 0;
    open_scene(&at, false);
    snprintf(mine, sizeof(mine), "%s/mine", at.pair.folder);
    copy_ring(at.pair.ring, mine);
    assert_ok(gy_keyring_rotate(mine, &epoch));
    assert_ok(gy_keyring_rotate(mine, &epoch));
    start_client(&at, GY_RPC_MANAGER, mine);
    KIT_TURN_UNTIL(&at.pair, (clock_ns += 10000000, at.pair.client.ups == 1));
    expect_served(&at, "");
    /* It has them all, then the newest alone. */
    copy_ring(mine, at.pair.ring);
    clock_ns += 2100000000;
    turn_some(&at);
    assert_int_equal(at.pair.server.downs, 0);
    assert_ok(gy_keyring_retire(at.pair.ring, 1));
    assert_ok(gy_keyring_retire(at.pair.ring, 2));
    clock_ns += 2100000000;
    KIT_TURN_UNTIL(&at.pair, (clock_ns += 10000000, at.pair.client.ups == 2));
    expect_served(&at, "");
    unlink(mine);
    close_scene(&at, false);
}

/* ---- With a key, or where none is needed: wrong frames ---- */

static size_t frame(uint8_t *out, uint64_t tag, uint64_t sequence, const ProtobufCMessage *body)
{
    size_t size = protobuf_c_message_pack(body, out + GY_FRAME_BYTES);
    gy_transport_frame_write(
        &(gy_transport_frame){
            .type = GY_FRAME_MESSAGE, .size_bytes = size, .tag = tag, .sequence = sequence},
        out);
    return GY_FRAME_BYTES + size;
}

enum { HELLO = 1, BEAT = 2, CALL = 5, ANSWER = 6, TELL = 7 };

static size_t hello_for(uint8_t *out, uint64_t connection, const char *subject)
{
    Gy__Rpc__Hello first;
    static uint8_t id[16] = {1, 2, 3};
    gy__rpc__hello__init(&first);
    first.version = 1;
    first.from = (ProtobufCBinaryData){.len = sizeof(id), .data = id};
    first.connection = connection;
    first.role = GY_RPC_DAEMON;
    first.name = (char *)(uintptr_t) "a frame";
    first.subject = (char *)(uintptr_t)subject;
    return frame(out, HELLO, 0, &first.base);
}

static size_t hello(uint8_t *out, uint64_t connection)
{
    return hello_for(out, connection, "");
}

/* Who says another one's id for another job gets nothing of that one's session. */
GY_TEST(subjects_are_peers_of_their_own)
{
    static const char *const wrong[] = {
        "job 1", "a\n", "\303\244",
        "12345678901234567890123456789012345678901234567890123456789012345"};
    scene at;
    uint8_t bytes[4096];
    gy_rpc_facts facts;
    open_scene(&at, true);
    int one = call_in(&at), two = -1;
    size_t size = hello_for(bytes, 7, "job-1");
    assert_int_equal(send(one, bytes, size, MSG_NOSIGNAL), size);
    KIT_TURN_UNTIL(&at.pair, at.pair.server.ups == 1);
    gy_rpc_peer first = at.pair.server.peer;
    two = call_in(&at);
    size = hello_for(bytes, 3, "job-2");
    assert_int_equal(send(two, bytes, size, MSG_NOSIGNAL), size);
    KIT_TURN_UNTIL(&at.pair, at.pair.server.ups == 2 || is_closed(two));
    assert_int_equal(at.pair.server.ups, 2);
    assert_int_not_equal(at.pair.server.peer, first);
    assert_true(gy_rpc_look(at.pair.server.rpc, first, &facts) && facts.is_up);
    assert_string_equal(facts.subject, "job-1");
    assert_true(gy_rpc_look(at.pair.server.rpc, at.pair.server.peer, &facts) && facts.is_up);
    assert_string_equal(facts.subject, "job-2");
    close(one);
    close(two);
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        size = hello_for(bytes, 1, wrong[i]);
        expect_sent_away(&at, bytes, size, "names no subject");
    }
    close_scene(&at, true);
}

GY_TEST(wrong_frames_end_the_connection)
{
    scene at;
    uint8_t bytes[4096];
    Gy__Rpc__Envelope what;
    gy__rpc__envelope__init(&what);
    what.number = 1;
    open_scene(&at, true);
    static const struct {
        size_t at, size_bytes;
        uint64_t value;
        const char *why;
    } wrong[] = {
        {0, 4, 0x20544547, "no frame"},
        {4, 4, 99, "of type 99"},
        {8, 8, (uint64_t)1 << 63, "9223372036854775808 bytes"},
        {8, 8, (uint64_t)1 << 39, "with 549755813888 bytes: expected 1 to"},
        {8, 8, 0, "with 0 bytes"},
        {16, 8, 999 << 8 | CALL, "type 999 and kind 5, which is none here"},
        {16, 8, 77, "kind 77, which is none here"},
        {16, 8, KIT_ECHO << 8 | TELL, "which is none here"},
        {16, 8, HELLO, "which is none here"},
        {24, 8, 0, "frame number 0: expected 1"},
        {24, 8, 2, "frame number 2: expected 1"},
    };
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        size_t first = hello(bytes, i + 1);
        size_t second = frame(bytes + first, KIT_ECHO << 8 | CALL, 1, &what.base);
        for (size_t j = 0; j < wrong[i].size_bytes; j++) {
            bytes[first + wrong[i].at + j] = (uint8_t)(wrong[i].value >> (8 * j));
        }
        expect_sent_away(&at, bytes, first + second, wrong[i].why);
    }
    size_t size = frame(bytes, KIT_ECHO << 8 | CALL, 0, &what.base);
    expect_sent_away(&at, bytes, size, "which is none here"); /* before the first words */
    size = hello(bytes, 50);
    what.number = 9;
    size += frame(bytes + size, KIT_ECHO << 8 | ANSWER, 1, &what.base);
    expect_sent_away(&at, bytes, size, "an answer to call 9, which was never made");
    size = hello(bytes, 51);
    size += frame(bytes + size, KIT_ECHO << 8 | CALL, 1, &what.base);
    memset(bytes + size - 2, 0xff, 2); /* no message */
    expect_sent_away(&at, bytes, size, "are no message");
    size = hello(bytes, 20);
    expect_sent_away(&at, bytes, size, "a newer connection of a frame at");
    assert_int_equal(at.pair.server.echoed, 0);
    close_scene(&at, true);
}

/* ---- Many ---- */

GY_TEST(a_flood_does_not_fill_the_log)
{
    scene at;
    char text[65536];
    open_scene(&at, false);
    for (int i = 0; i < 200; i++) {
        int socket = call_in(&at);
        assert_int_equal(send(socket, "GET /", 5, MSG_NOSIGNAL), 5);
        KIT_TURN_UNTIL(&at.pair, is_closed(socket));
        close(socket);
    }
    size_t lines = logged(&at, text, sizeof(text));
    assert_in_range(lines, 10, 30);
    clock_ns += 2000000000;
    int socket = call_in(&at);
    assert_int_equal(send(socket, "GET /", 5, MSG_NOSIGNAL), 5);
    KIT_TURN_UNTIL(&at.pair, is_closed(socket));
    close(socket);
    assert_int_equal(logged(&at, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "others, unsaid)"));
    close_scene(&at, false);
}

static size_t resident_bytes(void)
{
    char text[256];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    assert_true(got > 0);
    text[got] = '\0';
    return strtoul(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void need_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < count) {
        limit.rlim_cur = count;
        limit.rlim_max = GY_MAX(limit.rlim_max, count);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* Few prove themselves at a time; the others wait where they cost the node nothing. */
GY_TEST(strangers_wait_outside)
{
    scene at;
    enum { CALLERS = 200 };
    int sockets[CALLERS];
    need_descriptors(1024);
    open_scene(&at, false);
    int descriptors = open_descriptors();
    for (int i = 0; i < CALLERS; i++) {
        sockets[i] = call_in(&at);
    }
    turn_some(&at);
    assert_int_equal(open_descriptors(), descriptors + CALLERS + 8);
    int64_t before = gy_alloc_live();
    turn_some(&at);
    assert_int_equal(gy_alloc_live(), before); /* 8 of them, and no more */
    int idle = 0;
    for (int i = 0; i < 5; i++) {
        idle += gy_rpc_turn(at.pair.server.rpc, (gy_deadline){0}) == GY_AGAIN;
    }
    assert_true(idle > 0); /* nor do they keep it busy */
    for (int i = 0; i < CALLERS; i++) {
        assert_false(is_closed(sockets[i]));
    }
    /* Each eight have half a second, no more: then one with a key, behind them all, is served.
     */
    new_node(&at, &at.pair.client, "a daemon", GY_RPC_DAEMON, at.pair.ring);
    assert_ok(gy_rpc_dial(at.pair.client.rpc, at.pair.address, &at.pair.peer));
    for (int i = 0; i < CALLERS / 8; i++) {
        for (int k = 0; k < 4; k++) {
            kit_pair_turn(&at.pair);
        }
        clock_ns += 510000000;
    }
    KIT_TURN_UNTIL(&at.pair, at.pair.server.ups == 1);
    int closed = 0;
    for (int i = 0; i < CALLERS; i++) {
        closed += is_closed(sockets[i]);
        close(sockets[i]);
    }
    assert_true(closed >= CALLERS - 8);
    turn_some(&at);
    close_scene(&at, false);
}

/* No descriptor is left for who calls: it is tried now and then, not all the time. */
GY_TEST(who_cannot_be_let_in_waits)
{
    scene at;
    struct rlimit limit, none;
    static const char wrong[GY_FRAME_BYTES] = "GET / HTTP/1.1";
    char text[4096];
    open_scene(&at, true);
    int socket = call_in(&at), next = dup(socket);
    assert_true(next >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    close(next);
    none = (struct rlimit){(rlim_t)next, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    gy_rpc *node = at.pair.server.rpc;
    stopped_ns = test_now(&test_env);
    for (int round = 0; round < 3; round++) {
        int busy = 0;
        for (int i = 0; i < 50; i++) {
            busy += gy_rpc_turn(node, (gy_deadline){0}) == GY_OK;
        }
        assert_in_range(busy, 1, 3);
        assert_int_equal(logged(&at, text, sizeof(text)), 1);
        assert_non_null(strstr(text, "a caller was not let in"));
        stopped_ns += 100000000;
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    clock_ns += 400000000;
    stopped_ns = 0;
    turn_some(&at);
    assert_int_equal(send(socket, wrong, sizeof(wrong), MSG_NOSIGNAL), sizeof(wrong));
    KIT_TURN_UNTIL(&at.pair, is_closed(socket));
    close(socket);
    expect_line(&at, "no frame");
    close_scene(&at, true);
}

/* A thousand that proved themselves and say nothing. */
GY_TEST(the_idle_cost_little)
{
    scene at;
#if defined(GYRE_ASAN) || defined(GYRE_TSAN)
    enum { PEERS = 20 };
#else
    enum { PEERS = 1000 };
#endif
    gy_rpc_peer peer;
    need_descriptors(2 * PEERS + 100);
    open_scene(&at, false);
    new_node(&at, &at.pair.client, "many", GY_RPC_DAEMON, at.pair.ring);
    assert_ok(gy_rpc_dial(at.pair.client.rpc, at.pair.address, &at.pair.peer));
    KIT_TURN_UNTIL(&at.pair, at.pair.server.ups == 1);
    size_t before = resident_bytes();
    for (int i = 0; i < PEERS; i++) {
        assert_ok(gy_rpc_dial(at.pair.client.rpc, at.pair.address, &peer));
        if (i % 20 == 19) { /* who does not prove itself soon is sent away */
            KIT_TURN_UNTIL(&at.pair, at.pair.client.ups == i + 2);
        }
    }
    size_t each = (resident_bytes() - before) / PEERS / 2; /* both ends are here */
    printf("%zu bytes a connection that is idle\n", each);
#if !defined(GYRE_ASAN) && !defined(GYRE_TSAN)
    assert_true(each <= 64 * 1024);
#endif
    close_scene(&at, false);
}

GY_TEST_MAIN(NULL, NULL)
