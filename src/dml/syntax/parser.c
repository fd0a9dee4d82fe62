/* Statements by recursive descent, and what both halves of the parser share. */
#include "dml/syntax/parser_priv.h"

#include <string.h>

static const char *const reserved[] = {
    "if",     "else", "for",   "parfor", "while",           "function",
    "return", "TRUE", "FALSE", "in",     "externalFunction"};

bool gy_dml_is_word(const gy_dml_parser *p, const char *word)
{
    const gy_dml_token *token = gy_dml_token_now(p);
    const size_t size = strlen(word);
    return token->kind == GY_DML_TOKEN_NAME && token->end - token->place == size &&
           memcmp(p->source->text + token->place, word, size) == 0;
}

bool gy_dml_take_sign(gy_dml_parser *p, gy_dml_sign sign)
{
    const bool is_it = gy_dml_is_sign(p, sign);
    p->at += is_it;
    return is_it;
}

bool gy_dml_take_word(gy_dml_parser *p, const char *word)
{
    const bool is_it = gy_dml_is_word(p, word);
    p->at += is_it;
    return is_it;
}

gy_status gy_dml_unexpected(gy_dml_parser *p, const char *what, const char *hint)
{
    const gy_dml_token *token = gy_dml_token_now(p);
    if (token->kind == GY_DML_TOKEN_END) {
        p->source->report->is_cut = p->source->is_input && p->source->report->status == GY_OK;
        return gy_dml_refuse(p->source, token->place, GY_FORMAT, hint,
                             "expected %s, found the end of the script", what);
    }
    return gy_dml_refuse(p->source, token->place, GY_FORMAT, hint, "expected %s, found '%.*s'",
                         what, (int)GY_MIN(token->end - token->place, 40u),
                         p->source->text + token->place);
}

gy_status gy_dml_need_sign(gy_dml_parser *p, gy_dml_sign sign, const char *hint)
{
    if (gy_dml_take_sign(p, sign)) {
        return GY_OK;
    }
    char what[16];
    gy_print(what, sizeof(what), "'%s'", gy_dml_sign_text(sign));
    return gy_dml_unexpected(p, what, hint);
}

bool gy_dml_is_name(const gy_dml_parser *p)
{
    bool is_name = gy_dml_token_now(p)->kind == GY_DML_TOKEN_NAME;
    for (size_t i = 0; is_name && i < GY_COUNT(reserved); i++) {
        is_name = !gy_dml_is_word(p, reserved[i]);
    }
    return is_name;
}

static const char *copy(gy_dml_parser *p, size_t begin, size_t size)
{
    char *text = gy_arena_alloc(&p->program->arena, size + 1);
    if (text != NULL) {
        memcpy(text, p->source->text + begin, size);
    }
    return text;
}

gy_status gy_dml_need_name(gy_dml_parser *p, const char *what, const char **name)
{
    if (!gy_dml_is_name(p)) {
        return gy_dml_unexpected(p, what, "");
    }
    const gy_dml_token *token = gy_dml_token_now(p);
    *name = copy(p, token->place, token->end - token->place);
    p->at++;
    return *name != NULL ? GY_OK : GY_NOMEM;
}

static char escaped(char c)
{
    static const char from[] = "btnfr", to[] = "\b\t\n\f\r";
    const char *at = strchr(from, c);
    if (at == NULL || c == '\0') {
        return c;
    }
    return to[at - from];
}

