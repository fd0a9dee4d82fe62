/** Inside folder dag. */
#ifndef GY_QUERY_DAG_DAG_PRIV_H
#define GY_QUERY_DAG_DAG_PRIV_H

#include "query/dag/dag.h"

#define GY_FRAGMENT_MAGIC "gyre-query-3 "

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
    double *sizes;  /* as of gy_query_cut_options; NULL: it has no refinement point */
    uint32_t later; /* the last stage behind a refinement point that has a name of its own; 0:
                       no refinement point */
    gy_dag *dag;
    uint32_t outputs;      /* files of the answer */
    gy_job_report *report; /* NULL: it did not run */
    char folder[4096];     /* around the answer; "": there is none */
};

/* ---- refine.c ---- */

/** Whether rows of the side in memory come out of a join that have no match. */
bool gy_query_gives_built(const gy_query_node *node, bool builds_left);
/** Whether it is known that a side of a join is at most bytes_max, or over it. */
bool gy_query_is_sure_of_size(const gy_query_node *side, double guess, double bytes_max);
/**
 * Let the stages of a side run first. By hash they are written as they are, and then divided
 * by vertices beside them: which keys are hot is not known before.
 * @param decision  all but its stages
 * @param side  (decision->stage_count) become those to go on with
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_query_decision_side(gy_query_stages *stages,
                                               gy_query_decision *decision,
                                               gy_query_stage ***side);
/** The decision of an operator; NULL: it has none. */
const gy_query_decision *gy_query_decision_find(const gy_query_stages *stages,
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

/** Columns by whose hash rows are in parts: some that are equal in each row. */
typedef struct gy_query_parting {
    const uint32_t *keys[2]; /* (key_count); NULL: none */
    uint32_t key_count;
} gy_query_parting;

/** How the rows of a join are in parts whose sides came by the hash of their keys. */
gy_query_parting gy_query_join_parting(const gy_query_node *join);
/** Whether they are in parts by the hash of just these columns, in this order. */
bool gy_query_is_parted(const gy_query_parting *by, const uint32_t *keys, uint32_t count);

/** The place of a stage among all. */
uint32_t gy_query_stage_number(const gy_query_stages *stages, const gy_query_stage *stage);
/** An expression that is a column; NULL: out of memory */
gy_sql_node *gy_query_column_node(gy_query_stages *stages, uint32_t column);
/** Whether an aggregate counts some values once. */
bool gy_query_has_distinct(const gy_query_node *aggregate);
/** Guessed bytes of so many rows of an operator. */
double gy_query_guess_bytes(const gy_query_node *node, double row_count);
/** Whether a sort or limit ends after some rows. */
bool gy_query_is_cut(const gy_query_node *node);
/** Whether it is worth to sample rows that are sorted, and to sort them by ranges. */
bool gy_query_is_ranged(const gy_query_cut_options *options, const gy_query_node *node);
/** `first`, then the columns of an order. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_join_columns(gy_query_stages *stages, const uint32_t *first,
                                              uint32_t count, const gy_query_key *order,
                                              uint32_t order_count, uint32_t **columns);
/** `first`, then an order. GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_join_keys(gy_query_stages *stages, const gy_query_key *first,
                                           uint32_t count, const gy_query_key *order,
                                           uint32_t order_count, gy_query_key **keys);
/** Whether rows come in the order of a sort as it is, from one below it. */
bool gy_query_is_sorted(const gy_query_node *sort);
/** Whether an aggregate's answer depends on which of equal values (-0 and 0) comes first. */
bool gy_query_depends_on_order(const gy_query_plan *plan, const gy_query_node *aggregate);

/* ---- sampling.c ---- */

/** Whether rows of hot keys that a stage reads will be in all parts. */
bool gy_query_has_hot_keys(const gy_query_stages *stages, const gy_query_stage *stage);
/** Let them go where their hash says. */
void gy_query_stage_cool(gy_query_stages *stages, const gy_query_stage *stage);

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
