/**
 * Inside room sim.
 */
#ifndef GY_SIM_SIM_PRIV_H
#define GY_SIM_SIM_PRIV_H

#include "base/disk.h"
#include "base/timer.h"
#include "sim/sim.h"

enum { CHANCES = GY_CHANCE_WORK + 1 };

/** What the random numbers of a concern are drawn from; each node has its own of each. */
typedef struct gy_sim_node {
    gy_env env; /* first: an env of this sim is its node */
    gy_sim *sim;
    int index;
    bool is_up;
    uint32_t incarnation; /* counts crashes: what belongs to an earlier one is void */
    uint64_t draws[CHANCES];
    int64_t wall_shift_ns;
    uint64_t fired; /* timers, for poll */
    gy_sim_receive receive;
    void *receive_arg;
    gy_sim_faults faults;
    struct sim_disk *disk; /* NULL until a file is opened */
} gy_sim_node;

struct gy_sim {
    uint64_t seed, digest;
    int64_t now_ns, wall_ns;
    int node_count;
    gy_timers events;
    gy_sim_link link; /* of pairs that were not changed */
    gy_sim_node *nodes;
    struct sim_channel **channels; /* (from, to) row-major; NULL until used */
    struct sim_channel *voids;     /* broken by crashes, kept for the events that name them */
};

gy_sim_node *gy_sim_node_of(gy_env *env);
/** Mix something that happened into the digest. */
void gy_sim_note(gy_sim *sim, const char *what, int64_t a, int64_t b);
/** The next number of a node's stream; and a biased coin. */
uint64_t gy_sim_draw(gy_sim_node *node, gy_chance concern);
bool gy_sim_happens(gy_sim_node *node, gy_chance concern, double probability);

/** net.c */
void gy_sim_channels_free(gy_sim *sim);
void gy_sim_channels_reset(gy_sim *sim, int node);

/** disk.c */
extern const gy_disk_ops gy_sim_disk_ops;
void gy_sim_disk_crash(gy_sim_node *node);
void gy_sim_disk_free(gy_sim_node *node);

#endif
