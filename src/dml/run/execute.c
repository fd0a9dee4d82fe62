/* The runner: one loop over a function's instructions, its slots on the script's stack. */
#include "dml/run/parfor_priv.h"
#include "dml/run/profile_priv.h"
#include "dml/run/run_priv.h"

#include <math.h>
#include <string.h>

typedef struct frame {
    gy_dml_worker *worker;
    gy_dml_function *function;
    gy_dml_value *slots; /* moves when the stack grows: see `call` */
    size_t base;
    int32_t variables;  /* slots below are variables, others hold a value for one reader */
    const bool *shared; /* (variables), or NULL: see gy_dml_execute_body */
} frame;

gy_status gy_dml_stack_push(gy_dml_worker *worker, size_t count, size_t *base)
{
    GY_TRY(GY_GROW("dml.stack", worker->stack, worker->stack_capacity,
                   worker->stack_count + count));
    *base = worker->stack_count;
    for (size_t i = 0; i < count; i++) {
        worker->stack[worker->stack_count++].kind = GY_DML_IS_NOTHING;
    }
    return GY_OK;
}

void gy_dml_stack_pop(gy_dml_worker *worker, size_t base)
{
    while (worker->stack_count > base) {
        gy_dml_drop(&worker->stack[--worker->stack_count]);
    }
}

static inline gy_dml_value *value_of(const frame *f, int32_t operand)
{
    return operand >= 0 ? &f->slots[operand] : &f->function->constants[~operand];
}

static inline void store(frame *f, int32_t to, gy_dml_value value)
{
    gy_dml_drop(&f->slots[to]);
    f->slots[to] = value;
}

/* What was read for the last time. */
static inline void release(frame *f, int32_t operand)
{
    if (operand >= f->variables) {
        gy_dml_drop(&f->slots[operand]);
    }
}

static gy_status refuse(const frame *f, uint32_t place, gy_status status)
{
    gy_dml_source source = f->function->unit->source;
    source.report = f->worker->report;
    return source.report->status != GY_OK
               ? status
               : gy_dml_refuse(&source, place, status, "", "%s", gy_error_text());
}

static gy_status without_value(const frame *f, int32_t operand)
{
    const bool is_variable = operand >= 0 && operand < f->variables;
    return gy_fail(GY_STATE, "%s has no value here",
                   is_variable ? f->function->names[operand] : "an operand");
}

static gy_status check_value(const frame *f, int32_t operand)
{
    return value_of(f, operand)->kind != GY_DML_IS_NOTHING ? GY_OK : without_value(f, operand);
}

/* Two doubles, or integers that do not overflow. False: not such a case. */
static inline bool operate_reals(gy_dml_binary code, double x, double y, gy_dml_value *out)
{
    switch ((int)code) {
    case GY_DML_CELL_PLUS:
        *out = gy_dml_of_real(x + y);
        return true;
    case GY_DML_CELL_MINUS:
        *out = gy_dml_of_real(x - y);
        return true;
    case GY_DML_CELL_TIMES:
        *out = gy_dml_of_real(x * y);
        return true;
    case GY_DML_CELL_DIVIDE:
        *out = gy_dml_of_real(x / y);
        return true;
    case GY_DML_CELL_LESS:
        *out = gy_dml_of_boolean(x < y);
        return true;
    case GY_DML_CELL_GREATER:
        *out = gy_dml_of_boolean(x > y);
        return true;
    default:
        return false;
    }
}

static inline bool operate_integers(gy_dml_binary code, int64_t x, int64_t y, gy_dml_value *out)
{
    out->kind = GY_DML_IS_INTEGER;
    switch ((int)code) {
    case GY_DML_CELL_PLUS:
        return !__builtin_add_overflow(x, y, &out->whole);
    case GY_DML_CELL_MINUS:
        return !__builtin_sub_overflow(x, y, &out->whole);
    case GY_DML_CELL_TIMES:
        return !__builtin_mul_overflow(x, y, &out->whole);
    case GY_DML_CELL_LESS:
        *out = gy_dml_of_boolean(x < y);
        return true;
    case GY_DML_CELL_GREATER:
        *out = gy_dml_of_boolean(x > y);
        return true;
    case GY_DML_CELL_EQUAL:
        *out = gy_dml_of_boolean(x == y);
        return true;
    default:
        return false;
    }
}

