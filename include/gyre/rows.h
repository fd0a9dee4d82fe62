/**
 * Queries as operators: a chain of calls describes rows, gy_rows_run computes them.
 *
 *     gy_rows *log = gy_rows_read(session, "log/2024-*.csv", NULL);
 *     gy_rows *good = gy_rows_where(log, "status = 200");
 *     gy_rows *pages = gy_rows_group(good, "url", "url, count(*) as hits");
 *     gy_rows *top = gy_rows_top(pages, "hits desc, url", 5);
 *     gy_status status = gy_rows_run(top, &schema, &source);
 *     if (status != GY_OK) {
 *         fputs(gy_rows_report(top), stderr);
 *     }
 *
 * Nothing is read before gy_rows_run. Plan, meaning and execution are those of SQL
 * (<gyre/query.h>): operators are put together, conditions and columns move to the readers,
 * workers, memory and processes are used as the session says.
 *
 * Texts are expressions of SQL over the columns of the rows before. Each is parsed by the call,
 * which copies it. A call never returns NULL, and nobody need check one: a failure is
 * remembered in the rows, in all that are made of them, and reported by gy_rows_run, with the
 * call's name, line and column in its text, and a caret.
 *
 * The session owns all rows: gy_rows_session_free frees them, nothing else does. Rows never
 * change, so they may stand in several calls; where they do, as in a join with themselves, they
 * are computed once for each time that they stand there, unless gy_rows_cache keeps them. A
 * session and its rows are for one thread at a time.
 *
 * Order: rows come in the order of gy_rows_order_by, and of a file in its order, through where,
 * select and limits; the other operators give an order of their own, the same in every run.
 *
 * @source Yu et al., "DryadLINQ", OSDI 2008
 */
#ifndef GYRE_ROWS_H
#define GYRE_ROWS_H

#include <gyre/flow.h>
#include <gyre/frame.h>
#include <gyre/function.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What rows are read and computed with; owns them. */
typedef struct gy_rows_session gy_rows_session;

/** What a call describes. */
typedef struct gy_rows gy_rows;

/** Operators that rows are made of at most, those that stand in several calls counted as often.
 */
enum { GY_ROWS_OPERATORS_MAX = 1000 };

typedef struct gy_rows_session_options {
    size_t struct_size;    /* GY_OPTIONS; 0: as compiled */
    const char *tables;    /* a folder whose file NAME.csv is table NAME; NULL: none */
    int workers;           /* threads that compute; 0: all cores */
    uint64_t memory_bytes; /* of rows that operators and the answer keep, else in files; 0: no
                              bound */
    const char *scratch;   /* where they spill; NULL: TMPDIR, or /tmp */
    /* As of gy_query_options: run as a job of processes, whose program lists GY_QUERY_VERTEX,
     * or GY_QUERY_VERTEX_OF. Borrowed until the session is freed. Rows over gy_rows_frames run
     * in this process. */
    const gy_flow_options *job;
    gy_flow *flow;
    size_t split_bytes;
    /* As of gy_query_options: functions of the program, which texts may call. Borrowed until
     * the session is freed. */
    gy_query_functions functions;
} gy_rows_session_options;

/**
 * @return GY_OK, caller owns; GY_ARG an option; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_rows_session_new(const gy_rows_session_options *options,
                                                   gy_rows_session **session);
/** Frees all its rows, too; sources of answers that were given stay. NULL is fine. */
GY_API void gy_rows_session_free(gy_rows_session *session);

/* ---- What rows come from ---- */

typedef struct gy_rows_read_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    char delimiter;     /* ASCII; 0: ',', or a tab where the name ends in .tsv */
    bool has_no_header; /* the first row is one like the others */
    /* Names and types of all columns, as gy_schema_parse reads them: "a int, b text"; copied.
     * NULL: those of the header, with the types that fit all rows */
    const char *columns;
    int64_t skip_lines;    /* lines before the header or the first row that are left out */
    const char *null_text; /* what stands for null beside the empty field: "NA"; copied */
} gy_rows_read_options;

