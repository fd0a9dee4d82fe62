/**
 * Inside room coll: a communicator, its collectives in flight, and how its ranks use shared
 * memory.
 *
 * The shared memory of a rank is cut into communicator slots, one per communicator: the world
 * has the first, groups have the others. Word 0 of a slot is the number below which the rank
 * has ended all collectives. Word 1 + channel holds the posted mark of the collective on that
 * channel, and its claims beside it (shared/claim.c). The staging of a slot holds one
 * gy_coll_slot (signature and tiny data) per channel, then as many staging regions.
 *
 * The channel of a collective is its number modulo GY_CHANNELS. No rank enters number n before
 * all ranks have ended n - GY_CHANNELS, so nobody reads a channel's memory when it is written.
 * A rank takes a staging region that all ranks have finished with, and publishes its index
 * beside the signature. The numbers of a communicator slot only grow, across all communicators
 * that own it.
 */
#ifndef GY_COLL_COLL_PRIV_H
#define GY_COLL_COLL_PRIV_H

#include "coll/coll.h"
#include "coll/kernels.h"
#include "coll/tune/site_priv.h"

enum {
    GY_CHANNELS = 8,
    GY_TINY_BYTES = 8192, /* data bytes of a slot */
    GY_INLINE_BYTES = 24,
    GY_MARK_BITS = 24,  /* of a channel's word; the collective's number is in the bits above */
    GY_USER = 255,      /* as a signature's reduction */
    GY_REFUSED = 254,   /* as a barrier's reduction: gy_call_refusal */
    GY_COMM_SLOTS = 64, /* communicators of a rank at once; the first ones have shared memory */
    GY_COMM_SLOT_WORDS = 1 + GY_CHANNELS,
    GY_WORLD_STAGING = 2 * 1024 * 1024, /* the world's communicator slot; */
    GY_GROUP_STAGING = 1024 * 1024,     /* each other one */
    GY_LEG_BYTES = 16 * 1024 * 1024,    /* limits a plan to a few thousand steps */
};

/** The count in the signature of a vector variant: each rank has counts of its own. */
#define GY_VECTOR_COUNT UINT64_MAX

/** What a rank publishes of its call; all fields but is_registered must be equal on all ranks.
 */
typedef struct gy_coll_signature {
    uint64_t count;
    int32_t root;
    uint32_t forced; /* hash of the forced names and the table; 0: neither */
    uint8_t operation, dtype, reduction, is_registered; /* reduction: GY_USER for a user's */
    uint32_t detail; /* hash of a user's reduction and of counts, which must agree too */
} gy_coll_signature;
_Static_assert(sizeof(gy_coll_signature) == 24, "signatures travel between ranks");

/** The slot of a channel. A few elements of data are inlined in its first cache line. */
typedef struct gy_coll_slot {
    alignas(GY_CACHE_LINE) _Atomic uint64_t
        entered;    /* number + 1 of the collective it belongs to */
    uint64_t ended; /* the rank's word 0 when it entered */
    gy_coll_signature signature;
    uint8_t inline_payload[GY_INLINE_BYTES]; /* data of up to GY_INLINE_BYTES */
    alignas(GY_CACHE_LINE) uint8_t data[GY_TINY_BYTES];
} gy_coll_slot;
_Static_assert(sizeof(gy_coll_slot) == GY_CACHE_LINE + GY_TINY_BYTES,
               "one line before the data");

/** What the runner needs to know of a step beside the step itself. */
typedef struct gy_step_note {
    uint32_t sends_before;
    uint16_t chain;          /* REDUCE steps that form one fold from here on; 0: at most one */
    bool a_is_sum, b_is_sum; /* the operand in scratch is a running sum */
} gy_step_note;

/** A plan of this rank, cached for later calls with the same request. */
typedef struct gy_cached_plan {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_steps steps;
    gy_step_note *notes; /* (steps) */
    uint32_t send_count;
    uint32_t claims;
    int32_t wire_run;  /* blocks of the longest message that is received beside its place */
    int32_t pack_run;  /* blocks of all messages that may lie in several pieces */
    int32_t widen_run; /* blocks of the input that are sent; as sums they are wider */
    int users;
    uint64_t last_used;
} gy_cached_plan;

