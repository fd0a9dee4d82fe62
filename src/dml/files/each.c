/* Work on all cores. */
#include "dml/files/files_priv.h"
#include "topo/topo.h"

#include <stdatomic.h>

enum { THREADS_MAX = 64 };

typedef struct job {
    void (*run)(void *arg, int64_t i);
    void *arg;
    int64_t count;
    _Atomic int64_t next;
} job;

static void *work(void *arg)
{
    job *j = arg;
    /* relaxed: each number is taken once; what the items write is seen after the joins */
    for (int64_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed); i < j->count;
         i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) {
        j->run(j->arg, i);
    }
    return NULL;
}

void gy_dml_each(int64_t count, void (*run)(void *arg, int64_t i), void *arg)
{
    gy_thread threads[THREADS_MAX];
    job j = {.run = run, .arg = arg, .count = count};
    const int64_t wanted = count > 1 ? GY_MIN(count, gy_topo_cores()) - 1 : 0;
    int started = 0;
    /* a thread that cannot be started is missed by nobody: the others take its items */
    while (started < GY_MIN(wanted, THREADS_MAX) &&
           gy_thread_start(&threads[started], "gyre-parse", work, &j) == GY_OK) {
        started++;
    }
    work(&j);
    for (int i = 0; i < started; i++) {
        gy_thread_join(&threads[i]);
    }
}
