/**
 * What the files of room engine share: tasks, variables, workers, queues.
 *
 * Lock order: the locks of variables (by address), then none. Spin locks guard a few dozen
 * instructions; nothing is called under one except what this room owns.
 */
#ifndef GY_ENGINE_PRIV_H
#define GY_ENGINE_PRIV_H

#include "base/base.h"
#include "engine/engine.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>

enum {
    INLINE_ACCESSES = 3, /* what most tasks touch; more come from a pool */
    ACCESS_CLASSES = 20, /* pools of 4, 8, 16 ... accesses */
    ACCESSES_MAX = 2 << (ACCESS_CLASSES - 1),
    RING_SLOTS = 1024, /* ready tasks a worker keeps before the shared heap takes them */
    RUN_AHEAD = 512,   /* alive tasks from which a pusher runs some itself */
    PUSH_CHECK = 64,   /* pushes between two looks at the other workers' counts */
    TASK_LIMIT_DEFAULT = 1 << 20,
    PROGRESS_SLOTS = 16,
    LOCK_RANK = 1, /* of both mutexes, never held together: below what callers may hold */
    BLOCKING_THREADS = 64,
    SPIN_NS = 100000,     /* a wait that is longer sleeps in the kernel */
    POLL_NS = 1000000,    /* the same where progress has to be polled */
    NAP_NS = 200000,      /* a sleep between two polls of a waiter; of a worker POLL_NS */
    SHORT_TASK_NS = 1000, /* finding a task elsewhere and running it; moving costs as much */
    QUIET_NS = 2000,      /* a core that did nothing so long runs something long */
    PROBE_NS = 20000,     /* how often a reluctant worker tries again */
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
        /* The holder may have lost its core: give it ours after a while. */
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

/* ---- failures: counted, shared by everything they poison ---- */

typedef struct gy_failure {
    _Atomic int holders;
    bool is_static; /* never freed: used when even a failure finds no memory */
    gy_error error;
} gy_failure;

gy_failure *gy_failure_new(gy_status status, const char *task, const char *text);
gy_failure *gy_failure_hold(gy_failure *failure);
void gy_failure_drop(gy_failure *failure);

/* ---- variables ---- */

typedef enum access_kind {
    ACCESS_READ,
    ACCESS_MUTATE,
    ACCESS_WAIT, /* owner is a gy_waiter; holds nothing once granted */
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
    int32_t active;         /* readers now; -1: a mutation. GUARDED(lock), as all that follow */
    gy_access *head, *tail; /* who waits, first come first */
    gy_failure *failure;    /* also read by holders of an access, who keep mutations out */
    gy_engine *engine;
    const char *holder;  /* the last mutation's name */
    struct gy_var *next; /* pooled variables */
    bool is_closing;     /* goes back to the pool when idle */
};
_Static_assert(sizeof(struct gy_var) <= GY_CACHE_LINE, "a variable is one cache line");

/* ---- tasks ---- */

typedef enum task_state {
    TASK_QUEUED,
    TASK_RUNNING,
    TASK_RETURNED, /* the body returned, the end is to come */
    TASK_ENDED,    /* ended, the body has yet to return */
} task_state;

struct gy_done {
    _Atomic int32_t missing; /* accesses not yet granted */
    int32_t priority;
    gy_work run;
    void *arg;
    union {
        gy_done *next;      /* a list, or the next sibling in the heap */
        gy_failure *result; /* while it runs: how another thread ended it, held */
    };
    gy_access *accesses;
    gy_scope *scope;
    const char *name;
    union {
        gy_done *child;    /* in the heap */
        gy_failure *cause; /* once begun: what its inputs failed with, held */
    };
    gy_engine *engine;
    uint64_t order; /* within the heap, first come first */
    size_t bytes;
    uint8_t access_class; /* 0: the inline ones */
    uint8_t lane;
    bool runs_poisoned;
    _Atomic uint8_t state;
    uint32_t access_count;
    gy_access inline_accesses[INLINE_ACCESSES];
};

/* ---- ready tasks ---- */

/* One producer, many consumers, first in first out; positions only grow. */
typedef struct gy_engine_ring {
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t head; /* next to take, moved by compare-and-swap */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t tail; /* next to fill, the owner's */
    _Atomic(gy_done *) slots[RING_SLOTS];
} gy_engine_ring;

bool gy_engine_ring_push(gy_engine_ring *ring, gy_done *task);
gy_done *gy_engine_ring_pop(gy_engine_ring *ring);
bool gy_engine_ring_is_empty(gy_engine_ring *ring);

/* Keys order the heap: lane network above every priority. */
#define KEY_NONE    INT64_MIN
#define KEY_NETWORK ((int64_t)INT32_MAX + 1)

/* A pairing heap by (key, order): Fredman, Sedgewick, Sleator, Tarjan 1986. No memory of its
 * own. */
typedef struct gy_engine_heap {
    _Alignas(GY_CACHE_LINE) gy_spinlock lock;
    gy_done *root;
    uint64_t order;
    _Atomic int64_t top; /* key of the root, KEY_NONE when empty; read without the lock */
} gy_engine_heap;

void gy_engine_heap_push(gy_engine_heap *heap, gy_done *task);
/* The first task if its key is at least `key`, else NULL. */
gy_done *gy_engine_heap_pop(gy_engine_heap *heap, int64_t key);

/* ---- engine ---- */

/* Padding keeps what different threads write on lines of its own. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
typedef struct gy_worker {
    gy_engine *engine;
    int index;
    gy_thread thread; /* not started for worker 0: the thread that made the engine */
    gy_done *in_hand; /* made ready by this worker's last task: run next */
    gy_done *free;    /* recycled tasks */
    int free_count;
    int since_check;
    bool is_reluctant; /* its last task was too short to be worth moving */
    bool was_held_off; /* saw work of others and left it to them */
    uint64_t seen;     /* the others' activity, last looked at */
    int64_t seen_ns;   /* since when it has not changed */
    int64_t probe_ns;  /* when it last took something from others */
    _Alignas(GY_CACHE_LINE) _Atomic uint64_t pushed; /* written by the owner alone */
    _Atomic uint64_t ended;
    _Atomic int64_t idle_ns;
    gy_engine_ring ring;
} gy_worker;

