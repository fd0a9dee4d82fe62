/**
 * Processes of a job: the side that works. gy_worker_serve is called by the job's own program
 * when it was started to serve; the side that hands out tasks is gy_driver_run (driver.h).
 *
 *     driver --exec--> reaper --fork--> fork server --fork--> vertex process 0, 1, ...
 *        \________________________socket_________________________/
 *
 * The fork server is one process a job. It loads the program once and forks the vertex
 * processes, adopts what they leave behind and kills it, and kills them all when the driver's
 * end of its socket closes, however that comes about; when the fork server is killed the kernel
 * kills them, and the reaper above it what they leave.
 */
#ifndef GY_WORKER_WORKER_H
#define GY_WORKER_WORKER_H

#include "sched/job.h"

struct gy_role; /* start.h */
struct gy_packet;

enum { GY_BOARD_BYTES = 128 };

/** A task to run. */
typedef struct gy_worker_task {
    gy_attempt id;
    gy_key key;
    uint32_t member;
    const void *message; /* as `encode` wrote it; borrowed for the call */
    size_t message_bytes;
    void *board;  /* (GY_BOARD_BYTES) zeroed memory that the manager's side reads however this
                     task fails, also when its process dies under it */
    void *runner; /* for gy_worker_tell and its like */
} gy_worker_task;

/** How it ended: zero at first, `run` fills it in, the caller frees the texts. */
typedef struct gy_worker_answer {
    gy_cause cause; /* GY_CAUSE_NONE: done */
    uint32_t input; /* GY_CAUSE_LOST_INPUT: which */
    gy_key content;
    gy_text report; /* bytes */
    gy_text reason; /* of a failure, one line */
} gy_worker_answer;

typedef struct gy_worker_ops {
    /* Run one task to its end, on one of the process's threads. `is_cancelled` turns true when
     * its end is of no use any more. */
    void (*run)(void *arg, const gy_worker_task *task, const _Atomic bool *is_cancelled,
                gy_worker_answer *answer);
    /* Optional: what gy_driver_ops.welcome wrote, before the first task. A failure ends the
     * process.
     */
    gy_status (*welcome)(void *arg, const void *message, size_t message_bytes);
    /* Optional: gy_gang_serve (gang.h), where ranks can be started. */
    int (*gang)(int socket, const struct gy_role *role, struct gy_packet *packet,
                const char *texts);
    void *arg;
} gy_worker_ops;

enum { GY_WORKER_WORDS_BYTES = 1024 };

/** Within `run`, of a member of a task: what the others of this attempt may ask for from now
 * on, instead of what it told before; 1 to GY_WORKER_WORDS_BYTES. @threads the task's */
void gy_worker_tell(const gy_worker_task *task, const void *words, size_t size_bytes);
/**
 * What another member has told; asks the manager's side, so be patient between two calls.
 * @return GY_OK; GY_AGAIN not known yet
 */
GY_MUST_CHECK gy_status gy_worker_ask(const gy_worker_task *task, uint32_t member,
                                      char words[GY_WORKER_WORDS_BYTES + 1]);
/** To gy_driver_ops.said; blocks while the manager's side does not take it. NULL: how it ended.
 */
void gy_worker_say(const gy_worker_task *task, const void *text, size_t size_bytes,
                   int exit_status);

/** To gy_driver_ops.traced: rows of this thread's trace, as gy_trace_take made them. */
void gy_worker_trace(const gy_worker_task *task, const void *rows, size_t size_bytes);

/** The number of the socket when this process was started to serve, -1 when it was not.
 * @threads any */
int gy_worker_socket(void);

/**
 * Serve; to be called before the program starts threads. Returns in the fork server and in
 * every vertex process that it has forked: leave main with the status returned. Standard output
 * and standard error are the process's log, standard input is empty.
 *
 * @param socket  gy_worker_socket(), taken
 * @return an exit status: 0 the manager has ended this; 1 a failure, said on standard error
 */
int gy_worker_serve(int socket, const gy_worker_ops *ops);

#endif
