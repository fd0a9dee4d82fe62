/*
 * Expressions by precedence climbing (Pratt 1973): each binary operator has a level; the right
 * operand takes what binds more tightly, or as tightly for ^.
 */
#include "dml/syntax/parser_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEVEL_OR = 1,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_ADD,
    LEVEL_MULTIPLY,
    LEVEL_MODULO,
    LEVEL_MATMUL,
    LEVEL_UNARY,
    LEVEL_POWER,
};

static int level_of(gy_dml_sign sign)
{
    if (sign >= GY_DML_LESS && sign <= GY_DML_NOT_EQUAL) {
        return LEVEL_COMPARE;
    }
    if (sign == GY_DML_PLUS || sign == GY_DML_MINUS) {
        return LEVEL_ADD;
    }
    if (sign == GY_DML_MULTIPLY || sign == GY_DML_DIVIDE) {
        return LEVEL_MULTIPLY;
    }
    if (sign == GY_DML_WHOLE_DIVIDE || sign == GY_DML_MODULO) {
        return LEVEL_MODULO;
    }
    return sign == GY_DML_POWER    ? LEVEL_POWER
           : sign == GY_DML_MATMUL ? LEVEL_MATMUL
           : sign == GY_DML_AND    ? LEVEL_AND
           : sign == GY_DML_OR     ? LEVEL_OR
                                   : 0;
}

static gy_status at_level(gy_dml_parser *p, int level, gy_dml_node **out);

/* The text of a number without the L behind it. */
static bool number_text(const gy_dml_parser *p, char text[64])
{
    const gy_dml_token *token = gy_dml_token_now(p);
    size_t size = token->end - token->place;
    const char *from = p->source->text + token->place;
    if (from[size - 1] == 'l' || from[size - 1] == 'L') {
        size--;
    }
    if (size >= 64) {
        return false;
    }
    memcpy(text, from, size);
    text[size] = '\0';
    return true;
}

static gy_status number(gy_dml_parser *p, gy_dml_node **out)
{
    const bool is_double = gy_dml_token_now(p)->kind == GY_DML_TOKEN_DOUBLE;
    gy_dml_node *node = gy_dml_node_new(p, is_double ? GY_DML_DOUBLE : GY_DML_INTEGER);
    char text[64];
    if (node == NULL) {
        return GY_NOMEM;
    }
    if (!number_text(p, text)) {
        return gy_dml_refuse(p->source, node->place, GY_FORMAT, "write it with an exponent",
                             "this number has too many digits");
    }
    errno = 0;
    if (is_double) {
        node->real = strtod(text, NULL);
    } else {
        node->whole = strtoll(text, NULL, 10);
        if (errno == ERANGE) {
            return gy_dml_refuse(p->source, node->place, GY_FORMAT,
                                 "write it as a double: with a point or an exponent",
                                 "this integer is above 9223372036854775807");
        }
    }
    p->at++;
    *out = node;
    return gy_dml_node_close(p, node);
}

static gy_status range(gy_dml_parser *p, gy_dml_node **out)
{
    if (gy_dml_is_sign(p, GY_DML_COMMA) || gy_dml_is_sign(p, GY_DML_CLOSE_INDEX)) {
        return GY_OK; /* all of them */
    }
    gy_dml_node *node = gy_dml_node_new(p, GY_DML_RANGE);
    if (node == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_dml_expression(p, &node->a));
    if (gy_dml_take_sign(p, GY_DML_COLON)) {
        GY_TRY(gy_dml_expression(p, &node->b));
    }
    *out = node;
    return gy_dml_node_close(p, node);
}

gy_status gy_dml_index(gy_dml_parser *p, gy_dml_node *name, gy_dml_node **out)
{
    gy_dml_node *node = name;
    node->kind = GY_DML_INDEX;
    node->form = GY_DML_INDEX_ONE;
    GY_TRY(gy_dml_need_sign(p, GY_DML_OPEN_INDEX, ""));
    GY_TRY(range(p, &node->a));
    if (gy_dml_take_sign(p, GY_DML_COMMA)) {
        node->form = GY_DML_INDEX_TWO;
        GY_TRY(range(p, &node->b));
    }
    GY_TRY(gy_dml_need_sign(p, GY_DML_CLOSE_INDEX, "an index is X[rows, columns]"));
    *out = node;
    return gy_dml_node_close(p, node);
}

