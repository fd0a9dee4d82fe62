/**
 * Room store: files and formats, for higher rooms. Reading order: file, source, formats,
 * writer, idx, bundle.
 *
 * An error names the path, the offset where it helps, the value found and the expected one.
 */
#ifndef GY_STORE_STORE_H
#define GY_STORE_STORE_H

#include "base/env.h"

#include <gyre/data.h>
#include <gyre/format.h>

/* ---- whole files ---- */

/** Memory with its size; free `data` with gy_free. A NUL follows the last byte. */
typedef struct gy_bytes {
    char *data;
    size_t size_bytes;
} gy_bytes;

/**
 * Read a whole regular file. GY_NOTFOUND; GY_IO a folder, a device, no permission; GY_LIMIT
 * larger than limit_bytes; GY_NOMEM. @threads any
 */
GY_MUST_CHECK gy_status gy_store_file_read(gy_env *env, const char *path, size_t limit_bytes,
                                           gy_bytes *out);

/** Fail with "cannot VERB PATH: No space left on device"; `error` is a negated errno. */
gy_status gy_store_file_fail(const char *verb, const char *path, int64_t error);

/** Open a regular file for reading; returns descriptor and size. Never waits for the writer of
 * a pipe. */
GY_MUST_CHECK gy_status gy_store_file_open(gy_env *env, const char *path, int *file,
                                           uint64_t *size_bytes);

/** Write a file atomically, as gy_writer does. */
GY_MUST_CHECK gy_status gy_store_file_write(gy_env *env, const char *path, const void *data,
                                            size_t size_bytes);

/** A file mapped read-only. When another process truncates the file, reads raise SIGBUS. */
typedef struct gy_mapping {
    const char *data; /* never NULL, also for an empty file */
    size_t size_bytes;
} gy_mapping;

/** Map a regular file. Errors as gy_store_file_read. Real disk only. @threads any */
GY_MUST_CHECK gy_status gy_store_file_map(const char *path, gy_mapping *out);
void gy_store_file_unmap(gy_mapping *mapping);

/* ---- input streams ---- */

/** A byte stream from a file or from memory, decompressed on request. Not thread-safe. */
typedef struct gy_source gy_source;

/* Formats (formats.c), which the first bytes of a file identify. */

enum { GY_FORMAT_HEAD_BYTES = 512 }; /* enough for every format */

/** The encoding to use for a file when `asked` was requested: a file declared as binary is
 * decompressed only if its name says so too. Pure. */
gy_encoding gy_store_encoding_for(gy_encoding asked, const char *path, bool is_binary);
/** Whether a source with that encoding would decompress a file with this head (its first
 * GY_FORMAT_HEAD_BYTES, or all of it). Pure. */
bool gy_store_format_is_packed(gy_encoding encoding, const void *head, size_t size_bytes);
/** GY_FORMAT: a container that Gyre does not read; the message names it and a remedy. */
GY_MUST_CHECK gy_status gy_store_format_check(const char *path, const void *head,
                                              size_t size_bytes);
/** The same for a file that must be text: also refuses compressed files, UTF-16 and UTF-32, and
 * a plain file with the name of a compressed one. */
GY_MUST_CHECK gy_status gy_store_format_check_text(const char *path, bool is_expanded,
                                                   const void *head, size_t size_bytes);

/** Open a source. Errors as gy_store_file_read; GY_FORMAT the file does not have that encoding,
 * or is a container that Gyre does not read (GY_ENCODING_AUTO); GY_UNSUPPORTED a library is
 * missing. `path` is copied. */
GY_MUST_CHECK gy_status gy_source_open(gy_env *env, const char *path, gy_encoding encoding,
                                       gy_source **source);
/** Open a source over memory, which is borrowed until the close; `name` replaces the path in
 * messages. */
GY_MUST_CHECK gy_status gy_source_of(const void *data, size_t size_bytes, const char *name,
                                     gy_encoding encoding, gy_source **source);
/** Close a source. NULL is fine. */
void gy_source_close(gy_source *source);

/** A source of bytes other than a file or memory. */
typedef struct gy_source_ops {
    /* fewer only at the end */
    gy_status (*read)(void *arg, void *data, size_t wanted, size_t *got);
    void (*close)(void *arg);
} gy_source_ops;
/** Open a source over it; takes `arg`, also on failure. */
GY_MUST_CHECK gy_status gy_source_over(const gy_source_ops *ops, void *arg, uint64_t size_bytes,
                                       const char *name, gy_encoding encoding,
                                       gy_source **source);

