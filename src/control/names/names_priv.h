/**
 * Inside the name server: rows of daemons, jobs and leases, joined by lists, and what its files
 * offer each other.
 *
 * A lease is one slot. It stays in its daemon's list until the daemon's state no longer
 * contains it, and in its job's list, ordered by its last change, until the manager has seen
 * that it ended.
 */
#ifndef GY_CONTROL_NAMES_NAMES_PRIV_H
#define GY_CONTROL_NAMES_NAMES_PRIV_H

#include "base/index.h"
#include "base/step.h"
#include "control/names/names.h"
#include "control/plant.h"

typedef enum lease_state {
    LEASE_FREE,
    LEASE_OFFERED, /* ordered from the daemon */
    LEASE_PART,    /* confirmed; other leases of the gang are not yet */
    LEASE_HELD,
    LEASE_ASKED,  /* preempted: the manager must release it */
    LEASE_ENDING, /* the daemon must end it */
    LEASE_GONE,   /* ended, but the manager has not seen that yet */
} lease_state;

/** Neighbours of a row in a list; GY_NONE: none. */
typedef struct links {
    uint32_t previous, next;
} links;

typedef struct list {
    uint32_t first, last;
} list;

typedef struct lease_row {
    lease_state state;
    uint32_t daemon, job; /* indices; in a free row `job` is the next free one */
    uint32_t epoch, gang;
    uint32_t lot; /* in the first lease of an order: how many; in the others 0 */
    uint64_t id;
    uint64_t offered, order; /* number of the order that made it, and of the last order */
    uint64_t version;        /* of its last change for the manager; 0: none */
    uint32_t round;          /* of its daemon's last state that contained it */
    bool is_confirmed;
    int64_t reported_ns, held_ns, asked_ns;
    links at_daemon, at_job, in_asked;
} lease_row;

enum { PAST = 4 };

typedef struct daemon_row {
    uint64_t id; /* 0: the row is free */
    uint64_t incarnation, life, sequence;
    uint64_t past[PAST]; /* incarnations that have ended */
    uint32_t twin_words; /* states of another daemon with this one's identity */
    int64_t twin_ns;     /* when that may be logged again */
    uint64_t platform;
    uint64_t version;     /* of its record; 0: none */
    uint64_t term, order; /* the largest one it has seen */
    gy_key bad_job;       /* the job whose manager reported it as bad */
    uint32_t past_next;
    uint32_t slots, used, managers;
    uint32_t hosted; /* position in `jobs` */
    uint32_t round;
    bool is_up, is_drained, has_bad, is_storing, next_drained;
    uint64_t asker;
    int64_t heard_ns;
    list leases, jobs; /* jobs: whose managers it runs */
    char address[GY_CONTROL_TEXT_BYTES], host[GY_CONTROL_TEXT_BYTES];
    char labels[GY_CONTROL_LABELS_BYTES], trouble[GY_CONTROL_REASON_BYTES];
} daemon_row;

typedef enum job_state {
    JOB_FREE,
    JOB_NEW,     /* its first record is being stored */
    JOB_WAITING, /* for a daemon to start its manager, in epoch `epoch` unless is_used */
    JOB_ORDERED, /* a daemon has the order, or the table says that a manager was started */
    JOB_UP,      /* the manager reports */
    JOB_ENDED,
} job_state;

typedef enum gang_state { GANG_WAITS, GANG_OFFERED, GANG_ALLOCATED } gang_state;

typedef struct gang_row {
    gy_gang_request request;
    gang_state state;
    bool is_impossible; /* until other slots exist */
    uint32_t confirmed;
    int64_t since_ns;
} gang_row;

