/**
 * The client of leases in a manager: hosts by number, leases as slots of the machine, requests,
 * releases. It connects three machines (manager, name server, daemon) without using a socket:
 * gy_lease_client_ops sends the messages, through rpc in the driver, in memory in the
 * simulator.
 *
 * All calls of one client on one thread. It calls its callbacks from within. `step` is among
 * them, and may only call gy_lease_client_spawn, gy_lease_client_forget and
 * gy_lease_client_avoid.
 */
#ifndef GY_DRIVER_LEASE_LEASE_CLIENT_H
#define GY_DRIVER_LEASE_LEASE_CLIENT_H

#include "base/index.h"
#include "control/control.h"
#include "sched/manager.h"

enum {
    LEASE_CLIENT_HOSTS_MAX = 65535,
    LEASE_CLIENT_DEATHS_MAX = 4, /* processes in a row on a host that were never ready */
    LEASE_CLIENT_WHY_BYTES = 256
};

typedef enum lease_host_state {
    HOST_GONE,      /* lost, or never up: no connection */
    HOST_AWAY,      /* being connected */
    HOST_ATTACHING, /* connected */
    HOST_HERE       /* attached */
} lease_host_state;

/** A daemon's folder by its number in the machine, which never changes. */
typedef struct lease_host {
    lease_host_state state;
    bool is_up;       /* the machine counts it as up */
    bool is_expected; /* the journal names it; the machine waits for HOST_UP or HOST_LOST */
    bool is_avoided;
    bool is_last; /* it was avoided, and is used again since no other serves */
    uint64_t daemon, incarnation;
    int64_t away_ns; /* AWAY, ATTACHING: since when */
    char address[GY_CONTROL_TEXT_BYTES], name[GY_CONTROL_TEXT_BYTES];
    char why[LEASE_CLIENT_WHY_BYTES];
    uint32_t deaths; /* processes in a row that were never ready */
    /* Only for the implementation of the ops: */
    uint64_t peer;                  /* 0: none */
    int64_t clock_ns;               /* how far its clock is ahead of ours */
    bool is_full;                   /* its queue is full now */
    char *folder;                   /* of the job, on that host */
    uint32_t first_need, last_need; /* sections to request; GY_NONE at first */
    uint32_t asked;                 /* fetches under way to it */
    gy_text discards;               /* names of files to delete */
} lease_host;

/** A slot of the machine; lease 0: closed. */
typedef struct lease_executor {
    uint64_t lease;
    uint32_t host, gang;
    bool is_open;        /* the machine may use it */
    uint32_t generation; /* of the process in it; 0: none */
    uint32_t running;    /* STARTs without an answer */
    /* Only for the implementation of the ops: */
    bool is_open_due, is_kill_due; /* to be sent when there is room */
    uint64_t window;               /* bytes that may still be sent to it */
    uint64_t owed;                 /* bytes received from it for which no credit was sent yet */
} lease_executor;

/** A lease being released. */
typedef struct lease_return {
    uint64_t lease;
    bool is_bad, is_calling, is_known; /* is_known: the name server has answered */
    int64_t since_ns, asked_ns;
    char reason[GY_CONTROL_REASON_BYTES];
} lease_return;

typedef struct lease_avoid {
    uint32_t host;
    char reason[GY_CONTROL_REASON_BYTES];
} lease_avoid;

typedef struct gy_lease_client_ops {
    void (*step)(void *arg, gy_sched_event *event); /* step the machine; sets now_ns */
    void (*fail)(void *arg, gy_status status);      /* the job fails with this status */
    bool (*has_ended)(const void *arg);
    uint32_t (*process)(const void *arg, uint32_t slot); /* the slot's generation; 0: none */
    /* The slot's process has ended: drop messages for it. */
    void (*forget)(void *arg, uint32_t slot);
    /* A failure is this thread's last one; the next check finds the host lost. */
    gy_status (*dial)(void *arg, uint32_t host);
    void (*hang_up)(void *arg, uint32_t host);
    void (*attach)(void *arg, uint32_t host);     /* gy_lease_client_attached follows */
    void (*beat)(void *arg, uint32_t host);       /* a loss does no harm */
    void (*go_on)(void *arg, uint32_t host);      /* there is room again: send what waits */
    void (*begin_anew)(void *arg, uint32_t host); /* requests sent earlier are void */
    void (*request)(void *arg, const gy_manager_requests *requests); /* a loss does no harm */
    /* Release a lease at the name server: true if gy_lease_client_released will follow. */
    bool (*give)(void *arg, const lease_return *back);
} gy_lease_client_ops;

