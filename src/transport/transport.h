/**
 * Room transport: moves bytes between the ranks of one run, shows the memory that ranks of one
 * host share, and knows which peers are alive. Reading order: transport, wait, match, segment,
 * ring, recorder, flight, shm, self, simnet, open.
 *
 * A transport belongs to one thread at a time (its owner); the caller locks if several drive
 * it.
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
 * One send or receive under way, in the caller's memory, which stays put (as the data does)
 * until `status` is no longer GY_AGAIN.
 */
typedef struct gy_transfer {
    gy_status status; /* GY_AGAIN under way; GY_OK; GY_PEER; GY_MISMATCH message larger than the
                         room */
    size_t size_bytes; /* receive: becomes the size of the message */
    /* The transport's own from here. */
    int peer;
    bool is_matched;
    bool may_wait; /* send: for another one to the same peer */
    uint64_t tag;
    uint8_t *data;
    size_t done_bytes;
    bool is_orphan; /* the transport's copy of a send that was given up half way */
    bool *is_taken; /* of a receive from any source: one of its transfers has the message, the
                       others match nothing any more; NULL: of one source */
    struct gy_transfer *next;
} gy_transfer;

/** A receive from whichever of several peers sends first: one transfer for each, of which the
 * first that matches a message takes it. Stays put as a transfer does. */
typedef struct gy_transport_any {
    const int *peers;       /* (count); NULL: 0 to count - 1 */
    gy_transfer *transfers; /* (count) */
    int count;
    bool is_taken;
} gy_transport_any;

/**
 * Start sending `size_bytes` (0 is a message too) to `peer`; never blocks. Messages with one
 * tag to one peer arrive in the order sent; a receive takes the first that has its tag.
 * @return GY_OK the transfer is under way or done; GY_ARG peer outside [0, size); GY_PEER
 */
GY_MUST_CHECK gy_status gy_transport_send(gy_transport *transport, int peer, uint64_t tag,
                                          const void *data, size_t size_bytes,
                                          gy_transfer *transfer);
/** The same, but it may wait a little (some rounds of progress), to go together with the next
 * one to that peer. */
GY_MUST_CHECK gy_status gy_transport_send_soon(gy_transport *transport, int peer, uint64_t tag,
                                               const void *data, size_t size_bytes,
                                               gy_transfer *transfer);
/** Start receiving up to `size_bytes` from `peer`; the same returns. */
GY_MUST_CHECK gy_status gy_transport_recv(gy_transport *transport, int peer, uint64_t tag,
                                          void *data, size_t size_bytes, gy_transfer *transfer);
/**
 * Start receiving up to `size_bytes` from any of any->peers (peers, transfers and count are
 * set). Messages are matched in the order in which receives were started, those from one source
 * and from any alike. @return GY_OK; GY_PEER no peer is left
 */
GY_MUST_CHECK gy_status gy_transport_recv_any(gy_transport *transport, gy_transport_any *any,
                                              uint64_t tag, void *data, size_t size_bytes);
/** GY_OK, GY_MISMATCH: any->transfers[*index] has the message; GY_AGAIN; GY_PEER all peers, or
 * the one whose message was on its way, are gone. */
GY_MUST_CHECK gy_status gy_transport_any_end(const gy_transport_any *any, int *index);
/** Forget what is under way: also the transfers that match nothing any more. */
void gy_transport_any_cancel(gy_transport *transport, gy_transport_any *any);
/** Send a copy that needs no transfer and cannot be given up. The same returns; GY_NOMEM */
GY_MUST_CHECK gy_status gy_transport_post(gy_transport *transport, int peer, uint64_t tag,
                                          const void *data, size_t size_bytes);
/** Move what can be moved: GY_OK something moved, GY_AGAIN nothing did. Never blocks, never
 * fails. */
gy_status gy_transport_progress(gy_transport *transport);
/** Forget a transfer (after a failure) so that its memory may go; its message is undefined. */
void gy_transport_cancel(gy_transport *transport, gy_transfer *transfer);
/**
 * Progress until the transfer is done; its status, or GY_PEER (names the rank), GY_TIMEOUT, or
 * the failure that a rank gave to gy_transport_abort. After a failure the transfer is
 * cancelled.
 */
