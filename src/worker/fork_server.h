/** The fork server, which is the parent of the vertex processes, and its messages. */
#ifndef GY_WORKER_FORK_SERVER_H
#define GY_WORKER_FORK_SERVER_H

#include "worker/sandbox/sandbox.h"
#include "worker/start.h"
#include "worker/worker.h"

/** An order to the fork server. SPAWN carries the vertex process's socket and log. */
typedef struct gy_fork_server_order {
    enum { GY_FORK_SERVER_SPAWN = 1, GY_FORK_SERVER_KILL, GY_FORK_SERVER_END } kind;
    uint32_t slot, generation;
} gy_fork_server_order;

/** From the fork server: a vertex process has ended, or could not be started. */
typedef struct gy_fork_server_news {
    uint32_t slot, generation;
    int status;          /* as waitpid reports it */
    int error;           /* errno of a failed fork; 0 */
    bool is_over_memory; /* the process, or one that it started, was killed for its memory */
    bool has_sandbox_failed; /* no process of any slot will be: the sandbox cannot be entered */
} gy_fork_server_news;

/** Tell the driver that the sandbox cannot be entered; gy_error_text goes to the log. */
void gy_worker_fork_server_refuse(int socket);

/**
 * Run the reaper (does not return), the fork server, and each process that it forks (both
 * return an exit status). Takes `socket` and `boards`.
 */
int gy_worker_fork_server_run(int socket, const gy_role *role, const gy_sandbox_paths *sandbox,
                              int boards, const gy_worker_ops *ops);

#endif
