/* Expressions and calls as instructions; names are bound here. */
#include "dml/run/lower_priv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    gy_dml_sign sign;
    gy_dml_binary code;
} binary_codes[] = {
    {GY_DML_POWER, GY_DML_CELL_POWER},
    {GY_DML_WHOLE_DIVIDE, GY_DML_CELL_WHOLE_DIVIDE},
    {GY_DML_MODULO, GY_DML_CELL_MODULO},
    {GY_DML_MULTIPLY, GY_DML_CELL_TIMES},
    {GY_DML_DIVIDE, GY_DML_CELL_DIVIDE},
    {GY_DML_PLUS, GY_DML_CELL_PLUS},
    {GY_DML_MINUS, GY_DML_CELL_MINUS},
    {GY_DML_LESS, GY_DML_CELL_LESS},
    {GY_DML_LESS_EQUAL, GY_DML_CELL_LESS_EQUAL},
    {GY_DML_GREATER, GY_DML_CELL_GREATER},
    {GY_DML_GREATER_EQUAL, GY_DML_CELL_GREATER_EQUAL},
    {GY_DML_EQUAL, GY_DML_CELL_EQUAL},
    {GY_DML_NOT_EQUAL, GY_DML_CELL_NOT_EQUAL},
    {GY_DML_AND, GY_DML_CELL_AND},
    {GY_DML_OR, GY_DML_CELL_OR},
};

/* A text of the command line as the literal that it looks like. */
static gy_status literal_of(const char *text, gy_dml_value *value)
{
    char *end = NULL;
    const size_t size = strlen(text);
    if (strcmp(text, "TRUE") == 0 || strcmp(text, "FALSE") == 0) {
        *value = gy_dml_of_boolean(text[0] == 'T');
        return GY_OK;
    }
    if (size >= 2 && (text[0] == '"' || text[0] == '\'') && text[size - 1] == text[0]) {
        return gy_dml_of_text(text + 1, size - 2, value);
    }
    if (size > 0 && strspn(text, "+-.0123456789eE") == size) {
        errno = 0;
        const long long whole = strtoll(text, &end, 10);
        if (*end == '\0' && errno == 0) {
            *value = gy_dml_of_integer(whole);
            return GY_OK;
        }
        const double real = strtod(text, &end);
        if (*end == '\0') {
            *value = gy_dml_of_real(real);
            return GY_OK;
        }
    }
    return gy_dml_of_text(text, size, value);
}

/* $1 or $name; NULL: it was not given. */
static const char *argument(const gy_dml_script *script, const char *name)
{
    const gy_dml_script_options *options = &script->options;
    if (name[0] >= '0' && name[0] <= '9') {
        const long place = strtol(name, NULL, 10);
        return place >= 1 && place <= options->arg_count ? options->args[place - 1] : NULL;
    }
    const size_t size = strlen(name);
    for (int i = 0; i < options->named_count; i++) {
        if (strncmp(options->named[i], name, size) == 0 && options->named[i][size] == '=') {
            return options->named[i] + size + 1;
        }
    }
    return NULL;
}

static gy_status lower_argument(gy_dml_lowering *in, const gy_dml_node *node, int32_t *operand)
{
    const char *text = argument(in->script, node->text);
    gy_dml_value value = GY_DML_NONE;
    if (text == NULL) {
        char hint[128];
        const bool is_place = node->text[0] >= '0' && node->text[0] <= '9';
        gy_print(hint, sizeof(hint),
                 is_place ? "give it behind -args, or use ifdef($%.40s, default)"
                          : "give -nvargs %.40s=..., or use ifdef with a default",
                 node->text);
        return gy_dml_refuse(gy_dml_source_of(in), node->place, GY_ARG, hint,
                             "the argument $%s was not given", node->text);
    }
    GY_TRY(literal_of(text, &value));
    return gy_dml_constant(in, value, operand);
}

/* The nearest names of variables, for an error. */
static gy_status undefined(gy_dml_lowering *in, const gy_dml_node *node)
{
    gy_text near = {.data = NULL};
    for (size_t i = 0; i < in->function->name_count; i++) {
        if (gy_dml_is_near(node->text, in->function->names[i])) {
            gy_text_add(&near, "%s%s", near.size_bytes > 0 ? ", " : "did you mean ",
                        in->function->names[i]);
        }
    }
    const gy_status status = gy_dml_refuse(gy_dml_source_of(in), node->place, GY_NOTFOUND,
                                           gy_text_get(&near), "%s is not defined", node->text);
    gy_text_free(&near);
    return status;
}

