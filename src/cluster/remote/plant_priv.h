/**
 * Bugs for the tests that must find them. They are compiled in with GYRE_PLANTED alone;
 * tests/sim/whole_test.c plants one after the other.
 */
#ifndef GY_CLUSTER_REMOTE_PLANT_PRIV_H
#define GY_CLUSTER_REMOTE_PLANT_PRIV_H

/** Of what a manager rents. */
#define GY_TENANT_PLANT_LIST(X)                                                                \
    X(NONE)                                                                                    \
    X(FOLDER_IGNORED)                                                                          \
    X(NUMBER_REUSED)                                                                           \
    X(EXPECTED_DROPPED)                                                                        \
    X(GAP_ENDS)                                                                                \
    X(LOST_UNTOLD)                                                                             \
    X(ANEW_KEPT)                                                                               \
    X(OPENED_EARLY)                                                                            \
    X(CLOSED_UNTOLD)                                                                           \
    X(PROCESS_KEPT)                                                                            \
    X(GONE_KEPT)                                                                               \
    X(OLD_GRANTS)                                                                              \
    X(AS_TOLD)                                                                                 \
    X(GIVEN_ONCE)                                                                              \
    X(WISHED_ONCE)                                                                             \
    X(GANG_UNNUMBERED)                                                                         \
    X(NEVER_WATCHED)

typedef enum gy_tenant_plant {
#define GY_X(name) GY_TENANT_PLANT_##name,
    GY_TENANT_PLANT_LIST(GY_X)
#undef GY_X
        GY_TENANT_PLANTS
} gy_tenant_plant;

#ifdef GYRE_PLANTED
extern gy_tenant_plant gy_tenant_planted;
#define GY_TENANT_PLANTED(bug) (gy_tenant_planted == GY_TENANT_PLANT_##bug)
#else
#define GY_TENANT_PLANTED(bug) false
#endif

#endif
