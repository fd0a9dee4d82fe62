/**
 * Room transport: moves bytes between the ranks of one launch, provides the memory that ranks
 * of one host share, and detects dead peers. Reading order: transport, wait, match, segment,
 * ring, recorder, flight, shm, self, simnet, open.
 *
 * A transport belongs to one thread at a time (its owner); callers with several threads lock.
 */
#ifndef GY_TRANSPORT_TRANSPORT_H
#define GY_TRANSPORT_TRANSPORT_H

#include "base/base.h"
#include "transport/library.h"
#include "transport/recorder.h"

#include <stdalign.h>
#include <stdatomic.h>

typedef struct gy_transport gy_transport;

/* ---- Messages: ordered per (peer, direction), matched by tag ---- */

/**
 * A send or receive under way. It is in the caller's memory, and it and its data must stay in
 * place until `status` is no longer GY_AGAIN.
 */
typedef struct gy_transfer {
    /* GY_AGAIN under way; GY_OK; GY_PEER; GY_MISMATCH the message is larger than the buffer */
    gy_status status;
    size_t size_bytes; /* receive: becomes the size of the message */
    /* The transport's own members from here on. */
    int peer;
    bool is_matched;
    bool may_wait; /* send: may be delayed, to go with another message to the same peer */
    uint64_t tag;
    uint8_t *data;
    size_t done_bytes;
    bool is_orphan; /* the transport's copy of a send that was cancelled half way */
    /* of a receive from any source: shared by its transfers, set when one of them matches a
     * message; NULL: from one source */
    bool *is_taken;
    struct gy_transfer *next;
} gy_transfer;

/** A receive from the first of several peers that sends: one transfer for each peer, and the
 * first one that matches a message takes it. Must stay in place as a transfer must. */
typedef struct gy_transport_any {
    const int *peers;       /* (count); NULL: 0 to count - 1 */
    gy_transfer *transfers; /* (count) */
    int count;
    bool is_taken;
} gy_transport_any;

/**
 * Start sending `size_bytes` (0 is a message too) to `peer`; never blocks. Messages with one
 * tag to one peer arrive in the order sent; a receive takes the first one with its tag.
 * @return GY_OK the transfer is under way or done; GY_ARG peer outside [0, size); GY_PEER
 */
GY_MUST_CHECK gy_status gy_transport_send(gy_transport *transport, int peer, uint64_t tag,
                                          const void *data, size_t size_bytes,
                                          gy_transfer *transfer);
/** The same, but the message may be delayed by some rounds of progress, to go together with the
 * next one to that peer. */
GY_MUST_CHECK gy_status gy_transport_send_soon(gy_transport *transport, int peer, uint64_t tag,
                                               const void *data, size_t size_bytes,
                                               gy_transfer *transfer);
/** Start receiving up to `size_bytes` from `peer`; returns the same. */
GY_MUST_CHECK gy_status gy_transport_recv(gy_transport *transport, int peer, uint64_t tag,
                                          void *data, size_t size_bytes, gy_transfer *transfer);
/**
 * Start receiving up to `size_bytes` from any of any->peers (the caller sets peers, transfers
 * and count). Messages match receives in the order in which receives were started, from one
 * source and from any alike. @return GY_OK; GY_PEER no peer is left
 */
GY_MUST_CHECK gy_status gy_transport_recv_any(gy_transport *transport, gy_transport_any *any,
                                              uint64_t tag, void *data, size_t size_bytes);
/** GY_OK, GY_MISMATCH: any->transfers[*index] has the message; GY_AGAIN; GY_PEER all peers have
 * ended, or the one whose message was arriving. */
GY_MUST_CHECK gy_status gy_transport_any_end(const gy_transport_any *any, int *index);
/** Cancel all transfers of the receive. */
void gy_transport_any_cancel(gy_transport *transport, gy_transport_any *any);
/** Send a copy of the data, which needs no transfer and cannot be cancelled. Returns the same;
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_transport_post(gy_transport *transport, int peer, uint64_t tag,
                                          const void *data, size_t size_bytes);
/** Make progress: GY_OK something moved, GY_AGAIN nothing did. Never blocks, never fails. */
gy_status gy_transport_progress(gy_transport *transport);
/** Cancel a transfer (after a failure) so that its memory may be freed; its message is
 * undefined. */
