/**
 * The text of a script: tokens, grammar, tree, and the way errors of a script are shown.
 *
 *     gy_dml_report report = {.status = GY_OK};
 *     gy_dml_program program;
 *     gy_dml_source source = {.path = "a.dml", .text = text, .size = size, .report = &report};
 *     if (gy_dml_parse(&source, &program) != GY_OK) {
 *         fputs(report.text, stderr);
 *     }
 *     gy_dml_program_fini(&program);
 */
#ifndef GY_DML_SYNTAX_SYNTAX_H
#define GY_DML_SYNTAX_SYNTAX_H

#include "base/base.h"

enum {
    GY_DML_DEPTH_MAX = 1000,      /* nested expressions and statements */
    GY_DML_TREE_MAX = 4000,       /* levels of one expression's tree */
    GY_DML_SOURCE_MAX = 64 << 20, /* bytes of a script */
    GY_DML_REPORT_BYTES = 2048
};

/** The first error of a script, as it is shown to its author: several lines. */
typedef struct gy_dml_report {
    gy_status status;
    bool is_cut; /* the text ended where more was expected */
    char text[GY_DML_REPORT_BYTES];
} gy_dml_report;

/** One file, or the text of a command line. Borrowed: it outlives its program. */
typedef struct gy_dml_source {
    const char *path;
    const char *text;
    size_t size;
    gy_dml_report *report;
    bool is_input; /* typed at a terminal: an expression alone is a statement, too */
} gy_dml_source;

typedef enum gy_dml_token_kind {
    GY_DML_TOKEN_END,
    GY_DML_TOKEN_NAME,
    GY_DML_TOKEN_INTEGER,
    GY_DML_TOKEN_DOUBLE,
    GY_DML_TOKEN_STRING,
    GY_DML_TOKEN_ARGUMENT, /* $1, $name: the text without the dollar */
    GY_DML_TOKEN_SIGN,     /* operators and brackets */
} gy_dml_token_kind;

typedef enum gy_dml_sign {
    GY_DML_SIGN_NONE,
    GY_DML_POWER,
    GY_DML_MATMUL,
    GY_DML_WHOLE_DIVIDE,
    GY_DML_MODULO,
    GY_DML_MULTIPLY,
    GY_DML_DIVIDE,
    GY_DML_PLUS,
    GY_DML_MINUS,
    GY_DML_LESS,
    GY_DML_LESS_EQUAL,
    GY_DML_GREATER,
    GY_DML_GREATER_EQUAL,
    GY_DML_EQUAL,
    GY_DML_NOT_EQUAL,
    GY_DML_NOT,
    GY_DML_AND,
    GY_DML_OR,
    GY_DML_ASSIGN,
    GY_DML_ADD_ASSIGN,
    GY_DML_OPEN,
    GY_DML_CLOSE,
    GY_DML_OPEN_INDEX,
    GY_DML_CLOSE_INDEX,
    GY_DML_OPEN_BLOCK,
    GY_DML_CLOSE_BLOCK,
    GY_DML_COMMA,
    GY_DML_COLON,
    GY_DML_SEMICOLON,
    GY_DML_SIGN_COUNT
} gy_dml_sign;

/** "%*%"; static. */
const char *gy_dml_sign_text(gy_dml_sign sign);

typedef struct gy_dml_token {
    gy_dml_token_kind kind;
    gy_dml_sign sign;
    uint32_t place, end; /* bytes from the beginning of the source */
} gy_dml_token;

typedef struct gy_dml_tokens {
    gy_dml_token *items; /* the last one is GY_DML_TOKEN_END */
    size_t count, capacity;
} gy_dml_tokens;

/** All tokens of a source. Free tokens->items with gy_free, also after a failure. */
GY_MUST_CHECK gy_status gy_dml_lex(const gy_dml_source *source, gy_dml_tokens *tokens);

