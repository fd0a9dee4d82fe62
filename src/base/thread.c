#include "base/thread.h"

#include "base/fail.h"
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

static _Thread_local int held_rank[16];
static _Thread_local int held_count;

void gy_mutex_init(gy_mutex *mutex, int rank)
{
    mutex->rank = rank;
    GY_ASSERT(pthread_mutex_init(&mutex->lock, NULL) == 0);
}

void gy_mutex_fini(gy_mutex *mutex)
{
    GY_ASSERT(pthread_mutex_destroy(&mutex->lock) == 0);
}

void gy_mutex_lock(gy_mutex *mutex)
{
#ifdef GYRE_DEEP
    GY_ASSERT(held_count < 16);
    GY_ASSERT(held_count == 0 || held_rank[held_count - 1] > mutex->rank);
#endif
    GY_ASSERT(pthread_mutex_lock(&mutex->lock) == 0);
#ifdef GYRE_DEEP
    held_rank[held_count++] = mutex->rank;
#endif
}

bool gy_mutex_try(gy_mutex *mutex)
{
    if (pthread_mutex_trylock(&mutex->lock) != 0) {
        return false;
    }
#ifdef GYRE_DEEP
    GY_ASSERT(held_count < 16);
    held_rank[held_count++] = mutex->rank;
#endif
    return true;
}

void gy_mutex_unlock(gy_mutex *mutex)
{
#ifdef GYRE_DEEP
    GY_ASSERT(held_count > 0);
    int at = held_count - 1;
    while (at > 0 && held_rank[at] != mutex->rank) {
        at--;
    }
    memmove(&held_rank[at], &held_rank[at + 1], (size_t)(held_count - at - 1) * sizeof(int));
    held_count--;
#else
    (void)held_rank;
    (void)held_count;
#endif
    GY_ASSERT(pthread_mutex_unlock(&mutex->lock) == 0);
}

void gy_cond_init(gy_cond *cond)
{
    pthread_condattr_t attributes;
    GY_ASSERT(pthread_condattr_init(&attributes) == 0);
    GY_ASSERT(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    GY_ASSERT(pthread_cond_init(&cond->cond, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
}

void gy_cond_fini(gy_cond *cond)
{
    GY_ASSERT(pthread_cond_destroy(&cond->cond) == 0);
}

void gy_cond_signal(gy_cond *cond)
{
    GY_ASSERT(pthread_cond_signal(&cond->cond) == 0);
}

void gy_cond_broadcast(gy_cond *cond)
{
    GY_ASSERT(pthread_cond_broadcast(&cond->cond) == 0);
}

gy_status gy_cond_wait(gy_cond *cond, gy_mutex *mutex, gy_deadline deadline)
{
    int error = 0;
    if (deadline.at_ns == INT64_MAX) {
        error = pthread_cond_wait(&cond->cond, &mutex->lock);
    } else {
        struct timespec at = {.tv_sec = deadline.at_ns / 1000000000,
                              .tv_nsec = deadline.at_ns % 1000000000};
        error = pthread_cond_timedwait(&cond->cond, &mutex->lock, &at);
    }
    GY_ASSERT(error == 0 || error == ETIMEDOUT);
    return error == 0 ? GY_OK : GY_TIMEOUT;
}

static gy_status start(gy_thread *thread, const char *name, const pthread_attr_t *attributes,
                       void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&thread->thread, attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return gy_fail(GY_NOMEM, "cannot start thread %s: %s", name, strerror(error));
    }
    char brief[16];
    gy_print(brief, sizeof(brief), "%s", name);
    pthread_setname_np(thread->thread, brief);
    thread->is_started = true;
    return GY_OK;
}

gy_status gy_thread_start(gy_thread *thread, const char *name, void *(*run)(void *), void *arg)
{
    return start(thread, name, NULL, run, arg);
}

gy_status gy_thread_start_deep(gy_thread *thread, const char *name, size_t stack_bytes,
                               void *(*run)(void *), void *arg)
{
    pthread_attr_t attributes;
    GY_ASSERT(pthread_attr_init(&attributes) == 0);
    int error = pthread_attr_setstacksize(&attributes, stack_bytes);
    gy_status status = error == 0 ? start(thread, name, &attributes, run, arg)
                                  : gy_fail(GY_ARG, "thread %s: a stack of %zu bytes: %s", name,
                                            stack_bytes, strerror(error));
    pthread_attr_destroy(&attributes);
    return status;
}

void gy_thread_join(gy_thread *thread)
{
    if (thread->is_started) {
        GY_ASSERT(pthread_join(thread->thread, NULL) == 0);
        thread->is_started = false;
    }
}
