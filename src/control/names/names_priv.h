/**
 * Inside the name server: rows of daemons, jobs and leases, joined by lists, and what its files
 * offer each other.
 *
 * A lease is one slot. It stands in its daemon's list until the daemon does not say it any
 * more, and in its job's list, newest change last, until the manager has seen that it is gone.
 */
#ifndef GY_CONTROL_NAMES_NAMES_PRIV_H
#define GY_CONTROL_NAMES_NAMES_PRIV_H

#include "base/index.h"
#include "base/step.h"
#include "control/names/names.h"
#include "control/plant.h"

typedef enum lease_state {
    LEASE_FREE,
    LEASE_OFFERED, /* the daemon was told */
    LEASE_PART,    /* it has it; others of the gang are missing */
    LEASE_HELD,
    LEASE_ASKED,  /* the manager shall give it back */
    LEASE_ENDING, /* the daemon shall end it */
    LEASE_GONE,   /* the manager is yet to see that */
} lease_state;

/** Neighbours in a list of rows; GY_NONE: none. */
typedef struct links {
    uint32_t previous, next;
} links;

typedef struct list {
    uint32_t first, last;
} list;

typedef struct lease_row {
    lease_state state;
    uint32_t daemon, job; /* indices; free ones: `job` is the next free */
    uint32_t epoch, gang;
    uint32_t lot; /* of the first of a lot: how many; of the others 0 */
    uint64_t id;
    uint64_t offered, order; /* numbers of the order that lent it and of the last order */
    uint64_t version;        /* of its last change that the manager is told; 0: none */
    uint32_t round;          /* of its daemon's last state that had it */
    bool is_confirmed;
    int64_t told_ns, held_ns, asked_ns;
    links at_daemon, at_job, in_asked;
} lease_row;

enum { PAST = 4 };

typedef struct daemon_row {
    uint64_t id; /* 0: the row is free */
    uint64_t incarnation, life, sequence;
    uint64_t past[PAST]; /* incarnations that are over */
    uint32_t twin_words; /* of another daemon with this one's identity */
    int64_t twin_ns;     /* from then on that is said again */
    uint64_t platform;
    uint64_t version;     /* of its record; 0: none */
    uint64_t term, order; /* that it has seen */
    gy_key bad_job;       /* whose manager called it bad */
    uint32_t past_next;
    uint32_t slots, used, managers;
    uint32_t hosted; /* in `jobs` */
    uint32_t round;
    bool is_up, is_drained, has_bad, is_storing, next_drained;
    uint64_t asker;
    int64_t heard_ns;
    list leases, jobs; /* jobs: whose manager it runs */
    char address[GY_CONTROL_TEXT_BYTES], host[GY_CONTROL_TEXT_BYTES];
    char labels[GY_CONTROL_LABELS_BYTES], trouble[GY_CONTROL_REASON_BYTES];
} daemon_row;

typedef enum job_state {
    JOB_FREE,
    JOB_NEW,     /* its first record is being stored */
    JOB_WAITING, /* for a daemon that starts its manager, in epoch `epoch` unless is_used */
    JOB_ORDERED, /* a daemon was told, or the table says that there was a manager */
    JOB_UP,      /* the manager speaks */
    JOB_ENDED,
} job_state;

typedef enum gang_state { GANG_WAITS, GANG_OFFERED, GANG_ALLOCATED } gang_state;

typedef struct gang_row {
    gy_gang_request request;
    gang_state state;
    bool is_impossible; /* until there are other slots */
    uint32_t confirmed;
    int64_t since_ns;
} gang_row;

/** What is stored of a job. */
typedef struct job_facts {
    uint32_t epoch; /* the last; 0: no manager was ever ordered */
    bool is_ahead;  /* the one after it may be in an order as well (ahead.c) */
    uint32_t attempts, weight, slots_max;
    gy_key spec;
    uint64_t platform;
    bool is_killed, is_ended, is_resumed; /* is_resumed: it had ended, and goes on */
    bool is_forgotten; /* what is kept of it is removed, or was, or in part */
    gy_status status;
    gy_status before; /* is_forgotten: how it had ended, as `reason` says; 0: not known */
    char name[GY_CONTROL_TEXT_BYTES], label[GY_CONTROL_TEXT_BYTES];
    char reason[GY_CONTROL_REASON_BYTES];
} job_facts;

typedef enum pending {
    PENDING_NONE,
    PENDING_SUBMIT,
    PENDING_RAISE,
    PENDING_END,
    PENDING_KILL,
    PENDING_RESUME,
    PENDING_AHEAD
} pending;

