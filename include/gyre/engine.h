/**
 * The dependency engine: a process pushes all its work as tasks that read and mutate
 * variables.
 *
 * Reads of a variable may overlap, and mutations happen in the order pushed. An asynchronous
 * operation stores its gy_done and ends it later, from any thread.
 *
 * Which threads compute. `workers` counts the threads that compute, and the thread that made
 * the engine is one of them: it runs tasks whenever it waits (in gy_engine_wait, gy_scope_wait,
 * gy_engine_wait_all or gy_engine_free), and the engine starts workers - 1 threads beside it.
 * With one worker there is no other thread, hence no wake-up between threads: compute tasks,
 * network tasks and progress callbacks then run only while some thread waits. So wait through
 * the engine, never on a lock or signal of your own that a task would release. Blocking tasks,
 * and ends from other threads, proceed at any time. Any other thread that waits runs tasks too.
 * A thread that is more than 512 tasks ahead runs some ready tasks inside gy_engine_push, so
 * hold no lock that tasks take while you push or wait.
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
    GY_LANE_COMPUTE, /* a compute worker */
    /* a thread that may block in the kernel (files, pipes); at most 64 threads */
    GY_LANE_BLOCKING,
    GY_LANE_NETWORK, /* starts communication and returns; runs at once, before compute */
} gy_lane;

/**
 * A task's body. It ends `done` exactly once, at once or later, with gy_done_ok or
 * gy_done_fail. The task has ended when it was ended and its body has returned.
 */
typedef void (*gy_work)(void *arg, gy_done *done);

typedef struct gy_engine_options {
    size_t struct_size; /* GY_OPTIONS; 0: the compiled size */
    /* Number of threads that compute, including the caller; 0: the cores of this process's
     * cpuset divided by ranks_on_host, at least 1. */
    int workers;
    /* 0 means 1. A wait spins where workers * ranks_on_host <= cores, otherwise it yields. */
    int ranks_on_host;
    /* Pin worker i to the i-th core of the cpuset, and the caller (until gy_engine_free) to
     * the first. A thread that a pinned thread starts inherits its core. */
    bool bind;
    /* Limit of gy_task.bytes, summed over the tasks that are pushed and have not ended; 0: no
     * limit. A task larger than the budget is admitted alone. A push inside a task never waits
     * and may exceed the budget. */
    size_t memory_budget;
    /* Number of alive tasks at which a push waits, except inside a task; 0: 1 << 20. */
    size_t task_limit;
} gy_engine_options;

/** One unit of work; zero fields are the defaults. The push borrows the arrays for its call
 * only. */
typedef struct gy_task {
    const char *name; /* static; shown in traces and errors */
    gy_work run;
    void *arg;
    gy_scope *scope; /* NULL: none */
    gy_lane lane;
    gy_var *const *reads;
    size_t read_count;
    gy_var *const *mutates; /* a variable listed in both arrays counts once, as mutated */
    size_t mutate_count;
    int priority; /* among ready tasks; higher runs first */
    size_t bytes; /* memory that the task will take; counts against memory_budget */
    /* run even when an input failed (see gy_done_cause), as collectives must */
    bool runs_poisoned;
} gy_task;

/**
 * Start an engine; options NULL are the defaults. The calling thread becomes worker 0. Caller
 * owns the engine.
 * @return GY_OK; GY_ARG workers or ranks_on_host < 0; GY_NOMEM @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_engine_new(const gy_engine_options *options,
                                             gy_engine **engine);
/** Wait for all pushed tasks, then stop the workers and free the engine. NULL is fine. Not from
 * a task. */
GY_API void gy_engine_free(gy_engine *engine);
GY_API int gy_engine_workers(const gy_engine *engine);

/** Counters of an engine since it was made. */
typedef struct gy_engine_counts {
    uint64_t tasks; /* tasks that have ended */
    /* time that worker 0 waited with nothing to run: exposed communication and input */
    int64_t idle_ns;
} gy_engine_counts;

/** Read the counters. @threads any; exact only while no task runs */
GY_API gy_engine_counts gy_engine_count(const gy_engine *engine);

