/**
 * Inside room coll: a communicator, its collectives in flight, and how their parts meet.
 *
 * Shared memory of a rank, as coll uses it, is cut into communicator slots, one a communicator:
 * the world has the first, groups have the others. In a slot word 0 says below which number all
 * collectives of the rank have ended; word 1 + channel holds the posted mark of the collective
 * on that channel, and beside it its claims (shared/claim.c); its staging holds one slot
 * (signature and tiny data) a channel, then as many staging regions. A collective's channel is
 * its number modulo GY_CHANNELS: nobody enters number n before all ranks have ended n -
 * GY_CHANNELS, so a channel's memory is free when it is written. Of its regions a rank takes
 * one that all have done with, and says which beside its signature. Numbers of a communicator
 * slot only grow, whoever has it.
 */
#ifndef GY_COLL_COLL_PRIV_H
#define GY_COLL_COLL_PRIV_H

#include "coll/coll.h"
#include "coll/kernels.h"
#include "coll/tune/site_priv.h"

enum {
    GY_CHANNELS = 8,
    GY_TINY_BYTES = 8192, /* what a slot takes */
    GY_INLINE_BYTES = 24,
    GY_MARK_BITS = 24,  /* of a channel's word; the number stands above */
    GY_USER = 255,      /* as a signature's reduction */
    GY_REFUSED = 254,   /* the same of a barrier: gy_call_refusal */
    GY_COMM_SLOTS = 64, /* communicators of a rank at once; the first ones have shared memory */
    GY_COMM_SLOT_WORDS = 1 + GY_CHANNELS,
    GY_WORLD_STAGING = 2 * 1024 * 1024, /* the world's communicator slot; */
    GY_GROUP_STAGING = 1024 * 1024,     /* each other one */
    GY_LEG_BYTES = 16 * 1024 * 1024,    /* keeps a plan below some thousand steps */
};

#define GY_VECTOR_COUNT                                                                        \
    UINT64_MAX /* as a signature's count: ranks have counts of their own                       \
                */

/** What a rank says of its call; all but is_registered must be alike on all ranks. */
typedef struct gy_coll_signature {
    uint64_t count;
    int32_t root;
    uint32_t forced; /* hash of what algorithms are chosen by: names, a table; 0 neither */
    uint8_t operation, dtype, reduction, is_registered; /* reduction: GY_USER a user's */
    uint32_t detail; /* hash of what else must agree: a user's reduction, counts */
} gy_coll_signature;
_Static_assert(sizeof(gy_coll_signature) == 24, "signatures travel between ranks");

/** A channel's slot; an element or three are inlined in its first cache line. */
typedef struct gy_coll_slot {
    alignas(GY_CACHE_LINE) _Atomic uint64_t
        entered;    /* number + 1 of the collective it belongs to */
    uint64_t ended; /* the rank's word 0 when it entered */
    gy_coll_signature signature;
    uint8_t inline_payload[GY_INLINE_BYTES]; /* data of so few bytes is inlined here */
    alignas(GY_CACHE_LINE) uint8_t data[GY_TINY_BYTES];
} gy_coll_slot;
_Static_assert(sizeof(gy_coll_slot) == GY_CACHE_LINE + GY_TINY_BYTES,
               "one line before the data");

/** What the runner must know of a step beside the step. */
typedef struct gy_step_note {
    uint32_t sends_before;
    uint16_t chain; /* REDUCE steps from here on that are one fold; 0: none, or an only one */
    bool a_is_sum, b_is_sum; /* in scratch: a running sum, not elements as they came */
} gy_step_note;

/** A plan of this rank, kept for the next call like it. */
typedef struct gy_kept_plan {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_steps steps;
    gy_step_note *notes; /* (steps) */
    uint32_t send_count;
    uint32_t claims;
    int32_t wire_run;  /* blocks of the longest message that is received beside its place */
    int32_t pack_run;  /* blocks of all messages that may lie in several pieces */
    int32_t widen_run; /* blocks of the input that are sent: as sums they are wider */
    int users;
    uint64_t last_used;
} gy_kept_plan;

enum { GY_KEPT_PLANS = 32 };

