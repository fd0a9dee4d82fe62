/** Units, functions and instructions: what lowering makes and the runner runs. */
#ifndef GY_DML_RUN_RUN_PRIV_H
#define GY_DML_RUN_RUN_PRIV_H

#include "dml/builtins/builtins.h"
#include "dml/matrix/matrix.h"
#include "dml/run/run.h"
#include "dml/syntax/syntax.h"

#include <gyre/engine.h>

#include <stdatomic.h>

enum { GY_DML_CALLS_MAX = 2000, GY_DML_UNITS_MAX = 1000 };

/** An operand: >= 0 a slot, < 0 the constant ~operand, GY_DML_ABSENT none. */
enum { GY_DML_ABSENT = INT32_MIN };

typedef enum gy_dml_what {
    GY_DML_DO_MOVE,       /* to = a */
    GY_DML_DO_BINARY,     /* to = a (code) b */
    GY_DML_DO_UNARY,      /* to = (code) a */
    GY_DML_DO_PRODUCT,    /* to = a %*% b */
    GY_DML_DO_JUMP,       /* go on at `to` */
    GY_DML_DO_JUMP_FALSE, /* ... if a is FALSE */
    GY_DML_DO_JUMP_GIVEN, /* ... if slot a has a value */
    GY_DML_DO_EXISTS,     /* to = slot a has a value */
    GY_DML_DO_LOOP,       /* slots to, to+1, to+2: the first value, iterations, the step, of
                             operands[a ..]: from, end, step or absent */
    GY_DML_DO_NEXT,    /* slot b takes the next value of the loop at slot a, or go on at `to` */
    GY_DML_DO_CUT,     /* to = a[operands[b ..]]: row, row end, column, column end */
    GY_DML_DO_PASTE,   /* slot to[operands[b ..]] = a */
    GY_DML_DO_BUILTIN, /* operands[a ..]: builtin, count, arguments, results, slots; b: the
                          first of the arguments' names, or absent */
    GY_DML_DO_CALL,    /* operands[a ..]: callee, count, arguments, results, slots */
    GY_DML_DO_PARFOR, /* the iterations of the loop at slots b, b+1, b+2 by parfors[a]; its body
                         follows, up to a RETURN; go on at `to` */
    GY_DML_DO_RETURN,
} gy_dml_what;

typedef struct gy_dml_instruction {
    uint8_t what, code; /* code: gy_dml_binary, gy_dml_unary */
    int32_t to, a, b;
    uint32_t place; /* in the unit's source */
} gy_dml_instruction;

typedef struct gy_dml_unit gy_dml_unit;
typedef struct gy_dml_function gy_dml_function;
typedef struct gy_dml_parfor gy_dml_parfor;

struct gy_dml_function {
    const char *name;
    const gy_dml_node *node; /* NULL: the script's own statements */
    gy_dml_unit *unit;
    bool is_lowered;
    int index; /* in script->functions */
    gy_dml_instruction *code;
    size_t code_count, code_capacity;
    int32_t *operands;
    size_t operand_count, operand_capacity;
    gy_dml_value *constants;
    size_t constant_count, constant_capacity;
    const char **names; /* of the slots that are variables: parameters first */
    size_t name_count, name_capacity;
    int slot_count;      /* variables and what lies between operations */
    int parameter_count; /* variables that may have values before it begins; of an input, too */
    int32_t results[GY_DML_RESULTS_MAX * 4]; /* slots */
    int result_count;
    gy_dml_function **callees; /* what it calls; each lowered before this one runs */
    size_t callee_count, callee_capacity;
    gy_dml_parfor **parfors;
    size_t parfor_count, parfor_capacity;
};

/** source(...) as name, in one unit. */
typedef struct gy_dml_import {
    const char *name;
    gy_dml_unit *unit;
} gy_dml_import;

struct gy_dml_unit {
    char *path, *text;
    char *folder; /* of the path */
    gy_dml_source source;
    gy_dml_program program;
    gy_dml_function **functions; /* of this unit; the script owns them */
    size_t function_count, function_capacity;
    gy_dml_import *imports;
    size_t import_count, import_capacity;
    bool is_input; /* it has what earlier inputs have */
};

typedef struct gy_dml_profile_row {
    int64_t count, time_ns;
} gy_dml_profile_row;

/** Counts of instructions by what they do: see profile.c. */
typedef struct gy_dml_profile {
    gy_dml_profile_row *rows; /* (capacity) */
    size_t capacity;
    bool is_cut; /* there was no memory for a row */
} gy_dml_profile;

