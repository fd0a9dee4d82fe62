/**
 * Tests: all ranks of a communicator in this process, a thread each, on one shared segment (or
 * on what transports they are given).
 */
#ifndef GY_COLL_CREW_PRIV_H
#define GY_COLL_CREW_PRIV_H

#include "coll/coll.h"

#include <stdio.h>
#include <string.h>

enum { CREW_MAX = 19 };

static size_t crew_ring_bytes = 4096; /* small, so that messages wrap */
static int crew_cores; /* the cores that the ranks are told of; 0: the machine's */

typedef struct crew_member {
    gy_comm *comm;
    int rank, size, failures;
    void *shared_arg;
    void (*run)(struct crew_member *me);
    gy_thread thread;
} crew_member;

static inline void *crew_thread(void *arg)
{
    crew_member *me = arg;
    me->run(me);
    return NULL;
}

/* Runs `run` as every rank of open transports, which it takes. */
static inline int crew_run_on(gy_transport **transports, int ranks,
                              const gy_comm_options *options, void (*run)(crew_member *me),
                              void *arg)
{
    crew_member members[CREW_MAX];
    for (int rank = 0; rank < ranks; rank++) {
        members[rank] =
            (crew_member){.rank = rank, .size = ranks, .run = run, .shared_arg = arg};
        if (gy_comm_new(transports[rank], options, &members[rank].comm) != GY_OK) {
            return -1;
        }
    }
    int failures = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (gy_thread_start(&members[rank].thread, "rank", crew_thread, &members[rank]) !=
            GY_OK) {
            return -1;
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_thread_join(&members[rank].thread);
        failures += members[rank].failures;
    }
    for (int rank = 0; rank < ranks; rank++) {
        gy_comm_free(members[rank].comm);
    }
    return failures;
}

/* Runs `run` as every rank of one host; returns how many expectations failed, or -1 when the
 * ranks could not be set up. */
static inline int crew_run(int ranks, const gy_comm_options *options,
                           void (*run)(crew_member *me), void *arg)
{
    gy_transport *transports[CREW_MAX];
    const gy_transport_segment_options segment = {.ranks = ranks,
                                                  .pool_bytes = 16 << 20,
                                                  .ring_bytes = crew_ring_bytes,
                                                  .host_cores = crew_cores};
    if (gy_transport_shm_open_all(&segment, gy_env_real(), transports) != GY_OK) {
        return -1;
    }
    return crew_run_on(transports, ranks, options, run, arg);
}

#define EXPECT(fact)                                                                           \
    do {                                                                                       \
        if (!(fact)) {                                                                         \
            printf("rank %d line %d: not so: %s (%s)\n", me->rank, __LINE__, #fact,            \
                   gy_error_text());                                                           \
            me->failures++;                                                                    \
        }                                                                                      \
    } while (0)

#endif