enum { GY_CACHED_PLANS = 32 };

/** How a call runs. */
typedef struct gy_coll_method {
    const gy_algorithm *algorithm; /* NULL: the slots */
    char parameter[GY_PLAN_PARAMETER];
    gy_pieces pieces; /* a long vector goes in legs of nearly equal length */
    bool is_streamed; /* results bypass the cache */
} gy_coll_method;

/** The choice for the last call, reused for the next call with the same signature. */
typedef struct gy_coll_memo {
    gy_coll_signature signature;
    bool is_set, is_in_place, all_registered;
    gy_coll_method choice;
} gy_coll_memo;

/** The offsets of a rank's registered buffers in its pool, and its staging region. */
typedef struct gy_remote_address {
    uint64_t in, out : 56, region : 8;
} gy_remote_address;
_Static_assert(
    sizeof(gy_remote_address) == 16,
    "it is inlined in the slot's first line, before the count exchange of vector variants");
#define GY_REMOTE_MASK ((UINT64_C(1) << 56) - 1)

/** The kinds of call. */
typedef enum gy_coll_kind { GY_COLL_COLLECTIVE, GY_COLL_SEND, GY_COLL_RECV } gy_coll_kind;

typedef enum gy_coll_stage {
    GY_COLL_RESERVED, /* it has a number */
    GY_COLL_STARTED,  /* it waits until its channel is free */
    GY_COLL_ENTERED,  /* it has published its signature and compares those of the others */
    GY_COLL_RUNS,     /* its plan runs */
    GY_COLL_AGREES,   /* its plan has ended before all signatures were compared */
    GY_COLL_ENDED
} gy_coll_stage;

/** The runner's place in a plan. */
typedef struct gy_runner {
    gy_cached_plan *plan;
    gy_coll_method choice;
    gy_coll_fold fold;
    gy_layout layout; /* of the leg */
    int64_t leg;      /* index of the leg that runs */
    int64_t first;    /* first element of the leg (in each part) */
    uint32_t next;    /* step */
    uint32_t mark_base;
    int32_t wait_rank; /* peers below this rank have posted what the step waits for */
    bool is_receiving, has_posted_leg;
    bool has_opened;  /* its input was copied to staging before it entered */
    bool is_claiming; /* this rank runs `claim` */
    uint32_t claim;   /* claim of the leg that was taken last; above the plan's claims: none is
                         left; 0: none yet */
    uint32_t claim_base; /* number of claims of the earlier legs */
    gy_transfer receive;
    gy_transfer *sends; /* (send_count) */
    size_t send_capacity;
    uint32_t sends_started, sends_ended;
    uint8_t *scratch; /* scratch slots, then received messages, then packed messages to send,
                         private copies of the vector, and a copy of the input where it must not
                         be the output */
    size_t scratch_bytes, scratch_slot_bytes, stage_slot_bytes;
    size_t wire_at, pack_at, packed_bytes, work_at, work_bytes, apart_at;
    const uint8_t *in; /* the call's input, or a copy of it */
    /* A library's collective runs from the scratch: its input at 0, its output at work_at. */
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
    gy_message message; /* a message has this instead of a call */
    gy_coll_signature signature;
    gy_coll_end end;
    void *arg;
    uint64_t *sent_bytes; /* of gy_coll_count; NULL: nobody counts */
    int64_t deadline_ns;  /* 0: not set yet */
    int peer;             /* the transport's rank that this call waits for; -1: none */
    int checked;          /* number of ranks whose signatures have been compared */
    bool is_agreed;       /* all signatures that this rank compares are equal */
    bool all_registered, any_registered;
    bool has_remote;           /* not tiny: peers publish the offsets of their data */
    uint8_t region;            /* this rank's staging region */
    gy_remote_address *remote; /* (size) */
    int64_t longest;    /* elements of the longest part of a vector variant, over all ranks; -1:
                           unknown */
    bool is_all_inline; /* the slots hold the parts of a vector variant */
    int64_t *numbers;   /* (4, size) of a vector variant: counts, displacements of input and
                           output, and displacements of this rank's parts in the inputs of the
                           others; NULL until one is run */
    gy_coll_signature
        neighbour[2];          /* without shared memory: signatures of the two neighbours */
    gy_transfer signatures[4]; /* [0] is also the transfer of a message to or from one rank */
    gy_transport_any any;      /* a receive from any rank; the transfers are reused */
    gy_runner runner;
    gy_error error; /* status GY_OK, or the failure */
    gy_flight_record record;
};

