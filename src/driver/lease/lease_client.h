/**
 * What a manager rents: the hosts it knows by number, the leases it was allocated as slots of
 * its machine, what it requests, what it releases. It stands between three machines (manager,
 * name server, daemon) and touches no socket: who carries words is gy_lease_client_ops. The
 * driver carries them over rpc, the simulator as letters.
 *
 * All calls of one on one thread. Callbacks are called from within, `step` too: it may come
 * back with gy_lease_client_spawn, gy_lease_client_forget and gy_lease_client_avoid alone.
 */
#ifndef GY_DRIVER_LEASE_LEASE_CLIENT_H
#define GY_DRIVER_LEASE_LEASE_CLIENT_H

#include "base/index.h"
#include "control/control.h"
#include "sched/manager.h"

enum {
    LEASE_CLIENT_HOSTS_MAX = 65535,
    LEASE_CLIENT_DEATHS_MAX = 4, /* of processes of a host that were never ready, in a row */
    LEASE_CLIENT_WHY_BYTES = 256
};

typedef enum lease_host_state {
    HOST_GONE,      /* lost, or never there: no connection */
    HOST_AWAY,      /* it is dialled */
    HOST_ATTACHING, /* connected */
    HOST_HERE       /* attached */
} lease_host_state;

/** A daemon's folder, by its number in the machine; never moved to another number. */
typedef struct lease_host {
    lease_host_state state;
    bool is_up;       /* as the machine knows */
    bool is_expected; /* the journal names it; the machine waits to hear of it */
    bool is_avoided;
    bool is_last; /* it was, and is used all the same: there is nothing else */
    uint64_t daemon, incarnation;
    int64_t away_ns; /* AWAY, ATTACHING: since then */
    char address[GY_CONTROL_TEXT_BYTES], name[GY_CONTROL_TEXT_BYTES];
    char why[LEASE_CLIENT_WHY_BYTES];
    uint32_t deaths; /* of processes that were never ready, in a row */
    /* Of whoever carries: nothing here reads them. */
    uint64_t peer;                  /* 0: none */
    int64_t clock_ns;               /* its clock is so far ahead of ours */
    bool is_full;                   /* nothing more goes to it now */
    char *folder;                   /* of the job, there */
    uint32_t first_need, last_need; /* GY_NONE at first: to be asked for */
    uint32_t asked;                 /* fetches under way to it */
    gy_text discards;               /* names of files that may go */
} lease_host;

/** A slot of the machine; lease 0: closed. */
typedef struct lease_executor {
    uint64_t lease;
    uint32_t host, gang;
    bool is_open;        /* the machine may use it */
    uint32_t generation; /* of the process that is there; 0: none */
    uint32_t running;    /* STARTs that it has not answered */
    /* Of whoever carries. */
    bool is_open_due, is_kill_due; /* to be said when there is room */
    uint64_t window;               /* bytes that may still be sent to it */
    uint64_t owed; /* bytes of it that were taken, credit for them not given yet */
} lease_executor;

/** A lease on its way back. */
typedef struct lease_return {
    uint64_t lease;
    bool is_bad, is_calling, is_known; /* the name server has answered */
    int64_t since_ns, asked_ns;
    char reason[GY_CONTROL_REASON_BYTES];
} lease_return;

typedef struct lease_avoid {
    uint32_t host;
    char reason[GY_CONTROL_REASON_BYTES];
} lease_avoid;

typedef struct gy_lease_client_ops {
    void (*step)(void *arg, gy_sched_event *event); /* the machine; now_ns is filled in there */
    void (*fail)(void *arg, gy_status status);      /* the job is over with this failure */
    bool (*has_ended)(const void *arg);
    uint32_t (*process)(const void *arg, uint32_t slot); /* its generation; 0: none */
    void (*forget)(void *arg, uint32_t slot); /* the slot's process is gone, with its words */
    /* A failure: as this thread's last failure says; it is lost at the next look. */
    gy_status (*dial)(void *arg, uint32_t host);
    void (*hang_up)(void *arg, uint32_t host);
    void (*attach)(void *arg, uint32_t host);     /* then gy_lease_client_attached */
    void (*beat)(void *arg, uint32_t host);       /* losing it is no harm */
    void (*go_on)(void *arg, uint32_t host);      /* it is here: what waits for it */
    void (*begin_anew)(void *arg, uint32_t host); /* what was asked of it is void */
    void (*request)(void *arg, const gy_manager_requests *requests); /* losing it is no harm */
    /* To the name server: true if its answer comes, gy_lease_client_released. */
    bool (*give)(void *arg, const lease_return *back);
} gy_lease_client_ops;

