/** Samples of letters that follow one another, for small language models. */
#ifndef GY_LETTERS_KIT_H
#define GY_LETTERS_KIT_H

#include <gyre/gpt.h>

#include "training_kit.h"

enum { KIT_LETTERS = 20 };

static const char *const kit_letter_names[KIT_LETTERS] = {"a", "b", "c", "d", "e", "f", "g",
                                                          "h", "i", "j", "k", "l", "m", "n",
                                                          "o", "p", "q", "r", "s", "t"};

/* A GPT of two blocks over all letters. */
static inline gy_model *kit_letters_gpt(int64_t length, int width, int workers)
{
    gy_model *model = NULL;
    const gy_model_options base =
        GY_OPTIONS(gy_model_options, .seed = 11, .workers = workers, .input_sizes = {length},
                   .class_names = kit_letter_names, .class_count = KIT_LETTERS);
    assert_ok(gy_gpt_new(
        &GY_OPTIONS(gy_gpt_options, .layers = 2, .width = width, .heads = 2, .dropout = 0.1),
        &base, &model));
    return model;
}

/* Each sample begins at another letter; labels are the letters that follow. */
static inline gy_status kit_letters_fill(gy_dataset *dataset, const int64_t *indices,
                                         int64_t count, gy_view *x, gy_view *labels)
{
    const int64_t length = dataset->input_sizes[0], letters = dataset->classes;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t t = 0; t < length; t++) {
            const int64_t letter = indices[i] + t * (1 + indices[i] % 3);
            ((int32_t *)x->data)[i * length + t] = (int32_t)(letter % letters);
            if (labels != NULL) {
                ((int32_t *)labels->data)[i * length + t] = (int32_t)((letter + 1) % letters);
            }
        }
    }
    return GY_OK;
}

static const gy_dataset_ops kit_letters_ops = {
    .name = "letters", .fill = kit_letters_fill, .free = kit_free};

static inline gy_dataset kit_letters(int64_t samples, int letters, int64_t length)
{
    return (gy_dataset){.ops = &kit_letters_ops,
                        .count = samples,
                        .classes = letters,
                        .input_rank = 1,
                        .input_sizes = {length},
                        .input_dtype = GY_I32,
                        .label_rank = 1,
                        .label_sizes = {length}};
}

#endif