static inline bool operate_fast(gy_dml_binary code, const gy_dml_value *x,
                                const gy_dml_value *y, gy_dml_value *out)
{
    if (x->kind == GY_DML_IS_REAL) {
        return y->kind == GY_DML_IS_REAL
                   ? operate_reals(code, x->real, y->real, out)
                   : y->kind == GY_DML_IS_INTEGER &&
                         operate_reals(code, x->real, (double)y->whole, out);
    }
    if (x->kind == GY_DML_IS_INTEGER) {
        return y->kind == GY_DML_IS_INTEGER
                   ? operate_integers(code, x->whole, y->whole, out)
                   : y->kind == GY_DML_IS_REAL &&
                         operate_reals(code, (double)x->whole, y->real, out);
    }
    return false;
}

static gy_status binary(frame *f, const gy_dml_instruction *at)
{
    gy_dml_value *x = value_of(f, at->a), *y = value_of(f, at->b), out;
    if (!operate_fast((gy_dml_binary)at->code, x, y, &out)) {
        out.kind = GY_DML_IS_NOTHING;
        GY_TRY(check_value(f, at->a));
        GY_TRY(check_value(f, at->b));
        const int owned = (at->a >= f->variables || (at->a == at->to && at->a != at->b)) |
                          (at->b >= f->variables || (at->b == at->to && at->a != at->b)) << 1;
        const gy_status status = gy_dml_operate((gy_dml_binary)at->code, x, y, owned, &out);
        if (status != GY_OK) {
            gy_dml_drop(&out);
            return status;
        }
        release(f, at->a);
        release(f, at->b);
    }
    store(f, at->to, out);
    return GY_OK;
}

static gy_status unary(frame *f, const gy_dml_instruction *at)
{
    gy_dml_value *x = value_of(f, at->a), out = GY_DML_NONE;
    GY_TRY(check_value(f, at->a));
    GY_TRY(gy_dml_operate_unary((gy_dml_unary)at->code, x,
                                at->a >= f->variables || at->a == at->to, &out));
    release(f, at->a);
    store(f, at->to, out);
    return GY_OK;
}

static gy_status product(frame *f, const gy_dml_instruction *at)
{
    gy_dml_matrix *a = NULL, *b = NULL, *out = NULL;
    GY_TRY(gy_dml_as_matrix(value_of(f, at->a), "%*%", &a));
    gy_status status = gy_dml_as_matrix(value_of(f, at->b), "%*%", &b);
    status = status == GY_OK ? gy_dml_product(a, b, &out) : status;
    gy_dml_matrix_drop(a);
    gy_dml_matrix_drop(b);
    GY_TRY(status);
    release(f, at->a);
    release(f, at->b);
    store(f, at->to, gy_dml_of_matrix(out));
    return GY_OK;
}

static gy_status move(frame *f, const gy_dml_instruction *at)
{
    GY_TRY(check_value(f, at->a));
    const gy_dml_value value = gy_dml_hold(*value_of(f, at->a));
    release(f, at->a);
    store(f, at->to, value);
    return GY_OK;
}

