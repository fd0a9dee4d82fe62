/**
 * The job manager as a pure state machine: an event goes in, effects come out. It has no clock,
 * file, socket or thread. The driver carries out the effects; the simulator runs the same
 * machine under faults. A commit is a compare-and-set on (task, epoch, attempt): a late result
 * is ignored and its files are discarded.
 */
#ifndef GY_SCHED_MANAGER_H
#define GY_SCHED_MANAGER_H

#include "sched/job.h"

typedef struct gy_manager gy_manager;

typedef struct gy_manager_options {
    const gy_stage *stages; /* copied */
    uint32_t stage_count;   /* at most 65535, stages of later growths included */
    uint32_t process_max;   /* process slots, 1 .. 4096 */
    uint32_t host_max;      /* 0: one host, number 0, with all slots open from BEGIN. Else the
                               exclusive limit of host numbers (at most 65535), lost hosts included;
                               a slot is closed until SLOT_OPEN names its host */
    uint32_t threads;       /* tasks a process runs at once; 0: 1 */
    uint32_t depth_max; /* tasks in flight per thread at most, with short tasks sent in advance;
                           0: 64 */
    int failures_max;   /* failures of its own before a task ends the job; 0: 6 */
    int64_t backup_floor_ns; /* minimum age of a run before it has a backup task; 0: 1 s; < 0:
                                no backup tasks */
    int64_t silence_ns;      /* a process without a message for so long is lost; 0: 10 s */
    int64_t lease_ns;    /* how long a process may live after HOST_LOST or SLOT_CLOSE; an exact
                            task waits so long. Until SLOT_OPEN gives a lease; 0: 10 s */
    uint32_t generation; /* of the manager, the high bits of attempts; 0: one more than in its
                            journal, 1 for a new job */
} gy_manager_options;

/** What happened, and which members of gy_sched_event carry it (kind and now_ns always). */
typedef enum gy_sched_event_kind {
    /* Once, after replay: start or resume the job. */
    GY_EVENT_BEGIN,
    /* process, generation (of the process): ready to serve. */
    GY_EVENT_PROCESS_UP,
    /* process, generation, cause, reason: the process ended; a later UP has another generation.
     * Cause NONE or OWN counts against the tasks that ran in it; another cause (the driver
     * ended it) does not. */
    GY_EVENT_PROCESS_DOWN,
    /* process, generation: it is alive. The driver reports this at most 10 times a second. */
    GY_EVENT_HEARD,
    /* id, member, process, generation, run_ns, content, report: one member succeeded. */
    GY_EVENT_DONE,
    /*
     * id, member, process, generation, cause, reason; input with LOST_INPUT; report: what room
     * flow learnt from the failure, written to the journal even if the run is no longer known.
     * is_gone: the process has ended too, PROCESS_DOWN follows, and no task may go to it
     * before.
     */
    GY_EVENT_FAILED,
    /* id.task, id.epoch, reason: the driver found its committed output missing or corrupt.
     * Ignored while no task needs it (all readers committed, not final): a reader that runs
     * again will find out itself. */
    GY_EVENT_LOST,
    /* stage, growth (NULL: no tasks are added): the answer to GROW. Cause != NONE: the rewrite
     * failed for `reason`. */
    GY_EVENT_GROWN,
    /* The requested time has come. */
    GY_EVENT_TIMER,
    /* position: the journal is durable up to it. */
    GY_EVENT_SYNCED,
    /* reason: an append or a sync failed. The job ends, since the journal can no longer be
     * trusted. */
    GY_EVENT_JOURNAL_FAILED,
    /* The answer to SAVE: final data are synced under their final names. Cause LOST_INPUT: the
     * output of id.task, id.epoch is missing or corrupt; the task runs again, then SAVE follows
     * again. Another cause: saving failed for `reason`. */
    GY_EVENT_OUTPUT_SAFE,
    /* The answer to PUBLISH: the manifest exists. LOST_INPUT: data it names are missing (an
     * earlier manager saved them); another SAVE follows. Another cause: publishing failed for
     * `reason`. */
    GY_EVENT_PUBLISHED,
    /* reason (NULL: "killed by its user"): the job ends now. */
    GY_EVENT_KILL,
    /*
     * The next four concern a job over hosts (ignored with host_max 0). host, host_id, address,
     * name: the host is up, with the files that this job left on it. A number belongs to one id
     * for ever, also under later managers. The same id may return after a loss; outputs that
     * were not computed again meanwhile count again. Another id under a known number, or a
     * number of host_max or more, ends the job.
     */
    GY_EVENT_HOST_UP,
    /* host, reason: its slots are closed, its processes have ended (which counts against no
     * task), and each committed output there that a task needs is computed again. Others stay
     * committed until a reader runs again. */
    GY_EVENT_HOST_LOST,
    /* process, host, lease_ns, is_last: a closed slot opens, on a host that is up. is_last: no
     * other host has enough slots, so the host is no longer avoided. */
    GY_EVENT_SLOT_OPEN,
    /* process, reason: its lease has expired; what runs in it is lost without counting as a
     * failure. Send PROCESS_DOWN first if the process is known to have ended: otherwise its
     * exact tasks wait. */
    GY_EVENT_SLOT_CLOSE,
} gy_sched_event_kind;

