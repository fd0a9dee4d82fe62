/**
 * The name server as a pure state machine: an event goes in, effects come out. It has no clock,
 * file, socket or thread. It knows daemons and jobs, leases slots, and ensures that each job
 * has a manager; it knows nothing of tasks.
 *
 * It stores what it must not forget: jobs, the epochs of their managers, and drained daemons.
 * This is a table of records, each with a version, stored by compare-and-set before anyone is
 * told. It does not store what daemons know (leases, managers): they report that again. If a
 * store is refused, or it meets something that only another name server can have given out, it
 * ends: its process creates a new one from the table.
 */
#ifndef GY_CONTROL_NAMES_NAMES_H
#define GY_CONTROL_NAMES_NAMES_H

#include "control/control.h"

typedef struct gy_names gy_names;

/** Zero: the default. */
typedef struct gy_names_options {
    int64_t dead_ns;     /* timeout of daemons and managers; 2 s */
    int64_t lease_ns;    /* of leases, at the daemon; 10 s */
    int64_t patience_ns; /* time a request waits before other jobs are preempted for it; 1 s */
    int64_t grace_ns;    /* from the preemption of a lease to its end; 10 s */
    /* A gang is not preempted before it had its slots for so long; 60 s. */
    int64_t gang_hold_ns;
    int64_t start_ns;      /* an ordered manager must report within; 10 s */
    uint32_t attempts_max; /* successive managers that did not report within attempts_max *
                              dead_ns; then the job fails; 5 */
    uint32_t daemon_max;   /* 4096 */
    uint32_t job_max;      /* running or waiting; 4096 */
    uint32_t manager_max;  /* at a daemon; 64. Other jobs wait */
    uint32_t ended_max;    /* ended jobs that are still listed; 1000 */
} gy_names_options;

/** What happened, and which members of gy_names_event carry it (kind and now_ns always). */
typedef enum gy_names_event_kind {
    GY_NAMES_BEGIN, /* once, after all gy_names_load */
    GY_NAMES_TIMER, /* the requested time has come */
    /* key, version, status: of a STORE. GY_OK: stored; GY_LIMIT: not stored, no room;
     * GY_MISMATCH: the record has another version; another failure: unknown. */
    GY_NAMES_STORED,
    GY_NAMES_DAEMON,     /* daemon: at each change, each heartbeat, each new connection */
    GY_NAMES_DAEMON_BYE, /* id, incarnation, life: it ended in order */
    GY_NAMES_MANAGER,    /* manager: at each change, each heartbeat, each new connection */
    /* key, epoch, lease, is_bad: the manager releases the lease. is_bad, reason: three
     * different vertices failed there. */
    GY_NAMES_GIVE_BACK,
    GY_NAMES_JOB_END, /* key, epoch, status, reason: from the manager, repeated until OVER */
    GY_NAMES_SUBMIT,  /* key, submit, asker: the same key again is the same job */
    GY_NAMES_KILL,    /* key, asker: from its user */
    /* key, epoch (of the manager after which it ended, as its user saw it), asker: resume a job
     * that failed, with the next epoch; is_on: only remove its retained data. A repeated
     * request with the same epoch is the same one. */
    GY_NAMES_RESUME,
    GY_NAMES_DRAIN, /* id, is_on, asker: from the operator */
} gy_names_event_kind;

/** The requirements of a job; texts are copied. */
typedef struct gy_submit {
    gy_key spec;        /* hash of program, files and options */
    uint64_t platform;  /* that daemons must have; 0: any */
    uint32_t weight;    /* of its share, 1 .. 1000; 0: 100 */
    uint32_t slots_max; /* at once; 0: no limit */
    const char *name;   /* for display */
    const char *label;  /* that daemons must have; "": any */
} gy_submit;

typedef struct gy_names_event {
    gy_names_event_kind kind;
    gy_status status;
    int64_t now_ns;
    gy_key key;
    uint64_t version;
    uint64_t id, incarnation, life, lease;
    uint64_t asker; /* returned with the answer */
    uint32_t epoch;
    bool is_bad, is_on;
    const gy_daemon_state *daemon;
    const gy_manager_requests *manager;
    const gy_submit *submit;
    const char *reason;
} gy_names_event;

