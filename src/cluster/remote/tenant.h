/**
 * What a manager rents: the hosts it knows by number, the leases it was granted as slots of its
 * machine, what it wishes, what it gives back. It stands between three machines (manager, name
 * server, daemon) and touches no socket: who carries words is gy_tenant_ops. The driver carries
 * them over rpc, the simulator as letters.
 *
 * All calls of one on one thread. Callbacks are called from within, `step` too: it may come
 * back with gy_tenant_spawn, gy_tenant_forget and gy_tenant_avoid alone.
 */
#ifndef GY_CLUSTER_REMOTE_TENANT_H
#define GY_CLUSTER_REMOTE_TENANT_H

#include "cluster/control.h"
#include "cluster/control/index.h"
#include "cluster/manager.h"

enum {
    TENANT_HOSTS_MAX = 65535,
    TENANT_DEATHS_MAX = 4, /* of processes of a host that were never ready, in a row */
    TENANT_WHY_BYTES = 256
};

typedef enum tenant_host_state {
    HOST_GONE,      /* lost, or never there: no connection */
    HOST_AWAY,      /* it is dialled */
    HOST_ATTACHING, /* connected */
    HOST_HERE       /* attached */
} tenant_host_state;

/** A daemon's folder, by its number in the machine; never moved to another number. */
typedef struct tenant_host {
    tenant_host_state state;
    bool is_up;       /* as the machine knows */
    bool is_expected; /* the journal names it; the machine waits to hear of it */
    bool is_avoided;
    bool is_last; /* it was, and is used all the same: there is nothing else */
    uint64_t daemon, incarnation;
    int64_t away_ns; /* AWAY, ATTACHING: since then */
    char address[GY_CONTROL_TEXT_BYTES], name[GY_CONTROL_TEXT_BYTES];
    char why[TENANT_WHY_BYTES];
    uint32_t deaths; /* of processes that were never ready, in a row */
    /* Of whoever carries: nothing here reads them. */
    uint64_t peer;                  /* 0: none */
    int64_t clock_ns;               /* its clock is so far ahead of ours */
    bool is_full;                   /* nothing more goes to it now */
    char *folder;                   /* of the job, there */
    uint32_t first_need, last_need; /* GY_NONE at first: to be asked for */
    uint32_t asked;                 /* fetches under way to it */
    gy_text discards;               /* names of files that may go */
} tenant_host;

/** A slot of the machine; lease 0: closed. */
typedef struct tenant_seat {
    uint64_t lease;
    uint32_t host, gang;
    bool is_open;        /* the machine may use it */
    uint32_t generation; /* of the process that is there; 0: none */
    uint32_t running;    /* STARTs that it has not answered */
    /* Of whoever carries. */
    bool is_open_due, is_kill_due; /* to be said when there is room */
    uint64_t window;               /* bytes that may still be sent to it */
    uint64_t owed; /* bytes of it that were taken, credit for them not given yet */
} tenant_seat;

/** A lease on its way back. */
typedef struct tenant_return {
    uint64_t lease;
    bool is_bad, is_calling, is_known; /* the name server has answered */
    int64_t since_ns, asked_ns;
    char reason[GY_CONTROL_REASON_BYTES];
} tenant_return;

typedef struct tenant_avoid {
    uint32_t host;
    char reason[GY_CONTROL_REASON_BYTES];
} tenant_avoid;

typedef struct gy_tenant_ops {
    void (*step)(void *arg, gy_sched_event *event); /* the machine; now_ns is filled in there */
    void (*fail)(void *arg, gy_status status);      /* the job is over with this failure */
    bool (*has_ended)(const void *arg);
    uint32_t (*process)(const void *arg, uint32_t slot); /* its generation; 0: none */
    void (*forget)(void *arg, uint32_t slot); /* the slot's process is gone, with its words */
    /* A failure: as this thread's last failure says; it is lost at the next look. */
    gy_status (*dial)(void *arg, uint32_t host);
    void (*hang_up)(void *arg, uint32_t host);
    void (*attach)(void *arg, uint32_t host);     /* then gy_tenant_attached */
    void (*beat)(void *arg, uint32_t host);       /* losing it is no harm */
    void (*go_on)(void *arg, uint32_t host);      /* it is here: what waits for it */
    void (*begin_anew)(void *arg, uint32_t host); /* what was asked of it is void */
    void (*wish)(void *arg, const gy_manager_wishes *wishes); /* losing it is no harm */
    /* To the name server: true if its answer comes, gy_tenant_given. */
    bool (*give)(void *arg, const tenant_return *back);
} gy_tenant_ops;