/**
 * gy_lease_client_open initialises it; others read it, and write only the members for the ops.
 */
typedef struct gy_lease_client {
    gy_env *env;
    gy_manager *manager;
    const gy_lease_client_ops *ops;
    void *arg;
    gy_key job;
    uint32_t epoch, slot_count;
    uint32_t threads; /* concurrent tasks in a slot; 0: one */
    int64_t dead_ns;
    int64_t lease_ns; /* of the last allocation; 0: there was none */
    /* the requests */
    uint64_t sequence, seen;
    uint64_t output_seen;            /* last sent values of these, */
    uint32_t wanted, wanted_at_once; /* and of these */
    uint32_t gang, gang_width; /* number of the gang request, its slots; 0: none is open */
    uint32_t gang_hosts;       /* > 1: over so many hosts */
    uint64_t gang_not;         /* != 0: for a backup task, not on this daemon */
    uint32_t served;           /* number of the last gang request that was allocated */
    int64_t gang_ns;           /* since when it is open */
    int64_t request_ns, idle_ns, beat_ns;
    /* preferred hosts */
    gy_wanted_where where; /* last sent */
    int64_t missed_ns;     /* since when a task's hosts are all down; 0: they are not */
    int64_t others_ns;     /* when the job last had no more slots elsewhere than useful */
    uint32_t unwanted;     /* host whose idle slots help nothing that waits; GY_NONE */
    int64_t unwanted_ns;   /* since when */
    /* hosts and slots */
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

/* ---- lease_client.c: hosts and leases ---- */

/**
 * env, manager, ops, arg, job, epoch, slot_count are set by the caller; dead_ns 0: 2 s;
 * sequence and gang: the last numbers used in this epoch before. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_lease_client_open(gy_lease_client *client);
/** After replay: find the hosts that the journal names. GY_NOMEM */
GY_MUST_CHECK gy_status gy_lease_client_begin(gy_lease_client *client);
/**
 * How long daemons may still be contacted after the last check that no other epoch had begun,
 * if the job has an exact task: its lease is waited out (names/leases.c) from an instant at
 * which another epoch had begun.
 */
int64_t gy_lease_client_watch_ns(const gy_lease_client *client);
/** The ops' members of hosts belong to the caller. */
void gy_lease_client_close(gy_lease_client *client);

/** A connection to the host is up, maybe a new one: attach. */
void gy_lease_client_host_up(gy_lease_client *client, uint32_t host);
/** Its connection is down. */
void gy_lease_client_host_down(gy_lease_client *client, uint32_t number, const char *why);
/** The name server has lost the daemon: if it does not answer here either, give it up soon. */
void gy_lease_client_host_is_dead(gy_lease_client *client, uint64_t daemon,
                                  uint64_t incarnation);
/** The daemon has restarted: executors and leases have ended, files still exist. */
void gy_lease_client_host_anew(gy_lease_client *client, uint32_t host);
/** The answer to ATTACH: the incarnation of its folder, or a failure with a reason. */
void gy_lease_client_attached(gy_lease_client *client, uint32_t host, gy_status status,
                              uint64_t incarnation, const char *why);
void gy_lease_client_host_lost(gy_lease_client *client, uint32_t number, const char *reason);
/** Give up hosts that are away for too long. Send heartbeats. */
void gy_lease_client_check_hosts(gy_lease_client *client, int64_t now_ns);
/** The number of a daemon's host, new if needed; GY_NONE: no memory, or too many. */
uint32_t gy_lease_client_host_get(gy_lease_client *client, uint64_t daemon,
                                  uint64_t incarnation, const char *address, const char *name);
/** Connect to the host unless it is connected. */
void gy_lease_client_host_dial(gy_lease_client *client, uint32_t number);

/** The slot of a lease; GY_NONE: none. */
uint32_t gy_lease_client_executor_of(const gy_lease_client *client, uint64_t lease);
/** The slot of a lease that a daemon reports to the manager of this epoch; GY_NONE: none. */
uint32_t gy_lease_client_slot_at(const gy_lease_client *client, uint32_t host, uint32_t epoch,
                                 uint64_t lease);
/** A lease was allocated: open its slot when the host is up. False: no slot is free. */
bool gy_lease_client_executor_take(gy_lease_client *client, const gy_allocation *allocation,
                                   uint32_t host);
enum {
    LEASE_CLIENT_BACK = 1,   /* tell the name server */
    LEASE_CLIENT_IS_DOWN = 2 /* its process is known to have ended */
};
/** The lease has ended: tell the machine. */
void gy_lease_client_executor_close(gy_lease_client *client, uint32_t slot, const char *reason,
                                    int flags);
/** The same for all leases of a host. */
void gy_lease_client_executors_close(gy_lease_client *client, uint32_t host, const char *reason,
                                     int flags);
/** Start a process in the slot. GY_PEER its lease has ended */
GY_MUST_CHECK gy_status gy_lease_client_spawn(gy_lease_client *client, uint32_t slot,
                                              uint32_t generation);
/** The daemon could not start it: release the lease, if it still belongs to this process. */
void gy_lease_client_not_opened(gy_lease_client *client, uint64_t lease, uint32_t generation,
                                const char *why);
/** The slot's process has ended. */
void gy_lease_client_forget(gy_lease_client *client, uint32_t slot, uint32_t generation);
/** A process on the host ended by itself; was it ready before? */
void gy_lease_client_process_ended(gy_lease_client *client, uint32_t number, bool was_ready,
                                   const char *why);

/* ---- renting.c: requests, allocations, releases ---- */

/** Send the requests if they have changed, or it is time. */
void gy_lease_client_request(gy_lease_client *client, int64_t now_ns);
/** A name server is connected: send it everything soon. */
void gy_lease_client_names_up(gy_lease_client *client);
/** Handle allocations of the name server, from version `from` to `version`. */
void gy_lease_client_take_allocations(gy_lease_client *client, uint64_t from, uint64_t version,
                                      const gy_allocation *allocations, size_t count);
/** Are they new? */
bool gy_lease_client_is_news(const gy_lease_client *client, uint64_t from, uint64_t version);
/** Release a lease; repeated until the name server answers. */
void gy_lease_client_release(gy_lease_client *client, uint64_t lease, bool is_bad,
                             const char *reason);
/** A name server has answered a release. */
void gy_lease_client_released(gy_lease_client *client, uint64_t lease, bool is_known);
/** Repeat unanswered releases; release idle slots. */
void gy_lease_client_release_all(gy_lease_client *client, int64_t now_ns);
void gy_lease_client_release_idle(gy_lease_client *client, int64_t now_ns);
/* ---- where.c: requests near inputs ---- */

/** Write the preferred hosts into the requests. */
void gy_lease_client_where_request(gy_lease_client *client, gy_manager_requests *requests);
/**
 * Handle the name server's bits of required hosts that are down, for the requests with this
 * number. A task without any of its hosts for ten seconds (five times dead_ns) ends the job.
 */
void gy_lease_client_where_handle(gy_lease_client *client, uint64_t sequence, uint32_t missing);
/** Release idle slots that nothing can use. */
void gy_lease_client_where_release(gy_lease_client *client, int64_t now_ns);

/* ---- renting.c: avoided hosts ---- */

/** For the machine's AVOID; gy_lease_client_do_avoids carries it out, outside of steps. */
void gy_lease_client_avoid(gy_lease_client *client, uint32_t host, const char *reason);
void gy_lease_client_do_avoids(gy_lease_client *client);

#endif