void gy_transport_cancel(gy_transport *transport, gy_transfer *transfer);
/**
 * Make progress until the transfer is done. Returns its status, or GY_PEER (names the rank),
 * GY_TIMEOUT, or the failure that a rank passed to gy_transport_abort. A failure cancels the
 * transfer.
 */
GY_MUST_CHECK gy_status gy_transport_finish(gy_transport *transport, gy_transfer *transfer,
                                            gy_deadline deadline);

/* ---- Peers ---- */

/**
 * Check whether peers are alive. Makes some system calls: call it at low frequency
 * (gy_wait_round does).
 *
 * @param peer  a rank: also a failure if it left in order; -1: any rank that died
 * @return GY_OK; GY_PEER naming the rank; the failure that any rank passed to
 *     gy_transport_abort
 */
GY_MUST_CHECK gy_status gy_transport_check(gy_transport *transport, int peer);
/**
 * After a deadline: add to the front of the recorded text which ranks are stopped or do not
 * answer (others may be busy); asking them may take half a second.
 * @return `status`; what gy_transport_check finds for all ranks, if that is a failure
 */
gy_status gy_transport_blame(gy_transport *transport, gy_status status);
/** Is `peer` alive and joined, whatever was aborted? GY_OK; GY_PEER */
GY_MUST_CHECK gy_status gy_transport_look(gy_transport *transport, int peer);
/** Make `error` the result of every rank's next check; the first one of an epoch counts. Wakes
 * all ranks. */
void gy_transport_abort(gy_transport *transport, const gy_error *error);

/** How the ranks continue after a failure. Pointers must stay valid. */
typedef struct gy_survival {
    uint32_t epoch;      /* failures reported in earlier epochs are forgotten */
    const bool *is_lost; /* (size) ranks that checks of all ranks ignore; NULL: none */
    /* Is a message of an earlier epoch, to be discarded? NULL: no message is. */
    bool (*is_stale)(const void *rule, uint64_t tag);
    const void *rule;
} gy_survival;

void gy_transport_survive(gy_transport *transport, const gy_survival *survival);
/** Disconnect: close the connections for good; shared memory stays. */
void gy_transport_part(gy_transport *transport);
/**
 * Wait until every rank has joined. GY_OK; GY_PEER; GY_TIMEOUT names a missing rank. A failure
 * reaches all ranks, also those that join later, whose meetings then fail with it.
 */
GY_MUST_CHECK gy_status gy_transport_meet(gy_transport *transport, gy_deadline deadline);
/** Wake `peer` if it sleeps in gy_wait_round; cheap when it does not. Call it after publishing
 * a word. */
void gy_transport_wake(gy_transport *transport, int peer);

/* ---- Waiting ---- */

/**
 * A wait for a condition that the caller checks itself:
 *
 *     gy_wait wait = gy_wait_start(transport, peer, "allreduce 17", deadline);
 *     while (load(word, acquire) < wanted) {
 *         GY_TRY(gy_wait_round(&wait));
 *     }
 *
 * Spins only while the ranks of this host are no more than the cores of the cpuset, otherwise
 * yields at once; sleeps in the kernel after about 100 us. A lost wake-up costs at most one nap
 * (1 ms).
 */
typedef struct gy_wait {
    gy_transport *transport;
    const char *what; /* for the error text; borrowed */
    gy_deadline deadline;
    int64_t start_ns, check_ns; /* 0: the clock was not read yet */
    int64_t yield_ns;           /* when the core was given up for the others; 0: it was not */
    uint64_t round;
    int peer; /* the rank that the wait depends on; -1: all ranks */
    bool is_napping;
    bool is_doomed; /* doomed_peer has ended: the condition is checked once more */
    bool is_blind;  /* the caller itself checks peers and failures */
    bool is_driven; /* the caller itself makes progress before each round */
    int doomed_peer;
} gy_wait;

static inline gy_wait gy_wait_start(gy_transport *transport, int peer, const char *what,
                                    gy_deadline deadline)
{
    return (gy_wait){.transport = transport, .what = what, .deadline = deadline, .peer = peer};
}

/** The condition made progress: restart the wait, which also checks once more before it
 * fails. */
