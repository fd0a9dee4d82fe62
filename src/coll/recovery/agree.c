/*
 * Agreement among ranks of which some die. The state of a rank has the set of dead ranks that
 * it knows, and the AND, MIN and MAX of the values that it has received. Each rank sends its
 * state to all ranks that it considers alive and merges the states that it receives. When its
 * own state changes it sends it again. It decides when every live rank has sent a state equal
 * to its own, and sends the decision before it returns.
 *
 *     p0  {} 3 --.  .--> {} 1, sent again --> all equal: decided
 *     p1  {} 1 --'--'--> {} 1, equal to p0's second: decided
 *
 * A rank accepts nothing from a rank in its own set of the dead, and states only grow. So two
 * live ranks never decide differently (docs/decisions/018-recovery.md).
 */
#include "coll/coll_priv.h"

#include <string.h>

enum { CHECK_EVERY_NS = 20000000, ROUNDS_UNDER_LOCK = 64 };

typedef enum ballot_kind { BALLOT_NONE, BALLOT_STATE, BALLOT_DECISION } ballot_kind;

typedef struct ballot {
    uint32_t kind; /* ballot_kind */
    uint32_t flags;
    int64_t least, most;
    uint8_t dead[]; /* one bit per rank, in whole words */
} ballot;

typedef struct council {
    gy_comm *comm;
    uint64_t tag;
    size_t ballot_bytes;
    uint8_t *own;             /* one ballot */
    uint8_t *last, *incoming; /* (size) ballots each: the last one from each rank; where the
                              next one arrives */
    gy_transfer *receives;    /* (size) */
    bool is_decided;
    int64_t check_ns;
} council;

static ballot *own_of(const council *all)
{
    GY_ASSERT(all->own != NULL);
    return (ballot *)(void *)all->own;
}

static ballot *ballot_at(const council *all, uint8_t *ballots, int rank)
{
    GY_ASSERT(gy_comm_has_rank(all->comm, rank));
    GY_ASSERT(ballots != NULL);
    return (ballot *)(void *)(ballots + (size_t)rank * all->ballot_bytes);
}

static bool is_dead(const ballot *state, int rank)
{
    GY_ASSERT(rank >= 0);
    return (state->dead[rank / 8] >> rank % 8 & 1) != 0;
}

static size_t dead_bytes(const gy_comm *comm)
{
    GY_ASSERT(comm->size > 0 && comm->size <= GY_RANKS_MAX);
    return gy_round_up(((size_t)comm->size + 7) / 8, sizeof(uint64_t));
}

/* The bit 31 above a user's tag is 1, so the tag differs from those of messages and
 * collectives. */
static uint64_t agreement_tag(uint32_t number)
{
    return UINT64_C(1) << 62 | (uint64_t)(number & 0xffffff) << 32 | UINT64_C(1) << 31;
}

static bool is_stale(const void *rule, uint64_t tag)
{
    const gy_ground *ground = rule;
    const uint64_t marks = UINT64_C(1) << 62 | UINT64_C(1) << 31;
    GY_ASSERT(ground != NULL);
    if ((tag & marks) == marks) {
        uint32_t distance = ((uint32_t)(tag >> 32) - ground->agreement) & 0xffffff;
        return distance >= 0x800000;
    }
    return tag >> 63 != (ground->live_epoch & 1);
}

void gy_ground_listen(gy_ground *ground, uint32_t live_epoch)
{
    GY_ASSERT(ground->transport != NULL && ground->is_lost != NULL);
    ground->live_epoch = live_epoch;
    gy_transport_survive(ground->transport, &(gy_survival){.epoch = ground->epoch,
                                                           .is_lost = ground->is_lost,
                                                           .is_stale = is_stale,
                                                           .rule = ground});
}

static gy_status send_ballots(const council *all)
{
    const gy_comm *comm = all->comm;
    GY_ASSERT(all->ballot_bytes >= sizeof(ballot) && all->own != NULL);
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank == comm->rank || is_dead(own_of(all), rank)) {
            continue;
        }
        gy_status status = gy_transport_post(comm->transport, gy_comm_peer(comm, rank),
                                             all->tag, all->own, all->ballot_bytes);
        if (status == GY_NOMEM) {
            return status;
        }
        /* A rank that cannot be reached is dead, which find_dead will detect. */
    }
    return GY_OK;
}

