/**
 * The job manager as a machine: an event in, effects out. Pure: no clock, no file, no socket,
 * no thread. The driver turns effects into work; the simulator drives the same machine through
 * faults.
 *
 * Commit is compare-and-set on (task, epoch, attempt): whatever comes late is dropped and its
 * files discarded.
 */
#ifndef GY_CLUSTER_MANAGER_H
#define GY_CLUSTER_MANAGER_H

#include "cluster/job.h"

typedef struct gy_manager gy_manager;

typedef struct gy_manager_options {
    const gy_stage *stages; /* copied */
    uint32_t stage_count;   /* stages of later growths included */
    uint32_t process_max;   /* process slots, 1 .. 4096 */
    uint32_t threads;       /* tasks a process runs at once; 0: 1 */
    uint32_t
        depth_max;    /* tasks in flight a thread at most (small ones are sent ahead); 0: 64 */
    int failures_max; /* of its own, a task; 0: 6 */
    int64_t copy_floor_ns; /* no copy before an attempt is this old; 0: 1 s; <0: never a copy */
    int64_t silence_ns;    /* a process that says nothing for so long is lost; 0: 10 s */
    uint32_t generation; /* of the manager, high bits of attempts; 0: 1 for a new job, one more
                            than its journal's for a resumed one */
} gy_manager_options;

typedef enum gy_event_kind {
    GY_EVENT_BEGIN,        /* once, after replay: start or go on */
    GY_EVENT_PROCESS_UP,   /* process, generation (of the process): ready to serve */
    GY_EVENT_PROCESS_DOWN, /* process, generation, cause, reason: gone (a later UP: another
                            * generation). cause NONE or OWN: it counts against the tasks that
                            * ran there; another cause (the driver's own doing): it does not */
    GY_EVENT_HEARD,        /* process, generation: it lives (the driver tells at most 10 times a
                              second) */
    GY_EVENT_DONE, /* id, member, process, generation, run_ns, content, report: one member ended
                      well */
    GY_EVENT_FAILED, /* id, member, process, generation, cause, input (with LOST_INPUT), reason
                      */
    GY_EVENT_LOST,   /* id.task, id.epoch: its committed output is found gone or wrong by the
                      * driver; ignored while nobody needs   it (all readers committed, not final:
                      * a   reader that runs again finds it itself) */
    GY_EVENT_GROWN,  /* stage, growth (NULL: nothing is added): answer to GROW; cause != 0: the
                        rewrite failed, reason says why */
    GY_EVENT_TIMER,  /* the time asked for has come */
    GY_EVENT_SYNCED, /* position: the journal is safe up to it */
    GY_EVENT_JOURNAL_FAILED, /* append or sync failed: the job ends here, nothing more may be
                                trusted */
    GY_EVENT_OUTPUT_SAFE,    /* answer to SAVE: final data are synced under their final names;
                              * cause LOST_INPUT: the output of id.task,    id.epoch is gone or
                              * wrong    (it runs again, then SAVE again); another cause != 0:
                              * failed,    reason */
    GY_EVENT_PUBLISHED, /* answer to PUBLISH: the manifest stands; cause != 0: it failed, reason
                           says why */
    GY_EVENT_KILL,      /* the user ends the job */
} gy_event_kind;

typedef enum gy_cause {
    GY_CAUSE_NONE,
    GY_CAUSE_OWN, /* the vertex returned a failure, or its process died under it: counts */
    GY_CAUSE_LOST_INPUT,     /* input `input` cannot be read or its checksum is wrong: does not
                                count */
    GY_CAUSE_NEW_BAD_RECORD, /* a record was named bad: does not count */
    GY_CAUSE_PEER,           /* a pipe or FIFO broke as another member went: does not count */
    GY_CAUSE_CANCELLED,      /* as asked */
    GY_CAUSE_FATAL, /* wrong for good (bad input data, disk full): ends the job at once */
} gy_cause;

typedef struct gy_event {
    gy_event_kind kind;
    gy_cause cause;
    int64_t now_ns;
    uint32_t process, generation;
    gy_attempt id;
    uint32_t member, input, stage;
    int64_t run_ns; /* DONE: time the work took, without waiting in the process */
    gy_key content; /* DONE: hash of all outputs' hashes and sizes of this member (member 0..w-1
                       are combined by the manager) */
    const void *report; /* DONE: bytes that room flow reads: sizes, small outputs, counters;
                         * kept once committed. Of a cohort all members' are kept one after the
                         * other: uint32_t size, bytes */
    size_t report_bytes;
    const gy_growth *growth;
    uint64_t position;
    const char *reason; /* borrowed */
} gy_event;

