/* Orders to a nursery, and what is left behind it. */
#include "cluster/local/warden.h"

#include "cluster/local/limits.h"
#include "cluster/local/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NURSERIES_MAX = 16,     /* that are killed, in one job */
    SOCKET_BYTES = 1 << 20, /* asked for; the system may give less */
    CLOSE_SECONDS = 20
};
static const double leave_seconds = 0.1; /* from the end of its socket to its own */

gy_status gy_warden_open(gy_warden *warden)
{
    uint32_t lines = warden->role.processes * warden->role.threads;
    warden->socket = warden->boards_file = -1;
    warden->role.kind = GY_ROLE_NURSERY;
    warden->role.starter = getpid();
    GY_TRY(gy_boards_new(lines, &warden->boards_file));
    return gy_boards_map(warden->boards_file, lines, &warden->boards);
}

/* Its role, and behind it the paths of its walls. */
static gy_status send_role(gy_warden *warden)
{
    const gy_sandbox *sandbox = warden->sandbox;
    gy_text text = {.data = NULL};
    warden->role.parts = sandbox != NULL ? sandbox->parts : 0;
    gy_text_add_bytes(&text, &warden->role, sizeof(warden->role));
    if (warden->role.parts != 0) {
        gy_text_add_bytes(&text, sandbox->paths.data, sandbox->paths.size_bytes);
    }
    gy_status status = text.status;
    if (status == GY_OK && text.size_bytes > GY_PACKET_BYTES) {
        status = gy_fail(GY_LIMIT, "the paths of a sandbox have %zu bytes, at most %d",
                         text.size_bytes, GY_PACKET_BYTES);
    }
    if (status == GY_OK) {
        status = gy_packet_send(warden->socket, &(gy_packet){.data = text.data,
                                                             .size_bytes = text.size_bytes,
                                                             .files = {warden->boards_file},
                                                             .file_count = 1});
    }
    gy_text_free(&text);
    return status;
}

gy_status gy_warden_start(gy_warden *warden)
{
    GY_ASSERT(warden->socket < 0);
    if (warden->nursery_count == NURSERIES_MAX) {
        return gy_fail(GY_LIMIT, "the parent of the job's processes was killed %d times",
                       NURSERIES_MAX);
    }
    if (warden->is_unwalled) {
        return gy_fail(GY_STATE, "the job's processes cannot be walled in: standard error says "
                                 "why");
    }
    GY_TRY(GY_GROW("cluster.nursery", warden->nurseries, warden->nursery_room,
                   warden->nursery_count + 1));
    GY_TRY(gy_worker_start_self(&warden->start, &warden->socket,
                                &warden->nurseries[warden->nursery_count]));
    warden->nursery_count++;
    return send_role(warden);
}

gy_status gy_warden_spawn(gy_warden *warden, uint32_t slot, uint32_t generation, int *socket)
{
    int room = SOCKET_BYTES, pair[2];
    GY_ASSERT(slot < warden->role.processes);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a socket: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    }
    gy_nursery_order order = {.kind = GY_NURSERY_SPAWN, .slot = slot, .generation = generation};
    int log = gy_worker_log_open(warden->env, warden->folder, slot, generation);
    gy_packet packet = {.data = &order,
                        .size_bytes = sizeof(order),
                        .files = {pair[1], log},
                        .file_count = log >= 0 ? 2 : 1};
    gy_status status = gy_packet_send(warden->socket, &packet);
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

void gy_warden_kill(const gy_warden *warden, uint32_t slot, uint32_t generation)
{
    gy_nursery_order order = {.kind = GY_NURSERY_KILL, .slot = slot, .generation = generation};
    if (gy_packet_send(warden->socket,
                       &(gy_packet){.data = &order, .size_bytes = sizeof(order)}) < 0) {
        /* A nursery that is gone has taken it along, which its socket will tell. */
        gy_debug("process %u is not killed: %s", slot, gy_error_text());
    }
}

gy_status gy_warden_hear(const gy_warden *warden, gy_nursery_news *news)
{
    gy_packet packet = {.data = news, .size_bytes = sizeof(*news)};
    gy_status status = gy_packet_receive(warden->socket, &packet, false);
    if (status == GY_OK &&
        (packet.size_bytes != sizeof(*news) || news->slot >= warden->role.processes)) {
        return gy_fail(GY_PEER, "the parent of the job's processes sent what is no message");
    }
    return status < 0 ? GY_PEER : status;
}