/** How a call is carried out. */
typedef struct gy_coll_method {
    const gy_algorithm *algorithm; /* NULL: the slots */
    char parameter[GY_PLAN_PARAMETER];
    gy_pieces pieces; /* a long vector goes in legs, as equal as can be */
    bool is_streamed; /* results are written past the cache */
} gy_coll_method;

/** The choice of the last call, for the next one like it. */
typedef struct gy_coll_memo {
    gy_coll_signature signature;
    bool is_set, is_in_place, all_registered;
    gy_coll_method choice;
} gy_coll_memo;

/** Where a rank's registered buffers lie in its pool, and which staging region it took. */
typedef struct gy_remote_address {
    uint64_t in, out : 56, region : 8;
} gy_remote_address;
_Static_assert(sizeof(gy_remote_address) == 16,
               "it is inlined in the slot's first line, before what vector variants tell");
#define GY_REMOTE_MASK ((UINT64_C(1) << 56) - 1)

/** What a gy_coll carries out. */
typedef enum gy_coll_kind { GY_COLL_COLLECTIVE, GY_COLL_SEND, GY_COLL_RECV } gy_coll_kind;

typedef enum gy_coll_stage {
    GY_COLL_RESERVED, /* has its number */
    GY_COLL_STARTED,  /* waits until its channel is free */
    GY_COLL_ENTERED,  /* has published its signature, compares those of the others */
    GY_COLL_RUNS,     /* its plan */
    GY_COLL_AGREES,   /* the plan has ended before all signatures were compared */
    GY_COLL_ENDED
} gy_coll_stage;

/** The runner's place in a plan. */
typedef struct gy_runner {
    gy_kept_plan *plan;
    gy_coll_method choice;
    gy_coll_fold fold;
    gy_layout layout; /* of the leg */
    int64_t leg;      /* the one that runs */
    int64_t first;    /* its first element (in each part) */
    uint32_t next;    /* step */
    uint32_t mark_base;
    int32_t wait_rank; /* peers below it have posted what the step waits for */
    bool is_receiving, has_posted_leg;
    bool has_opened;     /* its input was laid out before it entered */
    bool is_claiming;    /* carries out `claim` */
    uint32_t claim;      /* of the leg: taken last; past the last: there are no more; 0 none */
    uint32_t claim_base; /* claims of the legs before */
    gy_transfer receive;
    gy_transfer *sends; /* (send_count) */
    size_t send_capacity;
    uint32_t sends_started, sends_ended;
    uint8_t *scratch; /* scratch slots, then what arrives, then what is sent from pieces,
                         private copies of the vector, the input where it must be apart from the
                         output */
    size_t scratch_bytes, scratch_slot_bytes, stage_slot_bytes;
    size_t wire_at, pack_at, packed_bytes, work_at, work_bytes, apart_at;
    const uint8_t *in; /* the call's, or a copy */
    /* Of a library's collective, which stands in the scratch: the input, at work_at the output.
     */
    bool is_in_library;
    gy_carried request;
} gy_runner;

struct gy_coll {
    gy_comm *comm;
    struct gy_coll *next, *next_ended;
    uint64_t number;
    gy_coll_kind kind;
    gy_coll_stage stage;
    gy_coll_call call;
    gy_message message; /* instead of a call */
    gy_coll_signature signature;
    gy_coll_end end;
    void *arg;
    int64_t deadline_ns; /* 0: not set yet */
    int peer;            /* the rank of the transport that it waits for, -1 none */
    int checked;         /* ranks whose signatures have been compared */
    bool is_agreed;      /* the signatures that this rank compares are alike */
    bool all_registered, any_registered;
    bool has_remote;           /* not tiny: peers say where their data lies */
    uint8_t region;            /* of this rank's staging */
    gy_remote_address *remote; /* (size) */
    int64_t longest;    /* elements of the longest part of a vector variant, as ranks told; -1:
                           unknown */
    bool is_all_inline; /* the parts of a vector variant lie in the slots */
    int64_t *numbers; /* (4, size) of a vector variant: counts, displacements, where this rank's
                         parts begin in those of the others; NULL until there is one */
    gy_coll_signature
        neighbour[2]; /* without shared memory: signatures of the ranks before and after */
    gy_transfer signatures[4]; /* the first: of a message to or from one rank */
    gy_transport_any any;      /* of a receive from any rank; transfers: kept for the next */
    gy_runner runner;
    gy_error error; /* status GY_OK or why it failed */
    gy_flight_record record;
};