static gy_status lower_name(gy_dml_lowering *in, const gy_dml_node *node, int32_t *operand)
{
    static const struct {
        const char *name;
        double value;
    } constants[] = {{"Inf", INFINITY}, {"NaN", NAN}, {"NA", NAN}, {"pi", M_PI}, {"PI", M_PI}};
    *operand = gy_dml_variable(in, node->text);
    if (*operand >= 0) {
        return GY_OK;
    }
    for (size_t i = 0; i < GY_COUNT(constants); i++) {
        if (strcmp(constants[i].name, node->text) == 0) {
            return gy_dml_constant(in, gy_dml_of_real(constants[i].value), operand);
        }
    }
    return undefined(in, node);
}

static gy_status lower_binary(gy_dml_lowering *in, const gy_dml_node *node, int32_t to)
{
    gy_dml_instruction made = {.what = GY_DML_DO_PRODUCT, .to = to, .place = node->place};
    GY_TRY(gy_dml_lower_expression(in, node->a, -1, &made.a));
    GY_TRY(gy_dml_lower_expression(in, node->b, -1, &made.b));
    for (size_t i = 0; i < GY_COUNT(binary_codes); i++) {
        if (binary_codes[i].sign == node->sign) {
            made.what = GY_DML_DO_BINARY;
            made.code = (uint8_t)binary_codes[i].code;
        }
    }
    return gy_dml_emit(in, made, NULL);
}

static gy_status lower_unary(gy_dml_lowering *in, const gy_dml_node *node, int32_t to)
{
    gy_dml_instruction made = {.what = GY_DML_DO_UNARY,
                               .code = node->sign == GY_DML_NOT ? GY_DML_CELL_NOT
                                                                : GY_DML_CELL_NEGATE,
                               .to = to,
                               .place = node->place};
    GY_TRY(gy_dml_lower_expression(in, node->a, -1, &made.a));
    if (node->sign == GY_DML_PLUS) {
        made.what = GY_DML_DO_MOVE;
    }
    return gy_dml_emit(in, made, NULL);
}

gy_status gy_dml_lower_bounds(gy_dml_lowering *in, const gy_dml_node *node, int32_t *at)
{
    int32_t bounds[4] = {GY_DML_ABSENT, GY_DML_ABSENT, GY_DML_ABSENT, GY_DML_ABSENT};
    const gy_dml_node *ranges[2] = {node->a, node->b};
    for (int k = 0; k < 2; k++) {
        if (ranges[k] != NULL) {
            GY_TRY(gy_dml_lower_expression(in, ranges[k]->a, -1, &bounds[k + k]));
            if (ranges[k]->b != NULL) {
                GY_TRY(gy_dml_lower_expression(in, ranges[k]->b, -1, &bounds[k + k + 1]));
            }
        }
    }
    *at = (int32_t)in->function->operand_count;
    for (int k = 0; k < 4; k++) {
        GY_TRY(gy_dml_operand_add(in, bounds[k]));
    }
    return GY_OK;
}

static gy_status lower_cut(gy_dml_lowering *in, const gy_dml_node *node, int32_t to)
{
    gy_dml_instruction made = {.what = GY_DML_DO_CUT, .to = to, .place = node->place};
    GY_TRY(lower_name(in, node, &made.a));
    GY_TRY(gy_dml_lower_bounds(in, node, &made.b));
    return gy_dml_emit(in, made, NULL);
}

/* [1, 2, 3] as an argument is list(1, 2, 3). */
static gy_status lower_several(gy_dml_lowering *in, const gy_dml_node *node, int32_t to)
{
    gy_arena *arena = &in->function->unit->program.arena;
    gy_dml_node call = {.kind = GY_DML_CALL, .place = node->place, .text = "list"};
    gy_dml_node **last = &call.a;
    for (gy_dml_node *item = node->a; item != NULL; item = item->next) {
        gy_dml_node *given = gy_arena_alloc(arena, sizeof(*given));
        if (given == NULL) {
            return GY_NOMEM;
        }
        given->kind = GY_DML_GIVEN;
        given->place = item->place;
        given->a = item;
        *last = given;
        last = &given->next;
    }
    return gy_dml_lower_call(in, &call, &to, 1);
}

static gy_status lower_literal(gy_dml_lowering *in, const gy_dml_node *node, int32_t *operand)
{
    gy_dml_value value = node->kind == GY_DML_INTEGER  ? gy_dml_of_integer(node->whole)
                         : node->kind == GY_DML_DOUBLE ? gy_dml_of_real(node->real)
                                                       : gy_dml_of_boolean(node->whole != 0);
    if (node->kind == GY_DML_STRING) {
        GY_TRY(gy_dml_of_text(node->text, strlen(node->text), &value));
    }
    return gy_dml_constant(in, value, operand);
}

