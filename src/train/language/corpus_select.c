/* Which of all lines become samples. Pure: the same lines in any order give the same choice. */
#include "train/language/corpus_priv.h"

#include <stdlib.h>

static int compare_place(const corpus_line *a, const corpus_line *b)
{
    if (a->file != b->file) {
        return a->file < b->file ? -1 : 1;
    }
    return a->line < b->line ? -1 : a->line > b->line ? 1 : 0;
}

static int by_hash(const void *left, const void *right)
{
    const corpus_line *a = left, *b = right;
    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    return compare_place(a, b);
}

static int by_place(const void *left, const void *right)
{
    return compare_place(left, right);
}

/* Keep the first of equal lines; returns how many stay, in front. */
static size_t drop_repeats(corpus_line *lines, size_t count)
{
    qsort(lines, count, sizeof(*lines), by_hash);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || lines[i].hash != lines[kept - 1].hash) {
            lines[kept++] = lines[i];
        }
    }
    return kept;
}

static gy_status check_enough(const gy_corpus_options *options, const gy_corpus_class *classes)
{
    static const char *const folders[] = {
#define GY_X(name, text, where) where,
        GY_LANGUAGE_LIST(GY_X)
#undef GY_X
    };
    for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
        const gy_corpus_class *class = &classes[k];
        if (class->kept_lines < options->smallest_class || class->train_files == 0 ||
            class->test_files == 0) {
            return gy_fail(GY_NOTFOUND,
                           "corpus: too few files of %s: %lld lines of %lld files for "
                           "training and %lld for the test, expected at least %lld lines and a "
                           "file of each; looked in %s under '%s'",
                           gy_language_name((gy_language)k), (long long)class->kept_lines,
                           (long long)class->train_files, (long long)class->test_files,
                           (long long)options->smallest_class, folders[k], options->root);
        }
    }
    return GY_OK;
}

/* Take lines file by file until each class has `limit`; returns how many, in front. */
static size_t take_equal(const corpus_list *list, corpus_line *lines, size_t count,
                         int64_t limit, gy_corpus_class *classes)
{
    size_t taken = 0;
    int32_t last_file = -1;
    for (size_t i = 0; i < count; i++) {
        const corpus_file *file = &list->files[lines[i].file];
        gy_corpus_class *class = &classes[file->label];
        if (class->train_lines + class->test_lines == limit) {
            continue;
        }
        bool is_new = lines[i].file != last_file;
        last_file = lines[i].file;
        *(file->is_test ? &class->test_lines : &class->train_lines) += 1;
        *(file->is_test ? &class->test_files : &class->train_files) += is_new ? 1 : 0;
        lines[taken++] = lines[i];
    }
    return taken;
}

gy_status gy_corpus_select(const gy_corpus_options *options, const corpus_list *list,
                           corpus_line *lines, size_t count, gy_corpus_class *classes,
                           size_t *chosen)
{
    size_t kept = count > 0 ? drop_repeats(lines, count) : 0;
    if (kept > 0) {
        qsort(lines, kept, sizeof(*lines), by_place);
    }
    int64_t limit = options->class_lines;
    for (size_t i = 0; i < kept; i++) {
        classes[list->files[lines[i].file].label].kept_lines++;
    }
    for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
        limit = GY_MIN(limit, classes[k].kept_lines);
    }
    *chosen = take_equal(list, lines, kept, limit, classes);
    return check_enough(options, classes);
}
