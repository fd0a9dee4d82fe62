/**
 * SQL: a statement's text becomes a tree. The grammar is PostgreSQL's own (libpg_query); what
 * of it Gyre does not run is refused here, with its place.
 *
 *     gy_sql_report report = {.status = GY_OK};
 *     gy_sql_source source = {.path = "query", .text = text, .size = size, .report = &report};
 *     gy_sql_script script;
 *     if (gy_sql_read(&source, &script) != GY_OK) {
 *         fputs(report.text, stderr);
 *     }
 *     gy_sql_script_fini(&script);
 */
#ifndef GY_QUERY_SQL_SQL_H
#define GY_QUERY_SQL_SQL_H

#include "base/base.h"
#include "base/text.h"

enum {
    GY_SQL_SOURCE_MAX = 8 << 20, /* bytes of a text */
    GY_SQL_TOKENS_MAX = 1 << 18, /* words and signs of a text */
    GY_SQL_NESTED_MAX = 1000,    /* brackets in one another */
    GY_SQL_ROW_MAX = 25000,      /* words and signs of an expression, lists left out */
    GY_SQL_DEPTH_MAX = 10000,    /* levels of a tree */
    GY_SQL_REPORT_BYTES = 2048
};

/** The first error of a text, as it is shown to its author: several lines. */
typedef struct gy_sql_report {
    gy_status status;
    char text[GY_SQL_REPORT_BYTES];
} gy_sql_report;

/** One of several texts that a tree was put together of: it has the places [base, base + size].
 */
typedef struct gy_sql_part gy_sql_part;
struct gy_sql_part {
    const char *name; /* what errors begin with */
    const char *text; /* (size) UTF-8 */
    size_t size;      /* 0: errors have no line and column */
    uint32_t base;
    const gy_sql_part *older; /* the one with smaller places; NULL: none */
};

/** A text with its statements. Borrowed: it outlives what is read of it. */
typedef struct gy_sql_source {
    const char *path; /* "query", or a file's: what errors begin with */
    const char *text; /* UTF-8 */
    size_t size;
    size_t skip;   /* bytes at its beginning that its author did not write; places do not count
                      them */
    uint32_t base; /* the place of the first byte behind them */
    const gy_sql_part *parts; /* the newest one, in place of the text; NULL: there is a text */
    gy_sql_report *report;
} gy_sql_source;

typedef enum gy_sql_kind {
    GY_SQL_COLUMN,     /* text, of table `table` if that is not NULL */
    GY_SQL_STAR,       /* all columns, of table `table` if that is not NULL */
    GY_SQL_NULL,       /* the literals: */
    GY_SQL_BOOLEAN,    /* text: true or false */
    GY_SQL_NUMBER,     /* text: digits as they stand */
    GY_SQL_TEXT,       /* text */
    GY_SQL_OPERATION,  /* text: an operator; one item or two */
    GY_SQL_AND,        /* items, two or more */
    GY_SQL_OR,         /* the same */
    GY_SQL_NOT,        /* an item */
    GY_SQL_IS_NULL,    /* an item */
    GY_SQL_IS_TRUTH,   /* an item is text: true, false or unknown */
    GY_SQL_DISTINCT,   /* two items are distinct, null being one value */
    GY_SQL_NULLIF,     /* two items */
    GY_SQL_COALESCE,   /* items */
    GY_SQL_GREATEST,   /* items */
    GY_SQL_LEAST,      /* items */
    GY_SQL_IN,         /* the first item is among the others */
    GY_SQL_LIKE,       /* value, pattern, and the escape if there is one */
    GY_SQL_ILIKE,      /* the same, whatever the case */
    GY_SQL_BETWEEN,    /* value, least, greatest */
    GY_SQL_SYMMETRIC,  /* between symmetric: the bounds in either order */
    GY_SQL_CASE,       /* conditions and results in turn, then else if the count is odd */
    GY_SQL_CAST,       /* an item to type text(modifier, modifier) */
    GY_SQL_CALL,       /* function text of items */
    GY_SQL_SCALAR,     /* the value of `select` */
    GY_SQL_EXISTS,     /* `select` has a row */
    GY_SQL_IN_SELECT,  /* the item is among the values of `select` */
    GY_SQL_ALL_SELECT, /* the item `text` (an operator) each value of `select` */
    GY_SQL_ANY_SELECT, /* the same of one of them */
    GY_SQL_KINDS
} gy_sql_kind;

typedef struct gy_sql_select gy_sql_select;

/** An expression. */
typedef struct gy_sql_node gy_sql_node;
struct gy_sql_node {
    gy_sql_kind kind;
    uint32_t place;   /* a byte of the text */
    bool is_not;      /* the contrary: of IS_NULL, IS_TRUTH, DISTINCT, IN, LIKE, BETWEEN … */
    bool is_distinct; /* of CALL: count(distinct x) */
    bool is_star;     /* of CALL: count(*) */
    bool is_quoted;   /* of COLUMN: its case counts */
    const char *text, *table;
    int32_t modifiers[2], modifier_count; /* of CAST: decimal(15, 2) */
    gy_sql_node **items;
    uint32_t count;
    uint32_t column; /* of COLUMN in a plan: the column's number there */
    gy_sql_select *select;
};

/** A name with its place. */
typedef struct gy_sql_name {
    const char *text;
    bool is_quoted;
} gy_sql_name;