typedef struct gy_sched_event {
    gy_sched_event_kind kind;
    gy_cause cause;
    int64_t now_ns;
    uint32_t process, generation;
    gy_attempt id;
    uint32_t member, input, stage;
    bool is_gone;
    /* DONE: some of its outputs lie in a file on the process's host, so they are lost with the
     * host. Else they are in the report or in shared storage */
    bool is_held;
    bool is_last;
    uint32_t host;
    int64_t run_ns; /* duration of the work, without time in the process's queue */
    /* Members that no kind uses together share memory, so that an event is no larger on one
     * machine than before. All pointers are borrowed for the step. */
    union {
        gy_key content; /* hash of all outputs' hashes and sizes of this member */
        gy_key host_id; /* of the daemon: its id and incarnation */
    };
    union {
        const void *report;  /* bytes that room flow reads: sizes, small outputs, counters;
                                stored at the commit. A cohort stores the reports of all members
                                in order, each after its size as uint32_t */
        const char *address; /* "HOST:PORT", below GY_HOST_TEXT bytes */
    };
    size_t report_bytes;
    union {
        const gy_growth *growth;
        const char *name; /* the display name, also the name in gy_growth.places; NULL: HOST */
    };
    union {
        uint64_t position;
        uint64_t
            /* With is_held: the size, to place readers near it; 0: unknown. */
            held_bytes;
        int64_t lease_ns; /* with SLOT_OPEN: as in gy_manager_options; 0: its value */
    };
    const char *reason; /* one line; NULL: not known */
} gy_sched_event;

/** What the driver must do, and which members of gy_effect carry it. */
typedef enum gy_effect_kind {
    GY_EFFECT_SPAWN,  /* process, generation: start a process in this slot */
    GY_EFFECT_KILL,   /* process, generation, reason: kill it; PROCESS_DOWN must follow */
    GY_EFFECT_START,  /* process, generation, id, member, stage, key: run it there */
    GY_EFFECT_CANCEL, /* process, generation, id, member: its result is not needed, or its input
                         was lost */
    GY_EFFECT_APPEND, /* data, size_bytes: append to the journal, whose end is then `position`
                       */
    GY_EFFECT_SYNC,   /* position: make the journal durable up to it, then SYNCED */
    /* id, key, host: delete the files of all members of that attempt; nothing writes them any
     * more, unless the host is lost. key: as in START while the attempt is known, else of the
     * task's last commit. host: where it ran; GY_NONE: unknown, or host_max is 0. */
    GY_EFFECT_DISCARD,
    GY_EFFECT_COMMITTED, /* id, key, stage, data, size_bytes (report): once for each (task,
                            epoch) */
    GY_EFFECT_GROW,      /* stage: all its tasks are committed; rewrite the graph, then GROWN */
    GY_EFFECT_TIMER,     /* at_ns: send TIMER then; of several the earliest counts */
    GY_EFFECT_SAVE, /* sync final data, rename them to their final names, then OUTPUT_SAFE */
    /* Create the manifest, exclusively, then PUBLISHED. A resumed manager may ask again: the
     * job's own manifest counts as success. */
    GY_EFFECT_PUBLISH,
    /* id or process, reason: why a task waits, fails, dies, has a backup task or runs again;
     * for `gyre job show`. */
    GY_EFFECT_NOTE,
    /* host, reason: tasks fail on this host and nowhere else. The manager uses no slot of it
     * any more; release its leases as bad. Sent again for each of its slots that opens
     * nevertheless. */
    GY_EFFECT_AVOID,
    GY_EFFECT_END, /* status, reason: the job ends; no effect follows */
} gy_effect_kind;

