/**
 * Inside recovery: a recoverable, its results and states, and what a rank waits in.
 */
#ifndef GY_COLL_REPLAY_PRIV_H
#define GY_COLL_REPLAY_PRIV_H

#include "coll/coll_priv.h"

enum { GY_REPLAY_TAG = 1 };

/** In the order in which they may stand at one (version, number). */
typedef enum gy_replay_kind {
    GY_REPLAY_LOAD,
    GY_REPLAY_CALL,
    GY_REPLAY_CHECKPOINT,
    GY_REPLAY_FINISH
} gy_replay_kind;

/** Where a rank stands; sent as words. */
typedef struct gy_standing {
    int64_t kind, version, number;
} gy_standing;

/** The call that a rank waits in. */
typedef struct gy_replay_call {
    gy_replay_kind kind;
    bool is_served;              /* it needs not run any more */
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
    gy_comm *comm; /* now */
    gy_comm *
        *retired; /* (retired_count) failed; freed at the end, as their memory may be used */
    int retired_count;
    int replicas;
    bool is_apart; /* ranks may stand at different calls */
    int64_t version, number;
    gy_result *results; /* the newest first */
    size_t limit_bytes, total_bytes, kept_bytes;
    gy_state *states;  /* (replicas + 1) [j]: of the rank j before this one */
    gy_state *pending; /* the same, of the checkpoint that is being made */
};

/* replay.c */
bool gy_replay_is_loss(gy_status status);
/** Get a whole communicator; the recorded failure where nobody gives one. */
GY_MUST_CHECK gy_status gy_replay_recover(gy_recoverable *replay);
/** What all need is lost: `status`, which the launcher is told to end the run by. */
gy_status gy_replay_lost(const gy_recoverable *replay, gy_status status);
/** Until all stand at one call, or this one is served. */
GY_MUST_CHECK gy_status gy_replay_meet(gy_recoverable *replay, gy_replay_call *own);

/* states.c */
/** A copy. */
GY_MUST_CHECK gy_status gy_state_set(gy_state *state, const void *data, size_t size_bytes);
void gy_states_drop(const gy_recoverable *replay, gy_state *states);
/** Give states[0] to the followers, get states[j] from those before. */
GY_MUST_CHECK gy_status gy_states_spread(gy_recoverable *replay, gy_state *states);
/** Those that load get their state of `version` from their followers; then all have replicas.
 */
GY_MUST_CHECK gy_status gy_states_serve(gy_recoverable *replay, const gy_standing *standings,
                                        int64_t version, gy_replay_call *own);

#endif