/** What the communicators of a run stand on, one epoch after another. */
typedef struct gy_ground {
    _Atomic int holders; /* roots */
    gy_transport *transport;
    gy_pool *pool;       /* over this rank's part of its host's memory; NULL: there is none */
    bool *is_lost;       /* (size of the transport) */
    uint32_t epoch;      /* of the newest root */
    uint32_t live_epoch; /* messages of the one before are thrown away */
    uint32_t agreement;  /* number of the next one */
} gy_ground;

/** The first word of a live communicator, so that a freed one is told from it. */
#define GY_COMM_MARK UINT64_C(0x4759434f4d4d3031)

struct gy_comm {
    uint64_t mark; /* GY_COMM_MARK while it lives */
    gy_comm *root; /* the world it stems from, or itself; what is marked so is the root's */
    gy_comm *next; /* group of the root */
    gy_transport *transport;
    gy_ground *ground;       /* root */
    const gy_shared *shared; /* NULL: messages alone */
    int rank, size;
    int *ranks;    /* (size) of the transport; NULL: the same */
    int comm_slot; /* alike on all ranks */
    uint32_t life; /* of the communicator slot: whose messages these are */
    gy_mutex lock; /* root: of all below, and the transport */
    gy_pool *pool; /* root */
    int64_t timeout_ns;
    gy_forced forced;  /* root */
    gy_tuning *tuning; /* root: what was measured, or NULL */
    gy_site site;      /* what algorithms are chosen by */
    uint64_t next_number;
    uint64_t ended;             /* all numbers below have */
    bool is_ended[GY_CHANNELS]; /* those from there on, by channel */
    uint64_t *peer_ended;       /* (size) as last seen */
    gy_coll *flying;            /* started, by priority, then number */
    gy_coll *spare;             /* to be used again */
    gy_coll *over;              /* root: ended, their owners to be told */
    int64_t in_flight;          /* root: taken and not ended, of all groups */
    int64_t unended;            /* collectives of this one alone, but tiny ones */
    uint64_t comm_slots;        /* root: those that are taken, a bit each */
    int shared_comm_slots;      /* root: how many there are with shared memory, for those whose
                              ranks are all on this host */
    uint64_t next_base;         /* root: above all numbers that were used */
    gy_request *spare_requests; /* root */
    gy_kept_plan kept[GY_KEPT_PLANS];
    uint64_t uses;
    gy_coll_memo memo;
    size_t region_bytes;               /* of staging: GY_CHANNELS regions, */
    uint64_t region_next[GY_CHANNELS]; /* each one's last number + 1 */
    uint8_t *mapped;                   /* (size) a bit for each region that this process has all
                                          pages of */
    uint32_t epoch;                    /* root */
    gy_comm_options options;           /* root: what it was made with */
    bool is_failed;                    /* root */
    bool is_succeeded;                 /* root: failed, and another one stands on the ground */
    bool is_astray;                    /* root: an agreement failed here */
    gy_error failure;                  /* root */
    int64_t look_ns;                   /* root: when peers are to be looked at */
    uint64_t idle_rounds;
    gy_flight_record_area *records; /* this rank's; NULL: none are kept */
    gy_comm_stats stats;
};

/** End the process: `function` was called on a communicator that is NULL or was freed. */
_Noreturn void gy_comm_misused(const gy_comm *comm, const char *function);
/** Misuse of a public function ends here, by the function's name. */
#define GY_COMM_EXPECT(comm)                                                                   \
    do {                                                                                       \
        if ((comm) == NULL || (comm)->mark != GY_COMM_MARK) {                                  \
            gy_comm_misused((comm), __func__);                                                 \
        }                                                                                      \
    } while (0)

