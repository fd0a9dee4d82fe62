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

/** Whether the model takes windows of tokens and gives the next of each: *length takes how many
 * tokens a window has. */
bool gy_train_takes_tokens(const gy_model *model, int64_t *length);

#endif
