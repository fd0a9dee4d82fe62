/**
 * The job manager as a machine: an event in, effects out. Pure: no clock, no file, no socket,
 * no thread. The driver turns effects into work; the simulator drives the same machine through
 * faults.
 *
 * Commit is compare-and-set on (task, epoch, attempt): whatever comes late is dropped and its
 * files discarded.
 */
#ifndef GY_SCHED_MANAGER_H
#define GY_SCHED_MANAGER_H

#include "sched/job.h"

typedef struct gy_manager gy_manager;

typedef struct gy_manager_options {
    const gy_stage *stages;  /* copied */
    uint32_t stage_count;    /* at most 65535, stages of later growths included */
    uint32_t process_max;    /* process slots, 1 .. 4096 */
    uint32_t host_max;       /* 0: one host, number 0, whose slots are all open from BEGIN. Else
                                hosts have numbers below it (at most 65535), lost ones too, and a
                                slot is closed until SLOT_OPEN says whose it is */
    uint32_t threads;        /* tasks a process runs at once; 0: 1 */
    uint32_t depth_max;      /* tasks in flight a thread at most, small ones ahead; 0: 64 */
    int failures_max;        /* of its own, a task; 0: 6 */
    int64_t backup_floor_ns; /* no copy before a run is this old; 0: 1 s; < 0: never a copy */
    int64_t silence_ns;      /* a process silent for so long is lost; 0: 10 s */
    int64_t lease_ns;        /* so long after HOST_LOST or SLOT_CLOSE a process there may still
                                live: an exact task of it waits; 0: 10 s. Until SLOT_OPEN says */
    uint32_t generation;     /* of the manager, high bits of attempts; 0: one more than its
                                journal's, 1 for a new job */
} gy_manager_options;

/** What happened, and the members of gy_sched_event that say it (kind and now_ns always). */
typedef enum gy_sched_event_kind {
    /* Once, after replay: start or go on. */
    GY_EVENT_BEGIN,
    /* process, generation (of the process): ready to serve. */
    GY_EVENT_PROCESS_UP,
    /* process, generation, cause, reason: gone; a later UP has another generation. Cause NONE
     * or OWN counts against the tasks that ran there; another (the driver's own doing) does
     * not. */
    GY_EVENT_PROCESS_DOWN,
    /* process, generation: it lives. The driver tells at most 10 times a second. */
    GY_EVENT_HEARD,
    /* id, member, process, generation, run_ns, content, report: one member ended well. */
    GY_EVENT_DONE,
    /* id, member, process, generation, cause, reason; input with LOST_INPUT; report: what room
     * flow learnt of it, for the journal, also when the run is not known any more. is_gone: the
     * process is no more, PROCESS_DOWN follows, and nothing shall be given to it meanwhile. */
    GY_EVENT_FAILED,
    /* id.task, id.epoch, reason: its committed output is found gone or wrong by the driver.
     * Ignored while nobody needs it (all readers committed, not final): a reader that runs
     * again finds it itself. */
    GY_EVENT_LOST,
    /* stage, growth (NULL: nothing is added): the answer to GROW. Cause != NONE: the rewrite
     * failed, reason says why. */
    GY_EVENT_GROWN,
    /* The time asked for has come. */
    GY_EVENT_TIMER,
    /* position: the journal is safe up to it. */
    GY_EVENT_SYNCED,
    /* reason: append or sync failed. The job ends here; nothing more may be trusted. */
    GY_EVENT_JOURNAL_FAILED,
    /* The answer to SAVE: final data are synced under their final names. Cause LOST_INPUT: the
     * output of id.task, id.epoch is gone or wrong; it runs again, then SAVE again. Another
     * cause: it failed, reason says why. */
    GY_EVENT_OUTPUT_SAFE,
    /* The answer to PUBLISH: the manifest stands. LOST_INPUT: what it names is not there (an
     * earlier manager had saved it); another SAVE follows. Other causes: it failed, reason says
     * why. */
    GY_EVENT_PUBLISHED,
    /* reason (NULL: "killed by its user"): the job ends now. */
    GY_EVENT_KILL,
    /* The four of a job over hosts (ignored with host_max 0).
     * host, host_id, address, name: it is there, and so are the files that this job left there.
     * A number is of one id for ever, also over managers; the same id may come again after it
     * was lost, and whatever did not run again meanwhile stands there again. Another id under a
     * known number, or a number of host_max or more, ends the job. */
    GY_EVENT_HOST_UP,
    /* host, reason: its slots are closed, its processes are gone (which counts against no
     * task), and each committed output there that somebody needs runs again. Others stay
     * committed: they run again when a reader of theirs does. */
    GY_EVENT_HOST_LOST,
    /* process, host, lease_ns, is_last: a closed slot may be used, on a host that is up.
     * is_last: if it is avoided it is so no more, since nothing else has slots enough. */
    GY_EVENT_SLOT_OPEN,
    /* process, reason: its lease is over; what runs there is lost without being counted. Say
     * PROCESS_DOWN before when it is known to be gone: else exact tasks of it wait. */
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
    /* DONE: some of its outputs lie in a file of the process's host. Else they are in the
     * report or in shared storage, and no host takes them along. */
    bool is_held;
    bool is_last;
    uint32_t host;
    int64_t run_ns; /* time the work took, without waiting in the process */
    /* Members that no kind has both of share their place: an event locally is no longer for
     * hosts. All that is pointed to is borrowed for the step. */
    union {
        gy_key content; /* hash of all outputs' hashes and sizes of this member */
        gy_key host_id; /* of the daemon: its id, its incarnation */
    };
    union {
        const void *report;  /* bytes that room flow reads: sizes, small outputs, counters; kept
                              * once committed. Of a cohort all members' are kept one after the
                              * other, each behind its size as uint32_t */
        const char *address; /* "HOST:PORT", below GY_HOST_TEXT bytes */
    };
    size_t report_bytes;
    union {
        const gy_growth *growth;
        const char *name; /* for people, and as gy_growth.places say it; NULL: HOST */
    };
    union {
        uint64_t position;
        uint64_t
            held_bytes;   /* with is_held: how many, so that readers go there; 0: not known */
        int64_t lease_ns; /* with SLOT_OPEN, as in gy_manager_options; 0: as there */
    };
    const char *reason; /* one line; NULL: not known */
} gy_sched_event;

