/**
 * What the files of room engine share: tasks, variables, workers, queues.
 *
 * Lock order: locks of variables, by address; a thread that holds one takes no other kind of
 * lock. A spin lock guards a few dozen instructions, and its holder calls only functions of
 * this room.
 */
#ifndef GY_ENGINE_PRIV_H
#define GY_ENGINE_PRIV_H

#include "base/base.h"
#include "engine/engine.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    /* accesses stored in the task itself; longer arrays come from a pool */
    INLINE_ACCESSES = 3,
    ACCESS_CLASSES = 20, /* pools of 4, 8, 16 ... accesses */
    ACCESSES_MAX = 2 << (ACCESS_CLASSES - 1),
    /* capacity of a worker's own queue; further ready tasks go to the shared heap */
    RING_SLOTS = 1024,
    RUN_AHEAD = 512, /* alive tasks from which a pushing thread runs ready tasks itself */
    PUSH_CHECK = 64, /* pushes between two reads of the other workers' counters */
    TASK_LIMIT_DEFAULT = 1 << 20,
    PROGRESS_SLOTS = 16,
    /* rank of both mutexes, which are never held together; lower than any lock that callers
     * may hold */
    LOCK_RANK = 1,
    BLOCKING_THREADS = 64,
    SPIN_NS = 100000,  /* a longer wait sleeps in the kernel */
    POLL_NS = 1000000, /* the same limit where the thread must poll for progress */
    /* a waiting thread sleeps so long between two polls; a worker sleeps POLL_NS */
    NAP_NS = 200000,
    /* about what moving a task to another core costs; a shorter task is not worth moving */
    SHORT_TASK_NS = 1000,
    /* a core whose counters stand still for so long is inside a long task */
    QUIET_NS = 2000,
    PROBE_NS = 20000, /* interval at which a reluctant worker tries again to take tasks */
};

/* ---- small locks ---- */

typedef struct gy_spinlock {
    _Atomic uint32_t held;
} gy_spinlock;

