/**
 * Communicators and collectives. Every collective exists blocking here; the graph pushes them
 * to the engine. All ranks of a communicator call the same sequence.
 */
#ifndef GYRE_COLL_H
#define GYRE_COLL_H

#include <gyre/base.h>
#include <gyre/operation.h>
#include <gyre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gy_comm gy_comm;

/**
 * How contributions are combined. Integers wrap; bit operations take integers alone. Min and
 * max of floating types are NaN where any rank has a NaN, whichever it is, and -0 is below +0
 * (IEEE 754-2019): alike on any number of ranks and by every algorithm. What sign and payload
 * such a NaN has is not said.
 */
typedef enum gy_reduction {
    GY_SUM,
    GY_PROD,
    GY_MIN,
    GY_MAX,
    GY_AVG, /* the sum, divided once at the end (integers: towards 0; summed in a wider type, so
               that nothing wraps, which takes memory for the sums at each call) */
    GY_BIT_AND,
    GY_BIT_OR,
    GY_BIT_XOR,
    GY_REDUCTION_COUNT
} gy_reduction;

/**
 * A user's own reduction: to[i] = a[i] op b[i] for `count` elements. `to` may be `a` or `b`.
 * It must be associative, must give the same on all ranks, and may run on any thread that
 * drives the communicator.
 */
typedef void (*gy_reduction_fn)(void *to, const void *a, const void *b, size_t count,
                                void *arg);

/** Borrowed until the collective has ended; ranks compare the name, size and flag. */
typedef struct gy_user_reduction {
    const char *name; /* in messages */
    gy_reduction_fn combine;
    void *arg;
    size_t element_bytes; /* 0: as the call's dtype */
    bool is_commutative;  /* false: contributions keep the order of the ranks */
} gy_user_reduction;

/**
 * What a collective works on. in == out is in place where both have one size; where one holds a
 * part for each rank, the other may be this rank's part of it. Other overlaps are GY_ARG,
 * as is a buffer that is not there. The other ranks cannot see that: a blocking call then meets
 * them, and where all were refused theirs they can go on; where one was not, and where nobody
 * waits for the call (requests), the communicator fails on all ranks.
 */
typedef struct gy_buffers {
    const void *in;
    void *out;
    size_t count; /* elements, as each function says; vector variants that name all counts: not
                     used */
    gy_dtype dtype;
} gy_buffers;

/** Parts of a buffer, one a rank, in elements. */
typedef struct gy_parts {
    const int64_t *counts;        /* (size) */
    const int64_t *displacements; /* (size) where each begins; NULL: one after the other */
} gy_parts;

/**
 * The communicator of all ranks of this launch: those that `gyre run` started, else this
 * process alone. The first call makes it, in a rendezvous with the other ranks; later calls
 * give the same answer. A rank whose rendezvous failed is not a launch of one rank: it prints
 * gy_error_text() and ends with a status other than 0.
 *
 * @param comm  *comm is written only with GY_OK; the library keeps the communicator
 * @return GY_OK; GY_TIMEOUT, GY_PEER a rank is missing or dead (named); GY_ARG, GY_FORMAT a
 * variable of the launch or a setting cannot be read; GY_STATE after gy_comm_world_close;
 * GY_NOMEM; GY_IO
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_comm_world(gy_comm **comm);
/** Leaves the launch in an orderly way; Gyre's own programs call it before they exit. */
GY_API void gy_comm_world_close(void);

/**
 * The communicator of this process alone. It always exists, needs no launcher and no
 * rendezvous, and is never freed (gy_comm_free leaves it as it is). Where an options struct has
 * a communicator, NULL there means the same. @threads any
 */
#define GY_COMM_SELF (gy_comm_self())
GY_API gy_comm *gy_comm_self(void);

/**
 * This process's rank, and the number of ranks. A communicator that is NULL or was freed is a
 * misuse: the process ends with a text that names the function (as in every other function
 * here).
 */
GY_API int gy_comm_rank(const gy_comm *comm);
GY_API int gy_comm_size(const gy_comm *comm);
/** Memory that peers on this host read directly (registered): reductions over it need no copy.
 */
