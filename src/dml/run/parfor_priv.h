/** What a parfor does, told before it runs: what its iterations read and write, and who of the
 * runner does what with it. */
#ifndef GY_DML_RUN_PARFOR_PRIV_H
#define GY_DML_RUN_PARFOR_PRIV_H

#include "dml/run/lower_priv.h"
#include "dml/run/run_priv.h"

/* ---- accesses.c: what statements read and write ---- */

/** A loop around an access: the parfor itself is the first one. */
typedef struct gy_dml_loop {
    const gy_dml_node *node; /* FOR or PARFOR */
    int outer;               /* the loop around it; -1: none */
} gy_dml_loop;

/** Statements of one pair of braces. */
typedef struct gy_dml_block {
    int outer; /* -1: the parfor's own body */
    int loop;
} gy_dml_block;

typedef struct gy_dml_access {
    const gy_dml_node *node;  /* NAME, INDEX, or the FOR whose variable it is */
    const gy_dml_node *value; /* of a whole write by `=`: what is written, else NULL */
    const char *name;
    int block;
    bool is_write, is_whole;
    bool is_sum; /* by += on the whole variable */
} gy_dml_access;

/** All accesses in a parfor's body, in the order of the text. */
typedef struct gy_dml_accesses {
    gy_dml_access *items;
    size_t count, capacity;
    gy_dml_loop *loops;
    size_t loop_count, loop_capacity;
    gy_dml_block *blocks;
    size_t block_count, block_capacity;
} gy_dml_accesses;

GY_MUST_CHECK gy_status gy_dml_accesses_collect(const gy_dml_node *parfor,
                                                gy_dml_accesses *out);
void gy_dml_accesses_fini(gy_dml_accesses *accesses);

/** What happens first to a variable where statements run in their order. */
typedef enum gy_dml_first {
    GY_DML_UNTOUCHED,
    GY_DML_READ_FIRST,
    GY_DML_WRITTEN_FIRST
} gy_dml_first;

gy_dml_first gy_dml_first_use(const char *name, const gy_dml_node *statements);
/** Whether an expression has the name. */
bool gy_dml_uses(const char *name, const gy_dml_node *node);
/** How often statements assign the name; *value is what the last such `=` assigns, or NULL. */
int gy_dml_count_writes(const char *name, const gy_dml_node *statements,
                        const gy_dml_node **value);
/** A statement's loop of kind PARFOR with check=0 that assigns the name, in `statements`. */
bool gy_dml_writes_unchecked(const char *name, const gy_dml_node *statements);

/* ---- depend.c: whether two accesses meet ---- */

typedef enum gy_dml_verdict {
    GY_DML_INDEPENDENT,
    GY_DML_UNDECIDED, /* by what is known before the script runs */
    GY_DML_DEPENDENT,
} gy_dml_verdict;

/** What is known of values when accesses are compared. */
typedef struct gy_dml_known {
    const gy_dml_accesses *accesses;
    const gy_dml_function *function;
    const gy_dml_value *slots; /* of the function, when its parfor begins; NULL: not yet */
} gy_dml_known;

/**
 * Whether two iterations may access the same cell, one by `a`, the other by `b`. Subscripts are
 * taken as linear functions of loop variables: bounds of their differences over all pairs of
 * iterations (Banerjee), and divisors of their factors (GCD). Never INDEPENDENT wrongly.
 * @cost O(2^loops) @source Banerjee, "Dependence Analysis for Supercomputing", 1988
 */
gy_dml_verdict gy_dml_depend(const gy_dml_known *known, const gy_dml_access *a,
                             const gy_dml_access *b);

/* ---- analyse.c: a parfor's variables ---- */

typedef enum gy_dml_role {
    GY_DML_ROLE_OWN,    /* each iteration begins with what was there before the loop */
    GY_DML_ROLE_SUM,    /* only += : pieces begin at zero and are added in their order */
    GY_DML_ROLE_CELLS,  /* only indexed, no two iterations the same cells: all write into it */
    GY_DML_ROLE_MERGED, /* a piece keeps it; what differs from before is taken, in order */
} gy_dml_role;

typedef struct gy_dml_written {
    int32_t slot;
    gy_dml_role role;
} gy_dml_written;

struct gy_dml_parfor {
    const gy_dml_node *node;
    gy_dml_accesses accesses;
    gy_dml_written *written;
    size_t written_count, written_capacity;
    int32_t variable; /* slot of the loop's variable */
    int32_t par;      /* operand of par=, or absent */
    bool is_checked;
    bool is_decided; /* false: the accesses are compared again when the loop begins */
};

/** Options and variables of a parfor; refuses a dependence between its iterations. */
GY_MUST_CHECK gy_status gy_dml_parfor_analyse(gy_dml_lowering *in, const gy_dml_node *node,
                                              gy_dml_parfor *parfor);
/** Compare what could not be decided before, with the values of the frame. `source` takes the
 * report. */
GY_MUST_CHECK gy_status gy_dml_parfor_decide(const gy_dml_parfor *parfor,
                                             const gy_dml_function *function,
                                             const gy_dml_value *slots,
                                             const gy_dml_source *source);
void gy_dml_parfor_free(gy_dml_parfor *parfor);

/* ---- merge.c: what pieces of the iterations leave ---- */

/** Where a += of a piece begins: nothing of the value's kind and shape. */
GY_MUST_CHECK gy_status gy_dml_merge_begin(const gy_dml_value *before, gy_dml_value *out);
/** Take what `made` has and `before` has not into `to`: cells of matrices of one size, items of
 * lists of one length, all of others. */
GY_MUST_CHECK gy_status gy_dml_merge(const gy_dml_value *before, const gy_dml_value *made,
                                     gy_dml_value *to);

/* ---- parfor.c: running it ---- */

typedef struct gy_dml_parfor_call {
    gy_dml_worker *worker;
    gy_dml_function *function;
    size_t base;        /* of the function's slots */
    int32_t loop;       /* the three hidden slots */
    size_t body;        /* first instruction */
    const bool *shared; /* of the loop around it, or NULL */
} gy_dml_parfor_call;

/** Run all iterations. GY_OK; what the first iteration that failed failed with, and its report;
 * a dependence that its values show. */
GY_MUST_CHECK gy_status gy_dml_parfor_run(const gy_dml_parfor *parfor,
                                          const gy_dml_parfor_call *call);

#endif
