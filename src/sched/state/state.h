/**
 * The state of a manager, and what changes a part of it alone: columns of tasks, queues, runs
 * and placements, heaps of slots, rows and names of hosts, records, effects. Nothing here
 * decides what runs where.
 *
 * A *run* is an attempt under way; a *placement* is one member of a run at a process. A run
 * that is no longer wanted is dead, but it and its placements stay until the processes have let
 * go of them, so that load is counted right and no file is discarded under a writer.
 *
 * A job locally has no host: no row, no list, no second heap.
 */
#ifndef GY_SCHED_STATE_STATE_H
#define GY_SCHED_STATE_STATE_H

#include "base/index.h"
#include "base/step.h"
#include "sched/manager.h"
#include "sched/state/plant.h"

#include <assert.h>

enum {
    GY_STALE = 1u << 30,    /* in gy_sched_edge.reader: the input was lost while it ran */
    GY_ATTEMPT_BITS = 20,   /* bits of an attempt; the manager's generation is above them */
    GY_RUNS_MAX = 10000,    /* of a task under one manager, successful or not */
    GY_LOSSES_MAX = 1000,   /* of a task's output */
    GY_MEMO_STEP_MAX = 4096 /* memoised commits in one step */
};

/* ---- Hosts ---- */

enum {
    GY_HOST_NOWHERE = UINT16_MAX,
    GY_SUSPECTS = 16, /* failed tasks remembered for each host */
    GY_BAD_TASKS = 3, /* a host with so many tasks that fail only there is avoided */
    /* Edges of a task to sample, evenly: a task with more reads from everywhere. */
    GY_LOOK_EDGES = 64
};

typedef struct gy_tasks {
    uint32_t *items;
    size_t count, capacity;
} gy_tasks;

/** Slots that are up, the least loaded first. */
typedef struct gy_sched_heap {
    uint32_t *items;
    size_t capacity;
    uint32_t count;
} gy_sched_heap;

/** A name of hosts; several hosts may share one. */
typedef struct gy_host_name {
    const char *text; /* of gy_hosts.texts */
    uint32_t first;   /* host; then host_row.name_next; GY_NONE */
    gy_tasks pinned;  /* ready tasks that may run there, oldest first, stale entries included */
    size_t pinned_head;
    uint32_t weight; /* scratch for requests */
    bool has_pinned; /* a task of the job is pinned to it */
} gy_host_name;

typedef enum host_state { HOST_UNKNOWN, HOST_EXPECTED, HOST_UP, HOST_LOST } host_state;

typedef struct suspect {
    uint32_t task;
    bool is_well;    /* committed on another host since */
    int64_t took_ns; /* run time until it failed */
} suspect;

/** A commit on a host; valid while the task is committed in this epoch. */
typedef struct gy_sched_stored {
    uint32_t task, epoch;
} gy_sched_stored;

typedef struct host_row {
    host_state state;
    bool is_avoided;
    gy_key id;
    char address[GY_HOST_TEXT], name[GY_HOST_TEXT];
    uint64_t position;  /* where its record ends */
    uint32_t open;      /* processes with an idle thread */
    uint32_t slots;     /* that are open */
    uint32_t name_next; /* another host of that name; GY_NONE */
    float near;         /* scratch: bytes of the current task's inputs on this host */
    gy_sched_heap heap;
    gy_sched_stored *held;
    size_t held_count, held_capacity;
    suspect suspects[GY_SUSPECTS];
    uint32_t suspect_count;
    uint32_t done; /* commits on this host, halved with each new suspect */
} host_row;

/** An exact task whose last run may still be alive on a host out of reach. */
typedef struct exact_wait {
    uint32_t task;
    int64_t until_ns; /* INT64_MAX: until the state of all expected hosts is known */
} exact_wait;

/** A task whose members go to several hosts. */
typedef struct gy_spread {
    uint32_t task, hosts;
} gy_spread;