gy_status gy_dml_need_string(gy_dml_parser *p, const char *what, const char **text)
{
    const gy_dml_token *token = gy_dml_token_now(p);
    if (token->kind == GY_DML_TOKEN_ARGUMENT) {
        *text = copy(p, token->place + 1, token->end - token->place - 1);
        p->at++;
        return *text != NULL ? GY_OK : GY_NOMEM;
    }
    if (token->kind != GY_DML_TOKEN_STRING) {
        return gy_dml_unexpected(p, what, "a text stands in quotes");
    }
    char *out = gy_arena_alloc(&p->program->arena, token->end - token->place);
    if (out == NULL) {
        return GY_NOMEM;
    }
    *text = out;
    for (size_t i = token->place + 1; i + 1 < token->end; i++) {
        const char c = p->source->text[i];
        if (c == '\0') {
            return gy_dml_refuse(p->source, i, GY_FORMAT, "", "a text has no NUL bytes");
        }
        if (c == '\\') {
            *out++ = escaped(p->source->text[++i]);
        } else {
            *out++ = c;
        }
    }
    p->at++;
    return GY_OK;
}

gy_dml_node *gy_dml_node_new(gy_dml_parser *p, gy_dml_kind kind)
{
    gy_dml_node *node = gy_arena_alloc(&p->program->arena, sizeof(*node));
    if (node != NULL) {
        node->kind = (uint8_t)kind;
        node->place = gy_dml_token_now(p)->place;
    }
    return node;
}

gy_status gy_dml_node_close(gy_dml_parser *p, gy_dml_node *node)
{
    const gy_dml_node *below[] = {node->a, node->b, node->c, node->d, node->e};
    int depth = 0;
    for (size_t i = 0; i < GY_COUNT(below); i++) {
        for (const gy_dml_node *one = below[i]; one != NULL; one = one->next) {
            depth = GY_MAX(depth, one->depth);
        }
    }
    node->depth = (uint16_t)(depth + 1);
    node->end = p->at > 0 ? p->tokens[p->at - 1].end : node->place;
    if (node->depth > GY_DML_TREE_MAX) {
        return gy_dml_refuse(p->source, node->place, GY_LIMIT, "split it into statements",
                             "this expression has over %d levels", (int)GY_DML_TREE_MAX);
    }
    return GY_OK;
}

gy_status gy_dml_enter(gy_dml_parser *p)
{
    if (++p->depth > GY_DML_DEPTH_MAX) {
        return gy_dml_refuse(p->source, gy_dml_token_now(p)->place, GY_LIMIT,
                             "split it into statements or functions",
                             "nested deeper than %d levels", (int)GY_DML_DEPTH_MAX);
    }
    return GY_OK;
}

static gy_status statement(gy_dml_parser *p, gy_dml_node **out);

static void skip_semicolons(gy_dml_parser *p)
{
    while (gy_dml_take_sign(p, GY_DML_SEMICOLON)) {
    }
}

/* One statement, or those between braces. */
static gy_status body(gy_dml_parser *p, gy_dml_node **out)
{
    if (!gy_dml_take_sign(p, GY_DML_OPEN_BLOCK)) {
        return statement(p, out);
    }
    skip_semicolons(p);
    while (!gy_dml_take_sign(p, GY_DML_CLOSE_BLOCK)) {
        if (gy_dml_token_now(p)->kind == GY_DML_TOKEN_END) {
            return gy_dml_unexpected(p, "'}'", "each { needs its }");
        }
        GY_TRY(statement(p, out));
        out = &(*out)->next;
    }
    return GY_OK;
}

static gy_status predicate(gy_dml_parser *p, gy_dml_node **out)
{
    GY_TRY(gy_dml_need_sign(p, GY_DML_OPEN, "a condition stands in parentheses"));
    GY_TRY(gy_dml_expression(p, out));
    return gy_dml_need_sign(p, GY_DML_CLOSE, "");
}

static gy_status if_statement(gy_dml_parser *p, gy_dml_node *node)
{
    p->at++;
    GY_TRY(predicate(p, &node->a));
    GY_TRY(body(p, &node->b));
    return gy_dml_take_word(p, "else") ? body(p, &node->c) : GY_OK;
}

