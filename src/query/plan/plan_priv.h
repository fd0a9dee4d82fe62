/** Inside folder plan. */
#ifndef GY_QUERY_PLAN_PLAN_PRIV_H
#define GY_QUERY_PLAN_PLAN_PRIV_H

#include "query/plan/plan.h"

/** A growing list of expressions. */
typedef struct gy_query_list {
    gy_sql_node **items;
    uint32_t count, capacity;
} gy_query_list;

/** A growing list of columns' numbers. */
typedef struct gy_query_numbers {
    uint32_t *items;
    uint32_t count, capacity;
} gy_query_numbers;

/** A column that a name may mean. */
typedef struct gy_query_name {
    const char *table; /* NULL: of none */
    const char *name;
    uint32_t column;
    bool is_merged; /* by using: only the name with its table means it */
} gy_query_name;

/** What names mean at one place of a query. */
typedef struct gy_query_scope gy_query_scope;
struct gy_query_scope {
    gy_query_name *names;
    uint32_t count, capacity;
    const gy_query_scope *outer; /* of the query around a sub-query; NULL: none */
};

/** One planning. */
typedef struct gy_query_planner {
    gy_query_plan *plan;
    const gy_sql_source *source;
    gy_arena *arena;
    const gy_query_catalog *catalog;
    uint32_t view_count; /* that are being planned, one in the other */
} gy_query_planner;

/** Groups and aggregates of a query. */
typedef struct gy_query_grouping {
    gy_query_list groups;            /* over the input */
    gy_query_numbers grouped;        /* their columns */
    const gy_sql_node **group_texts; /* (groups) as they stand in the statement */
    gy_query_list calls;             /* aggregates, whose arguments are over the input */
    gy_query_numbers called;         /* their columns */
    const gy_sql_node **texts;       /* (calls) as they stand in the statement */
    uint32_t text_capacity;
    gy_query_node *input; /* what they read */
} gy_query_grouping;

/** The table of a column in a tree of names that has its number already. */
#define GY_QUERY_NUMBERED "\x01number"

/** How an expression's tree is resolved. */
typedef struct gy_query_resolver {
    gy_query_planner *planner;
    const gy_query_scope *scope;
    const gy_query_views *views;
    gy_query_node **input; /* sub-queries are joined to it */
    /* Of a query that groups; else NULL and calls of aggregates are refused: "aggregate
     * functions are not allowed in WHERE". */
    gy_query_grouping *grouping;
    const char *clause; /* WHERE, GROUP BY, … for errors */
    /* Rows may not need what is resolved (case, coalesce, and, or): an error of a sub-query is
     * one of the rows that do. */
    bool is_conditional;
    bool is_quantified; /* within what gy_query_quantified made: nothing becomes conditional */
} gy_query_resolver;

/* ---- tree.c: trees of expressions ---- */

void *gy_query_alloc(const gy_query_planner *planner, size_t count, size_t size_bytes);
GY_MUST_CHECK gy_status gy_query_list_add(const gy_query_planner *planner, gy_query_list *list,
                                          gy_sql_node *node);
GY_MUST_CHECK gy_status gy_query_numbers_add(const gy_query_planner *planner,
                                             gy_query_numbers *list, uint32_t number);
/** Add those that are not there yet. */
GY_MUST_CHECK gy_status gy_query_numbers_join(const gy_query_planner *planner,
                                              gy_query_numbers *list, const uint32_t *numbers,
                                              uint32_t count);
bool gy_query_has(const uint32_t *numbers, uint32_t count, uint32_t number);

/** A copy of the node alone, with items of its own that are not set yet. NULL: GY_NOMEM */
gy_sql_node *gy_query_copy(const gy_query_planner *planner, const gy_sql_node *node);
/** A node of `count` items. NULL: GY_NOMEM */
gy_sql_node *gy_query_make(const gy_query_planner *planner, gy_sql_kind kind, uint32_t place,
                           gy_sql_node *const *items, uint32_t count);
gy_sql_node *gy_query_make_column(const gy_query_planner *planner, uint32_t column,
                                  uint32_t place);
gy_sql_node *gy_query_make_operation(const gy_query_planner *planner, const char *text,
                                     gy_sql_node *left, gy_sql_node *right);
gy_sql_node *gy_query_make_number(const gy_query_planner *planner, const char *digits,
                                  uint32_t place);

/** Whether both say the same, places aside. */
bool gy_query_is_same(const gy_sql_node *a, const gy_sql_node *b);
/** Add the columns that it uses. */
GY_MUST_CHECK gy_status gy_query_uses(const gy_query_planner *planner, const gy_sql_node *node,
                                      gy_query_numbers *list);
