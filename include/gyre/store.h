/**
 * Objects and files wherever they lie: s3://BUCKET/KEY, hdfs://HOST:PORT/PATH (WebHDFS; port:
 * the name node's HTTP port, 9870 by default; swebhdfs:// over TLS), file:/PATH or a path.
 *
 * Settings and credentials come from the environment and ~/.aws: see gyre(1). Every function
 * retries a request when a server is unreachable or overloaded, for at most GYRE_STORE_TIMEOUT
 * seconds (60). An error names the URI, the server's status and its message: GY_NOTFOUND;
 * GY_IO, with the source of the credentials when access was denied; GY_TIMEOUT; GY_STATE the
 * object was changed while it was read; GY_FORMAT, GY_LIMIT a response that is malformed or too
 * long; GY_ARG a URI or setting; GY_UNSUPPORTED; GY_NOMEM.
 */
#ifndef GYRE_STORE_H
#define GYRE_STORE_H

#include <gyre/base.h>
#include <gyre/format.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An object or folder of a list; borrowed for the visit. */
typedef struct gy_store_entry {
    const char *uri;  /* to read or list; a folder's ends with a slash */
    const char *name; /* the part of `uri` behind the listed URI */
    uint64_t size_bytes;
    int64_t modified_ms; /* since 1970, by the server's clock; 0: unknown */
    const char *version; /* changes whenever the bytes do; "" for folders */
    bool is_folder;
} gy_store_entry;
/** Takes an entry. A status other than GY_OK ends the list and is returned. */
typedef gy_status (*gy_store_visit)(void *arg, const gy_store_entry *entry);

/**
 * Visit the entries of a folder or prefix: one level, in the order of the names' bytes; a file
 * is its own only entry. The list is read in pages, so memory does not grow with its length.
 *
 * @return GY_OK; what `visit` returned; failures as above
 * @threads any
 * @cost a request for each 1000 entries of S3, and for each page of HDFS
 */
GY_API GY_MUST_CHECK gy_status gy_store_list(const char *uri, gy_store_visit visit, void *arg);

/** Takes the next bytes of an object. A status other than GY_OK ends the reading and is
 * returned.
 */
typedef gy_status (*gy_store_sink)(void *arg, const void *data, size_t size_bytes);

/**
 * Give the bytes of one object to `sink` in order; all of them belong to one version.
 *
 * @param is_expanded decompress them (GY_ENCODING_AUTO)
 * @return GY_OK; what `sink` returned; failures as above; GY_FORMAT damaged compression
 * @threads any
 * @cost remote: ranges of 8 MiB over two connections; 16 MiB of memory
 */
GY_API GY_MUST_CHECK gy_status gy_store_read(const char *uri, bool is_expanded,
                                             gy_store_sink sink, void *arg);

/**
 * Compresses bytes and gives them to a sink. A failure is remembered: what follows returns it.
 * Not thread-safe.
 */
typedef struct gy_compressor gy_compressor;

/**
 * @param encoding  GY_ENCODING_GZIP or GY_ENCODING_ZSTD
 * @param sink      takes the compressed bytes in order
 * @return GY_OK, caller owns; GY_UNSUPPORTED another encoding; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_compressor_new(gy_encoding encoding, gy_store_sink sink,
                                                 void *arg, gy_compressor **compressor);
/** Add bytes. GY_OK; what `sink` returned; GY_NOMEM */
GY_API GY_MUST_CHECK gy_status gy_compressor_add(gy_compressor *compressor, const void *data,
                                                 size_t size_bytes);
/** Give what is left, once, behind all bytes. As gy_compressor_add. */
GY_API GY_MUST_CHECK gy_status gy_compressor_end(gy_compressor *compressor);
/** NULL is fine. */
GY_API void gy_compressor_free(gy_compressor *compressor);

/** The compression that a file's name stands for: "a.csv.gz" GY_ENCODING_GZIP.
 * GY_ENCODING_PLAIN: of no format that Gyre knows; GY_ENCODING_AUTO: of one that is not read
 * (.zip, .parquet). */
GY_API gy_encoding gy_encoding_of_name(const char *name);

typedef enum gy_store_mode {
    GY_STORE_REPLACE, /* replace an object of that name */
    GY_STORE_NEW,     /* GY_EXISTS when there is one; of many concurrent calls one succeeds */
} gy_store_mode;

/**
 * Copy one object; the copy appears atomically.
 *
 * @return GY_OK; GY_EXISTS; GY_UNSUPPORTED GY_STORE_NEW on a store that cannot guarantee it;
 * failures as above
 * @threads any
 * @cost the bytes pass through this process
 */
GY_API GY_MUST_CHECK gy_status gy_store_copy(const char *from, const char *to,
                                             gy_store_mode mode);

/** Cancel: each gy_store_copy of this process, now and later, ends with GY_CANCELLED at its
 * next segment and removes what it wrote. @threads any, also a signal handler */
GY_API void gy_store_interrupt(void);

/**
 * Escape a name so that it stays on one line and is UTF-8: control characters, bytes that are
 * not UTF-8 and backslashes become \n, \t, \r, \xNN and \\. The escaping is injective.
 *
 * @param shown (size_bytes) becomes the text; four times the name's bytes are always enough
 * @return GY_OK; GY_LIMIT it does not fit; GY_NOMEM
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_store_escape_name(const char *name, char *shown,
                                                    size_t size_bytes);

/** Check the form of a URI or path; sends no request. GY_ARG an unknown scheme, no bucket, no
 * host.
 * @threads any */
GY_API GY_MUST_CHECK gy_status gy_store_check(const char *uri);

/**
 * Get the path on this host that a text names: a path is itself; file:/PATH, file:///PATH and
 * file://localhost/PATH are decoded (%41 is a byte).
 *
 * @param path (size_bytes) becomes the path
 * @return GY_OK; GY_ARG a URI of an object, of another host or of an unknown scheme ("s3a://";
 * "./s3a://" is a path), no path, one that is too long
 * @threads any
 */
GY_API GY_MUST_CHECK gy_status gy_store_path(const char *text, char *path, size_t size_bytes);

/** Remove one object. A missing object is GY_OK, a folder is GY_IO. @threads any */
GY_API GY_MUST_CHECK gy_status gy_store_remove(const char *uri);

#ifdef __cplusplus
}
#endif
#endif
