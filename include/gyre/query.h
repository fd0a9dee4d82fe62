/**
 * Queries: SQL over CSV files. gy_query_new reads statements, each gy_query_next runs them up
 * to the next answer, whose frames `rows` then gives:
 *
 *     gy_query_options options = GY_OPTIONS(gy_query_options, .text = text);
 *     gy_status status = gy_query_new(&options, &query);
 *     while (status == GY_OK) {
 *         status = gy_query_next(query, &schema, &rows);
 *     }
 *     if (status < 0) {
 *         fputs(gy_query_report(query), stderr);
 *     }
 *
 * The grammar and the meaning are PostgreSQL's; src/query/README.md lists what there is and
 * where it differs.
 */
#ifndef GYRE_QUERY_H
#define GYRE_QUERY_H

#include <gyre/flow.h>
#include <gyre/frame.h>
#include <gyre/function.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Statements, and the views that they made so far. */
typedef struct gy_query gy_query;

/** `text` or `path` is needed. */
typedef struct gy_query_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    const char *text;   /* statements, separated by semicolons; UTF-8, copied */
    const char *path;   /* a file or object of statements, in place of text; errors begin with
                           it, of a text with "query" */
    const char *tables; /* a folder whose file NAME.csv is table NAME; NULL: none */
    int workers;        /* threads that compute; 0: all cores */
    uint64_t memory_bytes; /* of rows that operators and the answer keep, else in files; 0: no
                              bound */
    const char *scratch;   /* where they spill; NULL: TMPDIR, or /tmp */
    bool is_planning;      /* plan and run nothing: answers have no rows */
    /* Run each query as a job of processes: a graph of vertices that read pieces of files,
     * whose program lists gy_query_vertex. Its options but the output; NULL: this process alone
     * runs it. Answers have the same bytes. With a folder, each answer's job has one of its
     * own: FOLDER, then FOLDER-2, … */
    const gy_flow_options *job;
    gy_flow *flow; /* of the job; needed unless it is only planned */
    /* of a file that a vertex reads, a power of two from 64; 0: 16 MiB. A side of a join that
     * is guessed to have at most twice as many bytes goes to all vertices whole. */
    size_t split_bytes;
    /* Of the program, which statements may call; the list is borrowed as long as the query is.
     * Processes of a job have them by GY_QUERY_VERTEX_OF. */
    gy_query_functions functions;
} gy_query_options;

/** The vertices of queries: a row of the list of gy_flow_start. */
#define GY_QUERY_FUNCTION "query"
#define GY_QUERY_VERTEX   GY_VERTEX(GY_QUERY_FUNCTION, gy_query_vertex)
GY_API gy_status gy_query_vertex(gy_vertex *vertex);
/** Gives the program's functions, in each process the same. */
typedef gy_query_functions (*gy_query_function_list)(void);
/** The vertices of queries that call functions of the program, in place of GY_QUERY_VERTEX;
 * `list` is a gy_query_function_list, which the compiler checks. */
#ifdef __cplusplus
#define GY_QUERY_VERTEX_OF(list)                                                               \
    {                                                                                          \
        GY_QUERY_FUNCTION, gy_query_vertex,                                                    \
            reinterpret_cast<gy_any_work>(static_cast<gy_query_function_list>(list))           \
    }
#else
#define GY_QUERY_VERTEX_OF(list)                                                               \
    {                                                                                          \
        GY_QUERY_FUNCTION, gy_query_vertex,                                                    \
            (gy_any_work)(1 ? (list) : (gy_query_function_list)0)                              \
    }
#endif

/**
 * Read statements.
 * @return GY_OK, caller owns; GY_FORMAT no SQL, GY_UNSUPPORTED what Gyre does not run or that
 * libpg_query is not there, GY_LIMIT: *query is there, too, for its report; GY_ARG an option
 * (the text of gy_error_text says which, also of a function that cannot be registered);
 * GY_NOTFOUND, GY_IO of `path`; GY_NOMEM
 * @threads any; a query is for one thread at a time
 */
GY_API GY_MUST_CHECK gy_status gy_query_new(const gy_query_options *options, gy_query **query);
/** NULL is fine. */
GY_API void gy_query_free(gy_query *query);

/**
 * Run statements up to the next one that has an answer. The answer is whole before any of it is
 * given.
 *
 * @param schema of the answer; held once by the caller
 * @param rows   the answer; the caller closes it before the next call
 * @return GY_OK; GY_DONE there are no more; failures with a report: GY_NOTFOUND, GY_ARG,
 * GY_TYPE, GY_FORMAT, GY_UNSUPPORTED by what is wrong with a statement or a file; GY_NUMERIC,
 * GY_LIMIT a value that cannot be computed; GY_STATE a file changed meanwhile; GY_IO; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_query_next(gy_query *query, gy_schema **schema,
                                             gy_frame_source *rows);

/** The first failure for people, lines with place and caret; "" without one. */
GY_API const char *gy_query_report(const gy_query *query);
/** What people should know of the last answer: where types were guessed wrong; "" if nothing.
 */
GY_API const char *gy_query_note(const gy_query *query);
/** The plan of the last answer, an operator a line; gy_string_free. NULL: out of memory, or
 * there is none */
GY_API char *gy_query_explain(const gy_query *query);
/** The same with rows, time and spilled bytes of each operator; of a job, of its stages. */
GY_API char *gy_query_statistics(const gy_query *query);

#ifdef __cplusplus
}
#endif
#endif
