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

/** Called once when a collective has ended; the text of a failure is in gy_error_text(). The
 * thread that makes progress calls it and holds no lock. */
typedef void (*gy_coll_end)(void *arg, gy_status status);

typedef struct gy_coll gy_coll; /* a collective that has a number */

typedef struct gy_comm_options {
    double timeout_s;      /* 0: GYRE_TIMEOUT seconds, else 60 */
    const char *algorithm; /* as GYRE_COLL; NULL: GYRE_COLL, else chosen */
    const char *table; /* file of `gyre tune`, "none"; NULL: GYRE_TUNE, else the usual one */
    bool has_messages_only; /* as if the ranks shared no memory */
    bool is_self; /* GY_COMM_SELF: it ignores GYRE_COLL, and gy_comm_free leaves it alive */
    /* Calls that differ fail alone, on all ranks, and the communicator goes on (only ranks that
     * share memory). `skip_text` explains the `why` of gy_comm_skip; NULL: the text names no
     * reason. */
    bool outlives_mismatch;
    const char *(*skip_text)(uint8_t why);
    /* How dead ranks are restarted; NULL: they are not. `renew` waits until all ranks live
     * again and gives a transport of all of them. `finish` reports that this rank has done its
     * work: GY_OK all ranks have, GY_AGAIN ranks were restarted. */
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
/** Read the timeout of calls: the option's value, else that of GYRE_TIMEOUT. GY_ARG */
GY_MUST_CHECK gy_status gy_comm_read_timeout(double wanted_s, int64_t *timeout_ns);
/** GY_ARG, GY_FORMAT: GYRE_TIMEOUT, GYRE_COLL, GYRE_TUNE or a variable of a run holds what it
 * cannot hold. */
GY_MUST_CHECK gy_status gy_comm_check_settings(void);

/** Take the next number now and start later. All ranks reserve in one order, and start when
 * their data is ready. Every reserved collective must be started or poisoned. @threads any */
GY_MUST_CHECK gy_status gy_coll_reserve(gy_comm *comm, gy_coll **coll);
/**
 * Start a reserved collective; `end` is called exactly once, also for a bad call or a failed
 * communicator. Buffers are borrowed until then. Never blocks. @threads any
 */
void gy_coll_start(gy_coll *coll, const gy_coll_call *call, gy_coll_end end, void *arg);
/**
 * Let a reserved collective add the bytes that this rank sends to *bytes, all of them before
 * its end function is called: those of its messages and, where ranks share memory, those that
 * it copies from and to memory of the others. A collective of a library counts nothing.
 * @param bytes  borrowed until the end function is called
 */
void gy_coll_count(gy_coll *coll, uint64_t *bytes);
/** Report that this rank cannot take part: all ranks fail with the same cause instead of
 * waiting. */
void gy_coll_poison(gy_coll *coll, const gy_error *cause, gy_coll_end end, void *arg);
/** Report that this rank cannot go on with the communicator: all calls in flight and all later
 * ones fail with `cause`, here and on the peers, which learn of it in their next collective.
 * @threads any */
void gy_comm_refuse(gy_comm *comm, const gy_error *cause);
/** Skip the next number: peers that take part in it fail with GY_MISMATCH, and the communicator
 * goes on. Only for communicators that outlive mismatches. A rank that sees the number ended
 * sees what this rank wrote before. Never waits. @threads any */
void gy_comm_skip(gy_comm *comm, uint8_t why);
/** Return the number below which the rank has ended or skipped all. @threads any */
uint64_t gy_comm_ended_by(const gy_comm *comm, int rank);
/** Return the next number of this rank. @threads the one that calls the collectives */
uint64_t gy_comm_next(const gy_comm *comm);
/** Fail with GY_MISMATCH, since `rank` has skipped `number`; `call` is the text of this rank's
 * call. */
gy_status gy_comm_skipped(const gy_comm *comm, int rank, uint64_t number, const char *call);
/** The number that messages about failures give rank `rank` of a communicator: that of the
 * launch. @threads any */
int gy_comm_launch_rank(const gy_comm *comm, int rank);
/** Reserve and start. */
GY_MUST_CHECK gy_status gy_coll_begin(gy_comm *comm, const gy_coll_call *call, gy_coll_end end,
                                      void *arg);

/**
 * Start a send or a receive, which takes no number; `end` is called exactly once, also for a
 * communicator that has failed: within this call where the transport takes the message at
 * once, or has it already. The message's memory is borrowed until then. Never blocks.
 * @return GY_OK; GY_ARG a bad message, GY_NOMEM: `end` is not called @threads any
 */
GY_MUST_CHECK gy_status gy_coll_send(gy_comm *comm, const gy_message *message, gy_coll_end end,
                                     void *arg);
GY_MUST_CHECK gy_status gy_coll_receive(gy_comm *comm, const gy_message *message,
                                        gy_coll_end end, void *arg);

/** Make progress, and call the end functions of calls that have ended. Returns true when
 * something moved. Never blocks; returns false at once when another thread makes progress.
 * @threads any */
bool gy_comm_progress(gy_comm *comm);

/** Return how many collectives have a number and have not ended; after a failure these are soon
 * only the ones that are reserved and not started. @threads any */
int64_t gy_comm_in_flight(gy_comm *comm);

/** What a large message between these ranks costs: as measured by `gyre tune`, else built-in
 * figures; between hosts those of the links across. Zero: they share memory and nothing was
 * measured. */
gy_links gy_coll_links(const gy_comm *comm);

/** What a communicator has done, for --stats. */
typedef struct gy_comm_stats {
    int64_t collectives, bytes; /* ended; of this rank's vectors */
    int64_t wait_ns;            /* inside blocking calls */
} gy_comm_stats;
gy_comm_stats gy_comm_statistics(gy_comm *comm);

/** Test whether ranks of one host may take the algorithm without a table and without GYRE_COLL.
 * The pricing of exchanges considers only such algorithms. */
bool gy_coll_is_usual(const gy_algorithm *row);

/** Record where the time of this rank went, for gyre doctor. @threads any */
void gy_comm_record_account(gy_comm *comm, const gy_flight_account *account);

/** Write a record as text: "collective 12 of group 1 led by rank 0, allreduce of 3 f32 by sum",
 * or "receive of 3 f32 from rank 1, tag 5". The record may hold any bytes. */
enum { GY_RECORD_TEXT = 224 };
const char *gy_record_text(const gy_flight_record *record, char out[GY_RECORD_TEXT]);

#endif
