/**
 * A daemon as a pure state machine: an event goes in, effects come out. It has no clock, file,
 * socket or thread.
 *
 * Its slots are leased to managers by the name server. For each job with a lease it has a fork
 * server, and in it a process for each lease that the manager opened: the lease's *executor*.
 * It relays bytes between processes and manager without reading them, as far as there is
 * credit.
 *
 * It obeys only the manager of the highest epoch that it has synced. It syncs a higher epoch
 * first, then ends what the older one ran. It accepts the name server's orders by their numbers
 * (control.h), whichever name server sends them.
 */
#ifndef GY_CONTROL_DAEMON_DAEMON_H
#define GY_CONTROL_DAEMON_DAEMON_H

#include "control/control.h"

typedef struct gy_daemon gy_daemon;

enum {
    GY_DAEMON_LOT = 48,              /* sections in one transfer, at most */
    GY_DAEMON_LOT_ONE = 64 << 10,    /* bytes of each, at most */
    GY_DAEMON_LOT_BYTES = 512 << 10, /* bytes of all of them, at most */
};

/** A zero value selects the default where one is given. Texts are copied. */
typedef struct gy_daemon_options {
    uint64_t id, incarnation, life; /* gy_daemon_state; not 0 */
    uint64_t platform;
    uint32_t slots; /* 1 .. GY_CONTROL_SLOTS_MAX */
    const char *address, *host, *labels;
    int64_t beat_ns;       /* interval of states sent to the name server; 400 ms */
    int64_t keep_ns;       /* a job's files are retained for so long after its manager; 10 s */
    int64_t fetch_ns;      /* a fetch from a dead peer is retried for so long; 2 s */
    uint32_t fetch_max;    /* concurrent transfers; 8 */
    uint32_t window_bytes; /* of an executor, towards its process; 256 KiB */
    uint32_t records_max;  /* records of jobs without files to retain; 4096 */
} gy_daemon_options;

/** A section of a file at another daemon, named by its content. */
typedef struct gy_wanted_section {
    gy_key content;
    uint64_t peer, incarnation; /* the daemon that has it */
    const char *address;
    uint64_t size_bytes;
} gy_wanted_section;

/** What happened, and which members of gy_daemon_event carry it (kind and now_ns always). */
typedef enum gy_daemon_event_kind {
    GY_DAEMON_BEGIN, /* once, after all gy_daemon_load */
    GY_DAEMON_TIMER,
    GY_DAEMON_STOP,     /* end in order */
    GY_DAEMON_NAMES_UP, /* a connection to the name server exists, maybe a new one */
    GY_DAEMON_ORDER,    /* order: from the name server */
    GY_DAEMON_DISK,     /* reason: why nothing can be written ("disk full"); "": it can */
    /* From a manager: job, epoch and ... */
    GY_DAEMON_ATTACH, /* first of all, and on each new connection */
    GY_DAEMON_BEAT,   /* heartbeat */
    /* lease, generation, bytes (credit): start a process in the executor. A manager counts
     * generations over all its leases: a larger generation replaces the running process
     * (GY_AGAIN until that has ended). */
    GY_DAEMON_OPEN,
    GY_DAEMON_CLOSE,   /* lease, generation: kill it */
    GY_DAEMON_CREDIT,  /* lease, generation, bytes: the process may send so many more */
    GY_DAEMON_DOWN,    /* lease, generation, bytes: data for the process, within its window */
    GY_DAEMON_FETCH,   /* number, section: fetch it to this host; is_more: another FETCH follows
                          at once, so wait for it */
    GY_DAEMON_UNFETCH, /* number: no longer needed */
    /* The job has ended: delete its files. is_kept: it failed, and the files are retained as
     * after a manager that fell silent. An ATTACH with the same epoch comes from the program's
     * next job, and is answered when the old processes have ended. */
    GY_DAEMON_OVER,
    /* From the daemon's own side */
    GY_DAEMON_SYNCED,           /* job, status: the answer to SYNC */
    GY_DAEMON_FORK_SERVER_UP,   /* job, epoch */
    GY_DAEMON_FORK_SERVER_DOWN, /* job, epoch, reason: it and all that it started have ended */
    GY_DAEMON_EXECUTOR_DOWN,    /* lease, generation, reason: its process has ended */
    GY_DAEMON_EXECUTOR_READY,   /* lease, generation, bytes: so many more are ready for the
                                   manager */
    GY_DAEMON_EXECUTOR_TOOK,    /* lease, generation, bytes: accepted, of those of RELAY_DOWN */
    /* job, epoch: that manager cannot start before its files have arrived; it has started */
    GY_DAEMON_MANAGER_WAITS,
    GY_DAEMON_MANAGER_RUNS,
    GY_DAEMON_MANAGER_DOWN, /* job, epoch, signal: that manager's process has ended */
    GY_DAEMON_FETCHED, /* ticket, status: OK; PEER: the peer is dead; NOTFOUND: it has no such
                          file; MISMATCH: other bytes; LIMIT: the disk is full; others */
} gy_daemon_event_kind;

