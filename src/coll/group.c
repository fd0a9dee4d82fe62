/*
 * Groups: communicators of some ranks of another communicator. The ranks exchange which
 * communicator slots are free at each of them and which numbers they have used. A group takes
 * the first slot that is free at all its ranks and begins above all their numbers, so no
 * message or mark of an earlier owner of the slot is taken for one of the group.
 */
#include "coll/coll_priv.h"

#include <stdlib.h>

typedef struct bid {
    int64_t colour, key, rank; /* rank: in the parent */
    uint64_t comm_slots_taken, base;
} bid;

static int compare_bids(const void *a, const void *b)
{
    const bid *left = a, *right = b;
    GY_ASSERT(left->colour == right->colour);
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* Moves the bids of one colour to the front, sorts them into the group's order and returns how
 * many there are. */
static int select_members(bid *bids, int count, int64_t colour)
{
    GY_ASSERT(count > 0 && colour >= 0);
    int members = 0;
    for (int i = 0; i < count; i++) {
        if (bids[i].colour == colour) {
            bids[members++] = bids[i];
        }
    }
    GY_ASSERT(members >= 1 && members <= count); /* this rank named the colour */
    qsort(bids, (size_t)members, sizeof(*bids), compare_bids);
    return members;
}

/* Returns the first communicator slot that is free at all members; -1: there is none. */
static int first_free_comm_slot(const bid *bids, int members)
{
    GY_ASSERT(members > 0);
    uint64_t taken = 0;
    for (int i = 0; i < members; i++) {
        taken |= bids[i].comm_slots_taken;
    }
    return ~taken == 0 ? -1 : __builtin_ctzll(~taken);
}

static gy_status make_group(gy_comm *parent, const bid *bids, int members, gy_comm **group)
{
    gy_comm *root = parent->root, *made = NULL;
    uint64_t base = 0;
    int comm_slot = first_free_comm_slot(bids, members);
    if (comm_slot < 0) {
        return gy_fail(GY_LIMIT, "a rank of the group has %d groups already",
                       GY_COMM_SLOTS - 1);
    }
    GY_ASSERT(comm_slot > 0 && comm_slot < GY_COMM_SLOTS); /* the world has the first */
    made = gy_alloc_zero("coll.comm", 1, sizeof(*made));
    int *ranks = gy_alloc_zero("coll.comm", (size_t)members, sizeof(*ranks));
    if (made == NULL || ranks == NULL) {
        gy_free(made);
        gy_free(ranks);
        return GY_NOMEM;
    }
    for (int i = 0; i < members; i++) {
        ranks[i] = gy_comm_peer(parent, (int)bids[i].rank);
        base = GY_MAX(base, bids[i].base);
        made->rank = bids[i].rank == parent->rank ? i : made->rank;
    }
    GY_ASSERT(base % GY_CHANNELS == 0);
    made->root = root;
    made->size = members;
    made->ranks = ranks;
    made->comm_slot = comm_slot;
    made->next_number = made->ended = base;
    made->life = (uint32_t)(base / GY_CHANNELS) + 1;
    gy_status status = gy_comm_init_group(made);
    if (status < 0) {
        gy_comm_release(made);
        return status;
    }
    *group = made;
    return GY_OK;
}

static void enlist(gy_comm *group)
{
    gy_comm *root = group->root;
    GY_ASSERT(root != group);
    gy_mutex_lock(&root->lock);
    GY_ASSERT((root->comm_slots >> group->comm_slot & 1) == 0);
    group->next = root->next;
    root->next = group;
    root->comm_slots |= UINT64_C(1) << group->comm_slot;
    /* The base lies above what a message of an earlier owner may carry, even if this group
     * stays idle. */
    root->next_base = GY_MAX(root->next_base, group->ended + GY_CHANNELS);
    gy_mutex_unlock(&root->lock);
}

/* After this call all ranks of the parent know whether every group was made. */
static gy_status agree(gy_comm *parent, gy_status mine)
{
    GY_ASSERT(mine <= GY_OK);
    gy_error error = {.status = GY_OK};
    int32_t worst = mine;
    if (mine < 0) {
        gy_error_take(&error, mine);
    }
    GY_TRY(gy_allreduce(parent, &worst, &worst, 1, GY_I32, GY_MIN));
    if (mine < 0) {
        return gy_error_raise(&error);
    }
    return worst < 0 ? gy_fail((gy_status)worst, "another rank could not make its group: %s",
                               gy_status_text((gy_status)worst))
                     : GY_OK;
}

static gy_status split(gy_comm *comm, int colour, int key, bid *bids, gy_comm **group)
{
    gy_comm *root = comm->root;
    GY_ASSERT(root != NULL && gy_comm_has_rank(comm, comm->rank));
    gy_mutex_lock(&root->lock);
    const bid mine = {.colour = colour,
                      .key = key,
                      .rank = comm->rank,
                      .comm_slots_taken = root->comm_slots,
                      .base = root->next_base};
    gy_mutex_unlock(&root->lock);
    GY_TRY(gy_allgather(comm, &mine, bids, sizeof(mine) / sizeof(int64_t), GY_I64));
    gy_comm *made = NULL;
    gy_status status = GY_OK;
    if (colour != GY_NO_COLOUR) {
        int members = select_members(bids, comm->size, colour);
        status = make_group(comm, bids, members, &made);
    }
    status = agree(comm, status);
    if (status < 0) {
        if (made != NULL) {
            gy_comm_release(made);
        }
        return status;
    }
    if (made != NULL) {
        enlist(made);
    }
    GY_ASSERT((made == NULL) == (colour == GY_NO_COLOUR));
    *group = made;
    return GY_OK;
}

gy_status gy_comm_split(gy_comm *comm, int colour, int key, gy_comm **group)
{
    GY_COMM_EXPECT(comm);
    GY_ASSERT(group != NULL);
    if (colour < GY_NO_COLOUR) {
        return gy_fail(GY_ARG, "split: colour %d, expected 0 or more, or GY_NO_COLOUR", colour);
    }
    bid *bids = gy_alloc_zero("coll.split", (size_t)comm->size, sizeof(*bids));
    if (bids == NULL) {
        return GY_NOMEM;
    }
    gy_status status = split(comm, colour, key, bids, group);
    gy_free(bids);
    return status;
}

gy_status gy_comm_dup(gy_comm *comm, gy_comm **copy)
{
    GY_COMM_EXPECT(comm);
    return gy_comm_split(comm, 0, comm->rank, copy);
}

/* A peer may still read what this rank wrote for the last barrier. The slot's memory is free
 * once the peer's word 0 shows that the peer has ended the barrier. */
static gy_status await_last(gy_comm *group) GY_REQUIRES(group->root->lock)
{
    GY_ASSERT(group->shared == NULL || group->ended > 0);
    int peer = -1;
    gy_deadline deadline = {gy_now_ns(group->transport->env) + group->timeout_ns};
    gy_wait wait = gy_wait_start(group->transport, -1, "leaving a group", deadline);
    /* The next use of the last channel is allowed when all ranks have ended number `ended - 1`.
     */
    while (group->shared != NULL &&
           !gy_channel_is_free(group, group->ended - 1 + GY_CHANNELS, &peer)) {
        wait.peer = peer;
        GY_TRY(gy_wait_round(&wait));
    }
    return GY_OK;
}

void gy_group_leave(gy_comm *group)
{
    GY_ASSERT(group->root != group);
    gy_comm *root = group->root;
    gy_status status = gy_barrier(group);
    gy_mutex_lock(&root->lock);
    if (status >= 0 && group->size > 1) {
        status = await_last(group);
    }
    if (status < 0) {
        gy_warn("group %d.%u was left without its peers: %s", group->comm_slot, group->life,
                gy_error_text());
        gy_comm_fail(root, status);
    }
    gy_comm_call_ends(root);
    gy_comm **at = &root->next;
    while (*at != group) {
        GY_ASSERT(*at != NULL); /* it is in the list */
        at = &(*at)->next;
    }
    *at = group->next;
    GY_ASSERT((root->comm_slots >> group->comm_slot & 1) != 0);
    root->comm_slots &= ~(UINT64_C(1) << group->comm_slot);
    root->next_base =
        GY_MAX(root->next_base, (group->next_number / GY_CHANNELS + 2) * GY_CHANNELS);
    gy_mutex_unlock(&root->lock);
    gy_comm_release(group);
}

int gy_comm_launch_rank(const gy_comm *comm, int rank)
{
    GY_ASSERT(gy_comm_has_rank(comm, rank));
    return gy_comm_peer(comm, rank);
}