static inline void gy_wait_again(gy_wait *wait)
{
    wait->start_ns = wait->check_ns = wait->yield_ns = 0;
    wait->round = 0;
    wait->is_napping = wait->is_doomed = false;
}

/** One round. GY_OK check the condition again; GY_PEER, GY_TIMEOUT or an abort's failure:
 * stop. */
GY_MUST_CHECK gy_status gy_wait_round(gy_wait *wait);

/* ---- Shared memory of a host ---- */

enum {
    GY_SHARED_WORDS = 160,                /* words of a rank, each in a cache line of its own */
    GY_SLOT_BYTES = 2 * (8 * 1024 + 128), /* bytes of a rank's slot; 64-byte aligned */
};

enum { GY_SHARED_BESIDE = 3 };
typedef struct gy_shared_word {
    alignas(GY_CACHE_LINE) _Atomic uint64_t value;
    /* further words in the same line, for uses that are not time-critical */
    _Atomic uint64_t beside[GY_SHARED_BESIDE];
} gy_shared_word;

/**
 * The areas of a segment as this process maps them; rank r's part begins at base + r * stride.
 * Zeroed when the segment is made; callers define the contents. Only a rank's own thread
 * writes its words.
 */
typedef struct gy_shared {
    int rank, size; /* among the ranks of this host */
    int first_rank; /* number within the launch of this host's first rank; the others follow */
    int cores;      /* cores of the host, for all its ranks */
    uint8_t *words, *slots, *staging, *pool;
    size_t words_stride, slot_stride;
    size_t staging_bytes, pool_bytes; /* bytes of a rank's area, also the stride */
} gy_shared;

/** The memory that the ranks of this host share: all ranks of the launch when its size is the
 * transport's. NULL: none (self, sim, tcp). */
const gy_shared *gy_transport_shared(const gy_transport *transport);

static inline gy_shared_word *gy_shared_words(const gy_shared *shared, int rank)
{
    return (gy_shared_word *)(void *)(shared->words + (size_t)rank * shared->words_stride);
}

/** GY_SLOT_BYTES for the exchange of tiny messages; the caller may put atomics there. */
static inline uint8_t *gy_shared_slot(const gy_shared *shared, int rank)
{
    return shared->slots + (size_t)rank * shared->slot_stride;
}

/** shared->staging_bytes through which large messages are passed in chunks. */
static inline uint8_t *gy_shared_staging(const gy_shared *shared, int rank)
{
    return shared->staging + (size_t)rank * shared->staging_bytes;
}

/** shared->pool_bytes from which the rank allocates (registered memory); all peers can read
 * them. */
static inline uint8_t *gy_shared_pool(const gy_shared *shared, int rank)
{
    return shared->pool + (size_t)rank * shared->pool_bytes;
}

/** Is [pointer, pointer + size) in `rank`'s pool? Then *offset becomes its offset. */
static inline bool gy_shared_owns(const gy_shared *shared, int rank, const void *pointer,
                                  size_t size_bytes, size_t *offset)
{
    uintptr_t first = (uintptr_t)gy_shared_pool(shared, rank), at = (uintptr_t)pointer;
    if (at < first || at - first > shared->pool_bytes ||
        size_bytes > shared->pool_bytes - (at - first)) {
        return false;
    }
    *offset = at - first;
    return true;
}

/* ---- Functions of a backend ---- */

/** A rank whose process is stopped, or that has not answered a query for some time. */
typedef struct gy_absent {
    int rank;
    bool is_stopped;
    double seconds;
} gy_absent;

