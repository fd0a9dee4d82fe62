/*
 * Goal: only who proves the key gets in, and both ends are told why not; whatever else comes to
 * the door costs little and is sent away. The key file is made and read with care.
 */
#include "transport/net.h"

#include "transport/tcp/bytes_priv.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gy_test.h"

static const gy_transport_key one_key = {.bytes = {1}}, other_key = {.bytes = {2}};

/* ---- Frames ---- */

GY_TEST(each_field_of_a_frame_is_checked)
{
    static const struct {
        size_t at, size_bytes;
        uint64_t value;
        const char *said;
    } wrong[] = {
        {0, 4, 0x20544547, "no frame"},
        {4, 4, 0, "type 0"},
        {4, 4, GY_FRAME_TYPES, "of type"},
        {8, 8, 1001, "1001 bytes: at most 1000"},
        {8, 8, (uint64_t)1 << 63, "9223372036854775808 bytes"},
        {24, 8, 6, "number 6: expected 7"},
        {4, 4, GY_FRAME_LEAVE, "with tag 5"},
    };
    uint8_t bytes[GY_FRAME_BYTES];
    gy_transport_frame sent = {.type = GY_FRAME_MESSAGE,
                               .size_bytes = 1000,
                               .tag = 5,
                               .sequence = 7},
                       got;
    gy_transport_frame_write(&sent, bytes);
    assert_ok(gy_transport_frame_read(bytes, 7, 1000, &got));
    assert_true(got.type == sent.type && got.size_bytes == sent.size_bytes &&
                got.tag == sent.tag && got.sequence == sent.sequence);
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        gy_transport_frame_write(&sent, bytes);
        gy_mapreduce_put_number(bytes + wrong[i].at, wrong[i].value, wrong[i].size_bytes);
        assert_status(gy_transport_frame_read(bytes, 7, 1000, &got), GY_FORMAT);
        assert_non_null(strstr(gy_error_text(), wrong[i].said));
    }
}

/* ---- The key file ---- */

static void write_file(const char *path, const void *text, size_t size)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

GY_TEST(key_files_are_made_and_read_with_care)
{
    char folder[] = "/tmp/gyre-key-XXXXXX", path[64];
    uint8_t run[GY_RUN_ID_BYTES] = {5};
    gy_keys node, rank, later;
    struct stat facts;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a/key", folder);
    assert_status(gy_keys_read(path, GY_ROLE_NODE, NULL, &node), GY_NOTFOUND);
    assert_ok(gy_transport_key_make(path));
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_status(gy_transport_key_make(path), GY_EXISTS);
    assert_ok(gy_keys_read(path, GY_ROLE_NODE, NULL, &node));
    assert_ok(gy_keys_read(path, GY_ROLE_RANK, NULL, &rank));
    assert_ok(gy_keys_read(path, GY_ROLE_RANK, run, &later));
    assert_true(node.count == 1 && node.items[0].epoch == 1 && rank.count == 1);
    assert_memory_not_equal(&node.items[0].key, &rank.items[0].key, GY_KEY_BYTES);
    assert_memory_not_equal(&rank.items[0].key, &later.items[0].key, GY_KEY_BYTES);
    assert_int_equal(chmod(path, 0640), 0);
    assert_status(gy_keys_read(path, GY_ROLE_NODE, NULL, &node), GY_STATE);
    assert_int_equal(node.count, 0);
    assert_non_null(strstr(gy_error_text(), "mode 0640"));
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 31), 0);
    assert_status(gy_keys_read(path, GY_ROLE_NODE, NULL, &node), GY_FORMAT);
    unlink(path);
    snprintf(path, sizeof(path), "%s/a", folder);
    rmdir(path);
    rmdir(folder);
}

#define SECRET "abababababababababababababababababababababababababababababababab"
#define OTHER  "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"