/** Is `rank` a rank of the communicator? */
static inline bool gy_comm_has_rank(const gy_comm *comm, int rank)
{
    return rank >= 0 && rank < comm->size;
}
/** The transport's number of a rank. */
static inline int gy_comm_peer(const gy_comm *comm, int rank)
{
    GY_CHECK_DEEP(gy_comm_has_rank(comm, rank));
    return comm->ranks == NULL ? rank : comm->ranks[rank];
}
/** A rank's place among those that share memory; the communicator's ranks all do. */
static inline int gy_comm_place(const gy_comm *comm, int rank)
{
    GY_CHECK_DEEP(comm->shared != NULL);
    int place = gy_comm_peer(comm, rank) - comm->shared->first_rank;
    GY_CHECK_DEEP(place >= 0 && place < comm->shared->size);
    return place;
}
/** Word `index` of the communicator's slot at a rank. */
static inline gy_shared_word *gy_word_line(const gy_comm *comm, int rank, uint64_t index)
{
    GY_CHECK_DEEP(index < GY_COMM_SLOT_WORDS);
    GY_CHECK_DEEP(comm->comm_slot < comm->root->shared_comm_slots);
    gy_shared_word *words = gy_shared_words(comm->shared, gy_comm_place(comm, rank));
    return &words[(uint64_t)comm->comm_slot * GY_COMM_SLOT_WORDS + index];
}
static inline _Atomic uint64_t *gy_word_of(const gy_comm *comm, int rank, uint64_t index)
{
    return &gy_word_line(comm, rank, index)->value;
}
/** Have the ranks of the host fewer cores than they are? Alike on all of them. */
static inline bool gy_comm_is_crowded(const gy_comm *comm)
{
    GY_CHECK_DEEP(comm->shared == NULL || comm->shared->cores > 0);
    return comm->shared != NULL && comm->shared->size > comm->shared->cores;
}
/** Shares each rank its core with one other at most? */
static inline bool gy_comm_has_pairs(const gy_comm *comm)
{
    GY_CHECK_DEEP(comm->shared == NULL || comm->shared->cores > 0);
    return comm->shared != NULL && comm->shared->size <= 2 * comm->shared->cores;
}
static inline uint8_t *gy_comm_slot_of(const gy_comm *comm, int rank)
{
    GY_CHECK_DEEP(comm->comm_slot >= 0 && comm->comm_slot < GY_COMM_SLOTS);
    uint8_t *staging = gy_shared_staging(comm->shared, gy_comm_place(comm, rank));
    size_t before = comm->comm_slot == 0
                        ? 0
                        : GY_WORLD_STAGING + (size_t)(comm->comm_slot - 1) * GY_GROUP_STAGING;
    GY_CHECK_DEEP(before < comm->shared->staging_bytes);
    return staging + before;
}
/** Of its epoch, as it stands in all tags. */
static inline uint64_t gy_parity_of(const gy_comm *comm)
{
    return (uint64_t)comm->root->epoch << 63;
}
/** What the tags of a communicator's collectives begin with. */
static inline uint64_t gy_tag_of(const gy_comm *comm, uint64_t number, uint16_t chunk)
{
    GY_CHECK_DEEP(number >> 40 == 0); /* the communicator slot stands above */
    GY_CHECK_DEEP(comm->comm_slot < GY_COMM_SLOTS);
    return gy_parity_of(comm) | (uint64_t)comm->comm_slot << 56 | number << 16 | chunk;
}

/** Elements that fill a cache line; at least one. */
static inline int64_t gy_unit_of(int64_t element_bytes)
{
    GY_CHECK_DEEP(element_bytes > 0);
    return element_bytes < GY_CACHE_LINE ? GY_CACHE_LINE / element_bytes : 1;
}

/* call.c */
/** GY_ARG unless every rank could make that call. */
GY_MUST_CHECK gy_status gy_call_check(const gy_comm *comm, const gy_coll_call *call);
/** GY_ARG: a buffer of a checked call is not there, or input and output share memory without
 * being in place. Other ranks cannot see that. */
GY_MUST_CHECK gy_status gy_call_check_buffers(const gy_comm *comm, const gy_coll_call *call);
/** What a rank calls instead of a call whose buffers it was refused: it meets the others, and
 * fails if one of them was not refused. */