static gy_status listen_to(council *all, int rank)
{
    GY_ASSERT(rank != all->comm->rank);
    GY_ASSERT(all->receives[rank].status != GY_AGAIN);
    return gy_transport_recv(all->comm->transport, gy_comm_peer(all->comm, rank), all->tag,
                             ballot_at(all, all->incoming, rank), all->ballot_bytes,
                             &all->receives[rank]);
}

/* Adds a rank to the own set of the dead. Returns true when the own state has changed. */
static bool mark_dead(council *all, int rank)
{
    ballot *own = own_of(all);
    GY_ASSERT(rank != all->comm->rank);
    if (is_dead(own, rank)) {
        return false;
    }
    own->dead[rank / 8] |= (uint8_t)(1U << rank % 8);
    gy_transport_cancel(all->comm->transport, &all->receives[rank]);
    return true;
}

static bool merge(council *all, const ballot *theirs)
{
    ballot *own = own_of(all);
    bool has_changed = (own->flags & theirs->flags) != own->flags ||
                       theirs->least < own->least || theirs->most > own->most;
    GY_ASSERT(own->kind == BALLOT_STATE);
    GY_ASSERT(!is_dead(theirs, all->comm->rank));
    own->flags &= theirs->flags;
    own->least = GY_MIN(own->least, theirs->least);
    own->most = GY_MAX(own->most, theirs->most);
    for (int rank = 0; rank < all->comm->size; rank++) {
        has_changed = (is_dead(theirs, rank) && mark_dead(all, rank)) || has_changed;
    }
    return has_changed;
}

/* Takes the ballot of a rank: GY_OK the own state has changed; GY_AGAIN it has not. */
static gy_status take_ballot(council *all, int rank)
{
    const gy_comm *comm = all->comm;
    ballot *theirs = ballot_at(all, all->last, rank);
    GY_ASSERT(!all->is_decided);
    GY_ASSERT(all->receives[rank].status == GY_OK);
    memcpy(theirs, ballot_at(all, all->incoming, rank), all->ballot_bytes);
    if (is_dead(theirs, comm->rank)) {
        return gy_fail(GY_PEER, "rank %d considers this rank lost", gy_comm_peer(comm, rank));
    }
    if (theirs->kind == BALLOT_DECISION) {
        memcpy(all->own, theirs, all->ballot_bytes);
        all->is_decided = true;
        return GY_AGAIN;
    }
    GY_TRY(listen_to(all, rank));
    return merge(all, theirs) ? GY_OK : GY_AGAIN;
}

static gy_status take_ballots(council *all)
{
    GY_ASSERT(!all->is_decided);
    gy_status changed = GY_AGAIN;
    for (int rank = 0; rank < all->comm->size && !all->is_decided; rank++) {
        while (rank != all->comm->rank && !is_dead(own_of(all), rank) &&
               all->receives[rank].status == GY_OK && !all->is_decided) {
            gy_status status = take_ballot(all, rank);
            GY_TRY(status);
            changed = status == GY_OK ? GY_OK : changed;
        }
    }
    return changed;
}

/* Returns a rank whose last ballot differs from the own one; -1: all agree. */
static int find_other(const council *all)
{
    const size_t skip = offsetof(ballot, flags);
    GY_ASSERT(!is_dead(own_of(all), all->comm->rank));
    for (int rank = 0; rank < all->comm->size; rank++) {
        const ballot *theirs = ballot_at(all, all->last, rank);
        if (rank != all->comm->rank && !is_dead(own_of(all), rank) &&
            (theirs->kind == BALLOT_NONE ||
             memcmp((const uint8_t *)theirs + skip, all->own + skip,
                    all->ballot_bytes - skip) != 0)) {
            return rank;
        }
    }
    return -1;
}