/** What is to be done, and the members of gy_effect that say it. */
typedef enum gy_effect_kind {
    GY_EFFECT_SPAWN,  /* process, generation: start a process in this slot */
    GY_EFFECT_KILL,   /* process, generation, reason: kill it; PROCESS_DOWN shall follow */
    GY_EFFECT_START,  /* process, generation, id, member, stage, key: run it there */
    GY_EFFECT_CANCEL, /* process, generation, id, member: a lost race, or its input is gone */
    GY_EFFECT_APPEND, /* data, size_bytes: to the journal, which then reaches `position` */
    GY_EFFECT_SYNC,   /* position: make the journal safe up to it, then SYNCED */
    /* id, key, host: files of all members of that attempt may go; nobody writes them any more,
     * unless its host is lost. key is as in START while the attempt is known, else of the
     * task's last commit. host: where it ran; GY_NONE: not known, or host_max is 0. */
    GY_EFFECT_DISCARD,
    GY_EFFECT_COMMITTED, /* id, key, stage, data, size_bytes (report): once a (task, epoch) */
    GY_EFFECT_GROW,      /* stage: all its tasks are committed, rewrite, then GROWN */
    GY_EFFECT_TIMER,     /* at_ns: wake me; of several the earliest counts */
    GY_EFFECT_SAVE,      /* sync final data, give them their names, then OUTPUT_SAFE */
    /* Create the manifest, exclusively, then PUBLISHED. A resumed manager may ask again: this
     * job's own manifest is success. */
    GY_EFFECT_PUBLISH,
    /* id or process, reason: why a wait, failure, death, copy, run again; for `gyre job show`.
     */
    GY_EFFECT_NOTE,
    /* host, reason: tasks fail there and nowhere else. No slot of it is used any more; give its
     * leases back as bad. Again for each slot of it that is opened all the same. */
    GY_EFFECT_AVOID,
    GY_EFFECT_END, /* status, reason: nothing follows */
} gy_effect_kind;