typedef struct gy_transport_ops {
    const char *name;
    void (*close)(
        gy_transport *transport); /* leaves in order and frees the transport; never fails */
    /* Start a transfer that the wrapper has filled in and whose peer it has checked; must not
     * block. */
    gy_status (*send)(gy_transport *transport, gy_transfer *transfer);
    gy_status (*recv)(gy_transport *transport, gy_transfer *transfer);
    gy_status (*progress)(gy_transport *transport);
    void (*cancel)(gy_transport *transport, gy_transfer *transfer);
    /* The failure that any rank aborted with in this epoch; GY_OK none. Reads the network. */
    gy_status (*aborted)(gy_transport *transport);
    gy_status (*check)(gy_transport *transport, int peer); /* this peer only */
    void (*abort)(gy_transport *transport, const gy_error *error);
    bool (*has_joined)(gy_transport *transport, int peer);
    /* Sleep at most nap_ns or until woken (0: only announce that a nap follows); the simulator
     * runs meanwhile. */
    void (*nap)(gy_transport *transport, int64_t nap_ns);
    void (*wake)(gy_transport *transport, int peer); /* optional: NULL: ranks never sleep */
    /* Optional: are messages under way? Then a rank with two transports sleeps on this one. */
    bool (*is_busy)(const gy_transport *transport);
    /* Optional, both: `hang_bell` makes a descriptor that becomes readable when a peer wakes
     * this rank after `announce`, which announces that the rank sleeps on it. GY_AGAIN it was
     * woken since the last announcement and must check first; GY_UNSUPPORTED a peer cannot
     * wake it so. The transport owns the descriptor. */
    gy_status (*hang_bell)(gy_transport *transport, int *descriptor);
    gy_status (*announce)(gy_transport *transport);
    /* Optional: end a nap when this descriptor of another transport becomes readable, and
     * drain it. */
    gy_status (*heed)(gy_transport *transport, int descriptor);
    /* Optional: list ranks that run but take no part; returns their number, of which at most
     * `room` are listed. */
    int (*absent)(gy_transport *transport, gy_absent *absent, int room);
    /* Optional: close all connections for good; mappings stay. */
    void (*part)(gy_transport *transport);
    /* Optional: for backends with transports below. */
    void (*survive)(gy_transport *transport, const gy_survival *survival);
} gy_transport_ops;

/** Naps of a rank that waits on its sockets. */
typedef struct gy_nap_count {
    uint64_t all, timed_out; /* timed_out: naps without data or a wake-up */
} gy_nap_count;

struct gy_transport {
    const gy_transport_ops *ops;
    gy_env *env;
    int rank, size;
    const int32_t *hosts;   /* (size) number of each rank's host; NULL: all on one host */
    int host_ranks;         /* ranks on this host, including this one */
    int host_cores;         /* as the launcher told all of them; 0: unknown */
    bool has_given_up;      /* its rendezvous failed */
    bool is_oversubscribed; /* this host has more ranks than cores: do not spin */
    const gy_shared *shared;
    gy_flight_record_area *records; /* (recorded_ranks) of this host; NULL: no recording */
    int first_recorded, recorded_ranks;
    gy_survival survival;
    /* 1 + the rank that the driver waits for, while other ranks are polled less often; 0:
     * none */
    int awaited;
    gy_nap_count naps;
    /* collectives of the library whose launcher started the ranks; NULL: none */
    const gy_library *library;
    struct gy_transport_segment
        *recorder; /* reference for the records only; NULL: the backend has one */
};

/** A rank's records, which only its own thread writes; NULL: a rank of another host, or no
 * recording. */
static inline gy_flight_record_area *gy_transport_records(const gy_transport *transport,
                                                          int rank)
{
    int at = rank - transport->first_recorded;
    bool is_here = transport->records != NULL && at >= 0 && at < transport->recorded_ranks;
    return is_here ? transport->records + at : NULL;
}

/** Record in the segment `fd` as one of its ranks, for a transport without shared memory.
 * Borrows fd. Returns as gy_transport_shm_open. */
GY_MUST_CHECK gy_status gy_transport_record(gy_transport *transport, int fd);

static inline bool gy_transport_is_lost(const gy_transport *transport, int rank)
{
    return transport->survival.is_lost != NULL && transport->survival.is_lost[rank];
}

/* ---- Opening ---- */

/** Sizes of a host's segment; zero means the default. */
typedef struct gy_transport_segment_options {
    int ranks;            /* 1 .. GY_RANKS_MAX */
    int first_rank;       /* with several hosts: number of this host's first rank */
    int run_size;         /* ranks on all hosts; 0: those of this host */
    size_t staging_bytes; /* per rank; default 18 MiB, no memory until touched */
    /* per ordered pair of ranks, a power of two; default 1 MiB up to 8 ranks, less for more, at
     * least 64 KiB */
    size_t ring_bytes;
    /* per rank, no memory until touched; default 1 GiB, at most 64 GiB together */
    size_t pool_bytes;
    int host_cores; /* default: the cores of this process's cpuset */
} gy_transport_segment_options;

