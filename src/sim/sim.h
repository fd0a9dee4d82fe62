/**
 * Room sim: a cluster in one process. A virtual clock, nodes with an environment each, links
 * with latency, bandwidth and faults, disks that fail and forget; all of it a function of a
 * seed.
 *
 * One thread drives it. Nothing happens but in gy_sim_step and what calls it.
 */
#ifndef GY_SIM_SIM_H
#define GY_SIM_SIM_H

#include "base/base.h"

typedef struct gy_sim gy_sim;

enum { GY_SIM_NODES_MAX = 4096 };

/** One direction between two nodes. */
typedef struct gy_sim_link {
    int64_t latency_ns;
    int64_t jitter_ns;       /* uniform in [0, jitter_ns], added to each message */
    double bytes_per_second; /* messages queue behind each other; 0: no limit */
    double drop, duplicate;  /* probabilities, of datagrams alone */
} gy_sim_link;

typedef struct gy_sim_options {
    uint64_t seed;
    int nodes;        /* 1 .. GY_SIM_NODES_MAX */
    gy_sim_link link; /* of every pair at first */
    int64_t wall_ns;  /* the wall clock at the start */
} gy_sim_options;

/** GY_ARG; GY_NOMEM */
GY_MUST_CHECK gy_status gy_sim_new(const gy_sim_options *options, gy_sim **sim);
/** NULL is fine. */
void gy_sim_free(gy_sim *sim);

int gy_sim_nodes(const gy_sim *sim);
/** What code on `node` is given; lives as long as the sim. Its pause and poll let the sim run
 * on. */
gy_env *gy_sim_env(gy_sim *sim, int node);
int64_t gy_sim_now_ns(const gy_sim *sim);
/** A number that two runs share exactly if the same things happened at the same times. */
uint64_t gy_sim_digest(const gy_sim *sim);

/** Let the next event happen; false when there is none. */
bool gy_sim_step(gy_sim *sim);
/** All events up to at_ns; the clock then stands there. */
void gy_sim_run_until(gy_sim *sim, int64_t at_ns);
/** Call fire(arg) at at_ns, whatever node is up: for the script of a test. GY_NOMEM */
GY_MUST_CHECK gy_status gy_sim_at(gy_sim *sim, int64_t at_ns, gy_env_fire fire, void *arg);

/* ---- Nodes ---- */

/**
 * The node stops: its timers are dropped, messages to it and its messages under way are lost,
 * its files fall back to what was synced, give or take sectors and names that reached the disk
 * in time.
 */
void gy_sim_crash(gy_sim *sim, int node);
/** It starts anew, without timers and listener; its files are as the crash left them. */
void gy_sim_restart(gy_sim *sim, int node);
bool gy_sim_is_up(const gy_sim *sim, int node);
/** Its clock reads so much more from now on (and jumps): wall clock alone. */
void gy_sim_shift_wall(gy_sim *sim, int node, int64_t by_ns);

/* ---- Messages ---- */

/** `data` is borrowed for the call. */
typedef void (*gy_sim_receive)(void *arg, int from, const void *data, size_t size_bytes);

void gy_sim_listen(gy_sim *sim, int node, gy_sim_receive receive, void *arg);
bool gy_sim_is_listening(const gy_sim *sim, int node);
/**
 * As over a connection: in order, once, waiting where the link is cut; lost only with a node.
 * Copies the data. GY_PEER either node is down; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_sim_send(gy_sim *sim, int from, int to, const void *data,
                                    size_t size_bytes);
/** As a datagram: may be dropped, doubled, overtaken; lost where the link is cut. GY_NOMEM */
GY_MUST_CHECK gy_status gy_sim_cast(gy_sim *sim, int from, int to, const void *data,
                                    size_t size_bytes);
/** Change one direction of one pair. GY_NOMEM */
GY_MUST_CHECK gy_status gy_sim_set_link(gy_sim *sim, int from, int to, const gy_sim_link *link);
/** Cut one direction, or heal it. GY_NOMEM */
GY_MUST_CHECK gy_status gy_sim_cut(gy_sim *sim, int from, int to, bool is_cut);

/* ---- Disks ---- */

enum { GY_SIM_SECTOR_BYTES = 512 };

/** Zero: a disk without faults and without an end. */
typedef struct gy_sim_faults {
    double read_error, write_error, sync_error; /* probabilities of EIO, a call */
    uint64_t capacity_bytes;                    /* ENOSPC beyond; 0: no end */
} gy_sim_faults;

void gy_sim_set_faults(gy_sim *sim, int node, const gy_sim_faults *faults);

#endif
