/*
 * The door to SQL. PostgreSQL's parser recurses as deep as its input is nested and trusts it:
 * so tokens and brackets are counted first, and it runs on a thread whose stack suffices for
 * what was let in. Whatever it says is read there into a tree of our own.
 */
#include "query/sql/sql_priv.h"

#include "base/lazy.h"
#include "base/thread.h"
#include "frame/frame.h"

#include <dlfcn.h>
#include <pg_query.h>
#include <string.h>
#include <strings.h>

/* A level of an expression takes two tokens and some 3 KiB. */
static const size_t stack_bytes = (size_t)1 << 30;

/* ---- Errors ---- */

/* The text that has a place; of places before its first byte that one. */
static gy_sql_part part_of(const gy_sql_source *source, size_t place)
{
    const gy_sql_part *at = source->parts;
    if (at == NULL) {
        return (gy_sql_part){.name = source->path,
                             .text = source->text + source->skip,
                             .size = source->size - source->skip,
                             .base = place < source->base ? 0 : source->base};
    }
    while (at->base > place && at->older != NULL) {
        at = at->older;
    }
    return *at;
}

gy_status gy_sql_refuse(const gy_sql_source *source, size_t place, gy_status status,
                        const char *format, ...)
{
    char message[GY_ERROR_TEXT_BYTES / 2];
    va_list args;
    va_start(args, format);
    gy_print_list(message, sizeof(message), format, args);
    va_end(args);
    const gy_sql_part part = part_of(source, place);
    char where[64] = "";
    if (part.size > 0 || source->parts == NULL) {
        int line = 0, column = 0;
        gy_text_place(part.text, part.size, place - part.base, &line, &column);
        gy_print(where, sizeof(where), ":%d:%d", line, column);
    }
    gy_sql_report *report = source->report;
    if (report->status == GY_OK) {
        gy_text text = {.data = NULL};
        gy_text_add(&text, "%s%s: %s\n", part.name, where, message);
        if (where[0] != '\0') {
            gy_text_add_excerpt(&text, part.text, part.size, place - part.base);
        }
        report->status = status;
        gy_text_move(&text, report->text, sizeof(report->text));
    }
    return gy_fail(status, "%s%s: %s", part.name, where, message);
}

gy_status gy_sql_unsupported(const gy_sql_reader *in, int64_t place, const char *what)
{
    return gy_sql_refuse(in->source, gy_sql_place(in, place), GY_UNSUPPORTED,
                         "not supported: %s", what);
}

uint32_t gy_sql_place(const gy_sql_reader *in, int64_t place)
{
    const int64_t skip = (int64_t)in->source->skip;
    return in->source->base + (place > skip ? (uint32_t)(place - skip) : 0);
}

void *gy_sql_new(const gy_sql_reader *in, size_t count, size_t size_bytes)
{
    void *made = gy_arena_alloc(in->arena, (count > 0 ? count : 1) * size_bytes);
    if (made == NULL) {
        (void)gy_fail(GY_NOMEM, "no memory for the tree of a statement");
    }
    return made;
}

gy_status gy_sql_copy(const gy_sql_reader *in, const char *text, const char **out)
{
    const size_t size = strlen(text) + 1;
    char *copy = gy_sql_new(in, 1, size);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    memcpy(copy, text, size);
    *out = copy;
    return GY_OK;
}

/* ---- What the parser says ---- */

/* Whether a table is a file's name that stands there without double quotes, wrong at `place`:
 * from 'a.csv', from log/a.csv. */
static bool is_bare_file(const char *text, size_t place)
{
    static const char in_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789_-./~";
    size_t begin = place;
    if (text[place] == '\0' || strchr("'/.-", text[place]) == NULL) {
        return false;
    }
    while (begin > 0 && strchr(in_names, text[begin - 1]) != NULL) {
        begin--;
    }
    const size_t name = begin;
    while (begin > 0 && strchr(" \t\r\n", text[begin - 1]) != NULL) {
        begin--;
    }
    return begin < name && begin > 4 &&
           (strncasecmp(text + begin - 4, "from", 4) == 0 ||
            strncasecmp(text + begin - 4, "join", 4) == 0) &&
           strchr(in_names, text[begin - 5]) == NULL;
}

