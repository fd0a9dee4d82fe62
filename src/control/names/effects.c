/* What a step emits: effects, notes, the timer, the end. */
#include "control/names/names_priv.h"

#include <stdarg.h>

void gy_names_no_memory(gy_names *names, gy_status status)
{
    names->status = status < 0 ? GY_NOMEM : names->status;
}

GY_EFFECT_OF(effect_new, gy_names_effects, gy_names_effect, "names.effects")

gy_names_effect *gy_names_emit(gy_names *names, gy_names_effect_kind kind)
{
    gy_names_effect *effect = effect_new(names->effects, &names->status);
    *effect = (gy_names_effect){.kind = kind};
    return effect;
}

const char *gy_names_text(gy_names *names, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = gy_step_text(&names->texts, &names->status, format, args);
    va_end(args);
    return text;
}

void gy_names_answer(gy_names *names, uint64_t asker, gy_status status, const char *reason)
{
    gy_names_effect *answer = gy_names_emit(names, GY_NAMES_ANSWER);
    answer->asker = asker;
    answer->status = status;
    answer->reason = reason;
}

void gy_names_note_job(gy_names *names, uint32_t job, const char *reason)
{
    gy_names_effect *note = gy_names_emit(names, GY_NAMES_NOTE);
    note->key = names->jobs[job].key;
    note->epoch = names->jobs[job].facts.epoch;
    note->reason = reason;
}

void gy_names_note_daemon(gy_names *names, uint32_t daemon, const char *reason)
{
    gy_names_effect *note = gy_names_emit(names, GY_NAMES_NOTE);
    note->id = names->daemons[daemon].id;
    note->reason = reason;
}

void gy_names_wake(gy_names *names, int64_t at_ns)
{
    if (at_ns < names->timer_ns) {
        names->timer_ns = at_ns;
        gy_names_emit(names, GY_NAMES_WAKE)->at_ns = at_ns;
    }
}

void gy_names_end(gy_names *names, gy_status status, const char *reason)
{
    if (names->phase == NAMES_ENDED) {
        return;
    }
    names->phase = NAMES_ENDED;
    gy_names_effect *end = gy_names_emit(names, GY_NAMES_END);
    end->status = status;
    end->reason = reason;
}