gy_coll_call gy_call_refusal(const gy_coll_call *call);
/** Does this rank's own part (or the whole) of the output lie where that of the input does? */
bool gy_call_is_in_place(const gy_comm *comm, const gy_coll_call *call);
/** Elements that a call can have at most: no product of sizes overflows. */
size_t gy_count_limit(const gy_coll_call *call);
/** Is a buffer one part a rank? */
bool gy_operation_has_parts(gy_operation operation);
static inline bool gy_call_has_parts(const gy_coll_call *call)
{
    return gy_operation_has_parts(call->operation);
}
/** Does this rank's input, its output matter? */
bool gy_call_gives(const gy_comm *comm, const gy_coll_call *call);
bool gy_call_gets(const gy_comm *comm, const gy_coll_call *call);
size_t gy_call_element_bytes(const gy_coll_call *call);
size_t gy_call_in_bytes(const gy_comm *comm, const gy_coll_call *call);
size_t gy_call_out_bytes(const gy_comm *comm, const gy_coll_call *call);
gy_coll_signature gy_coll_signature_of(const gy_comm *comm, const gy_coll_call *call,
                                       bool is_tiny);
bool gy_coll_signatures_agree(const gy_coll_signature *a, const gy_coll_signature *b);
/** "allreduce of 3 f32 by sum". */
const char *gy_coll_signature_text(const gy_coll_signature *signature, char out[128]);
/** "collective 3 of group 2, allreduce of 3 f32 by sum", "send of 3 f32 to rank 1, tag 5". */
const char *gy_coll_text(const gy_coll *coll, char out[192]);
bool gy_call_reduces(const gy_coll_call *call);
/** The order of contributions that the call needs. */
gy_plan_order gy_call_order(const gy_coll_call *call);
gy_coll_fold gy_call_fold(const gy_comm *comm, const gy_coll_call *call);
/** Both calls in words; GY_MISMATCH. */
gy_status gy_coll_signature_mismatch(const gy_coll *coll, const gy_coll_signature *other,
                                     int rank);
/** One rank alone: the answer is the input. */
void gy_call_alone(const gy_coll_call *call);

/* average.c: averages of integers, summed in a wider type */
typedef struct gy_average gy_average;
/** Is the call an average that would wrap in its own type? */
bool gy_average_is_wide(const gy_comm *comm, const gy_coll_call *call);
/** Is it the sum of such a call? */
bool gy_average_is_sum(const gy_coll_call *call);
/** The sum of such a call, without its buffers. */
gy_coll_call gy_average_call(const gy_coll_call *call);
/** The call becomes its sum, over memory of the average's; gy_average_end follows. GY_NOMEM */
GY_MUST_CHECK gy_status gy_average_begin(const gy_comm *comm, gy_coll_call *call,
                                         gy_average **average);
/** Divide, if the sum was a success, and free. Returns `status`. */
gy_status gy_average_end(gy_average *average, gy_status status);
/** The same of a call that is about to start: its end comes after the division. GY_NOMEM */
GY_MUST_CHECK gy_status gy_average_start(gy_coll *coll);

/* parts.c: the vector variants */
GY_MUST_CHECK gy_status gy_parts_check(const gy_comm *comm, const gy_coll_call *call);
/** Does every rank know all counts? */
bool gy_parts_are_known(const gy_coll_call *call);
int64_t gy_parts_sum(const gy_comm *comm, const gy_parts *parts);
/** This rank's, where it knows all; and where it begins. */
int64_t gy_parts_own(const gy_comm *comm, const gy_coll_call *call);
size_t gy_parts_own_start(const gy_comm *comm, const gy_coll_call *call);
/** Of counts that are known. */
int64_t gy_parts_longest(const gy_comm *comm, const gy_coll_call *call);
/** Of counts that all ranks know; else the salt. */
uint64_t gy_parts_hash(const gy_comm *comm, const gy_coll_call *call, uint64_t salt);
/** Fill in counts and displacements. */
GY_MUST_CHECK gy_status gy_parts_layout(gy_coll *coll, gy_layout *layout);

/* count_exchange.c: parts of vector variants in the slots */
/** Must ranks tell each other of their counts? Alike on all. */
bool gy_count_exchange_asks(const gy_comm *comm, const gy_coll_call *call);
/** Lay out counts, and parts that fit; how many bytes. Of a call that asks or is tiny. */
size_t gy_count_exchange_enter(gy_coll *coll, struct gy_coll_slot *slot);
/** Note what a rank tells. GY_MISMATCH: of a part one gives more or less than the other
 * expects.
 */
