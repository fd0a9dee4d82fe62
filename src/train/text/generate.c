/**
 * Text that a model of characters writes: the next one is drawn by its probabilities, and then
 * is one of those that the model sees.
 */
#include "base/base.h"
#include "base/escape.h"
#include "train/train.h"

#include <gyre/gpt.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 500 };

typedef struct choice {
    double value; /* log-probability */
    int index;
} choice;

typedef struct writer {
    gy_model *model;
    gy_generate_options options;
    int64_t window; /* characters that the model sees */
    int classes;
    int32_t *seen; /* (window) the last ones */
    int64_t seen_count;
    gy_tensor *x;          /* (1, window) */
    gy_train_steps *steps; /* of a model that hands state on: all that was seen is in it */
    double *next;          /* (classes) its log-probabilities */
    choice *choices;       /* (classes) */
    gy_random random;
} writer;

/* ---- the prompt ---- */

/* The class that is called so; -1: none. */
static int class_of(const writer *w, const char *character, size_t bytes)
{
    for (int i = 0; i < w->classes; i++) {
        const char *name = gy_model_class_name(w->model, i);
        if (strncmp(name, character, bytes) == 0 && name[bytes] == '\0') {
            return i;
        }
    }
    return -1;
}

/* One more character that the model sees; the oldest goes where the window is full, unless the
 * model hands state on. */
static gy_status see(writer *w, int character)
{
    GY_ASSERT(character >= 0 && character < w->classes);
    if (w->steps != NULL) {
        w->seen_count = 1;
        return gy_train_steps_next(w->steps, character, w->next);
    }
    if (w->seen_count == w->window) {
        memmove(w->seen, w->seen + 1, (size_t)(w->window - 1) * sizeof(*w->seen));
        w->seen_count--;
    }
    w->seen[w->seen_count++] = character;
    return GY_OK;
}

static gy_status read_prompt(writer *w, const char *prompt)
{
    const char *at = prompt;
    for (int64_t place = 1; *at != '\0'; place++) {
        const size_t bytes = gy_utf8_bytes((const unsigned char *)at);
        const int character = bytes > 0 ? class_of(w, at, bytes) : -1;
        if (character < 0) {
            char shown[32];
            gy_printable(shown, sizeof(shown), at, bytes > 0 ? bytes : 1, "");
            return gy_fail(GY_ARG,
                           "the model does not know '%s', character %lld of the prompt: the "
                           "text that it learned had %d others",
                           shown, (long long)place, w->classes);
        }
        GY_TRY(see(w, character));
        at += bytes;
    }
    if (w->seen_count == 0) {
        const int line_end = class_of(w, "\n", 1), space = class_of(w, " ", 1);
        return see(w, line_end >= 0 ? line_end : space >= 0 ? space : 0);
    }
    return GY_OK;
}

/* ---- drawing ---- */

/* The likeliest first, of equals the first class. */
static int compare(const void *a, const void *b)
{
    const choice *first = a, *second = b;
    if (first->value != second->value) {
        return first->value > second->value ? -1 : 1;
    }
    return first->index < second->index ? -1 : 1;
}

/* One of the choices, by their log-probabilities. */
static int draw(writer *w)
{
    const int top = w->options.top_k;
    const int count = top > 0 && top < w->classes ? top : w->classes;
    double total = 0;
    qsort(w->choices, (size_t)w->classes, sizeof(*w->choices), compare);
    const double best = w->choices[0].value;
    for (int i = 0; i < count; i++) {
        total += exp((w->choices[i].value - best) / w->options.temperature);
    }
    double rest = gy_random_unit(&w->random) * total;
    for (int i = 0; i + 1 < count; i++) {
        rest -= exp((w->choices[i].value - best) / w->options.temperature);
        if (rest < 0) {
            return w->choices[i].index;
        }
    }
    return w->choices[count - 1].index;
}