/* One file for runs and for rpc; what `gyre key` wrote before there were epochs stays good. */
GY_TEST(key_files_have_epochs)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"3 daemon " SECRET "\n", "only keys of roles"},
        {"1 " SECRET "\n1 " OTHER "\n", "epoch 1 has two secrets"},
        {SECRET "\n1 " OTHER "\n", "epoch 1 has two secrets"},
        {"1 " SECRET "\n2 abab\n", ":2: a key of 2 bytes: expected at least 32"},
        {"# all\n1 " SECRET "x\n", ":2: the last word is not a key"},
        {"1 a b " SECRET "\n", "4 words"},
        {"99999999999999 " SECRET "\n", "no epoch"},
        {"1 \001" SECRET "\n", "expected text"},
    };
    char path[] = "/tmp/gyre-secret-XXXXXX", many[4096] = "";
    gy_keys keys, bare;
    close(mkstemp(path));
    write_file(path, SECRET "\n", strlen(SECRET) + 1);
    assert_ok(gy_keys_read(path, GY_ROLE_NODE, NULL, &bare));
    assert_true(bare.count == 1 && bare.items[0].epoch == 1);
    static const char ring[] =
        "# a comment\n\n1 " SECRET "\n4 daemon " OTHER "\n  3 " OTHER "\n2 " OTHER SECRET "\n";
    write_file(path, ring, strlen(ring));
    assert_ok(gy_keys_read(path, GY_ROLE_NODE, NULL, &keys));
    assert_int_equal(keys.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(keys.items[i].epoch, 3 - i);
        assert_ptr_equal(gy_keys_find(&keys, 3 - (uint64_t)i), &keys.items[i].key);
    }
    assert_null(gy_keys_find(&keys, 4));
    assert_memory_equal(gy_keys_find(&keys, 1), &bare.items[0].key, GY_KEY_BYTES);
    assert_memory_not_equal(gy_keys_find(&keys, 2), gy_keys_find(&keys, 3), GY_KEY_BYTES);
    for (size_t i = 0; i < GY_COUNT(wrong); i++) {
        write_file(path, wrong[i].text, strlen(wrong[i].text));
        gy_status status = gy_keys_read(path, GY_ROLE_NODE, NULL, &keys);
        if (status >= 0 || strstr(gy_error_text(), wrong[i].said) == NULL ||
            strstr(gy_error_text(), "abab") != NULL) {
            fail_msg("file %zu: %d \"%s\", expected \"%s\"", i, status, gy_error_text(),
                     wrong[i].said);
        }
    }
    for (int epoch = 1; epoch <= GY_KEYS_MOST + 1; epoch++) {
        size_t at = strlen(many);
        snprintf(many + at, sizeof(many) - at, "%d " SECRET "\n", epoch);
    }
    write_file(path, many, strlen(many));
    assert_status(gy_keys_read(path, GY_ROLE_NODE, NULL, &keys), GY_LIMIT);
    unlink(path);
}

GY_TEST(keys_follow_their_definition)
{
    /* HKDF-SHA256 of 40 bytes "k", salt 0^16, info "gyre node", by an independent program. */
    static const uint8_t expected[GY_KEY_BYTES] = {
        0x1b, 0x5a, 0xa3, 0x4f, 0x1f, 0xab, 0x61, 0xa2, 0x9f, 0x5c, 0x37,
        0xc7, 0x7d, 0x3d, 0x8d, 0x96, 0x49, 0x22, 0x43, 0x74, 0xef, 0xbe,
        0x0c, 0x65, 0x33, 0xf4, 0x63, 0x8d, 0xa0, 0xa6, 0xbe, 0x2a};
    char path[] = "/tmp/gyre-secret-XXXXXX", secret[40];
    gy_keys keys;
    close(mkstemp(path));
    memset(secret, 'k', sizeof(secret));
    write_file(path, secret, sizeof(secret));
    assert_ok(gy_keys_read(path, GY_ROLE_NODE, NULL, &keys));
    unlink(path);
    assert_memory_equal(keys.items[0].key.bytes, expected, sizeof(expected));
}

/* ---- Two ends ---- */

static gy_status agree(void *arg, const gy_hello *theirs)
{
    const uint32_t *wanted = arg;
    return theirs->index == *wanted
               ? GY_OK
               : gy_fail(GY_STATE, "end %u is not expected here", theirs->index);
}

typedef struct ends {
    gy_status status[2]; /* of the caller, of the called one */
    gy_error error[2];
} ends;

