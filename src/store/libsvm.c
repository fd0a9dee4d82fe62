/*
 * libsvm's text format of sparse rows: "LABEL INDEX:VALUE INDEX:VALUE ..." a line, indices from
 * 1 and ascending. A file is read whole; each entry of memory stands for text that was there.
 *
 * Source: Chang & Lin, "LIBSVM: a library for support vector machines", README, "svm-train".
 */
#include "store/store_priv.h"

#include "base/base.h"
#include "base/text.h"

#include <gyre/data.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20, WORD_BYTES = 64 };

/* Where the parser is. */
typedef struct reader {
    const char *name;
    const char *line, *at, *end; /* of the line: its begin, what is next, one behind it */
    size_t number;               /* of the line, from 1 */
    gy_libsvm *rows;
    size_t row_capacity, begin_capacity, index_capacity, value_capacity;
} reader;

static gy_status read_whole(gy_source *source, uint64_t limit, gy_text *all)
{
    size_t got = CHUNK_BYTES;
    char *chunk = gy_alloc("store.libsvm", CHUNK_BYTES);
    gy_status status = chunk != NULL ? GY_OK : GY_NOMEM;
    while (status == GY_OK && got == CHUNK_BYTES) {
        status = gy_source_read(source, chunk, CHUNK_BYTES, &got);
        if (status == GY_OK && all->size_bytes + got > limit) {
            status = gy_fail(GY_LIMIT, "%s: more than %llu bytes of text",
                             gy_source_name(source), (unsigned long long)limit);
        }
        if (status == GY_OK) {
            gy_text_add_bytes(all, chunk, got);
            status = all->status;
        }
    }
    gy_free(chunk);
    return status;
}

/* One line: file, line, column, what is there, what was expected. */
static gy_status refuse(const reader *r, const char *word, size_t size, const char *expected)
{
    char shown[24];
    const size_t kept = GY_MIN(size, sizeof(shown) - 1);
    for (size_t i = 0; i < kept; i++) {
        shown[i] = '?';
        if (word[i] >= ' ' && word[i] <= '~') {
            shown[i] = word[i];
        }
    }
    shown[kept] = '\0';
    return gy_fail(GY_FORMAT, "%s:%zu:%zu: '%s%s': expected %s", r->name, r->number,
                   (size_t)(word - r->line) + 1, shown, size > kept ? "..." : "", expected);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line; size 0: there is none. */
static const char *next_word(reader *r, size_t *size)
{
    while (r->at < r->end && is_blank(*r->at)) {
        r->at++;
    }
    const char *word = r->at;
    while (r->at < r->end && !is_blank(*r->at)) {
        r->at++;
    }
    *size = (size_t)(r->at - word);
    return word;
}

/* Decimal digits with sign, point and exponent; no names, no hexadecimal, no infinity. */
static bool read_real(const char *word, size_t size, double *value)
{
    char kept[WORD_BYTES];
    char *end = NULL;
    if (size == 0 || size >= sizeof(kept)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (word[i] == '\0' || strchr("+-.0123456789eE", word[i]) == NULL) {
            return false;
        }
    }
    memcpy(kept, word, size);
    kept[size] = '\0';
    *value = strtod(kept, &end);
    return *end == '\0' && isfinite(*value);
}

/* A number of 1 to 2^63 - 1. */
static bool read_index(const char *word, size_t size, uint64_t *index)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (word[i] < '0' || word[i] > '9' ||
            value > ((uint64_t)INT64_MAX - (uint64_t)(word[i] - '0')) / 10) {
            return false;
        }
        value = value * 10 + (uint64_t)(word[i] - '0');
    }
    *index = value;
    return size > 0 && value > 0;
}