/* ifdef($x, default): which of the two is known before the script runs. */
static gy_status lower_ifdef(gy_dml_lowering *in, const gy_dml_node *node, int32_t to,
                             int32_t *operand)
{
    const gy_dml_node *first = node->a, *second = first != NULL ? first->next : NULL;
    if (second == NULL || second->next != NULL || first->a->kind != GY_DML_ARGUMENT) {
        return gy_dml_refuse(gy_dml_source_of(in), node->place, GY_ARG,
                             "it is ifdef($name, default)",
                             "ifdef takes an argument of the command line and a default");
    }
    return argument(in->script, first->a->text) != NULL
               ? lower_argument(in, first->a, operand)
               : gy_dml_lower_expression(in, second->a, to, operand);
}

static gy_status lower_exists(gy_dml_lowering *in, const gy_dml_node *node, int32_t to,
                              int32_t *operand)
{
    const gy_dml_node *what = node->a->a;
    if (node->a->next != NULL || (what->kind != GY_DML_NAME && what->kind != GY_DML_STRING)) {
        return gy_dml_refuse(gy_dml_source_of(in), node->place, GY_ARG, "it is exists(name)",
                             "exists takes one name");
    }
    const int32_t slot = gy_dml_variable(in, what->text);
    if (slot < 0) {
        return gy_dml_constant(in, gy_dml_of_boolean(false), operand);
    }
    *operand = to >= 0 ? to : gy_dml_slot_new(in, 1);
    return gy_dml_emit(
        in,
        (gy_dml_instruction){
            .what = GY_DML_DO_EXISTS, .to = *operand, .a = slot, .place = node->place},
        NULL);
}

gy_status gy_dml_lower_expression(gy_dml_lowering *in, const gy_dml_node *node, int32_t to,
                                  int32_t *operand)
{
    switch (node->kind) {
    case GY_DML_INTEGER:
    case GY_DML_DOUBLE:
    case GY_DML_BOOLEAN:
    case GY_DML_STRING:
        return lower_literal(in, node, operand);
    case GY_DML_NAME:
        return lower_name(in, node, operand);
    case GY_DML_ARGUMENT:
        return lower_argument(in, node, operand);
    default:
        break;
    }
    const bool is_own =
        node->kind == GY_DML_CALL && gy_dml_unit_find(in->function->unit, node->text) != NULL;
    if (node->kind == GY_DML_CALL && !is_own && strcmp(node->text, "ifdef") == 0) {
        return lower_ifdef(in, node, to, operand);
    }
    if (node->kind == GY_DML_CALL && !is_own && strcmp(node->text, "exists") == 0 &&
        node->a != NULL) {
        return lower_exists(in, node, to, operand);
    }
    *operand = to >= 0 ? to : gy_dml_slot_new(in, 1);
    switch (node->kind) {
    case GY_DML_SEVERAL:
        return lower_several(in, node, *operand);
    case GY_DML_INDEX:
        return lower_cut(in, node, *operand);
    case GY_DML_UNARY:
        return lower_unary(in, node, *operand);
    case GY_DML_BINARY:
        return lower_binary(in, node, *operand);
    default:
        return gy_dml_lower_call(in, node, operand, 1);
    }
}

/* ---- calls ---- */

/* The arguments of a call by parameter; further ones behind them. */
typedef struct bound {
    int32_t operands[256];
    const char *names[256]; /* of further ones */
    int parameters, count;
} bound;

static gy_status wrong_argument(gy_dml_lowering *in, const gy_dml_node *call,
                                const gy_dml_node *given, const char *signature)
{
    char hint[256];
    gy_print(hint, sizeof(hint), "it is %.60s(%.160s)", call->text, signature);
    return given->text != NULL ? gy_dml_refuse(gy_dml_source_of(in), given->place, GY_ARG, hint,
                                               "%s has no parameter %s, or it is given twice",
                                               call->text, given->text)
                               : gy_dml_refuse(gy_dml_source_of(in), given->place, GY_ARG, hint,
                                               "%s takes no more arguments", call->text);
}

/* Lower the arguments to where `place` says that they belong: -1 nowhere, parameters or more:
 * a further one. Those without a name take the parameters in order. */
