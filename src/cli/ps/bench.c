/*
 * `gyre ps bench`: a server in a process of its own, and beside it a process that echoes what
 * it reads from a plain blocking socket. Figures are medians; what counts is their ratio.
 */
#include "cli/ps/ps.h"

#include "cli/cluster/common.h"
#include "cli/report.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES_MAX = 20000, SAMPLES_MIN = 5, BYTES_MAX = 16 << 20 };

static double now_s(void)
{
    return (double)gy_deadline_after(0).at_ns / 1e9;
}

/* ---- The other end of a plain socket ---- */

static bool read_all(int socket, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        ssize_t got = recv(socket, at, size, 0);
        if (got <= 0) {
            return false;
        }
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool write_all(int socket, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t put = send(socket, at, size, MSG_NOSIGNAL);
        if (put <= 0) {
            return false;
        }
        at += put;
        size -= (size_t)put;
    }
    return true;
}

/* Each request: how many bytes follow, and how many go back. */
typedef struct echo_head {
    uint64_t there, back;
} echo_head;

static void echo(int socket)
{
    static char bytes[BYTES_MAX];
    echo_head head;
    while (read_all(socket, &head, sizeof(head)) && head.there <= BYTES_MAX &&
           head.back <= BYTES_MAX && read_all(socket, bytes, head.there) &&
           write_all(socket, bytes, head.back)) {
    }
}

/* ---- Processes ---- */

typedef struct bench {
    const char *key_file;
    bool is_plaintext;
    double duration_s;
    int hold[2]; /* the children end when its writing end is closed */
    pid_t children[2];
    char address[64];
    int socket;
    gy_ps *ps;
    char *bytes;
} bench;

static int serve(const bench *at, int tell)
{
    gy_ps_server *server = NULL;
    const gy_ps_server_options options = {.key_file = at->key_file,
                                          .is_plaintext = at->is_plaintext};
    gy_status status = gy_ps_server_open(&options, &server);
    if (status < 0) {
        return gy_cli_failure("ps bench", status);
    }
    const char *address = gy_ps_server_address(server);
    bool is_told = write(tell, address, strlen(address)) > 0;
    close(tell);
    status = is_told ? gy_ps_server_run(server, at->hold[0]) : GY_OK;
    gy_ps_server_close(server);
    return status < 0 ? gy_cli_failure("ps bench", status) : GY_EXIT_OK;
}

static int serve_echo(int tell)
{
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(own);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&own, size) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&own, &size) != 0 ||
        write(tell, &own, sizeof(own)) != (ssize_t)sizeof(own)) {
        return GY_EXIT_FAILURE;
    }
    close(tell);
    int peer = accept(listener, NULL, NULL);
    const int yes = 1;
    if (peer >= 0 && setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0) {
        echo(peer);
        close(peer);
    }
    close(listener);
    return GY_EXIT_OK;
}

/* Fork a child, and read what it tells first. */
static bool start_child(bench *at, int which, void *told, size_t size_bytes)
{
    int tell[2];
    if (pipe(tell) != 0) {
        return false;
    }
    fflush(NULL);
    at->children[which] = fork();
    if (at->children[which] == 0) {
        close(at->hold[1]);
        close(tell[0]);
        _exit(which == 0 ? serve(at, tell[1]) : serve_echo(tell[1]));
    }
    close(tell[1]);
    ssize_t got = at->children[which] > 0 ? read(tell[0], told, size_bytes) : -1;
    close(tell[0]);
    return got > 0;
}

static bool connect_echo(bench *at, const struct sockaddr_in *to)
{
    const int yes = 1;
    at->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return at->socket >= 0 &&
           connect(at->socket, (const struct sockaddr *)to, sizeof(*to)) == 0 &&
           setsockopt(at->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0;
}

static int start(bench *at)
{
    struct sockaddr_in echoing;
    if (pipe(at->hold) != 0 || !start_child(at, 1, &echoing, sizeof(echoing)) ||
        !start_child(at, 0, at->address, sizeof(at->address) - 1) ||
        !connect_echo(at, &echoing)) {
        return gy_cli_report_failure("ps bench", GY_IO);
    }
    gy_status status = gy_ps_open(&(gy_ps_options){.servers = at->address,
                                                   .key_file = at->key_file,
                                                   .is_plaintext = at->is_plaintext},
                                  &at->ps);
    return status < 0 ? gy_cli_failure("ps bench", status) : GY_EXIT_OK;
}

static void stop(bench *at)
{
    gy_ps_close(at->ps);
    if (at->socket >= 0) {
        close(at->socket);
    }
    close(at->hold[1]);
    for (int i = 0; i < 2; i++) {
        if (at->children[i] > 0) {
            (void)waitpid(at->children[i], NULL, 0); /* both end by themselves */
        }
    }
    close(at->hold[0]);
}

/* ---- Figures ---- */

typedef struct figure {
    bench *at;
    gy_ps_table *table;
    size_t size_bytes, back_bytes;
} figure;

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b ? 1 : 0;
}

