/**
 * Threads and locks: thin over pthreads (which ThreadSanitizer understands), failures checked.
 */
#ifndef GY_BASE_THREAD_H
#define GY_BASE_THREAD_H

#include <gyre/base.h>
#include <pthread.h>

/** Locks are taken in descending order of rank; development builds assert it. */
typedef struct gy_mutex {
    pthread_mutex_t lock;
    int rank;
} gy_mutex;

typedef struct gy_cond {
    pthread_cond_t cond; /* on the monotonic clock */
} gy_cond;

/** Documentation that the compiler does not check: who holds what. */
#define GY_REQUIRES(mutex)
#define GY_GUARDED(mutex)

void gy_mutex_init(gy_mutex *mutex, int rank);
void gy_mutex_fini(gy_mutex *mutex);
void gy_mutex_lock(gy_mutex *mutex);
/** False at once when another thread has it. Order of ranks does not matter here. */
GY_MUST_CHECK bool gy_mutex_try(gy_mutex *mutex);
void gy_mutex_unlock(gy_mutex *mutex);

void gy_cond_init(gy_cond *cond);
void gy_cond_fini(gy_cond *cond);
void gy_cond_signal(gy_cond *cond);
void gy_cond_broadcast(gy_cond *cond);
/** GY_OK or GY_TIMEOUT (a plain return, no failure is recorded). */
gy_status gy_cond_wait(gy_cond *cond, gy_mutex *mutex, gy_deadline deadline);

typedef struct gy_thread {
    pthread_t thread;
    bool is_started;
} gy_thread;

/** Start a thread named `name` (15 bytes are kept), all signals blocked in it. */
GY_MUST_CHECK gy_status gy_thread_start(gy_thread *thread, const char *name,
                                        void *(*run)(void *), void *arg);
/** The same with a stack of `stack_bytes`, of which memory is taken as it is touched: for what
 * recurses as deep as its input. */
GY_MUST_CHECK gy_status gy_thread_start_deep(gy_thread *thread, const char *name,
                                             size_t stack_bytes, void *(*run)(void *),
                                             void *arg);
void gy_thread_join(gy_thread *thread);

/** One spin of a waiting loop. */
static inline void gy_spin(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

#endif
