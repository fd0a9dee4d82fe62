/**
 * Bytes of different length from every rank to every rank.
 */
#ifndef GY_TRAIN_GATHER_H
#define GY_TRAIN_GATHER_H

#include "base/text.h"
#include <gyre/coll.h>

/**
 * Append every rank's bytes, in rank order, to `all`: rank r's are [begins[r], begins[r + 1]).
 * All ranks of `comm` (NULL: this process alone) call it together.
 *
 * @param begins ranks + 1 places
 * @return GY_OK; GY_NOMEM; what the collectives failed with: a failure reaches all ranks
 * @cost two allgathers; ranks * the longest part of memory
 */
GY_MUST_CHECK gy_status gy_train_gather_bytes(gy_comm *comm, const void *mine,
                                              size_t size_bytes, gy_text *all, size_t *begins);

#endif
