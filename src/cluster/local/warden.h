/**
 * A warden: the side of a nursery that orders. It starts the nursery, gives its slots
 * processes, hears what became of them, and clears up behind it. The driver of one machine has
 * one; a daemon has one for each job. Nothing here waits but gy_warden_close.
 */
#ifndef GY_CLUSTER_WARDEN_H
#define GY_CLUSTER_WARDEN_H

#include "cluster/local/board.h"
#include "cluster/local/nursery.h"
#include "cluster/sandbox.h"

/** Zero, then filled in down to `folder`. @threads one at a time */
typedef struct gy_warden {
    gy_env *env;
    gy_worker_start start;
    gy_role role;              /* processes, threads, limits; the warden fills in the rest */
    const gy_sandbox *sandbox; /* walls, as gy_sandbox_settle left them, with the job's folders
                                  in its paths; borrowed; NULL: none */
    const char *folder;        /* whose log/ the processes have; borrowed */
    int socket;                /* to the nursery, to be watched; -1: there is none */
    gy_board *boards;          /* (processes, threads) */
    int boards_file;
    pid_t *nurseries; /* (count) the last one is the one that lives */
    size_t nursery_count, nursery_room;
    bool is_unwalled; /* the last one could not be walled in */
} gy_warden;

/** Boards. It may be closed after a failure, too. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_warden_open(gy_warden *warden);
/** Start a nursery, when there is none. GY_LIMIT too many have gone; GY_STATE the last one
 * could not be walled in, as it said on standard error; GY_NOMEM; GY_PEER */
GY_MUST_CHECK gy_status gy_warden_start(gy_warden *warden);
/** A process into a free slot. *socket: our end of its stream, the caller's. What becomes of it
 * is told as news. GY_LIMIT; GY_PEER; GY_TIMEOUT: nothing was started */
GY_MUST_CHECK gy_status gy_warden_spawn(gy_warden *warden, uint32_t slot, uint32_t generation,
                                        int *socket);
/** Kill it, with all it started. */
void gy_warden_kill(const gy_warden *warden, uint32_t slot, uint32_t generation);
/** What it says next. GY_AGAIN nothing; GY_PEER it is gone: gy_warden_lost is due */
GY_MUST_CHECK gy_status gy_warden_hear(const gy_warden *warden, gy_nursery_news *news);
/** The lines of a slot. */
gy_board *gy_warden_boards(const gy_warden *warden, uint32_t slot);
/** Nothing runs in the slot any more. */
void gy_warden_clear(const gy_warden *warden, uint32_t slot);
/** Why a process is gone, for people, without the end of its log. `is_killed`: as ordered. */
void gy_warden_explain(const gy_warden *warden, const gy_nursery_news *news, bool is_killed,
                       gy_text *reason);
/** Let the nursery end, orderly unless `is_hard`: then its socket ends. */
void gy_warden_end(const gy_warden *warden, bool is_hard);
/** Its socket has ended: its status as waitpid tells it. What it left is killed. */
int gy_warden_lost(gy_warden *warden);
/** End it, wait for that, 20 s at most, and free all. */
void gy_warden_close(gy_warden *warden, bool is_hard);

#endif