/** The stored part of a job. */
typedef struct job_facts {
    uint32_t epoch; /* the last one; 0: no manager was ever ordered */
    bool is_ahead;  /* the spare epoch after it may be in an order (ahead.c) */
    uint32_t attempts, weight, slots_max;
    gy_key spec;
    uint64_t platform;
    bool is_killed, is_ended, is_resumed; /* is_resumed: it had ended and was resumed */
    bool is_forgotten; /* its retained data are being removed, or were, maybe in part */
    gy_status status;
    gy_status before; /* is_forgotten: the status of its end, as in `reason`; 0: not known */
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
    pending pending; /* what is being stored: `next` */
    gy_key key;
    job_facts facts, next;
    uint64_t record; /* version */
    uint64_t asker;
    bool is_used; /* a manager was, or may have been, ordered in this epoch */
    bool is_free; /* the spare epoch is unused: this name server stored it itself */
    bool is_parked, is_touched;
    uint32_t host;      /* daemon of the manager; GY_NONE: not known */
    uint32_t last_host; /* of the previous manager */
    uint32_t round;     /* of the host's last state that listed the manager */
    bool was_listed;
    char lost[48]; /* how its last manager ended, from gy_names_manager_lost; "": there was none
                    */
    uint64_t order; /* the order that starts the manager */
    int64_t reported_ns, due_ns, up_ns, hungry_ns;
    int64_t last_ns; /* killed: when its manager must have ended; 0: not known */
    links at_host, in_ended;
    char address[GY_CONTROL_TEXT_BYTES];
    char waits[GY_CONTROL_REASON_BYTES]; /* for what; "": it does not */
    /* Of the manager's requests; of leases: last change, last change it has seen. */
    uint64_t sequence, version, seen;
    uint32_t bumped; /* the step that set `version` */
    /* Counts of slots: singles and gangs held, preempted ones. */
    uint32_t wanted, singles, held, asked;
    uint32_t planned; /* scratch of gy_names_balance */
    gang_row gangs[GY_CONTROL_GANGS_MAX];
    uint32_t gang_count;
    gy_key hosts[GY_CONTROL_HOSTS_MAX]; /* preferred hosts as hashes of names; 0: none */
    uint32_t must;                      /* the first so many are required, */
    bool is_limited;                    /* and on others `elsewhere` slots are useful */
    uint32_t elsewhere;
    uint64_t avoid[GY_CONTROL_AVOID_MAX];          /* ids of daemons */
    bool is_last[GY_CONTROL_AVOID_MAX];            /* leased nevertheless, as no other serves */
    gy_expected expected[GY_CONTROL_EXPECTED_MAX]; /* daemons that its manager waits for */
    uint32_t expected_count;
    uint32_t avoid_next;
    int64_t
        /* Until when its gangs come after single slots of other jobs; 0: they do not. */
        rest_ns;
    list leases;
} job_row;

typedef enum names_phase { NAMES_NEW, NAMES_STARTING, NAMES_SERVING, NAMES_ENDED } names_phase;

struct gy_names {
    gy_names_options options;
    names_phase phase;
    gy_status status; /* GY_NOMEM once an allocation failed */
    int64_t now_ns, timer_ns, tick_ns;
    int64_t serving_ns; /* since when daemons can reach it */
    uint32_t step;
    uint64_t term, term_record; /* version of its record */
    uint64_t order, lease;      /* the last numbers given out in this term */

    daemon_row *daemons;
    job_row *jobs;
    lease_row *leases;
    size_t daemon_count, daemon_capacity, job_count, job_capacity, lease_count, lease_capacity;
    uint32_t free_lease, free_job;
    uint32_t open_jobs, ended_jobs;
    gy_index by_daemon, by_job, by_lease, by_host; /* by_host: the last daemon of a host */
    list asked, ended;                             /* oldest first */

    gy_control_heap free;    /* daemons with slots to lease, most free slots first */
    gy_control_heap hungry;  /* jobs that want a slot, the smallest share first */
    gy_control_heap watched; /* jobs with a due time, the earliest first */
    gy_control_heap beating; /* daemons that are up, longest without a state first */
    /* The next job with a gang; the daemon, if all slots are on one. */
    uint32_t reserved, reserved_daemon;
    uint32_t *parked, *touched; /* jobs */
    size_t parked_count, parked_capacity, touched_count, touched_capacity;

    gy_names_effects *effects;
    gy_arena texts; /* of this step */
};

/* ---- effects.c ---- */
/** A new effect to fill in; valid until the next one. Never NULL. */
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

/* ---- ahead.c: spare epochs ---- */
/** The next epoch that no order can have used, of whichever name server. */
uint32_t gy_names_next_epoch(const gy_names *names, uint32_t job);
/**
 * Advance to the spare epoch without a store, if there is one; `next` is what to store
 * afterwards.
 */