typedef enum gy_sql_from_kind {
    GY_SQL_TABLE,    /* name */
    GY_SQL_DERIVED,  /* select */
    GY_SQL_FUNCTION, /* call, such as read_csv(…) */
    GY_SQL_JOIN,     /* left, right, by join */
} gy_sql_from_kind;

typedef enum gy_sql_join {
    GY_SQL_CROSS,
    GY_SQL_INNER,
    GY_SQL_LEFT,
    GY_SQL_RIGHT,
    GY_SQL_FULL,
} gy_sql_join;

/** What rows come from. */
typedef struct gy_sql_from gy_sql_from;
struct gy_sql_from {
    gy_sql_from_kind kind;
    uint32_t place;
    gy_sql_name name;  /* of TABLE; a path where it was quoted so */
    const void *given; /* of TABLE: what the catalog would find; NULL: it is to be found */
    gy_sql_name alias; /* text NULL: none */
    gy_sql_name *columns;
    uint32_t column_count;
    gy_sql_select *select;
    gy_sql_node *call;  /* its items may be named: see names */
    const char **names; /* of the call's arguments; NULL where it has none */
    gy_sql_join join;
    gy_sql_from *left, *right;
    gy_sql_node *on;
    gy_sql_name *using;
    uint32_t using_count;
};

typedef struct gy_sql_target {
    gy_sql_node *value;
    gy_sql_name name; /* text NULL: none was given */
} gy_sql_target;

typedef enum gy_sql_nulls {
    GY_SQL_NULLS_USUAL,
    GY_SQL_NULLS_FIRST,
    GY_SQL_NULLS_LAST
} gy_sql_nulls;

typedef struct gy_sql_order {
    gy_sql_node *value;
    bool is_descending;
    gy_sql_nulls nulls;
} gy_sql_order;

typedef enum gy_sql_set {
    GY_SQL_NO_SET,
    GY_SQL_UNION,
    GY_SQL_INTERSECT,
    GY_SQL_EXCEPT
} gy_sql_set;

/** A view: of WITH, or of CREATE VIEW. */
typedef struct gy_sql_view {
    gy_sql_name name;
    uint32_t place;
    gy_sql_name *columns;
    uint32_t column_count;
    gy_sql_select *select;
} gy_sql_view;

struct gy_sql_select {
    uint32_t place;
    gy_sql_view *with;
    uint32_t with_count;
    bool is_distinct;
    gy_sql_target *targets;
    uint32_t target_count;
    gy_sql_from *from; /* NULL: one row without columns */
    gy_sql_node *where, *having;
    gy_sql_node **groups;
    uint32_t group_count;
    gy_sql_node ***rows; /* of VALUES: (row_count, column_count) */
    uint32_t row_count, column_count;
    gy_sql_set set; /* then left and right are what is joined, and targets are not there */
    bool is_all;
    gy_sql_select *left, *right;
    gy_sql_order *order;
    uint32_t order_count;
    gy_sql_node *limit, *offset; /* NULL: none */
};

typedef enum gy_sql_what { GY_SQL_ASK, GY_SQL_CREATE_VIEW, GY_SQL_DROP_VIEW } gy_sql_what;

typedef struct gy_sql_statement {
    gy_sql_what what;
    uint32_t place, end;   /* bytes of the text */
    gy_sql_select *select; /* of ASK */
    gy_sql_view view;      /* of CREATE_VIEW; of DROP_VIEW its name alone */
    bool is_replacing;     /* create or replace */
    bool may_be_missing;   /* drop view if exists */
} gy_sql_statement;

/** What a text says. Nodes and texts live as long as it does. */
typedef struct gy_sql_script {
    gy_arena arena;
    gy_sql_statement *statements;
    uint32_t count;
} gy_sql_script;

/**
 * Read statements, which semicolons separate.
 *
 * @return GY_OK; GY_FORMAT no SQL; GY_UNSUPPORTED what Gyre does not run, or libpg_query is not
 *     installed; GY_LIMIT too large or too deep; GY_NOMEM. The first four have place and caret
 *     in source->report. gy_sql_script_fini is right after each of them
 * @threads any; the work is done by a thread of its own, whose stack is as deep as the text
 * asks
 * @cost O(size log size)
 */
GY_MUST_CHECK gy_status gy_sql_read(const gy_sql_source *source, gy_sql_script *script);
void gy_sql_script_fini(gy_sql_script *script);

/** The text behind words that its author did not write ("select "): what gy_sql_read does, of
 * both. */
GY_MUST_CHECK gy_status gy_sql_read_behind(const gy_sql_source *source, const char *before,
                                           gy_sql_script *script);

/** The text "status = 200" as an expression: what gy_sql_read does, of one expression. */
GY_MUST_CHECK gy_status gy_sql_read_expression(const gy_sql_source *source,
                                               gy_sql_script *script, gy_sql_node **expression);

/** A statement as a text that reads to the same tree: each operation in parentheses. */
void gy_sql_print(const gy_sql_statement *statement, gy_text *text);
void gy_sql_print_node(const gy_sql_node *node, gy_text *text);

/**
 * Report an error in a text: path, line, column, message, the line with a caret under the
 * place. The first report of a text stays. Returns `status`.
 */
gy_status gy_sql_refuse(const gy_sql_source *source, size_t place, gy_status status,
                        const char *format, ...) GY_PRINTF(4, 5);

#endif