/** What the communicators of a launch share, over all epochs (recoveries). */
typedef struct gy_ground {
    _Atomic int holders; /* roots */
    gy_transport *transport;
    gy_pool *pool;  /* over this rank's part of its host's memory; NULL: the rank has none */
    bool *is_lost;  /* (size of the transport) */
    uint32_t epoch; /* of the newest root */
    uint32_t live_epoch; /* messages of earlier epochs are discarded */
    uint32_t agreement;  /* number of the next agreement */
} gy_ground;

/** The first word of a live communicator, by which a freed one is detected. */
#define GY_COMM_MARK UINT64_C(0x4759434f4d4d3031)

struct gy_comm {
    uint64_t mark; /* GY_COMM_MARK while the communicator lives */
    gy_comm *root; /* the world that it stems from, or itself; fields marked "root" are valid
                      there alone */
    gy_comm *next; /* next group of the root */
    gy_transport *transport;
    gy_ground *ground;       /* root */
    const gy_shared *shared; /* NULL: messages alone */
    int rank, size;
    int *ranks;    /* (size) of the transport; NULL: the same */
    int comm_slot; /* equal on all ranks */
    uint32_t life; /* counts the owners of the communicator slot */
    gy_mutex lock; /* root: protects all fields below, and the transport */
    gy_pool *pool; /* root */
    int64_t timeout_ns;
    gy_forced forced;  /* root */
    gy_tuning *tuning; /* root: the measured table, or NULL */
    gy_site site;      /* the facts by which algorithms are chosen */
    uint64_t next_number;
    uint64_t ended;             /* all numbers below have ended */
    bool is_ended[GY_CHANNELS]; /* whether a number from `ended` on has ended, by channel */
    uint64_t *peer_ended;       /* (size) as last seen */
    gy_coll *flying;            /* started, by priority, then number */
    gy_coll *spare;             /* free list */
    gy_coll *ended_calls;       /* root: ended calls whose end functions must still run */
    int64_t in_flight;     /* root: calls that are taken and have not ended, of all groups */
    int64_t unended;       /* collectives of this communicator alone, without tiny ones */
    uint64_t comm_slots;   /* root: bit set of the slots that are taken */
    int shared_comm_slots; /* root: number of slots with shared memory */
    uint64_t next_base;    /* root: above all numbers that were used */
    gy_request *spare_requests; /* root */
    gy_cached_plan cached[GY_CACHED_PLANS];
    uint64_t uses;
    gy_coll_memo memo;
    size_t region_bytes;               /* of staging: GY_CHANNELS regions, */
    uint64_t region_next[GY_CHANNELS]; /* last number of each region, plus 1 */
    uint8_t *mapped;                   /* (size) a bit for each region that this process has all
                                          pages of */
    uint32_t epoch;                    /* root */
    gy_comm_options options;           /* root: the options that it was made with */
    bool is_failed;                    /* root */
    bool is_succeeded; /* root: it has failed, and another communicator uses the ground */
    bool is_astray;    /* root: an agreement has failed on this rank */
    gy_error failure;  /* root */
    int64_t check_ns;  /* root: time of the next check of peers and deadlines */
    uint64_t idle_rounds;
    gy_flight_record_area *records; /* this rank's records; NULL: nothing is recorded */
    gy_comm_stats stats;
};

