/*
 * A vertex that consists of ranks of the tensor wing. The vertex process has threads and so
 * cannot fork ranks: it starts another process of this program that does. A gang on several
 * hosts has a vertex process on each; that of node 0 listens, and the others ask the manager's
 * side for its address.
 */
#include "driver/gang.h"

#include "worker/sandbox/sandbox.h"
#include "worker/start.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 20,
    END_SECONDS = 15,
    KEY_WORDS = 8,          /* of 64 random bits */
    FIND_SECONDS = 3600,    /* for other nodes to fetch their inputs */
    PRINT_BYTES = 16 << 10, /* read at once; a longer line is forwarded in parts */
    TEXT_BYTES = 4096,
    GANG_END = '=', /* and the exit status of the ranks: the last packet, of END_BYTES */
    END_BYTES = 2,
};

/* ---- in the process that starts the ranks ---- */

/* A NULL-terminated list of the next `count` texts (-1: all the rest); NULL: no memory. */
static const char **list_texts(const char **at, const char *end, int64_t count)
{
    size_t most = 1;
    for (const char *text = *at; text < end; text += strlen(text) + 1) {
        most++;
    }
    const char **list = gy_alloc("driver.gang", most * sizeof(*list));
    size_t index = 0;
    while (list != NULL && *at < end && count-- != 0) {
        list[index++] = *at;
        *at += strlen(*at) + 1;
    }
    if (list != NULL) {
        list[index] = NULL;
    }
    return list;
}

/* Listen on a free port of that host; `address` receives it. GY_IO */
static gy_status listen_at(const char *host, char address[TEXT_BYTES], int *listener)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    struct sockaddr_storage own;
    socklen_t size = sizeof(own);
    char port[8];
    int error = getaddrinfo(host, "0", &hints, &found);
    if (error != 0) {
        return gy_fail(GY_IO, "cannot find %s: %s", host, gai_strerror(error));
    }
    *listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_good = *listener >= 0 && bind(*listener, found->ai_addr, found->ai_addrlen) == 0 &&
                   listen(*listener, SOMAXCONN) == 0 &&
                   getsockname(*listener, (struct sockaddr *)&own, &size) == 0 &&
                   getnameinfo((struct sockaddr *)&own, size, NULL, 0, port, sizeof(port),
                               NI_NUMERICSERV) == 0;
    const int why = errno;
    freeaddrinfo(found);
    if (!is_good) {
        if (*listener >= 0) {
            close(*listener);
        }
        *listener = -1;
        return gy_fail(GY_IO, "ranks of other hosts cannot reach this one at %s: %s", host,
                       strerror(why));
    }
    const bool is_six = strchr(host, ':') != NULL;
    (void)snprintf(address, TEXT_BYTES, "%s%s%s:%s", is_six ? "[" : "", host, is_six ? "]" : "",
                   port);
    return GY_OK;
}

/* Strip the port and brackets from "HOST:PORT". */
static void cut_host(const char *address, char host[256])
{
    const char *colon = strrchr(address, ':');
    size_t size = colon != NULL ? (size_t)(colon - address) : strlen(address);
    if (address[0] == '[' && size >= 2) {
        address++;
        size -= 2;
    }
    (void)snprintf(host, 256, "%.*s", (int)size, address);
}

/* Node 0: listen, draw a key, and send both to the vertex process. */
static gy_status open_meeting(int socket, gy_run_options *run, const char *address,
                              char where[TEXT_BYTES], char key[TEXT_BYTES])
{
    gy_env *env = gy_env_real();
    char host[256];
    gy_text words = {.data = NULL};
    cut_host(address, host);
    GY_TRY(listen_at(host, where, &run->listener));
    for (int i = 0; i < KEY_WORDS; i++) {
        (void)snprintf(key + (size_t)i * 16, 17, "%016llx",
                       (unsigned long long)env->ops->random(env, GY_CHANCE_NETWORK));
    }
    gy_text_add(&words, "%s %s", where, run->is_plaintext ? "-" : key);
    gy_status status = words.status;
    if (status == GY_OK) {
        status = gy_packet_send(
            socket, &(gy_packet){.data = words.data, .size_bytes = words.size_bytes});
    }
    gy_text_free(&words);
    return status;
}

