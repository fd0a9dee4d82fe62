/**
 * Objects and files of other machines behind one interface: S3, HDFS (through WebHDFS), files.
 *
 * A URI names one: s3://BUCKET/KEY, hdfs://HOST:PORT/PATH (webhdfs:// is the same, swebhdfs://
 * over TLS; the port is the name node's HTTP port, 9870 by default), file:/PATH, or a plain
 * path. Keys and paths of S3 and HDFS are not decoded; in file: URIs %41 is a byte.
 *
 * Every operation retries, with pauses of up to 5 s, when the server is unreachable or silent,
 * closes the connection or answers 408, 429 or 5xx, until the operation's timeout; a range
 * keeps the bytes that it received. An error names the URI, the server's status and its
 * message, and never a secret: GY_NOTFOUND 404; GY_IO, with the source of the credentials when
 * access was denied; GY_EXISTS; GY_TIMEOUT; GY_FORMAT a malformed response; GY_LIMIT one that
 * is too long; GY_ARG a URI or setting; GY_UNSUPPORTED; GY_NOMEM; GY_CANCELLED.
 */
#ifndef GY_STORE_REMOTE_REMOTE_H
#define GY_STORE_REMOTE_REMOTE_H

#include "store/store.h"

enum {
    /* a URI with its NUL: an S3 key has up to 1024 bytes, a path 4095 */
    GY_URI_BYTES = 4608,
    GY_VERSION_BYTES = 160,        /* size of an ETag or similar */
    GY_READ_AHEAD_BYTES = 8 << 20, /* size of each of a reading's two buffers */
};

/** An open object, file or folder; opening it sends no request. One thread at a time. */
typedef struct gy_place gy_place;

typedef struct gy_place_options {
    double patience_s; /* timeout of one operation with its retries; 0: GYRE_STORE_TIMEOUT, or
                          60 */
} gy_place_options;

/** Whether a text is a URI of an object; every other text is a path or file:. @threads any */
bool gy_uri_is_remote(const char *uri);
/** Whether a text is a "file:" URI. @threads any */
bool gy_uri_is_file(const char *text);

/**
 * Refuse an unknown scheme ("s3a://b/k"): GY_ARG lists the known ones. The name of an existing
 * file is a path all the same, and so is a text without "://".
 * @threads any
 */
GY_MUST_CHECK gy_status gy_uri_check(const char *text);
/** The same for an object to be created: an existing file of that name makes no difference, and
 * "s3:/b/k" (one slash) is refused unless a file has that name. @threads any */
GY_MUST_CHECK gy_status gy_uri_check_new(const char *text);

/**
 * Get the path on this host that a text names; "file:" URIs are decoded.
 *
 * @param what what the path is for, in messages: "the memo"
 * @param path (size_bytes) becomes the path
 * @return GY_OK; GY_ARG a URI of an object, of another host or of an unknown scheme; no path;
 * one that is too long
 * @threads any
 */
GY_MUST_CHECK gy_status gy_store_path_local(const char *text, const char *what, char *path,
                                            size_t size_bytes);

/** Open a place. @param options NULL: the defaults. @return GY_OK; GY_ARG an unknown scheme, no
 * bucket, no host, a wrong setting; GY_IO credentials that others may write; GY_NOMEM.
 * @threads any */
GY_MUST_CHECK gy_status gy_place_open(gy_env *env, const char *uri,
                                      const gy_place_options *options, gy_place **place);
/** Close a place. NULL is fine. */
void gy_place_close(gy_place *place);
/**
 * Visit the paths of all files that gy_place_open may read for a URI of an object: credentials,
 * settings, authorities. They need not exist.
 * @return GY_OK; what `visit` returned. @threads any
 */
GY_MUST_CHECK gy_status gy_place_files(const char *uri,
                                       gy_status (*visit)(void *arg, const char *path),
                                       void *arg);
/** The URI given to gy_place_open; borrowed. */
const char *gy_place_uri(const gy_place *place);
/** Cancel: the operation that another thread runs on the place, and all later ones, end with
 * GY_CANCELLED. An open writer removes what it wrote, for 10 s at most. @threads any */
void gy_place_cancel(gy_place *place);

typedef struct gy_place_facts {
    uint64_t size_bytes;
    bool is_folder;      /* of S3: a bucket, or a key prefix that ends with a slash */
    bool is_link;        /* of HDFS; in a list of files: a dangling link */
    int64_t modified_ms; /* since 1970 by the server's clock; 0: unknown */
    /* Changes whenever the bytes do: the ETag of S3; for HDFS and files made of inode number,
     * length and time. Empty for folders. */
    char version[GY_VERSION_BYTES];
} gy_place_facts;