/* A loop over whole numbers where all three are whole, else over doubles. */
static gy_status begin_loop(frame *f, const gy_dml_instruction *at)
{
    static const char *const parts[] = {"the loop's first value", "the loop's last value",
                                        "the loop's step"};
    const int32_t *operands = f->function->operands + at->a;
    double values[3] = {0, 0, 1};
    for (int k = 0; k < 3; k++) {
        if (operands[k] != GY_DML_ABSENT) {
            GY_TRY(check_value(f, operands[k]));
            GY_TRY(gy_dml_as_real(value_of(f, operands[k]), parts[k], &values[k]));
        } else {
            values[2] = values[0] <= values[1] ? 1 : -1;
        }
        if (!isfinite(values[k]) || fabs(values[k]) > 0x1p62) {
            return gy_fail(GY_ARG, "%s is %g", parts[k], values[k]);
        }
    }
    if (values[2] == 0) {
        return gy_fail(GY_ARG, "the loop's step is 0");
    }
    const bool is_whole = rint(values[0]) == values[0] && rint(values[2]) == values[2];
    const double count = floor((values[1] - values[0]) / values[2] + 1e-10) + 1;
    store(f, at->to,
          is_whole ? gy_dml_of_integer((int64_t)values[0]) : gy_dml_of_real(values[0]));
    store(f, at->to + 1, gy_dml_of_integer(count > 0 ? (int64_t)count : 0));
    store(f, at->to + 2,
          is_whole ? gy_dml_of_integer((int64_t)values[2]) : gy_dml_of_real(values[2]));
    for (int k = 0; k < 3; k++) {
        release(f, operands[k]);
    }
    return GY_OK;
}

/* False: the loop is over. */
static inline bool next_iteration(frame *f, const gy_dml_instruction *at)
{
    gy_dml_value *loop = &f->slots[at->a];
    if (loop[1].whole == 0) {
        return false;
    }
    loop[1].whole--;
    store(f, at->b, loop[0]);
    if (loop[0].kind == GY_DML_IS_INTEGER) {
        loop[0].whole += loop[2].whole;
    } else {
        loop[0].real += loop[2].real;
    }
    return true;
}

/* The bounds of an index, borrowed. */
static gy_status bounds_of(const frame *f, int32_t at, gy_dml_value bounds[4])
{
    const int32_t *operands = f->function->operands + at;
    for (int k = 0; k < 4; k++) {
        bounds[k] = GY_DML_NONE;
        if (operands[k] != GY_DML_ABSENT) {
            GY_TRY(check_value(f, operands[k]));
            bounds[k] = *value_of(f, operands[k]);
        }
    }
    return GY_OK;
}

static void release_bounds(frame *f, int32_t at)
{
    for (int k = 0; k < 4; k++) {
        release(f, f->function->operands[at + k]);
    }
}

static gy_status cut(frame *f, const gy_dml_instruction *at)
{
    gy_dml_value bounds[4], out = GY_DML_NONE;
    GY_TRY(check_value(f, at->a));
    GY_TRY(bounds_of(f, at->b, bounds));
    const gy_status status = gy_dml_index_get(value_of(f, at->a), bounds, &out);
    if (status != GY_OK) {
        gy_dml_drop(&out);
        return status;
    }
    release_bounds(f, at->b);
    store(f, at->to, out);
    return GY_OK;
}

static gy_status paste(frame *f, const gy_dml_instruction *at)
{
    gy_dml_value bounds[4];
    GY_TRY(check_value(f, at->to));
    GY_TRY(check_value(f, at->a));
    GY_TRY(bounds_of(f, at->b, bounds));
    const bool is_shared =
        f->shared != NULL && f->shared[at->to] && f->slots[at->to].kind == GY_DML_IS_MATRIX;
    GY_TRY(is_shared ? gy_dml_index_set_shared(&f->slots[at->to], bounds, value_of(f, at->a))
                     : gy_dml_index_set(&f->slots[at->to], bounds, value_of(f, at->a)));
    release_bounds(f, at->b);
    release(f, at->a);
    return GY_OK;
}

static gy_status give_results(frame *f, const gy_dml_builtin *builtin, gy_dml_value *results,
                              const int32_t *slots, int count)
{
    gy_status status = GY_OK;
    for (int i = 0; i < count && status == GY_OK; i++) {
        if (results[i].kind == GY_DML_IS_NOTHING) {
            status = gy_fail(GY_ARG, "%s has no result %d", builtin->name, i + 1);
        } else {
            store(f, slots[i], results[i]);
            results[i].kind = GY_DML_IS_NOTHING;
        }
    }
    return status;
}