enum { GY_RANKS_MAX = 1024 };

/**
 * The number of all that the ranks of one launch and their launcher share: greetings, segments,
 * frames, signatures of collectives, the numbers of element types and operations. Raise it
 * whenever one of them changes: ranks of different builds would misread each other, so they
 * compare this number before anything else. 8: the flight recorder has accounts.
 */
enum { GY_RANK_PROTOCOL = 8 };

/**
 * Compare another process's number with GY_RANK_PROTOCOL.
 * @param who  the other, at the beginning of the text: "the launcher"
 * @return GY_OK; GY_FORMAT they differ: one line that names both
 * @threads any
 */
GY_MUST_CHECK gy_status gy_transport_protocol_check(const char *who, int64_t theirs);

/**
 * Make the segment of a host: an anonymous file (memfd) that disappears with its last user.
 * The caller owns *fd (close-on-exec) and passes it on by inheritance, SCM_RIGHTS or as
 * /proc/PID/fd/N. GY_ARG; GY_LIMIT; GY_IO
 */
GY_MUST_CHECK gy_status gy_transport_segment_make(const gy_transport_segment_options *options,
                                                  int *fd);

/** Join a segment as its rank `rank`, counted from 0 on this host. Borrows fd. GY_ARG;
 * GY_FORMAT not a segment; GY_EXISTS the rank has joined already; GY_IO */
GY_MUST_CHECK gy_status gy_transport_shm_open(int fd, int rank, gy_env *env,
                                              gy_transport **transport);

/** The same through /proc/`process`/fd/`fd`, for ranks that another launcher started. */
GY_MUST_CHECK gy_status gy_transport_shm_open_process(int process, int fd, int rank,
                                                      gy_env *env, gy_transport **transport);

/**
 * Join as all ranks of a segment in this process, one transport for each thread. They share
 * one mapping, so that a race detector sees all accesses. `transports` gets options->ranks
 * transports; close each.
 */
GY_MUST_CHECK gy_status gy_transport_shm_open_all(const gy_transport_segment_options *options,
                                                  gy_env *env, gy_transport **transports);

/** Open a single rank: a message to itself is a copy. No shared memory. */
GY_MUST_CHECK gy_status gy_transport_self_open(gy_env *env, gy_transport **transport);

/** Join the launch that `gyre run` described to this process (GYRE_RANK, GYRE_SIZE,
 * GYRE_RUN_FD), else open a single rank. */
GY_MUST_CHECK gy_status gy_transport_open_from_environment(gy_env *env,
                                                           gy_transport **transport);

/** Check the variables without joining. GY_ARG: a variable is invalid. */
GY_MUST_CHECK gy_status gy_transport_check_environment(void);

/** Did a launcher, Gyre's or an MPI's, start this process as one of several? */
bool gy_transport_run_has_place(void);

/** Does this process's launcher restart dead ranks? */
bool gy_transport_run_is_renewable(void);
/**
 * Wait until all ranks have joined `*transport` (may be NULL), or the newer generation that
 * the launcher begins meanwhile, whose transport then replaces it. A failure closes
 * *transport. GY_TIMEOUT; GY_PEER the launcher has ended
 */
GY_MUST_CHECK gy_status gy_transport_generation_meet(gy_env *env, gy_deadline deadline,
                                                     gy_transport **transport);
/** Report that this rank has finished: GY_OK all ranks have; GY_AGAIN a new generation begins;
 * GY_TIMEOUT; GY_PEER */
GY_MUST_CHECK gy_status gy_transport_generation_finish(gy_env *env, gy_deadline deadline);

/** Leave in order and free; NULL is fine. */
void gy_transport_close(gy_transport *transport);

/** Tell the launcher to end the launch with `error`, however it treats failures. @return
 * whether a launcher got it @threads any */
bool gy_transport_run_report_abort(const gy_error *error);

static inline int gy_transport_rank(const gy_transport *transport)
{
    return transport->rank;
}

static inline int gy_transport_size(const gy_transport *transport)
{
    return transport->size;
}

/** The host of a rank, counted from 0 in the order of ranks. */
static inline int gy_transport_host(const gy_transport *transport, int rank)
{
    return transport->hosts != NULL ? (int)transport->hosts[rank] : 0;
}

#endif
