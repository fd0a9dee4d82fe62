/**
 * The parent of the vertex processes, and what is said to it and by it.
 */
#ifndef GY_WORKER_FORK_SERVER_H
#define GY_WORKER_FORK_SERVER_H

#include "worker/sandbox/sandbox.h"
#include "worker/start.h"
#include "worker/worker.h"

/** To the fork server. SPAWN brings the vertex process's socket and log. */
typedef struct gy_fork_server_order {
    enum { GY_FORK_SERVER_SPAWN = 1, GY_FORK_SERVER_KILL, GY_FORK_SERVER_END } kind;
    uint32_t slot, generation;
} gy_fork_server_order;

/** From the fork server: a vertex process has ended, or could not be made. */
typedef struct gy_fork_server_news {
    uint32_t slot, generation;
    int status;          /* as waitpid tells it */
    int error;           /* errno of a fork that failed; 0 */
    bool is_over_memory; /* it, or what it started, was killed for that */
    bool is_unwalled;    /* no process of any slot will be: the sandbox cannot be entered */
} gy_fork_server_news;

/** Tell the driver that the sandbox cannot be entered; gy_error_text goes to the log. */
void gy_worker_fork_server_refuse(int socket);

/** The reaper's life, which does not return; the fork server's, and (it returns there too) that
 * of each process that it forks; an exit status. `socket` and `boards` are taken. */
int gy_worker_fork_server_run(int socket, const gy_role *role, const gy_sandbox_paths *sandbox,
                              int boards, const gy_worker_ops *ops);

#endif