/** Filled in by gy_tenant_open; others read it, and write what is the carrier's. */
typedef struct gy_tenant {
    gy_env *env;
    gy_manager *manager;
    const gy_tenant_ops *ops;
    void *arg;
    gy_key job;
    uint32_t epoch, slot_count;
    uint32_t threads; /* tasks at once in a slot; 0: one */
    int64_t dead_ns;
    int64_t lease_ns; /* of what was granted last; 0: nothing was */
    /* what is wished */
    uint64_t sequence, seen;
    uint64_t said_seen;              /* as said last, */
    uint32_t wanted, wanted_at_once; /* and these */
    uint32_t gang, gang_width;       /* number of the wish, its slots; 0: none is open */
    uint32_t gang_hosts;             /* above 1: on so many hosts */
    uint64_t gang_not;               /* not 0: for a copy, not at this daemon */
    uint32_t served;                 /* number of the last one that was granted */
    int64_t gang_ns;                 /* since when it is wished */
    int64_t wish_ns, idle_ns, beat_ns;
    /* where it is wished */
    gy_wanted_where where; /* as said last */
    int64_t missed_ns;     /* since when a task's hosts are not there; 0: they are */
    int64_t others_ns;     /* when there were no more slots elsewhere than are of use */
    uint32_t unwanted;     /* host whose idle slots nothing that waits can use; GY_NONE; */
    int64_t unwanted_ns;   /* since then */
    /* what is there */
    tenant_host *hosts; /* (host_count) */
    size_t host_count, host_room;
    tenant_seat *seats; /* (slot_count) */
    gy_index by_lease;
    uint32_t open_count;
    tenant_return *returns;
    size_t return_count, return_room;
    tenant_avoid *avoids;
    size_t avoid_count, avoid_room;
} gy_tenant;

/* ---- tenant.c: hosts, and the slots that stand on leases there ---- */

/** env, manager, ops, arg, job, epoch, slot_count are filled in; dead_ns 0: 2 s; sequence and
 * gang: what was said under this epoch before. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tenant_open(gy_tenant *tenant);
/** After replay: look for the hosts that the journal knows. GY_NOMEM */
GY_MUST_CHECK gy_status gy_tenant_begin(gy_tenant *tenant);
/** So long after it was seen in the journal that no other epoch had begun daemons may still be
 * spoken to, if a task must never run twice at once: its lease is waited out (names/leases.c)
 * from an instant on at which one had. */
int64_t gy_tenant_watch_ns(const gy_tenant *tenant);
/** What the carrier keeps in hosts is its own. */
void gy_tenant_close(gy_tenant *tenant);

/** Its connection stands (anew, too), and is attached to. */
void gy_tenant_host_up(gy_tenant *tenant, uint32_t host);
/** Its connection is down. */
void gy_tenant_host_down(gy_tenant *tenant, uint32_t number, const char *why);
/** The name server has lost it: if it does not answer here either, it is soon given up. */
void gy_tenant_host_is_dead(gy_tenant *tenant, uint64_t daemon, uint64_t incarnation);
/** It is another life of it: seats and leases ended with the former one, files stand. */
void gy_tenant_host_anew(gy_tenant *tenant, uint32_t host);
/** It answered ATTACH with the incarnation of its folder, or failed and says why. */
void gy_tenant_attached(gy_tenant *tenant, uint32_t host, gy_status status,
                        uint64_t incarnation, const char *why);
void gy_tenant_host_lost(gy_tenant *tenant, uint32_t number, const char *reason);
/** Those that are away for too long. Beats. */
void gy_tenant_look_after(gy_tenant *tenant, int64_t now_ns);
/** The host of an id, made if need be; GY_NONE: no memory, or too many. */
uint32_t gy_tenant_host_get(gy_tenant *tenant, uint64_t daemon, uint64_t incarnation,
                            const char *address, const char *name);
