/** The parser's state, shared by its two files: expressions, and statements over them. */
#ifndef GY_DML_SYNTAX_PARSER_PRIV_H
#define GY_DML_SYNTAX_PARSER_PRIV_H

#include "dml/syntax/syntax.h"

typedef struct gy_dml_parser {
    gy_dml_program *program;
    const gy_dml_source *source;
    const gy_dml_token *tokens;
    size_t at; /* the current token */
    int depth; /* of what is being parsed */
} gy_dml_parser;

static inline const gy_dml_token *gy_dml_token_now(const gy_dml_parser *p)
{
    return &p->tokens[p->at];
}

static inline bool gy_dml_is_sign(const gy_dml_parser *p, gy_dml_sign sign)
{
    return gy_dml_token_now(p)->kind == GY_DML_TOKEN_SIGN && gy_dml_token_now(p)->sign == sign;
}

/** The current token is this word. */
bool gy_dml_is_word(const gy_dml_parser *p, const char *word);
/** Take the current token if it is this sign or word. */
bool gy_dml_take_sign(gy_dml_parser *p, gy_dml_sign sign);
bool gy_dml_take_word(gy_dml_parser *p, const char *word);
/** Take this sign, or refuse the current token. */
gy_status gy_dml_need_sign(gy_dml_parser *p, gy_dml_sign sign, const char *hint);
/** Refuse the current token: "expected WHAT, found …". */
gy_status gy_dml_unexpected(gy_dml_parser *p, const char *what, const char *hint);
/** A name that is no reserved word. */
gy_status gy_dml_need_name(gy_dml_parser *p, const char *what, const char **name);
bool gy_dml_is_name(const gy_dml_parser *p);
/** A text in quotes, its escapes replaced. */
gy_status gy_dml_need_string(gy_dml_parser *p, const char *what, const char **text);

/** A new node that begins at the current token; NULL: GY_NOMEM. */
gy_dml_node *gy_dml_node_new(gy_dml_parser *p, gy_dml_kind kind);
/** The node ends before the current token; its depth is that of its children and one. GY_LIMIT
 * too deep. */
gy_status gy_dml_node_close(gy_dml_parser *p, gy_dml_node *node);

/** One level more of what is being parsed; GY_LIMIT at GY_DML_DEPTH_MAX. */
gy_status gy_dml_enter(gy_dml_parser *p);

gy_status gy_dml_expression(gy_dml_parser *p, gy_dml_node **out);
/** name[…]: the node of the name is given, the current token is the bracket. */
gy_status gy_dml_index(gy_dml_parser *p, gy_dml_node *name, gy_dml_node **out);
/** name(…): arguments into node->a; the current token is the opening one. */
gy_status gy_dml_arguments(gy_dml_parser *p, gy_dml_node *node);

#endif
