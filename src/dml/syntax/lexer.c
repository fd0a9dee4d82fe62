/* From bytes to tokens. Comments begin with a number sign or stand between slash-star pairs. */
#include "dml/syntax/syntax.h"

#include <string.h>

typedef struct lexer {
    const gy_dml_source *source;
    gy_dml_tokens *tokens;
    size_t at;
} lexer;

/* Longer signs before those that they begin with. */
static const struct {
    const char *text;
    gy_dml_sign sign;
} signs[] = {
    {"%*%", GY_DML_MATMUL},    {"%/%", GY_DML_WHOLE_DIVIDE},
    {"%%", GY_DML_MODULO},     {"<-", GY_DML_ASSIGN},
    {"<=", GY_DML_LESS_EQUAL}, {">=", GY_DML_GREATER_EQUAL},
    {"==", GY_DML_EQUAL},      {"!=", GY_DML_NOT_EQUAL},
    {"+=", GY_DML_ADD_ASSIGN}, {"&&", GY_DML_AND},
    {"||", GY_DML_OR},         {"^", GY_DML_POWER},
    {"*", GY_DML_MULTIPLY},    {"/", GY_DML_DIVIDE},
    {"+", GY_DML_PLUS},        {"-", GY_DML_MINUS},
    {"<", GY_DML_LESS},        {">", GY_DML_GREATER},
    {"!", GY_DML_NOT},         {"&", GY_DML_AND},
    {"|", GY_DML_OR},          {"=", GY_DML_ASSIGN},
    {"(", GY_DML_OPEN},        {")", GY_DML_CLOSE},
    {"[", GY_DML_OPEN_INDEX},  {"]", GY_DML_CLOSE_INDEX},
    {"{", GY_DML_OPEN_BLOCK},  {"}", GY_DML_CLOSE_BLOCK},
    {",", GY_DML_COMMA},       {":", GY_DML_COLON},
    {";", GY_DML_SEMICOLON},
};

/* The names with a dot; a dot ends every other name. */
static const char *const dotted[] = {
    "as.scalar",  "as.matrix",  "as.frame",     "as.list",      "as.double",  "as.integer",
    "as.logical", "as.boolean", "index.return", "empty.return", "lower.tail", "lower.tri",
    "upper.tri",  "is.na",      "is.nan",       "is.infinite",
};

