/**
 * The name server as a machine: an event in, effects out. Pure: no clock, no file, no socket,
 * no thread. It knows daemons and jobs, lends slots, and sees that a job has a manager; of
 * tasks it knows nothing.
 *
 * What it must not forget are jobs, the epochs it gave to their managers, and which daemons are
 * drained: a table of records, each with a version, stored by compare-and-set before anybody is
 * told. What stands at a daemon (leases, managers) is not stored: the daemon itself tells it
 * again. A name server whose store is refused, or that meets what only another can have given,
 * ends: its process makes it anew from the table.
 */
#ifndef GY_CONTROL_NAMES_NAMES_H
#define GY_CONTROL_NAMES_NAMES_H

#include "control/control.h"

typedef struct gy_names gy_names;

/** Zero: the default. */
typedef struct gy_names_options {
    int64_t dead_ns;       /* daemon or manager silent for so long: lost; 2 s */
    int64_t lease_ns;      /* of leases, at the daemon; 10 s */
    int64_t patience_ns;   /* a request waits so long before others are asked to give; 1 s */
    int64_t grace_ns;      /* from being asked to losing it; 10 s */
    int64_t gang_hold_ns;  /* a gang is not asked before it had its slots so long; 60 s */
    int64_t start_ns;      /* a manager that was ordered is heard within; 10 s */
    uint32_t attempts_max; /* managers in a row that were not heard for attempts_max * dead_ns;
                              then the job fails; 5 */
    uint32_t daemon_max;   /* 4096 */
    uint32_t job_max;      /* not ended; 4096 */
    uint32_t manager_max;  /* at a daemon; 64. Other jobs wait */
    uint32_t ended_max;    /* ended, still to be listed; 1000 */
} gy_names_options;

/** What happened, and the members of gy_names_event that say it (kind and now_ns always). */
typedef enum gy_names_event_kind {
    GY_NAMES_BEGIN, /* once, after all gy_names_load */
    GY_NAMES_TIMER, /* the time asked for has come */
    /* key, version, status: of a STORE. GY_OK it stands; GY_LIMIT surely not, no room;
     * GY_MISMATCH another version is there; another failure: not known. */
    GY_NAMES_STORED,
    GY_NAMES_DAEMON,     /* daemon: on each change, each beat, each new connection */
    GY_NAMES_DAEMON_BYE, /* id, incarnation, life: it ended in order */
    GY_NAMES_MANAGER,    /* manager: likewise */
    /* key, epoch, lease, is_bad: the manager is done with it. is_bad, reason: three different
     * vertices failed there. */
    GY_NAMES_GIVE_BACK,
    GY_NAMES_JOB_END, /* key, epoch, status, reason: from the manager, until OVER */
    GY_NAMES_SUBMIT,  /* key, submit, asker: again under the same key is the same job */
    GY_NAMES_KILL,    /* key, asker: by its user */
    /* key, epoch (of the manager after which it ended, as its user was told), asker: a job that
     * did not end well goes on, with the next epoch; is_on: only to remove what is kept of it.
     * Again with the same epoch is the same. */
    GY_NAMES_RESUME,
    GY_NAMES_DRAIN, /* id, is_on, asker: by the operator */
} gy_names_event_kind;

/** What is asked for with a job; texts are copied. */
typedef struct gy_submit {
    gy_key spec;        /* hash of program, files and options */
    uint64_t platform;  /* as a daemon's; 0: any */
    uint32_t weight;    /* of its share, 1 .. 1000; 0: 100 */
    uint32_t slots_max; /* at once; 0: no limit */
    const char *name;   /* for people */
    const char *label;  /* daemons must have it; "": any */
} gy_submit;

typedef struct gy_names_event {
    gy_names_event_kind kind;
    gy_status status;
    int64_t now_ns;
    gy_key key;
    uint64_t version;
    uint64_t id, incarnation, life, lease;
    uint64_t asker; /* comes back with the answer */
    uint32_t epoch;
    bool is_bad, is_on;
    const gy_daemon_state *daemon;
    const gy_manager_requests *manager;
    const gy_submit *submit;
    const char *reason;
} gy_names_event;

