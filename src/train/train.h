/**
 * What the folders of room train share: one rank's failure is everybody's.
 */
#ifndef GY_TRAIN_TRAIN_H
#define GY_TRAIN_TRAIN_H

#include <gyre/train.h>

/**
 * A failure that the other ranks do not share: they end with the same cause instead of waiting
 * for this rank. Returns `status`; the communicator is unusable when that is a failure.
 */
gy_status gy_train_tell(gy_comm *comm, gy_status status);

/** May what its kernels take be measured here? GY_UNSUPPORTED they would run on a device. */
GY_MUST_CHECK gy_status gy_train_can_measure(const gy_train_options *options);

/** The gy_model_function of an LSTM, which reads its configuration; `arg` is not read. */
gy_status gy_train_lstm_build(void *arg, gy_model_builder *builder, gy_node x, gy_node *logits);

/** Does the model hand state on from batch to batch (gy_model_carried)? */
bool gy_train_has_carried(const gy_model *model);
/** A model of tokens that hands state on, as it reads one token after the other. */
typedef struct gy_train_steps gy_train_steps;
/**
 * Begin with a state of zeros, and the parameters that the model has now; caller owns it. The
 * model outlives it.
 * @return GY_OK; GY_STATE the model is spread over ranks; GY_NOMEM; as gy_model_new
 */
GY_MUST_CHECK gy_status gy_train_steps_new(gy_model *model, gy_train_steps **steps);
/** Read one token: log-probabilities (classes) of the next one. */
GY_MUST_CHECK gy_status gy_train_steps_next(gy_train_steps *steps, int32_t token,
                                            double *log_probabilities);
/** NULL is fine. */
void gy_train_steps_free(gy_train_steps *steps);

/** Whether the model takes windows of tokens and gives the next of each: *length takes how many
 * tokens a window has. */
bool gy_train_takes_tokens(const gy_model *model, int64_t *length);

#endif