/* Checks whether the live ranks still run. Returns true when the own state has changed. */
static bool find_dead(council *all)
{
    const gy_comm *comm = all->comm;
    bool has_changed = false;
    int64_t now_ns = gy_now_ns(comm->transport->env);
    GY_ASSERT(!all->is_decided);
    if (now_ns < all->check_ns) {
        return false;
    }
    all->check_ns = now_ns + CHECK_EVERY_NS;
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank != comm->rank && !is_dead(own_of(all), rank) &&
            gy_transport_look(comm->transport, gy_comm_peer(comm, rank)) < 0) {
            has_changed = mark_dead(all, rank) || has_changed;
        }
    }
    return has_changed;
}

static gy_status come_to_agree(council *all) GY_REQUIRES(all->comm->root->lock)
{
    gy_comm *comm = all->comm;
    gy_deadline deadline = {gy_now_ns(comm->transport->env) + comm->timeout_ns};
    gy_wait wait =
        gy_wait_start(comm->transport, -1, "to agree on the ranks that are alive", deadline);
    GY_ASSERT(own_of(all)->kind == BALLOT_STATE);
    wait.is_blind = true;
    GY_TRY(send_ballots(all));
    for (int round = 1;; round++) {
        gy_status changed = take_ballots(all);
        GY_TRY(changed);
        if (all->is_decided) {
            break;
        }
        if (changed == GY_OK || find_dead(all)) {
            GY_TRY(send_ballots(all));
        }
        int other = find_other(all);
        if (other < 0) {
            break;
        }
        wait.peer = gy_comm_peer(comm, other);
        (void)gy_progress_all(comm);
        gy_comm_call_ends(comm);
        GY_TRY(gy_wait_round(&wait));
        if (round % ROUNDS_UNDER_LOCK == 0) {
            gy_mutex_unlock(&comm->root->lock);
            gy_mutex_lock(&comm->root->lock);
        }
    }
    own_of(all)->kind = BALLOT_DECISION;
    return send_ballots(all);
}

static gy_status open_council(council *all)
{
    gy_comm *comm = all->comm;
    size_t size = (size_t)comm->size;
    GY_ASSERT(all->own == NULL && all->receives == NULL);
    all->ballot_bytes = sizeof(ballot) + dead_bytes(comm);
    all->own = gy_alloc_zero("coll.agree", 2 * size + 1, all->ballot_bytes);
    all->receives = gy_alloc_zero("coll.agree", size, sizeof(*all->receives));
    if (all->own == NULL || all->receives == NULL) {
        return GY_NOMEM;
    }
    all->last = all->own + all->ballot_bytes;
    all->incoming = all->last + size * all->ballot_bytes;
    all->tag = agreement_tag(comm->root->ground->agreement);
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank != comm->rank) {
            GY_TRY(listen_to(all, rank));
        }
    }
    return GY_OK;
}

static void close_council(council *all)
{
    GY_ASSERT(all->comm != NULL);
    for (int rank = 0; all->receives != NULL && rank < all->comm->size; rank++) {
        gy_transport_cancel(all->comm->transport, &all->receives[rank]);
    }
    gy_free(all->own);
    gy_free(all->receives);
}

gy_status gy_agree(gy_comm *comm, gy_agreement *agreement, bool *is_lost)
{
    GY_ASSERT(comm->root == comm);
    GY_ASSERT(agreement != NULL && is_lost != NULL);
    gy_ground *ground = comm->root->ground;
    council all = {.comm = comm};
    gy_status status = open_council(&all);
    if (status >= 0) {
        ballot *own = own_of(&all);
        own->kind = BALLOT_STATE;
        own->flags = agreement->flags;
        own->least = agreement->value_min;
        own->most = agreement->value_max;
        status = come_to_agree(&all);
    }
    if (status >= 0) {
        const ballot *own = own_of(&all);
        *agreement = (gy_agreement){
            .flags = own->flags, .value_min = own->least, .value_max = own->most};
        for (int rank = 0; rank < comm->size; rank++) {
            is_lost[rank] = is_dead(own, rank);
            agreement->lost += is_lost[rank];
        }
        GY_ASSERT(!is_lost[comm->rank]);
        GY_ASSERT(agreement->lost < comm->size);
        ground->agreement++;
    } else {
        comm->root->is_astray = true;
    }
    close_council(&all);
    return status;
}
