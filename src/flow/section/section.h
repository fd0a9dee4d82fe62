/**
 * An attempt's one file: all its outputs as sections, written interleaved, each of any size.
 *
 *   header   64 bytes: magic, version, owner, checksum
 *   data     extents: bytes of one section each. All extents of a section but the last are
 *            whole pages at page boundaries, so that a reader maps them one behind the other
 *            and sees the section as one span, without a copy.
 *   table    (size, checksum, extents) of each section
 *   extents  (offset, size) of each, section by section
 *   tail     64 bytes: position of the table, content, owner, checksum over header, table,
 *            extents and tail
 *
 * Checksums are xxh3 of 64 bits. The content is xxh3 of 128 bits over the (size, checksum) of
 * all sections; it does not depend on their interleaving or their writer. Numbers are
 * little-endian. The writer syncs nothing: readers detect a file that a crash tore.
 */
#ifndef GY_FLOW_SECTION_SECTION_H
#define GY_FLOW_SECTION_SECTION_H

#include "base/env.h"
#include "sched/job.h"

/** The owner of a file. It is part of the file's checksums, so that no other file passes for
 * it. */
typedef struct gy_section_owner {
    gy_key key;
    uint32_t epoch, attempt, member;
} gy_section_owner;

typedef struct gy_section_sum {
    uint64_t size_bytes, hash;
} gy_section_sum;

/** The content of outputs with these checksums. @threads any */
gy_key gy_section_content(const gy_section_sum *sums, size_t count);

/* ---- writing ---- */

typedef struct gy_section_writer gy_section_writer;

typedef struct gy_section_writer_options {
    const char *path; /* copied; the file is created when the first bytes leave memory */
    gy_section_owner owner;
    uint32_t count; /* number of sections, 1 .. 2^20 */
    /* the file has the bytes of one section and nothing else: a file for users */
    bool is_plain;
    /* at most so many bytes in all stay in memory without a file: see gy_section_finish */
    size_t small_bytes;
    size_t memory_bytes; /* for all buffers, approximately; 0: 32 MiB */
} gy_section_writer_options;

GY_MUST_CHECK gy_status gy_section_writer_new(gy_env *env,
                                              const gy_section_writer_options *options,
                                              gy_section_writer **writer);

/** Append to a section. Large chunks go to the file without a copy. After a failure all calls
 * return it again. GY_LIMIT the disk is full; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_section_add(gy_section_writer *writer, uint32_t index,
                                       const void *data, size_t size_bytes);
/** Get room for size_bytes more bytes of a section; valid until the next call for this
 * section. */
GY_MUST_CHECK gy_status gy_section_room(gy_section_writer *writer, uint32_t index,
                                        size_t size_bytes, void **room);
/** Append the first size_bytes of that room. */
GY_MUST_CHECK gy_status gy_section_wrote(gy_section_writer *writer, uint32_t index,
                                         size_t size_bytes);

/** Record a section that is stored elsewhere, such as a user's plain file: its bytes are not in
 * this file, but its checksum is part of the content. Before gy_section_finish. */
void gy_section_note(gy_section_writer *writer, uint32_t index, const gy_section_sum *sum);

/**
 * Write buffered bytes and the table. With *is_small there is no file: gy_section_small
 * returns the bytes. The checksums are available in either case.
 */
GY_MUST_CHECK gy_status gy_section_finish(gy_section_writer *writer, bool *is_small);
/** (count) checksums, after finish. */
const gy_section_sum *gy_section_sums(const gy_section_writer *writer);
/** The bytes of a section that has no file, after finish. */
const void *gy_section_small(const gy_section_writer *writer, uint32_t index);
/** True when the first failure was a full disk. */
bool gy_section_is_full(const gy_section_writer *writer);
/** Free the writer; removes the file unless it was finished. NULL is fine. */
void gy_section_writer_free(gy_section_writer *writer);

/* ---- reading ---- */

/** What a reader expects of a file. */
typedef struct gy_section_wanted {
    const char *path;
    gy_section_owner owner;
    gy_key content;
    uint32_t section;
} gy_section_wanted;

/** A section in memory that has passed all checks. */
typedef struct gy_section {
    const char *data; /* never NULL */
    size_t size_bytes;
    void *memory;        /* memory that gy_section_close releases: mapped, or from the heap */
    size_t mapped_bytes; /* 0: from the heap */
} gy_section;

/**
 * Open a section: check header, table and tail against `wanted`, then map it.
 * gy_section_verify checks the bytes.
 *
 * @return GY_NOTFOUND no such file; GY_FORMAT another file, truncated or damaged; GY_LIMIT too
 *     many open files; GY_IO; GY_NOMEM
 * @threads any
 */
GY_MUST_CHECK gy_status gy_section_open(const gy_section_wanted *wanted, gy_section *section,
                                        gy_section_sum *sum);
/** Verify the bytes against their checksum; reads all of them once. GY_FORMAT they differ.
 * Separate from the opening, so that the caller can register the span first: a file that is
 * shortened meanwhile raises SIGBUS. */
GY_MUST_CHECK gy_status gy_section_verify(const gy_section *section, const gy_section_sum *sum,
                                          const char *path);
void gy_section_close(gy_section *section);

#endif
