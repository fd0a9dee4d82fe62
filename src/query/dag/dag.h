/**
 * Plans as graphs of vertices: a plan is cut where rows have to be brought together, and each
 * stage between two cuts is a fragment of the plan, whose text is the parameter of its
 * vertices. Cutting and texts are pure; the job reads sizes of files, and runs.
 *
 * The rows of a stage's vertices, one behind the other, are those of the operator in one
 * process in their order; where a join by partitions would lose it, rows carry the number that
 * they had, and are merged by it.
 *
 * Reading order: cut, refine, sampling, fragment, pieces, inputs, vertex, sinks, job, print.
 *
 * @source Yu et al., "DryadLINQ", OSDI 2008
 */
#ifndef GY_QUERY_DAG_DAG_H
#define GY_QUERY_DAG_DAG_H

#include "query/run/run.h"

#include <gyre/flow.h>

typedef enum gy_query_sink_kind {
    GY_QUERY_HASHED,  /* rows by the hash of keys */
    GY_QUERY_RANGED,  /* rows by ranges of an order, whose bounds are an input */
    GY_QUERY_SAMPLED, /* a sample of the keys of an order, with the rows that each stands for */
    GY_QUERY_BOUNDED, /* of samples the bounds of equal ranges */
    GY_QUERY_FOUND,   /* of samples the hashes of hot keys */
} gy_query_sink_kind;

/** What happens to rows of hot keys, in a join of which one side is spread, the other copied.
 */
typedef enum gy_query_heat {
    GY_QUERY_COOL,   /* no key is hot: they go where their hash says */
    GY_QUERY_SPREAD, /* they go to one part after the other */
    GY_QUERY_COPIED, /* each goes to all parts */
} gy_query_heat;

/** What a stage does with the rows of its root. */
typedef struct gy_query_sink {
    gy_query_sink_kind kind;
    uint32_t parts;       /* outputs: rows by keys or ranges; 1: all of them in one */
    const uint32_t *keys; /* (key_count) columns */
    uint32_t key_count;
    const gy_query_node *aggregate; /* its states are given in place of rows; NULL: rows */
    /* a column behind the others: it numbers the rows, of a sample says how many rows each
     * stands for; GY_QUERY_NONE */
    uint32_t ordinal;
    const gy_query_key *order; /* (order_count) of all kinds but the first */
    uint32_t order_count;
    gy_query_heat heat; /* HASHED */
    uint32_t chosen;    /* RANGED: the input of bounds; with heat that of hot keys */
    uint32_t ranges;    /* BOUNDED, FOUND: how many parts there will be */
} gy_query_sink;

/** Rows that a stage reads of others. A scan of `leaf` reads them. */
typedef struct gy_query_input {
    gy_query_table leaf;     /* first; it has no files */
    const uint32_t *columns; /* (count) as they arrive, the ordinal last */
    uint32_t count;
    const gy_query_key *keys; /* (key_count) outputs are merged by them; none: one after the
                                 other */
    uint32_t key_count;
    const gy_query_node *aggregate; /* states arrive, its answers are what is read */
    uint32_t ordinal;
    uint32_t ports;         /* in a fragment: outputs that it reads */
    const uint32_t *stages; /* (stage_count) while cutting: whose outputs */
    uint32_t stage_count;
    bool is_whole;  /* each vertex reads all of it */
    bool is_beside; /* vertex i reads the output of vertex i alone */
    bool is_renumbered;
} gy_query_input;

typedef struct gy_query_stage {
    gy_query_node *root;
    gy_query_input **inputs; /* (input_count) */
    uint32_t input_count;
    const gy_query_table *table; /* a vertex for each piece of its files; NULL: none */
    uint32_t vertices;           /* of a stage without a table */
    uint32_t like; /* a stage before it that it has as many vertices as; GY_QUERY_NONE */
    gy_query_sink sink;
    bool is_ended; /* its sink is set */
    bool is_first; /* it gives a side of a join whose size decides, or what that is made of */
    const uint32_t *kept; /* (kept_count) columns by whose hash rows came, which an operator
                             needs to come so that stands above others; NULL: none */
    uint32_t kept_count;
} gy_query_stage;

