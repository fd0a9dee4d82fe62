/**
 * Inside a daemon: jobs, leases with their executors, fetches, and what its files offer each
 * other.
 */
#ifndef GY_CONTROL_DAEMON_DAEMON_PRIV_H
#define GY_CONTROL_DAEMON_DAEMON_PRIV_H

#include "base/index.h"
#include "base/step.h"
#include "control/daemon/daemon.h"
#include "control/plant.h"

typedef enum fork_server_state {
    FORK_SERVER_NONE,
    FORK_SERVER_STARTING,
    FORK_SERVER_UP,
    FORK_SERVER_ENDING,
} fork_server_state;

typedef enum hosted_state {
    HOSTED_NONE,
    HOSTED_SYNCING,
    HOSTED_UP,
    HOSTED_ENDING
} hosted_state;

typedef struct job_row {
    gy_key key;              /* 0: the row is free, and `leases` is the next free one */
    uint32_t epoch, started; /* synced; started: the epoch of the last manager started here */
    uint32_t sync_epoch, sync_started; /* of the SYNC under way */
    uint32_t want_epoch, want_started; /* to sync next, if larger */
    bool is_syncing, is_attaching, is_attached, is_over, has_files;
    bool is_kept; /* the job failed: its files are retained for a while */
    fork_server_state fork_server;
    uint32_t fork_server_epoch;
    hosted_state hosted;
    uint32_t hosted_epoch;
    uint32_t signal;    /* that killed the last one; 0: not known */
    bool is_waiting;    /* the hosted manager waits for its files */
    bool is_resumed;    /* the hosted manager resumes a job that had ended, */
    bool is_forgotten;  /* or removes its retained data */
    uint32_t slots_max; /* of one host, from its order */
    bool is_behind;     /* an order had an older epoch: the next state reports the known one */
    uint32_t leases;    /* number of leases */
    uint32_t sections;
    int64_t heard_ns; /* from the manager of `epoch` */
} job_row;

typedef enum executor_state {
    EXECUTOR_NONE,
    EXECUTOR_WAITING,
    EXECUTOR_UP,
    EXECUTOR_ENDING
} executor_state;

typedef struct lease_row {
    uint64_t id; /* 0: the row is free */
    uint32_t job, epoch, gang;
    bool is_ending;
    int64_t length_ns, given_ns;
    executor_state executor;
    uint32_t generation, executor_epoch;
    uint64_t credit, ready; /* towards the manager */
    /* Towards the process: in its window, of these not yet relayed. */
    uint64_t down, waiting, owed;
} lease_row;

typedef enum section_state {
    SECTION_NONE,
    SECTION_QUEUED,
    SECTION_RUNNING,
    SECTION_HERE,
} section_state;

typedef struct section_row {
    section_state state;
    uint32_t job, tries;
    gy_key content;
    /* lot: ticket of the transfer's first section. */
    uint64_t ticket, lot, peer, incarnation, size_bytes;
    int64_t due_ns;    /* a queued one does not start before */
    int64_t failed_ns; /* when its peer first seemed dead, in a row; 0: it does not */
    uint32_t next;     /* next free row */
    char address[GY_CONTROL_TEXT_BYTES];
} section_row;

/** Sections fetched in one transfer. */
typedef struct lot_row {
    uint64_t lot;
    uint32_t left; /* sections that have not ended */
} lot_row;

/** A request of a manager for a section. */
typedef struct waiter_row {
    uint32_t section; /* GY_NONE: the row is free */
    uint32_t job, epoch;
    uint64_t number;
} waiter_row;

struct gy_daemon {
    gy_daemon_options options;
    char address[GY_CONTROL_TEXT_BYTES], host[GY_CONTROL_TEXT_BYTES];
    char labels[GY_CONTROL_LABELS_BYTES], trouble[GY_CONTROL_REASON_BYTES];
    gy_status status; /* GY_NOMEM once an allocation failed */
    bool has_begun, has_ended, is_dirty;
    int64_t now_ns, timer_ns, beat_ns;
    int64_t over_ns; /* no lease expires before; INT64_MAX: there is none */
    uint64_t sequence, term, order, ticket;
    job_row *jobs;
    lease_row *leases; /* (slots) */
    section_row *sections;
    waiter_row *waiters;
    lot_row *lots;
    size_t lot_count, lot_capacity;
    size_t job_count, job_capacity, section_count, section_capacity, waiter_count,
        waiter_capacity;
    uint32_t free_job, free_section, lease_count, open_jobs, queued_fetches;
    gy_index by_job, by_lease, by_section, by_ticket;
    gy_daemon_effects *effects;
    gy_arena texts; /* of this step */
};

/* ---- effects.c ---- */
/**
 * A new effect of a job to fill in, valid until the next one; never NULL. job: GY_NONE, of
 * none.
 */
