/**
 * The name server's process: the machine of names.h with a node of room rpc, a table and a
 * store of files. It serves only after it is elected and its term is stored, and closes all
 * connections when it loses the election.
 */
#ifndef GY_CLUSTER_SERVER_SERVER_PRIV_H
#define GY_CLUSTER_SERVER_SERVER_PRIV_H

#include "base/index.h"
#include "cluster/page/page.h"
#include "cluster/server/blobs.h"
#include "control/names/names.h"
#include "control/net/net.h"
#include "persist/table/table.h"

#include <gyre/cluster.h>

enum {
    SERVER_METHODS = 21,
    SERVER_HELD_MAX = 16384,        /* pending calls */
    SERVER_PROGRESS_BYTES = 256,    /* of a manager's progress line */
    SERVER_NOTES = 64,              /* notes that are displayed */
    SERVER_OUTPUT_BYTES = 64 << 20, /* of the output and status of all managers */
    SERVER_OUTPUT_ENDED = 8 << 10,  /* retained of an ended job's output */
};

/* ---- The last sender of messages as a daemon, or as a job's manager ---- */

typedef struct server_speaker {
    gy_key key; /* 0: none */
    gy_rpc_peer peer;
    uint32_t epoch;
    char *progress;
} server_speaker;

typedef struct server_speakers {
    gy_index by_key;
    server_speaker *rows;
    size_t count, capacity, most;
} server_speakers;

/** NULL: none. */
server_speaker *gy_server_speakers_find(const server_speakers *speakers, gy_key key);
/** GY_LIMIT too many; GY_NOMEM */
GY_MUST_CHECK gy_status gy_server_speakers_put(server_speakers *speakers, gy_key key,
                                               gy_rpc_peer peer, uint32_t epoch);
void gy_server_speakers_remove(server_speakers *speakers, gy_key key);
/** Remove all senders with this peer. */
void gy_server_speakers_leave(server_speakers *speakers, gy_rpc_peer peer);
void gy_server_speakers_free(server_speakers *speakers);

/* ---- Calls that are answered later ---- */

typedef enum server_held_kind {
    HELD_ASK,   /* number: the machine's ANSWER to it */
    HELD_END,   /* key, epoch: OVER */
    HELD_WAIT,  /* key: ENDED */
    HELD_OUTPUT /* key, epoch, offset: more output, or ENDED */
} server_held_kind;

typedef struct server_held {
    server_held_kind kind;
    gy_rpc_asked asked;
    uint64_t number, offset;
    gy_key key;
    uint32_t epoch;
} server_held;

/* ---- Managers' output and status ---- */

typedef struct server_output {
    gy_key key;
    uint32_t epoch;
    uint64_t offset; /* position of the first retained byte in that epoch's output */
    size_t size, room;
    char *data;
    uint64_t whole; /* of an ended job: total bytes; 0: not known */
    int code;       /* of an ended job: exit status; -1 */
    uint64_t used;  /* larger means more recently */
    bool is_ended;
    void *view; /* a View, packed and checked; NULL: none */
    size_t view_bytes;
} server_output;

/**
 * The output and status of recently active jobs: only in memory, so a new name server has only
 * what is sent to it from then on.
 */
typedef struct server_outputs {
    gy_index by_key;
    server_output *rows;
    size_t count, capacity, most;
    size_t bytes; /* of all rows' buffers and views */
    uint64_t clock;
} server_outputs;

/** NULL: none. */
server_output *gy_server_outputs_find(const server_outputs *outputs, gy_key key);
/**
 * Find or create the row, for this epoch or a later one; data of an earlier manager are
 * dropped. GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_server_outputs_get(server_outputs *outputs, gy_key key,
                                              uint32_t epoch, server_output **row);
/**
 * Drop rows until there is room for more bytes: ended jobs first, least recently used first.
 * Invalidates pointers to rows.
 */
void gy_server_outputs_make_room(server_outputs *outputs, size_t more);
/** Drop all output of a row except the last bytes. */
void gy_server_outputs_cut(server_outputs *outputs, server_output *row, size_t left);
/** Replace the status of the job; after GY_NOMEM the old one stays. */
GY_MUST_CHECK gy_status gy_server_outputs_view(server_outputs *outputs, gy_key key,
                                               const ProtobufCMessage *view);
/** The job's status, freed with gy__cluster__view__free_unpacked; NULL: none. GY_NOMEM */
GY_MUST_CHECK gy_status gy_server_outputs_read_view(const server_outputs *outputs, gy_key key,
                                                    Gy__Cluster__View **view);
void gy_server_outputs_free(server_outputs *outputs);

/* ---- Display ---- */

/** An event for the status page. */
typedef struct server_note {
    int64_t wall_ns;
    char of[GY_NET_KEY_TEXT]; /* id of the job or daemon */
    char text[GY_CONTROL_REASON_BYTES];
} server_note;

