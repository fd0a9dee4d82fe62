/**
 * What room rpc costs over loopback: a call with one outstanding and with 64, a bulk transfer;
 * plain, under TLS, and as bare reads and writes. The other end is a process of its own.
 *
 * Usage: bench_rpc RING_FILE. Prints CSV: what, how, value, unit. `bench_rpc` makes the ring
 * when it is not there.
 */
#include "rpc/bulk.h"
#include "rpc/keyring.h"
#include "rpc/proto/rpc.pb-c.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 20000, MESSAGE = 64, BULK_BYTES = 512 << 20 };

static gy_rpc *node;
static int region_file = -1;
static int left, ended;
static gy_rpc_peer peer;

static void stop(const char *what)
{
    fprintf(stderr, "bench_rpc: %s: %s\n", what, gy_error_text());
    exit(1);
}

static double seconds(void)
{
    return (double)gy_now_ns(gy_env_real()) / 1e9;
}

static gy_status serve(void *arg, const gy_rpc_asked *asked, const ProtobufCMessage *request)
{
    (void)arg;
    return gy_rpc_answer(node, asked, request);
}

static const gy_rpc_method methods[] = {
    {.type = 16,
     .name = "echo",
     .roles = GY_RPC_MAY(GY_RPC_MANAGER),
     .request = &gy__rpc__envelope__descriptor,
     .answer = &gy__rpc__envelope__descriptor,
     .request_bytes_max = 4096,
     .answer_bytes_max = 4096,
     .serve = serve},
};

static gy_status find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                      size_t name_bytes, gy_bulk_region *region)
{
    (void)arg;
    (void)role;
    (void)subject;
    (void)name;
    (void)name_bytes;
    *region = (gy_bulk_region){.fd = region_file, .size_bytes = BULK_BYTES};
    return GY_OK;
}

static const gy_bulk_server server = {.roles = GY_RPC_MAY(GY_RPC_MANAGER), .find = find};

static void open_node(const char *ring, gy_rpc_role role)
{
    const gy_rpc_options options = {.name = role == GY_RPC_MANAGER ? "caller" : "called",
                                    .role = role,
                                    .methods = methods,
                                    .method_count = 1,
                                    .key_file = ring,
                                    .is_plaintext = ring == NULL,
                                    .bulk = &server};
    if (gy_rpc_new(gy_env_real(), &options, &node) < 0) {
        stop("no node");
    }
}

/* The other end, until it is killed. */
static void serve_for_ever(const char *ring, int tell)
{
    char address[GY_RPC_ADDRESS_BYTES] = "";
    open_node(ring, GY_RPC_DAEMON);
    if (gy_rpc_listen(node, "127.0.0.1:0", address) < 0 ||
        write(tell, address, sizeof(address)) != (ssize_t)sizeof(address)) {
        stop("no address");
    }
    for (;;) {
        (void)gy_rpc_turn(node, gy_deadline_after(1));
    }
}

static void ask(void);

static void done(void *arg, gy_status status, const ProtobufCMessage *answer)
{
    (void)arg;
    (void)answer;
    if (status < 0) {
        stop("a call");
    }
    ended++;
    if (left > 0) {
        ask();
    }
}

static void ask(void)
{
    static uint8_t body[MESSAGE];
    Gy__Rpc__Envelope said;
    gy__rpc__envelope__init(&said);
    said.body = (ProtobufCBinaryData){.len = sizeof(body), .data = body};
    left--;
    if (gy_rpc_call(node, peer,
                    &(gy_rpc_request){
                        .type = 16, .message = &said.base, .deadline = GY_NEVER, .done = done},
                    NULL) != GY_OK) {
        stop("a call cannot be made");
    }
}

static double time_calls(int outstanding, int count)
{
    left = count;
    ended = 0;
    double begun = seconds();
    for (int i = 0; i < outstanding; i++) {
        ask();
    }
    while (ended < count) {
        (void)gy_rpc_turn(node, gy_deadline_after(1));
    }
    return (seconds() - begun) / count;
}

static gy_status swallow(void *arg, uint64_t offset, const void *data, size_t size_bytes)
{
    (void)arg;
    (void)offset;
    (void)data;
    (void)size_bytes;
    return GY_OK;
}

static void fetched(void *arg, gy_status status, uint64_t size_bytes)
{
    (void)arg;
    if (status < 0 || size_bytes != BULK_BYTES) {
        stop("a transfer");
    }
    ended = 1;
}