gy_daemon_effect *gy_daemon_emit(gy_daemon *daemon, gy_daemon_effect_kind kind, uint32_t job);
void gy_daemon_refuse(gy_daemon *daemon, const gy_daemon_event *event, gy_status status,
                      const char *reason);
void gy_daemon_no_memory(gy_daemon *daemon, gy_status status);
/** List the leases in a state: those of one job, or GY_NONE: all. */
void gy_daemon_list_leases(gy_daemon *daemon, uint32_t job, gy_daemon_state *state);
void gy_daemon_emit_state(gy_daemon *daemon);

/* ---- epochs.c ---- */
/** GY_NONE: not known. */
uint32_t gy_daemon_job(const gy_daemon *daemon, gy_key key);
uint32_t gy_daemon_job_new(gy_daemon *daemon, gy_key key);
void gy_daemon_attach(gy_daemon *daemon, const gy_daemon_event *event);
void gy_daemon_synced(gy_daemon *daemon, const gy_daemon_event *event);
/** Sync the wanted epoch, unless a sync is under way. */
void gy_daemon_sync(gy_daemon *daemon, uint32_t job);
/** May this manager give orders? If not, it is told which epoch is current. */
bool gy_daemon_may_order(gy_daemon *daemon, const gy_daemon_event *event, uint32_t *job);
void gy_daemon_start_manager(gy_daemon *daemon, const gy_control_order *order);
/**
 * Is the order's epoch older than the known one? If so, the next state tells the name server.
 */
bool gy_daemon_is_behind(gy_daemon *daemon, uint32_t job, const gy_control_order *order);
/** A process has ended: answer a manager that waited for the last one. */
void gy_daemon_attach_answer(gy_daemon *daemon, uint32_t job);
void gy_daemon_manager_waits(gy_daemon *daemon, const gy_daemon_event *event);
void gy_daemon_manager_down(gy_daemon *daemon, const gy_daemon_event *event);
void gy_daemon_over(gy_daemon *daemon, uint32_t job, bool is_kept);
/** Delete what is retained of a job, as its user wants. */
void gy_daemon_delete_retained(gy_daemon *daemon, const gy_control_order *order);
/** The job's processes have ended: delete its files; its manager may attach for another job. */
void gy_daemon_over_is_done(gy_daemon *daemon, uint32_t job);
/** Delete files of jobs without a manager, and records beyond the limit. */
void gy_daemon_check_jobs(gy_daemon *daemon);

/* ---- check.c ---- */

/** The first rule that a job's row breaks between two steps; NULL: none. @cost O(slots) */
const char *gy_daemon_job_fault(const gy_daemon *daemon, uint32_t job);
/** Check the rows that the event may have changed; a broken one is logged. */
bool gy_daemon_jobs_hold(const gy_daemon *daemon, const gy_daemon_event *event);

/* ---- leases.c ---- */
void gy_daemon_take_order(gy_daemon *daemon, const gy_control_order *order);
/** End its process, then the lease. */
void gy_daemon_lease_end(gy_daemon *daemon, uint32_t lease, const char *reason);
void gy_daemon_check_leases(gy_daemon *daemon);
/** End leases of older epochs than the job's. */
void gy_daemon_end_older(gy_daemon *daemon, uint32_t job);

/* ---- executors.c ---- */
void gy_daemon_open(gy_daemon *daemon, uint32_t job, const gy_daemon_event *event);
/** The lease whose executor has the event's generation; GY_NONE. */
uint32_t gy_daemon_executor(gy_daemon *daemon, const gy_daemon_event *event, uint32_t job);
void gy_daemon_executor_end(gy_daemon *daemon, uint32_t lease);
/** The executor has ended, and with it the lease if that has expired. */
void gy_daemon_executor_gone(gy_daemon *daemon, uint32_t lease, const char *reason);
void gy_daemon_relay_up(gy_daemon *daemon, uint32_t lease);
void gy_daemon_down(gy_daemon *daemon, uint32_t lease, uint64_t bytes);
void gy_daemon_took(gy_daemon *daemon, uint32_t lease, uint64_t bytes);
void gy_daemon_fork_server_end(gy_daemon *daemon, uint32_t job);
void gy_daemon_fork_server_reported(gy_daemon *daemon, const gy_daemon_event *event);
void gy_daemon_lease_free(gy_daemon *daemon, uint32_t lease);

/* ---- fetch.c ---- */
void gy_daemon_fetch(gy_daemon *daemon, uint32_t job, const gy_daemon_event *event);
void gy_daemon_unfetch(gy_daemon *daemon, uint32_t job, uint64_t number);
void gy_daemon_fetched(gy_daemon *daemon, const gy_daemon_event *event);
/** Drop the requests that are not of the job's epoch; is_all: and the sections too. */
void gy_daemon_drop_fetches(gy_daemon *daemon, uint32_t job, bool is_all);
/** Start the fetches that may start; when the next one may, INT64_MAX: none waits. */
int64_t gy_daemon_start_fetches(gy_daemon *daemon);

#endif
