/* Sends orders to a fork server, and cleans up after it. */
#include "worker/supervisor.h"

#include "worker/limits.h"
#include "worker/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FORK_SERVERS_MAX = 16,  /* fork servers that may die in one job */
    SOCKET_BYTES = 1 << 20, /* requested size; the kernel may grant less */
    CLOSE_SECONDS = 20
};
/* From the end of the fork server's socket to its exit. */
static const double leave_seconds = 0.1;

gy_status gy_supervisor_open(gy_supervisor *supervisor)
{
    uint32_t lines = supervisor->role.processes * supervisor->role.threads;
    supervisor->socket = supervisor->boards_file = -1;
    supervisor->role.kind = GY_ROLE_FORK_SERVER;
    supervisor->role.starter = getpid();
    GY_TRY(gy_worker_boards_new(lines, &supervisor->boards_file));
    return gy_worker_boards_map(supervisor->boards_file, lines, &supervisor->boards);
}

/* Send its role, followed by the paths of its sandbox. */
static gy_status send_role(gy_supervisor *supervisor)
{
    const gy_sandbox *sandbox = supervisor->sandbox;
    gy_text text = {.data = NULL};
    supervisor->role.parts = sandbox != NULL ? sandbox->parts : 0;
    gy_text_add_bytes(&text, &supervisor->role, sizeof(supervisor->role));
    if (supervisor->role.parts != 0) {
        gy_text_add_bytes(&text, sandbox->paths.data, sandbox->paths.size_bytes);
    }
    gy_status status = text.status;
    if (status == GY_OK && text.size_bytes > GY_PACKET_BYTES) {
        status = gy_fail(GY_LIMIT, "the paths of a sandbox have %zu bytes, at most %d",
                         text.size_bytes, GY_PACKET_BYTES);
    }
    if (status == GY_OK) {
        status =
            gy_packet_send(supervisor->socket, &(gy_packet){.data = text.data,
                                                            .size_bytes = text.size_bytes,
                                                            .files = {supervisor->boards_file},
                                                            .file_count = 1});
    }
    gy_text_free(&text);
    return status;
}

gy_status gy_supervisor_start(gy_supervisor *supervisor)
{
    GY_ASSERT(supervisor->socket < 0);
    if (supervisor->fork_server_count == FORK_SERVERS_MAX) {
        return gy_fail(GY_LIMIT, "the fork server of the job was killed %d times",
                       FORK_SERVERS_MAX);
    }
    if (supervisor->has_sandbox_failed) {
        return gy_fail(GY_STATE, "cannot sandbox the job's processes: see standard error");
    }
    GY_TRY(GY_GROW("worker.fork_server", supervisor->fork_servers, supervisor->fork_server_room,
                   supervisor->fork_server_count + 1));
    GY_TRY(gy_worker_start_self(&supervisor->start, &supervisor->socket,
                                &supervisor->fork_servers[supervisor->fork_server_count]));
    supervisor->fork_server_count++;
    return send_role(supervisor);
}

gy_status gy_supervisor_spawn(gy_supervisor *supervisor, uint32_t slot, uint32_t generation,
                              int *socket)
{
    int room = SOCKET_BYTES, pair[2];
    GY_ASSERT(slot < supervisor->role.processes);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a socket: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    }
    gy_fork_server_order order = {
        .kind = GY_FORK_SERVER_SPAWN, .slot = slot, .generation = generation};
    int log = gy_worker_log_open(supervisor->env, supervisor->folder, slot, generation);
    gy_packet packet = {.data = &order,
                        .size_bytes = sizeof(order),
                        .files = {pair[1], log},
                        .file_count = log >= 0 ? 2 : 1};
    gy_status status = gy_packet_send(supervisor->socket, &packet);
    close(pair[1]);
    if (log >= 0) {
        close(log);
    }
    if (status < 0) {
        close(pair[0]);
    } else {
        *socket = pair[0];
    }
    return status;
}

void gy_supervisor_kill(const gy_supervisor *supervisor, uint32_t slot, uint32_t generation)
{
    gy_fork_server_order order = {
        .kind = GY_FORK_SERVER_KILL, .slot = slot, .generation = generation};
    if (gy_packet_send(supervisor->socket,
                       &(gy_packet){.data = &order, .size_bytes = sizeof(order)}) < 0) {
        /* A fork server that has ended took the process with it; its socket reports this. */
        gy_debug("cannot kill process %u: %s", slot, gy_error_text());
    }
}

gy_status gy_supervisor_handle(gy_supervisor *supervisor, gy_fork_server_news *news)
{
    gy_packet packet = {.data = news, .size_bytes = sizeof(*news)};
    gy_status status = gy_packet_receive(supervisor->socket, &packet, false);
    if (status == GY_OK &&
        (packet.size_bytes != sizeof(*news) || news->slot >= supervisor->role.processes)) {
        return gy_fail(GY_PEER, "the fork server of the job sent a malformed message");
    }
    if (status == GY_OK && news->has_sandbox_failed) {
        supervisor->has_sandbox_failed = true;
        return gy_fail(GY_PEER, "the fork server of the job cannot be sandboxed");
    }
    return status < 0 ? GY_PEER : status;
}

