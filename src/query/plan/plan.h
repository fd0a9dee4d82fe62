/**
 * Plans of queries: a tree of relational operators over columns that have numbers, made of a
 * statement's tree, and made better. All of it is pure: tables are looked up through a catalog,
 * nothing is read and nothing runs.
 *
 * Every column of a plan has one number, whichever operators it passes through; expressions are
 * trees of SQL whose columns have these numbers in place of names.
 *
 * @source Neumann & Kemper, "Unnesting Arbitrary Queries", BTW 2015; Yu et al., "DryadLINQ",
 * OSDI 2008
 */
#ifndef GY_QUERY_PLAN_PLAN_H
#define GY_QUERY_PLAN_PLAN_H

#include "query/expr/expr.h"
#include "query/sql/sql.h"

#include <gyre/frame.h>

#define GY_QUERY_NONE UINT32_MAX

/** What a plan reads. Made by the catalog, which owns it. */
typedef struct gy_query_table {
    const char *name;  /* as people are told */
    gy_schema *schema; /* of all its columns */
    double rows;       /* guessed */
    double bytes;
    void *files;             /* of whoever runs the plan; NULL: its rows are the frames */
    gy_frame *const *frames; /* (frame_count) of its schema */
    size_t frame_count;
    void *rest; /* gy_rows_file: rows behind the frames; NULL: none */
} gy_query_table;

/** Finds tables. */
typedef struct gy_query_catalog {
    /* Gives the table of a name or of a function such as read_csv(…). GY_NOTFOUND, GY_ARG,
     * GY_FORMAT, … with a text of gy_fail, without a place. */
    gy_status (*find)(void *arg, const gy_sql_from *from, const gy_query_table **table);
    void *arg;
    const gy_query_functions *functions; /* of the program; NULL: none */
} gy_query_catalog;

typedef enum gy_query_kind {
    GY_QUERY_SCAN,      /* a table's columns `fields` */
    GY_QUERY_VALUES,    /* rows of constant expressions */
    GY_QUERY_FILTER,    /* the rows of which all conditions are true */
    GY_QUERY_PROJECT,   /* expressions */
    GY_QUERY_JOIN,      /* rows of left and right with equal keys and true conditions */
    GY_QUERY_AGGREGATE, /* groups, then aggregates; without aggregates: distinct rows */
    GY_QUERY_SORT,      /* by keys; with limit and offset unless limit is -1 */
    GY_QUERY_LIMIT,     /* limit rows behind the first `offset` ones */
    GY_QUERY_SET,       /* union, intersect, except of left and right, by position */
    GY_QUERY_SINGLE,    /* exactly one row: nulls for none; two are an error. With two columns
                           errors of its rows are the second one's text, for gyre_passes */
    GY_QUERY_CHECK,     /* fails on a row whose column `checked` is over 1; drops that column */
    GY_QUERY_APPLY,     /* what a function of the program makes of each partition of rows */
    GY_QUERY_KINDS
} gy_query_kind;

typedef enum gy_query_join {
    GY_QUERY_INNER, /* without keys and conditions: the product */
    GY_QUERY_LEFT,
    GY_QUERY_RIGHT,
    GY_QUERY_FULL,
    GY_QUERY_SEMI,     /* the left rows that have a match */
    GY_QUERY_ANTI,     /* the left rows that have none */
    GY_QUERY_ANTI_NULL /* not in: one key; none either where a null might be a match */
} gy_query_join;

/** A column of a plan. */
typedef struct gy_query_column {
    const char *name;
    gy_expr_type type;
    double distinct; /* guessed number of values */
} gy_query_column;

typedef struct gy_query_aggregate {
    const char *function; /* count, sum, … */
    uint32_t input;       /* GY_QUERY_NONE: of count(*) */
    bool is_distinct;
    uint32_t place;
    const uint32_t *more; /* (more_count) of a function of the program: its arguments behind
                             `input` */
    uint32_t more_count;
} gy_query_aggregate;

typedef struct gy_query_key {
    uint32_t column;
    bool is_descending, has_nulls_first;
} gy_query_key;

/** An operator. */
typedef struct gy_query_node gy_query_node;
struct gy_query_node {
    gy_query_kind kind;
    gy_query_node *left, *right; /* what it reads; NULL: nothing */
    uint32_t *columns;           /* (count) of its rows */
    uint32_t count;
    uint32_t number; /* in the plan, from 0: inputs come before what reads them */
    double rows;     /* guessed */
    const gy_query_table *table;
    int *fields;          /* of SCAN: (count) columns of the table */
    gy_sql_node **values; /* of PROJECT (count), of VALUES (row_count, count) */
    uint32_t row_count;
    gy_sql_node **conditions; /* of FILTER and JOIN */
    uint32_t condition_count;
    gy_query_join join;
    uint32_t *left_keys, *right_keys; /* of JOIN: (key_count), equal in pairs */
    uint32_t key_count;
    uint32_t group_count;           /* of AGGREGATE: the first columns, of the input */
    gy_query_aggregate *aggregates; /* (count - group_count) the other columns */
    gy_query_key *keys;             /* of SORT: (key_count); of APPLY: the first group_count
                                       make partitions, whose rows the others order */
    const char *function;           /* of APPLY */
    uint32_t *arguments;            /* (argument_count) columns that it takes */
    uint32_t argument_count;
    int64_t limit, offset;
    gy_sql_set set;
    bool is_all;
    uint32_t checked;
    uint32_t place; /* in the text, for errors of the run */
};

/** A plan. Texts and nodes live as long as it does. */
typedef struct gy_query_plan {
    gy_arena arena;
    const gy_sql_source *source;         /* what it was made of; borrowed */
    const gy_query_functions *functions; /* of the program; NULL: none */
    gy_query_column *columns;
    size_t column_count, column_capacity;
    gy_query_node *root;
    uint32_t node_count;
    uint64_t made_cells; /* operators that were made, and their columns */
    gy_schema *schema;   /* of the answer: one field for each column of the root */
} gy_query_plan;

/** Views that statements see, newest first. */
typedef struct gy_query_views gy_query_views;
struct gy_query_views {
    const gy_sql_view *view;
    const gy_query_views *next;
    const gy_query_views *inside; /* what the view itself sees */
    bool *is_used;                /* set where it is planned; NULL: nobody asks */
};

/**
 * Plan a query and make its plan better (gy_query_improve).
 *
 * @param source   the text that `select` was read of; its report takes the error
 * @return GY_OK, and gy_query_plan_fini; GY_FORMAT, GY_TYPE, GY_NOTFOUND and others by what
 *     is wrong, reported with place and caret; GY_UNSUPPORTED; GY_NOMEM. `plan` is fini'd then
 */
GY_MUST_CHECK gy_status gy_query_plan_make(const gy_sql_source *source,
                                           const gy_sql_select *select,
                                           const gy_query_catalog *catalog,
                                           const gy_query_views *views, gy_query_plan *plan);
void gy_query_plan_fini(gy_query_plan *plan);

/** Print a plan, an operator a line: its input is indented below it. */
void gy_query_plan_print(const gy_query_plan *plan, gy_text *text);
/** The operator alone, without guesses and line end. */
void gy_query_node_print(const gy_query_plan *plan, const gy_query_node *node, gy_text *text);

#endif
