/**
 * The processes of a job that run its tasks. The job's own program calls gy_worker_serve when
 * it was started to serve; gy_driver_run (driver.h) hands out the tasks.
 *
 *     driver --exec--> reaper --fork--> fork server --fork--> vertex process 0, 1, ...
 *        \________________________socket_________________________/
 *
 * Each job has one fork server. It loads the program once, forks the vertex processes, adopts
 * and kills the processes they leave behind, and kills all of them when the driver's end of its
 * socket closes for any reason. If the fork server is killed, the kernel kills the vertex
 * processes, and the reaper kills what they leave.
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
    void *board;  /* (GY_BOARD_BYTES) zeroed memory that the manager's side reads if this task
                     fails, even when its process dies */
    void *runner; /* for gy_worker_publish and related calls */
} gy_worker_task;

/** The result of a task: zero at first, `run` fills it in, the caller frees the texts. */
typedef struct gy_worker_answer {
    gy_cause cause; /* GY_CAUSE_NONE: success */
    uint32_t input; /* GY_CAUSE_LOST_INPUT: which input */
    gy_key content;
    gy_text report; /* bytes */
    gy_text reason; /* of a failure, one line */
} gy_worker_answer;

typedef struct gy_worker_ops {
    /* Run one task to its end, on one of the process's threads. `is_cancelled` becomes true
     * when the result is no longer needed. */
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

/**
 * Within `run`, in a member of a task: publish data that the other members of this attempt may
 * ask for; replaces what it published before; 1 to GY_WORKER_WORDS_BYTES. @threads the task's
 */
void gy_worker_publish(const gy_worker_task *task, const void *words, size_t size_bytes);
/**
 * Get the data that another member has published. Each call asks the manager's side, so pause
 * between two calls.
 * @return GY_OK; GY_AGAIN nothing published yet
 */
GY_MUST_CHECK gy_status gy_worker_ask(const gy_worker_task *task, uint32_t member,
                                      char words[GY_WORKER_WORDS_BYTES + 1]);
/**
 * Send output to gy_driver_ops.said; blocks until the manager's side takes it. NULL: the ranks'
 * exit status.
 */
void gy_worker_output(const gy_worker_task *task, const void *text, size_t size_bytes,
                      int exit_status);

/** Send rows of this thread's trace, from gy_trace_take, to gy_driver_ops.traced. */
void gy_worker_trace(const gy_worker_task *task, const void *rows, size_t size_bytes);

/**
 * The descriptor of the socket if this process was started to serve, else -1.
 * @threads any
 */
int gy_worker_socket(void);

/**
 * Serve; call it before the program starts threads. Returns in the fork server and in every
 * vertex process that it has forked: leave main with the status returned. Standard output and
 * standard error are the process's log, standard input is empty.
 *
 * @param socket  gy_worker_socket(), taken
 * @return an exit status: 0 the manager has ended it; 1 a failure, described on standard error
 */
int gy_worker_serve(int socket, const gy_worker_ops *ops);

#endif
