/* Names the language of lines and files with a model that was trained before. */
#include "train/language/corpus_priv.h"
#include "train/language/language_priv.h"
#include "train/language/ngrams.h"

#include <math.h>
#include <string.h>

enum { BATCH_ROWS = 256, FILE_LINES = 1024 };

gy_status gy_language_predict(gy_model *model, const gy_sample *samples, int64_t count,
                              double *values)
{
    int64_t sizes[2] = {count, GY_NGRAM_WIDTH};
    gy_tensor *x = NULL, *out = NULL;
    GY_TRY(gy_tensor_new(NULL, GY_F32, sizes, 2, &x));
    gy_view rows = gy_tensor_pin(x);
    gy_language_rows(samples, count, &rows);
    gy_tensor_unpin(x);
    gy_status status = gy_model_predict(model, x, &out);
    if (status >= 0) {
        GY_ASSERT(gy_tensor_count(out) == count * GY_LANGUAGE_COUNT);
        gy_view view = gy_tensor_pin(out);
        const float *found = view.data;
        for (int64_t i = 0; i < count * GY_LANGUAGE_COUNT; i++) {
            values[i] = (double)found[i];
        }
        gy_tensor_unpin(out);
    }
    gy_tensor_drop(out);
    gy_tensor_drop(x);
    return status;
}

gy_status gy_language_open(const char *path, gy_model **model)
{
    gy_model *loaded = NULL;
    GY_TRY(gy_model_load(path, NULL, &loaded));
    const char *name = gy_model_name(loaded);
    const char *features = gy_model_metadata(loaded, "features");
    gy_status status = GY_OK;
    if (strcmp(name, GY_LANGUAGE_MODEL) != 0) {
        status = gy_fail(GY_TYPE, "%s: holds a model '%s', expected '%s'", path, name,
                         GY_LANGUAGE_MODEL);
    } else if (features == NULL || strcmp(features, GY_LANGUAGE_FEATURES) != 0) {
        status = gy_fail(GY_TYPE, "%s: its features are '%s', expected '%s'", path,
                         features != NULL ? features : "unknown", GY_LANGUAGE_FEATURES);
    } else if (gy_model_class_count(loaded) != GY_LANGUAGE_COUNT) {
        status = gy_fail(GY_TYPE, "%s: it knows %d classes, expected %d", path,
                         gy_model_class_count(loaded), GY_LANGUAGE_COUNT);
    }
    if (status != GY_OK) {
        gy_model_free(loaded);
        return status;
    }
    *model = loaded;
    return GY_OK;
}

/* The class of the largest of the mean log-probabilities, which sum up over `lines`. */
static gy_language_verdict judge(const double *sums, int64_t lines)
{
    gy_language_verdict verdict = {.lines = lines};
    int best = 0;
    for (int k = 1; k < GY_LANGUAGE_COUNT; k++) {
        best = sums[k] > sums[best] ? k : best;
    }
    double total = 0;
    for (int k = 0; k < GY_LANGUAGE_COUNT && lines > 0; k++) {
        total += exp((sums[k] - sums[best]) / (double)lines);
    }
    verdict.language = (gy_language)best;
    verdict.probability = lines > 0 ? 1 / total : 0;
    return verdict;
}

gy_status gy_language_label_lines(gy_model *model, const gy_sample *lines, int64_t count,
                                  gy_language_verdict *verdicts)
{
    double values[BATCH_ROWS * GY_LANGUAGE_COUNT];
    for (int64_t begin = 0; begin < count; begin += BATCH_ROWS) {
        int64_t rows = GY_MIN(count - begin, (int64_t)BATCH_ROWS);
        GY_TRY(gy_language_predict(model, lines + begin, rows, values));
        for (int64_t i = 0; i < rows; i++) {
            verdicts[begin + i] = judge(values + i * GY_LANGUAGE_COUNT, 1);
        }
    }
    return GY_OK;
}

/* Sums over all lines of a scan. */
static gy_status label_scan(gy_model *model, const corpus_scan *scan,
                            gy_language_verdict *verdict)
{
    double values[BATCH_ROWS * GY_LANGUAGE_COUNT], sums[GY_LANGUAGE_COUNT] = {0};
    gy_sample samples[BATCH_ROWS];
    for (size_t begin = 0; begin < scan->count; begin += BATCH_ROWS) {
        size_t rows = GY_MIN(scan->count - begin, (size_t)BATCH_ROWS);
        for (size_t i = 0; i < rows; i++) {
            size_t from = scan->begins[begin + i];
            samples[i] =
                (gy_sample){.text = scan->texts.data + from,
                            .size_bytes = (int32_t)(scan->begins[begin + i + 1] - from)};
        }
        GY_TRY(gy_language_predict(model, samples, (int64_t)rows, values));
        for (size_t i = 0; i < rows * GY_LANGUAGE_COUNT; i++) {
            sums[i % GY_LANGUAGE_COUNT] += values[i];
        }
    }
    *verdict = judge(sums, (int64_t)scan->count);
    return GY_OK;
}

gy_status gy_language_label_file(gy_model *model, const char *path,
                                 gy_language_verdict *verdict)
{
    corpus_scan scan = {.count = 0};
    gy_status status = gy_corpus_scan_one(path, FILE_LINES, &scan);
    if (status == GY_OK) {
        status = label_scan(model, &scan, verdict);
    }
    gy_corpus_scan_free(&scan);
    return status;
}
