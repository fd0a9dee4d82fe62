/** Inside recovery: a recoverable, its results and states, and the call that a rank waits in.
 */
#ifndef GY_COLL_REPLAY_PRIV_H
#define GY_COLL_REPLAY_PRIV_H

#include "coll/coll_priv.h"

enum { GY_REPLAY_TAG = 1 };

/** The kinds of call, in the order that they have at one (version, number). */
typedef enum gy_replay_kind {
    GY_REPLAY_LOAD,
    GY_REPLAY_CALL,
    GY_REPLAY_CHECKPOINT,
    GY_REPLAY_FINISH
} gy_replay_kind;

/** The position of a rank; sent as three words. */
typedef struct gy_standing {
    int64_t kind, version, number;
} gy_standing;

/** The call that a rank waits in. */
typedef struct gy_replay_call {
    gy_replay_kind kind;
    bool is_served;              /* it has its result and need not run */
    gy_coll_signature signature; /* CALL: */
    void *out;
    size_t size_bytes;
} gy_replay_call;

typedef struct gy_result {
    struct gy_result *next;
    int64_t number;
    size_t size_bytes;
    gy_coll_signature signature; /* sent with the data */
    uint8_t data[];
} gy_result;
_Static_assert(offsetof(gy_result, data) ==
                   offsetof(gy_result, signature) + sizeof(gy_coll_signature),
               "signature and data are one message");

typedef struct gy_state {
    uint8_t *data;
    size_t size_bytes;
} gy_state;

struct gy_recoverable {
    gy_comm *comm;     /* the current one */
    gy_comm **retired; /* (retired_count) failed communicators; freed at the end, as their
                          memory may be in use */
    int retired_count;
    int replicas;
    bool is_apart; /* ranks may be at different calls */
    int64_t version, number;
    gy_result *results; /* the newest first */
    size_t limit_bytes, total_bytes, kept_bytes;
    gy_state *states;  /* (replicas + 1) [j]: the state of the rank j before this one */
    gy_state *pending; /* the same, for the checkpoint that is being made */
};

/* replay.c */
bool gy_replay_is_loss(gy_status status);
/** Get a communicator of all ranks; where nobody restarts ranks, fail with the recorded
 * failure. */
GY_MUST_CHECK gy_status gy_replay_recover(gy_recoverable *replay);
/** Fail with `status` on all ranks, since no rank has what all need; the launcher ends the
 * launch by it. */
gy_status gy_replay_lost(const gy_recoverable *replay, gy_status status);
/** Return when all ranks are at the same call, or when this one is served. */
GY_MUST_CHECK gy_status gy_replay_meet(gy_recoverable *replay, gy_replay_call *own);

/* states.c */
/** Replace the state by a copy of the data; NULL: by uninitialised bytes. */
GY_MUST_CHECK gy_status gy_state_set(gy_state *state, const void *data, size_t size_bytes);
void gy_states_drop(const gy_recoverable *replay, gy_state *states);
/** Send states[0] to the following ranks, and receive states[j] from the ranks before. */
GY_MUST_CHECK gy_status gy_states_spread(gy_recoverable *replay, gy_state *states);
/** Ranks that load get their state of `version` from a following rank; then all copies are
 * made. */
GY_MUST_CHECK gy_status gy_states_serve(gy_recoverable *replay, const gy_standing *standings,
                                        int64_t version, gy_replay_call *own);

#endif
