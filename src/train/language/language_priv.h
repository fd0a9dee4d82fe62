/**
 * What training and labelling share.
 */
#ifndef GY_TRAIN_LANGUAGE_LANGUAGE_PRIV_H
#define GY_TRAIN_LANGUAGE_LANGUAGE_PRIV_H

#include <gyre/demo/language.h>

/* How lines become rows; a model file of other features is refused. */
#define GY_LANGUAGE_FEATURES "hashed 3-grams, 8192 buckets, version 1"

/* The features of `count` samples, into the rows of x (count, GY_NGRAM_WIDTH), f32 or f64. */
void gy_language_rows(const gy_sample *samples, int64_t count, gy_view *x);

/* Log-probabilities of the classes, values (count, GY_LANGUAGE_COUNT), on this rank alone. */
GY_MUST_CHECK gy_status gy_language_predict(gy_model *model, const gy_sample *samples,
                                            int64_t count, double *values);

#endif