/** What the process must do, and which members of gy_names_effect carry it. */
typedef enum gy_names_effect_kind {
    /* key, version, data, size_bytes: write the record if it has this version (0: if it does
     * not exist); its version then rises by one. size 0: remove it. Then STORED with all three.
     */
    GY_NAMES_STORE,
    GY_NAMES_ORDER, /* order: send it to the daemon; a loss does no harm */
    /*
     * To the manager: key, epoch, address, version, from, allocations, allocation_count; is_on:
     * its user killed the job; missing: bits of the required hosts, in the requests numbered
     * `sequence`, that are down or cannot run this job; never, most: a gang that needs more
     * slots on one host than `most`, the maximum of any daemon suitable for the job, up or not.
     * The manager takes the allocations if `from` is not larger than the version that it has,
     * and then has `version`. A loss does no harm.
     */
    GY_NAMES_ALLOCATIONS,
    /*
     * key, epoch, address, status: to the manager (address "": to the sender of the last
     * message as that manager). GY_STATE: its epoch has ended; GY_OK: its job's end is stored;
     * GY_NOTFOUND: this name server does not know the job, so it goes on, as the name server
     * may be outdated or have forgotten the job's end
     */
    GY_NAMES_OVER,
    GY_NAMES_ANSWER, /* asker, status, reason */
    GY_NAMES_ENDED, /* key, status, reason: the job's end is stored; tell all who wait for it */
    GY_NAMES_WAKE,  /* at_ns: send TIMER then; of several the earliest counts */
    GY_NAMES_NOTE,  /* key or id, reason: for the log */
    GY_NAMES_END, /* status, reason: no effect follows; create a new name server from the table
                   */
} gy_names_effect_kind;

/** Pointers are valid until the next step. */
typedef struct gy_names_effect {
    gy_names_effect_kind kind;
    gy_status status;
    gy_key key;
    uint32_t epoch;
    uint64_t id, version, from, asker, sequence;
    uint32_t missing;
    const void *data;
    size_t size_bytes;
    gy_control_order order;
    const gy_allocation *allocations;
    size_t allocation_count;
    uint32_t never, most;
    bool is_on;
    const char *address, *reason;
    int64_t at_ns;
} gy_names_effect;

/** Owned by the caller and reused over steps to save allocations. */
typedef struct gy_names_effects {
    gy_names_effect *items;
    size_t count, capacity;
    gy_names_effect nowhere; /* written when an allocation failed; never read */
} gy_names_effects;

/**
 * GY_ARG a bad option; GY_NOMEM. @threads all calls of one name server on one thread at a time
 */
GY_MUST_CHECK gy_status gy_names_new(const gy_names_options *options, gy_names **names);
/** NULL is allowed. */
void gy_names_free(gy_names *names);

/** Before BEGIN: a record of the table. GY_FORMAT; GY_UNSUPPORTED another version; GY_NOMEM */
GY_MUST_CHECK gy_status gy_names_load(gy_names *names, gy_key key, uint64_t version,
                                      const void *data, size_t size_bytes);

/**
 * Take one event and emit the effects that follow from it. Effects are cleared first.
 *
 * @return GY_OK; GY_NOMEM: effects are empty, and only gy_names_free may be called
 * @cost what the event concerns, O(log jobs + log daemons) for each slot that changes its
 * owner; a timer visits the jobs that have or want slots
 */
GY_MUST_CHECK gy_status gy_names_step(gy_names *names, const gy_names_event *event,
                                      gy_names_effects *effects);

/* ---- For lists; texts are valid until the next step ---- */

typedef struct gy_names_daemon {
    uint64_t id, incarnation, platform;
    const char *address, *host, *labels, *trouble;
    uint32_t slots, leased, managers;
    bool is_up, is_drained;
    int64_t heard_ns;
} gy_names_daemon;

typedef struct gy_names_job {
    gy_key key, spec;
    uint64_t platform;          /* 0: any */
    const char *name, *address; /* of the manager; "": not known */
    const char *reason;         /* of its end, or for what it waits */
    uint32_t epoch, weight, slots_wanted, slots_held, attempts;
    bool is_ended, is_up;
    bool is_gone;     /* its retained data have been removed, as a waiting user is told */
    gy_status status; /* of its end */
} gy_names_job;

#define GY_NAMES_GONE_TEXT "its retained files are removed"

/** The index-th; false: there is none. Rows may be empty: key 0, id 0. */
bool gy_names_daemon_at(const gy_names *names, uint32_t index, gy_names_daemon *daemon);
bool gy_names_job_at(const gy_names *names, uint32_t index, gy_names_job *job);
/** The job with this key; false: none, or not accepted yet. @cost O(1) */
bool gy_names_find_job(const gy_names *names, gy_key key, gy_names_job *job);

#endif
