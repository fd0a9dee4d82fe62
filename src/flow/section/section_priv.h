/** The layout of a file of sections on disk (section.h). */
#ifndef GY_FLOW_SECTION_SECTION_PRIV_H
#define GY_FLOW_SECTION_SECTION_PRIV_H

#include "flow/section/section.h"

#include <assert.h>

enum {
    GY_SECTION_VERSION = 1,
    GY_SECTION_PAGE = 4096,
    GY_SECTIONS_MAX = 1 << 20,
};
#define GY_SECTION_MAGIC     UINT64_C(0x3173746365737967) /* "gysects1" as text */
#define GY_SECTION_END_MAGIC UINT64_C(0x3164746365737967)

typedef struct gy_section_header {
    uint64_t magic;
    uint32_t version, member;
    uint64_t key[2]; /* high, low */
    uint32_t epoch, attempt;
    uint64_t zero[2];
    uint64_t hash; /* checksum of the members before */
} gy_section_header;

typedef struct gy_section_row {
    uint64_t size_bytes, hash;
    uint64_t extents;
} gy_section_row;

typedef struct gy_section_extent {
    uint64_t offset, size_bytes;
} gy_section_extent;

typedef struct gy_section_tail {
    uint64_t table; /* offset of the table */
    uint64_t sections, extents;
    uint64_t content[2];
    uint64_t zero;
    uint64_t hash; /* checksum of header, table, extents and the tail up to here */
    uint64_t magic;
} gy_section_tail;

static_assert(sizeof(gy_section_header) == 64, "on disk");
static_assert(sizeof(gy_section_tail) == 64, "on disk");
static_assert(sizeof(gy_section_row) == 24, "on disk");

/** The checksum for a header. */
uint64_t gy_section_header_hash(const gy_section_header *header);
/** The checksum for a tail: `table` has rows and extents. */
uint64_t gy_section_tail_hash(const gy_section_header *header, const void *table,
                              size_t table_bytes, const gy_section_tail *tail);
gy_section_header gy_section_header_of(const gy_section_owner *owner);

/** What follows the bytes of a fetched section, before its own size as uint32_t. */
typedef struct gy_fetch_note {
    uint64_t size_bytes, hash;
    uint64_t content[2];
    uint32_t section, version;
    uint64_t sum;
} gy_fetch_note;

static_assert(sizeof(gy_fetch_note) == 48, "on disk");

/** The checksum for a note. */
uint64_t gy_fetch_note_sum(const gy_fetch_note *note);

/** Where a section's bytes are in its file; the caller owns file and extents. */
typedef struct gy_section_place {
    int file;
    gy_section_extent *extents; /* (extent_count) */
    uint32_t extent_count;
    gy_section_sum sum;
} gy_section_place;

/** The checks of gy_section_open, without reading the bytes. */
GY_MUST_CHECK gy_status gy_section_find(const gy_section_wanted *wanted,
                                        gy_section_place *place);

#endif
