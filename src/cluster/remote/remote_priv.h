/**
 * What the files of the driver's remote side tell each other.
 */
#ifndef GY_CLUSTER_REMOTE_PRIV_H
#define GY_CLUSTER_REMOTE_PRIV_H

#include "cluster/control/index.h"
#include "cluster/net/net.h"
#include "cluster/remote/remote.h"

enum {
    REMOTE_NAMES_MAX = 8,
    REMOTE_METHODS = 18,
    REMOTE_HOSTS_MAX = 65535,
    REMOTE_WINDOW_BYTES = 256 << 10, /* of a daemon towards a process: daemon.h */
    REMOTE_CREDIT_BYTES = 1 << 20,   /* of ours */
    REMOTE_FETCHES = 64,             /* asked of one host at once; the daemon does 8 */
    REMOTE_DEATHS_MAX = 4 /* of processes of a host that were never ready, in a row */
};

typedef enum remote_host_state {
    HOST_GONE,      /* lost, or never there: no connection */
    HOST_AWAY,      /* it is dialled */
    HOST_ATTACHING, /* connected */
    HOST_HERE       /* attached */
} remote_host_state;

/** A daemon's folder, by its number in the machine; never moved to another number. */
typedef struct remote_host {
    remote_host_state state;
    bool is_up;       /* as the machine knows */
    bool is_expected; /* the journal names it; the machine waits to hear of it */
    bool is_avoided, is_full;
    uint64_t daemon, incarnation;
    gy_rpc_peer peer;
    int64_t away_ns; /* AWAY, ATTACHING: since then */
    char address[GY_CONTROL_TEXT_BYTES], name[GY_CONTROL_TEXT_BYTES];
    char *folder; /* of the job, there */
    char why[256];
    uint32_t first_need, last_need; /* to be asked for */
    uint32_t asked;                 /* fetches under way to it */
    uint32_t deaths;                /* of processes that were never ready, in a row */
    gy_text discards;               /* names of files that may go */
} remote_host;

/** A slot of the machine; lease 0: closed. */
typedef struct remote_seat {
    uint64_t lease;
    uint32_t host, gang;
    bool is_open;                  /* the machine may use it */
    bool is_open_due, is_kill_due; /* to be said when there is room */
    uint32_t generation;           /* of the process that is there; 0: none */
    uint64_t window;               /* bytes that may still be sent to it */
    uint64_t owed;    /* bytes of it that were taken, credit for them not given yet */
    uint32_t running; /* STARTs that it has not answered */
} remote_seat;

/** A lease on its way back. */
typedef struct remote_return {
    uint64_t lease;
    bool is_bad, is_calling, is_known; /* the name server has answered */
    int64_t since_ns, asked_ns;
    char reason[GY_CONTROL_REASON_BYTES];
} remote_return;

typedef struct remote_start remote_start;
struct remote_start {
    remote_start *next, **place;
    uint32_t slot, generation, left; /* sections that are not there yet */
    gy_attempt id;
    uint32_t member;
    gy_text wire; /* the message, whole */
};

/** A section that a START waits for. */
typedef struct remote_need {
    remote_start *start; /* NULL: a free row */
    uint64_t number;
    uint32_t to, next; /* host; in its queue, or of free rows */
    uint32_t tries;
    bool is_asked;
    gy_driver_need what;
} remote_need;

typedef struct remote_avoid {
    uint32_t host;
    char reason[GY_CONTROL_REASON_BYTES];
} remote_avoid;

struct gy_remote {
    gy_rpc *rpc;
    gy_rpc_method methods[REMOTE_METHODS];
    const gy_ticket *ticket;
    int64_t dead_ns;
    gy_rpc_peer names[REMOTE_NAMES_MAX];
    uint32_t name_count;
    /* what is wished */
    uint64_t sequence, seen;
    uint64_t said_seen;              /* as said last, */
    uint32_t wanted, wanted_at_once; /* and these */
    uint32_t gang, gang_width;       /* number of the wish, its slots; 0: none is open */
    uint32_t served;                 /* number of the last one that was granted */
    int64_t gang_ns;                 /* since when it is wished */
    int64_t wish_ns, idle_ns, beat_ns;
    /* what is told for people */
    int64_t looked_ns, viewed_ns; /* whether it is another one; it was told */
    uint64_t view_hash;           /* as told last */
    uint32_t view_tasks;          /* that there were when `reads` was made */
    uint8_t *reads; /* (view_stages, view_stages) whether the first reads the second */
    uint32_t view_stages;
    /* what is there */
    remote_host *hosts; /* (host_count) */
    size_t host_count, host_room;
    remote_seat *seats; /* (process_count) */
    gy_index by_lease;
    uint32_t open_count;
    remote_return *returns;
    size_t return_count, return_room;
    remote_avoid *avoids;
    size_t avoid_count, avoid_room;
    /* what is fetched */
    remote_start *starts;
    remote_need *needs;
    size_t need_count, need_room;
    uint32_t free_need;
    gy_index by_number;
    uint64_t number;
    uint32_t farewells; /* JOB_OVER that are not answered */
};