/** Whether it uses no column but these. */
bool gy_query_uses_only(const gy_sql_node *node, const uint32_t *columns, uint32_t count);
/** Whether it uses any of these. */
bool gy_query_uses_any(const gy_sql_node *node, const uint32_t *columns, uint32_t count);
bool gy_query_is_constant(const gy_sql_node *node);
/** Add what AND joins, one by one, and what all branches of an OR have in common. */
GY_MUST_CHECK gy_status gy_query_split(const gy_query_planner *planner, gy_sql_node *node,
                                       gy_query_list *list);
/** The tree with expressions in place of columns: columns[i] becomes values[i]. */
GY_MUST_CHECK gy_status gy_query_replace(const gy_query_planner *planner,
                                         const uint32_t *columns, gy_sql_node *const *values,
                                         uint32_t count, gy_sql_node **node);

/* ---- node.c: operators and columns ---- */

GY_MUST_CHECK gy_status gy_query_column_add(const gy_query_planner *planner, const char *name,
                                            const gy_expr_type *type, uint32_t *column);
/** The type of an expression whose columns are numbered; reports what does not fit. */
GY_MUST_CHECK gy_status gy_query_type(const gy_query_planner *planner, const gy_sql_node *node,
                                      gy_expr_type *type);
GY_MUST_CHECK gy_status gy_query_check_condition(const gy_query_planner *planner,
                                                 const gy_sql_node *node);
/** The cast of a value to a type of a column. NULL: GY_NOMEM */
gy_sql_node *gy_query_cast(const gy_query_planner *planner, gy_sql_node *value,
                           const gy_expr_type *type);
bool gy_query_is_same_type(const gy_expr_type *a, const gy_expr_type *b);
/** An operator with room for `count` columns. NULL: GY_NOMEM */
gy_query_node *gy_query_node_new(const gy_query_planner *planner, gy_query_kind kind,
                                 gy_query_node *left, gy_query_node *right, uint32_t count);
/** A filter; `input` itself where there are no conditions. */
GY_MUST_CHECK gy_status gy_query_filter(const gy_query_planner *planner,
                                        const gy_query_list *conditions, gy_query_node **input);
/** A join of inputs: its columns are theirs (of semi and anti: the left's). */
GY_MUST_CHECK gy_status gy_query_join_nodes(const gy_query_planner *planner, gy_query_join join,
                                            const gy_query_list *on, gy_query_node *right,
                                            gy_query_node **left);
/** A projection to these columns. */
GY_MUST_CHECK gy_status gy_query_keep(const gy_query_planner *planner, const uint32_t *columns,
                                      uint32_t count, gy_query_node **input);
/** Add a column of an expression to the rows: *column is the expression's own where it is
 * nothing but one of theirs; one from outside gets another number. `name` may be NULL. */
GY_MUST_CHECK gy_status gy_query_compute(const gy_query_planner *planner, const char *name,
                                         gy_sql_node *value, gy_query_node **input,
                                         uint32_t *column);

/* ---- scope.c: names ---- */

GY_MUST_CHECK gy_status gy_query_scope_add(const gy_query_planner *planner,
                                           gy_query_scope *scope, const char *table,
                                           const char *name, uint32_t column);
/** The column of a name, in this scope or one around it. */
GY_MUST_CHECK gy_status gy_query_find(const gy_query_planner *planner,
                                      const gy_query_scope *scope, const gy_sql_node *node,
                                      uint32_t *column);
/** Whether a name, unquoted or not, is that one: 2 by its bytes, 1 but for case, 0 no. */
int gy_query_matches(const char *name, bool is_quoted, const char *other);

GY_MUST_CHECK gy_status gy_query_resolve(gy_query_resolver *in, const gy_sql_node *node,
                                         gy_sql_node **out);
bool gy_query_is_aggregate(const gy_query_planner *planner, const gy_sql_node *node);
bool gy_query_has_aggregate(const gy_query_planner *planner, const gy_sql_node *node);

/* ---- group.c: groups and aggregates ---- */

GY_MUST_CHECK gy_status gy_query_aggregate_call(gy_query_resolver *in, const gy_sql_node *node,
                                                gy_sql_node **out);
/** Replace grouped expressions by columns; what is left over is refused. */
GY_MUST_CHECK gy_status gy_query_regroup(const gy_query_resolver *in, gy_sql_node **node);
/** Find the aggregates in an expression. */
GY_MUST_CHECK gy_status gy_query_collect(gy_query_resolver *in, const gy_sql_node *node);
/** The aggregation of all that was collected. */
GY_MUST_CHECK gy_status gy_query_group(const gy_query_planner *planner,
                                       const gy_query_grouping *grouping, gy_query_node **out);
/** The type of an aggregate's answer; false: there is no such aggregate of this type. */
bool gy_query_aggregate_type(const char *function, const gy_expr_type *of, gy_expr_type *type);