/** All of a manager's hosts. */
typedef struct gy_hosts {
    host_row *rows;
    size_t count, capacity;
    uint32_t expected; /* hosts of the journal whose state is not known yet */
    uint32_t lost;     /* lost hosts */
    bool has_lost_expected;
    int64_t
        /* Until when processes of an older manager may be alive; INT64_MAX: unknown. */
        older_ns;
    exact_wait *waits;
    size_t wait_count, wait_capacity;
    gy_tasks gone;        /* committed on a lost host, and needed again */
    gy_tasks aside;       /* cohorts for which no host has enough slots */
    uint32_t aside_min;   /* width of the narrowest */
    uint32_t aside_max;   /* of the widest, */
    uint32_t aside_hosts; /* number of hosts it needs */
    gy_spread *spreads;   /* by task */
    size_t spread_count, spread_capacity;
    gy_tasks chosen; /* hosts of the spread task that starts next */
    /* places: names by hash; a task's list ends with GY_NONE */
    gy_index names;
    gy_host_name *name_rows;
    size_t name_count, name_capacity;
    gy_arena texts;
    uint32_t pinned_ready; /* tasks that are ready and may run on their places alone */
    size_t pinned_entries; /* in all lists of names */
    uint32_t near, far;    /* gy_manager_placed */
    gy_tasks place_of;     /* (task) index into place_items + 1; 0: none; may be shorter */
    gy_tasks place_items;
} gy_hosts;

/* ---- Tasks, runs, processes ---- */

typedef enum task_state { TASK_WAITING, TASK_READY, TASK_RUNNING, TASK_COMMITTED } task_state;

enum {
    MARK_QUEUED = 1,  /* has an entry in a queue, maybe a stale one */
    MARK_SUSPECT = 2, /* was in flight when a process died: nothing is queued behind its run */
    MARK_SPREAD = 8,  /* its members go to several hosts: hosts.spreads says to how many */
    MARK_CONTENT = 4, /* keys.content was committed once; a task may have read it */
};

/** What a step touches of a task. */
typedef struct task_row {
    const uint8_t *report; /* uint32_t size, bytes; NULL: none */
    uint32_t first_edge;   /* its edges end where those of the next task begin */
    uint32_t first_reader; /* edge whose `from` is this task; then links[].next */
    uint32_t missing;      /* inputs without a commit, plus growth records not yet synced */
    uint32_t epoch;
    uint32_t committed; /* attempt; 0: none */
    uint32_t attempt;   /* the last attempt number in use */
    uint32_t run;       /* first of its runs, dead ones too */
    uint32_t output_count;
    float input_bytes;
    uint16_t stage, width;
    uint16_t host; /* committed: where its outputs lie; else: where it should not run next */
    uint8_t state, flags, determinism, failures, marks;
    uint8_t held; /* committed on a host: size of the outputs, encoded */
} task_row;
static_assert(sizeof(task_row) == 56, "what a step touches of a task is 56 bytes");

/** fixed: of the growth. key, content: of the last commit. */
typedef struct task_keys {
    gy_key fixed, key, content;
} task_keys;

/** Of an edge: the task that it leads to, and the next edge from the same task. */
typedef struct gy_sched_edge {
    uint32_t reader, next;
} gy_sched_edge;

typedef struct run_member {
    uint32_t placement; /* GY_NONE: it has ended */
    bool is_done;
    gy_key content;
    void *report;
    size_t report_bytes;
} run_member;

typedef struct run {
    gy_key key;
    uint32_t task, epoch, attempt;
    uint32_t next;       /* of the same task; among free ones the next free */
    uint32_t placement;  /* of width 1 */
    uint32_t left, done; /* placements not ended; members done */
    uint16_t width;
    bool is_live, is_backup, is_committed;
    int64_t run_ns;      /* the largest of all DONE */
    run_member *members; /* width > 1 */
} run;

/** Of a run in a job over hosts. */
typedef struct run_place {
    int64_t placed_ns;
    uint64_t held_bytes; /* DONE's, of all members */
    uint16_t host;       /* all its members are there */
    bool is_held;
} run_place;

typedef struct placement {
    uint32_t run, process, member;
    uint32_t previous, next; /* at the process, oldest first; `next` among free ones too */
    bool is_slow;            /* nothing may wait behind it */
    int64_t began_ns;        /* when it became one of the oldest `threads`; 0: it waits */
    int64_t cancelled_ns;    /* 0: not cancelled */
} placement;

typedef enum slot_state {
    SLOT_EMPTY,
    SLOT_STARTING,
    SLOT_UP,
    SLOT_KILLING,
    SLOT_CLOSED /* on no host, or on an avoided one */
} slot_state;