bool gy_names_use_spare_epoch(gy_names *names, uint32_t job);
/**
 * Is `epoch`, from a message, the job's? The spare epoch becomes the job's, since an earlier
 * name server may have given it out.
 */
bool gy_names_take_epoch(gy_names *names, uint32_t job, uint32_t epoch);

/* ---- store.c ---- */
void gy_names_store_term(gy_names *names);
/** Store `next` of the job; `what` is done when it is stored. */
void gy_names_store_job(gy_names *names, uint32_t job, pending what);
void gy_names_forget_job(gy_names *names, uint32_t job);
void gy_names_store_drain(gy_names *names, uint32_t daemon, bool is_drained);
void gy_names_stored(gy_names *names, const gy_names_event *event);

/* ---- daemons.c ---- */
void gy_names_handle_daemon(gy_names *names, const gy_daemon_state *state);
void gy_names_bye(gy_names *names, const gy_names_event *event);
void gy_names_check_daemons(gy_names *names);
/** GY_NONE: no room. */
uint32_t gy_names_daemon_row(gy_names *names, uint64_t id);
gy_key gy_names_host_key(const char *host);
/** Its free slots or its permission to lease have changed: move it in the heap. */
void gy_names_daemon_changed(gy_names *names, uint32_t daemon);
void gy_names_drained(gy_names *names, uint32_t daemon, bool is_drained);
/** Would the daemon suit the job if it were up? */
bool gy_names_is_kind(const gy_names *names, uint32_t daemon, uint32_t job);
/** Can the daemon run things of this job now? */
/** Why a daemon does not serve a job. */
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
/** Does it suit, and is a single slot there useful to the job? */
bool gy_names_suits(const gy_names *names, uint32_t daemon, uint32_t job);
/** Bits of the required hosts without any suitable daemon, free or not. */
uint32_t gy_names_missing(const gy_names *names, uint32_t job);
/** A new numbered order for it. */
gy_control_order *gy_names_order(gy_names *names, uint32_t daemon, gy_control_order_kind kind,
                                 uint64_t number);

/* ---- leases.c ---- */
/** Slots of one daemon, leased by one order; all or none. */
typedef struct gy_names_lot {
    uint32_t gang, count;
} gy_names_lot;
void gy_names_offer(gy_names *names, uint32_t job, uint32_t daemon, gy_names_lot lot);
/** A daemon's state contains this lease. */
void gy_names_confirm(gy_names *names, uint32_t daemon, const gy_leased *said);
/**
 * End the leases that its daemon's last state did not contain, unless their order may still
 * come.
 */
void gy_names_reconcile(gy_names *names, uint32_t daemon);
void gy_names_ask(gy_names *names, uint32_t lease);
/** End a lease: order the daemon to end it, tell the manager. */
void gy_names_lease_end(gy_names *names, uint32_t lease);
/** The daemon no longer has the lease. */
void gy_names_lease_gone(gy_names *names, uint32_t lease);
/** End those of older epochs than the job's, or all. */
void gy_names_end_leases(gy_names *names, uint32_t job, bool is_all);
void gy_names_gang_break(gy_names *names, uint32_t job, uint32_t number);
/** Allocate a gang's leases if all of them are confirmed. */
void gy_names_gang_check(gy_names *names, uint32_t job, gang_row *gang);
gang_row *gy_names_gang(gy_names *names, uint32_t job, uint32_t number);
/** A lease of a gang that the manager already had. */
void gy_names_take_part(gy_names *names, uint32_t lease);
/** The manager has seen the changes up to this version. */
void gy_names_seen(gy_names *names, uint32_t job, uint64_t version);
void gy_names_touch(gy_names *names, uint32_t job);
void gy_names_send_allocations(gy_names *names);
void gy_names_release(gy_names *names, const gy_names_event *event);
void gy_names_check_preempted(gy_names *names);

/* ---- jobs.c ---- */
/** GY_NONE: no memory. */
uint32_t gy_names_job_new(gy_names *names, gy_key key);
void gy_names_job_drop(gy_names *names, uint32_t job);
void gy_names_submit(gy_names *names, const gy_names_event *event);
void gy_names_kill(gy_names *names, const gy_names_event *event);
void gy_names_job_end(gy_names *names, const gy_names_event *event);
void gy_names_finish(gy_names *names, uint32_t job, gy_status status, const char *reason);
/** Its end is stored. */
void gy_names_ended(gy_names *names, uint32_t job);
void gy_names_due(gy_names *names, uint32_t job, int64_t at_ns);