/** End the process, since `function` was called on a communicator that is NULL or was freed. */
_Noreturn void gy_comm_misused(const gy_comm *comm, const char *function);
/** Check the communicator of a public function; misuse ends the process and names the function.
 */
#define GY_COMM_EXPECT(comm)                                                                   \
    do {                                                                                       \
        if ((comm) == NULL || (comm)->mark != GY_COMM_MARK) {                                  \
            gy_comm_misused((comm), __func__);                                                 \
        }                                                                                      \
    } while (0)

/** Test whether `rank` is a rank of the communicator. */
static inline bool gy_comm_has_rank(const gy_comm *comm, int rank)
{
    return rank >= 0 && rank < comm->size;
}
/** Return the transport's number of a rank. */
static inline int gy_comm_peer(const gy_comm *comm, int rank)
{
    GY_CHECK_DEEP(gy_comm_has_rank(comm, rank));
    return comm->ranks == NULL ? rank : comm->ranks[rank];
}
/** Return a rank's index among the ranks that share memory; all ranks of the communicator do.
 */
static inline int gy_comm_place(const gy_comm *comm, int rank)
{
    GY_CHECK_DEEP(comm->shared != NULL);
    int place = gy_comm_peer(comm, rank) - comm->shared->first_rank;
    GY_CHECK_DEEP(place >= 0 && place < comm->shared->size);
    return place;
}
/** Return word `index` of the communicator's slot at a rank. */
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
/** Test whether the host has fewer cores than ranks. The result is equal on all of them. */
static inline bool gy_comm_is_crowded(const gy_comm *comm)
{
    GY_CHECK_DEEP(comm->shared == NULL || comm->shared->cores > 0);
    return comm->shared != NULL && comm->shared->size > comm->shared->cores;
}
/** Test whether each rank shares its core with at most one other. */
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
/** Return the bit of the epoch's parity, as all tags have it. */
static inline uint64_t gy_parity_of(const gy_comm *comm)
{
    return (uint64_t)comm->root->epoch << 63;
}
/** Return the tag of a message of collective `number`. */
static inline uint64_t gy_tag_of(const gy_comm *comm, uint64_t number, uint16_t chunk)
{
    GY_CHECK_DEEP(number >> 40 == 0); /* bits 56 to 61 hold the communicator slot */
    GY_CHECK_DEEP(comm->comm_slot < GY_COMM_SLOTS);
    return gy_parity_of(comm) | (uint64_t)comm->comm_slot << 56 | number << 16 | chunk;
}

/** Return the elements that fill a cache line; at least one. */
static inline int64_t gy_unit_of(int64_t element_bytes)
{
    GY_CHECK_DEEP(element_bytes > 0);
    return element_bytes < GY_CACHE_LINE ? GY_CACHE_LINE / element_bytes : 1;
}

/* call.c */
/** Check a call without its buffers: GY_ARG unless every rank could make it. */
GY_MUST_CHECK gy_status gy_call_check(const gy_comm *comm, const gy_coll_call *call);
/** Check the buffers of a checked call: GY_ARG a buffer is NULL, or input and output overlap
 * without being in place. Other ranks cannot see that. */
GY_MUST_CHECK gy_status gy_call_check_buffers(const gy_comm *comm, const gy_coll_call *call);
/** Return the call that a rank makes instead of one whose buffers were refused: it meets the
 * others, and fails if one of them was not refused. */
