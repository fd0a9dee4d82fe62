/** The keepers of a launch's hosts, as nodes.c and meet.c share them. */
#ifndef GY_LAUNCH_NODES_PRIV_H
#define GY_LAUNCH_NODES_PRIV_H

#include "launch/launch_priv.h"

/* A host of the launch. Node 0 has a link to each of the others, the others only to node 0. */
typedef struct node {
    gy_tcp_link *link;
    bool is_known, is_done;
    int ranks;
    gy_address address; /* port 0 */
    uint16_t *ports;    /* (ranks) */
} node;

/* A message that another keeper sent before the local ranks were started. */
typedef struct early_message {
    struct early_message *next;
    int from;
    gy_transport_frame_type type;
    uint32_t generation;
    gy_run_end cause;
} early_message;

struct gy_nodes {
    const gy_run_options *options;
    gy_env *env;
    gy_address rendezvous;
    gy_tls *tls;
    gy_tcp_acceptor *door; /* on node 0, until all nodes are connected */
    gy_greeting *greeting; /* on the others, while they connect */
    char *key_path;        /* NULL: no encryption */
    uint64_t epoch;        /* of the ranks' keys: the oldest that any node offered */
    uint8_t run[GY_RUN_ID_BYTES];
    int linked;
    bool has_table, has_end, is_told;
    gy_run_end end;       /* the first one reported */
    gy_renewal *renewal;  /* NULL: the local ranks are not started yet */
    early_message *early; /* messages that came before, in order */
    node nodes[];
};

/* nodes.c */
/** A node is lost or did not come: call the option's callback, if any. */
void gy_nodes_report_lost(const gy_run_options *options);
/**
 * The keys of a role in a launch (NULL: none yet): from the file, unless the options contain a
 * key. As gy_keys_read.
 */
GY_MUST_CHECK gy_status gy_nodes_keys(const gy_nodes *nodes, const char *path, const char *role,
                                      const uint8_t *run, gy_keys *keys);
/** Read and write without blocking. */
void gy_nodes_step_links(gy_nodes *nodes);
/** Listen for the local ranks at an address of this host, on any port. GY_NOMEM; GY_IO */
GY_MUST_CHECK gy_status gy_nodes_listen_at(gy_nodes *nodes, const gy_address *own,
                                           int *listeners);

#endif