GY_API gy_pool *gy_comm_pool(gy_comm *comm);

/**
 * Combine `count` elements of every rank; all ranks get the same bits. in == out is in place.
 * @return GY_OK; GY_PEER a rank is gone (named); GY_MISMATCH the ranks called different things
 * (both are printed); GY_TIMEOUT. The contents of `out` are undefined after a failure, the
 * communicator unusable.
 */
GY_API GY_MUST_CHECK gy_status gy_allreduce(gy_comm *comm, const void *in, void *out,
                                            size_t count, gy_dtype dtype,
                                            gy_reduction reduction);
/** `count` elements from root's `data` to all others' `data`. */
GY_API GY_MUST_CHECK gy_status gy_broadcast(gy_comm *comm, void *data, size_t count,
                                            gy_dtype dtype, int root);
/** Each gives `count` elements, out holds size * count in rank order. */
GY_API GY_MUST_CHECK gy_status gy_allgather(gy_comm *comm, const void *in, void *out,
                                            size_t count, gy_dtype dtype);
/** in holds size * count elements, out gets this rank's `count` of the combination. */
GY_API GY_MUST_CHECK gy_status gy_reduce_scatter(gy_comm *comm, const void *in, void *out,
                                                 size_t count, gy_dtype dtype,
                                                 gy_reduction reduction);
GY_API GY_MUST_CHECK gy_status gy_barrier(gy_comm *comm);

/**
 * As gy_allreduce, but root alone gets the combination; the others' `out` is not used.
 */
GY_API GY_MUST_CHECK gy_status gy_reduce(gy_comm *comm, const gy_buffers *data,
                                         gy_reduction reduction, int root);
/** Each gives data->count elements; root's out gets size * count in rank order. */
GY_API GY_MUST_CHECK gy_status gy_gather(gy_comm *comm, const gy_buffers *data, int root);
/** root's in holds size * count elements; each rank's out gets its data->count. */
GY_API GY_MUST_CHECK gy_status gy_scatter(gy_comm *comm, const gy_buffers *data, int root);
/** in holds count elements for each rank, out gets count from each, both in rank order. */
GY_API GY_MUST_CHECK gy_status gy_alltoall(gy_comm *comm, const gy_buffers *data);
/** Rank r gets the combination of ranks 0 to r. Not avg. */
GY_API GY_MUST_CHECK gy_status gy_scan(gy_comm *comm, const gy_buffers *data,
                                       gy_reduction reduction);
/** Rank r gets the combination of ranks 0 to r - 1; rank 0's out is left as it is. Not avg. */
GY_API GY_MUST_CHECK gy_status gy_exclusive_scan(gy_comm *comm, const gy_buffers *data,
                                                 gy_reduction reduction);

/**
 * The vector variants: each rank has its own count. Counts that a rank names must be those that
 * its peers name (GY_MISMATCH). In place where `in` is where its part of `out` begins, or the
 * reverse.
 *
 * allgatherv: in holds parts->counts[rank] elements, all ranks name all counts.
 */
GY_API GY_MUST_CHECK gy_status gy_allgatherv(gy_comm *comm, const gy_buffers *data,
                                             const gy_parts *parts);
/** Each gives data->count elements; `parts` says at root where they go, elsewhere not used. */
GY_API GY_MUST_CHECK gy_status gy_gatherv(gy_comm *comm, const gy_buffers *data,
                                          const gy_parts *parts, int root);
/** Each gets data->count elements; `parts` says at root where they are, elsewhere not used. */
GY_API GY_MUST_CHECK gy_status gy_scatterv(gy_comm *comm, const gy_buffers *data,
                                           const gy_parts *parts, int root);
/** Rank r gets part r, parts->counts[r] elements, of the combination of all `in`s. */
GY_API GY_MUST_CHECK gy_status gy_reduce_scatterv(gy_comm *comm, const gy_buffers *data,
                                                  const gy_parts *parts,
                                                  gy_reduction reduction);
/** Part d of in goes to rank d, part s of out comes from rank s. Not in place. */
GY_API GY_MUST_CHECK gy_status gy_alltoallv(gy_comm *comm, const gy_buffers *data,
                                            const gy_parts *in_parts,
                                            const gy_parts *out_parts);

