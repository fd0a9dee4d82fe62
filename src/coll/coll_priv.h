/**
 * Inside room coll: a communicator, its collectives in flight, and how their parts meet.
 *
 * Shared memory of a rank, as coll uses it: word 0 says below which number all its collectives
 * have ended; word 1 + channel holds the posted mark of the collective on that channel; its
 * staging holds one slot (card and tiny data) a channel, then one staging region a channel. A
 * collective's channel is its number modulo GY_CHANNELS: nobody enters number n before all
 * ranks have ended n - GY_CHANNELS, so a channel's memory is free when it is written.
 */
#ifndef GY_COLL_COLL_PRIV_H
#define GY_COLL_COLL_PRIV_H

#include "coll/coll.h"
#include "coll/kernels.h"

enum {
    GY_CHANNELS = 8,
    GY_TINY_BYTES = 8192, /* what a slot takes */
    GY_FEW_BYTES = 24,
    GY_MARK_BITS = 24, /* of a channel's word; the number stands above */
    GY_USER = 255,     /* as a card's reduction */
};

/** What a rank says of its call; all but is_registered must be alike on all ranks. */
typedef struct gy_card {
    uint64_t count;
    int32_t root;
    uint32_t forced; /* hash of a forced algorithm's name, 0 none */
    uint8_t operation, dtype, reduction, is_registered; /* reduction: GY_USER a user's */
    uint32_t detail; /* hash of what else must agree: a user's reduction */
} gy_card;
_Static_assert(sizeof(gy_card) == 24, "cards travel between ranks");

/** A channel's slot; an element or three ride in its first cache line. */
typedef struct gy_slot {
    alignas(GY_CACHE_LINE) _Atomic uint64_t
        entered;    /* number + 1 of the collective it belongs to */
    uint64_t ended; /* the rank's word 0 when it entered */
    gy_card card;
    uint8_t few[GY_FEW_BYTES]; /* data of so few bytes rides here */
    alignas(GY_CACHE_LINE) uint8_t data[GY_TINY_BYTES];
} gy_slot;
_Static_assert(sizeof(gy_slot) == GY_CACHE_LINE + GY_TINY_BYTES, "one line before the data");

/** A plan of this rank, kept for the next call like it. */
typedef struct gy_kept_plan {
    const gy_algorithm *algorithm;
    gy_plan_request request;
    gy_steps steps;
    uint32_t *send_index; /* (steps) how many sends stand before each step */
    uint32_t send_count;
    int users;
    uint64_t last_used;
} gy_kept_plan;

enum { GY_KEPT_PLANS = 32 };

/** How a call is carried out. */
typedef struct gy_choice {
    const gy_algorithm *algorithm; /* NULL: the slots */
    int chunks;                    /* of one leg */
    int64_t leg, legs; /* a long vector goes in legs of so many elements (of each part), as
                          equal as can be */
    bool is_streamed;  /* results are written past the cache */
} gy_choice;

/** Where a peer's registered buffers lie in its pool. */
typedef struct gy_far {
    uint64_t in, out;
} gy_far;

typedef enum gy_coll_stage {
    GY_COLL_RESERVED, /* has its number */
    GY_COLL_STARTED,  /* waits until its channel is free */
    GY_COLL_ENTERED,  /* has published its card, compares those of the others */
    GY_COLL_RUNS,     /* its plan */
    GY_COLL_ENDED
} gy_coll_stage;

/** The runner's place in a plan. */
typedef struct gy_runner {
    gy_kept_plan *plan;
    gy_choice choice;
    gy_fold fold;
    gy_layout layout; /* of the leg */
    int64_t leg;      /* the one that runs */
    int64_t first;    /* its first element (in each part) */
    uint32_t next;    /* step */
    uint32_t mark_base;
    int32_t wait_rank; /* peers below it have posted what the step waits for */
    bool is_receiving, has_posted_leg;
    gy_transfer receive;
    gy_transfer *sends; /* (send_count) */
    size_t send_capacity;
    uint32_t sends_started, sends_ended;
    uint8_t *scratch; /* scratch slots, then one for what arrives */
    size_t scratch_bytes, scratch_slot_bytes, stage_slot_bytes;
} gy_runner;

struct gy_coll {
    gy_comm *comm;
    struct gy_coll *next, *next_ended;
    uint64_t number;
    gy_coll_stage stage;
    gy_coll_call call;
    gy_card card;
    gy_coll_end end;
    void *arg;
    int64_t deadline_ns; /* 0: not set yet */
    int peer;            /* the rank it waits for, -1 none */
    int checked;         /* ranks whose cards have been compared */
    bool all_registered;
    gy_far *far;          /* (size) */
    gy_card neighbour[2]; /* without shared memory: cards of the ranks before and after */
    gy_transfer cards[4];
    gy_runner runner;
    gy_error error; /* status GY_OK or why it failed */
};