/* A loop that is being split: on the caller's stack, listed while pieces are left. */
typedef struct gy_engine_loop {
    struct gy_engine_loop *next;
    void (*fn)(void *arg, int64_t begin, int64_t end);
    void *arg;
    int64_t count, grain, pieces;
    _Atomic int64_t taken;
    _Atomic int helpers; /* GUARDED(jobs_lock) for going up */
} gy_engine_loop;

typedef struct gy_engine_poll {
    bool (*call)(void *arg);
    void *arg;
} gy_engine_poll;

/* Threads that sleep in the kernel. */
typedef struct gy_dormitory {
    gy_cond cond;
    _Atomic int sleepers; /* not yet called; written under sleep_lock */
    int calls;            /* GUARDED(sleep_lock): called and not yet awake */
} gy_dormitory;

/* Padding keeps what different threads write on lines of its own. */
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

/* Padding keeps what different threads write on lines of its own. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct gy_engine {
    /* Read by all, written rarely. */
    int worker_count;
    bool may_spin; /* the ranks of this host have a core for each worker */
    bool was_bound;
    uint64_t id; /* unlike any other engine's of this process */
    size_t task_limit;
    int64_t memory_budget;
    gy_worker **workers;
    _Atomic bool is_stopping;
    _Atomic int progress_count;
    _Atomic(gy_engine_loop *) jobs; /* list GUARDED(jobs_lock), head read without */
    gy_spinlock jobs_lock;
    cpu_set_t home_cpus; /* worker 0's before it was bound */

    gy_engine_heap heap;
    _Alignas(GY_CACHE_LINE) gy_mutex sleep_lock;
    gy_dormitory workers_asleep, waiters_asleep;

    _Alignas(GY_CACHE_LINE) _Atomic uint64_t outside_pushed; /* by threads that are no worker */
    _Atomic uint64_t outside_ended;
    _Atomic int outside_calls; /* ends in flight on such threads */
    _Atomic int64_t bytes_used;

    _Alignas(GY_CACHE_LINE) gy_spinlock progress_lock; /* held while callbacks run */
    gy_engine_poll progress[PROGRESS_SLOTS];

    gy_engine_pool pool;
    gy_blocking blocking;
};