typedef enum gy_dml_kind {
    /* expressions */
    GY_DML_INTEGER,  /* whole */
    GY_DML_DOUBLE,   /* real */
    GY_DML_BOOLEAN,  /* whole */
    GY_DML_STRING,   /* text */
    GY_DML_NAME,     /* text */
    GY_DML_ARGUMENT, /* text: of $text */
    GY_DML_INDEX,    /* text[a, b]; form: gy_dml_index_form; a, b: RANGE or NULL for all */
    GY_DML_RANGE,    /* a:b; b NULL: one */
    GY_DML_UNARY,    /* sign a */
    GY_DML_BINARY,   /* a sign b */
    GY_DML_CALL,     /* text(a …), a list of GIVEN */
    GY_DML_GIVEN,    /* text = a, or a alone (text NULL) */
    GY_DML_SEVERAL,  /* [a, …] */
    /* statements */
    GY_DML_SET,       /* a = b; a is NAME, INDEX, or SEVERAL of them */
    GY_DML_ADD,       /* a += b */
    GY_DML_RUN,       /* a: a call whose results are dropped; in an input any expression */
    GY_DML_IF,        /* if (a) b else c */
    GY_DML_WHILE,     /* while (a) b */
    GY_DML_FOR,       /* for (text in seq(a, b, c)) d; e: GIVEN options; c NULL: 1 or -1 */
    GY_DML_PARFOR,    /* the same */
    GY_DML_IMPORT,    /* source(text) as other */
    GY_DML_SETWD,     /* setwd(text) */
    GY_DML_FUNCTION,  /* text = function(a …) return (b …) { c … } */
    GY_DML_PARAMETER, /* type text = a */
} gy_dml_kind;

typedef enum gy_dml_index_form {
    GY_DML_INDEX_ONE, /* x[a] */
    GY_DML_INDEX_TWO, /* x[a, b] */
} gy_dml_index_form;

typedef enum gy_dml_data {
    GY_DML_DATA_SCALAR,
    GY_DML_DATA_MATRIX,
    GY_DML_DATA_FRAME,
    GY_DML_DATA_LIST,
    GY_DML_DATA_TENSOR,
} gy_dml_data;

typedef enum gy_dml_element {
    GY_DML_ELEMENT_UNKNOWN,
    GY_DML_ELEMENT_INTEGER,
    GY_DML_ELEMENT_DOUBLE,
    GY_DML_ELEMENT_BOOLEAN,
    GY_DML_ELEMENT_STRING,
} gy_dml_element;

typedef struct gy_dml_node gy_dml_node;
struct gy_dml_node {
    uint8_t kind, sign, form;
    uint8_t data, element; /* of a parameter */
    bool is_external;      /* of a function: externalFunction, which has no body */
    uint16_t depth;        /* levels of the tree below and with this node */
    uint32_t place, end;   /* of its first token, and where its last one ends */
    const char *text, *other;
    int64_t whole;
    double real;
    gy_dml_node *a, *b, *c, *d, *e;
    gy_dml_node *next; /* in a list */
};

/** What a source says. Nodes and texts live as long as it does. */
typedef struct gy_dml_program {
    gy_dml_source source;
    gy_arena arena;
    gy_dml_node *statements, *functions;
} gy_dml_program;

/**
 * Parse a source as SystemDS's grammar (Dml.g4) has it.
 *
 * @return GY_OK; GY_FORMAT with place, caret and hint in source->report; GY_LIMIT too deep or
 *     too large; GY_NOMEM. gy_dml_program_fini is right after each of them
 * @threads any
 * @cost O(size)
 */
GY_MUST_CHECK gy_status gy_dml_parse(const gy_dml_source *source, gy_dml_program *program);
void gy_dml_program_fini(gy_dml_program *program);

/** The program as a text that parses to the same tree: each operation in parentheses. */
void gy_dml_print(const gy_dml_program *program, gy_text *text);
void gy_dml_print_node(const gy_dml_node *node, gy_text *text);

/** Line and column of a byte, from 1. */
void gy_dml_place(const gy_dml_source *source, size_t place, int *line, int *column);

/**
 * Report an error in a source: path, line, column, message, the line with a caret under the
 * place, and the hint ("" for none). The first report of a script stays. Returns `status`.
 */
gy_status gy_dml_refuse(const gy_dml_source *source, size_t place, gy_status status,
                        const char *hint, const char *format, ...) GY_PRINTF(5, 6);

#endif