typedef enum gy_effect_kind {
    GY_EFFECT_SPAWN,   /* process, generation: start a process in this slot */
    GY_EFFECT_KILL,    /* process, generation: kill it; PROCESS_DOWN shall follow */
    GY_EFFECT_START,   /* process, generation, id, member, key: run it there */
    GY_EFFECT_CANCEL,  /* process, generation, id, member: a lost race, or its input is gone */
    GY_EFFECT_APPEND,  /* data, size: to the journal; position is what it reaches then */
    GY_EFFECT_SYNC,    /* position: make the journal safe up to it, then SYNCED */
    GY_EFFECT_DISCARD, /* id, key: files key.epoch.attempt (of all members) may go: nobody
                        * writes them any more. key: as in START if the attempt is still known,
                        * else of the task's last commit: rely on task.epoch.attempt where you
                        * can */
    GY_EFFECT_COMMITTED, /* id, key, report: for counters and progress; once a (task, epoch) */
    GY_EFFECT_GROW,      /* stage: all its tasks are committed, rewrite (then GROWN) */
    GY_EFFECT_TIMER,     /* at_ns: wake me; the earliest counts, an earlier one stays */
    GY_EFFECT_SAVE,      /* sync final data, give them their names (then OUTPUT_SAFE) */
    GY_EFFECT_PUBLISH,   /* create the manifest, exclusively (then PUBLISHED); a resumed manager
                            may ask again: this job's own manifest is success */
    GY_EFFECT_NOTE, /* id or process, reason: for `gyre job show`: why a wait, failure, death,
                       copy, rerun */
    GY_EFFECT_END,  /* status, reason: nothing follows */
} gy_effect_kind;

typedef struct gy_effect {
    gy_effect_kind kind;
    uint32_t process, generation;
    gy_attempt id;
    uint32_t member, stage;
    gy_key key;
    const void *data; /* APPEND, COMMITTED: valid until the next step */
    size_t size_bytes;
    uint64_t position;
    int64_t at_ns;
    gy_status status;
    const char *reason; /* valid until the next step */
} gy_effect;

/** Effects of one step, in order; owned by the caller, kept over steps to save allocations. */
typedef struct gy_effects {
    gy_effect *items;
    size_t count, capacity;
} gy_effects;

GY_MUST_CHECK gy_status gy_manager_new(const gy_manager_options *options, const gy_growth *job,
                                       gy_manager **manager);
void gy_manager_free(gy_manager *manager);

/** Before BEGIN: take the records of an older manager's journal, from the first on. Stops at
 * the first torn one: *used tells how far (the driver cuts the file there). GY_FORMAT a record
 * that is whole but does not fit this job; GY_NOMEM */
GY_MUST_CHECK gy_status gy_manager_replay(gy_manager *manager, const void *journal,
                                          size_t size_bytes, size_t *used);

/** Before BEGIN: what an earlier job left in the store: outputs by key. A ready task whose key
 * is there is committed without running. */
typedef struct gy_memo {
    gy_key key, content;
    uint32_t epoch, attempt;
    const void *report;
    size_t report_bytes; /* copied */
} gy_memo;
GY_MUST_CHECK gy_status gy_manager_remember(gy_manager *manager, const gy_memo *memos,
                                            size_t count);

/** The machine. Effects are cleared first. GY_NOMEM: effects are empty and the manager is only
 * good for gy_manager_free: give up. */
GY_MUST_CHECK gy_status gy_manager_step(gy_manager *manager, const gy_event *event,
                                        gy_effects *effects);

/* What room flow reads to write a START message. */
typedef struct gy_task_state {
    gy_attempt committed; /* attempt 0: none stands */
    gy_key key, content;  /* of the last commit. key: with the inputs' content in it; names the
                             files (a running attempt's: see START) */
    const void *report;
    size_t report_bytes;
    uint32_t stage;
} gy_task_state;
void gy_manager_task(const gy_manager *manager, uint32_t task, gy_task_state *state);
void gy_manager_inputs(const gy_manager *manager, uint32_t task, const gy_edge **edges,
                       uint32_t *count);

/** What an earlier growth was, in order of growth, also those found by replay: how room flow
 * makes its side of a resumed job anew. false: no such. */
typedef struct gy_grown {
    uint32_t stage, first_task, task_count;
    const void *detail;
    size_t detail_bytes;
} gy_grown;
bool gy_manager_grown(const gy_manager *manager, uint32_t index, gy_grown *grown);

typedef struct gy_stage_state {
    uint32_t tasks, committed, running, failed, copies, copies_won, memoised;
    int64_t run_ns;
} gy_stage_state;
void gy_manager_stage(const gy_manager *manager, uint32_t stage, gy_stage_state *state);
size_t gy_manager_bytes(const gy_manager *manager);

#endif