static gy_status bind(gy_dml_lowering *in, const gy_dml_node *call, const char *signature,
                      int (*place)(const void *of, const char *name), const void *of,
                      bound *out)
{
    const bool is_open = out->count > 0; /* the caller says so */
    int next = 0;
    out->count = out->parameters;
    for (const gy_dml_node *given = call->a; given != NULL; given = given->next) {
        int at = given->text != NULL ? place(of, given->text) : -1;
        if (given->text == NULL) {
            while (next < out->parameters && out->operands[next] != GY_DML_ABSENT) {
                next++;
            }
            at = next < out->parameters ? next : -1;
        }
        if (at < 0 && is_open && out->count < (int)GY_COUNT(out->operands)) {
            at = out->count++;
            out->names[at] = given->text;
            out->operands[at] = GY_DML_ABSENT;
        }
        if (at < 0 || out->operands[at] != GY_DML_ABSENT) {
            return wrong_argument(in, call, given, signature);
        }
        GY_TRY(gy_dml_lower_expression(in, given->a, -1, &out->operands[at]));
    }
    return GY_OK;
}

static int place_in_function(const void *of, const char *name)
{
    int at = 0;
    for (const gy_dml_node *node = of; node != NULL; node = node->next, at++) {
        if (strcmp(node->text, name) == 0) {
            return at;
        }
    }
    return -1;
}

static int place_in_builtin(const void *of, const char *name)
{
    return gy_dml_builtin_parameter(of, name);
}

static gy_status missing(gy_dml_lowering *in, const gy_dml_node *call, const char *parameter,
                         const char *signature)
{
    char hint[256];
    gy_print(hint, sizeof(hint), "it is %.60s(%.160s)", call->text, signature);
    return gy_dml_refuse(gy_dml_source_of(in), call->place, GY_ARG, hint,
                         "%s: the argument %s is missing", call->text, parameter);
}

/* operands: which, count, the arguments, result count, the slots. */
static gy_status emit_call(gy_dml_lowering *in, gy_dml_instruction made, int which,
                           const bound *args, const int32_t *slots)
{
    const int count = made.to; /* of results, until the instruction is emitted */
    made.a = (int32_t)in->function->operand_count;
    made.b = GY_DML_ABSENT;
    GY_TRY(gy_dml_operand_add(in, which));
    GY_TRY(gy_dml_operand_add(in, args->count));
    for (int i = 0; i < args->count; i++) {
        GY_TRY(gy_dml_operand_add(in, args->operands[i]));
    }
    GY_TRY(gy_dml_operand_add(in, count));
    for (int i = 0; i < count; i++) {
        GY_TRY(gy_dml_operand_add(in, slots[i]));
    }
    for (int i = args->parameters; i < args->count && made.what == GY_DML_DO_BUILTIN; i++) {
        int32_t name = 0;
        gy_dml_value text = GY_DML_NONE;
        if (args->names[i] != NULL) {
            GY_TRY(gy_dml_of_text(args->names[i], strlen(args->names[i]), &text));
        }
        GY_TRY(gy_dml_constant(in, text, &name));
        made.b = i == args->parameters ? ~name : made.b;
    }
    return gy_dml_emit(in, made, NULL);
}

static const char *function_signature(const gy_dml_function *function, gy_text *text)
{
    for (const gy_dml_node *node = function->node->a; node != NULL; node = node->next) {
        gy_text_add(text, "%s", node == function->node->a ? "" : ", ");
        gy_dml_print_node(node, text);
    }
    return gy_text_get(text);
}

/* The caller keeps its callees itself: those of the script may move while it runs. */
static gy_status callee_of(gy_dml_function *caller, gy_dml_function *callee, int32_t *which)
{
    for (size_t i = 0; i < caller->callee_count; i++) {
        if (caller->callees[i] == callee) {
            *which = (int32_t)i;
            return GY_OK;
        }
    }
    GY_TRY(GY_GROW("dml.callees", caller->callees, caller->callee_capacity,
                   caller->callee_count + 1));
    *which = (int32_t)caller->callee_count;
    caller->callees[caller->callee_count++] = callee;
    return GY_OK;
}