typedef struct job_row {
    job_state state;
    pending pending; /* `next` is being stored */
    gy_key key;
    job_facts facts, next;
    uint64_t record; /* version */
    uint64_t asker;
    bool is_used; /* a manager was, or may have been, ordered in this epoch */
    bool is_free; /* nobody has the epoch ahead: this name server stored it, for itself */
    bool is_parked, is_touched;
    uint32_t host;      /* daemon of the manager; GY_NONE: not known */
    uint32_t last_host; /* of the one before */
    uint32_t round;     /* of the host's last state that had it */
    bool was_listed;
    char lost[48];  /* how its last manager was, as gy_names_manager_lost was told; "": none was
                     */
    uint64_t order; /* that starts the manager */
    int64_t told_ns, due_ns, up_ns, hungry_ns;
    int64_t last_ns; /* killed: its manager has ended by then; 0: not known */
    links at_host, in_ended;
    char address[GY_CONTROL_TEXT_BYTES];
    char waits[GY_CONTROL_REASON_BYTES]; /* what for; "": does not */
    uint64_t sequence, version, seen; /* of the manager's words; of leases: last, seen by it */
    uint32_t bumped;                  /* step of `version` */
    uint32_t wanted, singles, held, asked; /* slots: held has singles, gangs, asked ones */
    uint32_t planned;                      /* of a tick */
    gang_row gangs[GY_CONTROL_GANGS_MAX];
    uint32_t gang_count;
    gy_key hosts[GY_CONTROL_HOSTS_MAX]; /* that it prefers: hashes of names; 0: none */
    uint32_t must;                      /* the first so many: there is no other place, */
    bool is_limited;                    /* and on others `elsewhere` slots are of use */
    uint32_t elsewhere;
    uint64_t avoid[GY_CONTROL_AVOID_MAX]; /* daemons */
    bool is_last[GY_CONTROL_AVOID_MAX];   /* lent all the same: there is nothing else */
    gy_expected expected[GY_CONTROL_EXPECTED_MAX]; /* daemons that its manager waits for */
    uint32_t expected_count;
    uint32_t avoid_next;
    int64_t
        rest_ns; /* its gangs come after single slots of others until then; 0: they do not */
    list leases;
} job_row;

typedef enum names_phase { NAMES_NEW, NAMES_STARTING, NAMES_SERVING, NAMES_ENDED } names_phase;

struct gy_names {
    gy_names_options options;
    names_phase phase;
    gy_status status; /* GY_NOMEM once something had no memory */
    int64_t now_ns, timer_ns, tick_ns;
    int64_t serving_ns; /* since then daemons can be heard */
    uint32_t step;
    uint64_t term, term_record; /* version of its record */
    uint64_t order, lease;      /* the last that was given in this term */

    daemon_row *daemons;
    job_row *jobs;
    lease_row *leases;
    size_t daemon_count, daemon_capacity, job_count, job_capacity, lease_count, lease_capacity;
    uint32_t free_lease, free_job;
    uint32_t open_jobs, ended_jobs;
    gy_index by_daemon, by_job, by_lease, by_host; /* the last that is of a host */
    list asked, ended;                             /* oldest first */

    gy_control_heap free;               /* daemons that may lend, most free slots first */
    gy_control_heap hungry;             /* jobs that want a slot, the least served first */
    gy_control_heap watched;            /* jobs with a due time, the first first */
    gy_control_heap beating;            /* daemons that are up, the longest silent first */
    uint32_t reserved, reserved_daemon; /* the job whose gang is next; where, if on one host */
    uint32_t *parked, *touched;         /* jobs */
    size_t parked_count, parked_capacity, touched_count, touched_capacity;

    gy_names_effects *effects;
    gy_arena texts; /* of this step */
};

/* ---- effects.c ---- */
/** A new effect to fill in; valid until the next. Never NULL. */
gy_names_effect *gy_names_emit(gy_names *names, gy_names_effect_kind kind);
const char *gy_names_text(gy_names *names, const char *format, ...) GY_PRINTF(2, 3);
void gy_names_answer(gy_names *names, uint64_t asker, gy_status status, const char *reason);
void gy_names_note_job(gy_names *names, uint32_t job, const char *reason);
void gy_names_note_daemon(gy_names *names, uint32_t daemon, const char *reason);
void gy_names_wake(gy_names *names, int64_t at_ns);
void gy_names_end(gy_names *names, gy_status status, const char *reason);
void gy_names_no_memory(gy_names *names, gy_status status);

/** Lists are in lists.h. */
#define GY_LIST_EMPTY ((list){GY_NONE, GY_NONE})