gy_status gy_dml_arguments(gy_dml_parser *p, gy_dml_node *node)
{
    gy_dml_node **last = &node->a;
    GY_TRY(gy_dml_need_sign(p, GY_DML_OPEN, ""));
    while (!gy_dml_is_sign(p, GY_DML_CLOSE)) {
        gy_dml_node *given = gy_dml_node_new(p, GY_DML_GIVEN);
        if (given == NULL) {
            return GY_NOMEM;
        }
        const gy_dml_token *next = &p->tokens[p->at + 1];
        if (gy_dml_is_name(p) && next->kind == GY_DML_TOKEN_SIGN &&
            next->sign == GY_DML_ASSIGN && p->source->text[next->place] == '=') {
            GY_TRY(gy_dml_need_name(p, "the name of an argument", &given->text));
            p->at++;
        }
        GY_TRY(gy_dml_expression(p, &given->a));
        GY_TRY(gy_dml_node_close(p, given));
        *last = given;
        last = &given->next;
        if (!gy_dml_take_sign(p, GY_DML_COMMA)) {
            break;
        }
        if (gy_dml_is_sign(p, GY_DML_CLOSE)) {
            return gy_dml_unexpected(p, "an argument", "remove the comma");
        }
    }
    return gy_dml_need_sign(p, GY_DML_CLOSE, "arguments are separated by commas");
}

/* Whether the bracket at the current token closes before an assignment: then it begins a
 * statement of several targets, which no line end separates from the name before it. */
static bool begins_targets(const gy_dml_parser *p)
{
    int open = 0;
    for (size_t i = p->at; p->tokens[i].kind != GY_DML_TOKEN_END; i++) {
        if (p->tokens[i].kind != GY_DML_TOKEN_SIGN) {
            continue;
        }
        const gy_dml_sign sign = p->tokens[i].sign;
        open += sign == GY_DML_OPEN_INDEX;
        if (sign == GY_DML_CLOSE_INDEX && --open == 0) {
            return p->tokens[i + 1].kind == GY_DML_TOKEN_SIGN &&
                   p->tokens[i + 1].sign == GY_DML_ASSIGN;
        }
        if (sign == GY_DML_SEMICOLON || sign == GY_DML_OPEN_BLOCK) {
            return false;
        }
    }
    return false;
}

/* The grammar lets semicolons follow a call, also where its value is an argument. */
static void skip_semicolons_inside(gy_dml_parser *p)
{
    gy_dml_parser ahead = *p;
    while (gy_dml_take_sign(&ahead, GY_DML_SEMICOLON)) {
    }
    if (gy_dml_is_sign(&ahead, GY_DML_CLOSE) || gy_dml_is_sign(&ahead, GY_DML_COMMA)) {
        p->at = ahead.at;
    }
}

static gy_status named(gy_dml_parser *p, gy_dml_node **out)
{
    if (gy_dml_is_word(p, "TRUE") || gy_dml_is_word(p, "FALSE")) {
        gy_dml_node *node = gy_dml_node_new(p, GY_DML_BOOLEAN);
        if (node == NULL) {
            return GY_NOMEM;
        }
        node->whole = gy_dml_is_word(p, "TRUE");
        p->at++;
        *out = node;
        return gy_dml_node_close(p, node);
    }
    gy_dml_node *node = gy_dml_node_new(p, GY_DML_NAME);
    if (node == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_dml_need_name(p, "an expression", &node->text));
    *out = node;
    if (gy_dml_is_sign(p, GY_DML_OPEN)) {
        node->kind = GY_DML_CALL;
        GY_TRY(gy_dml_arguments(p, node));
        skip_semicolons_inside(p);
    } else if (gy_dml_is_sign(p, GY_DML_OPEN_INDEX) && !begins_targets(p)) {
        return gy_dml_index(p, node, out);
    }
    return gy_dml_node_close(p, node);
}

