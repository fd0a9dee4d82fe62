/**
 * Plans run in one process: sources of frames, one for each operator; files are read in cuts,
 * several at once by the engine's workers. Reading order: tables, scan, frames, expressions,
 * special, operators, query.
 */
#ifndef GY_QUERY_RUN_RUN_H
#define GY_QUERY_RUN_RUN_H

#include "query/parallel/parallel.h"
#include "query/plan/plan.h"
#include "query/rows/rows.h"

#include <gyre/csv.h>
#include <gyre/engine.h>

/* ---- tables.c: what a query reads ---- */

/** CSV files that are one table. */
typedef struct gy_query_files gy_query_files;
struct gy_query_files {
    gy_query_table table; /* what plans see */
    gy_query_files *next;
    char *key;    /* how the statement says it */
    char **paths; /* (count) */
    size_t count;
    gy_csv_options options; /* of every open */
    char *columns;   /* types of all files, that of each may differ; NULL: those of each */
    char *null_text; /* of `options`; NULL: none */
    bool is_given;   /* the types, by the statement */
    bool is_retyped;
};

/** The tables that were asked for so far, opened once each. */
typedef struct gy_query_tables {
    const char *folder; /* of --tables; NULL: none */
    gy_query_files *first;
} gy_query_tables;

gy_query_catalog gy_query_catalog_of(gy_query_tables *tables);
void gy_query_tables_fini(gy_query_tables *tables);
/** Find the types of a table over all its rows. As gy_csv_retype. */
GY_MUST_CHECK gy_status gy_query_files_retype(gy_query_files *files, gy_engine *engine);

/* ---- operators.c ---- */

/** What an operator did. */
typedef struct gy_query_meter {
    int64_t rows, frames, bytes; /* that it gave; bytes as gy_rows_bytes counts them */
    int64_t time_ns;             /* within it and its inputs */
    gy_rows_counts counts;
} gy_query_meter;

/** A source that gives the rows of an operator, and their columns. */
typedef struct gy_query_stream {
    gy_frame_source source;
    gy_schema *schema; /* held */
} gy_query_stream;

/** How a plan runs. Outlives its sources. */
typedef struct gy_query_run gy_query_run;
struct gy_query_run {
    const gy_query_plan *plan;
    gy_arena arena; /* of expressions */
    gy_engine *engine;
    uint64_t memory_bytes; /* 0: no bound */
    const char *scratch;
    int keeping; /* operators that keep rows, and the answer: they share the memory */
    gy_query_meter *meters; /* (node_count) */
    gy_schema *mask;        /* of tests of pairs; NULL before the first one */
    gy_query_files *wrong;  /* whose guessed types did not fit, once a source gave GY_TYPE */
    /* Opens scans in place of gy_query_scan; NULL: none does. */
    gy_status (*open_leaf)(void *arg, gy_query_run *run, const gy_query_node *node,
                           gy_query_stream *stream);
    void *leaf_arg;
};

/** Give `run` its meters. */
GY_MUST_CHECK gy_status gy_query_run_init(gy_query_run *run);
void gy_query_run_fini(gy_query_run *run);
/** The bounds of one that keeps rows. */
gy_rows_limits gy_query_run_share(const gy_query_run *run);
/** The answer of the plan: columns named as the statement names them. Errors of expressions
 * are in the report of the plan's source. */
GY_MUST_CHECK gy_status gy_query_run_open(gy_query_run *run, gy_query_stream *answer);
/** The same of the root operator, whose columns have no names. */
GY_MUST_CHECK gy_status gy_query_run_rows(gy_query_run *run, gy_query_stream *rows);
void gy_query_stream_close(gy_query_stream *stream);

/** Whether a join keeps its left side in memory, and not the right one. */
bool gy_query_builds_left(const gy_query_node *join);
/** Aggregate a stream, in a phase; `below` has the columns that went in before PARTIAL. The
 * stream becomes that of the answers, or closed. */
GY_MUST_CHECK gy_status gy_query_aggregate_rows(gy_query_run *run, const gy_query_node *node,
                                                const gy_query_node *below, gy_rows_phase phase,
                                                gy_query_stream *stream);