/** A slot for a process. */
typedef struct slot {
    slot_state state;
    uint32_t generation;
    uint32_t load, slow;  /* placements; placements behind which nothing may wait */
    uint32_t first, last; /* placements */
    uint32_t heap[2];     /* position in the common heap and the host's; GY_NONE: not in it */
    uint32_t host;        /* 0 locally; GY_NONE: none */
    uint32_t deaths;      /* deaths in a row without a result */
    bool has_answered, is_counted;
    int64_t heard_ns, retry_ns;
} slot;

typedef struct sample {
    float bytes, run_ns;
} sample;

enum { SAMPLES = 64 };

typedef struct stage_row {
    char *name;
    bool is_gate, is_asking; /* GROW without its GROWN */
    uint32_t asked_tasks;    /* number of tasks at the last GROW; more tasks cause another */
    gy_stage_state state;
    int64_t mean_ns; /* of late runs */
    sample *samples; /* SAMPLES of them, drawn from all runs; NULL before the first */
    uint32_t sampled;
    double base_ns, slope, sigma_ns; /* the fit, and the number of runs it is based on */
    uint32_t fitted;
} stage_row;

/** A ring of tasks. */
typedef struct queue {
    uint32_t *items;
    size_t capacity, head, count;
} queue;

typedef struct chunk {
    struct chunk *next;
    size_t used, capacity;
    uint8_t bytes[];
} chunk;

/** A growth whose record is not synced yet: its tasks wait. */
typedef struct hold {
    uint32_t first, count;
    uint64_t position;
} hold;

typedef enum phase {
    PHASE_NEW,
    PHASE_STARTING, /* the beginning is being synced */
    PHASE_RUNNING,
    PHASE_SAVING,
    PHASE_SAVED,      /* the record of saved data is being synced */
    PHASE_PUBLISHING, /* */
    PHASE_ENDING,     /* the end is being synced */
    PHASE_ENDED
} phase;

struct gy_manager {
    gy_manager_options options;
    stage_row *stages;
    gy_status status; /* of this step: GY_NOMEM once an allocation failed */
    phase phase;
    int64_t now_ns;

    /* columns of the graph */
    task_row *rows; /* one more than tasks: where the edges end */
    task_keys *keys;
    gy_edge *edges;
    gy_sched_edge *links;
    size_t row_capacity, key_capacity, edge_capacity, link_capacity;
    uint32_t task_count, edge_count;
    uint32_t committed_count, final_count;
    chunk *chunks;
    size_t chunk_bytes;
    uint8_t *scratch; /* buffer for the bytes that a key hashes */
    size_t scratch_capacity;

    /* placing */
    queue urgent, ready;
    uint32_t ready_width; /* members of all ready tasks */
    uint32_t in_flight;   /* placements */
    uint32_t behind;      /* of these, queued behind a long one while no process is free */
    run *runs;
    placement *placements;
    run_place *places; /* (run); NULL locally */
    size_t run_capacity, run_count, placement_capacity, placement_count, place_capacity;
    uint32_t free_run, free_placement;
    slot *slots;
    gy_sched_heap heap; /* slots that are up */
    uint32_t open_count, starting_count, empty_count, closed_count;
    gy_hosts hosts;
    int64_t spawn_ns; /* no empty slot may start a process before */
    uint32_t failed_starts;
    uint32_t noted_wait; /* the last cohort whose wait was noted */
    bool is_half_done;   /* a stage, in this step */
    /* A run that needs a backup task before ready tasks start; GY_NONE. */
    uint32_t backup_wanted;
    uint32_t backups_due;  /* stragglers of one member whose backup tasks find no process, */
    uint32_t backups_host; /* all on this host; GY_NONE: on several, or locally */
    uint32_t cohort_due;  /* members of a straggling cohort whose backup task finds no place; 0:
                             none */
    uint32_t cohort_host; /* the cohort's host */
    int64_t copy_ns;      /* when the next run becomes a straggler; INT64_MAX: none is known */

    /* growth */
    gy_grown *grown;
    size_t grown_count, grown_capacity;
    hold *holds;
    size_t hold_count, hold_capacity;
    uint32_t asked_count; /* number of GROW without GROWN */

    gy_tasks raised; /* tasks whose epochs rose, written as one record */

    const uint8_t **learnt; /* found by replay: uint32_t size, bytes each */
    size_t learnt_count, learnt_capacity;