/** Filled in by gy_lease_client_open; others read it, and write what is the carrier's. */
typedef struct gy_lease_client {
    gy_env *env;
    gy_manager *manager;
    const gy_lease_client_ops *ops;
    void *arg;
    gy_key job;
    uint32_t epoch, slot_count;
    uint32_t threads; /* tasks at once in a slot; 0: one */
    int64_t dead_ns;
    int64_t lease_ns; /* of what was allocated last; 0: nothing was */
    /* what is requested */
    uint64_t sequence, seen;
    uint64_t output_seen;            /* as said last, */
    uint32_t wanted, wanted_at_once; /* and these */
    uint32_t gang, gang_width;       /* number of the request, its slots; 0: none is open */
    uint32_t gang_hosts;             /* above 1: on so many hosts */
    uint64_t gang_not;               /* not 0: for a copy, not at this daemon */
    uint32_t served;                 /* number of the last one that was allocated */
    int64_t gang_ns;                 /* since when it is requested */
    int64_t request_ns, idle_ns, beat_ns;
    /* where it is requested */
    gy_wanted_where where; /* as said last */
    int64_t missed_ns;     /* since when a task's hosts are not there; 0: they are */
    int64_t others_ns;     /* when there were no more slots elsewhere than are of use */
    uint32_t unwanted;     /* host whose idle slots nothing that waits can use; GY_NONE; */
    int64_t unwanted_ns;   /* since then */
    /* what is there */
    lease_host *hosts; /* (host_count) */
    size_t host_count, host_room;
    lease_executor *executors; /* (slot_count) */
    gy_index by_lease;
    uint32_t open_count;
    lease_return *returns;
    size_t return_count, return_room;
    lease_avoid *avoids;
    size_t avoid_count, avoid_room;
} gy_lease_client;

/* ---- lease_client.c: hosts, and the slots that stand on leases there ---- */

/** env, manager, ops, arg, job, epoch, slot_count are filled in; dead_ns 0: 2 s; sequence and
 * gang: what was said under this epoch before. GY_NOMEM */
GY_MUST_CHECK gy_status gy_lease_client_open(gy_lease_client *client);
/** After replay: look for the hosts that the journal knows. GY_NOMEM */
GY_MUST_CHECK gy_status gy_lease_client_begin(gy_lease_client *client);
/** So long after it was seen in the journal that no other epoch had begun daemons may still be
 * spoken to, if a task must never run twice at once: its lease is waited out (names/leases.c)
 * from an instant on at which one had. */
int64_t gy_lease_client_watch_ns(const gy_lease_client *client);
/** What the carrier keeps in hosts is its own. */
void gy_lease_client_close(gy_lease_client *client);

/** Its connection stands (anew, too), and is attached to. */
void gy_lease_client_host_up(gy_lease_client *client, uint32_t host);
/** Its connection is down. */
void gy_lease_client_host_down(gy_lease_client *client, uint32_t number, const char *why);
/** The name server has lost it: if it does not answer here either, it is soon given up. */
void gy_lease_client_host_is_dead(gy_lease_client *client, uint64_t daemon,
                                  uint64_t incarnation);
/** It is another life of it: executors and leases ended with the former one, files stand. */
void gy_lease_client_host_anew(gy_lease_client *client, uint32_t host);
/** It answered ATTACH with the incarnation of its folder, or failed and says why. */
void gy_lease_client_attached(gy_lease_client *client, uint32_t host, gy_status status,
                              uint64_t incarnation, const char *why);
void gy_lease_client_host_lost(gy_lease_client *client, uint32_t number, const char *reason);
/** Those that are away for too long. Beats. */
void gy_lease_client_look_after(gy_lease_client *client, int64_t now_ns);
/** The host of an id, made if need be; GY_NONE: no memory, or too many. */
uint32_t gy_lease_client_host_get(gy_lease_client *client, uint64_t daemon,
                                  uint64_t incarnation, const char *address, const char *name);
