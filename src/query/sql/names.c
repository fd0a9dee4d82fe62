/* Identifiers as they stand in the text. */
#include "query/sql/sql_priv.h"

#include <stdlib.h>
#include <string.h>

enum { CUT_BYTES = 63 /* NAMEDATALEN - 1 of PostgreSQL */ };

/* The first 63 bytes of a name, whole characters. */
static size_t cut_at(const char *name, size_t size)
{
    if (size <= CUT_BYTES) {
        return size;
    }
    size = CUT_BYTES;
    while (size > 0 && ((unsigned char)name[size] & 0xC0) == 0x80) {
        size--;
    }
    return size;
}

static char fold(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c;
}

/* An identifier of the text: without its quotes, or folded. */
static gy_status spell(gy_sql_reader *in, int64_t place, size_t size)
{
    const char *text = in->source->text + place;
    const bool is_quoted = size >= 2 && text[0] == '"';
    char *name = gy_sql_new(in, 1, size + 1), *cut = gy_sql_new(in, 1, size + 1);
    size_t length = 0;
    if (name == NULL || cut == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = is_quoted ? 1 : 0; i < size - (is_quoted ? 1 : 0); i++) {
        name[length] = text[i];
        if (!is_quoted) {
            name[length] = fold(text[i]);
        }
        length++;
        i += is_quoted && text[i] == '"'; /* two stand for one */
    }
    memcpy(cut, name, cut_at(name, length));
    GY_TRY(GY_GROW("query.names", in->spellings, in->capacity, in->count + 1));
    in->spellings[in->count++] = (gy_sql_spelling){
        .cut = cut, .name = {.text = name, .is_quoted = is_quoted}, .place = place};
    return GY_OK;
}

static int compare(const void *a, const void *b)
{
    const gy_sql_spelling *x = a, *y = b;
    const int order = strcmp(x->cut, y->cut);
    const int later = order != 0 ? order : strcmp(x->name.text, y->name.text);
    return later != 0 ? later : (x->place > y->place) - (x->place < y->place);
}

gy_status gy_sql_spell(gy_sql_reader *in, const PgQuery__ScanResult *tokens)
{
    for (size_t i = 0; i < tokens->n_tokens; i++) {
        const PgQuery__ScanToken *token = tokens->tokens[i];
        if (token->token == PG_QUERY__TOKEN__UIDENT) {
            return gy_sql_unsupported(in, token->start, "names written U&\"...\"");
        }
        if (token->token == PG_QUERY__TOKEN__IDENT) {
            GY_ASSERT(token->start >= 0 && token->end >= token->start &&
                      (size_t)token->end <= in->source->size);
            GY_TRY(spell(in, token->start, (size_t)(token->end - token->start)));
        }
    }
    if (in->count > 0) {
        qsort(in->spellings, in->count, sizeof(*in->spellings), compare);
    }
    size_t kept = 0;
    for (size_t i = 0; i < in->count; i++) {
        gy_sql_spelling *last = kept > 0 ? &in->spellings[kept - 1] : NULL;
        if (last != NULL && strcmp(last->cut, in->spellings[i].cut) == 0) {
            if (strcmp(last->name.text, in->spellings[i].name.text) != 0) {
                last->is_ambiguous = true;
                last->place = in->spellings[i].place;
            }
            last->name.is_quoted &= in->spellings[i].name.is_quoted;
        } else {
            in->spellings[kept++] = in->spellings[i];
        }
    }
    in->count = kept;
    return GY_OK;
}

gy_status gy_sql_name_of(const gy_sql_reader *in, const char *cut, gy_sql_name *name)
{
    size_t low = 0, high = in->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (strcmp(in->spellings[middle].cut, cut) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < in->count && strcmp(in->spellings[low].cut, cut) == 0) {
        if (in->spellings[low].is_ambiguous) {
            return gy_sql_refuse(
                in->source, gy_sql_place(in, in->spellings[low].place), GY_UNSUPPORTED,
                "not supported: names that differ only behind their first %d bytes (%s)",
                CUT_BYTES, cut);
        }
        *name = in->spellings[low].name;
        return GY_OK;
    }
    *name = (gy_sql_name){.text = NULL}; /* a keyword that serves as a name */
    return gy_sql_copy(in, cut, &name->text);
}

gy_status gy_sql_names_of(const gy_sql_reader *in, PgQuery__Node *const *nodes, size_t count,
                          gy_sql_name **names, uint32_t *out)
{
    *names = gy_sql_new(in, count, sizeof(**names));
    if (*names == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        GY_ASSERT(nodes[i]->node_case == PG_QUERY__NODE__NODE_STRING);
        GY_TRY(gy_sql_name_of(in, nodes[i]->string->sval, &(*names)[i]));
    }
    *out = (uint32_t)count;
    return GY_OK;
}