/** A join that the size of its side in memory decides. */
typedef struct gy_query_decision {
    uint32_t join;          /* its number in the plan */
    const uint32_t *stages; /* (stage_count) that give the side */
    uint32_t stage_count;
    bool is_broadcast; /* in these stages all vertices read the side, else both go by hash */
    double bytes;      /* of the side in memory; below 0: it is guessed */
} gy_query_decision;

/** A plan that was cut. */
typedef struct gy_query_stages {
    gy_query_plan plan;     /* columns, of all stages; no root */
    gy_query_stage **items; /* (count) those that run first, then the others */
    uint32_t count, capacity;
    gy_query_decision *decisions; /* (decision_count) */
    uint32_t decision_count;
    const uint32_t *results; /* (result_count) stages whose outputs are the answer */
    uint32_t result_count;
} gy_query_stages;

typedef struct gy_query_cut_options {
    uint32_t parts;         /* of a stage whose rows come by hash, >= 1 */
    double broadcast_bytes; /* of the side of a join that all vertices read at most */
    bool has_decisions;     /* sizes decide joins, but within such a side, where guesses do */
    const double *sizes;    /* (node_count of the plan) of a join's side in memory by the join's
                               number; below 0: not known; NULL: none is */
} gy_query_cut_options;

/**
 * Cut a plan. Pure.
 * @return GY_OK; GY_NOMEM; gy_query_stages_fini is right after both
 */
GY_MUST_CHECK gy_status gy_query_cut(const gy_query_plan *plan,
                                     const gy_query_cut_options *options,
                                     gy_query_stages *stages);
void gy_query_stages_fini(gy_query_stages *stages);
/** Stages with guesses, an operator a line. */
void gy_query_stages_print(const gy_query_stages *stages, gy_text *text);

/* ---- sampling.c ---- */

/**
 * Give each stage whose rows go by ranges the stages that sample its keys and choose bounds:
 * its rows are written once as they are, sampled, and then divided by vertices beside it. Give
 * joins by hash those that sample the keys of the side that is spread, where these are columns
 * of files, and find hot ones; else no key is hot. Pure.
 * @return GY_OK; GY_NOMEM
 * @source O'Malley, "TeraByte Sort on Apache Hadoop", 2008
 */
GY_MUST_CHECK gy_status gy_query_sample_stages(gy_query_stages *stages);

/* ---- fragment.c, read.c ---- */

/** How a vertex reads its piece of a file. */
typedef struct gy_query_reading {
    const char *columns; /* as of gy_csv_options; NULL: none */
    const char *empties; /* of each column '1' where it has no value in the first rows, else
                            '0'; NULL: the reader knows */
    char delimiter;
    bool has_no_header, is_part, is_found; /* as of gy_csv_options */
    int64_t skip_lines;
    const char *null_text; /* NULL: none */
    bool has_all;          /* a name stands in the file twice */
    size_t sample_bytes;
    uint64_t memory_bytes; /* of operators; 0: no bound */
} gy_query_reading;

/** A function of the program that a stage calls. */
typedef struct gy_query_called {
    const char *name;
    uint32_t version;
} gy_query_called;

/** A stage as its vertices see it. */
typedef struct gy_query_fragment {
    gy_query_plan plan; /* its columns are numbered by where they first stand */
    gy_query_stage stage;
    const char **names; /* (count of the scan of a table) of its fields */
    gy_query_reading reading;
    gy_query_called *functions; /* (function_count) */
    uint32_t function_count;
} gy_query_fragment;

enum { GY_QUERY_FRAGMENT_DEPTH_MAX = 800 };

/** Whether sizes may decide joins of a plan: any way to cut it is not too deep. */
bool gy_query_may_decide(const gy_query_node *root);
/** Whether it is not too deep for vertices. */
bool gy_query_stage_fits(const gy_query_stage *stage);
/** Append the stage as a text: equal for equal stages, whatever the statement they come from,
 * and without guesses. The text records a failure. */
void gy_query_fragment_write(const gy_query_stages *stages, const gy_query_stage *stage,
                             const gy_query_reading *reading, gy_text *text);
