/**
 * Objects and files of other machines behind one interface: S3, HDFS (through WebHDFS), files.
 *
 * A URI names one: s3://BUCKET/KEY, hdfs://HOST:PORT/PATH (webhdfs:// is the same, swebhdfs://
 * over TLS; the port is the name node's HTTP port, 9870 by default), file:/PATH, or a plain
 * path. Keys and paths of S3 and HDFS are taken as they stand, in file: URIs %41 is a byte.
 *
 * Every operation is tried again, with pauses that grow to 5 s, when the server cannot be
 * reached, is silent, breaks off or answers 408, 429 or 5xx, until the place's patience is at
 * its end; what was received of a range is kept. Failures name the URI, the server's status and
 * its words, and never a secret: GY_NOTFOUND 404; GY_IO, with the source of the credentials
 * when access was denied; GY_EXISTS; GY_TIMEOUT; GY_FORMAT an answer that makes no sense;
 * GY_LIMIT one that is too long; GY_ARG a URI or setting; GY_UNSUPPORTED; GY_NOMEM;
 * GY_CANCELLED.
 */
#ifndef GY_STORE_REMOTE_REMOTE_H
#define GY_STORE_REMOTE_REMOTE_H

#include "store/store.h"

enum {
    GY_URI_BYTES = 4608,    /* a URI with its NUL: a key of S3 has 1024 bytes, a path 4095 */
    GY_VERSION_BYTES = 160, /* of an ETag and the like */
    GY_READ_AHEAD_BYTES = 8 << 20, /* of each of a reading's two buffers */
};

/** Something that a URI names, opened: nothing is asked before it is used. One thread at a
 * time. */
typedef struct gy_place gy_place;

typedef struct gy_place_options {
    double patience_s; /* for one operation, all its tries together; 0: GYRE_STORE_TIMEOUT, or
                          60 */
} gy_place_options;

/** Whether a text is a URI of another machine's; all else is a path or file:. @threads any */
bool gy_uri_is_remote(const char *uri);
/** Whether a text is a "file:" URI. @threads any */
bool gy_uri_is_file(const char *text);

/**
 * Refuse a scheme that is not known ("s3a://b/k"): GY_ARG, with those that are. A file of that
 * name is a path all the same, and so is a text without "://".
 * @threads any
 */
GY_MUST_CHECK gy_status gy_uri_check(const char *text);
/** The same of what is to be made: a file of that name does not matter, and "s3:/b/k" (one
 * slash) is refused where nothing has that name. @threads any */
GY_MUST_CHECK gy_status gy_uri_check_new(const char *text);

/**
 * The path on this host that a text names, for what lies nowhere else: of "file:" URIs what
 * they stand for.
 *
 * @param what the thing, for messages: "the memo"
 * @param path (size_bytes) takes it
 * @return GY_OK; GY_ARG a URI of another machine's, of a host or of no known scheme; no path;
 * one that is too long
 * @threads any
 */
GY_MUST_CHECK gy_status gy_path_local(const char *text, const char *what, char *path,
                                      size_t size_bytes);

/** @param options NULL: the defaults. GY_ARG an unknown scheme, no bucket, no host, a wrong
 * setting; GY_IO credentials that others may write; GY_NOMEM. @threads any */
GY_MUST_CHECK gy_status gy_place_open(gy_env *env, const char *uri,
                                      const gy_place_options *options, gy_place **place);
/** NULL is fine. */
void gy_place_close(gy_place *place);
/**
 * Visit the files that gy_place_open may read for a URI of another machine's: of credentials,
 * settings, authorities; they need not be there.
 * @return GY_OK; what `visit` returned. @threads any
 */
GY_MUST_CHECK gy_status gy_place_files(const char *uri,
                                       gy_status (*visit)(void *arg, const char *path),
                                       void *arg);
/** The URI it was opened with; borrowed. */
const char *gy_place_uri(const gy_place *place);
/** End what another thread does with the place, and all that follows: GY_CANCELLED; but what a
 * writer has begun is taken back, for 10 s at most. @threads any */
void gy_place_cancel(gy_place *place);

typedef struct gy_place_facts {
    uint64_t size_bytes;
    bool is_folder; /* of S3: a bucket, or a prefix that keys begin with and a slash ends */
    bool is_link;   /* of HDFS; of a listed file: to nothing */
    int64_t modified_ms; /* since 1970 by the server's clock; 0: not told */
    /* Another whenever the bytes are: the ETag of S3; of HDFS and files made of number, length
     * and time. Empty for folders. */
    char version[GY_VERSION_BYTES];
} gy_place_facts;