gy_coll_call gy_call_refusal(const gy_coll_call *call);
/** Test whether this rank's own part (or the whole) of the output lies at that of the input. */
bool gy_call_is_in_place(const gy_comm *comm, const gy_coll_call *call);
/** Return the maximum count of a call: no product of sizes overflows below it. */
size_t gy_count_limit(const gy_coll_call *call);
/** Test whether a buffer of the operation has one part per rank. */
bool gy_operation_has_parts(gy_operation operation);
static inline bool gy_call_has_parts(const gy_coll_call *call)
{
    return gy_operation_has_parts(call->operation);
}
/** Test whether the call reads this rank's input; whether it writes this rank's output. */
bool gy_call_gives(const gy_comm *comm, const gy_coll_call *call);
bool gy_call_gets(const gy_comm *comm, const gy_coll_call *call);
size_t gy_call_element_bytes(const gy_coll_call *call);
size_t gy_call_in_bytes(const gy_comm *comm, const gy_coll_call *call);
size_t gy_call_out_bytes(const gy_comm *comm, const gy_coll_call *call);
gy_coll_signature gy_coll_signature_of(const gy_comm *comm, const gy_coll_call *call,
                                       bool is_tiny);
bool gy_coll_signatures_agree(const gy_coll_signature *a, const gy_coll_signature *b);
/** Write a signature as text: "allreduce of 3 f32 by sum". */
const char *gy_coll_signature_text(const gy_coll_signature *signature, char out[128]);
/** Write a call as text: "collective 3 of group 2.1, allreduce of 3 f32 by sum", or "send of 3
 * f32 to rank 1, tag 5". */
const char *gy_coll_text(const gy_coll *coll, char out[192]);
bool gy_call_reduces(const gy_coll_call *call);
/** Return the order of contributions that the call needs. */
gy_plan_order gy_call_order(const gy_coll_call *call);
gy_coll_fold gy_call_fold(const gy_comm *comm, const gy_coll_call *call);
/** Fail with GY_MISMATCH and a text that has both calls. */
gy_status gy_coll_signature_mismatch(const gy_coll *coll, const gy_coll_signature *other,
                                     int rank);
/** Run a call of one rank alone: the result is the input. */
void gy_call_alone(const gy_coll_call *call);

/* average.c: averages of integers, summed in a wider type */
typedef struct gy_average gy_average;
/** Test whether the call is an average that would wrap in its own type. */
bool gy_average_is_wide(const gy_comm *comm, const gy_coll_call *call);
/** Test whether the call is the wide sum of such an average. */
bool gy_average_is_sum(const gy_coll_call *call);
/** Return the wide sum of such a call, without its buffers. */
gy_coll_call gy_average_call(const gy_coll_call *call);
/** Turn the call into its wide sum, over memory of the average; gy_average_end follows.
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_average_begin(const gy_comm *comm, gy_coll_call *call,
                                         gy_average **average);
/** Divide if the sum succeeded, and free the average. Returns `status`. */
gy_status gy_average_end(gy_average *average, gy_status status);
/** Do the same for a call that is about to start: its end function runs after the division.
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_average_start(gy_coll *coll);

/* parts.c: the vector variants */
GY_MUST_CHECK gy_status gy_parts_check(const gy_comm *comm, const gy_coll_call *call);
/** Test whether every rank knows all counts. */
bool gy_parts_are_known(const gy_coll_call *call);
int64_t gy_parts_sum(const gy_comm *comm, const gy_parts *parts);
/** Return the count of this rank's own part, and where the part begins, where every rank knows
 * all counts. */
int64_t gy_parts_own(const gy_comm *comm, const gy_coll_call *call);
size_t gy_parts_own_start(const gy_comm *comm, const gy_coll_call *call);
/** Return the longest part, where every rank knows all counts. */
int64_t gy_parts_longest(const gy_comm *comm, const gy_coll_call *call);
/** Hash the counts that all ranks know; where they do not, return the salt. */
uint64_t gy_parts_hash(const gy_comm *comm, const gy_coll_call *call, uint64_t salt);
/** Fill in counts and displacements of the layout. */
GY_MUST_CHECK gy_status gy_parts_layout(gy_coll *coll, gy_layout *layout);

/* count_exchange.c: parts of vector variants in the slots */
/** Test whether ranks must exchange counts. The result is equal on all ranks. */
bool gy_count_exchange_asks(const gy_comm *comm, const gy_coll_call *call);
/** Write the counts, and parts that fit, into the slot; returns the bytes written. For a call
 * that exchanges counts or is tiny. */
