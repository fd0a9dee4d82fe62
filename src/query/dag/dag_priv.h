/** Inside folder dag. */
#ifndef GY_QUERY_DAG_DAG_PRIV_H
#define GY_QUERY_DAG_DAG_PRIV_H

#include "query/dag/dag.h"

#define GY_FRAGMENT_MAGIC "gyre-query-2 "

/** Bits of an expression's and of a reading's flags in a fragment's text. */
enum {
    GY_FRAGMENT_NOT = 1,
    GY_FRAGMENT_DISTINCT = 2,
    GY_FRAGMENT_STAR = 4,
    GY_FRAGMENT_NO_HEADER = 1,
    GY_FRAGMENT_PART = 2,
    GY_FRAGMENT_FOUND = 4,
    GY_FRAGMENT_ALL = 8
};

/** What the failure of a vertex begins with whose rows are wrong. */
#define GY_QUERY_WRONG_ROWS "rows of the query are wrong: "

/** What is counted of an operator: of number 3 of stage 2 as "rows 2.3". */
#define GY_QUERY_COUNT_LIST(X)                                                                 \
    X("rows", rows)                                                                            \
    X("ns", time_ns)                                                                           \
    X("bytes", bytes)                                                                          \
    X("spilled", counts.spilled_bytes)                                                         \
    X("spills", counts.spills)                                                                 \
    X("passed", counts.rows_passed)

enum { GY_QUERY_COUNTERS_MAX = 60 }; /* of a vertex there are 64 */

/** A job. */
struct gy_query_job {
    gy_query_job_options options;
    const gy_query_plan *plan;
    gy_query_stages stages;
    gy_query_pieces *pieces; /* (piece_count) a table each */
    size_t piece_count, piece_capacity;
    double *sizes;  /* as of gy_query_cut_options; NULL: it has no gate */
    uint32_t later; /* the last stage behind a gate that has a name of its own; 0: no gate */
    gy_dag *dag;
    uint32_t outputs;      /* files of the answer */
    gy_job_report *report; /* NULL: it did not run */
    char folder[4096];     /* around the answer; "": there is none */
};

/* ---- gates.c ---- */

/** Whether rows of the side in memory come out of a join that have no match. */
bool gy_query_gives_built(const gy_query_node *node, bool builds_left);
/** Whether it is known that a side of a join is at most bytes_max, or over it. */
bool gy_query_is_sure_of_size(const gy_query_node *side, double guess, double bytes_max);
/** GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_gate_add(gy_query_stages *stages, const gy_query_gate *gate);
/** The gate of an operator; NULL: it has none. */
const gy_query_gate *gy_query_gate_find(const gy_query_stages *stages,
                                        const gy_query_node *node);
/** How many stages run first. */
uint32_t gy_query_stages_first(const gy_query_stages *stages);
/** Number those that run first before all others, both in their order. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_stages_order(gy_query_stages *stages);

/** A sample has at most so many rows of a vertex. */
enum { GY_QUERY_SAMPLE_ROWS = 1000 };

/* ---- inputs.c, sinks.c ---- */

/** Open an input of the vertex's stage. */
GY_MUST_CHECK gy_status gy_query_input_open(gy_query_work *work, gy_query_run *run,
                                            const gy_query_input *input,
                                            gy_query_stream *stream);
/** An order's keys as indices of the columns of `row`; gy_free. NULL: out of memory */
gy_rows_sort_key *gy_query_sort_keys(const gy_query_node *row, const gy_query_key *keys,
                                     uint32_t count);
/** All rows of a stream, as one frame; closes it. */
GY_MUST_CHECK gy_status gy_query_read_all(gy_query_stream *stream, gy_frame **all);
/** A sample of the keys of all rows of the stream, which is closed: columns as of
 * gy_query_sink. */
GY_MUST_CHECK gy_status gy_query_sample(gy_query_run *run, const gy_query_work *work,
                                        gy_query_stream *stream, gy_frame **sample);
/** Of such samples the bounds of ranges; closes the stream. */
GY_MUST_CHECK gy_status gy_query_bounds(gy_query_run *run, const gy_query_sink *sink,
                                        gy_query_stream *stream, gy_frame **bounds);

/** Of such samples the hashes of hot keys, ascending as numbers without a sign; closes the
 * stream. */
GY_MUST_CHECK gy_status gy_query_find_hot(gy_query_run *run, const gy_query_sink *sink,
                                          gy_query_stream *stream, gy_frame **hashes);

/* ---- stages.c: stages in the making; memory is of stages->plan.arena ---- */

/** (count + 1) zeroed; NULL: out of memory */
void *gy_query_stages_take(gy_query_stages *stages, size_t count, size_t size_bytes);
/** A stage of one output. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_stages_add(gy_query_stages *stages,
                                            const gy_query_table *table, uint32_t vertices,
                                            gy_query_stage **made);
/** A vertex for each of stage `of`, one that has ended, that reads its rows alone; the new
 * stage runs first if that one does, and has ended. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_stages_beside(gy_query_stages *stages, uint32_t of,
                                               const uint32_t *columns, uint32_t count,
                                               gy_query_stage **out);
/** A column of numbers that no statement names. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_stages_column(gy_query_stages *stages, uint32_t *column);
/** Let a stage read an input. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_stage_read(gy_query_stages *stages, gy_query_stage *stage,
                                            gy_query_input *input);
/** A scan of some columns of an input; `guess` is of its rows. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_input_scan(gy_query_stages *stages, gy_query_input *input,
                                            const uint32_t *columns, uint32_t count,
                                            double guess, gy_query_node **scan);

#endif
