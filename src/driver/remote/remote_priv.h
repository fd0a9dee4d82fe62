/**
 * Shared by the files of the cluster's executor. Each open slot is a lease; its process runs on
 * the daemon's host, and its messages travel over rpc.
 */
#ifndef GY_DRIVER_REMOTE_REMOTE_PRIV_H
#define GY_DRIVER_REMOTE_REMOTE_PRIV_H

#include "control/net/net.h"
#include "driver/lease/lease_client.h"
#include "driver/loop.h"

enum {
    REMOTE_NAMES_MAX = 8,
    REMOTE_METHODS = 18,
    REMOTE_WINDOW_BYTES = 256 << 10, /* of a daemon towards a process: daemon.h */
    REMOTE_CREDIT_BYTES = 1 << 20,   /* of this side */
    REMOTE_FETCHES = 1024,           /* sections requested from one host at once, */
    REMOTE_FETCH_BATCH = 128         /* and in one message */
};

typedef struct remote_start remote_start;
struct remote_start {
    remote_start *next, **place;
    uint32_t slot, generation, left; /* sections that are not there yet */
    gy_attempt id;
    uint32_t member;
    gy_text wire; /* the complete message */
};

/** A section that a START waits for. */
typedef struct remote_need {
    remote_start *start; /* NULL: a free row */
    uint64_t number;
    uint32_t to, next; /* target host; next in its queue, or of the free rows */
    uint32_t tries;
    bool is_asked;
    gy_driver_need what;
} remote_need;

struct gy_remote {
    gy_rpc *rpc;
    gy_rpc_method methods[REMOTE_METHODS];
    const gy_ticket *ticket;
    gy_lease_client client; /* hosts, slots, requests */
    gy_rpc_peer names[REMOTE_NAMES_MAX];
    uint32_t name_count;
    gy_rpc_peer own; /* the daemon that started this manager, until it is one of the hosts; 0 */
    uint32_t never;  /* number of a gang request too large for every host */
    int64_t never_ns; /* since when this is known */
    /* the displayed status */
    int64_t looked_ns, viewed_ns; /* last check for a change; last time it was sent */
    uint64_t view_hash;           /* of the status last sent */
    uint32_t view_tasks;          /* number of tasks when `reads` was computed */
    uint8_t *reads; /* (view_stages, view_stages) does the first stage read the second */
    uint32_t view_stages;
    /* fetches */
    remote_start *starts;
    remote_need *needs;
    size_t need_count, need_room;
    uint32_t free_need;
    gy_index by_number;
    uint64_t number;
    uint32_t farewells; /* JOB_OVER calls without an answer */
};

/* ---- remote.c ---- */

/**
 * The result of a call or tell whose failure the machine learns elsewhere. Ends the job if the
 * epoch has ended.
 */
void remote_output(void *arg, gy_status status, const ProtobufCMessage *answer);
/** Call with remote_output, or `done`, as the callback. GY_AGAIN; GY_PEER; GY_NOMEM */
GY_MUST_CHECK gy_status remote_call(gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                                    const ProtobufCMessage *message, gy_rpc_done done,
                                    void *arg);
/** Send a message that may be lost: it is repeated, or no longer matters then. */
void remote_tell(const gy_driver *driver, gy_rpc_peer peer, uint32_t type,
                 const ProtobufCMessage *message);
/** The epoch or the job has ended, according to an authority. */
void remote_over(gy_driver *driver, gy_status status, const char *who);
Gy__Cluster__Key remote_key(gy_key key);
/** A message NAME of this job and epoch. */
#define REMOTE_MESSAGE(TYPE, STEM, NAME)                                                       \
    Gy__Cluster__Key NAME##_job = remote_key(driver->remote->ticket->job);                     \
    Gy__Cluster__##TYPE NAME;                                                                  \
    gy__cluster__##STEM##__init(&(NAME));                                                      \
    (NAME).job = &NAME##_job;                                                                  \
    (NAME).epoch = driver->remote->ticket->epoch

/* ---- slots of gy_executor_cluster ---- */

gy_status remote_spawn(gy_driver *driver, gy_process *process);
void remote_kill(gy_driver *driver, const gy_process *process, const char *reason);
void remote_forget(gy_driver *driver, const gy_process *process);
void remote_send(gy_driver *driver, gy_process *process);
uint32_t remote_host(const gy_driver *driver, uint32_t slot);
const char *remote_folder(const gy_driver *driver, uint32_t slot);
void remote_guest(const gy_driver *driver, uint32_t slot, gy_driver_guest *guest);
gy_status remote_fetch(gy_driver *driver, gy_process *process, const gy_effect *effect,
                       const gy_driver_place *place);
bool remote_unfetch(gy_driver *driver, const gy_effect *effect);
void remote_answered(gy_driver *driver, const gy_process *process);

/* ---- requests.c: the name server ---- */

/** Implement gy_lease_client_ops.request and .give. */
void remote_send_requests(void *arg, const gy_manager_requests *requests);
bool remote_send_release(void *arg, const lease_return *back);
gy_status remote_handle_allocations(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request);
gy_status remote_handle_over(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request);
/** view.c: send the job's status when it is due. */
void remote_view(gy_driver *driver, int64_t now_ns);
/** Send it at the job's end in any case, since it is retained. */
void remote_view_last(gy_driver *driver);

/* ---- hosts.c: connections to daemons ---- */

/**
 * How far a host's clock is ahead of ours, from one question and its answer: sent by us,
 * received and answered there, received by us. The error is at most half of the two transit
 * times (the Network Time Protocol's formula).
 */
static inline int64_t remote_clock_ns(int64_t sent_ns, int64_t heard_ns, int64_t answered_ns,
                                      int64_t got_ns)
{
    /* Wrong input must not overflow: the times are untrusted. */
    return (
        int64_t)(((double)heard_ns - (double)sent_ns + (double)answered_ns - (double)got_ns) /
                 2);
}

/** Implement gy_lease_client_ops.dial, .hang_up, .attach, .beat. */
gy_status remote_dial(void *arg, uint32_t number);
void remote_hang_up(void *arg, uint32_t number);
void remote_attach(void *arg, uint32_t number);
void remote_beat(void *arg, uint32_t number);
/** Handle an event of the host's connection. */
void remote_host_handle(gy_driver *driver, uint32_t number, gy_rpc_event event);
/** The host of a calling peer; GY_NONE: none that matters. */
uint32_t remote_host_of(const gy_driver *driver, gy_rpc_peer peer);

/* ---- executors.c: messages of daemons about processes ---- */

gy_status remote_handle_lease_gone(void *arg, const gy_rpc_asked *asked,
                                   const ProtobufCMessage *request);
gy_status remote_handle_executor_gone(void *arg, const gy_rpc_asked *asked,
                                      const ProtobufCMessage *request);
gy_status remote_handle_relay(void *arg, const gy_rpc_asked *asked,
                              const ProtobufCMessage *request);
gy_status remote_handle_credit(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request);
/** There is room in the host's queue again. */
void remote_executors_go_on(gy_driver *driver, uint32_t host);

/* ---- fetch.c ---- */

gy_status remote_handle_fetched(void *arg, const gy_rpc_asked *asked,
                                const ProtobufCMessage *request);
/** Request the waiting sections as far as there is room; gy_lease_client_ops.go_on. */
void remote_fetches_go_on(void *arg, uint32_t host);
/**
 * The host will answer no earlier request: repeat its fetches, or fail them;
 * gy_lease_client_ops.begin_anew.
 */
void remote_fetches_anew(void *arg, uint32_t host);
void remote_starts_free(gy_driver *driver);

#endif
