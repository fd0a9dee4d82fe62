/** Inside `gyre tune`: a measurement under way. */
#ifndef GY_COLL_TUNE_TUNE_PRIV_H
#define GY_COLL_TUNE_TUNE_PRIV_H

#include "coll/coll_priv.h"

enum { GY_TUNE_LARGEST = 4 << 20 };

typedef struct gy_tuner {
    gy_comm *comm;
    gy_tuning *tuning;               /* the results, equal on all ranks */
    int64_t end_ns;                  /* on rank 0's clock */
    uint8_t *in, *out;               /* GY_TUNE_LARGEST each, private; */
    uint8_t *shared_in, *shared_out; /* registered, or NULL */
} gy_tuner;

static inline double gy_tune_now(const gy_tuner *tuner)
{
    GY_ASSERT(tuner->comm != NULL);
    return (double)gy_now_ns(tuner->comm->transport->env) * 1e-9;
}

/** Replace each value by the maximum over all ranks. */
GY_MUST_CHECK gy_status gy_tune_agree(const gy_tuner *tuner, double *values, size_t count);
/** Return the seconds on this rank of one of `calls` calls in a row, by an algorithm (NULL: the
 * chosen one). */
GY_MUST_CHECK gy_status gy_tune_time(gy_tuner *tuner, const gy_coll_call *call,
                                     const char *name, int calls, double *seconds);
double gy_tune_median(double *values, size_t count);

/* links.c */
GY_MUST_CHECK gy_status gy_tune_links(gy_tuner *tuner);
/* cells.c */
/** Measure every operation, type, memory and size while time is left. */
GY_MUST_CHECK gy_status gy_tune_cells(gy_tuner *tuner);

#endif
