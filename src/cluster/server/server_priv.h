/**
 * The name server's process: the machine of names.h on a node of room rpc, a table and a store
 * of files. It serves nobody before it is elected and its term is stored, and hangs up on
 * everybody when it is elected no more.
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
    SERVER_HELD_MAX = 16384,        /* calls that wait for an answer */
    SERVER_PROGRESS_BYTES = 256,    /* of what a manager says for people */
    SERVER_NOTES = 64,              /* the last that are shown */
    SERVER_OUTPUT_BYTES = 64 << 20, /* of what all managers printed and told */
    SERVER_OUTPUT_ENDED = 8 << 10,  /* that is kept of a job that has ended */
};

/* ---- Who spoke last as a daemon, or as a job's manager ---- */

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

/** NULL: nobody. */
server_speaker *gy_server_speakers_find(const server_speakers *speakers, gy_key key);
/** GY_LIMIT too many; GY_NOMEM */
GY_MUST_CHECK gy_status gy_server_speakers_put(server_speakers *speakers, gy_key key,
                                               gy_rpc_peer peer, uint32_t epoch);
void gy_server_speakers_remove(server_speakers *speakers, gy_key key);
/** All that spoke from there. */
void gy_server_speakers_leave(server_speakers *speakers, gy_rpc_peer peer);
void gy_server_speakers_free(server_speakers *speakers);

/* ---- Calls that are answered later ---- */

typedef enum server_held_kind {
    HELD_ASK,   /* number: the machine's ANSWER to it */
    HELD_END,   /* key, epoch: OVER */
    HELD_WAIT,  /* key: ENDED */
    HELD_OUTPUT /* key, epoch, offset: more is printed, or ENDED */
} server_held_kind;

typedef struct server_held {
    server_held_kind kind;
    gy_rpc_asked asked;
    uint64_t number, offset;
    gy_key key;
    uint32_t epoch;
} server_held;

/* ---- What managers print, and tell of their jobs ---- */

typedef struct server_output {
    gy_key key;
    uint32_t epoch;
    uint64_t offset; /* of the first byte that is kept, in what that epoch printed */
    size_t size, room;
    char *data;
    uint64_t whole; /* of a job that has ended: bytes in all; 0: not known */
    int code;       /* likewise: exit status; -1 */
    uint64_t used;  /* the later the larger */
    bool is_ended;
    void *view; /* a View, packed and checked; NULL: none */
    size_t view_bytes;
} server_output;

/** What is known of each job that was heard lately: in memory alone, so another name server
 * knows what is told from then on. */
typedef struct server_outputs {
    gy_index by_key;
    server_output *rows;
    size_t count, capacity, most;
    size_t bytes; /* of rooms and views */
    uint64_t clock;
} server_outputs;

/** NULL: nothing is known. */
server_output *gy_server_outputs_find(const server_outputs *outputs, gy_key key);
/** Found or made, of this epoch or a later one; of the manager before nothing more is known.
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_server_outputs_get(server_outputs *outputs, gy_key key,
                                              uint32_t epoch, server_output **row);
/** So many bytes more have room: rows go, of ended jobs first, the least recently used first.
 * All rows lie elsewhere then. */
void gy_server_outputs_make_room(server_outputs *outputs, size_t more);
/** Forget all that it printed but for the last bytes. */
void gy_server_outputs_cut(server_outputs *outputs, server_output *row, size_t left);
/** Of the job in that row, instead of what was told before; GY_NOMEM, then that stays. */
GY_MUST_CHECK gy_status gy_server_outputs_view(server_outputs *outputs, gy_key key,
                                               const ProtobufCMessage *view);
/** What was told of it, to be freed with gy__cluster__view__free_unpacked; NULL: nothing.
 * GY_NOMEM */
GY_MUST_CHECK gy_status gy_server_outputs_read_view(const server_outputs *outputs, gy_key key,
                                                    Gy__Cluster__View **view);
void gy_server_outputs_free(server_outputs *outputs);

/* ---- What is shown ---- */

/** What happened, for the status page. */
typedef struct server_note {
    int64_t wall_ns;
    char of[GY_NET_KEY_TEXT]; /* a job's or daemon's id */
    char text[GY_CONTROL_REASON_BYTES];
} server_note;

/* ---- One that waits, and whom it waits for ---- */