/* Both ends greet over a pair of sockets until both have an answer. */
static ends greet(const gy_transport_key *caller_key, const gy_transport_key *called_key,
                  uint32_t expected)
{
    int sockets[2];
    const gy_transport_key *keys[2] = {caller_key, called_key};
    gy_tls *tls[2] = {NULL, NULL};
    gy_greeting *greetings[2];
    ends result = {.status = {GY_AGAIN, GY_AGAIN}};
    uint32_t wanted[2] = {1, expected};
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    for (int end = 0; end < 2; end++) {
        gy_tcp_wire *wire = NULL;
        if (keys[end] != NULL) {
            assert_ok(gy_tls_new(keys[end], GY_ROLE_NODE, &tls[end]));
        }
        assert_ok(gy_tcp_wire_new(sockets[end], tls[end], end == 0, &wire));
        assert_ok(gy_greeting_new(wire, end == 0, &(gy_hello){.index = (uint32_t)end},
                                  &greetings[end]));
    }
    for (int round = 0; round < 1000; round++) {
        int end = round % 2;
        gy_tcp_wire *wire = NULL;
        gy_hello theirs;
        if (result.status[end] != GY_AGAIN) {
            continue;
        }
        result.status[end] =
            gy_greeting_step(greetings[end], agree, &wanted[end], &wire, &theirs);
        if (result.status[end] != GY_AGAIN) {
            gy_error_take(&result.error[end], result.status[end]);
            gy_tcp_wire_close(wire);
            gy_greeting_free(greetings[end]);
        }
    }
    gy_tls_free(tls[0]);
    gy_tls_free(tls[1]);
    assert_true(result.status[0] != GY_AGAIN && result.status[1] != GY_AGAIN);
    return result;
}

/* Both ends of a connection within the host, whatever congestion control the system chooses. */
GY_TEST(loopback_is_not_paced)
{
    gy_address at;
    gy_tcp_wire *wires[2] = {NULL, NULL};
    int listener = -1;
    assert_ok(gy_address_find("127.0.0.1:1", &at));
    gy_address_set_port(&at, 0);
    assert_ok(gy_address_listen(&at, &listener));
    assert_ok(gy_tcp_wire_call(&at, NULL, &wires[0]));
    struct pollfd look = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&look, 1, 10000), 1);
    assert_ok(gy_tcp_wire_new(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), NULL,
                              false, &wires[1]));
    for (int end = 0; end < 2; end++) {
        char name[16] = "";
        socklen_t size = sizeof(name);
        assert_int_equal(getsockopt(gy_tcp_wire_socket(wires[end]), IPPROTO_TCP, TCP_CONGESTION,
                                    name, &size),
                         0);
        assert_string_equal(name, "reno");
        gy_tcp_wire_close(wires[end]);
    }
    close(listener);
}

static void assert_told(const ends *got, const char *caller, const char *called)
{
    if (got->status[0] >= 0 || strstr(got->error[0].text, caller) == NULL) {
        fail_msg("the caller heard \"%s\", expected \"%s\"", got->error[0].text, caller);
    }
    if (got->status[1] >= 0 || strstr(got->error[1].text, called) == NULL) {
        fail_msg("the called one heard \"%s\", expected \"%s\"", got->error[1].text, called);
    }
}

GY_TEST(both_ends_are_told)
{
    ends got = greet(NULL, NULL, 0);
    assert_true(got.status[0] == GY_OK && got.status[1] == GY_OK);
    got = greet(&one_key, &one_key, 0);
    assert_true(got.status[0] == GY_OK && got.status[1] == GY_OK);
    got = greet(&one_key, &other_key, 0);
    assert_told(&got, "refused this end's cluster key", "the caller has another cluster key");
    got = greet(&one_key, NULL, 0);
    assert_told(&got, "does not use TLS", "it has a cluster key, this process has none");
    got = greet(NULL, &one_key, 0);
    assert_told(&got, "refused: the caller does not use TLS", "the caller does not use TLS");
    got = greet(&one_key, &one_key, 7);
    assert_told(&got, "refused: end 0 is not expected here", "end 0 is not expected here");
    got = greet(NULL, NULL, 7);
    assert_told(&got, "refused: end 0 is not expected here", "end 0 is not expected here");
}

