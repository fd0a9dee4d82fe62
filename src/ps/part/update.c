/* What a gradient does to rows: one pass over parameter, gradient and state. */
#include "ps/part/part_priv.h"

#include <assert.h>
#include <math.h>

#define REAL       float
#define NAME(name) name##_f32
#define SQRT       sqrtf
#include "ps/part/update.inc"
#undef REAL
#undef NAME
#undef SQRT
#define REAL       double
#define NAME(name) name##_f64
#define SQRT       sqrt
#include "ps/part/update.inc"
#undef REAL
#undef NAME
#undef SQRT

typedef struct update_row {
    int slots;
    bool counts;
    void (*f32)(const ps_step *step), (*f64)(const ps_step *step);
} update_row;

static void sum_f32(const ps_step *step)
{
    add_f32(step->values, step->gradient, step->count);
}

static void sum_f64(const ps_step *step)
{
    add_f64(step->values, step->gradient, step->count);
}

static const update_row rows[] = {
    [GY_PS_SUM] = {0, false, sum_f32, sum_f64},
    [GY_PS_SGD] = {0, false, sgd_f32, sgd_f64},
    [GY_PS_MOMENTUM] = {1, false, momentum_f32, momentum_f64},
    [GY_PS_NESTEROV] = {1, false, momentum_f32, momentum_f64},
    [GY_PS_ADAGRAD] = {1, false, adagrad_f32, adagrad_f64},
    [GY_PS_ADAM] = {2, true, adam_f32, adam_f64},
    [GY_PS_ADAMW] = {2, true, adam_f32, adam_f64},
    [GY_PS_FTRL] = {2, false, ftrl_f32, ftrl_f64},
    [GY_PS_FUNCTION] = {0, false, NULL, NULL},
};
static_assert(GY_COUNT(rows) == GY_PS_UPDATES, "a row for each update");

int gy_ps_update_slots(gy_ps_update update)
{
    GY_ASSERT(update < GY_PS_UPDATES);
    return rows[update].slots;
}

bool gy_ps_update_counts(gy_ps_update update)
{
    GY_ASSERT(update < GY_PS_UPDATES);
    return rows[update].counts;
}

/* Whole numbers wrap around, as unsigned ones do. */
static void add_i64(uint64_t *to, const uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

void gy_ps_update_apply(const ps_step *step)
{
    const gy_ps_table_options *table = step->table;
    GY_ASSERT(table->update < GY_PS_UPDATES && table->update != GY_PS_FUNCTION);
    if (table->dtype == GY_I64) {
        GY_ASSERT(table->update == GY_PS_SUM);
        add_i64(step->values, step->gradient, step->count);
    } else if (table->dtype == GY_F32) {
        rows[table->update].f32(step);
    } else {
        rows[table->update].f64(step);
    }
}

void gy_ps_values_add(gy_dtype dtype, void *to, const void *from, size_t count)
{
    if (dtype == GY_I64) {
        add_i64(to, from, count);
    } else if (dtype == GY_F32) {
        add_f32(to, from, count);
    } else {
        add_f64(to, from, count);
    }
}

void gy_ps_values_scale(gy_dtype dtype, void *values, size_t count, double by)
{
    GY_ASSERT(dtype != GY_I64);
    if (dtype == GY_F32) {
        scale_f32(values, count, (float)by);
    } else {
        scale_f64(values, count, by);
    }
}

size_t gy_ps_values_find_non_finite(gy_dtype dtype, const void *values, size_t count)
{
    if (dtype == GY_I64) {
        return count;
    }
    return dtype == GY_F32 ? find_non_finite_f32(values, count)
                           : find_non_finite_f64(values, count);
}
