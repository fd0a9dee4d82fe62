/**
 * For script_test.h: the possible troubles, and the state of the simulated name server and
 * daemons.
 */
#ifndef GY_DRIVER_REMOTE_SCRIPT_TYPES_TEST_H
#define GY_DRIVER_REMOTE_SCRIPT_TYPES_TEST_H

#include "control/net/net.h"
#include "driver/loop.h"

#include <pthread.h>

enum { HOSTS = 3, EXECUTORS = 4, FETCHED_MAX = 256, PRODUCERS = 6 };

/** What goes wrong, once, after `after` tasks are done in all. */
typedef enum script_trouble {
    TROUBLE_NONE,
    TROUBLE_HOST_DIES,     /* host 0 is lost for good */
    TROUBLE_HOST_RETURNS,  /* it restarts: executors and leases have ended, files still exist */
    TROUBLE_HOST_EMPTY,    /* it restarts with another folder */
    TROUBLE_LEASE_GONE,    /* a lease ends while its task runs */
    TROUBLE_EXECUTOR_DIES, /* a process of host 0 dies while its task runs */
    TROUBLE_ASKED,         /* a lease is preempted while its task runs */
    TROUBLE_FETCH_LOST,    /* a file to fetch does not exist */
    TROUBLE_FETCH_DEAD,    /* the peer does not answer the reader's daemon, twice */
    TROUBLE_FULL,          /* host 1 has no room for fetched sections */
    TROUBLE_OPEN_REFUSED,  /* host 0 refuses processes */
    TROUBLE_KILLED,        /* its user kills the job */
    TROUBLE_OVER,          /* another epoch has begun */
    TROUBLE_EPOCH,         /* a daemon knows another epoch */
    TROUBLE_CLAIMED,       /* another epoch has a journal, and no peer reports it */
} script_trouble;

typedef struct script_executor {
    uint64_t lease; /* 0: free */
    uint32_t generation;
    bool is_open, is_fed;        /* is_fed: data came since the last check */
    uint64_t credit, credit_max; /* towards the manager */
    uint64_t window, taken;      /* taken: received, credit not returned yet */
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
    size_t body_bytes, report_bytes; /* minimum sizes of STARTs and reports */
    bool is_narrow;                  /* no host has two slots, which is reported */
    bool is_sharded;                 /* single slots are leased on different hosts */
    bool is_over_awaited;            /* it waits until host 0 has received JOB_OVER */
    const char *claim;               /* the journal file that another epoch creates */
    bool is_called_first;            /* nothing is leased before host 0 was connected */
    /* internal */
    pthread_t thread;
    _Atomic bool is_ended, is_wrong;
    gy_rpc *rpc;
    gy_rpc_method methods[5];
    gy_rpc_peer manager;
    char address[GY_RPC_ADDRESS_BYTES];
    script_host hosts[HOSTS];
    int host_count, failures;       /* failures: of fetches, so far */
    uint64_t version, lease, asked; /* asked: the preempted one, 0: none */
    uint32_t wanted, done, runs[64], given, bad, gang;
    /* received; the others are of the last one. */
    uint32_t views, view_tasks, view_committed, view_notes;
    bool has_struck;
    char wrong[200];
};

#endif
