/* Statements of a function as instructions. */
#include "dml/run/parfor_priv.h"

#include <string.h>

gy_status gy_dml_emit(gy_dml_lowering *in, gy_dml_instruction instruction, size_t *at)
{
    gy_dml_function *function = in->function;
    GY_TRY(
        GY_GROW("dml.code", function->code, function->code_capacity, function->code_count + 1));
    if (at != NULL) {
        *at = function->code_count;
    }
    function->code[function->code_count++] = instruction;
    return GY_OK;
}

int32_t gy_dml_slot_new(gy_dml_lowering *in, int count)
{
    const int slot = in->top;
    in->top += count;
    in->function->slot_count = GY_MAX(in->function->slot_count, in->top);
    return slot;
}

gy_status gy_dml_constant(gy_dml_lowering *in, gy_dml_value value, int32_t *operand)
{
    gy_dml_function *function = in->function;
    const gy_status status = GY_GROW("dml.constants", function->constants,
                                     function->constant_capacity, function->constant_count + 1);
    if (status != GY_OK) {
        gy_dml_drop(&value);
        return status;
    }
    *operand = ~(int32_t)function->constant_count;
    function->constants[function->constant_count++] = value;
    return GY_OK;
}

gy_status gy_dml_operand_add(gy_dml_lowering *in, int32_t operand)
{
    gy_dml_function *function = in->function;
    GY_TRY(GY_GROW("dml.operands", function->operands, function->operand_capacity,
                   function->operand_count + 1));
    function->operands[function->operand_count++] = operand;
    return GY_OK;
}

