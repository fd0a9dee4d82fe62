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
 * What a communicator can be made of that Gyre's launcher did not start: ranks that another
 * library brought together and that can exchange bytes (gyre/mpi.h: those of an MPI_Comm).
 */
typedef struct gy_bootstrap {
    int rank, size;
    /* Each rank gives size_bytes at `mine` and gets those of all at `all`, in the order of the
     * ranks. GY_OK; a failure, which ends the making on this rank. */
    gy_status (*allgather)(void *arg, const void *mine, void *all, size_t size_bytes);
    void *arg;
} gy_bootstrap;

/**
 * A communicator of the ranks of a bootstrap, which all call it; nothing of the bootstrap is
 * used later. The ranks are on one host and see one /proc. gy_comm_free frees it.
 * @return GY_OK on all ranks; else a failure on all: GY_FORMAT a rank has another version of
 * Gyre, with another protocol of ranks; GY_UNSUPPORTED the ranks are on several
 * hosts (gy_comm_world joins those of a whole launch); GY_PEER another rank could not; GY_ARG;
 * GY_LIMIT more than 1024 ranks; GY_NOMEM; GY_IO; what allgather returned
 */
GY_API GY_MUST_CHECK gy_status gy_comm_from_bootstrap(const gy_bootstrap *bootstrap,
                                                      gy_comm **comm);

/**
 * This process's rank, and the number of ranks. A communicator that is NULL or was freed is a
 * misuse: the process ends with a text that names the function (as in every other function
 * here).
 */
GY_API int gy_comm_rank(const gy_comm *comm);
GY_API int gy_comm_size(const gy_comm *comm);
/**
 * Where ranks run: how many hosts the communicator's ranks are on; the host of `rank`, counted
 * from 0 in the order of ranks; how many ranks are on this process's host, and which of them
 * this one is, counted from 0 in the order of ranks.
 */
GY_API int gy_comm_host_count(const gy_comm *comm);
GY_API int gy_comm_host(const gy_comm *comm, int rank);
GY_API int gy_comm_local_size(const gy_comm *comm);
GY_API int gy_comm_local_rank(const gy_comm *comm);
/** Memory that peers on this host read directly (registered): reductions over it need no copy.
 */
GY_API gy_pool *gy_comm_pool(gy_comm *comm);

/* ---- Collectives ----
 *
 * One calling style: communicator, input, output, count, element type, and then what the
 * operation alone has, reduction and root. Every rank gives `count` elements, gets `count`
 * elements, or both. A buffer that has a part for each rank holds size * count elements, the
 * parts in the order of the ranks.
 *
 * The vector variants, named ...v as in MPI, do what the operation without the v does, with
 * parts of different lengths: part r, of rank r, has parts->counts[r] elements. `parts` stands
 * where `count` stood; a rank whose other buffer is one part has a `count` for that one.
 *
 * gy_NAME runs the collective and returns when it has ended. gy_NAME_call takes the same
 * arguments without the communicator and gives the call as a value, for everything else that
 * can be done with it:
 *
 *     gy_coll_call call = gy_allreduce_call(a, b, n, GY_F32, GY_SUM);
 *     call.priority = 1;
 *     status = gy_request_begin(comm, &call, &request);       runs beside the caller
 *     status = gy_request_init(comm, &call, &request);        can be started again and again
 *     status = gy_recoverable_run(recoverable, &call);        survives the loss of ranks
 *     status = gy_coll_choice(comm, &call, false, text);      which algorithm it would take
 *
 * Buffers: in == out is in place where both have one size; where one holds a part for each
 * rank, the other may be this rank's part of it. Other overlaps are GY_ARG, as is a buffer that
 * is not there. The other ranks cannot see that: a blocking call then meets them, and where all
 * were refused theirs they can go on; where one was not, and where nobody waits for the call
 * (requests), the communicator fails on all ranks.
 *
 * Every call returns GY_OK; GY_ARG; GY_PEER a rank is gone (named); GY_MISMATCH the ranks
 * called different things (both are printed), or name different counts; GY_TIMEOUT; GY_NOMEM.
 * After a failure the contents of `out` are undefined and the communicator is unusable.
 */

/** One collective call; zero fields are the defaults. */
typedef struct gy_coll_call {
    gy_operation operation;
    gy_dtype dtype;
    gy_reduction reduction;
    const gy_user_reduction *user; /* instead of reduction; NULL: none */
    int root;                      /* broadcast, reduce, gather, scatter */
    bool is_vector;                /* the vector variant: */
    gy_parts in_parts, out_parts;  /* its counts, where this rank knows them */
    size_t count;                  /* elements, as in the function of that name */
    const void *in;                /* broadcast: not used */
    void *out;    /* may be `in` (allgather, gather: in = out + rank * count; reduce-scatter,
                     scatter: the reverse) */
    int priority; /* among those in flight, higher first */
    double timeout_s; /* 0: the communicator's */
} gy_coll_call;

