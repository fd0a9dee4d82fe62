/*
 * What a step says: effects, notes in words, the timer, the end.
 */
#include "cluster/names/names_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gy_names_no_memory(gy_names *names, gy_status status)
{
    names->status = status < 0 ? GY_NOMEM : names->status;
}

gy_names_effect *gy_names_emit(gy_names *names, gy_names_effect_kind kind)
{
    static _Thread_local gy_names_effect nowhere; /* without memory the step is void anyway */
    gy_names_effects *out = names->effects;
    void *items = out->items;
    if (gy_reserve("names.effects", &items, &out->capacity, out->count + 1,
                   sizeof(gy_names_effect)) < 0) {
        gy_names_no_memory(names, GY_NOMEM);
        return &nowhere;
    }
    out->items = items;
    gy_names_effect *effect = &out->items[out->count++];
    *effect = (gy_names_effect){.kind = kind};
    return effect;
}

const char *gy_names_text(gy_names *names, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = gy_arena_alloc(&names->texts, (size_t)size + 1);
    if (text != NULL) {
        vsnprintf(text, (size_t)size + 1, format, again);
    } else {
        gy_names_no_memory(names, GY_NOMEM);
    }
    va_end(again);
    return text != NULL ? text : "out of memory";
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

bool gy_names_take_text(char *to, size_t size_bytes, const char *text)
{
    size_t size = text == NULL ? 0 : strnlen(text, size_bytes);
    if (size >= size_bytes) {
        return false;
    }
    if (size > 0) {
        memcpy(to, text, size);
    }
    to[size] = '\0';
    return true;
}