enum { FEW = 24 }; /* arguments that lie on the stack, of which calls nest */

/* The arguments of a call, borrowed, and the names of the further ones. */
static gy_status take_arguments(frame *f, const gy_dml_instruction *at, int parameters,
                                gy_dml_value *args, const char **names)
{
    const int32_t *operands = f->function->operands + at->a;
    const int count = operands[1];
    for (int i = 0; i < GY_MAX(count, parameters); i++) {
        const int32_t operand = i < count ? operands[2 + i] : GY_DML_ABSENT;
        args[i] = GY_DML_NONE;
        names[i] = NULL;
        if (operand != GY_DML_ABSENT) {
            GY_TRY(check_value(f, operand));
            args[i] = *value_of(f, operand);
        }
        if (i >= parameters && at->b != GY_DML_ABSENT) {
            const gy_dml_value *name = &f->function->constants[at->b + i - parameters];
            names[i] = name->kind == GY_DML_IS_TEXT ? name->text->data : NULL;
        }
    }
    return GY_OK;
}

/* Drop the arguments that nobody reads again, unless a result took their slot. */
static void release_arguments(frame *f, const int32_t *operands)
{
    const int count = operands[1], wanted = operands[2 + count];
    for (int i = 0; i < count; i++) {
        bool is_result = false;
        for (int k = 0; k < wanted; k++) {
            is_result = is_result || operands[3 + count + k] == operands[2 + i];
        }
        if (!is_result) {
            release(f, operands[2 + i]);
        }
    }
}

static gy_status run_builtin(frame *f, const gy_dml_instruction *at, gy_dml_value *args,
                             const char **names)
{
    const int32_t *operands = f->function->operands + at->a;
    const gy_dml_builtin *builtin = &gy_dml_builtins[operands[0]];
    const int count = operands[1];
    gy_dml_value results[GY_DML_RESULTS_MAX] = {{.kind = GY_DML_IS_NOTHING}};
    GY_TRY(take_arguments(f, at, gy_dml_builtin_parameters(builtin), args, names));
    gy_dml_call call = {.state = &f->worker->state,
                        .builtin = builtin,
                        .args = args,
                        .names = names,
                        .count = count,
                        .wanted = operands[2 + count],
                        .results = results};
    gy_status status = builtin->run(&call);
    f->slots = f->worker->stack + f->base; /* eval may have grown the stack */
    if (status == GY_OK) {
        status = give_results(f, builtin, results, operands + 3 + count, call.wanted);
    }
    for (int i = 0; i < GY_DML_RESULTS_MAX; i++) {
        gy_dml_drop(&results[i]);
    }
    if (status == GY_OK) {
        release_arguments(f, operands);
    }
    return status;
}

static __attribute__((noinline)) gy_status call_builtin(frame *f, const gy_dml_instruction *at)
{
    gy_dml_value few_args[FEW], *args = few_args;
    const char *few_names[FEW], **names = few_names;
    const int count = f->function->operands[at->a + 1];
    if (count <= FEW) {
        return run_builtin(f, at, args, names);
    }
    args = gy_alloc("dml.arguments", (size_t)count * sizeof(*args));
    names = gy_alloc("dml.arguments", (size_t)count * sizeof(*names));
    const gy_status status =
        args != NULL && names != NULL ? run_builtin(f, at, args, names) : GY_NOMEM;
    gy_free(args);
    gy_free(names);
    return status;
}