struct gy_comm {
    gy_transport *transport;
    const gy_shared *shared; /* NULL: messages alone */
    int rank, size;
    gy_mutex lock; /* of all below, and the transport */
    gy_pool *pool;
    int64_t timeout_ns;
    const char *forced; /* algorithm's name or NULL */
    uint32_t forced_hash;
    uint64_t next_number;
    uint64_t ended;             /* all numbers below have */
    bool is_ended[GY_CHANNELS]; /* those from there on, by channel */
    uint64_t *peer_ended;       /* (size) as last seen */
    gy_coll *flying;            /* started, by priority, then number */
    gy_coll *spare;             /* to be used again */
    gy_coll *over;              /* ended, their owners to be told */
    gy_kept_plan kept[GY_KEPT_PLANS];
    int32_t *stage_slots; /* (algorithms) how many each uses here; 0 not known yet */
    uint64_t uses;
    size_t region_bytes; /* staging of a channel */
    bool is_failed;
    gy_error failure;
    int64_t look_ns; /* when peers are to be looked at */
    uint64_t idle_rounds;
    gy_comm_stats stats;
};

/** Elements that fill a cache line; at least one. */
static inline int64_t gy_unit_of(int64_t element_bytes)
{
    return element_bytes < GY_CACHE_LINE ? GY_CACHE_LINE / element_bytes : 1;
}

/* call.c */
/** GY_ARG unless every rank could make that call. */
GY_MUST_CHECK gy_status gy_call_check(const gy_comm *comm, const gy_coll_call *call);
size_t gy_call_element_bytes(const gy_coll_call *call);
size_t gy_call_in_bytes(const gy_comm *comm, const gy_coll_call *call);
size_t gy_call_out_bytes(const gy_comm *comm, const gy_coll_call *call);
gy_card gy_call_card(const gy_comm *comm, const gy_coll_call *call);
bool gy_cards_agree(const gy_card *a, const gy_card *b);
/** "allreduce of 3 f32 by sum". */
const char *gy_card_text(const gy_card *card, char out[128]);
bool gy_call_reduces(const gy_coll_call *call);
/** The order of contributions that the call needs. */
gy_order gy_call_order(const gy_coll_call *call);
gy_fold gy_call_fold(const gy_comm *comm, const gy_coll_call *call);
/** Both calls in words; GY_MISMATCH. */
gy_status gy_card_mismatch(const gy_coll *coll, const gy_card *other, int rank);
/** One rank alone: the answer is the input. */
void gy_call_alone(const gy_coll_call *call);

/* slots.c */
static inline gy_slot *gy_slot_of(const gy_comm *comm, int rank, uint64_t number)
{
    return (gy_slot *)(void *)gy_shared_staging(comm->shared, rank) + number % GY_CHANNELS;
}
static inline uint8_t *gy_region_of(const gy_comm *comm, int rank, uint64_t number)
{
    return gy_shared_staging(comm->shared, rank) + GY_CHANNELS * sizeof(gy_slot) +
           number % GY_CHANNELS * comm->region_bytes;
}
bool gy_call_is_tiny(const gy_comm *comm, const gy_coll_call *call);
/** Is the channel of `number` free on all ranks? Else *peer is one that has not ended with it.
 */
bool gy_channel_is_free(gy_comm *comm, uint64_t number, int *peer);
/** Publish the card, and the data of a tiny call or where the buffers lie. */
void gy_slot_enter(gy_coll *coll, bool is_tiny);
/** Compare cards: GY_OK all are there and agree; GY_AGAIN (coll->peer is missing); GY_MISMATCH.
 */
gy_status gy_slot_compare(gy_coll *coll);
/** The same, looking again for some 100 ns: for a rank that has a core for itself. */
gy_status gy_slot_compare_spinning(gy_coll *coll);
/** All cards are there: the result of a tiny call. */
void gy_slot_finish(const gy_coll *coll);

/* choose.c */
/** GY_UNSUPPORTED: nothing here keeps the order that the reduction needs. */
GY_MUST_CHECK gy_status gy_choose(gy_comm *comm, const gy_coll_call *call, bool is_registered,
                                  gy_choice *choice);
/** GY_ARG lists the names there are. NULL is fine. */
GY_MUST_CHECK gy_status gy_choice_check_name(const char *name);

/* plans.c */
GY_MUST_CHECK gy_status gy_plan_keep(gy_comm *comm, const gy_algorithm *algorithm,
                                     const gy_plan_request *request, gy_kept_plan **plan);
void gy_plans_free(gy_comm *comm);

/* run.c */
GY_MUST_CHECK gy_status gy_run_start(gy_coll *coll, const gy_choice *choice);
/** GY_OK the plan has ended; GY_AGAIN (coll->peer is waited for); a failure. */
gy_status gy_run_step(gy_coll *coll, bool *has_moved);
/** Give the plan back, forget transfers that are under way. */
void gy_run_end(gy_coll *coll);

/* progress.c */
/** Step all in flight; true when something moved. A failure becomes the communicator's. */
bool gy_progress_all(gy_comm *comm) GY_REQUIRES(comm->lock);
/** All fail with `status` and this thread's error text, the peers too. */
void gy_comm_fail(gy_comm *comm, gy_status status) GY_REQUIRES(comm->lock);
/** Count a number as ended, tell the peers. */
void gy_comm_end_number(gy_comm *comm, uint64_t number) GY_REQUIRES(comm->lock);
/** Tell the owners of what has ended; takes and gives the lock back around each. */
void gy_comm_tell(gy_comm *comm) GY_REQUIRES(comm->lock);
gy_coll *gy_coll_take(gy_comm *comm) GY_REQUIRES(comm->lock);
void gy_coll_launch(gy_coll *coll) GY_REQUIRES(comm->lock);
void gy_wake_peers(const gy_comm *comm);

#endif
