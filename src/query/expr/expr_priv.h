/**
 * Private to folder expr. Evaluation takes a frame in chunks of GY_EXPR_ROWS rows: each node's
 * kernel evaluates its arguments over the chunk, then makes a vector of its own. A mask says
 * which rows are asked for: the others may hold anything, and fail nothing.
 */
#ifndef GY_QUERY_EXPR_EXPR_PRIV_H
#define GY_QUERY_EXPR_EXPR_PRIV_H

#include "query/expr/expr.h"
#include "query/values/values.h"

enum {
    GY_EXPR_ROWS = 1024,
    GY_EXPR_ROWS_FEW = 64, /* of a chunk where texts of more rows take too much memory */
    GY_EXPR_WORDS = GY_EXPR_ROWS / 64,
    GY_EXPR_DEPTH_MAX =
        2500,             /* levels of a tree: each takes some stack, and a chunk's memory */
    GY_EXPR_INTERVAL = 8, /* a class of values, behind those of gy_field_kind */
    GY_EXPR_CLASSES
};

/** The value of a row. */
typedef struct gy_expr_cell {
    bool is_null;
    union {
        bool truth;
        int64_t integer; /* int64, timestamp; of a date its days */
        double real;
        gy_int128 decimal;
        gy_text_view text;
        gy_interval interval;
    };
} gy_expr_cell;

/** The values of a chunk. */
typedef struct gy_expr_vector {
    const uint64_t *valid; /* bits; NULL: no nulls */
    bool is_constant;      /* element 0 stands for all rows */
    union {
        const void *any;
        const uint64_t *bits; /* of bool */
        const int64_t *integers;
        const double *reals;
        const gy_int128 *decimals;
        const int32_t *dates;
        const gy_text_view *texts;
        const gy_interval *intervals;
    };
} gy_expr_vector;

typedef struct gy_expr_block gy_expr_block;
typedef struct gy_expr_pattern gy_expr_pattern;

/** The memory of one call. */
typedef struct gy_expr_work {
    const gy_frame *frame;
    int64_t begin;                    /* of the chunk, a row of the frame */
    int rows;                         /* of the chunk */
    gy_expr_block *blocks[2], *at[2]; /* the first, the one at hand; of vectors, and of texts */
    gy_expr_pattern *patterns;        /* patterns that were made */
    size_t text_bytes;                /* that were made for the rows of the chunk */
    bool is_full;                     /* they would be over gy_expr_texts_max */
} gy_expr_work;

/** A kernel: the values of the rows in `mask`. */
typedef gy_status (*gy_expr_run)(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                                 gy_expr_vector *out);
/** The same of one row; `args` has no nulls, unless the expression takes them. */
typedef gy_status (*gy_expr_row)(gy_expr_work *work, const gy_expr *expr,
                                 const gy_expr_cell *args, gy_expr_cell *out);

struct gy_expr {
    gy_expr_run run;
    gy_expr_row row; /* of gy_expr_run_rows */
    gy_expr_type type;
    const gy_expr **args;
    int count;
    int index;         /* of a column; else what the kernel has beside its arguments */
    int op;            /* of the kernel */
    bool is_not;       /* the contrary */
    bool takes_nulls;  /* the kernel is called for rows with nulls too */
    bool is_constant;  /* a literal */
    gy_expr_cell cell; /* its value; or what the kernel has beside its arguments */
    const void *list;  /* of a literal its value in memory; of in: the values; of a call of the
                          program's function that */
    const char *name;  /* the operator or function, in messages */
    uint32_t place;
};

/* ---- work.c ---- */

/** Memory until gy_expr_release goes back behind its mark: not zeroed, 64 bytes aligned. */
void *gy_expr_memory(gy_expr_work *work, size_t size_bytes);
/** Memory for the bytes of texts, until the chunk ends. NULL: GY_NOMEM; also where the texts of
 * the chunk become too many, which gy_expr_work_end makes of it. */
char *gy_expr_text_memory(gy_expr_work *work, size_t size_bytes);