struct gy_scope {
    gy_engine *engine;
    gy_deadline deadline;
    _Atomic bool is_cancelled;
    _Atomic int64_t alive;
    _Atomic(gy_failure *) failure; /* the first one */
};

/* What this thread is doing; the frame of the innermost body. */
typedef struct gy_engine_frame {
    struct gy_engine_frame *outer;
    gy_done *task;
    bool is_ended; /* the body ended its task itself */
    gy_failure *failure;
} gy_engine_frame;

typedef struct gy_self {
    gy_engine *engine; /* only compared: it may be gone */
    uint64_t id;
    gy_worker *worker;
    gy_engine_frame *frame;
    int depth;        /* bodies, pieces and progress calls below us */
    bool in_progress; /* below a progress call */
    bool is_home;     /* worker 0, not a thread of the engine's own */
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

/* Queue accesses, sorted by variable, each once. Returns how many wait. */
int gy_access_link(gy_access *accesses, size_t count, _Atomic int32_t *missing);
/* Give back an access; tasks that become ready are put before `ready`. */
gy_done *gy_access_release(gy_access *access, gy_failure *failure, gy_done *ready);

typedef struct gy_waiter {
    gy_engine *engine;
    _Atomic bool is_done;
    gy_failure *failure; /* of the variable, held */
    gy_access access;
} gy_waiter;

/* True when nothing was to be waited for. */
bool gy_waiter_link(gy_waiter *waiter, gy_var *var);
/* Take a waiter out again. False when it was granted meanwhile. */
bool gy_waiter_unlink(gy_waiter *waiter);

/* run.c */

/* Find a ready task and run it; also pieces of loops. False when nothing is there to do. */
bool gy_engine_run_one(gy_engine *engine, gy_worker *self);
/* The same for what this thread has queued itself, or what goes before that. */
bool gy_engine_run_near(gy_engine *engine, gy_worker *self);
/* Hand a ready task to whoever may run it. */
void gy_engine_ready(gy_engine *engine, gy_worker *self, gy_done *task);
void gy_engine_task_run(gy_engine *engine, gy_worker *self, gy_done *task);
/* Stop holding back a task that others could run. */
void gy_engine_flush_hand(gy_engine *engine, gy_worker *self);
bool gy_engine_has_work(gy_engine *engine);
int64_t gy_engine_alive(gy_engine *engine);

/* sleep.c */
typedef struct gy_idle {
    int64_t since_ns; /* 0: just began */
    int64_t nap_ns;   /* longest sleep; 0: any */
    bool is_worker;
    bool has_slept;
} gy_idle;

/* One round of waiting for is_done(arg) or work: spins, yields or sleeps, not past the
 * deadline. */
void gy_idle_round(gy_engine *engine, gy_idle *idle, bool (*is_done)(void *arg), void *arg,
                   gy_deadline deadline);
/* A task became ready. */
void gy_engine_call_one(gy_engine *engine);
/* Something that a waiter may wait for has happened. */
void gy_engine_call_waiters(gy_engine *engine);
void gy_engine_call_workers(gy_engine *engine);

/* wait.c */

/*
 * Help until is_done(arg) or the deadline (GY_TIMEOUT, no failure recorded). One sleep lasts at
 * most nap_ns; 0: as long as it takes, for what ends with gy_engine_call_waiters.
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
/* Make sure that one thread exists. */
gy_status gy_blocking_prepare(gy_engine *engine);
void gy_blocking_push(gy_engine *engine, gy_done *task);

#endif
