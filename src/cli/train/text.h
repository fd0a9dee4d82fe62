/** The models of gyre train that learn text: their options, data and defaults. */
#ifndef GY_CLI_TRAIN_TEXT_H
#define GY_CLI_TRAIN_TEXT_H

#include <gyre/gpt.h>

#include <stdbool.h>

/** What the options say; 0: nothing, dropout below 0. */
typedef struct gy_cli_text {
    long long layers, width, heads, context; /* of gpt, layers of lstm as well */
    long long hidden, bptt;                  /* of lstm */
    double dropout;
} gy_cli_text;

/** Is it a model of text? */
bool gy_cli_is_text(const char *model);
/** Do the options fit with the model and each other? An exit status; a message on failure. */
int gy_cli_text_check(const char *model, const gy_cli_text *text);
/** The text in files `paths` (NULL-ended), as the model reads it; `is_first` prints about it.
 */
gy_status gy_cli_text_open(const char *model, const gy_cli_text *text, const char *const *paths,
                           bool is_first, gy_dataset **train, gy_dataset **test);
/** The model for that text; what the options leave open stands in `base`. */
gy_status gy_cli_text_model(const char *model, const gy_cli_text *text, gy_dataset *train,
                            const gy_model_options *base, gy_model **made);

#endif