/** The connection of one that waits to the one that is elected. */
typedef struct server_watch {
    gy_rpc *rpc; /* NULL: nobody is watched */
    gy_rpc_peer peer;
    uint64_t number; /* of the election; 0: none was seen */
    int64_t down_ns; /* broken since; INT64_MAX: it stands, or never did */
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
    gy_names *names; /* NULL: not yet, or to be made anew at anew_ns */
    gy_names_effects effects;
    server_speakers daemons, managers;
    server_outputs outputs;
    gy_rpc_peer speaks; /* as a manager, in this step; 0: no manager does */
    server_held *held;
    size_t held_count, held_capacity;
    uint64_t next_asker;
    int64_t wake_ns, anew_ns, anew_wait_ns, made_ns, began_wall_ns;
    size_t storing;         /* stores under way, of this machine or of one before it */
    struct server_refused { /* stores that could not even be begun */
        gy_key key;
        uint64_t version;
        gy_status status;
    } * refused;
    size_t refused_count, refused_capacity;
    bool is_elected, is_listening, is_over;
    server_watch watch;
    gy_page_options page_options;
    gy_page *page; /* NULL: none was asked for */
    server_note notes[SERVER_NOTES];
    uint64_t note_count; /* ever; the last SERVER_NOTES stand at their number's rest */
    gy_error why;        /* GY_OK, or why it ends */
    char address[GY_RPC_ADDRESS_BYTES], leader[GY_TABLE_VALUE_BYTES];
    char listen[GY_TABLE_VALUE_BYTES]; /* as told, with the port that was chosen */
    int chosen;                        /* the socket that keeps that port; -1: none */
} gy_server;

/** An event, and all that follows; without a machine nothing. */
void gy_server_step(gy_server *server, gy_names_event *event);
/** Serve what the machine says. */
void gy_server_effects(gy_server *server);
/** Everything ends with this failure; the first one counts. */
void gy_server_fail(gy_server *server, gy_status status);
/** The term is stored: be there for everybody. */
void gy_server_listen(gy_server *server);

/** Keep a call; *number, if it is not NULL, is the asker's. GY_LIMIT too many; GY_NOMEM */
GY_MUST_CHECK gy_status gy_server_hold(gy_server *server, const server_held *held,
                                       uint64_t *number);
void gy_server_unhold(gy_server *server, size_t index);
/** All of them are to be asked again. */
void gy_server_ask_again(gy_server *server, const char *why);

/** Something that people may want to know: shown on the page. */
void gy_server_note(gy_server *server, const char *of, const char *text);
/** What the status page shows (gy_page_options.write). */
void gy_server_write(void *arg, gy_page_path path, gy_text *text);
/** As Prometheus reads it. */
void gy_server_write_metrics(gy_server *server, gy_text *text);

/**
 * It waits for the one that has this number and listens there: from now on it sees when that
 * one dies, and deposes it. Of an address where nobody can be reached nothing comes.
 */
void gy_server_watch(gy_server *server, const char *address, uint64_t number);
/** Hear and judge. */
void gy_server_watch_turn(gy_server *server);
int64_t gy_server_watch_next(const gy_server *server);
void gy_server_unwatch(gy_server *server);

/** GY_NET_OUTPUT, GY_NET_ASK_OUTPUT */
gy_status gy_server_output(void *arg, const gy_rpc_asked *asked,
                           const ProtobufCMessage *request);
gy_status gy_server_ask_output(void *arg, const gy_rpc_asked *asked,
                               const ProtobufCMessage *request);
/** Its manager has ended so, and had these log tail. */
void gy_server_output_end(gy_server *server, const Gy__Cluster__JobEnd *end);
/** The job has ended: who waits for what it prints hears so. */
void gy_server_output_over(gy_server *server, gy_key job);

/** The table of methods that a name server serves. */
void gy_server_methods(gy_rpc_method methods[SERVER_METHODS]);
/** GY_NET_LIST */
gy_status gy_server_list(gy_server *server, const gy_rpc_asked *asked);
/** Blobs: what open jobs name (gy_blobs_options.mark). */
gy_status gy_server_mark(void *arg, gy_blobs *blobs);
/** GY_NOTFOUND: names a file that was not brought; GY_FORMAT no spec */
GY_MUST_CHECK gy_status gy_server_check_spec(gy_server *server, gy_key spec);
/** gy_bulk_server.find: a blob by its BulkName. */
gy_status gy_server_find(void *arg, gy_rpc_role role, const char *subject, const void *name,
                         size_t name_bytes, gy_bulk_region *region);

#endif
