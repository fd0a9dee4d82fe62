/**
 * Prefetches small objects before their vertex reads them: the round trip to the store
 * dominates their cost, and many requests can be under way at once.
 */
#ifndef GY_FLOW_OBJECTS_PREFETCH_H
#define GY_FLOW_OBJECTS_PREFETCH_H

#include "flow/channel/channel.h"

enum { GY_OBJECTS_AT_ONCE = 16 };

typedef struct gy_objects_prefetch gy_objects_prefetch;

/**
 * Begin to fetch an order's small objects (at most a quarter of the budget each) from `first`
 * on, in order. Fetched bytes that are not taken yet stay within the budget.
 *
 * @param order,is_cancelled borrowed until the end
 * @param ahead NULL when there is nothing to overlap
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_objects_prefetch_begin(gy_env *env, const gy_flow_task *order,
                                                  uint32_t first, size_t budget_bytes,
                                                  const _Atomic bool *is_cancelled,
                                                  gy_objects_prefetch **ahead);
/** Cancel the requests and free bytes that were not taken. NULL is fine. */
void gy_objects_prefetch_end(gy_objects_prefetch *ahead);

/**
 * Take the whole range of an input; waits when it is under way.
 *
 * @param data the caller's, to gy_free; NULL: it is not prefetched and will not be
 * @return GY_OK; GY_CANCELLED; the failure of the request, as gy_place_read; GY_STATE it is
 *     shorter than it was
 */
GY_MUST_CHECK gy_status gy_objects_prefetch_take(gy_objects_prefetch *ahead, uint32_t input,
                                                 char **data, size_t *size_bytes);

#endif
