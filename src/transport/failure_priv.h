/** Inside room transport: the failure that ends a launch, as one of its ranks knows it. */
#ifndef GY_TRANSPORT_FAILURE_PRIV_H
#define GY_TRANSPORT_FAILURE_PRIV_H

#include "base/fail.h"

#include <stdio.h>

/** Zero-initialise. Survivors of a failure begin a new epoch; a failure ends its own epoch
 * only. */
typedef struct gy_transport_failure {
    bool is_set;
    bool was_told; /* this rank has reported it to all peers, in `told_epoch` */
    uint32_t epoch, told_epoch;
    gy_error error;
} gy_transport_failure;

/** Keep the first failure of an epoch, and failures of the newest epoch. */
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

/** Record `error` of rank `rank` in `epoch`; the text names the rank. */
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

/** GY_OK; or raise the failure of `epoch`. */
static inline gy_status gy_transport_failure_raise(const gy_transport_failure *failure,
                                                   uint32_t epoch)
{
    return gy_transport_failure_is_of(failure, epoch) ? gy_error_raise(&failure->error) : GY_OK;
}

/** True once in an epoch: the caller must report the failure to all peers. */
static inline bool gy_transport_failure_tell_once(gy_transport_failure *failure, uint32_t epoch)
{
    GY_ASSERT(failure->is_set);
    const bool is_untold = !failure->was_told || failure->told_epoch != epoch;
    failure->was_told = true;
    failure->told_epoch = epoch;
    return is_untold;
}

#endif
