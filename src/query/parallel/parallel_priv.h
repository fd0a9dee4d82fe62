/** Private to query/parallel: frames read in pieces. */
#ifndef GY_QUERY_PARALLEL_PARALLEL_PRIV_H
#define GY_QUERY_PARALLEL_PARALLEL_PRIV_H

#include "query/parallel/parallel.h"
#include "query/rows/operators.h"

/** How many threads compute; 1 without an engine. */
int gy_parallel_workers(const gy_rows_limits *limits);

/** A source as waves of pieces of frames. */
typedef struct gy_parallel_waves {
    gy_frame_source *in; /* borrowed */
    gy_rows_counts *counts;
    gy_env *env;
    int64_t source_ns;  /* in the source */
    int64_t piece_rows; /* most rows of a piece */
    int64_t rows;       /* a wave ends behind so many rows, */
    uint64_t bytes;     /* so many bytes, */
    size_t pieces;      /* or so many pieces */
    gy_rows_list list;  /* the wave, held; whoever takes one puts NULL there */
    gy_frame *rest;     /* of a frame that has more rows than a wave */
    int64_t rest_at;
    bool is_read;
} gy_parallel_waves;

/** Read the next wave; none is left: its list is empty. */
GY_MUST_CHECK gy_status gy_parallel_waves_next(gy_parallel_waves *waves);
void gy_parallel_waves_fini(gy_parallel_waves *waves);

#endif