GY_MUST_CHECK gy_status gy_place_stat(gy_place *place, gy_place_facts *facts);

/** What a list has; `uri` can be opened. Borrowed for the visit. */
typedef struct gy_place_entry {
    const char *uri;  /* a folder's ends with a slash */
    const char *name; /* the part of it behind the listed URI */
    gy_place_facts facts;
} gy_place_entry;
typedef gy_status (*gy_place_visit)(void *arg, const gy_place_entry *entry);

/**
 * Visit what lies in a folder, or below a prefix: one level, in the order of the names' bytes.
 * A file is visited alone; what is an object of S3 and a prefix is visited first, and so is a
 * key of S3 that ends with a slash and has bytes. Pipes and devices are files of no bytes.
 * Asked for page by page: memory does not depend on how many there are, but for a folder of
 * files.
 *
 * @return GY_OK; GY_NOTFOUND there is none; GY_FORMAT a server that does not keep the order;
 * what `visit` returned; failures as above
 */
GY_MUST_CHECK gy_status gy_place_list(gy_place *place, gy_place_visit visit, void *arg);

/**
 * Read bytes [at, at + wanted), fewer (`*got`) only at the end.
 *
 * @param version what gy_place_stat told; the object having changed since is GY_STATE. NULL:
 * any
 */
GY_MUST_CHECK gy_status gy_place_read(gy_place *place, const char *version, uint64_t at,
                                      void *data, size_t wanted, size_t *got);

/** Remove an object or file; that there is none is no failure. GY_IO a folder. */
GY_MUST_CHECK gy_status gy_place_remove(gy_place *place);

typedef enum gy_place_mode {
    GY_PLACE_REPLACE, /* an older one is replaced */
    GY_PLACE_NEW,     /* GY_EXISTS when there is one; of many that try, one succeeds */
} gy_place_mode;

/**
 * Write whole or not at all: nothing is seen before the finish. S3: a single PUT up to 8 MiB,
 * else parts that are taken back on failure; HDFS and files: under another name, then a rename
 * (of GY_PLACE_NEW one that replaces nothing; on files a link). Parts that a killed process
 * left on S3 cost money until the bucket's rule removes them. Memory: one part, 8 MiB, twice
 * that for each 1000 parts.
 */
typedef struct gy_place_writer gy_place_writer;
/** GY_UNSUPPORTED GY_PLACE_NEW on a store that does not promise it (gy_place_promise). */
GY_MUST_CHECK gy_status gy_place_writer_open(gy_place *place, gy_place_mode mode,
                                             gy_place_writer **writer);
/** After a failure only finish (which repeats it) or abort remain. */
GY_MUST_CHECK gy_status gy_place_writer_add(gy_place_writer *writer, const void *data,
                                            size_t size_bytes);
/** End and free the writer; after a failure nothing of it is left unless the server is away. */
GY_MUST_CHECK gy_status gy_place_writer_finish(gy_place_writer *writer);
/** Take back what is there of it, for 10 s at most. NULL is fine. */
void gy_place_writer_abort(gy_place_writer *writer);

/** gy_place_writer at once. */
GY_MUST_CHECK gy_status gy_place_write(gy_place *place, gy_place_mode mode, const void *data,
                                       size_t size_bytes);

/**
 * What a store promises. None can append to what is there: who keeps a journal writes segments,
 * each created as GY_PLACE_NEW, named so that they sort.
 */
typedef struct gy_place_promises {
    bool is_exclusive; /* GY_PLACE_NEW holds against all hosts */
    char reason[256];  /* by what, or why not */
} gy_place_promises;

/**
 * Find out. S3: whether If-None-Match is obeyed is tried with an object ".gyre-probe-…" beside
 * the place, which is removed, once a bucket and process. Files: what file system it is, and a
 * link.
 * @return GY_OK, whatever is promised; failures of asking
 */
GY_MUST_CHECK gy_status gy_place_promise(gy_place *place, gy_place_promises *promises);

/** Where a part of a file lies. */
typedef struct gy_place_block {
    uint64_t at, size_bytes;
    const char *const *hosts; /* (host_count) */
    size_t host_count;
} gy_place_block;
typedef gy_status (*gy_place_block_visit)(void *arg, const gy_place_block *block);

/** Visit the blocks of [at, at + size_bytes), rising; none where the store does not tell (S3).
 */