GY_MUST_CHECK gy_status gy_place_stat(gy_place *place, gy_place_facts *facts);

/** An entry of a list; borrowed for the visit. */
typedef struct gy_place_entry {
    const char *uri;  /* URI to open; a folder's ends with a slash */
    const char *name; /* the part of `uri` after the listed URI */
    gy_place_facts facts;
} gy_place_entry;
typedef gy_status (*gy_place_visit)(void *arg, const gy_place_entry *entry);

/**
 * Visit the entries of a folder or prefix: one level, in the byte order of the names. A file
 * is its own only entry. On S3, an object with the name of the prefix comes first, and so does
 * a key that ends with a slash and has bytes. Pipes and devices count as files without bytes.
 * The list is read in pages, so memory does not grow with its length, except for a local
 * folder.
 *
 * @return GY_OK; GY_NOTFOUND no such folder; GY_FORMAT the server's list is not in order; what
 *     `visit` returned; failures as above
 */
GY_MUST_CHECK gy_status gy_place_list(gy_place *place, gy_place_visit visit, void *arg);

/**
 * Read bytes [at, at + wanted), fewer (`*got`) only at the end.
 *
 * @param version of gy_place_stat: GY_STATE when the object has changed since. NULL: any
 */
GY_MUST_CHECK gy_status gy_place_read(gy_place *place, const char *version, uint64_t at,
                                      void *data, size_t wanted, size_t *got);

/** Remove an object or file. A missing one is GY_OK, a folder is GY_IO. */
GY_MUST_CHECK gy_status gy_place_remove(gy_place *place);

typedef enum gy_place_mode {
    GY_PLACE_REPLACE, /* replace an object of that name */
    GY_PLACE_NEW,     /* GY_EXISTS when there is one; of many concurrent calls one succeeds */
} gy_place_mode;

/**
 * An object that is being written; it appears atomically when the writer finishes. On S3 it is
 * a single PUT up to 8 MiB, else a multipart upload that a failure aborts; on HDFS and for
 * files it has a temporary name until a rename (for GY_PLACE_NEW one that replaces nothing; for
 * files a link). Parts that a killed process left on S3 cost money until the bucket's lifecycle
 * rule removes them. Memory: one part, 8 MiB, twice that for each 1000 parts.
 */
typedef struct gy_place_writer gy_place_writer;
/** Open a writer. GY_UNSUPPORTED GY_PLACE_NEW on a store that cannot guarantee it
 * (gy_place_guarantee). */
GY_MUST_CHECK gy_status gy_place_writer_open(gy_place *place, gy_place_mode mode,
                                             gy_place_writer **writer);
/** Append bytes. After a failure only finish (which returns it again) or abort may be
 * called. */
GY_MUST_CHECK gy_status gy_place_writer_add(gy_place_writer *writer, const void *data,
                                            size_t size_bytes);
/** Finish the object and free the writer. A failure leaves nothing behind unless the server is
 * unreachable. */
GY_MUST_CHECK gy_status gy_place_writer_finish(gy_place_writer *writer);
/** Remove what was written, for 10 s at most, and free the writer. NULL is fine. */
void gy_place_writer_abort(gy_place_writer *writer);

/** Write a whole object with one gy_place_writer. */
GY_MUST_CHECK gy_status gy_place_write(gy_place *place, gy_place_mode mode, const void *data,
                                       size_t size_bytes);

/**
 * What a store guarantees. No store can append to an object: a journal is a list of segments,
 * each created as GY_PLACE_NEW, with names that sort.
 */
typedef struct gy_place_guarantees {
    bool is_exclusive; /* GY_PLACE_NEW is exclusive among all hosts */
    char reason[256];  /* how the store guarantees it, or why it does not */
} gy_place_guarantees;

/**
 * Find out what a store guarantees. On S3 the call tries If-None-Match with an object
 * ".gyre-probe-…" beside the place, which it removes, once for each bucket and process. For
 * files it looks at the file system and tries a link.
 * @return GY_OK, also when nothing is guaranteed; failures of the requests
 */
GY_MUST_CHECK gy_status gy_place_guarantee(gy_place *place, gy_place_guarantees *guarantees);

/** The hosts that store a range of a file. */
typedef struct gy_place_block {
    uint64_t at, size_bytes;
    const char *const *hosts; /* (host_count) */
    size_t host_count;
} gy_place_block;
typedef gy_status (*gy_place_block_visit)(void *arg, const gy_place_block *block);