/** Its user killed it, so it must end. */
void gy_names_killed(gy_names *names, uint32_t job);

/* ---- again.c ---- */
void gy_names_resume(gy_names *names, const gy_names_event *event);
/** The resumed job is stored. */
void gy_names_resumed(gy_names *names, uint32_t job);
/** Order all daemons that are up to delete what they retain of the job. */
void gy_names_delete_retained(gy_names *names, uint32_t job);

/* ---- managers.c ---- */
void gy_names_handle_manager(gy_names *names, const gy_manager_requests *requests);
/** The job has no manager (any more): start the next one. */
void gy_names_manager_lost(gy_names *names, uint32_t job, const char *reason);
/** Clear its address and its requests. */
void gy_names_forget_manager(gy_names *names, uint32_t job);
/** The next epoch is stored. */
void gy_names_raised(gy_names *names, uint32_t job);
void gy_names_start_manager(gy_names *names, uint32_t job);
/** Is there a daemon that may start its manager now? @cost O(daemons) */
bool gy_names_may_start(const gy_names *names, uint32_t job);
/** Its daemon does not list it: has the order not arrived, or has the manager ended? */
void gy_names_manager_unlisted(gy_names *names, uint32_t job);
void gy_names_check_jobs(gy_names *names);
/** A new daemon may serve the jobs that wait for one: consider them now. @cost O(jobs) */
void gy_names_wake_waiting(gy_names *names);

/* ---- share.c ---- */
/** Its requests or its slots have changed: does it want more? */
void gy_names_appetite(gy_names *names, uint32_t job);
/** Lease free slots. */
void gy_names_lend(gy_names *names);
/** There are new slots: consider the requests that could not be served. */
void gy_names_unpark(gy_names *names);
/** Daemons changed in what they may lease: consider all requests again. */
void gy_names_reshape(gy_names *names);
/**
 * Number of a gang request too large for every known daemon, 0: there is none; *most: slots of
 * the largest daemon suitable for the job.
 */
uint32_t gy_names_never(const gy_names *names, uint32_t job, uint32_t *most);
void gy_names_unreserve(gy_names *names, uint32_t job);

/** Could it be served if all other jobs released their slots? */
bool gy_names_is_possible(const gy_names *names, uint32_t job, const gy_gang_request *request);

/* ---- yield.c ---- */
/** The job gets no more slots of that daemon, */
void gy_names_avoid(gy_names *names, uint32_t job, uint32_t daemon);
bool gy_names_is_avoided(const gy_names *names, uint32_t daemon, uint32_t job);
/** except as a last resort. */
bool gy_names_is_last(const gy_names *names, uint32_t daemon, uint32_t job);
/** Find jobs that wait in vain since they avoid daemons. True: there are slots to lease. */
bool gy_names_yield(gy_names *names);

/* ---- turns.c ---- */
/** A preempted gang exceeds its job's share: it is the turn of others then. */
void gy_names_turn_over(gy_names *names, uint32_t lease);
/**
 * Do its gangs wait for the turn of others? has_room: there are free slots for a gang; it waits
 * only if others can use them. @cost O(jobs * daemons) while its gangs rest, else O(1)
 */
bool gy_names_rests(const gy_names *names, uint32_t job, bool has_room);
/** True: some gangs have waited enough, so there may be slots to lease. */
bool gy_names_turns(gy_names *names);

/* ---- revoke.c ---- */
/** Preempt slots of jobs beyond their share while others wait. */
void gy_names_balance(gy_names *names);

static inline uint32_t gy_names_free_slots(const daemon_row *row)
{
    return row->slots > row->used ? row->slots - row->used : 0;
}

static inline bool gy_names_may_lend(const daemon_row *row)
{
    return row->is_up && !row->is_drained && row->trouble[0] == '\0';
}

/** Are its retained data removed? Its manager has reported so, and was not killed. */
static inline bool names_is_gone(const job_facts *facts)
{
    return facts->is_forgotten && facts->is_ended && facts->status == GY_CANCELLED;
}

static inline bool gy_names_is_open(const job_row *row)
{
    return row->state != JOB_FREE && row->state != JOB_ENDED;
}

#endif