/* ---- remote.c ---- */

/** Of an answered call or a tell: a failure to say it that matters is told to the machine
 * elsewhere. Ends the job when the epoch is over. */
void remote_said(void *arg, gy_status status, const ProtobufCMessage *answer);
/** A call with remote_said, or `done`. GY_AGAIN; GY_PEER; GY_NOMEM */
GY_MUST_CHECK gy_status remote_call(gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                                    const ProtobufCMessage *message, gy_rpc_done done,
                                    void *arg);
/** Something that may be lost: it is said again, or matters to nobody then. */
void remote_tell(const gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                 const ProtobufCMessage *message);
/** The epoch or the job is over, as somebody who knows has said. */
void remote_over(gy_driver *driver, gy_status status, const char *who);
Gy__Cluster__Key remote_key(gy_key key);
/** A message NAME of this job and epoch. */
#define REMOTE_MESSAGE(TYPE, STEM, NAME)                                                       \
    Gy__Cluster__Key NAME##_job = remote_key(driver->remote->ticket->job);                     \
    Gy__Cluster__##TYPE NAME;                                                                  \
    gy__cluster__##STEM##__init(&(NAME));                                                      \
    (NAME).job = &NAME##_job;                                                                  \
    (NAME).epoch = driver->remote->ticket->epoch

/* ---- wishes.c: the name server ---- */

void remote_wish(gy_driver *driver, int64_t now_ns);
gy_status remote_hear_grants(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request);
gy_status remote_hear_over(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request);
/** view.c: tell what the job is at when that is due. */
void remote_view(gy_driver *driver, int64_t now_ns);
/** Give a lease back, until the name server knows. */
void remote_give_back(gy_driver *driver, uint64_t lease, bool is_bad, const char *reason);
void remote_give_all(gy_driver *driver, int64_t now_ns);
/** Slots that nothing runs in, when fewer are wanted than there are. */
void remote_give_idle(gy_driver *driver, int64_t now_ns);

/* ---- hosts.c: daemons, and leases there ---- */

/** The host of an id, made if need be; NULL: no memory, or too many. */
remote_host *remote_host_get(gy_driver *driver, uint64_t daemon, uint64_t incarnation,
                             const char *address, const char *name);
/** Dial it if it is gone. */
void remote_host_dial(gy_driver *driver, remote_host *host);
void remote_host_lost(gy_driver *driver, remote_host *host, const char *reason);
/** An event of its connection. */
void remote_host_hear(gy_driver *driver, remote_host *host, gy_rpc_event event);
/** Those that are away for too long. Beats. */
void remote_hosts_look_after(gy_driver *driver, int64_t now_ns);
/** Of one that calls: GY_NONE nobody whose words count. */
uint32_t remote_host_of(const gy_driver *driver, gy_rpc_peer peer);

/** A lease that was granted: its slot is opened when the host is here. False: no slot is free.
 */
bool remote_seat_take(gy_driver *driver, const gy_grant *grant, uint32_t host);
void remote_seat_open(gy_driver *driver, uint32_t slot);
enum {
    REMOTE_BACK = 1 /* the name server shall know */,
    REMOTE_IS_DOWN = 2 /* its process is
known to be gone */
};
/** The lease is over: the machine hears of it. */
void remote_seat_close(gy_driver *driver, uint32_t slot, const char *reason, int flags);
/** All of a host's. */
void remote_seats_close(gy_driver *driver, uint32_t host, const char *reason, int flags);
uint32_t remote_seat_of(const gy_driver *driver, uint64_t lease);

/* ---- seats.c: what daemons say of processes ---- */

gy_status remote_hear_lease_gone(void *arg, const gy_rpc_asked *asked,
                                 const ProtobufCMessage *request);
gy_status remote_hear_seat_gone(void *arg, const gy_rpc_asked *asked,
                                const ProtobufCMessage *request);
gy_status remote_hear_relay(void *arg, const gy_rpc_asked *asked,
                            const ProtobufCMessage *request);
gy_status remote_hear_credit(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request);
/** The host's queue has room again. */
void remote_seats_go_on(gy_driver *driver, uint32_t host);

/* ---- fetch.c ---- */

gy_status remote_hear_fetched(void *arg, const gy_rpc_asked *asked,
                              const ProtobufCMessage *request);
/** Ask for what waits, as far as there is room. */
void remote_fetches_go_on(gy_driver *driver, uint32_t host);
/** No answers come from there any more: its fetches are asked for anew, or have failed. */
void remote_fetches_anew(gy_driver *driver, uint32_t host);
void remote_starts_free(gy_driver *driver);

#endif