/* [a, b, …] */
static gy_status several(gy_dml_parser *p, gy_dml_node **out)
{
    gy_dml_node *node = gy_dml_node_new(p, GY_DML_SEVERAL);
    if (node == NULL) {
        return GY_NOMEM;
    }
    gy_dml_node **last = &node->a;
    p->at++;
    do {
        GY_TRY(gy_dml_expression(p, last));
        last = &(*last)->next;
    } while (gy_dml_take_sign(p, GY_DML_COMMA));
    GY_TRY(gy_dml_need_sign(p, GY_DML_CLOSE_INDEX, ""));
    *out = node;
    return gy_dml_node_close(p, node);
}

static gy_status unary(gy_dml_parser *p, gy_dml_node **out)
{
    gy_dml_node *node = gy_dml_node_new(p, GY_DML_UNARY);
    if (node == NULL) {
        return GY_NOMEM;
    }
    node->sign = (uint8_t)gy_dml_token_now(p)->sign;
    p->at++;
    GY_TRY(at_level(p, node->sign == GY_DML_NOT ? LEVEL_NOT : LEVEL_UNARY, &node->a));
    *out = node;
    return gy_dml_node_close(p, node);
}

static gy_status literal(gy_dml_parser *p, gy_dml_node **out)
{
    const bool is_string = gy_dml_token_now(p)->kind == GY_DML_TOKEN_STRING;
    gy_dml_node *node = gy_dml_node_new(p, is_string ? GY_DML_STRING : GY_DML_ARGUMENT);
    if (node == NULL) {
        return GY_NOMEM;
    }
    GY_TRY(gy_dml_need_string(p, "a text", &node->text));
    *out = node;
    return gy_dml_node_close(p, node);
}

static gy_status operand(gy_dml_parser *p, gy_dml_node **out)
{
    switch (gy_dml_token_now(p)->kind) {
    case GY_DML_TOKEN_INTEGER:
    case GY_DML_TOKEN_DOUBLE:
        return number(p, out);
    case GY_DML_TOKEN_NAME:
        return named(p, out);
    case GY_DML_TOKEN_STRING:
    case GY_DML_TOKEN_ARGUMENT:
        return literal(p, out);
    case GY_DML_TOKEN_END:
    case GY_DML_TOKEN_SIGN:
        break;
    }
    switch ((int)gy_dml_token_now(p)->sign) {
    case GY_DML_OPEN:
        p->at++;
        GY_TRY(gy_dml_expression(p, out));
        return gy_dml_need_sign(p, GY_DML_CLOSE, "each ( needs its )");
    case GY_DML_OPEN_INDEX:
        return several(p, out);
    case GY_DML_MINUS:
    case GY_DML_PLUS:
    case GY_DML_NOT:
        return unary(p, out);
    default:
        return gy_dml_unexpected(p, "an expression", "");
    }
}

static gy_status at_level(gy_dml_parser *p, int level, gy_dml_node **out)
{
    GY_TRY(gy_dml_enter(p));
    gy_dml_node *left = NULL;
    GY_TRY(operand(p, &left));
    while (gy_dml_token_now(p)->kind == GY_DML_TOKEN_SIGN) {
        const gy_dml_sign sign = gy_dml_token_now(p)->sign;
        const int own = level_of(sign);
        if (own == 0 || own < level) {
            break;
        }
        gy_dml_node *node = gy_dml_node_new(p, GY_DML_BINARY);
        if (node == NULL) {
            return GY_NOMEM;
        }
        node->sign = (uint8_t)sign;
        node->a = left;
        p->at++;
        GY_TRY(at_level(p, sign == GY_DML_POWER ? own : own + 1, &node->b));
        GY_TRY(gy_dml_node_close(p, node));
        left = node;
    }
    p->depth--;
    *out = left;
    return GY_OK;
}

gy_status gy_dml_expression(gy_dml_parser *p, gy_dml_node **out)
{
    return at_level(p, LEVEL_OR, out);
}
