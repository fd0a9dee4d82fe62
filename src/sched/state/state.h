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
    GY_STALE =
        1u << 30, /* in gy_sched_edge.reader: the input was lost under the running reader */
    GY_ATTEMPT_BITS = 20,   /* of an attempt; above them the manager's generation */
    GY_RUNS_MAX = 10000,    /* of a task under one manager, whatever became of them */
    GY_LOSSES_MAX = 1000,   /* of a task's output */
    GY_MEMO_STEP_MAX = 4096 /* tasks that a step commits from the memo */
};

/* ---- Hosts ---- */

enum {
    GY_HOST_NOWHERE = UINT16_MAX,
    GY_SUSPECTS = 16,  /* tasks that failed on a host and are remembered */
    GY_BAD_TASKS = 3,  /* so many failed there alone: the host is avoided */
    GY_LOOK_EDGES = 64 /* of a task at most are looked at, evenly: who reads more reads from
                          everywhere */
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

/** What hosts are called; several may have one name. */
typedef struct gy_host_name {
    const char *text; /* of gy_hosts.texts */
    uint32_t first;   /* host; then host_row.name_next; GY_NONE */
    gy_tasks pinned;  /* ready tasks that may run there, oldest first, leftovers among them */
    size_t pinned_head;
    uint32_t weight; /* while requests are made */
    bool has_pinned; /* a task of the job is pinned to it */
} gy_host_name;

typedef enum host_state { HOST_UNKNOWN, HOST_EXPECTED, HOST_UP, HOST_LOST } host_state;

typedef struct suspect {
    uint32_t task;
    bool is_well;    /* committed elsewhere since */
    int64_t took_ns; /* until it failed */
} suspect;

/** Was committed on a host: it is there still while it is committed in this epoch. */
typedef struct gy_sched_stored {
    uint32_t task, epoch;
} gy_sched_stored;

typedef struct host_row {
    host_state state;
    bool is_avoided;
    gy_key id;
    char address[GY_HOST_TEXT], name[GY_HOST_TEXT];
    uint64_t position;  /* where its record ends */
    uint32_t open;      /* processes with a thread without work */
    uint32_t slots;     /* that are open */
    uint32_t name_next; /* another host of that name; GY_NONE */
    float near;         /* of the task that is looked at: bytes that lie here */
    gy_sched_heap heap;
    gy_sched_stored *held;
    size_t held_count, held_capacity;
    suspect suspects[GY_SUSPECTS];
    uint32_t suspect_count;
    uint32_t done; /* committed here, halved with each new suspect */
} host_row;

/** An exact task whose last run may still go on at a host out of reach. */
typedef struct exact_wait {
    uint32_t task;
    int64_t until_ns; /* INT64_MAX: until all expected hosts are told */
} exact_wait;

/** A task whose members go to several hosts. */
typedef struct gy_spread {
    uint32_t task, hosts;
} gy_spread;

/** All of a manager's hosts. */
typedef struct gy_hosts {
    host_row *rows;
    size_t count, capacity;
    uint32_t expected; /* hosts of the journal of which nothing is said so far */
    uint32_t lost;     /* hosts that are */
    bool has_lost_expected;
    int64_t
        older_ns; /* until then processes of an older manager may go on; INT64_MAX: not known */
    exact_wait *waits;
    size_t wait_count, wait_capacity;
    gy_tasks gone;        /* committed on a lost host, and needed again */
    gy_tasks aside;       /* cohorts for which no host has slots enough */
    uint32_t aside_min;   /* width of the narrowest */
    uint32_t aside_max;   /* of the widest, */
    uint32_t aside_hosts; /* which goes to so many */
    gy_spread *spreads;   /* by task */
    size_t spread_count, spread_capacity;
    gy_tasks chosen; /* hosts of the spread task that starts next */
    /* places: names by hash; a task's are a list that ends with GY_NONE */
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
    MARK_QUEUED = 1,  /* stands in a queue, maybe as a leftover */
    MARK_SUSPECT = 2, /* in flight where a process died: runs with nothing behind it */
    MARK_SPREAD = 8,  /* its members go to several hosts: hosts.spreads says to how many */
    MARK_CONTENT = 4, /* keys.content was committed once, somebody may have read it */
};

/** What a step touches of a task. */
typedef struct task_row {
    const uint8_t *report; /* uint32_t size, bytes; NULL: none */
    uint32_t first_edge;   /* its edges end where the next task's begin */
    uint32_t first_reader; /* edge whose `from` is this task; then links[].next */
    uint32_t missing;      /* inputs without a standing commit, and growths not yet safe */
    uint32_t epoch;
    uint32_t committed; /* attempt; 0: none */
    uint32_t attempt;   /* the last that was given */
    uint32_t run;       /* first of its runs, dead ones too */
    uint32_t output_count;
    float input_bytes;
    uint16_t stage, width;
    uint16_t host; /* committed: holds its outputs; else: where it shall not run next */
    uint8_t state, flags, determinism, failures, marks;
    uint8_t held; /* committed on a host: how many bytes, as a code */
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
    uint32_t placement; /* GY_NONE: has ended */
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
    int64_t run_ns;      /* DONE's, the largest */
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
    int64_t began_ns;        /* when it came to be one of the oldest `threads`; 0: it waits */
    int64_t cancelled_ns;    /* 0: is not */
} placement;

typedef enum slot_state {
    SLOT_EMPTY,
    SLOT_STARTING,
    SLOT_UP,
    SLOT_KILLING,
    SLOT_CLOSED /* of no host, or of one that is avoided */
} slot_state;

/** A place for a process. */
typedef struct slot {
    slot_state state;
    uint32_t generation;
    uint32_t load, slow;  /* placements; those that nothing may wait behind */
    uint32_t first, last; /* placements */
    uint32_t heap[2];     /* where it stands in all's and its host's; GY_NONE: not there */
    uint32_t host;        /* 0 locally; GY_NONE: none */
    uint32_t deaths;      /* in a row without an answer */
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
    uint32_t asked_tasks;    /* it had when it asked last; it asks again when it has more */
    gy_stage_state state;
    int64_t mean_ns; /* of late runs */
    sample *samples; /* SAMPLES of them, drawn from all runs; NULL before the first */
    uint32_t sampled;
    double base_ns, slope, sigma_ns; /* the fit, and how many runs it knew */
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

/** A growth whose record is not yet safe: its tasks wait. */
typedef struct hold {
    uint32_t first, count;
    uint64_t position;
} hold;

typedef enum phase {
    PHASE_NEW,
    PHASE_STARTING, /* the beginning is being synced */
    PHASE_RUNNING,
    PHASE_SAVING,
    PHASE_SAVED,      /* what says so is being synced */
    PHASE_PUBLISHING, /* */
    PHASE_ENDING,     /* the end is being synced */
    PHASE_ENDED
} phase;

struct gy_manager {
    gy_manager_options options;
    stage_row *stages;
    gy_status status; /* of this step: GY_NOMEM once something had no memory */
    phase phase;
    int64_t now_ns;

    /* columns */
    task_row *rows; /* one more than tasks: where the edges end */
    task_keys *keys;
    gy_edge *edges;
    gy_sched_edge *links;
    size_t row_capacity, key_capacity, edge_capacity, link_capacity;
    uint32_t task_count, edge_count;
    uint32_t committed_count, final_count;
    chunk *chunks;
    size_t chunk_bytes;
    uint8_t *scratch; /* what a key is the hash of */
    size_t scratch_capacity;

    /* placing */
    queue urgent, ready;
    uint32_t ready_width; /* members of all ready tasks */
    uint32_t in_flight;   /* placements */
    uint32_t behind;      /* of these, behind a long one while no process is free */
    run *runs;
    placement *placements;
    run_place *places; /* (run); NULL locally */
    size_t run_capacity, run_count, placement_capacity, placement_count, place_capacity;
    uint32_t free_run, free_placement;
    slot *slots;
    gy_sched_heap heap; /* slots that are up */
    uint32_t open_count, starting_count, empty_count, closed_count;
    gy_hosts hosts;
    int64_t spawn_ns; /* no empty slot may be used before */
    uint32_t failed_starts;
    uint32_t noted_wait;    /* the last cohort whose waiting was told */
    bool is_half_done;      /* a stage, just now */
    uint32_t backup_wanted; /* a run that shall be copied before ready tasks; GY_NONE */
    uint32_t backups_due;   /* late runs of one member that find no process for their copy, */
    uint32_t backups_host;  /* all on this host; GY_NONE: on several, or locally */
    uint32_t cohort_due;  /* members of a late run that finds no place for its copy; 0: none */
    uint32_t cohort_host; /* where it is */
    int64_t copy_ns;      /* when the next run is late; INT64_MAX: none is known to be */

    /* growth */
    gy_grown *grown;
    size_t grown_count, grown_capacity;
    hold *holds;
    size_t hold_count, hold_capacity;
    uint32_t asked_count; /* GROW without its GROWN */

    gy_tasks raised; /* whose epochs rose, to be written together */

    const uint8_t **learnt; /* found by replay: uint32_t size, bytes each */
    size_t learnt_count, learnt_capacity;

    /* journal */
    gy_key job;
    uint32_t generation;
    uint32_t spawned; /* processes, under it */
    uint8_t *journal; /* of this step */
    size_t journal_bytes, journal_capacity;
    uint64_t position, awaited, synced; /* appended; SYNCED that the phase waits for; SYNCED */
    bool has_begun, is_saved, is_ended; /* found by replay */
    bool has_exact;                     /* a task is */
    bool is_blind;                      /* nothing is known of the managers before it */
    int64_t lease_ns;                   /* the longest of a slot; 0: none was told */

    /* memo */
    gy_sched_memo *memos;
    gy_index memo_index; /* by their keys */
    size_t memo_count, memo_capacity;
    uint32_t memo_missed; /* the task at the head whose key is not there */

    /* effects */
    gy_effects *effects;
    gy_arena texts; /* of this step */
    int64_t timer_ns;
};

/* ---- columns.c ---- */
/** Check and take a growth; its tasks wait with all inputs counted that have no commit. */
gy_status gy_manager_add(gy_manager *manager, const gy_growth *growth);
gy_key gy_manager_key(const gy_manager *manager, uint32_t task);
/** Keep a report; NULL: none, or no memory (manager->status). */
const uint8_t *gy_manager_keep(gy_manager *manager, const void *data, size_t size_bytes);
static inline uint32_t gy_manager_edges_end(const gy_manager *manager, uint32_t task)
{
    return manager->rows[task + 1].first_edge;
}
gy_key gy_manager_job_key(const gy_growth *growth);

/* ---- effects.c ---- */
/** A new effect to fill in; valid until the next. Never NULL. */
gy_effect *gy_manager_emit(gy_manager *manager, gy_effect_kind kind);
/** Text of this step. */
const char *gy_manager_text(gy_manager *manager, const char *format, ...) GY_PRINTF(2, 3);
void gy_manager_note_task(gy_manager *manager, uint32_t task, const char *reason);
void gy_manager_note_host(gy_manager *manager, uint32_t host, const char *reason);
void gy_manager_note_process(gy_manager *manager, uint32_t process, const char *reason);
void gy_manager_wake(gy_manager *manager, int64_t at_ns);
/** The job ends now. */
void gy_manager_end(gy_manager *manager, gy_status status, const char *reason);
/** Why nothing starts, said once. */
void gy_manager_note_wait(gy_manager *manager, uint32_t task, const char *reason);

/* ---- queue.c ---- */
/** A task that is neither running nor committed any more: ready or waiting. */
void gy_manager_requeue(gy_manager *manager, uint32_t task, bool is_urgent);
void gy_manager_set_state(gy_manager *manager, uint32_t task, task_state state);
/** The next ready task without taking it; GY_NONE. */
uint32_t gy_manager_peek(gy_manager *manager);
void gy_manager_pop(gy_manager *manager);
/** The i-th entry from the first, which may be a leftover; GY_NONE: there are no more. */
uint32_t gy_manager_ahead(const gy_manager *manager, size_t i);
/** It stands in a queue again, first of all. */
void gy_manager_push_again(gy_manager *manager, uint32_t task);

/* ---- runs.c ---- */
/** Room for one more run of `width` members. */
bool gy_manager_has_room(gy_manager *manager, uint32_t width);
uint32_t gy_manager_run_new(gy_manager *manager, uint32_t task);
uint32_t gy_manager_placement_new(gy_manager *manager, uint32_t run_index, uint32_t member,
                                  uint32_t process);
/** GY_NONE: not known (any more). */
uint32_t gy_manager_run_find(const gy_manager *manager, const gy_attempt *id);
uint32_t gy_manager_run_placement(const gy_manager *manager, uint32_t run_index,
                                  uint32_t member);
bool gy_manager_has_live_run(const gy_manager *manager, uint32_t task);
/** The process has let go of it; the run goes with its last placement. */
void gy_manager_placement_end(gy_manager *manager, uint32_t index);
/** Dead from now on: its members are cancelled. */
void gy_manager_run_cancel(gy_manager *manager, uint32_t index);
void gy_manager_runs_cancel(gy_manager *manager, uint32_t task, const char *reason);
void gy_manager_runs_free(gy_manager *manager);
/** Tasks of this kind that a thread may have in flight. */
uint32_t gy_manager_depth(const gy_manager *manager, const task_row *row);
/** A late cohort wants slots together for its copy, which nothing else could use by now. */
bool gy_manager_is_cohort_due(const gy_manager *manager);

/* ---- heap.c ---- */
/** What a task would wait behind at this process; GY_NONE: behind a long one. */
static inline uint32_t gy_manager_weight(const gy_manager *manager, uint32_t process)
{
    const slot *at = &manager->slots[process];
    if (at->load < manager->options.threads) {
        return at->load;
    }
    return at->slow > 0 ? GY_NONE : at->load;
}
/** It is up: put it into all heaps that it belongs to. */
void gy_manager_heap_put(gy_manager *manager, uint32_t process);
/** Nothing when it is in none. */
void gy_manager_heap_remove(gy_manager *manager, uint32_t process);
/** Its load is another. */
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
/** SYNC of all that is written so far. */
void gy_manager_sync(gy_manager *manager);
void gy_manager_seal(gy_manager *manager);

/* ---- held.c: what lies where ---- */
/** A size in 8 bits, four steps an octave, and back. */
uint8_t gy_manager_held_code(uint64_t bytes);
float gy_manager_held_bytes(uint8_t code);
/** A commit on the host that its row says. */
void gy_manager_hold(gy_manager *manager, uint32_t task);
/** Does it still lie there? */
bool gy_manager_holds(const gy_manager *manager, uint32_t host, const gy_sched_stored *held);
/** The host that is up where most of the task's inputs lie; GY_NONE: nowhere. *share: of all
 * that lies on hosts. */
uint32_t gy_manager_near(gy_manager *manager, uint32_t task, float *share);

/* ---- names.c: what hosts are called, and the places of tasks ---- */
/** The row of `host`, with all below it made; NULL: no memory. */
host_row *gy_manager_host_row(gy_manager *manager, uint32_t host);
/** Keep a growth's places. GY_NOMEM */
gy_status gy_manager_take_places(gy_manager *manager, const gy_growth *growth, uint32_t first);
/** A host has a name from now on. */
void gy_manager_take_name(gy_manager *manager, uint32_t host);
/** The numbers of the task's places' names, up to GY_NONE; NULL: none were told. */
const uint32_t *gy_manager_places_of(const gy_manager *manager, uint32_t task);
/** GY_NONE: no task's place is called so, nor was a host. */
uint32_t gy_manager_name_of(const gy_manager *manager, uint32_t host);
/** It is ready: into the lists of its places' names. */
void gy_manager_pin(gy_manager *manager, uint32_t task);
/** Keep which of a growth's tasks are spread. GY_NOMEM */
gy_status gy_manager_take_spreads(gy_manager *manager, const gy_growth *growth, uint32_t first);
/** Over how many hosts its members go. @cost O(log spread tasks) */
uint32_t gy_manager_spread(const gy_manager *manager, uint32_t task);

/** Committed, and its readers may read it: not on a host of which nothing is known so far. */
static inline bool gy_manager_is_there(const gy_manager *manager, const task_row *row)
{
    return row->state == TASK_COMMITTED &&
           (row->host == GY_HOST_NOWHERE || GY_PLANTED(READERS_EARLY) ||
            manager->hosts.rows[row->host].state != HOST_EXPECTED);
}
/** As many slots on that host as `width` members need. */
static inline bool gy_manager_has_slots(const host_row *row, uint32_t width)
{
    return row->state == HOST_UP && !row->is_avoided && row->slots >= width;
}

#endif
