/* Failures, reference-counted so that several variables and a scope can share one. Recording a
 * failure succeeds even without memory. */
#include "engine/engine_priv.h"

#include <stdio.h>
#include <string.h>

/* A static failure that carries only the status, for when no memory is left for the text. */
static gy_failure *bare_failure(gy_status status)
{
    enum { CODES = 32 };
    static gy_failure bare[CODES];
    static gy_spinlock lock;
    GY_ASSERT(status < 0);
    GY_ASSERT(status > -CODES);
    gy_failure *failure = &bare[-status];
    gy_spin_lock(&lock);
    if (!failure->is_static) {
        failure->is_static = true;
        failure->error.status = status;
        failure->error.rank = -1;
        snprintf(failure->error.text, sizeof(failure->error.text), "a task failed: %s",
                 gy_status_text(status));
    }
    gy_spin_unlock(&lock);
    GY_ASSERT(failure->is_static);
    GY_ASSERT(failure->error.status == status);
    return failure;
}

gy_failure *gy_failure_new(gy_status status, const char *task, const char *text)
{
    GY_ASSERT(task != NULL);
    GY_ASSERT(text != NULL);
    GY_ASSERT(status < 0);
    /* copied first, since the allocation may overwrite the buffer behind `text` */
    char kept[GY_ERROR_TEXT_BYTES];
    snprintf(kept, sizeof(kept), "%s", text);
    gy_failure *failure = gy_alloc("engine.failure", sizeof(*failure));
    if (failure == NULL) {
        return bare_failure(status);
    }
    atomic_init(&failure->holders, 1);
    failure->is_static = false;
    failure->error.status = status;
    failure->error.rank = -1;
    snprintf(failure->error.text, sizeof(failure->error.text), "task %.100s: %.900s", task,
             kept);
    return failure;
}

gy_failure *gy_failure_hold(gy_failure *failure)
{
    if (failure != NULL && !failure->is_static) {
        int before = atomic_fetch_add_explicit(&failure->holders, 1, memory_order_relaxed);
        GY_ASSERT(before > 0); /* only the holder of a reference can pass on another */
    }
    return failure;
}

void gy_failure_drop(gy_failure *failure)
{
    if (failure == NULL || failure->is_static) {
        return;
    }
    /* acq_rel: whoever drops the last reference frees the failure after all others have read
     * it. */
    int before = atomic_fetch_sub_explicit(&failure->holders, 1, memory_order_acq_rel);
    GY_ASSERT(before > 0);
    if (before == 1) {
        gy_free(failure);
    }
}
