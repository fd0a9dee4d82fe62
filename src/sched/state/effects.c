/* What a step emits: effects, notes, the timer, the end. */
#include "sched/state/state.h"

#include <stdarg.h>

#ifdef GYRE_PLANTED
gy_plant gy_manager_planted;
#endif

GY_EFFECT_OF(effect_new, gy_effects, gy_effect, "manager.effects")

gy_effect *gy_manager_emit(gy_manager *manager, gy_effect_kind kind)
{
    gy_effect *effect = effect_new(manager->effects, &manager->status);
    *effect = (gy_effect){.kind = kind,
                          .process = GY_NONE,
                          .host = GY_NONE,
                          .stage = GY_NONE,
                          .id = {.task = GY_TASK_NONE}};
    return effect;
}

const char *gy_manager_text(gy_manager *manager, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = gy_step_text(&manager->texts, &manager->status, format, args);
    va_end(args);
    return text;
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

void gy_manager_note_host(gy_manager *manager, uint32_t host, const char *reason)
{
    gy_effect *note = gy_manager_emit(manager, GY_EFFECT_NOTE);
    note->host = host;
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

void gy_manager_note_wait(gy_manager *manager, uint32_t task, const char *reason)
{
    if (manager->noted_wait != task) {
        manager->noted_wait = task;
        gy_manager_note_task(manager, task, reason);
    }
}
