/**
 * The main job: recognise the language of code, line by line, with a two-layer network over
 * hashed character 3-grams.
 */
#ifndef GYRE_DEMO_LANGUAGE_H
#define GYRE_DEMO_LANGUAGE_H

#include <gyre/demo/corpus.h>
#include <gyre/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The architecture's name in model files. */
#define GY_LANGUAGE_MODEL "language"

/** One part of a corpus as a data set: features made on demand. Borrows the corpus. */
GY_API GY_MUST_CHECK gy_status gy_language_dataset(const gy_corpus *corpus, bool is_test,
                                                   gy_dataset **dataset);

/** The network, not trained; of `base` seed, comm, workers and dtype count. */
GY_API GY_MUST_CHECK gy_status gy_language_model(const gy_model_options *base,
                                                 gy_model **model);

/** How it is trained well: what is 0 in `options` and matters is filled in. */
GY_API void gy_language_recipe(gy_train_options *options);

/** Metadata to save with it, NULL-ended, for gy_model_save. */
GY_API const char *const *gy_language_metadata(void);

/** How well a model does on the test part. */
typedef struct gy_language_score {
    int64_t lines, lines_right;
    int64_t files, files_right; /* a file is what its lines' log-probabilities sum up to */
    int64_t confusion[GY_LANGUAGE_COUNT][GY_LANGUAGE_COUNT]; /* lines, [is][taken for] */
} gy_language_score;

/** Each rank of `comm` (NULL: alone) scores its share of the files; all get the sums. */
GY_API GY_MUST_CHECK gy_status gy_language_evaluate(gy_model *model, const gy_corpus *corpus,
                                                    gy_comm *comm, gy_language_score *score);

/** Load a model file. GY_TYPE it holds another architecture; else as gy_model_load. */
GY_API GY_MUST_CHECK gy_status gy_language_open(const char *path, gy_model **model);

/** What a model says of a text. */
typedef struct gy_language_verdict {
    gy_language language;
    double probability; /* of it: by the mean log-probability over the lines */
    int64_t lines;      /* that counted; 0: none had enough letters */
} gy_language_verdict;

/**
 * Label each of `count` lines (size_bytes and text are read) alone.
 * @return GY_OK; GY_NOMEM; what the graph failed with. Runs on this rank alone.
 */
GY_API GY_MUST_CHECK gy_status gy_language_label_lines(gy_model *model, const gy_sample *lines,
                                                       int64_t count,
                                                       gy_language_verdict *verdicts);

/**
 * Label a file (plain or .gz) by up to 1,024 lines of its first 256 KiB, spread evenly.
 * @return GY_OK; GY_NOTFOUND; GY_IO; GY_FORMAT the file holds NUL bytes, or damaged gzip
 */
GY_API GY_MUST_CHECK gy_status gy_language_label_file(gy_model *model, const char *path,
                                                      gy_language_verdict *verdict);

#ifdef __cplusplus
}
#endif
#endif
