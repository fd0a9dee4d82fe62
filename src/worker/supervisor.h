/**
 * A supervisor controls a fork server: it starts the fork server, orders processes for its
 * slots, receives news about them, and cleans up after it. The driver on one machine has one; a
 * daemon has one for each job. Only gy_supervisor_close waits.
 */
#ifndef GY_WORKER_SUPERVISOR_H
#define GY_WORKER_SUPERVISOR_H

#include "worker/board.h"
#include "worker/fork_server.h"
#include "worker/sandbox/sandbox.h"

/** Zero, then filled in down to `folder`. @threads one at a time */
typedef struct gy_supervisor {
    gy_env *env;
    gy_worker_start start;
    gy_role role;              /* processes, threads, limits; the supervisor sets the rest */
    const gy_sandbox *sandbox; /* as gy_sandbox_settle left it, with the job's folders among its
                                  paths; borrowed; NULL: none */
    const char *folder;        /* with a folder log/ for the processes; borrowed */
    int socket;                /* to the fork server, for the caller to poll; -1: none */
    gy_board *boards;          /* (processes, threads) */
    int boards_file;
    pid_t *fork_servers; /* (count) only the last one may be alive */
    size_t fork_server_count, fork_server_room;
    bool has_sandbox_failed; /* a fork server could not enter its sandbox */
} gy_supervisor;

/**
 * Create the boards. gy_supervisor_close is allowed after a failure, too. GY_LIMIT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_supervisor_open(gy_supervisor *supervisor);
/**
 * Start a fork server if there is none. GY_LIMIT: too many have died; GY_STATE: the last one
 * could not enter its sandbox, its reason is on standard error; GY_NOMEM; GY_PEER
 */
GY_MUST_CHECK gy_status gy_supervisor_start(gy_supervisor *supervisor);
/**
 * Start a process in a free slot. *socket: this end of its stream, owned by the caller. News
 * report its end. GY_LIMIT; GY_PEER; GY_TIMEOUT: nothing was started
 */
GY_MUST_CHECK gy_status gy_supervisor_spawn(gy_supervisor *supervisor, uint32_t slot,
                                            uint32_t generation, int *socket);
/** Kill the process and all that it started. */
void gy_supervisor_kill(const gy_supervisor *supervisor, uint32_t slot, uint32_t generation);
/** Receive the next news. GY_AGAIN none; GY_PEER it has ended, or cannot enter its sandbox:
 * call gy_supervisor_lost */
GY_MUST_CHECK gy_status gy_supervisor_handle(gy_supervisor *supervisor,
                                             gy_fork_server_news *news);
/** The board's lines of a slot. */
gy_board *gy_supervisor_boards(const gy_supervisor *supervisor, uint32_t slot);
/** Mark the slot as running nothing. */
void gy_supervisor_clear(const gy_supervisor *supervisor, uint32_t slot);
/**
 * Explain the end of a process for users, without its log. `is_killed`: this side ordered it.
 */
void gy_supervisor_explain(const gy_supervisor *supervisor, const gy_fork_server_news *news,
                           bool is_killed, gy_text *reason);
/** Let the fork server end, in order; `is_hard`: by closing its socket. */
void gy_supervisor_end(const gy_supervisor *supervisor, bool is_hard);
/** After its socket has ended: return its status as from waitpid, and kill what it left. */
int gy_supervisor_lost(gy_supervisor *supervisor);
/** End the fork server, wait for it (20 s at most), and free everything. */
void gy_supervisor_close(gy_supervisor *supervisor, bool is_hard);

#endif
