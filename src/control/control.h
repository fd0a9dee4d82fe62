/**
 * What the name server, daemons and managers exchange, as flat values: the content of messages.
 *
 * Two values are sent repeatedly and whole, so that a lost message does no harm: the state of a
 * daemon, and the resource requests of a manager. Each has a sequence number, and an older one
 * is ignored. In the other direction go *orders*, numbered (term, number): a daemon accepts
 * only an order larger than all it has seen, and its state reports the largest. So an order is
 * carried out once or, if a later one overtook it, never; the name server sees which.
 */
#ifndef GY_CONTROL_CONTROL_H
#define GY_CONTROL_CONTROL_H

#include "base/key.h"

enum {
    GY_CONTROL_TEXT_BYTES = 64, /* of an address, host, name or label, with its NUL */
    GY_CONTROL_LABELS_BYTES = 256,
    GY_CONTROL_REASON_BYTES = 256,
    GY_CONTROL_SLOTS_MAX = 1024,  /* of a daemon */
    GY_CONTROL_GANGS_MAX = 8,     /* that a manager requests at once */
    GY_CONTROL_HOSTS_MAX = 16,    /* preferred hosts of a manager */
    GY_CONTROL_AVOID_MAX = 8,     /* daemons that a job avoids */
    GY_CONTROL_EXPECTED_MAX = 16, /* daemons that a manager expects */
};

/** A daemon's slot that is leased to a manager: the executor of one process. */
typedef struct gy_leased {
    uint64_t lease; /* never used twice */
    gy_key job;
    uint32_t epoch; /* of the manager */
    uint32_t gang;  /* number of the gang request that it belongs to; 0: none */
    bool is_ending; /* the lease has expired, but its process has not ended yet */
} gy_leased;

/**
 * A manager that a daemon runs or will run. Or one that ended there, as long as the daemon
 * knows no later epoch: a name server that started later then need not wait for it. Or the
 * known epoch of a job after an order with an older epoch.
 */
typedef struct gy_hosted {
    gy_key job;
    uint32_t epoch;
    bool is_gone;
    bool is_waiting; /* for its files, which are still being fetched */
    bool is_known; /* no manager ran here: the sender of the order knows only an older epoch */
    uint32_t signal; /* is_gone: the signal that killed it; 0: not known */
} gy_hosted;

/**
 * The state that a daemon sends to the name server; texts and arrays are borrowed for the step.
 */
typedef struct gy_daemon_state {
    uint64_t daemon; /* identifies host and folder, for ever */
    /* Drawn when its folder was created: a new folder is a new incarnation. */
    uint64_t incarnation;
    uint64_t life;        /* number of starts with this folder */
    uint64_t sequence;    /* number of this state in this life */
    uint64_t term, order; /* the largest order that it has seen in this life */
    uint64_t platform; /* hash of machine, ABI and build: it runs programs with the same hash */
    uint32_t slots;
    const char *address, *host;
    const char *labels;  /* "gpu,fast" */
    const char *trouble; /* why it accepts no new work: "disk full"; "": it does */
    const gy_leased *leases;
    size_t lease_count;
    const gy_hosted *managers;
    size_t manager_count;
} gy_daemon_state;

typedef enum gy_control_order_kind {
    /* lease, count, job, epoch, gang, length_ns: lease that many slots, all or none, with
     * consecutive lease numbers */
    GY_ORDER_LEASE,
    GY_ORDER_END_LEASE, /* lease: end the lease and its process */
    GY_ORDER_MANAGER,   /* job, epoch: start the job's manager */
    GY_ORDER_FORGET,    /* job, epoch: delete everything that is retained of the job */
} gy_control_order_kind;

/**
 * An order from the name server to a daemon, which ignores it if it is for another incarnation.
 */
typedef struct gy_control_order {
    gy_control_order_kind kind;
    uint32_t epoch, gang;
    uint32_t count;     /* LEASE: slots */
    uint32_t slots_max; /* MANAGER: the maximum of slots that one host can lend the job; 0: not
                           known */
    uint64_t daemon, incarnation;
    uint64_t term, number;
    uint64_t lease;
    gy_key job;
    /* The lease ends after so long without a message from the manager. */
    int64_t length_ns;
    bool is_resumed;   /* MANAGER: the user resumes a job that had ended, */
    bool is_forgotten; /* MANAGER: or has its retained data removed */
} gy_control_order;

/**
 * A gang request: slots that are allocated together or not at all. The manager repeats it until
 * it has them. If it receives slots of a gang that it already has or no longer needs, it
 * releases them.
 */
typedef struct gy_gang_request {
    uint32_t number;  /* > 0, never used twice in an epoch */
    uint32_t width;   /* slots */
    bool is_one_host; /* all on one daemon; else on any daemons, or */
    uint32_t hosts;   /* > 1: width / hosts of them on each of so many daemons */
    /* != 0: for the backup task of a straggler on this daemon. Slots on one other host, only if
     * they are free: the name server reserves and preempts nothing for it. */
    uint64_t not_daemon;
} gy_gang_request;

/** A daemon that a manager waits for, since its journal says that outputs lie there. */
typedef struct gy_expected {
    uint64_t daemon, incarnation;
} gy_expected;

/** The requests that a manager sends to the name server; borrowed for the step. */
typedef struct gy_manager_requests {
    gy_key job;
    uint32_t epoch;
    uint64_t sequence;
    uint64_t seen; /* version (term in its high 32 bits) of the last allocations that it
                      received; 0: none */
    const char *address;
    uint32_t slots; /* number of single slots that it can use, including those it has */
    gy_gang_request gangs[GY_CONTROL_GANGS_MAX];
    uint32_t gang_count;
    const char *hosts[GY_CONTROL_HOSTS_MAX]; /* preferred hosts; NULL: no preference */
    uint32_t must;   /* the first `must` are required, since some of its tasks run only there.
                        is_limited: on all other hosts */
    bool is_limited; /* only `elsewhere` of the single slots are useful */
    uint32_t elsewhere;
    gy_expected expected[GY_CONTROL_EXPECTED_MAX]; /* only some, if there are more */
    uint32_t expected_count;
} gy_manager_requests;

/**
 * The state of a lease as a manager sees it. Lease 0 in state GONE: the daemon itself is lost.
 */
typedef enum gy_allocation_state {
    GY_ALLOCATION_HELD,
    GY_ALLOCATION_ASKED, /* preempted: release it soon, since it exceeds the job's share */
    GY_ALLOCATION_GONE,  /* expired, or its daemon is lost */
} gy_allocation_state;

typedef struct gy_allocation {
    uint64_t lease;
    gy_allocation_state state;
    uint32_t gang;
    bool is_last; /* from a daemon that the job avoids, since no other has enough slots */
    uint64_t daemon, incarnation;
    const char *address, *host;
    /* After so long without an answer from the daemon, by its own clock, the manager treats it
     * as expired; longer than the daemon's length by the time a manager needs to notice a
     * successor and a process needs to die. */
    int64_t length_ns;
} gy_allocation;

#endif
