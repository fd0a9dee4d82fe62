/**
 * Aggregation of any amount in bounded memory: a table, spilled in canonical order when it is
 * full, all spills read as one at the end, cut into partitions.
 */
#ifndef GY_MAPREDUCE_GATHER_H
#define GY_MAPREDUCE_GATHER_H

#include "base/env.h"
#include "mapreduce/rows.h"

#include <gyre/mapreduce.h>

enum {
    GY_GATHER_BYTES_MIN = 256 << 10,
    GY_GATHER_FAN_IN = 16, /* spills of one size are made one when there are so many */
};

typedef struct gy_gather_options {
    gy_mapreduce_fold fold;
    gy_join_numbers join;                  /* GY_FOLD_USER */
    uint32_t partitions;                   /* at least 1 */
    gy_partition_work partition;           /* NULL: ranges of the hash */
    size_t memory_bytes;                   /* at least GY_GATHER_BYTES_MIN */
    size_t sample_items;                   /* as of gy_mapreduce_table_options */
    const gy_mapreduce_progress *progress; /* as of gy_mapreduce_table_options */
    gy_env *env;                           /* whose disk takes spills */
    const char *scratch;                   /* folder for them, borrowed */
    gy_mapreduce_table_space *space;       /* as of gy_mapreduce_table_options */
    struct gy_heavy *heavy; /* of lists: sees each row that goes to a sink; NULL: nobody */
} gy_gather_options;

typedef struct gy_gather gy_gather;

/** What it did; for tests and counters. */
typedef struct gy_gather_report {
    uint64_t items;                         /* that came in: words and fields of texts too */
    uint64_t spills, spilled_bytes, passes; /* passes: times that combining was given up */
} gy_gather_report;

/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_gather_new(const gy_gather_options *options, gy_gather **gather);
/** Removes its spill files. */
void gy_gather_free(gy_gather *gather);

/** As gy_mapreduce_table_add; GY_IO a spill failed. */
GY_MUST_CHECK gy_status gy_gather_add(gy_gather *gather, const gy_item *items, size_t count);
/** All words of a text of any size, each with the number. The text must not begin or end within
 * a word. */
GY_MUST_CHECK gy_status gy_gather_add_words(gy_gather *gather, const char *text, size_t size,
                                            int64_t number);
/** Field `field` (from 1) of each line of a text of whole lines, with the number 1; to *without
 * it adds how many lines have none. GY_LIMIT a line of more than GY_FIELDS_TEXT_BYTES */
GY_MUST_CHECK gy_status gy_gather_add_fields(gy_gather *gather, const char *text, size_t size,
                                             unsigned field, uint64_t *without);

/**
 * Write every partition's rows, in canonical order, to its sink, and end: gy_gather_free alone
 * may follow.
 *
 * @param sinks (partitions)
 */
GY_MUST_CHECK gy_status gy_gather_end(gy_gather *gather, const gy_sink *sinks);

void gy_gather_tell(const gy_gather *gather, gy_gather_report *report);

#endif
