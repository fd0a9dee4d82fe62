/**
 * Where objects lie, as far as their store tells: HDFS names the hosts of each block, so a
 * vertex would best run on those that have most of what it reads.
 */
#ifndef GY_FLOW_MEMO_NEAR_H
#define GY_FLOW_MEMO_NEAR_H

#include "base/alloc.h"
#include "base/env.h"
#include "flow/dag.h"

/** Of one making of keys. Zero but for env at first. */
typedef struct gy_near {
    gy_env *env;
    int64_t until_ns; /* 0: nothing was asked so far */
    bool is_over;     /* a name node did not answer, or all of it took too long: ask no more */
} gy_near;

/**
 * The hosts (three at most, most bytes first, a name with dots also without what follows the
 * first one) that have the ranges which a prototype's files name. It is a request, so a store
 * that does not answer is warned of once, and ends no job.
 *
 * @param hosts of the arena, with spaces between; NULL: no store told any
 * @return GY_OK; GY_NOMEM; GY_ARG a text that is no range
 * @cost a request for each range of 1 MiB or more; 5 s for all of a making at most
 */
GY_MUST_CHECK gy_status gy_objects_near(gy_near *near, const gy_proto *proto, gy_arena *arena,
                                        const char **hosts);

#endif
