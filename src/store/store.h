/**
 * Room store: files and formats, for higher rooms. Reading order: file, source,
 * formats, writer, idx, bundle.
 *
 * Failures name the path, where it helps the offset, the value seen and what was expected.
 */
#ifndef GY_STORE_STORE_H
#define GY_STORE_STORE_H

#include "base/env.h"

#include <gyre/data.h>
#include <gyre/format.h>

/* ---- whole files ---- */

/** Memory with its size; `data` is freed with gy_free. A NUL stands behind the last byte. */
typedef struct gy_bytes {
    char *data;
    size_t size_bytes;
} gy_bytes;

/**
 * Read a regular file whole. GY_NOTFOUND; GY_IO a folder, a device, no permission; GY_LIMIT
 * larger than limit_bytes; GY_NOMEM. @threads any
 */
GY_MUST_CHECK gy_status gy_store_file_read(gy_env *env, const char *path, size_t limit_bytes,
                                           gy_bytes *out);

/** Write a file whole or not at all, as gy_writer does. */
GY_MUST_CHECK gy_status gy_store_file_write(gy_env *env, const char *path, const void *data,
                                            size_t size_bytes);

/** A file in memory, read-only. Who shortens the file meanwhile makes reads of it die. */
typedef struct gy_mapping {
    const char *data; /* not NULL, also for an empty file */
    size_t size_bytes;
} gy_mapping;

/** Map a regular file. Errors as gy_store_file_read. The real disk alone. @threads any */
GY_MUST_CHECK gy_status gy_store_file_map(const char *path, gy_mapping *out);
void gy_store_file_unmap(gy_mapping *mapping);

/* ---- streams in ---- */

/** Bytes in order from a file or from memory, expanded where asked for. Not thread-safe. */
typedef struct gy_source gy_source;

/* Formats (formats.c): what a file is, by its first bytes. */

enum { GY_FORMAT_HEAD_BYTES = 512 }; /* that all formats show themselves in */

/** How to take a file for which `asked` was said: what is declared as binary is expanded only
 * where its name says so, too. Pure. */
gy_encoding gy_store_encoding_for(gy_encoding asked, const char *path, bool is_binary);
/** Whether a source of that encoding would expand a file with this head (its first
 * GY_FORMAT_HEAD_BYTES, or all of it). Pure. */
bool gy_store_format_is_packed(gy_encoding encoding, const void *head, size_t size_bytes);
/** GY_FORMAT: it is a container that Gyre does not read; named, with what to do. */
GY_MUST_CHECK gy_status gy_store_format_check(const char *path, const void *head,
                                              size_t size_bytes);
/** The same of what shall be text: not compressed, not UTF-16 or 32, and no other bytes under
 * the name of a compressed file. */
GY_MUST_CHECK gy_status gy_store_format_check_text(const char *path, bool is_expanded,
                                                   const void *head, size_t size_bytes);

/** Errors as gy_store_file_read; GY_FORMAT what is no file of that encoding, or a container
 * that Gyre does not read (GY_ENCODING_AUTO); GY_UNSUPPORTED a library is not there. `path` is
 * copied. */
GY_MUST_CHECK gy_status gy_source_open(gy_env *env, const char *path, gy_encoding encoding,
                                       gy_source **source);
/** Over memory that is borrowed until the close; `name` stands for the path in messages. */
GY_MUST_CHECK gy_status gy_source_of(const void *data, size_t size_bytes, const char *name,
                                     gy_encoding encoding, gy_source **source);
/** NULL is fine. */
void gy_source_close(gy_source *source);

/** Bytes that come from elsewhere than a file or memory. */
typedef struct gy_source_ops {
    gy_status (*read)(void *arg, void *data, size_t wanted, size_t *got); /* fewer at the end */
    void (*close)(void *arg);
} gy_source_ops;
/** A source over them; takes `arg`, also when it fails. */
GY_MUST_CHECK gy_status gy_source_over(const gy_source_ops *ops, void *arg, uint64_t size_bytes,
                                       const char *name, gy_encoding encoding,
                                       gy_source **source);

/**
 * Read up to `wanted` bytes; fewer (`*got`) only at the end. At the end of what is
 * expanded its checks have passed.
 *
 * @return GY_OK; GY_IO; GY_FORMAT what is expanded is damaged, cut short or followed by other
 * bytes; GY_LIMIT it needs more memory than 128 MiB; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_source_read(gy_source *source, void *data, size_t wanted,
                                       size_t *got);

/** Bytes the whole source gives at most: exact when plain, 1032 for each byte of gzip, and so
 * on. */
uint64_t gy_source_bound(const gy_source *source);
const char *gy_source_name(const gy_source *source);
/** Whether it is expanded. */
bool gy_source_is_packed(const gy_source *source);

/**
 * Expand gzip (one or several members) in memory. GY_LIMIT past limit_bytes, before more than
 * that is allocated; else as gy_source_read.
 */
GY_MUST_CHECK gy_status gy_store_gzip_expand(const void *data, size_t size_bytes,
                                             const char *name, size_t limit_bytes,
                                             gy_bytes *out);

/* ---- files that appear whole or not at all ---- */

/**
 * Writes beside the target under a name of its own (".gyre-*.tmp"); finish flushes, syncs,
 * renames over the target, which may be a link, and syncs the folder. Not thread-safe.
 */
typedef struct gy_writer gy_writer;

/** GY_NOTFOUND no such folder; GY_IO the target is a folder, a device or pipe, no permission,
 * disk full; GY_NOMEM. */
GY_MUST_CHECK gy_status gy_writer_open(gy_env *env, const char *path, gy_writer **writer);
/** After a failure only finish (which repeats it) or abort remain. */
GY_MUST_CHECK gy_status gy_writer_add(gy_writer *writer, const void *data, size_t size_bytes);
/**
 * End and free the writer. On a failure nothing of it is left and the target is as it was,
 * except that a failed sync of the folder comes after the rename: then the new file is there,
 * its name not yet sure to survive a power cut.
 */
GY_MUST_CHECK gy_status gy_writer_finish(gy_writer *writer);
/**
 * End and free the writer as gy_writer_finish does, but of a file that must not be there: of
 * many that create it, on this host or on others that share the folder, one succeeds.
 *
 * @return as gy_writer_finish; GY_EXISTS; GY_UNSUPPORTED the file system has no links
 */
GY_MUST_CHECK gy_status gy_writer_create(gy_writer *writer);
/** Free the writer, leave nothing. NULL is fine. */
void gy_writer_abort(gy_writer *writer);

/* ---- formats ---- */

enum { GY_BUNDLE_HEADER_LIMIT = 16 << 20 };
#define GY_IDX_LIMIT (UINT64_C(8) << 30)

/** gy_read_idx with everything to choose; `pool` NULL: the heap. Reads `source` to its end. */
GY_MUST_CHECK gy_status gy_store_idx_read(gy_source *source, gy_pool *pool,
                                          uint64_t limit_bytes, gy_tensor **tensor);

/** gy_bundle_read from any plain source; `pool` NULL: the heap. */
GY_MUST_CHECK gy_status gy_bundle_load(gy_source *source, gy_pool *pool, gy_bundle **bundle);
/** gy_bundle_write through any environment. */
GY_MUST_CHECK gy_status gy_bundle_save(const gy_bundle *bundle, gy_env *env, const char *path);

#endif
