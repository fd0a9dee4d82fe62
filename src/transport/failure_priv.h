/**
 * Inside room transport: the failure that ends a run, as one of its ranks knows it.
 */
#ifndef GY_TRANSPORT_FAILURE_PRIV_H
#define GY_TRANSPORT_FAILURE_PRIV_H

#include "base/fail.h"

#include <stdio.h>

/** Zero-initialise. An epoch is what survivors of a failure begin; a failure ends its own one.
 */
typedef struct gy_transport_failure {
    bool is_set;
    bool was_told; /* to all peers, in `told_epoch` */
    uint32_t epoch, told_epoch;
    gy_error error;
} gy_transport_failure;

/** Keep the first one of an epoch, and of epochs the newest. */
static inline void gy_transport_failure_keep(gy_transport_failure *failure,
                                             const gy_error *error, uint32_t epoch)
{
    GY_ASSERT(error->status < 0);
    if (!failure->is_set || failure->epoch < epoch) {
        failure->error = *error;
        failure->epoch = epoch;
        failure->is_set = true;
    }
}

/** `error` as rank `rank` of `epoch` says it: whose it was stands in it. */
static inline void gy_transport_failure_say(gy_transport_failure *failure,
                                            const gy_error *error, int rank, uint32_t epoch)
{
    GY_ASSERT(error->status < 0);
    GY_ASSERT(rank >= 0);
    gy_error said = {.status = error->status, .rank = error->rank >= 0 ? error->rank : rank};
    snprintf(said.text, sizeof(said.text), "rank %d: %.990s", said.rank, error->text);
    gy_transport_failure_keep(failure, &said, epoch);
}

static inline bool gy_transport_failure_is_of(const gy_transport_failure *failure,
                                              uint32_t epoch)
{
    return failure->is_set && failure->epoch == epoch;
}

/** GY_OK; or the failure of `epoch`, raised. */
static inline gy_status gy_transport_failure_raise(const gy_transport_failure *failure,
                                                   uint32_t epoch)
{
    return gy_transport_failure_is_of(failure, epoch) ? gy_error_raise(&failure->error) : GY_OK;
}

/** True once in an epoch: all peers are to be told. */
static inline bool gy_transport_failure_tell_once(gy_transport_failure *failure, uint32_t epoch)
{
    GY_ASSERT(failure->is_set);
    const bool is_untold = !failure->was_told || failure->told_epoch != epoch;
    failure->was_told = true;
    failure->told_epoch = epoch;
    return is_untold;
}

#endif