typedef struct gy_effect {
    gy_effect_kind kind;
    uint32_t process, generation, host;
    gy_attempt id;
    uint32_t member, stage;
    bool is_silent; /* KILL: because no message arrived for too long */
    gy_status status;
    gy_key key;
    const void *data; /* APPEND, COMMITTED: valid until the next step */
    size_t size_bytes;
    uint64_t position;
    int64_t at_ns;
    const char *reason; /* valid until the next step */
} gy_effect;

/**
 * The effects of one step, in order; owned by the caller and reused over steps to save
 * allocations.
 */
typedef struct gy_effects {
    gy_effect *items;
    size_t count, capacity;
    gy_effect nowhere; /* written when an allocation failed; never read */
} gy_effects;

/**
 * Make a manager of `job`, which it copies.
 *
 * @return GY_OK; GY_ARG a bad option or graph (gy_error_text names the task and the reason);
 * GY_LIMIT; GY_NOMEM
 * @threads all calls of one manager on one thread at a time
 * @cost O(tasks + edges); 104 bytes a task, 16 an edge
 */
GY_MUST_CHECK gy_status gy_manager_new(const gy_manager_options *options, const gy_growth *job,
                                       gy_manager **manager);
/** NULL is fine. */
void gy_manager_free(gy_manager *manager);

/**
 * Call once before BEGIN: replay the records of an older manager's journal from the start.
 * Stops at the first torn record; *used is the size of what was read, and the driver truncates
 * the file there.
 *
 * @return GY_OK; GY_FORMAT an intact record that does not fit this job; GY_UNSUPPORTED another
 * version; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_manager_replay(gy_manager *manager, const void *journal,
                                          size_t size_bytes, size_t *used);

/**
 * Call once before BEGIN: earlier managers may have started exact tasks, and left nothing that
 * can be read. Such a task waits until their leases have expired.
 */
void gy_manager_begin_blind(gy_manager *manager);

/** The size of the intact records at the beginning of these bytes. Pure. @threads any */
size_t gy_manager_measure(const void *journal, size_t size_bytes);

/**
 * What earlier managers learnt from failures, in order; false: there is no index-th. The bytes
 * live as long as the manager.
 */
bool gy_manager_learnt(const gy_manager *manager, uint32_t index, const void **data,
                       size_t *size_bytes);

enum { GY_HOST_TEXT = 256 };

/**
 * A host of the job. Hosts found by replay are neither up nor lost: readers of their outputs
 * wait until HOST_UP or HOST_LOST.
 */
typedef struct gy_host_state {
    gy_key id;
    const char *address, *name; /* live as long as the manager, until HOST_UP changes them */
    bool is_up, is_expected;    /* neither: it is lost */
    bool is_avoided;
    uint32_t slots; /* number of open slots */
    uint32_t held;  /* number of tasks whose outputs lie there and are still needed */
} gy_host_state;
/** The exclusive limit of host numbers; some numbers below it may be unused. @cost O(1) */
uint32_t gy_manager_host_count(const gy_manager *manager);
/** false: no host has this number. @cost O(tasks ever committed there, and their readers) */
bool gy_manager_host(const gy_manager *manager, uint32_t host, gy_host_state *state);

/**
 * Number of slots that the manager could use now: those in use, and those that backup tasks of
 * stragglers wait for. @cost O(1)
 */
uint32_t gy_manager_wanted(const gy_manager *manager);
/**
 * The host where more slots would not help, since only backup tasks of stragglers on that host
 * wait; GY_NONE: there is no such host. @cost O(1)
 */
uint32_t gy_manager_unwanted(const gy_manager *manager);
/**
 * The number of slots on one host that a waiting cohort needs while no host has them; if
 * nothing waits, those that the backup task of a cohort needs. 0: no cohort waits for slots.
 * @cost O(1)
 */
uint32_t gy_manager_wanted_at_once(const gy_manager *manager);
/**
 * Id of the daemon whose slots do not help the waiting backup task, since its straggler runs
 * there; 0: any daemon's slots help. @cost O(1)
 */
uint64_t gy_manager_wanted_not_at(const gy_manager *manager);
/**
 * Over how many hosts the requested slots are distributed evenly: 1, or gy_sched_task.hosts.
 * @cost O(1)
 */
uint32_t gy_manager_wanted_hosts(const gy_manager *manager);

enum { GY_WANTED_HOSTS = 16 };