size_t gy_count_exchange_enter(gy_coll *coll, struct gy_coll_slot *slot);
/** Take the counts of a rank. GY_MISMATCH: one rank gives more or less than the other expects.
 */
GY_MUST_CHECK gy_status gy_count_exchange_compare(gy_coll *coll, int rank,
                                                  const struct gy_coll_slot *slot);
/** Return the element at which this rank's part begins in what `rank` gives, without gaps. */
int64_t gy_count_exchange_start(const gy_coll *coll, int rank);
/** Copy the piggybacked parts to the output; not for reductions. */
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
/** Take a staging region that no peer reads any more; the last one if possible, since it is
 * still in the cache. */
void gy_region_take(gy_coll *coll);
bool gy_call_is_tiny(const gy_comm *comm, const gy_coll_call *call);
/** Test whether the channel of `number` is free on all ranks. If not, *peer is a rank that
 * still uses it. */
bool gy_channel_is_free(gy_comm *comm, uint64_t number, int *peer);
/** Publish the signature, and the data of a tiny call or the offsets of the buffers. */
void gy_coll_slot_enter(gy_coll *coll, bool is_tiny);
/** Compare signatures: GY_OK all ranks have entered and agree; GY_AGAIN coll->peer is missing;
 * GY_MISMATCH. */
gy_status gy_coll_slot_compare(gy_coll *coll);
/** Do the same, and poll for some 100 ns. For a rank that has a core to itself or shares it
 * with one other: a switch to that one takes several times as long. */
gy_status gy_coll_slot_compare_spinning(gy_coll *coll);
/** Compare the ranks behind one that is missing. GY_MISMATCH: one of them has entered another
 * call. */
GY_MUST_CHECK gy_status gy_coll_slot_compare_later(const gy_coll *coll);
/** Compute the result of a tiny call, after all signatures were compared. */
void gy_coll_slot_finish(const gy_coll *coll);
/** Return the bytes of the slots of other ranks that this rank's result is of. */
size_t gy_coll_slot_read_bytes(const gy_coll *coll);

/* choose.c */
/** Choose how a call runs. GY_UNSUPPORTED: no algorithm between these ranks keeps the order
 * that the reduction needs. */
GY_MUST_CHECK gy_status gy_choose(gy_coll *coll, gy_coll_method *choice);

/* plans.c */
GY_MUST_CHECK gy_status gy_cached_plan_take(gy_comm *comm, const gy_algorithm *algorithm,
                                            const gy_plan_request *request,
                                            gy_cached_plan **plan);
void gy_plans_free(gy_comm *comm);

/* library.c */
#define GY_LIBRARY_NAME "mpi"
static inline bool gy_row_is_library(const gy_algorithm *row)
{
    GY_CHECK_DEEP(row != NULL);
    return row->need == GY_NEED_LIBRARY;
}
/** Test whether the library that started the ranks can run the call. The answer depends on the
 * signature alone. */
bool gy_library_fits(const gy_comm *comm, const gy_coll_call *call);
/** Test whether the communicator has such a library. */
bool gy_library_is_here(const gy_comm *comm);
/** GY_UNSUPPORTED: GYRE_COLL names the library, and it cannot run the call. */
GY_MUST_CHECK gy_status gy_library_check(const gy_comm *comm, const gy_coll_call *call);
void gy_library_cut(const gy_comm *comm, const gy_coll_call *call, gy_pieces *pieces);
/** The library's forms of gy_run_start, gy_run_step and gy_run_end, which call them. */
GY_MUST_CHECK gy_status gy_library_start(gy_coll *coll, const gy_coll_method *choice);
gy_status gy_library_step(gy_coll *coll, bool *has_moved);
void gy_library_end(gy_coll *coll);