/** @return GY_OK, and gy_query_fragment_fini; GY_FORMAT it was not written so; GY_NOMEM */
GY_MUST_CHECK gy_status gy_query_fragment_read(const char *data, size_t size_bytes,
                                               gy_query_fragment *fragment);
void gy_query_fragment_fini(gy_query_fragment *fragment);

/* ---- pieces.c: files as pieces, one a vertex ---- */

typedef struct gy_query_piece {
    char *file; /* as of gy_vertex_options.files */
    gy_query_reading reading;
} gy_query_piece;

typedef struct gy_query_pieces {
    const gy_query_table *table;
    gy_query_piece *items;
    size_t count, capacity;
    gy_arena texts;
} gy_query_pieces;

/**
 * The pieces of a table's files: of a large one ranges of whole rows that begin at multiples of
 * piece_bytes, so that what is appended changes the last one alone.
 * @return GY_OK; failures of gy_csv_open, gy_csv_split and gy_flow_input; *pieces is fini'd
 * then
 */
GY_MUST_CHECK gy_status gy_query_pieces_make(const gy_query_table *table, size_t piece_bytes,
                                             gy_engine *engine, gy_query_pieces *pieces);
void gy_query_pieces_fini(gy_query_pieces *pieces);

/* ---- inputs.c, vertex.c: while a vertex runs ---- */

typedef struct gy_query_work {
    gy_vertex *vertex;
    const gy_query_fragment *fragment;
    bool is_lost; /* an input could not be read: no fault of the rows */
    double scale; /* how many rows of its file one that is read stands for */
} gy_query_work;

/** As gy_query_run.open_leaf; arg is the work. */
GY_MUST_CHECK gy_status gy_query_leaf_open(void *arg, gy_query_run *run,
                                           const gy_query_node *node, gy_query_stream *stream);

/** What the last column of numbers becomes. */
typedef enum gy_query_numbering {
    GY_QUERY_NUMBER_NEW,  /* it is new: first, first + 1, ... */
    GY_QUERY_NUMBER_SAME, /* it is new: first */
    GY_QUERY_NUMBER_ADD,  /* `first` is added to what is in it */
} gy_query_numbering;

/** Number rows in a last column. Takes the frame. */
GY_MUST_CHECK gy_status gy_query_number_rows(gy_schema *schema, int64_t first,
                                             gy_query_numbering how, gy_frame **frame);

/* ---- job.c ---- */

/** How a plan runs as a job. */
typedef struct gy_query_job_options {
    gy_flow *flow;
    const gy_flow_options *how; /* without output */
    const char *scratch;
    gy_engine *engine;
    size_t piece_bytes; /* a power of two */
    double broadcast_bytes;
    uint64_t memory_bytes; /* of all processes; 0: no bound */
    uint32_t parts;
} gy_query_job_options;

/** A plan as a job. */
typedef struct gy_query_job gy_query_job;

/** Cut the plan and look at its files. GY_UNSUPPORTED: it is too deep, or reads frames; else as
 * gy_query_pieces_make */
GY_MUST_CHECK gy_status gy_query_job_new(const gy_query_plan *plan,
                                         const gy_query_job_options *options,
                                         gy_query_job **job);
void gy_query_job_free(gy_query_job *job);
/**
 * Run it, on the thread of the flow.
 * @return GY_OK; failures of gy_flow_run: GY_FORMAT where rows were wrong, of which a run in
 * one process says what
 */
GY_MUST_CHECK gy_status gy_query_job_run(gy_query_job *job);
/** The answer, frame by frame, each held once by who takes it. */
typedef gy_status (*gy_query_take)(void *arg, gy_frame *frame);
/** Read the answer. GY_IO, GY_FORMAT, GY_NOMEM; what `take` returned */
GY_MUST_CHECK gy_status gy_query_job_read(gy_query_job *job, gy_schema *schema,
                                          gy_query_take take, void *arg);
/** What the job is, or was once it ran: stages with their rows and bytes. */
void gy_query_job_print(const gy_query_job *job, gy_text *text);

#endif