/** One collective call; zero fields are the defaults. */
typedef struct gy_coll_call {
    gy_operation operation;
    gy_dtype dtype;
    gy_reduction reduction;
    const gy_user_reduction *user; /* instead of reduction; NULL: none */
    int root;                      /* broadcast, reduce, gather, scatter */
    bool is_vector;                /* the vector variant: */
    gy_parts in_parts, out_parts;  /* its counts, where this rank knows them */
    size_t count;                  /* elements, as in the public function of that name */
    const void *in;                /* broadcast: not used */
    void *out;    /* may be `in` (allgather, gather: in = out + rank * count; reduce-scatter,
                     scatter: the reverse) */
    int priority; /* among those in flight, higher first */
    double timeout_s; /* 0: the communicator's */
} gy_coll_call;

/** Any collective, as a struct: also those with a user's reduction or a deadline of their own.
 */
GY_API GY_MUST_CHECK gy_status gy_coll_run(gy_comm *comm, const gy_coll_call *call);

enum { GY_CHOICE_BYTES = 128 };

/**
 * Which algorithm the call would take on this communicator, and why: "staged (built in)",
 * "slots" up to 8 KiB, "hierarchy:tree+ring (model, 310 us)".
 *
 * @param is_registered  the buffers of all ranks lie in their pools (gy_comm_pool)
 * @return GY_OK; GY_NOMEM; @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_coll_choice(gy_comm *comm, const gy_coll_call *call,
                                              bool is_registered, char out[GY_CHOICE_BYTES]);

/* ---- Point to point ---- */

/** A message; zero fields are the defaults. */
typedef struct gy_message {
    void *data; /* not written by a send */
    size_t count;
    gy_dtype dtype;
    int peer;         /* rank in the communicator; oneself too */
    int tag;          /* >= 0; messages of one tag from one rank arrive in the order sent */
    size_t *received; /* a receive: gets the count that came, up to `count`; NULL: exactly
                         `count` must come */
    double timeout_s; /* 0: the communicator's */
} gy_message;

/**
 * Send and receive. A send may end before its receive began. Ranks can post messages and
 * collectives side by side.
 * @return GY_OK; GY_ARG; GY_PEER; GY_TIMEOUT; GY_MISMATCH another count came (both ranks fail)
 */
GY_API GY_MUST_CHECK gy_status gy_send(gy_comm *comm, const void *data, size_t count,
                                       gy_dtype dtype, int to, int tag);
GY_API GY_MUST_CHECK gy_status gy_recv(gy_comm *comm, void *data, size_t count, gy_dtype dtype,
                                       int from, int tag);

/* ---- Requests: calls that run while others do ---- */

/**
 * A call that can be started again and again (persistent), or once. Whoever tests or waits
 * drives all that is in flight on the communicator and its groups. Ranks start collectives in
 * one order; they may wait for them in any.
 */
typedef struct gy_request gy_request;

/** Make a request; nothing starts. The call's buffers, counts and user reduction are borrowed
 * until the request is freed. GY_ARG; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_request_init(gy_comm *comm, const gy_coll_call *call,
                                               gy_request **request);
GY_API GY_MUST_CHECK gy_status gy_request_init_send(gy_comm *comm, const gy_message *message,
                                                    gy_request **request);
GY_API GY_MUST_CHECK gy_status gy_request_init_recv(gy_comm *comm, const gy_message *message,
                                                    gy_request **request);
/** Start it: its last run has been waited for, or it is new (GY_STATE). Never blocks. */
GY_API GY_MUST_CHECK gy_status gy_request_start(gy_request *request);
/** Make and start: the nonblocking form of every call. */
GY_API GY_MUST_CHECK gy_status gy_request_begin(gy_comm *comm, const gy_coll_call *call,
                                                gy_request **request);
GY_API GY_MUST_CHECK gy_status gy_request_begin_send(gy_comm *comm, const gy_message *message,
                                                     gy_request **request);