/* ---- Strangers at a door ---- */

static int64_t clock_ns = 1;

static int64_t test_now(gy_env *env)
{
    (void)env;
    return clock_ns;
}

typedef struct door_scene {
    gy_address at;
    gy_tls *tls;
    gy_tcp_acceptor *door;
    gy_env env;
    gy_env_ops ops;
    uint32_t wanted;
    int let_in;
} door_scene;

static void open_scene(door_scene *scene, const gy_transport_key *key)
{
    int listener = -1;
    *scene = (door_scene){.at = {.size_bytes = sizeof(scene->at.at.v4)}};
    scene->at.at.v4.sin_family = AF_INET;
    scene->at.at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_ok(gy_address_listen(&scene->at, &listener));
    if (key != NULL) {
        assert_ok(gy_tls_new(key, GY_ROLE_NODE, &scene->tls));
    }
    scene->ops = *gy_env_real()->ops;
    scene->ops.now_ns = test_now;
    scene->env.ops = &scene->ops;
    gy_tcp_acceptor_options options = {
        .listener = listener, .tls = scene->tls, .judge = agree, .arg = &scene->wanted};
    assert_ok(gy_tcp_acceptor_new(&options, &scene->env, &scene->door));
}

static void step_door(door_scene *scene)
{
    gy_tcp_wire *wire = NULL;
    gy_hello theirs;
    if (gy_tcp_acceptor_step(scene->door, &wire, &theirs) == GY_OK) {
        scene->let_in++;
        gy_tcp_wire_close(wire);
    }
}

static void close_scene(door_scene *scene)
{
    gy_tcp_acceptor_free(scene->door);
    gy_tls_free(scene->tls);
}

static int strangers(const door_scene *scene)
{
    int sockets[GY_STRANGERS + 1];
    bool wants_room[GY_STRANGERS + 1];
    int count = gy_tcp_acceptor_sockets(scene->door, sockets, wants_room);
    int is_listening = 0;
    socklen_t size = sizeof(is_listening);
    assert_int_equal(getsockopt(sockets[0], SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size),
                     0);
    return count - (is_listening != 0);
}

static int call(const door_scene *scene)
{
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(made >= 0);
    assert_int_equal(connect(made, &scene->at.at.any, scene->at.size_bytes), 0);
    return made;
}

/* Send `bytes`; the door must send the caller away, and soon. */
static void expect_sent_away(door_scene *scene, const void *bytes, size_t size)
{
    int socket = call(scene);
    assert_int_equal(send(socket, bytes, size, MSG_NOSIGNAL), size);
    struct pollfd look = {.fd = socket, .events = POLLIN};
    char answer[512];
    ssize_t got = 1;
    for (int round = 0; round < 5000 && got > 0; round++) {
        step_door(scene);
        if (poll(&look, 1, 1) == 1) {
            got = recv(socket, answer, sizeof(answer), MSG_DONTWAIT);
        }
    }
    assert_true(got <= 0);
    close(socket);
    assert_int_equal(strangers(scene), 0);
    assert_int_equal(scene->let_in, 0);
}

static void expect_good_caller(door_scene *scene, gy_tls *tls)
{
    gy_tcp_wire *wire = NULL;
    gy_greeting *greeting = NULL;
    gy_hello theirs;
    uint32_t wanted = 0;
    gy_status status = GY_AGAIN;
    assert_ok(gy_tcp_wire_call(&scene->at, tls, &wire));
    assert_ok(gy_greeting_new(wire, true, &(gy_hello){.index = scene->wanted}, &greeting));
    for (int round = 0; round < 100000 && status == GY_AGAIN; round++) {
        step_door(scene);
        status = gy_greeting_step(greeting, agree, &wanted, &wire, &theirs);
    }
    assert_ok(status);
    gy_tcp_wire_close(wire);
    gy_greeting_free(greeting);
    assert_int_equal(scene->let_in, 1);
    scene->let_in = 0;
}