    /* journal */
    gy_key job;
    uint32_t generation;
    uint32_t spawned; /* processes started under this generation */
    uint8_t *journal; /* of this step */
    size_t journal_bytes, journal_capacity;
    uint64_t position, awaited, synced; /* appended; SYNCED that the phase waits for; synced */
    bool has_begun, is_saved, is_ended; /* found by replay */
    bool has_exact;                     /* the job has an exact task */
    bool is_blind;                      /* earlier managers left no journal to read */
    int64_t lease_ns;                   /* the longest lease of a slot; 0: none given */

    /* memo */
    gy_sched_memo *memos;
    gy_index memo_index; /* by their keys */
    size_t memo_count, memo_capacity;
    uint32_t memo_missed; /* the task at the head whose key was looked up in vain */

    /* effects */
    gy_effects *effects;
    gy_arena texts; /* of this step */
    int64_t timer_ns;
};

/* ---- columns.c ---- */
/** Check and add a growth; missing inputs of its tasks are counted. */
gy_status gy_manager_add(gy_manager *manager, const gy_growth *growth);
gy_key gy_manager_key(const gy_manager *manager, uint32_t task);
/** Copy a report; NULL: none, or no memory (manager->status). */
const uint8_t *gy_manager_copy_report(gy_manager *manager, const void *data, size_t size_bytes);
static inline uint32_t gy_manager_edges_end(const gy_manager *manager, uint32_t task)
{
    return manager->rows[task + 1].first_edge;
}
gy_key gy_manager_job_key(const gy_growth *growth);

/* ---- effects.c ---- */
/** A new effect to fill in; valid until the next one. Never NULL. */
gy_effect *gy_manager_emit(gy_manager *manager, gy_effect_kind kind);
/** Format a text that lives until the next step. */
const char *gy_manager_text(gy_manager *manager, const char *format, ...) GY_PRINTF(2, 3);
void gy_manager_note_task(gy_manager *manager, uint32_t task, const char *reason);
void gy_manager_note_host(gy_manager *manager, uint32_t host, const char *reason);
void gy_manager_note_process(gy_manager *manager, uint32_t process, const char *reason);
void gy_manager_wake(gy_manager *manager, int64_t at_ns);
/** End the job now. */
void gy_manager_end(gy_manager *manager, gy_status status, const char *reason);
/** Note once why nothing starts. */
void gy_manager_note_wait(gy_manager *manager, uint32_t task, const char *reason);

/* ---- queue.c ---- */
/** Queue a task that is neither running nor committed any more, as ready or waiting. */
void gy_manager_requeue(gy_manager *manager, uint32_t task, bool is_urgent);
void gy_manager_set_state(gy_manager *manager, uint32_t task, task_state state);
/** The next ready task, which stays in the queue; GY_NONE: none. */
uint32_t gy_manager_peek(gy_manager *manager);
void gy_manager_pop(gy_manager *manager);
/** The i-th entry of the queue, maybe a stale one; GY_NONE: there are no more. */
uint32_t gy_manager_queue_at(const gy_manager *manager, size_t i);
/** Return the task to the head of the queue. */
void gy_manager_push_again(gy_manager *manager, uint32_t task);

/* ---- runs.c ---- */
/** Reserve room for one more run of `width` members. */
bool gy_manager_has_room(gy_manager *manager, uint32_t width);
uint32_t gy_manager_run_new(gy_manager *manager, uint32_t task);
uint32_t gy_manager_placement_new(gy_manager *manager, uint32_t run_index, uint32_t member,
                                  uint32_t process);
/** GY_NONE: not known (any more). */
uint32_t gy_manager_run_find(const gy_manager *manager, const gy_attempt *id);
uint32_t gy_manager_run_placement(const gy_manager *manager, uint32_t run_index,
                                  uint32_t member);
bool gy_manager_has_live_run(const gy_manager *manager, uint32_t task);
/** The process has stopped the placement; the run is freed with its last one. */
void gy_manager_placement_end(gy_manager *manager, uint32_t index);
/** Mark the run dead and cancel its members. */
void gy_manager_run_cancel(gy_manager *manager, uint32_t index);
void gy_manager_runs_cancel(gy_manager *manager, uint32_t task, const char *reason);
void gy_manager_runs_free(gy_manager *manager);
/** Number of tasks of this kind that a thread may have in flight. */
uint32_t gy_manager_depth(const gy_manager *manager, const task_row *row);
/**
 * Does the backup task of a straggling cohort need slots together that nothing else could use
 * now?
 */