/** Its connection is asked for, if it is gone. */
void gy_lease_client_host_dial(gy_lease_client *client, uint32_t number);

/** The slot of a lease; GY_NONE: none. */
uint32_t gy_lease_client_executor_of(const gy_lease_client *client, uint64_t lease);
/** What a daemon says of a lease to the manager of this epoch: its slot; GY_NONE: none there.
 */
uint32_t gy_lease_client_slot_at(const gy_lease_client *client, uint32_t host, uint32_t epoch,
                                 uint64_t lease);
/** A lease that was allocated: its slot is opened when the host is here. False: no slot is
 * free.
 */
bool gy_lease_client_executor_take(gy_lease_client *client, const gy_allocation *allocation,
                                   uint32_t host);
enum {
    LEASE_CLIENT_BACK = 1,   /* the name server shall know */
    LEASE_CLIENT_IS_DOWN = 2 /* its process is known to be gone */
};
/** The lease is over: the machine hears of it. */
void gy_lease_client_executor_close(gy_lease_client *client, uint32_t slot, const char *reason,
                                    int flags);
/** All of a host's. */
void gy_lease_client_executors_close(gy_lease_client *client, uint32_t host, const char *reason,
                                     int flags);
/** A process is to be opened in the slot. GY_PEER its lease is gone */
GY_MUST_CHECK gy_status gy_lease_client_spawn(gy_lease_client *client, uint32_t slot,
                                              uint32_t generation);
/** The daemon has not opened it: its lease goes back, if it is still about this process. */
void gy_lease_client_not_opened(gy_lease_client *client, uint64_t lease, uint32_t generation,
                                const char *why);
/** The slot's process is gone. */
void gy_lease_client_forget(gy_lease_client *client, uint32_t slot, uint32_t generation);
/** A process at the host ended by itself: was it ready before? */
void gy_lease_client_process_ended(gy_lease_client *client, uint32_t number, bool was_ready,
                                   const char *why);

/* ---- renting.c: requests, allocations, leases that go back ---- */

/** Said when they have changed, or it is time. */
void gy_lease_client_request(gy_lease_client *client, int64_t now_ns);
/** There is a connection to a name server: soon all is said to it. */
void gy_lease_client_names_up(gy_lease_client *client);
/** What was told by the name server, from `from` to `version`. */
void gy_lease_client_take_allocations(gy_lease_client *client, uint64_t from, uint64_t version,
                                      const gy_allocation *allocations, size_t count);
/** Would that be new? */
bool gy_lease_client_is_news(const gy_lease_client *client, uint64_t from, uint64_t version);
/** Give a lease back, until the name server knows. */
void gy_lease_client_release(gy_lease_client *client, uint64_t lease, bool is_bad,
                             const char *reason);
/** The answer of a name server. */
void gy_lease_client_released(gy_lease_client *client, uint64_t lease, bool is_known);
/** Returns that are not known yet, again; idle slots. */
void gy_lease_client_release_all(gy_lease_client *client, int64_t now_ns);
void gy_lease_client_release_idle(gy_lease_client *client, int64_t now_ns);
/* ---- where.c: near what tasks read ---- */

/** The hosts of requests that are said now. */
void gy_lease_client_where_request(gy_lease_client *client, gy_manager_requests *requests);
/** What the name server says of the hosts of the requests with this number: bits of those that
 * must be and are not there. A task that has none of its hosts for ten seconds (five times
 * dead_ns) ends the job. */
void gy_lease_client_where_handle(gy_lease_client *client, uint64_t sequence, uint32_t missing);
/** Idle slots go back that nothing can use which waits. */
void gy_lease_client_where_release(gy_lease_client *client, int64_t now_ns);

/* ---- renting.c: hosts where tasks fail ---- */

/** As the machine asks; done by gy_lease_client_do_avoids, outside of steps. */
void gy_lease_client_avoid(gy_lease_client *client, uint32_t host, const char *reason);
void gy_lease_client_do_avoids(gy_lease_client *client);

#endif
