/*
 * What a step says: effects, notes in words, the timer, the end.
 */
#include "cluster/manager/manager_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gy_effect *gy_manager_emit(gy_manager *manager, gy_effect_kind kind)
{
    static _Thread_local gy_effect nowhere; /* without memory the step is void anyway */
    gy_effects *out = manager->effects;
    void *items = out->items;
    if (gy_reserve("manager.effects", &items, &out->capacity, out->count + 1,
                   sizeof(gy_effect)) < 0) {
        manager->status = GY_NOMEM;
        return &nowhere;
    }
    out->items = items;
    gy_effect *effect = &out->items[out->count++];
    *effect = (gy_effect){
        .kind = kind, .process = GY_NONE, .stage = GY_NONE, .id = {.task = GY_TASK_NONE}};
    return effect;
}

const char *gy_manager_text(gy_manager *manager, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = gy_arena_alloc(&manager->texts, (size_t)size + 1);
    if (text != NULL) {
        vsnprintf(text, (size_t)size + 1, format, again);
    } else {
        manager->status = GY_NOMEM;
    }
    va_end(again);
    return text != NULL ? text : "out of memory";
}

void gy_manager_note_task(gy_manager *manager, uint32_t task, const char *reason)
{
    const task_row *row = &manager->rows[task];
    gy_effect *note = gy_manager_emit(manager, GY_EFFECT_NOTE);
    note->id = (gy_attempt){.task = task, .epoch = row->epoch, .attempt = row->attempt};
    note->stage = row->stage;
    note->reason = reason;
}

void gy_manager_note_process(gy_manager *manager, uint32_t process, const char *reason)
{
    gy_effect *note = gy_manager_emit(manager, GY_EFFECT_NOTE);
    note->process = process;
    note->generation = manager->slots[process].generation;
    note->reason = reason;
}

void gy_manager_wake(gy_manager *manager, int64_t at_ns)
{
    if (at_ns < manager->timer_ns) {
        manager->timer_ns = at_ns;
        gy_manager_emit(manager, GY_EFFECT_TIMER)->at_ns = at_ns;
    }
}

void gy_manager_end(gy_manager *manager, gy_status status, const char *reason)
{
    if (manager->phase == PHASE_ENDED) {
        return;
    }
    manager->phase = PHASE_ENDED;
    if (status < 0 && manager->has_begun) {
        gy_manager_write_end(manager, status, reason);
    }
    gy_effect *end = gy_manager_emit(manager, GY_EFFECT_END);
    end->status = status;
    end->reason = reason;
}
