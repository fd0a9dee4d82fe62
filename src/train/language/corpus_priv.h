/**
 * The stages of reading a corpus: list the files (alike on all ranks), scan one's share,
 * exchange, select (pure), exchange the text of what was selected.
 */
#ifndef GY_TRAIN_CORPUS_PRIV_H
#define GY_TRAIN_CORPUS_PRIV_H

#include "base/base.h"
#include <gyre/demo/corpus.h>

enum {
    CORPUS_FILE_BYTES = 256 * 1024, /* read of one file */
    CORPUS_LETTERS = 6,             /* a line with fewer letters is near-empty */
    CORPUS_RANKS = 1024,            /* that share one reading */
    CORPUS_DEPTH = 48,              /* folders deeper than this are not entered */
};

typedef struct corpus_file {
    const char *path; /* under the root, begins with '/' */
    uint64_t order;   /* hash of path */
    int64_t size_bytes;
    uint8_t label; /* gy_language */
    bool is_test, is_gzip;
} corpus_file;

/* Sorted by (order, path). */
typedef struct corpus_list {
    corpus_file *files;
    size_t count, capacity;
    int64_t links, folders; /* left out: links to what would count, folders not entered */
    gy_arena paths;
} corpus_list;

/* A line that passed, before repeats are dropped. */
typedef struct corpus_line {
    uint64_t hash; /* of the text without white space around it */
    int32_t file, line;
} corpus_line;

/* The lines of the files that one rank read. texts[i] begins at begins[i]. */
typedef struct corpus_scan {
    corpus_line *lines;
    size_t count, capacity;
    size_t *begins; /* count + 1 */
    size_t begins_capacity;
    gy_text texts;
    gy_corpus_class classes[GY_LANGUAGE_COUNT];
} corpus_scan;

/* How ranks meet. gather: every rank gives size_bytes of its own and gets all of them in rank
 * order in `all` (appended), rank r's part being [begins[r], begins[r + 1]). */
typedef struct corpus_peers {
    int rank, ranks;
    gy_status (*gather)(void *arg, const void *mine, size_t size_bytes, gy_text *all,
                        size_t *begins);
    void *arg;
} corpus_peers;

/* Options with the defaults filled in. */
gy_corpus_options gy_corpus_defaults(const gy_corpus_options *options);

/* Every file that may be read, cut to class_bytes a class. */
GY_MUST_CHECK gy_status gy_corpus_list_files(const gy_corpus_options *options,
                                             corpus_list *list);
void gy_corpus_list_free(corpus_list *list);

/* Read the files i with i % ranks == rank. */
GY_MUST_CHECK gy_status gy_corpus_scan_files(const gy_corpus_options *options,
                                             const corpus_list *list, int rank, int ranks,
                                             corpus_scan *scan);
void gy_corpus_scan_free(corpus_scan *scan);

/* Read one file of any language, plain or gzip, by its path. GY_FORMAT it is binary or damaged;
 * GY_NOTFOUND; GY_IO; GY_NOMEM. */
GY_MUST_CHECK gy_status gy_corpus_scan_one(const char *path, int file_lines, corpus_scan *scan);

/**
 * Choose: of equal lines the first stays, then every class is cut to the size of the smallest,
 * whole files first come. Reorders `lines`; the chosen ones are lines[0 .. *chosen), by (file,
 * line). Fills the kept_, train_ and test_ members of classes.
 */
GY_MUST_CHECK gy_status gy_corpus_select(const gy_corpus_options *options,
                                         const corpus_list *list, corpus_line *lines,
                                         size_t count, gy_corpus_class *classes,
                                         size_t *chosen);

/* gy_corpus_read over any meeting of ranks. */
GY_MUST_CHECK gy_status gy_corpus_read_with(const gy_corpus_options *options,
                                            const corpus_peers *peers, gy_corpus **corpus);

#endif