static gy_status call_function(gy_dml_lowering *in, const gy_dml_node *call,
                               gy_dml_function *function, const int32_t *slots, int count)
{
    bound args = {.parameters = 0};
    gy_text text = {.data = NULL};
    const char *signature = function_signature(function, &text);
    for (const gy_dml_node *node = function->node->a; node != NULL; node = node->next) {
        args.operands[args.parameters++] = GY_DML_ABSENT;
        if (args.parameters == (int)GY_COUNT(args.operands)) {
            break;
        }
    }
    gy_status status = bind(in, call, signature, place_in_function, function->node->a, &args);
    int at = 0, results = 0;
    for (const gy_dml_node *node = function->node->a; node != NULL && status == GY_OK;
         node = node->next, at++) {
        if (args.operands[at] == GY_DML_ABSENT && node->a == NULL) {
            status = missing(in, call, node->text, signature);
        }
    }
    gy_text_free(&text);
    GY_TRY(status);
    for (const gy_dml_node *node = function->node->b; node != NULL; node = node->next) {
        results++;
    }
    if (results == 0 && count == 1) { /* SystemDS lets a name take what is nothing */
        int32_t nothing = 0;
        GY_TRY(gy_dml_constant(in, gy_dml_of_boolean(true), &nothing));
        GY_TRY(gy_dml_emit(
            in,
            (gy_dml_instruction){
                .what = GY_DML_DO_MOVE, .to = slots[0], .a = nothing, .place = call->place},
            NULL));
        count = 0;
    }
    if (count > results) {
        return gy_dml_refuse(gy_dml_source_of(in), call->place, GY_ARG, "",
                             "%s has %d results, not %d", call->text, results, count);
    }
    if (!function->is_lowered) {
        GY_TRY(GY_GROW("dml.wanted", in->script->wanted, in->script->wanted_capacity,
                       in->script->wanted_count + 1));
        in->script->wanted[in->script->wanted_count++] = function;
    }
    int32_t which = 0;
    GY_TRY(callee_of(in->function, function, &which));
    return emit_call(
        in, (gy_dml_instruction){.what = GY_DML_DO_CALL, .to = count, .place = call->place},
        which, &args, slots);
}

static gy_status call_builtin(gy_dml_lowering *in, const gy_dml_node *call,
                              const gy_dml_builtin *builtin, const int32_t *slots, int count)
{
    bound args = {.parameters = gy_dml_builtin_parameters(builtin),
                  .count = gy_dml_builtin_is_open(builtin)};
    for (int i = 0; i < args.parameters; i++) {
        args.operands[i] = GY_DML_ABSENT;
    }
    GY_TRY(bind(in, call, builtin->signature, place_in_builtin, builtin, &args));
    for (int i = 0; i < args.parameters; i++) {
        char name[32];
        if (gy_dml_builtin_needs(builtin, i, name) && args.operands[i] == GY_DML_ABSENT) {
            return missing(in, call, name, builtin->signature);
        }
    }
    if (count > builtin->results) {
        return gy_dml_refuse(gy_dml_source_of(in), call->place, GY_ARG, "",
                             builtin->results == 0 ? "%s gives no value"
                                                   : "%s has fewer results than that",
                             call->text);
    }
    return emit_call(
        in, (gy_dml_instruction){.what = GY_DML_DO_BUILTIN, .to = count, .place = call->place},
        (int)(builtin - gy_dml_builtins), &args, slots);
}

static gy_status unknown_function(gy_dml_lowering *in, const gy_dml_node *call)
{
    gy_text near = {.data = NULL};
    const gy_dml_unit *unit = in->function->unit;
    const char *absent = gy_dml_builtin_absent(call->text);
    if (absent != NULL) {
        return gy_dml_refuse(gy_dml_source_of(in), call->place, GY_UNSUPPORTED, absent,
                             "there is no function %s", call->text);
    }
    for (size_t i = 0; i < unit->function_count; i++) {
        if (gy_dml_is_near(call->text, unit->functions[i]->name)) {
            gy_text_add(&near, "%s%s", near.size_bytes > 0 ? ", " : "did you mean ",
                        unit->functions[i]->name);
        }
    }
    for (int i = 0; i < gy_dml_builtin_count && near.size_bytes < 100; i++) {
        if (gy_dml_is_near(call->text, gy_dml_builtins[i].name)) {
            gy_text_add(&near, "%s%s", near.size_bytes > 0 ? ", " : "did you mean ",
                        gy_dml_builtins[i].name);
        }
    }
    const gy_status status =
        gy_dml_refuse(gy_dml_source_of(in), call->place, GY_NOTFOUND, gy_text_get(&near),
                      "there is no function %s", call->text);
    gy_text_free(&near);
    return status;
}

gy_status gy_dml_lower_call(gy_dml_lowering *in, const gy_dml_node *node, const int32_t *slots,
                            int count)
{
    gy_dml_function *function = NULL;
    const gy_dml_builtin *builtin = gy_dml_builtin_find(node->text);
    gy_status status =
        gy_dml_function_find(in->script, in->function->unit, node->text, &function);
    if (status != GY_OK) {
        return gy_dml_refuse(gy_dml_source_of(in), node->place, status, "", "%s",
                             gy_error_text());
    }
    if (function != NULL) {
        return call_function(in, node, function, slots, count);
    }
    return builtin != NULL ? call_builtin(in, node, builtin, slots, count)
                           : unknown_function(in, node);
}