/** Who runs instructions: the script itself, or one piece of a parfor's iterations. */
typedef struct gy_dml_worker {
    gy_dml_script *script;
    gy_dml_state state;
    gy_dml_report *report; /* its own in a piece, whose failure may not be the first one */
    gy_dml_value *stack;
    size_t stack_count, stack_capacity;
    int call_depth;
    gy_dml_profile *profile; /* NULL: without statistics */
    bool may_spread;         /* a parfor that it meets goes to other threads, too */
} gy_dml_worker;

struct gy_dml_script {
    gy_dml_script_options options;
    gy_dml_report report;
    gy_dml_worker main;
    atomic_bool is_interrupted; /* what runs is to end; stale while nothing runs */
    bool is_terminal; /* statements come one by one: every variable may be read later */
    gy_dml_profile profile;
    int64_t compile_ns, total_ns;
    gy_engine *engine; /* made by the first parfor */
    gy_mutex lock;     /* of all below while a script runs: eval may load and lower */
    gy_dml_unit **units;
    size_t unit_count, unit_capacity;
    size_t input_count;
    gy_dml_function *statements; /* the script itself, or its last input */
    gy_dml_function **functions;
    size_t function_count, function_capacity;
    size_t lowered_count; /* of `wanted`: those before it are lowered */
    gy_dml_function **wanted;
    size_t wanted_count, wanted_capacity;
};

/** What is typed at a terminal as a unit; gives its statements as a function. */
gy_status gy_dml_unit_input(gy_dml_script *script, const char *text,
                            gy_dml_function **statements);
/** Load a file once. `from` names the unit and place that ask for it; NULL: the script itself.
 */
gy_status gy_dml_unit_load(gy_dml_script *script, const char *path, const char *text,
                           gy_dml_unit **unit);
/** The unit of a path as `source` looks it up: working folder, sourcing folder, library. */
gy_status gy_dml_unit_source(gy_dml_script *script, gy_dml_unit *from, const gy_dml_node *node,
                             gy_dml_unit **unit);
void gy_dml_unit_free(gy_dml_unit *unit);
gy_dml_function *gy_dml_unit_find(const gy_dml_unit *unit, const char *name);

/** A function that `unit` may call as `name`, from itself, an import or the library. NULL:
 * none. */
gy_status gy_dml_function_find(gy_dml_script *script, gy_dml_unit *unit, const char *name,
                               gy_dml_function **function);
/** As before it was lowered. */
void gy_dml_function_empty(gy_dml_function *function);
void gy_dml_function_free(gy_dml_function *function);

/** Have `function` and all that it calls lowered. */
gy_status gy_dml_lower(gy_dml_script *script, gy_dml_function *function);

/**
 * Run a function: its arguments lie at the top of the stack, `base` is where its slots begin.
 */
gy_status gy_dml_execute(gy_dml_worker *worker, gy_dml_function *function, size_t base);
/** Run the body of a parfor once, from instruction `begin` to its RETURN. `shared` says which
 * variables are matrices that all pieces write into, each its own cells; NULL: none. */
gy_status gy_dml_execute_body(gy_dml_worker *worker, gy_dml_function *function, size_t begin,
                              const bool *shared);
/** Room for `count` slots more, which are nothing; gives where they begin. */
gy_status gy_dml_stack_push(gy_dml_worker *worker, size_t count, size_t *base);
void gy_dml_stack_pop(gy_dml_worker *worker, size_t base);
/** An argument as the parameter's type has it. Replaces the value. */
gy_status gy_dml_convert(const gy_dml_node *parameter, gy_dml_value *value);

/** operands: row, row end, column, column end, nothing where absent. */
gy_status gy_dml_index_get(const gy_dml_value *from, const gy_dml_value bounds[4],
                           gy_dml_value *out);
gy_status gy_dml_index_set(gy_dml_value *to, const gy_dml_value bounds[4],
                           const gy_dml_value *value);
/** A matrix or list for writing: a copy unless the value alone holds it. */
gy_status gy_dml_index_own(gy_dml_value *to);
/** The same into a matrix that others hold and write to, too, none of them these cells. */
gy_status gy_dml_index_set_shared(const gy_dml_value *to, const gy_dml_value bounds[4],
                                  const gy_dml_value *value);

/** Two values by an operator; may write into `x` or `y` where they are temporary (bits 0, 1 of
 * `owned`) and alone. */
gy_status gy_dml_operate(gy_dml_binary code, gy_dml_value *x, gy_dml_value *y, int owned,
                         gy_dml_value *out);
gy_status gy_dml_operate_unary(gy_dml_unary code, gy_dml_value *x, bool is_owned,
                               gy_dml_value *out);

gy_status gy_dml_eval(gy_dml_state *state, const char *name, const gy_dml_list *args,
                      gy_dml_value *result);

#endif