/**
 * Read up to `wanted` bytes; fewer (`*got`) only at the end. At the end of compressed data,
 * their checksums have been verified.
 *
 * @return GY_OK; GY_IO; GY_FORMAT compressed data are damaged, truncated or followed by other
 *     bytes; GY_LIMIT they need more than 128 MiB of memory; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_source_read(gy_source *source, void *data, size_t wanted,
                                       size_t *got);

/** An upper bound of the bytes that the source returns: exact for plain data, 1032 for each
 * byte of gzip, and so on. */
uint64_t gy_source_bound(const gy_source *source);
const char *gy_source_name(const gy_source *source);
/** Number of raw bytes read so far. */
uint64_t gy_source_raw_at(const gy_source *source);
/** Whether it decompresses. */
bool gy_source_is_packed(const gy_source *source);

/**
 * Decompress gzip (one or several members) in memory. GY_LIMIT more than limit_bytes, without
 * allocating more than that; else as gy_source_read.
 */
GY_MUST_CHECK gy_status gy_store_gzip_expand(const void *data, size_t size_bytes,
                                             const char *name, size_t limit_bytes,
                                             gy_bytes *out);

/* ---- files that appear atomically ---- */

/**
 * Writes to a temporary file beside the target (".gyre-*.tmp"); finish flushes, syncs, renames
 * it over the target (following a link), and syncs the folder. Not thread-safe.
 */
typedef struct gy_writer gy_writer;

/** Open a writer. GY_NOTFOUND no such folder; GY_IO the target is a folder, a device or pipe,
 * no permission, disk full; GY_NOMEM. */
GY_MUST_CHECK gy_status gy_writer_open(gy_env *env, const char *path, gy_writer **writer);
/** Append bytes. After a failure only finish (which returns it again) or abort may be
 * called. */
GY_MUST_CHECK gy_status gy_writer_add(gy_writer *writer, const void *data, size_t size_bytes);
/**
 * Finish and free the writer. A failure leaves nothing behind and the target unchanged, with
 * one exception: a failed sync of the folder comes after the rename, so the new file exists,
 * but its name may not survive a power failure.
 */
GY_MUST_CHECK gy_status gy_writer_finish(gy_writer *writer);
/**
 * Finish and free the writer as gy_writer_finish does, but for a file that must not exist: of
 * several processes that create it, on this host or on others that share the folder, one
 * succeeds.
 *
 * @return as gy_writer_finish; GY_EXISTS; GY_UNSUPPORTED the file system has no links
 */
GY_MUST_CHECK gy_status gy_writer_create(gy_writer *writer);

/* A file that several processes write, each its ranges: one opens it, the others join. */

/** Make the file so large now. GY_IO the disk has no room, or its files have no offsets. */
GY_MUST_CHECK gy_status gy_writer_reserve(gy_writer *writer, uint64_t size_bytes);
/** The name of the temporary file, in the folder of the path; borrowed. */
const char *gy_writer_name(const gy_writer *writer);
/**
 * Open the temporary file of that name which another process has opened for `path`.
 * @return as gy_writer_open; GY_NOTFOUND this host does not see that file
 */
GY_MUST_CHECK gy_status gy_writer_join(gy_env *env, const char *path, const char *name,
                                       gy_writer **writer);
/** Write bytes at an offset, below what is reserved; nothing is appended beside. Failures as of
 * gy_writer_add. */
GY_MUST_CHECK gy_status gy_writer_put(gy_writer *writer, uint64_t offset, const void *data,
                                      size_t size_bytes);
/** Free a writer that joined. `is_synced`: its bytes are on the disk, as they are with the
 * owner's gy_writer_finish where both are on one host. */
GY_MUST_CHECK gy_status gy_writer_leave(gy_writer *writer, bool is_synced);

/** Free the writer and leave nothing behind; of one that joined the file stays. NULL is fine.
 */
void gy_writer_abort(gy_writer *writer);

/* ---- formats ---- */

#define GY_IDX_LIMIT (UINT64_C(8) << 30)

/** gy_read_libsvm of at most `limit` bytes of text. Reads `source` to its end. */
GY_MUST_CHECK gy_status gy_store_libsvm_read(gy_source *source, uint64_t limit,
                                             gy_libsvm **rows);

/** gy_read_idx with all options; `pool` NULL: the heap. Reads `source` to its end. */
GY_MUST_CHECK gy_status gy_store_idx_read(gy_source *source, gy_pool *pool,
                                          uint64_t limit_bytes, gy_tensor **tensor);

#endif