typedef struct gy_daemon_event {
    gy_daemon_event_kind kind;
    gy_status status;
    int64_t now_ns;
    gy_key job;
    uint32_t epoch, generation;
    uint64_t lease, number, ticket, bytes;
    bool is_more, is_kept;
    uint32_t signal; /* 0: not known, or not killed */
    const gy_control_order *order;
    const gy_wanted_section *section;
    const char *reason;
} gy_daemon_event;

/** What the process must do, and which members of gy_daemon_effect carry it. */
typedef enum gy_daemon_effect_kind {
    GY_DAEMON_STATE, /* state: send it to the name server; a loss does no harm */
    GY_DAEMON_BYE,   /* to the name server; no effect follows */
    GY_DAEMON_SYNC,  /* job, epoch, started: write this record of the job, sync, then SYNCED */
    /* job, epoch, is_resumed, is_forgotten, slots_max (as in the order): MANAGER_DOWN follows
     * when it ends */
    GY_DAEMON_MANAGER_START,
    GY_DAEMON_MANAGER_END,       /* job, epoch: kill it */
    GY_DAEMON_FORK_SERVER_START, /* job, epoch: then FORK_SERVER_UP or FORK_SERVER_DOWN */
    GY_DAEMON_FORK_SERVER_END,   /* job, epoch: kill it with all its processes, then
                                    FORK_SERVER_DOWN */
    GY_DAEMON_EXECUTOR_START,    /* job, epoch, lease, generation */
    GY_DAEMON_EXECUTOR_END,      /* job, lease, generation: kill it, then EXECUTOR_DOWN */
    GY_DAEMON_RELAY_UP,          /* job, lease, generation, bytes: to the manager */
    GY_DAEMON_RELAY_DOWN,        /* job, lease, generation, bytes: to the process */
    /* job, ticket, section: then FETCHED. lot_left: so many more FETCH_START follow at once for
     * the same transfer, small sections of the same peer; each fails by itself */
    GY_DAEMON_FETCH_START,
    GY_DAEMON_FETCH_STOP, /* ticket: cancel; no FETCHED follows */
    GY_DAEMON_DISCARD,    /* job: delete its files, except those of a manager that runs here */
    GY_DAEMON_FORGET,     /* job: delete the record too */
    /* To the manager: job, epoch and ... */
    GY_DAEMON_TELL_ATTACHED,      /* state.leases, only of this job */
    GY_DAEMON_TELL_REFUSED,       /* status, reason: GY_STATE with `started`, the current epoch;
                                     lease, number: of the refused request */
    GY_DAEMON_TELL_LEASE_GONE,    /* lease, reason */
    GY_DAEMON_TELL_EXECUTOR_GONE, /* lease, generation, reason */
    GY_DAEMON_TELL_CREDIT,        /* lease, generation, bytes: free in the window again */
    GY_DAEMON_TELL_FETCHED,       /* number, status */
    GY_DAEMON_WAKE,               /* at_ns: send TIMER then; of several the earliest counts */
    GY_DAEMON_NOTE,               /* job, reason: for the log */
} gy_daemon_effect_kind;

/** Pointers are valid until the next step. */
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

/** Owned by the caller and reused over steps to save allocations. */
typedef struct gy_daemon_effects {
    gy_daemon_effect *items;
    size_t count, capacity;
    gy_daemon_effect nowhere; /* written when an allocation failed; never read */
} gy_daemon_effects;

/** GY_ARG a bad option; GY_NOMEM. @threads all calls of one daemon on one thread at a time */
GY_MUST_CHECK gy_status gy_daemon_new(const gy_daemon_options *options, gy_daemon **daemon);
/** NULL is allowed. */
void gy_daemon_free(gy_daemon *daemon);

/**
 * Before BEGIN: load a job's record, as SYNC wrote it in an earlier life. has_files: the folder
 * contains files of the job. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_daemon_load(gy_daemon *daemon, gy_key job, uint32_t epoch,
                                       uint32_t started, bool has_files);

/**
 * Take one event and emit the effects that follow from it. Effects are cleared first.
 *
 * @return GY_OK; GY_NOMEM: effects are empty, and only gy_daemon_free may be called
 * @cost what the event concerns; after a change of a lease all leases, to write the state; a
 * timer visits all leases, jobs and fetches
 */
GY_MUST_CHECK gy_status gy_daemon_step(gy_daemon *daemon, const gy_daemon_event *event,
                                       gy_daemon_effects *effects);

#endif
