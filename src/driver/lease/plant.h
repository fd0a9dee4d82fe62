/**
 * Bugs to plant, which tests must find. They are compiled in only with GYRE_PLANTED;
 * tests/sim/whole_test.c plants one after the other.
 */
#ifndef GY_DRIVER_LEASE_PLANT_H
#define GY_DRIVER_LEASE_PLANT_H

/** Bugs of the lease client. */
#define GY_LEASE_CLIENT_PLANT_LIST(X)                                                          \
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
    X(OLD_ALLOCATIONS)                                                                         \
    X(AS_TOLD)                                                                                 \
    X(GIVEN_ONCE)                                                                              \
    X(REQUESTED_ONCE)                                                                          \
    X(GANG_UNNUMBERED)                                                                         \
    X(NEVER_WATCHED)

typedef enum gy_lease_client_plant {
#define GY_X(name) GY_LEASE_CLIENT_PLANT_##name,
    GY_LEASE_CLIENT_PLANT_LIST(GY_X)
#undef GY_X
        GY_LEASE_CLIENT_PLANTS
} gy_lease_client_plant;

#ifdef GYRE_PLANTED
extern gy_lease_client_plant gy_lease_client_planted;
#define GY_LEASE_CLIENT_PLANTED(bug) (gy_lease_client_planted == GY_LEASE_CLIENT_PLANT_##bug)
#else
#define GY_LEASE_CLIENT_PLANTED(bug) false
#endif

#endif
