/* States of a checkpoint: each rank has its own and copies of those of the ranks before it. */
#include "coll/recovery/replay_priv.h"

#include <string.h>

gy_status gy_state_set(gy_state *state, const void *data, size_t size_bytes)
{
    GY_ASSERT(state != NULL && (data == NULL || data != state->data));
    uint8_t *copy = gy_alloc("coll.state", size_bytes + 1);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    if (data != NULL && size_bytes > 0) {
        memcpy(copy, data, size_bytes);
    }
    gy_free(state->data);
    *state = (gy_state){.data = copy, .size_bytes = size_bytes};
    return GY_OK;
}

void gy_states_drop(const gy_recoverable *replay, gy_state *states)
{
    GY_ASSERT(replay->replicas >= 0);
    for (int j = 0; states != NULL && j <= replay->replicas; j++) {
        gy_free(states[j].data);
        states[j] = (gy_state){.data = NULL};
    }
}

/* One step of the ring over a distance of j; both messages are under way at once. */
static gy_status pass(gy_comm *comm, int j, const gy_state *from, gy_state *to)
{
    int size = gy_comm_size(comm), rank = gy_comm_rank(comm);
    gy_request *requests[2] = {NULL, NULL};
    gy_status status = gy_request_begin_recv(comm,
                                             &(gy_message){.data = to->data,
                                                           .count = to->size_bytes,
                                                           .dtype = GY_U8,
                                                           .peer = (rank - j + size) % size,
                                                           .tag = GY_REPLAY_TAG + j},
                                             &requests[0]);
    GY_ASSERT(j > 0 && j < size);
    GY_ASSERT(from != to);
    if (status >= 0) {
        status = gy_request_begin_send(comm,
                                       &(gy_message){.data = from->data,
                                                     .count = from->size_bytes,
                                                     .dtype = GY_U8,
                                                     .peer = (rank + j) % size,
                                                     .tag = GY_REPLAY_TAG + j},
                                       &requests[1]);
    }
    for (int i = 0; i < 2 && requests[i] != NULL; i++) {
        gy_status ended = gy_request_wait(requests[i], GY_NEVER);
        status = status < 0 ? status : ended;
        gy_request_free(requests[i]);
    }
    return status;
}

gy_status gy_states_spread(gy_recoverable *replay, gy_state *states)
{
    gy_comm *comm = replay->comm;
    int size = gy_comm_size(comm), rank = gy_comm_rank(comm);
    int64_t sizes[GY_RANKS_MAX], own = (int64_t)states[0].size_bytes;
    GY_ASSERT(size <= GY_RANKS_MAX && replay->replicas < size);
    GY_TRY(gy_allgather(comm, &own, sizes, 1, GY_I64));
    for (int j = 1; j <= replay->replicas; j++) {
        GY_TRY(gy_state_set(&states[j], NULL, (size_t)sizes[(rank - j + size) % size]));
        GY_TRY(pass(comm, j, &states[0], &states[j]));
    }
    return GY_OK;
}

/* Returns the distance of the first follower of `rank` that does not load itself; 0: none. */
static int find_keeper(const gy_recoverable *replay, const gy_standing *standings, int rank)
{
    int size = gy_comm_size(replay->comm);
    GY_ASSERT(rank >= 0 && rank < size);
    for (int j = 1; j <= replay->replicas; j++) {
        if (standings[(rank + j) % size].kind != GY_REPLAY_LOAD) {
            return j;
        }
    }
    return 0;
}

static gy_status hand_over(gy_recoverable *replay, int to, int j)
{
    GY_ASSERT(j >= 1 && j <= replay->replicas);
    GY_ASSERT(gy_comm_has_rank(replay->comm, to) && to != replay->comm->rank);
    const gy_state *state = &replay->states[j];
    uint64_t size = state->size_bytes;
    GY_TRY(gy_send(replay->comm, &size, 1, GY_U64, to, GY_REPLAY_TAG));
    return gy_send(replay->comm, state->data, state->size_bytes, GY_U8, to, GY_REPLAY_TAG);
}

static gy_status take_over(gy_recoverable *replay, int from, gy_state *state)
{
    GY_ASSERT(gy_comm_has_rank(replay->comm, from) && from != replay->comm->rank);
    uint64_t size = 0;
    GY_TRY(gy_recv(replay->comm, &size, 1, GY_U64, from, GY_REPLAY_TAG));
    GY_TRY(gy_state_set(state, NULL, (size_t)size));
    return gy_recv(replay->comm, state->data, (size_t)size, GY_U8, from, GY_REPLAY_TAG);
}

/* Checks that every state has a copy. All ranks get the same result before any of them sends or
 * waits. */
static gy_status check_kept(const gy_recoverable *replay, const gy_standing *standings)
{
    GY_ASSERT(standings != NULL);
    for (int who = 0; who < gy_comm_size(replay->comm); who++) {
        if (standings[who].kind == GY_REPLAY_LOAD && find_keeper(replay, standings, who) == 0) {
            return gy_replay_lost(
                replay,
                gy_fail(
                    GY_STATE,
                    "recovery: no live rank has the state of rank %d: each state has %d copies",
                    who, replay->replicas + 1));
        }
    }
    return GY_OK;
}

static gy_status restore(gy_recoverable *replay, const gy_standing *standings)
{
    gy_comm *comm = replay->comm;
    int size = gy_comm_size(comm), rank = gy_comm_rank(comm);
    GY_ASSERT(gy_comm_has_rank(comm, rank));
    GY_TRY(check_kept(replay, standings));
    gy_state *fresh = replay->pending;
    for (int who = 0; who < size; who++) {
        int j = find_keeper(replay, standings, who), from = (who + j) % size;
        GY_ASSERT(j >= 0 && j <= replay->replicas);
        if (standings[who].kind != GY_REPLAY_LOAD) {
            continue;
        }
        if (rank == from) {
            GY_TRY(hand_over(replay, who, j));
        } else if (rank == who) {
            GY_TRY(take_over(replay, from, &fresh[0]));
        }
    }
    if (standings[rank].kind != GY_REPLAY_LOAD) {
        GY_TRY(gy_state_set(&fresh[0], replay->states[0].data, replay->states[0].size_bytes));
    }
    return gy_states_spread(replay, fresh);
}

gy_status gy_states_serve(gy_recoverable *replay, const gy_standing *standings, int64_t version,
                          gy_replay_call *own)
{
    GY_ASSERT(version >= 0);
    /* A rank that has just committed its checkpoint is served, and still hands its state over.
     */
    GY_ASSERT(!own->is_served || own->kind == GY_REPLAY_CHECKPOINT);
    if (version > 0) {
        GY_TRY(restore(replay, standings));
        /* A restarted rank has no copies, so all copies are made again, on all ranks or on
         * none. */
        GY_TRY(gy_barrier(replay->comm));
        GY_ASSERT(replay->states != replay->pending);
        gy_state *old = replay->states;
        replay->states = replay->pending;
        replay->pending = old;
        gy_states_drop(replay, old);
    }
    if (own->kind == GY_REPLAY_LOAD) {
        replay->version = version;
        replay->number = 0;
        own->is_served = true;
    }
    return GY_OK;
}