typedef struct gy_expr_mark {
    gy_expr_block *block;
    size_t used;
} gy_expr_mark;
gy_expr_mark gy_expr_mark_of(const gy_expr_work *work);
void gy_expr_release(gy_expr_work *work, gy_expr_mark mark);

int gy_expr_class(const gy_expr_type *type);
size_t gy_expr_class_bytes(int value_class); /* 0: a bit */

GY_MUST_CHECK gy_status gy_expr_eval(gy_expr_work *work, const gy_expr *expr,
                                     const uint64_t *mask, gy_expr_vector *out);
/** All arguments, constants spread over the rows, and the rows of `out` that have a value if
 * all of them have one. */
GY_MUST_CHECK gy_status gy_expr_eval_args(gy_expr_work *work, const gy_expr *expr,
                                          const uint64_t *mask, gy_expr_vector *args,
                                          gy_expr_vector *out);
/** Make a constant vector one with all its rows. */
GY_MUST_CHECK gy_status gy_expr_spread(gy_expr_work *work, int value_class,
                                       gy_expr_vector *vector);
/** The rows of both, of which either may be NULL for all. */
GY_MUST_CHECK gy_status gy_expr_both(gy_expr_work *work, const uint64_t *a, const uint64_t *b,
                                     const uint64_t **out);
/** Whether no row is left. */
bool gy_expr_is_empty(const gy_expr_work *work, const uint64_t *mask);
gy_expr_cell gy_expr_cell_at(int value_class, const gy_expr_vector *vector, int row);

gy_status gy_expr_run_constant(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                               gy_expr_vector *out);
gy_status gy_expr_run_column(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                             gy_expr_vector *out);
gy_status gy_expr_run_rows(gy_expr_work *work, const gy_expr *expr, const uint64_t *mask,
                           gy_expr_vector *out);
/** The value of an expression without columns; a text lies in the arena. */
GY_MUST_CHECK gy_status gy_expr_value(const gy_expr *expr, gy_arena *arena, gy_expr_cell *cell);

/** Begin a chunk; what the one before had is no more. */
/** How the evaluation ended, whose memory is freed. @return `status`; GY_LIMIT texts were too
 * many */
gy_status gy_expr_work_end(gy_expr_work *work, gy_status status);
void gy_expr_work_begin(gy_expr_work *work, int64_t begin, int rows);
void gy_expr_work_fini(gy_expr_work *work);
/** Memory for the values of a chunk. */
void *gy_expr_values(gy_expr_work *work, int value_class);

static inline bool gy_expr_bit(const uint64_t *bits, int row)
{
    return bits == NULL || (bits[row >> 6] >> (row & 63) & 1) != 0;
}

static inline int gy_expr_words(const gy_expr_work *work)
{
    return (work->rows + 63) / 64;
}

/* ---- bind.c, and what it chooses from ---- */

typedef struct gy_expr_binder {
    const gy_expr_scope *scope;
    int depth;
} gy_expr_binder;

/** What is new of an expression; it becomes a constant where its arguments are. */
typedef struct gy_expr_spec {
    gy_expr_run run; /* NULL: gy_expr_run_rows */
    gy_expr_row row;
    gy_expr_type type;
    const gy_expr **args;
    int count, op, index;
    bool is_not, takes_nulls;
    const void *list;
    const char *name;
    uint32_t place;
} gy_expr_spec;