gy_board *gy_supervisor_boards(const gy_supervisor *supervisor, uint32_t slot)
{
    return supervisor->boards + (size_t)slot * supervisor->role.threads;
}

void gy_supervisor_clear(const gy_supervisor *supervisor, uint32_t slot)
{
    gy_board *line = gy_supervisor_boards(supervisor, slot);
    for (uint32_t i = 0; i < supervisor->role.threads; i++) {
        atomic_store_explicit(&line[i].is_running, 0, memory_order_relaxed);
        atomic_store_explicit(&line[i].is_cut_off, 0, memory_order_relaxed);
    }
}

static bool is_cut_off(const gy_supervisor *supervisor, uint32_t slot)
{
    const gy_board *line = gy_supervisor_boards(supervisor, slot);
    uint32_t i = 0;
    while (i < supervisor->role.threads &&
           atomic_load_explicit(&line[i].is_cut_off, memory_order_acquire) == 0) {
        i++;
    }
    return i < supervisor->role.threads;
}

void gy_supervisor_explain(const gy_supervisor *supervisor, const gy_fork_server_news *news,
                           bool is_killed, gy_text *reason)
{
    char size[32];
    if (news->error != 0) {
        gy_text_add(reason, "cannot start a process: %s", strerror(news->error));
    } else if (news->is_over_memory) {
        gy_text_add(reason, "killed by SIGKILL: over its memory limit of %s",
                    gy_text_bytes(size, supervisor->role.memory_bytes));
    } else if (is_cut_off(supervisor, news->slot)) {
        gy_text_add(reason, "its code closed or replaced a descriptor of Gyre: the connection "
                            "to the job's manager");
    } else if (WIFSIGNALED(news->status)) {
        const char *name = sigabbrev_np(WTERMSIG(news->status));
        gy_text_add(reason, "killed by SIG%s%s", name != NULL ? name : "?",
                    is_killed ? ", as requested" : "");
    } else {
        gy_text_add(reason, "it exited with status %d", WEXITSTATUS(news->status));
    }
}

void gy_supervisor_end(const gy_supervisor *supervisor, bool is_hard)
{
    gy_fork_server_order order = {.kind = GY_FORK_SERVER_END};
    if (!is_hard &&
        gy_packet_send(supervisor->socket,
                       &(gy_packet){.data = &order, .size_bytes = sizeof(order)}) < 0) {
        gy_debug("the fork server ended early: %s", gy_error_text());
    }
    (void)shutdown(supervisor->socket, SHUT_WR);
}

int gy_supervisor_lost(gy_supervisor *supervisor)
{
    pid_t process = supervisor->fork_servers[supervisor->fork_server_count - 1];
    close(supervisor->socket);
    supervisor->socket = -1;
    /* The reaper closes the socket as its last step. */
    int status = gy_worker_child_wait(supervisor->env, process,
                                      gy_env_deadline(supervisor->env, leave_seconds));
    gy_limits_sweep(process, supervisor->role.processes);
    return status;
}

/* The fork server's socket ends when all its processes have ended. */
static void wait_for_fork_server(gy_supervisor *supervisor)
{
    gy_deadline last = gy_env_deadline(supervisor->env, CLOSE_SECONDS);
    while (gy_now_ns(supervisor->env) < last.at_ns) {
        gy_fork_server_news news;
        gy_status status = gy_supervisor_handle(supervisor, &news);
        if (status < 0) {
            break;
        }
        struct pollfd look = {.fd = supervisor->socket, .events = POLLIN};
        if (status == GY_AGAIN) {
            (void)poll(&look, 1, 100);
        }
    }
    close(supervisor->socket);
    supervisor->socket = -1;
    (void)gy_worker_child_wait(
        supervisor->env, supervisor->fork_servers[supervisor->fork_server_count - 1], last);
}

void gy_supervisor_close(gy_supervisor *supervisor, bool is_hard)
{
    if (supervisor->socket >= 0) {
        gy_supervisor_end(supervisor, is_hard);
        wait_for_fork_server(supervisor);
    }
    for (size_t i = 0; i < supervisor->fork_server_count; i++) {
        gy_limits_sweep(supervisor->fork_servers[i], supervisor->role.processes);
    }
    gy_free(supervisor->fork_servers);
    supervisor->fork_servers = NULL;
    supervisor->fork_server_count = 0;
    gy_worker_boards_unmap(supervisor->boards,
                           supervisor->role.processes * supervisor->role.threads);
    supervisor->boards = NULL;
    if (supervisor->boards_file >= 0) {
        close(supervisor->boards_file);
        supervisor->boards_file = -1;
    }
}
