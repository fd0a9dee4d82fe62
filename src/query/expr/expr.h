/**
 * Expressions over frames: a tree of SQL with its names bound, its types found and its kernels
 * chosen. The meaning is PostgreSQL 15's; src/query/README.md lists what there is and where it
 * differs.
 *
 *     gy_expr_scope scope = {.source = &source, .arena = &arena, .column = find, .arg = plan};
 *     const gy_expr *where = NULL;
 *     if (gy_expr_bind(&scope, node, &where) != GY_OK) { ... source.report says it ... }
 *     status = gy_expr_filter(where, frame, &kept);
 *
 * An expression never changes, lives as long as its arena, and may be evaluated by any number
 * of threads at once. Binding depends on the tree and on the types of its columns alone: a tree
 * that is printed, read and bound again gives the same expression.
 */
#ifndef GY_QUERY_EXPR_EXPR_H
#define GY_QUERY_EXPR_EXPR_H

#include "frame/frame.h"
#include "query/functions/functions.h"
#include "query/sql/sql.h"

typedef struct gy_expr gy_expr;

/** What values an expression has. */
typedef struct gy_expr_type {
    gy_field_kind kind;
    int precision, scale; /* of decimal, as in gy_field */
    bool is_nullable;     /* false: never null */
    bool is_interval;     /* months, days and microseconds; then `kind` does not matter, and no
                             column can hold it */
    bool is_unknown;      /* a text or null as it stands in a statement, which takes the type
                             that its place asks for; in a column it is a text */
} gy_expr_type;

/** What the names in a tree mean. */
typedef struct gy_expr_scope {
    const gy_sql_source *source; /* of errors */
    gy_arena *arena;             /* of expressions */
    /** Of a GY_SQL_COLUMN: its index in the rows, and its type. A name that is unknown or
     * ambiguous it refuses itself, with gy_sql_refuse. NULL: there are no columns. */
    gy_status (*column)(void *arg, const gy_sql_node *node, int *index, gy_expr_type *type);
    /** Asked about each node before anything else is (aggregates, sub-queries, grouped
     * expressions): the plan has made it a column. GY_NOTFOUND, without a gy_fail: it has not.
     * NULL: it never has. */
    gy_status (*other)(void *arg, const gy_sql_node *node, int *index, gy_expr_type *type);
    void *arg;
    const gy_query_functions *functions; /* of the program; NULL: none */
} gy_expr_scope;

/** Refuse a call whose arguments (`types`, node->count) a function of the program does not
 * take: GY_TYPE, with place and caret. */
GY_MUST_CHECK gy_status gy_expr_check_call(const gy_sql_source *source, const gy_sql_node *node,
                                           const gy_query_function *function,
                                           const gy_expr_type *types);
/** A field's type, nullable. */
gy_expr_type gy_expr_type_of_field(const gy_field *field);

/** The function whose name is nearest to that, of the program, too; NULL: none is near. */
const char *gy_expr_nearest(const char *name, const gy_query_functions *functions);
/** Whether there is a builtin function or aggregate of that name. */
bool gy_expr_is_builtin(const char *name);

/**
 * Bind a tree. Constant parts are evaluated here, as far as they have a value.
 *
 * @return GY_OK; GY_TYPE types that do not fit, GY_NOTFOUND no such function (with the nearest
 *     name), GY_FORMAT a literal that is none of its type or a wrong count of arguments,
 *     GY_UNSUPPORTED what is no expression of one row here: all in scope->source->report, with
 *     place and caret; what `column` and `other` return; GY_NOMEM
 * @threads any; the arena is the caller's alone
 * @cost O(nodes); recurses as deep as the tree is
 */
GY_MUST_CHECK gy_status gy_expr_bind(const gy_expr_scope *scope, const gy_sql_node *node,
                                     const gy_expr **expr);

/** The same for a condition (where, having, on): its type is bool, or GY_TYPE. */
GY_MUST_CHECK gy_status gy_expr_bind_condition(const gy_expr_scope *scope,
                                               const gy_sql_node *node, const gy_expr **expr);

/** Borrowed from the expression. */
const gy_expr_type *gy_expr_type_of(const gy_expr *expr);