GY_MUST_CHECK gy_status gy_count_exchange_compare(gy_coll *coll, int rank,
                                                  const struct gy_coll_slot *slot);
/** Where this rank's part begins in what a rank gives, in elements, without gaps. */
int64_t gy_count_exchange_start(const gy_coll *coll, int rank);
/** Take the parts that were piggybacked; not of reductions. */
void gy_count_exchange_finish(const gy_coll *coll);

/* slots.c */
static inline gy_coll_slot *gy_coll_slot_of(const gy_comm *comm, int rank, uint64_t number)
{
    GY_CHECK_DEEP(comm->shared != NULL);
    return (gy_coll_slot *)(void *)gy_comm_slot_of(comm, rank) + number % GY_CHANNELS;
}
static inline uint8_t *gy_region_of(const gy_coll *coll, int rank)
{
    const gy_comm *comm = coll->comm;
    uint64_t region = rank == comm->rank ? coll->region : coll->remote[rank].region;
    GY_CHECK_DEEP(rank != comm->rank || coll->region < GY_CHANNELS);
    GY_CHECK_DEEP(comm->region_bytes > 0);
    return gy_comm_slot_of(comm, rank) + GY_CHANNELS * sizeof(gy_coll_slot) +
           region % GY_CHANNELS * comm->region_bytes;
}
/** Take a staging region that no peer reads any more, the last one used if it can be: it is
 * still in the cache. */
void gy_region_take(gy_coll *coll);
bool gy_call_is_tiny(const gy_comm *comm, const gy_coll_call *call);
/** Is the channel of `number` free on all ranks? Else *peer is one that has not ended with it.
 */
bool gy_channel_is_free(gy_comm *comm, uint64_t number, int *peer);
/** Publish the signature, and the data of a tiny call or where the buffers lie. */
void gy_coll_slot_enter(gy_coll *coll, bool is_tiny);
/** Compare signatures: GY_OK all are there and agree; GY_AGAIN (coll->peer is missing);
 * GY_MISMATCH.
 */
gy_status gy_coll_slot_compare(gy_coll *coll);
/** The same, looking again for some 100 ns: for a rank that has a core for itself, or shares it
 * with one other: switching to that one takes several times as long. */
gy_status gy_coll_slot_compare_spinning(gy_coll *coll);
/** GY_MISMATCH: a rank that is not compared yet, behind one that is missing, has entered with
 * another call. */
GY_MUST_CHECK gy_status gy_coll_slot_look_ahead(const gy_coll *coll);
/** All signatures are there: the result of a tiny call. */
void gy_coll_slot_finish(const gy_coll *coll);

/* choose.c */
/** GY_UNSUPPORTED: nothing here keeps the order that the reduction needs. */
GY_MUST_CHECK gy_status gy_choose(gy_coll *coll, gy_coll_method *choice);

/* plans.c */
GY_MUST_CHECK gy_status gy_plan_keep(gy_comm *comm, const gy_algorithm *algorithm,
                                     const gy_plan_request *request, gy_kept_plan **plan);
void gy_plans_free(gy_comm *comm);

/* library.c */
#define GY_LIBRARY_NAME "mpi"
static inline bool gy_row_is_library(const gy_algorithm *row)
{
    GY_CHECK_DEEP(row != NULL);
    return row->need == GY_NEED_LIBRARY;
}
/** Does the call fit the library that started the ranks? By what stands in signatures. */
bool gy_library_fits(const gy_comm *comm, const gy_coll_call *call);
/** Has the communicator one at all? */
bool gy_library_is_here(const gy_comm *comm);
/** GY_UNSUPPORTED: it is forced, and impossible. */
GY_MUST_CHECK gy_status gy_library_check(const gy_comm *comm, const gy_coll_call *call);
void gy_library_cut(const gy_comm *comm, const gy_coll_call *call, gy_pieces *pieces);
/** As gy_run_start, gy_run_step, gy_run_end, which call them. */
GY_MUST_CHECK gy_status gy_library_start(gy_coll *coll, const gy_coll_method *choice);
gy_status gy_library_step(gy_coll *coll, bool *has_moved);
void gy_library_end(gy_coll *coll);

