/**
 * Who asks a name server: one node that dials all of them, of which the elected one answers.
 */
#ifndef GY_CLUSTER_CLIENT_CLIENT_PRIV_H
#define GY_CLUSTER_CLIENT_CLIENT_PRIV_H

#include "control/net/net.h"

#include <gyre/cluster.h>

#include <assert.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { CLIENT_METHODS = 11, CLIENT_SERVERS = 16 };

/** A loader that was asked what it finds for a program. */
typedef struct gy_client_loader {
    char *program;
    pid_t child; /* 0: none */
    int from;    /* what it says */
} gy_client_loader;

typedef struct gy_client_digests gy_client_digests;

struct gy_cluster {
    gy_env *env;
    int64_t patience_ns;
    gy_rpc_method methods[CLIENT_METHODS];
    gy_rpc *rpc;
    gy_rpc_peer servers[CLIENT_SERVERS];
    int server_count, last; /* last: that was asked */
    bool has_seen;          /* one of them was there, ever */
    int64_t absent_ns;      /* since when none is there, over questions; 0: one was */
    int64_t asked_ns;       /* the last question's end */
    gy_client_loader ahead;
    gy_client_digests *digests; /* NULL: nothing is recalled */
};

/** What an answer is used for, within a turn; `answer` is borrowed. */
typedef gy_status (*gy_client_use)(void *arg, const ProtobufCMessage *answer);

/**
 * Ask the name server that is elected, over breaks and changes of it, until somebody has
 * answered or the deadline is over. The request must bear being asked again.
 *
 * @param use NULL: the answer says nothing
 * @return what `use` gave; the refusal; GY_PEER nobody answers; GY_TIMEOUT somebody is there,
 * and has no answer yet
 */
GY_MUST_CHECK gy_status gy_client_ask(gy_cluster *cluster, gy_net_type type,
                                      const ProtobufCMessage *request, gy_deadline deadline,
                                      gy_client_use use, void *arg);
/** What has come for the connections is done, without waiting: they come up while other things
 * are looked at. Changes this thread's last failure. */
void gy_client_meanwhile(gy_cluster *cluster);
/** The deadline of what is answered at once. */
gy_deadline gy_client_soon(const gy_cluster *cluster);

/** "0123…" of 32 digits. GY_ARG */
GY_MUST_CHECK gy_status gy_client_read_id(const char *id, gy_key *job);
static_assert((int)GY_CLUSTER_ID_BYTES == (int)GY_NET_KEY_TEXT, "an id is a key's text");

/* ---- What a program is made of ---- */

enum { CLIENT_PATH_BYTES = 4096 };

typedef struct gy_client_file {
    char path[CLIENT_PATH_BYTES];
    char name[GY_NET_NAME_BYTES];
    gy_key content;
    uint64_t size_bytes;
    bool is_executable, is_library;
    bool is_recalled; /* content: it was not read */
} gy_client_file;

typedef struct gy_client_files {
    gy_client_file *rows;
    size_t count, capacity;
} gy_client_files;

/** Where a shell would find it, links followed; `is_system`: every host is taken to have it.
 * GY_NOTFOUND */
GY_MUST_CHECK gy_status gy_client_find_program(const char *name, char path[CLIENT_PATH_BYTES],
                                               bool *is_system);
/** Its libraries that are not the system's, added to `files`; none of what is no ELF program.
 * GY_NOTFOUND one that its loader does not find; GY_IO; GY_TIMEOUT; GY_NOMEM */
GY_MUST_CHECK gy_status gy_client_find_libraries(gy_cluster *cluster, const char *program,
                                                 gy_client_files *files);
/** The loader of a program that will be submitted is asked now, and heard by find_libraries. */
void gy_client_prewarm(gy_cluster *cluster, const char *name);
/** It is not wanted any more. */
void gy_client_look_away(gy_cluster *cluster);
/** GY_EXISTS two of one name; GY_ARG the name; GY_NOTFOUND; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_client_add_file(gy_cluster *cluster, gy_client_files *files,
                                           const char *path, const char *name, bool is_library);

/* ---- digests.c: contents of files that were read before ---- */

/** The same file, and nobody has written to it. */
bool gy_client_is_same(const struct stat *a, const struct stat *b);
/** What the user's file of them says; without one none is known. NULL: no memory. */
gy_client_digests *gy_client_digests_open(void);
/** NULL: not known. */
bool gy_client_digests_find(const gy_client_digests *digests, const struct stat *about,
                            gy_key *content);
/** What was read of a file that is the same before and after; not of one that was changed so
 * lately (wall_ns: now) that another change may have the same time. NULL is fine. */
void gy_client_digests_put(gy_client_digests *digests, const struct stat *about, gy_key content,
                           int64_t wall_ns);
/** Nothing that is known is right any more. NULL is fine. */
void gy_client_digests_forget(gy_client_digests *digests);
/** Writes them if there are others. That it cannot harms nobody. NULL is fine. */
void gy_client_digests_close(gy_client_digests *digests);

#endif
