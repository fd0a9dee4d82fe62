/**
 * Text files as data sets: characters become numbers, windows of them samples.
 *
 * A text is read whole; each character is kept in two bytes. Both parts share it.
 */
#include "base/base.h"
#include "base/escape.h"
#include "store/remote/remote.h"

#include <gyre/gpt.h>

#include <string.h>

enum {
    CODE_POINTS = 0x110000,
    CLASSES_MAX = UINT16_MAX,
    CHARACTER_BYTES = 5, /* of UTF-8, with its NUL */
    CHUNK_BYTES = 1 << 20,
    PATH_BYTES = 4096,
};
static const size_t text_limit = (size_t)1 << 30;

/* The whole text as numbers. */
typedef struct corpus {
    int holders; /* data sets that share it */
    uint16_t *codes;
    int64_t count;
    int classes;
    char (*characters)[CHARACTER_BYTES]; /* (classes) */
    const char **names;                  /* (classes) into characters */
} corpus;

typedef struct text_dataset {
    gy_dataset base;
    corpus *text;
    int64_t begin, length; /* the part's first character; characters of a window */
} text_dataset;

/* ---- reading ---- */

/* Append the bytes of one file to `all`. */
static gy_status read_whole(gy_source *source, gy_text *all)
{
    size_t got = CHUNK_BYTES;
    char *chunk = gy_alloc("train.text", CHUNK_BYTES);
    gy_status status = chunk != NULL ? GY_OK : GY_NOMEM;
    while (status == GY_OK && got == CHUNK_BYTES) {
        status = gy_source_read(source, chunk, CHUNK_BYTES, &got);
        if (status == GY_OK && all->size_bytes + got > text_limit) {
            status = gy_fail(GY_LIMIT, "%s: the text has more than %zu bytes",
                             gy_source_name(source), text_limit);
        }
        if (status == GY_OK) {
            gy_text_add_bytes(all, chunk, got);
            status = all->status;
        }
    }
    gy_free(chunk);
    return status;
}

/* The bytes of a file are UTF-8 and have no NUL; its byte order mark goes away. */
static gy_status check_file(gy_source *source, gy_text *all, size_t begin)
{
    static const char mark[] = "\xef\xbb\xbf";
    const char *name = gy_source_name(source);
    char *text = all->data + begin;
    size_t size = all->size_bytes - begin;
    GY_TRY(gy_store_format_check_text(name, gy_source_is_packed(source), text,
                                      GY_MIN(size, (size_t)GY_FORMAT_HEAD_BYTES)));
    for (size_t at = 0; at < size;) {
        const size_t bytes = gy_utf8_bytes((const unsigned char *)text + at);
        if (bytes == 0 || text[at] == '\0') {
            return gy_fail(GY_FORMAT, "%s: byte 0x%02x at offset %zu, expected text in UTF-8",
                           name, (unsigned char)text[at], at);
        }
        at += bytes;
    }
    if (size >= 3 && memcmp(text, mark, 3) == 0) {
        memmove(text, text + 3, size - 3 + 1); /* with the NUL */
        all->size_bytes -= 3;
    }
    return GY_OK;
}

static gy_status read_file(const char *path, gy_text *all)
{
    char local[PATH_BYTES];
    gy_source *source = NULL;
    GY_TRY(gy_store_path_local(path, "the text", local, sizeof(local)));
    GY_TRY(gy_source_open(gy_env_real(), local, GY_ENCODING_AUTO, &source));
    const size_t begin = all->size_bytes;
    gy_status status = read_whole(source, all);
    if (status == GY_OK && all->size_bytes > begin) {
        status = check_file(source, all, begin);
    }
    gy_source_close(source);
    return status;
}