int32_t gy_dml_variable(const gy_dml_lowering *in, const char *name)
{
    for (size_t i = 0; i < in->function->name_count; i++) {
        if (strcmp(in->function->names[i], name) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}

static gy_status add_name(gy_dml_lowering *in, const char *name)
{
    gy_dml_function *function = in->function;
    if (gy_dml_variable(in, name) >= 0) {
        return GY_OK;
    }
    GY_TRY(GY_GROW("dml.names", function->names, function->name_capacity,
                   function->name_count + 1));
    function->names[function->name_count++] = name;
    return GY_OK;
}

/* Every name that these statements assign. */
static gy_status add_names(gy_dml_lowering *in, const gy_dml_node *node)
{
    for (; node != NULL; node = node->next) {
        if (node->kind == GY_DML_SET || node->kind == GY_DML_ADD) {
            const gy_dml_node *target = node->a->kind == GY_DML_SEVERAL ? node->a->a : node->a;
            for (; target != NULL;
                 target = node->a->kind == GY_DML_SEVERAL ? target->next : NULL) {
                GY_TRY(add_name(in, target->text));
            }
        } else if (node->kind == GY_DML_IF || node->kind == GY_DML_WHILE) {
            GY_TRY(add_names(in, node->b));
            GY_TRY(add_names(in, node->c));
        } else if (node->kind == GY_DML_FOR || node->kind == GY_DML_PARFOR) {
            GY_TRY(add_name(in, node->text));
            GY_TRY(add_names(in, node->d));
        }
    }
    return GY_OK;
}

static gy_status lower_block(gy_dml_lowering *in, const gy_dml_node *node,
                             const gy_dml_node *loop);

/* The value of `node` into a target, through a slot of its own where the target is indexed. */
static gy_status assign(gy_dml_lowering *in, const gy_dml_node *target, const gy_dml_node *node)
{
    const int32_t slot = gy_dml_variable(in, target->text);
    int32_t value = 0, bounds = 0;
    if (target->kind == GY_DML_NAME) {
        GY_TRY(gy_dml_lower_expression(in, node, slot, &value));
        return value == slot ? GY_OK
                             : gy_dml_emit(in,
                                           (gy_dml_instruction){.what = GY_DML_DO_MOVE,
                                                                .to = slot,
                                                                .a = value,
                                                                .place = node->place},
                                           NULL);
    }
    GY_TRY(gy_dml_lower_expression(in, node, -1, &value));
    GY_TRY(gy_dml_lower_bounds(in, target, &bounds));
    return gy_dml_emit(in,
                       (gy_dml_instruction){.what = GY_DML_DO_PASTE,
                                            .to = slot,
                                            .a = value,
                                            .b = bounds,
                                            .place = target->place},
                       NULL);
}

/* x += y is x = x + y, also of a range. */
static gy_status accumulate(gy_dml_lowering *in, const gy_dml_node *node)
{
    gy_dml_node sum = {.kind = GY_DML_BINARY,
                       .sign = GY_DML_PLUS,
                       .place = node->place,
                       .a = node->a,
                       .b = node->b};
    return assign(in, node->a, &sum);
}

/* [a, b[1, ], c] = f(…) */
static gy_status assign_several(gy_dml_lowering *in, const gy_dml_node *node)
{
    int32_t slots[GY_DML_RESULTS_MAX * 4];
    int count = 0;
    for (const gy_dml_node *target = node->a->a; target != NULL; target = target->next) {
        if (count == (int)GY_COUNT(slots)) {
            return gy_dml_refuse(gy_dml_source_of(in), target->place, GY_LIMIT, "",
                                 "more than %d targets", (int)GY_COUNT(slots));
        }
        slots[count++] = target->kind == GY_DML_NAME ? gy_dml_variable(in, target->text)
                                                     : gy_dml_slot_new(in, 1);
    }
    GY_TRY(gy_dml_lower_call(in, node->b, slots, count));
    count = 0;
    for (const gy_dml_node *target = node->a->a; target != NULL; target = target->next) {
        int32_t bounds = 0;
        const int32_t slot = slots[count++];
        if (target->kind == GY_DML_INDEX) {
            GY_TRY(gy_dml_lower_bounds(in, target, &bounds));
            GY_TRY(gy_dml_emit(in,
                               (gy_dml_instruction){.what = GY_DML_DO_PASTE,
                                                    .to = gy_dml_variable(in, target->text),
                                                    .a = slot,
                                                    .b = bounds,
                                                    .place = target->place},
                               NULL));
        }
    }
    return GY_OK;
}

static void aim(gy_dml_lowering *in, size_t jump)
{
    in->function->code[jump].to = (int32_t)in->function->code_count;
}

/* Jump, to be aimed, where a condition is FALSE. */
static gy_status lower_condition(gy_dml_lowering *in, const gy_dml_node *node, size_t *jump)
{
    const int top = in->top;
    int32_t value = 0;
    GY_TRY(gy_dml_lower_expression(in, node, -1, &value));
    in->top = top;
    return gy_dml_emit(
        in,
        (gy_dml_instruction){.what = GY_DML_DO_JUMP_FALSE, .a = value, .place = node->place},
        jump);
}

static gy_status lower_if(gy_dml_lowering *in, const gy_dml_node *node)
{
    size_t to_else = 0, to_end = 0;
    GY_TRY(lower_condition(in, node->a, &to_else));
    GY_TRY(lower_block(in, node->b, NULL));
    if (node->c == NULL) {
        aim(in, to_else);
        return GY_OK;
    }
    GY_TRY(gy_dml_emit(in, (gy_dml_instruction){.what = GY_DML_DO_JUMP, .place = node->place},
                       &to_end));
    aim(in, to_else);
    GY_TRY(lower_block(in, node->c, NULL));
    aim(in, to_end);
    return GY_OK;
}

static gy_status lower_while(gy_dml_lowering *in, const gy_dml_node *node)
{
    const int32_t begin = (int32_t)in->function->code_count;
    size_t to_end = 0;
    GY_TRY(lower_condition(in, node->a, &to_end));
    GY_TRY(lower_block(in, node->b, node));
    GY_TRY(gy_dml_emit(
        in, (gy_dml_instruction){.what = GY_DML_DO_JUMP, .to = begin, .place = node->place},
        NULL));
    aim(in, to_end);
    return GY_OK;
}

/* The loop's first value, count and step into three hidden slots. */
static gy_status lower_header(gy_dml_lowering *in, const gy_dml_node *node, int32_t *loop)
{
    *loop = gy_dml_slot_new(in, 3);
    const int top = in->top;
    const gy_dml_node *parts[3] = {node->a, node->b, node->c};
    int32_t bounds[3] = {GY_DML_ABSENT, GY_DML_ABSENT, GY_DML_ABSENT};
    for (int k = 0; k < 3; k++) {
        if (parts[k] != NULL) {
            GY_TRY(gy_dml_lower_expression(in, parts[k], -1, &bounds[k]));
        }
    }
    const int32_t at = (int32_t)in->function->operand_count;
    for (int k = 0; k < 3; k++) {
        GY_TRY(gy_dml_operand_add(in, bounds[k]));
    }
    in->top = top;
    return gy_dml_emit(in,
                       (gy_dml_instruction){
                           .what = GY_DML_DO_LOOP, .to = *loop, .a = at, .place = node->place},
                       NULL);
}

static gy_status lower_for(gy_dml_lowering *in, const gy_dml_node *node)
{
    int32_t loop = 0;
    size_t next = 0;
    GY_TRY(lower_header(in, node, &loop));
    GY_TRY(gy_dml_emit(in,
                       (gy_dml_instruction){.what = GY_DML_DO_NEXT,
                                            .a = loop,
                                            .b = gy_dml_variable(in, node->text),
                                            .place = node->place},
                       &next));
    GY_TRY(lower_block(in, node->d, node));
    GY_TRY(gy_dml_emit(
        in,
        (gy_dml_instruction){.what = GY_DML_DO_JUMP, .to = (int32_t)next, .place = node->place},
        NULL));
    aim(in, next);
    in->top = loop;
    return GY_OK;
}

static gy_status lower_parfor(gy_dml_lowering *in, const gy_dml_node *node)
{
    gy_dml_function *function = in->function;
    int32_t loop = 0;
    size_t run = 0;
    GY_TRY(GY_GROW("dml.parfor", function->parfors, function->parfor_capacity,
                   function->parfor_count + 1));
    gy_dml_parfor *parfor = gy_alloc_zero("dml.parfor", 1, sizeof(*parfor));
    if (parfor == NULL) {
        return GY_NOMEM;
    }
    const int32_t index = (int32_t)function->parfor_count;
    function->parfors[function->parfor_count++] = parfor;
    GY_TRY(lower_header(in, node, &loop));
    GY_TRY(gy_dml_parfor_analyse(in, node, parfor));
    GY_TRY(
        gy_dml_emit(in,
                    (gy_dml_instruction){
                        .what = GY_DML_DO_PARFOR, .a = index, .b = loop, .place = node->place},
                    &run));
    GY_TRY(lower_block(in, node->d, node));
    GY_TRY(gy_dml_emit(in, (gy_dml_instruction){.what = GY_DML_DO_RETURN}, NULL));
    aim(in, run);
    in->top = loop;
    return GY_OK;
}

static bool has_results(gy_dml_lowering *in, const gy_dml_node *call)
{
    gy_dml_function *function = NULL;
    const gy_dml_builtin *builtin = gy_dml_builtin_find(call->text);
    if (gy_dml_function_find(in->script, in->function->unit, call->text, &function) == GY_OK &&
        function != NULL) {
        return function->node->b != NULL;
    }
    return builtin == NULL || builtin->results > 0;
}

/* What is typed alone at a terminal is shown; a call in a script is run. */
static gy_status lower_run(gy_dml_lowering *in, const gy_dml_node *node)
{
    const bool is_typed =
        in->function->unit->is_input && in->function->node == NULL && in->scope->outer == NULL;
    const bool is_call = node->a->kind == GY_DML_CALL;
    if (is_call && !(is_typed && has_results(in, node->a))) {
        return gy_dml_lower_call(in, node->a, NULL, 0);
    }
    if (!is_typed) {
        return gy_dml_refuse(gy_dml_source_of(in), node->place, GY_FORMAT,
                             "assign it to a name, or print it",
                             "the value of this expression is not used");
    }
    gy_dml_node value = {.kind = GY_DML_GIVEN, .place = node->a->place, .a = node->a};
    const gy_dml_node show = {
        .kind = GY_DML_CALL, .place = node->place, .text = "print", .a = &value};
    return gy_dml_lower_call(in, &show, NULL, 0);
}

static gy_status lower_statement(gy_dml_lowering *in, const gy_dml_node *node)
{
    switch (node->kind) {
    case GY_DML_SET:
        return node->a->kind == GY_DML_SEVERAL ? assign_several(in, node)
                                               : assign(in, node->a, node->b);
    case GY_DML_ADD:
        return accumulate(in, node);
    case GY_DML_RUN:
        return lower_run(in, node);
    case GY_DML_IF:
        return lower_if(in, node);
    case GY_DML_WHILE:
        return lower_while(in, node);
    case GY_DML_FOR:
        return lower_for(in, node);
    case GY_DML_PARFOR:
        return lower_parfor(in, node);
    case GY_DML_IMPORT:
    case GY_DML_SETWD:
        return GY_OK; /* taken when the unit was loaded */
    default:
        return gy_fail(GY_STATE, "no statement of kind %d", node->kind);
    }
}

static gy_status lower_block(gy_dml_lowering *in, const gy_dml_node *node,
                             const gy_dml_node *loop)
{
    gy_dml_scope scope = {.outer = in->scope, .loop = loop};
    gy_status status = GY_OK;
    in->scope = &scope;
    for (; node != NULL && status == GY_OK; node = node->next) {
        const int top = in->top;
        scope.rest = node->next;
        status = lower_statement(in, node);
        in->top = top;
    }
    in->scope = scope.outer;
    return status;
}

/* A parameter that was left out takes its default, which may use those before it. */
static gy_status lower_defaults(gy_dml_lowering *in)
{
    for (const gy_dml_node *node = in->function->node->a; node != NULL; node = node->next) {
        const int32_t slot = gy_dml_variable(in, node->text);
        size_t jump = 0;
        if (node->a == NULL) {
            continue;
        }
        GY_TRY(gy_dml_emit(in, (gy_dml_instruction){.what = GY_DML_DO_JUMP_GIVEN, .a = slot},
                           &jump));
        GY_TRY(assign(in, &(gy_dml_node){.kind = GY_DML_NAME, .text = node->text}, node->a));
        in->function->code[jump].to = (int32_t)in->function->code_count;
    }
    return GY_OK;
}

static gy_status lower_function(gy_dml_lowering *in)
{
    gy_dml_function *function = in->function;
    const gy_dml_node *node = function->node;
    if (node == NULL) {
        const gy_dml_function *before = in->script->statements;
        for (size_t i = 0; before != function && i < before->name_count; i++) {
            GY_TRY(add_name(in, before->names[i]));
            function->parameter_count++;
        }
        GY_TRY(add_names(in, function->unit->program.statements));
        in->top = (int)function->name_count;
        function->slot_count = in->top;
        GY_TRY(lower_block(in, function->unit->program.statements, NULL));
    } else if (node->is_external) {
        return gy_dml_refuse(gy_dml_source_of(in), node->place, GY_UNSUPPORTED,
                             "write its body in the script's language",
                             "%s is a function of Java, which is not run", node->text);
    } else {
        for (const gy_dml_node *one = node->a; one != NULL; one = one->next) {
            if (gy_dml_variable(in, one->text) >= 0) {
                return gy_dml_refuse(gy_dml_source_of(in), one->place, GY_EXISTS, "",
                                     "two parameters are called %s", one->text);
            }
            GY_TRY(add_name(in, one->text));
            function->parameter_count++;
        }
        for (const gy_dml_node *one = node->b; one != NULL; one = one->next) {
            GY_TRY(add_name(in, one->text));
            function->results[function->result_count++] = gy_dml_variable(in, one->text);
        }
        GY_TRY(add_names(in, node->c));
        in->top = (int)function->name_count;
        function->slot_count = in->top;
        GY_TRY(lower_defaults(in));
        GY_TRY(lower_block(in, node->c, NULL));
    }
    return gy_dml_emit(in, (gy_dml_instruction){.what = GY_DML_DO_RETURN}, NULL);
}

gy_status gy_dml_lower(gy_dml_script *script, gy_dml_function *function)
{
    const size_t begin = script->wanted_count;
    gy_status status = GY_OK;
    GY_TRY(GY_GROW("dml.wanted", script->wanted, script->wanted_capacity,
                   script->wanted_count + 1));
    if (function->is_lowered) {
        return GY_OK;
    }
    script->wanted[script->wanted_count++] = function;
    while (script->lowered_count < script->wanted_count && status == GY_OK) {
        gy_dml_function *next = script->wanted[script->lowered_count++];
        gy_dml_lowering in = {.script = script, .function = next};
        if (!next->is_lowered) {
            next->is_lowered = true;
            status = lower_function(&in);
        }
    }
    if (status != GY_OK) { /* none of them is to be called by what comes later */
        for (size_t i = begin; i < script->wanted_count; i++) {
            gy_dml_function_empty(script->wanted[i]);
        }
        script->wanted_count = script->lowered_count = begin;
    }
    return status;
}
