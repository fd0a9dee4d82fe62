/**
 * A corpus for "recognise the language of code": labelled lines from the files of this machine.
 *
 * C headers, Python, Perl, English documents and shell scripts, read by all ranks of a
 * communicator, each its share of the files; every rank then has the same samples, whatever the
 * number of ranks.
 */
#ifndef GYRE_DEMO_CORPUS_H
#define GYRE_DEMO_CORPUS_H

#include <gyre/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The classes, in the order of their labels: name and the folders that are looked in. */
#define GY_LANGUAGE_LIST(X)                                                                    \
    X(C, "C", "/usr/include")                                                                  \
    X(PYTHON, "Python", "/usr/lib/python3*")                                                   \
    X(PERL, "Perl", "/usr/share/perl*")                                                        \
    X(PROSE, "prose", "/usr/share/doc")                                                        \
    X(SHELL, "shell", "/usr and /etc (scripts by their #! line)")

typedef enum gy_language {
#define GY_X(name, text, folders) GY_LANGUAGE_##name,
    GY_LANGUAGE_LIST(GY_X)
#undef GY_X
        GY_LANGUAGE_COUNT
} gy_language;

/** "C", "Python", …; static. @threads any */
GY_API const char *gy_language_name(gy_language language);

typedef struct gy_corpus gy_corpus;

/** Zero fields are the defaults. */
typedef struct gy_corpus_options {
    const char *root;       /* the folder that stands for "/"; NULL: "/" */
    gy_comm *comm;          /* ranks that share the reading; NULL: this process alone */
    int64_t class_bytes;    /* read at most this much of a class; 0: 64 MiB */
    int file_lines;         /* lines taken from one file; 0: 60 */
    int64_t class_lines;    /* lines of one class; 0: 16,000 */
    int test_percent;       /* files held back for the test; 0: 20 */
    int64_t smallest_class; /* fewer lines than this are too few; 0: 500 */
} gy_corpus_options;

/** What was read of one class. */
typedef struct gy_corpus_class {
    int64_t files, lines, bytes;     /* read: lines before repeats were dropped */
    int64_t unreadable, binary;      /* files skipped */
    int64_t kept_lines;              /* different lines, before classes were made equal */
    int64_t train_lines, test_lines; /* samples */
    int64_t train_files, test_files; /* files that samples come from */
} gy_corpus_class;

/** One line: borrowed from the corpus, not NUL-terminated. */
typedef struct gy_sample {
    const char *text;
    int32_t size_bytes;
    int32_t label; /* gy_language */
    int32_t file;  /* an index that its file's other samples share */
} gy_sample;

/**
 * Read the corpus. All ranks of options->comm call it together and get the same samples.
 *
 * Symbolic links are not followed; unreadable and binary files are counted and skipped. Lines
 * with few letters and lines seen before (anywhere) are dropped; a file is wholly for training
 * or wholly for the test, by a hash of its path.
 *
 * @return GY_OK; GY_NOTFOUND a class has too few lines or files (names the folders); GY_IO a
 * folder cannot be read to its end; GY_MISMATCH files changed while the ranks listed them;
 * GY_NOMEM; what the exchange failed with
 * @cost reads at most 5 * class_bytes over all ranks; keeps about 5 * class_lines * 60 bytes
 */
GY_API GY_MUST_CHECK gy_status gy_corpus_read(const gy_corpus_options *options,
                                              gy_corpus **corpus);
/** NULL is fine. */
GY_API void gy_corpus_free(gy_corpus *corpus);

/** Samples of the training or the test part. */
GY_API int64_t gy_corpus_count(const gy_corpus *corpus, bool is_test);
/** index in [0, count); ordered by file, a file's samples side by side. */
GY_API gy_sample gy_corpus_sample(const gy_corpus *corpus, bool is_test, int64_t index);
GY_API const gy_corpus_class *gy_corpus_class_of(const gy_corpus *corpus, gy_language language);
/** The file's path, under the root. */
GY_API const char *gy_corpus_path(const gy_corpus *corpus, int32_t file);

#ifdef __cplusplus
}
#endif
#endif
