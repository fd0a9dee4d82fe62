/**
 * Hosts of a job, inside the manager: what is up, what lies where, who fails where. A job at
 * home has none: no row, no list, no second heap.
 *
 * Invariant: an input that is committed on a lost host is read by committed tasks alone; who is
 * raised takes such inputs along.
 */
#ifndef GY_SCHED_HOSTS_HOSTS_PRIV_H
#define GY_SCHED_HOSTS_HOSTS_PRIV_H

#include "base/index.h"
#include "sched/manager.h"

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

/* ---- hosts.c: who is there ---- */
void gy_manager_host_up(gy_manager *manager, const gy_sched_event *event);
void gy_manager_host_lost(gy_manager *manager, const gy_sched_event *event);
void gy_manager_slot_open(gy_manager *manager, const gy_sched_event *event);
void gy_manager_slot_close(gy_manager *manager, const gy_sched_event *event);
/** The row of `host`, with all below it made; NULL: no memory. */
host_row *gy_manager_host_row(gy_manager *manager, uint32_t host);
/** BEGIN: what was committed where; exact tasks wait for hosts that are expected. */
void gy_manager_hosts_begin(gy_manager *manager);
/** It does not start before: a run of it may go on where nobody can look. */
void gy_manager_exact_wait(gy_manager *manager, uint32_t task, int64_t until_ns);
/** Its committed output is lost: an older manager may have lost it too, and run it again. */
void gy_manager_exact_lost(gy_manager *manager, uint32_t task);
/** So long a process may go on where nobody can look. */
int64_t gy_manager_lease(const gy_manager *manager);
/** Exact tasks whose time has come. */
void gy_manager_exact_release(gy_manager *manager);
void gy_manager_hosts_free(gy_manager *manager);

/* ---- held.c: what lies where ---- */
/** A size in 8 bits, four steps an octave, and back. */
uint8_t gy_manager_held_code(uint64_t bytes);
float gy_manager_held_bytes(uint8_t code);
/** A commit on the host that its row says. */
void gy_manager_hold(gy_manager *manager, uint32_t task);
/** Does it still lie there? */
bool gy_manager_holds(const gy_manager *manager, uint32_t host, const gy_sched_stored *held);
/** Keep a growth's places. GY_NOMEM */
gy_status gy_manager_take_places(gy_manager *manager, const gy_growth *growth, uint32_t first);
/** A host has a name from now on. */
void gy_manager_take_name(gy_manager *manager, uint32_t host);
/** The host that is up where most of the task's inputs lie; GY_NONE: nowhere. *share: of all
 * that lies on hosts. */
uint32_t gy_manager_near(gy_manager *manager, uint32_t task, float *share);

/** The numbers of the task's places' names, up to GY_NONE; NULL: none were told. */
const uint32_t *gy_manager_places_of(const gy_manager *manager, uint32_t task);
/** GY_NONE: no task's place is called so, nor was a host. */
uint32_t gy_manager_name_of(const gy_manager *manager, uint32_t host);

/* ---- pinned.c: tasks that run on their places alone ---- */
/** It is ready: into the lists of its places' names. */
void gy_manager_pin(gy_manager *manager, uint32_t task);
/** One that may start now, and the heap whose first slot it takes; `kept` is a host that is
 * left alone. GY_NONE: none may. */
uint32_t gy_manager_pinned_next(gy_manager *manager, uint32_t kept, gy_sched_heap **from);
/** Do tasks wait for this host's slots that can have few others? */
bool gy_manager_is_pinned_at(const gy_manager *manager, uint32_t host);
/** Are there tasks that may run at no other host, or at few? */
bool gy_manager_has_pinned(const gy_manager *manager, uint32_t host);
/** Is it one of the task's places? */
bool gy_manager_is_place(const gy_manager *manager, uint32_t task, uint32_t host);
/** May the task run there? */
bool gy_manager_may_be_at(const gy_manager *manager, uint32_t task, uint32_t host);

/* ---- near.c: where to ---- */
/** Where the cohort at the head of the queue shall be, for which slots are kept; GY_NONE. */
uint32_t gy_manager_kept(gy_manager *manager, uint32_t head);

/** The next ready task that may start now, and the heap whose first slots it takes; `head` is
 * the oldest. GY_NONE: none may. GY_NONE and *again: the oldest was set aside. */
uint32_t gy_manager_pick(gy_manager *manager, uint32_t head, gy_sched_heap **from, bool *again);
/** There are more slots: cohorts that were set aside are ready again. */
void gy_manager_aside_again(gy_manager *manager);

/** As many slots on that host as `width` members need. */
static inline bool gy_manager_has_slots(const host_row *row, uint32_t width)
{
    return row->state == HOST_UP && !row->is_avoided && row->slots >= width;
}
/** Set the task aside, the next one, which needs `least` slots on one host at least. */
void gy_manager_set_aside(gy_manager *manager, uint32_t task, uint32_t least);

/* ---- spread.c: cohorts over several hosts ---- */
/** Keep which of a growth's tasks are spread. GY_NOMEM */
gy_status gy_manager_take_spreads(gy_manager *manager, const gy_growth *growth, uint32_t first);
/** Over how many hosts its members go. @cost O(log spread tasks) */
uint32_t gy_manager_spread(const gy_manager *manager, uint32_t task);
/** gy_manager_pick for such a task: hosts.chosen gets its hosts, *from the first one's heap. */
uint32_t gy_manager_pick_spread(gy_manager *manager, uint32_t head, gy_sched_heap **from,
                                bool *again);

/* ---- avoid.c: who fails where ---- */
/** It failed there by itself, after a while. */
void gy_manager_blame(gy_manager *manager, uint32_t task, uint32_t host, int64_t took_ns);
/** It did well there: others where it failed have one against them. */
void gy_manager_acquit(gy_manager *manager, uint32_t task, uint32_t host);
/** Nothing else has slots enough: it is avoided no more, until it has been found bad again. */
void gy_manager_pardon(gy_manager *manager, uint32_t host);
/** Are there hosts by now where tasks fail that run well elsewhere? */
void gy_manager_look_at_hosts(gy_manager *manager);

#endif