gy_board *gy_warden_boards(const gy_warden *warden, uint32_t slot)
{
    return warden->boards + (size_t)slot * warden->role.threads;
}

void gy_warden_clear(const gy_warden *warden, uint32_t slot)
{
    gy_board *line = gy_warden_boards(warden, slot);
    for (uint32_t i = 0; i < warden->role.threads; i++) {
        atomic_store_explicit(&line[i].is_running, 0, memory_order_relaxed);
        atomic_store_explicit(&line[i].is_cut_off, 0, memory_order_relaxed);
    }
}

static bool is_cut_off(const gy_warden *warden, uint32_t slot)
{
    const gy_board *line = gy_warden_boards(warden, slot);
    uint32_t i = 0;
    while (i < warden->role.threads &&
           atomic_load_explicit(&line[i].is_cut_off, memory_order_acquire) == 0) {
        i++;
    }
    return i < warden->role.threads;
}

void gy_warden_explain(const gy_warden *warden, const gy_nursery_news *news, bool is_killed,
                       gy_text *reason)
{
    char size[32];
    if (news->error != 0) {
        gy_text_add(reason, "cannot start a process: %s", strerror(news->error));
    } else if (news->is_over_memory) {
        gy_text_add(reason, "killed by SIGKILL: over its memory limit of %s",
                    gy_text_bytes(size, warden->role.memory_bytes));
    } else if (is_cut_off(warden, news->slot)) {
        gy_text_add(reason, "what ran in it closed or replaced a descriptor that is not its "
                            "own: the connection of its process to the job's manager");
    } else if (WIFSIGNALED(news->status)) {
        const char *name = sigabbrev_np(WTERMSIG(news->status));
        gy_text_add(reason, "killed by SIG%s%s", name != NULL ? name : "?",
                    is_killed ? ", as ordered" : "");
    } else {
        gy_text_add(reason, "it ended by itself with exit status %d",
                    WEXITSTATUS(news->status));
    }
}

void gy_warden_end(const gy_warden *warden, bool is_hard)
{
    gy_nursery_order order = {.kind = GY_NURSERY_END};
    if (!is_hard &&
        gy_packet_send(warden->socket,
                       &(gy_packet){.data = &order, .size_bytes = sizeof(order)}) < 0) {
        gy_debug("the nursery is gone before its end: %s", gy_error_text());
    }
    (void)shutdown(warden->socket, SHUT_WR);
}

int gy_warden_lost(gy_warden *warden)
{
    pid_t process = warden->nurseries[warden->nursery_count - 1];
    close(warden->socket);
    warden->socket = -1;
    /* Its guardian closes the socket with its last step. */
    int status =
        gy_child_wait(warden->env, process, gy_env_deadline(warden->env, leave_seconds));
    gy_limits_sweep(process, warden->role.processes);
    warden->is_unwalled =
        status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == GY_NURSERY_OPEN;
    return status;
}

/* Its socket ends when all it had is gone. */
static void wait_for_nursery(gy_warden *warden)
{
    gy_deadline last = gy_env_deadline(warden->env, CLOSE_SECONDS);
    while (gy_now_ns(warden->env) < last.at_ns) {
        gy_nursery_news news;
        gy_status status = gy_warden_hear(warden, &news);
        if (status < 0) {
            break;
        }
        struct pollfd look = {.fd = warden->socket, .events = POLLIN};
        if (status == GY_AGAIN) {
            (void)poll(&look, 1, 100);
        }
    }
    close(warden->socket);
    warden->socket = -1;
    (void)gy_child_wait(warden->env, warden->nurseries[warden->nursery_count - 1], last);
}

void gy_warden_close(gy_warden *warden, bool is_hard)
{
    if (warden->socket >= 0) {
        gy_warden_end(warden, is_hard);
        wait_for_nursery(warden);
    }
    for (size_t i = 0; i < warden->nursery_count; i++) {
        gy_limits_sweep(warden->nurseries[i], warden->role.processes);
    }
    gy_free(warden->nurseries);
    warden->nurseries = NULL;
    warden->nursery_count = 0;
    gy_boards_unmap(warden->boards, warden->role.processes * warden->role.threads);
    warden->boards = NULL;
    if (warden->boards_file >= 0) {
        close(warden->boards_file);
        warden->boards_file = -1;
    }
}
