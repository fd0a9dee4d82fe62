/** Bugs that tests must find. Only GYRE_PLANTED compiles them in. */
#ifndef GY_RPC_SESSION_PLANT_PRIV_H
#define GY_RPC_SESSION_PLANT_PRIV_H

/** tests/sim/rpc_test.c plants each of them. */
#define GY_RPC_PLANT_LIST(X)                                                                   \
    X(NONE)                                                                                    \
    X(TOKEN_FORGOTTEN)                                                                         \
    X(DEADLINE_UNARMED)                                                                        \
    X(REPLAY_ACCEPTED)                                                                         \
    X(OLD_LIFE_ANSWERED)                                                                       \
    X(ANEW_IGNORED)                                                                            \
    X(SESSION_IGNORED)                                                                         \
    X(SILENCE_IGNORED)                                                                         \
    X(BEAT_FORGOTTEN)                                                                          \
    X(STALE_ATTACHED)                                                                          \
    X(NEVER_ACKED)                                                                             \
    X(ACKED_EARLY)                                                                             \
    X(NOT_RESENT)                                                                              \
    X(REDIAL_FORGOTTEN)                                                                        \
    X(CANCEL_UNTOLD)                                                                           \
    X(OPEN_IGNORED)                                                                            \
    X(HASTY_RETRIED)                                                                           \
    X(DRAIN_UNTOLD)                                                                            \
    X(ROLE_UNCHECKED)                                                                          \
    X(SUBJECT_UNCHECKED)                                                                       \
    X(DROP_FORGETS_CALLS)                                                                      \
    X(CUT_UNTOLD)                                                                              \
    X(ENDED_FILLED)                                                                            \
    X(READ_FORGOTTEN)                                                                          \
    X(PART_SERVED)

typedef enum gy_rpc_plant {
#define GY_X(name) GY_RPC_PLANT_##name,
    GY_RPC_PLANT_LIST(GY_X)
#undef GY_X
        GY_RPC_PLANTS
} gy_rpc_plant;

#ifdef GYRE_PLANTED
extern gy_rpc_plant gy_rpc_planted;
#define GY_PLANTED(bug) (gy_rpc_planted == GY_RPC_PLANT_##bug)
#else
#define GY_PLANTED(bug) false
#endif

#endif
