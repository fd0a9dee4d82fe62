/**
 * Inside the simulator: what it knows of each rank.
 */
#ifndef GY_PLAN_SIMULATE_PRIV_H
#define GY_PLAN_SIMULATE_PRIV_H

#include "plan/agenda_priv.h"
#include "plan/plan_priv.h"

enum { GY_SIM_WINDOW = 32 }; /* steps of a rank in memory */

/** A step as the simulator needs it, half the size of a gy_step. */
typedef struct gy_sim_step {
    uint8_t kind;
    uint16_t chunk;
    int32_t peer;
    int32_t first, run; /* blocks; of POST and WAIT `first` is the mark */
    uint32_t after[2];
    double amount; /* SEND, RECV: bytes; what a rank does alone: seconds */
} gy_sim_step;

typedef enum gy_sim_state { GY_SIM_RUNS, GY_SIM_ENDED, GY_SIM_DEAD } gy_sim_state;

typedef struct gy_sim_rank {
    double now, out_free, in_free;
    double fails_at;
    uint32_t first;     /* index of the first step in memory */
    uint16_t at, count; /* the next one, and how many there are */
    bool has_end, is_lost;
    uint8_t state;
    int32_t awaits;      /* a message of that rank, or its mark; -1: nothing */
    int32_t next_waiter; /* for a mark of the same rank; -1: none */
    int32_t waiters;     /* first of those that wait for its marks */
    uint32_t sends;
    gy_open_sends open;
    gy_posts posts;
} gy_sim_rank;

/** A message that came before its receive; those of a bucket in a circle, oldest after the
 * last. */
typedef struct gy_sim_early {
    gy_event event;
    uint32_t next;
} gy_sim_early;

/** Messages that wait for their receives, found by sender and receiver. */
typedef struct gy_sim_early_table {
    gy_sim_early *items;
    size_t count, capacity; /* used so far, free ones included */
    uint32_t *lasts;        /* (size) 1 + index of a bucket's last; 0: empty */
    size_t size, filled;
    uint32_t free; /* 1 + index of a free item */
} gy_sim_early_table;

/* agenda.c */
void gy_sim_early_fini(gy_sim_early_table *table);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_sim_early_add(gy_sim_early_table *table, const gy_event *event);
/** The oldest message from one rank to another; false: there is none. */
bool gy_sim_early_take(gy_sim_early_table *table, int from, int to, gy_event *event);

#endif