static gy_status add_feature(reader *r, const char *word, size_t size)
{
    gy_libsvm *rows = r->rows;
    const char *colon = memchr(word, ':', size);
    const size_t first = rows->begins[rows->rows];
    uint64_t index = 0;
    double value = 0;
    if (colon == NULL) {
        return refuse(r, word, size, "INDEX:VALUE");
    }
    if (!read_index(word, (size_t)(colon - word), &index)) {
        return refuse(r, word, (size_t)(colon - word), "an index of 1 to 9223372036854775807");
    }
    if (rows->count > first && index - 1 <= rows->indices[rows->count - 1]) {
        return refuse(r, word, (size_t)(colon - word), "indices that ascend in a line");
    }
    if (!read_real(colon + 1, size - (size_t)(colon + 1 - word), &value)) {
        return refuse(r, colon + 1, size - (size_t)(colon + 1 - word), "a finite number");
    }
    GY_TRY(GY_GROW("store.libsvm", rows->indices, r->index_capacity, rows->count + 1));
    GY_TRY(GY_GROW("store.libsvm", rows->values, r->value_capacity, rows->count + 1));
    rows->indices[rows->count] = index - 1;
    rows->values[rows->count++] = value;
    rows->features = GY_MAX(rows->features, index);
    return GY_OK;
}

static gy_status parse_line(reader *r)
{
    gy_libsvm *rows = r->rows;
    size_t size = 0;
    double label = 0;
    const char *comment = memchr(r->line, '#', (size_t)(r->end - r->line));
    r->end = comment != NULL ? comment : r->end;
    const char *word = next_word(r, &size);
    if (size == 0) {
        return GY_OK;
    }
    if (!read_real(word, size, &label)) {
        return refuse(r, word, size, "a label, which is a finite number");
    }
    for (word = next_word(r, &size); size > 0; word = next_word(r, &size)) {
        GY_TRY(add_feature(r, word, size));
    }
    GY_TRY(GY_GROW("store.libsvm", rows->labels, r->row_capacity, rows->rows + 1));
    GY_TRY(GY_GROW("store.libsvm", rows->begins, r->begin_capacity, rows->rows + 2));
    rows->labels[rows->rows++] = label;
    rows->begins[rows->rows] = rows->count;
    return GY_OK;
}

static gy_status parse(reader *r, const char *text, size_t size_bytes)
{
    const char *end = text + size_bytes;
    GY_TRY(GY_GROW("store.libsvm", r->rows->begins, r->begin_capacity, (size_t)1));
    r->rows->begins[0] = 0;
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop != NULL ? stop : end;
        r->line = r->at = line;
        r->end = stop;
        r->number++;
        GY_TRY(parse_line(r));
        line = stop + 1;
    }
    return r->rows->rows > 0
               ? GY_OK
               : gy_fail(GY_FORMAT, "%s: no rows: expected LABEL INDEX:VALUE ...", r->name);
}

gy_status gy_store_libsvm_read(gy_source *source, uint64_t limit, gy_libsvm **rows)
{
    gy_text all = {.data = NULL};
    gy_libsvm *made = gy_alloc_zero("store.libsvm", 1, sizeof(*made));
    gy_status status = made != NULL ? read_whole(source, limit, &all) : GY_NOMEM;
    if (status == GY_OK) {
        reader r = {.name = gy_source_name(source), .rows = made};
        status = parse(&r, all.data != NULL ? all.data : "", all.size_bytes);
    }
    gy_text_free(&all);
    if (status < 0) {
        gy_libsvm_free(made);
        return status;
    }
    *rows = made;
    return GY_OK;
}

gy_status gy_read_libsvm(const char *path, gy_libsvm **rows)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_open(gy_env_real(), path, GY_ENCODING_AUTO, &source));
    gy_status status = gy_store_libsvm_read(source, (uint64_t)1 << 30, rows);
    gy_source_close(source);
    return status;
}

void gy_libsvm_free(gy_libsvm *rows)
{
    if (rows == NULL) {
        return;
    }
    gy_free(rows->labels);
    gy_free(rows->begins);
    gy_free(rows->indices);
    gy_free(rows->values);
    gy_free(rows);
}
