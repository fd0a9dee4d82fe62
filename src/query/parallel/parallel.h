/**
 * Operators by several workers of an engine, which `limits.engine` names. Rows come out in the
 * order that rows.h says, whatever the workers; one worker, or no engine: the operator of
 * rows.h. Frames are read by the caller's thread alone. Reading order: waves, aggregate, probe.
 */
#ifndef GY_QUERY_PARALLEL_PARALLEL_H
#define GY_QUERY_PARALLEL_PARALLEL_H

#include "query/rows/rows.h"

/**
 * gy_rows_aggregate. Rows are read in waves of frames. Each worker groups them in a small table
 * of its own as long as that makes them fewer; what small tables have, and rows that were not
 * grouped, is divided by ranges of hashes, and each range has a table that one worker at a time
 * fills. `any` takes no small tables, since there its first value would be anyone's.
 *
 * Of a bound on memory, a half is the tables of ranges', which spill on their own.
 */
GY_MUST_CHECK gy_status gy_parallel_aggregate(gy_frame_source in, gy_schema *in_schema,
                                              const gy_rows_aggregate_options *options,
                                              gy_frame_source *out, gy_schema **schema);

/** gy_rows_match. The table is built by parts of hashes, and probed by pieces of frames; the
 * condition is asked by several threads at once. A side that does not fit is joined as rows.h
 * does it. */
GY_MUST_CHECK gy_status gy_parallel_join(gy_rows_side left, gy_rows_side right,
                                         const gy_rows_match_options *options,
                                         gy_frame_source *out, gy_schema **schema);

#endif