static inline bool gy_spin_try(gy_spinlock *lock)
{
    return atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

static inline void gy_spin_lock(gy_spinlock *lock)
{
    while (!gy_spin_try(lock)) {
        /* The kernel may have preempted the holder: yield this core to it after some spins. */
        for (int i = 0; atomic_load_explicit(&lock->held, memory_order_relaxed) != 0; i++) {
            if (i < 100) {
                gy_spin();
            } else {
                sched_yield();
            }
        }
    }
}

/* Pairs with the exchange of gy_spin_try. */
static inline void gy_spin_unlock(gy_spinlock *lock)
{
    GY_CHECK_DEEP(atomic_load_explicit(&lock->held, memory_order_relaxed) == 1);
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

/* ---- failures: reference-counted, shared by every variable that they poison ---- */

typedef struct gy_failure {
    _Atomic int holders;
    bool is_static; /* a static object for the case that no memory is left; never freed */
    gy_error error;
} gy_failure;

gy_failure *gy_failure_new(gy_status status, const char *task, const char *text);
gy_failure *gy_failure_hold(gy_failure *failure);
void gy_failure_drop(gy_failure *failure);

/* ---- variables ---- */

typedef enum access_kind {
    ACCESS_READ,
    ACCESS_MUTATE,
    ACCESS_WAIT, /* owner is a gy_waiter; a granted wait does not occupy the variable */
} access_kind;

typedef struct gy_access {
    struct gy_var *var;
    struct gy_access *next; /* the queue of the variable, later a list of granted ones */
    void *owner;            /* gy_done or gy_waiter */
    uint8_t kind;
    bool is_poisoned; /* set when granted */
} gy_access;

struct gy_var {
    gy_spinlock lock;
    /* number of current readers; -1: one mutation. GUARDED(lock), as all that follow */
    int32_t active;
    gy_access *head, *tail; /* waiting accesses, first in first out */
    /* whoever was granted an access may read it without the lock, since no mutation runs
     * then */
    gy_failure *failure;
    gy_engine *engine;
    const char *holder;  /* name of the last task that mutated the variable */
    struct gy_var *next; /* link in the pool of free variables */
    bool is_closing;     /* returns to the pool once no access is left */
};
_Static_assert(sizeof(struct gy_var) <= GY_CACHE_LINE, "a variable is one cache line");

/* ---- tasks ---- */

typedef enum task_state {
    TASK_QUEUED,
    TASK_RUNNING,
    TASK_RETURNED, /* the body has returned, but nobody has ended the task yet */
    TASK_ENDED,    /* the task has ended, but the body has not returned yet */
} task_state;

struct gy_done {
    _Atomic int32_t missing; /* accesses not yet granted */
    int32_t priority;
    gy_work run;
    void *arg;
    union {
        gy_done *next; /* link in a list, or the next sibling in the heap */
        /* failure with which another thread ended the task while the body ran; counted
         * reference */
        gy_failure *result;
    };
    gy_access *accesses;
    gy_scope *scope;
    const char *name;
    union {
        gy_done *child; /* first child in the heap */
        /* failure of the task's inputs, set when the task begins; counted reference */
        gy_failure *cause;
    };
    gy_engine *engine;
    uint64_t order; /* push number: orders tasks of equal key in the heap */
    size_t bytes;
    uint8_t access_class; /* size class of the access array; 0: the inline array */
    uint8_t lane;
    bool runs_poisoned;
    _Atomic uint8_t state;
    uint32_t access_count;
    gy_access inline_accesses[INLINE_ACCESSES];
};

/* ---- ready tasks ---- */

/* One producer, many consumers, first in first out. Both positions only increase. */
typedef struct gy_engine_ring {
    /* next slot to take; consumers advance it by compare-and-swap */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t head;
    /* next slot to fill; only the owner writes it */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t tail;
    _Atomic(gy_done *) slots[RING_SLOTS];
} gy_engine_ring;

bool gy_engine_ring_push(gy_engine_ring *ring, gy_done *task);
gy_done *gy_engine_ring_pop(gy_engine_ring *ring);
bool gy_engine_ring_is_empty(gy_engine_ring *ring);

/* Keys order the heap. A task of the network lane comes before every priority. */
#define KEY_NONE    INT64_MIN
#define KEY_NETWORK ((int64_t)INT32_MAX + 1)

/* A pairing heap ordered by (key, push number): Fredman, Sedgewick, Sleator, Tarjan 1986. It
 * links the tasks themselves and allocates nothing. */
typedef struct gy_engine_heap {
    _Alignas(GY_CACHE_LINE) gy_spinlock lock;
    gy_done *root;
    uint64_t order;
    _Atomic int64_t top; /* key of the root, KEY_NONE when empty; readers need no lock */
} gy_engine_heap;

void gy_engine_heap_push(gy_engine_heap *heap, gy_done *task);
/* Remove and return the first task if its key is at least `key`, else NULL. */
gy_done *gy_engine_heap_pop(gy_engine_heap *heap, int64_t key);

/* ---- engine ---- */

/* Padding puts data of different writers on different cache lines. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
typedef struct gy_worker {
    gy_engine *engine;
    int index;
    gy_thread thread; /* not started for worker 0, which is the thread that made the engine */
    gy_done *in_hand; /* a task that this worker's last task made ready; it runs next */
    gy_done *free;    /* free tasks for reuse */
    int free_count;
    int since_check;
    bool is_reluctant; /* its last task was too short to be worth moving to another core */
    bool was_held_off; /* it saw tasks of other workers and left them there */
    uint64_t seen;     /* the other workers' activity counter at the last read */
    int64_t seen_ns;   /* time since which that counter has not changed */
    int64_t probe_ns;  /* last time it took a task from another worker */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t pushed; /* written by the owner alone */
    _Atomic uint64_t ended;
    _Atomic int64_t idle_ns;
    gy_engine_ring ring;
} gy_worker;

/* A parallel loop. It lives on the caller's stack and stays listed while it has chunks left. */
typedef struct gy_engine_loop {
    struct gy_engine_loop *next;
    void (*fn)(void *arg, int64_t begin, int64_t end);
    void *arg;
    int64_t count, grain, pieces;
    _Atomic int64_t taken;
    _Atomic int helpers; /* an increment needs jobs_lock (GUARDED), a decrement does not */
} gy_engine_loop;

typedef struct gy_engine_poll {
    bool (*call)(void *arg);
    void *arg;
} gy_engine_poll;

/* Threads that sleep in the kernel until new work or an end wakes them. */
typedef struct gy_dormitory {
    gy_cond cond;
    /* sleeping threads that nobody has woken yet; written under sleep_lock */
    _Atomic int sleepers;
    int calls; /* GUARDED(sleep_lock): wake-ups that no sleeper has consumed yet */
} gy_dormitory;

/* Padding puts data of different writers on different cache lines. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
typedef struct gy_blocking {
    gy_mutex lock;
    gy_cond cond;
    gy_engine_heap ready; /* GUARDED(lock) */
    gy_thread threads[BLOCKING_THREADS];
    int thread_count, idle_count, queued_count; /* GUARDED(lock) */
    bool is_stopping;
} gy_blocking;

