/**
 * Symbolic values: the contents of a block as an ordered tree of the ranks' contributions.
 * Equal trees have equal numbers, so two ranks have the same bits exactly when they have the
 * same number.
 */
#ifndef GY_PLAN_VALUES_PRIV_H
#define GY_PLAN_VALUES_PRIV_H

#include "base/index.h"
#include "plan/plan.h"

#define GY_VALUE_NONE UINT32_C(0) /* never written */
#define GY_VALUE_BAD  UINT32_MAX  /* out of memory */

typedef struct gy_plan_value {
    uint32_t left, right; /* 0, 0: the input of rank `first` */
    int32_t block;
    int32_t first, last, leaves; /* leftmost and rightmost rank, number of contributions */
    bool is_ordered;             /* ranks first..last in order */
    bool is_fold;                /* ((first op ..) op ..) op last */
} gy_plan_value;

typedef struct gy_plan_values {
    gy_plan_value *items; /* [0] is unused */
    size_t count, capacity;
    gy_index table; /* by content */
    uint64_t *sets; /* (count, words) bit sets of contributing ranks */
    size_t sets_capacity, words;
} gy_plan_values;

GY_MUST_CHECK gy_status gy_plan_values_init(gy_plan_values *values, int ranks);
void gy_plan_values_fini(gy_plan_values *values);
/** The input of a rank. GY_VALUE_BAD: out of memory. */
uint32_t gy_plan_value_leaf(gy_plan_values *values, int rank, int32_t block);
/** left op right. `*doubled` becomes a rank that contributes to both, or -1. */
uint32_t gy_plan_value_join(gy_plan_values *values, uint32_t left, uint32_t right,
                            int *doubled);
/** The lowest of the first `ranks` ranks that does not contribute, -1 if all do. */
int gy_plan_value_missing(const gy_plan_values *values, uint32_t value, int ranks);

#endif
