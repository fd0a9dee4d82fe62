/**
 * Private to query/rows and the folder above it that runs operators by several workers: lists
 * of frames, what all operators share, aggregators and the tables of joins as things that are
 * pushed and asked.
 */
#ifndef GY_QUERY_ROWS_OPERATORS_H
#define GY_QUERY_ROWS_OPERATORS_H

#include "base/base.h"
#include "query/rows/rows.h"

/* ---- lists of frames (frames.c) ---- */

/** Frames that grow. Zero at first. */
typedef struct gy_rows_list {
    gy_frame **frames; /* held */
    size_t count, capacity;
    uint64_t bytes;
    int64_t rows;
} gy_rows_list;

/** Takes the frame, also on failure. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_list_add(gy_rows_list *list, gy_frame *frame);
void gy_rows_list_free(gy_rows_list *list);

/* ---- the base of operators (frames.c) ---- */

/** The next frame of a source, counted. GY_DONE: no more. */
GY_MUST_CHECK gy_status gy_rows_next(const gy_frame_source *source, gy_rows_counts *counts,
                                     gy_frame **frame);
void gy_rows_close(gy_frame_source *source);

/** Limits as an operator keeps them: the folder is its own text. */
GY_MUST_CHECK gy_status gy_rows_limits_copy(const gy_rows_limits *limits, gy_rows_limits *copy);
void gy_rows_limits_fini(gy_rows_limits *limits);

/* ---- the aggregator: rows are pushed, then groups pulled (aggregate.c) ---- */

typedef struct gy_rows_aggregator gy_rows_aggregator;

GY_MUST_CHECK gy_status gy_rows_aggregator_new(gy_schema *in_schema,
                                               const gy_rows_aggregate_options *options,
                                               gy_rows_aggregator **aggregator);
void gy_rows_aggregator_free(gy_rows_aggregator *it);
GY_MUST_CHECK gy_status gy_rows_aggregator_push(gy_rows_aggregator *it, const gy_frame *frame);
/** The next frame of groups; the first call ends what is pushed. GY_DONE */
GY_MUST_CHECK gy_status gy_rows_aggregator_next(gy_rows_aggregator *it, gy_frame **frame);
gy_schema *gy_rows_aggregator_schema(const gy_rows_aggregator *it);
/** Push the rows [begin, end) of a frame. */
GY_MUST_CHECK gy_status gy_rows_aggregator_push_range(gy_rows_aggregator *it,
                                                      const gy_frame *frame, int64_t begin,
                                                      int64_t end);
/** WHOLE, PARTIAL: merge the rows [begin, end) of states that another aggregator gave, which
 * is the same but PARTIAL. */
GY_MUST_CHECK gy_status gy_rows_aggregator_merge_range(gy_rows_aggregator *it,
                                                       const gy_frame *states, int64_t begin,
                                                       int64_t end);
/** Groups in memory, and what they take. */
int64_t gy_rows_aggregator_groups(const gy_rows_aggregator *it);
uint64_t gy_rows_aggregator_bytes(const gy_rows_aggregator *it);
bool gy_rows_aggregator_has_spilled(const gy_rows_aggregator *it);
/** Begin anew once all groups were given, none of which was spilled. */
void gy_rows_aggregator_again(gy_rows_aggregator *it);

/* ---- work by several workers (frames.c) ---- */

/** Call `run` for each index below `count`, on the workers; engine NULL: here. The failure of
 * the lowest index is the caller's. */
GY_MUST_CHECK gy_status gy_rows_each(gy_engine *engine, int64_t count,
                                     gy_status (*run)(void *arg, int64_t index), void *arg);

/* ---- joins (match.c, join.c) ---- */

/** A table of the built side of a join, and where a probing side stands in it. */
typedef struct gy_rows_matcher gy_rows_matcher;

/** Another probing side of a table that `of` has, which must outlive it. Several may probe at
 * once, each by one thread. GY_NOMEM */
GY_MUST_CHECK gy_status gy_rows_matcher_share(const gy_rows_matcher *of,
                                              gy_rows_matcher **matcher);
void gy_rows_matcher_free(gy_rows_matcher *it);
/** Probe by the rows of a frame, which it takes. What the last one gave was taken. */
void gy_rows_matcher_probe(gy_rows_matcher *it, gy_frame *frame);
/** The next rows of the join that probing gives. GY_DONE: it waits for another frame. */
GY_MUST_CHECK gy_status gy_rows_matcher_more(gy_rows_matcher *it, gy_frame **frame);
/** Look at a probing frame before any prober has it (NOT IN alone needs that). */
void gy_rows_matcher_see(const gy_rows_matcher *it, const gy_frame *frame);
/** The next rows of the built side that stand alone; all was probed. GY_DONE */
GY_MUST_CHECK gy_status gy_rows_matcher_built(gy_rows_matcher *it, gy_frame **frame);

/** How the side that probes a table in memory is read: gives a source of the join's rows, which
 * the join closes. The matcher, the probing source and the limits outlive that. */
typedef gy_status (*gy_rows_probing)(gy_rows_matcher *matcher, const gy_frame_source *probe,
                                     const gy_rows_limits *limits, gy_frame_source *out);

/** gy_rows_match with another way of probing; NULL: in one thread. */
GY_MUST_CHECK gy_status gy_rows_join_probed(const gy_rows_side sides[2],
                                            const gy_rows_match_options *options,
                                            gy_rows_probing probing, gy_frame_source *out,
                                            gy_schema **schema);

#endif