gy_status gy_dml_convert(const gy_dml_node *parameter, gy_dml_value *value)
{
    gy_dml_value made = GY_DML_NONE;
    if (parameter->data == GY_DML_DATA_MATRIX && value->kind != GY_DML_IS_MATRIX &&
        value->kind != GY_DML_IS_LIST && value->kind != GY_DML_IS_TEXT) {
        gy_dml_matrix *matrix = NULL;
        GY_TRY(gy_dml_as_matrix(value, parameter->text, &matrix));
        made = gy_dml_of_matrix(matrix);
    } else if (parameter->data == GY_DML_DATA_SCALAR) {
        double real = 0;
        bool truth = false;
        int64_t whole = 0;
        if (parameter->element == GY_DML_ELEMENT_DOUBLE && value->kind != GY_DML_IS_REAL) {
            GY_TRY(gy_dml_as_real(value, parameter->text, &real));
            made = gy_dml_of_real(real);
        } else if (parameter->element == GY_DML_ELEMENT_INTEGER &&
                   value->kind != GY_DML_IS_INTEGER) {
            GY_TRY(gy_dml_as_integer(value, parameter->text, &whole));
            made = gy_dml_of_integer(whole);
        } else if (parameter->element == GY_DML_ELEMENT_BOOLEAN &&
                   value->kind != GY_DML_IS_BOOLEAN) {
            GY_TRY(gy_dml_as_boolean(value, parameter->text, &truth));
            made = gy_dml_of_boolean(truth);
        }
    }
    if (made.kind != GY_DML_IS_NOTHING) {
        gy_dml_drop(value);
        *value = made;
    }
    return GY_OK;
}

/* The arguments of a call into the slots of the function, which begin at `base`. */
static gy_status pass_arguments(frame *f, const int32_t *operands, gy_dml_function *callee,
                                size_t base)
{
    int i = 0;
    for (const gy_dml_node *node = callee->node->a; node != NULL; node = node->next, i++) {
        if (operands[2 + i] != GY_DML_ABSENT) {
            GY_TRY(check_value(f, operands[2 + i]));
            gy_dml_value *slot = &f->worker->stack[base + (size_t)i];
            *slot = gy_dml_hold(*value_of(f, operands[2 + i]));
            release(f, operands[2 + i]);
            if (gy_dml_convert(node, slot) != GY_OK) {
                return gy_fail_within(GY_TYPE, "argument %s of %s", node->text, callee->name);
            }
        }
    }
    return GY_OK;
}

static gy_status call(frame *f, const gy_dml_instruction *at)
{
    const int32_t *operands = f->function->operands + at->a;
    gy_dml_worker *worker = f->worker;
    gy_dml_function *callee = f->function->callees[operands[0]];
    const int32_t *slots = operands + 3 + operands[1];
    const int wanted = operands[2 + operands[1]];
    size_t base = 0;
    if (worker->call_depth >= GY_DML_CALLS_MAX) {
        return gy_fail(GY_LIMIT, "%s: calls are nested deeper than %d: endless recursion?",
                       callee->name, GY_DML_CALLS_MAX);
    }
    GY_TRY(gy_dml_stack_push(worker, (size_t)callee->slot_count, &base));
    f->slots = worker->stack + f->base;
    gy_status status = pass_arguments(f, operands, callee, base);
    worker->call_depth++;
    status = status == GY_OK ? gy_dml_execute(worker, callee, base) : status;
    worker->call_depth--;
    f->slots = worker->stack + f->base;
    for (int i = 0; i < wanted && status == GY_OK; i++) {
        gy_dml_value *result = &worker->stack[base + (size_t)callee->results[i]];
        if (result->kind == GY_DML_IS_NOTHING) {
            status = gy_fail(GY_STATE, "%s ended without a value for its result %s",
                             callee->name, callee->names[callee->results[i]]);
        } else {
            store(f, slots[i], gy_dml_hold(*result));
        }
    }
    gy_dml_stack_pop(worker, base);
    return status;
}

static gy_status parfor(frame *f, const gy_dml_instruction *at)
{
    const gy_dml_parfor_call call = {
        .worker = f->worker,
        .function = f->function,
        .base = f->base,
        .loop = at->b,
        .body = (size_t)(at - f->function->code) + 1,
        .shared = f->shared,
    };
    const gy_status status = gy_dml_parfor_run(f->function->parfors[at->a], &call);
    f->slots = f->worker->stack + f->base;
    return status;
}