/** The names of the hosts on which slots are requested. */
typedef struct gy_wanted_where {
    /* (count) most requested first; live as long as the manager. */
    const char *hosts[GY_WANTED_HOSTS];
    uint32_t count, must; /* the first `must` have pinned tasks */
    bool is_limited;      /* pinned tasks exist */
    uint32_t elsewhere;   /* how many of the requested slots may be on other hosts */
} gy_wanted_where;
/** @cost O(names of places and slots) */
void gy_manager_wanted_where(gy_manager *manager, gy_wanted_where *where);

/**
 * Is there an exact task? Then the driver must check the journal regularly for another manager
 * that has begun.
 */
bool gy_manager_has_exact(const gy_manager *manager);

/**
 * Number of runs begun by this manager of tasks with places: on one of the places, and
 * elsewhere.
 */
void gy_manager_placed(const gy_manager *manager, uint32_t *near, uint32_t *far);

/**
 * A ready pinned task whose places are all among the given names, while the job has no slot on
 * any of them; GY_NONE: there is none. @cost O(ready pinned tasks)
 */
uint32_t gy_manager_stranded(const gy_manager *manager, const char *const *hosts,
                             uint32_t count);

/** What an earlier job left in the store: outputs by key. */
typedef struct gy_sched_memo {
    gy_key key, content;
    uint32_t epoch, attempt;
    const void *report; /* copied */
    size_t report_bytes;
} gy_sched_memo;

/** Before BEGIN: a ready task with this key is committed without a run. GY_NOMEM */
GY_MUST_CHECK gy_status gy_manager_remember(gy_manager *manager, const gy_sched_memo *memos,
                                            size_t count);

/**
 * Take one event and emit the effects that follow from it. Effects are cleared first.
 *
 * @return GY_OK; GY_NOMEM: effects are empty and the manager is only good for gy_manager_free
 * @cost O(1) a task that starts, is committed or lost, and its edges; a timer looks at all that
 * is in flight
 */
GY_MUST_CHECK gy_status gy_manager_step(gy_manager *manager, const gy_sched_event *event,
                                        gy_effects *effects);

/** What room flow reads to write a START message. */
typedef struct gy_sched_task_state {
    gy_attempt committed; /* attempt 0: no commit stands */
    gy_key key, content;  /* of the last commit; key names its files */
    const void *report;   /* of the last commit; lives as long as the manager */
    size_t report_bytes;
    uint32_t stage;
    uint32_t host; /* the host with outputs of the last commit; GY_NONE: none */
} gy_sched_task_state;
void gy_manager_task(const gy_manager *manager, uint32_t task, gy_sched_task_state *state);
/** Valid until the graph grows. */
void gy_manager_inputs(const gy_manager *manager, uint32_t task, const gy_edge **edges,
                       uint32_t *count);

/**
 * An earlier growth, live or found by replay, from which room flow rebuilds its part of a
 * resumed job.
 */
typedef struct gy_grown {
    uint32_t stage, first_task, task_count;
    const void *detail; /* lives as long as the manager */
    size_t detail_bytes;
} gy_grown;
/** The index-th growth; false: there is none. */
bool gy_manager_grown(const gy_manager *manager, uint32_t index, gy_grown *grown);

/**
 * runs: begun by this manager. failed: those that counted against their tasks, or ended the
 * job. memoised: tasks committed without a run.
 */
typedef struct gy_stage_state {
    uint32_t tasks, committed, running, runs, failed, copies, backups_won, memoised;
    int64_t run_ns; /* of all runs that were committed */
} gy_stage_state;
void gy_manager_stage(const gy_manager *manager, uint32_t stage, gy_stage_state *state);
/** Number of stages, and the name of one; lives as long as the manager. */
uint32_t gy_manager_stage_count(const gy_manager *manager);
const char *gy_manager_stage_name(const gy_manager *manager, uint32_t stage);
/** Number of tasks, of all growths so far. */
uint32_t gy_manager_task_count(const gy_manager *manager);

/** A run in progress. */
typedef struct gy_run_state {
    uint32_t task, stage, process;
    uint32_t host; /* GY_NONE: this machine */
    int64_t age_ns;
    int64_t late_ns; /* the age at which a backup task starts; INT64_MAX: not known yet */
} gy_run_state;
/**
 * Write the longest of the runs that have taken at least `ns_min` so far, in descending order,
 * at most `most`. Returns how many. @cost O(slots * threads * most)
 */
uint32_t gy_manager_slow(const gy_manager *manager, int64_t now_ns, int64_t ns_min,
                         gy_run_state *runs, uint32_t most);
/** Memory in use, approximately. */
size_t gy_manager_bytes(const gy_manager *manager);

#endif