typedef struct gy_effect {
    gy_effect_kind kind;
    uint32_t process, generation, host;
    gy_attempt id;
    uint32_t member, stage;
    bool is_silent; /* KILL: it said nothing for too long */
    gy_status status;
    gy_key key;
    const void *data; /* APPEND, COMMITTED: valid until the next step */
    size_t size_bytes;
    uint64_t position;
    int64_t at_ns;
    const char *reason; /* valid until the next step */
} gy_effect;

/** Effects of one step, in order; owned by the caller, kept over steps to save allocations. */
typedef struct gy_effects {
    gy_effect *items;
    size_t count, capacity;
    gy_effect nowhere; /* filled in, and read by nobody, where memory fails */
} gy_effects;

/**
 * A manager of `job`, which is copied.
 *
 * @return GY_OK; GY_ARG a wrong option or graph (which task and why: gy_error_text); GY_LIMIT;
 * GY_NOMEM
 * @threads all calls of one manager on one thread at a time
 * @cost O(tasks + edges); 104 bytes a task, 16 an edge
 */
GY_MUST_CHECK gy_status gy_manager_new(const gy_manager_options *options, const gy_growth *job,
                                       gy_manager **manager);
/** NULL is fine. */
void gy_manager_free(gy_manager *manager);

/**
 * Before BEGIN, once: take the records of an older manager's journal, from the first on. Stops
 * at the first torn one: *used tells how far; the driver cuts the file there.
 *
 * @return GY_OK; GY_FORMAT a record that is whole but does not fit this job; GY_UNSUPPORTED
 * another version; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_manager_replay(gy_manager *manager, const void *journal,
                                          size_t size_bytes, size_t *used);

/** Before BEGIN, once: managers before this one may have begun exact tasks, and have left
 * nothing that can be read. Such a task starts when their leases are over. */
void gy_manager_begin_blind(gy_manager *manager);

/** How many of these bytes are whole records, from the first on. Pure. @threads any */
size_t gy_manager_measure(const void *journal, size_t size_bytes);

/** What was learnt of failures under earlier managers, in order; false: there is no index-th.
 * The bytes live as long as the manager. */
bool gy_manager_learnt(const gy_manager *manager, uint32_t index, const void **data,
                       size_t *size_bytes);

enum { GY_HOST_TEXT = 256 };

/** A host of the job. After replay those of the journal are neither up nor lost: tasks that
 * read what lies there wait until HOST_UP or HOST_LOST is said of it. */
typedef struct gy_host_state {
    gy_key id;
    const char *address, *name; /* live as long as the manager, until HOST_UP says others */
    bool is_up, is_expected;    /* neither: it is lost */
    bool is_avoided;
    uint32_t slots; /* that are open */
    uint32_t held;  /* tasks with outputs there that somebody still needs */
} gy_host_state;
/** All hosts have numbers below it; between them may be some that no host had. @cost O(1) */
uint32_t gy_manager_host_count(const gy_manager *manager);
/** false: no host had this number. @cost O(what was ever committed there, and its readers) */
bool gy_manager_host(const gy_manager *manager, uint32_t host, gy_host_state *state);

/** Slots that it could use now, those in use among them, and those for copies of late runs that
 * find no process. @cost O(1) */
uint32_t gy_manager_wanted(const gy_manager *manager);
/** The host where more slots are of no use: all that waits are copies of late runs that are
 * there; GY_NONE: it is not so. @cost O(1) */
uint32_t gy_manager_unwanted(const gy_manager *manager);
/** The most slots that a waiting cohort needs together, while no host has so many; or, while
 * nothing waits, those that the copy of a late one needs. 0: none waits for that. @cost O(1) */
uint32_t gy_manager_wanted_at_once(const gy_manager *manager);
/** They are for a copy of what is late at this daemon, which is none of theirs; 0: they are
 * not. @cost O(1) */
uint64_t gy_manager_wanted_not_at(const gy_manager *manager);
/** On how many hosts, as many on each: 1, or what gy_sched_task.hosts says. @cost O(1) */
uint32_t gy_manager_wanted_hosts(const gy_manager *manager);

enum { GY_WANTED_HOSTS = 16 };