/* run.c */
/** Scratch of so many bytes; what was in it is gone. GY_NOMEM */
GY_MUST_CHECK gy_status gy_run_reserve(gy_runner *runner, size_t size_bytes);
GY_MUST_CHECK gy_status gy_run_start(gy_coll *coll, const gy_coll_method *choice);
/** Before the rank enters: lay its input out, where the plan begins with that. */
GY_MUST_CHECK gy_status gy_run_open(gy_coll *coll);

/* shared/claim.c */
/** Before the first claim: have the pages of all staging regions that this call uses, whichever
 * blocks this rank will claim in them. */
void gy_claim_prepare(gy_coll *coll);
/** A CLAIM step: the claim before is done; take the next one and go to its first step, or to
 * CLAIMED. */
void gy_claim_take(gy_coll *coll, const gy_step *step);
/** A CLAIMED step: GY_AGAIN (coll->peer has one that is not done); GY_OK. */
gy_status gy_claim_await(gy_coll *coll, const gy_step *step);
/* place.c */
static inline size_t gy_run_element_bytes(const gy_coll *coll)
{
    GY_CHECK_DEEP(coll->runner.fold.element_bytes > 0);
    return coll->runner.fold.element_bytes;
}
/** Are all messages of the algorithm's plans running sums? Those of scans are. */
static inline bool gy_sums_travel(const gy_algorithm *row)
{
    return row->operation == GY_OPERATION_SCAN || row->operation == GY_OPERATION_EXCLUSIVE_SCAN;
}
/** Are the messages wider than the elements that they stand for? */
static inline bool gy_run_widens(const gy_runner *runner)
{
    GY_CHECK_DEEP(runner->choice.algorithm != NULL);
    return gy_sums_travel(runner->choice.algorithm) && gy_coll_fold_is_wide(&runner->fold);
}
/** Do running sums stand in scratch, to be finished where they leave it? Where one rank folds
 * all contributions (of message plans those that reduce in the order FOLD do so), and in scans,
 * whose sums travel. */
static inline bool gy_run_folds(const gy_runner *runner)
{
    GY_CHECK_DEEP(runner->choice.algorithm != NULL);
    const gy_algorithm *row = runner->choice.algorithm;
    bool reduces = row->operation == GY_OPERATION_ALLREDUCE ||
                   row->operation == GY_OPERATION_REDUCE ||
                   row->operation == GY_OPERATION_REDUCE_SCATTER;
    return row->need != GY_NEED_MESSAGES || gy_sums_travel(row) ||
           (reduces && row->order == GY_ORDER_FOLD);
}
size_t gy_run_bytes_of(const gy_coll *coll, const gy_blocks *at);
/** The same of a message. */
size_t gy_run_message_bytes(const gy_coll *coll, const gy_blocks *at);
/** Where blocks begin. */
uint8_t *gy_run_place(const gy_coll *coll, const gy_blocks *at, int rank);
/** Do they follow each other there? */
bool gy_run_is_dense(const gy_coll *coll, const gy_blocks *at);
/** Copy or combine as a step says; of a message that came: from the wire to its place. */
void gy_run_write(const gy_coll *coll, const gy_step *step);
/** A REDUCE step, with those behind it that go on with its sum where they can be done at once:
 * how many it did beyond the first. */
uint32_t gy_run_reduce(const gy_coll *coll, const gy_step *step);
/** Gather the pieces of a message that is to be sent. */
const void *gy_run_pack(gy_coll *coll, const gy_blocks *at);
/** Elements of one block that is to be sent, as sums. */
const void *gy_run_widen(gy_coll *coll, const gy_blocks *at);

/** GY_OK the plan has ended; GY_AGAIN (coll->peer is waited for); a failure. */
gy_status gy_run_step(gy_coll *coll, bool *has_moved);
/** Give the plan back, forget transfers that are under way. */
void gy_run_end(gy_coll *coll);

