/**
 * Room coll: communicators and the collectives in flight on them. Reading order: coll.h, call,
 * comm, progress, slots, run, plans, choose, api, world, kernels/.
 *
 * A communicator has no thread of its own: whoever waits drives it (gy_comm_progress). Each
 * collective takes the next number when it is begun or reserved; numbers and calls are compared
 * across ranks before any rank touches a peer's data.
 */
#ifndef GY_COLL_COLL_H
#define GY_COLL_COLL_H

#include "plan/plan.h"
#include "transport/transport.h"

#include <gyre/coll.h>

/** The end of a collective; a failure's text is in gy_error_text(). Called by whoever drives,
 * no lock held. */
typedef void (*gy_coll_end)(void *arg, gy_status status);

typedef struct gy_coll gy_coll; /* a collective that has its number */

typedef struct gy_comm_options {
    double timeout_s;      /* 0: GYRE_TIMEOUT seconds, else 60 */
    const char *algorithm; /* as GYRE_COLL; NULL: GYRE_COLL, else chosen */
    const char *table; /* file of `gyre tune`, "none"; NULL: GYRE_TUNE, else the usual one */
    bool has_messages_only; /* as if the ranks shared no memory */
    bool is_self; /* GY_COMM_SELF: GYRE_COLL is not looked at, gy_comm_free keeps it */
    /* Calls that differ fail alone, on all ranks, and the communicator goes on (ranks that
     * share memory). `skip_text` says what `why` of gy_comm_skip means; NULL: nothing is known.
     */
    bool outlives_mismatch;
    const char *(*skip_text)(uint8_t why);
    /* Who starts dead ranks anew; NULL: nobody. `renew` waits until all ranks are there again
     * and gives a transport of all; `finish` says that this rank has done all: GY_OK all have,
     * GY_AGAIN ranks were started anew. */
    gy_status (*renew)(void *launcher, gy_deadline deadline, gy_transport **transport);
    gy_status (*finish)(void *launcher, gy_deadline deadline);
    void *launcher;
} gy_comm_options;

/**
 * A communicator over all ranks of a transport, which it takes (also when it fails).
 * @return GY_OK; GY_ARG an algorithm or timeout that does not exist; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_comm_new(gy_transport *transport, const gy_comm_options *options,
                                    gy_comm **comm);
/** GY_ARG, GY_FORMAT: GYRE_TIMEOUT, GYRE_COLL, GYRE_TUNE or a variable of a run holds what it
 * cannot hold. */
GY_MUST_CHECK gy_status gy_comm_check_settings(void);

/**
 * Take the next number now, start later: all ranks reserve in one order, and start when their
 * data is there. Every reserved collective must be started or poisoned. @threads any
 */
GY_MUST_CHECK gy_status gy_coll_reserve(gy_comm *comm, gy_coll **coll);
/**
 * Start a reserved collective; `end` is called exactly once, also for a bad call or a failed
 * communicator. Buffers are borrowed until then. Never blocks. @threads any
 */
void gy_coll_start(gy_coll *coll, const gy_coll_call *call, gy_coll_end end, void *arg);
/** This rank cannot take part: all ranks fail with the same cause instead of waiting. */
void gy_coll_poison(gy_coll *coll, const gy_error *cause, gy_coll_end end, void *arg);
/**
 * This rank cannot go on with the communicator: what is in flight and all that comes fails with
 * `cause`, here and on its peers, who hear of it in their next collective. @threads any
 */
void gy_comm_refuse(gy_comm *comm, const gy_error *cause);
/**
 * This rank takes no part in the next number: peers that do fail with GY_MISMATCH, alone. Of
 * communicators that outlive mismatches. What the rank wrote before is seen by whoever sees the
 * number ended. Never waits. @threads any
 */
void gy_comm_skip(gy_comm *comm, uint8_t why);
/** Numbers that a rank has ended or skipped: all below it. @threads any */
uint64_t gy_comm_ended_by(const gy_comm *comm, int rank);
/** The number that comes next here. @threads who calls the collectives */
uint64_t gy_comm_next(const gy_comm *comm);
/** GY_MISMATCH, `rank` has skipped `number`; `call`: what this rank does there. */
gy_status gy_comm_skipped(const gy_comm *comm, int rank, uint64_t number, const char *call);
/** Reserve and start. */
GY_MUST_CHECK gy_status gy_coll_begin(gy_comm *comm, const gy_coll_call *call, gy_coll_end end,
                                      void *arg);

/**
 * Move what can be moved and call the ends of what is finished. True when something moved.
 * Never blocks; returns false at once when another thread is at it. @threads any
 */
bool gy_comm_progress(gy_comm *comm);

/** Collectives that have a number but no end yet; after a failure soon none but those that are
 * reserved and not started. @threads any */
int64_t gy_comm_in_flight(gy_comm *comm);

/** What a large message between these ranks costs: as measured by `gyre tune`, else built-in
 * figures; between hosts those of the links across. Zero: they share memory and nothing was
 * measured. */
gy_links gy_coll_links(const gy_comm *comm);

/** What a communicator did, for --stats. */
typedef struct gy_comm_stats {
    int64_t collectives, bytes; /* ended; of this rank's vectors */
    int64_t wait_ns;            /* inside blocking calls */
} gy_comm_stats;
gy_comm_stats gy_comm_statistics(gy_comm *comm);

/** May ranks of one host take the algorithm without a table or a name? What prices exchanges
 * looks at no other. */
bool gy_coll_is_usual(const gy_algorithm *row);

/** "collective 12 of group 1 led by rank 0, allreduce of 3 f32 by sum", "receive of 3 f32 from
 * rank 1, tag 5"; of a record that may hold anything. */
enum { GY_RECORD_TEXT = 224 };
const char *gy_record_text(const gy_flight_record *record, char out[GY_RECORD_TEXT]);

#endif
