/**
 * What name server, daemons and managers tell each other, as flat values: what a message holds.
 *
 * Two things are told again and again, whole, so that nothing is lost by losing a message: the
 * state of a daemon and the requests of a manager, each with a sequence number, of which an
 * older one is ignored. What goes the other way are *orders*, numbered (term, number): a daemon
 * takes only one that is larger than all it has seen, and its state says how far it has. So an
 * order is carried out once or, when a later one overtook it, never; the name server sees
 * which.
 */
#ifndef GY_CONTROL_CONTROL_H
#define GY_CONTROL_CONTROL_H

#include "base/key.h"

enum {
    GY_CONTROL_TEXT_BYTES = 64, /* of an address, host, name, label, with its end */
    GY_CONTROL_LABELS_BYTES = 256,
    GY_CONTROL_REASON_BYTES = 256,
    GY_CONTROL_SLOTS_MAX = 1024,  /* of a daemon */
    GY_CONTROL_GANGS_MAX = 8,     /* that a manager waits for at once */
    GY_CONTROL_HOSTS_MAX = 16,    /* that it prefers */
    GY_CONTROL_AVOID_MAX = 8,     /* daemons that a job avoids */
    GY_CONTROL_EXPECTED_MAX = 16, /* that it waits for */
};

/** A slot of a daemon, lent to a manager: the executor of one process. */
typedef struct gy_leased {
    uint64_t lease; /* never given twice */
    gy_key job;
    uint32_t epoch; /* of the manager */
    uint32_t gang;  /* number of the manager's request that it is part of; 0: of none */
    bool is_ending; /* over, but its process is not gone yet */
} gy_leased;

/** A manager that a daemon runs, or is about to; or one that ended here, of a job whose later
 * epochs the daemon has not heard of: so a name server that was not there then need not wait;
 * or the epoch that is known here of a job of which an order was of an older one.
 */
typedef struct gy_hosted {
    gy_key job;
    uint32_t epoch;
    bool is_gone;
    bool is_waiting; /* for its files, which come as fast as they can */
    bool is_known;   /* no manager that is or was here: whoever ordered is behind the times */
    uint32_t signal; /* is_gone: by which it ended; 0: not known */
} gy_hosted;

/** All that a daemon tells the name server; texts and arrays are borrowed for the step. */
typedef struct gy_daemon_state {
    uint64_t daemon;      /* of its host and folder, the same for ever */
    uint64_t incarnation; /* drawn when its folder was made: an empty one is another */
    uint64_t life;        /* how often it was started with this folder */
    uint64_t sequence;    /* of what it says in this life */
    uint64_t term, order; /* the largest order that it has seen in this life */
    uint64_t platform;    /* hash of machine, ABI and build: programs run where it is theirs */
    uint32_t slots;
    const char *address, *host;
    const char *labels;  /* "gpu,fast" */
    const char *trouble; /* why it takes no new work: "disk full"; "": it does */
    const gy_leased *leases;
    size_t lease_count;
    const gy_hosted *managers;
    size_t manager_count;
} gy_daemon_state;

typedef enum gy_control_order_kind {
    /* lease, count, job, epoch, gang, length_ns: lend so many slots, all or none; their numbers
     * follow each other */
    GY_ORDER_LEASE,
    GY_ORDER_END_LEASE, /* lease: take it back, its process too */
    GY_ORDER_MANAGER,   /* job, epoch: start the job's manager */
    GY_ORDER_FORGET,    /* job, epoch: keep nothing of it any more */
} gy_control_order_kind;

/** From the name server to a daemon; one for another incarnation is ignored. */
typedef struct gy_control_order {
    gy_control_order_kind kind;
    uint32_t epoch, gang;
    uint32_t count;     /* LEASE: slots */
    uint32_t slots_max; /* MANAGER: the most that one host can lend its job; 0: not known */
    uint64_t daemon, incarnation;
    uint64_t term, number;
    uint64_t lease;
    gy_key job;
    int64_t length_ns; /* ends when the daemon did not hear the manager for so long */
    bool is_resumed;   /* MANAGER: its user has a job go on that had ended, */
    bool is_forgotten; /* MANAGER: or what is kept of one removed */
} gy_control_order;

/**
 * Slots wanted together, all or none. Told until they were allocated; a lease of a gang that
 * was allocated before, or is not wanted any more, the manager releases.
 */
typedef struct gy_gang_request {
    uint32_t number;  /* > 0, never used twice under an epoch */
    uint32_t width;   /* slots */
    bool is_one_host; /* all at one daemon; else wherever they are, or */
    uint32_t hosts;   /* above 1: width / hosts of them at each of so many daemons */
    /* Not 0: for a copy of what is late at this daemon. Elsewhere, on one host; of what is
     * free, nothing is reserved or preempted for it. */
    uint64_t not_daemon;
} gy_gang_request;

/** A daemon that a manager waits for: its journal says that outputs lie there. */
typedef struct gy_expected {
    uint64_t daemon, incarnation;
} gy_expected;

/** All that a manager tells the name server; borrowed for the step. */
typedef struct gy_manager_requests {
    gy_key job;
    uint32_t epoch;
    uint64_t sequence;
    uint64_t seen; /* version (term in its high 32 bits) of what it was told last; 0: none */
    const char *address;
    uint32_t slots; /* single ones that it can use, those it has included */
    gy_gang_request gangs[GY_CONTROL_GANGS_MAX];
    uint32_t gang_count;
    const char *hosts[GY_CONTROL_HOSTS_MAX]; /* where it would like to run; NULL: no request */
    uint32_t must;   /* for the first so many of them there is no other place: some of its tasks
                        run there alone. is_limited: on all others */
    bool is_limited; /* `elsewhere` of the single slots are of use, and no more */
    uint32_t elsewhere;
    gy_expected expected[GY_CONTROL_EXPECTED_MAX]; /* some of them, if there are more */
    uint32_t expected_count;
} gy_manager_requests;

/** What a manager is told of a lease. Lease 0 that is gone: the daemon itself is lost. */
typedef enum gy_allocation_state {
    GY_ALLOCATION_HELD,
    GY_ALLOCATION_ASKED, /* give it back soon: another's share */
    GY_ALLOCATION_GONE,  /* over, or its daemon is lost */
} gy_allocation_state;

typedef struct gy_allocation {
    uint64_t lease;
    gy_allocation_state state;
    uint32_t gang;
    bool is_last; /* it is of a daemon that the job avoids: nothing else has slots enough */
    uint64_t daemon, incarnation;
    const char *address, *host;
    int64_t length_ns; /* of its own clock, without an answer of the daemon: count it as gone;
                          longer than the daemon's by the time in which a manager finds that
                          another one has begun, and a process dies */
} gy_allocation;

#endif
