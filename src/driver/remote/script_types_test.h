/** For script_test.h: what goes wrong, and the state of the name server and the daemons that it
 * plays. */
#ifndef GY_DRIVER_REMOTE_SCRIPT_TYPES_TEST_H
#define GY_DRIVER_REMOTE_SCRIPT_TYPES_TEST_H

#include "control/net/net.h"
#include "driver/loop.h"

#include <pthread.h>

enum { HOSTS = 3, EXECUTORS = 4, FETCHED_MAX = 256, PRODUCERS = 6 };

/** What goes wrong, once, after `after` tasks are done (in all). */
typedef enum script_trouble {
    TROUBLE_NONE,
    TROUBLE_HOST_DIES,     /* host 0 is gone for good */
    TROUBLE_HOST_RETURNS,  /* it is started anew: executors and leases are gone, files stand */
    TROUBLE_HOST_EMPTY,    /* it is started anew with another folder */
    TROUBLE_LEASE_GONE,    /* a lease ends under its task */
    TROUBLE_EXECUTOR_DIES, /* a process of host 0 dies under its task */
    TROUBLE_ASKED,         /* a lease under a task is preempted */
    TROUBLE_FETCH_LOST,    /* a file that is to be fetched is not there */
    TROUBLE_FETCH_DEAD,    /* the peer does not answer the reader's daemon, twice */
    TROUBLE_FULL,          /* no room for what is fetched to host 1 */
    TROUBLE_OPEN_REFUSED,  /* host 0 takes no process */
    TROUBLE_KILLED,        /* by the job's user */
    TROUBLE_OVER,          /* another epoch */
    TROUBLE_EPOCH,         /* a daemon knows another epoch */
    TROUBLE_CLAIMED,       /* another epoch has a journal, and nobody says so */
} script_trouble;

typedef struct script_executor {
    uint64_t lease; /* 0: free */
    uint32_t generation;
    bool is_open, is_fed;        /* something came since it was looked at last */
    uint64_t credit, credit_max; /* to the manager */
    uint64_t window, taken;      /* from it; what came of that is not released yet */
    gy_text in, out;
    size_t sent;
} script_executor;

typedef struct script script;

typedef struct script_host {
    script *at;
    int index;
    gy_rpc *rpc;
    gy_rpc_method methods[16];
    gy_rpc_peer manager;
    char address[GY_RPC_ADDRESS_BYTES];
    uint64_t incarnation;
    script_executor executors[EXECUTORS];
    uint64_t fetched[FETCHED_MAX];
    int fetched_count, attaches, beats, discards, calls;
    bool is_over;
} script_host;

struct script {
    script_trouble trouble;
    uint32_t after;
    size_t body_bytes, report_bytes; /* of STARTs and reports, at least */
    bool is_narrow;                  /* no host has two slots, and that is said */
    bool is_spread;                  /* single slots are lent on different hosts */
    bool is_over_awaited; /* it does not end before host 0 has heard that all is over */
    const char *claim;    /* what another epoch makes */
    bool is_called_first; /* nothing is lent before host 0 was called */
    /* its own */
    pthread_t thread;
    _Atomic bool is_ended, is_wrong;
    gy_rpc *rpc;
    gy_rpc_method methods[5];
    gy_rpc_peer manager;
    char address[GY_RPC_ADDRESS_BYTES];
    script_host hosts[HOSTS];
    int host_count, failures;       /* failures: of fetches, so far */
    uint64_t version, lease, asked; /* that is preempted, 0: none */
    uint32_t wanted, done, runs[64], given, bad, gang;
    uint32_t views, view_tasks, view_committed, view_notes; /* that came; of the last one */
    bool has_struck;
    char wrong[200];
};

#endif
