/**
 * What the files of the cluster's executor tell each other. Each slot that is open stands on a
 * lease; its process is at the daemon, and what the two say to each other goes over rpc.
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
    REMOTE_CREDIT_BYTES = 1 << 20,   /* of ours */
    REMOTE_FETCHES = 1024,           /* sections asked of one host at once, */
    REMOTE_FETCH_BATCH = 128         /* and in one message */
};

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

struct gy_remote {
    gy_rpc *rpc;
    gy_rpc_method methods[REMOTE_METHODS];
    const gy_ticket *ticket;
    gy_lease_client client; /* hosts, slots, requests */
    gy_rpc_peer names[REMOTE_NAMES_MAX];
    uint32_t name_count;
    gy_rpc_peer own;  /* the daemon that has started this manager, while no host is it; 0 */
    uint32_t never;   /* number of a request that no host is large enough for */
    int64_t never_ns; /* since when it is known */
    /* what is told for people */
    int64_t looked_ns, viewed_ns; /* whether it is another one; it was told */
    uint64_t view_hash;           /* as told last */
    uint32_t view_tasks;          /* that there were when `reads` was made */
    uint8_t *reads; /* (view_stages, view_stages) whether the first reads the second */
    uint32_t view_stages;
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
void remote_output(void *arg, gy_status status, const ProtobufCMessage *answer);
/** A call with remote_output, or `done`. GY_AGAIN; GY_PEER; GY_NOMEM */
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

/** gy_lease_client_ops.request, .give. */
void remote_say_requests(void *arg, const gy_manager_requests *requests);
bool remote_say_give(void *arg, const lease_return *back);
gy_status remote_handle_allocations(void *arg, const gy_rpc_asked *asked,
                                    const ProtobufCMessage *request);
gy_status remote_handle_over(void *arg, const gy_rpc_asked *asked,
                             const ProtobufCMessage *request);
/** view.c: tell what the job is at when that is due. */
void remote_view(gy_driver *driver, int64_t now_ns);
/** The same at the job's end, whatever was told before: it is kept. */
void remote_view_last(gy_driver *driver);

/* ---- hosts.c: connections to daemons ---- */

/** How far a host's clock is ahead of ours, of one question and its answer: sent by us, heard
 * and answered there, got by us. It is wrong by half of what the two ways took, at most (the
 * Network Time Protocol's formula). */
static inline int64_t remote_clock_ns(int64_t sent_ns, int64_t heard_ns, int64_t answered_ns,
                                      int64_t got_ns)
{
    /* Of nonsense comes nonsense, not an overflow: anybody may answer anything. */
    return (
        int64_t)(((double)heard_ns - (double)sent_ns + (double)answered_ns - (double)got_ns) /
                 2);
}

/** gy_lease_client_ops.dial, .hang_up, .attach, .beat. */
gy_status remote_dial(void *arg, uint32_t number);
void remote_hang_up(void *arg, uint32_t number);
void remote_attach(void *arg, uint32_t number);
void remote_beat(void *arg, uint32_t number);
/** An event of its connection. */
void remote_host_handle(gy_driver *driver, uint32_t number, gy_rpc_event event);
/** Of one that calls: GY_NONE nobody whose words count. */
uint32_t remote_host_of(const gy_driver *driver, gy_rpc_peer peer);

/* ---- executors.c: what daemons say of processes ---- */

gy_status remote_handle_lease_gone(void *arg, const gy_rpc_asked *asked,
                                   const ProtobufCMessage *request);
gy_status remote_handle_executor_gone(void *arg, const gy_rpc_asked *asked,
                                      const ProtobufCMessage *request);
gy_status remote_handle_relay(void *arg, const gy_rpc_asked *asked,
                              const ProtobufCMessage *request);
gy_status remote_handle_credit(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request);
/** The host's queue has room again. */
void remote_executors_go_on(gy_driver *driver, uint32_t host);

/* ---- fetch.c ---- */

gy_status remote_handle_fetched(void *arg, const gy_rpc_asked *asked,
                                const ProtobufCMessage *request);
/** Ask for what waits, as far as there is room; gy_lease_client_ops.go_on. */
void remote_fetches_go_on(void *arg, uint32_t host);
/** No answers come from there any more: its fetches are asked for anew, or have failed;
 * gy_lease_client_ops.begin_anew. */
void remote_fetches_anew(void *arg, uint32_t host);
void remote_starts_free(gy_driver *driver);

#endif
