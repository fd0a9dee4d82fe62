/* A vertex that is ranks of the tensor wing: another process of this program starts them, since
 * the vertex process has threads, and what starts ranks forks. */
#include "cluster/local/local_priv.h"

#include <gyre/launch.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 20, END_SECONDS = 15 };

/* ---- in the process started for it ---- */

/* Cut texts that each end in NUL into a list that ends with NULL; NULL: they are none, or no
 * memory.
 */
static const char **list_arguments(const char *arguments, size_t size_bytes)
{
    size_t count = 0;
    if (size_bytes == 0 || arguments[size_bytes - 1] != '\0') {
        return NULL;
    }
    for (size_t at = 0; at < size_bytes; at += strlen(arguments + at) + 1) {
        count++;
    }
    const char **list = gy_alloc("cluster.gang", (count + 1) * sizeof(*list));
    size_t index = 0;
    for (size_t at = 0; list != NULL && at < size_bytes; at += strlen(arguments + at) + 1) {
        list[index++] = arguments + at;
    }
    if (list != NULL) {
        list[index] = NULL;
    }
    return list;
}

int gy_gang_keep(int socket, const gy_role *role, const char *arguments, size_t size_bytes)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != role->starter) {
        close(socket);
        return 1;
    }
    int status = 1;
    const char **list = list_arguments(arguments, size_bytes);
    if (list == NULL) {
        fprintf(stderr, "gyre: a gang was started with no program\n");
    } else {
        gy_run_options options = {.ranks = role->ranks,
                                  .has_prefix = true,
                                  .has_no_binding = true,
                                  .timeout_seconds = role->timeout_seconds};
        status = gy_run(&options, (char *const *)(uintptr_t)list);
    }
    gy_free(list);
    close(socket); /* tells that it has ended */
    return status;
}

/* ---- in the vertex process ---- */

static gy_status send_role(int socket, const gy_gang *gang)
{
    gy_role role = {.kind = GY_ROLE_GANG,
                    .starter = getpid(),
                    .ranks = gang->ranks,
                    .timeout_seconds = gang->timeout_seconds};
    gy_text text = {.data = NULL};
    gy_text_add_bytes(&text, &role, sizeof(role));
    for (int i = 0; gang->argv[i] != NULL; i++) {
        gy_text_add_bytes(&text, gang->argv[i], strlen(gang->argv[i]) + 1);
    }
    gy_status status = text.status;
    if (status == GY_OK && text.size_bytes > GY_PACKET_BYTES) {
        status = gy_fail(GY_ARG, "a gang's arguments have %zu bytes, at most %d",
                         text.size_bytes, GY_PACKET_BYTES);
    }
    if (status == GY_OK) {
        status = gy_packet_send(socket,
                                &(gy_packet){.data = text.data, .size_bytes = text.size_bytes});
    }
    gy_text_free(&text);
    return status;
}

/* Until its socket closes; asks it to end once when the task is cancelled. False: it did not
 * end. */
static bool wait_for_end(int socket, pid_t process, const _Atomic bool *is_cancelled)
{
    gy_env *env = gy_env_real();
    gy_deadline last = GY_NEVER;
    for (;;) {
        struct pollfd look = {.fd = socket, .events = POLLIN};
        if (poll(&look, 1, LOOK_MS) > 0) {
            return true;
        }
        bool must_end = atomic_load_explicit(is_cancelled, memory_order_relaxed);
        if (must_end && last.at_ns == INT64_MAX) {
            kill(process, SIGTERM);
            last = gy_env_deadline(env, END_SECONDS);
        }
        if (gy_now_ns(env) >= last.at_ns) {
            return false;
        }
    }
}

gy_status gy_gang_run(const gy_gang *gang, const _Atomic bool *is_cancelled)
{
    if (gang->ranks < 1 || gang->ranks > GY_RUN_RANKS_MAX || gang->argv == NULL ||
        gang->argv[0] == NULL || !(gang->timeout_seconds >= 0)) {
        return gy_fail(GY_ARG, "a gang of %d ranks: expected 1 to %d, a program, and a time",
                       gang->ranks, GY_RUN_RANKS_MAX);
    }
    gy_env *env = gy_env_real();
    int socket = -1;
    pid_t process = 0;
    GY_TRY(gy_start_self(&(gy_start){0}, &socket, &process));
    gy_status sent = send_role(socket, gang);
    bool has_ended = sent == GY_OK && wait_for_end(socket, process, is_cancelled);
    int status = gy_child_wait(env, process, gy_env_deadline(env, has_ended ? END_SECONDS : 0));
    close(socket);
    GY_TRY(sent);
    if (atomic_load_explicit(is_cancelled, memory_order_relaxed)) {
        return gy_fail(GY_CANCELLED, "the gang was cancelled with its task");
    }
    if (status == 0) {
        return GY_OK;
    }
    if (status != -1 && WIFEXITED(status)) {
        int code = WEXITSTATUS(status);
        return code == GY_RUN_STATUS_TIMEOUT
                   ? gy_fail(GY_TIMEOUT, "%d ranks of %s did not end within %g s", gang->ranks,
                             gang->argv[0], gang->timeout_seconds)
                   : gy_fail(GY_PEER, "%d ranks of %s ended with exit status %d", gang->ranks,
                             gang->argv[0], code);
    }
    return gy_fail(GY_PEER, "the starter of %d ranks of %s was killed by signal %d",
                   gang->ranks, gang->argv[0], status == -1 ? 0 : WTERMSIG(status));
}