/** On which hosts slots are wanted, by name. */
typedef struct gy_wanted_where {
    const char *hosts[GY_WANTED_HOSTS]; /* (count) the most wanted first; live as long as the
                                           manager */
    uint32_t count, must; /* the first `must` have tasks that run on their places alone */
    bool is_limited;      /* there are such tasks */
    uint32_t elsewhere;   /* of the slots that are wanted so many are of use on other hosts */
} gy_wanted_where;
/** @cost O(names of places and slots) */
void gy_manager_wanted_where(gy_manager *manager, gy_wanted_where *where);

/** Is there a task that must never run twice at once? Then its driver looks at the journal
 * again and again whether another manager has begun. */
bool gy_manager_has_exact(const gy_manager *manager);

/** Runs begun by this manager of tasks that have places: on one of them, and elsewhere. */
void gy_manager_placed(const gy_manager *manager, uint32_t *near, uint32_t *far);

/** A ready task that runs on its places alone while all of these are called by the given names,
 * and the job has no slot on any of them; GY_NONE: there is none. @cost O(ready pinned tasks)
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

/** Before BEGIN: a ready task whose key is there is committed without running. GY_NOMEM */
GY_MUST_CHECK gy_status gy_manager_remember(gy_manager *manager, const gy_sched_memo *memos,
                                            size_t count);

/**
 * The machine: one event, and all that follows from it. Effects are cleared first.
 *
 * @return GY_OK; GY_NOMEM: effects are empty and the manager is only good for gy_manager_free
 * @cost O(1) a task that starts, is committed or lost, and its edges; a timer looks at all that
 * is in flight
 */
GY_MUST_CHECK gy_status gy_manager_step(gy_manager *manager, const gy_sched_event *event,
                                        gy_effects *effects);

/** What room flow reads to write a START message. */
typedef struct gy_sched_task_state {
    gy_attempt committed; /* attempt 0: none stands */
    gy_key key, content;  /* of the last commit; key names its files */
    const void *report;   /* of the last commit; lives as long as the manager */
    size_t report_bytes;
    uint32_t stage;
    uint32_t host; /* that holds outputs of the last commit; GY_NONE: none does */
} gy_sched_task_state;
void gy_manager_task(const gy_manager *manager, uint32_t task, gy_sched_task_state *state);
/** Valid until a growth. */
void gy_manager_inputs(const gy_manager *manager, uint32_t task, const gy_edge **edges,
                       uint32_t *count);

/** An earlier growth, also one found by replay: how room flow makes its side of a resumed job
 * anew. */
typedef struct gy_grown {
    uint32_t stage, first_task, task_count;
    const void *detail; /* lives as long as the manager */
    size_t detail_bytes;
} gy_grown;
/** The index-th, in order of growth; false: there is none. */
bool gy_manager_grown(const gy_manager *manager, uint32_t index, gy_grown *grown);

/** runs: begun by this manager. failed: those that counted against their tasks, or ended the
 * job. memoised: committed without a run. */
typedef struct gy_stage_state {
    uint32_t tasks, committed, running, runs, failed, copies, backups_won, memoised;
    int64_t run_ns; /* of all runs that were committed */
} gy_stage_state;
void gy_manager_stage(const gy_manager *manager, uint32_t stage, gy_stage_state *state);
/** How many stages it has, and what one is called; lives as long as the manager. */
uint32_t gy_manager_stage_count(const gy_manager *manager);
const char *gy_manager_stage_name(const gy_manager *manager, uint32_t stage);
/** Tasks that it has, of all growths so far. */
uint32_t gy_manager_task_count(const gy_manager *manager);

/** A run that is under way. */
typedef struct gy_run_state {
    uint32_t task, stage, process;
    uint32_t host; /* GY_NONE: this machine */
    int64_t age_ns;
    int64_t late_ns; /* older than this it is copied; INT64_MAX: not known yet */
} gy_run_state;
/** Of the runs that take at least `ns_min` by now those that take longest, at most `most`,
 * the longest first; how many. @cost O(slots * threads * most) */
uint32_t gy_manager_slow(const gy_manager *manager, int64_t now_ns, int64_t ns_min,
                         gy_run_state *runs, uint32_t most);
/** All that it holds, about. */
size_t gy_manager_bytes(const gy_manager *manager);

#endif