bool gy_manager_is_cohort_due(const gy_manager *manager);

/* ---- heap.c ---- */
/** The number of placements before a new task at this process; GY_NONE: one of them is long. */
static inline uint32_t gy_manager_weight(const gy_manager *manager, uint32_t process)
{
    const slot *at = &manager->slots[process];
    if (at->load < manager->options.threads) {
        return at->load;
    }
    return at->slow > 0 ? GY_NONE : at->load;
}
/** The process is up: put it into its heaps. */
void gy_manager_heap_put(gy_manager *manager, uint32_t process);
/** Remove it from its heaps; no effect when it is in none. */
void gy_manager_heap_remove(gy_manager *manager, uint32_t process);
/** Its load has changed. */
void gy_manager_heap_update(gy_manager *manager, uint32_t process);

/* ---- memo.c ---- */
const gy_sched_memo *gy_manager_recall(const gy_manager *manager, uint32_t task, gy_key key);
void gy_manager_memo_free(gy_manager *manager);

/* ---- journal.c ---- */
void gy_manager_write_begin(gy_manager *manager);
void gy_manager_write_commit(gy_manager *manager, uint32_t task);
void gy_manager_write_raise(gy_manager *manager); /* of all in `raised` */
void gy_manager_write_grown(gy_manager *manager, uint32_t stage, const gy_growth *growth);
void gy_manager_write_saved(gy_manager *manager);
void gy_manager_write_host(gy_manager *manager, uint32_t host);
void gy_manager_write_learnt(gy_manager *manager, const void *data, size_t size_bytes);
void gy_manager_write_end(gy_manager *manager, gy_status status, const char *reason);
/** Emit SYNC for all records so far. */
void gy_manager_sync(gy_manager *manager);
void gy_manager_seal(gy_manager *manager);

/* ---- held.c: outputs on hosts ---- */
/** Encode a size in 8 bits, four steps an octave, and decode it. */
uint8_t gy_manager_held_code(uint64_t bytes);
float gy_manager_held_bytes(uint8_t code);
/** The task is committed on the host in its row. */
void gy_manager_hold(gy_manager *manager, uint32_t task);
/** Is the commit still valid on this host? */
bool gy_manager_holds(const gy_manager *manager, uint32_t host, const gy_sched_stored *held);
/**
 * The host that is up and holds most of the task's input bytes; GY_NONE: none. *share: of all
 * its input bytes on hosts.
 */
uint32_t gy_manager_near(gy_manager *manager, uint32_t task, float *share);

/* ---- names.c: names of hosts, places of tasks ---- */
/** The row of `host`; creates it and all rows below. NULL: no memory. */
host_row *gy_manager_host_row(gy_manager *manager, uint32_t host);
/** Copy a growth's places. GY_NOMEM */
gy_status gy_manager_take_places(gy_manager *manager, const gy_growth *growth, uint32_t first);
/** The host has a name from now on. */
void gy_manager_take_name(gy_manager *manager, uint32_t host);
/** The name numbers of the task's places, ended by GY_NONE; NULL: it has none. */
const uint32_t *gy_manager_places_of(const gy_manager *manager, uint32_t task);
/** GY_NONE: neither a task's place nor another host has this name. */
uint32_t gy_manager_name_of(const gy_manager *manager, uint32_t host);
/** The task is ready: add it to the lists of its places' names. */
void gy_manager_pin(gy_manager *manager, uint32_t task);
/** Record which tasks of a growth are spread over hosts. GY_NOMEM */
gy_status gy_manager_take_spreads(gy_manager *manager, const gy_growth *growth, uint32_t first);
/** Number of hosts for its members. @cost O(log spread tasks) */
uint32_t gy_manager_spread(const gy_manager *manager, uint32_t task);

/** Is it committed, and can readers read it? Not if the state of its host is unknown. */
static inline bool gy_manager_is_there(const gy_manager *manager, const task_row *row)
{
    return row->state == TASK_COMMITTED &&
           (row->host == GY_HOST_NOWHERE || GY_PLANTED(READERS_EARLY) ||
            manager->hosts.rows[row->host].state != HOST_EXPECTED);
}
/** Has the host as many slots as `width` members need? */
static inline bool gy_manager_has_slots(const host_row *row, uint32_t width)
{
    return row->state == HOST_UP && !row->is_avoided && row->slots >= width;
}

#endif