/** What is to be done, and the members of gy_names_effect that say it. */
typedef enum gy_names_effect_kind {
    /* key, version, data, size_bytes: write the record if it has this version (0: if there is
     * none); it then has one more. size 0: remove it. Then STORED with all three. */
    GY_NAMES_STORE,
    GY_NAMES_ORDER, /* order: to the daemon; losing it is no harm */
    /* key, epoch, address, version, from, allocations, allocation_count, is_on (its user killed
     * the job), sequence, missing (of the requests with this number: bits of the hosts that
     * must be and are not there, or run nothing of this job), never, most (a gang that wants
     * more slots on one host than any daemon has that the job may run at, there or not; and
     * that most): to the manager. It takes what is allocated when `from` is not larger than the
     * version that it has, and then has `version`. Losing it is no harm. */
    GY_NAMES_ALLOCATIONS,
    /* key, epoch, address, status: to the manager (address "": to whoever just spoke as that
     * one): your epoch is over (GY_STATE), your job's end is stored (GY_OK), I do not know the
     * job (GY_NOTFOUND: go on; an older name server may say so, or one that has forgotten its
     * end)
     */
    GY_NAMES_OVER,
    GY_NAMES_ANSWER, /* asker, status, reason */
    GY_NAMES_ENDED,  /* key, status, reason: the job's end is stored, to whoever waits */
    GY_NAMES_WAKE,   /* at_ns: TIMER; of several the earliest counts */
    GY_NAMES_NOTE,   /* key or id, reason: for people */
    GY_NAMES_END,    /* status, reason: nothing follows; make it anew from the table */
} gy_names_effect_kind;

/** Pointers are good until the next step. */
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

/** Owned by the caller, kept over steps to save allocations. */
typedef struct gy_names_effects {
    gy_names_effect *items;
    size_t count, capacity;
    gy_names_effect nowhere; /* filled in, and read by nobody, where memory fails */
} gy_names_effects;

/** GY_ARG a wrong option; GY_NOMEM. @threads all calls of one on one thread at a time */
GY_MUST_CHECK gy_status gy_names_new(const gy_names_options *options, gy_names **names);
/** NULL is fine. */
void gy_names_free(gy_names *names);

/** Before BEGIN: a record of the table. GY_FORMAT; GY_UNSUPPORTED another version; GY_NOMEM */
GY_MUST_CHECK gy_status gy_names_load(gy_names *names, gy_key key, uint64_t version,
                                      const void *data, size_t size_bytes);

/**
 * The machine: one event, and all that follows from it. Effects are cleared first.
 *
 * @return GY_OK; GY_NOMEM: effects are empty, and it is only good for gy_names_free
 * @cost what the event speaks of, O(log jobs + log daemons) a slot that changes hands; a timer
 * looks at jobs that have or want slots
 */
GY_MUST_CHECK gy_status gy_names_step(gy_names *names, const gy_names_event *event,
                                      gy_names_effects *effects);

/* ---- For lists; texts are good until the next step ---- */

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
    const char *name, *address; /* of the manager; "": none is known */
    const char *reason;         /* of its end, or what it waits for */
    uint32_t epoch, weight, slots_wanted, slots_held, attempts;
    bool is_ended, is_up;
    bool is_gone;     /* and what was kept of it is removed, which is what a wait hears */
    gy_status status; /* of its end */
} gy_names_job;

#define GY_NAMES_GONE_TEXT "its retained files are removed"

/** The index-th; false: there is none. Indices may have holes of their own: key 0, id 0. */
bool gy_names_look_daemon(const gy_names *names, uint32_t index, gy_names_daemon *daemon);
bool gy_names_look_job(const gy_names *names, uint32_t index, gy_names_job *job);
/** The one of this key; false: none, or not accepted yet. @cost O(1) */
bool gy_names_find_job(const gy_names *names, gy_key key, gy_names_job *job);

#endif