/** Visit the blocks of [at, at + size_bytes), ascending; none on a store that does not report
 * them (S3). */
GY_MUST_CHECK gy_status gy_place_blocks(gy_place *place, uint64_t at, uint64_t size_bytes,
                                        gy_place_block_visit visit, void *arg);

/**
 * Open a source for a URI. A file is opened as by gy_source_open. For an object two threads
 * fetch ranges of 8 MiB in turn while the caller reads one; all ranges belong to one version.
 */
GY_MUST_CHECK gy_status gy_source_open_uri(gy_env *env, const char *uri, gy_encoding encoding,
                                           const gy_place_options *options, gy_source **source);

/** A range of an object whose facts are known, so that the first request fetches its bytes. */
typedef struct gy_source_part {
    const char *version; /* of gy_place_facts: GY_STATE when the object has changed since */
    uint64_t begin, end; /* bytes [begin, end), which must exist */
    size_t ahead_bytes;  /* size of each of the two buffers; 0: GY_READ_AHEAD_BYTES */
    const gy_place_options *options;  /* NULL: the defaults */
    const _Atomic bool *is_cancelled; /* true: reads end within 0.1 s with GY_CANCELLED;
                                         outlives the source; NULL: never */
} gy_source_part;

/** Open a source for a range of an object, without decompression. `part` and `uri` are copied.
 */
GY_MUST_CHECK gy_status gy_source_open_part(gy_env *env, const char *uri,
                                            const gy_source_part *part, gy_source **source);

/* ---- many at once ---- */

/**
 * Call `work` for 0 to count - 1, started in this order, sixteen at once on threads of their
 * own, which may wait for stores. After a failure no further call starts.
 *
 * @return GY_OK; the failure with the lowest number
 * @threads any; so is `work`
 */
GY_MUST_CHECK gy_status gy_remote_each(size_t count, gy_status (*work)(void *arg, size_t index),
                                       void *arg);

/* ---- a cache of facts ---- */

/**
 * Get the facts of an object from the cache, which lists and earlier requests fill since
 * gy_store_facts_forget; else by a request. So a list of a thousand objects costs one request,
 * not a thousand more. A reader compares versions, so a stale fact ends in GY_STATE, never in
 * wrong bytes.
 *
 * @return GY_OK; GY_IO a folder; as gy_place_stat
 * @threads any
 */
GY_MUST_CHECK gy_status gy_store_facts_of(gy_env *env, const char *uri, gy_place_facts *facts);
/** Fill the cache with those of `names` (NULL at the end) that are objects, sixteen requests at
 * once. */
GY_MUST_CHECK gy_status gy_store_facts_ask(gy_env *env, const char *const *names);
/** Whether the cache has the object's facts. */
bool gy_store_facts_are_known(const char *uri);
/** Put an entry of a list into the cache. GY_NOMEM @threads any */
GY_MUST_CHECK gy_status gy_store_facts_keep(const char *uri, const gy_place_facts *facts);
/** Empty the cache. @threads any */
void gy_store_facts_forget(void);

/* ---- folders that several hosts mount ---- */

/** What the file system of a folder offers to several hosts. */
typedef struct gy_share {
    const char *name;  /* "nfs", "ext", static; "unknown" */
    bool is_network;   /* other hosts may mount it */
    bool is_exclusive; /* link(2) creates exclusively among all hosts */
} gy_share;

/** Get the properties of a folder's file system. GY_NOTFOUND; GY_IO. Real files only.
 * @threads any */
GY_MUST_CHECK gy_status gy_share_look(const char *folder, gy_share *share);

/**
 * Create a file that must not exist, atomically, synced, and visible to all hosts at once: it
 * is written under a temporary name, then linked. When the network lost the answer, the count
 * of links tells whether the link succeeded.
 *
 * @return GY_OK; GY_EXISTS; GY_UNSUPPORTED the file system has no links; GY_NOTFOUND no such
 * folder; GY_IO; GY_NOMEM
 * @threads any
 */
GY_MUST_CHECK gy_status gy_share_create(gy_env *env, const char *path, const void *data,
                                        size_t size_bytes);

/** Rename a file, and sync its bytes and both folders. Errors as gy_writer. */
GY_MUST_CHECK gy_status gy_share_rename(gy_env *env, const char *from, const char *to);

/**
 * gy_store_file_read for files that other hosts write: it opens the file again, so that NFS
 * shows what was written before a close, and once more when the handle became stale meanwhile.
 */
GY_MUST_CHECK gy_status gy_share_read(gy_env *env, const char *path, size_t limit_bytes,
                                      gy_bytes *out);

#endif