/** All ranks get the combination of the inputs of all ranks, with the same bits. */
GY_API GY_MUST_CHECK gy_status gy_allreduce(gy_comm *comm, const void *in, void *out,
                                            size_t count, gy_dtype dtype,
                                            gy_reduction reduction);
GY_API gy_coll_call gy_allreduce_call(const void *in, void *out, size_t count, gy_dtype dtype,
                                      gy_reduction reduction);

/** Root alone gets the combination; the others' `out` is not used. */
GY_API GY_MUST_CHECK gy_status gy_reduce(gy_comm *comm, const void *in, void *out, size_t count,
                                         gy_dtype dtype, gy_reduction reduction, int root);
GY_API gy_coll_call gy_reduce_call(const void *in, void *out, size_t count, gy_dtype dtype,
                                   gy_reduction reduction, int root);

/** All ranks get root's `data` in theirs. */
GY_API GY_MUST_CHECK gy_status gy_broadcast(gy_comm *comm, void *data, size_t count,
                                            gy_dtype dtype, int root);
GY_API gy_coll_call gy_broadcast_call(void *data, size_t count, gy_dtype dtype, int root);

/** All ranks get the inputs of all ranks, as parts of `out`. */
GY_API GY_MUST_CHECK gy_status gy_allgather(gy_comm *comm, const void *in, void *out,
                                            size_t count, gy_dtype dtype);
GY_API gy_coll_call gy_allgather_call(const void *in, void *out, size_t count, gy_dtype dtype);

/** Root alone gets the inputs of all ranks, as parts of `out`. */
GY_API GY_MUST_CHECK gy_status gy_gather(gy_comm *comm, const void *in, void *out, size_t count,
                                         gy_dtype dtype, int root);
GY_API gy_coll_call gy_gather_call(const void *in, void *out, size_t count, gy_dtype dtype,
                                   int root);

/** Each rank gets its part of root's `in`; the others' `in` is not used. */
GY_API GY_MUST_CHECK gy_status gy_scatter(gy_comm *comm, const void *in, void *out,
                                          size_t count, gy_dtype dtype, int root);
GY_API gy_coll_call gy_scatter_call(const void *in, void *out, size_t count, gy_dtype dtype,
                                    int root);

/** Each rank gets its part of the combination; `in` has all parts. */
GY_API GY_MUST_CHECK gy_status gy_reduce_scatter(gy_comm *comm, const void *in, void *out,
                                                 size_t count, gy_dtype dtype,
                                                 gy_reduction reduction);
GY_API gy_coll_call gy_reduce_scatter_call(const void *in, void *out, size_t count,
                                           gy_dtype dtype, gy_reduction reduction);

/** Part d of `in` goes to rank d, part s of `out` comes from rank s. */
GY_API GY_MUST_CHECK gy_status gy_alltoall(gy_comm *comm, const void *in, void *out,
                                           size_t count, gy_dtype dtype);
GY_API gy_coll_call gy_alltoall_call(const void *in, void *out, size_t count, gy_dtype dtype);

/** Rank r gets the combination of ranks 0 to r. Not GY_AVG. */
GY_API GY_MUST_CHECK gy_status gy_scan(gy_comm *comm, const void *in, void *out, size_t count,
                                       gy_dtype dtype, gy_reduction reduction);
GY_API gy_coll_call gy_scan_call(const void *in, void *out, size_t count, gy_dtype dtype,
                                 gy_reduction reduction);

/** Rank r gets the combination of ranks 0 to r - 1; rank 0's `out` stays as it is. Not GY_AVG.
 */
GY_API GY_MUST_CHECK gy_status gy_exclusive_scan(gy_comm *comm, const void *in, void *out,
                                                 size_t count, gy_dtype dtype,
                                                 gy_reduction reduction);
GY_API gy_coll_call gy_exclusive_scan_call(const void *in, void *out, size_t count,
                                           gy_dtype dtype, gy_reduction reduction);

/** Every rank names all counts of `out`. */
GY_API GY_MUST_CHECK gy_status gy_allgatherv(gy_comm *comm, const void *in, void *out,
                                             const gy_parts *parts, gy_dtype dtype);
GY_API gy_coll_call gy_allgatherv_call(const void *in, void *out, const gy_parts *parts,
                                       gy_dtype dtype);

/** Root alone names the parts of `out`; elsewhere `parts` is not used. */
GY_API GY_MUST_CHECK gy_status gy_gatherv(gy_comm *comm, const void *in, size_t count,
                                          void *out, const gy_parts *parts, gy_dtype dtype,
                                          int root);
GY_API gy_coll_call gy_gatherv_call(const void *in, size_t count, void *out,
                                    const gy_parts *parts, gy_dtype dtype, int root);

