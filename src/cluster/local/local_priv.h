/**
 * The real half of room cluster: processes, sockets, files. What its files tell each other.
 */
#ifndef GY_CLUSTER_LOCAL_PRIV_H
#define GY_CLUSTER_LOCAL_PRIV_H

#include "cluster/journal.h"
#include "cluster/sandbox.h"
#include "cluster/wire.h"
#include "cluster/worker.h"

#include <gyre/launch.h>

#include <stdatomic.h>
#include <sys/types.h>

/* ---- start.c: another process of this program, and packets with descriptors ---- */

/** What a process that was started to serve is told first; the arguments of a gang follow it,
 * or the paths of a nursery's walls. */
typedef struct gy_role {
    enum { GY_ROLE_NURSERY = 1, GY_ROLE_GANG } kind;
    uint32_t processes, threads; /* nursery */
    size_t memory_bytes;         /* nursery: of a vertex process */
    uint32_t parts;              /* nursery: of its walls, GY_SANDBOX_ */
    pid_t starter;               /* its parent */
    /* A gang: the texts that follow are its variables, `variables` of them, then its program
     * and arguments; of several hosts (run.nodes above 1) node 0's address and, unless
     * run.is_plain, the key before them. A descriptor comes along when what ranks print shall
     * go there. */
    gy_run_options run;
    uint32_t variables;
} gy_role;

enum { GY_PACKET_FILES = 2, GY_PACKET_BYTES = 128 << 10 };

typedef struct gy_packet {
    void *data;
    size_t size_bytes; /* in: room; out: what came */
    int files[GY_PACKET_FILES];
    int file_count;
} gy_packet;

/** How to start a program that serves; all borrowed, NULL: as this process. */
typedef struct gy_worker_start {
    char *const *argv;        /* the first is its path; NULL: /proc/self/exe */
    char *const *environment; /* GYRE_VERTEX is added */
    const char *directory;
} gy_worker_start;

/** Start this program again, or another. `socket` is ours, blocking, packets of up to
 * GY_PACKET_BYTES. GY_LIMIT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_worker_start_self(const gy_worker_start *start, int *socket,
                                             pid_t *process);
/** GY_PEER; GY_TIMEOUT the other side has not read for 10 s */
GY_MUST_CHECK gy_status gy_packet_send(int socket, const gy_packet *packet);
/** GY_AGAIN none is there (when not to wait); GY_PEER the end; GY_FORMAT too long, cut */
GY_MUST_CHECK gy_status gy_packet_receive(int socket, gy_packet *packet, bool is_waiting);
/** Wait for a child, which has been told to end, until the deadline: then it is killed. Its
 * status as waitpid tells it, -1 it is lost. */
int gy_child_wait(gy_env *env, pid_t child, gy_deadline deadline);

/* ---- nursery.c: the parent of the vertex processes ---- */

/** To the nursery. SPAWN brings the vertex process's socket and log. */
typedef struct gy_nursery_order {
    enum { GY_NURSERY_SPAWN = 1, GY_NURSERY_KILL, GY_NURSERY_END } kind;
    uint32_t slot, generation;
} gy_nursery_order;

/** From the nursery: a vertex process has ended, or could not be made. */
typedef struct gy_nursery_news {
    uint32_t slot, generation;
    int status;          /* as waitpid tells it */
    int error;           /* errno of a fork that failed; 0 */
    bool is_over_memory; /* it, or what it started, was killed for that */
} gy_nursery_news;

/** Its exit status when it cannot be walled in as it was told to, said on standard error. */
enum { GY_NURSERY_OPEN = 78 };

/** The guardian's life, which does not return; the nursery's, and (it returns there too) that
 * of each process that it forks; an exit status. `socket` and `boards` are taken. */
int gy_nursery_run(int socket, const gy_role *role, const gy_walls *walls, int boards,
                   const gy_worker_ops *ops);

/* ---- ../sandbox/guard.c: the parent of the nursery ---- */

/** Fork: the child returns and is the nursery, *watch breaks when its guardian is gone; this
 * process does not return, and ends with the status of its child once all that is left of it
 * is gone. GY_LIMIT */
GY_MUST_CHECK gy_status gy_guard_split(const gy_role *role, int *watch);

/* ---- limits.c: memory and number of processes ---- */

typedef struct gy_limits {
    char memory[512], pids[512]; /* folders of control groups of this job; "": there is none */
    size_t memory_bytes;
    uint64_t *killed; /* (processes) by the system for memory, at last look */
    uint32_t processes;
    int *entries; /* (processes) written to so as to enter a slot's group of memory; -1: none */
    int most;     /* written to so as to change how many processes may be; -1: no such group */
} gy_limits;