/* run.c */
/** Make the scratch at least so large; its contents are lost. GY_NOMEM */
GY_MUST_CHECK gy_status gy_run_reserve(gy_runner *runner, size_t size_bytes);
GY_MUST_CHECK gy_status gy_run_start(gy_coll *coll, const gy_coll_method *choice);
/** Run the plan's first steps, which copy the input to staging, before the rank enters. */
GY_MUST_CHECK gy_status gy_run_open(gy_coll *coll);

/* shared/claim.c */
/** Map the pages of all staging regions that this call uses before its first claim, since this
 * rank may claim a block in any of them. */
void gy_claim_prepare(gy_coll *coll);
/** Run a CLAIM step: finish the previous claim, take the next one and go to its first step, or
 * to CLAIMED. */
void gy_claim_take(gy_coll *coll, const gy_step *step);
/** Run a CLAIMED step: GY_OK; GY_AGAIN coll->peer has not finished its claim. */
gy_status gy_claim_await(gy_coll *coll, const gy_step *step);
/* place.c */
static inline size_t gy_run_element_bytes(const gy_coll *coll)
{
    GY_CHECK_DEEP(coll->runner.fold.element_bytes > 0);
    return coll->runner.fold.element_bytes;
}
/** Test whether all messages of the algorithm's plans carry running sums; those of scans do. */
static inline bool gy_sums_travel(const gy_algorithm *row)
{
    return row->operation == GY_OPERATION_SCAN || row->operation == GY_OPERATION_EXCLUSIVE_SCAN;
}
/** Test whether messages are wider than the elements that they stand for. */
static inline bool gy_run_widens(const gy_runner *runner)
{
    GY_CHECK_DEEP(runner->choice.algorithm != NULL);
    return gy_sums_travel(runner->choice.algorithm) && gy_coll_fold_is_wide(&runner->fold);
}
/** Test whether scratch holds running sums, which are finished on their way to other buffers.
 * This holds where one rank folds all contributions (among message plans: those that reduce in
 * the order FOLD) and in scans, whose messages carry sums. */
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
/** Return the bytes of the blocks as a message. */
size_t gy_run_message_bytes(const gy_coll *coll, const gy_blocks *at);
/** Return the address at which the blocks begin. */
uint8_t *gy_run_place(const gy_coll *coll, const gy_blocks *at, int rank);
/** Test whether the blocks follow each other in memory. */
bool gy_run_is_dense(const gy_coll *coll, const gy_blocks *at);
/** Copy or combine as the step demands; a received message goes from the wire buffer to its
 * place. */
void gy_run_write(const gy_coll *coll, const gy_step *step);
/** Run a REDUCE step, together with the steps behind it that continue its sum where they form a
 * chain. Returns how many steps it ran beyond the first. */
uint32_t gy_run_reduce(const gy_coll *coll, const gy_step *step);
/** Gather the pieces of a message to send. */
const void *gy_run_pack(gy_coll *coll, const gy_blocks *at);
/** Widen the elements of one block to send them as sums. */
const void *gy_run_widen(gy_coll *coll, const gy_blocks *at);

/** Run steps: GY_OK the plan has ended; GY_AGAIN coll->peer must act first; a failure. */
gy_status gy_run_step(gy_coll *coll, bool *has_moved);
/** Release the plan and cancel transfers that are under way. */
void gy_run_end(gy_coll *coll);