/* progress.c */
/** Step all in flight; true when something moved. A failure becomes the communicator's. */
bool gy_progress_all(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** All fail with `status` and this thread's error text, the peers too. */
void gy_comm_fail(gy_comm *comm, gy_status status) GY_REQUIRES(comm->root->lock);
/** Count a number as ended, tell the peers. */
void gy_comm_end_number(gy_comm *comm, uint64_t number) GY_REQUIRES(comm->root->lock);
/** Tell the owners of what has ended; takes and gives the lock back around each. */
void gy_comm_tell(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** With the next number; NULL: no memory. */
gy_coll *gy_coll_take(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** Without: for a message. */
gy_coll *gy_coll_take_unnumbered(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** Assert what holds of a call between two steps (the table in progress.c); after each change
 * of its stage. */
void gy_coll_check(const gy_coll *coll) GY_REQUIRES(comm->root->lock);
void gy_coll_launch(gy_coll *coll) GY_REQUIRES(comm->root->lock);
void gy_wake_peers(const gy_comm *comm);

/* message.c */
GY_MUST_CHECK gy_status gy_message_check(const gy_comm *comm, gy_coll_kind kind,
                                         const gy_message *message);
/** Does a receive take a message of any rank? */
static inline bool gy_message_is_any(const gy_coll *coll)
{
    return coll->kind == GY_COLL_RECV && coll->message.peer == GY_ANY_SOURCE;
}
/** Of a receive from any rank: GY_PEER all ranks that could send have left. */
gy_status gy_message_look(const gy_coll *coll);
/** Give it to the transport; it is in flight from then on. GY_PEER; GY_STATE */
GY_MUST_CHECK gy_status gy_message_launch(gy_coll *coll) GY_REQUIRES(comm->root->lock);
/** GY_AGAIN, GY_OK, or why it failed. */
gy_status gy_message_step(gy_coll *coll);

/* comm.c */
/** Of calls: as the option says, else GYRE_TIMEOUT. */
GY_MUST_CHECK gy_status gy_comm_read_timeout(double wanted_s, int64_t *timeout_ns);
typedef struct gy_wait_note {
    _Atomic bool is_over;
    gy_error error;
} gy_wait_note;
/** As gy_coll_end: for a blocking call. */
void gy_note_end(void *arg, gy_status status);
/** Drive all until the note says so. */
gy_status gy_comm_drive(gy_comm *comm, gy_coll *coll, gy_wait_note *note)
    GY_REQUIRES(comm->root->lock);
/** All but ranks, communicator slot and numbers, which are set. GY_NOMEM */
GY_MUST_CHECK gy_status gy_comm_init_group(gy_comm *group);
/** A root's. */
void gy_comm_init_lock(gy_comm *root);
/** Free what a communicator has for itself. */
void gy_comm_release(gy_comm *comm);
/** As gy_call_check_buffers, of a call that nobody waits for: where it fails, so does the
 * communicator, for the others cannot see it and would wait. */
GY_MUST_CHECK gy_status gy_comm_check_buffers(gy_comm *comm, const gy_coll_call *call);
/** Hash of the names and the table that algorithms are chosen by. */
static inline uint32_t gy_comm_chooses_by(const gy_comm *comm)
{
    GY_CHECK_DEEP(comm->site.forced != NULL);
    const gy_tuning *tuning = comm->site.tuning;
    return comm->site.forced->hash ^ (tuning != NULL ? tuning->hash : 0);
}

/* world.c */
/** The world, if it was `old`, is `whole` from now on. */
void gy_comm_world_succeed(const gy_comm *old, gy_comm *whole);

/* recovery/agree.c */
/** As gy_comm_agree, of a root that may have failed; is_lost (size): who is taken to be gone.
 */
GY_MUST_CHECK gy_status gy_agree(gy_comm *comm, gy_agreement *agreement, bool *is_lost)
    GY_REQUIRES(comm->root->lock);
/** Begin to throw away messages of epochs before `live_epoch`. */
void gy_ground_listen(gy_ground *ground, uint32_t live_epoch);

/* group.c */
/** Meet for the last time, give the communicator slot back, free. */
void gy_group_leave(gy_comm *group);

/* request.c */
void gy_requests_free(gy_comm *root);

#endif
