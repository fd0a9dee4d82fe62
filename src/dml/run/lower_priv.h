/** The state of lowering one function, shared by its files: statements and calls. */
#ifndef GY_DML_RUN_LOWER_PRIV_H
#define GY_DML_RUN_LOWER_PRIV_H

#include "dml/run/run_priv.h"

/** Where lowering is: what comes after a statement in its block and in those around it. */
typedef struct gy_dml_scope {
    const struct gy_dml_scope *outer;
    const gy_dml_node *rest; /* statements after this one */
    const gy_dml_node *loop; /* whose body the block is, or NULL */
} gy_dml_scope;

typedef struct gy_dml_lowering {
    gy_dml_script *script;
    gy_dml_function *function;
    const gy_dml_scope *scope;
    int top; /* slots in use: variables, hidden ones of loops, values between operations */
} gy_dml_lowering;

static inline const gy_dml_source *gy_dml_source_of(const gy_dml_lowering *in)
{
    return &in->function->unit->source;
}

/** Append; gives its index. */
gy_status gy_dml_emit(gy_dml_lowering *in, gy_dml_instruction instruction, size_t *at);
/** `count` slots that nothing else uses; they are given back by setting in->top. */
int32_t gy_dml_slot_new(gy_dml_lowering *in, int count);
/** Takes the hold. */
gy_status gy_dml_constant(gy_dml_lowering *in, gy_dml_value value, int32_t *operand);
gy_status gy_dml_operand_add(gy_dml_lowering *in, int32_t operand);

/** The slot of a variable; -1: the function assigns no such name. */
int32_t gy_dml_variable(const gy_dml_lowering *in, const char *name);

/** Where the value of an expression is: `to` if that is a slot, else as it comes. */
gy_status gy_dml_lower_expression(gy_dml_lowering *in, const gy_dml_node *node, int32_t to,
                                  int32_t *operand);
/** A call; results go to `slots` (`count` of them). */
gy_status gy_dml_lower_call(gy_dml_lowering *in, const gy_dml_node *node, const int32_t *slots,
                            int count);
/** The bounds of an index into the operands; gives where they begin. */
gy_status gy_dml_lower_bounds(gy_dml_lowering *in, const gy_dml_node *node, int32_t *at);

#endif
