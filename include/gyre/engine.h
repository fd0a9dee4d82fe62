/**
 * The dependency engine: all work of a process is pushed as a task that reads and mutates
 * variables.
 *
 * Reads of a variable may overlap, mutations happen in the order pushed. An asynchronous
 * operation keeps its gy_done and ends it later, from any thread.
 *
 * Who computes. `workers` counts the threads that compute, and the thread that made the engine
 * is one of them: it runs tasks whenever it waits (gy_engine_wait and its kin, gy_engine_free),
 * and the engine starts workers - 1 threads beside it. With one worker there is no other
 * thread, hence no wake-up between threads: compute and network tasks and progress calls then
 * move only while some thread waits. So wait through the engine, never on a lock or signal of
 * your own that a task would release. Blocking tasks, and ends from other threads, go on at any
 * time. Any other thread that waits helps too while it waits. A thread that is more than 512
 * tasks ahead runs some of its ready ones inside gy_engine_push: hold no lock that tasks take
 * while you push or wait.
 *
 * @source lecture B, "Recap: Parallel Scheduling Engine"; Chen et al., "MXNet", 2015
 */
#ifndef GYRE_ENGINE_H
#define GYRE_ENGINE_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gy_engine gy_engine; /* workers and their queues */
typedef struct gy_var gy_var; /* a version of something ordered: a buffer, a file, a stream */
typedef struct gy_scope gy_scope; /* a group of tasks: cancel, deadline, first error */
typedef struct gy_done gy_done;   /* the end of one task, used exactly once */

/** Where a task may run. */
typedef enum gy_lane {
    GY_LANE_COMPUTE,  /* a compute worker */
    GY_LANE_BLOCKING, /* a thread that may sleep in the kernel (files, pipes); 64 at most */
    GY_LANE_NETWORK,  /* starts communication and returns; runs at once, before compute */
} gy_lane;

/**
 * A task's body: ends `done` once, now or later, with gy_done_ok or gy_done_fail. An end takes
 * effect when the body has returned, too.
 */
typedef void (*gy_work)(void *arg, gy_done *done);

typedef struct gy_engine_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    /* Threads that compute, the caller included; 0: the cores of this process's cpuset divided
     * by ranks_on_host, at least 1. */
    int workers;
    /* 0 is 1. Waits spin where workers * ranks_on_host <= cores, else they yield. */
    int ranks_on_host;
    /* Pin worker i to the i-th core of the cpuset, the caller (until gy_engine_free) to the
     * first; threads that a bound one starts inherit its core. */
    bool bind;
    /* Bytes admitted at once (gy_task.bytes); 0: no limit. A task larger than the budget is
     * admitted alone. Pushes inside a task never wait and may exceed it. */
    size_t memory_budget;
    /* Tasks alive at once before push waits, but not inside a task; 0: 1 << 20. */
    size_t task_limit;
} gy_engine_options;

/** One unit of work; zero fields are the defaults. Arrays are borrowed for the push only. */
typedef struct gy_task {
    const char *name; /* static; shown in traces and errors */
    gy_work run;
    void *arg;
    gy_scope *scope; /* NULL: none */
    gy_lane lane;
    gy_var *const *reads;
    size_t read_count;
    gy_var *const *mutates; /* a variable listed in both counts once, as mutated */
    size_t mutate_count;
    int priority;       /* among ready tasks, higher first */
    size_t bytes;       /* memory it will take, admitted under the budget */
    bool runs_poisoned; /* called even when an input failed (gy_done_cause tells): collectives
                           do */
} gy_task;

/**
 * Start an engine; options NULL are the defaults. The calling thread becomes worker 0. Caller
 * owns it.
 * @return GY_ARG workers or ranks_on_host < 0; GY_NOMEM @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_engine_new(const gy_engine_options *options,
                                             gy_engine **engine);
/** Waits for all pushed tasks, then ends the workers. NULL is fine. Not from a task. */
GY_API void gy_engine_free(gy_engine *engine);
GY_API int gy_engine_workers(const gy_engine *engine);

/** What an engine has done since it was made. */
typedef struct gy_engine_counts {
    uint64_t tasks; /* that have ended */
    int64_t
        idle_ns; /* that worker 0 waited with nothing to run: exposed communication and input */
} gy_engine_counts;

