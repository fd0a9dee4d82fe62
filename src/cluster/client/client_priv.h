/** The client of name servers: a node that connects to all of them; the elected one answers. */
#ifndef GY_CLUSTER_CLIENT_CLIENT_PRIV_H
#define GY_CLUSTER_CLIENT_CLIENT_PRIV_H

#include "control/net/net.h"

#include <gyre/cluster.h>

#include <assert.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { CLIENT_METHODS = 11, CLIENT_SERVERS = 16 };

/** A loader that lists the libraries of a program. */
typedef struct gy_client_loader {
    char *program;
    pid_t child; /* 0: none */
    int from;    /* its output */
} gy_client_loader;

typedef struct gy_client_digests gy_client_digests;

struct gy_cluster {
    gy_env *env;
    int64_t patience_ns;
    gy_rpc_method methods[CLIENT_METHODS];
    gy_rpc *rpc;
    gy_rpc_peer servers[CLIENT_SERVERS];
    int server_count, last; /* last: the one last asked */
    bool has_seen;          /* one of them was connected at some time */
    int64_t absent_ns; /* since when none is connected, over successive requests; 0: one was */
    int64_t asked_ns;  /* when the last request ended */
    gy_client_loader ahead;
    gy_client_digests *digests; /* NULL: nothing is cached */
};

/** Handles an answer within a turn; `answer` is borrowed. */
typedef gy_status (*gy_client_use)(void *arg, const ProtobufCMessage *answer);

/**
 * Send a request to the elected name server until it is answered or the deadline passes, over
 * broken connections and elections. The request must be repeatable.
 *
 * @param use NULL: the answer has no content
 * @return as `use` returns; the refusal; GY_PEER no name server is reachable; GY_TIMEOUT one
 * is, but has not answered yet
 */
GY_MUST_CHECK gy_status gy_client_ask(gy_cluster *cluster, gy_net_type type,
                                      const ProtobufCMessage *request, gy_deadline deadline,
                                      gy_client_use use, void *arg);
/**
 * Process the events of the connections without waiting, so that they come up while other work
 * is done. Changes this thread's last failure.
 */
void gy_client_meanwhile(gy_cluster *cluster);
/** The deadline of a request that is answered at once. */
gy_deadline gy_client_soon(const gy_cluster *cluster);

/** "0123…" of 32 digits. GY_ARG */
GY_MUST_CHECK gy_status gy_client_read_id(const char *id, gy_key *job);
static_assert((int)GY_CLUSTER_ID_BYTES == (int)GY_NET_KEY_TEXT, "an id is a key's text");

/* ---- The files of a program ---- */

enum { CLIENT_PATH_BYTES = 4096 };

typedef struct gy_client_file {
    char path[CLIENT_PATH_BYTES];
    char name[GY_NET_NAME_BYTES];
    gy_key content;
    uint64_t size_bytes;
    bool is_executable, is_library;
    bool is_recalled; /* content: from the cache, the file was not read */
} gy_client_file;

typedef struct gy_client_files {
    gy_client_file *rows;
    size_t count, capacity;
} gy_client_files;

/**
 * Find a program as a shell would, and follow links; `is_system`: every host is assumed to have
 * it. GY_NOTFOUND
 */
GY_MUST_CHECK gy_status gy_client_find_program(const char *name, char path[CLIENT_PATH_BYTES],
                                               bool *is_system);
/**
 * Add its libraries that are not the system's to `files`; none if it is no ELF program.
 * GY_NOTFOUND a library that its loader does not find; GY_IO; GY_TIMEOUT; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_client_find_libraries(gy_cluster *cluster, const char *program,
                                                 gy_client_files *files);
/** Start the loader of a program that will be submitted; find_libraries reads its output. */
void gy_client_prewarm(gy_cluster *cluster, const char *name);
/** Cancel the prewarm. */
void gy_client_cancel_prewarm(gy_cluster *cluster);
/** GY_EXISTS two files of one name; GY_ARG the name; GY_NOTFOUND; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_client_add_file(gy_cluster *cluster, gy_client_files *files,
                                           const char *path, const char *name, bool is_library);

/* ---- digests.c: a cache of files' content hashes ---- */

/** Is it the same file, unmodified? */
bool gy_client_is_same(const struct stat *a, const struct stat *b);
/** Load the user's cache; without its file the cache is empty. NULL: no memory. */
gy_client_digests *gy_client_digests_open(void);
/** NULL: not cached. */
bool gy_client_digests_find(const gy_client_digests *digests, const struct stat *about,
                            gy_key *content);
/**
 * Cache the hash of a file whose stat is the same before and after the read; not if it was
 * modified so recently (wall_ns: now) that another modification may have the same time. NULL is
 * allowed.
 */
void gy_client_digests_put(gy_client_digests *digests, const struct stat *about, gy_key content,
                           int64_t wall_ns);
/** Drop the whole cache, since an entry was wrong. NULL is allowed. */
void gy_client_digests_forget(gy_client_digests *digests);
/** Save the cache if it has changed. A failure does no harm. NULL is allowed. */
void gy_client_digests_close(gy_client_digests *digests);

#endif