static int keep(int socket, const gy_role *role, const char *texts, const char *end)
{
    static char where[TEXT_BYTES], key[TEXT_BYTES];
    gy_run_options run = role->run;
    gy_status status = GY_OK;
    if (run.nodes > 1) {
        run.rendezvous = texts;
        texts += strlen(texts) + 1;
        run.key = texts < end ? texts : "";
        texts += strlen(texts) + 1;
        run.lost_fd = socket;
        if (run.node == 0) {
            status = open_meeting(socket, &run, run.rendezvous, where, key);
            run.rendezvous = where;
            run.key = key;
        }
        run.key = run.is_plaintext ? NULL : run.key;
    }
    const char **variables = status == GY_OK ? list_texts(&texts, end, role->variables) : NULL;
    const char **list = variables != NULL ? list_texts(&texts, end, -1) : NULL;
    int code = 1;
    if (list != NULL) {
        run.environment = variables;
        gy_run_report report;
        if (gy_run(&run, (char *const *)(uintptr_t)list, &report) < 0 && !report.is_started) {
            gy_log_message("%s", gy_error_text());
        }
        code = report.exit_status;
    } else {
        gy_log_message("%s", status < 0 ? gy_error_text() : "out of memory");
    }
    gy_free(list);
    gy_free(variables);
    return code;
}

/* How the ranks have ended; without these words they were not waited for. */
static void report_end(int socket, int code)
{
    char words[END_BYTES] = {GANG_END, (char)code};
    if (gy_packet_send(socket, &(gy_packet){.data = words, .size_bytes = sizeof(words)}) < 0) {
        gy_debug("nobody waits for the end of a gang: %s", gy_error_text());
    }
}

int gy_gang_serve(int socket, const gy_role *role, gy_packet *packet, const char *texts)
{
    const char *end = (const char *)packet->data + packet->size_bytes;
    int output = packet->file_count > 0 ? packet->files[0] : -1;
    int status = 1;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != role->starter) {
        close(socket);
        return 1;
    }
    if (output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)) {
        gy_log_message("cannot forward the output of the ranks: %s", strerror(errno));
    } else if (texts >= end || end[-1] != '\0') {
        gy_log_message("a gang was started with no program");
    } else {
        status = keep(socket, role, texts, end);
    }
    if (output >= 0) {
        close(output);
    }
    report_end(socket, status);
    close(socket);
    return 0;
}

/* ---- in the vertex process: start ---- */

typedef struct gang_run {
    const gy_gang *gang;
    const _Atomic bool *is_cancelled;
    gy_env *env;
    int socket, print; /* print: the ranks' output; -1: not read here */
    pid_t process;
    bool is_lost; /* another node is lost */
    int code;     /* the exit status of the ranks; -1: not known */
    char line[PRINT_BYTES];
    size_t line_bytes;
    char where[TEXT_BYTES], key[TEXT_BYTES]; /* of node 0 */
} gang_run;

static bool must_end(const gang_run *run)
{
    return atomic_load_explicit(run->is_cancelled, memory_order_relaxed);
}

/* Parse what node 0 published: "ADDRESS KEY". GY_AGAIN nothing yet */
static gy_status read_where(gang_run *run, const char *words)
{
    const char *blank = strchr(words, ' ');
    if (blank == NULL || (size_t)(blank - words) >= TEXT_BYTES) {
        return gy_fail(GY_STATE, "node 0 of the gang has ended");
    }
    (void)snprintf(run->where, TEXT_BYTES, "%.*s", (int)(blank - words), words);
    (void)snprintf(run->key, TEXT_BYTES, "%s", blank + 1);
    return GY_OK;
}