GY_MUST_CHECK gy_status gy_place_blocks(gy_place *place, uint64_t at, uint64_t size_bytes,
                                        gy_place_block_visit visit, void *arg);

/**
 * A source over whatever a URI names: a file is opened as gy_source_open does; of a remote one
 * two threads ask for ranges of 8 MiB, in turn, while one is read. All ranges are of one
 * version.
 */
GY_MUST_CHECK gy_status gy_source_open_uri(gy_env *env, const char *uri, gy_encoding encoding,
                                           const gy_place_options *options, gy_source **source);

/** A part of a remote object of which the facts are known: nothing is asked before its bytes.
 */
typedef struct gy_source_part {
    const char *version; /* of gy_place_facts; the object having changed since is GY_STATE */
    uint64_t begin, end; /* bytes [begin, end), which must be there */
    size_t ahead_bytes;  /* of each of the two buffers; 0: GY_READ_AHEAD_BYTES */
    const gy_place_options *options;  /* NULL: the defaults */
    const _Atomic bool *is_cancelled; /* reads end within 0.1 s with GY_CANCELLED; NULL: nobody
                                         cancels; outlives the source */
} gy_source_part;

/** gy_source_open_uri of a part, plain. `part` and `uri` are copied. */
GY_MUST_CHECK gy_status gy_source_open_part(gy_env *env, const char *uri,
                                            const gy_source_part *part, gy_source **source);

/* ---- many at once ---- */

/**
 * Do `work` for 0 to count - 1: begun in this order, sixteen at once on threads of their own,
 * which may wait for stores. After a failure no more are begun.
 *
 * @return GY_OK; the failure with the lowest number
 * @threads any; so is `work`
 */
GY_MUST_CHECK gy_status gy_remote_each(size_t count, gy_status (*work)(void *arg, size_t index),
                                       void *arg);

/* ---- what was heard of objects ---- */

/**
 * What was last heard of an object since gy_facts_forget, by listing or asking; else it is
 * asked for. So a list of a thousand objects costs one request, not a thousand more. Whoever
 * reads compares the version, so what is old here ends in GY_STATE, never in wrong bytes.
 *
 * @return GY_OK; GY_IO a folder; as gy_place_stat
 * @threads any
 */
GY_MUST_CHECK gy_status gy_facts_of(gy_env *env, const char *uri, gy_place_facts *facts);
/** gy_facts_of for those of `names` (NULL at the end) that are objects and of which nothing is
 * known, sixteen at once. */
GY_MUST_CHECK gy_status gy_facts_ask(gy_env *env, const char *const *names);
/** Whether gy_facts_of would ask nobody. */
bool gy_facts_are_known(const char *uri);
/** Keep what a list told. GY_NOMEM @threads any */
GY_MUST_CHECK gy_status gy_facts_keep(const char *uri, const gy_place_facts *facts);
/** Forget all: who asks later is told what is there then. @threads any */
void gy_facts_forget(void);

/* ---- folders that several hosts mount ---- */

/** The file system of a folder, as far as sharing goes. */
typedef struct gy_share {
    const char *name;  /* "nfs", "ext", static; "unknown" */
    bool is_network;   /* other hosts may see it */
    bool is_exclusive; /* link(2) creates exclusively for all who see it */
} gy_share;

/** GY_NOTFOUND; GY_IO. Real files alone. @threads any */
GY_MUST_CHECK gy_status gy_share_look(const char *folder, gy_share *share);

/**
 * Create a file that must not be there, whole, synced and for all hosts at once: written under
 * another name, then linked. An answer that the network lost is found out by the count of
 * links.
 *
 * @return GY_OK; GY_EXISTS; GY_UNSUPPORTED the file system has no links; GY_NOTFOUND no such
 * folder; GY_IO; GY_NOMEM
 * @threads any
 */
GY_MUST_CHECK gy_status gy_share_create(gy_env *env, const char *path, const void *data,
                                        size_t size_bytes);

/** Rename, the bytes and both folders synced. Errors as gy_writer. */
GY_MUST_CHECK gy_status gy_share_rename(gy_env *env, const char *from, const char *to);

/**
 * gy_file_read for files that other hosts write: opened anew, so that NFS shows what was closed
 * before; once more when the handle became stale meanwhile.
 */
GY_MUST_CHECK gy_status gy_share_read(gy_env *env, const char *path, size_t limit_bytes,
                                      gy_bytes *out);

#endif
