/**
 * Language models over characters: text files as data sets.
 *
 * @source Radford et al., "Language models are unsupervised multitask learners" (GPT-2), 2019
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

#ifdef __cplusplus
}
#endif
#endif
