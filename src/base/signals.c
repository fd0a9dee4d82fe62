/* SIGINT, SIGTERM and SIGHUP, whichever thread they reach, as a descriptor to wait for. */
#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int watched[] = {SIGINT, SIGTERM, SIGHUP};
static _Atomic int bell = -1; /* the descriptor; -1: nobody watches; -2: about to */
static _Atomic int last;      /* that came */
static struct sigaction before[GY_COUNT(watched)];

static void ring(int number)
{
    atomic_store_explicit(&last, number, memory_order_relaxed);
    int error = errno, file = atomic_load_explicit(&bell, memory_order_relaxed);
    uint64_t one = 1;
    ssize_t written = file >= 0 ? write(file, &one, sizeof(one)) : 0;
    (void)written;
    errno = error;
}

gy_status gy_signals_open(int *file)
{
    int nobody = -1;
    if (!atomic_compare_exchange_strong_explicit(&bell, &nobody, -2, memory_order_acquire,
                                                 memory_order_relaxed)) {
        return gy_fail(GY_STATE, "this process is running another job");
    }
    int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0) {
        int error = errno;
        atomic_store_explicit(&bell, -1, memory_order_release);
        return gy_fail(GY_LIMIT, "cannot watch for signals: %s", strerror(error));
    }
    atomic_store_explicit(&bell, made, memory_order_release);
    struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < GY_COUNT(watched); i++) {
        GY_ASSERT(sigaction(watched[i], NULL, &before[i]) == 0);
        /* What whoever started us chose to ignore (nohup, `&`) stays ignored. */
        if (before[i].sa_handler != SIG_IGN) {
            GY_ASSERT(sigaction(watched[i], &action, NULL) == 0);
        }
    }
    *file = made;
    return GY_OK;
}

int gy_signals_last(void)
{
    return atomic_load_explicit(&last, memory_order_relaxed);
}

int gy_signals_count(int file)
{
    uint64_t count = 0;
    return read(file, &count, sizeof(count)) == (ssize_t)sizeof(count) ? (int)count : 0;
}

void gy_signals_close(int file)
{
    for (size_t i = 0; i < GY_COUNT(watched); i++) {
        GY_ASSERT(sigaction(watched[i], &before[i], NULL) == 0);
    }
    atomic_store_explicit(&bell, -1, memory_order_release);
    close(file);
}