/* Asked where a function or an iteration begins, where code goes back, and before what may take
 * long; a kernel that runs is not ended. */
static gy_status check_interrupt(const frame *f)
{
    return !atomic_load_explicit(&f->worker->script->is_interrupted, memory_order_relaxed)
               ? GY_OK
               : gy_fail(GY_CANCELLED, "interrupted");
}

static gy_status step(frame *f, const gy_dml_instruction *at)
{
    GY_TRY(check_interrupt(f));
    switch (at->what) {
    case GY_DML_DO_MOVE:
        return move(f, at);
    case GY_DML_DO_UNARY:
        return unary(f, at);
    case GY_DML_DO_PRODUCT:
        return product(f, at);
    case GY_DML_DO_EXISTS:
        store(f, at->to, gy_dml_of_boolean(f->slots[at->a].kind != GY_DML_IS_NOTHING));
        return GY_OK;
    case GY_DML_DO_LOOP:
        return begin_loop(f, at);
    case GY_DML_DO_CUT:
        return cut(f, at);
    case GY_DML_DO_PASTE:
        return paste(f, at);
    case GY_DML_DO_BUILTIN:
        return call_builtin(f, at);
    default:
        return call(f, at);
    }
}

static gy_status is_false(frame *f, const gy_dml_instruction *at, bool *is_it)
{
    bool truth = false;
    gy_dml_value *value = value_of(f, at->a);
    if (value->kind == GY_DML_IS_BOOLEAN) {
        *is_it = !value->truth;
        return GY_OK;
    }
    GY_TRY(check_value(f, at->a));
    GY_TRY(gy_dml_as_boolean(value, "a condition", &truth));
    release(f, at->a);
    *is_it = !truth;
    return GY_OK;
}

/* From instruction `at` to a RETURN. */
static gy_status execute(frame *frame_of_it, const gy_dml_instruction *at)
{
    frame f = *frame_of_it;
    const gy_dml_instruction *code = f.function->code;
    gy_dml_profile *const profile = f.worker->profile;
    for (;; at++) {
        gy_status status = GY_OK;
        bool is_taken = false;
        const int64_t begun_ns = profile != NULL ? gy_dml_profile_now() : 0;
        switch (at->what) {
        case GY_DML_DO_BINARY:
            status = binary(&f, at);
            break;
        case GY_DML_DO_JUMP:
            status = check_interrupt(&f);
            is_taken = true;
            break;
        case GY_DML_DO_JUMP_FALSE:
            status = is_false(&f, at, &is_taken);
            break;
        case GY_DML_DO_JUMP_GIVEN:
            is_taken = f.slots[at->a].kind != GY_DML_IS_NOTHING;
            break;
        case GY_DML_DO_NEXT:
            is_taken = !next_iteration(&f, at);
            break;
        case GY_DML_DO_PARFOR:
            status = parfor(&f, at);
            is_taken = true;
            break;
        case GY_DML_DO_RETURN: /* of an iteration of a parfor, too */
            status = check_interrupt(&f);
            if (status == GY_OK) {
                return GY_OK;
            }
            break;
        default:
            status = step(&f, at);
            break;
        }
        if (status != GY_OK) {
            return refuse(&f, at->place, status);
        }
        if (profile != NULL) {
            gy_dml_profile_note(profile, f.function, at, begun_ns);
        }
        if (is_taken) {
            at = code + at->to - 1;
        }
    }
}

gy_status gy_dml_execute(gy_dml_worker *worker, gy_dml_function *function, size_t base)
{
    frame f = {.worker = worker,
               .function = function,
               .slots = worker->stack + base,
               .base = base,
               .variables = (int32_t)function->name_count};
    return execute(&f, function->code);
}

gy_status gy_dml_execute_body(gy_dml_worker *worker, gy_dml_function *function, size_t begin,
                              const bool *shared)
{
    frame f = {.worker = worker,
               .function = function,
               .slots = worker->stack,
               .variables = (int32_t)function->name_count,
               .shared = shared};
    return execute(&f, function->code + begin);
}
