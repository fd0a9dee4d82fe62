/**
 * What a step of each machine stands on: effects that are added, texts that last as long as the
 * step, texts that are kept. Memory that fails makes the step void: that is remembered in the
 * machine's status, and whoever speaks goes on as if nothing were.
 */
#ifndef GY_BASE_STEP_H
#define GY_BASE_STEP_H

#include "base/base.h"

#include <stdarg.h>

/**
 * NAME: one more of EFFECTS (items, count, capacity, nowhere), not filled in, valid until the
 * next. Never NULL: without memory *status is GY_NOMEM, and it is one that nobody reads.
 */
#define GY_EFFECT_OF(NAME, EFFECTS, EFFECT, TAG)                                               \
    static inline EFFECT *NAME(EFFECTS *out, gy_status *status)                                \
    {                                                                                          \
        void *items = out->items;                                                              \
        if (gy_reserve(TAG, &items, &out->capacity, out->count + 1, sizeof(EFFECT)) < 0) {     \
            *status = GY_NOMEM;                                                                \
            return &out->nowhere;                                                              \
        }                                                                                      \
        out->items = items;                                                                    \
        return &out->items[out->count++];                                                      \
    }

/** A text in `texts`; without memory *status is GY_NOMEM. Never NULL. */
const char *gy_step_text(gy_arena *texts, gy_status *status, const char *format, va_list args)
    GY_PRINTF(3, 0);

/** Keep a text; false: it does not fit (and is not kept). NULL is "". */
bool gy_step_take_text(char *to, size_t size_bytes, const char *text);

#endif