/* ---- pull.c: sub-queries that use columns from outside ---- */

/** What was pulled out of a sub-query. */
typedef struct gy_query_pulled {
    gy_query_list conditions; /* over its columns and those outside */
    uint32_t scalar_count; /* aggregations without groups on the way, which have groups now */
} gy_query_pulled;

/** Take the conditions that use columns from outside out of an operator and its inputs. What
 * cannot be taken out is refused, `place` being the sub-query's. */
GY_MUST_CHECK gy_status gy_query_pull(const gy_query_planner *planner, uint32_t place,
                                      gy_query_node **node, gy_query_pulled *pulled);

/* ---- quantified.c, subquery.c ---- */

/** exists, in, any, all as values: the same of sub-queries that count. NULL: GY_NOMEM */
gy_sql_node *gy_query_quantified(const gy_query_planner *planner, const gy_sql_node *node);

GY_MUST_CHECK gy_status gy_query_sub_query(gy_query_resolver *in, const gy_sql_node *node,
                                           gy_sql_node **out);
/** A condition, and what it asks of sub-queries, as operators behind *in->input. */
GY_MUST_CHECK gy_status gy_query_where(gy_query_resolver *in, const gy_sql_node *node);

/* ---- from.c, select.c, sets.c ---- */

/** What a query gives. */
typedef struct gy_query_answer {
    gy_query_node *node;
    gy_sql_name *names; /* (node->count) */
} gy_query_answer;

GY_MUST_CHECK gy_status gy_query_from(gy_query_resolver *in, const gy_sql_from *from,
                                      gy_query_scope *scope, gy_query_node **out);
GY_MUST_CHECK gy_status gy_query_select(gy_query_planner *planner, const gy_sql_select *select,
                                        const gy_query_scope *outer,
                                        const gy_query_views *views, gy_query_answer *answer);
/** A view or a name of WITH, planned for this use, which stands at `place`. */
GY_MUST_CHECK gy_status gy_query_view(gy_query_planner *planner, const gy_query_views *found,
                                      uint32_t place, gy_query_answer *answer);
GY_MUST_CHECK gy_status gy_query_set(gy_query_planner *planner, const gy_sql_select *select,
                                     const gy_query_scope *outer, const gy_query_views *views,
                                     gy_query_answer *answer);
GY_MUST_CHECK gy_status gy_query_values(gy_query_planner *planner, const gy_sql_select *select,
                                        const gy_query_scope *outer,
                                        const gy_query_views *views, gy_query_answer *answer);

/** The number of a target that stands as a literal. */
GY_MUST_CHECK gy_status gy_query_position(const gy_query_planner *planner,
                                          const gy_sql_node *node, uint32_t count,
                                          uint32_t *position);

/* ---- sets.c: distinct, order, limit ---- */

/** How a query ends. */
typedef struct gy_query_ending {
    const gy_sql_select *select;
    gy_query_key *keys;      /* (select->order_count) */
    const uint32_t *columns; /* (count) of its targets */
    uint32_t count;
} gy_query_ending;

GY_MUST_CHECK gy_status gy_query_distinct(const gy_query_planner *planner,
                                          const uint32_t *columns, uint32_t count,
                                          gy_query_node **input);
/** Order and limit. Ties under a limit fall by all targets. */
GY_MUST_CHECK gy_status gy_query_end(const gy_query_planner *planner,
                                     const gy_query_ending *ending, gy_query_node **input);

/* ---- push.c, order.c, prune.c: plans made better ---- */

/** Move conditions towards what they are about; order joins; find their keys. */
GY_MUST_CHECK gy_status gy_query_push(const gy_query_planner *planner, gy_query_list *above,
                                      gy_query_node **node);
GY_MUST_CHECK gy_status gy_query_order(const gy_query_planner *planner,
                                       gy_query_node *const *inputs, uint32_t count,
                                       gy_query_list *conditions, gy_query_node **out);
/** Equal pairs of columns become keys, of other expressions columns first. */
GY_MUST_CHECK gy_status gy_query_find_keys(const gy_query_planner *planner,
                                           gy_query_node *join);
/** Read and compute nothing that nobody needs; number the operators. */
GY_MUST_CHECK gy_status gy_query_prune(const gy_query_planner *planner, gy_query_node **node,
                                       const uint32_t *needed, uint32_t count);
/** gy_query_keep of a pruned operator. */
GY_MUST_CHECK gy_status gy_query_arrange(const gy_query_planner *planner,
                                         const uint32_t *columns, uint32_t count,
                                         gy_query_node **node);
/** Guess rows of an operator of those of its inputs. */
void gy_query_guess(const gy_query_plan *plan, gy_query_node *node);

#endif