/* a:b or seq(a, b, c) */
static gy_status iterated(gy_dml_parser *p, gy_dml_node *node)
{
    const gy_dml_token *next = &p->tokens[p->at + 1];
    const bool is_call = gy_dml_is_word(p, "seq") && next->kind == GY_DML_TOKEN_SIGN &&
                         next->sign == GY_DML_OPEN;
    if (!is_call) {
        GY_TRY(gy_dml_expression(p, &node->a));
        GY_TRY(
            gy_dml_need_sign(p, GY_DML_COLON, "a loop runs over from:to or seq(from, to, by)"));
        return gy_dml_expression(p, &node->b);
    }
    p->at += 2;
    GY_TRY(gy_dml_expression(p, &node->a));
    GY_TRY(gy_dml_need_sign(p, GY_DML_COMMA, "seq takes from, to and by"));
    GY_TRY(gy_dml_expression(p, &node->b));
    if (gy_dml_take_sign(p, GY_DML_COMMA)) {
        GY_TRY(gy_dml_expression(p, &node->c));
    }
    return gy_dml_need_sign(p, GY_DML_CLOSE, "seq takes from, to and by");
}

static gy_status loop_options(gy_dml_parser *p, gy_dml_node **out)
{
    while (gy_dml_take_sign(p, GY_DML_COMMA)) {
        gy_dml_node *given = gy_dml_node_new(p, GY_DML_GIVEN);
        if (given == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(gy_dml_need_name(p, "the name of an option", &given->text));
        GY_TRY(gy_dml_need_sign(p, GY_DML_ASSIGN, "options are name=value"));
        GY_TRY(gy_dml_expression(p, &given->a));
        GY_TRY(gy_dml_node_close(p, given));
        *out = given;
        out = &given->next;
    }
    return GY_OK;
}

static gy_status for_statement(gy_dml_parser *p, gy_dml_node *node)
{
    p->at++;
    GY_TRY(gy_dml_need_sign(p, GY_DML_OPEN, "a loop is for (i in 1:n)"));
    GY_TRY(gy_dml_need_name(p, "the name of the loop's variable", &node->text));
    if (!gy_dml_take_word(p, "in")) {
        return gy_dml_unexpected(p, "'in'", "a loop is for (i in 1:n)");
    }
    GY_TRY(iterated(p, node));
    GY_TRY(loop_options(p, &node->e));
    GY_TRY(gy_dml_need_sign(p, GY_DML_CLOSE, ""));
    return body(p, &node->d);
}

static gy_status import_statement(gy_dml_parser *p, gy_dml_node *node)
{
    p->at += 2;
    GY_TRY(gy_dml_need_string(p, "the path of a script", &node->text));
    GY_TRY(gy_dml_need_sign(p, GY_DML_CLOSE, ""));
    if (node->kind == GY_DML_SETWD) {
        return GY_OK;
    }
    if (!gy_dml_take_word(p, "as")) {
        return gy_dml_unexpected(p, "'as'", "a script is sourced as source(\"path\") as name");
    }
    return gy_dml_need_name(p, "a name for its functions", &node->other);
}

/* A name, indexed or not, that is assigned to. */
static gy_status target(gy_dml_parser *p, gy_dml_node **out)
{
    gy_dml_node *node = gy_dml_node_new(p, GY_DML_NAME);
    if (node == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_dml_need_name(p, "a statement", &node->text));
    *out = node;
    return gy_dml_is_sign(p, GY_DML_OPEN_INDEX) ? gy_dml_index(p, node, out)
                                                : gy_dml_node_close(p, node);
}

/* [a, b] = f(…) */
static gy_status several_targets(gy_dml_parser *p, gy_dml_node *node)
{
    gy_dml_node *targets = gy_dml_node_new(p, GY_DML_SEVERAL);
    if (targets == NULL) {
        return GY_NOMEM;
    }
    gy_dml_node **last = &targets->a;
    p->at++;
    do {
        GY_TRY(target(p, last));
        last = &(*last)->next;
    } while (gy_dml_take_sign(p, GY_DML_COMMA));
    GY_TRY(gy_dml_need_sign(p, GY_DML_CLOSE_INDEX, ""));
    GY_TRY(gy_dml_node_close(p, targets));
    node->a = targets;
    node->kind = GY_DML_SET;
    GY_TRY(gy_dml_need_sign(p, GY_DML_ASSIGN, "several results are [a, b] = f(x)"));
    GY_TRY(gy_dml_expression(p, &node->b));
    if (node->b->kind != GY_DML_CALL) {
        return gy_dml_refuse(p->source, node->b->place, GY_FORMAT,
                             "several results are [a, b] = f(x)",
                             "only a call has several results");
    }
    return GY_OK;
}

/* Whether name, name[...] or [...] stands before an assignment, without a word of failure. */
static bool begins_assignment(const gy_dml_parser *p)
{
    gy_dml_parser ahead = *p;
    int open = 0;
    if (gy_dml_is_name(&ahead)) {
        ahead.at++;
    }
    do {
        open += gy_dml_is_sign(&ahead, GY_DML_OPEN_INDEX) ? 1 : 0;
        open -= gy_dml_is_sign(&ahead, GY_DML_CLOSE_INDEX) ? 1 : 0;
        if (open == 0 && !gy_dml_is_sign(&ahead, GY_DML_CLOSE_INDEX)) {
            break;
        }
        ahead.at++;
    } while (gy_dml_token_now(&ahead)->kind != GY_DML_TOKEN_END &&
             (open > 0 || gy_dml_is_sign(&ahead, GY_DML_OPEN_INDEX)));
    return open != 0 || gy_dml_is_sign(&ahead, GY_DML_ASSIGN) ||
           gy_dml_is_sign(&ahead, GY_DML_ADD_ASSIGN);
}

static gy_status assignment(gy_dml_parser *p, gy_dml_node *node)
{
    if (p->source->is_input && !begins_assignment(p)) {
        node->kind = GY_DML_RUN;
        return gy_dml_expression(p, &node->a);
    }
    if (gy_dml_is_sign(p, GY_DML_OPEN_INDEX)) {
        return several_targets(p, node);
    }
    const gy_dml_token *next = &p->tokens[p->at + (gy_dml_is_name(p) ? 1 : 0)];
    if (next->kind == GY_DML_TOKEN_SIGN && next->sign == GY_DML_OPEN) {
        node->kind = GY_DML_RUN;
        GY_TRY(gy_dml_expression(p, &node->a));
        return node->a->kind == GY_DML_CALL
                   ? GY_OK
                   : gy_dml_refuse(p->source, node->place, GY_FORMAT,
                                   "assign it to a name, or print it",
                                   "the value of this expression is not used");
    }
    GY_TRY(target(p, &node->a));
    node->kind = gy_dml_take_sign(p, GY_DML_ADD_ASSIGN) ? GY_DML_ADD : GY_DML_SET;
    if (node->kind == GY_DML_SET) {
        GY_TRY(
            gy_dml_need_sign(p, GY_DML_ASSIGN, "a statement is name = expression or a call"));
    }
    return gy_dml_expression(p, &node->b);
}

static bool is_call_of(const gy_dml_parser *p, const char *word)
{
    const gy_dml_token *next = &p->tokens[p->at + 1];
    return gy_dml_is_word(p, word) && next->kind == GY_DML_TOKEN_SIGN &&
           next->sign == GY_DML_OPEN && p->tokens[p->at + 2].kind == GY_DML_TOKEN_STRING;
}

static gy_status statement(gy_dml_parser *p, gy_dml_node **out)
{
    gy_dml_node *node = gy_dml_node_new(p, GY_DML_SET);
    if (node == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_dml_enter(p));
    if (gy_dml_is_word(p, "if")) {
        node->kind = GY_DML_IF;
        GY_TRY(if_statement(p, node));
    } else if (gy_dml_is_word(p, "while")) {
        node->kind = GY_DML_WHILE;
        p->at++;
        GY_TRY(predicate(p, &node->a));
        GY_TRY(body(p, &node->b));
    } else if (gy_dml_is_word(p, "for") || gy_dml_is_word(p, "parfor")) {
        node->kind = gy_dml_is_word(p, "for") ? GY_DML_FOR : GY_DML_PARFOR;
        GY_TRY(for_statement(p, node));
    } else if (is_call_of(p, "source") || is_call_of(p, "setwd")) {
        node->kind = gy_dml_is_word(p, "source") ? GY_DML_IMPORT : GY_DML_SETWD;
        GY_TRY(import_statement(p, node));
    } else {
        GY_TRY(assignment(p, node));
    }
    skip_semicolons(p);
    p->depth--;
    *out = node;
    return gy_dml_node_close(p, node);
}

static const struct {
    const char *name;
    gy_dml_element element;
} elements[] = {
    {"int", GY_DML_ELEMENT_INTEGER},   {"integer", GY_DML_ELEMENT_INTEGER},
    {"double", GY_DML_ELEMENT_DOUBLE}, {"boolean", GY_DML_ELEMENT_BOOLEAN},
    {"string", GY_DML_ELEMENT_STRING}, {"unknown", GY_DML_ELEMENT_UNKNOWN},
    {"Int", GY_DML_ELEMENT_INTEGER},   {"Integer", GY_DML_ELEMENT_INTEGER},
    {"Double", GY_DML_ELEMENT_DOUBLE}, {"Boolean", GY_DML_ELEMENT_BOOLEAN},
    {"String", GY_DML_ELEMENT_STRING}, {"Unknown", GY_DML_ELEMENT_UNKNOWN},
};
static const char type_hint[] =
    "types are int, double, boolean, string, matrix[double], frame[string], list[unknown]";

static gy_status element_type(gy_dml_parser *p, gy_dml_node *node)
{
    for (size_t i = 0; i < GY_COUNT(elements); i++) {
        if (gy_dml_take_word(p, elements[i].name)) {
            node->element = (uint8_t)elements[i].element;
            return GY_OK;
        }
    }
    return gy_dml_unexpected(p, "a type", type_hint);
}

/* matrix[double] */
static gy_status data_type(gy_dml_parser *p, gy_dml_node *node)
{
    static const struct {
        const char *name;
        gy_dml_data data;
    } types[] = {{"matrix", GY_DML_DATA_MATRIX}, {"Matrix", GY_DML_DATA_MATRIX},
                 {"frame", GY_DML_DATA_FRAME},   {"Frame", GY_DML_DATA_FRAME},
                 {"list", GY_DML_DATA_LIST},     {"List", GY_DML_DATA_LIST},
                 {"tensor", GY_DML_DATA_TENSOR}, {"Tensor", GY_DML_DATA_TENSOR},
                 {"scalar", GY_DML_DATA_SCALAR}, {"Scalar", GY_DML_DATA_SCALAR}};
    const gy_dml_token *next = &p->tokens[p->at + 1];
    if (next->kind != GY_DML_TOKEN_SIGN || next->sign != GY_DML_OPEN_INDEX) {
        node->data = GY_DML_DATA_SCALAR;
        return element_type(p, node);
    }
    for (size_t i = 0; i < GY_COUNT(types); i++) {
        if (gy_dml_take_word(p, types[i].name)) {
            node->data = (uint8_t)types[i].data;
            p->at++;
            GY_TRY(element_type(p, node));
            return gy_dml_need_sign(p, GY_DML_CLOSE_INDEX, type_hint);
        }
    }
    return gy_dml_unexpected(p, "a type", type_hint);
}

/* (type name = default, …) */
static gy_status parameters(gy_dml_parser *p, bool has_defaults, gy_dml_node **out)
{
    GY_TRY(gy_dml_need_sign(p, GY_DML_OPEN,
                            "a function is f = function(double x) return (double y) { … }"));
    while (!gy_dml_is_sign(p, GY_DML_CLOSE)) {
        gy_dml_node *node = gy_dml_node_new(p, GY_DML_PARAMETER);
        if (node == NULL) {
            return GY_NOMEM;
        }
        GY_TRY(data_type(p, node));
        GY_TRY(gy_dml_need_name(p, "the name of a parameter", &node->text));
        if (has_defaults && gy_dml_take_sign(p, GY_DML_ASSIGN)) {
            GY_TRY(gy_dml_expression(p, &node->a));
        }
        GY_TRY(gy_dml_node_close(p, node));
        *out = node;
        out = &node->next;
        if (!gy_dml_take_sign(p, GY_DML_COMMA)) {
            break;
        }
    }
    return gy_dml_need_sign(p, GY_DML_CLOSE, "parameters are separated by commas");
}

/* implemented in (classname="…", …): read and left, as there is no Java here. */
static gy_status implementation(gy_dml_parser *p)
{
    if (!gy_dml_take_word(p, "implemented") || !gy_dml_take_word(p, "in")) {
        return gy_dml_unexpected(p, "'implemented in'", "");
    }
    gy_dml_node *given = gy_dml_node_new(p, GY_DML_GIVEN);
    return given != NULL ? gy_dml_arguments(p, given) : GY_NOMEM;
}

static gy_status function(gy_dml_parser *p, gy_dml_node **out)
{
    gy_dml_node *node = gy_dml_node_new(p, GY_DML_FUNCTION);
    if (node == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_dml_need_name(p, "the name of a function", &node->text));
    p->at++;
    node->is_external = gy_dml_is_word(p, "externalFunction");
    p->at++;
    GY_TRY(parameters(p, true, &node->a));
    if (gy_dml_take_word(p, "return")) {
        GY_TRY(parameters(p, false, &node->b));
    }
    if (node->is_external) {
        GY_TRY(implementation(p));
    } else if (!gy_dml_is_sign(p, GY_DML_OPEN_BLOCK)) {
        return gy_dml_unexpected(p, "'{'", "the body of a function stands in braces");
    } else {
        GY_TRY(body(p, &node->c));
    }
    skip_semicolons(p);
    *out = node;
    return gy_dml_node_close(p, node);
}

/* name = function */
static bool begins_function(const gy_dml_parser *p)
{
    if (!gy_dml_is_name(p)) {
        return false;
    }
    gy_dml_parser ahead = *p;
    ahead.at++;
    return gy_dml_take_sign(&ahead, GY_DML_ASSIGN) &&
           (gy_dml_is_word(&ahead, "function") || gy_dml_is_word(&ahead, "externalFunction"));
}

static gy_status parse_all(gy_dml_parser *p)
{
    gy_dml_node **statements = &p->program->statements, **functions = &p->program->functions;
    skip_semicolons(p);
    while (gy_dml_token_now(p)->kind != GY_DML_TOKEN_END) {
        if (begins_function(p)) {
            GY_TRY(function(p, functions));
            functions = &(*functions)->next;
        } else {
            GY_TRY(statement(p, statements));
            statements = &(*statements)->next;
        }
    }
    return GY_OK;
}

gy_status gy_dml_parse(const gy_dml_source *source, gy_dml_program *program)
{
    *program = (gy_dml_program){.source = *source};
    gy_dml_tokens tokens = {.items = NULL};
    gy_status status = gy_dml_lex(source, &tokens);
    if (status == GY_OK) {
        gy_dml_parser parser = {
            .program = program, .source = &program->source, .tokens = tokens.items};
        status = parse_all(&parser);
    }
    gy_free(tokens.items);
    return status;
}

void gy_dml_program_fini(gy_dml_program *program)
{
    gy_arena_free(&program->arena);
    *program = (gy_dml_program){.statements = NULL};
}