static double time_bulk(const char *address)
{
    uint64_t number = 0;
    const gy_bulk_fetch fetch = {.address = address,
                                 .size_bytes = UINT64_MAX,
                                 .deadline = gy_deadline_after(60),
                                 .take = swallow,
                                 .done = fetched,
                                 .is_raw = true};
    ended = 0;
    double begun = seconds();
    if (gy_rpc_bulk_begin(node, &fetch, &number) < 0) {
        stop("no transfer");
    }
    while (ended == 0) {
        (void)gy_rpc_turn(node, gy_deadline_after(1));
    }
    return BULK_BYTES / (seconds() - begun) / 1e9;
}

static void measure(const char *how, const char *ring)
{
    int pipes[2];
    char address[GY_RPC_ADDRESS_BYTES];
    if (pipe(pipes) != 0) {
        stop("no pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        serve_for_ever(ring, pipes[1]);
    }
    if (read(pipes[0], address, sizeof(address)) != (ssize_t)sizeof(address)) {
        stop("no address came");
    }
    open_node(ring, GY_RPC_MANAGER);
    if (gy_rpc_dial(node, address, &peer) < 0) {
        stop("no peer");
    }
    (void)time_calls(1, 1000);
    printf("call_1,%s,%.2f,us\n", how, time_calls(1, CALLS) * 1e6);
    printf("call_64,%s,%.2f,us\n", how, time_calls(64, 5 * CALLS) * 1e6);
    (void)time_bulk(address);
    printf("bulk,%s,%.2f,GB/s\n", how, time_bulk(address));
    gy_rpc_free(node);
    kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    close(pipes[0]);
    close(pipes[1]);
}

/* ---- Bare sockets ---- */

static void move(int socket, uint8_t *bytes, size_t size, bool is_out)
{
    for (size_t at = 0; at < size;) {
        ssize_t more =
            is_out ? write(socket, bytes + at, size - at) : read(socket, bytes + at, size - at);
        if (more <= 0) {
            exit(0);
        }
        at += (size_t)more;
    }
}

static int bare_pair(pid_t *child, uint8_t *bytes, size_t chunk)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0), mine = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &size) != 0) {
        stop("no bare sockets");
    }
    *child = fork();
    if (*child == 0) {
        int theirs = accept(listener, NULL, NULL);
        for (;;) { /* a small question, a small answer or all the bytes */
            move(theirs, bytes, MESSAGE, false);
            for (size_t put = 0; bytes[0] == 1 && put < BULK_BYTES; put += chunk) {
                if (pread(region_file, bytes, chunk, (off_t)put) != (ssize_t)chunk) {
                    exit(1);
                }
                move(theirs, bytes, chunk, true);
                bytes[0] = 1;
            }
            if (bytes[0] != 1) {
                move(theirs, bytes, MESSAGE, true);
            }
        }
    }
    if (connect(mine, (struct sockaddr *)&at, size) != 0) {
        stop("no bare connection");
    }
    close(listener);
    return mine;
}

static void measure_bare(void)
{
    enum { CHUNK = 128 * 1024 };
    static uint8_t bytes[CHUNK];
    pid_t child = 0;
    int mine = bare_pair(&child, bytes, CHUNK);
    double begun = seconds();
    for (int i = 0; i < CALLS; i++) {
        bytes[0] = 0;
        move(mine, bytes, MESSAGE, true);
        move(mine, bytes, MESSAGE, false);
    }
    printf("call_1,bare,%.2f,us\n", (seconds() - begun) / CALLS * 1e6);
    for (int round = 0; round < 2; round++) {
        begun = seconds();
        bytes[0] = 1;
        move(mine, bytes, MESSAGE, true);
        for (size_t got = 0; got < BULK_BYTES; got += CHUNK) {
            move(mine, bytes, CHUNK, false);
        }
        if (round == 1) {
            printf("bulk,bare,%.2f,GB/s\n", BULK_BYTES / (seconds() - begun) / 1e9);
        }
    }
    close(mine);
    kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: bench_rpc RING_FILE\n");
        return 2;
    }
    if (access(argv[1], F_OK) != 0 && gy_keyring_make(argv[1]) < 0) {
        stop("no ring");
    }
    region_file = memfd_create("region", MFD_CLOEXEC);
    if (region_file < 0 || ftruncate(region_file, BULK_BYTES) != 0) {
        stop("no region");
    }
    void *all = mmap(NULL, BULK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, region_file, 0);
    if (all == MAP_FAILED) {
        stop("no memory");
    }
    memset(all, 0x5a, BULK_BYTES);
    setvbuf(stdout, NULL, _IOLBF, 0);
    measure_bare();
    measure("plain", NULL);
    measure("tls", argv[1]);
    return 0;
}