/* Its error: a message and the number of a character, from 1. */
static gy_status parser_error(const gy_sql_reader *in, const PgQueryError *error)
{
    const gy_sql_source *source = in->source;
    size_t place = 0;
    for (int left = error->cursorpos - 1; left > 0 && place < source->size; left--) {
        place++;
        while (place < source->size && ((unsigned char)source->text[place] & 0xC0) == 0x80) {
            place++;
        }
    }
    return gy_sql_refuse(
        source, gy_sql_place(in, (int64_t)place), GY_FORMAT, "%s%s", error->message,
        is_bare_file(source->text, place) ? " (write a file's name in double quotes)" : "");
}

/* Behind these another expression begins, or a list goes on: the tree does not grow deeper. */
static bool is_break(PgQuery__Token token)
{
    return token == PG_QUERY__TOKEN__ASCII_44 || token == PG_QUERY__TOKEN__ASCII_59 ||
           token == PG_QUERY__TOKEN__AND || token == PG_QUERY__TOKEN__OR ||
           token == PG_QUERY__TOKEN__WHEN || token == PG_QUERY__TOKEN__THEN ||
           token == PG_QUERY__TOKEN__ELSE;
}

/* Levels of brackets, and how many words and signs stand in a row on each of them: a chain of
 * operators is as deep as it is long, and the parser packs its tree in the square of that. */
static gy_status judge_depth(const gy_sql_reader *in, const PgQuery__ScanResult *tokens)
{
    uint32_t rows[GY_SQL_NESTED_MAX + 1] = {0};
    int nested = 0;
    for (size_t i = 0; i < tokens->n_tokens; i++) {
        const PgQuery__ScanToken *token = tokens->tokens[i];
        if (token->token == PG_QUERY__TOKEN__ASCII_40) {
            if (++nested > GY_SQL_NESTED_MAX) {
                return gy_sql_refuse(in->source, gy_sql_place(in, token->start), GY_LIMIT,
                                     "more than %d brackets in one another", GY_SQL_NESTED_MAX);
            }
            rows[nested] = 0;
        } else if (token->token == PG_QUERY__TOKEN__ASCII_41) {
            nested -= nested > 0;
        }
        rows[nested] = is_break(token->token) ? 0 : rows[nested] + 1;
        if (rows[nested] > GY_SQL_ROW_MAX) {
            return gy_sql_refuse(in->source, gy_sql_place(in, token->start), GY_LIMIT,
                                 "an expression of more than %d words and signs: split it",
                                 GY_SQL_ROW_MAX);
        }
    }
    return GY_OK;
}

static gy_status judge_tokens(gy_sql_reader *in, const PgQuery__ScanResult *tokens)
{
    if (tokens->n_tokens > GY_SQL_TOKENS_MAX) {
        return gy_sql_refuse(in->source,
                             gy_sql_place(in, tokens->tokens[GY_SQL_TOKENS_MAX]->start),
                             GY_LIMIT, "a text of %zu words and signs: expected at most %d",
                             tokens->n_tokens, GY_SQL_TOKENS_MAX);
    }
    GY_TRY(judge_depth(in, tokens));
    return gy_sql_spell(in, tokens);
}

static gy_status scan(gy_sql_reader *in)
{
    PgQueryScanResult said = pg_query_scan(in->source->text);
    if (said.error != NULL) {
        const gy_status status = parser_error(in, said.error);
        pg_query_free_scan_result(said);
        return status;
    }
    PgQuery__ScanResult *tokens = pg_query__scan_result__unpack(
        NULL, said.pbuf.len, (const uint8_t *)(const void *)said.pbuf.data);
    const gy_status status = tokens != NULL
                                 ? judge_tokens(in, tokens)
                                 : gy_fail(GY_NOMEM, "no memory for a statement's words");
    if (tokens != NULL) {
        pg_query__scan_result__free_unpacked(tokens, NULL);
    }
    pg_query_free_scan_result(said);
    return status;
}

static gy_status read_all(gy_sql_reader *in, const PgQuery__ParseResult *parsed,
                          gy_sql_script *script)
{
    script->statements = gy_sql_new(in, parsed->n_stmts, sizeof(*script->statements));
    if (script->statements == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < parsed->n_stmts; i++) {
        GY_TRY(gy_sql_statement_of(in, parsed->stmts[i], &script->statements[i]));
        script->count++;
    }
    return GY_OK;
}

static gy_status parse(gy_sql_reader *in, gy_sql_script *script)
{
    PgQueryProtobufParseResult said = pg_query_parse_protobuf(in->source->text);
    if (said.error != NULL) {
        const gy_status status = parser_error(in, said.error);
        pg_query_free_protobuf_parse_result(said);
        return status;
    }
    PgQuery__ParseResult *parsed = pg_query__parse_result__unpack(
        NULL, said.parse_tree.len, (const uint8_t *)(const void *)said.parse_tree.data);
    const gy_status status = parsed != NULL
                                 ? read_all(in, parsed, script)
                                 : gy_fail(GY_NOMEM, "no memory for the tree of a statement");
    if (parsed != NULL) {
        pg_query__parse_result__free_unpacked(parsed, NULL);
    }
    pg_query_free_protobuf_parse_result(said);
    return status;
}

