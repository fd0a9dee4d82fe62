#include "plan/values_priv.h"

#include "base/base.h"

#include <string.h>

gy_status gy_plan_values_init(gy_plan_values *values, int ranks)
{
    *values = (gy_plan_values){.words = ((size_t)ranks + 63) / 64};
    values->items = gy_alloc_zero("plan.values", 1, sizeof(gy_plan_value));
    values->sets = gy_alloc_zero("plan.values", values->words, sizeof(uint64_t));
    if (values->items == NULL || values->sets == NULL) {
        gy_plan_values_fini(values);
        return GY_NOMEM;
    }
    values->count = values->capacity = 1;
    values->sets_capacity = values->words;
    return GY_OK;
}

void gy_plan_values_fini(gy_plan_values *values)
{
    gy_index_free(&values->table);
    gy_free(values->items);
    gy_free(values->sets);
    *values = (gy_plan_values){.items = NULL};
}

/* The number of a value: an existing one if it is known. For a new one the caller computes the
 * set. */
static uint32_t intern(gy_plan_values *values, const gy_plan_value *value, bool *is_new)
{
    *is_new = false;
    const uint64_t tree[2] = {(uint64_t)value->left << 32 | value->right,
                              (uint64_t)(uint32_t)value->first << 32 | (uint32_t)value->block};
    const gy_key key = gy_key_of(tree, sizeof(tree));
    const uint32_t known = gy_index_find(&values->table, key);
    if (known != GY_NONE) {
        return known;
    }
    size_t words = (values->count + 1) * values->words;
    if (GY_GROW("plan.values", values->items, values->capacity, values->count + 1) != GY_OK) {
        return GY_VALUE_BAD;
    }
    if (GY_GROW("plan.values", values->sets, values->sets_capacity, words) != GY_OK) {
        return GY_VALUE_BAD;
    }
    uint32_t number = (uint32_t)values->count;
    if (gy_index_put(&values->table, key, number) != GY_OK) {
        return GY_VALUE_BAD;
    }
    values->count++;
    values->items[number] = *value;
    memset(&values->sets[number * values->words], 0, values->words * sizeof(uint64_t));
    *is_new = true;
    return number;
}

uint32_t gy_plan_value_leaf(gy_plan_values *values, int rank, int32_t block)
{
    bool is_new = false;
    uint32_t number = intern(values,
                             &(gy_plan_value){.block = block,
                                              .first = rank,
                                              .last = rank,
                                              .leaves = 1,
                                              .is_ordered = true,
                                              .is_fold = true},
                             &is_new);
    if (is_new) {
        values->sets[number * values->words + (size_t)rank / 64] |= UINT64_C(1) << (rank % 64);
    }
    return number;
}

uint32_t gy_plan_value_join(gy_plan_values *values, uint32_t left, uint32_t right, int *doubled)
{
    const gy_plan_value *a = &values->items[left], *b = &values->items[right];
    *doubled = -1;
    for (size_t word = 0; word < values->words; word++) {
        uint64_t common = values->sets[left * values->words + word] &
                          values->sets[right * values->words + word];
        if (common != 0) {
            *doubled = (int)(word * 64) + __builtin_ctzll(common);
            return GY_VALUE_NONE;
        }
    }
    bool follows = a->last + 1 == b->first;
    gy_plan_value value = {.left = left,
                           .right = right,
                           .block = a->block,
                           .first = a->first,
                           .last = b->last,
                           .leaves = a->leaves + b->leaves,
                           .is_ordered = a->is_ordered && b->is_ordered && follows,
                           .is_fold = a->is_fold && b->leaves == 1 && follows};
    bool is_new = false;
    uint32_t number = intern(values, &value, &is_new);
    for (size_t word = 0; is_new && word < values->words; word++) {
        values->sets[number * values->words + word] =
            values->sets[left * values->words + word] |
            values->sets[right * values->words + word];
    }
    return number;
}

int gy_plan_value_missing(const gy_plan_values *values, uint32_t value, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t word = values->sets[value * values->words + (size_t)rank / 64];
        if ((word >> (rank % 64) & 1) == 0) {
            return rank;
        }
    }
    return -1;
}