GY_MUST_CHECK gy_status gy_transport_finish(gy_transport *transport, gy_transfer *transfer,
                                            gy_deadline deadline);

/* ---- Peers ---- */

/**
 * Are the peers alive? Makes some system calls: call it at low frequency (gy_wait_round does).
 *
 * @param peer  a rank: also a failure if it left in an orderly way; -1: any rank that died
 * @return GY_OK; GY_PEER naming the rank; the failure given to gy_transport_abort by any rank
 */
GY_MUST_CHECK gy_status gy_transport_check(gy_transport *transport, int peer);
/**
 * After a deadline: put before the recorded text which ranks are stopped or do not even answer
 * (they may be busy with something else); asking them may take half a second.
 * @return `status`; what gy_transport_check says of all ranks, if that is a failure
 */
gy_status gy_transport_blame(gy_transport *transport, gy_status status);
/** Is `peer` alive and in the run, whatever was aborted? GY_OK; GY_PEER */
GY_MUST_CHECK gy_status gy_transport_look(gy_transport *transport, int peer);
/** Make `error` every rank's answer to its next check; the first one of an epoch wins. Wakes
 * all. */
void gy_transport_abort(gy_transport *transport, const gy_error *error);

/** How the ranks go on after a failure. All that is pointed to stays where it is. */
typedef struct gy_survival {
    uint32_t epoch;      /* failures that were told in an earlier one are forgotten */
    const bool *is_lost; /* (size) ranks that no check of all looks at; NULL: none */
    /* Is a message of an earlier epoch? It is thrown away. NULL: none is. */
    bool (*is_stale)(const void *rule, uint64_t tag);
    const void *rule;
} gy_survival;

void gy_transport_survive(gy_transport *transport, const gy_survival *survival);
/** Nothing comes or goes any more: connections are closed, shared memory stays. */
void gy_transport_part(gy_transport *transport);
/**
 * Wait until every rank has joined. GY_OK; GY_PEER; GY_TIMEOUT names a rank that is missing. A
 * failure is told to all ranks, also to those that join later, whose meetings then fail with
 * it.
 */
GY_MUST_CHECK gy_status gy_transport_meet(gy_transport *transport, gy_deadline deadline);
/** Wake `peer` if it sleeps in gy_wait_round; cheap when it does not. Call after publishing a
 * word. */
void gy_transport_wake(gy_transport *transport, int peer);

/* ---- Waiting ---- */

/**
 * A wait for something the caller looks at itself:
 *
 *     gy_wait wait = gy_wait_start(transport, peer, "allreduce 17", deadline);
 *     while (load(word, acquire) < wanted) {
 *         GY_TRY(gy_wait_round(&wait));
 *     }
 *
 * Spins only while the ranks of this host are no more than the cores of the cpuset, else yields
 * at once; sleeps in the kernel after about 100 us. A lost wake-up costs at most one nap (1
 * ms).
 */
typedef struct gy_wait {
    gy_transport *transport;
    const char *what; /* for the error text; borrowed */
    gy_deadline deadline;
    int64_t start_ns, check_ns; /* 0: clock not read yet */
    uint64_t round;
    int peer; /* whom the wait is for; -1: all */
    bool is_napping;
    bool is_doomed; /* doomed_peer is gone: the condition gets one more look */
    bool is_blind;  /* the caller itself looks at peers and failures */
    bool is_driven; /* the caller itself makes progress before each round */
    int doomed_peer;
} gy_wait;

static inline gy_wait gy_wait_start(gy_transport *transport, int peer, const char *what,
                                    gy_deadline deadline)
{
    return (gy_wait){.transport = transport, .what = what, .deadline = deadline, .peer = peer};
}

/** What moves is not waited for: the wait starts over, and looks once more before it fails. */
static inline void gy_wait_again(gy_wait *wait)
{
    wait->start_ns = wait->check_ns = 0;
    wait->round = 0;
    wait->is_napping = wait->is_doomed = false;
}