/* progress.c */
/** Step all calls in flight; true when something moved. A failure fails the communicator. */
bool gy_progress_all(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** Fail the communicator and all its calls with `status` and this thread's error text, on the
 * peers too. */
void gy_comm_fail(gy_comm *comm, gy_status status) GY_REQUIRES(comm->root->lock);
/** Count a number as ended and publish that to the peers. */
void gy_comm_end_number(gy_comm *comm, uint64_t number) GY_REQUIRES(comm->root->lock);
/** Call the end functions of the calls that have ended; releases the lock around each. */
void gy_comm_call_ends(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** Take a call with the next number; NULL: no memory. */
gy_coll *gy_coll_take(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** Take a call without a number, for a message; NULL: no memory. */
gy_coll *gy_coll_take_unnumbered(gy_comm *comm) GY_REQUIRES(comm->root->lock);
/** Assert the invariant of a call between two steps (the table in progress.c). Called after
 * each change of its stage. */
void gy_coll_check(const gy_coll *coll) GY_REQUIRES(comm->root->lock);
void gy_coll_launch(gy_coll *coll) GY_REQUIRES(comm->root->lock);
/** Let a launched call go on; ends it when it has done all. False: something failed, and the
 * communicator with it. */
bool gy_coll_progress(gy_coll *coll, bool *has_moved) GY_REQUIRES(comm->root->lock);
void gy_wake_peers(const gy_comm *comm);

/* message.c */
GY_MUST_CHECK gy_status gy_message_check(const gy_comm *comm, gy_coll_kind kind,
                                         const gy_message *message);
/** Test whether the call receives from any rank. */
static inline bool gy_message_is_any(const gy_coll *coll)
{
    return coll->kind == GY_COLL_RECV && coll->message.peer == GY_ANY_SOURCE;
}
/** Test whether a message that is under way has not moved since it was launched. */
static inline bool gy_message_is_idle(const gy_coll *coll)
{
    return coll->kind != GY_COLL_COLLECTIVE && !gy_message_is_any(coll) &&
           coll->signatures[0].status == GY_AGAIN;
}
/** Check a receive from any rank: GY_PEER all ranks that could send have left. */
gy_status gy_message_check_senders(const gy_coll *coll);
/** Hand the message to the transport; it is in flight from then on. GY_PEER; GY_STATE */
GY_MUST_CHECK gy_status gy_message_launch(gy_coll *coll) GY_REQUIRES(comm->root->lock);
/** Step a message: GY_AGAIN, GY_OK, or its failure. */
gy_status gy_message_step(gy_coll *coll);

/* comm.c */
typedef struct gy_wait_note {
    _Atomic bool is_over;
    gy_error error;
} gy_wait_note;
/** The end function of a blocking call. */
void gy_note_end(void *arg, gy_status status);
/** Make progress until the note's call has ended. */
gy_status gy_comm_drive(gy_comm *comm, gy_coll *coll, gy_wait_note *note)
    GY_REQUIRES(comm->root->lock);
/** Initialise a group whose ranks, communicator slot and numbers are set. GY_NOMEM */
GY_MUST_CHECK gy_status gy_comm_init_group(gy_comm *group);
/** Initialise the lock of a root. */
void gy_comm_init_lock(gy_comm *root);
/** Free what a communicator owns alone. */
void gy_comm_release(gy_comm *comm);
/** Like gy_call_check_buffers, for a call that nobody waits for: a failure fails the
 * communicator, since the other ranks cannot see it and would wait. */
GY_MUST_CHECK gy_status gy_comm_check_buffers(gy_comm *comm, const gy_coll_call *call);
/** Hash of the names and the table that algorithms are chosen by. */
static inline uint32_t gy_comm_chooses_by(const gy_comm *comm)
{
    GY_CHECK_DEEP(comm->site.forced != NULL);
    const gy_tuning *tuning = comm->site.tuning;
    return comm->site.forced->hash ^ (tuning != NULL ? tuning->hash : 0);
}

/* world.c */
/** If the world is `old`, it is `whole` from now on. */
void gy_comm_world_succeed(const gy_comm *old, gy_comm *whole);

/* recovery/agree.c */
/** Like gy_comm_agree, for a root that may have failed; is_lost: (size) the ranks that are
 * dead. */
GY_MUST_CHECK gy_status gy_agree(gy_comm *comm, gy_agreement *agreement, bool *is_lost)
    GY_REQUIRES(comm->root->lock);
/** From now on, discard messages of epochs before `live_epoch`. */
void gy_ground_listen(gy_ground *ground, uint32_t live_epoch);

/* group.c */
/** Meet for the last time, release the communicator slot, free the group. */
void gy_group_leave(gy_comm *group);

/* request.c */
void gy_requests_free(gy_comm *root);

#endif
