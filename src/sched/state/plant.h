/** Bugs to plant, which tests must find. They are compiled in only with GYRE_PLANTED. */
#ifndef GY_SCHED_STATE_PLANT_H
#define GY_SCHED_STATE_PLANT_H

/** tests/sim/manager_test.c plants one after the other. */
#define GY_PLANT_LIST(X)                                                                       \
    X(NONE)                                                                                    \
    X(STALE_COMMITS)                                                                           \
    X(GROWN_UNSYNCED)                                                                          \
    X(EPOCH_KEPT)                                                                              \
    X(ATTEMPTS_AGAIN)                                                                          \
    X(CONSUMERS_KEPT)                                                                          \
    X(DONE_TWICE)                                                                              \
    X(ZOMBIE_HEARD)                                                                            \
    X(HALF_COHORT)                                                                             \
    X(WINNER_DISCARDED)                                                                        \
    X(TORN_TAKEN)                                                                              \
    X(LOST_COUNTED)                                                                            \
    X(PUBLISH_FIRST)                                                                           \
    X(RAISED_APART)                                                                            \
    X(RAISE_FORGOTTEN)                                                                         \
    X(BITS_IGNORED)                                                                            \
    X(COPIED_BLIND)                                                                            \
    X(COPIED_ANYWAY)                                                                           \
    X(MEMO_AGAIN)                                                                              \
    X(EXACT_TWICE)                                                                             \
    X(LEARNT_FORGOTTEN)                                                                        \
    X(GONE_KEPT)                                                                               \
    X(ALL_LOST)                                                                                \
    X(HOST_COUNTED)                                                                            \
    X(SAVED_BLIND)                                                                             \
    X(EXACT_AT_ONCE)                                                                           \
    X(EXACT_RESUMED)                                                                           \
    X(HELD_FORGOTTEN)                                                                          \
    X(READERS_EARLY)                                                                           \
    X(COHORT_SPLIT)                                                                            \
    X(COPIED_HERE)                                                                             \
    X(BLAMED_HERE)                                                                             \
    X(FAILS_HERE_AGAIN)                                                                        \
    X(PINNED_ANYWHERE)

typedef enum gy_plant {
#define GY_X(name) GY_PLANT_##name,
    GY_PLANT_LIST(GY_X)
#undef GY_X
        GY_PLANTS
} gy_plant;

#ifdef GYRE_PLANTED
extern gy_plant gy_manager_planted;
#define GY_PLANTED(bug) (gy_manager_planted == GY_PLANT_##bug)
#else
#define GY_PLANTED(bug) false
#endif

#endif