/** @threads any; exact only while nothing runs */
GY_API gy_engine_counts gy_engine_count(const gy_engine *engine);

/** A variable of the engine; caller owns it. @return GY_OK; GY_NOMEM @threads any */
GY_API GY_MUST_CHECK gy_status gy_var_new(gy_engine *engine, gy_var **var);
/** Frees after all tasks pushed on it so far; the caller must not use it any more. NULL is
 * fine. */
GY_API void gy_var_free(gy_var *var);

/** A group of tasks; caller owns it. `deadline` bounds it: later tasks fail with GY_TIMEOUT.
 * @return GY_OK; GY_NOMEM @threads any */
GY_API GY_MUST_CHECK gy_status gy_scope_new(gy_engine *engine, gy_deadline deadline,
                                            gy_scope **scope);
/** Waits for the group's tasks, then frees it. NULL is fine. */
GY_API void gy_scope_free(gy_scope *scope);
/**
 * Tasks of the group that have not begun, and later ones, end with GY_CANCELLED; runs_poisoned
 * ones run and see it as their cause. @threads any
 */
GY_API void gy_scope_cancel(gy_scope *scope);

/**
 * Push a task; returns at once unless task_limit or memory_budget makes it wait. @threads any,
 * also tasks
 * @return GY_OK; GY_ARG an array is NULL with a count or run is NULL; GY_NOMEM (nothing was
 * pushed)
 */
GY_API GY_MUST_CHECK gy_status gy_engine_push(gy_engine *engine, const gy_task *task);

/**
 * Wait for all tasks pushed so far on `var`, helping to run ready ones. Inside a task: not for
 * a variable that this task holds, nor for tasks that depend on it.
 * @return GY_OK; the failure that poisoned the variable (its text in gy_error_text); GY_TIMEOUT
 */
GY_API GY_MUST_CHECK gy_status gy_engine_wait(gy_engine *engine, gy_var *var,
                                              gy_deadline deadline);
/**
 * The same for all tasks of a group: its first error; GY_TIMEOUT also at the scope's deadline.
 * A failed scope stays failed.
 */
GY_API GY_MUST_CHECK gy_status gy_scope_wait(gy_scope *scope, gy_deadline deadline);
/** The same for all tasks of the engine; no error of theirs is returned here. Not in a task. */
GY_API GY_MUST_CHECK gy_status gy_engine_wait_all(gy_engine *engine, gy_deadline deadline);

/**
 * End a task. A failure poisons what it mutates, until gy_var_heal: what reads or mutates that
 * later does not run and fails alike. @threads any
 */
GY_API void gy_done_ok(gy_done *done);
/** `status` < 0; the text is "task NAME: " and this thread's gy_error_text(). */
GY_API void gy_done_fail(gy_done *done, gy_status status);
/** For runs_poisoned tasks: GY_OK, or what its inputs failed with (text in gy_error_text). */
GY_API gy_status gy_done_cause(gy_done *done);

/** Wait for all tasks on it, then clear a poisoned variable: the next task sees it healthy. */
GY_API void gy_var_heal(gy_var *var);

/**
 * Call fn(arg, begin, end) over pieces of [0, count) of about `grain` items, on idle workers
 * and the caller; returns when all are done. Pieces depend on count and grain alone, never on
 * timing. engine may be NULL: serial. @threads any, also inside a task
 */
GY_API void gy_parallel_for(gy_engine *engine, int64_t count, int64_t grain,
                            void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);

/**
 * Drive communication: `progress(arg)` is called by whoever waits and by workers between tasks,
 * never concurrently with itself; returns true when it moved something. It may push and end
 * tasks, but not wait. While all is quiet it is called about every 0.2 ms by
 * whoever waits, every 1 ms by idle workers.
 * @return GY_OK; GY_LIMIT when 16 are driven already
 */
GY_API GY_MUST_CHECK gy_status gy_engine_add_progress(gy_engine *engine,
                                                      bool (*progress)(void *arg), void *arg);
/** Returns once no call of it is running. Not from a progress function. */
GY_API void gy_engine_remove_progress(gy_engine *engine, bool (*progress)(void *arg),
                                      void *arg);

#ifdef __cplusplus
}
#endif
#endif
