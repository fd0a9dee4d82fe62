/**
 * What a job is made of, for the manager, the processes and room flow: tasks, edges, attempts,
 * keys.
 *
 * A *task* is what is placed, fails, is copied and commits as one: one vertex, or a cohort of
 * vertices joined by pipes and FIFOs (its *members*, each in a process of its own). Tasks are
 * joined by *edges* only through files or small outputs carried in messages.
 */
#ifndef GY_SCHED_JOB_H
#define GY_SCHED_JOB_H

#include "base/key.h"

#include <gyre/flow.h> /* gy_determinism */

#define GY_TASK_NONE GY_NONE
enum { GY_TASKS_MAX = 1 << 28 };

/** A task as room flow hands it to the manager. */
typedef struct gy_sched_task {
    gy_key key;     /* its fixed part: build, functions, parameters, rewrites, external inputs'
                       content */
    uint32_t stage; /* index into the job's stages */
    uint16_t width; /* members, 1 for a vertex alone */
    uint8_t determinism;  /* gy_determinism */
    uint8_t flags;        /* GY_TASK_* */
    uint32_t input_count; /* its edges, which follow in the edges' array */
    uint32_t output_count;
    uint32_t hosts; /* above 1, of a job over hosts: the members are spread over so many, first
                       width / hosts of them on one, then as many on the next; else on one */
    uint32_t zero;
    int64_t input_bytes; /* external bytes it reads, for the straggler rule; 0: unknown */
} gy_sched_task;

enum {
    GY_TASK_FINAL = 1,   /* has an output of the job: kept, synced, published */
    GY_TASK_NO_MEMO = 2, /* external command without declared files, etc. */
    GY_TASK_EXACT = 4,   /* effects outside: never two runs of it at once, no copy */
    GY_TASK_PINNED = 8,  /* of a job over hosts, width 1: runs on its places alone */
};

/** An input of a task: output `output` of task `from`. */
typedef struct gy_edge {
    uint32_t from, output;
} gy_edge;

/** Which run of a task: epoch rises when a committed output is lost, attempt with every start.
 */
typedef struct gy_attempt {
    uint32_t task, epoch, attempt; /* attempt: unique for the task over epochs and managers */
} gy_attempt;

/** Why a run ended without a commit. OWN alone counts against the task. */
typedef enum gy_cause {
    GY_CAUSE_NONE,
    GY_CAUSE_OWN,            /* the vertex failed, or its process died under it */
    GY_CAUSE_LOST_INPUT,     /* input `input` cannot be read, or its checksum is wrong */
    GY_CAUSE_NEW_BAD_RECORD, /* a record was named bad */
    GY_CAUSE_PEER,           /* a pipe or FIFO broke as another member went */
    GY_CAUSE_CANCELLED,      /* as asked */
    GY_CAUSE_FATAL,          /* wrong for good (bad input, disk full): ends the job at once */
} gy_cause;

/** Tasks added at once: the whole job at its beginning, or what a rewrite made. */
typedef struct gy_growth {
    const gy_sched_task *tasks;
    uint32_t task_count;
    const gy_edge *edges; /* task by task, in order of inputs; `from` may be any earlier or
                             same-growth task, no cycles */
    size_t edge_count;
    const void *detail; /* bytes of room flow, kept in the journal, released by
                           gy_manager_grown; NULL: none */
    size_t detail_bytes;
    /* NULL, or a text a task: names of hosts that hold what it reads from outside, separated by
     * blanks (a `file:` of several hosts, block locations of HDFS); NULL: no place is better.
     * Copied; not kept in the journal, since it changes nothing but the time that a job takes.
     * So pinned tasks, which have at least one, are of the job's beginning and of no growth. */
    const char *const *places;
} gy_growth;

/** A stage: what the straggler rule and the progress bar look at. */
typedef struct gy_stage {
    const char *name; /* copied */
    bool is_gate; /* when all its tasks are committed, GY_EFFECT_GROW asks for a rewrite; again
                     when it has more and all are committed; never without tasks */
} gy_stage;

#endif
