/**
 * Data locality of objects: HDFS names the hosts of each block, and a vertex runs best on the
 * hosts that have most of its input.
 */
#ifndef GY_FLOW_MEMO_NEAR_H
#define GY_FLOW_MEMO_NEAR_H

#include "base/alloc.h"
#include "base/env.h"
#include "flow/dag.h"

/** State of one computation of keys. Zero at first, except for env. */
typedef struct gy_near {
    gy_env *env;
    int64_t until_ns; /* 0: no request so far */
    /* a name node did not answer, or the time limit is used up: send no more requests */
    bool is_over;
} gy_near;

/**
 * Find the hosts (at most three, most bytes first) that have the ranges which a prototype's
 * files name; a host name with dots is listed also in its short form. The hosts are only a
 * preference, so a store that does not answer gives one warning and fails no job.
 *
 * @param hosts in the arena, separated by spaces; NULL: the store named no hosts
 * @return GY_OK; GY_NOMEM; GY_ARG a text that is no range
 * @cost a request for each range of 1 MiB or more; at most 5 s for all keys together
 */
GY_MUST_CHECK gy_status gy_objects_near(gy_near *near, const gy_proto *proto, gy_arena *arena,
                                        const char **hosts);

#endif
