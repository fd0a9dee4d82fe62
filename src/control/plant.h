/**
 * Bugs to plant, which tests must find. They are compiled in only with GYRE_PLANTED;
 * tests/sim/cluster_test.c plants one after the other.
 */
#ifndef GY_CONTROL_PLANT_H
#define GY_CONTROL_PLANT_H

/** First those of the name server, then those of the daemon. */
#define GY_CONTROL_PLANT_LIST(X)                                                               \
    X(NONE)                                                                                    \
    X(ACCEPTED_UNSTORED)                                                                       \
    X(EPOCH_UNSTORED)                                                                          \
    X(AHEAD_REUSED)                                                                            \
    X(AHEAD_UNKNOWN)                                                                           \
    X(LOST_STORE_TRUSTED)                                                                      \
    X(TERM_KEPT)                                                                               \
    X(MANAGER_AGAIN)                                                                           \
    X(HALF_GANG)                                                                               \
    X(TWO_RESERVED)                                                                            \
    X(DEAD_KEPT)                                                                               \
    X(NEVER_ASKED)                                                                             \
    X(SHARE_IGNORED)                                                                           \
    X(ENDED_REVIVED)                                                                           \
    X(OFFER_FORGOTTEN)                                                                         \
    X(ALLOCATION_ONCE)                                                                         \
    X(EPOCH_UNSYNCED)                                                                          \
    X(OLD_OBEYED)                                                                              \
    X(OLD_KEPT)                                                                                \
    X(ATTACHED_EARLY)                                                                          \
    X(ORDER_AGAIN)                                                                             \
    X(INCARNATION_IGNORED)                                                                     \
    X(SLOT_TWICE)                                                                              \
    X(SLOT_EARLY)                                                                              \
    X(LEASE_FOREVER)                                                                           \
    X(OVER_RENEWED)                                                                            \
    X(FILES_FOREVER)                                                                           \
    X(FETCH_TWICE)                                                                             \
    X(WAITER_FORGOTTEN)                                                                        \
    X(CHECKSUM_TRUSTED)                                                                        \
    X(CREDIT_IGNORED)                                                                          \
    X(FULL_TAKEN)

typedef enum gy_control_plant {
#define GY_X(name) GY_CONTROL_PLANT_##name,
    GY_CONTROL_PLANT_LIST(GY_X)
#undef GY_X
        GY_CONTROL_PLANTS
} gy_control_plant;

#ifdef GYRE_PLANTED
extern gy_control_plant gy_control_planted;
#define GY_PLANTED_HERE(bug) (gy_control_planted == GY_CONTROL_PLANT_##bug)
#define GY_IS_PLANTED_HERE   (gy_control_planted != GY_CONTROL_PLANT_NONE)
#else
#define GY_PLANTED_HERE(bug) false
#define GY_IS_PLANTED_HERE   false
#endif

#endif