/** The rows of a CSV file, or of all files whose names match a pattern with *, ? or […], in the
 * order of their names. */
GY_API gy_rows *gy_rows_read(gy_rows_session *session, const char *pattern,
                             const gy_rows_read_options *options);
/** The rows of a table of the session's folder. */
GY_API gy_rows *gy_rows_table(gy_rows_session *session, const char *name);
/** The answer of a statement of SQL: "select …", "with … select …", "values (1, 'a')". */
GY_API gy_rows *gy_rows_sql(gy_rows_session *session, const char *statement);
/** The rows of `count` frames of that schema, each of which is held once more until the session
 * is freed; `frames` is copied. */
GY_API gy_rows *gy_rows_frames(gy_rows_session *session, gy_schema *schema,
                               gy_frame *const *frames, size_t count);

/* ---- Operators ---- */

/** The rows of which `condition` is true. */
GY_API gy_rows *gy_rows_where(gy_rows *rows, const char *condition);
/** A select list for each row: "url, bytes / 1024 as kib, *". One with aggregates alone gives
 * one row. */
GY_API gy_rows *gy_rows_select(gy_rows *rows, const char *columns);
/** Groups of rows with equal keys, and of each what the select list `columns` says: keys and
 * aggregates. Keys are expressions, or names of `columns`. NULL: all rows are one group. */
GY_API gy_rows *gy_rows_group(gy_rows *rows, const char *keys, const char *columns);
/** The rows by keys: "hits desc nulls last, url". */
GY_API gy_rows *gy_rows_order_by(gy_rows *rows, const char *keys);
/** At most `limit` rows behind the first `offset` ones; both >= 0. Ties of an order fall by all
 * columns. */
GY_API gy_rows *gy_rows_limit(gy_rows *rows, int64_t limit, int64_t offset);
/** The first `limit` rows. */
GY_API gy_rows *gy_rows_take(gy_rows *rows, int64_t limit);
/** All rows but the first `offset` ones. */
GY_API gy_rows *gy_rows_skip(gy_rows *rows, int64_t offset);
/** The first `limit` rows by keys: order_by and take. */
GY_API gy_rows *gy_rows_top(gy_rows *rows, const char *keys, int64_t limit);
/**
 * What a function of rows (`apply` of gy_query_function) of the session makes of partitions:
 * the columns of `rows` are its parameters, in order.
 *
 * @param partition_by  names of columns: rows where they are equal are a partition. NULL: all
 *     rows are one
 * @param order_by      names of columns that order the rows of a partition: "at desc". NULL:
 *     they come as in `rows`
 */
GY_API gy_rows *gy_rows_apply(gy_rows *rows, const char *function, const char *partition_by,
                              const char *order_by);
/** Each distinct row once; nulls are equal. */
GY_API gy_rows *gy_rows_distinct(gy_rows *rows);

/** Rows for gy_rows_run_parts, which divides them into `parts` partitions: rows with equal keys
 * ("url, at / 60") are in one, by their hash. To other calls they are the rows that they are
 * made of. */
GY_API gy_rows *gy_rows_hash_partition(gy_rows *rows, const char *keys, int parts);
/** The same, by ranges of the keys ("at desc"), of about equally many rows where keys differ;
 * the first partition has those that gy_rows_order_by puts first. Bounds are chosen by a
 * sample. */
GY_API gy_rows *gy_rows_range_partition(gy_rows *rows, const char *keys, int parts);
/** The same rows in the same order, computed once, by the first gy_rows_run that reads them,
 * and kept until the session is freed: in memory up to a quarter of the session's memory_bytes
 * for all caches, of which operators then have less, and in files behind that. What reads them
 * runs in this process, they themselves as the session says. Conditions and columns do not move
 * past them: cache what is dear and has few rows. */
GY_API gy_rows *gy_rows_cache(gy_rows *rows);

/* ---- Two inputs, of one session ---- */

