/**
 * Inside room launch: the keepers of a run's hosts, as nodes.c and meet.c see them.
 */
#ifndef GY_LAUNCH_NODES_PRIV_H
#define GY_LAUNCH_NODES_PRIV_H

#include "launch/launch_priv.h"

/* A host of the run. On node 0 all have links, elsewhere node 0 alone. */
typedef struct node {
    gy_tcp_link *link;
    bool is_known, is_done;
    int ranks;
    gy_address address; /* port 0 */
    uint16_t *ports;    /* (ranks) */
} node;

/* What another keeper said before this one's ranks were started. */
typedef struct early_word {
    struct early_word *next;
    int from;
    gy_transport_frame_type type;
    uint32_t generation;
    gy_run_end cause;
} early_word;

struct gy_nodes {
    const gy_run_options *options;
    gy_env *env;
    gy_address rendezvous;
    gy_tls *tls;
    gy_tcp_acceptor *door; /* node 0, until all are here */
    gy_greeting *greeting; /* others, while they call */
    char *key_path;        /* NULL: plain */
    uint64_t epoch; /* of its keys, by which ranks meet: the oldest that a node offered */
    uint8_t run[GY_RUN_ID_BYTES];
    int linked;
    bool has_table, has_end, is_told;
    gy_run_end end;      /* the first one heard */
    gy_renewal *renewal; /* NULL: the ranks here are not started yet */
    early_word *early;   /* what was said before, in order */
    node nodes[];
};

/* nodes.c */
/** Another node is gone, or did not come: who wants to know is told. */
void gy_nodes_tell_lost(const gy_run_options *options);
/** The keys of a role in a run (NULL: none yet): of the file, unless the options have a key. As
 * gy_keys_read. */
GY_MUST_CHECK gy_status gy_nodes_keys(const gy_nodes *nodes, const char *path, const char *role,
                                      const uint8_t *run, gy_keys *keys);
/** Read and write what can be. */
void gy_nodes_step_links(gy_nodes *nodes);
/** Listen for this host's ranks at an address of its own, whatever its port. GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_nodes_seat_at(gy_nodes *nodes, const gy_address *own,
                                         int *listeners);

#endif
