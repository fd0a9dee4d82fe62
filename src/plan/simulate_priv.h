/** Inside the simulator: the state of each rank. */
#ifndef GY_PLAN_SIMULATE_PRIV_H
#define GY_PLAN_SIMULATE_PRIV_H

#include "plan/agenda_priv.h"
#include "plan/plan_priv.h"

enum { GY_SIM_WINDOW = 32 }; /* steps of a rank in memory */

/** A step reduced to what the simulator needs, half the size of a gy_step. */
typedef struct gy_sim_step {
    uint8_t kind;
    uint16_t chunk;
    int32_t peer;
    int32_t first, run; /* blocks; for POST and WAIT `first` is the mark */
    uint32_t after[2];
    double amount; /* SEND, RECV: bytes; local steps: seconds */
} gy_sim_step;

typedef enum gy_sim_state { GY_SIM_RUNS, GY_SIM_ENDED, GY_SIM_DEAD } gy_sim_state;

typedef struct gy_sim_rank {
    double now, out_free, in_free;
    double fails_at;
    uint32_t first;     /* index of the first step in memory */
    uint16_t at, count; /* index of the next one, and number of steps in memory */
    bool has_end, is_lost;
    uint8_t state;
    int32_t awaits;      /* waits for a message of that rank, or its mark; -1: does not wait */
    int32_t next_waiter; /* next rank that waits for a mark of the same rank; -1: none */
    int32_t waiters;     /* first of the ranks that wait for its marks */
    uint32_t sends;
    gy_open_sends open;
    gy_posts posts;
} gy_sim_rank;

#endif