typedef enum gy_join_kind {
    GY_JOIN_INNER, /* pairs of rows of which the condition is true */
    GY_JOIN_LEFT,  /* and left rows without a pair, beside nulls */
    GY_JOIN_RIGHT, /* and right rows without one */
    GY_JOIN_FULL,  /* and both */
    GY_JOIN_SEMI,  /* the left rows that have a pair, each once */
    GY_JOIN_ANTI   /* the left rows that have none */
} gy_join_kind;

/**
 * Join rows.
 *
 * @param on       a condition whose columns l and r may qualify: "l.url = r.url and
 *     l.at < r.until"; or "using (url)": equal columns, which become one. NULL: all pairs, of
 *     GY_JOIN_INNER alone. In that of semi and anti joins a name without l or r is a right
 *     column where there is one, as in SQL's exists
 * @param columns  a select list over both, of semi and anti joins over the left rows: "l.url,
 *     r.title as name". NULL: all columns
 */
GY_API gy_rows *gy_rows_join(gy_rows *left, gy_rows *right, gy_join_kind kind, const char *on,
                             const char *columns);

/* Set operations: columns by position, of types that have a common one; names are the left
 * ones; nulls are equal. */

/** Each row of either side, once. */
GY_API gy_rows *gy_rows_union(gy_rows *left, gy_rows *right);
/** The rows of both sides, the left ones first. */
GY_API gy_rows *gy_rows_union_all(gy_rows *left, gy_rows *right);
/** Each row that both sides have, once. */
GY_API gy_rows *gy_rows_intersect(gy_rows *left, gy_rows *right);
/** The same, as often as the side has it that has it less often. */
GY_API gy_rows *gy_rows_intersect_all(gy_rows *left, gy_rows *right);
/** Each left row that the right side lacks, once. */
GY_API gy_rows *gy_rows_except(gy_rows *left, gy_rows *right);
/** The left rows, each as often as the left side has it more often than the right one. */
GY_API gy_rows *gy_rows_except_all(gy_rows *left, gy_rows *right);

/* ---- Answers ---- */

/**
 * Compute rows. The answer is whole before any of it is given.
 *
 * @param schema  of the answer; held once by the caller
 * @param source  the answer, which the caller closes; it outlives rows and session
 * @return GY_OK; the first failure of the calls that made the rows; failures of gy_query_next.
 *     gy_rows_report says more
 */
GY_API GY_MUST_CHECK gy_status gy_rows_run(gy_rows *rows, gy_schema **schema,
                                           gy_frame_source *source);
/**
 * Compute the partitions of gy_rows_hash_partition or gy_rows_range_partition, in this process:
 * in memory they take a quarter of memory_bytes at most, while their rows are read as
 * gy_rows_run does.
 *
 * @param schema   of each; held once by the caller
 * @param sources  (parts) the partitions, rows in their order, which the caller closes; they
 *     may be empty
 * @return as gy_rows_run; GY_ARG rows of another call
 */
GY_API GY_MUST_CHECK gy_status gy_rows_run_parts(gy_rows *rows, gy_schema **schema,
                                                 gy_frame_source *sources);
/** Names and types of the columns; files are looked at, but nothing runs. Failures as of
 * gy_rows_run. @param schema  held once by the caller */
GY_API GY_MUST_CHECK gy_status gy_rows_schema(gy_rows *rows, gy_schema **schema);
/** The plan, an operator a line; gy_string_free. Rows that did not run are planned. NULL: a
 * failure, which gy_rows_report says */
GY_API char *gy_rows_explain(gy_rows *rows);
/** The plan of the last gy_rows_run with rows, time and spilled bytes of each operator; of a
 * job, of its stages. gy_string_free. NULL: out of memory, or they did not run */
GY_API char *gy_rows_statistics(const gy_rows *rows);
/** What is wrong with the rows, or was with their last run or plan, for people: lines with
 * place and caret; "" without a failure. Until the next call with the rows. */
GY_API const char *gy_rows_report(const gy_rows *rows);
/** What people should know of the last answer: where types were guessed wrong; "" if nothing.
 */
GY_API const char *gy_rows_note(const gy_rows *rows);

#ifdef __cplusplus
}
#endif
#endif
