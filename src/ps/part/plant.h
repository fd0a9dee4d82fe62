/** Bugs that tests must find. Only GYRE_PLANTED compiles them in. */
#ifndef GY_PS_PART_PLANT_H
#define GY_PS_PART_PLANT_H

/** tests/sim/ps_test.c plants each of them. */
#define GY_PS_PLANT_LIST(X)                                                                    \
    X(NONE)                                                                                    \
    X(NUMBER_FORGOTTEN)                                                                        \
    X(NUMBER_FIRST)                                                                            \
    X(LATE_APPLIED)                                                                            \
    X(CLOSED_EARLY)                                                                            \
    X(STALE_READ)                                                                              \
    X(LEFT_AWAITED)                                                                            \
    X(LEFT_UNSUMMED)                                                                           \
    X(CLOCK_TWICE)                                                                             \
    X(ROWS_UNJUDGED)                                                                           \
    X(RELEASE_FORGOTTEN)                                                                       \
    X(NOT_WAITED)                                                                              \
    X(DEAD_AWAITED)

typedef enum gy_ps_plant {
#define GY_X(name) GY_PS_PLANT_##name,
    GY_PS_PLANT_LIST(GY_X)
#undef GY_X
        GY_PS_PLANTS
} gy_ps_plant;

#ifdef GYRE_PLANTED
extern gy_ps_plant gy_ps_planted;
#define GY_PS_PLANTED(bug) (gy_ps_planted == GY_PS_PLANT_##bug)
#else
#define GY_PS_PLANTED(bug) false
#endif

#endif