/** One round. GY_OK look again; GY_PEER, GY_TIMEOUT or an abort's failure: stop. */
GY_MUST_CHECK gy_status gy_wait_round(gy_wait *wait);

/* ---- Shared memory of a host ---- */

enum {
    GY_SHARED_WORDS = 160,                /* per rank, each alone in its cache line */
    GY_SLOT_BYTES = 2 * (8 * 1024 + 128), /* per rank; 64-byte aligned */
};

enum { GY_SHARED_BESIDE = 3 };
typedef struct gy_shared_word {
    alignas(GY_CACHE_LINE) _Atomic uint64_t value;
    _Atomic uint64_t beside[GY_SHARED_BESIDE]; /* in its line: for what need not be quick */
} gy_shared_word;

/**
 * The areas of a segment as this process sees them; rank r's begins at base + r * stride.
 * Zeroed when the segment is made; their meaning is the caller's. A rank's own thread runs its
 * words.
 */
typedef struct gy_shared {
    int rank, size; /* among the ranks of this host */
    int first_rank; /* of the run, of those here: the others' numbers follow */
    int cores;      /* of the host, for all of them */
    uint8_t *words, *slots, *staging, *pool;
    size_t words_stride, slot_stride;
    size_t staging_bytes, pool_bytes; /* per rank, also the stride */
} gy_shared;

/** What the ranks of this host share: all of the run when its size is the transport's. NULL:
 * nothing (self, sim, tcp). */
const gy_shared *gy_transport_shared(const gy_transport *transport);

static inline gy_shared_word *gy_shared_words(const gy_shared *shared, int rank)
{
    return (gy_shared_word *)(void *)(shared->words + (size_t)rank * shared->words_stride);
}

/** GY_SLOT_BYTES for the exchange of tiny messages; holds atomics of the caller where it likes.
 */
static inline uint8_t *gy_shared_slot(const gy_shared *shared, int rank)
{
    return shared->slots + (size_t)rank * shared->slot_stride;
}

/** shared->staging_bytes through which large messages are passed in chunks. */
static inline uint8_t *gy_shared_staging(const gy_shared *shared, int rank)
{
    return shared->staging + (size_t)rank * shared->staging_bytes;
}

/** shared->pool_bytes that the rank allocates from (registered memory) and all peers can read.
 */
static inline uint8_t *gy_shared_pool(const gy_shared *shared, int rank)
{
    return shared->pool + (size_t)rank * shared->pool_bytes;
}

/** Does [pointer, pointer + size) lie in `rank`'s pool? Then *offset is where. */
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

/* ---- The table of a backend ---- */

/** A rank whose process is stopped, or that was asked and does not answer for so long. */
typedef struct gy_absent {
    int rank;
    bool is_stopped;
    double seconds;
} gy_absent;

