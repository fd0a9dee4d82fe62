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

/** A job; stage i of `stages` has pieces[i]. */
struct gy_query_job {
    gy_query_job_options options;
    gy_query_stages stages;
    gy_query_pieces *pieces; /* (stages.count) */
    gy_dag *dag;
    uint32_t outputs;      /* files of the answer */
    gy_job_report *report; /* NULL: it did not run */
    char folder[4096];     /* around the answer; "": there is none */
};

#endif
