/**
 * A daemon as a machine: an event in, effects out. Pure: no clock, no file, no socket, no
 * thread. It has slots, which the name server lends to managers; for each job that has some a
 * fork server, and in it a process for each lease that its manager opened: the lease's
 * *executor*. What processes and manager say to each other it hands on unread, as far as there
 * is credit.
 *
 * It obeys the manager of the highest epoch that it has synced, and no other; a higher one it
 * syncs first, then it ends what the older one ran. The name server's orders it takes by their
 * numbers (control.h), whichever name server gives them.
 */
#ifndef GY_CONTROL_DAEMON_DAEMON_H
#define GY_CONTROL_DAEMON_DAEMON_H

#include "control/control.h"

typedef struct gy_daemon gy_daemon;

enum {
    GY_DAEMON_LOT = 48,              /* sections of one transfer */
    GY_DAEMON_LOT_ONE = 64 << 10,    /* bytes of each, at most */
    GY_DAEMON_LOT_BYTES = 512 << 10, /* of all of them */
};

/** Zero, where it says so: the default. Texts are copied. */
typedef struct gy_daemon_options {
    uint64_t id, incarnation, life; /* gy_daemon_state; not 0 */
    uint64_t platform;
    uint32_t slots; /* 1 .. GY_CONTROL_SLOTS_MAX */
    const char *address, *host, *labels;
    int64_t beat_ns;       /* between two words to the name server; 400 ms */
    int64_t keep_ns;       /* a job's files stay so long after its manager; 10 s */
    int64_t fetch_ns;      /* a peer is tried again for so long; 2 s */
    uint32_t fetch_max;    /* transfers at once; 8 */
    uint32_t window_bytes; /* of an executor, towards its process; 256 KiB */
    uint32_t records_max;  /* epochs of jobs without files that are remembered; 4096 */
} gy_daemon_options;

/** A section of a file at another daemon, named by its content. */
typedef struct gy_wanted_section {
    gy_key content;
    uint64_t peer, incarnation; /* daemon that has it */
    const char *address;
    uint64_t size_bytes;
} gy_wanted_section;

/** What happened, and the members of gy_daemon_event that say it (kind and now_ns always). */
typedef enum gy_daemon_event_kind {
    GY_DAEMON_BEGIN, /* once, after all gy_daemon_load */
    GY_DAEMON_TIMER,
    GY_DAEMON_STOP,     /* it shall end in order */
    GY_DAEMON_NAMES_UP, /* there is a connection to the name server, or a new one */
    GY_DAEMON_ORDER,    /* order: of the name server */
    GY_DAEMON_DISK,     /* reason: why nothing can be written ("disk full"); "": it can */
    /* Of a manager: job, epoch and ... */
    GY_DAEMON_ATTACH, /* before all else, and on each new connection */
    GY_DAEMON_BEAT,   /* it lives */
    /* lease, generation, bytes (credit): a process in its executor. A manager counts
     * generations over all its leases: one of a larger generation takes the place of the one
     * that is there (GY_AGAIN until that is gone). */
    GY_DAEMON_OPEN,
    GY_DAEMON_CLOSE,   /* lease, generation: kill it */
    GY_DAEMON_CREDIT,  /* lease, generation, bytes: the process may say so many more */
    GY_DAEMON_DOWN,    /* lease, generation, bytes: for the process, within its window */
    GY_DAEMON_FETCH,   /* number, section: bring it here; is_more: another one follows at once,
                          nothing is started before */
    GY_DAEMON_UNFETCH, /* number: not wanted any more */
    /* The job has ended: its files may go; is_kept: it did not end well, and they stay as long
     * as those of a manager that is silent. An ATTACH of the same epoch is of the program's
     * next job, and is answered when its processes are gone. */
    GY_DAEMON_OVER,
    /* Of its own side */
    GY_DAEMON_SYNCED,           /* job, status: the answer to SYNC */
    GY_DAEMON_FORK_SERVER_UP,   /* job, epoch */
    GY_DAEMON_FORK_SERVER_DOWN, /* job, epoch, reason: it and all that it started are gone */
    GY_DAEMON_EXECUTOR_DOWN,    /* lease, generation, reason: its process is gone */
    GY_DAEMON_EXECUTOR_READY, /* lease, generation, bytes: more of them wait for the manager */
    GY_DAEMON_EXECUTOR_TOOK,  /* lease, generation, bytes: of those of RELAY_DOWN */
    /* job, epoch: that manager is not started before its files are here; it is started now */
    GY_DAEMON_MANAGER_WAITS,
    GY_DAEMON_MANAGER_RUNS,
    GY_DAEMON_MANAGER_DOWN, /* job, epoch, signal: that manager's process is gone */
    GY_DAEMON_FETCHED,      /* ticket, status: OK; PEER dead; NOTFOUND it has no such file;
                               MISMATCH other bytes; LIMIT the disk is full; another */
} gy_daemon_event_kind;