typedef struct gy_transport_ops {
    const char *name;
    void (*close)(
        gy_transport *transport); /* leaves in an orderly way and frees; never fails */
    /* Take a transfer filled in by the wrapper (peer checked); must not block. */
    gy_status (*send)(gy_transport *transport, gy_transfer *transfer);
    gy_status (*recv)(gy_transport *transport, gy_transfer *transfer);
    gy_status (*progress)(gy_transport *transport);
    void (*cancel)(gy_transport *transport, gy_transfer *transfer);
    /* What any rank told to abort in this epoch; GY_OK none did. Looks at the network. */
    gy_status (*aborted)(gy_transport *transport);
    gy_status (*check)(gy_transport *transport, int peer); /* the peer alone */
    void (*abort)(gy_transport *transport, const gy_error *error);
    bool (*has_joined)(gy_transport *transport, int peer);
    /* Sleep at most nap_ns or until woken (0: only say that a nap follows); the simulator runs
     * on. */
    void (*nap)(gy_transport *transport, int64_t nap_ns);
    void (*wake)(gy_transport *transport, int peer); /* optional: NULL nobody sleeps */
    /* Optional: are messages under way? Then a rank with another way too naps on this one. */
    bool (*is_busy)(const gy_transport *transport);
    /* Optional, both: a descriptor that can be read once a peer rang after `announce`, which
     * says that this rank sleeps on it: GY_AGAIN it was rung since it last said so and must
     * look first; GY_UNSUPPORTED a peer cannot ring it. The transport owns it, others read. */
    gy_status (*hang_bell)(gy_transport *transport, int *descriptor);
    gy_status (*announce)(gy_transport *transport);
    /* Optional: a nap ends when this descriptor, which is not the transport's, can be read; it
     * is read empty then. */
    gy_status (*heed)(gy_transport *transport, int descriptor);
    /* Optional: ranks that take no part although they run; how many there are, of which at most
     * `room` are told. */
    int (*absent)(gy_transport *transport, gy_absent *absent, int room);
    /* Optional: close all connections, for good; what is mapped stays. */
    void (*part)(gy_transport *transport);
    /* Optional: for transports below. */
    void (*survive)(gy_transport *transport, const gy_survival *survival);
} gy_transport_ops;

/** Of a rank that waits for others on its sockets. */
typedef struct gy_nap_count {
    uint64_t all, timed_out; /* the latter: nothing came, nobody rang */
} gy_nap_count;

struct gy_transport {
    const gy_transport_ops *ops;
    gy_env *env;
    int rank, size;
    const int32_t *hosts;   /* (size) number of each rank's host; NULL: all on one */
    int host_ranks;         /* ranks on this host, this one included */
    int host_cores;         /* as its launcher told all of them alike; 0: it did not */
    bool has_given_up;      /* its rendezvous failed */
    bool is_oversubscribed; /* more ranks on this host than cores: do not spin */
    const gy_shared *shared;
    gy_flight_record_area
        *records; /* (recorded_ranks) of this host; NULL: nothing is recorded */
    int first_recorded, recorded_ranks;
    gy_survival survival;
    int awaited; /* 1 + the rank that its driver waits for: others are looked at less often; 0
                    all alike */
    gy_nap_count naps;
    const gy_library *library; /* collectives of whoever started the ranks; NULL: none */
    struct gy_transport_segment
        *recorder; /* held for the records alone; NULL: the backend holds it */
};

/** A rank's records, which its own thread writes; NULL: a rank of another host, or none are
 * kept. */
static inline gy_flight_record_area *gy_transport_records(const gy_transport *transport,
                                                          int rank)
{
    int at = rank - transport->first_recorded;
    bool is_here = transport->records != NULL && at >= 0 && at < transport->recorded_ranks;
    return is_here ? transport->records + at : NULL;
}

/** Record in the segment `fd`, as a rank of it, what `transport` does without shared memory.
 * Borrows fd. The returns of gy_transport_shm_open. */
GY_MUST_CHECK gy_status gy_transport_record(gy_transport *transport, int fd);

static inline bool gy_transport_is_lost(const gy_transport *transport, int rank)
{
    return transport->survival.is_lost != NULL && transport->survival.is_lost[rank];
}

/* ---- Opening ---- */

/** What a host's segment holds; zero means the default. */
typedef struct gy_transport_segment_options {
    int ranks;            /* 1 .. GY_RANKS_MAX */
    int first_rank;       /* of a run over several hosts: the number of the first one here */
    int run_size;         /* ranks on all hosts; 0: those here */
    size_t staging_bytes; /* per rank; default 18 MiB, untouched until used */
    size_t ring_bytes;    /* per ordered pair; default 64 KiB, a power of two */
    size_t
        pool_bytes; /* per rank, costs nothing until touched; default 1 GiB, 64 GiB over all */
    int host_cores; /* default: this process's cpuset */
} gy_transport_segment_options;

enum { GY_RANKS_MAX = 1024 };

/**
 * The number of all that the ranks of one launch and their launcher share: greetings, segments,
 * frames, signatures of collectives, the numbers of element types and operations. Raise it
 * whenever one of them changes: ranks of different builds would misread each other, so they
 * compare this number before anything else. 7: element types begin with GY_DTYPE_NONE.
 */