/* ---- The thread ---- */

typedef struct reading {
    gy_sql_reader in;
    gy_sql_script *script;
    gy_status status;
    char text[GY_ERROR_TEXT_BYTES]; /* of a failure: that thread's own ends with it */
} reading;

static void *read_deep(void *arg)
{
    reading *at = arg;
    at->status = scan(&at->in);
    if (at->status == GY_OK) {
        at->status = parse(&at->in, at->script);
    }
    gy_print(at->text, sizeof(at->text), "%s", at->status < 0 ? gy_error_text() : "");
    return NULL;
}

/* What no parser need see. */
static gy_status judge_text(const gy_sql_source *source)
{
    if (source->size > GY_SQL_SOURCE_MAX) {
        return gy_sql_refuse(source, 0, GY_LIMIT, "a text of %zu bytes: expected at most %d",
                             source->size, GY_SQL_SOURCE_MAX);
    }
    size_t wrong = 0;
    if (!gy_frame_is_utf8(source->text, source->size, &wrong)) {
        return gy_sql_refuse(source, source->base + wrong - source->skip, GY_FORMAT,
                             source->text[wrong] == '\0' ? "a byte 0 in the text"
                                                         : "bytes that are no UTF-8");
    }
    void *library = dlopen(GY_LATE_SQL, RTLD_NOW | RTLD_LOCAL); /* it stays */
    return library != NULL
               ? GY_OK
               : gy_sql_refuse(source, 0, GY_UNSUPPORTED,
                               "SQL is read by libpg_query, which cannot be opened: %s",
                               dlerror());
}

gy_status gy_sql_read(const gy_sql_source *source, gy_sql_script *script)
{
    *script = (gy_sql_script){.count = 0};
    GY_TRY(judge_text(source));
    char *text = gy_alloc("query.text", source->size + 1);
    if (text == NULL) {
        return GY_NOMEM;
    }
    memcpy(text, source->text, source->size);
    text[source->size] = '\0';
    gy_sql_source whole = *source;
    whole.text = text;
    reading at = {.in = {.source = &whole, .arena = &script->arena}, .script = script};
    gy_thread thread = {.is_started = false};
    gy_status status = gy_thread_start_deep(&thread, "sql", stack_bytes, read_deep, &at);
    gy_thread_join(&thread);
    if (status == GY_OK && at.status < 0) {
        status = gy_fail(at.status, "%s", at.text);
    }
    gy_free(at.in.spellings);
    gy_free(text);
    return status;
}

gy_status gy_sql_read_behind(const gy_sql_source *source, const char *before,
                             gy_sql_script *script)
{
    const size_t size = strlen(before);
    char *text = gy_alloc("query.text", source->size + size + 1);
    if (text == NULL) {
        *script = (gy_sql_script){.count = 0};
        return GY_NOMEM;
    }
    memcpy(text, before, size);
    memcpy(text + size, source->text, source->size);
    text[size + source->size] = '\0';
    gy_sql_source whole = *source;
    whole.text = text;
    whole.size = source->size + size;
    whole.skip = size;
    const gy_status status = gy_sql_read(&whole, script);
    gy_free(text);
    return status;
}

gy_status gy_sql_read_expression(const gy_sql_source *source, gy_sql_script *script,
                                 gy_sql_node **expression)
{
    GY_TRY(gy_sql_read_behind(source, "select ", script));
    const gy_sql_select *select = script->count == 1 ? script->statements[0].select : NULL;
    const bool is_one = select != NULL && select->target_count == 1 && select->from == NULL &&
                        select->where == NULL && select->group_count == 0 &&
                        select->having == NULL && select->order_count == 0 &&
                        select->limit == NULL && select->offset == NULL &&
                        select->targets[0].name.text == NULL && !select->is_distinct;
    if (!is_one) {
        return gy_sql_refuse(source, source->base, GY_FORMAT, "expected one expression");
    }
    *expression = select->targets[0].value;
    return GY_OK;
}

void gy_sql_script_fini(gy_sql_script *script)
{
    gy_arena_free(&script->arena);
    *script = (gy_sql_script){.count = 0};
}