GY_MUST_CHECK gy_status gy_expr_make(gy_expr_binder *in, const gy_expr_spec *spec,
                                     const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_constant(gy_expr_binder *in, uint32_t place, gy_expr_type type,
                                         gy_expr_cell cell, const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_bind_node(gy_expr_binder *in, const gy_sql_node *node,
                                          const gy_expr **out);
/** Bind the items of a node; *args is (count). */
GY_MUST_CHECK gy_status gy_expr_bind_items(gy_expr_binder *in, const gy_sql_node *node,
                                           const gy_expr ***args);
/** Two arguments; NULL: GY_NOMEM was reported. */
const gy_expr **gy_expr_pair(gy_expr_binder *in, const gy_expr *a, const gy_expr *b);
/** Memory of the arena; NULL: GY_NOMEM was reported. */
void *gy_expr_new(const gy_expr_binder *in, size_t size_bytes);
/** "operator does not exist: int64 + text". */
gy_status gy_expr_no_operator(gy_expr_binder *in, uint32_t place, const char *name,
                              const gy_expr *const *args, int count);

/* ---- types.c ---- */

gy_expr_type gy_expr_simple(int value_class, bool is_nullable);
gy_expr_type gy_expr_decimal(int precision, int scale, bool is_nullable);
bool gy_expr_is_number(const gy_expr_type *type);
/** The decimal that a value becomes where no digits are named. */
gy_expr_type gy_expr_natural_decimal(const gy_expr *arg);
/** Make an argument one of that class, implicitly. */
GY_MUST_CHECK gy_status gy_expr_to_class(gy_expr_binder *in, const gy_expr **arg,
                                         int value_class);
GY_MUST_CHECK gy_status gy_expr_to_type(gy_expr_binder *in, const gy_expr **arg,
                                        const gy_expr_type *type);
/** Whether values of the one class become those of the other where that is not asked for. */
bool gy_expr_is_implicit(const gy_expr_type *from, int value_class);
/** All of them to their common type. `what`: "CASE", in the error. */
GY_MUST_CHECK gy_status gy_expr_unify(gy_expr_binder *in, uint32_t place, const char *what,
                                      const gy_expr **args, int count, gy_expr_type *type);

/* ---- cast.c ---- */

/** An explicit cast; `is_saturated`: a decimal that is too large becomes the largest number,
 * for comparisons. GY_TYPE: there is none. */
GY_MUST_CHECK gy_status gy_expr_cast_to(gy_expr_binder *in, uint32_t place, const gy_expr *arg,
                                        const gy_expr_type *type, const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_bind_cast(gy_expr_binder *in, const gy_sql_node *node,
                                          const gy_expr **out);
/** The same number with so many places; one that is too large fails. */
GY_MUST_CHECK gy_status gy_expr_rescale_checked(gy_expr_binder *in, const gy_expr **arg,
                                                int scale);
/** The same for a comparison: one that is too large becomes the largest of all. */
GY_MUST_CHECK gy_status gy_expr_rescale(gy_expr_binder *in, const gy_expr **arg, int scale);
/** To a text as it is shown: of a bool t or f, where a cast makes true or false of it. */
GY_MUST_CHECK gy_status gy_expr_output(gy_expr_binder *in, const gy_expr **arg);
/** A value as a text in the work's memory. */
GY_MUST_CHECK gy_status gy_expr_text_of(gy_expr_work *work, const gy_expr_type *type,
                                        const gy_expr_cell *cell, gy_text_view *text);
/** Bytes that stay until the chunk ends. */
GY_MUST_CHECK gy_status gy_expr_keep_text(gy_expr_work *work, const char *data, size_t size,
                                          gy_text_view *text);

/* ---- arith.c, compare.c, logic.c, choose.c ---- */

/** and, or of bools. */
GY_MUST_CHECK gy_status gy_expr_chain(gy_expr_binder *in, uint32_t place, gy_sql_kind kind,
                                      const gy_expr **args, int count, const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_not(gy_expr_binder *in, uint32_t place, const gy_expr *arg,
                                    const gy_expr **out);

GY_MUST_CHECK gy_status gy_expr_bind_operation(gy_expr_binder *in, const gy_sql_node *node,
                                               const gy_expr **out);
/** An arithmetic operator of bound arguments. */
GY_MUST_CHECK gy_status gy_expr_arithmetic(gy_expr_binder *in, uint32_t place, const char *name,
                                           const gy_expr *left, const gy_expr *right,
                                           const gy_expr **out);

typedef enum gy_expr_comparison {
    GY_EXPR_EQUAL,
    GY_EXPR_UNEQUAL,
    GY_EXPR_LESS,
    GY_EXPR_LESS_EQUAL,
    GY_EXPR_GREATER,
    GY_EXPR_GREATER_EQUAL
} gy_expr_comparison;

GY_MUST_CHECK gy_status gy_expr_compare(gy_expr_binder *in, uint32_t place,
                                        gy_expr_comparison op, const gy_expr *left,
                                        const gy_expr *right, const gy_expr **out);
/** Below 0, 0, above: as the order of that class has them; of decimals of one scale. */
int gy_expr_order(int value_class, const gy_expr_cell *a, const gy_expr_cell *b);
GY_MUST_CHECK gy_status gy_expr_bind_logic(gy_expr_binder *in, const gy_sql_node *node,
                                           const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_bind_choice(gy_expr_binder *in, const gy_sql_node *node,
                                            const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_bind_in(gy_expr_binder *in, const gy_sql_node *node,
                                        const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_bind_between(gy_expr_binder *in, const gy_sql_node *node,
                                             const gy_expr **out);

/* ---- time.c, text.c, match.c, calls.c ---- */

/* Operators of times, of texts and of patterns; *is_done false: it is none of them. */
GY_MUST_CHECK gy_status gy_expr_time_operation(gy_expr_binder *in, const gy_sql_node *node,
                                               const gy_expr **args, bool *is_done,
                                               const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_text_operation(gy_expr_binder *in, const gy_sql_node *node,
                                               const gy_expr **args, bool *is_done,
                                               const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_match_operation(gy_expr_binder *in, const gy_sql_node *node,
                                                const gy_expr **args, bool *is_done,
                                                const gy_expr **out);
GY_MUST_CHECK gy_status gy_expr_bind_like(gy_expr_binder *in, const gy_sql_node *node,
                                          const gy_expr **out);
/** The types of arguments, in the arena. NULL: GY_NOMEM */
gy_expr_type *gy_expr_types_of(const gy_expr_binder *in, const gy_expr *const *args,
                               uint32_t count);
/** "int64, text", as errors say it. */
void gy_expr_types_text(const gy_expr_type *types, uint32_t count, char out[300]);
GY_MUST_CHECK gy_status gy_expr_bind_call(gy_expr_binder *in, const gy_sql_node *node,
                                          const gy_expr **out);

/** A call of a function of the program, of bound arguments (own.c). */
GY_MUST_CHECK gy_status gy_expr_bind_own(gy_expr_binder *in, const gy_sql_node *node,
                                         const gy_query_function *function,
                                         const gy_expr **args, const gy_expr **out);

void gy_expr_patterns_free(gy_expr_work *work);

/* ---- functions: math.c, text.c, time.c ---- */

/** A function of one row. */
typedef struct gy_expr_function {
    const char *name;
    /** A letter an argument: i int64, n decimal, d double, t text, T timestamp, a any as a
     * text; a last '*' repeats the one before it. */
    const char *args;
    int result; /* a class of values */
    gy_expr_row row;
    int op;
    gy_expr_type (*type)(const gy_expr *const *args, int count); /* NULL: that of `result` */
    bool takes_nulls, gives_null;
    bool is_exact; /* the first argument must be of its type */
} gy_expr_function;

/* Each ends with a line without a name. */
extern const gy_expr_function gy_expr_math[], gy_expr_texts[], gy_expr_times[],
    gy_expr_errors[];

/** The day of a timestamp. */
int64_t gy_expr_days(int64_t micros);
/** Upper or lower case, in the work's memory. */
GY_MUST_CHECK gy_status gy_expr_turn_case(gy_expr_work *work, gy_text_view text, bool is_upper,
                                          gy_text_view *out);
/** The kind of pattern that a row function of patterns has as its `op`: a regular expression.
 */
enum { GY_EXPR_REGEX, GY_EXPR_REPLACE };
/** substring(text from regular expression) */
gy_status gy_expr_row_replace(gy_expr_work *work, const gy_expr *expr, const gy_expr_cell *args,
                              gy_expr_cell *out);
gy_status gy_expr_row_match_part(gy_expr_work *work, const gy_expr *expr,
                                 const gy_expr_cell *args, gy_expr_cell *out);
/** extract and date_part */
GY_MUST_CHECK gy_status gy_expr_bind_extract(gy_expr_binder *in, const gy_sql_node *node,
                                             const gy_expr **args, const gy_expr **out);

#endif