/** Column `index` of the rows. GY_NOMEM */
GY_MUST_CHECK gy_status gy_expr_column(gy_arena *arena, int index, gy_expr_type type,
                                       const gy_expr **expr);

/**
 * The type that values of both types are made to where they stand for each other (set
 * operations, `values`, join keys, branches of case): the same of both; of int64, decimal and
 * double the later; of date and timestamp the later; of an unknown the other one. A decimal
 * holds both.
 * @return false: there is none; *type is untouched
 */
bool gy_expr_type_common(const gy_expr_type *left, const gy_expr_type *right,
                         gy_expr_type *type);

/**
 * An expression of exactly that kind, precision and scale, as gy_expr_type_common gives them.
 * Returns `expr` itself where it has them. `place` is what errors point at.
 * @return GY_OK; GY_TYPE there is no such implicit cast, GY_FORMAT a literal is none of the
 *     type, both in the scope's report; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_expr_cast(const gy_expr_scope *scope, uint32_t place,
                                     const gy_expr *expr, const gy_expr_type *type,
                                     const gy_expr **cast);

/** "decimal(12, 2)", as errors say it; returns `out`. */
const char *gy_expr_type_text(const gy_expr_type *type, char out[48]);

/** Whether it is nothing but a column, and which. `index` may be NULL. */
bool gy_expr_is_column(const gy_expr *expr, int *index);

/** Whether it is a constant: it does not depend on rows and can be evaluated. */
bool gy_expr_is_constant(const gy_expr *expr);

/** The value of a constant int64 (limit, offset, places in order by); false: it is none, or is
 * null. */
bool gy_expr_constant_int64(const gy_expr *expr, int64_t *value);

/** Whether it is the constant null (of any type). */
bool gy_expr_is_null(const gy_expr *expr);

/** Visit each column that it uses, in the order in which they stand, repeated ones too. */
void gy_expr_visit_columns(const gy_expr *expr, void (*visit)(void *arg, int index), void *arg);

/**
 * The same expression over other rows: column i becomes column map[i] (>= 0).
 * GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_expr_remap(gy_arena *arena, const gy_expr *expr, const int *map,
                                      const gy_expr **out);

/** The field of a column that holds it; `name` is borrowed. It is no interval. */
gy_field gy_expr_field(const gy_expr *expr, const char *name);

/** Bytes of the texts that an evaluation makes at once, for up to 1,024 rows and at least 64: 1
 * GiB; beyond it fails with GY_LIMIT. Tests have it less. */
extern size_t gy_expr_texts_max;

/**
 * Evaluate expressions over the rows of a frame, into a frame of as many columns. Columns that
 * are nothing but columns share their buffers.
 *
 * @param exprs  (count); none of them is an interval
 * @param schema its fields have the kinds, precisions and scales of the expressions
 *     (gy_expr_field); borrowed
 * @return GY_OK, *out held once by the caller; GY_NUMERIC overflow, division by zero, outside a
 *     function's domain; GY_FORMAT a cast of a text that is no value of the type; GY_LIMIT a
 *     decimal of more than 38 digits, 2 GiB of text in a column; GY_ARG a regular expression or
 *     pattern that is malformed: each says operation and value; GY_NOMEM
 * @threads any
 */
GY_MUST_CHECK gy_status gy_expr_project(const gy_expr *const *exprs, int count,
                                        gy_schema *schema, const gy_frame *frame,
                                        gy_frame **out);

/**
 * The rows of a frame where a condition (bool) is true, all columns. A frame of which all rows
 * stay is held, not copied. Errors as gy_expr_project. @threads any
 */
GY_MUST_CHECK gy_status gy_expr_filter(const gy_expr *condition, const gy_frame *frame,
                                       gy_frame **out);

/**
 * The same without the copy: bit r of `kept`, the lowest of a byte first, becomes whether the
 * condition is true of row r.
 *
 * @param kept  (rows + 7) / 8 bytes, rounded up to 8
 * @param count becomes how many rows are kept
 */
GY_MUST_CHECK gy_status gy_expr_test(const gy_expr *condition, const gy_frame *frame,
                                     uint64_t *kept, int64_t *count);

#endif