/* ---- ahead.c ---- */
/** The next epoch that is in no order, whoever gave one. */
uint32_t gy_names_next_epoch(const gy_names *names, uint32_t job);
/** Have the epoch ahead without a store, if it is there: `next` is what then follows it. */
bool gy_names_go_ahead(gy_names *names, uint32_t job);
/** Is `epoch`, of which is heard, the job's? It becomes the job's if it is the one ahead, which
 * an earlier name server may have given. */
bool gy_names_take_epoch(gy_names *names, uint32_t job, uint32_t epoch);

/* ---- store.c ---- */
void gy_names_store_term(gy_names *names);
/** Store `next` of the job; what follows is done when it stands. */
void gy_names_store_job(gy_names *names, uint32_t job, pending what);
void gy_names_forget_job(gy_names *names, uint32_t job);
void gy_names_store_drain(gy_names *names, uint32_t daemon, bool is_drained);
void gy_names_stored(gy_names *names, const gy_names_event *event);

/* ---- daemons.c ---- */
void gy_names_handle_daemon(gy_names *names, const gy_daemon_state *state);
void gy_names_bye(gy_names *names, const gy_names_event *event);
void gy_names_look_at_daemons(gy_names *names);
/** GY_NONE: no room. */
uint32_t gy_names_daemon_row(gy_names *names, uint64_t id);
gy_key gy_names_host_key(const char *host);
/** May it lend, and how many are free: it stands in the heap accordingly. */
void gy_names_daemon_changed(gy_names *names, uint32_t daemon);
void gy_names_drained(gy_names *names, uint32_t daemon, bool is_drained);
/** Would it, were it there and in order? */
bool gy_names_is_kind(const gy_names *names, uint32_t daemon, uint32_t job);
/** Would it run things of this job? */
/** Why a job gets nothing of a daemon. */
typedef enum gy_misfit {
    MISFIT_NONE,
    MISFIT_PLATFORM,
    MISFIT_LABEL,
    MISFIT_AVOIDED,
    MISFIT_DRAINED,
    MISFIT_TROUBLED,
    MISFIT_LOST,
    MISFIT_COUNT
} gy_misfit;
gy_misfit gy_names_misfit(const gy_names *names, uint32_t daemon, uint32_t job);
bool gy_names_fits(const gy_names *names, uint32_t daemon, uint32_t job);
void gy_names_set_host(gy_names *names, uint32_t job, uint32_t daemon);
/** Would it, and is a single slot there of use to the job by now? */
bool gy_names_suits(const gy_names *names, uint32_t daemon, uint32_t job);
/** Bits of its `must`: no daemon of that name could run things of this job, were it free. */
uint32_t gy_names_missing(const gy_names *names, uint32_t job);
/** A number for an order to it. */
gy_control_order *gy_names_order(gy_names *names, uint32_t daemon, gy_control_order_kind kind,
                                 uint64_t number);

/* ---- leases.c ---- */
/** Slots of one daemon, lent by one order; it takes all or none. */
typedef struct gy_names_lot {
    uint32_t gang, count;
} gy_names_lot;
void gy_names_offer(gy_names *names, uint32_t job, uint32_t daemon, gy_names_lot lot);
/** A daemon says that it has lent this. */
void gy_names_confirm(gy_names *names, uint32_t daemon, const gy_leased *said);
/** All that its daemon did not say in this round: lost, or not there yet. */
void gy_names_reconcile(gy_names *names, uint32_t daemon);
void gy_names_ask(gy_names *names, uint32_t lease);
/** The daemon shall end it, the manager is told that it is gone. */
void gy_names_lease_end(gy_names *names, uint32_t lease);
/** It is gone at its daemon. */
void gy_names_lease_gone(gy_names *names, uint32_t lease);
/** Those of older epochs than the job's, or all. */
void gy_names_end_leases(gy_names *names, uint32_t job, bool is_all);
void gy_names_gang_break(gy_names *names, uint32_t job, uint32_t number);
/** All of the gang that are confirmed are allocated if they are all. */
void gy_names_gang_look(gy_names *names, uint32_t job, gang_row *gang);
gang_row *gy_names_gang(gy_names *names, uint32_t job, uint32_t number);
/** A part of a gang that the manager has had before. */
void gy_names_take_part(gy_names *names, uint32_t lease);
/** The manager has seen the changes up to this version. */
void gy_names_seen(gy_names *names, uint32_t job, uint64_t version);
void gy_names_touch(gy_names *names, uint32_t job);
void gy_names_tell_allocations(gy_names *names);
void gy_names_release(gy_names *names, const gy_names_event *event);
void gy_names_look_at_asked(gy_names *names);