const char *gy_dml_sign_text(gy_dml_sign sign)
{
    for (size_t i = 0; i < GY_COUNT(signs); i++) {
        if (signs[i].sign == sign) {
            return sign == GY_DML_ASSIGN ? "="
                   : sign == GY_DML_AND  ? "&"
                   : sign == GY_DML_OR   ? "|"
                                         : signs[i].text;
        }
    }
    return "?";
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word(char c)
{
    return is_letter(c) || is_digit(c) || c == '_';
}

/* The byte `ahead` of the current one; NUL behind the end. */
static char peek(const lexer *in, size_t ahead)
{
    if (in->at + ahead >= in->source->size) {
        return '\0';
    }
    return in->source->text[in->at + ahead];
}

static gy_status add(lexer *in, gy_dml_token_kind kind, gy_dml_sign sign, size_t begin)
{
    gy_dml_tokens *tokens = in->tokens;
    GY_TRY(GY_GROW("dml.tokens", tokens->items, tokens->capacity, tokens->count + 1));
    tokens->items[tokens->count++] = (gy_dml_token){
        .kind = kind, .sign = sign, .place = (uint32_t)begin, .end = (uint32_t)in->at};
    return GY_OK;
}

static gy_status skip_comment(lexer *in)
{
    const size_t begin = in->at;
    if (peek(in, 0) == '#') {
        while (in->at < in->source->size && peek(in, 0) != '\n') {
            in->at++;
        }
        return GY_OK;
    }
    in->at += 2;
    while (in->at < in->source->size && !(peek(in, 0) == '*' && peek(in, 1) == '/')) {
        in->at++;
    }
    if (in->at >= in->source->size) {
        in->source->report->is_cut = in->source->is_input;
        return gy_dml_refuse(in->source, begin, GY_FORMAT, "end it with */",
                             "this comment has no end");
    }
    in->at += 2;
    return GY_OK;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static gy_status skip_space(lexer *in)
{
    while (in->at < in->source->size) {
        const char c = peek(in, 0);
        if (c == '#' || (c == '/' && peek(in, 1) == '*')) {
            GY_TRY(skip_comment(in));
        } else if (is_space(c) ||
                   /* SystemDS passes over it, and a script of its library has one. */
                   (c == '.' && (is_space(peek(in, 1)) || in->at + 1 == in->source->size))) {
            in->at++;
        } else {
            break;
        }
    }
    return GY_OK;
}

static void skip_digits(lexer *in)
{
    while (is_digit(peek(in, 0))) {
        in->at++;
    }
}

/* 1, 2L, 3., .5, 1e-3 */
static gy_status take_number(lexer *in)
{
    const size_t begin = in->at;
    bool is_double = false;
    skip_digits(in);
    if (peek(in, 0) == '.') {
        is_double = true;
        in->at++;
        skip_digits(in);
    }
    const char c = peek(in, 0);
    const size_t sign = peek(in, 1) == '+' || peek(in, 1) == '-' ? 2 : 1;
    if ((c == 'e' || c == 'E') && is_digit(peek(in, sign))) {
        is_double = true;
        in->at += sign;
        skip_digits(in);
    }
    if (peek(in, 0) == 'l' || peek(in, 0) == 'L') {
        in->at++;
    }
    if (is_word(peek(in, 0))) {
        return gy_dml_refuse(in->source, in->at, GY_FORMAT,
                             "put a space or an operator between",
                             "a number and a name without anything between them");
    }
    return add(in, is_double ? GY_DML_TOKEN_DOUBLE : GY_DML_TOKEN_INTEGER, GY_DML_SIGN_NONE,
               begin);
}

static void skip_word(lexer *in)
{
    while (is_word(peek(in, 0))) {
        in->at++;
    }
}

static gy_status take_name(lexer *in)
{
    const size_t begin = in->at;
    const char *text = in->source->text + begin;
    for (size_t i = 0; i < GY_COUNT(dotted); i++) {
        const size_t size = strlen(dotted[i]);
        if (in->source->size - begin >= size && memcmp(text, dotted[i], size) == 0 &&
            !is_word(peek(in, size))) {
            in->at += size;
            return add(in, GY_DML_TOKEN_NAME, GY_DML_SIGN_NONE, begin);
        }
    }
    skip_word(in);
    if (peek(in, 0) == ':' && peek(in, 1) == ':' && is_letter(peek(in, 2))) {
        in->at += 2;
        skip_word(in);
    }
    return add(in, GY_DML_TOKEN_NAME, GY_DML_SIGN_NONE, begin);
}

static gy_status take_string(lexer *in)
{
    const size_t begin = in->at;
    const char quote = peek(in, 0);
    in->at++;
    while (in->at < in->source->size && peek(in, 0) != quote) {
        if (peek(in, 0) == '\\') {
            const char c = peek(in, 1);
            if (c == '\0' || strchr("btnfr\"'\\", c) == NULL) {
                return gy_dml_refuse(in->source, in->at, GY_FORMAT,
                                     "escapes are \\b \\t \\n \\f \\r \\\" \\' and \\\\",
                                     "this escape has no meaning");
            }
            in->at++;
        }
        in->at++;
    }
    if (in->at >= in->source->size) {
        in->at = begin;
        in->source->report->is_cut = in->source->is_input;
        return gy_dml_refuse(in->source, begin, GY_FORMAT,
                             "end it with the quote it began with", "this string has no end");
    }
    in->at++;
    return add(in, GY_DML_TOKEN_STRING, GY_DML_SIGN_NONE, begin);
}

static gy_status take_argument(lexer *in)
{
    const size_t begin = in->at;
    in->at++;
    if (is_digit(peek(in, 0))) {
        skip_digits(in);
    } else if (is_letter(peek(in, 0))) {
        skip_word(in);
    } else {
        return gy_dml_refuse(in->source, begin, GY_FORMAT,
                             "$1 is the first argument of the command line, $x that named x",
                             "a number or a name is missing after $");
    }
    return add(in, GY_DML_TOKEN_ARGUMENT, GY_DML_SIGN_NONE, begin);
}

static gy_status take_sign(lexer *in)
{
    const size_t begin = in->at;
    for (size_t i = 0; i < GY_COUNT(signs); i++) {
        const size_t size = strlen(signs[i].text);
        if (in->source->size - begin >= size &&
            memcmp(in->source->text + begin, signs[i].text, size) == 0) {
            in->at += size;
            return add(in, GY_DML_TOKEN_SIGN, signs[i].sign, begin);
        }
    }
    char shown[32];
    gy_printable(shown, sizeof(shown), in->source->text + begin, 1, "");
    return gy_dml_refuse(in->source, begin, GY_FORMAT,
                         shown[0] == '.'   ? "names have no dots, except as.scalar and its like"
                         : shown[0] == '_' ? "names begin with a letter"
                                           : "strings and comments alone may have it",
                         "the character '%s' means nothing here", shown);
}

static gy_status take_token(lexer *in)
{
    const char c = peek(in, 0);
    if (is_digit(c) || (c == '.' && is_digit(peek(in, 1)))) {
        return take_number(in);
    }
    if (is_letter(c)) {
        return take_name(in);
    }
    if (c == '"' || c == '\'') {
        return take_string(in);
    }
    return c == '$' ? take_argument(in) : take_sign(in);
}

gy_status gy_dml_lex(const gy_dml_source *source, gy_dml_tokens *tokens)
{
    lexer in = {.source = source, .tokens = tokens};
    if (source->size > GY_DML_SOURCE_MAX) {
        return gy_dml_refuse(source, 0, GY_LIMIT, "", "%zu bytes are too many: at most %d",
                             source->size, (int)GY_DML_SOURCE_MAX);
    }
    if (source->size >= 3 && memcmp(source->text, "\xEF\xBB\xBF", 3) == 0) {
        in.at = 3; /* a byte order mark */
    }
    GY_TRY(skip_space(&in));
    while (in.at < source->size) {
        GY_TRY(take_token(&in));
        GY_TRY(skip_space(&in));
    }
    return add(&in, GY_DML_TOKEN_END, GY_DML_SIGN_NONE, source->size);
}