/** Its connection is asked for, if it is gone. */
void gy_tenant_host_dial(gy_tenant *tenant, uint32_t number);

/** The slot of a lease; GY_NONE: none. */
uint32_t gy_tenant_seat_of(const gy_tenant *tenant, uint64_t lease);
/** What a daemon says of a lease to the manager of this epoch: its slot; GY_NONE: none there.
 */
uint32_t gy_tenant_slot_at(const gy_tenant *tenant, uint32_t host, uint32_t epoch,
                           uint64_t lease);
/** A lease that was granted: its slot is opened when the host is here. False: no slot is free.
 */
bool gy_tenant_seat_take(gy_tenant *tenant, const gy_grant *grant, uint32_t host);
enum {
    TENANT_BACK = 1,   /* the name server shall know */
    TENANT_IS_DOWN = 2 /* its process is known to be gone */
};
/** The lease is over: the machine hears of it. */
void gy_tenant_seat_close(gy_tenant *tenant, uint32_t slot, const char *reason, int flags);
/** All of a host's. */
void gy_tenant_seats_close(gy_tenant *tenant, uint32_t host, const char *reason, int flags);
/** A process is to be opened in the slot. GY_PEER its lease is gone */
GY_MUST_CHECK gy_status gy_tenant_spawn(gy_tenant *tenant, uint32_t slot, uint32_t generation);
/** The daemon has not opened it: its lease goes back, if it is still about this process. */
void gy_tenant_not_opened(gy_tenant *tenant, uint64_t lease, uint32_t generation,
                          const char *why);
/** The slot's process is gone. */
void gy_tenant_forget(gy_tenant *tenant, uint32_t slot, uint32_t generation);
/** A process at the host ended by itself: was it ready before? */
void gy_tenant_process_ended(gy_tenant *tenant, uint32_t number, bool was_ready,
                             const char *why);

/* ---- rent.c: wishes, grants, leases that go back ---- */

/** Said when they have changed, or it is time. */
void gy_tenant_wish(gy_tenant *tenant, int64_t now_ns);
/** There is a connection to a name server: soon all is said to it. */
void gy_tenant_names_up(gy_tenant *tenant);
/** What was told by the name server, from `from` to `version`. */
void gy_tenant_take_grants(gy_tenant *tenant, uint64_t from, uint64_t version,
                           const gy_grant *grants, size_t count);
/** Would that be new? */
bool gy_tenant_is_news(const gy_tenant *tenant, uint64_t from, uint64_t version);
/** Give a lease back, until the name server knows. */
void gy_tenant_give_back(gy_tenant *tenant, uint64_t lease, bool is_bad, const char *reason);
/** The answer of a name server. */
void gy_tenant_given(gy_tenant *tenant, uint64_t lease, bool is_known);
/** Returns that are not known yet, again; idle slots. */
void gy_tenant_give_all(gy_tenant *tenant, int64_t now_ns);
void gy_tenant_give_idle(gy_tenant *tenant, int64_t now_ns);
/* ---- where.c: near what tasks read ---- */

/** The hosts of wishes that are said now. */
void gy_tenant_where_wish(gy_tenant *tenant, gy_manager_wishes *wishes);
/** What the name server says of the hosts of the wishes with this number: bits of those that
 * must be and are not there. A task that has none of its hosts for ten seconds (five times
 * dead_ns) ends the job. */
void gy_tenant_where_hear(gy_tenant *tenant, uint64_t sequence, uint32_t missing);
/** Idle slots go back that nothing can use which waits. */
void gy_tenant_where_give(gy_tenant *tenant, int64_t now_ns);

/* ---- rent.c: hosts where tasks fail ---- */

/** As the machine asks; done by gy_tenant_do_avoids, outside of steps. */
void gy_tenant_avoid(gy_tenant *tenant, uint32_t host, const char *reason);
void gy_tenant_do_avoids(gy_tenant *tenant);

#endif