typedef struct gy_engine_pool {
    gy_spinlock lock;
    gy_done *tasks;
    gy_access *accesses[ACCESS_CLASSES]; /* arrays, linked through their first access */
    gy_var *vars;
    void **slabs; /* linked through their first word */
    struct gy_var_slab *var_slabs;
} gy_engine_pool;

/* Padding puts data of different writers on different cache lines. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct gy_engine {
    /* All threads read these fields, and few write them. */
    int worker_count;
    bool may_spin; /* this host's ranks together have a core for each worker */
    bool was_bound;
    uint64_t id; /* unique among the engines of this process */
    size_t task_limit;
    int64_t memory_budget;
    gy_worker **workers;
    _Atomic bool is_stopping;
    _Atomic int progress_count;
    /* changes need jobs_lock (GUARDED); reading the head does not */
    _Atomic(gy_engine_loop *) jobs;
    gy_spinlock jobs_lock;
    cpu_set_t home_cpus; /* affinity of the creating thread before it was pinned */

    gy_engine_heap heap;
    _Alignas(GY_CACHE_LINE) gy_mutex sleep_lock;
    gy_dormitory workers_asleep, waiters_asleep;

    /* pushes by threads that are no workers */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t outside_pushed;
    _Atomic uint64_t outside_ended;
    /* calls that end a task from such a thread and have not returned */
    _Atomic int outside_calls;
    _Atomic int64_t bytes_used;

    _Alignas(GY_CACHE_LINE) gy_spinlock progress_lock; /* held while progress callbacks run */
    gy_engine_poll progress[PROGRESS_SLOTS];

    gy_engine_pool pool;
    gy_blocking blocking;
};

struct gy_scope {
    gy_engine *engine;
    gy_deadline deadline;
    _Atomic bool is_cancelled;
    _Atomic int64_t alive;
    _Atomic(gy_failure *) failure; /* first failure of any task */
};

/* What this thread runs now: one frame for each nested task body, innermost first. */
typedef struct gy_engine_frame {
    struct gy_engine_frame *outer;
    gy_done *task;
    bool is_ended; /* the body has ended its task itself */
    gy_failure *failure;
} gy_engine_frame;

typedef struct gy_self {
    gy_engine *engine; /* only compared, never dereferenced: the engine may have been freed */
    uint64_t id;
    gy_worker *worker;
    gy_engine_frame *frame;
    /* nested task bodies, loop chunks and progress callbacks on this thread's stack */
    int depth;
    bool in_progress; /* inside a progress callback */
    bool is_home;     /* worker 0, which is the caller's thread */
} gy_self;

extern _Thread_local gy_self gy_own __attribute__((tls_model("initial-exec")));

