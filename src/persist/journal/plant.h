/**
 * Bugs to plant, which tests must find. They are compiled in only with GYRE_PLANTED;
 * tests/sim/journal_test.c plants one after the other.
 */
#ifndef GY_PERSIST_JOURNAL_PLANT_H
#define GY_PERSIST_JOURNAL_PLANT_H

#define GY_JOURNAL_PLANT_LIST(X)                                                               \
    X(NONE)                                                                                    \
    X(CLAIMED_LATE)                                                                            \
    X(LOOKED_ONCE)                                                                             \
    X(CHECKED_FIRST)                                                                           \
    X(NEVER_CHECKED)                                                                           \
    X(OWN_SEAL_KEPT)                                                                           \
    X(TORN_SEALED)                                                                             \
    X(READ_BEYOND)                                                                             \
    X(SEALED_UNSYNCED)                                                                         \
    X(EPOCH_AGAIN)                                                                             \
    X(ORDER_AS_LISTED)                                                                         \
    X(FULL_AS_DONE)                                                                            \
    X(SEALS_GONE)                                                                              \
    X(NEVER_CLOSED)                                                                            \
    X(GAP_IGNORED)                                                                             \
    X(SENT_LATE)

typedef enum gy_journal_plant {
#define GY_X(name) GY_JOURNAL_PLANT_##name,
    GY_JOURNAL_PLANT_LIST(GY_X)
#undef GY_X
        GY_JOURNAL_PLANTS
} gy_journal_plant;

#ifdef GYRE_PLANTED
extern gy_journal_plant gy_journal_planted;
#define GY_PLANTED_HERE(bug) (gy_journal_planted == GY_JOURNAL_PLANT_##bug)
#else
#define GY_PLANTED_HERE(bug) false
#endif

#endif