/** Make a variable of the engine; caller owns it. @return GY_OK; GY_NOMEM @threads any */
GY_API GY_MUST_CHECK gy_status gy_var_new(gy_engine *engine, gy_var **var);
/** Free the variable after all tasks pushed on it so far; the caller must not use it
 * afterwards. Does not wait. NULL is fine. @threads any */
GY_API void gy_var_free(gy_var *var);

/** Make a group of tasks; caller owns it. Tasks that begin after `deadline` fail with
 * GY_TIMEOUT. @return GY_OK; GY_NOMEM @threads any */
GY_API GY_MUST_CHECK gy_status gy_scope_new(gy_engine *engine, gy_deadline deadline,
                                            gy_scope **scope);
/** Wait for the group's tasks, then free it. NULL is fine. */
GY_API void gy_scope_free(gy_scope *scope);
/**
 * Cancel the group: tasks that have not begun, and later ones, end with GY_CANCELLED. A
 * runs_poisoned task still runs and gets GY_CANCELLED as its cause. @threads any
 */
GY_API void gy_scope_cancel(gy_scope *scope);

/**
 * Push a task; returns at once unless task_limit or memory_budget makes it wait.
 * @return GY_OK; GY_ARG an array is NULL with a count, or run is NULL; GY_NOMEM (nothing was
 *     pushed)
 * @threads any, also tasks
 */
GY_API GY_MUST_CHECK gy_status gy_engine_push(gy_engine *engine, const gy_task *task);

/**
 * Wait for all tasks pushed so far on `var`, running ready tasks meanwhile. A task must not
 * wait for a variable that it accesses, nor for tasks that depend on itself.
 * @return GY_OK; the failure that poisoned the variable (its text in gy_error_text); GY_TIMEOUT
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_engine_wait(gy_engine *engine, gy_var *var,
                                              gy_deadline deadline);
/**
 * The same for all tasks of a group. Returns the group's first error, or GY_TIMEOUT also at
 * the scope's deadline. A failed scope stays failed.
 */
GY_API GY_MUST_CHECK gy_status gy_scope_wait(gy_scope *scope, gy_deadline deadline);
/** The same for all tasks of the engine; does not return their errors. Not in a task. */
GY_API GY_MUST_CHECK gy_status gy_engine_wait_all(gy_engine *engine, gy_deadline deadline);

/**
 * End a task. A failure poisons the variables that the task mutates until gy_var_heal: later
 * tasks that read or mutate them do not run and fail alike. @threads any
 */
GY_API void gy_done_ok(gy_done *done);
/** End a task with a failure, `status` < 0. The failure's text is "task NAME: " and this
 * thread's gy_error_text(). @threads any */
GY_API void gy_done_fail(gy_done *done, gy_status status);
/** For runs_poisoned tasks: GY_OK, or the failure of the task's inputs (text in
 * gy_error_text). */
GY_API gy_status gy_done_cause(gy_done *done);

/** Wait for all tasks on the variable, then clear its failure, so that the next task runs.
 * @threads any */
GY_API void gy_var_heal(gy_var *var);

/**
 * Call fn(arg, begin, end) over chunks of [0, count) of about `grain` items, on idle workers
 * and the caller; returns when all chunks are done. The chunks depend on count and grain
 * alone, never on timing. engine may be NULL: serial. @threads any, also inside a task
 */
GY_API void gy_parallel_for(gy_engine *engine, int64_t count, int64_t grain,
                            void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);

/**
 * Add a callback that drives communication. Waiting threads call `progress(arg)`, and workers
 * call it between tasks, never concurrently with itself; it returns true when it made
 * progress. It may push and end tasks, but must not wait. When nothing happens, a waiting
 * thread calls it about every 0.2 ms and an idle worker every 1 ms.
 * @return GY_OK; GY_LIMIT when 16 callbacks are registered already
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_engine_add_progress(gy_engine *engine,
                                                      bool (*progress)(void *arg), void *arg);
/** Remove a callback; returns once no call of it is running. Not from a progress callback. */
GY_API void gy_engine_remove_progress(gy_engine *engine, bool (*progress)(void *arg),
                                      void *arg);

#ifdef __cplusplus
}
#endif
#endif
