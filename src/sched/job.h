/**
 * What a job consists of, for the manager, the processes and room flow: tasks, edges, attempts,
 * keys.
 *
 * A *task* is the unit that is placed, fails, has backup tasks and commits: one vertex, or a
 * cohort of vertices joined by pipes and FIFOs (its *members*, each in a process of its own).
 * *Edges* join tasks only through files, or through small outputs that messages carry.
 */
#ifndef GY_SCHED_JOB_H
#define GY_SCHED_JOB_H

#include "base/key.h"

#include <gyre/flow.h> /* gy_determinism */

#define GY_TASK_NONE GY_NONE
enum { GY_TASKS_MAX = 1 << 28 };

/** A task as room flow hands it to the manager. */
typedef struct gy_sched_task {
    gy_key key;     /* hash of its fixed part: build, functions, parameters, rewrites, external
                       inputs' content */
    uint32_t stage; /* index into the job's stages */
    uint16_t width; /* members, 1 for a vertex alone */
    uint8_t determinism;  /* gy_determinism */
    uint8_t flags;        /* GY_TASK_* */
    uint32_t input_count; /* number of its edges, in sequence in the array of edges */
    uint32_t output_count;
    uint32_t hosts; /* > 1 in a job over hosts: number of hosts for the members, width / hosts
                       on each, in order; else all members run on one host */
    uint32_t zero;
    int64_t input_bytes; /* external bytes it reads, for the straggler rule; 0: unknown */
} gy_sched_task;

enum {
    GY_TASK_FINAL = 1,   /* has an output of the job, which is synced and published */
    GY_TASK_NO_MEMO = 2, /* external command without declared files, etc. */
    GY_TASK_EXACT = 4,   /* has external effects: never two runs at once, no backup task */
    GY_TASK_PINNED = 8,  /* in a job over hosts, with width 1: runs only on its places */
};

/** An input of a task: output `output` of task `from`. */
typedef struct gy_edge {
    uint32_t from, output;
} gy_edge;

/**
 * Identifies a run of a task: the epoch rises when a committed output is lost, the attempt with
 * every start.
 */
typedef struct gy_attempt {
    uint32_t task, epoch, attempt; /* attempt: unique over all epochs and managers */
} gy_attempt;

/** Why a run ended without a commit. Only OWN counts against the task. */
typedef enum gy_cause {
    GY_CAUSE_NONE,
    GY_CAUSE_OWN,            /* the vertex failed, or its process died while it ran */
    GY_CAUSE_LOST_INPUT,     /* input `input` cannot be read, or its checksum is wrong */
    GY_CAUSE_NEW_BAD_RECORD, /* the vertex reported a bad record */
    GY_CAUSE_PEER,           /* a pipe or FIFO broke because another member ended */
    GY_CAUSE_CANCELLED,      /* the manager cancelled it */
    GY_CAUSE_FATAL, /* a permanent error (bad input, disk full): ends the job at once */
} gy_cause;

/**
 * Tasks that are added at once: the whole job at its beginning, or the result of a graph
 * rewrite.
 */
typedef struct gy_growth {
    const gy_sched_task *tasks;
    uint32_t task_count;
    const gy_edge *edges; /* of each task in turn, in order of its inputs; `from` is an earlier
                             task or one of the same growth; no cycles */
    size_t edge_count;
    const void *detail; /* opaque bytes of room flow, written to the journal, returned by
                           gy_manager_grown; NULL: none */
    size_t detail_bytes;
    /*
     * NULL, or for each task a text: the names of hosts that hold its external inputs,
     * separated by whitespace (a `file:` of several hosts, block locations of HDFS); NULL: no
     * preference. Copied, but not written to the journal, since places change only how long a
     * job takes. Hence pinned tasks, which need at least one place, are part of the job's
     * beginning and never of a later growth.
     */
    const char *const *places;
} gy_growth;

/** A stage, for the straggler rule and the progress bar. */
typedef struct gy_stage {
    const char *name; /* copied */
    bool is_gate; /* a refinement point: when all its tasks are committed, GY_EFFECT_GROW asks
                     for a rewrite, and again after it gains tasks; never while it has none */
} gy_stage;

#endif