/* ---- A standby and the leader it watches ---- */

/** A standby's connection to the leader. */
typedef struct server_watch {
    gy_rpc *rpc; /* NULL: no leader is watched */
    gy_rpc_peer peer;
    uint64_t number; /* of its election; 0: none was seen */
    int64_t down_ns; /* since when it is broken; INT64_MAX: it is up, or never was */
    bool was_up;
} server_watch;

/* ---- The process ---- */

typedef struct gy_server {
    gy_env *env;
    const gy_nameserver_options *options;
    gy_names_options names_options;
    gy_persist_table *table;
    gy_blobs *blobs;
    gy_bulk_server bulk;
    gy_rpc_method methods[SERVER_METHODS];
    gy_rpc *rpc;     /* NULL: not elected */
    gy_names *names; /* NULL: not loaded yet, or to be loaded again at anew_ns */
    gy_names_effects effects;
    server_speakers daemons, managers;
    server_outputs outputs;
    gy_rpc_peer speaks; /* the manager that sends the current message; 0: none */
    server_held *held;
    size_t held_count, held_capacity;
    uint64_t next_asker;
    int64_t wake_ns, anew_ns, anew_wait_ns, made_ns, began_wall_ns;
    size_t storing;         /* stores under way, of this machine or an earlier one */
    struct server_refused { /* stores that could not begin */
        gy_key key;
        uint64_t version;
        gy_status status;
    } * refused;
    size_t refused_count, refused_capacity;
    bool is_elected, is_listening, is_over;
    server_watch watch;
    gy_page_options page_options;
    gy_page *page; /* NULL: no page */
    server_note notes[SERVER_NOTES];
    /* total; the last SERVER_NOTES are at their number modulo SERVER_NOTES. */
    uint64_t note_count;
    gy_error why; /* GY_OK, or why the server ends */
    char address[GY_RPC_ADDRESS_BYTES], leader[GY_TABLE_VALUE_BYTES];
    char listen[GY_TABLE_VALUE_BYTES]; /* the configured address, with the chosen port */
    int chosen;                        /* the socket that holds that port; -1: none */
} gy_server;

/** Step with an event and carry out the effects; no effect without a machine. */
void gy_server_step(gy_server *server, gy_names_event *event);
/** Carry out the machine's effects. */
void gy_server_effects(gy_server *server);
/** End the server with this failure; the first one counts. */
void gy_server_fail(gy_server *server, gy_status status);
/** The term is stored: start listening. */
void gy_server_listen(gy_server *server);

/** Store a pending call; *number, if not NULL, is its asker. GY_LIMIT too many; GY_NOMEM */
GY_MUST_CHECK gy_status gy_server_hold(gy_server *server, const server_held *held,
                                       uint64_t *number);
void gy_server_unhold(gy_server *server, size_t index);
/** Tell all pending callers to repeat their calls. */
void gy_server_ask_again(gy_server *server, const char *why);

/** Add an event for display on the page. */
void gy_server_note(gy_server *server, const char *of, const char *text);
/** Write the status page's content (gy_page_options.write). */
void gy_server_write(void *arg, gy_page_path path, gy_text *text);
/** Write metrics for Prometheus. */
void gy_server_write_metrics(gy_server *server, gy_text *text);

/**
 * Watch the leader with this number at this address: when it dies, depose it. An address that
 * cannot be reached has no effect.
 */
void gy_server_watch(gy_server *server, const char *address, uint64_t number);
/** Process its connection's events. */
void gy_server_watch_turn(gy_server *server);
int64_t gy_server_watch_next(const gy_server *server);
void gy_server_unwatch(gy_server *server);

/** GY_NET_OUTPUT, GY_NET_ASK_OUTPUT */
gy_status gy_server_output(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request);
gy_status gy_server_ask_output(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request);
/** Its manager has ended with this message, which contains the log tail. */
void gy_server_output_end(gy_server *server, const Gy__Cluster__JobEnd *end);
/** The job has ended: tell all who wait for its output. */
void gy_server_output_over(gy_server *server, gy_key job);

/** The method table of a name server. */
void gy_server_methods(gy_rpc_method methods[SERVER_METHODS]);
/** GY_NET_LIST */
gy_status gy_server_list(gy_server *server, const gy_rpc_asked *asked);
/** Mark the blobs of open jobs (gy_blobs_options.mark). */
gy_status gy_server_mark(void *arg, gy_blobs *blobs);
/** GY_NOTFOUND: it names a file that was not uploaded; GY_FORMAT not a specification */
GY_MUST_CHECK gy_status gy_server_check_spec(gy_server *server, gy_key spec);
/** Implements gy_bulk_server.find: a blob by its BulkName. */
gy_status gy_server_find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                         size_t name_bytes, gy_bulk_region *region);

#endif