static gy_status read_files(const char *const *paths, gy_text *all)
{
    gy_file_list *files = NULL;
    char local[PATH_BYTES];
    for (size_t i = 0; paths[i] != NULL; i++) { /* before an object's folder is listed */
        GY_TRY(gy_store_path_local(paths[i], "the text", local, sizeof(local)));
    }
    GY_TRY(gy_file_list_make(paths, &files));
    gy_status status = GY_OK;
    for (size_t i = 0; i < files->count && status == GY_OK; i++) {
        status = read_file(files->paths[i], all);
    }
    if (status == GY_OK && all->size_bytes == 0) {
        status = gy_fail(GY_FORMAT, "%s%s: no text: the file is empty", files->paths[0],
                         files->count > 1 ? " and others" : "");
    }
    gy_file_list_free(files);
    return status;
}

/* ---- characters as numbers ---- */

/* The code point of a character that was checked. */
static uint32_t code_point(const char *at, size_t bytes)
{
    static const unsigned char heads[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    GY_ASSERT(bytes >= 1 && bytes < CHARACTER_BYTES);
    uint32_t code = (unsigned char)at[0] & heads[bytes];
    for (size_t i = 1; i < bytes; i++) {
        code = code << 6 | ((unsigned char)at[i] & 0x3fU);
    }
    GY_ASSERT(code < CODE_POINTS);
    return code;
}

/* numbers (CODE_POINTS): 1 for each character that occurs, the text's characters counted. */
static int64_t mark_characters(const gy_text *all, uint16_t *numbers)
{
    int64_t count = 0;
    for (size_t at = 0; at < all->size_bytes; count++) {
        const size_t bytes = gy_utf8_bytes((const unsigned char *)all->data + at);
        numbers[code_point(all->data + at, bytes)] = 1;
        at += bytes;
    }
    return count;
}

/* The numbers of the characters that occur, from 0 in the order of code points. */
static gy_status number_characters(uint16_t *numbers, corpus *text)
{
    int classes = 0;
    for (int code = 0; code < CODE_POINTS; code++) {
        if (numbers[code] == 0) {
            continue;
        }
        if (classes == CLASSES_MAX) {
            return gy_fail(GY_LIMIT, "the text has more than %d different characters",
                           CLASSES_MAX);
        }
        numbers[code] = (uint16_t)classes++;
    }
    text->classes = classes;
    return GY_OK;
}

static void encode(const gy_text *all, const uint16_t *numbers, corpus *text)
{
    int64_t i = 0;
    for (size_t at = 0; at < all->size_bytes; i++) {
        const size_t bytes = gy_utf8_bytes((const unsigned char *)all->data + at);
        const uint16_t number = numbers[code_point(all->data + at, bytes)];
        text->codes[i] = number;
        memcpy(text->characters[number], all->data + at, bytes);
        at += bytes;
    }
    GY_ASSERT(i == text->count);
    for (int k = 0; k < text->classes; k++) {
        text->names[k] = text->characters[k];
    }
}

static void corpus_free(corpus *text)
{
    if (text != NULL) {
        gy_free(text->codes);
        gy_free(text->characters);
        gy_free((void *)text->names);
        gy_free(text);
    }
}

static gy_status corpus_fill(const gy_text *all, corpus *text)
{
    uint16_t *numbers = gy_alloc_zero("train.text", CODE_POINTS, sizeof(*numbers));
    if (numbers == NULL) {
        return GY_NOMEM;
    }
    text->count = mark_characters(all, numbers);
    gy_status status = number_characters(numbers, text);
    if (status == GY_OK) {
        const size_t classes = (size_t)text->classes;
        text->codes = gy_alloc("train.text", (size_t)text->count * sizeof(*text->codes));
        text->characters = gy_alloc_zero("train.text", classes, CHARACTER_BYTES);
        text->names = gy_alloc_zero("train.text", classes, sizeof(*text->names));
        status = text->codes != NULL && text->characters != NULL && text->names != NULL
                     ? GY_OK
                     : GY_NOMEM;
    }
    if (status == GY_OK) {
        encode(all, numbers, text);
    }
    gy_free(numbers);
    return status;
}

static gy_status corpus_open(const char *const *paths, corpus **text)
{
    gy_text all = {.data = NULL};
    corpus *made = NULL;
    gy_status status = read_files(paths, &all);
    if (status == GY_OK) {
        made = gy_alloc_zero("train.text", 1, sizeof(*made));
        status = made != NULL ? corpus_fill(&all, made) : GY_NOMEM;
    }
    gy_text_free(&all);
    if (status < 0) {
        corpus_free(made);
        return status;
    }
    *text = made;
    return GY_OK;
}

/* ---- data sets ---- */

static gy_status text_fill(gy_dataset *dataset, const int64_t *indices, int64_t count,
                           gy_view *x, gy_view *labels)
{
    const text_dataset *own = (const text_dataset *)dataset;
    GY_ASSERT(x->dtype == GY_I32 && gy_view_count(x) == count * own->length);
    for (int64_t i = 0; i < count; i++) {
        GY_ASSERT(indices[i] >= 0 && indices[i] < dataset->count);
        const uint16_t *from = own->text->codes + own->begin + indices[i] * own->length;
        int32_t *to = (int32_t *)x->data + i * own->length;
        for (int64_t t = 0; t < own->length; t++) {
            to[t] = from[t];
            if (labels != NULL) {
                ((int32_t *)labels->data)[i * own->length + t] = from[t + 1];
            }
        }
    }
    return GY_OK;
}

static void text_free(gy_dataset *dataset)
{
    text_dataset *own = (text_dataset *)dataset;
    GY_ASSERT(own->text->holders > 0);
    if (--own->text->holders == 0) {
        corpus_free(own->text);
    }
    gy_free(own);
}

static const gy_dataset_ops text_ops = {.name = "text", .fill = text_fill, .free = text_free};

/* The part of `count` characters from `begin` on. */
static text_dataset *part_new(corpus *text, int64_t begin, int64_t count, int64_t length)
{
    text_dataset *made = gy_alloc_zero("train.text", 1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    made->base = (gy_dataset){
        .ops = &text_ops,
        .count = (count - 1) / length, /* the last character is a label alone */
        .classes = text->classes,
        .class_names = text->names,
        .input_rank = 1,
        .input_sizes = {length},
        .input_dtype = GY_I32,
        .label_rank = 1,
        .label_sizes = {length},
    };
    made->text = text;
    made->begin = begin;
    made->length = length;
    GY_ASSERT(made->base.count >= 1);
    return made;
}

gy_status gy_dataset_open_text(const char *const *paths, int64_t length, gy_dataset **train,
                               gy_dataset **test)
{
    corpus *text = NULL;
    if (length < 1) {
        return gy_fail(GY_ARG, "windows of %lld characters, expected at least 1",
                       (long long)length);
    }
    GY_TRY(corpus_open(paths, &text));
    GY_ASSERT(text != NULL && text->count > 0);
    const int64_t held_out = text->count / 10, trained = text->count - held_out;
    if (held_out <= length) {
        const long long count = text->count;
        corpus_free(text);
        return gy_fail(
            GY_ARG,
            "%s%s: a text of %lld characters, of which the last %lld are the test part, is "
            "too short for windows of %lld: expected shorter windows or more text",
            paths[0], paths[1] != NULL ? " and more" : "", count, (long long)held_out,
            (long long)length);
    }
    text_dataset *first = part_new(text, 0, trained, length);
    text_dataset *second = part_new(text, trained, held_out, length);
    if (first == NULL || second == NULL) {
        gy_free(first);
        gy_free(second);
        corpus_free(text);
        return GY_NOMEM;
    }
    text->holders = 2;
    *train = &first->base;
    *test = &second->base;
    return GY_OK;
}

int64_t gy_dataset_text_count(const gy_dataset *dataset)
{
    GY_ASSERT(dataset->ops == &text_ops);
    return ((const text_dataset *)dataset)->text->count;
}
