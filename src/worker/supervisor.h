/**
 * A supervisor: the side of a fork server that orders. It starts the fork server, gives its
 * slots processes, hears what became of them, and clears up behind it. The driver of one
 * machine has one; a daemon has one for each job. Nothing here waits but gy_supervisor_close.
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
    gy_role role; /* processes, threads, limits; the supervisor fills in the rest */
    const gy_sandbox *sandbox; /* sandbox, as gy_sandbox_settle left them, with the job's
                                  folders in its paths; borrowed; NULL: none */
    const char *folder;        /* whose log/ the processes have; borrowed */
    int socket;                /* to the fork server, to be watched; -1: there is none */
    gy_board *boards;          /* (processes, threads) */
    int boards_file;
    pid_t *fork_servers; /* (count) the last one is the one that lives */
    size_t fork_server_count, fork_server_room;
    bool is_unwalled; /* one has told that it cannot be sandboxed */
} gy_supervisor;

/** Boards. It may be closed after a failure, too. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_supervisor_open(gy_supervisor *supervisor);
/** Start a fork server, when there is none. GY_LIMIT too many have gone; GY_STATE the last one
 * could not be walled in, as it said on standard error; GY_NOMEM; GY_PEER */
GY_MUST_CHECK gy_status gy_supervisor_start(gy_supervisor *supervisor);
/** A process into a free slot. *socket: our end of its stream, the caller's. What becomes of it
 * is told as news. GY_LIMIT; GY_PEER; GY_TIMEOUT: nothing was started */
GY_MUST_CHECK gy_status gy_supervisor_spawn(gy_supervisor *supervisor, uint32_t slot,
                                            uint32_t generation, int *socket);
/** Kill it, with all it started. */
void gy_supervisor_kill(const gy_supervisor *supervisor, uint32_t slot, uint32_t generation);
/** What it says next. GY_AGAIN nothing; GY_PEER it is gone, or cannot be sandboxed:
 * gy_supervisor_lost is due */
GY_MUST_CHECK gy_status gy_supervisor_handle(gy_supervisor *supervisor,
                                             gy_fork_server_news *news);
/** The lines of a slot. */
gy_board *gy_supervisor_boards(const gy_supervisor *supervisor, uint32_t slot);
/** Nothing runs in the slot any more. */
void gy_supervisor_clear(const gy_supervisor *supervisor, uint32_t slot);
/** Why a process is gone, for people, without the end of its log. `is_killed`: as ordered. */
void gy_supervisor_explain(const gy_supervisor *supervisor, const gy_fork_server_news *news,
                           bool is_killed, gy_text *reason);
/** Let the fork server end, orderly unless `is_hard`: then its socket ends. */
void gy_supervisor_end(const gy_supervisor *supervisor, bool is_hard);
/** Its socket has ended: its status as waitpid tells it. What it left is killed. */
int gy_supervisor_lost(gy_supervisor *supervisor);
/** End it, wait for that, 20 s at most, and free all. */
void gy_supervisor_close(gy_supervisor *supervisor, bool is_hard);

#endif
