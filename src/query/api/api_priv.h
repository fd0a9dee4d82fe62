/** Inside folder api: rows as trees of SQL. */
#ifndef GY_QUERY_API_API_PRIV_H
#define GY_QUERY_API_API_PRIV_H

#include "query/ask/ask.h"
#include "query/plan/plan.h"

#include <gyre/rows.h>

/** A text that was read; its nodes live as long. */
typedef struct gy_rows_script gy_rows_script;
struct gy_rows_script {
    gy_sql_script script;
    gy_rows_script *older;
};

/** Frames that rows come from. */
typedef struct gy_rows_table_of gy_rows_table_of;
struct gy_rows_table_of {
    gy_query_table table; /* schema, frames and rest are held; schema NULL: not known yet */
    gy_rows_table_of *older;
    gy_frame **kept; /* of a cache: (capacity) the table's frames */
    size_t capacity;
    bool is_full; /* of a cache: it has all rows */
};

struct gy_rows {
    gy_rows_session *session;
    gy_rows *older;
    gy_sql_select *select;        /* NULL: a failure */
    const gy_sql_report *failure; /* of this call or one before; NULL: none */
    gy_rows *inputs[2];           /* NULL: none */
    gy_rows_table_of *cache;      /* of gy_rows_cache: what they read in place of their input */
    gy_sql_select *divided;       /* of partitions: with their keys as last columns */
    const gy_sql_order *keys;
    int parts; /* 0: they are no partitions */
    bool is_range;
    uint32_t operators;
    uint64_t visit;        /* the last walk that came here */
    bool has_end;          /* select ends in an order or a limit of its own: */
    int64_t limit, offset; /* -1: all rows */
    gy_query *query;       /* of the last run or plan */
    gy_schema *schema;     /* of its answer; NULL: none, or a failure */
    gy_text note;          /* of the last run and the caches that it filled */
    bool has_run;
};

struct gy_rows_session {
    gy_query_options how; /* its texts are in the arena */
    gy_engine *engine;
    gy_arena arena;
    const gy_sql_part *parts; /* the newest */
    gy_rows_script *scripts;
    gy_rows_table_of *tables;
    gy_rows *all;
    uint64_t visits;       /* walks over rows */
    uint64_t cached_bytes; /* in memory, of caches */
    gy_rows lost;          /* of calls that had no memory */
    gy_sql_report lost_report;
};

/** What a call was given, while it makes rows. */
typedef struct gy_rows_call {
    const char *name; /* "gy_rows_where" */
    gy_rows_session *session;
    gy_sql_report report; /* the first failure */
    gy_sql_source source; /* of the text at hand */
    uint32_t place;       /* of the call's first text */
} gy_rows_call;

/* ---- session.c ---- */

/** Memory of the session: zeroed. NULL: GY_NOMEM was reported. */
void *gy_rows_alloc(gy_rows_session *session, size_t count, size_t size_bytes);
/** A copy in the session's memory; NULL: GY_NOMEM */
char *gy_rows_copy(gy_rows_session *session, const char *text);

/** Begin a call with its text (NULL: ""). */
GY_MUST_CHECK gy_status gy_rows_begin(gy_rows_session *session, const char *name,
                                      const char *text, gy_rows_call *call);
/** The call's next text. */
GY_MUST_CHECK gy_status gy_rows_text(gy_rows_call *call, const char *text);
/** Refuse the text at hand from its beginning. Returns `status`. */
gy_status gy_rows_refuse(gy_rows_call *call, gy_status status, const char *format, ...)
    GY_PRINTF(3, 4);
/** End a call: rows of `select`, or of the failure `status`; `left` and `right` are what they
 * are made of (NULL: nothing). */
gy_rows *gy_rows_end(const gy_rows_call *call, gy_status status, gy_sql_select *select,
                     gy_rows *left, gy_rows *right);
/** Rows of a call over failed ones. */
gy_rows *gy_rows_fail(const gy_rows *input);

/* ---- texts.c: texts of a call, read ---- */

/** A statement with an answer. */
GY_MUST_CHECK gy_status gy_rows_read_statement(gy_rows_call *call, gy_sql_select **select);
/** A condition. */
GY_MUST_CHECK gy_status gy_rows_read_condition(gy_rows_call *call, gy_sql_node **condition);
/** "using (a, b)", into the join; false: the text is something else. */
bool gy_rows_is_using(const gy_rows_call *call);
GY_MUST_CHECK gy_status gy_rows_read_using(gy_rows_call *call, gy_sql_from *join);
/** A select list, into the select's targets. */
GY_MUST_CHECK gy_status gy_rows_read_targets(gy_rows_call *call, gy_sql_select *select);
/** Keys of groups, into the select. */
GY_MUST_CHECK gy_status gy_rows_read_groups(gy_rows_call *call, gy_sql_select *select);
/** Keys of an order, into the select. */
GY_MUST_CHECK gy_status gy_rows_read_order(gy_rows_call *call, gy_sql_select *select);

/* ---- cache.c ---- */

/** Before rows are planned, or run: the caches below have their schema, or all their rows. A
 * query that fails is in rows->query, for its report. */
GY_MUST_CHECK gy_status gy_rows_fill_caches(gy_rows *rows, bool is_planning);
void gy_rows_table_drop(gy_rows_table_of *of);

/** Who keeps frames: in memory up to the share of a session, then in a file. */
typedef struct gy_rows_store {
    const gy_rows_session *session;
    uint64_t *used; /* bytes in memory */
} gy_rows_store;

/** Keep a frame in a table; takes it. */
GY_MUST_CHECK gy_status gy_rows_store_add(const gy_rows_store *store, gy_rows_table_of *of,
                                          gy_schema *schema, gy_frame *frame);

/* ---- run.c ---- */

/** Run a tree in place of the rows' own; the schema is not kept. */
GY_MUST_CHECK gy_status gy_rows_run_tree(gy_rows *rows, gy_sql_select *select,
                                         gy_schema **schema, gy_frame_source *source);

/** Ask what a tree says; rows->query is the query, and a failure's report there. */
GY_MUST_CHECK gy_status gy_rows_ask(gy_rows *rows, gy_sql_select *select, bool is_planning,
                                    gy_schema **schema, gy_frame_source *source);

/* ---- operators.c ---- */

/** A selection of nothing yet. NULL: GY_NOMEM */
gy_sql_select *gy_rows_select_new(const gy_rows_call *call);
/** The rows as what another selection reads, named `alias` (NULL: by nothing). NULL: GY_NOMEM
 */
gy_sql_from *gy_rows_from(const gy_rows_call *call, const gy_rows *rows, const char *alias);
/** The select list *. */
GY_MUST_CHECK gy_status gy_rows_star(const gy_rows_call *call, gy_sql_select *select);

#endif