/** In the nursery, before it is walled in: join the job's group of processes. The groups are
 * named by `name`, as gy_limits_sweep finds them. GY_NOMEM */
GY_MUST_CHECK gy_status gy_limits_open(gy_limits *limits, const gy_role *role, pid_t name);
/** In a new vertex process: what holds for it and all it starts. errno, 0 done. */
int gy_limits_enter(const gy_limits *limits, uint32_t slot);
/** Was something in that slot killed for its memory since the last call? */
bool gy_limits_is_over(gy_limits *limits, uint32_t slot);
/** No process of the job can start another one from now on, or they can again. */
void gy_limits_forbid(const gy_limits *limits, bool is_forbidden);
/** In the nursery at its end, and in a vertex process once it has entered: what is open, and
 * the memory. The groups stay for gy_limits_sweep. */
void gy_limits_close(gy_limits *limits);
/** In the guardian, and in the driver after its end, however that came: kill who is left in the
 * groups of that name, where this process is not, and remove them. */
void gy_limits_sweep(pid_t name, uint32_t processes);
/** Remove the groups of jobs that were killed with all who would have removed them: named by a
 * process that is not there, and empty. At most some; what cannot be removed stays.
 * @cost 0.03 ms where there are none */
void gy_limits_collect(void);

/* ---- board.c: what runs in a process, seen from outside ---- */

/** One line a thread of a vertex process, in memory that all share; no two in one cache line.
 */
typedef struct gy_board {
    _Alignas(GY_CACHE_LINE) _Atomic uint32_t is_running; /* written last before, first after */
    _Atomic uint32_t is_cut_off; /* its process ends, as its socket was closed or replaced */
    uint32_t member;
    gy_attempt id;
    _Alignas(16) uint8_t text[GY_BOARD_BYTES]; /* room flow's */
} gy_board;

/** A memory file of lines for processes * threads. Its descriptor. GY_LIMIT */
GY_MUST_CHECK gy_status gy_boards_new(uint32_t lines, int *file);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_boards_map(int file, uint32_t lines, gy_board **boards);
void gy_boards_unmap(gy_board *boards, uint32_t lines);

/* ---- serve.c: a vertex process ---- */

typedef struct gy_worker_serving {
    int socket; /* taken */
    uint32_t threads;
    gy_board *boards; /* (threads) */
    const gy_worker_ops *ops;
} gy_worker_serving;

/** Serve until the other end closes; an exit status. Does not return while a task runs: the
 * process ends then. */
int gy_serve(const gy_worker_serving *serving);

/* ---- gang.c ---- */

/** In the process that was started for a gang, with what came after the role, and where its
 * output goes (-1: as this one's): an exit status. */
int gy_gang_keep(int socket, const gy_role *role, gy_packet *packet, const char *texts);

/* ---- folder.c: the job's folder, its lock and its journal ---- */

typedef struct gy_folder {
    gy_env *env;
    const char *path;
    int lock;            /* -1: not open */
    bool has_lock;       /* else somebody of another epoch has */
    gy_journal *journal; /* NULL: not open */
} gy_folder;

/** Make the folder when it is not there, and take its lock; with an epoch only if nobody has
 * it. GY_STATE another manager has it; GY_IO */
GY_MUST_CHECK gy_status gy_folder_open(gy_folder *folder, gy_env *env, const char *path,
                                       bool has_epoch);
/** Take the lock if the one who had it is gone, so that who lists jobs sees their manager. */
void gy_folder_try_lock(gy_folder *folder);
/** Open the journal, and replay what is there. As gy_journal_open; GY_UNSUPPORTED */
GY_MUST_CHECK gy_status gy_folder_replay(gy_folder *folder, const gy_driver_options *options,
                                         gy_manager *manager);
/** A new file for what a process prints. -1: there is none, a warning is logged. */
int gy_folder_log(const gy_folder *folder, uint32_t slot, uint32_t generation);
/** The last line of a file of the folder, "log/0-1", for people; an empty file is removed. */
void gy_folder_tail(const gy_folder *folder, const char *name, gy_text *out);
/** Append how a process's log ends, if it said anything, as the end of a reason. */
void gy_folder_log_tail(const gy_folder *folder, uint32_t slot, uint32_t generation,
                        gy_text *out);
void gy_folder_close(gy_folder *folder);

#endif