GY_API GY_MUST_CHECK gy_status gy_request_begin_recv(gy_comm *comm, const gy_message *message,
                                                     gy_request **request);
/** GY_AGAIN still under way; GY_OK; how it failed. Moves what can be moved. One that is not
 * started is GY_OK. */
GY_API GY_MUST_CHECK gy_status gy_request_test(gy_request *request);
/**
 * Until it has ended. GY_TIMEOUT at the deadline: it is still under way, unless its own time
 * (gy_coll_call.timeout_s) is over, which fails the communicator.
 */
GY_API GY_MUST_CHECK gy_status gy_request_wait(gy_request *request, gy_deadline deadline);
/** Until all have ended: the first failure, or GY_OK. */
GY_API GY_MUST_CHECK gy_status gy_request_wait_all(gy_request *const *requests, size_t count,
                                                   gy_deadline deadline);
/** Until one that was started has ended: *index; GY_ARG none is started. Its failure. */
GY_API GY_MUST_CHECK gy_status gy_request_wait_any(gy_request *const *requests, size_t count,
                                                   gy_deadline deadline, size_t *index);
/** Forget it; one under way goes on without it and its buffers stay borrowed. NULL is fine. */
GY_API void gy_request_free(gy_request *request);

/* ---- Groups ---- */

enum { GY_NO_COLOUR = -1 };

/**
 * Communicators of those ranks that name the same colour >= 0, in the order of their keys, then
 * ranks; a rank with GY_NO_COLOUR gets NULL. All ranks of `comm` call it. A group has numbers
 * and channels of its own, so that several are in flight side by side; a failure in one fails
 * all that stem from one world.
 * @return GY_OK; GY_ARG; GY_LIMIT more than 63 live groups on a rank (on all that name the
 * colour); GY_NOMEM; as gy_barrier
 * @threads one split, copy or free at a time in a process
 */
GY_API GY_MUST_CHECK gy_status gy_comm_split(gy_comm *comm, int colour, int key,
                                             gy_comm **group);
/** The same ranks with numbers and channels of their own. */
GY_API GY_MUST_CHECK gy_status gy_comm_dup(gy_comm *comm, gy_comm **copy);
/**
 * Leaves in an orderly way. A group is freed by all its ranks, with nothing in flight, before
 * the communicator that it stems from. NULL is fine.
 */
GY_API void gy_comm_free(gy_comm *comm);

/* ---- After a failure ---- */

/**
 * End the whole run with `text`, on all ranks: their calls fail with it, and under `gyre run`
 * the launcher says it and ends all ranks, with status `code` (1 to 255). Does not return.
 * @threads any
 */
GY_API __attribute__((noreturn)) void gy_comm_abort(gy_comm *comm, int code, const char *text);

/**
 * All calls on the communicator and on all that stem from its world fail on all ranks, those
 * under way and those to come, with GY_CANCELLED and a text that names this rank; so that those
 * who do not wait for the rank that failed learn of it too. @threads any
 */
GY_API void gy_comm_revoke(gy_comm *comm);

/** What ranks agree on: in what this one says, out what is common to all that live. */
typedef struct gy_agreement {
    uint32_t flags; /* AND */
    int64_t least;  /* MIN */
    int64_t most;   /* MAX */
    int lost;       /* out: ranks that are gone */
} gy_agreement;

/**
 * Agree, also on a communicator that has failed, and while ranks die: all that return have the
 * same. What a rank said that died meanwhile counts for all or for none. `comm` is no group.
 * All ranks call it (and gy_comm_shrink) in one order.
 * @return GY_OK; GY_TIMEOUT a rank is there and does not come (named): it cannot be called
 * again; GY_PEER the others have given this rank up; GY_ARG; GY_STATE it was shrunk; GY_NOMEM
 * @cost f + 2 rounds for f deaths meanwhile, 1 when all say the same; p - 1 messages a round
 * @source docs/decisions/018-recovery.md
 */
GY_API GY_MUST_CHECK gy_status gy_comm_agree(gy_comm *comm, gy_agreement *agreement);

