/**
 * Small objects that a vertex will read, fetched before it asks for them: what costs their
 * readers time is the way to the store and back, which many go at once.
 */
#ifndef GY_FLOW_OBJECTS_PREFETCH_H
#define GY_FLOW_OBJECTS_PREFETCH_H

#include "flow/channel/channel.h"

enum { GY_OBJECTS_AT_ONCE = 16 };

typedef struct gy_objects_prefetch gy_objects_prefetch;

/**
 * Begin to fetch, in their order, an order's objects from `first` on that are small: a quarter
 * of the budget at most. Fetched bytes that nobody took yet stay within the budget.
 *
 * @param order,is_cancelled borrowed until the end
 * @param ahead NULL when there is nothing that could overlap
 * @return GY_OK; GY_NOMEM
 */
GY_MUST_CHECK gy_status gy_objects_prefetch_begin(gy_env *env, const gy_flow_task *order,
                                                  uint32_t first, size_t budget_bytes,
                                                  const _Atomic bool *is_cancelled,
                                                  gy_objects_prefetch **ahead);
/** End the requests and free what nobody took. NULL is fine. */
void gy_objects_prefetch_end(gy_objects_prefetch *ahead);

/**
 * The whole range of an input, waited for when it is on its way.
 *
 * @param data the caller's, to gy_free; NULL: it is not fetched here, and will not be
 * @return GY_OK; GY_CANCELLED; what fetching it came to, as gy_place_read; GY_STATE it is
 * shorter than it was
 */
GY_MUST_CHECK gy_status gy_objects_prefetch_take(gy_objects_prefetch *ahead, uint32_t input,
                                                 char **data, size_t *size_bytes);

#endif