/* ---- meters.c ---- */

/** What an operator did, before its name. */
void gy_query_meter_print(const gy_query_meter *meter, gy_text *text);
/** An operator a line, with its rows, their bytes, its time (that of its inputs in it) and its
 * spills. */
void gy_query_print_meters(const gy_query_run *run, gy_text *text);

/* ---- scan.c ---- */

/** Operators that take a frame and give one, in a row, run by whoever reads the frame. */
typedef struct gy_query_step {
    const gy_query_node *node;
    const gy_expr *condition;     /* of a filter */
    const gy_expr *const *values; /* (node->count) of a projection */
    gy_schema *schema;            /* of a projection; held */
    gy_query_meter *meter;        /* of a step that is not the last one */
} gy_query_step;

enum { GY_QUERY_STEPS_MAX = 16 };

GY_MUST_CHECK gy_status gy_query_scan(gy_query_run *run, const gy_query_node *node,
                                      gy_query_stream *stream);
/** The scan below row-wise operators, which its workers do, of files or frames; takes the
 * steps' schemas. */
GY_MUST_CHECK gy_status gy_query_scan_steps(gy_query_run *run, const gy_query_node *node,
                                            const gy_query_step *steps, int count,
                                            gy_query_stream *stream);
/** Count a frame that an operator gave, by any thread; without time. */
void gy_query_meter_add(gy_query_meter *meter, const gy_frame *frame);
/** Take a frame through steps: *frame is dropped, or is what came out. */
GY_MUST_CHECK gy_status gy_query_take_steps(const gy_query_step *steps, int count,
                                            gy_frame **frame);

/* ---- frames.c ---- */

/** gy_query_scan_steps of a table's frames. */
GY_MUST_CHECK gy_status gy_query_frames_steps(gy_query_run *run, const gy_query_node *node,
                                              const gy_query_step *steps, int count,
                                              gy_query_stream *stream);

/* ---- expressions.c ---- */

/** The schema of an operator's columns. */
GY_MUST_CHECK gy_status gy_query_schema_of(const gy_query_plan *plan, const uint32_t *columns,
                                           uint32_t count, gy_schema **schema);
/** Bind an expression to rows whose columns are those of `left`, then of `right` (may be NULL).
 */
GY_MUST_CHECK gy_status gy_query_bind(gy_query_run *run, const gy_query_node *left,
                                      const gy_query_node *right, const gy_sql_node *node,
                                      const gy_expr **expr);
/** The conjunction of an operator's conditions. */
GY_MUST_CHECK gy_status gy_query_bind_conditions(gy_query_run *run, const gy_query_node *node,
                                                 const gy_query_node *left,
                                                 const gy_query_node *right,
                                                 const gy_expr **expr);
/** A filter or projection as a step. */
GY_MUST_CHECK gy_status gy_query_step_of(gy_query_run *run, const gy_query_node *node,
                                         gy_query_step *step);
/** The place of a column among those of an operator. */
int gy_query_index(const gy_query_node *node, uint32_t column);

/* ---- special.c: operators that are here alone; each takes its input ---- */

GY_MUST_CHECK gy_status gy_query_values_stream(gy_query_run *run, const gy_query_node *node,
                                               gy_query_stream *stream);
GY_MUST_CHECK gy_status gy_query_steps_stream(gy_query_run *run, const gy_query_step *steps,
                                              int count, gy_query_stream *stream);
/** `opened`: how opening its input ended. */
GY_MUST_CHECK gy_status gy_query_single_stream(gy_query_run *run, const gy_query_node *node,
                                               gy_status opened, gy_query_stream *stream);
GY_MUST_CHECK gy_status gy_query_check_stream(gy_query_run *run, const gy_query_node *node,
                                              gy_query_stream *stream);
/** What a function of the program makes of partitions (apply.c). */
GY_MUST_CHECK gy_status gy_query_apply_stream(gy_query_run *run, const gy_query_node *node,
                                              gy_query_stream *stream);
/** Count rows and time. */
GY_MUST_CHECK gy_status gy_query_meter_stream(gy_query_run *run, const gy_query_node *node,
                                              gy_query_stream *stream);

#endif