/**
 * A communicator of the ranks that live, in the old order, whatever dies meanwhile (a rank that
 * dies too late to be left out fails the new one, which is shrunk in its turn). `comm` fails
 * if it has not yet, and stays so; it is still to be freed, after its groups. The memory of
 * gy_comm_pool() stays. @return as gy_comm_agree
 */
GY_API GY_MUST_CHECK gy_status gy_comm_shrink(gy_comm *comm, gy_comm **survivors);

/**
 * A communicator of all ranks again, under `gyre run --on-failure=restart`: waits until the
 * dead ranks were started anew and all are there. New ranks get to it by gy_comm_world(); where
 * `comm` was the world, `whole` is it from now on. `comm` fails if it has not yet, and stays
 * so; it is still to be freed, which takes its gy_comm_pool() memory with it. So do its groups:
 * calls on them give the cause at once; split `whole` for new ones.
 * @return GY_OK; GY_TIMEOUT; GY_UNSUPPORTED nobody restarts ranks; GY_PEER the launcher is
 * gone; GY_ARG a group; GY_STATE; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_comm_recover(gy_comm *comm, gy_comm **whole);

/* ---- Work that survives its ranks ---- */

/**
 * Collectives whose results are kept by peers since the last checkpoint, so that a rank that is
 * started anew catches up: it loads its state, and its calls are answered until it stands where
 * the others wait. They serve it from inside their own calls. All ranks must make the same
 * calls from the same state. Nothing else uses the communicator. @source
 * docs/decisions/018-recovery.md
 */
typedef struct gy_recoverable gy_recoverable;

/** Zero fields are the defaults. */
typedef struct gy_recoverable_options {
    int replicas;       /* copies beside the first: so many ranks may be lost at once; 2. When
                           more are and something is lost, all ranks say what: GY_STATE */
    size_t limit_bytes; /* of all results since a checkpoint, of which a rank keeps about
                           (replicas + 1) / size; 256 MiB */
} gy_recoverable_options;

/** Over a communicator of all ranks, which stays the caller's. GY_ARG a group; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_recoverable_new(gy_comm *comm,
                                                  const gy_recoverable_options *options,
                                                  gy_recoverable **recoverable);
/** NULL is fine. Communicators that failed on the way are freed, also the first one. */
GY_API void gy_recoverable_free(gy_recoverable *recoverable);
/** The communicator of now. */
GY_API gy_comm *gy_recoverable_comm(const gy_recoverable *recoverable);
/** Bytes of results that this rank keeps now. */
GY_API size_t gy_recoverable_bytes(const gy_recoverable *recoverable);
/**
 * The first call: this rank's state at the last checkpoint into `state` (size_bytes as given
 * there), *version counts checkpoints from 1; 0: there was none, `state` is left as it is.
 * @return GY_OK; GY_MISMATCH; GY_STATE the state is lost, with too many ranks; as
 * gy_comm_recover
 */
GY_API GY_MUST_CHECK gy_status gy_recoverable_load(gy_recoverable *recoverable, void *state,
                                                   size_t size_bytes, int64_t *version);
/**
 * Allreduce, broadcast, allgather or barrier. @return as gy_coll_run; GY_LIMIT; GY_UNSUPPORTED;
 * GY_STATE a result is lost; GY_MISMATCH a new rank calls something else; as gy_comm_recover
 */
GY_API GY_MUST_CHECK gy_status gy_recoverable_run(gy_recoverable *recoverable,
                                                  const gy_coll_call *call);
GY_API GY_MUST_CHECK gy_status gy_recoverable_allreduce(gy_recoverable *recoverable,
                                                        const void *in, void *out, size_t count,
                                                        gy_dtype dtype, gy_reduction reduction);
/** Keep a copy of `state` here and on `replicas` peers and forget the results before. The same
 * returns. */
GY_API GY_MUST_CHECK gy_status gy_recoverable_checkpoint(gy_recoverable *recoverable,
                                                         const void *state, size_t size_bytes);
/** The last call: returns when no rank needs this one any more. The same returns. */
GY_API GY_MUST_CHECK gy_status gy_recoverable_finish(gy_recoverable *recoverable);

#ifdef __cplusplus
}
#endif
#endif
