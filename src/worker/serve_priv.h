/** Shared by the files that run in the job's processes. */
#ifndef GY_WORKER_SERVE_PRIV_H
#define GY_WORKER_SERVE_PRIV_H

#include "worker/board.h"
#include "worker/fork_server.h"
#include "worker/limits.h"
#include "worker/start.h"
#include "worker/wire.h"

/* ---- reaper.c: the parent of the fork server ---- */

/**
 * Fork. The child returns and becomes the fork server; *watch breaks when its reaper ends. This
 * process does not return: it ends with its child's status, after all processes left by the
 * child have ended. GY_LIMIT
 */
GY_MUST_CHECK gy_status gy_worker_reaper_split(const gy_role *role, int *watch);

/* ---- serve.c: a vertex process ---- */

typedef struct gy_worker_serving {
    int socket; /* taken */
    uint32_t threads;
    gy_board *boards; /* (threads) */
    const gy_worker_ops *ops;
} gy_worker_serving;

/**
 * Serve until the other end closes; an exit status. While a task runs it does not return but
 * ends the process.
 */
int gy_worker_serve_tasks(const gy_worker_serving *serving);

#endif