/* Log-probabilities of the next character. Places of the window behind the last one hold
 * anything: none that stands before looks at them. */
static gy_status predict(writer *w)
{
    for (int i = 0; w->steps != NULL && i < w->classes; i++) {
        w->choices[i] = (choice){.value = w->next[i], .index = i};
    }
    if (w->steps != NULL) {
        return GY_OK;
    }
    gy_tensor *out = NULL;
    gy_view x = gy_tensor_pin(w->x);
    memset(x.data, 0, (size_t)w->window * sizeof(int32_t));
    memcpy(x.data, w->seen, (size_t)w->seen_count * sizeof(int32_t));
    gy_tensor_unpin(w->x);
    GY_TRY(gy_model_predict(w->model, w->x, &out));
    const gy_view values = gy_tensor_pin(out);
    GY_ASSERT(gy_view_count(&values) == w->window * w->classes &&
              gy_view_is_contiguous(&values));
    const float *last = (const float *)values.data + (w->seen_count - 1) * w->classes;
    for (int i = 0; i < w->classes; i++) {
        w->choices[i] = (choice){.value = (double)last[i], .index = i};
    }
    gy_tensor_unpin(out);
    gy_tensor_drop(out);
    return GY_OK;
}

static gy_status write_all(writer *w)
{
    for (int64_t i = 0; i < w->options.length; i++) {
        GY_TRY(predict(w));
        const int character = draw(w);
        GY_TRY(see(w, character));
        if (w->options.on_text != NULL) {
            GY_TRY(
                w->options.on_text(w->options.arg, gy_model_class_name(w->model, character)));
        }
    }
    return GY_OK;
}

/* ---- both ---- */

static gy_status check(writer *w)
{
    const gy_generate_options *o = &w->options;
    if (o->length < 0 || o->top_k < 0 || !(o->temperature > 0 && isfinite(o->temperature))) {
        return gy_fail(GY_ARG,
                       "generate: length %lld, top k %d, temperature %g: expected none below 0",
                       (long long)o->length, o->top_k, o->temperature);
    }
    w->classes = gy_model_class_count(w->model);
    if (!gy_train_takes_tokens(w->model, &w->window) ||
        gy_model_class_name(w->model, 0) == NULL) {
        return gy_fail(GY_ARG, "model %s does not write text: it is no model of characters",
                       gy_model_name(w->model));
    }
    return GY_OK;
}

static gy_status begin(writer *w)
{
    const int64_t sizes[2] = {1, w->window};
    w->seen = gy_alloc_zero("train.generate", (size_t)w->window, sizeof(*w->seen));
    w->choices = gy_alloc_zero("train.generate", (size_t)w->classes, sizeof(*w->choices));
    w->next = gy_alloc_zero("train.generate", (size_t)w->classes, sizeof(*w->next));
    if (w->seen == NULL || w->choices == NULL || w->next == NULL) {
        return GY_NOMEM;
    }
    return gy_train_has_carried(w->model) ? gy_train_steps_new(w->model, &w->steps)
                                          : gy_tensor_new(NULL, GY_I32, sizes, 2, &w->x);
}

gy_status gy_gpt_generate(gy_model *model, const char *prompt,
                          const gy_generate_options *options)
{
    writer w = {.model = model};
    GY_TRY(gy_options_take(gy_generate_options, &w.options, options));
    w.options.length = w.options.length != 0 ? w.options.length : LENGTH;
    w.options.temperature = w.options.temperature != 0 ? w.options.temperature : 1;
    w.random.key = w.options.seed;
    GY_TRY(check(&w));
    gy_status status = begin(&w);
    if (status == GY_OK) {
        status = read_prompt(&w, prompt);
    }
    if (status == GY_OK) {
        status = write_all(&w);
    }
    gy_train_steps_free(w.steps);
    gy_tensor_drop(w.x);
    gy_free(w.next);
    gy_free(w.seen);
    gy_free(w.choices);
    return status;
}