/** Root alone names the parts of `in`; elsewhere `parts` is not used. */
GY_API GY_MUST_CHECK gy_status gy_scatterv(gy_comm *comm, const void *in, const gy_parts *parts,
                                           void *out, size_t count, gy_dtype dtype, int root);
GY_API gy_coll_call gy_scatterv_call(const void *in, const gy_parts *parts, void *out,
                                     size_t count, gy_dtype dtype, int root);

/** Every rank names all counts of `in`. */
GY_API GY_MUST_CHECK gy_status gy_reduce_scatterv(gy_comm *comm, const void *in, void *out,
                                                  const gy_parts *parts, gy_dtype dtype,
                                                  gy_reduction reduction);
GY_API gy_coll_call gy_reduce_scatterv_call(const void *in, void *out, const gy_parts *parts,
                                            gy_dtype dtype, gy_reduction reduction);

/** Each rank names the counts of its own `in` and `out`. Not in place. */
GY_API GY_MUST_CHECK gy_status gy_alltoallv(gy_comm *comm, const void *in,
                                            const gy_parts *in_parts, void *out,
                                            const gy_parts *out_parts, gy_dtype dtype);
GY_API gy_coll_call gy_alltoallv_call(const void *in, const gy_parts *in_parts, void *out,
                                      const gy_parts *out_parts, gy_dtype dtype);

/** Returns when all ranks have called it. */
GY_API GY_MUST_CHECK gy_status gy_barrier(gy_comm *comm);
GY_API gy_coll_call gy_barrier_call(void);

/** Run a call and wait for its end: also one with a user's reduction or a deadline of its own.
 */
GY_API GY_MUST_CHECK gy_status gy_coll_run(gy_comm *comm, const gy_coll_call *call);

enum { GY_CHOICE_BYTES = 128 };

/**
 * Which algorithm the call would take on this communicator, and why: "staged (built in)",
 * "slots" up to 8 KiB, "hierarchy:tree+ring (model, 310 us)".
 *
 * @param is_registered  the buffers of all ranks lie in their pools (gy_comm_pool)
 * @return GY_OK; GY_ARG no rank could make the call; GY_UNSUPPORTED the algorithm that the user
 * names cannot carry it out; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_coll_choice(gy_comm *comm, const gy_coll_call *call,
                                              bool is_registered, char out[GY_CHOICE_BYTES]);

/* ---- Point to point ---- */

/** As the rank of a receive: whichever rank sends first. */
enum { GY_ANY_SOURCE = -1 };

/** A message; zero fields are the defaults. */
typedef struct gy_message {
    void *data; /* not written by a send */
    size_t count;
    gy_dtype dtype;
    int peer;         /* rank in the communicator; oneself too; a receive: GY_ANY_SOURCE */
    int tag;          /* >= 0; messages of one tag from one rank arrive in the order sent */
    int *source;      /* a receive: gets the rank that sent; NULL: not wanted */
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
/** Receive from whichever rank sends first: *from is that rank. Receives take messages in the
 * order in which they were started, those from one rank and those from any alike. */
GY_API GY_MUST_CHECK gy_status gy_recv_any(gy_comm *comm, void *data, size_t count,
                                           gy_dtype dtype, int tag, int *from);
/** Send one message and receive another, both under way at once, so that ranks can exchange in
 * a circle. Returns when both have ended. */
GY_API GY_MUST_CHECK gy_status gy_sendrecv(gy_comm *comm, const gy_message *send,
                                           const gy_message *receive);

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
/** Until all have ended: the first failure, or GY_OK. Here and below NULL stands for a request
 * that is not started. */
GY_API GY_MUST_CHECK gy_status gy_request_wait_all(gy_request *const *requests, size_t count,
                                                   gy_deadline deadline);
/** Until one that was started has ended: *index; GY_ARG none is started. Its failure. */
GY_API GY_MUST_CHECK gy_status gy_request_wait_any(gy_request *const *requests, size_t count,
                                                   gy_deadline deadline, size_t *index);
/**
 * Until at least one that was started has ended: indices[0 .. *ended) are all that have, in
 * ascending order, and statuses[k] is how requests[indices[k]] ended.
 *
 * @param indices, statuses  (count); statuses may be NULL
 * @return GY_OK; the first failure of those that ended; GY_ARG none is started; GY_TIMEOUT none
 * has ended at the deadline (*ended is 0)
 */
GY_API GY_MUST_CHECK gy_status gy_request_wait_some(gy_request *const *requests, size_t count,
                                                    gy_deadline deadline, size_t *indices,
                                                    gy_status *statuses, size_t *ended);
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

/** What ranks agree on: in, the values of this rank; out, their combination over the live
 * ranks. */
typedef struct gy_agreement {
    uint32_t flags;    /* AND */
    int64_t value_min; /* MIN */
    int64_t value_max; /* MAX */
    int lost;          /* out: ranks that are gone */
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
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
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