/* Wait for that node's published data; it may still be fetching its inputs. */
static gy_status wait_for(const gang_run *run, int node, char words[GY_WORKER_WORDS_BYTES + 1])
{
    const gy_gang *gang = run->gang;
    gy_deadline last = gy_env_deadline(run->env, FIND_SECONDS);
    while (gy_worker_ask(gang->task, (uint32_t)(node * gang->ranks), words) == GY_AGAIN) {
        if (must_end(run)) {
            return gy_fail(GY_CANCELLED, "the gang was cancelled with its task");
        }
        if (gy_now_ns(run->env) >= last.at_ns) {
            return gy_fail(GY_TIMEOUT, "node %d of the gang was not ready within %d s", node,
                           FIND_SECONDS);
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
    return GY_OK;
}

/* Node 0 starts when all others are ready; the others wait for its address. */
static gy_status find_others(gang_run *run)
{
    const gy_gang *gang = run->gang;
    char words[GY_WORKER_WORDS_BYTES + 1];
    if (gang->node > 0) {
        gy_worker_publish(gang->task, "ready", 5);
        GY_TRY(wait_for(run, 0, words));
        return read_where(run, words);
    }
    for (int node = 1; node < gang->nodes; node++) {
        GY_TRY(wait_for(run, node, words));
    }
    return GY_OK;
}

static gy_status set_options(const gy_gang *gang, gy_run_options *run)
{
    *run = (gy_run_options){.has_prefix = true, .has_no_binding = true};
    if (gang->run_bytes == sizeof(*run)) {
        memcpy(run, gang->run, sizeof(*run));
    } else if (gang->run_bytes != 0) {
        return gy_fail(GY_ARG, "a gang with %zu bytes of options: expected %zu",
                       gang->run_bytes, sizeof(*run));
    }
    run->environment = NULL;
    run->rendezvous = run->key_file = run->key = run->record = NULL;
    run->listener = run->lost_fd = 0;
    run->ranks = gang->ranks;
    run->nodes = gang->nodes;
    run->node = gang->node;
    run->is_plaintext = gang->nodes > 1 && gang->is_plain;
    if (gang->timeout_s > 0) {
        run->timeout_s =
            run->timeout_s > 0 ? GY_MIN(run->timeout_s, gang->timeout_s) : gang->timeout_s;
    }
    return GY_OK;
}

static void add_text(gy_text *text, const char *word)
{
    gy_text_add_bytes(text, word, strlen(word) + 1);
}

/* A program shipped with this one lies beside it on every host. */
static const char *find_program(const char *name, char path[TEXT_BYTES])
{
    const char *folder = gy_sandbox_program_folder();
    if (strchr(name, '/') != NULL || folder[0] == '\0' ||
        snprintf(path, TEXT_BYTES, "%s/%s", folder, name) >= TEXT_BYTES) {
        return name;
    }
    return access(path, X_OK) == 0 ? path : name;
}

/* Send the role and its texts; `output`: descriptor for the ranks' output, -1: none. */
static gy_status send_role(const gang_run *run, int output)
{
    const gy_gang *gang = run->gang;
    gy_role role = {.kind = GY_ROLE_GANG, .starter = getpid()};
    char path[TEXT_BYTES];
    gy_text text = {.data = NULL};
    GY_TRY(set_options(gang, &role.run));
    while (gang->environment != NULL && gang->environment[role.variables] != NULL) {
        role.variables++;
    }
    gy_text_add_bytes(&text, &role, sizeof(role));
    if (gang->nodes > 1) {
        add_text(&text, gang->node == 0 ? gang->address : run->where);
        add_text(&text, run->key);
    }
    for (uint32_t i = 0; i < role.variables; i++) {
        add_text(&text, gang->environment[i]);
    }
    add_text(&text, find_program(gang->argv[0], path));
    for (int i = 1; gang->argv[i] != NULL; i++) {
        add_text(&text, gang->argv[i]);
    }
    gy_status status = text.status;
    if (status == GY_OK && text.size_bytes > GY_PACKET_BYTES) {
        status = gy_fail(GY_ARG, "a gang's arguments have %zu bytes, at most %d",
                         text.size_bytes, GY_PACKET_BYTES);
    }
    if (status == GY_OK) {
        status = gy_packet_send(run->socket, &(gy_packet){.data = text.data,
                                                          .size_bytes = text.size_bytes,
                                                          .files = {output},
                                                          .file_count = output >= 0});
    }
    gy_text_free(&text);
    return status;
}

/* ---- in the vertex process: while the ranks run ---- */

/* Forward the ranks' output in whole lines; false: the pipe is closed. */
static bool pass_on(gang_run *run)
{
    ssize_t got = read(run->print, run->line + run->line_bytes, PRINT_BYTES - run->line_bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    run->line_bytes += got > 0 ? (size_t)got : 0;
    const char *last = memrchr(run->line, '\n', run->line_bytes);
    bool is_all = got <= 0 || (last == NULL && run->line_bytes == PRINT_BYTES);
    size_t whole = is_all ? run->line_bytes : last != NULL ? (size_t)(last - run->line) + 1 : 0;
    if (whole > 0) {
        gy_worker_output(run->gang->task, run->line, whole, 0);
        memmove(run->line, run->line + whole, run->line_bytes - whole);
        run->line_bytes -= whole;
    }
    return got > 0;
}

/* The starter's socket: node 0's address, a byte for a lost node, how the ranks ended, or its
 * end (false). */
static bool handle_starter(gang_run *run)
{
    char words[TEXT_BYTES];
    gy_packet packet = {.data = words, .size_bytes = sizeof(words) - 1};
    gy_status status = gy_packet_receive(run->socket, &packet, false);
    if (status == GY_OK && packet.size_bytes == 1) {
        run->is_lost = true;
    } else if (status == GY_OK && packet.size_bytes == END_BYTES && words[0] == GANG_END) {
        run->code = (unsigned char)words[1];
    } else if (status == GY_OK && packet.size_bytes <= GY_WORKER_WORDS_BYTES) {
        gy_worker_publish(run->gang->task, words, packet.size_bytes);
    }
    return status == GY_OK || status == GY_AGAIN;
}

/* Wait until the starter's socket closes; ask it to end once the task is cancelled. False: it
 * did not end. */
static bool wait_for_end(gang_run *run)
{
    gy_deadline last = GY_NEVER;
    for (;;) {
        struct pollfd looks[2] = {{.fd = run->socket, .events = POLLIN},
                                  {.fd = run->print, .events = POLLIN}};
        if (poll(looks, 2, LOOK_MS) > 0) {
            if (looks[1].revents != 0 && !pass_on(run)) {
                close(run->print);
                run->print = -1;
            }
            if (looks[0].revents != 0 && !handle_starter(run)) {
                return true;
            }
        }
        if (must_end(run) && last.at_ns == INT64_MAX) {
            kill(run->process, SIGTERM);
            last = gy_env_deadline(run->env, END_SECONDS);
        }
        if (gy_now_ns(run->env) >= last.at_ns) {
            return false;
        }
    }
}

static gy_status judge(const gang_run *run, int status)
{
    const gy_gang *gang = run->gang;
    if (must_end(run)) {
        return gy_fail(GY_CANCELLED, "the gang was cancelled with its task");
    }
    if (run->code == 0) {
        return GY_OK;
    }
    if (run->is_lost) {
        return gy_fail(GY_STATE, "node %d of the gang lost another node", gang->node);
    }
    if (run->code < 0) { /* whatever main returned: the ranks were not waited for */
        return gy_fail(GY_PEER, "the launcher of %d ranks of %s was killed by signal %d",
                       gang->ranks, gang->argv[0],
                       status != -1 && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    const int code = run->code;
    if (gang->is_reported) {
        gy_worker_output(gang->task, NULL, 0, code);
    }
    return code == GY_RUN_STATUS_TIMEOUT
               ? gy_fail(GY_TIMEOUT, "%d ranks of %s did not end in time", gang->ranks,
                         gang->argv[0])
               : gy_fail(GY_PEER, "%d rank%s of %s ended with exit status %d", gang->ranks,
                         gang->ranks == 1 ? "" : "s", gang->argv[0], code);
}

/* Start the process that starts the ranks, and send it its role. */
static gy_status start(gang_run *run)
{
    int pipes[2] = {-1, -1};
    if (run->gang->nodes > 1) {
        GY_TRY(find_others(run));
    }
    if (run->gang->is_reported && pipe2(pipes, O_CLOEXEC) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a pipe for the output of the ranks: %s",
                       strerror(errno));
    }
    run->print = pipes[0];
    gy_status status = gy_worker_start_self(&(gy_worker_start){0}, &run->socket, &run->process);
    if (status == GY_OK) {
        status = send_role(run, pipes[1]);
    }
    if (pipes[1] >= 0) {
        close(pipes[1]);
    }
    if (run->print >= 0) {
        GY_ASSERT(fcntl(run->print, F_SETFL, O_NONBLOCK) == 0);
    }
    return status;
}

gy_status gy_gang_run(const gy_gang *gang, const _Atomic bool *is_cancelled)
{
    if (gang->ranks < 1 || gang->ranks > GY_RUN_RANKS_MAX || gang->argv == NULL ||
        gang->argv[0] == NULL || !(gang->timeout_s >= 0) ||
        ((gang->nodes > 1 || gang->is_reported) && gang->task == NULL) ||
        (gang->nodes > 1 && gang->address == NULL)) {
        return gy_fail(GY_ARG, "a gang of %d ranks: expected 1 to %d, a program, and a time",
                       gang->ranks, GY_RUN_RANKS_MAX);
    }
    gang_run *run = gy_alloc_zero("driver.gang", 1, sizeof(*run));
    if (run == NULL) {
        return GY_NOMEM;
    }
    run->gang = gang;
    run->is_cancelled = is_cancelled;
    run->env = gy_env_real();
    run->socket = run->print = run->code = -1;
    gy_status status = start(run);
    if (run->process > 0) {
        bool has_ended = status == GY_OK && wait_for_end(run);
        int how = gy_worker_child_wait(run->env, run->process,
                                       gy_env_deadline(run->env, has_ended ? END_SECONDS : 0));
        struct pollfd look = {.fd = run->print, .events = POLLIN};
        while (run->print >= 0 && poll(&look, 1, 0) > 0 && pass_on(run)) {
            /* output that ended processes left in the pipe */
        }
        status = status < 0 ? status : judge(run, how);
    }
    if (run->print >= 0) {
        close(run->print);
    }
    if (run->socket >= 0) {
        close(run->socket);
    }
    gy_free(run);
    return status;
}