enum { GY_RANK_PROTOCOL = 7 };

/**
 * Compare another process's number with GY_RANK_PROTOCOL.
 * @param who  the other, at the beginning of the text: "the launcher"
 * @return GY_OK; GY_FORMAT they differ: one line that names both
 * @threads any
 */
GY_MUST_CHECK gy_status gy_transport_protocol_check(const char *who, int64_t theirs);

/**
 * Make the segment of a host: an anonymous file (memfd) that vanishes with its last user. The
 * caller owns *fd (close-on-exec) and passes it on by inheritance, SCM_RIGHTS or as
 * /proc/PID/fd/N. GY_ARG; GY_LIMIT; GY_IO
 */
GY_MUST_CHECK gy_status gy_transport_segment_make(const gy_transport_segment_options *options,
                                                  int *fd);

/** Join a segment as its rank `rank`, counted from 0 on this host. Borrows fd. GY_ARG;
 * GY_FORMAT not a segment; GY_EXISTS rank taken; GY_IO */
GY_MUST_CHECK gy_status gy_transport_shm_open(int fd, int rank, gy_env *env,
                                              gy_transport **transport);

/** The same, through /proc/`process`/fd/`fd`: for ranks that another launcher started. */
GY_MUST_CHECK gy_status gy_transport_shm_open_process(int process, int fd, int rank,
                                                      gy_env *env, gy_transport **transport);

/**
 * All ranks of a segment in this process, one transport for each thread; they share one mapping
 * (so that a race detector sees all). `transports` gets options->ranks of them; close each.
 */
GY_MUST_CHECK gy_status gy_transport_shm_open_all(const gy_transport_segment_options *options,
                                                  gy_env *env, gy_transport **transports);

/** One rank alone: a message to itself is a copy. No shared memory. */
GY_MUST_CHECK gy_status gy_transport_self_open(gy_env *env, gy_transport **transport);

/** The place that `gyre run` gave this process (GYRE_RANK, GYRE_SIZE, GYRE_RUN_FD), else self.
 */
GY_MUST_CHECK gy_status gy_transport_open_from_environment(gy_env *env,
                                                           gy_transport **transport);

/** GY_ARG: the variables of a place hold what they cannot hold. Joins nothing. */
GY_MUST_CHECK gy_status gy_transport_check_environment(void);

/** Did a launcher start this process among several, ours or an MPI's? */
bool gy_transport_run_has_place(void);

/** Was this process's place given by a launcher that starts dead ranks anew? */
bool gy_transport_run_is_renewable(void);
/**
 * Wait until all ranks are there, on `*transport` (may be NULL) or whatever newer generation
 * the launcher begins meanwhile, which then replaces it. *transport is closed after a failure.
 * GY_TIMEOUT; GY_PEER the launcher is gone
 */
GY_MUST_CHECK gy_status gy_transport_generation_meet(gy_env *env, gy_deadline deadline,
                                                     gy_transport **transport);
/** This rank has done all: GY_OK all have; GY_AGAIN a new generation begins; GY_TIMEOUT;
 * GY_PEER */
GY_MUST_CHECK gy_status gy_transport_generation_finish(gy_env *env, gy_deadline deadline);

/** Leave in an orderly way; NULL is fine. */
void gy_transport_close(gy_transport *transport);

/** Tell the launcher that the run ends for `error`, whatever it does about failures. @return
 * whether one was told @threads any */
bool gy_transport_run_report_abort(const gy_error *error);

static inline int gy_transport_rank(const gy_transport *transport)
{
    return transport->rank;
}

static inline int gy_transport_size(const gy_transport *transport)
{
    return transport->size;
}

/** The host that a rank is on, counted from 0 in the order of ranks. */
static inline int gy_transport_host(const gy_transport *transport, int rank)
{
    return transport->hosts != NULL ? (int)transport->hosts[rank] : 0;
}

#endif
