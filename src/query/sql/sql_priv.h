/** Inside folder sql: the tree of libpg_query's parser, as it is read. */
#ifndef GY_QUERY_SQL_SQL_PRIV_H
#define GY_QUERY_SQL_SQL_PRIV_H

#include "query/sql/sql.h"

#include <pg_query/pg_query.pb-c.h>

/** How an identifier stands in the text: the parser cuts it at 63 bytes and folds its case. */
typedef struct gy_sql_spelling {
    const char *cut; /* as the parser has it */
    gy_sql_name name;
    int64_t place;     /* its first byte in the text; of an ambiguous one, the other name's */
    bool is_ambiguous; /* others have the same first bytes */
} gy_sql_spelling;

typedef struct gy_sql_reader {
    const gy_sql_source *source;
    gy_arena *arena;
    gy_sql_spelling *spellings; /* ascending by `cut` */
    size_t count, capacity;
    uint32_t depth; /* of the expression at hand */
} gy_sql_reader;

/* ---- door.c ---- */

/** Memory of the tree: zeroed. NULL: GY_NOMEM was reported. */
void *gy_sql_new(const gy_sql_reader *in, size_t count, size_t size_bytes);
GY_MUST_CHECK gy_status gy_sql_copy(const gy_sql_reader *in, const char *text,
                                    const char **out);
/** A place of the parser (-1: it says none) as one of what the author wrote. */
uint32_t gy_sql_place(const gy_sql_reader *in, int64_t place);
/** "not supported: …" */
gy_status gy_sql_unsupported(const gy_sql_reader *in, int64_t place, const char *what);

/* ---- names.c ---- */

/** Take the spellings of all identifiers from the tokens. */
GY_MUST_CHECK gy_status gy_sql_spell(gy_sql_reader *in, const PgQuery__ScanResult *tokens);
GY_MUST_CHECK gy_status gy_sql_name_of(const gy_sql_reader *in, const char *cut,
                                       gy_sql_name *name);
/** The names in a list of String nodes. */
GY_MUST_CHECK gy_status gy_sql_names_of(const gy_sql_reader *in, PgQuery__Node *const *nodes,
                                        size_t count, gy_sql_name **names, uint32_t *out);

/* ---- expressions.c, calls.c ---- */

GY_MUST_CHECK gy_status gy_sql_expression(gy_sql_reader *in, const PgQuery__Node *node,
                                          gy_sql_node **out);
/** Append the `count` expressions to the node's items. */
GY_MUST_CHECK gy_status gy_sql_items(gy_sql_reader *in, gy_sql_node *to,
                                     PgQuery__Node *const *nodes, size_t count);
GY_MUST_CHECK gy_status gy_sql_node_new(const gy_sql_reader *in, gy_sql_kind kind,
                                        int64_t place, gy_sql_node **out);
GY_MUST_CHECK gy_status gy_sql_call(gy_sql_reader *in, const PgQuery__FuncCall *call,
                                    gy_sql_node **out);
GY_MUST_CHECK gy_status gy_sql_cast(gy_sql_reader *in, const PgQuery__TypeCast *cast,
                                    gy_sql_node **out);
GY_MUST_CHECK gy_status gy_sql_sublink(gy_sql_reader *in, const PgQuery__SubLink *link,
                                       gy_sql_node **out);

/* ---- from.c, select.c ---- */

GY_MUST_CHECK gy_status gy_sql_from_of(gy_sql_reader *in, const PgQuery__Node *node,
                                       gy_sql_from **out);
GY_MUST_CHECK gy_status gy_sql_select_of(gy_sql_reader *in, const PgQuery__SelectStmt *stmt,
                                         gy_sql_select **out);
GY_MUST_CHECK gy_status gy_sql_statement_of(gy_sql_reader *in, const PgQuery__RawStmt *raw,
                                            gy_sql_statement *out);

#endif
