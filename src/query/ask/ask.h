/**
 * Queries of a tree in place of a text: what <gyre/query.h> does behind its reading.
 */
#ifndef GY_QUERY_ASK_ASK_H
#define GY_QUERY_ASK_ASK_H

#include "query/sql/sql.h"

#include <gyre/engine.h>
#include <gyre/query.h>

/** What a query asks. Borrowed; source's parts and select outlive the query. */
typedef struct gy_query_tree {
    const gy_sql_source *source; /* of its places; the query has a report of its own */
    gy_sql_select *select;
    gy_engine *engine; /* NULL: one of the query's own */
} gy_query_tree;

/** Check options but for the text, and fill in defaults. GY_ARG */
GY_MUST_CHECK gy_status gy_query_check(gy_query_options *options);

/**
 * A query whose one answer is that of a tree.
 * @param options  checked; text and path do not count
 * @return GY_OK, caller owns; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_query_of_tree(const gy_query_options *options,
                                         const gy_query_tree *tree, gy_query **query);

#endif
