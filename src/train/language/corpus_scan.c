/* Reads this rank's share of the files and takes the lines that count from each. */
#include "train/language/corpus_priv.h"

#include "store/store.h"
#include "train/language/ngrams.h"

#include <string.h>

typedef struct line_span {
    int32_t begin, size;
} line_span;

/* Kept from file to file: what was read, and the lines in it that count. */
typedef struct file_reader {
    gy_text path; /* of the file */
    char *text;   /* CORPUS_FILE_BYTES */
    size_t text_bytes;
    line_span *spans;
    size_t span_count, span_capacity;
} file_reader;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Read up to CORPUS_FILE_BYTES, expanded where it is compressed, without a byte order mark. */
static gy_status read_file(file_reader *reader, const char *path)
{
    gy_source *source = NULL;
    GY_TRY(gy_source_open(gy_env_real(), path, GY_ENCODING_AUTO, &source));
    gy_status status =
        gy_source_read(source, reader->text, CORPUS_FILE_BYTES, &reader->text_bytes);
    gy_source_close(source);
    if (status == GY_OK && reader->text_bytes >= 3 &&
        memcmp(reader->text, "\xef\xbb\xbf", 3) == 0) {
        reader->text_bytes -= 3;
        memmove(reader->text, reader->text + 3, reader->text_bytes);
    }
    if (status == GY_OK && memchr(reader->text, '\n', reader->text_bytes) == NULL) {
        for (size_t i = 0; i < reader->text_bytes; i++) { /* lines that end by CR alone */
            reader->text[i] = (char)(reader->text[i] == '\r' ? '\n' : reader->text[i]);
        }
    }
    return status;
}

/* Where a Perl file stops being Perl: its manual (from "=word" to "=cut") is prose. */
static bool is_manual(const char *line, size_t size, bool *in_manual)
{
    if (size >= 2 && line[0] == '=' && is_letter(line[1])) {
        *in_manual = !(size >= 4 && memcmp(line, "=cut", 4) == 0);
        return true;
    }
    return *in_manual;
}

static gy_status add_span(file_reader *reader, size_t begin, size_t size)
{
    GY_TRY(
        GY_GROW("train.corpus", reader->spans, reader->span_capacity, reader->span_count + 1));
    reader->spans[reader->span_count++] =
        (line_span){(int32_t)begin, (int32_t)GY_MIN(size, (size_t)GY_NGRAM_LINE_BYTES)};
    return GY_OK;
}

/* Find the lines with enough letters; white space at their ends does not count. */
static gy_status find_lines(file_reader *reader, gy_language language)
{
    reader->span_count = 0;
    bool in_manual = false;
    const char *text = reader->text;
    for (size_t begin = 0; begin < reader->text_bytes;) {
        const char *newline = memchr(text + begin, '\n', reader->text_bytes - begin);
        size_t end = newline != NULL ? (size_t)(newline - text) : reader->text_bytes;
        size_t size = end - begin;
        while (size > 0 && is_blank(text[begin + size - 1])) {
            size--;
        }
        if (language == GY_LANGUAGE_PERL) {
            if (size == 7 && memcmp(text + begin, "__END__", 7) == 0) {
                break;
            }
            if (is_manual(text + begin, size, &in_manual)) {
                size = 0;
            }
        }
        int letters = 0;
        for (size_t i = 0; i < size && letters < CORPUS_LETTERS; i++) {
            letters += is_letter(text[begin + i]) ? 1 : 0;
        }
        if (letters >= CORPUS_LETTERS) {
            GY_TRY(add_span(reader, begin, size));
        }
        begin = end + 1;
    }
    return GY_OK;
}

static gy_status take_line(corpus_scan *scan, const char *text, size_t size, int32_t file,
                           int32_t line)
{
    size_t skip = 0;
    while (skip < size && is_blank(text[skip])) {
        skip++;
    }
    GY_TRY(GY_GROW("train.corpus", scan->lines, scan->capacity, scan->count + 1));
    GY_TRY(GY_GROW("train.corpus", scan->begins, scan->begins_capacity, scan->count + 2));
    scan->begins[scan->count] = scan->texts.size_bytes;
    gy_text_add_bytes(&scan->texts, text, size);
    scan->lines[scan->count++] =
        (corpus_line){.hash = gy_hash(text + skip, size - skip, 0), .file = file, .line = line};
    scan->begins[scan->count] = scan->texts.size_bytes;
    return scan->texts.status;
}