GY_TEST(garbage_is_sent_away)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    uint8_t noise[300], huge[GY_FRAME_BYTES];
    gy_random random = {.key = gy_test_seed()};
    gy_transport_frame_write(&(gy_transport_frame){.type = GY_FRAME_HELLO, .size_bytes = 1},
                             huge);
    gy_mapreduce_put_number(huge + 8, (uint64_t)1 << 63, 8);
    for (int secret = 0; secret < 2; secret++) {
        door_scene scene;
        open_scene(&scene, secret == 1 ? &one_key : NULL);
        expect_sent_away(&scene, http, sizeof(http) - 1);
        expect_sent_away(&scene, huge, sizeof(huge));
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < sizeof(noise); i++) {
                noise[i] = (uint8_t)gy_random_below(&random, 256);
            }
            noise[0] |= 0x80; /* neither a record of TLS nor a frame */
            expect_sent_away(&scene, noise, sizeof(noise));
        }
        expect_good_caller(&scene, scene.tls);
        close_scene(&scene);
    }
}

GY_TEST(other_tls_is_sent_away)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION}; /* 1.3: without a key */
    for (size_t i = 0; i < GY_COUNT(versions); i++) {
        door_scene scene;
        open_scene(&scene, &one_key);
        SSL_CTX *context = SSL_CTX_new(TLS_client_method());
        assert_int_equal(SSL_CTX_set_min_proto_version(context, versions[i]), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(context, versions[i]), 1);
        SSL *ssl = SSL_new(context);
        BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
        SSL_set_bio(ssl, in, out);
        assert_int_equal(SSL_connect(ssl), -1);
        char *hello = NULL;
        long size = BIO_get_mem_data(out, &hello);
        expect_sent_away(&scene, hello, (size_t)size);
        SSL_free(ssl);
        SSL_CTX_free(context);
        expect_good_caller(&scene, scene.tls);
        close_scene(&scene);
    }
}

/* A hello of TLS that goes on for 128 KiB, as the library itself would take: after 64 it is
 * over.
 */
GY_TEST(endless_handshake_is_cut)
{
    enum { RECORD = 16384, PIECE = 2048 };
    static uint8_t flood[8 * (RECORD + 5)];
    door_scene scene;
    size_t sent = 0;
    for (size_t record = 0; record < sizeof(flood) / (RECORD + 5); record++) {
        memcpy(flood + record * (RECORD + 5), (uint8_t[]){22, 3, 1, RECORD >> 8, 0}, 5);
    }
    memcpy(flood + 5, (uint8_t[]){1, 1, 0xff, 0}, 4); /* a client hello and its length */
    open_scene(&scene, &one_key);
    int socket = call(&scene);
    step_door(&scene);
    while (strangers(&scene) > 0 && sent + PIECE < sizeof(flood)) {
        ssize_t put = send(socket, flood + sent, PIECE, MSG_NOSIGNAL);
        assert_int_equal(put, PIECE);
        sent += PIECE;
        step_door(&scene);
    }
    assert_int_equal(strangers(&scene), 0);
    assert_in_range(sent, GY_STRANGER_BYTES, GY_STRANGER_BYTES + 2 * PIECE);
    close(socket);
    expect_good_caller(&scene, scene.tls);
    close_scene(&scene);
}

/* Many callers who say nothing: a bounded number is let before the door, and not for long. */
GY_TEST(silent_callers_take_no_place_for_long)
{
    enum { SILENT = 200 };
    int sockets[SILENT];
    door_scene scene;
    open_scene(&scene, &one_key);
    for (int i = 0; i < SILENT; i++) {
        sockets[i] = call(&scene);
        step_door(&scene);
    }
    assert_int_equal(strangers(&scene), GY_STRANGERS);
    for (int round = 0; round < 5; round++) {
        clock_ns += (int64_t)(GY_STRANGER_SECONDS * 1e9) + 1;
        step_door(&scene);
        step_door(&scene);
    }
    assert_int_equal(strangers(&scene), 0);
    for (int i = 0; i < SILENT; i++) {
        close(sockets[i]);
    }
    expect_good_caller(&scene, scene.tls);
    close_scene(&scene);
}

GY_TEST_MAIN(NULL, NULL)