/* This thread's worker in `engine`, or NULL. */
static inline gy_worker *gy_own_worker(const gy_engine *engine)
{
    return gy_own.engine == engine && gy_own.id == engine->id ? gy_own.worker : NULL;
}

static inline int64_t gy_clock_ns(void)
{
    return gy_now_ns(gy_env_real());
}

/* pool.c */
gy_done *gy_engine_task_new(gy_engine *engine, gy_worker *self, size_t access_count);
void gy_engine_task_free(gy_engine *engine, gy_worker *self, gy_done *task);
gy_var *gy_engine_pool_var(gy_engine *engine);
void gy_engine_pool_return_var(gy_engine *engine, gy_var *var);
void gy_engine_pool_fini(gy_engine *engine);

/* var.c */

/* Queue accesses that are sorted by variable and without duplicates. Returns how many must
 * wait. */
int gy_access_link(gy_access *accesses, size_t count, _Atomic int32_t *missing);
/* Release an access. Tasks that become ready are linked in front of `ready`. */
gy_done *gy_access_release(gy_access *access, gy_failure *failure, gy_done *ready);

typedef struct gy_waiter {
    gy_engine *engine;
    _Atomic bool is_done;
    gy_failure *failure; /* the variable's failure; counted reference */
    gy_access access;
} gy_waiter;

/* True when no earlier access is left to wait for. */
bool gy_waiter_link(gy_waiter *waiter, gy_var *var);
/* Remove a waiter from its variable. False when the variable granted it in the meantime. */
bool gy_waiter_unlink(gy_waiter *waiter);

/* run.c */

/* Find and run one ready task or one chunk of a loop. False when there is none. */
bool gy_engine_run_one(gy_engine *engine, gy_worker *self);
/* The same for this thread's own queue and for tasks that go before it (network lane). */
bool gy_engine_run_near(gy_engine *engine, gy_worker *self);
/* Queue a ready task where any worker may take it. */
void gy_engine_ready(gy_engine *engine, gy_worker *self, gy_done *task);
void gy_engine_task_run(gy_engine *engine, gy_worker *self, gy_done *task);
/* Make the task in hand available to other workers. */
void gy_engine_flush_hand(gy_engine *engine, gy_worker *self);
bool gy_engine_has_work(gy_engine *engine);
int64_t gy_engine_alive(gy_engine *engine);

/* sleep.c */
typedef struct gy_idle {
    int64_t since_ns; /* 0: the wait has just begun */
    int64_t nap_ns;   /* longest sleep; 0: unlimited */
    bool is_worker;
    bool has_slept;
} gy_idle;

/* One round of waiting for is_done(arg) or for work: spins, yields, or sleeps until the
 * deadline at the latest. */
void gy_idle_round(gy_engine *engine, gy_idle *idle, bool (*is_done)(void *arg), void *arg,
                   gy_deadline deadline);
/* Wake one sleeper: a task became ready. */
void gy_engine_call_one(gy_engine *engine);
/* Wake all waiting threads: a condition that they wait for may now hold. */
void gy_engine_call_waiters(gy_engine *engine);
void gy_engine_call_workers(gy_engine *engine);

/* wait.c */

/*
 * Run ready tasks until is_done(arg) or the deadline (GY_TIMEOUT; records no failure). One
 * sleep lasts at most nap_ns; 0: unlimited, for conditions whose change calls
 * gy_engine_call_waiters.
 */
gy_status gy_engine_help_until(gy_engine *engine, bool (*is_done)(void *arg), void *arg,
                               gy_deadline deadline, int64_t nap_ns);

/* parallel.c */
bool gy_engine_loop_help(gy_engine *engine);

/* progress.c */
bool gy_engine_progress_poll(gy_engine *engine);

/* blocking.c */
void gy_blocking_init(gy_blocking *blocking);
void gy_blocking_fini(gy_blocking *blocking);
/* Start the first thread of the lane unless one runs already. */
gy_status gy_blocking_prepare(gy_engine *engine);
void gy_blocking_push(gy_engine *engine, gy_done *task);

#endif
