/**
 * An attempt's one file: all its outputs as sections, written interleaved, each of any size.
 *
 *   header   64 bytes: magic, version, whose file it is, checksum
 *   data     extents: bytes of one section each. A section's extents but the last are whole
 *            pages at whole pages, so that a reader maps them one behind the other and sees the
 *            section as one span, without a copy.
 *   table    (size, checksum, extents) of each section
 *   extents  (offset, size) of each, section by section
 *   tail     64 bytes: where the table is, content, whose file, checksum over header, table,
 *            extents and tail
 *
 * Checksums are xxh3 of 64 bits; the content is xxh3 of 128 bits over the (size, checksum) of
 * all sections, which does not depend on how they were interleaved or who wrote them. Numbers
 * are little-endian. Nothing is synced: a file that a crash tore is found out by who reads it.
 */
#ifndef GY_FLOW_SECTION_SECTION_H
#define GY_FLOW_SECTION_SECTION_H

#include "base/env.h"
#include "sched/job.h"

/** Who wrote a file: part of its checksums, so that no other one passes for it. */
typedef struct gy_section_owner {
    gy_key key;
    uint32_t epoch, attempt, member;
} gy_section_owner;

typedef struct gy_section_sum {
    uint64_t size_bytes, hash;
} gy_section_sum;

/** The content of outputs with these sums. @threads any */
gy_key gy_section_content(const gy_section_sum *sums, size_t count);

/* ---- writing ---- */

typedef struct gy_section_writer gy_section_writer;

typedef struct gy_section_writer_options {
    const char *path; /* copied; the file is made when the first bytes leave memory */
    gy_section_owner owner;
    uint32_t count;      /* sections, 1 .. 2^20 */
    bool is_plain;       /* the bytes of one section and nothing else: a file for users */
    size_t small_bytes;  /* no file for so much or less in all: see gy_section_finish */
    size_t memory_bytes; /* for all buffers, about; 0: 32 MiB */
} gy_section_writer_options;

GY_MUST_CHECK gy_status gy_section_writer_new(gy_env *env,
                                              const gy_section_writer_options *options,
                                              gy_section_writer **writer);

/** Append to a section. Large pieces go to the file without a copy. After a failure all calls
 * repeat it. GY_LIMIT the disk is full; GY_IO; GY_NOMEM */
GY_MUST_CHECK gy_status gy_section_add(gy_section_writer *writer, uint32_t index,
                                       const void *data, size_t size_bytes);
/** Room for size_bytes more of a section, until the next call for this section. */
GY_MUST_CHECK gy_status gy_section_room(gy_section_writer *writer, uint32_t index,
                                        size_t size_bytes, void **room);
/** How much of that room was filled. */
GY_MUST_CHECK gy_status gy_section_wrote(gy_section_writer *writer, uint32_t index,
                                         size_t size_bytes);

/** A section that is elsewhere, as the plain file of a user: none of its bytes are here, but
 * its sum is part of the content. Before gy_section_finish. */
void gy_section_note(gy_section_writer *writer, uint32_t index, const gy_section_sum *sum);

/**
 * Write what is left and the table. With *is_small there is no file: gy_section_small gives the
 * bytes. The sums are there in any case.
 */
GY_MUST_CHECK gy_status gy_section_finish(gy_section_writer *writer, bool *is_small);
/** (count) after finish. */
const gy_section_sum *gy_section_sums(const gy_section_writer *writer);
/** The bytes of a section of a small file, after finish. */
const void *gy_section_small(const gy_section_writer *writer, uint32_t index);
/** The first failure was for want of space on the disk. */
bool gy_section_is_full(const gy_section_writer *writer);
/** Free; the file is removed unless it was finished. NULL is fine. */
void gy_section_writer_free(gy_section_writer *writer);

/* ---- reading ---- */

/** What a reader expects. */
typedef struct gy_section_wanted {
    const char *path;
    gy_section_owner owner;
    gy_key content;
    uint32_t section;
} gy_section_wanted;

/** A section in memory, all its checks passed. */
typedef struct gy_section {
    const char *data; /* not NULL */
    size_t size_bytes;
    void *memory;        /* what gy_section_close releases: mapped, or of the heap */
    size_t mapped_bytes; /* 0: of the heap */
} gy_section;

/**
 * Open a section: header, table and tail against `wanted`, then its place in memory. The bytes
 * are not yet compared: gy_section_verify.
 *
 * @return GY_NOTFOUND no such file; GY_FORMAT it is not what was wanted, short or damaged;
 * GY_LIMIT too many open files; GY_IO; GY_NOMEM
 * @threads any
 */
GY_MUST_CHECK gy_status gy_section_open(const gy_section_wanted *wanted, gy_section *section,
                                        gy_section_sum *sum);
/** The bytes against their sum: reads them all, once. GY_FORMAT they differ. Apart from the
 * opening, so that the caller can name the span before it is touched: a file that somebody
 * shortens then is SIGBUS. */
GY_MUST_CHECK gy_status gy_section_verify(const gy_section *section, const gy_section_sum *sum,
                                          const char *path);
void gy_section_close(gy_section *section);

#endif