/* Lines spread evenly over the file, at most file_lines. */
static gy_status take_lines(corpus_scan *scan, const file_reader *reader, int32_t file,
                            int file_lines)
{
    size_t wanted = GY_MIN(reader->span_count, (size_t)file_lines);
    for (size_t i = 0; i < wanted; i++) {
        const line_span *line = &reader->spans[i * reader->span_count / wanted];
        GY_TRY(
            take_line(scan, reader->text + line->begin, (size_t)line->size, file, (int32_t)i));
    }
    return GY_OK;
}

static gy_status scan_file(const gy_corpus_options *options, const corpus_list *list,
                           int32_t index, file_reader *reader, corpus_scan *scan)
{
    const corpus_file *file = &list->files[index];
    gy_corpus_class *class = &scan->classes[file->label];
    reader->path.size_bytes = 0;
    gy_text_add(&reader->path, "%s%s", options->root, file->path);
    GY_TRY(reader->path.status);
    gy_status status = read_file(reader, reader->path.data);
    if (status == GY_NOMEM) {
        return status;
    }
    if (status != GY_OK) {
        class->unreadable++;
        return GY_OK;
    }
    if (memchr(reader->text, '\0', reader->text_bytes) != NULL) {
        class->binary++;
        return GY_OK;
    }
    GY_TRY(find_lines(reader, (gy_language)file->label));
    class->files++;
    class->bytes += (int64_t)reader->text_bytes;
    class->lines += (int64_t)reader->span_count;
    return take_lines(scan, reader, index, options->file_lines);
}

gy_status gy_corpus_scan_files(const gy_corpus_options *options, const corpus_list *list,
                               int rank, int ranks, corpus_scan *scan)
{
    GY_ASSERT(rank >= 0 && rank < ranks);
    *scan = (corpus_scan){.count = 0};
    file_reader reader = {.text = gy_alloc("train.corpus", CORPUS_FILE_BYTES)};
    gy_status status = reader.text != NULL ? GY_OK : GY_NOMEM;
    for (size_t i = (size_t)rank; i < list->count && status == GY_OK; i += (size_t)ranks) {
        status = scan_file(options, list, (int32_t)i, &reader, scan);
    }
    gy_free(reader.spans);
    gy_free(reader.text);
    gy_text_free(&reader.path);
    if (status != GY_OK) {
        gy_corpus_scan_free(scan);
    }
    return status;
}

static gy_status scan_one(file_reader *reader, const char *path, int file_lines,
                          corpus_scan *scan)
{
    GY_TRY(read_file(reader, path));
    const char *nul = memchr(reader->text, '\0', reader->text_bytes);
    if (nul != NULL) {
        return gy_fail(GY_FORMAT, "%s: a NUL byte at offset %td, expected text", path,
                       nul - reader->text);
    }
    GY_TRY(find_lines(reader, GY_LANGUAGE_PROSE));
    return take_lines(scan, reader, 0, file_lines);
}

gy_status gy_corpus_scan_one(const char *path, int file_lines, corpus_scan *scan)
{
    *scan = (corpus_scan){.count = 0};
    file_reader reader = {.text = gy_alloc("train.corpus", CORPUS_FILE_BYTES)};
    gy_status status =
        reader.text != NULL ? scan_one(&reader, path, file_lines, scan) : GY_NOMEM;
    gy_free(reader.spans);
    gy_free(reader.text);
    if (status != GY_OK) {
        gy_corpus_scan_free(scan);
    }
    return status;
}

void gy_corpus_scan_free(corpus_scan *scan)
{
    gy_free(scan->lines);
    gy_free(scan->begins);
    gy_text_free(&scan->texts);
    *scan = (corpus_scan){.count = 0};
}
