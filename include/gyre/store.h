/**
 * Objects and files wherever they lie: s3://BUCKET/KEY, hdfs://HOST:PORT/PATH (WebHDFS; port:
 * the name node's HTTP port, 9870 by default; swebhdfs:// over TLS), file:/PATH or a path.
 *
 * Settings and credentials come from the environment and ~/.aws: see gyre(1). Every function
 * asks again when a server is away or overloaded, for at most GYRE_STORE_TIMEOUT seconds (60) a
 * request. Failures name the URI, the server's status and its words: GY_NOTFOUND; GY_IO, with
 * the source of the credentials when access was denied; GY_TIMEOUT; GY_STATE it was changed
 * while it was read; GY_FORMAT, GY_LIMIT an answer that makes no sense or is too long; GY_ARG a
 * URI or setting; GY_UNSUPPORTED; GY_NOMEM.
 */
#ifndef GYRE_STORE_H
#define GYRE_STORE_H

#include <gyre/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a list has. Borrowed for the visit. */
typedef struct gy_store_entry {
    const char *uri;  /* can be read or listed; a folder's ends with a slash */
    const char *name; /* the part of it behind the listed URI */
    uint64_t size_bytes;
    int64_t modified_ms; /* since 1970, by the server's clock; 0: not told */
    const char *version; /* another whenever the bytes are; "" for folders */
    bool is_folder;
} gy_store_entry;
typedef gy_status (*gy_store_visit)(void *arg, const gy_store_entry *entry);

/**
 * Visit what lies in a folder or below a prefix: one level, in the order of the names' bytes;
 * of a file the file. Asked for in pages, so that memory does not grow with their number.
 *
 * @return GY_OK; what `visit` returned; failures as above
 * @threads any
 * @cost a request for each 1000 of S3; a request for each page of HDFS
 */
GY_API GY_MUST_CHECK gy_status gy_store_list(const char *uri, gy_store_visit visit, void *arg);

/** Takes the next bytes; a failure ends the reading. */
typedef gy_status (*gy_store_sink)(void *arg, const void *data, size_t size_bytes);

/**
 * Give the bytes of one object in order to `take`; all are of one version.
 *
 * @param is_expanded what is compressed is expanded (GY_ENCODING_AUTO)
 * @return GY_OK; what `take` returned; failures as above; GY_FORMAT damaged compression
 * @threads any
 * @cost remote: ranges of 8 MiB over two connections; 16 MiB of memory
 */
GY_API GY_MUST_CHECK gy_status gy_store_read(const char *uri, bool is_expanded,
                                             gy_store_sink take, void *arg);

typedef enum gy_store_mode {
    GY_STORE_REPLACE, /* what has the name goes */
    GY_STORE_NEW,     /* GY_EXISTS when something has it; of many that try, one succeeds */
} gy_store_mode;

/**
 * Copy one object; the copy appears whole or not at all.
 *
 * @return GY_OK; GY_EXISTS; GY_UNSUPPORTED GY_STORE_NEW where the store does not promise it;
 * failures as above
 * @threads any
 * @cost the bytes pass through this process
 */
GY_API GY_MUST_CHECK gy_status gy_store_copy(const char *from, const char *to,
                                             gy_store_mode mode);

/** From now on each gy_store_copy of this process ends with GY_CANCELLED at its next piece, and
 * takes back what it wrote. @threads any, also a handler of signals */
GY_API void gy_store_interrupt(void);

/**
 * Write a name so that it stays on its line and is UTF-8: control characters, bytes that are
 * not UTF-8 and backslashes become \n, \t, \r, \xNN and \\; no two names come out alike.
 *
 * @param shown (size_bytes) takes it; four times the name's bytes are always enough
 * @return GY_OK; GY_LIMIT it does not fit; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_store_escape_name(const char *name, char *shown,
                                                    size_t size_bytes);

/** Whether something can be called so: GY_ARG a scheme that is not known, no bucket, no host.
 * Nobody is asked. @threads any */
GY_API GY_MUST_CHECK gy_status gy_store_check(const char *uri);

/**
 * The path on this host that a text names, for what can only lie in files: a path is itself, of
 * file:/PATH, file:///PATH and file://localhost/PATH %41 is a byte.
 *
 * @param path (size_bytes) takes it
 * @return GY_OK; GY_ARG a URI of another machine's, of a host or of no known scheme ("s3a://";
 * "./s3a://" is a path), no path, one that is too long
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_store_path(const char *text, char *path, size_t size_bytes);

/** Remove one object; that there is none is no failure, a folder is GY_IO. @threads any */
GY_API GY_MUST_CHECK gy_status gy_store_remove(const char *uri);

#ifdef __cplusplus
}
#endif
#endif
