/** Bugs that tests must find. Only GYRE_PLANTED compiles them in. */
#ifndef GY_PS_CHAIN_PLANT_H
#define GY_PS_CHAIN_PLANT_H

/** tests/sim/ps_chain_test.c plants each of them. */
#define GY_PS_CHAIN_PLANT_LIST(X)                                                              \
    X(NONE)                                                                                    \
    X(ACKED_EARLY)  /* the head answers before the others have it */                           \
    X(GAP_TAKEN)    /* a member takes an event though one before is missing */                 \
    X(EVENT_TWICE)  /* a member takes an event again */                                        \
    X(LOG_CUT)      /* events are forgotten before the next member has them */                 \
    X(COPY_LATE)    /* the copy has other events than it says */                               \
    X(CAUGHT_EARLY) /* who joins is told of before it has everything */

typedef enum gy_ps_chain_plant {
#define GY_X(name) GY_PS_CHAIN_PLANT_##name,
    GY_PS_CHAIN_PLANT_LIST(GY_X)
#undef GY_X
        GY_PS_CHAIN_PLANTS
} gy_ps_chain_plant;

#ifdef GYRE_PLANTED
extern gy_ps_chain_plant gy_ps_chain_planted;
#define GY_PS_CHAIN_PLANTED(bug) (gy_ps_chain_planted == GY_PS_CHAIN_PLANT_##bug)
#else
#define GY_PS_CHAIN_PLANTED(bug) false
#endif

#endif