/* ---- jobs.c ---- */
/** GY_NONE: no memory. */
uint32_t gy_names_job_new(gy_names *names, gy_key key);
void gy_names_job_drop(gy_names *names, uint32_t job);
void gy_names_submit(gy_names *names, const gy_names_event *event);
void gy_names_kill(gy_names *names, const gy_names_event *event);
void gy_names_job_end(gy_names *names, const gy_names_event *event);
void gy_names_finish(gy_names *names, uint32_t job, gy_status status, const char *reason);
/** Its end stands in the table. */
void gy_names_ended(gy_names *names, uint32_t job);
void gy_names_due(gy_names *names, uint32_t job, int64_t at_ns);

/** By its user, and is to end so. */
void gy_names_killed(gy_names *names, uint32_t job);

/* ---- again.c ---- */
void gy_names_resume(gy_names *names, const gy_names_event *event);
/** That it goes on stands in the table. */
void gy_names_resumed(gy_names *names, uint32_t job);
/** All daemons that are there are told to. */
void gy_names_keep_nothing(gy_names *names, uint32_t job);

/* ---- managers.c ---- */
void gy_names_handle_manager(gy_names *names, const gy_manager_requests *requests);
/** The job has no manager (any more): the next one. */
void gy_names_manager_lost(gy_names *names, uint32_t job, const char *reason);
/** Where it was, and what it requested. */
void gy_names_forget_manager(gy_names *names, uint32_t job);
/** The raised epoch stands. */
void gy_names_raised(gy_names *names, uint32_t job);
void gy_names_start_manager(gy_names *names, uint32_t job);
/** Is there a daemon that may start its manager now? @cost O(daemons) */
bool gy_names_may_start(const gy_names *names, uint32_t job);
/** Its daemon does not list it: was it not there yet, or is it gone? */
void gy_names_manager_unlisted(gy_names *names, uint32_t job);
void gy_names_look_at_jobs(gy_names *names);
/** Jobs that wait for a daemon look again, now: there may be another. @cost O(jobs) */
void gy_names_wake_waiting(gy_names *names);

/* ---- share.c ---- */
/** Its requests or what it has are others: is it hungry? */
void gy_names_appetite(gy_names *names, uint32_t job);
/** Lend what is free. */
void gy_names_lend(gy_names *names);
/** There are other slots than before: what could not be served may be. */
void gy_names_unpark(gy_names *names);
/** Other daemons may lend, or they may lend more or less: all is looked at again. */
void gy_names_reshape(gy_names *names);
/** Number of a gang that no daemon is large enough for that is known, 0: there is none; *most:
 * slots of the largest that the job may run at. */
uint32_t gy_names_never(const gy_names *names, uint32_t job, uint32_t *most);
void gy_names_unreserve(gy_names *names, uint32_t job);

/** Could it be served if all others gave their slots back? */
bool gy_names_is_possible(const gy_names *names, uint32_t job, const gy_gang_request *request);

/* ---- yield.c ---- */
/** The job gets nothing more of that daemon, */
void gy_names_avoid(gy_names *names, uint32_t job, uint32_t daemon);
bool gy_names_is_avoided(const gy_names *names, uint32_t daemon, uint32_t job);
/** but as the last resort. */
bool gy_names_is_last(const gy_names *names, uint32_t daemon, uint32_t job);
/** Jobs that wait in vain because of what they avoid: true, there is something to lend. */
bool gy_names_yield(gy_names *names);

/* ---- turns.c ---- */
/** A lease is preempted: of a gang beyond its job's share, others have their turn then. */
void gy_names_turn_over(gy_names *names, uint32_t lease);
/** Do its gangs wait for others' turn? has_room: there are free slots for one, which the others
 * must be able to take. @cost O(jobs * daemons) while its gangs rest, else O(1) */
bool gy_names_rests(const gy_names *names, uint32_t job, bool has_room);
/** true: some have rested enough, there may be something to lend. */
bool gy_names_turns(gy_names *names);

/* ---- revoke.c ---- */
/** Who has more than its share while others wait? */
void gy_names_balance(gy_names *names);

static inline uint32_t gy_names_free_slots(const daemon_row *row)
{
    return row->slots > row->used ? row->slots - row->used : 0;
}

static inline bool gy_names_may_lend(const daemon_row *row)
{
    return row->is_up && !row->is_drained && row->trouble[0] == '\0';
}

/** Nothing is kept of it: its manager has said so (and who kills that one says otherwise). */
static inline bool names_is_gone(const job_facts *facts)
{
    return facts->is_forgotten && facts->is_ended && facts->status == GY_CANCELLED;
}

static inline bool gy_names_is_open(const job_row *row)
{
    return row->state != JOB_FREE && row->state != JOB_ENDED;
}

#endif