/* Median seconds of a step, after one that is not counted; below 0: it failed. */
static double measure(gy_status (*step)(const figure *of), const figure *of)
{
    static double times[SAMPLES_MAX];
    int count = 0;
    if (step(of) < 0) {
        return -1;
    }
    for (double end = now_s() + of->at->duration_s;
         count < SAMPLES_MIN || (count < SAMPLES_MAX && now_s() < end); count++) {
        double begun = now_s();
        if (step(of) < 0) {
            return -1;
        }
        times[count] = now_s() - begun;
    }
    qsort(times, (size_t)count, sizeof(times[0]), compare);
    return times[count / 2];
}

static gy_status push(const figure *of)
{
    return gy_ps_push(of->table, NULL, of->size_bytes / sizeof(float), of->at->bytes, NULL);
}

static gy_status pull(const figure *of)
{
    return gy_ps_pull(of->table, NULL, of->size_bytes / sizeof(float), of->at->bytes, NULL);
}

static gy_status exchange(const figure *of)
{
    const echo_head head = {of->size_bytes, of->back_bytes};
    bool is_done = write_all(of->at->socket, &head, sizeof(head)) &&
                   write_all(of->at->socket, of->at->bytes, of->size_bytes) &&
                   read_all(of->at->socket, of->at->bytes, of->back_bytes);
    return is_done ? GY_OK : GY_IO;
}

static int print_row(bench *at, size_t size_bytes)
{
    char name[32];
    figure of = {.at = at, .size_bytes = size_bytes, .back_bytes = size_bytes};
    const gy_ps_table_options options = {.rows = size_bytes / sizeof(float),
                                         .sync = gy_ps_asp()};
    snprintf(name, sizeof(name), "bench%zu", size_bytes);
    memset(at->bytes, 0, size_bytes);
    gy_status status = gy_ps_table_open(at->ps, name, &options, &of.table);
    if (status < 0) {
        return gy_cli_failure("ps bench", status);
    }
    double pushed = measure(push, &of), pulled = measure(pull, &of);
    double echoed = measure(exchange, &of);
    of.back_bytes = 1;
    double streamed = measure(exchange, &of);
    if (pushed < 0 || pulled < 0 || echoed < 0 || streamed < 0) {
        return gy_cli_failure("ps bench", GY_IO);
    }
    printf("%10zu  %10.1f  %10.1f  %10.1f  %10.1f  %9.2f  %9.2f  %9.2f\n", size_bytes,
           pushed * 1e6, pulled * 1e6, echoed * 1e6, streamed * 1e6, pushed / echoed,
           streamed / pushed, streamed / pulled);
    fflush(stdout);
    return GY_EXIT_OK;
}

int gy_cli_ps_bench(const char *key_file, bool is_plaintext, double duration_s)
{
    static char bytes[BYTES_MAX];
    static const size_t sizes[] = {1 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
    bench at = {.key_file = key_file,
                .is_plaintext = is_plaintext,
                .duration_s = duration_s,
                .socket = -1,
                .bytes = bytes};
    int status = start(&at);
    if (status == GY_EXIT_OK) {
        printf(
            "one worker, one server, %s; microseconds, medians. With p workers and k servers a "
            "clock\ntakes at least max(n/B, pn/(kB)), B being n over the column stream.\n",
            is_plaintext ? "plain text" : "TLS");
        printf("%10s  %10s  %10s  %10s  %10s  %9s  %9s  %9s\n", "bytes", "push", "pull", "echo",
               "stream", "push/echo", "stream/", "stream/");
        printf("%10s  %10s  %10s  %10s  %10s  %9s  %9s  %9s\n", "", "", "", "", "", "", "push",
               "pull");
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && status == GY_EXIT_OK; i++) {
        status = print_row(&at, sizes[i]);
    }
    stop(&at);
    return status;
}
