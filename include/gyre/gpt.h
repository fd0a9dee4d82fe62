/**
 * Language models over characters: text files as data sets, GPT and LSTM, and what they write.
 *
 * @source Radford et al., "Language models are unsupervised multitask learners" (GPT-2), 2019;
 * Hochreiter & Schmidhuber, "Long short-term memory", 1997
 */
#ifndef GYRE_GPT_H
#define GYRE_GPT_H

#include <gyre/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Text files as samples of a language model. A sample is a window of `length` characters; its
 * labels are the characters that follow each of them. Windows stand one behind the other, so
 * that an epoch reads each character of the training part once. The last tenth of the text is
 * the test part. Classes are the characters that occur, in the order of their code points, and
 * class_names their UTF-8.
 *
 * @param paths   files, plain or compressed, and folders of such, NULL-ended; together they are
 *                one text. A byte order mark at a file's start is no part of it
 * @param length  characters of a window, at least 1
 * @param train, test  caller owns both; on failure neither is made
 * @return GY_OK; as gy_file_list_make; GY_FORMAT a file is no UTF-8 text (names the byte and
 *         its offset), or damaged; GY_ARG length, an object's URI, or a text too short for a
 *         window of the test part; GY_LIMIT more than 1 GiB, or than 65,535 different
 * characters; GY_NOMEM
 */
GY_API GY_MUST_CHECK gy_status gy_dataset_open_text(const char *const *paths, int64_t length,
                                                    gy_dataset **train, gy_dataset **test);
/** Characters of the whole text that a data set of gy_dataset_open_text is a part of. */
GY_API int64_t gy_dataset_text_count(const gy_dataset *dataset);

/** The architecture's name in model files. */
#define GY_GPT_MODEL "gpt"

/** Zero: four layers of width 128 with four heads, no dropout. */
typedef struct gy_gpt_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int layers, width, heads;
    double dropout; /* on the sum of embeddings, and on what each half of a layer adds */
} gy_gpt_options;
/**
 * GPT-2's architecture, not trained; caller owns it: layers with layer norm before attention
 * and before the network of 4 * width units, learned positions, and an output layer that is the
 * embedding again. `heads` divides `width`.
 * @param options  NULL: the defaults
 * @param base     the length of a window as input_sizes[0], the characters as class_names and
 *                 class_count; dtype, seed, comm, workers. What describes a model is not read
 * @return as gy_model_new
 */
GY_API GY_MUST_CHECK gy_status gy_gpt_new(const gy_gpt_options *options,
                                          const gy_model_options *base, gy_model **model);

/** The architecture's name in model files. */
#define GY_LSTM_MODEL "lstm"

/** Zero: two layers of 256 units, no dropout. */
typedef struct gy_lstm_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int layers, hidden;
    double dropout; /* of what each layer but the last hands to the next one */
} gy_lstm_options;
/**
 * Layers of long short-term memory over an embedding of the characters, not trained; caller
 * owns it. State goes from each batch to the next (gy_model_carried): a data set of
 * gy_dataset_open_text is read as streams. Each layer and each time step is a handful of nodes
 * of their own, so that a mesh's axis pipe cuts layers into stages that work on neighbouring
 * times at once.
 *
 * Parameters: embedding (characters, hidden); of each layer "layer0.input.weight" and
 * "layer0.hidden.weight" (hidden, 4 hidden), "layer0.bias" (4 hidden), the columns gate by gate
 * as PyTorch has their transposes (input, forget, cell, output; its two biases are one here);
 * decoder.weight (hidden, characters), decoder.bias.
 * @param options  NULL: the defaults
 * @param base     as of gy_gpt_new; input_sizes[0] is the length of back-propagation through
 *                 time
 * @return as gy_model_new
 */
GY_API GY_MUST_CHECK gy_status gy_lstm_new(const gy_lstm_options *options,
                                           const gy_model_options *base, gy_model **model);

/** Zero: 500 characters, drawn as the model says. */
typedef struct gy_generate_options {
    size_t struct_size; /* GY_OPTIONS; 0: as compiled */
    int64_t length;     /* characters to write; 0: 500 */
    double temperature; /* log-probabilities are divided by it: below 1 favours likely ones; 0:
                           1 */
    int top_k;          /* draw among the k most likely alone; 1: the likeliest; 0: all */
    uint64_t seed;      /* of the draws; the same seed gives the same text */
    /* Called with each character (UTF-8) as it comes; a failure ends the writing. */
    gy_status (*on_text)(void *arg, const char *character);
    void *arg;
} gy_generate_options;
/**
 * Continue a text. A GPT sees as many of the last characters as its windows have; each
 * character computes a whole window, whatever of it is known. An LSTM sees all of them; each
 * computes one time step.
 *
 * @param model   of characters, on one rank: its classes are named after them
 * @param prompt  UTF-8; of an empty one the model sees a line end, or, where it knows none, a
 *                space or its first character
 * @return GY_OK; GY_ARG a character of the prompt that the model does not know (names it and
 * its place), an option, or a model that is not of characters; GY_STATE the model is spread
 *         over ranks; what on_text failed with
 */
GY_API GY_MUST_CHECK gy_status gy_gpt_generate(gy_model *model, const char *prompt,
                                               const gy_generate_options *options);

#ifdef __cplusplus
}
#endif
#endif