typedef struct gy_daemon_event {
    gy_daemon_event_kind kind;
    gy_status status;
    int64_t now_ns;
    gy_key job;
    uint32_t epoch, generation;
    uint64_t lease, number, ticket, bytes;
    bool is_more, is_kept;
    uint32_t signal; /* 0: not known, or not by one */
    const gy_control_order *order;
    const gy_wanted_section *section;
    const char *reason;
} gy_daemon_event;

/** What is to be done, and the members of gy_daemon_effect that say it. */
typedef enum gy_daemon_effect_kind {
    GY_DAEMON_STATE, /* state: to the name server; losing it is no harm */
    GY_DAEMON_BYE,   /* to the name server; nothing follows */
    GY_DAEMON_SYNC,  /* job, epoch, started: write this record of the job, sync, then SYNCED */
    /* job, epoch, is_resumed, is_forgotten, slots_max (as in its order): then MANAGER_DOWN,
     * some day */
    GY_DAEMON_MANAGER_START,
    GY_DAEMON_MANAGER_END,       /* job, epoch: kill it */
    GY_DAEMON_FORK_SERVER_START, /* job, epoch: then FORK_SERVER_UP or FORK_SERVER_DOWN */
    GY_DAEMON_FORK_SERVER_END,   /* job, epoch: kill all of it, then FORK_SERVER_DOWN */
    GY_DAEMON_EXECUTOR_START,    /* job, epoch, lease, generation */
    GY_DAEMON_EXECUTOR_END,      /* job, lease, generation: kill it, then EXECUTOR_DOWN */
    GY_DAEMON_RELAY_UP,          /* job, lease, generation, bytes: to the manager */
    GY_DAEMON_RELAY_DOWN,        /* job, lease, generation, bytes: to the process */
    /* job, ticket, section: then FETCHED. lot_left: so many more follow at once that shall come
     * with it in one transfer, small ones of the same peer; each fails alone */
    GY_DAEMON_FETCH_START,
    GY_DAEMON_FETCH_STOP, /* ticket: no FETCHED any more */
    GY_DAEMON_DISCARD,    /* job: its files go, but for those of a manager that runs here */
    GY_DAEMON_FORGET,     /* job: the record too */
    /* To the manager: job, epoch and ... */
    GY_DAEMON_TELL_ATTACHED,      /* state.leases, of this job */
    GY_DAEMON_TELL_REFUSED,       /* status, reason: GY_STATE with `started`, the epoch that is;
                                     lease, number: what was asked */
    GY_DAEMON_TELL_LEASE_GONE,    /* lease, reason */
    GY_DAEMON_TELL_EXECUTOR_GONE, /* lease, generation, reason */
    GY_DAEMON_TELL_CREDIT,        /* lease, generation, bytes: of the window are free again */
    GY_DAEMON_TELL_FETCHED,       /* number, status */
    GY_DAEMON_WAKE,               /* at_ns: TIMER; of several the earliest counts */
    GY_DAEMON_NOTE,               /* job, reason: for people */
} gy_daemon_effect_kind;

/** Pointers are good until the next step. */
typedef struct gy_daemon_effect {
    gy_daemon_effect_kind kind;
    gy_status status;
    gy_key job;
    uint32_t epoch, started, generation, lot_left, slots_max;
    uint64_t lease, number, ticket, bytes;
    bool is_resumed, is_forgotten;
    gy_daemon_state state;
    gy_wanted_section section;
    int64_t at_ns;
    const char *reason;
} gy_daemon_effect;

/** Owned by the caller, kept over steps to save allocations. */
typedef struct gy_daemon_effects {
    gy_daemon_effect *items;
    size_t count, capacity;
    gy_daemon_effect nowhere; /* filled in, and read by nobody, where memory fails */
} gy_daemon_effects;

/** GY_ARG a wrong option; GY_NOMEM. @threads all calls of one on one thread at a time */
GY_MUST_CHECK gy_status gy_daemon_new(const gy_daemon_options *options, gy_daemon **daemon);
/** NULL is fine. */
void gy_daemon_free(gy_daemon *daemon);

/**
 * Before BEGIN: a job's record, as SYNC wrote it in an earlier life. has_files: some of the
 * job's are in the folder. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_daemon_load(gy_daemon *daemon, gy_key job, uint32_t epoch,
                                       uint32_t started, bool has_files);

/**
 * The machine: one event, and all that follows from it. Effects are cleared first.
 *
 * @return GY_OK; GY_NOMEM: effects are empty, and it is only good for gy_daemon_free
 * @cost what the event speaks of; with each change of a lease its own leases, for what it says;
 * a timer looks at all its leases, jobs and fetches
 */
GY_MUST_CHECK gy_status gy_daemon_step(gy_daemon *daemon, const gy_daemon_event *event,
                                       gy_daemon_effects *effects);

#endif
