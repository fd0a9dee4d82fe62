/**
 * Aggregation of any amount of data in bounded memory: a table that spills in canonical order
 * when it is full; at the end all spills are merged and split into partitions.
 */
#ifndef GY_MAPREDUCE_GATHER_H
#define GY_MAPREDUCE_GATHER_H

#include "base/env.h"
#include "mapreduce/rows.h"

#include <gyre/mapreduce.h>

enum {
    GY_GATHER_BYTES_MIN = 256 << 10,
    GY_GATHER_FAN_IN = 16, /* how many spills of one level are merged into one */
};

typedef struct gy_gather_options {
    gy_mapreduce_fold fold;
    gy_join_numbers join;                  /* GY_FOLD_USER */
    uint32_t partitions;                   /* at least 1 */
    gy_partition_work partition;           /* NULL: ranges of the hash */
    size_t memory_bytes;                   /* at least GY_GATHER_BYTES_MIN */
    size_t sample_items;                   /* see gy_mapreduce_table_options */
    const gy_mapreduce_progress *progress; /* see gy_mapreduce_table_options */
    gy_env *env;                           /* its disk takes the spills */
    const char *scratch;                   /* folder of the spills, borrowed */
    gy_mapreduce_table_space *space;       /* see gy_mapreduce_table_options */
    struct gy_heavy *heavy; /* of lists: records each row that goes to a sink; NULL: off */
} gy_gather_options;

typedef struct gy_gather gy_gather;

/** Statistics, for tests and counters. */
typedef struct gy_gather_report {
    /* number of added items, including words and fields of texts */
    uint64_t items;
    uint64_t spills, spilled_bytes, passes; /* passes: how often combining was abandoned */
} gy_gather_report;

/** Make a gather. GY_NOMEM */
GY_MUST_CHECK gy_status gy_gather_new(const gy_gather_options *options, gy_gather **gather);
/** Free it and remove its spill files. */
void gy_gather_free(gy_gather *gather);

/** Add items. As gy_mapreduce_table_add; GY_IO a spill failed. */
GY_MUST_CHECK gy_status gy_gather_add(gy_gather *gather, const gy_item *items, size_t count);
/** Add all words of a text of any size, each with the number. The text begins and ends between
 * words. */
GY_MUST_CHECK gy_status gy_gather_add_words(gy_gather *gather, const char *text, size_t size,
                                            int64_t number);
/** Add field `field` (from 1) of each line of a text of whole lines, with the number 1; adds
 * the number of lines without it to *without. GY_LIMIT a line of more than GY_FIELDS_TEXT_BYTES
 */
GY_MUST_CHECK gy_status gy_gather_add_fields(gy_gather *gather, const char *text, size_t size,
                                             unsigned field, uint64_t *without);

/**
 * Write the rows of each partition, in canonical order, to its sink. After it only
 * gy_gather_free may be called.
 *
 * @param sinks (partitions)
 */
GY_MUST_CHECK gy_status gy_gather_end(gy_gather *gather, const gy_sink *sinks);

void gy_gather_tell(const gy_gather *gather, gy_gather_report *report);

#endif
